// The hostile service against one's own guarded profile, and beside it against a synthetic person.

import { events } from "../api.js";
import { Chart } from "../chart.js";
import { choice, h, note, say, table } from "../dom.js";
import { number, percent, plural, written } from "../format.js";
import { titlesOf } from "../titles.js";
import { NO_TEMPLATE, templateChoice } from "./template.js";

export const title = "Attack yourself";
export const tab = "Attack";
export const about = "What a hostile service makes of your answers, however long it asks.";

const CALM = matchMedia("(prefers-reduced-motion: reduce)");
/** Both fair ways to compare: an answer as noisy as RootGuard's, or all answers at its cost. */
const INDEPENDENT = [
  { label: "Independent, same noise per answer", color: "--independent", dash: [2, 3] },
  { label: "Independent, same total budget", color: "--independent", dash: [8, 5] },
];
/** Computed at once, but shown so that one can watch. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 250));

const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;

/** The numbers of the turns, each once: in a turn every root is asked about. */
const numbers = (turns) => [...new Set(turns.map((each) => each.turn))];

/** After each turn, the error averaged over the roots. */
function course(turns, part) {
  return numbers(turns).map((turn) =>
    mean(turns.filter((each) => each.turn === turn).map((each) => each.synthetic[part])),
  );
}

function moved(turns) {
  const first = new Map();
  let most = 0;
  for (const { root, guarded } of turns) {
    const estimate = guarded?.estimate;
    if (typeof estimate !== "number") continue;
    if (!first.has(root)) first.set(root, estimate);
    const from = first.get(root);
    most = Math.max(most, from === 0 ? Math.abs(estimate) : Math.abs(estimate / from - 1) * 100);
  }
  return { roots: first.size, most };
}

/** Room around the lines: at least that part of their height on each side, so that flat looks flat. */
const roomy = (part) => (_, low, high) => {
  const middle = (low + high) / 2;
  const half = Math.max((high - low) * 0.6, Math.abs(middle) * part, 1e-9);
  return [middle - half, middle + half];
};

const fine = (value) => (value < 0.01 ? "less than 0.01\u00a0%" : percent(value));

