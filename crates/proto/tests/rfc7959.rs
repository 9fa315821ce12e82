//! RFC 7959, requirement by requirement, on the wire (`vectors/requirements.toml`).

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

mod net;

use bytes::Bytes;
use carob_cc::time::Instant;
use carob_proto::blockwise::download::DownloadError;
use carob_proto::codec::{BlockSize, Code, ContentFormat, OptionNumber};
use carob_proto::endpoint::{Config, Delivery, Endpoint, Event, Failure, Output, Sending};
use carob_proto::message::Payload;
use carob_proto::{Request, Response};
use net::wide::wide;
use net::wire::{Wire, ack, blocks, con, shapes, view};
use net::{Net, Stream, get, millis, pattern, post, put, seconds};

const BLOCK1: OptionNumber = OptionNumber::BLOCK1;
const BLOCK2: OptionNumber = OptionNumber::BLOCK2;

fn with_blocks(bytes: usize) -> Config {
    let mut config = Config::default();
    config.block_size = BlockSize::from_bytes_at_most(bytes).unwrap();
    config
}

/// A client that asked for `x` and got this as the first answer, the rest being lost.
fn answered(request: Request, answer: impl FnOnce(u16) -> Wire) -> Net {
    let mut net = Net::plain();
    net.server_dead = true;
    net.send(request);
    let first = net.sent_by_client()[0].to_vec();
    let id = view(&first).message_id().0;
    net.inject_to_client(&answer(id).token_of(&first).bytes());
    net
}

/// The next answer to a client that [`answered`] left waiting.
fn answer_next(net: &mut Net, answer: impl FnOnce(u16) -> Wire) {
    let last = net.sent_by_client().last().unwrap().to_vec();
    let id = view(&last).message_id().0;
    net.inject_to_client(&answer(id).token_of(&last).bytes());
}

fn content(id: u16, block: (u32, bool, usize), bytes: usize) -> Wire {
    let message = ack(Code::CONTENT, id).block(BLOCK2, block);
    message.payload(&pattern(4_096)[..bytes])
}

/// Answers to blocks put on the wire by hand.
fn told(config: Config, messages: &[Wire]) -> (Net, Vec<String>) {
    let mut net = Net::new(Config::default(), config);
    for message in messages {
        net.inject_to_server(&message.bytes());
    }
    let answers = shapes(&net.sent_by_server());
    (net, answers)
}

fn put_block(id: u16, block: (u32, bool, usize), bytes: usize) -> Wire {
    let message = con(Code::PUT, id).path("x").block(BLOCK1, block);
    message.payload(&pattern(4_096)[..bytes])
}

/// What a server says to a request when its application answers like this.
fn responded(request: &Wire, response: &Response) -> Vec<u8> {
    let mut server = Endpoint::new(Config::default(), Stream(1));
    server.deliver_by(|_| Delivery::Streamed);
    server.handle_datagram(Instant::ZERO, net::client_address(), &request.bytes());
    let Output::Event(Event::Request(id)) = server.poll() else {
        panic!("the request reaches the application");
    };
    server.respond(Instant::ZERO, id, response);
    let Output::Transmit { bytes, .. } = server.poll() else {
        panic!("it is answered");
    };
    bytes.to_vec()
}

#[test]
fn a_block_option_is_never_there_twice() {
    for number in [BLOCK1, BLOCK2] {
        let twice = con(Code::PUT, 1)
            .option(number.0, b"")
            .option(number.0, b"");
        let (_, seen) = told(Config::default(), &[twice]);
        assert_eq!(seen, ["ACK 4.02"]);
    }
    let mut net = Net::new(with_blocks(64), with_blocks(32));
    net.send(post("echo", pattern(1_000)));
    net.run_for(seconds(60));
    assert_eq!(net.response().unwrap().bytes(), &pattern(1_000));
    for crossing in &net.crossings {
        for number in [BLOCK1, BLOCK2, OptionNumber::SIZE1, OptionNumber::SIZE2] {
            assert!(view(&crossing.bytes).values(number).count() <= 1);
        }
    }
}

