// Drives the pages of a server in a real browser and fails with the first expectation that does not hold.
//
//     node pages.mjs finished|live|written PROFILE-DIRECTORY AXE-FILE URL...

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Browser } from "../../../scripts/browser.mjs";

const [scenario, profile, axe, ...urls] = process.argv.slice(2);
const [url] = urls;
const browser = await Browser.start(profile);

/** Whether an element is within the window. */
const isInView = (selector) => `(() => { const box = document.querySelector(${JSON.stringify(selector)})?.getBoundingClientRect(); return Boolean(box) && box.top >= 0 && box.top < innerHeight && box.left >= 0; })()`;
const isOpen = "Boolean(document.querySelector('#trial h2'))";

/** Violations of accessibility rules that make a page hard or impossible to use. */
async function faults(page) {
  await page.evaluate(readFileSync(axe, "utf8") + "; 0");
  const found = await page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((it) => it.violations.filter((v) => ['serious', 'critical'].includes(v.impact)).map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html + ' ' + (n.any[0]?.message ?? '')).join(' | ')))");
  return found;
}

/** Pages have no faults, on a desktop and, dark, on a phone; neither is wider than its window. */
async function areAccessible(urls, isDrawn = "true") {
  for (const [width, dark] of [[1400, false], [400, true]]) for (const url of urls) {
    const page = await browser.open(url, { width, dark, reducedMotion: true });
    await page.until(isDrawn);
    const name = `${width} ${dark ? "dark" : "light"} ${url}`;
    assert.deepEqual(await faults(page), [], name);
    assert.equal(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), true, `wider than its window: ${name}`);
    assert.deepEqual(page.complaints, []);
    await page.close();
  }
}

/** A click on a trial far down the page brings it into view, and the address keeps it. */
async function trialOpensInView(width, height) {
  const page = await browser.open(url, { width, height });
  await page.evaluate("(() => { const link = document.querySelector('#list td a'); link.scrollIntoView(); link.click(); })()");
  await page.until(isOpen);
  assert.ok(await page.evaluate(isInView("#trial h2")), `the trial is out of view at ${width} × ${height}`);
  const hash = await page.evaluate("location.hash");
  assert.match(hash, /trial=a%2Fone%231/);
  const again = await browser.open(url + hash, { width, height });
  await again.until(isOpen);
  assert.ok(await again.evaluate(isInView("#trial h2")), "a saved address does not show the trial");
  assert.equal(await again.evaluate("document.documentElement.scrollWidth <= innerWidth"), true, `the page is wider than ${width}`);
  await page.key("Escape");
  await page.until("!" + isOpen);
  assert.equal(await page.evaluate("byId('overview').hidden"), false);
  await page.close();
  return again;
}

async function finished() {
  for (const [width, height] of [[1400, 900], [400, 700], [1400, 300]]) {
    const page = await trialOpensInView(width, height);
    assert.deepEqual(page.complaints, []);
    await page.close();
  }
  const page = await browser.open(url);
  // Keys: the first failure, the next trial, back.
  await page.key("n");
  await page.until("location.hash.includes('trial=a%2Fone')");
  await page.key("j");
  await page.until("location.hash.includes('trial=a%2Ftwo')");
  await page.key("k");
  await page.until("location.hash.includes('trial=a%2Fone')");
  // Markdown and hostile text are elements and text, and nothing of an agent runs.
  await page.until("document.querySelector('.md strong')?.textContent === 'bold'");
  assert.equal(await page.evaluate("document.querySelectorAll('#trial img, #trial script, #trial a[href^=http]').length"), 0);
  assert.ok(await page.evaluate("document.querySelector('.md').textContent.includes('<img src=x')"));
  // Long parts are loaded on demand.
  await page.evaluate("[...document.querySelectorAll('#trial button')].find((it) => it.textContent.startsWith('Show all, ')).click()");
  await page.until("document.querySelector('#trial').textContent.includes('the end of a long text')");
  // The change in one column, then in two.
  assert.ok(await page.evaluate("document.querySelector('.diff tr.add') !== null"));
  await page.evaluate("[...document.querySelectorAll('button')].find((it) => it.textContent === 'Split').click()");
  await page.until("document.querySelector('.code-split td.add') !== null");
  // Side by side.
  await page.evaluate("go({ beside: 'b/one#1' })");
  await page.until("document.querySelectorAll('.beside section h2').length === 2");
  // Search in sessions.
  await page.evaluate("go({ trial: '', beside: '', filter: 'onerror' })");
  await page.until("document.querySelector('#hits li') !== null");
  // Search in tools only; a hit opens its trial at the place.
  await page.evaluate("go({ filter: 'tool:grep' })");
  await page.until("document.querySelectorAll('#hits li').length === 1");
  await page.evaluate("document.querySelector('#hits a').click()");
  await page.until("document.querySelector('.found')?.textContent.includes('Grep')");
  assert.ok(await page.evaluate(isInView(".found")), "the hit is out of view");
  assert.deepEqual(page.complaints, []);
  assert.ok(!(await page.evaluate("document.title")).includes("broken"), "a script of an agent ran");
  await page.close();
  await areAccessible([url, url.replace(/runs\/.*/, "")]);
  await areAccessible([url + "#trial=a%2Fone%231&split=1"], isOpen + " && document.querySelector('.diff') !== null");
}

/** Pages of a comparison and an experiment, in files. */
async function written() {
  await areAccessible(urls);
}

/** A run whose first trial is cancelled and run again from the page before the run is stopped. The address has the token. */
async function live() {
  const page = await browser.open(url);
  await page.until("document.querySelector('#live progress') !== null");
  await page.evaluate("window.confirm = () => true");
  const click = (text) => page.evaluate(`[...document.querySelectorAll('#live button')].find((it) => it.textContent === ${JSON.stringify(text)}).click()`);
  await page.until("document.querySelector('#live').textContent.includes('Pause')");
  await click("Pause");
  await page.until("document.querySelector('#live').textContent.includes('paused')");
  await page.until("[...document.querySelectorAll('#list tbody tr')].some((row) => row.textContent.includes('running'))");
  const overview = await page.evaluate("byId('overview').innerText");
  assert.ok(!overview.includes("interrupted"), "a running trial is counted as interrupted: " + overview);
  await page.evaluate("document.querySelector('#live li button').click()");
  // The cancelled trial appears in the list without a reload.
  await page.evaluate("window.stays = true");
  await page.until("[...document.querySelectorAll('#list tbody tr')].some((row) => row.textContent.includes('interrupted'))");
  assert.equal(await page.evaluate("window.stays"), true);
  // It runs again when that is requested.
  await click("Continue");
  await page.until("[...document.querySelectorAll('#live button')].some((it) => it.textContent === 'Run 1 excluded trial again')");
  await click("Run 1 excluded trial again");
  await page.until("![...document.querySelectorAll('#list tbody tr')].some((row) => row.textContent.includes('interrupted'))");
  await click("Stop the run");
  await page.until("document.querySelector('#live').textContent === ''");
  assert.deepEqual(page.complaints, []);
}

try {
  await { finished, live, written }[scenario]();
} finally {
  await browser.close();
}
