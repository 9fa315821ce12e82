//! The servers under test, each started on core 0 with a resource `/hello` of 32 bytes; and `carob serve` once
//! more, asked for what a handler answers.

use std::{
    ffi::OsString,
    net::UdpSocket,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    carob, peers,
    process::{self, Server},
    workspace::Workspace,
};

/// A server under test: its process, where it listens and where its generator's ports go on.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) server: Server,
    pub(super) port: u16,
    /// Path of the requests, of five letters.
    path: &'static str,
    next_source_port: u64,
    pub(super) slices: Vec<Value>,
    pub(super) peers: Option<Value>,
}

/// GET coap://127.0.0.1/hello, confirmable, with a token of four bytes.
pub(super) const GET_HELLO: &[u8] = b"\x44\x01\x00\x01prob\xb5hello";
/// The same of what `carob serve` has a handler for: a task of its own makes each answer, of one byte.
const GET_COUNT: &[u8] = b"\x44\x01\x00\x01prob\xb5count";
const CONTENT: u8 = 0x45;
pub(super) const PAYLOAD_BYTES: usize = 32;
/// A source port never gets this number from the generator, which starts above.
const FIRST_SERVER_PORT: u16 = 5700;
pub(super) const FIRST_SOURCE_PORT: u64 = 10_000;

pub(super) fn on_core(core: u8, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

pub(super) fn start_bare(program: &Path) -> Result<Subject> {
    let port = free_port()?;
    let mut command = on_core(0, program);
    command.args(["rs", &port.to_string()]);
    Subject::ready("bare", &mut command, port)
}

pub(super) fn start_libcoap() -> Result<Subject> {
    let port = free_port()?;
    let mut command = on_core(0, Path::new("coap-server-notls"));
    // `-d`: a PUT may create a resource; the program has no /hello of its own.
    command.args(["-A", "127.0.0.1", "-p", &port.to_string(), "-d", "2"]);
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
    let carob = carob(workspace)?;
    let port = free_port()?;
    let mut command = on_core(0, &carob);
    command.args(["serve", "--bind", &format!("127.0.0.1:{port}")]);
    if let Some(controller) = controller {
        command.args(["--cc", controller]);
    }
    Subject::ready("carob", &mut command, port)
}

/// Another `carob serve`, asked for what a handler answers.
fn start_handler(workspace: &Workspace, controller: Option<&str>) -> Result<Subject> {
    let mut subject = start_carob(workspace, controller)?;
    let answer = subject.server.wait_for_answer(subject.port, GET_COUNT)?;
    ensure!(
        answer.get(1) == Some(&CONTENT),
        "carob: GET /count is not answered by 2.05"
    );
    (subject.name, subject.path) = ("handler", "count");
    Ok(subject)
}

/// Californium's server, as its makers start one: with the compiler and the collector of the JVM's choice.
/// `None` if it is not installed.
pub(super) fn californium(workspace: &Workspace, port: u16) -> Option<Command> {
    let built = peers::californium(workspace)?;
    let mut path = OsString::from(built.join("classes"));
    path.push(":");
    path.push(built.join("lib/*"));
    let mut command = on_core(0, Path::new("java"));
    command.arg("-cp").arg(path).arg("interop.Server");
    command.args([&port.to_string(), "--bench", "yes"]);
    Some(command)
}

pub(super) fn start_californium(workspace: &Workspace) -> Result<Option<Subject>> {
    let port = free_port()?;
    let command = californium(workspace, port);
    command
        .map(|mut command| Subject::ready("californium", &mut command, port))
        .transpose()
}

/// The servers that there are, and the programs that load them; `bare` first, if asked for.
pub(super) fn all(workspace: &Workspace, controller: Option<&str>) -> Result<Vec<Subject>> {
    let mut subjects = vec![start_bare(&tool(workspace, "udplimit")?)?];
    if process::find("coap-server-notls").is_some() {
        subjects.push(start_libcoap()?);
    } else {
        println!("skipped: libcoap (install: cargo xtask peers)");
    }
    match start_californium(workspace)? {
        Some(subject) => subjects.push(subject),
        None => println!("skipped: Californium (install: cargo xtask peers)"),
    }
    subjects.push(start_carob(workspace, controller)?);
    subjects.push(start_handler(workspace, controller)?);
    Ok(subjects)
}

/// A program of `tools/coapload`, compiled.
pub(super) fn tool(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let tools = workspace.target()?.join("bench-tools");
    let source = workspace.root.join("tools/coapload").join(name);
    process::compile_c(&source.with_extension("c"), &tools, &[])
}

/// The command line's program, built.
pub(super) fn carob(workspace: &Workspace) -> Result<PathBuf> {
    let mut build = process::cargo();
    build.args(["build", "--release"]).args(carob::FULL);
    process::must(build.current_dir(&workspace.root))?;
    Ok(workspace.target()?.join("release/carob"))
}

/// The program that pins others to cores, and the cores.
pub(super) fn need_two_cores() -> Result<()> {
    ensure!(
        process::find("taskset").is_some(),
        "`taskset` pins the programs to cores (Debian: `apt-get install util-linux`)"
    );
    let cores = std::thread::available_parallelism()?.get();
    ensure!(
        cores >= 2,
        "two cores are needed, one for the server and one for the generator"
    );
    Ok(())
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
            path: "hello",
            next_source_port: FIRST_SOURCE_PORT,
            slices: Vec::new(),
            peers: None,
        })
    }

    pub(super) fn figures(&self, key: &str) -> Vec<f64> {
        self.slices.iter().map(|slice| number(slice, key)).collect()
    }
}

/// Runs the generator once against a subject; its ports go on where the last slice stopped, so that
/// no message ID recurs on one endpoint.
pub(super) fn generate(generator: &Path, subject: &mut Subject, mode: &[&str]) -> Result<Value> {
    let mut command = on_core(1, generator);
    command
        .args(["-u", subject.path, "-p", &subject.port.to_string()])
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

pub(super) fn number(slice: &Value, key: &str) -> f64 {
    slice[key].as_f64().unwrap_or(f64::NAN)
}
