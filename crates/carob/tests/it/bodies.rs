//! Block-wise and streamed bodies in both directions.

use crate::common::{client, client_with, impatient, large, limited, resources, send, start};
use carob::server::{Refusal, Request, Resource};
use carob::{Body, Code, Config, Error, QBlockMode};

const MEBIBYTE: usize = 1 << 20;

#[tokio::test]
async fn downloads_a_mebibyte() {
    let (_server, uri) = start(resources()).await;
    let reply = send(client().get(format!("{uri}/large"))).await;
    assert!(reply.bytes() == &large(MEBIBYTE));
}

#[tokio::test]
async fn streams_a_mebibyte_down() {
    let (_server, uri) = start(resources()).await;
    let mut reply = limited(client().get(format!("{uri}/large")).send_streaming())
        .await
        .unwrap();
    assert_eq!(
        (reply.head.code, reply.size),
        (Code::CONTENT, Some(MEBIBYTE as u64))
    );
    let mut body = Vec::new();
    while let Some(chunk) = limited(reply.body.chunk()).await.unwrap() {
        body.extend_from_slice(&chunk);
    }
    assert!(body == large(MEBIBYTE));
    assert_eq!(
        limited(reply.body.chunk()).await.unwrap(),
        None,
        "the end stays the end"
    );
}

#[tokio::test]
async fn streamed_error_response_has_its_diagnostic_payload() {
    let no = |_: Request| async { Refusal::forbidden("no log for you") };
    let builder = resources().resource("/closed", Resource::new().get(no));
    let (_server, uri) = start(builder).await;
    let client = client();
    let closed = limited(client.get(format!("{uri}/closed")).send_streaming())
        .await
        .unwrap();
    let error = limited(closed.success()).await.unwrap_err();
    let Error::Response {
        code, diagnostic, ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(
        (*code, diagnostic.as_deref()),
        (Code::FORBIDDEN, Some("no log for you"))
    );
    let open = limited(client.get(format!("{uri}/large")).send_streaming())
        .await
        .unwrap();
    let mut open = limited(open.success()).await.unwrap();
    assert!(limited(open.body.chunk()).await.unwrap().is_some());
}

#[tokio::test]
async fn slow_handler_generates_its_body_block_by_block() {
    let (_server, uri) = start(resources()).await;
    let reply = send(client().get(format!("{uri}/parts"))).await;
    assert!(reply.bytes() == &large(300_000));
}

#[tokio::test]
async fn uploads_a_mebibyte_that_is_echoed() {
    let (_server, uri) = start(resources()).await;
    let request = client().post(format!("{uri}/echo")).body(large(MEBIBYTE));
    let reply = send(request).await;
    assert_eq!(reply.code, Code::CHANGED);
    assert!(reply.bytes() == &large(MEBIBYTE));
}

#[tokio::test]
async fn streams_a_mebibyte_up_from_a_reader() {
    let (_server, uri) = start(resources()).await;
    let body = Body::reader(std::io::Cursor::new(large(MEBIBYTE)));
    let reply = send(client().put(format!("{uri}/count")).body(body)).await;
    let sum: u64 = large(MEBIBYTE).iter().map(|byte| u64::from(*byte)).sum();
    assert_eq!(
        reply.text(),
        Some(format!("1024 {MEBIBYTE} {sum}").as_str())
    );
}

#[tokio::test]
async fn upload_body_can_be_written_in_pieces() {
    let (_server, uri) = start(resources()).await;
    let (sender, body) = Body::channel();
    let pushing = tokio::spawn(async move {
        for n in 0..100_u8 {
            sender.send(vec![n; 100]).await.unwrap();
        }
    });
    let reply = send(client().put(format!("{uri}/count")).body(body)).await;
    pushing.await.unwrap();
    assert_eq!(reply.text(), Some("10 10000 495000"));
}

#[tokio::test]
async fn a_short_streamed_body_needs_no_blocks() {
    let (_server, uri) = start(resources()).await;
    let body = Body::reader(std::io::Cursor::new("short"));
    let reply = send(client().post(format!("{uri}/echo")).body(body)).await;
    assert_eq!(reply.text(), Some("short"));
}

#[tokio::test]
async fn requests_a_byte_range() {
    let (_server, uri) = start(resources()).await;
    let client = client();
    let whole = large(MEBIBYTE);
    let ranges = [
        (0, 10),
        (1_000, 100),
        (1_024, 1_024),
        (500_000, 5_000),
        (MEBIBYTE - 3, 100),
    ];
    for path in ["large", "parts"] {
        for (offset, length) in ranges {
            let end = if path == "large" { MEBIBYTE } else { 300_000 };
            let request = client
                .get(format!("{uri}/{path}"))
                .range(offset as u64, length as u64);
            let reply = send(request).await;
            if offset >= end {
                assert_eq!(reply.code, Code::BAD_OPTION, "{path} {offset}");
                continue;
            }
            let expected = &whole[offset..end.min(offset + length)];
            assert!(reply.bytes() == expected, "{path} {offset} {length}");
        }
    }
}

#[tokio::test]
async fn failing_body_reader_fails_the_request() {
    struct Failing;
    impl tokio::io::AsyncRead for Failing {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Err(std::io::Error::other("the disk is gone")))
        }
    }
    let (_server, uri) = start(resources()).await;
    let request = client()
        .put(format!("{uri}/count"))
        .body(Body::reader(Failing));
    let error = limited(request.send()).await.unwrap_err();
    assert_eq!(
        error.report().to_string(),
        "reading the request's body: the disk is gone"
    );
}

