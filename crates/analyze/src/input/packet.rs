//! UDP datagrams in captured packets: IPv4, IPv6 and its extension headers, fragments, and tunnels.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::fragments::{Added, Fragment, FragmentKey, Reassembler};
use super::ieee802154::Compressed;
use super::link::{Link, ethernet, link};
use super::sixlowpan;
use super::{Direction, Frame};
use crate::limits::EXTENSION_HEADERS_MAX;
use crate::message::Hash;

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const UDP_HEADER: usize = 8;
/// IP headers within each other.
const TUNNELS_MAX: usize = 4;

/// Tunnels over UDP without a reader, by their port.
const UDP_TUNNELS: [(u16, &str); 9] = [
    (1_701, "L2TP"),
    (2_152, "GTP-U"),
    (3_544, "Teredo"),
    (4_500, "IPsec over UDP"),
    (4_789, "VXLAN"),
    (5_247, "CAPWAP"),
    (6_081, "Geneve"),
    (17_754, "ZEP"),
    (51_820, "WireGuard"),
];

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
    pub(crate) sighting: Sighting,
}

/// Properties that distinguish one packet captured at several places from a retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// Identification of IPv4; 0 without one.
    pub(crate) ip_id: u16,
    /// Interface in the file.
    pub(crate) interface: u32,
    /// Hash of interface, link header and TTL.
    pub(crate) path: u64,
    /// Sequence number of the link layer.
    pub(crate) frame_id: Option<u8>,
}

impl Datagram<'_> {
    /// True if the capture has not all of the payload.
    pub(crate) fn is_cut(&self) -> bool {
        (self.payload_bytes as usize) > self.payload.len()
    }
}

impl Datagram<'_> {
    /// The peer at which it was captured, as the place of its address among both: 0 for the smaller one.
    /// `None` without a direction.
    pub(crate) fn end(&self) -> Option<u32> {
        let is_at_sender = self.direction? == Direction::Outbound;
        Some(u32::from((self.from > self.to) == is_at_sender))
    }
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
            sighting: Sighting::default(),
        }
    }
}

