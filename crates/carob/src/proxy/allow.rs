//! Hosts that a forward-proxy may contact.
//!
//! An open proxy lets attackers hide, amplify traffic, or reach what only the proxy's host can
//! reach (RFC 7252 sections 11.2, 11.3). Therefore nothing is allowed without a pattern. Addresses
//! with a meaning for this host or link only must be allowed as addresses, whatever names resolve
//! to them, so that DNS cannot be used to reach them.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use carob_proto::codec::{Host, Scheme, Uri};

/// Pattern of hosts that a forward-proxy may contact, as text: `[SCHEME://]HOST[:PORT]`. For
/// [`ProxyBuilder::allow`](super::ProxyBuilder::allow).
///
/// | HOST | matches |
/// |---|---|
/// | `example.org` | this name |
/// | `*.example.org` | this name and all names below it |
/// | `*` | any host |
/// | `192.0.2.1`, `[2001:db8::1]` | this address |
/// | `192.0.2.0/24`, `[2001:db8::]/32` | this network |
///
/// Without a scheme or port, any scheme or port matches.
///
/// ```
/// use carob::proxy::Allow;
///
/// let sensors: Allow = "*.sensors.example.org".parse()?;
/// let network: Allow = "coap://10.0.0.0/8:5683".parse()?;
/// assert!("example.org:0".parse::<Allow>().is_err());
/// # let _ = (sensors, network);
/// # Ok::<(), carob::proxy::AllowError>(())
/// ```
///
/// Names, `*` and larger networks exclude addresses that only this host or its site can reach:
/// loopback, link-local and private addresses (RFC 1918, RFC 6598, RFC 4193). These must be given
/// as addresses, or as a network within theirs, such as `10.0.0.0/8`; `localhost` stands for
/// loopback. Other addresses of this host must be given one by one. The same applies to addresses
/// that embed such an IPv4 address (NAT64, 6to4, IPv4-compatible). Multicast and unspecified
/// addresses are never allowed.
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

/// Error of [`Allow`]: the text is not a pattern.
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

/// Parses an address with its prefix length; `None` if it is no address, and no length if that is
/// invalid.
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
    /// Returns whether a URI may match, before its host is resolved.
    pub(crate) fn may_admit(&self, uri: &Uri) -> bool {
        let host = match (&self.host, uri.host()) {
            (Hosts::Name(own), Host::Name(name)) => name == own,
            (Hosts::Below(suffix), Host::Name(name)) => is_below(name, suffix),
            // A name may resolve to it.
            (Hosts::Any, _) | (Hosts::Network(..), Host::Name(_)) => true,
            (Hosts::Network(..), host) => host.address().is_some_and(|address| self.holds(address)),
            (Hosts::Name(_) | Hosts::Below(_), _) => false,
        };
        host && self.scheme.is_none_or(|scheme| scheme == uri.scheme())
            && self.port.is_none_or(|port| port == uri.port())
    }

    /// Returns whether the host of a matching URI may be contacted at this address.
    pub(crate) fn admits(&self, uri: &Uri, address: SocketAddr) -> bool {
        self.admits_from(uri, address.ip(), &is_own)
    }

    /// Likewise, with a predicate for the host's own addresses.
    fn admits_from(&self, uri: &Uri, address: IpAddr, is_own: &dyn Fn(IpAddr) -> bool) -> bool {
        let address = address.to_canonical();
        if !self.may_admit(uri) || is_unassignable(address) {
            return false;
        }
        match &self.host {
            Hosts::Network(_, bits) => {
                let near = required_prefix(address, is_own);
                self.holds(address) && near.is_none_or(|near| *bits >= near)
            }
            Hosts::Name(name) if name == "localhost" && address.is_loopback() => true,
            _ => required_prefix(address, is_own).is_none(),
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

/// Networks with a meaning for this host, link or site only.
const NEAR_V4: [(Ipv4Addr, u8); 8] = [
    (Ipv4Addr::UNSPECIFIED, 8),          // this network (RFC 791)
    (Ipv4Addr::new(127, 0, 0, 0), 8),    // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link-local, the metadata services of clouds (RFC 3927)
    (Ipv4Addr::new(10, 0, 0, 0), 8),     // private (RFC 1918)
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(100, 64, 0, 0), 10), // shared by carriers (RFC 6598)
    (Ipv4Addr::new(192, 0, 0, 0), 24),  // protocol assignments (RFC 6890)
];
const NEAR_V6: [(Ipv6Addr, u8); 4] = [
    (Ipv6Addr::LOCALHOST, 128),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10), // link-local
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10), // site-local (RFC 3879)
    // Unique local (RFC 4193), among them the metadata service fd00:ec2::254.
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
];
/// IPv6 prefixes followed by an IPv4 address.
const EMBEDDING: [(Ipv6Addr, u8); 4] = [
    (Ipv6Addr::UNSPECIFIED, 96), // IPv4-compatible (RFC 4291 2.5.5.1)
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96), // NAT64 (RFC 6052)
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 96), // local NAT64 (RFC 8215)
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4 (RFC 3056)
];

