//! IPv4 packets of segments, for captures: encoder and decoder with checksums.

use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;

use super::segment::{Ecn, Flags, Options, SackBlocks, Segment};

/// Protocol number of TCP (RFC 9293).
const TCP: u8 = 6;
/// Hop limit of encoded packets: Linux's default.
const TTL: u8 = 64;

/// A decoding error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The packet ends before the field of that name.
    Short(&'static str),
    /// The field of that name has an invalid value.
    Bad(&'static str),
    /// The checksum of the header of that name is wrong.
    Checksum(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(place) => write!(f, "the packet ends before its {place}"),
            Self::Bad(place) => write!(f, "bad {place}"),
            Self::Checksum(place) => write!(f, "wrong checksum of the {place} header"),
        }
    }
}

impl core::error::Error for WireError {}

/// Appends the IPv4 packet that carries `segment`; `identification` numbers packets of a sender.
///
/// A payload beyond the size of an IPv4 packet is truncated; the sockets here never send one.
pub fn encode(
    segment: &Segment,
    from: SocketAddrV4,
    to: SocketAddrV4,
    identification: u16,
    out: &mut Vec<u8>,
) {
    let header = 40 + segment.options.wire_bytes() as usize;
    let payload = &segment.payload[..segment.payload.len().min(usize::from(u16::MAX) - header)];
    let total = (header + payload.len()) as u16;
    let ecn = match segment.ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 2,
        Ecn::Experienced => 3,
    };
    let start = out.len();
    // Version 4 and five words of header: there are no IP options.
    out.extend_from_slice(&[0x45, ecn]);
    out.extend_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&identification.to_be_bytes());
    out.extend_from_slice(&[0x40, 0, TTL, TCP, 0, 0]); // do not fragment
    out.extend_from_slice(&from.ip().octets());
    out.extend_from_slice(&to.ip().octets());
    let sum = checksum(0, &out[start..]);
    out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());

    let tcp = out.len();
    out.extend_from_slice(&from.port().to_be_bytes());
    out.extend_from_slice(&to.port().to_be_bytes());
    out.extend_from_slice(&segment.seq.to_be_bytes());
    out.extend_from_slice(&segment.ack.to_be_bytes());
    // At most 15: a receiver reports no more SACK blocks than 40 bytes of options hold.
    let words = ((header - 20) / 4) as u8;
    out.extend_from_slice(&[words << 4, segment.flags.0]);
    out.extend_from_slice(&segment.window.to_be_bytes());
    out.extend_from_slice(&[0; 4]); // checksum, urgent pointer
    encode_options(&segment.options, out);
    out.extend_from_slice(payload);
    let sum = checksum(
        pseudo_header(*from.ip(), *to.ip(), out.len() - tcp),
        &out[tcp..],
    );
    out[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
}

/// Options in the order and padding that Linux uses.
fn encode_options(options: &Options, out: &mut Vec<u8>) {
    if let Some(mss) = options.mss {
        out.extend_from_slice(&[2, 4]);
        out.extend_from_slice(&mss.to_be_bytes());
    }
    // Each option below begins with no-operations (kind 1), so that its 32-bit fields are at word
    // boundaries and the header ends at one (RFC 7323 appendix A).
    if options.sack_permitted {
        out.extend_from_slice(&[1, 1, 4, 2]);
    }
    if let Some((value, echo)) = options.timestamps {
        out.extend_from_slice(&[1, 1, 8, 10]);
        out.extend_from_slice(&value.to_be_bytes());
        out.extend_from_slice(&echo.to_be_bytes());
    }
    if let Some(shift) = options.window_scale {
        out.extend_from_slice(&[1, 3, 3, shift]);
    }
    let blocks = options.sack.as_slice();
    if !blocks.is_empty() {
        out.extend_from_slice(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            out.extend_from_slice(&start.to_be_bytes());
            out.extend_from_slice(&end.to_be_bytes());
        }
    }
}

