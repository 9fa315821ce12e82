//! Linux's retransmission timer: a deviation that falls slowly and never below a floor.
//!
//! Differences from RFC 6298: a sample far below the mean moves the mean deviation by 1/32 only,
//! and the RTO adds the largest deviation of a round trip, which decays by a quarter. In CoAP an
//! exchange is a round trip. Two variants: Californium's, which takes the error from the new mean,
//! and the kernel's. `docs/algorithms.md#linux-rto`.

use super::cocoa::Order;
use super::retained::{Retained, TimerConstants};
use crate::controller::{Controller, Gauge, Timer};
use crate::evidence::{Answered, Expired, Start};
use crate::random::Random;
use crate::ratio::Ratio;
use crate::registry::{Family, Profile, Suggested};
use crate::time::{Duration, Instant};

constants! {
    /// Constants of Linux's timer: the differences between its variants.
    pub struct LinuxRtoConstants {
        /// the mean from which the error is taken: before the sample or after
        order: Order,
        /// smallest deviation, of which four are added to the mean
        deviation_min: Duration,
        ..timer: TimerConstants
    }
}

/// Mean and deviation as Linux keeps them, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinuxEstimator {
    pub(super) srtt: u32,
    mdev: u32,
    /// The largest mean deviation of the present round trip.
    mdev_max: u32,
    pub(super) rttvar: u32,
}

impl LinuxEstimator {
    /// Adds a sample and returns `SRTT + 4 RTTVAR`; `floor` limits the deviation, in ticks.
    pub(super) fn update(&mut self, sample: u32, order: Order, floor: u32) -> u32 {
        if self.srtt == 0 {
            (self.srtt, self.mdev) = (sample, sample / 2);
            self.mdev_max = self.mdev.max(floor);
            self.rttvar = self.mdev_max;
        } else {
            let before = self.srtt;
            self.srtt = Ratio::new(1, 8).blend(before, sample);
            let mean = match order {
                Order::VarianceFirst => before,
                Order::MeanFirst => self.srtt,
            };
            let error = mean.abs_diff(sample);
            // `tcp_rtt_estimator`: a falling RTT counts an eighth of the usual gain, because its large
            // error would otherwise raise the RTO just when the path became faster.
            self.mdev = if sample < mean.saturating_sub(self.mdev) {
                Ratio::new(1, 32).blend(self.mdev, error)
            } else {
                // Each part is rounded, as Californium does.
                let part = |ratio: Ratio, of| u32::try_from(ratio.of(u64::from(of)));
                let kept = part(Ratio::new(3, 4), self.mdev).unwrap_or(u32::MAX);
                kept.saturating_add(part(Ratio::new(1, 4), error).unwrap_or(u32::MAX))
            };
            self.mdev_max = self.mdev_max.max(self.mdev);
            // Up at once, down by a quarter per round trip: one quiet round trip is no proof of a steady
            // path.
            self.rttvar = if self.mdev_max < self.rttvar {
                Ratio::new(1, 4).blend(self.rttvar, self.mdev_max)
            } else {
                self.mdev_max
            };
            // The kernel restarts the maximum once per round trip, which is one exchange here.
            self.mdev_max = floor;
        }
        self.srtt.saturating_add(self.rttvar.saturating_mul(4))
    }
}

/// The state of Linux's timer for one peer.
#[derive(Debug)]
pub struct LinuxRto {
    constants: &'static LinuxRtoConstants,
    retained: Retained,
    estimator: LinuxEstimator,
}

const fn capped(seconds: u64) -> Suggested {
    Suggested {
        max_retransmit: None,
        rto_max: Some(Duration::from_secs(seconds)),
    }
}

impl Family for LinuxRto {
    type Constants = LinuxRtoConstants;
    const PROFILES: &'static [Profile<LinuxRtoConstants>] = &[
        Profile {
            name: "linux-rto",
            about: "Linux's timer as Californium adapts it to CoAP, backoff retained",
            source: "Californium 3.14.0, LinuxRto.java (retention: 2.0.0); \
                     docs/algorithms.md#linux-rto",
            project_choice: None,
            constants: LinuxRtoConstants {
                order: Order::MeanFirst,
                deviation_min: Duration::from_millis(50),
                timer: TimerConstants::CALIFORNIUM,
            },
            suggested: capped(60),
        },
        Profile {
            name: "linux-rto-kernel",
            about: "Linux's timer as in the kernel, initially 2 s, backoff retained",
            source: "Linux, tcp_input.c, tcp_rtt_estimator; docs/algorithms.md#linux-rto-kernel",
            project_choice: None,
            constants: LinuxRtoConstants {
                order: Order::VarianceFirst,
                // The floor of 200 ms limits four deviations.
                deviation_min: Duration::from_millis(50),
                timer: TimerConstants::UNBOUNDED,
            },
            suggested: capped(120),
        },
    ];

    fn new(constants: &'static LinuxRtoConstants) -> Self {
        Self {
            constants,
            retained: Retained::default(),
            estimator: LinuxEstimator::default(),
        }
    }
}

impl Controller for LinuxRto {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        self.retained
            .first_timeout(start, random, &self.constants.timer)
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        self.retained.next_timeout(expired, &self.constants.timer)
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        let constants = self.constants;
        if let Some(sample) = constants.timer.certain_sample(answered) {
            let floor = constants.timer.ticks(constants.deviation_min);
            let rto = self.estimator.update(sample, constants.order, floor);
            self.retained.sampled(rto, &constants.timer);
        }
    }

    fn gauges(&self, _: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        let timer = &self.constants.timer;
        self.retained.gauges(timer, visit);
        if self.estimator.srtt > 0 {
            visit("srtt", Gauge::Time(timer.span(self.estimator.srtt)));
            visit("rttvar", Gauge::Time(timer.span(self.estimator.rttvar)));
            visit("mdev", Gauge::Time(timer.span(self.estimator.mdev)));
        }
    }
}
