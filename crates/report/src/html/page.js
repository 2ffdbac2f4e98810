"use strict";
// All text is set as text, never as markup. The view is in the address (#sort=cost&status=failed),
// so that it can be saved.
const data = JSON.parse(document.getElementById("data").textContent);
const [AGENT, TASK, RUN, TRIAL, STATUS, OUTCOME, SCORE, COST, MS, TOKENS, CACHED, MESSAGE, FOLDER] = Array(13).keys();
const PAGE = 100;
const COLUMNS = [["agent", AGENT], ["task", TASK], ["trial", TRIAL], ["status", STATUS], ["outcome", OUTCOME], ["score", SCORE], ["cost", COST], ["time", MS], ["tokens", TOKENS], ["cached", CACHED], ["why", MESSAGE]];
const byId = (id) => document.getElementById(id);
function h(tag, set, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(set || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((it) => it !== null && it !== undefined));
  return element;
}
let state = {};
function readState() { state = Object.fromEntries(new URLSearchParams(location.hash.slice(1))); }
function go(change) {
  const next = new URLSearchParams({ ...state, ...change });
  for (const [name, value] of [...next]) if (value === "") next.delete(name);
  const hash = "#" + next;
  if (hash === location.hash) render(); else location.hash = hash;
}
const dollars = (n) => n === null ? "–" : n === 0 || n >= 1 ? "$" + n.toFixed(2) : "$" + n.toFixed(4);
const seconds = (ms) => ms === null ? "–" : ms < 1e5 ? (ms / 1000).toFixed(1) + " s" : ms < 6e6 ? (ms / 6e4).toFixed(1) + " min" : (ms / 3.6e6).toFixed(1) + " h";
const count = (n) => n === null ? "–" : n.toLocaleString("en-US");
const tone = (status) => ({ passed: "good", failed: "bad" })[status] || "warn";

function theme() {
  const dark = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
}

// --- The leaderboard is in the page already; it is only put into another order.
const board = byId("board");
const ranked = board ? [...board.tBodies[0].rows] : [];
function sortBoard() {
  if (!board) return;
  const heads = [...board.tHead.rows[0].cells];
  const column = heads.findIndex((head) => head.dataset.key === state.board);
  const up = state.bdir === "asc";
  heads.forEach((head, n) => n === column ? head.setAttribute("aria-sort", up ? "ascending" : "descending") : head.removeAttribute("aria-sort"));
  const rows = [...ranked];
  if (column >= 0) rows.sort((one, other) => order(key(one.cells[column]), key(other.cells[column]), up));
  board.tBodies[0].append(...rows);
}
function key(cell) {
  const value = cell.dataset.value;
  if (value === undefined || value === "") return null;
  return isNaN(value) ? value : Number(value);
}
// Unknown values come last in both directions.
function order(one, other, up) {
  if (one === null || other === null) return (one === null) - (other === null);
  const less = typeof one === "string" ? one.localeCompare(other, "en") : one - other;
  return up ? less : -less;
}

