/* Control charts. */

const xOf = (j) => (chart.x ? chart.x[j] : chart.row[j]);
const labelOf = (j) => (chart.label ? chart.label[j] : xOf(j));
const marked = chart.row.map((_, j) => j).filter((j) => chart.marks[j]);
const curves = []; // for every trace: which point of the chart each of its points is

// thousands of marks are drawn as one path of dots (round ends, no length): one piece of the page instead of thousands
const manyMarks = marked.length > 1500;
const dots = (statistic) => marked.map((j) => `M${String(xOf(j)).replace(" ", "_")},${statistic.value[j]}L${String(xOf(j)).replace(" ", "_")},${statistic.value[j]}`).join("");

function chartTraces(c) {
  curves.length = 0;
  const few = chart.row.length <= 1500, size = chart.row.length <= 60 ? 6 : 4;
  const outline = marked.length <= 80 ? 1 : 0; // of paper; outlines of close marks would cover the marks themselves
  const everything = chart.row.map((_, j) => j);
  const hover = (j) => wrapped(capital(rowWord(labelOf(j)))) + (["", "<br>flagged"][chart.marks[j]] ?? `<br>worst of ${chart.marks[j]} flagged rows around here`);
  return chart.statistics.flatMap((statistic, k) => {
    const trace = (at, more) => {
      curves.push(at);
      return { type: "scatter", yaxis: k ? `y${k + 1}` : "y", hovertemplate: `%{customdata}<br>${safe(statistic.title)} %{y:.5~g}<extra></extra>`,
        x: at.map(xOf), y: at.map((j) => statistic.value[j]), customdata: at.map(hover), ...more };
    };
    const line = trace(everything, { mode: few ? "lines+markers" : "lines", line: { color: c.down, width: 1 }, marker: { color: c.down, size }, connectgaps: false });
    if (manyMarks) return [line];
    const traces = [line, trace(marked, { mode: "markers", marker: { color: c.up, opacity: 1, size: outline ? 8 : 6, symbol: "diamond", line: { color: c.paper, width: outline } } })];
    const beyond = statistic.own ? [] : everything.filter((j) => !chart.marks[j] && statistic.value[j] > statistic.alarm);
    if (beyond.length && beyond.length <= 1500) traces.push(trace(beyond, { mode: "markers", marker: { color: c.up, size: 8, symbol: "diamond-open" } }));
    return traces;
  });
}

function chartShapes(c) {
  const shapes = chart.shades.map((ends) => shade(c, ends));
  chart.statistics.forEach((statistic, k) => statistic.limits.forEach((limit) => {
    const yref = k ? `y${k + 1}` : "y";
    shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, yref, y0: limit.value, y1: limit.value,
      line: { color: c.bad, width: limit.decides ? 1.8 : 1, dash: limit.decides ? "solid" : "dot" } });
  }));
  if (manyMarks) chart.statistics.forEach((statistic, k) => shapes.push({ type: "path", path: dots(statistic), xref: "x", yref: k ? `y${k + 1}` : "y", line: { color: c.up, width: 5 } }));
  if (selected.x !== null) shapes.push(rowLine(c, selected.x));
  return shapes;
}

function drawChart() {
  const c = colours(), n = chart.statistics.length, gap = 0.07;
  const log = $("log").checked;
  const axes = {};
  const annotations = [];
  chart.statistics.forEach((statistic, k) => {
    const top = 1 - k * (1 + gap) / (n + gap * (n - 1)), height = 1 / (n + gap * (n - 1));
    axes[k ? `yaxis${k + 1}` : "yaxis"] = { domain: [Math.max(top - height, 0), top], title: { text: safe(statistic.title) }, type: log ? "log" : "linear",
      rangemode: "tozero", anchor: "x" };
    for (const limit of statistic.limits) annotations.push({ xref: "paper", x: 1, xanchor: "right", yref: k ? `y${k + 1}` : "y",
      y: log ? Math.log10(limit.value) : limit.value, yanchor: limit === statistic.limits.at(-1) ? "bottom" : "top", showarrow: false, font: { size: 11, color: c.bad }, bgcolor: c.paper, opacity: 0.85, borderpad: 0,
      text: `${percent(limit.confidence)} limit: ${number(limit.value)}` });
  });
  const xaxis = { ...rowAxis(), anchor: n > 1 ? `y${n}` : "y" };
  if (chart.time && chart.x.length === 1) xaxis.range = [-1, 1].map((side) => Date.parse(chart.x[0].replace(" ", "T") + "Z") + side * 3.6e6); // not milliseconds
  const own = { ...axes, xaxis, annotations, shapes: chartShapes(c), height: (printing ? 145 : narrow() ? 190 : 235) * n + 60, hovermode: "closest", dragmode: "zoom", uirevision: "keep" };
  draw("chart", chartTraces(c), layout(c, own), true);
}

function openPoint(j, scroll = false) {
  openRow({ row: chart.row[j], label: labelOf(j), flagged: chart.marks[j] > 0, score: chart.statistics.find((statistic) => statistic.own).value[j] }, scroll);
}

function stepThroughMarks(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step || !marked.length) return;
  event.preventDefault();
  const here = marked.findIndex((j) => chart.row[j] >= (selected.row ?? -1));
  const exact = here >= 0 && chart.row[marked[here]] === selected.row;
  const next = here < 0 ? (step > 0 ? 0 : marked.length - 1) : here + (step > 0 ? Number(exact) : -1);
  openPoint(marked[(next + marked.length) % marked.length]);
}
