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
const forget = document.getElementById("forget");
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

// Asks for a key or a token, with the reason. What is entered is not shown.
function askForKey(error) {
  const input = el("input", {
    id: "key", type: "password", autocomplete: "off", "aria-label": "key or token",
  });
  const wrong = el("p", { class: "bad", role: "alert" });
  const enter = () => {
    if (!api.enterKey(input.value)) {
      wrong.textContent = "This is neither a key nor a token.";
      return;
    }
    main.replaceChildren();
    look();
  };
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") enter(); });
  const button = el("button", { type: "button" }, "Show");
  button.addEventListener("click", enter);
  main.replaceChildren(el("section", { class: "card" },
    el("p", { id: "wanted" }, error.message), el("p", {}, input, " ", button), wrong));
  input.focus();
}

// Others may come to this browser.
forget.addEventListener("click", () => {
  api.forgetKey();
  main.replaceChildren();
  cluster.replaceChildren();
  clusterSeen = -Infinity;
  look();
});

function tell(error) {
  if (error instanceof api.KeyWanted) {
    const wanted = document.getElementById("wanted");
    if (wanted === null) askForKey(error);
    else wanted.textContent = error.message;
    return;
  }
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
  forget.hidden = !api.hasKey();
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
