//! Channel access: CSMA of Contiki and of IEEE 802.15.4.

use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};
use carob_sim_core::random::Stream;

use super::Outcome;
use crate::spec::{Csma, MacSpec, Spacing};

/// Two clock ticks of Contiki in microseconds: 1/64 s.
const TWO_TICKS: u64 = 15_625;
/// `CSMA_MAX_BE` and `CSMA_MAX_BACKOFF` of Contiki 3.x.
const BE_MAX_3X: u8 = 4;
const BACKOFFS_MAX_3X: u8 = 5;
/// macMinBE, macMaxBE and macMaxCSMABackoffs of the standard.
const BE_MIN: u8 = 3;
const BE_MAX: u8 = 5;
const BACKOFFS_MAX: u8 = 4;
/// aUnitBackoffPeriod.
const BACKOFF_PERIOD: Duration = Duration::from_micros(320);
/// Duration of a clear channel assessment: eight symbols.
const ASSESSMENT: Duration = Duration::from_micros(128);
/// Interframe spacing: after short frames, and after frames of more than [`SHORT_MAX`] bytes.
const SIFS: Duration = Duration::from_micros(192);
const LIFS: Duration = Duration::from_micros(640);
const SHORT_MAX: u16 = 18;

/// The result of an attempt to transmit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Transmitted, and acknowledged if requested.
    Sent,
    /// Transmitted, and not acknowledged.
    NotAcknowledged,
    /// Not transmitted, since the channel was busy; or (Contiki's "collision") transmitted, and
    /// another frame was read while the node waited for an acknowledgement.
    Busy,
}

/// The attempts for the frame at the head of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attempts {
    /// Transmissions, as the policy counts them.
    pub(super) transmissions: u8,
    /// Consecutive busy assessments.
    busy: u8,
}

/// The length of a queue's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Until the clock has ticked this many times.
    Ticks(u32),
    /// An exact duration.
    For(Duration),
}

/// The next step for a frame after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another attempt after a pause.
    Again(Pause),
    /// The frame is complete.
    Done(Outcome),
}

/// A channel access policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    csma: Csma,
    transmissions_max: u8,
    /// The unit of Contiki's back-off up to 3.0 in ticks.
    unit: u32,
    spacing: Spacing,
}

impl Access {
    pub(super) fn new(spec: &MacSpec) -> Self {
        Self {
            csma: spec.csma,
            transmissions_max: spec.transmissions_max.max(1),
            unit: spec.backoff_unit.max(1).into(),
            spacing: spec.spacing,
        }
    }

    /// Returns whether this is Contiki's policy. Contiki has a queue for each neighbour and
    /// transmits it without a break while frames succeed; its processor does nothing else
    /// meanwhile. The standard has one queue, and a back-off for each frame.
    pub(super) fn is_contiki(self) -> bool {
        self.csma != Csma::Ieee802154
    }

    /// The pause before the first attempt for a frame that finds its queue empty.
    pub(super) fn first(self, stream: &mut Stream) -> Pause {
        match self.csma {
            Csma::Ieee802154 => Pause::For(standard(0, stream)),
            Csma::Contiki27 | Csma::Contiki30 | Csma::Contiki3x => Pause::Ticks(0),
        }
    }

    /// The pause after a completed frame of `bytes`, before the next of the queue. Frames that
    /// follow without a break have none.
    pub(super) fn between(self, bytes: u16, succeeded: bool, stream: &mut Stream) -> Pause {
        match self.csma {
            Csma::Contiki27 | Csma::Contiki30 => Pause::Ticks(self.unit),
            Csma::Contiki3x => Pause::Ticks(0),
            Csma::Ieee802154 => {
                let space = match self.spacing {
                    Spacing::AfterSuccess if !succeeded => Duration::ZERO,
                    _ if bytes > SHORT_MAX => LIFS,
                    _ => SIFS,
                };
                Pause::For(space + standard(0, stream))
            }
        }
    }

