//! The window of a transfer: rounds, phases, capacity, pacing.
//!
//! A round ends with the first answer to a message that was sent after the round began. Sizes are
//! bytes of the larger direction (a block's request or its response), rates bytes/s, times
//! microseconds. Rules with numbers: `docs/algorithms.md#carob`.

use super::contention::Contention;
use super::path::{NEAR, Path, Trips, is_near_default_timers};
use super::timers::BACKOFF_MAX;
use super::{CarobConstants, low_half, micros};
use crate::ratio::Ratio;
use crate::time::{Duration, Instant};

/// Rounds whose deliveries bound the window.
const REMEMBERED: usize = 4;
/// Rounds between two changes of the window by queueing delay.
const HOLD: u8 = 2;
/// Least queueing delay aimed at, in microseconds.
const TARGET_MIN: u32 = 10_000;
/// Rounds with a persistent queue, after which it is another sender's.
const STANDING: u8 = 3;

/// Doublings of the timeout of the path from which on two messages are sent again at each.
const TWO_PROBES: u8 = 3;

/// Eighths of what the path ever had, on average: of a long queue, and of one that remains.
const LONG: u32 = 4;
const REMAINING: u32 = 2;

/// Rounds after which losses may be usual although the capacity is unknown.
const LEARNING: u32 = 16;

/// Losses beyond twice the usual share that show a full queue, of 255.
const EXCESS: u8 = 16;

/// The relation of a reply to its transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) now: Instant,
    pub(super) sent_at: Instant,
    pub(super) round_trip: u32,
    /// Bytes of the message or of its answer, whichever is larger.
    pub(super) bytes: u32,
    /// Bytes of other messages reported with it.
    pub(super) also: u32,
    /// How many of these were delivered since the last such report.
    pub(super) recent: u32,
    /// Bytes delivered when it was sent.
    pub(super) delivered_then: u32,
}

impl Outcome {
    /// Bytes that the answer shows delivered.
    fn delivered(&self) -> u32 {
        self.bytes.saturating_add(self.also)
    }
}

/// The last two answers: their times, the times of their messages, and the bytes of the later.
#[derive(Clone, Copy, Debug, Default)]
struct Spacing {
    answers: u8,
    answered: [Clock; 2],
    sent: [Clock; 2],
    bytes: u32,
}

/// The low 32 bits of a time in microseconds, for differences of less than half an hour.
#[derive(Clone, Copy, Debug, Default)]
struct Clock(u32);

impl From<Instant> for Clock {
    fn from(at: Instant) -> Self {
        Self(low_half(at.as_micros()))
    }
}

impl Clock {
    /// Microseconds since `earlier`; none if that is later.
    fn since(self, earlier: Self) -> Option<u32> {
        let apart = self.0.wrapping_sub(earlier.0);
        (apart <= u32::MAX / 2).then_some(apart)
    }
}

/// Counters of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Clock,
    /// The delivered bytes at its beginning, and those that a message must have seen to end it.
    delivered: u32,
    lost: u32,
    /// The least round trip; 0 before the first.
    least: u32,
    greatest: u32,
    /// True if the window was full.
    full: bool,
}

/// The least and greatest of the rounds' least round trips, over 16 to 32 rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Swing {
    low: [u32; 2],
    high: [u32; 2],
}

impl Swing {
    fn add(&mut self, least: u32, rounds: u32) {
        let first = self.low[0] == 0;
        self.low[0] = if first { least } else { self.low[0].min(least) };
        self.high[0] = self.high[0].max(least);
        if rounds.is_multiple_of(16) {
            (self.low, self.high) = ([least, self.low[0]], [least, self.high[0]]);
        }
    }

    fn size(&self) -> u32 {
        let low = match self.low[1] {
            0 => self.low[0],
            before => before.min(self.low[0]),
        };
        self.high[0].max(self.high[1]).saturating_sub(low)
    }
}

/// The number of messages that an answer reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reporting {
    #[default]
    Single,
    /// Several, since the first such report.
    Several,
}