#[test]
fn the_more_bit_of_a_block_asked_for_is_sent_as_zero_and_not_looked_at() {
    let mut client = with_blocks(64);
    client.negotiate_early = true;
    let mut net = Net::new(client, Config::default());
    net.app.resources.insert("x".into(), pattern(500));
    net.send(get("x"));
    net.run_for(seconds(5));
    let asked = blocks(&net.sent_by_client(), BLOCK2);
    assert_eq!(asked.len(), 8);
    assert!(asked.iter().all(|block| !block.unwrap().1));
    for more in [false, true] {
        net.inject_to_server(
            &con(Code::GET, 9_000 + u16::from(more))
                .path("x")
                .block(BLOCK2, (1, more, 64))
                .bytes(),
        );
    }
    let [.., one, other] = &net.sent_by_server()[..] else {
        panic!("both are answered");
    };
    assert_eq!(one[4..], other[4..], "with the same block");
}

#[test]
fn the_reserved_size_is_refused_with_4_00_and_never_sent() {
    for (number, value) in [(27, 0x07), (27, 0x0f), (23, 0x07), (23, 0x17)] {
        let request = con(Code::PUT, 1).path("x").option(number, &[value]);
        let (net, seen) = told(Config::default(), &[request.payload(&[1; 16])]);
        assert_eq!(seen, ["ACK 4.00"], "{number} {value:#x}");
        assert!(net.app.executed.is_empty());
    }
    for szx in 0..=u8::MAX {
        let sent = BlockSize::from_szx(szx).map(BlockSize::szx);
        assert!(sent.is_none_or(|szx| szx < 7));
    }
    let mut net = answered(get("x"), |id| {
        ack(Code::CONTENT, id).option(23, &[0x0f]).payload(&[1; 16])
    });
    assert_eq!(net.failure(), Some(Failure::BadBlock));
    net.run_for(seconds(300));
    assert_eq!(net.sent_by_client().len(), 1);
}

#[test]
fn a_block_with_more_to_come_is_as_long_as_it_says() {
    let mut net = Net::new(with_blocks(128), with_blocks(64));
    net.send(post("echo", pattern(1_000)));
    net.run_for(seconds(60));
    assert_eq!(net.response().unwrap().bytes().len(), 1_000);
    let mut checked = 0;
    for crossing in &net.crossings {
        let message = view(&crossing.bytes);
        let carried = if crossing.from_client { BLOCK1 } else { BLOCK2 };
        if let Some(block) = message.block_option(carried).transpose().unwrap()
            && block.more
        {
            assert_eq!(message.payload().len(), block.szx.bytes());
            checked += 1;
        }
    }
    assert!(checked >= 20, "{checked}");
    // An application that cuts its response itself is held to it.
    let mut response = Response::new(Code::CONTENT);
    for (length, code) in [(64, "ACK 2.05"), (63, "ACK 5.00"), (65, "ACK 5.00")] {
        response.payload = Payload::Part {
            offset: 64,
            bytes: pattern(length),
            more: true,
            size: None,
        };
        let request = con(Code::GET, 1).path("x").block(BLOCK2, (1, false, 64));
        assert_eq!(shapes(&[&responded(&request, &response)]), [code]);
    }
}

#[test]
fn a_block_of_another_length_than_it_says_is_refused() {
    for (block, length) in [((0, true, 64), 63), ((0, true, 64), 65), ((0, true, 64), 0)] {
        let (_, seen) = told(Config::default(), &[put_block(1, block, length)]);
        assert_eq!(seen, ["ACK 4.00"]);
        let net = answered(get("x"), |id| content(id, block, length));
        let wrong = DownloadError::WrongBlock { offset: 0 };
        assert_eq!(net.failure(), Some(Failure::Body(wrong)));
    }
}

#[test]
fn a_client_goes_on_in_the_size_the_server_answered_with() {
    let mut client = with_blocks(512);
    client.negotiate_early = true;
    let mut net = Net::new(client, with_blocks(128));
    net.app.resources.insert("x".into(), pattern(600));
    net.send(get("x"));
    net.run_for(seconds(5));
    let asked = blocks(&net.sent_by_client(), BLOCK2);
    let expected = [(0, 512), (1, 128), (2, 128), (3, 128), (4, 128)];
    assert_eq!(asked, expected.map(|(n, size)| Some((n, false, size))));
    let sent = blocks(&net.sent_by_server(), BLOCK2);
    assert!(sent.iter().all(|block| block.unwrap().2 == 128));
    assert_eq!(net.response().unwrap().bytes(), &pattern(600));
}

