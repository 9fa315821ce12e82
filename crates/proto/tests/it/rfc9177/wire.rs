//! Q-Block messages on the wire (RFC 9177).

use std::net::SocketAddr;

use carob_proto::Request;
use carob_proto::codec::{Code, OptionNumber, Type};
use carob_proto::endpoint::Failure;
use carob_proto::endpoint::QBlockMode::{Auto, On};

use super::{blocks, body, codes, config, net, net_with, reports, response_block, sending, upload};
use crate::net::wire::{Wire, con, non, view};
use crate::net::{Net, client_address, get, millis, post, seconds};

/// A NON PUT of block `number` of `count`; the Message ID is also the token.
fn block(id: u16, number: u32, count: u32) -> Wire {
    let whole = body(count as usize);
    let start = number as usize * 64;
    let end = whole.len().min(start + 64);
    let size = (whole.len() as u32).to_be_bytes();
    let more = number + 1 < count;
    non(Code::PUT, id)
        .token(&id.to_be_bytes())
        .path("x")
        .block(OptionNumber::Q_BLOCK1, (number, more, 64))
        .option(60, &size[2..])
        .option(292, &[9])
        .payload(&whole[start..end])
}

fn give(net: &mut Net, numbers: &[u32], count: u32) {
    for number in numbers {
        net.inject_to_server(&block(*number as u16 + 100, *number, count).bytes());
    }
}

/// Tokens of the server's messages.
fn tokens(net: &Net) -> Vec<Vec<u8>> {
    let token = |bytes: &&[u8]| {
        let view = view(bytes);
        view.token().as_slice().to_vec()
    };
    net.sent_by_server().iter().map(token).collect()
}

#[test]
fn a_block_without_request_tag_or_size_is_rejected() {
    for missing in [60, 292] {
        let mut net = net();
        let block = con(Code::PUT, 1)
            .path("x")
            .block(OptionNumber::Q_BLOCK1, (0, true, 64));
        let other = if missing == 60 { 292 } else { 60 };
        net.inject_to_server(&block.option(other, &[99]).payload(&[0; 64]).bytes());
        assert_eq!(codes(&net.sent_by_server()), ["4.00"], "without {missing}");
    }
}

#[test]
fn two_q_block1_options_are_rejected() {
    let mut net = net();
    let block = con(Code::PUT, 1)
        .path("x")
        .block(OptionNumber::Q_BLOCK1, (0, true, 64))
        .block(OptionNumber::Q_BLOCK1, (1, true, 64))
        .option(60, &[99])
        .option(292, &[9]);
    net.inject_to_server(&block.payload(&[0; 64]).bytes());
    assert_eq!(codes(&net.sent_by_server()), ["4.02"]);
}

#[test]
fn replies_have_the_token_of_the_latest_block() {
    let mut net = net();
    give(&mut net, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 22);
    assert_eq!(codes(&net.sent_by_server()), ["2.31"]);
    give(&mut net, &[10, 11, 13, 14, 15, 16, 17, 18, 19, 20], 22);
    assert_eq!(codes(&net.sent_by_server()), ["2.31", "4.08"]);
    assert_eq!(reports(&net.sent_by_server()), [[12]]);
    give(&mut net, &[12, 21], 22);
    assert_eq!(net.app.resources["x"], body(22));
    let of = |number: u16| (number + 100).to_be_bytes().to_vec();
    assert_eq!(tokens(&net), [of(9), of(20), of(12), of(21)]);
    assert_eq!(codes(&net.sent_by_server())[2..], ["2.31", "2.04"]);
}

#[test]
fn responses_of_all_methods_have_the_token_of_a_block() {
    for (method, code) in [
        (Code::PUT, "2.04"),
        (Code::POST, "2.04"),
        (Code::FETCH, "2.05"),
        (Code::PATCH, "4.05"),
    ] {
        let mut net = net();
        net.app.echo_fetch = true;
        let request = Request {
            code: method,
            ..post("x", body(3))
        };
        net.send_with(request, sending(On, false));
        net.run_for(seconds(60));
        let sent: Vec<Vec<u8>> = (net.sent_by_client().iter())
            .map(|bytes| view(bytes).token().as_slice().to_vec())
            .collect();
        assert_eq!(codes(&net.sent_by_server())[0], code);
        assert!(sent.contains(&tokens(&net)[0]), "{method}");
        assert_eq!(net.responses().len(), 1);
    }
}

