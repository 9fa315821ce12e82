//! Observations in the background of a case.

use std::{
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use carob::client::Update;

use crate::interop::{
    clients::{Client, Connection, libcoap_client, program},
    transport::{To, Transport},
};
use crate::{
    installed::Peer,
    process::{Running, Scratch},
};

const POLL: Duration = Duration::from_millis(20);
/// Limit for a notification on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a client that dropped its observation keeps running to send its Reset.
const LINGER: Duration = Duration::from_secs(20);
/// Duration of observations with libcoap's client, which ends by time only.
const LIBCOAP_SECONDS: u64 = 8;
/// Longer representations are shown as length and checksum.
const TEXT_MAX: usize = 64;

/// How an observation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// A GET with Observe 1.
    Get,
    /// A Reset to the next notification.
    Reset,
    /// Not at all: the client is killed first.
    Never,
}

/// An observing client, killed on drop.
pub(crate) struct Watching {
    client: Client,
    who: Who,
}

enum Who {
    Program(Running),
    Library(InProcess),
}

impl Watching {
    /// Observes until there are `count` representations, then cancels.
    pub(crate) fn start(
        client: Client,
        scratch: &Scratch,
        to: To,
        path: &str,
        count: usize,
        cancel: Cancel,
    ) -> Self {
        let uri = to.uri(path);
        let who = if client == Client::Carob && cancel == Cancel::Reset {
            // The command exits with its observation, so a library client is used.
            Who::Library(InProcess::start(uri, count))
        } else {
            let mut command = command(client, to.transport, &uri, count, cancel);
            client.trust(&mut command, scratch, to.transport, Connection::Usual);
            if client == Client::Of(Peer::Libcoap) {
                // libcoap's client accepts no options after the URI.
                command.arg(uri);
            }
            Who::Program(Running::start(&mut command, scratch, "observer"))
        };
        Self { client, who }
    }

    /// Representations so far, in the format of [`line`].
    pub(crate) fn states(&self) -> Vec<String> {
        let running = match &self.who {
            Who::Program(running) => running,
            Who::Library(observer) => return observer.states(),
        };
        let text = running.stdout();
        // An incomplete last line is still being written.
        let whole = text
            .rfind('\n')
            .map_or("", |end| text.get(..end).unwrap_or_default());
        match self.client {
            Client::Carob => whole.lines().filter_map(parse_carob_state).collect(),
            Client::Of(peer) => {
                // A representation may end with a line feed.
                let lines = whole.lines().filter(|line| !line.is_empty());
                let told = lines.map(|text| match peer {
                    Peer::Libcoap => line(text.as_bytes()),
                    _ => text.to_owned(),
                });
                told.collect()
            }
        }
    }

    /// Waits for this number of representations.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let states = self.states();
            if states.len() >= count {
                return states;
            }
            assert!(
                Instant::now() < deadline,
                "only {} of {count} representations in {LIMIT:?}\n{}",
                states.len(),
                self.output()
            );
            thread::sleep(POLL);
        }
    }

    /// Waits for the client to exit.
    pub(crate) fn finish(&mut self) {
        let Who::Program(running) = &mut self.who else {
            return;
        };
        let status = running.finish(LIMIT);
        assert!(status.success(), "{status}\n{}", running.output());
    }

    pub(crate) fn output(&self) -> String {
        match &self.who {
            Who::Program(running) => running.output(),
            Who::Library(observer) => format!("{:?}", observer.states()),
        }
    }
}

fn command(
    client: Client,
    transport: Transport,
    uri: &str,
    count: usize,
    cancel: Cancel,
) -> Command {
    let Client::Of(peer) = client else {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
        command.args(["observe", uri, "--json", "--count", &count.to_string()]);
        return command;
    };
    if peer == Peer::Libcoap {
        let mut command = libcoap_client(transport);
        // `-w`: a line feed after each representation.
        let seconds = LIBCOAP_SECONDS.to_string();
        command.args(["-s", &seconds, "-w"]);
        return command;
    }
    let mut command = program(peer, "client");
    let cancel = match cancel {
        Cancel::Get => "get",
        Cancel::Reset => "rst",
        Cancel::Never => "none",
    };
    let linger = if cancel == "get" { 0 } else { LINGER.as_secs() };
    command.args(["observe", uri, "--cancel", cancel]);
    command.args(["--count", &count.to_string()]);
    command.args(["--linger", &linger.to_string()]);
    command
}

/// The representation in a line of JSON, if there is one.
fn parse_carob_state(event: &str) -> Option<String> {
    let event: serde_json::Value = serde_json::from_str(event).ok()?;
    let payload = event["payload"].as_str();
    (event["event"] == "state").then(|| line(payload.unwrap_or_default().as_bytes()))
}

/// A representation as one line; the format is in README.md.
pub(crate) fn line(payload: &[u8]) -> String {
    if payload.len() <= TEXT_MAX {
        return String::from_utf8_lossy(payload).into_owned();
    }
    format!("{} bytes crc32 {:08x}", payload.len(), crc32(payload))
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

/// An observer on the library, in a background thread.
struct InProcess {
    states: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl InProcess {
    fn start(uri: String, count: usize) -> Self {
        let states = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, stopped) = (Arc::clone(&states), Arc::clone(&stop));
        let observe = async move {
            let client = carob::Client::new().expect("a socket");
            let registered = client.get(&*uri).observe().await;
            let mut observation = registered.expect("the registration is answered");
            for _ in 0..count {
                let update = tokio::time::timeout(LIMIT, observation.next()).await;
                let Ok(Some(Ok(Update::State(reply)))) = update else {
                    panic!("{update:?} instead of a state");
                };
                lock(&seen).push(line(reply.bytes()));
            }
            drop(observation);
            let deadline = Instant::now() + LINGER;
            while !stopped.load(Ordering::Relaxed) && Instant::now() < deadline {
                tokio::time::sleep(POLL).await;
            }
        };
        let thread = thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build();
            runtime.expect("a runtime").block_on(observe);
        });
        Self {
            states,
            stop,
            thread: Some(thread),
        }
    }

    fn states(&self) -> Vec<String> {
        lock(&self.states).clone()
    }
}

fn lock(states: &Mutex<Vec<String>>) -> std::sync::MutexGuard<'_, Vec<String>> {
    states.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic shows as too few states
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_representations_are_shown_as_checksums() {
        let text = b"123456789".repeat(8);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert!(line(&text).starts_with("72 bytes crc32 "));
        assert_eq!(line(b"short"), "short");
    }
}
