// The page: its form, its tabs, and the runs of its question.

import { recommend } from "./advice.js";
import { compiled } from "./assets.js";
import { attach, fileOf, Lab, Pool } from "./pool.js";
import { Runs, show } from "./ranking.js";
import { DEFAULTS, NUMBERS, UNSET, decode, encode, parse, quantity, source, united } from "./state.js";
import { key } from "./chart.js";
import { Pad } from "./draw.js";
import { Player } from "./watch.js";

const by = (id) => document.getElementById(id);
/** Delay between the last change and a new run. */
const SETTLE_MS = 350;
/** Interval of redrawing a growing ranking. */
const DRAW_MS = 250;
/** The preset that is no experiment of a study. */
const OWN = {
  id: "own", name: "Your own link",
  about: "Choose the link nearest to yours and change its numbers. Runs are paired: each seed has the same losses for all controllers.",
  state: {},
};

let state = { ...DEFAULTS };
let about;
let runs;
let pool;
let desk;
let checked;
let player;
let pad;
/** Number of the current question. A new one, or a stop, ends its runs. */
let asked = 0;

/** Puts the state into the address without a new entry in the history. */
function remember() {
  const text = encode(state, about.presets);
  summarize();
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}

/** An option of a select element. */
function option(value, text = value) {
  return new Option(text, value);
}

function buildLists() {
  about.presets.unshift(OWN);
  by("preset").append(...about.presets.map((one) => option(one.id, one.name)), option("scenario", "A built-in scenario"));
  by("link").append(...about.links.map((one) => option(one.name)), option("own", "other numbers"));
  by("traffic").append(...about.traffic.map((one) => option(one.name, `${one.name}: ${one.about}`)));
  by("scenario").append(...about.scenarios.map((one) => option(one.name)));
  for (const one of about.controllers) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.name = "cc";
    box.value = one.name;
    label.title = one.about;
    label.append(box, one.name);
    by(one.compared ? "controllers" : "variants").append(label);
  }
  for (const name of ["tcp-newreno", "tcp-cubic", "tcp-bbr1"]) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.name = "cc";
    box.value = name;
    label.append(box, name);
    by("variants").append(label);
  }
  for (const number of NUMBERS) by("numbers").append(numberRow(number));
  by("version").textContent = `Carob ${about.version}. Everything runs in this page; nothing is sent anywhere.`;
}

/** A text field with a slider. */
function numberRow({ key: name, label, low, high, zero, units }) {
  const row = document.createElement("div");
  row.className = "number";
  const text = document.createElement("input");
  text.id = name;
  text.autocomplete = "off";
  text.spellcheck = false;
  const caption = document.createElement("label");
  caption.htmlFor = name;
  caption.textContent = label;
  const slider = document.createElement("input");
  slider.type = "range";
  slider.min = 0;
  slider.max = 1000;
  slider.setAttribute("aria-label", `${label}, on a logarithmic scale`);
  const place = () => {
    const value = parse(united(text.value, text.placeholder) || text.placeholder, units);
    slider.value = value > low ? 1000 * Math.log(value / low) / Math.log(high / low) : 0;
    slider.setAttribute("aria-valuetext", text.value || text.placeholder);
  };
  slider.addEventListener("input", () => {
    const at = Number(slider.value);
    text.value = at === 0 && zero ? zero : quantity(low * (high / low) ** (at / 1000), units);
    slider.setAttribute("aria-valuetext", text.value);
    text.dispatchEvent(new Event("input", { bubbles: true }));
  });
  text.addEventListener("input", place);
  text.addEventListener("change", () => { text.value = united(text.value, text.placeholder); });
  text.place = place;
  row.append(caption, text, slider);
  return row;
}

