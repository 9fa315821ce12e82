//! Transports, server addresses and credentials.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::installed::Peer;
use crate::interop::{clients::Implementation, requests::Connection, wire::Side};
use crate::process::Scratch;

/// A transport of RFC 7252 or RFC 8323.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transport {
    Udp,
    Dtls {
        credentials: Credentials,
        /// The TLS library of libcoap's programs.
        library: &'static str,
    },
    Tcp,
    Tls,
    WebSocket,
    SecureWebSocket,
}

/// Credentials of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Credentials {
    PreSharedKey,
    ServerCertificate,
    /// Certificates of the server and of the client.
    BothCertificates,
}

impl Transport {
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Udp => "coap",
            Self::Dtls { .. } => "coaps",
            Self::Tcp => "coap+tcp",
            Self::Tls => "coaps+tcp",
            Self::WebSocket => "coap+ws",
            Self::SecureWebSocket => "coaps+ws",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Dtls { .. } => "DTLS",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::WebSocket => "WS",
            Self::SecureWebSocket => "WSS",
        }
    }

    pub(crate) fn is_secure(self) -> bool {
        self.credentials().is_some()
    }

    fn credentials(self) -> Option<Credentials> {
        match self {
            Self::Dtls { credentials, .. } => Some(credentials),
            Self::Tls | Self::SecureWebSocket => Some(Credentials::ServerCertificate),
            Self::Udp | Self::Tcp | Self::WebSocket => None,
        }
    }

    /// libcoap's example client or server for this transport.
    pub(crate) fn libcoap(self, end: &str) -> String {
        let library = match self {
            Self::Dtls { library, .. } => library,
            _ if self.is_secure() => "openssl",
            _ => "notls",
        };
        format!("coap-{end}-{library}")
    }

    /// Adds keys and certificates to the command of a client or server.
    pub(crate) fn add_credentials(
        self,
        command: &mut Command,
        of: Implementation,
        side: Side,
        connection: Connection,
        scratch: &Scratch,
    ) {
        let Some(credentials) = self.credentials() else {
            return;
        };
        let files = Certificates::write(scratch);
        let is_libcoap = of == Implementation::Of(Peer::Libcoap);
        if credentials == Credentials::PreSharedKey {
            let (identity, key) = PRE_SHARED_KEY;
            match of {
                Implementation::Carob => _ = command.arg("--psk-file").arg(files.keys),
                Implementation::Of(Peer::Libcoap) => {
                    command.args(["-k", key]);
                    if side == Side::Client {
                        command.args(["-u", identity]);
                    }
                }
                Implementation::Of(_) => {
                    command.args(["--psk", &format!("{identity}:{key}")]);
                }
            }
            return;
        }
        let [ca, client_ca, certificate, key] = if is_libcoap {
            ["-C", "-C", "-c", "-j"]
        } else {
            ["--ca", "--client-ca", "--cert", "--key"]
        };
        let is_mutual = credentials == Credentials::BothCertificates;
        if side == Side::Server || is_mutual {
            command.arg(certificate).arg(files.certificate);
            command.arg(key).arg(files.key);
        }
        match side {
            Side::Client if connection == Connection::TrustingStrangers => {
                command.arg(ca).arg(files.stranger);
            }
            Side::Client => _ = command.arg(ca).arg(files.authority),
            Side::Server if is_mutual => _ = command.arg(client_ca).arg(files.authority),
            // No client certificate required.
            Side::Server if is_libcoap => _ = command.arg("-n"),
            Side::Server => {}
        }
    }
}

/// The identity and the key of DTLS with a pre-shared key.
const PRE_SHARED_KEY: (&str, &str) = ("device", "secret-1");

/// Server address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To {
    pub(crate) transport: Transport,
    pub(crate) port: u16,
}

impl To {
    /// The URI for a path without its leading slash.
    pub(crate) fn uri(self, path: &str) -> String {
        format!(
            "{}://127.0.0.1:{}/{path}",
            self.transport.scheme(),
            self.port
        )
    }
}

/// Files for TLS and DTLS: a certificate for 127.0.0.1 with its key, the issuing CA (PEM), and the pre-shared key.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    keys: PathBuf,
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// A CA that issued none of the certificates.
    pub(crate) stranger: PathBuf,
}

impl Certificates {
    /// Writes the files; the certificates are generated once per process.
    pub(crate) fn write(scratch: &Scratch) -> Self {
        static TEXTS: OnceLock<[String; 4]> = OnceLock::new();
        let [authority, certificate, key, stranger] = TEXTS.get_or_init(make);
        let (identity, pre_shared_key) = PRE_SHARED_KEY;
        Self {
            keys: (scratch.with("keys.txt", format!("{identity}:{pre_shared_key}\n"))).into(),
            authority: scratch.with("ca.pem", authority).into(),
            certificate: scratch.with("cert.pem", certificate).into(),
            key: scratch.with("key.pem", key).into(),
            stranger: scratch.with("stranger.pem", stranger).into(),
        }
    }
}

pub(crate) fn pem(file: &Path) -> Vec<u8> {
    fs::read(file).expect("it was written")
}

fn make() -> [String; 4] {
    let authority = |name: &str| {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect("a certificate");
        (certificate.pem(), Issuer::new(params, key))
    };
    let (trusted, issuer) = authority("Carob interop authority");
    let (stranger, _) = authority("Carob interop stranger");
    let key = KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let params = CertificateParams::new(names).expect("names");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    [trusted, certificate.pem(), key.serialize_pem(), stranger]
}