/// The state of a peer's transfers.
#[derive(Clone, Debug, Default)]
pub(super) struct Transfer {
    /// The window in bytes; 0 before the first answer.
    window: u32,
    /// Size of a message.
    unit: u32,
    /// Slow start ends here; 0 for nowhere.
    threshold: u32,
    slow_start_over: bool,
    competing: bool,
    delivered: u32,
    rounds: u32,
    round: Round,
    windowed: bool,
    reporting: Reporting,
    deliveries: [u32; REMEMBERED],
    /// The highest delivery rate of this period of memory, and of the one before.
    rate: [u32; 2],
    spacing: Spacing,
    swing: Swing,
    standing: u8,
    low: u8,
    hold: u8,
    /// Rounds in a row that delivered much less than the capacity.
    shared: u8,
    silences: u8,
    /// Doublings of the path's timeout: expired timers since the last certain answer, counted once a round trip.
    backoff: u8,
    expired_at: Clock,
    /// Messages that may still be sent again at this step of the back-off.
    probes: u8,
    /// The share of losses while the queue is not long, of 255.
    usual_loss: u8,
    /// Bytes of the current loss period, and how many were lost.
    judged: u32,
    judged_lost: u32,
    /// Rounds left in which the queue is kept short, after losses while it was long.
    cautious: u8,
    contention: Contention,
    last_sent: Instant,
    last_answered: Instant,
    silent_at: Clock,
}

/// `value` x `factor` / `divisor`, rounded down, saturating. One copy: 64-bit division is a call on small
/// processors.
#[inline(never)]
fn scaled(value: u32, factor: u32, divisor: u32) -> u32 {
    let scaled = u64::from(value) * u64::from(factor) / u64::from(divisor.max(1));
    u32::try_from(scaled).unwrap_or(u32::MAX)
}

/// Microseconds of a second.
const SECOND: u32 = 1_000_000;

impl Transfer {
    pub(super) fn delivered(&self) -> u32 {
        self.delivered
    }

    pub(super) fn window_bytes(&self) -> u32 {
        self.window
    }

    /// The highest delivery rate in bytes/s; 0 if unknown.
    pub(super) fn capacity(&self) -> u32 {
        self.rate[0].max(self.rate[1])
    }

    /// Bytes lost in this loss period and round.
    #[cfg(test)]
    pub(super) fn losses(&self) -> u32 {
        self.round.lost.saturating_add(self.judged_lost)
    }

    /// Rounds left of caution.
    #[cfg(test)]
    pub(super) fn caution(&self) -> u8 {
        self.cautious
    }

    /// The window in messages; none before the first answer.
    pub(super) fn messages(&self) -> Option<u16> {
        // Sizes differ by a few bytes of options.
        let slack = self.unit / 16;
        let messages = self.window.saturating_add(slack).checked_div(self.unit)?;
        Some(u16::try_from(messages).unwrap_or(u16::MAX).max(1))
    }

    /// Doublings of the path's timeout.
    pub(super) fn backoff(&self) -> u8 {
        self.backoff
    }

    /// Doublings for messages already sent: from the third step on two are sent again at each (RFC 9002
    /// 6.2.4), so that a run of lost packets ends sooner. The first steps are as for a queue that grew.
    pub(super) fn backoff_of_sent(&self) -> u8 {
        self.backoff.saturating_sub(self.probes)
    }

    /// The time since the last transmission and the last answer.
    pub(super) fn idle(&self, now: Instant) -> Duration {
        now.since(self.last_sent.max(self.last_answered))
    }

