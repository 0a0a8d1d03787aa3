// The chart of losses: mean and range of the robots, and a line for each where they are few.

import { $, el, say, svg, table } from "./dom.js";
import { count, loss, short } from "./format.js";

const LOG_FROM = 8; // the largest value over the smallest one from which the axis is logarithmic
const MOST_DOTS = 30; // rounds
const HEIGHT = 240;
const EDGE = { left: 52, right: 12, top: 10, bottom: 34 };

let told = "";
let newest = null;

export function prepare() {
  new ResizeObserver(() => newest && draw()).observe($("chart"));
}

export function show(run) {
  newest = run;
  draw();
}

function draw() {
  const { losses } = newest;
  const width = Math.max(260, Math.floor($("chart").clientWidth));
  const now = JSON.stringify([newest.name, losses, width]);
  if (now === told) return;
  told = now;
  const none = losses.rounds.length === 0;
  $("chart-values").hidden = none;
  $("chart").replaceChildren(none ? el("p", { class: "quiet" }, "No robot has told a loss yet.") : picture(losses, width));
  $("legend").replaceChildren(...(none ? [] : legend(losses)));
  const missing = losses.robots_total > losses.robots.length ? ` of ${losses.robots_total} robots` : " of the robots";
  say($("chart-note"), none ? "" : `Thick: mean${missing}. Band: from the least to the most.`);
  const last = losses.rounds.map((round, k) => [String(round), loss(losses.mean[k]), loss(losses.low[k]), loss(losses.high[k])]);
  const columns = ["Round", "Mean", "Least", "Most"].map((title, k) => ({ title, numeric: k > 0 }));
  table($("chart-table"), "Training loss by round", columns, last);
}

function picture(losses, width) {
  const { rounds, mean, low, high } = losses;
  const x = scale(rounds[0], rounds.at(-1), EDGE.left, width - EDGE.right);
  const y = heights(Math.min(...low), Math.max(...high));
  const line = (values) =>
    values.map((v, k) => (v === null ? null : `${x(rounds[k]).toFixed(1)},${y.at(v).toFixed(1)}`)).filter(Boolean).join(" ");
  const area = `${line(high)} ${line(low).split(" ").reverse().join(" ")}`;
  const label = `Training loss of ${count(losses.robots_total, "robot")}, rounds ${rounds[0]} to ${rounds.at(-1)}: mean from ${loss(mean[0])} to ${loss(mean.at(-1))}`;
  return svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label },
    ...y.ticks.flatMap((tick) => [
      svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y.at(tick), y2: y.at(tick) }),
      svg("text", { class: "tick", x: EDGE.left - 8, y: y.at(tick) + 4, "text-anchor": "end" }, short(tick, 2)),
    ]),
    ...roundTicks(rounds, width).map((round) =>
      svg("text", { class: "tick", x: x(round), y: HEIGHT - EDGE.bottom + 18, "text-anchor": "middle" }, String(round))),
    svg("text", { class: "axis", x: (EDGE.left + width - EDGE.right) / 2, y: HEIGHT - 2, "text-anchor": "middle" }, "round"),
    svg("polygon", { class: "band", points: area }),
    ...losses.robots.map((robot, k) => svg("polyline", { class: `robot line-${k}`, points: line(robot.values) })),
    svg("polyline", { class: "mean", points: line(mean) }),
    ...dots(losses, x, y));
}

// Where rounds are few each value is a dot: a single one is no line.
function dots(losses, x, y) {
  if (losses.rounds.length > MOST_DOTS) return [];
  const at = (value, k, kind, r) => svg("circle", { class: `dot ${kind}`, cx: x(losses.rounds[k]), cy: y.at(value), r });
  const told = (values, kind, r) => values.map((v, k) => (v === null ? null : at(v, k, kind, r))).filter(Boolean);
  return [...losses.robots.flatMap((robot, k) => told(robot.values, `line-${k}`, 2.5)), ...told(losses.mean, "mean", 3.5)];
}

function scale(from, to, low, high) {
  const span = to - from;
  return (value) => (span ? low + ((high - low) * (value - from)) / span : (low + high) / 2);
}

function heights(low, high) {
  const log = low > 0 && high / low > LOG_FROM;
  const pad = log ? 0 : (high - low || Math.abs(high) || 1) * 0.06;
  const read = log ? Math.log10 : (v) => v;
  const place = scale(read(low - pad), read(high + pad), HEIGHT - EDGE.bottom, EDGE.top);
  return { at: (v) => place(read(v)), ticks: log ? logTicks(low, high) : ticks(low - pad, high + pad) };
}

function ticks(low, high, most = 5) {
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k += 1) found.push(k * step);
  return found;
}

function logTicks(low, high) {
  const found = [];
  const steps = high / low > 1000 ? [1] : high / low > 60 ? [1, 3] : [1, 2, 5];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    found.push(...steps.map((k) => k * power).filter((v) => v >= low && v <= high));
  }
  return found;
}

function roundTicks(rounds, width) {
  const most = Math.max(2, Math.floor((width - EDGE.left) / 48));
  const step = Math.ceil(rounds.length / most);
  return rounds.filter((_, k) => k % step === 0);
}

function legend(losses) {
  const entry = (kind, name) => el("li", {}, svg("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }, svg("line", { class: kind, x1: 1, x2: 21, y1: 4, y2: 4 })), name);
  if (!losses.robots.length) return [];
  return [entry("mean", "mean"), ...losses.robots.map((robot, k) => entry(`robot line-${k}`, robot.name))];
}
