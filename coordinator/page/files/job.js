// SPDX-License-Identifier: Apache-2.0
// One job: figures, loss, ledgers, a step's timeline, ranks, conditions and events.

import * as api from "./api.js";
import { bar, legend, lossCurve, speed, stepColumns, sums } from "./charts.js";
import { badge, card, el, table, when } from "./dom.js";
import { NOTHING, between, clock, count, duration, layout, loss, model, number, percent, reason, seconds,
  whole } from "./text.js";

const ENDED = ["SUCCEEDED", "FAILED", "CANCELLED"];
let picture = { id: "" };  // the timeline's card, which is kept while the rest is drawn again

function fact(name, value, more) {
  return el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, value),
    more ? el("dd", { class: "faint" }, more) : null);
}

function overlap(ledger) {
  const communication = number(ledger?.communication_seconds);
  return communication > 0 ? number(ledger.hidden_seconds) / communication : NaN;
}

function facts(job) {
  const progress = job.progress ?? {};
  const total = number(progress.total_steps) || number(job.spec?.steps);
  const seen = number(progress.steps) > 0;
  const { parts, total: spent } = sums(progress.ledger);
  const held = progress.last_evaluation;
  return el("dl", { class: "facts" },
    fact("step", whole(progress.steps), `of ${whole(total)}`),
    fact("loss", seen ? loss(progress.last_loss) : NOTHING, seen ? `from ${loss(progress.first_loss)}` : ""),
    held ? fact("held-out loss", loss(held.loss), `perplexity ${count(held.perplexity)}`) : null,
    fact("tokens", speed(progress.tokens_per_second), `${count(progress.tokens)} so far`),
    fact("exposed", percent(parts.exposed / spent), `overlap ${percent(overlap(progress.ledger))}`),
    ENDED.includes(job.state)
      ? fact("time", between(job.create_time, job.end_time), `attempt ${number(job.attempt)}`)
      : fact("time left", duration(progress.time_left), `running ${between(job.start_time)}`),
    fact("checkpoint", progress.last_checkpoint ?? NOTHING,
      progress.best_checkpoint ? `best ${progress.best_checkpoint}` : ""));
}

function failure(job) {
  const first = job.first_failure;
  if (!first) return null;
  const how = first.signal ? `signal ${first.signal}` : `exit code ${number(first.exit_code)}`;
  return el("section", { class: "card failure" },
    el("div", { class: "head" }, el("h2", {}, "First failure")),
    el("p", { class: "message" }, first.message ?? ""),
    el("p", { class: "faint" }, `rank ${number(first.rank)} on ${first.worker ?? "?"}, step ` +
      `${number(first.step)}${first.phase ? `, ${first.phase}` : ""}, ${how}, ${clock(first.time)}`),
    first.last_operation ? el("code", { class: "line" }, first.last_operation) : null);
}

function ledgers(job, newest, width) {
  const ranks = job.progress?.rank_ledgers ?? [];
  const known = ranks.filter((ledger) => sums(ledger).total > 0);
  if (known.length === 0) return null;
  const rows = ranks.map((ledger, rank) => el("div", { class: "rank" },
    el("span", { class: "faint" }, `rank ${rank}`), bar(ledger),
    el("span", { class: "number" }, percent(sums(ledger).parts.exposed / sums(ledger).total))));
  const columns = stepColumns(newest, width);
  return card("Where every second goes", el("span", { class: "faint" }, "share exposed at the right"),
    legend(known), rows,
    columns ? el("h3", {}, `Newest ${newest.length} steps of rank 0`) : null, columns);
}

async function load(own, id, step) {
  own.status.textContent = "asking the workers …";
  try {
    const blob = await api.timeline(id, step);
    const url = URL.createObjectURL(blob);
    own.image.onload = () => URL.revokeObjectURL(url);
    own.image.src = url;
    own.image.hidden = false;
    own.status.textContent = "";
  } catch (error) {
    own.status.textContent = error.message;
  }
}

// The picture of a step, asked for once and again on request: it costs the workers something.
function timeline(id, job, ranks) {
  if (number(job.progress?.steps) === 0) return null;
  if (picture.id !== id) {
    const own = { id, status: el("p", { class: "faint" }),
      image: el("img", { class: "timeline", alt: "what each lane of each rank did in a step", hidden: "" }) };
    const step = el("input", { type: "number", min: 1, placeholder: "newest", "aria-label": "step" });
    const form = el("form", {}, el("label", {}, "step ", step), el("button", { type: "submit" }, "draw"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      load(own, id, step.value);
    });
    own.card = card("Timeline of a step", form,
      ranks > 8 ? el("p", { class: "faint" }, `The first 8 of ${ranks} ranks.`) : null, own.image, own.status);
    picture = own;
    load(own, id, "");
  }
  return picture.card;
}

