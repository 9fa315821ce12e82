//! Round-trip estimator: smoothed mean and deviation (RFC 6298 2).

use super::{Arithmetic, CocoaConstants, Order};

/// Mean and deviation, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::algorithms) struct Estimator {
    pub(in crate::algorithms) srtt: u32,
    pub(in crate::algorithms) rttvar: u32,
}

impl Estimator {
    /// The estimator after its first sample (RFC 6298 2.2).
    pub(in crate::algorithms) fn starting_with(sample: u32) -> Self {
        Self {
            srtt: sample,
            rttvar: sample / 2,
        }
    }

    /// Adds a later sample.
    pub(in crate::algorithms) fn update(&mut self, sample: u32, constants: &CocoaConstants) {
        match constants.arithmetic {
            Arithmetic::Rfc6298 => {
                let mean = constants.alpha.blend(self.srtt, sample);
                // RFC 6298 2.3 takes the deviation from the SRTT before the sample; Vallati 2020, eq. 3,
                // from the one after it.
                let around = match constants.order {
                    Order::VarianceFirst => self.srtt,
                    Order::MeanFirst => mean,
                };
                self.rttvar = constants.beta.blend(self.rttvar, around.abs_diff(sample));
                self.srtt = mean;
            }
            Arithmetic::Eifel => {
                // The deviation follows only samples above the mean, and fast only those that
                // exceed it.
                if let Some(above) = sample.checked_sub(self.srtt) {
                    let gain = if above >= self.rttvar {
                        constants.alpha
                    } else {
                        constants.beta
                    };
                    self.rttvar = gain.blend(self.rttvar, above);
                }
                self.srtt = constants.alpha.blend(self.srtt, sample);
            }
        }
    }

    /// Adds a sample, the first one if there is none, and returns the strong estimate.
    pub(in crate::algorithms) fn take(&mut self, sample: u32, constants: &CocoaConstants) -> u32 {
        let sample = sample.max(1); // a mean of 0 means that there was none
        if self.srtt == 0 {
            *self = Self::starting_with(sample);
        } else {
            self.update(sample, constants);
        }
        self.estimate(sample, constants.k_strong, constants)
    }

    /// `SRTT + max(G, K x RTTVAR)`, in ticks; `sample` is the last one.
    pub(in crate::algorithms) fn estimate(
        self,
        sample: u32,
        k: u8,
        constants: &CocoaConstants,
    ) -> u32 {
        let margin = self.rttvar.saturating_mul(u32::from(k));
        let estimate = self
            .srtt
            .saturating_add(margin.max(constants.ticks(constants.granularity)));
        let estimate = match constants.arithmetic {
            Arithmetic::Rfc6298 => estimate,
            // The Eifel timer stays two clock ticks above the last sample, however small the deviation.
            Arithmetic::Eifel => {
                estimate.max(sample.saturating_add(constants.ticks(constants.sample_margin)))
            }
        };
        if constants.estimate_max.is_zero() {
            estimate
        } else {
            estimate.min(constants.ticks(constants.estimate_max))
        }
    }
}
