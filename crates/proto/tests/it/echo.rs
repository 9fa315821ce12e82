//! Echo challenges, freshness and Request-Tag (RFC 9175 2, 3).

use crate::net::wire::{con, reply, view};
use crate::net::{
    Net, Stream, client_address, get, observing, pattern, put, seconds, sending_with,
    server_address,
};
use carob_cc::time::Instant;
use carob_proto::Response;
use carob_proto::codec::{Code, OptionNumber, Type};
use carob_proto::endpoint::{BodyMode, Config, Endpoint, Event, IncomingId, Output, RequestConfig};

/// A server that only executes fresh requests, and a client.
struct Strict {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
    /// Payloads of executed requests.
    done: Vec<Vec<u8>>,
    /// Transmissions; `true` if the client sent it.
    sent: Vec<(bool, Vec<u8>)>,
    events: Vec<Event>,
    /// The server rejects all Echo values.
    hostile: bool,
}

impl Strict {
    fn new(config: Config) -> Self {
        Self {
            now: Instant::ZERO + seconds(1_000),
            client: Endpoint::new(Config::default(), Stream(1)),
            server: Endpoint::new(config, Stream(2)),
            done: Vec::new(),
            sent: Vec::new(),
            events: Vec::new(),
            hostile: false,
        }
    }

    fn answer(&mut self, id: IncomingId) {
        let incoming = self.server.incoming(id).unwrap();
        if !incoming.fresh || self.hostile {
            return self.server.challenge(self.now, id);
        }
        self.done.push(incoming.body.to_vec());
        let code = match incoming.message.code() {
            Code::GET => Code::CONTENT,
            _ => Code::CHANGED,
        };
        let mut response = Response::new(code);
        if code == Code::CONTENT {
            response = response.with_payload(pattern(3_000));
        }
        self.server.respond(self.now, id, &response);
    }

    fn deliver(&mut self, bytes: &[u8]) {
        self.server
            .handle_datagram(self.now, client_address(), bytes);
        self.run();
    }

