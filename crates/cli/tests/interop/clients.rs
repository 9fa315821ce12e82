//! The clients: ours and the peers', each one request a process.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    matrix::Peer,
    process::{Running, Scratch},
};

/// One request and what is to become of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// `get`, `put`, `post` or `delete`.
    pub(crate) method: &'static str,
    pub(crate) uri: &'a str,
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) limit: Duration,
}

/// What came of a request that was answered at all.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Whether the response code was a 2.xx.
    pub(crate) success: bool,
    pub(crate) payload: Vec<u8>,
    /// What the client printed, for a failing test's message.
    pub(crate) said: String,
}

/// Whose client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Carob,
    Of(Peer),
}

impl Client {
    /// Runs the client to its end.
    pub(crate) fn ask(self, scratch: &Scratch, request: Request<'_>) -> Answer {
        let payload = request.payload.map(|bytes| scratch.with("request", bytes));
        let output = scratch.file("response");
        let _ = fs::remove_file(&output);
        let mut command = match self {
            Self::Carob => carob(request, payload.as_deref(), &output),
            Self::Of(Peer::Libcoap) => libcoap(request, payload.as_deref(), &output),
            Self::Of(Peer::Aiocoap) => aiocoap(request, payload.as_deref(), &output),
        };
        let mut running = Running::start(&mut command, scratch, "client");
        let status = running.finish(request.limit);
        let success = match self {
            Self::Carob => match status.code() {
                Some(0) => true,
                // Exit codes of the command: an error response is an answer, silence is not.
                Some(1 | 5) => false,
                _ => panic!("{request:?} was not answered: {status}\n{}", running.said()),
            },
            Self::Of(Peer::Libcoap) => {
                // It exits with 0 whatever happens; an error response is a line on stderr.
                let said = running.stderr();
                assert!(status.success(), "{status}\n{}", running.said());
                !said.lines().any(is_code_line)
            }
            Self::Of(Peer::Aiocoap) => {
                assert!(
                    status.success(),
                    "{request:?} was not answered\n{}",
                    running.said()
                );
                running.stdout().starts_with("2.")
            }
        };
        Answer {
            success,
            payload: fs::read(&output).unwrap_or_default(),
            said: running.said(),
        }
    }
}

fn is_code_line(line: &str) -> bool {
    let mut characters = line.chars();
    matches!(characters.next(), Some('4' | '5')) && characters.next() == Some('.')
}

fn carob(request: Request<'_>, payload: Option<&Path>, output: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
    command.args([request.method, request.uri]);
    if let Some(payload) = payload {
        command.arg("--file").arg(payload);
    }
    if matches!(request.method, "get" | "post") {
        command.arg("-o").arg(output);
    }
    command
}

fn libcoap(request: Request<'_>, payload: Option<&Path>, output: &Path) -> Command {
    let mut command = Command::new("coap-client-notls");
    let seconds = request.limit.as_secs().to_string();
    command
        .args(["-m", request.method, "-b", "1024", "-B", &seconds, "-o"])
        .arg(output);
    if let Some(payload) = payload {
        command.arg("-f").arg(payload);
    }
    command.arg(request.uri);
    command
}

fn aiocoap(request: Request<'_>, payload: Option<&Path>, output: &Path) -> Command {
    let mut command = Command::new(python());
    command
        .arg(script("aiocoap/client.py"))
        .args([request.method, request.uri])
        .arg("--output")
        .arg(output);
    if let Some(payload) = payload {
        command.arg("--payload").arg(payload);
    }
    command
}

/// The Python that has aiocoap: the same rule as `cargo xtask peers`.
pub(crate) fn python() -> PathBuf {
    let directory = env::var_os("CAROB_PEERS_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
        PathBuf::from,
    );
    directory.join("aiocoap/venv/bin/python")
}

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/interop")
        .join(name)
}

/// Whether a peer can be run here.
pub(crate) fn is_installed(peer: Peer) -> bool {
    match peer {
        Peer::Libcoap => ["coap-client-notls", "coap-server-notls"]
            .into_iter()
            .all(is_on_path),
        Peer::Aiocoap => Command::new(python())
            .args(["-c", "import aiocoap"])
            .output()
            .is_ok_and(|output| output.status.success()),
    }
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
