// The audit log, live, newest first.

import { exportLink, h, note, say, select, table } from "../dom.js";
import { clock, count, day, list as words, number, plural, whole, withUnit } from "../format.js";
import { Rows } from "../rows.js";
import {
  changesInWords,
  counted,
  identifiers,
  isIdentifier,
  kindOf,
  sourceOf,
  titlesOf,
} from "../titles.js";

export const title = "Audit log";
export const about =
  "What was asked, what was answered, which of your values each answer uses, and what it cost.";

const KINDS = {
  released: "Answered",
  changed: "Replaced",
  refused: "Refused",
  "unknown-identifier": "Unknown identifier",
  noised: "Noised",
  refined: "Refined",
  "derived-level": "Lower level",
  "table-draw": "From a table",
  returned: "Returned",
  tables: "Tables",
  totals: "Spent before",
  service: "Given before",
  erased: "Erased",
};

const MEANS = {
  released: "Computed from values that were already noised.",
  changed:
    "A request left otherwise than it was written: identifiers as others that are restored in the reply, values as they were released.",
  refused: "Nothing was answered.",
  "unknown-identifier":
    "A reply held something with the form of an identifier that was never issued to you: often the service's own telephone number. It was left as it is. Look closer only if it repeats.",
  noised: "The value was noised and stored. This is what costs budget, once.",
  refined: "A more accurate version was made. Only the difference was paid.",
  "derived-level": "A less accurate version was computed from the stored one.",
  "table-draw": "A released table had shown this draw. The table paid for it.",
  returned: "The value is one that was noised before. That draw is used again.",
  tables: "What released tables had cost when the profile was erased.",
  totals: "What a root had cost in all when the profile was erased.",
  service: "What a service had been given when the profile was erased.",
  erased: "The stored value was deleted.",
};

const FREE = new Set(["released", "derived-level", "table-draw", "returned"]);

// Of a refused request only declared names are stored: any other word may be private.
const UNNAMED = { refused: "A request", changed: "A request", erased: "Everything" };
// One clinic's own telephone number is no alarm; a service that tries out identifiers is.
const REPEATED = 3;

const SHOW = [
  ["", "Everything"],
  ["answered", "Answers"],
  ["changed", "Identifiers and values replaced"],
  ["stopped", "Refused, and unknown identifiers"],
  ["paid", "What cost budget"],
];

function passes({ service, root, show }) {
  return (each) =>
    (!service || each.service === service) &&
    (!root || each.rests_on.includes(root)) &&
    (!show ||
      (show === "answered" && each.kind === "released") ||
      (show === "changed" && each.kind === "changed") ||
      (show === "stopped" && (each.kind === "refused" || each.kind === "unknown-identifier")) ||
      (show === "paid" && each.cost > 0));
}

function asked(each, title) {
  if (each.kind === "unknown-identifier") return kindOf(each.name);
  if (each.kind === "refused" && each.rests_on.length > 0) return words(each.rests_on.map(title));
  return (each.name && title(each.name)) || each.formula || UNNAMED[each.kind] || "–";
}
function secondLine(each, title) {
  if (each.kind === "changed") return changesInWords(each, title);
  return each.reason || (each.name && each.formula ? each.formula : "");
}

function cost(each) {
  if (each.cost > 0) return `ε ${number(each.cost, 3)}`;
  return FREE.has(each.kind) ? "free" : "–";
}

function answer(each, digits = 3) {
  if (each.value === null || each.value === undefined) return "";
  return withUnit(number(each.value, digits), each.unit);
}

/** A number that only the asker knew is kept as "#", and then no answer that would tell it. */
const untold = (each) => each.kind === "released" && each.formula.includes("#");

function answered(each) {
  const text = answer(each);
  return h("b", { class: text ? null : "absent" }, text || "not stored");
}

function badge(each) {
  return h("span", { class: "badge", "data-kind": each.kind }, KINDS[each.kind] ?? each.kind);
}

function draw(each, title) {
  const plain = each.kind === "released";
  return h(
    "div",
    {
      role: "row",
      class: "log-row",
      "data-kind": each.kind,
      "data-id": each.id,
      "data-at": each.at,
    },
    h(
      "div",
      { role: "gridcell", class: "when" },
      h("b", null, clock(each.at)),
      h("small", null, day(each.at)),
    ),
    h(
      "div",
      { role: "gridcell", class: "who" },
      h("b", null, each.service || "–"),
      h("small", null, [each.tier, each.route].filter(Boolean).join(" · ")),
    ),
    h(
      "div",
      { role: "gridcell", class: "asked" },
      h("b", { class: each.formula && !each.name ? "code" : null }, asked(each, title)),
      h("small", { class: each.reason ? null : "code" }, secondLine(each, title)),
    ),
    h(
      "div",
      { role: "gridcell", class: "answered" },
      plain ? answered(each) : badge(each),
      h("small", null, plain ? "" : answer(each)),
    ),
    h(
      "div",
      { role: "gridcell", class: "rests" },
      each.rests_on.map((root) => h("span", { class: "chip" }, title(root))),
    ),
    h("div", { role: "gridcell", class: each.cost > 0 ? "cost paid" : "cost" }, cost(each)),
  );
}

