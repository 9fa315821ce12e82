// Canvases with the colours of the page and sharp pixels.

/** The current colours of the page. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["page", "ink", "soft", "rule", "grid", "panel", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "bad"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

export const FONT = '12px "Inter", "Source Sans 3", "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif';

/** Fits the pixels of a canvas to its size on the page, and returns its context in CSS pixels. */
export function fit(canvas, width, height) {
  const ratio = Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = FONT;
  context.lineJoin = "round";
  return context;
}

/** The number of values at most `limit` in a sorted column. */
export function upTo(column, limit) {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A cross of half-width r. */
export function cross(context, x, y, r) {
  context.beginPath();
  context.moveTo(x - r, y - r);
  context.lineTo(x + r, y + r);
  context.moveTo(x + r, y - r);
  context.lineTo(x - r, y + r);
  context.stroke();
}

/** A triangle with its tip upwards. */
export function triangle(context, x, y, r) {
  context.beginPath();
  context.moveTo(x, y - 1.2 * r);
  context.lineTo(x + 1.1 * r, y + 0.9 * r);
  context.lineTo(x - 1.1 * r, y + 0.9 * r);
  context.closePath();
}

/** Fills a legend: items of [text, function that styles a swatch]. */
export function legend(list, items) {
  list.replaceChildren(...items.map(([text, border, fill]) => {
    const item = document.createElement("li");
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.borderColor = border;
    swatch.style.background = fill;
    item.append(swatch, text);
    return item;
  }));
}
