//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, as Linux has them).

use carob_cc::time::{Duration, Instant};

use super::scoreboard::{PacketState, Sent};
use crate::tcp::congestion::RateSample;
use crate::tcp::settings::RateSampleOf;

#[derive(Clone, Debug)]
pub(super) struct Rate {
    of: RateSampleOf,
    /// Segments delivered so far.
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    first_sent_at: Instant,
    /// Samples are application-limited until more than this is delivered; 0 if not.
    app_limited: u64,
    min_rtt: Option<Duration>,
    /// The segment that gives the sample, of those that this ACK delivers, and its transmission
    /// time.
    latest: Option<(PacketState, Instant)>,
}

impl Rate {
    pub(super) fn new(of: RateSampleOf) -> Self {
        Self {
            of,
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent_at: Instant::ZERO,
            app_limited: 0,
            min_rtt: None,
            latest: None,
        }
    }

    /// The packet state of a segment sent now; `idle` if nothing was outstanding.
    /// `in_flight` segments are in flight with it, and `losses` were marked so far.
    pub(super) fn packet_state(
        &mut self,
        now: Instant,
        idle: bool,
        (in_flight, losses): (u32, u64),
    ) -> PacketState {
        // A sample must not count the idle time before this segment.
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        PacketState {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited > 0,
            in_flight,
            losses,
        }
    }

    /// Marks sending as application-limited, until everything in flight is delivered.
    pub(super) fn limited_by_application(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    pub(super) fn is_limited_by_application(&self) -> bool {
        self.app_limited > 0
    }

    /// Records a segment that an ACK delivers.
    pub(super) fn saw(&mut self, sent: &Sent) {
        let better = |(packet_state, sent_at): (PacketState, Instant)| match self.of {
            RateSampleOf::LatestSent => sent.sent_at >= sent_at,
            RateSampleOf::MostDelivered => sent.packet_state.delivered > packet_state.delivered,
        };
        if self.latest.is_none_or(better) {
            self.latest = Some((sent.packet_state, sent.sent_at));
            self.first_sent_at = sent.sent_at;
        }
    }

    /// Records a round-trip time.
    pub(super) fn saw_rtt(&mut self, rtt: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// The sample of an ACK that delivered `delivered` segments, with `losses` marked so far.
    pub(super) fn sample(
        &mut self,
        now: Instant,
        delivered: u32,
        losses: u64,
    ) -> Option<RateSample> {
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if delivered > 0 {
            self.delivered_at = now;
        }
        let (packet_state, sent_at) = self.latest.take()?;
        // The longer of both: compressed ACKs shorten the one, a burst of the sender the other, and either
        // would overestimate the rate.
        let sending = sent_at.since(packet_state.first_sent_at);
        let interval = sending.max(now.since(packet_state.delivered_at));
        // Shorter than any round trip: an artefact (Linux drops such samples, too).
        let possible = !interval.is_zero() && self.min_rtt.is_none_or(|least| interval >= least);
        possible.then_some(RateSample {
            delivered: self.delivered - packet_state.delivered,
            interval,
            prior_delivered: packet_state.delivered,
            app_limited: packet_state.app_limited,
            tx_in_flight: packet_state.in_flight,
            lost: (losses - packet_state.losses) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    fn sent(rate: &mut Rate, millis: u64, idle: bool) -> Sent {
        Sent {
            start: 1,
            end: 2,
            sent_at: at(millis),
            packet_state: rate.packet_state(at(millis), idle, (1, 0)),
            copies: 1,
            lost: false,
            resent: false,
            sacked: false,
            fin: false,
        }
    }

    #[test]
    fn rate_sample_uses_the_longer_interval() {
        // Sent 0 to 150 ms, the first answered at 50 and the other eleven at once at 170: the ACKs
        // took 120 ms, but sending, from the first segment on, 150.
        let mut rate = Rate::new(RateSampleOf::LatestSent);
        let first = sent(&mut rate, 0, true);
        rate.saw(&first);
        rate.delivered += 1;
        let sample = rate.sample(at(50), 1, 0).expect("a sample");
        assert_eq!(
            (sample.delivered, sample.interval),
            (1, Duration::from_millis(50))
        );
        let all: Vec<Sent> = (0..11)
            .map(|k| sent(&mut rate, 50 + 10 * k, false))
            .collect();
        rate.delivered += 11;
        for sent in &all {
            rate.saw(sent);
        }
        let sample = rate.sample(at(170), 11, 0).expect("a sample");
        assert_eq!(
            (sample.delivered, sample.interval),
            (11, Duration::from_millis(150))
        );
        // A late ACK of a segment sent soon after: now the ACKs took longer.
        let next = sent(&mut rate, 171, false);
        rate.delivered += 1;
        rate.saw(&next);
        let sample = rate.sample(at(400), 1, 0).expect("a sample");
        assert_eq!(
            (sample.delivered, sample.interval),
            (1, Duration::from_millis(230))
        );
    }

    #[test]
    fn the_segment_sent_last_or_the_one_most_was_delivered_before() {
        for (of, prior) in [
            (RateSampleOf::LatestSent, 3),
            (RateSampleOf::MostDelivered, 5),
        ] {
            let mut rate = Rate::new(of);
            rate.delivered = 3;
            let mut later = sent(&mut rate, 0, true);
            rate.delivered = 5;
            let sooner = sent(&mut rate, 10, false);
            // The packet state of the first is older, yet it left after the second.
            later.sent_at = at(20);
            rate.delivered = 7;
            rate.saw(&later);
            rate.saw(&sooner);
            let sample = rate.sample(at(100), 2, 0).expect("a sample");
            assert_eq!(sample.prior_delivered, prior);
        }
    }

    #[test]
    fn application_limited_samples_are_marked() {
        let mut rate = Rate::new(RateSampleOf::LatestSent);
        rate.limited_by_application(0);
        let first = sent(&mut rate, 0, true);
        rate.delivered += 1;
        rate.saw(&first);
        assert!(rate.sample(at(50), 1, 0).expect("a sample").app_limited);
        let second = sent(&mut rate, 60, false);
        rate.delivered += 1;
        rate.saw(&second);
        assert!(rate.sample(at(110), 1, 0).expect("a sample").app_limited);
        let third = sent(&mut rate, 120, false);
        rate.delivered += 1;
        rate.saw(&third);
        assert!(!rate.sample(at(170), 1, 0).expect("a sample").app_limited);
    }
}
