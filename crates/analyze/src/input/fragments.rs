//! Reassembly of fragments of IPv4 (RFC 791), IPv6 (RFC 8200 section 4.5) and 6LoWPAN (RFC 4944 section 5.3).

use std::collections::{BTreeMap, VecDeque};

use crate::limits::{FRAGMENTED_MAX, FRAGMENTED_PIECES_MAX};

/// Time for which fragments wait for the others (RFC 8200 section 4.5), in microseconds.
const WAIT_US: u64 = 60_000_000;
/// Bytes of the longest packet.
const PACKET_BYTES: usize = 65_535 + 40;

/// Ends, number and protocol of a fragmented packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FragmentKey {
    pub(super) ends: [u128; 2],
    pub(super) id: u32,
    pub(super) protocol: u8,
    /// Version of IP; 0 for 6LoWPAN.
    pub(super) version: u8,
}

/// A fragment of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    pub(super) key: FragmentKey,
    /// Header of the whole packet, without its length.
    pub(super) header: &'a [u8],
    pub(super) offset: usize,
    /// Bytes of all fragments; `None` if the fragment lacks it.
    pub(super) total: Option<usize>,
    pub(super) bytes: &'a [u8],
    /// Bytes at its end that the capture has not.
    pub(super) missing: usize,
}

/// Result of adding a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The whole packet, and the bytes at its end that the capture has not.
    Whole(Vec<u8>, usize),
    /// Others are still to come, or came before.
    Part,
}

/// Fragments of a packet.
#[derive(Debug, Default)]
struct Parts {
    began_us: u64,
    /// Bytes, and the length on the wire, by offset.
    pieces: BTreeMap<usize, (Vec<u8>, usize)>,
    total: Option<usize>,
    /// True once the packet was whole: further fragments are repeated ones.
    is_done: bool,
    number: u64,
}

/// Packets of which fragments were captured.
#[derive(Debug, Default)]
pub(crate) struct Reassembler {
    open: BTreeMap<FragmentKey, Parts>,
    /// Keys in the order of their first fragment, with a number that detects a reused key.
    order: VecDeque<(u64, FragmentKey)>,
    number: u64,
    /// Fragments of packets that were not whole.
    pub(crate) incomplete: u64,
}

impl Parts {
    /// Joins the pieces, if they leave no gap.
    fn join(&self, header: &[u8]) -> Option<(Vec<u8>, usize)> {
        let total = self.total?;
        let mut next = 0;
        for (offset, (_, wire)) in &self.pieces {
            if *offset > next {
                return None;
            }
            next = next.max(offset + wire);
        }
        if next < total {
            return None;
        }
        let mut packet = header.to_vec();
        let mut known = 0;
        for (offset, (bytes, wire)) in &self.pieces {
            if *offset > known {
                break;
            }
            if let Some(rest) = bytes.get(known - offset..) {
                packet.extend(rest);
                known += rest.len();
            }
            // What follows bytes that the capture has not is not read.
            if bytes.len() < *wire && known < offset + wire {
                break;
            }
        }
        packet.truncate(header.len() + total);
        let missing = total.saturating_sub(known);
        Some((packet, missing))
    }
}

impl Reassembler {
    pub(super) fn add(&mut self, at: u64, fragment: &Fragment<'_>) -> Added {
        self.expire(at);
        let wire = fragment.bytes.len() + fragment.missing;
        if fragment.offset + wire > PACKET_BYTES {
            self.incomplete += 1;
            return Added::Part;
        }
        let number = self.number + 1;
        let parts = self.open.entry(fragment.key).or_insert_with(|| Parts {
            began_us: at,
            number,
            ..Parts::default()
        });
        if parts.number == number {
            self.number = number;
            self.order.push_back((number, fragment.key));
        }
        if parts.is_done {
            return Added::Part;
        }
        if parts.pieces.len() >= FRAGMENTED_PIECES_MAX {
            self.incomplete += 1;
            return Added::Part;
        }
        let piece = (fragment.bytes.to_vec(), wire);
        parts.pieces.entry(fragment.offset).or_insert(piece);
        parts.total = parts.total.or(fragment.total);
        let added = match parts.join(fragment.header) {
            Some((packet, missing)) => {
                parts.is_done = true;
                parts.pieces.clear();
                Added::Whole(packet, missing)
            }
            None => Added::Part,
        };
        while self.open.len() > FRAGMENTED_MAX {
            self.remove_oldest();
        }
        added
    }