    /// Decides the next step after an attempt.
    pub(super) fn next(
        self,
        attempt: Attempt,
        attempts: &mut Attempts,
        stream: &mut Stream,
    ) -> Next {
        let mut failed = Outcome::NotAcknowledged;
        match attempt {
            Attempt::Sent => {
                attempts.transmissions = attempts.transmissions.saturating_add(1);
                return Next::Done(Outcome::Acknowledged);
            }
            Attempt::NotAcknowledged => {
                attempts.transmissions = attempts.transmissions.saturating_add(1);
                // Each retransmission starts CSMA-CA with NB 0 and macMinBE (802.15.4-2006 7.5.1.4).
                attempts.busy = 0;
            }
            Attempt::Busy => {
                attempts.busy = attempts.busy.saturating_add(1);
                failed = Outcome::ChannelBusy;
                // Contiki up to 3.0 does not limit busy assessments.
                if self.csma == Csma::Contiki3x && attempts.busy > BACKOFFS_MAX_3X {
                    attempts.busy = 0;
                    attempts.transmissions = attempts.transmissions.saturating_add(1);
                }
                // macMaxCSMABackoffs is exceeded: a channel access failure, which macMaxFrameRetries does
                // not cover.
                if self.csma == Csma::Ieee802154 && attempts.busy > BACKOFFS_MAX {
                    return Next::Done(failed);
                }
            }
        }
        if attempts.transmissions >= self.transmissions_max {
            return Next::Done(failed);
        }
        Next::Again(match self.csma {
            Csma::Contiki27 => {
                // Linear back-off, at most three units.
                let factor = (u32::from(attempts.transmissions) + 1).min(3);
                Pause::Ticks(self.unit + below(factor * self.unit, stream))
            }
            Csma::Contiki30 => {
                // Exponential since 3.0, at most eight units.
                let factor = 1 << attempts.transmissions.min(3);
                Pause::Ticks(self.unit + below(factor * self.unit, stream))
            }
            Csma::Contiki3x => {
                let periods = (1 << attempts.busy.min(BE_MAX_3X)) - 1;
                Pause::Ticks(below(periods, stream))
            }
            Csma::Ieee802154 => Pause::For(standard(attempts.busy, stream)),
        })
    }
}

/// A uniform draw from 0 to `end` - 1; 0 if `end` is 0.
fn below(end: u32, stream: &mut Stream) -> u32 {
    ((u64::from(end) * u64::from(stream.next_u32())) >> 32) as u32
}

/// The standard's back-off after `busy` busy assessments, up to the end of the next assessment.
fn standard(busy: u8, stream: &mut Stream) -> Duration {
    let exponent = (BE_MIN + busy.min(BE_MAX)).min(BE_MAX);
    BACKOFF_PERIOD.times(u64::from(below(1 << exponent, stream))) + ASSESSMENT
}

/// A node's clock: 128 ticks a second, with a random phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Phase before time zero in microseconds; less than a tick.
    ahead: u16,
}

impl Clock {
    pub(super) fn new(stream: &mut Stream) -> Self {
        Self {
            ahead: (below(TWO_TICKS as u32, stream) / 2) as u16,
        }
    }

