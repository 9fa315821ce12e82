//! 6LoWPAN: IPv6 packets with compressed headers (RFC 4944, RFC 6282).
//!
//! Compressed packets are expanded to IPv6, so that one reader handles all.

use std::net::{IpAddr, Ipv6Addr};

use super::fragments::{Fragment, FragmentKey};
use super::ieee802154::{Compressed, Fields};
use super::packet::Other;

const UDP: u8 = 17;
const IPV6_HEADER: usize = 40;
/// Compressed IPv6 headers within each other.
const NESTING_MAX: usize = 3;
/// First bytes of the placeholder prefix of a context, which captures lack. The number of
/// the context follows.
const CONTEXT_PREFIX: [u8; 6] = [0x20, 0x01, 0x0d, 0xb8, 0x62, 0x82];

/// An address of the MAC layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkAddress {
    None,
    Short(u16),
    Extended([u8; 8]),
}

impl LinkAddress {
    /// The interface identifier (RFC 6282 section 3.2.2).
    fn identifier(self) -> Result<[u8; 8], Other> {
        match self {
            Self::None => Err(Other::Malformed),
            Self::Short(short) => Ok(identifier_of(short)),
            Self::Extended(mut octets) => {
                octets[0] ^= 2;
                Ok(octets)
            }
        }
    }

    fn number(self) -> u128 {
        match self {
            Self::None => u128::MAX,
            Self::Short(short) => u128::from(short),
            Self::Extended(octets) => 1 << 64 | u128::from(u64::from_be_bytes(octets)),
        }
    }
}

fn identifier_of(short: u16) -> [u8; 8] {
    let [high, low] = short.to_be_bytes();
    [0, 0, 0, 0xff, 0xfe, 0, high, low]
}

/// Returns true for an address with the placeholder prefix of a context.
pub(crate) fn is_of_context(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.octets().starts_with(&CONTEXT_PREFIX),
    }
}

/// An expanded packet.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub(super) packet: Vec<u8>,
    /// Bytes at the end that the capture has not.
    pub(super) missing: usize,
    /// Place of the packet among the fragments of one.
    pub(super) fragment: Option<(FragmentKey, usize, usize)>,
}

impl Expanded {
    /// The fragment that the packet is, if it is one.
    pub(super) fn fragment(&self) -> Option<Fragment<'_>> {
        let (key, offset, total) = self.fragment?;
        Some(Fragment {
            key,
            header: &[],
            offset,
            total: Some(total),
            bytes: &self.packet,
            missing: self.missing,
        })
    }
}

/// Expands a packet or the first fragment of one; other fragments keep their bytes.
pub(super) fn expand(compressed: &Compressed<'_>) -> Result<Expanded, Other> {
    let mut fields = Fields(compressed.bytes);
    let mut addresses = compressed.addresses;
    let mut first = fields.byte()?;
    // A mesh header has the addresses of the ends (RFC 4944 section 5.2).
    if first & 0xc0 == 0x80 {
        if first & 0x0f == 0x0f {
            fields.byte()?;
        }
        for (place, bit) in [(0, 0x20), (1, 0x10)] {
            addresses[place] = mesh_address(&mut fields, first & bit != 0)?;
        }
        first = fields.byte()?;
    }
    // A broadcast header has a sequence number (RFC 4944 section 8.2).
    if first == 0x50 {
        fields.byte()?;
        first = fields.byte()?;
    }
    let mut expanded = Expanded {
        missing: compressed.missing,
        ..Expanded::default()
    };
    let mut size = None;
    if let 0xc0..=0xc7 | 0xe0..=0xe7 = first {
        let total = usize::from(first & 7) << 8 | usize::from(fields.byte()?);
        let tag = u32::from(fields.big()?);
        let key = FragmentKey {
            ends: addresses.map(LinkAddress::number),
            id: tag << 11 | total as u32,
            protocol: 0,
            version: 0,
        };
        let is_first = first < 0xe0;
        let offset = if is_first {
            0
        } else {
            8 * usize::from(fields.byte()?)
        };
        expanded.fragment = Some((key, offset, total));
        if !is_first {
            expanded.packet = fields.0.to_vec();
            return Ok(expanded);
        }
        size = Some(total);
        first = fields.byte()?;
    }
    match first {
        0x41 => expanded.packet = fields.0.to_vec(),
        0x60..=0x7f => {
            let mut header = Header::new(compressed.missing, size);
            header.read(first, &mut fields, identifiers(addresses), 0)?;
            expanded.packet = header.finish(fields.0);
        }
        0x00..=0x3f => return Err(Other::NotIp),
        0x80..=0xbf | 0xf0..=0xff => {
            return Err(Other::Tunnel("6LoWPAN routing header (RFC 8138)"));
        }
        _ => return Err(Other::Malformed),
    }
    Ok(expanded)
}

