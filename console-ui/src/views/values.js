// The owner's own values: enter one, change one at a price that is approved first, or correct a slip
// before anybody saw it. What is typed goes to the server once, when it is approved, and is not shown.

import { get, post } from "../api.js";
import { freshId, h, note, say } from "../dom.js";
import { list, number, written } from "../format.js";

export const title = "Your values";
export const tab = "Values";
export const about =
  "Enter a value, change one, or correct a slip. Nothing is noised before you approve the price.";

const price = (amount) => `ε ${number(amount, 3)}`;
const isNumber = (value) => value.type === "number" || value.type === "count";

/** What a form asks for, in the words of `rootguard init`. */
const bounds = (value) => written(value.wanted);

function state(value) {
  if (value.public) return "public: stored as it is, at no cost";
  if (!value.affordable)
    return `its cap of ${price(value.cap)} is reached; raise it with rootguard vault spend --cap`;
  const spent = value.spent > 0 ? `spent ${price(value.spent)}` : "nothing spent";
  const cap = value.cap === null ? "" : ` of at most ${price(value.cap)}`;
  return `${value.noised ? "noised" : "not entered yet"} · ${spent}${cap}`;
}

function box(value, id) {
  const shared = { id, autocomplete: "off", disabled: !value.affordable };
  shared["aria-describedby"] = `${id}-help`;
  const answers = value.type === "boolean" ? ["yes", "no"] : value.answers;
  if (value.type === "boolean" || value.type === "category")
    return h(
      "select",
      shared,
      h("option", { value: "" }, value.noised ? "unchanged" : "not given"),
      answers.map((each) => h("option", { value: each }, each)),
    );
  if (value.type === "date")
    return h("input", { ...shared, type: "date", min: value.lower, max: value.upper });
  return h("input", { ...shared, type: "text", inputmode: "decimal", spellcheck: "false" });
}

/** What is wrong with an entry, in words; empty if it may be sent. */
function wrong(value, text) {
  if (!isNumber(value)) return "";
  const typed = Number(text.replace(",", "."));
  if (!Number.isFinite(typed)) return `This is not a number. Write ${bounds(value)}.`;
  if (value.type === "count" && !Number.isInteger(typed)) return "Write a whole number.";
  if (typed < value.lower || typed > value.upper)
    return `Usually ${bounds(value)}. Check the unit.`;
  return "";
}

function row(value) {
  const id = freshId("value");
  const input = box(value, id);
  const trouble = h("p", { class: "trouble", id: `${id}-trouble` });
  const element = h(
    "div",
    { class: "entry", "data-root": value.name },
    h("label", { for: id }, value.title, " ", h("code", null, value.name)),
    input,
    h("p", { class: "help", id: `${id}-help` }, `${bounds(value)} · ${state(value)}`),
    trouble,
  );
  return {
    value,
    element,
    input,
    text: () => input.value.trim(),
    tell(sentence) {
      trouble.textContent = sentence;
      input.setAttribute("aria-invalid", String(Boolean(sentence)));
      input.setAttribute("aria-describedby", sentence ? `${id}-help ${id}-trouble` : `${id}-help`);
    },
  };
}

/** The price as a person counts: which draw of a value it is, and how many there may be. */
function draws(value) {
  if (value.public || value.price === 0) return "";
  const before = Math.round(value.spent / value.price);
  const most =
    value.cap === null ? "" : ` of at most ${Math.floor(value.cap / value.price + 1e-6)}`;
  return `${value.title}: draw ${before + 1}${most}`;
}

