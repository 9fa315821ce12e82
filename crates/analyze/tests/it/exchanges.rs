use carob_analyze::synthetic::{CaptureFile, FileLayout, message};
use carob_analyze::{Analysis, Analyzer, Basis, LossBasis, Options, Place, analyze};
use carob_codec::{BlockSize, BlockValue, Code, OptionNumber, Type};

use crate::traffic::{Path, Traffic, client, server};

fn analysis(file: &[u8]) -> Analysis {
    analyze(file, &Options::default()).expect("a capture")
}

/// Asserts that a value is within a relative error.
fn assert_near(found: u64, truth: u64, share: f64, about: &str) {
    let off = (found as f64 - truth as f64).abs();
    assert!(off <= share * truth as f64, "{about}: {found} for {truth}");
}

const SMALL: &[[usize; 2]] = &[[10, 20]];

#[test]
fn every_file_layout_gives_the_same_result() {
    let traffic = Traffic::requests(&Path::DEFAULT, 400, SMALL, 1);
    for layout in [
        FileLayout::Pcap,
        FileLayout::PcapNanosecondsBigEndian,
        FileLayout::Pcapng,
        FileLayout::PcapngBinaryBigEndian,
    ] {
        let found = analysis(&traffic.client_file(layout, false));
        assert_eq!(found.requests.exchanges, 400, "{layout:?}");
        assert_eq!(found.requests.retransmissions, traffic.retransmissions);
        assert_eq!(found.place, Place::Client, "{layout:?} {:?}", found.basis);
        let times = found.requests.round_trip.expect("at the client");
        assert_near(times.p50_us, traffic.quantile(0.5), 0.01, "median");
    }
}

#[test]
fn client_round_trips_losses_and_spurious_copies_match_truth() {
    let wide = Path {
        rtt: 1_200_000,
        jitter: 900_000,
        ..Path::DEFAULT
    };
    let slow = Path {
        slow: (150_000, 2_500_000),
        ..Path::DEFAULT
    };
    let short = Path {
        timeout: 380_000,
        jitter: 200_000,
        ..Path::DEFAULT
    };
    let lossy = Path {
        losses: [150_000, 100_000],
        ..Path::DEFAULT
    };
    for (name, path) in [
        ("default", Path::DEFAULT),
        ("wide", wide),
        ("slow", slow),
        ("short", short),
        ("lossy", lossy),
    ] {
        let traffic = Traffic::requests(&path, 3_000, SMALL, 7);
        let found = analysis(&traffic.client_file(FileLayout::Pcapng, true));
        let requests = &found.requests;
        assert_eq!(
            (found.place, found.basis),
            (Place::Client, Basis::Directions)
        );
        assert_eq!(requests.retransmissions, traffic.retransmissions, "{name}");
        assert_eq!(requests.unanswered, traffic.unanswered, "{name}");
        let times = requests.round_trip.expect("at the client");
        for (share, time) in [
            (0.5, times.p50_us),
            (0.9, times.p90_us),
            (0.95, times.p95_us),
            (0.99, times.p99_us),
        ] {
            assert_near(
                time,
                traffic.quantile(share),
                0.05,
                &format!("{name} {share}"),
            );
        }
        let lost = found.losses.round_trip.expect("at the client");
        assert!(
            (lost - traffic.lost_round_trips()).abs() < 0.02,
            "{name}: {lost}"
        );
        let spurious = requests.spurious.expect("at the client");
        let wrong = spurious.abs_diff(traffic.spurious);
        assert!(
            wrong * 20 <= traffic.retransmissions,
            "{name}: {spurious} of {} for {}",
            traffic.retransmissions,
            traffic.spurious
        );
        assert_eq!(requests.undecided, 0, "{name}");
    }
}

#[test]
fn a_capture_at_the_server_shows_server_times_and_lost_replies() {
    let path = Path {
        losses: [30_000, 120_000],
        timeout: 900_000,
        server_time: 20_000,
        ..Path::DEFAULT
    };
    let traffic = Traffic::requests(&path, 3_000, SMALL, 3);
    for has_flags in [true, false] {
        let found = analysis(&traffic.server_file(FileLayout::Pcap, has_flags));
        assert_eq!(found.place, Place::Server, "{:?}", found.basis);
        assert_eq!(found.requests.round_trip, None);
        assert!(found.controllers.is_empty() && found.link.is_none());
        let served = found.requests.server_time.expect("at the server");
        assert_near(served.p50_us, 20_000, 0.01, "server time");
        let loss = found.losses.to_client.expect("lost replies");
        assert_eq!(loss.basis, LossBasis::RepeatedRequests);
        assert!((loss.share - 0.12).abs() < 0.02, "{}", loss.share);
        assert!(
            found
                .unknowns()
                .iter()
                .any(|text| text.contains("Capture at a client"))
        );
    }
}

