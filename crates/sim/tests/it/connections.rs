//! Endpoints over the TCP model: the long transfers of Pesola 2020 as CoAP over TCP.

use std::collections::BTreeMap;

use crate::specs::{link as link_of, run_spec};
use carob_cc::time::Duration;
use carob_sim::link::{
    CoDelSpec, DirectionSpec, Discipline, ExtraDelay, LinkSpec, LossProfile, profile,
};
use carob_sim::spec::RunError;
use carob_sim::spec::{
    ClientGroup, Recording, Requests, RunRecord, RunSpec, Span, Transport, Until, Workload,
};
use carob_sim::tcp::TcpSettings;
use carob_sim::tcp::settings::Algorithm;
use carob_sim::trace::SimEvent;

const BBR: TcpSettings = TcpSettings {
    congestion: Algorithm::Bbr1,
    ..TcpSettings::THESIS
};

fn link(error: &str, buffer: u64) -> LinkSpec {
    let direction = |rate, delay| DirectionSpec {
        delay: Duration::from_millis(delay),
        extra: ExtraDelay::Constant(Duration::from_millis(15)),
        loss: profile(error)
            .expect("a profile")
            .per_packet(LossProfile::BURST_MILLIPACKETS),
        ..DirectionSpec::new(rate, buffer)
    };
    LinkSpec {
        down: direction(30_000, 400),
        up: direction(60_000, 200),
    }
}

fn spec(tcp: TcpSettings, error: &str, buffer: u64, clients: u32, seed: u64) -> RunSpec {
    let link = link(error, buffer);
    let workload = Workload::Requests(Requests {
        count: 1,
        response_bytes: 102_400,
        block_bytes: 256,
        path: "hello".to_owned(),
        ..Requests::default()
    });
    let measured = ClientGroup {
        start: Span {
            low: Duration::ZERO,
            high: Duration::from_secs(u64::from(clients > 1)),
        },
        transport: Transport::Connections(tcp),
        ..ClientGroup::new(clients, workload)
    };
    RunSpec {
        seed,
        time_limit: Duration::from_secs(12 * 3_600),
        ..run_spec(measured, 296, link)
    }
}

fn recorded(mut spec: RunSpec) -> RunRecord {
    spec.record = Recording {
        events: 100_000,
        packets: 100_000,
        ..Recording::default()
    };
    let record = carob_sim::run(&spec).expect("a run");
    assert_eq!(record.events_unrecorded, 0);
    record
}

fn completion(record: &RunRecord, client: usize) -> Duration {
    record.flows[client].completion().expect("complete")
}

/// Bytes of the client's CSM and request, of the server's CSM, and of the response.
fn sizes() -> (u32, u32, u32) {
    let record = recorded(spec(TcpSettings::THESIS, "none", 1_410_000, 1, 1));
    let mut sent = [BTreeMap::new(), BTreeMap::new()];
    for event in &record.events {
        if let SimEvent::Segment { segment, .. } = event.what
            && segment.data > 0
        {
            sent[event.host as usize].insert(segment.seq, u32::from(segment.data));
        }
    }
    let first: Vec<u32> = sent.iter().map(|all| all[&1]).collect();
    let all = sent.map(|all| all.values().sum::<u32>());
    assert_eq!(all[0], first[0], "one flight of CSM and request");
    (first[0], first[1], all[1] - first[1])
}

#[test]
fn the_stacks_messages_are_the_thesiss_up_to_a_few_bytes() {
    let (request, greeting, response) = sizes();
    // Pesola 2020: 102,408 bytes in 401 segments.
    assert!((102_401..=102_410).contains(&response), "{response}");
    assert!((5..=10).contains(&greeting), "{greeting}");
    assert!((12..=20).contains(&request), "{request}");
}

#[test]
fn writes_start_new_segments_if_configured() {
    let first = |segment_per_write| {
        let tcp = TcpSettings {
            segment_per_write,
            ..TcpSettings::THESIS
        };
        let record = recorded(spec(tcp, "none", 1_410_000, 1, 1));
        let up = record.events.iter().filter_map(|event| match event.what {
            SimEvent::Segment { segment, .. } if event.host == 0 && segment.data > 0 => {
                Some(segment.data)
            }
            _ => None,
        });
        up.collect::<Vec<u16>>()
    };
    let (joined, apart) = (first(false), first(true));
    assert_eq!((joined.len(), apart.len()), (1, 2), "CSM and request");
    assert_eq!(joined[0], apart[0] + apart[1]);
}

