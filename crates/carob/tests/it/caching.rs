//! The client cache: freshness, validation and invalidation.
//!
//! The clock is advanced between requests and runs normally during them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{client, large, limited, send, start};
use carob::client::{Observation, RequestBuilder, Update};
use carob::server::{Notifier, Refusal, Request, ServerBuilder, get};
use carob::{
    CacheLimits, Client, Code, Config, ContentFormat, ETag, OptionNumber, Origin, Reply, Response,
    Server, TimeSource,
};

/// Received requests, and the state that determines responses.
#[derive(Default)]
struct Seen {
    asked: AtomicU64,
    state: AtomicU64,
    tags: Mutex<Vec<Vec<ETag>>>,
    changes: Notifier,
}

impl Seen {
    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn hear(&self, request: &Request) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.tags.lock().unwrap().push(request.etags().collect());
        self.state.load(Ordering::Relaxed)
    }
}

fn server(seen: &Arc<Seen>) -> ServerBuilder {
    let (reading, writing, creating) = (seen.clone(), seen.clone(), seen.clone());
    let (fetching, failing, loading) = (seen.clone(), seen.clone(), seen.clone());
    let read = move |request: Request| {
        let state = reading.hear(&request);
        let text = format!("state {state}");
        async move {
            Response::content(ContentFormat::TEXT_PLAIN, text)
                .with_etag(state.into())
                .with_max_age(Duration::from_secs(30))
        }
    };
    let write = move |_: Request| {
        writing.state.fetch_add(1, Ordering::Relaxed);
        async { Code::CHANGED }
    };
    let create = move |_: Request| {
        creating.state.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Refusal>(Response::new(Code::CREATED).with_location_path("/state")?) }
    };
    let fetch = move |request: Request| {
        fetching.hear(&request);
        async move { Response::new(Code::CONTENT).with_payload(request.payload().clone()) }
    };
    let fail = move |request: Request| {
        failing.hear(&request);
        async { Refusal::too_many_requests("slowly").with_max_age(Duration::from_secs(9)) }
    };
    let load = move |request: Request| {
        let state = loading.hear(&request);
        let response = Response::content(ContentFormat::OCTET_STREAM, large(50_000));
        async move { response.with_etag(state.into()) }
    };
    Server::builder()
        .bind("127.0.0.1:0")
        .resource("/state", get(read).put(write).observable(&seen.changes))
        .resource("/all", carob::Resource::new().post(create))
        .resource("/fetch", carob::Resource::new().fetch(fetch))
        .resource("/busy", get(fail))
        .resource("/large", get(load))
}

fn caching() -> Client {
    let settings = Config::new().time_source(TimeSource::Tokio);
    let builder = Client::builder().config(settings);
    builder.cache(CacheLimits::default()).open().unwrap()
}

async fn pass(secs: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(secs)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn fresh_response_is_served_from_the_cache() {
    let seen = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, uri) = (caching(), format!("{uri}/state"));
    let first = send(client.get(&uri)).await;
    assert_eq!(
        (first.origin, first.text()),
        (Origin::Network, Some("state 0"))
    );
    pass(10).await;
    let second = send(client.clone().get(&uri)).await;
    assert_eq!(
        (second.origin, second.text()),
        (Origin::Fresh, Some("state 0"))
    );
    assert_eq!((second.peer, second.etag()), (first.peer, first.etag()));
    let left = second.max_age().as_secs();
    assert!((18..=20).contains(&left), "of 30 s, 10 have passed: {left}");
    assert_eq!(seen.asked(), 1);
    let other = send(crate::common::client().get(&uri)).await;
    assert_eq!(
        (other.origin, seen.asked()),
        (Origin::Network, 2),
        "a client without a cache"
    );
}

