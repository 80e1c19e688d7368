// SPDX-License-Identifier: Apache-2.0
// Pages that are read again while they are visible. The heading has the time of the reading and the
// seconds until the next. After a failed reading, the page is grey and has a bar with the reason.
//
//   new Refresh(read).begin()
//
// read(signal)  reads and shows the current state, and returns the time of the response. It is called
//               every data-refresh seconds of #as-of, less often if reading takes long
//
// Pages whose #as-of has data-whole need no other module: the page is read again, its elements
// with data-live replace the shown elements, and the part of an element with data-again is read from there.

import { failureOf, fetchPage, fetchParts, isSignIn } from "./loading.js";

const MIN_PART = 300_000; // milliseconds between readings of a part, which takes long
const [PAGE_PACE, PART_PACE] = [20, 50]; // the time of a reading is at most this part of all time
const MIN_COUNTDOWN = 10; // seconds: a shorter time until the next reading is not shown

/** Return the time of a response by the clock of the server. */
export function timeOf(response) {
  return new Date(response.headers.get("Date") ?? Date.now());
}

export class Refresh {
  #read;
  #place = document.getElementById("as-of");
  #every = Number(this.#place.dataset.refresh); // seconds
  #timer = 0;
  #due = 0;
  #readAt = null;
  #reading = null;
  #paused = false;
  #wake = () => this.#tick();

  constructor(read) {
    this.#read = read;
  }

  /** Begin after a reading: the page itself, or that of a script, which took some milliseconds. */
  begin(readAt = new Date(this.#place.dataset.at), took = 0) {
    this.#readAt = readAt;
    this.#plan(PAGE_PACE * took);
    this.#timer = setInterval(this.#wake, 1000);
    document.addEventListener("visibilitychange", this.#wake);
    const button = document.getElementById("pause");
    button.addEventListener("click", () => {
      this.#paused = !this.#paused;
      button.setAttribute("aria-pressed", String(this.#paused));
      this.#reading?.abort();
      if (!this.#paused) this.#due = 0;
      this.#show();
    });
  }

  stop() {
    clearInterval(this.#timer);
    this.#reading?.abort();
    document.removeEventListener("visibilitychange", this.#wake);
  }

  #plan(least = 0) {
    this.#due = performance.now() + Math.max(1000 * this.#every, least);
    this.#show();
  }

  #show() {
    const seconds = Math.ceil(Math.max(0, this.#due - performance.now()) / 1000);
    const isLong = Math.max(seconds, this.#every) >= MIN_COUNTDOWN;
    const next = this.#paused ? ", paused" : isLong ? `, next in ${seconds} s` : "";
    this.#place.textContent = `as of ${this.#readAt.toISOString().slice(11, 16)} UTC${next}`;
  }

  async #tick() {
    if (!this.#place.isConnected) return this.stop();
    if (this.#reading || this.#paused || document.visibilityState !== "visible") return;
    if (performance.now() < this.#due) return this.#show();
    const began = performance.now();
    const own = (this.#reading = new AbortController());
    try {
      this.#readAt = await this.#read(own.signal);
      hideFailure();
      this.#plan(PAGE_PACE * (performance.now() - began));
    } catch (failure) {
      if (own.signal.aborted) return;
      showFailure(failure);
      this.#plan();
    } finally {
      this.#reading = null;
    }
  }
}

/** Show that the page is old, and why, with a link that loads it or leads to the sign-in and back. */
function showFailure(failure) {
  const main = document.querySelector("main");
  const bar = document.getElementById("stale") ?? Object.assign(document.createElement("p"), { id: "stale", role: "alert" });
  const words = `Earlier state. ${failure.isSignIn ? "Your sign-in has expired." : failure.message} `;
  if (bar.isConnected && bar.firstChild.data === words) return;
  const link = Object.assign(document.createElement("a"), { href: location.href, textContent: failure.isSignIn ? "Sign in again" : "Load the page again" });
  bar.replaceChildren(words, link);
  main.querySelector(".heading").after(bar);
  main.classList.add("is-stale");
}

function hideFailure() {
  document.getElementById("stale")?.remove();
  document.querySelector("main").classList.remove("is-stale");
}

/** Read the page again. Return its document and time. */
export async function readPage(address, signal) {
  const { response, page } = await fetchPage(address, signal);
  if (!response.ok || isSignIn(response)) throw failureOf(response, page);
  return { page, time: timeOf(response) };
}

/**
 * Replace the elements with data-live in a place by the elements of another page. Focus and opened
 * details remain. If the page has different elements, because the first host came, its <main> is shown.
 */
export function renew(page, place = document.querySelector("main")) {
  const update = page.querySelector("main");
  const [owns, updates] = [place, update].map((each) => [...each.querySelectorAll("[data-live]")]);
  const namesOf = (elements) => elements.map((each) => each.dataset.live).join(" ");
  if (namesOf(owns) !== namesOf(updates)) {
    document.querySelector("main").replaceWith(document.importNode(update, true));
    document.dispatchEvent(new CustomEvent("shown"));
    return;
  }
  for (const [at, own] of owns.entries()) {
    const element = document.importNode(updates[at], true);
    const areOpen = [...own.querySelectorAll("details")].map((details) => details.open);
    const all = element.querySelectorAll("details");
    if (all.length === areOpen.length) all.forEach((details, at) => (details.open = areOpen[at]));
    const focused = own.contains(document.activeElement) && document.activeElement.getAttribute("href");
    own.replaceWith(element);
    if (focused) element.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    document.dispatchEvent(new CustomEvent("renewed", { detail: element }));
  }
}

let parts = new Map(); // by element with data-again: the time of the next reading

/** Read the parts again that were loaded after the page. A part that cannot be read shows why. */
async function readParts(signal) {
  for (const place of document.querySelectorAll("main [data-again]")) {
    const began = performance.now();
    if (!parts.has(place)) parts.set(place, began + MIN_PART);
    if (!place.querySelector("[data-part]") || began < parts.get(place)) continue;
    const loaded = await fetchParts(place.dataset.again, "[data-part]", signal);
    place.replaceChildren(...loaded.parts);
    parts.set(place, performance.now() + Math.max(MIN_PART, PART_PACE * (performance.now() - began)));
  }
}

function start() {
  parts = new Map();
  const place = document.querySelector("#as-of[data-whole]");
  if (!place) return;
  new Refresh(async (signal) => {
    const { page, time } = await readPage(location.href, signal);
    renew(page);
    await readParts(signal);
    return time;
  }).begin();
}

document.addEventListener("shown", start);
start();
