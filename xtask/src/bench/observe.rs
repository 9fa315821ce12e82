//! Notification of a crowd of observers on one resource: `carob serve`, libcoap and Californium in turns.
//!
//! Every slice is a server of its own: the observers register, each from a port of its own,
//! and then changes the resource some times. What counts is the time until all are notified, and the
//! server's CPU time per notification; of its memory, what an observer costs beyond the message
//! that registered it. That is a slope, between a crowd and one eight times as large: what a server
//! takes for its first peers, and the steps in which it takes more, would else be counted, too.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::options;
use super::statistics::median;
use super::subjects::{self, FIRST_SOURCE_PORT, free_port, number, on_core};
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

pub(super) struct Options {
    pub(super) rounds: u32,
    pub(super) observers: u32,
    pub(super) changes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 5,
            observers: 1_000,
            changes: 20,
        }
    }
}

/// Ratio of the second crowd's size to the first, by which memory is measured.
const LARGER: u32 = 8;

/// A server under test: how it is started, if it is there, which resource changes and how it is made to.
struct Kind {
    name: &'static str,
    start: fn(&Programs<'_>, u16) -> Option<Command>,
    path: &'static str,
    /// Changed by PUT instead of POST.
    put: bool,
}

struct Programs<'a> {
    workspace: &'a Workspace,
    carob: PathBuf,
    generator: PathBuf,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "carob",
        start: |programs, port| {
            let mut command = on_core(0, &programs.carob);
            command.args(["serve", "--bind", &format!("127.0.0.1:{port}")]);
            Some(command)
        },
        path: "count",
        put: false,
    },
    Kind {
        name: "libcoap",
        start: |_, port| {
            process::find("coap-server-notls")?;
            let mut command = on_core(0, Path::new("coap-server-notls"));
            // `-N`: notifications are NON, but for every fifth.
            command.args(["-N", "-A", "127.0.0.1", "-p", &port.to_string()]);
            Some(command)
        },
        path: "example_data",
        put: true,
    },
    Kind {
        name: "californium",
        start: |programs, port| subjects::californium(programs.workspace, port),
        path: "told",
        put: false,
    },
];

/// Results for one server, a figure a slice.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) name: &'static str,
    pub(super) all_told_ms: Vec<f64>,
    cpu_us: Vec<f64>,
    pub(super) bytes: Vec<f64>,
    missing: f64,
}

pub(super) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let Some(options) = parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    let figures = slices(workspace, &options)?;
    print!("\n{}", table(&options, &figures));
    Ok(())
}

/// Measures every server that there is, in turns.
pub(super) fn slices(workspace: &Workspace, options: &Options) -> Result<Vec<Figures>> {
    subjects::need_two_cores()?;
    let programs = Programs {
        workspace,
        carob: subjects::carob(workspace)?,
        generator: subjects::tool(workspace, "coapload")?,
    };
    let mut found = Vec::new();
    for kind in &KINDS {
        if (kind.start)(&programs, free_port()?).is_none() {
            println!("skipped: {} (install: cargo xtask peers)", kind.name);
            continue;
        }
        let name = kind.name;
        found.push((
            kind,
            Figures {
                name,
                ..Figures::default()
            },
        ));
    }
    for round in 1..=options.rounds {
        for (kind, figures) in &mut found {
            slice(&programs, options, kind, figures)?;
            let last = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
            println!(
                "round {round}  {:<11} all told in {:>6.2} ms, {:>5.2} us CPU a notification, {:.0} bytes",
                kind.name,
                last(&figures.all_told_ms),
                last(&figures.cpu_us),
                last(&figures.bytes)
            );
        }
    }
    Ok(found.into_iter().map(|(_, figures)| figures).collect())
}

fn slice(
    programs: &Programs<'_>,
    options: &Options,
    kind: &Kind,
    figures: &mut Figures,
) -> Result<()> {
    let mut beyond = [0.0; 2];
    for (times, beyond) in [1, LARGER].into_iter().zip(&mut beyond) {
        let observers = options.observers * times;
        let of = observers.to_string();
        // What the messages themselves cost to remember, on a server of its own.
        let plain = ["-m", "peers", "-n", &of, "-w", "64", "-s", "64"];
        let plain = generate(programs, kind, &plain)?;
        let plain_kb = number(&plain, "rss1_kb") - number(&plain, "rss0_kb");
        let changes = if times == 1 { options.changes } else { 1 }.to_string();
        let mut observe = vec!["-m", "observe", "-s", &of, "-n", &changes];
        observe.extend(["-x", kind.path]);
        if kind.put {
            observe.push("-X");
        }
        let told = generate(programs, kind, &observe)?;
        let registered = number(&told, "registered");
        ensure!(
            registered as u32 == observers,
            "{}: {registered} of {observers} observers were registered",
            kind.name
        );
        let kb = number(&told, "rss_reg_kb") - number(&told, "rss_before_kb");
        *beyond = kb - plain_kb;
        if times == 1 {
            figures.all_told_ms.push(number(&told, "ms_med"));
            figures.cpu_us.push(number(&told, "srv_cpu_us_per_notif"));
            figures.missing += number(&told, "missing");
        }
    }
    let more = options.observers * (LARGER - 1);
    figures
        .bytes
        .push((beyond[1] - beyond[0]) * 1024.0 / f64::from(more));
    Ok(())
}

/// Runs the generator against a server that is started for it.
fn generate(programs: &Programs<'_>, kind: &Kind, mode: &[&str]) -> Result<Value> {
    let port = free_port()?;
    let mut start = (kind.start)(programs, port).context("it was there before")?;
    let mut server = Server::start(kind.name, &mut start)?;
    server.wait_for_answer(port, b"\x40\x01\x00\x01")?;
    let mut command = on_core(1, &programs.generator);
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
         server      all told ms   CPU us/notification   bytes/observer   not told\n",
        options.observers, options.changes, options.rounds
    );
    for figures in figures {
        let of = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "{:<11} {:>11.2} {:>21.2} {:>16.0} {:>10.0}",
            figures.name,
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
    let mut options = Options::default();
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
