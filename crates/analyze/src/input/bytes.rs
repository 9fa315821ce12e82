//! A reader that counts its bytes, so that damage has a place.

use std::io::{self, ErrorKind, Read};

/// Bytes of the pieces in which content is skipped.
const SKIP_BYTES: usize = 8_192;

#[derive(Debug)]
pub(crate) struct Bytes<R> {
    inner: R,
    offset: u64,
}

impl<R: Read> Bytes<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, offset: 0 }
    }

    /// Returns the bytes read so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Fills the buffer; returns fewer bytes only at the end of the file.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.inner.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// Reads `N` bytes; `None` at the end of the file or within them.
    pub(crate) fn array<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        let count = self.fill(&mut bytes)?;
        Ok((count == N).then_some(bytes))
    }

    /// Skips bytes; returns how many there were.
    pub(crate) fn skip(&mut self, count: u64) -> io::Result<u64> {
        let mut buffer = [0; SKIP_BYTES];
        let mut left = count;
        while left > 0 {
            let piece = usize::try_from(left).map_or(SKIP_BYTES, |left| left.min(SKIP_BYTES));
            let skipped = self.fill(&mut buffer[..piece])?;
            if skipped == 0 {
                break;
            }
            left -= skipped as u64;
        }
        Ok(count - left)
    }
}
