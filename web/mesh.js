// A wireless network from above: nodes, links, the tree of RPL, and frames hop by hop; a chosen node over time.

import { colours, cross, fit, FONT, legend, triangle, upTo } from "./canvas.js";
import { digits, ticks, tick } from "./chart.js";
import { pause, seconds } from "./time.js";

/** Real time for which a frame is shown. */
const SHOWN_S = 0.45;
/** Frames that are drawn at once. */
const DRAWN_MAX = 250;

/** The network at a time. */
export class MeshScene {
  constructor(canvas, run, list, choose) {
    Object.assign(this, { canvas, run, list });
    this.nodes = run.x.length;
    this.chosen = -1;
    this.sums = {};
    canvas.className = "mesh";
    canvas.onclick = (event) => {
      const node = this.at(event.offsetX, event.offsetY);
      if (node >= 0) choose(node);
    };
  }

  /** Computes running counts, in parts that do not block the page. */
  async prepare() {
    const { frames, messages } = this.run;
    this.sums.lost = sums(frames.sent, (sent) => 1 - sent);
    await pause();
    this.sums.routing = sums(frames.routing, (routing) => routing);
    await pause();
    this.sums.again = sums(messages.again, (again) => Number(again > 0));
    await pause();
  }

  resize() {
    this.colours = colours();
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.context = fit(this.canvas, this.width, this.height);
    this.place();
    const c = this.colours;
    legend(this.list, [
      ["CoAP frame", c.c0, c.c0], ["RPL frame", c.c4, c.c4], ["given up ✕", c.bad, "transparent"],
      ["parent (lines with arrows)", c.c2, "transparent"], ["chosen node", c.c1, "transparent"],
    ]);
    this.ground = document.createElement("canvas");
    this.links(fit(this.ground, this.width, this.height));
  }

  /** Places of nodes on the canvas. Heights of a building are beside each other. */
  place() {
    const { x, y, z } = this.run;
    const heights = [...new Set(z)].sort((a, b) => a - b);
    const wide = Math.max(...x) - Math.min(...x);
    const tall = Math.max(...y) - Math.min(...y);
    const isWide = wide >= tall;
    const shift = (k) => heights.indexOf(z[k]) * ((isWide ? tall : wide) * 1.25 + 3000);
    const raw = Array.from({ length: this.nodes }, (_, k) => isWide ? [x[k], y[k] + shift(k)] : [y[k], x[k] + shift(k)]);
    const [left, top] = [0, 1].map((axis) => Math.min(...raw.map((point) => point[axis])));
    const [right, bottom] = [0, 1].map((axis) => Math.max(...raw.map((point) => point[axis])));
    const margin = 30;
    // Long and thin networks have different scales per axis.
    const across = (this.width - 2 * margin) / Math.max(1, right - left);
    const down = (this.height - 2 * margin) / Math.max(1, bottom - top);
    const scale = [Math.min(across, 6 * down), Math.min(down, 6 * across)];
    const spare = [(this.width - (right - left) * scale[0]) / 2, (this.height - (bottom - top) * scale[1]) / 2];
    this.points = raw.map((point) => [spare[0] + (point[0] - left) * scale[0], spare[1] + (point[1] - top) * scale[1]]);
    this.radius = this.nodes > 120 ? 5 : 11;
  }

  at(x, y) {
    let [best, near] = [-1, (this.radius + 12) ** 2];
    this.points.forEach(([px, py], node) => {
      const away = (px - x) ** 2 + (py - y) ** 2;
      if (away < near) [best, near] = [node, away];
    });
    return best;
  }

  links(pen) {
    const { from, to, thousandths } = this.run.links;
    const dense = from.length > 16 * this.nodes;
    for (let k = 0; k < from.length; k++) {
      if (from[k] >= to[k]) continue;
      const share = thousandths[k] / 1000;
      pen.strokeStyle = this.colours.rule;
      pen.globalAlpha = (dense ? 0.12 : 0.35) * share + 0.06;
      pen.lineWidth = 0.6 + share;
      stroke(pen, this.points[from[k]], this.points[to[k]]);
    }
    pen.globalAlpha = 1;
  }

  /** Parents at a time. */
  tree(time) {
    const { at, node, to } = this.run.parent_changes;
    const until = upTo(at, time);
    if (!this.parents || until < this.applied) {
      this.parents = at.length ? new Array(this.nodes).fill(-1) : [...this.run.parents];
      this.changed = new Float64Array(this.nodes).fill(-Infinity);
      this.applied = 0;
    }
    for (; this.applied < until; this.applied++) {
      this.parents[node[this.applied]] = to[this.applied];
      this.changed[node[this.applied]] = at[this.applied];
    }
    return this.parents;
  }

