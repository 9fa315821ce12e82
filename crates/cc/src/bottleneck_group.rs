//! Congestion control of a bottleneck group: a common send budget for all peers behind one
//! bottleneck.
//!
//! A second layer in front of the per-peer controllers, comparable to a macroflow (RFC 3124). Where
//! a hundred peers share a link, a hundred controllers may each allow a message at once, and none
//! sees the load of the others. Betzler et al. 2016 leave a control over all destinations to future
//! work, and the text of the appendix in early CoCoA drafts is not available
//! (`docs/algorithms.md#aggregate-congestion-control`). **All of this is therefore non-standard**,
//! and kept simple:
//!
//! - A window in bytes and a smoothed round-trip time give a rate, window / SRTT, at which messages
//!   of all peers are paced.
//! - A CON message is in flight until it is acknowledged or its first timer expires; its
//!   retransmissions count at the rate only, as a lost packet leaves the bytes in flight (RFC 9002
//!   B.6). The messages in flight to responsive peers never exceed the window. A peer is responsive
//!   if it has acknowledged a message since its last timeout; the others get what these leave of the
//!   window. One peer has at most [`peer_share`](Constants::peer_share) of the window in flight.
//! - Only CON messages give feedback. Every [`confirm_every`](Constants::confirm_every)th NON
//!   notification, counted over all peers, is sent as CON, if the window admits a CON.
//! - Queueing delay = RTT - recent minimum RTT. Below a target the window grows, at first by the
//!   bytes delivered and later by a message a window; above it, the window shrinks by an eighth.
//! - A timeout of a responsive peer halves the window if there is queueing delay, and else reduces it
//!   by an eighth, because such a loss has another cause. The timeout of another peer reduces nothing:
//!   it may not exist. The window does not grow while no message waits for the budget.
//!
//! The peers' controllers time retransmissions; their bytes count against the budget.

use crate::ratio::Ratio;
use crate::time::{Duration, Instant};

/// Constants of a bottleneck group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Constants {
    /// Initial window in bytes: the size of one IPv6 packet.
    pub initial_window: u32,
    /// Minimum window in bytes.
    pub min_window: u32,
    /// Target queueing delay, as a share of the minimum round trip.
    pub target: Ratio,
    /// Minimum target queueing delay.
    pub target_min: Duration,
    /// Interval of CON notifications: one in this many consecutive NON notifications is sent as
    /// CON; at least 1.
    pub confirm_every: u16,
    /// Share of the window that one peer's messages in flight may take; one message is always
    /// admitted.
    pub peer_share: Ratio,
}

impl Constants {
    /// The choices of this project. `crates/lab/results/aggregate-sensitivity.md` has results with
    /// others.
    pub const DEFAULT: Self = Self {
        initial_window: 1_280,
        min_window: 128,
        target: Ratio::new(1, 4),
        target_min: Duration::from_millis(10),
        confirm_every: 8,
        peer_share: Ratio::new(1, 2),
    };
}

impl Default for Constants {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Assumed round trip before the first measurement: ACK_TIMEOUT (RFC 7252 4.8).
const ROUND_TRIP: Duration = Duration::from_secs(2);

/// The largest window, in bytes.
const WINDOW_MAX: u32 = 16 << 20;

/// Maximum lag of messages behind the rate without a delay: the lateness of timers.
const CATCH_UP: Duration = Duration::from_millis(1);

/// Minimum lifetime of a minimum round trip, since routes change; it counts at most twice as long.
const SHORTEST_FOR: Duration = Duration::from_secs(300);

/// The time at which a message may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendDecision {
    /// Now.
    Now,
    /// Not before this time.
    At(Instant),
    /// After a message of any peer was acknowledged or timed out.
    WindowFull,
    /// After a message of this peer was acknowledged or timed out.
    ShareFull,
}

/// One peer's part of a bottleneck group, kept by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Bytes of its CON messages in flight.
    in_flight: u32,
    /// True if it has acknowledged a message since its last timeout.
    responsive: bool,
}

impl Member {
    /// Returns whether the peer has acknowledged a message since its last timeout.
    pub const fn is_responsive(&self) -> bool {
        self.responsive
    }
}

