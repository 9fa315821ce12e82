//! Packets captured more than once, multiple interfaces and sections, and packet order.

use carob_analyze::synthetic::{FileLayout, Flag, udp_packet};
use carob_analyze::{Certainty, FittedLink, Options, Place, analyze};

use crate::captures::*;
use crate::traffic::{Path, Traffic, client, server};

#[test]
fn packets_seen_twice_count_once() {
    type Twice = fn(bool, &[u8]) -> [Vec<u8>; 2];
    fn ttl_less(packet: &[u8]) -> Vec<u8> {
        let mut packet = packet.to_vec();
        let at = if packet[0] >> 4 == 4 { 8 } else { 7 };
        packet[at] -= 1;
        packet
    }
    // Two interfaces of the client's host, a mirror port, and a router.
    let kinds: [(&str, u16, Twice, Option<Place>); 8] = [
        (
            "SLL",
            SLL,
            |is_request, packet| {
                let kind = if is_request { 4 } else { 0 };
                [sll(kind, packet), sll(kind, packet)]
            },
            Some(Place::Client),
        ),
        (
            "SLL2",
            SLL2,
            |is_request, packet| {
                let kind = if is_request { 4 } else { 0 };
                let order = if is_request { [3, 2] } else { [2, 3] };
                order.map(|interface| sll2(interface, kind, packet))
            },
            Some(Place::Client),
        ),
        (
            "mirror port",
            1,
            |_, packet| [ethernet(1, &[], packet), ethernet(1, &[], packet)],
            None,
        ),
        (
            "mirror port with a tag",
            1,
            |_, packet| [ethernet(1, &[], packet), ethernet(1, &[[0x81, 0]], packet)],
            None,
        ),
        (
            "router",
            1,
            |_, packet| {
                [
                    ethernet(1, &[], packet),
                    ethernet(3, &[], &ttl_less(packet)),
                ]
            },
            None,
        ),
        (
            "router without link headers",
            RAW,
            |_, packet| [packet.to_vec(), ttl_less(packet)],
            None,
        ),
        (
            "router, SLL2",
            SLL2,
            |is_request, packet| {
                let order = if is_request { [2, 3] } else { [3, 2] };
                [
                    sll2(order[0], 0, packet),
                    sll2(order[1], 4, &ttl_less(packet)),
                ]
            },
            None,
        ),
        (
            "bridge, SLL2",
            SLL2,
            |is_request, packet| {
                let order = if is_request { [2, 3] } else { [3, 2] };
                [sll2(order[0], 3, packet), sll2(order[1], 4, packet)]
            },
            None,
        ),
    ];
    let ends = [
        (client(), server()),
        (v6("2001:db8::10", 40_000), v6("2001:db8:1::5", 5_683)),
    ];
    for (name, link_type, twice, place) in kinds {
        for (from, to) in ends {
            let mut file = pcap(link_type);
            for (at, is_request, packet) in exchanges(from, to) {
                for (later, frame) in [0, 30].into_iter().zip(twice(is_request, &packet)) {
                    file.packet(at + later, Flag::None, &frame);
                }
            }
            let found = found(file.bytes());
            let about = format!("{name}, {from}");
            assert_four(&found, &about);
            assert_eq!(found.contents.repeated, 8, "{about}");
            if let Some(place) = place {
                assert_eq!(found.place, place, "{about}");
            }
            let text = found.findings().join(" ");
            assert!(text.contains("8 packets repeated by the capture"), "{text}");
        }
    }
}

#[test]
fn retransmissions_seen_twice_stay_retransmissions() {
    for is_identified in [false, true] {
        let mut file = pcap(SLL2);
        for number in 0..4 {
            let at = 10_000_000 * u64::from(number);
            for (copy, later) in [0, 2_300_000].into_iter().enumerate() {
                let mut packet = udp_packet(client(), server(), 64, &payload(true, number));
                packet[5] = if is_identified {
                    10 * number + copy as u8 + 1
                } else {
                    0
                };
                file.packet(at + later, Flag::None, &sll2(3, 4, &packet));
                file.packet(at + later + 40, Flag::None, &sll2(2, 4, &packet));
            }
            let packet = udp_packet(server(), client(), 57, &payload(false, number));
            file.packet(at + 2_400_000, Flag::None, &sll2(2, 0, &packet));
            file.packet(at + 2_400_040, Flag::None, &sll2(3, 0, &packet));
        }
        let found = found(file.bytes());
        assert_eq!(found.requests.exchanges, 4);
        assert_eq!(found.requests.retransmissions, 4);
        assert_eq!(found.contents.repeated, 12);
    }
}

