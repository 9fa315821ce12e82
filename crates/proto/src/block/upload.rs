//! The client side of Block1: the next block of the request body, and the queue of bodies to one resource.
//!
//! Blocks are sent one at a time, because a server may require them in order (RFC 7959 2.5). The
//! server may request smaller blocks with any response, and does so with 4.13 before it has
//! accepted a block (RFC 7959 2.9.3).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use hashbrown::HashMap;

use crate::address::PeerIndex;
use crate::cache_key::CacheKey;
use crate::codec::MAX_BLOCK_NUMBER;
use crate::codec::{BlockSize, BlockValue, Options};
use crate::tables::keyed_hash::KeyedState;

/// A request body in transfer.
#[derive(Debug)]
pub(crate) struct Upload {
    size: BlockSize,
    /// Bytes one message carries with BERT.
    span: usize,
    /// Bytes the server has accepted.
    accepted: u64,
    /// Bytes not yet accepted, in order, starting at `accepted`.
    rest: VecDeque<Bytes>,
    held: usize,
    /// No more bytes will be supplied.
    finished: bool,
    /// More bytes were requested since the last were supplied.
    requested: bool,
    /// Size of the whole body, if known; sent as Size1 with the first block.
    total: Option<u64>,
}

impl Upload {
    /// A body that is completely available.
    pub(crate) fn whole(size: BlockSize, body: Bytes) -> Self {
        Self::whole_in_spans(size, size.bytes(), body)
    }

    fn whole_in_spans(size: BlockSize, span: usize, body: Bytes) -> Self {
        let total = Some(body.len() as u64);
        let mut upload = Self {
            span,
            total,
            ..Self::streaming(size)
        };
        upload.supply(body, true);
        upload
    }

    /// The same body from its beginning, in blocks of the size last accepted by the server.
    pub(crate) fn again(&self, body: Bytes) -> Self {
        Self::whole_in_spans(self.size, self.span, body)
    }

    /// Sends `span` bytes at once while blocks are [BERT](BlockSize::BERT), a multiple of 1024.
    pub(crate) fn in_spans(mut self, span: usize) -> Self {
        debug_assert!(span > 0 && span.is_multiple_of(BlockSize::BERT.bytes()));
        self.span = span;
        self
    }

    fn span_of(&self, size: BlockSize) -> usize {
        if size.is_bert() {
            self.span
        } else {
            size.bytes()
        }
    }

    /// A body supplied in chunks.
    pub(crate) fn streaming(size: BlockSize) -> Self {
        Self {
            size,
            span: size.bytes(),
            accepted: 0,
            rest: VecDeque::new(),
            held: 0,
            finished: false,
            requested: false,
            total: None,
        }
    }

    /// Adds to the body; `last` ends it.
    pub(crate) fn supply(&mut self, bytes: Bytes, last: bool) {
        if !bytes.is_empty() {
            self.held += bytes.len();
            self.rest.push_back(bytes);
        }
        self.finished |= last;
        self.requested = false;
        self.check_invariants();
    }

