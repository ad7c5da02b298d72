// What people call things: "Platelets" where the code says "plt".

const KINDS = {
  name: "Name",
  person: "Name",
  email: "E-mail address",
  phone: "Telephone number",
  record: "Record number",
  address: "Address",
  date: "Date",
  id: "Number",
};

/** A function from a value's name in code to its title; a name without one stays as it is. */
export function titlesOf(me) {
  const found = new Map();
  for (const template of me.templates)
    for (const [name, title] of Object.entries(template.titles)) found.set(name, title);
  return (name) => found.get(name) ?? name;
}

/** What an identifier is, in words. */
export const kindOf = (kind) => KINDS[kind] ?? kind.replaceAll("_", " ");
