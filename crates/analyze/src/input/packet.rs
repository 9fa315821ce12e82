//! UDP datagrams in captured packets: link headers, IPv4, IPv6 and its extension headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Direction, Frame};
use crate::limits::EXTENSION_HEADERS_MAX;

const UDP: u8 = 17;
const TCP: u8 = 6;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// VLAN tags: 802.1Q, 802.1ad, and the one before it.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// VLAN tags of a frame.
const VLAN_TAGS_MAX: usize = 4;
const UDP_HEADER: usize = 8;

/// Link types (tcpdump.org/linktypes).
mod link_type {
    pub(super) const NULL: u32 = 0;
    pub(super) const ETHERNET: u32 = 1;
    pub(super) const RAW_BSD: [u32; 2] = [12, 14];
    pub(super) const RAW: u32 = 101;
    pub(super) const LOOP: u32 = 108;
    pub(super) const LINUX_SLL: u32 = 113;
    pub(super) const IPV4: u32 = 228;
    pub(super) const IPV6: u32 = 229;
    pub(super) const EXPORTED_PDU: u32 = 252;
    pub(super) const LINUX_SLL2: u32 = 276;
}

/// A UDP datagram of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// Payload as far as it was captured.
    pub(crate) payload: &'a [u8],
    /// Bytes of the payload on the wire.
    pub(crate) payload_bytes: u32,
    /// Bytes of the IP packet.
    pub(crate) packet_bytes: u32,
    /// TTL or hop limit; 0 if unknown.
    pub(crate) ttl: u8,
    pub(crate) direction: Option<Direction>,
    /// True for a decrypted message that Wireshark or Carob exported.
    pub(crate) is_exported: bool,
}

#[cfg(test)]
impl<'a> Datagram<'a> {
    /// A datagram of a test, with a whole payload.
    pub(crate) fn of(from: SocketAddr, to: SocketAddr, payload: &'a [u8]) -> Self {
        Self {
            from,
            to,
            payload,
            payload_bytes: payload.len() as u32,
            packet_bytes: payload.len() as u32 + 28,
            ttl: 0,
            direction: None,
            is_exported: false,
        }
    }
}

/// Reasons why a packet holds no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Other {
    /// A link type without a reader.
    LinkType(u32),
    NotIp,
    Fragment,
    Tcp,
    NotUdp,
    /// Headers cut short, or lengths that contradict each other.
    Malformed,
}

/// Returns the datagram of a packet.
pub(crate) fn datagram<'a>(frame: &Frame<'a>) -> Result<Datagram<'a>, Other> {
    let bytes = frame.bytes;
    let mut direction = frame.direction;
    let ip = match frame.link_type {
        link_type::ETHERNET => ethernet(bytes)?,
        link_type::LINUX_SLL => {
            direction = direction.or(cooked_direction(short(bytes, 0)?));
            by_ethertype(short(bytes, 14)?, bytes.get(16..))?
        }
        link_type::LINUX_SLL2 => {
            let kind = *bytes.get(10).ok_or(Other::Malformed)?;
            direction = direction.or(cooked_direction(u16::from(kind)));
            by_ethertype(short(bytes, 0)?, bytes.get(20..))?
        }
        link_type::NULL | link_type::LOOP => bytes.get(4..).ok_or(Other::Malformed)?,
        link_type::RAW | link_type::IPV4 | link_type::IPV6 => bytes,
        kind if link_type::RAW_BSD.contains(&kind) => bytes,
        link_type::EXPORTED_PDU => return exported(bytes, direction),
        other => return Err(Other::LinkType(other)),
    };
    let mut datagram = internet(ip)?;
    datagram.direction = direction;
    Ok(datagram)
}

/// The direction of a "cooked" Linux packet.
fn cooked_direction(kind: u16) -> Option<Direction> {
    match kind {
        0..=2 => Some(Direction::Inbound),
        4 => Some(Direction::Outbound),
        _ => None,
    }
}

fn short(bytes: &[u8], at: usize) -> Result<u16, Other> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field
        .map(|f| u16::from_be_bytes(*f))
        .ok_or(Other::Malformed)
}

fn by_ethertype(kind: u16, rest: Option<&[u8]>) -> Result<&[u8], Other> {
    match kind {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => rest.ok_or(Other::Malformed),
        _ => Err(Other::NotIp),
    }
}

