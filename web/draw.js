// A link that changes over time: rate, delay and loss drawn in equal steps by pointer, finger or keys, or a file of a
// trace. Each direction has its own.

/** Steps of a drawing. */
export const STEPS = 32;
/** Quantities: unit, decimals, minimum top of the scale, and column of a trace. */
export const QUANTITIES = {
  rate: { unit: "kbit/s", digits: 1, top: 1, column: "rate_kbit_s" },
  delay: { unit: "ms", digits: 0, top: 20, column: "delay_ms" },
  loss: { unit: "%", digits: 1, top: 20, column: "loss_percent" },
};
/** Largest file that is opened, in bytes. */
const FILE_MAX = 16 << 20;
/** Longest drawing, in seconds. */
const SECONDS_MAX = 86_400;
const EMPTY = { seconds: 60, rate: [], delay: [], loss: [] };

/** Run-length encoding of a list, in characters that URLs need not escape. */
function packed(list) {
  const parts = [];
  for (const value of list) {
    const last = parts.at(-1);
    if (last?.value === value) last.count++;
    else parts.push({ value, count: 1 });
  }
  return parts.map(({ value, count }) => (count > 1 ? `${value}x${count}` : `${value}`)).join("-");
}

function unpacked(text) {
  const list = text.split("-").filter(Boolean).flatMap((part) => {
    const [value, count] = part.split("x").map(Number);
    return Number.isFinite(value) && value >= 0 ? Array(Math.min(Math.max(count || 1, 1), STEPS)).fill(value) : [];
  });
  return list.length === STEPS ? list : [];
}

/** A direction as text for the address: a drawing, or the name and the hash of a file; empty if it is constant. */
function encodeChanges({ file, hash, seconds, rate, delay, loss }) {
  if (file) return ["file", file, hash].join("_");
  if (![rate, delay, loss].some((list) => list.length)) return "";
  return [seconds, packed(rate), packed(delay), packed(loss)].join("_");
}

function decodeChanges(text) {
  const [first, rate = "", delay = "", loss = ""] = text.split("_");
  // The name of a file may have the separator.
  if (first === "file") return { ...EMPTY, file: text.slice(5, text.lastIndexOf("_")), hash: text.slice(text.lastIndexOf("_") + 1) };
  const seconds = Number(first);
  return {
    seconds: seconds >= 1 && seconds <= SECONDS_MAX ? seconds : EMPTY.seconds,
    rate: unpacked(rate), delay: unpacked(delay), loss: unpacked(loss),
  };
}

/** The trace of a direction for a call: its text (docs/traces.md), or the name of a file; undefined if it is constant. */
export function traceOf(text) {
  const changes = decodeChanges(text);
  if (changes.file) return changes.file;
  const drawn = Object.entries(QUANTITIES).filter(([name]) => changes[name].length);
  if (!drawn.length) return undefined;
  const head = ["time_ms", ...drawn.map(([, { column }]) => column)].join(",");
  const rows = Array.from({ length: STEPS }, (_, k) =>
    [Math.round(changes.seconds * 1e3 * k / STEPS), ...drawn.map(([name]) => changes[name][k])].join(","));
  return `${[head, ...rows].join("\n")}\n`;
}

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [340, 150, 44, 10, 128];

/** The pad on which a quantity is drawn, with its fields. */
export class Pad {
  /** `usual` is the constant value of a quantity of a direction, `attach` gives a file to the lab, and `changed` gets the
   *  texts of both directions. */
  constructor(by, { usual, attach, changed }) {
    Object.assign(this, { by, usual, attach, changed, what: "rate", way: "both", step: 0, ways: { down: EMPTY, up: EMPTY } });
    /** Opened files by name, with their means over the steps. */
    this.files = new Map();
    this.svg = by("pad");
    this.svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    const on = (id, event, action) => by(id).addEventListener(event, (it) => { it.stopPropagation(); action(it); });
    on("drawn-what", "input", () => { this.what = by("drawn-what").value; this.show(); });
    on("drawn-way", "input", () => { this.way = by("drawn-way").value; this.show(); });
    on("drawn-seconds", "input", () => {
      this.change({ seconds: Math.min(Math.max(Number(by("drawn-seconds").value) || 1, 1), SECONDS_MAX) });
    });
    on("drawn-clear", "click", () => this.change({ [this.what]: [] }));
    on("drawn-file", "input", () => this.open(by("drawn-file").files[0]));
    this.wire();
  }

