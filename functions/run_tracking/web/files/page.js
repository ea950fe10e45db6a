// Shows what the API says. Names, lines and parameters come from whoever tracks runs: they are text here, never markup.
"use strict";

const API = "api/v1/rest/", SVG = "http://www.w3.org/2000/svg";
const LEAST_WIDTH = 280, HEIGHT = 200, LEFT = 70, RIGHT = 8, TOP = 10, BOTTOM = 24;
const EVERY_MS = 15000, POINTS = 200, LINES = 200, MOST_CHOSEN = 8, MOST_TRACES = 500, TONES = 8;
const LEVELS = { 10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL" };
const at = (id) => document.getElementById(id);
const linked = new URLSearchParams(location.hash.slice(1));
let chosen = linked.getAll("run"), isFirst = !linked.has("state"), listed = [], turn = 0;

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

async function ask(path, fields, body) {
  const query = fields ? `?${new URLSearchParams(fields)}` : "";
  const sent = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(API + path + query, sent);
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error || `status ${answer.status}`), { status: answer.status });
  return said;
}

// ---- numbers, times, texts

const isNumber = (value) => typeof value === "number";
const short = (value) => !isNumber(value) ? "–" : Number.isInteger(value) && Math.abs(value) < 1e9 ? value.toLocaleString() : String(Number(value.toPrecision(5)));
const when = (seconds) => new Date(seconds * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
const titleOf = (run) => run.name || run.id;
const stateOf = (run) => (run.active ? "running" : "ended") + (run.archived ? ", archived" : "");
const said = (value) => typeof value === "string" ? value : JSON.stringify(value);

function lasting(seconds) {
  if (!isNumber(seconds)) return "–";
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h ? `${h} h ${m} min` : m ? `${m} min ${Math.floor(s)} s` : `${Number(s.toPrecision(3))} s`;
}

function contextText(context) {
  const pairs = Object.entries(context);
  return pairs.length ? pairs.map(([key, value]) => `${key}=${said(value)}`).join(", ") : "";
}

// Of a summary: JSON, as a client has written it.
function contextOf(text) {
  try { return contextText(JSON.parse(text)); } catch { return text; }
}

// ---- tables

function table(id, heads, rows, none) {
  if (!rows.length) { at(id).replaceChildren(element("p", none, "none")); return; }
  const made = element("table"), head = element("tr");
  heads.forEach((text) => head.append(element("th", text)));
  made.append(head);
  rows.forEach(({ cells, isMarked }) => {
    const row = element("tr", undefined, isMarked ? "marked" : undefined);
    cells.forEach((cell) => row.append(cellOf(cell)));
    made.append(row);
  });
  at(id).replaceChildren(made);
}

function cellOf(cell) {
  if (isNumber(cell)) return element("td", short(cell), "number");
  if (!(cell instanceof Node)) return element("td", cell === null ? "–" : cell);
  const made = element("td", undefined, cell.type === "checkbox" ? "check" : undefined);
  made.append(cell);
  return made;
}

function showRuns() {
  const rows = listed.map((run) => {
    const name = element("button", titleOf(run)), box = element("input"), isChosen = chosen.includes(run.id);
    name.type = "button";
    name.addEventListener("click", () => choose([run.id], true));
    Object.assign(box, { type: "checkbox", checked: isChosen, ariaLabel: `compare ${titleOf(run)}` });
    box.addEventListener("change", () => choose(box.checked ? [...chosen, run.id] : chosen.filter((id) => id !== run.id)));
    const cells = [box, name, run.experiment, run.tags.join(", ") || null, stateOf(run), lasting(run.duration), when(run.creation_time)];
    return { cells, isMarked: isChosen };
  });
  table("runs", ["", "name", "experiment", "tags", "state", "duration", "created"], rows, "No runs.");
}

// ---- curves

const toned = (number) => `c${number % TONES}`;

// Finite ends, a little apart where all values are one.
function rangeOf(values) {
  const finite = values.filter(isNumber);
  if (!finite.length) return [0, 1];
  const least = finite.reduce((a, b) => Math.min(a, b)), most = finite.reduce((a, b) => Math.max(a, b));
  return least < most ? [least, most] : [least - (Math.abs(least) || 1) / 2, most + (Math.abs(most) || 1) / 2];
}

// In the page's own pixels: letters are as large on a phone.
function chart(name, lines) {
  const figure = element("figure");
  at("charts").append(figure);
  const width = Math.max(LEAST_WIDTH, figure.clientWidth), right = width - RIGHT;
  const [first, last] = rangeOf(lines.flatMap((one) => one.iters)), [low, high] = rangeOf(lines.flatMap((one) => one.values));
  // Divided before they are subtracted: the distance of two numbers may be none that there is.
  const scale = Math.max(Math.abs(low), Math.abs(high));
  const x = (step) => LEFT + (step - first) / (last - first) * (right - LEFT);
  const y = (value) => TOP + (1 - (value / scale - low / scale) / (high / scale - low / scale)) * (HEIGHT - TOP - BOTTOM);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" });
  svg.append(drawn("title", {}, name));
  for (const value of [low, low / 2 + high / 2, high]) {
    svg.append(drawn("line", { class: "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }));
    svg.append(drawn("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, tick(value)));
  }
  svg.append(drawn("text", { x: LEFT, y: HEIGHT - 6 }, `step ${Math.round(first)}`));
  svg.append(drawn("text", { x: right, y: HEIGHT - 6, "text-anchor": "end" }, String(Math.round(last))));
  lines.forEach((one, number) => line(svg, one, x, y, number));
  figure.append(element("h4", name), svg, keyOf(lines.map((one) => one.said)));
}

const tick = (value) => value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3) ? value.toExponential(1) : String(Number(value.toPrecision(3)));

// What is no number is a gap, not a zero.
function line(svg, one, x, y, number) {
  let path = "", isDown = false;
  one.iters.forEach((step, place) => {
    const value = one.values[place];
    if (!isNumber(value)) { isDown = false; return; }
    path += `${isDown ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    const isAlone = !isDown && !isNumber(one.values[place + 1]);
    isDown = true;
    if (isAlone) svg.append(drawn("circle", { class: toned(number), cx: x(step), cy: y(value), r: 2.5 }));
  });
  svg.append(drawn("path", { class: toned(number), d: path || "M0 0" }));
}

function keyOf(texts) {
  const key = element("div", undefined, "key");
  texts.forEach((text, number) => { if (text) key.append(element("span", text, toned(number))); });
  return key;
}

function showCharts(runs) {
  const byName = new Map();
  runs.forEach((run) => run.curves.forEach((curve) => {
    const context = contextText(curve.context);
    const about = [runs.length > 1 ? run.title : "", context].filter(Boolean).join(": ");
    byName.set(curve.name, [...(byName.get(curve.name) || []), { ...curve, said: about }]);
  }));
  at("charts").replaceChildren();
  [...byName.keys()].sort().forEach((name) => chart(name, byName.get(name)));
  if (!byName.size) at("charts").append(element("p", "No metrics.", "none"));
}

// ---- the rest of a run

// a.b.c for what is nested: a map, for a name may be one that objects have by themselves.
function flat(value, path, found) {
  const isNested = value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length;
  if (isNested) Object.entries(value).forEach(([key, member]) => flat(member, path ? `${path}.${key}` : key, found));
  else found.set(path, said(value));
  return found;
}

function showParams(runs) {
  const of = runs.map((run) => Object.keys(run.params).length ? flat(run.params, "", new Map()) : new Map());
  const names = [...new Set(of.flatMap((params) => [...params.keys()]))].sort();
  const rows = names.map((name) => {
    const values = of.map((params) => params.has(name) ? params.get(name) : "–");
    return { cells: [name, ...values], isMarked: new Set(values).size > 1 };
  });
  table("params", ["name", ...runs.map((run) => run.title)], rows, "None.");
}

function showArtifacts(runs) {
  const rows = runs.flatMap((run) => run.artifacts.map((artifact) => {
    const link = element("a", artifact.path);
    // Made here: what a client says is no address of ours.
    link.href = `${API}runs/${encodeURIComponent(run.id)}/artifacts/download/?path=${encodeURIComponent(artifact.path)}`;
    link.download = "";
    return { cells: runs.length > 1 ? [run.title, link] : [link] };
  }));
  table("artifacts", runs.length > 1 ? ["run", "path"] : ["path"], rows, "None.");
}

const recordText = (one) => [isNumber(one.timestamp) ? when(one.timestamp) : "", LEVELS[one.log_level] || "", one.message ?? ""].filter(Boolean).join("  ");

// The ends of them, where what is new comes.
function showTexts(id, runs, linesOf) {
  const parts = runs.filter((run) => linesOf(run).length).flatMap((run) => {
    const text = element("pre", linesOf(run).join("\n"));
    text.tabIndex = 0;
    return runs.length > 1 ? [element("h4", run.title), text] : [text];
  });
  at(id).replaceChildren(...(parts.length ? parts : [element("p", "Nothing.", "none")]));
  at(id).querySelectorAll("pre").forEach((text) => { text.scrollTop = text.scrollHeight; });
}

async function readRun(id) {
  const base = `runs/${encodeURIComponent(id)}/`;
  const last = { limit: LINES };
  const [info, lines, records] = await Promise.all([ask(`${base}info/`), ask(`${base}logs/`, last), ask(`${base}log-records/`, last)]);
  const traces = info.traces.metric.slice(0, MOST_TRACES).map(({ name, context }) => ({ name, context }));
  const curves = traces.length ? await ask(`${base}metric/get-batch/`, { record_density: POINTS }, traces) : [];
  const texts = { lines: lines.map((one) => one.line), records: records.map(recordText) };
  return { id, title: info.props.name || id, params: info.params, artifacts: info.artifacts, curves, ...texts };
}

async function showChosen() {
  const now = ++turn, wanted = chosen;
  at("chosen").hidden = !wanted.length;
  if (!wanted.length) return;
  const read = await Promise.all(wanted.map((id) => readRun(id).catch((error) => {
    if (error.status === 404) return null;  // deleted meanwhile
    throw error;
  })));
  if (now !== turn) return;  // something else has been chosen since
  const runs = read.filter(Boolean);
  at("chosen").hidden = !runs.length;
  at("names").textContent = runs.length > 1 ? `${runs.length} runs` : runs.map((run) => run.title).join();
  showCharts(runs);
  showParams(runs);
  showArtifacts(runs);
  showTexts("terminal", runs, (run) => run.lines);
  showTexts("log", runs, (run) => run.records);
}

// ---- what Spark has summed up

function showSums(experiments, runs) {
  at("sums").hidden = !runs.length;
  const ofExperiments = experiments.map((row) => [row.experiment || "none", row.name, contextOf(row.context), row.runs, row.min, row.mean, row.max]);
  const ofRuns = runs.map((row) => [row.experiment || "none", row.run_name || row.run, row.name, contextOf(row.context), row.count, row.min, row.mean, row.max, row.last]);
  const rows = (of) => of.map((cells) => ({ cells }));
  table("of-experiments", ["experiment", "metric", "context", "runs", "min", "mean", "max"], rows(ofExperiments), "None.");
  table("of-runs", ["experiment", "run", "metric", "context", "steps", "min", "mean", "max", "last"], rows(ofRuns), "None.");
}

// ---- all of it: the address says what is chosen, to be passed on

function link() {
  const fields = ["experiment", "state", "archived"].map((id) => [id, at(id).value]);
  history.replaceState(null, "", `#${new URLSearchParams([...fields, ...chosen.map((id) => ["run", id])])}`);
}

function guarded(work) {
  return work().catch((error) => { at("said").textContent = `Nothing new: ${error.message}`; });
}

function choose(ids, goesThere) {
  chosen = ids.slice(-MOST_CHOSEN);
  link();
  showRuns();
  guarded(async () => {
    await showChosen();
    if (goesThere) at("chosen").scrollIntoView();
  });
}

function offer(experiments) {
  const select = at("experiment"), before = select.value || linked.get("experiment") || "";
  const options = [["", "all"], ...experiments.map(({ name }) => [name, name])].map(([value, text]) => {
    const option = element("option", text);
    option.value = value;
    return option;
  });
  select.replaceChildren(...options);
  select.value = experiments.some(({ name }) => name === before) ? before : "";
}

async function refresh() {
  offer(await ask("experiments/"));
  const experiment = at("experiment").value;
  const fields = Object.entries({ experiment, active: at("state").value, archived: at("archived").value }).filter(([, value]) => value);
  const only = experiment ? { experiment } : undefined;
  const [runs, ofExperiments, ofRuns] = await Promise.all([ask("runs/", fields), ask("summaries/experiments", only), ask("summaries/runs", only)]);
  listed = runs;
  if (isFirst && !chosen.length && runs.length) chosen = [runs[0].id];  // unless the address says what is chosen
  isFirst = isFirst && !runs.length;
  showRuns();
  showSums(ofExperiments, ofRuns);
  await showChosen();
  at("said").textContent = `As of ${new Date().toLocaleTimeString()}`;
}

// One after the other: where answers take long, questions don't pile up.
async function keepUp() {
  await guarded(refresh);
  setTimeout(keepUp, EVERY_MS);
}

for (const id of ["state", "archived"]) if (linked.has(id)) at(id).value = linked.get(id);
at("choice").addEventListener("change", () => { linked.delete("experiment"); link(); guarded(refresh); });
at("choice").addEventListener("submit", (event) => event.preventDefault());
keepUp();
