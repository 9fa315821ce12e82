//! A crowd of observers on one resource, told of changes: `carob serve` and libcoap in turns.
//!
//! Every slice is a server of its own: it hears the observers register, each from a port of its own,
//! and then changes the resource some times. What counts is the time until all were told, and the
//! server's CPU time per notification; of its memory, what an observer costs beyond the message
//! that registered it.

use std::{fmt::Write as _, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::options;
use super::server::{FIRST_SOURCE_PORT, free_port, number, on_core};
use super::statistics::median;
use crate::{
    process::{self, Server},
    workspace::Workspace,
};

const HELP: &str = "\
cargo xtask bench observe [OPTION...]

N clients observe one resource; each change is told to all of them in NON messages (as libcoap does,
which sends every fifth as CON).

  --rounds N         slices of each server, in turn (5)
  --observers N      observers (1000)
  --changes N        changes in a slice (20)
";

struct Options {
    rounds: u32,
    observers: u32,
    changes: u32,
}

/// A server under test: how it is started, which resource changes and how it is made to.
struct Kind {
    name: &'static str,
    start: fn(&Path, u16) -> Command,
    path: &'static str,
    /// Changed by PUT instead of POST.
    put: bool,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "carob",
        start: |carob, port| {
            let mut command = on_core(0, carob);
            command.args(["serve", "--bind", &format!("127.0.0.1:{port}")]);
            command
        },
        path: "count",
        put: false,
    },
    Kind {
        name: "libcoap",
        start: |_, port| {
            let mut command = on_core(0, Path::new("coap-server-notls"));
            // `-N`: notifications are NON, but for every fifth.
            command.args(["-N", "-A", "127.0.0.1", "-p", &port.to_string()]);
            command
        },
        path: "example_data",
        put: true,
    },
];

/// What was found of one server, a figure a slice.
#[derive(Default)]
struct Figures {
    all_told_ms: Vec<f64>,
    cpu_us: Vec<f64>,
    bytes: Vec<f64>,
    missing: f64,
}

pub(super) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let Some(options) = parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    ensure!(
        process::find("taskset").is_some(),
        "`taskset` pins the programs to cores (Debian: `apt-get install util-linux`)"
    );
    let mut build = process::cargo();
    build.args(["build", "--release", "--package", "carob-cli"]);
    process::must(build.current_dir(&workspace.root))?;
    let carob = workspace.target()?.join("release/carob");
    let tools = workspace.target()?.join("bench-tools");
    let source = workspace.root.join("tools/coapload/coapload.c");
    let generator = process::compile_c(&source, &tools, &[])?;
    let mut figures: [Figures; 2] = Default::default();
    for round in 1..=options.rounds {
        for (kind, figures) in KINDS.iter().zip(&mut figures) {
            if kind.name == "libcoap" && process::find("coap-server-notls").is_none() {
                println!("skipped: libcoap (install: cargo xtask peers)");
                continue;
            }
            slice(&generator, &carob, &options, kind, figures)?;
            let last = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
            println!(
                "round {round}  {:<8} all told in {:>6.2} ms, {:>5.2} us CPU a notification",
                kind.name,
                last(&figures.all_told_ms),
                last(&figures.cpu_us)
            );
        }
    }
    print!("\n{}", table(&options, &figures));
    Ok(())
}

fn slice(
    generator: &Path,
    carob: &Path,
    options: &Options,
    kind: &Kind,
    figures: &mut Figures,
) -> Result<()> {
    let observers = options.observers.to_string();
    // What the messages themselves cost to remember, on a server of its own.
    let plain = ["-m", "peers", "-n", &observers];
    let plain = generate(generator, carob, kind, &plain)?;
    let plain_kb = number(&plain, "rss1_kb") - number(&plain, "rss0_kb");
    let changes = options.changes.to_string();
    let mut observe = vec!["-m", "observe", "-s", &observers, "-n", &changes];
    observe.extend(["-x", kind.path]);
    if kind.put {
        observe.push("-X");
    }
    let told = generate(generator, carob, kind, &observe)?;
    let registered = number(&told, "registered");
    ensure!(
        registered as u32 == options.observers,
        "{}: {registered} of {observers} observers were registered",
        kind.name
    );
    let kb = number(&told, "rss_reg_kb") - number(&told, "rss_before_kb");
    figures.all_told_ms.push(number(&told, "ms_med"));
    figures.cpu_us.push(number(&told, "srv_cpu_us_per_notif"));
    figures
        .bytes
        .push((kb - plain_kb) * 1024.0 / f64::from(options.observers));
    figures.missing += number(&told, "missing");
    Ok(())
}

/// Runs the generator against a server that is started for it.
fn generate(generator: &Path, carob: &Path, kind: &Kind, mode: &[&str]) -> Result<Value> {
    let port = free_port()?;
    let mut server = Server::start(kind.name, &mut (kind.start)(carob, port))?;
    server.wait_for_answer(port, b"\x40\x01\x00\x01")?;
    let mut command = on_core(1, generator);
    command
        .args(["-u", kind.path, "-p", &port.to_string()])
        .args(["-P", &server.id().to_string()])
        .args(["-b", &FIRST_SOURCE_PORT.to_string()])
        .args(mode);
    let text = process::output(&mut command)?;
    serde_json::from_str(text.trim()).with_context(|| format!("the generator printed {text:?}"))
}

fn table(options: &Options, figures: &[Figures]) -> String {
    let mut text = format!(
        "{} observers of one resource, {} changes, {} slices\n\n\
         server    all told ms   CPU us/notification   bytes/observer   not told\n",
        options.observers, options.changes, options.rounds
    );
    for (kind, figures) in KINDS.iter().zip(figures) {
        let of = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "{:<9} {:>11.2} {:>21.2} {:>16.0} {:>10.0}",
            kind.name,
            of(&figures.all_told_ms),
            of(&figures.cpu_us),
            of(&figures.bytes),
            figures.missing
        ); // a String takes every write
    }
    text.push_str("(medians of the slices, whose own times are medians of their changes)\n");
    text
}

fn parse(arguments: &[String]) -> Result<Option<Options>> {
    let mut options = Options {
        rounds: 5,
        observers: 1_000,
        changes: 20,
    };
    let asked = options::read("observe", arguments, |given| {
        let number = match given.name {
            "--rounds" => &mut options.rounds,
            "--observers" => &mut options.observers,
            "--changes" => &mut options.changes,
            _ => return Ok(false),
        };
        *number = given.number()?;
        ensure!(*number >= 1, "`{}` must be at least 1", given.name);
        Ok(true)
    })?;
    if !asked {
        return Ok(None);
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Option<Options>> {
        let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let options = parsed("").expect("no option is valid").expect("no help");
        assert_eq!((options.rounds, options.observers), (5, 1_000));
    }

    #[test]
    fn unknown_options_and_values_are_errors() {
        for words in ["--round 3", "--rounds many", "--rounds", "--observers 0"] {
            assert!(parsed(words).is_err(), "{words}");
        }
    }
}
