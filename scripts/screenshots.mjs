// Takes the pictures of scripts/screenshots: screenshots.mjs ADDRESS COMPARISON PROFILE-DIRECTORY OUTPUT-DIRECTORY
import { writeFileSync } from "node:fs";
import { deflateSync, inflateSync } from "node:zlib";
import { Browser } from "./browser.mjs";

const [address, comparison, profile, output] = process.argv.slice(2);
const run = address + "runs/20261101-000000-0000000a/";
const trial = "#trial=" + encodeURIComponent("agent-a/task-0000#4");
const beside = "&beside=" + encodeURIComponent("agent-b/task-0000#1");
const desktop = { width: 1200, height: 760 };
const phone = { width: 400, height: 760 };
const PICTURES = [
  ["index-light", address, desktop],
  ["run-light", run, desktop],
  ["run-phone-dark", run, { ...phone, dark: true }],
  ["trial-light", run + trial, desktop],
  ["trial-phone-dark", run + trial, { ...phone, dark: true }],
  ["beside-dark", run + trial + beside, { ...desktop, dark: true }],
  ["compare-light", "file://" + comparison, desktop],
];

const browser = await Browser.start(profile);
for (const [name, url, window] of PICTURES) {
  const page = await browser.open(url, window);
  await page.until("!document.querySelector('#trial')?.textContent.includes('loading')");
  writeFileSync(`${output}/${name}.png`, smaller(await page.picture()));
  if (page.complaints.length) throw new Error(page.complaints.join("\n"));
  await page.close();
}
await browser.close();

/** The same picture with a palette of 256 colours: a quarter of the size. */
function smaller(png) {
  const { width, height, rgb } = decoded(png);
  const tally = new Map();
  for (const colour of rgb) tally.set(colour, (tally.get(colour) ?? 0) + 1);
  const palette = [...tally].sort((one, other) => other[1] - one[1] || one[0] - other[0]).slice(0, 256).map(([colour]) => colour);
  const parts = (colour) => [colour >> 16, (colour >> 8) & 255, colour & 255];
  const known = new Map(palette.map((colour, at) => [colour, at]));
  const nearest = (colour) => {
    const own = parts(colour);
    let [best, at] = [Infinity, 0];
    palette.forEach((other, n) => {
      const away = parts(other).reduce((sum, part, k) => sum + (part - own[k]) ** 2, 0);
      if (away < best) [best, at] = [away, n];
    });
    known.set(colour, at);
    return at;
  };
  const rows = Buffer.alloc((width + 1) * height);
  rgb.forEach((colour, n) => { rows[Math.floor(n / width) * (width + 1) + 1 + n % width] = known.get(colour) ?? nearest(colour); });
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([png.subarray(0, 8), chunk("IHDR", head), chunk("PLTE", Buffer.from(palette.flatMap(parts))), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

/** The pixels of a PNG file of Chromium: eight bits for each of three or four channels. */
function decoded(png) {
  let [at, width, height, channels] = [8, 0, 0, 3];
  const packed = [];
  while (at < png.length) {
    const [length, type] = [png.readUInt32BE(at), png.toString("latin1", at + 4, at + 8)];
    const body = png.subarray(at + 8, at + 8 + length);
    if (type === "IHDR") [width, height, channels] = [body.readUInt32BE(0), body.readUInt32BE(4), body[9] === 6 ? 4 : 3];
    if (type === "IDAT") packed.push(body);
    at += length + 12;
  }
  const bytes = inflateSync(Buffer.concat(packed));
  const stride = width * channels;
  const rgb = new Uint32Array(width * height);
  let above = new Uint8Array(stride);
  for (let y = 0; y < height; y++) {
    const filter = bytes[y * (stride + 1)];
    const row = Uint8Array.from(bytes.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1)));
    for (let x = 0; x < stride; x++) {
      const [a, b, c] = [x < channels ? 0 : row[x - channels], above[x], x < channels ? 0 : above[x - channels]];
      row[x] += filter === 1 ? a : filter === 2 ? b : filter === 3 ? (a + b) >> 1 : filter === 4 ? paeth(a, b, c) : 0;
    }
    for (let x = 0; x < width; x++) rgb[y * width + x] = (row[x * channels] << 16) | (row[x * channels + 1] << 8) | row[x * channels + 2];
    above = row;
  }
  return { width, height, rgb };
}
function paeth(a, b, c) {
  const p = a + b - c;
  const [pa, pb, pc] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}
function chunk(type, body) {
  const named = Buffer.concat([Buffer.from(type, "latin1"), body]);
  const all = Buffer.alloc(named.length + 8);
  all.writeUInt32BE(body.length, 0);
  named.copy(all, 4);
  all.writeUInt32BE(checksum(named), named.length + 4);
  return all;
}
function checksum(bytes) {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}
