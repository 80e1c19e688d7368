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

/** Fetch a page of the console, which may be that of an error. */
export async function fetchPage(address, signal) {
  try {
    const response = await fetch(address, { signal, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    signal.throwIfAborted();
    return { response, page };
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Error(`The service does not answer: ${failure.message}`);
  }
}

/** Return whether a response is the sign-in page: the service redirects there without a valid token. */
export const isSignIn = (response) => response.redirected && new URL(response.url).pathname.endsWith("/console/sign-in");

/** Return an error with the message that the page of an error shows. */
export function failureOf(response, page) {
  const words = page.querySelector("[role=alert]")?.textContent.trim() || `The service does not answer: ${response.status} ${response.statusText}`;
  return Object.assign(new Error(words), { isSignIn: isSignIn(response), status: response.status });
}

/** Fetch elements of a page. The error of a page without them is the message that it shows. */
export async function fetchParts(address, selector, signal) {
  const { response, page } = await fetchPage(address, signal);
  const parts = [...page.querySelectorAll(selector)].map((part) => document.importNode(part, true));
  if (!parts.length) throw failureOf(response, page);
  return { response, page, parts };
}

/** Reader of parts of pages. Only the newest request counts: an older request is cancelled. */
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

  /** Return elements of another page, or null if the request failed, with a message, or was cancelled. */
  async read(address, selector, { words = this.#words, delay = SOON } = {}) {
    this.cancel();
    const own = (this.#own = new AbortController());
    const hide = showProgress(words, () => own.abort(), delay);
    try {
      return await fetchParts(address, selector, own.signal);
    } catch (failure) {
      if (failure.name !== "AbortError") say(failure.message, failure.isSignIn ? "Sign in" : "");
      return null;
    } finally {
      hide();
    }
  }

  /** Return the first of the elements, or null. */
  async part(address, selector) {
    return (await this.read(address, selector))?.parts[0] ?? null;
  }
}

const pages = new Latest("Loading");

/** Fetch a page of the console and show its <main>. */
export async function show(address, { push = true, words = "Loading" } = {}) {
  const loaded = await pages.read(address, "main", { words, delay: 0 });
  if (!loaded) return;
  const { response, page, parts: [main] } = loaded;
  document.querySelector("main").replaceWith(main);
  document.title = page.title;
  if (push) history.pushState({}, "", response.redirected ? response.url : address);
  document.dispatchEvent(new CustomEvent("shown"));
  const first = document.querySelector("main [role=alert], main [data-result]");
  if (first) {
    first.tabIndex = -1;
    first.focus();
  }
}

/** Show words and the elapsed seconds in an element. Return the function that ends this. */
export function showSeconds(place, words) {
  const began = performance.now();
  const tick = () => {
    const seconds = Math.floor((performance.now() - began) / 1000);
    place.textContent = seconds ? `${words} … ${seconds} s ` : `${words} … `;
  };
  tick();
  const timer = setInterval(tick, 1000);
  return () => clearInterval(timer);
}

/** Make a button with a listener of clicks. */
export function makeButton(text, listener, className = "") {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: text, className });
  button.addEventListener("click", listener);
  return button;
}

/** Show progress with the elapsed seconds, after a delay. Return the function that hides it. */
export function showProgress(words, cancel, delay = 0) {
  const place = progress();
  const focused = document.activeElement;
  const bar = document.createElement("progress");
  bar.setAttribute("aria-label", words);
  const text = document.createElement("span");
  const button = makeButton("Cancel", cancel);
  const end = showSeconds(text, words);
  const reveal = () => {
    place.replaceChildren(bar, text, button);
    place.hidden = false;
  };
  const waiting = delay ? setTimeout(reveal, delay) : reveal();
  return () => {
    end();
    clearTimeout(waiting);
    if (!place.contains(button)) return;
    // After Cancel, the focus returns to the form.
    const returns = place.contains(document.activeElement) && focused?.isConnected;
    place.hidden = true;
    if (returns) focused.focus();
  };
}

/** Show a message in place of the progress until it is closed. A link loads the page again. */
export function say(words, linkWords = "") {
  const place = progress();
  const text = document.createElement("span");
  text.textContent = words;
  const link = Object.assign(document.createElement("a"), { href: location.href, textContent: linkWords });
  place.replaceChildren(text, ...(linkWords ? [link] : []), makeButton("Close", () => (place.hidden = true)));
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
  if (event.key === "Escape") pages.cancel();
});

addEventListener("popstate", () => {
  if (document.dispatchEvent(new CustomEvent("returned", { cancelable: true }))) show(location.href, { push: false });
});
