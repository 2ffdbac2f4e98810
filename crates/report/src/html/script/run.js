// --- The page of a run: data, heat map, two agents task by task, trials.
const [AGENT, TASK, RUN, TRIAL, STATUS, OUTCOME, SCORE, COST, MS, TOKENS, CACHED, MESSAGE, FOLDER] = Array(13).keys();
const PAGE = 100;
// Columns of figures are aligned to the right.
const FIGURES = new Set(["trial", "score", "cost", "time", "tokens", "cached"]);
const SCOPED = /^\s*(tool|path|error):/;
const COLUMNS = [["agent", AGENT], ["task", TASK], ["trial", TRIAL], ["status", STATUS], ["outcome", OUTCOME], ["score", SCORE], ["cost", COST], ["time", MS], ["tokens", TOKENS], ["cached", CACHED], ["why", MESSAGE]];
let data, cells, byName, byFolder;
// The name of a trial, as in `proctor show`. It stays the same while a run goes on.
const nameOf = (row) => data.agents[row[AGENT]] + "/" + data.tasks[row[TASK]] + "#" + row[TRIAL] + (data.runs.length > 1 ? "@" + data.runs[row[RUN]] : "");
function load(text) {
  data = JSON.parse(text);
  cells = new Map(data.cells.map((cell) => [cell[0] + "/" + cell[1], cell]));
  byName = new Map(data.rows.map((row, n) => [nameOf(row), n]));
  byFolder = new Map(data.rows.map((row, n) => [row[FOLDER], n]));
}
// A trial by its name, or by its number in the page.
const numberOf = (name) => name === undefined ? undefined : byName.get(name) ?? (data.rows[name] ? Number(name) : undefined);

function drawHeat() {
  const shown = state.heat === "all" ? data.tasks.length : PAGE;
  const means = data.tasks.map((_, task) => {
    const own = data.agents.map((_, agent) => cells.get(agent + "/" + task)).filter((cell) => cell && cell[2] !== null);
    return own.length ? own.reduce((sum, cell) => sum + cell[2], 0) / own.length : null;
  });
  const tasks = data.tasks.map((_, task) => task);
  if (state.hard) tasks.sort((one, other) => order(means[one], means[other], true) || one - other);
  byId("hard").textContent = state.hard ? "Sort by name" : "Sort by score";
  const head = h("tr", null, h("th", { scope: "col" }, "task"), data.order.map((agent) => h("th", { scope: "col" }, data.agents[agent])));
  const body = tasks.slice(0, shown).map((task) => h("tr", null, h("td", { class: "name", title: data.tasks[task] }, data.tasks[task] + (data.broken[task] ? " ⚠" : "")),
    data.order.map((agent) => heatCell(agent, task))));
  const more = tasks.length > shown ? [h("button", { onclick: () => go({ heat: "all" }) }, "Show all " + tasks.length + " tasks")] : [];
  byId("heat").replaceChildren(wide("Scores of tasks", h("table", { class: "heat" }, h("thead", null, head), h("tbody", null, body))), ...more);
}
function heatCell(agent, task) {
  const cell = cells.get(agent + "/" + task);
  if (!cell) return h("td", { class: "soft" }, "–");
  const [, , score, passed, judged, trials] = cell;
  const text = score === null ? "excluded" : score.toFixed(2);
  const title = data.agents[agent] + " on " + data.tasks[task] + ": " + passed + " of " + judged + " passed, " + (trials - judged) + " excluded";
  const show = () => { go({ agent: data.agents[agent], task: data.tasks[task], page: "", trial: "" }); byId("trials").scrollIntoView(); };
  const button = h("button", { title, "aria-label": text + ", " + title, onclick: show }, text);
  if (score !== null) button.style.background = "color-mix(in oklab, var(--bg) 58%, color-mix(in oklab, var(--low), var(--high) " + Math.round(Math.min(1, Math.max(0, score)) * 100) + "%))";
  return h("td", null, button);
}

