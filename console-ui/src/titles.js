// What people call things: "Platelets" where the code says "plt".

import { list } from "./format.js";

const KINDS = {
  address: ["address", "addresses"],
  code: ["record or account number", "record or account numbers"],
  date: ["date", "dates"],
  email: ["e-mail address", "e-mail addresses"],
  identifier: ["identifier of yours", "identifiers of yours"],
  number: ["number in doubt", "numbers in doubt"],
  person: ["name", "names"],
  phone: ["telephone number", "telephone numbers"],
  text: ["text", "texts"],
};
const NO_IDENTIFIER = new Set(["value", "answer", "number", "text", "refused"]);
const SOURCES = {
  owner: "you",
  trusted: "a tool that you trust",
  tool: "a tool",
  model: "the model",
  developer: "the prompt",
  service: "the service",
};

/** A function from a value's name in code to its title; a name without one stays as it is. */
export function titlesOf(me) {
  const found = new Map();
  for (const template of me.templates)
    for (const [name, title] of Object.entries(template.titles)) found.set(name, title);
  return (name) => found.get(name) ?? name;
}

/** How many of which kind, in words: "2 names". */
export function counted(kind, times) {
  const [one, more] = KINDS[kind] ?? [kind.replaceAll("_", " "), kind.replaceAll("_", " ")];
  return `${times} ${times === 1 ? one : more}`;
}

/** What an identifier is, as a heading. */
export function kindOf(kind) {
  const [one] = KINDS[kind] ?? [kind.replaceAll("_", " ")];
  return one[0].toUpperCase() + one.slice(1);
}

export const sourceOf = (source) => SOURCES[source] ?? source;
export const isIdentifier = (place) => !NO_IDENTIFIER.has(place.change);

/** How many identifiers left as others. */
export function identifiers(entry) {
  let many = 0;
  for (const place of entry.places ?? []) if (isIdentifier(place)) many += place.times;
  return many;
}

/** What was put in place of what, by kind and count: "2 names replaced; Age given as released". */
export function changesInWords(entry, title) {
  const replaced = new Map();
  const taken = new Map();
  const given = new Set();
  for (const each of entry.places ?? []) {
    if (each.change === "value" || each.change === "answer")
      given.add(title(each.root) || "a value");
    else {
      const where = isIdentifier(each) ? replaced : taken;
      where.set(each.change, (where.get(each.change) ?? 0) + each.times);
    }
  }
  const words = (kinds) => list([...kinds].map(([kind, times]) => counted(kind, times)));
  return [
    replaced.size > 0 && `${words(replaced)} replaced`,
    taken.size > 0 && `${words(taken)} taken out`,
    given.size > 0 && `${list([...given])} as released`,
  ]
    .filter(Boolean)
    .join("; ");
}
