//! Why a session could not be made.

use super::secure::Broken;

/// Why there is no session with a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// Nothing came back.
    #[error("no answer to any of {copies} copies of the first message")]
    NoAnswer {
        /// Copies sent.
        copies: usize,
    },
    /// The peer answered, and then fell silent.
    #[error("the peer fell silent in the middle of the handshake")]
    Silent,
    /// The peer fell silent, or broke off, when it had to accept our pre-shared key.
    #[error("the peer does not accept the pre-shared key of identity \"{identity}\"")]
    WrongKey {
        /// The identity that we gave it.
        identity: String,
    },
    /// The peer does not know the identity that we gave it.
    #[error("the peer does not know the identity \"{identity}\"")]
    UnknownIdentity {
        /// The identity.
        identity: String,
    },
    /// The peer's certificate is not trusted.
    #[error("the certificate of the peer is not trusted: {problem}")]
    NotTrusted {
        /// What is wrong with it.
        problem: String,
    },
    /// The peer does not accept our certificate, or asks for one and there is none.
    #[error("the peer does not accept our certificate: {problem}")]
    Refused {
        /// What it says.
        problem: &'static str,
    },
    /// There is no way of securing the session that both sides know.
    #[error("no cipher suite that both sides can use")]
    NoCommonSuite,
    /// There is nothing to secure a session with.
    #[error("there is no pre-shared key or certificate for this peer: {problem}")]
    NoCredential {
        /// What is wrong with those that there are.
        problem: String,
    },
    /// The peer broke the handshake off for another reason.
    #[error("the peer broke the handshake off: {alert}")]
    Alert {
        /// Its reason.
        alert: &'static str,
    },
    /// The handshake failed in another way.
    #[error("the handshake failed: {0}")]
    Other(String),
}

impl HandshakeError {
    /// What may help.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoAnswer { .. } => {
                "check that a server for coaps:// listens there (the usual port is 5684)"
            }
            Self::Silent | Self::Other(_) => {
                "the path may be very lossy, or the server may speak another version of DTLS than 1.2"
            }
            Self::WrongKey { .. } | Self::UnknownIdentity { .. } => {
                "check the identity and its key on both sides"
            }
            Self::NotTrusted { .. } => {
                "the server's certificate must be for this name, not a CA's own, and issued by who \
                 is trusted here"
            }
            Self::Refused { .. } => {
                "give the certificate, and its key, of a client that the server trusts"
            }
            Self::NoCommonSuite | Self::Alert { .. } => {
                "pre-shared keys work with TLS_PSK_WITH_AES_128_CCM_8, certificates with \
                 TLS_ECDHE_ECDSA and AES-GCM or ChaCha20; RSA keys, raw public keys and \
                 TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8 are not supported"
            }
            Self::NoCredential { .. } => "give a pre-shared key, or certificates to trust",
        }
    }

    /// What an end of the handshake means to a client that has identified itself like this;
    /// `proven` if it had sent its proof, so that only that can be what is refused.
    pub(crate) fn of(broken: Broken, identity: Option<&[u8]>, proven: bool) -> Self {
        let identity = identity.map(|identity| String::from_utf8_lossy(identity).into_owned());
        match (broken, identity) {
            (Broken::Alert(number), Some(identity)) if proven && number != 115 => {
                Self::WrongKey { identity }
            }
            (Broken::Alert(115), Some(identity)) => Self::UnknownIdentity { identity },
            // decrypt_error and bad_record_mac say that the keys differ.
            (Broken::Alert(20 | 51), Some(identity)) => Self::WrongKey { identity },
            (Broken::Alert(number @ (41..=46 | 48 | 49)), _) => Self::Refused {
                problem: alert(number),
            },
            (Broken::Alert(40 | 71) | Broken::NoCommonSuite, _) => Self::NoCommonSuite,
            (Broken::Alert(number), _) => Self::Alert {
                alert: alert(number),
            },
            (Broken::NotProven, _) => Self::Other("the peer has not proven its key".to_owned()),
            (Broken::Library(text), _) => Self::Other(text),
        }
    }
}

/// The name of an alert (RFC 5246 7.2, RFC 4279 6).
pub(crate) fn alert(number: u8) -> &'static str {
    match number {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        41 => "no_certificate",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        90 => "user_canceled",
        110 => "unsupported_extension",
        115 => "unknown_psk_identity",
        _ => "an alert without a name",
    }
}
