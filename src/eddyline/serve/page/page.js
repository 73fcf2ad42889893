// The live page: every query with its estimate and interval, moving as the store does.
// Everything is made of elements and text nodes: nothing from data is ever read as markup.

import { draw, interval, svg } from "./chart.js";

const MOST_POINTS = 1500;
const MORE_GROUPS = 500;    // how many more groups of a card one click shows
const history = new Map();  // a query's points: [epoch, time, value, low, high, exact]
const cards = new Map();    // a query's elements
const wanted = new Map();   // how many groups of a query to show, where these are more than a view has
const fuller = new Map();   // a query's answer with these groups: { epoch, answer }
const COMPARED_GROUPS = 500;  // groups of each query whose changes are asked for
const COMPARED_EVERY = 5000;  // milliseconds between two comparisons with an earlier moment while epochs move on
let compared = { changes: new Map(), epoch: null, since: "", time: 0 };  // by query, how much it changed since a moment
let texts = new Map();      // a query's SQL
let plan = null;            // which plan is shown
let store = null;           // which store at the place is shown, of those that took each other's place
let latest = null;          // the newest view

const at = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

async function get(address) {
  const response = await fetch(`api/v1/${address}`);
  const body = await response.json();
  if (!response.ok) throw new Error(body.error.message);
  return body;
}

// Status and freshness -------------------------------------------------------------------------------------------

function say(kind, sentence) {
  const status = at("status");
  if (status.textContent !== sentence) status.textContent = sentence;
  status.dataset.kind = kind;
}

