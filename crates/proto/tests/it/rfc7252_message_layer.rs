//! RFC 7252 section 4 by requirement, on the wire (`vectors/requirements.toml`).

use crate::net::wire::{ack, blocks, con, empty, non, shapes, view};
use crate::net::{Net, Stream, as_non, get, millis, post, seconds};
use bytes::Bytes;
use carob_cc::ratio::Ratio;
use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::codec::{Code, OptionNumber, Type};
use carob_proto::endpoint::{Config, Endpoint, Event, Failure, Output, RequestConfig};
use carob_proto::message::Payload;

/// A client with a pending `GET x`; its Message ID and bytes.
fn waiting() -> (Net, u16, Vec<u8>) {
    let mut net = Net::deaf();
    net.send(get("x"));
    let request = net.sent_by_client()[0].to_vec();
    let id = view(&request).message_id().0;
    (net, id, request)
}

/// A server after the Empty ACK and the separate response to `GET slow`; that response.
fn responding() -> (Net, Vec<u8>) {
    let mut net = Net::plain();
    net.app.resources.insert("slow".into(), "late".into());
    net.app.delay = seconds(1);
    // The network drops everything; the tests play the client.
    net.drop_if = Some(|_, _| true);
    net.inject_to_server(&con(Code::GET, 1).path("slow").bytes());
    net.run_for(millis(1_100));
    let response = net.sent_by_server().last().unwrap().to_vec();
    assert_eq!(shapes(&net.sent_by_server()), ["ACK 0.00", "CON 2.05"]);
    (net, response)
}

#[test]
fn message_of_another_version_is_ignored() {
    let (mut net, id, request) = waiting();
    for version in [0x00, 0x80, 0xc0] {
        let mut other = ack(Code::CONTENT, id).token_of(&request).bytes();
        other[0] = other[0] & 0x3f | version;
        net.inject_to_client(&other);
        let mut other = con(Code::GET, 3).bytes();
        other[0] = other[0] & 0x3f | version;
        net.inject_to_server(&other);
    }
    assert!(net.events.is_empty() && net.sent_by_server().is_empty());
    assert_eq!(net.sent_by_client().len(), 1);
}

#[test]
fn sent_messages_have_version_1_and_no_non_is_empty() {
    let mut net = Net::plain();
    net.app.delay = seconds(1);
    net.send(get("x"));
    net.send(post("x", Bytes::from_static(b"y")));
    net.send_with(get("x"), as_non());
    net.client
        .ping(net.now, crate::net::server_address())
        .unwrap();
    net.run_for(seconds(300));
    assert!(net.crossings.len() >= 10);
    assert!(net.crossings.iter().all(|c| c.bytes[0] >> 6 == 1));
    let all: Vec<_> = net.crossings.iter().map(|c| &c.bytes[..]).collect();
    assert!(shapes(&all).iter().all(|shape| shape != "NON 0.00"));
}

