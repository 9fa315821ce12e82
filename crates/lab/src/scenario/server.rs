//! Costs of requests at the server, from the keys of the `server` table.

use carob_sim::spec::{Copies, PauseSchedule, SERVER_QUEUE_MAX, ServerSpec, Transport, Works};

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;

keys! {
    /// Keys of the server.
    pub(super) KEYS;

    ServerSpec {
        service: "server.service", Distribution, "0 s",
            "How long the server works on each datagram, one at a time, while others wait. A range is drawn uniformly. Over UDP.";
        works: "server.separate", Word { "off" => Works::Endpoint, "on" => Works::Application }, "off",
            "Separate responses (RFC 7252 5.2.2): with `on` the endpoint acknowledges a request whose response takes longer than 100 ms, and the application takes `server.service` for it, one request at a time.";
        queue: "server.receive_queue", Whole(1, SERVER_QUEUE_MAX as u64), "50",
            "Datagrams that may wait for the server, the one it works on apart; more are dropped. With `server.separate` requests; more are answered with 5.03. Where `server.service` is not 0 or there are pauses.";
        copies: "server.copies", Word { "cost" => Copies::Cost, "free" => Copies::Free }, "cost",
            "Whether a retransmission of a request that the server has worked on takes it as long as the request, or no time.";
    }

    PauseSchedule {
        first: "server.pause", Time, -,
            "When a pause of the server begins, in which it does no work, as in garbage collection. Without it, there is none. Over UDP.";
        interval: "server.pause_interval", Time, "0 s", needs "server.pause",
            "Time from the beginning of one pause to that of the next; with 0 s there is one.";
        lasts: "server.pause_duration", Time, "0 s", needs "server.pause",
            "How long a pause lasts; above 0 s where there is one.";
    }
}

/// The server of a cell.
pub(super) fn of(cell: &Cell, transport: Transport) -> Result<ServerSpec, ScenarioError> {
    let spec = ServerSpec {
        pauses: pauses(cell)?,
        ..cell.fields()?
    };
    if spec.is_used() && transport != Transport::Datagrams {
        let path = match spec.pauses {
            Some(_) => "server.pause",
            None => "server.service",
        };
        let why = format!(
            "{path} is of datagrams, and an algorithm over TCP was asked for; leave that or {path} out"
        );
        return Err(impossible(cell.place(path), why));
    }
    Ok(spec)
}

