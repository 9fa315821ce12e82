//! `cargo xtask bench`: Carob and other implementations in turns, server and generator on a core each. It prints medians;
//! nothing is asserted about time, because machines differ.

mod controllers;
mod servers;

use std::{fmt::Write as _, fs, process::Command};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{process, workspace::Workspace};
use servers::{Resource, Tools, number};

pub(crate) const HELP: &str = "\
cargo xtask bench NAME [OPTION...]

  budgets      all budgets of the stack, beside libcoap and Californium; 3 rounds, some 10 minutes
  server       confirmable GET (14 bytes) with a piggybacked response of 32 bytes, closed loop: CPU time of the
               server; `handler` is `carob serve` with a response of a handler
  observe      notification of a group of observers, and memory of an observer
  block        a body of 1 MiB in blocks of 1,024 bytes, by one client and by sixteen at once
  codec        decoding and encoding beside libcoap
  generator    CPU time of `carob bench` and tools/coapload
  controllers  state, flash on a Cortex-M4 and time of a step: crates/cc/results/costs.md

  --rounds N         rounds of all programs in turn (5)
  --seconds S        length of a slice of server and generator (3)
  --outstanding N    outstanding requests of server (64)
  --ports N          source ports of server (16)
  --known-peers N    peers that each server knows before (0)
  --cc NAME          controller of `carob serve` (its default)
  --observers N      observers (1000)
  --changes N        changes of the resource in a slice of observe (20)
  --bodies N         bodies of a client in a slice of block (10)
  --out FILE         write all values as JSON
";

const PARALLEL: &str = "16";
/// Ratio of the numbers of observers between which memory is a slope: resident memory grows in steps.
const LARGER: u32 = 8;
/// Peers of the budget of known peers.
const KNOWN_PEERS: u32 = 10_000;
/// The static library: the shared one does not export the encoding of a header.
const LIBCOAP: &str = "-l:libcoap-3-notls.a";
/// Operations of `crates/codec/benches/codec.rs` that are the base of a ratio.
const CODEC_BASES: [&str; 2] = ["carob decode (parse, token, every option)", "carob encode"];

#[derive(Clone, Debug)]
struct Options {
    rounds: u32,
    seconds: f64,
    outstanding: u32,
    ports: u32,
    known_peers: u32,
    controller: Option<String>,
    observers: u32,
    changes: u32,
    bodies: u32,
    out: Option<String>,
}

impl Options {
    fn read(words: &[String]) -> Result<Self> {
        let mut options = Self {
            rounds: 5,
            seconds: 3.0,
            outstanding: 64,
            ports: 16,
            known_peers: 0,
            controller: None,
            observers: 1_000,
            changes: 20,
            bodies: 10,
            out: None,
        };
        for pair in words.chunks(2) {
            let [name, value] = pair else {
                bail!("`{}` needs a value", pair[0]);
            };
            let place = match name.as_str() {
                "--rounds" => &mut options.rounds,
                "--outstanding" => &mut options.outstanding,
                "--ports" => &mut options.ports,
                "--known-peers" => &mut options.known_peers,
                "--observers" => &mut options.observers,
                "--changes" => &mut options.changes,
                "--bodies" => &mut options.bodies,
                "--seconds" => {
                    options.seconds = value.parse().with_context(|| pair.join(" "))?;
                    continue;
                }
                "--cc" => {
                    options.controller = Some(value.clone());
                    continue;
                }
                "--out" => {
                    options.out = Some(value.clone());
                    continue;
                }
                _ => bail!("unknown option `{name}`; `cargo xtask bench` lists them"),
            };
            *place = value.parse().with_context(|| pair.join(" "))?;
        }
        let least = [
            options.rounds,
            options.observers,
            options.changes,
            options.bodies,
        ];
        ensure!(
            !least.contains(&0),
            "rounds, observers, changes and bodies are at least 1"
        );
        ensure!(
            (1..=options.outstanding).contains(&options.ports),
            "1 <= ports <= outstanding"
        );
        Ok(options)
    }
}