#[test]
fn a_server_never_answers_with_a_larger_block_than_asked_for() {
    for (asked, own, answered) in [(16, 1024, 16), (64, 64, 64), (1024, 32, 32)] {
        let request = con(Code::GET, 1).path("x").block(BLOCK2, (0, false, asked));
        let mut net = Net::new(Config::default(), with_blocks(own));
        net.app.resources.insert("x".into(), pattern(2_000));
        net.inject_to_server(&request.bytes());
        let sent = blocks(&net.sent_by_server(), BLOCK2);
        assert_eq!(sent, [Some((0, true, answered))]);
    }
}

#[test]
fn a_server_counts_in_its_own_size_when_a_later_block_is_asked_for_in_a_larger_one() {
    let mut net = Net::new(Config::default(), with_blocks(64));
    net.app.resources.insert("x".into(), pattern(2_000));
    let request = con(Code::GET, 1).path("x").block(BLOCK2, (3, false, 256));
    net.inject_to_server(&request.bytes());
    assert_eq!(
        blocks(&net.sent_by_server(), BLOCK2),
        [Some((12, true, 64))]
    );
    let payload = view(net.sent_by_server()[0]).payload();
    assert_eq!(payload, &pattern(2_000)[768..832]);
}

#[test]
fn an_answer_that_asks_for_more_carries_no_block_of_a_response() {
    let first = put_block(1, (0, true, 64), 64);
    let mut response = Response::new(Code::CONTINUE);
    response.payload = Payload::Whole(pattern(3_000));
    let sent = responded(&first, &response);
    assert_eq!(blocks(&[&sent], BLOCK1), [Some((0, true, 64))]);
    assert_eq!(blocks(&[&sent], BLOCK2), [None]);
    assert!(view(&sent).payload().is_empty());
    // A final answer in the middle says so, and may have a body of any size.
    response.code = Code::CHANGED;
    let sent = responded(&first, &response);
    assert_eq!(blocks(&[&sent], BLOCK1), [Some((0, false, 64))]);
    assert_eq!(blocks(&[&sent], BLOCK2), [Some((0, true, 1024))]);
}

#[test]
fn a_client_heeds_the_size_a_server_prefers_and_counts_anew() {
    let mut net = answered(put("x", pattern(3_000)), |id| {
        ack(Code::CONTINUE, id).block(BLOCK1, (0, true, 128))
    });
    answer_next(&mut net, |id| {
        ack(Code::CONTINUE, id).block(BLOCK1, (8, true, 32))
    });
    let sent = blocks(&net.sent_by_client(), BLOCK1);
    let expected = [(0, true, 1024), (8, true, 128), (36, true, 32)];
    assert_eq!(sent, expected.map(Some));
    let bytes: Vec<u8> = net
        .sent_by_client()
        .iter()
        .flat_map(|m| view(m).payload().to_vec())
        .collect();
    assert_eq!(
        bytes,
        pattern(3_000)[..1024 + 128 + 32],
        "nothing twice, nothing left out"
    );
}

#[test]
fn a_client_told_that_a_block_is_too_large_begins_again_with_smaller_ones() {
    let mut net = answered(put("x", pattern(3_000)), |id| {
        ack(Code::REQUEST_ENTITY_TOO_LARGE, id).block(BLOCK1, (0, true, 64))
    });
    assert_eq!(
        blocks(&net.sent_by_client(), BLOCK1)[1],
        Some((0, true, 64))
    );
    // Without a smaller size it is the body that is too large.
    answer_next(&mut net, |id| {
        ack(Code::REQUEST_ENTITY_TOO_LARGE, id).block(BLOCK1, (0, true, 64))
    });
    let response = net.response().unwrap();
    assert_eq!(response.code, Code::REQUEST_ENTITY_TOO_LARGE);
}

