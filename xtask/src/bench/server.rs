//! Server CPU per request: a bare socket loop, libcoap, Californium and `carob serve`, in turns; of that
//! also with a handler.
//!
//! Each server runs on core 0 and the generator on core 1. CPU time per answer is what counts: it
//! does not depend on how fast the generator is. The programs alternate in every round, because
//! machines drift.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::options;
use super::statistics::{median, median_ratio};
use super::subjects::{self, GET_HELLO, PAYLOAD_BYTES, Subject, generate, number};
use crate::workspace::Workspace;

const HELP: &str = "\
cargo xtask bench server [OPTION...]

Confirmable GET /hello (14 bytes) answered by a piggybacked 2.05 with 32 bytes, closed loop. The last
server is another `carob serve`, whose answers come from a handler (GET /count, 1 byte).

  --rounds N         rounds of all servers in turn (5)
  --seconds S        length of one slice (3)
  --outstanding N    requests outstanding at a time (64)
  --ports N          source ports they are spread over (16)
  --known-peers N    let each server hear N other peers first (0)
  --cc NAME          the controller of `carob serve` (its default)
  --out FILE         write every slice and the summary as JSON
";

pub(super) struct Options {
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    pub(super) outstanding: u32,
    pub(super) ports: u32,
    pub(super) known_peers: u32,
    pub(super) controller: Option<String>,
    pub(super) out: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 5,
            seconds: 3.0,
            outstanding: 64,
            ports: 16,
            known_peers: 0,
            controller: None,
            out: None,
        }
    }
}

pub(super) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let Some(options) = parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    let subjects = slices(workspace, &options)?;
    print!("\n{}", table(&options, &subjects));
    if let Some(out) = &options.out {
        let text = serde_json::to_string_pretty(&document(&options, &subjects))?;
        fs::write(out, text + "\n").with_context(|| format!("cannot write {}", out.display()))?;
        println!("\nwritten to {}", out.display());
    }
    Ok(())
}

/// Measures every server that there is, in turns.
pub(super) fn slices(workspace: &Workspace, options: &Options) -> Result<Vec<Subject>> {
    subjects::need_two_cores()?;
    let generator = subjects::tool(workspace, "coapload")?;
    let mut subjects = subjects::all(workspace, options.controller.as_deref())?;
    if options.known_peers > 0 {
        for subject in &mut subjects {
            introduce_peers(&generator, options, subject)?;
        }
    }
    for round in 1..=options.rounds {
        for subject in &mut subjects {
            measure(&generator, options, subject)?;
            let slice = &subject.slices[subject.slices.len() - 1];
            println!(
                "round {round}  {:<11} {:>7.2} us/request  {:>8.0} requests/s{}",
                subject.name,
                number(slice, "us_per_req"),
                number(slice, "rate"),
                trouble(slice)
            );
        }
    }
    Ok(subjects)
}

fn parse(arguments: &[String]) -> Result<Option<Options>> {
    let mut options = Options::default();
    let asked = options::read("server", arguments, |given| {
        match given.name {
            "--rounds" => options.rounds = given.number()?,
            "--seconds" => options.seconds = given.number()?,
            "--outstanding" => options.outstanding = given.number()?,
            "--ports" => options.ports = given.number()?,
            "--known-peers" => options.known_peers = given.number()?,
            "--cc" => options.controller = Some(given.value.to_owned()),
            "--out" => options.out = Some(PathBuf::from(given.value)),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if !asked {
        return Ok(None);
    }
    ensure!(options.rounds >= 1, "`--rounds` must be at least 1");
    ensure!(
        options.ports >= 1 && options.ports <= options.outstanding,
        "1 <= ports <= outstanding"
    );
    Ok(Some(options))
}

fn introduce_peers(generator: &Path, options: &Options, subject: &mut Subject) -> Result<()> {
    let count = options.known_peers.to_string();
    let slice = generate(
        generator,
        subject,
        &["-m", "peers", "-n", &count, "-w", "64", "-s", "64"],
    )?;
    println!(
        "{:<11} {} peers introduced, {:.0} bytes of memory each",
        subject.name,
        number(&slice, "ok"),
        bytes_per_peer(&slice)
    );
    subject.peers = Some(slice);
    Ok(())
}

fn bytes_per_peer(slice: &Value) -> f64 {
    (number(slice, "rss1_kb") - number(slice, "rss0_kb")) * 1024.0 / number(slice, "ok")
}

fn measure(generator: &Path, options: &Options, subject: &mut Subject) -> Result<()> {
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
    let slice = generate(generator, subject, &mode)?;
    subject.slices.push(slice);
    Ok(())
}

/// A note for the figure: requests without a response in time.
fn trouble(slice: &Value) -> String {
    let lost = number(slice, "lost");
    if lost > 0.0 {
        format!("  ({lost} unanswered within 1 s)")
    } else {
        String::new()
    }
}

fn table(options: &Options, subjects: &[Subject]) -> String {
    let mut text = format!(
        "CON GET of {} bytes, {PAYLOAD_BYTES} bytes back, {} outstanding over {} ports, {} known peers, \
         {} rounds of {} s\n\n",
        GET_HELLO.len(),
        options.outstanding,
        options.ports,
        options.known_peers,
        options.rounds,
        options.seconds
    );
    text.push_str("server      CPU us/request   x bare   p50 us   p99 us   requests/s\n");
    let bases = subjects[0].figures("us_per_req");
    for subject in subjects {
        let of = |key| median(&subject.figures(key)).unwrap_or(f64::NAN);
        let ratio = median_ratio(&subject.figures("us_per_req"), &bases).unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "{:<11} {:>14.2} {ratio:>8.2} {:>8.0} {:>8.0} {:>12.0}",
            subject.name,
            of("us_per_req"),
            of("p50us"),
            of("p99us"),
            of("rate")
        ); // a String takes every write
    }
    text.push_str("(medians of the rounds; the ratio is the median of the rounds' ratios)\n");
    text
}

fn document(options: &Options, subjects: &[Subject]) -> Value {
    let bases = subjects[0].figures("us_per_req");
    let servers: Vec<Value> = subjects
        .iter()
        .map(|subject| {
            let figures = subject.figures("us_per_req");
            json!({
                "server": subject.name,
                "us_per_request": median(&figures),
                "ratio_to_bare": median_ratio(&figures, &bases),
                "bytes_per_known_peer": subject.peers.as_ref().map(bytes_per_peer),
                "slices": subject.slices,
            })
        })
        .collect();
    json!({
        "benchmark": "server",
        "outstanding": options.outstanding,
        "ports": options.ports,
        "known_peers": options.known_peers,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "controller": options.controller,
        "servers": servers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Option<Options>> {
        parse(
            &words
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let options = parsed("")
            .expect("no option is valid")
            .expect("no help was asked for");
        assert_eq!(
            (options.outstanding, options.ports, options.known_peers),
            (64, 16, 0)
        );
    }

    #[test]
    fn unknown_options_and_values_are_errors() {
        assert!(parsed("--round 3").is_err());
        assert!(parsed("--rounds many").is_err());
        assert!(parsed("--rounds").is_err());
        assert!(parsed("--ports 65").is_err());
    }

    #[test]
    fn the_probe_is_a_get_of_fourteen_bytes() {
        assert_eq!(GET_HELLO.len(), 14);
    }
}
