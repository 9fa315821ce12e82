//! Impairments of a link, from keys of the `link` table.

use carob_cc::ratio::Ratio;
use carob_sim::link::{Impairments, Policer, Reordering};
use carob_sim::random::Probability;

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;
use super::link::own_rate;

keys! {
    /// Keys of impairments.
    pub(super) KEYS;

    "link.policer", Rate, -,
        "Rate of a token bucket before each buffer, which drops what exceeds it. Without it, there is none.";
    "link.policer_burst", Bytes(68, 1 << 40), "10 kB",
        "Size of that bucket, full at the beginning: at least `link.mtu`.";

    Impairments {
        _: "link.bit_errors", Number, "0",
            "Bit error rate, as in `1/100000`: a packet of n bytes is lost with probability 1 - (1 - rate)^(8 n), besides other loss.";
        corruption: "link.corruption", Percent, "0 %",
            "Share of packets that arrive damaged, so that a checksum discards them; not counted as lost.";
        duplication: "link.duplication", Percent, "0 %",
            "Share of packets that arrive twice; the copy uses no capacity.";
    }

    Reordering {
        share: "link.reordering", Percent, "0 %",
            "Share of packets that arrive later by `link.reordering_delay`, so that later ones overtake them.";
        delay: "link.reordering_delay", Distribution, "100 ms",
            "Additional delay of these packets.";
    }
}

/// The impairments of a direction. Those after the bottleneck are of lossy directions.
pub(super) fn of(cell: &Cell, is_lossy: bool, mtu: u64) -> Result<Impairments, ScenarioError> {
    let mut impairments = Impairments::NONE;
    if is_lossy {
        let reordering: Reordering = cell.fields()?;
        let is_reordered = reordering.share != Probability::NEVER && !reordering.delay.is_zero();
        let rate: Ratio = cell.get("link.bit_errors")?;
        let is_some = rate.of(u64::from(u32::MAX)) > 0;
        impairments = Impairments {
            bit_errors: if is_some { rate } else { Ratio::new(0, 1) },
            reordering: is_reordered.then_some(reordering),
            ..cell.fields()?
        };
    }
    impairments.policer = policer(cell, mtu)?;
    impairments.check().map_err(|why| {
        let path = "link.bit_errors";
        let value = cell.setting(path).unwrap_or_default();
        impossible(cell.place(path), format!("{path} {value}: {why}"))
    })?;
    Ok(impairments)
}

fn policer(cell: &Cell, mtu: u64) -> Result<Option<Policer>, ScenarioError> {
    let path = "link.policer";
    if !cell.has(path) {
        return Ok(None);
    }
    let rate_bps = own_rate(cell, path)?;
    let path = "link.policer_burst";
    let burst_bytes: u64 = cell.get(path)?;
    if burst_bytes < mtu {
        let why =
            format!("{path} is {burst_bytes} B, too small for a packet of link.mtu ({mtu} B)");
        return Err(impossible(cell.place(path), why));
    }
    Ok(Some(Policer {
        rate_bps,
        burst_bytes,
    }))
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;
    use carob_sim::distribution::TimeDistribution;
    use carob_sim::link::{Counters, LinkSpec};

    use super::*;
    use crate::testing::{link, spec};

    const CELL: &str = "default-none";

    fn set(keys: &[&str]) -> Result<[Impairments; 2], String> {
        let LinkSpec { down, up } = link(spec("carob/default", CELL, keys)?).link;
        Ok([down.impairments, up.impairments])
    }

    #[test]
    fn every_impairment_is_a_key_and_none_is_on_by_default() {
        assert_eq!(set(&[]), Ok([Impairments::NONE; 2]));
        let keys = [
            "policer=20 kbit/s",
            "policer_burst=3 kB",
            "bit_errors=1/100000",
            "corruption=1 %",
            "reordering=5 %",
            "reordering_delay=exponential 50 ms",
            "duplication=2 %",
            "error_directions=down",
        ];
        let [down, up] = set(&keys).expect("valid");
        let policer = Some(Policer {
            rate_bps: 20_000,
            burst_bytes: 3_000,
        });
        let expected = Impairments {
            policer,
            bit_errors: Ratio::new(1, 100_000),
            corruption: Probability::ppm(10_000),
            reordering: Some(Reordering {
                share: Probability::ppm(50_000),
                delay: TimeDistribution::Exponential(Duration::from_millis(50)),
            }),
            duplication: Probability::ppm(20_000),
        };
        assert_eq!(down, expected);
        let of_both = Impairments {
            policer,
            ..Impairments::NONE
        };
        assert_eq!(up, of_both);
    }

    #[test]
    fn impossible_impairments_are_errors_with_their_key() {
        for (keys, expected) in [
            (&["policer=0 bit/s"][..], "link.policer is 0"),
            (
                &["policer=1 kbit/s", "policer_burst=100 B"],
                "too small for a packet of link.mtu",
            ),
            (
                &["bit_errors=1"],
                "link.bit_errors 1: a bit error rate is below 1",
            ),
            (&["bit_errors=often"], "expected a number"),
            (&["reordering_delay=late"], "expected a time"),
        ] {
            let error = set(keys).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Counters of both directions of a transfer.
    fn counters(keys: &[&str]) -> [Counters; 2] {
        let record =
            carob_sim::run(&spec("carob/default", CELL, keys).expect("valid")).expect("a run");
        assert!(record.flows[0].finished.is_some(), "{keys:?}");
        [record.link.down, record.link.up]
    }

    #[test]
    fn transfers_over_impaired_links_complete() {
        let [down, up] = counters(&["duplication=20 %"]);
        assert!(down.duplicated > 40 && up.duplicated > 40, "{down:?}");
        let [down, _] = counters(&["corruption=5 %", "max_retransmit=8"]);
        assert!(down.corrupted > 5 && down.lost == 0, "{down:?}");
        let [down, _] = counters(&["reordering=20 %", "reordering_delay=2 s"]);
        assert!(down.reordered > 40, "{down:?}");
        let [down, _] = counters(&["bit_errors=1/100000", "max_retransmit=8"]);
        assert!(down.lost > 2, "{down:?}");
    }

    #[test]
    fn segments_of_tcp_meet_the_same_impairments() {
        let keys = [
            "run.algorithms=tcp-newreno",
            "policer=30 kbit/s",
            "duplication=10 %",
            "reordering=5 %",
        ];
        let [down, _] = counters(&keys);
        assert!(down.duplicated > 20 && down.reordered > 5, "{down:?}");
    }
}
