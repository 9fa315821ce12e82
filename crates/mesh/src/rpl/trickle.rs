//! Trickle (RFC 6206): the timer of DIOs, as in Contiki.

use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};

use carob_sim_core::random::Stream;

/// Maximum interval, regardless of the doublings.
const INTERVAL_MAX: Duration = Duration::from_secs(1 << 32);

/// The Trickle timer of one node.
#[derive(Clone, Debug)]
pub(super) struct Trickle {
    min: Duration,
    doublings: u8,
    redundancy: u8,
    /// Doublings of the current interval.
    doubled: u8,
    /// The consistency counter `c` of this interval.
    consistent: u8,
    /// The end of the interval.
    end: Instant,
    /// The next expiry: the chosen time `t` within the interval, then its end.
    at: Option<Instant>,
    /// True before the chosen time `t`.
    to_send: bool,
}

impl Trickle {
    pub(super) fn new(min: Duration, doublings: u8, redundancy: u8) -> Self {
        Self {
            min: min.max(Duration::from_millis(1)),
            doublings,
            redundancy,
            doubled: doublings,
            consistent: 0,
            end: Instant::ZERO,
            at: None,
            to_send: false,
        }
    }

    /// Starts the first interval.
    pub(super) fn start(&mut self, now: Instant, stream: &mut Stream) {
        self.doubled = 0;
        self.begin(now, stream);
    }

    /// Resets to the shortest interval after an inconsistency, unless that interval is running.
    pub(super) fn reset(&mut self, now: Instant, stream: &mut Stream) {
        // RFC 6206 4.2 step 6: in an interval of Imin an inconsistency changes nothing, or frequent ones
        // would postpone the message for ever.
        if self.at.is_some() && self.doubled > 0 {
            self.start(now, stream);
        }
    }

    /// Counts a consistent message.
    pub(super) fn on_consistent(&mut self) {
        self.consistent = self.consistent.saturating_add(1);
    }

    /// The time of the next [`Self::expire`].
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Handles the expiry. Returns whether to send a DIO.
    pub(super) fn expire(&mut self, now: Instant, stream: &mut Stream) -> bool {
        if self.to_send {
            self.to_send = false;
            self.at = Some(self.end.max(now));
            return self.redundancy == 0 || self.consistent < self.redundancy;
        }
        if self.doubled < self.doublings {
            self.doubled += 1;
        }
        self.begin(now, stream);
        false
    }

    /// The current interval.
    pub(super) fn interval(&self) -> Duration {
        let doubled = 1_u64
            .checked_shl(u32::from(self.doubled))
            .unwrap_or(u64::MAX);
        self.min.times(doubled).min(INTERVAL_MAX)
    }

    fn begin(&mut self, now: Instant, stream: &mut Stream) {
        let interval = self.interval();
        // t is in the second half of the interval (RFC 6206 4.2 step 2): a listen-only period first. In 128
        // bits, because an interval of months times a draw exceeds 64.
        let half = u128::from(interval.as_micros() - interval.half().as_micros());
        let drawn = ((half + 1) * u128::from(stream.next_u32())) >> 32;
        self.consistent = 0;
        self.to_send = true;
        self.end = now + interval;
        let drawn = u64::try_from(drawn).unwrap_or(0);
        self.at = Some(now + interval.half() + Duration::from_micros(drawn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_micros(4_096_000);

    fn trickle(doublings: u8) -> (Trickle, Stream) {
        (Trickle::new(MIN, doublings, 10), Stream::new(1, "trickle"))
    }

    /// Times of messages until `end`.
    fn run(trickle: &mut Trickle, stream: &mut Stream, end: Instant) -> Vec<Instant> {
        let mut sent = Vec::new();
        while let Some(at) = trickle.at().filter(|at| *at <= end) {
            if trickle.expire(at, stream) {
                sent.push(at);
            }
        }
        sent
    }

    #[test]
    fn intervals_double_with_one_message_in_second_half() {
        let (mut trickle, mut stream) = trickle(3);
        trickle.start(Instant::ZERO, &mut stream);
        let sent = run(&mut trickle, &mut stream, Instant::ZERO + MIN.times(31));
        assert_eq!(sent.len(), 6);
        let mut begin = Instant::ZERO;
        for (number, at) in sent.into_iter().enumerate() {
            let interval = MIN.times(1 << number.min(3));
            assert!(
                at >= begin + interval.half() && at <= begin + interval,
                "{number}: {at:?}"
            );
            begin += interval;
        }
    }

    #[test]
    fn reset_shortens_all_but_the_shortest_interval() {
        let (mut trickle, mut stream) = trickle(8);
        trickle.reset(Instant::ZERO, &mut stream);
        assert_eq!(trickle.at(), None, "it was not started");
        trickle.start(Instant::ZERO, &mut stream);
        let first = trickle.at();
        trickle.reset(Instant::from_micros(1_000_000), &mut stream);
        assert_eq!(trickle.at(), first);
        let now = Instant::ZERO + MIN.times(3);
        run(&mut trickle, &mut stream, now);
        assert!(trickle.interval() > MIN);
        trickle.reset(now, &mut stream);
        assert_eq!(trickle.interval(), MIN);
        let next = trickle.at().expect("it runs");
        assert!(next >= now + MIN.half() && next <= now + MIN);
    }

    #[test]
    fn redundant_messages_are_suppressed_for_one_interval() {
        let (mut trickle, mut stream) = trickle(0);
        trickle.start(Instant::ZERO, &mut stream);
        for _ in 0..10 {
            trickle.on_consistent();
        }
        let sent = run(&mut trickle, &mut stream, Instant::ZERO + MIN);
        assert_eq!(sent, []);
        let sent = run(&mut trickle, &mut stream, Instant::ZERO + MIN.times(2));
        assert_eq!(sent.len(), 1);
    }

    #[test]
    fn intervals_of_any_number_of_doublings_stay_finite() {
        let (mut trickle, mut stream) = trickle(255);
        trickle.start(Instant::ZERO, &mut stream);
        for _ in 0..600 {
            let at = trickle.at().expect("it runs");
            trickle.expire(at, &mut stream);
        }
        assert_eq!(trickle.interval(), INTERVAL_MAX);
    }
}
