//! Link headers: the network packet in a captured frame, or the name of a link type without a reader.
//!
//! Numbers and layouts: tcpdump.org/linktypes.

use super::packet::{Other, Packet, short};
use super::{Direction, Frame, ieee802154};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_PPPOE_SESSION: u16 = 0x8864;
/// VLAN tags: 802.1Q, 802.1ad, and the one before it.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// VLAN tags of a frame.
const VLAN_TAGS_MAX: usize = 4;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// Numbers of link types with a reader.
mod number {
    pub(super) const NULL: u32 = 0;
    pub(super) const ETHERNET: u32 = 1;
    pub(super) const PPP: u32 = 9;
    pub(super) const RAW_BSD: [u32; 2] = [12, 14];
    pub(super) const PPP_HDLC: u32 = 50;
    pub(super) const RAW: u32 = 101;
    pub(super) const LOOP: u32 = 108;
    pub(super) const LINUX_SLL: u32 = 113;
    pub(super) const IEEE802_15_4_WITH_FCS: u32 = 195;
    pub(super) const IPV4: u32 = 228;
    pub(super) const IPV6: u32 = 229;
    pub(super) const IEEE802_15_4: u32 = 230;
    pub(super) const EXPORTED_PDU: u32 = 252;
    pub(super) const LINUX_SLL2: u32 = 276;
    pub(super) const IEEE802_15_4_TAP: u32 = 283;
}

const DECRYPT_WLAN: &str = "its frames are usually encrypted: capture at an interface in managed mode \
                            (Ethernet frames), or export the decrypted packets with Wireshark (File > \
                            Export PDUs to File)";
const EXPORT: &str = "export the IP packets with Wireshark (File > Export PDUs to File)";
const CAPTURE_AT_INTERFACE: &str = "capture with tcpdump -i INTERFACE instead";

/// Link types without a reader that tools write: number, name, and a conversion.
const UNREAD: [(u32, &str, &str); 24] = [
    (51, "PPPoE", "capture at the Ethernet interface below"),
    (104, "Cisco HDLC", EXPORT),
    (105, "IEEE 802.11", DECRYPT_WLAN),
    (107, "Frame Relay", EXPORT),
    (119, "IEEE 802.11 with Prism header", DECRYPT_WLAN),
    (127, "IEEE 802.11 with radiotap header", DECRYPT_WLAN),
    (147, "user-defined 0", EXPORT),
    (
        149,
        "user-defined 2, PKTAP of older macOS",
        CAPTURE_AT_INTERFACE,
    ),
    (163, "IEEE 802.11 with AVS header", DECRYPT_WLAN),
    (
        166,
        "PPP with direction (pppd)",
        "capture at the PPP interface",
    ),
    (187, "Bluetooth HCI H4", EXPORT),
    (
        189,
        "Linux USB",
        "capture at the network interface of the device",
    ),
    (192, "PPI", DECRYPT_WLAN),
    (201, "Bluetooth HCI H4 with direction", EXPORT),
    (204, "PPP with direction", EXPORT),
    (
        215,
        "IEEE 802.15.4 with PHY header",
        "capture with link type 195, 230 or 283",
    ),
    (
        220,
        "Linux USB with padding",
        "capture at the network interface of the device",
    ),
    (239, "NFLOG", "capture at an interface rather than at nflog"),
    (
        249,
        "USBPcap",
        "capture at the network interface of the device",
    ),
    (251, "Bluetooth LE link layer", EXPORT),
    (253, "Linux netlink", CAPTURE_AT_INTERFACE),
    (256, "Bluetooth LE link layer with PHY header", EXPORT),
    (258, "PKTAP", CAPTURE_AT_INTERFACE),
    (270, "LoRaTap", EXPORT),
];

/// A network packet of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link<'a> {
    pub(super) packet: Packet<'a>,
    pub(super) direction: Option<Direction>,
    /// Bytes of the link header, which differ between places where a packet is seen.
    pub(super) header: &'a [u8],
    /// Sequence number of the frame, which a retransmission by the link layer repeats.
    pub(super) frame_id: Option<u8>,
}

/// Returns the name of a link type, and what converts its captures.
pub(crate) fn unread(number: u32) -> (&'static str, &'static str) {
    let row = UNREAD.iter().find(|row| row.0 == number);
    row.map_or(("unknown", EXPORT), |(_, name, conversion)| {
        (name, conversion)
    })
}

