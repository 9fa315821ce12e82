//! Clients of two kinds on one link, from the keys of the `mix` table.

use std::collections::BTreeMap;

use carob_sim::spec::{CLIENTS_MAX, Group, Workload};

use super::algorithm::{self, Algorithm};
use super::cell::Cell;
use super::error::ScenarioError;
use super::value::Value;
use super::{Setting, impossible};

/// The algorithm of the other clients, if there are any.
pub(super) fn second(
    settings: &BTreeMap<String, Setting>,
) -> Result<Option<Algorithm>, ScenarioError> {
    match settings.get("mix.second") {
        Some(Setting {
            value: Value::Text(name),
            place,
        }) => algorithm::second(name, settings, place).map(Some),
        _ => Ok(None),
    }
}

/// The other clients: they do the same, but for what the table says.
pub(super) fn others(cell: &Cell) -> Result<Vec<Group>, ScenarioError> {
    let Some(second) = &cell.second else {
        let mut strays = [
            "mix.second_clients",
            "mix.second_nstart",
            "mix.second_parallel",
        ]
        .into_iter();
        return match strays.find(|path| cell.has(path)) {
            Some(path) => {
                let why = format!("{path} is of other clients, but mix.second names no algorithm");
                Err(impossible(cell.place(path), why))
            }
            None => Ok(Vec::new()),
        };
    };
    let mut group = cell.group(second)?;
    let path = "mix.second_clients";
    if cell.has(path) {
        let (own, others) = (group.clients, cell.whole(path)?);
        if u64::from(own) + others > u64::from(CLIENTS_MAX) {
            let why =
                format!("{own} clients and {others} others; a link has at most {CLIENTS_MAX}");
            return Err(impossible(cell.place(path), why));
        }
        group.clients = others as u32;
    }
    if cell.has("mix.second_nstart") {
        group.transmission.nstart = cell.whole("mix.second_nstart")? as u16;
    }
    if cell.has("mix.second_parallel")
        && let Workload::Requests(requests) = &mut group.workload
    {
        requests.parallel = cell.whole("mix.second_parallel")? as u32;
    }
    Ok(vec![group])
}
