/* The heat map over incidents, and pictures of the model. */

function drawHeat() {
  if (heatmap.incidents.length < 2) return;
  const labels = shortened(heatmap.incidents.map((i) => incidents[i].peak_label));
  drawGrid("heatmap", {
    columns: labels, rows: heatmap.players.map(playerName), values: heatmap.share, scale: heatmap.scale, axis: chart.time ? "incident, by the time of its worst row" : "incident, by its worst row",
    hover: heatmap.players.map((player, k) => heatmap.incidents.map((i, j) => `${wrapped(playerName(player))}<br>${safe(when(incidents[i]))}<br>${percent(heatmap.share[k][j])} of the score`)),
    bar: { tickformat: ".0%" },
  });
}

function drawModel() {
  const c = colours(), ratio = model.explained_variance_ratio;
  let sum = 0;
  const total = ratio.map((share) => (sum += share)), x = ratio.map((_, k) => k + 1);
  const own = { xaxis: { title: { text: "component" }, dtick: Math.ceil(ratio.length / 20), zeroline: false }, yaxis: { tickformat: ".0%", range: [0, 1.02] }, height: 240, bargap: 0.2 };
  draw("variance", [
    { type: "bar", x, y: ratio, marker: { color: c.down }, hovertemplate: "component %{x}: %{y:.2%}<extra></extra>" },
    { type: "scatter", mode: "lines+markers", x, y: total, line: { color: c.up, width: 1.5 }, marker: { size: 4 }, hovertemplate: "first %{x}: %{y:.2%}<extra></extra>" },
  ], layout(c, own));
  drawLikelihood(c);
  const names = model.loadings_of, columns = model.loadings[0].map((_, k) => String(k + 1));
  drawGrid("loadings", { columns, rows: names, values: model.loadings, scale: Math.max(...model.loadings.flat().map(Math.abs)), axis: "component",
    hover: names.map((name, i) => columns.map((component, k) => `${wrapped(name)}<br>component ${component}: ${number(model.loadings[i][k])}`)), bar: {} });
}

function drawLikelihood(c) {
  const y = model.likelihood, best = model.n_components;
  if (!y.length) return;
  const own = { xaxis: { title: { text: "number of components" }, dtick: Math.ceil(y.length / 20), zeroline: false }, yaxis: { zeroline: false }, height: 240 };
  draw("likelihood", [
    { type: "scatter", mode: "lines+markers", x: y.map((_, k) => k + 1), y, line: { color: c.down, width: 1.5 }, marker: { size: 4 }, hovertemplate: "%{x} components: %{y:.4g}<extra></extra>" },
    { type: "scatter", mode: "markers", x: [best], y: [y[best - 1]], marker: { size: 11, color: c.up }, hovertemplate: "chosen: %{x}<extra></extra>" },
  ], layout(c, own));
}
