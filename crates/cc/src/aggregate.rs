//! A budget over all peers behind one bottleneck: a second layer in front of their controllers.
//!
//! Controllers work peer by peer. Where a hundred peers share a link, a hundred controllers may each
//! allow a message at once, and none hears what the others cost. Betzler et al. 2016 leave a
//! control over all destinations to future work, and the text of the appendix that early CoCoA
//! drafts had is not available (`docs/algorithms.md#aggregate-congestion-control`). **All of this
//! is therefore non-standard**, and kept simple:
//!
//! * A window in bytes and a smoothed round-trip time give a rate, window / SRTT, at which messages
//!   of all peers leave, one by one. CON messages that are not answered yet never exceed the window.
//! * What is learnt comes from CON messages. Among NON notifications every
//!   [`confirm_every`](Constants::confirm_every)th of all peers together is made one.
//! * Beyond the shortest round trip of late, a round trip is time in queues. Below a target the
//!   window grows, at first by what arrives and later by a message a window; above it, it shrinks by
//!   an eighth. When a timer runs out it shrinks by a half if there are queues, and else by an eighth,
//!   as what is lost then was lost for another reason. It does not grow while nothing waits for it.
//!
//! Retransmissions are timed by the peers' controllers; the budget is charged for them.

use crate::ratio::Ratio;
use crate::time::{Duration, Instant};

/// What a budget is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Constants {
    /// The window before anything is known, in bytes: what one IPv6 packet may hold.
    pub initial_bytes: u32,
    /// The least window, in bytes.
    pub least_bytes: u32,
    /// The time in queues that is aimed at, as a share of the shortest round trip.
    pub target: Ratio,
    /// The least such time.
    pub target_min: Duration,
    /// Of how many NON notifications in a row the last is made CON; at least 1.
    pub confirm_every: u16,
}

impl Constants {
    /// The choices of this project. What becomes of results with others is in
    /// `crates/lab/results/aggregate-sensitivity.md`.
    pub const DEFAULT: Self = Self {
        initial_bytes: 1_280,
        least_bytes: 128,
        target: Ratio::new(1, 4),
        target_min: Duration::from_millis(10),
        confirm_every: 8,
    };
}

impl Default for Constants {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The round trip that is supposed before one was measured: ACK_TIMEOUT (RFC 7252 4.8).
const ROUND_TRIP: Duration = Duration::from_secs(2);

/// The largest window, in bytes.
const WINDOW_MAX: u32 = 16 << 20;

/// By how much messages may be behind the rate and still leave at once: what timers are late by.
const CATCH_UP: Duration = Duration::from_millis(1);

/// For how long a shortest round trip counts, at least; it counts at most twice as long. Routes
/// change.
const SHORTEST_FOR: Duration = Duration::from_secs(300);

/// When a message may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Now.
    Now,
    /// Not before this time.
    At(Instant),
    /// Not before a message was answered or given up.
    Answered,
}

/// The budget of all peers behind one bottleneck.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate {
    constants: Constants,
    /// In bytes.
    window: u32,
    /// Bytes of CON messages that are not answered.
    unanswered: u32,
    /// Bytes sent of late while messages waited, and as many of them as have arrived by now.
    wanted: u32,
    arrived: u32,
    /// When the next message may leave.
    next: Instant,
    /// Smoothed; none before the first.
    round_trip: Option<Duration>,
    /// The shortest of this span of time and of the one before.
    shortest: [Duration; 2],
    span_began: Instant,
    /// The window was made smaller.
    shrunk: Option<Instant>,
    /// Whether there were queues when something was last heard of them.
    queues: bool,
    /// Whether it still grows by all that arrives.
    starting: bool,
    /// NON notifications since the last CON.
    unconfirmed: u16,
}

/// The state of a budget, for people and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct State {
    /// In bytes.
    pub window: u32,
    /// Bytes of CON messages that are not answered.
    pub unanswered: u32,
    /// Smoothed round-trip time of CON messages; none before the first was answered.
    pub round_trip: Option<Duration>,
    /// The shortest of late; none likewise.
    pub shortest: Option<Duration>,
}

impl Aggregate {
    /// The budget of a bottleneck that nothing is known of.
    pub fn new(constants: Constants) -> Self {
        let least = constants.least_bytes.max(1);
        Self {
            constants,
            window: constants.initial_bytes.clamp(least, WINDOW_MAX.max(least)),
            unanswered: 0,
            wanted: 0,
            arrived: 0,
            next: Instant::ZERO,
            round_trip: None,
            shortest: [Duration::MAX; 2],
            span_began: Instant::ZERO,
            shrunk: None,
            queues: false,
            starting: true,
            unconfirmed: 0,
        }
    }

