//! A small flood from 10,000 loopback addresses. With the defences, honest clients are served during and after it and
//! tables stay within their limits; without them the first sources occupy everything.
//!
//! `cargo xtask long flood` runs a large one against a separate process.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::{client, limited, resources, start};
use carob::server::{Notifier, Request, Resource, get};
use carob::{Code, Config};

const SOURCES: u32 = 10_000;
/// Sources per batch; their datagrams fit into the server's socket buffer.
const TOGETHER: u32 = 24;
const FIRST: u32 = 0x7f20_0000;

/// One datagram of each kind that takes an entry in one of the server's tables.
fn datagrams() -> Vec<Vec<u8>> {
    // Distinct Message IDs: equal ones would be duplicates.
    let mut id = 0;
    let mut message = |first: u8, code: u8, rest: &[u8]| {
        id += 1;
        let mut bytes = vec![first | 2, code, 0x12, id, 0xaa, 0xbb];
        bytes.extend_from_slice(rest);
        bytes
    };
    vec![
        message(0x40, 1, b"\xb5hello"),
        message(0x40, 1, b"\xb5never"),
        message(0x50, 2, b"\xb4echo\xffx"),
        message(0x40, 2, b"\xb4echo\xffx"),
        message(0x40, 1, b"\x60\x55state"),
        // Block1 0/M/16.
        message(0x40, 3, b"\xb4echo\xd1\x03\x08\xff0123456789abcdef"),
        vec![0xff, 0x13, 0x37],
    ]
}

fn flood(to: SocketAddr) {
    let datagrams = datagrams();
    let pinging = UdpSocket::bind("127.0.0.1:0").expect("loopback has this address");
    let patience = Some(Duration::from_millis(500));
    pinging.set_read_timeout(patience).expect("it is not zero");
    for source in FIRST..FIRST + SOURCES {
        let from = SocketAddr::from((source.to_be_bytes(), 0));
        let socket = UdpSocket::bind(from).expect("loopback has this address");
        for bytes in &datagrams {
            let _ = socket.send_to(bytes, to);
        }
        if source % TOGETHER == 0 {
            wait_for(&pinging, to);
        }
    }
    wait_for(&pinging, to);
}

/// Waits until the server has read all datagrams. Drops by a full socket buffer would depend on the machine's load and
/// not on the server.
fn wait_for(pinging: &UdpSocket, to: SocketAddr) {
    const PING: [u8; 4] = [0x40, 0, 0, 1];
    for _ in 0..20 {
        let _ = pinging.send_to(&PING, to);
        if pinging.recv(&mut [0; 16]).is_ok() {
            return;
        }
    }
    panic!("the server reads nothing any more");
}

/// Success of an honest client after a flood: a request to a handler, a POST, an observation and a block-wise body.
async fn afterwards(unvalidated_share: usize) -> [bool; 4] {
    let settings = Config::new().engine(|config| {
        let limits = &mut config.limits;
        limits.unvalidated_share = unvalidated_share;
        (
            limits.incoming,
            limits.dedup_non_idempotent,
            limits.observers,
        ) = (1_000, 1_000, 400);
        (limits.peers, limits.uploads, limits.responses) = (1_000, 100, 1_000);
    });
    let changes = Notifier::new();
    let state = get(|_: Request| async { "state" }).observable(&changes);
    let builder = resources().resource("/state", state).resource(
        "/add",
        Resource::new().post(|_: Request| async { Code::CHANGED }),
    );
    let (server, uri) = start(builder.config(settings).handlers(100)).await;
    let to = server.local_address();
    let flooding = tokio::task::spawn_blocking(move || flood(to));
    let client = client();
    let (mut served, mut waits) = (0, Vec::new());
    while !flooding.is_finished() {
        let began = Instant::now();
        let request = client.get(format!("{uri}/hello"));
        let reply = request.timeout(Duration::from_secs(5)).await;
        waits.push(began.elapsed());
        served += usize::from(reply.is_ok_and(|reply| reply.text() == Some("hello")));
    }
    assert!(waits.len() > 2, "{waits:?}");
    assert_eq!(served, waits.len(), "fixed content was not served");
    waits.sort_unstable();
    // A later response would have been to a retransmission, which is sent after 2 s at the earliest (RFC 7252 4.8).
    let p99 = waits[(waits.len() * 99).div_ceil(100) - 1];
    assert!(p99 < Duration::from_secs(2), "{p99:?} of {}", waits.len());
    let usage = server.client().usage().await.expect("it runs");
    assert!(usage.incoming <= 1_000 && usage.peers <= 1_000, "{usage:?}");
    assert!(
        usage.observers <= 400 && usage.uploads.0 <= 100,
        "{usage:?}"
    );
    assert!(usage.responses <= 1_000, "{usage:?}");
    let handled = client.get(format!("{uri}/parts")).await;
    let posted = client.post(format!("{uri}/add")).await;
    let observed = client.get(format!("{uri}/state")).observe().await;
    let put = client.put(format!("{uri}/echo")).body(vec![7; 5_000]).await;
    let has = |reply: Result<carob::Reply, carob::Error>, code| {
        reply.is_ok_and(|reply| reply.code == code)
    };
    let observes = match observed {
        Ok(mut observation) => {
            let mut told = true;
            // The first notification may be the state of the registration.
            for _ in 0..2 {
                changes.changed();
                let next = tokio::time::timeout(Duration::from_secs(2), observation.next());
                told &= next.await.is_ok_and(|state| state.is_some());
            }
            told
        }
        Err(_) => false,
    };
    [
        has(handled, Code::CONTENT),
        has(posted, Code::CHANGED),
        observes,
        has(put, Code::CREATED),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_served_after_a_flood() {
    limited(async {
        assert_eq!(afterwards(75).await, [true; 4]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_flood_fills_a_server_without_limits() {
    limited(async {
        assert_eq!(afterwards(100).await, [false; 4]);
    })
    .await;
}