/// A packet behind its link header.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packet<'a> {
    Ip(&'a [u8]),
    Exported(&'a [u8]),
    Compressed(Compressed<'a>),
}

/// Reasons why a packet holds no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Other {
    /// A link type without a reader.
    LinkType(u32),
    NotIp,
    /// A fragment of a packet that is not whole yet.
    Fragment,
    Tcp,
    NotUdp,
    /// An encapsulation without a reader.
    Tunnel(&'static str),
    /// Headers that the capture cut short.
    CutShort,
    /// Headers cut short, or lengths that contradict each other.
    Malformed,
}

/// Fragments, and the packet that was put together or expanded last.
#[derive(Debug, Default)]
pub(crate) struct PacketReader {
    pub(crate) fragments: Reassembler,
    packet: Vec<u8>,
}

impl PacketReader {
    /// Returns the datagram of a packet. A fragmented packet's comes with its last fragment.
    pub(crate) fn datagram<'a>(&'a mut self, frame: &Frame<'a>) -> Result<Datagram<'a>, Other> {
        let is_cut = (frame.original_bytes as usize) > frame.bytes.len();
        self.read(frame).map_err(|other| match other {
            Other::Malformed if is_cut => Other::CutShort,
            other => other,
        })
    }

    fn read<'a>(&'a mut self, frame: &Frame<'a>) -> Result<Datagram<'a>, Other> {
        let Link {
            packet,
            direction,
            header,
            frame_id,
        } = link(frame)?;
        let missing = (frame.original_bytes as usize).saturating_sub(frame.bytes.len());
        let at = frame.at.unwrap_or_default();
        let found = match packet {
            Packet::Exported(bytes) => exported(bytes, missing)?,
            Packet::Ip(bytes) => match internet(bytes, missing, 0)? {
                Found::Datagram(found) => found,
                Found::Fragment(fragment) => self.join(at, &fragment.fragment())?,
            },
            Packet::Compressed(compressed) => {
                let expanded = sixlowpan::expand(&compressed)?;
                let missing = if let Some(fragment) = expanded.fragment() {
                    self.add(at, &fragment)?
                } else {
                    self.packet = expanded.packet;
                    expanded.missing
                };
                whole(&self.packet, missing)?
            }
        };
        let mut path = Hash::new();
        path.add(&frame.interface.to_be_bytes());
        path.add(header);
        path.add(&[found.ttl]);
        Ok(Datagram {
            direction,
            sighting: Sighting {
                interface: frame.interface,
                path: path.0,
                frame_id,
                ..found.sighting
            },
            ..found
        })
    }

    /// Adds a fragment; returns the datagram, if it was the last one.
    fn join(&mut self, at: u64, fragment: &Fragment<'_>) -> Result<Datagram<'_>, Other> {
        let missing = self.add(at, fragment)?;
        whole(&self.packet, missing)
    }

    fn add(&mut self, at: u64, fragment: &Fragment<'_>) -> Result<usize, Other> {
        match self.fragments.add(at, fragment) {
            Added::Whole(packet, missing) => {
                self.packet = packet;
                Ok(missing)
            }
            Added::Part => Err(Other::Fragment),
        }
    }
}

/// The datagram of a packet that is no fragment.
fn whole(packet: &[u8], missing: usize) -> Result<Datagram<'_>, Other> {
    match internet(packet, missing, 0)? {
        Found::Datagram(found) => Ok(found),
        // A fragment within a fragmented packet.
        Found::Fragment(_) => Err(Other::NotUdp),
    }
}

/// A datagram, or a fragment of one.
enum Found<'a> {
    Datagram(Datagram<'a>),
    Fragment(IpFragment<'a>),
}

/// A fragment with the header of the whole packet.
struct IpFragment<'a> {
    key: FragmentKey,
    header: Vec<u8>,
    offset: usize,
    is_last: bool,
    bytes: &'a [u8],
    missing: usize,
}

impl IpFragment<'_> {
    fn fragment(&self) -> Fragment<'_> {
        let end = self.offset + self.bytes.len() + self.missing;
        Fragment {
            key: self.key,
            header: &self.header,
            offset: self.offset,
            total: self.is_last.then_some(end),
            bytes: self.bytes,
            missing: self.missing,
        }
    }
}

pub(super) fn short(bytes: &[u8], at: usize) -> Result<u16, Other> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field
        .map(|f| u16::from_be_bytes(*f))
        .ok_or(Other::Malformed)
}

/// Header of an IP packet, as far as the transport needs it.
#[derive(Clone, Copy)]
struct IpHeader {
    addresses: [IpAddr; 2],
    packet_bytes: u32,
    ttl: u8,
    ip_id: u16,
}

fn internet(bytes: &[u8], missing: usize, depth: usize) -> Result<Found<'_>, Other> {
    if depth > TUNNELS_MAX {
        return Err(Other::NotUdp);
    }
    match bytes.first().map(|first| first >> 4) {
        Some(4) => ipv4(bytes, missing, depth),
        Some(6) => ipv6(bytes, missing, depth),
        Some(_) => Err(Other::NotIp),
        None => Err(Other::Malformed),
    }
}

/// The first `length` bytes, and how many of them are missing. Link layers pad packets.
fn cut(bytes: &[u8], missing: usize, length: usize) -> (&[u8], usize) {
    let padding = (bytes.len() + missing).saturating_sub(length);
    let captured = bytes.len() - padding.saturating_sub(missing).min(bytes.len());
    (&bytes[..captured], missing.saturating_sub(padding))
}

