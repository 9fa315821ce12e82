//! Metrics of wireless networks.
//!
//! Most have a sample per run; what differs from node to node has one per node that RPL routes for:
//! `rank`, `etx`, `hops`, `neighbours` and `node_rto_s`.

mod event;
mod traced;

use carob_cc::time::Duration;
use carob_sim::mesh::record::{Histogram, MeshRecord, NodeRecord};

use super::seconds;

/// Nodes so many hops from the root, or fewer, are near to it.
const NEAR: u16 = 2;
/// A rank without a parent.
const INFINITE_RANK: u16 = u16::MAX;

/// One of a node's counts.
type Count = fn(&NodeRecord) -> u64;

/// Adds the samples of one run.
pub(super) fn collect(record: &MeshRecord, add: &mut impl FnMut(&'static str, f64)) {
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
fn messages(record: &MeshRecord, add: &mut impl FnMut(&'static str, f64)) {
    let sum = |of: Count| sum(record, of);
    let (generated, received) = (sum(|n| n.generated), sum(|n| n.received));
    add("generated", generated);
    if generated > 0.0 {
        add("pdr", received / generated);
        add("answered_ratio", sum(|n| n.answered) / generated);
        add("app_drop_ratio", sum(|n| n.app_drops) / generated);
        add("mac_drop_ratio", sum(|n| n.mac.drops()) / generated);
    }
    let sent = sum(|n| n.sent);
    if sent > 0.0 {
        add("pdr_of_sent", received / sent);
        add(
            "transmissions_per_exchange",
            sum(|n| n.transmissions) / sent,
        );
    }
    let transmissions = sum(|n| n.transmissions);
    if transmissions > 0.0 {
        add("route_drop_ratio", sum(|n| n.route_drops) / transmissions);
    }
    let confirmable = sum(|n| n.confirmable);
    if confirmable > 0.0 {
        add("con_ratio", confirmable / sent);
        add("failed_ratio", sum(|n| n.failed) / confirmable);
    }
    let took = seconds(record.duration);
    if took > 0.0 {
        let bytes = received * f64::from(record.counted_bytes);
        add("carried_Bps", bytes / took);
        add("throughput_bps", bytes * 8.0 / took);
    }
    let sums: [(&'static str, Count); 5] = [
        ("transmissions", |n| n.transmissions),
        ("app_drops", |n| n.app_drops),
        ("route_drops", |n| n.route_drops),
        ("reassembly_drops", |n| n.reassembly_drops),
        ("control", |n| n.control),
    ];
    for (name, of) in sums {
        add(name, sum(of));
    }
    for node in record.nodes.iter().filter(|node| node.sent > 0) {
        add("retransmissions", node.retransmissions as f64);
        add("spurious", node.spurious as f64);
    }
}

/// Metrics of delays and settling times.
fn times(record: &MeshRecord, add: &mut impl FnMut(&'static str, f64)) {
    let mut all = record.delay.clone();
    all.merge(&record.burst_delay);
    mean("delay_s", &all, add);
    mean("burst_delay_s", &record.near_burst_delay, add);
    quantile("delay_p50_s", &all, 500, add);
    quantile("delay_p95_s", &all, 950, add);
    let generated = sum(record, |n| n.generated);
    if generated == 0.0 {
        return;
    }
    let within = |millis: u64| all.at_most(Duration::from_millis(millis)) as f64;
    for (name, time) in [
        ("within_1_s", 1),
        ("within_2_s", 2),
        ("within_5_s", 5),
        ("within_10_s", 10),
        ("within_20_s", 20),
        ("within_30_s", 30),
        ("within_60_s", 60),
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
    add("delay_steps", risen.count() as f64);
}

/// Metrics of the controllers' RTOs.
fn timers(record: &MeshRecord, add: &mut impl FnMut(&'static str, f64)) {
    let init = &record.rto_init;
    mean("rto_init_s", init, add);
    quantile("rto_init_p10_s", init, 100, add);
    quantile("rto_init_p50_s", init, 500, add);
    quantile("rto_init_p90_s", init, 900, add);
    if let Some((low, high)) = init.quantile(100).zip(init.quantile(900)) {
        add("rto_init_range_s", seconds(high) - seconds(low));
        let below = init.at_most(Duration::from_secs(10)) as f64;
        add("rto_init_above_10_s", 1.0 - below / init.count as f64);
    }
    mean("rto_s", &record.rto, add);
    let variance = &record.rttvar_weak;
    mean("rttvar_weak_s", variance, add);
    if variance.count > 0 {
        let below = variance.at_most(Duration::from_secs(5)) as f64;
        add("rttvar_weak_below_5_s", below / variance.count as f64);
    }
    // Without any confirmable message there is nothing to have weak samples of.
    if init.count > 0 {
        add("weak_updates", variance.count as f64);
    }
    mean("rtt_weak_s", &record.rtt_weak, add);
    let mut pairs = Vec::new();
    for node in &record.nodes {
        if node.rtos > 0 {
            let rto = seconds(node.rto_sum) / f64::from(node.rtos);
            add("node_rto_s", rto);
            pairs.push((rto, node.app_drops as f64));
        }
    }
    if let Some(correlation) = correlation(&pairs) {
        add("rto_drop_correlation", correlation);
    }
}

/// Metrics of radios and routers.
fn layers(record: &MeshRecord, add: &mut impl FnMut(&'static str, f64)) {
    let sums: [(&'static str, Count); 7] = [
        ("mac_drops", |n| n.mac.drops()),
        ("mac_queue_drops", |n| n.mac.queue_drops),
        ("mac_no_ack_drops", |n| n.mac.no_ack_drops),
        ("mac_channel_drops", |n| n.mac.channel_drops),
        ("collisions", |n| n.mac.collisions),
        ("parent_resets", |n| n.parent_resets),
        ("repairs", |n| n.repairs),
    ];
    for (name, of) in sums {
        add(name, sum(record, of));
    }
    let offered = sum(record, |n| n.mac.offered);
    if offered > 0.0 {
        let given_up = sum(record, |n| n.mac.no_ack_drops);
        add("mac_no_ack_ratio", given_up / offered);
        let transmissions = sum(record, |n| n.mac.transmissions);
        add("mac_transmissions_per_frame", transmissions / offered);
    }
    let near = |node: &&NodeRecord| node.hops.is_some_and(|hops| (1..=NEAR).contains(&hops));
    let far = |node: &&NodeRecord| node.hops.is_some_and(|hops| hops > NEAR);
    let near: Vec<&NodeRecord> = record.nodes.iter().filter(near).collect();
    let far: Vec<&NodeRecord> = record.nodes.iter().filter(far).collect();
    for (pdr, drops, some) in [
        ("pdr_near", "mac_drops_near", near),
        ("pdr_far", "mac_drops_far", far),
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
fn nodes(record: &MeshRecord, add: &mut impl FnMut(&'static str, f64)) {
    add("nodes", record.nodes.len() as f64);
    let is_root = |node: &NodeRecord| node.hops == Some(0);
    let others = || record.nodes.iter().filter(|node| !is_root(node));
    let longest = others().map(|node| node.orphan_longest).max();
    add("orphan_s", seconds(longest.unwrap_or_default()));
    let all = seconds(record.duration) * others().count() as f64;
    if all > 0.0 {
        let orphans: f64 = others().map(|node| seconds(node.orphan)).sum();
        add("orphan_ratio", orphans / all);
    }
    let stopped = others().filter(|node| node.stopped_at.is_some());
    add("stopped", stopped.count() as f64);
    round_trips(record, add);
    let orphaned = others().filter(|node| node.parent.is_none());
    add("orphaned", orphaned.count() as f64);
    for node in others() {
        add("neighbours", f64::from(node.neighbours));
        if let Some(hops) = node.hops {
            add("hops", f64::from(hops));
        }
        if node.parent.is_some() && node.rank != INFINITE_RANK {
            add("rank", f64::from(node.rank));
            add("etx", f64::from(node.etx) / 100.0);
        }
    }
}

/// Round trips without retransmission as a line over hops: its slope, and its value at no hops.
fn round_trips(record: &MeshRecord, add: &mut impl FnMut(&'static str, f64)) {
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
        add("round_trip_per_hop_s", both / spread);
        add("round_trip_base_s", times - hops * both / spread);
    }
}

fn mean(name: &'static str, of: &Histogram, add: &mut impl FnMut(&'static str, f64)) {
    if let Some(mean) = of.mean() {
        add(name, seconds(mean));
    }
}

fn quantile(
    name: &'static str,
    of: &Histogram,
    thousandths: u32,
    add: &mut impl FnMut(&'static str, f64),
) {
    if let Some(time) = of.quantile(thousandths) {
        add(name, seconds(time));
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
