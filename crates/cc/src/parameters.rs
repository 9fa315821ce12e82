//! Transmission parameters of the message layer, and the times derived from them.

use crate::ratio::Ratio;
use crate::time::Duration;

/// Transmission parameters under their RFC names (RFC 7252 4.8).
///
/// Derived times (MAX_TRANSMIT_SPAN, EXCHANGE_LIFETIME, ...) are computed by methods and never
/// stored, so that they cannot disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransmissionParameters {
    /// ACK_TIMEOUT: the shortest first timer of a blind sender. Default 2 s.
    pub ack_timeout: Duration,
    /// ACK_RANDOM_FACTOR: the longest first timer is this times ACK_TIMEOUT. Default 1.5.
    pub ack_random_factor: Ratio,
    /// MAX_RETRANSMIT: retransmissions of a message. Default 4, at most
    /// [`MAX_RETRANSMIT_LIMIT`](Self::MAX_RETRANSMIT_LIMIT).
    pub max_retransmit: u8,
    /// NSTART: interactions that may be outstanding with one peer. Default 1.
    pub nstart: u16,
    /// DEFAULT_LEISURE: span over which responses to a multicast request are spread. Default 5 s.
    pub default_leisure: Duration,
    /// PROBING_RATE in bytes per second: average rate to a peer that does not respond. Default 1.
    pub probing_rate: u32,
    /// MAX_LATENCY: assumed longest one-way transit time of a datagram. Default 100 s.
    pub max_latency: Duration,
    /// Cap on backed-off timers; the first timer of an exchange is never cut. Default none.
    ///
    /// RFC 7252 has no cap; CoCoA truncates at 32 s, the thesis's default CoAP at 60 s
    /// (`docs/algorithms.md#default`, `docs/algorithms.md#cocoa-backoff`).
    pub rto_max: Option<Duration>,
    /// Rules of this stack for every controller. Default true; false runs a controller exactly as published.
    ///
    /// - First timers are drawn over a range, up to ACK_RANDOM_FACTOR times the RTO.
    /// - No timer is shorter than [`RTO_MIN`](Self::RTO_MIN), or ACK_TIMEOUT if that is shorter, nor
    ///   than the previous one of its message.
    /// - A message is retransmitted for MAX_TRANSMIT_SPAN, even if short timers have used up
    ///   MAX_RETRANSMIT before.
    pub safeguards: bool,
}

impl TransmissionParameters {
    /// The maximum of MAX_RETRANSMIT; the engine keeps the time of every transmission.
    pub const MAX_RETRANSMIT_LIMIT: u8 = 30;

    /// Least timer with [`safeguards`](Self::safeguards): as TCP's in Linux. RFC 8085 3.1.1 has 1 s
    /// for a sender without measurements.
    pub const RTO_MIN: Duration = Duration::from_millis(200);

    /// RFC 7252 4.8 defaults.
    pub const DEFAULT: Self = Self {
        ack_timeout: Duration::from_secs(2),
        ack_random_factor: Ratio::new(3, 2),
        max_retransmit: 4,
        nstart: 1,
        default_leisure: Duration::from_secs(5),
        probing_rate: 1,
        max_latency: Duration::from_secs(100),
        rto_max: None,
        safeguards: true,
    };

    /// Limits a controller's timer; `previous` is the timer of the message's previous transmission. The cap
    /// never shortens a first timer.
    pub fn limit_timer(&self, timer: Duration, previous: Option<Duration>) -> Duration {
        let capped = match (previous, self.rto_max) {
            (Some(previous), Some(cap)) => timer.min(cap.max(previous)),
            _ => timer,
        };
        if self.safeguards {
            capped.max(previous.unwrap_or(Self::RTO_MIN.min(self.ack_timeout)))
        } else {
            capped
        }
    }

    /// Cuts the timer of a transmission after which only the span permits another, at this time since the
    /// first, so that the other leaves at the end of MAX_TRANSMIT_SPAN. With RFC 7252's own timers the
    /// last transmission leaves after two thirds of the span at the earliest.
    pub fn reach_span(&self, timer: Duration, previous: Duration, age: Duration) -> Duration {
        // One microsecond before the end, because `permits_retransmission` excludes the span itself.
        let span = self.max_transmit_span();
        if self.safeguards && age.times(3) < span.times(2) && age + timer >= span {
            let left = span.saturating_sub(age + Duration::from_micros(1));
            left.max(previous).min(timer)
        } else {
            timer
        }
    }

    /// Returns whether a message is retransmitted after `timeouts`, at this time since its first
    /// transmission.
    pub fn permits_retransmission(&self, timeouts: u8, age: Duration) -> bool {
        timeouts < self.max_retransmit || (self.safeguards && age < self.max_transmit_span())
    }

