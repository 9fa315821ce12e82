//! Faults: restarts of clients and servers, rebinding of addresses, outages of the link.

use crate::specs::{run_spec, symmetric};
use carob_cc::time::{Duration, Instant};
use carob_sim::capture::{Captured, Content};
use carob_sim::distribution::TimeDistribution;
use carob_sim::spec::{FaultError, RunError};

use carob_sim::link::DirectionSpec;
use carob_sim::spec::{
    AfterFailure, ClientGroup, ClientRestarts, Faults, Outages, Periodic, Rebindings, Recording,
    Requests, RunRecord, RunSpec, ServerRestarts, Span, Transport, Workload,
};
use carob_sim::tcp::TcpSettings;
use carob_sim::trace::SimEvent;

const S: fn(u64) -> Duration = Duration::from_secs;
const MS: fn(u64) -> Duration = Duration::from_millis;
const SERVER: u32 = 2;

fn at(moment: Duration) -> Span {
    Span {
        low: moment,
        high: moment,
    }
}

/// Two clients that send requests in sequence over a link with a round trip of 1 s.
fn spec(faults: Faults) -> RunSpec {
    let direction = DirectionSpec {
        delay: MS(500),
        ..DirectionSpec::new(1_000_000, 64_000)
    };
    let link = symmetric(direction);
    let workload = Workload::Requests(Requests {
        count: 20,
        request_bytes: 32,
        block_bytes: 1_024,
        path: "report".to_owned(),
        token_bytes: 2,
        after_failure: AfterFailure::Next,
        ..Requests::default()
    });
    RunSpec {
        seed: 3,
        faults,
        record: Recording {
            events: 100_000,
            packets: 10_000,
            log: 10_000,
            ..Recording::default()
        },
        ..run_spec(ClientGroup::new(2, workload), 1_500, link)
    }
}

fn requests(spec: &mut RunSpec) -> &mut Requests {
    match &mut spec.measured.workload {
        Workload::Requests(requests) => requests,
        other => panic!("{other:?}"),
    }
}

fn run(spec: &RunSpec) -> RunRecord {
    carob_sim::run(spec).expect("a run")
}

/// Times of an event at a host.
fn times(record: &RunRecord, host: u32, what: SimEvent) -> Vec<Instant> {
    let own = record.events.iter().filter(|e| e.host == host);
    own.filter(|e| e.what == what).map(|e| e.at).collect()
}

/// Requests that reached the server, duplicates included, by (client, port, Message ID).
fn arrived(record: &RunRecord) -> Vec<(u32, u32, [u8; 2])> {
    let at_server = |packet: &&Captured| packet.host == SERVER && packet.to == SERVER;
    let of = |packet: &Captured| match &packet.content {
        Content::Datagram(bytes) => (packet.from, packet.restarts, [bytes[2], bytes[3]]),
        Content::Segment(_) => panic!("a segment"),
    };
    record.packets.iter().filter(at_server).map(of).collect()
}

fn restarts_of_clients(first: Span, interval: Duration, down: Duration) -> Faults {
    Faults {
        client_restarts: Some(ClientRestarts {
            first,
            interval,
            down,
        }),
        ..Faults::default()
    }
}

#[test]
fn a_restarted_client_sends_its_request_again_from_another_port() {
    // In the middle of the fifth exchange.
    let record = run(&spec(restarts_of_clients(at(MS(4_200)), S(0), S(0))));
    for (flow, client) in record.flows.iter().zip(0..) {
        // 19 exchanges of 1 s, one of 0.2 s that was lost, and its repetition.
        assert_eq!((flow.answered, flow.unanswered), (20, 0));
        assert_eq!(flow.exchanges, 21);
        let took = flow.completion().expect("it completes");
        assert!(took > MS(20_200) && took < MS(20_300), "{took}");
        let restarted = Instant::ZERO + MS(4_200);
        assert_eq!(times(&record, client, SimEvent::Restarted), [restarted]);
    }
    let ports = arrived(&record);
    let of_port = |port| ports.iter().filter(|(_, own, _)| *own == port).count();
    assert_eq!((of_port(0), of_port(1)), (2 * 5, 2 * 16));
}

