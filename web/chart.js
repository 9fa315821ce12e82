// Small figures as SVG, with the colours and markers of the reports.

const NAMESPACE = "http://www.w3.org/2000/svg";

/** An SVG element with attributes and children. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** A marker of a controller, as path data around (x, y). */
export function marker(kind, x, y, r) {
  const paths = [
    `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
    `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}z`,
    `M${x} ${y - 1.2 * r}L${x + 1.2 * r} ${y + r}H${x - 1.2 * r}z`,
    `M${x - r} ${y - r}L${x + r} ${y + r}M${x + r} ${y - r}L${x - r} ${y + r}`,
    `M${x - r} ${y + r}L${x} ${y - r}L${x + r} ${y + r}`,
  ];
  return paths[kind];
}

/** The key of a controller in lists and tables. */
export function key(look) {
  const path = svg("path", {
    d: marker(look.marker, 8, 8, 4), stroke: "currentColor", "stroke-width": 2,
    fill: look.marker > 3 ? "none" : "currentColor",
  });
  return svg("svg", { width: 16, height: 16, class: `k${look.colour}`, "aria-hidden": "true" }, path);
}

const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "12 4"];

/** The dash pattern of a controller's line: controllers of one colour differ in it. */
export function dash(look) {
  return DASHES[look.marker];
}

/** Three significant digits without an exponent. */
export function digits(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.max(0, Math.min(6, 2 - size)));
}

/** Round values between low and high, at most `most` of them. */
export function ticks(low, high, most) {
  const raw = (high - low) / Math.max(1, most);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw);
  const all = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) all.push(Number((k * step).toPrecision(12)));
  return all;
}

/** Text of a tick without a tail of zeros. */
export function tick(value) {
  return String(Number(value.toPrecision(6)));
}

/** Margins of a figure; names are on the left. */
function frame(width, height, left) {
  return { left, right: width - 14, top: 8, bottom: height - 30, width, height };
}

function base(box, label) {
  return svg("svg", { viewBox: `0 0 ${box.width} ${box.height}`, class: "chart", role: "img", "aria-label": label });
}

function axis(root, box, x, low, high, label) {
  for (const value of ticks(low, high, Math.max(3, box.width / 110))) {
    root.append(svg("line", { x1: x(value), x2: x(value), y1: box.top, y2: box.bottom, class: "grid" }));
    root.append(svg("text", { x: x(value), y: box.bottom + 15, "text-anchor": "middle", class: "tick" }, tick(value)));
  }
  root.append(svg("text", { x: box.right, y: box.bottom + 28, "text-anchor": "end", class: "tick" }, label));
}

/** Cumulative distributions: lines of {name, look, values sorted}. */
export function distribution(width, lines, label) {
  const box = frame(width, Math.min(300, Math.max(220, width * 0.36)), 44);
  const root = base(box, `Cumulative distribution of ${label}`);
  const all = lines.filter((line) => line.values.length);
  if (!all.length) return root;
  const low = Math.min(...all.map((line) => line.values[0]));
  let high = Math.max(...all.map((line) => line.values.at(-1)));
  if (high === low) high = low + (Math.abs(low) || 1) * 0.1;
  const x = (value) => box.left + (value - low) / (high - low) * (box.right - box.left);
  const y = (share) => box.bottom - share * (box.bottom - box.top);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    root.append(svg("line", { x1: box.left, x2: box.right, y1: y(share), y2: y(share), class: "grid" }));
    root.append(svg("text", { x: box.left - 7, y: y(share) + 4, "text-anchor": "end", class: "tick" }, `${share * 100} %`));
  }
  axis(root, box, x, low, high, label);
  for (const line of all) {
    const n = line.values.length;
    const stride = Math.max(1, Math.floor(n / 400));
    let path = `M${x(line.values[0]).toFixed(1)} ${y(0).toFixed(1)}`;
    for (let k = 0; k < n; k += stride) path += `H${x(line.values[k]).toFixed(1)}V${y(Math.min(1, (k + stride) / n)).toFixed(1)}`;
    root.append(svg("path", {
      d: path, fill: "none", stroke: "currentColor", "stroke-width": 2, "stroke-linejoin": "round",
      "stroke-dasharray": dash(line.look), class: `k${line.look.colour}`,
    }, svg("title", {}, line.name)));
  }
  return root;
}

/** Intervals around differences, with a line at zero: rows of {name, look, mean, half}. */
export function intervals(width, rows, label) {
  const left = width < 500 ? 108 : 150;
  const box = frame(width, rows.length * 26 + 46, left);
  const root = base(box, `Paired differences of ${label}`);
  const ends = rows.filter((row) => row.half !== undefined).flatMap((row) => [row.mean - row.half, row.mean + row.half]);
  let low = Math.min(0, ...ends);
  let high = Math.max(0, ...ends);
  const room = (high - low || 1) * 0.06;
  [low, high] = [low - room, high + room];
  const x = (value) => box.left + (value - low) / (high - low) * (box.right - box.left);
  axis(root, box, x, low, high, label);
  root.append(svg("line", { x1: x(0), x2: x(0), y1: box.top, y2: box.bottom, class: "zero" }));
  rows.forEach((row, k) => {
    const y = box.top + 26 * k + 17;
    root.append(svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, row.name));
    const group = svg("g", { class: `k${row.look.colour}`, stroke: "currentColor", "stroke-width": 2 });
    if (row.half !== undefined) {
      const [a, b] = [x(row.mean - row.half), x(row.mean + row.half)];
      group.append(svg("path", { d: `M${a} ${y}H${b}M${a} ${y - 5}v10M${b} ${y - 5}v10`, fill: "none" }));
      const fill = row.look.marker > 3 ? "none" : "currentColor";
      group.append(svg("path", { d: marker(row.look.marker, x(row.mean), y, 4.5), fill }));
    } else {
      group.append(svg("text", { x: x(0) + 8, y: y + 4, class: "tick", stroke: "none" }, row.note ?? ""));
    }
    root.append(group);
  });
  return root;
}
