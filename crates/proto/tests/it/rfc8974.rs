//! Extended tokens over datagrams (RFC 8974).

use std::collections::BTreeSet;

use crate::net::wire::{ack, con, empty, non, reply, shapes, view};
use crate::net::{
    Faults, Net, as_non, config, get, millis, observing, pattern, put, seconds, server_address,
};
use carob_cc::controller::CopyTagging;
use carob_proto::codec::{Code, MessageView, OptionNumber, Type};
use carob_proto::endpoint::{Config, Failure, MESSAGE_BYTES, TOKEN_BYTES_MAX};
use proptest::prelude::*;

fn token_of(bytes: &[u8]) -> Vec<u8> {
    view(bytes).token().as_slice().to_vec()
}

/// Token lengths of messages.
fn lengths(messages: &[&[u8]]) -> Vec<usize> {
    messages.iter().map(|m| view(m).token().len()).collect()
}

fn token_bytes(limit: usize) -> Config {
    config(|config| config.limits.token_bytes = limit)
}

fn wanting(length: u16) -> Config {
    config(|config| config.token_length = length)
}

/// A client that uses tokens of this length, and a server that accepts them.
fn between(length: u16) -> Net {
    let mut net = Net::new(wanting(length), token_bytes(length.into()));
    net.app.resources.insert("x".into(), "state".into());
    net
}

/// A client without a server; the tests respond.
fn to_a_server_by_hand(length: u16) -> Net {
    let mut net = between(length);
    net.server_dead = true;
    net
}

fn reset(net: &mut Net, request: &[u8]) {
    net.inject_to_client(&empty(Type::Reset, view(request).message_id().0));
}

/// The client's last message.
fn last(net: &Net) -> Vec<u8> {
    net.sent_by_client()
        .last()
        .expect("it sent something")
        .to_vec()
}

#[test]
fn server_echoes_tokens_up_to_its_limit() {
    for length in [0, 1, 8, 9, 12, 13, 32, 63, 64] {
        for (delay, messages) in [(0, ["ACK 2.05", ""]), (8, ["ACK 0.00", "CON 2.05"])] {
            let mut net = Net::plain();
            net.app.resources.insert("x".into(), "state".into());
            net.app.delay = seconds(delay);
            let token = pattern(length);
            let request = con(Code::GET, 7).path("x").token(&token).bytes();
            net.inject_to_server(&request);
            net.inject_to_server(&request);
            net.run_for(seconds(9));
            let sent = net.sent_by_server();
            let answers: Vec<_> = sent.iter().filter(|m| m[1] != 0).collect();
            assert!(answers.iter().all(|m| token_of(m) == token), "{length}");
            let expected: BTreeSet<_> = messages.iter().filter(|m| !m.is_empty()).collect();
            assert_eq!(
                shapes(&sent).iter().collect::<BTreeSet<_>>().len(),
                expected.len()
            );
            assert_eq!(net.app.executed["x"], 1, "the second is a copy");
        }
        let mut net = Net::plain();
        let token = pattern(length);
        net.inject_to_server(&non(Code::GET, 8).path("y").token(&token).bytes());
        assert_eq!(shapes(&net.sent_by_server()), ["NON 4.04"]);
        assert_eq!(token_of(net.sent_by_server()[0]), token);
    }
}

#[test]
fn overlong_token_is_answered_4_00_and_never_rst() {
    for (limit, lengths) in [
        (64, vec![65, 268, 269, 270, 1_300, 60_000]),
        (8, vec![9]),
        (0, vec![9]),
        (usize::MAX, vec![TOKEN_BYTES_MAX + 1]),
    ] {
        for length in lengths {
            let mut net = Net::new(Config::default(), token_bytes(limit));
            net.app.resources.insert("x".into(), "state".into());
            let token = pattern(length);
            let head = con(Code::GET, 7).token(&token).bytes();
            let request = con(Code::GET, 7).path("x").token(&token).bytes();
            net.inject_to_server(&request);
            let sent = net.sent_by_server();
            assert_eq!(shapes(&sent), ["ACK 4.00"], "{limit} {length}");
            // Header and token only, so that the response is not longer than the request.
            assert_eq!(sent[0][4..], head[4..]);
            assert_eq!(view(sent[0]).message_id(), view(&request).message_id());
            let request = non(Code::GET, 8).path("x").token(&token).bytes();
            net.inject_to_server(&request);
            assert_eq!(shapes(&net.sent_by_server()), ["ACK 4.00", "NON 4.00"]);
            assert!(net.app.executed.is_empty());
            // Other requests are not affected.
            net.inject_to_server(&con(Code::GET, 9).path("x").token(&[1; 8]).bytes());
            assert_eq!(shapes(&net.sent_by_server())[2..], ["ACK 2.05"]);
        }
    }
}

