//! The thesis's long TCP transfer over the link model: completion times, retransmissions and
//! timeouts, with any setting changed. It serves to calibrate, and to see why a cell is as it is.
//!
//! ```text
//! cargo run --release -p carob-sim --example tcp_transfer -- --error low --buffer 14100
//! cargo run --release -p carob-sim --example tcp_transfer -- --all --profile kernel
//! cargo run --release -p carob-sim --example tcp_transfer -- --buffer 28200 --trace --seed 3
//! ```
//!
//! Options: `--profile NAME`, `--error NAME`, `--buffer BYTES`, `--clients N`, `--seeds N`, `--seed FIRST`,
//! `--burst MILLIPACKETS`, `--set tcp.NAME=VALUE` (both ends), `--all` (every cell of the thesis's
//! tables 6 to 11), `--trace`, `--keys`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::process::ExitCode;

use carob_cc::time::Duration;
use carob_sim::link::{DirectionSpec, ExtraDelay, LinkSpec, LossProfile, profile};
use carob_sim::tcp::settings::{self, KEYS, PROFILES, TcpSettings};
use carob_sim::tcp::transfer::{self, Spec};

/// Medians of the thesis: error, clients, algorithm, and seconds for each of [`BUFFERS`]
/// (`papers/thesis/table06_fct.csv` to `table11_fct.csv`).
const THESIS: &[(&str, u32, &str, [f64; 4])] = &[
    ("none", 1, "newreno", [36.213, 58.235, 95.138, 32.867]),
    ("none", 1, "bbr1", [68.993, 34.568, 34.568, 34.568]),
    ("none", 4, "newreno", [125.964, 121.516, 127.502, 109.228]),
    ("low", 1, "newreno", [48.844, 44.521, 42.888, 42.432]),
    ("low", 1, "bbr1", [69.648, 37.973, 37.870, 37.048]),
    ("low", 4, "newreno", [126.763, 122.251, 126.246, 121.251]),
    ("medium", 1, "newreno", [152.292, 124.035, 143.559, 145.756]),
    ("medium", 1, "bbr1", [115.332, 94.392, 99.338, 84.252]),
    (
        "high",
        1,
        "newreno",
        [1105.210, 1022.598, 908.510, 1066.798],
    ),
    ("high", 1, "bbr1", [816.835, 718.385, 716.178, 491.499]),
];

const BUFFERS: [u64; 4] = [2_500, 14_100, 28_200, 1_410_000];

#[derive(Clone)]
struct Options {
    settings: TcpSettings,
    error: String,
    buffer: u64,
    clients: u32,
    seeds: u64,
    first_seed: u64,
    burst: u32,
    all: bool,
    trace: bool,
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)) {
        Ok(Some(options)) => {
            show(&options);
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options {
        settings: TcpSettings::THESIS,
        error: "none".to_owned(),
        buffer: 14_100,
        clients: 1,
        seeds: 200,
        first_seed: 0,
        burst: LossProfile::BURST_MILLIPACKETS,
        all: false,
        trace: false,
    };
    let mut changes = Vec::new();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        let bad = |_| format!("{argument}: not a number");
        match argument.as_str() {
            "--profile" => {
                let name = value()?;
                let found = settings::profile(&name);
                let names = PROFILES.map(|profile| profile.name).join(", ");
                options.settings = found.ok_or(format!("{name}: not one of {names}"))?.settings;
            }
            "--error" => options.error = value()?,
            "--buffer" => options.buffer = value()?.parse().map_err(bad)?,
            "--clients" => options.clients = value()?.parse().map_err(bad)?,
            "--seeds" => options.seeds = value()?.parse().map_err(bad)?,
            "--seed" => options.first_seed = value()?.parse().map_err(bad)?,
            "--burst" => options.burst = value()?.parse().map_err(bad)?,
            "--set" => changes.push(value()?),
            "--all" => options.all = true,
            "--trace" => options.trace = true,
            "--keys" => {
                keys();
                return Ok(None);
            }
            _ => {
                return Err(format!(
                    "{argument}: unknown; the options are in the source's head"
                ));
            }
        }
    }
    for change in changes {
        set(&mut options.settings, &change)?;
    }
    profile(&options.error).ok_or(format!("{}: no such error profile", options.error))?;
    Ok(Some(options))
}

fn set(settings: &mut TcpSettings, change: &str) -> Result<(), String> {
    let change = change.strip_prefix("tcp.").unwrap_or(change);
    let (name, value) = change.split_once('=').ok_or(format!("{change}: no `=`"))?;
    settings
        .set(name, value)
        .map_err(|why| format!("tcp.{name}: {why}"))
}

fn keys() {
    for key in KEYS {
        println!(
            "tcp.{} ({}; {})\n    {}",
            key.name, key.kind, key.source, key.about
        );
        for profile in &PROFILES {
            profile.settings.describe(&mut |other, value| {
                if other.name == key.name {
                    println!("    {:8} {value} {}", profile.name, key.unit);
                }
            });
        }
    }
}

