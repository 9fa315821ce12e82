//! Self-describing message bodies: origin, and a check for completeness.

use bytes::Bytes;

use carob_sim::hash::mix;

/// The state of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    pub(super) server: u32,
    pub(super) resource: u32,
    /// Restarts of its server so far.
    pub(super) epoch: u32,
    pub(super) version: u32,
}

const HEAD: usize = 20;

fn fill(bytes: &mut Vec<u8>, key: u64, length: usize) {
    while bytes.len() < length {
        let place = bytes.len() as u64;
        let word = mix(key ^ place).to_le_bytes();
        let room = (length - bytes.len()).min(8);
        bytes.extend_from_slice(&word[..room]);
    }
}

/// The body of a request: its number, its length, and bytes derived from both.
pub(super) fn numbered(number: u64, length: usize) -> Bytes {
    let length = length.max(12);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    fill(&mut bytes, number, length);
    bytes.into()
}

/// The number in a request's body, if the body is complete.
pub(super) fn number_of(body: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(*body.first_chunk()?);
    (body == numbered(number, body.len())).then_some(number)
}

impl State {
    fn key(self) -> u64 {
        let one = u64::from(self.server) << 32 | u64::from(self.resource);
        mix(one) ^ (u64::from(self.epoch) << 32 | u64::from(self.version))
    }

    /// A representation of at least this many bytes.
    pub(super) fn body(self, length: usize) -> Bytes {
        let length = length.max(HEAD);
        let mut bytes = Vec::with_capacity(length);
        for field in [self.server, self.resource, self.epoch, self.version] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
        fill(&mut bytes, self.key(), length);
        bytes.into()
    }

    /// The state of a representation, if it is complete and of one state.
    pub(super) fn of(body: &[u8]) -> Option<Self> {
        let field = |n: usize| body.get(4 * n..4 * n + 4)?.first_chunk().copied();
        let [server, resource, epoch, version] =
            [field(0)?, field(1)?, field(2)?, field(3)?].map(u32::from_le_bytes);
        let state = Self {
            server,
            resource,
            epoch,
            version,
        };
        (body.len() >= HEAD && body == state.body(body.len())).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inconsistent_or_truncated_body_is_invalid() {
        let one = State {
            server: 1,
            resource: 2,
            epoch: 3,
            version: 4,
        };
        let (old, new) = (one.body(3_000), State { version: 5, ..one }.body(3_000));
        assert_eq!(State::of(&old), Some(one));
        let torn = [&old[..1_024], &new[1_024..]].concat();
        assert_eq!(State::of(&torn), None);
        assert_eq!(State::of(&old[..2_048]), None);
        let body = numbered(7, 100);
        assert_eq!((number_of(&body), number_of(&body[..64])), (Some(7), None));
    }
}
