// --- One trial, or two side by side, in place of the run. A server has the data of the trials; otherwise the page has it.
let drawn = null, before = 0;
const MOST_ENTRIES = 300;
const trialPath = (number) => "trials/" + encodeURIComponent(data.rows[number][FOLDER]);
async function fetched(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
async function detailOf(number) {
  const stored = byId("t" + number);
  if (stored) return JSON.parse(stored.textContent);
  return data.served ? fetched(trialPath(number)) : { left_out: ["This trial is not part of the page, because the page would be larger than its limit: `proctor show " + nameOf(data.rows[number]) + "` and `proctor view` show it."] };
}
// With `again`, the open trials are loaded again in their place.
async function drawTrial(again) {
  const numbers = [...new Set([numberOf(state.trial), numberOf(state.beside)].filter((it) => it !== undefined))];
  const place = byId("trial");
  const wanted = { trials: numbers.map((it) => data.rows[it][RUN] + data.rows[it][FOLDER]).join(), mode: [state.split, state.plain, numbers.some((it) => canRetry(data.rows[it]))].join("/"), isRunning: numbers.some((it) => data.rows[it][STATUS] === "running"), texts: again ? drawn.texts : [] };
  const isOpen = numbers.length > 0;
  if (isOpen && drawn === null) before = scrollY;
  byId("overview").hidden = isOpen;
  if (!isOpen) {
    place.replaceChildren();
    // Back at the place in the list that the trial was opened from.
    if (drawn !== null) { drawn = null; scrollTo(0, before); }
    return;
  }
  const isNew = wanted.trials !== drawn?.trials;
  if (!again && !isNew && wanted.mode === drawn.mode) return;
  drawn = wanted;
  const sections = again ? [...place.querySelectorAll("section.trial")] : numbers.map((number) => h("section", { class: "trial", "aria-label": nameOf(data.rows[number]) }, h("p", { class: "soft" }, "loading")));
  if (!again) place.replaceChildren(steps(numbers), h("div", { class: numbers.length > 1 ? "beside" : "" }, sections));
  if (isNew) { scrollTo(0, 0); place.focus({ preventScroll: true }); }
  const fill = async (number, at) => {
    const [detail, error] = await detailOf(number).then((it) => [it, null], (it) => [null, it]);
    const text = JSON.stringify([detail, data.rows[number]]);
    if (drawn !== wanted || again && (error || text === wanted.texts[at])) return;
    wanted.texts[at] = text;
    sections[at].replaceChildren(...heading(number, numbers), ...(error ? [h("p", { class: "bad" }, "The trial cannot be loaded: " + error.message)] : body(number, detail)));
    if (isNew && state.find && at === 0) showFound(sections[at], state.find);
  };
  await Promise.all(numbers.map(fill));
}
// Brings the first entry with a searched text into view, with the parts around it opened.
function showFound(section, text) {
  const has = (it) => it.textContent.toLowerCase().includes(text.toLowerCase());
  const found = [...section.querySelectorAll(".timeline > li, pre, .path")].filter((it) => has(it) && ![...it.querySelectorAll("pre, li")].some(has))[0];
  if (!found) return;
  for (let outer = found; outer && outer !== section; outer = outer.parentElement) if (outer.tagName === "DETAILS") outer.open = true;
  found.classList.add("found");
  found.scrollIntoView({ block: "center" });
}
function steps(numbers) {
  const found = matching();
  const at = found.indexOf(numbers[0]);
  const move = (by, wanted, label, key) => {
    const to = nextTrial(by, wanted);
    return h("button", { onclick: () => step(by, wanted), title: "key " + key, ...(to === undefined ? { disabled: "" } : {}) }, label);
  };
  const any = () => true;
  return h("nav", { class: "controls", "aria-label": "Trials" }, h("button", { onclick: () => go({ trial: "", beside: "", find: "" }), title: "key Escape" }, "← All trials"), move(-1, any, "Previous", "k"), move(1, any, "Next", "j"), move(1, isFailure, "Next failure", "n"),
    at >= 0 ? h("span", { class: "soft" }, count(at + 1) + " of " + count(found.length)) : null);
}
function heading(number, numbers) {
  const row = data.rows[number];
  const others = data.rows.map((_, other) => other).filter((other) => other !== number && data.rows[other][TASK] === row[TASK]);
  const label = (other) => data.agents[data.rows[other][AGENT]] + ", trial " + data.rows[other][TRIAL] + ", " + data.rows[other][STATUS];
  const beside = h("select", { "aria-label": "compare with", onchange: (event) => go({ trial: nameOf(row), beside: event.target.value }) },
    h("option", { value: "" }, "compare with"), others.slice(0, PAGE).map((other) => h("option", { value: nameOf(data.rows[other]) }, label(other))));
  const retry = canRetry(row) ? h("button", { onclick: () => command({ retry: [row[FOLDER]] }, "Run " + nameOf(row) + " again?") }, "Run again") : null;
  const closing = numbers.length > 1 ? h("button", { onclick: () => go({ trial: nameOf(data.rows[numbers.find((it) => it !== number)]), beside: "" }) }, "Close") : null;
  return [h("div", { class: "controls" }, h("h2", null, data.agents[row[AGENT]] + " on " + data.tasks[row[TASK]] + ", trial " + row[TRIAL]), others.length && numbers.length < 2 ? beside : null, retry, closing)];
}
function body(number, detail) {
  const row = data.rows[number];
  const fact = (name, value) => value === null || value === undefined || value === "" ? null : h("span", null, h("span", { class: "soft" }, name + " "), String(value));
  const parts = [];
  const section = (title, ...content) => { const head = h("h3", { tabindex: "-1" }, title); parts.push([title, head, content.flat().filter(Boolean)]); };
  if (detail.verdicts?.length) section("Verdicts", h("ol", { class: "timeline" }, detail.verdicts.map((it) => verdict(it, number))));
  if (detail.remarks?.length) section("Errors and notes", h("ul", { class: "texts" }, detail.remarks.map((text) => h("li", null, h("pre", null, text)))));
  if (detail.prompt) section("Prompt", h("pre", { class: "prompt", tabindex: "0" }, detail.prompt), context(detail));
  if (detail.timeline?.length) section("Session", sessionView(detail.timeline, number));
  if (detail.calls?.length) section("Calls to models", drawCalls(detail.calls));
  if (detail.diff) section("Change", drawDiff(detail.diff));
  if (detail.files?.length) section("Files", h("details", null, h("summary", null, plural(detail.files.length, "file") + " of the trial, raw logs among them"), h("ul", null, detail.files.map((file) => h("li", null, fileLink(number, file, file))))));
  const jump = h("nav", { class: "controls jump", "aria-label": "Parts of the trial" }, parts.map(([title, head]) => h("button", { class: "link", onclick: () => { head.scrollIntoView({ block: "start" }); head.focus({ preventScroll: true }); } }, title)));
  const command = detail.rerun ? h("p", null, h("span", { class: "soft" }, "run it again with "), h("code", null, detail.rerun.split(/( )/).map((word) => word === " " ? word : h("span", { class: "word" }, word)))) : null;
  return [h("p", null, h("strong", { class: tone(row[STATUS]) }, row[STATUS]), " · " + row[OUTCOME] + (row[MESSAGE] ? " · " : ""), row[MESSAGE]),
    h("p", { class: "facts" }, fact("score", row[SCORE] === null ? "–" : row[SCORE].toFixed(3)), fact("cost", dollars(row[COST])), fact("time", seconds(row[MS])), fact("tokens", count(row[TOKENS])), fact("cached", count(row[CACHED])),
      Object.entries(detail.facts || {}).map(([name, value]) => fact(name, value)), fact("folder", data.runs[row[RUN]] + "/" + row[FOLDER])),
    command, parts.length > 1 ? jump : null, ...parts.flatMap(([, head, content]) => [head, ...content]), ...(detail.left_out || []).map((text) => h("p", { class: "soft" }, text))].filter(Boolean);
}
const fileLink = (number, file, label) => h("a", { href: "files/" + encodeURIComponent(data.rows[number][FOLDER]) + "/" + file.split("/").map(encodeURIComponent).join("/"), target: "_blank", rel: "noopener" }, label);
// Other parts that reached the model.
function context(detail) {
  const parts = [];
  if (detail.messages?.length) parts.push(h("details", null, h("summary", null, "First messages to the model, with context files"), detail.messages.map((text) => h("pre", { class: "prompt", tabindex: "0" }, text))));
  if (detail.system) parts.push(h("details", null, h("summary", null, "System prompt"), h("pre", { class: "prompt", tabindex: "0" }, detail.system)));
  if (detail.tools?.length) parts.push(h("details", null, h("summary", null, plural(detail.tools.length, "tool") + " offered to the model"), h("p", null, detail.tools.join(", "))));
  if (!detail.system && !detail.messages?.length) parts.push(h("p", { class: "soft" }, "The system prompt and the context files are unknown: no gateway saw the calls to the model."));
  if (detail.delivery?.length) parts.push(h("p", null, "Files, skills and servers of the variant:"), h("ul", { class: "texts" }, detail.delivery.map((text) => h("li", null, text))));
  return parts;
}
function verdict(it, number) {
  const tests = it.failed_tests.map((test) => h("pre", { class: "bad" }, "✗ " + test.name + (test.message ? "\n" + test.message : "")));
  const output = it.output ? h("details", { open: "" }, h("summary", null, "output"), h("pre", { tabindex: "0", class: "output" }, it.output)) : null;
  const log = it.log && data.served ? h("p", null, fileLink(number, it.log, "whole output")) : null;
  return h("li", null, h("span", { class: tone(it.status) }, it.status), h("div", null, h("p", null, h("strong", null, it.evaluator), ": " + it.message, h("span", { class: "soft" }, " (" + seconds(it.ms) + ")")), tests,
    it.more_tests ? h("p", { class: "soft" }, "and " + plural(it.more_tests, "more failed test")) : null, output, log,
    it.evidence !== null && it.evidence !== undefined && it.evidence !== "" ? h("details", null, h("summary", null, "evidence"), evidence(it.evidence)) : null));
}
// Data of an evaluator: lists of findings as tables, anything else as names with values.
function evidence(value) {
  if (value === null || typeof value !== "object") return h("pre", null, String(value ?? "–"));
  if (!Array.isArray(value)) return h("dl", null, Object.entries(value).flatMap(([name, inner]) => [h("dt", null, name), h("dd", null, evidence(inner))]));
  if (!value.length) return h("span", { class: "soft" }, "none");
  if (!value.every((it) => it && typeof it === "object" && !Array.isArray(it))) return h("ul", null, value.map((it) => h("li", null, evidence(it))));
  const names = [...new Set(value.flatMap((it) => Object.keys(it)))];
  return wide("Evidence", h("table", null, h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, value.map((it) => h("tr", null, names.map((name) => h("td", { class: "text" }, it[name] === undefined ? "" : evidence(it[name]))))))));
}

