// Runs in a frame with a page of the site: reports widths, pictures, contrast and errors to the page around it.
const errors = [];
addEventListener('error', (event) => errors.push(event.message));
addEventListener('load', () => {
  const root = document.documentElement;
  root.classList.remove('light', 'navy');
  root.classList.add(window.probed.theme);
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const text = luminance(getComputedStyle(document.querySelector('main p, main td')).color);
  const behind = luminance(getComputedStyle(root).backgroundColor);
  const [high, low] = text > behind ? [text, behind] : [behind, text];
  const images = [...document.querySelectorAll('main img')];
  parent.postMessage({
    ...window.probed,
    width: innerWidth,
    overflow: root.scrollWidth - innerWidth,
    // Figures drawn for wide pages, on a phone; and tables that scroll there.
    shrunk: images.filter((image) => innerWidth < 400 && image.currentSrc.endsWith('.svg')
      && !image.currentSrc.endsWith('-narrow.svg')).map((image) => image.currentSrc),
    scrolls: [...document.querySelectorAll(innerWidth < 400 ? 'main .table-wrapper' : '.none')]
      .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.textContent.slice(0, 60)),
    missing: images.filter((image) => !image.naturalWidth).map((image) => image.src),
    contrast: (high + 0.05) / (low + 0.05),
    errors,
  }, '*');
});
