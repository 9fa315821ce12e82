//! The authenticated identity of a peer.

/// Authenticated identity of the peer of a DTLS session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
