// SPDX-License-Identifier: Apache-2.0
// Live list of decisions: newer decisions are inserted at the top, as rows of the same page. Heading,
// timeline and counts of values come from the same response.

import { Refresh, readPage, renew } from "./refresh.js";

const idOf = (row) => row.id || idOf(row.previousElementSibling);

function say(words) {
  const place = document.getElementById("news");
  if (place.textContent !== words) place.textContent = words;
}

/** Insert the new rows at the top, and remove the rows that are now on the next page. */
function updateRows(own, update) {
  const ownIds = new Set([...own.rows].map(idOf));
  const listed = new Set([...update.rows].map(idOf));
  const first = own.firstElementChild;
  for (const row of [...update.rows].filter((each) => !ownIds.has(idOf(each)))) {
    const added = document.importNode(row, true);
    added.classList.add("new");
    own.insertBefore(added, first);
  }
  for (const row of [...own.rows].filter((each) => !listed.has(idOf(each)))) row.remove();
  own.closest("table").hidden = !own.rows.length;
  return [...listed].filter((id) => !ownIds.has(id)).length;
}

async function refresh(section, signal) {
  const { page, time } = await readPage(section.dataset.list, signal);
  const update = page.querySelector("main [data-list] tbody");
  if (!update) throw new Error(page.querySelector("main [role=alert]")?.textContent.trim() ?? "The list is no longer available");
  renew(page);
  const number = updateRows(section.querySelector("tbody"), update);
  const at = time.toISOString().slice(11, 19);
  if (number) say(number === 1 ? `1 new decision at ${at} UTC` : `${number} new decisions at ${at} UTC`);
  return time;
}

function begin() {
  const section = document.querySelector("main [data-list]");
  if (section) new Refresh((signal) => refresh(section, signal)).begin();
}

document.addEventListener("shown", begin);
begin();
