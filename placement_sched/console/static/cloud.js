// SPDX-License-Identifier: Apache-2.0
// Cloud page: the map of all hosts, filtered and coloured by the form. The address contains the
// fields of the form, so that a link shows the same map. An opened host is shown in a panel with the
// HTML of its own page.

import { say } from "./asking.js";
import { HostMap, swatch } from "./map.js";

const FILTERS = ["search", "zone", "aggregate", "state", "trait"];
const SHARES = [
  [0, "--share0", "none free"],
  [0.25, "--share1", "up to a quarter free"],
  [0.5, "--share2", "up to a half free"],
  [0.75, "--share3", "up to three quarters free"],
  [1, "--share4", "more free"],
];
const NOTHING = { colour: "--back", mark: "–", words: "has none of it" };
const MARKS = { down: "cross", disabled: "hatch" };
const POLICY_COLOURS = 7;
const byName = new Intl.Collator("en", { numeric: true }).compare;
const number = new Intl.NumberFormat("en");

let shown = null; // the element that this module has filled. "shown" replaces it

async function start() {
  const place = document.querySelector(".cloud");
  if (!place || place === shown) return;
  shown = place;
  const counted = place.querySelector("#counted");
  place.querySelector("#map").hidden = false;
  try {
    const response = await fetch(place.dataset.hosts, { headers: { Accept: "application/json" } });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.errors?.[0]?.detail ?? response.statusText);
    if (!answer.hosts.length) {
      // Hide the empty map, which would push the instructions in place of the table out of view.
      place.querySelector("#map").hidden = true;
      return;
    }
    await pause(); // decoding ten thousand hosts blocks the page: handle pending events
    const page = new CloudPage(place, answer);
    await pause();
    await page.draw();
  } catch (failure) {
    counted.textContent = `The map cannot be drawn: ${failure.message}`;
  }
}

const pause = () => new Promise((resolve) => setTimeout(resolve));

class CloudPage {
  constructor(place, answer) {
    this.place = place;
    this.form = place.querySelector("#view");
    this.answer = answer;
    this.hosts = answer.hosts;
    this.fillForm();
  }

  async draw() {
    const { place } = this;
    this.map = new HostMap(place.querySelector("canvas"), {
      live: place.querySelector("#live"),
      describe: (host) => this.described(host),
    });
    this.map.onOpen((host) => this.open(host.host));
    this.map.onPoint((host) => (place.querySelector("#pointed").textContent = host ? this.described(host) : ""));
    this.map.onSelect((hosts) => this.chosen(hosts));
    this.apply();
    await pause();
    this.map.setHosts(this.hosts);
    this.listen();
    const opened = new URLSearchParams(location.search).get("open");
    if (opened) this.open(opened, { push: false });
  }

  fillForm() {
    const { aggregates, traits, hosts } = this.answer;
    const options = (id, names) =>
      this.place.querySelector(id).replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
    options("#zones", [...new Set(hosts.map((host) => host.zone))].sort(byName));
    options("#aggregates", aggregates.map((one) => one.name).sort(byName));
    options("#traits", traits);
    const classes = new Set(["VCPU", "MEMORY_MB", "DISK_GB"]);
    for (const host of hosts) for (const name of Object.keys(host.resources)) classes.add(name);
    this.choices("colour", [
      ...[...classes].map((name) => [`free:${name}`, `free share of ${name}`]),
      ["state", "state"],
      ["policy", "policy"],
      ["instances", "instances"],
    ]);
    const keys = new Set(aggregates.flatMap((one) => Object.keys(one.metadata)));
    keys.delete("availability_zone");
    this.choices("group", [
      ["zone", "zone"],
      ["aggregate", "zone, then aggregate"],
      ["name", "zone, then beginning of the name"],
      ...[...keys].sort(byName).map((key) => [`key:${key}`, `zone, then ${key} of aggregates`]),
    ]);
    for (const label of this.form.querySelectorAll(".of-map")) label.hidden = false;
  }

