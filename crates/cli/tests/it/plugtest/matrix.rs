//! How everything ended, and the table that is made of it when all of it is done.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::cases::{CASES, Case};
use super::setup::Who;
use crate::installed::Peer;
use crate::interop::matrix::{Outcome, Reasons, say};

/// Who asks and who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    Ours,
    CaliforniumServer,
    AiocoapServer,
    CaliforniumClient,
    AiocoapClient,
}

impl Column {
    pub(crate) const ALL: [Self; 5] = [
        Self::Ours,
        Self::CaliforniumServer,
        Self::AiocoapServer,
        Self::CaliforniumClient,
        Self::AiocoapClient,
    ];

    pub(crate) fn client(self) -> Who {
        match self {
            Self::CaliforniumClient => Who::Theirs(Peer::Californium),
            Self::AiocoapClient => Who::Theirs(Peer::Aiocoap),
            _ => Who::Ours,
        }
    }

    pub(crate) fn server(self) -> Who {
        match self {
            Self::CaliforniumServer => Who::Theirs(Peer::Californium),
            Self::AiocoapServer => Who::Theirs(Peer::Aiocoap),
            _ => Who::Ours,
        }
    }

    /// The peer that has to be installed.
    pub(crate) fn peer(self) -> Option<Peer> {
        [self.client(), self.server()]
            .into_iter()
            .find_map(|who| match who {
                Who::Ours => None,
                Who::Theirs(peer) => Some(peer),
            })
    }

    fn title(self) -> String {
        format!("{} → {}", self.client().name(), self.server().name())
    }
}

type Results = BTreeMap<(&'static str, Column), Outcome>;

/// Notes an outcome; the last one to come in prints and writes the table.
pub(crate) fn record(case: &'static str, column: Column, outcome: Outcome) {
    static RESULTS: Mutex<Results> = Mutex::new(BTreeMap::new());
    let mut results = RESULTS.lock().unwrap_or_else(PoisonError::into_inner);
    results.insert((case, column), outcome);
    if results.len() < CASES.len() * Column::ALL.len() {
        return;
    }
    say(&summary(&results));
    if let Some(file) = env::var_os("CAROB_PLUGTEST_TABLE") {
        fs::write(file, markdown(&results)).expect("CAROB_PLUGTEST_TABLE can be written");
    }
}

/// How many cases of a column ended so.
fn count(results: &Results, column: Column, which: fn(&Outcome) -> bool) -> usize {
    let of_column = results.iter().filter(|((_, other), _)| *other == column);
    of_column.filter(|(_, outcome)| which(outcome)).count()
}

fn passed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Passed(_))
}

fn not_offered(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NotOffered(_))
}

fn failed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed)
}

/// For a person at a terminal.
fn summary(results: &Results) -> String {
    let mut text = format!("\nplugtest, {} cases: client → server", CASES.len());
    for column in Column::ALL {
        let times = results.iter().filter_map(|(key, outcome)| match outcome {
            Outcome::Passed(took) if key.1 == column => Some(*took),
            _ => None,
        });
        let slowest = times.max().unwrap_or_default();
        let _ = write!(
            text,
            "\n{:<24} {} passed, {} failed, {} not offered; the slowest took {:.1} s",
            column.title(),
            count(results, column, passed),
            count(results, column, failed),
            count(results, column, not_offered),
            slowest.as_secs_f64(),
        );
    }
    text
}

/// For a document: without times, which are never the same twice, and with the reasons.
fn markdown(results: &Results) -> String {
    let mut reasons = Reasons::default();
    let mut text = "| case | what it is about | what is checked |".to_owned();
    for column in Column::ALL {
        let _ = write!(text, " {} |", column.title());
    }
    let _ = writeln!(text, "\n|---|---|---|{}", "---|".repeat(Column::ALL.len()));
    for case in CASES {
        let _ = writeln!(text, "{}", row(results, case, &mut reasons));
    }
    let _ = write!(text, "| {} cases | | passed, not offered |", CASES.len());
    for column in Column::ALL {
        let passed = count(results, column, passed);
        let not_offered = count(results, column, not_offered);
        let _ = write!(text, " {passed}, {not_offered} |");
    }
    text + "\n\n" + &reasons.list()
}

fn row(results: &Results, case: &Case, reasons: &mut Reasons) -> String {
    let mut text = format!("| {} | {} | {} |", case.id, case.title, case.checks);
    for column in Column::ALL {
        let cell = reasons.cell(results[&(case.id, column)]);
        let _ = write!(text, " {cell} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_counts_what_passed_and_gives_each_reason_once() {
        let second = Duration::from_secs(1);
        let cells = CASES
            .iter()
            .flat_map(|case| Column::ALL.map(|column| (case.id, column)));
        let mut results: Results = cells.map(|cell| (cell, Outcome::Passed(second))).collect();
        for case in &CASES[..2] {
            let cell = (case.id, Column::AiocoapServer);
            results.insert(cell, Outcome::NotOffered("it is Sunday"));
        }
        results.insert((CASES[2].id, Column::Ours), Outcome::Failed);
        let text = markdown(&results);
        assert_eq!(text.matches("not offered (1)").count(), 2, "{text}");
        assert_eq!(text.matches("FAILED").count(), 1, "{text}");
        assert!(
            text.ends_with("\n1. Not offered: it is Sunday.\n"),
            "{text}"
        );
        let all = CASES.len();
        let counts = format!("| {}, 0 | {all}, 0 | {}, 2 |", all - 1, all - 2);
        assert!(text.contains(&counts), "{text}");
    }
}
