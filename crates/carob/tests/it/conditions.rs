//! Entity tags and conditional requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{client, large, limited, send, start};
use carob::client::RequestBuilder;
use carob::server::{Notifier, Refusal, Request, Resource, ServerBuilder, Upload, fixed, get};
use carob::{Body, Code, ContentFormat, ETag, OptionNumber, Payload, Response, Server};

const IF_MATCH: OptionNumber = OptionNumber::IF_MATCH;
const IF_NONE_MATCH: OptionNumber = OptionNumber::IF_NONE_MATCH;

/// An optional value; its entity tag counts the changes.
#[derive(Default)]
struct Cell {
    changes: AtomicU64,
    value: Mutex<Option<String>>,
}

impl Cell {
    fn tag(&self) -> Option<ETag> {
        let there = self.value.lock().unwrap().is_some();
        there.then(|| self.changes.load(Ordering::Relaxed).into())
    }

    fn set(&self, value: Option<String>) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        *self.value.lock().unwrap() = value;
    }

    fn read(&self) -> Result<Response, Refusal> {
        let value = self.value.lock().unwrap().clone();
        let (Some(value), Some(tag)) = (value, self.tag()) else {
            return Err(Refusal::not_found("nothing was put here"));
        };
        Ok(Response::content(ContentFormat::TEXT_PLAIN, value)
            .with_etag(tag)
            .with_max_age(Duration::from_secs(5)))
    }
}

fn server() -> ServerBuilder {
    let cell = Arc::new(Cell::default());
    let (reading, putting, deleting) = (cell.clone(), cell.clone(), cell.clone());
    let (fetching, uploading, blocking) = (cell.clone(), cell.clone(), cell.clone());
    let put = move |request: Request| {
        let text = String::from_utf8_lossy(request.payload()).into_owned();
        putting.set(Some(text));
        async { Code::CHANGED }
    };
    let upload = move |_: Request, mut upload: Upload| {
        let cell = uploading.clone();
        async move {
            while let Ok(Some(_)) = upload.next().await {}
            cell.set(Some("uploaded".into()));
            Code::CHANGED
        }
    };
    Server::builder()
        .bind("127.0.0.1:0")
        .resource(
            "/cell",
            get(move |_: Request| {
                let answer = reading.read();
                async { answer }
            })
            .put(put)
            .delete(move |_: Request| {
                deleting.set(None);
                async { Code::DELETED }
            })
            .fetch(move |_| {
                let answer = fetching.read();
                async { answer }
            })
            .state_tag(move |_: Request| {
                let tag = cell.tag();
                async move { tag }
            }),
        )
        .resource(
            "/upload",
            Resource::new()
                .on_upload(Code::PUT, upload)
                .state_tag_blocking(move |_| blocking.tag()),
        )
        .resource(
            "/fixed",
            fixed(Response::content(ContentFormat::TEXT_PLAIN, "x").with_etag(ETag::from(7)))
                .put(|_: Request| async { Code::CHANGED })
                .own_conditions(),
        )
        .resource("/plain", fixed("x"))
        .resource(
            "/unknowing",
            get(|_: Request| async { "x" }).put(|_: Request| async { Code::CHANGED }),
        )
        .resource(
            "/secret",
            Resource::new()
                .put(|_: Request| async { Code::CHANGED })
                .state_tag(|_: Request| async {
                    Err::<Option<ETag>, _>(Refusal::forbidden("not for you"))
                }),
        )
}

#[tokio::test]
async fn matching_etag_gets_2_03() {
    let (_server, uri) = start(server()).await;
    let (client, uri) = (client(), format!("{uri}/cell"));
    send(client.put(&uri).body("one")).await;
    let first = send(client.get(&uri)).await;
    let tag = first.etag().unwrap();
    for method in [Code::GET, Code::FETCH] {
        let request = || client.request(method, &uri);
        let other = request().option(OptionNumber::ETAG, *b"other");
        assert_eq!(send(other).await.text(), Some("one"), "{method:?}");
        let known = request()
            .option(OptionNumber::ETAG, *b"other")
            .option(OptionNumber::ETAG, tag.as_slice());
        let valid = send(known).await;
        assert_eq!(
            (valid.code, valid.bytes().len()),
            (Code::VALID, 0),
            "{method:?}"
        );
        assert_eq!(
            (valid.etag(), valid.format()),
            (Some(tag), None),
            "{method:?}"
        );
        assert_eq!(valid.max_age(), Duration::from_secs(5), "{method:?}");
    }
    send(client.put(&uri).body("two")).await;
    let request = client.get(&uri).option(OptionNumber::ETAG, tag.as_slice());
    assert_eq!(send(request).await.text(), Some("two"));
}

#[tokio::test]
async fn if_match_and_if_none_match_are_checked_by_the_server() {
    let (_server, uri) = start(server()).await;
    let (client, uri) = (client(), format!("{uri}/cell"));
    let put = |text: &'static str| client.put(&uri).body(text);
    let code = |request: RequestBuilder| async { send(request).await.code };
    let failed = Code::PRECONDITION_FAILED;
    assert_eq!(
        code(put("a").option(IF_MATCH, *b"")).await,
        failed,
        "not there"
    );
    assert_eq!(
        code(put("b").option(IF_NONE_MATCH, *b"")).await,
        Code::CHANGED
    );
    assert_eq!(
        code(put("c").option(IF_NONE_MATCH, *b"")).await,
        failed,
        "there"
    );
    let current = send(client.get(&uri)).await;
    assert_eq!(current.text(), Some("b"));
    let tag = current.etag().unwrap();
    let tagged = |request: RequestBuilder| request.option(IF_MATCH, tag.as_slice());
    assert_eq!(code(tagged(put("d"))).await, Code::CHANGED);
    assert_eq!(
        code(tagged(put("e"))).await,
        failed,
        "another has changed it"
    );
    assert_eq!(code(tagged(client.delete(&uri))).await, failed);
    assert_eq!(code(tagged(client.get(&uri))).await, failed);
    assert_eq!(send(client.get(&uri)).await.text(), Some("d"));
    assert_eq!(
        code(client.delete(&uri).option(IF_MATCH, *b"")).await,
        Code::DELETED
    );
    assert_eq!(code(client.get(&uri)).await, Code::NOT_FOUND);
}

