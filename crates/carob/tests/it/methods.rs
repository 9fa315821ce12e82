//! Methods and message types over loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{client, limited, resources, send, start};
use carob::server::{Request, Resource, get};
use carob::{Code, ContentFormat, NoResponse, OptionNumber};

#[tokio::test]
async fn get_gets_a_response() {
    let (_server, uri) = start(resources()).await;
    let reply = send(client().get(format!("{uri}/hello"))).await;
    assert_eq!((reply.code, reply.text()), (Code::CONTENT, Some("hello")));
    assert_eq!(reply.format(), Some(ContentFormat::TEXT_PLAIN));
}

#[tokio::test]
async fn every_method_reaches_its_handler_with_its_body() {
    let (_server, uri) = start(resources()).await;
    let client = client();
    let all = [
        (Code::PUT, Code::CREATED),
        (Code::POST, Code::CHANGED),
        (Code::FETCH, Code::CONTENT),
        (Code::PATCH, Code::CHANGED),
        (Code::IPATCH, Code::CHANGED),
    ];
    for (method, code) in all {
        let uri = format!("{uri}/echo");
        let request = match method {
            Code::PUT => client.put(uri),
            Code::POST => client.post(uri),
            Code::FETCH => client.fetch(uri),
            Code::PATCH => client.patch(uri),
            _ => client.ipatch(uri),
        };
        let request = request.body("a body").content_format(ContentFormat::JSON);
        let reply = send(request).await;
        assert_eq!(
            (reply.code, reply.text()),
            (code, Some("a body")),
            "{method:?}"
        );
        assert_eq!(reply.format(), Some(ContentFormat::JSON));
    }
    let reply = send(client.delete(format!("{uri}/echo"))).await;
    assert_eq!(reply.code, Code::DELETED);
}

#[tokio::test]
async fn queries_and_options_arrive() {
    let (_server, uri) = start(resources()).await;
    let reply = send(client().get(format!("{uri}/echo?a=1&b=%C3%BC"))).await;
    assert_eq!(reply.text(), Some("a=1&b=ü"));
}

