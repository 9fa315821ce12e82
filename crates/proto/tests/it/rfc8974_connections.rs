//! Extended tokens over connections (RFC 8974 2.2.1).

use crate::stream::{
    CLIENT, CSM, Lone, Pair, SERVER, address, ask, config, frame, hello, signal_of,
};
use carob_cc::time::Duration;
use carob_proto::codec::{Code, ContentFormat, MessageView};
use carob_proto::endpoint::{Config, Event, RequestConfig};
use carob_proto::{Request, Response};

fn token_bytes(limit: usize) -> Config {
    let mut config = config(|_| ());
    config.limits.token_bytes = limit;
    config
}

fn wanting(length: u16) -> Config {
    let mut config = config(|_| ());
    config.token_length = length;
    config
}

/// A CSM with Extended-Token-Length.
fn csm(length: u32) -> Vec<u8> {
    let bytes = length.to_be_bytes();
    let skip = bytes.iter().take_while(|byte| **byte == 0).count();
    frame(Code::CSM, &[], &[(6, &bytes[skip..])], &[])
}

/// Token lengths of requests.
fn asked(sent: &[Vec<u8>]) -> Vec<usize> {
    let view = |bytes| MessageView::parse_long(bytes).expect("well formed");
    let requests = sent.iter().map(|m| view(m));
    let requests = requests.filter(|m| m.code().is_request());
    requests.map(|m| m.token().len()).collect()
}

/// The code of the last message.
fn last_code(lone: &Lone) -> String {
    lone.sent
        .last()
        .map_or(String::new(), |m| Code(m[1]).to_string())
}

fn answer_all(lone: &mut Lone, response: &Response) {
    for id in lone.requests() {
        lone.respond(id, response);
    }
}

fn introduced(config: Config) -> Lone {
    let mut lone = Lone::new(config);
    lone.hear(CSM);
    lone
}

#[test]
fn csm_announces_token_length_above_8_bytes() {
    for (limit, said) in [
        (0, None),
        (8, None),
        (9, Some(9)),
        (64, Some(64)),
        (5_000, Some(1_024)),
    ] {
        let lone = Lone::new(token_bytes(limit));
        let (code, options, _) = signal_of(&lone.sent[0]);
        assert_eq!(code, Code::CSM);
        let length = options.iter().find(|(number, _)| *number == 6);
        assert_eq!(length.map(|(_, value)| *value), said, "{limit}");
    }
}

#[test]
fn token_up_to_announced_length_is_echoed_longer_aborts() {
    for (limit, length, taken) in [
        (64, 64, true),
        (64, 65, false),
        (8, 8, true),
        (8, 9, false),
        (300, 300, true),
        (300, 301, false),
    ] {
        let mut lone = introduced(token_bytes(limit));
        let token = vec![0xa7; length];
        lone.hear(&frame(Code::GET, &token, &[(11, b"x")], &[]));
        let waiting = lone.end.usage().incoming;
        assert_eq!(waiting, usize::from(taken), "{limit} {length}");
        if taken {
            answer_all(
                &mut lone,
                &Response::content(ContentFormat::TEXT_PLAIN, "hello"),
            );
            let answer = MessageView::parse_long(&lone.sent[1]).expect("well formed");
            assert_eq!(answer.code(), Code::CONTENT);
            assert_eq!(answer.token().as_slice(), token);
        } else {
            assert_eq!((last_code(&lone), lone.closed), ("7.05".into(), 1));
        }
    }
}

#[test]
fn refused_request_keeps_the_connection() {
    let mut config = token_bytes(64);
    config.limits.incoming = 0;
    let mut lone = introduced(config);
    lone.hear(&frame(Code::GET, &[1; 64], &[(11, b"x")], &[]));
    assert_eq!((last_code(&lone), lone.closed), ("5.03".into(), 0));
    let answer = MessageView::parse_long(lone.sent.last().expect("sent")).expect("well formed");
    assert_eq!(answer.token().as_slice(), [1; 64]);
}

#[test]
fn token_length_follows_newest_csm_up_to_own_setting() {
    let mut lone = Lone::new(wanting(64));
    let mut expected = Vec::new();
    let mut request = |lone: &mut Lone, length: usize| {
        lone.request(Request::get());
        expected.push(length);
        assert_eq!(asked(&lone.sent), expected);
    };
    request(&mut lone, 8); // the CSM has yet to come
    lone.hear(CSM);
    request(&mut lone, 8); // it does not say
    lone.hear(&csm(32));
    request(&mut lone, 32);
    lone.hear(CSM);
    request(&mut lone, 32); // what is not repeated stays
    lone.hear(&csm(7));
    request(&mut lone, 32); // ignored
    lone.hear(&csm(16));
    request(&mut lone, 16);
    lone.hear(&csm(8));
    request(&mut lone, 8);
    lone.hear(&csm(0xff_ffff));
    request(&mut lone, 64);
}

#[test]
fn bodies_with_extended_tokens_over_a_connection() {
    let body = vec![7; 150_000];
    let echo = body.clone();
    let mut pair = Pair::new(wanting(500), token_bytes(300)).answering(move |request, body| {
        if request.code() == Code::PUT {
            assert_eq!(body.len(), 150_000);
            return Response::new(Code::CHANGED);
        }
        Response::new(Code::CONTENT).with_payload(echo.clone())
    });
    ask(&mut pair, Request::get());
    let put = ask(
        &mut pair,
        Request::new(Code::PUT).with_payload(body.clone()),
    );
    let get = ask(&mut pair, Request::get());
    assert_eq!(pair.response(put).code, Code::CHANGED);
    assert_eq!(pair.response(get).bytes()[..], body);
    let lengths = asked(&pair.heard[CLIENT].sent);
    assert_eq!(lengths[0], 8);
    assert!(
        lengths.len() > 3 && lengths.iter().skip(2).all(|&length| length == 300),
        "{lengths:?}"
    );
}

