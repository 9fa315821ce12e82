//! Metrics of the traced node of a wireless network.

use carob_cc::time::Duration;
use carob_sim::mesh::record::{MeshRecord, Traced};

use crate::metrics::table as m;
use crate::metrics::{Metric, seconds};

/// Time for which a change of the parent counts as recent.
const RECENT: Duration = Duration::from_secs(60);
/// An RTO below this is low.
const LOW: Duration = Duration::from_secs(1);

/// Adds the samples of one run.
pub(super) fn collect(record: &MeshRecord, add: &mut impl FnMut(Metric, f64)) {
    let trace = &record.trace;
    let (Some(_), Some(last)) = (trace.first(), trace.last()) else {
        return;
    };
    let orphan = trace
        .iter()
        .rev()
        .take_while(|sample| sample.parent.is_none());
    let samples = orphan.count() as f64;
    add(m::TRACED_ORPHAN_END_S, samples * seconds(record.bin_width));
    let mut changed = None;
    let recent: Vec<bool> = (0..trace.len())
        .map(|n| {
            if n > 0 && trace[n].parent != trace[n - 1].parent {
                changed = Some(trace[n].at);
            }
            changed.is_some_and(|at| trace[n].at.since(at) < RECENT)
        })
        .collect();
    let all = || trace.iter().zip(&recent);
    let share = |some: usize, of: usize| some as f64 / of as f64;
    let after = recent.iter().filter(|recent| **recent).count();
    add(m::TRACED_CHANGED_RATIO, share(after, trace.len()));
    let copies = |wanted: bool| -> f64 {
        let some = all().filter(|(_, recent)| **recent == wanted);
        some.map(|(s, _)| f64::from(s.retransmissions)).sum()
    };
    let others = trace.len() - after;
    if after > 0 && others > 0 && copies(false) > 0.0 {
        let (recently, otherwise) = (copies(true) / after as f64, copies(false) / others as f64);
        add(m::TRACED_COPIES_RATIO, recently / otherwise);
    }
    if last.rto.is_zero() && trace.iter().all(|sample| sample.rto.is_zero()) {
        return; // its controller keeps none
    }
    let kept = || all().filter(|(sample, _)| !sample.rto.is_zero());
    let mean = |some: Vec<&Traced>| {
        let sum: f64 = some.iter().map(|sample| seconds(sample.rto)).sum();
        (!some.is_empty()).then(|| sum / some.len() as f64)
    };
    let every = kept().map(|(sample, _)| sample).collect();
    if let Some(mean) = mean(every) {
        add(m::TRACED_RTO_S, mean);
    }
    let after = kept().filter(|(_, recent)| **recent);
    if let Some(mean) = mean(after.map(|(sample, _)| sample).collect()) {
        add(m::TRACED_RTO_AFTER_CHANGE_S, mean);
    }
    let low = || kept().filter(|(sample, _)| sample.rto < LOW);
    let count = low().count();
    add(m::TRACED_RTO_BELOW_1_S, share(count, kept().count()));
    if count > 0 {
        let recently = low().filter(|(_, recent)| **recent).count();
        add(m::TRACED_LOW_AFTER_CHANGE, share(recently, count));
    }
}