/** Writes the state into the form. */
function fill() {
  by("preset").value = state.preset;
  if (by("preset").selectedIndex < 0) by("preset").value = "own";
  const preset = about.presets.find((one) => one.id === state.preset);
  const scenario = about.scenarios.find((one) => one.name === state.scenario);
  by("preset-about").textContent = preset?.about ?? "";
  if (state.preset === "scenario") by("preset-about").textContent = scenario?.about ?? "";
  by("link-form").hidden = state.scenario !== "";
  by("scenario-form").hidden = state.scenario === "";
  by("link").value = state.link;
  by("scenario").value = state.scenario;
  by("set").value = state.set;
  by("traffic").value = state.traffic;
  for (const id of ["clients", "nstart", "seeds", "seed"]) by(id).value = state[id];
  by("size").value = state.size || "";
  by("size").placeholder = "102400";
  by("block").value = state.block;
  for (const row of document.querySelectorAll(".only-blocks")) row.hidden = state.traffic !== "firmware";
  const link = about.links.find((one) => one.name === state.link);
  by("link-source").textContent = link ? `Source: ${link.source}` : "";
  for (const id of ["numbers", "drawn"]) by(id).hidden = link?.mesh ?? false;
  for (const { key: name } of NUMBERS) {
    by(name).value = state[name];
    by(name).placeholder = link?.[name] ?? UNSET[name];
    by(name).place();
  }
  pad.load(state);
  by("drawn").open ||= Boolean(state.drawn_down || state.drawn_up);
  const chosen = new Set(state.cc.split(","));
  for (const box of document.querySelectorAll("input[name=cc]")) box.checked = chosen.has(box.value);
  const variants = by("variants").closest("details");
  variants.open ||= variants.querySelector("input:checked") !== null;
  selectTab(state.view, false);
}

/** The state in the headings of closed parts of the form. */
function summarize() {
  const link = about.links.find((one) => one.name === state.link);
  const value = (name) => state[name] || link?.[name] || UNSET[name];
  const numbers = link?.mesh ? [] : [`${value("down")} down`, `${value("up")} up`, value("rtt"), `${value("loss")} loss`];
  by("link-summary").textContent = [state.link === "own" ? "" : state.link, ...numbers].filter(Boolean).join(", ");
  by("traffic-summary").textContent = `${state.traffic}, ${state.clients} ${state.clients === 1 ? "device" : "devices"}`;
  by("controllers-summary").textContent = state.cc.split(",").filter(Boolean).join(", ");
}

/** Reads the form into the state. */
function read(target) {
  const text = (id) => by(id).value.trim();
  const number = (id) => Math.max(0, Math.floor(Number(text(id)) || 0));
  if (target.id === "preset") {
    const preset = about.presets.find((one) => one.id === target.value);
    const kept = { view: state.view };
    state = { ...DEFAULTS, ...kept, ...(preset?.state ?? { scenario: "carob/default", cc: "" }), preset: target.value };
    fill();
    return;
  }
  if (target.id === "link") {
    for (const { key: name } of NUMBERS) state[name] = "";
    state.link = target.value;
    if (about.links.find((one) => one.name === state.link)?.mesh) state.drawn_down = state.drawn_up = "";
    fill();
    return;
  }
  if (target.id === "scenario") {
    state = { ...state, scenario: target.value, cell: "", set: "", cc: "", metric: "", preset: "scenario" };
    fill();
    return;
  }
  if (target.name === "cc") {
    const chosen = state.cc.split(",").filter(Boolean).filter((name) => name !== target.value);
    if (target.checked) chosen.push(target.value);
    // The first is the baseline.
    chosen.sort((a, b) => (b === "default") - (a === "default"));
    state.cc = chosen.join(",");
  }
  for (const { key: name } of NUMBERS) state[name] = united(text(name), by(name).placeholder);
  state.traffic = text("traffic");
  state.block = text("block");
  state.set = by("set").value.trim();
  state.size = number("size");
  for (const id of ["clients", "nstart", "seeds"]) state[id] = Math.max(1, number(id));
  if (target.id === "cell") state.cell = text("cell");
  if (target.id === "traffic") { state.metric = ""; fill(); }
}

function fail(error) {
  by("wrong").hidden = false;
  by("wrong").textContent = error.remedy ? `${error.message}\n${error.remedy}` : error.message;
}

/** Checks the question and runs it. */
async function ask() {
  remember();
  const question = source(state);
  const mine = ++asked;
  let result;
  try {
    if (!question.algorithms.length && question.link) throw new Error("no controller is chosen");
    const missing = question.link ? pad.missing() : [];
    if (missing.length) throw new Error(`the address names ${missing.join(" and ")}, which it does not hold: open it under Changes over time`);
    result = await desk.call({ call: "check", source: question, seeds: state.seeds });
  } catch (error) {
    if (asked === mine) fail(error);
    return;
  }
  if (asked !== mine) return;
  by("wrong").hidden = true;
  // Default: the scenario's controllers and its first cell.
  if (state.scenario && (!state.cc || !state.cell)) {
    state.cc ||= result.algorithms.join(",");
    state.cell ||= result.cells[0];
    fill();
    return ask();
  }
  checked = result;
  by("cell").replaceChildren(...result.cells.map((name) => option(name)));
  if (state.cell) by("cell").value = state.cell;
  by("simulated").textContent = question.link ? `Simulated: ${result.about}` : "";
  by("more-advice").hidden = !question.link;
  showFacts(result.network);
  player.offer(question, result, state);
  showCopies(result);
  await collect(question, result, mine);
}

