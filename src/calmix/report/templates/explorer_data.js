// The predictions of the page, and what they say at a temperature.
const data = json("explorer-data");
const CLASSES = data.classes.length;
const LEAST = Math.log(2 ** -52);                  // of a probability of 0, as in calmix.calibration.predictions
for (const split of data.splits) {
  if (split.kind === "rows") {
    split.logits = numbers(split.logits, split.precision === 32 ? Float32Array : Float64Array);
    split.labels = numbers(split.labels, Int32Array);
  } else {
    split.edges = numbers(split.edges, Float64Array);
    if (split.confusion) split.confusion = numbers(split.confusion, Uint32Array);
    for (const stage of split.stages) {
      stage.cell = numbers(stage.cell, Uint16Array);
      for (const name of ["rows", "right"]) stage[name] = numbers(stage[name], Uint32Array);
      for (const name of ["confidence", "by_class"]) stage[name] = numbers(stage[name], Float64Array);
    }
  }
}
const isLarge = data.splits.some((split) => split.kind === "cells");
// A large page knows the temperatures of its grid alone.
const GRID = isLarge ? data.splits.find((split) => split.kind === "cells").stages.map((stage) => stage.temperature) : null;

const scratch = new Float64Array(1), bits = new BigInt64Array(scratch.buffer);
function nextAbove(value) { scratch[0] = value; bits[0] += 1n; return scratch[0]; }    // value >= 0

function viewRows(split, temperature) {
  const n = split.n, certain = new Float64Array(n), predicted = new Int32Array(n), correct = new Uint8Array(n);
  let loss = 0;
  for (let i = 0, at = 0; i < n; i++, at += CLASSES) {
    let best = 0, top = -Infinity, sum = 0;
    for (let k = 0; k < CLASSES; k++) if (split.logits[at + k] > split.logits[at + best]) best = k;
    top = split.logits[at + best] / temperature;
    for (let k = 0; k < CLASSES; k++) sum += Math.exp(split.logits[at + k] / temperature - top);
    const gold = split.logits[at + split.labels[i]] / temperature - top - Math.log(sum);
    loss -= gold === -Infinity ? LEAST : gold;
    certain[i] = 1 / sum; predicted[i] = best; correct[i] = best === split.labels[i] ? 1 : 0;
  }
  const order = Uint32Array.from(certain, (_, i) => i).sort((a, b) => certain[a] - certain[b] || a - b);
  const view = { n, nll: loss / n, certain, predicted, correct, order, start: [], confidence: [], lower: [], rows: [], right: [] };
  for (let place = 0; place < n; place++) {
    const i = order[place], last = view.confidence.length - 1;
    if (last < 0 || certain[i] !== view.confidence[last]) {
      view.start.push(place); view.confidence.push(certain[i]);
      view.lower.push(last < 0 ? 0 : nextAbove(view.confidence[last])); view.rows.push(1); view.right.push(correct[i]);
    } else { view.rows[last]++; view.right[last] += correct[i]; }
  }
  view.start.push(n);
  return view;
}

function viewCells(split, temperature) {
  const stage = split.stages.reduce((near, one) =>
    Math.abs(Math.log(one.temperature / temperature)) < Math.abs(Math.log(near.temperature / temperature)) ? one : near);
  return { n: split.n, nll: stage.nll, confidence: stage.confidence, lower: Array.from(stage.cell, (cell) => split.edges[cell]),
           rows: stage.rows, right: stage.right, by_class: stage.by_class };
}
const views = new Map();                           // by split, of the last temperature
function viewOf(split, temperature) {
  const known = views.get(split);
  if (known && known.temperature === temperature) return known;
  const view = split.kind === "rows" ? viewRows(split, temperature) : viewCells(split, temperature);
  view.temperature = temperature;
  views.set(split, view);
  return view;
}

function totals(view) {
  let right = 0, said = 0;
  for (let g = 0; g < view.rows.length; g++) { right += view.right[g]; said += view.rows[g] * view.confidence[g]; }
  return { accuracy: right / view.n, confidence: said / view.n };
}

// Labels by predicted class, and the sum of confidence by predicted class.
function byClass(split, view) {
  if (split.kind === "cells") return { confusion: split.confusion, said: view.by_class };
  const confusion = new Uint32Array(CLASSES * CLASSES), said = new Float64Array(CLASSES);
  for (let i = 0; i < view.n; i++) {
    confusion[split.labels[i] * CLASSES + view.predicted[i]]++;
    said[view.predicted[i]] += view.certain[i];
  }
  return { confusion, said };
}
