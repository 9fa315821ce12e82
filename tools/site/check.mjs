// Opens the lab's page in Chromium: numbers of the command, views, address, keyboard, main thread.
// Arguments: the page's folder, the single file, the command `carob`.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { finish, probe, start, wait } from "./browser.mjs";

const [site, single, carob] = process.argv.slice(2);
/** Scenarios whose rows are compared: those of the Python package's test. */
const SCENARIOS = ["carob/default", "thesis/exchange-udp", "thesis/exchange-tcp", "retrycount/rto-scatter", "nonobserve/gprs"];
const TABS = ["ranking", "watch", "advice", "copy"];
/** Addresses with few runs: a link, a wireless network, a link drawn over time, and TCP beside UDP. */
const OWN_LINK = "link=gprs&loss=5+%25&rtt=900+ms&clients=3&size=20000&cc=default%2Ccarob&seeds=12";
const MESH = "preset=mesh&scenario=cocoaplus%2Fconstant&cell=constant-chain-lossy-4kbit&set=workload.duration%3D1+min&cc=default%2Ccocoa-plus&seeds=2";
const DRAWN = "drawn_down=60_30x16-5x16_300x8-900x24_&drawn_up=60_30x16-5x16_300x8-900x24_&size=4000&cc=default%2Ccarob&seeds=4";
const TCP = "link=gprs&loss=4+%25&size=20000&cc=tcp-newreno%2Cdefault&seeds=2";
/** States in which the main thread is traced. */
const TRACED = {
  runs: "loss=5+%25&cc=default%2Ccocoa-plus%2Cfasor%2Ccarob%2Crfc6298%2Ccocoa-03&seeds=300",
  trace: "size=2000&cc=default&seeds=2",
  tcp: "scenario=thesis%2Flong&cell=long-1c-none-2500&cc=tcp-newreno&seeds=2&view=watch",
  playback: "link=gprs&down=20+kbit%2Fs&rtt=3+s&loss=8+%25&traffic=command&clients=100&cc=default%2Ccocoa-plus&seeds=10&view=watch",
  crowd: "link=umts&clients=1000&traffic=telemetry&cc=default&seeds=1&view=watch",
  mesh: "preset=mesh&scenario=cocoaplus%2Fconstant&cell=constant-6x6-lossy-5kbit&cc=default%2Ccocoa-plus&seeds=2&view=watch",
};
/** Longest task that a reader does not notice, and work for a frame in 95 % of frames, in microseconds of CPU time. */
const [TASK_MAX, FRAME_MAX] = [50_000, 8_000];

const folder = mkdtempSync(`${tmpdir()}/carob-page-`);
const serving = ["-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", site, "0"];
const server = spawn("python3", serving, { stdio: ["ignore", "pipe", "ignore"] });
const address = (await new Promise((resolve) => server.stdout.once("data", resolve))).toString().match(/http:[^)]*/)[0];
const browser = await start();
const page = await browser.newPage();
const devtools = await page.context().newCDPSession(page);
const defects = [];
const expect = (holds, defect) => holds || defects.push(defect);
const run = (...words) => execFileSync(carob, words, { encoding: "utf8", maxBuffer: 1 << 28 });
const evaluate = (expression) => page.evaluate(expression);
const until = (expression) => wait(page, expression);
const open = async (state, at = address) => {
  await page.goto("about:blank");
  await page.goto(`${at}#${state}`);
  await until("Boolean(globalThis.lab?.finished)");
};
const same = (name, native, shown) => {
  const [one, other] = [native, shown].map((text) => text.split("\n"));
  const row = one.findIndex((line, at) => line !== other[at]);
  expect(native && row < 0 && one.length === other.length, `${name}, row ${row}: ${one[row]} in the command, ${other[row]} in the page`);
};
/** Controller, seed and trace hash of each run: of the page, and of one of its commands. */
const hashes = () => evaluate(`[...lab.runs.byName].flatMap(([name, runs]) => [...runs.values()].sort((a, b) => a.seed - b.seed)
  .map((run) => \`\${name} \${run.seed} \${run.hash}\\n\`)).join("")`);
