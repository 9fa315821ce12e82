//! A soak: a real `carob serve` over loopback under confirmable requests at full rate, with observers and datagram loss. The
//! load is `crates/carob/examples/soak`, which loses the datagrams.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    net::{TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{
    carob::{self, Metrics},
    process::{self, Server},
    workspace::Workspace,
};

/// Observers of a resource that changes [`POSTS`] times a second.
const OBSERVERS: u64 = 1_000;
const POSTS: u32 = 20;
/// Loss of datagrams, in each direction.
const LOSS: f64 = 0.01;
/// Time for tables to become empty after the load: EXCHANGE_LIFETIME (RFC 7252 4.8.2) and more.
const EMPTYING: Duration = Duration::from_secs(300);
/// MAX_RETRANSMIT is 4 (RFC 7252 4.8): an exchange fails if five transmissions do.
const TRANSMISSIONS: i32 = 5;
/// Significance level: less probable counts are not by chance.
const CHANCE: f64 = 1e-3;
/// Longest time without a response that the machine may cause, in milliseconds.
const STALL_MS: f64 = 1_000.0;
/// Growth of memory allowed after the first third, and for each further remembered message, in KiB. A leak of one byte in a
/// thousand requests is more in 30 minutes.
const GROWTH: u64 = 2 << 10;
const REMEMBERED: u64 = 2;
/// Rows of the table over time, at most.
const ROWS: usize = 16;

/// Gauges that are 0 without clients.
const EMPTIED: [&str; 9] = [
    "carob_requests_in_progress",
    "carob_handlers",
    "carob_exchanges_in_progress",
    "carob_observers",
    "carob_notifications_waiting",
    "carob_uploads",
    "carob_upload_bytes",
    "carob_bodies",
    "carob_queue_length",
];
/// Gauges whose maxima are reported.
const GAUGES: [&str; 7] = [
    "carob_remembered_messages",
    "carob_peers",
    "carob_observers",
    "carob_exchanges_in_progress",
    "carob_requests_in_progress",
    "carob_bodies",
    "carob_validated_sources",
];

/// State of server and load at a time.
#[derive(Clone, Debug, Default)]
struct Sample {
    /// Since the start of the load.
    seconds: f64,
    /// Memory that the server has allocated and touched (RssAnon), in KiB: without its program, whose pages depend on the
    /// machine's other load.
    rss: u64,
    /// CPU time of the server, in seconds.
    cpu: f64,
    answered: u64,
    metrics: Metrics,
}

impl Sample {
    fn take(id: u32, port: u16, load: &Value) -> Result<Self> {
        Ok(Self {
            seconds: load["seconds"].as_f64().unwrap_or(0.0),
            rss: process::memory(id, "RssAnon").context("the server has ended")?,
            cpu: process::cpu_seconds(id)?,
            answered: count(load, "answered"),
            metrics: Metrics::read(port)?,
        })
    }

    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.metrics.sum(name, labels)
    }

    /// Tables that are not empty.
    fn left(&self) -> Vec<String> {
        let values = EMPTIED.map(|name| (name, self.sum(name, &[])));
        let left = values.iter().filter(|(_, value)| *value != 0.0);
        left.map(|(name, value)| format!("{name} {value}"))
            .collect()
    }

    /// Responses per second since an earlier sample.
    fn rate(&self, before: &Self) -> f64 {
        (self.answered - before.answered) as f64 / (self.seconds - before.seconds).max(1e-3)
    }
}

/// A run and its measurements.
struct Soak {
    minutes: u64,
    seed: u64,
    samples: Vec<Sample>,
    /// Last line of the load.
    last: Value,
    /// The server with empty tables, or after [`EMPTYING`].
    after: Sample,
    emptying: Duration,
}

