const plots = [];
for (const chart of document.querySelectorAll(".chart")) {
  const figure = JSON.parse(chart.querySelector("script").textContent);
  const plot = chart.querySelector(".plot");
  Plotly.newPlot(plot, figure.data, figure.layout, { responsive: true, displayModeBar: false });
  plots.push(plot);
}
// A chart inside a closed <details> has no width until it opens.
for (const details of document.querySelectorAll("details")) {
  details.addEventListener("toggle", () => plots.filter((p) => p.offsetWidth).forEach((p) => Plotly.Plots.resize(p)));
}
// The width of the paper is not known when printing starts: with a viewBox the style sheet can scale the drawing.
addEventListener("beforeprint", () => {
  for (const svg of document.querySelectorAll(".plot .main-svg")) {
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
  }
});
addEventListener("afterprint", () => {
  document.querySelectorAll(".plot .main-svg").forEach((svg) => svg.removeAttribute("viewBox"));
});
