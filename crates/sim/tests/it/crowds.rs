//! Many clients with small exchanges on one link, some of which reconnect repeatedly.

use std::collections::BTreeSet;

use crate::specs::run_spec;
use carob_cc::TransmissionParameters;
use carob_cc::time::Duration;
use carob_sim::capture::Content;
use carob_sim::link::{DirectionSpec, ExtraDelay, LinkSpec, LossProfile, profile};
use carob_sim::spec::{
    Batches, Bin, ClientGroup, ControllerSpec, Reconnect, Requests, RunRecord, RunSpec, Span,
    Transport, Workload,
};
use carob_sim::tcp::TcpSettings;

/// Bytes on the link: IPv4 and UDP headers and a message of 60 bytes.
const PACKET: u64 = 88;

fn direction(rate: u64, delay: u64, error: &str) -> DirectionSpec {
    DirectionSpec {
        delay: Duration::from_millis(delay),
        extra: ExtraDelay::Constant(Duration::from_millis(15)),
        loss: profile(error)
            .expect("a profile")
            .per_packet(LossProfile::BURST_MILLIPACKETS),
        ..DirectionSpec::new(rate, 1_410_000)
    }
}

fn spec(clients: u32, controller: &str, error: &str) -> RunSpec {
    let mut transmission = TransmissionParameters::DEFAULT;
    transmission.max_retransmit = 20;
    transmission.rto_max = Some(Duration::from_secs(60));
    let link = LinkSpec {
        down: direction(30_000, 400, error),
        up: direction(60_000, 200, error),
    };
    let workload = Workload::Requests(Requests {
        count: 50,
        request_bytes: 49,
        response_bytes: 55,
        block_bytes: 256,
        path: "hello".to_owned(),
        ..Requests::default()
    });
    let measured = ClientGroup {
        start: Span {
            low: Duration::ZERO,
            high: Duration::from_secs(10),
        },
        transmission,
        controller: ControllerSpec::new(controller, []).expect("a controller"),
        ..ClientGroup::new(clients, workload)
    };
    RunSpec {
        time_limit: Duration::from_secs(12 * 3_600),
        ..run_spec(measured, 296, link)
    }
}

/// The same with clients that start with new state after `least` to `most` requests.
fn reconnecting(mut spec: RunSpec, least: u32, most: u32, reconnect: Reconnect) -> RunSpec {
    let Workload::Requests(requests) = &mut spec.measured.workload else {
        panic!("it makes requests")
    };
    requests.batches = Some(Batches {
        least,
        most,
        pause: Span::default(),
        reconnect,
    });
    spec
}

fn over_tcp(mut spec: RunSpec) -> RunSpec {
    spec.measured.transport = Transport::Connections(TcpSettings::THESIS);
    spec
}

fn run(spec: &RunSpec) -> RunRecord {
    let record = carob_sim::run(spec).expect("a run");
    let done = |flow: &carob_sim::spec::FlowRecord| flow.finished.is_some();
    assert!(record.flows.iter().all(done), "some client is not done");
    record
}

fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

#[test]
fn single_client_takes_one_round_trip_per_exchange() {
    // 88 bytes at 60 and at 30 kbit/s, 615 ms of propagation, and 15 ms more per direction.
    let exchange = 0.088 * 8.0 / 60.0 + 0.088 * 8.0 / 30.0 + 0.6 + 0.03;
    for spec in [
        spec(1, "default", "none"),
        reconnecting(spec(1, "default", "none"), 1, 10, Reconnect::AtOnce),
    ] {
        let record = run(&spec);
        let flow = &record.flows[0];
        assert!((seconds(flow.completion().expect("done")) - 50.0 * exchange).abs() < 0.001);
        let mean = flow.round_trips.mean().expect("round trips");
        assert_eq!(flow.round_trips.count, 50);
        assert!((seconds(mean) - exchange).abs() < 0.001, "{mean}");
        assert_eq!((record.link.useless_down, record.link.useless_up), (0, 0));
        let timer = flow.rto_median.expect("timers");
        assert!(timer >= Duration::from_secs(2) && timer <= Duration::from_secs(3));
    }
}

