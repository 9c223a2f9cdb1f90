// SPDX-License-Identifier: Apache-2.0
// Drawings: a loss curve, ledgers as stacked bars, and steps as stacked columns. Colours are classes of
// palette.css.

import { el, svg } from "./dom.js";
import { count, loss, number, percent, seconds, whole } from "./text.js";

// In the order in which they are stacked: what computes first, what is lost after it.
const PARTS = [
  ["compute_alone", "compute alone"], ["compute_hiding", "compute, hiding"],
  ["exposed", "exposed"], ["pipeline_wait", "pipeline wait"], ["data_wait", "data wait"],
  ["checkpoint_wait", "checkpoint wait"], ["evaluation", "evaluation"], ["idle", "idle"],
];

// Seconds by part, and their sum.
export function sums(ledger) {
  const parts = Object.fromEntries(PARTS.map(([part]) => [part, 0]));
  let total = 0;
  for (const entry of ledger?.entries ?? []) {
    const part = String(entry.part).toLowerCase();
    if (!(part in parts)) continue;
    parts[part] += number(entry.seconds);
    total += number(entry.seconds);
  }
  return { parts, total };
}

// Lists the parts that `ledgers` have.
export function legend(ledgers) {
  const all = ledgers.map(sums);
  const used = PARTS.filter(([part]) => all.some((one) => one.parts[part] > 0));
  return el("ul", { class: "legend" }, used.map(([part, name]) =>
    el("li", {}, el("i", { class: `c-${part}` }), name)));
}

// One ledger as a bar that is as wide as its parent.
export function bar(ledger, kind = "bar") {
  const { parts, total } = sums(ledger);
  const node = el("div", { class: kind });
  for (const [part, name] of PARTS) {
    if (parts[part] <= 0) continue;
    const text = `${name} ${percent(parts[part] / total)}`;
    const piece = el("span", { class: `c-${part}`, title: text });
    piece.style.width = `${(parts[part] / total) * 100}%`;
    node.append(piece);
  }
  return node;
}

function ticks(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough);
  const all = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) all.push(i * step);
  return all;
}

const label = (value) => Number(value.toPrecision(6)).toString();

// Axes around `plot`, in pixels.
function frame(width, height, plot, x, y, xTicks, yTicks, yText) {
  return [
    yTicks.map((tick) => svg("path", { class: "s-line", d: `M${plot.left} ${y(tick)}H${plot.right}` })),
    yTicks.map((tick) => svg("text", { x: plot.left - 6, y: y(tick) + 4, class: "end" }, yText(tick))),
    xTicks.map((tick) => svg("text", { x: x(tick), y: height - 4, class: "middle" }, label(tick))),
  ].flat();
}

// The range of most points, as `stretto job curve` has it (loss_curve.h): one that lies far away from
// the others must not flatten them.
export function range(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const last = sorted.length - 1;
  const [least, most] = [sorted[0], sorted[last]];
  if (sorted.length < 20) return [least, most];
  const [low, high] = [sorted[Math.ceil(0.02 * last)], sorted[Math.floor(0.98 * last)]];
  if (low === high) return [least, most];
  return [Math.max(least, 2 * low - high), Math.min(most, 2 * high - low)];
}

