// Buttons that act on the fleet: there where the server was started with a token, for those who know it.

import { $, el, keyed, say } from "./dom.js";

// What services are called on their buttons, by the end of their names.
const WORDS = {
  pause_training: { on: "Pause training", off: "Resume training" },
  new_sequence: { call: "New sequence" },
  "replay/start": { call: "Start replay" },
  "replay/stop": { call: "Stop replay" },
  "replay/restart": { call: "Restart replay" },
};

let token = "";
let list = null;
let none = null;
let result = null;

// Services: null where nobody may act; then nothing is there to click.
export function show(services) {
  $("act").hidden = services === null;
  if (services === null) return;
  if (!list) build();
  keyed(list, groups(services), ([where]) => where, makeGroup, (node, [, of]) => {
    keyed(node.lastElementChild, of, ({ service }) => service.name, makeButtons);
  });
  none.hidden = services.length > 0;
  enable();
}

function build() {
  const field = el("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false" });
  field.addEventListener("input", () => {
    token = field.value.trim();
    enable();
  });
  const form = el("form", { class: "token", autocomplete: "off" }, el("label", { for: "token" }, "Token"), field,
    el("span", { class: "quiet" }, "It stays in this page until you close it."));
  form.addEventListener("submit", (event) => event.preventDefault());
  list = el("ul", { class: "actions" });
  none = el("p", { class: "quiet" }, "Nobody in this fleet offers anything to act on yet.");
  result = el("p", { class: "result", role: "status" });
  $("act").append(el("h2", { id: "act-title" }, "Act"), form, none, list, result);
}

// [namespace, its services with their words] for each robot.
function groups(services) {
  const found = new Map();
  for (const service of services) {
    const known = Object.keys(WORDS).find((end) => service.name.endsWith(`/${end}`));
    const end = known ?? service.name.slice(service.name.lastIndexOf("/") + 1);
    const plain = end.replaceAll("_", " ");
    const words = WORDS[known] ?? { on: `${plain}: on`, off: `${plain}: off`, call: plain };
    const where = service.name.slice(0, -end.length - 1) || "/";
    if (!found.has(where)) found.set(where, []);
    found.get(where).push({ service, words, where });
  }
  return [...found];
}

function makeGroup([where]) {
  return el("li", {}, el("strong", {}, where), el("span", { class: "buttons" }));
}

function makeButtons({ service, words, where }) {
  const button = (text, value) => {
    const node = el("button", { type: "button", "aria-label": `${text} of ${where}` }, text);
    node.addEventListener("click", () => act(service, value, `${text} of ${where}`));
    return node;
  };
  return el("span", { class: "buttons" }, ...(service.switch ? [button(words.on, true), button(words.off, false)] : [button(words.call)]));
}

function enable() {
  for (const button of list.querySelectorAll("button")) button.disabled = !token;
}

async function act(service, value, what) {
  say(result, `${what}: asked`);
  result.dataset.level = "";
  let told;
  try {
    const answer = await fetch("api/act", {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ service: service.name, value }),
    });
    told = await answer.json();
  } catch {
    told = { ok: false, text: "the server gave no answer" };
  }
  say(result, `${what}: ${told.ok ? told.text || "done" : told.text || "refused"}`);
  result.dataset.level = told.ok ? "ok" : "error";
}