#[tokio::test]
async fn slow_response_is_separate_and_not_requested_again() {
    let (_server, uri) = start(resources()).await;
    let sent = Arc::new(AtomicU32::new(0));
    let counted = sent.clone();
    let settings = carob::Config::new()
        .parameters(crate::common::impatient())
        .on_trace(move |trace| {
            if matches!(trace.event, carob_proto::trace::TraceEvent::Sent { .. }) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
    let client = crate::common::client_with(settings.engine(|config| {
        config.empty_ack_delay = carob_cc::time::Duration::from_millis(10);
    }));
    let reply = send(client.get(format!("{uri}/slow"))).await;
    assert_eq!(reply.text(), Some("at last"));
    // The server acknowledges after 100 ms, so the client retransmits at most twice.
    assert!(sent.load(Ordering::Relaxed) <= 3);
}

#[tokio::test]
async fn non_request_gets_a_non_response() {
    let (_server, uri) = start(resources()).await;
    let request = client().get(format!("{uri}/hello")).confirmable(false);
    assert_eq!(send(request).await.text(), Some("hello"));
}

#[tokio::test]
async fn a_ping_is_answered() {
    let (_server, uri) = start(resources()).await;
    let round_trip = limited(client().ping(&uri)).await.unwrap();
    assert!(round_trip < std::time::Duration::from_secs(1));
}

#[tokio::test]
async fn missing_disallowed_and_unacceptable_have_their_codes() {
    let (_server, uri) = start(resources()).await;
    let client = client();
    let code = |request: carob::client::RequestBuilder| async { send(request).await.code };
    assert_eq!(
        code(client.get(format!("{uri}/nowhere"))).await,
        Code::NOT_FOUND
    );
    assert_eq!(
        code(client.put(format!("{uri}/hello"))).await,
        Code::METHOD_NOT_ALLOWED
    );
    let cbor = client
        .get(format!("{uri}/hello"))
        .accept(ContentFormat::CBOR);
    assert_eq!(code(cbor).await, Code::NOT_ACCEPTABLE);
    let unknown = client
        .get(format!("{uri}/hello"))
        .option(OptionNumber(65_001), *b"x");
    assert_eq!(code(unknown).await, Code::BAD_OPTION);
}

#[tokio::test]
async fn unknown_method_gets_4_05() {
    let (_server, uri) = start(resources()).await;
    let unknown = Code(30);
    for path in ["hello", "echo", "nowhere"] {
        let request = client().request(unknown, format!("{uri}/{path}"));
        let reply = send(request).await;
        assert_eq!(reply.code, Code::METHOD_NOT_ALLOWED, "{path}");
    }
}

#[tokio::test]
async fn created_response_has_location_options() {
    let made = |_: Request| async {
        let mut response = carob::Response::new(Code::CREATED);
        for segment in ["things", "7"] {
            let number = OptionNumber::LOCATION_PATH;
            response.options.push(number, segment.as_bytes()).unwrap();
        }
        response
            .options
            .push(OptionNumber::LOCATION_QUERY, b"v=1")
            .unwrap();
        response
    };
    let (_server, uri) = start(resources().resource("/things", Resource::new().post(made))).await;
    let reply = send(client().post(format!("{uri}/things")).body("x")).await;
    assert_eq!(reply.code, Code::CREATED);
    let path = reply.options.values(OptionNumber::LOCATION_PATH);
    assert!(path.eq([&b"things"[..], b"7"]));
    let query = reply.options.first(OptionNumber::LOCATION_QUERY);
    assert_eq!(query, Some(&b"v=1"[..]));
}

#[tokio::test]
async fn error_response_is_not_retried() {
    let count = Arc::new(AtomicU32::new(0));
    for code in [
        Code::UNAUTHORIZED,
        Code::BAD_OPTION,
        Code::SERVICE_UNAVAILABLE,
    ] {
        let counted = Arc::clone(&count);
        let refuse = move |_: Request| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { code }
        };
        let (_server, uri) = start(resources().resource("/no", get(refuse))).await;
        let reply = limited(client().get(format!("{uri}/no")).send()).await;
        assert_eq!(reply.unwrap().code, code);
        // A retry would arrive within this time on loopback.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert_eq!(count.swap(0, Ordering::Relaxed), 1, "{code}");
    }
}

#[tokio::test]
async fn fixed_content_honours_conditions() {
    let mut tagged = carob::Response::content(ContentFormat::TEXT_PLAIN, "text");
    tagged.options.push(OptionNumber::ETAG, b"v1").unwrap();
    let builder = resources().resource("/tagged", carob::server::fixed(tagged));
    let (_server, uri) = start(builder).await;
    let ask = |path: &str, number, value: &'static [u8]| {
        let request = client().get(format!("{uri}/{path}")).option(number, value);
        async { send(request).await.code }
    };
    let (matches, none) = (OptionNumber::IF_MATCH, OptionNumber::IF_NONE_MATCH);
    assert_eq!(ask("tagged", matches, b"v1").await, Code::CONTENT);
    assert_eq!(ask("tagged", matches, b"").await, Code::CONTENT);
    assert_eq!(
        ask("tagged", matches, b"v0").await,
        Code::PRECONDITION_FAILED
    );
    assert_eq!(ask("tagged", none, b"").await, Code::PRECONDITION_FAILED);
    assert_eq!(ask("hello", matches, b"").await, Code::CONTENT);
    assert_eq!(
        ask("hello", matches, b"v1").await,
        Code::PRECONDITION_FAILED
    );
    assert_eq!(ask("hello", none, b"").await, Code::PRECONDITION_FAILED);
}