#[tokio::test]
async fn download_from_a_stopped_server_fails() {
    let (server, uri) = start(resources()).await;
    let client = client_with(Config::new().parameters(impatient()));
    let mut reply = limited(client.get(format!("{uri}/large")).send_streaming())
        .await
        .unwrap();
    limited(reply.body.chunk()).await.unwrap();
    drop(server);
    let error = loop {
        match limited(reply.body.chunk()).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the body cannot be complete"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, Error::Unreachable { .. } | Error::Timeout { .. }),
        "{error}"
    );
    assert!(
        error.report().to_string().contains(&uri["coap://".len()..]),
        "{error}"
    );
}

#[tokio::test]
async fn upload_to_a_stopped_server_fails() {
    let (server, uri) = start(resources()).await;
    let client = client_with(Config::new().parameters(impatient()));
    let (sender, body) = Body::channel();
    let request = client.put(format!("{uri}/count")).body(body);
    let request = tokio::spawn(async move { request.send().await });
    limited(sender.send(large(50_000))).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    drop(server);
    limited(sender.send(large(50_000))).await.unwrap();
    drop(sender);
    let error = limited(request).await.unwrap().unwrap_err();
    assert!(
        matches!(error, Error::Unreachable { .. } | Error::Timeout { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn dropping_the_body_stops_the_transfer() {
    let (_server, uri) = start(resources()).await;
    let client = client();
    let mut reply = limited(client.get(format!("{uri}/large")).send_streaming())
        .await
        .unwrap();
    limited(reply.body.chunk()).await.unwrap();
    assert_eq!(limited(client.usage()).await.unwrap().requests, 1);
    drop(reply);
    limited(async {
        while client.usage().await.unwrap().requests > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn streamed_upload_blocks_are_one_body_despite_observe() {
    let (server, _) = start(resources()).await;
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(server.local_address()).await.unwrap();
    // PUT /count with Observe and the first block of 16 bytes, then the last block without Observe.
    let first = b"\x40\x03\x00\x01\x60\x55count\xd1\x03\x08\xff0123456789abcdef";
    let last = b"\x40\x03\x00\x02\xb5count\xd1\x03\x10\xffghij";
    let mut codes = Vec::new();
    for block in [&first[..], last] {
        socket.send(block).await.unwrap();
        let mut answer = [0; 100];
        limited(socket.recv(&mut answer)).await.unwrap();
        codes.push(Code(answer[1]));
    }
    assert_eq!(codes, [Code::CONTINUE, Code::CHANGED]);
}

#[tokio::test]
async fn q_block_bodies_in_both_directions() {
    let (_server, uri) = start(resources()).await;
    for confirmable in [true, false] {
        let request = client()
            .post(format!("{uri}/echo"))
            .body(large(100_000))
            .confirmable(confirmable)
            .q_block(QBlockMode::On);
        let reply = send(request).await;
        assert_eq!(reply.code, Code::CHANGED);
        assert!(reply.bytes() == &large(100_000), "{confirmable}");
    }
}

#[tokio::test]
async fn q_block_is_rejected_if_disabled() {
    let config = Config::new().engine(|engine| engine.q_block.accept = false);
    let (_server, uri) = start(resources().config(config)).await;
    let upload = |mode| {
        let request = client().post(format!("{uri}/echo")).body(large(5_000));
        limited(request.q_block(mode).send())
    };
    let rejected = upload(QBlockMode::On).await.unwrap();
    assert_eq!(rejected.code, Code::BAD_OPTION);
    let reply = upload(QBlockMode::Auto).await.unwrap();
    assert!(reply.bytes() == &large(5_000));
}
