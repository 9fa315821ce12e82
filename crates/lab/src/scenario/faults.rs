//! Faults of hosts and link, from the keys of the `faults` table.

use carob_sim::spec::{ClientRestarts, Faults, Outages, Rebindings, RunSpec, ServerRestarts};

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;

keys! {
    /// Keys of faults.
    pub(super) KEYS;

    ClientRestarts {
        first: "faults.client_restart", Span, -,
            "When each client restarts, drawn uniformly: it loses its state, takes another port and sends outstanding requests again. Without it, no client restarts. Over UDP.";
        interval: "faults.client_restart_interval", Time, "0 s", needs "faults.client_restart",
            "Time from one restart of a client to its next; with 0 s there is one.";
        down: "faults.client_down", Time, "0 s", needs "faults.client_restart",
            "How long a restart of a client takes; datagrams that arrive meanwhile are lost.";
    }

    ServerRestarts {
        first: "faults.server_restart", Time, -,
            "When the server restarts and loses its state: remembered duplicates, unfinished bodies, its receive queue. Without it, it does not restart. Over UDP.";
        interval: "faults.server_restart_interval", Time, "0 s", needs "faults.server_restart",
            "Time from one restart of the server to the next; with 0 s there is one.";
        down: "faults.server_down", Time, "0 s", needs "faults.server_restart",
            "How long a restart of the server takes; datagrams that arrive meanwhile are lost.";
    }

    Rebindings {
        first: "faults.rebinding", Span, -,
            "When network address translation gives each client another port, drawn uniformly; a single time is the same for all. What the server sends to the old port is lost. Without it, ports stay. Over UDP.";
        interval: "faults.rebinding_interval", Time, "0 s", needs "faults.rebinding",
            "Time from one rebinding of a client to its next; with 0 s there is one.";
    }

    Outages {
        first: "faults.outage", Time, -,
            "When an outage of the link begins; packets sent during it are lost in both directions. Without it, there is none.";
        interval: "faults.outage_interval", Time, "0 s", needs "faults.outage",
            "Time from the beginning of one outage to that of the next; with 0 s there is one.";
        duration: "faults.outage_duration", Time, "0 s", needs "faults.outage",
            "How long an outage lasts; above 0 s where there is one.";
    }
}

/// The faults of a cell.
pub(super) fn of(cell: &Cell) -> Result<Faults, ScenarioError> {
    Ok(Faults {
        client_restarts: cell.fields_if("faults.client_restart")?,
        server_restarts: cell.fields_if("faults.server_restart")?,
        rebindings: cell.fields_if("faults.rebinding")?,
        outages: cell.fields_if("faults.outage")?,
    })
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
