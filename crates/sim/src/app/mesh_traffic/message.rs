//! Payloads of nodes' messages: origin, number and time, for the sink's counters.

use carob_cc::time::Instant;

use crate::mesh::Node;
use crate::spec::mesh_traffic::HEADER_BYTES;

/// The traffic that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrafficClass {
    /// Constant traffic.
    Constant,
    /// A burst.
    Burst,
}

/// A message of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AppMessage {
    pub(super) by: Node,
    /// Its number among its node's messages that were not dropped at once.
    pub(super) number: u32,
    pub(super) at: Instant,
    pub(super) about: TrafficClass,
}

impl AppMessage {
    /// Writes the message to the front of a payload.
    pub(super) fn write(&self, payload: &mut [u8]) {
        let Some(header) = payload.first_chunk_mut::<{ HEADER_BYTES as usize }>() else {
            return;
        };
        header[..2].copy_from_slice(&self.by.to_be_bytes());
        header[2..6].copy_from_slice(&self.number.to_be_bytes());
        header[6..14].copy_from_slice(&self.at.as_micros().to_be_bytes());
        header[14] = match self.about {
            TrafficClass::Constant => 1,
            TrafficClass::Burst => 2,
        };
    }

    /// Reads the message from a payload; none if there is none.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let header = payload.first_chunk::<{ HEADER_BYTES as usize }>()?;
        let [a, b, n0, n1, n2, n3, at @ .., about] = *header;
        Some(Self {
            by: Node::from_be_bytes([a, b]),
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            at: Instant::from_micros(u64::from_be_bytes(at)),
            about: match about {
                1 => TrafficClass::Constant,
                2 => TrafficClass::Burst,
                _ => return None,
            },
        })
    }
}

/// The received message numbers of a node: the highest, and a window below it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceivedNumbers {
    next: u32,
    /// Bit `k`: number `next - 1 - k` was received.
    below: u128,
}

impl ReceivedNumbers {
    /// Records a number. Returns whether it is new; numbers below the window count as old.
    pub(super) fn is_new(&mut self, number: u32) -> bool {
        if number >= self.next {
            // A gap of 128 or more leaves no earlier number in the window.
            let gap = number - self.next + 1;
            self.below = self.below.checked_shl(gap).unwrap_or(0) | 1;
            self.next = number + 1;
            return true;
        }
        let back = self.next - 1 - number;
        let Some(bit) = 1_u128.checked_shl(back) else {
            return false;
        };
        let is_new = self.below & bit == 0;
        self.below |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_identifies_its_sender() {
        let made = AppMessage {
            by: 300,
            number: 70_000,
            at: Instant::from_micros(1 << 40),
            about: TrafficClass::Burst,
        };
        let mut payload = [0; 20];
        made.write(&mut payload);
        assert_eq!(AppMessage::read(&payload), Some(made));
        assert_eq!(AppMessage::read(&payload[..10]), None);
        assert_eq!(AppMessage::read(&[0; 20]), None);
    }

    #[test]
    fn message_numbers_are_new_once() {
        let mut got = ReceivedNumbers::default();
        assert!(got.is_new(0) && got.is_new(5) && got.is_new(3));
        assert!(!got.is_new(0) && !got.is_new(5) && !got.is_new(3));
        assert!(got.is_new(4) && got.is_new(1));
        assert!(got.is_new(1_000));
        assert!(!got.is_new(5), "beyond reach");
        assert!(got.is_new(999));
    }
}