#[tokio::test]
async fn stale_response_is_validated_by_etag() {
    let seen: Arc<Seen> = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, uri) = (caching(), format!("{uri}/state"));
    send(client.get(&uri)).await;
    pass(31).await;
    let valid = send(client.get(&uri)).await;
    assert_eq!(
        (valid.origin, valid.code),
        (Origin::Validated, Code::CONTENT)
    );
    assert_eq!(valid.text(), Some("state 0"));
    assert_eq!(valid.format(), Some(ContentFormat::TEXT_PLAIN));
    assert_eq!(
        send(client.get(&uri)).await.origin,
        Origin::Fresh,
        "for another 30 s"
    );
    seen.state.store(1, Ordering::Relaxed);
    pass(31).await;
    let changed = send(client.get(&uri)).await;
    assert_eq!(
        (changed.origin, changed.text()),
        (Origin::Network, Some("state 1"))
    );
    seen.state.store(0, Ordering::Relaxed);
    pass(31).await;
    let back = send(client.get(&uri)).await;
    assert_eq!(
        (back.origin, back.text()),
        (Origin::Validated, Some("state 0"))
    );
    let tags = |states: &[u64]| states.iter().copied().map(ETag::from).collect::<Vec<_>>();
    let expected = [tags(&[]), tags(&[0]), tags(&[0]), tags(&[1, 0])];
    assert_eq!(*seen.tags.lock().unwrap(), expected);
}

#[tokio::test]
async fn unsafe_request_invalidates_cached_responses() {
    let seen = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, state) = (caching(), format!("{uri}/state"));
    send(client.get(&state)).await;
    send(client.put(&state).body("x")).await;
    let after = send(client.get(&state)).await;
    assert_eq!(
        (after.origin, after.text()),
        (Origin::Network, Some("state 1"))
    );
    let created = send(client.post(format!("{uri}/all"))).await;
    assert_eq!(created.code, Code::CREATED);
    let after = send(client.get(&state)).await;
    assert_eq!(
        (after.origin, after.text()),
        (Origin::Network, Some("state 2"))
    );
    let refused = send(client.delete(&state)).await;
    assert_eq!(refused.code, Code::METHOD_NOT_ALLOWED);
    assert_eq!(
        send(client.get(&state)).await.origin,
        Origin::Fresh,
        "nothing was changed"
    );
}

#[tokio::test]
async fn reload_always_sends_a_request() {
    let seen = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, uri) = (caching(), format!("{uri}/state"));
    send(client.get(&uri)).await;
    assert_eq!(
        send(client.get(&uri).reload()).await.origin,
        Origin::Validated
    );
    seen.state.store(1, Ordering::Relaxed);
    let reply = send(client.get(&uri).reload()).await;
    assert_eq!(
        (reply.origin, reply.text()),
        (Origin::Network, Some("state 1"))
    );
    assert_eq!(send(client.get(&uri)).await.text(), Some("state 1"));
}

#[tokio::test]
async fn explicit_etag_or_range_bypasses_the_cache() {
    let seen = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, uri) = (caching(), format!("{uri}/state"));
    send(client.get(&uri)).await;
    let own = client.get(&uri).option(OptionNumber::ETAG, [0]);
    let reply = send(own).await;
    assert_eq!((reply.origin, reply.code), (Origin::Network, Code::VALID));
    let part = send(client.get(&uri).range(2, 3)).await;
    assert_eq!((part.origin, part.text()), (Origin::Network, Some("ate")));
    assert_eq!(
        send(client.get(&uri)).await.text(),
        Some("state 0"),
        "still whole"
    );
}

#[tokio::test]
async fn fetch_responses_are_cached_by_request_body() {
    let seen = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, uri) = (caching(), format!("{uri}/fetch"));
    let fetch = |body: &'static str| send(client.fetch(&uri).body(body));
    for (body, origin) in [
        ("one", Origin::Network),
        ("two", Origin::Network),
        ("one", Origin::Fresh),
        ("two", Origin::Fresh),
    ] {
        let reply = fetch(body).await;
        assert_eq!((reply.origin, reply.text()), (origin, Some(body)));
    }
}

#[tokio::test]
async fn too_many_requests_response_is_cached_for_max_age() {
    let seen = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, uri) = (caching(), format!("{uri}/busy"));
    for origin in [Origin::Network, Origin::Fresh] {
        let reply = send(client.get(&uri)).await;
        assert_eq!(
            (reply.code, reply.origin),
            (Code::TOO_MANY_REQUESTS, origin)
        );
    }
    pass(10).await;
    assert_eq!(send(client.get(&uri)).await.origin, Origin::Network);
    assert_eq!(seen.asked(), 2);
}

