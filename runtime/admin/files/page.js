"use strict";
// Whatever comes from the server is put in as text, never as markup.
const MOST_SECONDS = 600, LEAST_SECONDS = 60;
let span = LEAST_SECONDS; // of the charts: as much as there is
const COLOURS = ["--one", "--warn", "--good", "--bad"];
const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem("token") || "";

const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  token = given;
  history.replaceState(null, "", location.pathname);
}

function make(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function draw(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

async function ask(path, method = "GET") {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { method, headers };
  if (method === "POST") {
    headers["Content-Type"] = "application/json";
    options.body = "{}";
  }
  const answer = await fetch(path, options);
  return { status: answer.status, body: await answer.json() };
}

const short = (number) =>
  new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(number);
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
const lasted = (seconds) => (seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`);

// ---- charts

function chart(svg, lines, now) {
  const width = svg.clientWidth || 600, height = svg.clientHeight || 144;
  const most = Math.max(1, ...lines.flatMap((line) => line.points.map((point) => point[1])));
  const x = (time) => width - ((now - time) / span) * width;
  const y = (value) => height - 16 - (value / most) * (height - 30);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const drawn = [
    draw("line", { x1: 0, x2: width, y1: y(0), y2: y(0), stroke: "var(--edge)" }),
    draw("text", { x: 2, y: 11 }, short(most)),
    draw("text", { x: 2, y: height - 3 }, `${lasted(span)} ago`),
    draw("text", { x: width - 2, y: height - 3, "text-anchor": "end" }, "now"),
  ];
  lines.forEach((line, index) => {
    const colour = `var(${COLOURS[index % COLOURS.length]})`;
    const points = line.points.filter((point) => point[0] > now - span).map(([at, value]) => `${x(at)},${y(value)}`);
    drawn.push(draw("polyline", { points: points.join(" "), fill: "none", stroke: colour, "stroke-width": 2 }));
    drawn.push(draw("text", { x: 60 + 150 * index, y: 11, fill: colour }, line.name));
  });
  svg.replaceChildren(...drawn);
}

// One line for each trigger, over all replicas: seconds are joined to whole ones, as far as all have said them.
function joined(triggers, read) {
  const lines = new Map(), ends = new Map();
  for (const trigger of triggers) {
    const name = `${trigger.function}/${trigger.name}`;
    if (!lines.has(name)) lines.set(name, new Map());
    const sums = lines.get(name);
    const points = read(trigger.samples);
    if (points.length) ends.set(name, Math.min(ends.get(name) ?? Infinity, Math.round(points.at(-1)[0])));
    for (const [at, value] of points) {
      const second = Math.round(at);
      sums.set(second, (sums.get(second) || 0) + value);
    }
  }
  return [...lines].map(([name, sums]) => ({
    name,
    points: [...sums].filter(([second]) => second <= ends.get(name)).sort((a, b) => a[0] - b[0]),
  }));
}

const rates = (column) => (samples) =>
  samples.slice(5).map((now, index) => {
    const before = samples[index];
    return [now[0], Math.max(0, (now[column] - before[column]) / (now[0] - before[0] || 1))];
  });

const sumNow = (lines) =>
  short(lines.reduce((sum, line) => sum + (line.points.length ? line.points[line.points.length - 1][1] : 0), 0));

function showCharts(triggers, now) {
  const first = Math.min(now, ...triggers.flatMap((trigger) => trigger.samples.slice(0, 1).map((sample) => sample[0])));
  span = Math.min(MOST_SECONDS, Math.max(LEAST_SECONDS, now - first));
  const lags = joined(triggers, (samples) => samples.map((sample) => [sample[0], sample[1]]));
  const handled = joined(triggers, rates(2));
  const failed = joined(triggers, rates(3)).filter((line) => line.points.some((point) => point[1]));
  failed.forEach((line) => { line.name += " failed"; });
  chart($("lag"), lags, now);
  chart($("rate"), [...handled, ...failed], now);
  $("lag-now").textContent = sumNow(lags);
  $("rate-now").textContent = sumNow(handled);
}

// ---- time line

const EVENT_COLOURS = { assigned: "--good", revoked: "--warn", restart: "--bad", halted: "--bad" };

function showEvents(replicas, now) {
  const events = replicas.flatMap((replica) =>
    replica.triggers.flatMap((trigger) =>
      trigger.events.map(([at, kind, text]) => ({ at, kind, text, who: [replica.name, trigger.name].filter(Boolean).join(" ") })),
    ),
  ).sort((a, b) => b.at - a.at);
  const svg = $("line"), width = svg.clientWidth || 600;
  svg.setAttribute("viewBox", `0 0 ${width} 35`);
  const drawn = [draw("line", { x1: 0, x2: width, y1: 18, y2: 18, stroke: "var(--edge)" })];
  for (const event of events.filter((it) => it.at > now - span)) {
    const x = width - ((now - event.at) / span) * width;
    const mark = draw("circle", { cx: x - 4, cy: 18, r: 5, fill: `var(${EVENT_COLOURS[event.kind] || "--one"})` });
    mark.append(draw("title", {}, `${clock(event.at)} ${event.kind} ${event.text}`));
    drawn.push(mark);
  }
  svg.replaceChildren(...drawn);
  $("events").replaceChildren(
    ...events.slice(0, 30).map((it) => make("li", `${clock(it.at)}  ${it.who}  ${it.kind}: ${it.text}`)),
  );
}

// ---- partitions and workers

function chip(row) {
  const kind = row.isStuck ? "stuck" : row.state === "active" ? "active" : "other";
  const made = make("span", undefined, `chip ${kind}`);
  const since = row.oldestOpenSeconds >= 1 ? `, same record for ${lasted(row.oldestOpenSeconds)}` : "";
  made.append(make("span", `${row.topic}/${row.partition} ${row.state}, lag ${short(row.lag)}${since}`));
  return made;
}

function workerRow(title, note, rows, running) {
  const made = make("div", undefined, "worker"), head = make("div", title), chips = make("div", undefined, "chips");
  head.append(make("small", note));
  chips.append(...rows.map(chip));
  for (const it of running) {
    chips.append(make("small", `in ${it.topic}/${it.partition} offset ${it.offset} for ${lasted(it.runningSeconds)}`));
  }
  made.append(head, chips);
  return made;
}

function showMap(replicas) {
  const drawn = [];
  for (const replica of replicas) {
    for (const trigger of replica.triggers) {
      drawn.push(make("h3", [replica.name, `${trigger.function}/${trigger.name}`].filter(Boolean).join(" · ")));
      const free = trigger.partitions.filter((row) => row.worker === null);
      if (free.length) drawn.push(workerRow("any worker", `${free.length} partitions`, free, []));
      for (const worker of trigger.workers) {
        const own = trigger.partitions.filter((row) => row.worker === worker.index);
        const note = `${worker.state}, pid ${worker.pid}, ${worker.restarts} restarts, ${worker.inFlight} in flight`;
        drawn.push(workerRow(`worker ${worker.index}`, note, own, worker.runningRecords.slice(0, 3)));
      }
      if (!trigger.partitions.length) drawn.push(make("small", "no partitions"));
    }
  }
  $("map").replaceChildren(...drawn);
}

// ---- what stands still

async function act(action, row, said) {
  if (action === "skip" && !confirm(`Skip the record of ${row.topic}/${row.partition}? It is not delivered again.`)) return;
  const { body } = await ask(`/api/partitions/${row.topic}/${row.partition}/${action}`, "POST");
  said.textContent = body.problem || body.done.join("; ");
}

let haltedShown = "";

// What a shell reads as it stands.
const word = (text) => (/^[\w.:,/@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function commands(trigger, row, name) {
  const moves = [`headrace partition retry ${word(name)}`, `headrace partition skip ${word(name)}`];
  if (!trigger.brokers || !row.record) return moves;
  const { offset } = row.record, brokers = `--brokers ${word(trigger.brokers.join(","))}`;
  return [
    `headrace kafka consume ${brokers} --topic ${word(row.topic)} --partition ${row.partition} --offset ${offset} --count 1`,
    ...moves,
    `headrace kafka seek ${word(trigger.consumerGroup)} ${word(name)} --to ${offset + 1} ${brokers}`,
  ];
}

function recordTable(record) {
  const made = make("table");
  const rows = [["offset", record.offset], ["timestamp", record.timestamp], ["key", record.key], ["body", record.body]];
  for (const [name, value] of [...rows, ...(record.headers || []).map(([name, value]) => [`header ${name}`, value])]) {
    const line = make("tr");
    line.append(make("th", name), make("td", value === null ? "none" : value));
    made.append(line);
  }
  return made;
}

function showHalted(replicas) {
  const found = replicas.flatMap((it) => it.triggers.flatMap((trigger) => trigger.partitions.map((row) => [trigger, row])));
  const stuck = found.filter(([, row]) => row.isStuck), rows = stuck.map(([, row]) => row);
  const now = JSON.stringify([rows.map((row) => [row.topic, row.partition, row.committable, row.state, row.reason]), token]);
  if (now === haltedShown) return; // a button keeps its answer
  haltedShown = now;
  $("halted").replaceChildren(...stuck.map(([trigger, row]) => {
    const name = `${row.topic}/${row.partition}`, made = make("div", undefined, "halt");
    const reason = row.reason === null ? "why: in the log, or here with the admin token" : row.reason || "the log has why";
    made.append(
      make("b", `${name} is ${row.state} at offset ${row.committable}, attempt ${row.attempt}`),
      make("div", reason),
      make("div", "Nothing of it is lost, and the other partitions go on. Mend the cause, then have it delivered once more, or skip it:"),
    );
    if (row.record && row.record.headers) made.insertBefore(recordTable(row.record), made.lastChild);
    made.append(...commands(trigger, row, name).map((line) => make("code", line)));
    made.append(make("div", "The last one is for a function that is stopped. With onFailure.then: deadLetter such records move by themselves: headrace deadletters"));
    const said = make("small");
    for (const action of token ? ["retry", "skip"] : []) {
      const button = make("button", action === "retry" ? "Retry" : "Skip");
      button.addEventListener("click", () => act(action, row, said));
      made.append(button);
    }
    made.append(said);
    return made;
  }));
}

function showLog(replicas) {
  const lines = replicas.flatMap((it) => (it.log || []).map((line) => ({ ...line, who: it.name })));
  if (!lines.length) return;
  const log = $("log"), isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 5;
  lines.sort((a, b) => a.time - b.time);
  log.textContent = lines.slice(-200).map((it) => `${clock(it.time)} ${it.level} ${it.who} ${it.text}`).join("\n");
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

// ---- once a second

async function look() {
  const [ready, status, recent] = await Promise.all([ask("/ready"), ask("/api/status"), ask("/api/recent")]);
  const problems = ready.body.problems, now = Date.now() / 1000;
  $("state").textContent = problems.length ? "not ready" : "ready";
  $("state").className = `pill ${problems.length ? "not-ready" : "ready"}`;
  $("problems").replaceChildren(...problems.map((line) => make("li", line)));
  if (status.status !== 200 || recent.status !== 200) return;
  $("title").textContent = `Headrace · ${status.body.functions.join(", ")}`;
  showHalted(status.body.replicas);
  showCharts(recent.body.replicas.flatMap((it) => it.triggers), now);
  showEvents(recent.body.replicas, now);
  showMap(status.body.replicas);
  showLog(recent.body.replicas);
}

async function lookForever() {
  try {
    await look();
  } catch (error) {
    $("state").textContent = "does not answer";
    $("state").className = "pill not-ready";
  }
  setTimeout(lookForever, 1000);
}

$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("token", token);
  haltedShown = "";
});
lookForever();
