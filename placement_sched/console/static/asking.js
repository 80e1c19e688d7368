// SPDX-License-Identifier: Apache-2.0
// Forms and links whose requests take long: shows progress and can be cancelled.
//
// A form or link with the attribute data-asks is fetched without leaving the page: the <main> of the
// response replaces the <main> of the page, and the address bar is updated. Without scripts the
// browser loads the whole page. Other modules listen to the event "shown" of document, which is
// sent whenever <main> is replaced.

const progress = () => document.getElementById("progress");
let running = null;

/** Fetch a page of the console and show its <main>. Return whether it was shown. */
export async function show(address, { push = true, words = "Asking" } = {}) {
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

/** Show progress with the elapsed seconds. Return the function that hides it. */
export function showProgress(words, cancel) {
  const place = progress();
  const began = performance.now();
  const before = document.activeElement;
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
  place.replaceChildren(bar, text, button);
  place.hidden = false;
  return () => {
    clearInterval(timer);
    if (!place.contains(button)) return;
    // After Cancel, the focus returns to the form.
    const returns = place.contains(document.activeElement) && before?.isConnected;
    place.hidden = true;
    if (returns) before.focus();
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
  if (!form.hasAttribute("data-asks")) return;
  event.preventDefault();
  const address = addressOf(form, event.submitter);
  if (form.dataset.empty && !address.includes("?")) return say(form.dataset.empty);
  show(address, { words: form.getAttribute("data-asks") || "Asking" });
});

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-asks]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  show(link.href, { words: link.getAttribute("data-asks") || "Asking" });
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.getAttribute("data-copy")).textContent;
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it to copy";
  }
  setTimeout(() => (button.textContent = before), 2000);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running) running.abort();
});

addEventListener("popstate", () => show(location.href, { push: false }));