  choices(name, pairs) {
    const select = this.form.elements[name];
    const { chosen } = select.dataset;
    select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value, false, value === chosen)));
  }

  value(name) {
    return this.form.elements[name].value.trim();
  }

  described(host) {
    const colour = this.value("colour");
    const part = colour.startsWith("free:") ? colour.slice(5) : "VCPU";
    const amounts = host.resources[part];
    const free = amounts ? `, ${number.format(amounts.capacity - amounts.used)} of ${number.format(amounts.capacity)} ${part} free` : "";
    const why = host.disabled_reason ? ` (${host.disabled_reason})` : "";
    return `${host.host}: ${host.state}${why}, zone ${host.zone}${free}, ${host.instances === 1 ? "1 instance" : `${number.format(host.instances)} instances`}, policy ${host.policy}`;
  }

  listen() {
    const { place, form } = this;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.changed();
    });
    let waiting = 0;
    form.addEventListener("input", () => {
      this.apply();
      clearTimeout(waiting);
      waiting = setTimeout(() => this.changed(), 400);
    });
    place.querySelector(".zooms").addEventListener("click", (event) => {
      const by = event.target.dataset.zoom;
      if (by) by === "fit" ? this.map.fit() : this.map.zoom(Number(by));
    });
    place.querySelector("#chosen button").addEventListener("click", () => this.map.select([]));
    place.querySelector("#chosen input").addEventListener("input", () => this.chosen(this.map.selected()));
    place.addEventListener("submit", (event) => event.target.closest("#hosts") && this.ask(event));
    place.addEventListener("change", (event) => {
      if (event.target.name === "drain") this.map.select(this.checked());
    });
    place.addEventListener("click", (event) => {
      const link = event.target.closest(".host-table th a, a[data-turn]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      if (link.hasAttribute("data-turn")) return this.turnTo(link.href);
      const name = link.textContent;
      this.map.focus(name);
      this.open(name);
    });
  }

  checked() {
    const here = [...this.place.querySelectorAll("input[name=drain]")];
    const names = new Set(this.map.selected().map((host) => host.host));
    for (const box of here) names[box.checked ? "add" : "delete"](box.value);
    return names;
  }

  /** Apply the form to the map. Only changed fields cause work. */
  apply() {
    const said = JSON.stringify(FILTERS.map((name) => this.value(name)));
    const [group, colour] = [this.value("group"), this.value("colour")];
    const before = this.drawn;
    this.drawn = { said, group, colour };
    if (said !== before?.said) this.map.show(this.filter());
    if (group !== before?.group) this.map.groupBy(this.grouping(group));
    if (said === before?.said && colour === before?.colour) return;
    const { of, legend } = this.coloured(colour);
    this.map.colourBy(of);
    this.showLegend(legend);
  }

  /** Write the form to the address and fetch the matching table. */
  async changed() {
    const query = new URLSearchParams([...new FormData(this.form)].filter(([, value]) => value));
    const opened = new URLSearchParams(location.search).get("open");
    const own = `${this.form.getAttribute("action")}?${query}`;
    history.replaceState({}, "", opened ? `${own}&open=${encodeURIComponent(opened)}` : own);
    await this.showTable(own);
  }

  /** Show another page of the table. The selection remains. */
  async turnTo(address) {
    const table = await this.showTable(address);
    if (!table) return;
    history.replaceState({}, "", address);
    const title = table.querySelector("h2");
    title.tabIndex = -1;
    title.focus();
  }

  async showTable(address) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const table = await part(address, "#hosts");
    if (!table || turn !== this.turn) return null;
    this.place.querySelector("#hosts").replaceWith(table);
    this.chosen(this.map.selected());
    return table;
  }

  filter() {
    const { aggregates, traits } = this.answer;
    const [search, zone, aggregate, state, trait] = FILTERS.map((name) => this.value(name));
    const of = aggregates.findIndex((one) => one.name === aggregate || one.uuid === aggregate);
    const with_ = traits.indexOf(trait);
    const text = search.toLowerCase();
    const tests = [
      text && ((host) => host.host.toLowerCase().includes(text) || host.node.toLowerCase().includes(text)),
      zone && ((host) => host.zone.split(",").includes(zone)),
      aggregate && ((host) => host.aggregates.includes(of)),
      state && ((host) => host.state === state),
      trait && ((host) => host.traits.includes(with_)),
    ].filter(Boolean);
    const test = tests.length ? (host) => tests.every((one) => one(host)) : null;
    this.seen = test ? this.hosts.filter(test) : this.hosts;
    this.count();
    return test;
  }

  count() {
    const all = number.format(this.hosts.length);
    const words = this.seen.length === this.hosts.length ? `${all} hosts` : `${number.format(this.seen.length)} of ${all} hosts, the rest is dimmed`;
    this.place.querySelector("#counted").textContent = words;
  }

  grouping(key) {
    const { aggregates } = this.answer;
    if (key === "zone") return (host) => [host.zone];
    if (key === "name") return (host) => [host.zone, beginning(host.host)];
    if (key === "aggregate") {
      const isZone = aggregates.map((one) => "availability_zone" in one.metadata);
      return (host) => [host.zone, aggregates[host.aggregates.find((at) => !isZone[at])]?.name ?? "no aggregate"];
    }
    const values = aggregates.map((one) => one.metadata[key.slice("key:".length)]);
    return (host) => [host.zone, values[host.aggregates.find((at) => values[at] !== undefined)] ?? "none"];
  }

  /** Return the colouring of hosts, and the entries of the legend with counts of hosts. */
  coloured(colour) {
    const kinds = colour.startsWith("free:") ? shares(colour.slice(5)) : { state, policy: policies, instances }[colour](this.hosts);
    const numbers = new Map(kinds.legend.map((one) => [one, 0]));
    const of = (host) => {
      const kind = kinds.of(host);
      return { colour: kind.colour, mark: MARKS[host.state] ?? kind.mark ?? "" };
    };
    for (const host of this.seen) {
      const kind = kinds.of(host);
      numbers.set(kind, (numbers.get(kind) ?? 0) + 1);
    }
    const legend = [...numbers].map(([kind, count]) => ({ ...kind, count }));
    if (colour !== "state") {
      for (const [name, mark] of Object.entries(MARKS)) {
        const count = this.seen.filter((host) => host.state === name).length;
        if (count) legend.push({ colour: "--back", mark, words: name, count });
      }
    }
    return { of, legend };
  }

  showLegend(legend) {
    const items = legend.filter((one) => one.count || !one.optional).map((one) => {
      const item = document.createElement("li");
      const key = document.createElement("canvas");
      const text = document.createElement("span");
      key.setAttribute("aria-hidden", "true");
      text.textContent = `${one.words}: ${number.format(one.count)}`;
      item.append(key, text);
      return [item, key, one];
    });
    this.place.querySelector("#legend").replaceChildren(...items.map(([item]) => item));
    this.swatches = () => items.forEach(([, key, one]) => swatch(key, one));
    this.swatches();
    if (!this.watches) {
      this.watches = true;
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.swatches());
    }
  }

  chosen(hosts) {
    const names = [...new Set(hosts.map((host) => host.host))].sort(byName);
    const bar = this.place.querySelector("#chosen");
    bar.hidden = !names.length;
    const some = names.slice(0, 5).join(", ");
    bar.querySelector("p").textContent = `${names.length === 1 ? "1 host" : `${number.format(names.length)} hosts`} selected: ${some}${names.length > 5 ? " …" : ""}.`;
    for (const link of bar.querySelectorAll("a")) link.href = this.whatIf(link.dataset.whatIf, names, bar.querySelector("input").value);
    const kept = new Set(names);
    for (const box of this.place.querySelectorAll("input[name=drain]")) box.checked = kept.has(box.value);
  }

  /** Return the address of the capacity if these hosts are drained or duplicated. */
  whatIf(what, names, more) {
    const count = Math.max(1, Math.floor(Number(more)) || 1);
    const pairs = names.map((name) => [what, what === "add" ? `${name}:${count}` : name]);
    return `${this.place.dataset.capacity}?${new URLSearchParams(pairs)}`;
  }

  /** Submit the table with all selected hosts, including hosts on other pages. */
  ask(event) {
    event.preventDefault();
    const names = [...new Set(this.map.selected().map((host) => host.host))].sort(byName);
    const what = event.submitter?.value === "add" ? "add" : "drain";
    if (names.length) location.assign(this.whatIf(what, names, event.target.elements.more.value));
    else say("Select hosts first, on the map or in the table.");
  }

  /** Show a host in the panel with the HTML of its page. */
  async open(name, { push = true } = {}) {
    const panel = this.place.querySelector("#panel");
    const address = this.place.dataset.host + encodeURIComponent(name);
    const found = await part(address, "#host");
    if (!found) return;
    const bar = document.createElement("div");
    bar.className = "panel-bar";
    const title = Object.assign(document.createElement("h2"), { id: "panel-title", textContent: name, tabIndex: -1 });
    const page = Object.assign(document.createElement("a"), { href: address, textContent: "Own page" });
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
    close.addEventListener("click", () => this.close());
    bar.append(title, page, close);
    panel.replaceChildren(bar, found);
    panel.hidden = false;
    panel.onkeydown = (event) => event.key === "Escape" && this.close();
    title.focus();
    const query = new URLSearchParams(location.search);
    if (push && query.get("open") !== name) {
      query.set("open", name);
      history.pushState({}, "", `${location.pathname}?${query}`);
    }
  }

  close() {
    const panel = this.place.querySelector("#panel");
    panel.hidden = true;
    panel.replaceChildren();
    const query = new URLSearchParams(location.search);
    query.delete("open");
    history.replaceState({}, "", query.size ? `${location.pathname}?${query}` : location.pathname);
    this.place.querySelector("canvas").focus();
  }
}

