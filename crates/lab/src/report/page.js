// Sorting, filters, tooltips and downloads of a report. The page is complete without them.
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

  // A name that stands once for several lines stands in each of them once they can move.
  const repeatNames = (rows) => {
    rows.forEach((row, index) => {
      const cell = row.cells[0];
      if (index > 0 && cell.textContent === '') {
        cell.textContent = rows[index - 1].cells[0].textContent;
        cell.classList.add('again');
      }
    });
  };

  const sortBy = (table, column) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    repeatNames(rows);
    const heading = table.tHead.rows[0].cells[column];
    const down = heading.getAttribute('aria-sort') === 'ascending';
    for (const other of table.tHead.rows[0].cells) other.setAttribute('aria-sort', 'none');
    heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const text = (row) => row.cells[column].textContent;
    // Missing values stay last in both directions.
    const missing = (row) => text(row) === '–' || text(row) === '';
    rows.sort((a, b) => missing(a) - missing(b) || (down ? -1 : 1) * compare(text(a), text(b)));
    body.append(...rows);
  };

  const FILTER_FROM = 12;
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
    if (table.tBodies[0].rows.length < FILTER_FROM) continue;
    const filter = element('input', { type: 'search', placeholder: 'Filter rows', className: 'filter' });
    filter.setAttribute('aria-label', 'Filter rows');
    filter.addEventListener('input', () => {
      repeatNames([...table.tBodies[0].rows]);
      const words = filter.value.toLowerCase().split(/\s+/);
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
    table.closest('.scroll').before(filter);
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

  const STYLES = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray',
    'stroke-linecap', 'stroke-linejoin', 'font-family', 'font-size', 'font-weight', 'text-anchor'];
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
    const svg = figure.querySelector('svg.figure');
    if (!svg) continue;
    const name = figure.querySelector('figcaption b')?.textContent ?? 'figure';
    const saveSvg = () =>
      save(fileName(name, 'svg'), new Blob([resolved(svg).text], { type: 'image/svg+xml' }));
    figure.append(element('div', { className: 'tools' },
      button('SVG', saveSvg), button('PNG', () => savePng(svg, name))));
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
