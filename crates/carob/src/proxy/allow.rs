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
/// Names, `*` and larger networks exclude addresses that are not globally reachable by the
/// special-purpose address registries of IANA (RFC 6890): loopback, link-local, private,
/// benchmarking, documentation and others. These must be given as addresses, or as a network within
/// theirs, such as `10.0.0.0/8`; `localhost` means loopback. Other addresses of this host must
/// be given one by one. The same applies to addresses that embed such an IPv4 address (NAT64, 6to4,
/// IPv4-compatible). Multicast and unspecified addresses are never allowed.
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

/// A row of the special-purpose address registries of IANA.
struct SpecialPurpose<A> {
    network: A,
    bits: u8,
    /// Globally reachable; not, where the registry has "N/A".
    reachable: bool,
}

const fn v4(octets: [u8; 4], bits: u8, reachable: bool) -> SpecialPurpose<Ipv4Addr> {
    let [a, b, c, d] = octets;
    SpecialPurpose {
        network: Ipv4Addr::new(a, b, c, d),
        bits,
        reachable,
    }
}

const fn v6(segments: [u16; 8], bits: u8, reachable: bool) -> SpecialPurpose<Ipv6Addr> {
    let [first, second, third, fourth, fifth, sixth, seventh, eighth] = segments;
    SpecialPurpose {
        network: Ipv6Addr::new(first, second, third, fourth, fifth, sixth, seventh, eighth),
        bits,
        reachable,
    }
}

/// IANA IPv4 Special-Purpose Address Registry.
const SPECIAL_V4: [SpecialPurpose<Ipv4Addr>; 26] = [
    v4([0, 0, 0, 0], 8, false),          // "This network" (RFC 791)
    v4([0, 0, 0, 0], 32, false),         // "This host on this network" (RFC 1122)
    v4([10, 0, 0, 0], 8, false),         // Private-Use (RFC 1918)
    v4([100, 64, 0, 0], 10, false),      // Shared Address Space (RFC 6598)
    v4([127, 0, 0, 0], 8, false),        // Loopback (RFC 1122)
    v4([169, 254, 0, 0], 16, false),     // Link Local, metadata services of clouds (RFC 3927)
    v4([172, 16, 0, 0], 12, false),      // Private-Use (RFC 1918)
    v4([192, 0, 0, 0], 24, false),       // IETF Protocol Assignments (RFC 6890)
    v4([192, 0, 0, 0], 29, false),       // IPv4 Service Continuity Prefix (RFC 7335)
    v4([192, 0, 0, 8], 32, false),       // IPv4 dummy address (RFC 7600)
    v4([192, 0, 0, 9], 32, true),        // Port Control Protocol Anycast (RFC 7723)
    v4([192, 0, 0, 10], 32, true),       // TURN Anycast (RFC 8155)
    v4([192, 0, 0, 170], 32, false),     // NAT64/DNS64 Discovery (RFC 8880)
    v4([192, 0, 0, 171], 32, false),     // NAT64/DNS64 Discovery (RFC 8880)
    v4([192, 0, 2, 0], 24, false),       // Documentation, TEST-NET-1 (RFC 5737)
    v4([192, 31, 196, 0], 24, true),     // AS112-v4 (RFC 7535)
    v4([192, 52, 193, 0], 24, true),     // AMT (RFC 7450)
    v4([192, 88, 99, 0], 24, false),     // Deprecated, 6to4 Relay Anycast (RFC 7526)
    v4([192, 88, 99, 2], 32, false),     // 6a44-relay anycast address (RFC 6751)
    v4([192, 168, 0, 0], 16, false),     // Private-Use (RFC 1918)
    v4([192, 175, 48, 0], 24, true),     // Direct Delegation AS112 Service (RFC 7534)
    v4([198, 18, 0, 0], 15, false),      // Benchmarking (RFC 2544)
    v4([198, 51, 100, 0], 24, false),    // Documentation, TEST-NET-2 (RFC 5737)
    v4([203, 0, 113, 0], 24, false),     // Documentation, TEST-NET-3 (RFC 5737)
    v4([240, 0, 0, 0], 4, false),        // Reserved (RFC 1112)
    v4([255, 255, 255, 255], 32, false), // Limited Broadcast (RFC 8190)
];

