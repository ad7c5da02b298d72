// The page's frame: the key, the tabs, the live state, light and dark. Each view is a module that
// exports `title` and `show(place, context)`, which may return a function that ends it.

import "./styles/base.css";
import "uplot/dist/uPlot.min.css";
import "./styles/parts.css";
import "./styles/views.css";
import "./styles/print.css";

import { get, post } from "./api.js";
import { redrawCharts } from "./chart.js";
import { h, note, say, svg } from "./dom.js";
import { Feed } from "./feed.js";
import * as attack from "./views/attack.js";
import * as boundary from "./views/boundary.js";
import * as choose from "./views/choose.js";
import * as graph from "./views/graph.js";
import * as known from "./views/known.js";
import * as ledger from "./views/ledger.js";
import { login } from "./views/login.js";
import * as values from "./views/values.js";

const VIEWS = { known, boundary, values, choose, ledger, graph, attack };
const main = document.getElementById("main");
const tabs = document.getElementById("tabs");
const tools = document.getElementById("tools");

let me = null;
let feed = null;
let shown = { name: null, end: null };

function place() {
  const [name, search] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    name: Object.hasOwn(VIEWS, name) ? name : "known",
    query: new URLSearchParams(search),
  };
}

/** The view's own choices go into its address, so that it can be kept and sent. */
function remember(choices) {
  const { name } = place();
  const query = new URLSearchParams(Object.entries(choices).filter(([, value]) => value));
  const search = query.toString();
  history.replaceState(null, "", `#/${name}${search ? `?${search}` : ""}`);
}

function route({ focus = true } = {}) {
  if (!me) return;
  if (location.hash === "#main") return void main.focus();
  const { name, query } = place();
  shown.end?.();
  const view = VIEWS[name];
  const title = h("h1", { tabindex: -1 }, view.title);
  const content = h("div", { class: `view ${name}` });
  main.replaceChildren(
    h("header", { class: "head" }, title, view.about ? h("p", null, view.about) : null),
    content,
  );
  shown = { name, end: view.show(content, { me, feed, query, remember }) ?? null };
  document.title = `${view.title} · RootGuard console`;
  for (const link of tabs.querySelectorAll("a")) {
    if (link.dataset.view === name) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center", behavior: "instant" });
    } else link.removeAttribute("aria-current");
  }
  if (focus) {
    window.scrollTo(0, 0);
    title.focus({ preventScroll: true });
  }
}

const DARK = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : DARK.matches;
}

function themeButton() {
  const half = svg(
    "svg",
    { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    svg("circle", { cx: 8, cy: 8, r: 6.5 }),
    svg("path", { d: "M8 1.5a6.5 6.5 0 0 1 0 13z" }),
  );
  const button = h("button", { type: "button", class: "quiet theme", onclick: turn }, half);
  const label = () => {
    const to = isDark() ? "light" : "dark";
    button.setAttribute("aria-label", `Switch to ${to} colours`);
    button.title = `Switch to ${to} colours`;
  };
  function turn() {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("rootguard-theme", next);
    } catch {
      // The choice then lasts as long as the page.
    }
    label();
    redrawCharts();
  }
  DARK.addEventListener("change", () => {
    label();
    redrawCharts();
  });
  label();
  return button;
}

const STATES = {
  loading: "Connecting",
  live: "Live",
  lost: "Disconnected",
  failed: "Disconnected",
};

function stateOf(feed) {
  const text = h("span", null);
  const element = h("p", { class: "state" }, text);
  let before = null;
  const update = () => {
    element.dataset.state = feed.state;
    text.textContent = STATES[feed.state];
    const lost = feed.state === "lost" || feed.state === "failed";
    if (lost && before === "live") say("Disconnected. Trying to connect again.");
    if (feed.state === "live" && before === "lost") say("Connected again.");
    before = feed.state === "lost" ? "lost" : feed.state;
  };
  feed.addEventListener("state", update);
  update();
  return element;
}

const theme = themeButton();

function frame() {
  tabs.toggleAttribute("data-empty", !me);
  tabs.replaceChildren(
    ...Object.entries(VIEWS).map(([name, view]) =>
      h("a", { href: `#/${name}`, "data-view": name }, h("span", null, view.tab ?? view.title)),
    ),
  );
  const person = me && h("p", { class: "person", title: `RootGuard ${me.version}` }, me.principal);
  const leave = me && h("button", { type: "button", class: "quiet", onclick: signOut }, "Sign out");
  tools.replaceChildren(...[me && stateOf(feed), person, theme, leave].filter(Boolean));
}

function askForKey(sentence = "") {
  feed?.stop();
  shown.end?.();
  shown = { name: null, end: null };
  me = null;
  feed = null;
  frame();
  document.title = "Key · RootGuard console";
  main.replaceChildren(login({ sentence, onopen: open }));
}

async function signOut() {
  try {
    await post("logout");
  } finally {
    askForKey("You are signed out.");
  }
}

async function open() {
  try {
    ({ body: me } = await get("me"));
  } catch (problem) {
    if (problem.status === 401) return askForKey();
    main.replaceChildren(note(problem.message, { error: true, retry: open }));
    return;
  }
  feed = new Feed();
  frame();
  route({ focus: false });
  feed.start();
}

/** A key in the address is used once and taken out of the address and its history. */
async function begin() {
  const key = location.hash.startsWith("#key=") ? decodeURIComponent(location.hash.slice(5)) : null;
  if (key !== null) {
    history.replaceState(null, "", location.pathname);
    try {
      await post("login", { key });
    } catch (problem) {
      if (problem.status === 401)
        return askForKey("The key in this address is not valid any more.");
    }
  }
  await open();
}

window.addEventListener("hashchange", () =>
  location.hash.startsWith("#key=") ? begin() : route(),
);
window.addEventListener("signed-out", () => me && askForKey("The key is needed again."));

let theirs = null;
window.addEventListener("beforeprint", () => {
  theirs = document.documentElement.dataset.theme ?? "";
  document.documentElement.dataset.theme = "light";
  redrawCharts();
});
window.addEventListener("afterprint", () => {
  if (theirs) document.documentElement.dataset.theme = theirs;
  else delete document.documentElement.dataset.theme;
  redrawCharts();
});

frame();
begin();
