// Elements without strings of HTML: text is always text, and no style attribute is ever written.

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children
      .flat(Infinity)
      .filter((each) => each !== null && each !== undefined && each !== false),
  );
  return element;
}

export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

let named = 0;

export function freshId(stem) {
  named += 1;
  return `${stem}-${named}`;
}

/** Say one sentence to screen readers, politely; the same one twice is said once. */
export function say(sentence) {
  const place = document.getElementById("say");
  if (place.textContent !== sentence) place.textContent = sentence;
}

/** A labelled select whose options are [value, text] pairs. */
export function select(label, options, value, onchange) {
  const id = freshId("select");
  const box = h("select", { id, onchange: (event) => onchange(event.target.value) });
  const put = (pairs, chosen) => {
    box.replaceChildren(...pairs.map(([key, text]) => h("option", { value: key }, text)));
    box.value = chosen;
    if (box.selectedIndex < 0) box.selectedIndex = 0;
  };
  put(options, value);
  return { element: h("div", { class: "field" }, h("label", { for: id }, label), box), box, put };
}

/** A group of radio buttons drawn as one bar. */
export function choice(label, options, value, onchange) {
  const name = freshId("choice");
  const inputs = options.map(([key, text, title]) => {
    const input = h("input", { type: "radio", name, value: key, checked: key === value });
    input.addEventListener("change", () => onchange(key));
    return h("label", { title }, input, h("span", null, text));
  });
  return h("fieldset", { class: "choice" }, h("legend", null, label), h("div", null, inputs));
}

/** A table from headings and rows of cells; a heading that begins with ">" stands over numbers. */
export function table(caption, headings, rows, { hideCaption = false } = {}) {
  const numeric = headings.map((text) => text.startsWith(">"));
  const cell = (content, place) =>
    place === 0
      ? h("th", { scope: "row", class: numeric[0] && "number" }, content)
      : h("td", { class: numeric[place] && "number" }, content);
  const head = headings.map((text, place) =>
    h("th", { scope: "col", class: numeric[place] && "number" }, text.replace(/^>/, "")),
  );
  return h(
    "div",
    { class: "scroller", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { class: hideCaption && "sr" }, caption),
      h("thead", null, h("tr", null, head)),
      h(
        "tbody",
        null,
        rows.map((row) => h("tr", null, row.map(cell))),
      ),
    ),
  );
}

/** A sentence in place of a view's content: loading, empty, or what went wrong and what to do. */
export function note(sentence, { error = false, busy = false, retry } = {}) {
  const text = h("p", null, sentence);
  const again = retry && h("button", { type: "button", onclick: retry }, "Try again");
  const className = error ? "note error" : busy ? "note busy" : "note";
  return h("div", { class: className, role: error ? "alert" : null }, text, again);
}

/** Everything that the console shows, as one file. */
export function exportLink() {
  return h("a", { class: "button", href: "api/export", download: "rootguard.json" }, "Export");
}
