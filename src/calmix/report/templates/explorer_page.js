// What the reader does: split, bins, temperature, threshold, and the rows behind what is shown.
const LISTED = 100;
const state = { split: null, mass: false, bins: data.bins, temperature: data.temperature, threshold: null, target: data.target, chosen: null };
const splitOf = (name) => data.splits.find((split) => split.name === name);
let current = null;                                // view, bins and points of what is shown

function update() {
  const view = viewOf(state.split, state.temperature), bins = binned(view, state.bins, state.mass, data.closed);
  const judge = splitOf("validation") || state.split, judged = viewOf(judge, state.temperature);
  const certified = guaranteedThreshold(judged, state.target);
  if (state.threshold === null) setThreshold(certified ? certified.threshold : 0);
  const points = riskCoverage(view);
  points.forEach((point, i) => { point.accepted = view.confidence[view.rows.length - 1 - i] >= state.threshold; });
  current = { view, bins, points, certified, judge };
  const all = totals(view), ece = calibrationError(bins, view.n);
  current.values = { n: view.n, accuracy: all.accuracy, confidence: all.confidence, nll: view.nll, ece,
                     noise: expectedNoise(bins, view.n), certified };
  const about = state.split.kind === "cells" ? "≈ " : "";
  showReadouts([["Rows", number(view.n)], ["Accuracy", `${hundred(all.accuracy)} %`], ["Mean confidence", `${hundred(all.confidence)} %`],
    ["NLL", view.nll.toFixed(4)], ["ECE", `${about}${hundred(ece, 2)} %`], ["Noise floor of the ECE", `${about}${hundred(current.values.noise, 2)} %`],
    ["Certified threshold", certified ? certified.threshold.toFixed(4) : "none"]]);
  showControls();
  // No top-label confidence lies below 1/C: the axis starts at the edge of that bin.
  const least = Math.min(1 / CLASSES, ...bins.map((bin) => bin.low));
  const start = state.mass ? Math.floor(20 * least) / 20 : Math.floor(least * state.bins + 1e-9) / state.bins;
  const chosen = state.chosen && state.chosen.kind === "bin" ? bins.findIndex((bin) => bin.bin === state.chosen.bin) : -1;
  drawReliability(byId("reliability"), bins, view.n, Math.min(start, 0.9), chosen < 0 ? null : chosen, (k) => choose({ kind: "bin", bin: bins[k].bin }, true));
  drawRisk(byId("risk"), points, state.threshold);
  showAccepted(); showBinTable(); showClasses(); showRows();
}
function showReadouts(pairs) {
  byId("readouts").replaceChildren(...pairs.map(([name, value]) => {
    const one = element("div");
    one.append(element("dt", name), element("dd", value));
    return one;
  }));
}
function showControls() {
  byId("bins-shown").textContent = state.bins;
  byId("temperature-shown").textContent = state.temperature.toFixed(3);
  byId("threshold-shown").textContent = state.threshold.toFixed(4);
}

// ---- acceptance ----------------------------------------------------------------------------------------
function setThreshold(value) { state.threshold = value; byId("threshold").value = value; }
function showAccepted() {
  const { points, view, certified, judge } = current, at = points.findLast((point) => point.accepted);
  current.accepted = at ? { rows: at.rows, wrong: at.wrong } : { rows: 0, wrong: 0 };
  if (!at) byId("accepted").textContent = "No row is this confident: nothing is accepted.";
  else {
    const [low, high] = clopperPearson(at.wrong, at.rows);
    byId("accepted").textContent = `${number(at.rows)} of ${number(view.n)} rows are accepted (${hundred(at.coverage)} %); `
      + `${number(at.wrong)} of them are wrong: ${hundred(at.risk, 2)} % [${hundred(low, 2)}, ${hundred(high, 2)}].`;
  }
  const target = `${hundred(state.target, 1)} %`, where = `${number(judge.n)} rows of ${judge.name}`;
  byId("guarantee").textContent = (certified
    ? `Guarantee: at confidence ≥ ${certified.threshold.toFixed(4)} new rows like those of ${judge.name} are right in at least ${target} of cases, with 95 % confidence; ${hundred(certified.coverage)} % of the ${where} are accepted.`
    : `The ${where} certify no threshold for an accuracy of ${target} at 95 % confidence: lower the target, or collect more.`)
    + " On other data, read the curve of that data.";
  byId("certified").disabled = !certified;
}

