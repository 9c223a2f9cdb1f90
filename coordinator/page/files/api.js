// SPDX-License-Identifier: Apache-2.0
// Asks the coordinator that this page came from.

const PATIENCE_MS = 10_000;

async function ask(path) {
  const answer = await fetch(`/api/${path}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
  if (answer.ok) return answer;
  throw new Error((await answer.text()).trim() || `the coordinator answers ${answer.status}`);
}

const get = async (path) => (await ask(path)).json();
const token = (value) => (value ? `?page_token=${encodeURIComponent(value)}` : "");

export const jobs = (page) => get(`jobs${token(page)}`);

// All of them, up to a number that a line can sum up.
export async function workers() {
  const all = [];
  let page = "";
  do {
    const answer = await get(`workers${token(page)}`);
    all.push(...(answer.workers ?? []));
    page = answer.next_page_token;
  } while (page && all.length < 1000);
  return all;
}

export const job = (id) => get(`jobs/${encodeURIComponent(id)}`);
export const events = (id) => get(`jobs/${encodeURIComponent(id)}/events`);
export const steps = (id) => get(`jobs/${encodeURIComponent(id)}/steps`);

export async function timeline(id, step) {
  const path = `jobs/${encodeURIComponent(id)}/timeline.svg${step ? `?step=${step}` : ""}`;
  return (await ask(path)).blob();
}
