// How much to choose: what each budget buys and what it leaves an adversary, from the same table that
// `rootguard explain` prints.

import { get } from "../api.js";
import { Chart } from "../chart.js";
import { choice, freshId, h, note, say, select, table } from "../dom.js";
import { number, percent, withUnit } from "../format.js";
import { NO_TEMPLATE, templateChoice } from "./template.js";

export const title = "Choose what to hide";
export const tab = "Choose";
export const about =
  "How far each value is hidden, what that costs, and what it leaves an adversary.";

const INDEPENDENT = "all";
const CONFIGURATIONS = {
  roots: ["Even", "RootGuard, the budget split evenly over the roots"],
  opt: ["Weighted", "RootGuard, each root's part by how much it moves the target"],
  calibrated: ["Calibrated", "Weighted, and corrected by public population figures"],
  population: ["Population", "Planned and corrected for the population"],
};

const PARTS = [
  ["target_error", "Target", "how far off the answer is", "lower is better"],
  ["wrong_class_rate", "Wrong class", "how many people land in another class", "lower is better"],
  ["risk_error", "RCE", "wrong classes, each by how far off it is", "lower is better"],
  [
    "adversary_error",
    "Adversary (MAP)",
    "how far off its best guess is, with every answer of these turns. It only repeats its questions; one that zooms in finds values under independent noising (see Attack)",
    "larger is safer at the same accuracy",
  ],
];

