//! The window of a transfer: rounds, phases, capacity, pacing.
//!
//! A round ends with the first answer to a message that was sent after the round began. Sizes are
//! bytes of the larger direction (a block's request or its response), rates bytes/s, times
//! microseconds. Rules with numbers: `docs/algorithms.md#carob`.

use super::{CarobConstants, low_half, micros};
use super::path::Path;
use crate::ratio::Ratio;
use crate::time::{Duration, Instant};

/// Rounds whose deliveries bound the window.
const REMEMBERED: usize = 4;
/// Rounds between two changes of the window by queueing delay.
const HOLD: u8 = 2;
/// Rounds between two with the higher limit of the pacing rate, which may find more capacity.
const PROBE: u32 = 16;
/// Rounds with a queue of its own making, after which a sender that shares its path drains it.
const CONFLICTS: u8 = 8;
/// The same while it competes.
const CONFLICTS_COMPETING: u8 = 64;
/// Rounds with a standing queue, after which it is another sender's.
const STANDING: u8 = 3;

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
    /// Those of them delivered since the last such report.
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

/// The last two answers: their times and those of their messages, and the bytes of the later.
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
#[derive(Debug, Default)]
pub(super) struct Transfer {
    /// The window in bytes; 0 before the first answer.
    window: u32,
    /// Size of a message.
    unit: u32,
    /// Slow start ends here; 0 for nowhere.
    threshold: u32,
    slow_start_over: bool,
    competing: bool,
    /// Answers since the last loss while there is one message at a time, because senders that each keep
    /// two fill the buffer.
    single: Option<u8>,
    /// Rounds with losses at a window of two messages: two for each, less one for each without.
    pressed: u8,
    /// Rounds left with the window at its least.
    drain: u8,
    before_drain: u32,
    queue_before_drain: u32,
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
    conflicts: u8,
    low: u8,
    hold: u8,
    silences: u8,
    /// The share of losses in rounds without a queue, of 255.
    quiet_loss: u8,
    last_sent: Instant,
    silent_at: Clock,
}

