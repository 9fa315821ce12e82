// Shows a tab and returns how far it is beyond the page, texts that stand out too little from their background
// (WCAG 2.2, 1.4.3), and controls without a name.
async (tab) => {
  const LEAST = 4.5;
  document.getElementById(`tab-${tab}`).click();
  await new Promise((resolve) => setTimeout(resolve, 300));
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
  const shown = [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility() && !one.disabled);
  const faint = [];
  for (const one of shown) {
    const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!hasText || one.closest("noscript, option")) continue;
    const style = getComputedStyle(one);
    const color = one instanceof SVGElement ? style.fill : style.color;
    if (!color.startsWith("rgb")) continue;
    const [a, b] = [luminance(color), luminance(background(one))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < LEAST) faint.push(`${one.tagName} "${one.textContent.slice(0, 20)}" ${contrast.toFixed(1)}`);
  }
  const nameless = shown.filter((one) => one.matches("button, input, select, textarea, canvas, [tabindex='0']"))
    .filter((one) => !(one.labels?.length || one.getAttribute("aria-label") || one.textContent.trim()))
    .map((one) => one.outerHTML.slice(0, 80));
  return { overflow: document.documentElement.scrollWidth - innerWidth, faint: faint.slice(0, 5), nameless: nameless.slice(0, 5) };
}
