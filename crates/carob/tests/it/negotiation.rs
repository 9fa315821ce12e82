//! Content negotiation: Accept and Content-Format.

use crate::common::{client, send, start};
use carob::server::{Request, Resource, fixed, get};
use carob::{Code, ContentFormat, Reply, Response, Server};

const JSON: ContentFormat = ContentFormat::JSON;
const CBOR: ContentFormat = ContentFormat::CBOR;
const TEXT: ContentFormat = ContentFormat::TEXT_PLAIN;

fn server() -> carob::server::ServerBuilder {
    Server::builder()
        .bind("127.0.0.1:0")
        .resource(
            "/handlers",
            Resource::new()
                .get_as(JSON, |_| async { Response::new(Code::CONTENT) })
                .get_as(CBOR, |_| async { Response::new(Code::CONTENT) }),
        )
        .resource(
            "/fixed",
            Resource::new().fixed_as(CBOR, "c").fixed_as(JSON, "json"),
        )
        .resource(
            "/mixed",
            fixed("text").get_as(JSON, |_| async { Response::new(Code::CONTENT) }),
        )
        .resource(
            "/fails",
            Resource::new().get_as(JSON, |_| async { Code::NOT_FOUND }),
        )
        .resource(
            "/patched",
            get(|_: Request| async { "x" })
                .patch(|_| async { Code::CHANGED })
                .put(|_| async { Code::CHANGED })
                .takes(
                    Code::PATCH,
                    [ContentFormat::MERGE_PATCH, ContentFormat::JSON_PATCH],
                ),
        )
}

async fn get_in(uri: &str, path: &str, accept: Option<ContentFormat>) -> Reply {
    let mut request = client().get(format!("{uri}{path}"));
    if let Some(format) = accept {
        request = request.accept(format);
    }
    send(request).await
}

#[tokio::test]
async fn accept_selects_the_format_and_the_first_is_default() {
    let (_server, uri) = start(server()).await;
    for (path, accept, format) in [
        ("/handlers", None, JSON),
        ("/handlers", Some(JSON), JSON),
        ("/handlers", Some(CBOR), CBOR),
        ("/fixed", None, CBOR),
        ("/fixed", Some(JSON), JSON),
        ("/mixed", None, TEXT),
        ("/mixed", Some(TEXT), TEXT),
        ("/mixed", Some(JSON), JSON),
    ] {
        let reply = get_in(&uri, path, accept).await;
        assert_eq!(
            (reply.code, reply.format()),
            (Code::CONTENT, Some(format)),
            "{path} {accept:?}"
        );
    }
    assert_eq!(
        get_in(&uri, "/fixed", Some(JSON)).await.text(),
        Some("json")
    );
}

#[tokio::test]
async fn unavailable_format_gets_4_06() {
    let (_server, uri) = start(server()).await;
    for path in ["/handlers", "/fixed", "/mixed"] {
        let reply = get_in(&uri, path, Some(ContentFormat::EXI)).await;
        assert_eq!(reply.code, Code::NOT_ACCEPTABLE, "{path}");
    }
}

#[tokio::test]
async fn error_response_has_no_content_format() {
    let (_server, uri) = start(server()).await;
    let reply = get_in(&uri, "/fails", None).await;
    assert_eq!((reply.code, reply.format()), (Code::NOT_FOUND, None));
}

#[tokio::test]
async fn unsupported_content_format_gets_4_15() {
    let (_server, uri) = start(server()).await;
    let send = |method, format: Option<ContentFormat>| {
        let mut request = client()
            .request(method, format!("{uri}/patched"))
            .body("{}");
        if let Some(format) = format {
            request = request.content_format(format);
        }
        async { send(request).await.code }
    };
    let refused = Code::UNSUPPORTED_CONTENT_FORMAT;
    assert_eq!(
        send(Code::PATCH, Some(ContentFormat::MERGE_PATCH)).await,
        Code::CHANGED
    );
    assert_eq!(send(Code::PATCH, Some(JSON)).await, refused);
    assert_eq!(
        send(Code::PATCH, None).await,
        Code::CHANGED,
        "the request has no Content-Format"
    );
    assert_eq!(
        send(Code::PUT, Some(JSON)).await,
        Code::CHANGED,
        "PUT accepts any format"
    );
    assert_eq!(send(Code::POST, Some(JSON)).await, Code::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn the_formats_and_the_largest_size_are_listed() {
    let (_server, uri) = start(server()).await;
    let list = get_in(&uri, "/.well-known/core", None).await;
    assert_eq!(
        list.text(),
        Some(
            "</handlers>;ct=\"50 60\",</fixed>;ct=\"60 50\";sz=4,</mixed>;ct=\"0 50\",\
             </fails>;ct=50,</patched>"
        )
    );
}

#[tokio::test]
async fn handler_without_format_replaces_earlier_ones() {
    let resource = fixed("old")
        .get_as(JSON, |_| async { "old" })
        .get(|_| async { "new" });
    let (_server, uri) = start(server().resource("/new", resource)).await;
    assert_eq!(get_in(&uri, "/new", None).await.text(), Some("new"));
    // The handler returns text, so Accept with JSON gets 4.06 (RFC 7252 5.10.4).
    let refused = get_in(&uri, "/new", Some(JSON)).await;
    assert_eq!(refused.code, Code::NOT_ACCEPTABLE);
}
