// SPDX-License-Identifier: Apache-2.0
// Forms and links whose requests take long: they show progress and can be cancelled.
//
// A form or link with the attribute data-progress is fetched without leaving the page: the <main> of the
// response replaces the <main> of the page, and the address bar is updated. Without scripts the
// browser loads the whole page. Other modules listen to two events of document: "shown" is sent
// whenever <main> is replaced, "returned" after Back and Forward. A module that shows the address
// itself prevents the default of "returned", which is to fetch the page.

const SOON = 400; // milliseconds: faster requests show no progress
const progress = () => document.getElementById("progress");
let running = null;

/** Reader of parts of pages. Only the newest part counts: an older request is cancelled. */
export class Latest {
  #words;
  #own = null;

  constructor(words) {
    this.#words = words;
  }

  cancel() {
    this.#own?.abort();
    this.#own = null;
  }

  /** Return an element of another page, or null if the request failed, with a message, or was cancelled. */
  async part(address, selector) {
    this.cancel();
    const own = (this.#own = new AbortController());
    const hide = showProgress(this.#words, () => own.abort(), SOON);
    try {
      const response = await fetch(address, { signal: own.signal, headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (own.signal.aborted) return null;
      const part = page.querySelector(selector);
      if (!part) throw new Error(page.querySelector("[role=alert]")?.textContent ?? `${response.status} ${response.statusText}`);
      return document.importNode(part, true);
    } catch (failure) {
      if (failure.name !== "AbortError") say(failure instanceof TypeError ? `The service does not answer: ${failure.message}` : failure.message);
      return null;
    } finally {
      hide();
    }
  }
}

/** Fetch a page of the console and show its <main>. Return whether it was shown. */
export async function show(address, { push = true, words = "Loading" } = {}) {
  running?.abort();
  const own = (running = new AbortController());
  const hide = showProgress(words, () => own.abort());
  try {
    const response = await fetch(address, {
      signal: own.signal,
      headers: { Accept: "text/html" },
      credentials: "same-origin",
    });
    const text = await response.text();
    const answer = new DOMParser().parseFromString(text, "text/html");
    const main = answer.querySelector("main");
    if (!main) throw new Error(`${response.status} ${response.statusText}`);
    document.querySelector("main").replaceWith(document.importNode(main, true));
    document.title = answer.title;
    if (push) history.pushState({}, "", response.redirected ? response.url : address);
    document.dispatchEvent(new CustomEvent("shown"));
    const first = document.querySelector("main [role=alert], main [data-answer]");
    if (first) {
      first.tabIndex = -1;
      first.focus();
    }
    return true;
  } catch (failure) {
    if (failure.name !== "AbortError") say(`The service does not answer: ${failure.message}`);
    return false;
  } finally {
    hide();
    if (running === own) running = null;
  }
}

/** Show progress with the elapsed seconds, after a delay. Return the function that hides it. */
export function showProgress(words, cancel, delay = 0) {
  const place = progress();
  const began = performance.now();
  const focused = document.activeElement;
  const bar = document.createElement("progress");
  bar.setAttribute("aria-label", words);
  const text = document.createElement("span");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Cancel";
  button.addEventListener("click", cancel);
  const tick = () => {
    const seconds = Math.floor((performance.now() - began) / 1000);
    text.textContent = seconds < 1 ? `${words} …` : `${words} … ${seconds} s`;
  };
  tick();
  const timer = setInterval(tick, 1000);
  const reveal = () => {
    place.replaceChildren(bar, text, button);
    place.hidden = false;
  };
  const waiting = delay ? setTimeout(reveal, delay) : reveal();
  return () => {
    clearInterval(timer);
    clearTimeout(waiting);
    if (!place.contains(button)) return;
    // After Cancel, the focus returns to the form.
    const returns = place.contains(document.activeElement) && focused?.isConnected;
    place.hidden = true;
    if (returns) focused.focus();
  };
}

/** Show a message in place of the progress until it is closed. */
export function say(words) {
  const place = progress();
  const text = document.createElement("span");
  text.textContent = words;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Close";
  button.addEventListener("click", () => (place.hidden = true));
  place.replaceChildren(text, button);
  place.hidden = false;
}

/** Return the address of a form with method GET without its empty fields. */
export function addressOf(form, submitter) {
  const data = new FormData(form, submitter);
  const pairs = [...data].filter(([, value]) => typeof value === "string" && value !== "");
  const query = new URLSearchParams(pairs).toString();
  const action = submitter?.getAttribute("formaction") || form.getAttribute("action") || location.pathname;
  return query ? `${action}?${query}` : action;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.hasAttribute("data-progress")) return;
  event.preventDefault();
  const address = addressOf(form, event.submitter);
  if (form.dataset.empty && !address.includes("?")) return say(form.dataset.empty);
  show(address, { words: form.getAttribute("data-progress") || "Loading" });
});

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-progress]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  show(link.href, { words: link.getAttribute("data-progress") || "Loading" });
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running) running.abort();
});

addEventListener("popstate", () => {
  if (document.dispatchEvent(new CustomEvent("returned", { cancelable: true }))) show(location.href, { push: false });
});
