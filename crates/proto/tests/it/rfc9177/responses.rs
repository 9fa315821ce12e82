//! Q-Block2 (RFC 9177 4.4).

use carob_cc::time::Instant;
use carob_proto::codec::{BlockSize, BlockValue, Code, OptionNumber, Type};
use carob_proto::endpoint::QBlockMode::{Auto, On};

use super::{blocks, body, config, net, net_with, response_block, sending};
use crate::net::wire::{con, non, view};
use crate::net::{Faults, Net, get, millis, pattern, seconds};

/// Q-Block2 options of the client's requests: number and M bit.
fn requested(net: &Net) -> Vec<Vec<(u32, bool)>> {
    let values = |bytes: &&[u8]| {
        let view = view(bytes);
        let all = view.values(OptionNumber::Q_BLOCK2);
        all.map(|value| BlockValue::decode(value).unwrap())
            .map(|block| (block.number, block.more))
            .collect::<Vec<_>>()
    };
    let all = net.sent_by_client();
    all.iter().map(values).filter(|v| !v.is_empty()).collect()
}

#[test]
fn continue_requests_the_next_set() {
    let mut net = net();
    net.app.resources.insert("x".into(), body(25));
    net.send_with(get("x"), sending(On, false));
    net.run_for(seconds(3));
    assert_eq!(net.response().unwrap().bytes(), &body(25));
    assert_eq!(requested(&net), [[(0, true)], [(10, true)], [(20, true)]]);
    let sent = blocks(&net.sent_by_server(), OptionNumber::Q_BLOCK2);
    let numbers: Vec<u32> = sent.iter().map(|block| block.1).collect();
    assert_eq!(numbers, (0..25).collect::<Vec<_>>());
    assert!(sent.iter().all(|block| block.0 == Type::NonConfirmable));
    assert_eq!(net.app.executed["x"], 1, "the body is from the cache");
}

/// A Confirmable block of a body of 25 blocks.
fn of_25(request: &[u8], number: u32) -> Vec<u8> {
    let block = con(Code::CONTENT, 500 + number as u16).token_of(request);
    response_block(block, (number, 25))
}

#[test]
fn the_next_confirmable_set_is_requested_while_one_arrives() {
    let mut net = net();
    net.server_dead = true;
    net.send_with(get("x"), sending(On, true));
    let request = net.sent_by_client()[0].to_vec();
    net.inject_to_client(&of_25(&request, 0));
    net.run_for(millis(10));
    assert_eq!(requested(&net), [[(0, true)], [(10, true)]]);
    for number in 1..10 {
        net.inject_to_client(&of_25(&request, number));
    }
    net.run_for(millis(10));
    assert_eq!(requested(&net), [[(0, true)], [(10, true)]]);
    net.inject_to_client(&of_25(&request, 10));
    net.run_for(millis(10));
    assert_eq!(requested(&net), [[(0, true)], [(10, true)], [(20, true)]]);
    for number in 11..25 {
        net.inject_to_client(&of_25(&request, number));
    }
    net.run_for(millis(10));
    assert_eq!(net.response().unwrap().bytes().len(), 25 * 64 - 10);
}

/// Requests of a client that receives NON blocks of a body of 25: the first 300 ms after the request, the others at
/// intervals of 100 ms.
fn requests_after(numbers: impl IntoIterator<Item = u32>) -> Vec<Vec<(u32, bool)>> {
    let mut net = net();
    net.server_dead = true;
    net.send_with(get("x"), sending(On, false));
    let request = net.sent_by_client()[0].to_vec();
    net.run_for(millis(200));
    for number in numbers {
        net.run_for(millis(100));
        let block = non(Code::CONTENT, 500 + number as u16).token_of(&request);
        net.inject_to_client(&response_block(block, (number, 25)));
    }
    net.run_for(millis(10));
    requested(&net)
}

#[test]
fn the_next_non_set_is_requested_a_round_trip_before_the_end() {
    let (first, next) = (vec![(0, true)], vec![(10, true)]);
    assert_eq!(requests_after(0..6), std::slice::from_ref(&first));
    // Blocks 7, 8 and 9 take less than the round-trip time of 300 ms.
    assert_eq!(requests_after(0..7), [first.clone(), next.clone()]);
    assert_eq!(requests_after(0..10), [first.clone(), next.clone()]);
    // At most one set ahead: the third set is requested near the end of the second.
    assert_eq!(requests_after(0..13), [first.clone(), next.clone()]);
    assert_eq!(requests_after(0..20), [first, next, vec![(20, true)]]);
}

