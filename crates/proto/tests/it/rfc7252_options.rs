//! RFC 7252 sections 5.4, 5.5 and 5.10 by requirement, on the wire (`vectors/requirements.toml`).

use crate::net::wire::{Wire, ack, con, empty, non, shapes, view};
use crate::net::{Net, Stream, as_non, config, get, post, seconds};
use bytes::Bytes;
use carob_proto::codec::{Code, ContentFormat, EncodeError, OptionNumber, Options, Type};
use carob_proto::endpoint::{
    Config, Endpoint, Event, Failure, Output, RequestConfig, RequestError,
};
use carob_proto::message::Payload;
use carob_proto::{Request, Response};

const UNKNOWN: u16 = 2049;
const ELECTIVE: u16 = 65_000;

/// A server with `x`, and its responses.
fn answers(messages: &[Wire]) -> (Net, Vec<String>) {
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), "y".into());
    for message in messages {
        net.inject_to_server(&message.bytes());
    }
    let answers = shapes(&net.sent_by_server());
    (net, answers)
}

/// A client with a pending request that receives this response.
fn received(sending: RequestConfig, answer: impl FnOnce(u16) -> Wire) -> Net {
    let mut net = Net::deaf();
    net.send_with(get("x"), sending);
    let request = net.sent_by_client()[0].to_vec();
    let id = view(&request).message_id().0;
    net.inject_to_client(&answer(id).token_of(&request).bytes());
    net
}

/// The message for a response by the application to `GET x`.
fn responded(response: &Response) -> Vec<u8> {
    responded_to(&con(Code::GET, 1).path("x"), response)
}

fn responded_to(request: &Wire, response: &Response) -> Vec<u8> {
    let mut server = Endpoint::new(Config::default(), Stream(1));
    let now = carob_cc::time::Instant::ZERO;
    server.handle_datagram(now, crate::net::client_address(), &request.bytes());
    let Output::Event(Event::Request(id)) = server.poll() else {
        panic!("the request reaches the application");
    };
    server.respond(now, id, response);
    let Output::Transmit { bytes, .. } = server.poll() else {
        panic!("it is answered");
    };
    bytes.to_vec()
}

fn with_options(code: Code, options: &[(OptionNumber, &[u8])]) -> Response {
    let mut response = Response::new(code);
    for (number, value) in options {
        response.options.push(*number, value).unwrap();
    }
    response
}

/// The result of a request with these options.
fn asked(options: &[(OptionNumber, &[u8])]) -> Result<Vec<u8>, RequestError> {
    let mut request = Request::get();
    for (number, value) in options {
        request.options.push(*number, value).unwrap();
    }
    let mut client = Endpoint::new(Config::default(), Stream(1));
    let now = carob_cc::time::Instant::ZERO;
    client.request(
        now,
        crate::net::server_address(),
        request,
        RequestConfig::default(),
    )?;
    let Output::Transmit { bytes, .. } = client.poll() else {
        panic!("it is sent at once");
    };
    Ok(bytes.to_vec())
}

fn not_allowed(number: OptionNumber) -> Result<Vec<u8>, RequestError> {
    Err(RequestError::Encode(EncodeError::NotAllowed(number)))
}

#[test]
fn an_unknown_elective_option_is_ignored_on_both_sides() {
    let get =
        |kind: fn(Code, u16) -> Wire, id| kind(Code::GET, id).path("x").option(ELECTIVE, b"?");
    let (_, seen) = answers(&[get(con, 1), get(non, 2)]);
    assert_eq!(seen, ["ACK 2.05", "NON 2.05"]);
    let net = received(RequestConfig::default(), |id| {
        ack(Code::CONTENT, id).option(ELECTIVE, b"?").payload(b"z")
    });
    assert_eq!(&net.response().unwrap().bytes()[..], b"z");
}

#[test]
fn unknown_critical_option_in_con_request_is_4_02_with_name() {
    let (net, seen) = answers(&[con(Code::GET, 1).path("x").option(UNKNOWN, b"?")]);
    assert_eq!(seen, ["ACK 4.02"]);
    let text = String::from_utf8(view(net.sent_by_server()[0]).payload().to_vec()).unwrap();
    assert!(text.contains("2049"), "{text}");
    assert!(net.app.executed.is_empty());
}

