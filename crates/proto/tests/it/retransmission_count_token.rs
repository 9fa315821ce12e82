//! Transmission counts in tokens (draft-ietf-core-fasor-02 4.5), which need no support by the server.

use std::collections::BTreeSet;

use crate::net::counting::{Log, between, counting};
use crate::net::wire::{ack, con, empty, shapes, view};
use crate::net::{
    Net, as_non, get, millis, observing, pattern, seconds, sending_with, server_address,
};
use carob_cc::controller::CopyTagging;
use carob_cc::evidence::{Answer, Matched};
use carob_proto::codec::{Code, OptionNumber, Type};
use carob_proto::endpoint::Config;

/// A client with timeouts of 2, 4, 8, 16 and 32 s and a window of `window` requests.
fn counted(window: u16) -> (Net, Log) {
    let (config, log) = counting(CopyTagging::Token, seconds(2), window);
    let mut net = Net::new(config, Config::default());
    net.app.resources.insert("x".into(), "state".into());
    (net, log)
}

fn without_server(window: u16) -> (Net, Log) {
    let (mut net, log) = counted(window);
    net.server_dead = true;
    (net, log)
}

fn tokens(net: &Net) -> Vec<Vec<u8>> {
    let sent = net.sent_by_client();
    let token = |bytes: &&[u8]| view(bytes).token().as_slice().to_vec();
    sent.iter().map(token).collect()
}

/// A token with its last byte replaced.
fn of_copy(token: &[u8], copy: u8) -> Vec<u8> {
    let mut token = token.to_vec();
    *token.last_mut().unwrap() = copy;
    token
}

/// Responds to the client's last message with the token of this transmission.
fn reply(net: &mut Net, copy: u8) {
    let request = net.sent_by_client().last().unwrap().to_vec();
    let token = of_copy(view(&request).token().as_slice(), copy);
    let id = view(&request).message_id().0;
    net.inject_to_client(&ack(Code::CONTENT, id).token(&token).bytes());
}

fn separate(net: &mut Net, token: &[u8], id: u16) {
    net.inject_to_client(&con(Code::CONTENT, id).token(token).bytes());
}

#[test]
fn last_byte_of_the_token_is_the_transmission_number() {
    for (length, expected) in [(0, 2), (1, 2), (2, 2), (3, 3), (8, 8), (200, 8)] {
        let (mut config, _) = counting(CopyTagging::Token, seconds(2), 4);
        config.token_length = length;
        let mut net = Net::new(config, Config::default());
        net.server_dead = true;
        net.send_for(get("x"), seconds(100));
        let tokens = tokens(&net);
        assert_eq!(tokens[0].len(), expected);
        let copies: Vec<_> = (0..5).map(|copy| of_copy(&tokens[0], copy)).collect();
        assert_eq!(tokens, copies);
        let sent = net.sent_by_client();
        assert!(sent.iter().all(|bytes| view(bytes).options().count() == 1));
        let id = view(sent[0]).message_id();
        assert!(sent.iter().all(|bytes| view(bytes).message_id() == id));
    }
}

#[test]
fn reply_to_any_copy_is_accepted_and_matched_if_certain() {
    for (copy, expected) in [
        (0, between(0, 2)),
        (1, between(1, 2)),
        (2, Matched::Exact(2)),
    ] {
        let (mut net, log) = without_server(4);
        net.send_for(get("x"), seconds(7));
        reply(&mut net, copy);
        assert_eq!(log.matches(), [expected]);
        assert_eq!(net.responses().len(), 1);
        assert!(net.client.is_idle());
    }
}

#[test]
fn early_response_belongs_to_the_named_transmission() {
    let (mut net, log) = without_server(4);
    net.send_for(get("x"), millis(100));
    reply(&mut net, 0);
    for (after, copy, expected) in [
        (2_099, 0, Matched::Exact(0)),
        (2_100, 0, between(0, 1)),
        (6_099, 0, between(0, 1)),
        (6_099, 1, Matched::Exact(1)),
    ] {
        net.send_for(get("x"), millis(after));
        reply(&mut net, copy);
        assert_eq!(log.last(), expected, "{copy} after {after} ms");
    }
}

