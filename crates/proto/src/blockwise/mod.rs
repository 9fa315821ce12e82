//! Bodies larger than a message: block-wise transfer (RFC 7959), both directions, both roles.
//!
//! - `download`: a client reassembles a response body from Block2 responses;
//! - `upload`: a client splits a request body into Block1 requests;
//! - `reassembly`: a server reassembles a request body;
//! - `response_cache`: a server stores the response body that a peer is reading.
//!
//! These modules hold state only: they neither build nor send messages. The
//! [endpoint](crate::endpoint) does that, and its controller limits the blocks in flight.

pub(crate) mod any_order;
pub(crate) mod block_sender;
pub(crate) mod block_set;
pub(crate) mod download;
pub(crate) mod q_block1;
pub(crate) mod reassembly;
pub(crate) mod response_cache;
pub(crate) mod upload;

pub use download::DownloadError;

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash, Hasher};
use core::net::SocketAddr;

use crate::cache_key::CacheKey;
use crate::codec::{BlockSize, MessageView};
use crate::tables::bounded_map::MapKey;
use crate::tables::keyed_hash::KeyedState;

/// The block of a response body that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedBlock {
    /// The offset of the block in bytes.
    pub offset: u64,
    /// The block size of the response: the smaller of the requested and the configured size.
    pub size: BlockSize,
    /// Body bytes that one message may carry if more follow: one block, or several with BERT.
    pub span: usize,
    /// The largest body sent in one message, in bytes. It exceeds `span` only if no block was
    /// requested and messages may be long.
    pub whole: usize,
}

impl RequestedBlock {
    /// Creates the part of one block of `size`.
    pub(crate) const fn block(offset: u64, size: BlockSize) -> Self {
        Self {
            offset,
            size,
            span: size.bytes(),
            whole: size.bytes(),
        }
    }

    /// Returns whether a body of `length` bytes fits into one message.
    pub(crate) const fn holds(&self, length: usize) -> bool {
        self.offset == 0 && length <= self.whole
    }

    /// Returns how many bytes from [`offset`](Self::offset) on of a body of `length` one message
    /// carries.
    pub fn take(&self, length: u64) -> u64 {
        let rest = length.saturating_sub(self.offset);
        let whole = usize::try_from(length).is_ok_and(|length| self.holds(length));
        if whole {
            rest
        } else {
            rest.min(self.span as u64)
        }
    }

    /// Returns the range of `whole` to send, and whether more follows. `None` beyond the end.
    pub fn slice(&self, whole: usize) -> Option<(core::ops::Range<usize>, bool)> {
        let start = usize::try_from(self.offset).ok()?;
        if start > whole || (start == whole && start > 0) {
            return None;
        }
        if self.holds(whole) {
            return Some((0..whole, false));
        }
        let end = whole.min(start.saturating_add(self.span));
        debug_assert!(start <= end && self.span > 0, "{start} to {end}");
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

impl MapKey for Key {
    fn keyed_hash(&self, state: &KeyedState) -> u64 {
        let mut hasher = state.build_hasher();
        self.peer.hash(&mut hasher);
        hasher.write(&self.bytes);
        hasher.finish()
    }
}

impl Key {
    pub(crate) fn of(peer: SocketAddr, request: &MessageView<'_>) -> Self {
        let bytes = CacheKey::of_transfer(request);
        Self { peer, bytes }
    }

    /// Creates a key from a peer and the [`CacheKey`] of its request.
    pub(crate) fn from_parts(peer: SocketAddr, bytes: &[u8]) -> Self {
        let bytes = Vec::from(bytes);
        Self { peer, bytes }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Bytes this key occupies, for the limits of the tables.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_ends_with_the_body() {
        let wanted = |offset| RequestedBlock::block(offset, BlockSize::MIN);
        assert_eq!(wanted(0).slice(0), Some((0..0, false)));
        assert_eq!(wanted(0).slice(16), Some((0..16, false)));
        assert_eq!(wanted(0).slice(17), Some((0..16, true)));
        assert_eq!(wanted(16).slice(17), Some((16..17, false)));
        assert_eq!(wanted(16).slice(16), None, "a block beyond the end");
        let wanted = |offset| RequestedBlock {
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