#[test]
fn unknown_critical_option_in_con_response_is_reset() {
    let mut net = received(RequestConfig::default(), |_| {
        con(Code::CONTENT, 9).option(UNKNOWN, b"?")
    });
    assert_eq!(shapes(&net.sent_by_client()), ["CON 0.01", "RST 0.00"]);
    let failure = Failure::UnknownOption(OptionNumber(UNKNOWN));
    assert_eq!(net.failure(), Some(failure));
    let request = net.sent_by_client()[0].to_vec();
    let again = con(Code::CONTENT, 9).option(UNKNOWN, b"?");
    net.inject_to_client(&again.token_of(&request).bytes());
    assert_eq!(net.sent_by_client()[2], &empty(Type::Reset, 9)[..]);
}

#[test]
fn unknown_critical_option_in_ack_response_rejects_silently() {
    let mut net = received(RequestConfig::default(), |id| {
        ack(Code::CONTENT, id).option(UNKNOWN, b"?")
    });
    assert_eq!(
        net.failure(),
        Some(Failure::UnknownOption(OptionNumber(UNKNOWN)))
    );
    net.run_for(seconds(300));
    assert_eq!(net.sent_by_client().len(), 1);
}

#[test]
fn unknown_critical_option_in_non_rejects_the_message() {
    let (net, seen) = answers(&[non(Code::GET, 1).path("x").option(UNKNOWN, b"?")]);
    assert!(seen.is_empty() && net.app.executed.is_empty());
    let net = received(as_non(), |_| non(Code::CONTENT, 9).option(UNKNOWN, b"?"));
    assert!(net.response().is_none());
    let kinds = shapes(&net.sent_by_client());
    assert!(
        kinds.iter().all(|kind| !kind.starts_with("ACK")),
        "{kinds:?}"
    );
}

#[test]
fn option_recognized_by_application_passes_both_ways() {
    const OWN: OptionNumber = OptionNumber(UNKNOWN);
    let config = config(|config| config.understood = &[OWN]);
    let mut net = Net::new(config.clone(), config);
    let mut request = get("x");
    request.options.push(OWN, b"?").unwrap();
    net.send(request);
    net.run_for(seconds(1));
    assert_eq!(net.response().unwrap().code, Code::NOT_FOUND);
    net.send(get("x"));
    let request = net.sent_by_client()[1].to_vec();
    let id = view(&request).message_id().0;
    let answer = ack(Code::CONTENT, id).option(UNKNOWN, b"?");
    net.inject_to_client(&answer.token_of(&request).bytes());
    let options = &net.responses()[1].options;
    assert_eq!(options.first(OWN), Some(&b"?"[..]));
}

#[test]
fn an_option_of_wrong_length_counts_as_unknown() {
    // Critical options: refused.
    let long = [b'a'; 256];
    let wrong: [(u16, &[u8]); 7] = [
        (1, &[0; 9]),
        (3, b""),
        (5, b"x"),
        (7, &[0, 0, 1]),
        (11, &long),
        (17, &[0, 0, 0]),
        (23, &[0, 0, 0, 0]),
    ];
    for (number, value) in wrong {
        let (_, seen) = answers(&[con(Code::GET, 1).option(number, value)]);
        assert_eq!(seen, ["ACK 4.02"], "{number}");
    }
    // Elective options: ignored.
    let request = con(Code::PUT, 1)
        .path("x")
        .option(12, &[0, 0, 50])
        .option(60, &[0, 0, 0, 0, 1])
        .bytes();
    let message = view(&request);
    assert_eq!(message.uint_option(OptionNumber::CONTENT_FORMAT), None);
    assert_eq!(message.uint_option(OptionNumber::SIZE1), None);
    let options = Options::from_view(&message).unwrap();
    assert_eq!(options.uint(OptionNumber::CONTENT_FORMAT), None);
}

