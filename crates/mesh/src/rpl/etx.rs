//! ETX of a link: the moving average of transmissions per acknowledged frame.

use carob_cc::time::{Duration, Instant};

use crate::spec::{Release, RplSpec};

// Freshness as in `link-stats.c` of Contiki 3.x.

/// Transmissions that make an estimate fresh.
const FRESH: u8 = 4;
/// Maximum of the transmission count.
const COUNTED_MAX: u8 = 16;
/// The count is halved at this interval, for all neighbours at once, from the node's start on.
const HALF_LIFE: Duration = Duration::from_secs(20 * 60);
/// An estimate is stale after this time without a sample.
const FRESH_MAX: Duration = Duration::from_secs(10 * 60);

/// ETX estimation, in units of `1 / divisor`.
#[derive(Clone, Copy, Debug)]
pub(super) struct EtxRule {
    divisor: u16,
    initial: u16,
    alpha: u32,
    alpha_fresh: u32,
    no_ack: u32,
    first_replaces: bool,
}

impl EtxRule {
    pub(super) fn new(spec: &RplSpec) -> Self {
        let divisor = spec.etx_divisor.max(1);
        Self {
            divisor,
            initial: in_units(spec.initial_etx, divisor),
            alpha: u32::from(spec.etx_alpha.min(100)),
            alpha_fresh: u32::from(spec.etx_alpha_fresh.min(100)),
            no_ack: u32::from(in_units(spec.etx_no_ack, divisor)),
            first_replaces: spec.release == Release::V30,
        }
    }

    /// Converts units to hundredths.
    pub(super) fn hundredths(&self, units: u16) -> u32 {
        let divisor = u32::from(self.divisor);
        (u32::from(units) * 100 + divisor / 2) / divisor
    }
}

/// Converts hundredths to units of `1 / divisor`, rounded down, at most `0xffff`.
pub(super) fn in_units(hundredths: u16, divisor: u16) -> u16 {
    let units = u32::from(hundredths) * u32::from(divisor) / 100;
    u16::try_from(units).unwrap_or(u16::MAX)
}

/// The estimate of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// In units.
    pub(super) etx: u16,
    /// Transmissions counted, decayed up to the half-life number `halved`.
    counted: u8,
    halved: u64,
    /// Time of the last sample.
    pub(super) last: Option<Instant>,
}

impl Link {
    pub(super) fn new(rule: &EtxRule) -> Self {
        Self {
            etx: rule.initial,
            counted: 0,
            halved: 0,
            last: None,
        }
    }

    /// Adds a sample: a frame was acknowledged after this many transmissions, or given up.
    pub(super) fn sample(
        &mut self,
        rule: &EtxRule,
        now: Instant,
        transmissions: u8,
        acknowledged: bool,
    ) {
        let transmissions = transmissions.max(1);
        let counted = self.counted(now).saturating_add(transmissions);
        self.counted = counted.min(COUNTED_MAX);
        self.halved = half_lives(now);
        // Below 2^24, so that the products with percentages below stay within 32 bits.
        let sample = if acknowledged {
            u32::from(transmissions) * u32::from(rule.divisor)
        } else {
            rule.no_ack
        };
        let alpha = if self.counted >= FRESH {
            rule.alpha
        } else {
            rule.alpha_fresh
        };
        let first = rule.first_replaces && self.last.is_none();
        let etx = if first {
            sample
        } else {
            (u32::from(self.etx) * (100 - alpha) + sample * alpha) / 100
        };
        self.etx = u16::try_from(etx).unwrap_or(u16::MAX);
        self.last = Some(now);
    }

    /// Returns whether the estimate is fresh: enough transmissions, and a recent sample.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.since(last) < FRESH_MAX) && self.counted(now) >= FRESH
    }

    fn counted(&self, now: Instant) -> u8 {
        let halvings = half_lives(now).saturating_sub(self.halved);
        u32::try_from(halvings)
            .ok()
            .and_then(|halvings| self.counted.checked_shr(halvings))
            .unwrap_or(0)
    }
}

fn half_lives(now: Instant) -> u64 {
    now.as_micros() / HALF_LIFE.as_micros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(spec: &RplSpec, start: u16, samples: &[(u8, bool)]) -> Vec<u16> {
        let rule = EtxRule::new(spec);
        let mut link = Link::new(&rule);
        link.etx = start;
        let sample = |&(transmissions, acknowledged)| {
            link.sample(&rule, Instant::ZERO, transmissions, acknowledged);
            link.etx
        };
        samples.iter().map(sample).collect()
    }

    #[test]
    fn contiki_27_goes_from_5_to_4_6_with_one_good_frame() {
        let spec = RplSpec::default();
        let rule = EtxRule::new(&spec);
        assert_eq!(Link::new(&rule).etx, 640);
        // 0.9 x 640 + 0.1 x 128 = 588.8, rounded down: 4.59.
        assert_eq!(after(&spec, 640, &[(1, true)]), [588]);
        assert_eq!(rule.hundredths(588), 459);
    }

    #[test]
    fn contiki_3x_rejects_etx_1_link_after_three_lost_frames() {
        let spec = RplSpec::contiki3x();
        let samples = [(8, false); 3];
        // 2.35, 3.50 and 4.47, rounded down to 1/128 each time.
        assert_eq!(after(&spec, 128, &samples), [300, 447, 571]);
        let rule = EtxRule::new(&spec);
        assert_eq!(
            [300, 447, 571].map(|etx| rule.hundredths(etx)),
            [234, 349, 446]
        );
    }

    #[test]
    fn contiki_3x_weighs_early_samples_twice() {
        let spec = RplSpec::contiki3x();
        // A frame given up after one transmission: 0.7 x 2 + 0.3 x 10 = 4.4.
        assert_eq!(after(&spec, 256, &[(1, false)]), [563]);
        // One given up after eight makes the estimate fresh by itself: 0.85 x 2 + 0.15 x 10 = 3.2.
        assert_eq!(after(&spec, 256, &[(8, false)]), [409]);
        assert_eq!(after(&spec, 256, &[(4, false)]), [409], "four do");
        assert_eq!(after(&spec, 256, &[(3, false)]), [563]);
    }

    #[test]
    fn contiki_30_begins_with_its_first_sample() {
        let spec = RplSpec::contiki30();
        let rule = EtxRule::new(&spec);
        assert_eq!(
            after(&spec, rule.initial, &[(3, true), (1, true)]),
            [768, 716]
        );
    }

    #[test]
    fn estimates_go_stale() {
        let rule = EtxRule::new(&RplSpec::contiki3x());
        let mut link = Link::new(&rule);
        let minutes = |minutes: u64| Instant::ZERO + Duration::from_secs(60 * minutes);
        assert!(!link.is_fresh(minutes(0)));
        link.sample(&rule, minutes(1), 3, true);
        assert!(!link.is_fresh(minutes(1)));
        link.sample(&rule, minutes(1), 1, true);
        assert!(link.is_fresh(minutes(1)));
        assert!(!link.is_fresh(minutes(11)));
        // The count of four is halved at 20 min, so that one more does not suffice.
        link.sample(&rule, minutes(21), 1, true);
        assert!(!link.is_fresh(minutes(21)));
    }
}
