/* Words and numbers. Text from data goes into the page by textContent, and into charts through safe(): nothing of it is
   ever markup. All files of this folder run in one scope, in the order that culpa/report/page.py has. */

const report = JSON.parse(document.getElementById("content").textContent);
const { features, chart, incidents, details, trends, heatmap, model } = report;
const $ = (id) => document.getElementById(id);
const narrow = () => window.innerWidth < 640;
let printing = false;

const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 5 });
const number = (x) => {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  return size && (size < 1e-4 || size >= 1e9) ? x.toExponential(3) : short.format(x).replace("-", "−");
};
// a reading, as sentences have it: with the decimals of its feature, but with no more than it has
const reading = (x, { decimals }) => {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  if (size >= 1e7 || (size > 0 && size < 1e-3 && decimals > 4)) return number(x);
  const most = Math.min(Math.max(decimals, 0), 12);
  let places = 0;
  while (places < most && Number(size.toFixed(places)) !== size) places += 1;
  const text = size.toFixed(places);
  return `${x < 0 && Number(text) ? "−" : ""}${text}`;
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
const chance = (p) => (p === null ? "–" : p > 0.99 ? "> 99%" : p < 0.01 ? "< 1%" : `${Math.round(100 * p)}%`);
const inSd = (x) => {
  const size = Math.abs(x), sign = x < 0 ? "−" : "+";
  return size > 1000 ? `beyond ${sign}1,000 sd` : `${sign}${size.toFixed(size < 10 ? 1 : 0)} sd`;
};
const plural = (n, word) => `${n.toLocaleString("en-US")} ${word}${n === 1 ? "" : "s"}`;
const listed = (texts) => (texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`);

// plotly reads some markup and formulas in texts; escaped, it shows them as they are
const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;").replace(/\s+/g, " ");
const cut = (text, most) => {
  const signs = Array.from(String(text).replace(/\s+/g, " "));
  const head = Math.ceil((most - 1) * 0.6);
  return signs.length <= most ? signs.join("") : [...signs.slice(0, head), "…", ...signs.slice(signs.length - (most - 1 - head))].join("");
};
const wrapped = (text) => Array.from(String(text).replace(/\s+/g, " ").matchAll(/.{1,60}(?:\s|$)|.{60}/gu), (piece) => safe(piece[0])).join("<br>");
const capital = (text) => text[0].toUpperCase() + text.slice(1);

// somebody who can be blamed; a text stands for itself, such as a sum of others
const playerName = (player) => (typeof player === "number" ? report.players[player] : player);
// incidents have names as positions: those of players come first, then those of other features
const names = [...new Set([...report.players, ...features.map((feature) => feature.name)])];
const featureOfName = new Map(features.map((feature, k) => [feature.name, k]));
const featureAt = (name) => featureOfName.get(names[name]);
const featureOf = ({ feature, member }) => featureAt(member === "" ? feature : member) ?? report.members[feature][0];
const featureName = (feature) => cut(features[feature].name, 60);
const tickName = (name) => cut(name, narrow() && !printing ? 13 : 30);
const withUnit = (text, feature) => (feature.unit ? `${text} ${feature.unit}` : text);
const rowWord = (label) => `${chart.word}${label}`;
// labels of rows; the day, or at least the year, need not be told where they share it
const shortened = (labels) => {
  const texts = labels.map(String);
  const shared = (length) => texts.every((text) => text.length > length && text.startsWith(texts[0].slice(0, length)));
  return !chart.time || !texts.length ? texts : shared(11) ? texts.map((text) => text.slice(11)) : shared(5) ? texts.map((text) => text.slice(5)) : texts;
};
const span = (start, end) => {
  if (start === end) return rowWord(start);
  const day = chart.time && String(start).slice(0, 11);
  return `${rowWord(start)} – ${day && day.length === 11 && String(end).startsWith(day) ? String(end).slice(11) : end}`;
};
const when = ({ start, end }) => span(start, end);

function element(tag, text, attributes = {}) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

// long names may break at their joints
function named(tag, name, attributes) {
  const node = element(tag, undefined, { dir: "auto", ...attributes });
  String(name).split(/(?<=[_\-./:])/).forEach((piece, k) => node.append(...(k ? [element("wbr")] : []), piece));
  return node;
}

// a number with all its digits behind the text; the label is its column's name where the table is narrow
function dataCell(value, text, label = "") {
  const cell = element("td", undefined, { "data-label": label });
  cell.append(element("data", text ?? number(value), { value: value ?? "" }));
  return cell;
}

function reveal(node) {
  const box = node.getBoundingClientRect();
  if (box.top < 0 || box.top > 0.5 * window.innerHeight) node.scrollIntoView({ behavior: "auto" });
}

// after a click in a chart, unless it was the first half of a double click, whose second half must meet the chart
let revealing = 0;
function revealSoon(node) {
  clearTimeout(revealing);
  revealing = setTimeout(() => reveal(node), 320);
}
function listen(id, open) {
  $(id).on("plotly_click", (event) => open(event.points[0]));
  $(id).on("plotly_doubleclick", () => clearTimeout(revealing));
}
