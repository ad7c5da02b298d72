// When a service asked: what left above the line, what was stopped or stood out below it. Position and
// words carry the meaning; colour only repeats it.

import { h, svg } from "./dom.js";
import { clock, day, list, plural } from "./format.js";
import { identifiers } from "./titles.js";

const BINS = 60;
const WIDTH = 600;
const HALF = 22;

const LEFT = new Set(["released", "changed"]);
const STOPPED = new Set(["refused", "unknown-identifier"]);

const when = (at) => [day(at), clock(at).slice(0, 5)].filter(Boolean).join(" ");

const sum = (entries, kind) => entries.filter((each) => each.kind === kind).length;

/** What happened with a service, in a sentence. */
export function inWords(entries) {
  const parts = [
    [sum(entries, "released"), "answer"],
    [
      entries.reduce((many, each) => many + identifiers(each), 0),
      "identifier replaced",
      "identifiers replaced",
    ],
    [sum(entries, "refused"), "refusal"],
    [
      sum(entries, "unknown-identifier"),
      "unknown identifier in a reply",
      "unknown identifiers in replies",
    ],
  ]
    .filter(([many]) => many > 0)
    .map(([many, one, more]) => plural(many, one, more));
  if (parts.length === 0) return "";
  const [first, last] = [when(entries[0].at), when(entries.at(-1).at)];
  return `${list(parts)}, ${first === last ? first : `${first} to ${last}`}.`;
}

/** The strip of one service; nothing where nothing left and nothing was stopped. */
export function strip(service, entries) {
  const shown = entries.filter((each) => LEFT.has(each.kind) || STOPPED.has(each.kind));
  const words = inWords(shown);
  if (!words) return null;
  const [first, last] = [shown[0].at, shown.at(-1).at];
  const bins = Array.from({ length: BINS }, () => [0, 0]);
  for (const each of shown) {
    const part = last > first ? (each.at - first) / (last - first) : 0.5;
    bins[Math.min(BINS - 1, Math.floor(part * BINS))][STOPPED.has(each.kind) ? 1 : 0] += 1;
  }
  const most = Math.max(...bins.flat());
  const high = (many) => (many === 0 ? 0 : 5 + ((HALF - 7) * Math.sqrt(many)) / Math.sqrt(most));
  const bar = (many, place, below) =>
    many > 0 &&
    svg("rect", {
      class: below ? "stopped" : "told",
      x: (place / BINS) * WIDTH + 1,
      y: below ? HALF + 1 : HALF - high(many) - 1,
      width: WIDTH / BINS - 2,
      height: high(many),
      rx: 1.5,
    });
  return h(
    "figure",
    { class: "strip" },
    svg(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${2 * HALF}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `Timeline of ${service}: ${words}`,
      },
      svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: HALF, y2: HALF }),
      bins.flatMap(([told, stopped], place) => [
        bar(told, place, false),
        bar(stopped, place, true),
      ]),
    ),
    h(
      "figcaption",
      { class: "ends help" },
      h("span", null, when(first)),
      h("span", null, "above the line: sent · below: stopped or unknown"),
      h("span", null, last > first ? when(last) : ""),
    ),
  );
}