#[test]
fn repeated_non_repeatable_option_counts_as_unknown() {
    // Critical options that are not repeatable.
    let twice: [(u16, &[u8]); 5] = [(3, b"h"), (5, b""), (7, b"a"), (17, b""), (23, b"")];
    for (number, value) in twice {
        let request = con(Code::GET, 1).option(number, value);
        let (_, seen) = answers(&[request.option(number, value)]);
        assert_eq!(seen, ["ACK 4.02"], "{number}");
    }
    let net = received(RequestConfig::default(), |id| {
        let block = ack(Code::CONTENT, id).option(23, b"").option(23, b"");
        block.payload(b"z")
    });
    let failure = Failure::UnknownOption(OptionNumber::BLOCK2);
    assert_eq!(net.failure(), Some(failure));
    // Elective options: the first one is used.
    let net = received(RequestConfig::default(), |id| {
        let aged = ack(Code::CONTENT, id).option(14, &[7]).option(14, &[8]);
        aged.option(12, &[50]).option(12, &[60])
    });
    let response = net.response().unwrap();
    assert_eq!(response.options.uint(OptionNumber::MAX_AGE), Some(7));
    assert_eq!(response.format(), Some(ContentFormat::JSON));
}

#[test]
fn repeatable_option_may_occur_many_times() {
    let mut request = con(Code::GET, 1).option(1, b"").option(1, b"a");
    for n in 0..40_u8 {
        request = request
            .option(11, &[b'a' + n % 26])
            .option(15, &[b'0' + n % 10]);
    }
    let (_, seen) = answers(&[request]);
    assert_eq!(seen, ["ACK 4.04"]);
}

#[test]
fn option_of_the_other_direction_counts_as_unknown() {
    // Request options in a response are unknown critical ones.
    for number in [1_u16, 3, 5, 7, 11, 15, 17, 35, 39] {
        let net = received(RequestConfig::default(), |id| {
            let value: &[u8] = if number == 5 { b"" } else { b"x" };
            ack(Code::CONTENT, id).option(number, value)
        });
        let failure = Failure::UnknownOption(OptionNumber(number));
        assert_eq!(net.failure(), Some(failure));
    }
    // Response options in a request are unknown elective ones.
    let request = con(Code::GET, 1).path("x").option(8, b"a").option(20, b"b");
    let (_, seen) = answers(&[request.option(14, &[60])]);
    assert_eq!(seen, ["ACK 2.05"]);
}

#[test]
fn client_refuses_options_not_allowed_in_requests() {
    for number in [
        OptionNumber::LOCATION_PATH,
        OptionNumber::LOCATION_QUERY,
        OptionNumber::MAX_AGE,
    ] {
        assert_eq!(asked(&[(number, b"x")]), not_allowed(number));
    }
    for number in [
        OptionNumber::URI_HOST,
        OptionNumber::ACCEPT,
        OptionNumber::CONTENT_FORMAT,
    ] {
        assert_eq!(
            asked(&[(number, b"x"), (number, b"y")]),
            not_allowed(number)
        );
    }
    for segment in [&b"."[..], b".."] {
        let path = OptionNumber::URI_PATH;
        assert_eq!(asked(&[(path, b"a"), (path, segment)]), not_allowed(path));
    }
    let proxy = OptionNumber::PROXY_URI;
    for number in [
        OptionNumber::URI_HOST,
        OptionNumber::URI_PORT,
        OptionNumber::URI_PATH,
        OptionNumber::URI_QUERY,
    ] {
        let both: [(OptionNumber, &[u8]); 2] = [(number, b"x"), (proxy, b"coap://y/z")];
        assert_eq!(asked(&both), not_allowed(proxy));
    }
    let alone = asked(&[(proxy, b"coap://y/z")]).unwrap();
    assert_eq!(view(&alone).option(proxy), Some(&b"coap://y/z"[..]));
    let many: [(OptionNumber, &[u8]); 4] = [
        (OptionNumber::URI_PATH, b"..."),
        (OptionNumber::URI_PATH, b"..."),
        (OptionNumber::ETAG, b"1"),
        (OptionNumber::ETAG, b"2"),
    ];
    assert!(asked(&many).is_ok());
}