fn mesh_address(fields: &mut Fields<'_>, is_short: bool) -> Result<LinkAddress, Other> {
    if is_short {
        return fields.big().map(LinkAddress::Short);
    }
    let mut octets = [0; 8];
    octets.copy_from_slice(fields.take(8)?);
    Ok(LinkAddress::Extended(octets))
}

type Identifiers = [Result<[u8; 8], Other>; 2];

fn identifiers(addresses: [LinkAddress; 2]) -> Identifiers {
    addresses.map(LinkAddress::identifier)
}

/// Headers that are being expanded.
struct Header {
    packet: Vec<u8>,
    /// Bytes that were not captured, and the size of the whole packet if this is a fragment.
    missing: usize,
    size: Option<usize>,
    /// Offsets of the lengths of IPv6 headers, and of a UDP header.
    ipv6: Vec<usize>,
    udp: Option<usize>,
}

impl Header {
    fn new(missing: usize, size: Option<usize>) -> Self {
        Self {
            packet: Vec::new(),
            missing,
            size,
            ipv6: Vec::new(),
            udp: None,
        }
    }

    /// Reads a header in the encoding of RFC 6282 section 3 after its first byte, and those after it.
    fn read(
        &mut self,
        first: u8,
        fields: &mut Fields<'_>,
        identifiers: Identifiers,
        depth: usize,
    ) -> Result<(), Other> {
        let second = fields.byte()?;
        let contexts = match second & 0x80 {
            0 => 0,
            _ => fields.byte()?,
        };
        let class = match first >> 3 & 3 {
            0 => 4,
            1 => 3,
            2 => 1,
            _ => 0,
        };
        fields.take(class)?;
        let inline_next = match first & 4 {
            0 => Some(fields.byte()?),
            _ => None,
        };
        let hops = match first & 3 {
            0 => fields.byte()?,
            1 => 1,
            2 => 64,
            _ => 255,
        };
        let source = unicast(fields, second >> 4 & 7, contexts >> 4, identifiers[0])?;
        let destination = if second & 8 == 0 {
            unicast(fields, second & 7, contexts & 0xf, identifiers[1])?
        } else {
            multicast(fields, second & 7, contexts & 0xf)?
        };
        let start = self.packet.len();
        self.ipv6.push(start + 4);
        self.packet.extend([0x60, 0, 0, 0, 0, 0, 0, hops]);
        self.packet.extend(source);
        self.packet.extend(destination);
        let next_at = start + 6;
        match inline_next {
            Some(next) => self.packet[next_at] = next,
            None => self.next_headers(fields, next_at, [source, destination], depth)?,
        }
        Ok(())
    }

    /// Reads compressed extension and UDP headers (RFC 6282 section 4). `next_at` is the place of the next
    /// header's number.
    fn next_headers(
        &mut self,
        fields: &mut Fields<'_>,
        mut next_at: usize,
        outer: [[u8; 16]; 2],
        depth: usize,
    ) -> Result<(), Other> {
        loop {
            let first = fields.byte()?;
            if first & 0xf8 == 0xf0 {
                self.packet[next_at] = UDP;
                return self.udp(fields, first);
            }
            if first & 0xf0 != 0xe0 {
                return Err(Other::Malformed);
            }
            let kind = match first >> 1 & 7 {
                0 => 0,
                1 => 43,
                2 => 44,
                3 => 60,
                4 => 135,
                7 if depth < NESTING_MAX => {
                    // An IPv6 header within: elided addresses come from the outer one.
                    self.packet[next_at] = 41;
                    let identifiers = outer.map(|address| {
                        let mut octets = [0; 8];
                        octets.copy_from_slice(&address[8..]);
                        Ok(octets)
                    });
                    let first = fields.byte()?;
                    if first & 0xe0 != 0x60 {
                        return Err(Other::Malformed);
                    }
                    return self.read(first, fields, identifiers, depth + 1);
                }
                _ => return Err(Other::Malformed),
            };
            self.packet[next_at] = kind;
            let inline_next = match first & 1 {
                0 => Some(fields.byte()?),
                _ => None,
            };
            // The length counts the bytes after it; padding was elided.
            let data = usize::from(fields.byte()?);
            let data = fields.take(data)?;
            next_at = self.packet.len();
            let whole = (2 + data.len()).next_multiple_of(8);
            self.packet.push(inline_next.unwrap_or_default());
            self.packet.push((whole / 8 - 1) as u8);
            self.packet.extend(data);
            match whole - 2 - data.len() {
                0 => {}
                1 => self.packet.push(0),
                pad => {
                    self.packet.extend([1, pad as u8 - 2]);
                    self.packet.extend(&[0; 6][..pad - 2]);
                }
            }
            if inline_next.is_some() {
                return Ok(());
            }
        }
    }

