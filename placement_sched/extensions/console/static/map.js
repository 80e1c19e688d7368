// SPDX-License-Identifier: Apache-2.0
// Map of hosts on a canvas: a cell for each host, in groups.
//
//   import { HostMap } from "./map.js";
//   const map = new HostMap(canvas, { hosts, live });
//   map.groupBy((host) => [host.zone, host.rack]);       // a group, or a group and a subgroup
//   map.colourBy((host) => ({ colour: "--part0", mark: "hatch" }));
//   map.onOpen((host) => ...);                            // click, or Enter on the focused cell
//
// hosts   the list of GET /scheduler/v1/hosts, in the order of the cells. Only host, node, zone and
//         state are read here, other fields by the functions that are passed.
// live    an element with aria-live for the description of the focused host (optional)
// describe(host)  the description, by default name, zone and state
// tip(host)       the lines of the tooltip at the cell, by default the description
//
// setHosts(hosts)     show other hosts. Focus and selection remain if the hosts still exist
// groupBy(fn)         fn(host) returns the name of its group and, if any, of its subgroup
// titleBy(fn)         fn(hosts) returns the texts after the name in the title of a group
// colourBy(fn)        fn(host) returns {colour, mark}. A colour is any of CSS, or the name of a
//                     variable ("--good"). A mark is "", "hatch", "cross", "arrow" or up to two
//                     letters. It conveys the meaning of the colour to people who cannot see colours
// show(fn)            hosts are drawn faint if fn(host) is false. null shows all hosts
// light(fn)           the same for a short time, in addition to show()
// dim(rejected)       a Map from the name of a host or node to {stage, colour, mark}: these hosts are
//                     drawn dimmed in the colour of the stage, with its mark. null removes that
// onOpen(fn)          fn(host, event) when a cell is clicked, or Enter is pressed on it
// onPoint(fn)         fn(host or null) when the pointer or the focus moves to another cell
// onSelect(fn)        fn(hosts) when the selection changes (shift-drag, shift-click, space)
// select(names)       select exactly the hosts with these names. selected() returns the hosts
// selecting           if true, clicks, taps and drags select hosts, as with Shift
// mark(name)          draw a ring around a host until another is marked. null removes it
// flash(hosts)        draw rings around changed hosts for a moment
// focus(name)         move the focus of the map to a host, and bring it into view
// zoom(factor), fit() zoom, or show everything
// redraw()            after variables of CSS have changed (the map itself notices dark and light)
//
// Keys: arrows move between cells, Page Up and Page Down between groups, Home and End to the first
// and last cell. With Shift they select. Enter opens, space selects, Escape clears the selection,
// + and - zoom, 0 shows everything. The wheel scrolls the page, and zooms with Ctrl, as two fingers
// do. A click on a title selects its hosts with Shift or if selecting. Titles remain visible while
// zoomed. All drawing is done in an animation frame, from a cached picture of the visible area and
// its surroundings, so that panning only copies.

const CELL = 10;
const STEP = 12;
const PAD = 5;
const INNER_TITLE = 10;
const OUTER_TITLE = 17;
const WIDE = [1.6, 4, 9, 20, 45]; // aspect ratios of groups to try, for larger cells
const READABLE = 17; // pixels, for a title
const LARGEST_FIT = 5;
const LARGEST = 14;
const STROKES = new Set(["hatch", "cross", "arrow"]); // marks that are lines
const FAINT = 0.13;
const DIMMED = 0.5;
const DRAG = 4; // pixels: less is a click
const FLASH = 1500; // milliseconds

/** Read GET /scheduler/v1/hosts, and the time of the response. */
export async function readHosts(address, signal) {
  const response = await fetch(address, { signal, headers: { Accept: "application/json" } }).catch((failure) => {
    if (failure.name === "AbortError") throw failure;
    throw new Error(`the service does not answer: ${failure.message}`);
  });
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.errors?.[0]?.detail ?? response.statusText), { isSignIn: response.status === 401 });
  return { ...body, time: new Date(response.headers.get("Date") ?? Date.now()) };
}

const byName = new Intl.Collator("en", { numeric: true }).compare;

export class HostMap {
  #canvas;
  #context;
  #hosts = [];
  #index = new Map();
  #grouping = (host) => [host.zone ?? ""];
  #colouring = () => ({ colour: "--part0", mark: "" });
  #isShown = null;
  #lit = null;
  #titles = null;
  #rejected = null;
  #describe;
  #live;
  #tip;
  #tipOf;
  #listeners = { open: () => {}, point: () => {}, select: () => {} };
  #xs = new Float32Array(0);
  #ys = new Float32Array(0);
  #order = [];
  #groups = [];
  #world = { width: 1, height: 1 };
  #view = { x: 0, y: 0, scale: 1 };
  #fitted = true;
  #styles = [];
  #cachedPicture = null;
  #stale = true;
  #frame = 0;
  #focused = -1;
  #hovered = -1;
  #selected = new Set();
  #pointers = new Map();
  #drag = null;
  #selecting = false;
  #marked = null;
  #flashing = [];

