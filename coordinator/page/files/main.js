// SPDX-License-Identifier: Apache-2.0
// Shows what the address says, #/ or #/jobs/ID, and looks again while somebody looks at it.

import * as api from "./api.js";
import { el } from "./dom.js";
import { look as lookAtJob } from "./job.js";
import { look as lookAtJobs } from "./jobs.js";
import { number } from "./text.js";

const main = document.getElementById("main");
const cluster = document.getElementById("cluster");
const notice = document.getElementById("notice");
const RETRY_MS = 3000;
const CLUSTER_MS = 5000;
const RESIZED_MS = 150;

let turn = 0;  // of the newest look; an older one that still waits paints nothing
let timer = 0;
let clusterSeen = -Infinity;

// "2 workers ready, 1 lost · 3 of 4 slots free"
async function lookAtCluster() {
  if (performance.now() - clusterSeen < CLUSTER_MS) return;
  const workers = await api.workers();
  clusterSeen = performance.now();
  const ready = workers.filter((worker) => worker.state === "READY");
  const sum = (field) => ready.reduce((all, worker) => all + number(worker[field]), 0);
  const lost = workers.length - ready.length;
  cluster.replaceChildren(
    `${ready.length} ${ready.length === 1 ? "worker" : "workers"} ready`,
    ...(lost ? [", ", el("span", { class: "bad" }, `${lost} lost`)] : []),
    `  ·  ${sum("free_slots")} of ${sum("slots")} slots free`);
}

function tell(error) {
  if (main.querySelector(".card") === null) {
    main.replaceChildren(el("section", { class: "card" }, el("p", {}, error.message)));
  } else {
    notice.textContent = error.message;
  }
}

async function look() {
  const mine = ++turn;
  clearTimeout(timer);
  if (document.hidden) return;
  api.takeKey();
  const route = location.hash.match(/^#\/jobs\/([^/]+)$/);
  let next = RETRY_MS;
  try {
    const [seen] = await Promise.all([
      route ? lookAtJob(decodeURIComponent(route[1])) : lookAtJobs(look), lookAtCluster()]);
    if (mine !== turn) return;
    seen.paint(main);
    notice.textContent = "";
    next = seen.next;
  } catch (error) {
    if (mine !== turn) return;
    tell(error);
  }
  timer = setTimeout(look, next);
}

function later(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(look, milliseconds);
}

window.addEventListener("hashchange", () => {
  main.replaceChildren();
  window.scrollTo(0, 0);
  look();
});
window.addEventListener("resize", () => later(RESIZED_MS));
document.addEventListener("visibilitychange", look);
look();
