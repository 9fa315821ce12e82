//! The client side of Q-Block1 (RFC 9177 4.3): a request body whose receipt is reported block by block or in
//! sets, the next block to send, and the blocks to send again.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};

use super::QBlockMode;
use crate::codec::MAX_BLOCK_NUMBER;
use crate::codec::{BlockSize, BlockValue, MessageView, MissingBlocks, OptionNumber, TokenKey};
use crate::timers::TimerId;

/// Ended transmissions of a body whose tokens are kept, because a report may name any token of the body
/// (RFC 9177 4.3). At the limit the oldest is forgotten; a report with its token is rejected.
const TRANSMISSIONS_KEPT: usize = 128;

/// Transmissions for each block of a body, on average, after which reports of missing blocks are no
/// longer answered: a loss of nine in ten needs ten.
const TRANSMISSIONS_PER_BLOCK: u32 = 16;

/// Transmissions of a short body beyond these.
const TRANSMISSIONS_MORE: u32 = 64;

/// A transmission of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockTransmission {
    pub(crate) token: TokenKey,
    pub(crate) block: u32,
    pub(crate) at: Instant,
}

/// A report of the receiver: all blocks below `end` were received except those `missing`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) end: u32,
    pub(crate) missing: BTreeSet<u32>,
}

impl Report {
    /// The blocks that a 2.31 reports: up to the one in its Q-Block1 option, or else the one it answers.
    pub(crate) fn continued(message: &MessageView<'_>, answered: u32) -> Self {
        let named = message
            .option(OptionNumber::Q_BLOCK1)
            .and_then(|value| BlockValue::decode(value).ok());
        Self {
            // Does not overflow: numbers have 20 bits (RFC 7959 2.2).
            end: named.map_or(answered, |block| block.number) + 1,
            missing: BTreeSet::new(),
        }
    }

    /// The blocks that a 4.08 reports. It lists blocks of earlier sets, or all below its highest number;
    /// one with a whole set of numbers may be cut off. A malformed one reports nothing.
    pub(crate) fn missing(message: &MessageView<'_>, answered: u32, set: u32) -> Self {
        let numbers: Result<BTreeSet<u32>, _> = MissingBlocks::new(message.payload()).collect();
        let Ok(missing) = numbers else {
            return Self::default();
        };
        let listed = missing.last().map_or(0, |last| last + 1);
        let complete = (missing.len() as u32) < set;
        let end = if complete {
            listed.max(answered / set * set)
        } else {
            listed
        };
        Self { end, missing }
    }
}

/// A request body in transfer by Q-Block1.
#[derive(Debug)]
pub(crate) struct QUpload {
    pub(crate) sender: BlockSender,
    pub(crate) mode: QBlockMode,
    pub(crate) confirmable: bool,
    /// The Request-Tag is the engine's.
    pub(crate) tagged: bool,
    pub(crate) feedback: Feedback,
    /// The departure of the transmission that the latest report named.
    pub(crate) reference: Option<Instant>,
    pub(crate) challenges: u8,
    /// The wait for the next report, or for the response; see `Client::await_q_response`.
    pub(crate) timer: TimerId,
}

/// Knowledge of the server's support for the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feedback {
    /// Not known.
    None,
    /// The server supports it: it has acknowledged a block, or did so for an earlier body.
    Supported,
    /// A report of this body has arrived.
    Reported,
}

/// A body being sent.
#[derive(Debug)]
pub(crate) struct BlockSender {
    size: BlockSize,
    body: Bytes,
    /// The lowest block that was never sent.
    next: u32,
    /// Exchanges by block.
    outstanding: BTreeMap<u32, u32>,
    /// How many of them are presumed received.
    presumed: BTreeSet<u32>,
    /// Blocks reported missing, to be sent again.
    missing: BTreeSet<u32>,
    /// Blocks sent and neither reported nor outstanding: their timers expired.
    unreported: BTreeSet<u32>,
    /// Ended transmissions, the latest last.
    ended: VecDeque<BlockTransmission>,
    /// Timers that expired since the last report, with nothing received meanwhile.
    silences: u8,
    /// Twice the timer that expired in the latest silence.
    backoff: Duration,
    /// Repetitions of unreported blocks permitted until the next timer or report.
    probes: u8,
    transmissions: u32,
}

