//! The server side of the retransmission count: each response echoes the count of its request
//! (draft-ietf-core-fasor-02 4.4, 4.5).

use crate::net::wire::{Wire, con, non, view};
use crate::net::{Net, config, pattern, seconds};
use bytes::Bytes;
use carob_proto::Response;
use carob_proto::codec::{Code, ContentFormat, OptionNumber, TokenView, Type};
use carob_proto::endpoint::{Config, Event, MESSAGE_BYTES, RETRANSMISSION_COUNT};

const COUNT: u16 = RETRANSMISSION_COUNT.0;

/// Counts in the server's messages.
fn echoes(net: &Net) -> Vec<Option<Vec<u8>>> {
    let sent = net.sent_by_server();
    let echo = |bytes: &&[u8]| view(bytes).option(RETRANSMISSION_COUNT).map(<[u8]>::to_vec);
    sent.iter().map(echo).collect()
}

fn last(net: &Net) -> Vec<u8> {
    net.sent_by_server().last().unwrap().to_vec()
}

fn served(path: &str, body: Bytes) -> Net {
    let mut net = Net::plain();
    net.app.resources.insert(path.into(), body);
    net
}

fn asking(id: u16, count: Option<&[u8]>) -> Vec<u8> {
    with_count(con(Code::GET, id).path("x"), count)
}

fn with_count(request: Wire, count: Option<&[u8]>) -> Vec<u8> {
    match count {
        Some(value) => request.option(COUNT, value).bytes(),
        None => request.bytes(),
    }
}

#[test]
fn piggybacked_response_echoes_the_count_unchanged() {
    let values: [Option<&[u8]>; 6] = [
        None,
        Some(&[]),
        Some(&[0]),
        Some(&[1]),
        Some(&[254]),
        Some(&[255]),
    ];
    let mut net = served("x", Bytes::from_static(b"state"));
    for (id, value) in (1..).zip(values) {
        net.inject_to_server(&asking(id, value));
        assert_eq!(
            echoes(&net).pop().unwrap().as_deref(),
            value,
            "unmodified, and only where it was sent"
        );
        assert_eq!(view(&last(&net)).payload(), b"state");
    }
}

#[test]
fn reply_to_duplicate_has_the_duplicates_count() {
    // Idempotent and non-idempotent requests are in separate tables.
    for method in [Code::GET, Code::POST] {
        let mut net = served("x", Bytes::from_static(b"state"));
        let copies: [Option<&[u8]>; 6] = [
            Some(&[]),
            Some(&[1]),
            Some(&[255]),
            None,
            Some(&[2]),
            Some(&[]),
        ];
        for count in copies {
            net.inject_to_server(&with_count(con(method, 7).path("x"), count));
        }
        let expected: Vec<_> = copies.iter().map(|c| c.map(<[u8]>::to_vec)).collect();
        assert_eq!(echoes(&net), expected, "{method}");
        assert_eq!(net.app.executed["x"], 1, "{method}");
        let sent = net.sent_by_server();
        let rest = |bytes: &&[u8]| (view(bytes).code(), view(bytes).payload().to_vec());
        assert!(sent.iter().all(|bytes| rest(bytes) == rest(&sent[0])));
    }
}

#[test]
fn first_arrival_may_be_a_retransmission() {
    let mut net = served("x", Bytes::from_static(b"state"));
    net.inject_to_server(&asking(7, Some(&[1])));
    net.inject_to_server(&asking(7, Some(&[])));
    assert_eq!(echoes(&net), [Some(vec![1]), Some(vec![])]);
}

#[test]
fn a_separate_response_carries_no_count() {
    let mut net = served("x", Bytes::from_static(b"state"));
    net.app.delay = seconds(1);
    net.inject_to_server(&asking(7, Some(&[])));
    net.run_for(seconds(2));
    net.inject_to_server(&asking(7, Some(&[1])));
    let sent = net.sent_by_server();
    let kinds: Vec<_> = sent.iter().map(|bytes| view(bytes).kind()).collect();
    assert_eq!(kinds[..2], [Type::Acknowledgement, Type::Confirmable]);
    assert_eq!(view(sent[1]).payload(), b"state");
    assert!(echoes(&net).iter().all(Option::is_none));
}

#[test]
fn a_non_request_gets_no_echo() {
    let mut net = served("x", Bytes::from_static(b"state"));
    net.inject_to_server(&non(Code::GET, 7).path("x").option(COUNT, &[1]).bytes());
    assert_eq!(echoes(&net), [None]);
}

#[test]
fn error_responses_echo_the_count() {
    let mut net = Net::plain();
    // 4.02 for an unknown option, 4.00 for a bad block, 4.04 by the application.
    let requests = [
        con(Code::GET, 1).path("x").option(65_001, &[]),
        con(Code::GET, 2).path("x").option(23, &[0x07]),
        con(Code::GET, 3).path("x"),
    ];
    for request in requests {
        net.inject_to_server(&request.option(COUNT, &[3]).bytes());
    }
    assert_eq!(echoes(&net), vec![Some(vec![3]); 3]);
    let codes: Vec<_> = net
        .sent_by_server()
        .iter()
        .map(|b| view(b).code())
        .collect();
    assert_eq!(
        codes,
        [Code::BAD_OPTION, Code::BAD_REQUEST, Code::NOT_FOUND]
    );
}