#[test]
fn a_success_of_no_block_in_the_middle_of_a_body_is_no_success() {
    // libcoap 4.3.1's example server takes the first message for the whole.
    let net = answered(put("x", pattern(3_000)), |id| ack(Code::CREATED, id));
    assert_eq!(net.failure(), Some(Failure::CutShort { taken: 1_024 }));
}

#[test]
fn every_block_names_the_format_of_the_whole_body() {
    let mut net = Net::plain();
    let mut request = put("x", pattern(3_000));
    let json = u32::from(ContentFormat::JSON.0);
    request
        .options
        .push_uint(OptionNumber::CONTENT_FORMAT, json)
        .unwrap();
    net.send(request);
    net.run_for(seconds(5));
    let format = |bytes: &&[u8]| view(bytes).uint_option(OptionNumber::CONTENT_FORMAT);
    assert_eq!(
        net.sent_by_client().iter().map(format).collect::<Vec<_>>(),
        [Some(json); 3]
    );
    // A response whose blocks the engine keeps.
    let mut server = Endpoint::new(Config::default(), Stream(1));
    let mut formats = Vec::new();
    for number in 0..3 {
        let ask = con(Code::GET, number as u16)
            .path("x")
            .block(BLOCK2, (number, false, 1024));
        server.handle_datagram(Instant::ZERO, net::client_address(), &ask.bytes());
        loop {
            match server.poll() {
                Output::Transmit { bytes, .. } => formats.push(format(&bytes)),
                Output::Event(Event::Request(id)) => {
                    let response = Response::content(ContentFormat::JSON, pattern(3_000));
                    server.respond(Instant::ZERO, id, &response);
                }
                _ => break,
            }
        }
    }
    assert_eq!(formats, [Some(json); 3]);
}

#[test]
fn blocks_of_different_formats_are_not_put_together() {
    let formats = |first: u8, second: u8| {
        let blocks = [
            put_block(1, (0, true, 64), 64).option(12, &[first]),
            put_block(2, (1, false, 64), 10).option(12, &[second]),
        ];
        told(Config::default(), &blocks)
    };
    let (net, seen) = formats(50, 60);
    assert_eq!(seen, ["ACK 2.31", "ACK 4.08"]);
    assert!(net.app.executed.is_empty());
    let (net, seen) = formats(50, 50);
    assert_eq!(seen, ["ACK 2.31", "ACK 2.04"]);
    assert_eq!(net.app.resources["x"].len(), 74);
}

#[test]
fn a_last_block_without_all_before_it_is_answered_4_08() {
    let last = |id| put_block(id, (2, false, 64), 10);
    let (_, seen) = told(Config::default(), &[last(1)]);
    assert_eq!(seen, ["ACK 4.08"]);
    let (net, seen) = told(
        Config::default(),
        &[put_block(1, (0, true, 64), 64), last(2)],
    );
    assert_eq!(seen, ["ACK 2.31", "ACK 4.08"]);
    assert!(net.app.executed.is_empty());
    // Nor are they there when their time has run out.
    let (mut net, _) = told(Config::default(), &[put_block(1, (0, true, 64), 64)]);
    net.run_for(net.server.config().parameters.exchange_lifetime());
    net.inject_to_server(&put_block(2, (1, false, 64), 10).bytes());
    assert_eq!(shapes(&net.sent_by_server())[1], "ACK 4.08");
}

#[test]
fn a_client_begins_with_block_zero_and_goes_on_in_order_at_once() {
    let mut net = Net::new(wide(8, u32::MAX), Config::default());
    net.send(put("x", pattern(10_000)));
    net.run_for(seconds(5));
    let numbers: Vec<_> = blocks(&net.sent_by_client(), BLOCK1)
        .iter()
        .map(|b| b.unwrap().0)
        .collect();
    assert_eq!(
        numbers,
        (0..10).collect::<Vec<_>>(),
        "also where many may be in flight"
    );
    let times = net.client_times();
    assert!(
        times
            .iter()
            .enumerate()
            .all(|(n, at)| *at == millis(20 * n as u64))
    );
    // Downwards, too, each block is asked for as soon as the one before it is here.
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), pattern(10_000));
    net.send(get("x"));
    net.run_for(seconds(5));
    let times = net.client_times();
    assert_eq!(times.len(), 10);
    assert!(
        times
            .iter()
            .enumerate()
            .all(|(n, at)| *at == millis(20 * n as u64))
    );
}

