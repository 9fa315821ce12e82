//! The client side of Q-Block2 (RFC 9177 4.4): a response body in transfer, and the times at which its blocks
//! are requested again.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use carob_cc::time::{Duration, Instant};
use smallvec::SmallVec;

use super::QBlockMode;
use super::any_order::AnyOrderBody;
use crate::codec::{BlockValue, TokenKey};
use crate::timers::TimerId;

/// The least wait for missing blocks once the last of a set has arrived.
const TAIL_WAIT_MIN: Duration = Duration::from_millis(20);

/// The silence after which a block that the server retransmits is requested, in spacings of blocks.
const SILENCE: u64 = 8;

/// Tokens of the latest requests of a body: as many as name one set, and the next set, with their
/// repetitions.
const TOKENS: usize = 16;

/// A response body in transfer, or requested.
#[derive(Debug)]
pub(crate) struct QDownload {
    pub(crate) mode: QBlockMode,
    pub(crate) confirmable: bool,
    pub(crate) body: Option<AnyOrderBody>,
    pub(crate) etag: SmallVec<[u8; 8]>,
    /// The tokens of its latest requests; responses may carry any of them.
    pub(crate) tokens: VecDeque<TokenKey>,
    pub(crate) timer: TimerId,
    /// The blocks that the next request names.
    pub(crate) requested: Vec<BlockValue>,
    /// One more than the highest block requested.
    pub(crate) end: u32,
    /// Requests since the last block.
    pub(crate) repeats: u8,
    pub(crate) arrived: Instant,
    pub(crate) spacing: Duration,
    /// The last block that came by itself was confirmable.
    pub(crate) confirmable_blocks: bool,
    /// Sets come separately from the acknowledgement of their request.
    pub(crate) separate: bool,
    /// The departure of the latest request.
    pub(crate) requested_at: Instant,
    /// The shortest round trip of this body's requests.
    pub(crate) round_trip: Option<Duration>,
}

impl QDownload {
    /// The blocks that the next message names.
    pub(crate) fn requested(&self) -> &[BlockValue] {
        &self.requested
    }

    pub(crate) fn is_confirmable(&self) -> bool {
        self.confirmable
    }

    /// Notes the token of a request; returns an old one whose responses are no longer awaited.
    pub(crate) fn add_token(&mut self, token: TokenKey) -> Option<TokenKey> {
        let oldest = (self.tokens.len() >= TOKENS).then(|| self.tokens.pop_front());
        self.tokens.push_back(token);
        debug_assert!(self.tokens.len() <= TOKENS);
        oldest.flatten()
    }

    /// The wait for further blocks: NON_RECEIVE_TIMEOUT, doubled with each request, or a few times the
    /// spacing of blocks once the last of a set has arrived. Confirmable ones are retransmitted, and would
    /// come twice if they were requested: they are waited for longer.
    pub(crate) fn wait(&self, receive_timeout: Duration) -> Duration {
        let at_end = (self.body.as_ref()).is_some_and(|body| body.received().end() >= self.end);
        let silence = if self.is_repeated() {
            self.spacing.times(SILENCE).max(receive_timeout)
        } else if self.repeats == 0 && at_end {
            self.spacing
                .times(4)
                .max(TAIL_WAIT_MIN)
                .min(receive_timeout)
        } else {
            receive_timeout
        };
        silence.times(1 << self.repeats.min(16))
    }

    /// Returns whether the arrival of this block is the time to request the next set, so that the link is not idle
    /// for a round trip after each. The server retransmits confirmable blocks until they are acknowledged, so their
    /// next set need not wait for the end of this one. A set of NON blocks leaves as one burst: it is requested when
    /// the rest of this set arrives within a round trip, so that it finds an empty queue.
    pub(crate) fn requests_early(&self, number: u32, blocks: u32, set: u32) -> bool {
        let is_of_last_set = number + set >= self.end && self.end.is_multiple_of(set);
        if !is_of_last_set || self.end >= blocks {
            return false;
        }
        let first_missing = (self.body.as_ref()).map(|body| body.received().first_missing());
        let rest = self
            .spacing
            .times(self.end.saturating_sub(number + 1).into());
        let is_in_time = self.round_trip.is_some_and(|time| rest < time);
        let is_in_order = first_missing == Some(number + 1);
        self.is_repeated() || (!self.confirmable_blocks && is_in_order && is_in_time)
    }

    /// Notes the arrival of a block. The first that a request names shows the round trip: the time since the
    /// request, less the time that the link takes for the block.
    pub(crate) fn note_arrival(&mut self, now: Instant, number: u32, longest: Duration) {
        let first = self.requested.first().map(|first| first.number);
        if self.repeats == 0 && first == Some(number) {
            let time = now.since(self.requested_at).saturating_sub(self.spacing);
            let shortest = self.round_trip.map_or(time, |shortest| shortest.min(time));
            self.round_trip = Some(shortest);
        }
        let apart = now.since(self.arrived).min(longest);
        self.spacing = (self.spacing.times(3) + apart).half().half();
        // A block proves that the server is there: its silences are counted from zero.
        (self.arrived, self.repeats) = (now, 0);
    }

    /// Returns whether the server retransmits all missing blocks: they are confirmable, and none came
    /// with the acknowledgement of the request.
    pub(crate) fn is_repeated(&self) -> bool {
        let acknowledged = self.requested.first().map(|block| block.number);
        let missing = (self.body.as_ref()).map(|body| body.received().first_missing());
        self.confirmable_blocks && (self.separate || missing != acknowledged)
    }
}
