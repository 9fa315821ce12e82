//! Functions over arbitrary bytes, for each part of this crate that parses input before a library
//! or the engine does. The fuzz targets (`fuzz/`) and the tests call the same functions. A function
//! panics if an invariant is violated.
//!
//! There only for tests and with `--cfg fuzzing`, which `cargo fuzz` sets.

#![allow(clippy::missing_panics_doc, reason = "that is what they are for")]

#[cfg(test)]
#[path = "../../../vectors/corpus/replay.rs"]
mod replay;

use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{FrameReader, Framing, Uri};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::Message;

use crate::proxy::Allow;
use crate::server::{Router, fixed};
use crate::transport::dtls::{
    ClientSession, ClientSessions, Credential, PreSharedKey, SESSION_BUFFER, SessionOutput,
};
use crate::transport::dtls::{hello::Cookies, hello::Hello, record};
use crate::transport::websocket;

fn from(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

/// A client's session after its ClientHello takes any datagram, and has a session from none that was not
/// made for it.
fn heard_by_a_client(datagram: &[u8]) {
    static SESSIONS: LazyLock<ClientSessions> = LazyLock::new(|| {
        let key = PreSharedKey::from_text("device", "secret").expect("a key");
        ClientSessions::new(&Credential::PreSharedKey(key)).expect("it can be used")
    });
    let session = SESSIONS.connect(Instant::ZERO, from(5684), None);
    let mut session = session.expect("it begins");
    let mut buffer = vec![0; SESSION_BUFFER];
    let mut drain = |session: &mut ClientSession| {
        for _ in 0..100 {
            match session.poll(&mut buffer) {
                SessionOutput::Nothing => return,
                SessionOutput::Datagram { .. } | SessionOutput::Failed(_) => {}
                other => panic!("nobody has proven to have the key: {other:?}"),
            }
        }
        panic!("it does not stop");
    };
    drain(&mut session);
    session.receive(Instant::ZERO, datagram);
    drain(&mut session);
    assert!(session.send(b"in the clear?").is_err());
}

/// Parses a datagram as DTLS records. The reply to a ClientHello is a HelloVerifyRequest of fewer
/// bytes, whose cookie is valid for that client and no other address.
pub fn dtls(datagram: &[u8]) {
    let mut length = 0;
    for record in record::records(datagram) {
        length += record.length();
        let _ = (record.is_change(), record.message_number());
        assert!(record.chosen_suite().is_none() || record.message_type() == Some(2));
        assert!(record.message_type().is_none() || record.is_handshake());
        assert!(record.sequence < 1 << 48);
    }
    assert!(length <= datagram.len());
    heard_by_a_client(datagram);
    let Some(hello) = Hello::read(datagram) else {
        return;
    };
    assert!(hello.record().len() <= datagram.len());
    assert!(hello.suites().count() <= datagram.len() / 2);
    let bare = hello.without_cookie();
    let bare = Hello::read(&bare).expect("it is one");
    assert_eq!(
        (bare.random(), bare.cookie()),
        (hello.random(), None),
        "it is the same, without its cookie"
    );
    assert!(bare.suites().eq(hello.suites()));
    let cookies = Cookies::new([7; 32]);
    let now = Instant::ZERO + Duration::from_secs(90);
    assert!(
        cookies.check(now, from(1), None, &hello).is_none(),
        "it is guessed"
    );
    let Some(answer) = cookies.ask(now, from(1), None, &hello) else {
        return;
    };
    assert!(answer.len() <= hello.record().len(), "it is amplified");
    // The same with the input as message 1.
    let mut again = hello.without_cookie();
    let cookie = &answer[answer.len() - 32..];
    let at = record::RECORD_HEADER + record::HANDSHAKE_HEADER + 34;
    let at = at + 1 + usize::from(again[at]);
    again[at] = 32;
    let rest = again.split_off(at + 1);
    again.extend_from_slice(cookie);
    again.extend_from_slice(&rest);
    again[record::RECORD_HEADER + 5] = 1;
    for (place, head) in [(12, 13), (16, 25), (24, 25)] {
        let length = again.len() - head;
        let Ok([high, low]) = u16::try_from(length).map(u16::to_be_bytes) else {
            return; // with a cookie it fits no record
        };
        (again[place - 1], again[place]) = (high, low);
    }
    let again = Hello::read(&again).expect("it is one");
    assert_eq!(again.cookie().as_ref().map(|c| &c[..]), Some(cookie));
    assert!(cookies.check(now, from(1), None, &again).is_some());
    assert!(cookies.check(now, from(2), None, &again).is_none());
}

/// Patterns of allowed hosts of a proxy, a line each, and after an empty line URIs: patterns survive a
/// round trip, and admit no other hosts.
pub fn allow(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    let (patterns, uris) = text.split_once("\n\n").unwrap_or((text, ""));
    let addresses = [
        "192.0.2.7",
        "127.0.0.1",
        "::1",
        "2001:db8::7",
        "224.0.1.187",
    ];
    for pattern in patterns.lines() {
        let Ok(pattern) = pattern.parse::<Allow>() else {
            continue;
        };
        let written = pattern.to_string();
        assert_eq!(written.parse().as_ref(), Ok(&pattern), "{written}");
        for uri in uris.lines().filter_map(|uri| Uri::parse(uri).ok()) {
            let may = pattern.may_admit(&uri);
            for address in addresses {
                let address = address.parse().expect("an address");
                let admits = pattern.admits(&uri, SocketAddr::new(address, uri.port()));
                assert!(may || !admits, "{written} {uri}");
                assert!(!(admits && address.is_multicast()), "{written} {uri}");
            }
        }
    }
}

/// Routes request paths. The input holds one path of a resource a line and, after an empty line,
/// the requested paths; a path without parameters finds its own resource.
pub fn paths(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    let (served, asked) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut router = Router::default();
    for path in served.lines().take(64) {
        router.add(path, fixed("x"));
    }
    let key_of = |path: &str| {
        let mut key = Vec::new();
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            Router::push_segment(&mut key, segment.as_bytes());
        }
        key
    };
    for path in asked.lines().chain(served.lines().take(64)) {
        let key = key_of(path);
        // What cannot be looked up is longer than any option.
        let found = router.find(&key);
        let literal = !path.contains(['{', '}', '*']) && path.len() < 256;
        let is_served = served.lines().take(64).any(|other| key_of(other) == key);
        assert!(!(literal && is_served) || found.is_some(), "{path}");
        if let (Some(route), true) = (found, literal && is_served) {
            assert_eq!(key_of(&route.pattern.to_string()), key, "{path}");
        }
    }
}

