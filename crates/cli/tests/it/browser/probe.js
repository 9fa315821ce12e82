// Runs in a frame with a report: operates it like a reader and posts the findings to the parent page.
addEventListener('load', () => {
  const found = { errors: window.probeErrors, width: innerWidth };
  found.overflow = document.documentElement.scrollWidth - innerWidth;
  const isShown = (node) => node.getClientRects().length > 0;
  const all = [...document.querySelectorAll('svg.figure')];
  const figures = all.filter(isShown);
  found.marks = figures.map((svg) => svg.querySelectorAll('circle, path, rect, line').length);
  found.clipped = [];
  found.small = [];
  found.scrolls = [...document.querySelectorAll('.scroll')]
    .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.textContent.slice(0, 80));
  for (const svg of figures) {
    const outer = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      const beyond = box.left < outer.left - 2 || box.right > outer.right + 2
        || box.top < outer.top - 2 || box.bottom > outer.bottom + 2;
      if (beyond) found.clipped.push(text.textContent);
      const size = parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a;
      if (size < 9) found.small.push(`${size} ${text.textContent}`);
    }
  }
  found.dead = [...document.querySelectorAll('a[href^="#"]')]
    .map((link) => link.getAttribute('href').slice(1))
    .filter((id) => !document.getElementById(id));
  found.saves = [...document.querySelectorAll('figure .tools button')]
    .filter((button) => ['SVG', 'PNG'].includes(button.textContent) && isShown(button)).length;

  const table = document.querySelector('table');
  const headings = [...table.tHead.rows[0].cells];
  const column = headings.findLastIndex((heading) => heading.classList.contains('right'));
  const values = () => [...table.tBodies[0].rows].map((row) => row.cells[column].textContent);
  found.before = values();
  headings[column].click();
  found.ascending = values();
  headings[column].click();
  found.descending = values();
  found.unnamed = [...table.tBodies[0].rows].filter((row) => row.cells[0].textContent === '').length;

  const filter = document.querySelector('input.filter');
  if (filter) {
    filter.value = 'tcp-newreno';
    filter.dispatchEvent(new Event('input'));
    const rows = [...filter.nextElementSibling.querySelectorAll('tbody tr')];
    found.filtered = [rows.filter((row) => !row.hidden).length, rows.length];
  }

  const tip = figures.map((svg) => svg.querySelector('.tip')).find((one) => one);
  tip.dispatchEvent(new PointerEvent('pointerover', { bubbles: true, clientX: 50, clientY: 200 }));
  found.tip = document.getElementById('tip').textContent;

  // Light or dark: least contrast of texts, and of marks that carry a colour.
  const channels = (text) => text.match(/[\d.]+/g).map(Number);
  const luminance = (text) => {
    const [r, g, b] = channels(text).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const page = getComputedStyle(document.body).backgroundColor;
  found.dark = matchMedia('(prefers-color-scheme: dark)').matches;
  found.background = luminance(page);
  const least = (selector, property) => Math.min(...[...document.querySelectorAll(selector)]
    .map((node) => contrast(getComputedStyle(node)[property], page)));
  found.textContrast = Math.min(least('p, td, th, figcaption', 'color'), least('svg.figure text:not(.on-dark)', 'fill'));
  found.markContrast = least('svg.figure .median, svg.figure .rto, svg.figure .whisker', 'stroke');

  // Charts: a key hides its series, a button changes the scale, a drag zooms; each of them goes back.
  const state = (svg) => [...svg.querySelectorAll('.layers path, .layers rect')]
    .map((node) => node.getAttribute('d') ?? `${node.getAttribute('x')} ${node.getAttribute('y')} ${node.getAttribute('height')}`);
  const near = (a, b) => a.length === b.length && a.every((text, k) => {
    const [x, y] = [text, b[k]].map((one) => (one.match(/-?[\d.]+/g) ?? []).map(Number));
    return x.length === y.length && x.every((at, n) => Math.abs(at - y[n]) < 0.35);
  });
  const ticks = (svg, axis) => [...svg.querySelectorAll(`[data-axis="${axis}"] text.tick`)].map((node) => node.textContent);
  const button = (svg, text) => svg.buttons.find((one) => one.textContent.includes(text));
  found.keys = [];
  found.scales = [];
  found.zooms = [];
  for (const svg of figures) {
    const key = svg.querySelector('.key');
    if (key) {
      const layers = [...svg.querySelectorAll('[data-series]')].filter((one) => one.dataset.series === key.dataset.key);
      const shown = () => layers.filter((one) => getComputedStyle(one).display !== 'none').length;
      const before = shown();
      key.dispatchEvent(new MouseEvent('click', { bubbles: true }));
      const hidden = shown();
      const pressed = key.getAttribute('aria-pressed');
      key.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
      found.keys.push({ before, hidden, pressed, after: shown() });
    }
    const change = button(svg, 'axis');
    if (change) {
      const [marks, labels, text] = [state(svg), ticks(svg, 'y'), change.textContent];
      change.click();
      const [other, otherLabels, otherText] = [state(svg), ticks(svg, 'y'), change.textContent];
      change.click();
      found.scales.push({
        name: svg.getAttribute('aria-label'),
        moved: !near(marks, other),
        relabelled: labels.join() !== otherLabels.join(),
        renamed: text !== otherText,
        finite: !other.some((one) => /NaN|Infinity/.test(one)),
        back: near(marks, state(svg)),
      });
    }
    if (svg.dataset.zoom) {
      const panel = svg.querySelector('.panel');
      const [, , , x0, x1] = panel.dataset.x.split(' ').map(Number);
      const [, , , y0, y1] = panel.dataset.y.split(' ').map(Number);
      const client = (share) => new DOMPoint(x0 + share * (x1 - x0), (y0 + y1) / 2).matrixTransform(svg.getScreenCTM());
      const send = (name, share) => {
        const { x, y } = client(share);
        svg.dispatchEvent(new PointerEvent(name, { bubbles: true, clientX: x, clientY: y, button: 0, pointerType: 'mouse' }));
      };
      const [marks, labels] = [state(svg), ticks(svg, 'x')];
      send('pointerdown', 0.25);
      send('pointermove', 0.4);
      send('pointerup', 0.5);
      const [zoomed, zoomedLabels, whole] = [state(svg), ticks(svg, 'x'), button(svg, 'Whole time')];
      const offered = !whole.hidden;
      whole.click();
      const back = near(marks, state(svg)) && whole.hidden;

      // Two fingers move apart, then one of them moves.
      const finger = (name, pointerId, share) => {
        const { x, y } = client(share);
        svg.dispatchEvent(new PointerEvent(name, { bubbles: true, clientX: x, clientY: y, pointerId, button: 0, pointerType: 'touch' }));
      };
      finger('pointerdown', 1, 0.4);
      finger('pointerdown', 2, 0.6);
      finger('pointermove', 2, 0.8);
      const pinched = [state(svg), ticks(svg, 'x')];
      finger('pointerup', 2, 0.8);
      finger('pointermove', 1, 0.6);
      const panned = state(svg);
      finger('pointerup', 1, 0.6);
      const pinches = !near(marks, pinched[0]) && labels.join() !== pinched[1].join() && !whole.hidden;
      whole.click();
      found.zooms.push({
        pinches,
        pans: !near(panned, pinched[0]),
        name: svg.getAttribute('aria-label'),
        moved: !near(marks, zoomed),
        relabelled: labels.join() !== zoomedLabels.join(),
        clipped: svg.querySelector('.layers').hasAttribute('clip-path'),
        offered,
        back: back && near(marks, state(svg)) && whole.hidden,
      });
    }
  }
  parent.postMessage(found, '*');
});
