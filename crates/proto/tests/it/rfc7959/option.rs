//! Block options: values, sizes and refusals (RFC 7959 2).

use super::*;

#[test]
fn block_option_is_not_repeatable() {
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
fn more_flag_of_requested_block_is_zero_and_ignored() {
    let mut client = with_blocks(64);
    client.negotiate_early = true;
    let mut net = Net::new(client, Config::default());
    net.app.resources.insert("x".into(), pattern(500));
    net.send_for(get("x"), seconds(5));
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
fn error_instead_of_later_block_starts_from_block_0() {
    let mut server = Endpoint::new(Config::default(), Stream(1));
    let (from, now) = (crate::net::client_address(), Instant::ZERO);
    for (id, (text, block)) in [("busy", None), ("too many request bodies", Some(true))]
        .into_iter()
        .enumerate()
    {
        let third = con(Code::GET, id as u16)
            .path("x")
            .block(BLOCK2, (3, false, 16));
        server.handle_datagram(now, from, &third.bytes());
        let Output::Event(Event::Request(id)) = server.poll() else {
            panic!("a request");
        };
        let busy = Response::diagnostic(Code::SERVICE_UNAVAILABLE, text);
        server.respond(now, id, &busy);
        let Output::Transmit { bytes, .. } = server.poll() else {
            panic!("an answer");
        };
        let answer = view(bytes);
        assert_eq!(answer.code(), Code::SERVICE_UNAVAILABLE);
        assert_eq!(answer.payload(), &text.as_bytes()[..text.len().min(16)]);
        let told = answer
            .option(BLOCK2)
            .map(BlockValue::decode)
            .transpose()
            .unwrap();
        let told = told.map(|block| (block.number, block.more));
        assert_eq!(told, block.map(|more| (0, more)));
    }
}

#[test]
fn reserved_block_size_gets_4_00() {
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
fn block_with_m_bit_has_its_full_size() {
    let mut net = Net::new(with_blocks(128), with_blocks(64));
    net.send(post("echo", pattern(1_000)));
    net.run_for(seconds(60));
    assert_eq!(net.response().unwrap().bytes().len(), 1_000);
    let mut checked = 0;
    for crossing in &net.crossings {
        let message = view(&crossing.bytes);
        let carried = if crossing.from_client { BLOCK1 } else { BLOCK2 };
        if let Some(block) = message
            .option(carried)
            .map(BlockValue::decode)
            .transpose()
            .unwrap()
            && block.more
        {
            assert_eq!(message.payload().len(), block.szx.bytes());
            checked += 1;
        }
    }
    assert!(checked >= 20, "{checked}");
    // Applications that generate blocks are checked as well.
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
fn block_of_wrong_length_gets_4_00() {
    for (block, length) in [((0, true, 64), 63), ((0, true, 64), 65), ((0, true, 64), 0)] {
        let (_, seen) = told(Config::default(), &[put_block(1, block, length)]);
        assert_eq!(seen, ["ACK 4.00"]);
        let net = answered(get("x"), |id| content(id, block, length));
        let wrong = DownloadError::WrongLength {
            offset: 0,
            length,
            size: 64,
        };
        assert_eq!(net.failure(), Some(Failure::Body(wrong)));
    }
}

#[test]
fn client_continues_in_the_servers_block_size() {
    let mut client = with_blocks(512);
    client.negotiate_early = true;
    let mut net = Net::new(client, with_blocks(128));
    net.app.resources.insert("x".into(), pattern(600));
    net.send_for(get("x"), seconds(5));
    let asked = blocks(&net.sent_by_client(), BLOCK2);
    let expected = [(0, 512), (1, 128), (2, 128), (3, 128), (4, 128)];
    assert_eq!(asked, expected.map(|(n, size)| Some((n, false, size))));
    let sent = blocks(&net.sent_by_server(), BLOCK2);
    assert!(sent.iter().all(|block| block.unwrap().2 == 128));
    assert_eq!(net.response().unwrap().bytes(), &pattern(600));
}

#[test]
fn server_never_exceeds_the_requested_block_size() {
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
fn later_block_in_larger_size_is_served_in_own_size() {
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
fn response_2_31_has_no_block2() {
    let first = put_block(1, (0, true, 64), 64);
    let mut response = Response::new(Code::CONTINUE);
    response.payload = Payload::Whole(pattern(3_000));
    let sent = responded(&first, &response);
    assert_eq!(blocks(&[&sent], BLOCK1), [Some((0, true, 64))]);
    assert_eq!(blocks(&[&sent], BLOCK2), [None]);
    assert!(view(&sent).payload().is_empty());
    // A final response in the middle of an upload may have a block-wise body of any size.
    response.code = Code::CHANGED;
    let sent = responded(&first, &response);
    assert_eq!(blocks(&[&sent], BLOCK1), [Some((0, false, 64))]);
    assert_eq!(blocks(&[&sent], BLOCK2), [Some((0, true, 1024))]);
}

#[test]
fn client_renumbers_blocks_after_a_size_change() {
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
fn client_restarts_with_smaller_blocks_after_4_13() {
    let mut net = answered(put("x", pattern(3_000)), |id| {
        ack(Code::REQUEST_ENTITY_TOO_LARGE, id).block(BLOCK1, (0, true, 64))
    });
    assert_eq!(
        blocks(&net.sent_by_client(), BLOCK1)[1],
        Some((0, true, 64))
    );
    // At the smallest size the body itself is too large.
    answer_next(&mut net, |id| {
        ack(Code::REQUEST_ENTITY_TOO_LARGE, id).block(BLOCK1, (0, true, 64))
    });
    let response = net.response().unwrap();
    assert_eq!(response.code, Code::REQUEST_ENTITY_TOO_LARGE);
}

#[test]
fn success_without_block1_in_an_upload_is_an_error() {
    // As libcoap 4.3.1's example server, which takes the first block for the whole body.
    let net = answered(put("x", pattern(3_000)), |id| ack(Code::CREATED, id));
    assert_eq!(net.failure(), Some(Failure::CutShort { taken: 1_024 }));
}