/// A file of keys is read, or the line named that is wrong.
pub fn keys(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    match PreSharedKey::read_all(text) {
        Ok(keys) => {
            assert!(!keys.is_empty() && keys.len() <= text.lines().count());
            for key in keys {
                assert!((1..=256).contains(&key.key.len()));
                assert!((1..=256).contains(&key.identity().len()));
                let secret = format!("{:?}", String::from_utf8_lossy(&key.key));
                let shown = format!("{key:?}");
                let hidden = key.key.len() < 8 || secret.len() > 60 || !shown.contains(&secret);
                let same = key
                    .identity()
                    .windows(key.key.len())
                    .any(|w| w == key.key.as_slice());
                assert!(hidden || same, "{shown}");
            }
        }
        Err(error) => {
            let _ = error.to_string();
        }
    }
}

/// The head of an HTTP request for metrics: one status, and nothing but metrics in the body.
#[cfg(feature = "prometheus")]
pub fn scrape(head: &[u8]) {
    let (status, body) = crate::metrics::respond_to_scraper(head);
    let known = [
        "200 OK",
        "400 Bad Request",
        "404 Not Found",
        "405 Method Not Allowed",
        "421 Misdirected Request",
    ];
    assert!(known.contains(&status), "{status}");
    assert!(status != known[0] || head.windows(9).any(|part| part == b" /metrics"));
    assert!(body.len() < 100_000);
}

/// Input of a peer, without an output.
struct Wire(Cursor<Vec<u8>>);

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The longest message that is taken here.
const MAX_MESSAGE: usize = 1_152;

/// The handshake that a WebSocket's peer is to send first; an input may begin with anything else.
const HANDSHAKE: &[u8] = b"GET /.well-known/coap HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: coap\r\n\r\n";

/// A WebSocket's handshake and frames. If the first byte is even, the handshake is a good one and the input
/// is frames. It ends; and no message is longer than we take.
pub fn websocket(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let mut bytes = if first & 1 == 0 {
        HANDSHAKE.to_vec()
    } else {
        Vec::new()
    };
    bytes.extend_from_slice(rest);
    let stream = Wire(Cursor::new(bytes));
    let taken = async {
        let Ok(mut stream) = websocket::accept(stream, MAX_MESSAGE, &[]).await else {
            return;
        };
        let mut reader = FrameReader::new(Framing::WebSocket, MAX_MESSAGE as u32);
        while let Some(Ok(message)) = stream.next().await {
            assert!(message.len() <= MAX_MESSAGE);
            if let Message::Binary(bytes) = message {
                reader.push(&bytes);
                if reader.next().is_err() {
                    return;
                }
            }
        }
    };
    // Everything is there, so that nothing is waited for.
    assert!(taken.now_or_never().is_some(), "it does not end");
}

#[cfg(test)]
mod tests {
    use super::replay::replay;
    use super::*;

    #[test]
    fn any_datagram_is_read_as_dtls_or_left() {
        replay("dtls", 2_000, dtls);
    }

    #[test]
    fn any_allow_pattern_is_refused_or_round_trips() {
        replay("allow", 2_000, allow);
    }

    #[test]
    fn any_path_is_routed_to_its_resource() {
        replay("paths", 1_000, paths);
    }

    #[test]
    fn any_file_of_keys_is_refused_or_read_without_showing_them() {
        replay("keys", 2_000, keys);
    }

    #[cfg(feature = "prometheus")]
    #[test]
    fn any_request_of_a_scraper_has_a_status() {
        replay("scrape", 2_000, scrape);
    }

    #[test]
    fn any_handshake_and_frames_of_a_websocket_end() {
        replay("websocket", 1_000, websocket);
    }
}
