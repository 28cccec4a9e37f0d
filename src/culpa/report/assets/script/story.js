/* The panel of an incident: how it began, when it was worst, how it went on. */

// a p-value by rank cannot be lower than so many normal rows allow
const isLeast = (p) => p !== null && details.n_held_out !== null && p < 1.5 / (details.n_held_out + 1);
const leastPossible = (p) => (isLeast(p) ? `, the least that ${details.n_held_out.toLocaleString("en-US")} held-out normal rows can show` : "");

function scored({ score, p_value }) {
  const times = score / details.limit; // as sentences have it
  const above = !Number.isFinite(times) ? "" : times >= 1 && times < 1.05 ? "just above the limit" : `${number(Number(times.toPrecision(3)))} × limit`;
  return [`score ${number(score)}`, above, p_value === null ? "" : `p-value ${roughly(p_value)}`].filter(Boolean).join(", ");
}

function trendButton(feature, name) {
  const button = named("button", name, { type: "button", class: "link", title: "Show its trend" });
  button.addEventListener("click", () => { chooseTrend(feature); reveal($("trends")); });
  return button;
}

// what a row that was flagged by its level, its departure or its jump is compared with
const comparedWith = { level: "normal rows", departure: "recent rows", jump: "the row before" };

function culpritLines(one) {
  const at = featureOf(one), feature = features[at], line = element("tr"), name = element("th", undefined, { scope: "row" });
  name.append(trendButton(at, playerName(one.feature)));
  if (report.members[one.feature].length > 1) name.append(element("small", ` (${featureName(at)})`));
  const expected = dataCell(one.expected, withUnit(one.shown[1], feature), "Expected");
  if (!one.expected_was_seen) expected.append(element("small", "never seen in training", { class: "warn" }));
  line.append(name, dataCell(one.probability, chance(one.probability), "Probability"), dataCell(one.actual, withUnit(one.shown[0], feature), "Actual"),
    expected, dataCell(one.deviation, one.shown[2], "Off by"), element("td", one.against === "others" ? `other ${report.noun}s` : comparedWith[one.view], { "data-label": "Compared with" }));
  const remarks = [];
  if (one.instead.length) remarks.push(`${one.instead.map((player) => cut(playerName(player), 60)).join(" or ")} instead would explain it as well: the data cannot tell which.`);
  if (one.disagrees_with.length) remarks.push(`Disagrees with ${listed(one.disagrees_with.map((other) => `${featureName(featureAt(other.feature))} (which alone implies ${other.shown})`))}.`);
  return [line, ...remarks.map((text) => {
    const remark = element("tr", undefined, { class: "remark" });
    remark.append(element("td", text, { colspan: 6, dir: "auto" }));
    return remark;
  })];
}

function culpritTable(culprits) {
  const table = element("table", undefined, { class: "culprits" }), head = element("thead"), line = element("tr"), body = element("tbody");
  for (const title of [capital(report.noun), "Probability", "Actual", "Expected", "Off by", "Compared with"]) line.append(element("th", title, { scope: "col" }));
  head.append(line);
  body.append(...culprits.flatMap(culpritLines));
  table.append(head, body);
  return table;
}

function howExpected(culprits) {
  const usual = { level: "mean ± standard deviation of normal rows", departure: "recent level, ± standard deviation of normal departures from it", jump: "reading in the row before, ± standard deviation of normal jumps" };
  if (culprits[0].against === "normal") return `Expected: ${usual[culprits[0].view]}. Off by counts these standard deviations. In a process upset features move without being faulty, so they have no probability of a fault.`;
  const joint = culprits.length > 1 ? `what the other ${report.noun}s imply for these ${culprits.length} jointly, so none of them vouches for another` : `what all other ${report.noun}s imply`;
  return `Expected: ${joint}, ± one standard deviation. Off by counts these standard deviations. Probability: of a fault in this ${report.noun}.`;
}

function remedy({ to_fix, score_if_fixed }) {
  const fixes = to_fix.map(([name, value]) => [featureAt(name), value]);
  if (!fixes.length) return `No fix of up to eight ${report.noun}s would have cleared the alarm in this row.`;
  const values = fixes.map(([feature, value]) => `${featureName(feature)} at ${withUnit(reading(value, features[feature]), features[feature])}`);
  const shown = values.length > 8 ? [...values.slice(0, 8), `${values.length - 8} more`] : values;
  return `Would have cleared the alarm in this row: ${listed(shown)}${values.length > 1 ? ", fixed jointly" : ""}. The score would be ${number(score_if_fixed)}, the limit is ${number(details.limit)}.`;
}

function fillPoint(id, point) {
  const outside = point.n_outside ? ` ${plural(point.n_outside, report.noun)} far outside the training range.` : "";
  const nodes = [element("p", `${capital(rowWord(point.label))}: ${scored(point)}.${outside}`, { class: "hint", dir: "auto" })];
  if (point.culprits.length) nodes.push(culpritTable(point.culprits), element("p", howExpected(point.culprits), { class: "hint" }));
  else nodes.push(element("p", `No ${report.noun} stands out in this row.`));
  nodes.push(element("p", remedy(point), { dir: "auto" }));
  $(id).replaceChildren(...nodes);
}

function fillReached({ spread, n_spread }) {
  const groups = new Map();
  for (const { feature, row, label } of spread) groups.set(row, { label, names: [...(groups.get(row)?.names ?? []), featureName(featureAt(feature))] });
  const found = [...groups.values()], times = shortened(found.map((group) => group.label));
  const lines = found.map((group, k) => {
    const line = element("li");
    line.append(element("span", chart.time ? times[k] : rowWord(times[k]), { class: "when" }), element("span", group.names.join(", "), { dir: "auto" }));
    return line;
  });
  if (n_spread > spread.length) lines.push(element("li", `and ${n_spread - spread.length} more`));
  $("reached-part").hidden = !spread.length;
  $("reached-count").textContent = `${plural(n_spread, report.noun)} went far outside the training range after the onset`;
  $("reached").replaceChildren(...lines);
}

