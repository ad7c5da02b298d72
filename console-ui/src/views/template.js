// Which template a view is about: a select when there are several, its title otherwise.

import { h, select } from "../dom.js";

export function templateChoice(me, query, onchange) {
  const names = me.templates.map((each) => each.name);
  const asked = query.get("template");
  const chosen = names.includes(asked) ? asked : names[0];
  const pairs = me.templates.map((each) => [each.name, each.title]);
  const element =
    names.length > 1
      ? select("Template", pairs, chosen, onchange).element
      : h(
          "div",
          { class: "field" },
          h("span", { class: "label" }, "Template"),
          h("b", null, pairs[0]?.[1] ?? "none"),
        );
  return { chosen, element };
}

export const NO_TEMPLATE = "The profile has no template, so there is nothing to draw here.";
