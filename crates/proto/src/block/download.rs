//! The client side of Block2: the next block to request, and the body so far.
//!
//! Blocks in flight may arrive out of order; they are delivered in order. The server may reduce the
//! block size at any time (RFC 7959 2.4). Block numbers then count from the end of the received
//! bytes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::codec::MAX_BLOCK_NUMBER;
use crate::codec::{BlockSize, BlockValue};

/// Reasons a response body cannot be reassembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DownloadError {
    /// The body is, or would become, larger than the limit.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The representation changed between two blocks (its ETag did).
    Changed,
    /// The length of a block contradicts its size and more flag (RFC 7959 2.2).
    WrongLength {
        /// The position of the block, in bytes.
        offset: u64,
        /// Bytes of its payload.
        length: usize,
        /// Its size in bytes.
        size: usize,
    },
    /// A block was not requested: another number, or a larger size.
    WrongBlock {
        /// The position the block claims, in bytes.
        offset: u64,
    },
    /// The body needs more blocks than 20 bits can number.
    TooManyBlocks,
}

impl fmt::Display for DownloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => write!(f, "the body is larger than {limit} bytes"),
            Self::Changed => f.write_str("the representation changed during the transfer"),
            Self::WrongLength {
                offset,
                length,
                size,
            } => write!(
                f,
                "the block of {size} bytes at byte {offset} has {length} bytes"
            ),
            Self::WrongBlock { offset } => write!(f, "unexpected block at byte {offset}"),
            Self::TooManyBlocks => f.write_str("the body needs more blocks than can be numbered"),
        }
    }
}

impl core::error::Error for DownloadError {}

/// A response body in transfer.
#[derive(Debug)]
pub(crate) struct Download {
    size: BlockSize,
    limit: usize,
    etag: SmallVec<[u8; 8]>,
    /// Bytes received in order and delivered.
    complete: u64,
    /// The end of the requested bytes.
    requested: u64,
    /// Blocks received beyond `complete`, by offset.
    ahead: BTreeMap<u64, Bytes>,
    /// The end as announced by the server (Size2): a hint that permits requests ahead.
    announced: Option<u64>,
    /// The end, known from the last block.
    end: Option<u64>,
    /// Blocks received, and requested again after a timeout.
    received: u32,
    repeated: u32,
}

impl Download {
    /// A body of at most `limit` bytes, requested in blocks of `size`; the first request is in
    /// flight.
    pub(crate) fn new(size: BlockSize, limit: usize) -> Self {
        Self {
            size,
            limit,
            etag: SmallVec::new(),
            complete: 0,
            requested: size.bytes() as u64,
            ahead: BTreeMap::new(),
            announced: None,
            end: None,
            received: 0,
            repeated: 0,
        }
    }

