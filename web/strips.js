// Exchanges and timers of a client over time. Marks are added as time passes, some milliseconds a frame.

import { colours, cross, fit, FONT, triangle, upTo } from "./canvas.js";
import { digits, tick, ticks } from "./chart.js";
import { LOST, DROPPED } from "./scene.js";

/** Time for marks in one frame. */
const BUDGET_MS = 4;
/** Marks drawn between two clock reads. */
const SLICE = 100;

/** A figure that grows with time: `marks` are added in order. */
class Strip {
  constructor(canvas, run, client) {
    Object.assign(this, { canvas, run, client });
    this.ink = document.createElement("canvas");
    this.prepare();
  }

  choose(client) {
    this.client = client;
    this.prepare();
    this.restart();
  }

  resize() {
    this.colours = colours();
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.context = fit(this.canvas, this.width, this.height);
    this.pen = fit(this.ink, this.width, this.height);
    this.box = { left: 54, right: this.width - 12, top: 20, bottom: this.height - 22 };
    this.restart();
  }

  restart() {
    this.drawn = 0;
    this.until = 0;
    const { pen, box, colours: c } = this;
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = FONT;
    pen.lineWidth = 1;
    pen.strokeStyle = c.grid;
    pen.fillStyle = c.soft;
    pen.textAlign = "center";
    const end = this.run.recorded_until / 1e6;
    for (const value of ticks(0, end, this.width / 100)) {
      const x = this.x(value * 1e6);
      line(pen, x, box.top, x, box.bottom);
      pen.fillText(`${tick(value)} s`, Math.min(x, box.right - 10), box.bottom + 15);
    }
    pen.textAlign = "end";
    for (const [y, text] of this.levels()) {
      line(pen, box.left, y, box.right, y);
      pen.fillText(text, box.left - 6, y + 4);
    }
    pen.textAlign = "start";
    // On a phone a long title begins at the edge, and is made narrower where it must be.
    const room = this.width - 8;
    const fits = pen.measureText(this.title()).width <= box.right - box.left;
    pen.fillText(this.title(), fits ? box.left : 4, 12, room);
  }

  x(time) {
    const { left, right } = this.box;
    return left + (right - left) * time / Math.max(1, this.run.recorded_until);
  }

  /** Draws up to a time. Returns false if marks are left for the next frame. */
  draw(time) {
    if (time < this.until) this.restart();
    const limit = upTo(this.times, time);
    const end = performance.now() + BUDGET_MS;
    while (this.drawn < limit) {
      this.mark(this.drawn++);
      if (this.drawn % SLICE === 0 && performance.now() > end) break;
    }
    const isDone = this.drawn >= limit;
    this.until = isDone ? time : (this.times[this.drawn - 1] ?? 0);
    const { context, box, colours: c } = this;
    context.clearRect(0, 0, this.width, this.height);
    context.drawImage(this.ink, 0, 0, this.width, this.height);
    context.strokeStyle = c.ink;
    context.lineWidth = 1;
    line(context, this.x(time), box.top, this.x(time), box.bottom);
    return isDone;
  }
}

/** Sums of a column up to each of these places, from 0 on. */
function sums(places, column) {
  const all = new Float64Array(places.length + 1);
  places.forEach((place, k) => { all[k + 1] = all[k] + Number(column[place]); });
  return all;
}

function line(context, x1, y1, x2, y2) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

/** Transmissions of each exchange; for TCP, data segments of the direction with more data. */
export class SequenceChart extends Strip {
  prepare() {
    const { tcp, packets: p } = this.run;
    const own = [];
    for (let k = 0; k < p.sent.length; k++) if (p.client[k] === this.client) own.push(k);
    if (tcp) {
      const data = [0, 0];
      for (const k of own) data[p.up[k]] += p.id[k];
      const way = Number(data[1] > data[0]);
      this.places = own.filter((k) => p.up[k] === way && p.id[k] > 0);
    } else {
      this.places = own.filter((k) => !(p.type[k] > 1 || p.code[k] >= 64 && p.type[k] !== 0));
    }
    this.times = Float64Array.from(this.places, (k) => p.sent[k]);
    // Sums up to each packet of the client, its acknowledgments and responses included.
    this.sent = Float64Array.from(own, (k) => p.sent[k]);
    this.again = sums(own, p.again);
    this.spurious = sums(own, p.spurious);
    this.most = this.places.reduce((most, k) => Math.max(most, p.item[k]), 1);
  }

