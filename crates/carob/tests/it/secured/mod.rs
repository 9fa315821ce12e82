//! Keys, certificates, clients and servers for DTLS tests.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carob::dtls::{PreSharedKey, PskStore};
use carob::server::{Request, ServerBuilder, fixed, get};
use carob::{
    Client, ClientDtls, ClientTls, Config, Identity, PeerIdentity, Server, ServerDtls,
    TransmissionParameters,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

pub(crate) fn key(identity: &str, key: &str) -> PreSharedKey {
    PreSharedKey::from_text(identity, key).expect("a key")
}

/// Pre-shared keys of two devices.
pub(crate) fn keys() -> PskStore {
    PskStore::from_text("device-1:secret-1\ndevice-2:0x0102030405060708\n").expect("a file")
}

/// A server whose `/who` returns the client's identity.
pub(crate) fn builder() -> ServerBuilder {
    Server::builder()
        .without_datagrams()
        .resource("/hello", fixed("hello"))
        .resource("/who", get(who))
        .resource("/slow", get(slow))
        .resource("/large", fixed(bytes::Bytes::from(vec![7; 20_000])))
}

async fn who(request: Request) -> String {
    match request.peer_identity() {
        Some(PeerIdentity::PreSharedKey(identity)) => String::from_utf8_lossy(identity).into(),
        Some(PeerIdentity::Certificate(der)) => format!("a certificate of {} bytes", der.len()),
        Some(PeerIdentity::Anonymous) => "anonymous".to_owned(),
        _ => "not known".to_owned(),
    }
}

async fn slow(_: Request) -> &'static str {
    tokio::time::sleep(Duration::from_millis(400)).await;
    "at last"
}

pub(crate) async fn serve(dtls: ServerDtls) -> (Server, SocketAddr) {
    serve_with(dtls, Config::new()).await
}

pub(crate) async fn serve_with(dtls: ServerDtls, settings: Config) -> (Server, SocketAddr) {
    let server = builder()
        .bind_dtls("127.0.0.1:0", dtls)
        .config(settings)
        .start()
        .await
        .expect("a free port is bound");
    let address = server.local_address();
    (server, address)
}

pub(crate) fn client(dtls: ClientDtls) -> Client {
    client_with(Config::new().dtls(dtls))
}

pub(crate) fn client_with(settings: Config) -> Client {
    let client = Client::builder().config(settings).open();
    client.expect("a client opens")
}

/// A client with the key of device 1.
pub(crate) fn device() -> Client {
    client(ClientDtls::new().psk(key("device-1", "secret-1")))
}

/// Short timeouts: silence is noticed within half a second.
pub(crate) fn impatient() -> TransmissionParameters {
    let mut parameters = TransmissionParameters::DEFAULT;
    parameters.ack_timeout = carob_cc::time::Duration::from_millis(50);
    parameters.max_retransmit = 2;
    parameters
}

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    pub(crate) fn issue(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let (chain, key) = (certificate.pem(), key.serialize_pem());
        Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("PEM")
    }

    /// A certificate followed by its issuer's, and its key, as PEM.
    pub(crate) fn chain(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem() + &self.pem, key.serialize_pem())
    }

    /// A certificate followed by its intermediate issuer's and the root, and its key, as PEM.
    pub(crate) fn by_intermediate(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let own_name = rcgen::DnType::CommonName;
        params.distinguished_name.push(own_name, "an intermediate");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let intermediate = Self {
            issuer: Issuer::new(params, key),
            pem: certificate.pem(),
        };
        intermediate.chain(name)
    }

    pub(crate) fn server(&self) -> ServerDtls {
        ServerDtls::new().identity(self.issue("127.0.0.1", |_| {}))
    }

    pub(crate) fn trust(&self) -> ClientTls {
        ClientTls::new()
            .trust_pem(self.pem.as_bytes())
            .expect("PEM")
    }
}

/// A relay between a client and a server that applies a [`Fate`] to each datagram.
pub(crate) struct Between {
    pub(crate) address: SocketAddr,
    pub(crate) up: Arc<AtomicU64>,
    pub(crate) down: Arc<AtomicU64>,
    /// Socket towards the server.
    inner: Arc<Mutex<UdpSocket>>,
}