#[test]
fn a_body_whose_entity_tag_changes_is_not_put_together() {
    let tagged = |id, number, tag: &[u8]| content(id, (number, true, 64), 64).option(4, tag);
    let mut net = answered(get("x"), |id| tagged(id, 0, b"1"));
    answer_next(&mut net, |id| tagged(id, 1, b"2"));
    assert!(net.events.is_empty());
    let asked = blocks(&net.sent_by_client(), BLOCK2);
    assert_eq!(
        asked[2].unwrap().0,
        0,
        "it is read again from its beginning"
    );
    // A tag that comes or goes is another state, too.
    for (first, second) in [(&b"1"[..], None), (b"", Some(&b"1"[..]))] {
        let mut net = answered(get("x"), |id| {
            let block = content(id, (0, true, 64), 64);
            if first.is_empty() {
                block
            } else {
                block.option(4, first)
            }
        });
        answer_next(&mut net, |id| {
            let block = content(id, (1, false, 64), 64);
            second.map_or(block.clone(), |tag| block.option(4, tag))
        });
        assert!(net.response().is_none());
    }
}

#[test]
fn a_request_that_changes_something_is_not_made_again_for_its_response_s_sake() {
    let mut net = answered(post("x", Bytes::from_static(b"once")), |id| {
        ack(Code::CHANGED, id)
            .block(BLOCK2, (0, true, 64))
            .option(4, b"1")
            .payload(&[0; 64])
    });
    answer_next(&mut net, |id| {
        ack(Code::CHANGED, id)
            .block(BLOCK2, (1, true, 64))
            .option(4, b"2")
            .payload(&[0; 64])
    });
    assert_eq!(net.failure(), Some(Failure::Body(DownloadError::Changed)));
    assert_eq!(net.sent_by_client().len(), 2);
}

#[test]
fn a_fetch_read_again_says_again_what_it_is_for() {
    let request = Request::new(Code::FETCH).with_path("x").unwrap();
    let mut net = answered(request.with_payload("what"), |id| {
        content(id, (0, true, 64), 64).option(4, b"1")
    });
    answer_next(&mut net, |id| {
        content(id, (1, true, 64), 64).option(4, b"2")
    });
    assert!(
        net.sent_by_client()
            .iter()
            .all(|m| view(m).payload() == b"what")
    );
    assert_eq!(net.sent_by_client().len(), 3);
}

#[test]
fn the_response_to_an_upload_is_read_one_block_after_the_other() {
    let mut config = wide(8, u32::MAX);
    config.block_size = with_blocks(64).block_size;
    let mut net = Net::new(config.clone(), with_blocks(64));
    net.send(post("echo", pattern(1_000)));
    net.run_for(seconds(60));
    assert_eq!(net.response().unwrap().bytes(), &pattern(1_000));
    let asked = blocks(&net.sent_by_client(), BLOCK2);
    let numbers: Vec<_> = asked.into_iter().flatten().map(|block| block.0).collect();
    assert_eq!(numbers, (1..16).collect::<Vec<_>>());
    let times = net.client_times();
    assert!(
        times.windows(2).all(|pair| pair[0] < pair[1]),
        "never two at once"
    );
    // A GET of the same body has eight blocks in flight.
    let mut net = Net::new(config, with_blocks(64));
    net.app.resources.insert("x".into(), pattern(1_000));
    net.send(get("x"));
    net.run_for(seconds(60));
    let at_once = net
        .client_times()
        .iter()
        .filter(|at| **at == millis(20))
        .count();
    assert_eq!(at_once, 8);
}