#[test]
fn client_is_silent_while_it_is_down() {
    let down = S(7);
    let spec = spec(restarts_of_clients(at(MS(4_600)), S(0), down));
    let record = run(&spec);
    let is_down = |e: Instant| {
        let since = Instant::ZERO + MS(4_600);
        e > since && e < since + down
    };
    let own = record.events.iter().filter(|e| e.host < SERVER);
    let meanwhile: Vec<_> = own.filter(|e| is_down(e.at)).map(|e| e.what).collect();
    // The response that was in flight.
    assert_eq!(meanwhile.len(), 2, "{meanwhile:?}");
    let is_lost = |what: &SimEvent| matches!(what, SimEvent::Lost { .. });
    assert!(meanwhile.iter().all(is_lost));
    for flow in &record.flows {
        let took = flow.completion().expect("it completes");
        assert!(took > MS(27_600) && took < MS(27_700), "{took}");
    }
}

#[test]
fn periodic_requests_go_on_after_restarts() {
    let mut spec = spec(restarts_of_clients(at(S(5)), S(60), S(30)));
    requests(&mut spec).periodic = Some(Periodic {
        period: S(10),
        jitter: S(1),
        burst: 1,
        burst_probability: carob_sim::random::Probability::ppm(0),
    });
    for flow in run(&spec).flows {
        assert_eq!((flow.answered, flow.unanswered), (20, 0));
        // The last request is due at 190 s, within the downtime from 185 s to 215 s.
        let took = flow.completion().expect("it completes");
        assert!(took > S(215) && took < S(240), "{took}");
    }
}

#[test]
fn client_restarts_are_spread_within_a_span() {
    let span = Span {
        low: S(1),
        high: S(11),
    };
    let record = run(&spec(restarts_of_clients(span, S(0), S(0))));
    let [one, two] = [0, 1].map(|client| times(&record, client, SimEvent::Restarted)[0]);
    assert_ne!(one, two);
    let within = Instant::ZERO + S(1)..=Instant::ZERO + S(11);
    assert!(within.contains(&one) && within.contains(&two));
}

#[test]
fn a_restarted_server_does_not_know_requests_it_has_served() {
    // The response of the fifth exchange is lost in an outage, so that the request is retransmitted.
    let outages = Some(Outages {
        first: MS(4_100),
        interval: S(0),
        duration: S(1),
    });
    let server_restarts = Some(ServerRestarts {
        first: MS(5_200),
        interval: S(0),
        down: S(0),
    });
    let duplicates = |faults: Faults| {
        let record = run(&spec(faults));
        let requests = arrived(&record);
        let mut known = requests.clone();
        known.sort_unstable();
        known.dedup();
        assert_eq!(requests.len() - known.len(), 2, "one of each client");
        assert!(record.flows.iter().all(|flow| flow.answered == 20));
        let of_server = record.log.iter().filter(|(host, _)| *host == SERVER);
        let repeated =
            of_server.filter(|(_, trace)| trace.json().to_string().contains("duplicate"));
        repeated.count()
    };
    let outages_only = Faults {
        outages,
        ..Faults::default()
    };
    let both = Faults {
        outages,
        server_restarts,
        ..Faults::default()
    };
    assert_eq!((duplicates(outages_only), duplicates(both)), (2, 0));
}

#[test]
fn a_restarted_server_loses_its_receive_queue() {
    let mut spec = spec(Faults {
        server_restarts: Some(ServerRestarts {
            first: MS(1_000),
            interval: S(0),
            down: S(2),
        }),
        ..Faults::default()
    });
    spec.server.service = TimeDistribution::constant(S(1));
    let record = run(&spec);
    let served = |event: &&carob_sim::trace::Event| matches!(event.what, SimEvent::Served { .. });
    let first = record.events.iter().find(served).expect("some").at;
    // The first requests arrive at 0.5 s, their retransmissions 2 to 3 s later, when the server is up again.
    assert!(first > Instant::ZERO + S(4), "{first:?}");
    assert!(record.flows.iter().all(|flow| flow.answered == 20));
    let restarted = times(&record, SERVER, SimEvent::Restarted);
    assert_eq!(restarted, [Instant::ZERO + S(1)]);
}

