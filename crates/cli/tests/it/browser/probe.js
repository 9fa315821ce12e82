// Runs in a frame with a report: tries it as a reader does and sends what it found to the page around it.
addEventListener('load', () => {
  const found = { errors: window.probeErrors, width: innerWidth };
  found.overflow = document.documentElement.scrollWidth - innerWidth;
  const figures = [...document.querySelectorAll('svg.figure')];
  found.marks = figures.map((svg) => svg.querySelectorAll('circle, path, rect, line').length);
  found.clipped = [];
  for (const svg of figures) {
    const outer = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      const beyond = box.left < outer.left - 2 || box.right > outer.right + 2
        || box.top < outer.top - 2 || box.bottom > outer.bottom + 2;
      if (beyond) found.clipped.push(text.textContent);
    }
  }
  found.dead = [...document.querySelectorAll('a[href^="#"]')]
    .map((link) => link.getAttribute('href').slice(1))
    .filter((id) => !document.getElementById(id));
  found.buttons = document.querySelectorAll('figure .tools button').length;

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

  const tip = document.querySelector('svg.figure .tip');
  tip.dispatchEvent(new PointerEvent('pointerover', { bubbles: true, clientX: 50, clientY: 200 }));
  found.tip = document.getElementById('tip').textContent;
  parent.postMessage(found, '*');
});