/// Runs one benchmark by name.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{HELP}");
        return Ok(());
    };
    let mut options = Options::read(rest)?;
    if name == "budgets" && !rest.iter().any(|word| word == "--rounds") {
        options.rounds = 3;
    }
    let results = match name.as_str() {
        "server" => server(workspace, &options)?,
        "observe" => observe(workspace, &options)?,
        "block" => block(workspace, &options)?,
        "generator" => generator(workspace, &options)?,
        "codec" => codec(workspace, &options)?,
        "budgets" => budgets(workspace, &options)?,
        "controllers" => return controllers::run(workspace),
        _ => bail!("no benchmark is called `{name}`\n\n{HELP}"),
    };
    print!("\n{}", results.table());
    println!(
        "(medians of {} rounds; ratios within a round)",
        options.rounds
    );
    if let Some(out) = &options.out {
        let text = serde_json::to_string_pretty(&results.to_json())?;
        fs::write(out, text + "\n").with_context(|| format!("cannot write {out}"))?;
    }
    Ok(())
}

/// CPU time per request, which does not depend on the speed of the generator.
fn server(workspace: &Workspace, options: &Options) -> Result<Results> {
    let tools = Tools::build(workspace)?;
    let mut servers = Vec::new();
    for name in ["bare", "libcoap", "californium", "carob", "handler"] {
        servers.extend(tools.start(name, Resource::Small, options.controller.as_deref())?);
    }
    let mut results = Results::default();
    let known = options.known_peers.to_string();
    for server in servers.iter_mut().filter(|_| options.known_peers > 0) {
        let slice = tools.load(
            server,
            &["-m", "peers", "-n", &known, "-w", "64", "-s", "64"],
        )?;
        let bytes = (number(&slice, "rss1_kb") - number(&slice, "rss0_kb")) * 1024.0;
        results.add(server.name, "bytes a peer", bytes / number(&slice, "ok"));
    }
    let (outstanding, ports) = (options.outstanding.to_string(), options.ports.to_string());
    let seconds = options.seconds.to_string();
    let mode = [
        "-m",
        "con",
        "-w",
        &outstanding,
        "-s",
        &ports,
        "-d",
        &seconds,
    ];
    for round in 1..=options.rounds {
        let mut bare = None;
        for server in &mut servers {
            let slice = tools.load(server, &mode)?;
            let cpu = number(&slice, "us_per_req");
            results.add(server.name, "CPU us", cpu);
            results.add(server.name, "x bare", cpu / *bare.get_or_insert(cpu));
            for (metric, key) in [
                ("p50 us", "p50us"),
                ("p99 us", "p99us"),
                ("requests/s", "rate"),
            ] {
                results.add(server.name, metric, number(&slice, key));
            }
            results.print(round, server.name);
        }
    }
    Ok(results)
}

/// Time until all observers are notified, and memory of an observer beyond the message that registered it. Every slice
/// has a fresh server.
fn observe(workspace: &Workspace, options: &Options) -> Result<Results> {
    let tools = Tools::build(workspace)?;
    let mut results = Results::default();
    for round in 1..=options.rounds {
        for name in ["carob", "libcoap", "californium"] {
            let few = observers(&tools, name, options.observers, options.changes)?;
            let many = observers(&tools, name, options.observers * LARGER, 1)?;
            let (Some((slice, few)), Some((_, many))) = (few, many) else {
                continue;
            };
            results.add(name, "all notified ms", number(&slice, "ms_med"));
            results.add(name, "CPU us", number(&slice, "srv_cpu_us_per_notif"));
            let more = f64::from(options.observers * (LARGER - 1));
            results.add(name, "bytes an observer", (many - few) * 1024.0 / more);
            results.add(name, "missing", number(&slice, "missing"));
            results.print(round, name);
        }
    }
    Ok(results)
}

