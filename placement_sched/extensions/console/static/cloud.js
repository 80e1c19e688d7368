// SPDX-License-Identifier: Apache-2.0
// Cloud page: the map of all hosts, a panel next to it and a table below, all from a list of hosts
// that is read again every few seconds. The form and the legend filter them. The address contains the
// fields of the form, so that a link shows the same. The panel shows an opened host (the HTML of its
// own page), the selected hosts, or the totals of the hosts that match.

import { Latest } from "./loading.js";
import { HostMap, readHosts, swatch } from "./map.js";
import { Refresh, readPage, renew } from "./refresh.js";

const FILTERS = ["search", "zone", "aggregate", "state", "trait", "only"];
const MAIN_CLASSES = ["MEMORY_MB", "VCPU", "DISK_GB"];
const [NEARLY_FULL, FULL] = [0.85, 0.95]; // as in placement_sched/model/provider.py
// The used share from which a host has the colour. The legend is in this order.
const RAMP = [
  [FULL, "--full-red", "95 % or more"],
  [NEARLY_FULL, "--full-amber", "85 to 95 %"],
  [0.7, "--full4", "70 to 85 %"],
  [0.5, "--full3", "50 to 70 %"],
  [0.3, "--full2", "30 to 50 %"],
  [0.1, "--full1", "10 to 30 %"],
  [0, "--full0", "below 10 %"],
];
const NOTHING = { key: "none", colour: "--back", mark: "–", words: "has none of it", optional: true };
const MARKS = { down: "cross", disabled: "hatch" };
const LEAVING = { key: "leaving", mark: "arrow" }; // hosts whose instances a running plan moves away
const POLICY_COLOURS = 7;
const ROWS = 50; // rows of the table, and by how many it grows
const MAX_LISTED = 8; // entries of a list in the panel
const MAX_NAMED = 20; // hosts that a link names, if other words are not shorter
const MAX_LINKED = 200; // hosts that a link can name: servers reject links of some kilobytes
const byName = new Intl.Collator("en", { numeric: true }).compare;
const number = new Intl.NumberFormat("en");

let page = null; // of the element .cloud that is shown. The event "shown" may replace the element

async function start() {
  const place = document.querySelector(".cloud");
  if (place && place === page?.place) return;
  page?.stop();
  page = place ? new CloudPage(place) : null;
  await page?.begin();
}

const pause = () => new Promise((resolve) => setTimeout(resolve));

class CloudPage {
  #opening = new Latest("Reading the host");
  #refresh = null;

  constructor(place) {
    this.place = place;
    this.path = location.pathname;
    this.form = place.querySelector("#view");
    this.panel = place.querySelector("#panel");
    this.sort = { column: "host", descends: false };
    this.rows = ROWS;
    this.byNode = new Map();
    this.leaving = new Map(); // by host: the words of a running plan
  }

  find(selector) {
    return this.place.querySelector(selector);
  }

  async begin() {
    const began = performance.now();
    try {
      await this.read();
      if (!this.hosts.length) {
        // Hide the empty map, which would push the instructions in place of the table out of view.
        this.find("#map").hidden = true;
        this.panel.hidden = true;
        return;
      }
      await pause(); // decoding ten thousand hosts blocks the page: handle pending events
      this.fillForm();
      this.map = new HostMap(this.find("#map > canvas"), {
        live: this.find("#live"),
        describe: (host) => this.described(host),
        tip: (host) => this.tipOf(host),
      });
      this.map.onOpen((host) => this.open(host.host));
      this.map.onSelect(() => this.showSelection());
      this.map.titleBy((hosts) => this.titleOf(hosts));
      this.apply();
      await pause();
      this.map.setHosts(this.hosts);
      this.listen();
      this.openFromAddress();
      if (history.state?.selected?.length) this.map.select(history.state.selected);
      if (!document.getElementById("as-of")) return; // the service shows a file
      this.#refresh = new Refresh((signal) => this.refresh(signal));
      this.#refresh.begin(this.response.time, performance.now() - began);
    } catch (failure) {
      this.find("#counted").textContent = `The map cannot be drawn: ${failure.message}`;
      this.panel.hidden = true;
    }
  }

  stop() {
    this.#refresh?.stop();
    this.#opening.cancel();
    this.stopped = true;
  }

