//! The host of a URI: name, IPv4 address or IPv6 address with a zone (RFC 3986 3.2.2, RFC 6874).

use alloc::string::String;
use core::fmt::{self, Write as _};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::error::{UriError, UriErrorKind, error};
use super::percent::{decode_text, encode, hex_pair, is_name_byte, is_unreserved};

/// The host of a URI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A registered name, percent-decoded, ASCII letters in lower case.
    Name(String),
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6 {
        /// The address.
        address: Ipv6Addr,
        /// The zone, such as an interface name, of a link-local address (RFC 6874).
        zone: Option<String>,
    },
}

impl Host {
    /// Returns the address, when the host is one.
    pub const fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::Ipv4(address) => Some(IpAddr::V4(*address)),
            Self::Ipv6 { address, .. } => Some(IpAddr::V6(*address)),
        }
    }

    /// Reads a host that starts at byte `offset` of the text errors refer to.
    pub(super) fn parse(text: &str, offset: usize) -> Result<Self, UriError> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner
                .strip_suffix(']')
                .ok_or_else(|| error(UriErrorKind::InvalidIpLiteral, offset))?;
            return parse_ip_literal(inner, offset + 1);
        }
        if text.is_empty() {
            return Err(error(UriErrorKind::HostMissing, offset));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Ipv4(address));
        }
        let mut name = decode_text(text, offset, is_name_byte)?;
        name.make_ascii_lowercase();
        Ok(Self::Name(name))
    }
}

impl fmt::Display for Host {
    /// Writes the host as in a URI: names percent-encoded, IPv6 addresses in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => encode(f, name.as_bytes(), is_name_byte),
            Self::Ipv4(address) => write!(f, "{address}"),
            Self::Ipv6 {
                address,
                zone: None,
            } => write!(f, "[{address}]"),
            Self::Ipv6 {
                address,
                zone: Some(zone),
            } => {
                write!(f, "[{address}%25")?;
                encode(f, zone.as_bytes(), is_unreserved)?;
                f.write_char(']')
            }
        }
    }
}

/// Parses the text between brackets: an IPv6 address with an optional zone.
fn parse_ip_literal(text: &str, offset: usize) -> Result<Host, UriError> {
    let (address, zone) = match text.split_once('%') {
        None => (text, None),
        Some((address, zone)) => {
            let zone_offset = offset + address.len() + 1;
            // RFC 6874 writes the separator as "%25". A bare "%" is accepted where it cannot begin
            // an escape (its appendix A).
            let (zone, zone_offset) = match zone.strip_prefix("25") {
                Some(zone) => (zone, zone_offset + 2),
                None if hex_pair(zone.as_bytes()).is_none() => (zone, zone_offset),
                None => return Err(error(UriErrorKind::InvalidZone, zone_offset)),
            };
            if zone.is_empty() {
                return Err(error(UriErrorKind::InvalidZone, zone_offset));
            }
            (
                address,
                Some(decode_text(zone, zone_offset, is_unreserved)?),
            )
        }
    };
    let address = address
        .parse()
        .map_err(|_| error(UriErrorKind::InvalidIpLiteral, offset))?;
    Ok(Host::Ipv6 { address, zone })
}
