//! Attacks by outsiders on CoAP over DTLS.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{in_time, limited};
use crate::secured::{
    Between, builder, client_with, device, hello, impatient, key, keys, serve, serve_with,
};
use carob::server::{Request, Resource};
use carob::{ClientDtls, Code, Config, Error, ServerDtls, SessionLimits};

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port is bound");
    let wait = Some(Duration::from_millis(300));
    socket.set_read_timeout(wait).expect("a time");
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn unvalidated_client_hello_gets_less_and_leaves_no_state() {
    limited(async {
        // Space for one handshake: state kept for a forged hello would occupy it.
        let limits = SessionLimits::new().handshakes(1);
        let (server, address) = serve_with(
            ServerDtls::new().keys(keys()),
            Config::new().sessions(limits),
        )
        .await;
        let (mut sent, mut came) = (0, 0);
        let forged: Vec<UdpSocket> = (0..64).map(|_| socket()).collect();
        for round in 0..8 {
            for socket in &forged {
                let hello = hello(round, &[], 0);
                sent += hello.len();
                socket.send_to(&hello, address).expect("loopback");
                // A guessed cookie is not accepted.
                let guessed = crate::secured::hello(round, &[round; 32], 1);
                sent += guessed.len();
                socket.send_to(&guessed, address).expect("loopback");
            }
        }
        let mut cookies = Vec::new();
        let mut buffer = [0; 2_048];
        for socket in &forged {
            for _ in 0..16 {
                let (length, _) = socket.recv_from(&mut buffer).expect("a cookie");
                assert_eq!(buffer[13], 3, "HelloVerifyRequest");
                cookies.push(buffer[length - 32..length].to_vec());
                came += length;
            }
            socket
                .set_read_timeout(Some(Duration::from_millis(1)))
                .expect("a time");
            assert!(socket.recv_from(&mut buffer).is_err(), "and no more");
        }
        assert!(came <= sent, "{came} bytes for {sent}");
        // A cookie is bound to the address.
        let thief = socket();
        for cookie in &cookies[..16] {
            thief
                .send_to(&hello(0, cookie, 1), address)
                .expect("loopback");
            let (length, _) = thief.recv_from(&mut buffer).expect("another cookie");
            assert_eq!((buffer[13], length), (3, 60), "no ServerHello");
        }
        let peers = server.client().peers().await.expect("it runs");
        assert!(
            peers.is_empty(),
            "state was kept for forged hellos: {peers:?}"
        );
        // With its own cookie a handshake starts; it is evicted when others need the slot.
        let reply = device().get(format!("coaps://{address}/who")).await;
        assert_eq!(reply.expect("an answer").text(), Some("device-1"));
        let own = &cookies[0];
        forged[0]
            .send_to(&hello(0, own, 1), address)
            .expect("loopback");
        forged[0]
            .set_read_timeout(Some(Duration::from_secs(1)))
            .expect("a time");
        let (_, _) = forged[0].recv_from(&mut buffer).expect("an answer");
        assert_eq!(buffer[13], 2, "ServerHello");
        assert!(
            device()
                .get(format!("coaps://{address}/hello"))
                .await
                .is_ok()
        );
    })
    .await;
}

#[test]
fn replayed_records_are_dropped() {
    in_time(async {
        let posts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&posts);
        let count = move |_: Request| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Code::CHANGED }
        };
        let server = builder()
            .resource("/count", Resource::new().post(count))
            .bind_dtls("127.0.0.1:0", ServerDtls::new().keys(keys()))
            .start()
            .await
            .expect("a free port is bound");
        // Each record of either side arrives five times, also after later ones.
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let between = Between::new(
            server.local_address(),
            Box::new(move |_, datagram| {
                seen.push(datagram.to_vec());
                let mut all = vec![datagram.to_vec(); 4];
                all.extend(seen.iter().cloned());
                all
            }),
        );
        let asks = device();
        let uri = format!("coaps://{}/count", between.address);
        for expected in 1..=5 {
            let reply = asks.post(&uri).await.expect("an answer");
            assert_eq!(reply.code, Code::CHANGED);
            assert_eq!(posts.load(Ordering::Relaxed), expected);
        }
    });
}

