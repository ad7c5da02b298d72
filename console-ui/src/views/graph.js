// The profile's graph: roots, what is derived from them, the target.

import dagre from "@dagrejs/dagre";
import { get } from "../api.js";
import { h, note, svg, table } from "../dom.js";
import { number, percent, share, withUnit } from "../format.js";
import { NO_TEMPLATE, templateChoice } from "./template.js";

export const title = "Graph";
export const about = "How what is asked for follows from your values, and where the budget goes.";

const KINDS = { root: "Root", derived: "Derived", target: "Target" };
const THIN = 1.5;
const THICK = 14;
const STEPS = 5;

/** How many columns from the left a node stands: roots first, the target last. */
function ranks({ nodes, edges }) {
  const found = new Map();
  const rank = (name) => {
    if (!found.has(name)) {
      const parents = edges.filter((edge) => edge.target === name).map((edge) => rank(edge.source));
      found.set(name, parents.length > 0 ? Math.max(...parents) + 1 : 0);
    }
    return found.get(name);
  };
  const last = Math.max(...nodes.map((node) => rank(node.name)));
  for (const node of nodes) if (node.kind === "target") found.set(node.name, last);
  return found;
}

function layout({ nodes, edges }, room) {
  const narrow = room < 560;
  const rank = ranks({ nodes, edges });
  const columns = new Set(rank.values()).size;
  // On a phone up to three columns fit side by side; more of them scroll.
  const fitting = Math.floor((room - 8 - (columns - 1) * 28) / columns);
  const size = narrow
    ? { width: Math.min(112, Math.max(90, fitting)), height: 52 }
    : { width: 178, height: 58 };
  const run = (ranksep) => {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "LR", nodesep: narrow ? 14 : 26, ranksep, marginx: 4, marginy: 14 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const node of nodes) graph.setNode(node.name, { ...size });
    for (const { source, target } of edges)
      graph.setEdge(source, target, { minlen: rank.get(target) - rank.get(source) });
    dagre.layout(graph);
    return graph;
  };
  const between = columns > 1 ? (room - 12 - columns * size.width) / (columns - 1) : 0;
  const graph = run(Math.min(460, Math.max(narrow ? 28 : 90, between)));
  return {
    graph,
    size,
    narrow,
    columns: new Set(nodes.map((node) => Math.round(graph.node(node.name).x))),
  };
}

/** Where the ends of a node's edges meet its side: one under the other, in the order of the other ends. */
function ports(edges, graph, widths, here, there) {
  const heights = new Map();
  for (const name of new Set(edges.map((edge) => edge[here]))) {
    const own = edges
      .filter((edge) => edge[here] === name)
      .sort((a, b) => graph.node(a[there]).y - graph.node(b[there]).y);
    const all = own.reduce((sum, edge) => sum + widths.get(edge) + 3, -3);
    let at = graph.node(name).y - Math.min(all, 46) / 2;
    for (const edge of own) {
      const part = (widths.get(edge) * Math.min(all, 46)) / all;
      heights.set(edge, at + part / 2);
      at += part + (3 * Math.min(all, 46)) / all;
    }
  }
  return heights;
}

/** A smooth line from the right of the source to the left of the target, past the columns between. */
function path(start, end, bends) {
  const stops = [start, ...bends.filter((bend) => bend.x > start.x + 1 && bend.x < end.x - 1), end];
  let line = `M${start.x},${start.y}`;
  for (let place = 1; place < stops.length; place += 1) {
    const [a, b] = [stops[place - 1], stops[place]];
    const middle = (a.x + b.x) / 2;
    line += `C${middle},${a.y} ${middle},${b.y} ${b.x},${b.y}`;
  }
  return line;
}

const step = (part) => Math.min(STEPS - 1, Math.floor((part ?? 0) * 2 * STEPS));
const bounds = (node) =>
  node.bounds ? withUnit(`${number(node.bounds[0])} to ${number(node.bounds[1])}`, node.unit) : "–";

function offBy(node) {
  if (node.expected_error === null || node.expected_error === undefined) return "–";
  const absolute = `±${withUnit(number(node.expected_error, 3), node.unit)}`;
  return typeof node.expected_error_percent === "number"
    ? `${absolute} (${percent(node.expected_error_percent)})`
    : absolute;
}

function amplified(node) {
  if (node.kind === "root") return "–";
  const remark = node.amplification_remark ? ` (${node.amplification_remark})` : "";
  return typeof node.amplification === "number"
    ? `× ${number(node.amplification, 3)}${remark}`
    : `no finite bound${remark}`;
}

