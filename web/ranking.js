// Runs as they arrive: table, verdict, distributions and paired differences.

import { digits, distribution, intervals, key } from "./chart.js";

/** Metrics for which larger is better. */
const MORE = new Set([
  "goodput_bps", "throughput_rps", "client_rps", "answered_ratio", "first_attempt_ratio", "success_ratio", "pdr", "pdr_early",
  "pdr_late", "pdr_of_sent", "pdr_near", "pdr_far", "throughput_bps", "carried_Bps", "received_bps", "jain_received", "settled",
  "within_1_s", "within_2_s", "within_5_s", "within_10_s", "within_20_s", "within_30_s", "within_60_s",
]);
/** Metrics that describe the scenario, not the controller. */
const PREFERRED = ["fct_s", "response_s", "delay_s", "pdr", "throughput_rps"];
/** The same for requests with pauses between them: a flow lasts as long under each controller. */
const PREFERRED_PACED = ["response_s", "delay_s", "pdr"];
/** Single values behind a mean of each run. */
const SINGLE = { response_s: "response_time_s" };
/** Kinds of single values other than flows. */
const OF = { response_time_s: "responses", etx: "nodes", rank: "nodes", hops: "nodes", node_rto_s: "nodes" };
/** The fewest seeds of a ranking. */
const SEEDS_MIN = 10;
/** Differences below this share of the reference, in per cent, are called small. */
const HARDLY_PERCENT = 5;

/** Values of the runs of one question, by algorithm and seed. */
export class Runs {
  constructor(first, algorithms) {
    this.first = first;
    this.algorithms = algorithms;
    this.count = 0;
    this.metrics = new Set();
    this.byName = new Map(algorithms.map((name) => [name, new Map()]));
  }

  add(runs) {
    for (const run of runs) {
      this.byName.get(run.algorithm)?.set(run.seed, run);
      for (const name of Object.keys(run.means)) this.metrics.add(name);
    }
    this.count += runs.length;
  }

  /** Seeds that all algorithms have. */
  seeds() {
    const [first, ...others] = [...this.byName.values()];
    return [...(first?.keys() ?? [])].filter((seed) => others.every((runs) => runs.has(seed))).sort((a, b) => a - b);
  }

  /** A metric by algorithm, one value for each seed that all have. */
  values(metric) {
    const seeds = this.seeds();
    const of = (runs) => seeds.map((seed) => runs.get(seed).means[metric] ?? null);
    return Object.fromEntries([...this.byName].map(([name, runs]) => [name, of(runs)]));
  }

  /** The metric with the single values behind a metric of runs, if runs have it. */
  single(metric) {
    const name = SINGLE[metric] ?? metric;
    const has = (run) => run.samples[name] || !(metric in run.means);
    const all = [...this.byName.values()].flatMap((of) => [...of.values()]);
    return all.every(has) && all.some((run) => run.samples[name]) ? name : undefined;
  }

  /** Sorted samples of a metric: single values where runs have them, else means of runs. */
  samples(metric, name) {
    const [runs, single] = [[...this.byName.get(name).values()], this.single(metric)];
    const of = (run) => single ? run.samples[single] ?? [] : metric in run.means ? [run.means[metric]] : [];
    return Float64Array.from(runs.flatMap(of)).sort();
  }

  /** The kind of samples of a metric, such as flows or runs. */
  of(metric) {
    const single = this.single(metric);
    return single ? OF[single] ?? "flows" : "runs";
  }

  /** The metric to show when none is chosen. */
  preferred(isPaced) {
    const names = isPaced ? [...PREFERRED_PACED, ...PREFERRED] : PREFERRED;
    return names.find((name) => this.metrics.has(name)) ?? [...this.metrics][0] ?? "";
  }
}

/** The text of a value with its unit. */
function withUnit(value, unit) {
  if (unit === "1") return digits(value);
  return `${digits(value)} ${unit}`;
}

/** Cells of a row of the table. */
function cells(row, entry, looks, best) {
  const line = document.createElement("tr");
  line.className = best ? "best" : "";
  const name = document.createElement("span");
  name.className = "key";
  name.append(key(looks(entry.algorithm)), entry.algorithm);
  const statistics = entry.statistics;
  const interval = entry.difference
    ? `${signed(entry.difference.mean)} ± ${digits(entry.difference.half)}`
    : "–";
  const texts = [
    [name, ""],
    [statistics ? `${digits(statistics.mean)} ± ${digits(statistics.ci95)}` : "–", ""],
    [digits(entry.samples?.p50), "more"],
    [digits(entry.samples?.p95), "more"],
    [digits(entry.samples?.p99), "more"],
    [interval, ""],
    [entry.lower ?? "–", "more"],
  ];
  for (const [content, kind] of texts) {
    const cell = document.createElement("td");
    cell.className = kind;
    cell.append(content);
    line.append(cell);
  }
  return line;
}