    /// Longest sum of the first `timers` timers: each twice the one before, or at the cap.
    fn longest(&self, timers: u8) -> Duration {
        // RFC 7252 4.8.2 has a closed form, ACK_TIMEOUT x (2^MAX_RETRANSMIT - 1) x ACK_RANDOM_FACTOR; a cap
        // on timers, which the RFC does not have, needs the sum.
        let mut timer = self.ack_timeout.scale(self.ack_random_factor);
        let mut sum = Duration::ZERO;
        for _ in 0..timers {
            sum += timer;
            let doubled = timer.times(2);
            timer = self
                .rto_max
                .map_or(doubled, |cap| doubled.min(cap.max(timer)));
        }
        sum
    }

    /// Returns MAX_TRANSMIT_SPAN: the time from the first transmission to the last (RFC 7252
    /// section 4.8.2). Default 45 s.
    pub fn max_transmit_span(&self) -> Duration {
        self.longest(self.max_retransmit)
    }

    /// Returns MAX_TRANSMIT_WAIT: the time from the first transmission to giving up. Default 93 s.
    pub fn max_transmit_wait(&self) -> Duration {
        self.longest(self.max_retransmit.saturating_add(1))
    }

    /// Returns PROCESSING_DELAY: a node's time from a request to its ACK. Equals ACK_TIMEOUT.
    pub fn processing_delay(&self) -> Duration {
        self.ack_timeout
    }

    /// Returns MAX_RTT: 2 x MAX_LATENCY + PROCESSING_DELAY. Default 202 s.
    pub fn max_rtt(&self) -> Duration {
        self.max_latency.times(2) + self.processing_delay()
    }

    /// Returns EXCHANGE_LIFETIME: the time from the first transmission until its Message ID may be
    /// reused. Default 247 s. A cap on the timers shortens it.
    pub fn exchange_lifetime(&self) -> Duration {
        self.max_transmit_span() + self.max_latency.times(2) + self.processing_delay()
    }

    /// Returns NON_LIFETIME: the time from sending a NON until its Message ID may be reused.
    /// Default 145 s.
    pub fn non_lifetime(&self) -> Duration {
        self.max_transmit_span() + self.max_latency
    }
}

impl Default for TransmissionParameters {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_times_of_the_defaults() {
        let p = TransmissionParameters::DEFAULT;
        let seconds = [
            p.max_transmit_span(),
            p.max_transmit_wait(),
            p.max_rtt(),
            p.exchange_lifetime(),
            p.non_lifetime(),
        ]
        .map(Duration::as_secs);
        assert_eq!(seconds, [45, 93, 202, 247, 145]);
    }

    #[test]
    fn a_cap_bounds_the_derived_times() {
        let p = TransmissionParameters {
            max_retransmit: 20,
            rto_max: Some(Duration::from_secs(60)),
            ..TransmissionParameters::DEFAULT
        };
        // 3 + 6 + 12 + 24 + 48, then 15 timers of 60 s.
        assert_eq!(p.max_transmit_span(), Duration::from_secs(93 + 15 * 60));
        assert_eq!(p.exchange_lifetime(), Duration::from_secs(93 + 900 + 202));
    }

    #[test]
    fn safeguards_bound_timers_and_keep_a_message_for_the_span() {
        let ms = Duration::from_millis;
        let safe = TransmissionParameters::DEFAULT;
        assert_eq!(
            safe.limit_timer(ms(2), None),
            TransmissionParameters::RTO_MIN
        );
        assert_eq!(
            safe.limit_timer(ms(300), Some(ms(900))),
            ms(900),
            "never shorter"
        );
        assert_eq!(
            safe.reach_span(ms(25_600), ms(12_800), ms(25_400))
                .as_millis(),
            19_599
        );
        assert_eq!(
            safe.reach_span(ms(32_000), ms(16_000), ms(30_000)),
            ms(32_000),
            "RFC 7252"
        );
        assert!(safe.permits_retransmission(9, Duration::from_secs(44)));
        assert!(!safe.permits_retransmission(4, Duration::from_secs(45)));
        let published = TransmissionParameters {
            safeguards: false,
            rto_max: Some(Duration::from_secs(60)),
            ..safe
        };
        assert_eq!(published.limit_timer(ms(2), None), ms(2));
        assert_eq!(published.limit_timer(ms(300), Some(ms(900))), ms(300));
        assert_eq!(published.limit_timer(ms(70_000), Some(ms(900))), ms(60_000));
        assert!(!published.permits_retransmission(4, ms(1)));
    }
}
