//! Results of all cases, written as tables after the last case; `offers.toml` has the cases that are skipped, with reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::{env, fs};

use serde::Deserialize;

use crate::installed::Peer;
use crate::interop::bench::{Bench, can_run};
use crate::interop::cases::{CASES, Case, STREAM_CASES};
use crate::interop::clients::Implementation;
use crate::interop::transport::Transport::{self, SecureWebSocket, Tcp, Tls, Udp, WebSocket};
use crate::plugtest;

/// A table column: both implementations, of which at least one is Carob, and the transport between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Column {
    pub(crate) client: Implementation,
    pub(crate) server: Implementation,
    pub(crate) transport: Transport,
}

impl Column {
    pub(crate) const CAROB: Self = Self {
        client: Implementation::Carob,
        server: Implementation::Carob,
        transport: Udp,
    };

    /// A peer's client with Carob's server.
    pub(crate) const fn their_client(peer: Peer, transport: Transport) -> Self {
        let client = Implementation::Of(peer);
        Self {
            client,
            transport,
            ..Self::CAROB
        }
    }

    /// Carob's client with a peer's server.
    pub(crate) const fn our_client(peer: Peer, transport: Transport) -> Self {
        let server = Implementation::Of(peer);
        Self {
            server,
            transport,
            ..Self::CAROB
        }
    }

    pub(crate) fn peer(self) -> Option<Peer> {
        match (self.client, self.server) {
            (Implementation::Of(peer), _) | (_, Implementation::Of(peer)) => Some(peer),
            (Implementation::Carob, Implementation::Carob) => None,
        }
    }

    /// The peer, and the transport unless the peer has one only.
    fn peer_and_transport(self) -> String {
        let peer = self.peer().map_or("", Peer::name);
        match self.transport {
            Udp => peer.to_owned(),
            transport => format!("{peer} {}", transport.title()),
        }
    }

    fn client_and_server(self) -> String {
        format!("{} → {}", self.client.name(), self.server.name())
    }
}

/// The outcome of a case in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// The peer is not installed.
    Skipped,
    /// One side does not implement the feature; the text has the reason.
    NotOffered(&'static str),
}

