//! Bodies of 1 MiB read in blocks of 1,024 bytes, one block in flight: `carob serve`, libcoap and
//! Californium in turns, one reader alone and sixteen at once.

use std::{fmt::Write as _, fs, process::Command};

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
cargo xtask bench block [OPTION...]

A body of 1 MiB is read in blocks of 1,024 bytes (Block2), alone and by sixteen at once.

  --rounds N         slices of each server, in turn (5)
  --bodies N         bodies a slice and reader (10)
";

/// A MiB in which each byte is its place, which the generator checks.
const BODY: usize = 1 << 20;
const PARALLEL: u32 = 16;

pub(super) struct Options {
    pub(super) rounds: u32,
    pub(super) bodies: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 5,
            bodies: 10,
        }
    }
}

/// A server, and what was found of it, a figure a slice.
pub(super) struct Figures {
    pub(super) name: &'static str,
    server: Server,
    port: u16,
    path: &'static str,
    next_source_port: u64,
    pub(super) alone_ms: Vec<f64>,
    cpu_us: Vec<f64>,
    pub(super) parallel_mb_s: Vec<f64>,
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
    let generator = subjects::tool(workspace, "coapload")?;
    let mut found = servers(workspace)?;
    for round in 1..=options.rounds {
        for figures in &mut found {
            let mut slice = |readers: u32| -> Result<Value> {
                let mut command = on_core(1, &generator);
                command
                    .args(["-m", "block", "-u", figures.path])
                    .args(["-p", &figures.port.to_string()])
                    .args(["-P", &figures.server.id().to_string()])
                    .args(["-b", &figures.next_source_port.to_string()])
                    .args([
                        "-s",
                        &readers.to_string(),
                        "-n",
                        &options.bodies.to_string(),
                    ]);
                let text = process::output(&mut command)?;
                let slice: Value = serde_json::from_str(text.trim())
                    .with_context(|| format!("the generator printed {text:?}"))?;
                // No Message ID may recur on a port: servers would take it for a copy.
                figures.next_source_port = slice["nextport"].as_u64().unwrap_or(FIRST_SOURCE_PORT);
                for key in ["bad", "badcode"] {
                    let count = number(&slice, key);
                    ensure!(count == 0.0, "{}: {count} wrong blocks", figures.name);
                }
                Ok(slice)
            };
            let (alone, parallel) = (slice(1)?, slice(PARALLEL)?);
            figures.alone_ms.push(number(&alone, "ms_med"));
            figures.cpu_us.push(number(&alone, "srv_cpu_us_per_block"));
            figures.parallel_mb_s.push(number(&parallel, "MBps"));
            println!(
                "round {round}  {:<11} {:>7.1} ms alone, {:>6.1} MB/s by {PARALLEL}",
                figures.name,
                number(&alone, "ms_med"),
                number(&parallel, "MBps")
            );
        }
    }
    Ok(found)
}

fn servers(workspace: &Workspace) -> Result<Vec<Figures>> {
    let carob = subjects::carob(workspace)?;
    let mut found = Vec::new();
    let port = free_port()?;
    let mut command = on_core(0, &carob);
    command.args(["serve", "--bind", &format!("127.0.0.1:{port}")]);
    found.push(Figures::start("carob", &mut command, port, "large")?);
    if process::find("coap-server-notls").is_some() {
        let port = free_port()?;
        let mut command = on_core(0, "coap-server-notls".as_ref());
        command.args(["-A", "127.0.0.1", "-p", &port.to_string(), "-d", "2"]);
        let libcoap = Figures::start("libcoap", &mut command, port, "large")?;
        // It has no such resource of its own.
        let file = workspace.target()?.join("bench-tools/body");
        let body: Vec<u8> = (0..BODY).map(|place| place as u8).collect();
        fs::write(&file, body).with_context(|| format!("cannot write {}", file.display()))?;
        let mut put = Command::new(&carob);
        put.args(["put", &format!("coap://127.0.0.1:{port}/large"), "--file"]);
        process::output(put.arg(&file))?;
        found.push(libcoap);
    } else {
        println!("skipped: libcoap (install: cargo xtask peers)");
    }
    let port = free_port()?;
    if let Some(mut command) = subjects::californium(workspace, port) {
        found.push(Figures::start(
            "californium",
            &mut command,
            port,
            "pattern",
        )?);
    } else {
        println!("skipped: Californium (install: cargo xtask peers)");
    }
    Ok(found)
}

impl Figures {
    fn start(
        name: &'static str,
        command: &mut Command,
        port: u16,
        path: &'static str,
    ) -> Result<Self> {
        let mut server = Server::start(name, command)?;
        server.wait_for_answer(port, b"\x40\x01\x00\x01")?;
        Ok(Self {
            name,
            server,
            port,
            path,
            next_source_port: FIRST_SOURCE_PORT,
            alone_ms: Vec::new(),
            cpu_us: Vec::new(),
            parallel_mb_s: Vec::new(),
        })
    }
}

fn table(options: &Options, figures: &[Figures]) -> String {
    let mut text = format!(
        "1 MiB in blocks of 1,024 bytes, {} bodies a reader, {} slices\n\n\
         server      ms alone   CPU us/block   MB/s by {PARALLEL}\n",
        options.bodies, options.rounds
    );
    for figures in figures {
        let of = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "{:<11} {:>8.1} {:>14.2} {:>12.1}",
            figures.name,
            of(&figures.alone_ms),
            of(&figures.cpu_us),
            of(&figures.parallel_mb_s)
        ); // a String takes every write
    }
    text.push_str("(medians of the slices)\n");
    text
}

fn parse(arguments: &[String]) -> Result<Option<Options>> {
    let mut options = Options::default();
    let asked = options::read("block", arguments, |given| {
        let number = match given.name {
            "--rounds" => &mut options.rounds,
            "--bodies" => &mut options.bodies,
            _ => return Ok(false),
        };
        *number = given.number()?;
        ensure!(*number >= 1, "`{}` must be at least 1", given.name);
        Ok(true)
    })?;
    Ok(asked.then_some(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_and_values_are_errors() {
        for words in [["--round", "3"], ["--rounds", "many"], ["--bodies", "0"]] {
            assert!(parse(&words.map(str::to_owned)).is_err(), "{words:?}");
        }
        let options = parse(&[]).expect("no option is valid").expect("no help");
        assert_eq!((options.rounds, options.bodies), (5, 10));
    }
}
