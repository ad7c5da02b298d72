// The audit log: first the latest page, then the live stream, and in the background the older pages.
// Views listen; none of them owns it.

import { get } from "./api.js";

const PAGE = 1000;
const FIRST_PAGE = 200;
const MOST = 50_000;
const WAITS = [1000, 2000, 5000, 10_000];

export class Feed extends EventTarget {
  entries = [];
  total = 0;
  /** "loading", "live", "lost" (reconnecting) or "failed" (could not be read at all). */
  state = "loading";
  problem = "";
  complete = false;
  /** Whether the latest page is here: what is drawn before would move when it comes. */
  loaded = false;
  #source = null;
  #stopped = false;
  #tries = 0;
  #fresh = [];
  #timer = 0;

  #first = 0;
  #reading = false;

  async start() {
    this.#to("loading");
    try {
      const { body } = await get("log", { limit: FIRST_PAGE });
      if (this.#stopped) return;
      this.entries = body.entries;
      this.total = body.total;
      this.#first = body.first;
      this.loaded = true;
      this.dispatchEvent(new Event("older"));
      this.#listen();
      this.#older();
    } catch (problem) {
      if (this.#stopped) return;
      this.problem = problem.message;
      this.#to("failed");
    }
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#source?.close();
  }

  #to(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  /** Page back to the first one. What fails is tried again when the stream is there again. */
  async #older() {
    if (this.#reading || this.complete) return;
    this.#reading = true;
    try {
      while (!this.#stopped && this.entries.length < MOST) {
        const oldest = this.entries[0]?.id;
        if (oldest === undefined || oldest <= this.#first) break;
        const { body } = await get("log", { before: oldest, limit: PAGE });
        // Something may have been erased meanwhile; then there is nothing older.
        if (body.entries.length === 0 || this.entries[0].id !== oldest) break;
        this.entries = body.entries.concat(this.entries);
        this.dispatchEvent(new Event("older"));
      }
      this.complete = true;
      if (!this.#stopped) this.dispatchEvent(new Event("older"));
    } catch {
      this.complete = false;
    } finally {
      this.#reading = false;
    }
  }

  #listen() {
    const after = this.entries.at(-1)?.id ?? 0;
    const source = new EventSource(`api/live?after=${after}`);
    this.#source = source;
    source.addEventListener("open", () => {
      this.#tries = 0;
      this.#to("live");
      this.#older();
    });
    source.addEventListener("entry", (event) => this.#take(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      source.close();
      if (this.#stopped) return;
      this.#to("lost");
      const wait = WAITS[Math.min(this.#tries, WAITS.length - 1)];
      this.#tries += 1;
      this.#timer = setTimeout(() => this.#again(), wait);
    });
  }

  async #again() {
    try {
      await get("me"); // a key that no longer holds leads back to the key's page
      if (!this.#stopped) this.#listen();
    } catch (problem) {
      if (this.#stopped || problem.status === 401) return;
      const wait = WAITS[Math.min(this.#tries, WAITS.length - 1)];
      this.#tries += 1;
      this.#timer = setTimeout(() => this.#again(), wait);
    }
  }

  #take(entry) {
    const last = this.#fresh.at(-1) ?? this.entries.at(-1);
    if (last !== undefined && entry.id <= last.id) return;
    this.#fresh.push(entry);
    if (this.#fresh.length > 1) return;
    requestAnimationFrame(() => {
      const fresh = this.#fresh;
      this.#fresh = [];
      this.entries.push(...fresh);
      this.total += fresh.length;
      const erased = this.entries.findLastIndex((each) => each.kind === "erased");
      if (erased > 0) {
        this.entries = this.entries.slice(erased);
        this.total = this.entries.length;
        this.dispatchEvent(new Event("older"));
        return;
      }
      this.dispatchEvent(new CustomEvent("newer", { detail: fresh }));
    });
  }
}
