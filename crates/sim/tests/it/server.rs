//! A server that processes one datagram at a time, and clients that continue after a failure.

use crate::specs::{link, run_spec, symmetric};
use carob_cc::time::Duration;
use carob_sim::distribution::TimeDistribution;
use carob_sim::link::{DirectionSpec, LossSpec};
use carob_sim::random::Probability;
use carob_sim::spec::RunError;
use carob_sim::spec::{
    AfterFailure, ClientGroup, Copies, Requests, RunRecord, RunSpec, SERVER_QUEUE_MAX,
    ServerRecord, ServerSpec, Transport, Workload,
};
use carob_sim::tcp::TcpSettings;
use carob_sim::trace::SimEvent;

const SERVICE: Duration = Duration::from_millis(20);
/// A packet of 50 bytes at 1 Gbit/s takes 0.4 us, which is negligible.
const DELAY: Duration = Duration::from_millis(50);

/// Clients with simultaneous requests on a link with delay only.
fn spec(clients: u32, count: u32, service: Duration, queue: u32) -> RunSpec {
    let direction = DirectionSpec {
        delay: DELAY,
        ..DirectionSpec::new(1_000_000_000, 1_000_000)
    };
    let link = symmetric(direction);
    let workload = Workload::Requests(Requests {
        count,
        response_bytes: 12,
        block_bytes: 256,
        path: "hello".to_owned(),
        ..Requests::default()
    });
    RunSpec {
        server: ServerSpec {
            service: TimeDistribution::constant(service),
            queue,
            ..ServerSpec::default()
        },
        ..run_spec(ClientGroup::new(clients, workload), 1_280, link)
    }
}

fn after_failure(mut spec: RunSpec, then: AfterFailure) -> RunSpec {
    let Workload::Requests(requests) = &mut spec.measured.workload else {
        panic!("it makes requests")
    };
    requests.after_failure = then;
    spec
}

fn run(spec: &RunSpec) -> RunRecord {
    carob_sim::run(spec).expect("a run")
}

fn server(record: &RunRecord) -> ServerRecord {
    record.server.expect("a server that takes its time")
}

fn total(record: &RunRecord, of: fn(&carob_sim::spec::FlowRecord) -> u64) -> u64 {
    record.flows.iter().map(of).sum()
}

fn times(time: Duration, n: u64) -> Duration {
    Duration::from_micros(time.as_micros() * n)
}

/// Whether a time equals the expected one, except for transmission times.
fn is_about(time: Duration, wanted: Duration) -> bool {
    let (time, wanted) = (time.as_micros(), wanted.as_micros());
    time >= wanted && time - wanted < 100
}

#[test]
fn simultaneous_requests_are_served_sequentially() {
    let record = run(&spec(30, 1, SERVICE, 50));
    for (place, flow) in record.flows.iter().enumerate() {
        let taken = flow.completion().expect("done");
        let wanted = times(DELAY, 2) + times(SERVICE, place as u64 + 1);
        assert!(is_about(taken, wanted), "client {place}: {taken}");
    }
    let expected = ServerRecord {
        handled: 30,
        repeated: 0,
        dropped: 0,
        queue_peak: 29,
        busy: times(SERVICE, 30),
    };
    assert_eq!(server(&record), expected);
    assert!(is_about(
        record.ended.since(carob_cc::time::Instant::ZERO),
        times(DELAY, 2) + times(SERVICE, 30)
    ));
}

#[test]
fn full_receive_queue_drops_requests() {
    // One is processed and ten are queued; the other nineteen are retransmitted.
    let mut spec = spec(30, 1, SERVICE, 10);
    spec.record.events = 10_000;
    let record = run(&spec);
    let full = |attempt| {
        let events = record.events.iter();
        let dropped = events
            .filter(|e| matches!(e.what, SimEvent::ServerFull { attempt: a, .. } if a == attempt));
        dropped.count()
    };
    assert_eq!(full(0), 19);
    assert_eq!(server(&record).queue_peak, 10);
    let first = |flow: &&carob_sim::spec::FlowRecord| flow.answered_at_once == 1;
    assert_eq!(record.flows.iter().filter(first).count(), 11);
    assert_eq!(total(&record, |flow| flow.answered.into()), 30);
    // Only dropped requests were retransmitted.
    assert_eq!(total(&record, |flow| flow.spurious), 0);
    let again = total(&record, |flow| flow.retransmissions);
    assert_eq!(again, server(&record).dropped);
    assert_eq!(server(&record).handled, 30);
}

/// Requests that take longer than two timeouts; all retransmissions reach the server.
fn slow(copies: Copies) -> RunRecord {
    let mut spec = spec(1, 2, Duration::from_secs(12), 10);
    spec.server.copies = copies;
    run(&spec)
}

