// --- With a server: search in sessions, and a run that goes on.
let asked = null;
async function searchSessions() {
  const text = (state.filter || "").trim();
  if (!data.served || text === asked) return;
  asked = text;
  const place = byId("hits");
  if (text.length < 2) { place.replaceChildren(); return; }
  const found = await fetched("search?q=" + encodeURIComponent(text)).catch(() => ({ hits: [], more: 0 }));
  if (asked !== text) return;
  const hit = (it) => {
    const number = byFolder.get(it.folder);
    return number === undefined ? null : h("li", null, h("a", { href: hashWith({ trial: nameOf(data.rows[number]), beside: "", find: text.replace(SCOPED, "").trim() }) }, nameOf(data.rows[number])), " ", h("code", null, it.text));
  };
  const title = "In sessions: " + plural(found.hits.length + found.more, "trial") + (found.more ? ", the first " + found.hits.length : "");
  place.replaceChildren(...(found.hits.length ? [h("h3", null, title), h("ul", { class: "hits" }, found.hits.map(hit))] : [h("p", { class: "soft" }, "No session has this text.")]));
}
// The page of a run that goes on is the same page with newer figures: its parts are put in the place of the old ones.
async function refresh() {
  const answer = await fetch("");
  if (!answer.ok) return 0;
  const text = await answer.text();
  const page = new DOMParser().parseFromString(text, "text/html");
  const [figures, newer] = [byId("figures"), page.getElementById("figures")];
  if (newer) { figures.replaceWith(document.adoptNode(newer)); sortable(byId("board")); }
  byId("subtitle").textContent = page.getElementById("subtitle").textContent;
  load(page.getElementById("data").textContent);
  for (const row of data.rows) if (row[STATUS] === "running") requested.delete(row[FOLDER]);
  render();
  return text.length;
}
// The session of a trial that runs is loaded again while it is open.
async function refreshTrial() {
  const number = numberOf(state.trial);
  if (number === undefined || !(drawn?.isRunning || data.rows[number][STATUS] === "running")) return;
  const place = byId("trial");
  const open = [...place.querySelectorAll("details")].map((it) => it.open);
  await drawTrial("again");
  // Parts that were open stay open, as far as they are at the same place.
  [...place.querySelectorAll("details")].forEach((it, n) => { if (open[n] !== undefined) it.open = open[n]; });
}
let live = null;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function follow() {
  const events = new EventSource("events");
  let wakes = () => {};
  events.onmessage = (event) => {
    live = JSON.parse(event.data);
    drawLive(live);
    if (!live.is_running) events.close();
    wakes();
  };
  // Large pages are loaded less often, so that many viewers of a run cost it nothing.
  for (let wait = 1000; live === null || live.is_running; ) {
    await Promise.race([pause(wait), new Promise((resolve) => { wakes = () => { if (!live.is_running) resolve(); }; })]);
    if (live === null || document.hidden) continue;
    const ended = data.rows.filter((row) => row[STATUS] !== "running").length;
    const isNew = live.ended !== ended || live.active !== data.rows.length - ended || !live.is_running;
    const size = isNew ? await refresh().catch(() => 0) : 0;
    wait = Math.min(60000, Math.max(2000, (size ?? 0) / 50));
    await refreshTrial().catch(() => {});
  }
}
// Trials that wait to run again.
const requested = new Set();
const canRetry = (row) => !requested.has(row[FOLDER]) && Boolean(live?.is_running && live.can_control) && /^(error|interrupted)$/.test(row[STATUS]);
function drawLive(now) {
  const place = byId("live");
  if (!now.is_running) { place.replaceChildren(); return; }
  const line = count(now.ended) + " of " + plural(now.trials, "trial") + " ended, " + count(now.active) + " running" + (now.is_paused ? ", paused" : "") + (now.cost_usd === null ? "" : ", " + dollars(now.cost_usd) + " so far");
  const bar = h("progress", { max: Math.max(1, now.trials), value: now.ended, "aria-label": "ended trials" });
  const known = (it) => { const number = byFolder.get(it.folder); return number === undefined ? h("strong", null, it.name) : h("a", { href: hashWith({ trial: nameOf(data.rows[number]), beside: "" }) }, it.name); };
  const running = now.running.map((it) => h("li", null, known(it), " ", h("span", { class: "soft" }, it.text), " ", now.can_control ? h("button", { class: "link", "aria-label": "Cancel " + it.name, onclick: () => command({ cancel: it.folder }, "Cancel " + it.name + "?") }, "Cancel") : null));
  if (now.active > now.running.length) running.push(h("li", { class: "soft" }, "and " + plural(now.active - now.running.length, "more trial")));
  const lost = data.rows.filter(canRetry).map((row) => row[FOLDER]);
  const again = lost.length ? [h("button", { onclick: () => command({ retry: lost }, "Run " + plural(lost.length, "trial") + " again that " + (lost.length === 1 ? "was" : "were") + " excluded?") }, "Run " + plural(lost.length, "excluded trial") + " again")] : [];
  const buttons = now.can_control ? [...again, h("button", { onclick: () => command({ pause: !now.is_paused }) }, now.is_paused ? "Continue" : "Pause"), h("button", { onclick: () => command({ cancel: "" }, "Stop this run? `proctor run --resume` continues it.") }, "Stop the run")] : [];
  place.replaceChildren(h("div", { class: "controls" }, bar, h("span", { role: "status" }, line), buttons), h("ul", { class: "texts" }, running));
}
async function command(order, question) {
  if (question && !confirm(question)) return;
  const answer = await fetch("control", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) });
  if (!answer.ok) { alert(await answer.text()); return; }
  for (const folder of order.retry ?? []) requested.add(folder);
  render();
}
