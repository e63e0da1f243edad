// Every page: drawings can be saved, tables sorted, wide tables say that they go on.

// ---- drawings as files ---------------------------------------------------------------------------------
const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "fill-opacity", "opacity",
                "font-size", "font-family", "font-weight", "text-anchor"];
function svgFile(svg) {                            // with the style of the page written into it, and in pixels
  const copy = svg.cloneNode(true), box = svg.getBoundingClientRect();
  const originals = [svg, ...svg.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  let left = 0, top = 0, right = box.width, bottom = box.height;
  originals.forEach((one, i) => {
    const style = getComputedStyle(one);
    copies[i].setAttribute("style", STYLED.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    if (one.tagName === "text") {
      const place = one.getBoundingClientRect();
      left = Math.min(left, place.left - box.left); top = Math.min(top, place.top - box.top);
      right = Math.max(right, place.right - box.left); bottom = Math.max(bottom, place.bottom - box.top);
    }
  });
  left -= 8; top -= 8; right += 8; bottom += 8;
  const place = (name, value) => copy.setAttribute(name, value);
  place("xmlns", "http://www.w3.org/2000/svg");
  place("width", box.width); place("height", box.height); place("overflow", "visible");
  // Percentages inside refer to the drawing area, so that it stays one, within a sheet that holds the labels too.
  const sheet = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  sheet.setAttribute("width", right - left); sheet.setAttribute("height", bottom - top);
  sheet.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x: left, y: top, width: right - left, height: bottom - top })) paper.setAttribute(name, value);
  paper.setAttribute("fill", getComputedStyle(document.documentElement).getPropertyValue("--card").trim());
  sheet.append(paper, copy);
  return new XMLSerializer().serializeToString(sheet);
}
for (const figure of document.querySelectorAll("figure.chart")) {
  const button = element("button", "Save as SVG", { type: "button", class: "save" });
  button.setAttribute("aria-label", `Save as SVG: ${figure.querySelector("h3").textContent}`);
  button.addEventListener("click", () => save(`${figure.dataset.name}.svg`, svgFile(figure.querySelector(".area svg")), "image/svg+xml"));
  figure.append(button);
}

// ---- tables --------------------------------------------------------------------------------------------
function sortValue(cell) {                         // the first number of a cell, else its words
  const text = cell.textContent.trim(), found = text.replaceAll(",", "").replace("−", "-").match(/-?\d+(\.\d+)?(e-?\d+)?/);
  return found ? Number(found[0]) : text.toLowerCase();
}
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = element("button", head.textContent, { type: "button", class: "sort" });
    if (head.title) button.title = head.title;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending", sign = up ? 1 : -1;
      table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const bodies = [...table.tBodies];
      bodies.sort((a, b) => {
        const one = sortValue(a.rows[0].cells[column]), two = sortValue(b.rows[0].cells[column]);
        return sign * (typeof one === typeof two ? (one < two ? -1 : one > two ? 1 : 0) : typeof one === "number" ? -1 : 1);
      });
      table.append(...bodies);
    });
  });
}
const scrolls = [...document.querySelectorAll(".scroll")];
const cue = () => scrolls.forEach((one) => {
  const more = one.scrollWidth - one.clientWidth - one.scrollLeft > 4;
  one.classList.toggle("more", more);
});
for (const one of scrolls) one.addEventListener("scroll", cue, { passive: true });
addEventListener("resize", cue);
for (const one of document.querySelectorAll("details")) one.addEventListener("toggle", cue);
cue();
// A page with controls says so itself, when they work.
if (!document.querySelector(".explorer")) document.documentElement.dataset.ready = String(Math.round(performance.now()));