function subtitle(node) {
  if (node.kind === "root")
    return node.epsilon === null
      ? "no budget"
      : `ε ${number(node.epsilon, 3)} · ${share(node.share ?? 0)}`;
  return node.expected_error === null || node.expected_error === undefined
    ? ""
    : offBy(node).split(" (")[0];
}

function clip(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function nodeCard(node) {
  const rows = [
    ["Formula", node.formula && h("code", null, node.formula)],
    ["Bounds", bounds(node)],
    [
      "Epsilon",
      node.epsilon !== null &&
        node.epsilon !== undefined &&
        `${number(node.epsilon, 3)} (${share(node.share ?? 0)} of the budget)`,
    ],
    ["Expected error", offBy(node)],
    ["Amplification under independent noising", node.kind !== "root" && amplified(node)],
  ].filter(([, value]) => value);
  return [
    h("p", { class: "kind" }, KINDS[node.kind]),
    h("h2", null, node.label),
    h(
      "dl",
      null,
      rows.map(([term, value]) => h("div", null, h("dt", null, term), h("dd", null, value))),
    ),
  ];
}

function edgeCard(edge, label, means) {
  return [
    h("p", { class: "kind" }, "Edge"),
    h("h2", null, `${label(edge.source)} → ${label(edge.target)}`),
    h(
      "dl",
      null,
      h("div", null, h("dt", null, "Sensitivity"), h("dd", null, number(edge.sensitivity, 3))),
      h("div", null, h("dt", null, "Share of the budget"), h("dd", null, share(edge.share))),
    ),
    means ? h("p", { class: "help" }, means) : "",
  ];
}

function drawing(data, room, tell) {
  const { graph, size, narrow, columns } = layout(data, room);
  const { width, height } = graph.graph();
  const label = (name) => data.nodes.find((node) => node.name === name)?.label ?? name;
  const most = Math.max(...data.edges.map((edge) => Math.abs(edge.sensitivity)), 1e-12);
  const aware = (element, show) => {
    for (const name of ["pointerenter", "focus", "click"]) element.addEventListener(name, show);
    return element;
  };
  const widths = new Map(
    data.edges.map((edge) => [edge, THIN + ((THICK - THIN) * Math.abs(edge.sensitivity)) / most]),
  );
  const leaves = ports(data.edges, graph, widths, "source", "target");
  const arrives = ports(data.edges, graph, widths, "target", "source");
  const lines = data.edges.map((edge) => {
    const start = { x: graph.node(edge.source).x + size.width / 2, y: leaves.get(edge) };
    const end = { x: graph.node(edge.target).x - size.width / 2, y: arrives.get(edge) };
    // Of dagre's bends only those in a column of nodes keep the line off other nodes: there it runs
    // straight across.
    const half = size.width / 2;
    const bends = graph
      .edge(edge.source, edge.target)
      .points.filter((bend) => columns.has(Math.round(bend.x)))
      .flatMap(({ x, y }) => [
        { x: x - half, y },
        { x: x + half, y },
      ]);
    if (Math.abs(start.y - end.y) < 2.5) end.y = start.y;
    const line = path(start, end, bends);
    const stroke = widths.get(edge);
    const name = `${label(edge.source)} to ${label(edge.target)}: sensitivity ${number(edge.sensitivity, 3)}, ${share(edge.share)} of the budget`;
    return aware(
      svg(
        "g",
        {
          class: "edge",
          "data-step": step(edge.share),
          tabindex: 0,
          role: "img",
          "aria-label": name,
        },
        svg("path", { d: line, "stroke-width": stroke + 12, class: "reach" }),
        svg("path", { d: line, "stroke-width": stroke, class: "line" }),
      ),
      () => tell(edgeCard(edge, label, data.sensitivity_means)),
    );
  });
  const boxes = data.nodes.map((node) => {
    const { x, y } = graph.node(node.name);
    const [left, top] = [x - size.width / 2, y - size.height / 2];
    const name = `${KINDS[node.kind]} ${node.label}. ${node.formula ? `Formula ${node.formula}. ` : ""}Bounds ${bounds(node)}. Expected error ${offBy(node)}.`;
    return aware(
      svg(
        "g",
        {
          class: `node ${node.kind}${narrow ? " small" : ""}`,
          tabindex: 0,
          role: "img",
          "aria-label": name,
          "data-node": node.name,
        },
        svg("rect", {
          x: left,
          y: top,
          width: size.width,
          height: size.height,
          rx: node.kind === "root" ? 8 : 2,
        }),
        svg(
          "text",
          { x: left + (narrow ? 8 : 12), y: top + (narrow ? 22 : 24), class: "name" },
          clip(node.label, narrow ? Math.floor(size.width / 10) : 20),
        ),
        svg(
          "text",
          { x: left + (narrow ? 8 : 12), y: top + (narrow ? 40 : 44), class: "sub" },
          clip(subtitle(node), narrow ? 16 : 26),
        ),
      ),
      () => tell(nodeCard(node)),
    );
  });
  return svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "group",
      "aria-label": `${data.title}: from the roots to ${label(data.nodes.find((node) => node.kind === "target")?.name)}`,
    },
    lines,
    boxes,
  );
}

