//! Results of the cases, and the tables that are made of them when all are in.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Mutex, PoisonError},
};

use Direction::{OurClient, TheirClient};

use crate::installed::Peer;
use crate::interop::{
    bench::can_run,
    cases::{CASES, STREAM_CASES},
    clients::Client,
    offers,
    transport::Transport::{self, SecureWebSocket, Tcp, Tls, Udp, WebSocket},
};
use crate::plugtest;

/// Who asks: the peer's client our server, or our client the peer's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    TheirClient,
    OurClient,
}

/// A peer over a transport in one direction: a column of a table. Without a peer, both sides are Carob's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Column {
    pub(crate) peer: Option<Peer>,
    pub(crate) transport: Transport,
    pub(crate) direction: Direction,
}

impl Column {
    pub(crate) const CAROB: Self = Self {
        peer: None,
        transport: Udp,
        direction: OurClient,
    };

    pub(crate) const fn new(peer: Peer, transport: Transport, direction: Direction) -> Self {
        Self {
            peer: Some(peer),
            transport,
            direction,
        }
    }

    pub(crate) fn client(self) -> Client {
        match (self.peer, self.direction) {
            (Some(peer), TheirClient) => Client::Of(peer),
            _ => Client::Carob,
        }
    }

    pub(crate) fn server(self) -> Client {
        match (self.peer, self.direction) {
            (Some(peer), OurClient) => Client::Of(peer),
            _ => Client::Carob,
        }
    }

    /// The peer, and its transport where there are several.
    fn peer_and_transport(self) -> String {
        let peer = self.peer.map_or("", Peer::name);
        match self.transport {
            Udp => peer.to_owned(),
            transport => format!("{peer} {}", transport.title()),
        }
    }

    fn client_and_server(self) -> String {
        format!("{} → {}", self.client().name(), self.server().name())
    }
}

/// The outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// The peer is not installed.
    Skipped,
    /// One of the two cannot do it; the text says why.
    NotOffered(&'static str),
}