/// Prefix length that a rule must have to permit an address, if names and larger networks do not
/// suffice; `None` for a global address.
fn required_prefix(address: IpAddr, is_own: &dyn Fn(IpAddr) -> bool) -> Option<u8> {
    let near = match address {
        IpAddr::V4(v4) => (NEAR_V4.iter())
            .find(|(network, bits)| (u32::from(v4) ^ u32::from(*network)) >> (32 - bits) == 0)
            .map(|(_, bits)| *bits),
        IpAddr::V6(v6) => required_prefix_v6(v6, is_own),
    };
    match near {
        // Each own address must be named, unless its network belongs to this host alone.
        _ if !address.is_loopback() && is_own(address) => {
            Some(if address.is_ipv4() { 32 } else { 128 })
        }
        near => near,
    }
}

fn required_prefix_v6(address: Ipv6Addr, is_own: &dyn Fn(IpAddr) -> bool) -> Option<u8> {
    let number = u128::from(address);
    let is_in =
        |(network, bits): &&(Ipv6Addr, u8)| (number ^ u128::from(*network)) >> (128 - bits) == 0;
    if let Some((_, bits)) = NEAR_V6.iter().find(is_in) {
        return Some(*bits);
    }
    let (_, bits) = EMBEDDING.iter().find(is_in)?;
    let embedded = Ipv4Addr::from((number >> (96 - bits)) as u32);
    required_prefix(embedded.into(), is_own).map(|near| bits + near)
}

/// Returns whether an address is one of this host: only a local address can be bound. If it cannot be found out,
/// for want of a descriptor, say, it counts as one.
fn is_own(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(error) => {
            !matches!(
                error.kind(),
                io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported
            ) && error.raw_os_error() != Some(AF_NOT_SUPPORTED)
        }
    }
}

/// EAFNOSUPPORT of Linux: no IPv6 support.
const AF_NOT_SUPPORTED: i32 = 97;

/// Returns whether an address belongs to no single host.
fn is_unassignable(address: IpAddr) -> bool {
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

    /// The rules of a host with these addresses of its own.
    fn admits_with(own: &[&str], pattern: &str, address: &str) -> bool {
        let pattern: Allow = pattern.parse().expect(pattern);
        let own: Vec<IpAddr> = own.iter().map(|own| own.parse().expect(own)).collect();
        let uri = Uri::parse("coap://h/").expect("a URI");
        let address = address.parse().expect(address);
        pattern.admits_from(&uri, address, &|address| own.contains(&address))
    }

    #[test]
    fn private_addresses_need_a_rule_for_their_network() {
        for (address, network, larger) in [
            ("10.1.2.3", "10.0.0.0/8", "8.0.0.0/6"),
            ("172.20.0.1", "172.16.0.0/12", "172.0.0.0/8"),
            ("192.168.7.7", "192.168.0.0/16", "0.0.0.0/0"),
            ("100.100.100.200", "100.64.0.0/10", "100.0.0.0/8"),
            ("169.254.169.254", "169.254.169.254", "0.0.0.0/0"),
            ("127.0.0.1", "127.0.0.0/8", "0.0.0.0/0"),
            ("fd00:ec2::254", "[fd00:ec2::]/32", "[::]/0"),
            ("fe80::1", "[fe80::]/10", "[::]/0"),
            ("::1", "[::1]", "[::]/0"),
            // With an IPv4 address in it.
            ("64:ff9b::7f00:1", "[64:ff9b::7f00:0]/104", "[64:ff9b::]/96"),
            ("64:ff9b:1::a00:1", "[64:ff9b:1::a00:0]/104", "[::]/0"),
            ("::127.0.0.1", "[::127.0.0.0]/104", "[::]/0"),
            ("2002:7f00:1::", "[2002:7f00::]/24", "[2002::]/16"),
            ("2002:a9fe:a9fe::", "[2002:a9fe::]/32", "[::]/0"),
        ] {
            assert!(admits_with(&[], network, address), "{network} {address}");
            for pattern in ["*", "h", larger] {
                assert!(!admits_with(&[], pattern, address), "{pattern} {address}");
            }
        }
        for far in [
            "192.0.2.1",
            "2001:db8::1",
            "64:ff9b::c000:201",
            "2002:c000:201::",
        ] {
            assert!(admits_with(&[], "*", far), "{far}");
        }
    }

    #[test]
    fn the_proxys_own_host_is_asked_only_where_its_address_is_named() {
        let own = ["192.0.2.10", "2001:db8::10", "10.0.0.10"];
        for (address, pattern) in [
            ("192.0.2.10", "192.0.2.10"),
            ("2001:db8::10", "[2001:db8::10]"),
            ("10.0.0.10", "10.0.0.10"),
            ("64:ff9b::c000:20a", "[64:ff9b::c000:20a]"),
            ("2002:c000:20a::1", "[2002:c000:20a::]/48"),
        ] {
            assert!(admits_with(&own, pattern, address), "{pattern} {address}");
            for pattern in [
                "*",
                "h",
                "192.0.2.0/24",
                "10.0.0.0/8",
                "[::]/0",
                "0.0.0.0/0",
            ] {
                assert!(!admits_with(&own, pattern, address), "{pattern} {address}");
            }
        }
        assert!(admits_with(&own, "192.0.2.0/24", "192.0.2.11"));
        assert!(admits_with(&own, "10.0.0.0/8", "10.0.0.11"));
    }
}
