//! The page in Chromium: numbers, views, address, keyboard, time on the main thread.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{chromium::Browser, rows::first_difference, tasks};
use crate::{process, workspace::Workspace};

/// Scenarios whose rows are compared; those of the Python package's test.
const SCENARIOS: [&str; 5] = [
    "carob/default",
    "thesis/exchange-udp",
    "thesis/exchange-tcp",
    "retrycount/rto-scatter",
    "nonobserve/gprs",
];
const SEEDS: u32 = 2;
const WIDTHS: [u32; 2] = [375, 1440];
const TABS: [&str; 4] = ["ranking", "watch", "advice", "copy"];
/// A link of one's own in the address, with few runs.
const OWN_LINK: &str =
    "link=gprs&loss=5+%25&rtt=900+ms&clients=3&size=20000&cc=default%2Ccarob&seeds=12";
/// A wireless network in the address.
const MESH: &str = "preset=mesh&scenario=cocoaplus%2Fconstant&cell=constant-chain-lossy-4kbit&set=workload.duration%3D1+min&cc=default%2Ccocoa-plus&seeds=2";
/// A link that is drawn over time, in the address.
const DRAWN: &str = "drawn_down=60_30x16-5x16_300x8-900x24_&drawn_up=60_30x16-5x16_300x8-900x24_&size=4000&cc=default%2Ccarob&seeds=4";
/// A download over TCP beside one over UDP.
const TCP: &str = "link=gprs&loss=4+%25&size=20000&cc=tcp-newreno%2Cdefault&seeds=2";
/// The browser's time over that of the command up to which the page is as fast as it should be.
const TIME_RATIO: f64 = 2.5;

/// Lines with the controller, seed and trace hash of each run of the page.
const HASHES: &str = "[...lab.runs.byName].flatMap(([name, runs]) => [...runs.values()].sort((a, b) => a.seed - b.seed)\
    .map((run) => `${name} ${run.seed} ${run.hash}\\n`)).join('')";

/// Script that measures the layout and the colours of a tab.
const PROBE: &str = include_str!("probe.js");

/// The page's server, which ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Browser, server and files of the checks.
pub(super) struct Bench {
    pub(super) browser: Browser,
    pub(super) address: String,
    /// Address of the single file.
    single: String,
    carob: PathBuf,
    folder: PathBuf,
    /// Defects so far.
    pub(super) wrong: Vec<String>,
}

/// Opens the page and returns a line for each defect.
pub(super) fn run(workspace: &Workspace, site: &Path) -> Result<Vec<String>> {
    let carob = workspace.target()?.join("release/carob");
    let folder = workspace.target()?.join("web-checks");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let (_server, address) = serve(&carob, site)?;
    let mut bench = Bench {
        browser: Browser::start(&folder.join("profile"))?,
        address,
        single: format!("file://{}", site.with_file_name(super::SINGLE).display()),
        carob,
        folder,
        wrong: Vec::new(),
    };
    for (name, check) in [
        ("numbers", numbers as fn(&mut Bench) -> Result<()>),
        ("copies", copies),
        ("recommendation", recommendation),
        ("time", time),
        ("views", views),
        ("address", address_of_state),
        ("presets", presets),
        ("keyboard", keyboard),
        ("drawing", drawing),
        ("main thread", tasks::check),
        ("single file", single_file),
        ("messages", messages),
    ] {
        let began = Instant::now();
        check(&mut bench).with_context(|| format!("the check of {name}"))?;
        println!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    }
    from_file(&mut bench, site)?;
    Ok(bench.wrong)
}

fn serve(carob: &Path, site: &Path) -> Result<(Server, String)> {
    let mut server = Command::new(carob)
        .args(["lab", "page", "--port", "0"])
        .arg(site)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start carob lab page")?;
    let output = server.stdout.take().context("its output is a pipe")?;
    let server = Server(server);
    let mut address = String::new();
    BufReader::new(output).read_line(&mut address)?;
    Ok((server, address.trim().to_owned()))
}

