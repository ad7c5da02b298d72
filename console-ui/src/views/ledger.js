// What was paid for and what is left, by root, by service and over time.

import { get } from "../api.js";
import { Chart } from "../chart.js";
import { exportLink, h, note, select, table } from "../dom.js";
import { list, number, plural, whole } from "../format.js";

export const title = "Ledger";
export const about =
  "What has been spent on each value, what is left, and which service has seen what.";

const KINDS = {
  "derived-level": "lower level",
  "table-draw": "from a table",
  totals: "total until an erasure",
  service: "given to a service",
};
const epsilon = (value) => (value === null || value === undefined ? "–" : number(value, 3));

function meter(spent, cap, label) {
  const fill = h("i", null);
  const part = Math.min(1, spent / cap);
  fill.style.width = `${part * 100}%`;
  return h(
    "span",
    {
      class: "meter",
      role: "meter",
      "aria-label": label,
      "aria-valuemin": 0,
      "aria-valuemax": cap,
      "aria-valuenow": Math.min(spent, cap),
      "aria-valuetext": `${epsilon(spent)} of ${epsilon(cap)} spent`,
    },
    fill,
  );
}

const capped = (account) => typeof account.cap === "number";

function totals(data) {
  const { total, roots, charges } = data;
  const pairs = [["epsilon spent", epsilon(total.spent)]];
  if (capped(total)) pairs.push(["epsilon left", epsilon(total.left)], ["cap", epsilon(total.cap)]);
  pairs.push(
    ["values noised", roots.filter((root) => root.spent > 0).length],
    ["refinements", charges.filter((each) => each.kind === "refined").length],
  );
  const services = new Set(data.disclosures.map((each) => each.service).filter(Boolean));
  if (services.size > 0) pairs.push(["services under the policy", services.size]);
  return h(
    "div",
    { class: "total" },
    h(
      "dl",
      { class: "figures" },
      pairs.map(([term, value]) => h("div", null, h("dt", null, term), h("dd", null, value))),
    ),
    capped(total) ? meter(total.spent, total.cap, "Total budget") : null,
  );
}

function levels(root) {
  if (!root.levels?.length) return "–";
  const last = Math.max(...root.levels.map((each) => each.version));
  const now = root.levels.filter((each) => each.version === last).map((each) => each.epsilon);
  return now
    .sort((a, b) => b - a)
    .map(epsilon)
    .join(" · ");
}

function byRoot(data) {
  const caps = data.roots.some(capped);
  const left = (root) =>
    capped(root)
      ? [epsilon(root.left), meter(root.spent, root.cap, `Budget of ${root.label}`)]
      : ["no cap", ""];
  const rows = data.roots.map((root) => [
    root.label,
    epsilon(root.spent),
    ...(caps ? left(root) : []),
    root.versions,
    levels(root),
  ]);
  return [
    table(
      "By value",
      [
        "Value",
        ">Epsilon spent",
        ...(caps ? [">Left", "Spent of its cap"] : []),
        ">Versions",
        "Stored at epsilon",
      ],
      rows,
    ),
    caps || capped(data.total)
      ? null
      : h(
          "p",
          { class: "help under" },
          "No cap is set, so there is no “left”: set one with rootguard vault spend --cap.",
        ),
  ];
}

/** Services down, roots across; a cell says how accurate a version the service has seen. */
function byService(data) {
  const roots = data.roots.map((each) => each.root);
  const services = [...new Set(data.disclosures.map((each) => each.service))].sort();
  if (services.length === 0) return note("No service has been given a value yet.");
  const rows = services.map((service) => {
    const own = data.disclosures.filter((each) => each.service === service);
    const tiers = [...new Set(own.map((each) => each.tier))].filter(Boolean);
    const cells = roots.map((root) => {
      const seen = own.filter((each) => each.root === root).map((each) => each.epsilon);
      return seen.length ? epsilon(Math.max(...seen)) : "–";
    });
    return [service || "Without a policy", tiers.join(", ") || "–", ...cells];
  });
  const names = data.roots.map((each) => `>${each.label}`);
  return [
    table("By service", ["Service", "Tier", ...names], rows),
    h(
      "p",
      { class: "help under" },
      "The epsilon of the best version of each value that the service was given. Pooled, services know no more than the best of them.",
    ),
  ];
}

function tierText(tiers) {
  const words = (tiers ?? []).map(
    ({ tier, budget, services }) =>
      `${tier} (budget ${epsilon(budget)}${services.length > 0 ? `: ${services.join(", ")}` : ""})`,
  );
  return words.length > 0 && `Tiers: ${list(words)}.`;
}

