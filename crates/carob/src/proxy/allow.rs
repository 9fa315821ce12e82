//! Whom a forward-proxy asks for others.
//!
//! A proxy that asks anybody for anybody is a gift to those who want to hide, to amplify, or to
//! reach what only the proxy's host can reach (RFC 7252 11.2, 11.3). So nothing is allowed unless a
//! pattern says so; and addresses that mean something to this host or link only must be allowed as
//! addresses, whatever names lead to them, so that nobody gets at them by way of the DNS.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use carob_proto::codec::{Host, Scheme, Uri};

/// Whom a forward-proxy may ask: `[SCHEME://]HOST[:PORT]`.
///
/// HOST is a name (`example.org`), a name and all below it (`*.example.org`), any (`*`), an address
/// (`192.0.2.1`, `[2001:db8::1]`) or a network (`192.0.2.0/24`, `[2001:db8::]/32`). Without a scheme
/// or port, any will do.
///
/// Names, and `*`, do not allow addresses that are loopback or link-local: those must be named, each
/// or by their network; `localhost` stands for loopback. Multicast groups and the unspecified
/// address cannot be asked at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    scheme: Option<Scheme>,
    host: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    Name(String),
    Below(String),
    Network(IpAddr, u8),
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not [SCHEME://]HOST[:PORT], where HOST may be *.NAME or ADDRESS/BITS")]
pub struct AllowError(String);

impl FromStr for Allow {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Self, AllowError> {
        read(text).ok_or_else(|| AllowError(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Allow> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(Scheme::named(scheme)?), rest),
        None => (None, text),
    };
    let (host, port) = split_port(rest)?;
    let host = if host == "*" {
        Hosts::Any
    } else if let Some(suffix) = host.strip_prefix("*.") {
        Hosts::Below(name(suffix)?)
    } else if let Some((address, bits)) = network(host) {
        Hosts::Network(address, bits?)
    } else {
        Hosts::Name(name(host)?)
    };
    Some(Allow { scheme, host, port })
}

/// `HOST:PORT` or `HOST`; brackets are for IPv6.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let after_address = text.rfind(']').map_or(0, |at| at + 1);
    match text.get(after_address..)?.rsplit_once(':') {
        None => Some((text, None)),
        Some((_, digits)) => {
            let port = digits.parse().ok().filter(|port| *port != 0)?;
            Some((text.get(..text.len() - digits.len() - 1)?, Some(port)))
        }
    }
}

fn name(text: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let fits = !text.is_empty() && text.bytes().all(plain);
    fits.then(|| text.to_ascii_lowercase())
}

/// An address and how many of its bits count; nothing if it is none, and no bits if these are
/// wrong.
fn network(text: &str) -> Option<(IpAddr, Option<u8>)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let inner = address.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
    let address: IpAddr = match inner {
        Some(inner) => IpAddr::V6(inner.parse().ok()?),
        None => IpAddr::V4(address.parse().ok()?),
    };
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => Some(all),
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= all),
    };
    Some((address.to_canonical(), bits))
}

impl Allow {
    /// Whether a URI might be asked for, before its host is resolved.
    pub(crate) fn may_admit(&self, uri: &Uri) -> bool {
        let host = match (&self.host, uri.host()) {
            (Hosts::Name(own), Host::Name(name)) => name == own,
            (Hosts::Below(suffix), Host::Name(name)) => is_below(name, suffix),
            // A name may lead there.
            (Hosts::Any, _) | (Hosts::Network(..), Host::Name(_)) => true,
            (Hosts::Network(..), host) => host.address().is_some_and(|address| self.holds(address)),
            (Hosts::Name(_) | Hosts::Below(_), _) => false,
        };
        host && self.scheme.is_none_or(|scheme| scheme == uri.scheme())
            && self.port.is_none_or(|port| port == uri.port())
    }

    /// Whether the host of such a URI may be asked at this address of its.
    pub(crate) fn admits(&self, uri: &Uri, address: SocketAddr) -> bool {
        let address = address.ip().to_canonical();
        if !self.may_admit(uri) || is_nobody(address) {
            return false;
        }
        match &self.host {
            Hosts::Network(..) => self.holds(address),
            Hosts::Name(name) if name == "localhost" && address.is_loopback() => true,
            _ => !is_near(address),
        }
    }