/// Send budget of all peers behind one bottleneck.
#[derive(Clone, Copy, Debug)]
pub struct BottleneckGroup {
    constants: Constants,
    /// In bytes.
    window: u32,
    /// Bytes of CON messages in flight.
    in_flight: u32,
    /// Bytes from responsive peers.
    responsive: u32,
    /// Bytes sent recently while messages waited, and how many of these were delivered.
    wanted: u32,
    arrived: u32,
    /// The time of the next message.
    next: Instant,
    /// Smoothed; none before the first sample.
    round_trip: Option<Duration>,
    /// The minimum of this period and of the previous one.
    shortest: [Duration; 2],
    span_began: Instant,
    /// Time of the last reduction of the window.
    shrunk: Option<Instant>,
    /// True if the last sample showed queueing delay.
    queues: bool,
    /// True while the window grows by all bytes delivered.
    starting: bool,
    /// NON notifications since the last CON.
    unconfirmed: u16,
}

/// State of a bottleneck group, for display and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct State {
    /// Window in bytes.
    pub window: u32,
    /// Bytes of CON messages that are neither acknowledged nor timed out.
    pub unanswered: u32,
    /// Smoothed round-trip time of CON messages; `None` before the first sample.
    pub round_trip: Option<Duration>,
    /// Recent minimum round-trip time; `None` before the first sample.
    pub shortest: Option<Duration>,
}

