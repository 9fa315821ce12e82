// Runs in a frame with one figure inline and its raster by librsvg: counts the marks that Chromium draws, and those
// of them that the raster has in the same place and colour.
addEventListener('load', async () => {
  const svg = document.querySelector('svg');
  const { width, height } = svg.viewBox.baseVal;
  const SCALE = 2;
  svg.style.cssText = `display: block; width: ${width}px; min-width: 0; height: ${height}px`;

  const pixels = (image) => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [width * SCALE, height * SCALE];
    const context = canvas.getContext('2d');
    context.fillStyle = 'white';
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    return (x, y) => [0, 1, 2].map((k) => data[4 * (y * canvas.width + x) + k] ?? 255);
  };
  const load = (source) => new Promise((done, failed) => {
    const image = new Image();
    image.onload = () => done(image);
    image.onerror = () => failed(new Error('an image does not load'));
    image.src = source;
  });
  const bytes = Uint8Array.from(window.raster.match(/../g), (pair) => parseInt(pair, 16));
  const own = pixels(await load(`data:image/svg+xml;charset=utf-8,${encodeURIComponent(window.figure)}`));
  const other = pixels(await createImageBitmap(new Blob([bytes], { type: 'image/png' })));

  const apart = (a, b) => a.reduce((sum, part, k) => sum + Math.abs(part - b[k]), 0);
  const places = (mark) => {
    const points = [];
    const total = mark.getTotalLength();
    for (let k = 0; k <= 8; k += 1) {
      const point = mark.getPointAtLength(total * k / 8).matrixTransform(mark.getCTM());
      points.push(point);
    }
    const box = mark.getBBox();
    points.push(new DOMPoint(box.x + box.width / 2, box.y + box.height / 2).matrixTransform(mark.getCTM()));
    return points.map(({ x, y }) => [Math.floor(x * SCALE), Math.floor(y * SCALE)])
      .filter(([x, y]) => x >= 0 && y >= 0 && x < width * SCALE && y < height * SCALE);
  };
  // A pixel of the figure around: tips under other marks differ by less.
  const AROUND = [-2, -1, 0, 1, 2];
  const near = (read, [x, y], colour) => AROUND.some((dx) => AROUND
    .some((dy) => apart(read(Math.max(0, x + dx), Math.max(0, y + dy)), colour) < 60));
  let [drawn, same] = [0, 0];
  const missing = [];
  for (const mark of svg.querySelectorAll('path, circle, rect, line')) {
    if (mark.closest('defs, clipPath')) continue;
    const seen = places(mark).filter((place) => apart(own(...place), [255, 255, 255]) > 24);
    if (!seen.length) continue;
    drawn += 1;
    if (seen.some((place) => near(other, place, own(...place)))) same += 1;
    else missing.push(mark.outerHTML.slice(0, 120));
  }
  parent.postMessage({ name: window.figureName, drawn, same, missing: missing.slice(0, 5) }, '*');
});
