//! Reasons of failed handshakes.

use carob_proto::Escaped;

use super::secure::DtlsError;

/// Reason for which no DTLS session was established.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer did not respond.
    #[error("no reply to any of {copies} transmissions of the first message")]
    NoAnswer {
        /// Transmissions of the first message.
        copies: usize,
    },
    /// The peer stopped responding during the handshake.
    #[error("the peer stopped responding during the handshake")]
    Silent,
    /// The peer rejected the pre-shared key, or stopped responding when it had to verify it.
    #[error("the peer does not accept the pre-shared key of identity \"{identity}\"")]
    WrongKey {
        /// Identity sent to the peer.
        identity: String,
    },
    /// The peer does not know the pre-shared key identity.
    #[error("the peer does not know the identity \"{identity}\"")]
    UnknownIdentity {
        /// The identity.
        identity: String,
    },
    /// The peer's certificate is not trusted.
    #[error("the certificate of the peer is not trusted: {problem}")]
    NotTrusted {
        /// The problem.
        problem: String,
    },
    /// The peer rejected the client certificate, or requires one.
    #[error("the peer does not accept our certificate: {problem}")]
    Refused {
        /// Alert of the peer.
        problem: &'static str,
    },
    /// The two sides have no cipher suite in common.
    #[error("no common cipher suite")]
    NoCommonSuite,
    /// There is no usable credential for the peer.
    #[error("there is no pre-shared key or certificate for this peer: {problem}")]
    NoCredential {
        /// Problem of the existing credentials.
        problem: String,
    },
    /// The peer ended the handshake with another alert.
    #[error("the peer aborted the handshake: {alert}")]
    Alert {
        /// Name of the alert.
        alert: &'static str,
    },
    /// The handshake failed for another reason.
    #[error("the handshake failed: {0}")]
    Other(String),
}

impl HandshakeError {
    /// Returns a remedy as text for a user.
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
                "the server's certificate must be for this name, not a CA's own, and issued by a \
                 trusted CA"
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

    /// Converts the end of a handshake, for a client with this identity; `proven` if it had sent
    /// its proof, so that only the proof can be refused.
    pub(crate) fn of(broken: DtlsError, identity: Option<&[u8]>, proven: bool) -> Self {
        let identity = identity.map(|identity| Escaped(identity).to_string());
        match (broken, identity) {
            // The server could not read what was encrypted, whatever it calls that. 115 is about
            // the identity (RFC 4279 2).
            (DtlsError::Alert(number), Some(identity)) if proven && number != 115 => {
                Self::WrongKey { identity }
            }
            (DtlsError::Alert(115), Some(identity)) => Self::UnknownIdentity { identity },
            // decrypt_error and bad_record_mac mean that the keys differ.
            (DtlsError::Alert(20 | 51), Some(identity)) => Self::WrongKey { identity },
            // About certificates (RFC 5246 7.2.2).
            (DtlsError::Alert(number @ (41..=46 | 48 | 49)), _) => Self::Refused {
                problem: alert(number),
            },
            (DtlsError::Alert(40 | 71) | DtlsError::NoCommonSuite, _) => Self::NoCommonSuite,
            (DtlsError::Alert(number), _) => Self::Alert {
                alert: alert(number),
            },
            (DtlsError::NotProven, _) => Self::Other("the peer has not proven its key".to_owned()),
            (DtlsError::Library(text), _) => Self::Other(text),
        }
    }
}

/// The name of an alert (RFC 5246 7.2, RFC 4279 6).
pub(crate) fn alert(number: u8) -> &'static str {
    match number {
        // RFC 5246 A.3; 115: RFC 4279 2.
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
        _ => "an unassigned alert",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_identities_are_shown_distinctly() {
        let of = |identity: &[u8]| HandshakeError::of(DtlsError::Alert(51), Some(identity), true);
        let wrong = |identity: &str| HandshakeError::WrongKey {
            identity: identity.to_owned(),
        };
        assert_eq!(of(b"meter\xfe"), wrong(r"meter\xfe"));
        assert_ne!(of(b"meter\xfe"), of(b"meter\xff"));
    }
}