#[test]
fn token_of_unsent_transmission_matches_nothing() {
    let (mut net, log) = without_server(4);
    net.send_for(get("x"), seconds(3));
    let request = net.sent_by_client()[0].to_vec();
    let id = view(&request).message_id().0;
    for copy in [2, 3, 255] {
        let token = of_copy(view(&request).token().as_slice(), copy);
        net.inject_to_client(&ack(Code::CONTENT, id).token(&token).bytes());
        separate(&mut net, &token, u16::from(copy));
    }
    assert!(log.matches().is_empty() && net.responses().is_empty());
    let sent = net.sent_by_client();
    let refused = shapes(&sent[sent.len() - 3..]);
    assert_eq!(refused, vec!["RST 0.00"; 3]);
    // The request keeps waiting for a valid response.
    net.send(get("y"));
    reply(&mut net, 0);
    assert_eq!(log.matches(), [Matched::Exact(0)]);
}

#[test]
fn impossible_late_responses_are_no_evidence() {
    let (mut net, log) = without_server(4);
    for _ in 0..2 {
        net.send_for(get("x"), millis(2_500));
        let request = net.sent_by_client().last().unwrap().to_vec();
        let id = view(&request).message_id().0;
        reply(&mut net, 0);
        reply(&mut net, 200);
        let other = [&[!request[4]][..], &request[5..11], &[1]].concat();
        net.inject_to_client(&ack(Code::CONTENT, id).token(&other).bytes());
    }
    assert_eq!(log.matches(), vec![between(0, 1); 2]);
    // A valid one is evidence.
    reply(&mut net, 1);
    net.send_for(get("x"), millis(2_500));
    reply(&mut net, 0);
    assert_eq!(log.last(), Matched::Exact(0));
}

#[test]
fn tokens_of_concurrent_transmissions_are_unique() {
    for length in [0, 1, 2, 3, 8] {
        let (mut config, log) = counting(CopyTagging::Token, seconds(2), 300);
        config.token_length = length;
        let mut net = Net::new(config, Config::default());
        net.server_dead = true;
        for n in 0..300 {
            net.send_with(
                get("x"),
                sending_with(|sending| sending.observe = n % 10 == 0),
            );
        }
        net.run_for(seconds(7));
        let first = net.sent_by_client().len() / 3;
        assert_eq!(first, 300);
        let ids = |bytes: &&[u8]| {
            (
                view(bytes).token().as_slice().to_vec(),
                view(bytes).message_id(),
            )
        };
        let all: BTreeSet<_> = net.sent_by_client().iter().map(ids).collect();
        let tokens: BTreeSet<_> = all.iter().map(|(token, _)| token.clone()).collect();
        assert_eq!(
            tokens.len(),
            30 + 270 * 3,
            "{length}: registrations keep theirs"
        );
        assert_eq!(all.len(), tokens.len(), "{length}: a token was used twice");
        // Each request is found by the token of any transmission; all tokens are released together.
        let sent: Vec<_> = net.sent_by_client().iter().map(|b| b.to_vec()).collect();
        for n in 0..300 {
            let copy = &sent[n % 3 * 300 + n];
            let id = view(copy).message_id().0;
            net.inject_to_client(&ack(Code::CONTENT, id).token_of(copy).bytes());
        }
        assert_eq!(log.matches().len(), 300, "{length}");
        assert!(net.client.is_idle(), "{length}");
    }
}

