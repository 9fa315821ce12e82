//! Cases that are skipped in a column, with reasons, from `offers.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::interop::matrix::{Column, Direction};

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
    let peer = column.peer?.name();
    let found = ROWS.iter().find(|row| {
        let is_client = match row.client {
            None => true,
            Some(Whose::Theirs) => column.direction == Direction::TheirClient,
            Some(Whose::Ours) => column.direction == Direction::OurClient,
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
    use crate::interop::matrix::TABLES;

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
        let all: Vec<_> = TABLES.iter().flat_map(|table| (table.cases)()).collect();
        for name in ROWS.iter().flat_map(|row| &row.cases) {
            assert!(all.iter().any(|(case, _)| case == name), "{name}");
        }
    }

    #[test]
    fn every_case_is_run_in_some_column() {
        for table in TABLES {
            for (case, _) in (table.cases)() {
                let mut columns = table.columns();
                let offered = columns.any(|column| not_offered(column, case).is_none());
                assert!(offered, "{case} is run with nobody");
            }
        }
    }
}
