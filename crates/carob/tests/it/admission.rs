//! Admission control: a slow peer or handler does not delay others, and no source occupies a whole server. With
//! `source_share` and `unvalidated_share` at 100 the same attacks succeed.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::{client, client_with, large, limited, resources, start};
use carob::server::{Request, fixed, get};
use carob::{
    Client, ClientTls, Code, Config, Identity, Response, Server, ServerDtls, ServerTls,
    SessionLimits,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// A request with a token of two bytes and one Uri-Path.
fn datagram(first: u8, code: Code, id: u16, observe: bool, path: &str) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut bytes = vec![first | 2, code.0, high, low, 0xaa, 0xbb];
    // Option numbers: Observe 6, Uri-Path 11.
    if observe {
        bytes.extend_from_slice(&[0x60, 0x50 | path.len() as u8]);
    } else {
        bytes.push(0xb0 | path.len() as u8);
    }
    bytes.extend_from_slice(path.as_bytes());
    bytes
}

/// A socket with a distinct source address in 127.1.0.0/16.
fn socket(host: u16) -> UdpSocket {
    let [high, low] = host.to_be_bytes();
    let address = SocketAddr::from(([127, 1, high, low], 0));
    let socket = UdpSocket::bind(address).expect("loopback has this address");
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .expect("a time");
    socket
}

fn shares(source: usize, unvalidated: usize) -> Config {
    Config::new().engine(|config| {
        config.limits.source_share = source;
        config.limits.unvalidated_share = unvalidated;
    })
}

/// Sends `requests` GETs in sequence; returns the longest response time and the number of failures.
async fn ask(client: &Client, uri: &str, requests: usize) -> (Duration, usize) {
    let (mut longest, mut failed) = (Duration::ZERO, 0);
    for _ in 0..requests {
        let began = Instant::now();
        let reply = client.get(uri).timeout(Duration::from_secs(5)).await;
        failed += usize::from(reply.is_err_and(|_| true));
        longest = longest.max(began.elapsed());
    }
    (longest, failed)
}

