/* The list of incidents, and what is selected. */

const PAGE = 50;
const list = { key: "score", falling: true, page: 0, words: "", order: [] };
const selected = { row: null, x: null, incident: null }; // the row, where it lies, and the incident, -1 for none

const culpritsOf = (story) => (story.onset.culprits.length ? story.onset.culprits : story.worst?.culprits ?? []);
const culprit = (story) => (culpritsOf(story).length ? playerName(culpritsOf(story)[0].feature) : "");
const sortKey = (story) => (list.key === "culprit" ? culprit(story) : story[list.key]);
const incidentOf = (row) => incidents.findIndex((story) => story.first <= row && row <= story.last);

function mentions(story, words) {
  const names = [...story.onset.culprits, ...(story.worst?.culprits ?? [])].map((one) => playerName(one.feature));
  return [story.sentence, when(story), ...names].some((text) => text.toLowerCase().includes(words));
}

function sortIncidents() {
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  const words = list.words.toLowerCase();
  list.order = incidents.map((_, i) => i)
    .filter((i) => !words || mentions(incidents[i], words))
    .sort((a, b) => compare(sortKey(incidents[a]), sortKey(incidents[b])) * (list.falling ? -1 : 1) || a - b);
  list.page = 0;
  listIncidents();
}

function incidentLine(i) {
  const story = incidents[i], times = story.score / details.limit;
  const line = element("tr", undefined, { role: "row", "data-incident": i, "aria-current": String(i === selected.incident) });
  const first = element("td", undefined, { role: "cell" });
  first.append(element("button", capital(when(story)), { type: "button", class: "open", dir: "auto", tabindex: "-1" }));
  const score = dataCell(story.score);
  score.setAttribute("role", "cell");
  if (Number.isFinite(times)) score.append(element("small", ` ${roughly(times)} × limit`));
  line.append(first, element("td", plural(story.n_flagged, "row"), { role: "cell" }), score,
    named("td", cut(culprit(story), 60), { role: "cell", title: culprit(story) }), element("td", story.sentence, { role: "cell" }));
  return line;
}

function listIncidents() {
  const body = document.querySelector(".incidents tbody"), from = list.page * PAGE, pager = document.querySelector(".pager");
  body.replaceChildren(...list.order.slice(from, from + PAGE).map(incidentLine));
  const current = body.querySelector('[aria-current="true"] .open') ?? body.querySelector(".open");
  if (current) current.tabIndex = 0;
  $("filter-none").hidden = list.order.length > 0 || !incidents.length;
  pager.hidden = list.order.length <= PAGE;
  pager.querySelector("span").textContent = `${from + 1} to ${Math.min(from + PAGE, list.order.length)} of ${list.order.length.toLocaleString("en-US")}`;
  pager.querySelector('[data-step="-1"]').disabled = !list.page;
  pager.querySelector('[data-step="1"]').disabled = from + PAGE >= list.order.length;
  for (const head of document.querySelectorAll(".incidents th[data-key]")) {
    head.setAttribute("aria-sort", head.dataset.key !== list.key ? "none" : list.falling ? "descending" : "ascending");
  }
}

// what is shown must be listed: the details follow the filter, ...
function filterIncidents(words) {
  list.words = words;
  sortIncidents();
  if (selected.incident === -1 || list.order.includes(selected.incident)) return;
  if (list.order.length) openIncident(list.order[0], false);
  else showNothing("No incident is listed, because none matches the filter.");
}

// ... and the filter gives way to a row that somebody points at
function ensureListed(i) {
  if (i < 0) return;
  if (!list.order.includes(i)) {
    $("filter").value = list.words = "";
    sortIncidents();
  }
  const page = Math.floor(list.order.indexOf(i) / PAGE);
  if (page !== list.page) {
    list.page = page;
    listIncidents();
  }
}

function select(row, x, incident) {
  Object.assign(selected, { row, x, incident });
  Plotly.relayout($("chart"), { shapes: chartShapes(colours()) });
  drawTrend();
  const lines = [...document.querySelectorAll(".incidents tbody tr")];
  for (const line of lines) line.setAttribute("aria-current", String(Number(line.dataset.incident) === incident));
  const here = lines.find((line) => Number(line.dataset.incident) === incident);
  if (!here) return;
  for (const line of lines) line.querySelector(".open").tabIndex = line === here ? 0 : -1;
  const box = document.querySelector(".list"), top = here.offsetTop - box.querySelector("thead").offsetHeight;
  if (top < box.scrollTop || here.offsetTop + here.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top;
}

function stepThroughIncidents(event) {
  const lines = [...document.querySelectorAll(".incidents tbody tr")];
  const here = lines.indexOf(event.target.closest("tr"));
  const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: lines.length - 1 }[event.key];
  if (to === undefined || !lines[to]) return;
  event.preventDefault();
  openIncident(Number(lines[to].dataset.incident), false);
  lines[to].querySelector(".open").focus({ preventScroll: true });
}