impl Bench {
    /// Notes a defect unless `holds`.
    pub(super) fn expect(&mut self, holds: bool, defect: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(defect());
        }
    }

    /// Opens the page in a state, and waits until its runs are made.
    pub(super) fn open(&mut self, state: &str) -> Result<()> {
        self.browser.open("about:blank")?;
        self.browser.open(&format!("{}#{state}", self.address))?;
        self.browser.wait("Boolean(globalThis.lab?.finished)")
    }

    /// The result of a call of the lab.
    fn call(&mut self, request: &Value) -> Result<Value> {
        self.browser.evaluate(&format!("lab.call({request})"))
    }

    fn same(&mut self, what: &str, native: &str, page: &str) {
        let line = |text: &str, at: usize| text.lines().nth(at).unwrap_or("nothing").to_owned();
        match first_difference(native, page) {
            None => println!(
                "{what}: {} rows, the same in the page",
                native.lines().count()
            ),
            Some(at) => self.wrong.push(format!(
                "{what}, row {at} differs\ncommand: {}\npage:    {}",
                line(native, at),
                line(page, at)
            )),
        }
    }
}

/// Rows of scenarios are those of the command to the last bit.
fn numbers(bench: &mut Bench) -> Result<()> {
    bench.open("seeds=10")?;
    for name in SCENARIOS {
        let request = json!({ "call": "rows", "source": { "scenario": name }, "seeds": SEEDS });
        let page = bench.call(&request)?;
        let mut native = Command::new(&bench.carob);
        native.args(["lab", "run", name, "--each", "--json", "--seeds"]);
        let native = process::output(native.arg(SEEDS.to_string()))?;
        bench.same(name, &native, page["text"].as_str().unwrap_or_default());
    }
    Ok(())
}

/// The copied commands make the runs of the page.
fn copies(bench: &mut Bench) -> Result<()> {
    for state in [OWN_LINK, MESH, DRAWN, TCP] {
        bench.open(state)?;
        copied(bench, "copied command")?;
        watched(bench)?;
    }
    Ok(())
}

/// The command of the page as it is makes the same runs.
fn copied(bench: &mut Bench, what: &str) -> Result<()> {
    let command = bench.browser.evaluate("lab.checked.command")?;
    let page = bench.browser.evaluate(HASHES)?;
    let native = rows(bench, command.as_str().unwrap_or_default())?;
    bench.same(what, &native, page.as_str().unwrap_or_default());
    Ok(())
}

/// Algorithm, seed and trace hash of each run that a command of the page makes.
fn rows(bench: &Bench, command: &str) -> Result<String> {
    let command = format!("{command} --each --json");
    let directory = bench.carob.parent().context("a folder")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &command])
        .current_dir(&bench.folder)
        .env("PATH", format!("{}:{path}", directory.display()));
    let mut native = String::new();
    for line in process::output(&mut shell)?.lines() {
        let row: Value = serde_json::from_str(line)?;
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        // A String takes every write.
        let _ = writeln!(
            native,
            "{} {} {}",
            text("algorithm"),
            row["seed"],
            text("trace_hash")
        );
    }
    Ok(native)
}

/// The command of the watched run makes that run alone.
fn watched(bench: &mut Bench) -> Result<()> {
    let page = bench.browser.evaluate(HASHES)?;
    let command = bench.browser.evaluate("lab.watched_command")?;
    let native = rows(bench, command.as_str().unwrap_or_default())?;
    let is_one = native.lines().count() == 1;
    let is_of_page = page.as_str().is_some_and(|all| all.contains(&native));
    bench.expect(is_one && is_of_page, || {
        format!("the watched run's command makes:\n{native}")
    });
    Ok(())
}

/// Values that are equal to the last bit; 1 and 1.0 are.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(others)) => {
            let equal = |(key, value)| others.get(key).is_some_and(|other| is_equal(value, other));
            one.len() == others.len() && one.iter().all(equal)
        }
        _ => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => one.to_bits() == other.to_bits(),
            _ => one == other,
        },
    }
}

