//! URI schemes and their transports (RFC 7252 6.1, RFC 8323 8).

use core::fmt;

/// A URI scheme, which names the transport and whether it is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `coap`: UDP (RFC 7252 6.1).
    Coap,
    /// `coaps`: DTLS over UDP (RFC 7252 6.2).
    Coaps,
    /// `coap+tcp`: TCP (RFC 8323 8.1).
    CoapTcp,
    /// `coaps+tcp`: TLS over TCP (RFC 8323 8.2).
    CoapsTcp,
    /// `coap+ws`: WebSocket (RFC 8323 8.3).
    CoapWs,
    /// `coaps+ws`: WebSocket over TLS (RFC 8323 8.4).
    CoapsWs,
}

impl Scheme {
    pub(super) const ALL: [Self; 6] = [
        Self::Coap,
        Self::Coaps,
        Self::CoapTcp,
        Self::CoapsTcp,
        Self::CoapWs,
        Self::CoapsWs,
    ];

    /// Returns the scheme of this name, regardless of case.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|scheme| scheme.name().eq_ignore_ascii_case(name))
    }

    /// Returns the scheme as written in a URI.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Coap => "coap",
            Self::Coaps => "coaps",
            Self::CoapTcp => "coap+tcp",
            Self::CoapsTcp => "coaps+tcp",
            Self::CoapWs => "coap+ws",
            Self::CoapsWs => "coaps+ws",
        }
    }

    /// Returns the port of a URI that names none.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Coap | Self::CoapTcp => 5683,
            Self::Coaps | Self::CoapsTcp => 5684,
            Self::CoapWs => 80,
            Self::CoapsWs => 443,
        }
    }

    /// Returns whether the transport is secured.
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Coaps | Self::CoapsTcp | Self::CoapsWs)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
