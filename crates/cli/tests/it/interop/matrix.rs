//! How everything ended, and the tables that are made of it when all of it is done.

use std::{
    collections::BTreeMap, env, fmt::Write as _, fs, io::Write as _, sync::Mutex, time::Duration,
};

use crate::installed::Peer;
use crate::interop::{
    cases::{CASES, Case, STREAM_CASES},
    transport::{CONNECTIONS, Column, Transport},
};

/// Who asks: the peer's client our server, or our client the peer's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    TheirClient,
    OurClient,
}

impl Direction {
    const ALL: [Self; 2] = [Self::TheirClient, Self::OurClient];

    fn title(self) -> &'static str {
        match self {
            Self::TheirClient => "their client, `carob serve`",
            Self::OurClient => "`carob`'s client, their server",
        }
    }
}

/// How a case ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Passed(Duration),
    Failed,
    /// The peer is not installed.
    Skipped,
    /// One of the two cannot do it; the text says why.
    NotOffered(&'static str),
}

type Results = BTreeMap<(&'static str, Column, Direction), Outcome>;

/// What is tried with whom, and where the results go.
struct Table {
    cases: &'static [Case],
    columns: &'static [Column],
    /// Names the file for its Markdown.
    variable: &'static str,
    results: Mutex<Results>,
}

static DATAGRAMS: Table = Table {
    cases: CASES,
    columns: &[
        (Peer::Libcoap, Transport::Udp),
        (Peer::Aiocoap, Transport::Udp),
        (Peer::Californium, Transport::Udp),
        (Peer::GoCoap, Transport::Udp),
    ],
    variable: "CAROB_INTEROP_TABLE",
    results: Mutex::new(BTreeMap::new()),
};

static STREAMS: Table = Table {
    cases: STREAM_CASES,
    columns: CONNECTIONS,
    variable: "CAROB_STREAMS_TABLE",
    results: Mutex::new(BTreeMap::new()),
};

impl Table {
    fn of(transport: Transport) -> &'static Self {
        match transport {
            Transport::Udp => &DATAGRAMS,
            _ => &STREAMS,
        }
    }
}

/// The peer, and its transport where there are several.
fn heading((peer, transport): Column) -> String {
    match transport {
        Transport::Udp => peer.name().to_owned(),
        _ => format!("{} {}", peer.name(), transport.title()),
    }
}

/// Notes an outcome; the last one to come in prints the table.
///
/// With a filter on the command line some never come in, and there is no table.
pub(crate) fn record(column: Column, direction: Direction, case: &'static str, outcome: Outcome) {
    let table = Table::of(column.1);
    let mut results = table
        .results
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    results.insert((case, column, direction), outcome);
    if results.len() < table.cases.len() * table.columns.len() * Direction::ALL.len() {
        return;
    }
    say(&table.text(&results));
    if let Some(file) = env::var_os(table.variable) {
        fs::write(file, table.markdown(&results)).expect("the table's file can be written");
    }
}

/// Prints past the test runner, which keeps what `print!` writes to itself.
pub(crate) fn say(text: &str) {
    // Nobody may be listening; the tests do not depend on it.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

impl Table {
    /// For a person at a terminal: with times, their client and ours side by side.
    fn text(&self, results: &Results) -> String {
        let mut text = format!("\nseconds with their client / with ours\n{:<34}", "");
        for column in self.columns {
            let _ = write!(text, "{:>18}", heading(*column));
        }
        for case in self.cases {
            let _ = write!(text, "\n{:<34}", case.title);
            for column in self.columns {
                let [theirs, ours] = Direction::ALL.map(|direction| {
                    match results[&(case.name, *column, direction)] {
                        Outcome::Passed(took) => format!("{:.1}", took.as_secs_f64()),
                        Outcome::Failed => "FAILED".to_owned(),
                        Outcome::Skipped => "skipped".to_owned(),
                        Outcome::NotOffered(_) => "-".to_owned(),
                    }
                });
                let _ = write!(text, "{:>18}", format!("{theirs} / {ours}"));
            }
        }
        text
    }

    /// For a document: without times, which are never the same twice, and with the reasons.
    fn markdown(&self, results: &Results) -> String {
        let mut reasons = Reasons::default();
        let mut text = String::new();
        for direction in Direction::ALL {
            let _ = write!(text, "| {} |", direction.title());
            for column in self.columns {
                let _ = write!(text, " {} |", heading(*column));
            }
            let _ = writeln!(text, "\n|---|{}", "---|".repeat(self.columns.len()));
            for case in self.cases {
                let _ = writeln!(text, "{}", self.row(results, case, direction, &mut reasons));
            }
            text.push('\n');
        }
        text + &reasons.list()
    }

    fn row(
        &self,
        results: &Results,
        case: &Case,
        direction: Direction,
        reasons: &mut Reasons,
    ) -> String {
        let mut text = format!("| {} |", case.title);
        for column in self.columns {
            let cell = reasons.cell(results[&(case.name, *column, direction)]);
            let _ = write!(text, " {cell} |");
        }
        text
    }
}

/// The reasons that a document's table points to, each told once.
#[derive(Debug, Default)]
pub(crate) struct Reasons(Vec<&'static str>);

impl Reasons {
    /// What a cell says.
    pub(crate) fn cell(&mut self, outcome: Outcome) -> String {
        let reason = match outcome {
            Outcome::Passed(_) => return "yes".to_owned(),
            Outcome::Failed => return "FAILED".to_owned(),
            Outcome::Skipped => return "skipped".to_owned(),
            Outcome::NotOffered(reason) => reason,
        };
        let known = self.0.iter().position(|known| *known == reason);
        let index = known.unwrap_or_else(|| {
            self.0.push(reason);
            self.0.len() - 1
        });
        format!("not offered ({})", index + 1)
    }

    /// The list below the table.
    pub(crate) fn list(&self) -> String {
        let mut text = String::new();
        for (index, reason) in self.0.iter().enumerate() {
            let _ = writeln!(text, "{}. Not offered: {reason}.", index + 1);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(outcome: Outcome) -> Results {
        let cells = CASES.iter().flat_map(|case| {
            let columns = DATAGRAMS.columns.iter();
            columns
                .flat_map(|column| Direction::ALL.map(|direction| (case.name, *column, direction)))
        });
        cells.map(|cell| (cell, outcome)).collect()
    }

    #[test]
    fn a_reason_is_told_once_and_each_cell_points_to_it() {
        let mut results = all(Outcome::Passed(Duration::from_secs(1)));
        for peer in [Peer::Libcoap, Peer::GoCoap] {
            let cell = (CASES[0].name, (peer, Transport::Udp), Direction::OurClient);
            results.insert(cell, Outcome::NotOffered("it is Sunday"));
        }
        let text = DATAGRAMS.markdown(&results);
        assert_eq!(text.matches("not offered (1)").count(), 2, "{text}");
        assert!(
            text.ends_with("\n1. Not offered: it is Sunday.\n"),
            "{text}"
        );
    }

    #[test]
    fn a_failure_shows_in_both_tables() {
        let mut results = all(Outcome::Passed(Duration::from_secs(1)));
        let cell = (
            CASES[1].name,
            (Peer::Aiocoap, Transport::Udp),
            Direction::TheirClient,
        );
        results.insert(cell, Outcome::Failed);
        assert!(DATAGRAMS.text(&results).contains("FAILED / 1.0"));
        assert_eq!(DATAGRAMS.markdown(&results).matches("FAILED").count(), 1);
    }
}
