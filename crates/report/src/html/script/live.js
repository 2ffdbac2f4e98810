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
    return number === undefined ? null : h("li", null, h("a", { href: hashWith({ trial: nameOf(data.rows[number]), beside: "" }) }, nameOf(data.rows[number])), " ", h("code", null, it.text));
  };
  const more = found.more ? [h("p", { class: "soft" }, "and " + plural(found.more, "more trial"))] : [];
  place.replaceChildren(...(found.hits.length ? [h("h3", null, "In sessions"), h("ul", null, found.hits.map(hit)), ...more] : []));
}
// The page of a run that goes on is the same page with newer figures: its parts are put in the place of the old ones.
async function refresh() {
  const answer = await fetch("");
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [figures, newer] = [byId("figures"), page.getElementById("figures")];
  if (newer) { figures.replaceWith(document.adoptNode(newer)); sortable(byId("board")); }
  load(page.getElementById("data").textContent);
  render();
}
function follow() {
  const events = new EventSource("events");
  let shown = data.rows.length;
  let busy = false;
  events.onmessage = async (event) => {
    const now = JSON.parse(event.data);
    drawLive(now);
    if (!now.is_running) events.close();
    if (busy || (now.ended === shown && now.is_running)) return;
    busy = true;
    shown = now.ended;
    await refresh().catch(() => {});
    busy = false;
  };
}
function drawLive(now) {
  const place = byId("live");
  if (!now.is_running) { place.replaceChildren(); return; }
  const line = count(now.ended) + " of " + plural(now.trials, "trial") + " ended, " + count(now.active) + " running" + (now.is_paused ? ", paused" : "") + (now.cost_usd === null ? "" : ", " + dollars(now.cost_usd) + " so far");
  const bar = h("progress", { max: Math.max(1, now.trials), value: now.ended, "aria-label": "ended trials" });
  const running = now.running.map((it) => h("li", null, h("strong", null, it.name), " " + it.text, now.can_control ? h("button", { class: "link", onclick: () => command({ cancel: it.folder }, "Cancel " + it.name + "?") }, "Cancel") : null));
  const buttons = now.can_control ? [h("button", { onclick: () => command({ pause: !now.is_paused }) }, now.is_paused ? "Continue" : "Pause"), h("button", { onclick: () => command({ cancel: "" }, "Stop this run? `proctor run --resume` continues it.") }, "Stop the run")] : [];
  place.replaceChildren(h("div", { class: "controls" }, bar, h("span", { role: "status" }, line), buttons), h("ul", { class: "texts" }, running));
}
async function command(order, question) {
  if (question && !confirm(question)) return;
  const answer = await fetch("control", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) });
  if (!answer.ok) alert(await answer.text());
}