fn ipv4(bytes: &[u8], missing: usize, depth: usize) -> Result<Found<'_>, Other> {
    let header = bytes.first_chunk::<20>().ok_or(Other::Malformed)?;
    let header_bytes = (usize::from(header[0] & 0x0f) * 4).max(20);
    let total = u16::from_be_bytes([header[2], header[3]]);
    // Segmentation offload has length 0: the packet ends with the frame.
    let (bytes, missing) = match total {
        0 => (bytes, missing),
        total => cut(bytes, missing, usize::from(total)),
    };
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    let ip_id = u16::from_be_bytes([header[4], header[5]]);
    let octets = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let [from, to] = [12, 16].map(|at| Ipv4Addr::from(octets(at)));
    let rest = bytes.get(header_bytes..).ok_or(Other::Malformed)?;
    // More fragments, or an offset.
    if fragment & 0x3fff != 0 {
        let mut whole = header.to_vec();
        whole[0] = 0x45;
        whole[2..4].fill(0);
        whole[6..8].fill(0);
        return Ok(Found::Fragment(IpFragment {
            key: FragmentKey {
                ends: [from, to].map(|address| u128::from(u32::from(address))),
                id: u32::from(ip_id),
                protocol: header[9],
                version: 4,
            },
            header: whole,
            offset: usize::from(fragment & 0x1fff) * 8,
            is_last: fragment & 0x2000 == 0,
            bytes: rest,
            missing,
        }));
    }
    let ip = IpHeader {
        addresses: [from.into(), to.into()],
        packet_bytes: (bytes.len() + missing) as u32,
        ttl: header[8],
        ip_id,
    };
    transport(header[9], rest, missing, ip, depth)
}

fn ipv6(bytes: &[u8], missing: usize, depth: usize) -> Result<Found<'_>, Other> {
    let header = bytes.first_chunk::<40>().ok_or(Other::Malformed)?;
    let (bytes, missing) = match u16::from_be_bytes([header[4], header[5]]) {
        0 => (bytes, missing),
        length => cut(bytes, missing, 40 + usize::from(length)),
    };
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        Ipv6Addr::from(octets)
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
                let fragment = rest.first_chunk::<8>().ok_or(Other::Malformed)?;
                let place = u16::from_be_bytes([fragment[2], fragment[3]]);
                // A fragment header of a whole packet is allowed (RFC 6946).
                if place & 0xfff9 != 0 {
                    let [.., i0, i1, i2, i3] = *fragment;
                    let mut whole = header.to_vec();
                    whole[4..6].fill(0);
                    whole[6] = fragment[0];
                    return Ok(Found::Fragment(IpFragment {
                        key: FragmentKey {
                            ends: addresses.map(u128::from),
                            id: u32::from_be_bytes([i0, i1, i2, i3]),
                            protocol: 0,
                            version: 6,
                        },
                        header: whole,
                        offset: usize::from(place & 0xfff8),
                        is_last: place & 1 == 0,
                        bytes: &rest[8..],
                        missing,
                    }));
                }
                8
            }
            _ => {
                let ip = IpHeader {
                    addresses: addresses.map(IpAddr::from),
                    packet_bytes: (bytes.len() + missing) as u32,
                    ttl: header[7],
                    ip_id: 0,
                };
                return transport(next, rest, missing, ip, depth);
            }
        };
        next = *rest.first().ok_or(Other::Malformed)?;
        rest = rest.get(length..).ok_or(Other::Malformed)?;
    }
    Err(Other::Malformed)
}

fn transport(
    protocol: u8,
    bytes: &[u8],
    missing: usize,
    ip: IpHeader,
    depth: usize,
) -> Result<Found<'_>, Other> {
    match protocol {
        UDP => udp(bytes, missing, ip).map(Found::Datagram),
        TCP => Err(Other::Tcp),
        IPV4_IN_IP | IPV6_IN_IP => internet(bytes, missing, depth + 1),
        GRE => gre(bytes, missing, depth),
        50 => Err(Other::Tunnel("IPsec ESP")),
        115 => Err(Other::Tunnel("L2TPv3")),
        137 => Err(Other::Tunnel("MPLS")),
        _ => Err(Other::NotUdp),
    }
}

