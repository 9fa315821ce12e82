//! Refusals returned by handlers with `?`, as seen by the client.

use std::time::Duration;

use crate::common::{client, limited, start};
use carob::server::{Refusal, Request, ServerBuilder, get};
use carob::{Code, ContentFormat, DIAGNOSTIC_BYTES, Error, Response, Server};

async fn level(request: Request) -> Result<String, Refusal> {
    let text = request
        .query_value("level")
        .ok_or_else(|| Refusal::bad_request("which level?"))?;
    let level: u8 = text.parse()?;
    if level > 100 {
        return Err(Refusal::unprocessable_entity("the level is a percentage"));
    }
    Ok(level.to_string())
}

fn server() -> ServerBuilder {
    Server::builder()
        .bind("127.0.0.1:0")
        .resource("/level", get(level))
        .resource(
            "/busy",
            get(|_| async {
                Refusal::service_unavailable("later").with_max_age(Duration::from_secs(7))
            }),
        )
        .resource(
            "/crowded",
            get(|_| async { Refusal::too_many_requests("") }),
        )
        .resource(
            "/problem",
            get(|_| async {
                Response::diagnostic(Code::BAD_REQUEST, "{}").with_format(ContentFormat::JSON)
            }),
        )
        .resource(
            "/long",
            get(|_| async { Refusal::not_found("\u{fc}".repeat(DIAGNOSTIC_BYTES)) }),
        )
        .resource("/rude", get(|_| async { Refusal::not_found("a\x1b[2Jb") }))
}

async fn ask(uri: &str, path: &str) -> Result<String, Error> {
    let reply = limited(client().get(format!("{uri}{path}")).send()).await?;
    Ok(reply.success()?.text().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn refusal_text_of_handler_reaches_client_error() {
    let (_server, uri) = start(server()).await;
    assert_eq!(ask(&uri, "/level?level=7").await.unwrap(), "7");
    for (path, text) in [
        ("/level", "4.00 Bad Request: which level?"),
        (
            "/level?level=101",
            "4.22 Unprocessable Entity: the level is a percentage",
        ),
        (
            "/level?level=x",
            "5.00 Internal Server Error: invalid digit found in string",
        ),
        ("/nowhere", "4.04 Not Found: no such resource"),
        (
            "/busy",
            "5.03 Service Unavailable: later (try again in 7 s)",
        ),
        ("/crowded", "4.29 Too Many Requests (try again in 60 s)"),
        ("/problem", "4.00 Bad Request"),
        ("/rude", "4.04 Not Found: a\\u{1b}[2Jb"),
    ] {
        assert_eq!(
            ask(&uri, path).await.unwrap_err().to_string(),
            text,
            "{path}"
        );
    }
}

#[tokio::test]
async fn error_has_code_diagnostic_and_time() {
    let (_server, uri) = start(server()).await;
    let error = ask(&uri, "/busy").await.unwrap_err();
    let Error::Response {
        code,
        diagnostic,
        retry_after,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(code, Code::SERVICE_UNAVAILABLE);
    assert_eq!(diagnostic.as_deref(), Some("later"));
    assert_eq!(retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn long_diagnostic_payload_is_truncated() {
    let (_server, uri) = start(server()).await;
    let error = ask(&uri, "/long").await.unwrap_err();
    let Error::Response {
        diagnostic: Some(text),
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(text, "\u{fc}".repeat(DIAGNOSTIC_BYTES / 2));
}