async function collect(question, result, mine) {
  const algorithms = question.algorithms.length ? question.algorithms : result.algorithms;
  const { seeds } = state;
  runs = new Runs(result.first_seed, algorithms);
  const mineRuns = runs;
  by("stop").disabled = false;
  const of = seeds * result.jobs_per_seed;
  by("progress").max = of;
  const began = performance.now();
  const status = (done, end = "") => {
    by("progress").value = done;
    by("count").textContent = `${done} of ${of} runs${end}`;
    by("to-results").textContent = `Results: ${done} of ${of} runs`;
    // Screen readers announce the start and the end only.
    if (end || done === 0) by("status").textContent = by("count").textContent;
  };
  status(0);
  const samples = ["fct_s", "response_time_s", "setup_s", "goodput_bps", "retransmissions", "spurious", "etx", "rank", "hops", "node_rto_s"];
  const request = (from, count) => ({ count, call: { call: "runs", source: question, first: result.first_seed + from, count, samples } });
  try {
    const busy = await pool.spread(seeds, request, (some) => {
      runs.add(some);
      status(runs.count);
      draw();
    }, () => asked !== mine);
    if (runs !== mineRuns) return;
    const wall = (performance.now() - began) / 1000;
    if (busy !== undefined) status(runs.count, ` in ${wall.toFixed(1)} s on ${pool.size} ${pool.size === 1 ? "worker" : "workers"}`);
    lab.busy_ms = busy;
  } catch (error) {
    fail(error);
  } finally {
    if (runs === mineRuns) by("stop").disabled = true;
  }
  draw(true);
  lab.finished = JSON.stringify([question, seeds]);
}

let drawing = false;
let waiting = 0;

/** Draws the ranking, at most every DRAW_MS. */
function draw(now = false) {
  if (waiting && !now) return;
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    if (drawing) { waiting = 0; return draw(); }
    drawing = true;
    waiting = 0;
    try {
      await drawRanking();
    } catch (error) {
      fail(error);
    } finally {
      drawing = false;
      lab.drawn++;
    }
  }, now ? 0 : DRAW_MS);
}

