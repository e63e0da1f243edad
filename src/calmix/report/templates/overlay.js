// The reliability curves of the methods of a comparison, to be switched on and off.
const methods = json("overlay-data");
const on = new Set(methods.arms.map((arm) => arm.name));
const FORMS = { square: "M-4.2-4.2H4.2V4.2H-4.2Z", diamond: "M0-5.5 5.5 0 0 5.5-5.5 0Z", up: "M0-5.2 5.2 4.2H-5.2Z", down: "M0 5.2 5.2-4.2H-5.2Z" };
const markOfArm = (arm) => (arm.mark === "circle" ? shape("circle", { r: 4.5, class: arm.kind }) : shape("path", { d: FORMS[arm.mark], class: arm.kind }));
const checked = (name) => document.querySelector(`input[name="${name}"]:checked`).value;

function drawOverlay() {
  const split = checked("overlay-split"), stage = checked("overlay-stage");
  const curveOf = (arm) => methods.curves[arm.name][split]?.[stage] ?? [];
  const least = Math.min(0.95, ...methods.arms.flatMap((arm) => curveOf(arm).map((point) => Math.min(point[0], point[1])))), start = Math.floor(10 * least) / 10;
  const at = (value) => (value - start) / (1 - start);
  const x = { low: start, high: 1, wanted: 5, bottom: "100%", title: "confidence", at }, y = { low: start, high: 1, wanted: 5, title: "accuracy", at };
  const shown = methods.arms.filter((arm) => on.has(arm.name));
  const svg = shape("svg", { class: "plot", height: 380, role: "img", "aria-label": `Reliability curves on ${split}: ${shown.map((arm) => arm.name).join(", ")}` });
  axes(svg, x, y);
  svg.append(shape("line", { x1: 0, y1: "100%", x2: "100%", y2: 0, class: "grey dashed thin" }));
  for (const arm of shown) {
    const points = curveOf(arm), place = ([said, right]) => [percentOf(at(said)), percentOf(1 - at(right))];
    points.slice(1).forEach((point, k) => {
      const [x1, y1] = place(points[k]), [x2, y2] = place(point);
      svg.append(shape("line", { x1, y1, x2, y2, class: `${arm.kind} thin` }));
    });
    for (const point of points) {
      const [px, py] = place(point), mark = markOfArm(arm);
      mark.append(shape("title", {}, `${arm.name}: confidence ${hundred(point[0])} %, accuracy ${hundred(point[1])} %, ${number(point[2])} rows`));
      svg.append(shape("svg", { x: px, y: py, overflow: "visible" }, mark));
    }
  }
  byId("overlay").replaceChildren(svg);
}
for (const arm of methods.arms) {
  const label = element("label"), box = element("input", null, { type: "checkbox", checked: "", value: arm.name });
  const picture = shape("svg", { width: 12, height: 12, "aria-hidden": "true", overflow: "visible" }, shape("g", { transform: "translate(6 6)" }, markOfArm(arm)));
  box.addEventListener("change", () => { if (box.checked) on.add(arm.name); else on.delete(arm.name); drawOverlay(); });
  label.append(box, picture, visible(arm.name));
  byId("overlay-arms").append(label);
}
for (const input of document.querySelectorAll('input[name^="overlay-"]')) input.addEventListener("change", drawOverlay);
drawOverlay();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