// `steps` are StepReports. Losses beyond the range are marks at the border.
export function lossCurve(steps, width) {
  const all = steps.map((step) => ({ x: number(step.step), y: number(step.loss), step }));
  const train = all.filter((point) => Number.isFinite(point.y));
  const held = all.filter((point) => point.step.evaluation)
    .map((point) => ({ x: point.x, y: number(point.step.evaluation.loss) }))
    .filter((point) => Number.isFinite(point.y));
  if (train.length === 0) return el("p", { class: "faint" }, "No steps yet.");
  const height = 240;
  const plot = { left: 52, right: width - 18, top: 10, bottom: height - 24 };
  let [low, high] = range([...train, ...held].map((point) => point.y));
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const [first, last] = [train[0].x, Math.max(train[train.length - 1].x, train[0].x + 1)];
  const x = (value) => plot.left + ((value - first) / (last - first)) * (plot.right - plot.left);
  const y = (value) => {
    const inside = Math.min(Math.max(value, low), high);
    return plot.bottom - ((inside - low) / (high - low)) * (plot.bottom - plot.top);
  };
  const line = (points) =>
    points.map((point, i) => `${i ? "L" : "M"}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`).join("");
  const beyond = train.filter((point) => point.y < low || point.y > high);
  const cursor = svg("path", { class: "cursor" });
  const readout = el("span", { class: "readout" });
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `loss by step, last ${loss(train[train.length - 1].y)}` },
    frame(width, height, plot, x, y, ticks(first, last, Math.max(2, Math.floor(width / 110))).filter(Number.isInteger),
      ticks(low, high, 5), label),
    svg("path", { class: "curve s-forward", d: line(train) }),
    held.length > 1 ? svg("path", { class: "curve dashed s-backward", d: line(held) }) : null,
    held.map((point) => svg("circle", { class: "c-backward", cx: x(point.x), cy: y(point.y), r: 2.5 })),
    beyond.map((point) => svg("path", { class: "c-exposed", d: point.y > high
      ? `M${x(point.x)} ${plot.top - 8}l4 7h-8z` : `M${x(point.x)} ${plot.bottom + 8}l4 -7h-8z` })),
    cursor);
  const rest = `${train.length === all.length ? "" : `, ${all.length - train.length} not finite`}` +
    `${beyond.length === 0 ? "" : `, ${beyond.length} beyond the scale`}`;
  readout.textContent = `${whole(train.length)} steps${rest}`;
  const told = readout.textContent;
  picture.addEventListener("pointermove", (event) => {
    const at = first + ((event.offsetX - plot.left) / (plot.right - plot.left)) * (last - first);
    const near = train.reduce((best, one) => (Math.abs(one.x - at) < Math.abs(best.x - at) ? one : best));
    cursor.setAttribute("d", `M${x(near.x)} ${plot.top}V${plot.bottom}`);
    const evaluation = near.step.evaluation;
    readout.textContent = `step ${whole(near.x)}: loss ${loss(near.y)}` +
      (evaluation ? `, held-out ${loss(evaluation.loss)}` : "");
  });
  picture.addEventListener("pointerleave", () => {
    cursor.removeAttribute("d");
    readout.textContent = told;
  });
  const names = el("ul", { class: "legend" },
    el("li", {}, el("i", { class: "c-forward" }), "training"),
    held.length ? el("li", {}, el("i", { class: "c-backward" }), "held-out") : null,
    el("li", { class: "last" }, readout));
  return el("div", {}, names, picture);
}

// The newest steps of rank 0, each a column of its ledger.
export function stepColumns(steps, width) {
  const known = steps.filter((step) => sums(step.ledger).total > 0);
  if (known.length === 0) return null;
  const height = 150;
  const plot = { left: 52, right: width - 18, top: 6, bottom: height - 24 };
  const totals = known.map((step) => sums(step.ledger).total);
  const high = range([0, ...totals])[1] || 1;
  const each = (plot.right - plot.left) / Math.max(known.length, 20);
  const y = (value) => plot.bottom - (Math.min(value, high) / high) * (plot.bottom - plot.top);
  const columns = known.map((step, i) => {
    const { parts, total } = sums(step.ledger);
    let base = 0;
    const pieces = PARTS.filter(([part]) => parts[part] > 0).map(([part]) => {
      const [from, to] = [base, base + parts[part]];
      base = to;
      return svg("rect", { class: `c-${part}`, x: (plot.left + i * each).toFixed(2), y: y(to).toFixed(2),
        width: Math.max(each - 1, 1).toFixed(2), height: Math.max(y(from) - y(to), 0).toFixed(2) });
    });
    const lost = PARTS.filter(([part]) => parts[part] > 0)
      .map(([part, name]) => `${name} ${percent(parts[part] / total)}`).join("\n");
    return svg("g", {}, svg("title", {}, `step ${step.step}: ${seconds(total)}\n${lost}`), pieces);
  });
  const first = number(known[0].step);
  const x = (step) => plot.left + (step - first + 0.5) * each;
  const last = number(known[known.length - 1].step);
  const marks = ticks(first, Math.max(last, first + 1), Math.max(2, Math.floor(width / 140)))
    .filter((tick) => Number.isInteger(tick) && tick <= last);
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `time of steps ${first} to ${last} by part` },
    frame(width, height, plot, x, y, marks, ticks(0, high, 3), (value) => seconds(value)), columns);
}

export const speed = (value) => (number(value) > 0 ? `${count(value)}/s` : "–");