/// Returns whether a longer queue would make timers of RFC 7252 expire: those of other senders on the
/// path, which would then send everything twice.
fn is_near_default_timers(round_trip: u32, constants: &CarobConstants) -> bool {
    let least = constants.default_timers_near.as_micros_u32();
    (least..constants.default_timers_past.as_micros_u32()).contains(&round_trip)
}

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

    /// The window in messages; none before the first answer.
    pub(super) fn messages(&self) -> Option<u16> {
        let messages = self.window.checked_div(self.unit)?;
        Some(u16::try_from(messages).unwrap_or(u16::MAX).max(1))
    }

    /// The time of the latest certain answer of this transfer, or `departure`, that of its message, if
    /// there is none.
    pub(super) fn latest_answer(&self, departure: Instant) -> Instant {
        let answered = self.spacing.answered[1].since(Clock::from(departure));
        match answered {
            Some(later) if self.spacing.answers > 0 => departure + micros(later),
            _ => departure,
        }
    }

    /// Doublings of the RTO while nothing is received.
    pub(super) fn silent_doublings(&self) -> u8 {
        self.silences.saturating_sub(1)
    }

    pub(super) fn mode(&self) -> &'static str {
        match (self.slow_start_over, self.drain, self.competing) {
            (false, ..) => "slow-start",
            (true, 1.., _) => "drain",
            (true, 0, true) => "compete",
            (true, 0, false) => "delay",
        }
    }

    /// Returns whether a transfer uses the window: since the last time when nothing was
    /// outstanding, as many messages were as it has room for.
    pub(super) fn is_windowed(&self) -> bool {
        self.windowed
    }

    /// Returns whether departures are paced: from the third round of a transfer on, or from the first
    /// answer on that reports several messages.
    pub(super) fn is_paced(&self) -> bool {
        self.reporting == Reporting::Several || (self.rounds >= 2 && self.is_windowed())
    }

    /// The bandwidth-delay product in bytes; none if the capacity is unknown.
    fn product(&self, base: u32) -> Option<u32> {
        let capacity = self.capacity();
        let product = u64::from(capacity) * u64::from(base) / 1_000_000;
        (capacity > 0).then_some(u32::try_from(product).unwrap_or(u32::MAX))
    }

    /// The queueing delay aimed at: a share of the base, at least two messages at capacity.
    fn target(&self, base: u32, constants: &CarobConstants) -> u32 {
        let mut share = constants.queue_target.down(base);
        if is_near_default_timers(base.saturating_add(share), constants) {
            let room = constants.default_timers_near.as_micros_u32().saturating_sub(base);
            share = share.min(room.max(share / 4));
        }
        let messages = constants.queue_messages.of(u64::from(self.unit) * 1_000_000);
        let messages = messages.checked_div(u64::from(self.capacity())).unwrap_or(0);
        let least = constants.queue_target_min.as_micros_u32();
        share.max(least).max(u32::try_from(messages).unwrap_or(u32::MAX))
    }

    /// The target for this window: a smaller window accepts more delay than a larger one, so that
    /// several senders converge.
    fn scaled_target(&self, base: u32, constants: &CarobConstants) -> u32 {
        let target = self.target(base, constants);
        let Some(product) = self.product(base) else {
            return target;
        };
        let half = u64::from(target / 2);
        let scaled = half + half * u64::from(product) / u64::from(self.window.max(self.unit).max(1));
        let most = Ratio::new(5, 2).of(u64::from(target));
        u32::try_from(scaled.min(most)).unwrap_or(u32::MAX)
    }

    /// Notes an exchange with no other outstanding. After a pause the window begins anew.
    pub(super) fn begin(&mut self, now: Instant, rto: Option<Duration>) {
        self.windowed = false;
        self.spacing = Spacing::default();
        let Some(rto) = rto else { return };
        if now.since(self.last_sent) > rto.times(4) && self.slow_start_over {
            self.threshold = self.window;
            self.window = self.window.min(self.unit.saturating_mul(4));
            self.slow_start_over = false;
            (self.competing, self.drain) = (false, 0);
        }
    }

    /// Notes a new exchange beside `running` others.
    pub(super) fn on_start(&mut self, running: u16) {
        if self.single.is_some() {
            return;
        }
        let room = self.messages().unwrap_or(1);
        self.round.full |= room > 1 && running.saturating_add(1) >= room;
        self.windowed |= self.round.full;
    }

    /// Notes a transmission. One behind which others wait is limited by window or pacing.
    pub(super) fn on_sent(&mut self, now: Instant, application_limited: bool) {
        self.last_sent = now;
        self.round.full |= !application_limited && self.rounds > 0 && self.single.is_none();
    }

    /// The time to the next transmission; none if it is not paced.
    pub(super) fn gap(&self, srtt: u32, constants: &CarobConstants) -> Option<Duration> {
        if !self.is_paced() {
            return None;
        }
        let unit = u64::from(self.unit);
        let spread = u64::from(srtt) * unit / u64::from(self.window.max(1));
        let gain = constants.pacing_gain;
        let mut gap = if self.slow_start_over {
            gain.inverse().of(spread)
        } else {
            spread / 2
        };
        let capacity = self.capacity();
        if capacity > 0 {
            let slowest = unit * 1_000_000 / u64::from(capacity);
            let limit = if self.rounds.is_multiple_of(PROBE) {
                constants.probe_rate_limit
            } else {
                constants.rate_limit
            };
            gap = gap.max(limit.inverse().of(slowest));
        }
        Some(Duration::from_micros(gap))
    }

    /// Notes an answer whose transmission is not certain.
    pub(super) fn deliver(&mut self, bytes: u32) {
        self.silences = 0;
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
        let base = path.base().unwrap_or(outcome.round_trip);
        self.unit = outcome.bytes.max(self.unit - self.unit / 8).max(1);
        self.deliver(outcome.delivered());
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
            0 if is_near_default_timers(outcome.round_trip, constants) => 2,
            0 => u32::from(constants.initial_window),
            _ => 2,
        };
        if let Some(answers) = self.single {
            let answers = answers.saturating_add(1);
            let queued = base.saturating_add(self.target(base, constants));
            let stays = outcome.round_trip > queued && answers < constants.single_answers;
            self.single = stays.then_some(answers);
        }
        if self.single.is_some() {
            self.window = self.unit;
        } else {
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
            self.end_round(outcome.now, base, path.greatest(), constants);
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
            let bytes = u64::from(outcome.bytes) + u64::from(outcome.recent);
            if wide * 4 >= narrow * 5 && outcome.recent > outcome.bytes {
                let rate = bytes * 1_000_000 / wide;
                self.rate[0] = self.rate[0].max(u32::try_from(rate).unwrap_or(u32::MAX));
            }
        } else if spacing.answers >= 2
            && let Some(apart @ 1..) = now.since(spacing.answered[0])
            && let Some(sent_apart) = sent_at.since(spacing.sent[0])
        {
            let (wide, narrow) = (u64::from(apart), u64::from(sent_apart));
            if narrow * 2 <= u64::from(srtt) && wide * 4 >= narrow * 5 {
                let bytes = u64::from(spacing.bytes) + u64::from(outcome.delivered());
                let rate = u32::try_from(bytes * 1_000_000 / wide).unwrap_or(u32::MAX);
                self.rate[0] = self.rate[0].max(rate);
            }
        }
        *spacing = Spacing {
            answers: (spacing.answers + 1).min(2),
            answered: [spacing.answered[1], now],
            sent: [spacing.sent[1], sent_at],
            bytes: outcome.delivered(),
        };
    }

    /// Grows the window by what was delivered, until it is the bandwidth-delay product or the
    /// queue shows.
    fn slow_start(&mut self, outcome: &Outcome, base: u32, constants: &CarobConstants) {
        if self.round.full {
            // A report shows the queue late: half the growth until then.
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
        let product = self.product(base).map(|product| product.saturating_add(self.unit));
        // Rates of reports are those of the window while it is small.
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
        if constants.delay_control && self.round.full && outcome.round_trip > queued {
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

    fn end_round(&mut self, now: Instant, base: u32, greatest: u32, constants: &CarobConstants) {
        self.rounds = self.rounds.wrapping_add(1);
        let round = self.round;
        let delivered = self.delivered.wrapping_sub(round.delivered);
        if round.full {
            let place = usize::try_from(self.rounds).unwrap_or_default() % REMEMBERED;
            self.deliveries[place] = delivered;
            self.measure_round(now, delivered);
            self.detect_competitor(base, constants);
            self.count_conflict(now, delivered, base, constants);
            if self.slow_start_over {
                self.adapt(delivered, base, constants);
            }
            self.obey_losses(delivered, base, greatest, constants);
            self.bound();
        }
        self.round = Round {
            began: now.into(),
            delivered: self.delivered,
            ..Round::default()
        };
    }

    /// Bytes per second of a round.
    fn rate_of(&self, now: Instant, bytes: u32) -> u32 {
        let elapsed = Clock::from(now).since(self.round.began).unwrap_or(u32::MAX).max(1);
        u32::try_from(u64::from(bytes) * 1_000_000 / u64::from(elapsed)).unwrap_or(u32::MAX)
    }

    /// What arrived in a round is a lower bound of the capacity.
    fn measure_round(&mut self, now: Instant, delivered: u32) {
        if self.rate[0] > 0 && delivered >= self.unit.saturating_mul(2) {
            self.rate[0] = self.rate[0].max(self.rate_of(now, delivered));
        }
    }

    /// Enters or leaves the competition with a sender that fills the queue: the queue stands
    /// although this window is short, and its length swings.
    fn detect_competitor(&mut self, base: u32, constants: &CarobConstants) {
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
        let may_compete = self.standing >= STANDING && !is_near_default_timers(least, constants);
        if !self.competing && may_compete && swing > base / 2 {
            self.competing = true;
            self.slow_start_over = true;
            self.hold = 0;
            let fill = u64::from(self.capacity()) * u64::from(least) / 1_000_000;
            let share = Ratio::new(5, 8).of(fill);
            let doubled = self.most_delivered().saturating_mul(2);
            let entry = u32::try_from(share).unwrap_or(u32::MAX).min(doubled);
            self.window = self.window.max(entry);
        } else if self.competing && (least < base.saturating_add(base / 2) || swing < base / 3) {
            self.competing = false;
            if let Some(product) = self.product(base) {
                self.window = self.window.min(product.max(self.unit.saturating_mul(2)));
            }
        }
    }

    /// Counts rounds in which the path is shared, and drains the queue once there were enough: no
    /// sender's window alone shows the path without a queue.
    fn count_conflict(&mut self, now: Instant, delivered: u32, base: u32, constants: &CarobConstants) {
        let rate = self.rate_of(now, delivered.saturating_add(self.round.lost));
        let shared = u64::from(rate) * 4 < u64::from(self.capacity()) * 3;
        self.conflicts = if shared {
            self.conflicts.saturating_add(1)
        } else {
            self.conflicts.saturating_sub(2)
        };
        let enough = if self.competing {
            CONFLICTS_COMPETING
        } else {
            CONFLICTS
        };
        let least = self.unit.saturating_mul(2);
        let queue = self.round.least.saturating_sub(base);
        if constants.drain
            && self.drain == 0
            && self.slow_start_over
            && self.conflicts >= enough
            && self.window > least
            && queue > self.target(base, constants) / 4
        {
            self.before_drain = self.window;
            self.queue_before_drain = self.round.least;
            self.drain = 2;
            self.window = least;
            self.conflicts = 0;
        }
    }

    /// Changes the window after a round.
    fn adapt(&mut self, delivered: u32, base: u32, constants: &CarobConstants) {
        let queue = self.round.least.saturating_sub(base);
        let target = self.scaled_target(base, constants);
        if self.drain > 0 {
            self.drain -= 1;
            if self.drain == 0 {
                self.end_drain(queue > target, base);
            }
        } else if self.competing {
            if self.round.lost.saturating_mul(32) > delivered {
                if self.hold == 0 {
                    self.window -= self.window / 16 * 5;
                    self.hold = HOLD;
                }
            } else {
                self.window = self.window.saturating_add(constants.compete_growth.down(self.unit));
            }
        } else if constants.delay_control && queue > target {
            if self.hold == 0 {
                let drained = u64::from(self.window) * u64::from(base.saturating_add(target / 4))
                    / u64::from(self.round.least.max(1));
                self.window = u32::try_from(drained)
                    .unwrap_or(u32::MAX)
                    .clamp(self.window / 2, self.window);
                self.hold = HOLD;
            }
            self.low = 0;
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

    /// Returns to the window before the drain, less what had stood in the queue.
    fn end_drain(&mut self, queued: bool, base: u32) {
        self.window = self.before_drain;
        self.conflicts = 0;
        self.hold = 1;
        if queued {
            let share = u64::from(self.window) * u64::from(base)
                / u64::from(self.queue_before_drain.max(1));
            self.window = u32::try_from(share).unwrap_or(u32::MAX).min(self.window);
        }
    }

    /// Lowers the window after losses, if the queue stands (above twice the target, or in the upper
    /// half of what the path ever had) and more is lost than in rounds without a queue.
    fn obey_losses(&mut self, delivered: u32, base: u32, greatest: u32, constants: &CarobConstants) {
        let lost = self.round.lost;
        let all = u64::from(delivered) + u64::from(lost);
        let share = u8::try_from(u64::from(lost) * 255 / all.max(1)).unwrap_or(u8::MAX);
        let target = self.scaled_target(base, constants);
        let (least, most) = (self.round.least, self.round.greatest);
        let above = least > base.saturating_add(target)
            && most > base.saturating_add(target.saturating_mul(2));
        let upper = greatest > base.saturating_add(self.target(base, constants) / 2)
            && least > base + greatest.saturating_sub(base) / 2;
        let usual = self.quiet_loss.saturating_mul(2).saturating_add(EXCESS);
        if share <= usual {
            self.pressed = self.pressed.saturating_sub(1);
        }
        if !(above || upper) {
            let quiet = u16::from(self.quiet_loss) * 7 + u16::from(share);
            self.quiet_loss = u8::try_from(quiet.div_ceil(8)).unwrap_or(u8::MAX);
            return;
        }
        if share > usual && !self.competing {
            self.slow_start_over = true;
            if self.window <= self.unit.saturating_mul(2) {
                self.pressed = self.pressed.saturating_add(2);
                if constants.single_answers > 0 && self.pressed >= constants.single_after {
                    (self.single, self.pressed) = (Some(0), 0);
                }
            }
            self.window = constants.loss_factor.down(self.window);
            self.hold = HOLD;
        }
    }

    fn most_delivered(&self) -> u32 {
        self.deliveries.iter().copied().max().unwrap_or(0)
    }

    /// Keeps the window within twice what recent rounds delivered, and at two messages at least.
    fn bound(&mut self) {
        let two = self.unit.saturating_mul(2);
        if self.rounds > 4 {
            let most = self.most_delivered().saturating_mul(2).saturating_add(two);
            self.window = self.window.min(most);
        }
        self.window = if self.single.is_some() { self.unit } else { self.window.max(two) };
    }

    /// Handles a transmission whose timer expired.
    pub(super) fn on_lost(&mut self, now: Instant, silent: bool, srtt: u32) {
        self.round.lost = self.round.lost.saturating_add(self.unit);
        self.single = self.single.map(|_| 0);
        // Several messages of a window expire in one silence, which counts once.
        let now = Clock::from(now);
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
            (self.competing, self.drain) = (false, 0);
        }
    }

    /// Halves the window after a 4.29 of the peer.
    pub(super) fn halve(&mut self) {
        self.window = (self.window / 2).max(self.unit);
        self.slow_start_over = true;
    }
}