impl BlockSender {
    /// A body in blocks of this size; `None` if they cannot be numbered.
    pub(crate) fn new(size: BlockSize, body: Bytes) -> Option<Self> {
        let last = body.len().saturating_sub(1) / size.bytes();
        (last <= MAX_BLOCK_NUMBER as usize).then(|| Self {
            size,
            body,
            next: 0,
            outstanding: BTreeMap::new(),
            presumed: BTreeSet::new(),
            missing: BTreeSet::new(),
            unreported: BTreeSet::new(),
            ended: VecDeque::new(),
            silences: 0,
            backoff: Duration::ZERO,
            probes: 0,
            transmissions: 0,
        })
    }

    /// The number of blocks; a body without bytes has one.
    pub(crate) fn blocks(&self) -> u32 {
        let blocks = self.body.len().div_ceil(self.size.bytes());
        // At most 2^20, as `new` has checked.
        blocks.max(1) as u32
    }

    /// Bytes of the body.
    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    /// Blocks on their way, with their exchanges.
    pub(crate) fn outstanding(&self) -> &BTreeMap<u32, u32> {
        &self.outstanding
    }

    /// Blocks that count against the window.
    pub(crate) fn in_window(&self) -> usize {
        debug_assert!(self.presumed.len() <= self.outstanding.len());
        self.outstanding.len() - self.presumed.len()
    }

    /// Notes that an outstanding block is presumed received.
    pub(crate) fn presume(&mut self, number: u32, exchange: u32) {
        if self.outstanding.get(&number) == Some(&exchange) {
            self.presumed.insert(number);
        }
        self.check_invariants();
    }