const POLL = 400;
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export function show(place, { me, query, remember }) {
  if (me.templates.length === 0) return void place.append(note(NO_TEMPLATE));
  const template = templateChoice(me, query, (name) => change({ template: name }));
  const asked = {
    template: template.chosen,
    mechanism: query.get("mechanism") || me.mechanism,
    turns: query.get("turns") || "2k+1",
  };
  let config = query.get("plan") || (me.calibrated ? "calibrated" : "opt");
  let wanted = Number(query.get("epsilon")) || 0.1;
  let data = null;
  let asking = null;
  let charts = [];
  const controls = h("div", { class: "bar" }, template.element);
  const hiding = h("section", { class: "hiding card", "aria-label": "How far to hide" });
  const body = h("div", null);
  place.append(controls, hiding, body);

  function keep() {
    remember({ ...asked, plan: config, epsilon: String(wanted) });
  }

  function change(part) {
    Object.assign(asked, part);
    keep();
    load();
    if (part.template) hide();
  }

  async function hide() {
    hiding.replaceChildren(note("Measuring what hiding costs…", { busy: true }));
    try {
      const { body: found } = await get("goals", { template: asked.template });
      hiding.replaceChildren(...hidingSlider(found));
    } catch (problem) {
      hiding.replaceChildren(note(problem.message, { error: true, retry: hide }));
    }
  }

  const nearest = () =>
    data.epsilons.reduce(
      (best, each, index) =>
        Math.abs(Math.log(each / wanted)) < Math.abs(Math.log(data.epsilons[best] / wanted))
          ? index
          : best,
      0,
    );
  const row = (name, epsilon) =>
    data.rows.find((each) => each.config === name && each.epsilon === epsilon);
  const column = (name, part) => data.epsilons.map((epsilon) => row(name, epsilon)?.[part] ?? null);

  function end() {
    for (const chart of charts) chart.destroy();
    charts = [];
  }

  function panel([part, heading, means, better], pick) {
    if (data.rows.every((each) => each[part] === null)) {
      return {
        element: h(
          "figure",
          { class: "panel" },
          h(
            "figcaption",
            null,
            h("h2", null, heading),
            h("p", { class: "help" }, "This template has no risk classes."),
          ),
        ),
        update() {},
      };
    }
    const both = [...column(INDEPENDENT, part), ...column(config, part)].filter((each) => each > 0);
    const wide =
      Math.max(...both) / Math.min(...both) > 40 && data.rows.every((each) => each[part] > 0);
    const chart = new Chart({
      series: [
        { label: "Independent noising", color: "--independent", dash: [6, 4] },
        { label: "RootGuard", color: "--guard" },
      ],
      x: {
        kind: "log",
        splits: data.epsilons,
        format: (value) => number(value),
        label: "epsilon",
        space: 20,
      },
      y: {
        kind: wide ? "log" : "linear",
        format: (value) => `${number(value, 3)} %`,
        ...(wide ? {} : { range: (_, __, top) => [0, top * 1.08 || 1] }),
      },
      summary: heading,
      height: 210,
      chosen: () => data.epsilons[nearest()],
      onpick: pick,
    });
    chart.set([data.epsilons, column(INDEPENDENT, part), column(config, part)]);
    charts.push(chart);
    const independent = h("dd", { "data-value": `${INDEPENDENT}.${part}` });
    const guarded = h("dd", { "data-value": `guard.${part}` });
    const element = h(
      "figure",
      { class: "panel" },
      h(
        "figcaption",
        null,
        h("h2", null, heading),
        h("p", { class: "help" }, `${means} · ${better}`),
      ),
      h(
        "dl",
        { class: "versus" },
        h("div", { class: "independent" }, h("dt", null, "Independent noising"), independent),
        h("div", { class: "guard" }, h("dt", null, "RootGuard"), guarded),
      ),
      chart.element,
    );
    const update = (epsilon) => {
      const [a, b] = [row(INDEPENDENT, epsilon)?.[part], row(config, epsilon)?.[part]];
      independent.textContent = percent(a);
      guarded.textContent = percent(b);
      chart.describe(
        `${heading} against epsilon, two curves. At epsilon ${number(epsilon)}: independent noising ${percent(a)}, RootGuard ${percent(b)}.`,
      );
      chart.redraw();
    };
    return { element, update };
  }

  function slider(onmove) {
    const id = freshId("budget");
    const input = h("input", {
      id,
      type: "range",
      min: 0,
      max: data.epsilons.length - 1,
      step: 1,
      value: nearest(),
    });
    const shown = h("output", { for: id, class: "chosen" });
    input.addEventListener("input", () => onmove(Number(input.value)));
    const ticks = h(
      "ol",
      { class: "ticks", "aria-hidden": "true" },
      data.epsilons.map((each) => h("li", null, number(row(INDEPENDENT, each).budget))),
    );
    const element = h(
      "div",
      { class: "slider" },
      h("label", { for: id }, "Budget"),
      shown,
      input,
      ticks,
    );
    const update = (index) => {
      const epsilon = data.epsilons[index];
      const { budget } = row(INDEPENDENT, epsilon);
      input.value = index;
      input.setAttribute(
        "aria-valuetext",
        `budget ${number(budget)}, epsilon ${number(epsilon)} per turn`,
      );
      shown.replaceChildren(
        h("b", null, number(budget)),
        ` = ${data.turns} turns × epsilon ${number(epsilon)}`,
      );
    };
    return { element, update };
  }

  /** Made once, so that a keyboard stays where it is while the curves change. */
  function build() {
    const { choices } = data;
    const offered = choices.configurations.filter((name) => name !== INDEPENDENT);
    if (!offered.includes(config)) config = offered.at(-1);
    const capital = (name) => name[0].toUpperCase() + name.slice(1);
    controls.append(
      select(
        "Mechanism",
        choices.mechanisms.map((name) => [name, capital(name)]),
        asked.mechanism,
        (name) => change({ mechanism: name }),
      ).element,
      choice(
        "Number of questions, for k values",
        choices.turns.map((each) => [each, each]),
        asked.turns,
        (each) => change({ turns: each }),
      ),
      choice(
        "RootGuard's plan",
        offered.map((name) => [name, ...(CONFIGURATIONS[name] ?? [name])]),
        config,
        (name) => {
          config = name;
          keep();
          if (body.querySelector(".slider")) render();
        },
      ),
    );
  }

  function render() {
    end();
    if (controls.children.length === 1) build();
    const opened = body.querySelector("details")?.open ?? false;
    const parts = PARTS.map((part) => panel(part, (index) => move(index, true)));
    const budget = slider((index) => move(index, false));
    const sentence = h("p", { class: "sentence", id: freshId("sentence") });
    const median =
      typeof data.median_error === "number" &&
      h(
        "p",
        { class: "help" },
        `For comparison: answering everybody with the population's median costs no privacy and is ${percent(data.median_error)} off. Measured on synthetic people drawn from the template's public figures.`,
      );
    function move(index, aloud) {
      wanted = data.epsilons[index];
      for (const each of parts) each.update(wanted);
      budget.update(index);
      sentence.textContent = sentenceFor(wanted);
      keep();
      if (aloud) say(sentence.textContent);
    }
    body.replaceChildren(
      budget.element,
      sentence,
      h(
        "div",
        { class: "panels" },
        parts.map((each) => each.element),
      ),
      median || "",
      h("details", { open: opened }, h("summary", null, "The curves as a table"), numbers()),
    );
    move(nearest(), false);
  }

  function sentenceFor(epsilon) {
    const own = Object.entries(data.sentences?.[config] ?? {});
    return own.find(([text]) => Number(text) === epsilon)?.[1] ?? "";
  }

  function numbers() {
    const rows = data.epsilons.map((epsilon) => {
      const [a, b] = [row(INDEPENDENT, epsilon), row(config, epsilon)];
      return [
        number(epsilon),
        number(a.budget),
        ...PARTS.flatMap(([part]) => [percent(a[part]), percent(b[part])]),
      ];
    });
    const headings = PARTS.flatMap(([, heading]) => [
      `>${heading}: independent`,
      `>${heading}: RootGuard`,
    ]);
    return table("Errors in % by epsilon", [">Epsilon", ">Budget", ...headings], rows, {
      hideCaption: true,
    });
  }

  async function load() {
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    const bar = h("progress", { max: 1, "aria-label": "Computing the table" });
    const waiting = note(
      "Computing the table on synthetic people. This takes a few seconds, once.",
      { busy: true },
    );
    waiting.append(bar);
    end();
    body.replaceChildren(waiting);
    try {
      for (;;) {
        const answer = await get("outlook", asked, { signal });
        if (signal.aborted) return;
        if (answer.status !== 202) {
          data = answer.body;
          return render();
        }
        bar.value = answer.body.progress;
        await wait(POLL);
      }
    } catch (problem) {
      if (problem.name === "AbortError") return;
      body.replaceChildren(note(problem.message, { error: true, retry: load }));
    }
  }

  hide();
  load();
  return () => {
    asking?.abort();
    end();
  };
}

