/* Single rows: which one is shown, its waterfall, and its values. */

const detailOf = new Map(details.rows.map((detail) => [detail.row, detail]));
let shown = null; // the detail and the incident that the panel shows, to draw them again in other colours

const within = (i) => details.rows.filter(({ row }) => i < 0 || (incidents[i].first <= row && row <= incidents[i].last));
const nearest = (row, candidates) => candidates.reduce((best, one) => (!best || Math.abs(one.row - row) < Math.abs(best.row - row) ? one : best), null);
// where a row lies; charts leave out some rows, and then a neighbour lies there
const placeOf = (row) => (chart.x ? chart.x[Math.max(chart.row.findLastIndex((other) => other <= row), 0)] : row);

function openIncident(i, move = true, row = incidents[i].onset.row) {
  ensureListed(i);
  show(detailOf.get(row), i, "");
  if (move) reveal($("details"));
}

// a row somebody pointed at; the nearest one stands in where it has no details
function openRow({ row, label, flagged, score }, scroll) {
  const i = incidentOf(row), own = detailOf.get(row), name = rowWord(label);
  ensureListed(i);
  if (own) show(own, i, "");
  else if (flagged || i >= 0) {
    const other = nearest(row, within(i)), kept = rowWord(other.label);
    show(other, i, `${capital(name)} has no details; showing ${kept}, the nearest that has.`, row, label);
  } else {
    show(null, -1, "");
    $("details-sentence").textContent = `${capital(name)}: score ${number(score)}, limit ${number(details.limit)}. No details are kept for this row: culpa explain gives them.`;
    select(row, placeOf(row), -1);
  }
  if (scroll) revealSoon(shown.detail ? $("row-part") : $("details"));
}

function show(detail, i, note, row = detail?.row) {
  const changed = shown?.incident !== i;
  shown = { detail, incident: i };
  const story = incidents[i];
  $("details-title").textContent = story ? `Incident: ${when(story)}` : "Details";
  $("details-sentence").textContent = story ? story.sentence : detail ? `${capital(rowWord(detail.label))}: score ${number(detail.score)}, limit ${number(details.limit)}.` : "";
  $("details-facts").textContent = story ? `${plural(story.n_flagged, "flagged row")}. Worst row: ${scored(story)}${leastPossible(story.p_value)}.` : "";
  if (changed) fillStory(story);
  $("row-part").hidden = !detail;
  if (!detail) return;
  $("row-title").textContent = `Row by row: ${rowWord(detail.label)}`;
  $("row-note").textContent = note;
  $("row-note").hidden = !note;
  listCells(detail);
  chooseRow();
  select(row, placeOf(row), i);
  if (changed && story) followTrend(story);
  drawDetails();
}

function showNothing(text) {
  shown = null;
  $("details-title").textContent = "Details";
  $("details-sentence").textContent = text;
  $("details-facts").textContent = "";
  $("story").hidden = $("row-part").hidden = true;
  select(null, null, null);
}

// the way from one row with details to the next
function chooseRow() {
  const story = incidents[shown.incident], rows = within(shown.incident), here = rows.indexOf(shown.detail);
  const steps = [["Earlier", rows[here - 1]], ["Later", rows[here + 1]]];
  if (story) steps.unshift(["Onset", detailOf.get(story.onset.row)], ["Worst", detailOf.get(story.peak)]);
  $("row-choices").replaceChildren(...steps.map(([name, detail]) => {
    const button = element("button", name, { type: "button", "aria-pressed": String(detail === shown.detail) });
    button.disabled = !detail;
    button.addEventListener("click", () => {
      show(detail, shown.incident, "");
      [...$("row-choices").children].find((other) => other.textContent === name)?.focus({ preventScroll: true });
    });
    return button;
  }));
  const every = details.spacing === 1 ? "every flagged row has" : details.spacing ? `the onset, the worst row and every ${ordinal(details.spacing)} flagged row have` : "the onset and the worst row have";
  $("row-hint").textContent = story ? `Of this incident, ${every} details: ${plural(rows.length, "row")}.` : "";
}

const ordinal = (n) => `${n.toLocaleString("en-US")}${n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] ?? "th"}`;

function drawDetails() {
  drawBlame();
  drawHistory();
  if (shown?.detail) drawWaterfall(shown.detail);
}

