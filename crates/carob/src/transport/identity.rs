//! The authenticated identity of a peer.

use std::fmt;

use carob_proto::Escaped;

/// Authenticated identity of the peer of a DTLS session.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerIdentity {
    /// Pre-shared key identity (RFC 4279): of the client, or the one whose key the server has
    /// proven to know.
    PreSharedKey(Vec<u8>),
    /// Certificate of the peer (DER), verified against the trust anchors.
    Certificate(Vec<u8>),
    /// None: a client that was not required to have a certificate.
    Anonymous,
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PreSharedKey(identity) => write!(f, "PreSharedKey(\"{}\")", Escaped(identity)),
            Self::Certificate(der) => write!(f, "Certificate({} bytes)", der.len()),
            Self::Anonymous => f.write_str("Anonymous"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_identity_as_text() {
        let shown =
            |identity: &[u8]| format!("{:?}", PeerIdentity::PreSharedKey(identity.to_vec()));
        assert_eq!(shown(b"meter-7"), r#"PreSharedKey("meter-7")"#);
        assert_eq!(shown(b"\xff"), r#"PreSharedKey("\xff")"#);
        let certificate = PeerIdentity::Certificate(vec![0; 400]);
        assert_eq!(format!("{certificate:?}"), "Certificate(400 bytes)");
    }
}
