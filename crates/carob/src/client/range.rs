//! A part of a representation, read by the blocks that hold it (RFC 7959 2.4).

use std::time::Instant;

use bytes::BytesMut;
use carob_proto::blockwise::DownloadError;
use carob_proto::codec::{BlockSize, BlockValue, OptionNumber};
use carob_proto::endpoint::{BlockMode, BodyMode, Failure};
use carob_proto::message::Payload;

use super::reply::{Origin, Reply};
use super::request::RequestBuilder;
use crate::error::Error;
use crate::runtime::Received;

impl RequestBuilder {
    /// Reads block after block, beginning with the one that holds `offset`.
    pub(super) async fn send_range(
        &mut self,
        began: Instant,
        offset: u64,
        length: u64,
    ) -> Result<Reply, Error> {
        // Each block is one request; the engine would fetch the whole body.
        self.sending.blocks = BlockMode::Manual;
        let own_options = self.options.len();
        let mut range = RangeReader::new(offset, length);
        loop {
            let Some(block) = range.next_block() else {
                let peer = range.first.map_or(self.handle.local(), |reply| reply.peer);
                let failure = Failure::Body(DownloadError::TooManyBlocks);
                return Err(Error::Failed { peer, failure });
            };
            self.options.truncate(own_options);
            self.options
                .push((OptionNumber::BLOCK2, block.encode().to_vec()));
            let (answer, Received { response, .. }, peer, _) =
                self.exchange(began, BodyMode::Whole).await?;
            drop(answer);
            // Later blocks are requested from the source of the first.
            self.to = Some(peer);
            let reply = Reply {
                response,
                peer,
                after: began.elapsed(),
                origin: Origin::Network,
            };
            let read = range.on_response(reply);
            let read = read.map_err(|failure| Error::Failed { peer, failure })?;
            if let Some(reply) = read {
                let after = began.elapsed();
                return Ok(Reply { after, ..reply });
            }
        }
    }
}

/// The state of a read of one part of a representation.
struct RangeReader {
    offset: u64,
    length: u64,
    /// Offset of the next block.
    position: u64,
    size: BlockSize,
    bytes: BytesMut,
    /// The first response, whose options apply to the whole.
    first: Option<Reply>,
}

impl RangeReader {
    fn new(offset: u64, length: u64) -> Self {
        let size = BlockSize::MAX;
        Self {
            offset,
            length,
            // A block begins at a multiple of its size (RFC 7959 2.2).
            position: offset - offset % size.bytes() as u64,
            size,
            bytes: BytesMut::new(),
            first: None,
        }
    }

    /// Returns the next block to request; `None` if Block2 cannot have its number.
    fn next_block(&self) -> Option<BlockValue> {
        let number = self.position / self.size.bytes() as u64;
        let number = u32::try_from(number).ok()?;
        BlockValue::new(number, false, self.size).ok()
    }

    /// Processes the response to a block. Returns the reply once the part is complete or refused.
    fn on_response(&mut self, reply: Reply) -> Result<Option<Reply>, Failure> {
        let response = &reply.response;
        if !response.code.is_success() {
            return match self.first {
                Some(_) => Err(Failure::Interrupted(response.code)),
                None => Ok(Some(reply)),
            };
        }
        let etag = response.options.first(OptionNumber::ETAG);
        let first = self.first.as_ref();
        // Blocks of two representations must not be put together (RFC 7959 2.4).
        if first.is_some_and(|first| first.options.first(OptionNumber::ETAG) != etag) {
            return Err(Failure::Body(DownloadError::Changed));
        }
        let answered = response.options.first(OptionNumber::BLOCK2);
        let answered = answered.map(BlockValue::decode).transpose();
        let answered = answered.map_err(|_| Failure::BadBlock)?;
        // Without the option, it is the whole representation.
        let start = answered.map_or(0, |block| block.offset() as u64);
        let more = answered.is_some_and(|block| block.more);
        let end = self.add(start, response.bytes())?;
        if let Some(block) = answered {
            // The server may have reduced the size; later requests must use that (RFC 7959 2.4).
            self.size = self.size.min(block.szx);
        }
        let first = self.first.get_or_insert(reply);
        // A block without new bytes before the end is invalid.
        let stuck = end <= self.position;
        if more && (self.bytes.len() as u64) < self.length && !stuck {
            self.position = end - end % self.size.bytes() as u64;
            return Ok(None);
        }
        let mut whole = first.clone();
        whole.response.options.remove(OptionNumber::BLOCK2);
        whole.response.payload = Payload::Whole(std::mem::take(&mut self.bytes).freeze());
        Ok(Some(whole))
    }

    /// Adds what belongs to the part of a block that begins at `start`. Returns the block's end.
    fn add(&mut self, start: u64, block: &[u8]) -> Result<u64, Failure> {
        let wanted = self.offset + self.bytes.len() as u64;
        if start > wanted {
            let wrong = DownloadError::WrongBlock { offset: start };
            return Err(Failure::Body(wrong));
        }
        let skip = usize::try_from(wanted - start).unwrap_or(usize::MAX);
        let skip = skip.min(block.len());
        let rest = self.length - self.bytes.len() as u64;
        let rest = usize::try_from(rest).unwrap_or(usize::MAX);
        let take = (block.len() - skip).min(rest);
        self.bytes.extend_from_slice(&block[skip..skip + take]);
        Ok(start + block.len() as u64)
    }
}
