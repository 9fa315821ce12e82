//! Metrics of wireless networks.
//!
//! Most have a sample per run; what differs from node to node has one per node that RPL routes for:
//! `rank`, `etx`, `hops`, `neighbours` and `node_rto_s`.

mod event;
mod traced;

use carob_cc::time::Duration;
use carob_sim::mesh::record::{Histogram, MeshRecord, NodeRecord};
use carob_sim::spec::RunRecord;

use super::table as m;
use super::{Metric, seconds};

/// Largest number of hops to the root of a node near to it.
const NEAR: u16 = 2;
/// A rank without a parent.
const INFINITE_RANK: u16 = u16::MAX;

/// One of a node's counts.
type Count = fn(&NodeRecord) -> u64;

/// Adds the samples of one run.
pub(super) fn collect(record: &MeshRecord, add: &mut impl FnMut(Metric, f64)) {
    messages(record, add);
    times(record, add);
    timers(record, add);
    layers(record, add);
    nodes(record, add);
    event::collect(record, add);
    traced::collect(record, add);
}

fn sum(record: &MeshRecord, of: Count) -> f64 {
    record.nodes.iter().map(of).sum::<u64>() as f64
}

/// Metrics of messages.
fn messages(record: &MeshRecord, add: &mut impl FnMut(Metric, f64)) {
    let sum = |of: Count| sum(record, of);
    let (generated, received) = (sum(|n| n.generated), sum(|n| n.received));
    add(m::GENERATED, generated);
    if generated > 0.0 {
        add(m::PDR, received / generated);
        add(m::ANSWERED_RATIO, sum(|n| n.answered) / generated);
        add(m::APP_DROP_RATIO, sum(|n| n.app_drops) / generated);
        add(m::MAC_DROP_RATIO, sum(|n| n.mac.drops()) / generated);
    }
    let sent = sum(|n| n.sent);
    if sent > 0.0 {
        add(m::PDR_OF_SENT, received / sent);
        add(
            m::TRANSMISSIONS_PER_EXCHANGE,
            sum(|n| n.transmissions) / sent,
        );
    }
    let transmissions = sum(|n| n.transmissions);
    if transmissions > 0.0 {
        add(m::ROUTE_DROP_RATIO, sum(|n| n.route_drops) / transmissions);
    }
    let confirmable = sum(|n| n.confirmable);
    if confirmable > 0.0 {
        add(m::CON_RATIO, confirmable / sent);
        add(m::FAILED_RATIO, sum(|n| n.failed) / confirmable);
    }
    let took = seconds(record.duration);
    if took > 0.0 {
        let bytes = received * f64::from(record.counted_bytes);
        add(m::CARRIED_BYTES_PS, bytes / took);
        add(m::THROUGHPUT_BPS, bytes * 8.0 / took);
    }
    let sums: [(Metric, Count); 5] = [
        (m::TRANSMISSIONS, |n| n.transmissions),
        (m::APP_DROPS, |n| n.app_drops),
        (m::ROUTE_DROPS, |n| n.route_drops),
        (m::REASSEMBLY_DROPS, |n| n.reassembly_drops),
        (m::CONTROL, |n| n.control),
    ];
    for (name, of) in sums {
        add(name, sum(of));
    }
    for node in record.nodes.iter().filter(|node| node.sent > 0) {
        add(m::RETRANSMISSIONS, node.retransmissions as f64);
        add(m::SPURIOUS, node.spurious as f64);
    }
}

/// Metrics of delays and settling times.
fn times(record: &MeshRecord, add: &mut impl FnMut(Metric, f64)) {
    let mut all = record.delay.clone();
    all.merge(&record.burst_delay);
    mean(m::DELAY_S, &all, add);
    mean(m::BURST_DELAY_S, &record.near_burst_delay, add);
    quantile(m::DELAY_P50_S, &all, 500, add);
    quantile(m::DELAY_P95_S, &all, 950, add);
    let generated = sum(record, |n| n.generated);
    if generated == 0.0 {
        return;
    }
    let within = |millis: u64| all.at_most(Duration::from_millis(millis)) as f64;
    for (name, time) in [
        (m::WITHIN_1_S, 1),
        (m::WITHIN_2_S, 2),
        (m::WITHIN_5_S, 5),
        (m::WITHIN_10_S, 10),
        (m::WITHIN_20_S, 20),
        (m::WITHIN_30_S, 30),
        (m::WITHIN_60_S, 60),
    ] {
        add(name, within(time * 1_000) / generated);
    }
    // Default CoAP's first copy is followed by others after 2 to 3, 6 to 9 and 14 to 21 s.
    let rate = |from: u64, to: u64| (within(to) - within(from)) / (to - from) as f64;
    let steps = [
        [1_000, 2_000, 3_500],
        [4_000, 6_000, 9_500],
        [10_000, 14_000, 21_500],
    ];
    let risen = steps
        .iter()
        .filter(|[gap, step, end]| rate(*step, *end) > rate(*gap, *step));
    add(m::DELAY_STEPS, risen.count() as f64);
}