    pub(super) fn mode(&self) -> &'static str {
        match (self.slow_start_over, self.competing) {
            (false, _) => "slow-start",
            (true, true) => "compete",
            (true, false) => "delay",
        }
    }

    /// Returns whether a transfer uses the window: since the last time when nothing was
    /// outstanding, as many messages were as it has room for.
    pub(super) fn is_windowed(&self) -> bool {
        self.windowed
    }

    /// Returns whether a message has the timers of the window. Over a contended radio it has those of a single exchange: a
    /// copy sent early is one more packet that collides.
    pub(super) fn has_window_timers(&self) -> bool {
        self.windowed && !self.contention.is_shown()
    }

    /// Returns whether departures are paced: from the third round of a transfer on, or from the first
    /// answer on that reports several messages.
    pub(super) fn is_paced(&self) -> bool {
        self.reporting == Reporting::Several || (self.rounds >= 2 && self.is_windowed())
    }

    /// The bandwidth-delay product in bytes; none if the capacity is unknown.
    fn product(&self, base: u32) -> Option<u32> {
        let capacity = self.capacity();
        (capacity > 0).then(|| scaled(capacity, base, SECOND))
    }

    /// The queueing delay aimed at: a share of the base, at least two messages at capacity.
    fn target(&self, base: u32, constants: &CarobConstants) -> u32 {
        let mut share = constants.tolerance.down(base);
        if is_near_default_timers(base.saturating_add(share)) {
            share = share.min(NEAR.start.saturating_sub(base).max(share / 4));
        }
        let message = match self.capacity() {
            0 => 0,
            capacity => scaled(self.unit, SECOND, capacity),
        };
        share.max(TARGET_MIN).max(message)
    }

    /// The target for this window: a smaller window accepts more delay than a larger one, so that
    /// several senders converge.
    fn scaled_target(&self, base: u32, constants: &CarobConstants) -> u32 {
        let target = self.target(base, constants);
        let Some(product) = self.product(base) else {
            return target;
        };
        let half = target / 2;
        let longer = half.saturating_add(scaled(half, product, self.window.max(self.unit)));
        let most = target.saturating_mul(2).saturating_add(target.div_ceil(2));
        longer.min(most)
    }

    /// Notes an exchange with no other outstanding. After a pause the window restarts.
    pub(super) fn begin(&mut self, now: Instant, rto: Option<Duration>) {
        self.spacing = Spacing::default();
        let Some(rto) = rto else { return };
        let pause = now.since(self.last_sent) > rto.times(4);
        // A window of one message is in use as long as its transfer makes no pause.
        self.windowed &= !pause && self.window < self.unit.saturating_mul(2);
        if pause {
            self.contention = Contention::default();
        }
        if pause && self.slow_start_over {
            self.threshold = self.window;
            self.window = self.window.min(self.unit.saturating_mul(4));
            self.slow_start_over = false;
            self.competing = false;
        }
    }

    /// Notes a new exchange beside `running` others.
    pub(super) fn on_start(&mut self, running: u16) {
        let room = self.messages().unwrap_or(1);
        self.round.full |= (room > 1 || self.windowed) && running.saturating_add(1) >= room;
        self.windowed |= self.round.full;
    }

    /// Notes a transmission. One behind which others wait is limited by window or pacing.
    pub(super) fn on_sent(&mut self, now: Instant, application_limited: bool) {
        self.last_sent = now;
        self.round.full |= !application_limited && self.rounds > 0;
    }

    /// The time to the next transmission; none if it is not paced.
    pub(super) fn gap(&self, srtt: u32, constants: &CarobConstants) -> Option<Duration> {
        if !self.is_paced() {
            return None;
        }
        let spread = u64::from(scaled(srtt, self.unit, self.window));
        let mut gap = if self.window < self.unit {
            spread
        } else if self.slow_start_over {
            spread * 4 / 5
        } else {
            spread / 2
        };
        let capacity = self.capacity();
        if capacity > 0 {
            let slowest = u64::from(scaled(self.unit, SECOND, capacity));
            gap = gap.max(constants.rate_limit.inverse().of(slowest));
        }
        // At least a message in a round trip or a minute.
        Some(Duration::from_micros(gap).min(micros(srtt).max(BACKOFF_MAX)))
    }

    /// Notes an answer of any kind.
    pub(super) fn on_heard(&mut self, now: Instant) {
        self.last_answered = now;
    }

    /// Notes an answer whose transmission is not certain.
    pub(super) fn deliver(&mut self, bytes: u32) {
        self.silences = 0;
        // An answer whose transmission is not certain leaves the back-off (Karn).
        self.delivered = self.delivered.wrapping_add(bytes);
    }

    /// Handles an answer to a certain transmission.
    pub(super) fn on_answered(
        &mut self,
        outcome: &Outcome,
        path: &mut Path,
        constants: &CarobConstants,
    ) {
        if !self.competing && path.forget(constants, outcome.now) {
            self.rate = [0, self.rate[0]];
        }
        let trips = Trips::of(path, outcome.round_trip);
        let base = trips.base;
        self.unit = outcome.bytes.max(self.unit - self.unit / 8).max(1);
        self.deliver(outcome.delivered());
        self.backoff = 0;
        self.probes = 0;
        let round = &mut self.round;
        round.least = match round.least {
            0 => outcome.round_trip,
            least => least.min(outcome.round_trip),
        };
        round.greatest = round.greatest.max(outcome.round_trip);
        self.measure_spacing(outcome, path.srtt().unwrap_or(0));
        // A window of one message looks like a client that waits for each response: an
        // answer opens it for two.
        let first = match self.window {
            0 if is_near_default_timers(outcome.round_trip) => 2,
            0 => u32::from(constants.initial_window),
            _ => 2,
        };
        if self.window == 0 || !self.windowed {
            self.window = self.window.max(self.unit.saturating_mul(first.max(2)));
        }
        if outcome.also > 0 {
            // Messages reported at once arrive in bursts of their sender, unless it paces them. The first
            // such report shows what the path has held.
            let before = core::mem::replace(&mut self.reporting, Reporting::Several);
            if before == Reporting::Single {
                self.window = self.window.max(outcome.delivered().saturating_mul(2));
            }
        }
        if !self.slow_start_over {
            self.slow_start(outcome, base, constants);
        }
        // Wrapping: the bytes delivered since the message was sent.
        let passed = outcome.delivered_then.wrapping_sub(self.round.delivered);
        if passed < u32::MAX / 2 {
            self.end_round(outcome.now, trips, constants);
        }
    }

    /// Measures the capacity by the times of three answers, if the path has spread them.
    fn measure_spacing(&mut self, outcome: &Outcome, srtt: u32) {
        let spacing = &mut self.spacing;
        let (now, sent_at) = (Clock::from(outcome.now), Clock::from(outcome.sent_at));
        if outcome.also > 0
            && spacing.answers >= 1
            && let Some(apart @ 1..) = now.since(spacing.answered[1])
            && let Some(sent_apart) = sent_at.since(spacing.sent[1])
        {
            // A report of several messages.
            let (wide, narrow) = (u64::from(apart), u64::from(sent_apart));
            let bytes = outcome.bytes.saturating_add(outcome.recent);
            if wide * 4 >= narrow * 5 && outcome.recent > outcome.bytes {
                self.rate[0] = self.rate[0].max(scaled(bytes, SECOND, apart));
            }
        } else if spacing.answers >= 2
            && let Some(apart @ 1..) = now.since(spacing.answered[0])
            && let Some(sent_apart) = sent_at.since(spacing.sent[0])
        {
            let (wide, narrow) = (u64::from(apart), u64::from(sent_apart));
            if narrow * 2 <= u64::from(srtt) && wide * 4 >= narrow * 5 {
                let bytes = spacing.bytes.saturating_add(outcome.delivered());
                self.rate[0] = self.rate[0].max(scaled(bytes, SECOND, apart));
            }
        }
        *spacing = Spacing {
            answers: (spacing.answers + 1).min(2),
            answered: [spacing.answered[1], now],
            sent: [spacing.sent[1], sent_at],
            bytes: outcome.delivered(),
        };
    }

    /// Grows the window by the bytes delivered, until it is the bandwidth-delay product or the
    /// queue shows.
    fn slow_start(&mut self, outcome: &Outcome, base: u32, constants: &CarobConstants) {
        if self.round.full {
            // A report shows the queue late: half the growth before it.
            let delivered = match self.reporting {
                Reporting::Single => outcome.delivered(),
                Reporting::Several => outcome.delivered() / 2,
            };
            self.window = self.window.saturating_add(delivered);
        }
        if self.rounds == 0 {
            return;
        }
        let least = self.unit.saturating_mul(2);
        let product = self
            .product(base)
            .map(|product| product.saturating_add(self.unit));
        // A small window determines the rates of reports.
        let several = self.reporting == Reporting::Several;
        let found = product.filter(|_| !several).unwrap_or(u32::MAX);
        let limit = match self.threshold {
            0 => found,
            threshold => found.min(threshold),
        };
        if self.window >= limit {
            self.window = limit.max(least);
            self.slow_start_over = true;
        }
        // Reports come late: the queue has grown further.
        let targets = if several { 1 } else { 2 };
        let queued = base.saturating_add(self.target(base, constants).saturating_mul(targets));
        if self.round.full && outcome.round_trip > queued {
            let held = match product {
                // A reported message counts against the window for a quarter longer.
                Some(product) if several => product.saturating_add(product / 4),
                product => product.unwrap_or(self.window),
            };
            self.window = self.window.min(held).max(least);
            self.slow_start_over = true;
            if several {
                // The next reports are of messages sent before this.
                self.hold = HOLD;
            }
        }
    }

    fn end_round(&mut self, now: Instant, trips: Trips, constants: &CarobConstants) {
        self.rounds = self.rounds.wrapping_add(1);
        let (round, base) = (self.round, trips.base);
        let delivered = self.delivered.wrapping_sub(round.delivered);
        if round.full {
            self.cautious = self.cautious.saturating_sub(1);
            let place = usize::try_from(self.rounds).unwrap_or_default() % REMEMBERED;
            self.deliveries[place] = delivered;
            self.measure_round(now, delivered);
            let rate = self.rate_of(now, delivered.saturating_add(round.lost));
            // One of many senders does not compete: the queue is theirs.
            let few = u64::from(rate) * 32 > u64::from(self.capacity()) && self.capacity() > 0;
            let below = u64::from(rate) < constants.shared.of(u64::from(self.capacity()));
            // Without a capacity, losses while the queue persists come from a full queue.
            let unknown = self.capacity() == 0
                && (base >= NEAR.end
                    || round.least > base.saturating_add(self.target(base, constants)));
            let is_shared = unknown || (below && self.slow_start_over);
            self.shared = if is_shared && !self.competing {
                (self.shared + 1).min(8)
            } else {
                0
            };
            if self.contention.is_shown() {
                self.window = self.unit;
            } else {
                self.detect_competitor(base, few, constants);
                if self.slow_start_over {
                    self.adapt(delivered, trips, constants);
                }
                self.obey_losses(delivered, trips, constants);
                self.bound(constants);
            }
        } else if round.lost >= self.unit.saturating_mul(2) && !self.contention.is_shown() {
            self.obey_losses(delivered, trips, constants);
        }
        self.round = Round {
            began: now.into(),
            delivered: self.delivered,
            ..Round::default()
        };
    }

    /// Bytes per second of a round.
    fn rate_of(&self, now: Instant, bytes: u32) -> u32 {
        let elapsed = Clock::from(now)
            .since(self.round.began)
            .unwrap_or(u32::MAX)
            .max(1);
        scaled(bytes, SECOND, elapsed)
    }

    /// What arrived in a round is a lower bound of the capacity.
    fn measure_round(&mut self, now: Instant, delivered: u32) {
        if self.rate[0] > 0 && delivered >= self.unit.saturating_mul(2) {
            self.rate[0] = self.rate[0].max(self.rate_of(now, delivered));
        }
    }

    /// Enters or leaves the competition with a sender that fills the queue: the queue persists
    /// although this window is short, and its length swings.
    fn detect_competitor(&mut self, base: u32, few: bool, constants: &CarobConstants) {
        let least = self.round.least;
        self.swing.add(least, self.rounds);
        self.standing = if least > base.saturating_mul(2) {
            (self.standing + 1).min(20)
        } else {
            0
        };
        if !constants.compete {
            return;
        }
        let swing = self.swing.size();
        let may_compete = few && self.standing >= STANDING && !is_near_default_timers(least);
        if !self.competing && may_compete && swing > base / 2 {
            self.competing = true;
            self.slow_start_over = true;
            self.hold = 0;
            let fill = scaled(self.capacity(), least, SECOND);
            let share = u32::try_from(Ratio::new(5, 8).of(u64::from(fill))).unwrap_or(u32::MAX);
            self.window = self
                .window
                .max(share.min(self.most_delivered().saturating_mul(2)));
        } else if self.competing && (least < base.saturating_add(base / 2) || swing < base / 3) {
            self.competing = false;
            if let Some(product) = self.product(base) {
                self.window = self.window.min(product.max(self.unit.saturating_mul(2)));
            }
        }
    }

    /// Changes the window after a round.
    fn adapt(&mut self, delivered: u32, trips: Trips, constants: &CarobConstants) {
        let base = trips.base;
        let queue = self.round.least.saturating_sub(base);
        let target = self.scaled_target(base, constants);
        let cautious = self.cautious > 0;
        let crowded = cautious
            && trips.exceed(REMAINING, self.target(base, constants))
            && trips.tells_queue();
        if self.competing {
            if self.round.lost.saturating_mul(32) > delivered {
                if self.hold == 0 {
                    self.window -= self.window / 16 * 5;
                    self.hold = HOLD;
                }
            } else {
                self.window = self.window.saturating_add(self.unit);
            }
        } else if queue > target || crowded {
            self.adapt_to_queue(base, target, crowded);
            self.low = 0;
        } else if self.window < self.unit.saturating_mul(2) && !cautious {
            if self.round.lost == 0 {
                self.window = self.window.saturating_add(self.unit / 4);
            }
        } else if cautious || self.is_shared() {
            let part = self.window.max(self.unit) / u32::from(constants.fraction);
            self.window = self.window.saturating_add(part.max(1));
        } else {
            self.low = if queue < target / 2 {
                (self.low + 1).min(10)
            } else {
                0
            };
            let add = match self.low {
                3.. => (self.window / 8).max(self.unit),
                _ => self.unit,
            };
            self.window = self.window.saturating_add(add);
        }
        self.hold = self.hold.saturating_sub(1);
    }

    /// Lowers the window to the target of the queueing delay, but not below two messages: the delay of
    /// one may be the path's. After losses behind a long queue it is one message while a queue remains, or
    /// while it is longer than the path itself. A window that losses made smaller grows back.
    fn adapt_to_queue(&mut self, base: u32, target: u32, crowded: bool) {
        let deep = self.round.least > base.saturating_add(target).saturating_mul(2);
        let room = if crowded || (deep && self.cautious > 0) {
            1
        } else {
            2
        };
        let floor = self.unit.saturating_mul(room);
        if self.window <= floor {
            let part = if room == 2 {
                self.unit / 2
            } else {
                self.window / 8
            };
            if self.round.lost == 0 {
                self.window = self.window.saturating_add(part).min(floor);
            }
            self.hold = 0;
        } else if self.hold == 0 {
            let drained = scaled(
                self.window,
                base.saturating_add(target / 4),
                self.round.least,
            );
            let least = floor.max(self.window / 2);
            self.window = self.window.min(drained.max(least));
            self.hold = HOLD;
        }
    }

    /// Lowers the window after losses, if the queue is long and more is lost than while it is not. That is
    /// learned once the capacity is known or after some rounds: before, a full queue may look like an
    /// empty one.
    fn obey_losses(&mut self, delivered: u32, trips: Trips, constants: &CarobConstants) {
        let Some((lost, all)) = self.count_losses(delivered, constants) else {
            return;
        };
        let share = u8::try_from(scaled(lost, 255, all)).unwrap_or(u8::MAX);
        // Reports come late, so their round trips tell nothing of a radio.
        if all >= self.loss_period(constants) && self.reporting == Reporting::Single {
            let own_queue = match self.capacity() {
                0 => 0,
                capacity => scaled(self.window.max(self.unit), SECOND, capacity),
            };
            self.contention
                .judge(share, trips, constants.steady, own_queue);
            if self.contention.is_shown() {
                self.window = self.unit;
                self.slow_start_over = true;
                self.competing = false;
                return;
            }
        }
        let long = trips.exceed(LONG, self.target(trips.base, constants));
        if !long && (self.capacity() > 0 || self.rounds > LEARNING) {
            let usual = u16::from(self.usual_loss) * 3 + u16::from(share);
            self.usual_loss = u8::try_from(usual.div_ceil(4)).unwrap_or(u8::MAX);
            return;
        }
        let usual = self.usual_loss.saturating_mul(2).saturating_add(EXCESS);
        if (long || self.is_shared()) && share > usual && !self.competing {
            self.slow_start_over = true;
            // It is slower than one message at a time only where a queue and the capacity show that it may.
            let least = if long && self.capacity() > 0 {
                0
            } else {
                self.window.min(self.unit)
            };
            self.window = constants.loss_factor.down(self.window).max(least);
            (self.judged, self.judged_lost) = (0, 0);
            self.hold = HOLD;
            if long {
                self.cautious = constants.caution;
            }
        }
    }

    /// Counts a round's losses; returns lost and all bytes of the loss period once it is over, or two
    /// messages of it are lost. A single loss in a small window shows nothing.
    fn count_losses(&mut self, delivered: u32, constants: &CarobConstants) -> Option<(u32, u32)> {
        let lost = self.round.lost;
        self.judged = self.judged.saturating_add(delivered).saturating_add(lost);
        self.judged_lost = self.judged_lost.saturating_add(lost);
        let counted = (self.judged_lost, self.judged);
        let is_over = self.judged >= self.loss_period(constants);
        if is_over {
            (self.judged, self.judged_lost) = (0, 0);
        }
        (is_over || counted.0 >= self.unit.saturating_mul(2)).then_some(counted)
    }

    /// Bytes of a loss period.
    fn loss_period(&self, constants: &CarobConstants) -> u32 {
        self.unit.saturating_mul(u32::from(constants.loss_period))
    }

    /// Returns whether others use most of the path.
    fn is_shared(&self) -> bool {
        self.shared >= 2
    }

    fn most_delivered(&self) -> u32 {
        self.deliveries.iter().copied().max().unwrap_or(0)
    }

    /// Keeps the window within twice what recent rounds delivered, and at two messages at least.
    fn bound(&mut self, constants: &CarobConstants) {
        let two = self.unit.saturating_mul(2);
        if self.rounds > 4 {
            let most = self.most_delivered().saturating_mul(2).saturating_add(two);
            self.window = self.window.min(most);
        }
        let least = if self.windowed {
            self.unit / u32::from(constants.fraction)
        } else {
            two
        };
        self.window = self.window.max(least);
    }

    /// Takes back losses that an answer to an earlier transmission disproves.
    pub(super) fn undo_losses(&mut self, transmissions: u8) {
        let bytes = self.unit.saturating_mul(u32::from(transmissions));
        self.round.lost = self.round.lost.saturating_sub(bytes);
        self.judged_lost = self.judged_lost.saturating_sub(bytes);
    }

    /// Handles a transmission whose timer expired.
    pub(super) fn on_lost(&mut self, now: Instant, by_timer: bool, silent: bool, srtt: u32) {
        self.round.lost = self.round.lost.saturating_add(self.unit);
        // Several messages of a window expire in one silence, which counts once.
        let now = Clock::from(now);
        if by_timer
            && self.windowed
            && (self.backoff == 0 || now.since(self.expired_at).unwrap_or(u32::MAX) >= srtt)
        {
            self.backoff = (self.backoff + 1).min(12);
            self.expired_at = now;
            self.probes = u8::from(self.backoff >= TWO_PROBES);
        } else if by_timer {
            self.probes = self.probes.saturating_sub(1);
        }
        if !by_timer {
            return;
        }
        let since = now.since(self.silent_at).unwrap_or(u32::MAX);
        if !silent || (self.silences > 0 && since < srtt) {
            return;
        }
        self.silent_at = now;
        self.silences = (self.silences + 1).min(6);
        if self.silences >= 2 && self.window > self.unit {
            self.threshold = (self.window / 2).max(self.unit.saturating_mul(2));
            self.window = self.unit;
            self.slow_start_over = false;
            self.competing = false;
        }
    }

    /// Halves the window after a 4.29 of the peer.
    pub(super) fn halve(&mut self) {
        self.window = (self.window / 2).max(self.unit);
        self.slow_start_over = true;
    }
}
