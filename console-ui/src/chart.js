// Line charts by uPlot, in the page's own colours; redrawn when the size or the theme changes.

import uPlot from "uplot";
import { h } from "./dom.js";
import { clock, number } from "./format.js";

const live = new Set();

/** A canvas knows no custom properties: an element that uses one tells what it comes to now. */
const probe = h("i", { hidden: true });

function color(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

const HOUR = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** The time of day, and under it the day wherever a new one begins. */
function hours(splits) {
  const days = splits.map((each) => DATE.format(each * 1000));
  const times = splits.map((each) => HOUR.format(each * 1000));
  const twice = times.some((each, place) => each === times[place - 1]);
  if (twice) return new Set(days).size > 1 ? days : splits.map(clock);
  return times.map((each, place) =>
    days[place] === days[place - 1] ? each : `${each}\n${days[place]}`,
  );
}

/** 1, 10, 100 …, with the twos and fives between when there are few. */
function decades(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const times of high / low > 500 ? [1] : [1, 2, 5])
      found.push(Number((times * 10 ** power).toPrecision(3)));
  }
  return found.filter((each) => each >= low * 0.999 && each <= high * 1.001);
}

export function redrawCharts() {
  for (const each of live) each.rebuild();
}

/** A vertical line at the chosen x, with a dot on each series. */
function marker(at, series) {
  return {
    hooks: {
      draw: (plot) => {
        const x = at();
        if (x === null) return;
        const { ctx, bbox } = plot;
        const left = plot.valToPos(x, "x", true);
        ctx.save();
        ctx.strokeStyle = color("--muted");
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(left, bbox.top);
        ctx.lineTo(left, bbox.top + bbox.height);
        ctx.stroke();
        ctx.setLineDash([]);
        const place = plot.data[0].indexOf(x);
        for (let index = 1; index < plot.series.length; index += 1) {
          const value = plot.data[index][place];
          if (value === null || value === undefined) continue;
          ctx.beginPath();
          ctx.arc(left, plot.valToPos(value, "y", true), 4.5 * devicePixelRatio, 0, 2 * Math.PI);
          ctx.fillStyle = color(series[index - 1].color);
          ctx.fill();
          ctx.lineWidth = 2 * devicePixelRatio;
          ctx.strokeStyle = color("--surface");
          ctx.stroke();
        }
        ctx.restore();
      },
    },
  };
}

/**
 * A chart in a figure. `series` is [{label, color, dash, step, width}], `x` is {kind: "log" | "linear" |
 * "time", label, splits}, `y` is {kind, label, format, range}; `summary` is its name for screen readers.
 * `chosen` gives the marked x or null, and `onpick` hears the index that was clicked.
 */
export class Chart {
  constructor({
    series,
    x,
    y,
    summary,
    height = 220,
    chosen = () => null,
    onpick = null,
    points = false,
  }) {
    this.settings = { series, x, y, height, chosen, onpick, points };
    this.data = [[], ...series.map(() => [])];
    this.host = h("div", { class: "plot" });
    this.host.style.height = `${height}px`;
    this.legend = h(
      "ul",
      { class: "legend" },
      series.map((each) => {
        const drawn = each.dash ? (each.dash[0] < 4 ? "key dotted" : "key dashed") : "key";
        const key = h("i", { class: drawn });
        key.style.setProperty("--key", `var(${each.color})`);
        each.out = h("output", null);
        return h("li", null, key, h("span", null, each.label), each.out);
      }),
    );
    this.box = h("div", { class: "chart", role: "img", "aria-label": summary }, this.host);
    this.observer = new ResizeObserver(() => this.#fit());
    this.observer.observe(this.host);
    live.add(this);
  }

  /** Where the legend goes is the caller's choice; the drawing itself is one image. */
  get element() {
    return this.box;
  }

  describe(summary) {
    this.box.setAttribute("aria-label", summary);
  }

  set(data) {
    this.data = data;
    if (this.plot && data[0].length > 0) this.plot.setData(data);
    else this.rebuild();
  }

  redraw() {
    this.plot?.redraw(false, false);
  }

  destroy() {
    live.delete(this);
    this.observer.disconnect();
    this.plot?.destroy();
  }

  #fit() {
    const width = this.host.clientWidth;
    if (width === 0) return;
    if (!this.plot) this.rebuild();
    else if (Math.abs(this.plot.width - width) >= 1)
      this.plot.setSize({ width, height: this.settings.height });
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    const width = this.host.clientWidth;
    if (width === 0 || this.data[0].length === 0) return;
    const { series, x, y, height, chosen, onpick, points } = this.settings;
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: color("--muted"), font, labelFont: font, labelSize: 18, gap: 6 };
    const rule = { stroke: color("--line"), width: 1 };
    const format = y.format ?? ((value) => number(value, 3));
    const options = {
      width,
      height,
      padding: [10, x.kind === "time" ? 28 : 12, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: x.kind === "time", distr: x.kind === "log" ? 3 : 1 },
        y: { distr: y.kind === "log" ? 3 : 1, ...(y.range ? { range: y.range } : {}) },
      },
      cursor: {
        drag: { x: false, y: false },
        points: { size: 8 },
        y: false,
        bind: onpick
          ? { click: (plot) => () => plot.cursor.idx !== null && onpick(plot.cursor.idx) }
          : {},
      },
      hooks: {
        setCursor: [
          (plot) => {
            for (const [index, each] of series.entries()) {
              const value = plot.cursor.idx === null ? null : plot.data[index + 1][plot.cursor.idx];
              each.out.textContent = value === null || value === undefined ? "" : format(value);
            }
          },
        ],
      },
      plugins: [marker(chosen, series)],
      axes: [
        {
          ...axis,
          label: x.label,
          size: x.kind === "time" ? 44 : 30,
          grid: { show: false },
          ticks: { ...rule, size: 4 },
          ...(x.splits ? { splits: () => x.splits, filter: (_, splits) => splits } : {}),
          ...(x.kind === "time" ? { values: (_, splits) => hours(splits) } : {}),
          ...(x.format ? { values: (_, splits) => splits.map(x.format) } : {}),
          ...(x.whole ? { incrs: [1, 2, 5, 10, 20, 50, 100] } : {}),
          space: x.space ?? 44,
        },
        {
          ...axis,
          size: 54,
          grid: rule,
          ...(y.kind === "log"
            ? { splits: (_, __, low, high) => decades(low, high), filter: (_, splits) => splits }
            : {}),
          ticks: { show: false },
          space: 36,
          values: (_, splits) => splits.map((value) => (value === null ? "" : format(value))),
        },
      ],
      series: [
        {},
        ...series.map((each) => ({
          label: each.label,
          stroke: color(each.color),
          width: each.width ?? 2,
          dash: each.dash,
          spanGaps: true,
          points: { show: points, size: 5, fill: color(each.color) },
          paths: each.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
        })),
      ],
    };
    this.plot = new uPlot(options, this.data, this.host);
  }
}
