// What the reader does: select, search, hover, zoom, download. Row texts only ever become text nodes.

// ---- what is selected ----------------------------------------------------------------------------------
function select() {
  activeCount = 0;
  for (let i = 0; i < COUNT; i++) {
    const inside = !brush || (xs[i] >= brush.x0 && xs[i] <= brush.x1 && ys[i] >= brush.y0 && ys[i] <= brush.y1);
    active[i] = inside && (!matches || matches[i]) && !mode.hidden.has(mode.group[i]) ? 1 : 0;
    activeCount += active[i];
  }
  focus = -1;
  draw();
  showSelection();
}

const dot = (colour) => { const made = element("i"); made.style.background = colour; return made; };
const className = (k) => (k < 0 ? "unknown" : meta.class_names[k]), shownName = (k) => visible(className(k));

function showSelection() {
  const everything = activeCount === COUNT;
  byId("selected-count").textContent = number(activeCount);
  byId("selected-of").textContent = everything ? "rows, nothing selected yet" : `of ${number(COUNT)} rows selected`;
  byId("download").disabled = !activeCount;
  byId("download").textContent = everything ? "Download all" : "Download";
  byId("zoom").disabled = !brush && view === home;
  byId("zoom").textContent = brush ? "Zoom in" : "Zoom out";
  byId("clear").disabled = everything && view === home;
  const bars = byId("bars");
  bars.replaceChildren();
  for (const one of modes) if (one.title) bars.append(...shareBar(one));
  listRows();
}

const percent = (share) => (share < 0.005 ? "< 1 %" : `${(100 * share).toFixed(0)} %`);
function shareBar(one) {
  const counts = one.names.map(() => 0);
  for (let i = 0; i < COUNT; i++) if (active[i] && one.group[i] >= 0) counts[one.group[i]]++;
  const bar = element("div", null, { class: "bar" }), shares = element("div", null, { class: "shares" });
  counts.forEach((count, k) => {
    if (!count) return;
    const part = dot(one.colours[k]);
    part.style.flex = count;
    bar.append(part);
    if (shares.childElementCount < 8) {
      const share = element("span");
      share.append(dot(one.colours[k]), `${one.names[k]} ${percent(count / activeCount)}`);
      shares.append(share);
    }
  });
  return [element("h2", one.title), bar, shares];
}

function listRows() {
  const order = [];
  for (let i = 0; i < COUNT; i++) if (active[i]) order.push(i);
  const rank = Float64Array.from(score[meta.order], (value) => (Number.isNaN(value) ? Infinity : value));
  order.sort((a, b) => (rank[a] === rank[b] ? score.aum[a] - score.aum[b] : rank[a] - rank[b]));
  const list = byId("list");
  list.replaceChildren();
  byId("list-title").textContent = order.length ? meta.list_title : "";
  byId("list-note").textContent = order.length ? meta.list_note : "";
  for (const i of order.slice(0, LIST_LENGTH)) {
    const item = element("li"), row = element("div", null, { class: "row" });
    row.append(element("span", visible(ids[i])), element("span", `AUM ${score.aum[i].toFixed(2)}`));
    item.append(row);
    if (sentences) item.append(element("p", visible(sentences[i])));
    if (code.label) item.append(labelLine(i));
    item.addEventListener("mouseenter", () => { focus = i; drawOverlay(); });
    item.addEventListener("mouseleave", () => { focus = -1; drawOverlay(); });
    list.append(item);
  }
  if (order.length > LIST_LENGTH) {
    list.append(element("li", `and ${number(order.length - LIST_LENGTH)} more: download them to see all`));
  }
}