impl BottleneckGroup {
    /// Creates the budget of an unknown bottleneck.
    pub fn new(constants: Constants) -> Self {
        let least = constants.min_window.max(1);
        Self {
            constants,
            window: constants.initial_window.clamp(least, WINDOW_MAX.max(least)),
            in_flight: 0,
            responsive: 0,
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

    /// Returns the current state.
    pub fn state(&self) -> State {
        let shortest = self.shortest();
        State {
            window: self.window,
            unanswered: self.in_flight,
            round_trip: self.round_trip,
            shortest: (shortest < Duration::MAX).then_some(shortest),
        }
    }

    /// Decides when a message of this many bytes may be sent to a peer.
    pub fn leave(
        &self,
        now: Instant,
        bytes: u32,
        confirmable: bool,
        member: &Member,
    ) -> SendDecision {
        if confirmable && !self.has_share(bytes, *member) {
            SendDecision::ShareFull
        } else if confirmable && !self.has_room(bytes, member.responsive) {
            SendDecision::WindowFull
        } else if self.next > now {
            SendDecision::At(self.next)
        } else {
            SendDecision::Now
        }
    }

    /// Returns whether the window has room for a CON message of this many bytes to a peer, responsive
    /// or not. One message is always admitted.
    pub fn has_room(&self, bytes: u32, responsive: bool) -> bool {
        let ahead = if responsive {
            self.responsive
        } else {
            self.in_flight
        };
        ahead == 0 || ahead.saturating_add(bytes) <= self.window
    }

    /// Returns whether a peer's share has room for a CON message of this many bytes.
    fn has_share(&self, bytes: u32, member: Member) -> bool {
        // In 64 bits: the sum of two u32 may exceed a u32.
        let after = u64::from(member.in_flight) + u64::from(bytes);
        member.in_flight == 0 || after <= self.constants.peer_share.of(self.window.into())
    }

    /// Returns whether a NON notification that may be sent now must be sent as CON, for feedback.
    /// While the window or the peer's share has no room it need not: it does not wait for feedback.
    pub fn must_confirm(&self, bytes: u32, member: &Member) -> bool {
        // Without a round-trip time there is no rate, so the first notification asks for one. One CON in
        // flight suffices: its ACK gives the sample.
        let unknown = self.round_trip.is_none() && self.in_flight == 0;
        let due = unknown || self.unconfirmed.saturating_add(1) >= self.constants.confirm_every;
        due && self.has_room(bytes, member.responsive) && self.has_share(bytes, *member)
    }

    /// Records a transmission: a new CON (`fresh`), a retransmission of it, or a NON. `waiting`:
    /// this or another message had to wait for the budget. The caller keeps the returned state with
    /// a CON and passes it back with its acknowledgement.
    pub fn on_sent(
        &mut self,
        now: Instant,
        bytes: u32,
        sent: Sent,
        waiting: bool,
        member: &mut Member,
    ) -> GroupPacketState {
        let gap = self.time_of(bytes);
        // Credit for the lateness of a timer only: a longer pause gives none, or it would end in a burst.
        let behind = Instant::from_micros(now.as_micros().saturating_sub(CATCH_UP.as_micros()));
        self.next = self.next.max(behind) + gap;
        // Only these bytes let the window grow: others do not show that the path carries a full window.
        if waiting {
            self.wanted = self.wanted.wrapping_add(bytes);
        }
        match sent {
            Sent::Confirmable => {
                self.in_flight = self.in_flight.saturating_add(bytes);
                member.in_flight = member.in_flight.saturating_add(bytes);
                if member.responsive {
                    self.responsive = self.responsive.saturating_add(bytes);
                }
                self.unconfirmed = 0;
            }
            Sent::Notification => self.unconfirmed = self.unconfirmed.saturating_add(1),
            // The expiry of the first timer has taken the message out of flight, as a lost packet (RFC
            // 9002 B.6); other NON messages have no acknowledgement that could end their flight.
            Sent::Again | Sent::Other => {}
        }
        GroupPacketState(self.wanted)
    }

    /// Records that a CON message is no longer in flight: acknowledged, timed out or cancelled.
    pub fn on_ended(&mut self, bytes: u32, member: &mut Member) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        member.in_flight = member.in_flight.saturating_sub(bytes);
        if member.responsive {
            self.responsive = self.responsive.saturating_sub(bytes);
        }
    }

    /// Records the acknowledgement of a CON message of this many bytes; `round_trip` if it is
    /// unambiguous. The state is the one that [`on_sent`](Self::on_sent) returned for its first
    /// transmission.
    pub fn on_answered(
        &mut self,
        now: Instant,
        bytes: u32,
        state: GroupPacketState,
        round_trip: Option<Duration>,
        member: &mut Member,
    ) {
        if !member.responsive {
            member.responsive = true;
            self.responsive = self.responsive.saturating_add(member.in_flight);
        }
        // An ambiguous acknowledgement shows that the peer responds, but not when (Karn's algorithm).
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
        // All bytes sent before it have arrived, unless a later acknowledgement came first.
        // The counters wrap; a difference beyond half of their range is negative.
        let arrived = state.0.wrapping_sub(self.arrived);
        let arrived = if arrived > u32::MAX / 2 { 0 } else { arrived };
        self.arrived = self.arrived.wrapping_add(arrived);
        self.queues = queued > target.half();
        if queued > target {
            self.starting = false;
            self.shrink(now, self.window / 8);
        // Half of the target already ends exponential growth, whose overshoot shows a round trip later.
        } else if self.starting && self.queues {
            self.starting = false;
        } else if self.starting {
            self.grow(arrived);
        } else {
            // A message a window.
            // The window is at least 1 byte (`new`, `shrink`).
            let grown = u64::from(bytes) * u64::from(arrived) / u64::from(self.window);
            self.grow(u32::try_from(grown).unwrap_or(u32::MAX));
        }
    }

    /// Records the expiry of a CON message's timer. It shrinks the window if the peer has acknowledged
    /// a message since its last timeout.
    pub fn on_lost(&mut self, now: Instant, member: &mut Member) {
        if !member.responsive {
            return;
        }
        member.responsive = false;
        self.responsive = self.responsive.saturating_sub(member.in_flight);
        self.starting = false;
        // Halved as in RFC 5681 only with a sign of a queue: links of devices also lose packets to errors.
        let share = if self.queues { 2 } else { 8 };
        self.shrink(now, self.window / share);
    }

    fn grow(&mut self, bytes: u32) {
        let most = WINDOW_MAX.max(self.constants.min_window);
        self.window = self.window.saturating_add(bytes).min(most);
    }

    /// Reduces the window, once in a round trip: earlier feedback is about messages sent before.
    fn shrink(&mut self, now: Instant, bytes: u32) {
        let pause = self.round_trip.unwrap_or(ROUND_TRIP);
        if self.shrunk.is_some_and(|at| now.since(at) < pause) {
            return;
        }
        self.shrunk = Some(now);
        self.window = (self.window - bytes).max(self.constants.min_window.max(1));
    }

    fn shortest(&self) -> Duration {
        self.shortest[0].min(self.shortest[1])
    }

    /// The time that this many bytes take at the rate.
    fn time_of(&self, bytes: u32) -> Duration {
        let round_trip = self.round_trip.unwrap_or(ROUND_TRIP).as_micros();
        let micros = round_trip.saturating_mul(u64::from(bytes)) / u64::from(self.window.max(1));
        Duration::from_micros(micros)
    }
}

/// The bytes sent before a CON; opaque.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupPacketState(u32);

/// The kind of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The first transmission of a CON message.
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

