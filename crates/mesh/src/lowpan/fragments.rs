//! Fragmentation of packets into frames (RFC 4944 5.3).

use super::super::spec::LowpanSpec;
use super::headers::Header;
use super::{FCS_BYTES, LowpanError};

/// Header of a first fragment, in bytes.
const FIRST: u16 = 4;
/// Header of subsequent fragments, in bytes.
const FURTHER: u16 = 5;

/// A frame of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The PSDU in bytes, FCS included.
    pub bytes: u16,
    /// Offset in the uncompressed datagram, in bytes.
    pub offset: u16,
    /// Bytes of the uncompressed datagram that it represents.
    pub carries: u16,
}

/// The frames of a packet at one hop, in order.
#[derive(Clone, Debug)]
pub struct Frames {
    /// MAC header and FCS, in bytes.
    around: u16,
    /// Headers of the next frame before its payload, fragment header included, in bytes.
    front: u16,
    /// Bytes of the uncompressed datagram that these headers represent.
    stands_for: u16,
    /// Maximum payload of the next frame, unless it is the last.
    room: u16,
    /// Maximum payload of the frames after it.
    room_after: u16,
    offset: u16,
    left: u16,
    datagram: u16,
    is_done: bool,
}

/// The frames of a packet with these headers at this hop. `payload` is UDP's payload, or an ICMPv6
/// message with its header, in bytes.
pub fn frames(spec: &LowpanSpec, header: &Header, payload: u16) -> Result<Frames, LowpanError> {
    let behind = header.inline_bytes().saturating_add(payload);
    let datagram = header.uncompressed_bytes().saturating_add(behind);
    if datagram > spec.datagram_max {
        let inline = u32::from(header.inline_bytes()) + u32::from(payload);
        return Err(LowpanError::TooLarge {
            bytes: u32::from(header.uncompressed_bytes()) + inline,
            most: spec.datagram_max,
        });
    }
    let most = spec.mac_bytes_max.saturating_sub(header.mac_bytes());
    let compressed = header.compressed_bytes();
    let is_whole = u32::from(compressed) + u32::from(behind) <= u32::from(most);
    // The offset of a fragment counts units of eight bytes (RFC 4944 5.3).
    let eights = |front: u16| most.saturating_sub(front) / 8 * 8;
    let front = if is_whole {
        compressed
    } else {
        FIRST + compressed
    };
    Ok(Frames {
        around: header.mac_bytes() + FCS_BYTES,
        front,
        stands_for: header.uncompressed_bytes(),
        room: if is_whole { behind } else { eights(front) },
        // At least eight, so that the loop ends; no frame of the standard is so short.
        room_after: eights(FURTHER).max(8),
        offset: 0,
        left: behind,
        datagram,
        is_done: false,
    })
}

impl Frames {
    /// Returns whether the packet is one frame.
    pub fn is_whole(&self) -> bool {
        self.room >= self.left
    }

    /// Size of the datagram before compression, in bytes, as in fragment headers.
    pub fn datagram_bytes(&self) -> u16 {
        self.datagram
    }
}

impl Iterator for Frames {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if self.is_done {
            return None;
        }
        let payload = self.left.min(self.room);
        let frame = Frame {
            bytes: self.around + self.front + payload,
            offset: self.offset,
            carries: self.stands_for + payload,
        };
        self.left -= payload;
        self.offset += frame.carries;
        self.is_done = self.left == 0;
        (self.front, self.stands_for, self.room) = (FURTHER, 0, self.room_after);
        Some(frame)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.is_done {
            return (0, Some(0));
        }
        let after = self.left.saturating_sub(self.room);
        let frames = 1 + usize::from(after.div_ceil(self.room_after));
        (frames, Some(frames))
    }
}

impl ExactSizeIterator for Frames {}

#[cfg(test)]
mod tests {
    use super::super::HopPosition::{self, First, Last, Middle, Only};
    use super::super::{MAC_BYTES_LEAST, MAC_BYTES_MOST, Protocol};
    use super::*;

    fn data(hop: HopPosition) -> Header {
        Header::mesh(hop, Protocol::Udp, true)
    }

    /// Contiki 2.7, and 3.0 with the same buffer.
    fn versions() -> [LowpanSpec; 2] {
        [102, 125].map(|mac_bytes_max| LowpanSpec {
            mac_bytes_max,
            datagram_max: 240,
            ..LowpanSpec::default()
        })
    }

    fn sizes(spec: &LowpanSpec, header: &Header, payload: u16) -> Vec<u16> {
        let frames = frames(spec, header, payload).expect("a packet");
        let count = frames.len();
        let sizes: Vec<u16> = frames.map(|frame| frame.bytes).collect();
        assert_eq!(sizes.len(), count);
        sizes
    }