    fn run(&mut self) {
        loop {
            let mut quiet = true;
            while let Some(bytes) = match self.client.poll() {
                Output::Transmit { bytes, .. } => Some(bytes.to_vec()),
                Output::Event(event) => {
                    self.events.push(event);
                    Some(Vec::new())
                }
                _ => None,
            } {
                quiet = false;
                if !bytes.is_empty() {
                    self.sent.push((true, bytes.clone()));
                    self.server
                        .handle_datagram(self.now, client_address(), &bytes);
                }
            }
            while let Some((bytes, id)) = match self.server.poll() {
                Output::Transmit { bytes, .. } => Some((bytes.to_vec(), None)),
                Output::Event(Event::Request(id)) => Some((Vec::new(), Some(id))),
                _ => None,
            } {
                quiet = false;
                if let Some(id) = id {
                    self.answer(id);
                } else {
                    self.sent.push((false, bytes.clone()));
                    self.client
                        .handle_datagram(self.now, server_address(), &bytes);
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn ask(&mut self, request: carob_proto::Request) {
        self.ask_with(request, RequestConfig::default());
    }

    fn ask_with(&mut self, request: carob_proto::Request, sending: RequestConfig) {
        let asked = (self.client).request(self.now, server_address(), request, sending);
        asked.unwrap();
        self.run();
    }

    fn codes(&self) -> Vec<Code> {
        let code = |(_, bytes): &(bool, Vec<u8>)| view(bytes).code();
        self.sent.iter().map(code).collect()
    }

    fn echoes(&self) -> Vec<Option<Vec<u8>>> {
        let of_client = self.sent.iter().filter(|(from_client, _)| *from_client);
        of_client
            .map(|(_, bytes)| {
                let message = view(bytes);
                message.option(OptionNumber::ECHO).map(<[u8]>::to_vec)
            })
            .collect()
    }

    fn code(&self) -> Code {
        match self.events.last() {
            Some(Event::Response { response, .. }) => response.code,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn client_repeats_challenged_request_with_echo() {
    let mut strict = Strict::new(Config::default());
    strict.ask(put("lock", pattern(10)));
    assert_eq!(strict.code(), Code::CHANGED);
    assert_eq!(
        strict.codes(),
        [Code::PUT, Code::UNAUTHORIZED, Code::PUT, Code::CHANGED]
    );
    let echoes = strict.echoes();
    assert_eq!(echoes[0], None);
    let challenge = view(&strict.sent[1].1);
    assert_eq!(echoes[1].as_deref(), challenge.option(OptionNumber::ECHO));
    assert_eq!(echoes[1].as_ref().map(Vec::len), Some(8));
    assert_eq!(strict.done, [pattern(10)]);
    // A new message with a new token (RFC 9175 4).
    let first = view(&strict.sent[0].1);
    let second = view(&strict.sent[2].1);
    assert_ne!(first.message_id(), second.message_id());
    assert_ne!(first.token(), second.token());
}

#[test]
fn repeated_challenges_end_after_three_requests() {
    let mut strict = Strict::new(Config::default());
    strict.hostile = true;
    strict.ask(put("lock", pattern(10)));
    assert_eq!(strict.code(), Code::UNAUTHORIZED);
    assert_eq!(strict.sent.len(), 6);
    assert!(strict.client.is_idle());
}

#[test]
fn blockwise_body_is_challenged_once() {
    let mut strict = Strict::new(Config::default());
    // The server checks freshness after the reassembly.
    strict.ask(put("lock", pattern(5_000)));
    assert_eq!(strict.code(), Code::CHANGED);
    assert_eq!(strict.done, [pattern(5_000)]);
    strict.ask(get("large"));
    let Some(Event::Response { response, .. }) = strict.events.last() else {
        panic!()
    };
    assert_eq!(response.bytes(), &pattern(3_000));
    let refused = strict
        .codes()
        .iter()
        .filter(|code| **code == Code::UNAUTHORIZED)
        .count();
    assert_eq!(refused, 2, "one for each request");
}

#[test]
fn streamed_response_is_complete_after_a_challenge() {
    let mut strict = Strict::new(Config::default());
    strict.ask_with(
        get("large"),
        sending_with(|sending| sending.response_body = BodyMode::Streamed),
    );
    let parts = strict.events.iter().filter_map(|event| match event {
        Event::ResponseChunk { bytes, .. } => Some(bytes.to_vec()),
        _ => None,
    });
    assert_eq!(parts.collect::<Vec<_>>().concat(), pattern(3_000));
}

#[test]
fn replayed_put_is_not_executed() {
    let mut strict = Strict::new(Config::default());
    strict.ask(put("lock", pattern(10)));
    assert_eq!(strict.done.len(), 1);
    let recorded = strict.sent[2].1.clone();
    assert!(view(&recorded).option(OptionNumber::ECHO).is_some());
    // The Message ID has expired, so that the server executes the idempotent PUT a second time unless it checks freshness.
    strict.now += seconds(300);
    strict.deliver(&recorded);
    assert_eq!(strict.done.len(), 1);
    assert_eq!(strict.codes().last(), Some(&Code::UNAUTHORIZED));
    // The same for a request that is delayed beyond the lifetime of its Echo value.
    let mut late = Strict::new(Config::default());
    late.ask(put("lock", pattern(10)));
    let mut held = late.sent[2].1.clone();
    held[3] ^= 1;
    late.now += seconds(61);
    late.deliver(&held);
    assert_eq!(late.done.len(), 1);
}

#[test]
fn echo_value_is_bound_to_the_address() {
    let mut strict = Strict::new(Config::default());
    strict.ask(put("lock", pattern(10)));
    let mut recorded = strict.sent[2].1.clone();
    let elsewhere = "10.0.0.77:40000".parse().unwrap();
    strict
        .server
        .handle_datagram(strict.now, elsewhere, &recorded);
    strict.run();
    assert_eq!(strict.done.len(), 1);
    let at = recorded
        .windows(8)
        .position(|window| Some(window) == strict.echoes()[1].as_deref());
    recorded[at.unwrap()] ^= 0x80;
    recorded[3] ^= 1;
    strict.deliver(&recorded);
    assert_eq!(strict.done.len(), 1);
}

#[test]
fn echo_value_of_any_response_goes_with_next_request() {
    let mut net = Net::plain();
    net.send(get("x"));
    let answer = reply(Code::CONTENT, net.sent_by_client()[0]).option(252, b"abc");
    net.server_dead = true;
    net.inject_to_client(&answer.bytes());
    for _ in 0..2 {
        net.send(get("x"));
        let answer = reply(Code::CONTENT, net.sent_by_client().last().unwrap());
        net.inject_to_client(&answer.bytes());
    }
    let echo = |bytes: &[u8]| {
        let message = view(bytes);
        message.option(OptionNumber::ECHO).map(<[u8]>::to_vec)
    };
    let echoes: Vec<_> = net.sent_by_client().into_iter().map(echo).collect();
    assert_eq!(echoes, [None, Some(b"abc".to_vec()), None]);
}

#[test]
fn echo_option_of_the_application_is_unchanged() {
    let mut strict = Strict::new(Config::default());
    let mut request = put("lock", pattern(10));
    request.options.set(OptionNumber::ECHO, b"mine").unwrap();
    strict.ask(request);
    assert_eq!(strict.code(), Code::UNAUTHORIZED);
    assert_eq!(strict.echoes(), [Some(b"mine".to_vec())]);
}

#[test]
fn observation_registers_and_renews_through_challenges() {
    let mut config = Config::default();
    config
        .amplification_limit
        .set("10.0.0.0/8".parse().unwrap(), true);
    let mut net = Net::new(Config::default(), config);
    net.observable("x", "one");
    net.send_with(get("x"), observing());
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["one"]);
    assert_eq!(net.server.usage().observers, 1);
    net.restart_server(9);
    net.run_for(seconds(100));
    net.change("x", "two", false);
    net.run_for(seconds(1));
    assert_eq!(net.states().last().unwrap(), "two");
}

/// Request-Tags of the client's first blocks.
fn tags(net: &Net) -> Vec<Option<Vec<u8>>> {
    let first = |bytes: &&[u8]| {
        let message = view(bytes);
        message
            .uint_option(OptionNumber::BLOCK1)
            .is_some_and(|block| block >> 4 == 0)
    };
    let tag = |bytes: &[u8]| {
        let message = view(bytes);
        message
            .option(OptionNumber::REQUEST_TAG)
            .map(<[u8]>::to_vec)
    };
    net.sent_by_client()
        .into_iter()
        .filter(first)
        .map(tag)
        .collect()
}

#[test]
fn blocks_of_abandoned_body_do_not_mix_with_next_body() {
    let mut net = Net::plain();
    let body = |byte: u8| bytes::Bytes::from(vec![byte; 2_048]);
    // The second block of the first body is delayed, and the request is cancelled.
    net.drop_if = Some(|from_client, bytes| {
        let message = view(bytes);
        from_client
            && message
                .uint_option(OptionNumber::BLOCK1)
                .is_some_and(|b| b >> 4 == 1)
    });
    let first = net.send(put("x", body(1)));
    net.run_for(seconds(1));
    let held_back = net.sent_by_client().last().unwrap().to_vec();
    net.client.cancel(net.now, first);
    // The first block of the second body arrives before the delayed one.
    net.send(put("x", body(2)));
    net.run_for(seconds(1));
    net.inject_to_server(&held_back);
    net.drop_if = None;
    net.run_for(seconds(300));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    let stored = &net.app.resources["x"];
    assert!(stored.iter().all(|byte| byte == &stored[0]), "a mixture");
    assert_eq!(stored[0], 2, "the last word is the second's");
    let sent = tags(&net);
    assert_eq!(sent.first(), Some(&None), "no other body precedes it");
    assert!(
        sent.iter().skip(1).all(|tag| tag.as_deref() == Some(&[1])),
        "{sent:?}"
    );
    // All blocks have the tag.
    let later = net.sent_by_client();
    let last = view(later.last().unwrap());
    assert_eq!(
        last.uint_option(OptionNumber::BLOCK1).map(|b| b >> 4),
        Some(1)
    );
    assert_eq!(last.option(OptionNumber::REQUEST_TAG), Some(&[1][..]));
}

#[test]
fn request_tag_is_not_used_after_a_completed_body() {
    let mut net = Net::plain();
    for _ in 0..2 {
        net.send(put("x", pattern(3_000)));
        net.run_for(seconds(1));
    }
    assert_eq!(tags(&net), [None, None]);
    let long_ago = net.send(put("x", pattern(3_000)));
    net.client.cancel(net.now, long_ago);
    net.run_for(seconds(248));
    net.send(put("x", pattern(3_000)));
    net.run_for(seconds(1));
    assert_eq!(tags(&net).last(), Some(&None), "no copy lives that long");
}

#[test]
fn bodies_with_different_request_tags_do_not_mix() {
    let mut net = Net::plain();
    let block = |id, number, more, tag: Option<u8>, byte| {
        let put = con(Code::PUT, id).token(&[]).path("x").payload(&[byte; 16]);
        let block = put.block(OptionNumber::BLOCK1, (number, more, 16));
        match tag {
            Some(tag) => block.option(OptionNumber::REQUEST_TAG.0, &[tag]).bytes(),
            None => block.bytes(),
        }
    };
    for (id, number, more, tag, byte) in [
        (1, 0, true, Some(1), 1),
        (2, 0, true, Some(2), 2),
        (3, 0, true, None, 3),
        (4, 1, false, Some(1), 1),
    ] {
        net.inject_to_server(&block(id, number, more, tag, byte));
        assert!(!net.app.resources.contains_key("x") || id == 4);
    }
    assert_eq!(net.app.resources["x"], vec![1; 32]);
    net.inject_to_server(&block(5, 1, false, Some(2), 2));
    assert_eq!(net.app.resources["x"], vec![2; 32]);
    net.inject_to_server(&block(6, 1, false, Some(9), 9));
    let last = view(net.sent_by_server().last().unwrap());
    let answer = (last.kind(), last.code());
    let incomplete = Code::REQUEST_ENTITY_INCOMPLETE;
    assert_eq!(answer, (Type::Acknowledgement, incomplete));
}
