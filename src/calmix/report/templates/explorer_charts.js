// The two drawings of the explorer.
const MARKS = { over: "M0 5.2 5.2-4.2H-5.2Z", under: "M0-5.2 5.2 4.2H-5.2Z" };
const KINDS = { over: "red", under: "yellow", within: "blue" };
const WORDS = { over: "overconfident", under: "underconfident", within: "within the noise" };
const kindOf = (bin) => (bin.accuracy < bin.noiseLow ? "over" : bin.accuracy > bin.noiseHigh ? "under" : "within");
function markOf(kind) {
  const attributes = { class: KINDS[kind] };
  return kind === "within" ? shape("circle", { r: 4.5, ...attributes }) : shape("path", { d: MARKS[kind], ...attributes });
}

// ---- reliability ---------------------------------------------------------------------------------------
const HEIGHT = 330, SHARE = 0.8;                   // of the height: the diagram; below it the histogram
function drawReliability(place, bins, n, start, selected, onSelect) {
  const x = { low: start, high: 1, wanted: 5, bottom: "100%", title: "confidence", at: (v) => (v - start) / (1 - start) };
  const y = { low: 0, high: 1, wanted: 5, title: "accuracy", at: (v) => 1 - SHARE + SHARE * v };
  const svg = shape("svg", { class: "plot", height: HEIGHT, role: "group", "aria-label": "Reliability diagram" });
  axes(svg, x, y);
  const most = Math.max(...bins.map((bin) => bin.rows));
  const edges = (bin) => {                         // a bin of one confidence has no width; it is drawn with some
    const left = Math.max(x.at(bin.low), 0), right = Math.min(x.at(bin.high), 1), least = 0.012;
    return right - left >= least ? [left, right] : [Math.max(Math.min((left + right - least) / 2, 1 - least), 0), Math.min(Math.max((left + right + least) / 2, least), 1)];
  };
  const list = shape("g", { role: "listbox", "aria-label": "Bins of confidence", "aria-orientation": "horizontal" });
  const options = bins.map((bin, k) => {
    const [left, right] = edges(bin), inner = 0.06 * (right - left), at = percentOf(Math.min(Math.max(x.at(bin.confidence), 0), 1)), kind = kindOf(bin);
    const box = (low, high, kind) => shape("rect", { x: percentOf(left + inner), width: percentOf(right - left - 2 * inner), y: percentOf(1 - y.at(high)), height: percentOf(Math.max(y.at(high) - y.at(low), 0.002)), class: kind });
    const tall = 0.85 * (1 - SHARE) * bin.rows / most;
    svg.append(box(bin.noiseLow, bin.noiseHigh, "band"),
      shape("rect", { x: percentOf(left + inner), width: percentOf(right - left - 2 * inner), y: percentOf(1 - tall), height: percentOf(tall), class: "histogram" }));
    const option = shape("g", { class: "bin", role: "option", tabindex: k === (selected ?? 0) ? 0 : -1, "aria-selected": String(k === selected), "aria-label": binWords(bin) },
      shape("rect", { x: percentOf(left), width: percentOf(right - left), y: 0, height: "100%", class: "hit" }),
      shape("line", { x1: at, x2: at, y1: percentOf(1 - y.at(bin.accuracyLow)), y2: percentOf(1 - y.at(bin.accuracyHigh)), class: `${KINDS[kind]} stem` }),
      shape("svg", { x: at, y: percentOf(1 - y.at(bin.accuracy)), overflow: "visible" }, markOf(kind)));
    option.addEventListener("click", () => onSelect(k));
    option.addEventListener("mouseenter", () => showTip(option, bin));
    option.addEventListener("mouseleave", hideTip);
    option.addEventListener("focus", () => showTip(option, bin));
    option.addEventListener("blur", hideTip);
    return option;
  });
  list.append(...options);
  list.addEventListener("keydown", (event) => {
    const now = options.indexOf(document.activeElement);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: options.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); onSelect(now); }
    else if (next !== undefined && options[next]) {
      event.preventDefault();
      options[now].setAttribute("tabindex", -1); options[next].setAttribute("tabindex", 0); options[next].focus();
    }
  });
  svg.append(shape("line", { x1: 0, y1: percentOf(1 - y.at(start)), x2: "100%", y2: percentOf(1 - y.at(1)), class: "grey dashed thin" }), list);
  place.replaceChildren(svg);
}
function binWords(bin) {
  return `Confidence ${hundred(bin.low)} to ${hundred(bin.high)} %: ${number(bin.rows)} rows, accuracy ${hundred(bin.accuracy)} % `
    + `[${hundred(bin.accuracyLow)}, ${hundred(bin.accuracyHigh)}], mean confidence ${hundred(bin.confidence)} %, ${WORDS[kindOf(bin)]}`;
}