/// The recommendation is that of the command.
fn recommendation(bench: &mut Bench) -> Result<()> {
    bench.open("traffic=command&cc=default&seeds=1&view=advice")?;
    bench
        .browser
        .evaluate("document.getElementById('advise').click()")?;
    bench.browser.wait("Boolean(lab.answer)")?;
    let page = bench.browser.evaluate("lab.answer")?;
    let command = bench.browser.evaluate("lab.checked.compare")?;
    let command = command.as_str().unwrap_or_default();
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let mut native = Command::new(&bench.carob);
    let native = process::output(native.args(&words).arg("--json"))?;
    let native: Value = serde_json::from_str(&native)?;
    for place in 0..native["ranked"].as_array().map_or(0, Vec::len) {
        let (one, other) = (&native["ranked"][place], &page["ranked"][place]);
        let is_same = one["configuration"]["controller"] == other["controller"]
            && ["measured", "cost"]
                .iter()
                .all(|key| is_equal(&one[key], &other[key]));
        bench.expect(is_same, || {
            format!("{command}, rank {place}: {one} or {other}")
        });
    }
    bench.expect(
        native["recommended"] == page["recommended"] && native["runs"] == page["runs"],
        || format!("{command}: another recommendation in the page"),
    );
    let first = page["words"][0].as_str().unwrap_or_default().to_owned();
    println!("{command}: {} runs: {first}", page["runs"]);
    // The answer does not depend on the number of workers.
    let one = bench.browser.evaluate(
        "(async () => { const times = []; let same = true; for (const workers of [1, undefined]) { \
         const began = performance.now(); const answer = await lab.recommend(workers); \
         times.push(performance.now() - began); same &&= JSON.stringify(answer) === JSON.stringify(lab.answer); } \
         return { same, times }; })()",
    )?;
    bench.expect(one["same"] == true, || {
        format!("{command}: one worker recommends something else")
    });
    let times = [0, 1].map(|place| one["times"][place].as_f64().unwrap_or_default() / 1_000.0);
    println!(
        "recommendation: {:.2} s in one worker, {:.2} s in all: {:.2} times as fast",
        times[0],
        times[1],
        times[0] / times[1]
    );
    Ok(())
}

/// The time of the same runs in a worker and in the command on one thread: printed, not judged, since
/// machines are busy.
fn time(bench: &mut Bench) -> Result<()> {
    let request = json!({
        "call": "rows", "source": { "scenario": "carob/default" }, "seeds": 60,
    });
    let page = bench.browser.evaluate(&format!(
        "(async () => {{ const began = performance.now(); await lab.call({request}); return performance.now() - began; }})()"
    ))?;
    let began = Instant::now();
    let mut native = Command::new(&bench.carob);
    native.args([
        "lab",
        "run",
        "carob/default",
        "--seeds",
        "60",
        "--each",
        "--json",
        "--threads",
        "1",
    ]);
    process::output(&mut native)?;
    let native = began.elapsed().as_secs_f64();
    let page = page.as_f64().unwrap_or_default() / 1_000.0;
    let ratio = page / native;
    let verdict = if ratio <= TIME_RATIO {
        ""
    } else {
        ", more than it should be"
    };
    println!(
        "720 runs: {page:.2} s in a worker, {native:.2} s in the command: {ratio:.2} times{verdict}"
    );
    Ok(())
}

/// Each tab at each width in each colour: nothing wider than the page, no text that stands out too little.
fn views(bench: &mut Bench) -> Result<()> {
    for state in [OWN_LINK, MESH, DRAWN, TCP] {
        for (width, is_dark) in WIDTHS
            .into_iter()
            .flat_map(|width| [(width, false), (width, true)])
        {
            bench.browser.view(width, is_dark)?;
            bench.open(state)?;
            for tab in TABS {
                let found = bench.browser.evaluate(&format!("({PROBE})('{tab}')"))?;
                let place = || {
                    format!(
                        "{tab} at {width} px, {}",
                        if is_dark { "dark" } else { "light" }
                    )
                };
                let beyond = found["overflow"].as_i64().unwrap_or(i64::MAX);
                bench.expect(beyond <= 0, || format!("{}: {beyond} px too wide", place()));
                let faint = found["faint"].clone();
                bench.expect(faint == json!([]), || {
                    format!("{}: contrast of {faint}", place())
                });
                let nameless = found["nameless"].clone();
                bench.expect(nameless == json!([]), || {
                    format!("{}: no name: {nameless}", place())
                });
            }
        }
    }
    bench.browser.view(1440, false)
}