  /** Counts of the client's packets up to a time. */
  counts(time) {
    const sent = upTo(this.sent, time);
    return `${sent} packets both ways, ${this.again[sent]} retransmissions, ${this.spurious[sent]} of them spurious`;
  }

  title() {
    const name = this.run.tcp ? "Sequence number (B)" : "Exchange";
    if (this.width < 560) return `${name} (triangle: retransmission; filled: spurious)`;
    return `${name}: first transmissions, retransmissions (triangles; spurious ones filled), losses (✕)`;
  }

  levels() {
    return ticks(0, this.most, 4).map((value) => [this.y(value), tick(value)]);
  }

  y(item) {
    return this.box.bottom - (this.box.bottom - this.box.top) * item / this.most;
  }

  mark(k) {
    const { pen, colours: c } = this;
    const p = this.run.packets;
    const place = this.places[k];
    const [x, y] = [this.x(p.sent[place]), this.y(p.item[place])];
    if (p.again[place]) {
      triangle(pen, x, y, 4);
      pen.lineWidth = 1.5;
      pen.strokeStyle = p.spurious[place] ? c.c3 : c.c1;
      pen.fillStyle = p.spurious[place] ? c.c3 : c.page;
      pen.fill();
      pen.stroke();
    } else {
      pen.fillStyle = c.c0;
      pen.beginPath();
      pen.arc(x, y, 2, 0, 7);
      pen.fill();
    }
    if (p.fate[place] === LOST || p.fate[place] === DROPPED) {
      pen.strokeStyle = c.ink;
      pen.lineWidth = 1.6;
      cross(pen, x + 4, y, 3);
    }
  }
}

/** Round-trip times, timers and the RTO, on a logarithmic scale. */
export class TimerChart extends Strip {
  prepare() {
    const all = [];
    for (const [kind, samples] of [["timer", this.run.timers], ["rtt", this.run.rtt], ["rto", this.run.rto]]) {
      for (let k = 0; k < samples.at.length; k++) {
        if (samples.host[k] === this.client && samples.value[k] > 0) all.push({ kind, at: samples.at[k], value: samples.value[k], of: samples.of[k] });
      }
    }
    all.sort((a, b) => a.at - b.at);
    this.samples = all;
    this.times = Float64Array.from(all, (sample) => sample.at);
    const values = all.map((sample) => sample.value);
    this.low = values.reduce((low, value) => Math.min(low, value), 1e6) / 1.3;
    this.high = values.reduce((high, value) => Math.max(high, value), 1e4) * 1.3;
  }

  restart() {
    this.before = undefined;
    super.restart();
  }

  title() {
    if (this.width < 560) return "RTT (dots), timers (grey), RTO (line)";
    return "RTT (green; orange after a retransmission), timer of each transmission (grey), RTO (blue line)";
  }

  levels() {
    const all = [];
    for (let power = 2; power < 9; power++) {
      for (const n of [1, 3]) {
        const value = n * 10 ** power;
        if (value >= this.low && value <= this.high) all.push([this.y(value), `${digits(value / 1e6).replace(/\.?0+$/, "")} s`]);
      }
    }
    return all;
  }

  y(value) {
    const { top, bottom } = this.box;
    return bottom - (bottom - top) * Math.log(value / this.low) / Math.log(this.high / this.low);
  }

  mark(k) {
    const { pen, colours: c } = this;
    const sample = this.samples[k];
    const [x, y] = [this.x(sample.at), this.y(sample.value)];
    if (sample.kind === "rto") {
      pen.strokeStyle = c.c0;
      pen.lineWidth = 1.8;
      if (this.before) {
        line(pen, this.before[0], this.before[1], x, this.before[1]);
        line(pen, x, this.before[1], x, y);
      }
      this.before = [x, y];
      return;
    }
    pen.beginPath();
    if (sample.kind === "timer") {
      pen.fillStyle = c.rule;
      pen.arc(x, y, 1.4, 0, 7);
      pen.fill();
      return;
    }
    pen.arc(x, y, 2.4, 0, 7);
    if (sample.of > 1) {
      pen.strokeStyle = c.c1;
      pen.lineWidth = 1.5;
      pen.stroke();
    } else {
      pen.fillStyle = c.c2;
      pen.fill();
    }
  }
}
