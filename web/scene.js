// The link from the side: two directions, each with the queue of its bottleneck, and packets on their way.

import { colours, cross, fit, FONT, legend, upTo } from "./canvas.js";
import { pause, seconds } from "./time.js";

/** Fates of packets, as in the columns of a run. */
export const ARRIVED = 1;
export const LOST = 2;
export const DROPPED = 3;
/** Real time for which a loss is shown. */
const LOSS_SHOWN_S = 0.9;
/** Packets that are drawn in one place. */
const DRAWN_MAX = 300;
/** Fraction of the path after which a lost packet disappears. */
const LOST_AT = 0.55;

const METHODS = ["", "GET", "POST", "PUT", "DELETE", "FETCH", "PATCH", "iPATCH"];

/** The method, or the response code. */
function code(value) {
  if (value === 0) return "empty";
  return METHODS[value] ?? `${value >> 5}.${String(value & 31).padStart(2, "0")}`;
}

/** A TCP segment in words. */
function segment(p, k) {
  const flags = ["FIN", "SYN", "RST", "PSH", "ACK"].filter((_, bit) => p.code[k] >> bit & 1).join(" ");
  const data = p.id[k] ? `${p.id[k]} B from ${p.item[k]}` : "no data";
  return `${flags}, ${data}, acknowledgment ${p.ack[k]}, ${p.bytes[k]} B with headers, transmission ${p.attempt[k] + 1}`;
}

export class LinkScene {
  constructor(canvas, run, list) {
    Object.assign(this, { canvas, run, list });
    const p = run.packets;
    this.count = p.sent.length;
    this.lanes = [];
    this.sums = {};
    canvas.className = "";
  }

  /** Prepares the drawing, in parts that do not block the page. */
  async prepare() {
    const p = this.run.packets;
    for (const up of [0, 1]) {
      this.lanes.push(this.lane(up));
      await pause();
    }
    const columns = { again: [p.again], spurious: [p.spurious], lost: [p.fate, LOST], dropped: [p.fate, DROPPED] };
    for (const [name, column] of Object.entries(columns)) {
      this.sums[name] = prefix(...column);
      await pause();
    }
  }

  /** Packets of a direction, and the latest end of all up to each. */
  lane(up) {
    const p = this.run.packets;
    const spec = up ? this.run.up : this.run.down;
    const usual = spec.delay + spec.extra[1];
    const places = [];
    for (let k = 0; k < this.count; k++) if (p.up[k] === up) places.push(k);
    const sent = Float64Array.from(places, (k) => p.sent[k]);
    const end = Float64Array.from(places, (k) => (p.fate[k] === ARRIVED ? p.arrived[k] : p.departed[k] + usual));
    const ended = new Float64Array(places.length);
    let latest = 0;
    for (let k = 0; k < places.length; k++) ended[k] = latest = Math.max(latest, end[k]);
    return { up, places, sent, end, ended, spec };
  }

  resize() {
    this.colours = colours();
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.context = fit(this.canvas, this.width, this.height);
    const c = this.colours;
    const names = this.run.tcp ? ["segment with data", "acknowledgment"] : ["first transmission", "reply"];
    legend(this.list, [
      [names[0], c.c0, c.c0], [names[1], c.c2, c.c2], ["retransmission", c.c1, "transparent"],
      ["spurious retransmission", c.c3, c.c3], ["lost ✕", c.ink, "transparent"],
    ]);
  }

  draw(time, speed) {
    const { context, width, height, colours: c } = this;
    context.clearRect(0, 0, width, height);
    const narrow = width < 560;
    const host = narrow ? 58 : 92;
    const queue = narrow ? 70 : 190;
    this.host(0, host, this.run.clients === 1 ? "client" : `${this.run.clients} clients`);
    this.host(width - host, host, "server");
    for (const lane of this.lanes) {
      const y = height * (lane.up ? 0.33 : 0.75);
      const [from, to] = lane.up ? [host + 6, width - host - 6] : [width - host - 6, host + 6];
      this.lanePackets(lane, { y, from, to, queue: lane.up ? queue : -queue, narrow }, time, speed);
    }
    context.fillStyle = c.soft;
  }

  host(x, width, name) {
    const { context, height, colours: c } = this;
    context.fillStyle = c.panel;
    context.strokeStyle = c.rule;
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(x + 0.5, height * 0.12, width - 1, height * 0.8, 8);
    context.fill();
    context.stroke();
    context.fillStyle = c.ink;
    context.textAlign = "center";
    context.font = FONT;
    const lines = context.measureText(name).width > width - 8 ? name.split(" ") : [name];
    lines.forEach((line, k) => context.fillText(line, x + width / 2, height * 0.54 + 16 * (k - (lines.length - 1) / 2)));
  }

