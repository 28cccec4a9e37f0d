/* Any feature over all rows, beside what is normal. */

const trendOf = new Map(trends.features.map((trend) => [trend.feature, trend]));
let chosenTrend = trends.features[0]?.feature ?? null, trendByHand = false;
const trendX = (k) => (trends.x ? trends.x[k] : trends.middle[k]);
const trendLabel = (k) => (trends.label ? trends.label[k] : trendX(k));
const normalAt = ({ mean, sd }, k) => [mean.length === 1 ? mean[0] : mean[k], sd.length === 1 ? sd[0] : sd[k]];

function chooseTrend(feature, byHand = true) {
  if (!trendOf.has(feature)) return;
  chosenTrend = feature;
  trendByHand = byHand;
  $("trend-feature").value = String(feature);
  drawTrend();
}

// an incident that is opened brings its first culprit, unless somebody has chosen a feature
function followTrend(story) {
  const first = culpritsOf(story)[0];
  if (first && !trendByHand) chooseTrend(featureOf(first), false);
}

// the places, values and hover texts of a line through lowest and highest value of every stretch
function trendLine(trend) {
  const x = [], y = [], text = [], at = [];
  trend.low.forEach((low, k) => {
    const high = trend.high.length ? trend.high[k] : low, [mean, sd] = normalAt(trend, k);
    const where = trends.step === 1 ? rowWord(trendLabel(k)) : `${plural(trends.step, "row")} around ${rowWord(trendLabel(k))}`;
    for (const value of low === high || trends.step === 1 ? [low] : k % 2 ? [high, low] : [low, high]) {
      x.push(trendX(k));
      y.push(value);
      at.push(k);
      text.push(value === null ? "" : `${wrapped(capital(where))}<br>${trends.step === 1 ? "" : value === low ? "lowest " : "highest "}${safe(withUnit(reading(value, features[trend.feature]), features[trend.feature]))}${sd > 0 ? `<br>${inSd((value - mean) / sd)}` : ""}`);
    }
  });
  return { x, y, text, at };
}

function bandTraces(c, trend) {
  const fixed = trend.mean.length === 1 && trend.sd.length === 1, last = trends.row.length - 1;
  const at = fixed ? [0, last] : trends.row.map((_, k) => k), side = (sign) => at.map((k) => { const [mean, sd] = normalAt(trend, k); return mean + sign * 2 * sd; });
  const edge = { type: "scatter", mode: "lines", x: at.map(trendX), line: { color: c.band, width: 1 }, hoverinfo: "skip" };
  return [{ ...edge, y: side(-1) }, { ...edge, y: side(1), fill: "tonexty", fillcolor: c.band },
    { ...edge, y: side(0), line: { color: c.soft, width: 1, dash: "dot" } }];
}

let trendPoints = [];

function drawTrend() {
  const trend = trendOf.get(chosenTrend);
  if (!trend) return;
  const c = colours(), feature = features[chosenTrend], line = trendLine(trend), band = bandTraces(c, trend);
  trendPoints = line.at;
  const everything = [...line.y, ...band.flatMap((one) => one.y)].filter((y) => y !== null && Number.isFinite(y));
  const low = Math.min(...everything), high = Math.max(...everything), room = 0.05 * (high - low || Math.abs(high) || 1), range = [low - room, high + room];
  const [mean, sd] = normalAt(trend, 0), fixed = trend.mean.length === 1 && trend.sd.length === 1 && sd > 0;
  const own = {
    xaxis: rowAxis(), yaxis: { title: { text: safe(cut(withUnit(cut(feature.name, 24), feature), 34)) }, zeroline: false, range, fixedrange: true },
    height: 300, hovermode: "closest", margin: { l: 62, r: fixed ? 55 : 20, t: 10, b: 55 }, uirevision: String(chosenTrend),
    shapes: [...chart.shades.map((ends) => shade(c, ends)), ...(selected.x === null ? [] : [rowLine(c, selected.x)])],
  };
  const traces = [...band, { type: "scatter", mode: "lines", x: line.x, y: line.y, text: line.text, hoverinfo: "text", line: { color: c.down, width: 1.3 }, connectgaps: false }];
  if (fixed) {
    own.yaxis2 = { overlaying: "y", side: "right", tickmode: "auto", range: range.map((y) => (y - mean) / sd), fixedrange: true, showgrid: false, zeroline: false, title: { text: "sd from normal" } };
    traces.push({ type: "scatter", x: [line.x[0]], y: [0], yaxis: "y2", mode: "markers", marker: { opacity: 0 }, hoverinfo: "skip" });
  }
  $("trend-hint").textContent = trend.mean.length > 1 ? "The band follows the context of the rows." : trend.sd.length > 1 ? "The band narrows as more rows are averaged." : "";
  draw("trend", traces, layout(c, own), true);
  if (trendListens) return;
  trendListens = true;
  listen("trend", (point) => openStretch(trendPoints[point.pointNumber]));
}

let trendListens = false;

function openStretch(k) {
  const row = trends.middle[k];
  openRow({ row, label: trendLabel(k), flagged: true }, true);
}

function prepareTrends() {
  $("trends").hidden = $("to-trends").hidden = !trends.features.length;
  const names = features.map((feature, k) => ({ feature: k, name: feature.name })).filter(({ feature }) => trendOf.has(feature));
  $("trend-feature").replaceChildren(...names.map(({ feature, name }) => element("option", cut(name, 60), { value: feature })));
  $("trend-feature").addEventListener("change", (event) => chooseTrend(Number(event.target.value)));
  $("trend-left-out").textContent = [
    trends.step > 1 ? `The line runs through the lowest and the highest of every ${plural(trends.step, "row")}.` : "",
    trends.n_left_out ? `${plural(trends.n_left_out, report.noun)} that moved least ${trends.n_left_out === 1 ? "is" : "are"} left out.` : "",
  ].filter(Boolean).join(" ");
}
