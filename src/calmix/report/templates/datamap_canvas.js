// An interactive scatter of many points on plain 2D canvases: no library, no GPU. Points are blended into the
// pixels by hand: 200,000 take about 70 ms in headless Chromium without a GPU, against 210 ms as filled squares
// and 850 ms as filled arcs. A grid of cells finds the point under the pointer.
const points = byId("points"), overlay = byId("overlay"), stage = byId("stage"), tooltip = byId("tooltip");
const paint = points.getContext("2d", { willReadFrequently: true });
const sketch = overlay.getContext("2d");

function resize() {
  width = stage.clientWidth; height = stage.clientHeight;
  ratio = Math.min(window.devicePixelRatio || 1, 2);
  for (const canvas of [points, overlay]) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  }
  draw();
}

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function drawFrame() {
  const left = MARGIN.left, right = width - MARGIN.right, top = MARGIN.top, bottom = height - MARGIN.bottom;
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  paint.fillStyle = css("--surface");
  paint.fillRect(0, 0, width, height);
  paint.font = "12px system-ui, sans-serif";
  paint.strokeStyle = css("--grid"); paint.fillStyle = css("--soft"); paint.lineWidth = 1;
  const across = ticks(view.x0, view.x1, Math.max(3, width / 110)), up = ticks(view.y0, view.y1, Math.max(3, height / 80));
  paint.textAlign = "center"; paint.textBaseline = "top";
  for (const value of across.found) {
    const at = Math.round(toX(value)) + 0.5;
    paint.beginPath(); paint.moveTo(at, top); paint.lineTo(at, bottom); paint.stroke();
    paint.fillText(value.toFixed(across.digits), at, bottom + 7);
  }
  paint.textAlign = "right"; paint.textBaseline = "middle";
  for (const value of up.found) {
    const at = Math.round(toY(value)) + 0.5;
    paint.beginPath(); paint.moveTo(left, at); paint.lineTo(right, at); paint.stroke();
    paint.fillText(value.toFixed(up.digits), left - 8, at);
  }
  paint.fillStyle = css("--ink"); paint.font = "600 13px system-ui, sans-serif";
  paint.textAlign = "center"; paint.textBaseline = "bottom";
  paint.fillText(meta.x.title, (left + right) / 2, height - 4);
  paint.save();
  paint.translate(13, (top + bottom) / 2); paint.rotate(-Math.PI / 2);
  paint.fillText(meta.y.title, 0, 6);
  paint.restore();
}

function stamp(radius, opacity) {                  // the pixels of a soft-edged disc, with their weight
  const reach = Math.ceil(radius), cells = [];
  for (let dy = -reach; dy <= reach; dy++) for (let dx = -reach; dx <= reach; dx++) {
    const cover = Math.min(1, Math.max(0, radius + 0.5 - Math.hypot(dx, dy))) * opacity;
    if (cover > 0.02) cells.push([dx, dy, Math.round(cover * 256)]);
  }
  return cells;
}

function drawPoints() {
  const shown = Math.max(activeCount, COUNT / 10, 1);     // a small selection stands out, but does not jump
  const radius = Math.min(4, Math.max(1.35, 26 / Math.pow(shown, 0.26))) * ratio;
  const opacity = Math.min(0.9, Math.max(0.3, 5.5 / Math.pow(shown, 0.24)));
  const image = paint.getImageData(0, 0, points.width, points.height);
  const pixels = image.data, stride = points.width;
  const palette = mode.colours.map(rgb), dim = rgb(asHex(css("--dim")));
  const left = MARGIN.left * ratio, right = (width - MARGIN.right) * ratio;
  const top = MARGIN.top * ratio, bottom = (height - MARGIN.bottom) * ratio;
  const blend = (i, colour, cells) => {
    const cx = Math.round(screenX[i] * ratio), cy = Math.round(screenY[i] * ratio);
    const [red, green, blue] = colour;
    for (let c = 0; c < cells.length; c++) {
      const x = cx + cells[c][0], y = cy + cells[c][1], weight = cells[c][2];
      if (x < left || x >= right || y < top || y >= bottom) continue;
      const at = (y * stride + x) * 4;
      pixels[at] += ((red - pixels[at]) * weight) >> 8;
      pixels[at + 1] += ((green - pixels[at + 1]) * weight) >> 8;
      pixels[at + 2] += ((blue - pixels[at + 2]) * weight) >> 8;
    }
  };
  // A step coprime to the count visits every row once in a scattered order: no class covers the others.
  let step = Math.floor(COUNT * 0.6180339887) || 1;
  const divisor = (a, b) => (b ? divisor(b, a % b) : a);
  while (divisor(step, COUNT) !== 1) step++;
  const small = stamp(Math.max(1, radius * 0.75), 0.35), full = stamp(radius, opacity);
  for (const wanted of activeCount < COUNT ? [0, 1] : [1]) {
    for (let k = 0, i = 0; k < COUNT; k++, i = (i + step) % COUNT) {
      if (active[i] !== wanted) continue;
      const group = mode.group[i];
      if (wanted && group >= 0) blend(i, palette[group], full); else if (!mode.hidden.has(group)) blend(i, dim, small);
    }
  }
  paint.putImageData(image, 0, 0);
}