#[test]
fn no_non_set_is_requested_early_while_a_block_is_missing() {
    let with_gap = || (0..10).filter(|number| *number != 3);
    assert_eq!(requests_after(with_gap()), [[(0, true)]]);
    let late = with_gap().chain([3]);
    assert_eq!(requests_after(late), [[(0, true)], [(10, true)]]);
    // One block was overtaken by later ones.
    let overtaken = [0, 1, 2, 4, 5, 3, 6, 7];
    assert_eq!(requests_after(overtaken), [[(0, true)], [(10, true)]]);
}

#[test]
fn a_non_set_on_a_slow_link_is_requested_after_the_one_before() {
    let mut net = net();
    net.server_dead = true;
    net.send_with(get("x"), sending(On, false));
    let request = net.sent_by_client()[0].to_vec();
    for number in 0..10 {
        // The round-trip time is shorter than the interval of blocks.
        net.run_for(millis(if number == 0 { 300 } else { 900 }));
        assert_eq!(requested(&net), [[(0, true)]]);
        let block = non(Code::CONTENT, 500 + number as u16).token_of(&request);
        net.inject_to_client(&response_block(block, (number, 25)));
    }
    net.run_for(millis(10));
    assert_eq!(requested(&net), [[(0, true)], [(10, true)]]);
}

#[test]
fn unacknowledged_early_request_is_retransmitted() {
    let mut client = config("default");
    client.q_block.receive_timeout = seconds(40);
    let mut net = Net::new(client, config("default"));
    net.server_dead = true;
    net.send_with(get("x"), sending(On, true));
    let request = net.sent_by_client()[0].to_vec();
    // The request for block 10 fails within MAX_TRANSMIT_WAIT (93 s).
    for number in 0..9 {
        net.inject_to_client(&of_25(&request, number));
        net.run_for(seconds(12));
    }
    assert_eq!(net.failure(), None);
    assert!(
        requested(&net)[1..]
            .iter()
            .all(|asked| *asked == [(10, true)])
    );
    let ids = |bytes: &&[u8]| view(bytes).message_id();
    let asks = net.sent_by_client().into_iter().filter(|bytes| {
        let view = view(bytes);
        view.option(OptionNumber::Q_BLOCK2).is_some()
    });
    let mut ids: Vec<_> = asks.map(|bytes| ids(&bytes)).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3, "the first set, and the next one twice");
}

#[test]
fn duplicate_of_a_request_for_a_set_is_only_acknowledged() {
    let mut large = config("default");
    large.block_size = BlockSize::from_bytes_at_most(512).unwrap();
    let mut net = net_with(large.clone(), large);
    net.app.resources.insert("x".into(), pattern(512 * 20));
    net.send_with(get("x"), sending(On, true));
    net.run_for(seconds(30));
    let count = |net: &Net| blocks(&net.sent_by_server(), OptionNumber::Q_BLOCK2).len();
    assert_eq!(count(&net), 20);
    let request = net.sent_by_client()[0].to_vec();
    net.inject_to_server(&request);
    net.run_for(seconds(30));
    assert_eq!(count(&net), 20);
}

#[test]
fn every_block_of_a_response_has_etag_and_size() {
    let mut net = net();
    net.app.resources.insert("x".into(), body(12));
    net.send_with(get("x"), sending(On, false));
    net.run_for(seconds(3));
    let mut seen = Vec::new();
    for bytes in net.sent_by_server() {
        let view = view(bytes);
        let tag = view.option(OptionNumber::ETAG).unwrap().to_vec();
        seen.push((tag, view.uint_option(OptionNumber::SIZE2).unwrap()));
    }
    seen.dedup();
    assert_eq!((seen.len(), seen[0].1), (1, 12 * 64 - 10));
}

#[test]
fn a_short_response_has_no_q_block2() {
    let mut net = net();
    net.app.resources.insert("x".into(), "short".into());
    net.send_with(get("x"), sending(On, false));
    net.run_for(seconds(1));
    assert_eq!(net.response().unwrap().bytes(), &"short");
    assert!(blocks(&net.sent_by_server(), OptionNumber::Q_BLOCK2).is_empty());
}