fn show(options: &Options) {
    heading();
    if options.all {
        for &(error, clients, algorithm, medians) in THESIS {
            for (buffer, median) in BUFFERS.into_iter().zip(medians) {
                let mut cell = options.clone();
                error.clone_into(&mut cell.error);
                cell.clients = clients;
                cell.buffer = buffer;
                let _ = cell.settings.set("congestion", algorithm);
                row(
                    &format!("{error} {clients}c {algorithm} {buffer}"),
                    &cell,
                    Some(median),
                );
            }
        }
    } else {
        row(
            &format!("{} {}", options.error, options.buffer),
            options,
            None,
        );
        if options.trace {
            trace(options);
        }
    }
}

fn spec(options: &Options, seed: u64) -> Spec {
    let loss = profile(&options.error).map_or(carob_sim::link::LossSpec::None, |profile| {
        profile.per_packet(options.burst)
    });
    let direction = |rate, delay| DirectionSpec {
        delay: Duration::from_millis(delay),
        extra: ExtraDelay::Constant(Duration::from_millis(15)),
        loss,
        ..DirectionSpec::new(rate, options.buffer)
    };
    let link = LinkSpec {
        down: direction(30_000, 400),
        up: direction(60_000, 200),
    };
    let mut spec = Spec::thesis(link, options.settings, seed);
    spec.clients = options.clients;
    if options.clients > 1 {
        spec.start = Duration::from_secs(1);
    }
    spec
}

fn heading() {
    println!(
        "{:34} {:>8} {:>6} | {:>7} {:>7} {:>7} {:>8} {:>7} {:>7} {:>7} {:>8} | {:>6} {:>5} {:>6} {:>6}",
        "cell",
        "thesis",
        "ratio",
        "min",
        "p10",
        "p25",
        "median",
        "p75",
        "p90",
        "p95",
        "max",
        "resent",
        "rtos",
        "setup",
        "failed",
    );
}

/// Runs a cell and prints its row; seconds, medians of counts.
fn row(name: &str, options: &Options, thesis: Option<f64>) {
    let (mut times, mut resent, mut timeouts, mut setups) = (vec![], vec![], vec![], vec![]);
    let mut failed = 0;
    for seed in options.first_seed..options.first_seed + options.seeds {
        let outcome = match transfer::run(&spec(options, seed)) {
            Ok(outcome) => outcome,
            Err(why) => {
                println!("{why}");
                return;
            }
        };
        for flow in outcome.flows {
            match flow.completion.filter(|_| flow.intact) {
                Some(time) => times.push(time.as_micros() as f64 / 1e6),
                None => failed += 1,
            }
            resent.push(flow.server.retransmissions as f64);
            timeouts.push(flow.server.timeouts as f64);
            setups.extend(flow.setup.map(|setup| setup.as_micros() as f64 / 1e6));
        }
    }
    for all in [&mut times, &mut resent, &mut timeouts, &mut setups] {
        all.sort_by(f64::total_cmp);
    }
    let median = quantile(&times, 0.5);
    let (known, ratio) = match thesis {
        Some(thesis) => (format!("{thesis:8.3}"), format!("{:6.3}", median / thesis)),
        None => (String::new(), String::new()),
    };
    let q = |p| quantile(&times, p);
    println!(
        "{name:34} {known:>8} {ratio:>6} | {:7.2} {:7.2} {:7.2} {median:8.3} {:7.2} {:7.2} {:7.2} {:8.2} | {:6.0} {:5.0} {:6.2} {failed:6}",
        q(0.0),
        q(0.1),
        q(0.25),
        q(0.75),
        q(0.9),
        q(0.95),
        q(1.0),
        quantile(&resent, 0.5),
        quantile(&timeouts, 0.5),
        quantile(&setups, 0.5),
    );
}

/// Linear interpolation between order statistics.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = p * last as f64;
    let (low, high) = (sorted[at as usize], sorted[(at as usize + 1).min(last)]);
    low + (high - low) * at.fract()
}

/// The sender's history with the first seed.
fn trace(options: &Options) {
    let mut spec = spec(options, options.first_seed);
    spec.points = 100_000;
    let Ok(outcome) = transfer::run(&spec) else {
        return;
    };
    println!("down {:?}\nup   {:?}", outcome.down, outcome.up);
    for (number, flow) in outcome.flows.iter().enumerate() {
        println!(
            "flow {number}: server {:?}\n        client {:?}",
            flow.server, flow.client
        );
        for p in &flow.points {
            let srtt = p.srtt.map_or(String::new(), |srtt| srtt.to_string());
            println!(
                "{:12.6} {:10} seq {:7} cwnd {:4} ssthresh {:10} pipe {:4} rto {} srtt {srtt}",
                p.at.as_micros() as f64 / 1e6,
                format!("{:?}", p.what),
                p.seq,
                p.cwnd,
                p.ssthresh,
                p.pipe,
                p.rto,
            );
        }
    }
}