#[test]
fn token_of_the_limits_length_is_accepted() {
    for limit in [9, 64, 300, TOKEN_BYTES_MAX] {
        let mut net = Net::new(Config::default(), token_bytes(limit));
        net.app.resources.insert("x".into(), pattern(5_000));
        let token = pattern(limit);
        net.inject_to_server(&con(Code::GET, 7).path("x").token(&token).bytes());
        let sent = net.sent_by_server();
        assert_eq!(shapes(&sent), ["ACK 2.05"]);
        assert_eq!(token_of(sent[0]), token);
        // The block is smaller by the token's length.
        assert!(sent[0].len() <= MESSAGE_BYTES, "{limit}: {}", sent[0].len());
        assert!(view(sent[0]).payload().len() >= 64);
    }
}

#[test]
fn overloaded_server_responds_with_the_extended_token() {
    let mut net = Net::new(
        Config::default(),
        config(|config| config.limits.incoming = 0),
    );
    for (length, code) in [(64, "ACK 5.03"), (65, "ACK 4.00")] {
        let token = pattern(length);
        net.inject_to_server(&con(Code::GET, length as u16).token(&token).bytes());
        let sent = net.sent_by_server();
        assert_eq!(shapes(&sent).last().unwrap(), code);
        assert_eq!(token_of(sent.last().unwrap()), token);
    }
}

#[test]
fn rate_limit_response_has_the_extended_token() {
    let mut config = Config::default();
    (config.limits.request_rate, config.limits.request_burst) = (1, 1);
    let mut net = Net::new(Config::default(), config);
    for id in 0..2 {
        net.inject_to_server(&con(Code::GET, id).token(&[3; 1_500]).bytes());
    }
    let sent = net.sent_by_server();
    assert_eq!(shapes(&sent), ["ACK 4.00", "ACK 4.29"]);
    assert_eq!(lengths(&sent), [1_500; 2]);
}

#[test]
fn reserved_token_length_is_a_format_error() {
    let mut net = Net::plain();
    let mut request = con(Code::GET, 7).token(&[]).path("x").bytes();
    request[0] |= 15;
    net.inject_to_server(&request);
    request[0] |= 0x10;
    net.inject_to_server(&request);
    assert_eq!(
        shapes(&net.sent_by_server()),
        ["RST 0.00"],
        "of a NON, nothing"
    );
}

#[test]
fn multicast_request_with_overlong_token_is_ignored() {
    let mut net = Net::plain();
    let request = non(Code::GET, 7).path("x").token(&[1; 65]).bytes();
    net.server
        .handle_group_datagram(net.now, crate::net::client_address(), &request);
    net.drain();
    net.run_for(seconds(10));
    assert!(net.sent_by_server().is_empty());
}