// ---- tables --------------------------------------------------------------------------------------------
function rowOf(cells, heading = true) {
  const row = element("tr");
  cells.forEach((cell, k) => row.append(k === 0 && heading ? element("th", cell, { scope: "row" }) : element("td", cell, { class: "number" })));
  return row;
}
function showBinTable() {
  byId("bin-table").tBodies[0].replaceChildren(...current.bins.map((bin) => rowOf([
    `${hundred(bin.low)} to ${hundred(bin.high)}`, number(bin.rows), hundred(bin.confidence),
    `${hundred(bin.accuracy)} [${hundred(bin.accuracyLow)}, ${hundred(bin.accuracyHigh)}]`,
    signed(bin.confidence - bin.accuracy), `${hundred(bin.noiseLow)} to ${hundred(bin.noiseHigh)}`])));
}
const signed = (share) => `${share >= 0 ? "+" : "−"}${hundred(Math.abs(share))}`;

function showClasses() {
  const { confusion, said } = byClass(state.split, current.view);
  const table = byId("confusion"), lines = [];
  if (!confusion) { byId("class-table").closest(".panel").hidden = true; return; }
  const count = (label, predicted) => confusion[label * CLASSES + predicted];
  const order = data.classes.map((_, k) => k);
  const labels = order.map((k) => order.reduce((sum, j) => sum + count(k, j), 0)), chosen = order.map((k) => order.reduce((sum, j) => sum + count(j, k), 0));
  for (const k of order) {
    const right = count(k, k), [low, high] = chosen[k] ? clopperPearson(right, chosen[k]) : [0, 1];
    lines.push(rowOf([visible(data.classes[k]), number(labels[k]), number(chosen[k]), labels[k] ? hundred(right / labels[k]) : "–",
      chosen[k] ? `${hundred(right / chosen[k])} [${hundred(low)}, ${hundred(high)}]` : "–",
      chosen[k] ? hundred(said[k] / chosen[k]) : "–", chosen[k] ? signed((said[k] - right) / chosen[k]) : "–"]));
  }
  byId("class-table").tBodies[0].replaceChildren(...lines);
  const pairs = order.flatMap((label) => order.map((predicted) => ({ label, predicted, rows: count(label, predicted) })));
  if (CLASSES <= 10) matrix(table, order, count, labels); else largest(table, pairs);
}
function named(name, attributes) {
  const head = element("th", null, attributes);
  head.append(element("span", visible(name), { class: "name" }));
  return head;
}
function matrix(table, order, count, labels) {
  byId("confusion-title").textContent = "Confusion: labels down, predictions across; select a cell to see its rows";
  const head = element("tr");
  head.append(element("th", "Label", { scope: "col" }), ...order.map((k) => named(data.classes[k], { scope: "col", class: "number" })));
  table.tHead.replaceChildren(head);
  table.tBodies[0].replaceChildren(...order.map((label) => {
    const row = element("tr");
    row.append(named(data.classes[label], { scope: "row" }), ...order.map((predicted) => {
      const cell = element("td"), share = labels[label] ? count(label, predicted) / labels[label] : 0;
      const button = pairButton(label, predicted, count(label, predicted));
      button.style.background = `color-mix(in srgb, var(${label === predicted ? "--blue" : "--red"}) ${Math.round(42 * share)}%, transparent)`;
      cell.append(button);
      return cell;
    }));
    return row;
  }));
}
function largest(table, pairs) {
  byId("confusion-title").textContent = "The most frequent confusions; select one to see its rows";
  const head = element("tr");
  head.append(...["Label", "Predicted"].map((text) => element("th", text, { scope: "col" })), element("th", "Rows", { scope: "col", class: "number" }));
  table.tHead.replaceChildren(head);
  const wrong = pairs.filter((pair) => pair.label !== pair.predicted && pair.rows).sort((a, b) => b.rows - a.rows).slice(0, 25);
  table.tBodies[0].replaceChildren(...wrong.map((pair) => {
    const row = element("tr"), cell = element("td");
    cell.append(pairButton(pair.label, pair.predicted, pair.rows));
    row.append(element("th", visible(data.classes[pair.label]), { scope: "row" }), element("td", visible(data.classes[pair.predicted])), cell);
    return row;
  }));
}
function pairButton(label, predicted, rows) {
  const button = element("button", number(rows), { type: "button", class: "cell" });
  button.setAttribute("aria-label", `${number(rows)} rows of ${visible(data.classes[label])} predicted as ${visible(data.classes[predicted])}`);
  const isChosen = state.chosen && state.chosen.kind === "pair" && state.chosen.label === label && state.chosen.predicted === predicted;
  button.setAttribute("aria-pressed", String(Boolean(isChosen)));
  button.addEventListener("click", () => choose({ kind: "pair", label, predicted }, true));
  return button;
}