const rows = (command) => {
  const env = { ...process.env, PATH: `${dirname(carob)}:${process.env.PATH}` };
  const text = execFileSync("sh", ["-c", `${command} --each --json`], { cwd: folder, env, encoding: "utf8", maxBuffer: 1 << 28 });
  const parsed = text.trim().split("\n").map((line) => JSON.parse(line));
  return parsed.map((row) => `${row.algorithm} ${row.seed} ${row.trace_hash}\n`).join("");
};
const giveFile = (file) => evaluate(`(async () => { const files = new DataTransfer(); files.items.add(await (${file}));
  const input = document.getElementById("drawn-file"); input.files = files.files;
  input.dispatchEvent(new Event("input", { bubbles: true })); })()`);
const setValue = (id, value) => evaluate(`(() => { const one = document.getElementById("${id}"); one.value = ${JSON.stringify(value)};
  for (const kind of ["input", "change"]) one.dispatchEvent(new Event(kind, { bubbles: true })); })()`);

const requests = new Set();
page.on("request", (request) => requests.add(request.url()));
page.on("pageerror", (error) => defects.push(`exception: ${error}`));
// Chromium asks for an icon, which the page does not have.
page.on("console", (message) => ["error", "warning"].includes(message.type()) && !message.location().url.endsWith("/favicon.ico") && defects.push(`console: ${message.text()}`));