function ago(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

function tellStatus(view) {
  if (view.problem) say("trouble", `The store cannot be read now: ${view.problem} ${view.answers.length ? "What is shown is what was read last." : ""}`);
  else if (view.running) say("running", "Running: a run keeps this store current.");
  else say("stopped", "No run writes this store now. The answers are those of its last commit.");
}

function tellFreshness() {
  const fresh = latest?.freshness;
  if (!fresh) return;
  const count = (number) => number.toLocaleString();
  const facts = [["epoch", count(fresh.epoch)], ["rows", count(fresh.rows)], ["deletes", count(fresh.deletes)]];
  if (fresh.bad) facts.push(["bad rows", count(fresh.bad), "warn"]);
  if (fresh.late) facts.push(["late rows", count(fresh.late), "warn"]);
  const times = fresh.streams.map((stream) => stream.last_batch_time && Date.parse(stream.last_batch_time));
  if (times.some(Boolean)) facts.push(["last batch", `${ago(Math.max(0, Date.now() - Math.max(...times.filter(Boolean))) / 1000)} ago`]);
  const goingOn = fresh.streams.filter((stream) => !stream.once).map((stream) => stream.last_batch_time && Date.parse(stream.last_batch_time));
  if (goingOn.length > 1 && goingOn.every(Boolean)) facts.push(["slowest stream", `${ago(Math.max(0, Date.now() - Math.min(...goingOn)) / 1000)} ago`]);
  facts.push(["state", `${count(latest.state_bytes)} bytes`]);
  at("freshness").replaceChildren(...facts.map(([name, value, kind]) => make("div", kind ? { class: kind } : {}, make("dt", {}, name), make("dd", {}, value))));
}

// Answers --------------------------------------------------------------------------------------------------------

// A number as a headline: at most six digits that count, and two decimals of large ones; its title has all of them.
function brief(text) {
  const [, whole, decimals] = /^-?([\d,]+)\.(\d+)$/.exec(text) ?? [];
  if (whole === undefined) return text;
  const digits = whole === "0" ? 6 + /^0*/.exec(decimals)[0].length : Math.max(2, 6 - whole.replaceAll(",", "").length);
  if (decimals.length <= digits) return text;
  return Number(text.replaceAll(",", "")).toLocaleString("en-US", { maximumFractionDigits: Math.min(digits, 20) });
}

// An inexact whole number and its interval to the digits that count: two of the distance to the nearer end, as the
// server writes fractions. The ends are rounded outwards.
function supported(numbers) {
  const { value, low, high } = numbers, given = { value: brief(numbers.shown), interval: numbers.shown_interval };
  if (numbers.exact || ![value, low, high].every(Number.isSafeInteger)) return given;
  const gaps = [value - low, high - value].filter((gap) => gap > 1e-6 * (high - low));
  const unit = gaps.length ? 10 ** (Math.floor(Math.log10(Math.min(...gaps))) - 1) : 1;
  if (unit < 10) return given;
  const to = (round, number) => (round(number / unit) * unit).toLocaleString("en-US");
  return { value: to(Math.round, value), interval: `${to(Math.floor, low)} .. ${to(Math.ceil, high)}` };
}

const percent = (share) => `${Number((100 * share).toPrecision(6))}%`;

function intervalLine(answer) {
  if (answer.exact) return make("span", { class: "chip exact" }, "exact");
  if (answer.value === null) return make("span", { class: "quiet" }, "");
  return make("span", {}, make("span", { class: "interval", title: answer.shown_interval }, `${supported(answer).interval} at ${percent(answer.confidence)}`), " ", make("span", { class: "chip" }, answer.method));
}

function notesOf(answer) {
  return answer.notes?.length ? make("ul", { class: "notes", "aria-label": "Notes" }, ...answer.notes.map((note) => make("li", {}, note))) : null;
}

function truthLine(answer) {
  if (typeof answer.exact_answer !== "number") return null;
  const inside = answer.exact || (answer.low <= answer.exact_answer && answer.exact_answer <= answer.high);
  return make("div", { class: "truth" }, `exact answer ${answer.exact_answer.toLocaleString(undefined, { maximumFractionDigits: 4 })}, ${inside ? "inside" : "outside"} the interval`);
}

// The time that "7 days ago" means, counted from the last batch; a time or the number of an epoch stays as it is.
function moment(text) {
  const [, number, unit] = /^(\d+) *(second|minute|hour|day|week)s? ago$/i.exec(text.trim()) ?? [];
  if (number === undefined) return text.trim();
  const times = (latest?.freshness?.streams ?? []).map((stream) => stream.last_batch_time && Date.parse(stream.last_batch_time)).filter(Boolean);
  const seconds = { second: 1, minute: 60, hour: 3600, day: 86400, week: 604800 }[unit.toLowerCase()];
  return new Date((times.length ? Math.max(...times) : Date.now()) - 1000 * number * seconds).toISOString();
}

// How much each number changed since the moment that was asked for, at most every few seconds.
async function compare() {
  const since = at("since").value.trim(), epoch = latest?.freshness?.epoch ?? null;
  if (!since) {
    compared = { changes: new Map(), epoch, since, time: 0 };
    at("compared").hidden = true;
    return;
  }
  if (epoch === null || (since === compared.since && (epoch === compared.epoch || Date.now() - compared.time < COMPARED_EVERY))) return;
  compared = { changes: since === compared.since ? compared.changes : new Map(), epoch, since, time: Date.now() };
  try {
    const found = await get(`answers?${new URLSearchParams({ since: moment(since), limit: COMPARED_GROUPS })}`);
    if (since !== compared.since) return;
    compared.changes = new Map(found.map((change) => [change.query, change]));
    at("compared").hidden = true;
  } catch (error) {
    compared.changes = new Map();
    at("compared").textContent = error.message;
    at("compared").hidden = false;
  }
  show(latest);
}

function changeLine(answer) {
  const change = compared.changes.get(answer.query), since = ` since ${compared.since.replace(/^\d+$/, "epoch $&")}`;
  if (change === undefined || answer.groups !== undefined) return null;
  if (change.refused !== undefined) return make("div", { class: "change quiet" }, change.refused);
  if (change.value === null) return make("div", { class: "change quiet" }, `change${since} not known`);
  return make("div", { class: "change", title: change.shown }, `${changeText(change)}${since}`);
}

function changeText(change) {
  if (change.value === null) return change.known ? "NULL" : "change not known";
  const { value, interval } = supported(change), sign = Number(change.value) > 0 ? "+" : "";
  return `${sign}${value}${change.exact || interval === null ? "" : ` [${interval}]`}`;
}

function groupTable(answer, more) {
  const selective = answer.groups.some((row) => row.selected !== undefined);
  const head = make("tr", {}, ...answer.group_columns.map((name) => make("th", { scope: "col" }, name)),
    ...answer.aggregates.flatMap((name) => [make("th", { scope: "col" }, name), make("td", {}, "")]),
    ...(selective ? [make("th", { scope: "col" }, "in the answer")] : []));
  const bounds = new Map(answer.aggregates.map((name) => {
    const seen = answer.groups.flatMap((row) => [row.aggregates[name].low, row.aggregates[name].high, row.aggregates[name].value]).filter((value) => typeof value === "number");
    return [name, [seen.reduce((a, b) => Math.min(a, b), 0), seen.reduce((a, b) => Math.max(a, b), 0)]];
  }));
  const changes = new Map(((more && compared.changes.get(answer.query)?.groups) || []).map((row) => [JSON.stringify(row.group), row.aggregates]));
  const rows = answer.groups.map((row) => make("tr", {},
    ...answer.group_columns.map((name, i) => make(i ? "td" : "th", i ? {} : { scope: "row" }, row.group[name] === null ? "NULL" : String(row.group[name]))),
    ...answer.aggregates.flatMap((name) => groupCells(row.aggregates[name], bounds.get(name), changes.get(JSON.stringify(row.group))?.[name])),
    ...(selective ? [make("td", {}, row.selected === "in" ? "certainly" : "perhaps")] : [])));
  const table = make("table", { class: "groups" }, make("thead", {}, head), make("tbody", {}, ...rows));
  const hidden = answer.number_of_groups - answer.groups.length;
  const button = hidden > 0 && more ? make("button", { type: "button", class: "more" }, `Show ${Math.min(hidden, MORE_GROUPS).toLocaleString()} more`) : null;
  button?.addEventListener("click", () => { button.disabled = true; more(answer.groups.length + MORE_GROUPS); });
  const left = hidden > 0 ? `${answer.number_of_groups.toLocaleString()} groups: the ${answer.groups.length} ${answer.groups_shown ?? "first"} are shown, ${hidden.toLocaleString()} are not. ` : "";
  const rest = answer.exact || !answer.group_columns.length ? "" : answer.aggregates.filter((name) => answer.rest[name]).map((name) => `Groups not seen: ${name} ${answer.rest[name].shown}${answer.rest[name].shown_interval ? ` [${answer.rest[name].shown_interval}]` : ""}. `).join("");
  return make("div", {}, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Groups of ${answer.query}` }, table), make("p", { class: "quiet" }, `${left}${rest}`, button));
}

// The points of groups that are times, oldest first: [place, time, value, low, high]; none for any other groups.
function timeline(answer) {
  const [column, ...others] = answer.group_columns, [name] = answer.aggregates;
  if (answer.groups_shown !== "newest" || others.length || answer.groups.length < 3) return [];
  const points = answer.groups.map((row, i) => {
    const { value, low, high } = row.aggregates[name], group = row.group[column];
    const time = typeof group === "number" ? Date.UTC(group) : Date.parse(/[ T]\d/.test(group) ? group.replace(" ", "T").replace(/(T[\d:.]+)$/, "$1Z") : group);
    return [i, time / 1000, value, low, high];
  });
  return points.filter((point) => Number.isFinite(point[1]) && typeof point[2] === "number").sort((a, b) => a[1] - b[1]);
}

// A table of rows: the result of SQL around aggregates.
function rowTable(answer) {
  const head = make("tr", {}, ...answer.columns.map((column) => make("th", { scope: "col" }, column.name)));
  const rows = answer.rows.map((row) => make("tr", {}, ...row.map((value) => make("td", typeof value === "number" ? { class: "number" } : {}, cell(value)))));
  const hidden = answer.number_of_rows - answer.rows.length;
  return make("div", {}, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows of the result" }, make("table", { class: "groups" }, make("thead", {}, head), make("tbody", {}, ...rows))),
    make("p", { class: "quiet" }, `${answer.number_of_rows.toLocaleString()} rows${hidden > 0 ? `, the first ${answer.rows.length.toLocaleString()} are shown` : ""}.`));
}

const cell = (value) => value === null ? "NULL" : typeof value === "number" ? brief(value.toLocaleString("en-US", { maximumFractionDigits: 12 })) : String(value);

function groupCells(numbers, [least, most], change) {
  const { value: shown, interval: ends } = supported(numbers), text = numbers.exact || ends === null ? shown : `${shown} [${ends}]`;
  const drawn = typeof numbers.value === "number" ? interval(numbers, least, most) : "";
  const changed = change === undefined ? [] : [make("div", { class: "change", title: change.shown }, changeText(change))];
  return [make("td", shown === numbers.shown ? {} : { title: numbers.shown }, text, ...changed), make("td", {}, drawn)];
}

// Fills a card's body with an answer; the chart is drawn next to it.
function fill(body, answer, more) {
  if (answer.refused !== undefined) {
    body.replaceChildren(make("p", { class: "refused" }, answer.refused));
  } else if (answer.groups !== undefined) {
    const certain = make("div", {}, make("span", { class: answer.exact ? "chip exact" : "chip" }, answer.exact ? "exact" : `${percent(answer.confidence)} intervals, ${answer.method}`));
    const points = timeline(answer), line = points.length ? make("figure", { class: "chart" }) : null;
    body.replaceChildren(...[certain, line, groupTable(answer, more), notesOf(answer)].filter(Boolean));
    if (line) draw(line, points, `${answer.aggregates[0]} by ${answer.group_columns[0]}`, "", "UTC");
  } else if (answer.columns !== undefined) {
    const certain = make("span", { class: answer.exact ? "chip exact" : "chip" }, answer.exact ? "exact" : "with estimates");
    body.replaceChildren(...[certain, rowTable(answer), notesOf(answer)].filter(Boolean));
  } else {
    body.replaceChildren(...[make("div", { class: "value", title: answer.shown }, supported(answer).value), intervalLine(answer), more ? changeLine(answer) : null, truthLine(answer), notesOf(answer)].filter(Boolean));
  }
}

function cardOf(query) {
  if (!cards.has(query)) {
    const title = make("h3", { id: `query-${cards.size}-${Date.now()}` }, query);
    const sql = make("code", { class: "sql" }), body = make("div"), figure = make("figure", { class: "chart", hidden: "" });
    const steps = make("pre", { tabindex: "0" }), how = make("details", {}, make("summary", {}, "How it is answered"), steps);
    how.addEventListener("toggle", () => how.open && explain(query, steps));
    const card = make("article", { class: "card", "aria-labelledby": title.id }, title, sql, body, figure, how);
    const resized = new ResizeObserver(() => cards.has(query) && drawChart(query));
    cards.set(query, { card, sql, body, figure, resized });
    resized.observe(figure);
  }
  return cards.get(query);
}

// What the synopses of a query show on the way to its answer, read when the card is unfolded.
async function explain(query, steps) {
  steps.textContent = "Reading ...";
  try {
    const answer = await fetch(`api/v1/explain/${encodeURIComponent(query)}?form=text`);
    steps.textContent = answer.ok ? await answer.text() : (await answer.json()).error.message;
  } catch (error) {
    steps.textContent = `The server cannot be asked now: ${error.message}`;
  }
}

function drawChart(query) {
  const { figure } = cards.get(query), all = history.get(query) ?? [];
  figure.hidden = all.length === 0;
  if (all.length === 0 || figure.clientWidth === 0) return;
  const from = all.at(-1)[1] - Number(at("span").value), points = all.filter((point) => point[1] >= from);
  const last = points.at(-1), span = last[1] - points[0][1];
  const label = `${query} over the last ${ago(span)}: from ${points[0][2].toLocaleString()} to ${last[2].toLocaleString()}`;
  if (at("scale").value === "percent") draw(figure, points.map(inPercent), `${label}, its interval in percent of it`, "%");
  else draw(figure, points, label);
}

// A point whose numbers are percent of its estimate: the estimate is 0, and the exact answer shows the error.
function inPercent([epoch, time, value, ...others]) {
  const share = (other) => typeof other === "number" && value !== 0 ? 100 * (other / value - 1) * Math.sign(value) : null;
  return [epoch, time, 0, ...others.map(share)];
}

function remember(view) {
  for (const [query, point] of Object.entries(view.points)) {
    const points = history.get(query) ?? [];
    if (points.length && points.at(-1)[0] >= point[0]) continue;
    points.push(point);
    if (points.length > MOST_POINTS) points.splice(0, points.length, ...points.filter((_, i) => i % 2 === 0));
    history.set(query, points);
  }
}

// The answer with more groups than a view has, as of the same epoch where it is there.
function withMoreGroups(answer) {
  const most = wanted.get(answer.query) ?? (answer.groups_shown === "newest" && answer.group_columns?.length === 1 ? MORE_GROUPS : 0);
  const held = fuller.get(answer.query), epoch = latest.freshness?.epoch;
  if (answer.groups === undefined || most <= answer.groups.length || answer.groups.length === answer.number_of_groups) return answer;
  if (held?.epoch === epoch && held.most === most) return held.answer ?? answer;
  fuller.set(answer.query, { epoch, most, answer: held?.answer });
  get(`answers/${encodeURIComponent(answer.query)}?limit=${Math.min(most, 10000)}`)
    .then((found) => { fuller.set(answer.query, { epoch, most, answer: { ...found, groups_shown: answer.groups_shown } }); show(latest); })
    .catch((error) => say("trouble", error.message));
  return held?.answer ?? answer;
}

function showMore(query, most) {
  wanted.set(query, most);
  show(latest);
}

const numbersFirst = (answers) => [...answers].sort((a, b) => (a.groups !== undefined) - (b.groups !== undefined));

function show(view) {
  latest = view;
  tellStatus(view);
  tellFreshness();
  remember(view);
  compare();
  const names = new Set(view.answers.map((answer) => answer.query));
  for (const [name, { card, resized }] of cards) if (!names.has(name)) { resized.disconnect(); card.remove(); cards.delete(name); history.delete(name); }
  at("no-queries").hidden = view.answers.length > 0 || !view.plan;
  for (const [place, answer] of numbersFirst(view.answers).entries()) {
    const { card, sql, body } = cardOf(answer.query);
    if (at("queries").children[place] !== card) at("queries").insertBefore(card, at("queries").children[place] ?? null);
    sql.textContent = texts.get(answer.query) ?? "";
    card.classList.toggle("wide", answer.groups !== undefined);
    fill(body, withMoreGroups(answer), (most) => showMore(answer.query, most));
    drawChart(answer.query);
  }
}

// Plan and memory ------------------------------------------------------------------------------------------------

async function showPlan(digest) {
  const [queries, kept, text] = await Promise.all([get("queries"), get("plan"), fetch("api/v1/plan?form=text").then((answer) => answer.text())]);
  texts = new Map(queries.map((query) => [query.name, query.window ? `${query.sql}\nover the last ${ago(query.window.seconds)} of event time, moving on by ${ago(query.window.slide)}` : query.sql]));
  at("plan-text").textContent = text;
  at("picture").src = `api/v1/plan?form=svg&digest=${encodeURIComponent(digest)}`;
  at("picture").hidden = false;
  showMemory(kept);
  showSchema(kept.streams);
  suggest(kept.streams, queries);
  if (latest) show(latest);
}

// Streams with their columns; those that are held can be asked about.
function showSchema(streams) {
  at("schema").replaceChildren(...streams.map((stream) => make("article", { class: "card" }, make("h3", {}, stream.name),
    make("table", {}, make("thead", {}, make("tr", {}, ...["Column", "Type", "Ask about it"].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...stream.columns.map((column) => make("tr", {}, make("th", { scope: "row" }, column.name), make("td", {}, column.type), make("td", {}, column.held ? "yes" : "in its queries only"))))))));
}

// A question that this store answers, as the placeholder of the box.
function suggest(streams, queries) {
  const name = (text) => /^[A-Za-z_]\w*$/.test(text) ? text : `\`${text.replaceAll("`", "``")}\``;
  const stream = streams.find((each) => each.columns.some((column) => column.held));
  const column = stream?.columns.find((each) => each.held && each.type === "STRING") ?? stream?.columns.find((each) => each.held);
  const example = stream ? `SELECT ${name(column.name)}, COUNT(*) AS n FROM ${name(stream.name)} GROUP BY ${name(column.name)}` : queries[0]?.name ?? "";
  at("sql").placeholder = example;
  at("ask-advice").textContent = stream ? "The section Schema lists what can be asked about." : "This store answers its queries, by name or as their SQL; it holds no further columns.";
}

// A refusal for someone who reads the page and did not plan the store.
const forReaders = (sentence) => sentence.replace(/(: | )(?:explore (?:them|what queries read) with w\.explore|add (?:the|a) query ).*$/s, ". The section Schema lists what can be asked about.");

function showMemory(kept) {
  const shares = kept.memory.filter((share) => share.nbytes > 0).sort((a, b) => b.nbytes - a.nbytes);
  at("memory-total").textContent = `${kept.bytes.toLocaleString()} bytes are kept for ${texts.size} queries on ${kept.streams.length} streams.`;
  let left = 0;
  const parts = shares.map((share, i) => {
    const width = 1000 * share.nbytes / kept.bytes, part = svg("rect", { class: `share-${i % 6}`, x: left, y: 0, width: Math.max(width - 1, 0.5), height: 26 });
    left += width;
    return part;
  });
  at("memory-bar").replaceChildren(svg("svg", { viewBox: "0 0 1000 26", preserveAspectRatio: "none", "aria-hidden": "true" }, ...parts));
  at("memory-bar").setAttribute("aria-label", `Memory of the plan: ${shares.slice(0, 5).map((share) => `${share.holds} ${share.nbytes.toLocaleString()} bytes`).join(", ")}`);
  at("memory").tBodies[0].replaceChildren(...shares.map((share, i) => make("tr", {},
    make("th", { scope: "row" }, make("span", { class: "swatch" }, svg("svg", { viewBox: "0 0 11 11", "aria-hidden": "true" }, svg("rect", { class: `share-${i % 6}`, width: 11, height: 11 }))), share.holds),
    make("td", {}, share.stream), make("td", { class: "number" }, share.nbytes.toLocaleString()),
    make("td", {}, share.readers.length > 1 ? `${share.readers.join(", ")} (shared)` : share.readers.join(", ")))));
}

// Asking ---------------------------------------------------------------------------------------------------------

async function ask(event) {
  event.preventDefault();
  const button = at("ask").querySelector("button"), asked = at("asked");
  const sql = at("sql").value.trim();
  if (!sql) { at("sql").focus(); return; }
  button.disabled = true;
  try {
    const confidence = at("confidence").value;
    const then = at("as-of").value.trim();
    const answer = await get(`answer?${new URLSearchParams({ sql, limit: 200, ...(confidence ? { confidence } : {}), ...(then ? { as_of: moment(then) } : {}) })}`);
    const body = make("div");
    fill(body, answer);
    asked.replaceChildren(make("article", { class: "card", "aria-label": "The answer" }, make("code", { class: "sql" }, sql), body));
  } catch (error) {
    asked.replaceChildren(make("p", { class: "refused", role: "alert" }, forReaders(error.message)));
  } finally {
    button.disabled = false;
  }
}

// Following ------------------------------------------------------------------------------------------------------

async function takeHistory() {
  const series = await get("history");
  history.clear();
  for (const [query, points] of Object.entries(series)) history.set(query, points);
  if (latest) show(latest);
}

function follow() {
  const events = new EventSource("api/v1/events");
  events.addEventListener("open", () => { plan = null; store = null; });
  events.addEventListener("view", (event) => {
    const view = JSON.parse(event.data);
    show(view);
    const isAnother = view.plan !== plan || view.store !== store;
    if (view.plan && view.plan !== plan) showPlan(view.plan).catch((error) => say("trouble", error.message));
    if (isAnother) takeHistory().catch((error) => say("trouble", error.message));
    [plan, store] = [view.plan, view.store];
  });
  events.addEventListener("error", () => {
    say("trouble", "The server cannot be reached; trying again. What is shown is what it said last.");
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 3000);
  });
}

at("ask").addEventListener("submit", ask);
at("sql").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").requestSubmit(); });
for (const id of ["span", "scale"]) at(id).addEventListener("change", () => { for (const query of cards.keys()) drawChart(query); });
at("since").addEventListener("change", () => { compare(); if (latest) show(latest); });
setInterval(() => { tellFreshness(); compare(); }, 1000);
follow();
