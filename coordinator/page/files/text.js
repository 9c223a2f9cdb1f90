// SPDX-License-Identifier: Apache-2.0
// Figures as text. Protobuf's JSON has 64-bit integers, and numbers that are not finite, as strings,
// and leaves out what is zero.

export const NOTHING = "–";

export function number(value) {
  return value === undefined || value === null ? 0 : Number(value);
}

// 4 digits, without an exponent where that is short.
export function loss(value) {
  const x = Number(value);
  if (value === undefined || value === null) return NOTHING;
  if (!Number.isFinite(x)) return String(value);
  return x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e6) ? x.toExponential(3) : x.toFixed(4);
}

export function count(value) {
  const x = number(value);
  for (const [unit, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (x >= size) return `${(x / size).toPrecision(3)}${unit}`;
  }
  return Number.isInteger(x) ? String(x) : x.toFixed(1);
}

export function whole(value) {
  return number(value).toLocaleString("en-US");
}

export function percent(share) {
  return Number.isFinite(share) ? `${(share * 100).toFixed(1)} %` : NOTHING;
}

export function seconds(value) {
  const x = number(value);
  if (!Number.isFinite(x)) return NOTHING;
  if (x === 0) return "0 s";
  if (x < 1) return `${(x * 1e3).toPrecision(3)} ms`;
  if (x < 60) return `${x.toFixed(1)} s`;
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => x >= size);
  const [unit, size] = units[first];
  const [next, smaller] = units[Math.min(first + 1, 3)];
  return `${Math.floor(x / size)}${unit} ${Math.floor((x % size) / smaller)}${next}`;
}

// Of a duration, "12.5s".
export function duration(text) {
  return text === undefined ? NOTHING : seconds(parseFloat(text));
}

export function between(begin, end) {
  if (begin === undefined) return NOTHING;
  const last = end === undefined ? Date.now() : Date.parse(end);
  return seconds(Math.max(0, (last - Date.parse(begin)) / 1e3));
}

export function clock(time) {
  if (time === undefined) return NOTHING;
  const date = new Date(time);
  const two = (n) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// "tp 2 × dp 2, domino_row"
export function layout(spec) {
  const parallelism = spec?.parallelism ?? {};
  const sizes = ["pp", "dp", "tp"]
    .map((name) => [name, number(parallelism[`${name}_size`])])
    .filter(([name, size]) => size > 1 || name === "tp")
    .map(([name, size]) => `${name} ${size || 1}`);
  const schedule = spec?.schedule?.name;
  return [sizes.join(" × "), schedule].filter(Boolean).join(", ");
}

export function model(spec) {
  const shape = spec?.model ?? {};
  return shape.preset || [shape.family, shape.layers && `${shape.layers} layers`,
    shape.hidden && `hidden ${shape.hidden}`].filter(Boolean).join(", ") || NOTHING;
}

// Why a job waits.
export function reason(job) {
  const why = (job.conditions ?? []).find((one) => one.status === "FALSE" && one.message &&
    ["Scheduled", "Restarting", "WorkersReachable"].includes(one.type));
  return why?.message ?? "";
}