/// A slice of observers, and the KiB that they take beyond as many clients without observation.
fn observers(
    tools: &Tools,
    name: &'static str,
    count: u32,
    changes: u32,
) -> Result<Option<(Value, f64)>> {
    let (of, changes) = (count.to_string(), changes.to_string());
    let plain = ["-m", "peers", "-n", &of, "-w", "64", "-s", "64"];
    let Some(plain) = tools.load_fresh(name, Resource::Observed, &plain)? else {
        return Ok(None);
    };
    let path = servers::path(name, Resource::Observed);
    // The resource of libcoap changes by PUT.
    let put: &[&str] = if name == "libcoap" { &["-X"] } else { &[] };
    let mode = [
        &["-m", "observe", "-s", &of, "-n", &changes, "-x", path],
        put,
    ]
    .concat();
    let slice = tools.load_fresh(name, Resource::Observed, &mode)?;
    let slice = slice.context("the server has started before")?;
    let registered = number(&slice, "registered") as u32;
    ensure!(
        registered == count,
        "{name}: {registered} of {count} observers were registered"
    );
    let grown = |slice: &Value, from, to| number(slice, to) - number(slice, from);
    let kb = grown(&slice, "rss_before_kb", "rss_reg_kb") - grown(&plain, "rss0_kb", "rss1_kb");
    Ok(Some((slice, kb)))
}

/// Time and throughput of block-wise bodies.
fn block(workspace: &Workspace, options: &Options) -> Result<Results> {
    let tools = Tools::build(workspace)?;
    let mut servers = Vec::new();
    for name in ["carob", "libcoap", "californium"] {
        servers.extend(tools.start(name, Resource::Body, None)?);
    }
    let bodies = options.bodies.to_string();
    let mut results = Results::default();
    for round in 1..=options.rounds {
        for server in &mut servers {
            let alone = tools.load(server, &["-m", "block", "-s", "1", "-n", &bodies])?;
            let parallel = tools.load(server, &["-m", "block", "-s", PARALLEL, "-n", &bodies])?;
            results.add(server.name, "ms alone", number(&alone, "ms_med"));
            results.add(
                server.name,
                "CPU us a block",
                number(&alone, "srv_cpu_us_per_block"),
            );
            results.add(server.name, "MB/s by 16", number(&parallel, "MBps"));
            results.print(round, server.name);
        }
    }
    Ok(results)
}

/// CPU time of the generators. Every slice has a fresh server, because the cost of libcoap grows with the source ports
/// that it knows.
fn generator(workspace: &Workspace, options: &Options) -> Result<Results> {
    let tools = Tools::build(workspace)?;
    let seconds = options.seconds.to_string();
    // `-k`: it sleeps while nothing arrives, as `carob bench` does.
    let mode = ["-k", "-m", "con", "-w", "64", "-s", "16", "-d", &seconds];
    let mut results = Results::default();
    for round in 1..=options.rounds {
        for server in ["carob", "libcoap"] {
            let Some(slice) = tools.load_fresh(server, Resource::Small, &mode)? else {
                continue;
            };
            let cpu = number(&slice, "gen_cpu") * number(&slice, "secs");
            let base = cpu * 1e6 / number(&slice, "ok");
            let name = format!("coapload, {server}");
            results.add(&name, "generator us", base);
            results.add(&name, "x coapload", 1.0);
            results.add(&name, "server us", number(&slice, "us_per_req"));
            results.add(&name, "requests/s", number(&slice, "rate"));
            results.print(round, &name);
            let report = tools.carob_bench(server, options.seconds)?;
            let own = number(&report["generator"], "cpu_us_each");
            let name = format!("carob bench, {server}");
            results.add(&name, "generator us", own);
            results.add(&name, "x coapload", own / base);
            results.add(&name, "server us", number(&report["server"], "cpu_us_each"));
            results.add(&name, "requests/s", number(&report, "rate_per_s"));
            results.print(round, &name);
        }
    }
    Ok(results)
}