#[test]
fn a_duplicate_block_is_ignored_and_answered_again() {
    let mut net = net();
    give(&mut net, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 12);
    assert_eq!(codes(&net.sent_by_server()), ["2.31"]);
    // A duplicate with different payload in a new message.
    let mut other = block(700, 9, 12).bytes();
    *other.last_mut().unwrap() ^= 0xff;
    net.inject_to_server(&other);
    assert_eq!(codes(&net.sent_by_server()), ["2.31", "2.31"]);
    give(&mut net, &[10, 11], 12);
    assert_eq!(net.app.resources["x"], body(12));
    // The response is repeated without another execution.
    net.inject_to_server(&block(701, 11, 12).bytes());
    assert_eq!(codes(&net.sent_by_server())[2..], ["2.04", "2.04"]);
    assert_eq!(net.app.executed["x"], 1);
}

#[test]
fn missing_blocks_are_requested_four_times_with_backoff() {
    let mut net = net();
    give(&mut net, &[0, 2], 3);
    net.run_for(seconds(300));
    // As in figure 7 of RFC 9177, but with a shorter first wait, because the last block has arrived.
    let times: Vec<u64> = (net.crossings.iter())
        .filter(|crossing| !crossing.from_client)
        .map(|crossing| crossing.at.since(carob_cc::time::Instant::ZERO).as_millis())
        .collect();
    assert_eq!(times, [20, 8_020, 24_020, 56_020]);
    assert_eq!(reports(&net.sent_by_server()), [[1], [1], [1], [1]]);
    assert_eq!(net.server.usage().uploads, (0, 0), "it is discarded");
}

#[test]
fn absent_set_is_requested_after_the_timeout() {
    let mut net = net();
    give(&mut net, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 12);
    net.run_for(millis(3_900));
    assert_eq!(codes(&net.sent_by_server()), ["2.31"]);
    net.run_for(millis(200));
    assert_eq!(reports(&net.sent_by_server()), [[10, 11]]);
}

#[test]
fn a_partial_body_is_kept_while_its_blocks_arrive() {
    let mut net = net();
    for number in 0..12 {
        give(&mut net, &[number], 12);
        net.run_for(seconds(100));
    }
    assert_eq!(net.app.resources["x"], body(12));
}

#[test]
fn a_report_is_no_longer_than_a_block() {
    let mut server = config("default");
    server.block_size = carob_proto::codec::BlockSize::MIN;
    let mut net = Net::new(config("default"), server);
    give(&mut net, &[0, 39, 40], 60);
    let reports = reports(&net.sent_by_server());
    assert_eq!(reports[0], (1..=16).collect::<Vec<_>>());
}

#[test]
fn a_report_after_the_body_was_cancelled_is_rejected() {
    let mut net = net();
    let id = net.send_with(upload("x", 15), sending(On, false));
    let first = net.sent_by_client()[0].to_vec();
    net.client.cancel(net.now, id);
    net.drain();
    let before = net.sent_by_client().len();
    let report = non(Code::REQUEST_ENTITY_INCOMPLETE, 77).token_of(&first);
    net.inject_to_client(&report.option(12, &[1, 16]).payload(&[1]).bytes());
    let after = net.sent_by_client()[before..].to_vec();
    assert_eq!(after.len(), 1);
    assert_eq!(view(after[0]).kind(), Type::Reset);
}

