// SPDX-License-Identifier: Apache-2.0
// Live list of decisions: while the page is visible, newer decisions are fetched every few seconds
// and inserted at the top, as rows of the same page.

const EVERY = 3000;
const MOST = 300;
let paused = false;
let timer = null;
let asking = null;

const list = () => document.querySelector("main [data-live]");
const idOf = (row) => row.id || idOf(row.previousElementSibling);

function say(words) {
  const place = document.getElementById("news");
  if (place && place.textContent !== words) place.textContent = words;
}

/** Fetch the current list, or null if the page has no list any more (signed out). */
async function fetched(address) {
  asking = new AbortController();
  const answer = await fetch(address, {
    headers: { Accept: "text/html" },
    credentials: "same-origin",
    signal: asking.signal,
  });
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return page.querySelector("main [data-live]");
}

/** Insert the new rows at the top. Return the number of new decisions. */
function added(shown, found) {
  const body = shown.querySelector("tbody");
  const known = new Set([...body.rows].map(idOf));
  const rows = [...found.querySelectorAll("tbody tr")].filter((row) => !known.has(idOf(row)));
  if (!rows.length) return 0;
  const overlaps = rows.length < found.querySelectorAll("tbody tr").length;
  if (known.size && !overlaps) {
    // More decisions are new than fit on a page. The link to older decisions leads to the rest.
    body.replaceChildren();
    shown.querySelector(".pages").replaceWith(document.importNode(found.querySelector(".pages"), true));
  }
  const before = body.firstElementChild;
  for (const row of rows) {
    const own = document.importNode(row, true);
    own.classList.add("new");
    body.insertBefore(own, before);
  }
  while (body.rows.length > MOST) body.lastElementChild.remove();
  shown.querySelector("table").hidden = false;
  document.getElementById("none")?.remove();
  return new Set(rows.map(idOf)).size;
}

async function look() {
  timer = null;
  const shown = list();
  if (!shown || paused || document.visibilityState !== "visible") return;
  try {
    const found = await fetched(shown.dataset.live);
    if (paused || list() !== shown) return;
    if (!found) {
      say("The list is no longer available: reload the page");
      return;
    }
    const number = added(shown, found);
    const at = new Date().toISOString().slice(11, 19);
    if (number) say(number === 1 ? `1 new decision at ${at} UTC` : `${number} new decisions at ${at} UTC`);
    else if (document.getElementById("news").textContent.startsWith("The service")) say("");
  } catch (failure) {
    if (failure.name !== "AbortError") say("The service does not answer. Retrying.");
  }
  next();
}

function next() {
  clearTimeout(timer);
  timer = list() && !paused && document.visibilityState === "visible" ? setTimeout(look, EVERY) : null;
}

function begin() {
  const button = document.getElementById("pause");
  if (button) {
    button.hidden = false;
    button.setAttribute("aria-pressed", String(paused));
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      asking?.abort();
      say(paused ? "Paused" : "");
      next();
    });
  }
  next();
}

document.addEventListener("visibilitychange", next);
document.addEventListener("shown", begin);
begin();
