// Web Workers with one instance of the lab each.

import { compiled, worker } from "./assets.js";

/** An error of a call, with its remedy. */
export class LabError extends Error {
  constructor(result) {
    super(result.error);
    this.remedy = result.remedy;
  }
}

/** The most files; the limit of `carob_lab::link_trace::attach`. */
const FILES_MAX = 8;
/** Files that all instances have, by name, and the instances. */
const files = new Map();
const labs = new Set();

/** Gives a trace to all instances, starting with `first`. Resolves to its means over `steps` steps. */
export async function attach(name, file, steps, first) {
  if (files.size >= FILES_MAX && !files.has(name)) throw new Error(`${FILES_MAX} traces are open; reload the page to open others`);
  const { value } = await first.attach(name, file, steps);
  files.set(name, file);
  await Promise.all([...labs].filter((one) => one !== first).map((one) => one.attach(name, file, steps)));
  return value;
}

export function fileOf(name) {
  return files.get(name);
}

/** A worker that handles one call after the other. */
export class Lab {
  #worker;
  #next = 1;
  #waiting = new Map();
  #ready;

  constructor() {
    this.#worker = new Worker(worker);
    let ready;
    this.#ready = new Promise((resolve) => { ready = resolve; })
      .then(() => Promise.all([...files].map(([name, file]) => this.#send({ name, file, steps: 1 }))));
    labs.add(this);
    this.#worker.onmessage = ({ data }) => {
      if (data.ready) return ready();
      const waiting = this.#waiting.get(data.id);
      if (!waiting) return;
      this.#waiting.delete(data.id);
      if (data.result.error !== undefined) waiting.reject(new LabError(data.result));
      else waiting.resolve({ value: data.result.ok, took_ms: data.took_ms });
    };
    compiled.then((module) => this.#worker.postMessage({ module }));
  }

  /** Resolves to {value, took_ms}. */
  async timed(request) {
    await this.#ready;
    return this.#send({ request: JSON.stringify(request) });
  }

  /** Gives it a file, which the worker reads. */
  async attach(name, file, steps) {
    await this.#ready;
    return this.#send({ name, file, steps });
  }

  #send(message) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, ...message });
    });
  }

  async call(request) {
    return (await this.timed(request)).value;
  }

  end() {
    labs.delete(this);
    this.#worker.terminate();
  }
}

/** Time that a worker is busy with one message. Results arrive this often from each. */
const BATCH_MS = 120;
const BATCH_MAX = 64;
const WORKERS_MAX = 8;

/** Runs on all cores. Several callers share the workers, message by message. */
export class Pool {
  #labs = [];

  constructor() {
    const cores = navigator.hardwareConcurrency || 2;
    for (let k = 0; k < Math.min(Math.max(cores, 1), WORKERS_MAX); k++) this.#labs.push(new Lab());
  }

  get size() {
    return this.#labs.length;
  }

  /** Makes `runs` runs, a few per message: `request(from, most)` returns the call for `count` runs, at most `most`, and
   *  `add(value, from)` gets its value. `isOver` is checked after each message. At most `workers` workers are used.
   *  Resolves to the busy time of the workers in ms, or to undefined if stopped early. */
  async spread(runs, request, add, isOver, workers = this.size) {
    const labs = this.#labs.slice(0, workers);
    let next = 0;
    let busy_ms = 0;
    const work = async (lab) => {
      let batch = 1;
      while (next < runs && !isOver()) {
        const from = next;
        // Towards the end messages become small, so that all workers end together.
        const { call, count } = request(from, Math.min(batch, Math.ceil((runs - from) / labs.length)));
        next += count;
        const { value, took_ms } = await lab.timed(call);
        if (isOver()) return;
        busy_ms += took_ms;
        add(value, from);
        const ideal = Math.round(BATCH_MS * count / Math.max(took_ms, 0.1));
        batch = Math.max(1, Math.min(ideal, 2 * batch, BATCH_MAX));
      }
    };
    await Promise.all(labs.map(work));
    return isOver() ? undefined : busy_ms;
  }
}