/// Times of the benchmark of `carob-codec` and of tools/codecbench, which print lines `PROGRAM OPERATION NUMBER ns`.
fn codec(workspace: &Workspace, options: &Options) -> Result<Results> {
    let source = workspace.root.join("tools/codecbench/libcoap_codec.c");
    let tools = workspace.target()?.join("bench-tools");
    let libcoap = process::compile_c(&source, &tools, &[LIBCOAP]);
    let mut results = Results::default();
    for round in 1..=options.rounds {
        println!("round {round} of {}", options.rounds);
        let mut own = process::cargo();
        own.args([
            "bench",
            "--quiet",
            "--package",
            "carob-codec",
            "--bench",
            "codec",
        ]);
        let mut text = process::output(own.current_dir(&workspace.root))?;
        match &libcoap {
            Ok(program) => text += &process::output(&mut Command::new(program))?,
            Err(_) => println!("skipped: libcoap (cargo xtask peers)"),
        }
        let times = times(&text);
        for (name, ns) in &times {
            let kind = name.split(' ').nth(1);
            let base = CODEC_BASES
                .iter()
                .find(|base| base.split(' ').nth(1) == kind);
            let base = base.and_then(|base| times.iter().find(|(name, _)| name == base));
            results.add(name, "ns", *ns);
            results.add(
                name,
                "x carob",
                base.map_or(f64::NAN, |(_, base)| ns / base),
            );
        }
    }
    let missing = CODEC_BASES
        .iter()
        .find(|base| results.median(base, "ns").is_none());
    ensure!(
        missing.is_none(),
        "crates/codec/benches/codec.rs does not measure {missing:?}"
    );
    Ok(results)
}

/// Names and nanoseconds of lines `NAME NUMBER ns`.
fn times(text: &str) -> Vec<(String, f64)> {
    let time = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let unit = words.iter().position(|word| *word == "ns")?;
        let (number, name) = words[..unit].split_last()?;
        let name = name.join(" ").trim_end_matches(':').to_owned();
        (!name.is_empty()).then_some((name, number.parse().ok()?))
    };
    text.lines().filter_map(time).collect()
}

/// All budgets (docs/performance.md) with the values of the other benchmarks.
fn budgets(workspace: &Workspace, options: &Options) -> Result<Results> {
    const PROGRAMS: [&str; 3] = ["carob", "libcoap", "californium"];
    let fresh = server(workspace, options)?;
    let crowd = Options {
        known_peers: KNOWN_PEERS,
        ..options.clone()
    };
    let crowd = server(workspace, &crowd)?;
    let codec = codec(workspace, options)?;
    let observe = observe(workspace, options)?;
    let block = block(workspace, options)?;
    let operation = |program: &str, kind: &str| {
        let least = |text: &str| codec.least_median(&format!("{program} {kind}"), text, "ns");
        // Decoding counts with every option read.
        least(if kind == "decode" { "every option" } else { "" })
    };
    let mut results = Results::default();
    for name in PROGRAMS {
        let known = crowd
            .median(name, "x bare")
            .zip(fresh.median(name, "x bare"));
        for (metric, budget, value) in [
            ("GET, x bare", 1.2, fresh.median(name, "x bare")),
            (
                "10,000 known peers, x none",
                1.1,
                known.map(|(with, none)| with / none),
            ),
            ("decode ns", 40.0, operation(name, "decode")),
            ("encode ns", 40.0, operation(name, "encode")),
            (
                "1,000 observers notified ms",
                4.0,
                observe.median(name, "all notified ms"),
            ),
            (
                "an observer B",
                300.0,
                observe.median(name, "bytes an observer"),
            ),
            ("1 MiB by Block2 ms", 30.0, block.median(name, "ms alone")),
        ] {
            if name == "carob" {
                results.add("budget", metric, budget);
            }
            if let Some(value) = value {
                results.add(name, metric, value);
            }
        }
    }
    Ok(results)
}