/// Decodes an IPv4 packet: its addresses and the segment in it.
pub fn decode(packet: &[u8]) -> Result<(SocketAddrV4, SocketAddrV4, Segment), WireError> {
    let &[first, tos, t0, t1, ..] = packet else {
        return Err(WireError::Short("IP header"));
    };
    let (header, total) = (
        usize::from(first & 15) * 4,
        usize::from(u16::from_be_bytes([t0, t1])),
    );
    if first >> 4 != 4 || header < 20 {
        return Err(WireError::Bad("IP version or header length"));
    }
    if packet.len() < total || total < header {
        return Err(WireError::Short("IP payload"));
    }
    let (ip, tcp) = packet[..total].split_at(header);
    // A header summed together with its own checksum gives 0 (RFC 1071 1).
    if checksum(0, ip) != 0 {
        return Err(WireError::Checksum("IP"));
    }
    if ip[9] != TCP {
        return Err(WireError::Bad("protocol"));
    }
    let source = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
    let destination = Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
    if tcp.len() < 20 {
        return Err(WireError::Short("TCP header"));
    }
    let data = usize::from(tcp[12] >> 4) * 4;
    if data < 20 || data > tcp.len() {
        return Err(WireError::Bad("data offset"));
    }
    if checksum(pseudo_header(source, destination, tcp.len()), tcp) != 0 {
        return Err(WireError::Checksum("TCP"));
    }
    let short = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    let long = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    let segment = Segment {
        seq: long(4),
        ack: long(8),
        flags: Flags(tcp[13]),
        window: short(14),
        options: decode_options(&tcp[20..data])?,
        ecn: match tos & 3 {
            0 => Ecn::NotCapable,
            3 => Ecn::Experienced,
            // ECT(0) and ECT(1) mean the same (RFC 3168 5).
            _ => Ecn::Capable,
        },
        payload: Bytes::copy_from_slice(&tcp[data..]),
    };
    let from = SocketAddrV4::new(source, short(0));
    Ok((from, SocketAddrV4::new(destination, short(2)), segment))
}

fn decode_options(mut bytes: &[u8]) -> Result<Options, WireError> {
    let mut options = Options::default();
    loop {
        let (kind, body) = match *bytes {
            [] | [0, ..] => return Ok(options),
            [1, ref rest @ ..] => {
                bytes = rest;
                continue;
            }
            [kind, length, ..] if length >= 2 => {
                let body = bytes.get(2..usize::from(length));
                bytes = bytes.get(usize::from(length)..).unwrap_or_default();
                (kind, body.ok_or(WireError::Short("option"))?)
            }
            _ => return Err(WireError::Bad("option length")),
        };
        match (kind, body) {
            (2, &[a, b]) => options.mss = Some(u16::from_be_bytes([a, b])),
            // A shift above 14 counts as 14 (RFC 7323 2.3).
            (3, &[shift]) => options.window_scale = Some(shift.min(14)),
            (4, []) => options.sack_permitted = true,
            (5, blocks) if blocks.len() % 8 == 0 => options.sack = decode_blocks(blocks),
            // Value and echo are two 32-bit numbers, as the edges of a SACK block are.
            (8, times) if times.len() == 8 => {
                options.timestamps = decode_blocks(times).as_slice().first().copied();
            }
            (2..=5 | 8, _) => return Err(WireError::Bad("option length")),
            _ => {} // unknown options are skipped (RFC 9293 3.1)
        }
    }
}

/// SACK blocks, as many as a segment has room for.
fn decode_blocks(bytes: &[u8]) -> SackBlocks {
    let mut blocks = SackBlocks::default();
    for block in bytes.chunks_exact(8) {
        let edge = |at: usize| {
            u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
        };
        blocks.push(edge(0), edge(4));
    }
    blocks
}

/// The partial checksum over TCP's pseudo-header (RFC 9293 3.1).
fn pseudo_header(from: Ipv4Addr, to: Ipv4Addr, length: usize) -> u32 {
    pseudo_header_of(TCP, from, to, length)
}

/// The same for any protocol above IP.
pub(crate) fn pseudo_header_of(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, length: usize) -> u32 {
    let halves = |address: Ipv4Addr| (address.to_bits() >> 16) + (address.to_bits() & 0xffff);
    halves(from) + halves(to) + u32::from(protocol) + length as u32
}