#[test]
fn interfaces_have_their_own_link_type_and_resolution() {
    let interfaces = [(1, 6), (RAW, 9), (SLL, 0x80 + 30), (SLL2, 3)];
    let mut file = section(&interfaces);
    for (number, (at, is_request, packet)) in exchanges(client(), server()).iter().enumerate() {
        let kind = if *is_request { 4 } else { 0 };
        let frames = [
            ethernet(1, &[], packet),
            packet.clone(),
            sll(kind, packet),
            sll2(9, kind, packet),
        ];
        // One exchange per interface. Captures of all interfaces have no directions except in "cooked" headers.
        let interface = number / 2;
        let direction = way(*is_request);
        file.packet_of(interface as u32, *at, direction, &frames[interface]);
    }
    assert_four(&found(file.bytes()), "an interface for each exchange");
}

#[test]
fn two_interfaces_of_one_pcapng_see_each_packet_once() {
    for flags in [[Flag::None; 2], [Flag::Outbound, Flag::Inbound]] {
        let mut file = section(&[(1, 6), (1, 9)]);
        for (at, is_request, packet) in exchanges(client(), server()) {
            let way = usize::from(!is_request);
            // Outgoing packets pass the bridge first and then its port; incoming ones the reverse.
            let order = if is_request { [0, 1] } else { [1, 0] };
            file.packet_of(order[0], at, flags[way], &ethernet(1, &[], &packet));
            file.packet_of(order[1], at + 30, flags[way], &ethernet(1, &[], &packet));
        }
        let found = found(file.bytes());
        assert_four(&found, &format!("{flags:?}"));
        assert_eq!(found.contents.repeated, 8);
        assert_eq!(found.transfers.complete + found.transfers.incomplete, 0);
    }
}

#[test]
fn both_ends_in_one_pcapng_show_losses_by_direction() {
    let mut file = section(&[(RAW, 6), (RAW, 6)]);
    for number in 0..20_u8 {
        let at = 10_000_000 * u64::from(number);
        let request = udp_packet(client(), server(), 64, &payload(true, number));
        let response = udp_packet(server(), client(), 64, &payload(false, number));
        file.packet_of(0, at, Flag::Outbound, &request);
        // The first transmission of every fifth request is lost.
        let mut later = 0;
        if number % 5 == 0 {
            later = 2_000_000;
            file.packet_of(0, at + later, Flag::Outbound, &request);
        }
        file.packet_of(1, at + later + 20_000, Flag::Inbound, &request);
        file.packet_of(1, at + later + 20_500, Flag::Outbound, &response);
        file.packet_of(0, at + later + 40_500, Flag::Inbound, &response);
    }
    let found = found(file.bytes());
    assert_eq!(
        (found.requests.exchanges, found.requests.retransmissions),
        (20, 4)
    );
    assert_eq!(found.contents.repeated, 0);
    let [lost, none] =
        [found.losses.to_server, found.losses.to_client].map(|loss| loss.expect("both ends"));
    assert!((lost.share - 4.0 / 24.0).abs() < 1e-9, "{}", lost.share);
    assert!(none.share.abs() < 1e-9, "{}", none.share);
}

#[test]
fn a_tap_to_which_all_packets_are_inbound_is_between_the_peers() {
    let mut file = section(&[(1, 6)]);
    for (at, _, packet) in exchanges(client(), server()) {
        file.packet_of(0, at, Flag::Inbound, &ethernet(1, &[], &packet));
    }
    let found = found(file.bytes());
    assert_four(&found, "tap");
    assert!(
        !matches!(found.basis, carob_analyze::Basis::Directions),
        "{:?}",
        found.basis
    );
}

#[test]
fn sections_have_their_own_interfaces() {
    let mut bytes = Vec::new();
    let packets = exchanges(client(), server());
    for (number, pair) in packets.chunks(2).enumerate() {
        let resolution = [6, 9, 3, 0x80 + 20][number];
        let link_type = [1, RAW, 1, RAW][number];
        let mut file = section(&[(link_type, resolution)]);
        for (at, is_request, packet) in pair {
            let frame = if link_type == 1 {
                ethernet(1, &[], packet)
            } else {
                packet.clone()
            };
            file.packet_of(0, *at, way(*is_request), &frame);
        }
        bytes.extend(file.bytes());
    }
    assert_four(&found(&bytes), "sections");
}

