//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, as Linux has them).

use carob_cc::time::{Duration, Instant};

use super::scoreboard::{Sent, Stamp};
use crate::tcp::congestion::RateSample;

#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    /// Segments delivered so far.
    pub(super) delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Samples are limited by the application until more than this is delivered; 0 if not.
    app_limited: u64,
    min_rtt: Option<Duration>,
    /// Of the segments that this ACK delivers, the one sent last, and when.
    latest: Option<(Stamp, Instant)>,
}

impl Rate {
    /// The stamp of a segment sent now; `idle` if nothing was outstanding.
    pub(super) fn stamp(&mut self, now: Instant, idle: bool) -> Stamp {
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited > 0,
        }
    }

    /// From here on the application limits sending, until what is in flight is delivered.
    pub(super) fn limited_by_application(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// An ACK shows that this segment was delivered.
    pub(super) fn saw(&mut self, sent: &Sent) {
        if self
            .latest
            .is_none_or(|(_, sent_at)| sent.sent_at >= sent_at)
        {
            self.latest = Some((sent.stamp, sent.sent_at));
            self.first_sent_at = sent.sent_at;
        }
    }

    /// A round-trip time was measured.
    pub(super) fn saw_rtt(&mut self, rtt: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// The sample of an ACK that delivered `news` segments.
    pub(super) fn sample(&mut self, now: Instant, news: u32) -> Option<RateSample> {
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if news > 0 {
            self.delivered_at = now;
        }
        let (stamp, sent_at) = self.latest.take()?;
        let sending = sent_at.since(stamp.first_sent_at);
        let interval = sending.max(now.since(stamp.delivered_at));
        // Shorter than any round trip: an artefact (Linux drops such samples, too).
        let possible = !interval.is_zero() && self.min_rtt.is_none_or(|least| interval >= least);
        possible.then_some(RateSample {
            delivered: self.delivered - stamp.delivered,
            interval,
            prior_delivered: stamp.delivered,
            app_limited: stamp.app_limited,
        })
    }
}