/// Maps a datagram and its direction to the datagrams to forward.
pub(crate) type Fate = dyn FnMut(bool, &[u8]) -> Vec<Vec<u8>> + Send;

impl Between {
    pub(crate) fn new(server: SocketAddr, mut fate: Box<Fate>) -> Self {
        let outer = bound();
        let inner = Arc::new(Mutex::new(towards(server)));
        let address = outer.local_addr().expect("bound");
        let (up, down) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let between = Self {
            address,
            up: Arc::clone(&up),
            down: Arc::clone(&down),
            inner: Arc::clone(&inner),
        };
        std::thread::spawn(move || {
            let mut client = None;
            let mut buffer = [0; 4_096];
            // Polls each socket for a millisecond; the thread ends with the process.
            loop {
                let inner = || inner.lock().expect("no thread panics with it");
                while let Ok((length, from)) = outer.recv_from(&mut buffer) {
                    client = Some(from);
                    up.fetch_add(1, Ordering::Relaxed);
                    for datagram in fate(true, &buffer[..length]) {
                        let _ = inner().send(&datagram);
                    }
                }
                while let Ok(length) = { inner().recv(&mut buffer) } {
                    down.fetch_add(1, Ordering::Relaxed);
                    for datagram in fate(false, &buffer[..length]) {
                        if let Some(client) = client {
                            let _ = outer.send_to(&datagram, client);
                        }
                    }
                }
            }
        });
        between
    }

    /// The client's address as seen by the server.
    pub(crate) fn client(&self) -> SocketAddr {
        let inner = self.inner.lock().expect("no thread panics with it");
        inner.local_addr().expect("bound")
    }

    /// Switches to `server` and a new source port, like a NAT that lost its mapping.
    pub(crate) fn move_to(&self, server: SocketAddr) {
        *self.inner.lock().expect("no thread panics with it") = towards(server);
    }
}

fn towards(server: SocketAddr) -> UdpSocket {
    let socket = bound();
    socket.connect(server).expect("loopback");
    socket
}

fn bound() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port is bound");
    let wait = Some(Duration::from_millis(1));
    socket.set_read_timeout(wait).expect("a time");
    socket
}

/// The first ClientHello of a client like libcoap: TLS_PSK_WITH_AES_128_CCM_8, no cookie.
pub(crate) fn hello(random: u8, cookie: &[u8], number: u16) -> Vec<u8> {
    // Cipher suite, compression, and the extended master secret extension.
    let rest = [0, 2, 0xc0, 0xa8, 1, 0, 0, 4, 0, 23, 0, 0];
    hello_with(&[random; 32], cookie, number, &rest)
}

/// A ClientHello that offers TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256.
pub(crate) fn certificate_hello(random: &[u8; 32], cookie: &[u8], number: u16) -> Vec<u8> {
    let mut rest = vec![0, 2, 0xc0, 0x2b, 1, 0, 0, 26];
    // P-256, uncompressed points, ECDSA with SHA-256 (RFC 8422 5.1).
    rest.extend_from_slice(&[0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0]);
    rest.extend_from_slice(&[0, 13, 0, 4, 0, 2, 4, 3, 0, 23, 0, 0]);
    hello_with(random, cookie, number, &rest)
}

fn hello_with(random: &[u8; 32], cookie: &[u8], number: u16, rest: &[u8]) -> Vec<u8> {
    let mut body = vec![0xfe, 0xfd];
    body.extend_from_slice(random);
    body.push(0);
    body.push(cookie.len() as u8);
    body.extend_from_slice(cookie);
    body.extend_from_slice(rest);
    let length = (body.len() as u32).to_be_bytes();
    let mut message = vec![1];
    message.extend_from_slice(&length[1..]);
    message.extend_from_slice(&number.to_be_bytes());
    message.extend_from_slice(&[0, 0, 0]);
    message.extend_from_slice(&length[1..]);
    message.extend_from_slice(&body);
    let mut record = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, number as u8];
    record.extend_from_slice(&(message.len() as u16).to_be_bytes());
    record.extend_from_slice(&message);
    record
}