#[test]
fn reconnecting_client_has_new_state_and_port() {
    let mut five = reconnecting(spec(1, "cocoa-03", "none"), 10, 10, Reconnect::AtOnce);
    five.record.packets = 1_000;
    five.record.samples = 1_000;
    let record = run(&five);
    let restarts: BTreeSet<u32> = record.packets.iter().map(|p| p.restarts).collect();
    assert_eq!(restarts, (0..5).collect());
    assert!(
        record
            .packets
            .iter()
            .all(|packet| matches!(packet.content, Content::Datagram(_)))
    );
    // The first timeout of each batch is the initial one of a new controller.
    let timers = &record.flows[0].rto_init;
    let fresh = |timer: &Duration| *timer >= Duration::from_secs(2);
    for batch in timers.chunks(10) {
        let timers: Vec<Duration> = batch.iter().map(|sample| sample.value).collect();
        assert!(fresh(&timers[0]), "{timers:?}");
        assert!(!timers[1..].iter().all(fresh), "{timers:?}");
    }
}

#[test]
fn waiting_for_close_costs_one_round_trip_per_connection() {
    let completion = |reconnect| {
        let spec = over_tcp(reconnecting(spec(1, "default", "none"), 10, 10, reconnect));
        let flow = &run(&spec).flows[0];
        seconds(flow.completion().expect("done"))
    };
    let stays = {
        let record = run(&over_tcp(spec(1, "default", "none")));
        seconds(record.flows[0].completion().expect("done"))
    };
    let [at_once, closed, by_both] = [
        Reconnect::AtOnce,
        Reconnect::Closed,
        Reconnect::ClosedByBoth,
    ]
    .map(completion);
    // Four more handshakes, each with a round trip and a CSM per direction, and four closings.
    let handshakes = (at_once - stays) / 4.0;
    let closings = (closed - at_once) / 4.0;
    assert!((0.64..0.70).contains(&handshakes), "{handshakes}");
    assert!((0.63..0.67).contains(&closings), "{closings}");
    // The last ACK goes up. Its 5 ms of serialization also delay the next SYN without the wait.
    let last_ack = (by_both - closed) / 4.0;
    assert!((0.214..0.216).contains(&last_ack), "{last_ack}");
}

#[test]
fn without_loss_waste_is_spurious_traffic() {
    let record = run(&spec(200, "default", "none"));
    let spurious: u64 = record.flows.iter().map(|flow| flow.spurious).sum();
    let all: u64 = record.flows.iter().map(|flow| flow.retransmissions).sum();
    assert!(spurious > 5_000, "{spurious}");
    assert_eq!(
        spurious, all,
        "nothing is lost, so every copy is for nothing"
    );
    assert_eq!(record.link.useless_up, spurious * PACKET);
    // The last responses are in flight when the run ends.
    let answers = record.link.useless_down / PACKET;
    assert!(answers <= spurious && answers + 400 > spurious);
    assert_eq!(record.link.useless_down % PACKET, 0);
}

#[test]
fn retransmission_after_a_loss_is_not_spurious() {
    // Few clients with long timeouts: every retransmission was needed.
    let record = run(&spec(2, "default", "medium"));
    let retransmissions: u64 = record.flows.iter().map(|flow| flow.retransmissions).sum();
    assert!(retransmissions > 10, "{retransmissions}");
    assert_eq!((record.link.useless_down, record.link.useless_up), (0, 0));
    let trips: u32 = record.flows.iter().map(|flow| flow.round_trips.count).sum();
    assert_eq!(trips, 100);
}

#[test]
fn reconnecting_clients_are_reproducible() {
    for spec in [
        reconnecting(spec(20, "cocoa-03", "high"), 1, 10, Reconnect::AtOnce),
        over_tcp(reconnecting(
            spec(20, "default", "high"),
            1,
            10,
            Reconnect::Closed,
        )),
    ] {
        assert_eq!(run(&spec), run(&spec));
    }
}

#[test]
fn bins_count_link_bytes_and_responses() {
    for mut spec in [
        spec(100, "default", "medium"),
        over_tcp(spec(20, "default", "high")),
    ] {
        let without = run(&spec);
        spec.record.bin = Duration::from_secs(10);
        let record = run(&spec);
        assert_eq!(record.trace_hash, without.trace_hash);
        let sum = |of: fn(&Bin) -> u64| record.bins.iter().map(of).sum::<u64>();
        assert_eq!(sum(|bin| bin.carried), record.link.down.bytes_sent);
        assert_eq!(sum(|bin| bin.useless), record.link.useless_down);
        let requests = u64::from(spec.measured.clients) * 50;
        assert_eq!(sum(|bin| bin.answered.into()), requests);
        // 30 kbit/s for 10 s, plus the packet that ends a little later.
        assert!(record.bins.iter().all(|bin| bin.carried <= 37_500 + 300));
        assert!(
            record
                .bins
                .iter()
                .any(|bin| bin.wait > Duration::from_millis(20))
        );
    }
}
