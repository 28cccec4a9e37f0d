/* What all charts share. */

function colours() {
  const probe = document.body.appendChild(element("span"));
  const found = {};
  for (const name of ["paper", "ink", "soft", "line", "bad", "up", "down", "rest", "grid", "middle", "shade", "band", "accent"]) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

// room for names beside an axis, measured: plotly's own search for it may go round in circles
const ruler = document.createElement("canvas").getContext("2d");
function roomFor(texts, size = 12) {
  ruler.font = `${size}px system-ui, sans-serif`;
  return Math.ceil(Math.max(0, ...texts.map((text) => ruler.measureText(text).width))) + 12;
}

function layout(c, own) {
  const axis = { gridcolor: c.grid, zerolinecolor: c.line, linecolor: c.line };
  const axes = Object.fromEntries(Object.keys(own).filter((k) => /^[xy]axis\d*$/.test(k)).map((k) => [k, { ...axis, ...own[k] }]));
  return {
    font: { family: "system-ui, sans-serif", size: 12, color: c.ink }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 62, r: narrow() ? 10 : 30, t: 10, b: 55 }, showlegend: false, autosize: true,
    hoverlabel: { bgcolor: c.paper, bordercolor: c.line, font: { color: c.ink }, align: "left", namelength: -1 }, ...own, ...axes,
  };
}

const CONFIG = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

function draw(id, traces, ownLayout, interactive = false) {
  const width = printing ? { width: 680, autosize: false } : {};
  return Plotly.react($(id), traces, { ...ownLayout, ...width }, { ...CONFIG, displayModeBar: interactive ? undefined : false, scrollZoom: false });
}

// the axis of rows, and what lies along it in every chart
const rowAxis = () => ({ title: { text: safe(chart.axis) }, type: chart.time ? "date" : "linear", zeroline: false });
const shade = (c, [x0, x1]) => ({ type: "rect", x0, x1, yref: "paper", y0: 0, y1: 1, fillcolor: c.shade, line: { width: 0 }, layer: "below" });
const rowLine = (c, x) => ({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: c.accent, width: 1.5, dash: "dash" } });

const diverging = (c) => [[0, c.down], [0.5, c.middle], [1, c.up]];

function drawGrid(id, { columns, rows, values, hover, scale, axis, bar }) {
  const c = colours();
  const step = Math.ceil(columns.length / (narrow() ? 8 : id === "blame" ? 14 : 30));
  const ticks = columns.map((_, k) => k).filter((k) => k % step === 0);
  const below = ticks.map((k) => cut(columns[k], 20)), slanted = below.some((text) => text.length > 4), names = rows.map(tickName), size = rows.length > 40 ? 9 : 12;
  const trace = { type: "heatmap", z: values, x: columns.map((_, k) => k), y: rows.map((_, k) => k), colorscale: diverging(c), zmin: -scale, zmax: scale, zmid: 0,
    hoverinfo: "text", hovertext: hover, xgap: columns.length > 60 ? 0 : 1, ygap: rows.length > 60 ? 0 : 1, hoverongaps: false,
    colorbar: { thickness: 10, outlinewidth: 0, tickfont: { color: c.ink }, ...bar } };
  const own = {
    xaxis: { tickvals: ticks, ticktext: below.map(safe), showgrid: false, zeroline: false, tickangle: slanted ? -45 : 0, ticklabeloverflow: "allow", title: { text: axis, standoff: 8 } },
    yaxis: { tickvals: rows.map((_, k) => k), ticktext: names.map(safe), autorange: "reversed", showgrid: false, zeroline: false, tickfont: { size } },
    height: Math.max(rows.length, 3) * (rows.length > 40 ? 12 : 20) + 70 + (slanted ? 0.75 * roomFor(below) : 0), margin: { l: Math.max(roomFor(names, size), slanted ? 0.7 * roomFor(below.slice(0, 1)) : 0), r: 10, t: 10, b: 45 + (slanted ? 0.75 * roomFor(below) : 0) },
  };
  draw(id, [trace], layout(c, own));
}