#[tokio::test]
async fn the_list_of_resources_can_be_read() {
    let (_server, uri) = start(resources()).await;
    let reply = send(client().get(format!("{uri}/.well-known/core"))).await;
    assert_eq!(reply.format(), Some(ContentFormat::LINK_FORMAT));
    let text = reply.text().unwrap();
    assert!(
        text.starts_with("</hello>;ct=0;sz=5,</echo>,</large>;ct=42;sz=1048576,"),
        "{text}"
    );
}

#[tokio::test]
async fn client_validates_by_entity_tag() {
    let mut response = carob::Response::content(ContentFormat::TEXT_PLAIN, "text");
    response.options.push(OptionNumber::ETAG, b"v1").unwrap();
    let (_server, uri) =
        start(resources().resource("/tagged", carob::server::fixed(response))).await;
    let request = |etag: &[u8]| {
        client()
            .get(format!("{uri}/tagged"))
            .option(OptionNumber::ETAG, etag)
    };
    let valid = send(request(b"v1")).await;
    assert_eq!((valid.code, valid.bytes().len()), (Code::VALID, 0));
    let stale = send(request(b"v0")).await;
    assert_eq!((stale.code, stale.text()), (Code::CONTENT, Some("text")));
}

#[tokio::test]
async fn no_response_option_suppresses_the_response() {
    let (server, uri) = start(resources()).await;
    let client = client();
    let put = || client.put(format!("{uri}/echo")).body("a body");
    let quiet = |confirmable| {
        let quiet = put().confirmable(confirmable);
        quiet.no_response(NoResponse::ALL).send_no_response()
    };
    assert!(limited(quiet(true)).await.unwrap().is_none());
    let sent = limited(put().no_response(NoResponse::ALL).send()).await;
    let error = sent.unwrap_err();
    assert!(
        matches!(error, carob::Error::ResponseSuppressed { .. }),
        "{error}"
    );
    let missing = client.get(format!("{uri}/missing"));
    let sent = limited(missing.no_response(NoResponse::SUCCESS).send_no_response()).await;
    assert_eq!(sent.unwrap().map(|reply| reply.code), Some(Code::NOT_FOUND));
    // With a timeout, the client waits for errors, which are not suppressed.
    let update = put().no_response(NoResponse::SUCCESS);
    let began = std::time::Instant::now();
    let sent = limited(
        update
            .suppressed_after(std::time::Duration::from_millis(30))
            .send_no_response(),
    );
    assert!(sent.await.unwrap().is_none());
    assert!(began.elapsed() < std::time::Duration::from_secs(2));
    assert!(limited(quiet(false)).await.unwrap().is_none());
    drop(server);
}

#[tokio::test]
async fn tokens_are_unique_and_random() {
    let (server, uri) = start(resources()).await;
    let tokens = Arc::new(std::sync::Mutex::new(Vec::new()));
    for _ in 0..2 {
        let heard = Arc::clone(&tokens);
        let settings = carob::Config::new().on_datagram(move |datagram| {
            if !datagram.incoming {
                let message = carob_proto::codec::MessageView::parse(datagram.bytes).unwrap();
                heard
                    .lock()
                    .unwrap()
                    .push(message.token().as_slice().to_vec());
            }
        });
        let client = crate::common::client_with(settings);
        for _ in 0..200 {
            send(client.get(format!("{uri}/hello"))).await;
        }
    }
    let tokens = tokens.lock().unwrap();
    assert!(tokens.len() >= 400 && tokens.iter().all(|token| token.len() == 8));
    let distinct: std::collections::BTreeSet<_> = tokens.iter().collect();
    assert_eq!(
        distinct.len(),
        tokens.len(),
        "none was used twice, by either"
    );
    // With 400 unbiased draws, a bit is 1 less than 140 or more than 260 times in fewer than one run in a million.
    for bit in 0..64 {
        let ones = tokens
            .iter()
            .filter(|token| token.as_slice()[bit / 8] >> (bit % 8) & 1 == 1);
        let ones = ones.count();
        assert!((140..=260).contains(&ones), "bit {bit}: {ones}");
    }
    drop(server);
}