function offer(dialog, entered, unseen, approve) {
  const names = list(entered.map((each) => each.value.title));
  const total = entered.reduce((sum, each) => sum + each.value.price, 0);
  const twice = entered.filter((each) => each.value.in_profile).map((each) => each.value.title);
  const trouble = h("div", null);
  const yes = h("button", { type: "button", class: "main" }, "Approve and noise");
  const no = h("button", { type: "button" }, unseen ? "Go back" : "Refuse: keep what is noised");
  no.addEventListener("click", () => dialog.close());
  yes.addEventListener("click", async () => {
    yes.disabled = true;
    trouble.replaceChildren(note("Noising…", { busy: true }));
    try {
      await approve();
    } catch (problem) {
      trouble.replaceChildren(note(problem.message, { error: true }));
      yes.disabled = false;
    }
  });
  const heading = freshId("offer");
  dialog.setAttribute("aria-labelledby", heading);
  dialog.replaceChildren(
    h("h2", { id: heading }, unseen ? "Enter your values anew?" : "Change what is noised?"),
    h("p", null, `${names}.`),
    h(
      "dl",
      { class: "figures" },
      h(
        "div",
        null,
        h("dt", null, unseen ? "epsilon, in place of what was spent" : "epsilon at most"),
        h("dd", null, number(total, 3)),
      ),
    ),
    unseen
      ? ""
      : h(
          "p",
          null,
          `${entered
            .map((each) => draws(each.value))
            .filter(Boolean)
            .join(", ")}. Every draw tells a little more about you to who sees them all.`,
        ),
    h(
      "p",
      { class: "help" },
      unseen
        ? "Nobody was given anything of the first draw, so it is thrown away and its price with it. The total stays the price of one draw. Programs that are running have to be started again."
        : "A value that was noised before costs nothing again. Services that ask from now on are answered from the new value; what they were told stays told. This cannot be undone.",
    ),
    twice.length > 0
      ? h(
          "p",
          { class: "help" },
          `Your profile holds ${list(twice)} under [values] too. Change it there as well: it counts again when the profile is opened next.`,
        )
      : "",
    trouble,
    h("div", { class: "bar" }, yes, no),
  );
  dialog.showModal();
  no.focus();
}

export function show(place) {
  const body = h("div", null);
  const dialog = h("dialog", { class: "offer" });
  place.append(body, dialog);
  let over = false;

  function form(data, sentence) {
    const rows = data.values.map(row);
    const result = h("p", { class: "lead" }, sentence);
    const submit = h("button", { type: "submit", class: "main" }, "See the price");
    const element = h(
      "form",
      { class: "card entries", novalidate: true },
      h(
        "p",
        null,
        data.unseen
          ? "Nothing was released yet. To correct a slip, enter every noised value again: it costs nothing more, because nobody saw the first draw."
          : "Leave a field empty to keep its value as it is. What is noised is not shown here.",
      ),
      rows.map((each) => each.element),
      h("div", { class: "bar" }, submit),
      result,
    );
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      result.textContent = "";
      const entered = rows.filter((each) => each.text() !== "");
      for (const each of rows) {
        const missing =
          data.unseen && each.value.noised && !each.value.in_profile && each.text() === "";
        each.tell(missing ? "Enter this one again as well." : "");
        if (each.text() !== "") each.tell(wrong(each.value, each.text()));
      }
      const first = rows.find((each) => each.input.getAttribute("aria-invalid") === "true");
      if (first) return first.input.focus();
      if (entered.length === 0) {
        result.textContent = "Nothing was entered, so nothing changes.";
        say(result.textContent);
        return rows[0]?.input.focus();
      }
      offer(dialog, entered, data.unseen, async () => {
        const values = Object.fromEntries(entered.map((each) => [each.value.name, each.text()]));
        const { charged } = await post("changes", { approved: true, values });
        dialog.close();
        const told = entered.map(
          ({ value }) =>
            `${value.title}: ${charged[value.name] > 0 ? price(charged[value.name]) : "nothing, it was noised before"}`,
        );
        await load(`Done. Charged: ${list(told)}.`);
      });
    });
    return element;
  }

  async function load(sentence = "") {
    if (!sentence) body.replaceChildren(note("Reading what may be changed…", { busy: true }));
    try {
      const { body: data } = await get("changes");
      if (over) return;
      if (!data.allowed) body.replaceChildren(note(data.why));
      else if (data.values.length === 0)
        body.replaceChildren(note("The profile has no value to enter."));
      else body.replaceChildren(form(data, sentence));
      if (sentence) say(sentence);
    } catch (problem) {
      if (!over) body.replaceChildren(note(problem.message, { error: true, retry: () => load() }));
    }
  }

  load();
  return () => {
    over = true;
    if (dialog.open) dialog.close();
  };
}