  /** Read all hosts, and the plans that are carried out. */
  async read(signal) {
    const [hosts, plans] = [this.place.dataset.hosts, this.place.dataset.running].map((address) => readHosts(address, signal));
    [this.response, { running: this.running }] = await Promise.all([hosts, plans]);
    this.hosts = this.response.hosts;
    this.byNode = new Map(this.hosts.map((host) => [host.uuid, host]));
    this.leaving = new Map(this.running.flatMap((plan) => plan.hosts.map((host) => [host, `${plan.kind}: ${plan.done} of ${counted(plan.total, "move")} done`])));
  }

  /** Read the hosts again, and show the changes. */
  async refresh(signal) {
    const [previous, running] = [this.byNode, JSON.stringify(this.running)];
    await this.read(signal);
    await pause();
    const changed = this.hosts.filter((host) => JSON.stringify(host) !== JSON.stringify(previous.get(host.uuid)));
    if (changed.length || previous.size !== this.hosts.length || running !== JSON.stringify(this.running)) {
      await pause();
      this.map.setHosts(this.hosts);
      this.drawn = null;
      this.apply();
      this.map.flash(changed);
      if (changed.some((host) => host.host === this.opened)) this.renewOpened(signal);
    }
    return this.response.time;
  }

  /** Read the opened host again. Scroll position, focus and opened details of the panel remain. */
  async renewOpened(signal) {
    const name = this.opened;
    const { page } = await readPage(this.place.dataset.host + encodeURIComponent(name), signal);
    if (this.opened === name) renew(page, this.panel);
  }

  fillForm() {
    const { aggregates, traits, hosts } = this.response;
    const options = (id, names) =>
      this.find(id).replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
    options("#zones", [...new Set(hosts.map((host) => host.zone))].sort(byName));
    options("#aggregates", aggregates.map((aggregate) => aggregate.name).sort(byName));
    options("#traits", traits);
    const classes = new Set(MAIN_CLASSES);
    for (const host of hosts) for (const name of Object.keys(host.resources)) classes.add(name);
    this.classes = [...classes];
    this.choices("colour", [
      ...this.classes.map((name) => [`used:${name}`, `used ${titleOf(name)}`]),
      ["state", "state"],
      ["policy", "policy"],
      ["instances", "instances"],
    ]);
    const keys = new Set(aggregates.flatMap((aggregate) => Object.keys(aggregate.metadata)));
    keys.delete("availability_zone");
    this.choices("group", [
      ["zone", "zone"],
      ["aggregate", "zone, then aggregates"],
      ["name", "zone, then beginning of the name"],
      ...[...keys].sort(byName).map((key) => [`key:${key}`, `zone, then ${key} of aggregates`]),
    ]);
  }