#[test]
fn a_body_too_large_is_refused_with_the_largest_size() {
    let mut config = Config::default();
    config.limits.upload_bytes = 100;
    let announced = put_block(1, (0, true, 64), 64).option(60, &[101]);
    let (net, seen) = told(config.clone(), &[announced]);
    assert_eq!(seen, ["ACK 4.13"]);
    let size = |bytes: &[u8]| view(bytes).uint_option(OptionNumber::SIZE1);
    assert_eq!(size(net.sent_by_server()[0]), Some(100));
    let (net, seen) = told(
        config,
        &[
            put_block(1, (0, true, 64), 64),
            put_block(2, (1, true, 64), 64),
        ],
    );
    assert_eq!(seen, ["ACK 2.31", "ACK 4.13"]);
    assert_eq!(size(net.sent_by_server()[1]), Some(100));
}

#[test]
fn if_none_match_is_sent_with_the_first_block_alone() {
    let mut net = Net::plain();
    let mut request = put("x", pattern(3_000));
    request
        .options
        .push(OptionNumber::IF_NONE_MATCH, b"")
        .unwrap();
    net.send(request);
    net.run_for(seconds(5));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    let has = |bytes: &&[u8]| view(bytes).option(OptionNumber::IF_NONE_MATCH).is_some();
    let seen: Vec<_> = net.sent_by_client().iter().map(has).collect();
    assert_eq!(seen, [true, false, false]);
    assert_eq!(
        net.app.resources["x"],
        pattern(3_000),
        "the server takes it all the same"
    );
}

#[test]
fn a_condition_that_came_with_the_first_block_reaches_the_application() {
    let mut server = Endpoint::new(Config::default(), Stream(1));
    let first = put_block(1, (0, true, 64), 64).option(5, b"");
    for message in [first, put_block(2, (1, false, 64), 10)] {
        server.handle_datagram(Instant::ZERO, net::client_address(), &message.bytes());
    }
    assert!(matches!(server.poll(), Output::Transmit { .. }));
    let Output::Event(Event::Request(id)) = server.poll() else {
        panic!("the body is complete");
    };
    let incoming = server.incoming(id).unwrap();
    assert!(
        incoming
            .message
            .option(OptionNumber::IF_NONE_MATCH)
            .is_some()
    );
    assert_eq!(
        incoming.body,
        &[&pattern(64)[..], &pattern(10)].concat()[..]
    );
    server.respond(Instant::ZERO, id, &Response::new(Code::CREATED));
    let Output::Transmit { bytes, .. } = server.poll() else {
        panic!("it is answered");
    };
    assert_eq!(shapes(&[bytes]), ["ACK 2.01"]);
    assert_eq!(view(bytes).message_id().0, 2);
    assert_eq!(server.usage().uploads, (0, 0));
}

#[test]
fn a_new_beginning_replaces_the_body_begun_before() {
    let messages = [
        put_block(1, (0, true, 64), 64),
        put_block(2, (1, true, 64), 64),
        put_block(3, (0, true, 64), 64),
        put_block(4, (1, false, 64), 10),
    ];
    let (net, seen) = told(Config::default(), &messages);
    assert_eq!(seen, ["ACK 2.31", "ACK 2.31", "ACK 2.31", "ACK 2.04"]);
    assert_eq!(net.app.resources["x"].len(), 74);
    assert_eq!(net.app.executed["x"], 1);
}

#[test]
fn a_size_that_nobody_told_or_that_is_wrong_does_no_harm() {
    // A request for the size that the server passes over.
    let mut request = get("x");
    request.options.push(OptionNumber::SIZE2, b"").unwrap();
    let mut net = answered(request, |id| content(id, (0, true, 64), 64));
    assert_eq!(
        view(net.sent_by_client()[0]).option(OptionNumber::SIZE2),
        Some(&b""[..])
    );
    answer_next(&mut net, |id| content(id, (1, false, 64), 10));
    assert_eq!(net.response().unwrap().bytes().len(), 74);
    // The more bits count, not the size announced.
    for size in [1, 200] {
        let mut net = answered(get("x"), |id| {
            content(id, (0, true, 64), 64).option(28, &[size])
        });
        answer_next(&mut net, |id| content(id, (1, false, 64), 10));
        assert_eq!(net.response().unwrap().bytes().len(), 74, "{size}");
    }
}

