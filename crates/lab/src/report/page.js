// Sorting, filters, tooltips, series to hide, scales to change, zoom and downloads of a report. The page is complete
// without them.
(() => {
  'use strict';

  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  const save = (name, blob) => {
    const url = URL.createObjectURL(blob);
    element('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };

  const fileName = (text, extension) =>
    `${text.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '') || 'figure'}.${extension}`;

  // Tables: a click on a heading sorts, text above filters.

  const NUMBER = /^[\u2212-]?[\d\u202f]+(\.\d+)?/;
  const number = (text) => {
    const match = NUMBER.exec(text.trim());
    return match ? Number(match[0].replace(/\u202f/g, '').replace('\u2212', '-')) : null;
  };
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if ((x === null) !== (y === null)) return x === null ? 1 : -1;
    return x === null ? a.localeCompare(b) : x - y;
  };

  const sortBy = (table, column, wanted) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    // A name that is shown once for several lines is shown in each of them once they can move.
    table.classList.add('moved');
    const heading = table.tHead.rows[0].cells[column];
    const down = wanted ?? heading.getAttribute('aria-sort') === 'ascending';
    for (const other of table.tHead.rows[0].cells) other.setAttribute('aria-sort', 'none');
    heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const text = (row) => row.cells[column].textContent;
    // Missing values stay last in both directions.
    const missing = (row) => text(row) === '–' || text(row) === '';
    rows.sort((a, b) => missing(a) - missing(b) || (down ? -1 : 1) * compare(text(a), text(b)));
    body.append(...rows);
  };

  const FILTER_FROM = 12;
  const CHOICES_FROM = 100;
  const CHOICES_MAX = 8;
  // A menu for each column of words with few different values, in a table too long to look through.
  const choicesOf = (table) => {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < CHOICES_FROM) return [];
    return [...table.tHead.rows[0].cells].flatMap((heading, column) => {
      const values = [...new Set(rows.map((row) => row.cells[column].textContent))].sort();
      if (heading.classList.contains('right') || values.length < 2 || values.length > CHOICES_MAX) return [];
      const name = heading.textContent;
      const select = element('select', { className: 'filter' }, element('option', { value: '' }, `${name}: all`),
        ...values.map((text) => element('option', { value: text }, text)));
      select.setAttribute('aria-label', name);
      return [{ column, select }];
    });
  };
  // Cards have no headings to click, and an element that is no table on the screen is still one to a reader's program.
  const asCards = (table) => {
    for (const [selector, role] of [['thead, tbody', 'rowgroup'], ['tr', 'row'], ['th', 'columnheader'], ['td', 'cell']]) {
      for (const part of table.querySelectorAll(selector)) part.setAttribute('role', role);
    }
    table.setAttribute('role', 'table');
    const headings = [...table.tHead.rows[0].cells].map((heading) => heading.textContent);
    const options = headings.flatMap((name, column) => ['rising', 'falling'].map((order, down) =>
      element('option', { value: `${column} ${down}`, textContent: `${name}, ${order}` })));
    const select = element('select', { className: 'sort' }, element('option', { value: '', textContent: 'Sort by' }), ...options);
    select.setAttribute('aria-label', 'Sort by');
    select.addEventListener('change', () => {
      if (select.value === '') return;
      const [column, down] = select.value.split(' ').map(Number);
      sortBy(table, column, Boolean(down));
    });
    return select;
  };
  for (const table of document.querySelectorAll('table')) {
    if (!table.tHead || table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      heading.setAttribute('aria-sort', 'none');
      heading.tabIndex = 0;
      heading.classList.add('sortable');
      heading.addEventListener('click', () => sortBy(table, column));
      heading.addEventListener('keydown', (event) => {
        if (event.key === 'Enter' || event.key === ' ') {
          event.preventDefault();
          sortBy(table, column);
        }
      });
    });
    const before = (...added) => table.closest('.scroll').before(...added);
    if (table.classList.contains('cards')) before(asCards(table));
    if (table.tBodies[0].rows.length < FILTER_FROM) continue;
    const filter = element('input', { type: 'search', placeholder: 'Filter rows', className: 'filter' });
    filter.setAttribute('aria-label', 'Filter rows');
    const choices = choicesOf(table);
    const apply = () => {
      table.classList.add('moved');
      const words = filter.value.toLowerCase().split(/\s+/);
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        const chosen = ({ column, select }) => select.value === '' || row.cells[column].textContent === select.value;
        row.hidden = !words.every((word) => text.includes(word)) || !choices.every(chosen);
      }
    };
    filter.addEventListener('input', apply);
    for (const { select } of choices) select.addEventListener('change', apply);
    before(...choices.map(({ select }) => select), filter);
  }

  // Figures: values at a pointer or a finger, and files with the colours of this page.

  const tip = element('div', { id: 'tip', hidden: true });
  tip.setAttribute('role', 'status');
  document.body.append(tip);
  const show = (group, x, y) => {
    tip.textContent = group.getAttribute('aria-label');
    tip.hidden = false;
    const right = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(x + 12, right)) + scrollX}px`;
    tip.style.top = `${Math.max(8, y - tip.offsetHeight - 12) + scrollY}px`;
  };
  for (const title of document.querySelectorAll('svg.figure .tip > title')) {
    title.parentNode.setAttribute('aria-label', title.textContent);
    title.remove();
  }
  document.addEventListener('pointerover', (event) => {
    const group = event.target.closest?.('svg.figure .tip');
    if (group) show(group, event.clientX, event.clientY);
    else tip.hidden = true;
  });

  // Charts: data attributes state the scales of a panel and the names of its layers.

  const SVG = document.querySelector('svg.figure')?.namespaceURI;
  const drawn = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const scaleOf = (text) => {
    const [mapping, low, high, from, to] = text.split(' ').map((part, k) => (k ? Number(part) : part));
    return { log: mapping === 'log', low, high, from, to };
  };
  const part = ({ log, low, high }, value) =>
    (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  const pixel = (scale, value) => {
    const inside = scale.log ? Math.max(value, scale.low) : value;
    return scale.from + part(scale, inside) * (scale.to - scale.from);
  };
  const value = ({ log, low, high, from, to }, at) => {
    const share = (at - from) / (to - from);
    return log ? low * (high / low) ** share : low + share * (high - low);
  };
  const short = (at) => String(Math.round(at * 10) / 10);

  // Round ticks: 1, 2 or 5 times a power of ten; in logarithms over decades the powers alone.
  const ticksOf = ({ log, low, high }, wanted) => {
    const ticks = [];
    if (log) {
      const steps = Math.log10(high / low) > 4 ? [1] : [1, 2, 5];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        for (const step of steps) ticks.push(step * 10 ** power);
      }
    } else {
      const raw = (high - low) / wanted;
      const power = 10 ** Math.floor(Math.log10(raw));
      const step = power * [1, 2, 5, 10].find((factor) => raw <= factor * power * 1.000001);
      for (let at = Math.ceil(low / step - 1e-9); at <= high / step + 1e-9; at += 1) ticks.push(at * step);
    }
    return ticks.filter((tick) => tick >= low * (1 - 1e-9) - 1e-12 && tick <= high * (1 + 1e-9));
  };
  const label = (tick) => {
    const [whole, rest] = String(Number(tick.toPrecision(6))).split('.');
    const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, '\u202f') : whole;
    return rest ? `${grouped}.${rest}` : grouped;
  };

  // Moves an element's absolute coordinates; relative ones are those of marks, which keep their size.
  const CUT = /[a-zA-Z][^a-zA-Z]*/g;
  const moved = (data, x, y) => data.replace(CUT, (command) => {
    const numbers = command.slice(1).trim().split(/[ ,]+/).map(Number);
    switch (command[0]) {
      case 'M': case 'L': return `${command[0]}${short(x(numbers[0]))} ${short(y(numbers[1]))}`;
      case 'H': return `H${short(x(numbers[0]))}`;
      case 'V': return `V${short(y(numbers[0]))}`;
      default: return command;
    }
  });
  const move = (target, x, y) => {
    target.original ??= ['d', 'x', 'y', 'width', 'height'].map((name) => target.getAttribute(name));
    const [d, left, top, width, height] = target.original;
    if (d !== null) {
      target.setAttribute('d', moved(d, x, y));
    } else if (width !== null) {
      const [x0, x1] = [x(Number(left)), x(Number(left) + Number(width))];
      const [y0, y1] = [y(Number(top)), y(Number(top) + Number(height))];
      for (const [name, at] of [['x', Math.min(x0, x1)], ['width', Math.abs(x1 - x0)],
        ['y', Math.min(y0, y1)], ['height', Math.abs(y1 - y0)]]) target.setAttribute(name, short(at));
    } else if (left !== null) {
      target.setAttribute('x', short(x(Number(left))));
      target.setAttribute('y', short(y(Number(top))));
    }
  };

  const axis = (panel, name, scale) => {
    const group = panel.querySelector(`[data-axis="${name}"]`);
    group.original ??= [...group.childNodes];
    const labels = group.original.filter((node) => node.matches?.('text.tick'));
    const ends = [panel.x0, panel.y0];
    const rest = group.original.filter((node) =>
      !node.matches?.('text.tick') && !(node.matches?.('line') && isTick(node, name, ends)));
    const fresh = ticksOf(scale, name === 'x' ? 6 : 5).flatMap((tick) => {
      const at = short(pixel(scale, tick));
      const { from, to } = name === 'x' ? panel.y0 : panel.x0;
      const line = name === 'x'
        ? drawn('line', { class: 'rule', x1: at, x2: at, y1: from, y2: from + 5 })
        : drawn('line', { class: 'grid', x1: from, x2: to, y1: at, y2: at });
      if (!labels.length) return [line];
      const like = labels[0];
      const place = name === 'x' ? { x: at, y: like.getAttribute('y') }
        : { x: like.getAttribute('x'), y: short(Number(at) + 4) };
      return [line, drawn('text', { class: like.getAttribute('class'), ...place }, label(tick))];
    });
    group.replaceChildren(...fresh, ...rest);
  };
  const isTick = (line, name, [x0, y0]) => (name === 'x'
    ? line.getAttribute('x1') === line.getAttribute('x2') && Number(line.getAttribute('y1')) === y0.from
    : line.classList.contains('grid') && Number(line.getAttribute('x1')) === x0.from);

  let clips = 0;
  const redraw = (panel) => {
    const from = (old, now) => (at) => pixel(now, value(old, at));
    const [x, y] = [from(panel.x0, panel.x), from(panel.y0, panel.y)];
    const layers = panel.querySelector('.layers');
    for (const target of layers.querySelectorAll('path, rect, text')) move(target, x, y);
    if (panel.x !== panel.x0 || panel.axes?.x) axis(panel, 'x', panel.x);
    if (panel.y !== panel.y0 || panel.axes?.y) axis(panel, 'y', panel.y);
    panel.axes = { x: panel.axes?.x || panel.x !== panel.x0, y: panel.axes?.y || panel.y !== panel.y0 };
    if (layers.hasAttribute('clip-path')) return;
    const { x0, y0 } = panel;
    const clip = drawn('clipPath', { id: `clip-${clips += 1}` });
    const room = { x: x0.from - 4, y: y0.to - 4, width: x0.to - x0.from + 8, height: y0.from - y0.to + 8 };
    clip.append(drawn('rect', room));
    panel.prepend(clip);
    layers.setAttribute('clip-path', `url(#${clip.id})`);
  };

  // Both layouts of a figure hide and show the same.
  const toggle = (key) => {
    const name = key.dataset.key;
    const off = !key.classList.contains('off');
    for (const part of key.closest('figure').querySelectorAll('[data-series], .key')) {
      if ((part.dataset.series ?? part.dataset.key) !== name) continue;
      part.classList.toggle('off', off);
      if (part.dataset.key) part.setAttribute('aria-pressed', String(!off));
    }
  };
  const zoomable = (svg, panels, whole) => {
    const at = (event) => {
      const inverse = svg.getScreenCTM().inverse();
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(inverse);
      const under = panels.find(({ x0, y0 }) => point.x >= x0.from - 4 && point.x <= x0.to + 4
        && point.y >= y0.to && point.y <= y0.from);
      return { point, under };
    };
    let band = null;
    svg.addEventListener('pointerdown', (event) => {
      const { point, under } = at(event);
      if (!under || event.button !== 0 || event.pointerType === 'touch') return;
      const { y0 } = under;
      band = { panel: under, from: point.x, rect: drawn('rect', { class: 'zoom', y: y0.to, height: y0.from - y0.to }) };
      under.append(band.rect);
    });
    const ends = (event) => {
      const { x0 } = band.panel;
      return [band.from, Math.min(Math.max(at(event).point.x, x0.from), x0.to)].sort((a, b) => a - b);
    };
    addEventListener('pointermove', (event) => {
      if (!band) return;
      const [from, to] = ends(event);
      band.rect.setAttribute('x', from);
      band.rect.setAttribute('width', to - from);
    });
    addEventListener('pointerup', (event) => {
      if (!band) return;
      const [from, to] = ends(event);
      const { panel } = band;
      band.rect.remove();
      band = null;
      if (to - from < 6) return;
      toRange(panel, value(panel.x, from), value(panel.x, to));
    });

    // Two fingers zoom about the times under them; one pans what is zoomed.
    const toRange = (panel, low, high) => {
      const { x0 } = panel;
      const width = Math.min(high - low, x0.high - x0.low);
      if (!(width > (x0.high - x0.low) / 1000)) return;
      const from = Math.min(Math.max(low, x0.low), x0.high - width);
      for (const one of panels) {
        one.x = { ...one.x0, low: from, high: from + width };
        redraw(one);
      }
      whole.hidden = false;
    };
    const fingers = new Map();
    let gesture = null;
    const begin = (panel) => {
      const places = [...fingers.values()];
      gesture = panel && places.length
        ? { panel, x: panel.x, places }
        : null;
    };
    svg.addEventListener('pointerdown', (event) => {
      const { point, under } = at(event);
      if (!under || event.pointerType !== 'touch' || fingers.size === 2) return;
      fingers.set(event.pointerId, { x: point.x });
      begin(under);
    });
    addEventListener('pointermove', (event) => {
      if (!gesture || !fingers.has(event.pointerId)) return;
      fingers.set(event.pointerId, { x: at(event).point.x });
      const { panel, x, places } = gesture;
      const now = [...fingers.values()];
      const { from, to } = panel.x0;
      if (now.length === 2) {
        const [a, b] = places.map((place) => value(x, place.x));
        const each = (b - a) / (now[1].x - now[0].x);
        const low = a - (now[0].x - from) * each;
        if (each > 0) toRange(panel, low, low + (to - from) * each);
      } else if (x.low !== panel.x0.low || x.high !== panel.x0.high) {
        const shift = value(x, places[0].x) - value(x, now[0].x);
        toRange(panel, x.low + shift, x.high + shift);
      }
    });
    for (const name of ['pointerup', 'pointercancel']) {
      addEventListener(name, (event) => {
        if (fingers.delete(event.pointerId)) begin(gesture?.panel);
      });
    }
    svg.addEventListener('dblclick', () => whole.click());
  };

  for (const svg of document.querySelectorAll('svg.figure')) {
    const panels = [...svg.querySelectorAll('.panel')];
    for (const panel of panels) {
      [panel.x0, panel.y0] = [scaleOf(panel.dataset.x), scaleOf(panel.dataset.y)];
      [panel.x, panel.y] = [panel.x0, panel.y0];
    }
    for (const key of svg.querySelectorAll('.key')) {
      key.tabIndex = 0;
      key.setAttribute('role', 'button');
      key.setAttribute('aria-pressed', 'true');
      key.addEventListener('click', () => toggle(key));
      key.addEventListener('keydown', (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        toggle(key);
      });
    }
    svg.buttons = [];
    const change = panels.filter((panel) => panel.dataset.least && panel.y0.high > 0);
    if (change.length) {
      const names = ['Linear axis', 'Logarithmic axis'];
      const log = change[0].y0.log;
      const other = element('button', { type: 'button', textContent: names[Number(!log)] });
      other.addEventListener('click', () => {
        const now = !change[0].y.log;
        for (const panel of change) {
          const { y0, dataset: { least } } = panel;
          const low = now ? Math.min(Number(least), y0.high / 10) : 0;
          panel.y = now === log || now === y0.log ? y0 : { ...y0, log: now, low };
          redraw(panel);
        }
        other.textContent = names[Number(!now)];
      });
      svg.buttons.push(other);
    }
    if (svg.dataset.zoom) {
      const whole = element('button', { type: 'button', textContent: 'Whole time', hidden: true });
      whole.addEventListener('click', () => {
        for (const panel of panels) {
          panel.x = panel.x0;
          redraw(panel);
        }
        whole.hidden = true;
      });
      svg.buttons.push(whole);
      zoomable(svg, panels, whole);
    }
  }

  const STYLES = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray',
    'stroke-linecap', 'stroke-linejoin', 'display', 'font-family', 'font-size', 'font-weight', 'text-anchor',
    'paint-order'];
  const resolved = (svg) => {
    const copy = svg.cloneNode(true);
    const from = [svg, ...svg.querySelectorAll('*')];
    [copy, ...copy.querySelectorAll('*')].forEach((target, index) => {
      const style = getComputedStyle(from[index]);
      for (const name of STYLES) target.setAttribute(name, style.getPropertyValue(name));
      target.removeAttribute('class');
    });
    const { width, height } = svg.viewBox.baseVal;
    copy.setAttribute('width', width);
    copy.setAttribute('height', height);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };
  const SCALE = 2;
  const savePng = (svg, name) => {
    const { text, width, height } = resolved(svg);
    const picture = new Image();
    picture.onload = () => {
      const canvas = element('canvas', { width: SCALE * width, height: SCALE * height });
      const context = canvas.getContext('2d');
      context.fillStyle = getComputedStyle(document.body).backgroundColor;
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.drawImage(picture, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(fileName(name, 'png'), blob));
    };
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  };
  const button = (text, onclick) => element('button', { type: 'button', textContent: text, onclick });
  for (const figure of document.querySelectorAll('figure')) {
    const name = figure.querySelector('figcaption b')?.textContent ?? 'figure';
    for (const svg of figure.querySelectorAll('svg.figure')) {
      const saveSvg = () =>
        save(fileName(name, 'svg'), new Blob([resolved(svg).text], { type: 'image/svg+xml' }));
      figure.append(element('div', { className: 'tools' },
        button('SVG', saveSvg), button('PNG', () => savePng(svg, name)), ...svg.buttons));
    }
  }

  // Text: copy a command, save values.

  for (const command of document.querySelectorAll('pre.command')) {
    const copy = button('Copy', async () => {
      try {
        await navigator.clipboard.writeText(command.textContent);
      } catch {
        getSelection().selectAllChildren(command);
        document.execCommand('copy');
      }
      copy.textContent = 'Copied';
      setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
    });
    command.after(element('div', { className: 'tools' }, copy));
  }
  for (const values of document.querySelectorAll('pre.all')) {
    const name = values.parentNode.querySelector('summary').textContent;
    values.before(element('div', { className: 'tools' }, button('Save', () =>
      save(fileName(name, 'csv'), new Blob([values.textContent], { type: 'text/csv' })))));
  }
})();
