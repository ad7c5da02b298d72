// What is known about me: for each value the range that every recipient is left with, on its scale.

import { get } from "../api.js";
import { h, note, svg } from "../dom.js";
import { list, number, withUnit } from "../format.js";
import { inWords, strip } from "../timeline.js";

export const title = "What do they know about me?";
export const tab = "Known";
export const about =
  "What each service can conclude from all it was told, if it knows the method and the population.";

const WIDTH = 600;
const HEIGHT = 34;

function span(range, unit) {
  return withUnit(`${number(range[0], 3)} to ${number(range[1], 3)}`, unit);
}

function scale(value, range) {
  const wide = value.upper - value.lower;
  const at = (each) => ((each - value.lower) / wide) * WIDTH;
  const bar = ([low, high], name, y, height) =>
    svg("rect", {
      class: name,
      x: at(low),
      y,
      width: Math.max(3, at(high) - at(low)),
      height,
      rx: 3,
    });
  return svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      class: "scale",
      role: "img",
      "aria-label": `From ${span(range, value.unit)}, of possible ${span([value.lower, value.upper], value.unit)}.`,
    },
    value.population ? bar(value.population, "people", 11, 12) : null,
    svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: 17, y2: 17 }),
    bar(range, "left", 6, 22),
  );
}

function card(service, values, entries) {
  const who = service || "Your own programs";
  const told = values.length
    ? `${who === service ? `${service} was` : "They were"} told about ${list(values.map(([value]) => value.title))}. Nine times in ten the truth lies in the coloured range; nobody can narrow it by asking more.`
    : "Was told none of your values.";
  return h(
    "section",
    { class: "card known-by", "data-service": service },
    h(
      "header",
      { class: "with" },
      h("h2", null, who),
      service
        ? h(
            "a",
            { href: `#/boundary?service=${encodeURIComponent(service)}` },
            "Every entry",
            h("span", { class: "sr" }, ` about ${service}`),
          )
        : null,
    ),
    h("p", null, told),
    h("p", { class: "help" }, inWords(entries)),
    strip(who, entries),
    values.map(([value, range]) =>
      h(
        "div",
        { class: "known" },
        h("h3", null, value.title, " ", h("code", null, value.name)),
        h("p", null, range ? span(range, value.unit) : "told as it is"),
        range ? scale(value, range) : null,
        h(
          "p",
          { class: "ends help" },
          h("span", null, number(value.lower, 3)),
          h(
            "span",
            null,
            value.population ? `most people: ${span(value.population, value.unit)}` : "",
          ),
          h("span", null, number(value.upper, 3)),
        ),
      ),
    ),
  );
}

export function show(place, { feed }) {
  const body = h("div", null);
  place.append(body);
  let over = false;
  let known = null;

  function draw(data) {
    known = data;
    if (!feed.loaded && feed.state !== "failed") return;
    const focused = document.activeElement?.closest(".known-by")?.dataset.service;
    const services = new Map();
    const entries = Map.groupBy(feed.entries, (each) => each.service);
    for (const [service, own] of entries) if (service && inWords(own)) services.set(service, []);
    for (const value of data.values) {
      for (const { service, range } of value.recipients) {
        if (!services.has(service)) services.set(service, []);
        services.get(service).push([value, range]);
      }
    }
    const waiting = data.values.filter((each) => each.noised && each.recipients.length === 0);
    const rest = waiting.length
      ? h(
          "p",
          { class: "help" },
          `Noised, and told to nobody yet: ${list(waiting.map((each) => each.title))}.`,
        )
      : "";
    if (services.size === 0) {
      body.replaceChildren(note("Nobody was told anything about you yet."), rest);
      return;
    }
    const cards = [...services].sort((a, b) => a[0].localeCompare(b[0]));
    body.replaceChildren(
      h(
        "div",
        { class: "cards" },
        cards.map(([name, values]) => card(name, values, entries.get(name) ?? [])),
      ),
      rest,
    );
    if (focused) body.querySelector(`[data-service="${CSS.escape(focused)}"] a`)?.focus();
  }

  async function load(first) {
    if (first) body.replaceChildren(note("Reading what was told…", { busy: true }));
    try {
      const answer = await get("known");
      if (!over) draw(answer.body);
    } catch (problem) {
      if (!over)
        body.replaceChildren(note(problem.message, { error: true, retry: () => load(true) }));
    }
  }

  let later = 0;
  const again = () => {
    clearTimeout(later);
    later = setTimeout(() => load(false), 300);
  };
  const older = () => known && draw(known);
  feed.addEventListener("newer", again);
  feed.addEventListener("older", older);
  feed.addEventListener("state", older);
  load(true);
  return () => {
    over = true;
    clearTimeout(later);
    feed.removeEventListener("newer", again);
    feed.removeEventListener("older", older);
    feed.removeEventListener("state", older);
  };
}