  draw(time, speed) {
    const { context, colours: c } = this;
    context.clearRect(0, 0, this.width, this.height);
    context.drawImage(this.ground, 0, 0, this.width, this.height);
    const shown = SHOWN_S * 1e6 * speed;
    this.tree(time).forEach((parent, node) => {
      if (parent < 0 || parent >= this.nodes) return;
      const isNew = time - this.changed[node] < 4 * shown;
      context.strokeStyle = isNew ? c.c1 : c.c2;
      context.lineWidth = isNew ? 3.5 : 1.6;
      arrow(context, this.points[node], this.points[parent], this.radius);
    });
    this.frames(time, shown);
    this.drawNodes(time);
  }

  frames(time, shown) {
    const { context, colours: c } = this;
    const f = this.run.frames;
    const [low, high] = [upTo(f.at, time - shown), upTo(f.at, time)];
    for (let k = Math.max(low, high - DRAWN_MAX); k < high; k++) {
      const share = (time - f.at[k]) / shown;
      const start = this.points[f.from[k]];
      const colour = f.routing[k] ? c.c4 : c.c0;
      if (f.to[k] < 0) {
        context.strokeStyle = colour;
        context.globalAlpha = 0.6 * (1 - share);
        context.lineWidth = 1.5;
        context.beginPath();
        context.arc(...start, this.radius + 26 * share, 0, 7);
        context.stroke();
        context.globalAlpha = 1;
        continue;
      }
      const end = this.points[f.to[k]];
      const way = f.sent[k] ? share : Math.min(share, 0.5);
      const [x, y] = [start[0] + (end[0] - start[0]) * way, start[1] + (end[1] - start[1]) * way];
      if (!f.sent[k] && share > 0.5) {
        context.strokeStyle = c.bad;
        context.lineWidth = 2.5;
        cross(context, x, y, 5);
        continue;
      }
      context.fillStyle = colour;
      context.beginPath();
      context.arc(x, y, 3 + Math.min(4, f.transmissions[k] - 1), 0, 7);
      context.fill();
    }
  }

  drawNodes(time) {
    const { context, colours: c, run } = this;
    context.font = FONT;
    context.textAlign = "center";
    this.points.forEach(([x, y], node) => {
      const isEnd = node === run.root || run.sinks.includes(node);
      context.fillStyle = isEnd ? c.ink : c.panel;
      context.strokeStyle = node === this.chosen ? c.c1 : c.ink;
      context.lineWidth = node === this.chosen ? 4 : 1.2;
      context.beginPath();
      if (isEnd) context.roundRect(x - this.radius, y - this.radius, 2 * this.radius, 2 * this.radius, 3);
      else context.arc(x, y, this.radius, 0, 7);
      context.fill();
      context.stroke();
      if (this.radius < 8) return;
      context.fillStyle = isEnd ? c.page : c.ink;
      context.fillText(String(node), x, y + 4);
    });
  }

  counts(time) {
    const { run } = this;
    const frames = upTo(run.frames.at, time);
    const messages = upTo(run.messages.at, time);
    const parents = upTo(run.parent_changes.at, time);
    const node = this.chosen;
    return [
      ["Traffic", time < run.begin ? `begins in ${seconds(run.begin - time)}` : `for ${seconds(time - run.begin)}`],
      ["Frames", `${frames}, ${this.sums.routing[frames]} of them of RPL; ${this.sums.lost[frames]} given up by the MAC`],
      ["CoAP messages", `${messages}, ${this.sums.again[messages]} of them retransmissions`],
      ["Parent changes", `${parents}`],
      ["Chosen node", `${node}; parent ${this.tree(time)[node] >= 0 ? this.tree(time)[node] : "none"}`],
    ];
  }
}

function sums(column, of) {
  const all = new Float64Array(column.length + 1);
  for (let k = 0; k < column.length; k++) all[k + 1] = all[k] + of(column[k]);
  return all;
}

function stroke(pen, a, b) {
  pen.beginPath();
  pen.moveTo(...a);
  pen.lineTo(...b);
  pen.stroke();
}

/** A line to the edge of a node, with an arrow in its middle. */
function arrow(pen, a, b, radius) {
  const [dx, dy] = [b[0] - a[0], b[1] - a[1]];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  stroke(pen, a, [b[0] - ux * radius, b[1] - uy * radius]);
  const [x, y] = [a[0] + dx * 0.6, a[1] + dy * 0.6];
  pen.beginPath();
  pen.moveTo(x - 6 * ux + 4 * uy, y - 6 * uy - 4 * ux);
  pen.lineTo(x, y);
  pen.lineTo(x - 6 * ux - 4 * uy, y - 6 * uy + 4 * ux);
  pen.stroke();
}