fn pauses(cell: &Cell) -> Result<Option<PauseSchedule>, ScenarioError> {
    let Some(pauses) = cell.fields_if::<PauseSchedule>("server.pause")? else {
        return Ok(None);
    };
    let (interval, lasts) = (pauses.interval, pauses.lasts);
    if lasts.is_zero() {
        let why = "server.pause needs server.pause_duration, above 0 s";
        return Err(impossible(cell.place("server.pause"), why));
    }
    if !interval.is_zero() && interval <= lasts {
        let why = format!("server.pause_interval {interval} is no longer than a pause ({lasts})");
        return Err(impossible(cell.place("server.pause_interval"), why));
    }
    Ok(Some(pauses))
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;
    use carob_sim::distribution::TimeDistribution;
    use carob_sim::spec::{AfterFailure, Copies, RunSpec, ServerSpec};

    use crate::testing::spec as run;

    #[test]
    fn a_server_takes_no_time_unless_told_to() {
        let spec = run("thesis/short", "short-continuous-10c-none-2500", &[]).expect("valid");
        assert_eq!(spec.server, ServerSpec::default());
        assert!(!spec.server.is_used());
        let requests = spec.measured.workload.requests();
        assert_eq!(requests.after_failure, AfterFailure::Stop);
    }

    #[test]
    fn every_unknown_of_the_server_is_a_key() {
        let set = [
            "service=10-30 ms",
            "receive_queue=7",
            "copies=free",
            "after_failure=next",
        ];
        let cell = "short-continuous-10c-none-2500";
        let set: Vec<&str> = set.into_iter().chain(["run.algorithms=default"]).collect();
        let spec = run("thesis/short", cell, &set).expect("valid");
        let [low, high] = [10, 30].map(Duration::from_millis);
        assert_eq!(spec.server.service, TimeDistribution::Uniform { low, high });
        assert_eq!((spec.server.queue, spec.server.copies), (7, Copies::Free));
        let requests = spec.measured.workload.requests();
        assert_eq!(requests.after_failure, AfterFailure::Next);
    }

    #[test]
    fn scatter_and_service_sweep_reuse_the_clients_scenario() {
        let clients = |set: &str| run("retrycount/clients", "clients-100", &[set]).expect("valid");
        let same = |a: &RunSpec, b: &RunSpec| assert_eq!(format!("{a:?}"), format!("{b:?}"));
        for algorithm in ["default", "rtt-count", "cocoa-v0", "cocoa-03"] {
            let set = format!("run.algorithms={algorithm}");
            let scatter = run("retrycount/rto-scatter", "rto-scatter-100", &[&set]);
            same(&clients(&set), &scatter.expect("valid"));
            // The sweep of service times has a faster link.
            let rates = ["link.down.rate=10 kbit/s", "link.up.rate=10 kbit/s"];
            let set_of_sweep = [&set, rates[0], rates[1]];
            let sweep = run("retrycount/service", "service-20ms-100", &set_of_sweep);
            same(&clients(&set), &sweep.expect("valid"));
        }
    }

    #[test]
    fn service_time_over_tcp_is_refused_with_remedy() {
        let set = ["service=20 ms"];
        let error = run("thesis/short", "short-continuous-10c-none-2500", &set);
        let error = error.expect_err("it has tcp-newreno");
        assert!(
            error.contains("service") && error.contains("over TCP"),
            "{error}"
        );
        let error = run("thesis/short", "", &["receive_queue=0"]).expect_err("none");
        assert!(error.contains("receive_queue"), "{error}");
    }

    /// Answered requests, the mean response time in seconds, transmissions and server datagrams.
    fn answers(set: &[&str]) -> (u64, f64, u64, u64) {
        let common = [
            "run.algorithms=default",
            "workload.kind=exchanges",
            "requests=200",
            "request=0 B",
            "response=8 B",
            "error=none",
        ];
        let all: Vec<&str> = common.iter().chain(set).copied().collect();
        let record = carob_sim::run(&run("carob/default", "default-none", &all).expect("valid"));
        let record = record.expect("a run");
        let flow = &record.flows[0];
        let took = flow.ended.since(flow.started).as_micros() as f64 / 1e6;
        (
            flow.answered.into(),
            took / 200.0,
            flow.transmissions,
            record.link.down.delivered,
        )
    }

    #[test]
    fn service_times_of_every_distribution_add_their_mean() {
        let none = answers(&[]).1;
        // The timer of 2 to 3 s is longer than these.
        for (service, mean, tolerance) in [
            ("300 ms", 0.3, 0.001),
            ("0-600 ms", 0.3, 0.04),
            ("exponential 150 ms", 0.15, 0.04),
            ("lognormal 200-500 ms", 0.233, 0.04),
        ] {
            let with = answers(&[&format!("service={service}")]).1;
            assert!(
                (with - none - mean).abs() < tolerance,
                "{service}: {with} {none}"
            );
        }
    }

    #[test]
    fn separate_responses_stop_retransmissions_and_are_acknowledged() {
        // Each request of 5 s is sent again after 2 to 3 s, if nothing acknowledges it.
        let (answered, _, transmissions, down) = answers(&["service=5 s"]);
        assert_eq!(answered, 200);
        assert!(transmissions >= 400 && down >= 200, "{transmissions}");
        let (answered, took, transmissions, down) = answers(&["service=5 s", "separate=on"]);
        assert_eq!((answered, transmissions, down), (200, 200, 400));
        assert!((5.6..5.8).contains(&took), "{took}");
        // A response within 100 ms is piggybacked.
        let (_, _, transmissions, down) = answers(&["service=50 ms", "separate=on"]);
        assert_eq!((transmissions, down), (200, 200));
    }

    #[test]
    fn pauses_cost_requests_their_length() {
        // 200 exchanges of 0.65 s; one meets the pause of a second after 10 s on its way.
        let none = answers(&[]).1 * 200.0;
        let set = ["server.pause=10 s", "pause_duration=1 s"];
        let once = answers(&set).1 * 200.0 - none;
        assert!((0.3..1.01).contains(&once), "{once}");
        let set = [
            "server.pause=10 s",
            "pause_duration=1 s",
            "pause_interval=10 s",
        ];
        let often = answers(&set).1 * 200.0 - none;
        assert!((6.0..15.0).contains(&often), "{often}");
        for (set, expected) in [
            (&["pause_duration=1 s"][..], "needs server.pause"),
            (&["server.pause=1 s"], "above 0 s"),
            (
                &[
                    "server.pause=1 s",
                    "pause_duration=2 s",
                    "pause_interval=2 s",
                ],
                "no longer than a pause",
            ),
        ] {
            let error = run("carob/default", "default-none", set).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_full_queue_of_separate_responses_is_told() {
        let set = [
            "clients=20",
            "service=2 s",
            "separate=on",
            "receive_queue=5",
            "requests=1",
            "start_spread=0 s",
        ];
        let spec = run(
            "carob/default",
            "default-none",
            &[
                &set[..],
                &[
                    "run.algorithms=default",
                    "workload.kind=exchanges",
                    "response=8 B",
                ],
            ]
            .concat(),
        );
        let record = carob_sim::run(&spec.expect("valid")).expect("a run");
        let answered: u32 = record.flows.iter().map(|flow| flow.answered).sum();
        assert_eq!(answered, 6, "one in service, five wait, fourteen get 5.03");
    }
}
