//! Server CPU per request: a bare socket loop, libcoap and `carob serve`, in turns.
//!
//! Each server runs on core 0 and the generator on core 1. CPU time per answer is what counts: it
//! does not depend on how fast the generator is. The programs alternate in every round, because
//! machines drift.

use std::{
    fmt::Write as _,
    fs,
    net::UdpSocket,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::options;
use super::statistics::{median, median_ratio};
use crate::{
    process::{self, Server},
    workspace::Workspace,
};

const HELP: &str = "\
cargo xtask bench server [OPTION...]

Confirmable GET /hello (14 bytes) answered by a piggybacked 2.05 with 32 bytes, closed loop.

  --rounds N         rounds of all servers in turn (5)
  --seconds S        length of one slice (3)
  --outstanding N    requests outstanding at a time (64)
  --ports N          source ports they are spread over (16)
  --known-peers N    let each server hear N other peers first (0)
  --cc NAME          the controller of `carob serve` (its default)
  --out FILE         write every slice and the summary as JSON
";

struct Options {
    rounds: u32,
    seconds: f64,
    outstanding: u32,
    ports: u32,
    known_peers: u32,
    controller: Option<String>,
    out: Option<PathBuf>,
}

/// A server under test: its process, where it listens and where its generator's ports go on.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) server: Server,
    pub(super) port: u16,
    next_source_port: u64,
    slices: Vec<Value>,
    peers: Option<Value>,
}

/// GET coap://127.0.0.1/hello, confirmable, with a token of four bytes.
const GET_HELLO: &[u8] = b"\x44\x01\x00\x01prob\xb5hello";
const CONTENT: u8 = 0x45;
const PAYLOAD_BYTES: usize = 32;
/// A source port never gets this number from the generator, which starts above.
const FIRST_SERVER_PORT: u16 = 5700;
pub(super) const FIRST_SOURCE_PORT: u64 = 10_000;