function details(dialog, each, title) {
  const close = h(
    "button",
    { type: "button", class: "quiet", onclick: () => dialog.close() },
    "Close",
  );
  const rows = [
    ["When", whole(each.at)],
    ["Service", each.service || "none"],
    ["Tier", each.tier],
    ["Asked", each.name && [title(each.name), " ", h("code", null, each.name)]],
    ["Formula", each.formula && h("code", null, each.formula)],
    ["Answered", answer(each, 6)],
    ["What was replaced", each.kind === "changed" && changesInWords(each, title)],
    ["Reason", each.kind !== "changed" && each.reason],
    ["Rule", each.rule && h("code", null, each.rule)],
    ["Written by", words([...new Set(each.places.map((place) => sourceOf(place.source)))])],
    ["Your values", words(each.rests_on.map(title))],
    ["Cost", each.cost > 0 ? `epsilon ${number(each.cost, 3)}` : "nothing"],
    ["Route", each.route],
  ].filter(([, value]) => value);
  dialog.replaceChildren(
    h("header", null, h("h2", null, asked(each, title)), badge(each), close),
    h("p", null, MEANS[each.kind] ?? ""),
    untold(each)
      ? h(
          "p",
          { class: "help" },
          "A number in the formula that only the asker knew is stored as #, and no answer that would tell it.",
        )
      : "",
    h(
      "dl",
      null,
      rows.map(([term, value]) => h("div", null, h("dt", null, term), h("dd", null, value))),
    ),
    places(each, title),
  );
  dialog.showModal();
}

/** Where in the request something stood, as far as that may be told. */
function places(each, title) {
  const known = each.places.filter((place) => place.path);
  if (known.length === 0) return "";
  const now = (place) => {
    if (place.change === "refused") return place.root ? `${title(place.root)}, refused` : "refused";
    if (place.root) return `${title(place.root)}, as released`;
    return `${counted(place.change, place.times)} ${isIdentifier(place) ? "replaced" : "taken out"}`;
  };
  return table(
    "Where",
    ["Place", "What is there now"],
    known.map((place) => [h("code", null, place.path), now(place)]),
  );
}

/** Services whose replies hold unknown identifiers again and again. */
function repeating(feed) {
  const times = new Map();
  for (const each of feed.entries)
    if (each.kind === "unknown-identifier")
      times.set(each.service, (times.get(each.service) ?? 0) + 1);
  return [...times].filter(([, many]) => many >= REPEATED);
}

function figures(feed) {
  let paid = 0;
  let refused = 0;
  let unknown = 0;
  let free = 0;
  let replaced = 0;
  for (const each of feed.entries) {
    if (each.cost > 0) paid += each.cost;
    else if (each.kind === "released") free += 1;
    replaced += identifiers(each);
    if (each.kind === "refused") refused += 1;
    if (each.kind === "unknown-identifier") unknown += 1;
  }
  return [
    ["entries", count(feed.total)],
    ["answers at no cost", count(free)],
    ["epsilon paid", number(paid, 3)],
    ["identifiers replaced", count(replaced)],
    ["refused", count(refused)],
    ["unknown identifiers", count(unknown)],
  ];
}

