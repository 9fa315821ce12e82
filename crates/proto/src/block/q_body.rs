//! The server side of Q-Block1 (RFC 9177 4.3): request bodies whose blocks arrive in any order, and the
//! reports of received and missing blocks.
//!
//! The bodies are in the table of [`Reassembler`](super::reassembly::Reassembler), with its limits and
//! quotas. The result of a complete body is kept, because its response may be lost: a repeated block gets
//! it again.

use alloc::vec::Vec;

use carob_cc::time::{Duration, Instant};

use super::any_order::{Added, AnyOrderBody, BLOCK_OVERHEAD};
use super::{Key, QBlockConfig, ReassemblyStep};
use crate::codec::{BlockValue, Code};
use crate::message::Response;
use crate::tables::bounded_map::{BoundedMap, Keyed};
use crate::tables::quota::{QuotaPolicy, QuotaTable, Source};

/// The least wait for missing blocks of a body whose last block has arrived.
const TAIL_WAIT_MIN: Duration = Duration::from_millis(20);

/// The largest payload of a result that is kept, in bytes.
const RESULT_BYTES: usize = 64 << 10;

/// The reply to a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QBlockStep {
    /// Nothing is due: a NON gets no response, a CON an empty ACK.
    Silent,
    /// All blocks up to this one were received (2.31).
    Continue(BlockValue),
    /// These blocks are missing (4.08).
    Missing(Vec<u32>),
    /// Complete, or refused like a block of Block1.
    Other(ReassemblyStep),
}

/// The result of a complete body.
#[derive(Debug)]
pub(crate) enum BodyResult {
    /// The application has not responded yet.
    Pending,
    /// Its response.
    Responded(Response),
}

/// A received block of a body by Q-Block1.
#[derive(Clone, Copy)]
pub(crate) struct QBlock<'a> {
    pub(crate) now: Instant,
    pub(crate) block: BlockValue,
    pub(crate) payload: &'a [u8],
    pub(crate) token: &'a [u8],
    pub(crate) confirmable: bool,
    /// Bytes that may be sent for it, by the anti-amplification limit; `None` without a limit.
    pub(crate) budget: Option<usize>,
}

/// A body by Q-Block1.
#[derive(Debug)]
pub(crate) struct QBlock1Body {
    body: AnyOrderBody,
    /// The token of the latest block, for reports.
    token: Vec<u8>,
    confirmable: bool,
    /// The set of the highest block.
    set: u32,
    /// Blocks below this one were reported complete.
    continued: u32,
    /// The highest block that the latest report lists.
    last_requested: u32,
    /// Reports since the last block, by timer.
    reports: u8,
    /// The latest block or report.
    latest: Instant,
    /// The latest block.
    arrived: Instant,
    /// The smoothed time between blocks.
    spacing: Duration,
    /// Bytes of reports that may still be sent by timer.
    budget: usize,
}

impl QBlock1Body {
    /// An empty body of `size` bytes that begins with this block; see [`AnyOrderBody::new`].
    pub(crate) fn new(block: &QBlock<'_>, size: u32, ahead_limit: usize) -> Self {
        Self {
            body: AnyOrderBody::new(block.block.szx, size, ahead_limit),
            token: Vec::new(),
            confirmable: block.confirmable,
            set: 0,
            continued: 0,
            last_requested: 0,
            reports: 0,
            latest: block.now,
            arrived: block.now,
            spacing: Duration::ZERO,
            budget: 0,
        }
    }

    /// The bytes of memory that this block adds at most.
    pub(crate) fn cost(&self, block: &QBlock<'_>) -> usize {
        let length = block.payload.len();
        if self.body.is_ahead(block.block) {
            length + BLOCK_OVERHEAD
        } else {
            length
        }
    }

    /// Adds a block of a body of `size` bytes; a new one needs room.
    pub(crate) fn add(
        &mut self,
        block: &QBlock<'_>,
        size: u32,
        has_room: bool,
    ) -> Result<Added, ReassemblyStep> {
        let length = block.payload.len();
        let consistent = size == self.body.size() && self.body.check(block.block, length).is_ok();
        if !consistent {
            return Err(ReassemblyStep::BadLength);
        }
        if !has_room && !self.body.received().contains(block.block.number) {
            return Err(ReassemblyStep::Full);
        }
        let added = self.body.add(block.block, block.payload);
        let added = added.map_err(|_| ReassemblyStep::BadLength)?;
        self.arrive(block);
        debug_assert!(self.reports == 0 && self.latest == block.now);
        Ok(added)
    }