#[test]
fn closing_takes_three_segments_or_four() {
    let closing = |fin_acked_alone| {
        let tcp = TcpSettings {
            fin_acked_alone,
            ..TcpSettings::THESIS
        };
        let mut run = spec(tcp, "none", 1_410_000, 1, 1);
        run.until = Until::Closed;
        let record = carob_sim::run(&run).expect("a run");
        record.flows[0].closing.expect("a FIN").packets
    };
    assert_eq!([false, true].map(closing), [3, 4]);
}

#[test]
fn error_free_medians_are_within_3_per_cent_of_table_6() {
    for (tcp, buffer, printed) in [
        (TcpSettings::THESIS, 2_500, 36.213),
        (TcpSettings::THESIS, 14_100, 58.235),
        (TcpSettings::THESIS, 28_200, 95.138),
        (TcpSettings::THESIS, 1_410_000, 32.867),
        (BBR, 14_100, 34.568),
        (BBR, 28_200, 34.568),
        (BBR, 1_410_000, 34.568),
    ] {
        let mut all: Vec<_> = (1..=5)
            .map(|seed| {
                let record = carob_sim::run(&spec(tcp, "none", buffer, 1, seed)).expect("a run");
                completion(&record, 0).as_micros() as f64 / 1e6
            })
            .collect();
        all.sort_by(f64::total_cmp);
        let off = all[2] / printed - 1.0;
        assert!(
            off.abs() <= 0.03,
            "{buffer} B: {} s for {printed} s",
            all[2]
        );
    }
}

#[test]
fn recording_does_not_change_a_run() {
    let spec = |seed| spec(TcpSettings::THESIS, "medium", 14_100, 4, seed);
    let plain = |seed| carob_sim::run(&spec(seed)).expect("a run").trace_hash;
    assert_eq!(plain(1), plain(1));
    assert_eq!(plain(1), recorded(spec(1)).trace_hash);
    assert_ne!(plain(1), plain(2));
    let mut datagrams = spec(1);
    datagrams.measured.transport = Transport::Datagrams;
    let over_udp = carob_sim::run(&datagrams).expect("a run");
    assert_ne!(plain(1), over_udp.trace_hash);
    assert!(
        over_udp
            .flows
            .iter()
            .all(|flow| flow.setup.is_none() && flow.segments.is_none())
    );
}

#[test]
fn spurious_retransmissions_are_counted() {
    // Without loss and with an ample buffer there are no retransmissions.
    let calm = carob_sim::run(&spec(TcpSettings::THESIS, "none", 1_410_000, 1, 1)).expect("a run");
    let flow = &calm.flows[0];
    assert_eq!(
        (flow.retransmissions, flow.spurious, flow.timeouts),
        (0, 0, 0)
    );
    assert_eq!(u64::from(flow.exchanges), flow.transmissions);
    // Timeouts below the round-trip time expire without loss.
    let hasty = TcpSettings {
        rto_initial: Duration::from_millis(500),
        rto_max: Duration::from_millis(500),
        ..TcpSettings::THESIS
    };
    let hasty = carob_sim::run(&spec(hasty, "none", 1_410_000, 1, 1)).expect("a run");
    let flow = &hasty.flows[0];
    assert!(
        flow.spurious > 0 && flow.spurious == flow.retransmissions,
        "{flow:?}"
    );
    // With loss, some retransmissions are needed.
    let lossy = carob_sim::run(&spec(TcpSettings::THESIS, "high", 14_100, 1, 1)).expect("a run");
    let flow = &lossy.flows[0];
    assert!(flow.spurious < flow.retransmissions, "{flow:?}");
}