export function show(place, { me, query, remember }) {
  if (me.templates.length === 0) return void place.append(note(NO_TEMPLATE));
  const title = titlesOf(me);
  let template = null;
  let turns = [];
  let root = "";
  let running = null;
  let charts = [];
  const choiceOf = templateChoice(me, query, (name) => {
    template = name;
    remember({ template });
    running?.abort();
    turns = [];
    root = "";
    idle();
  });
  template = choiceOf.chosen;

  const start = h("button", { type: "button", class: "main", onclick: run }, "Start the attack");
  const body = h("div", null);
  place.append(h("div", { class: "bar" }, choiceOf.element, start), body);

  function end() {
    for (const chart of charts) chart.destroy();
    charts = [];
  }

  /** Not `disabled` while it runs: that would take the keyboard's place away. */
  function ready(text) {
    start.removeAttribute("aria-disabled");
    start.textContent = text;
  }

  function idle() {
    end();
    ready("Start the attack");
    body.replaceChildren(
      h(
        "div",
        { class: "note" },
        h(
          "p",
          null,
          "A hostile service will ask about your roots again and again, and put all answers together into its best guess.",
        ),
        h(
          "p",
          null,
          "Your own values are asked for only through the guard, so the attack costs you nothing and learns nothing new. Beside it synthetic people are attacked, behind RootGuard and with fresh noise in every answer: as much noise as RootGuard's, or as much as the same total budget asks for.",
        ),
      ),
    );
  }

  const errors = () => [
    numbers(turns),
    course(turns, "same_noise_error_percent"),
    course(turns, "same_budget_error_percent"),
    course(turns, "rootguard_error_percent"),
  ];
  const own = () => turns.filter((each) => each.root === root);
  const estimates = () => [
    own().map((each) => each.turn),
    own().map((each) => each.guarded?.estimate ?? null),
  ];
  const others = () => {
    const mine = own();
    const part = (name) => mine.map((each) => each.synthetic[name] ?? null);
    return [
      mine.map((each) => each.turn),
      part("truth"),
      part("same_noise_estimate"),
      part("same_budget_estimate"),
      part("rootguard_estimate"),
    ];
  };

  function stage() {
    end();
    const x = { kind: "linear", label: "turn", whole: true };
    const off = new Chart({
      series: [...INDEPENDENT, { label: "RootGuard", color: "--guard" }],
      x,
      y: { format: (value) => `${number(value, 3)} %`, range: (_, __, top) => [0, top * 1.1 || 1] },
      summary: "The adversary's error, turn by turn",
      height: 240,
    });
    const you = new Chart({
      series: [{ label: "Its estimate of you", color: "--guard" }],
      x,
      y: { range: roomy(0.25) },
      summary: "Its estimate of you, turn by turn.",
      height: 190,
      points: true,
    });
    const synthetic = new Chart({
      series: [
        { label: "Truth", color: "--muted", dash: [2, 3], width: 1.5 },
        ...INDEPENDENT,
        { label: "RootGuard", color: "--guard" },
      ],
      x,
      y: { range: roomy(0.02) },
      summary: "Its estimates of a synthetic person, turn by turn",
      height: 190,
    });
    charts = [off, you, synthetic];
    const verdict = h("div", { class: "sentence" });
    const now = h("p", { class: "help turn" });
    const roots = me.templates.find((each) => each.name === template)?.roots ?? [];
    root = roots[0] ?? "";
    const pick = choice(
      "Value",
      roots.map((name) => [name, title(name)]),
      root,
      (name) => {
        root = name;
        draw();
      },
    );
    const details = h("details", null, h("summary", null, "The turns as a table"));
    const about = [h("p", { class: "help" }), h("p", { class: "help" })];
    body.replaceChildren(
      verdict,
      now,
      h(
        "figure",
        { class: "panel" },
        h(
          "figcaption",
          null,
          h("h2", null, "Synthetic people: how far off its guesses are"),
          h(
            "p",
            { class: "help" },
            "mean over the values, the median person, against a MAP adversary that asks in ever smaller windows (zoom). The same total budget is split over the turns, so an answer is far off, for an honest service too",
          ),
          off.legend,
        ),
        off.element,
      ),
      h("div", { class: "bar" }, pick),
      h(
        "div",
        { class: "panels two" },
        h(
          "figure",
          { class: "panel" },
          h("figcaption", null, h("h2", null, "You, behind the guard"), about[0], you.legend),
          you.element,
        ),
        h(
          "figure",
          { class: "panel" },
          h(
            "figcaption",
            null,
            h("h2", null, "One of the synthetic people"),
            about[1],
            synthetic.legend,
          ),
          synthetic.element,
        ),
      ),
      details,
    );

    let due = false;
    function draw() {
      due = false;
      off.set(errors());
      you.set(estimates());
      synthetic.set(others());
      const unit = own()[0]?.unit;
      for (const each of about)
        each.textContent = unit ? `${title(root)}, in ${written(unit)}` : title(root);
    }
    return {
      take(turn) {
        now.textContent = `Turn ${turn.turn}${turn.turns ? ` of ${turn.turns}` : ""}: ${turn.asked}`;
        if (due) return;
        due = true;
        requestAnimationFrame(draw);
      },
      done() {
        draw();
        now.hidden = true;
        verdict.textContent = verdictOf();
        off.describe(
          `The adversary's error after each of ${numbers(turns).length} turns. ${verdict.textContent}`,
        );
        you.describe(`Its estimate of you, turn by turn. ${ownSentence()}`);
        synthetic.describe(
          "Its estimates of a synthetic person, turn by turn; the numbers are in the table below.",
        );
        details.append(
          table(
            "Turn by turn",
            [
              ">Turn",
              "Value",
              "Asked",
              ">Estimate of you",
              ">Synthetic: truth",
              ">Same noise",
              ">Same budget",
              ">RootGuard",
              ">Error, same noise",
              ">Error, same budget",
              ">Error, RootGuard",
            ],
            turns.map((each) => [
              each.turn,
              title(each.root),
              each.asked,
              number(each.guarded?.estimate, 5),
              number(each.synthetic.truth, 5),
              number(each.synthetic.same_noise_estimate, 5),
              number(each.synthetic.same_budget_estimate, 5),
              number(each.synthetic.rootguard_estimate, 5),
              fine(each.synthetic.same_noise_error_percent),
              fine(each.synthetic.same_budget_error_percent),
              fine(each.synthetic.rootguard_error_percent),
            ]),
            { hideCaption: true },
          ),
        );
        say(verdict.textContent);
      },
      stop(problem) {
        now.replaceChildren();
        verdict.replaceChildren(note(problem.message, { error: true, retry: run }));
      },
    };
  }

  function ownSentence() {
    const { roots, most } = moved(turns);
    if (roots === 0) return "The guard answered nothing about you.";
    return most < 0.05
      ? `Its estimates of your ${plural(roots, "value")} have not moved since their first answer.`
      : `Its estimates of your ${plural(roots, "value")} have moved by ${percent(most)} at most since their first answer.`;
  }

  function verdictOf() {
    const [, sameNoise, sameBudget, guarded] = errors();
    const way = (errors) => {
      const [first, last] = [errors[0], errors.at(-1)];
      return Math.abs(first - last) < 0.05
        ? `has stayed ${fine(last)} off`
        : `went from ${fine(first)} off to ${fine(last)}`;
    };
    return `${plural(numbers(turns).length, "turn")} about every value. ${ownSentence()} About synthetic people its guess ${way(sameNoise)} under independent noising with the same noise per answer, ${way(sameBudget)} with the same total budget, and ${way(guarded)} behind RootGuard.`;
  }

  async function run() {
    if (start.ariaDisabled === "true") return;
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    turns = [];
    start.setAttribute("aria-disabled", "true");
    start.textContent = "Attacking…";
    body.replaceChildren(note("The hostile service is getting ready…", { busy: true }));
    let scene = null;
    try {
      for await (const { event, data } of events("attack", { template }, signal)) {
        if (signal.aborted) return;
        scene ??= stage();
        if (event === "turn") {
          if (turns.length > 0 && data.turn !== turns.at(-1).turn && !CALM.matches) await pause();
          if (signal.aborted) return;
          turns.push(data);
          scene.take(data);
        } else if (event === "done") {
          scene.done();
        } else if (event === "error") {
          throw new Error(data.error?.message ?? "The attack stopped.");
        }
      }
    } catch (problem) {
      if (problem.name === "AbortError" || signal.aborted) return;
      if (scene) scene.stop(problem);
      else body.replaceChildren(note(problem.message, { error: true, retry: run }));
    }
    ready(turns.length > 0 ? "Attack again" : "Start the attack");
  }

  idle();
  return () => {
    running?.abort();
    end();
  };
}
