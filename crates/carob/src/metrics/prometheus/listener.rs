//! As much of HTTP as a scraper needs: GET /metrics, one answer to a connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::Prometheus;
use crate::http_host;

/// Connections at once. At it, another one takes the place of the oldest that has not sent its request,
/// or else of the oldest.
const CONNECTIONS: usize = 32;
/// Bytes of a request's head; a longer one is answered 431.
const HEAD_BYTES: usize = 8 << 10;
/// Time limit for a request; then its connection is closed.
const HEAD_TIME: Duration = Duration::from_secs(2);
/// Time limit for a whole connection; then it is closed.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Pause after the system has refused a connection, for example for want of descriptors.
const REST: Duration = Duration::from_millis(100);

/// A connection in progress; dropping it closes it.
struct Connection {
    task: JoinHandle<()>,
    has_asked: Arc<AtomicBool>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) async fn serve(prometheus: Prometheus, listener: TcpListener) {
    let mut connections: Vec<Connection> = Vec::with_capacity(CONNECTIONS);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "no connection for metrics");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        connections.retain(|connection| !connection.task.is_finished());
        if connections.len() >= CONNECTIONS {
            let silent = |connection: &Connection| !connection.has_asked.load(Ordering::Relaxed);
            connections.remove(connections.iter().position(silent).unwrap_or(0));
        }
        let has_asked = Arc::new(AtomicBool::new(false));
        let (prometheus, asked) = (prometheus.clone(), Arc::clone(&has_asked));
        let task = tokio::spawn(async move {
            let answer = answer(stream, &prometheus, &asked);
            match tokio::time::timeout(CONNECTION_TIME, answer).await {
                Ok(Err(error)) => tracing::debug!(%error, "a scraper was not answered"),
                Ok(Ok(())) => {}
                Err(_) => tracing::debug!("a scraper took too long"),
            }
        });
        connections.push(Connection { task, has_asked });
    }
}

/// Reads the head of a request, its end included if it has come.
async fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !ends(&head) && head.len() < HEAD_BYTES {
        let mut piece = [0; 1_024];
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&piece[..read]);
    }
    Ok(head)
}

fn ends(head: &[u8]) -> bool {
    head.windows(4).any(|four| four == b"\r\n\r\n")
}

async fn answer(
    mut stream: TcpStream,
    prometheus: &Prometheus,
    asked: &AtomicBool,
) -> io::Result<()> {
    let head = tokio::time::timeout(HEAD_TIME, head(&mut stream)).await??;
    asked.store(true, Ordering::Relaxed);
    let (status, body) = if ends(&head) {
        respond(&head, prometheus)
    } else {
        // RFC 6585 5.
        ("431 Request Header Fields Too Large", String::new())
    };
    // Content-Length is the same as for GET (RFC 9110 9.3.2).
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
        // Before the path: a page whose name leads here (DNS rebinding) learns nothing.
        _ if !is_own(host(head), prometheus) => {
            let text = "the name in Host is not served here: use an address or localhost, or name it \
                        with --metrics-host\n";
            ("421 Misdirected Request", text.into())
        }
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => ("200 OK", prometheus.render()),
        (Some(b"GET" | b"HEAD"), _) => ("404 Not Found", "the metrics are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", String::new()),
    }
}

/// The value of a request's Host field; nothing without the field.
fn host(head: &[u8]) -> Option<&[u8]> {
    let mut lines = head.split(|&byte| byte == b'\n').skip(1);
    lines.find_map(|line| {
        let (name, value) = line.split_at_checked(5)?;
        name.eq_ignore_ascii_case(b"host:").then_some(value)
    })
}

/// Returns whether a request for this host is for us. A page of a browser that has its own name lead here (DNS
/// rebinding) cannot choose the browser's Host header.
fn is_own(host: Option<&[u8]>, prometheus: &Prometheus) -> bool {
    let Some(host) = host else {
        return true; // no browser leaves it out
    };
    let host = std::str::from_utf8(host);
    host.is_ok_and(|host| http_host::is_own(http_host::without_port(host), &prometheus.hosts))
}
