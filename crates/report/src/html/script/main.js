// --- Draws the page again whenever its address changes.
function render() {
  readState();
  theme();
  const board = byId("board");
  if (board) sortTable(board, state.board, state.bdir === "asc");
  if (data) { drawHeat(); drawVersus(); drawControls(); drawTrials(); drawTrial(); searchSessions(); if (live) drawLive(live); }
  document.documentElement.dataset.ready = "yes";
}
if (byId("data")) load(byId("data").textContent);
if (byId("board")) sortable(byId("board"));
byId("theme").addEventListener("click", () => go({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" }));
if (data) {
  byId("scopes").hidden = !data.served;
  byId("hard").addEventListener("click", () => go({ hard: state.hard ? "" : "1" }));
  let typing = 0;
  byId("search").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(() => go({ filter: event.target.value, page: "" }), 150); });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "j") step(1, () => true);
    else if (event.key === "k") step(-1, () => true);
    else if (event.key === "n") step(1, isFailure);
    else if (event.key === "Escape") go({ trial: "", beside: "", find: "" });
  });
}
addEventListener("hashchange", render);
render();
if (data?.served) follow();