#[test]
fn a_server_s_state_for_bodies_is_bounded_and_passes() {
    let mut config = Config::default();
    config.limits.uploads = 4;
    config.limits.bodies = 4;
    let mut net = Net::new(Config::default(), config);
    net.app.resources.insert("x".into(), pattern(5_000));
    for n in 0..200_u16 {
        let from = std::net::SocketAddr::from(([10, 9, 0, n as u8], 5683));
        let up = put_block(n, (0, true, 64), 64).bytes();
        let down = con(Code::GET, 1_000 + n).path("x").bytes();
        for message in [up, down] {
            net.server.handle_datagram(net.now, from, &message);
            net.drain();
        }
    }
    let usage = net.server.usage();
    assert_eq!((usage.uploads.0, usage.bodies.0), (4, 4));
    net.run_for(net.server.config().parameters.exchange_lifetime());
    let usage = net.server.usage();
    assert_eq!((usage.uploads, usage.bodies), ((0, 0), (0, 0)));
}

#[test]
fn bodies_to_one_resource_take_turns_and_others_do_not_wait() {
    let mut config = Config::default();
    config.parameters.nstart = 8;
    let mut net = Net::new(config, Config::default());
    let body = |n: u8| Bytes::from(vec![n; 5_000]);
    for (path, n) in [("x", 1), ("x", 2), ("y", 3), ("x", 4)] {
        net.send(put(path, body(n)));
    }
    net.send(put("x", Bytes::from_static(b"short")));
    assert_eq!(
        net.sent_by_client().len(),
        3,
        "x, y and what needs no blocks"
    );
    net.run_for(seconds(60));
    assert_eq!(net.responses().len(), 5);
    let all_changed = net.responses().iter().all(|r| r.code == Code::CHANGED);
    assert!(all_changed);
    assert_eq!(net.app.resources["x"], body(4), "the last one, unmixed");
    assert_eq!(net.app.resources["y"], body(3));
    assert_eq!((net.app.executed["x"], net.app.executed["y"]), (4, 1));
    assert!(net.client.is_idle());
}

#[test]
fn a_body_that_fails_or_is_given_up_lets_the_next_one_go() {
    let mut net = Net::plain();
    net.server_dead = true;
    let first = net.send(put("x", pattern(5_000)));
    let second = net.send(put("x", pattern(4_000)));
    let mut hurried = Sending::default();
    hurried.deadline = Some(seconds(1));
    net.send_with(put("x", pattern(3_500)), hurried);
    net.send(put("x", pattern(3_000)));
    // One that waits may be given up, and its deadline passes as always.
    assert!(net.client.cancel(net.now, second));
    net.run_for(seconds(2));
    assert_eq!(net.failure(), Some(Failure::DeadlinePassed));
    assert_eq!(net.sent_by_client().len(), 1);
    net.server_dead = false;
    assert!(net.client.cancel(net.now, first));
    net.run_for(seconds(60));
    assert_eq!(net.app.resources["x"], pattern(3_000));
    assert!(net.client.is_idle());
}

#[test]
fn many_bodies_that_cannot_be_sent_all_fail() {
    let mut config = Config::default();
    config.limits.queue = 1;
    let mut net = Net::new(config, Config::default());
    net.app.mute = true;
    let first = net.send(put("x", pattern(5_000)));
    for _ in 0..20_000 {
        net.client
            .request(
                net.now,
                net::server_address(),
                put("x", pattern(5_000)),
                Sending::default(),
            )
            .unwrap();
    }
    // The peer's queue is full when their turn comes.
    net.send(get("y"));
    net.client.cancel(net.now, first);
    net.drain();
    net.client.shut_down(net.now);
    net.drain();
    assert!(net.client.is_idle());
}

/// Whether a body of 3,000 bytes is of one state.
fn is_unmixed(body: &[u8]) -> bool {
    body.len() == 3_000 && body.iter().all(|byte| *byte == body[0])
}