function drawWaterfall(detail) {
  const c = colours(), n = detail.player.length, base = detail.base_value, error = (k) => detail.error[k] ?? 0;
  const starts = [];
  detail.value.reduce((at, value) => (starts.push(at), at + value), base);
  const names = ["base value", ...detail.player.map(playerName), `score of ${rowWord(detail.label)}`].map(tickName);
  const fill = detail.player.map((player, k) => (typeof player === "number" ? (detail.value[k] < 0 ? c.down : c.up) : c.rest));
  const hover = detail.player.map((player, k) => `${wrapped(playerName(player))}<br>${signed(detail.value[k])}` + (error(k) ? ` ± ${roughly(error(k))} (95%)` : ""));
  const positions = names.map((_, k) => k);
  const bars = {
    type: "bar", orientation: "h", y: positions, base: [0, ...starts, 0], x: [base, ...detail.value, detail.score],
    marker: { color: [c.rest, ...fill, c.ink] }, hoverinfo: "text", textposition: "outside", cliponaxis: false, textangle: 0,
    hovertext: [`${details.base_value === null ? "base value, given what is known" : "base value"}: ${number(base)}`, ...hover, `score: ${number(detail.score)}`],
    text: [part(base, detail.score), ...detail.value.map((value) => signedPart(value, detail.score)), part(detail.score, detail.score)],
    error_x: { type: "data", array: [0, ...detail.player.map((_, k) => error(k)), 0], visible: detail.error.some((e) => e > 0), color: c.soft, thickness: 1.2, width: 3 },
  };
  const ends = [0, base, detail.score, details.limit, ...starts.map((start, k) => start + detail.value[k])];
  const low = Math.min(...ends), high = Math.max(...ends), room = (narrow() ? 0.3 : 0.14) * (high - low || 1);
  const own = {
    yaxis: { tickvals: positions, ticktext: names.map(safe), autorange: "reversed", showgrid: false, zeroline: false },
    xaxis: { title: { text: narrow() ? safe(details.title).replace(": ", ":<br>") : safe(details.title) }, range: [low < 0 ? low - room : 0, high + room] }, height: 27 * (n + 2) + 70, bargap: 0.3,
    shapes: [{ type: "line", x0: details.limit, x1: details.limit, yref: "paper", y0: 0, y1: 1, line: { color: c.bad, width: 1.5 } }],
    annotations: [{ x: details.limit, yref: "paper", y: 1, yanchor: "bottom", showarrow: false, text: "limit", font: { size: 11, color: c.bad } }],
    margin: { l: roomFor(names), r: 20, t: 22, b: narrow() ? 64 : 50 },
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
      dataCell(detail.actual[k], feature ? withUnit(reading(detail.actual[k], feature), feature) : "–", "Actual"),
      dataCell(detail.expected[k], feature ? withUnit(reading(detail.expected[k], feature), feature) : "–", "Expected alone"),
      dataCell(detail.value[k], signedPart(detail.value[k], detail.score) + error, "Blame"), dataCell(detail.value[k] / detail.score, percent(detail.value[k] / detail.score), "Share"));
    const fixed = detail.score_if_fixed[k], clears = fixed !== null && fixed <= details.limit && detail.score > details.limit;
    const last = dataCell(fixed, part(fixed, detail.score) + (clears ? " ✓" : ""), "Score if fixed");
    if (clears) { last.className = "clears"; last.title = "Below the limit: fixing this alone clears the alarm."; }
    line.append(last);
    body.append(line);
    if (members.length > 1) body.append(...(detail.cells?.[player] ?? []).map(memberLine));
  });
  const missing = detail.missing.length ? ` Missing in this row, so not to blame: ${detail.missing.map(playerName).map((name) => cut(name, 60)).join(", ")}.` : "";
  $("cells-hint").textContent = `Expected alone: what all other ${report.noun}s imply for this one, culprits among them included; the tables of culprits above fix them jointly. `
    + "Score if fixed: the score with this one at that value; ✓ where that is below the limit."
    + (!detail.error.some(Boolean) ? "" : " ± is the half width of a 95% interval: blame was sampled.") + missing;
}

function memberLine([position, actual, expected]) {
  const line = element("tr", undefined, { class: "member" }), feature = features[position];
  line.append(named("th", feature.name, { scope: "row" }), dataCell(actual, withUnit(reading(actual, feature), feature), "Actual"),
    dataCell(expected, withUnit(reading(expected, feature), feature), "Expected alone"), element("td"), element("td"), element("td"));
  return line;
}
