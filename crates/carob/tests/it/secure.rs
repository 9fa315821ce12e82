//! CoAP over DTLS: authentication, errors and sessions.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::in_time;
use crate::secured::{
    Authority, Between, client, client_with, device, impatient, key, keys, serve,
};
use carob::dtls::{Credential, HandshakeError};
use carob::{
    ClientDtls, ClientTls, Code, Config, Error, PeerIdentity, QBlockMode, Scheme, ServerDtls,
};

fn handshake(result: Result<carob::Reply, Error>) -> HandshakeError {
    match result {
        Err(Error::Handshake { source: why, .. }) => why,
        other => panic!("it is no handshake that failed: {other:?}"),
    }
}

#[test]
fn pre_shared_key_authenticates_the_client() {
    in_time(async {
        let (server, address) = serve(ServerDtls::new().keys(keys()).hint("carob")).await;
        let first = device();
        let reply = first
            .get(format!("coaps://{address}/who"))
            .await
            .expect("an answer");
        assert_eq!(reply.text(), Some("device-1"));
        let second = client(ClientDtls::new().psk(key("device-2", "0x0102030405060708")));
        let reply = second
            .get(format!("coaps://{address}/who"))
            .await
            .expect("an answer");
        assert_eq!(reply.text(), Some("device-2"));
        let known = first.peer_identity(address).await.expect("a session");
        assert_eq!(*known, PeerIdentity::PreSharedKey(b"device-1".to_vec()));
        let large = first
            .get(format!("coaps://{address}/large"))
            .await
            .expect("an answer");
        assert_eq!(large.bytes().len(), 20_000);
        assert!(first.ping(format!("coaps://{address}")).await.is_ok());
        server.shutdown(Duration::from_secs(1)).await;
    });
}

#[test]
fn bodies_by_q_block_cross_dtls() {
    in_time(async {
        let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
        let device = device();
        let large = device
            .get(format!("coaps://{address}/large"))
            .confirmable(false)
            .q_block(QBlockMode::On);
        assert_eq!(large.await.expect("a response").bytes().len(), 20_000);
        // 4.05 after all blocks of the body.
        let upload = device
            .put(format!("coaps://{address}/large"))
            .body(vec![7; 20_000])
            .confirmable(false)
            .q_block(QBlockMode::On);
        let reply = upload.await.expect("a response");
        assert_eq!(reply.code, Code::METHOD_NOT_ALLOWED);
    });
}

#[test]
fn certificates_are_checked_on_both_sides() {
    in_time(async {
        let authority = Authority::new();
        let dtls = authority
            .server()
            .clients_pem(authority.pem.as_bytes())
            .expect("PEM");
        let (_server, address) = serve(dtls).await;
        let uri = format!("coaps://{address}/who");
        let known = authority
            .trust()
            .identity(authority.issue("device", |_| {}));
        let reply = client(ClientDtls::new().certificates(known))
            .get(&uri)
            .await;
        let text = reply.expect("an answer").text().map(str::to_owned);
        assert!(
            text.as_deref()
                .is_some_and(|text| text.starts_with("a certificate of")),
            "{text:?}"
        );

        let nobody = client(ClientDtls::new().certificates(authority.trust()));
        let why = handshake(nobody.get(&uri).await);
        assert!(matches!(why, HandshakeError::Refused { .. }), "{why}");
        let other = Authority::new().issue("device", |_| {});
        let stranger = authority.trust().identity(other);
        let why = handshake(
            client(ClientDtls::new().certificates(stranger))
                .get(&uri)
                .await,
        );
        assert!(matches!(why, HandshakeError::Refused { .. }), "{why}");
    });
}

