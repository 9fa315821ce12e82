//! Faults of hosts and link, from the keys of the `faults` table.

use carob_sim::spec::{ClientRestarts, Faults, Outages, Rebindings, RunSpec, ServerRestarts};

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;

/// The faults of a cell.
pub(super) fn of(cell: &Cell) -> Result<Faults, ScenarioError> {
    let mut faults = Faults::default();
    if let Some(first) = cell.if_set("faults.client_restart", Cell::span)? {
        faults.client_restarts = Some(ClientRestarts {
            first,
            interval: cell.time("faults.client_restart_interval")?,
            down: cell.time("faults.client_down")?,
        });
    }
    if let Some(first) = cell.if_set("faults.server_restart", Cell::time)? {
        faults.server_restarts = Some(ServerRestarts {
            first,
            interval: cell.time("faults.server_restart_interval")?,
            down: cell.time("faults.server_down")?,
        });
    }
    if let Some(first) = cell.if_set("faults.rebinding", Cell::span)? {
        faults.rebindings = Some(Rebindings {
            first,
            interval: cell.time("faults.rebinding_interval")?,
        });
    }
    if let Some(first) = cell.if_set("faults.outage", Cell::time)? {
        faults.outages = Some(Outages {
            first,
            interval: cell.time("faults.outage_interval")?,
            duration: cell.time("faults.outage_duration")?,
        });
    }
    Ok(faults)
}

/// Checks that the faults of a run are possible.
pub(super) fn check(cell: &Cell, spec: &RunSpec) -> Result<(), ScenarioError> {
    spec.faults.check(spec).map_err(|error| {
        let path = format!("faults.{}", error.name);
        let value = cell.setting(&path).unwrap_or_default();
        impossible(cell.place(&path), format!("{path} {value}: {}", error.why))
    })
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;
    use carob_sim::spec::RunRecord;
    use carob_sim::trace::SimEvent;

    use crate::testing::spec;

    fn record(cell: &str) -> RunRecord {
        let mut spec = spec("carob/faults", cell, &[]).expect("valid");
        spec.record.events = u32::MAX;
        carob_sim::run(&spec).expect("a run")
    }

    fn count(record: &RunRecord, what: SimEvent) -> usize {
        record.events.iter().filter(|e| e.what == what).count()
    }

    #[test]
    fn every_fault_of_the_scenario_happens_and_no_other() {
        let none = record("faults-none");
        for (cell, restarts, rebindings) in [
            ("faults-client-restart", true, false),
            ("faults-server-restart", true, false),
            ("faults-rebinding", false, true),
            ("faults-outage", false, false),
        ] {
            let record = record(cell);
            assert_eq!(count(&record, SimEvent::Restarted) > 0, restarts, "{cell}");
            assert_eq!(count(&record, SimEvent::Rebound) > 0, rebindings, "{cell}");
            assert!(record.flows.iter().all(|flow| flow.ended > flow.started));
            let sent = |record: &RunRecord| -> u64 {
                record.flows.iter().map(|flow| flow.transmissions).sum()
            };
            assert!(sent(&record) > sent(&none), "{cell}");
        }
        assert_eq!(count(&none, SimEvent::Restarted), 0);
    }

    #[test]
    fn keys_of_faults_are_those_of_the_specification() {
        let set = [
            "faults.client_restart=10-30 s",
            "client_restart_interval=60 s",
            "client_down=5 s",
            "faults.server_restart=40 s",
            "faults.rebinding=50 s",
            "faults.outage=1 min",
            "outage_duration=2 s",
        ];
        let faults = spec("carob/faults", "faults-none", &set)
            .expect("valid")
            .faults;
        let s = Duration::from_secs;
        let restarts = faults.client_restarts.expect("restarts");
        assert_eq!((restarts.first.low, restarts.first.high), (s(10), s(30)));
        assert_eq!((restarts.interval, restarts.down), (s(60), s(5)));
        assert_eq!(faults.server_restarts.expect("restarts").first, s(40));
        let rebindings = faults.rebindings.expect("rebindings");
        assert_eq!((rebindings.first.low, rebindings.interval), (s(50), s(0)));
        assert_eq!(faults.outages.expect("outages").duration, s(2));
    }

    #[test]
    fn impossible_faults_are_errors_with_key_and_remedy() {
        for (name, set, expected) in [
            (
                "carob/faults",
                &["outage_duration=2 s"][..],
                "needs faults.outage",
            ),
            ("carob/faults", &["faults.outage=5 s"], "takes some time"),
            (
                "carob/faults",
                &[
                    "faults.outage=5 s",
                    "outage_duration=9 s",
                    "outage_interval=9 s",
                ],
                "at least 1 ms after the end",
            ),
            (
                "carob/faults",
                &["faults.client_restart=13 h"],
                "an earlier time, or a later time limit",
            ),
            (
                "thesis/short",
                &["faults.rebinding=5 s"],
                "leave out algorithms over TCP",
            ),
            (
                "carob/crowd-mesh",
                &["faults.outage=5 s", "outage_duration=1 s"],
                "wireless network",
            ),
            (
                "nonobserve/gprs-10s",
                &["faults.server_restart=5 s"],
                "other workloads have outages only",
            ),
        ] {
            let error = spec(name, "", set).expect_err(expected);
            let [key, _] = set[0].splitn(2, '=').collect::<Vec<_>>()[..] else {
                unreachable!("a key and a value")
            };
            let key = key.trim_start_matches("faults.");
            let key = key.split('_').next().expect("a word");
            assert!(error.contains(expected) && error.contains(key), "{error}");
        }
    }
}
