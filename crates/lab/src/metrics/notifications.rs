//! Metrics of a server's notifications.

use carob_cc::time::Duration;
use carob_sim::notifications::{LAG, NotificationBin, NotificationRecord, Sends, Subscriber};

use super::Metric;
use super::table as m;

/// Length of the initial phase of a run.
const EARLY: Duration = Duration::from_secs(120);
/// At the end of a run, too much is under way for its rounds to be compared with earlier ones.
const LAST: Duration = Duration::from_secs(60);
/// From then to the end of the beginning a timer should have settled.
const SETTLED: Duration = Duration::from_secs(90);
/// From then on it should be steady.
const STEADY: Duration = Duration::from_secs(60);

/// One of a subscriber's counts.
type Count = fn(&Subscriber) -> u64;

/// Adds the samples of one run.
pub(super) fn collect(record: &NotificationRecord, add: &mut impl FnMut(Metric, f64)) {
    let sum = |of: Count| -> f64 {
        let all = record.subscribers.iter().map(of);
        all.sum::<u64>() as f64
    };
    let (generated, sent) = (sum(|s| s.generated), sum(|s| s.sent));
    add(m::NOTIFICATIONS, generated);
    if generated > 0.0 {
        let ratios: [(Metric, Count); 7] = [
            (m::PDR, |s| s.received),
            (m::SERVER_DROP_RATIO, |s| s.dropped),
            (m::SUPERSEDED_RATIO, |s| s.superseded),
            (m::UNSENT_RATIO, |s| s.unsent),
            (m::UNLISTED_RATIO, |s| s.unlisted),
            (m::LINK_DROP_RATIO, |s| s.link_dropped),
            (m::LINK_LOSS_RATIO, |s| s.link_lost),
        ];
        for (name, of) in ratios {
            add(name, sum(of) / generated);
        }
    }
    if sent > 0.0 {
        add(m::CON_RATIO, sum(|s| s.confirmable) / sent);
    }
    for subscriber in &record.subscribers {
        add(m::RETRANSMISSIONS, subscriber.retransmissions as f64);
        if subscriber.received > 0 {
            let sum = subscriber.delay.as_micros() as f64 / 1e6;
            add(m::DELAY_S, sum / subscriber.received as f64);
        }
    }
    if let Some(correlation) = correlation(&record.sends) {
        add(m::SEND_CORRELATION, correlation);
    }
    let width = record.bin_width;
    if width.is_zero() {
        return;
    }
    let first_from = |time: Duration| time.as_micros().div_ceil(width.as_micros()) as usize;
    let until =
        |time: Duration| ((time.as_micros() / width.as_micros()) as usize).min(record.bins.len());
    let early = until(EARLY);
    if let Some(pdr) = pdr(&record.bins[..early]) {
        add(m::PDR_EARLY, pdr);
    }
    let last = record.bins.len().saturating_sub(first_from(LAST));
    if let Some(pdr) = record.bins.get(early..last).and_then(pdr) {
        add(m::PDR_LATE, pdr);
    }
    rtos(record, add, first_from, early);
}

/// Metrics of the server's RTOs in the initial phase, if it keeps any.
fn rtos(
    record: &NotificationRecord,
    add: &mut impl FnMut(Metric, f64),
    first_from: impl Fn(Duration) -> usize,
    early: usize,
) {
    let mean = |bin: &NotificationBin| {
        (bin.rtos > 0).then(|| bin.rto_sum.as_micros() as f64 / 1e6 / f64::from(bin.rtos))
    };
    let means: Option<Vec<f64>> = record.bins[..early].iter().map(mean).collect();
    let Some(means) = means else {
        return;
    };
    let Some(first) = means.first() else {
        return;
    };
    add(m::RTO_EARLY_S, *first);
    let settled = means.get(first_from(SETTLED)..).unwrap_or_default();
    if settled.is_empty() {
        return;
    }
    let settled = settled.iter().sum::<f64>() / settled.len() as f64;
    add(m::RTO_SETTLED_S, settled);
    let last_long = means.iter().rposition(|mean| *mean > 1.5 * settled);
    let bins = last_long.map_or(0, |bin| bin + 1);
    add(
        m::RTO_SETTLING_S,
        bins as f64 * record.bin_width.as_micros() as f64 / 1e6,
    );
    let steady = means.get(first_from(STEADY)..).unwrap_or_default();
    let longest = steady.iter().copied().fold(0.0, f64::max);
    let shortest = steady.iter().copied().fold(f64::INFINITY, f64::min);
    if shortest > 0.0 && longest > 0.0 {
        add(m::RTO_SWING, longest / shortest);
    }
}