  constructor(canvas, { hosts = [], live = null, describe = null, tip = null } = {}) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d");
    this.#live = live;
    this.#describe = describe ?? ((host) => `${host.host}, zone ${host.zone}, ${host.state}`);
    this.#tipOf = tip ?? ((host) => [this.#describe(host)]);
    this.#tip = document.createElement("div");
    this.#tip.className = "tip";
    this.#tip.hidden = true;
    this.#tip.setAttribute("aria-hidden", "true"); // the live region has the same text
    canvas.after(this.#tip);
    canvas.tabIndex = 0;
    // With this role, screen readers pass the arrow keys on.
    if (!canvas.hasAttribute("role")) canvas.setAttribute("role", "application");
    this.#listen();
    this.setHosts(hosts);
  }

  setHosts(hosts) {
    const chosen = this.selected().map((host) => host.uuid);
    const focused = this.#hosts[this.#focused]?.uuid;
    // A change of amounts needs no other layout, which would reset the zoom.
    const placeOf = (host) => `${host?.uuid} ${host && this.#grouping(host)}`;
    const isSame = hosts.length === this.#hosts.length && hosts.every((host, at) => placeOf(host) === placeOf(this.#hosts[at]));
    this.#hosts = hosts;
    this.#index = new Map();
    hosts.forEach((host, at) => {
      for (const name of [host.node, host.host]) if (name && !this.#index.has(name)) this.#index.set(name, at);
    });
    const places = new Map(hosts.map((host, at) => [host.uuid, at]));
    this.#selected = new Set(chosen.filter((uuid) => places.has(uuid)).map((uuid) => places.get(uuid)));
    this.#focused = places.get(focused) ?? -1;
    this.#hovered = -1;
    if (isSame && this.#groups.length) this.redraw();
    else this.#layOut();
  }

  groupBy(grouping) {
    this.#grouping = grouping;
    this.#layOut();
  }

  colourBy(colouring) {
    this.#colouring = colouring;
    this.redraw();
  }

  titleBy(titles) {
    this.#titles = titles;
    this.redraw();
  }

  light(lit) {
    if (lit === this.#lit) return;
    this.#lit = lit;
    this.redraw();
  }

  mark(name) {
    this.#marked = name;
    this.#requestFrame();
  }

  flash(hosts) {
    this.#flashing = hosts.map((host) => host.node);
    this.#requestFrame();
    setTimeout(() => {
      this.#flashing = [];
      this.#requestFrame();
    }, FLASH);
  }

  get selecting() {
    return this.#selecting;
  }

  set selecting(selecting) {
    this.#selecting = selecting;
    this.#setTouch();
  }

  show(isShown) {
    this.#isShown = isShown;
    this.redraw();
  }

  dim(rejected) {
    this.#rejected = rejected;
    this.redraw();
  }

  onOpen(listener) {
    this.#listeners.open = listener;
  }

  onPoint(listener) {
    this.#listeners.point = listener;
  }

  onSelect(listener) {
    this.#listeners.select = listener;
  }

  selected() {
    return [...this.#selected].map((at) => this.#hosts[at]);
  }

  select(names) {
    this.#selected = new Set([...names].map((name) => this.#index.get(name)).filter((at) => at !== undefined));
    this.#selectionChanged();
  }

  focus(name) {
    const at = this.#index.get(name);
    if (at !== undefined) this.#focusOn(at);
    this.#tip.hidden = true;
  }

  zoom(factor) {
    const box = this.#canvas.getBoundingClientRect();
    this.#zoomAt(factor, box.width / 2, box.height / 2);
  }

  fit() {
    const { clientWidth, clientHeight } = this.#canvas;
    const { width, height } = this.#world;
    this.#view = { scale: Math.min(clientWidth / width, clientHeight / height, LARGEST_FIT), x: 0, y: 0 };
    this.#fitted = true;
    this.#setTouch();
    this.redraw();
  }

  /** Let a finger scroll the page, except for selecting. Two fingers move and zoom the map. */
  #setTouch() {
    this.#canvas.style.touchAction = this.#selecting ? "none" : "pan-y";
  }

  redraw() {
    this.#styles = [];
    for (const block of this.#groups) delete block.texts;
    this.#stale = true;
    this.#requestFrame();
  }

  // Layout: groups in a column, their subgroups side by side.

  #layOut() {
    const outer = new Map();
    this.#hosts.forEach((host, at) => {
      const [name, within = ""] = this.#grouping(host);
      if (!outer.has(name)) outer.set(name, new Map());
      const inner = outer.get(name);
      if (!inner.has(within)) inner.set(within, []);
      inner.get(within).push(at);
    });
    const sections = [...outer].sort(([a], [b]) => byName(a, b)).map(([name, inner]) => ({
      name,
      parts: [...inner].sort(([a], [b]) => byName(a, b)).map(([within, cells]) => ({ name: within, cells })),
    }));
    this.#canvas.style.height = ""; // the largest height, by the stylesheet
    const { clientWidth, clientHeight } = this.#canvas;
    const aspect = Math.max(0.2, clientWidth / Math.max(1, clientHeight));
    const scaleOf = ({ width, height }) => Math.min(clientWidth / width, clientHeight / height);
    let layout = arranged(sections, aspect, WIDE[0], OUTER_TITLE);
    let shape = WIDE[0];
    for (const wide of WIDE.slice(1)) {
      const wider = arranged(sections, aspect, wide, OUTER_TITLE);
      if (scaleOf(wider) < 1.1 * scaleOf(layout)) break;
      [layout, shape] = [wider, wide];
    }
    // Names of zones must be readable when everything is visible, for any number of hosts.
    const scale = scaleOf(layout);
    if (OUTER_TITLE * scale < READABLE) layout = arranged(sections, aspect, shape, READABLE / Math.max(scale, 0.05));
    const { blocks, width, height } = layout;
    this.#world = { width, height };
    this.#xs = new Float32Array(this.#hosts.length);
    this.#ys = new Float32Array(this.#hosts.length);
    this.#order = [];
    this.#groups = blocks.map((block) => {
      const first = this.#order.length;
      block.cells?.forEach((at, place) => {
        this.#xs[at] = block.x + PAD + (place % block.columns) * STEP;
        this.#ys[at] = block.y + block.title + PAD + Math.floor(place / block.columns) * STEP;
        this.#order.push(at);
      });
      return { ...block, first, last: this.#order.length };
    });
    // The cells of a zone follow its block.
    let zone = null;
    for (const block of this.#groups) {
      if (block.outer) zone = Object.assign(block, { cells: [] });
      else for (const at of block.cells) zone.cells.push(at);
    }
    const largest = Math.min(clientWidth / width, clientHeight / height, LARGEST_FIT);
    if (clientHeight && this.#hosts.length) this.#canvas.style.height = `${Math.ceil(Math.min(clientHeight, height * largest))}px`;
    this.fit();
  }

  // Drawing.

  #requestFrame() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #styled() {
    const resolve = colours(this.#canvas);
    const styles = new Map();
    this.#hosts.forEach((host, at) => {
      let { colour, mark } = this.#colouring(host);
      let alpha = 1;
      const rejected = this.#rejected && (this.#rejected.get(host.host) ?? this.#rejected.get(host.node));
      if (rejected) {
        ({ colour, mark = "" } = rejected);
        alpha = DIMMED;
      }
      if ((this.#isShown && !this.#isShown(host)) || (this.#lit && !this.#lit(host))) alpha = FAINT;
      const key = `${colour}|${mark}|${alpha}`;
      let style = styles.get(key);
      if (!style) {
        const fill = resolve(colour);
        style = { fill, ink: inkOn(fill), mark: alpha === FAINT ? "" : mark, alpha, cells: [] };
        styles.set(key, style);
      }
      style.cells.push(at);
    });
    return [...styles.values()];
  }

  #draw() {
    this.#frame = 0;
    const ratio = devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.#canvas;
    if (!clientWidth || !clientHeight) return;
    const [wide, high] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)];
    if (this.#canvas.width !== wide || this.#canvas.height !== high) {
      this.#canvas.width = wide;
      this.#canvas.height = high;
      this.#stale = true;
    }
    if (!this.#styles.length) this.#styles = this.#styled();
    const picture = this.#picture(clientWidth, clientHeight, ratio);
    const context = this.#context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, wide, high);
    const [x, y] = [Math.round((this.#view.x - picture.x) * ratio), Math.round((this.#view.y - picture.y) * ratio)];
    context.drawImage(picture.canvas, x - picture.margin.x * ratio, y - picture.margin.y * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#drawMarked(context);
  }

  /** Return the picture of the visible area and its surroundings, redrawn if it is stale. */
  #picture(width, height, ratio) {
    const { x, y, scale } = this.#view;
    const picture = this.#cachedPicture;
    const margin = { x: Math.round(width / 2), y: Math.round(height / 2) };
    if (
      !this.#stale && picture.scale === scale &&
      Math.abs(x - picture.x) <= margin.x && Math.abs(y - picture.y) <= margin.y
    ) {
      return picture;
    }
    const canvas = picture?.canvas ?? document.createElement("canvas");
    canvas.width = (width + 2 * margin.x) * ratio;
    canvas.height = (height + 2 * margin.y) * ratio;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, margin.x * ratio, margin.y * ratio);
    const visible = { left: -margin.x, top: -margin.y, right: width + margin.x, bottom: height + margin.y };
    this.#drawGroups(context, visible);
    this.#drawCells(context, visible);
    this.#stale = false;
    this.#cachedPicture = { canvas, x, y, scale, margin };
    return this.#cachedPicture;
  }

  #drawGroups(context, visible) {
    const resolve = colours(this.#canvas);
    const line = resolve("--line");
    const { x, y, scale } = this.#view;
    for (const block of this.#groups) {
      const [left, top, width, height] = [block.x * scale + x, block.y * scale + y, block.width * scale, block.height * scale];
      if (left > visible.right || top > visible.bottom || left + width < visible.left || top + height < visible.top) continue;
      if (block.outer && block.y) {
        context.fillStyle = line;
        context.fillRect(left, Math.round(top), width, 1);
      }
      this.#drawTitle(context, block, resolve, top);
    }
  }

  #drawTitle(context, block, resolve, top) {
    const { x, scale } = this.#view;
    const title = block.title * scale;
    const size = Math.min(block.outer ? 15 : 13, title * 0.8);
    if (!block.name || size < 7) return;
    const inset = PAD * scale;
    const left = Math.max(block.x * scale + x + inset, block.outer ? inset : -Infinity);
    const space = (block.x + block.width) * scale + x - inset - left;
    context.textBaseline = "middle";
    context.font = `${block.outer ? "600 " : ""}${size}px system-ui, sans-serif`;
    const name = fitted(context, block.name, space);
    const after = left + context.measureText(`${name}  `).width;
    context.fillStyle = resolve(block.outer ? "--ink" : "--quiet");
    context.fillText(name, left, top + title / 2 + 1);
    if (!this.#titles || name !== block.name) return;
    block.texts ??= this.#titles(block.cells.map((at) => this.#hosts[at]));
    context.font = `${Math.min(size, 13)}px system-ui, sans-serif`;
    context.fillStyle = resolve("--quiet");
    // The last texts are left out if there is no space.
    const parts = [...block.texts];
    while (parts.length && context.measureText(parts.join(", ")).width > left + space - after) parts.pop();
    context.fillText(parts.join(", "), after, top + title / 2 + 1);
  }

  /** Draw the title of the zone at the upper edge if its own is above it. */
  #drawHeldTitle(context, resolve) {
    const { y, scale } = this.#view;
    const { clientWidth } = this.#canvas;
    const block = this.#groups.find((group) => group.outer && group.y * scale + y < 0 && (group.y + group.height) * scale + y > 0);
    if (!block?.name) return;
    const fixed = { ...block, title: Math.min(block.title, READABLE * 1.4 / scale) };
    const top = Math.min(0, (block.y + block.height - fixed.title) * scale + y);
    context.fillStyle = resolve("--back");
    context.fillRect(0, top, clientWidth, fixed.title * scale + 2);
    this.#drawTitle(context, fixed, resolve, top);
  }

  #drawCells(context, visible) {
    const { x, y, scale } = this.#view;
    const size = CELL * scale;
    const [xs, ys] = [this.#xs, this.#ys];
    const within = (at) => {
      const [left, top] = [xs[at] * scale + x, ys[at] * scale + y];
      return left < visible.right && top < visible.bottom && left + size > visible.left && top + size > visible.top;
    };
    for (const style of this.#styles) {
      const cells = style.cells.filter(within);
      context.globalAlpha = style.alpha;
      context.fillStyle = style.fill;
      for (const at of cells) context.fillRect(xs[at] * scale + x, ys[at] * scale + y, size, size);
      context.globalAlpha = 1;
      if (style.mark && size >= 4) this.#drawMarks(context, style, cells, size);
      if (size >= 44 && style.alpha !== FAINT) this.#drawNames(context, style, cells, size);
    }
  }

  #drawMarks(context, style, cells, size) {
    const { x, y, scale } = this.#view;
    context.strokeStyle = context.fillStyle = style.alpha === 1 ? style.ink : colours(this.#canvas)("--ink");
    if (STROKES.has(style.mark)) {
      context.lineWidth = Math.max(1, size / 10);
      context.beginPath();
      for (const at of cells) addStrokes(context, style.mark, this.#xs[at] * scale + x, this.#ys[at] * scale + y, size);
      context.stroke();
    } else if (size >= 9) {
      context.font = `600 ${Math.min(size * 0.7, 16)}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      for (const at of cells) {
        context.fillText(style.mark, (this.#xs[at] + CELL / 2) * scale + x, (this.#ys[at] + CELL / (size >= 44 ? 3 : 2)) * scale + y);
      }
      context.textAlign = "start";
    }
  }

  #drawNames(context, style, cells, size) {
    const { x, y, scale } = this.#view;
    context.fillStyle = style.alpha === 1 ? style.ink : colours(this.#canvas)("--ink");
    context.font = `${Math.min(13, size / 5)}px system-ui, sans-serif`;
    context.textBaseline = "alphabetic";
    for (const at of cells) {
      const text = fitted(context, this.#hosts[at].host, size - 6);
      context.fillText(text, this.#xs[at] * scale + x + 3, this.#ys[at] * scale + y + size - 5);
    }
  }

  /** Draw the marks of selected, focused and hovered cells, which are not in the picture. */
  #drawMarked(context) {
    const resolve = colours(this.#canvas);
    const { x, y, scale } = this.#view;
    const size = CELL * scale;
    const frame = (at, colour, width) => {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(this.#xs[at] * scale + x - 1, this.#ys[at] * scale + y - 1, size + 2, size + 2);
    };
    context.beginPath();
    for (const at of this.#selected) context.rect(this.#xs[at] * scale + x - 1, this.#ys[at] * scale + y - 1, size + 2, size + 2);
    context.strokeStyle = resolve("--ink");
    context.lineWidth = 2;
    context.stroke();
    for (const node of this.#flashing) if (this.#index.has(node)) frame(this.#index.get(node), resolve("--accent"), 3);
    const marked = this.#index.get(this.#marked);
    if (marked !== undefined) {
      frame(marked, resolve("--back"), 5);
      frame(marked, resolve("--ink"), 3);
    }
    if (this.#hovered >= 0) frame(this.#hovered, resolve("--accent"), 1.5);
    if (this.#focused >= 0 && document.activeElement === this.#canvas) {
      frame(this.#focused, resolve("--back"), 5);
      frame(this.#focused, resolve("--accent"), 3);
    }
    if (!this.#fitted) this.#drawHeldTitle(context, resolve);
    if (this.#drag?.box) {
      const { x: left, y: top, width, height } = this.#drag.box;
      context.strokeStyle = resolve("--accent");
      context.lineWidth = 1.5;
      context.setLineDash([5, 4]);
      context.strokeRect(left, top, width, height);
      context.setLineDash([]);
    }
  }

  // Pointers, wheel and keys.

  #listen() {
    const canvas = this.#canvas;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", (event) => this.#up(event, true));
    canvas.addEventListener("pointerleave", () => this.#hover(-1));
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => (this.#focused < 0 ? this.#focusOn(this.#order[0] ?? -1) : this.#requestFrame()));
    canvas.addEventListener("blur", () => {
      this.#showTip(-1);
      this.#requestFrame();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    let width = 0;
    new ResizeObserver(() => {
      if (this.#fitted && canvas.clientWidth !== width) this.#layOut();
      else this.redraw();
      width = canvas.clientWidth;
    }).observe(canvas);
  }

  #at(event) {
    const box = this.#canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** Return the cell at a point, -1 for none. The cells of a group are in a grid. */
  #cellAt(point) {
    const { x, y, scale } = this.#view;
    const [wx, wy] = [(point.x - x) / scale, (point.y - y) / scale];
    for (const block of this.#groups) {
      if (block.outer || wx < block.x || wy < block.y || wx > block.x + block.width || wy > block.y + block.height) continue;
      const column = Math.floor((wx - block.x - PAD + 1) / STEP);
      const row = Math.floor((wy - block.y - block.title - PAD + 1) / STEP);
      if (column < 0 || row < 0 || column >= block.columns) return -1;
      return block.cells[row * block.columns + column] ?? -1;
    }
    return -1;
  }

  #down(event) {
    const point = this.#at(event);
    this.#canvas.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, point);
    if (this.#pointers.size === 1) {
      this.#drag = { from: point, last: point, moved: false, chooses: event.shiftKey || this.#selecting, box: null };
    } else {
      this.#drag = { pinch: this.#spread(), moved: true };
    }
  }

  #move(event) {
    const point = this.#at(event);
    if (!this.#pointers.has(event.pointerId)) {
      this.#hover(this.#cellAt(point));
      return;
    }
    this.#pointers.set(event.pointerId, point);
    const drag = this.#drag;
    if (drag.pinch) {
      const now = this.#spread();
      if (this.#pointers.size === 2) {
        this.#zoomAt(now.size / Math.max(1, drag.pinch.size), now.x, now.y);
        this.#pan(now.x - drag.pinch.x, now.y - drag.pinch.y);
      }
      drag.pinch = now;
      return;
    }
    drag.moved ||= Math.hypot(point.x - drag.from.x, point.y - drag.from.y) > DRAG;
    if (!drag.moved) return;
    if (drag.chooses) {
      const [left, top] = [Math.min(point.x, drag.from.x), Math.min(point.y, drag.from.y)];
      drag.box = { x: left, y: top, width: Math.abs(point.x - drag.from.x), height: Math.abs(point.y - drag.from.y) };
      this.#requestFrame();
    } else {
      this.#pan(point.x - drag.last.x, point.y - drag.last.y);
    }
    drag.last = point;
  }

  #up(event, cancelled = false) {
    const point = this.#at(event);
    this.#pointers.delete(event.pointerId);
    const drag = this.#drag;
    if (this.#pointers.size || !drag) return;
    this.#drag = null;
    if (cancelled) return;
    if (drag.box) {
      this.#selectWithin(drag.box);
    } else if (!drag.moved) {
      const at = this.#cellAt(point);
      const chooses = drag.chooses || event.ctrlKey || event.metaKey;
      if (at < 0) return chooses && this.#toggleGroup(point);
      this.#focused = at;
      this.#tell();
      if (chooses) this.#toggle(at);
      else this.#listeners.open(this.#hosts[at], event);
    }
    this.#requestFrame();
  }

  #spread() {
    const [a, b = a] = [...this.#pointers.values()];
    return { size: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  }

  /** Zoom with Ctrl, as the browser itself does. Otherwise the wheel scrolls the page. */
  #wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { x, y } = this.#at(event);
    this.#zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.004)), x, y);
  }

  #zoomAt(factor, x, y) {
    const { clientWidth, clientHeight } = this.#canvas;
    const whole = Math.min(clientWidth / this.#world.width, clientHeight / this.#world.height, LARGEST_FIT);
    const scale = Math.min(Math.max(this.#view.scale * factor, whole), Math.max(LARGEST, whole));
    if (scale <= whole) {
      this.fit();
      return;
    }
    const by = scale / this.#view.scale;
    this.#view = { scale, x: x - (x - this.#view.x) * by, y: y - (y - this.#view.y) * by };
    this.#fitted = false;
    this.#pan(0, 0);
  }

  #pan(x, y) {
    const { clientWidth, clientHeight } = this.#canvas;
    const { scale } = this.#view;
    const edge = 40;
    const clamped = (value, size, room) => Math.min(Math.max(value, edge - size), room - edge);
    this.#tip.hidden = true;
    this.#view = {
      scale,
      x: clamped(this.#view.x + x, this.#world.width * scale, clientWidth),
      y: clamped(this.#view.y + y, this.#world.height * scale, clientHeight),
    };
    this.#requestFrame();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const keys = {
      Home: () => this.#walk(this.#order[0], event),
      End: () => this.#walk(this.#order.at(-1), event),
      PageUp: () => this.#walk(this.#otherGroup(-1), event),
      PageDown: () => this.#walk(this.#otherGroup(1), event),
      Enter: () => this.#focused >= 0 && this.#listeners.open(this.#hosts[this.#focused], event),
      " ": () => this.#focused >= 0 && this.#toggle(this.#focused),
      Escape: () => this.select([]),
      "+": () => this.zoom(1.4),
      "=": () => this.zoom(1.4),
      "-": () => this.zoom(1 / 1.4),
      0: () => this.fit(),
    };
    if (steps[event.key]) this.#walk(this.#neighbour(...steps[event.key]), event);
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
  }

  #walk(at, event) {
    if (at === undefined || at < 0) return;
    if (event.shiftKey) {
      for (const cell of [this.#focused, at]) if (cell >= 0) this.#selected.add(cell);
      this.#selectionChanged();
    }
    this.#focusOn(at);
  }

  /** Return the nearest cell in a direction. A sideways distance counts three times. */
  #neighbour(dx, dy) {
    const from = this.#focused;
    if (from < 0) return this.#order[0];
    let [best, least] = [from, Infinity];
    for (const at of this.#order) {
      const [x, y] = [this.#xs[at] - this.#xs[from], this.#ys[at] - this.#ys[from]];
      const along = x * dx + y * dy;
      if (along < 1) continue;
      const distance = along + 3 * Math.abs(dx ? y : x);
      if (distance < least) [best, least] = [at, distance];
    }
    return best;
  }

  #otherGroup(by) {
    const groups = this.#groups.filter((block) => !block.outer && block.cells.length);
    const here = groups.findIndex((block) => block.cells.includes(this.#focused));
    return groups[Math.min(Math.max(here + by, 0), groups.length - 1)]?.cells[0];
  }

  #focusOn(at) {
    if (at < 0) return;
    this.#focused = at;
    const { x, y, scale } = this.#view;
    const { clientWidth, clientHeight } = this.#canvas;
    const [left, top, size] = [this.#xs[at] * scale + x, this.#ys[at] * scale + y, CELL * scale];
    const into = (value, room) => (value < 8 ? 8 - value : value + size > room - 8 ? room - 8 - value - size : 0);
    const [dx, dy] = [into(left, clientWidth), into(top, clientHeight)];
    if (dx || dy) this.#pan(dx, dy);
    this.#tell();
    this.#requestFrame();
  }

  #tell() {
    const host = this.#hosts[this.#focused];
    if (this.#live && host) {
      const chosen = this.#selected.has(this.#focused) ? ", selected" : "";
      this.#live.textContent = `${this.#describe(host)}${chosen}`;
    }
    this.#showTip(this.#focused);
    this.#listeners.point(host ?? null);
  }

  /** Show the tooltip below a cell, or above it near the lower edge. */
  #showTip(at) {
    const host = this.#hosts[at];
    this.#tip.hidden = !host;
    if (!host) return;
    this.#tip.replaceChildren(
      ...this.#tipOf(host).map((text, line) => Object.assign(document.createElement(line ? "div" : "b"), { textContent: text })),
    );
    const { x, y, scale } = this.#view;
    const { offsetLeft, offsetTop, clientWidth } = this.#canvas;
    const { offsetWidth, offsetHeight } = this.#tip;
    const [left, top, size] = [this.#xs[at] * scale + x, this.#ys[at] * scale + y, CELL * scale];
    const isBelow = this.#canvas.getBoundingClientRect().top + top + size + offsetHeight + 8 < innerHeight;
    this.#tip.style.left = `${offsetLeft + Math.max(0, Math.min(left, clientWidth - offsetWidth))}px`;
    this.#tip.style.top = `${offsetTop + (isBelow ? top + size + 6 : top - offsetHeight - 6)}px`;
  }

  #hover(at) {
    if (at === this.#hovered) return;
    this.#hovered = at;
    this.#canvas.style.cursor = at < 0 ? "grab" : "pointer";
    this.#showTip(at);
    this.#listeners.point(this.#hosts[at] ?? null);
    this.#requestFrame();
  }

  #toggle(at) {
    if (!this.#selected.delete(at)) this.#selected.add(at);
    this.#selectionChanged();
    this.#tell();
  }

  /** Select the hosts of the group whose title is at a point, or unselect them if all are selected. */
  #toggleGroup(point) {
    const { x, y, scale } = this.#view;
    const isAt = ({ x: left, y: top, width, title }) =>
      point.x >= left * scale + x && point.x <= (left + width) * scale + x && point.y >= top * scale + y && point.y <= (top + title) * scale + y;
    const cells = this.#groups.find((block) => block.name && isAt(block))?.cells ?? [];
    const areSelected = cells.every((at) => this.#selected.has(at));
    for (const at of cells) this.#selected[areSelected ? "delete" : "add"](at);
    if (cells.length) this.#selectionChanged();
  }

  #selectWithin({ x: left, y: top, width, height }) {
    const { x, y, scale } = this.#view;
    const size = CELL * scale;
    for (const at of this.#order) {
      const [cx, cy] = [this.#xs[at] * scale + x + size / 2, this.#ys[at] * scale + y + size / 2];
      const there = cx >= left && cy >= top && cx <= left + width && cy <= top + height;
      if (there && (!this.#isShown || this.#isShown(this.#hosts[at]))) this.#selected.add(at);
    }
    this.#selectionChanged();
  }

  #selectionChanged() {
    this.#listeners.select(this.selected());
    this.#requestFrame();
  }
}

/** Return the layout of groups with about the aspect ratio of the canvas. */
function arranged(sections, aspect, wide, outerTitle) {
  let least = STEP * 6;
  let widest = STEP * Math.max(12, 2 * sections.reduce((sum, { parts }) => sum + parts.reduce((all, part) => all + part.cells.length, 0), 0));
  for (let turn = 0; turn < 9; turn += 1) {
    const middle = (least + widest) / 2;
    if (middle / placed(sections, middle, wide, outerTitle).height < aspect) least = middle;
    else widest = middle;
  }
  return placed(sections, widest, wide, outerTitle);
}

/** Return the layout of groups and its size for a maximum width. */
function placed(sections, widest, wide, outerTitle) {
  const blocks = [];
  let [y, width] = [0, 0];
  for (const { name, parts } of sections) {
    const section = { name, outer: true, x: 0, y, cells: null, title: outerTitle };
    blocks.push(section);
    const single = parts.length === 1 && !parts[0].name;
    let [left, top, row, right] = [0, y + outerTitle - (single ? PAD : 0), 0, 0];
    for (const part of parts) {
      const number = part.cells.length;
      const columns = single
        ? Math.max(1, Math.min(number, Math.floor((widest - 2 * PAD) / STEP)))
        : Math.min(number, Math.max(3, Math.ceil(Math.sqrt(number * wide))));
      const title = single ? 0 : INNER_TITLE;
      const size = {
        width: Math.max(columns, 1) * STEP + 2 * PAD - (STEP - CELL),
        height: Math.ceil(number / columns) * STEP + 2 * PAD - (STEP - CELL) + title,
      };
      if (left > 0 && left + size.width > widest) [left, top, row] = [0, top + row, 0];
      blocks.push({ ...part, ...size, outer: false, x: left, y: top, columns, title });
      left += size.width;
      row = Math.max(row, size.height);
      right = Math.max(right, left);
    }
    Object.assign(section, { width: right, height: top + row - y });
    width = Math.max(width, right);
    y = top + row;
  }
  for (const block of blocks) if (block.outer) block.width = width;
  return { blocks, width: Math.max(width, 1), height: Math.max(y, 1) };
}

/** Return a function that resolves a colour, which may be a CSS variable. */
function colours(element) {
  const style = getComputedStyle(element);
  const resolved = new Map();
  return (colour) => {
    if (!resolved.has(colour)) resolved.set(colour, colour.startsWith("--") ? style.getPropertyValue(colour).trim() : colour);
    return resolved.get(colour);
  };
}

/** Return black or white, whichever has more contrast on a colour. */
function inkOn(colour) {
  const context = (inkOn.context ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true }));
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  const part = (value) => ((value / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue) > 0.18 ? "#000" : "#fff";
}

/** Return the text, truncated with an ellipsis to a width. */
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [least, longest] = [0, text.length];
  while (least < longest) {
    const middle = Math.ceil((least + longest) / 2);
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) least = middle;
    else longest = middle - 1;
  }
  return least ? `${text.slice(0, least)}…` : "";
}

