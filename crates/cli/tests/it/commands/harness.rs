//! Runs the built binary with bounded waits.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

pub(crate) use crate::process::{LIMIT, Running};
use crate::program::Scratch;
pub(crate) use crate::program::{Members, Parts, Ran, Words, command, on_terminal, plain};

/// Runs `carob` to completion.
#[track_caller]
pub(crate) fn carob(words: &(impl Words + ?Sized)) -> Ran {
    carob_reading(words, b"")
}

/// Runs `carob` with additional environment variables.
#[track_caller]
pub(crate) fn carob_with(words: &(impl Words + ?Sized), environment: &[(&str, &str)]) -> Ran {
    let ran = command(words).envs(environment.iter().copied()).output();
    ran.expect("the command starts").into()
}

/// Runs `carob` with this input on stdin.
#[track_caller]
pub(crate) fn carob_reading(words: &(impl Words + ?Sized), stdin: &[u8]) -> Ran {
    let mut running = Running::start(words);
    let mut input = running.stdin();
    // The command may exit without reading stdin.
    let _ = input.write_all(stdin);
    drop(input);
    running.finish()
}

/// `carob serve` on a free port.
pub(crate) struct Server {
    running: Running,
    /// Without a trailing slash.
    pub(crate) uri: String,
    /// URIs of its connection and DTLS listeners.
    also: Vec<String>,
    /// URL of its metrics, if it exports them.
    pub(crate) metrics: Option<String>,
    /// The folder of [`Server::writable`].
    folder: Option<Scratch>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with("")
    }

    /// Starts a server with additional arguments.
    #[track_caller]
    pub(crate) fn with(words: &(impl Words + ?Sized)) -> Self {
        Self::at("127.0.0.1:0", words)
    }

    #[track_caller]
    pub(crate) fn at(address: &str, words: &(impl Words + ?Sized)) -> Self {
        Self::of("serve", address, words)
    }

    /// Starts a server with the files of a folder, to which it accepts uploads.
    #[track_caller]
    pub(crate) fn serving(folder: &Scratch) -> Self {
        Self::with(&format!("--writable --dir {}", folder.text("")))
    }

    /// The same with a temporary folder.
    #[track_caller]
    pub(crate) fn writable() -> Self {
        let folder = Scratch::new();
        let mut server = Self::serving(&folder);
        server.folder = Some(folder);
        server
    }

    /// `carob proxy` on a free port.
    #[track_caller]
    pub(crate) fn proxy(words: &(impl Words + ?Sized)) -> Self {
        Self::of("proxy", "127.0.0.1:0", words)
    }

    #[track_caller]
    fn of(verb: &str, address: &str, words: &(impl Words + ?Sized)) -> Self {
        let begin = [verb, "--bind", address, "--json"].map(str::to_owned);
        Self::run(Running::start(&[&begin[..], &words.words()].concat()))
    }

    /// `carob serve` under another program, such as one that sets limits.
    #[track_caller]
    pub(crate) fn under(program: &[&str], arguments: &[&str]) -> Self {
        let mut command = Command::new(program[0]);
        let serve = ["serve", "--bind", "127.0.0.1:0", "--json"];
        command.args(&program[1..]).arg(env!("CARGO_BIN_EXE_carob"));
        command.args(serve).args(arguments);
        Self::run(Running::spawn(&mut command))
    }

    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    #[track_caller]
    fn run(mut running: Running) -> Self {
        let ready: serde_json::Value = serde_json::from_str(&running.line()).unwrap();
        let uri = ready["listening"].as_str().unwrap().to_owned();
        let also = ready["also"].as_array().cloned().unwrap_or_default();
        let also = also.iter().map(|uri| uri.as_str().unwrap().to_owned());
        Self {
            running,
            uri,
            also: also.collect(),
            metrics: ready["metrics"].as_str().map(str::to_owned),
            folder: None,
        }
    }

    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}/{path}", self.uri)
    }

    /// A URI of this scheme with the host name of the certificates.
    #[track_caller]
    pub(crate) fn over(&self, scheme: &str, path: &str) -> String {
        let begins = format!("{scheme}://");
        let uri = self
            .also
            .iter()
            .find(|uri| uri.starts_with(&begins))
            .unwrap();
        format!("{}/{path}", uri.replace("127.0.0.1", "localhost"))
    }

    /// The URI of its DTLS listener, by address.
    pub(crate) fn secured(&self) -> &str {
        let found = self.also.iter().find(|uri| uri.starts_with("coaps://"));
        found.unwrap().trim_end_matches('/')
    }

    pub(crate) fn signal(&self, name: &str) {
        self.running.signal(name);
    }

    /// Stops the server with SIGINT.
    #[track_caller]
    pub(crate) fn stop(self) -> Ran {
        self.running.signal("INT");
        self.running.finish()
    }
}

/// Fetches `http://ADDRESS/PATH`.
pub(crate) fn fetch(uri: &str) -> String {
    let rest = uri.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    response
}