// --- The conversation. Entries of a sub-agent are below the tool call that started it.
function sessionView(entries, number) {
  const inner = new Map();
  const known = new Set(entries.map((it) => it.id).filter(Boolean));
  const top = entries.filter((it) => {
    if (!it.parent || !known.has(it.parent) || it.parent === it.id) return true;
    if (!inner.has(it.parent)) inner.set(it.parent, []);
    inner.get(it.parent).push(it);
    return false;
  });
  const rendered = h("button", { "aria-pressed": String(!state.plain), onclick: () => go({ plain: state.plain ? "" : "1" }) }, "Markdown");
  return [h("div", { class: "controls" }, h("span", { class: "soft" }, plural(entries.length, "entry").replace("entrys", "entries")), rendered), entryList(top, inner, number, 0)];
}
function entryList(entries, inner, number, depth) {
  const list = h("ol", { class: "timeline" });
  const add = (from) => {
    list.append(...entries.slice(from, from + MOST_ENTRIES).map((it) => moment(it, inner, number, depth)));
    const left = entries.length - from - MOST_ENTRIES;
    if (left > 0) { const row = h("li", null, h("span"), h("button", { onclick: () => { row.remove(); add(from + MOST_ENTRIES); } }, count(left) + " more entries")); list.append(row); }
  };
  add(0);
  return list;
}
function moment(it, inner, number, depth) {
  const place = h("div", null);
  const fill = (entry) => place.replaceChildren(...content(entry), ...rest(entry));
  const rest = (entry) => !entry.cut ? [] : data.served
    ? [h("button", { onclick: async (event) => { event.target.disabled = true; try { fill(await fetched(trialPath(number) + "/entries/" + entry.n)); } catch (error) { place.append(h("p", { class: "bad" }, error.message)); } } }, "Show all, " + count(entry.cut) + " more bytes")]
    : [h("p", { class: "soft" }, count(entry.cut) + " more bytes are in youbencha-log.json")];
  fill(it);
  const own = it.id && depth < 8 ? inner.get(it.id) : null;
  const agent = own ? h("details", { class: "sub" }, h("summary", null, "sub-agent, " + plural(own.length, "entry").replace("entrys", "entries")), entryList(own, inner, number, depth + 1)) : null;
  return h("li", { class: it.kind }, h("span", { class: "soft" }, it.t === null ? "" : seconds(it.t)), h("div", null, place, agent));
}
function content(it) {
  if (it.kind === "said") return state.plain ? [h("pre", null, it.text)] : [h("div", { class: "md" }, markdown(it.text))];
  if (it.kind === "thought") return [h("details", it.text.length < 400 ? { open: "" } : null, h("summary", null, "thought"), h("pre", { class: "soft" }, it.text))];
  if (it.kind !== "tool") return [h("p", { class: "soft" }, it.kind + (it.text ? ": " + it.text : ""))];
  const [tool, ...target] = it.text.split(" ");
  const head = [h("strong", { class: it.is_error ? "bad" : "" }, (it.is_error ? "✗ " : "") + tool), " ", h("code", null, target.join(" "))];
  if (!it.arguments && !it.result) return [h("p", null, head)];
  return [h("details", { class: "tool", ...(it.is_error ? { open: "" } : {}) }, h("summary", null, head), argumentsOf(it.arguments), it.result ? h("pre", { class: it.is_error ? "output bad" : "output", tabindex: "0" }, it.result) : h("p", { class: "soft" }, "no output"))];
}
function argumentsOf(text) {
  if (!text) return null;
  let value = null;
  try { value = JSON.parse(text); } catch { /* not JSON */ }
  if (!value || typeof value !== "object" || Array.isArray(value)) return h("pre", { class: "output", tabindex: "0" }, text);
  return h("dl", null, Object.entries(value).flatMap(([name, inner]) => [h("dt", null, name), h("dd", null, h("pre", null, typeof inner === "string" ? inner : JSON.stringify(inner, null, 2)))]));
}

// --- Keys, as in pagers: the next and the previous trial of the list, and the next failure.
const isFailure = (row) => row[STATUS] !== "passed";
function nextTrial(by, wanted) {
  const found = matching();
  const now = numberOf(state.trial);
  let at = now === undefined ? 0 : found.indexOf(now) + by;
  while (at >= 0 && at < found.length && !wanted(data.rows[found[at]])) at += by;
  return found[at];
}
function step(by, wanted) {
  readState();
  const to = nextTrial(by, wanted);
  if (to !== undefined) go({ trial: nameOf(data.rows[to]), beside: "", find: "" });
}