  choices(name, pairs) {
    const select = this.form.elements[name];
    const { chosen } = select.dataset;
    select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value, false, value === chosen)));
  }

  value(name) {
    return this.form.elements[name].value.trim();
  }

  /** Return the resource class of the colour, or that of memory. */
  get part() {
    const colour = this.value("colour");
    return colour.startsWith("used:") ? colour.slice("used:".length) : MAIN_CLASSES[0];
  }

  described(host) {
    const amounts = host.resources[this.part];
    const used = amounts ? `, ${usedOf(this.part, amounts)} ${titleOf(this.part)} used` : "";
    const why = host.disabled_reason ? ` (${host.disabled_reason})` : "";
    const leaving = this.leaving.has(host.host) ? `, ${this.leaving.get(host.host)}` : "";
    return `${host.host}: ${host.state}${why}${leaving}, zone ${host.zone}${used}, ${counted(host.instances, "instance")}, policy ${host.policy}`;
  }

  tipOf(host) {
    const why = host.disabled_reason ? `: ${host.disabled_reason}` : "";
    const classes = [...new Set([this.part, ...MAIN_CLASSES])].filter((name) => host.resources[name]);
    return [
      host.host,
      `${host.state}${why}, zone ${host.zone}`,
      ...classes.map((name) => `${titleOf(name)} ${percent(shareOf(host.resources[name]))}, ${usedOf(name, host.resources[name])}`),
      `${counted(host.instances, "instance")}, policy ${host.policy}`,
      ...[this.leaving.get(host.host)].filter(Boolean),
      ...[this.aggregatesOf(host).map((aggregate) => aggregate.name).join(", ")].filter(Boolean),
    ];
  }

  aggregatesOf(host) {
    return host.aggregates.map((at) => this.response.aggregates[at]).filter((aggregate) => !isOnlyZone(aggregate));
  }

  /** Return how full a group is, for its title. */
  titleOf(hosts) {
    const total = totalOf(hosts, this.part);
    const used = total.capacity ? [`${percent(shareOf(total))} ${titleOf(this.part)} used`] : [];
    return [...used, counted(hosts.length, "host")];
  }

  listen() {
    const { place, form } = this;
    form.addEventListener("submit", (event) => event.preventDefault());
    let waiting = 0;
    form.addEventListener("input", () => {
      this.rows = ROWS;
      this.apply();
      clearTimeout(waiting);
      waiting = setTimeout(() => this.writeAddress(), 400);
    });
    place.addEventListener("click", (event) => this.click(event));
    place.addEventListener("change", (event) => {
      if (event.target.name !== "drain") return;
      const names = new Set(this.selectedNames());
      names[event.target.checked ? "add" : "delete"](event.target.value);
      this.map.select(names);
    });
    place.addEventListener("input", (event) => event.target.closest("#chosen") && this.linkSelection());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.swatches?.());
  }

  click(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const target = event.target.closest("button, .host-table th a");
    if (!target) return;
    const { zoom, set, select, sort } = target.dataset;
    if (zoom) zoom === "fit" ? this.map.fit() : this.map.zoom(Number(zoom));
    else if (set !== undefined) this.set(set, target.value);
    else if (select === "all") this.map.select(this.seen.map((host) => host.node));
    else if (select === "none") this.map.select([]);
    else if (select === "mode") target.setAttribute("aria-pressed", String((this.map.selecting = !this.map.selecting)));
    else if (sort) this.sortBy(sort);
    else if (target.id === "more-fields") target.setAttribute("aria-expanded", String(target.getAttribute("aria-expanded") === "false"));
    else if (target.id === "more-rows") this.showTable((this.rows += ROWS));
    else if (target.dataset.close !== undefined) this.close();
    else if (target.dataset.host !== undefined || target.matches("a")) {
      event.preventDefault();
      const name = target.dataset.host ?? target.textContent;
      this.map.focus(name);
      this.open(name);
    }
  }

  /** Set a field of the form, or clear it if it has this value. */
  set(name, value) {
    const field = this.form.elements[name];
    field.value = field.value === value ? "" : value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** Apply the form to the map, the legend, the panel and the table. */
  apply() {
    const filters = JSON.stringify(FILTERS.map((name) => this.value(name)));
    const [group, colour] = [this.value("group"), this.value("colour")];
    const previous = this.drawn;
    this.drawn = { filters, group, colour };
    if (colour !== previous?.colour) this.kinds = this.kindsOf(colour);
    if (filters !== previous?.filters || colour !== previous?.colour) {
      this.map.show(this.filter());
      this.map.colourBy((host) => {
        const kind = this.kinds.of(host);
        const mark = this.leaving.has(host.host) ? LEAVING.mark : (MARKS[host.state] ?? kind.mark ?? "");
        return { colour: kind.colour, mark };
      });
      this.showLegend();
      this.count();
      this.showTable();
      if (!this.opened && !this.map.selected().length) this.showTotals();
    }
    if (group !== previous?.group) this.map.groupBy(this.grouping(group));
  }

  /** Write the form to the address. */
  writeAddress() {
    const query = new URLSearchParams([...new FormData(this.form)].filter(([, value]) => value));
    if (this.opened) query.set("open", this.opened);
    history.replaceState(history.state, "", `${this.form.getAttribute("action")}?${query}`);
  }

  /** Show the host of the address after Back and Forward. */
  returned() {
    const query = new URLSearchParams(location.search);
    for (const field of this.form.elements) if (field.name) field.value = query.get(field.name) ?? field.dataset.default ?? "";
    this.apply();
    this.openFromAddress();
  }

  openFromAddress() {
    const name = new URLSearchParams(location.search).get("open");
    if (name) this.open(name, { push: false });
    else if (this.opened) this.close({ push: false });
  }

  filter() {
    const { aggregates, traits } = this.response;
    const [search, zone, aggregate, state, trait, only] = FILTERS.map((name) => this.value(name));
    const of = aggregates.findIndex(({ name, uuid }) => name === aggregate || uuid === aggregate);
    const withTrait = new Set([...traits.keys()].filter((at) => traits[at] === trait));
    // Part of a name, unless it is a trait's whole name.
    if (!withTrait.size) traits.forEach((name, at) => name.includes(trait.toUpperCase()) && withTrait.add(at));
    const text = search.toLowerCase();
    const tests = [
      text && ((host) => host.host.toLowerCase().includes(text) || host.node.toLowerCase().includes(text)),
      zone && ((host) => host.zone.split(",").includes(zone)),
      aggregate && ((host) => host.aggregates.includes(of)),
      state && ((host) => host.state === state),
      trait && ((host) => host.traits.some((at) => withTrait.has(at))),
    ].filter(Boolean);
    // The legend counts the hosts that match the fields. An entry shows a part of them.
    this.matching = tests.length ? this.hosts.filter((host) => tests.every((test) => test(host))) : this.hosts;
    if (only) tests.push((host) => (only === LEAVING.key ? this.leaving.has(host.host) : this.kinds.of(host).key === only));
    this.seen = only ? this.matching.filter(tests.at(-1)) : this.matching;
    return tests.length ? (host) => tests.every((test) => test(host)) : null;
  }

  count() {
    const [shown, all] = [this.seen.length, this.hosts.length].map((count) => number.format(count));
    this.find("#counted").textContent = shown === all ? counted(this.hosts.length, "host") : `${shown} of ${all} hosts match`;
    this.find("[data-select=all]").textContent = `Select all ${shown}`;
  }

  grouping(key) {
    const { aggregates } = this.response;
    if (key === "zone") return (host) => [host.zone];
    if (key === "name") return (host) => [host.zone, beginning(host.host)];
    if (key === "aggregate") return (host) => [host.zone, this.aggregatesOf(host).map((aggregate) => aggregate.name).sort(byName).join(" + ") || "no aggregate"];
    const values = aggregates.map(({ metadata }) => metadata[key.slice("key:".length)]);
    return (host) => [host.zone, [...new Set(host.aggregates.map((at) => values[at]).filter((value) => value !== undefined))].join(" + ") || "none"];
  }

  kindsOf(colour) {
    return colour.startsWith("used:") ? shares(colour.slice("used:".length)) : { state, policy: policies, instances }[colour](this.hosts);
  }

  /** Show the legend with counts of hosts. An entry is a button that shows only its hosts. */
  showLegend() {
    const counts = new Map(this.kinds.legend.map((kind) => [kind.key, 0]));
    for (const host of this.matching) counts.set(this.kinds.of(host).key, counts.get(this.kinds.of(host).key) + 1);
    const entries = this.kinds.legend
      .filter((kind) => counts.get(kind.key) || !kind.optional)
      .map((kind) => ({ ...kind, field: "only", value: kind.key, count: counts.get(kind.key) }));
    // The entries with a mark count hosts that an entry with a colour counts, too.
    const marked = this.value("colour") === "state" ? [] : Object.entries(MARKS).map(([name, mark]) => {
      const count = this.matching.filter((host) => host.state === name).length;
      return { colour: "--back", mark, words: name, count, field: "state", value: name };
    });
    const leaving = this.matching.filter((host) => this.leaving.has(host.host)).length;
    marked.push({ colour: "--back", mark: LEAVING.mark, words: "instances are moved away", count: leaving, field: "only", value: LEAVING.key });
    const withMark = marked.filter(({ count }) => count);
    const focused = this.focusedFilter();
    const items = [...entries, ...withMark].map((entry) => {
      const item = document.createElement("li");
      const button = this.filterButton(entry.field, entry.value, "");
      const key = document.createElement("canvas");
      key.setAttribute("aria-hidden", "true");
      button.append(key, element("span", `${entry.words}: ${number.format(entry.count)}`));
      item.append(button);
      return [item, key, entry];
    });
    this.find("#legend").replaceChildren(...items.map(([item]) => item));
    if (withMark.length) items[entries.length][0].before(Object.assign(element("li", "Of these:"), { className: "quiet" }));
    this.find("#legend").querySelector(focused)?.focus();
    this.swatches = () => items.forEach(([, key, entry]) => swatch(key, entry));
    this.swatches();
  }

  /** Return the selector of the focused button of the legend, which is replaced. */
  focusedFilter() {
    const button = document.activeElement?.closest("#legend button");
    return button ? `[data-set="${button.dataset.set}"][value="${CSS.escape(button.value)}"]` : "none";
  }

  filterButton(field, value, text) {
    const button = Object.assign(element("button", text), { type: "button", value });
    button.dataset.set = field;
    button.setAttribute("aria-pressed", String(this.value(field) === value));
    return button;
  }

  // The panel.

  /** Fill the panel: a title, buttons next to it, and a body. */
  fillPanel(title, tools, ...body) {
    const bar = element("div", "");
    bar.className = "panel-bar";
    bar.append(Object.assign(element("h2", title), { id: "panel-title", tabIndex: -1 }), ...tools);
    this.panel.replaceChildren(bar, ...body);
    this.panel.hidden = false;
  }

  showTotals() {
    const tools = this.seen === this.hosts ? [] : [Object.assign(element("a", "All hosts"), { href: this.form.getAttribute("action") })];
    this.fillPanel(this.seen === this.hosts ? "All hosts" : "Hosts that match", tools, this.totals(this.seen), ...this.lists(this.seen));
  }

  /** Return a table of the capacities and used amounts of hosts. */
  totals(hosts) {
    const table = element("table", "");
    table.className = "totals";
    for (const name of this.classes) {
      const total = totalOf(hosts, name);
      if (!total.capacity) continue;
      const row = table.insertRow();
      row.append(Object.assign(element("th", titleOf(name)), { scope: "row" }));
      row.insertCell().append(bar(shareOf(total)));
      row.append(cell(percent(shareOf(total)), "count"), cell(usedOf(name, total), "count quiet"));
    }
    const instances = hosts.reduce((sum, host) => sum + host.instances, 0);
    const states = ["up", "down", "disabled"].map((name) => [hosts.filter((host) => host.state === name).length, name]);
    const words = states.filter(([count]) => count).map(([count, name]) => `${number.format(count)} ${name}`);
    const place = document.createElement("div");
    place.append(element("p", `${words.join(", ")}, ${counted(instances, "instance")}`), table);
    return place;
  }

  /** Return lists of zones, aggregates and the fullest hosts, which filter or open. */
  lists(hosts) {
    const part = this.part;
    const groups = (names) => {
      const membersByName = new Map();
      for (const host of hosts) for (const name of names(host)) membersByName.get(name)?.push(host) ?? membersByName.set(name, [host]);
      return [...membersByName].map(([name, members]) => ({ name, members, share: shareOf(totalOf(members, part)) }));
    };
    const line = (button, count, share) => {
      const item = document.createElement("li");
      item.append(button, element("span", count), bar(share), element("span", percent(share)));
      return item;
    };
    const list = (title, entries, more) => {
      if (!entries.length) return [];
      const items = document.createElement("ul");
      items.className = "lines";
      items.append(...entries.slice(0, MAX_LISTED));
      if (entries.length > MAX_LISTED && more) items.append(element("li", `${number.format(entries.length - MAX_LISTED)} more: ${more}`));
      return [element("h3", title), items];
    };
    const zones = groups((host) => [host.zone]).sort((a, b) => byName(a.name, b.name));
    const aggregates = groups((host) => this.aggregatesOf(host).map((aggregate) => aggregate.name)).sort((a, b) => b.share - a.share || byName(a.name, b.name));
    const withPart = hosts.filter((host) => host.resources[part]?.capacity > 0);
    const fullest = withPart.map((host) => ({ host, share: shareOf(host.resources[part]) })).sort((a, b) => b.share - a.share).slice(0, 5);
    const opener = (host) => {
      const button = Object.assign(element("button", host.host), { type: "button" });
      button.dataset.host = host.host;
      return button;
    };
    const filterLines = (field, entries) => entries.map(({ name, members, share }) => line(this.filterButton(field, name, name), counted(members.length, "host"), share));
    return [
      ...list(`Zones, used ${titleOf(part)}`, filterLines("zone", zones), "enter a zone above"),
      ...list("Aggregates, fullest first", filterLines("aggregate", aggregates), "enter an aggregate above"),
      ...list("Fullest hosts", fullest.map(({ host, share }) => line(opener(host), host.zone, share))),
    ];
  }

  /** Return the names of the selected hosts, in order if they are few. */
  selectedNames() {
    const names = [...new Set(this.map.selected().map((host) => host.host))];
    return names.length > MAX_LINKED ? names : names.sort(byName);
  }

  showSelection() {
    const hosts = this.map.selected();
    const names = this.selectedNames();
    const chosen = new Set(names);
    for (const box of this.place.querySelectorAll("input[name=drain]")) box.checked = chosen.has(box.value);
    history.replaceState({ ...history.state, selected: names }, "");
    if (!names.length) return this.opened || this.showTotals();
    this.forgetOpened();
    const template = this.find("#chosen-template").content.cloneNode(true);
    template.querySelector("p").textContent = `${names.slice(0, 5).join(", ")}${names.length > 5 ? " …" : ""}`;
    const clear = Object.assign(element("button", "Select none"), { type: "button" });
    clear.dataset.select = "none";
    this.fillPanel(`${counted(names.length, "host")} selected`, [clear], template, this.totals(hosts));
    this.linkSelection();
  }

  /** Write the selection to the links of its panel. */
  linkSelection() {
    if (!this.place.dataset.capacity) return;
    const chosen = this.find("#chosen");
    const names = this.selectedNames();
    const group = names.length > MAX_NAMED ? this.groupOf(names) : null;
    const areTooMany = !group && names.length > MAX_LINKED;
    chosen.querySelector(".warning").hidden = !areTooMany;
    for (const row of chosen.querySelectorAll(".row")) row.hidden = areTooMany;
    const more = Math.max(1, Math.floor(Number(chosen.querySelector("input").value)) || 1);
    for (const link of chosen.querySelectorAll("a")) link.href = this.whatIf(link.dataset.whatIf, group ? [group] : names, more);
  }

  /** Return the address of the capacity if these hosts or groups are drained or duplicated. */
  whatIf(change, names, more) {
    const pairs = names.slice(0, MAX_LINKED).map((name) => [change, change === "add" ? `${name}:${more}` : name]);
    return `${this.place.dataset.capacity}?${new URLSearchParams(pairs)}`;
  }

  /** Return the words of the capacity page for exactly these hosts ("zone:az1&search:r07"), or null. */
  groupOf(names) {
    const chosen = new Set(names);
    const isChosen = (hosts) => new Set(hosts.map((host) => host.host)).size === chosen.size && hosts.every((host) => chosen.has(host.host));
    const word = (kind, name) => `${kind}:${encodeURIComponent(name)}`;
    const fields = FILTERS.slice(0, -1).filter((name) => this.value(name));
    const isExact = !this.value("trait") || this.response.traits.includes(this.value("trait"));
    if (fields.length && isExact && isChosen(this.matching)) return fields.map((name) => word(name, this.value(name))).join("&");
    const [first] = this.map.selected();
    if (isChosen(this.hosts.filter((host) => host.zone === first.zone))) return word("zone", first.zone);
    const at = first.aggregates.find((place) => isChosen(this.hosts.filter((host) => host.aggregates.includes(place))));
    return at === undefined ? null : word("aggregate", this.response.aggregates[at].name);
  }

  /** Show a host in the panel with the HTML of its page. */
  async open(name, { push = true } = {}) {
    const address = this.place.dataset.host + encodeURIComponent(name);
    this.map.mark(name);
    this.opened = name;
    const part = await this.#opening.part(address, "#host");
    if (!part) return;
    const own = Object.assign(element("a", "Own page"), { href: address });
    const close = Object.assign(element("button", "Close"), { type: "button" });
    close.dataset.close = "";
    this.fillPanel(name, [own, close], part);
    this.panel.onkeydown = (event) => event.key === "Escape" && this.close();
    this.find("#panel-title").focus();
    const query = new URLSearchParams(location.search);
    if (push && query.get("open") !== name) {
      query.set("open", name);
      history.pushState({}, "", `${location.pathname}?${query}`);
    }
  }

  forgetOpened() {
    this.#opening.cancel();
    this.opened = null;
    this.map.mark(null);
    this.panel.onkeydown = null;
  }

  close({ push = true } = {}) {
    this.forgetOpened();
    if (push) this.writeAddress();
    this.showSelection();
    this.find("#map > canvas").focus({ preventScroll: true });
  }

  // The table.

  sortBy(column) {
    const isSame = this.sort.column === column;
    this.sort = { column, descends: isSame ? !this.sort.descends : !["host", "zone", "state", "policy"].includes(column) };
    this.showTable();
    this.find(`[data-sort="${CSS.escape(column)}"]`)?.focus();
  }

  /** Show the first hosts that match, in the order of the chosen column. */
  showTable() {
    const table = this.find(".host-table");
    if (!table) return;
    const classes = [...new Set([...MAIN_CLASSES, this.part])];
    const { column, descends } = this.sort;
    const valueOf = ["host", "zone", "state", "policy", "instances"].includes(column)
      ? (host) => host[column]
      : (host) => (host.resources[column]?.capacity > 0 ? shareOf(host.resources[column]) : -1);
    const compare = typeof valueOf(this.hosts[0]) === "number" ? (a, b) => a - b : byName;
    const sign = descends ? -1 : 1;
    const values = this.seen.map((host) => [valueOf(host), host]);
    if (column !== "host" || descends) values.sort(([a], [b]) => sign * compare(a, b));
    const names = new Set(this.selectedNames());
    const titles = [["host", "Host"], ["zone", "Zone"], ["state", "State"], ["policy", "Policy"], ["instances", "Instances"], ...classes.map((name) => [name, `Used ${titleOf(name)}`])];
    const head = document.createElement("tr");
    const select = Object.assign(element("th", ""), { scope: "col" });
    select.append(Object.assign(element("span", "Select"), { className: "unseen" }));
    head.append(select, ...titles.map(([key, title]) => this.titleCell(key, title)));
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren(...values.slice(0, this.rows).map(([, host]) => this.tableRow(host, classes, names)));
    const more = this.find("#more-rows");
    const remaining = this.seen.length - Math.min(this.rows, this.seen.length);
    more.hidden = !remaining;
    more.textContent = `${number.format(Math.min(ROWS, remaining))} more of ${number.format(remaining)}`;
    this.find("#no-rows").hidden = this.seen.length > 0;
    this.find("#hosts form").hidden = !this.seen.length;
  }

  titleCell(key, title) {
    const head = Object.assign(element("th", ""), { scope: "col" });
    const button = Object.assign(element("button", title), { type: "button", className: "sort" });
    button.dataset.sort = key;
    head.append(button);
    if (this.sort.column === key) head.setAttribute("aria-sort", this.sort.descends ? "descending" : "ascending");
    return head;
  }

  tableRow(host, classes, names) {
    const row = document.createElement("tr");
    const box = Object.assign(document.createElement("input"), { type: "checkbox", name: "drain", value: host.host, checked: names.has(host.host) });
    box.setAttribute("aria-label", `Select ${host.host}`);
    const title = Object.assign(document.createElement("th"), { scope: "row" });
    title.append(Object.assign(element("a", host.host), { href: this.place.dataset.host + encodeURIComponent(host.host) }));
    if (host.node !== host.host && !host.node.startsWith(`${host.host}.`)) title.append(Object.assign(element("div", host.node), { className: "quiet" }));
    const state = cell(`${{ up: "✓", down: "✗", disabled: "■" }[host.state]} ${host.state}${host.disabled_reason ? `: ${host.disabled_reason}` : ""}`, { up: "good", down: "bad", disabled: "warning" }[host.state]);
    const amounts = classes.map((name) => {
      const of = host.resources[name];
      const place = cell(of ? usedOf(name, of) : "none", of ? "amount" : "quiet");
      if (of) place.append(bar(shareOf(of)));
      return [titleOf(name), place];
    });
    row.insertCell().append(box);
    row.append(title);
    for (const [label, place] of [["Zone", cell(host.zone)], ["State", state], ["Policy", cell(host.policy)], ["Instances", cell(number.format(host.instances), "count")], ...amounts]) {
      place.dataset.label = label;
      row.append(place);
    }
    return row;
  }
}

