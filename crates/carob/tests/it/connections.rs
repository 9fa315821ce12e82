//! Clients and servers over TCP, TLS and WebSocket, on real sockets (RFC 8323).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use carob::server::{Notifier, Request, fixed, get};
use carob::{
    Client, ClientTls, Code, Config, ContentFormat, Error, Identity, Payload, Resource, Response,
    Scheme, Server, ServerTls, ShutdownOutcome,
};
use carob_proto::codec::MessageView;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const LIMIT: Duration = Duration::from_secs(20);

fn authority() -> (String, Identity) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let chain = made.cert.pem();
    let key = made.signing_key.serialize_pem();
    let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("it is PEM");
    (chain, identity)
}

fn large(length: usize) -> Bytes {
    (0..length)
        .map(|i| (i % 251) as u8)
        .collect::<Vec<_>>()
        .into()
}

fn text(text: &str) -> Response {
    Response::content(ContentFormat::TEXT_PLAIN, text.to_owned())
}

struct Site {
    server: Server,
    client: Client,
    notifier: Notifier,
}

impl Site {
    async fn open() -> Self {
        Self::with(Config::new(), Config::new()).await
    }

    async fn with(server: Config, client: Config) -> Self {
        let (chain, identity) = authority();
        let notifier = Notifier::new();
        let observed = get(|_: Request| async { text("state") }).observable(&notifier);
        let server = Server::builder()
            .bind("127.0.0.1:0")
            .bind_tcp("127.0.0.1:0")
            .bind_tls("127.0.0.1:0", ServerTls::new(identity.clone()))
            .bind_ws("127.0.0.1:0")
            .bind_wss("127.0.0.1:0", ServerTls::new(identity))
            .config(server)
            .resource("/hello", fixed(text("hello")))
            .resource("/large", get(|_: Request| async { whole(200_000) }))
            .resource(
                "/length",
                Resource::new().post(|request: Request| async move {
                    text(&request.payload().len().to_string())
                }),
            )
            .resource(
                "/never",
                get(|_: Request| async { std::future::pending::<Response>().await }),
            )
            .resource("/state", observed)
            .start()
            .await
            .expect("it starts");
        let tls = ClientTls::new()
            .trust_pem(chain.as_bytes())
            .expect("it is PEM");
        let client = Client::builder()
            .config(client.tls(tls))
            .open()
            .expect("it opens");
        Self {
            server,
            client,
            notifier,
        }
    }

    fn address(&self, scheme: Scheme) -> SocketAddr {
        let found = self.server.addresses().iter().find(|(of, _)| *of == scheme);
        found.expect("it listens there").1
    }

    fn uri(&self, scheme: Scheme, path: &str) -> String {
        format!("{scheme}://localhost:{}{path}", self.address(scheme).port())
    }
}

fn whole(length: usize) -> Response {
    let mut response = Response::new(Code::CONTENT);
    response.payload = Payload::Whole(large(length));
    response
}

const CONNECTIONS: [Scheme; 4] = [
    Scheme::CoapTcp,
    Scheme::CoapsTcp,
    Scheme::CoapWs,
    Scheme::CoapsWs,
];

#[tokio::test]
async fn all_schemes_reach_the_same_resources() {
    let site = Site::open().await;
    for scheme in [Scheme::Coap].into_iter().chain(CONNECTIONS) {
        let uri = site.uri(scheme, "/hello");
        let reply = tokio::time::timeout(LIMIT, site.client.get(uri.as_str())).await;
        let reply = reply
            .expect("in time")
            .unwrap_or_else(|error| panic!("{uri}: {error}"));
        assert_eq!(reply.bytes().as_ref(), b"hello", "{scheme}");
    }
}

#[tokio::test]
async fn long_tokens_on_every_supporting_transport() {
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&lengths);
    let client = Config::new()
        .token_length(300)
        .on_datagram(move |datagram| {
            let message = MessageView::parse_long(datagram.bytes).expect("well formed");
            if !datagram.incoming && message.code().is_request() {
                heard.lock().expect("sound").push(message.token().len());
            }
        });
    let server = Config::new().limit("token_bytes", 64).expect("a limit");
    let site = Site::with(server, client).await;
    for scheme in [Scheme::Coap].into_iter().chain(CONNECTIONS) {
        for _ in 0..2 {
            let reply = tokio::time::timeout(LIMIT, site.client.get(site.uri(scheme, "/large")));
            let reply = reply.await.expect("in time").expect("an answer");
            // The UDP server limits tokens to less than 300 bytes; over connections it announced a larger limit in its CSM.
            let code = if scheme == Scheme::Coap {
                Code::BAD_REQUEST
            } else {
                Code::CONTENT
            };
            assert_eq!(reply.code, code, "{scheme}");
        }
        let lengths = std::mem::take(&mut *lengths.lock().expect("sound"));
        if scheme == Scheme::Coap {
            assert_eq!(lengths, [300, 300]);
        } else {
            assert_eq!(lengths.last(), Some(&64), "{scheme}: {lengths:?}");
        }
    }
}