    /// Processes a received block. Bytes that are now contiguous are appended to `body`.
    pub(crate) fn accept(
        &mut self,
        block: BlockValue,
        etag: Option<&[u8]>,
        announced: Option<u32>,
        payload: Bytes,
        body: &mut Vec<Bytes>,
    ) -> Result<(), DownloadError> {
        let offset = block.offset() as u64;
        let etag = etag.unwrap_or_default();
        if self.complete == 0 && self.ahead.is_empty() {
            self.etag = SmallVec::from_slice(etag);
        // Blocks of different representations must not be put together (RFC 7959 2.4).
        } else if self.etag.as_slice() != etag {
            return Err(DownloadError::Changed);
        }
        // 0 announces nothing: it is the value with which a request asks for the size (RFC 7959
        // 4).
        if let Some(announced) = announced.filter(|size| *size > 0) {
            if announced as usize > self.limit {
                return Err(DownloadError::TooLarge { limit: self.limit });
            }
            self.announced = Some(u64::from(announced));
        }
        // A body that needs more blocks than can be numbered is refused at its start.
        let last = self.announced.map(|size| size.saturating_sub(1));
        let last = last.map(|last| last / self.size.min(block.szx).bytes() as u64);
        if last.is_some_and(|last| last > u64::from(MAX_BLOCK_NUMBER)) {
            return Err(DownloadError::TooManyBlocks);
        }
        let expected = block.szx.bytes();
        if !block.szx.fits(payload.len(), block.more) {
            return Err(DownloadError::WrongLength {
                offset,
                length: payload.len(),
                size: expected,
            });
        }
        if block.szx < self.size {
            // The block size shrinks from here on; requests beyond this block are void.
            self.size = block.szx;
            let end = offset + expected as u64;
            self.requested = self.requested.min(end).max(self.complete);
            self.ahead
                .retain(|at, bytes| *at + (bytes.len() as u64) <= self.requested);
        }
        let end = offset + payload.len() as u64;
        // Size2 is a hint that a server may omit or understate, so the bytes are counted, too.
        if end > self.limit as u64 {
            return Err(DownloadError::TooLarge { limit: self.limit });
        }
        // `ahead` thus holds only what was requested: a server cannot fill it with others.
        if offset > self.requested {
            return Err(DownloadError::WrongBlock { offset });
        }
        if !block.more {
            self.end = Some(end);
        }
        self.received = self.received.saturating_add(1);
        if offset < self.complete {
            self.check_invariants();
            return Ok(()); // requested twice after a change of size
        }
        if offset > self.complete {
            self.ahead.insert(offset, payload);
            self.check_invariants();
            return Ok(());
        }
        self.complete = end;
        body.push(payload);
        while let Some(first) = self.ahead.first_entry()
            && *first.key() <= self.complete
        {
            let (at, bytes) = first.remove_entry();
            // A larger block may have replaced several.
            if at == self.complete {
                self.complete += bytes.len() as u64;
                body.push(bytes);
            }
        }
        self.requested = self.requested.max(self.complete);
        self.check_invariants();
        Ok(())
    }