/// A criterion, its measured value, and whether it holds.
type Check = (&'static str, String, bool);

/// The load, which is killed if it is not waited for.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn run(workspace: &Workspace, results: &Path, words: &[String]) -> Result<bool> {
    let [minutes, seed] = numbers(words, [("--minutes", 30), ("--seed", 1)])?;
    carob::build(workspace)?;
    let mut build = process::cargo();
    build.args([
        "build",
        "--release",
        "--quiet",
        "--package",
        "carob",
        "--example",
        "soak",
    ]);
    process::must(build.current_dir(&workspace.root))?;
    // Copies, so that no build replaces them during the run.
    let folder = std::env::temp_dir().join(format!("carob-soak-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let release = workspace.target()?.join("release");
    let copy = |from: &str, name: &str| -> Result<PathBuf> {
        fs::copy(release.join(from), folder.join(name))?;
        Ok(folder.join(name))
    };
    let (program, load) = (copy("carob", "carob")?, copy("examples/soak", "soak")?);
    let soak = soak(&program, &load, minutes, seed);
    fs::remove_dir_all(&folder)?;
    let soak = soak?;
    let checks = judge(&soak);
    let text = report(&soak, &checks)?;
    print!("{text}");
    fs::write(results, &text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(checks.iter().all(|(.., holds)| *holds))
}

fn soak(program: &Path, load: &Path, minutes: u64, seed: u64) -> Result<Soak> {
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let metrics = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut serve = Command::new(program);
    serve
        .args(["serve", "--bind", &format!("127.0.0.1:{port}")])
        .args(["--metrics", &format!("127.0.0.1:{metrics}")]);
    let mut server = Server::start("carob serve", &mut serve)?;
    server.wait_for_answer(port, &[0x40, 0, 0, 1])?;
    let mut command = Command::new(load);
    command
        .args(["--server", &format!("127.0.0.1:{port}")])
        .args(["--seconds", &(minutes * 60).to_string()])
        .args(["--observers", &OBSERVERS.to_string()])
        .args(["--posts", &POSTS.to_string()])
        .args(["--loss", &LOSS.to_string()])
        .args(["--seed", &seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut load = Load(command.spawn().context("cannot start the load")?);
    let output = load.0.stdout.take().context("it has an output")?;
    let (mut samples, mut last) = (Vec::new(), Value::Null);
    for line in BufReader::new(output).lines() {
        let line = line?;
        let value: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        let sample = Sample::take(server.id(), metrics, &value)?;
        println!(
            "{:>6.0} s  {:>11} answers  {:>6.1} MiB  {:>7.1} s of CPU",
            sample.seconds,
            sample.answered,
            mib(sample.rss),
            sample.cpu,
        );
        samples.push(sample);
        if value["over"] == true {
            last = value;
        }
    }
    ensure!(
        load.0.wait()?.success() && !last.is_null(),
        "the load failed"
    );
    let began = Instant::now();
    let after = loop {
        let sample = Sample::take(server.id(), metrics, &last)?;
        if sample.left().is_empty() || began.elapsed() > EMPTYING {
            break sample;
        }
        thread::sleep(Duration::from_secs(5));
    };
    Ok(Soak {
        minutes,
        seed,
        samples,
        last,
        after,
        emptying: began.elapsed(),
    })
}

fn count(load: &Value, name: &str) -> u64 {
    load[name].as_u64().unwrap_or(0)
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1_024.0
}

/// Shares of datagrams lost on the way to the server and back, with those dropped at full sockets, and the number of these at
/// the server and at the load.
fn losses(soak: &Soak) -> ([f64; 2], [u64; 2]) {
    let of = |name| count(&soak.last, name);
    let at_server = soak.after.sum("carob_datagrams_dropped_total", &[]) as u64;
    let sent = soak.after.sum("carob_sent_messages_total", &[]) as u64;
    let at_load = sent.saturating_sub(of("received"));
    let share = |lost: u64, all: u64| lost as f64 / all.max(1) as f64;
    let shares = [
        share(of("sent_lost") + at_server, of("sent")),
        share(of("received_lost") + at_load, of("received") + at_load),
    ];
    (shares, [at_server, at_load])
}

/// Probability that an exchange fails: each transmission or the reply to it is lost.
fn failure([there, back]: [f64; 2]) -> f64 {
    (1.0 - (1.0 - there) * (1.0 - back)).powi(TRANSMISSIONS)
}

/// Probability of `seen` or more events if `expected` is their mean (Poisson).
fn tail(seen: u64, expected: f64) -> f64 {
    let (mut term, mut below) = ((-expected).exp(), 0.0);
    for n in 0..seen {
        below += term;
        term *= expected / (n + 1) as f64;
    }
    (1.0 - below).max(0.0)
}

fn judge(soak: &Soak) -> Vec<Check> {
    let last = &soak.last;
    let of = |name| count(last, name);
    let (shares, [at_server, at_load]) = losses(soak);
    let lost = |name, seen: u64, exchanges: u64| {
        let expected = exchanges as f64 * failure(shares);
        let text = format!("{seen} of {exchanges} exchanges; {expected:.2} to be expected");
        (name, text, exchanges > 0 && tail(seen, expected) >= CHANCE)
    };
    let server = |labels: &[&str]| soak.after.sum("carob_exchanges_total", labels) as u64;
    let injected = [("sent_lost", "sent"), ("received_lost", "received")]
        .map(|(lost, all)| of(lost) as f64 / of(all).max(1) as f64);
    let wrong = &last["wrong"];
    let none_wrong = wrong.as_object().is_some_and(serde_json::Map::is_empty);
    let (sum, posts) = (last["sum"].as_u64(), of("posts"));
    let is_sum = sum.is_some_and(|sum| (posts - of("posts_failed")..=posts).contains(&sum));
    let gap = last["longest_gap_ms"].as_f64().unwrap_or(f64::INFINITY);
    let knowing = of("observers_knowing");
    let (line, highest) = memory(soak);
    let left = soak.after.left();
    vec![
        (
            "datagram loss as configured",
            format!(
                "{:.3} % there, {:.3} % back; {at_server} and {at_load} more found a buffer full",
                injected[0] * 100.0,
                injected[1] * 100.0
            ),
            injected
                .iter()
                .all(|share| (share / LOSS - 1.0).abs() < 0.05),
        ),
        lost(
            "no CON of the clients lost, except by chance",
            of("exchanges_timed_out"),
            of("exchanges"),
        ),
        lost(
            "no CON of the server lost, except by chance",
            server(&["outcome=\"timed-out\""]),
            server(&[]),
        ),
        (
            "all responses correct",
            format!("{} answers; wrong: {wrong}", of("answered")),
            none_wrong && of("answered") > 0,
        ),
        (
            "every POST ran once",
            format!(
                "{posts} sent, {} failed, {} sums reported twice; the sum is {}",
                of("posts_failed"),
                of("told_twice"),
                last["sum"]
            ),
            of("told_twice") == 0 && is_sum && posts > 0,
        ),
        (
            "no stall",
            format!("{gap:.0} ms without an answer at the longest (line: {STALL_MS:.0})"),
            gap < STALL_MS,
        ),
        (
            "no observer removed, and none received an earlier state",
            format!(
                "{} taken off, {} earlier states",
                of("ended"),
                of("backwards")
            ),
            of("backwards") == 0 && of("ended") <= of("exchanges_timed_out"),
        ),
        (
            "every observer received the last state",
            format!(
                "{} at once, {knowing} after {:.0} s, of {}",
                of("observers_knowing_at_once"),
                last["converging_s"].as_f64().unwrap_or(f64::NAN),
                of("observers")
            ),
            knowing == OBSERVERS,
        ),
        (
            "memory within the line of the first third",
            format!(
                "line {:.1} MiB, highest afterwards {:.1}, in the end {:.1}",
                mib(line),
                mib(highest),
                mib(soak.after.rss)
            ),
            highest.max(soak.after.rss) <= line,
        ),
        (
            "tables empty after the load",
            if left.is_empty() {
                format!("after {:.0} s", soak.emptying.as_secs_f64())
            } else {
                left.join(" ")
            },
            left.is_empty(),
        ),
    ]
}

/// Limit of memory by the first third, and the maximum after it, in KiB. If the first third is shorter than
/// EXCHANGE_LIFETIME, the number of remembered messages still grows.
fn memory(soak: &Soak) -> (u64, u64) {
    let third = (soak.minutes * 60) as f64 / 3.0;
    let highest = |first: bool, of: fn(&Sample) -> u64| {
        let part = soak.samples.iter();
        let part = part.filter(|sample| (sample.seconds <= third) == first);
        part.map(of).max().unwrap_or(0)
    };
    let remembered = |sample: &Sample| sample.sum("carob_remembered_messages", &[]) as u64;
    let more = highest(false, remembered).saturating_sub(highest(true, remembered));
    let rss = |sample: &Sample| sample.rss;
    let line = highest(true, rss) + GROWTH + more * REMEMBERED;
    (line, highest(false, rss))
}

fn report(soak: &Soak, checks: &[Check]) -> Result<String> {
    let mut text = String::new();
    let (minutes, seed, after) = (soak.minutes, soak.seed, &soak.after);
    let of = |name| count(&soak.last, name);
    writeln!(
        text,
        "# Soak test of {minutes} minutes\n\n\
        `carob serve` over loopback, all limits at their defaults, and in another process\n\
        ([crates/carob/examples/soak](../crates/carob/examples/soak)) confirmable GETs of `/hello` and PUTs to `/echo` as\n\
        closed loops, {POSTS} POSTs to `/count` a second, bodies of 5,000 bytes in blocks both ways, separate\n\
        responses from `/slow`, and {OBSERVERS} observers of `/count`, each with a port of its own. That process loses 1 % of\n\
        all datagrams in each direction between its engines and its sockets, without another process in between.\n\
        Every PUT and body is compared with its response, every POST with the sum in its response.\n\
        Written by `cargo xtask long soak --minutes {minutes} --seed {seed}`.\n\n\
        ## Verdict\n\n| | | |\n|---|---|---|"
    )?;
    for (name, seen, holds) in checks {
        let verdict = if *holds { "holds" } else { "**fails**" };
        writeln!(text, "| {name} | {verdict} | {seen} |")?;
    }
    let (shares, _) = losses(soak);
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    writeln!(
        text,
        "\nThe machine has {cores} cores. Its load average over the last 15 minutes was {} at the end; server and load\n\
        alone make up to 2. Rates and gaps depend on the other load.\n\n\
        An exchange fails if each of its five transmissions, or the reply to it, is lost. The probability of one is\n\
        1 - (1 - {:.5})(1 - {:.5}), that of all five {:.2e}. A check fails if a count as high has a probability below 0.001.",
        average.split(' ').nth(2).unwrap_or("unknown"),
        shares[0],
        shares[1],
        failure(shares)
    )?;
    let notifications = "kind=\"notification\"";
    let total = |name, labels: &[&str]| after.sum(name, labels);
    let is_loaded = |sample: &&Sample| sample.seconds <= (minutes * 60) as f64 + 1.0;
    let loaded: Vec<&Sample> = soak.samples.iter().filter(is_loaded).collect();
    let mut rates: Vec<f64> = loaded
        .windows(2)
        .map(|pair| pair[1].rate(pair[0]))
        .collect();
    rates.sort_by(f64::total_cmp);
    let rate = |place: usize| rates.get(place).copied().unwrap_or(f64::NAN);
    let end = loaded.last().copied().unwrap_or(after);
    writeln!(
        text,
        "\n## Load\n\n| | |\n|---|---|\n\
        | responses/s, over {} samples | lowest {:.0}, median {:.0}, highest {:.0} |\n\
        | requests answered | {} |\n\
        | datagrams sent to the server, received from it | {}, {} |\n\
        | retransmissions of the clients, of the server | {}, {:.0} |\n\
        | bodies of 5,000 bytes in each direction | {} |\n\
        | separate responses | {} |\n\
        | notifications received | {} |\n\
        | notifications sent, of them acknowledged ones (CON) | {:.0}, {:.0} |\n\
        | observers that registered again because their state was stale | {} |\n\
        | the server's share of a core | {:.0} % |\n\
        | the server's memory (RssAnon) at the end of the load, afterwards | {:.1}, {:.1} MiB |",
        rates.len(),
        rate(0),
        rate(rates.len() / 2),
        rate(rates.len().saturating_sub(1)),
        of("answered"),
        of("sent"),
        of("received"),
        of("retransmissions"),
        total("carob_retransmissions_total", &[]),
        of("bodies"),
        of("separate"),
        of("notifications"),
        total("carob_transmissions_total", &[notifications])
            - total("carob_retransmissions_total", &[notifications]),
        total(
            "carob_exchanges_total",
            &[notifications, "outcome=\"answered\""]
        ),
        of("stale"),
        100.0 * end.cpu / end.seconds,
        mib(end.rss),
        mib(after.rss),
    )?;
    text += "\n## Tables\n\n| gauge | maximum | at the end |\n|---|---|---|\n";
    for name in GAUGES {
        let values = soak.samples.iter().map(|sample| sample.sum(name, &[]));
        let highest = values.fold(0.0, f64::max);
        writeln!(text, "| `{name}` | {highest} | {} |", after.sum(name, &[]))?;
    }
    text += "\n## Over time\n\n| s | responses/s | memory, MiB | CPU, s | remembered messages |\n|---|---|---|---|---|\n";
    let step = soak.samples.len().div_ceil(ROWS).max(1);
    let mut before = &Sample::default();
    for sample in soak.samples.iter().step_by(step) {
        writeln!(
            text,
            "| {:.0} | {:.0} | {:.1} | {:.1} | {:.0} |",
            sample.seconds,
            sample.rate(before),
            mib(sample.rss),
            sample.cpu,
            sample.sum("carob_remembered_messages", &[])
        )?;
        before = sample;
    }
    Ok(text)
}

/// Values of options by their names and defaults; all are at least 1.
fn numbers<const N: usize>(words: &[String], known: [(&str, u64); N]) -> Result<[u64; N]> {
    let mut values = known.map(|(_, default)| default);
    for pair in words.chunks(2) {
        let Some(place) = known.iter().position(|(name, _)| *name == pair[0]) else {
            let names = known.map(|(name, _)| format!("{name} N"));
            bail!("unknown option {}; there are {}", pair[0], names.join(", "));
        };
        let value = pair.get(1).and_then(|value| value.parse().ok());
        let value = value.filter(|value| *value > 0);
        values[place] = value.with_context(|| format!("{} needs a number above 0", pair[0]))?;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metrics(timed_out: u32, observers: u32) -> Metrics {
        Metrics::parse(&format!(
            "carob_sent_messages_total{{}} 1000000\n\
            carob_exchanges_total{{outcome=\"answered\"}} 9000\n\
            carob_exchanges_total{{outcome=\"timed-out\"}} {timed_out}\n\
            carob_observers{{}} {observers}\n"
        ))
    }

    fn good() -> Soak {
        let sample = |seconds, rss| Sample {
            seconds,
            rss,
            ..Sample::default()
        };
        Soak {
            minutes: 1,
            seed: 1,
            samples: vec![sample(10.0, 20_000), sample(50.0, 20_500)],
            last: json!({
                "answered": 1_000_000, "wrong": {}, "longest_gap_ms": 12.0,
                "posts": 1_200, "posts_failed": 0, "told_twice": 0, "sum": 1_200,
                "observers": 1_000, "observers_knowing": 1_000,
                "observers_knowing_at_once": 990, "converging_s": 60.0,
                "ended": 0, "backwards": 0,
                "sent": 1_000_000, "sent_lost": 10_000,
                "received": 1_000_000, "received_lost": 10_000,
                "exchanges": 1_000_000, "exchanges_timed_out": 0,
            }),
            after: Sample {
                rss: 20_400,
                metrics: metrics(0, 0),
                ..Sample::default()
            },
            emptying: Duration::ZERO,
        }
    }

    fn failing(soak: &Soak) -> Vec<&'static str> {
        let checks = judge(soak).into_iter();
        let failing = checks.filter(|(.., holds)| !holds);
        failing.map(|(name, ..)| name).collect()
    }

    #[test]
    fn each_check_fails_by_its_own_measurement() {
        assert_eq!(failing(&good()), [""; 0]);
        let load = |name: &str, value: Value| {
            let mut soak = good();
            soak.last[name] = value;
            failing(&soak).join("; ")
        };
        assert!(load("sent_lost", json!(5_000)).contains("datagram loss"));
        assert!(load("exchanges_timed_out", json!(2)).contains("of the clients"));
        assert!(load("wrong", json!({"4.04": 1})).contains("all responses correct"));
        assert!(load("told_twice", json!(1)).contains("ran once"));
        assert!(load("sum", json!(1_201)).contains("ran once"));
        assert!(load("sum", Value::Null).contains("ran once"));
        assert!(load("longest_gap_ms", json!(1_500.0)).contains("no stall"));
        assert!(load("ended", json!(1)).contains("no observer removed"));
        assert!(load("backwards", json!(1)).contains("earlier state"));
        assert!(load("observers_knowing", json!(999)).contains("the last state"));
        let server = |change: &dyn Fn(&mut Soak)| {
            let mut soak = good();
            change(&mut soak);
            failing(&soak).join("; ")
        };
        assert!(server(&|soak| soak.after.metrics = metrics(1, 0)).contains("of the server"));
        assert!(server(&|soak| soak.after.metrics = metrics(0, 1)).contains("tables"));
        assert!(server(&|soak| soak.samples[1].rss = 23_000).contains("memory"));
        assert!(server(&|soak| soak.after.rss = 23_000).contains("memory"));
    }

    #[test]
    fn losses_beyond_chance_are_improbable() {
        let of_exchange = (1.0 - 0.99_f64 * 0.99).powi(5);
        let (shares, _) = losses(&good());
        assert!((failure(shares) / of_exchange - 1.0).abs() < 1e-9);
        assert!((tail(0, 0.3) - 1.0).abs() < 1e-12);
        assert!((tail(1, 0.3) - (1.0 - (-0.3_f64).exp())).abs() < 1e-12);
        // Of a hundred million exchanges, 0.3 are to be expected: one is chance, five are not.
        let expected = 1e8 * of_exchange;
        assert!(tail(1, expected) > CHANCE && tail(5, expected) < CHANCE);
    }

    #[test]
    fn options_are_numbers_above_0() {
        let read = |line: &str| {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            numbers(&words, [("--seeds", 200), ("--first", 1)])
        };
        assert_eq!(read("--first 9").expect("valid"), [200, 9]);
        for bad in ["--seeds", "--seeds 0", "--first x", "--count 3"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