/** The name of a metric in words: the start of its description. */
function title({ about: text }) {
  const words = text.split(/[:;.,(]/)[0];
  return words.length > 48 ? `${words.slice(0, 47).replace(/ [^ ]*$/, "")} …` : words;
}

async function drawRanking() {
  if (!runs?.count || by("view-ranking").hidden) return;
  const names = about.metrics.filter((one) => runs.metrics.has(one.name));
  const select = by("metric");
  if (select.length !== names.length) select.replaceChildren(...names.map((one) => option(one.name, `${title(one)} (${one.name})`)));
  const chosen = runs.metrics.has(state.metric) ? state.metric : runs.preferred(!state.scenario && state.traffic !== "firmware");
  select.value = chosen;
  const metric = names.find((one) => one.name === chosen);
  if (!metric) return;
  by("metric-about").textContent = metric.about;
  await show(runs, metric, runs.algorithms[0], (call) => desk.call(call), {
    table: by("ranking"), verdict: by("verdict"), spread: by("spread"), caption: by("spread-caption"), differences: by("differences"),
  });
}

function showFacts(facts) {
  const items = facts.filter(([, value]) => value).flatMap(([name, value]) => {
    const [term, detail] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    detail.textContent = value;
    return [term, detail];
  });
  by("facts").replaceChildren(...items);
}

/** The command for the displayed run. */
function watchedCommand(result) {
  const { algorithm, seed } = player.wanted;
  const words = result.command.replace(/ --algorithm [^\n]*(?= --seeds \d+)/, "");
  // Scenario files of a link precede the command.
  const last = words.lastIndexOf(" --seeds ");
  return words.slice(0, last) + words.slice(last).replace(/ --seeds \d+/, ` --algorithm ${algorithm} --seed ${seed}`);
}

/** The tab with commands, file and Python. */
function showCopies(result) {
  const parts = [
    ["Command", "The same runs on the command line", result.command],
    ["Watched run", "The run of the tab Watch a run alone", watchedCommand(result)],
    ["Recommendation", "The search for the best configuration", result.compare],
    ["Scenario file", `For carob lab run, carob lab sweep and Python`, result.text],
    ["Python", "The same runs in Python", result.python],
    ["Address", "This page in this state", location.href],
  ];
  const files = result.files.map((name) => {
    const line = document.createElement("p");
    const link = document.createElement("a");
    link.download = name;
    link.href = URL.createObjectURL(fileOf(name));
    link.textContent = name;
    line.append("The command, the scenario file and Python read ", link, " from the working folder.");
    return line;
  });
  for (const old of by("copies").querySelectorAll("a")) URL.revokeObjectURL(old.href);
  by("copies").replaceChildren(...files, ...parts.filter(([, , text]) => text).map(([name, about, text]) => {
    const block = document.createElement("div");
    block.className = "copy";
    const head = document.createElement("div");
    const title = document.createElement("h2");
    title.textContent = name;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy: ${name}`);
    button.addEventListener("click", () => copy(text, button));
    head.append(title, button);
    const line = document.createElement("p");
    line.className = "about";
    line.textContent = about;
    const code = document.createElement("pre");
    code.tabIndex = 0;
    code.textContent = text;
    block.append(head, line, code);
    return block;
  }));
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select the text";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

/** The link and the traffic of a recommendation, which chooses the settings itself. */
function adviceLink() {
  const { block, nstart, ...link } = source(state).link;
  return link;
}

/** Number of the current recommendation. A new one ends it; a stop ends it with the result so far. */
let adviser = 0;
let isStopped = false;
async function advise() {
  const question = source(state);
  if (!question.link) {
    by("advice").textContent = "A recommendation is for a link with traffic: choose the experiment Your own link.";
    return;
  }
  const mine = ++adviser;
  isStopped = false;
  const isOther = () => adviser !== mine;
  const isOver = () => isStopped || isOther();
  by("advice-state").hidden = false;
  by("advise-stop").disabled = false;
  by("advice").textContent = "";
  const began = performance.now();
  try {
    const answer = await recommend(adviceLink(), pool, (done, planned) => {
      if (isOver()) return;
      by("advice-progress").max = planned;
      by("advice-progress").value = done;
      by("advice-count").textContent = `${done} of the ${planned} runs planned so far`;
    }, isOver);
    if (isOther()) return;
    if (!answer) {
      by("advice").textContent = "Stopped before the first controllers had run.";
      return;
    }
    showAdvice(answer);
    by("advice").append(note(`${answer.runs} runs in ${((performance.now() - began) / 1000).toFixed(1)} s on ${pool.size} ${pool.size === 1 ? "worker" : "workers"}.`));
    lab.answer = answer;
  } catch (error) {
    if (!isOther()) by("advice").textContent = `${error.message}: ${error.remedy ?? ""}`;
  } finally {
    if (!isOther()) {
      by("advice-state").hidden = true;
      by("advise-stop").disabled = true;
    }
  }
}

function note(text) {
  const line = document.createElement("p");
  line.className = "about";
  line.textContent = text;
  return line;
}

function showAdvice(answer) {
  const paragraphs = answer.words.map((words) => {
    const paragraph = document.createElement("p");
    paragraph.textContent = words;
    return paragraph;
  });
  const about = note(`Link: ${answer.link}. Traffic: ${answer.traffic}.`);
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const name of ["controller", "cost", "interval", "mean s", "slowest 5 % s", "failed"]) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    head.append(cell);
  }
  const body = table.createTBody();
  const sorted = answer.ranked.map((one, place) => ({ ...one, place })).sort((a, b) => a.cost.value - b.cost.value);
  for (const one of sorted) {
    const row = body.insertRow();
    row.className = one.place === answer.recommended ? "best" : "";
    const { time_s, tail_s, undelivered } = one.measured;
    const settings = document.createElement("span");
    settings.className = "settings";
    settings.textContent = one.settings === "-" ? "" : one.settings + (one.needs ? " +" : "");
    row.insertCell().append(one.controller, settings);
    for (const text of [one.cost.value.toFixed(2), `${one.cost.low.toFixed(2)} to ${one.cost.high.toFixed(2)}`,
      time_s.toPrecision(3), tail_s.toPrecision(3), `${(undelivered * 100).toFixed(1)} %`]) row.insertCell().textContent = text;
  }
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  scroll.append(table);
  const cost = note("Cost: time, slowest 5 %, failures, spurious retransmissions, bytes and harm to a neighbour, each relative to default "
    + "CoAP, in a weighted mean. Below 1 is better than default CoAP. Slowest 5 %: the mean of them. + needs Q-Block or CoAP over TCP at the peer.");
  by("advice").replaceChildren(...paragraphs, scroll, cost, about);
}

/** Shows a tab; arrow keys move between tabs as in the ARIA authoring practices. */
function selectTab(view, moved = true) {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  if (!tabs.some((tab) => tab.id === `tab-${view}`)) view = "ranking";
  for (const tab of tabs) {
    const isChosen = tab.id === `tab-${view}`;
    tab.setAttribute("aria-selected", isChosen);
    tab.tabIndex = isChosen ? 0 : -1;
    by(tab.getAttribute("aria-controls")).hidden = !isChosen;
    if (isChosen && moved) tab.focus();
  }
  state.view = view;
  player.shown(view === "watch");
  if (view === "copy" && checked) showCopies(checked);
  draw();
}

function wireTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  tabs.forEach((tab, place) => {
    tab.addEventListener("click", () => { selectTab(tab.id.slice(4)); remember(); });
    tab.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: 1, ArrowLeft: -1 };
      const next = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1
        : event.key in moves ? (place + moves[event.key] + tabs.length) % tabs.length : undefined;
      if (next === undefined) return;
      event.preventDefault();
      selectTab(tabs[next].id.slice(4));
      remember();
    });
  });
}

/** The constant value of a drawn quantity of a direction, in its unit. */
function usual(what, way) {
  const [id, factor] = { rate: [way === "up" ? "up" : "down", 1e-3], delay: ["rtt", 0.5e-3], loss: ["loss", 1] }[what];
  const { units } = NUMBERS.find((one) => one.key === id);
  return (parse(state[id] || by(id).placeholder, units) ?? 0) * factor;
}

let timer;
/** Runs after the last change of the form. */
function soon() {
  remember();
  clearTimeout(timer);
  timer = setTimeout(ask, SETTLE_MS);
}

function wire() {
  const change = ({ target }) => {
    if (!target.id && target.name !== "cc") return;
    read(target);
    if (NUMBERS.some((one) => one.key === target.id)) pad.show();
    soon();
  };
  by("question").addEventListener("input", change);
  by("question").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); ask(); });
  by("stop").addEventListener("click", () => { asked++; by("stop").disabled = true; });
  by("metric").addEventListener("change", () => { state.metric = by("metric").value; remember(); draw(true); });
  by("advise").addEventListener("click", advise);
  by("to-advice").addEventListener("click", () => { selectTab("advice"); remember(); advise(); });
  // The address after # is the state: links within the page would replace it.
  const toResults = () => { by("results").scrollIntoView(); by("results").focus({ preventScroll: true }); };
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); toResults(); });
  by("to-results").addEventListener("click", toResults);
  new IntersectionObserver(([seen]) => { by("to-results").hidden = seen.isIntersecting || seen.boundingClientRect.top < 0; }).observe(by("results"));
  by("advise-stop").addEventListener("click", () => { isStopped = true; });
  addEventListener("hashchange", () => { state = decode(location.hash.slice(1), about.presets); fill(); ask(); });
  let resized;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => { draw(true); player.resize(); }, 150); });
  wireTabs();
}

/** For tests and debugging: calls of the lab, and the state of the page. */
const lab = { finished: "", drawn: 0, busy_ms: undefined, answer: undefined };
globalThis.lab = lab;

async function start() {
  await compiled;
  desk = new Lab();
  about = await desk.call({ call: "about" });
  pool = new Pool();
  state = decode(location.hash.slice(1), about.presets);
  lab.call = (request) => desk.call(request);
  lab.recommend = (workers) => recommend(adviceLink(), pool, () => {}, () => false, workers);
  const parts = { state: () => state, checked: () => checked, watched_command: () => watchedCommand(checked), runs: () => runs, player: () => player };
  for (const [name, get] of Object.entries(parts)) Object.defineProperty(lab, name, { get });
  player = new Player(by, desk, (changes) => { Object.assign(state, changes); remember(); });
  by("not-started").remove();
  document.querySelector("main").hidden = false;
  buildLists();
  pad = new Pad(by, {
    usual,
    attach: (name, file, steps) => attach(name, file, steps, desk),
    changed: (texts) => { Object.assign(state, texts); soon(); },
  });
  // On a phone the results are below the form: its parts open on demand.
  const narrow = matchMedia("(max-width: 860px)");
  const open = () => {
    for (const group of document.querySelectorAll(".group:not(#drawn)")) group.open = !narrow.matches;
  };
  narrow.addEventListener("change", open);
  open();
  wire();
  fill();
  await ask();
}

start().catch((error) => {
  const notice = by("not-started");
  if (notice) notice.textContent = `The lab cannot start: ${error.message}. It needs WebAssembly and Web Workers.`;
});
