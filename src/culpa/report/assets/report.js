/* The report's own script: draws what the embedded data say and lets people walk through them.
   Text from data goes into the page by textContent, and into charts through safe(): nothing of it is ever markup. */
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("content").textContent);
  const { features, chart, incidents, details, heatmap, model } = report;
  const $ = (id) => document.getElementById(id);
  const PAGE = 50;
  const narrow = () => window.innerWidth < 640;
  const detailOf = new Map(details.rows.map((detail) => [detail.row, detail]));
  let printing = false;

  /* ---- words and numbers ---- */

  const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 5 });
  const number = (x) => {
    if (x === null || x === undefined) return "–";
    const size = Math.abs(x);
    return size && (size < 1e-4 || size >= 1e9) ? x.toExponential(3) : short.format(x).replace("-", "−");
  };
  const roughly = (x) => number(Number(x.toPrecision(2)));
  const signed = (x) => (x > 0 ? "+" : "") + number(x);
  // parts of a score and what they add up to, with the same decimals
  const part = (x, score) => {
    const size = Math.abs(score);
    if (x === null || !(size >= 1e-4 && size < 1e9)) return number(x);
    const decimals = Math.max(0, 3 - Math.floor(Math.log10(size)));
    const text = x.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals, signDisplay: "negative" });
    return text.replace("-", "−");
  };
  const signedPart = (x, score) => (x > 0 ? "+" : "") + part(x, score);
  const almost = new Intl.NumberFormat("en-US", { maximumFractionDigits: 10 });
  const percent = (x) => {
    if (!Number.isFinite(x)) return "–";
    const missing = 100 * (1 - x);
    if (missing > 0 && missing < 0.1) return `${almost.format(100 - Number(missing.toPrecision(2)))}%`; // not the whole
    return `${short.format(Math.round(x * 1000) / 10)}%`;
  };
  const plural = (n, word) => `${n.toLocaleString("en-US")} ${word}${n === 1 ? "" : "s"}`;
  // plotly reads some markup and formulas in texts; escaped, it shows them as they are
  const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;").replace(/\s+/g, " ");
  const cut = (text, most) => {
    const signs = Array.from(String(text).replace(/\s+/g, " "));
    const head = Math.ceil((most - 1) * 0.6);
    return signs.length <= most ? signs.join("") : [...signs.slice(0, head), "…", ...signs.slice(signs.length - (most - 1 - head))].join("");
  };
  // at first the name of everybody who can be blamed; a text stands for itself, such as a sum of others
  const playerName = (player) => (typeof player === "number" ? report.players[player] : player);
  const tickName = (name) => cut(name, narrow() && !printing ? 13 : 30);
  const wrapped = (text) => Array.from(String(text).replace(/\s+/g, " ").matchAll(/.{1,60}(?:\s|$)|.{60}/gu), (part) => safe(part[0])).join("<br>");
  const withUnit = (text, feature) => (feature.unit ? `${text} ${feature.unit}` : text);
  const rowWord = (label) => `${chart.word}${label}`;
  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  function element(tag, text, attributes = {}) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  // long names may break at their joints
  function named(tag, name, attributes) {
    const node = element(tag, undefined, { dir: "auto", ...attributes });
    String(name).split(/(?<=[_\-./:])/).forEach((part, k) => node.append(...(k ? [element("wbr")] : []), part));
    return node;
  }

  function dataCell(value, text) {
    const cell = element("td");
    cell.append(element("data", text ?? number(value), { value: value ?? "" }));
    return cell;
  }

  /* ---- charts: what they share ---- */

  function colours() {
    const probe = document.body.appendChild(element("span"));
    const found = {};
    for (const name of ["paper", "ink", "soft", "line", "bad", "up", "down", "rest", "grid", "middle", "shade", "accent"]) {
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

  /* ---- control charts ---- */

  const xOf = (j) => (chart.x ? chart.x[j] : chart.row[j]);
  const labelOf = (j) => (chart.label ? chart.label[j] : xOf(j));
  const marked = chart.row.map((_, j) => j).filter((j) => chart.marks[j]);
  const curves = []; // for every trace: which point of the chart each of its points is
  let selected = { row: null, incident: null };

  function chartTraces(c) {
    curves.length = 0;
    const few = chart.row.length <= 1500, size = chart.row.length <= 60 ? 6 : 4;
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
      const traces = [line, trace(marked, { mode: "markers", marker: { color: c.up, size: 8, symbol: "diamond", line: { color: c.paper, width: 1 } } })];
      const beyond = statistic.own ? [] : everything.filter((j) => !chart.marks[j] && statistic.value[j] > statistic.alarm);
      if (beyond.length && beyond.length <= 1500) traces.push(trace(beyond, { mode: "markers", marker: { color: c.up, size: 8, symbol: "diamond-open" } }));
      return traces;
    });
  }

  // thousands of marks are drawn as one path of dots (round ends, no length): one piece of the page instead of thousands
  const manyMarks = marked.length > 1500;
  const dots = (statistic) => marked.map((j) => `M${String(xOf(j)).replace(" ", "_")},${statistic.value[j]}L${String(xOf(j)).replace(" ", "_")},${statistic.value[j]}`).join("");

  function chartShapes(c) {
    const shapes = chart.shades.map(([x0, x1]) => ({ type: "rect", x0, x1, yref: "paper", y0: 0, y1: 1, fillcolor: c.shade, line: { width: 0 }, layer: "below" }));
    chart.statistics.forEach((statistic, k) => statistic.limits.forEach((limit) => {
      const yref = k ? `y${k + 1}` : "y";
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, yref, y0: limit.value, y1: limit.value,
        line: { color: c.bad, width: limit.decides ? 1.8 : 1, dash: limit.decides ? "solid" : "dot" } });
    }));
    if (manyMarks) chart.statistics.forEach((statistic, k) => shapes.push({ type: "path", path: dots(statistic), xref: "x", yref: k ? `y${k + 1}` : "y", line: { color: c.up, width: 5 } }));
    const j = chart.row.indexOf(selected.row);
    if (j >= 0) shapes.push({ type: "line", x0: xOf(j), x1: xOf(j), yref: "paper", y0: 0, y1: 1, line: { color: c.accent, width: 1.5, dash: "dash" } });
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
    const bottom = n > 1 ? `y${n}` : "y";
    const xaxis = { anchor: bottom, title: { text: safe(chart.axis) }, type: chart.time ? "date" : "linear", zeroline: false };
    if (chart.time && chart.x.length === 1) xaxis.range = [-1, 1].map((side) => Date.parse(chart.x[0].replace(" ", "T") + "Z") + side * 3.6e6); // not milliseconds
    const own = { ...axes, xaxis, annotations, shapes: chartShapes(c), height: (printing ? 145 : narrow() ? 190 : 235) * n + 60, hovermode: "closest", dragmode: "zoom", uirevision: "keep" };
    draw("chart", chartTraces(c), layout(c, own), true);
  }

  const incidentOf = (row) => incidents.findIndex((incident) => incident.first <= row && row <= incident.last);

  function openPoint(j) {
    const row = chart.row[j], incident = incidentOf(row);
    const own = chart.statistics.find((statistic) => statistic.own);
    const said = `${capital(rowWord(labelOf(j)))}: score ${number(own.value[j])}, limit ${number(details.limit)}`;
    if (detailOf.has(row)) show(detailOf.get(row), incident, incident < 0 ? `${said}.` : null);
    else if (incident >= 0) show(detailOf.get(incidents[incident].peak), incident, `${said}. Details are kept for the peak of its incident, shown here. ${incidents[incident].sentence}`);
    else show(null, -1, `${said}. No details are kept for this row: culpa explain gives them.`);
    select(row, incident);
  }

  function select(row, incident) {
    selected = { row, incident };
    Plotly.relayout($("chart"), { shapes: chartShapes(colours()) });
    for (const line of document.querySelectorAll(".incidents tbody tr")) line.setAttribute("aria-current", String(Number(line.dataset.incident) === incident));
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

  /* ---- incidents ---- */

  const list = { key: "score", falling: true, page: 0, words: "", order: [] };
  const culprit = (incident) => (incident.culprits.length ? playerName(incident.culprits[0].player) : "");
  const sortKey = (incident) => (list.key === "culprit" ? culprit(incident) : incident[list.key]);
  const when = ({ first, last, start, end }) => {
    if (first === last) return rowWord(start);
    const day = chart.time && String(start).slice(0, 11); // a day need be told only once
    return `${rowWord(start)} – ${day && day.length === 11 && String(end).startsWith(day) ? String(end).slice(11) : end}`;
  };

  function sortIncidents() {
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    const words = list.words.toLowerCase();
    list.order = incidents.map((_, i) => i)
      .filter((i) => !words || `${incidents[i].sentence} ${when(incidents[i])}`.toLowerCase().includes(words) || incidents[i].culprits.some((one) => playerName(one.player).toLowerCase().includes(words)))
      .sort((a, b) => compare(sortKey(incidents[a]), sortKey(incidents[b])) * (list.falling ? -1 : 1) || a - b);
    list.page = 0;
    listIncidents();
  }

  function incidentLine(i) {
    const incident = incidents[i], times = incident.score / details.limit;
    const line = element("tr", undefined, { role: "row", "data-incident": i, "aria-current": String(i === selected.incident) });
    const first = element("td", undefined, { role: "cell" });
    first.append(element("button", capital(when(incident)), { type: "button", class: "open", dir: "auto", tabindex: "-1" }));
    const score = dataCell(incident.score);
    score.setAttribute("role", "cell");
    if (Number.isFinite(times)) score.append(element("small", ` ${roughly(times)} × limit`));
    line.append(first, element("td", plural(incident.n_flagged, "row"), { role: "cell" }), score,
      named("td", cut(culprit(incident), 60), { role: "cell", title: culprit(incident) }), element("td", incident.sentence, { role: "cell" }));
    return line;
  }

  function listIncidents() {
    const body = document.querySelector(".incidents tbody"), from = list.page * PAGE, pager = document.querySelector(".pager");
    body.replaceChildren(...list.order.slice(from, from + PAGE).map(incidentLine));
    const current = body.querySelector('[aria-current="true"] .open') ?? body.querySelector(".open");
    if (current) current.tabIndex = 0;
    pager.hidden = list.order.length <= PAGE;
    pager.querySelector("span").textContent = `${from + 1} to ${Math.min(from + PAGE, list.order.length)} of ${list.order.length.toLocaleString("en-US")}`;
    pager.querySelector('[data-step="-1"]').disabled = !list.page;
    pager.querySelector('[data-step="1"]').disabled = from + PAGE >= list.order.length;
    for (const head of document.querySelectorAll(".incidents th[data-key]")) {
      head.setAttribute("aria-sort", head.dataset.key !== list.key ? "none" : list.falling ? "descending" : "ascending");
    }
  }

  function openIncident(i, move = true) {
    const incident = incidents[i];
    show(detailOf.get(incident.peak), i, null);
    select(incident.peak, i);
    for (const button of document.querySelectorAll(".incidents .open")) button.tabIndex = -1;
    const button = document.querySelector(`.incidents tr[data-incident="${i}"] .open`);
    if (button) button.tabIndex = 0;
    if (move && window.innerWidth <= 1000) $("details").scrollIntoView({ behavior: "auto" });
  }

  function stepThroughIncidents(event) {
    const lines = [...document.querySelectorAll(".incidents tbody tr")];
    const here = lines.indexOf(event.target.closest("tr"));
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: lines.length - 1 }[event.key];
    if (to === undefined || !lines[to]) return;
    event.preventDefault();
    openIncident(Number(lines[to].dataset.incident), false);
    lines[to].querySelector(".open").focus();
  }

  /* ---- details of a row ---- */

  let shown = null; // what the details panel shows, to draw it again in other colours

  function show(detail, incident, text) {
    shown = { detail, incident };
    const one = incidents[incident];
    $("details-title").textContent = one ? `Incident: ${when(one)}` : "Details";
    $("details-sentence").textContent = text ?? one.sentence;
    $("details-remedy").textContent = one ? remedy(one) : "";
    $("details-body").hidden = !detail;
    if (!detail) return;
    listCells(detail);
    chooseHistory(one);
    drawDetails();
  }

  function remedy({ n_to_fix, joint_expected, score_if_fixed }) {
    if (n_to_fix === null) return "No fix of culprits clears the alarm.";
    if (n_to_fix < 2) return "";
    const values = joint_expected.map(([position, value]) => `${cut(features[position].name, 60)} at ${withUnit(number(value), features[position])}`);
    const told = values.length > 6 ? "" : ` with ${values.join(", ")}`;
    return `It takes ${n_to_fix} culprits fixed together to clear the alarm: the score would be ${number(score_if_fixed)}${told}. The table below fixes one at a time.`;
  }

  function drawDetails() {
    if (!shown?.detail) return;
    drawWaterfall(shown.detail);
    drawHistory();
  }

  function drawWaterfall(detail) {
    const c = colours(), n = detail.player.length, base = detail.base_value;
    const starts = [];
    detail.value.reduce((at, value) => (starts.push(at), at + value), base);
    const names = ["base value", ...detail.player.map(playerName), `score of ${rowWord(detail.label)}`].map(tickName);
    const unknown = detail.player.map((player) => (typeof player === "number" ? (detail.value[detail.player.indexOf(player)] < 0 ? c.down : c.up) : c.rest));
    const hover = detail.player.map((player, k) => `${wrapped(playerName(player))}<br>${signed(detail.value[k])}`
      + (detail.error[k] ? ` ± ${roughly(detail.error[k])} (95%)` : ""));
    const positions = names.map((_, k) => k);
    const bars = {
      type: "bar", orientation: "h", y: positions, base: [0, ...starts, 0], x: [base, ...detail.value, detail.score],
      marker: { color: [c.rest, ...unknown, c.ink] }, hoverinfo: "text", textposition: "outside", cliponaxis: false, textangle: 0,
      hovertext: [`base value: ${number(base)}`, ...hover, `score: ${number(detail.score)}`],
      text: [part(base, detail.score), ...detail.value.map((value) => signedPart(value, detail.score)), part(detail.score, detail.score)],
      error_x: { type: "data", array: [0, ...detail.error.map((e) => e ?? 0), 0], visible: detail.error.some((e) => e > 0), color: c.soft, thickness: 1.2, width: 3 },
    };
    const ends = [0, base, detail.score, details.limit, ...starts.map((start, k) => start + detail.value[k])];
    const low = Math.min(...ends), high = Math.max(...ends), room = (narrow() ? 0.24 : 0.14) * (high - low || 1);
    const own = {
      yaxis: { tickvals: positions, ticktext: names.map(safe), autorange: "reversed", showgrid: false, zeroline: false },
      xaxis: { title: { text: safe(details.title) }, range: [low < 0 ? low - room : 0, high + room] }, height: 27 * (n + 2) + 70, bargap: 0.3,
      shapes: [{ type: "line", x0: details.limit, x1: details.limit, yref: "paper", y0: 0, y1: 1, line: { color: c.bad, width: 1.5 } }],
      annotations: [{ x: details.limit, yref: "paper", y: 1, yanchor: "bottom", showarrow: false, text: "limit", font: { size: 11, color: c.bad } }],
      margin: { l: roomFor(names), r: 20, t: 22, b: 50 },
    };
    draw("waterfall", [bars], layout(c, own));
  }

  function listCells(detail) {
    const body = document.querySelector(".cells tbody");
    body.replaceChildren();
    detail.player.forEach((player, k) => {
      const members = typeof player === "number" ? report.members[player] : [];
      const feature = members.length === 1 ? features[members[0]] : null;
      const line = element("tr");
      const error = detail.error[k] ? ` ± ${roughly(detail.error[k])}` : "";
      line.append(named("th", playerName(player), { scope: "row", class: playerName(player).length > 40 ? "long" : "" }),
        dataCell(detail.actual[k], feature ? withUnit(number(detail.actual[k]), feature) : "–"),
        dataCell(detail.expected[k], feature ? withUnit(number(detail.expected[k]), feature) : "–"),
        dataCell(detail.value[k], signedPart(detail.value[k], detail.score) + error), dataCell(detail.value[k] / detail.score, percent(detail.value[k] / detail.score)));
      const fixed = detail.score_if_fixed[k], clears = fixed !== null && fixed <= details.limit && detail.score > details.limit;
      const last = dataCell(fixed, part(fixed, detail.score) + (clears ? " ✓" : ""));
      if (clears) { last.className = "clears"; last.title = "Below the limit: fixing this alone clears the alarm."; }
      line.append(last);
      body.append(line);
      if (members.length > 1) body.append(...(detail.cells?.[player] ?? []).map(memberLine));
    });
    const missing = detail.missing.length ? ` Missing in this row, so not to blame: ${detail.missing.map(playerName).map((name) => cut(name, 60)).join(", ")}.` : "";
    $("cells-hint").textContent = "Expected: what the other features imply. Score if fixed: the score with this one at its expected value; ✓ where that is below the limit."
      + (!detail.error.some(Boolean) ? "" : " ± is the half width of a 95% interval: blame was sampled.") + missing;
  }

  function memberLine([position, actual, expected]) {
    const line = element("tr", undefined, { class: "member" }), feature = features[position];
    line.append(named("th", feature.name, { scope: "row" }), dataCell(actual, withUnit(number(actual), feature)),
      dataCell(expected, withUnit(number(expected), feature)), element("td"), element("td"), element("td"));
    return line;
  }

  let chosenSeries = 0;

  function chooseHistory(incident) {
    chosenSeries = 0;
    const series = incident?.history?.series ?? [];
    $("history-part").hidden = !series.length;
    $("history-choices").replaceChildren(...(series.length < 2 ? [] : series).map((one, k) => {
      const button = element("button", cut(features[one.feature].name, 40), { type: "button", "aria-pressed": String(k === 0), dir: "auto" });
      button.addEventListener("click", () => {
        chosenSeries = k;
        for (const other of $("history-choices").children) other.setAttribute("aria-pressed", String(other === button));
        drawHistory();
      });
      return button;
    }));
  }

  function drawHistory() {
    const incident = incidents[shown.incident], history = incident?.history;
    if (!history?.series.length) return;
    const c = colours(), one = history.series[chosenSeries], feature = features[one.feature];
    $("history-title").textContent = `History of ${cut(feature.name, 80)}`;
    const x = history.x ?? history.row;
    const line = (y, name, color, dash) => ({ type: "scatter", mode: x.length <= 120 ? "lines+markers" : "lines", x, y, name, line: { color, width: 1.6, dash }, marker: { size: 4 },
      hovertemplate: `%{x}<br>${name} %{y:.5~g}<extra></extra>` });
    const own = {
      xaxis: { type: chart.time ? "date" : "linear", title: { text: safe(chart.axis) }, zeroline: false },
      yaxis: { title: { text: safe(cut(withUnit(cut(feature.name, 24), feature), 34)) }, zeroline: false }, showlegend: true, height: 270,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, margin: { l: 62, r: 20, t: 30, b: 60 },
      shapes: [{ type: "rect", x0: history.span[0], x1: history.span[1], yref: "paper", y0: 0, y1: 1, fillcolor: c.shade, line: { width: 0 }, layer: "below" }],
    };
    draw("history", [line(one.expected, "expected", c.down, "dot"), line(one.actual, "actual", c.up, "solid")], layout(c, own));
  }

  /* ---- heat map and model ---- */

  const diverging = (c) => [[0, c.down], [0.5, c.middle], [1, c.up]];

  function drawGrid(id, { columns, rows, values, hover, scale, axis, bar }) {
    const c = colours();
    const step = Math.ceil(columns.length / (narrow() ? 8 : 30));
    const ticks = columns.map((_, k) => k).filter((k) => k % step === 0);
    const below = ticks.map((k) => cut(columns[k], 20)), slanted = below.some((text) => text.length > 4), names = rows.map(tickName), size = rows.length > 40 ? 9 : 12;
    const trace = { type: "heatmap", z: values, x: columns.map((_, k) => k), y: rows.map((_, k) => k), colorscale: diverging(c), zmin: -scale, zmax: scale, zmid: 0,
      hoverinfo: "text", hovertext: hover, xgap: columns.length > 60 ? 0 : 1, ygap: rows.length > 60 ? 0 : 1, hoverongaps: false,
      colorbar: { thickness: 10, outlinewidth: 0, tickfont: { color: c.ink }, ...bar } };
    const own = {
      xaxis: { tickvals: ticks, ticktext: below.map(safe), showgrid: false, zeroline: false, tickangle: slanted ? -45 : 0, title: { text: axis, standoff: 8 } },
      yaxis: { tickvals: rows.map((_, k) => k), ticktext: names.map(safe), autorange: "reversed", showgrid: false, zeroline: false, tickfont: { size } },
      height: Math.max(rows.length, 3) * (rows.length > 40 ? 12 : 20) + 70 + (slanted ? 0.75 * roomFor(below) : 0), margin: { l: roomFor(names, size), r: 10, t: 10, b: 45 + (slanted ? 0.75 * roomFor(below) : 0) },
    };
    draw(id, [trace], layout(c, own));
  }

  function drawHeat() {
    if (!heatmap.incidents.length) return;
    const full = heatmap.incidents.map((i) => String(incidents[i].peak_label)), day = full[0].slice(0, 11);
    const labels = chart.time && day.length === 11 && full.every((label) => label.startsWith(day)) ? full.map((label) => label.slice(11)) : full;
    drawGrid("heatmap", {
      columns: labels, rows: heatmap.players.map(playerName), values: heatmap.share, scale: heatmap.scale, axis: chart.time ? "incident, by the time of its peak" : "incident, by the row of its peak",
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

  function drawEverything() {
    drawChart();
    drawDetails();
    drawHeat();
    drawModel();
  }

  /* ---- start ---- */

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { $("theme").textContent = isDark() ? "Light" : "Dark"; };

  function prepareForPaper(now) {
    if (printing === now) return;
    printing = now;
    for (const part of document.querySelectorAll("details")) part.open = now;
    drawEverything();
  }

  $("theme").hidden = false;
  nameTheme();
  $("theme").addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); drawEverything(); });
  dark.addEventListener("change", () => { nameTheme(); drawEverything(); });
  matchMedia("print").addEventListener("change", (event) => prepareForPaper(event.matches));
  window.addEventListener("beforeprint", () => prepareForPaper(true));
  window.addEventListener("afterprint", () => prepareForPaper(false));

  for (const head of document.querySelectorAll(".incidents th[data-key] button")) {
    head.addEventListener("click", () => {
      const key = head.parentElement.dataset.key;
      list.falling = key === list.key ? !list.falling : key === "score" || key === "n_flagged";
      list.key = key;
      sortIncidents();
    });
  }
  const body = document.querySelector(".incidents tbody");
  body.addEventListener("click", (event) => { const line = event.target.closest("tr"); if (line) openIncident(Number(line.dataset.incident)); });
  body.addEventListener("keydown", stepThroughIncidents);
  for (const button of document.querySelectorAll(".pager button")) button.addEventListener("click", () => { list.page += Number(button.dataset.step); listIncidents(); });
  $("filter-line").hidden = incidents.length <= 10;
  $("filter").addEventListener("input", (event) => { list.words = event.target.value.trim(); sortIncidents(); });
  $("incident-hint").textContent = incidents.length
    ? `${plural(incidents.length, "incident")}${incidents.length < report.overview.incidents ? `, the worst of ${report.overview.incidents.toLocaleString("en-US")}` : ""}. Sort by a column's name; open one with a click, or with the arrow keys.`
    : `There are none: ${report.overview.flagged ? "the flagged rows are in stretches too short to be an incident" : details.rows.length ? "no row is above the limit" : "no row has a score"}.`;
  if (!incidents.length) $("details-sentence").textContent = details.rows.length ? "Choose a point of the charts." : "There is nothing to look at closely.";
  document.querySelector(".list").hidden = !incidents.length;
  $("heat").hidden = $("to-heat").hidden = !heatmap.incidents.length;

  $("log").checked = chart.log;
  drawEverything();
  sortIncidents();
  $("log").addEventListener("change", drawChart);
  $("chart").addEventListener("keydown", stepThroughMarks);
  $("chart").on("plotly_click", (event) => { const point = event.points[0]; openPoint(curves[point.curveNumber][point.pointNumber]); });
  if (heatmap.incidents.length) $("heatmap").on("plotly_click", (event) => openIncident(heatmap.incidents[event.points[0].x]));
  if (incidents.length) openIncident(list.order[0], false);
  document.documentElement.dataset.ready = "true";
})();