// ---- corrections ---------------------------------------------------------------------------------------
const corrections = new Map();                     // row -> class
function labelLine(i) {
  const line = element("div", null, { class: "labels" });
  const predicted = code.predicted_label ? shownName(code.predicted_label[i]) : null;
  line.append(element("span", predicted === null ? "" : `predicted ${predicted}`));
  if (code.label[i] < 0) return line;
  const choice = element("select", null, { "aria-label": `Correct label of ${visible(ids[i])}` });
  meta.class_names.forEach((name, k) => {
    choice.append(element("option", k === code.label[i] ? `label: ${visible(name)}` : visible(name), { value: k }));
  });
  choice.value = String(corrections.has(i) ? corrections.get(i) : code.label[i]);
  choice.classList.toggle("corrected", corrections.has(i));
  choice.addEventListener("change", () => {
    const chosen = Number(choice.value);
    if (chosen === code.label[i]) corrections.delete(i); else corrections.set(i, chosen);
    choice.classList.toggle("corrected", corrections.has(i));
    showCorrections();
  });
  line.append(choice);
  return line;
}
function showCorrections() {
  byId("corrections").hidden = !corrections.size;
  byId("download-corrections").textContent =
    `Download ${number(corrections.size)} correction${corrections.size === 1 ? "" : "s"}`;
}
function correctionsCsv() {
  const lines = ["row_id,label,corrected_label"];
  for (const i of [...corrections.keys()].sort((a, b) => a - b)) {
    lines.push([ids[i], className(code.label[i]), className(corrections.get(i))].map(quoted).join(","));
  }
  return lines.join("\n") + "\n";
}
byId("download-corrections").addEventListener("click", () => save("corrections.csv", correctionsCsv()));
byId("drop-corrections").addEventListener("click", () => { corrections.clear(); showCorrections(); listRows(); });

// ---- tooltip -------------------------------------------------------------------------------------------
function facts(i) {
  const found = [];
  for (const name of meta.scores) {
    if (meta.score_titles[name] && !Number.isNaN(score[name][i])) found.push([meta.score_titles[name], score[name][i].toFixed(3)]);
  }
  if (code.correctness) found.push(["right in", `${code.correctness[i]} of ${code.epochs_seen[i]} epochs`]);
  if (code.label) found.push(["label", shownName(code.label[i])]);
  if (code.predicted_label) found.push(["predicted", shownName(code.predicted_label[i])]);
  return found;
}

function showTooltip(i, same) {
  byId("tip-id").textContent = visible(ids[i]);
  byId("tip-region").textContent = code.region && code.region[i] >= 0 ? meta.regions[code.region[i]] : "";
  byId("tip-text").textContent = sentences ? visible(sentences[i]) : "";
  byId("tip-facts").replaceChildren(...facts(i).flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  byId("tip-more").textContent = same ? `and ${number(same)} more at this point` : "";
  tooltip.hidden = false;
  const x = screenX[i], y = screenY[i], w = tooltip.offsetWidth, h = tooltip.offsetHeight;
  tooltip.style.left = `${x + 18 + w < width ? x + 18 : Math.max(4, x - w - 18)}px`;
  tooltip.style.top = `${Math.max(4, Math.min(y - h / 2, height - h - 4))}px`;
}

function hover(x, y) {
  const found = nearest(x, y);
  if (found.row === focus && !tooltip.hidden) return;
  focus = found.row;
  if (focus < 0) tooltip.hidden = true; else showTooltip(focus, found.same);
  drawOverlay();
}

// ---- pointer, keys, controls ---------------------------------------------------------------------------
let drag = null;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const inPlot = ([x, y]) => [clamp(x, MARGIN.left, width - MARGIN.right), clamp(y, MARGIN.top, height - MARGIN.bottom)];
const place = (event) => { const box = overlay.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
overlay.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  drag = inPlot(place(event));
  overlay.setPointerCapture(event.pointerId);
});
overlay.addEventListener("pointermove", (event) => {
  if (!drag) return hover(...place(event));
  const [x, y] = inPlot(place(event));
  if (Math.hypot(x - drag[0], y - drag[1]) < 4 && !brush) return undefined;
  tooltip.hidden = true; focus = -1;
  brush = { x0: fromX(Math.min(x, drag[0])), x1: fromX(Math.max(x, drag[0])),
            y0: fromY(Math.max(y, drag[1])), y1: fromY(Math.min(y, drag[1])) };
  return drawOverlay();
});
overlay.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const [x, y] = inPlot(place(event)), moved = Math.hypot(x - drag[0], y - drag[1]) >= 4, had = brush;
  drag = null;
  if (!moved) brush = null;
  if (moved || had) select();
});
overlay.addEventListener("pointercancel", () => { drag = null; });
overlay.addEventListener("pointerleave", () => { if (!drag) { focus = -1; tooltip.hidden = true; drawOverlay(); } });
let pending = false;
overlay.addEventListener("wheel", (event) => {
  event.preventDefault();
  const [x, y] = place(event), factor = Math.exp(Math.sign(event.deltaY) * 0.18), cx = fromX(x), cy = fromY(y);
  const next = { x0: cx + (view.x0 - cx) * factor, x1: cx + (view.x1 - cx) * factor,
                 y0: cy + (view.y0 - cy) * factor, y1: cy + (view.y1 - cy) * factor };
  setView(next.x1 - next.x0 >= home.x1 - home.x0 ? home : next);
}, { passive: false });
overlay.addEventListener("dblclick", () => { brush = null; setView(home); select(); });
function setView(next) {
  view = next; tooltip.hidden = true; focus = -1;
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; draw(); showSelection(); });
}
byId("zoom").addEventListener("click", () => {
  if (!brush) return setView(home);
  const target = brush;
  brush = null;
  setView(target);
  return select();
});
function clearAll() {
  brush = null; matches = null; byId("search").value = ""; view = home;
  for (const one of modes) one.hidden.clear();
  showLegend(); select();
}
byId("clear").addEventListener("click", clearAll);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") clearAll(); });

