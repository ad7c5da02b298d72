// The key's page: the only one without a key.

import { post } from "../api.js";
import { freshId, h } from "../dom.js";

export function login({ sentence, onopen }) {
  const id = freshId("key");
  const trouble = h("p", { class: "trouble", role: "alert" }, sentence);
  const box = h("input", {
    id,
    type: "password",
    autocomplete: "current-password",
    spellcheck: "false",
    required: true,
    "aria-describedby": `${id}-help`,
  });
  const button = h("button", { type: "submit", class: "main" }, "Open the console");
  const form = h(
    "form",
    { class: "login", novalidate: true },
    h("h1", null, "See what was sent"),
    h(
      "p",
      null,
      "What services were told about you, and what it cost. No raw value is on these pages.",
    ),
    h("label", { for: id }, "Key"),
    box,
    h(
      "p",
      { class: "help", id: `${id}-help` },
      "In the gateway, your API key. Otherwise open the address that ",
      h("code", null, "rootguard console"),
      " printed: the key is in it.",
    ),
    trouble,
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!box.value) {
      trouble.textContent = "Type the key first.";
      return box.focus();
    }
    button.disabled = true;
    try {
      await post("login", { key: box.value });
      box.value = "";
      await onopen();
    } catch (problem) {
      trouble.textContent =
        problem.status === 401 ? "That key is not known here." : problem.message;
      box.select();
    } finally {
      button.disabled = false;
    }
  });
  queueMicrotask(() => box.focus());
  return form;
}