    /// Its state.
    pub fn state(&self) -> State {
        let shortest = self.shortest();
        State {
            window: self.window,
            unanswered: self.unanswered,
            round_trip: self.round_trip,
            shortest: (shortest < Duration::MAX).then_some(shortest),
        }
    }

    /// When a message of this many bytes may leave.
    pub fn leave(&self, now: Instant, bytes: u32, confirmable: bool) -> Leave {
        // One message is always allowed.
        let full = self.unanswered > 0 && self.unanswered.saturating_add(bytes) > self.window;
        if confirmable && full {
            Leave::Answered
        } else if self.next > now {
            Leave::At(self.next)
        } else {
            Leave::Now
        }
    }

    /// Whether a NON notification that may leave now is to leave as CON, so that something is
    /// learnt.
    pub fn must_confirm(&self) -> bool {
        let unknown = self.round_trip.is_none() && self.unanswered == 0;
        unknown || self.unconfirmed.saturating_add(1) >= self.constants.confirm_every
    }

    /// A copy leaves: a CON that is not under way yet (`fresh`), a retransmission of it, or a NON.
    /// `waiting`: this or another message had to wait for the budget. What is returned is to be kept
    /// with a CON and handed back when it is answered.
    pub fn on_sent(&mut self, now: Instant, bytes: u32, sent: Sent, waiting: bool) -> Mark {
        let gap = self.time_of(bytes);
        let behind = Instant::from_micros(now.as_micros().saturating_sub(CATCH_UP.as_micros()));
        self.next = self.next.max(behind) + gap;
        if waiting {
            self.wanted = self.wanted.wrapping_add(bytes);
        }
        match sent {
            Sent::Confirmable => {
                self.unanswered = self.unanswered.saturating_add(bytes);
                self.unconfirmed = 0;
            }
            Sent::Notification => self.unconfirmed = self.unconfirmed.saturating_add(1),
            Sent::Again | Sent::Other => {}
        }
        Mark(self.wanted)
    }

    /// A CON message is not under way any more: answered, given up or cancelled.
    pub fn on_ended(&mut self, bytes: u32) {
        self.unanswered = self.unanswered.saturating_sub(bytes);
    }

    /// A CON message of this many bytes was answered; after which time, if that is certain. `mark` is
    /// what [`on_sent`](Self::on_sent) gave for its first copy.
    pub fn on_answered(
        &mut self,
        now: Instant,
        bytes: u32,
        mark: Mark,
        round_trip: Option<Duration>,
    ) {
        let Some(round_trip) = round_trip else { return };
        if now.since(self.span_began) >= SHORTEST_FOR {
            self.shortest = [Duration::MAX, self.shortest[0]];
            self.span_began = now;
        }
        self.shortest[0] = self.shortest[0].min(round_trip);
        // RFC 6298's gain.
        let smoothed = self.round_trip.map_or(round_trip, |before| {
            Duration::from_micros(
                (before
                    .as_micros()
                    .saturating_mul(7)
                    .saturating_add(round_trip.as_micros()))
                    / 8,
            )
        });
        self.round_trip = Some(smoothed);
        let shortest = self.shortest();
        let target = shortest
            .scale(self.constants.target)
            .max(self.constants.target_min);
        let queued = round_trip.saturating_sub(shortest);
        // What was sent up to it has arrived, if no later one was heard of before.
        let arrived = mark.0.wrapping_sub(self.arrived);
        let arrived = if arrived > u32::MAX / 2 { 0 } else { arrived };
        self.arrived = self.arrived.wrapping_add(arrived);
        self.queues = queued > target.half();
        if queued > target {
            self.starting = false;
            self.shrink(now, self.window / 8);
        } else if self.starting && self.queues {
            self.starting = false;
        } else if self.starting {
            self.grow(arrived);
        } else {
            // A message a window.
            let grown = u64::from(bytes) * u64::from(arrived) / u64::from(self.window);
            self.grow(u32::try_from(grown).unwrap_or(u32::MAX));
        }
    }

    /// The timer of a CON message ran out.
    pub fn on_lost(&mut self, now: Instant) {
        self.starting = false;
        let share = if self.queues { 2 } else { 8 };
        self.shrink(now, self.window / share);
    }