/// Returns the packet of a frame.
pub(super) fn link<'a>(frame: &Frame<'a>) -> Result<Link<'a>, Other> {
    let bytes = frame.bytes;
    let missing = frame.original_bytes as usize - bytes.len();
    let after = |length: usize| -> Result<Link<'a>, Other> {
        let (header, rest) = bytes.split_at_checked(length).ok_or(Other::Malformed)?;
        Ok(Link {
            packet: Packet::Ip(rest),
            direction: frame.direction,
            header,
            frame_id: None,
        })
    };
    match frame.link_type {
        number::ETHERNET => after(ethernet(bytes)?),
        number::LINUX_SLL => {
            let length = after_ethertype(bytes, 14)?;
            let direction = cooked_direction(short(bytes, 0)?);
            Ok(Link {
                direction: frame.direction.or(direction),
                ..after(length)?
            })
        }
        number::LINUX_SLL2 => {
            // The protocol is first, and the header has 20 bytes.
            let kind = *bytes.get(10).ok_or(Other::Malformed)?;
            is_ip(short(bytes, 0)?)?;
            Ok(Link {
                direction: frame.direction.or(cooked_direction(u16::from(kind))),
                ..after(20)?
            })
        }
        number::NULL | number::LOOP => after(4),
        number::RAW | number::IPV4 | number::IPV6 => after(0),
        kind if number::RAW_BSD.contains(&kind) => after(0),
        number::PPP | number::PPP_HDLC => after(ppp(bytes, 0)?),
        number::IEEE802_15_4 => ieee802154::frame(frame, bytes, missing, 0),
        number::IEEE802_15_4_WITH_FCS => ieee802154::frame(frame, bytes, missing, 2),
        number::IEEE802_15_4_TAP => {
            let (length, fcs) = ieee802154::tap(bytes)?;
            let rest = bytes.get(length..).ok_or(Other::Malformed)?;
            ieee802154::frame(frame, rest, missing, fcs)
        }
        number::EXPORTED_PDU => Ok(Link {
            packet: Packet::Exported(bytes),
            ..after(0)?
        }),
        other => Err(Other::LinkType(other)),
    }
}

/// The direction of a "cooked" Linux packet.
fn cooked_direction(kind: u16) -> Option<Direction> {
    match kind {
        0..=2 => Some(Direction::Inbound),
        4 => Some(Direction::Outbound),
        _ => None,
    }
}

fn is_ip(kind: u16) -> Result<(), Other> {
    match kind {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Ok(()),
        // MPLS (RFC 3032) and MACsec.
        0x8847 | 0x8848 => Err(Other::Tunnel("MPLS")),
        0x88e5 => Err(Other::Tunnel("MACsec")),
        _ => Err(Other::NotIp),
    }
}

/// Length of an Ethernet header with its tags.
pub(super) fn ethernet(bytes: &[u8]) -> Result<usize, Other> {
    after_ethertype(bytes, 12)
}

/// Length of a header whose EtherType, or first VLAN tag, is at `at`.
fn after_ethertype(bytes: &[u8], mut at: usize) -> Result<usize, Other> {
    for _ in 0..=VLAN_TAGS_MAX {
        let kind = short(bytes, at)?;
        if kind == ETHERTYPE_PPPOE_SESSION {
            // RFC 2516 section 4.
            return ppp(bytes, at + 8);
        }
        if !ETHERTYPES_VLAN.contains(&kind) {
            return is_ip(kind).map(|()| at + 2);
        }
        at += 4;
    }
    Err(Other::Malformed)
}

/// Length of a header that ends with a PPP header at `at`, with or without the address and control fields of
/// RFC 1662 and with a protocol of one or two bytes.
fn ppp(bytes: &[u8], mut at: usize) -> Result<usize, Other> {
    if short(bytes, at)? == 0xff03 {
        at += 2;
    }
    let first = *bytes.get(at).ok_or(Other::Malformed)?;
    let (protocol, length) = if first & 1 == 1 {
        (u16::from(first), 1)
    } else {
        (short(bytes, at)?, 2)
    };
    match protocol {
        PPP_IPV4 | PPP_IPV6 => Ok(at + length),
        _ => Err(Other::NotIp),
    }
}
