//! Connection setup as seen by the peer: TLS, ALPN, WebSocket, and responses of a client without a server
//! (RFC 8323 3.3, 4, 8.2, 9).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carob::server::fixed;
use carob::{
    Client, ClientTls, Code, Config, Error, Identity, Response, Scheme, Server, ServerTls,
};
use carob_proto::codec::{FrameReader, Framing, MessageView};
use futures_util::StreamExt as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{
    ErrorResponse, Request, Response as Shake,
};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;

const LIMIT: Duration = Duration::from_secs(20);

async fn limited<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("in time")
}

/// A certificate for "localhost" and its key as PEM.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
    let made = made.expect("a certificate");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A TLS acceptor independent of Carob with these ALPN protocols.
fn foreign_server(chain: &str, key: &str, alpn: &[&[u8]]) -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(|c| c.expect("PEM"));
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .expect("a pair");
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

fn client_trusting(chain: &str) -> Client {
    let tls = ClientTls::new().trust_pem(chain.as_bytes()).expect("PEM");
    Client::builder()
        .config(Config::new().tls(tls))
        .open()
        .expect("it opens")
}

/// The result of a Carob client's request to a TLS server with these ALPN protocols.
async fn asked_at(address: &str, alpn: &'static [&'static [u8]]) -> Result<(), Error> {
    let (chain, key) = certificate();
    let listener = TcpListener::bind(address).await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let acceptor = foreign_server(&chain, &key, alpn);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let Ok(mut stream) = acceptor.accept(stream).await else {
            return;
        };
        // A CSM; then 2.05 with the token of 8 bytes from the GET that follows the client's CSM.
        stream.write_all(&[0x00, 0xe1]).await.expect("written");
        let mut got = Vec::new();
        let mut reader = FrameReader::new(Framing::Stream, 2_000);
        while stream.read_buf(&mut got).await.is_ok_and(|read| read > 0) {
            reader.push(&got);
            got.clear();
            while let Ok(Some(message)) = reader.next() {
                let message = MessageView::parse_long(message).expect("well formed");
                if message.code() == Code::GET {
                    let mut answer = vec![0x08, 0x45];
                    answer.extend_from_slice(message.token().as_slice());
                    stream.write_all(&answer).await.expect("written");
                }
            }
        }
    });
    let client = client_trusting(&chain);
    let to: SocketAddr = format!("{}:{port}", address.split(':').next().expect("an address"))
        .parse()
        .expect("an address");
    let get = client
        .get(format!("coaps+tcp://localhost:{port}/"))
        .address(to)
        .into_future();
    limited(get).await.map(|_| ())
}

#[tokio::test]
async fn client_offers_alpn_coap_and_continues_if_selected() {
    asked_at("127.0.0.1:0", &[b"h2", b"coap"])
        .await
        .expect("an answer");
}

#[tokio::test]
async fn client_without_alpn_at_other_port_than_5684_closes() {
    let error = asked_at("127.0.0.1:0", &[]).await.expect_err("no ALPN");
    assert!(error.report().to_string().contains("ALPN"), "{error}");
}

#[tokio::test]
async fn at_5684_a_server_may_be_without_alpn_but_not_refuse_it() {
    asked_at("127.0.0.84:5684", &[]).await.expect("an answer");
    // Without a common protocol, the server sends no_application_protocol.
    let error = asked_at("127.0.0.85:5684", &[b"h2"])
        .await
        .expect_err("refused");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

async fn serve_tls() -> (Server, SocketAddr, String) {
    let (chain, key) = certificate();
    let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("PEM");
    let server = Server::builder()
        .without_datagrams()
        .bind_tls("127.0.0.1:0", ServerTls::new(identity.clone()))
        .bind_wss("127.0.0.1:0", ServerTls::new(identity))
        .resource("/", fixed(Response::new(Code::CONTENT)))
        .start()
        .await
        .expect("it starts");
    let address = server.local_address();
    (server, address, chain)
}

/// The ALPN protocol selected by Carob's server.
async fn selected(
    address: SocketAddr,
    chain: &str,
    alpn: &[&[u8]],
) -> std::io::Result<Option<Vec<u8>>> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(chain.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("a certificate");
    }
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let selected = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    // In TLS 1.3, the alert may arrive after the client's handshake has completed.
    let mut first = [0; 2];
    stream.read_exact(&mut first).await?;
    Ok(selected)
}

