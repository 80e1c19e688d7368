// SPDX-License-Identifier: Apache-2.0
// Ask page: sliders for weight multipliers, mutually exclusive fields, and the picture of a result:
// the map of hosts with the colour and letter of the stage that rejects each host, next to the stages.

import { Latest } from "./loading.js";
import { HostMap, readHosts } from "./map.js";

const HOSTS = new URL("../api/scheduler/v1/hosts", import.meta.url);
const FRESH = 30_000; // milliseconds
const MAX_SUGGESTED = 20;
const number = new Intl.NumberFormat("en");
const WIDE = matchMedia("(min-width: 60rem)");
let open = null;

/** Add a slider to the field of a multiplier. An empty field is not sent. */
function slide(row) {
  const field = row.querySelector("input");
  const configured = Number(row.dataset.configured);
  const label = row.querySelector("label").textContent;
  const slider = document.createElement("input");
  const reset = document.createElement("button");
  const maximum = Math.max(10, 2 * Math.abs(configured), 2 * Math.abs(Number(field.value)));
  slider.type = "range";
  slider.min = -maximum;
  slider.max = maximum;
  slider.step = maximum / 100;
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

let read = null; // the hosts and the time of reading

/** Read the hosts, unless a result has just used the same list. */
function readFreshHosts() {
  if (!read || performance.now() - read.at > FRESH) {
    const hosts = readHosts(HOSTS).then((response) => response.hosts);
    read = { hosts, at: performance.now() };
    hosts.catch(() => (read = null));
  }
  return read.hosts;
}

/**
 * Return the stage and reason of each rejected node, and of the nodes that a limit cut. The result lists
 * all rejected nodes, but only counts the nodes that were cut: they are the other nodes with resources.
 */
function rejections({ stages, reasons, passed }, hosts) {
  const rejected = new Map();
  for (const stage of stages) stage.nodes.forEach((node, at) => rejected.set(node, { stage, reason: reasons[stage.why[at]] }));
  for (const node of passed) rejected.delete(node);
  const areKept = new Set(passed);
  const cut = stages.find((stage) => stage.cut);
  for (const { node, resources } of cut ? hosts : []) {
    if (!areKept.has(node) && !rejected.has(node) && Object.keys(resources).length) rejected.set(node, { stage: cut, reason: "" });
  }
  return rejected;
}

/** The map of all hosts next to the stages, which highlight each other, and the panel of a host. */
class Picture {
  #reading = new Latest("Evaluating the host");
  #pinned = null;

  constructor(place) {
    this.place = place;
    this.map = null;
    this.mapData = JSON.parse(place.querySelector(".map-data").textContent);
    this.rows = [...document.querySelectorAll(".why-not [data-stage]")];
    this.here = new URL(place.dataset.here, location.href);
    this.panel = document.getElementById("why-place");
    this.field = document.querySelector("form[data-why] input[name=host]");
  }

  get isShown() {
    return this.place.isConnected;
  }

  async draw() {
    const { place, mapData } = this;
    const pointed = place.querySelector(".pointed");
    place.hidden = false;
    this.listen();
    try {
      const hosts = await readFreshHosts();
      if (!this.isShown) return;
      this.hosts = hosts;
      const zones = [...new Set(hosts.map((host) => host.zone))].sort();
      document.getElementById("zones").replaceChildren(...zones.map((zone) => new Option(zone)));
      const rejected = (this.rejected = rejections(mapData, hosts));
      const ranks = new Map(mapData.passed.map((node, at) => [node, at + 1]));
      const selected = new Set(mapData.selected);
      const fateOf = ({ node }) => {
        if (ranks.has(node)) return `${selected.has(node) ? "selected" : "passed"}, place ${ranks.get(node)} of ${ranks.size}`;
        const { stage } = rejected.get(node) ?? {};
        if (stage?.cut) return `${stage.letter}, ${stage.words}`;
        return stage ? `rejected at ${stage.letter}, ${stage.name}` : "not reached";
      };
      const describe = (host) => `${host.host}, zone ${host.zone}: ${fateOf(host)}`;
      const tip = (host) => {
        const { stage, reason } = rejected.get(host.node) ?? {};
        return [host.host, `zone ${host.zone}, ${host.state}`, ...(stage ? [`${stage.letter}  ${stage.words}`, reason] : [fateOf(host)])].filter(Boolean);
      };
      const map = (this.map = new HostMap(place.querySelector("canvas"), { hosts, live: place.querySelector("[aria-live]"), describe, tip }));
      // A dimmed host that was cut is a pale blue: it fits, as the blue hosts that passed.
      const colours = new Map(mapData.stages.map((stage) => [stage, { colour: stage.cut ? "--stayed" : `--part${stage.colour}`, mark: stage.letter }]));
      map.colourBy(({ node }) => {
        if (selected.has(node)) return { colour: "--good", mark: "✓" };
        return ranks.has(node) ? { colour: "--stayed", mark: "" } : { colour: "--line", mark: "–" };
      });
      map.dim(new Map([...rejected].map(([node, { stage }]) => [node, colours.get(stage)])));
      map.titleBy((group) => {
        const weighed = group.filter(({ node }) => ranks.has(node)).length;
        const cut = group.filter(({ node }) => rejected.get(node)?.stage.cut).length;
        const fit = `${number.format(weighed + cut)} of ${number.format(group.length)} fit`;
        return cut ? [fit, `${weighed ? number.format(weighed) : "none"} weighed`] : [fit];
      });
      map.onPoint((host) => {
        pointed.textContent = host ? describe(host) : "\u00a0";
        this.lightRow(host && rejected.get(host.node)?.stage.letter);
      });
      map.onOpen((host) => this.open(host.host));
      map.mark(this.chosen);
      pointed.textContent = "\u00a0";
    } catch (failure) {
      place.querySelector("canvas").hidden = true;
      pointed.classList.remove("unseen");
      pointed.textContent = `The map cannot be drawn: ${failure.message}`;
    }
  }

  listen() {
    for (const row of this.rows) {
      const { stage } = row.dataset;
      row.addEventListener("pointerenter", () => this.light(stage));
      row.addEventListener("pointerleave", () => this.light(this.#pinned));
      row.addEventListener("click", (event) => event.target.closest("a, summary, [role=button]") || this.pin(stage));
      const sign = row.querySelector(".sign");
      if (!sign) continue;
      sign.setAttribute("role", "button");
      sign.setAttribute("aria-label", `Show the hosts of stage ${stage} on the map`);
      sign.setAttribute("aria-pressed", "false");
      sign.tabIndex = 0;
      sign.addEventListener("click", () => this.pin(stage));
      sign.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        this.pin(stage);
      });
    }
    this.field.addEventListener("input", () => this.suggest());
    document.querySelector("form[data-why]").addEventListener("submit", (event) => {
      event.preventDefault();
      this.open(this.field.value.trim());
    });
    this.panel.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-close], a[data-why]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      if (link.hasAttribute("data-close")) this.close();
      else this.open(link.textContent);
    });
  }

  /** Show only the hosts of a stage on the map. null shows all. */
  light(letter) {
    this.map?.light(letter ? ({ node }) => this.rejected.get(node)?.stage.letter === letter : null);
    this.lightRow(letter);
  }

  lightRow(letter) {
    for (const row of this.rows) row.classList.toggle("lit", row.dataset.stage === (letter || this.#pinned));
  }

  /** Keep a stage shown until it is chosen again. */
  pin(letter) {
    this.#pinned = this.#pinned === letter ? null : letter;
    for (const row of this.rows) row.querySelector(".sign")?.setAttribute("aria-pressed", String(row.dataset.stage === this.#pinned));
    this.light(this.#pinned);
  }

  suggest() {
    const text = this.field.value.toLowerCase();
    const names = (this.hosts ?? []).filter(({ host }) => host.toLowerCase().includes(text)).slice(0, MAX_SUGGESTED);
    document.getElementById("host-names").replaceChildren(...names.map(({ host }) => new Option(host)));
  }

  /** Return the host of the address. */
  get chosen() {
    return new URLSearchParams(location.search).get("host");
  }

  /** Mark a host and show its reasons next to the map. */
  async open(name, { push = true } = {}) {
    if (!name) return;
    this.field.value = name;
    this.map?.mark(name);
    this.map?.focus(name);
    const part = await this.#reading.part(`${this.place.dataset.part}${encodeURIComponent(name)}`, "#why");
    if (!part || !this.isShown) return;
    this.panel.replaceChildren(part);
    part.querySelector("h2").focus({ preventScroll: matchMedia("(min-width: 66rem)").matches });
    if (push && name !== this.chosen) history.pushState({}, "", `${this.here.pathname}${this.here.search}&host=${encodeURIComponent(name)}`);
  }

  close({ push = true } = {}) {
    this.#reading.cancel();
    this.panel.replaceChildren();
    this.field.value = "";
    this.map?.mark(null);
    if (push) history.pushState({}, "", `${this.here.pathname}${this.here.search}`);
    this.field.focus({ preventScroll: true });
  }

  /** Show the host of the address after Back and Forward. Return whether the request is the same. */
  returned() {
    const query = new URLSearchParams(location.search);
    query.delete("host");
    query.sort();
    const own = new URLSearchParams(this.here.search);
    own.sort();
    if (!this.isShown || location.pathname !== this.here.pathname || `${query}` !== `${own}`) return false;
    if (this.chosen) this.open(this.chosen, { push: false });
    else this.close({ push: false });
    return true;
  }
}

let picture = null;

function prepare() {
  const place = document.querySelector("[data-map]");
  picture = place ? new Picture(place) : null;
  picture?.draw();
  document.querySelectorAll("[data-multiplier]").forEach(slide);
  document.querySelectorAll("[data-flavor]").forEach(choose);
}

document.addEventListener("returned", (event) => {
  if (picture?.returned()) event.preventDefault();
});

document.addEventListener("submit", (event) => {
  if (!event.target.closest("#request-form")) return;
  open = [...document.querySelectorAll("main details[open][id]")].map((details) => details.id);
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