#[test]
fn server_refuses_options_not_allowed_in_responses() {
    let wrong: [&[(OptionNumber, &[u8])]; 6] = [
        &[(OptionNumber::ETAG, b"1"), (OptionNumber::ETAG, b"2")],
        &[(OptionNumber::MAX_AGE, b"1"), (OptionNumber::MAX_AGE, b"2")],
        &[(OptionNumber::LOCATION_PATH, b"..")],
        &[(OptionNumber::LOCATION_PATH, b".")],
        &[(OptionNumber::URI_PATH, b"x")],
        &[(OptionNumber::ACCEPT, b"")],
    ];
    for options in wrong {
        let sent = responded(&with_options(Code::CREATED, options));
        assert_eq!(shapes(&[&sent]), ["ACK 5.00"], "{options:?}");
    }
    let created: [(OptionNumber, &[u8]); 4] = [
        (OptionNumber::LOCATION_PATH, b"a"),
        (OptionNumber::LOCATION_PATH, b"..."),
        (OptionNumber::ETAG, b"1"),
        (OptionNumber::LOCATION_QUERY, b".."),
    ];
    let sent = responded(&with_options(Code::CREATED, &created));
    assert_eq!(shapes(&[&sent]), ["ACK 2.01"]);
    assert!(
        view(&sent)
            .values(OptionNumber::LOCATION_PATH)
            .eq([&b"a"[..], b"..."])
    );
}

#[test]
fn engine_options_replace_those_of_the_application() {
    let mut net = Net::plain();
    let mut request = crate::net::put("x", crate::net::pattern(2_000));
    request.options.set_uint(OptionNumber::SIZE1, 1).unwrap();
    net.send(request);
    net.run_for(seconds(5));
    let sizes: Vec<_> = view(net.sent_by_client()[0])
        .values(OptionNumber::SIZE1)
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(sizes, [2_000_u16.to_be_bytes()]);
    let mut response = with_options(Code::CONTENT, &[(OptionNumber::SIZE2, b"1")]);
    response.payload = Payload::Whole(crate::net::pattern(2_000));
    let sent = responded(&response);
    assert_eq!(view(&sent).values(OptionNumber::SIZE2).count(), 1);
    assert_eq!(view(&sent).uint_option(OptionNumber::SIZE2), Some(2_000));
}

#[test]
fn integers_are_sent_short_and_read_with_leading_zeros() {
    let request = asked(&[(OptionNumber::URI_PATH, b"x")]).unwrap();
    assert_eq!(
        view(&request).options().count(),
        1,
        "no default is spelt out"
    );
    let mut response = with_options(Code::CONTENT, &[]);
    response = response.with_format(ContentFormat::TEXT_PLAIN);
    response.options.set_uint(OptionNumber::MAX_AGE, 0).unwrap();
    let sent = responded(&response);
    let values: Vec<_> = view(&sent).options().map(|o| o.value.to_vec()).collect();
    assert_eq!(values, [b"", b""]);
    // Accept 50 and Block2 0/0/64, padded with zeros.
    let padded = con(Code::GET, 1).path("x").option(17, &[0, 50]);
    let (_, seen) = answers(&[padded.option(23, &[0, 0, 2])]);
    assert_eq!(seen, ["ACK 2.05"]);
}

#[test]
fn payload_of_method_without_payload_is_ignored() {
    for method in [Code::GET, Code::DELETE] {
        let mut client = Endpoint::new(Config::default(), Stream(1));
        let request = Request::new(method).with_payload("no");
        let now = carob_cc::time::Instant::ZERO;
        let refused = client.request(
            now,
            crate::net::server_address(),
            request,
            RequestConfig::default(),
        );
        assert_eq!(refused, Err(RequestError::PayloadNotAllowed));
        let mut server = Endpoint::new(Config::default(), Stream(1));
        let received = con(method, 1).path("x").payload(b"no").bytes();
        server.handle_datagram(now, crate::net::client_address(), &received);
        let Output::Event(Event::Request(id)) = server.poll() else {
            panic!("the request reaches the application");
        };
        assert_eq!(server.incoming(id).unwrap().body, b"");
        // Block1 needs a payload; without one it is an unknown critical option.
        let (_, seen) = answers(&[con(method, 1).path("x").option(27, &[0])]);
        assert_eq!(seen, ["ACK 4.02"]);
    }
    let (mut net, _) = answers(&[]);
    net.send(post("x", Bytes::from_static(b"yes")));
    net.run_for(seconds(1));
    assert_eq!(&net.response().unwrap().bytes()[..], b"yes");
}

