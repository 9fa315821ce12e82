//! Address prefixes, and settings by prefix.

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An address prefix, such as `192.0.2.0/24` or `2001:db8::/32`.
///
/// An IPv4 address and its IPv4-mapped IPv6 form (`::ffff:192.0.2.1`) are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The prefix as an IPv6 address; bits past the length are zero.
    bits: u128,
    /// The length, of 128 bits.
    length: u8,
}

/// The prefix of IPv4-mapped IPv6 addresses.
const MAPPED: u128 = 0xffff_0000_0000;
const MAPPED_LENGTH: u8 = 96;

/// An invalid text form of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPrefix;

impl fmt::Display for BadPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an address or ADDRESS/BITS, such as 192.0.2.0/24 or 2001:db8::/32")
    }
}

impl core::error::Error for BadPrefix {}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => MAPPED | u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX
        // A length of 0 shifts by all 128 bits, which `<<` cannot.
        .checked_shl(128 - u32::from(length))
        .unwrap_or_default()
}

impl Prefix {
    /// Returns the first `length` bits of an address; `None` if it has fewer.
    pub(crate) fn new(address: IpAddr, length: u8) -> Option<Self> {
        let length = match address {
            IpAddr::V4(_) => length.checked_add(MAPPED_LENGTH)?,
            IpAddr::V6(_) => length,
        };
        (length <= 128).then(|| Self {
            bits: bits_of(address) & mask(length),
            length,
        })
    }

    /// Every address.
    pub const ALL: Self = Self { bits: 0, length: 0 };

    /// Returns the prefix length, of the 128 bits of IPv6.
    pub(crate) fn bits(&self) -> u8 {
        self.length
    }

    /// Returns whether the prefix contains an address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        bits_of(address) & mask(self.length) == self.bits
    }
}

impl FromStr for Prefix {
    type Err = BadPrefix;

    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| BadPrefix)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) => length.parse().map_err(|_| BadPrefix)?,
            None => most,
        };
        Self::new(address, length).ok_or(BadPrefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mapped = self.length >= MAPPED_LENGTH && self.bits >> 32 == MAPPED >> 32;
        if mapped {
            let address = Ipv4Addr::from(self.bits as u32);
            write!(f, "{address}/{}", self.length - MAPPED_LENGTH)
        } else {
            write!(f, "{}/{}", Ipv6Addr::from(self.bits), self.length)
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Addresses to which the anti-amplification limit applies: an unvalidated source receives at most
/// three times the bytes of its datagram (RFC 7252 11.3, RFC 9175 2.4).
///
/// The longest matching prefix counts. By default the limit applies to global addresses, and not to
/// loopback, link-local and private ones (RFC 1918, RFC 4193). For multicast requests it applies to
/// those, too, unless they were [set](Self::set), because every member responds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmplificationLimit {
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    prefix: Prefix,
    on: bool,
    /// Excludes requests to groups.
    unicast: bool,
}

/// Prefixes without the limit, where only the own site could be harmed.
const OFF: [(IpAddr, u8); 8] = [
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), 12),
    (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
    (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7),
];

impl Default for AmplificationLimit {
    fn default() -> Self {
        let off = OFF.iter();
        let off = off.filter_map(|&(address, length)| Prefix::new(address, length));
        let mut limit = Self::everywhere(true);
        limit.rules.extend(off.map(|prefix| Rule {
            prefix,
            on: false,
            unicast: true,
        }));
        limit
    }
}

impl AmplificationLimit {
    /// Creates a limit with the same setting for all addresses.
    pub fn everywhere(on: bool) -> Self {
        Self {
            rules: alloc::vec![Rule {
                prefix: Prefix::ALL,
                on,
                unicast: false,
            }],
        }
    }

    /// Sets the value for a prefix, replacing any earlier value for the same prefix.
    pub fn set(&mut self, prefix: Prefix, on: bool) {
        self.rules.retain(|other| other.prefix != prefix);
        self.rules.push(Rule {
            prefix,
            on,
            unicast: false,
        });
    }