/** RTO and retransmissions, or ETX and queue, of a node over time; drawn whole at once, then up to the time. */
export class NodeChart {
  constructor(canvas, run, node, kind) {
    Object.assign(this, { canvas, run, kind });
    this.ink = document.createElement("canvas");
    this.choose(node);
  }

  choose(node) {
    this.node = node;
    const { frames, rto, messages } = this.run;
    const of = (at, who, value, fits = () => true) => {
      const all = [];
      for (let k = 0; k < at.length; k++) if (who[k] === node && fits(k)) all.push([at[k], value(k)]);
      return all;
    };
    this.lines = this.kind === "timers"
      ? [["RTO (s)", "c0", of(rto.at, rto.node, (k) => rto.value[k] / 1e6)]]
      : [["ETX to the next hop", "c3", of(frames.at, frames.from, (k) => frames.etx[k] / 100, (k) => frames.to[k] >= 0 && frames.etx[k] > 0)],
        ["frames queued", "c0", of(frames.at, frames.from, (k) => frames.queued[k])]];
    this.marks = this.kind === "timers" ? of(messages.at, messages.node, () => 0, (k) => messages.again[k] > 0).map(([at]) => at) : [];
    this.parents = of(this.run.parent_changes.at, this.run.parent_changes.node, (k) => this.run.parent_changes.to[k]);
    if (this.box) this.restart();
  }

  resize() {
    this.colours = colours();
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.context = fit(this.canvas, this.width, this.height);
    this.box = { left: 54, right: this.width - 12, top: 20, bottom: this.height - 22 };
    this.restart();
  }

  x(time) {
    return this.box.left + (this.box.right - this.box.left) * time / this.run.recorded_until;
  }

  restart() {
    const pen = fit(this.ink, this.width, this.height);
    const { box, colours: c } = this;
    const high = Math.max(1, ...this.lines.flatMap(([, , points]) => points.reduce((most, point) => Math.max(most, point[1]), 0))) * 1.05;
    const y = (value) => box.bottom - (box.bottom - box.top) * value / high;
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = FONT;
    pen.fillStyle = c.soft;
    pen.strokeStyle = c.grid;
    pen.textAlign = "center";
    for (const value of ticks(0, this.run.recorded_until / 1e6, this.width / 100)) {
      stroke(pen, [this.x(value * 1e6), box.top], [this.x(value * 1e6), box.bottom]);
      pen.fillText(`${tick(value)} s`, this.x(value * 1e6), box.bottom + 15);
    }
    pen.textAlign = "end";
    for (const value of ticks(0, high, 3)) {
      stroke(pen, [box.left, y(value)], [box.right, y(value)]);
      pen.fillText(digits(value).replace(/\.?0+$/, "") || "0", box.left - 6, y(value) + 4);
    }
    pen.strokeStyle = c.c2;
    pen.setLineDash([3, 3]);
    for (const [at] of this.parents) stroke(pen, [this.x(at), box.top], [this.x(at), box.bottom]);
    pen.setLineDash([]);
    pen.textAlign = "start";
    let x = box.left;
    const caption = (text, colour) => {
      pen.fillStyle = c[colour];
      pen.fillText(text, x, 12);
      x += pen.measureText(text).width + 14;
    };
    caption(`Node ${this.node}:`, "ink");
    for (const [name, colour, points] of this.lines) {
      caption(points.length ? name : `${name}: none`, colour);
      pen.strokeStyle = c[colour];
      pen.lineWidth = 1.5;
      pen.beginPath();
      points.forEach(([at, value], k) => {
        if (k) pen.lineTo(this.x(at), y(points[k - 1][1]));
        pen[k ? "lineTo" : "moveTo"](this.x(at), y(value));
      });
      pen.stroke();
    }
    if (this.marks.length) caption("retransmissions (triangles)", "c1");
    pen.strokeStyle = c.c1;
    pen.lineWidth = 1.2;
    for (const at of this.marks) {
      triangle(pen, this.x(at), box.bottom - 5, 3.5);
      pen.stroke();
    }
    if (this.parents.length) caption("parent changes (dashed)", "c2");
  }

  draw(time) {
    const { context, box, colours: c } = this;
    context.clearRect(0, 0, this.width, this.height);
    context.drawImage(this.ink, 0, 0, this.width, this.height);
    context.fillStyle = c.page;
    context.globalAlpha = 0.72;
    context.fillRect(this.x(time), box.top, box.right - this.x(time), box.bottom - box.top);
    context.globalAlpha = 1;
    context.strokeStyle = c.ink;
    stroke(context, [this.x(time), box.top], [this.x(time), box.bottom]);
    return true;
  }
}