/// Values of a benchmark by program and metric, one a round.
#[derive(Debug, Default)]
struct Results(Vec<(String, &'static str, Vec<f64>)>);

impl Results {
    fn add(&mut self, program: &str, metric: &'static str, value: f64) {
        let mut known = self.0.iter_mut();
        match known.find(|(name, of, _)| name == program && *of == metric) {
            Some((.., values)) => values.push(value),
            None => self.0.push((program.to_owned(), metric, vec![value])),
        }
    }

    fn values(&self, program: &str, metric: &str) -> Option<&Vec<f64>> {
        let mut known = self.0.iter();
        let found = known.find(|(name, of, _)| name == program && *of == metric)?;
        Some(&found.2)
    }

    /// The middle value, or the mean of the two middle ones.
    fn median(&self, program: &str, metric: &str) -> Option<f64> {
        let mut sorted = self.values(program, metric)?.clone();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(f64::midpoint(low, high))
    }

    /// The least median of programs whose name begins with `prefix` and contains `text`.
    fn least_median(&self, prefix: &str, text: &str, metric: &str) -> Option<f64> {
        let names = self.0.iter().map(|(name, ..)| name);
        let names = names.filter(|name| name.starts_with(prefix) && name.contains(text));
        names
            .filter_map(|name| self.median(name, metric))
            .min_by(f64::total_cmp)
    }

    /// Prints the last round of a program.
    fn print(&self, round: u32, program: &str) {
        let rows = self.0.iter().filter(|(name, ..)| name == program);
        let cells = rows.map(|(_, metric, values)| {
            let last = values.last().copied().unwrap_or(f64::NAN);
            format!("{} {metric}", digits(last))
        });
        let cells: Vec<String> = cells.collect();
        println!("round {round}  {program:<12} {}", cells.join(", "));
    }

    /// Medians: a line for each program, a column for each metric; more columns than lines are transposed.
    fn table(&self) -> String {
        let (mut programs, mut metrics) = (Vec::new(), Vec::new());
        for (program, metric, _) in &self.0 {
            if !programs.contains(&program.as_str()) {
                programs.push(program.as_str());
            }
            if !metrics.contains(metric) {
                metrics.push(metric);
            }
        }
        let is_transposed = metrics.len() > programs.len() + 2;
        let (lines, columns) = if is_transposed {
            (&metrics, &programs)
        } else {
            (&programs, &metrics)
        };
        let width = lines.iter().map(|line| line.len()).max().unwrap_or(0);
        let mut text = format!("{:<width$}", "");
        for column in columns {
            let _ = write!(text, "  {column:>9}"); // a String takes every write
        }
        for line in lines {
            let _ = write!(text, "\n{line:<width$}");
            for column in columns {
                let (program, metric) = if is_transposed {
                    (column, line)
                } else {
                    (line, column)
                };
                let value = self.median(program, metric).map_or("-".to_owned(), digits);
                let _ = write!(text, "  {value:>0$}", column.len().max(9));
            }
        }
        text + "\n"
    }

    fn to_json(&self) -> Value {
        let rows = self.0.iter();
        rows.map(|(program, metric, values)| {
            serde_json::json!({ "program": program, "metric": metric, "values": values })
        })
        .collect()
    }
}

fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Options> {
        let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        Options::read(&words)
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let options = read("").expect("valid options");
        let numbers = [
            options.rounds,
            options.outstanding,
            options.ports,
            options.observers,
        ];
        assert_eq!(numbers, [5, 64, 16, 1_000]);
        assert_eq!(
            read("--rounds 3 --cc fasor").expect("valid options").rounds,
            3
        );
    }

    #[test]
    fn unknown_options_and_values_are_errors() {
        for words in [
            "--round 3",
            "--rounds many",
            "--rounds",
            "--rounds 0",
            "--ports 65",
            "--bodies 0",
        ] {
            assert!(read(words).is_err(), "{words}");
        }
    }

    #[test]
    fn times_are_read_from_lines_with_a_unit() {
        let text = "running\nx decode GET, 5 options:   37.5 ns\nx encode 40 ns  (x2)\nns\n";
        let expected = [
            ("x decode GET, 5 options".to_owned(), 37.5),
            ("x encode".to_owned(), 40.0),
        ];
        assert_eq!(times(text), expected);
    }

    #[test]
    fn tables_show_medians() {
        let mut results = Results::default();
        for value in [3.0, 100.0, 1.0] {
            results.add("a", "ms", value);
        }
        results.add("b", "us", 2.0);
        results.add("b", "us", 4.0);
        assert_eq!(
            (results.median("a", "ms"), results.median("b", "us")),
            (Some(3.0), Some(3.0))
        );
        assert_eq!(results.median("a", "us"), None);
        assert!(
            results.table().contains("a       3.00          -\n"),
            "{}",
            results.table()
        );
    }
}
