//! Limits on the cost of handshakes: each defence, and the attack that succeeds without it.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::{client_with, limited};
use crate::secured::{Authority, device, serve_with};
use carob::server::fixed;
use carob::{Config, Server, ServerTls, SessionLimits};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpSocket;

/// A client with a validated address that starts handshakes and abandons them.
struct Greedy {
    socket: UdpSocket,
    server: SocketAddr,
    begun: u32,
    heard: BTreeSet<Vec<u8>>,
}

impl Greedy {
    fn new(host: u8, server: SocketAddr) -> Self {
        let address = SocketAddr::from(([127, 3, 0, host], 0));
        let socket = UdpSocket::bind(address).expect("loopback has this address");
        let wait = Some(Duration::from_secs(1));
        socket.set_read_timeout(wait).expect("a time");
        Self {
            socket,
            server,
            begun: 0,
            heard: BTreeSet::new(),
        }
    }

    /// The first new response of this type to a hello; servers retransmit theirs.
    fn answer(&mut self, hello: &[u8], kind: u8) -> Option<Vec<u8>> {
        self.socket.send_to(hello, self.server).expect("loopback");
        let mut buffer = [0; 2_048];
        while let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
            let datagram = buffer[..length].to_vec();
            // Behind the record header, the handshake header and the version: the cookie or the random.
            if datagram[13] == kind && self.heard.insert(datagram[27..59].to_vec()) {
                return Some(datagram);
            }
        }
        None
    }

    /// Starts a handshake with certificates; returns whether the server takes part.
    fn begins(&mut self) -> bool {
        self.begun += 1;
        let mut random = [0; 32];
        random[..4].copy_from_slice(&self.begun.to_be_bytes());
        let hello = crate::secured::certificate_hello(&random, &[], 0);
        let request = self.answer(&hello, 3).expect("a cookie");
        let hello = crate::secured::certificate_hello(&random, &request[28..60], 1);
        self.answer(&hello, 2).is_some()
    }
}

fn only_rate(rate: usize, burst: usize) -> SessionLimits {
    let limits = SessionLimits::new().handshake_work(100);
    limits.handshake_rate(rate, burst)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_dtls_handshake_rate_applies_per_source() {
    limited(async {
        for (rate, all) in [(1, false), (0, true)] {
            let settings = Config::new().sessions(only_rate(rate, 10));
            let (_server, address) = serve_with(Authority::new().server(), settings).await;
            let mut greedy = Greedy::new(1, address);
            let began = Instant::now();
            let begun = (0..16).filter(|_| greedy.begins()).count();
            let most = 10 + began.elapsed().as_secs() as usize + 1;
            assert_eq!(begun == 16, all, "{begun} with a rate of {rate}");
            assert!(all || (10..=most).contains(&begun), "{begun}");
            assert!(
                Greedy::new(2, address).begins(),
                "another is not kept waiting"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_handshakes_of_many_leave_time_to_who_has_a_session() {
    limited(async {
        let dtls = || Authority::new().server().keys(crate::secured::keys());
        let limits = SessionLimits::new().handshake_rate(0, 1);
        let settings = Config::new().sessions(limits.handshake_work(1));
        let (_server, address) = serve_with(dtls(), settings).await;
        let known = device();
        let uri = format!("coaps://{address}/hello");
        assert!(known.get(&uri).await.is_ok());
        // A burst of a quarter of a second of CPU time, then hardly any.
        let mut many = Greedy::new(1, address);
        let most = 100_000;
        while many.begun < most && many.begins() {}
        assert!(many.begun < most, "no limit was reached");
        let reply = known
            .get(&uri)
            .await
            .expect("a response in the existing session");
        assert_eq!(reply.text(), Some("hello"));
        // Without a share of CPU time, handshakes are not limited.
        let settings = Config::new().sessions(limits.handshake_work(100));
        let (_server, address) = serve_with(dtls(), settings).await;
        let mut more = Greedy::new(1, address);
        while more.begun < many.begun + many.begun / 2 {
            assert!(more.begins(), "{} of {}", more.begun, many.begun);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_handshake_rate_applies_per_source() {
    limited(async {
        for (rate, kept) in [(1, 4), (0, 12)] {
            let authority = Authority::new();
            let secured = ServerTls::new(authority.issue("localhost", |_| {}));
            let server = Server::builder()
                .bind("127.0.0.1:0")
                .bind_tls("127.0.0.1:0", secured)
                .config(Config::new().sessions(only_rate(rate, 4)))
                .resource("/hello", fixed("hello"))
                .start()
                .await
                .expect("free ports");
            let address = server.addresses()[1].1;
            let mut connections = Vec::new();
            for _ in 0..12 {
                let socket = TcpSocket::new_v4().expect("a socket");
                socket.bind(([127, 3, 0, 1], 0).into()).expect("loopback");
                connections.push(socket.connect(address).await.expect("it is taken"));
            }
            let mut open = 0;
            for connection in &mut connections {
                let mut byte = [0];
                let read = connection.read(&mut byte);
                let closed = tokio::time::timeout(Duration::from_millis(100), read).await;
                open += usize::from(closed.is_err());
            }
            // The token bucket may refill by one or two meanwhile.
            assert!(
                (kept..=kept + 2).contains(&open),
                "{open} with a rate of {rate}"
            );
            let client = client_with(Config::new().tls(authority.trust()));
            let uri = format!("coaps+tcp://localhost:{}/hello", address.port());
            let reply = client.get(uri).await.expect("another is not kept waiting");
            assert_eq!(reply.text(), Some("hello"));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_tls_handshakes_leave_time_to_open_connections() {
    limited(async {
        let authority = Authority::new();
        let mut done_within_share = 0;
        for work in [1, 100] {
            let limits = SessionLimits::new().handshake_rate(0, 1);
            let server = Server::builder()
                .without_datagrams()
                .bind_tls(
                    "127.0.0.1:0",
                    ServerTls::new(authority.issue("localhost", |_| {})),
                )
                .config(Config::new().sessions(limits.handshake_work(work)))
                .resource("/hello", fixed("hello"))
                .start()
                .await
                .expect("a free port");
            let uri = format!(
                "coaps+tcp://localhost:{}/hello",
                server.local_address().port()
            );
            let settings = || Config::new().tls(authority.trust());
            let known = client_with(settings());
            assert!(known.get(&uri).await.is_ok());
            // A burst of a quarter of a second of CPU time, then hardly any.
            let most = if work == 1 {
                10_000
            } else {
                done_within_share + done_within_share / 2
            };
            let mut done = 0;
            while done < most && client_with(settings()).get(&uri).await.is_ok() {
                done += 1;
            }
            assert_eq!(done < most, work == 1, "{done} of {most}");
            done_within_share = done;
            let reply = known
                .get(&uri)
                .await
                .expect("a response on the existing connection");
            assert_eq!(reply.text(), Some("hello"));
        }
    })
    .await;
}
