// Elements, always with text as text: names come from robots, and anybody may call itself anything.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children); // strings become text nodes
  return node;
}

// Sets what differs, so that a screen reader and a selection are left alone where nothing changed.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function mark(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? "" : value);
}

// Keeps one child for each item: the same node for the same key, so that focus stays where it is. Items of equal keys
// are told apart by their order.
export function keyed(parent, items, key, make, update) {
  const before = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  const seen = new Map();
  const named = items.map((item) => {
    const plain = String(key(item));
    const times = seen.get(plain) ?? 0;
    seen.set(plain, times + 1);
    return [`${times} ${plain}`, item];
  });
  // What goes leaves first: a node that is moved would lose the focus.
  const kept = new Set(named.map(([name]) => name));
  for (const [name, node] of before) if (!kept.has(name)) node.remove();
  let place = parent.firstElementChild;
  for (const [name, item] of named) {
    let node = before.get(name);
    if (!node) {
      node = make(item);
      node.dataset.key = name;
    }
    update?.(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
}

// A table of texts, built anew only where something in it changed. Columns: {title, numeric}; rows: arrays of
// strings or {text, strong, label}.
export function table(parent, caption, columns, rows) {
  const told = JSON.stringify([caption, columns, rows]);
  if (parent.dataset.told === told) return;
  parent.dataset.told = told;
  const numeric = columns.map((column) => (column.numeric ? "numeric" : null));
  const cell = (value, k) => {
    const one = typeof value === "object" ? value : { text: value };
    const text = one.strong ? el("strong", {}, one.text) : one.text;
    const told = { class: [numeric[k], one.mark].filter(Boolean).join(" ") || null, "aria-label": one.label };
    return k === 0 ? el("th", { scope: "row" }, text) : el("td", told, text);
  };
  parent.replaceChildren(
    el("table", {},
      el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, ...columns.map((c, k) => el("th", { scope: "col", class: numeric[k] }, c.title)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell))))));
}