#[test]
fn observations_use_their_extended_tokens() {
    let mut net = Net::plain();
    net.observable("x", "0");
    // Tokens with a client's state, with a common prefix.
    let tokens = [
        b"a state of a client, number 1",
        b"a state of a client, number 2",
    ];
    for (id, token) in (1..).zip(tokens) {
        let request = con(Code::GET, id).token(token).option(6, &[]).path("x");
        net.inject_to_server(&request.bytes());
    }
    assert_eq!(net.server.usage().observers, 2);
    let before = net.sent_by_server().len();
    assert_eq!(net.change("x", "1", false), 2);
    let told = net.sent_by_server().split_off(before);
    let told: BTreeSet<_> = told.iter().map(|m| token_of(m)).collect();
    assert_eq!(told, tokens.iter().map(|t| t.to_vec()).collect());
    // One client registers again, another deregisters.
    for (id, observe) in [(3, &[][..]), (4, &[1])] {
        let request = con(Code::GET, id).token(tokens[id as usize - 3]);
        net.inject_to_server(&request.option(6, observe).path("x").bytes());
    }
    assert_eq!(net.server.usage().observers, 1);
    let before = net.sent_by_server().len();
    assert_eq!(net.change("x", "2", true), 1);
    let told = net.sent_by_server().split_off(before);
    assert_eq!(token_of(told[0]), tokens[0]);
    // The final notification.
    let gone = carob_proto::Response::new(Code::NOT_FOUND);
    let subject = net.app.observable["x"];
    net.inject_to_server(&empty(Type::Acknowledgement, view(told[0]).message_id().0));
    net.server.end_observations(net.now, subject, &gone, false);
    net.drain();
    assert_eq!(token_of(net.sent_by_server().last().unwrap()), tokens[0]);
    assert_eq!(net.server.usage().observers, 0);
}

#[test]
fn observation_tokens_are_limited_in_total_bytes() {
    let mut net = Net::new(
        Config::default(),
        config(|config| config.limits.observer_bytes = 300),
    );
    net.observable("x", "0");
    let register = |net: &mut Net, id: u16| {
        let token = [id as u8; 60];
        let request = con(Code::GET, id).token(&token).option(6, &[]).path("x");
        net.inject_to_server(&request.bytes());
        let sent = net.sent_by_server();
        view(sent.last().unwrap())
            .option(OptionNumber::OBSERVE)
            .is_some()
    };
    let taken = (1..20).take_while(|&id| register(&mut net, id)).count();
    assert_eq!(taken, 4, "in addition to the shared key");
    // Released bytes can be used again.
    let request = con(Code::GET, 99).token(&[1; 60]).option(6, &[1]).path("x");
    net.inject_to_server(&request.bytes());
    assert!(register(&mut net, 30));
    assert!(!register(&mut net, 31));
}

#[test]
fn notification_fits_with_the_longest_token() {
    let mut net = Net::new(Config::default(), token_bytes(TOKEN_BYTES_MAX));
    net.observable("x", "0");
    net.inject_to_server(
        &con(Code::GET, 1)
            .token(&[1])
            .option(6, &[])
            .path("x")
            .bytes(),
    );
    net.app.resources.insert("x".into(), pattern(900));
    net.change("x", pattern(900), false);
    let token = [2; TOKEN_BYTES_MAX];
    net.inject_to_server(
        &con(Code::GET, 2)
            .token(&token)
            .option(6, &[])
            .path("x")
            .bytes(),
    );
    net.change("x", pattern(901), false);
    let sent = net.sent_by_server();
    assert!(sent.iter().all(|m| m.len() <= MESSAGE_BYTES));
    let mut told = lengths(&sent[sent.len() - 2..]);
    told.sort_unstable();
    assert_eq!(told, [1, TOKEN_BYTES_MAX]);
    assert_eq!(net.server.usage().observers, 2);
}

#[test]
fn confirmable_trial_enables_extended_tokens() {
    for length in [9, 12, 13, 64, 300, TOKEN_BYTES_MAX as u16] {
        let mut net = between(length);
        let long = usize::from(length);
        // A NON is no trial: its loss would not be noticed.
        net.send_with(get("x"), as_non());
        net.run_for(seconds(100));
        net.send_for(get("x"), seconds(100));
        net.send_with(get("x"), as_non());
        net.run_for(seconds(100));
        assert_eq!(lengths(&net.sent_by_client()), [8, long, long]);
        assert_eq!(net.responses().len(), 3);
        assert_eq!(net.client.usage().token_peers, 1);
    }
}