#[test]
fn separate_response_token_resolves_the_copy() {
    let (mut net, log) = counted(4);
    // The first transmission is lost.
    net.drop_if =
        Some(|from_client, bytes| from_client && view(bytes).token().as_slice().ends_with(&[0]));
    net.app.delay = seconds(1);
    net.send_for(get("x"), seconds(10));
    let heard: Vec<_> = log
        .heard()
        .iter()
        .map(|heard| (heard.first, heard.answer, heard.matched))
        .collect();
    let expected = [
        (true, Answer::Empty, between(0, 1)),
        (false, Answer::Separate, Matched::Exact(1)),
    ];
    assert_eq!(heard, expected);
    assert_eq!(net.responses().len(), 1);
}

#[test]
fn separate_response_may_be_a_replay() {
    // Californium 3.14 answers a duplicate with the separate response to the first transmission. Transmissions are at 0
    // and 2 s.
    let (mut net, log) = without_server(4);
    net.send_for(get("x"), millis(100));
    reply(&mut net, 0);
    net.send_for(get("x"), millis(2_200));
    let request = net.sent_by_client().last().unwrap().to_vec();
    let token = of_copy(view(&request).token().as_slice(), 0);
    let id = view(&request).message_id().0;
    net.inject_to_client(&empty(Type::Acknowledgement, id));
    separate(&mut net, &token, 99);
    assert_eq!(log.last(), between(0, 1));
    // Also without an ACK.
    net.send_for(get("x"), millis(2_200));
    let token = of_copy(&tokens(&net).pop().unwrap(), 0);
    separate(&mut net, &token, 100);
    assert_eq!(log.last(), between(0, 1));
    assert_eq!(net.responses().len(), 3);
}

#[test]
fn registration_and_notifications_keep_the_token() {
    let (mut net, log) = without_server(4);
    net.observable("x", "0");
    let id = net.send_with(get("x"), observing());
    net.run_for(seconds(3));
    net.server_dead = false;
    net.run_for(seconds(30));
    net.change("x", "1", true);
    net.run_for(seconds(1));
    net.app.resources.insert("x".into(), pattern(3_000));
    net.change("x", pattern(3_000), true);
    net.run_for(seconds(1));
    assert_eq!(net.states().len(), 3);
    assert_eq!(log.matches()[0], between(0, 2), "as without");
    assert!(net.client.stop_observing(net.now, id));
    net.run_for(seconds(10));
    let sent = net.sent_by_client();
    let registers = |bytes: &&&[u8]| view(bytes).option(OptionNumber::OBSERVE).is_some();
    let token = |bytes: &&[u8]| view(bytes).token().as_slice().to_vec();
    let registrations: BTreeSet<_> = sent.iter().filter(registers).map(token).collect();
    assert_eq!(registrations.len(), 1);
    // Requests for the further blocks of a notification are ordinary requests.
    let blocks = |bytes: &&&[u8]| view(bytes).option(OptionNumber::BLOCK2).is_some();
    let blocks: Vec<_> = sent.iter().filter(blocks).map(token).collect();
    assert!(!blocks.is_empty());
    assert!(blocks.iter().all(|token| token.ends_with(&[0])));
    assert!(net.client.is_idle());
}

#[test]
fn icmp_quote_matches_token_of_any_transmission() {
    let (mut net, _) = without_server(4);
    net.send_for(get("x"), seconds(3));
    let sent: Vec<_> = net.sent_by_client().iter().map(|b| b.to_vec()).collect();
    for copy in &sent {
        assert!(net.client.is_under_way(server_address(), copy));
    }
    let mut other = sent[0].clone();
    other[4] ^= 1;
    assert!(!net.client.is_under_way(server_address(), &other));
    let mut later = sent[0].clone();
    later[11] = 2;
    assert!(
        !net.client.is_under_way(server_address(), &later),
        "never sent"
    );
    assert!(!net.client.is_under_way(server_address(), &sent[0][..8]));
}

#[test]
fn a_non_request_counts_as_an_original() {
    let (mut net, log) = counted(4);
    net.send_with(get("x"), as_non());
    net.run_for(seconds(1));
    assert!(tokens(&net)[0].ends_with(&[0]));
    assert_eq!(log.matches(), [Matched::Exact(0)]);
    assert_eq!(net.responses().len(), 1);
}