// --- Heat map: tasks down, agents across.
const cells = new Map(data.cells.map((cell) => [cell[0] + "/" + cell[1], cell]));
function drawHeat() {
  const shown = state.heat === "all" ? data.tasks.length : PAGE;
  const means = data.tasks.map((_, task) => {
    const own = data.agents.map((_, agent) => cells.get(agent + "/" + task)).filter((cell) => cell && cell[2] !== null);
    return own.length ? own.reduce((sum, cell) => sum + cell[2], 0) / own.length : null;
  });
  const tasks = data.tasks.map((_, task) => task);
  if (state.hard) tasks.sort((one, other) => order(means[one], means[other], true) || one - other);
  const head = h("tr", null, h("th", null, "task"), ...data.order.map((agent) => h("th", null, data.agents[agent])));
  const body = tasks.slice(0, shown).map((task) => h("tr", null, h("td", { class: "name", title: data.tasks[task] }, data.tasks[task] + (data.broken[task] ? " ⚠" : "")),
    ...data.order.map((agent) => heatCell(agent, task))));
  const more = tasks.length > shown ? [h("button", { onclick: () => go({ heat: "all" }) }, "Show all " + tasks.length + " tasks")] : [];
  byId("heat").replaceChildren(h("div", { class: "wide" }, h("table", { class: "heat" }, h("thead", null, head), h("tbody", null, ...body))), ...more);
}
function heatCell(agent, task) {
  const cell = cells.get(agent + "/" + task);
  if (!cell) return h("td", { class: "soft" }, "–");
  const [, , score, passed, judged, trials] = cell;
  const text = score === null ? "excluded" : score.toFixed(2);
  const title = data.agents[agent] + " on " + data.tasks[task] + ": " + passed + " of " + judged + " passed, " + (trials - judged) + " excluded";
  const button = h("button", { title, onclick: () => { go({ agent: data.agents[agent], task: data.tasks[task], page: "", trial: "" }); byId("trials").scrollIntoView(); } }, text);
  if (score !== null) button.style.background = "color-mix(in oklab, var(--bg) 48%, color-mix(in oklab, var(--low), var(--high) " + Math.round(Math.min(1, Math.max(0, score)) * 100) + "%))";
  return h("td", null, button);
}

// --- Trials: filtered, sorted, a page at a time.
const names = (row, column) => column === AGENT ? data.agents[row[AGENT]] : column === TASK ? data.tasks[row[TASK]] : row[column];
function matching() {
  const words = (state.filter || "").toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  data.rows.forEach((row, number) => {
    if (state.agent && data.agents[row[AGENT]] !== state.agent) return;
    if (state.task && data.tasks[row[TASK]] !== state.task) return;
    if (state.status && row[STATUS] !== state.status) return;
    if (words.length) {
      const text = (data.agents[row[AGENT]] + " " + data.tasks[row[TASK]] + " " + row[STATUS] + " " + row[OUTCOME] + " " + row[MESSAGE]).toLowerCase();
      if (!words.every((word) => text.includes(word))) return;
    }
    found.push(number);
  });
  const column = (COLUMNS.find(([name]) => name === state.sort) || [])[1];
  if (column !== undefined) found.sort((one, other) => order(names(data.rows[one], column), names(data.rows[other], column), state.dir !== "desc") || one - other);
  return found;
}
function drawTrials() {
  const found = matching();
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  const page = Math.min(pages, Math.max(1, Number(state.page) || 1));
  const head = h("tr", null, ...COLUMNS.map(([name]) => {
    const own = state.sort === name;
    const next = own && state.dir !== "desc" ? "desc" : "";
    return h("th", own ? { "aria-sort": state.dir === "desc" ? "descending" : "ascending" } : null, h("button", { onclick: () => go({ sort: name, dir: next, page: "" }) }, name));
  }));
  const rows = found.slice((page - 1) * PAGE, page * PAGE).map((number) => {
    const row = data.rows[number];
    const many = data.runs.length > 1 ? " · " + data.runs[row[RUN]] : "";
    return h("tr", null, h("td", { class: "name" }, data.agents[row[AGENT]]), h("td", null, h("a", { href: "#" + new URLSearchParams({ ...state, trial: String(number) }), onclick: (event) => { event.preventDefault(); go({ trial: String(number) }); } }, data.tasks[row[TASK]])),
      h("td", null, row[TRIAL] + many), h("td", { class: tone(row[STATUS]) }, row[STATUS]), h("td", null, row[OUTCOME]), h("td", null, row[SCORE] === null ? "–" : row[SCORE].toFixed(3)),
      h("td", null, dollars(row[COST])), h("td", null, seconds(row[MS])), h("td", null, count(row[TOKENS])), h("td", null, count(row[CACHED])), h("td", { class: "text soft" }, row[MESSAGE]));
  });
  const turn = (to, text) => h("button", { onclick: () => go({ page: String(to) }), ...(to < 1 || to > pages ? { disabled: "" } : {}) }, text);
  byId("list").replaceChildren(
    h("p", { class: "soft", id: "found" }, found.length + " of " + data.rows.length + " trials"),
    h("div", { class: "wide" }, h("table", null, h("thead", null, head), h("tbody", null, ...rows))),
    h("div", { class: "controls" }, turn(page - 1, "Back"), "page " + page + " of " + pages, turn(page + 1, "Next")));
}
function choice(name, all, values) {
  const select = h("select", { "aria-label": name, onchange: (event) => go({ [name]: event.target.value, page: "" }) }, h("option", { value: "" }, all), ...values.map((value) => h("option", { value }, value)));
  select.value = state[name] || "";
  return select;
}
function drawControls() {
  const statuses = [...new Set(data.rows.map((row) => row[STATUS]))].sort();
  const search = byId("search");
  if (document.activeElement !== search) search.value = state.filter || "";
  byId("choices").replaceChildren(choice("agent", "all agents", data.agents), choice("task", "all tasks", data.tasks), choice("status", "every status", statuses),
    h("button", { onclick: () => go({ agent: "", task: "", status: "", filter: "", sort: "", dir: "", page: "" }) }, "Clear"));
}