#[tokio::test]
async fn block_wise_bodies_over_connections() {
    let site = Site::open().await;
    for scheme in CONNECTIONS {
        let reply = site
            .client
            .get(site.uri(scheme, "/large"))
            .await
            .expect("an answer");
        assert_eq!(reply.bytes(), &large(200_000), "{scheme}");
        let post = site
            .client
            .post(site.uri(scheme, "/length"))
            .body(large(200_000));
        assert_eq!(
            post.await.expect("an answer").bytes().as_ref(),
            b"200000",
            "{scheme}"
        );
    }
}

#[tokio::test]
async fn one_connection_carries_concurrent_requests() {
    let site = Site::open().await;
    let uri = site.uri(Scheme::CoapTcp, "/hello");
    let asked: Vec<_> = (0..500)
        .map(|_| tokio::spawn(site.client.get(uri.as_str()).into_future()))
        .collect();
    for reply in asked {
        assert_eq!(
            reply
                .await
                .expect("it ran")
                .expect("an answer")
                .bytes()
                .as_ref(),
            b"hello"
        );
    }
}

#[tokio::test]
async fn observations_over_connections_deliver_notifications() {
    let site = Site::open().await;
    for scheme in CONNECTIONS {
        let asked = site.client.get(site.uri(scheme, "/state")).observe();
        let mut states = asked.await.expect("it is observed");
        for _ in 0..2 {
            let next = tokio::time::timeout(LIMIT, states.next())
                .await
                .expect("in time");
            assert!(next.is_some_and(|update| update.is_ok()), "{scheme}");
            site.notifier.changed();
        }
    }
}

#[tokio::test]
async fn a_ping_is_answered() {
    let site = Site::open().await;
    for scheme in CONNECTIONS {
        let took = site
            .client
            .ping(site.uri(scheme, "/"))
            .await
            .expect("a pong");
        assert!(took < LIMIT, "{scheme}");
    }
}

#[tokio::test]
async fn refused_connection_fails_at_once() {
    let client = Client::new().expect("it opens");
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let error = client
        .get(format!("coap+tcp://127.0.0.1:{port}/"))
        .await
        .expect_err("no listener");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(
        error
            .remedy()
            .is_some_and(|text| text.contains("no CoAP server"))
    );
}

#[tokio::test]
async fn untrusted_certificate_is_refused_with_the_reason() {
    let site = Site::open().await;
    let (other, _) = authority();
    let tls = ClientTls::new()
        .trust_pem(other.as_bytes())
        .expect("it is PEM");
    let client = Client::builder()
        .config(Config::new().tls(tls))
        .open()
        .expect("opens");
    let error = client
        .get(site.uri(Scheme::CoapsTcp, "/hello"))
        .await
        .expect_err("untrusted");
    assert!(
        error.report().to_string().contains("certificate"),
        "{error}"
    );
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    let site = Site::open().await;
    let port = site.address(Scheme::CoapsTcp).port();
    let error = site
        .client
        .get(format!("coaps+tcp://127.0.0.2:{port}/hello"))
        .await;
    assert!(matches!(error, Err(Error::Unreachable { .. })), "{error:?}");
    let uri = format!("coaps+tcp://127.0.0.1:{port}/hello");
    assert!(
        site.client.get(uri).await.is_ok(),
        "an address in the certificate"
    );
}

#[tokio::test]
async fn server_may_require_client_certificates() {
    let (chain, identity) = authority();
    let tls = ServerTls::new(identity.clone())
        .clients_pem(chain.as_bytes())
        .expect("PEM");
    let server = Server::builder()
        .without_datagrams()
        .bind_tls("127.0.0.1:0", tls)
        .resource("/hello", fixed(text("hello")))
        .start()
        .await
        .expect("it starts");
    let uri = format!(
        "coaps+tcp://localhost:{}/hello",
        server.local_address().port()
    );
    let trusting = || ClientTls::new().trust_pem(chain.as_bytes()).expect("PEM");
    let open = |tls| {
        let settings = Config::new().tls(tls);
        Client::builder().config(settings).open().expect("it opens")
    };
    let nobody = open(trusting()).get(uri.as_str()).await;
    assert!(nobody.is_err(), "{nobody:?}");
    let known = open(trusting().identity(identity)).get(uri.as_str()).await;
    assert_eq!(known.expect("an answer").bytes().as_ref(), b"hello");
}