#[test]
fn duplicates_may_cost_service_time_or_nothing() {
    let [costly, free] = [Copies::Cost, Copies::Free].map(slow);
    let taken = |record: &RunRecord| record.flows[0].completion().expect("done");
    // Retransmissions are sent after one, three and seven initial timeouts of 2 to 3 s.
    for record in [&costly, &free] {
        assert_eq!(record.flows[0].answered, 2);
        assert!(record.flows[0].spurious >= 4);
    }
    // The second request waits for both retransmissions of the first.
    assert!(is_about(
        taken(&costly),
        times(DELAY, 2) + Duration::from_secs(4 * 12)
    ));
    assert!(is_about(
        taken(&free),
        times(DELAY, 4) + Duration::from_secs(2 * 12)
    ));
    assert_eq!(server(&free).busy, Duration::from_secs(2 * 12));
    assert_eq!((server(&free).handled, server(&free).repeated), (6, 4));
    // The server was processing a retransmission of the second request when the client got the response, 50 ms earlier.
    assert_eq!((server(&costly).handled, server(&costly).repeated), (5, 3));
    assert!(is_about(
        server(&costly).busy,
        Duration::from_secs(4 * 12) + DELAY
    ));
}

#[test]
fn retransmission_of_a_lost_request_has_full_cost() {
    let mut spec = spec(1, 200, SERVICE, 10);
    link(&mut spec).up.loss = LossSpec::Constant(Probability::ppm(300_000));
    spec.server.copies = Copies::Free;
    let record = run(&spec);
    let done = server(&record);
    assert_eq!((done.handled, done.repeated), (200, 0));
    assert_eq!(done.busy, times(SERVICE, 200));
    assert!(total(&record, |flow| flow.retransmissions) > 40);
}

#[test]
fn service_time_is_drawn_per_request_on_its_own_stream() {
    let mut spread = spec(1, 100, SERVICE, 10);
    spread.server.service = TimeDistribution::Uniform {
        low: Duration::ZERO,
        high: SERVICE,
    };
    let record = run(&spread);
    let mean = server(&record).busy.as_micros() / 100;
    assert!((8_000..12_000).contains(&mean), "{mean}");
    // Other random draws are unaffected: here the timeouts, which never expire.
    let timers = |record: &RunRecord| record.flows[0].rto_median;
    assert_eq!(timers(&record), timers(&run(&spec(1, 100, SERVICE, 10))));
    assert_ne!(
        record.trace_hash,
        run(&spec(1, 100, SERVICE, 10)).trace_hash
    );
}

#[test]
fn unused_queue_does_not_change_a_run() {
    let nothing = run(&spec(30, 3, Duration::ZERO, 1));
    assert_eq!(nothing.server, None);
    let mut other = spec(30, 3, Duration::ZERO, 50);
    other.server.copies = Copies::Free;
    assert_eq!(nothing, run(&other));
}

#[test]
fn the_same_seed_is_the_same_run() {
    let mut crowd = spec(100, 5, Duration::from_millis(60), 50);
    crowd.server.service = TimeDistribution::Uniform {
        low: Duration::from_millis(20),
        high: Duration::from_millis(60),
    };
    let crowd = after_failure(crowd, AfterFailure::Next);
    assert_eq!(run(&crowd), run(&crowd));
    let mut other = crowd.clone();
    other.seed = 2;
    assert_ne!(run(&crowd).trace_hash, run(&other).trace_hash);
}

#[test]
fn a_client_stops_after_a_failure_or_makes_the_next_request() {
    // Nine of ten datagrams are lost, so four exchanges in ten succeed with five transmissions.
    let mut hopeless = spec(20, 10, SERVICE, 50);
    link(&mut hopeless).up.loss = LossSpec::Constant(Probability::ppm(900_000));
    let stops = run(&hopeless);
    let goes_on = run(&after_failure(hopeless, AfterFailure::Next));
    for flow in &stops.flows {
        assert_eq!(flow.unanswered, u32::from(flow.finished.is_none()));
        assert!(flow.answered + flow.unanswered <= 10);
    }
    assert!(total(&stops, |flow| flow.unanswered.into()) > 15);
    for flow in &goes_on.flows {
        assert_eq!(flow.answered + flow.unanswered, 10);
        assert_eq!(flow.unanswered, flow.failed);
        // A flow with a failed request is not complete.
        assert_eq!(flow.finished.is_some(), flow.unanswered == 0);
        let first = flow.answered_at_once;
        assert!(first <= flow.transmissions_per_exchange[1]);
    }
    let answered = total(&goes_on, |flow| flow.answered.into());
    assert!((50..120).contains(&answered), "{answered} of 200");
}

#[test]
fn service_time_over_tcp_and_unbounded_queues_are_refused() {
    let mut over_tcp = spec(1, 1, SERVICE, 50);
    over_tcp.measured.transport = Transport::Connections(TcpSettings::THESIS);
    let refused = |spec: &RunSpec| carob_sim::run(spec).expect_err("it is refused");
    assert_eq!(refused(&over_tcp), RunError::ServiceOverConnections);
    for queue in [0, SERVER_QUEUE_MAX + 1] {
        let error = refused(&spec(1, 1, SERVICE, queue));
        assert_eq!(error, RunError::ServerQueue(queue));
        assert!(error.to_string().contains("65536"), "{error}");
    }
    // Without a service time, none of this applies.
    over_tcp.server.service = TimeDistribution::default();
    assert!(carob_sim::run(&over_tcp).is_ok());
}