    /// A budget after `samples` acknowledgements after this time each, with messages always
    /// waiting.
    fn answered(samples: u64, round_trip: u64) -> (BottleneckGroup, Member) {
        let mut member = Member::default();
        let mut budget = BottleneckGroup::new(Constants::DEFAULT);
        for number in 0..samples {
            let now = at(1_000 * number);
            let state = budget.on_sent(now, MESSAGE, Sent::Confirmable, true, &mut member);
            budget.on_ended(MESSAGE, &mut member);
            budget.on_answered(
                now + ms(round_trip),
                MESSAGE,
                state,
                Some(ms(round_trip)),
                &mut member,
            );
        }
        (budget, member)
    }

    #[test]
    fn messages_leave_at_window_over_round_trip() {
        let mut member = Member::default();
        let mut budget = BottleneckGroup::new(Constants::DEFAULT);
        assert_eq!(
            budget.leave(at(0), MESSAGE, false, &member),
            SendDecision::Now
        );
        budget.on_sent(at(0), MESSAGE, Sent::Other, true, &mut member);
        // 64 of 1,280 bytes in 2 s.
        assert_eq!(
            budget.leave(at(0), MESSAGE, false, &member),
            SendDecision::At(at(100))
        );
        assert_eq!(
            budget.leave(at(100), MESSAGE, false, &member),
            SendDecision::Now
        );
    }

    #[test]
    fn time_not_used_is_not_saved_up() {
        let mut member = Member::default();
        let mut budget = BottleneckGroup::new(Constants::DEFAULT);
        budget.on_sent(at(60_000), MESSAGE, Sent::Other, false, &mut member);
        let SendDecision::At(next) = budget.leave(at(60_000), MESSAGE, false, &member) else {
            panic!("a second message leaves at once");
        };
        assert_eq!(next, at(60_099), "but for what timers are late by");
    }

    #[test]
    fn window_bounds_messages_in_flight_but_admits_one() {
        let (mut one, other) = (Member::default(), Member::default());
        let mut budget = BottleneckGroup::new(Constants::DEFAULT);
        assert_eq!(budget.leave(at(0), 5_000, true, &one), SendDecision::Now);
        budget.on_sent(at(0), 1_270, Sent::Confirmable, true, &mut one);
        let later = at(60_000);
        assert_eq!(
            budget.leave(later, MESSAGE, true, &other),
            SendDecision::WindowFull
        );
        assert_eq!(
            budget.leave(later, MESSAGE, false, &other),
            SendDecision::Now
        );
        budget.on_ended(1_270, &mut one);
        assert_eq!(
            budget.leave(later, MESSAGE, true, &other),
            SendDecision::Now
        );
    }

    #[test]
    fn one_peer_has_half_of_the_window_at_most() {
        let (mut one, other) = (Member::default(), Member::default());
        let mut budget = BottleneckGroup::new(Constants::DEFAULT);
        budget.on_sent(at(0), 600, Sent::Confirmable, true, &mut one);
        let later = at(60_000);
        assert_eq!(budget.leave(later, 40, true, &one), SendDecision::Now);
        assert_eq!(budget.leave(later, 41, true, &one), SendDecision::ShareFull);
        assert_eq!(budget.leave(later, 680, true, &other), SendDecision::Now);
    }

