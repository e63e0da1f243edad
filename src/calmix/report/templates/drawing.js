// Axes and shapes. Positions are percentages of the drawing area, as in calmix.report.pages.plot.
const percentOf = (share) => `${(100 * share).toFixed(3)}%`;
function shape(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
const hundred = (share, digits = 1) => (100 * share).toFixed(digits);

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough * (1 - 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}
function axes(svg, x, y) {                         // fractions, written as percentages
  for (const [axis, isX] of [[y, false], [x, true]]) {
    const { found, digits } = ticks(100 * axis.low, 100 * axis.high, axis.wanted);
    for (const tick of found) {
      const at = percentOf(isX ? x.at(tick / 100) : 1 - y.at(tick / 100)), text = `${tick.toFixed(digits)} %`;
      svg.append(shape("line", isX ? { x1: at, x2: at, y1: 0, y2: axis.bottom, class: "grid" } : { x1: 0, x2: "100%", y1: at, y2: at, class: "grid" }));
      svg.append(isX ? shape("text", { x: at, y: "100%", dy: "1.5em", class: "tick middle" }, text)
                     : shape("text", { x: -8, y: at, dy: "0.32em", class: "tick end" }, text));
    }
  }
  svg.append(shape("text", { x: "50%", y: "100%", dy: "3.1em", class: "axis middle" }, x.title));
  svg.append(shape("text", { x: -44, y: -10, class: "axis" }, y.title));
}