#[test]
fn server_certificate_is_checked_for_name_and_validity() {
    in_time(async {
        let authority = Authority::new();
        let trusting = || client(ClientDtls::new().certificates(authority.trust()));
        let (_server, address) = serve(authority.server()).await;
        let uri = format!("coaps://{address}/who");
        let reply = trusting().get(&uri).await.expect("an answer");
        assert_eq!(reply.text(), Some("anonymous"));

        let port = address.port();
        let named = authority.issue("localhost", |_| {});
        let (_named, other) = serve(ServerDtls::new().identity(named)).await;
        let by_name = format!("coaps://localhost:{}/hello", other.port());
        assert!(trusting().get(by_name).await.is_ok());
        let why = handshake(trusting().get(format!("coaps://{other}/hello")).await);
        assert!(matches!(&why, HandshakeError::NotTrusted { .. }), "{why}");
        let why = handshake(
            trusting()
                .get(format!("coaps://localhost:{port}/hello"))
                .await,
        );
        assert!(matches!(&why, HandshakeError::NotTrusted { .. }), "{why}");

        let old = authority.issue("127.0.0.1", |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        });
        let (_old, address) = serve(ServerDtls::new().identity(old)).await;
        let why = handshake(trusting().get(format!("coaps://{address}/hello")).await);
        assert!(why.to_string().contains("expired"), "{why}");
        let why = handshake(
            client(ClientDtls::new().certificates(Authority::new().trust()))
                .get(&uri)
                .await,
        );
        assert!(matches!(&why, HandshakeError::NotTrusted { .. }), "{why}");
    });
}

#[test]
fn wrong_key_and_unknown_identity_are_refused_alike() {
    in_time(async {
        let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
        for (identity, secret) in [("device-1", "another"), ("device-9", "secret-1")] {
            let wrong = client(ClientDtls::new().psk(key(identity, secret)));
            let began = std::time::Instant::now();
            let why = handshake(wrong.get(format!("coaps://{address}/hello")).await);
            let identity = identity.to_owned();
            assert_eq!(why, HandshakeError::WrongKey { identity });
            assert!(began.elapsed() < Duration::from_secs(2), "no timer ran out");
        }
    });
}

#[test]
fn server_reports_failed_handshakes_with_identity_and_reason() {
    in_time(async {
        let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = std::sync::Arc::clone(&heard);
        let settings = Config::new().on_handshake_failed(move |failed| {
            let identity = failed
                .identity
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            assert_eq!(failed.scheme, Scheme::Coaps);
            let reason = failed.reason.downcast_ref::<HandshakeError>();
            let wrong_key = matches!(reason, Some(HandshakeError::WrongKey { .. }));
            let unknown = matches!(reason, Some(HandshakeError::UnknownIdentity { .. }));
            log.lock().unwrap().push((identity, wrong_key, unknown));
        });
        let dtls = ServerDtls::new().keys(keys());
        let (_server, address) = crate::secured::serve_with(dtls, settings).await;
        let uri = format!("coaps://{address}/hello");
        for (identity, secret) in [("device-1", "wrong"), ("nobody", "secret-1")] {
            let asks = client(ClientDtls::new().psk(key(identity, secret)));
            assert!(asks.get(&uri).await.is_err());
        }
        assert!(device().get(&uri).await.is_ok());
        let expected = [
            (Some("device-1".to_owned()), true, false),
            (Some("nobody".to_owned()), false, true),
        ];
        assert_eq!(*heard.lock().unwrap(), expected);
    });
}

#[test]
fn health_over_dtls_has_the_sessions() {
    in_time(async {
        let settings = Config::new().sessions(carob::SessionLimits::default().sessions(4));
        let server = crate::secured::builder()
            .health("/health")
            .bind_dtls("127.0.0.1:0", ServerDtls::new().keys(keys()))
            .config(settings)
            .start()
            .await
            .expect("a free port is bound");
        let uri = format!("coaps://{}/health", server.local_address());
        let (first, second) = (device(), device());
        let one = first.get(&uri).await.expect("an answer");
        assert!(one.text().unwrap().ends_with("\nsessions 25 %\n"));
        let two = second.get(&uri).await.expect("an answer");
        assert!(two.text().unwrap().ends_with("\nsessions 50 %\n"));
    });
}

