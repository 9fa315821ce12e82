// One run, packet by packet: the link, its queues, exchanges and timers over virtual time.

import { MeshScene, NodeChart } from "./mesh.js";
import { LinkScene } from "./scene.js";
import { SequenceChart, TimerChart } from "./strips.js";
import { pause, seconds } from "./time.js";

/** Ratios of virtual to real time. */
const SPEEDS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500];
/** Real duration of a run at its default speed. */
const SHOWN_S = 45;
/** Pause between two updates of the counts. */
const COUNTS_MS = 250;
/** Frame intervals that are kept for tests. */
const FRAMES_KEPT = 1200;

/** Plays runs on the canvases of the page. */
export class Player {
  /** `by` finds elements, `desk` makes calls, `remember` puts changes of the state into the address. */
  constructor(by, desk, remember) {
    Object.assign(this, { by, desk, remember });
    this.time = 0;
    this.playing = false;
    this.visible = false;
    this.frames = [];
    this.strips = [];
    this.dirty = false;
    by("speed").append(new Option("auto", "0"), ...SPEEDS.map((one) => new Option(`${one}×`, one)));
    this.wire();
  }

  /** Offers a question for replay: its source, the result of the check, and the state of the page. */
  offer(question, checked, state) {
    const names = question.algorithms.length ? question.algorithms : checked.algorithms;
    this.question = question;
    this.checked = checked;
    const watched = names.includes(state.watched) ? state.watched : names[0];
    this.by("watched").replaceChildren(...names.map((name) => new Option(name, name)));
    this.by("watched").value = watched ?? "";
    this.by("seed").value = state.seed;
    this.wanted = { algorithm: watched, seed: state.seed, client: state.client, at: state.at, node: state.node };
    this.by("speed").value = SPEEDS.includes(state.speed) ? state.speed : 0;
    this.loaded = "";
    this.pause();
    if (this.visible) this.load();
  }

  shown(visible) {
    this.visible = visible;
    if (!visible) return this.pause();
    if (this.question) this.load();
  }

  async load() {
    const request = { call: "watch", source: this.question, algorithm: this.wanted.algorithm, seed: this.wanted.seed };
    const key = JSON.stringify(request);
    if (this.loaded === key) return this.redraw();
    this.loaded = key;
    const error = this.by("watch-error");
    try {
      const run = await this.desk.call(request);
      if (this.loaded !== key) return;
      error.hidden = true;
      this.by("player").hidden = false;
      await this.begin(run, () => this.loaded !== key);
    } catch (problem) {
      this.run = undefined;
      error.hidden = false;
      this.by("player").hidden = true;
      error.textContent = `${problem.message}: ${problem.remedy ?? ""}`;
    }
  }

  /** Shows a run from its beginning, or from the time that the address names. */
  async begin(run, isStale) {
    const parts = await (run.mesh ? this.meshParts(run) : this.linkParts(run));
    if (isStale()) return;
    Object.assign(this, parts, { run, end: run.recorded_until });
    this.by("timers").hidden = Boolean(run.tcp);
    this.limitClients(run.mesh ? "Node" : "Client", run.mesh ? run.x.length : run.clients, parts.chosen);
    this.resize();
    const at = this.wanted.at * 1e6;
    this.seek(at > 0 ? Math.min(at, this.end) : this.first());
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (at > 0 || still) this.pause();
    else this.play();
  }

  async linkParts(run) {
    const chosen = Math.min(this.wanted.client, run.clients - 1);
    const scene = new LinkScene(this.by("scene"), run, this.by("scene-legend"));
    await scene.prepare();
    const strips = [new SequenceChart(this.by("sequence"), run, chosen)];
    await pause();
    // Timers of TCP are not recorded.
    if (!run.tcp) strips.push(new TimerChart(this.by("timers"), run, chosen));
    return { chosen, scene, strips };
  }

  async meshParts(run) {
    const nodes = run.x.length;
    const farthest = nodes - 1 === run.root ? 0 : nodes - 1;
    const chosen = this.wanted.node >= 0 && this.wanted.node < nodes ? this.wanted.node : farthest;
    const scene = new MeshScene(this.by("scene"), run, this.by("scene-legend"), (node) => this.choose(node));
    scene.chosen = chosen;
    await scene.prepare();
    const timers = new NodeChart(this.by("sequence"), run, chosen, "timers");
    await pause();
    return { chosen, scene, strips: [timers, new NodeChart(this.by("timers"), run, chosen, "link")] };
  }

  /** A client is chosen by its number: a list of 1,000 choices blocks the page for 50 ms. */
  limitClients(label, count, chosen) {
    const field = this.by("client");
    this.by("client-label").textContent = count > 1 ? `${label} (0 to ${count - 1})` : label;
    field.max = count - 1;
    field.disabled = count === 1;
    field.value = chosen;
  }

  /** Chooses the client or node whose timers are shown. */
  choose(which) {
    const name = this.run.mesh ? "node" : "client";
    this.by("client").value = which;
    this.wanted[name] = which;
    this.remember({ [name]: which });
    if (this.run.mesh) this.scene.chosen = which;
    for (const strip of this.strips) strip.choose(which);
    this.count();
    this.redraw();
  }