pub(super) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let Some(options) = parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    ensure!(
        process::find("taskset").is_some(),
        "`taskset` pins the programs to cores (Debian: `apt-get install util-linux`)"
    );
    let cores = std::thread::available_parallelism()?.get();
    ensure!(
        cores >= 2,
        "two cores are needed, one for the server and one for the generator"
    );

    let tools = workspace.target()?.join("bench-tools");
    let source = workspace.root.join("tools/coapload");
    let generator = process::compile_c(&source.join("coapload.c"), &tools, &[])?;
    let bare = process::compile_c(&source.join("udplimit.c"), &tools, &[])?;

    let mut subjects = vec![start_bare(&bare)?];
    if process::find("coap-server-notls").is_some() {
        subjects.push(start_libcoap()?);
    } else {
        println!("skipped: libcoap (install: cargo xtask peers)");
    }
    subjects.push(start_carob(workspace, options.controller.as_deref())?);

    if options.known_peers > 0 {
        for subject in &mut subjects {
            introduce_peers(&generator, &options, subject)?;
        }
    }
    for round in 1..=options.rounds {
        for subject in &mut subjects {
            measure(&generator, &options, subject)?;
            let slice = &subject.slices[subject.slices.len() - 1];
            println!(
                "round {round}  {:<8} {:>7.2} us/request  {:>8.0} requests/s{}",
                subject.name,
                number(slice, "us_per_req"),
                number(slice, "rate"),
                trouble(slice)
            );
        }
    }
    print!("\n{}", table(&options, &subjects));
    if let Some(out) = &options.out {
        let text = serde_json::to_string_pretty(&document(&options, &subjects))?;
        fs::write(out, text + "\n").with_context(|| format!("cannot write {}", out.display()))?;
        println!("\nwritten to {}", out.display());
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Option<Options>> {
    let mut options = Options {
        rounds: 5,
        seconds: 3.0,
        outstanding: 64,
        ports: 16,
        known_peers: 0,
        controller: None,
        out: None,
    };
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

pub(super) fn on_core(core: u8, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

fn start_bare(program: &Path) -> Result<Subject> {
    let port = free_port()?;
    let mut command = on_core(0, program);
    command.args(["rs", &port.to_string()]);
    Subject::ready("bare", &mut command, port)
}

pub(super) fn start_libcoap() -> Result<Subject> {
    let port = free_port()?;
    let mut command = on_core(0, Path::new("coap-server-notls"));
    // `-d`: a PUT may create a resource; the program has no /hello of its own.
    command.args(["-A", "127.0.0.1", "-p", &port.to_string(), "-d", "1"]);
    let mut server = Server::start("libcoap", &mut command)?;
    let mut put = b"\x44\x03\x00\x02make\xb5hello\xff".to_vec();
    put.extend_from_slice(&[b'h'; PAYLOAD_BYTES]);
    let answer = server.wait_for_answer(port, &put)?;
    ensure!(
        answer.get(1).is_some_and(|code| code >> 5 == 2),
        "libcoap did not accept PUT /hello"
    );
    Subject::check("libcoap", server, port)
}

pub(super) fn start_carob(workspace: &Workspace, controller: Option<&str>) -> Result<Subject> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--package", "carob-cli"]);
    process::must(build.current_dir(&workspace.root))?;
    let port = free_port()?;
    let mut command = on_core(0, &workspace.target()?.join("release/carob"));
    command.args(["serve", "--bind", &format!("127.0.0.1:{port}")]);
    if let Some(controller) = controller {
        command.args(["--cc", controller]);
    }
    Subject::ready("carob", &mut command, port)
}

pub(super) fn free_port() -> Result<u16> {
    // The kernel's own choice could be one of the generator's, which run from 10000 upwards.
    (FIRST_SERVER_PORT..9999)
        .find(|port| UdpSocket::bind(("127.0.0.1", *port)).is_ok())
        .context("no free port between 5700 and 9999")
}

impl Subject {
    fn ready(name: &'static str, command: &mut Command, port: u16) -> Result<Self> {
        let server = Server::start(name, command)?;
        Self::check(name, server, port)
    }

    /// Waits for the server and makes sure that it answers what the others answer.
    fn check(name: &'static str, mut server: Server, port: u16) -> Result<Self> {
        let answer = server.wait_for_answer(port, GET_HELLO)?;
        ensure!(
            answer.get(1) == Some(&CONTENT),
            "{name}: GET /hello is not answered by 2.05"
        );
        let payload = answer
            .len()
            .checked_sub(PAYLOAD_BYTES + 1)
            .and_then(|at| answer.get(at));
        ensure!(
            payload == Some(&0xff),
            "{name}: /hello is not {PAYLOAD_BYTES} bytes long"
        );
        Ok(Self {
            name,
            server,
            port,
            next_source_port: FIRST_SOURCE_PORT,
            slices: Vec::new(),
            peers: None,
        })
    }

    fn figures(&self, key: &str) -> Vec<f64> {
        self.slices.iter().map(|slice| number(slice, key)).collect()
    }
}

/// Runs the generator once against a subject; its ports go on where the last slice stopped, so that
/// no message ID recurs on one endpoint.
pub(super) fn generate(generator: &Path, subject: &mut Subject, mode: &[&str]) -> Result<Value> {
    let mut command = on_core(1, generator);
    command
        .args(["-u", "hello", "-p", &subject.port.to_string()])
        .args(["-P", &subject.server.id().to_string()])
        .args(["-b", &subject.next_source_port.to_string()])
        .args(mode);
    let text = process::output(&mut command)?;
    let slice: Value = serde_json::from_str(text.trim())
        .with_context(|| format!("the generator printed {text:?}"))?;
    subject.next_source_port = slice["nextport"].as_u64().unwrap_or(FIRST_SOURCE_PORT);
    for key in ["bad", "badcode"] {
        let count = number(&slice, key);
        ensure!(
            count == 0.0,
            "{}: {count} wrong answers (`{key}`)",
            subject.name
        );
    }
    ensure!(number(&slice, "ok") > 0.0, "{}: no answers", subject.name);
    Ok(slice)
}

fn introduce_peers(generator: &Path, options: &Options, subject: &mut Subject) -> Result<()> {
    let count = options.known_peers.to_string();
    let slice = generate(
        generator,
        subject,
        &["-m", "peers", "-n", &count, "-w", "64", "-s", "64"],
    )?;
    println!(
        "{:<8} {} peers introduced, {:.0} bytes of memory each",
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

pub(super) fn number(slice: &Value, key: &str) -> f64 {
    slice[key].as_f64().unwrap_or(f64::NAN)
}

/// What a reader of the figure must know: requests that got no answer in time.
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
    text.push_str("server    CPU us/request   x bare   p50 us   p99 us   requests/s\n");
    let bases = subjects[0].figures("us_per_req");
    for subject in subjects {
        let of = |key| median(&subject.figures(key)).unwrap_or(f64::NAN);
        let ratio = median_ratio(&subject.figures("us_per_req"), &bases).unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "{:<9} {:>14.2} {ratio:>8.2} {:>8.0} {:>8.0} {:>12.0}",
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
