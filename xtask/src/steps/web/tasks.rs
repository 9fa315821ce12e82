//! The main thread while runs are made and a run is played: the longest task, and frames a second.
//!
//! Judged is the time that the thread has worked, which does not depend on other programs of the machine.

use anyhow::Result;
use serde_json::{Value, json};

use super::checks::{Bench, give_file};

/// The longest task that a reader does not notice, in microseconds.
const TASK_MAX: i64 = 50_000;
/// Work for one frame that leaves room for 60 a second, in microseconds: the 95th percentile.
const FRAME_MAX: i64 = 8_000;
/// Trials of a state: other programs slow the caches down, but a task that blocks does so each time.
const TRIALS: u32 = 3;
/// Runs during which it is measured.
const STATES: [(&str, &str); 6] = [
    (
        "runs",
        "loss=5+%25&cc=default%2Ccocoa-plus%2Cfasor%2Ccarob%2Crfc6298%2Ccocoa-03&seeds=300",
    ),
    ("trace", "size=2000&cc=default&seeds=2"),
    (
        "tcp",
        "scenario=thesis%2Flong&cell=long-1c-none-2500&cc=tcp-newreno&seeds=2&view=watch",
    ),
    (
        "playback",
        "link=gprs&down=20+kbit%2Fs&rtt=3+s&loss=8+%25&traffic=command&clients=100&cc=default%2Ccocoa-plus&seeds=10&view=watch",
    ),
    (
        "crowd",
        "link=umts&clients=1000&traffic=telemetry&cc=default&seeds=1&view=watch",
    ),
    (
        "mesh",
        "preset=mesh&scenario=cocoaplus%2Fconstant&cell=constant-6x6-lossy-5kbit&cc=default%2Ccocoa-plus&seeds=2&view=watch",
    ),
];

pub(super) fn check(bench: &mut Bench) -> Result<()> {
    for (name, state) in STATES {
        for trial in 1..=TRIALS {
            let (events, frames) = trace(bench, name, state)?;
            let defects = report(name, &events, &frames);
            if defects.is_empty() {
                break;
            }
            if trial == TRIALS {
                bench.wrong.extend(defects);
            }
        }
    }
    Ok(())
}

/// A file of 500,000 rows, made in pieces that do not block the page.
const LONG_FILE: &str = "(async () => { const parts = ['time_ms,rate_kbit_s\\n']; \
    for (let k = 0; k < 500; k++) { \
      parts.push(Array.from({ length: 1000 }, (_, j) => `${1000 * k + j},${10 + (j * 7 + k) % 50}\\n`).join('')); \
      await new Promise((resolve) => setTimeout(resolve)); } \
    return new File(parts, 'long.csv'); })()";

/// Opens a state and plays its run, or opens a long trace. Returns the trace's events and the intervals of frames.
fn trace(bench: &mut Bench, name: &str, state: &str) -> Result<(Vec<Value>, Value)> {
    bench.browser.open("about:blank")?;
    let trace = json!({
        "transferMode": "ReportEvents",
        "traceConfig": { "includedCategories": ["toplevel", "devtools.timeline"] },
    });
    bench.browser.call("Tracing.start", &trace)?;
    bench.open(state)?;
    if state.contains("view=watch") {
        bench
            .browser
            .wait("(lab.player?.frames.length ?? 0) > 240")?;
    }
    if name == "trace" {
        give_file(bench, LONG_FILE)?;
        bench.browser.wait("lab.finished.includes('long.csv')")?;
        let length = bench.browser.evaluate("location.href.length")?;
        bench.expect(length.as_u64() < Some(500), || {
            format!("an address of {length} characters")
        });
    }
    let frames = bench.browser.evaluate("lab.player.frames")?;
    bench.browser.call("Tracing.end", &json!({}))?;
    bench.browser.wait_for_event("Tracing.tracingComplete")?;
    Ok((take_trace(&mut bench.browser.events), frames))
}

/// The trace's events, which are removed from those of the browser.
fn take_trace(events: &mut Vec<Value>) -> Vec<Value> {
    let mut trace = Vec::new();
    events.retain_mut(|event| {
        let is_trace = event["method"] == "Tracing.dataCollected";
        if is_trace && let Value::Array(some) = event["params"]["value"].take() {
            trace.extend(some);
        }
        !is_trace
    });
    trace
}

/// Prints times and returns a line for each defect.
fn report(name: &str, events: &[Value], frames: &Value) -> Vec<String> {
    let mut defects = Vec::new();
    let is_main = |event: &&Value| {
        event["name"] == "thread_name" && event["args"]["name"] == "CrRendererMain"
    };
    let threads: Vec<(&Value, &Value)> = events
        .iter()
        .filter(is_main)
        .map(|event| (&event["pid"], &event["tid"]))
        .collect();
    let of_main = |what: &str| -> Vec<[i64; 2]> {
        let named = events.iter().filter(|event| event["name"] == what);
        let main = named.filter(|event| threads.contains(&(&event["pid"], &event["tid"])));
        let times =
            main.map(|event| ["tdur", "dur"].map(|key| event[key].as_i64().unwrap_or_default()));
        let mut times: Vec<[i64; 2]> = times.collect();
        times.sort_unstable();
        times
    };
    let tasks = of_main("ThreadControllerImpl::RunTask");
    let longest = tasks.last().map_or(0, |task| task[0]);
    let wall = tasks.iter().map(|task| task[1]).max().unwrap_or_default();
    println!(
        "{name}: {} tasks; the longest worked {:.1} ms and took {:.1} ms",
        tasks.len(),
        ms(longest),
        ms(wall)
    );
    if tasks.is_empty() {
        defects.push(format!("{name}: no task was traced"));
    }
    if longest > TASK_MAX {
        defects.push(format!("{name}: a task of {:.1} ms", ms(longest)));
    }
    let drawn = of_main("FireAnimationFrame");
    let mut between: Vec<f64> = frames
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    if ["runs", "trace"].contains(&name) {
        return defects;
    }
    between.sort_by(f64::total_cmp);
    let late = drawn
        .get(drawn.len() * 95 / 100)
        .map_or(i64::MAX, |frame| frame[0]);
    if late > FRAME_MAX {
        defects.push(format!("{name}: drawing takes {:.1} ms", ms(late)));
    }
    let mean = between.iter().sum::<f64>() / between.len().max(1) as f64;
    let median = between.get(between.len() / 2).copied().unwrap_or_default();
    println!(
        "{name}: {} frames, {:.1} a second (median interval {median:.1} ms); drawing works {:.1} ms in 95 % of them",
        between.len(),
        1_000.0 / mean,
        ms(late)
    );
    defects
}

fn ms(micros: i64) -> f64 {
    micros as f64 / 1_000.0
}