#[tokio::test]
async fn failed_precondition_is_sent_before_the_body() {
    let (_server, uri) = start(server()).await;
    let (client, uri) = (client(), format!("{uri}/upload"));
    let put = || {
        client
            .put(&uri)
            .body(Body::reader(std::io::Cursor::new(large(100_000))))
    };
    let refused = send(put().option(IF_MATCH, *b"")).await;
    assert_eq!(refused.code, Code::PRECONDITION_FAILED);
    assert_eq!(
        send(put().option(IF_NONE_MATCH, *b"")).await.code,
        Code::CHANGED
    );
    assert_eq!(send(put().option(IF_MATCH, *b"")).await.code, Code::CHANGED);
}

#[tokio::test]
async fn unsupported_conditions_are_refused() {
    let (_server, uri) = start(server()).await;
    let client = client();
    for method in [Code::GET, Code::PUT] {
        let request = client.request(method, format!("{uri}/unknowing"));
        let reply = send(request.option(IF_NONE_MATCH, *b"")).await;
        assert_eq!(reply.code, Code::BAD_OPTION, "{method:?}");
    }
    let own = client.put(format!("{uri}/fixed")).option(IF_MATCH, *b"any");
    assert_eq!(send(own).await.code, Code::CHANGED, "left to the handler");
}

#[tokio::test]
async fn fixed_content_has_an_etag() {
    let (_server, uri) = start(server()).await;
    let client = client();
    let code = |path: &str, number, value: &[u8]| {
        let request = client.get(format!("{uri}{path}")).option(number, value);
        async { send(request).await.code }
    };
    let failed = Code::PRECONDITION_FAILED;
    assert_eq!(code("/fixed", IF_MATCH, &[7]).await, Code::CONTENT);
    assert_eq!(code("/fixed", IF_MATCH, &[8]).await, failed);
    assert_eq!(code("/fixed", IF_NONE_MATCH, &[]).await, failed);
    assert_eq!(code("/plain", IF_MATCH, &[]).await, Code::CONTENT);
    assert_eq!(code("/plain", IF_MATCH, &[7]).await, failed);
}

#[tokio::test]
async fn etag_handler_may_refuse_the_request() {
    let (_server, uri) = start(server()).await;
    let request = client().put(format!("{uri}/secret")).option(IF_MATCH, *b"");
    let reply = send(request).await;
    assert_eq!(
        (reply.code, reply.text()),
        (Code::FORBIDDEN, Some("not for you"))
    );
}

#[tokio::test]
async fn observer_with_current_etag_gets_next_state_with_body() {
    let (state, changes) = (Arc::new(AtomicU64::new(0)), Notifier::new());
    let shown = state.clone();
    let read = move |_: Request| {
        let state = shown.load(Ordering::Relaxed);
        let response = Response::content(ContentFormat::TEXT_PLAIN, state.to_string());
        async move { response.with_etag(state.into()) }
    };
    let resource = get(read).observable(&changes);
    let (serving, _) = start(server().resource("/state", resource)).await;
    // Carob's client sends no ETag in registrations, but others may list their representations. This one also lists
    // the next one, which the server still sends with its body to all observers alike.
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let tags = [0x41, 0, 0x01, 1];
    let register = [&[0x41, 0x01, 0, 1, 7][..], &tags, &[0x20, 0x55], b"state"].concat();
    let mut buffer = [0; 64];
    let address = serving.local_address();
    socket.send_to(&register, address).await.unwrap();
    let length = limited(socket.recv(&mut buffer)).await.unwrap();
    // 2.03 with ETag 0 and Observe 1, without a payload.
    assert_eq!(buffer[1], Code::VALID.0);
    assert_eq!(buffer[5..length], [0x41, 0, 0x21, 1]);
    state.store(1, Ordering::Relaxed);
    changes.changed();
    let length = limited(socket.recv(&mut buffer)).await.unwrap();
    assert_eq!(buffer[1], Code::CONTENT.0);
    assert!(buffer[..length].ends_with(b"\xff1"));
}

#[tokio::test]
async fn later_blocks_ignore_the_etag() {
    let parts = |request: Request| async move {
        let wanted = request.wanted();
        let mut response = Response::content(ContentFormat::OCTET_STREAM, "");
        let (range, more) = wanted.slice(5_000).unwrap();
        // The representation changes to the client's one in the middle of the transfer.
        let tag = if wanted.offset == 0 { 1 } else { 2 };
        response.payload = Payload::Part {
            offset: wanted.offset,
            bytes: large(5_000)[range].to_vec().into(),
            more,
            size: None,
        };
        response.with_etag(tag.into())
    };
    let (_server, uri) = start(server().resource("/parts", get(parts))).await;
    let request = client()
        .get(format!("{uri}/parts"))
        .option(OptionNumber::ETAG, [2])
        .range(1_024, 1_024);
    assert_eq!(send(request).await.code, Code::CONTENT);
}
