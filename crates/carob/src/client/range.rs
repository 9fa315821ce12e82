//! A part of a representation, read by the blocks that hold it (RFC 7959 2.4).

use std::time::Instant;

use bytes::BytesMut;
use carob_proto::blockwise::download::DownloadError;
use carob_proto::codec::{BlockSize, BlockValue, OptionNumber};
use carob_proto::endpoint::{BlockMode, BodyMode, Failure};
use carob_proto::message::{Payload, Response};

use super::reply::{Origin, Reply};
use super::request::RequestBuilder;
use crate::driver::Received;
use crate::error::Error;

impl RequestBuilder {
    /// Reads block after block, beginning with the one that holds `offset`.
    pub(super) async fn send_range(
        &mut self,
        began: Instant,
        offset: u64,
        length: u64,
    ) -> Result<Reply, Error> {
        self.sending.blocks = BlockMode::Manual;
        let own_options = self.options.len();
        let mut size = BlockSize::MAX;
        let mut position = offset - offset % size.bytes() as u64;
        let mut bytes = BytesMut::new();
        let mut first: Option<Reply> = None;
        loop {
            let number = position / size.bytes() as u64;
            let block = u32::try_from(number)
                .ok()
                .and_then(|n| BlockValue::new(n, false, size).ok());
            let Some(block) = block else {
                let peer = first.map_or(self.handle.local(), |reply| reply.peer);
                let failure = Failure::Body(DownloadError::TooManyBlocks);
                return Err(Error::Failed { peer, failure });
            };
            self.options.truncate(own_options);
            self.options
                .push((OptionNumber::BLOCK2, block.encode().as_slice().to_vec()));
            let (answer, Received { response, .. }, peer, _) =
                self.exchange(began, BodyMode::Whole).await?;
            drop(answer);
            // Later blocks come from where the first came from.
            self.to = Some(peer);
            let failed = |failure| Error::Failed { peer, failure };
            if !response.code.is_success() {
                if first.is_some() {
                    return Err(failed(Failure::Interrupted(response.code)));
                }
                return Ok(Reply {
                    response,
                    peer,
                    after: began.elapsed(),
                    origin: Origin::Network,
                });
            }
            let etag = response.options.first(OptionNumber::ETAG);
            if first
                .as_ref()
                .is_some_and(|first| first.options.first(OptionNumber::ETAG) != etag)
            {
                let changed = DownloadError::Changed;
                return Err(failed(Failure::Body(changed)));
            }
            let answered = response.options.first(OptionNumber::BLOCK2);
            let answered = answered.map(BlockValue::decode).transpose();
            let answered = answered.map_err(|_| failed(Failure::BadBlock))?;
            // Without the option, it is the whole representation.
            let start = answered.map_or(0, |block| block.offset() as u64);
            let more = answered.is_some_and(|block| block.more);
            let wanted = offset + bytes.len() as u64;
            let skip = wanted.saturating_sub(start);
            if start > wanted {
                let wrong = DownloadError::WrongBlock { offset: start };
                return Err(failed(Failure::Body(wrong)));
            }
            let part = response.bytes();
            let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(part.len());
            let rest = usize::try_from(length - bytes.len() as u64).unwrap_or(usize::MAX);
            let take = (part.len() - skip).min(rest);
            bytes.extend_from_slice(&part[skip..skip + take]);
            let end = start + part.len() as u64;
            if let Some(block) = answered {
                size = size.min(block.szx);
            }
            let reply = Reply {
                response,
                peer,
                after: began.elapsed(),
                origin: Origin::Network,
            };
            let first = first.get_or_insert(reply);
            if !more || bytes.len() as u64 >= length || part_is_stuck(end, position) {
                let mut response: Response = first.response.clone();
                response.options.remove(OptionNumber::BLOCK2);
                response.payload = Payload::Whole(bytes.freeze());
                return Ok(Reply {
                    response,
                    peer,
                    after: began.elapsed(),
                    origin: Origin::Network,
                });
            }
            position = end - end % size.bytes() as u64;
        }
    }
}

/// Whether a block brought nothing new, which no server should do while there is more.
fn part_is_stuck(end: u64, position: u64) -> bool {
    end <= position
}
