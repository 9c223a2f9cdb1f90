// SPDX-License-Identifier: Apache-2.0
// Elements. What a job says becomes text nodes and is never read as HTML; names of elements and
// attributes are always ours.

import { clock } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

// A part of the page with a heading; `aside` is beside the heading.
export function card(title, aside, ...children) {
  const head = el("div", { class: "head" }, el("h2", {}, title), aside ?? null);
  return el("section", { class: "card" }, head, ...children);
}

// Rows are lists of cells: text, an element, or null. A heading that begins with ">" is of a column
// of numbers, one with "." of a column that is as narrow as its text.
export function table(headings, rows) {
  const classes = headings.map((heading) => ({ ">": "number", ".": "narrow" })[heading[0]]);
  const cell = (kind, content, column) => el(kind, { class: classes[column] }, content);
  const head = headings.map((heading, i) => cell("th", heading.replace(/^[>.]/, ""), i));
  const body = rows.map((row) => el("tr", {}, row.map((content, i) => cell("td", content, i))));
  return el("div", { class: "scroll" },
    el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

// A time that breaks between its date and its clock at most.
export function when(time) {
  return el("time", {}, clock(time).split(" ").flatMap((part) => [el("span", {}, part), " "]));
}

export function jobLink(name) {
  const id = name.replace("jobs/", "");
  return el("a", { href: `#/jobs/${encodeURIComponent(id)}` }, id);
}

const STATES = {
  RUNNING: "good", SUCCEEDED: "good", FAILED: "bad", PENDING: "wait", PREPARING: "wait",
};

export function badge(state) {
  const word = (state ?? "UNKNOWN").toLowerCase();
  return el("span", { class: `badge ${STATES[state] ?? "still"}` }, word);
}