fn pdr(bins: &[NotificationBin]) -> Option<f64> {
    let generated: u64 = bins.iter().map(|bin| bin.generated).sum();
    let received: u64 = bins.iter().map(|bin| bin.received).sum();
    (generated > 0).then(|| received as f64 / generated as f64)
}

/// Autocorrelation of the sending rate at [`LAG`]; none for a constant
/// rate.
fn correlation(sends: &Sends) -> Option<f64> {
    const SPAN: u64 = 100_000;
    let lagged = sends.spans.checked_sub(LAG.as_micros() / SPAN)?;
    if lagged == 0 {
        return None;
    }
    let mean = sends.packets as f64 / sends.spans as f64;
    let variance = sends.squares as f64 / sends.spans as f64 - mean * mean;
    let covariance = sends.products as f64 / lagged as f64 - mean * mean;
    (variance > 0.0).then(|| covariance / variance)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_micros((seconds * 1e6) as u64)
    }

    fn samples(record: &NotificationRecord) -> BTreeMap<&'static str, Vec<f64>> {
        let mut samples = BTreeMap::<_, Vec<f64>>::new();
        collect(record, &mut |metric, value| {
            samples.entry(metric.name).or_default().push(value);
        });
        samples
    }

    #[test]
    fn shares_are_relative_to_all_generated_notifications() {
        let one = Subscriber {
            generated: 60,
            sent: 40,
            received: 30,
            dropped: 15,
            unsent: 5,
            confirmable: 5,
            link_dropped: 9,
            link_lost: 1,
            delay: seconds(60.0),
            ..Subscriber::default()
        };
        let other = Subscriber {
            generated: 40,
            sent: 40,
            received: 40,
            delay: seconds(40.0),
            ..Subscriber::default()
        };
        let record = NotificationRecord {
            subscribers: vec![one, other],
            ..NotificationRecord::default()
        };
        let samples = samples(&record);
        for (name, expected) in [
            ("pdr", 0.7),
            ("server_drop_ratio", 0.15),
            ("unsent_ratio", 0.05),
            ("link_drop_ratio", 0.09),
            ("con_ratio", 5.0 / 80.0),
        ] {
            assert!((samples[name][0] - expected).abs() < 1e-9, "{name}");
        }
        assert_eq!(samples["delay_s"], [2.0, 1.0]);
        assert!(!samples.contains_key("rto_early_s") && !samples.contains_key("pdr_early"));
    }

    #[test]
    fn a_timeout_that_falls_and_stays_has_settled() {
        let bin = |k: usize| {
            let rto = match k {
                0..=1 => 2.0,
                2 => 1.0,
                3..=5 => 0.5,
                _ => 0.4 + 0.05 * (k % 2) as f64,
            };
            NotificationBin {
                generated: 10,
                received: if k < 12 { 5 } else { 10 },
                rtos: 2,
                rto_sum: seconds(2.0 * rto),
                ..NotificationBin::default()
            }
        };
        let record = NotificationRecord {
            bin_width: seconds(10.0),
            bins: (0..60).map(bin).collect(),
            ..NotificationRecord::default()
        };
        let samples = samples(&record);
        let near = |name: &str, expected: f64| {
            assert!(
                (samples[name][0] - expected).abs() < 1e-9,
                "{name}: {:?}",
                samples[name]
            );
        };
        near("rto_early_s", 2.0);
        near("rto_settled_s", (0.45 + 0.4 + 0.45) / 3.0);
        near("rto_settling_s", 30.0);
        near("rto_swing", 0.45 / 0.4);
        near("pdr_early", 0.5);
        near("pdr_late", 1.0);
    }

    #[test]
    fn bursts_three_seconds_apart_correlate_and_others_do_not() {
        // 600 spans of 100 ms: a burst of 10 every 3 s.
        let bursts = |products: u64| Sends {
            spans: 600,
            packets: 200,
            squares: 2_000,
            products,
            peak: 10,
        };
        let together = correlation(&bursts(1_900)).expect("it varies");
        assert!(together > 0.95, "{together}");
        let apart = correlation(&bursts(0)).expect("it varies");
        assert!(apart < 0.0, "{apart}");
        assert_eq!(correlation(&Sends::default()), None);
    }
}