  lanePackets(lane, at, time, speed) {
    const { context, colours: c } = this;
    const p = this.run.packets;
    const { y, from, to, queue, narrow } = at;
    const head = from + queue;
    const way = Math.sign(queue);
    const tall = 22;
    // Buffer and line.
    context.strokeStyle = c.rule;
    context.lineWidth = 1;
    context.fillStyle = c.panel;
    context.beginPath();
    context.rect(Math.min(from, head), y - tall / 2 - 5, Math.abs(queue), tall + 10);
    context.fill();
    context.stroke();
    context.strokeStyle = c.grid;
    context.lineWidth = tall + 2;
    context.beginPath();
    context.moveTo(head + 2 * way, y);
    context.lineTo(to, y);
    context.stroke();
    const high = upTo(lane.sent, time);
    const shown = LOSS_SHOWN_S * 1e6 * speed;
    const low = upTo(lane.ended, time - shown);
    let [waiting, bytes, x] = [0, 0, head];
    let drawn = 0;
    for (let k = low; k < high && drawn < DRAWN_MAX; k++) {
      const place = lane.places[k];
      const fate = p.fate[place];
      if (fate === DROPPED) {
        this.loss(from + queue * 0.1, y - tall, time - p.sent[place], shown);
        continue;
      }
      if (lane.end[k] + shown < time) continue;
      const size = Math.max(7, Math.min(narrow ? 20 : 30, p.bytes[place] / 12));
      if (time < p.departed[place]) {
        waiting++;
        bytes += p.bytes[place];
        x -= way * (size + 3);
        if ((x - from) * way >= -1) this.packet(place, Math.min(x, x + way * size), y, size, tall);
        continue;
      }
      const share = (time - p.departed[place]) / Math.max(1, lane.end[k] - p.departed[place]);
      if (fate === LOST && share > LOST_AT) {
        const since = time - p.departed[place] - LOST_AT * (lane.end[k] - p.departed[place]);
        this.loss(head + (to - head) * LOST_AT, y, since, shown);
      } else if (share <= 1) {
        const left = head + (to - head - way * size) * share;
        this.packet(place, Math.min(left, left + way * size), y, size, tall);
        drawn++;
      }
    }
    this.labels(lane, at, waiting, bytes, time);
  }

  /** Rate and delay above a lane, its queue below. */
  labels(lane, { y, from, to, queue, narrow }, waiting, bytes, time) {
    const { context, colours: c } = this;
    const { spec } = lane;
    context.font = FONT;
    context.textAlign = "center";
    context.fillStyle = c.soft;
    const now = valuesAt(spec, time);
    const rate = now.rate_bps >= 1e6 ? `${now.rate_bps / 1e6} Mbit/s` : `${now.rate_bps / 1e3} kbit/s`;
    const middle = (from + queue + to) / 2;
    context.fillText(`${lane.up ? "up" : "down"}: ${rate}, ${seconds(now.delay)}`, middle, y - 22);
    const text = narrow ? `${bytes} B` : `queue: ${waiting} ${waiting === 1 ? "packet" : "packets"}, ${bytes} B`;
    context.fillText(text, from + queue / 2, y + 34);
  }

  packet(place, x, y, width, height) {
    const { context, colours: c } = this;
    const p = this.run.packets;
    const isReply = this.run.tcp ? p.id[place] === 0 : p.type[place] > 1 || p.code[place] >= 64;
    const isAgain = p.again[place] === 1;
    const colour = p.spurious[place] ? c.c3 : isAgain ? c.c1 : isReply ? c.c2 : c.c0;
    context.beginPath();
    context.roundRect(x, y - height / 2, width, height, 3);
    if (isAgain && !p.spurious[place]) {
      context.fillStyle = c.page;
      context.fill();
      context.strokeStyle = colour;
      context.lineWidth = 2.5;
      context.stroke();
    } else {
      context.fillStyle = colour;
      context.fill();
    }
  }

  loss(x, y, since, shown) {
    if (since < 0 || since > shown) return;
    const { context, colours: c } = this;
    context.globalAlpha = 1 - since / shown;
    context.strokeStyle = c.ink;
    context.lineWidth = 2.5;
    cross(context, x, y, 6);
    context.globalAlpha = 1;
  }

  /** Counts up to a time, as [name, value]. */
  counts(time) {
    const p = this.run.packets;
    const sent = upTo(p.sent, time);
    const at = (sums) => sums[sent];
    const last = sent > 0 ? sent - 1 : undefined;
    const latest = last === undefined ? "none" : this.run.tcp ? segment(p, last)
      : `${["CON", "NON", "ACK", "RST"][p.type[last]]} ${code(p.code[last])}, Message ID ${p.id[last]}, ${p.bytes[last]} B, exchange ${p.item[last]}, transmission ${p.attempt[last] + 1}`;
    const rtt = upTo(this.run.rtt.at, time);
    const rto = upTo(this.run.rto.at, time);
    return [
      ["Packets sent", `${sent}`],
      ["Retransmissions", `${at(this.sums.again)}, ${at(this.sums.spurious)} of them spurious`],
      ["Lost", `${at(this.sums.lost)} on the way, ${at(this.sums.dropped)} by a full buffer`],
      ["Exchanges", `${upTo(this.run.answered.at, time)} answered, ${upTo(this.run.abandoned.at, time)} given up, ${upTo(this.run.timeouts.at, time)} timeouts`],
      ...(this.run.tcp ? [] : [
        ["Latest RTT", rtt ? seconds(this.run.rtt.value[rtt - 1]) : "none"],
        ["RTO", rto ? seconds(this.run.rto.value[rto - 1]) : "none kept by this controller"],
      ]),
      ["Latest packet", last !== undefined && this.run.clients > 1 ? `client ${p.client[last]}: ${latest}` : latest],
    ];
  }
}

/** Rate and delay of a direction at a time, from its trace if there is one. */
function valuesAt(spec, time) {
  const { trace } = spec;
  if (!trace?.at.length) return spec;
  const into = time + trace.offset;
  if (!trace.loops && into >= trace.length) return spec;
  const row = Math.max(0, upTo(trace.at, into % trace.length) - 1);
  return { rate_bps: trace.rate_bps[row] ?? spec.rate_bps, delay: trace.delay[row] ?? spec.delay };
}

/** Cumulative sums of a column, or counts of `value` if given. */
function prefix(column, value) {
  const sums = new Float64Array(column.length + 1);
  for (let k = 0; k < column.length; k++) sums[k + 1] = sums[k] + (value === undefined ? column[k] : Number(column[k] === value));
  return sums;
}
