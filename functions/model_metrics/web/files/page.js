// Plots what the API says. Names come from whoever deploys models: they are text here, and never markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const LEAST_WIDTH = 280, HEIGHT = 200, LEFT = 46, RIGHT = 8, TOP = 10, BOTTOM = 24;
const EVERY_MS = 15000;
const at = (id) => document.getElementById(id);
let models = [];

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

async function ask(path, fields) {
  const query = fields ? `?${new URLSearchParams(fields)}` : "";
  const answer = await fetch(`api/v1/${path}${query}`);
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error || `status ${answer.status}`);
  return said;
}

// ---- what is chosen: the address says it too, to be passed on

const linked = new URLSearchParams(location.hash.slice(1));
const choices = () => ["model", "version", "span"].map((id) => [id, at(id).value]);
const link = () => history.replaceState(null, "", `#${new URLSearchParams(choices())}`);

function fill(select, options) {
  const chosen = select.value || linked.get(select.id);
  select.replaceChildren(...options.map(([value, text]) => {
    const option = element("option", text);
    option.value = value;
    return option;
  }));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

const idOf = (model) => JSON.stringify([model.namespace, model.pipelineName, model.modelName]);

function offer() {
  const names = new Map(models.map((m) => [idOf(m), `${m.namespace} / ${m.modelName} (${m.pipelineName})`]));
  fill(at("model"), [...names]);
  offerVersions();
}

function offerVersions() {
  const versions = models.filter((m) => idOf(m) === at("model").value).map((m) => m.modelVersion);
  fill(at("version"), [["all", "all"], ...versions.map((v) => [`=${v}`, v || "none said"])]);
}

function question() {
  const [namespace, pipelineName, modelName] = JSON.parse(at("model").value);
  const end = new Date(), start = new Date(end - at("span").value * 60000);
  const fields = { namespace, pipelineName, modelName, startTime: start.toISOString(), endTime: end.toISOString() };
  const version = at("version").value;
  return version === "all" ? fields : { ...fields, modelVersion: version.slice(1) };
}

// ---- figures

// In the page's own pixels: letters are as large on a phone.
function chart(id, parts, series, most) {
  const width = Math.max(LEAST_WIDTH, at(id).clientWidth), right = width - RIGHT;
  const top = most || Math.max(1e-9, ...parts.flatMap((part) => series.map(([name]) => part[name] || 0)));
  const x = (place) => LEFT + (place + 0.5) / parts.length * (right - LEFT);
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" });
  svg.append(drawn("title", {}, series.map(([, said]) => said).join(", ")));
  for (const share of [0, 0.5, 1]) {
    svg.append(drawn("line", { class: "grid", x1: LEFT, x2: right, y1: y(top * share), y2: y(top * share) }));
    svg.append(drawn("text", { x: LEFT - 6, y: y(top * share) + 4, "text-anchor": "end" }, short(top * share)));
  }
  for (const [place, anchor] of [[0, "start"], [parts.length - 1, "end"]]) {
    svg.append(drawn("text", { x: anchor === "start" ? LEFT : right, y: HEIGHT - 6, "text-anchor": anchor }, clock(parts[place].startTime)));
  }
  series.forEach(([name, , kind], number) => (kind === "bars" ? bars : line)(svg, parts, name, x, y, number));
  const key = element("div", undefined, "key");
  if (series.length > 1) series.forEach(([, said], number) => key.append(element("span", said, number ? "second" : "first")));
  at(id).replaceChildren(svg, key);
}

function bars(svg, parts, name, x, y) {
  const width = Math.max(1, x(1) - x(0) - 1);
  parts.forEach((part, place) => {
    const bar = drawn("rect", { class: "bar", x: x(place) - width / 2, width, y: y(part[name]), height: y(0) - y(part[name]) });
    bar.append(drawn("title", {}, `${clock(part.startTime)}: ${part[name]}`));
    svg.append(bar);
  });
}

// A part without predictions is a gap, not a zero.
function line(svg, parts, name, x, y, number) {
  const className = number ? "second" : "first";
  let path = "", isDown = false;
  parts.forEach((part, place) => {
    const value = part[name];
    if (value === null) { isDown = false; return; }
    path += `${isDown ? "L" : "M"}${x(place)} ${y(value)}`;
    isDown = true;
    const dot = drawn("circle", { class: className, cx: x(place), cy: y(value), r: 2.5 });
    dot.append(drawn("title", {}, `${clock(part.startTime)}: ${short(value)}`));
    svg.append(dot);
  });
  svg.append(drawn("path", { class: className, d: path || "M0 0" }));
}

function table(id, heads, rows, said) {
  const made = element("table");
  if (said) made.append(element("caption", said));
  const head = element("tr");
  heads.forEach((text) => head.append(element("th", text)));
  made.append(head);
  rows.forEach(([name, ...cells]) => {
    const row = element("tr");
    row.append(element("th", name));
    cells.forEach((cell) => row.append(cell instanceof Node ? cell : element("td", cell)));
    made.append(row);
  });
  at(id).replaceChildren(made);
}

function confusion(counts) {
  const labels = [...new Set(counts.flatMap(([actual, predicted]) => [actual, predicted]))];
  labels.sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  const found = new Map(counts.map(([actual, predicted, count]) => [JSON.stringify([actual, predicted]), count]));
  const rows = labels.map((actual) => {
    const row = labels.map((predicted) => found.get(JSON.stringify([actual, predicted])) || 0);
    const total = Math.max(1, row.reduce((sum, count) => sum + count, 0));
    return [actual, ...row.map((count, place) => {
      const cell = element("td", count);
      const tone = labels[place] === actual ? "--right" : "--wrong";
      cell.style.background = `rgba(var(${tone}), ${(0.75 * count / total).toFixed(3)})`;
      return cell;
    })];
  });
  table("confusion", ["actual \\ predicted", ...labels], rows, "Rows are what feedback said, columns what the model said.");
}

function totals(pairs) {
  at("totals").replaceChildren(...pairs.map(([said, value]) => {
    const panel = element("div");
    panel.append(element("b", value), element("span", said));
    return panel;
  }));
}

// ---- numbers and times

const short = (value) => value === null ? "–" : Number.isInteger(value) ? value.toLocaleString() : value.toPrecision(3);
const percent = (value) => value === null ? "–" : `${(100 * value).toFixed(1)} %`;

function clock(time) {
  const options = at("span").value > 1440 ? { month: "short", day: "numeric", hour: "2-digit" } : { hour: "2-digit", minute: "2-digit" };
  return new Date(time).toLocaleString(undefined, options);
}

// ---- all of it

async function show() {
  const fields = question();
  const [responses, classes, errors, ignored] = await Promise.all([
    ask("metrics/pipeline/responses", fields), ask("metrics/pipeline/classification", fields),
    ask("metrics/pipeline/regression", fields), ask("ignored"),
  ]);
  const total = responses.reduce((sum, part) => sum + part.responses, 0);
  const panels = [["responses", short(total)]];
  if (classes.predictions) panels.push(["accuracy", percent(classes.accuracy)], ["precision, mean", percent(classes.mean.precision)], ["recall, mean", percent(classes.mean.recall)], ["F1, mean", percent(classes.mean.f1)]);
  if (errors.predictions) panels.push(["mean absolute error", short(errors.mae)], ["mean squared error", short(errors.mse)], ["root mean squared", short(errors.rmse)]);
  totals(panels);
  chart("responses", responses, [["responses", "responses", "bars"]]);
  at("classification").hidden = !classes.predictions;
  if (classes.predictions) {
    chart("accuracy", classes.parts, [["accuracy", "accuracy"]], 1);
    confusion(classes.confusion);
    const scores = Object.entries(classes.classes).map(([name, s]) => [name, percent(s.precision), percent(s.recall), percent(s.specificity), percent(s.f1)]);
    table("classes", ["class", "precision", "recall", "specificity", "F1"], scores);
  }
  at("regression").hidden = !errors.predictions;
  if (errors.predictions) chart("errors", errors.parts, [["mae", "mean absolute error"], ["rmse", "root mean squared error"]]);
  const reasons = Object.entries(ignored).sort();
  at("ignored").hidden = !reasons.length;
  table("reasons", ["reason", "messages"], reasons.map(([reason, count]) => [reason, short(count)]), "Of all topics, since the first message.");
}

async function refresh() {
  try {
    models = await ask("models");
    if (!models.length) { at("state").textContent = "No responses have been summed up yet."; return; }
    offer();
    await show();
    at("state").textContent = `As of ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    at("state").textContent = `Nothing new: ${error.message}`;
  }
}

at("choice").addEventListener("change", () => { offerVersions(); link(); refresh(); });
at("choice").addEventListener("submit", (event) => event.preventDefault());
if (linked.has("span")) at("span").value = linked.get("span");
refresh();
setInterval(refresh, EVERY_MS);
