//! TD_COAP_CORE: requests and responses.

use std::time::Duration;

use carob::{Code, OptionNumber};
use carob_proto::codec::Type;

use crate::interop::bench::Bench;
use crate::interop::requests::{Answer, Ask};
use crate::interop::wire::{Exchange, Message, Side};
use crate::plugtest::setup::Setup;

pub(super) const SENT: &str = "what the client sends";
/// The resource that a POST to `/test` creates.
const CREATED: &str = "/location1/location2/location3";

/// Checks that the application's result equals the message on the wire.
pub(super) fn assert_displayed(answer: &Answer, response: &Message) {
    assert_eq!(answer.code, response.code.to_string());
    assert_eq!(answer.format, response.format());
    assert_eq!(answer.payload, response.payload);
}

/// Checks for 2.05 with a Content-Format and a payload.
fn assert_content(response: &Message) {
    assert_eq!(response.code, Code::CONTENT);
    assert!(response.format().is_some(), "no format");
    assert!(!response.payload.is_empty(), "no body");
}

/// RFC 7252 5.5: a payload should have a Content-Format.
fn assert_format_if_body(response: &Message) {
    assert!(
        response.payload.is_empty() || response.format().is_some(),
        "a body without a format: {response:?}"
    );
}

/// Sends a request and checks that the response is piggybacked (RFC 7252 5.2.1).
fn piggybacked(bench: &Bench, ask: &Ask) -> (Exchange, Answer) {
    let answer = bench.ask(ask);
    let exchange = bench.wire().last_exchange();
    let Exchange { request, response } = &exchange;
    assert_eq!(
        (request.kind, request.code),
        (Type::Confirmable, ask.method)
    );
    assert_eq!(response.kind, Type::Acknowledgement);
    assert_eq!(response.id, request.id);
    assert_eq!(response.token, request.token);
    assert_displayed(&answer, response);
    (exchange, answer)
}

/// Sends a NON request; checks that the response is NON, too, without acknowledgements (RFC 7252 5.2.3).
fn unconfirmed(bench: &Bench, ask: &Ask) -> Exchange {
    let answer = bench.ask(ask);
    let wire = bench.wire();
    let exchange = wire.last_exchange();
    let Exchange { request, response } = &exchange;
    assert_eq!(
        (request.kind, request.code),
        (Type::NonConfirmable, ask.method)
    );
    assert_eq!(response.kind, Type::NonConfirmable);
    assert_eq!(response.token, request.token);
    for side in [Side::Client, Side::Server] {
        let id = request.id;
        assert_eq!(wire.empty(side, Type::Acknowledgement, id), None);
    }
    assert_displayed(&answer, response);
    exchange
}

fn assert_path(request: &Message, segments: &[&str]) {
    assert_eq!(request.texts(OptionNumber::URI_PATH), segments);
}

/// Checks that a request with a payload has a Content-Format.
fn assert_sends(request: &Message) {
    assert_eq!(request.format(), Some(0));
    assert_eq!(request.payload, SENT.as_bytes());
}

/// Checks with another client that the payload was stored.
fn assert_arrived(bench: &Bench, path: &str) {
    assert_eq!(bench.ask_aside(&Ask::get(path)).text(), SENT);
}

/// A request by one of the methods, CON or NON.
pub(super) fn method(bench: &Bench, ask: &Ask) {
    let Exchange { request, response } = if ask.non {
        unconfirmed(bench, ask)
    } else {
        piggybacked(bench, ask).0
    };
    assert_path(&request, &["test"]);
    assert_format_if_body(&response);
    match ask.method {
        Code::GET => assert_content(&response),
        Code::DELETE => assert_eq!(response.code, Code::DELETED),
        _ => {
            assert_sends(&request);
            assert!([Code::CHANGED, Code::CREATED].contains(&response.code));
            let is_post = ask.method == Code::POST;
            assert_arrived(bench, if is_post { CREATED } else { "/test" });
        }
    }
}

/// Requests a slow resource; checks for an Empty ACK, then a separate response that is acknowledged (RFC 7252 5.2.2).
fn separately(bench: &Bench) -> Exchange {
    let answer = bench.ask(&Ask::get("/separate"));
    let exchange = bench.wire().last_exchange();
    let Exchange { request, response } = &exchange;
    assert_eq!((request.kind, request.code), (Type::Confirmable, Code::GET));
    assert_eq!(response.kind, Type::Confirmable);
    assert_eq!(response.token, request.token);
    assert_content(response);
    assert_displayed(&answer, response);
    for (side, id) in [(Side::Server, request.id), (Side::Client, response.id)] {
        let empty = bench.until("an acknowledgement", |wire| {
            wire.empty(side, Type::Acknowledgement, id).cloned()
        });
        assert_eq!(empty.length, 4, "more than a header: {empty:?}");
    }
    exchange
}

