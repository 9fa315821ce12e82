//! Costs of requests at the server, from the keys of the `server` table.

use carob_sim::spec::{Copies, ServerSpec, Transport};

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;

/// The server of a cell.
pub(super) fn of(cell: &Cell, transport: Transport) -> Result<ServerSpec, ScenarioError> {
    let path = "server.service";
    let spec = ServerSpec {
        service: cell.span(path)?,
        queue: cell.whole("server.receive_queue")? as u32,
        copies: match cell.text("server.copies")? {
            "free" => Copies::Free,
            _ => Copies::Cost,
        },
    };
    if spec.is_used() && transport != Transport::Datagrams {
        let why = "server.service is of datagrams, and an algorithm over TCP was asked for; \
                   leave that out, or set server.service to 0 s";
        return Err(impossible(cell.place(path), why));
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;
    use carob_sim::spec::{AfterFailure, Copies, RunSpec, ServerSpec};

    use crate::scenario::testing::spec as run;

    #[test]
    fn a_server_takes_no_time_unless_told_to() {
        let spec = run("thesis/short", "short-continuous-10c-none-2500", &[]).expect("valid");
        assert_eq!(spec.server, ServerSpec::default());
        assert!(!spec.server.is_used());
        let requests = spec.workload.requests();
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
        assert_eq!(
            (spec.server.service.low, spec.server.service.high),
            (low, high)
        );
        assert_eq!((spec.server.queue, spec.server.copies), (7, Copies::Free));
        let requests = spec.workload.requests();
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
}
