// How much to choose: what each budget buys and what it leaves an adversary, from the same table that
// `rootguard explain` prints.

import { get, post } from "../api.js";
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
  roots: ["Even", "Each value noised once, the budget split evenly"],
  opt: ["Weighted", "Each value noised once, more budget where it moves the target more"],
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
  let measuring = null;
  let charts = [];
  const controls = h("div", { class: "bar" }, template.element);
  const hiding = h("section", { class: "hiding card", "aria-label": "How far to hide" });
  const body = h("div", null);
  const settings = h("div", { class: "bar" });
  const budgets = h(
    "section",
    { class: "part", "aria-labelledby": "under-a-budget" },
    h("h2", { id: "under-a-budget" }, "Under one budget for everything"),
    h(
      "p",
      { class: "help" },
      "If you would rather fix epsilon: what it costs, beside independent noising at the same total budget.",
    ),
    settings,
    body,
  );
  budgets.hidden = true;
  place.append(controls, hiding, budgets);

  function keep() {
    remember({ ...asked, plan: config, epsilon: String(wanted) });
  }

  function change(part) {
    Object.assign(asked, part);
    keep();
    load();
    if (part.template) {
      settings.replaceChildren();
      hide();
    }
  }

  async function hide() {
    hiding.replaceChildren(note("Measuring what hiding costs…", { busy: true }));
    try {
      const { template } = asked;
      const { body: found } = await get("goals", { template });
      const named = (hide) => Object.entries(hide).map(([name, far]) => [`hide.${name}`, far]);
      const ask = async (hide) => {
        measuring?.abort();
        measuring = new AbortController();
        const query = { template, ...Object.fromEntries(named(hide)) };
        return (await get("goals", query, { signal: measuring.signal })).body;
      };
      const save = (hide) => post("goals", { template, hide });
      hiding.replaceChildren(...hidingSliders(found, { ask, save }));
    } catch (problem) {
      hiding.replaceChildren(note(problem.message, { error: true, retry: hide }));
    }
    budgets.hidden = false; // only now, so that nothing below moves when the sliders come
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

  /** No figure of an adversary stands without the number of its questions. */
  const headed = (part, heading) =>
    part === "adversary_error" ? `${heading}, ${data.turns} questions` : heading;

  function panel([part, plain, means, better], pick) {
    const heading = headed(part, plain);
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
    const values = me.templates.find((each) => each.name === asked.template).roots.length;
    const offered = choices.configurations.filter((name) => name !== INDEPENDENT);
    if (!offered.includes(config)) config = offered.at(-1);
    const capital = (name) => name[0].toUpperCase() + name.slice(1);
    settings.append(
      select(
        "Mechanism",
        choices.mechanisms.map((name) => [name, capital(name)]),
        asked.mechanism,
        (name) => change({ mechanism: name }),
      ).element,
      choice(
        `Number of questions, for your k = ${values} values`,
        choices.turns.map((each) => [
          each,
          `${each} = ${Number(each[0]) * values + 1 || values + 1}`,
        ]),
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
    if (settings.children.length === 0) build();
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
        { class: "panels two" },
        parts.map((each) => each.element),
      ),
      median || "",
      fairly(data.comparison),
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
    const headings = PARTS.flatMap(([part, heading]) => [
      `>${headed(part, heading)}: independent`,
      `>${headed(part, heading)}: RootGuard`,
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
    measuring?.abort();
    end();
  };
}

const FAIR = {
  rootguard: "RootGuard",
  "equal noise per answer": "Independent, same noise per answer",
  "equal total budget": "Independent, same total budget",
};

/** RootGuard and independent noising after the same questions, both fair ways, each adversary named. */
function fairly(found) {
  const names = Object.keys(found.adversaries);
  const off = (value) => (value < 0.01 ? "less than 0.01\u00a0%" : percent(value));
  const rows = Object.entries(FAIR).map(([key, label]) => [
    label,
    off(found.answer_error[key]),
    ...names.map((name) => off(found.adversary_error[key][name])),
  ]);
  return h(
    "section",
    { class: "part", "aria-labelledby": "compared" },
    h("h2", { id: "compared" }, "Beside independent noising, as hidden by default"),
    h(
      "p",
      { class: "help" },
      `How far off an answer is, and the guess of each adversary after ${found.questions_per_value} questions about each value. ${names.map((name) => `${name}: ${found.adversaries[name]}`).join("; ")}.`,
    ),
    table(
      "RootGuard beside independent noising",
      ["Noising", ">An answer", ...names.map((name) => `>Guess, ${name}`)],
      rows,
      { hideCaption: true },
    ),
    h(
      "p",
      { class: "help" },
      "With the same budget over all answers, each has so little of it that a service cannot use them. With the same noise on each, more questions come closer. RootGuard's figures do not depend on how many questions are asked.",
    ),
  );
}

/** Two significant digits: nobody thinks in "5.37 years". */
const round = (value) => Number(value.toPrecision(2));

/** A slider for each value, in its unit; both sides of what that means; and a way to keep it. */
function hidingSliders(found, { ask, save }) {
  const hide = new Map(found.values.map((each) => [each.name, each.hide]));
  const said = h("p", { class: "lead said" });
  const effect = h("div", { class: "effect" });
  const status = h("p", { class: "help", role: "status" });
  const trouble = h("div", null);
  const toml = h("pre", { class: "code", tabindex: "0", "aria-label": "Lines for the profile" });
  const keep = h("button", { type: "button", class: "main", onclick: store }, "Save in my profile");
  const far = (each, value) => withUnit(number(value, 3), each.unit);
  let due = 0;
  let last = found;

  function slider(each) {
    const id = freshId("hide");
    const low = Math.log(Math.max(each.least, (each.advised ?? each.hide) / 16));
    const high = Math.log(each.most);
    const place = (value) => Math.round(((Math.log(value) - low) / (high - low)) * 100);
    const input = h("input", { id, type: "range", min: 0, max: 100, step: 1 });
    input.value = place(each.hide);
    const shown = h("output", { for: id });
    const tell = () => {
      const value = hide.get(each.name);
      shown.textContent = far(each, value);
      input.setAttribute("aria-valuetext", `${each.title} hidden within ${far(each, value)}`);
    };
    input.addEventListener("input", () => {
      const part = Number(input.value) / 100;
      hide.set(each.name, part === 1 ? each.most : round(Math.exp(low + part * (high - low))));
      tell();
      status.textContent = "";
      clearTimeout(due);
      due = setTimeout(measure, 250);
    });
    tell();
    const advised = each.advised ? `advised: ${far(each, each.advised)}` : each.because;
    return h(
      "div",
      { class: "hider", "data-root": each.name },
      h("label", { for: id }, each.title),
      shown,
      input,
      h(
        "p",
        { class: "ends help" },
        h("span", null, "nearer"),
        h("span", null, advised),
        h("span", null, "further"),
      ),
    );
  }

  async function measure() {
    try {
      last = await ask(Object.fromEntries(hide));
      trouble.replaceChildren();
      tell();
      say(said.textContent);
    } catch (problem) {
      if (problem.name !== "AbortError")
        trouble.replaceChildren(note(problem.message, { error: true, retry: measure }));
    }
  }

  async function store() {
    keep.disabled = true;
    try {
      const { noised } = await save(Object.fromEntries(hide));
      trouble.replaceChildren();
      status.textContent = noised
        ? "Saved. What is noised already stays as it is; a value that you enter or change under Values uses the new goals. Programs that are running use them after they are started again."
        : "Saved. Values that are noised from now on use the new goals.";
    } catch (problem) {
      trouble.replaceChildren(note(problem.message, { error: true }));
    } finally {
      keep.disabled = false;
    }
  }

  function tell() {
    const hidden = last.values.map((each) => `${each.title} within ${far(each, each.hide)}`);
    const classes =
      last.wrong_class_rate === null
        ? ""
        : `, and ${number(last.wrong_class_rate, 3)} % of people land in another class`;
    const useless =
      last.target_error >= last.median_error
        ? ` That is of no use: the public median, which tells nothing about you, is ${number(last.median_error, 3)} % off.`
        : "";
    said.textContent = `${hidden.join(", ")}. ${last.target} is ${number(last.target_error, 3)} % off${classes}.${useless}`;
    toml.textContent = ["[hide]", ...[...hide].map(([name, value]) => `${name} = ${value}`)].join(
      "\n",
    );
    effect.replaceChildren(
      table(
        "Each value",
        ["Value", ">Hidden within", ">Average error", ">Best guess stays off by"],
        last.values.map((each) => [
          each.title,
          far(each, each.hide),
          withUnit(number(each.error, 3), each.unit),
          withUnit(number(each.adversary, 3), each.unit),
        ]),
        { hideCaption: true },
      ),
    );
  }

  tell();
  const right = number(50 + last.advantage * 50, 3);
  return [
    h("h2", null, "How far shall your values be hidden?"),
    h("div", { class: "hiders" }, found.values.map(slider)),
    said,
    trouble,
    effect,
    h(
      "p",
      { class: "help" },
      `Of two people that far apart in one value nobody picks the right one more than ${right} times in 100, however much they ask (any adversary, any number of questions). Of two people that far apart in every value: ${number(50 + last.joint * 50, 3)} times in 100. Errors, class rate and best guess (MAP) are of synthetic people.`,
    ),
    found.can_save
      ? h("div", { class: "bar" }, keep)
      : h("p", { class: "help" }, "Write this into your profile to keep it:"),
    found.can_save ? "" : toml,
    status,
  ];
}