let waiting = 0;
byId("search").addEventListener("input", (event) => {
  clearTimeout(waiting);
  waiting = setTimeout(() => search(event.target.value.trim()), 150);
});
function search(wanted) {
  if (!wanted) matches = null;
  else {
    const pattern = new RegExp(wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "iu");
    matches = Uint8Array.from(ids, (id, i) => (pattern.test(id) || (sentences && pattern.test(sentences[i])) ? 1 : 0));
  }
  select();
}

function showLegend() {
  const legend = byId("legend");
  legend.replaceChildren();
  if (mode.title) legend.append(element("span", mode.title));
  mode.names.forEach((name, k) => {
    const button = element("button", null, { "aria-pressed": String(!mode.hidden.has(k)) });
    button.append(dot(mode.colours[k]), name, element("small", number(mode.counts[k])));
    button.addEventListener("click", () => {
      if (!mode.hidden.delete(k)) mode.hidden.add(k);
      showLegend(); select();
    });
    legend.append(button);
  });
}
function showModes() {
  const row = byId("modes");
  row.hidden = modes.length < 2;
  row.replaceChildren(...modes.map((one) => {
    const button = element("button", one.name, { "aria-pressed": String(one === mode) });
    button.addEventListener("click", () => { mode = one; showModes(); showLegend(); select(); });
    return button;
  }));
}

// ---- download ------------------------------------------------------------------------------------------
function csv() {
  const named = { label: className, predicted_label: className, region: (k) => meta.regions[k], correctness: String, epochs_seen: String };
  const codes = meta.codes, scores = meta.scores.filter((name) => meta.score_titles[name]);
  const lines = [["row_id", ...codes, ...scores, ...(sentences ? ["text"] : [])].join(",")];
  for (let i = 0; i < COUNT; i++) {
    if (!active[i]) continue;
    const cells = [ids[i]];
    for (const name of codes) cells.push(code[name][i] < 0 ? "" : named[name](code[name][i]));
    for (const name of scores) cells.push(Number.isNaN(score[name][i]) ? "" : String(Number(score[name][i].toPrecision(7))));
    if (sentences) cells.push(sentences[i]);
    lines.push(csvLine(cells));
  }
  return lines.join("\n") + "\n";
}
byId("download").addEventListener("click", () => save("selection.csv", csv()));

// ---- start ---------------------------------------------------------------------------------------------
window.datamap = {                                 // for the console, and for whoever drives this page
  count: COUNT,
  place: (id) => {
    const i = ids.indexOf(id), box = overlay.getBoundingClientRect();
    return i < 0 ? null : { x: box.left + screenX[i], y: box.top + screenY[i] };
  },
  selected: () => ids.filter((_, i) => active[i]),
};
showModes();
showLegend();
new ResizeObserver(resize).observe(stage);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
resize();
showSelection();
requestAnimationFrame(() => requestAnimationFrame(() => {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}));
