// SPDX-License-Identifier: Apache-2.0
// Parts of all pages: the search box (/), menus, Copy, sorting and columns of tables, local times, and
// parts that are loaded after the page.

import { fetchParts, makeButton, showSeconds } from "./loading.js";

/** Run a function now and whenever loading.js has replaced <main>. */
function onShown(work) {
  document.addEventListener("shown", () => work(document.querySelector("main")));
  work(document.querySelector("main"));
}

document.addEventListener("keydown", (event) => {
  const types = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (event.key === "/" && !types && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.querySelector(".find input")?.focus();
  }
  const menu = event.key === "Escape" && event.target.closest?.("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

document.addEventListener("click", async (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  const place = document.getElementById(button.dataset.copy);
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(place.value ?? place.textContent);
    button.textContent = "Copied";
  } catch {
    // Without TLS browsers offer no clipboard: select the text, which is always visible.
    place.hidden = false;
    if (place.select) place.select();
    else getSelection().selectAllChildren(place);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => (button.textContent = label), 3000);
});

/** Return the sort key of a cell: a number if its text is a number. */
function valueOf(row, index) {
  const cell = row.cells[index];
  const text = cell?.dataset.sort ?? cell?.textContent.trim() ?? "";
  const number = Number(text.replaceAll(",", ""));
  return text !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
}

function compare(a, b) {
  if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
  return typeof a === "number" ? -1 : 1;
}

/** Sort a table by a column. Rows of class "part" stay below the row that they belong to. */
function sortBy(head) {
  const table = head.closest("table");
  const index = head.cellIndex;
  const descends = head.getAttribute("aria-sort") === "ascending" || (!head.hasAttribute("aria-sort") && head.classList.contains("count"));
  const groups = [];
  for (const row of table.tBodies[0].rows) {
    if (groups.length && row.matches(".part, .reasons")) groups.at(-1).push(row);
    else groups.push([row]);
  }
  groups.sort(([a], [b]) => compare(valueOf(a, index), valueOf(b, index)) * (descends ? -1 : 1));
  table.tBodies[0].append(...groups.flat());
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descends ? "descending" : "ascending");
}

/** Add a field that shows only the rows whose text contains its words. */
function addRowFilter(table) {
  const field = document.createElement("input");
  field.type = "search";
  field.className = "rows";
  field.placeholder = "Filter rows";
  field.setAttribute("aria-label", "Filter rows");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  table.parentElement.before(field);
}

/** A table of more rows has a field that filters them. */
const MANY_ROWS = 15;

// On a phone the names of the pages are wider than the screen.
document.querySelector("nav [aria-current=page]")?.scrollIntoView({ inline: "center", block: "nearest" });

function prepareTable(table) {
  if (table.tBodies[0].rows.length > MANY_ROWS) addRowFilter(table);
  for (const head of table.tHead.rows[0].cells) {
    if (head.classList.contains("plain") || head.querySelector("button")) continue;
    const button = makeButton("", () => sortBy(head), "sort");
    button.append(...head.childNodes);
    head.append(button);
  }
}

function prepare(element) {
  for (const table of element.querySelectorAll("table[data-table]")) prepareTable(table);
  for (const time of element.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.valueOf())) time.title = `${time.dateTime.replace("T", " ").replace("Z", "")} UTC, ${moment.toLocaleString()} here`;
  }
}

onShown(prepare);
document.addEventListener("renewed", (event) => prepare(event.detail));

/** Return the element with the state of a part. */
const textOf = (place) => place.querySelector("[data-state]") ?? place;

/** Fetch the parts of an element, in order, until they are loaded or stopped. */
async function loadParts(main) {
  const stop = new AbortController();
  // The parts of a closed element are fetched when it is opened.
  const places = [...main.querySelectorAll("[data-load]")].filter((place) => !place.closest("details:not([open])"));
  const addresses = places.map((place) => place.dataset.load);
  for (const place of places) delete place.dataset.load;
  for (const place of places) textOf(place).textContent = "Waiting";
  for (const [index, place] of places.entries()) {
    if (!place.isConnected) return;
    const text = document.createElement("span");
    textOf(place).replaceChildren(text, makeButton("Cancel", () => stop.abort(), "small"));
    const end = showSeconds(text, place.dataset.words ?? "Counting");
    try {
      const { parts } = await fetchParts(addresses[index], "[data-part]", stop.signal);
      place.replaceWith(...parts);
    } catch (failure) {
      textOf(place).textContent = failure.name === "AbortError" ? "Not counted: cancelled" : `Not counted: ${failure.message}`;
      // An overloaded service, a missing role, and changes that cannot be simulated, fail for all parts.
      if (failure.status >= 500 || failure.status === 403 || place.hasAttribute("data-first")) stop.abort();
    }
    end();
    if (stop.signal.aborted) {
      for (const later of places.slice(index + 1)) if (later.isConnected) textOf(later).textContent = "Not counted";
      return;
    }
  }
}

onShown(loadParts);
document.addEventListener("toggle", (event) => event.target.open && loadParts(event.target), true);

/** A drag over a timeline selects its time range. */
document.addEventListener("pointerdown", (event) => {
  const picture = event.target.closest?.("svg[data-timeline]");
  if (!picture || event.button) return;
  const box = picture.getBoundingClientRect();
  const at = (moved) => Math.min(Math.max((moved.clientX - box.left) / box.width, 0), 1) * 100;
  const first = at(event);
  const range = document.createElementNS(picture.namespaceURI, "rect");
  range.setAttribute("class", "range");
  range.setAttribute("height", "100");
  const draw = (moved) => {
    range.setAttribute("x", String(Math.min(first, at(moved))));
    range.setAttribute("width", String(Math.abs(at(moved) - first)));
    picture.append(range);
  };
  const end = (last) => {
    removeEventListener("pointermove", draw);
    range.remove();
    const ends = [first, at(last)].sort((a, b) => a - b);
    if (ends[1] - ends[0] < 2) return;
    const [since, until] = [picture.dataset.since, picture.dataset.until].map((text) => Date.parse(`${text}Z`));
    const times = ends.map((part) => new Date(since + ((until - since) * part) / 100).toISOString().slice(0, 19));
    const [path, query] = picture.dataset.timeline.split("?");
    const parameters = new URLSearchParams(query);
    parameters.set("since", times[0]);
    parameters.set("until", times[1]);
    // The click that follows the drag must not open the bar under the pointer.
    addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true });
    setTimeout(() => location.assign(`${path}?${parameters}`));
  };
  event.preventDefault();
  addEventListener("pointermove", draw);
  addEventListener("pointerup", end, { once: true });
});