/// The state of the page is in its address: it survives a visit elsewhere, and changes of the form reach it.
fn address_of_state(bench: &mut Bench) -> Result<()> {
    for state in [
        OWN_LINK,
        MESH,
        DRAWN,
        "traffic=observe&clients=8&seeds=3&view=copy",
    ] {
        bench.open(state)?;
        let hash = bench.browser.evaluate("location.hash.slice(1)")?;
        let same = bench.browser.evaluate(&format!(
            "[...new URLSearchParams('{state}')].every(([key, value]) => String(lab.state[key]) === value \
             && new URLSearchParams(location.hash.slice(1)).get(key) === value)"
        ))?;
        bench.expect(same == true, || format!("{state} has become {hash}"));
    }
    bench.open("seeds=2")?;
    bench.browser.evaluate(
        "(() => { const set = (id, value) => { const one = document.getElementById(id); one.value = value; \
         one.dispatchEvent(new Event('input', { bubbles: true })); }; \
         set('loss', '7 %'); set('clients', '4'); set('traffic', 'telemetry'); })()",
    )?;
    bench.browser.wait("lab.finished.includes('telemetry')")?;
    let hash = bench.browser.evaluate("location.hash")?;
    let expected = "#loss=7+%25&traffic=telemetry&clients=4&seeds=2";
    bench.expect(hash == expected, || {
        format!("the form made {hash} and not {expected}")
    });
    Ok(())
}

/// Each experiment of the list says what to see, and makes runs.
fn presets(bench: &mut Bench) -> Result<()> {
    bench.open("seeds=1&cc=default")?;
    let names = bench
        .browser
        .evaluate("[...document.querySelectorAll('#preset option')].map((one) => one.value)")?;
    let names: Vec<String> = serde_json::from_value(names)?;
    bench.expect(names.len() > 6, || format!("experiments: {names:?}"));
    for name in names {
        bench.browser.evaluate(&format!(
            "(() => {{ globalThis.before = lab.checked; \
               const list = document.getElementById('preset'); list.value = '{name}'; \
               list.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
        ))?;
        bench
            .browser
            .wait("lab.checked !== before && lab.runs?.count > 0")?;
        let shown = bench.browser.evaluate(
            "[lab.state.preset, document.getElementById('preset-about').textContent.length > 20, \
              document.getElementById('wrong').hidden]",
        )?;
        bench.expect(shown == json!([name, true, true]), || {
            format!("the experiment {name}: {shown}")
        });
    }
    bench.open("preset=mesh&cc=default&seeds=1")?;
    let shown = bench.browser.evaluate("lab.state.scenario")?;
    bench.expect(shown == "cocoaplus/constant", || {
        format!("an address with the experiment mesh alone opens {shown}")
    });
    Ok(())
}

/// Tabs and playback work by keyboard.
fn keyboard(bench: &mut Bench) -> Result<()> {
    bench.open("seeds=2&cc=default&clients=3")?;
    bench
        .browser
        .evaluate("document.getElementById('tab-ranking').focus()")?;
    press(bench, "ArrowRight")?;
    bench.browser.wait("document.activeElement.id === 'tab-watch' && Boolean(lab.player.run) && lab.player.playing")?;
    bench
        .browser
        .evaluate("document.getElementById('scrub').focus()")?;
    press(bench, " ")?;
    let paused = bench.browser.evaluate("!lab.player.playing")?;
    bench.expect(paused == true, || "space does not pause".to_owned());
    let before = bench.browser.evaluate("lab.player.time")?;
    press(bench, ".")?;
    let after = bench.browser.evaluate("lab.player.time")?;
    bench.expect(after.as_f64() > before.as_f64(), || {
        format!("the full stop moves from {before} to {after}")
    });
    press(bench, ",")?;
    let back = bench.browser.evaluate("lab.player.time")?;
    bench.expect(back.as_f64() < after.as_f64(), || {
        "the comma does not move back".to_owned()
    });
    for (typed, shown) in [("1", 1), ("9", 2), ("", 0)] {
        let found = bench.browser.evaluate(&format!(
            "(() => {{ const field = document.getElementById('client'); field.value = '{typed}'; \
               field.dispatchEvent(new Event('change')); \
               return [Number(field.value), lab.state.client ?? 0]; }})()"
        ))?;
        bench.expect(found == json!([shown, shown]), || {
            format!("of 3 clients, '{typed}' shows {found}")
        });
    }
    Ok(())
}

