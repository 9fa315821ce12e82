//! Block-wise bodies: order, matching, conditions and formats.

use super::*;

#[test]
fn every_block_has_the_content_format() {
    let mut net = Net::plain();
    let mut request = put("x", pattern(3_000));
    let json = u32::from(ContentFormat::JSON.0);
    request
        .options
        .set_uint(OptionNumber::CONTENT_FORMAT, json)
        .unwrap();
    net.send(request);
    net.run_for(seconds(5));
    let format = |bytes: &&[u8]| view(bytes).uint_option(OptionNumber::CONTENT_FORMAT);
    assert_eq!(
        net.sent_by_client().iter().map(format).collect::<Vec<_>>(),
        [Some(json); 3]
    );
    // A response whose body the engine caches.
    let mut server = Endpoint::new(Config::default(), Stream(1));
    let mut formats = Vec::new();
    for number in 0..3 {
        let ask = con(Code::GET, number as u16)
            .path("x")
            .block(BLOCK2, (number, false, 1024));
        server.handle_datagram(Instant::ZERO, crate::net::client_address(), &ask.bytes());
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
fn blocks_of_different_formats_are_not_combined() {
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
fn last_block_without_earlier_ones_gets_4_08() {
    let last = |id| put_block(id, (2, false, 64), 10);
    let (_, seen) = told(Config::default(), &[last(1)]);
    assert_eq!(seen, ["ACK 4.08"]);
    let (net, seen) = told(
        Config::default(),
        &[put_block(1, (0, true, 64), 64), last(2)],
    );
    assert_eq!(seen, ["ACK 2.31", "ACK 4.08"]);
    assert!(net.app.executed.is_empty());
    // Nor after their timeout.
    let (mut net, _) = told(Config::default(), &[put_block(1, (0, true, 64), 64)]);
    net.run_for(net.server.config().parameters.exchange_lifetime());
    net.inject_to_server(&put_block(2, (1, false, 64), 10).bytes());
    assert_eq!(shapes(&net.sent_by_server())[1], "ACK 4.08");
}

#[test]
fn the_first_block_chooses_the_delivery_of_a_body() {
    let mut net = Net::plain();
    net.server.deliver_by(|request| {
        if request.option(OptionNumber::SIZE1).is_some() {
            Delivery::Streamed
        } else {
            Delivery::Atomic
        }
    });
    let first = put_block(1, (0, true, 64), 64).option(60, &[74]);
    net.inject_to_server(&first.bytes());
    // Without Size1, this block alone would be taken for the whole body.
    net.inject_to_server(&put_block(2, (1, false, 64), 10).bytes());
    assert_eq!(net.app.parts, [(0, 64, true), (64, 10, false)]);
}

#[test]
fn client_sends_blocks_in_order_from_zero() {
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
    // With Block2, each block is requested on arrival of the previous one.
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), pattern(10_000));
    net.send_for(get("x"), seconds(5));
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
fn body_with_changing_etag_is_not_combined() {
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
    // An entity tag that appears or disappears is another representation.
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
fn non_idempotent_request_is_not_repeated_for_its_response() {
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
fn fetch_repeats_its_payload_for_later_blocks() {
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
fn response_body_of_an_upload_is_read_sequentially() {
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
    net.send_for(get("x"), seconds(60));
    let at_once = net
        .client_times()
        .iter()
        .filter(|at| **at == millis(20))
        .count();
    assert_eq!(at_once, 8);
}

#[test]
fn body_above_the_limit_gets_4_13_with_size1() {
    let config = config(|config| config.limits.upload_bytes = 100);
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
fn precondition_of_first_block_reaches_application() {
    let mut server = Endpoint::new(Config::default(), Stream(1));
    let first = put_block(1, (0, true, 64), 64).option(5, b"");
    for message in [first, put_block(2, (1, false, 64), 10)] {
        server.handle_datagram(
            Instant::ZERO,
            crate::net::client_address(),
            &message.bytes(),
        );
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
fn new_block_zero_replaces_the_incomplete_body() {
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
fn absent_or_wrong_size_options_are_harmless() {
    // Requests the size, which the server ignores.
    let mut request = get("x");
    request.options.push(OptionNumber::SIZE2, b"").unwrap();
    let mut net = answered(request, |id| content(id, (0, true, 64), 64));
    assert_eq!(
        view(net.sent_by_client()[0]).option(OptionNumber::SIZE2),
        Some(&b""[..])
    );
    answer_next(&mut net, |id| content(id, (1, false, 64), 10));
    assert_eq!(net.response().unwrap().bytes().len(), 74);
    // The M bit determines the end, not the announced size.
    for size in [1, 200] {
        let mut net = answered(get("x"), |id| {
            content(id, (0, true, 64), 64).option(28, &[size])
        });
        answer_next(&mut net, |id| content(id, (1, false, 64), 10));
        assert_eq!(net.response().unwrap().bytes().len(), 74, "{size}");
    }
}