    fn holds(&self, address: IpAddr) -> bool {
        let Hosts::Network(network, bits) = self.host else {
            return false;
        };
        let shift = |all: u32| all - u32::from(bits).min(all);
        match (network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differ = u32::from(network) ^ u32::from(address);
                differ.checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differ = u128::from(network) ^ u128::from(address);
                differ.checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = self.scheme {
            write!(f, "{scheme}://")?;
        }
        match &self.host {
            Hosts::Any => f.write_str("*")?,
            Hosts::Name(name) => f.write_str(name)?,
            Hosts::Below(name) => write!(f, "*.{name}")?,
            Hosts::Network(IpAddr::V4(address), 32) => write!(f, "{address}")?,
            Hosts::Network(IpAddr::V6(address), 128) => write!(f, "[{address}]")?,
            Hosts::Network(IpAddr::V4(address), bits) => write!(f, "{address}/{bits}")?,
            Hosts::Network(IpAddr::V6(address), bits) => write!(f, "[{address}]/{bits}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

fn is_below(name: &str, suffix: &str) -> bool {
    let before = name.strip_suffix(suffix);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Addresses that mean something to this host or link only.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local(),
    }
}

/// Addresses that nobody in particular has.
fn is_nobody(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    address.is_multicast() || address.is_unspecified() || broadcast
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(pattern: &str, uri: &str, address: &str) -> bool {
        let pattern: Allow = pattern.parse().expect(pattern);
        let uri = Uri::parse(uri).expect(uri);
        pattern.admits(
            &uri,
            SocketAddr::new(address.parse().expect(address), uri.port()),
        )
    }

    #[test]
    fn patterns_are_read_and_written() {
        for text in [
            "*",
            "example.org",
            "*.example.org:5683",
            "coap+tcp://*",
            "192.0.2.1",
            "192.0.2.0/24:5683",
            "[2001:db8::1]:61616",
            "coaps://[2001:db8::]/32",
        ] {
            let pattern: Allow = text.parse().expect(text);
            assert_eq!(pattern.to_string(), text);
        }
        for wrong in [
            "",
            "*.",
            "http://h",
            "h:0",
            "h:x",
            "h/24",
            "192.0.2.0/33",
            "[::]/129",
            "2001:db8::1",
            "a b",
            "h:65536",
            "**",
            "[::1",
            "h/path",
        ] {
            assert!(wrong.parse::<Allow>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn hosts_schemes_and_ports_must_be_those_of_the_pattern() {
        let far = "192.0.2.7";
        assert!(admits("example.org", "coap://EXAMPLE.org/", far));
        assert!(!admits("example.org", "coap://www.example.org/", far));
        assert!(!admits("example.org", "coap://192.0.2.7/", far));
        assert!(admits("*.example.org", "coap://a.b.example.org/", far));
        assert!(admits("*.example.org", "coap://example.org/", far));
        assert!(!admits("*.example.org", "coap://badexample.org/", far));
        assert!(admits("h:61616", "coap://h:61616/", far));
        assert!(!admits("h:61616", "coap://h/", far));
        assert!(!admits("coap+tcp://h", "coap://h/", far));
        assert!(admits("192.0.2.0/24", "coap://192.0.2.7/", far));
        assert!(!admits("192.0.2.0/29", "coap://192.0.2.8/", "192.0.2.8"));
        assert!(admits(
            "[2001:db8::]/32",
            "coap://[2001:db8::7]/",
            "2001:db8::7"
        ));
        assert!(!admits(
            "[2001:db8::]/32",
            "coap://[2001:db9::7]/",
            "2001:db9::7"
        ));
        assert!(
            admits("192.0.2.0/24", "coap://h/", far),
            "a name that leads there"
        );
        assert!(!admits("192.0.2.0/24", "coap://h/", "198.51.100.1"));
        assert!(admits("0.0.0.0/0", "coap://h/", "198.51.100.1"));
    }

    #[test]
    fn names_lead_to_nothing_that_is_near() {
        let near = [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "169.254.1.1",
            "fe80::1",
            "::ffff:127.0.0.1",
        ];
        for address in near {
            assert!(!admits("*", "coap://h/", address), "{address}");
            assert!(!admits("h", "coap://h/", address), "{address}");
        }
        assert!(!admits("*", "coap://127.0.0.1/", "127.0.0.1"));
        assert!(!admits("*", "coap://[::1]/", "::1"));
        assert!(!admits(
            "*",
            "coap://[::ffff:127.0.0.1]/",
            "::ffff:127.0.0.1"
        ));
        assert!(admits("127.0.0.1", "coap://127.0.0.1/", "127.0.0.1"));
        assert!(admits("127.0.0.0/8", "coap://h/", "127.0.0.1"));
        assert!(admits("localhost", "coap://localhost/", "127.0.0.1"));
        assert!(!admits("localhost", "coap://localhost/", "169.254.1.1"));
        for nobody in [
            "224.0.1.187",
            "ff02::fd",
            "0.0.0.0",
            "::",
            "255.255.255.255",
        ] {
            for pattern in ["*", "0.0.0.0/0", "[::]/0"] {
                assert!(!admits(pattern, "coap://h/", nobody), "{pattern} {nobody}");
            }
        }
    }
}