    /// The reply to a block that was added. Takes the bytes of a complete body.
    pub(crate) fn reply(
        &mut self,
        block: &QBlock<'_>,
        added: Added,
        config: &QBlockConfig,
    ) -> QBlockStep {
        let step = if self.body.is_complete() {
            QBlockStep::Other(ReassemblyStep::Whole(self.body.take()))
        // A CON is retransmitted until it is acknowledged, so there is nothing to report (RFC
        // 9177 4.3, 5). One too far ahead is not stored, and listed as missing later.
        } else if block.confirmable || added == Added::TooFar {
            QBlockStep::Silent
        } else {
            self.report(block.block.number, added, config.set())
        };
        if step == QBlockStep::Silent {
            // A block that is answered has spent its budget.
            self.budget = (self.budget).saturating_add(block.budget.unwrap_or(usize::MAX));
        }
        step
    }

    /// The blocks to request when the wait for them has ended; `None` if the body is to be discarded.
    pub(crate) fn expire(&mut self, now: Instant, config: &QBlockConfig) -> Option<Vec<u32>> {
        let ended = now.since(self.arrived) >= config.partial_timeout;
        // Nothing is requested of a sender that retransmits until it is acknowledged.
        if ended || self.confirmable || self.reports >= config.max_retransmit {
            return None;
        }
        self.reports += 1;
        self.latest = now;
        Some(self.missing(config.set()))
    }

    /// Takes `length` bytes from the budget of reports. Returns whether it has them.
    pub(crate) fn spend_on_report(&mut self, length: usize) -> bool {
        let has = self.budget >= length;
        if has && self.budget < usize::MAX {
            self.budget -= length;
        }
        has
    }

    /// The token of the latest block.
    pub(crate) fn token(&self) -> &[u8] {
        &self.token
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.body.held()
    }

    /// The time at which the wait for missing blocks ends.
    ///
    /// RFC 9177 7.2 has NON_RECEIVE_TIMEOUT, doubled with each report. Once the last block has arrived,
    /// nothing else is on its way in order, so that a few times the spacing of blocks suffices.
    pub(crate) fn due(&self, config: &QBlockConfig) -> Instant {
        let end = self.arrived + config.partial_timeout;
        if self.confirmable {
            return end;
        }
        let wait = if self.reports == 0 && self.body.has_last() {
            let tail = self.spacing.times(4).max(TAIL_WAIT_MIN);
            tail.min(config.receive_timeout)
        } else {
            // NON_MAX_RETRANSMIT may be set to 255; the shift must not overflow.
            config.receive_timeout.times(1 << self.reports.min(16))
        };
        (self.latest + wait).min(end)
    }

    /// The blocks missing below the highest one; without any, the blocks of the next set.
    fn missing(&self, set: u32) -> Vec<u32> {
        let received = self.body.received();
        let (first, end) = (received.first_missing(), received.end());
        if first < end {
            return received.missing_below(end).collect();
        }
        let next = (first / set * set).saturating_add(set);
        (first..next.min(self.body.blocks())).collect()
    }

    /// Notes the arrival of a block.
    fn arrive(&mut self, block: &QBlock<'_>) {
        let apart = block.now.since(self.arrived);
        // One gap, such as a pause between sets, must not stretch the wait for the tail, which
        // is four spacings.
        let apart = apart.min(Duration::from_secs(1));
        self.spacing = (self.spacing.times(3) + apart).half().half();
        (self.arrived, self.latest, self.reports) = (block.now, block.now, 0);
        self.confirmable = block.confirmable;
        self.token.clear();
        self.token.extend_from_slice(block.token);
    }

