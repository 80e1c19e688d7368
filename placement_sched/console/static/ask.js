// SPDX-License-Identifier: Apache-2.0
// Ask page: sliders for weight multipliers, mutually exclusive fields, and the map of hosts with the
// colour and letter of the stage that rejects each host.

import { show } from "./asking.js";
import { HostMap } from "./map.js";

const API = new URL("../api/scheduler/v1/", import.meta.url);
const WIDE = matchMedia("(min-width: 60rem)");
let open = null;

/** Add a slider to the field of a multiplier. An empty field is not sent. */
function slide(row) {
  const field = row.querySelector("input");
  const configured = Number(row.dataset.configured);
  const label = row.querySelector("label").textContent;
  const slider = document.createElement("input");
  const reset = document.createElement("button");
  const most = Math.max(10, 2 * Math.abs(configured), 2 * Math.abs(Number(field.value)));
  slider.type = "range";
  slider.min = -most;
  slider.max = most;
  slider.step = most / 100;
  slider.setAttribute("aria-label", `${label}, slider`);
  reset.type = "button";
  reset.textContent = "as configured";
  reset.setAttribute("aria-label", `${label} as configured`);
  const follow = () => {
    const set = field.value !== "";
    slider.value = set ? field.value : configured;
    slider.setAttribute("aria-valuetext", set ? field.value : `as configured, ${configured}`);
    row.toggleAttribute("data-set", set);
    reset.disabled = !set;
  };
  slider.addEventListener("input", () => {
    field.value = Number(Number(slider.value).toPrecision(6));
    follow();
  });
  field.addEventListener("input", follow);
  reset.addEventListener("click", () => {
    field.value = "";
    follow();
    slider.focus();
  });
  row.append(slider, reset);
  follow();
}

/** Disable the fields of sizes while a stored flavor is selected. */
function choose(select) {
  const typed = select.form.querySelectorAll("[data-sizes], [name=property]");
  const follow = () => typed.forEach((field) => (field.disabled = select.value !== ""));
  select.addEventListener("change", follow);
  follow();
}

async function asked(path, body) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  const method = body ? "POST" : "GET";
  const response = await fetch(new URL(path, API), { method, body, headers });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.errors?.[0]?.detail ?? response.statusText);
  return answer;
}

/**
 * Return the stage that rejects each node. ``stages`` are the stages that hosts reached, ``ranks``
 * has the nodes that passed. Hosts removed by a limit are counted in the answer and not listed. If
 * the number of remaining ``hosts`` is the same, the limit removed them.
 */
function refusals(funnel, stages, hosts, ranks) {
  const { steps, fallback } = funnel.allocation_candidates;
  const reports = [...steps, ...(fallback?.steps ?? []), ...funnel.filters].filter((report) => report.before);
  const refused = new Map();
  reports.forEach((report, at) => report.rejected.forEach((one) => refused.set(one.node, stages[at])));
  for (const node of ranks.keys()) refused.delete(node);
  const others = hosts.filter(({ node }) => !ranks.has(node) && !refused.has(node));
  const cut = reports.findIndex((report) => report.before > report.after && !report.rejected.length);
  if (cut >= 0 && reports[cut].before - reports[cut].after === others.length) {
    for (const { node } of others) refused.set(node, stages[cut]);
  }
  return refused;
}

/** Draw all hosts, with rejected hosts dimmed in the colour of their stage. */
async function draw(place) {
  const stages = JSON.parse(place.dataset.stages);
  const pointed = place.querySelector(".pointed");
  place.hidden = false;
  try {
    const [{ hosts }, answer] = await Promise.all([asked("hosts"), asked("explain", place.dataset.body)]);
    if (!place.isConnected) return;
    const ranks = new Map(answer.hosts.map((one, at) => [one.node, at + 1]));
    const refused = refusals(answer.funnel, stages, hosts, ranks);
    const selected = new Set(answer.selections.map(([best]) => best.nodename));
    const fate = ({ node }) => {
      if (ranks.has(node)) return `${selected.has(node) ? "selected" : "passed"}, place ${ranks.get(node)} of ${ranks.size}`;
      const stage = refused.get(node);
      return stage ? `rejected at ${stage.letter}, ${stage.name}` : "not reached";
    };
    const describe = (host) => `${host.host}, zone ${host.zone}: ${fate(host)}`;
    const map = new HostMap(place.querySelector("canvas"), { hosts, live: place.querySelector("[aria-live]"), describe });
    map.colourBy(({ node }) => {
      if (selected.has(node)) return { colour: "--good", mark: "✓" };
      return ranks.has(node) ? { colour: "--stayed", mark: "" } : { colour: "--line", mark: "–" };
    });
    map.dim(new Map([...refused].map(([node, one]) => [node, { stage: one.name, colour: `--part${one.colour}`, mark: one.letter }])));
    map.onPoint((host) => (pointed.textContent = host ? describe(host) : "\u00a0"));
    map.onOpen((host) => show(`${place.dataset.host}${encodeURIComponent(host.host)}`));
    pointed.textContent = "\u00a0";
  } catch (failure) {
    place.querySelector("canvas").hidden = true;
    pointed.textContent = `The map cannot be drawn: ${failure.message}`;
  }
}

function prepare() {
  document.querySelectorAll("[data-map]").forEach(draw);
  document.querySelectorAll("[data-multiplier]").forEach(slide);
  document.querySelectorAll("[data-flavor]").forEach(choose);
}

document.addEventListener("submit", (event) => {
  if (!event.target.closest("#question")) return;
  open = [...document.querySelectorAll("main details[open][id]")].map((one) => one.id);
});

document.addEventListener("shown", () => {
  // Open details stay open on wide screens, for changing several values in a row.
  for (const id of WIDE.matches && open ? open : []) {
    const details = document.getElementById(id);
    if (details) details.open = true;
  }
  open = null;
  prepare();
});

prepare();
