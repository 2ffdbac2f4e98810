// The measurements of scripts/bench-view: bench-view.mjs PROCTOR DIRECTORY PARTS
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { Browser } from "./browser.mjs";

const [proctor, root, parts] = process.argv.slice(2);
const RUN = "20261101-000000-0000000a";
const VIEWERS = 100;
const ROUNDS = 4;
const TICKS_PER_SECOND = 100;

/** Starts a server and waits for its address. */
async function serve(folder) {
  const child = spawn(proctor, ["view", folder], { cwd: root, stdio: ["ignore", "pipe", "ignore"] });
  const line = await new Promise((resolve, reject) => {
    child.stdout.setEncoding("utf8").once("data", resolve);
    child.once("exit", (code) => reject(new Error(`proctor view ${folder} ended with ${code}`)));
  });
  return { child, address: line.split("?")[0].match(/^http:\/\/[^/]+\//)[0] };
}

async function stop({ child }) {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGINT");
  await ended;
}

/** The largest and the current memory of a process, in MB. */
function memory(pid) {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return ["VmHWM", "VmRSS"].map((name) => Math.round(Number(text.match(new RegExp(name + ":\\s+(\\d+)"))[1]) / 1024));
}

/** The processor time of a process so far, in seconds. */
function processorTime(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

async function pages(trials) {
  const server = await serve(`${root}/${trials}`);
  const page = `${server.address}runs/${RUN}/`;
  const began = Date.now();
  const size = (await (await fetch(page)).text()).length;
  const first = Date.now() - began;
  const profile = `${root}/profile`;
  rmSync(profile, { recursive: true, force: true });
  const browser = await Browser.start(profile);
  const shown = await browser.open(page);
  const paint = await shown.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()");
  const drawn = await shown.evaluate("new Promise((resolve) => requestAnimationFrame(() => resolve(performance.now())))");
  const heap = await shown.evaluate("performance.memory.usedJSHeapSize");
  const filter = Date.now();
  await shown.evaluate("go({ filter: 'rate_limit' })");
  await shown.until("byId('found').textContent.startsWith('') && state.filter === 'rate_limit'");
  const filtered = Date.now() - filter;
  await browser.close();
  const searches = [];
  for (const text of ["parser%20skips", "path:part3", "error:rate", "no%20such%20text"]) {
    const from = Date.now();
    await (await fetch(`${page}search?q=${text}`)).json();
    searches.push(Date.now() - from);
  }
  const before = memory(server.child.pid)[1];
  const later = [];
  for (let n = 0; n <= 1200; n++) {
    if (n === 300 || n === 1200) later.push(`after ${n} requests ${memory(server.child.pid)[1]} MB`);
    await (await fetch(n % 3 ? page : `${page}trials/trials%2Fagent-00%2Ftask-0000%2Ftrial-${1 + n % 5}`)).arrayBuffer();
  }
  const [most] = memory(server.child.pid);
  await stop(server);
  const mb = (bytes) => (bytes / 1e6).toFixed(1) + " MB";
  console.log(`${trials} trials: page ${mb(size)}; first request ${first} ms; first paint ${Math.round(paint)} ms, drawn ${Math.round(drawn)} ms; heap of the page ${mb(heap)}; filter ${filtered} ms; searches ${searches.join(", ")} ms; server ${before} MB, ${later.join(", ")}, at most ${most} MB`);
}

/** Runs a suite of short trials, and returns its time in seconds. With viewers, also the server's processor time. */
async function timed(viewers) {
  const folder = `${root}/live`;
  rmSync(folder, { recursive: true, force: true });
  for (const name of ["repo", "results"]) mkdirSync(`${folder}/${name}`, { recursive: true });
  writeFileSync(`${folder}/repo/a.txt`, "a\n");
  writeFileSync(`${folder}/case.yaml`, "name: task\ndescription: A short task.\nrepo: ./repo\nagent:\n  type: command\n  config: {command: [sleep, '1'], prompt: Wait.}\nevaluators: [git-diff]\n");
  writeFileSync(`${folder}/proctor.yaml`, "agents:\n  - {name: a, type: command, config: {command: [sleep, '1']}}\n  - {name: b, type: command, config: {command: [sleep, '1']}}\ntasks: [{testcase: case.yaml}]\ntrials: 40\nparallel: 4\nresults: {dir: ./results}\n");
  const server = await serve(`${folder}/results`);
  const began = Date.now();
  const run = spawn(proctor, ["run", "proctor.yaml", "--progress", "quiet", "--no-tui"], { cwd: folder, stdio: "ignore" });
  const ended = new Promise((resolve) => run.once("exit", resolve));
  const open = viewers ? await watch(server.address) : [];
  const code = await ended;
  if (code !== 0) throw new Error(`the run ended with ${code}`);
  const seconds = (Date.now() - began) / 1000;
  const spent = processorTime(server.child.pid);
  if (open.some((viewer) => !viewer.seen())) throw new Error("a viewer received no events");
  for (const viewer of open) viewer.destroy();
  await stop(server);
  return { seconds, spent };
}

/** Follows the run as that many pages do: events, and the page every two seconds. */
async function watch(address) {
  let name;
  while (!name) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    name = (await (await fetch(address)).text()).match(/runs\/([^/]+)\//)?.[1];
  }
  const open = [];
  for (let n = 0; n < VIEWERS; n++) {
    let bytes = 0;
    const events = get(`${address}runs/${name}/events`, (answer) => answer.on("data", (data) => { bytes += data.length; })).on("error", () => {});
    const timer = setInterval(() => fetch(`${address}runs/${name}/`).then((it) => it.arrayBuffer()).catch(() => {}), 2000);
    open.push({ seen: () => bytes, destroy: () => { clearInterval(timer); events.destroy(); } });
  }
  return open;
}

/** Runs with and without viewers take turns, so that other load on the machine meets both alike. */
async function viewers() {
  const results = { without: [], with: [] };
  let spent = 0;
  for (let round = 0; round < ROUNDS; round++) {
    results.without.push((await timed(false)).seconds);
    const watched = await timed(true);
    results.with.push(watched.seconds);
    spent += watched.spent / watched.seconds;
  }
  const [before, after] = [median(results.without), median(results.with)];
  console.log(`a run of 80 trials: ${before.toFixed(2)} s (${results.without.join(", ")}); with ${VIEWERS} viewers ${after.toFixed(2)} s (${results.with.join(", ")}): ${(100 * (after / before - 1)).toFixed(1)} %; the server used ${(100 * spent / ROUNDS).toFixed(1)} % of a processor`);
}

/** Of an even number of values. */
function median(values) {
  const middle = [...values].sort((one, other) => one - other).slice(values.length / 2 - 1, values.length / 2 + 1);
  return (middle[0] + middle[1]) / 2;
}

if (parts.includes("pages")) for (const trials of [3000, 30000]) await pages(trials);
if (parts.includes("viewers")) await viewers();
