// SPDX-License-Identifier: Apache-2.0
// The list of jobs, newest first, a page at a time.

import * as api from "./api.js";
import { bar, speed } from "./charts.js";
import { badge, card, el, jobLink, table } from "./dom.js";
import { NOTHING, between, layout, loss, model, number, reason, whole } from "./text.js";

let pages = [""];  // tokens of the pages up to the one that is shown

function progress(job) {
  const done = number(job.progress?.steps);
  const total = number(job.progress?.total_steps) || number(job.spec?.steps);
  const track = el("div", { class: "track" }, el("span", { class: "c-compute_alone" }));
  track.firstChild.style.width = `${total ? Math.min(100, (done / total) * 100) : 0}%`;
  return el("div", { class: "progress" }, track, `${whole(done)} / ${whole(total)}`);
}

function row(job) {
  const running = job.state === "RUNNING";
  const why = job.state === "PENDING" ? reason(job) : job.first_failure?.message ?? "";
  const ledger = job.progress?.ledger;
  const seen = number(job.progress?.steps) > 0;
  return [
    el("div", {}, jobLink(job.name), el("div", { class: "faint" }, layout(job.spec)),
      why ? el("div", { class: job.first_failure ? "why failed" : "why", title: why }, why) : null),
    badge(job.state),
    progress(job),
    seen ? loss(job.progress.last_loss) : NOTHING,
    job.progress?.last_evaluation ? loss(job.progress.last_evaluation.loss) : NOTHING,
    running ? speed(job.progress?.tokens_per_second) : NOTHING,
    ledger ? bar(ledger, "bar small") : null,
    model(job.spec),
    job.owner ?? NOTHING,
    between(job.create_time, job.end_time),
  ];
}

function pager(next, refresh) {
  const button = (text, enabled, change) => {
    const node = el("button", { type: "button", disabled: enabled ? null : "" }, text);
    node.addEventListener("click", () => { change(); refresh(); });
    return node;
  };
  if (pages.length === 1 && !next) return null;
  return el("nav", { class: "pager" },
    button("newer", pages.length > 1, () => { pages = pages.slice(0, -1); }),
    button("older", Boolean(next), () => { pages = [...pages, next]; }));
}

// Returns what paints the list, and the milliseconds until the next look. `refresh` looks at once.
export async function look(refresh) {
  const list = await api.jobs(pages[pages.length - 1]);
  const jobs = list.jobs ?? [];
  const paint = (main) => {
    document.title = "Stretto: jobs";
    const content = jobs.length === 0
      ? el("p", { class: "faint" }, "No jobs yet. ", el("code", {}, "stretto job submit JOB.yaml"), " submits one.")
      : table(["job", "state", "steps", ">loss", ">held-out", ">tokens", "ledger", "model", "owner", ">time"],
        jobs.map(row));
    main.replaceChildren(card("Jobs", pager(list.next_page_token, refresh), content));
  };
  return { paint, next: 5000 };
}
