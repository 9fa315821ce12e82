//! Send buffer: data written and not yet acknowledged, by position.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Pieces as they were written; segments are slices of them, so only a segment that spans two
/// writes is copied.
#[derive(Clone, Debug)]
pub(super) struct SendBuffer {
    pieces: VecDeque<(u64, Bytes)>,
    end: u64,
    limit: u64,
}

impl SendBuffer {
    /// Creates an empty buffer of at most `limit` bytes, with the next byte written at position 1.
    pub(super) fn new(limit: u32) -> Self {
        Self {
            pieces: VecDeque::new(),
            end: 1,
            limit: u64::from(limit),
        }
    }

    /// The position behind the last byte written.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Free space in bytes, with `una` the first unacknowledged position.
    pub(super) fn room(&self, una: u64) -> u64 {
        self.limit
            .saturating_sub(self.end.saturating_sub(una.max(1)))
    }

    /// Appends as much of `data` as there is room for.
    pub(super) fn write(&mut self, una: u64, mut data: Bytes) -> usize {
        let accepted = (self.room(una) as usize).min(data.len());
        data.truncate(accepted);
        if accepted > 0 {
            self.pieces.push_back((self.end, data));
            self.end += accepted as u64;
        }
        accepted
    }

    /// The end of the write that contains `from`; the end of all data if none does.
    pub(super) fn write_end(&self, from: u64) -> u64 {
        let after = self.pieces.partition_point(|(start, _)| *start <= from);
        let piece = self.pieces.get(after.saturating_sub(1));
        piece.map_or(self.end, |(start, piece)| start + piece.len() as u64)
    }

    /// The bytes of `[from, to)`, which must be buffered; O(log pieces).
    pub(super) fn slice(&self, from: u64, to: u64) -> Bytes {
        if from >= to {
            return Bytes::new();
        }
        let after = self.pieces.partition_point(|(start, _)| *start <= from);
        let mut pieces = self.pieces.range(after.saturating_sub(1)..);
        let Some((start, piece)) = pieces.next() else {
            return Bytes::new();
        };
        let (low, high) = ((from - start) as usize, (to - start) as usize);
        if high <= piece.len() {
            return piece.slice(low..high);
        }
        let mut joined = BytesMut::with_capacity((to - from) as usize);
        joined.extend_from_slice(&piece[low.min(piece.len())..]);
        for (start, piece) in pieces {
            if *start >= to {
                break;
            }
            let most = ((to - start) as usize).min(piece.len());
            joined.extend_from_slice(&piece[..most]);
        }
        joined.freeze()
    }

    /// Removes everything before `una`.
    pub(super) fn acknowledge(&mut self, una: u64) {
        while let Some((start, piece)) = self.pieces.front() {
            if start + piece.len() as u64 > una {
                break;
            }
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_span_writes_and_the_limit_holds() {
        let mut buffer = SendBuffer::new(10);
        assert_eq!(buffer.write(0, Bytes::from_static(b"abc")), 3);
        assert_eq!(buffer.write(0, Bytes::from_static(b"defg")), 4);
        assert_eq!(buffer.write(0, Bytes::from_static(b"hijkl")), 3);
        assert_eq!(&buffer.slice(1, 11)[..], b"abcdefghij");
        assert_eq!(
            [1, 3, 4, 10].map(|from| buffer.write_end(from)),
            [4, 4, 8, 11]
        );
        assert_eq!(&buffer.slice(3, 6)[..], b"cde");
        assert_eq!(&buffer.slice(4, 8)[..], b"defg");
        buffer.acknowledge(5);
        assert_eq!(&buffer.slice(5, 9)[..], b"efgh");
        assert_eq!(buffer.room(5), 4);
        assert_eq!(buffer.slice(7, 7), Bytes::new());
    }
}