#[test]
fn out_of_order_report_retransmits_nothing() {
    let mut net = net();
    net.server_dead = true;
    net.send_with(upload("x", 30), sending(On, false));
    net.run_for(millis(500));
    let first = net.sent_by_client()[5].to_vec();
    let count = net.sent_by_client().len();
    for payload in [&[3, 1][..], &[1, 1], &[0x81, 1]] {
        let report = non(Code::REQUEST_ENTITY_INCOMPLETE, 70 + u16::from(payload[0]));
        let report = report.token_of(&first).option(12, &[1, 16]);
        net.inject_to_client(&report.payload(payload).bytes());
    }
    let repeated = blocks(&net.sent_by_client()[count..], OptionNumber::Q_BLOCK1);
    let numbers: Vec<u32> = repeated.iter().map(|block| block.1).collect();
    assert!(
        !numbers.contains(&1) && !numbers.contains(&3),
        "{numbers:?}"
    );
}

#[test]
fn in_order_report_retransmits_listed_blocks_first() {
    let mut net = net();
    net.server_dead = true;
    net.send_with(upload("x", 30), sending(On, false));
    net.run_for(millis(500));
    let sixth = net.sent_by_client()[5].to_vec();
    let count = net.sent_by_client().len();
    let report = non(Code::REQUEST_ENTITY_INCOMPLETE, 70).token_of(&sixth);
    net.inject_to_client(&report.option(12, &[1, 16]).payload(&[1, 3]).bytes());
    net.run_for(millis(500));
    let after = blocks(&net.sent_by_client()[count..], OptionNumber::Q_BLOCK1);
    // Block 11 was queued before the report arrived.
    let numbers = after.iter().map(|block| block.1);
    let numbers: Vec<u32> = numbers.filter(|number| *number != 11).collect();
    assert_eq!(numbers[..2], [1, 3]);
    assert!(
        numbers[2..].iter().all(|number| *number >= 10),
        "{numbers:?}"
    );
}

#[test]
fn a_block_requested_twice_is_sent_once() {
    let mut net = net();
    net.app.resources.insert("x".into(), body(15));
    let request = non(Code::GET, 1)
        .path("x")
        .block(OptionNumber::Q_BLOCK2, (3, true, 64))
        .block(OptionNumber::Q_BLOCK2, (5, false, 64));
    net.inject_to_server(&request.bytes());
    let sent = blocks(&net.sent_by_server(), OptionNumber::Q_BLOCK2);
    let numbers: Vec<u32> = sent.iter().map(|block| block.1).collect();
    assert_eq!(numbers, (3..10).collect::<Vec<_>>(), "the rest of the set");
}

#[test]
fn changed_etag_restarts_the_download() {
    let mut server = config("default");
    server.limits.bodies = 0;
    let mut net = net_with(config("default"), server);
    net.app.resources.insert("x".into(), body(25));
    net.send_with(get("x"), sending(On, false));
    net.run_for(millis(15));
    net.app.resources.insert("x".into(), body(24));
    net.run_for(seconds(5));
    assert_eq!(net.response().unwrap().bytes(), &body(24));
    let mut seen: Vec<(Vec<u8>, u32)> = Vec::new();
    for bytes in net.sent_by_server() {
        let view = view(bytes);
        let tag = view.option(OptionNumber::ETAG).unwrap().to_vec();
        seen.push((tag, view.uint_option(OptionNumber::SIZE2).unwrap()));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0].0 != seen[1].0 && seen[0].1 != seen[1].1);
}

#[test]
fn blocks_of_the_next_set_reveal_missing_ones() {
    let mut client = config("default");
    client.q_block.receive_timeout = seconds(40);
    let mut net = Net::new(client, config("default"));
    net.server_dead = true;
    net.send_with(get("x"), sending(On, false));
    let request = net.sent_by_client()[0].to_vec();
    // The server sends the next set without a request for it.
    for number in [0, 1, 3, 4, 5, 6, 7, 8, 10, 11] {
        let block = non(Code::CONTENT, 500 + number as u16).token_of(&request);
        net.inject_to_client(&response_block(block, (number, 12)));
    }
    net.run_for(seconds(1));
    let asked = net.sent_by_client()[1].to_vec();
    let view = view(&asked);
    let values: Vec<&[u8]> = view.values(OptionNumber::Q_BLOCK2).collect();
    assert_eq!(values, [&[0x22][..], &[0x92]], "blocks 2 and 9 of 64 bytes");
    assert_eq!(view.option(OptionNumber::OBSERVE), None);
}

