// Debian's Chromium by Playwright, with conditions that need no `eval` in the page.
import { chromium } from "playwright-core";

/** Time for one condition in milliseconds. A page may be slow on a busy machine. */
const PATIENCE = 300_000;

export const start = () => chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

/** Waits until an expression is true. Between two pages there is no context to evaluate it in. */
export const wait = async (page, expression) => {
  for (const end = Date.now() + PATIENCE; Date.now() < end;) {
    if (await page.evaluate(expression).catch(() => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not true in ${PATIENCE / 1000} s: ${expression}`);
};

/** Exits with 1 if there are defects. */
export const finish = (defects) => {
  for (const defect of defects) console.log(defect);
  process.exitCode = defects.length ? 1 : 0;
};

/**
 * Runs in a page: its width beyond the window, texts with too little contrast (WCAG 2.2, 1.4.3), and controls
 * without a name.
 */
export const probe = (only) => {
  const LEAST = 4.5;
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map((value) => {
      const share = Number(value) / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      if (!/, 0\)|transparent/.test(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const shown = [...document.querySelectorAll(only)].filter((one) => one.checkVisibility() && !one.disabled);
  const faint = shown.filter((one) => {
    const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const style = getComputedStyle(one);
    const color = one instanceof SVGElement ? style.fill : style.color;
    if (!hasText || one.closest("noscript, option") || !color.startsWith("rgb")) return false;
    const [a, b] = [luminance(color), luminance(background(one))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < LEAST;
  });
  const nameless = shown.filter((one) => one.matches("button, input, select, textarea, canvas, [tabindex='0']"))
    .filter((one) => !(one.labels?.length || one.getAttribute("aria-label") || one.textContent.trim()));
  const overflow = document.documentElement.scrollWidth - innerWidth;
  return [
    ...(overflow > 0 ? [`${overflow} px too wide`] : []),
    ...faint.slice(0, 5).map((one) => `contrast of ${one.tagName} "${one.textContent.slice(0, 20)}"`),
    ...nameless.slice(0, 5).map((one) => `no name: ${one.outerHTML.slice(0, 80)}`),
  ];
};