// --- One trial, or two side by side. A server has the data of the trials; otherwise the page has it.
let drawn = null;
async function detailOf(number) {
  const stored = byId("t" + number);
  if (stored) return JSON.parse(stored.textContent);
  if (!data.served) return {};
  const answer = await fetch("trials/" + number + ".json");
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
function drawTrial() {
  const numbers = [state.trial, state.beside].filter((it) => data.rows[it]).map(Number);
  const place = byId("trial");
  const wanted = numbers.join();
  if (wanted === drawn) return;
  drawn = wanted;
  place.replaceChildren();
  place.className = numbers.length > 1 ? "beside" : "";
  for (const number of numbers) {
    const section = h("section", { class: "trial" }, ...heading(number), h("p", { class: "soft" }, "loading"));
    place.append(section);
    detailOf(number).then((detail) => { if (drawn === wanted) section.replaceChildren(...heading(number), ...body(number, detail)); },
      (error) => section.replaceChildren(...heading(number), h("p", { class: "bad" }, "The trial cannot be loaded: " + error.message)));
  }
  if (numbers.length) { place.scrollIntoView({ block: "start" }); place.focus({ preventScroll: true }); }
}
function heading(number) {
  const row = data.rows[number];
  const others = data.rows.map((_, other) => other).filter((other) => other !== number && data.rows[other][TASK] === row[TASK]);
  const label = (other) => data.agents[data.rows[other][AGENT]] + ", trial " + data.rows[other][TRIAL] + ", " + data.rows[other][STATUS];
  const beside = h("select", { "aria-label": "compare with", onchange: (event) => go({ trial: String(number), beside: event.target.value }) },
    h("option", { value: "" }, "compare with"), ...others.slice(0, PAGE).map((other) => h("option", { value: other }, label(other))));
  return [h("div", { class: "controls" }, h("h2", null, data.agents[row[AGENT]] + " on " + data.tasks[row[TASK]] + ", trial " + row[TRIAL]),
    others.length && !state.beside ? beside : null, h("button", { onclick: () => close(number) }, "Close"))];
}
function close(number) {
  if (state.beside && Number(state.trial) === number) go({ trial: state.beside, beside: "" });
  else go(state.beside ? { beside: "" } : { trial: "" });
}
function body(number, detail) {
  const row = data.rows[number];
  const fact = (name, value) => value === null || value === undefined || value === "" ? null : h("span", null, h("span", { class: "soft" }, name + " "), String(value));
  const parts = [
    h("p", null, h("strong", { class: tone(row[STATUS]) }, row[STATUS]), " · " + row[OUTCOME] + (row[MESSAGE] ? " · " : ""), row[MESSAGE]),
    h("p", { class: "facts" }, fact("score", row[SCORE] === null ? "–" : row[SCORE].toFixed(3)), fact("cost", dollars(row[COST])), fact("time", seconds(row[MS])), fact("tokens", count(row[TOKENS])), fact("cached", count(row[CACHED])),
      ...Object.entries(detail.facts || {}).map(([name, value]) => fact(name, value)), fact("folder", data.runs[row[RUN]] + "/" + row[FOLDER])),
  ];
  list(parts, "Verdicts", detail.verdicts, verdict);
  if (detail.prompt) parts.push(h("h3", null, "Prompt"), h("pre", { class: "prompt" }, detail.prompt));
  list(parts, "Errors and notes", detail.remarks, (text) => h("li", null, h("span"), h("span"), h("pre", null, text)));
  list(parts, "Files, skills and servers of the variant", detail.delivery, (text) => h("li", null, h("span"), h("span"), h("pre", null, text)));
  list(parts, "Session", detail.timeline, moment);
  list(parts, "Calls to models", detail.calls, (call) => h("li", null, h("span", { class: "soft" }, seconds(call.ms)), h("span", { class: call.is_fault ? "bad" : "good" }, call.status), h("pre", null, call.text)));
  if (detail.diff) parts.push(h("h3", null, "Change"), diff(detail.diff));
  if (detail.files && detail.files.length) {
    const link = (file) => h("li", null, h("a", { href: "files/" + number + "/" + file.split("/").map(encodeURIComponent).join("/"), target: "_blank", rel: "noopener" }, file));
    parts.push(h("details", null, h("summary", null, detail.files.length + " files"), h("ul", null, ...detail.files.map(link))));
  }
  for (const text of detail.left_out || []) parts.push(h("p", { class: "soft" }, text));
  return parts;
}
function list(parts, title, entries, draw) {
  if (entries && entries.length) parts.push(h("h3", null, title), h("ol", { class: "timeline" }, ...entries.map(draw)));
}
function verdict(it) {
  return h("li", null, h("span", { class: "soft" }, seconds(it.ms)), h("span", { class: tone(it.status) }, it.status),
    h("div", null, h("pre", null, it.evaluator + ": " + it.message), ...it.failed_tests.map((test) => h("pre", { class: "bad" }, "✗ " + test.name + (test.message ? "\n" + test.message : ""))),
      it.output ? h("details", { open: "" }, h("summary", null, "output"), h("pre", null, it.output)) : null, it.evidence ? h("details", null, h("summary", null, "evidence"), h("pre", null, it.evidence)) : null));
}
function moment([t, kind, text, more]) {
  const fault = kind === "tool failed" ? "bad" : "soft";
  const body = h("div", null, h("pre", kind === "thought" ? { class: "soft" } : null, text));
  if (more) body.append(h("details", null, h("summary", null, "more"), h("pre", null, more)));
  return h("li", null, h("span", { class: "soft" }, t === null ? "" : seconds(t)), h("span", { class: fault }, kind), body);
}

// --- Diffs, with the colours of their lines and of what most languages have in common.
const WORDS = "abstract as assert async await break case catch class const continue def default del do elif else end enum export extends false finally fn for from func function if impl import in interface is lambda let loop match mod module mut new nil None not null or package pass private protected pub public raise return self static struct super switch then this throw trait true True False try type union unless until use var void where while with yield".split(" ");
const TOKENS_RE = /(\/\/.*$|#(?![0-9a-fA-F]{3,8}\b).*$|\/\*.*?\*\/|--\s.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)|(\b\d[\d_.xa-fA-F]*\b)|([A-Za-z_]\w*)/g;
const keywords = new Set(WORDS);
function paint(line, text) {
  if (text.length > 2000) { line.append(text); return; }
  let at = 0;
  for (const match of text.matchAll(TOKENS_RE)) {
    const kind = match[1] ? "c" : match[2] ? "s" : match[3] ? "n" : keywords.has(match[4]) ? "k" : null;
    if (!kind) continue;
    line.append(text.slice(at, match.index), h("span", { class: kind }, match[0]));
    at = match.index + match[0].length;
  }
  line.append(text.slice(at));
}
function diff(text) {
  return h("div", { class: "diff" }, ...text.split("\n").map((text) => {
    const first = text[0];
    const head = /^(diff |index |--- |\+\+\+ |new file|deleted file|rename |similarity |Binary |GIT binary)/.test(text);
    const line = h("div", { class: head ? "file" : text.startsWith("@@") ? "hunk" : first === "+" ? "add" : first === "-" ? "del" : "" });
    if (head || text.startsWith("@@")) line.textContent = text;
    else { line.append(first || ""); paint(line, text.slice(1)); }
    return line;
  }));
}

// --- Keys, as in pagers: the next and the previous trial of the list, and the next failure.
function step(by, wanted) {
  const found = matching();
  let at = found.indexOf(Number(state.trial ?? -1)) + by;
  if (state.trial === undefined) at = 0;
  while (at >= 0 && at < found.length && !wanted(data.rows[found[at]])) at += by;
  if (found[at] !== undefined) go({ trial: String(found[at]), beside: "" });
}
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "j") step(1, () => true);
  else if (event.key === "k") step(-1, () => true);
  else if (event.key === "n") step(1, (row) => row[STATUS] !== "passed");
  else if (event.key === "Escape") go({ trial: "", beside: "" });
});