function element(name, text) {
  return Object.assign(document.createElement(name), { textContent: text });
}

function cell(text, className = "") {
  return Object.assign(element("td", text), { className });
}

/** Return a bar of a used share, in the colour that the map has for it. */
function bar(share) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  svg.setAttribute("viewBox", "0 0 100 8");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", `bar-of${share >= FULL ? " full" : share >= NEARLY_FULL ? " nearly" : ""}`);
  rect.setAttribute("class", "used");
  rect.setAttribute("width", String(Math.min(share, 1) * 100));
  rect.setAttribute("height", "8");
  svg.append(rect);
  return svg;
}

function counted(count, noun) {
  return count === 1 ? `1 ${noun}` : `${number.format(count)} ${noun}s`;
}

function shareOf({ used, capacity }) {
  return capacity > 0 ? used / capacity : Number(used > 0);
}

/** Return a share in percent, never rounded up to 100 or down to 0. */
function percent(share) {
  if (share > 0 && share < 0.005) return "<1\u00a0%";
  return `${share < 1 ? Math.min(99, Math.round(share * 100)) : Math.round(share * 100)}\u00a0%`;
}

function totalOf(hosts, name) {
  const total = { used: 0, capacity: 0 };
  for (const host of hosts) {
    const amounts = host.resources[name];
    if (!amounts) continue;
    total.used += amounts.used;
    total.capacity += amounts.capacity;
  }
  return total;
}