    fn expire(&mut self, at: u64) {
        while let Some((number, key)) = self.order.front() {
            let parts = self.open.get(key).filter(|parts| parts.number == *number);
            if parts.is_some_and(|parts| at.abs_diff(parts.began_us) < WAIT_US) {
                return;
            }
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_front()
            && let Some(parts) = self.open.remove(&key)
        {
            self.incomplete += parts.pieces.len() as u64;
        }
    }

    /// Counts the fragments that are left at the end of a file.
    pub(crate) fn finish(&mut self) {
        while !self.order.is_empty() {
            self.remove_oldest();
        }
    }

    /// Packets whose fragments are kept, and their fragments.
    #[cfg(test)]
    fn sizes(&self) -> [usize; 3] {
        let pieces = self.open.values().map(|parts| parts.pieces.len());
        [self.open.len(), self.order.len(), pieces.sum()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(id: u32, offset: usize, total: Option<usize>, bytes: &[u8]) -> Fragment<'_> {
        Fragment {
            key: FragmentKey {
                ends: [1, 2],
                id,
                protocol: 17,
                version: 4,
            },
            header: b"head",
            offset,
            total,
            bytes,
            missing: 0,
        }
    }

    #[test]
    fn fragments_in_any_order_are_joined_once() {
        let parts = [
            (0, None, "abcdefgh"),
            (8, None, "ijklmnop"),
            (16, Some(18), "qr"),
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let mut reassembler = Reassembler::default();
            let mut whole = Vec::new();
            // Each fragment is seen twice.
            for place in order.into_iter().chain(order) {
                let (offset, total, text) = parts[place];
                let piece = fragment(1, offset, total, text.as_bytes());
                if let Added::Whole(packet, 0) = reassembler.add(0, &piece) {
                    whole.push(String::from_utf8(packet).expect("text"));
                }
            }
            assert_eq!(whole, ["headabcdefghijklmnopqr"], "{order:?}");
            reassembler.finish();
            assert_eq!(reassembler.incomplete, 0);
        }
    }

    #[test]
    fn truncated_fragment_ends_the_known_part() {
        let mut reassembler = Reassembler::default();
        let cut = Fragment {
            missing: 4,
            ..fragment(1, 0, None, b"abcd")
        };
        assert_eq!(reassembler.add(0, &cut), Added::Part);
        let last = fragment(1, 8, Some(10), b"ij");
        let Added::Whole(packet, missing) = reassembler.add(0, &last) else {
            panic!("not whole");
        };
        assert_eq!((&packet[..], missing), (&b"headabcd"[..], 6));
    }

    #[test]
    fn fragments_of_incomplete_packets_are_counted_and_bounded() {
        let mut reassembler = Reassembler::default();
        for id in 0..1_000 {
            reassembler.add(0, &fragment(id, 0, None, b"abcdefgh"));
        }
        for offset in 1..2_000 {
            reassembler.add(0, &fragment(999, offset * 8, None, b"abcdefgh"));
        }
        let [open, order, pieces] = reassembler.sizes();
        assert!(open <= FRAGMENTED_MAX && order <= FRAGMENTED_MAX);
        assert!(pieces <= FRAGMENTED_MAX + FRAGMENTED_PIECES_MAX);
        // Later the number belongs to another packet.
        assert_eq!(
            reassembler.add(WAIT_US, &fragment(999, 0, Some(4), b"wxyz")),
            Added::Whole(b"headwxyz".to_vec(), 0)
        );
        reassembler.finish();
        assert_eq!(reassembler.incomplete, 1_000 + 1_999);
    }
}