#[test]
fn rst_denies_support_and_request_repeats_with_short_token() {
    let mut net = to_a_server_by_hand(32);
    net.send(put("x", pattern(10)));
    let first = last(&net);
    assert_eq!(view(&first).token().len(), 32);
    reset(&mut net, &first);
    let second = last(&net);
    let (one, other) = (view(&first), view(&second));
    assert_eq!(other.token().len(), 8);
    assert_ne!(one.message_id(), other.message_id());
    assert_ne!(other.token().as_slice(), &one.token().as_slice()[..8]);
    assert_eq!((one.code(), one.payload()), (other.code(), other.payload()));
    assert!(one.options().eq(other.options()));
    net.inject_to_client(&reply(Code::CHANGED, &second).bytes());
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    // The result is remembered for CON and NON; the next trial is after half an hour.
    net.send(get("x"));
    let third = last(&net);
    assert_eq!(view(&third).token().len(), 8);
    net.inject_to_client(&reply(Code::CONTENT, &third).bytes());
    net.run_for(seconds(1_799));
    net.send(get("x"));
    let third = last(&net);
    assert_eq!(view(&third).token().len(), 8);
    net.inject_to_client(&reply(Code::CONTENT, &third).bytes());
    net.run_for(seconds(2));
    net.send(get("x"));
    assert_eq!(view(&last(&net)).token().len(), 32);
    assert_eq!(net.failure(), None);
}

#[test]
fn positive_token_support_expires() {
    let mut net = between(32);
    net.send_for(get("x"), seconds(1_801));
    net.send_with(get("x"), as_non());
    net.run_for(seconds(100));
    assert_eq!(lengths(&net.sent_by_client()), [32, 8]);
}

#[test]
fn rst_to_short_token_rejects_the_request() {
    let mut net = to_a_server_by_hand(32);
    net.send(get("x"));
    for _ in 0..2 {
        let sent = last(&net);
        reset(&mut net, &sent);
    }
    assert_eq!(net.failure(), Some(Failure::Reset));
    assert_eq!(lengths(&net.sent_by_client()), [32, 8]);
    assert!(net.client.is_idle());
}

#[test]
fn reset_after_an_ack_does_not_deny_token_support() {
    let mut net = to_a_server_by_hand(32);
    net.send(get("x"));
    let sent = last(&net);
    net.inject_to_client(&empty(Type::Acknowledgement, view(&sent).message_id().0));
    reset(&mut net, &sent);
    assert_eq!(net.failure(), Some(Failure::Reset));
    assert_eq!(net.sent_by_client().len(), 1);
}

#[test]
fn retransmitted_trial_is_the_trial_and_late_rst_is_ignored() {
    let mut net = to_a_server_by_hand(32);
    net.send_for(get("x"), seconds(4));
    let sent = net.sent_by_client();
    assert_eq!((sent.len(), sent[0] == sent[1]), (2, true));
    let trial = sent[0].to_vec();
    reset(&mut net, &trial);
    let short = last(&net);
    // A Reset for the other transmission.
    reset(&mut net, &trial);
    assert_eq!((net.failure(), last(&net)), (None, short.clone()));
    net.inject_to_client(&reply(Code::CONTENT, &short).bytes());
    assert!(net.response().is_some());
}

#[test]
fn dropped_trial_is_repeated_with_a_short_token() {
    let mut net = between(32);
    net.drop_if = Some(|from_client, bytes| from_client && view(bytes).token().len() > 8);
    net.send_for(get("x"), seconds(20));
    assert_eq!(lengths(&net.sent_by_client()), [32, 32, 8]);
    assert!(net.response().is_some());
    net.send(get("x"));
    assert_eq!(view(&last(&net)).token().len(), 8);
    // A silent server.
    let mut net = to_a_server_by_hand(32);
    net.send_for(get("x"), seconds(300));
    assert!(matches!(net.failure(), Some(Failure::TimedOut { .. })));
    assert_eq!(lengths(&net.sent_by_client()), [32, 32, 8, 8, 8, 8, 8]);
    assert!(net.client.is_idle());
    // With known support, a loss is a loss.
    let mut net = between(32);
    net.send_for(get("x"), seconds(1));
    net.server_dead = true;
    net.send_for(get("x"), seconds(300));
    assert_eq!(lengths(&net.sent_by_client()), [32; 6]);
}

#[test]
fn non_idempotent_request_is_no_trial() {
    let mut net = between(32);
    let post = || crate::net::post("x", pattern(10));
    net.send(post());
    net.run_for(seconds(1));
    net.send_for(get("x"), seconds(1));
    net.send(post());
    net.run_for(seconds(1));
    assert_eq!(lengths(&net.sent_by_client()), [8, 32, 32]);
}

