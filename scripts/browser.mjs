// A headless Chromium that is driven over a pipe (DevTools protocol): for tests of the pages, screenshots and
// measurements. Needs Node 20 and nothing else.
//
//     const browser = await Browser.start(PROFILE_DIRECTORY);
//     const page = await browser.open(URL, { width: 1400, height: 900, dark: false });
//     await page.evaluate("document.title");

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";

const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const LONGEST_WAIT_MS = 60_000;

export class Browser {
  static async start(profile) {
    const program = PROGRAMS.find((path) => existsSync(path));
    if (!program) throw new Error("Chromium is not installed");
    const options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-precise-memory-info", "--remote-debugging-pipe", "--user-data-dir=" + profile];
    const child = spawn(program, options, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    return new Browser(child);
  }

  constructor(child) {
    this.child = child;
    this.next = 1;
    this.waiting = new Map();
    this.pages = new Map();
    let rest = "";
    child.stdio[4].setEncoding("utf8").on("data", (data) => {
      const parts = (rest + data).split("\0");
      rest = parts.pop();
      for (const part of parts) this.receive(JSON.parse(part));
    });
  }

  receive(message) {
    const waiting = this.waiting.get(message.id);
    if (waiting) {
      this.waiting.delete(message.id);
      if (message.error) waiting.reject(new Error(message.error.message));
      else waiting.resolve(message.result);
    } else this.pages.get(message.sessionId)?.note(message);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    });
  }

  /** Opens a page and waits until its script has drawn it. */
  async open(url, { width = 1400, height = 900, dark = false, reducedMotion = false } = {}) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    this.pages.set(sessionId, page);
    for (const domain of ["Page", "Runtime", "Log", "Performance"]) await page.send(domain + ".enable");
    const features = [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }, { name: "prefers-reduced-motion", value: reducedMotion ? "reduce" : "no-preference" }];
    await page.send("Emulation.setEmulatedMedia", { features });
    await page.resize(width, height);
    await page.go(url);
    return page;
  }

  async close() {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    await this.send("Browser.close");
    await ended;
  }
}

class Page {
  constructor(browser, session, target) {
    Object.assign(this, { browser, session, target, complaints: [] });
  }

  send(method, params) { return this.browser.send(method, params, this.session); }

  /** Keeps errors, warnings and violations of the content security policy. */
  note({ method, params }) {
    if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Runtime.consoleAPICalled" && /error|warning/.test(params.type)) this.complaints.push(params.args.map((it) => it.value).join(" "));
    if (method === "Log.entryAdded" && /error|warning/.test(params.entry.level)) this.complaints.push(params.entry.text + " " + (params.entry.url ?? ""));
  }

  async go(url) {
    await this.send("Page.navigate", { url });
    await this.until("document.documentElement.dataset.ready === 'yes'", "the page at " + url);
  }

  resize(width, height) {
    return this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  }

  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Waits until an expression is true. */
  async until(expression, what = expression) {
    const end = Date.now() + LONGEST_WAIT_MS;
    // While the page is replaced by another one, there is nothing to evaluate.
    while (!(await this.evaluate(expression).catch(() => false))) {
      if (Date.now() > end) throw new Error("waited in vain for " + what);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async key(key) {
    const code = { Tab: 9, Enter: 13, Escape: 27 }[key];
    const text = key.length === 1 ? key : key === "Enter" ? "\r" : undefined;
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, text, windowsVirtualKeyCode: code });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key, windowsVirtualKeyCode: code });
  }

  /** A PNG picture of the visible part, or of the whole page. */
  async picture({ whole = false } = {}) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole });
    return Buffer.from(data, "base64");
  }

  async close() {
    this.browser.pages.delete(this.session);
    await this.browser.send("Target.closeTarget", { targetId: this.target });
  }
}