#[test]
fn captures_at_both_ends_show_the_loss_of_each_direction() {
    let path = Path {
        losses: [30_000, 120_000],
        ..Path::DEFAULT
    };
    let traffic = Traffic::requests(&path, 2_000, SMALL, 5);
    for has_flags in [false, true] {
        let mut analyzer = Analyzer::new(Options::default());
        analyzer
            .read(&traffic.client_file(FileLayout::Pcapng, true)[..])
            .expect("a capture");
        analyzer
            .read(&traffic.server_file(FileLayout::Pcapng, has_flags)[..])
            .expect("a capture");
        let found = analyzer.finish();
        assert_eq!(found.requests.exchanges, 2_000);
        for (loss, way) in [(found.losses.to_server, 0), (found.losses.to_client, 1)] {
            let loss = loss.expect("both ends");
            let truth = traffic.lost[way] as f64 / traffic.sent[way] as f64;
            assert_eq!(loss.basis, LossBasis::BothEnds);
            assert!((loss.share - truth).abs() < 1e-9, "{} {truth}", loss.share);
        }
    }
}

#[test]
fn controllers_are_evaluated_by_actual_outcomes() {
    let path = Path {
        jitter: 0,
        losses: [40_000, 0],
        ..Path::DEFAULT
    };
    let traffic = Traffic::requests(&path, 600, SMALL, 9);
    let found = analysis(&traffic.client_file(FileLayout::Pcapng, true));
    assert_eq!(
        found.controllers.len(),
        carob_cc::registry::entries().count()
    );
    let of = |name: &str| {
        let one = found.controllers.iter().find(|one| one.name == name);
        one.cloned().expect("a controller")
    };
    let default = of("default");
    assert_eq!(default.timeout.count, 600);
    assert_near(
        default.timeout.p50_us,
        2_500_000,
        0.01,
        "middle of 2 to 3 s",
    );
    assert_eq!(default.spurious, Some(0.0));
    assert_near(
        default.lost_wait_us.expect("losses"),
        2_500_000,
        0.01,
        "wait",
    );
    // An adaptive controller has learned that the round-trip time is 0.4 s.
    let adaptive = of("rfc6298");
    assert!(adaptive.timeout.p50_us < 1_300_000, "{adaptive:?}");
    assert!(adaptive.lost_wait_us < default.lost_wait_us);
    // With a round-trip time above ACK_TIMEOUT, all timeouts of `default` are too short.
    let far = Path {
        rtt: 3_500_000,
        losses: [0, 0],
        ..path
    };
    let traffic = Traffic::requests(&far, 100, SMALL, 9);
    let found = analysis(&traffic.client_file(FileLayout::Pcapng, true));
    assert_eq!(found.requests.spurious, Some(traffic.spurious));
    let spurious = found.controllers[0].spurious.expect("answers");
    assert!(spurious > 0.99, "{spurious}");
}

#[test]
fn separate_responses_give_the_time_of_the_server() {
    let mut file = CaptureFile::new(FileLayout::Pcap);
    let mut at = 0;
    for id in 0..10_u16 {
        let token = [1, id as u8];
        let path = [(OptionNumber::URI_PATH, &b"slow"[..])];
        let request = message(Type::Confirmable, Code::GET, id, &token, &path, b"");
        let accepted = message(Type::Acknowledgement, Code::EMPTY, id, &[], &[], b"");
        let response = message(
            Type::Confirmable,
            Code::CONTENT,
            900 + id,
            &token,
            &[],
            b"1",
        );
        let done = message(Type::Acknowledgement, Code::EMPTY, 900 + id, &[], &[], b"");
        file.datagram(at, client(), server(), &request);
        file.datagram(at + 50_000, server(), client(), &accepted);
        file.datagram(at + 1_550_000, server(), client(), &response);
        file.datagram(at + 1_550_200, client(), server(), &done);
        at += 1_600_000;
    }
    let found = analysis(&file.into_bytes());
    assert_eq!(found.requests.separate, 10);
    assert_eq!(found.responses.exchanges, 10);
    let served = found.requests.server_time.expect("separate responses");
    assert_near(served.p50_us, 1_500_000, 0.01, "server time");
}

fn block(number: u32, more: bool) -> Vec<u8> {
    let size = BlockSize::from_szx(2).expect("64 bytes");
    let value = BlockValue::new(number, more, size).expect("a small number");
    value.encode().to_vec()
}