#[test]
fn a_2_03_has_no_payload_and_any_received_is_ignored() {
    let mut valid = with_options(Code::VALID, &[(OptionNumber::ETAG, b"1")]);
    valid.payload = Payload::Whole(Bytes::from_static(b"no"));
    let sent = responded(&valid);
    assert_eq!(view(&sent).payload(), b"");
    assert_eq!(view(&sent).option(OptionNumber::ETAG), Some(&b"1"[..]));
    // Also for a requested block.
    let third = con(Code::GET, 1).path("x").option(23, &[0x36]);
    assert_eq!(shapes(&[&responded_to(&third, &valid)]), ["ACK 2.03"]);
    let net = received(RequestConfig::default(), |id| {
        ack(Code::VALID, id).option(4, b"1").payload(b"no")
    });
    assert_eq!(net.response().unwrap().bytes().len(), 0);
}

#[test]
fn proxy_requests_without_proxy_are_answered_5_05() {
    for (number, value) in [(35, &b"coap://other/y"[..]), (39, b"http")] {
        let asked = |message: Wire| message.path("x").option(number, value);
        let (net, seen) = answers(&[asked(con(Code::GET, 1)), asked(non(Code::GET, 2))]);
        assert_eq!(seen, ["ACK 5.05", "NON 5.05"]);
        assert!(net.app.executed.is_empty());
        let token = |bytes: &&[u8]| view(bytes).token().as_slice().to_vec();
        assert!(
            net.sent_by_server()
                .iter()
                .all(|b| token(b).as_slice() == [7])
        );
    }
}

/// Handling of a request by a proxy: the message sent at once, and the option that the application must understand to
/// respond itself.
fn at_a_proxy(request: &Wire) -> (Option<String>, Option<OptionNumber>) {
    let mut proxy = Endpoint::new(config(|config| config.forwards = true), Stream(1));
    let now = carob_cc::time::Instant::ZERO;
    proxy.handle_datagram(now, crate::net::client_address(), &request.bytes());
    let id = match proxy.poll() {
        Output::Event(Event::Request(id)) => id,
        Output::Transmit { bytes, .. } => return (Some(shapes(&[bytes]).remove(0)), None),
        _ => return (None, None),
    };
    let incoming = proxy.incoming(id).unwrap();
    (None, proxy.unsupported_critical_option(&incoming.message))
}

#[test]
fn proxy_application_receives_forwardable_unknown_options() {
    const SAFE: u16 = 65_001;
    let asked = || con(Code::GET, 1).path("x");
    for (number, value) in [(35, &b"coap://other/y"[..]), (39, b"http")] {
        let for_proxy = asked().option(number, value);
        assert_eq!(at_a_proxy(&for_proxy), (None, None));
    }
    let safe = asked().option(SAFE, b"?");
    assert_eq!(at_a_proxy(&safe), (None, Some(OptionNumber(SAFE))));
    let (_, seen) = answers(&[safe]);
    assert_eq!(seen, ["ACK 4.02"], "only a proxy forwards it");
    // Unsafe options, and those that cannot be re-encoded, are refused.
    let refused = (Some("ACK 4.02".to_owned()), None);
    for wrong in [
        asked().option(65_003, b"?"),
        asked().option(17, &[1, 2, 3]),
        asked().option(17, &[50]).option(17, &[60]),
        asked().option(35, b"coap://a").option(35, b"coap://b"),
    ] {
        assert_eq!(at_a_proxy(&wrong), refused);
    }
    let mut net = Net::new(config(|config| config.forwards = true), Config::default());
    net.server_dead = true;
    net.send_with(get("x"), RequestConfig::default());
    let request = net.sent_by_client()[0].to_vec();
    let answer = ack(Code::CONTENT, view(&request).message_id().0).option(SAFE, b"!");
    net.inject_to_client(&answer.token_of(&request).bytes());
    let options = &net.response().unwrap().options;
    assert_eq!(options.first(OptionNumber(SAFE)), Some(&b"!"[..]));
}

