//! How everything ended, and the tables that are made of it when all of it is done.

use std::{
    collections::BTreeMap, env, fmt::Write as _, fs, io::Write as _, sync::Mutex, time::Duration,
};

use crate::{
    cases::{CASES, Case},
    installed::Peer,
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

type Results = BTreeMap<(&'static str, Peer, Direction), Outcome>;

static RESULTS: Mutex<Results> = Mutex::new(BTreeMap::new());

/// Notes an outcome; the last one to come in prints the table.
///
/// With a filter on the command line some never come in, and there is no table.
pub(crate) fn record(peer: Peer, direction: Direction, case: &'static str, outcome: Outcome) {
    let mut results = RESULTS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    results.insert((case, peer, direction), outcome);
    if results.len() < CASES.len() * Peer::ALL.len() * Direction::ALL.len() {
        return;
    }
    say(&table(&results));
    if let Some(file) = env::var_os("CAROB_INTEROP_TABLE") {
        fs::write(file, markdown(&results)).expect("CAROB_INTEROP_TABLE can be written");
    }
}

/// Prints past the test runner, which keeps what `print!` writes to itself.
pub(crate) fn say(text: &str) {
    // Nobody may be listening; the tests do not depend on it.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// For a person at a terminal: with times, their client and ours side by side.
fn table(results: &Results) -> String {
    let mut text = format!("\nseconds with their client / with ours\n{:<34}", "");
    for peer in Peer::ALL {
        let _ = write!(text, "{:>18}", peer.name());
    }
    for case in CASES {
        let _ = write!(text, "\n{:<34}", case.title);
        for peer in Peer::ALL {
            let [theirs, ours] =
                Direction::ALL.map(|direction| match results[&(case.name, peer, direction)] {
                    Outcome::Passed(took) => format!("{:.1}", took.as_secs_f64()),
                    Outcome::Failed => "FAILED".to_owned(),
                    Outcome::Skipped => "skipped".to_owned(),
                    Outcome::NotOffered(_) => "-".to_owned(),
                });
            let _ = write!(text, "{:>18}", format!("{theirs} / {ours}"));
        }
    }
    text
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

/// For a document: without times, which are never the same twice, and with the reasons.
fn markdown(results: &Results) -> String {
    let mut reasons = Reasons::default();
    let mut text = String::new();
    for direction in Direction::ALL {
        let _ = write!(text, "| {} |", direction.title());
        for peer in Peer::ALL {
            let _ = write!(text, " {} |", peer.name());
        }
        let _ = writeln!(text, "\n|---|{}", "---|".repeat(Peer::ALL.len()));
        for case in CASES {
            let _ = writeln!(text, "{}", row(results, case, direction, &mut reasons));
        }
        text.push('\n');
    }
    text + &reasons.list()
}

fn row(results: &Results, case: &Case, direction: Direction, reasons: &mut Reasons) -> String {
    let mut text = format!("| {} |", case.title);
    for peer in Peer::ALL {
        let cell = reasons.cell(results[&(case.name, peer, direction)]);
        let _ = write!(text, " {cell} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(outcome: Outcome) -> Results {
        let cells = CASES.iter().flat_map(|case| {
            Peer::ALL
                .into_iter()
                .flat_map(|peer| Direction::ALL.map(|direction| (case.name, peer, direction)))
        });
        cells.map(|cell| (cell, outcome)).collect()
    }

    #[test]
    fn a_reason_is_told_once_and_each_cell_points_to_it() {
        let mut results = all(Outcome::Passed(Duration::from_secs(1)));
        for peer in [Peer::Libcoap, Peer::GoCoap] {
            let cell = (CASES[0].name, peer, Direction::OurClient);
            results.insert(cell, Outcome::NotOffered("it is Sunday"));
        }
        let text = markdown(&results);
        assert_eq!(text.matches("not offered (1)").count(), 2, "{text}");
        assert!(
            text.ends_with("\n1. Not offered: it is Sunday.\n"),
            "{text}"
        );
    }

    #[test]
    fn a_failure_shows_in_both_tables() {
        let mut results = all(Outcome::Passed(Duration::from_secs(1)));
        let cell = (CASES[1].name, Peer::Aiocoap, Direction::TheirClient);
        results.insert(cell, Outcome::Failed);
        assert!(table(&results).contains("FAILED / 1.0"));
        assert_eq!(markdown(&results).matches("FAILED").count(), 1);
    }
}