#[test]
fn transfers_in_both_directions_have_their_size_and_goodput() {
    let mut file = CaptureFile::new(FileLayout::Pcapng);
    let mut at = 0;
    let mut exchange = |id: u16, is_upload: bool, number: u32| {
        let token = [2, id as u8];
        let more = number < 9;
        let value = block(number, more);
        let asked = block(number, false);
        let path = (OptionNumber::URI_PATH, &b"body"[..]);
        let (request, response) = if is_upload {
            let options = [path, (OptionNumber::BLOCK1, &value[..])];
            let code = if more { Code::CONTINUE } else { Code::CHANGED };
            (
                message(
                    Type::Confirmable,
                    Code::PUT,
                    id,
                    &token,
                    &options,
                    &[b'u'; 64],
                ),
                message(Type::Acknowledgement, code, id, &token, &options[1..], b""),
            )
        } else {
            let options = [path, (OptionNumber::BLOCK2, &asked[..])];
            let block = [(OptionNumber::BLOCK2, &value[..])];
            (
                message(Type::Confirmable, Code::GET, id, &token, &options, b""),
                message(
                    Type::Acknowledgement,
                    Code::CONTENT,
                    id,
                    &token,
                    &block,
                    &[b'd'; 64],
                ),
            )
        };
        file.datagram(at, client(), server(), &request);
        file.datagram(at + 100_000, server(), client(), &response);
        at += 100_000;
    };
    for number in 0..10 {
        exchange(number, false, u32::from(number));
    }
    for number in 0..10 {
        exchange(100 + number, true, u32::from(number));
    }
    // An incomplete transfer.
    for number in 0..4 {
        exchange(200 + number, false, u32::from(number));
    }
    let found = analysis(&file.into_bytes());
    let transfers = &found.transfers;
    assert_eq!((transfers.complete, transfers.incomplete), (2, 1));
    for one in &transfers.listed[..2] {
        assert_eq!((one.bytes, one.blocks, one.block_bytes), (640, 10, 64));
        assert_eq!((one.took_us, one.goodput()), (1_000_000, 640));
    }
    assert!(!transfers.listed[0].is_upload && transfers.listed[1].is_upload);
}

#[test]
fn notifications_belong_to_their_observation() {
    let mut file = CaptureFile::new(FileLayout::Pcap);
    let register = [
        (OptionNumber::OBSERVE, &b""[..]),
        (OptionNumber::URI_PATH, &b"t"[..]),
    ];
    let request = message(Type::Confirmable, Code::GET, 1, &[9], &register, b"");
    file.datagram(0, client(), server(), &request);
    for (number, id) in (10..30_u16).enumerate() {
        let count = [number as u8 + 1];
        let options = [(OptionNumber::OBSERVE, &count[..])];
        let (kind, id) = match number {
            0 => (Type::Acknowledgement, 1),
            number if number % 5 == 0 => (Type::Confirmable, id),
            _ => (Type::NonConfirmable, id),
        };
        let notification = message(kind, Code::CONTENT, id, &[9], &options, b"21");
        let at = 100_000 + number as u64 * 5_000_000;
        file.datagram(at, server(), client(), &notification);
        if kind == Type::Confirmable {
            let ack = message(Type::Acknowledgement, Code::EMPTY, id, &[], &[], b"");
            file.datagram(at + 500, client(), server(), &ack);
        }
    }
    let found = analysis(&file.into_bytes());
    let seen = found.observations;
    assert_eq!(
        (seen.observations, seen.notifications, seen.confirmable),
        (1, 19, 3)
    );
    assert_near(seen.interval.p50_us, 5_000_000, 0.01, "interval");
    assert_eq!(found.responses.notifications, 3);
}

#[test]
fn reused_message_id_starts_another_exchange() {
    let mut file = CaptureFile::new(FileLayout::Pcap);
    for (turn, at) in [(1_u8, 0), (2, 3_000_000)] {
        let path = [(OptionNumber::URI_PATH, &b"t"[..])];
        let request = message(Type::Confirmable, Code::GET, 5, &[turn, turn], &path, b"");
        let response = message(
            Type::Acknowledgement,
            Code::CONTENT,
            5,
            &[turn, turn],
            &[],
            b"1",
        );
        file.datagram(at, client(), server(), &request);
        file.datagram(at + 100_000, server(), client(), &response);
    }
    let found = analysis(&file.into_bytes());
    assert_eq!(
        (found.requests.exchanges, found.requests.retransmissions),
        (2, 0)
    );
}

#[test]
fn ports_and_peers_are_chosen() {
    let mut file = CaptureFile::new(FileLayout::Pcap);
    let other = "10.9.0.3:7000".parse().expect("an address");
    for (id, to) in [(1, server()), (2, other), (3, other)] {
        let path = [(OptionNumber::URI_PATH, &b"t"[..])];
        let request = message(Type::Confirmable, Code::GET, id, &[4], &path, b"");
        let response = message(Type::Acknowledgement, Code::CONTENT, id, &[4], &[], b"1");
        file.datagram(u64::from(id) * 1_000_000, client(), to, &request);
        file.datagram(u64::from(id) * 1_000_000 + 9_000, to, client(), &response);
        // Another protocol, and DTLS.
        file.datagram(
            u64::from(id) * 1_000_000,
            to,
            "10.1.1.1:53".parse().expect("an address"),
            b"\x12\x34dns",
        );
        file.datagram(
            u64::from(id) * 1_000_000,
            client(),
            "10.1.1.1:5684".parse().expect("an address"),
            &[22, 0xfe, 0xfd, 0, 0],
        );
    }
    let file = file.into_bytes();
    let exchanges = |options: Options| {
        let found = analyze(&file[..], &options).expect("a capture");
        assert_eq!(
            found.contents.dtls.records,
            if options.peer.is_some() { 0 } else { 3 }
        );
        found.requests.exchanges
    };
    assert_eq!(exchanges(Options::default()), 3);
    assert_eq!(exchanges(Options::default().port(7_000)), 2);
    assert_eq!(exchanges(Options::default().port(5_683)), 1);
    assert_eq!(exchanges(Options::default().peer("10.9.0.3")), 2);
}