/// One datagram of each kind that an outsider can forge.
fn forgeries() -> Vec<Vec<u8>> {
    let record = |kind: u8, epoch: u8, body: &[u8]| {
        let mut record = vec![kind, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 1, 0];
        record.extend_from_slice(&(body.len() as u16).to_be_bytes());
        record.extend_from_slice(body);
        record
    };
    let coap = [0x40, 1, 0x12, 0x34, 0xb5, b'h', b'e', b'l', b'l', b'o'];
    vec![
        record(21, 0, &[2, 40]),
        record(21, 0, &[1, 0]),
        record(20, 0, &[1]),
        record(23, 0, &coap),
        record(22, 0, &[16, 0, 0, 2, 0, 9, 0, 0, 0, 0, 0, 2, 0, 0]),
        record(22, 0, &[14, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0]),
        record(22, 1, &[7; 40]),
        record(21, 1, &[7; 26]),
        record(23, 1, &[7; 60]),
        record(23, 9, &[7; 60]),
        coap.to_vec(),
        vec![0; 100],
        vec![0xff; 3],
        Vec::new(),
        [
            record(22, 0, &[20; 12]),
            record(20, 0, &[1]),
            record(22, 1, &[9; 30]),
        ]
        .concat(),
    ]
}

#[test]
fn forged_datagrams_do_not_affect_a_session() {
    in_time(async {
        let (server, address) = serve(ServerDtls::new().keys(keys())).await;
        let heard = Arc::new(Mutex::new(0));
        let between = {
            let live = Arc::clone(&heard);
            Between::new(
                address,
                Box::new(move |_, datagram| {
                    let mut all = Vec::new();
                    // Forty of each forgery precede every record of application data, in both directions.
                    if datagram.first() == Some(&23) {
                        *live.lock().expect("no panic") += 1;
                        for _ in 0..40 {
                            all.extend(forgeries());
                        }
                    }
                    all.push(datagram.to_vec());
                    all
                }),
            )
        };
        let asks = device();
        let uri = format!("coaps://{}/hello", between.address);
        for _ in 0..5 {
            let reply = asks.get(&uri).await.expect("an answer");
            assert_eq!(reply.text(), Some("hello"));
        }
        assert_eq!(
            *heard.lock().expect("no panic"),
            10,
            "one session, no copies"
        );
        drop(server);
    });
}

#[test]
fn client_hello_keeps_live_session_until_handshake_completes() {
    in_time(async {
        let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
        let begun = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&begun);
        let mut cookie: Option<Vec<u8>> = None;
        let mut live = false;
        // An on-path observer sends hellos from the client's address, first without and then with the valid cookie; only the
        // key is missing.
        let between = Between::new(
            address,
            Box::new(move |up, datagram| {
                let (kind, message) = (datagram[0], datagram.get(13).copied());
                live |= kind == 23;
                if up && live {
                    let forged = match cookie.take() {
                        None => hello(7, &[], 0),
                        Some(cookie) => hello(7, &cookie, 1),
                    };
                    return vec![forged, datagram.to_vec()];
                }
                if live && kind == 22 {
                    match message {
                        Some(3) => cookie = Some(datagram[datagram.len() - 32..].to_vec()),
                        _ => _ = seen.fetch_add(1, Ordering::Relaxed),
                    }
                    return Vec::new();
                }
                vec![datagram.to_vec()]
            }),
        );
        let asks = device();
        let uri = format!("coaps://{}/who", between.address);
        for _ in 0..10 {
            let reply = asks.get(&uri).await.expect("an answer");
            assert_eq!(reply.text(), Some("device-1"));
        }
        assert!(
            begun.load(Ordering::Relaxed) > 0,
            "a second handshake started"
        );
    });
}