  /** Time of the first packet; for a wireless network, the start of its traffic. */
  first() {
    if (this.run.mesh) return this.run.begin;
    return Math.max(0, (this.run.moments[0] ?? 0) - 1);
  }

  speed() {
    const chosen = Number(this.by("speed").value);
    if (chosen > 0) return chosen;
    const ideal = (this.end - this.first()) / 1e6 / SHOWN_S;
    return SPEEDS.findLast((one) => one <= ideal) ?? SPEEDS[0];
  }

  play() {
    if (!this.run) return;
    if (this.time >= this.end) this.time = this.first();
    this.playing = true;
    this.label();
    this.schedule();
  }

  pause() {
    const was = this.playing;
    this.playing = false;
    this.label();
    if (was && this.visible) this.remember({ at: Number((this.time / 1e6).toFixed(3)) });
  }

  label() {
    this.by("play").textContent = this.playing ? "Pause" : "Play";
    this.by("play").setAttribute("aria-pressed", this.playing);
  }

  seek(time) {
    this.time = Math.max(0, Math.min(time, this.end));
    this.redraw();
  }

  /** Moves to the next or previous moment at which a packet is sent, leaves, arrives, or a timer ends; before the
      first one is the beginning. */
  step(way) {
    if (!this.run) return;
    this.pause();
    const moments = this.run.moments;
    let [low, high] = [0, moments.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (way > 0 ? moments[middle] <= this.time : moments[middle] < this.time) low = middle + 1;
      else high = middle;
    }
    const place = way > 0 ? low : low - 1;
    if (place < moments.length) this.seek(place < 0 ? 0 : moments[place]);
    this.remember({ at: Number((this.time / 1e6).toFixed(3)) });
  }

  resize() {
    if (!this.run) return;
    for (const part of [this.scene, ...this.strips]) part.resize();
    this.redraw();
  }

  redraw() {
    this.dirty = true;
    this.schedule();
  }

  schedule() {
    if (this.frame || !this.visible || !this.run) return;
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    this.frame = 0;
    if (!this.visible || !this.run) return;
    if (this.playing) {
      const passed = this.last ? Math.min(now - this.last, 100) : 0;
      if (this.last) {
        this.frames.push(now - this.last);
        if (this.frames.length > FRAMES_KEPT) this.frames.shift();
      }
      this.time = Math.min(this.end, this.time + passed * 1e3 * this.speed());
      if (this.time >= this.end) this.pause();
    }
    this.last = this.playing ? now : 0;
    this.scene.draw(this.time, this.speed());
    const parts = this.strips.map((strip) => strip.draw(this.time));
    this.by("scrub").value = Math.round(10_000 * this.time / this.end);
    this.by("clock").textContent = `${seconds(this.time)} of ${seconds(this.end)}, ${this.speed()}×`;
    if (!this.playing || now - (this.counted ?? 0) > COUNTS_MS) {
      this.counted = now;
      this.count();
    }
    this.dirty = parts.includes(false);
    if (this.playing || this.dirty) this.schedule();
  }

  count() {
    const counts = this.scene.counts(this.time);
    if (!this.run.mesh && this.run.clients > 1) {
      const client = this.strips[0].client;
      counts.unshift([`Client ${client}`, this.strips[0].counts(this.time)], [`All ${this.run.clients} clients`, "the lines below"]);
    }
    const items = counts.flatMap(([name, value]) => {
      const [term, detail] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      detail.textContent = value;
      return [term, detail];
    });
    this.by("counts").replaceChildren(...items);
    this.by("scrub").setAttribute("aria-valuetext", seconds(this.time));
  }

  wire() {
    const on = (id, event, action) => this.by(id).addEventListener(event, action);
    on("play", "click", () => (this.playing ? this.pause() : this.play()));
    on("step", "click", () => this.step(1));
    on("back", "click", () => this.step(-1));
    on("scrub", "input", () => {
      if (!this.run) return;
      this.seek(Number(this.by("scrub").value) / 10_000 * this.end);
    });
    on("scrub", "change", () => this.remember({ at: Number((this.time / 1e6).toFixed(3)) }));
    on("speed", "change", () => { this.remember({ speed: Number(this.by("speed").value) }); this.redraw(); });
    for (const [id, key] of [["watched", "algorithm"], ["seed", "seed"]]) {
      on(id, "change", () => {
        const value = id === "seed" ? Math.max(1, Math.floor(Number(this.by(id).value) || 1)) : this.by(id).value;
        this.wanted[key] = value;
        this.wanted.at = 0;
        this.remember({ [id]: value, at: 0 });
        this.load();
      });
    }
    on("client", "change", () => {
      const field = this.by("client");
      this.choose(Math.min(Math.max(0, Math.floor(Number(field.value) || 0)), Number(field.max)));
    });
    this.by("view-watch").addEventListener("keydown", (event) => {
      if (event.target.closest("select, input:not([type=range])")) return;
      if (event.key === " " && event.target.tagName !== "BUTTON") (this.playing ? this.pause() : this.play());
      else if (event.key === ".") this.step(1);
      else if (event.key === ",") this.step(-1);
      else return;
      event.preventDefault();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resize());
  }
}