function titleOf(name) {
  return { MEMORY_MB: "memory", DISK_GB: "disk" }[name] ?? name;
}

/** Return the used amount of a resource, such as "104 of 248 GiB". */
function usedOf(name, { used, capacity }) {
  const units = { MEMORY_MB: ["MiB", "GiB", "TiB", "PiB"], DISK_GB: ["GiB", "TiB", "PiB"] }[name];
  if (!units) return `${number.format(used)} of ${number.format(capacity)}`;
  let step = 0;
  while (step < units.length - 1 && capacity >= 10 * 1024 ** (step + 1)) step += 1;
  const scaled = (value) => number.format(Number((value / 1024 ** step).toPrecision(4)));
  return `${scaled(used)} of ${scaled(capacity)} ${units[step]}`;
}

function isOnlyZone({ metadata }) {
  const keys = Object.keys(metadata);
  return keys.length === 1 && keys[0] === "availability_zone";
}

/** Return the name of a host without its last part (az1-r01-hdd07) or number (cn012). */
function beginning(name) {
  const [short] = name.split(".");
  return short.replace(/[-_][A-Za-z]*\d+$|\d+$/, "") || short;
}

function shares(name) {
  const legend = RAMP.map(([least, colour, words]) => ({ key: `${least * 100}`, least, colour, words }));
  const of = (host) => {
    const amounts = host.resources[name];
    if (!amounts || amounts.capacity <= 0) return NOTHING;
    const share = shareOf(amounts);
    return legend.find((kind) => share >= kind.least) ?? legend.at(-1);
  };
  return { of, legend: [...legend.toReversed(), NOTHING] };
}