#[test]
fn unprocessable_con_is_rejected_by_rst_with_its_message_id() {
    let mut net = Net::plain();
    let reserved = [0x20, 0x3f, 0xc5, 0xe1, 0xff].map(Code);
    for (n, code) in reserved.into_iter().enumerate() {
        net.inject_to_server(&con(code, 0x100 + n as u16).bytes());
    }
    net.inject_to_server(&empty(Type::Confirmable, 0x200));
    // A reserved token length, a truncated option, and bytes after an Empty message.
    net.inject_to_server(&[0x4f, 1, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    net.inject_to_server(&[0x40, 1, 3, 1, 0xb3, b'a']);
    net.inject_to_server(&[0x40, 0, 3, 2, 0xff]);
    // A payload marker without payload, and a truncated header.
    net.inject_to_server(&[0x40, 1, 3, 3, 0xff]);
    net.inject_to_server(&[0x40, 1]);
    let ids = [
        0x100, 0x101, 0x102, 0x103, 0x104, 0x200, 0x300, 0x301, 0x302, 0x303,
    ];
    let expected: Vec<_> = ids.map(|id| empty(Type::Reset, id)).to_vec();
    assert_eq!(net.sent_by_server(), expected);
    assert!(net.app.executed.is_empty());
}

#[test]
fn unprocessable_non_is_ignored() {
    let mut net = Net::plain();
    for code in [0x20, 0xc5, 0xe1].map(Code) {
        net.inject_to_server(&non(code, 1).bytes());
    }
    net.inject_to_server(&empty(Type::NonConfirmable, 2));
    net.inject_to_server(&[0x50, 1, 0, 3, 0xff]);
    net.run_for(seconds(300));
    assert!(net.sent_by_server().is_empty() && net.app.executed.is_empty());
}

#[test]
fn rejected_response_leaves_the_request_pending() {
    let (mut net, id, request) = waiting();
    for code in [0x20, 0xe1].map(Code) {
        net.inject_to_client(&ack(code, id).token_of(&request).bytes());
        net.inject_to_client(&non(code, 0x500).token_of(&request).bytes());
    }
    assert!(net.events.is_empty());
    net.inject_to_client(&ack(Code::CONTENT, id).token_of(&request).bytes());
    assert_eq!(net.response().unwrap().code, Code::CONTENT);
}

#[test]
fn acks_and_resets_get_no_reply() {
    let (mut net, id, request) = waiting();
    let request_in_ack = ack(Code::GET, id).token_of(&request).bytes();
    let strange = [
        empty(Type::Acknowledgement, 0x999),
        empty(Type::Reset, 0x999),
        request_in_ack,
        ack(Code(0xe1), id).token_of(&request).bytes(),
        ack(Code::CONTENT, 0x999).token_of(&request).bytes(),
        vec![0x60, 0x45, 0, 1, 0xff],
        vec![0x70, 0x00, 0, 1, 0xff],
        vec![0x69, 0x45, 0, 1],
    ];
    for message in &strange {
        net.inject_to_client(message);
        net.inject_to_server(message);
    }
    assert_eq!(net.sent_by_client().len(), 1, "only the request");
    assert!(net.sent_by_server().is_empty());
    assert!(net.events.is_empty(), "{:?}", net.events);
}

#[test]
fn a_reset_that_is_not_empty_is_ignored() {
    let (mut net, id, request) = waiting();
    let mut reset = ack(Code::CONTENT, id).token_of(&request).bytes();
    reset[0] |= 0x30;
    assert_eq!(shapes(&[&reset]), ["RST 2.05"]);
    net.inject_to_client(&reset);
    assert!(net.events.is_empty());
    net.inject_to_client(&empty(Type::Reset, id));
    assert_eq!(net.failure(), Some(Failure::Reset));
    net.run_for(seconds(300));
    assert_eq!(net.sent_by_client().len(), 1, "not sent again");
}

#[test]
fn reply_with_other_message_id_or_source_is_unmatched() {
    let (mut net, id, request) = waiting();
    let elsewhere = std::net::SocketAddr::from(([10, 0, 0, 2], 5684));
    for message in [
        empty(Type::Acknowledgement, id),
        empty(Type::Reset, id),
        ack(Code::CONTENT, id).token_of(&request).bytes(),
    ] {
        net.client.handle_datagram(net.now, elsewhere, &message);
    }
    net.drain();
    net.inject_to_client(&empty(Type::Acknowledgement, id.wrapping_add(1)));
    net.inject_to_client(&empty(Type::Reset, id.wrapping_add(1)));
    assert!(net.events.is_empty());
    net.run_for(seconds(300));
    assert_eq!(net.sent_by_client().len(), 5, "still unacknowledged");
}

#[test]
fn icmp_quote_is_matched_with_pending_messages() {
    let (mut net, id, request) = waiting();
    let peer = crate::net::server_address();
    let elsewhere = std::net::SocketAddr::from(([10, 0, 0, 9], 5683));
    let length = 4 + view(&request).token().len();
    assert!(net.client.is_under_way(peer, &request));
    assert!(net.client.is_under_way(peer, &request[..length]));
    assert!(!net.client.is_under_way(elsewhere, &request));
    // Quotes that are too short, or with another type, code, Message ID or token.
    for short in [0, 3, 4, length - 1] {
        assert!(!net.client.is_under_way(peer, &request[..short]));
    }
    for place in [0, 1, 3, 5] {
        let mut other = request.clone();
        other[place] ^= 0x10;
        assert!(!net.client.is_under_way(peer, &other), "{place}");
    }
    net.inject_to_client(&ack(Code::CONTENT, id).token_of(&request).bytes());
    assert!(!net.client.is_under_way(peer, &request), "it is answered");
}

#[test]
fn con_retransmissions_stay_within_max_transmit_span() {
    for seed in 0..50 {
        let mut net = Net::plain();
        net.client = Endpoint::new(Config::default(), Stream(seed));
        net.server_dead = true;
        net.send_for(get("x"), seconds(300));
        let times = net.client_times();
        let parameters = net.client.config().parameters;
        assert_eq!(times.len(), 5);
        assert!(*times.last().unwrap() <= parameters.max_transmit_span());
        let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        assert!(gaps.min().unwrap() >= parameters.ack_timeout);
    }
}

#[test]
fn late_poll_sends_no_burst_of_retransmissions() {
    let (mut net, ..) = waiting();
    // Late by three timeouts.
    net.now = Instant::ZERO + seconds(20);
    net.client.handle_timeout(net.now);
    net.drain();
    assert_eq!(net.sent_by_client().len(), 2);
    let parameters = net.client.config().parameters;
    net.run_for(parameters.ack_timeout.saturating_sub(millis(1)));
    assert_eq!(net.sent_by_client().len(), 2);
}

#[test]
fn late_poll_misses_transmission_opportunity() {
    let (mut net, ..) = waiting();
    for (wake, copies) in [(20, 2), (26, 3), (40, 4)] {
        net.now = Instant::ZERO + seconds(wake);
        net.client.handle_timeout(net.now);
        net.drain();
        assert_eq!(net.sent_by_client().len(), copies);
    }
    // The fifth would be due about 20 s later, after MAX_TRANSMIT_SPAN (45 s).
    net.run_for(seconds(300));
    assert_eq!(net.sent_by_client().len(), 4);
    assert_eq!(net.failure(), Some(Failure::TimedOut { copies: 4 }));
}

#[test]
fn duplicate_request_is_acked_after_its_separate_response() {
    let (mut net, response) = responding();
    let id = view(&response).message_id().0;
    net.inject_to_server(&empty(Type::Acknowledgement, id));
    net.run_for(seconds(30));
    let before = net.sent_by_server().len();
    net.inject_to_server(&con(Code::GET, 1).path("slow").bytes());
    assert_eq!(
        net.sent_by_server()[before..],
        [&empty(Type::Acknowledgement, 1)[..]],
        "an empty ACK, not the response again"
    );
    assert_eq!(net.app.executed["slow"], 1);
}

#[test]
fn separate_response_is_retransmitted_until_ack_or_rst() {
    for ending in [Type::Acknowledgement, Type::Reset] {
        let (mut net, response) = responding();
        net.run_for(seconds(4));
        let copies = |net: &Net| {
            let all = net.sent_by_server();
            all.iter().filter(|bytes| **bytes == &response[..]).count()
        };
        assert_eq!(copies(&net), 2);
        net.inject_to_server(&empty(ending, view(&response).message_id().0));
        net.run_for(seconds(300));
        assert_eq!(copies(&net), 2);
        assert!(net.server.is_idle());
    }
}

#[test]
fn code_and_payload_of_ack_to_response_are_ignored() {
    for code in [Code::CONTENT, Code::NOT_FOUND] {
        let (mut net, response) = responding();
        let id = view(&response).message_id().0;
        // A request in an ACK would be rejected instead.
        net.inject_to_server(&ack(Code::GET, id).bytes());
        assert!(!net.server.is_idle());
        let strange = ack(code, id).token(&[1, 2]).payload(b"ignore me");
        net.inject_to_server(&strange.bytes());
        assert!(net.server.is_idle(), "{code}");
        net.run_for(seconds(300));
        assert_eq!(net.sent_by_server().len(), 2, "{code}");
    }
}

#[test]
fn non_is_never_acknowledged_or_retransmitted() {
    let mut net = Net::plain();
    net.app.delay = seconds(1);
    net.send_with(get("x"), as_non());
    net.run_for(seconds(300));
    assert_eq!(shapes(&net.sent_by_client()), ["NON 0.01"]);
    assert_eq!(shapes(&net.sent_by_server()), ["NON 4.04"]);
    let mut net = Net::deaf();
    net.send_with(get("x"), as_non());
    net.run_for(seconds(1_000));
    assert_eq!(net.sent_by_client().len(), 1);
    assert_eq!(net.failure(), Some(Failure::NoResponse));
}

#[test]
fn duplicate_response_is_acknowledged_and_delivered_once() {
    let (mut net, _, request) = waiting();
    let response = con(Code::CONTENT, 77).token_of(&request).bytes();
    for _ in 0..3 {
        net.inject_to_client(&response);
        net.run_for(seconds(60));
    }
    let expected = empty(Type::Acknowledgement, 77);
    assert_eq!(net.sent_by_client()[1..], [&expected[..]; 3]);
    assert_eq!(net.responses().len(), 1);
}

#[test]
fn a_duplicate_non_response_is_ignored_within_non_lifetime() {
    let mut net = Net::deaf();
    net.send_with(get("x"), as_non());
    let request = net.sent_by_client()[0].to_vec();
    let response = non(Code::CONTENT, 77).token_of(&request).bytes();
    net.inject_to_client(&response);
    net.run_for(seconds(144));
    net.inject_to_client(&response);
    assert_eq!((net.responses().len(), net.sent_by_client().len()), (1, 1));
    // After NON_LIFETIME it is an unmatched response.
    net.run_for(seconds(2));
    net.inject_to_client(&response);
    assert_eq!(net.responses().len(), 1);
    assert_eq!(shapes(&net.sent_by_client()), ["NON 0.01", "RST 0.00"]);
}

#[test]
fn a_duplicate_non_request_is_ignored_within_non_lifetime() {
    let mut net = Net::plain();
    let request = non(Code::POST, 5).path("n").bytes();
    net.inject_to_server(&request);
    net.run_for(seconds(144));
    net.inject_to_server(&request);
    assert_eq!((net.app.executed["n"], net.sent_by_server().len()), (1, 1));
    net.run_for(seconds(2));
    net.inject_to_server(&request);
    assert_eq!(net.app.executed["n"], 2, "the ID may be a new message's");
}

#[test]
fn message_ids_to_a_peer_are_unique_in_exchange_lifetime() {
    let mut net = Net::plain();
    let lifetime = net.client.config().parameters.exchange_lifetime();
    for n in 0..200 {
        net.send_with(
            get("x"),
            if n % 3 == 0 {
                as_non()
            } else {
                RequestConfig::default()
            },
        );
        net.run_for(millis(700));
    }
    let mut last = std::collections::BTreeMap::new();
    for crossing in net.crossings.iter().filter(|c| c.from_client) {
        let id = view(&crossing.bytes).message_id().0;
        let before: Option<Instant> = last.insert(id, crossing.at);
        assert!(before.is_none_or(|before| crossing.at.since(before) >= lifetime));
    }
    assert_eq!(last.len(), 200);
}

#[test]
fn no_more_than_nstart_interactions_are_outstanding() {
    let mut net = Net::plain();
    net.app.mute = true;
    for _ in 0..3 {
        net.send(get("x"));
        net.send_with(get("x"), as_non());
    }
    assert_eq!(net.sent_by_client().len(), 1, "NSTART is 1");
    // After its acknowledgement, the first no longer counts.
    net.run_for(millis(200));
    assert_eq!(shapes(&net.sent_by_client()), ["CON 0.01", "NON 0.01"]);
}

#[test]
fn silent_peer_is_sent_at_most_probing_rate() {
    let mut net = Net::deaf();
    for _ in 0..500 {
        net.send_with(get("sensors/temperature"), as_non());
    }
    net.run_for(seconds(3_000));
    let rate = u64::from(net.client.config().parameters.probing_rate);
    let mut bytes = 0;
    for crossing in net.crossings.iter().filter(|c| c.from_client) {
        // Earlier bytes are covered by PROBING_RATE when this one is sent.
        assert!(bytes <= crossing.at.since(Instant::ZERO).as_secs() * rate + 1);
        bytes += crossing.bytes.len() as u64;
    }
    assert!(net.sent_by_client().len() >= 50, "but it goes on");
}

#[test]
fn default_parameters_match_the_rfc() {
    let p = Config::default().parameters;
    assert_eq!(p.ack_timeout, seconds(2));
    assert_eq!((p.max_retransmit, p.nstart, p.probing_rate), (4, 1, 1));
    assert_eq!(
        (p.default_leisure, p.max_latency),
        (seconds(5), seconds(100))
    );
    assert_eq!(p.max_transmit_span(), seconds(45));
    assert_eq!(p.exchange_lifetime(), seconds(247));
}

#[test]
fn full_block_with_common_options_fits_1280_bytes() {
    let mut net = Net::plain();
    net.app
        .resources
        .insert("sensors/temperature".into(), crate::net::pattern(5_000));
    net.app
        .etags
        .insert("sensors/temperature".into(), vec![1; 8]);
    net.send(get("sensors/temperature"));
    net.send(crate::net::put(
        "sensors/humidity",
        crate::net::pattern(5_000),
    ));
    net.run_for(seconds(60));
    assert_eq!(net.responses().len(), 2);
    let longest = net.crossings.iter().map(|c| c.bytes.len()).max();
    assert!((1_024..=1_152).contains(&longest.unwrap()), "{longest:?}");
}

#[test]
fn long_options_reduce_the_block_size() {
    let mut net = Net::plain();
    let mut request = crate::net::put("x", crate::net::pattern(3_000));
    for _ in 0..3 {
        let query = OptionNumber::URI_QUERY;
        request.options.push(query, &[b'q'; 200]).unwrap();
    }
    net.send(request);
    net.run_for(seconds(60));
    assert_eq!(net.app.resources["x"], crate::net::pattern(3_000));
    let mut response = Response::new(Code::CONTENT);
    response.payload = Payload::Whole(crate::net::pattern(3_000));
    for _ in 0..4 {
        let location = OptionNumber::LOCATION_PATH;
        response.options.push(location, &[b'l'; 150]).unwrap();
    }
    let request = con(Code::GET, 1).path("y").bytes();
    net.server
        .handle_datagram(net.now, crate::net::client_address(), &request);
    let Output::Event(Event::Request(id)) = net.server.poll() else {
        panic!("the request reaches the application");
    };
    net.server.respond(net.now, id, &response);
    net.drain();
    let answer = net.sent_by_server().last().unwrap().to_vec();
    assert_eq!(
        blocks(&[&answer], OptionNumber::BLOCK2),
        [Some((0, true, 512))]
    );
    let longest = net.crossings.iter().map(|c| c.bytes.len()).max();
    assert!(longest.unwrap() <= 1_232, "{longest:?}");
}

#[test]
fn ack_random_factor_below_one_counts_as_one() {
    let mut below = Config::default().parameters;
    below.ack_random_factor = Ratio::new(1, 2);
    for place in ["endpoint", "peer", "request"] {
        let mut config = Config::default();
        let mut sending = RequestConfig::default();
        if place == "endpoint" {
            config.parameters = below;
        }
        let mut net = Net::new(config, Config::default());
        match place {
            "peer" => net
                .client
                .set_peer(crate::net::server_address(), None, Some(below)),
            "request" => sending.parameters = Some(below),
            _ => {}
        }
        net.server_dead = true;
        net.send_with(get("x"), sending);
        net.run_for(seconds(3));
        assert_eq!(net.client_times(), [seconds(0), seconds(2)], "{place}");
    }
}

#[test]
fn initial_timeouts_are_spread_by_ack_random_factor() {
    let first = |seed| {
        let mut net = Net::plain();
        net.client = Endpoint::new(Config::default(), Stream(seed));
        net.server_dead = true;
        net.send_for(get("x"), seconds(4));
        net.client_times()[1]
    };
    let all: Vec<Duration> = (0..50).map(first).collect();
    assert!(all.iter().all(|t| (seconds(2)..=seconds(3)).contains(t)));
    let (most, least) = (*all.iter().max().unwrap(), *all.iter().min().unwrap());
    let spread = most.saturating_sub(least);
    assert!(spread > millis(700), "{spread:?}");
}
