// The page's data and state. The scripts of the data map are joined into one, in this order:
// shared.js, datamap_data.js, datamap_canvas.js, datamap_page.js.
const meta = json("meta");
const texts = json("texts");
const encoded = json("columns");
const COUNT = meta.count;
const MARGIN = { left: 58, right: 18, top: 14, bottom: 46 };
const CELL = 12;            // CSS pixels per cell of the hover grid
const REACH = 12;           // how far from the pointer a point may lie
const LIST_LENGTH = 100;

const column = (name, ArrayType) => numbers(encoded[name], ArrayType);
const score = {};
for (const name of meta.scores) score[name] = column(name, Float32Array);
const code = {};
for (const name of meta.codes) code[name] = column(name, Int16Array);
const xs = score[meta.x.column], ys = score[meta.y.column];
const ids = texts.ids, sentences = texts.texts;

// ---- colours -------------------------------------------------------------------------------------------
const REGION_COLOURS = ["#4477AA", "#CCBB44", "#EE6677"];   // as in the report
const CLASS_COLOURS = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#888888"];
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function ramp(t) {          // red (never right) over yellow to blue (always right)
  const stops = ["#C1344E", "#EE8866", "#DDCC66", "#77AADD", "#2F5F95"].map(rgb);
  const at = t * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
  const mix = stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * (at - low)));
  return "#" + mix.map((value) => value.toString(16).padStart(2, "0")).join("");
}

function correctnessMode() {
  const steps = Math.min(meta.epochs, 10);
  const group = Int16Array.from(code.correctness, (right) => Math.round(right / meta.epochs * steps));
  const names = Array.from({ length: steps + 1 }, (_, step) =>
    steps === meta.epochs ? `${step}/${meta.epochs}` : `${Math.round(100 * step / steps)} %`);
  return { name: "Correctness", title: "Epochs predicted correctly", group, names,
           colours: names.map((_, step) => ramp(step / steps)) };
}
function classMode() {
  const names = meta.class_names.map(visible);
  const colours = names.map((_, k) => CLASS_COLOURS[k] || `hsl(${(k * 137.5) % 360} 55% 52%)`);
  return { name: "Label", title: "Label", group: code.label, names, colours: colours.map(asHex) };
}
function asHex(colour) {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = colour;
  return context.fillStyle;
}
const modes = [];
if (meta.codes.includes("correctness")) modes.push(correctnessMode());
if (meta.codes.includes("region")) {
  modes.push({ name: "Region", title: "Region", group: code.region, names: meta.regions, colours: REGION_COLOURS });
}
if (meta.codes.includes("label")) modes.push(classMode());
if (!modes.length) {
  modes.push({ name: "All", title: "", group: new Int16Array(COUNT), names: ["rows"], colours: ["#4477AA"] });
}
for (const mode of modes) {
  mode.hidden = new Set();
  mode.counts = mode.names.map(() => 0);
  for (let i = 0; i < COUNT; i++) if (mode.group[i] >= 0) mode.counts[mode.group[i]]++;
}

// ---- state ---------------------------------------------------------------------------------------------
let mode = modes[0];
let home = bounds(), view = home;
let brush = null;                                  // in data coordinates
let matches = null;                                // Uint8Array, or null without a search
const active = new Uint8Array(COUNT).fill(1);
let activeCount = COUNT;
let focus = -1;
const screenX = new Float32Array(COUNT), screenY = new Float32Array(COUNT);
let width = 0, height = 0, ratio = 1;
let cellStart = null, cellRows = null, cellColumns = 0;

function bounds() {
  const span = (values, axis) => {
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < COUNT; i++) { low = Math.min(low, values[i]); high = Math.max(high, values[i]); }
    if (!COUNT) return [0, 1];
    if (axis.range) [low, high] = [Math.min(low, axis.range[0]), Math.max(high, axis.range[1])];
    const pad = ((high - low) || 1) * 0.025;
    return [low - pad, high + pad];
  };
  const [x0, x1] = span(xs, meta.x), [y0, y1] = span(ys, meta.y);
  return { x0, x1, y0, y1 };
}
const toX = (value) => MARGIN.left + (value - view.x0) / (view.x1 - view.x0) * (width - MARGIN.left - MARGIN.right);
const toY = (value) => height - MARGIN.bottom - (value - view.y0) / (view.y1 - view.y0) * (height - MARGIN.top - MARGIN.bottom);
const fromX = (at) => view.x0 + (at - MARGIN.left) / (width - MARGIN.left - MARGIN.right) * (view.x1 - view.x0);
const fromY = (at) => view.y0 + (height - MARGIN.bottom - at) / (height - MARGIN.top - MARGIN.bottom) * (view.y1 - view.y0);
