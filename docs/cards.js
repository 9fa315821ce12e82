// Tables that are wider than a phone's page: each row is a card, in which the names of columns are above the values.
// Sentences have a line of the card for themselves.
(() => {
  'use strict';
  const SENTENCE = 40; // characters
  const tables = [...document.querySelectorAll('main table')].filter((table) => table.tHead);
  for (const table of tables) {
    const names = [...table.tHead.rows[0].cells].map((heading) => heading.textContent);
    for (const body of table.tBodies) {
      for (const row of body.rows) {
        [...row.cells].forEach((cell, column) => {
          if (column > 0 && names[column]) cell.dataset.h = names[column];
          cell.classList.toggle('sentence', cell.textContent.length > SENTENCE);
        });
      }
    }
  }
  const phone = matchMedia('(max-width: 688px)');
  const fit = () => {
    for (const table of tables) {
      table.classList.remove('cards');
      if (phone.matches && table.scrollWidth > table.parentElement.clientWidth) table.classList.add('cards');
    }
  };
  addEventListener('resize', fit);
  fit();
})();