    /// The report due after a block: of a set completed, or of blocks missing before a new set or after
    /// the last repetition that was requested. A block received again gets a report of all, as its
    /// sender lacks one.
    fn report(&mut self, number: u32, added: Added, set: u32) -> QBlockStep {
        let received = self.body.received();
        // 2.31 acknowledges whole sets only (RFC 9177 4.3).
        let complete = received.first_missing() / set * set;
        let begins_set = number / set > self.set;
        self.set = self.set.max(number / set);
        let szx = self.body.block_size();
        let continued = |end: u32| {
            QBlockStep::Continue(BlockValue {
                number: end - 1,
                more: true,
                szx,
            })
        };
        if complete > self.continued {
            self.continued = complete;
            return continued(complete);
        }
        let first = number / set * set;
        let in_earlier_set = first < self.set * set;
        let completes_set =
            in_earlier_set && (first..first + set).all(|number| received.contains(number));
        let ends_repetitions = in_earlier_set && number == self.last_requested;
        let below = match added {
            Added::Duplicate => received.end(),
            _ if begins_set || completes_set || ends_repetitions => self.set * set,
            _ => return QBlockStep::Silent,
        };
        if received.first_missing() < below {
            let missing: Vec<u32> = received.missing_below(below).collect();
            self.last_requested = missing.last().copied().unwrap_or(0);
            return QBlockStep::Missing(missing);
        }
        if added == Added::Duplicate && complete > 0 {
            return continued(complete);
        }
        QBlockStep::Silent
    }
}

/// The result of a complete body; `None` until its request has a response.
#[derive(Debug)]
pub(crate) struct QBlock1Result {
    key: Key,
    response: Option<Response>,
    at: Instant,
}

impl Keyed for QBlock1Result {
    type Key = Key;

    fn key(&self) -> &Key {
        &self.key
    }
}

/// The results of complete bodies. At the limit the oldest is evicted, and at a source's quota the
/// oldest of that source.
#[derive(Debug)]
pub(crate) struct QBlock1Results {
    table: BoundedMap<QBlock1Result>,
    shares: QuotaTable,
    quota_policy: QuotaPolicy,
}

impl QBlock1Results {
    pub(crate) fn new(seed: u64, limit: usize, quota_policy: QuotaPolicy) -> Self {
        Self {
            table: BoundedMap::new(seed, limit),
            shares: QuotaTable::new(seed.rotate_left(8)),
            quota_policy,
        }
    }

    fn remove(&mut self, index: u32) {
        let result = self.table.remove(index, false);
        let source = self.quota_policy.source(result.key.peer());
        self.shares.subtract(source, 1);
        debug_assert!(self.shares.is_empty() == (self.table.len() == 0));
    }

    /// The oldest result of a source; the limit of the table bounds the walk.
    fn oldest_of(&self, source: Source) -> Option<u32> {
        let mut next = self.table.oldest(false);
        while let Some(index) = next
            && self.quota_policy.source(self.table[index].key.peer()) != source
        {
            next = self.table.newer(index);
        }
        next
    }

    /// Notes a complete body whose request has no response yet.
    pub(crate) fn begin_result(&mut self, now: Instant, key: Key) {
        if let Some(before) = self.table.find(&key) {
            self.remove(before);
        }
        if self.table.limit() == 0 {
            return;
        }
        let source = self.quota_policy.source(key.peer());
        let quota = self.quota_policy.quota(self.table.limit());
        let evicted = if self.shares.of(source) >= quota {
            self.oldest_of(source)
        } else if self.table.is_full() {
            self.table.oldest(false)
        } else {
            None
        };
        if let Some(oldest) = evicted {
            self.remove(oldest);
        }
        let result = QBlock1Result {
            key,
            response: None,
            at: now,
        };
        debug_assert!(!self.table.is_full(), "room was made");
        self.shares.add(source, 1);
        self.table.insert(result, false);
    }

    /// Keeps the response to a complete body. One that asks for the body again is not kept.
    pub(crate) fn keep_result(&mut self, now: Instant, key: &Key, response: &Response) {
        let Some(index) = self.table.find(key) else {
            return;
        };
        // After these codes the client may send the same body again, which a kept result would
        // refuse.
        let again = matches!(
            response.code,
            Code::UNAUTHORIZED | Code::TOO_MANY_REQUESTS | Code::SERVICE_UNAVAILABLE
        );
        if again || response.bytes().len() > RESULT_BYTES {
            self.remove(index);
        } else if let Some(result) = self.table.get_mut(index) {
            result.response = Some(response.clone());
            result.at = now;
        }
    }

    /// The result of the body that a block belongs to, if all of it has arrived.
    pub(crate) fn find_result(
        &mut self,
        now: Instant,
        lifetime: Duration,
        key: &Key,
    ) -> Option<BodyResult> {
        let index = self.table.find(key)?;
        if now.since(self.table[index].at) >= lifetime {
            self.remove(index);
            return None;
        }
        Some(match &self.table[index].response {
            Some(response) => BodyResult::Responded(response.clone()),
            None => BodyResult::Pending,
        })
    }
}