#[tokio::test]
async fn server_selects_alpn_coap_and_refuses_other_protocols() {
    let (_server, address, chain) = serve_tls().await;
    let of = |alpn: &'static [&'static [u8]]| limited(selected(address, &chain, alpn));
    assert_eq!(
        of(&[b"h2", b"coap"]).await.expect("agreed"),
        Some(b"coap".to_vec())
    );
    assert_eq!(of(&[]).await.expect("without ALPN"), None);
    assert!(of(&[b"h2"]).await.is_err());
}

#[tokio::test]
async fn tls_before_1_2_is_refused() {
    let (_server, address, _) = serve_tls().await;
    let mut stream = TcpStream::connect(address).await.expect("connects");
    // ClientHello of TLS 1.1 with one cipher suite and no extensions.
    let mut hello = vec![0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2];
    hello.extend_from_slice(&[7; 32]);
    hello.extend_from_slice(&[0, 0, 2, 0xc0, 0x13, 1, 0]);
    hello[4] = (hello.len() - 5) as u8;
    hello[8] = (hello.len() - 9) as u8;
    stream.write_all(&hello).await.expect("written");
    let mut answer = Vec::new();
    limited(stream.read_to_end(&mut answer))
        .await
        .expect("closed");
    assert_eq!(
        answer.first(),
        Some(&0x15),
        "an alert, and nothing else: {answer:?}"
    );
}

#[tokio::test]
async fn coaps_ws_starts_with_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let client = Client::new().expect("it opens");
    let asked = tokio::spawn(
        client
            .get(format!("coaps+ws://127.0.0.1:{port}/"))
            .into_future(),
    );
    let (mut stream, _) = limited(listener.accept()).await.expect("a client");
    let mut first = [0; 6];
    limited(stream.read_exact(&mut first))
        .await
        .expect("a reply");
    // A handshake record (22) with a ClientHello (1).
    assert_eq!((first[0], first[5]), (0x16, 1));
    drop(stream);
    assert!(limited(asked).await.expect("it ran").is_err());
}

/// Accepts a WebSocket from a Carob client and stays silent for `silence`; returns the offered path and subprotocol, and
/// the client's messages.
async fn offered(silence: Duration) -> (String, String, Vec<Message>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let settings = Config::new().connections(|reliable| {
        reliable.csm_wait = carob_cc::time::Duration::from_secs(60);
        reliable.probe_after = Some(carob_cc::time::Duration::from_millis(200));
    });
    let client = Client::builder().config(settings).open().expect("it opens");
    let asked = tokio::spawn(
        client
            .get(format!("coap+ws://127.0.0.1:{port}/"))
            .into_future(),
    );
    let (stream, _) = limited(listener.accept()).await.expect("a client");
    let seen = Arc::new(Mutex::new((String::new(), String::new())));
    let hear = Arc::clone(&seen);
    #[expect(clippy::result_large_err, reason = "the library's signature")]
    let agree = move |request: &Request, mut response: Shake| -> Result<Shake, ErrorResponse> {
        let protocol = request.headers().get(SEC_WEBSOCKET_PROTOCOL);
        let protocol = protocol
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        *hear.lock().expect("one at a time") =
            (request.uri().path().to_owned(), protocol.to_owned());
        let coap = HeaderValue::from_static("coap");
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, coap);
        Ok(response)
    };
    let mut stream = tokio_tungstenite::accept_hdr_async(stream, agree)
        .await
        .expect("agreed");
    let mut messages = Vec::new();
    let listen = async {
        while let Some(Ok(message)) = stream.next().await {
            messages.push(message);
        }
    };
    let _ = tokio::time::timeout(silence, listen).await;
    asked.abort();
    let (path, protocol) = seen.lock().expect("one at a time").clone();
    (path, protocol, messages)
}

#[tokio::test]
async fn websocket_uses_well_known_coap_and_subprotocol() {
    let (path, protocol, messages) = offered(Duration::from_millis(100)).await;
    assert_eq!(
        (path.as_str(), protocol.as_str()),
        ("/.well-known/coap", "coap")
    );
    assert!(messages.iter().all(Message::is_binary) && !messages.is_empty());
}