    #[test]
    fn messages_fit_one_frame_up_to_contikis_thresholds() {
        let most = |spec, hop| {
            let fits = |payload: &u16| sizes(spec, &data(hop), *payload).len() == 1;
            (0..150).take_while(fits).last()
        };
        let [old, new] = &versions();
        assert_eq!(most(old, Middle), Some(44));
        assert_eq!(most(old, First), Some(53));
        assert_eq!(most(old, Last), Some(52));
        assert_eq!(most(old, Only), Some(61));
        assert_eq!(most(new, Middle), Some(67));
        assert_eq!(most(new, First), Some(76));
    }

    #[test]
    fn cocoa_plus_study_messages_have_hand_computed_sizes() {
        let [old, _] = &versions();
        // 96 bytes of IPv6 with the option: 40 of CoAP, PSDU 91 to 100.
        assert_eq!(sizes(old, &data(First), 40), [91]);
        assert_eq!(sizes(old, &data(Middle), 40), [100]);
        assert_eq!(sizes(old, &data(Last), 40), [92]);
        // 48 of CoAP fit the first hop and not the second: of 64 bytes behind the IPv6 header 56 and 8.
        assert_eq!(sizes(old, &data(First), 48), [99]);
        assert_eq!(
            sizes(old, &data(Middle), 48),
            [23 + 4 + 21 + 56, 23 + 5 + 8]
        );
    }

    #[test]
    fn fragments_carry_56_then_72_in_2_7() {
        let [old, _] = &versions();
        // Behind the IPv6 header 8 + 8 + 150.
        let frames: Vec<Frame> = frames(old, &data(Middle), 150).expect("a packet").collect();
        let carried: Vec<_> = frames
            .iter()
            .map(|frame| (frame.offset, frame.carries))
            .collect();
        assert_eq!(carried, [(0, 40 + 56), (96, 72), (168, 38)]);
        let sizes: Vec<_> = frames.iter().map(|frame| frame.bytes).collect();
        assert_eq!(sizes, [23 + 4 + 21 + 56, 23 + 5 + 72, 23 + 5 + 38]);
    }

    #[test]
    fn compressed_udp_counts_as_carried() {
        let [old, _] = &versions();
        // 4 + (2 + 1 + 8 + 7) leave 59 of 81 bytes.
        let header = Header::mesh(First, Protocol::Udp, false);
        let frames: Vec<Frame> = frames(old, &header, 100).expect("a packet").collect();
        assert_eq!(frames[0].carries, 48 + 56);
        assert_eq!(frames[1].offset, 104);
        assert_eq!(frames[1].carries, 44);
    }

    #[test]
    fn datagrams_end_at_the_nodes_buffer() {
        // A Z1: 140 bytes, of which 84 are CoAP.
        let spec = LowpanSpec::default();
        let fit = frames(&spec, &data(First), 84).expect("a packet");
        assert_eq!(fit.datagram_bytes(), 140);
        let error = frames(&spec, &data(First), 85).expect_err("too large");
        assert_eq!(
            error,
            LowpanError::TooLarge {
                bytes: 141,
                most: 140
            }
        );
        let endless = data(First).routed_by_source(u16::MAX);
        assert!(frames(&spec, &endless, u16::MAX).is_err());
    }

    #[test]
    fn fragment_payloads_are_multiples_of_eight() {
        let headers = [
            data(Middle),
            Header::mesh(Only, Protocol::Udp, false),
            Header::from_outside(false, true).routed_by_source(20),
            Header::to_outside(false, true),
            Header::to_all(),
        ];
        for mac_bytes_max in MAC_BYTES_LEAST..=MAC_BYTES_MOST {
            let spec = LowpanSpec {
                mac_bytes_max,
                datagram_max: 1_280,
                ..LowpanSpec::default()
            };
            for header in &headers {
                for payload in [0, 1, 40, 41, 67, 68, 500, 1_000] {
                    let frames = frames(&spec, header, payload).expect("a packet");
                    let datagram = frames.datagram_bytes();
                    let all: Vec<Frame> = frames.collect();
                    let mut next = 0;
                    for (index, frame) in all.iter().enumerate() {
                        assert!(frame.bytes <= mac_bytes_max + FCS_BYTES);
                        assert_eq!((frame.offset, frame.offset % 8), (next, 0));
                        assert!(frame.carries > 0);
                        assert!(index + 1 == all.len() || frame.carries % 8 == 0);
                        next += frame.carries;
                    }
                    assert_eq!(next, datagram, "{header:?}, {payload}");
                }
            }
        }
    }
}