#[test]
fn a_partial_response_is_kept_for_a_minute() {
    let mut net = net();
    net.app.resources.insert("x".into(), body(9));
    net.drop_if = Some(|from_client, bytes| {
        let view = view(bytes);
        let late = from_client && view.values(OptionNumber::Q_BLOCK2).count() == 2;
        let lost = |value: &[u8]| [&[0x2a][..], &[0x5a]].contains(&value);
        late || view.option(OptionNumber::Q_BLOCK2).is_some_and(lost)
    });
    net.send_with(get("x"), sending(On, false));
    net.run_for(seconds(50));
    net.drop_if = None;
    net.run_for(seconds(60));
    assert_eq!(net.response().unwrap().bytes(), &body(9));
    let sent = blocks(&net.sent_by_server(), OptionNumber::Q_BLOCK2);
    assert_eq!(sent.iter().filter(|block| block.1 == 0).count(), 1);
}

#[test]
fn observations_use_block_options() {
    let mut net = net();
    net.observable("x", "first");
    net.app.resources.insert("x".into(), body(15));
    let mut observing = sending(Auto, true);
    observing.observe = true;
    net.send_with(get("x"), observing);
    net.run_for(seconds(5));
    for bytes in net.sent_by_client().iter().chain(&net.sent_by_server()) {
        let view = view(bytes);
        assert_eq!(view.option(OptionNumber::Q_BLOCK2), None);
        assert_eq!(view.option(OptionNumber::Q_BLOCK1), None);
    }
    assert!(!blocks(&net.sent_by_server(), OptionNumber::BLOCK2).is_empty());
}

#[test]
fn sets_are_paced_by_the_controller_without_reports() {
    // Without any reply, the controller's timeout replaces NON_TIMEOUT between sets.
    let mut net = net();
    net.server_dead = true;
    net.send_with(upload("x", 40), sending(On, false));
    net.run_for(millis(1_900));
    let sent = blocks(&net.sent_by_client(), OptionNumber::Q_BLOCK1).len();
    assert!(sent <= 12, "a set, and two blocks of the next: {sent}");
}

#[test]
fn few_blocks_are_sent_while_reports_are_late() {
    let mut net = net_with(config("carob"), config("carob"));
    net.send_with(upload("x", 900), sending(On, false));
    net.run_for(millis(600));
    let reported = net.sent_by_client().len();
    assert!(reported > 40, "reports keep a window open: {reported}");
    net.server_dead = true;
    net.run_for(millis(1_600));
    let late = net.sent_by_client().len() - reported;
    assert!(late <= 40, "108 leave at the rate of before: {late}");
}

#[test]
fn late_report_does_not_retransmit_blocks_twice() {
    let mut client = config("carob");
    client.q_block.receive_timeout = millis(10);
    let mut net = net_with(client, config("carob"));
    net.send_with(upload("x", 60), sending(On, false));
    net.run_for(millis(315));
    net.server_dead = true;
    assert_eq!(net.sent_by_client().len(), 30, "blocks 0 to 29 in order");
    // After blocks 20 and 21, the server reports that block 12 is missing.
    let times = |net: &mut Net, id: u16, named: usize| {
        let report = non(Code::REQUEST_ENTITY_INCOMPLETE, id).token_of(net.sent_by_client()[named]);
        net.inject_to_client(&report.option(12, &[1, 16]).payload(&[12]).bytes());
        net.run_for(millis(100));
        let sent = blocks(&net.sent_by_client(), OptionNumber::Q_BLOCK1);
        sent.iter().filter(|block| block.1 == 12).count()
    };
    net.run_for(millis(15));
    assert_eq!(times(&mut net, 1, 20), 2, "block 12 left before 20");
    assert_eq!(times(&mut net, 2, 21), 2, "its repetition left after 21");
    assert_eq!(times(&mut net, 3, 21), 3, "no block arrived after 21");
}

