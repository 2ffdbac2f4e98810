// --- Diffs: a tree of files, each as one column or as two, with the colours of what most languages have in common.
const WORDS = "abstract as assert async await break case catch class const continue def default del do elif else end enum export extends false finally fn for from func function if impl import in interface is lambda let loop match mod module mut new nil None not null or package pass private protected pub public raise return self static struct super switch then this throw trait true True False try type union unless until use var void where while with yield".split(" ");
const TOKENS_RE = /(\/\/.*$|#(?![0-9a-fA-F]{3,8}\b).*$|\/\*.*?\*\/|--\s.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)|(\b\d[\d_.xa-fA-F]*\b)|([A-Za-z_]\w*)/g;
const keywords = new Set(WORDS);
// Files beyond this number of lines are drawn when they are opened.
const OPEN_LINES = 2000;
function paint(text) {
  if (text.length > 2000) return [text];
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKENS_RE)) {
    const kind = match[1] ? "c" : match[2] ? "s" : match[3] ? "n" : keywords.has(match[4]) ? "k" : null;
    if (!kind) continue;
    parts.push(text.slice(at, match.index), h("span", { class: kind }, match[0]));
    at = match.index + match[0].length;
  }
  return [...parts, text.slice(at)];
}
// The files of a patch: paths, counts, and lines as [kind, old number, new number, text].
function parseDiff(text) {
  const files = [];
  let file = null, older = 0, newer = 0, left = 0, right = 0;
  for (const line of text.split("\n")) {
    if (line.startsWith("diff --git ")) {
      const names = line.match(/^diff --git "?a\/(.*?)"? "?b\/(.*?)"?$/);
      file = { path: names ? names[2] : line.slice(11), note: "", added: 0, removed: 0, lines: [] };
      files.push(file);
      left = right = 0;
      continue;
    }
    if (!file) { if (!line.trim()) continue; file = { path: "change", note: "", added: 0, removed: 0, lines: [] }; files.push(file); }
    const hunk = line.match(/^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/);
    if (hunk) {
      [older, newer, left, right] = [Number(hunk[1]), Number(hunk[3]), Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      file.lines.push(["hunk", null, null, line]);
    } else if (left > 0 || right > 0) {
      const kind = line[0] === "+" ? "add" : line[0] === "-" ? "del" : line[0] === "\\" ? "hunk" : "same";
      if (kind === "hunk") { file.lines.push([kind, null, null, line]); continue; }
      if (kind !== "add") left -= 1;
      if (kind !== "del") right -= 1;
      if (kind === "add") file.added += 1;
      if (kind === "del") file.removed += 1;
      file.lines.push([kind, kind === "add" ? null : older++, kind === "del" ? null : newer++, line.slice(1)]);
    } else if (/^(new|deleted) file|^rename |^Binary |^GIT binary/.test(line)) file.note += (file.note ? ", " : "") + line.replace(/ mode \d+$/, "");
    else if (line && !/^(index |--- |\+\+\+ |similarity |old mode|new mode)/.test(line)) file.lines.push(["hunk", null, null, line]);
  }
  return files;
}
const number = (n) => h("td", { class: "line" }, n === null ? "" : String(n));
function unified(lines) {
  return lines.map(([kind, older, newer, text]) => kind === "hunk" ? h("tr", { class: "hunk" }, h("td", { colspan: "3" }, text))
    : h("tr", { class: kind }, number(older), number(newer), h("td", null, kind === "add" ? "+" : kind === "del" ? "-" : " ", paint(text))));
}
function split(lines) {
  const rows = [];
  const half = (line) => line ? [number(line[0] === "add" ? line[2] : line[1]), h("td", { class: line[0] }, paint(line[3]))] : [h("td", { class: "line" }), h("td", { class: "none" })];
  for (let at = 0; at < lines.length;) {
    const [kind, , newer, text] = lines[at];
    if (kind === "hunk") { rows.push(h("tr", { class: "hunk" }, h("td", { colspan: "4" }, text))); at += 1; continue; }
    if (kind === "same") { rows.push(h("tr", null, half(lines[at]), number(newer), h("td", null, paint(text)))); at += 1; continue; }
    const gone = [], come = [];
    while (lines[at]?.[0] === "del") gone.push(lines[at++]);
    while (lines[at]?.[0] === "add") come.push(lines[at++]);
    for (let n = 0; n < Math.max(gone.length, come.length); n++) rows.push(h("tr", null, half(gone[n]), half(come[n])));
  }
  return rows;
}
function drawDiff(text) {
  const files = parseDiff(text);
  const isSplit = state.split === "1";
  let drawn = 0;
  const places = files.map((file) => {
    const place = h("div", { class: isSplit ? "code-split" : "code-unified" });
    let isDrawn = false;
    const columns = h("colgroup", null, (isSplit ? ["line", "", "line", ""] : ["line", "line", ""]).map((name) => h("col", { class: name })));
    const fill = () => {
      if (isDrawn) return;
      isDrawn = true;
      place.append(h("table", { class: "diff" }, columns, h("tbody", null, isSplit ? split(file.lines) : unified(file.lines))));
    };
    drawn += file.lines.length;
    const isOpen = drawn <= OPEN_LINES || files.length === 1;
    if (isOpen) fill();
    return h("details", { class: "file", ...(isOpen ? { open: "" } : {}), ontoggle: fill },
      h("summary", null, h("span", { class: "path" }, file.path), " ", counts(file), file.note ? h("span", { class: "soft" }, " " + file.note) : null), place);
  });
  const mode = (value, label) => h("button", { "aria-pressed": String((state.split === "1") === (value === "1")), onclick: () => go({ split: value }) }, label);
  return [h("div", { class: "controls" }, h("span", { class: "soft" }, plural(files.length, "file")), mode("", "Unified"), mode("1", "Split")),
    h("div", { class: "change" }, h("nav", { "aria-label": "Changed files" }, tree(files, places)), h("div", null, places))];
}
const counts = (file) => h("span", null, h("span", { class: "good" }, "+" + file.added), " ", h("span", { class: "bad" }, "−" + file.removed));
// Folders with one entry are joined with it.
function tree(files, places) {
  const root = new Map();
  files.forEach((file, at) => {
    let folder = root;
    const parts = file.path.split("/");
    for (const part of parts.slice(0, -1)) { if (!(folder.get(part) instanceof Map)) folder.set(part, new Map()); folder = folder.get(part); }
    folder.set(parts.at(-1) + "\0" + at, at);
  });
  const list = (folder) => h("ul", null, [...folder].map(([name, entry]) => {
    while (entry instanceof Map && entry.size === 1 && [...entry.values()][0] instanceof Map) { const [[inner, next]] = entry; name += "/" + inner; entry = next; }
    if (entry instanceof Map) return h("li", null, h("span", { class: "soft" }, name + "/"), list(entry));
    const show = () => { places[entry].open = true; places[entry].scrollIntoView({ block: "start" }); };
    return h("li", null, h("button", { class: "link", onclick: show }, name.split("\0")[0]), " ", counts(files[entry]));
  }));
  return list(root);
}