    /// Checks the counts of bytes.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.complete <= self.requested && self.complete <= self.limit as u64);
        let first = self.ahead.first_key_value();
        debug_assert!(
            first.is_none_or(|(first, _)| *first > self.complete),
            "in order"
        );
        debug_assert!(self.repeated <= self.received);
    }

    /// Returns whether the whole body has been received.
    pub(crate) fn is_complete(&self) -> bool {
        self.end == Some(self.complete)
    }

    /// Bytes in order so far.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn complete(&self) -> u64 {
        self.complete
    }

    /// Blocks received ahead of a missing one.
    pub(crate) fn held_ahead(&self) -> usize {
        self.ahead.len()
    }

    /// The end of the body in bytes, as known or announced.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end.or(self.announced)
    }

    /// The next block to request while `in_flight` requests are outstanding, if any.
    ///
    /// Requests ahead need a known size, because a request for a block beyond the end is an error.
    pub(crate) fn next_request(
        &mut self,
        in_flight: usize,
    ) -> Option<Result<BlockValue, DownloadError>> {
        if self.size.is_bert() && in_flight > 0 {
            return None; // how many blocks come at once is the server's choice
        }
        if in_flight == 0 && self.complete < self.requested && !self.is_complete() {
            // All requests were answered with something else, so that no response will bring this
            // block.
            return Some(Err(DownloadError::WrongBlock {
                offset: self.complete,
            }));
        }
        let more = match self.end {
            Some(end) => self.requested < end,
            None if in_flight == 0 => true,
            None => self.announced.is_some_and(|end| self.requested < end),
        };
        if !more {
            // A body that ends before the received bytes is invalid.
            let past = in_flight == 0 && self.end.is_some_and(|end| end < self.complete);
            let offset = self.complete;
            return past.then_some(Err(DownloadError::WrongBlock { offset }));
        }
        let number = self.requested / self.size.bytes() as u64;
        if number > u64::from(MAX_BLOCK_NUMBER) {
            return Some(Err(DownloadError::TooManyBlocks));
        }
        debug_assert!(self.requested >= self.complete, "received already");
        self.requested += self.size.bytes() as u64;
        let block = BlockValue {
            number: number as u32,
            more: false,
            szx: self.size,
        };
        Some(Ok(block))
    }

    /// Returns whether a block whose request timed out is to be requested again: more blocks have been
    /// received than requested again, and requests in flight or a later block show whether the peer
    /// still answers.
    pub(crate) fn repeats(&mut self, block: BlockValue, in_flight: usize) -> bool {
        let offset = block.offset() as u64;
        let last = self.ahead.last_key_value();
        let is_later = last.is_some_and(|(ahead, _)| *ahead > offset);
        let repeats =
            block.szx == self.size && self.repeated < self.received && (is_later || in_flight > 0);
        self.repeated += u32::from(repeats);
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: BlockSize = BlockSize::MIN;

    fn block(number: u32, more: bool) -> BlockValue {
        BlockValue {
            number,
            more,
            szx: SIZE,
        }
    }

    fn part(n: u8, len: usize) -> Bytes {
        Bytes::from(alloc::vec![n; len])
    }

    #[test]
    fn one_block_after_the_other_until_the_last() {
        let (mut download, mut body) = (Download::new(SIZE, 1_000), Vec::new());
        download
            .accept(block(0, true), None, None, part(0, 16), &mut body)
            .expect("good");
        assert_eq!(download.next_request(0), Some(Ok(block(1, false))));
        assert_eq!(download.next_request(1), None, "its end is not known");
        download
            .accept(block(1, false), None, None, part(1, 3), &mut body)
            .expect("good");
        assert!(download.is_complete());
        assert_eq!(download.next_request(0), None);
        assert_eq!(body.concat().len(), 19);
    }

    #[test]
    fn block_is_requested_again_once_per_arrival() {
        let (mut download, mut body) = (Download::new(SIZE, 1_000), Vec::new());
        download
            .accept(block(0, true), None, Some(80), part(0, 16), &mut body)
            .expect("good");
        for in_flight in 0..4 {
            assert!(download.next_request(in_flight).is_some());
        }
        let last = block(4, false);
        assert!(!download.repeats(last, 0), "nothing shows a dead peer");
        assert!(download.repeats(last, 3));
        assert!(!download.repeats(block(3, false), 2), "none since");
        download
            .accept(block(3, true), None, None, part(3, 16), &mut body)
            .expect("good");
        let first = block(1, false);
        assert!(download.repeats(first, 0), "a later one has arrived");
        assert!(!download.repeats(first, 0), "none since");
    }

    #[test]
    fn smaller_block_already_received_is_not_requested() {
        let large = BlockSize::from_szx(1).expect("32 bytes");
        let (mut download, mut body) = (Download::new(large, 1_000), Vec::new());
        for number in 0..2 {
            let block = BlockValue {
                szx: large,
                ..block(number, true)
            };
            download
                .accept(block, None, None, part(0, 32), &mut body)
                .expect("good");
            assert!(download.next_request(0).is_some());
        }
        // The third is under way; its size is void now.
        download
            .accept(block(1, true), None, None, part(0, 16), &mut body)
            .expect("good");
        assert_eq!(download.next_request(0), Some(Ok(block(4, false))));
        assert_eq!(body.concat().len(), 64);
    }

    #[test]
    fn blocks_within_a_larger_one_are_dropped() {
        let large = BlockSize::from_szx(2).expect("64 bytes");
        let (mut download, mut body) = (Download::new(large, 1_000), Vec::new());
        download
            .accept(block(1, true), None, None, part(1, 16), &mut body)
            .expect("good");
        assert_eq!(download.held_ahead(), 1);
        let whole = BlockValue {
            szx: large,
            ..block(0, true)
        };
        download
            .accept(whole, None, None, part(0, 64), &mut body)
            .expect("good");
        assert_eq!(download.held_ahead(), 0);
        assert_eq!(body.concat().len(), 64);
    }

    #[test]
    fn known_size_permits_pipelined_blocks_in_any_order() {
        let (mut download, mut body) = (Download::new(SIZE, 1_000), Vec::new());
        download
            .accept(block(0, true), None, Some(60), part(0, 16), &mut body)
            .expect("good");
        for number in 1..=3 {
            let in_flight = number as usize - 1;
            assert_eq!(
                download.next_request(in_flight),
                Some(Ok(block(number, false)))
            );
        }
        assert_eq!(download.next_request(3), None);
        download
            .accept(block(3, false), None, None, part(3, 12), &mut body)
            .expect("good");
        download
            .accept(block(2, true), None, None, part(2, 16), &mut body)
            .expect("good");
        assert!(!download.is_complete());
        download
            .accept(block(1, true), None, None, part(1, 16), &mut body)
            .expect("good");
        assert!(download.is_complete());
        let whole: Vec<u8> = body.concat();
        assert_eq!(
            (whole[16], whole[32], whole[48], whole.len()),
            (1, 2, 3, 60)
        );
    }

    #[test]
    fn a_server_may_turn_to_smaller_blocks() {
        let size = BlockSize::from_szx(1).expect("32 bytes");
        let (mut download, mut body) = (Download::new(size, 1_000), Vec::new());
        download
            .accept(block(0, true), None, None, part(0, 16), &mut body)
            .expect("good");
        assert_eq!(download.next_request(0), Some(Ok(block(1, false))));
    }

    #[test]
    fn protocol_violations_of_a_server_fail_the_download() {
        let fresh = || {
            let (mut download, mut body) = (Download::new(SIZE, 40), Vec::new());
            let etag = Some(&b"a"[..]);
            download
                .accept(block(0, true), etag, None, part(0, 16), &mut body)
                .expect("good");
            download
        };
        let refused = |block, etag: &[u8], size, len| {
            fresh()
                .accept(block, Some(etag), size, part(0, len), &mut Vec::new())
                .unwrap_err()
        };
        assert_eq!(
            refused(block(1, true), b"b", None, 16),
            DownloadError::Changed
        );
        let wrong = |offset| DownloadError::WrongBlock { offset };
        for (more, length) in [(true, 15), (false, 17)] {
            let wrong = DownloadError::WrongLength {
                offset: 16,
                length,
                size: 16,
            };
            assert_eq!(refused(block(1, more), b"a", None, length), wrong);
        }
        assert_eq!(
            refused(block(9, true), b"a", None, 16),
            DownloadError::TooLarge { limit: 40 }
        );
        assert_eq!(
            refused(block(1, true), b"a", Some(41), 16),
            DownloadError::TooLarge { limit: 40 }
        );
        let mut unlimited = Download::new(SIZE, 1_000);
        let far = unlimited.accept(block(9, true), None, None, part(0, 16), &mut Vec::new());
        assert_eq!(far, Err(wrong(144)), "never asked for");
    }

    #[test]
    fn body_of_too_many_blocks_is_refused_at_its_start() {
        let most = 16 << 20;
        let begun = |announced| {
            let mut download = Download::new(SIZE, usize::MAX);
            let first = part(0, 16);
            download.accept(
                block(0, true),
                None,
                Some(announced),
                first,
                &mut Vec::new(),
            )
        };
        assert_eq!(begun(most), Ok(()));
        assert_eq!(begun(most + 1), Err(DownloadError::TooManyBlocks));
    }

    proptest! {
        /// Any order of arrival within the window, with repeats, yields the body.
        #[test]
        fn any_order_yields_the_body(len in 1_usize..400, picks in prop::collection::vec(0_usize..8, 200)) {
            let whole: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let cut = |number: u32| {
                let start = number as usize * 16;
                let end = len.min(start + 16);
                (block(number, end < len), Bytes::copy_from_slice(&whole[start..end]))
            };
            let (mut download, mut body) = (Download::new(SIZE, 1_000), Vec::new());
            let (first, bytes) = cut(0);
            download.accept(first, None, Some(len as u32), bytes, &mut body).unwrap();
            let mut flying = Vec::new();
            for pick in picks {
                while flying.len() < 8 {
                    match download.next_request(flying.len()) {
                        Some(next) => flying.push(next.unwrap().number),
                        None => break,
                    }
                }
                if flying.is_empty() {
                    break;
                }
                let number = flying.remove(pick % flying.len());
                let (value, bytes) = cut(number);
                download.accept(value, None, None, bytes, &mut body).unwrap();
            }
            prop_assert!(download.is_complete());
            prop_assert_eq!(body.concat(), whole);
        }
    }
}