    /// Checks the sets of blocks: each block is in one of them, and was sent before.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.next <= self.blocks());
        debug_assert!(self.presumed.len() <= self.outstanding.len());
        debug_assert!(self.ended.len() <= TRANSMISSIONS_KEPT);
        let sets = [&self.missing, &self.unreported, &self.presumed];
        let below = |set: &BTreeSet<u32>| set.last().is_none_or(|last| *last < self.next);
        debug_assert!(sets.into_iter().all(below), "a block that was never sent");
        let last = self.outstanding.last_key_value();
        debug_assert!(last.is_none_or(|(last, _)| *last < self.next));
    }

    pub(crate) fn silences(&self) -> u8 {
        self.silences
    }

    /// The least timer of the next block, after a silence.
    pub(crate) fn backoff(&self) -> Duration {
        self.backoff
    }

    /// Returns whether every block was sent at least once.
    pub(crate) fn is_sent(&self) -> bool {
        self.next >= self.blocks()
    }

    /// A block and its bytes.
    pub(crate) fn block(&self, number: u32) -> (BlockValue, Bytes) {
        debug_assert!(
            number < self.blocks(),
            "block {number} of {}",
            self.blocks()
        );
        let unit = self.size.bytes();
        let start = (number as usize * unit).min(self.body.len());
        let end = self.body.len().min(start + unit);
        let block = BlockValue {
            number,
            more: number + 1 < self.blocks(),
            szx: self.size,
        };
        (block, self.body.slice(start..end))
    }

    /// Returns the next block to send: one reported missing, then the next in order, then one of
    /// unknown receipt after a timer.
    pub(crate) fn next(&mut self) -> Option<u32> {
        if let Some(number) = self.missing.pop_first() {
            return Some(number);
        }
        if !self.is_sent() {
            self.next += 1;
            return Some(self.next - 1);
        }
        // With nothing on its way, no timer or report would permit more.
        if self.probes == 0 && !self.outstanding.is_empty() {
            return None;
        }
        self.probes = self.probes.saturating_sub(1);
        // The lowest and the highest in turns: a report covers blocks below the one that caused it.
        if self.probes.is_multiple_of(2) {
            self.unreported.pop_last()
        } else {
            self.unreported.pop_first()
        }
    }

    /// Notes that a block is on its way in this exchange.
    pub(crate) fn sent(&mut self, number: u32, exchange: u32) {
        self.unreported.remove(&number);
        let before = self.outstanding.insert(number, exchange);
        debug_assert!(before.is_none(), "block {number} is on its way");
        self.transmissions = self.transmissions.saturating_add(1);
        self.check_invariants();
    }

    /// Returns whether too many blocks were sent, so that the receiver cannot be expected to take the body.
    pub(crate) fn is_futile(&self) -> bool {
        let most = self.blocks().saturating_mul(TRANSMISSIONS_PER_BLOCK);
        self.transmissions > most.saturating_add(TRANSMISSIONS_MORE)
    }

    /// Notes the end of an exchange; `sent` if it left.
    pub(crate) fn ended(&mut self, number: u32, sent: Option<BlockTransmission>) {
        self.outstanding.remove(&number);
        self.presumed.remove(&number);
        if let Some(transmission) = sent {
            if self.ended.len() >= TRANSMISSIONS_KEPT {
                self.ended.pop_front();
            }
            self.ended.push_back(transmission);
        }
        self.check_invariants();
    }

    /// The ended transmission with this token.
    pub(crate) fn find_ended(&self, token: &TokenKey) -> Option<BlockTransmission> {
        // The latest first, because reports mostly name those.
        let found = self.ended.iter().rev().find(|sent| sent.token == *token);
        found.copied()
    }

    /// Notes an expired timer of a block. Two blocks may then be repeated, to cause a report. A peer that
    /// is not silent, but reports nothing until the last timer, counts as silent, too.
    pub(crate) fn expired(&mut self, number: u32, silence: Option<Duration>) {
        self.unreported.insert(number);
        self.probes = 2;
        if let Some(timeout) = silence {
            self.backoff = self.backoff.max(timeout.times(2));
        }
        if silence.is_some() || self.outstanding.is_empty() {
            self.silences = self.silences.saturating_add(1);
        }
        debug_assert!(!self.outstanding.contains_key(&number), "it is on its way");
        self.check_invariants();
    }

    /// Notes a block whose receipt is unknown, without a timer.
    pub(crate) fn unknown(&mut self, number: u32) {
        self.unreported.insert(number);
    }

    /// Processes a report. Blocks without an exchange are settled here; returns the bytes of those
    /// that turn out received.
    pub(crate) fn reported(&mut self, report: &Report) -> u32 {
        (self.silences, self.backoff) = (0, Duration::ZERO);
        self.probes = 0;
        let mut bytes = 0;
        let below = self.unreported.range(..report.end);
        let received = below.filter(|number| !report.missing.contains(number));
        for number in received.copied().collect::<alloc::vec::Vec<_>>() {
            self.unreported.remove(&number);
            // An upper bound: the last block may be shorter.
            bytes += self.size.bytes() as u32;
        }
        for number in &report.missing {
            // The report of a server by its timer also lists blocks of the next set, which perhaps
            // never left. One on its way may still arrive.
            let idle = *number < self.next && !self.outstanding.contains_key(number);
            if idle {
                self.unreported.remove(number);
                self.missing.insert(*number);
            }
        }
        self.check_invariants();
        bytes
    }

    /// Notes the receipt of a block without a report of others.
    pub(crate) fn acknowledged(&mut self, number: u32) {
        (self.silences, self.backoff) = (0, Duration::ZERO);
        self.unreported.remove(&number);
        self.missing.remove(&number);
    }
}