    /// Checks the counts of bytes.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.rest.is_empty() == (self.held == 0));
        let end = self.accepted + self.held as u64;
        debug_assert!(
            self.total.is_none_or(|total| total == end),
            "{end} of {:?}",
            self.total
        );
        debug_assert!(self.span > 0 && self.span.is_multiple_of(16));
    }

    /// Returns whether the next block needs more bytes to be supplied.
    pub(crate) fn is_starved(&self) -> bool {
        // One byte beyond the block decides its "more" flag.
        !self.finished && self.held <= self.span_of(self.size)
    }

    /// Requests more bytes, once until some are supplied. Returns whether the request is new.
    pub(crate) fn request_bytes(&mut self) -> bool {
        !core::mem::replace(&mut self.requested, true)
    }

    /// Returns whether the next block is the first of several.
    pub(crate) fn is_at_start(&self) -> bool {
        self.accepted == 0 && self.held > self.span_of(self.size)
    }

    /// The size of the whole body in bytes, until the first block is accepted.
    pub(crate) fn announce(&self) -> Option<u32> {
        // With the first block a server can refuse a body that is too large before it stores
        // any of it (RFC 7959 4).
        let total = self.total.filter(|_| self.accepted == 0)?;
        // Size1 has four bytes (RFC 7959 4).
        u32::try_from(total).ok()
    }

    /// The next block and its bytes. `None` if bytes are missing or the block cannot be numbered.
    pub(crate) fn block(&self) -> Option<(BlockValue, Vec<u8>)> {
        if self.is_starved() {
            return None;
        }
        let size = self.size.bytes() as u64;
        let number = self.accepted / size;
        // A body that needs more blocks than can be numbered is refused at its start.
        let end = self.accepted + self.held as u64;
        let last = if self.finished {
            end.saturating_sub(1) / size
        } else {
            number
        };
        if last > u64::from(MAX_BLOCK_NUMBER) {
            return None;
        }
        let length = self.held.min(self.span_of(self.size));
        let mut bytes = Vec::with_capacity(length);
        for piece in &self.rest {
            let take = piece.len().min(length - bytes.len());
            bytes.extend_from_slice(&piece[..take]);
        }
        debug_assert!(bytes.len() == length, "{} bytes of {length}", bytes.len());
        let more = self.held > length;
        debug_assert!(number * size == self.accepted || self.held == 0);
        Some((
            BlockValue {
                number: number as u32,
                more,
                szx: self.size,
            },
            bytes,
        ))
    }

    /// Processes the acceptance of block `sent`; `answered` is the block size for the rest.
    pub(crate) fn accept(&mut self, sent: BlockValue, answered: BlockSize) {
        let mut taken = self.held.min(self.span_of(sent.szx));
        self.accepted += taken as u64;
        self.held -= taken;
        while let Some(piece) = self.rest.front_mut().filter(|_| taken > 0) {
            if piece.len() > taken {
                let _ = piece.split_to(taken);
                break;
            }
            taken -= piece.len();
            self.rest.pop_front();
        }
        self.shrink(answered);
        self.check_invariants();
    }

    /// Reduces the block size; returns whether that changed anything.
    pub(crate) fn shrink(&mut self, size: BlockSize) -> bool {
        // A response may reduce the block size and not enlarge it (RFC 7959 2.3).
        let smaller = size < self.size;
        if smaller {
            self.size = size;
        }
        smaller
    }

    /// Bytes the server has accepted.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }
}

/// The identity of a resource: a peer, and its URI options.
type Resource = (PeerIndex, Vec<u8>);

/// Queues of operations with a block-wise body, one per resource; the first of each may send.
///
/// Block1 cannot distinguish two bodies from one endpoint to the same resource (RFC 7959 2.5): a
/// server would mix their blocks. The second therefore waits for the response to the first.
/// [`Limits::requests`](crate::endpoint::Limits::requests) bounds the waiting requests.
#[derive(Debug)]
pub(crate) struct Block1Queue {
    lines: HashMap<Resource, VecDeque<u32>, KeyedState>,
    /// Operations that may now send.
    ready: VecDeque<u32>,
    /// A caller is already serving `ready`.
    served: bool,
}