type Results = BTreeMap<(&'static str, Column), Outcome>;

/// A table of a document: cases, columns, and where the results go.
pub(crate) struct Table {
    /// Variable that names the file for the Markdown.
    variable: &'static str,
    /// Names of the cases, and the cells in front of their results.
    pub(crate) cases: fn() -> Vec<(&'static str, String)>,
    /// Parts of the table: the heading of the first cells, and the columns.
    parts: &'static [(&'static str, &'static [Column])],
    heading: fn(Column) -> String,
    /// A last row counts the results.
    is_counted: bool,
    results: Mutex<Results>,
}

const THEIR_CLIENT: &str = "their client, `carob serve`";
const OUR_CLIENT: &str = "`carob`'s client, their server";

/// Columns of all peers over UDP in one direction.
const fn datagrams(direction: Direction) -> [Column; 4] {
    [
        Column::new(Peer::Libcoap, Udp, direction),
        Column::new(Peer::Aiocoap, Udp, direction),
        Column::new(Peer::Californium, Udp, direction),
        Column::new(Peer::GoCoap, Udp, direction),
    ]
}

/// Columns of the connections that peers offer; WebSocket is aiocoap's alone.
const fn connections(direction: Direction) -> [Column; 10] {
    [
        Column::new(Peer::Libcoap, Tcp, direction),
        Column::new(Peer::Libcoap, Tls, direction),
        Column::new(Peer::Aiocoap, Tcp, direction),
        Column::new(Peer::Aiocoap, Tls, direction),
        Column::new(Peer::Aiocoap, WebSocket, direction),
        Column::new(Peer::Aiocoap, SecureWebSocket, direction),
        Column::new(Peer::Californium, Tcp, direction),
        Column::new(Peer::Californium, Tls, direction),
        Column::new(Peer::GoCoap, Tcp, direction),
        Column::new(Peer::GoCoap, Tls, direction),
    ]
}

pub(crate) static DATAGRAMS: Table = Table {
    variable: "CAROB_INTEROP_TABLE",
    cases: || {
        CASES
            .iter()
            .map(|case| (case.name, case.title.to_owned()))
            .collect()
    },
    parts: &[
        (THEIR_CLIENT, &datagrams(TheirClient)),
        (OUR_CLIENT, &datagrams(OurClient)),
    ],
    heading: Column::peer_and_transport,
    is_counted: false,
    results: Mutex::new(BTreeMap::new()),
};

pub(crate) static STREAMS: Table = Table {
    variable: "CAROB_STREAMS_TABLE",
    cases: || {
        STREAM_CASES
            .iter()
            .map(|case| (case.name, case.title.to_owned()))
            .collect()
    },
    parts: &[
        (THEIR_CLIENT, &connections(TheirClient)),
        (OUR_CLIENT, &connections(OurClient)),
    ],
    heading: Column::peer_and_transport,
    is_counted: false,
    results: Mutex::new(BTreeMap::new()),
};

/// The ETSI plugtests.
pub(crate) static PLUGTEST: Table = Table {
    variable: "CAROB_PLUGTEST_TABLE",
    cases: plugtest::cases::rows,
    parts: &[(
        "case | what it is about | what is checked",
        &[
            plugtest::CAROB,
            plugtest::CALIFORNIUM_SERVER,
            plugtest::AIOCOAP_SERVER,
            plugtest::CALIFORNIUM_CLIENT,
            plugtest::AIOCOAP_CLIENT,
        ],
    )],
    heading: Column::client_and_server,
    is_counted: true,
    results: Mutex::new(BTreeMap::new()),
};

pub(crate) static TABLES: [&Table; 3] = [&DATAGRAMS, &STREAMS, &PLUGTEST];

/// Prints past the test runner, which keeps what `print!` writes to itself.
pub(crate) fn say(text: &str) {
    // Nobody may be listening; the tests do not depend on it.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

impl Table {
    pub(crate) fn columns(&self) -> impl Iterator<Item = Column> {
        self.parts.iter().flat_map(|(_, columns)| *columns).copied()
    }

    /// Runs a case in a column, or notes why it is not run.
    pub(crate) fn run(&self, column: Column, case: &'static str, run: impl FnOnce()) {
        if let Some(reason) = offers::not_offered(column, case) {
            return self.record(column, case, Outcome::NotOffered(reason));
        }
        if column.peer.is_some_and(|peer| !can_run(&[peer])) {
            return self.record(column, case, Outcome::Skipped);
        }
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(()) => self.record(column, case, Outcome::Passed),
            Err(panic) => {
                self.record(column, case, Outcome::Failed);
                resume_unwind(panic);
            }
        }
    }

    /// Notes an outcome; the last one to come in writes the table. With a filter on the command line some
    /// never come in, and there is no table.
    fn record(&self, column: Column, case: &'static str, outcome: Outcome) {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert((case, column), outcome);
        if results.len() == (self.cases)().len() * self.columns().count()
            && let Some(file) = env::var_os(self.variable)
        {
            fs::write(file, self.markdown(&results)).expect("the table's file can be written");
        }
    }

    fn markdown(&self, results: &Results) -> String {
        let mut reasons = Vec::new();
        let mut text = String::new();
        for (first, columns) in self.parts {
            let headings: Vec<_> = columns.iter().map(|of| (self.heading)(*of)).collect();
            row(&mut text, first, &headings);
            let cells = first.split('|').count() + columns.len();
            let _ = writeln!(text, "|{}", "---|".repeat(cells));
            for (case, cells) in (self.cases)() {
                let cell = |of: &Column| cell(&mut reasons, results[&(case, *of)]);
                row(
                    &mut text,
                    &cells,
                    &columns.iter().map(cell).collect::<Vec<_>>(),
                );
            }
            if self.is_counted {
                let first = format!("{} cases | | passed, not offered", (self.cases)().len());
                let counts = columns.iter().map(|of| counts(results, *of));
                row(&mut text, &first, &counts.collect::<Vec<_>>());
            }
            text.push('\n');
        }
        for (index, reason) in reasons.iter().enumerate() {
            let _ = writeln!(text, "{}. Not offered: {reason}.", index + 1);
        }
        text
    }
}

fn row(text: &mut String, first: &str, cells: &[String]) {
    let _ = writeln!(text, "| {first} | {} |", cells.join(" | "));
}

/// A cell, which points to a reason; each reason is listed once.
fn cell(reasons: &mut Vec<&'static str>, outcome: Outcome) -> String {
    let reason = match outcome {
        Outcome::Passed => return "yes".to_owned(),
        Outcome::Failed => return "FAILED".to_owned(),
        Outcome::Skipped => return "skipped".to_owned(),
        Outcome::NotOffered(reason) => reason,
    };
    let known = reasons.iter().position(|known| *known == reason);
    let index = known.unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    format!("not offered ({})", index + 1)
}

/// Results of a column: passed, not offered.
fn counts(results: &Results, column: Column) -> String {
    let of_column = || results.iter().filter(|((_, of), _)| *of == column);
    let passed = of_column().filter(|(_, outcome)| **outcome == Outcome::Passed);
    let not_offered = of_column().filter(|(_, of)| matches!(of, Outcome::NotOffered(_)));
    format!("{}, {}", passed.count(), not_offered.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_counts_results_and_gives_each_reason_once() {
        let (cases, columns) = ((PLUGTEST.cases)(), PLUGTEST.parts[0].1);
        let cells = cases
            .iter()
            .flat_map(|(case, _)| columns.iter().map(|of| (*case, *of)));
        let mut results: Results = cells.map(|cell| (cell, Outcome::Passed)).collect();
        for (case, _) in &cases[..2] {
            results.insert((*case, columns[2]), Outcome::NotOffered("it is Sunday"));
        }
        results.insert((cases[2].0, columns[0]), Outcome::Failed);
        let text = PLUGTEST.markdown(&results);
        assert_eq!(text.matches("not offered (1)").count(), 2, "{text}");
        assert_eq!(text.matches("FAILED").count(), 1, "{text}");
        assert!(
            text.ends_with("\n\n1. Not offered: it is Sunday.\n"),
            "{text}"
        );
        let all = cases.len();
        let counts = format!("| {}, 0 | {all}, 0 | {}, 2 |", all - 1, all - 2);
        assert!(text.contains(&counts), "{text}");
    }
}