function signed(value) {
  return value > 0 ? `+${digits(value)}` : digits(value).replace("-", "\u2212");
}

function header(reference, of, unit) {
  const row = document.createElement("tr");
  const in_ = unit === "1" ? "" : ` (${unit})`;
  const names = [["controller", ""], [`mean of runs${in_} ± 95 %`, ""], [`median of ${of}`, "more"],
    [`95th percentile of ${of}`, "more"], [`99th percentile of ${of}`, "more"],
    [`difference to ${reference}`, ""], ["seeds better", "more"]];
  for (const [name, kind] of names) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.className = kind;
    cell.textContent = name;
    row.append(cell);
  }
  const head = document.createElement("thead");
  head.append(row);
  return head;
}

/** The ranking in a sentence. */
function verdict(entries, reference, metric, seeds, more) {
  if (seeds < SEEDS_MIN) return `${seeds} of at least ${SEEDS_MIN} paired seeds for a ranking.`;
  const best = entries[0];
  const base = entries.find((entry) => entry.algorithm === reference);
  const unit = metric.unit;
  if (entries.length < 2 || !base?.statistics || !best.statistics) return "";
  const value = (entry) => `${withUnit(entry.statistics.mean, unit)} on average`;
  if (best === base) {
    const next = entries[1];
    if (!next.difference) return "";
    const sure = Math.abs(next.difference.mean) > next.difference.half;
    return `${reference}: ${value(base)}. ${sure ? "No other controller is better" : "No controller is better beyond chance"} (${seeds} paired seeds).`;
  }
  const { mean, half } = best.difference ?? {};
  if (mean === undefined) return "";
  if (Math.abs(mean) <= half) {
    return `No controller is better than ${reference} beyond chance: ${best.algorithm} ${value(best)}, ${reference} ${value(base)} (${seeds} paired seeds).`;
  }
  const share = Math.abs(mean / base.statistics.mean) * 100;
  return `${best.algorithm}: ${value(best)}, ${digits(share)} % ${more ? "more" : "less"} than ${reference} `
    + `(difference ${digits(Math.abs(mean))} ± ${withUnit(half, unit)}, 95 % interval, ${seeds} paired seeds).`
    + (share < HARDLY_PERCENT ? ` Below ${HARDLY_PERCENT} % the choice hardly matters.` : "");
}

/** Draws the ranking of a metric. `rank` makes a call of the lab, which has all statistics. */
export async function show(runs, metric, reference, rank, elements) {
  const values = runs.values(metric.name);
  const seeds = runs.seeds().length;
  const samples = Object.fromEntries(runs.algorithms.map((name) => [name, runs.samples(metric.name, name)]));
  const plain = Object.fromEntries(Object.entries(samples).map(([name, all]) => [name, [...all]]));
  const entries = await rank({ call: "ranking", reference, values, samples: plain });
  const places = await rank({ call: "looks", names: runs.algorithms });
  const looks = (name) => {
    const [colour, marker] = places[runs.algorithms.indexOf(name)];
    return { colour, marker };
  };
  const more = MORE.has(metric.name);
  const sign = more ? -1 : 1;
  const order = (entry) => entry.statistics ? sign * entry.statistics.mean : Infinity;
  entries.sort((a, b) => order(a) - order(b));
  for (const entry of entries) {
    const pairs = values[entry.algorithm].map((value, k) => [value, values[reference]?.[k]]);
    const both = pairs.filter(([a, b]) => a !== null && b !== null && b !== undefined);
    if (entry.algorithm !== reference && both.length) {
      entry.lower = `${both.filter(([a, b]) => sign * a < sign * b).length} of ${both.length}`;
    }
  }
  const body = document.createElement("tbody");
  body.append(...entries.map((entry, k) => cells(body, entry, looks, k === 0 && seeds >= SEEDS_MIN && entries.length > 1)));
  elements.table.replaceChildren(header(reference, runs.of(metric.name), metric.unit), body);
  elements.verdict.textContent = verdict(entries, reference, metric, seeds, more);
  const label = metric.unit === "1" ? metric.name : `${metric.name.replace(/_(s|bps|rps|bytes)$/, "")} (${metric.unit})`;
  const lines = runs.algorithms.map((name) => ({ name, look: looks(name), values: samples[name] }));
  const width = Math.max(280, Math.min(1000, elements.spread.clientWidth || 700));
  elements.spread.replaceChildren(distribution(width, lines, label));
  elements.caption.textContent = `Cumulative distribution over ${seeds} seeds: share of ${runs.of(metric.name)} at or below a value`;
  const rows = entries.filter((entry) => entry.algorithm !== reference).map((entry) => ({
    name: entry.algorithm, look: looks(entry.algorithm), mean: entry.difference?.mean, half: entry.difference?.half,
    note: seeds < SEEDS_MIN ? `from ${SEEDS_MIN} seeds on` : "no pairs",
  }));
  elements.differences.replaceChildren(intervals(width, rows, label));
}