/** What was spent after each charge, on one root or on all of them. */
function running(charges, root) {
  let sum = 0;
  return charges.map((each) => {
    if (!root || each.root === root) sum += each.epsilon;
    return root ? Number(sum.toFixed(9)) : each.total_after;
  });
}

function overTime(data, ends, chosen) {
  const { charges } = data;
  const names = data.roots.filter((root) => root.spent > 0).map((root) => [root.root, root.label]);
  const timed = charges.filter((each) => typeof each.at === "number");
  const known = timed.length === charges.length;
  const xs = known ? timed.map((each) => each.at) : charges.map((_, place) => place + 1);
  if (known) {
    // Nothing was spent before the first charge, and nothing since the last one until now.
    xs.unshift(xs[0] - Math.max(1, (Date.now() / 1000 - xs[0]) * 0.02));
    xs.push(Math.max(Date.now() / 1000, xs.at(-1)));
  }
  const heights = (root) => {
    const spent = running(charges, root);
    return known ? [0, ...spent, spent.at(-1)] : spent;
  };
  const chart = new Chart({
    series: [{ label: "Epsilon spent", color: "--guard", step: true, width: 2 }],
    x: {
      kind: known ? "time" : "linear",
      label: known ? undefined : "Charge",
      whole: !known,
      space: 72,
    },
    y: { range: (_, __, top) => [0, top * 1.1 || 1] },
    summary: "",
    height: 200,
  });
  const draw = (root) => {
    chosen.root = root;
    const ys = heights(root);
    chart.set([xs, ys]);
    chart.describe(
      `Epsilon spent over time on ${names.find(([name]) => name === root)?.[1] ?? "all values"}: ${epsilon(ys.at(-1))} after ${plural(charges.length, "charge")}.`,
    );
  };
  const pick = select("Value", [["", "All values"], ...names], chosen.root, draw);
  draw(pick.box.value);
  ends.push(() => chart.destroy());
  return h(
    "figure",
    { class: "panel" },
    h(
      "figcaption",
      { class: "with" },
      h("div", null, h("h2", null, "Over time"), chart.legend),
      pick.element,
    ),
    chart.element,
  );
}

function charged(data) {
  const labels = new Map(data.roots.map((each) => [each.root, each.label]));
  const rows = data.charges
    .toReversed()
    .map((each) => [
      typeof each.at === "number" ? whole(each.at) : "–",
      KINDS[each.kind] ?? each.kind,
      labels.get(each.root) ?? (each.root || "all"),
      each.version ?? "–",
      epsilon(each.epsilon),
      epsilon(each.level),
      epsilon(each.total_after),
    ]);
  return h(
    "details",
    null,
    h("summary", null, `Every charge (${data.charges.length})`),
    table(
      "Charges, newest first",
      ["When", "What", "Value", ">Version", ">Paid", ">Level after", ">Total after"],
      rows,
      { hideCaption: true },
    ),
  );
}

export function show(place, { feed }) {
  const ends = [];
  const body = h("div", null);
  place.append(body);
  let ended = false;
  let opened = false;
  let known = "";
  const chosen = { root: "" };

  function render(data) {
    opened = body.querySelector("details")?.open ?? opened;
    for (const end of ends.splice(0)) end();
    if (data.charges.length === 0) {
      body.replaceChildren(note("Nothing has been noised yet, so nothing has been spent."));
      return;
    }
    const tiers = tierText(data.tiers);
    body.replaceChildren(
      h("div", { class: "with" }, totals(data), exportLink()),
      overTime(data, ends, chosen),
      h(
        "section",
        { class: "tables", "aria-label": "Ledger as tables" },
        byRoot(data),
        byService(data),
        tiers ? h("p", { class: "help" }, tiers) : null,
        charged(data),
      ),
    );
    if (opened) body.querySelector("details").open = true;
  }

  async function load(first) {
    if (first) body.replaceChildren(note("Reading the ledger…", { busy: true }));
    try {
      const { body: data } = await get("ledger");
      const text = JSON.stringify(data);
      if (ended || (text === known && !first)) return;
      known = text;
      render(data);
    } catch (problem) {
      if (!ended)
        body.replaceChildren(note(problem.message, { error: true, retry: () => load(true) }));
    }
  }

  // A free answer changes who has seen what only when it is a service's first; a charge always does.
  let due = 0;
  const newer = () => {
    clearTimeout(due);
    due = setTimeout(() => load(false), 300);
  };
  feed.addEventListener("newer", newer);
  load(true);
  return () => {
    ended = true;
    clearTimeout(due);
    feed.removeEventListener("newer", newer);
    for (const end of ends) end();
  };
}
