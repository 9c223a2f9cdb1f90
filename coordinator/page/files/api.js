// SPDX-License-Identifier: Apache-2.0
// Asks the coordinator that this page came from.

const PATIENCE_MS = 10_000;

// Of a coordinator with TLS: its key, or a token of a user. The address has it once, as #key=K,
// which is not sent with an address; or somebody enters it. A browser that shows a certificate of
// the user needs neither.
const KEY = "stretto-key";
const FORM = "[A-Za-z0-9._-]+";

export class KeyWanted extends Error {}

export function takeKey() {
  const given = location.hash.match(new RegExp(`^#key=(${FORM})$`));
  if (given === null) return;
  localStorage.setItem(KEY, given[1]);
  history.replaceState(null, "", "#/");
}

// Returns whether the text can be one.
export function enterKey(text) {
  const key = text.trim();
  if (!new RegExp(`^${FORM}$`).test(key)) return false;
  localStorage.setItem(KEY, key);
  return true;
}

export const hasKey = () => localStorage.getItem(KEY) !== null;
export const forgetKey = () => localStorage.removeItem(KEY);

async function ask(path) {
  const key = localStorage.getItem(KEY);
  const answer = await fetch(`/api/${path}`, {
    // Pages of others cannot send the first one.
    headers: { "Stretto-Page": "1", ...(key ? { Authorization: `Bearer ${key}` } : {}) },
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  if (answer.ok) return answer;
  const why = (await answer.text()).trim() || `the coordinator answers ${answer.status}`;
  throw answer.status === 401 ? new KeyWanted(why) : new Error(why);
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