#[test]
fn reserved_location_option_with_location_is_critical() {
    for number in [128, 132, 136, 140] {
        let request = con(Code::GET, 1).path("x");
        let (_, seen) = answers(&[request.clone().option(8, b"a").option(number, b"?")]);
        assert_eq!(seen, ["ACK 4.02"]);
        let (_, seen) = answers(&[request.clone().option(20, b"a").option(number, b"?")]);
        assert_eq!(seen, ["ACK 4.02"]);
        let (_, seen) = answers(&[request.option(number, b"?")]);
        assert_eq!(seen, ["ACK 2.05"], "elective where there is no Location");
        let net = received(RequestConfig::default(), |id| {
            ack(Code::CREATED, id).option(8, b"a").option(number, b"?")
        });
        let failure = Failure::UnknownOption(OptionNumber(number));
        assert_eq!(net.failure(), Some(failure));
    }
}

#[test]
fn representation_not_matching_accept_becomes_4_06() {
    let json = Response::content(ContentFormat::JSON, "{}");
    let accept = |format: u8| con(Code::GET, 1).path("x").option(17, &[format]);
    let shape = |request: Wire, response| shapes(&[&responded_to(&request, response)]).remove(0);
    assert_eq!(shape(accept(50), &json), "ACK 2.05");
    assert_eq!(shape(accept(60), &json), "ACK 4.06");
    assert_eq!(shape(con(Code::GET, 1).path("x"), &json), "ACK 2.05");
    // Other errors take precedence, and effects that have happened are not denied.
    let missing = Response::content(ContentFormat::JSON, "{}");
    let missing = Response {
        code: Code::NOT_FOUND,
        ..missing
    };
    assert_eq!(shape(accept(60), &missing), "ACK 4.04");
    let changed = Response {
        code: Code::CHANGED,
        ..json.clone()
    };
    let posted = con(Code::POST, 1).path("x").option(17, &[60]);
    assert_eq!(shape(posted, &changed), "ACK 2.04");
    let refused = responded_to(&accept(60), &json);
    assert!(view(&refused).payload().is_empty() && view(&refused).options().count() == 0);
}

#[test]
fn an_entity_tag_is_any_bytes() {
    let tag: &[u8] = &[0xff, 0, 0xfe, 0x80, 0, 0, 0, 0xc3];
    let sent = responded(&with_options(Code::CONTENT, &[(OptionNumber::ETAG, tag)]));
    assert_eq!(view(&sent).option(OptionNumber::ETAG), Some(tag));
    let net = received(RequestConfig::default(), |id| {
        ack(Code::CONTENT, id).option(4, tag)
    });
    assert_eq!(
        net.response().unwrap().options.first(OptionNumber::ETAG),
        Some(tag)
    );
}

#[test]
fn diagnostic_payload_is_utf_8_and_optional() {
    let (net, _) = answers(&[
        con(Code::GET, 1).option(UNKNOWN, b"\xff\xfe"),
        con(Code::GET, 2).option(35, b"\xff"),
        con(Code::GET, 3).path("x").option(23, &[0xff, 0xf6]),
        con(Code::PUT, 4)
            .path("x")
            .option(27, &[0x3e])
            .payload(b"\xff"),
    ]);
    for answer in net.sent_by_server() {
        let text = core::str::from_utf8(view(answer).payload()).unwrap();
        assert!(!text.is_empty() && text.is_ascii());
    }
    assert_eq!(
        view(&responded(&Response::new(Code::NOT_FOUND))).payload(),
        b""
    );
}

#[test]
fn experimental_option_numbers_are_not_registered() {
    use carob_proto::codec::numbers::{ContentFormatDefinition, OptionDefinition};
    assert!(
        OptionDefinition::ALL
            .iter()
            .all(|row| row.number.0 < 65_000)
    );
    assert!(
        ContentFormatDefinition::ALL
            .iter()
            .all(|row| row.format.0 < 65_000)
    );
}