#[test]
fn no_common_cipher_suite_is_an_error() {
    in_time(async {
        let (_keys, address) = serve(ServerDtls::new().keys(keys())).await;
        let by_certificate = client(ClientDtls::new().certificates(Authority::new().trust()));
        let why = handshake(by_certificate.get(format!("coaps://{address}/hello")).await);
        assert_eq!(why, HandshakeError::NoCommonSuite);
        let authority = Authority::new();
        let (_certificates, address) = serve(authority.server()).await;
        let why = handshake(device().get(format!("coaps://{address}/hello")).await);
        assert_eq!(why, HandshakeError::NoCommonSuite);
    });
}

#[test]
fn server_with_psk_and_certificate_and_per_peer_client_keys() {
    in_time(async {
        let authority = Authority::new();
        let (_both, both) = serve(authority.server().keys(keys())).await;
        let (_keys, only) = serve(ServerDtls::new().keys(keys())).await;
        let dtls = ClientDtls::new().certificates(authority.trust()).peer(
            only,
            Credential::PreSharedKey(key("device-2", "0x0102030405060708")),
        );
        let asks = client(dtls);
        let who = async |address| {
            let reply = asks
                .get(format!("coaps://{address}/who"))
                .await
                .expect("an answer");
            reply.text().map(str::to_owned)
        };
        assert_eq!(who(both).await.as_deref(), Some("anonymous"));
        assert_eq!(who(only).await.as_deref(), Some("device-2"));
        let reply = device()
            .get(format!("coaps://{both}/who"))
            .await
            .expect("an answer");
        assert_eq!(reply.text(), Some("device-1"));
    });
}

#[test]
fn absent_peer_is_reported_by_icmp_or_timeout() {
    in_time(async {
        let why = device()
            .get(format!("coaps://{}/hello", crate::common::closed_port()))
            .await;
        assert!(matches!(why, Err(Error::Unreachable { .. })), "{why:?}");
        let (_socket, silent) = crate::common::silent_peer();
        let dtls = ClientDtls::new().psk(key("device-1", "secret-1"));
        let asks = client_with(Config::new().dtls(dtls).parameters(impatient()));
        let why = handshake(asks.get(format!("coaps://{silent}/hello")).await);
        assert_eq!(why, HandshakeError::NoAnswer { copies: 3 });
    });
}

#[test]
fn unusable_credentials_error_names_the_remedy() {
    in_time(async {
        let error = crate::secured::builder()
            .bind_dtls("127.0.0.1:0", ServerDtls::new())
            .start()
            .await
            .expect_err("no credentials are configured");
        assert!(
            error.report().to_string().contains("pre-shared keys"),
            "{error}"
        );
        let ed25519 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("them");
        let pem = params.self_signed(&ed25519).expect("a certificate").pem();
        let key = ed25519.serialize_pem();
        let identity = carob::Identity::from_pem(pem.as_bytes(), key.as_bytes()).expect("PEM");
        let error = crate::secured::builder()
            .bind_dtls("127.0.0.1:0", ServerDtls::new().identity(identity.clone()))
            .start()
            .await
            .expect_err("the library does not know such keys");
        assert!(error.report().to_string().contains("P-256"), "{error}");
        let dtls = ClientDtls::new().certificates(ClientTls::new().identity(identity));
        let config = Config::new().dtls(dtls);
        let opened = carob::Client::builder().config(config).open();
        let error = opened.expect_err("nor does it for a client");
        assert!(error.report().to_string().contains("P-256"), "{error}");
    });
}

