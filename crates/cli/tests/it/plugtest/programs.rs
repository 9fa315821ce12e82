//! The plugtest programs on the peers' libraries: each makes clients and servers on command, as README.md in `interop/`
//! describes. One process per peer serves the whole run and exits when its stdin is closed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use carob::OptionNumber;

use super::setup::Setup;
use crate::installed::Peer;
use crate::interop::clients;
use crate::interop::requests::{Answer, Ask, hex, uint};
use crate::interop::transport::To;

/// Longest wait for a line of a program; includes the start of a Java VM.
const LIMIT: Duration = Duration::from_secs(60);

type Listeners = Arc<Mutex<BTreeMap<String, Sender<String>>>>;

struct Program {
    input: Mutex<ChildStdin>,
    listeners: Listeners,
}

/// A command to a program, and its output.
pub(crate) struct Task {
    program: &'static Program,
    tag: String,
    lines: Receiver<String>,
}

/// The program of a peer, started on first use.
fn of(peer: Peer) -> &'static Program {
    static CALIFORNIUM: OnceLock<Program> = OnceLock::new();
    static AIOCOAP: OnceLock<Program> = OnceLock::new();
    let place = match peer {
        Peer::Californium => &CALIFORNIUM,
        Peer::Aiocoap => &AIOCOAP,
        _ => panic!("there is no plugtest program on {}", peer.name()),
    };
    place.get_or_init(|| Program::start(peer))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Program {
    fn start(peer: Peer) -> Self {
        let mut command = clients::program(peer, "plugtest");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let input = Mutex::new(child.stdin.take().expect("it is piped"));
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let listeners = Listeners::default();
        let told = Arc::clone(&listeners);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let (tag, text) = line.split_once(' ').unwrap_or((&line, ""));
                if let Some(listener) = lock(&told).get(tag) {
                    // The listener may have been dropped.
                    let _ = listener.send(text.to_owned());
                }
            }
            // Closes the channels, so that pending receivers end.
            lock(&told).clear();
            let _ = child.wait();
        });
        Self { input, listeners }
    }
}

impl Task {
    /// Sends a command to the program of a peer.
    pub(crate) fn start(peer: Peer, command: &str) -> Self {
        Self::of(of(peer), command)
    }

    fn of(program: &'static Program, command: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let tag = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let (sender, lines) = channel();
        lock(&program.listeners).insert(tag.clone(), sender);
        let task = Self {
            program,
            tag,
            lines,
        };
        task.add(command);
        task
    }

    /// Sends another command for this task.
    pub(crate) fn add(&self, command: &str) {
        let mut input = lock(&self.program.input);
        writeln!(input, "{} {command}", self.tag).expect("the program reads its commands");
        input.flush().expect("as above");
    }

    /// The next line of output for this task.
    pub(crate) fn hear(&mut self, limit: Duration) -> String {
        let said = self.lines.recv_timeout(limit);
        said.unwrap_or_else(|error| panic!("no line from the program: {error}"))
    }

    /// Waits for this line; returns false if the port is in use.
    pub(crate) fn until(&mut self, wanted: &str) -> bool {
        loop {
            let said = self.hear(LIMIT);
            let taken = said.contains("in use");
            if said == wanted || taken {
                return !taken;
            }
            assert!(!said.starts_with("failed"), "{said}");
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        lock(&self.program.listeners).remove(&self.tag);
    }
}

/// A client in a program, on a separate port.
pub(crate) struct Client {
    task: Task,
    setup: Setup,
}

impl Client {
    pub(crate) fn open(peer: Peer, setup: Setup) -> Self {
        let (ack, retransmissions) = setup.timers();
        let command = format!("client {} {ack} {retransmissions}", setup.block);
        let mut task = Task::start(peer, &command);
        task.until("ready");
        Self { task, setup }
    }

    fn tell(&self, verb: &str, words: &str) -> Task {
        let command = format!("{verb} {} {words}", self.task.tag);
        Task::of(self.task.program, &command)
    }

    pub(crate) fn ask(&self, to: To, ask: &Ask) -> Result<Answer, String> {
        let said = self.tell("ask", &words(ask, to, self.setup)).hear(LIMIT);
        let answer = said.strip_prefix("answer ").map(Answer::read);
        answer.ok_or(said)
    }

    pub(crate) fn ping(&self, to: To) {
        let uri = to.uri("");
        let said = self.tell("ping", uri.trim_end_matches('/')).hear(LIMIT);
        assert_eq!(said, "answer 0.00");
    }

    pub(crate) fn observe(&self, to: To, ask: &Ask) -> Task {
        self.tell("observe", &words(ask, to, self.setup))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.add("close");
    }
}

/// A request in a program's command, without the client's name.
fn words(ask: &Ask, to: To, setup: Setup) -> String {
    let kind = if ask.non { "non" } else { "con" };
    let method = ask.method.name().unwrap_or("?");
    let mut text = format!("{kind} {method} {}", to.uri(&ask.path));
    let mut add = |name: &str, value: &str| {
        let _ = write!(text, " {name}={value}"); // a String takes every write
    };
    for (number, value) in &ask.options {
        match *number {
            OptionNumber::CONTENT_FORMAT => add("format", &uint(value).to_string()),
            OptionNumber::ACCEPT => add("accept", &uint(value).to_string()),
            OptionNumber::ETAG => add("etag", &hex(value)),
            OptionNumber::IF_MATCH => add("if-match", &hex(value)),
            OptionNumber::IF_NONE_MATCH => add("if-none-match", ""),
            other => panic!("the programs do not know option {}", other.0),
        }
    }
    if setup.early {
        add("block2", &setup.block.to_string());
    }
    if setup.empty_token {
        add("token", "");
    }
    if !ask.payload.is_empty() {
        add("payload", &hex(&ask.payload));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interop::transport::Transport;

    #[test]
    fn request_and_response_are_formatted_as_by_the_programs() {
        let ask = Ask::put("/a?b=c")
            .text("x")
            .non()
            .accept(41)
            .if_match(&[0, 0xff]);
        let to = To {
            transport: Transport::Udp,
            port: 5,
        };
        assert_eq!(
            words(&ask, to, Setup::PLAIN),
            "non PUT coap://127.0.0.1:5/a?b=c format=0 accept=41 if-match=00ff payload=78"
        );
        let answer =
            Answer::read("2.01 format=50 etag=0a location-path=a location-path=b payload=");
        assert_eq!(answer.code, "2.01");
        assert_eq!((answer.format, answer.etag), (Some(50), Some(vec![10])));
        assert_eq!(answer.location_path, ["a", "b"]);
        assert!(answer.location_query.is_empty() && answer.payload.is_empty());
    }
}