    #[test]
    fn unresponsive_peers_do_not_occupy_the_window() {
        let (mut budget, mut member) = answered(1, 100);
        let window = budget.window;
        let mut silent = [Member::default(); 4];
        for silent in &mut silent {
            budget.on_sent(at(5_000), window / 4, Sent::Confirmable, true, silent);
        }
        let later = at(60_000);
        let unknown = Member::default();
        assert_eq!(
            budget.leave(later, MESSAGE, true, &unknown),
            SendDecision::WindowFull
        );
        assert_eq!(
            budget.leave(later, MESSAGE, true, &member),
            SendDecision::Now
        );
        // The messages of responsive peers count for both.
        budget.on_ended(window / 4, &mut silent[0]);
        budget.on_sent(later, window / 4, Sent::Confirmable, true, &mut member);
        assert!(!budget.has_room(1, false) && budget.has_room(window / 2, true));
        // It is responsive no longer after a timeout, and again after an acknowledgement.
        budget.on_lost(later, &mut member);
        assert_eq!(budget.responsive, 0);
        let none = GroupPacketState::default();
        budget.on_answered(later, MESSAGE, none, None, &mut member);
        assert_eq!(budget.responsive, window / 4);
        budget.on_ended(window / 4, &mut member);
        assert_eq!((budget.responsive, member.in_flight), (0, 0));
    }

    #[test]
    fn timeouts_of_unresponsive_peers_do_not_reduce_the_window() {
        let (mut budget, mut member) = answered(2, 100);
        let before = budget.window;
        for second in 10..20 {
            budget.on_lost(at(1_000 * second), &mut Member::default());
        }
        assert_eq!((budget.window, budget.starting), (before, true));
        budget.on_lost(at(20_000), &mut member);
        let once = budget.window;
        assert!(once < before);
        budget.on_lost(at(30_000), &mut member);
        assert_eq!(budget.window, once, "the second in a row");
    }

    #[test]
    fn full_window_permits_no_con_notification() {
        let (mut budget, mut member) = answered(1, 100);
        for _ in 0..8 {
            budget.on_sent(at(5_000), MESSAGE, Sent::Notification, true, &mut member);
        }
        assert!(budget.must_confirm(MESSAGE, &member));
        let window = budget.window;
        let other = &mut Member::default();
        budget.on_sent(at(6_000), window, Sent::Confirmable, true, other);
        for _ in 0..8 {
            budget.on_sent(at(7_000), MESSAGE, Sent::Notification, true, &mut member);
        }
        assert!(!budget.must_confirm(MESSAGE, &Member::default()));
        assert!(budget.must_confirm(MESSAGE, &member), "it is responsive");
    }

    #[test]
    fn window_grows_by_arrivals_until_queueing() {
        let (mut budget, mut member) = answered(5, 100);
        assert_eq!(budget.window, 1_280 + 5 * MESSAGE);
        // Another message was sent since, without feedback so far.
        let state = budget.on_sent(at(10_000), MESSAGE, Sent::Confirmable, true, &mut member);
        budget.on_sent(at(10_000), 1_000, Sent::Other, true, &mut member);
        budget.on_answered(at(10_100), MESSAGE, state, Some(ms(100)), &mut member);
        assert_eq!(budget.window, 1_280 + 6 * MESSAGE);
        // 13 ms of queue: half of the target of 25 ms is passed.
        let before = budget.window;
        let state = budget.on_sent(
            at(11_000),
            before - 1_000,
            Sent::Confirmable,
            true,
            &mut member,
        );
        budget.on_answered(at(11_113), MESSAGE, state, Some(ms(113)), &mut member);
        assert_eq!((budget.window, budget.starting), (before, false));
        let state = budget.on_sent(at(12_000), before, Sent::Confirmable, true, &mut member);
        budget.on_answered(at(12_100), MESSAGE, state, Some(ms(100)), &mut member);
        assert_eq!(budget.window, before + MESSAGE, "a message a window");
    }

    #[test]
    fn reordered_responses_count_once() {
        let mut member = Member::default();
        let mut budget = BottleneckGroup::new(Constants::DEFAULT);
        let first = budget.on_sent(at(0), MESSAGE, Sent::Confirmable, true, &mut member);
        let second = budget.on_sent(at(1), MESSAGE, Sent::Confirmable, true, &mut member);
        budget.on_answered(at(101), MESSAGE, second, Some(ms(100)), &mut member);
        budget.on_answered(at(101), MESSAGE, first, Some(ms(101)), &mut member);
        assert_eq!(budget.window, 1_280 + 2 * MESSAGE);
    }