impl Block1Queue {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            lines: HashMap::with_hasher(KeyedState::with_seed(seed)),
            ready: VecDeque::new(),
            served: false,
        }
    }

    fn resource(peer: PeerIndex, options: &Options) -> Resource {
        (peer, CacheKey::of_resource(options))
    }

    /// Enqueues an operation; returns whether it may send at once.
    pub(crate) fn join(&mut self, peer: PeerIndex, options: &Options, operation: u32) -> bool {
        let line = self.lines.entry(Self::resource(peer, options));
        let line = line.or_default();
        debug_assert!(
            !line.contains(&operation),
            "request {operation} waits already"
        );
        line.push_back(operation);
        line.len() == 1
    }

    /// Removes an operation from its queue; the next one becomes ready if it was the first.
    pub(crate) fn leave(&mut self, peer: PeerIndex, options: &Options, operation: u32) {
        let resource = Self::resource(peer, options);
        // It may be ready and not served yet.
        self.ready.retain(|other| *other != operation);
        let Some(line) = self.lines.get_mut(&resource) else {
            return;
        };
        if line.front() == Some(&operation) {
            line.pop_front();
            self.ready.extend(line.front());
        } else {
            line.retain(|other| *other != operation);
        }
        if line.is_empty() {
            self.lines.remove(&resource);
        }
        debug_assert!(self.ready.len() <= self.lines.len(), "one a resource");
    }

    /// Returns whether the caller is to serve the ready operations, until [`next`](Self::next)
    /// returns `None`. A served operation may fail at once and reenter here: it is not to serve.
    pub(crate) fn serve(&mut self) -> bool {
        !core::mem::replace(&mut self.served, true)
    }

    /// The next ready operation.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let next = self.ready.pop_front();
        self.served = next.is_some();
        next
    }

    /// Clears all queues; no operation becomes ready any more.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.ready.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_of_too_many_blocks_is_refused_at_its_start() {
        let body = |bytes| Upload::whole(BlockSize::MIN, Bytes::from(alloc::vec![0; bytes]));
        assert!(body(16 << 20).block().is_some());
        let long = body((16 << 20) + 1);
        assert!(!long.is_starved() && long.block().is_none());
    }

    fn size(bytes: usize) -> BlockSize {
        BlockSize::from_bytes_at_most(bytes).expect("a block size")
    }

    fn send(upload: &mut Upload, answered: BlockSize) -> Option<(u32, bool, usize)> {
        let (block, bytes) = upload.block()?;
        upload.accept(block, answered);
        Some((block.number, block.more, bytes.len()))
    }

    #[test]
    fn a_whole_body_is_cut_to_its_last_byte() {
        let mut upload = Upload::whole(size(32), Bytes::from(alloc::vec![7; 70]));
        assert_eq!(upload.announce(), Some(70));
        assert_eq!(send(&mut upload, size(32)), Some((0, true, 32)));
        assert_eq!(upload.announce(), None);
        assert_eq!(send(&mut upload, size(32)), Some((1, true, 32)));
        assert_eq!(send(&mut upload, size(32)), Some((2, false, 6)));
    }

    #[test]
    fn smaller_block_size_renumbers_blocks() {
        let mut upload = Upload::whole(size(64), Bytes::from(alloc::vec![7; 100]));
        assert_eq!(send(&mut upload, size(16)), Some((0, true, 64)));
        assert_eq!(
            send(&mut upload, size(64)),
            Some((4, true, 16)),
            "and stays small"
        );
        assert_eq!(send(&mut upload, size(16)), Some((5, true, 16)));
        assert_eq!(send(&mut upload, size(16)), Some((6, false, 4)));
    }

    #[test]
    fn bert_sends_several_blocks_at_once_until_the_server_wants_one() {
        let body = Bytes::from(alloc::vec![7; 6_000]);
        let mut upload = Upload::whole(BlockSize::BERT, body).in_spans(2_048);
        assert_eq!(send(&mut upload, BlockSize::BERT), Some((0, true, 2_048)));
        assert_eq!(send(&mut upload, size(1024)), Some((2, true, 2_048)));
        assert_eq!(send(&mut upload, size(1024)), Some((4, true, 1_024)));
        assert_eq!(send(&mut upload, size(1024)), Some((5, false, 880)));
    }

    #[test]
    fn streamed_body_waits_for_the_more_flag() {
        let mut upload = Upload::streaming(size(16));
        upload.supply(Bytes::from_static(&[1; 10]), false);
        assert!(upload.is_starved() && upload.block().is_none());
        upload.supply(Bytes::from_static(&[2; 6]), false);
        assert!(upload.is_starved(), "16 bytes may be all");
        upload.supply(Bytes::from_static(&[3; 1]), false);
        assert_eq!(send(&mut upload, size(16)), Some((0, true, 16)));
        upload.supply(Bytes::new(), true);
        assert_eq!(send(&mut upload, size(16)), Some((1, false, 1)));
    }
}
