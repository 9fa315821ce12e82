//! Runs the built binary with bounded waits.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::program::Scratch;
pub(crate) use crate::program::{Parts, Ran, Words, command, on_terminal, plain};

/// Upper bound for any single wait, for busy machines.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(5);

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
    let mut input = running.child.stdin.take().unwrap();
    // The command may exit without reading stdin.
    let _ = input.write_all(stdin);
    drop(input);
    running.finish()
}

/// A running command, killed on drop.
pub(crate) struct Running {
    child: Child,
    stdout: Receiver<Vec<u8>>,
    taken: Vec<u8>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(words: &(impl Words + ?Sized)) -> Self {
        Self::spawn(command(words))
    }

    #[track_caller]
    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let (sender, stdout) = channel();
        let out = child.stdout.take().unwrap();
        thread::spawn(move || {
            let mut out = BufReader::new(out);
            loop {
                let mut line = Vec::new();
                match out.read_until(b'\n', &mut line) {
                    Ok(1..) if sender.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        let mut error = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = error.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Self {
            child,
            stdout,
            taken: Vec::new(),
            stderr: Some(stderr),
        }
    }

    /// The next line of stdout without its line feed.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let Ok(line) = self.stdout.recv_timeout(LIMIT) else {
            let _ = self.child.kill();
            let stderr = self.stderr.take().unwrap().join().unwrap();
            panic!("no further line on stdout; stderr: {stderr}");
        };
        self.taken.extend_from_slice(&line);
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// Sends a signal by name, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let kill = Command::new("kill").args(["-s", name, &id]).status();
        assert!(kill.unwrap().success());
    }

    /// Waits for the command to exit.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Ran {
        let status = self.wait();
        while let Ok(line) = self.stdout.recv_timeout(LIMIT) {
            self.taken.extend_from_slice(&line);
        }
        Ran {
            code: status.code(),
            bytes: core::mem::take(&mut self.taken),
            stderr: self.stderr.take().unwrap().join().unwrap(),
        }
    }

    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still running after {LIMIT:?}");
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

    /// Starts a server that accepts uploads into a temporary folder.
    #[track_caller]
    pub(crate) fn writable() -> Self {
        let folder = Scratch::new();
        let mut server = Self::with(&format!("--writable --dir {}", folder.text("")));
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
        Self::run(Running::spawn(command))
    }

    pub(crate) fn id(&self) -> u32 {
        self.running.child.id()
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
