// The state of the page, and its encoding in the address after `#`: only differences from the defaults.

import { traceOf } from "./draw.js";

/** Numbers of a link: key, label, default unit, and the range of the slider in that unit's base. */
export const NUMBERS = [
  { key: "down", label: "Rate down", low: 1e3, high: 1e8, units: { "bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6 } },
  { key: "up", label: "Rate up", low: 1e3, high: 1e8, units: { "bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6 } },
  { key: "rtt", label: "Round trip", low: 100, high: 1e7, units: { us: 1, ms: 1e3, s: 1e6 } },
  { key: "jitter", label: "Jitter", low: 100, high: 5e6, zero: "0 ms", units: { us: 1, ms: 1e3, s: 1e6 } },
  { key: "loss", label: "Loss each way", low: 0.01, high: 50, zero: "0 %", units: { "%": 1 } },
  { key: "loss_burst", label: "Loss burst", low: 1, high: 50, units: { "": 1 } },
  { key: "buffer", label: "Buffer", low: 1280, high: 1e6, units: { B: 1, kB: 1e3, MB: 1e6 } },
];

/** Values of a link where neither the form nor the built-in link has one. */
export const UNSET = { down: "30 kbit/s", up: "60 kbit/s", rtt: "100 ms", jitter: "0 ms", loss: "0 %", loss_burst: "1", buffer: "64 kB" };

export const DEFAULTS = {
  preset: "own",
  link: "nb-iot", down: "", up: "", rtt: "", jitter: "", loss: "", loss_burst: "", buffer: "", drawn_down: "", drawn_up: "",
  traffic: "firmware", clients: 1, size: 0, block: "", nstart: 1,
  scenario: "", cell: "", set: "",
  cc: "default,cocoa-plus,fasor,carob", seeds: 40, metric: "",
  view: "ranking", watched: "", seed: 1, client: 0, node: -1, at: 0, speed: 0,
};

/** The state of an experiment: the defaults and its settings. */
const stateOf = (presets, id) => ({ ...DEFAULTS, ...presets.find((one) => one.id === id)?.state });

/** The state as text for the address: differences from its experiment. */
export function encode(state, presets) {
  const parameters = new URLSearchParams();
  if (state.preset !== DEFAULTS.preset) parameters.set("preset", state.preset);
  for (const [key, value] of Object.entries(stateOf(presets, state.preset))) {
    if (key !== "preset" && state[key] !== value) parameters.set(key, state[key]);
  }
  return parameters.toString();
}

/** Parses the state from an address; missing values come from its experiment. */
export function decode(text, presets) {
  const named = new URLSearchParams(text);
  const state = stateOf(presets, named.get("preset"));
  for (const [key, value] of named) {
    if (!(key in DEFAULTS)) continue;
    if (typeof DEFAULTS[key] !== "number") state[key] = value;
    else if (Number.isFinite(Number(value))) state[key] = Number(value);
  }
  return state;
}

/** The source of a call. */
export function source(state) {
  const algorithms = state.cc.split(",").filter(Boolean);
  if (state.scenario) {
    const set = state.set.split("\n").map((line) => line.trim()).filter(Boolean);
    return { scenario: state.scenario, set, algorithms, ...(state.cell && { cell: state.cell }) };
  }
  const link = { traffic: state.traffic, clients: state.clients };
  if (state.link !== "own") link.name = state.link;
  for (const { key } of NUMBERS) {
    if (state[key]) link[key] = state[key];
    else if (state.link === "own") link[key] = UNSET[key];
  }
  for (const way of ["down", "up"]) {
    const trace = traceOf(state[`drawn_${way}`]);
    if (trace) link[`trace_${way}`] = trace;
  }
  if (state.traffic === "firmware") {
    if (state.size) link.size = state.size;
    if (state.block) link.block = Number(state.block);
    if (state.nstart > 1) link.nstart = state.nstart;
  }
  return { link, algorithms };
}

/** A quantity; a number without unit gets the unit of `other`. */
export function united(text, other) {
  const unit = /[A-Za-z%].*$/.exec(other);
  return unit && /^\s*[0-9.]+\s*$/.test(text) ? `${text.trim()} ${unit[0]}` : text.trim();
}

/** A quantity such as "30 kbit/s" in base units; undefined if it is none. */
export function parse(text, units) {
  const match = /^\s*([0-9.]+)\s*([A-Za-z%/]*)\s*$/.exec(text);
  const factor = match && units[match[2]];
  return factor === undefined || factor === null ? undefined : Number(match[1]) * factor;
}

/** A quantity in its largest unit, with two significant digits. */
export function quantity(value, units) {
  const known = Object.entries(units);
  const [unit, factor] = known.findLast(([, f]) => value >= f) ?? known[0];
  const scaled = Number((value / factor).toPrecision(2));
  return unit ? `${scaled} ${unit}` : `${scaled}`;
}