    fn grow(&mut self, bytes: u32) {
        let most = WINDOW_MAX.max(self.constants.least_bytes);
        self.window = self.window.saturating_add(bytes).min(most);
    }

    /// Makes the window smaller, once in a round trip: what is heard until then is of messages that
    /// left before.
    fn shrink(&mut self, now: Instant, bytes: u32) {
        let pause = self.round_trip.unwrap_or(ROUND_TRIP);
        if self.shrunk.is_some_and(|at| now.since(at) < pause) {
            return;
        }
        self.shrunk = Some(now);
        self.window = (self.window - bytes).max(self.constants.least_bytes.max(1));
    }

    fn shortest(&self) -> Duration {
        self.shortest[0].min(self.shortest[1])
    }

    /// How long the rate takes for this many bytes.
    fn time_of(&self, bytes: u32) -> Duration {
        let round_trip = self.round_trip.unwrap_or(ROUND_TRIP).as_micros();
        let micros = round_trip.saturating_mul(u64::from(bytes)) / u64::from(self.window.max(1));
        Duration::from_micros(micros)
    }
}

/// How much had been sent when a CON left; opaque.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u32);

/// What a copy that leaves is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The first copy of a CON message.
    Confirmable,
    /// A retransmission.
    Again,
    /// A NON notification.
    Notification,
    /// Another NON message.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: u32 = 64;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A budget that has had `samples` answers after this time each, always wanted.
    fn answered(samples: u64, round_trip: u64) -> Aggregate {
        let mut budget = Aggregate::new(Constants::DEFAULT);
        for number in 0..samples {
            let now = at(1_000 * number);
            let mark = budget.on_sent(now, MESSAGE, Sent::Confirmable, true);
            budget.on_ended(MESSAGE);
            budget.on_answered(now + ms(round_trip), MESSAGE, mark, Some(ms(round_trip)));
        }
        budget
    }

    #[test]
    fn messages_leave_at_window_over_round_trip() {
        let mut budget = Aggregate::new(Constants::DEFAULT);
        assert_eq!(budget.leave(at(0), MESSAGE, false), Leave::Now);
        budget.on_sent(at(0), MESSAGE, Sent::Other, true);
        // 64 of 1,280 bytes in 2 s.
        assert_eq!(budget.leave(at(0), MESSAGE, false), Leave::At(at(100)));
        assert_eq!(budget.leave(at(100), MESSAGE, false), Leave::Now);
    }

    #[test]
    fn time_not_used_is_not_saved_up() {
        let mut budget = Aggregate::new(Constants::DEFAULT);
        budget.on_sent(at(60_000), MESSAGE, Sent::Other, false);
        let Leave::At(next) = budget.leave(at(60_000), MESSAGE, false) else {
            panic!("a second message leaves at once");
        };
        assert_eq!(next, at(60_099), "but for what timers are late by");
    }

    #[test]
    fn unanswered_messages_stay_within_the_window_and_one_is_always_allowed() {
        let mut budget = Aggregate::new(Constants::DEFAULT);
        assert_eq!(budget.leave(at(0), 5_000, true), Leave::Now);
        budget.on_sent(at(0), 1_270, Sent::Confirmable, true);
        assert_eq!(budget.leave(at(60_000), MESSAGE, true), Leave::Answered);
        assert_eq!(budget.leave(at(60_000), MESSAGE, false), Leave::Now);
        budget.on_ended(1_270);
        assert_eq!(budget.leave(at(60_000), MESSAGE, true), Leave::Now);
    }

    #[test]
    fn it_grows_by_what_arrives_until_queues_show() {
        let mut budget = answered(5, 100);
        assert_eq!(budget.window, 1_280 + 5 * MESSAGE);
        // Another message has left since, of which nothing is known.
        let mark = budget.on_sent(at(10_000), MESSAGE, Sent::Confirmable, true);
        budget.on_sent(at(10_000), 1_000, Sent::Other, true);
        budget.on_answered(at(10_100), MESSAGE, mark, Some(ms(100)));
        assert_eq!(budget.window, 1_280 + 6 * MESSAGE);
        // 13 ms of queue: half of the target of 25 ms is passed.
        let before = budget.window;
        let mark = budget.on_sent(at(11_000), before - 1_000, Sent::Confirmable, true);
        budget.on_answered(at(11_113), MESSAGE, mark, Some(ms(113)));
        assert_eq!((budget.window, budget.starting), (before, false));
        let mark = budget.on_sent(at(12_000), before, Sent::Confirmable, true);
        budget.on_answered(at(12_100), MESSAGE, mark, Some(ms(100)));
        assert_eq!(budget.window, before + MESSAGE, "a message a window");
    }

    #[test]
    fn answers_that_overtake_each_other_count_once() {
        let mut budget = Aggregate::new(Constants::DEFAULT);
        let first = budget.on_sent(at(0), MESSAGE, Sent::Confirmable, true);
        let second = budget.on_sent(at(1), MESSAGE, Sent::Confirmable, true);
        budget.on_answered(at(101), MESSAGE, second, Some(ms(100)));
        budget.on_answered(at(101), MESSAGE, first, Some(ms(101)));
        assert_eq!(budget.window, 1_280 + 2 * MESSAGE);
    }

    #[test]
    fn what_is_lost_without_queues_costs_an_eighth_and_with_them_a_half() {
        let mut budget = answered(2, 100);
        let before = budget.window;
        budget.on_lost(at(5_000));
        assert_eq!(budget.window, before - before / 8);
        let mark = budget.on_sent(at(6_000), MESSAGE, Sent::Confirmable, true);
        budget.on_answered(at(6_115), MESSAGE, mark, Some(ms(115)));
        let before = budget.window;
        budget.on_lost(at(7_000));
        assert_eq!(budget.window, before - before / 2);
    }

    #[test]
    fn it_shrinks_once_in_a_round_trip_and_never_below_the_least() {
        let mut budget = answered(1, 100);
        let before = budget.window;
        budget.on_answered(at(2_000), MESSAGE, Mark(0), Some(ms(200)));
        budget.on_answered(at(2_010), MESSAGE, Mark(0), Some(ms(200)));
        assert_eq!(budget.window, before - before / 8);
        for second in 3..60 {
            budget.on_lost(at(1_000 * second));
        }
        assert_eq!(budget.window, Constants::DEFAULT.least_bytes);
        assert!(!budget.starting);
    }

    #[test]
    fn it_does_not_grow_while_nothing_waits() {
        let mut budget = Aggregate::new(Constants::DEFAULT);
        for second in 0..100 {
            let now = at(1_000 * second);
            let mark = budget.on_sent(now, MESSAGE, Sent::Confirmable, false);
            budget.on_ended(MESSAGE);
            budget.on_answered(now + ms(100), MESSAGE, mark, Some(ms(100)));
        }
        assert_eq!(budget.window, 1_280);
    }

    #[test]
    fn the_first_notification_and_every_eighth_is_confirmed() {
        let mut budget = Aggregate::new(Constants::DEFAULT);
        let mut confirmed = [false; 24];
        for (number, confirmed) in (0..).zip(confirmed.iter_mut()) {
            let now = at(1_000 * number);
            *confirmed = budget.must_confirm();
            if *confirmed {
                let mark = budget.on_sent(now, MESSAGE, Sent::Confirmable, true);
                budget.on_ended(MESSAGE);
                budget.on_answered(now, MESSAGE, mark, Some(ms(100)));
            } else {
                budget.on_sent(now, MESSAGE, Sent::Notification, true);
            }
        }
        let which: [usize; 3] = [0, 8, 16];
        for (number, confirmed) in confirmed.iter().enumerate() {
            assert_eq!(*confirmed, which.contains(&number), "{number}");
        }
    }

    #[test]
    fn a_longer_route_becomes_the_shortest_in_time() {
        let mut budget = answered(1, 100);
        assert_eq!(budget.state().shortest, Some(ms(100)));
        for minute in 1..12 {
            budget.on_answered(at(60_000 * minute), MESSAGE, Mark(0), Some(ms(300)));
        }
        assert_eq!(budget.state().shortest, Some(ms(300)));
    }

    #[test]
    fn absurd_numbers_do_no_harm() {
        let mut constants = Constants::DEFAULT;
        (constants.initial_bytes, constants.least_bytes) = (0, 0);
        constants.confirm_every = 0;
        let mut budget = Aggregate::new(constants);
        budget.on_lost(Instant::FAR_FUTURE);
        let (far, most) = (Instant::FAR_FUTURE, u32::MAX);
        let mark = budget.on_sent(far, most, Sent::Confirmable, true);
        budget.on_answered(far, most, mark, Some(Duration::MAX));
        budget.on_answered(Instant::ZERO, most, Mark(7), Some(Duration::ZERO));
        budget.on_ended(u32::MAX);
        assert!(budget.must_confirm() && budget.window >= 1);
    }
}
