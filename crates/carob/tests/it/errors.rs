//! Errors and refusals as the client sees them.

use std::time::{Duration, Instant};

use carob::server::{Refusal, Request, ServerBuilder, get};
use carob::{Client, Code, Config, ContentFormat, DIAGNOSTIC_BYTES, Error, Response, Server};

use crate::common::{
    client, client_with, closed_port, impatient, limited, resources, send, silent_peer, start,
};

#[cfg(target_os = "linux")]
#[tokio::test]
async fn closed_port_fails_at_once() {
    let peer = closed_port();
    let began = Instant::now();
    let error = limited(client().get(format!("coap://{peer}/")).send())
        .await
        .unwrap_err();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let text = error.report().to_string();
    assert!(
        text.starts_with(&format!("{peer} cannot be reached: Connection refused")),
        "{text}"
    );
    assert!(error.remedy().is_some());
    let error = limited(client().ping(format!("coap://{peer}/")))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn closed_port_does_not_affect_requests_to_others() {
    let (_server, uri) = start(resources()).await;
    let client = client();
    let slow = client.get(format!("{uri}/slow"));
    let slow = tokio::spawn(async move { slow.send().await });
    for _ in 0..20 {
        let refused = client.get(format!("coap://{}/", closed_port())).send();
        assert!(matches!(
            limited(refused).await,
            Err(Error::Unreachable { .. })
        ));
        let reply = limited(client.get(format!("{uri}/hello")).send()).await;
        // With NSTART 1 this request is queued behind the slow one; refused requests do not affect it.
        assert_eq!(reply.unwrap().text(), Some("hello"));
    }
    assert_eq!(
        limited(slow).await.unwrap().unwrap().text(),
        Some("at last")
    );
}

#[tokio::test]
async fn timeout_error_has_the_number_of_transmissions() {
    let (_peer, address) = silent_peer();
    let client = client_with(Config::new().parameters(impatient()));
    let error = limited(client.get(format!("coap://{address}/")).send())
        .await
        .unwrap_err();
    let text = error.report().to_string();
    assert!(error.is_timeout(), "{text}");
    assert!(
        text.contains(&address.to_string()) && text.contains("3 transmissions"),
        "{text}"
    );
}

#[tokio::test]
async fn a_deadline_ends_the_wait() {
    let (_peer, address) = silent_peer();
    let request = client()
        .get(format!("coap://{address}/"))
        .timeout(Duration::from_millis(50));
    let began = Instant::now();
    let error = limited(request.send()).await.unwrap_err();
    assert!(
        error.is_timeout() && error.report().to_string().contains("deadline"),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn unresolvable_host_is_named() {
    let error = limited(client().get("coap://no-such-host.invalid/x").send())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Resolve { .. }), "{error}");
    assert!(
        error
            .report()
            .to_string()
            .contains("\"no-such-host.invalid\""),
        "{error}"
    );
}

#[tokio::test]
async fn uri_error_has_the_position() {
    let error = limited(client().get("coap://host:70000/x").send())
        .await
        .unwrap_err();
    let text = error.report().to_string();
    assert!(matches!(error, Error::Uri { .. }), "{text}");
    assert!(
        text.contains("coap://host:70000/x") && text.contains("12"),
        "{text}"
    );
}

#[tokio::test]
async fn unknown_controller_error_lists_known_ones() {
    let error = Config::new()
        .controller_named("cocoa-99")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("\"cocoa-99\"") && error.contains("cocoa-03"),
        "{error}"
    );
}

#[tokio::test]
async fn a_port_in_use_is_named_with_a_remedy() {
    let (server, _) = start(resources()).await;
    let address = server.local_address();
    let error = Server::builder().bind(address).start().await.unwrap_err();
    assert!(
        error
            .report()
            .to_string()
            .starts_with(&format!("cannot bind {address}: ")),
        "{error}"
    );
    assert!(error.remedy().is_some());
    let error = Client::builder().bind(address).open().unwrap_err();
    assert!(
        error.report().to_string().contains(&address.to_string()),
        "{error}"
    );
}

#[tokio::test]
async fn multicast_address_cannot_be_bound() {
    let error = Server::builder()
        .bind("224.0.1.187:0")
        .start()
        .await
        .unwrap_err();
    assert!(
        error.report().to_string().contains("224.0.1.187"),
        "{error}"
    );
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let (_peer, address) = silent_peer();
    let client = client_with(Config::new().engine(|config| config.limits.queue = 2));
    let uri = format!("coap://{address}/");
    // One request is outstanding (NSTART 1) and two are queued.
    let waiting: Vec<_> = (0..3)
        .map(|_| tokio::spawn(client.get(&uri).timeout(Duration::from_secs(2)).send()))
        .collect();
    limited(async {
        while client.usage().await.unwrap().requests < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let error = limited(client.get(&uri).send()).await.unwrap_err();
    assert!(matches!(error, Error::NotSent { .. }), "{error}");
    assert!(
        error
            .report()
            .to_string()
            .contains("the send queue of this peer is full"),
        "{error}"
    );
    for request in &waiting {
        request.abort();
    }
}

#[tokio::test]
async fn a_dropped_request_is_cancelled() {
    let (_peer, address) = silent_peer();
    let client = client();
    let request = client.get(format!("coap://{address}/")).send();
    assert!(
        tokio::time::timeout(Duration::from_millis(30), request)
            .await
            .is_err()
    );
    limited(async {
        while client.usage().await.unwrap().requests > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(client.usage().await.unwrap().exchanges, 0);
}

#[tokio::test]
async fn closed_client_fails_requests() {
    let client = client();
    let other = client.clone();
    limited(client.shutdown(Duration::ZERO)).await;
    let error = limited(other.get("coap://127.0.0.1/").send())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Closed), "{error}");
}

#[tokio::test]
async fn malformed_datagrams_are_ignored() {
    let (server, uri) = start(resources()).await;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut state = 1_u32;
    for length in 0..2_000 {
        let datagram: Vec<u8> = (0..length % 97)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        socket.send_to(&datagram, server.local_address()).unwrap();
    }
    socket
        .send_to(&vec![0x40; 60_000], server.local_address())
        .unwrap();
    let reply = send(client().get(format!("{uri}/hello"))).await;
    assert_eq!(reply.code, Code::CONTENT);
}

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