#[test]
fn new_session_of_restarted_client_replaces_the_old_one() {
    in_time(async {
        let (server, address) = serve(ServerDtls::new().keys(keys())).await;
        let bound = socket();
        let local: SocketAddr = bound.local_addr().expect("bound");
        drop(bound);
        // Two clients in sequence on one port; the close_notify of the first is lost.
        let between = Between::new(
            address,
            Box::new(|up, datagram| {
                let goodbye = up && datagram.first() == Some(&21);
                if goodbye {
                    Vec::new()
                } else {
                    vec![datagram.to_vec()]
                }
            }),
        );
        let who = async |identity: &str, secret: &str| {
            let dtls = ClientDtls::new().psk(key(identity, secret));
            let asks = client_with(Config::new().dtls(dtls));
            let reply = asks.get(format!("coaps://{}/who", between.address)).await;
            reply.expect("an answer").text().map(str::to_owned)
        };
        assert_eq!(
            who("device-1", "secret-1").await.as_deref(),
            Some("device-1")
        );
        let second = who("device-2", "0x0102030405060708").await;
        assert_eq!(second.as_deref(), Some("device-2"), "{local}");
        drop(server);
    });
}

#[test]
fn lru_session_is_closed_with_alert_at_the_limit() {
    in_time(async {
        let limits = SessionLimits::new().sessions(2);
        let (_server, address) = serve_with(
            ServerDtls::new().keys(keys()),
            Config::new().sessions(limits),
        )
        .await;
        let uri = format!("coaps://{address}/hello");
        let clients = [device(), device(), device()];
        for client in &clients[..2] {
            assert!(client.get(&uri).await.is_ok());
        }
        assert!(
            clients[0].get(&uri).await.is_ok(),
            "now the second is the oldest"
        );
        assert!(clients[2].get(&uri).await.is_ok());
        // Delivery of the alert to the evicted client.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let known = async |n: usize| clients[n].peer_identity(address).await.is_some();
        assert!(known(0).await && !known(1).await && known(2).await);
        assert!(clients[1].get(&uri).await.is_ok(), "it makes another");
    });
}

#[test]
fn idle_session_is_closed_on_both_sides() {
    in_time(async {
        let limits = SessionLimits::new().idle(Duration::from_millis(100));
        let (_server, address) = serve_with(
            ServerDtls::new().keys(keys()),
            Config::new().sessions(limits),
        )
        .await;
        let asks = device();
        assert!(asks.get(format!("coaps://{address}/hello")).await.is_ok());
        assert!(asks.peer_identity(address).await.is_some());
        // Three times the idle timeout.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(asks.peer_identity(address).await.is_none());
    });
}

#[test]
fn plaintext_response_is_ignored() {
    in_time(async {
        let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
        let plain = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&plain);
        let mut lost = 0;
        // After the handshake, the server's datagrams are replaced by a plaintext response.
        let between = Between::new(
            address,
            Box::new(move |up, datagram| {
                seen.fetch_add(u64::from(datagram[0] >> 6 == 1), Ordering::Relaxed);
                if up || datagram[0] != 23 {
                    return vec![datagram.to_vec()];
                }
                lost += 1;
                let forged = [0x68, 0x45, 0, lost, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, b'x'];
                vec![forged.to_vec()]
            }),
        );
        let dtls = ClientDtls::new().psk(key("device-1", "secret-1"));
        let asks = client_with(Config::new().dtls(dtls).parameters(impatient()));
        let slow = asks.get(format!("coaps://{}/slow", between.address)).await;
        assert!(matches!(slow, Err(Error::Timeout { .. })), "{slow:?}");
        assert_eq!(
            plain.load(Ordering::Relaxed),
            0,
            "nothing went in the clear"
        );
    });
}
