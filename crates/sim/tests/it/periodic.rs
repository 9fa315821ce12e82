//! Periodic requests of clients that keep their state, and sleepy clients.

use crate::specs::{link, run_spec, symmetric};
use carob_cc::time::Duration;
use carob_sim::link::{DirectionSpec, LinkSpec, LossSpec};
use carob_sim::random::Probability;
use carob_sim::spec::RunError;
use carob_sim::spec::{
    AfterFailure, ClientGroup, Periodic, Requests, RunRecord, RunSpec, Transport, Workload,
};
use carob_sim::tcp::TcpSettings;

const PERIOD: Duration = Duration::from_secs(60);

fn requests(count: u32, burst_probability: Probability, poll: Duration) -> Requests {
    Requests {
        count,
        request_bytes: 32,
        block_bytes: 1_024,
        path: "report".to_owned(),
        token_bytes: 2,
        after_failure: AfterFailure::Next,
        periodic: Some(Periodic {
            period: PERIOD,
            jitter: Duration::ZERO,
            burst: 30,
            burst_probability,
        }),
        poll,
        ..Requests::default()
    }
}

fn spec(clients: u32, requests: Requests) -> RunSpec {
    let direction = DirectionSpec {
        delay: Duration::from_millis(50),
        ..DirectionSpec::new(1_000_000, 64_000)
    };
    let link = symmetric(direction);
    let workload = Workload::Requests(requests);
    RunSpec {
        seed: 3,
        ..run_spec(ClientGroup::new(clients, workload), 1_280, link)
    }
}

#[test]
fn a_request_is_sent_every_period_by_one_endpoint() {
    let record = carob_sim::run(&spec(20, requests(5, Probability::ppm(0), Duration::ZERO)));
    for flow in record.expect("a run").flows {
        let took = flow.completion().expect("it completes");
        assert!(took >= PERIOD.times(4) && took < PERIOD.times(4) + Duration::from_secs(1));
        assert_eq!((flow.answered, flow.exchanges), (5, 5));
        assert_eq!(flow.retransmissions, 0);
    }
}

#[test]
fn burst_of_requests_is_serialized_by_nstart() {
    let record = carob_sim::run(&spec(1, requests(60, Probability::ALWAYS, Duration::ZERO)));
    let flow = &record.expect("a run").flows[0];
    let took = flow.completion().expect("it completes");
    // Two bursts one period apart; the second takes 30 round trips of 0.1 s.
    assert!(took > PERIOD + Duration::from_secs(3) && took < PERIOD + Duration::from_secs(4));
    assert_eq!((flow.answered, flow.exchanges), (60, 60));
}

#[test]
fn datagrams_wait_for_a_sleepy_clients_poll() {
    let poll = Duration::from_secs(10);
    let record = carob_sim::run(&spec(50, requests(3, Probability::ppm(0), poll)));
    let record = record.expect("a run");
    let flows = &record.flows;
    assert!(flows.iter().all(|flow| flow.answered == 3));
    let round_trips = flows.iter().filter_map(|flow| flow.round_trips.mean());
    let longest = round_trips.max().expect("round trips");
    assert!(
        longest > Duration::from_secs(6) && longest <= Duration::from_secs(11),
        "{longest}"
    );
    // Clients retransmit meanwhile: ACK_TIMEOUT is 2 s.
    assert!(flows.iter().map(|flow| flow.spurious).sum::<u64>() > 50);
}

#[test]
fn periodic_requests_go_on_after_one_that_was_given_up() {
    for after_failure in [AfterFailure::Stop, AfterFailure::Next] {
        let requests = Requests {
            after_failure,
            ..requests(5, Probability::ppm(0), Duration::ZERO)
        };
        let mut spec = spec(40, requests);
        spec.measured.transmission.max_retransmit = 0;
        let lost = LossSpec::Constant(Probability::ppm(300_000));
        let LinkSpec { down, up } = link(&mut spec);
        (down.loss, up.loss) = (lost, lost);
        let record = carob_sim::run(&spec).expect("a run");
        let failed = record.flows.iter().filter(|flow| flow.unanswered > 0);
        // The flow counts as failed, and its client continues.
        assert!(failed.clone().all(|flow| flow.finished.is_none()));
        assert!(failed.clone().count() > 20);
        assert!(
            failed.clone().all(|flow| flow.exchanges == 5),
            "{after_failure:?}"
        );
    }
}

#[test]
fn histogram_covers_more_responses_than_are_stored() {
    let most = RunRecord::RESPONSE_TIMES_MAX;
    for (each, kept) in [(64, most), (65, 0)] {
        let requests = requests(each, Probability::ppm(0), Duration::ZERO);
        let clients = most as u32 / 64;
        let mut spec = spec(clients, requests);
        spec.time_limit = PERIOD.times(70);
        *link(&mut spec) = symmetric(DirectionSpec::new(100_000_000, 1_000_000));
        let record = carob_sim::run(&spec).expect("a run");
        let answered: u32 = record.flows.iter().map(|flow| flow.answered).sum();
        assert_eq!(answered, clients * each);
        assert_eq!(record.response_times.len(), kept);
    }
}

#[test]
fn impossible_specifications_are_refused() {
    let mut sleepy = spec(1, requests(1, Probability::ppm(0), PERIOD));
    sleepy.measured.transport = Transport::Connections(TcpSettings::THESIS);
    assert_eq!(
        carob_sim::run(&sleepy),
        Err(RunError::SleepyOverConnections)
    );
    let mut hasty = requests(1, Probability::ppm(0), Duration::ZERO);
    hasty.periodic = hasty.periodic.map(|periodic| Periodic {
        period: Duration::ZERO,
        ..periodic
    });
    assert_eq!(carob_sim::run(&spec(1, hasty)), Err(RunError::Period));
}