#[test]
fn rebinding_moves_responses_to_the_new_port() {
    // The fifth request has reached the server; its response is in flight to the old port.
    let record = run(&spec(Faults {
        rebindings: Some(Rebindings {
            first: at(MS(4_600)),
            interval: S(0),
        }),
        ..Faults::default()
    }));
    for (flow, client) in record.flows.iter().zip(0..) {
        assert_eq!((flow.answered, flow.retransmissions), (20, 1));
        // The endpoint keeps its state: there are no more exchanges than requests.
        assert_eq!(flow.exchanges, 20);
        assert_eq!(times(&record, client, SimEvent::Rebound).len(), 1);
    }
    let mut requests = arrived(&record);
    requests.retain(|(client, ..)| *client == 0);
    let [old, new] = [0, 1].map(|port| requests.iter().filter(|r| r.1 == port).count());
    assert_eq!((old, new), (5, 16));
    // The same message from both ports.
    let same = |(_, port, id): &&(u32, u32, [u8; 2])| {
        *port == 0 && requests.iter().any(|r| r.1 == 1 && r.2 == *id)
    };
    assert_eq!(requests.iter().filter(same).count(), 1);
}

fn outage() -> Faults {
    Faults {
        outages: Some(Outages {
            first: S(3),
            interval: S(20),
            duration: S(4),
        }),
        ..Faults::default()
    }
}

#[test]
fn packets_sent_in_an_outage_are_lost() {
    let record = run(&spec(outage()));
    let is_out = |at: Instant| {
        let since = (at.since(Instant::ZERO)).as_micros().checked_sub(3_000_000);
        since.is_some_and(|since| since % 20_000_000 < 4_000_000)
    };
    let lost: Vec<_> = (record.events.iter())
        .filter(|e| matches!(e.what, SimEvent::Lost { .. }))
        .collect();
    assert!(lost.len() >= 4 && lost.iter().all(|e| is_out(e.at)));
    let sent = record.events.iter();
    let sent = sent.filter(|e| matches!(e.what, SimEvent::Sent { .. }) && is_out(e.at));
    assert_eq!(sent.count(), lost.len());
    assert!(record.flows.iter().all(|flow| flow.answered == 20));
    // Lost packets did not use the link.
    let of_link = record.link.up.offered + record.link.down.offered;
    let flows = record.flows.iter();
    assert!(of_link < flows.map(|flow| 2 * flow.transmissions).sum::<u64>());
}

#[test]
fn segments_are_lost_in_an_outage_and_sent_again() {
    let over_tcp = |faults| {
        let mut spec = spec(faults);
        spec.measured.transport = Transport::Connections(TcpSettings::MODERN);
        run(&spec)
    };
    let (without, with) = (over_tcp(Faults::default()), over_tcp(outage()));
    let lost = |record: &RunRecord| {
        let of_segments =
            |e: &&carob_sim::trace::Event| matches!(e.what, SimEvent::SegmentLost { .. });
        record.events.iter().filter(of_segments).count()
    };
    assert_eq!(lost(&without), 0);
    assert!(lost(&with) > 0);
    for (flow, calm) in with.flows.iter().zip(&without.flows) {
        assert_eq!(flow.answered, 20);
        assert!(flow.completion() > calm.completion().map(|took| took + S(4)));
    }
}

#[test]
fn the_same_faults_give_the_same_run() {
    let faults = Faults {
        rebindings: Some(Rebindings {
            first: at(S(2)),
            interval: S(3),
        }),
        server_restarts: Some(ServerRestarts {
            first: S(4),
            interval: S(9),
            down: S(1),
        }),
        ..restarts_of_clients(at(S(5)), S(7), S(1))
    };
    assert_eq!(run(&spec(faults)), run(&spec(faults)));
    assert_ne!(
        run(&spec(faults)).trace_hash,
        run(&spec(Faults::default())).trace_hash
    );
}

#[test]
fn impossible_faults_are_refused() {
    let refused = |spec: &RunSpec| match carob_sim::run(spec) {
        Err(RunError::Fault(FaultError { name, .. })) => name,
        other => panic!("{:?}", other.map(|record| record.ended)),
    };
    let late = restarts_of_clients(at(S(3_600)), S(0), S(0));
    assert_eq!(refused(&spec(late)), "client_restart");
    let dense = restarts_of_clients(at(S(1)), S(5), S(5));
    assert_eq!(refused(&spec(dense)), "client_restart_interval");
    let mut over_tcp = spec(restarts_of_clients(at(S(1)), S(0), S(0)));
    over_tcp.measured.transport = Transport::Connections(TcpSettings::MODERN);
    assert_eq!(refused(&over_tcp), "client_restart");
    let mut no_time = outage();
    no_time.outages = no_time.outages.map(|outages| Outages {
        duration: S(0),
        ..outages
    });
    assert_eq!(refused(&spec(no_time)), "outage_duration");
}