    /// Returns whether the limit applies to an address. Linear in the number of prefixes.
    pub fn holds_for(&self, address: IpAddr) -> bool {
        Self::longest(self.rules.iter(), address)
    }

    /// Returns whether the limit applies to the source of a multicast request.
    pub(crate) fn holds_for_group(&self, address: IpAddr) -> bool {
        Self::longest(self.rules.iter().filter(|rule| !rule.unicast), address)
    }

    fn longest<'a>(rules: impl Iterator<Item = &'a Rule>, address: IpAddr) -> bool {
        let own = rules.filter(|rule| rule.prefix.contains(address));
        // One at most of each length contains an address, because equal prefixes replace each
        // other.
        let longest = own.max_by_key(|rule| rule.prefix.length);
        longest.is_some_and(|rule| rule.on)
    }

    /// Returns the prefixes and their settings, including the defaults.
    pub fn rules(&self) -> impl Iterator<Item = (Prefix, bool)> {
        self.rules.iter().map(|rule| (rule.prefix, rule.on))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn prefixes_are_read_and_written() {
        for text in [
            "192.0.2.0/24",
            "0.0.0.0/0",
            "2001:db8::/32",
            "::/0",
            "::1/128",
        ] {
            assert_eq!(prefix(text).to_string(), text);
        }
        assert_eq!(prefix("192.0.2.7/24"), prefix("192.0.2.0/24"));
        assert_eq!(prefix("192.0.2.7").to_string(), "192.0.2.7/32");
        assert_eq!(prefix("::ffff:192.0.2.0/120"), prefix("192.0.2.0/24"));
        for text in [
            "",
            "x",
            "1.2.3.4/33",
            "::/129",
            "1.2.3/8",
            "1.2.3.4/",
            "::/-1",
            "::/300",
        ] {
            assert_eq!(text.parse::<Prefix>(), Err(BadPrefix), "{text}");
        }
    }

    #[test]
    fn prefix_contains_its_addresses() {
        assert!(prefix("192.0.2.0/24").contains(address("192.0.2.255")));
        assert!(prefix("192.0.2.0/24").contains(address("::ffff:192.0.2.1")));
        assert!(!prefix("192.0.2.0/24").contains(address("192.0.3.0")));
        assert!(prefix("::/0").contains(address("192.0.2.1")));
        assert!(!prefix("0.0.0.0/0").contains(address("2001:db8::1")));
        assert!(prefix("2001:db8::/33").contains(address("2001:db8:7fff::1")));
        assert!(!prefix("2001:db8::/33").contains(address("2001:db8:8000::1")));
    }

    #[test]
    fn amplification_limit_defaults_to_global_addresses() {
        let mut limit = AmplificationLimit::default();
        for global in [
            "192.0.2.1",
            "8.8.8.8",
            "2001:db8::1",
            "::ffff:8.8.8.8",
            "172.32.0.1",
        ] {
            assert!(limit.holds_for(address(global)), "{global}");
        }
        let local = [
            "127.0.0.1",
            "::1",
            "fe80::1",
            "169.254.1.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "fd00::1",
            "::ffff:127.0.0.1",
        ];
        for local in local {
            assert!(!limit.holds_for(address(local)), "{local}");
        }
        assert!(
            local
                .iter()
                .all(|text| limit.holds_for_group(address(text)))
        );
        limit.set(prefix("192.168.0.0/16"), false);
        assert!(!limit.holds_for_group(address("192.168.1.1")));
        limit.set(prefix("10.0.0.0/8"), true);
        limit.set(prefix("10.9.0.0/16"), false);
        limit.set(prefix("127.0.0.0/8"), true);
        let holds = |text| limit.holds_for(address(text));
        assert!(holds("10.1.2.3") && !holds("10.9.2.3") && holds("127.0.0.1"));
        assert!(!AmplificationLimit::everywhere(false).holds_for(address("8.8.8.8")));
        assert!(AmplificationLimit::everywhere(true).holds_for(address("::1")));
    }
}