#[test]
fn slow_handshake_survives_loss_or_duplication_of_any_datagram() {
    in_time(async {
        let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
        let authority = Authority::new();
        let (_certificates, other) = serve(authority.server()).await;
        for lost in 0..9 {
            for (address, dtls) in [
                (address, ClientDtls::new().psk(key("device-1", "secret-1"))),
                (other, ClientDtls::new().certificates(authority.trust())),
            ] {
                let mut number = 0;
                let between = Between::new(
                    address,
                    Box::new(move |_, datagram| {
                        number += 1;
                        match number - 1 {
                            n if n == lost => Vec::new(),
                            _ => vec![datagram.to_vec(), datagram.to_vec()],
                        }
                    }),
                );
                let mut quick = impatient();
                quick.max_retransmit = 4;
                let asks = client_with(Config::new().dtls(dtls).parameters(quick));
                let reply = asks.get(format!("coaps://{}/hello", between.address)).await;
                assert_eq!(reply.expect("an answer").text(), Some("hello"), "{lost}");
            }
        }
    });
}

/// Round-trip time, RTO and retransmissions after a handshake over a path with this delay.
async fn after_handshake(
    address: SocketAddr,
    delay: Duration,
) -> (
    carob_cc::time::Duration,
    Option<carob_cc::time::Duration>,
    u32,
) {
    let between = Between::new(
        address,
        Box::new(move |_, datagram| {
            std::thread::sleep(delay / 2);
            vec![datagram.to_vec()]
        }),
    );
    let settings = Config::new()
        .dtls(ClientDtls::new().psk(key("device-1", "secret-1")))
        .controller_named("cocoa-plus")
        .expect("it is registered");
    let server = carob::Server::builder()
        .without_datagrams()
        .bind_dtls("127.0.0.1:0", ServerDtls::new().keys(keys()))
        .config(settings)
        .start()
        .await
        .expect("a free port is bound");
    // `server.client()` is the server's DTLS endpoint in client role.
    let asks = server.client();
    let uri = format!("coaps://{}/hello", between.address);
    assert!(asks.get(uri).await.is_ok());
    let known = asks.snapshot(between.address).await.expect("it is known");
    let round_trip = known.round_trip.expect("it was measured");
    (round_trip, known.rto, known.retransmissions)
}

#[test]
fn handshake_uses_controller_timer_and_gives_it_the_rtt() {
    in_time(async {
        let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
        let delay = Duration::from_millis(60);
        let limit = carob_cc::time::Duration::from_millis(1_500);
        let mut seen = Vec::new();
        // A busy machine may delay packets, so one of five handshakes has to be in time. Without an RTT sample from the
        // handshake, the RTO would be at least 2 s.
        for _ in 0..5 {
            let (round_trip, rto, retransmissions) = after_handshake(address, delay).await;
            assert!(round_trip >= delay.into(), "{round_trip:?}");
            let rto = rto.expect("it keeps one");
            if rto < limit && retransmissions == 0 {
                return;
            }
            seen.push((round_trip, rto, retransmissions));
        }
        panic!("{seen:?}");
    });
}

#[test]
fn client_renews_session_that_server_forgot() {
    in_time(async {
        let (server, address) = serve(ServerDtls::new().keys(keys())).await;
        let dtls = ClientDtls::new().psk(key("device-1", "secret-1"));
        let asks = client_with(Config::new().dtls(dtls).parameters(impatient()));
        let uri = format!("coaps://{address}/hello");
        assert!(asks.get(&uri).await.is_ok());
        // The shutdown sends close_notify.
        server.shutdown(Duration::from_secs(1)).await;
        let again = crate::secured::builder()
            .bind_dtls(address, ServerDtls::new().keys(keys()))
            .start()
            .await
            .expect("the port is free again");
        assert!(asks.get(&uri).await.is_ok());
        drop(again);
        tokio::time::sleep(Duration::from_millis(50)).await;
        // A server that lost its state sends nothing: one request fails, and the next starts a new session.
        let (_third, forgetful) = serve(ServerDtls::new().keys(keys())).await;
        let mut forget = false;
        let switch = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = std::sync::Arc::clone(&switch);
        let between = Between::new(
            forgetful,
            Box::new(move |_, datagram| {
                forget |= seen.load(std::sync::atomic::Ordering::Relaxed);
                // Records of the first session are dropped.
                let hello = datagram.first() == Some(&22);
                let lost = forget && !hello && seen.load(std::sync::atomic::Ordering::Relaxed);
                if hello {
                    seen.store(false, std::sync::atomic::Ordering::Relaxed);
                }
                if lost {
                    Vec::new()
                } else {
                    vec![datagram.to_vec()]
                }
            }),
        );
        let uri = format!("coaps://{}/hello", between.address);
        assert!(asks.get(&uri).await.is_ok());
        switch.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(asks.get(&uri).await.is_err(), "no answer comes");
        assert!(asks.get(&uri).await.is_ok(), "a reply in the new session");
    });
}