function ranksTable(job, ranks) {
  const places = job.placement ?? [];
  if (places.length === 0) return null;
  const all = job.progress?.rank_ledgers ?? [];
  const rows = places.map((place, i) => {
    const ledger = all[i];
    const { parts, total } = sums(ledger);
    const steps = number(ledger?.steps);
    const share = (part) => percent(total > 0 ? parts[part] / total : NaN);
    const preempted = ledger?.preempted_seconds === undefined ? NaN : number(ledger.preempted_seconds) / total;
    return [String(number(place.rank)), (place.worker ?? "").replace("workers/", ""), String(number(place.slot)),
      steps ? seconds(total / steps) : NOTHING, share("exposed"), share("pipeline_wait"), share("idle"),
      percent(preempted)];
  });
  const aside = ranks > places.length ? el("span", { class: "faint" }, `the first ${places.length} of ${ranks}`) : null;
  return card("Ranks", aside,
    table([">rank", "worker", ">slot", ">a step", ">exposed", ">pipeline", ">idle", ">preempted"], rows));
}

function conditions(job) {
  const rows = (job.conditions ?? []).map((one) => [
    el("span", { class: "type" }, el("i", { class: `mark ${(one.status ?? "").toLowerCase()}`, title: one.status }), one.type),
    el("div", {}, one.reason ?? "", one.message ? el("div", { class: "faint" }, one.message) : null),
    when(one.last_transition_time),
  ]);
  return rows.length ? card("Conditions", null, table([".condition", "reason", ".since"], rows)) : null;
}

function eventsTable(events) {
  const rows = [...events].reverse().map((event) => [
    when(event.time),
    el("div", {}, event.reason ?? "", number(event.count) > 1 ? el("span", { class: "faint" }, ` × ${event.count}`) : null,
      event.message ? el("div", { class: "faint" }, event.message) : null),
    event.caller ?? "",
  ]);
  return rows.length ? card("Events", null, table([".time", "event", ".by"], rows)) : null;
}

// Parts of the page that are filled anew at each look. What people use, or look at for longer, is only
// replaced when it is another: `slot` fills a part unless it was filled for the same key.
let view = null;

function slot(name, key, fill) {
  if (key !== null && view.keys[name] === key) return;
  view.keys[name] = key;
  view.slots[name].replaceChildren(...[fill()].flat().filter((node) => node !== null));
}

function open(main, id) {
  if (view?.id === id && view.slots.title.isConnected) return;
  const names = ["title", "facts", "failure", "charts", "timeline", "tables", "events", "spec"];
  const slots = Object.fromEntries(names.map((name) => [name, el("div", { class: `slot slot-${name}` })]));
  view = { id, slots, keys: {} };
  main.replaceChildren(...Object.values(slots));
}

function title(id, job) {
  const why = job.state === "PENDING" ? reason(job) : "";
  const more = [model(job.spec), layout(job.spec), job.owner].filter(Boolean).join("  ·  ");
  return [
    el("div", { class: "title" }, el("a", { href: "#/" }, "jobs"), el("h1", {}, id), badge(job.state),
      el("span", { class: "faint" }, more)),
    why ? el("p", { class: "why" }, why) : null,
  ];
}

// Returns what paints the job, and the milliseconds until the next look.
export async function look(id) {
  const [{ job, ranks }, { events }, steps] = await Promise.all([api.job(id), api.events(id), api.steps(id)]);
  const curve = steps.curve ?? [];
  const newest = steps.newest ?? [];
  const paint = (main) => {
    document.title = `Stretto: ${id}`;
    open(main, id);
    const width = Math.max(280, main.clientWidth - 74);
    const half = width > 1000 ? Math.floor((width - 50) / 2) : width;
    const last = `${curve.length} ${curve[curve.length - 1]?.step} ${half}`;
    slot("title", null, () => title(id, job));
    slot("facts", null, () => facts(job));
    slot("failure", JSON.stringify(job.first_failure ?? null), () => failure(job));
    slot("charts", last, () => el("div", { class: "columns" },
      card("Loss", null, lossCurve(curve, half)), ledgers(job, newest, half)));
    slot("timeline", String(number(job.progress?.steps) > 0), () => timeline(id, job, ranks));
    slot("tables", null, () => el("div", { class: "columns" }, ranksTable(job, ranks), conditions(job)));
    slot("events", null, () => eventsTable(events ?? []));
    slot("spec", JSON.stringify(job.spec ?? {}), () => el("details", { class: "card" },
      el("summary", {}, "Spec"), el("pre", {}, JSON.stringify(job.spec ?? {}, null, 2))));
  };
  return { paint, next: ENDED.includes(job.state) ? 30_000 : 2000 };
}
