//! Q-Block1 (RFC 9177 4.3).

use crate::net::wire::{non, view};
use carob_proto::codec::{Code, OptionNumber, Type};
use carob_proto::endpoint::QBlockMode::{Auto, On};

use super::{blocks, body, codes, config, net, reports, sending, upload};
use crate::net::{Faults, Net, millis, seconds, server_address};

#[test]
fn non_body_of_one_set_has_one_response() {
    let mut net = net();
    net.send_with(upload("x", 4), sending(On, false));
    net.run_for(seconds(1));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    assert_eq!(net.app.resources["x"], body(4));
    let sent = blocks(&net.sent_by_client(), OptionNumber::Q_BLOCK1);
    let non = Type::NonConfirmable;
    let expected = [
        (non, 0, true, 64),
        (non, 1, true, 64),
        (non, 2, true, 64),
        (non, 3, false, 54),
    ];
    assert_eq!(sent, expected);
    assert_eq!(codes(&net.sent_by_server()), ["2.04"]);
}

#[test]
fn complete_sets_get_2_31() {
    let mut net = net();
    net.send_with(upload("x", 35), sending(On, false));
    net.run_for(seconds(1));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    assert_eq!(net.app.resources["x"], body(35));
    assert_eq!(
        codes(&net.sent_by_server()),
        ["2.31", "2.31", "2.31", "2.04"]
    );
    assert_eq!(net.sent_by_client().len(), 35);
    assert_eq!(net.server.usage().uploads, (0, 0));
}

#[test]
fn every_block_has_request_tag_and_size() {
    let mut net = net();
    net.send_with(upload("x", 12), sending(On, false));
    net.send_with(upload("x", 3), sending(On, false));
    net.run_for(seconds(1));
    let of = |bytes: &[u8]| {
        let view = view(bytes);
        let tag = view.uint_option(OptionNumber::REQUEST_TAG).unwrap();
        (tag, view.uint_option(OptionNumber::SIZE1).unwrap())
    };
    let mut seen: Vec<_> = net.sent_by_client().iter().map(|bytes| of(bytes)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 2, "one pair for each body");
    assert_ne!(seen[0].0, seen[1].0);
    assert_eq!(net.responses().len(), 2);
}

#[test]
fn confirmable_blocks_are_acknowledged_one_by_one() {
    let mut net = Net::new(config("carob"), config("default"));
    net.send_with(upload("x", 35), sending(On, true));
    net.run_for(seconds(3));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    assert_eq!(net.app.resources["x"], body(35));
    let sent = blocks(&net.sent_by_client(), OptionNumber::Q_BLOCK1);
    assert!(sent.iter().all(|block| block.0 == Type::Confirmable));
    assert_eq!(sent.len(), 35);
    let answers = codes(&net.sent_by_server());
    assert_eq!(answers.iter().filter(|code| *code == "0.00").count(), 34);
    assert!(
        net.client_times().last().unwrap().as_millis() < 300,
        "several in flight"
    );
}

#[test]
fn a_server_without_q_block_gets_block1() {
    let mut server = config("default");
    server.q_block.accept = false;
    let mut net = Net::new(config("default"), server);
    net.send_with(upload("x", 15), sending(Auto, false));
    net.run_for(seconds(3));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    assert_eq!(net.app.resources["x"], body(15));
    let tried = blocks(&net.sent_by_client(), OptionNumber::Q_BLOCK1);
    assert_eq!(
        tried,
        [(Type::Confirmable, 0, true, 64)],
        "the discovery is confirmable"
    );
    // The result is remembered.
    net.send_with(upload("y", 15), sending(Auto, false));
    net.run_for(seconds(3));
    assert_eq!(net.app.resources["y"], body(15));
    assert_eq!(
        blocks(&net.sent_by_client(), OptionNumber::Q_BLOCK1).len(),
        1
    );
}

