//! What is tested against whom, and the table that is printed when all of it is done.

use std::{collections::BTreeMap, fmt::Write as _, io::Write as _, sync::Mutex, time::Duration};

/// Another implementation of CoAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    Libcoap,
    Aiocoap,
}

impl Peer {
    pub(crate) const ALL: [Self; 2] = [Self::Libcoap, Self::Aiocoap];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Libcoap => "libcoap",
            Self::Aiocoap => "aiocoap",
        }
    }
}

/// Who asks: the peer's client our server, or our client the peer's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    TheirClient,
    OurClient,
}

impl Direction {
    const ALL: [Self; 2] = [Self::TheirClient, Self::OurClient];
}

/// One thing that must work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Case {
    Get,
    Put,
    Post,
    Delete,
    Separate,
    LargeDown,
    LargeUp,
    LossyDown,
    LossyUp,
    Once,
}

impl Case {
    const ALL: [(Self, &'static str); 10] = [
        (Self::Get, "GET"),
        (Self::Put, "PUT"),
        (Self::Post, "POST"),
        (Self::Delete, "DELETE"),
        (Self::Separate, "separate response"),
        (Self::LargeDown, "1 MiB down"),
        (Self::LargeUp, "1 MiB up"),
        (Self::LossyDown, "64 KiB down, loss and duplication"),
        (Self::LossyUp, "64 KiB up, loss and duplication"),
        (Self::Once, "every request duplicated"),
    ];
}

/// How a case ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Passed(Duration),
    Failed,
    Skipped,
}

type Key = (Case, Peer, Direction);

static RESULTS: Mutex<BTreeMap<Key, Outcome>> = Mutex::new(BTreeMap::new());

/// Notes an outcome; the last one to come in prints the table.
///
/// With a filter on the command line some never come in, and there is no table.
pub(crate) fn record(peer: Peer, direction: Direction, case: Case, outcome: Outcome) {
    let mut results = RESULTS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    results.insert((case, peer, direction), outcome);
    if results.len() == Case::ALL.len() * Peer::ALL.len() * Direction::ALL.len() {
        say(&table(&results));
    }
}

/// Prints past the test runner, which keeps what `print!` writes to itself.
pub(crate) fn say(text: &str) {
    // Nobody may be listening; the tests do not depend on it.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn table(results: &BTreeMap<Key, Outcome>) -> String {
    let mut text = format!("\n{:<34}", "");
    for (peer, direction) in columns() {
        let heading = match direction {
            Direction::TheirClient => format!("{} -> carob", peer.name()),
            Direction::OurClient => format!("carob -> {}", peer.name()),
        };
        let _ = write!(text, "{heading:>18}");
    }
    for (case, name) in Case::ALL {
        let _ = write!(text, "\n{name:<34}");
        for (peer, direction) in columns() {
            let cell = match results.get(&(case, peer, direction)) {
                Some(Outcome::Passed(took)) => format!("ok {:.1} s", took.as_secs_f64()),
                Some(Outcome::Failed) => "FAILED".to_owned(),
                Some(Outcome::Skipped) => "skipped".to_owned(),
                None => "-".to_owned(),
            };
            let _ = write!(text, "{cell:>18}");
        }
    }
    text
}

fn columns() -> impl Iterator<Item = (Peer, Direction)> {
    Peer::ALL
        .into_iter()
        .flat_map(|peer| Direction::ALL.map(|direction| (peer, direction)))
}