/// A link is drawn by keys and by a pointer, and by a trace that is opened, which the copies name.
fn drawing(bench: &mut Bench) -> Result<()> {
    bench.open("seeds=2&cc=default&size=2000&link=nb-iot")?;
    bench.browser.evaluate(
        "document.getElementById('drawn').open = true; document.getElementById('pad').focus()",
    )?;
    for key in ["ArrowRight", "ArrowDown", "PageDown"] {
        press(bench, key)?;
    }
    let expected = "60_30-22.8-30x30__";
    let drawn = bench
        .browser
        .evaluate("[lab.state.drawn_down, lab.state.drawn_up]")?;
    bench.expect(drawn == json!([expected, expected]), || {
        format!("keys draw {drawn}")
    });
    bench
        .browser
        .wait("lab.finished.includes('1875,22.8\\\\n')")?;
    let box_of = "(() => { const pad = document.getElementById('pad'); pad.scrollIntoView({ block: 'center' }); \
                  const { left, top, width, height } = pad.getBoundingClientRect(); return { left, top, width, height }; })()";
    let pad = bench.browser.evaluate(box_of)?;
    let at = |key: &str| pad[key].as_f64().unwrap_or_default();
    for (kind, x, y) in [
        ("mousePressed", 0.3, 0.2),
        ("mouseMoved", 0.6, 0.7),
        ("mouseReleased", 0.6, 0.7),
    ] {
        let event = json!({
            "type": kind, "button": "left", "buttons": 1, "clickCount": 1,
            "x": at("left") + x * at("width"), "y": at("top") + y * at("height"),
        });
        bench.browser.call("Input.dispatchMouseEvent", &event)?;
    }
    let values = bench
        .browser
        .evaluate("new Set(lab.state.drawn_down.split('_')[1].split('-')).size")?;
    bench.expect(values.as_u64() > Some(8), || {
        format!("a stroke draws {values} values")
    });
    bench.browser.evaluate(
        "(() => { const way = document.getElementById('drawn-way'); way.value = 'up'; \
         way.dispatchEvent(new Event('input', { bubbles: true })); })()",
    )?;
    let text = "time_ms,rate_kbit_s\n0,20\n8000,40\n";
    give_file(
        bench,
        &format!("new File([{}], 'my trace.csv')", json!(text)),
    )?;
    bench
        .browser
        .wait("lab.finished.includes('my_trace.csv')")?;
    let state = bench
        .browser
        .evaluate("lab.state.drawn_up.replace(/[0-9a-f]{16}$/, 'HASH')")?;
    bench.expect(state == "file_my_trace.csv_HASH", || {
        format!("a file is in the address as {state}")
    });
    fs::write(bench.folder.join("my_trace.csv"), text)?;
    copied(bench, "copied command with a file")?;
    // An address does not hold the file; an error names it.
    let state = bench.browser.evaluate("location.hash.slice(1)")?;
    bench.browser.open("about:blank")?;
    let address = format!("{}#{}", bench.address, state.as_str().unwrap_or_default());
    bench.browser.open(&address)?;
    bench.browser.wait(
        "!document.getElementById('wrong').hidden && document.getElementById('wrong').textContent.includes('my_trace.csv')",
    )?;
    give_file(bench, "new File(['time_ms,speed\\n0,1\\n'], 'bad.csv')")?;
    bench.browser.wait(
        "document.getElementById('drawn-note').textContent.startsWith('bad.csv: line 1: unknown column')",
    )
}