    #[test]
    fn loss_without_queue_costs_an_eighth_and_with_queue_a_half() {
        let (mut budget, mut member) = answered(2, 100);
        let before = budget.window;
        budget.on_lost(at(5_000), &mut member);
        assert_eq!(budget.window, before - before / 8);
        let state = budget.on_sent(at(6_000), MESSAGE, Sent::Confirmable, true, &mut member);
        budget.on_answered(at(6_115), MESSAGE, state, Some(ms(115)), &mut member);
        let before = budget.window;
        budget.on_lost(at(7_000), &mut member);
        assert_eq!(budget.window, before - before / 2);
    }

    #[test]
    fn window_shrinks_once_per_round_trip_to_its_minimum() {
        let (mut budget, mut member) = answered(1, 100);
        let before = budget.window;
        budget.on_answered(
            at(2_000),
            MESSAGE,
            GroupPacketState(0),
            Some(ms(200)),
            &mut member,
        );
        budget.on_answered(
            at(2_010),
            MESSAGE,
            GroupPacketState(0),
            Some(ms(200)),
            &mut member,
        );
        assert_eq!(budget.window, before - before / 8);
        for second in 3..60 {
            let now = at(1_000 * second);
            budget.on_lost(now, &mut member);
            budget.on_answered(now, MESSAGE, GroupPacketState(0), None, &mut member);
        }
        assert_eq!(budget.window, Constants::DEFAULT.min_window);
        assert!(!budget.starting);
    }

    #[test]
    fn window_does_not_grow_without_waiting_messages() {
        let mut member = Member::default();
        let mut budget = BottleneckGroup::new(Constants::DEFAULT);
        for second in 0..100 {
            let now = at(1_000 * second);
            let state = budget.on_sent(now, MESSAGE, Sent::Confirmable, false, &mut member);
            budget.on_ended(MESSAGE, &mut member);
            budget.on_answered(now + ms(100), MESSAGE, state, Some(ms(100)), &mut member);
        }
        assert_eq!(budget.window, 1_280);
    }

    #[test]
    fn the_first_notification_and_every_eighth_is_confirmed() {
        let mut member = Member::default();
        let mut budget = BottleneckGroup::new(Constants::DEFAULT);
        let mut confirmed = [false; 24];
        for (number, confirmed) in (0..).zip(confirmed.iter_mut()) {
            let now = at(1_000 * number);
            *confirmed = budget.must_confirm(MESSAGE, &member);
            if *confirmed {
                let state = budget.on_sent(now, MESSAGE, Sent::Confirmable, true, &mut member);
                budget.on_ended(MESSAGE, &mut member);
                budget.on_answered(now, MESSAGE, state, Some(ms(100)), &mut member);
            } else {
                budget.on_sent(now, MESSAGE, Sent::Notification, true, &mut member);
            }
        }
        let which: [usize; 3] = [0, 8, 16];
        for (number, confirmed) in confirmed.iter().enumerate() {
            assert_eq!(*confirmed, which.contains(&number), "{number}");
        }
    }

    #[test]
    fn a_longer_route_becomes_the_shortest_in_time() {
        let (mut budget, mut member) = answered(1, 100);
        assert_eq!(budget.state().shortest, Some(ms(100)));
        for minute in 1..12 {
            budget.on_answered(
                at(60_000 * minute),
                MESSAGE,
                GroupPacketState(0),
                Some(ms(300)),
                &mut member,
            );
        }
        assert_eq!(budget.state().shortest, Some(ms(300)));
    }

    #[test]
    fn absurd_numbers_do_no_harm() {
        let mut constants = Constants::DEFAULT;
        (constants.initial_window, constants.min_window) = (0, 0);
        constants.confirm_every = 0;
        let mut member = Member::default();
        let mut budget = BottleneckGroup::new(constants);
        budget.on_lost(Instant::FAR_FUTURE, &mut member);
        let (far, most) = (Instant::FAR_FUTURE, u32::MAX);
        let state = budget.on_sent(far, most, Sent::Confirmable, true, &mut member);
        budget.on_answered(far, most, state, Some(Duration::MAX), &mut member);
        budget.on_answered(
            Instant::ZERO,
            most,
            GroupPacketState(7),
            Some(Duration::ZERO),
            &mut member,
        );
        budget.on_ended(u32::MAX, &mut member);
        assert!(budget.must_confirm(MESSAGE, &member) && budget.window >= 1);
    }
}