function indexCells() {                            // counting sort of the active points into cells
  cellColumns = Math.ceil(width / CELL) + 1;
  const cells = cellColumns * (Math.ceil(height / CELL) + 1);
  const where = new Int32Array(COUNT).fill(-1);
  cellStart = new Int32Array(cells + 1);
  for (let i = 0; i < COUNT; i++) {
    const x = screenX[i], y = screenY[i];
    if (!active[i] || x < MARGIN.left - 1 || x > width - MARGIN.right + 1 || y < MARGIN.top - 1 || y > height - MARGIN.bottom + 1) continue;
    where[i] = Math.floor(y / CELL) * cellColumns + Math.floor(x / CELL);
    cellStart[where[i] + 1]++;
  }
  for (let cell = 0; cell < cells; cell++) cellStart[cell + 1] += cellStart[cell];
  const next = cellStart.slice();
  cellRows = new Int32Array(cellStart[cells]);
  for (let i = 0; i < COUNT; i++) if (where[i] >= 0) cellRows[next[where[i]]++] = i;
}

function nearest(x, y) {
  const reach = Math.ceil(REACH / CELL), column = Math.floor(x / CELL), line = Math.floor(y / CELL);
  let best = -1, distance = REACH * REACH, same = 0;
  for (let r = line - reach; r <= line + reach; r++) for (let c = column - reach; c <= column + reach; c++) {
    const cell = r * cellColumns + c;
    if (r < 0 || c < 0 || c >= cellColumns || cell + 1 >= cellStart.length) continue;
    for (let k = cellStart[cell]; k < cellStart[cell + 1]; k++) {
      const i = cellRows[k], dx = screenX[i] - x, dy = screenY[i] - y, d = dx * dx + dy * dy;
      if (d < distance) { best = i; distance = d; same = 0; } else if (d === distance && best >= 0) same++;
    }
  }
  return { row: best, same };
}

function drawOverlay() {
  sketch.setTransform(ratio, 0, 0, ratio, 0, 0);
  sketch.clearRect(0, 0, width, height);
  if (view === home) drawRegionLabels();
  if (brush) {
    const x = toX(brush.x0), y = toY(brush.y1), w = toX(brush.x1) - x, h = toY(brush.y0) - y;
    sketch.globalAlpha = 0.1; sketch.fillStyle = css("--accent"); sketch.fillRect(x, y, w, h);
    sketch.globalAlpha = 1; sketch.strokeStyle = css("--accent"); sketch.lineWidth = 1.5; sketch.strokeRect(x, y, w, h);
  }
  if (focus >= 0 && inPlot([screenX[focus], screenY[focus]]).join() === [screenX[focus], screenY[focus]].join()) {
    sketch.beginPath(); sketch.arc(screenX[focus], screenY[focus], 7, 0, 2 * Math.PI);
    sketch.lineWidth = 4; sketch.strokeStyle = css("--surface"); sketch.stroke();
    sketch.lineWidth = 2; sketch.strokeStyle = css("--ink"); sketch.stroke();
  }
}

// Where regions are so close together that their names would overlap, these would hide the rows: none is drawn.
function drawRegionLabels() {
  sketch.font = "600 13px system-ui, sans-serif";
  const labels = (meta.region_labels || []).map((one) => {
    const half = sketch.measureText(one.text).width / 2 + 20;
    const cx = Math.min(Math.max(toX(one.x), MARGIN.left + half + 4), width - MARGIN.right - half - 4);
    return { ...one, half, cx, cy: Math.min(Math.max(toY(one.y), MARGIN.top + 18), height - MARGIN.bottom - 18) };
  });
  const overlap = (a, b) => a !== b && Math.abs(a.cx - b.cx) < a.half + b.half && Math.abs(a.cy - b.cy) < 30;
  if (!labels.some((one) => labels.some((other) => overlap(one, other)))) labels.forEach(drawRegionLabel);
}

function drawRegionLabel({ text, half, cx, cy, region }) {
  sketch.fillStyle = css("--surface"); sketch.globalAlpha = 0.92;
  sketch.beginPath(); sketch.roundRect(cx - half, cy - 14, 2 * half, 28, 14); sketch.fill();
  sketch.globalAlpha = 1; sketch.strokeStyle = css("--line"); sketch.lineWidth = 1; sketch.stroke();
  sketch.fillStyle = REGION_COLOURS[region];
  sketch.beginPath(); sketch.arc(cx - half + 14, cy, 4.5, 0, 2 * Math.PI); sketch.fill();
  sketch.fillStyle = css("--ink"); sketch.textAlign = "center"; sketch.textBaseline = "middle";
  sketch.fillText(text, cx + 7, cy + 0.5);
}

function draw() {
  if (!width || !height) return;
  for (let i = 0; i < COUNT; i++) { screenX[i] = toX(xs[i]); screenY[i] = toY(ys[i]); }
  drawFrame();
  drawPoints();
  indexCells();
  drawOverlay();
}
