//! Capabilities and Settings Messages (RFC 8323 3.3, 4.2, 4.3, 5.3).

use crate::stream::{
    CLIENT, CSM, Draws, Lone, SERVER, address, ask, config, frame, hello, pair, signal_of,
};
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, ContentFormat, Framing, MessageView, OptionNumber};
use carob_proto::endpoint::{Endpoint, Event, Failure, Output};
use carob_proto::{Request, Response};

fn lone() -> Lone {
    Lone::new(config(|_| ()))
}

fn sizes(of: u32) -> Vec<u8> {
    let bytes = of.to_be_bytes();
    let skip = bytes.iter().take_while(|byte| **byte == 0).count();
    frame(Code::CSM, &[], &[(2, &bytes[skip..])], &[])
}

#[test]
fn csm_is_the_first_message_of_both_ends() {
    let mut lone = lone();
    assert_eq!(lone.codes(), ["7.01"], "sent before the peer's CSM");
    let mut pair = pair().answering(hello);
    ask(&mut pair, Request::get());
    assert_eq!(pair.codes(CLIENT)[0], "7.01");
    assert_eq!(pair.codes(SERVER)[0], "7.01");
}

#[test]
fn websocket_begins_with_csm_and_zero_length_fields() {
    let framed = config(|reliable| reliable.framing = Framing::WebSocket);
    let mut end = Endpoint::new(framed, Draws(1));
    let now = Instant::ZERO;
    assert!(end.connected(now, address(CLIENT)));
    // A CSM, and a GET with a token.
    end.handle_stream(now, address(CLIENT), CSM);
    end.handle_stream(now, address(CLIENT), &[0x01, 0x01, 0x07]);
    let mut first = Vec::new();
    loop {
        match end.poll() {
            Output::Transmit { bytes, .. } => first.push(bytes[..2].to_vec()),
            Output::Event(Event::Request(id)) => {
                let response = Response::content(ContentFormat::TEXT_PLAIN, "x".repeat(500));
                end.respond(now, id, &response);
            }
            Output::Wait(_) => break,
            _ => {}
        }
    }
    assert_eq!(first, [[0x00, 0xe1], [0x01, 0x45]]);
}

#[test]
fn request_before_csm_is_aborted_and_not_processed() {
    let mut lone = lone();
    lone.hear(&frame(Code::GET, &[1], &[], &[]));
    assert_eq!(
        (lone.codes(), lone.closed),
        (vec!["7.01".into(), "7.05".into()], 1)
    );
    assert!(lone.requests().is_empty());
}

#[test]
fn other_signal_before_csm_gets_abort() {
    for code in [Code::PING, Code::PONG, Code::RELEASE, Code(0xff)] {
        let mut lone = lone();
        lone.hear(&frame(code, &[1], &[], &[]));
        assert_eq!(lone.codes(), ["7.01", "7.05"], "{code}");
    }
}

#[test]
fn traffic_does_not_extend_the_csm_timeout() {
    let mut lone = lone();
    for _ in 0..11 {
        lone.hear(&[0x00, 0x00]);
        lone.request(Request::get());
        lone.pass(Duration::from_secs(1));
    }
    assert_eq!(
        (lone.codes().last().cloned(), lone.closed),
        (Some("7.05".into()), 1)
    );
}

#[test]
fn invalid_csm_gets_abort() {
    // Option delta 15 without a payload marker.
    let mut lone = lone();
    lone.hear(&[0x10, 0xe1, 0xf0]);
    assert_eq!(
        (lone.codes(), lone.closed),
        (vec!["7.01".into(), "7.05".into()], 1)
    );
}

#[test]
fn later_csm_keeps_omitted_values() {
    let mut pair =
        pair().answering(|_, _| Response::new(Code::CONTENT).with_payload(vec![7; 5_000]));
    let first = ask(&mut pair, Request::get());
    pair.inject(SERVER, CSM);
    let second = ask(&mut pair, Request::get());
    let gets = pair
        .codes(CLIENT)
        .iter()
        .filter(|code| *code == "0.01")
        .count();
    assert_eq!(
        (pair.response(first), gets),
        (pair.response(second), 2),
        "one message each"
    );
}

