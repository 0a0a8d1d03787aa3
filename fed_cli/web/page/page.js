// Draws every state that the server sends.

import { show as showAct } from "./act.js";
import { prepare as prepareChart, show as showChart } from "./charts.js";
import { $, el, keyed, mark, say, table } from "./dom.js";
import { bytes, count, duration, short } from "./format.js";
import { prepare as prepareRobots, show as showRobots } from "./robots.js";
import { follow } from "./stream.js";

let newest = null;
let chosen = ""; // name of the run that is shown

prepareRobots();
prepareChart();
$("run").addEventListener("change", () => {
  chosen = $("run").value;
  draw();
});
follow({
  state(told) {
    newest = told;
    draw();
  },
  lost: showConnection,
});

function draw() {
  if (!newest) return;
  const run = newest.runs.find((one) => one.name === chosen) ?? newest.runs[0] ?? null;
  say($("title"), run?.name || newest.title);
  say($("subtitle"), run?.name && run.name !== newest.title ? newest.title : "fed_perception");
  showConnection(null);
  showChoice(run);
  keyed($("notes"), newest.notes, (note) => note, (note) => el("p", {}, note));
  for (const id of ["overview", "losses", "faults", "robots"]) $(id).hidden = !run;
  if (run) showRun(run);
  showPictures(newest.pictures);
  showTables(newest.tables);
  showAct(newest.services);
  const faults = run?.faults_total ? ` · ${count(run.faults_total, "fault")}` : "";
  document.title = run?.name ? `${run.name} · round ${run.round}/${run.rounds}${faults}` : newest.title;
}

function showRun(run) {
  showOverview(run);
  showChart(run);
  showFaults(run);
  showRobots(run, newest);
  showClusters(run);
  showServing(run);
}

function showConnection(since) {
  const word = since !== null ? "connection lost" : newest?.mode === "folder" ? "recorded" : newest ? "live" : "connecting";
  say($("connection"), word);
  mark($("connection"), "data-state", since !== null ? "lost" : newest ? newest.mode : null);
  $("lost").hidden = since === null;
  mark(document.body, "class", since === null ? null : "stale");
  if (since !== null) {
    const at = new Date(since).toLocaleTimeString();
    say($("lost"), `Connection lost at ${at}. What you see is from then; the page comes back by itself.`);
  }
}

function showChoice(run) {
  $("run-choice").hidden = newest.runs.length < 2;
  keyed($("run"), newest.runs, (one) => one.name, (one) => el("option", { value: one.name }, one.name));
  if (run && document.activeElement !== $("run")) $("run").value = run.name;
}

function showOverview(run) {
  $("rounds").value = run.rounds ? Math.min(1, run.round / run.rounds) : 0;
  say($("rounds-text"), run.rounds ? `round ${run.round} of ${run.rounds}` : "no round yet");
  const facts = [
    ["Phase", run.phase, run.phase],
    ["Strategy", run.strategy],
    ["Task", run.task],
    ["Network", run.network],
    ["Robots", run.members < run.expected ? `${run.members} of ${run.expected}` : String(run.members)],
    ["Reported", run.phase === "training" || run.phase === "aggregating" ? `${run.reported} of ${run.members}` : ""],
    ["Time left", run.deadline_left_s === null ? "" : duration(run.deadline_left_s)],
    ["Data moved", bytes(run.moved_bytes)],
    ["Waits for", run.waiting_for],
  ].filter(([, value]) => value);
  keyed($("facts"), facts, ([name]) => name, ([name]) => el("div", {}, el("dt", {}, name), el("dd", {}, el("span"))), (node, [, value, phase]) => {
    const span = node.querySelector("span");
    say(span, value);
    mark(span, "class", phase ? "pill" : null);
    mark(span, "data-phase", phase);
  });
}

function showFaults(run) {
  const make = (fault) =>
    el("li", { "data-level": fault.level },
      el("span", { class: "level" }, fault.level === "error" ? "error" : "warning"),
      el("strong", {}, fault.where), " ", el("span", {}, fault.text));
  keyed($("faults-list"), run.faults, (f) => JSON.stringify([f.level, f.where, f.text]), make);
  $("faults-none").hidden = run.faults_total > 0;
  $("faults-count").hidden = run.faults_total === 0;
  say($("faults-count"), String(run.faults_total));
  const left = run.faults_total - run.faults.length;
  say($("faults-more"), left ? `And ${left} more.` : "");
}

function showClusters(run) {
  $("clusters").hidden = run.clusters_total < 2;
  if (run.clusters_total < 2) return;
  const together = (robot) => robot.clusters.map((k) => String(k).padStart(4, "0")).join(" ");
  const robots = [...run.robots].sort((a, b) => (together(a) < together(b) ? -1 : together(a) > together(b) ? 1 : 0));
  const columns = [{ title: "Robot" }, ...run.clusters.map((k) => ({ title: String(k) }))];
  const cell = (robot, k) => {
    const inside = robot.clusters.includes(k);
    return { text: inside ? "●" : "·", label: inside ? "member" : "no member", mark: `cell ${inside ? `line-${run.clusters.indexOf(k) % 8}` : "other"}` };
  };
  table($("clusters-table"), "Clusters of each robot", columns, robots.map((r) => [r.id, ...run.clusters.map((k) => cell(r, k))]));
  const left = run.clusters_total - run.clusters.length;
  say($("clusters-note"), `One model for each cluster; robots that learn together stand together.${left ? ` ${count(left, "cluster")} more.` : ""}`);
}

function showServing(run) {
  $("serving").hidden = !run.selections.length;
  if (!run.selections.length) return;
  const columns = ["Node", "Sequence", "Serves", "Round", "Distance", "Threshold", ""].map((title, k) => ({ title, numeric: k > 2 && k < 6 }));
  const rows = run.selections.map((s) => {
    const served = s.clusters.length ? `${s.clusters.length > 1 ? "clusters" : "cluster"} ${s.clusters.join(" + ")}` : s.models;
    const near = s.fallback ? { text: "none near: the nearest serves", mark: "warn" } : "";
    return [s.source, s.sequence, served, String(s.round), short(s.distance), short(s.threshold), near];
  });
  table($("serving-table"), "What inference nodes serve", columns, rows);
  const left = run.selections_total - run.selections.length;
  say($("serving-note"), left ? `And ${count(left, "node")} more.` : "");
}

function showPictures(pictures) {
  $("pictures").hidden = !pictures.length;
  const make = (one) => el("figure", {}, el("img", { decoding: "async" }), el("figcaption", {}, one.title));
  keyed($("pictures-list"), pictures, (one) => one.title, make, (node, one) => {
    const img = node.querySelector("img");
    mark(img, "src", `api/pictures/${one.digest}`);
    mark(img, "alt", one.title);
    if (one.width && one.height) {
      mark(img, "width", one.width);
      mark(img, "height", one.height);
    }
    mark(node, "class", one.width && one.width <= 640 ? null : "wide");
  });
}

function showTables(tables) {
  const make = (one) => el("section", { class: "card", "aria-label": one.caption },
    el("h2", {}, one.caption), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": one.caption }), el("p", { class: "quiet" }));
  keyed($("tables"), tables, (one) => one.caption, make, (node, one) => {
    const columns = one.header.map((title, k) => ({ title, numeric: one.numeric[k] }));
    table(node.children[1], one.caption, columns, one.rows);
    say(node.children[2], one.note);
  });
}
