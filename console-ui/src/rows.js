// A long list drawn a window at a time: only rows near the screen are in the document.
//
// The page itself scrolls. Rows have one height, read from the style sheet; the newest is on top, and
// rows that arrive above the screen leave what is being read where it is.

import { h } from "./dom.js";

const SPARE = 8;

export class Rows {
  /** `draw(item)` makes a row's cells; `key(item)` is its identity; `open(item)` is Enter or a click. */
  constructor({ body, draw, key, open }) {
    Object.assign(this, { body, draw, key, open });
    this.items = [];
    this.made = new Map();
    this.active = 0;
    this.waiting = false;
    this.whole = false;
    this.schedule = this.schedule.bind(this);
    addEventListener("scroll", this.schedule, { passive: true });
    addEventListener("resize", this.schedule);
    body.addEventListener("keydown", (event) => this.#press(event));
    body.addEventListener("click", (event) => {
      const row = event.target.closest("[role=row]");
      if (row) this.#choose(Number(row.dataset.index), true);
    });
    this.printing = () => this.#print(true);
    this.printed = () => this.#print(false);
    addEventListener("beforeprint", this.printing);
    addEventListener("afterprint", this.printed);
  }

  end() {
    removeEventListener("scroll", this.schedule);
    removeEventListener("resize", this.schedule);
    removeEventListener("beforeprint", this.printing);
    removeEventListener("afterprint", this.printed);
  }

  /** Oldest first; `added` of them are new at the top. */
  set(items, added = 0) {
    this.items = items;
    const above = added > 0 && this.body.getBoundingClientRect().top < this.#top();
    if (added > 0) this.active = Math.min(this.active + added, Math.max(0, items.length - 1));
    else this.active = Math.min(this.active, Math.max(0, items.length - 1));
    this.render();
    if (above) scrollBy({ top: added * this.height, behavior: "instant" });
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.render();
    });
  }

  at(index) {
    return this.items[this.items.length - 1 - index];
  }

  render() {
    if (this.whole) return;
    this.height = Number.parseFloat(getComputedStyle(this.body).getPropertyValue("--row"));
    const many = this.items.length;
    this.body.style.height = `${many * this.height}px`;
    const top = this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / this.height) - SPARE);
    const last = Math.min(many - 1, Math.ceil((innerHeight - top) / this.height) + SPARE);
    const wanted = new Map();
    for (let index = first; index <= last; index += 1) wanted.set(this.key(this.at(index)), index);
    if (many > 0) wanted.set(this.key(this.at(this.active)), this.active);
    for (const [key, row] of this.made) {
      if (wanted.has(key)) continue;
      row.remove();
      this.made.delete(key);
    }
    const before = [];
    for (const [key, index] of [...wanted].sort((a, b) => a[1] - b[1])) {
      let row = this.made.get(key);
      if (!row) {
        row = this.draw(this.at(index));
        this.made.set(key, row);
      }
      row.dataset.index = index;
      row.setAttribute("aria-rowindex", index + 2);
      row.tabIndex = index === this.active ? 0 : -1;
      row.style.transform = `translateY(${index * this.height}px)`;
      before.push(row);
    }
    // The order in the document is the order on the screen; a focused row is never moved.
    let next = null;
    for (const row of before.reverse()) {
      if (
        row.parentNode !== this.body ||
        (row.nextSibling !== next && row !== document.activeElement)
      ) {
        this.body.insertBefore(row, next);
      }
      next = row;
    }
  }

  #top() {
    return document.querySelector(".top").getBoundingClientRect().bottom;
  }

  #choose(index, open) {
    this.active = index;
    this.render();
    const row = this.made.get(this.key(this.at(index)));
    const box = row.getBoundingClientRect();
    const roof = this.#top() + (this.body.previousElementSibling?.offsetHeight ?? 0);
    if (box.top < roof) scrollBy({ top: box.top - roof, behavior: "instant" });
    else if (box.bottom > innerHeight)
      scrollBy({ top: box.bottom - innerHeight, behavior: "instant" });
    row.focus({ preventScroll: true });
    if (open) this.open(this.at(index));
  }

  #press(event) {
    const page = Math.max(1, Math.floor((innerHeight - this.#top()) / this.height) - 2);
    const last = this.items.length - 1;
    const to = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + page,
      PageUp: this.active - page,
      Home: 0,
      End: last,
      Enter: this.active,
      " ": this.active,
    }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.#choose(Math.min(last, Math.max(0, to)), event.key === "Enter" || event.key === " ");
  }

  /** Paper has no window: the newest rows in the order of the page, as many as fit a few sheets. */
  #print(on) {
    this.whole = on;
    for (const row of this.made.values()) row.remove();
    this.made.clear();
    if (on) {
      this.body.style.height = "auto";
      const many = Math.min(this.items.length, 300);
      this.body.replaceChildren(
        ...Array.from({ length: many }, (_, index) => this.draw(this.at(index))),
      );
      if (many < this.items.length) {
        this.body.append(h("p", { class: "help" }, `The newest ${many} of ${this.items.length}.`));
      }
    } else {
      this.body.replaceChildren();
      this.render();
    }
  }
}