/// IANA IPv6 Special-Purpose Address Registry. IPv4-mapped addresses, ::ffff:0:0/96, count as the
/// IPv4 address. The last rows are not in the registry.
const SPECIAL_V6: [SpecialPurpose<Ipv6Addr>; 25] = [
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, false), // Loopback Address (RFC 4291)
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, false), // Unspecified Address (RFC 4291)
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, true), // IPv4-IPv6 Translat. (RFC 6052)
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, false), // IPv4-IPv6 Translat. (RFC 8215)
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, false), // Discard-Only Address Block (RFC 6666)
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, false), // Dummy IPv6 Prefix (RFC 9780)
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, false), // IETF Protocol Assignments (RFC 2928)
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, false), // TEREDO (RFC 4380)
    v6([0x2001, 1, 0, 0, 0, 0, 0, 1], 128, true), // Port Control Protocol Anycast (RFC 7723)
    v6([0x2001, 1, 0, 0, 0, 0, 0, 2], 128, true), // TURN Anycast (RFC 8155)
    v6([0x2001, 1, 0, 0, 0, 0, 0, 3], 128, true), // DNS-SD SRP Anycast (RFC 9665)
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, false), // Benchmarking (RFC 5180)
    v6([0x2001, 3, 0, 0, 0, 0, 0, 0], 32, true), // AMT (RFC 7450)
    v6([0x2001, 4, 0x112, 0, 0, 0, 0, 0], 48, true), // AS112-v6 (RFC 7535)
    v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28, false), // Deprecated, ORCHID (RFC 4843)
    v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, true), // ORCHIDv2 (RFC 7343)
    v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0], 28, true), // Drone Remote ID (RFC 9374)
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, false), // Documentation (RFC 3849)
    v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, true), // AS112 Service (RFC 7534)
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, false), // Documentation (RFC 9637)
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, false), // Segment Routing SIDs (RFC 9602)
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, false), // Unique-Local (RFC 4193)
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, false), // Link-Local Unicast (RFC 4291)
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, false), // site-local (RFC 3879)
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, false), // IPv4-translated (RFC 2765)
];

/// IPv6 prefixes followed by an IPv4 address. 6to4, 2002::/16, is a row of the registry without a
/// statement on its reachability, which depends on the IPv4 address.
const EMBEDDING: [(Ipv6Addr, u8); 5] = [
    (Ipv6Addr::UNSPECIFIED, 96), // IPv4-compatible (RFC 4291 2.5.5.1)
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96), // IPv4-translated (RFC 2765)
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96), // NAT64 (RFC 6052)
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 96), // local NAT64 (RFC 8215)
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4 (RFC 3056)
];

