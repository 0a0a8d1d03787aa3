// The table of robots: one row each, as cards on a narrow screen.

import { $, el, keyed, mark, say, svg } from "./dom.js";
import { bytes, clock, count, duration, loss, short } from "./format.js";

const text = (value) => ({ update: (td, robot, state) => say(td, value(robot, state)), value });
const figure = (value) => ({ ...text(value), numeric: true });

const COLUMNS = [
  { key: "doing", title: "Doing", always: true, ...phase() },
  { key: "progress", title: "Progress", ...progress() },
  { key: "loss", title: "Loss", always: true, ...figure((r) => loss(r.loss)) },
  { key: "history", title: "Loss by round", ...history() },
  { key: "samples", title: "Samples", ...figure((r) => (r.samples ? String(r.samples) : "")) },
  { key: "speed", title: "Samples/s", ...figure((r) => (r.samples_per_s ? short(r.samples_per_s) : "")) },
  { key: "sent", title: "Sent", ...figure((r) => bytes(r.sent_bytes)) },
  { key: "received", title: "Received", ...figure((r) => bytes(r.received_bytes)) },
  { key: "disk", title: "Disk free", ...figure((r) => bytes(r.disk_free_bytes)) },
  { key: "gpu", title: "GPU memory", ...figure((r) => bytes(r.gpu_used_bytes)) },
  { key: "shares", title: "Shared layers", ...figure((r) => r.shares) },
  { key: "refused", title: "Refused", ...figure((r) => (r.refused ? String(r.refused) : "")) },
  { key: "heard", title: "Last word", ...figure(age) },
  { key: "text", title: "Says", ...text((r) => r.text) },
];

const ORDERS = {
  name: { title: "name", by: () => 0 },
  trouble: { title: "faults first", by: (r) => (r.troubled || r.phase === "away" || r.phase === "failed" ? 0 : 1) },
  loss: { title: "highest loss", by: (r) => -(r.loss ?? -Infinity) },
  silent: { title: "longest silent", by: (r) => r.said_s ?? -Infinity },
};

let newest = null;

export function prepare() {
  const head = $("robots-head");
  head.append(el("th", { scope: "col", role: "columnheader" }, "Robot"));
  for (const column of COLUMNS) {
    const kind = column.numeric ? "numeric" : null;
    head.append(el("th", { scope: "col", role: "columnheader", class: kind, "data-column": column.key }, column.title));
  }
  for (const [name, order] of Object.entries(ORDERS)) {
    $("robots-order").append(el("option", { value: name }, order.title));
  }
  $("robots-order").addEventListener("change", draw);
  $("robots-find").addEventListener("input", draw);
}

export function show(run, state) {
  newest = { run, state };
  draw();
}

function draw() {
  if (!newest) return;
  const { run, state } = newest;
  const wanted = $("robots-find").value.trim().toLowerCase();
  const by = ORDERS[$("robots-order").value].by;
  const shown = run.robots
    .filter((robot) => robot.id.toLowerCase().includes(wanted))
    .sort((a, b) => by(a) - by(b) || (a.id < b.id ? -1 : 1));
  const told = COLUMNS.filter((c) => c.always || run.robots.some((r) => c.value(r, state)));
  for (const th of $("robots-head").children) {
    if (th.dataset.column) th.hidden = !told.some((c) => c.key === th.dataset.column);
  }
  keyed($("robots-rows"), shown, (r) => r.id, make, (tr, robot) => {
    mark(tr, "class", robot.troubled || robot.phase === "away" ? "troubled" : null);
    COLUMNS.forEach((column, k) => {
      const td = tr.children[k + 1];
      const there = told.includes(column);
      td.hidden = !there;
      mark(td, "data-empty", there && !column.value(robot, state));
      if (there) column.update(td, robot, state);
    });
  });
  say($("robots-count"), String(run.robots_total));
  $("robots-count").hidden = !run.robots_total;
  const left = run.robots_total - run.robots.length;
  const none = !run.robots.length ? "No robot has registered yet." : !shown.length ? "No robot has such a name." : "";
  say($("robots-note"), none || (left ? `${count(left, "robot")} more; those with faults are shown first.` : ""));
}

function make(robot) {
  const cells = COLUMNS.map((c) => el("td", { role: "cell", class: c.numeric ? "numeric" : null, "data-title": c.title }));
  return el("tr", { role: "row" }, el("th", { scope: "row", role: "rowheader" }, robot.id), ...cells);
}

function phase() {
  return {
    value: (robot) => robot.phase,
    update(td, robot) {
      if (!td.firstChild) td.append(el("span", { class: "pill" }));
      say(td.firstChild, robot.phase);
      mark(td.firstChild, "data-phase", robot.phase);
    },
  };
}

function progress() {
  return {
    value: (robot) => robot.progress !== null && robot.phase !== "away",
    update(td, robot) {
      if (!td.firstChild) td.append(el("progress", { max: "1", "aria-label": `progress of ${robot.id}` }));
      td.firstChild.value = Math.min(1, Math.max(0, robot.progress ?? 0));
    },
  };
}

function history() {
  return {
    value: (robot) => robot.losses.length > 1,
    update(td, robot) {
      const told = JSON.stringify(robot.losses);
      if (td.dataset.told === told) return;
      td.dataset.told = told;
      td.replaceChildren(...(robot.losses.length > 1 ? [sparkline(robot.losses)] : []));
    },
  };
}

function sparkline(values) {
  const [width, height, edge] = [90, 22, 2];
  const low = Math.min(...values);
  const span = Math.max(...values) - low || 1;
  const x = (k) => edge + ((width - 2 * edge) * k) / (values.length - 1);
  const y = (v) => height - edge - ((height - 2 * edge) * (v - low)) / span;
  const last = values.length - 1;
  const label = `${count(values.length, "round")}, from ${loss(values[0])} to ${loss(values[last])}`;
  return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    svg("polyline", { points: values.map((v, k) => `${x(k).toFixed(1)},${y(v).toFixed(1)}`).join(" ") }),
    svg("circle", { cx: x(last).toFixed(1), cy: y(values[last]).toFixed(1), r: 2 }));
}

function age(robot, state) {
  if (robot.said_s === null || robot.said_s === undefined) return "";
  return state.mode === "live" ? `${duration(state.now_s - robot.said_s)} ago` : clock(robot.said_s);
}