fn ethernet(bytes: &[u8]) -> Result<&[u8], Other> {
    let mut at = 12;
    for _ in 0..=VLAN_TAGS_MAX {
        let kind = short(bytes, at)?;
        if !ETHERTYPES_VLAN.contains(&kind) {
            return by_ethertype(kind, bytes.get(at + 2..));
        }
        at += 4;
    }
    Err(Other::Malformed)
}

fn internet(bytes: &[u8]) -> Result<Datagram<'_>, Other> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => ipv4(bytes),
        Some(6) => ipv6(bytes),
        Some(_) => Err(Other::NotIp),
        None => Err(Other::Malformed),
    }
}

fn ipv4(bytes: &[u8]) -> Result<Datagram<'_>, Other> {
    let header = bytes.first_chunk::<20>().ok_or(Other::Malformed)?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let total = u32::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    // More fragments, or an offset.
    if fragment & 0x3fff != 0 {
        return Err(Other::Fragment);
    }
    let address = |at: usize| {
        IpAddr::V4(Ipv4Addr::new(
            header[at],
            header[at + 1],
            header[at + 2],
            header[at + 3],
        ))
    };
    let rest = bytes.get(header_bytes.max(20)..).ok_or(Other::Malformed)?;
    transport(
        header[9],
        rest,
        [address(12), address(16)],
        total,
        header[8],
    )
}

fn ipv6(bytes: &[u8]) -> Result<Datagram<'_>, Other> {
    let header = bytes.first_chunk::<40>().ok_or(Other::Malformed)?;
    let total = 40 + u32::from(u16::from_be_bytes([header[4], header[5]]));
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let addresses = [address(8), address(24)];
    let (mut next, mut rest) = (header[6], &bytes[40..]);
    for _ in 0..=EXTENSION_HEADERS_MAX {
        let length = match next {
            // Hop-by-hop options, routing, destination options, mobility (RFC 8200 4).
            0 | 43 | 60 | 135 => 8 + 8 * usize::from(*rest.get(1).ok_or(Other::Malformed)?),
            // Authentication (RFC 4302 2.2).
            51 => 8 + 4 * usize::from(*rest.get(1).ok_or(Other::Malformed)?),
            44 => {
                // A fragment header of a whole packet is allowed (RFC 6946).
                if short(rest, 2)? & 0xfff9 != 0 {
                    return Err(Other::Fragment);
                }
                8
            }
            _ => return transport(next, rest, addresses, total, header[7]),
        };
        next = *rest.first().ok_or(Other::Malformed)?;
        rest = rest.get(length..).ok_or(Other::Malformed)?;
    }
    Err(Other::Malformed)
}

fn transport(
    protocol: u8,
    bytes: &[u8],
    [from, to]: [IpAddr; 2],
    packet_bytes: u32,
    ttl: u8,
) -> Result<Datagram<'_>, Other> {
    match protocol {
        UDP => {}
        TCP => return Err(Other::Tcp),
        _ => return Err(Other::NotUdp),
    }
    let length = usize::from(short(bytes, 4)?);
    let payload_bytes = length.checked_sub(UDP_HEADER).ok_or(Other::Malformed)?;
    let payload = bytes.get(UDP_HEADER..).ok_or(Other::Malformed)?;
    Ok(Datagram {
        from: (from, short(bytes, 0)?).into(),
        to: (to, short(bytes, 2)?).into(),
        payload: payload.get(..payload_bytes).unwrap_or(payload),
        payload_bytes: payload_bytes as u32,
        packet_bytes,
        ttl,
        direction: None,
        is_exported: false,
    })
}