/// Response codes of an honest client's requests to `/slow` while other hosts occupy the handlers.
async fn codes_under_attack(settings: Config, hosts: u16) -> (Code, Code) {
    let (server, uri) = start(resources().config(settings).handlers(20)).await;
    let to = server.local_address();
    let greedy: Vec<UdpSocket> = (0..40).map(|n| socket(n % hosts)).collect();
    for (n, socket) in greedy.iter().enumerate() {
        let bytes = datagram(0x40, Code::GET, n as u16, false, "never");
        socket.send_to(&bytes, to).expect("loopback");
    }
    // All greedy requests have been admitted or refused.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let client = client();
    let slow = client.get(format!("{uri}/slow")).await.expect("an answer");
    let fixed = client.get(format!("{uri}/hello")).await.expect("an answer");
    if slow.code == Code::SERVICE_UNAVAILABLE {
        let seconds = slow.max_age().as_secs();
        assert!((5..=10).contains(&seconds), "{seconds}");
    }
    (slow.code, fixed.code)
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_are_shared() {
    limited(async {
        let (ok, busy) = (Code::CONTENT, Code::SERVICE_UNAVAILABLE);
        assert_eq!(codes_under_attack(shares(50, 100), 1).await, (ok, ok));
        assert_eq!(codes_under_attack(shares(100, 100), 1).await, (busy, ok));
        // Sources without address validation.
        assert_eq!(codes_under_attack(shares(50, 75), 40).await, (ok, ok));
        assert_eq!(codes_under_attack(shares(50, 100), 40).await, (busy, ok));
    })
    .await;
}

/// A burst that is read in one go on a single thread, where handlers run only if the server yields.
#[tokio::test]
async fn burst_of_fast_handlers_is_not_refused() {
    const REQUESTS: u16 = 200;
    limited(async {
        // source_share: one source may run 80 handlers at once.
        let (server, _) = start(resources().handlers(160)).await;
        let asking = socket(1);
        for id in 0..REQUESTS {
            let bytes = datagram(0x40, Code::GET, id, false, "echo");
            asking
                .send_to(&bytes, server.local_address())
                .expect("loopback");
        }
        asking.set_nonblocking(true).expect("a flag");
        let (mut answers, mut bytes) = (Vec::new(), [0; 64]);
        while answers.len() < usize::from(REQUESTS) {
            match asking.recv(&mut bytes) {
                Ok(_) => answers.push(Code(bytes[1])),
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
        let refused = answers.iter().filter(|code| **code != Code::CONTENT);
        assert_eq!(refused.count(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_handler_does_not_delay_others() {
    limited(async {
        let sleeping = |_: Request| async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            "at last"
        };
        let blocking = carob::Resource::new().on_blocking(Code::GET, |_| {
            std::thread::sleep(Duration::from_secs(3));
            "at last"
        });
        let builder = resources()
            .resource("/sleeping", get(sleeping))
            .resource("/blocks", blocking)
            .resource("/handled", get(|_: Request| async { "quick" }));
        let (server, uri) = start(builder).await;
        for host in 0..100 {
            for path in ["sleeping", "blocks"] {
                let bytes = datagram(0x40, Code::GET, 1, false, path);
                let to = server.local_address();
                socket(host).send_to(&bytes, to).expect("loopback");
            }
        }
        let client = client();
        let (longest, failed) = ask(&client, &format!("{uri}/handled"), 200).await;
        assert_eq!(failed, 0);
        assert!(longest < Duration::from_secs(1), "{longest:?}");
        let usage = server.client().usage().await.expect("it runs");
        assert!(usage.incoming >= 190, "they all wait: {usage:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_observers_do_not_delay_others() {
    limited(async {
        let changes = carob::server::Notifier::confirmable();
        let state = get(|_: Request| async { "state" }).observable(&changes);
        let (server, uri) = start(resources().resource("/state", state)).await;
        let silent: Vec<UdpSocket> = (0..200).map(socket).collect();
        for socket in &silent {
            let bytes = datagram(0x40, Code::GET, 1, true, "state");
            socket
                .send_to(&bytes, server.local_address())
                .expect("loopback");
        }
        let client = client();
        let mut observed = client
            .get(format!("{uri}/state"))
            .observe()
            .await
            .expect("it begins");
        for _ in 0..50 {
            changes.changed();
            let began = Instant::now();
            assert!(observed.next().await.is_some());
            assert!(began.elapsed() < Duration::from_secs(1));
        }
    })
    .await;
}

/// A GET over TCP with a token of one byte.
fn framed(path: &str) -> Vec<u8> {
    let mut bytes = vec![((1 + path.len()) as u8) << 4 | 1, Code::GET.0, 7];
    bytes.push(0xb0 | path.len() as u8);
    bytes.extend_from_slice(path.as_bytes());
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn non_reading_peers_delay_no_others_and_are_bounded() {
    limited(async {
        let body = bytes::Bytes::from(large(60_000));
        let build = |limit: usize| {
            let settings = Config::new().engine(|config| config.limits.unsent_bytes = limit);
            let (body, small) = (body.clone(), fixed("hello"));
            Server::builder()
                .without_datagrams()
                .bind_tcp("127.0.0.1:0")
                .config(settings)
                .resource(
                    "/body",
                    get(move |_: Request| {
                        let body = body.clone();
                        async { Response::new(Code::CONTENT).with_payload(body) }
                    }),
                )
                .resource("/hello", small)
        };
        for (limit, all_stay) in [(1 << 20, false), (64 << 20, true)] {
            let server = build(limit).start().await.expect("free ports");
            let tcp = server.local_address();
            let mut deaf = Vec::new();
            for _ in 0..40 {
                // A small receive buffer, a large Max-Message-Size, and no reads.
                let socket = TcpSocket::new_v4().expect("a socket");
                socket.set_recv_buffer_size(4_096).expect("a size");
                let mut stream = socket.connect(tcp).await.expect("it is taken");
                // CSM with Max-Message-Size 1 MiB (option 2, three bytes).
                stream
                    .write_all(&[0x40, 0xe1, 0x23, 0x10, 0, 0])
                    .await
                    .expect("it is read");
                for _ in 0..60 {
                    let _ = stream.write_all(&framed("body")).await;
                }
                deaf.push(stream);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            let usage = server.client().usage().await.expect("it runs");
            let stay = usage.connections;
            assert_eq!(stay == 40, all_stay, "{stay} connections are left");
            let client = client();
            let uri = format!("coap+tcp://{tcp}/hello");
            let (longest, failed) = ask(&client, &uri, 50).await;
            assert_eq!(failed, 0);
            assert!(longest < Duration::from_secs(1), "{longest:?}");
        }
    })
    .await;
}

fn tls() -> (ServerTls, ClientTls) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("it is PEM");
    let trusts = ClientTls::new()
        .trust_pem(chain.as_bytes())
        .expect("it is PEM");
    (ServerTls::new(identity), trusts)
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_never_end_keep_nobody_waiting() {
    limited(async {
        let (secured, trusts) = tls();
        let settings = Config::new().sessions(SessionLimits::new().handshakes(10));
        let builder = Server::builder()
            .bind("127.0.0.1:0")
            .bind_tls("127.0.0.1:0", secured);
        let server = builder
            .config(settings)
            .resource("/hello", fixed("hello"))
            .start()
            .await
            .expect("free ports");
        let address = server.addresses()[1].1;
        let mut silent = Vec::new();
        for host in 0..40_u8 {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket
                .bind(([127, 2, 0, 1 + host % 4], 0).into())
                .expect("loopback has it");
            silent.push(socket.connect(address).await.expect("it is taken"));
        }
        let client = client_with(Config::new().tls(trusts));
        let uri = format!("coaps+tcp://localhost:{}/hello", address.port());
        let began = Instant::now();
        let reply = client.get(uri).await.expect("an answer");
        assert_eq!(reply.text(), Some("hello"));
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{:?}",
            began.elapsed()
        );
        // Handshakes that timed out are closed; the others are at most the limit.
        let mut open = 0;
        for stream in &mut silent {
            let mut byte = [0];
            let read = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut byte));
            open += usize::from(read.await.is_err());
        }
        assert!(open <= 10, "{open}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_source_does_not_take_all_connections() {
    limited(async {
        for (share, expected) in [(50, true), (100, false)] {
            let settings = Config::new().engine(|config| {
                (config.limits.connections, config.limits.source_share) = (10, share);
            });
            let never = get(|_: Request| std::future::pending::<Response>());
            let builder = Server::builder()
                .bind("127.0.0.1:0")
                .bind_tcp("127.0.0.1:0");
            let server = builder
                .config(settings)
                .resource("/never", never)
                .resource("/hello", fixed("hello"))
                .start()
                .await
                .expect("free ports");
            let address = server.addresses()[1].1;
            let mut greedy = Vec::new();
            for _ in 0..20 {
                let socket = TcpSocket::new_v4().expect("a socket");
                socket
                    .bind(([127, 3, 0, 1], 0).into())
                    .expect("loopback has it");
                let mut stream: TcpStream = socket.connect(address).await.expect("it is taken");
                // An idle connection could be closed in favour of another, so each has a pending request.
                let _ = stream.write_all(&[0, 0xe1]).await;
                let _ = stream.write_all(&framed("never")).await;
                greedy.push(stream);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            let client = client();
            let request = client.get(format!("coap+tcp://{address}/hello"));
            let reply = request.timeout(Duration::from_secs(2)).await;
            assert_eq!(reply.is_ok(), expected, "{reply:?}");
        }
    })
    .await;
}

/// The second ClientHello, with the cookie from HelloVerifyRequest.
fn second_hello(socket: &UdpSocket, server: SocketAddr, n: u8) -> Vec<u8> {
    let mut buffer = [0; 2_048];
    let hello = crate::secured::hello(n, &[], 0);
    socket.send_to(&hello, server).expect("loopback");
    let (length, _) = socket.recv_from(&mut buffer).expect("a cookie");
    crate::secured::hello(n, &buffer[length - 32..length], 1)
}

/// Sends the second ClientHello; returns the random of the ServerHello.
fn server_hello(socket: &UdpSocket, server: SocketAddr, second: &[u8]) -> [u8; 32] {
    let mut buffer = [0; 2_048];
    while socket.recv_from(&mut buffer).is_ok() {}
    socket.send_to(second, server).expect("loopback");
    let (_, _) = socket.recv_from(&mut buffer).expect("an answer");
    assert_eq!(buffer[13], 2, "ServerHello");
    // Behind the record header, the handshake header and the version.
    *buffer[27..].first_chunk().expect("32 bytes")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_source_does_not_begin_all_dtls_handshakes() {
    limited(async {
        for (share, survives) in [(50, true), (100, false)] {
            let limits = SessionLimits::new().handshakes(10);
            let settings = shares(share, 75).sessions(limits);
            let dtls = ServerDtls::new().keys(crate::secured::keys());
            let (_server, address) = crate::secured::serve_with(dtls, settings).await;
            let slow = socket(8);
            let second = second_hello(&slow, address, 200);
            let begun = server_hello(&slow, address, &second);
            for n in 0..20 {
                let greedy = socket(7);
                let second = second_hello(&greedy, address, n);
                greedy.send_to(&second, address).expect("loopback");
                assert!(greedy.recv_from(&mut [0; 2_048]).is_ok(), "it begins");
            }
            // An existing handshake continues with the same random; a dropped one starts over with another.
            let again = server_hello(&slow, address, &second);
            assert_eq!(again == begun, survives, "with a share of {share} %");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_rate_limit_gives_4_29_to_one_source_only() {
    limited(async {
        let settings = Config::new().engine(|config| {
            (config.limits.request_rate, config.limits.request_burst) = (50, 50);
        });
        let (server, uri) = start(resources().config(settings)).await;
        let greedy = socket(9);
        let mut codes = std::collections::BTreeMap::new();
        for id in 0..1_000 {
            let bytes = datagram(0x40, Code::GET, id, false, "hello");
            greedy
                .send_to(&bytes, server.local_address())
                .expect("loopback");
        }
        let mut buffer = [0; 128];
        greedy
            .set_read_timeout(Some(Duration::from_millis(300)))
            .expect("a time");
        while let Ok((_, _)) = greedy.recv_from(&mut buffer) {
            *codes.entry(buffer[1]).or_insert(0) += 1;
        }
        let (taken, refused) = (codes[&Code::CONTENT.0], codes[&Code::TOO_MANY_REQUESTS.0]);
        assert!(
            (50..150).contains(&taken) && (50..150).contains(&refused),
            "{codes:?}"
        );
        let (_, failed) = ask(&client(), &format!("{uri}/hello"), 40).await;
        assert_eq!(failed, 0);
    })
    .await;
}