    fn udp(&mut self, fields: &mut Fields<'_>, first: u8) -> Result<(), Other> {
        let short = |byte: u8| 0xf000 | u16::from(byte);
        let (from, to) = match first & 3 {
            0 => (fields.big()?, fields.big()?),
            1 => (fields.big()?, short(fields.byte()?)),
            2 => (short(fields.byte()?), fields.big()?),
            _ => {
                let both = fields.byte()?;
                (0xf0b0 | u16::from(both >> 4), 0xf0b0 | u16::from(both & 15))
            }
        };
        if first & 4 == 0 {
            fields.take(2)?;
        }
        self.packet.extend(from.to_be_bytes());
        self.packet.extend(to.to_be_bytes());
        self.udp = Some(self.packet.len());
        self.packet.extend([0; 4]);
        Ok(())
    }

    /// Adds the payload and sets the lengths, which a compressed packet leaves out.
    fn finish(mut self, payload: &[u8]) -> Vec<u8> {
        let sent = self.packet.len() + payload.len() + self.missing;
        let whole = self.size.unwrap_or(sent);
        let length = |from: usize| (whole.saturating_sub(from) as u16).to_be_bytes();
        for at in self.ipv6 {
            self.packet[at..at + 2].copy_from_slice(&length(at - 4 + IPV6_HEADER));
        }
        if let Some(at) = self.udp {
            self.packet[at..at + 2].copy_from_slice(&length(at - 4));
        }
        self.packet.extend(payload);
        self.packet
    }
}

/// Reads an address by its three bits of mode: one for the context, two for the bytes in place.
fn unicast(
    fields: &mut Fields<'_>,
    mode: u8,
    context: u8,
    identifier: Result<[u8; 8], Other>,
) -> Result<[u8; 16], Other> {
    let has_context = mode & 4 != 0;
    let mut address = [0; 16];
    match (has_context, mode & 3) {
        (false, 0) => address.copy_from_slice(fields.take(16)?),
        // The unspecified address.
        (true, 0) => return Ok(Ipv6Addr::UNSPECIFIED.octets()),
        (_, 1) => address[8..].copy_from_slice(fields.take(8)?),
        (_, 2) => address[8..].copy_from_slice(&identifier_of(fields.big()?)),
        _ => address[8..].copy_from_slice(&identifier?),
    }
    if has_context {
        address[..6].copy_from_slice(&CONTEXT_PREFIX);
        address[7] = context;
    } else if mode & 3 != 0 {
        address[..2].copy_from_slice(&[0xfe, 0x80]);
    }
    Ok(address)
}

fn multicast(fields: &mut Fields<'_>, mode: u8, context: u8) -> Result<[u8; 16], Other> {
    let mut address = [0; 16];
    address[0] = 0xff;
    match mode {
        0 => address.copy_from_slice(fields.take(16)?),
        1 => {
            address[1] = fields.byte()?;
            address[11..].copy_from_slice(fields.take(5)?);
        }
        2 => {
            address[1] = fields.byte()?;
            address[13..].copy_from_slice(fields.take(3)?);
        }
        3 => {
            address[1] = 2;
            address[15] = fields.byte()?;
        }
        // A multicast address based on a unicast prefix (RFC 3306).
        4 => {
            address[1..3].copy_from_slice(fields.take(2)?);
            address[3] = 64;
            address[4..10].copy_from_slice(&CONTEXT_PREFIX);
            address[11] = context;
            address[12..].copy_from_slice(fields.take(4)?);
        }
        _ => return Err(Other::Malformed),
    }
    Ok(address)
}
