//! As much of HTTP as a scraper needs: GET /metrics, one answer to a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Prometheus;

/// Connections at once; further ones wait in the system's queue.
const CONNECTIONS: usize = 8;
/// Bytes of a request's head; a longer one is answered 431.
const HEAD_BYTES: usize = 8 << 10;
/// What a connection may take altogether; then it is closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait after the system has refused a connection, for want of descriptors, say.
const REST: Duration = Duration::from_millis(100);

pub(super) async fn serve(prometheus: Prometheus, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return; // it is never closed
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "no connection for metrics");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let prometheus = prometheus.clone();
        tokio::spawn(async move {
            let answered = tokio::time::timeout(PATIENCE, answer(stream, &prometheus)).await;
            if let Ok(Err(error)) = answered {
                tracing::debug!(%error, "a scraper was not answered");
            }
            drop(place);
        });
    }
}

async fn answer(mut stream: TcpStream, prometheus: &Prometheus) -> io::Result<()> {
    let mut head = Vec::new();
    let ends = |head: &[u8]| head.windows(4).any(|four| four == b"\r\n\r\n");
    while !ends(&head) {
        if head.len() >= HEAD_BYTES {
            break;
        }
        let mut piece = [0; 1_024];
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        head.extend_from_slice(&piece[..read]);
    }
    let (status, body) = if ends(&head) {
        respond(&head, prometheus)
    } else {
        ("431 Request Header Fields Too Large", String::new())
    };
    let only_head = head.starts_with(b"HEAD ");
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nAllow: GET, HEAD\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if !only_head {
        bytes.push_str(&body);
    }
    stream.write_all(bytes.as_bytes()).await?;
    stream.shutdown().await
}

/// The status and body of the response to a request with this head.
pub(super) fn respond(head: &[u8], prometheus: &Prometheus) -> (&'static str, String) {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|version| version.starts_with(b"HTTP/1."));
    let path = target.and_then(|target| target.split(|&byte| byte == b'?').next());
    match (method, path) {
        _ if !is_http => ("400 Bad Request", String::new()),
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => ("200 OK", prometheus.render()),
        (Some(b"GET" | b"HEAD"), _) => ("404 Not Found", "what there is is at /metrics\n".into()),
        _ => ("405 Method Not Allowed", String::new()),
    }
}