  /** Shows the changes of an address. */
  load({ drawn_down, drawn_up }) {
    this.ways = { down: decodeChanges(drawn_down), up: decodeChanges(drawn_up) };
    if (drawn_down === drawn_up) this.way = "both";
    else if (this.way === "both") this.way = drawn_down ? "down" : "up";
    this.show();
  }

  /** Files named in the address that have not been opened. */
  missing() {
    const lacking = Object.values(this.ways).filter(({ file, hash }) => file && this.files.get(file)?.hash !== hash);
    return [...new Set(lacking.map(({ file }) => file))];
  }

  /** Changes of the displayed direction; for a file, its means. */
  get changes() {
    const changes = this.ways[this.way === "up" ? "up" : "down"];
    return changes.file ? { ...EMPTY, ...this.files.get(changes.file), file: changes.file } : changes;
  }

  change(parts) {
    const { seconds, rate, delay, loss } = this.changes;
    const changes = { seconds, rate, delay, loss, ...parts };
    for (const way of ["down", "up"]) if (this.way === "both" || this.way === way) this.ways[way] = changes;
    this.show();
    this.changed({ drawn_down: encodeChanges(this.ways.down), drawn_up: encodeChanges(this.ways.up) });
  }

  async open(file) {
    if (!file) return;
    const note = this.by("drawn-note");
    // A name without characters that shells, scenario files or file systems treat specially.
    const name = file.name.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[-.]+/, "").slice(-64) || "trace";
    try {
      if (file.size > FILE_MAX) throw new Error("it has more than 16 MiB; cut it, or take the command carob lab compare");
      const found = await this.attach(name, file, STEPS);
      const rounded = (what) => found[what].map((value) => Number(value.toFixed(QUANTITIES[what].digits)));
      const seconds = Math.min(Math.max(found.seconds, 1), SECONDS_MAX);
      this.files.set(name, { seconds, rate: rounded("rate"), delay: rounded("delay"), loss: rounded("loss"), hash: found.hash, rows: found.rows });
      note.textContent = "";
      this.change({ file: name, hash: found.hash });
    } catch (error) {
      note.textContent = `${name}: ${error.message.replace(`${name}: `, "")}${error.remedy ? `; ${error.remedy}` : ""}`;
    } finally {
      this.by("drawn-file").value = "";
    }
  }

  values() {
    const drawn = this.changes[this.what];
    return drawn.length ? drawn : Array(STEPS).fill(Number(this.usual(this.what, this.way).toFixed(QUANTITIES[this.what].digits)));
  }

  /** Top of the scale. */
  top() {
    return Math.max(QUANTITIES[this.what].top, 2 * this.usual(this.what, this.way), ...this.values());
  }

  set(from, to, value) {
    const { digits } = QUANTITIES[this.what];
    const most = this.what === "loss" ? 100 : Infinity;
    const list = [...this.values()];
    const last = to - from;
    for (let k = 0; k <= Math.abs(last); k++) {
      const share = last === 0 ? 1 : k / Math.abs(last);
      const at = Math.min(Math.max(value[0] + (value[1] - value[0]) * share, 0), most);
      list[from + Math.sign(last) * k] = Number(at.toFixed(digits));
    }
    this.change({ [this.what]: list });
  }

  wire() {
    const { svg } = this;
    const place = (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const step = Math.floor((point.x - LEFT) / (WIDTH - LEFT) * STEPS);
      const value = (BOTTOM - point.y) / (BOTTOM - TOP) * this.scale;
      return [Math.min(Math.max(step, 0), STEPS - 1), Math.min(Math.max(value, 0), this.scale)];
    };
    let last;
    const draw = (event) => {
      const [step, value] = place(event);
      const [from, before] = last ?? [step, value];
      this.step = step;
      this.set(from, step, [before, value]);
      last = [step, value];
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      svg.setPointerCapture(event.pointerId);
      this.scale = this.top();
      last = undefined;
      draw(event);
      this.active = true;
    });
    svg.addEventListener("pointermove", (event) => { if (this.active) draw(event); });
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => { this.active = false; });
    svg.addEventListener("keydown", (event) => {
      const top = this.top();
      const moves = { ArrowLeft: -1, ArrowRight: 1 };
      const changes = { ArrowUp: 0.02, ArrowDown: -0.02, PageUp: 0.1, PageDown: -0.1 };
      const value = this.values()[this.step];
      if (event.key in moves) {
        const next = Math.min(Math.max(this.step + moves[event.key], 0), STEPS - 1);
        const from = this.step;
        this.step = next;
        // With Shift, the value is copied to the next step.
        if (event.shiftKey) this.set(from, next, [value, value]);
      } else if (event.key === "Home" || event.key === "End") this.step = event.key === "Home" ? 0 : STEPS - 1;
      else if (event.key in changes) this.set(this.step, this.step, [0, value + changes[event.key] * top]);
      else return;
      event.preventDefault();
      this.show();
    });
  }

  show() {
    const { svg, what, changes } = this;
    const { unit } = QUANTITIES[what];
    const values = this.values();
    const top = this.active ? this.scale : this.top();
    const x = (step) => LEFT + step / STEPS * (WIDTH - LEFT);
    const y = (value) => BOTTOM - Math.min(value / top, 1) * (BOTTOM - TOP);
    const node = (name, attributes, text) => {
      const made = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (text !== undefined) made.textContent = text;
      return made;
    };
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      parts.push(node("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y(share * top), y2: y(share * top) }));
      parts.push(node("text", { class: "tick", x: LEFT - 6, y: y(share * top) + 4, "text-anchor": "end" }, Number((share * top).toPrecision(3))));
    }
    for (const [share, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
      parts.push(node("text", { class: "tick", x: x(share * STEPS), y: HEIGHT - 6, "text-anchor": anchor }, `${Number((share * changes.seconds).toPrecision(3))} s`));
    }
    const steps = values.map((value, k) => `${k ? "L" : "M"}${x(k)} ${y(value)}H${x(k + 1)}`).join("");
    parts.push(node("path", { class: "area", d: `${steps}V${BOTTOM}H${LEFT}Z` }));
    parts.push(node("path", { class: changes[what].length ? "line" : "line faint", d: steps }));
    parts.push(node("text", { class: "tick", x: LEFT + 4, y: TOP + 10 }, unit));
    parts.push(node("rect", { class: "cursor", x: x(this.step), y: TOP, width: x(1) - x(0), height: BOTTOM - TOP }));
    svg.replaceChildren(...parts);
    const each = changes.seconds / STEPS;
    const time = (step) => Number((step * each).toPrecision(3));
    svg.setAttribute("aria-label", `${what} over time in ${unit}`);
    svg.setAttribute("aria-valuemin", 0);
    svg.setAttribute("aria-valuemax", top);
    svg.setAttribute("aria-valuenow", values[this.step]);
    svg.setAttribute("aria-valuetext", `${time(this.step)} to ${time(this.step + 1)} s: ${values[this.step]} ${unit}`);
    this.by("drawn-value").textContent = svg.getAttribute("aria-valuetext");
    for (const [id, value] of [["drawn-what", what], ["drawn-way", this.way], ["drawn-seconds", Number(changes.seconds.toPrecision(4))]]) {
      if (document.activeElement !== this.by(id)) this.by(id).value = value;
    }
    this.by("drawn-seconds").disabled = Boolean(changes.file);
    this.by("drawn-clear").disabled = !changes[what].length;
    const mean = `shown are means over ${Number(each.toPrecision(3))} s; drawing replaces it by them`;
    this.by("drawn-source").textContent = changes.file ? `${changes.file}${changes.rows ? `: ${changes.rows} rows; ${mean}` : ": not opened"}` : "";
  }
}