/// The Internet checksum (RFC 1071) over `bytes`, starting from the partial checksum `sum`.
pub(crate) fn checksum(mut sum: u32, bytes: &[u8]) -> u16 {
    // An IPv4 packet has at most 32,768 words of 16 bits, so the sum stays below 2^32 and carries
    // need to be folded only at the end.
    let mut words = bytes.chunks_exact(2);
    for word in &mut words {
        sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
    }
    // An odd last byte is padded with a zero byte behind it, which is not sent (RFC 9293 3.1).
    if let [last] = words.remainder() {
        sum += u32::from(*last) << 8;
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    fn addresses() -> (SocketAddrV4, SocketAddrV4) {
        (
            SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 5683),
            SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 49_152),
        )
    }

    #[test]
    fn a_syn_has_the_bytes_worked_by_hand() {
        // IP: words 4500 002c 0001 4000 4006 0000 c000 0201 c000 0202 sum to 0x249d0, folded
        // 0x49d2... see the complement below; TCP over the pseudo-header likewise.
        let segment = Segment {
            seq: 0x0102_0304,
            flags: Flags::SYN,
            window: 0xffff,
            options: Options {
                mss: Some(256),
                ..Options::default()
            },
            ..Segment::default()
        };
        let (from, to) = addresses();
        let mut bytes = Vec::new();
        encode(&segment, from, to, 1, &mut bytes);
        let by_hand = [
            0x45, 0x00, 0x00, 0x2c, 0x00, 0x01, 0x40, 0x00, 0x40, 0x06, IP_SUM[0], IP_SUM[1], 192,
            0, 2, 1, 192, 0, 2, 2, //
            0x16, 0x33, 0xc0, 0x00, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0, 0x60, 0x02, 0xff, 0xff,
            TCP_SUM[0], TCP_SUM[1], 0, 0, 2, 4, 1, 0,
        ];
        assert_eq!(bytes, by_hand);
    }

    /// 4500 + 002c + 0001 + 4000 + 4006 + c000 + 0201 + c000 + 0202 = 0x24936, folded 0x4938.
    const IP_SUM: [u8; 2] = (!0x4938_u16).to_be_bytes();
    /// Pseudo-header c000 + 0201 + c000 + 0202 + 0006 + 0018 = 0x18421; 1633 + c000 + 0102 + 0304
    /// + 6002 + ffff + 0204 + 0100 = 0x23d3e; both 0x3c15f, folded 0xc162.
    const TCP_SUM: [u8; 2] = (!0xc162_u16).to_be_bytes();

    #[test]
    fn encoded_segments_are_decoded() {
        let mut stream = Stream::new(1, "wire");
        let (from, to) = addresses();
        for _ in 0..2_000 {
            let draw = stream.next_u64();
            let bit = |at: u32| draw >> at & 1 == 1;
            let mut options = Options {
                mss: bit(0).then_some((draw >> 40) as u16),
                window_scale: bit(1).then_some((draw >> 20 & 7) as u8),
                sack_permitted: bit(2),
                timestamps: bit(3).then_some((draw as u32, (draw >> 9) as u32)),
                ..Options::default()
            };
            // Within the limit of a segment: 40 bytes of options.
            while options.wire_bytes() + 12 <= 40 && bit(4) {
                options.sack.push((draw >> 7) as u32, (draw >> 11) as u32);
            }
            let segment = Segment {
                seq: (draw >> 13) as u32,
                ack: (draw >> 17) as u32,
                flags: Flags((draw >> 24) as u8),
                window: (draw >> 30) as u16,
                options,
                ecn: [Ecn::NotCapable, Ecn::Capable, Ecn::Experienced][(draw >> 50) as usize % 3],
                payload: Bytes::from(vec![draw as u8; (draw >> 52) as usize % 300]),
            };
            let mut bytes = Vec::new();
            encode(&segment, from, to, draw as u16, &mut bytes);
            assert_eq!(bytes.len(), segment.wire_bytes() as usize);
            assert_eq!(decode(&bytes), Ok((from, to, segment)));
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic_and_a_flipped_bit_is_found() {
        let segment = Segment {
            flags: Flags::SYN | Flags::ACK,
            options: Options {
                mss: Some(1_460),
                timestamps: Some((1, 2)),
                ..Options::default()
            },
            payload: Bytes::from_static(b"carob"),
            ..Segment::default()
        };
        let (from, to) = addresses();
        let mut good = Vec::new();
        encode(&segment, from, to, 7, &mut good);
        for cut in 0..good.len() {
            assert!(decode(&good[..cut]).is_err(), "{cut} bytes");
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).is_err(), "bit {bit}");
        }
        let mut stream = Stream::new(2, "noise");
        for length in 0..200 {
            let noise: Vec<u8> = (0..length).map(|_| stream.next_u64() as u8).collect();
            let _ = decode_options(&noise);
            let _ = decode(&noise);
        }
    }
}