pub(super) fn separate(bench: &Bench) {
    separately(bench);
    let wire = bench.wire();
    let frames = wire.0.iter().filter(|frame| frame.from == Side::Server);
    let first = frames.map(|frame| &frame.message).next();
    assert_eq!(
        first.map(|m| m.kind),
        Some(Type::Acknowledgement),
        "the first is no ACK"
    );
}

pub(super) fn token(bench: &Bench) {
    let (exchange, _) = piggybacked(bench, &Ask::get("/test"));
    assert!((1..=8).contains(&exchange.request.token.len()));
    assert_content(&exchange.response);
}

pub(super) fn token_separate(bench: &Bench) {
    let exchange = separately(bench);
    assert!((1..=8).contains(&exchange.request.token.len()));
}

pub(super) fn empty_token(bench: &Bench) {
    let setup = Setup {
        empty_token: true,
        ..Setup::PLAIN
    };
    let bench = &bench.with_setup(setup);
    let (exchange, _) = piggybacked(bench, &Ask::get("/test"));
    assert!(exchange.request.token.is_empty());
    assert_content(&exchange.response);
}

pub(super) fn segments(bench: &Bench) {
    let (exchange, _) = piggybacked(bench, &Ask::get("/seg1/seg2/seg3"));
    assert_path(&exchange.request, &["seg1", "seg2", "seg3"]);
    assert_content(&exchange.response);
}

pub(super) fn query(bench: &Bench) {
    let arguments = ["first=1", "second=2", "third=3"];
    let ask = Ask::get(&format!("/query?{}", arguments.join("&")));
    let (exchange, answer) = piggybacked(bench, &ask);
    assert_eq!(exchange.request.texts(OptionNumber::URI_QUERY), arguments);
    assert_content(&exchange.response);
    assert_eq!(answer.text().lines().skip(1).collect::<Vec<_>>(), arguments);
}

pub(super) fn lossy(bench: &Bench) {
    for lost in [Side::Client, Side::Server] {
        let bench = &bench.with_setup(Setup::IMPATIENT);
        bench.lose(1, lost, |message| !message.code.is_empty());
        let (exchange, _) = piggybacked(bench, &Ask::get("/test"));
        assert_content(&exchange.response);
        let wire = bench.wire();
        assert!(wire.0.iter().any(|frame| frame.lost), "nothing was lost");
        assert!(
            wire.copies(Side::Client, &exchange.request) >= 2,
            "the request was not repeated"
        );
        assert_eq!(wire.responses().len(), 1, "it was answered in two ways");
    }
}

pub(super) fn lossy_separate(bench: &Bench) {
    // Lost in turn: the request, its acknowledgement, the response, and two acknowledgements of the response.
    type Which = fn(&Message) -> bool;
    let request: Which = |message| message.code == Code::GET;
    let empty: Which = |message| message.code.is_empty();
    let response: Which = |message| message.code == Code::CONTENT;
    for (count, side, which, repeated) in [
        (1, Side::Client, request, Side::Client),
        (1, Side::Server, empty, Side::Client),
        (1, Side::Server, response, Side::Server),
        (2, Side::Client, empty, Side::Server),
    ] {
        let bench = &bench.with_setup(Setup::IMPATIENT);
        bench.lose(count, side, which);
        let exchange = separately(bench);
        // Wait until all retransmissions are over.
        let Exchange { request, response } = &exchange;
        bench.until("an acknowledgement that arrives", |wire| {
            let mut frames = wire.0.iter();
            frames.find(|f| f.from == Side::Client && f.message.id == response.id && !f.lost)?;
            Some(())
        });
        // A retransmission may still be in flight.
        std::thread::sleep(Duration::from_millis(200));
        let later = bench.meanwhile(Duration::from_millis(1_500));
        assert_eq!(later.copies(Side::Client, request), 0, "still asking");
        assert_eq!(later.copies(Side::Server, response), 0, "still answering");
        let wire = bench.wire();
        let lost = wire.0.iter().filter(|frame| frame.lost).count();
        assert_eq!(lost, count, "not lost as often as wanted");
        let copied = if repeated == Side::Client {
            request
        } else {
            response
        };
        assert!(
            wire.copies(repeated, copied) > count,
            "nothing was repeated"
        );
        assert_eq!(wire.responses().len(), 1, "it was answered in two ways");
    }
}

pub(super) fn separate_non(bench: &Bench) {
    let exchange = unconfirmed(bench, &Ask::get("/separate").non());
    assert_content(&exchange.response);
}

pub(super) fn location_path(bench: &Bench) {
    let (exchange, answer) = piggybacked(bench, &Ask::post("/test").text(SENT));
    assert_sends(&exchange.request);
    assert_eq!(exchange.response.code, Code::CREATED);
    let location = exchange.response.texts(OptionNumber::LOCATION_PATH);
    assert_eq!(format!("/{}", location.join("/")), CREATED);
    assert!(location.iter().all(|segment| !segment.contains('/')));
    assert_eq!(answer.location_path, location);
    assert_arrived(bench, CREATED);
}

