// How numbers and times are written: three significant digits, as on the command line.

export function percent(value) {
  return value === null || value === undefined ? "–" : `${number(value)}\u00a0%`;
}

export function share(part) {
  return `${Math.round(part * 100)}\u00a0%`;
}

/** So many significant digits, all of a larger whole part, no trailing zeros, an exponent only where people would write one. */
export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-5) return value.toExponential(Math.max(0, digits - 2));
  const shown = size >= 1000 ? Math.round(value) : Number(value.toPrecision(digits));
  return shown.toLocaleString("en", { maximumFractionDigits: 12, useGrouping: size >= 10000 });
}

export function count(value) {
  return value.toLocaleString("en");
}

export function plural(many, one, more = `${one}s`) {
  return `${count(many)} ${many === 1 ? one : more}`;
}

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A unit as people write it: 10⁹/L for 10^9/L. */
export function written(unit) {
  return unit.replace(/\^(\d+)/g, (_, digits) => [...digits].map((each) => RAISED[each]).join(""));
}

export function withUnit(value, unit) {
  return unit ? `${value} ${written(unit)}` : value;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const WHOLE = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "medium" });

export const clock = (seconds) => CLOCK.format(seconds * 1000);
export const whole = (seconds) => WHOLE.format(seconds * 1000);

/** The day, unless it is today. */
export function day(seconds) {
  const text = DAY.format(seconds * 1000);
  return text === DAY.format(Date.now()) ? "" : text;
}

/** ["a", "b", "c"] as "a, b and c". */
export function list(words) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}