// ---- rows ----------------------------------------------------------------------------------------------
function chosenRows() {                            // { title, rows: [{ id, label, predicted, confidence, text }] }
  const { view, bins } = current, split = state.split, chosen = state.chosen;
  if (split.kind === "cells") {
    const wanted = (row) => !chosen || chosen.kind !== "pair" || (row.label === chosen.label && row.predicted === chosen.predicted);
    return { title: "Confident mistakes", rows: split.mistakes.filter(wanted),
             note: `This page holds the ${split.mistakes.length} most confident mistakes of ${split.name}, at the fitted temperature; the other rows are in the run's predictions.` };
  }
  const row = (i) => ({ id: split.ids[i], label: split.labels[i], predicted: view.predicted[i], confidence: view.certain[i], text: split.texts ? split.texts[i] : null });
  const downwards = Array.from(view.order).reverse();
  if (chosen && chosen.kind === "bin") {
    const bin = bins.find((one) => one.bin === chosen.bin);
    if (bin) {
      const inside = Array.from(view.order.subarray(view.start[bin.first], view.start[bin.last + 1])).reverse();
      return { title: `Rows with confidence ${hundred(bin.low)} to ${hundred(bin.high)} %`, rows: inside.map(row),
               note: `${number(bin.right)} of ${number(bin.rows)} are right (${hundred(bin.accuracy)} %); mean confidence ${hundred(bin.confidence)} %.` };
    }
  }
  if (chosen && chosen.kind === "pair") {
    const inside = downwards.filter((i) => split.labels[i] === chosen.label && view.predicted[i] === chosen.predicted);
    return { title: `${visible(data.classes[chosen.label])} predicted as ${visible(data.classes[chosen.predicted])}`, rows: inside.map(row), note: `${number(inside.length)} rows, the most confident first.` };
  }
  const wrong = downwards.filter((i) => !view.correct[i]);
  return { title: "Confident mistakes", rows: wrong.map(row), note: `${number(wrong.length)} rows of ${split.name} are wrong, the most confident first. Read them: some labels may be wrong, not the model.` };
}
function showRows() {
  const found = chosenRows();
  current.rows = found.rows;
  byId("rows-title").textContent = found.title;
  byId("rows-note").textContent = found.note;
  byId("download").disabled = !found.rows.length;
  byId("mistakes").disabled = !state.chosen;
  byId("rows").replaceChildren(...found.rows.slice(0, LISTED).map((row) => {
    const item = element("li"), head = element("div", null, { class: "head" });
    const verdict = row.label === row.predicted ? `${className(row.label)} ✓` : `${className(row.label)} → ${className(row.predicted)} ✗`;
    head.append(element("span", `${visible(row.id)} · ${verdict}`), element("span", `${hundred(row.confidence, 2)} %`));
    item.append(head);
    if (row.text !== null) item.append(element("p", visible(row.text), { class: "text" }));
    return item;
  }));
  if (found.rows.length > LISTED) byId("rows").append(element("li", `and ${number(found.rows.length - LISTED)} more: download them to see all`));
}
const className = (k) => visible(data.classes[k]);
function choose(what, focuses) {
  const held = document.activeElement && document.activeElement.closest(".bin") ? what.bin : null;
  state.chosen = what;
  update();
  if (held !== null) byId("reliability").querySelector('.bin[aria-selected="true"]')?.focus();
  else if (focuses && document.activeElement === document.body) byId("rows-title").focus({ preventScroll: true });
}
function csv() {
  const hasTexts = current.rows.some((row) => row.text !== null);
  const lines = [["split", "row_id", "label", "predicted_label", "confidence", ...(hasTexts ? ["text"] : [])].join(",")];
  for (const row of current.rows) {
    lines.push(csvLine([state.split.name, row.id, data.classes[row.label], data.classes[row.predicted], row.confidence, ...(hasTexts ? [row.text ?? ""] : [])]));
  }
  return lines.join("\n") + "\n";
}