/** A slider in years and units: how far values are hidden, and both sides of what that means. */
function hidingSlider(found) {
  const id = freshId("hide");
  const start = found.choices.findIndex((each) => each.scale === 1);
  const input = h("input", {
    id,
    type: "range",
    min: 0,
    max: found.choices.length - 1,
    step: 1,
    value: start,
  });
  const said = h("p", { class: "lead said" });
  const place = h("div", null);
  const far = (each) => withUnit(number(each.hide, 3), each.unit);
  function move() {
    const each = found.choices[Number(input.value)];
    const hidden = each.values.map((value) => `${value.title} within ${far(value)}`).join(", ");
    const classes =
      each.wrong_class_rate === null
        ? ""
        : ` and ${number(each.wrong_class_rate, 3)} % of people land in another class`;
    const useless =
      each.target_error >= each.median_error
        ? ` That is of no use: the public median is ${number(each.median_error, 3)} % off.`
        : "";
    said.textContent = `${hidden}. ${found.target} is ${number(each.target_error, 3)} % off${classes}.${useless}${each.advised ? " Advised." : ""}`;
    input.setAttribute("aria-valuetext", hidden);
    place.replaceChildren(
      table(
        "Each value",
        ["Value", ">Hidden within", ">Average error", ">Best guess stays off by"],
        each.values.map((value) => [
          value.title,
          far(value),
          withUnit(number(value.error, 3), value.unit),
          withUnit(number(value.adversary, 3), value.unit),
        ]),
        { hideCaption: true },
      ),
    );
  }
  input.addEventListener("input", move);
  move();
  return [
    h("h2", null, "How far shall your values be hidden?"),
    h("div", { class: "hider" }, h("label", { for: id }, "Nearer or further"), input),
    said,
    place,
    h(
      "p",
      { class: "help" },
      "Of two people that far apart in one value nobody picks the right one more than three times in four, however much they ask (MAP, any number of questions). On synthetic people. Write your choice under [hide] in your profile.",
    ),
  ];
}