type Results = BTreeMap<(&'static str, Column), Outcome>;

/// A part of a table: heading of the leading cells, and columns.
type Part = (&'static str, Vec<Column>);

/// A table with its cases, columns and results.
pub(crate) struct Table {
    /// Environment variable with the path for the Markdown output.
    variable: &'static str,
    pub(crate) cases: &'static [Case],
    parts: fn() -> Vec<Part>,
    heading: fn(Column) -> String,
    start: fn(Column) -> Bench,
    /// The table has the names of the cases, and a row with counts.
    is_plugtest: bool,
    results: Mutex<Results>,
}

/// A part for the peers' clients and one for their servers.
fn both_directions(peers: &[(Peer, Transport)]) -> Vec<Part> {
    let columns = |of: fn(Peer, Transport) -> Column| {
        let columns = peers.iter();
        columns.map(|(peer, over)| of(*peer, *over)).collect()
    };
    vec![
        ("their client, `carob serve`", columns(Column::their_client)),
        (
            "`carob`'s client, their server",
            columns(Column::our_client),
        ),
    ]
}

pub(crate) static DATAGRAMS: Table = Table {
    variable: "CAROB_INTEROP_TABLE",
    cases: CASES,
    parts: || both_directions(&Peer::ALL.map(|peer| (peer, Udp))),
    heading: Column::peer_and_transport,
    start: Bench::of_column,
    is_plugtest: false,
    results: Mutex::new(BTreeMap::new()),
};

pub(crate) static STREAMS: Table = Table {
    variable: "CAROB_STREAMS_TABLE",
    cases: STREAM_CASES,
    // Of the peers, only aiocoap implements WebSocket.
    parts: || {
        both_directions(&[
            (Peer::Libcoap, Tcp),
            (Peer::Libcoap, Tls),
            (Peer::Aiocoap, Tcp),
            (Peer::Aiocoap, Tls),
            (Peer::Aiocoap, WebSocket),
            (Peer::Aiocoap, SecureWebSocket),
            (Peer::Californium, Tcp),
            (Peer::Californium, Tls),
            (Peer::GoCoap, Tcp),
            (Peer::GoCoap, Tls),
        ])
    },
    heading: Column::peer_and_transport,
    start: Bench::of_column,
    is_plugtest: false,
    results: Mutex::new(BTreeMap::new()),
};

/// The ETSI plugtests.
pub(crate) static PLUGTEST: Table = Table {
    variable: "CAROB_PLUGTEST_TABLE",
    cases: plugtest::cases::CASES,
    parts: || vec![("case | subject | checks", plugtest::COLUMNS.to_vec())],
    heading: Column::client_and_server,
    start: |column| Bench::plugtest(column, plugtest::setup::Setup::PLAIN),
    is_plugtest: true,
    results: Mutex::new(BTreeMap::new()),
};

pub(crate) static TABLES: [&Table; 3] = [&DATAGRAMS, &STREAMS, &PLUGTEST];

/// Prints directly to stderr; the test runner captures `print!`.
pub(crate) fn say(text: &str) {
    // stderr may be closed; tests must not fail for it.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

impl Table {
    pub(crate) fn columns(&self) -> Vec<Column> {
        let parts = (self.parts)().into_iter();
        parts.flat_map(|(_, columns)| columns).collect()
    }

    /// Runs a case in a column, or records why it is skipped.
    pub(crate) fn run(&self, column: Column, name: &'static str) {
        if let Some(reason) = not_offered(column, name) {
            return self.record(column, name, Outcome::NotOffered(reason));
        }
        if column.peer().is_some_and(|peer| !can_run(&[peer])) {
            return self.record(column, name, Outcome::Skipped);
        }
        let case = self.cases.iter().find(|case| case.name == name);
        let case = case.expect("a case of the table");
        match catch_unwind(AssertUnwindSafe(|| (case.run)(&(self.start)(column)))) {
            Ok(()) => self.record(column, name, Outcome::Passed),
            Err(panic) => {
                self.record(column, name, Outcome::Failed);
                resume_unwind(panic);
            }
        }
    }

    /// Records an outcome; the last one writes the table. With a test filter some are missing, and no table is written.
    fn record(&self, column: Column, case: &'static str, outcome: Outcome) {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert((case, column), outcome);
        if results.len() == self.cases.len() * self.columns().len()
            && let Some(file) = env::var_os(self.variable)
        {
            fs::write(file, self.markdown(&results)).expect("the table's file can be written");
        }
    }

    fn markdown(&self, results: &Results) -> String {
        let mut reasons = Vec::new();
        let mut text = String::new();
        for (first, columns) in (self.parts)() {
            let headings: Vec<_> = columns.iter().map(|of| (self.heading)(*of)).collect();
            row(&mut text, first, &headings);
            let cells = first.split('|').count() + columns.len();
            let _ = writeln!(text, "|{}", "---|".repeat(cells));
            for case in self.cases {
                let cell = |of: &Column| cell(&mut reasons, results[&(case.name, *of)]);
                let cells: Vec<_> = columns.iter().map(cell).collect();
                let mut first = case.title.to_owned();
                if self.is_plugtest {
                    first = format!("{} | {first}", case.name.to_uppercase());
                }
                row(&mut text, &first, &cells);
            }
            if self.is_plugtest {
                let first = format!("{} cases | | passed, not offered", self.cases.len());
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

/// A cell with the number of its reason; equal reasons are listed once.
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

/// Counts of a column: passed, not offered.
fn counts(results: &Results, column: Column) -> String {
    let of_column = || results.iter().filter(|((_, of), _)| *of == column);
    let passed = of_column().filter(|(_, outcome)| **outcome == Outcome::Passed);
    let not_offered = of_column().filter(|(_, of)| matches!(of, Outcome::NotOffered(_)));
    format!("{}, {}", passed.count(), not_offered.count())
}

#[derive(Deserialize)]
struct Offers {
    row: Vec<Row>,
}

/// An exception. An empty list matches everything.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(default)]
    peers: Vec<String>,
    #[serde(default)]
    over: Vec<String>,
    client: Option<Whose>,
    #[serde(default)]
    cases: Vec<String>,
    reason: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Whose {
    Theirs,
    Ours,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let offers: Offers = toml::from_str(include_str!("offers.toml")).expect("offers.toml");
    offers.row
});

/// The reason why a case is skipped in a column; `None` if it runs.
pub(crate) fn not_offered(column: Column, case: &str) -> Option<&'static str> {
    let has = |list: &[String], name: &str| list.is_empty() || list.iter().any(|one| one == name);
    let peer = column.peer()?.name();
    let found = ROWS.iter().find(|row| {
        let is_client = match row.client {
            None => true,
            Some(Whose::Theirs) => column.client != Implementation::Carob,
            Some(Whose::Ours) => column.client == Implementation::Carob,
        };
        let is_column = has(&row.peers, peer) && has(&row.over, column.transport.title());
        is_client && is_column && has(&row.cases, case)
    });
    found.map(|row| &*row.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installed::Peer;

    #[test]
    fn a_table_counts_results_and_gives_each_reason_once() {
        let (cases, columns) = (PLUGTEST.cases, PLUGTEST.columns());
        let cells = cases
            .iter()
            .flat_map(|case| columns.iter().map(|of| (case.name, *of)));
        let mut results: Results = cells.map(|cell| (cell, Outcome::Passed)).collect();
        for case in &cases[..2] {
            results.insert((case.name, columns[2]), Outcome::NotOffered("it is Sunday"));
        }
        results.insert((cases[2].name, columns[0]), Outcome::Failed);
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

    #[test]
    fn every_exception_names_an_existing_case_and_column() {
        let peers = Peer::ALL.map(Peer::name);
        let over: Vec<_> = TABLES
            .iter()
            .flat_map(|table| table.columns())
            .map(|column| column.transport.title())
            .collect();
        for row in ROWS.iter() {
            assert!(row.peers.iter().all(|peer| peers.contains(&&**peer)));
            assert!(row.over.iter().all(|name| over.contains(&&**name)));
        }
        let all: Vec<_> = TABLES.iter().flat_map(|table| table.cases).collect();
        for name in ROWS.iter().flat_map(|row| &row.cases) {
            assert!(all.iter().any(|case| case.name == name), "{name}");
        }
    }

    #[test]
    fn every_case_is_run_in_some_column() {
        for table in TABLES {
            for case in table.cases {
                let mut columns = table.columns().into_iter();
                let offered = columns.any(|column| not_offered(column, case.name).is_none());
                assert!(offered, "{case:?} is run with nobody");
            }
        }
    }
}
