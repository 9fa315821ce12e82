//! Observations in the background of a case.

use std::{cell::RefCell, process::Command, time::Duration};

use carob::client::{Observation, Update};
use tokio::time::timeout;

use crate::interop::clients::{Client, Implementation};
use crate::interop::library::{self, block_on};
use crate::interop::requests::{Answer, Ask, Connection};
use crate::interop::transport::{To, Transport};
use crate::interop::wire::Side;
use crate::plugtest::programs::Task;
use crate::{
    installed::Peer,
    process::{Running, Scratch, until},
};

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
    of: Implementation,
    who: Who,
}

enum Who {
    Command(Running),
    /// An observation of `count` representations, and those so far. It is dropped after the last; the client remains,
    /// to reject the next notification.
    Library {
        _client: carob::Client,
        count: usize,
        watch: RefCell<Option<Box<Watch>>>,
        states: RefCell<Vec<String>>,
    },
}

impl Watching {
    /// Observes until there are `count` representations, then cancels.
    pub(crate) fn start(
        of: Implementation,
        scratch: &Scratch,
        to: To,
        path: &str,
        count: usize,
        cancel: Cancel,
    ) -> Self {
        if of == Implementation::Carob && cancel == Cancel::Reset {
            // The command exits with its observation, so a library client is used.
            let client = library::client(carob::Config::new());
            let watch = Client::Library(client.clone()).observe(to, &Ask::get(path));
            let who = Who::Library {
                _client: client,
                count,
                watch: RefCell::new(Some(Box::new(watch))),
                states: RefCell::default(),
            };
            return Self { of, who };
        }
        let uri = to.uri(path);
        let mut command = command(of, to.transport, &uri, count, cancel);
        (to.transport).add_credentials(&mut command, of, Side::Client, Connection::Usual, scratch);
        if of == Implementation::Of(Peer::Libcoap) {
            // libcoap's client accepts no options after the URI.
            command.arg(uri);
        }
        let who = Who::Command(Running::spawn(&mut command));
        Self { of, who }
    }

    /// Representations so far, in the format of [`line`].
    pub(crate) fn states(&self) -> Vec<String> {
        let running = match &self.who {
            Who::Command(running) => running,
            Who::Library { states, .. } => return states.borrow().clone(),
        };
        let text = running.stdout();
        // An incomplete last line is still being written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        match self.of {
            Implementation::Carob => whole.lines().filter_map(parse_carob_state).collect(),
            Implementation::Of(peer) => {
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
        let enough = || {
            self.receive(count);
            let states = self.states();
            (states.len() >= count).then_some(states)
        };
        until(LIMIT, &format!("{count} representations"), enough)
    }

    /// Takes the representations that a library client has received.
    fn receive(&self, until: usize) {
        let Who::Library {
            count,
            watch,
            states,
            ..
        } = &self.who
        else {
            return;
        };
        while let Some(watch) = &mut *watch.borrow_mut()
            && states.borrow().len() < until
        {
            states.borrow_mut().push(line(&watch.next().payload));
        }
        if states.borrow().len() == *count {
            watch.take();
        }
    }

    /// Waits for the client to exit.
    pub(crate) fn finish(self) {
        if let Who::Command(running) = self.who {
            running.finish_within(LIMIT).ended(0);
        }
    }
}

fn command(
    of: Implementation,
    transport: Transport,
    uri: &str,
    count: usize,
    cancel: Cancel,
) -> Command {
    let mut command = of.client(transport);
    let count = count.to_string();
    match of {
        Implementation::Carob => command.args(["observe", uri, "--json", "--count", &count]),
        Implementation::Of(Peer::Libcoap) => {
            // `-w`: a line feed after each representation.
            command.args(["-s", &LIBCOAP_SECONDS.to_string(), "-w"])
        }
        Implementation::Of(_) => {
            let (cancel, linger) = match cancel {
                Cancel::Get => ("get", 0),
                Cancel::Reset => ("rst", LINGER.as_secs()),
                Cancel::Never => ("none", LINGER.as_secs()),
            };
            command.args(["observe", uri, "--count", &count, "--cancel", cancel]);
            command.args(["--linger", &linger.to_string()])
        }
    };
    command
}

/// An observation by a library or by a plugtest program.
pub(crate) enum Watch {
    Library(Observation),
    Program(Task),
}

impl Watch {
    /// The next notification, or the final one.
    pub(crate) fn next(&mut self) -> Answer {
        match self {
            Self::Library(observation) => loop {
                let update = block_on(async { timeout(LIMIT, observation.next()).await });
                match update.expect("a notification in time") {
                    Some(Ok(Update::State(reply) | Update::Ended(reply))) => {
                        return Answer::of(&reply);
                    }
                    Some(Ok(_)) => {} // stale: it goes on
                    other => panic!("the observation ended: {other:?}"),
                }
            },
            Self::Program(task) => {
                let said = task.hear(LIMIT);
                let state = said.strip_prefix("state ");
                Answer::read(state.unwrap_or_else(|| panic!("{said}")))
            }
        }
    }

    /// Cancels with GET and Observe 1.
    pub(crate) fn stop(self) {
        match self {
            Self::Library(observation) => {
                block_on(observation.stop()).expect("an answer");
            }
            Self::Program(task) => task.add("stop"),
        }
    }

    /// Drops the observation; the next notification is rejected.
    pub(crate) fn forget(self) {
        if let Self::Program(mut task) = self {
            task.add("forget");
            // Notifications that are on their way may come first.
            until(LIMIT, "end of the observation", || {
                let said = task.hear(LIMIT);
                assert!(said == "forgotten" || said.starts_with("state "), "{said}");
                (said == "forgotten").then_some(())
            });
        }
    }
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