#[test]
fn one_resource_asked_for_twice_at_once_is_told_apart_by_what_is_asked() {
    let mut config = Config::default();
    config.parameters.nstart = 8;
    let mut net = Net::new(config, Config::default());
    net.app.echo_fetch = true;
    let fetch = |n: u8| {
        let request = Request::new(Code::FETCH).with_path("x").unwrap();
        request.with_payload(vec![n; 10])
    };
    net.send(fetch(1));
    net.send(fetch(2));
    net.run_for(seconds(60));
    assert_eq!(net.responses().len(), 2);
    let first = |n: usize| net.responses()[n].bytes()[0];
    assert_ne!(first(0), first(1));
    assert!(net.responses().iter().all(|r| is_unmixed(r.bytes())));
}

#[test]
fn a_representation_without_a_tag_gets_one_when_it_is_cut() {
    let cut = responded(
        &con(Code::GET, 1).path("x"),
        &Response::content(ContentFormat::JSON, pattern(3_000)),
    );
    let tag = |bytes: &[u8]| view(bytes).option(OptionNumber::ETAG).map(<[u8]>::to_vec);
    assert!(tag(&cut).is_some_and(|tag| tag.len() == 4));
    let other = Response::content(ContentFormat::JSON, pattern(3_001));
    assert_ne!(
        tag(&responded(&con(Code::GET, 1).path("x"), &other)),
        tag(&cut)
    );
    // The same state has the same tag, in whichever block.
    let third = con(Code::GET, 2).path("x").block(BLOCK2, (2, false, 1024));
    let again = responded(
        &third,
        &Response::content(ContentFormat::JSON, pattern(3_000)),
    );
    assert_eq!(tag(&again), tag(&cut));
    // What fits one message, never changes, or is no representation needs none.
    let short = Response::content(ContentFormat::JSON, pattern(100));
    assert_eq!(tag(&responded(&con(Code::GET, 1).path("x"), &short)), None);
    let mut fixed = Response::new(Code::CONTENT);
    fixed.payload = Payload::Fixed(pattern(3_000));
    assert_eq!(tag(&responded(&con(Code::GET, 1).path("x"), &fixed)), None);
    let mut changed = Response::new(Code::CHANGED);
    changed.payload = Payload::Whole(pattern(3_000));
    assert_eq!(
        tag(&responded(&con(Code::POST, 1).path("x"), &changed)),
        None
    );
    // The application's own comes first.
    let mut own = Response::content(ContentFormat::JSON, pattern(3_000));
    own.options.push(OptionNumber::ETAG, b"own").unwrap();
    assert_eq!(
        tag(&responded(&con(Code::GET, 1).path("x"), &own)).unwrap(),
        b"own"
    );
}

#[test]
fn a_resource_that_changes_between_two_readings_at_once_is_never_mixed() {
    let mut config = Config::default();
    config.parameters.nstart = 2;
    let mut net = Net::new(config, Config::default());
    net.app
        .resources
        .insert("x".into(), Bytes::from(vec![1; 3_000]));
    net.send(get("x"));
    net.run_for(millis(15));
    net.app
        .resources
        .insert("x".into(), Bytes::from(vec![2; 3_000]));
    net.send(get("x"));
    net.run_for(seconds(60));
    assert_eq!(net.responses().len(), 2);
    assert!(net.responses().iter().all(|r| is_unmixed(r.bytes())));
}

#[test]
fn a_last_block_is_of_any_length_up_to_its_size() {
    for length in [0, 1, 63, 64] {
        let blocks = [
            put_block(1, (0, true, 64), 64),
            put_block(2, (1, false, 64), length),
        ];
        let (net, seen) = told(Config::default(), &blocks);
        assert_eq!(seen, ["ACK 2.31", "ACK 2.04"], "{length}");
        assert_eq!(net.app.resources["x"].len(), 64 + length);
        let mut net = answered(get("x"), |id| content(id, (0, true, 64), 64));
        answer_next(&mut net, |id| content(id, (1, false, 64), length));
        assert_eq!(net.response().unwrap().bytes().len(), 64 + length);
    }
    let blocks = [
        put_block(1, (0, true, 64), 64),
        put_block(2, (1, false, 64), 65),
    ];
    assert_eq!(told(Config::default(), &blocks).1, ["ACK 2.31", "ACK 4.00"]);
}
