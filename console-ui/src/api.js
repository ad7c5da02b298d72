// The server's answers. Addresses are relative: the console may be mounted anywhere.

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const SILENT = "The console does not answer. Is the program that serves it still running?";

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refusal(0, SILENT);
  }
  if (answer.ok) return answer;
  let message = `The console answered with an error (${answer.status}).`;
  try {
    message = sentence((await answer.json()).error.message);
  } catch {
    // The body is not the console's own; the sentence above says what is known.
  }
  if (answer.status === 401 && path !== "login") window.dispatchEvent(new Event("signed-out"));
  throw new Refusal(answer.status, message);
}

export async function get(path, query = {}, options = {}) {
  const search = new URLSearchParams(query).toString();
  const answer = await ask(search ? `${path}?${search}` : path, options);
  return { status: answer.status, body: await answer.json() };
}

function sent(body, options = {}) {
  return {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...options,
  };
}

export async function post(path, body = {}) {
  const answer = await ask(path, sent(body));
  return answer.status === 204 ? null : answer.json();
}

/** The events of a POST that is answered by an event stream, one {event, data} after another. */
export async function* events(path, body, signal) {
  const answer = await ask(path, sent(body, { signal }));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch((problem) => {
      throw problem.name === "AbortError" ? problem : new Refusal(0, SILENT);
    });
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = { event: "message", data: "" };
      for (const line of block.split("\n")) {
        const at = line.indexOf(":");
        if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).trimStart();
      }
      if (fields.data) yield { event: fields.event, data: JSON.parse(fields.data) };
    }
  }
}
