//! Bodies larger than a message: Block1 and Block2 (RFC 7959), Q-Block1 and Q-Block2 (RFC 9177), both roles.
//!
//! | state of | Block1 | Block2 | Q-Block1 | Q-Block2 |
//! |---|---|---|---|---|
//! | a client | `upload` | `download` | `q_upload` | `q_download` |
//! | a server | `reassembly` | `response_cache` | `q_body` | `response_cache` |
//!
//! These modules neither build nor send messages. The modules `client` and `server` do that, as parts of
//! the layers [`Client`](crate::client::Client) and [`Server`](crate::server::Server). The peer's
//! controller limits the blocks in flight.

pub(crate) mod any_order;
pub(crate) mod client;
pub(crate) mod download;
pub(crate) mod q_body;
pub(crate) mod q_download;
pub(crate) mod q_upload;
pub(crate) mod reassembly;
pub(crate) mod response_cache;
mod server;
pub(crate) mod upload;

pub use download::DownloadError;

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash, Hasher};
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Duration;

use crate::cache_key::CacheKey;
use crate::codec::{BlockSize, BlockValue, MessageView, OptionNumber};
use crate::message::Response;
use crate::tables::bounded_map::MapKey;
use crate::tables::keyed_hash::KeyedState;

/// Use of Q-Block1 and Q-Block2 (RFC 9177) in requests of this endpoint, over datagrams.
///
/// RFC 9177 11 recommends against them without a secured transport, and only a peer that supports them
/// understands them: a confirmable request with them is rejected with 4.02 elsewhere, and a NON one
/// may be ignored. The default is therefore [`Off`](Self::Off).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QBlockMode {
    /// Block1 and Block2 (RFC 7959).
    #[default]
    Off,
    /// Q-Block with peers that support it. The first body to a peer is confirmable and discovers the
    /// support (RFC 9177 4.1), which is remembered. Without it: Block1 and Block2.
    Auto,
    /// Q-Block, its support presumed; a request to a peer without it fails.
    On,
}

/// Configuration of Q-Block1 and Q-Block2. The parameters are from RFC 9177 7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QBlockConfig {
    /// True to accept requests with these options. Otherwise they are rejected as unknown critical
    /// options. Default yes, over datagrams; over connections they never are.
    pub accept: bool,
    /// The use in requests of this endpoint. Default [`Off`](QBlockMode::Off).
    pub requests: QBlockMode,
    /// MAX_PAYLOADS, at least 1: blocks of a set. Both endpoints must have the same value. Blocks of
    /// the window's size and one set more may be unreported. Default 10.
    pub max_payloads: u8,
    /// NON_RECEIVE_TIMEOUT: the wait for missing blocks before they are requested; it doubles with each
    /// request that nothing answers. Default 4 s.
    pub receive_timeout: Duration,
    /// NON_MAX_RETRANSMIT: requests for missing blocks without a reaction before the body is
    /// discarded, and repetitions of a body's blocks into silence before the request fails.
    /// Default 4.
    pub max_retransmit: u8,
    /// NON_PARTIAL_TIMEOUT: the lifetime of an incomplete body after its last block. Default 247 s.
    pub partial_timeout: Duration,
}

impl Default for QBlockConfig {
    fn default() -> Self {
        Self {
            accept: true,
            requests: QBlockMode::default(),
            max_payloads: 10,
            receive_timeout: Duration::from_secs(4),
            max_retransmit: 4,
            partial_timeout: Duration::from_secs(247),
        }
    }
}

impl QBlockConfig {
    /// Blocks of a set.
    pub(crate) fn set(&self) -> u32 {
        // Numbers of blocks are divided by it.
        u32::from(self.max_payloads.max(1))
    }
}

/// The block options of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) block1: Option<BlockValue>,
    pub(crate) block2: Option<BlockValue>,
    /// The size of the request's body, in bytes.
    pub(crate) size1: Option<u32>,
    /// The options are Q-Block1 and Q-Block2 (RFC 9177).
    pub(crate) quick: bool,
}

impl Blocks {
    /// The options of a message that requests a block of the response.
    pub(crate) fn of_response(block2: BlockValue) -> Self {
        Self {
            block2: Some(block2),
            ..Self::default()
        }
    }

    /// Returns whether it concerns a block after the first.
    pub(crate) fn is_later(&self) -> bool {
        let later = |block: Option<BlockValue>| block.is_some_and(|block| block.number > 0);
        later(self.block1) || later(self.block2)
    }

    /// The bytes expected in response, if not `named` by the application: once blocks are in flight, the
    /// size of each is known.
    pub(crate) fn expected_bytes(&self, named: u32) -> u32 {
        match (named, self.block2) {
            // 16 bytes more for header, token and options: an estimate.
            (0, Some(block)) => block.szx.bytes() as u32 + 16,
            (named, _) => named,
        }
    }
}

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
        // Only an empty body has a block that begins at its end.
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

/// The outcome of a block of a request body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReassemblyStep {
    /// The block is stored; the server requests the next (2.31).
    Continue,
    /// The body is complete.
    Whole(Bytes),
    /// The next block of a streamed body, beginning at this offset.
    Part(u64),
    /// A block is missing before this one (4.08).
    Incomplete,
    /// The body is larger than the limit (4.13).
    TooLarge { limit: usize },
    /// The table is full (5.03).
    Full,
    /// The block's length contradicts its option (4.00).
    BadLength,
}

/// Removes the options of the transfer, which have no meaning for the application.
pub(crate) fn remove_transfer_options(response: &mut Response) {
    for number in [
        OptionNumber::BLOCK1,
        OptionNumber::BLOCK2,
        OptionNumber::Q_BLOCK1,
        OptionNumber::Q_BLOCK2,
        OptionNumber::SIZE2,
    ] {
        response.options.remove(number);
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