const tip = element("div", null, { class: "tip", hidden: "" });
function showTip(option, bin) {
  const figure = option.closest("figure"), box = figure.getBoundingClientRect(), own = option.getBoundingClientRect();
  if (tip.parentElement !== figure) figure.append(tip);
  tip.replaceChildren(element("strong", `${number(bin.rows)} rows, ${hundred(bin.low)} to ${hundred(bin.high)} %`),
    element("div", `mean confidence ${hundred(bin.confidence)} %`),
    element("div", `accuracy ${hundred(bin.accuracy)} % [${hundred(bin.accuracyLow)}, ${hundred(bin.accuracyHigh)}]`),
    element("div", `${WORDS[kindOf(bin)]}: ${hundred(bin.noiseLow)} to ${hundred(bin.noiseHigh)} %`));
  tip.hidden = false;
  const left = own.left - box.left + own.width / 2 - tip.offsetWidth / 2;
  tip.style.left = `${Math.max(0, Math.min(left, box.width - tip.offsetWidth))}px`;
  tip.style.top = `${own.top - box.top + 8}px`;
}
function hideTip() { tip.hidden = true; }
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

// ---- risk and coverage ---------------------------------------------------------------------------------
function drawRisk(place, points, threshold) {
  const error = points.at(-1).risk;
  // The first rows alone swing between 0 and 1; they must not set the scale.
  const highest = Math.max(error, ...points.filter((point) => point.coverage >= 0.03).map((point) => point.risk), 0.005) * 1.15;
  const x = { low: 0, high: 1, wanted: 5, bottom: "100%", title: "rows accepted, most confident first", at: (v) => v };
  const y = { low: 0, high: highest, wanted: 4, title: "wrong among the accepted", at: (v) => v / highest };
  const svg = shape("svg", { class: "plot", height: 250, role: "img" });
  axes(svg, x, y);
  const at = points.findLast((point) => point.accepted);
  const drawn = points.length > 500 ? points.filter((_, i) => i % Math.ceil(points.length / 500) === 0 || i === points.length - 1) : points;
  // A path knows no percentages: it is drawn in a square that is stretched, and its line is not.
  const path = drawn.map((point, i) => `${i ? "L" : "M"}${(1000 * point.coverage).toFixed(2)} ${(1000 * (1 - Math.min(y.at(point.risk), 1.05))).toFixed(2)}`).join("");
  if (at) svg.append(shape("rect", { x: 0, y: 0, height: "100%", width: percentOf(at.coverage), class: "blue faint" }));
  svg.append(shape("line", { x1: 0, x2: "100%", y1: percentOf(1 - y.at(error)), y2: percentOf(1 - y.at(error)), class: "grey dashed thin" }));
  svg.append(shape("svg", { width: "100%", height: "100%", viewBox: "0 0 1000 1000", preserveAspectRatio: "none" },
    shape("path", { d: path, class: "blue curve", "vector-effect": "non-scaling-stroke" })));
  if (at) svg.append(shape("svg", { x: percentOf(at.coverage), y: percentOf(1 - Math.min(y.at(at.risk), 1)), overflow: "visible" }, shape("circle", { r: 5, class: "blue ring" })));
  svg.setAttribute("aria-label", `Risk-coverage curve: ${hundred(error)} % wrong where every row is accepted`
    + (at ? `, ${hundred(at.risk)} % where ${hundred(at.coverage)} % are` : ""));
  place.replaceChildren(svg);
}