function state() {
  const kinds = {
    up: { key: "up", colour: "--up", words: "up" },
    down: { key: "down", colour: "--down", mark: MARKS.down, words: "down" },
    disabled: { key: "disabled", colour: "--off", mark: MARKS.disabled, words: "disabled" },
  };
  return { of: (host) => kinds[host.state], legend: Object.values(kinds) };
}

function policies(hosts) {
  const names = [...new Set(hosts.map((host) => host.policy))].filter((name) => name !== "default").sort(byName);
  const kinds = new Map([["default", { key: "default", colour: "--part7", words: "default" }]]);
  names.forEach((name, at) => {
    const letter = String.fromCharCode(65 + (at % 26));
    kinds.set(name, { key: name, colour: `--part${at % POLICY_COLOURS}`, mark: at < 26 ? letter : `${letter}${Math.floor(at / 26)}`, words: name });
  });
  for (const kind of kinds.values()) if (kind.mark) kind.words = `${kind.mark}  ${kind.words}`;
  return { of: (host) => kinds.get(host.policy), legend: [...kinds.values()] };
}

function instances(hosts) {
  const maximum = hosts.reduce((instances, host) => Math.max(instances, host.instances), 0);
  const step = Math.max(1, Math.ceil(maximum / 4));
  const range = (at) => (step === 1 ? `${at + 1}` : `${at * step + 1} to ${(at + 1) * step}`);
  const legend = [{ key: "0", colour: "--full0", words: "no instances" }];
  for (let at = 0; at * step < maximum; at += 1) legend.push({ key: `${at + 1}`, colour: `--full${at + 1}`, words: `${range(at)} instances` });
  return { of: (host) => legend[Math.ceil(host.instances / step)], legend };
}

document.addEventListener("shown", start);
document.addEventListener("returned", (event) => {
  // Back from an opened host: the map, its zoom and the scroll position remain.
  if (!page || page.stopped || location.pathname !== page.path) return;
  event.preventDefault();
  page.returned();
});
start();