/// Prefix length that a rule must have to permit an address, if names and larger networks do not
/// suffice; `None` for a global address.
fn required_prefix(address: IpAddr, is_own: &dyn Fn(IpAddr) -> bool) -> Option<u8> {
    let near = match address {
        IpAddr::V4(v4) => required_by_registry(&SPECIAL_V4, |row| {
            (u32::from(v4) ^ u32::from(row.network)) >> (32 - row.bits) == 0
        }),
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

/// The largest network of an address that is not globally reachable, unless the smallest one is.
fn required_by_registry<A>(
    rows: &[SpecialPurpose<A>],
    holds: impl Fn(&SpecialPurpose<A>) -> bool,
) -> Option<u8> {
    let own = || rows.iter().filter(|row| holds(row));
    let smallest = own().max_by_key(|row| row.bits)?;
    let largest = own().filter(|row| !row.reachable).map(|row| row.bits).min();
    largest.filter(|_| !smallest.reachable)
}

fn required_prefix_v6(address: Ipv6Addr, is_own: &dyn Fn(IpAddr) -> bool) -> Option<u8> {
    let number = u128::from(address);
    let is_in = |network: Ipv6Addr, bits: u8| (number ^ u128::from(network)) >> (128 - bits) == 0;
    let registry = required_by_registry(&SPECIAL_V6, |row| is_in(row.network, row.bits));
    let embedding = EMBEDDING
        .iter()
        .find(|(network, bits)| is_in(*network, *bits));
    let embedded = embedding.and_then(|(_, bits)| {
        let embedded = Ipv4Addr::from((number >> (96 - bits)) as u32);
        required_prefix(embedded.into(), is_own).map(|near| bits + near)
    });
    // ::1 and :: are no IPv4 addresses.
    registry
        .filter(|bits| *bits == 128)
        .or(registry.max(embedded))
}

/// Returns whether an address is one of this host: only a local address can be bound. If it cannot be found out,
/// for example for want of a descriptor, it counts as one.
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
    fn allow_pattern_matches_host_scheme_and_port() {
        let far = "9.9.9.9";
        assert!(admits("example.org", "coap://EXAMPLE.org/", far));
        assert!(!admits("example.org", "coap://www.example.org/", far));
        assert!(!admits("example.org", "coap://192.0.2.7/", far));
        assert!(admits("*.example.org", "coap://a.b.example.org/", far));
        assert!(admits("*.example.org", "coap://example.org/", far));
        assert!(!admits("*.example.org", "coap://badexample.org/", far));
        assert!(admits("h:61616", "coap://h:61616/", far));
        assert!(!admits("h:61616", "coap://h/", far));
        assert!(!admits("coap+tcp://h", "coap://h/", far));
        assert!(admits("192.0.2.0/24", "coap://192.0.2.7/", "192.0.2.7"));
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
            admits("192.0.2.0/24", "coap://h/", "192.0.2.7"),
            "a name that leads there"
        );
        assert!(!admits("192.0.2.0/24", "coap://h/", far));
        assert!(admits("0.0.0.0/0", "coap://h/", far));
    }

    #[test]
    fn wildcard_and_name_rules_exclude_local_addresses() {
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

    /// The rules of a host with these local addresses.
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
            "9.9.9.9",
            "2620:fe::9",
            "64:ff9b::909:909",
            "2002:909:909::",
            "::9.9.9.9",
        ] {
            assert!(admits_with(&[], "*", far), "{far}");
        }
    }

    /// The first and the last address of a network.
    fn ends(network: &str) -> [IpAddr; 2] {
        let (first, bits) = network.split_once('/').expect("a length");
        let bits: u32 = bits.parse().expect("a length");
        match first.parse().expect(network) {
            IpAddr::V4(first) => {
                let rest = u32::MAX.checked_shr(bits).unwrap_or(0);
                [first, Ipv4Addr::from(u32::from(first) | rest)].map(Into::into)
            }
            IpAddr::V6(first) => {
                let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
                [first, Ipv6Addr::from(u128::from(first) | rest)].map(Into::into)
            }
        }
    }

    #[test]
    fn special_purpose_addresses_need_a_rule_for_their_network() {
        // The rows of both registries, with global reachability; "N/A" is false.
        for network in [
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.0.0/29",
            "192.0.0.8/32",
            "192.0.0.170/32",
            "192.0.0.171/32",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.88.99.2/32",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "240.0.0.0/4",
            "255.255.255.255/32",
            "::1/128",
            "::/128",
            "::ffff:127.0.0.0/104",
            "64:ff9b:1::/48",
            "100::/64",
            "100:0:0:1::/64",
            "2001::/23",
            "2001::/32",
            "2001:2::/48",
            "2001:10::/28",
            "2001:db8::/32",
            "3fff::/20",
            "5f00::/16",
            "fc00::/7",
            "fe80::/10",
            "fec0::/10",
            "::ffff:0:0:0/96",
        ] {
            let (first, bits) = network.split_once('/').expect("a length");
            let own = if first.contains("::ffff:127") {
                "127.0.0.0/8".to_owned()
            } else if first.contains(':') {
                format!("[{first}]/{bits}")
            } else {
                network.to_owned()
            };
            for address in ends(network) {
                for pattern in ["*", "h", "0.0.0.0/0", "[::]/0"] {
                    let admitted = admits_with(&[], pattern, &address.to_string());
                    assert!(!admitted, "{pattern} {address}");
                }
                // Rows within a larger one need a rule for that at most.
                let nobody = is_unassignable(address);
                let embeds = required_prefix(address, &|_| false) > bits.parse().ok();
                let admitted = admits_with(&[], &own, &address.to_string());
                assert!(admitted || nobody || embeds, "{own} {address}");
            }
        }
        for network in [
            "192.0.0.9/32",
            "192.0.0.10/32",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.175.48.0/24",
            "2001:1::1/128",
            "2001:1::2/128",
            "2001:1::3/128",
            "2001:3::/32",
            "2001:4:112::/48",
            "2001:20::/28",
            "2001:30::/28",
            "2620:4f:8000::/48",
        ] {
            for address in ends(network) {
                assert!(admits_with(&[], "*", &address.to_string()), "{address}");
            }
        }
        assert!(admits_with(&[], "*", "198.17.255.255"));
        assert!(admits_with(&[], "*", "198.20.0.0"));
        assert!(admits_with(&[], "*", "5eff:ffff::1") && admits_with(&[], "*", "5f01::1"));
    }

    #[test]
    fn proxy_host_needs_an_explicit_address_rule() {
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