/// Metrics of the controllers' RTOs.
fn timers(record: &MeshRecord, add: &mut impl FnMut(Metric, f64)) {
    let init = &record.rto_init;
    mean(m::RTO_INIT_S, init, add);
    quantile(m::RTO_INIT_P10_S, init, 100, add);
    quantile(m::RTO_INIT_P50_S, init, 500, add);
    quantile(m::RTO_INIT_P90_S, init, 900, add);
    if let Some((low, high)) = init.quantile(100).zip(init.quantile(900)) {
        add(m::RTO_INIT_RANGE_S, seconds(high) - seconds(low));
        let below = init.at_most(Duration::from_secs(10)) as f64;
        add(m::RTO_INIT_ABOVE_10_S, 1.0 - below / init.count as f64);
    }
    mean(m::RTO_S, &record.rto, add);
    let variance = &record.rttvar_weak;
    mean(m::RTTVAR_WEAK_S, variance, add);
    if variance.count > 0 {
        let below = variance.at_most(Duration::from_secs(5)) as f64;
        add(m::RTTVAR_WEAK_BELOW_5_S, below / variance.count as f64);
    }
    // Without any confirmable message there is nothing to have weak samples of.
    if init.count > 0 {
        add(m::WEAK_UPDATES, variance.count as f64);
    }
    mean(m::RTT_WEAK_S, &record.rtt_weak, add);
    let mut pairs = Vec::new();
    for node in &record.nodes {
        if node.rtos > 0 {
            let rto = seconds(node.rto_sum) / f64::from(node.rtos);
            add(m::NODE_RTO_S, rto);
            pairs.push((rto, node.app_drops as f64));
        }
    }
    if let Some(correlation) = correlation(&pairs) {
        add(m::RTO_DROP_CORRELATION, correlation);
    }
}

/// Metrics of radios and routers.
fn layers(record: &MeshRecord, add: &mut impl FnMut(Metric, f64)) {
    let sums: [(Metric, Count); 7] = [
        (m::MAC_DROPS, |n| n.mac.drops()),
        (m::MAC_QUEUE_DROPS, |n| n.mac.queue_drops),
        (m::MAC_NO_ACK_DROPS, |n| n.mac.no_ack_drops),
        (m::MAC_CHANNEL_DROPS, |n| n.mac.channel_drops),
        (m::COLLISIONS, |n| n.mac.collisions),
        (m::PARENT_RESETS, |n| n.parent_resets),
        (m::REPAIRS, |n| n.repairs),
    ];
    for (name, of) in sums {
        add(name, sum(record, of));
    }
    let offered = sum(record, |n| n.mac.offered);
    if offered > 0.0 {
        let given_up = sum(record, |n| n.mac.no_ack_drops);
        add(m::MAC_NO_ACK_RATIO, given_up / offered);
        let transmissions = sum(record, |n| n.mac.transmissions);
        add(m::MAC_TRANSMISSIONS_PER_FRAME, transmissions / offered);
    }
    let near = |node: &&NodeRecord| node.hops.is_some_and(|hops| (1..=NEAR).contains(&hops));
    let far = |node: &&NodeRecord| node.hops.is_some_and(|hops| hops > NEAR);
    let near: Vec<&NodeRecord> = record.nodes.iter().filter(near).collect();
    let far: Vec<&NodeRecord> = record.nodes.iter().filter(far).collect();
    for (pdr, drops, some) in [
        (m::PDR_NEAR, m::MAC_DROPS_NEAR, near),
        (m::PDR_FAR, m::MAC_DROPS_FAR, far),
    ] {
        let total = |of: Count| some.iter().map(|node| of(node)).sum::<u64>() as f64;
        let generated = total(|n| n.generated);
        if generated > 0.0 {
            add(pdr, total(|n| n.received) / generated);
        }
        if !some.is_empty() {
            add(drops, total(|n| n.mac.drops()) / some.len() as f64);
        }
    }
}