const checks = {
  async numbers() {
    await open("seeds=10");
    for (const scenario of SCENARIOS) {
      const { text } = await evaluate(`lab.call({ call: "rows", source: { scenario: "${scenario}" }, seeds: 2 })`);
      same(scenario, run("lab", "run", scenario, "--each", "--json", "--seeds", "2"), text);
    }
  },
  async copies() {
    for (const state of [OWN_LINK, MESH, DRAWN, TCP]) {
      await open(state);
      same(`copied command of ${state}`, rows(await evaluate("lab.checked.command")), await hashes());
      const watched = rows(await evaluate("lab.watched_command"));
      expect(watched.trim().split("\n").length === 1 && (await hashes()).includes(watched), `the watched run is ${watched}`);
    }
  },
  async recommendation() {
    await open("traffic=command&cc=default&seeds=1&view=advice");
    await evaluate("document.getElementById('advise').click()");
    await until("Boolean(lab.answer)");
    const shown = await evaluate("lab.answer");
    const command = await evaluate("lab.checked.compare");
    const native = JSON.parse(run(...command.split(/\s+/).slice(1), "--json"));
    const key = ({ measured, cost }) => ({ measured, cost });
    native.ranked.forEach((one, rank) => expect(isDeepStrictEqual(key(one), key(shown.ranked[rank]))
      && one.configuration.controller === shown.ranked[rank].controller, `${command}: rank ${rank} differs`));
    expect(native.recommended === shown.recommended && native.runs === shown.runs, `${command}: another recommendation`);
    const one = await evaluate("lab.recommend(1).then((answer) => JSON.stringify(answer) === JSON.stringify(lab.answer))");
    expect(one, `${command}: one worker recommends another configuration`);
    await evaluate("lab.answer = undefined, document.getElementById('advise').click()");
    await until("document.getElementById('advice-progress').value > 2000");
    await evaluate("document.getElementById('advise-stop').click()");
    await until("Boolean(lab.answer)");
    const soFar = await evaluate("document.getElementById('advice').textContent");
    expect(soFar.startsWith("Interrupted; so far: ") && soFar.includes("This may change: "), `a stop shows ${soFar}`);
  },
  async views() {
    for (const state of [OWN_LINK, MESH, DRAWN, TCP]) {
      for (const width of [375, 1440]) {
        for (const colorScheme of ["light", "dark"]) {
          await page.setViewportSize({ width, height: 900 });
          await page.emulateMedia({ colorScheme });
          await open(state);
          await tabs(`at ${width} px, ${colorScheme}`);
        }
      }
    }
    await page.emulateMedia({ colorScheme: "light" });
  },
  async address() {
    for (const state of [OWN_LINK, MESH, DRAWN, "traffic=observe&clients=8&seeds=3&view=copy"]) {
      await open(state);
      const isSame = await evaluate(`[...new URLSearchParams("${state}")].every(([key, value]) => String(lab.state[key]) === value
        && (new URLSearchParams(location.hash.slice(1)).get(key) ?? value) === value)`);
      expect(isSame, `${state} has become another address`);
    }
    await open("seeds=2");
    for (const [id, value] of [["loss", "7 %"], ["clients", "4"], ["traffic", "telemetry"]]) await setValue(id, value);
    await until("lab.finished.includes('telemetry')");
    const hash = await evaluate("location.hash");
    expect(hash === "#loss=7+%25&traffic=telemetry&clients=4&seeds=2", `the form made ${hash}`);
  },
  async presets() {
    await open("seeds=1&cc=default");
    const names = await evaluate("[...document.querySelectorAll('#preset option')].map((one) => one.value)");
    expect(names.length > 6, `experiments: ${names}`);
    for (const name of names) {
      await evaluate("void (globalThis.before = lab.checked)");
      await setValue("preset", name);
      await until("lab.checked !== before && lab.runs?.count > 0");
      const shown = await evaluate(`[lab.state.preset, document.getElementById("preset-about").textContent.length > 20,
        document.getElementById("wrong").hidden]`);
      expect(isDeepStrictEqual(shown, [name, true, true]), `experiment ${name}: ${shown}`);
    }
    await open("preset=mesh&cc=default&seeds=1");
    expect(await evaluate("lab.state.scenario") === "cocoaplus/constant", "preset=mesh opens another scenario");
  },
  async keyboard() {
    await open("seeds=2&cc=default&clients=3");
    await page.focus("#tab-ranking");
    await page.keyboard.press("ArrowRight");
    await until("document.activeElement.id === 'tab-watch' && Boolean(lab.player.run) && lab.player.playing");
    await page.focus("#scrub");
    await page.keyboard.press(" ");
    expect(!await evaluate("lab.player.playing"), "space does not pause");
    const times = [await evaluate("lab.player.time")];
    for (const key of [".", ","]) {
      await page.keyboard.press(key);
      times.push(await evaluate("lab.player.time"));
    }
    expect(times[0] < times[1] && times[1] > times[2], `full stop and comma move through ${times}`);
    for (const [typed, shown] of [["1", 1], ["9", 2], ["", 0]]) {
      await setValue("client", typed);
      const found = await evaluate("[Number(document.getElementById('client').value), lab.state.client ?? 0]");
      expect(isDeepStrictEqual(found, [shown, shown]), `of 3 clients, '${typed}' shows ${found}`);
    }
  },
  async drawing() {
    await open("seeds=2&cc=default&size=2000&link=nb-iot");
    await evaluate("document.getElementById('drawn').open = true");
    await page.focus("#pad");
    for (const key of ["ArrowRight", "ArrowDown", "PageDown"]) await page.keyboard.press(key);
    const drawn = await evaluate("[lab.state.drawn_down, lab.state.drawn_up].join()");
    expect(drawn === "60_30-22.8-30x30__,60_30-22.8-30x30__", `keys draw ${drawn}`);
    await until("lab.finished.includes('1875,22.8\\\\n')");
    await page.locator("#pad").scrollIntoViewIfNeeded();
    const { x, y, width, height } = await page.locator("#pad").boundingBox();
    await page.mouse.move(x + 0.3 * width, y + 0.2 * height);
    await page.mouse.down();
    await page.mouse.move(x + 0.6 * width, y + 0.7 * height);
    await page.mouse.up();
    expect(await evaluate("new Set(lab.state.drawn_down.split('_')[1].split('-')).size") > 8, "a stroke draws too few values");
    await setValue("drawn-way", "up");
    const text = "time_ms,rate_kbit_s\n0,20\n8000,40\n";
    await giveFile(`new File([${JSON.stringify(text)}], "my trace.csv")`);
    await until("lab.finished.includes('my_trace.csv')");
    expect(/^file_my_trace\.csv_[0-9a-f]{16}$/.test(await evaluate("lab.state.drawn_up")), "no file in the address");
    writeFileSync(`${folder}/my_trace.csv`, text);
    same("copied command with a file", rows(await evaluate("lab.checked.command")), await hashes());
    // An address does not hold the file; an error names it.
    const state = await evaluate("location.hash");
    await page.goto("about:blank");
    await page.goto(`${address}${state}`);
    await until("!document.getElementById('wrong').hidden && document.getElementById('wrong').textContent.includes('my_trace.csv')");
    await giveFile("new File(['time_ms,speed\\n0,1\\n'], 'bad.csv')");
    await until("document.getElementById('drawn-note').textContent.startsWith('bad.csv: line 1: column 2 is unknown')");
  },
  async threads() {
    for (const [name, state] of Object.entries(TRACED)) {
      // The best of three: other programs slow caches down, but a task that blocks does so each time.
      let found;
      for (let trial = 0; trial < 3 && (found = await traced(name, state)).length; trial++);
      defects.push(...found);
    }
  },
  async single() {
    await open(OWN_LINK);
    const served = await hashes();
    await open(OWN_LINK, `file://${single}`);
    same("single file", served, await hashes());
    await tabs("of the single file");
    await until("Boolean(lab.player.run) && location.protocol === 'file:'");
  },
  async file() {
    const outside = [...requests].filter((url) => ![address, `file://${single}`, "data:", "blob:"].some((own) => url.startsWith(own)));
    expect(requests.size && !outside.length, `loaded from outside: ${outside}`);
    const known = defects.length;
    // Browsers load no modules from `file:`; the page names the remedy.
    await page.goto(`file://${site}/index.html`);
    await until(`getComputedStyle(document.getElementById("not-started")).opacity === "1"
      && document.getElementById("not-started").textContent.includes("python3 -m http.server")`);
    defects.length = known;
  },
};

