//! Bodies larger than a message: block-wise transfer (RFC 7959), both directions, both roles.
//!
//! - [`download`]: a client puts a response body together from Block2 responses;
//! - [`upload`]: a client cuts a request body into Block1 requests;
//! - [`assembly`]: a server puts a request body together;
//! - [`bodies`]: a server keeps the response body that a peer is reading.
//!
//! These are plain state: no message is built or sent here. The [endpoint](crate::endpoint)
//! does that, and its controller says how many blocks may be in flight.

pub mod assembly;
pub mod bodies;
pub mod download;
pub mod upload;

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash, Hasher};
use core::net::SocketAddr;

use crate::codec::{BlockSize, CacheKey, MessageView};
use crate::keyed_hash::KeyedState;

/// The part of a response body a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// The block size to answer with: the smaller of what was asked for and our own.
    pub size: BlockSize,
    /// Bytes of the body that one message may carry if more follow: a block's, or with BERT those
    /// of several.
    pub span: usize,
    /// A body of up to this many bytes goes in one message. Larger than `span` only where no
    /// block was asked for and messages may be long.
    pub whole: usize,
}

impl Wanted {
    /// One block of `size`.
    pub const fn block(offset: u64, size: BlockSize) -> Self {
        Self {
            offset,
            size,
            span: size.bytes(),
            whole: size.bytes(),
        }
    }

    /// Whether a body of `length` bytes goes in one message.
    pub const fn holds(&self, length: usize) -> bool {
        self.offset == 0 && length <= self.whole
    }

    /// How many bytes of a body of `length`, from [`offset`](Self::offset) on, one message takes.
    pub fn take(&self, length: u64) -> u64 {
        let rest = length.saturating_sub(self.offset);
        let whole = usize::try_from(length).is_ok_and(|length| self.holds(length));
        if whole {
            rest
        } else {
            rest.min(self.span as u64)
        }
    }

    /// The slice of `whole` that answers, and whether more follows; nothing beyond its end.
    pub fn slice(&self, whole: usize) -> Option<(core::ops::Range<usize>, bool)> {
        let start = usize::try_from(self.offset).ok()?;
        if start > whole || (start == whole && start > 0) {
            return None;
        }
        if self.holds(whole) {
            return Some((0..whole, false));
        }
        let end = whole.min(start.saturating_add(self.span));
        Some((start..end, end < whole))
    }
}

/// The key of a block-wise transfer: the peer, and the [Cache-Key](CacheKey::Transfer) of its requests
/// (RFC 7959 2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    peer: SocketAddr,
    bytes: Vec<u8>,
}

impl Key {
    pub(crate) fn of(peer: SocketAddr, request: &MessageView<'_>) -> Self {
        let bytes = CacheKey::of_transfer(request);
        Self { peer, bytes }
    }

    /// A key from its parts: a peer, and the [`CacheKey`] of its request.
    pub(crate) fn from_parts(peer: SocketAddr, bytes: &[u8]) -> Self {
        let bytes = Vec::from(bytes);
        Self { peer, bytes }
    }

    pub(crate) fn hash(&self, state: &KeyedState) -> u64 {
        let mut hasher = state.build_hasher();
        self.peer.hash(&mut hasher);
        hasher.write(&self.bytes);
        hasher.finish()
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Bytes this key occupies, for the tables' limits.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_where_the_body_does() {
        let wanted = |offset| Wanted::block(offset, BlockSize::MIN);
        assert_eq!(wanted(0).slice(0), Some((0..0, false)));
        assert_eq!(wanted(0).slice(16), Some((0..16, false)));
        assert_eq!(wanted(0).slice(17), Some((0..16, true)));
        assert_eq!(wanted(16).slice(17), Some((16..17, false)));
        assert_eq!(wanted(16).slice(16), None, "a block beyond the end");
        let wanted = |offset| Wanted {
            offset,
            size: BlockSize::BERT,
            span: 2_048,
            whole: 2_100,
        };
        assert_eq!(wanted(0).slice(2_100), Some((0..2_100, false)));
        assert_eq!(wanted(0).slice(2_101), Some((0..2_048, true)));
        assert_eq!(wanted(2_048).slice(2_101), Some((2_048..2_101, false)));
    }
}