/** Draw the swatch of a colour and mark in a legend. */
export function swatch(canvas, { colour, mark = "" }) {
  const [size, ratio] = [18, devicePixelRatio || 1];
  canvas.width = canvas.height = size * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const resolve = colours(canvas);
  context.fillStyle = resolve(colour);
  context.fillRect(0, 0, size, size);
  context.strokeStyle = resolve("--control");
  context.strokeRect(0.5, 0.5, size - 1, size - 1);
  context.strokeStyle = context.fillStyle = inkOn(resolve(colour));
  if (STROKES.has(mark)) {
    context.lineWidth = 2;
    context.beginPath();
    addStrokes(context, mark, 0, 0, size);
    context.stroke();
  } else {
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(mark, size / 2, size / 2 + 0.5);
  }
}

/** Add the lines of a mark to the path: a hatch (a single line if small), a cross or an arrow. */
function addStrokes(context, mark, left, top, size) {
  const [near, far] = [size * 0.15, size * 0.85];
  if (mark === "arrow") {
    context.moveTo(left + size / 2, top + near);
    context.lineTo(left + far, top + size / 2);
    context.lineTo(left + size / 2, top + far);
    context.moveTo(left + near, top + size / 2);
    context.lineTo(left + far, top + size / 2);
    return;
  }
  context.moveTo(left + near, top + far);
  context.lineTo(left + far, top + near);
  if (mark === "cross") {
    context.moveTo(left + near, top + near);
    context.lineTo(left + far, top + far);
  } else if (size >= 10) {
    context.moveTo(left + near, top + size / 2);
    context.lineTo(left + size / 2, top + near);
    context.moveTo(left + size / 2, top + far);
    context.lineTo(left + far, top + size / 2);
  }
}