#[test]
fn server_with_certificate_chain_for_dtls_is_refused() {
    in_time(async {
        let (chain, key) = Authority::new().chain("127.0.0.1");
        let identity = carob::Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("PEM");
        let server = carob::Server::builder()
            .without_datagrams()
            .bind_dtls("127.0.0.1:0", ServerDtls::new().identity(identity))
            .start();
        let error = server.await.expect_err("only the first would be sent");
        let text = error.report().to_string();
        assert!(text.contains("the chain has 2"), "{text}");
    });
}

#[tokio::test]
async fn client_with_chain_for_dtls_is_refused_when_opened() {
    let (chain, key) = Authority::new().chain("127.0.0.1");
    let identity = carob::Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("PEM");
    let tls = ClientTls::new().identity(identity);
    let peer = "192.0.2.1:5684".parse().expect("an address");
    let all = ClientDtls::new().certificates(tls.clone());
    let one = ClientDtls::new().peer(peer, Credential::Certificates(tls));
    for dtls in [all, one] {
        let opened = carob::Client::builder()
            .config(Config::new().dtls(dtls))
            .open();
        let text = opened
            .expect_err("only the first would be sent")
            .report()
            .to_string();
        assert!(text.contains("the chain has 2"), "{text}");
    }
}

/// `openssl s_server` over DTLS with a certificate chain; killed on drop.
struct OpenSsl {
    child: std::process::Child,
    folder: std::path::PathBuf,
}

impl OpenSsl {
    fn start(port: u16, chain: &str, key: &str) -> Option<Self> {
        let folder = format!("{}/chain-{port}", env!("CARGO_TARGET_TMPDIR"));
        let folder = std::path::PathBuf::from(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (name, text) in [("chain.pem", chain), ("key.pem", key)] {
            std::fs::write(folder.join(name), text).expect("a file");
        }
        let child = std::process::Command::new("openssl")
            .args(["s_server", "-dtls1_2", "-quiet", "-mtu", "600", "-accept"])
            .arg(port.to_string())
            .args([
                "-cert",
                "chain.pem",
                "-cert_chain",
                "chain.pem",
                "-key",
                "key.pem",
            ])
            .current_dir(&folder)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn();
        Some(Self {
            child: child.ok()?,
            folder,
        })
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn whole_server_chain_leads_to_trusted_root() {
    in_time(async {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let (chain, key) = authority.by_intermediate("127.0.0.1");
        let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("bound");
        drop(free);
        let Some(_server) = OpenSsl::start(address.port(), &chain, &key) else {
            eprintln!("skipped: needs openssl");
            return;
        };
        let trusting = |authority: &Authority| {
            let dtls = ClientDtls::new().certificates(authority.trust());
            client_with(Config::new().dtls(dtls).parameters(impatient()))
        };
        let asks = trusting(&authority);
        let uri = format!("coaps://{address}/hello");
        // The server may not be up yet. It speaks no CoAP, so that the session ends in a timeout.
        loop {
            match asks.get(&uri).await.expect_err("no CoAP") {
                Error::Timeout { .. } => break,
                Error::Handshake { source: why, .. } => {
                    let untrusted = matches!(why, HandshakeError::NotTrusted { .. });
                    assert!(!untrusted, "{why}");
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        let error = trusting(&stranger)
            .get(&uri)
            .await
            .expect_err("not trusted");
        let text = error.report().to_string();
        assert!(text.contains("is not trusted"), "{text}");
    });
}