function legend() {
  const ramp = Array.from({ length: STEPS }, (_, place) =>
    h(
      "li",
      null,
      h("i", { class: "swatch", "data-step": place }),
      place === STEPS - 1 ? `${place * 10} % and more` : `${place * 10}–${(place + 1) * 10} %`,
    ),
  );
  return h(
    "div",
    { class: "legendbar" },
    h(
      "div",
      null,
      h("p", null, "Width: sensitivity"),
      svg(
        "svg",
        { width: 66, height: 18, class: "widths", "aria-hidden": "true" },
        [2, 6, 12].map((size, place) =>
          svg("path", { d: `M${place * 23},9h20`, "stroke-width": size }),
        ),
      ),
    ),
    h("div", null, h("p", null, "Colour: share of the budget"), h("ul", { class: "ramp" }, ramp)),
  );
}

const meaning = (term, text) =>
  text ? h("div", null, h("dt", null, term), h("dd", null, text)) : null;

function tables(data) {
  const label = (name) => data.nodes.find((node) => node.name === name)?.label ?? name;
  const nodes = data.nodes.map((node) => [
    node.label,
    KINDS[node.kind],
    node.formula ? h("code", null, node.formula) : "–",
    bounds(node),
    node.epsilon === null || node.epsilon === undefined ? "–" : number(node.epsilon, 3),
    node.share === null || node.share === undefined ? "–" : share(node.share),
    offBy(node),
    amplified(node),
  ]);
  const edges = data.edges.map((edge) => [
    `${label(edge.source)} → ${label(edge.target)}`,
    number(edge.sensitivity, 3),
    share(edge.share),
  ]);
  return [
    table(
      "Values",
      [
        "Value",
        "Kind",
        "Formula",
        "Bounds",
        ">Epsilon",
        ">Share",
        ">Expected error",
        ">Amplification",
      ],
      nodes,
    ),
    h(
      "dl",
      { class: "help under meanings" },
      meaning("Expected error", data.expected_error_means),
      meaning("Amplification under independent noising", data.amplification_means),
    ),
    table("Edges", ["Edge", ">Sensitivity", ">Share of the budget"], edges),
    h("dl", { class: "help under meanings" }, meaning("Sensitivity", data.sensitivity_means)),
  ];
}

export function show(place, { me, query, remember }) {
  if (me.templates.length === 0) return void place.append(note(NO_TEMPLATE));
  const body = h("div", null);
  const template = templateChoice(me, query, (name) => {
    remember({ template: name });
    load(name);
  });
  let data = null;
  let fitted = 0;
  let draw = () => {};
  const watched = new ResizeObserver(() => draw());
  place.append(h("div", { class: "bar" }, template.element), body);

  function render() {
    if (!data) return;
    const card = h("aside", { class: "card", "aria-label": "Details of what is pointed at" });
    const tell = (parts) => card.replaceChildren(...parts);
    const target = data.nodes.find((node) => node.kind === "target") ?? data.nodes[0];
    tell(nodeCard(target));
    const canvas = h("div", {
      class: "canvas",
      tabindex: 0,
      role: "region",
      "aria-label": "Graph",
    });
    body.replaceChildren(
      h(
        "p",
        { class: "lead" },
        `Epsilon ${number(data.budget, 3)} in all, ${data.mechanism} noise. Each root is noised once; everything to its right is computed from that and costs nothing.`,
      ),
      h("div", { class: "split" }, h("figure", null, canvas, legend()), card),
      h("section", { class: "tables", "aria-label": "The graph as tables" }, tables(data)),
    );
    watched.disconnect();
    watched.observe(canvas);
    fitted = 0;
    draw = () => {
      const { paddingLeft, paddingRight } = getComputedStyle(canvas);
      const room =
        canvas.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
      if (Math.abs(room - fitted) < 8) return;
      fitted = room;
      canvas.replaceChildren(drawing(data, room, tell));
    };
    draw();
  }

  async function load(name) {
    data = null;
    body.replaceChildren(note("Reading the graph…", { busy: true }));
    try {
      data = (await get("graph", { template: name })).body;
      render();
    } catch (problem) {
      body.replaceChildren(note(problem.message, { error: true, retry: () => load(name) }));
    }
  }

  load(template.chosen);
  return () => watched.disconnect();
}