/// Where nodes ended up.
fn nodes(record: &MeshRecord, add: &mut impl FnMut(Metric, f64)) {
    add(m::NODES, record.nodes.len() as f64);
    let is_root = |node: &NodeRecord| node.hops == Some(0);
    let others = || record.nodes.iter().filter(|node| !is_root(node));
    let longest = others().map(|node| node.orphan_longest).max();
    add(m::ORPHAN_S, seconds(longest.unwrap_or_default()));
    let all = seconds(record.duration) * others().count() as f64;
    if all > 0.0 {
        let orphans: f64 = others().map(|node| seconds(node.orphan)).sum();
        add(m::ORPHAN_RATIO, orphans / all);
    }
    let stopped = others().filter(|node| node.stopped_at.is_some());
    add(m::STOPPED, stopped.count() as f64);
    round_trips(record, add);
    let orphaned = others().filter(|node| node.parent.is_none());
    add(m::ORPHANED, orphaned.count() as f64);
    for node in others() {
        add(m::NEIGHBOURS, f64::from(node.neighbours));
        if let Some(hops) = node.hops {
            add(m::HOPS, f64::from(hops));
        }
        if node.parent.is_some() && node.rank != INFINITE_RANK {
            add(m::RANK, f64::from(node.rank));
            add(m::ETX, f64::from(node.etx) / 100.0);
        }
    }
}

/// Round trips without retransmission as a line over hops: its slope, and its value at no hops.
fn round_trips(record: &MeshRecord, add: &mut impl FnMut(Metric, f64)) {
    let some = record.nodes.iter().filter(|node| node.round_trips > 0);
    let point = |node: &NodeRecord| {
        let mean = seconds(node.round_trip_sum) / f64::from(node.round_trips);
        Some((f64::from(node.hops?), mean))
    };
    let points: Vec<(f64, f64)> = some.filter_map(point).collect();
    let count = points.len() as f64;
    let (hops, times) = points
        .iter()
        .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (hops, times) = (hops / count, times / count);
    let spread: f64 = points.iter().map(|(h, _)| (h - hops).powi(2)).sum();
    if spread > 0.0 {
        let both: f64 = points.iter().map(|(h, t)| (h - hops) * (t - times)).sum();
        add(m::ROUND_TRIP_PER_HOP_S, both / spread);
        add(m::ROUND_TRIP_BASE_S, times - hops * both / spread);
    }
}

/// Times of a metric of wireless networks of which runs have the mean or the longest.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    pooled: Histogram,
    longest: Vec<f64>,
}

impl Spread {
    /// Adds the times of a run.
    pub(crate) fn add(&mut self, metric: &Metric, record: &RunRecord) {
        let Some(mesh) = &record.mesh else { return };
        let of = match *metric {
            m::DELAY_S => [&mesh.delay, &mesh.burst_delay].map(Some),
            m::BURST_DELAY_S => [Some(&mesh.near_burst_delay), None],
            m::RTO_INIT_S => [Some(&mesh.rto_init), None],
            m::RTO_S => [Some(&mesh.rto), None],
            m::RTTVAR_WEAK_S => [Some(&mesh.rttvar_weak), None],
            m::ORPHAN_S => {
                let nodes = mesh.nodes.iter().map(|node| seconds(node.orphan_longest));
                self.longest.extend(nodes);
                return;
            }
            _ => return,
        };
        for one in of.into_iter().flatten() {
            self.pooled.merge(one);
        }
    }

    /// The times in seconds: one per node, or a thousand quantiles.
    pub(crate) fn values(self) -> Vec<f64> {
        if !self.longest.is_empty() {
            return self.longest;
        }
        (1..=1_000)
            .filter_map(|share| self.pooled.quantile(share).map(seconds))
            .collect()
    }
}

fn mean(metric: Metric, of: &Histogram, add: &mut impl FnMut(Metric, f64)) {
    if let Some(mean) = of.mean() {
        add(metric, seconds(mean));
    }
}

fn quantile(metric: Metric, of: &Histogram, thousandths: u32, add: &mut impl FnMut(Metric, f64)) {
    if let Some(time) = of.quantile(thousandths) {
        add(metric, seconds(time));
    }
}

/// Pearson's; nothing if one of them is the same everywhere.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let product = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
    let both = product(&|pair| (pair.0 - x) * (pair.1 - y));
    let squares = [
        product(&|pair| (pair.0 - x).powi(2)),
        product(&|pair| (pair.1 - y).powi(2)),
    ];
    let spread = (squares[0] * squares[1]).sqrt();
    (spread > 0.0).then(|| both / spread)
}

#[cfg(test)]
mod tests;