/// Generic routing encapsulation (RFC 2784, RFC 2890) of IP packets and Ethernet frames.
fn gre(bytes: &[u8], missing: usize, depth: usize) -> Result<Found<'_>, Other> {
    const ETHERNET: u16 = 0x6558;
    let (flags, protocol) = (short(bytes, 0)?, short(bytes, 2)?);
    // Version 1 is PPTP's; routing (bit 1) is of RFC 1701.
    if flags & 0x4007 != 0 {
        return Err(Other::Tunnel("GRE of another version"));
    }
    // Checksum, key and sequence number.
    let fields = [0x8000, 0x2000, 0x1000].map(|bit| usize::from(flags & bit != 0));
    let inner = bytes.get(4 + 4 * fields.iter().sum::<usize>()..);
    let inner = inner.ok_or(Other::Malformed)?;
    match protocol {
        0x0800 | 0x86dd => internet(inner, missing, depth + 1),
        ETHERNET => {
            let packet = inner.get(ethernet(inner)?..).ok_or(Other::Malformed)?;
            internet(packet, missing, depth + 1)
        }
        0x88be | 0x22eb => Err(Other::Tunnel("ERSPAN")),
        _ => Err(Other::Tunnel("GRE of another protocol")),
    }
}

fn udp(bytes: &[u8], missing: usize, ip: IpHeader) -> Result<Datagram<'_>, Other> {
    let [from, to] = [short(bytes, 0)?, short(bytes, 2)?];
    let length = usize::from(short(bytes, 4)?);
    let payload_bytes = length.checked_sub(UDP_HEADER).ok_or(Other::Malformed)?;
    let payload = bytes.get(UDP_HEADER..).ok_or(Other::Malformed)?;
    if payload_bytes > payload.len() + missing {
        return Err(Other::Malformed);
    }
    Ok(Datagram {
        from: (ip.addresses[0], from).into(),
        to: (ip.addresses[1], to).into(),
        payload: payload.get(..payload_bytes).unwrap_or(payload),
        payload_bytes: payload_bytes as u32,
        packet_bytes: ip.packet_bytes,
        ttl: ip.ttl,
        direction: None,
        is_exported: false,
        sighting: Sighting {
            ip_id: ip.ip_id,
            ..Sighting::default()
        },
    })
}

/// Returns the name of a tunnel over UDP that these ports are of.
pub(crate) fn tunnel_of(datagram: &Datagram<'_>) -> Option<&'static str> {
    let is_of = |port: u16| [datagram.from.port(), datagram.to.port()].contains(&port);
    let row = UDP_TUNNELS.iter().find(|row| is_of(row.0));
    row.map(|row| row.1)
}

/// Wireshark's exported PDU: tags with addresses and ports, then the message.
fn exported(bytes: &[u8], missing: usize) -> Result<Datagram<'_>, Other> {
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
        payload_bytes: (payload.len() + missing) as u32,
        packet_bytes: (payload.len() + missing) as u32 + header,
        ttl: 0,
        direction: None,
        is_exported: true,
        sighting: Sighting::default(),
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

    fn of_cut(
        link_type: u32,
        bytes: &[u8],
        missing: u32,
    ) -> Result<(u16, Vec<u8>, Option<Direction>), Other> {
        let frame = Frame {
            number: 1,
            offset: 0,
            at: Some(0),
            link_type,
            interface: 0,
            direction: None,
            original_bytes: bytes.len() as u32 + missing,
            bytes,
        };
        let mut reader = PacketReader::default();
        let found = reader.datagram(&frame)?;
        Ok((found.to.port(), found.payload.to_vec(), found.direction))
    }

    fn of(link_type: u32, bytes: &[u8]) -> Result<(u16, Vec<u8>, Option<Direction>), Other> {
        of_cut(link_type, bytes, 0)
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
    fn extension_headers_are_skipped_and_fragments_detected() {
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
        assert_eq!(of_cut(101, &ip[..30], 3), Ok((5_683, b"he".to_vec(), None)));
        // Without a cut, lengths contradict each other.
        assert_eq!(of(101, &ip[..30]), Err(Other::Malformed));
        for length in 0..28 {
            let missing = 33 - length as u32;
            let found = of_cut(101, &ip[..length], missing);
            assert_eq!(found, Err(Other::CutShort), "{length}");
        }
    }
}