#[test]
fn later_max_message_size_replaces_the_earlier_one() {
    let mut pair =
        pair().answering(|_, _| Response::new(Code::CONTENT).with_payload(vec![7; 5_000]));
    ask(&mut pair, Request::get());
    for (size, least, most) in [(500, 250, 500), (128, 16, 128), (4_000, 2_048, 4_000)] {
        pair.inject(SERVER, &sizes(size));
        let sent = pair.heard[SERVER].sent.len();
        let id = ask(&mut pair, Request::get());
        assert_eq!(pair.response(id).bytes().len(), 5_000, "{size}");
        let longest = pair.heard[SERVER].sent[sent..].iter().map(Vec::len).max();
        let longest = longest.expect("an answer");
        // On a stream the header is up to 2 bytes longer than in a datagram.
        assert!(longest >= least && longest + 2 <= most, "{size}: {longest}");
    }
}

#[test]
fn peer_with_1152_bytes_or_less_gets_no_bert() {
    let mut pair =
        pair().answering(|_, _| Response::new(Code::CONTENT).with_payload(vec![7; 5_000]));
    ask(&mut pair, Request::get());
    pair.inject(SERVER, &sizes(1_152));
    let sent = pair.heard[SERVER].sent.len();
    // Requests BERT, as before.
    pair.inject(SERVER, &frame(Code::GET, &[9], &[(23, &[0x07])], &[]));
    let answer = MessageView::parse_long(&pair.heard[SERVER].sent[sent]).expect("well formed");
    // Block 0, M, 1024 bytes: no BERT, because the limit is no multiple of 1024.
    assert_eq!(answer.uint_option(OptionNumber::BLOCK2), Some(0x0e));
    assert_eq!(answer.payload().len(), 1_024);
}

#[test]
fn unusable_max_message_size_gets_abort_with_option() {
    for size in [0, 1, 63] {
        let mut lone = lone();
        lone.hear(&sizes(size));
        let told = lone.told();
        assert!(
            matches!(signal_of(&told[1]), (Code::ABORT, options, text) if options == [(2, 2)] && !text.is_empty()),
            "{size}"
        );
        assert_eq!(lone.closed, 1);
    }
}

#[test]
fn smallest_max_message_size_is_respected() {
    let mut lone = lone();
    lone.hear(&sizes(64));
    lone.told();
    lone.hear(&frame(Code::GET, &[1; 8], &[], &[]));
    lone.hear(&frame(Code::GET, &[2; 8], &[(65_001, b"x")], &[]));
    let ids = lone.requests();
    assert_eq!(ids.len(), 1);
    let mut large = Response::new(Code::CONTENT).with_payload(vec![7; 300]);
    large
        .options
        .push(OptionNumber::ETAG, &[1; 8])
        .expect("fits");
    lone.respond(ids[0], &large);
    // The connection ends with an Abort whose diagnostic payload is truncated.
    lone.hear(&frame(Code::PING, &[], &[(65_001, b"x")], &[]));
    let told = lone.told();
    assert_eq!(told.len(), 3);
    assert!(
        told.iter().all(|message| message.len() <= 62),
        "{told:02x?}"
    );
}

#[test]
fn queued_request_waits_for_csm_of_next_connection() {
    let mut lone = lone();
    lone.hear(&sizes(10_000));
    lone.request(Request::new(Code::PUT).with_payload(vec![7; 4_000]));
    assert_eq!(lone.codes(), ["7.01", "0.03"]);
    lone.lose();
    assert!(lone.connect());
    assert_eq!(
        lone.codes(),
        ["7.01"],
        "the base size applies until the CSM"
    );
    lone.hear(&sizes(10_000));
    assert_eq!(lone.codes(), ["0.03"]);
}

#[test]
fn queued_request_above_the_next_limit_fails() {
    let mut lone = lone();
    lone.hear(&sizes(10_000));
    let id = lone.request(Request::new(Code::PUT).with_payload(vec![7; 4_000]));
    lone.lose();
    assert!(lone.connect());
    lone.told();
    lone.hear(&sizes(500));
    assert!(lone.codes().is_empty());
    let failed = |event: &Event| matches!(event, Event::Failed { id: of, failure: Failure::Encode(_) } if *of == id);
    assert!(lone.events.iter().any(failed), "{:?}", lone.events);
}