#[test]
fn request_queued_for_reconnect_gets_token_of_new_limit() {
    let mut pair = Pair::new(wanting(64), token_bytes(64)).answering_with(|_, _, _| {});
    ask(&mut pair, Request::get());
    ask(&mut pair, Request::get());
    assert_eq!(asked(&pair.heard[CLIENT].sent), [8, 64]);
    pair.disconnect();
    pair.settle();
    // The requests are repeated on the next connection before its CSM arrives.
    assert_eq!(pair.connections, 2);
    let again = asked(&pair.heard[CLIENT].sent).split_off(2);
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|&length| length == 8), "{again:?}");
}

#[test]
fn queued_registration_uses_short_token_after_reconnect() {
    let mut pair = Pair::new(wanting(64), token_bytes(64)).answering_with(|server, now, id| {
        server.observe(now, id, carob_proto::endpoint::Subject(1));
        server.respond(
            now,
            id,
            &Response::content(ContentFormat::TEXT_PLAIN, "state"),
        );
    });
    ask(&mut pair, Request::get());
    let mut observe = RequestConfig::default();
    observe.observe = true;
    let now = pair.now;
    let asking = pair.ends[CLIENT].request(now, address(SERVER), Request::get(), observe);
    asking.expect("taken");
    pair.settle();
    assert_eq!(asked(&pair.heard[CLIENT].sent), [8, 64]);
    pair.disconnect();
    pair.pass(Duration::from_secs(60));
    let again = asked(&pair.heard[CLIENT].sent).split_off(2);
    assert_eq!(again, [8]);
    let response = Response::content(ContentFormat::TEXT_PLAIN, "another");
    let told = pair.ends[SERVER].notify(
        pair.now,
        carob_proto::endpoint::Subject(1),
        &response,
        false,
    );
    assert_eq!(told, Ok(1));
    pair.settle();
    let states = pair.heard[CLIENT].events.iter();
    let states = states.filter(|event| matches!(event, Event::Notification { .. }));
    assert_eq!(states.count(), 3);
}

#[test]
fn pong_has_the_extended_token_of_its_ping() {
    let mut lone = introduced(token_bytes(1_024));
    for length in [9, 64, 300, 1_024] {
        let token = vec![3; length];
        lone.hear(&frame(Code::PING, &token, &[], &[]));
        let pong = MessageView::parse_long(lone.sent.last().expect("sent")).expect("well formed");
        assert_eq!(
            (pong.code(), pong.token().as_slice()),
            (Code::PONG, &token[..])
        );
    }
    // A Ping with Custody waits for earlier requests.
    lone.hear(&frame(Code::GET, &[1], &[], &[]));
    lone.hear(&frame(Code::PING, &[4; 40], &[(2, &[])], &[]));
    assert_eq!(last_code(&lone), "7.03", "of the last");
    let sent = lone.sent.len();
    answer_all(&mut lone, &Response::new(Code::CONTENT));
    let pong = MessageView::parse_long(&lone.sent[sent + 1]).expect("well formed");
    assert_eq!(
        (pong.code(), pong.token().as_slice()),
        (Code::PONG, &[4; 40][..])
    );
}

#[test]
fn token_that_leaves_no_space_for_a_response_aborts() {
    // Max-Message-Size 64, the smallest value that is accepted.
    let small = frame(Code::CSM, &[], &[(2, &[64])], &[]);
    let mut lone = introduced(token_bytes(64));
    lone.hear(&small);
    lone.hear(&frame(Code::GET, &[1; 60], &[], &[]));
    assert_eq!((last_code(&lone), lone.closed), ("7.05".into(), 1));
    // The same if the CSM follows the request.
    let mut lone = introduced(token_bytes(64));
    lone.hear(&frame(Code::GET, &[1; 64], &[], &[]));
    lone.hear(&small);
    answer_all(
        &mut lone,
        &Response::content(ContentFormat::TEXT_PLAIN, "hello"),
    );
    assert_eq!((last_code(&lone), lone.closed), ("7.05".into(), 1));
    // A Pong that exceeds the limit is not sent.
    let mut lone = introduced(token_bytes(64));
    lone.hear(&frame(Code::GET, &[1], &[], &[]));
    lone.hear(&frame(Code::PING, &[2; 64], &[(2, &[])], &[]));
    lone.hear(&small);
    answer_all(&mut lone, &Response::new(Code::CONTENT));
    assert_eq!((last_code(&lone), lone.closed), ("2.05".into(), 0));
}

#[test]
fn unmatched_extended_token_response_is_ignored() {
    let mut lone = introduced(token_bytes(8));
    lone.request(Request::get());
    let sent = lone.sent.len();
    lone.hear(&frame(Code::CONTENT, &[9; 200], &[], b"x"));
    assert_eq!((lone.sent.len(), lone.closed), (sent, 0));
}

#[test]
fn request_with_extended_token_in_single_bytes() {
    let mut pair = Pair::new(wanting(300), token_bytes(300)).answering(hello);
    pair.cut = 1;
    ask(&mut pair, Request::get());
    let id = ask(&mut pair, Request::get());
    assert_eq!(pair.response(id).bytes()[..], b"hello"[..]);
    assert_eq!(asked(&pair.heard[CLIENT].sent), [8, 300]);
}
