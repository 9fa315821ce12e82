//! Transports, server addresses and certificates.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::process::Scratch;

/// A transport of RFC 7252 or RFC 8323.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transport {
    Udp,
    Tcp,
    Tls,
    WebSocket,
    SecureWebSocket,
}

impl Transport {
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Udp => "coap",
            Self::Tcp => "coap+tcp",
            Self::Tls => "coaps+tcp",
            Self::WebSocket => "coap+ws",
            Self::SecureWebSocket => "coaps+ws",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::WebSocket => "WS",
            Self::SecureWebSocket => "WSS",
        }
    }

    pub(crate) fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::SecureWebSocket)
    }
}

/// Server address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To {
    pub(crate) transport: Transport,
    pub(crate) port: u16,
}

impl To {
    pub(crate) fn udp(port: u16) -> Self {
        Self {
            transport: Transport::Udp,
            port,
        }
    }

    /// The URI for a path without its leading slash.
    pub(crate) fn uri(self, path: &str) -> String {
        format!(
            "{}://127.0.0.1:{}/{path}",
            self.transport.scheme(),
            self.port
        )
    }
}

/// PEM files for TLS: a server certificate for 127.0.0.1 with its key, and the issuing CA.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
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
        Self {
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
