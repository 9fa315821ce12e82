//! Metrics of a burst: all nodes of a wireless network send at the same time.

use carob_cc::time::Duration;
use carob_sim::mesh::record::{MeshBin, MeshRecord};

use crate::metrics::table as m;
use crate::metrics::{Metric, seconds};

/// Messages made in so much time are compared with those before the burst (Betzler et al. 2015,
/// section 4.2).
const WINDOW: Duration = Duration::from_secs(20);
/// Ratio of mean delay to that before the burst, up to which the network counts as settled.
const SETTLED: f64 = 1.1;
/// RTOs are averaged over so much time.
const RTO_WINDOW: Duration = Duration::from_secs(10);
/// Time after the burst over which RTOs are evaluated.
const RTO_AFTER: Duration = Duration::from_secs(60);

/// Adds the samples of one run, if it has a burst and a time before it.
pub(super) fn collect(record: &MeshRecord, add: &mut impl FnMut(Metric, f64)) {
    let width = record.bin_width;
    let Some(at) = record.burst_at.filter(|_| !width.is_zero()) else {
        return;
    };
    let bins = |time: Duration| (time.as_micros() / width.as_micros()) as usize;
    let first = bins(at);
    let Some((before, after)) = record.bins.split_at_checked(first) else {
        return;
    };
    if before.is_empty() || after.is_empty() {
        return;
    }
    if let Some(before) = delay(before) {
        let mut windows = after.windows(bins(WINDOW).max(1));
        let is_settled = |window: &[MeshBin]| delay(window).is_some_and(|d| d <= SETTLED * before);
        let settled = windows.position(is_settled);
        let end = seconds(record.duration) - seconds(at);
        let time = settled.map_or(end, |n| n as f64 * seconds(width));
        add(m::SETTLING_S, time);
        add(m::SETTLED, f64::from(u8::from(settled.is_some())));
    }
    if let Some(rto) = rto(before) {
        add(m::RTO_BEFORE_BURST_S, rto);
        let after = &after[..after.len().min(bins(RTO_AFTER))];
        let each = after.windows(bins(RTO_WINDOW).max(1)).filter_map(self::rto);
        if let Some(peak) = each.reduce(f64::max) {
            add(m::RTO_BURST_PEAK_S, peak);
        }
        let last = after.len().saturating_sub(bins(RTO_WINDOW));
        if let Some(rto) = self::rto(&after[last..]) {
            add(m::RTO_AFTER_BURST_S, rto);
        }
    }
}

/// Mean delay in seconds of the messages generated in these bins and received.
fn delay(bins: &[MeshBin]) -> Option<f64> {
    let received: u64 = bins.iter().map(|bin| u64::from(bin.received)).sum();
    let sum: f64 = bins.iter().map(|bin| seconds(bin.delay)).sum();
    (received > 0).then(|| sum / received as f64)
}

/// The mean RTO after answers of these spans.
fn rto(bins: &[MeshBin]) -> Option<f64> {
    let count: u64 = bins.iter().map(|bin| u64::from(bin.rtos)).sum();
    let sum: f64 = bins.iter().map(|bin| seconds(bin.rto_sum)).sum();
    (count > 0).then(|| sum / count as f64)
}