    /// The time after this many ticks. The first tick may be close to `now`, so this is up to a
    /// tick less than `ticks` from there; `now` itself for 0.
    pub(super) fn after(self, now: Instant, ticks: u32) -> Instant {
        if ticks == 0 {
            return now;
        }
        let ahead = u64::from(self.ahead);
        let ticked = (2 * (now.as_micros() + ahead) + 1) / TWO_TICKS;
        let then = (ticked + u64::from(ticks)) * TWO_TICKS / 2;
        Instant::from_micros(then - ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(csma: Csma) -> (Access, Stream) {
        let spec = MacSpec {
            csma,
            ..MacSpec::default()
        };
        (Access::new(&spec), Stream::new(1, "csma"))
    }

    /// The shortest and the longest of many pauses after `transmissions` unacknowledged
    /// transmissions and `busy` busy assessments.
    fn extremes(csma: Csma, transmissions: u8, busy: u8, attempt: Attempt) -> (u64, u64) {
        let (access, mut stream) = access(csma);
        let mut found = (u64::MAX, 0);
        for _ in 0..20_000 {
            let mut attempts = Attempts {
                transmissions,
                busy,
            };
            let pause = match access.next(attempt, &mut attempts, &mut stream) {
                Next::Again(Pause::Ticks(ticks)) => u64::from(ticks),
                Next::Again(Pause::For(time)) => time.as_micros(),
                Next::Done(outcome) => panic!("{outcome:?}"),
            };
            found = (found.0.min(pause), found.1.max(pause));
        }
        found
    }

    #[test]
    fn contiki27_backs_off_linearly() {
        // 125 to 250 ms for a busy channel before any transmission, then to 375 and to 500 ms.
        for (transmissions, busy, most) in
            [(0, 0, 31), (0, 200, 31), (1, 9, 47), (2, 0, 63), (3, 0, 63)]
        {
            let found = extremes(Csma::Contiki27, transmissions, busy, Attempt::Busy);
            assert_eq!(found, (16, most));
        }
        let found = extremes(Csma::Contiki27, 0, 0, Attempt::NotAcknowledged);
        assert_eq!(found, (16, 47));
    }

    #[test]
    fn a_shorter_unit_scales_the_back_off_of_contiki27() {
        // NETSTACK_RDC_CHANNEL_CHECK_RATE of 32: units of four ticks, 31.25 ms.
        let spec = MacSpec {
            backoff_unit: 4,
            ..MacSpec::default()
        };
        let (access, mut stream) = (Access::new(&spec), Stream::new(1, "csma"));
        let mut found = (u32::MAX, 0);
        for _ in 0..20_000 {
            let mut attempts = Attempts::default();
            let next = access.next(Attempt::NotAcknowledged, &mut attempts, &mut stream);
            let Next::Again(Pause::Ticks(ticks)) = next else {
                panic!("{next:?}");
            };
            found = (found.0.min(ticks), found.1.max(ticks));
        }
        assert_eq!(found, (4, 11));
        assert_eq!(access.between(100, true, &mut stream), Pause::Ticks(4));
    }

    #[test]
    fn contiki30_backs_off_exponentially() {
        for (transmissions, most) in [(0, 31), (1, 47), (2, 79), (3, 143)] {
            let found = extremes(Csma::Contiki30, transmissions, 0, Attempt::Busy);
            assert_eq!(found, (16, most));
        }
    }

    #[test]
    fn contiki3x_backs_off_with_busy_channels() {
        // Exponents 1 to 4; the sixth counts as a transmission, and the exponent is 0 again.
        for (busy, most) in [(0, 0), (1, 2), (2, 6), (3, 14), (4, 14), (5, 0)] {
            let found = extremes(Csma::Contiki3x, 0, busy, Attempt::Busy);
            assert_eq!(found, (0, most), "{busy}");
        }
        let (access, mut stream) = access(Csma::Contiki3x);
        let mut attempts = Attempts::default();
        let busy = (1..100)
            .find(|_| {
                access.next(Attempt::Busy, &mut attempts, &mut stream)
                    == Next::Done(Outcome::ChannelBusy)
            })
            .expect("given up");
        assert_eq!((busy, attempts.transmissions), (24, 4));
    }

    #[test]
    fn the_standard_backs_off_in_units_of_320_us() {
        for (busy, exponent) in [(0, 4), (1, 5), (2, 5), (3, 5)] {
            let found = extremes(Csma::Ieee802154, 0, busy, Attempt::Busy);
            assert_eq!(found, (128, ((1 << exponent) - 1) * 320 + 128), "{busy}");
        }
        let found = extremes(Csma::Ieee802154, 0, 4, Attempt::NotAcknowledged);
        assert_eq!(found, (128, 7 * 320 + 128));
        let (access, mut stream) = access(Csma::Ieee802154);
        let mut attempts = Attempts::default();
        let ends: Vec<bool> = (0..5)
            .map(|_| {
                access.next(Attempt::Busy, &mut attempts, &mut stream)
                    == Next::Done(Outcome::ChannelBusy)
            })
            .collect();
        assert_eq!(ends, [false, false, false, false, true]);
    }

    #[test]
    fn frames_given_up_need_no_interframe_spacing() {
        for (spacing, least) in [(Spacing::AfterAll, 640), (Spacing::AfterSuccess, 0)] {
            let spec = MacSpec {
                csma: Csma::Ieee802154,
                spacing,
                ..MacSpec::default()
            };
            let (access, mut stream) = (Access::new(&spec), Stream::new(1, "csma"));
            let mut shortest = |bytes, succeeded| {
                let pauses =
                    (0..2_000).map(|_| match access.between(bytes, succeeded, &mut stream) {
                        Pause::For(time) => time.as_micros() - 128,
                        Pause::Ticks(ticks) => panic!("{ticks}"),
                    });
                pauses.min().expect("there are pauses")
            };
            assert_eq!(shortest(100, true), 640);
            assert_eq!(shortest(18, true), 192);
            assert_eq!(shortest(100, false), least);
        }
    }

    #[test]
    fn busy_channels_never_end_contiki27() {
        let (access, mut stream) = access(Csma::Contiki27);
        let mut attempts = Attempts::default();
        for _ in 0..1_000 {
            let next = access.next(Attempt::Busy, &mut attempts, &mut stream);
            assert!(matches!(next, Next::Again(_)));
        }
        for expected in [true, true, true, false] {
            let next = access.next(Attempt::NotAcknowledged, &mut attempts, &mut stream);
            assert_eq!(matches!(next, Next::Again(_)), expected);
        }
        assert_eq!(attempts.transmissions, 4);
    }

    #[test]
    fn backoff_clock_ticks_at_multiples_of_its_period() {
        let clock = Clock { ahead: 0 };
        let after =
            |clock: Clock, now, ticks| clock.after(Instant::from_micros(now), ticks).as_micros();
        assert_eq!(after(clock, 0, 1), 7_812);
        assert_eq!(after(clock, 7_811, 1), 7_812);
        assert_eq!(after(clock, 7_812, 1), 15_625);
        assert_eq!(after(clock, 15_625, 16), 140_625);
        assert_eq!(after(clock, 5, 0), 5);
        let clock = Clock { ahead: 7_000 };
        assert_eq!(after(clock, 0, 1), 812);
        assert_eq!(after(clock, 812, 1), 8_625);
    }
}