export function show(place, { me, feed, query, remember }) {
  const filter = {
    service: query.get("service") ?? "",
    root: query.get("root") ?? "",
    show: query.get("show") ?? "",
  };
  const title = titlesOf(me);
  const roots = [...new Set(me.templates.flatMap((each) => each.roots))]
    .map((name) => [name, title(name)])
    .sort((a, b) => a[1].localeCompare(b[1]));
  let held = null;
  let missed = 0;

  const options = (first, names) => [["", first], ...[...names].sort().map((name) => [name, name])];
  const services = () =>
    new Set([...me.services, ...feed.entries.map((each) => each.service).filter(Boolean)]);
  const change = (name) => (value) => {
    filter[name] = value;
    remember(filter);
    list();
    say(`${plural(rows.items.length, "entry", "entries")} shown.`);
  };
  const byService = select(
    "Service",
    options("All services", services()),
    filter.service,
    change("service"),
  );
  const byRoot = select("Value", [["", "All values"], ...roots], filter.root, change("root"));
  const byKind = select("Show", SHOW, filter.show, change("show"));
  const pause = h("button", { type: "button", "aria-pressed": "false", onclick: hold }, "Pause");
  const alarm = h("div", { role: "status" });
  const stats = h("dl", { class: "figures" });
  const progress = h("p", { class: "help progress" });
  const dialog = h("dialog", {
    class: "details",
    "aria-label": "Details of an entry",
    onclick: (event) => event.target === dialog && dialog.close(),
  });

  const headings = ["When", "Service", "Asked", "Answered", "Your values", "Cost"];
  const body = h("div", { role: "rowgroup", class: "log-rows" });
  const grid = h(
    "div",
    {
      role: "grid",
      "aria-label": "Audit log, newest first",
      "aria-readonly": "true",
      "aria-colcount": headings.length,
      class: "timeline",
    },
    h(
      "div",
      { role: "rowgroup", class: "heads" },
      h(
        "div",
        { role: "row", "aria-rowindex": 1 },
        headings.map((text) => h("span", { role: "columnheader" }, text)),
      ),
    ),
    body,
  );
  const empty = h("div", null);
  const rows = new Rows({
    body,
    draw: (each) => draw(each, title),
    key: (each) => each.id,
    open: (each) => details(dialog, each, title),
  });

  place.append(
    stats,
    alarm,
    h(
      "div",
      { class: "bar" },
      byService.element,
      byRoot.element,
      byKind.element,
      pause,
      exportLink(),
    ),
    progress,
    grid,
    empty,
    dialog,
  );

  function visible() {
    const test = passes(filter);
    return feed.entries.filter((each) => test(each) && (held === null || each.id <= held));
  }

  function list(added = 0) {
    const before = rows.items.length;
    const items = visible();
    rows.set(items, added ? Math.max(0, items.length - before) : 0);
    grid.setAttribute("aria-rowcount", items.length + 1);
    status();
  }

  function status() {
    stats.replaceChildren(
      ...figures(feed).map(([term, value]) =>
        h("div", null, h("dt", null, term), h("dd", null, value)),
      ),
    );
    alarm.replaceChildren(
      ...repeating(feed).map(([service, many]) =>
        h(
          "p",
          { class: "alarm" },
          `${many} replies of ${service || "a service"} held identifiers that were never issued to you. It may be trying them out: look at what it was told and whether it needs to ask.`,
        ),
      ),
    );
    const none = rows.items.length === 0;
    grid.hidden = none;
    const reading = !feed.complete && feed.entries.length > 0 && feed.entries.length < feed.total;
    progress.hidden = !reading;
    progress.textContent = reading
      ? `Reading older entries: ${count(feed.entries.length)} of ${count(feed.total)}.`
      : "";
    if (feed.state === "failed")
      empty.replaceChildren(note(feed.problem, { error: true, retry: () => feed.start() }));
    else if (!none) empty.replaceChildren(lost());
    else if (feed.state === "loading")
      empty.replaceChildren(note("Reading the audit log…", { busy: true }));
    else if (feed.entries.length > 0)
      empty.replaceChildren(note("Nothing here matches these filters."), lost());
    else
      empty.replaceChildren(
        note("Nothing was asked yet. The first answer will appear here by itself."),
        lost(),
      );
  }

  function lost() {
    return feed.state === "lost"
      ? note("The connection is lost; what is shown may be old. Trying again by itself.", {
          error: true,
        })
      : "";
  }

  function hold() {
    if (held === null) held = feed.entries.at(-1)?.id ?? 0;
    else {
      held = null;
      missed = 0;
      list(1);
    }
    pause.setAttribute("aria-pressed", String(held !== null));
    pause.textContent = held === null ? "Pause" : "Resume";
    say(held === null ? "Live again." : "Paused. New entries wait.");
  }

  function newer(event) {
    if (held !== null) {
      missed += event.detail.length;
      pause.textContent = `Resume (${count(missed)} new)`;
      return status();
    }
    if (
      event.detail.some(
        (each) => each.service && ![...byService.box.options].some((o) => o.value === each.service),
      )
    ) {
      byService.put(options("All services", services()), filter.service);
    }
    list(event.detail.length);
    for (const each of event.detail)
      body.querySelector(`[data-id="${each.id}"]`)?.classList.add("fresh");
    const stopped = event.detail
      .filter((each) => each.kind === "refused" || each.kind === "unknown-identifier")
      .at(-1);
    if (stopped) say(`${KINDS[stopped.kind]}: ${asked(stopped, title)}, ${stopped.service}.`);
  }

  function older() {
    byService.put(options("All services", services()), filter.service);
    list();
  }

  feed.addEventListener("newer", newer);
  feed.addEventListener("older", older);
  feed.addEventListener("state", status);
  list();
  return () => {
    feed.removeEventListener("newer", newer);
    feed.removeEventListener("older", older);
    feed.removeEventListener("state", status);
    rows.end();
  };
}