#[test]
fn packets_in_another_order_than_their_times_are_put_in_order() {
    // dumpcap writes packets of several interfaces in order of its threads.
    let packets = exchanges(client(), server());
    let mut file = section(&[(RAW, 6), (RAW, 6)]);
    for pair in packets.chunks(2) {
        for (at, is_request, packet) in pair.iter().rev() {
            file.packet_of(u32::from(*is_request), *at, way(*is_request), packet);
        }
    }
    let analysis = found(file.bytes());
    assert_four(&analysis, "replies before requests");
    assert_eq!(analysis.contents.disordered, 0);
    // Captures concatenated in the wrong order.
    let mut file = pcap(RAW);
    for hour in [2, 0, 1] {
        for (at, _, packet) in exchanges(client(), server()) {
            file.packet(hour * 3_600_000_000 + at, Flag::None, &packet);
        }
    }
    let requests = found(file.bytes()).requests;
    assert_eq!(
        (requests.exchanges, requests.answered, requests.unanswered),
        (12, 12, 0)
    );
}

/// Sizes of requests and responses; both vary, so that rates can be estimated.
const SIZES: &[[usize; 2]] = &[
    [8, 16],
    [8, 256],
    [8, 1_024],
    [64, 64],
    [512, 16],
    [1_000, 128],
];

fn fitted(path: &Path, sizes: &[[usize; 2]]) -> FittedLink {
    let traffic = Traffic::requests(path, 2_000, sizes, 11);
    let file = traffic.client_file(FileLayout::Pcapng, true);
    let found = analyze(&file[..], &Options::default()).expect("a capture");
    found.link.expect("round trips")
}

fn assert_near(found: f64, truth: f64, share: f64, about: &str) {
    assert!(
        (found - truth).abs() <= share * truth,
        "{about}: {found} for {truth}"
    );
}

#[test]
fn rates_delay_jitter_and_loss_of_a_path_are_found() {
    // Jitter of several transmission times makes the rates less certain.
    for (rtt, jitter, rates, losses, within) in [
        (630_000, 0, [60_000, 30_000], [20_000, 20_000], 0.01),
        (1_270_000, 200_000, [20_000, 80_000], [1_000, 1_000], 0.1),
        (100_000, 50_000, [375_000, 300_000], [10_000, 10_000], 0.2),
        (40_000, 10_000, [250_000, 250_000], [100_000, 100_000], 0.1),
    ] {
        let path = Path {
            rtt,
            jitter,
            rates,
            losses,
            slow: (0, 0),
            server_time: 0,
            timeout: 4_000_000,
        };
        let link = fitted(&path, SIZES);
        let about = format!("{path:?}: {link:?}");
        assert_near(link.up_bps.value, rates[0] as f64, within, &about);
        assert_near(link.down_bps.value, rates[1] as f64, within, &about);
        assert_eq!(link.down_bps.certainty, Certainty::Measured);
        assert_near(link.rtt_us.value, rtt as f64, 0.05, &about);
        assert!(
            (link.jitter_us.value - jitter as f64).abs() <= 0.1 * jitter as f64 + 1_000.0,
            "{about}"
        );
        assert!(
            (link.loss.value - losses[0] as f64 / 1e6).abs() < 0.01,
            "{about}"
        );
        assert_eq!(link.buffer_bytes, None);
    }
}

#[test]
fn uniform_packet_size_gives_no_rate_estimate() {
    let path = Path {
        rates: [60_000, 30_000],
        jitter: 5_000,
        ..Path::DEFAULT
    };
    let link = fitted(&path, &[[10, 256]]);
    assert_eq!(link.down_bps.certainty, Certainty::Unknown);
    let text = link.to_toml("a.pcapng");
    assert!(
        text.contains("# not known: no transmission time was seen"),
        "{text}"
    );
    assert!(text.starts_with("# Fitted to "), "{text}");
    assert!(text.contains("# buffer: not known"), "{text}");
}

#[test]
fn slow_outliers_do_not_change_the_link() {
    let path = Path {
        rates: [60_000, 30_000],
        slow: (50_000, 800_000),
        losses: [0, 0],
        ..Path::DEFAULT
    };
    let link = fitted(&path, SIZES);
    assert_near(link.down_bps.value, 30_000.0, 0.1, "rate");
    assert_near(link.rtt_us.value, 400_000.0, 0.08, "rtt");
}