#[tokio::test]
async fn garbage_closes_the_connection_only() {
    let site = Site::open().await;
    let mut stream = TcpStream::connect(site.address(Scheme::CoapTcp))
        .await
        .expect("connects");
    stream
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .await
        .expect("written");
    let mut heard = Vec::new();
    let ended = tokio::time::timeout(LIMIT, stream.read_to_end(&mut heard)).await;
    assert!(ended.is_ok(), "it is closed");
    assert_eq!(
        heard.get(1),
        Some(&0xe1).or(heard.get(1)),
        "a CSM came first"
    );
    assert!(
        site.client
            .get(site.uri(Scheme::CoapTcp, "/hello"))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn peer_without_coap_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let client = Client::new().expect("it opens");
    let asked = client
        .get(format!("coap+tcp://127.0.0.1:{port}/"))
        .into_future();
    let error = tokio::time::timeout(LIMIT, asked)
        .await
        .expect("in time")
        .expect_err("no CoAP");
    assert!(error.remedy().is_some(), "{error}");
}

#[tokio::test]
async fn closed_connection_fails_pending_requests() {
    let site = Site::open().await;
    let uri = site.uri(Scheme::CoapTcp, "/never");
    let asked = tokio::spawn(site.client.get(uri).into_future());
    // The request must be pending when the server stops.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let finish = site.server.shutdown(Duration::from_millis(100)).await;
    assert!(
        matches!(finish, ShutdownOutcome::Aborted { handlers: 1, .. }),
        "{finish:?}"
    );
    let outcome = tokio::time::timeout(LIMIT, asked)
        .await
        .expect("in time")
        .expect("it ran");
    assert!(outcome.is_err());
}

#[tokio::test]
async fn lost_connection_is_reestablished() {
    let site = Site::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let behind = site.address(Scheme::CoapTcp);
    // A relay that cuts its first connection.
    tokio::spawn(async move {
        let mut first = true;
        loop {
            let (mut near, _) = listener.accept().await.expect("a client");
            let mut far = TcpStream::connect(behind).await.expect("the server");
            let limit = if std::mem::take(&mut first) {
                300
            } else {
                60_000
            };
            tokio::spawn(async move {
                let relay = tokio::io::copy_bidirectional(&mut near, &mut far);
                let _ = tokio::time::timeout(Duration::from_millis(limit), relay).await;
            });
        }
    });
    let uri = format!("coap+tcp://127.0.0.1:{port}/hello");
    assert!(site.client.get(uri.as_str()).await.is_ok());
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(site.client.get(uri.as_str()).await.is_ok());
}

#[tokio::test]
async fn server_sends_requests_over_the_clients_connection() {
    let site = Site::open().await;
    // Without UDP: the client's TCP endpoint also serves.
    let device = Server::builder()
        .without_datagrams()
        .bind_tcp("127.0.0.1:0")
        .resource("/sensor", fixed(text("21.5")))
        .start()
        .await
        .expect("it starts");
    let told = Arc::new(tokio::sync::Mutex::new(None));
    let server = Server::builder()
        .without_datagrams()
        .bind_tcp("127.0.0.1:0")
        .resource(
            "/register",
            Resource::new().post({
                let told = Arc::clone(&told);
                move |request: Request| {
                    let told = Arc::clone(&told);
                    async move {
                        *told.lock().await = Some(request.peer());
                        Response::new(Code::CREATED)
                    }
                }
            }),
        )
        .start()
        .await
        .expect("it starts");
    let register = format!("coap+tcp://{}/register", server.local_address());
    device.client().post(register).await.expect("an answer");
    let peer = told.lock().await.expect("it registered");
    let asked = server
        .client()
        .get(format!("coap+tcp://{peer}/sensor"))
        .into_future();
    let reply = tokio::time::timeout(LIMIT, asked)
        .await
        .expect("in time")
        .expect("an answer");
    assert_eq!(reply.bytes().as_ref(), b"21.5");
    drop(site);
}

#[tokio::test]
async fn slow_non_reading_peer_is_bounded_in_memory() {
    let site = Site::open().await;
    let mut stream = TcpStream::connect(site.address(Scheme::CoapTcp))
        .await
        .expect("connects");
    // Requests for 200 kB each without reading: CSM, then GET /large.
    let mut ask = vec![0x00, 0xe1];
    for _ in 0..2_000 {
        ask.extend_from_slice(&[0x60, 0x01, 0xb5, b'l', b'a', b'r', b'g', b'e']);
    }
    let wrote = tokio::time::timeout(Duration::from_secs(2), stream.write_all(&ask)).await;
    drop(wrote);
    // Other clients are still served.
    let reply = site
        .client
        .get(site.uri(Scheme::CoapTcp, "/hello"))
        .into_future();
    assert!(
        tokio::time::timeout(LIMIT, reply)
            .await
            .expect("in time")
            .is_ok()
    );
}
