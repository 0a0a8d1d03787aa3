// Buttons that act on the fleet: there where the server was started with a token, for those who know it.

import { $, el, keyed, say } from "./dom.js";

const WORDS = {
  pause_training: { title: "training", on: "Pause training", off: "Resume training" },
  new_sequence: { title: "sequence", call: "New sequence" },
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
  keyed(list, services, (one) => one.name, make);
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

function make(service) {
  const cut = service.name.lastIndexOf("/");
  const [where, last] = [service.name.slice(0, cut) || "/", service.name.slice(cut + 1)];
  const plain = last.replaceAll("_", " ");
  const words = WORDS[last] ?? { on: `${plain}: on`, off: `${plain}: off`, call: plain };
  const button = (text, value) => {
    const node = el("button", { type: "button", "aria-label": `${text} of ${where}` }, text);
    node.addEventListener("click", () => act(service, value, `${text} of ${where}`));
    return node;
  };
  const buttons = service.switch ? [button(words.on, true), button(words.off, false)] : [button(words.call)];
  return el("li", {}, el("strong", {}, where), el("span", { class: "buttons" }, ...buttons));
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
