//! What nodes' messages say: who made them when, so that a sink knows what it got.

use carob_cc::time::Instant;

use super::Node;

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Constant traffic.
    Constant,
    /// A burst.
    Burst,
}

/// A message that an application has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) by: Node,
    /// Of those of its node that were not dropped at once, which.
    pub(super) number: u32,
    pub(super) at: Instant,
    pub(super) about: About,
}

/// Bytes of a payload that says so.
pub(super) const SAID_BYTES: u16 = 15;

impl Made {
    /// Writes it to the front of a payload.
    pub(super) fn write(&self, payload: &mut [u8]) {
        let Some(said) = payload.first_chunk_mut::<{ SAID_BYTES as usize }>() else {
            return;
        };
        said[..2].copy_from_slice(&self.by.to_be_bytes());
        said[2..6].copy_from_slice(&self.number.to_be_bytes());
        said[6..14].copy_from_slice(&self.at.as_micros().to_be_bytes());
        said[14] = match self.about {
            About::Constant => 1,
            About::Burst => 2,
        };
    }

    /// What a payload says; nothing if it is no message's.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let said = payload.first_chunk::<{ SAID_BYTES as usize }>()?;
        let [a, b, n0, n1, n2, n3, at @ .., about] = *said;
        Some(Self {
            by: Node::from_be_bytes([a, b]),
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            at: Instant::from_micros(u64::from_be_bytes(at)),
            about: match about {
                1 => About::Constant,
                2 => About::Burst,
                _ => return None,
            },
        })
    }
}

/// Which of a node's messages were got: the highest number, and those below it within reach.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Got {
    next: u32,
    /// Bit `k`: number `next - 1 - k` was got.
    below: u128,
}

impl Got {
    /// Notes a number; whether it is new. Those too far back pass for old.
    pub(super) fn is_new(&mut self, number: u32) -> bool {
        if number >= self.next {
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
    fn a_payload_says_who_made_it() {
        let made = Made {
            by: 300,
            number: 70_000,
            at: Instant::from_micros(1 << 40),
            about: About::Burst,
        };
        let mut payload = [0; 20];
        made.write(&mut payload);
        assert_eq!(Made::read(&payload), Some(made));
        assert_eq!(Made::read(&payload[..10]), None);
        assert_eq!(Made::read(&[0; 20]), None);
    }

    #[test]
    fn numbers_are_new_once_in_any_order() {
        let mut got = Got::default();
        assert!(got.is_new(0) && got.is_new(5) && got.is_new(3));
        assert!(!got.is_new(0) && !got.is_new(5) && !got.is_new(3));
        assert!(got.is_new(4) && got.is_new(1));
        assert!(got.is_new(1_000));
        assert!(!got.is_new(5), "beyond reach");
        assert!(got.is_new(999));
    }
}