// ---- controls ------------------------------------------------------------------------------------------
let waiting = false;
function soon(change) {                            // a slider moves faster than a page is drawn
  change();
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; update(); });
}
for (const input of document.querySelectorAll('input[name="split"]')) {
  input.addEventListener("change", () => soon(() => { state.split = data.splits[Number(input.value)]; if (state.chosen?.kind === "bin") state.chosen = null; }));
}
for (const input of document.querySelectorAll('input[name="mass"]')) {
  input.addEventListener("change", () => soon(() => { state.mass = input.value === "1"; if (state.chosen?.kind === "bin") state.chosen = null; }));
}
byId("bins").value = state.bins;
byId("bins").addEventListener("input", () => soon(() => { state.bins = Number(byId("bins").value); if (state.chosen?.kind === "bin") state.chosen = null; }));
const slider = byId("temperature");
const steps = GRID ? { min: 0, max: GRID.length - 1, step: 1 } : { min: -1, max: 1, step: 0.002 };   // log10
for (const [name, value] of Object.entries(steps)) slider.setAttribute(name, value);
const placeOf = (temperature) => (GRID ? GRID.reduce((near, one, k) => (Math.abs(one - temperature) < Math.abs(GRID[near] - temperature) ? k : near), 0) : Math.log10(temperature));
const words = () => slider.setAttribute("aria-valuetext", `temperature ${state.temperature.toFixed(3)}`);
function setTemperature(value) { state.temperature = value; slider.value = placeOf(value); state.threshold = null; words(); }
slider.addEventListener("input", () => soon(() => {
  state.temperature = GRID ? GRID[Number(slider.value)] : 10 ** Number(slider.value);
  state.threshold = null; words();
}));
byId("raw").addEventListener("click", () => soon(() => setTemperature(1)));
byId("fitted").textContent = `fitted: ${data.temperature.toFixed(3)}`;
byId("fitted").addEventListener("click", () => soon(() => setTemperature(data.temperature)));
byId("threshold").addEventListener("input", () => soon(() => { state.threshold = Number(byId("threshold").value); }));
byId("target").addEventListener("input", () => soon(() => {
  const wanted = Number(byId("target").value) / 100;
  if (wanted >= 0.5 && wanted < 1) { state.target = wanted; state.threshold = null; }
}));
byId("certified").addEventListener("click", () => soon(() => { state.threshold = null; }));
byId("mistakes").addEventListener("click", () => soon(() => { state.chosen = null; }));
byId("download").addEventListener("click", () => save("rows.csv", csv()));
byId("reliability-legend").append(...Object.keys(WORDS).map((kind) => {
  const item = element("li"), picture = shape("svg", { width: 12, height: 12, "aria-hidden": "true" });
  picture.append(shape("g", { transform: "translate(6 6)" }, markOf(kind)));
  item.append(picture, WORDS[kind]);
  return item;
}));

// ---- start ---------------------------------------------------------------------------------------------
state.split = data.splits[Number(document.querySelector('input[name="split"]:checked').value)];
setTemperature(data.temperature);
update();
window.explorer = { state, values: () => ({ ...current.values, accepted: current.accepted, threshold: state.threshold, temperature: state.temperature }), bins: () => current.bins,
                    set: (changes) => { Object.assign(state, changes); update(); } };
requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = String(Math.round(performance.now())); }));
