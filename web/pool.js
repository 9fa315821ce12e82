// Web Workers with one instance of the lab each.

/** The module, compiled once and shared by all workers. */
export const compiled = WebAssembly.compileStreaming(fetch("lab.wasm"));

/** An error of a call, with its remedy. */
export class LabError extends Error {
  constructor(result) {
    super(result.error);
    this.remedy = result.remedy;
  }
}

/** A worker that handles one call after the other. */
export class Lab {
  #worker;
  #next = 1;
  #waiting = new Map();
  #ready;

  constructor() {
    this.#worker = new Worker("worker.js");
    let ready;
    this.#ready = new Promise((resolve) => { ready = resolve; });
    this.#worker.onmessage = ({ data }) => {
      if (data.ready) return ready();
      const waiting = this.#waiting.get(data.id);
      if (!waiting) return;
      if (data.planned !== undefined) return waiting.progress?.(data.done, data.planned);
      this.#waiting.delete(data.id);
      if (data.result.error !== undefined) waiting.reject(new LabError(data.result));
      else waiting.resolve({ value: data.result.ok, took_ms: data.took_ms });
    };
    compiled.then((module) => this.#worker.postMessage({ module }));
  }

  /** Resolves to {value, took_ms}. */
  async timed(request, progress) {
    await this.#ready;
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, progress });
      this.#worker.postMessage({ id, request: JSON.stringify(request) });
    });
  }

  async call(request, progress) {
    return (await this.timed(request, progress)).value;
  }

  end() {
    this.#worker.terminate();
  }
}

/** Time that a worker is busy with one message. Results arrive this often from each. */
const BATCH_MS = 120;
const BATCH_MAX = 64;
const WORKERS_MAX = 8;

/** Runs of consecutive seeds on all cores. */
export class Pool {
  #labs = [];
  #generation = 0;

  constructor() {
    const cores = navigator.hardwareConcurrency || 2;
    for (let k = 0; k < Math.min(Math.max(cores, 1), WORKERS_MAX); k++) this.#labs.push(new Lab());
  }

  get size() {
    return this.#labs.length;
  }

  stop() {
    this.#generation++;
  }

  /** Runs seeds first to first + seeds - 1; `add` gets the runs of a few seeds at a time. Resolves to the
   *  time that workers were busy, or to undefined if it was stopped. */
  async run(source, first, seeds, samples, add) {
    const generation = ++this.#generation;
    const end = first + seeds;
    let next = first;
    let busy_ms = 0;
    const work = async (lab) => {
      let batch = 1;
      while (next < end && generation === this.#generation) {
        const count = Math.min(batch, end - next);
        const from = next;
        next += count;
        const { value, took_ms } = await lab.timed({ call: "runs", source, first: from, count, samples });
        busy_ms += took_ms;
        if (generation !== this.#generation) return;
        add(value);
        const ideal = Math.round(BATCH_MS * count / Math.max(took_ms, 0.1));
        batch = Math.max(1, Math.min(ideal, 2 * batch, BATCH_MAX));
      }
    };
    await Promise.all(this.#labs.map(work));
    return generation === this.#generation ? busy_ms : undefined;
  }
}