// --- Two agents, task by task. An experiment names them; otherwise these are the best two.
function chosenPair() {
  const known = (name) => data.agents.includes(name) ? name : undefined;
  const [a, b] = data.pair ?? [data.agents[data.order[1]], data.agents[data.order[0]]];
  return [known(state.a) ?? a, known(state.b) ?? b];
}
function drawVersus() {
  const place = byId("versus");
  if (data.agents.length < 2) { place.replaceChildren(); return; }
  const [a, b] = chosenPair();
  const pick = (name, value) => {
    const select = h("select", { "aria-label": name === "a" ? "baseline" : "candidate", onchange: (event) => go({ [name]: event.target.value }) }, data.agents.map((agent) => h("option", { value: agent }, agent)));
    select.value = value;
    return select;
  };
  const rows = data.tasks.map((name, task) => {
    const [one, other] = [a, b].map((agent) => cells.get(data.agents.indexOf(agent) + "/" + task));
    return { name, task, one, other, change: one && other && one[2] !== null && other[2] !== null ? other[2] - one[2] : null };
  }).filter((row) => row.change !== null);
  const most = (cell) => cell[4] > 0 && cell[3] * 2 > cell[4];
  const flip = (row) => most(row.other) === most(row.one) ? null : most(row.other) ? "gained" : "lost";
  rows.sort((one, other) => Math.abs(other.change) - Math.abs(one.change) || one.task - other.task);
  const flips = rows.filter(flip);
  const shown = state.versus === "all" ? rows : rows.slice(0, 20);
  const score = (cell) => h("td", null, cell[2].toFixed(2) + " ", h("span", { class: "soft" }, cell[3] + "/" + cell[4]));
  const line = (row) => {
    const bar = h("span", { class: row.change < 0 ? "bar fault" : "bar" });
    bar.style.left = 50 + Math.min(0, row.change) * 50 + "%";
    bar.style.width = Math.abs(row.change) * 50 + "%";
    const flipped = flip(row);
    return h("tr", null, h("td", { class: "name" }, row.name), score(row.one), score(row.other), h("td", null, (row.change > 0 ? "+" : row.change < 0 ? "−" : "") + Math.abs(row.change).toFixed(2)), h("td", { class: "axis" }, h("span", { class: "track" }, bar)),
      h("td", { class: flipped === "gained" ? "good" : "bad" }, flipped ?? ""), h("td", null, beside(row.task, a, b)));
  };
  const summary = plural(rows.length, "common task") + ", " + flips.filter((row) => flip(row) === "gained").length + " gained and " + flips.filter((row) => flip(row) === "lost").length + " lost by " + b + ".";
  const more = rows.length > shown.length ? h("button", { onclick: () => go({ versus: "all" }) }, "Show all " + plural(rows.length, "task")) : null;
  place.replaceChildren(h("h2", null, data.pair ? "Differences per task" : "Two agents, task by task"), h("div", { class: "controls" }, pick("b", b), "against", pick("a", a)), h("p", { class: "soft" }, summary),
    wide("Differences of two agents", h("table", null, h("thead", null, h("tr", null, ["task", a, b, "change", "−1 to +1", "flipped", "trials"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, shown.map(line)))), more ?? "");
}
// The first trials of two agents on a task, side by side; failures first, because they are what people read.
function beside(task, a, b) {
  const [one, other] = [a, b].map((agent) => {
    const own = data.rows.filter((row) => row[TASK] === task && data.agents[row[AGENT]] === agent);
    return own.find((row) => row[STATUS] === "failed") ?? own[0];
  });
  return one && other ? h("a", { href: hashWith({ trial: nameOf(one), beside: nameOf(other) }) }, "side by side") : "";
}

// --- Trials: filtered, sorted, a page at a time.
const valueOf = (row, column) => column === AGENT ? data.agents[row[AGENT]] : column === TASK ? data.tasks[row[TASK]] : row[column];
function matching() {
  // `tool:bash` and the like are about sessions only.
  const words = SCOPED.test(state.filter || "") ? [] : (state.filter || "").toLowerCase().split(/\s+/).filter(Boolean);
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
  if (column !== undefined) found.sort((one, other) => order(valueOf(data.rows[one], column), valueOf(data.rows[other], column), state.dir !== "desc") || one - other);
  return found;
}
const figure = (text) => h("td", { class: "figure" }, text);
function drawTrials() {
  const found = matching();
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  const page = Math.min(pages, Math.max(1, Number(state.page) || 1));
  const head = h("tr", null, COLUMNS.map(([name]) => {
    const own = state.sort === name;
    const next = own && state.dir !== "desc" ? "desc" : "";
    return h("th", { scope: "col", class: FIGURES.has(name) ? "figure" : null, ...(own ? { "aria-sort": state.dir === "desc" ? "descending" : "ascending" } : {}) }, h("button", { onclick: () => go({ sort: name, dir: next, page: "" }) }, name));
  }));
  const rows = found.slice((page - 1) * PAGE, page * PAGE).map((number) => {
    const row = data.rows[number];
    const many = data.runs.length > 1 ? " · " + data.runs[row[RUN]] : "";
    return h("tr", null, h("td", { class: "name" }, data.agents[row[AGENT]]), h("td", null, h("a", { href: hashWith({ trial: nameOf(row), beside: "" }) }, data.tasks[row[TASK]])),
      h("td", { class: "figure" }, row[TRIAL] + many), h("td", { class: tone(row[STATUS]) }, row[STATUS]), h("td", null, row[OUTCOME]), figure(row[SCORE] === null ? "–" : row[SCORE].toFixed(3)),
      figure(dollars(row[COST])), figure(seconds(row[MS])), figure(count(row[TOKENS])), figure(count(row[CACHED])), h("td", { class: "text soft" }, row[MESSAGE]));
  });
  const turn = (to, text) => h("button", { onclick: () => go({ page: String(to) }), ...(to < 1 || to > pages ? { disabled: "" } : {}) }, text);
  const turns = pages > 1 ? [h("div", { class: "controls" }, turn(page - 1, "Back"), "page " + page + " of " + pages, turn(page + 1, "Next"))] : [];
  byId("list").replaceChildren(
    h("p", { class: "soft", id: "found", role: "status" }, count(found.length) + " of " + plural(data.rows.length, "trial")),
    wide("Trials", h("table", null, h("thead", null, head), h("tbody", null, rows))), ...turns);
}
function choice(name, all, values) {
  const select = h("select", { "aria-label": name, onchange: (event) => go({ [name]: event.target.value, page: "" }) }, h("option", { value: "" }, all), values.map((value) => h("option", { value }, value)));
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