pub(super) fn location_query(bench: &Bench) {
    let (exchange, answer) = piggybacked(bench, &Ask::post("/location-query").text(SENT));
    assert_path(&exchange.request, &["location-query"]);
    assert_sends(&exchange.request);
    assert_eq!(exchange.response.code, Code::CREATED);
    let location = exchange.response.texts(OptionNumber::LOCATION_QUERY);
    assert_eq!(location, ["first=1", "second=2"]);
    assert_eq!(answer.location_query, location);
}

pub(super) fn accept(bench: &Bench) {
    let mut ids = Vec::new();
    for (format, begins) in [(0, "in "), (41, "<in>")] {
        let ask = Ask::get("/multi-format").accept(format);
        let (exchange, answer) = piggybacked(bench, &ask);
        let asked = exchange.request.number(OptionNumber::ACCEPT);
        assert_eq!(asked, Some(format.into()));
        assert_eq!(exchange.response.format(), Some(format.into()));
        assert!(answer.text().starts_with(begins), "{}", answer.text());
        ids.push(exchange.request.id);
    }
    assert_ne!(ids[0], ids[1]);
}

/// A GET response and its entity tag.
fn tag_of(bench: &Bench, path: &str) -> (Vec<u8>, Answer) {
    let (exchange, answer) = piggybacked(bench, &Ask::get(path));
    assert_eq!(exchange.request.option(OptionNumber::ETAG), None);
    assert_content(&exchange.response);
    let tag = exchange.response.option(OptionNumber::ETAG);
    let tag = tag.expect("an entity tag").to_vec();
    assert_eq!(answer.etag.as_ref(), Some(&tag));
    (tag, answer)
}

pub(super) fn etag(bench: &Bench) {
    let (tag, before) = tag_of(bench, "/validate");
    let validate = Ask::get("/validate").etag(&tag);
    let (exchange, _) = piggybacked(bench, &validate);
    assert_eq!(exchange.request.option(OptionNumber::ETAG), Some(&*tag));
    assert_eq!(exchange.response.code, Code::VALID);
    assert_eq!(exchange.response.option(OptionNumber::ETAG), Some(&*tag));
    assert!(exchange.response.payload.is_empty(), "a body with 2.03");

    let changed = bench.ask_aside(&Ask::put("/validate").text(SENT));
    assert_eq!(changed.code, "2.04");
    let (exchange, after) = piggybacked(bench, &validate);
    assert_content(&exchange.response);
    let new = exchange.response.option(OptionNumber::ETAG);
    assert!(new.is_some_and(|new| new != tag), "the same tag");
    assert_ne!(after.payload, before.payload);
    assert_eq!(after.text(), SENT);
}

pub(super) fn if_match(bench: &Bench) {
    let update = |text: &str, tag: &[u8]| Ask::put("/validate").text(text).if_match(tag);
    let (tag, _) = tag_of(bench, "/validate");
    let (exchange, _) = piggybacked(bench, &update("an update", &tag));
    assert_eq!(exchange.request.option(OptionNumber::IF_MATCH), Some(&*tag));
    assert_eq!(exchange.response.code, Code::CHANGED);
    assert_format_if_body(&exchange.response);

    let (new, answer) = tag_of(bench, "/validate");
    assert_ne!(new, tag);
    assert_eq!(answer.text(), "an update");
    let between = bench.ask_aside(&Ask::put("/validate").text(SENT));
    assert_eq!(between.code, "2.04");
    let (exchange, _) = piggybacked(bench, &update("too late", &new));
    assert_eq!(exchange.response.code, Code::PRECONDITION_FAILED);
    assert_arrived(bench, "/validate");
}

pub(super) fn if_none_match(bench: &Bench) {
    let create = |text: &str| Ask::put("/create1").text(text).if_none_match();
    for (text, code) in [
        (SENT, Code::CREATED),
        ("too late", Code::PRECONDITION_FAILED),
    ] {
        let (exchange, _) = piggybacked(bench, &create(text));
        let condition = exchange.request.option(OptionNumber::IF_NONE_MATCH);
        assert_eq!(condition, Some(&b""[..]));
        assert!(!exchange.request.payload.is_empty());
        assert_eq!(exchange.response.code, code);
    }
    assert_arrived(bench, "/create1");
}

pub(super) fn ping(bench: &Bench) {
    bench.ping();
    let wire = bench.wire();
    let [asked, answered] = &*wire.0 else {
        panic!("more or less than two messages")
    };
    assert_eq!(asked.message.kind, Type::Confirmable);
    assert_eq!(answered.message.kind, Type::Reset);
    assert_eq!(answered.message.id, asked.message.id);
    for frame in [asked, answered] {
        assert_eq!((frame.message.code, frame.message.length), (Code::EMPTY, 4));
    }
}