/// Opens a file as a user does.
pub(super) fn give_file(bench: &mut Bench, file: &str) -> Result<()> {
    let script = format!(
        "(async () => {{ const files = new DataTransfer(); files.items.add(await ({file})); \
         const input = document.getElementById('drawn-file'); input.files = files.files; \
         input.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
    );
    bench.browser.evaluate(&script).map(drop)
}

fn press(bench: &mut Bench, key: &str) -> Result<()> {
    let text = if key.len() == 1 { key } else { "" };
    for kind in ["keyDown", "keyUp"] {
        let mut event = json!({ "type": kind, "key": key });
        if kind == "keyDown" && !text.is_empty() {
            event["text"] = text.into();
        }
        bench.browser.call("Input.dispatchKeyEvent", &event)?;
    }
    Ok(())
}

/// No page has complained, and nothing was loaded from elsewhere.
fn messages(bench: &mut Bench) -> Result<()> {
    let own = bench.address.clone();
    let mut requests = 0;
    for event in std::mem::take(&mut bench.browser.events) {
        let of = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => {
                bench
                    .wrong
                    .push(format!("exception: {}", of["exceptionDetails"]));
            }
            "Runtime.consoleAPICalled" if of["type"] == "error" || of["type"] == "warning" => {
                bench.wrong.push(format!("console: {}", of["args"]));
            }
            "Log.entryAdded" if of["entry"]["level"] == "error" => {
                bench.wrong.push(format!("log: {}", of["entry"]));
            }
            "Network.requestWillBeSent" => {
                let url = of["request"]["url"].as_str().unwrap_or_default().to_owned();
                requests += 1;
                let places = [&own, &bench.single, "data:", "blob:"];
                let is_own = places.iter().any(|place| url.starts_with(place));
                bench.expect(is_own, || format!("{url} is loaded from outside"));
            }
            _ => {}
        }
    }
    ensure!(requests > 0, "no request was seen");
    println!("{requests} requests, none from outside");
    Ok(())
}

/// The single file makes the same runs from a `file:` address.
fn single_file(bench: &mut Bench) -> Result<()> {
    bench.open(OWN_LINK)?;
    let served = bench.browser.evaluate(HASHES)?;
    let served_address = std::mem::replace(&mut bench.address, bench.single.clone());
    bench.open(OWN_LINK)?;
    let single = bench.browser.evaluate(HASHES)?;
    bench.same(
        "single file",
        served.as_str().unwrap_or_default(),
        single.as_str().unwrap_or_default(),
    );
    for tab in TABS {
        let found = bench.browser.evaluate(&format!("({PROBE})('{tab}')"))?;
        bench.expect(found["overflow"].as_i64() <= Some(0), || {
            format!("{tab} of the single file is too wide")
        });
    }
    bench
        .browser
        .wait("Boolean(lab.player.run) && location.protocol === 'file:'")?;
    bench.address = served_address;
    Ok(())
}

/// Opened as a file, where browsers load no modules, the page names the remedy.
fn from_file(bench: &mut Bench, site: &Path) -> Result<()> {
    let address = format!("file://{}/index.html", site.display());
    bench.browser.open(&address)?;
    bench
        .browser
        .wait("document.readyState === 'complete' && location.protocol === 'file:'")?;
    bench.browser.wait(
        "getComputedStyle(document.getElementById('not-started')).opacity === '1' \
         && document.getElementById('not-started').textContent.includes('carob lab page')",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_equal_to_the_last_bit() {
        let value = json!({ "low": 0.17182083438942358, "none": 0 });
        assert!(is_equal(
            &value,
            &json!({ "low": 0.17182083438942358, "none": 0.0 })
        ));
        assert!(!is_equal(
            &value,
            &json!({ "low": 0.17182083438942355, "none": 0 })
        ));
        assert!(!is_equal(&value, &json!({ "low": 0.17182083438942358 })));
        assert!(!is_equal(&json!(null), &json!(0)));
    }
}