#[test]
fn upload_resumes_at_block_rejected_for_its_token() {
    let mut net = to_a_server_by_hand(32);
    net.send(put("x", pattern(1_500)));
    let trial = last(&net);
    reset(&mut net, &trial);
    let block = last(&net);
    assert_eq!(view(&block).payload(), view(&trial).payload());
    assert_eq!(view(&block).option(OptionNumber::BLOCK1), Some(&[0x0e][..]));
    // The server responds to the rest.
    net.server_dead = false;
    net.inject_to_server(&block);
    net.run_for(seconds(10));
    assert_eq!(net.app.resources["x"], pattern(1_500));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
}

#[test]
fn rejected_registration_repeats_and_keeps_short_token() {
    let mut net = to_a_server_by_hand(32);
    let id = net.send_with(get("x"), observing());
    let trial = last(&net);
    assert_eq!(view(&trial).token().len(), 32);
    reset(&mut net, &trial);
    net.server_dead = false;
    net.observable("x", "0");
    let short = last(&net);
    assert_eq!(view(&short).option(OptionNumber::OBSERVE), Some(&[][..]));
    net.inject_to_server(&short);
    net.run_for(millis(100));
    net.change("x", "1", true);
    net.run_for(millis(100));
    assert_eq!(net.states(), ["0", "1"]);
    let notified = net.sent_by_server().last().unwrap().to_vec();
    assert_eq!(token_of(&notified), token_of(&short));
    assert!(net.client.stop_observing(net.now, id));
    net.drain();
    net.run_for(seconds(10));
    assert_eq!(
        (net.server.usage().observers, net.client.is_idle()),
        (0, true)
    );
}

#[test]
fn observation_is_renewed_with_its_extended_token() {
    let mut net = between(64);
    net.observable("x", "0");
    net.app.max_ages.insert("x".into(), 5);
    let id = net.send_with(get("x"), observing());
    net.run_for(seconds(1));
    for state in ["1", "2"] {
        net.change("x", state, true);
        net.run_for(millis(500));
    }
    // After Max-Age, the client registers again with the same token.
    net.run_for(seconds(60));
    let sent = net.sent_by_client();
    let registers = |m: &&&[u8]| view(m).option(OptionNumber::OBSERVE) == Some(&[]);
    let tokens: Vec<_> = sent.iter().filter(registers).map(|m| token_of(m)).collect();
    assert!(tokens.len() > 1 && tokens.iter().all(|t| *t == tokens[0] && t.len() == 64));
    assert_eq!(net.states()[..3], ["0", "1", "2"]);
    assert!(net.client.stop_observing(net.now, id));
    net.drain();
    net.run_for(seconds(10));
    assert_eq!(
        (net.server.usage().observers, net.client.is_idle()),
        (0, true)
    );
}

#[test]
fn all_bytes_of_long_token_are_random_and_compared() {
    let mut net = between(64);
    let mut tokens = BTreeSet::new();
    for _ in 0..50 {
        net.send_for(get("x"), seconds(1));
        let token = token_of(&last(&net));
        assert!(token.chunks(4).all(|part| part != [0; 4]));
        tokens.extend(token.chunks(8).map(<[u8]>::to_vec));
    }
    assert_eq!(tokens.len(), 50 * 8, "no eight bytes are the same");
    net.server_dead = true;
    net.send(get("x"));
    let sent = last(&net);
    let (id, right) = (view(&sent).message_id().0, token_of(&sent));
    let responses = net.responses().len();
    for wrong in [&right[..63], &right[..8], &[&right[..], &[0]].concat()] {
        net.inject_to_client(&ack(Code::CONTENT, id).token(wrong).bytes());
        assert_eq!(net.responses().len(), responses);
    }
    for at in [0, 7, 8, 63] {
        let mut wrong = right.clone();
        wrong[at] ^= 1;
        net.inject_to_client(&ack(Code::CONTENT, id).token(&wrong).bytes());
        assert_eq!(net.responses().len(), responses, "byte {at}");
    }
    net.inject_to_client(&ack(Code::CONTENT, id).token(&right).bytes());
    assert_eq!(net.responses().len(), responses + 1);
}