#[test]
fn invalid_count_option_is_treated_as_unknown() {
    let mut net = served("x", Bytes::from_static(b"state"));
    net.inject_to_server(&asking(1, Some(&[0, 1])));
    assert_eq!(echoes(&net), [None]);
    let twice = con(Code::GET, 2)
        .path("x")
        .option(COUNT, &[2])
        .option(COUNT, &[3]);
    net.inject_to_server(&twice.bytes());
    assert_eq!(
        echoes(&net)[1],
        Some(vec![2]),
        "of several the first counts (RFC 7252 5.4.5)"
    );
}

#[test]
fn option_number_is_configurable_and_invalid_disables_count() {
    for (number, echoed) in [(65_532, true), (0, false), (65_001, false), (28, false)] {
        let mut net = Net::new(
            Config::default(),
            config(|config| config.retransmission_count_option = OptionNumber(number)),
        );
        net.inject_to_server(&asking(1, Some(&[2])));
        let request = con(Code::GET, 2).path("x").option(65_532, &[2]).bytes();
        net.inject_to_server(&request);
        net.inject_to_server(&request);
        let carries = |bytes: &&[u8]| view(bytes).options().count() > 0;
        let sent: Vec<_> = net.sent_by_server().iter().map(carries).collect();
        assert_eq!(sent, [false, echoed, echoed], "{number}");
    }
}

#[test]
fn count_option_is_not_part_of_the_cache_key() {
    let mut net = served("x", pattern(3_000));
    net.inject_to_server(&asking(1, Some(&[255])));
    for (id, count) in [(2, &[][..]), (3, &[1][..])] {
        let block = con(Code::GET, id)
            .path("x")
            .option(23, &[(id as u8 - 1) << 4 | 6]);
        net.inject_to_server(&block.option(COUNT, count).bytes());
    }
    assert_eq!(net.app.executed["x"], 1, "all blocks are of one state");
    assert_eq!(echoes(&net), [Some(vec![255]), Some(vec![]), Some(vec![1])]);
    for (id, more, count) in [(4_u16, true, &[][..]), (5, false, &[2][..])] {
        let number = (id as u8 - 4) << 4 | u8::from(more) << 3;
        let block = con(Code::PUT, id).path("y").option(27, &[number]);
        let body = [id as u8; 16];
        net.inject_to_server(&block.option(COUNT, count).payload(&body).bytes());
    }
    assert_eq!(net.app.resources["y"].len(), 32);
}

#[test]
fn largest_response_fits_with_the_echo() {
    let mut largest = 0;
    for options in 50..1_200 {
        let mut net = Net::plain();
        net.app.mute = true;
        let request = con(Code::GET, 9).token(&[1; 8]).path("x");
        net.inject_to_server(&request.clone().option(COUNT, &[255]).bytes());
        let Some((_, Event::Request(id))) = net.server_events.pop() else {
            panic!("no request")
        };
        let mut response = Response::content(ContentFormat::JSON, pattern(3_000));
        for segment in vec![[b'a'; 100]; options / 102] {
            let path = OptionNumber::LOCATION_PATH;
            response.options.push(path, &segment).unwrap();
        }
        let rest = &[b'a'; 100][..options % 102 % 100];
        let query = OptionNumber::LOCATION_QUERY;
        response.options.push(query, rest).unwrap();
        net.server.respond(net.now, id, &response);
        net.drain();
        let length = last(&net).len();
        assert!(length <= MESSAGE_BYTES, "{options}: {length}");
        assert!(echoes(&net)[0].is_some(), "{options}");
        largest = largest.max(length);
    }
    assert!(largest > MESSAGE_BYTES - 16, "{largest}: some come near");
}

#[test]
fn duplicate_with_counting_token_is_answered_with_that_token() {
    let mut net = served("x", Bytes::from_static(b"state"));
    let tokens: [&[u8]; 3] = [&[5, 6, 0], &[5, 6, 1], &[5, 6, 0]];
    for token in tokens {
        net.inject_to_server(&con(Code::GET, 7).path("x").token(token).bytes());
    }
    let sent = net.sent_by_server();
    let answered: Vec<_> = sent.iter().map(|b| view(b).token()).collect();
    assert!(answered.iter().map(TokenView::as_slice).eq(tokens));
    assert_eq!(net.app.executed["x"], 1);
}

#[test]
fn other_request_with_same_message_id_gets_no_foreign_reply() {
    // After a client restart: the token shows that the stored response belongs to another request.
    let others: [&[u8]; 4] = [&[5, 9, 1], &[5, 6], &[5, 6, 0, 1], &[]];
    for other in others {
        let mut net = served("x", Bytes::from_static(b"state"));
        net.inject_to_server(&con(Code::GET, 7).path("x").token(&[5, 6, 0]).bytes());
        net.inject_to_server(&asking_as(other));
        let sent = net.sent_by_server();
        assert_eq!(sent[0], sent[1], "{other:?}");
    }
    let mut net = served("x", Bytes::from_static(b"state"));
    net.inject_to_server(&con(Code::GET, 7).path("x").token(&[1]).bytes());
    net.inject_to_server(&asking_as(&[2]));
    let sent = net.sent_by_server();
    assert_eq!(sent[0], sent[1], "a token of one byte has no count");
}

fn asking_as(token: &[u8]) -> Vec<u8> {
    let other = con(Code::GET, 7).path("y").token(token);
    other.option(COUNT, &[1]).bytes()
}
