// SPDX-License-Identifier: Apache-2.0
// Live list of decisions: while the page is visible, newer decisions are fetched every few seconds
// and inserted at the top, as rows of the same page.

import { fetchPage } from "./loading.js";

const EVERY = 3000; // milliseconds
const MAX_ROWS = 300;
const UNREACHABLE = "The service does not answer. Retrying.";
let paused = false;
let timer = null;
let reading = null;

const list = () => document.querySelector("main [data-live]");
const idOf = (row) => row.id || idOf(row.previousElementSibling);

function say(words) {
  const place = document.getElementById("news");
  if (place && place.textContent !== words) place.textContent = words;
}

/** Fetch the current list, or null if the page has no list any more (signed out). */
async function fetched(address) {
  reading = new AbortController();
  const { response, page } = await fetchPage(address, reading.signal);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  return page.querySelector("main [data-live]");
}

/** Insert the new rows at the top. Return the number of new decisions. */
function insertRows(section, update) {
  const body = section.querySelector("tbody");
  const uuids = new Set([...body.rows].map(idOf));
  const rows = [...update.querySelectorAll("tbody tr")].filter((row) => !uuids.has(idOf(row)));
  if (!rows.length) return 0;
  const overlaps = rows.length < update.querySelectorAll("tbody tr").length;
  if (uuids.size && !overlaps) {
    // More decisions are new than fit on a page. The link to older decisions leads to all of them.
    body.replaceChildren();
    section.querySelector(".pages").replaceWith(document.importNode(update.querySelector(".pages"), true));
  }
  const first = body.firstElementChild;
  for (const row of rows) {
    const own = document.importNode(row, true);
    own.classList.add("new");
    body.insertBefore(own, first);
  }
  while (body.rows.length > MAX_ROWS) body.lastElementChild.remove();
  section.querySelector("table").hidden = false;
  document.getElementById("none")?.remove();
  return new Set(rows.map(idOf)).size;
}

async function refresh() {
  timer = null;
  const section = list();
  if (!section || paused || document.visibilityState !== "visible") return;
  try {
    const update = await fetched(section.dataset.live);
    if (paused || list() !== section) return;
    if (!update) {
      say("The list is no longer available: reload the page");
      return;
    }
    const number = insertRows(section, update);
    const at = new Date().toISOString().slice(11, 19);
    if (number) say(number === 1 ? `1 new decision at ${at} UTC` : `${number} new decisions at ${at} UTC`);
    else if (document.getElementById("news").textContent === UNREACHABLE) say("");
  } catch (failure) {
    if (failure.name !== "AbortError") say(UNREACHABLE);
  }
  next();
}

function next() {
  clearTimeout(timer);
  timer = list() && !paused && document.visibilityState === "visible" ? setTimeout(refresh, EVERY) : null;
}

function begin() {
  const button = document.getElementById("pause");
  if (button) {
    button.hidden = false;
    button.setAttribute("aria-pressed", String(paused));
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      reading?.abort();
      say(paused ? "Paused" : "");
      next();
    });
  }
  next();
}

document.addEventListener("visibilitychange", next);
document.addEventListener("shown", begin);
begin();
