/** Lets the page handle input before work goes on. */
export function pause() {
  return new Promise((resolve) => setTimeout(resolve));
}

/** A time in microseconds as text with its unit. */
export function seconds(us) {
  if (us >= 1e8) return `${(us / 1e6).toFixed(0)} s`;
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  return `${(us / 1e3).toFixed(us < 1e4 ? 2 : 0)} ms`;
}