async function tabs(where) {
  for (const tab of TABS) {
    await evaluate(`document.getElementById("tab-${tab}").click()`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    defects.push(...(await page.evaluate(probe, "body *")).map((defect) => `${tab} ${where}: ${defect}`));
  }
}

/** Traces a state, plays its run or opens a long file; returns defects of the main thread. */
async function traced(name, state) {
  const events = [];
  const collect = ({ value }) => events.push(...value);
  await page.goto("about:blank");
  devtools.on("Tracing.dataCollected", collect);
  const traceConfig = { includedCategories: ["toplevel", "devtools.timeline"] };
  await devtools.send("Tracing.start", { transferMode: "ReportEvents", traceConfig });
  await open(state);
  if (state.includes("view=watch")) await until("(lab.player?.frames.length ?? 0) > 240");
  if (name === "trace") {
    await giveFile(`(async () => { const parts = ["time_ms,rate_kbit_s\\n"];
      for (let k = 0; k < 500; k++) {
        parts.push(Array.from({ length: 1000 }, (_, j) => \`\${1000 * k + j},\${10 + (j * 7 + k) % 50}\\n\`).join(""));
        await new Promise((resolve) => setTimeout(resolve)); }
      return new File(parts, "long.csv"); })()`);
    await until("lab.finished.includes('long.csv')");
    expect(await evaluate("location.href.length") < 500, "the address holds the file");
  }
  const ended = new Promise((resolve) => devtools.once("Tracing.tracingComplete", resolve));
  await devtools.send("Tracing.end");
  await ended;
  devtools.off("Tracing.dataCollected", collect);
  const main = events.filter((event) => event.name === "thread_name" && event.args.name === "CrRendererMain");
  const work = (of) => events.filter((event) => event.name === of && main.some(({ pid, tid }) => pid === event.pid && tid === event.tid))
    .map((event) => event.tdur ?? 0).sort((a, b) => a - b);
  const [tasks, drawn] = [work("ThreadControllerImpl::RunTask"), work("FireAnimationFrame")];
  const [longest, late] = [tasks.at(-1), drawn[Math.floor(drawn.length * 0.95)] ?? 0];
  console.log(`${name}: ${tasks.length} tasks, the longest of ${longest} us; drawing of ${drawn.length} frames, p95 ${late} us`);
  const isDrawn = state.includes("view=watch");
  return [
    ...(longest <= TASK_MAX ? [] : [`${name}: a task of ${longest} us`]),
    ...(!isDrawn || (drawn.length && late <= FRAME_MAX) ? [] : [`${name}: drawing takes ${late} us`]),
  ];
}

try {
  for (const [name, check] of Object.entries(checks)) {
    const began = Date.now();
    await check();
    console.log(`${name}: ${(Date.now() - began) / 1000} s`);
  }
} finally {
  server.kill();
  await browser.close();
}
finish(defects);