#[test]
fn server_that_lost_q_block_support_gets_block1() {
    let mut net = net();
    net.send_with(upload("x", 15), sending(Auto, false));
    net.run_for(seconds(3));
    let tried = net.sent_by_client().len();
    net.send_with(upload("y", 15), sending(Auto, false));
    // The response to a block of the second body.
    let block = net.sent_by_client()[tried].to_vec();
    let view = view(&block);
    assert_eq!(view.kind(), Type::NonConfirmable);
    let rejection = non(Code::BAD_OPTION, 0x7777).token_of(&block);
    net.inject_to_client(&rejection.bytes());
    let in_flight = net.client.snapshot(net.now, server_address()).unwrap();
    assert_eq!(in_flight.outstanding, 1, "the first block of Block1");
    net.run_for(seconds(10));
    assert_eq!(net.app.resources["y"], body(15));
    assert_eq!(net.client.counters().q_block.fallbacks, 1);
    assert!(!blocks(&net.sent_by_client(), OptionNumber::BLOCK1).is_empty());
}

#[test]
fn support_is_remembered_after_the_first_body() {
    let mut net = net();
    net.send_with(upload("x", 15), sending(Auto, false));
    net.run_for(seconds(3));
    let first = blocks(&net.sent_by_client(), OptionNumber::Q_BLOCK1);
    assert!(first.iter().all(|block| block.0 == Type::Confirmable));
    net.send_with(upload("x", 15), sending(Auto, false));
    net.run_for(seconds(3));
    assert_eq!(net.responses().len(), 2);
    let all = blocks(&net.sent_by_client(), OptionNumber::Q_BLOCK1);
    assert!(
        all[first.len()..]
            .iter()
            .all(|block| block.0 == Type::NonConfirmable)
    );
}

#[test]
fn missing_blocks_are_reported_and_retransmitted() {
    let mut net = net();
    net.drop_if = Some(|from_client, bytes| {
        let view = view(bytes);
        // The first transmissions of blocks 1 and 9.
        let lost = |value: &[u8]| [&[0x1a][..], &[0x9a]].contains(&value);
        let of_lost = view.option(OptionNumber::Q_BLOCK1).is_some_and(lost);
        from_client && of_lost && FIRST.with(|first| first.take(bytes))
    });
    net.send_with(upload("x", 13), sending(On, false));
    net.run_for(seconds(30));
    assert_eq!(net.app.resources["x"], body(13));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    assert_eq!(reports(&net.sent_by_server())[0], [1, 9]);
}

thread_local! {
    static FIRST: Once = Once::default();
}

/// Payloads that were dropped once.
#[derive(Default)]
struct Once(std::cell::RefCell<Vec<Vec<u8>>>);

impl Once {
    fn take(&self, bytes: &[u8]) -> bool {
        let payload = view(bytes).payload().to_vec();
        let mut dropped = self.0.borrow_mut();
        let first = !dropped.contains(&payload);
        if first {
            dropped.push(payload);
        }
        first
    }
}

#[test]
fn bodies_arrive_once_over_bad_networks() {
    for controller in ["default", "carob", "cocoa-plus", "fasor-token"] {
        for confirmable in [false, true] {
            for seed in 0..12 {
                let mut net = Net::new(config(controller), config("default")).seeded(seed);
                net.faults = Faults {
                    loss: if confirmable { 8 } else { 15 },
                    duplication: 5,
                    jitter: millis(8),
                };
                net.send_with(upload("x", 60), sending(On, confirmable));
                net.run_for(seconds(300));
                let response = net.response().map(|response| response.code);
                assert_eq!(
                    response,
                    Some(Code::CHANGED),
                    "{controller} {confirmable} {seed}"
                );
                assert_eq!(net.app.resources["x"], body(60));
                assert_eq!(
                    net.app.executed["x"], 1,
                    "{controller} {confirmable} {seed}"
                );
            }
        }
    }
}