#[tokio::test]
async fn silent_peer_gets_coap_pings_and_no_websocket_pings() {
    let (.., messages) = offered(Duration::from_millis(350)).await;
    let pings = messages.iter().filter(|message| message.is_ping()).count();
    // The code is the second byte: 7.02 is Ping.
    let asked = messages
        .iter()
        .any(|message| matches!(message, Message::Binary(bytes) if bytes.get(1) == Some(&0xe2)));
    assert!(pings == 0 && asked, "{messages:?}");
}

#[tokio::test]
async fn websocket_needs_subprotocol_and_path() {
    let server = Server::builder()
        .without_datagrams()
        .bind_ws("127.0.0.1:0")
        .start()
        .await
        .expect("it starts");
    let ask = async |path: &str, protocol: &str| {
        let mut stream = TcpStream::connect(server.local_address())
            .await
            .expect("connects");
        let text = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{protocol}\r\n"
        );
        stream.write_all(text.as_bytes()).await.expect("written");
        let mut status = [0; 12];
        limited(stream.read_exact(&mut status))
            .await
            .expect("an answer");
        String::from_utf8_lossy(&status[9..]).into_owned()
    };
    let coap = "Sec-WebSocket-Protocol: chat, coap\r\n";
    assert_eq!(ask("/.well-known/coap", coap).await, "101");
    assert_eq!(ask("/.well-known/coap", "").await, "400");
    assert_eq!(ask("/", coap).await, "404");
}

#[tokio::test]
async fn a_web_page_of_another_site_is_refused() {
    let server = Server::builder()
        .without_datagrams()
        .bind_ws("127.0.0.1:0")
        .ws_origin("App.example.org")
        .start()
        .await
        .expect("it starts");
    for (host, origin, status) in [
        ("coap.example.com", None, "421"),
        ("app.example.org", None, "101"),
        ("192.0.2.7:8080", None, "101"),
        ("evil.example", Some("http://evil.example"), "421"),
        ("", Some("http://evil.example"), "421"),
        ("127.0.0.1:8080", Some("http://evil.example"), "403"),
        (
            "127.0.0.1:8080",
            Some("http://127.0.0.1.evil.example"),
            "403",
        ),
        ("127.0.0.1:8080", Some("http://192.0.2.7"), "403"),
        ("127.0.0.1:8080", Some("null"), "403"),
        ("127.0.0.1:8080", Some("http://127.0.0.1:3000"), "101"),
        ("[::1]:8080", Some("http://[::1]"), "101"),
        ("localhost", Some("https://LOCALHOST"), "101"),
        ("127.0.0.1", Some("https://app.example.org:8443"), "101"),
        ("app.example.org:80", Some("https://app.example.org"), "101"),
        ("app.example.org", Some("https://evil.example"), "403"),
    ] {
        let mut stream = TcpStream::connect(server.local_address())
            .await
            .expect("connects");
        let origin = origin.map(|origin| format!("Origin: {origin}\r\n"));
        let origin = origin.unwrap_or_default();
        let text = format!(
            "GET /.well-known/coap HTTP/1.1\r\nHost: {host}\r\n{origin}Upgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: coap\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).await.expect("written");
        let mut answer = [0; 12];
        limited(stream.read_exact(&mut answer))
            .await
            .expect("an answer");
        let answer = String::from_utf8_lossy(&answer[9..]);
        assert_eq!(answer, status, "{host} {origin}");
    }
}

#[tokio::test]
async fn client_without_server_responds_5_01() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let client = Client::new().expect("it opens");
    let uri = format!("{}://127.0.0.1:{port}/", Scheme::CoapTcp);
    let asked = tokio::spawn(client.get(uri).into_future());
    let (mut stream, _) = limited(listener.accept()).await.expect("a client");
    // A CSM, and a GET with token 2a.
    stream
        .write_all(&[0x00, 0xe1, 0x01, 0x01, 0x2a])
        .await
        .expect("written");
    let mut reader = FrameReader::new(Framing::Stream, 2_000);
    let mut got = Vec::new();
    let code = limited(async {
        loop {
            stream.read_buf(&mut got).await.expect("a reply");
            reader.push(&got);
            got.clear();
            while let Some(message) = reader.next().expect("well formed") {
                let message = MessageView::parse_long(message).expect("well formed");
                if message.token().as_slice() == [0x2a] {
                    return message.code();
                }
            }
        }
    });
    assert_eq!(code.await, Code::NOT_IMPLEMENTED);
    asked.abort();
}