/// Requests for a body of ten blocks if the first `copies` transmissions of two blocks are lost.
fn requests_with_two_losses(confirmable: bool, copies: u8) -> Vec<Vec<(u32, bool)>> {
    LOST.with(|lost| lost.borrow_mut().clear());
    COPIES.set(copies);
    let mut wide = config("default");
    wide.parameters.nstart = 10;
    let mut net = net_with(wide.clone(), wide);
    net.app.resources.insert("x".into(), body(10));
    net.drop_if = Some(|from_client, bytes| {
        let view = view(bytes);
        let lost = |value: &[u8]| [&[0x2a][..], &[0x5a]].contains(&value);
        let early = view.token().len() == 8 && view.message_id().0 != 0;
        !from_client
            && early
            && view.option(OptionNumber::Q_BLOCK2).is_some_and(lost)
            && LOST.with(|lost| {
                let mut lost = lost.borrow_mut();
                let lost = lost.entry(view.payload().to_vec()).or_default();
                *lost += 1;
                *lost <= COPIES.get()
            })
    });
    net.send_with(get("x"), sending(On, confirmable));
    net.run_for(seconds(30));
    assert_eq!(net.response().unwrap().bytes(), &body(10));
    requested(&net)
}

#[test]
fn missing_blocks_of_a_set_are_requested_in_one_message() {
    assert_eq!(
        requests_with_two_losses(false, 1),
        [vec![(0, true)], vec![(2, false), (5, false)]]
    );
}

#[test]
fn missing_confirmable_blocks_are_left_to_their_retransmission() {
    assert_eq!(requests_with_two_losses(true, 1), [[(0, true)]]);
    // After a timeout, the first missing block is requested.
    let requested = requests_with_two_losses(true, 2);
    assert_eq!(requested[1..], [[(2, false)]]);
}

thread_local! {
    static LOST: std::cell::RefCell<std::collections::BTreeMap<Vec<u8>, u8>> = std::cell::RefCell::default();
    static COPIES: std::cell::Cell<u8> = const { std::cell::Cell::new(1) };
}

#[test]
fn server_without_q_block_responds_with_block2() {
    let mut server = config("default");
    server.q_block.accept = false;
    let mut net = Net::new(config("default"), server);
    net.app.resources.insert("x".into(), body(15));
    net.send_with(get("x"), sending(Auto, false));
    net.run_for(seconds(3));
    assert_eq!(net.response().unwrap().bytes(), &body(15));
    assert_eq!(requested(&net).len(), 1);
    let first = view(net.sent_by_client()[0]).kind();
    assert_eq!(first, Type::Confirmable, "the discovery is confirmable");
    net.send_with(get("x"), sending(Auto, false));
    net.run_for(seconds(3));
    assert_eq!((net.responses().len(), requested(&net).len()), (2, 1));
}

#[test]
fn response_bodies_arrive_over_bad_networks() {
    for confirmable in [false, true] {
        for seed in 0..12 {
            let mut net = net().seeded(seed);
            net.app.resources.insert("x".into(), body(60));
            net.faults = Faults {
                loss: 8,
                duplication: 5,
                jitter: millis(8),
            };
            net.send_with(get("x"), sending(On, confirmable));
            net.run_for(seconds(400));
            let response = net.response().map(|response| response.bytes().clone());
            assert_eq!(
                response,
                Some(body(60)),
                "{confirmable} {seed} {:?}",
                net.failure()
            );
            assert_eq!(net.client.usage().observations, 0, "tokens are released");
        }
    }
}

#[test]
fn numbers_that_do_not_increase_are_refused() {
    let mut net = net();
    net.app.resources.insert("x".into(), body(15));
    // CON GET x with Q-Block2 3/0/64 twice.
    net.inject_to_server(&[0x41, 1, 0, 9, 7, 0xb1, b'x', 0xd1, 7, 0x32, 0x01, 0x32]);
    let answer = net.sent_by_server()[0].to_vec();
    assert_eq!(view(&answer).code(), Code::BAD_REQUEST);
}

#[test]
fn q_block_and_block_options_are_not_mixed() {
    let mut net = net();
    net.app.resources.insert("x".into(), body(15));
    // CON GET x with Block2 0/0/64 and Q-Block2 0/M/64.
    net.inject_to_server(&[0x41, 1, 0, 9, 7, 0xb1, b'x', 0xc1, 0x02, 0x81, 0x0a]);
    let answer = net.sent_by_server()[0].to_vec();
    assert_eq!(view(&answer).code(), Code::BAD_OPTION);
}

#[test]
fn tokens_of_old_sets_are_not_kept() {
    let mut net = net();
    net.app.resources.insert("x".into(), body(400));
    net.send_with(get("x"), sending(On, false));
    let mut most = 0;
    while net.response().is_none() && net.now < Instant::ZERO + seconds(60) {
        net.run_for(millis(20));
        most = most.max(net.client.usage().observations);
    }
    assert_eq!(net.response().unwrap().bytes(), &body(400));
    assert_eq!(requested(&net).len(), 40);
    assert_eq!(most, 16);
}