// --- With a server: search in sessions, and the state of a run that goes on.
let asked = null;
async function searchSessions() {
  const text = (state.filter || "").trim();
  if (!data.served || text === asked) return;
  asked = text;
  const place = byId("hits");
  if (text.length < 2) { place.replaceChildren(); return; }
  const answer = await fetch("search?q=" + encodeURIComponent(text));
  const found = answer.ok ? await answer.json() : { hits: [], more: 0 };
  if (asked !== text) return;
  const hit = (it) => h("li", null, h("a", { href: "#", onclick: (event) => { event.preventDefault(); go({ trial: String(it.trial) }); } },
    data.agents[data.rows[it.trial][AGENT]] + " on " + data.tasks[data.rows[it.trial][TASK]] + ", trial " + data.rows[it.trial][TRIAL]), " ", h("code", null, it.text));
  const more = found.more ? [h("p", { class: "soft" }, "and " + found.more + " more trials")] : [];
  place.replaceChildren(...(found.hits.length ? [h("h3", null, "In sessions"), h("ul", null, ...found.hits.map(hit)), ...more] : []));
}
function follow() {
  const events = new EventSource("events");
  let first = null;
  events.onmessage = (event) => {
    const now = JSON.parse(event.data);
    first ??= now.ended;
    byId("live").textContent = now.is_running ? now.ended + " of " + now.trials + " trials ended, " + now.active + " running" : "";
    if (!now.is_running) events.close();
    if (now.ended === first && now.is_running) return;
    // A reload would take an open trial away from its reader.
    if (state.trial === undefined && now.ended !== first) setTimeout(() => location.reload(), 1000);
    else if (now.ended !== first) byId("live").append(" · ", h("button", { onclick: () => location.reload() }, "Show new results"));
  };
}

function render() { readState(); theme(); sortBoard(); drawHeat(); drawControls(); drawTrials(); drawTrial(); searchSessions(); document.documentElement.dataset.ready = "yes"; }
for (const button of document.querySelectorAll("#board th button")) {
  const name = button.parentElement.dataset.key;
  button.addEventListener("click", () => go({ board: name, bdir: state.board === name && state.bdir !== "asc" ? "asc" : "" }));
}
byId("theme").addEventListener("click", () => go({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" }));
byId("hard").addEventListener("click", () => go({ hard: state.hard ? "" : "1" }));
let typing = 0;
byId("search").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(() => go({ filter: event.target.value, page: "" }), 150); });
addEventListener("hashchange", render);
render();
if (data.served) follow();
