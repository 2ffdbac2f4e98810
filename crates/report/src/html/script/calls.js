// --- Calls to models: a table with a time axis.
const MOST_CALLS = 200;
function drawCalls(calls) {
  const known = calls.filter((call) => call.at_ms !== null);
  const from = Math.min(0, ...known.map((call) => call.at_ms));
  const to = Math.max(1, ...known.map((call) => call.at_ms + call.ms));
  const sum = (name) => calls.some((call) => call[name] === null) ? null : calls.reduce((all, call) => all + call[name], 0);
  const axis = (call) => {
    if (call.at_ms === null) return h("td", { class: "axis" });
    const bar = h("span", { class: call.is_fault ? "bar fault" : "bar" });
    bar.style.left = 100 * (call.at_ms - from) / (to - from) + "%";
    bar.style.width = Math.max(0.4, 100 * call.ms / (to - from)) + "%";
    return h("td", { class: "axis", title: "from " + seconds(call.at_ms) + " to " + seconds(call.at_ms + call.ms) }, h("span", { class: "track" }, bar));
  };
  const row = (call, n) => h("tr", null, h("td", null, String(n + 1)), axis(call), figure(seconds(call.at_ms)), figure(seconds(call.ms)), h("td", { class: call.is_fault ? "bad" : "good" }, call.status === null ? "none" : String(call.status)),
    h("td", null, call.model ?? "–"), figure(count(call.input_tokens)), figure(count(call.cached_tokens)), figure(count(call.output_tokens)), figure(dollars(call.cost_usd)), h("td", { class: "text soft" }, call.text));
  const body = h("tbody", null, calls.slice(0, MOST_CALLS).map(row));
  const heads = ["call", known.length ? "0 to " + seconds(to) : "time", "at", "took", "status", "model", "input", "cached", "output", "cost", "request"];
  const all = calls.length > MOST_CALLS ? h("button", { onclick: (event) => { body.append(...calls.slice(MOST_CALLS).map((call, n) => row(call, n + MOST_CALLS))); event.target.remove(); } }, "Show all " + plural(calls.length, "call")) : null;
  const total = h("tr", null, h("td", { colspan: "6" }, plural(calls.length, "call")), figure(count(sum("input_tokens"))), figure(count(sum("cached_tokens"))), figure(count(sum("output_tokens"))), figure(dollars(sum("cost_usd"))), h("td"));
  return [wide("Calls to models", h("table", { class: "calls" }, h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col", class: /^(at|took|input|cached|output|cost)$/.test(head) ? "figure" : null }, head)))), body, h("tfoot", null, total))), all];
}