function fillMoved({ ranking }) {
  const labels = shortened(ranking.map(({ label }) => label));
  $("moved-part").hidden = !ranking.length;
  $("moved").replaceChildren(...ranking.map(({ feature, deviation }, k) => {
    const item = element("li"), at = featureAt(feature);
    item.append(trendButton(at, featureName(at)), element("span", ` ${inSd(deviation)}, ${chart.time ? labels[k] : rowWord(labels[k])}`));
    return item;
  }));
}

function fillStory(story) {
  $("story").hidden = !story;
  if (!story) return;
  $("onset-title").textContent = story.first === story.last ? "Who is to blame" : "How it began";
  fillPoint("onset", story.onset);
  $("worst-title").hidden = story.first === story.last;
  $("worst").hidden = story.first === story.last;
  if (story.worst) fillPoint("worst", story.worst);
  else $("worst").replaceChildren(element("p", `${capital(rowWord(story.peak_label))}: the same row.`, { class: "hint", dir: "auto" }));
  $("course-part").hidden = !story.timeline.length;
  if (story.timeline.length) {
    fillReached(story);
    fillMoved(story);
  }
  chooseHistory(story);
}

// lines of blame over time, in the order of the largest share that a player ever had: those of a short onset do not drown
const MOST_PLAYERS = 15;
function blameLines(timeline) {
  const lines = report.players.map((name, k) => ({ name, shares: timeline.map(({ shares }) => shares[k] ?? 0) }));
  const largest = ({ shares }) => Math.max(...shares);
  lines.sort((a, b) => largest(b) - largest(a));
  const others = lines.splice(MOST_PLAYERS);
  if (others.length) lines.push({ name: `${others.length} others`, shares: timeline.map((_, j) => others.reduce((sum, { shares }) => sum + shares[j], 0)) });
  return lines;
}

function drawBlame() {
  const timeline = incidents[shown?.incident]?.timeline ?? [];
  $("blame-part").hidden = timeline.length < 2;
  if (timeline.length < 2) return;
  const lines = blameLines(timeline), values = lines.map(({ shares }) => shares);
  drawGrid("blame", {
    columns: shortened(timeline.map(({ start }) => start)), rows: lines.map(({ name }) => name), values, scale: Math.max(...values.flat().map(Math.abs)), axis: chart.time ? "time" : safe(chart.word.trim()),
    hover: lines.map(({ name, shares }) => timeline.map((stage, j) => `${wrapped(name)}<br>${safe(capital(span(stage.start, stage.end)))}, ${plural(stage.n_flagged, "flagged row")}<br>${percent(shares[j])} of the scores`)),
    bar: { tickformat: ".0%" },
  });
  if (blameListens) return;
  blameListens = true; // plotly listens to a chart that it has drawn
  listen("blame", (point) => openStage(point.x));
}

let blameListens = false;

function openStage(j) {
  const { first, last } = incidents[shown.incident].timeline[j];
  show(nearest((first + last) / 2, within(shown.incident)), shown.incident, "");
  revealSoon($("row-part"));
}

let chosenSeries = 0;

function chooseHistory(story) {
  chosenSeries = 0;
  const series = story?.history?.series ?? [];
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

// expected values that run far away must not press the actual ones to a line; null where none do
function historyRange({ actual, expected }) {
  const seen = actual.filter((y) => y !== null), low = Math.min(...seen), high = Math.max(...seen), reach = high - low;
  const beyond = expected.some((y) => y !== null && (y < low - 2 * reach || y > high + 2 * reach));
  if (!beyond || !(reach > 0)) return null;
  const inside = [...seen, ...expected.filter((y) => y !== null && y >= low - reach && y <= high + reach)];
  const room = 0.05 * reach;
  return [Math.min(...inside) - room, Math.max(...inside) + room];
}

function drawHistory() {
  const history = incidents[shown?.incident]?.history;
  if (!history?.series.length) return;
  const c = colours(), one = history.series[chosenSeries], feature = features[one.feature];
  $("history-title").textContent = `History of ${cut(feature.name, 80)}`;
  const x = history.x ?? history.row;
  const line = (y, name, color, dash) => ({ type: "scatter", mode: x.length <= 120 ? "lines+markers" : "lines", x, y, name, line: { color, width: 1.6, dash }, marker: { size: 4 },
    text: y.map((value) => safe(reading(value, feature))), hovertemplate: `%{x}<br>${name} %{text}<extra></extra>` });
  const range = historyRange(one);
  $("history-hint").textContent = range ? `Some expected values lie beyond the picture: they follow the other ${report.noun}s, which have moved, too.` : "";
  const own = {
    xaxis: rowAxis(), yaxis: { title: { text: safe(cut(withUnit(cut(feature.name, 24), feature), 34)) }, zeroline: false, ...(range ? { range } : {}) }, showlegend: true, height: 270,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, margin: { l: 62, r: 20, t: 30, b: 60 }, shapes: [shade(c, history.span)],
  };
  const usual = { level: "mean of normal rows", departure: "recent level", jump: "row before" };
  const name = history.against === "normal" ? usual[history.view] : history.series.length > 1 ? "expected, culprits fixed jointly" : "expected";
  draw("history", [line(one.expected, name, c.down, "dot"), line(one.actual, "actual", c.up, "solid")], layout(c, own));
}
