/* Start: colours, paper, and everything that can be clicked. */

function drawEverything() {
  drawChart();
  drawDetails();
  drawTrend();
  drawHeat();
  drawModel();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
const nameTheme = () => { $("theme").textContent = isDark() ? "Light" : "Dark"; };

function prepareForPaper(now) {
  if (printing === now) return;
  printing = now;
  for (const fold of document.querySelectorAll("details")) fold.open = now;
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
$("filter").addEventListener("input", (event) => filterIncidents(event.target.value.trim()));
const anyScore = report.overview.empty_rows < report.overview.rows;
$("incident-hint").textContent = incidents.length
  ? `${plural(incidents.length, "incident")}${incidents.length < report.overview.incidents ? `, the worst of ${report.overview.incidents.toLocaleString("en-US")}` : ""}. Sort by a column's name; open one with a click, or with the arrow keys.`
  : `There are none: ${report.overview.flagged ? "the flagged rows are in stretches too short to be an incident" : anyScore ? "no row is above the limit" : "no row has a score"}.`;
if (!incidents.length) $("details-sentence").textContent = anyScore ? "Choose a point of the charts." : "There is nothing to look at closely.";
document.querySelector(".pair").classList.toggle("few", incidents.length <= 2); // a short list needs no column of its own
document.querySelector(".list").hidden = !incidents.length;
$("heat").hidden = $("to-heat").hidden = heatmap.incidents.length < 2;

$("log").checked = chart.log;
prepareTrends();
drawEverything();
sortIncidents();
$("log").addEventListener("change", drawChart);
$("chart").addEventListener("keydown", stepThroughMarks);
listen("chart", (point) => openPoint(curves[point.curveNumber][point.pointNumber], true));
if (heatmap.incidents.length > 1) listen("heatmap", ({ x }) => openIncident(heatmap.incidents[x], true, incidents[heatmap.incidents[x]].peak));
if (incidents.length) openIncident(list.order[0], false);
document.documentElement.dataset.ready = "true";