#[test]
fn unmatched_extended_token_response_is_rejected() {
    let mut net = Net::plain();
    net.send(get("x"));
    net.inject_to_client(&con(Code::CONTENT, 9).token(&[1; 200]).bytes());
    assert_eq!(shapes(&net.sent_by_client()), ["CON 0.01", "RST 0.00"]);
}

#[test]
fn counting_tokens_stay_short() {
    let (mut config, _) = crate::net::counting::counting(CopyTagging::Token, seconds(2), 1);
    config.token_length = 64;
    let mut net = Net::new(config, Config::default());
    net.app.resources.insert("x".into(), "state".into());
    net.send_for(get("x"), seconds(1));
    assert_eq!(lengths(&net.sent_by_client()), [8]);
}

#[test]
fn icmp_quote_of_long_token_request_is_matched() {
    let mut net = to_a_server_by_hand(64);
    net.send(get("x"));
    let sent = last(&net);
    assert!(net.client.is_under_way(server_address(), &sent));
    assert!(
        net.client
            .is_under_way(server_address(), &sent[..4 + 1 + 64])
    );
    assert!(
        !net.client
            .is_under_way(server_address(), &sent[..4 + 1 + 63])
    );
    let mut other = sent.clone();
    other[60] ^= 1;
    assert!(!net.client.is_under_way(server_address(), &other));
}

#[test]
fn short_tokens_need_no_further_random_draws() {
    // The simulator's traces depend on the number of random draws.
    let tokens = |length| {
        let mut net = between(length);
        net.send_for(get("x"), seconds(1));
        net.send_for(get("x"), seconds(1));
        net.sent_by_client()
            .iter()
            .map(|m| token_of(m))
            .collect::<Vec<_>>()
    };
    assert_eq!(tokens(8)[1][..4], tokens(4)[1][..4]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Transfers in both directions, for any token length, message size and network.
    #[test]
    fn bodies_arrive_with_tokens_of_any_length(
        length in prop_oneof![0..=14_u16, Just(64), 260..=275_u16, Just(TOKEN_BYTES_MAX as u16), any::<u16>()],
        size in prop_oneof![0..40_usize, 900..1_300_usize, 4_000..9_000_usize],
        seed in any::<u64>(),
    ) {
        let mut client = wanting(length);
        // With five transmissions, one of a thousand bodies would legitimately fail. Ten transmissions avoid that, and end
        // before the server drops incomplete bodies.
        client.parameters.ack_timeout = millis(200);
        client.parameters.max_retransmit = 9;
        let server = token_bytes(TOKEN_BYTES_MAX);
        let mut net = Net::new(client, server).seeded(seed);
        net.faults = Faults { loss: 10, duplication: 20, jitter: millis(30) };
        net.send(put("x", pattern(size)));
        net.run_for(seconds(2_000));
        prop_assert_eq!(net.response().map(|r| r.code), Some(Code::CHANGED));
        net.send_for(get("x"), seconds(2_000));
        prop_assert_eq!(net.responses().len(), 2);
        prop_assert_eq!(net.responses()[1].bytes(), &pattern(size));
        prop_assert!(net.client.is_idle() && net.server.is_idle());
        for crossing in &net.crossings {
            prop_assert!(crossing.bytes.len() <= MESSAGE_BYTES);
            prop_assert!(MessageView::parse(&crossing.bytes).is_ok());
        }
        if length > 8 {
            let sent = net.sent_by_client();
            let longest = lengths(&sent).into_iter().max();
            prop_assert_eq!(longest, Some(usize::from(length).min(TOKEN_BYTES_MAX)));
        }
    }
}

#[test]
fn last_block_reply_is_stored_for_duplicates_at_any_token() {
    let mut net = Net::new(Config::default(), token_bytes(300));
    for (number, more) in [(0, true), (1, false)] {
        let block = con(Code::PUT, number as u16).token(&[5; 300]).path("x");
        let block = block.block(OptionNumber::BLOCK1, (number, more, 512));
        let block = block.payload(&pattern(512)).bytes();
        net.inject_to_server(&block);
        net.inject_to_server(&block);
    }
    let expected = ["ACK 2.31", "ACK 2.31", "ACK 2.04", "ACK 2.04"];
    assert_eq!(shapes(&net.sent_by_server()), expected);
}