#[test]
fn a_multicast_request_with_q_block2_is_ignored() {
    let mut net = net();
    net.app.resources.insert("x".into(), "s".into());
    let quick = non(Code::GET, 1).path("x");
    let quick = quick.block(OptionNumber::Q_BLOCK2, (0, true, 64));
    let request = non(Code::GET, 2).path("x");
    for (request, replies) in [(quick, 0), (request, 1)] {
        let bytes = request.bytes();
        (net.server).handle_group_datagram(net.now, client_address(), &bytes);
        net.drain();
        net.run_for(seconds(20));
        assert_eq!(net.sent_by_server().len().min(1), replies);
    }
}

#[test]
fn parameters_match_the_table_of_rfc_9177() {
    let config = carob_proto::endpoint::QBlockConfig::default();
    assert_eq!((config.max_payloads, config.max_retransmit), (10, 4));
    assert_eq!(config.receive_timeout, seconds(4));
    assert_eq!(config.partial_timeout, seconds(247));
    assert_eq!(config.requests, carob_proto::endpoint::QBlockMode::Off);
}

#[test]
fn a_block_ahead_of_a_missing_one_counts_with_its_overhead() {
    let mut net = net();
    give(&mut net, &[0], 20);
    let first = net.server.usage().uploads.1;
    give(&mut net, &[2], 20);
    let ahead = net.server.usage().uploads.1;
    assert_eq!(ahead - first, 64 + 96);
    give(&mut net, &[1], 20);
    assert_eq!(net.server.usage().uploads.1, first + 2 * 64);
}

#[test]
fn results_of_one_source_leave_those_of_others() {
    let mut server = config("default");
    server.limits.q_block_results = 8;
    let mut net = net_with(config("default"), server);
    give(&mut net, &[0], 1);
    assert_eq!(net.app.executed["x"], 1);
    let other = SocketAddr::from(([203, 0, 113, 9], 5683));
    for tag in 0..20 {
        let whole = block(tag, 0, 1).option(292, &[10, tag as u8]).bytes();
        net.server.handle_datagram(net.now, other, &whole);
        net.run_for(millis(10));
    }
    assert_eq!(net.app.executed["x"], 21);
    // A duplicate block gets the result again.
    net.inject_to_server(&block(900, 0, 1).bytes());
    assert_eq!(net.app.executed["x"], 21);
}

/// Replies to each block with this message until the request ends; returns the number of blocks sent.
fn answered_without_end(net: &mut Net, answer: impl Fn(u16, &[u8]) -> Wire) -> usize {
    net.server_dead = true;
    net.send_with(upload("x", 3), sending(On, false));
    let mut answered = 0;
    while net.response().is_none() && net.failure().is_none() && answered < 1_000 {
        net.run_for(millis(100));
        let blocks: Vec<Vec<u8>> = net.sent_by_client()[answered..]
            .iter()
            .map(|bytes| bytes.to_vec())
            .collect();
        for block in blocks {
            answered += 1;
            net.inject_to_client(&answer(answered as u16, &block).bytes());
        }
    }
    answered
}

#[test]
fn endless_challenges_end_the_request() {
    let mut net = net();
    let sent = answered_without_end(&mut net, |id, block| {
        let challenge = non(Code::UNAUTHORIZED, id).token_of(block);
        challenge.option(252, &id.to_be_bytes())
    });
    assert_eq!(net.failure(), None);
    assert_eq!(net.response().unwrap().code, Code::UNAUTHORIZED);
    assert!(sent < 100, "{sent} blocks");
}

#[test]
fn endless_reports_fail_the_request() {
    let mut net = net();
    let sent = answered_without_end(&mut net, |id, block| {
        let report = non(Code::REQUEST_ENTITY_INCOMPLETE, id).token_of(block);
        report.option(12, &[1, 16]).payload(&[0, 1, 2])
    });
    let failure = Failure::Interrupted(Code::REQUEST_ENTITY_INCOMPLETE);
    assert_eq!(net.failure(), Some(failure));
    assert!(sent < 200, "{sent} blocks");
}