#[test]
fn a_marking_queue_replaces_losses() {
    let run = |ecn: bool| {
        let tcp = TcpSettings {
            ecn,
            ..TcpSettings::THESIS
        };
        let mut spec = spec(tcp, "none", 28_200, 1, 1);
        let buffer = &mut link_of(&mut spec).down.buffer;
        *buffer = buffer.with(Discipline::CoDel(CoDelSpec {
            target: Duration::from_millis(80),
            interval: Duration::from_millis(700),
            mtu_bytes: 296,
            ecn: true,
        }));
        carob_sim::run(&spec).expect("a run")
    };
    let (plain, marking) = (run(false), run(true));
    assert!(plain.link.down.dropped_early > 0 && plain.flows[0].retransmissions > 0);
    let down = marking.link.down;
    assert!(down.marked > 0 && down.dropped_early + down.dropped_full == 0);
    assert_eq!(marking.flows[0].retransmissions, 0);
}

#[test]
fn small_send_buffer_blocks_server_without_loss() {
    let tight = TcpSettings {
        send_buffer: 4_096,
        ..TcpSettings::THESIS
    };
    for seed in 0..3 {
        let record = carob_sim::run(&spec(tight, "medium", 14_100, 4, seed)).expect("a run");
        for flow in &record.flows {
            assert!(flow.finished.is_some());
            assert_eq!(flow.body_bytes, 102_400);
        }
    }
}

#[test]
fn several_requests_use_one_connection() {
    let mut several = spec(TcpSettings::THESIS, "none", 14_100, 1, 1);
    several.measured.workload = Workload::Requests(Requests {
        count: 3,
        response_bytes: 1_000,
        block_bytes: 256,
        path: "hello".to_owned(),
        ..Requests::default()
    });
    let record = recorded(several);
    assert_eq!(record.flows[0].body_bytes, 3_000);
    let syns = record.events.iter().filter(
        |event| matches!(event.what, SimEvent::Segment { segment, .. } if segment.flags & 0x12 == 2),
    );
    assert_eq!(syns.count(), 1);
}

#[test]
fn failed_connect_gives_up_and_lost_connection_reconnects() {
    let mut never = TcpSettings::THESIS;
    (never.syn_retries, never.synack_retries) = (0, 0);
    let failed = (0..40)
        .map(|seed| carob_sim::run(&spec(never, "high", 14_100, 1, seed)).expect("a run"))
        .filter(|record| record.flows[0].setup.is_none())
        .inspect(|record| assert_eq!(record.flows[0].finished, None))
        .count();
    assert!((1..40).contains(&failed), "{failed}");

    let mut brittle = TcpSettings::THESIS;
    brittle.retries = 1;
    let again = (0..20)
        .map(|seed| recorded(spec(brittle, "high", 14_100, 1, seed)))
        .filter(|record| {
            let second = |c: &&carob_sim::capture::Captured| c.restarts == 1;
            record.packets.iter().any(|c| second(&c))
        })
        .count();
    assert!(again > 0, "no connection broke");
}

#[test]
fn every_recorded_packet_is_one_of_the_link() {
    let run = spec(TcpSettings::THESIS, "medium", 14_100, 1, 1);
    let clients = run.measured.clients;
    let record = recorded(run);
    let (down, up) = (record.link.down, record.link.up);
    let sent = record.packets.iter().filter(|p| p.is_outgoing()).count() as u64;
    assert_eq!(sent, down.offered + up.offered);
    let mut bytes = 0;
    for captured in &record.packets {
        let packet = captured.packet(clients);
        assert_eq!(packet[13] == 255, captured.from == clients);
        bytes += if captured.is_outgoing() {
            packet.len() as u64
        } else {
            0
        };
    }
    let kept_off = down.dropped_full + up.dropped_full;
    assert!(bytes >= down.bytes_sent + up.bytes_sent);
    assert_eq!(bytes == down.bytes_sent + up.bytes_sent, kept_off == 0);
}

#[test]
fn segments_beyond_the_mtu_and_impossible_settings_are_refused() {
    let wide = TcpSettings {
        mss: 257,
        ..TcpSettings::THESIS
    };
    let error = carob_sim::run(&spec(wide, "none", 14_100, 1, 1)).expect_err("too wide");
    assert_eq!(error, RunError::Segment { mss: 257, mtu: 296 });
    assert_eq!(
        error.to_string(),
        "segments of 297 bytes on a link with an MTU of 296"
    );
    let never = TcpSettings {
        ack_every: 0,
        ..TcpSettings::THESIS
    };
    let error = carob_sim::run(&spec(never, "none", 14_100, 1, 1)).expect_err("impossible");
    assert!(error.to_string().contains("tcp.ack_every"), "{error}");
}