/// Wireshark's exported PDU: tags with addresses and ports, then the message.
fn exported(bytes: &[u8], direction: Option<Direction>) -> Result<Datagram<'_>, Other> {
    const END: u16 = 0;
    let (mut addresses, mut ports) = ([None; 2], [0; 2]);
    let mut at = 0;
    loop {
        let (tag, length) = (short(bytes, at)?, usize::from(short(bytes, at + 2)?));
        let value = bytes.get(at + 4..at + 4 + length).ok_or(Other::Malformed)?;
        at += 4 + length;
        match tag {
            END => break,
            20 | 21 => {
                let octets = value.first_chunk::<4>().ok_or(Other::Malformed)?;
                addresses[usize::from(tag - 20)] = Some(IpAddr::from(*octets));
            }
            22 | 23 => {
                let octets = value.first_chunk::<16>().ok_or(Other::Malformed)?;
                addresses[usize::from(tag - 22)] = Some(IpAddr::from(*octets));
            }
            25 | 26 => ports[usize::from(tag - 25)] = short(value, 2)?,
            _ => {}
        }
    }
    let [Some(from), Some(to)] = addresses else {
        return Err(Other::Malformed);
    };
    let payload = bytes.get(at..).ok_or(Other::Malformed)?;
    let header = if from.is_ipv4() { 28 } else { 48 };
    Ok(Datagram {
        from: (from, ports[0]).into(),
        to: (to, ports[1]).into(),
        payload,
        payload_bytes: payload.len() as u32,
        packet_bytes: payload.len() as u32 + header,
        ttl: 0,
        direction,
        is_exported: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with UDP from 10.0.0.1:1000 to 10.0.0.2:5683.
    fn packet(payload: &[u8]) -> Vec<u8> {
        let length = 28 + payload.len() as u16;
        let mut bytes = vec![0x45, 0];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        for field in [1_000, 5_683, length - 20, 0] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(payload);
        bytes
    }

    fn of(link_type: u32, bytes: &[u8]) -> Result<(u16, Vec<u8>, Option<Direction>), Other> {
        let frame = Frame {
            number: 1,
            offset: 0,
            at: Some(0),
            link_type,
            interface: 0,
            direction: None,
            bytes,
        };
        let found = datagram(&frame)?;
        Ok((found.to.port(), found.payload.to_vec(), found.direction))
    }

    #[test]
    fn every_link_type_leads_to_the_payload() {
        let ip = packet(b"hello");
        let expected = |direction| Ok((5_683, b"hello".to_vec(), direction));
        let with = |head: &[u8]| [head, &ip].concat();
        assert_eq!(of(101, &ip), expected(None));
        assert_eq!(of(228, &ip), expected(None));
        assert_eq!(of(0, &with(&[2, 0, 0, 0])), expected(None));
        let mut ethernet = vec![0; 12];
        ethernet.extend([0x81, 0, 0, 5, 0x08, 0]);
        assert_eq!(of(1, &with(&ethernet)), expected(None));
        let mut cooked = vec![0, 4];
        cooked.extend([0; 12]);
        cooked.extend([0x08, 0]);
        assert_eq!(of(113, &with(&cooked)), expected(Some(Direction::Outbound)));
        let mut cooked = vec![0x08, 0];
        cooked.extend([0; 18]);
        assert_eq!(of(276, &with(&cooked)), expected(Some(Direction::Inbound)));
        assert_eq!(of(147, &ip), Err(Other::LinkType(147)));
    }

    #[test]
    fn extension_headers_are_skipped_and_fragments_are_told() {
        let udp = &packet(b"x")[20..];
        let ipv6 = |next: u8, extensions: &[u8]| {
            let length = (extensions.len() + udp.len()) as u16;
            let mut bytes = vec![0x60, 0, 0, 0];
            bytes.extend(length.to_be_bytes());
            bytes.extend([next, 64]);
            bytes.extend([0xfd; 32]);
            [&bytes[..], extensions, udp].concat()
        };
        let hops = [60, 0, 1, 4, 0, 0, 0, 0];
        let destination = [UDP, 0, 1, 4, 0, 0, 0, 0];
        let both = [hops, destination].concat();
        assert_eq!(of(101, &ipv6(0, &both)), Ok((5_683, b"x".to_vec(), None)));
        let whole = [UDP, 0, 0, 0, 0, 0, 0, 7];
        assert!(of(101, &ipv6(44, &whole)).is_ok());
        let first = [UDP, 0, 0, 1, 0, 0, 0, 7];
        assert_eq!(of(101, &ipv6(44, &first)), Err(Other::Fragment));
        let mut fragment = packet(b"x");
        fragment[6] = 0x20;
        assert_eq!(of(101, &fragment), Err(Other::Fragment));
        let endless = [0, 0, 1, 4, 0, 0, 0, 0].repeat(12);
        assert_eq!(of(101, &ipv6(0, &endless)), Err(Other::Malformed));
    }

    #[test]
    fn packets_cut_short_have_no_datagram() {
        let ip = packet(b"hello");
        for length in 0..28 {
            assert!(of(101, &ip[..length]).is_err(), "{length}");
        }
        // A payload cut by the capture stays readable as far as it goes.
        assert_eq!(of(101, &ip[..30]), Ok((5_683, b"he".to_vec(), None)));
    }
}
