// --- Markdown of agents as elements. Links and pictures are text: a page of a run leads nowhere else.
const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*([^*\n]+)\*\*|__([^_\n]+)__|\*([^*\s][^*\n]*)\*|!?\[([^\]\n]*)\]\(([^)\s]+)[^)\n]*\)/g;
function inline(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const [all, , code, bold, strong, italic, label, address] = match;
    parts.push(text.slice(at, match.index));
    at = match.index + all.length;
    if (code !== undefined) parts.push(h("code", null, code));
    else if (bold !== undefined || strong !== undefined) parts.push(h("strong", null, bold ?? strong));
    else if (italic !== undefined) parts.push(h("em", null, italic));
    else parts.push(label === address ? address : label + " (" + address + ")");
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== "");
}
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const isRow = (line) => /^\s*\|.*\|\s*$/.test(line);
const cellsOf = (line) => line.trim().slice(1, -1).split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replaceAll("\\|", "|")));
function markdown(text) {
  const lines = text.split("\n");
  const blocks = [];
  let at = 0;
  const take = (is) => { const found = []; while (at < lines.length && is(lines[at])) found.push(lines[at++]); return found; };
  while (at < lines.length) {
    const line = lines[at];
    const fence = line.match(/^\s*(```+|~~~+)/);
    if (fence) {
      at += 1;
      const code = take((it) => !it.trim().startsWith(fence[1]));
      at += 1;
      blocks.push(h("pre", { class: "code" }, code.join("\n")));
    } else if (/^#{1,6}\s/.test(line)) blocks.push(h("p", { class: "md-title" }, inline(lines[at++].replace(/^#+\s+/, ""))));
    else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) { at += 1; blocks.push(h("hr")); }
    else if (ITEM.test(line)) blocks.push(items(take((it) => ITEM.test(it) || /^\s{2,}\S/.test(it))));
    else if (/^\s*>/.test(line)) blocks.push(h("blockquote", null, markdown(take((it) => /^\s*>/.test(it)).map((it) => it.replace(/^\s*> ?/, "")).join("\n"))));
    else if (isRow(line) && isRow(lines[at + 1] ?? "") && /^[\s|:-]+$/.test(lines[at + 1])) {
      const [head, , ...rows] = take(isRow);
      blocks.push(h("table", null, h("thead", null, h("tr", null, cellsOf(head).map((cell) => h("th", null, cell)))), h("tbody", null, rows.map((row) => h("tr", null, cellsOf(row).map((cell) => h("td", null, cell)))))));
    } else if (line.trim() === "") at += 1;
    else {
      const own = [lines[at++], ...take((it) => it.trim() !== "" && !ITEM.test(it) && !/^(\s*(```|~~~|>)|#{1,6}\s)/.test(it))];
      blocks.push(h("p", null, own.flatMap((it, n) => n ? [h("br"), ...inline(it)] : inline(it))));
    }
  }
  return blocks;
}
// Items with deeper ones below them; lines without a mark belong to the item above.
function items(lines) {
  const roots = [];
  const open = [];
  for (const line of lines) {
    const match = line.match(ITEM);
    if (!match) { open.at(-1)?.text.push(line.trim()); continue; }
    const item = { indent: match[1].length, ordered: /\d/.test(match[2]), text: [match[3]], inner: [] };
    while (open.length && open.at(-1).indent >= item.indent) open.pop();
    (open.at(-1)?.inner ?? roots).push(item);
    open.push(item);
  }
  const list = (found) => h(found[0].ordered ? "ol" : "ul", null, found.map((item) => h("li", null, inline(item.text.join(" ")), item.inner.length ? list(item.inner) : null)));
  return list(roots);
}