#[tokio::test]
async fn block_wise_body_is_cached_and_streamed() {
    let seen = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, uri) = (caching(), format!("{uri}/large"));
    let whole = large(50_000);
    let stream = |request: RequestBuilder| async move {
        let mut reply = limited(request.send_streaming()).await.unwrap();
        let mut body = Vec::new();
        while let Some(chunk) = limited(reply.body.chunk()).await.unwrap() {
            body.extend_from_slice(&chunk);
        }
        (reply.origin, reply.head.code, body)
    };
    let (origin, _, body) = stream(client.get(&uri)).await;
    assert!(origin == Origin::Network && body == whole);
    let reply = send(client.get(&uri)).await;
    assert_eq!(reply.origin, Origin::Network, "a stream is not kept");
    let asked = seen.asked();
    let (origin, code, body) = stream(client.get(&uri)).await;
    assert!((origin, code) == (Origin::Fresh, Code::CONTENT) && body == whole);
    assert_eq!(seen.asked(), asked);
    pass(61).await;
    let (origin, code, body) = stream(client.get(&uri)).await;
    assert!((origin, code) == (Origin::Validated, Code::CONTENT) && body == whole);
    assert_eq!(seen.asked(), asked + 1);
    let reply = send(client.get(&uri)).await;
    assert!(reply.origin == Origin::Fresh && reply.bytes() == &whole);
}

#[tokio::test]
async fn without_a_cache_every_request_is_sent() {
    let seen = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let client = client();
    for _ in 0..3 {
        let reply = send(client.get(format!("{uri}/state"))).await;
        assert_eq!(reply.origin, Origin::Network);
    }
    assert_eq!(seen.asked(), 3);
}

/// The next notification.
async fn next(observation: &mut Observation) -> Reply {
    loop {
        match limited(observation.next()).await.unwrap().unwrap() {
            Update::State(reply) => return reply,
            Update::Ended(reply) => panic!("ended with {}", reply.code),
            _ => {}
        }
    }
}

#[tokio::test]
async fn notifications_update_the_cache() {
    let seen: Arc<Seen> = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, uri) = (caching(), format!("{uri}/state"));
    let mut observation = limited(client.get(&uri).observe()).await.unwrap();
    for state in 0..3 {
        seen.state.store(state, Ordering::Relaxed);
        if state > 0 {
            seen.changes.changed();
        }
        let told = next(&mut observation).await;
        assert_eq!(told.text(), Some(&*format!("state {state}")));
        let found = send(client.get(&uri)).await;
        assert_eq!((found.origin, found.text()), (Origin::Fresh, told.text()));
        assert!(told.options.contains(OptionNumber::OBSERVE));
        assert!(!found.options.contains(OptionNumber::OBSERVE));
        assert_eq!(seen.asked(), state + 1, "as often as there was a state");
    }
    // The observation has ended, so that the representation expires and is revalidated.
    pass(31).await;
    assert_eq!(send(client.get(&uri)).await.origin, Origin::Validated);
}

#[tokio::test]
async fn own_changes_invalidate_until_the_next_notification() {
    let seen: Arc<Seen> = Arc::default();
    let (_server, uri) = start(server(&seen)).await;
    let (client, uri) = (caching(), format!("{uri}/state"));
    let mut observation = limited(client.get(&uri).observe()).await.unwrap();
    next(&mut observation).await;
    send(client.put(&uri)).await;
    let asked = send(client.get(&uri)).await;
    assert_eq!(
        (asked.origin, asked.text()),
        (Origin::Network, Some("state 1"))
    );
    send(client.put(&uri)).await;
    seen.changes.changed();
    assert_eq!(next(&mut observation).await.text(), Some("state 2"));
    let found = send(client.get(&uri)).await;
    assert_eq!(
        (found.origin, found.text()),
        (Origin::Fresh, Some("state 2"))
    );
}

#[tokio::test]
async fn shareable_observation_is_registered_without_etags() {
    let seen: Arc<Seen> = Arc::default();
    let (server, uri) = start(server(&seen)).await;
    let (client, uri) = (client(), format!("{uri}/state"));
    let tag = ETag::from(0);
    let tagged = client.get(&uri).option(OptionNumber::ETAG, tag.as_slice());
    let mut first = limited(tagged.observe()).await.unwrap();
    let mut second = limited(client.get(&uri).observe()).await.unwrap();
    for observation in [&mut first, &mut second] {
        let state = next(observation).await;
        assert_eq!((state.code, state.text()), (Code::CONTENT, Some("state 0")));
    }
    assert_eq!(*seen.tags.lock().unwrap(), [[]; 1]);
    assert_eq!(server.client().usage().await.unwrap().observers, 1);
}
