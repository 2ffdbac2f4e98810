"use strict";
// Shared by all pages: elements, the state in the address, figures as text. All text is set as text, never as markup.
// The view is in the address (#sort=cost&status=failed), so that it can be saved.
const byId = (id) => document.getElementById(id);
function h(tag, set, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(set || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((it) => it !== null && it !== undefined));
  return element;
}
let state = {};
function readState() { state = Object.fromEntries(new URLSearchParams(location.hash.slice(1))); }
function hashWith(change) {
  const next = new URLSearchParams({ ...state, ...change });
  for (const [name, value] of [...next]) if (value === "") next.delete(name);
  return "#" + next;
}
function go(change) {
  // The event that follows a change of the address may still be on its way.
  readState();
  const hash = hashWith(change);
  if (hash === (location.hash || "#")) render(); else location.hash = hash;
}
const dollars = (n) => n === null || n === undefined ? "–" : n === 0 || n >= 1 ? "$" + n.toFixed(2) : "$" + n.toFixed(4);
const seconds = (ms) => ms === null || ms === undefined ? "–" : ms < 1000 ? Math.round(ms) + " ms" : ms < 1e5 ? (ms / 1000).toFixed(1) + " s" : ms < 6e6 ? (ms / 6e4).toFixed(1) + " min" : (ms / 3.6e6).toFixed(1) + " h";
const count = (n) => n === null || n === undefined ? "–" : n.toLocaleString("en-US");
const plural = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");
const tone = (status) => ({ passed: "good", failed: "bad", running: "busy" })[status] || "warn";
// Unknown values come last in both directions.
function order(one, other, up) {
  if (one === null || other === null) return (one === null) - (other === null);
  const less = typeof one === "string" ? one.localeCompare(other, "en") : one - other;
  return up ? less : -less;
}
// A table that may be wider than the page can be scrolled with the keyboard.
const wide = (label, ...children) => h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, ...children);

function theme() {
  const dark = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = byId("theme");
  button.textContent = dark ? "Light" : "Dark";
  button.setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
}

// --- Tables that are in the page already are only put into another order.
const ranks = new WeakMap();
function sortTable(table, column, up) {
  const body = table.tBodies[0];
  if (!ranks.has(body)) ranks.set(body, [...body.rows]);
  const heads = [...table.tHead.rows[0].cells];
  const at = heads.findIndex((head) => head.dataset.key === column);
  heads.forEach((head, n) => n === at ? head.setAttribute("aria-sort", up ? "ascending" : "descending") : head.removeAttribute("aria-sort"));
  const rows = [...ranks.get(body)];
  if (at >= 0) rows.sort((one, other) => order(cellKey(one.cells[at]), cellKey(other.cells[at]), up));
  body.append(...rows);
}
function cellKey(cell) {
  const value = cell.dataset.value;
  if (value === undefined || value === "") return null;
  return isNaN(value) ? value : Number(value);
}
function sortable(table) {
  for (const button of table.querySelectorAll("th button")) {
    const name = button.parentElement.dataset.key;
    button.addEventListener("click", () => go({ board: name, bdir: state.board === name && state.bdir !== "asc" ? "asc" : "" }));
  }
}