/** Return a part of another page of the console, or null if the service does not answer. */
async function part(address, selector) {
  try {
    const response = await fetch(address, { headers: { Accept: "text/html" } });
    const other = new DOMParser().parseFromString(await response.text(), "text/html");
    const found = other.querySelector(selector);
    if (!found) throw new Error(other.querySelector("[role=alert]")?.textContent ?? `${response.status}`);
    return document.importNode(found, true);
  } catch (failure) {
    say(failure.message);
    return null;
  }
}

/** Return the name of a host without its last part (az1-r01-hdd07) or number (cn012). */
function beginning(name) {
  const [short] = name.split(".");
  return short.replace(/[-_][A-Za-z]*\d+$|\d+$/, "") || short;
}

function shares(name) {
  const legend = SHARES.map(([, colour, words]) => ({ colour, words }));
  const none = { ...NOTHING, optional: true };
  const of = (host) => {
    const amounts = host.resources[name];
    if (!amounts || amounts.capacity <= 0) return none;
    const share = Math.max(0, (amounts.capacity - amounts.used) / amounts.capacity);
    if (share === 0) return legend[0];
    return legend[1 + Math.min(3, Math.max(0, Math.ceil(share * 4) - 1))];
  };
  return { of, legend: [...legend, none] };
}

function state() {
  const kinds = {
    up: { colour: "--up", words: "up" },
    down: { colour: "--down", mark: MARKS.down, words: "down" },
    disabled: { colour: "--off", mark: MARKS.disabled, words: "disabled" },
  };
  return { of: (host) => kinds[host.state], legend: Object.values(kinds) };
}

