//! Different kinds of clients on one link, concurrent requests, and runs of a fixed time.

use crate::specs::{link, run_spec};
use carob_cc::time::{Duration, Instant};
use carob_sim::link::{Buffer, DirectionSpec, LinkSpec};
use carob_sim::run;
use carob_sim::spec::RunError;
use carob_sim::spec::{
    ClientGroup, ControllerSpec, Requests, RunRecord, RunSpec, Transport, Until, Workload,
};
use carob_sim::tcp::TcpSettings;

fn direction(rate_bps: u64, delay: u64) -> DirectionSpec {
    let mut direction = DirectionSpec::new(rate_bps, 14_100);
    direction.buffer = Buffer::bytes(14_100);
    direction.delay = Duration::from_millis(delay);
    direction
}

/// Each client requests one body of `bytes` bytes.
fn transfers(bytes: u32) -> Workload {
    Workload::Requests(Requests {
        count: 1,
        response_bytes: bytes,
        block_bytes: 256,
        path: "hello".to_owned(),
        token_bytes: 1,
        parallel: 1,
        ..Requests::default()
    })
}

fn spec(clients: u32, workload: Workload) -> RunSpec {
    let link = LinkSpec {
        down: direction(30_000, 400),
        up: direction(60_000, 200),
    };
    run_spec(ClientGroup::new(clients, workload), 296, link)
}

fn made(spec: &RunSpec) -> RunRecord {
    run(spec).expect("it can be made")
}

fn over_tcp(spec: &RunSpec, clients: u32) -> ClientGroup {
    ClientGroup {
        clients,
        transport: Transport::Connections(TcpSettings {
            mss: 256,
            ..TcpSettings::MODERN
        }),
        ..spec.measured.clone()
    }
}

#[test]
fn kinds_share_the_link_and_are_recorded_apart() {
    let alone = spec(2, transfers(10_240));
    let mut mixed = alone.clone();
    mixed.others = vec![over_tcp(&alone, 3)];
    let (alone, record) = (made(&alone), made(&mixed));
    assert_eq!((record.flows.len(), record.others.len()), (2, 3));
    let all = record.flows.iter().chain(&record.others);
    assert!(all.into_iter().all(|flow| flow.body_bytes == 10_240));
    assert!(record.flows.iter().all(|flow| flow.segments.is_none()));
    assert!(record.others.iter().all(|flow| flow.segments >= Some(41)));
    // On a shared link, packets wait for packets of other clients.
    for (shared, own) in record.flows.iter().zip(&alone.flows) {
        assert_eq!(shared.started, own.started);
        assert!(shared.completion() > own.completion());
    }
    assert_eq!(record, made(&mixed));
}

#[test]
fn groups_keep_their_controllers_and_parameters() {
    let mut mixed = spec(1, transfers(5_120));
    let controller = ControllerSpec::new("cocoa-03", []).expect("a controller");
    let mut quick = mixed.measured.clone();
    quick.transmission.ack_timeout = Duration::from_millis(100);
    let adaptive = ClientGroup {
        controller,
        ..mixed.measured.clone()
    };
    mixed.others = vec![adaptive, quick];
    mixed.record.samples = 100;
    let record = made(&mixed);
    // The default controller has one timeout, CoCoA adapts. A timeout below the round-trip time expires.
    assert!(record.flows[0].rto.len() <= 1);
    assert!(record.others[0].rto.len() > 1);
    assert_eq!(record.flows[0].retransmissions, 0);
    assert!(record.others[1].retransmissions > 10);
    // All responses but the first belong to spurious retransmissions.
    assert!(record.others[1].spurious > 10);
}

#[test]
fn concurrent_requests_are_limited_by_nstart() {
    // An ample link: an exchange takes 600 ms of propagation and some microseconds.
    let exchange = 600_000;
    for (nstart, rounds) in [(1, 8), (2, 4), (4, 2), (8, 1)] {
        let mut spec = spec(1, transfers(1));
        link(&mut spec).down.rate_bps = 1_000_000_000;
        link(&mut spec).up.rate_bps = 1_000_000_000;
        spec.measured.transmission.nstart = nstart;
        let Workload::Requests(requests) = &mut spec.measured.workload else {
            unreachable!("the workload is requests")
        };
        (requests.count, requests.parallel) = (8, 8);
        let record = made(&spec);
        let took = record.flows[0].completion().expect("it ends").as_micros();
        assert_eq!(record.flows[0].exchanges, 8);
        let expected = rounds * exchange;
        assert!(
            (expected..expected + 100).contains(&took),
            "{nstart}: {took}"
        );
    }
}

#[test]
fn run_of_fixed_time_counts_partial_transfers() {
    let mut spec = spec(1, transfers(1 << 20));
    (spec.until, spec.time_limit) = (Until::TimeLimit, Duration::from_secs(100));
    spec.others = vec![over_tcp(&spec, 1)];
    let record = made(&spec);
    assert_eq!(record.ended, Instant::ZERO + Duration::from_secs(100));
    let [udp, tcp] = [&record.flows[0], &record.others[0]];
    assert!(udp.finished.is_none() && tcp.finished.is_none());
    assert_eq!((udp.body_bytes, tcp.body_bytes), (0, 0));
    // Stop and wait: a block of 256 bytes takes 0.7 s on an empty link and 4.4 s behind a full buffer. TCP takes most
    // of the rest.
    assert!((4_000..20_000).contains(&udp.received_bytes));
    assert!((150_000..375_000).contains(&tcp.received_bytes));
    let carried = record.link.down.bytes_sent;
    assert!(udp.received_bytes + tcp.received_bytes < carried);
    assert!(carried <= 375_000 + 14_100); // what waits was taken, too
}

#[test]
fn a_run_has_no_more_clients_than_all_groups_may_have() {
    let mut spec = spec(4_096, transfers(1));
    spec.others = vec![over_tcp(&spec, 1)];
    assert_eq!(run(&spec).err(), Some(RunError::Clients(4_097)));
}