function policies(hosts) {
  const names = [...new Set(hosts.map((host) => host.policy))].filter((name) => name !== "default").sort(byName);
  const kinds = new Map([["default", { colour: "--part7", words: "default" }]]);
  names.forEach((name, at) => {
    const letter = String.fromCharCode(65 + (at % 26));
    kinds.set(name, { colour: `--part${at % POLICY_COLOURS}`, mark: at < 26 ? letter : `${letter}${Math.floor(at / 26)}`, words: name });
  });
  for (const kind of kinds.values()) if (kind.mark) kind.words = `${kind.mark}  ${kind.words}`;
  return { of: (host) => kinds.get(host.policy), legend: [...kinds.values()] };
}

function instances(hosts) {
  const most = hosts.reduce((found, host) => Math.max(found, host.instances), 0);
  const step = Math.max(1, Math.ceil(most / 4));
  const range = (at) => (step === 1 ? `${at + 1}` : `${at * step + 1} to ${(at + 1) * step}`);
  const legend = [{ colour: "--share4", words: "no instances" }];
  for (let at = 0; at * step < most; at += 1) legend.push({ colour: `--share${3 - at}`, words: `${range(at)} instances` });
  return { of: (host) => legend[Math.ceil(host.instances / step)], legend };
}

document.addEventListener("shown", start);
start();
