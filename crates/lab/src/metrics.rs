//! From records of runs to the metrics of tables, under their settled names.

use std::collections::{BTreeMap, BTreeSet};

use carob_cc::time::{Duration, Instant};
use carob_sim::link::Counters;
use carob_sim::spec::{FlowRecord, Recording, RunRecord, Sample};
use carob_sim::trace::EVENTS_RECORDED_MAX;
use serde_json::{Value, json};

use crate::statistics::{Statistics, jain, percentile};
use crate::timer_log::{self, Fate, LOGGED_MAX};

mod mesh;
mod notifications;
mod table;

pub(crate) use mesh::Spread;
pub use table::*;

/// Samples of each metric, by name.
///
/// Metrics of flows (such as `fct_s`) have a sample per flow, metrics of runs (such as `loss`) one
/// per run; all runs of a cell are pooled, as the thesis pools its four clients.
pub type Samples = BTreeMap<&'static str, Vec<f64>>;

/// Statistics by metric.
pub type Metrics = BTreeMap<&'static str, Statistics>;

/// A metric, declared once in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, unit last.
    pub name: &'static str,
    /// Unit of its values; `1` for counts and shares.
    pub unit: &'static str,
    /// Description, one sentence.
    pub about: &'static str,
    /// Source of its values: a flow, a run, or others.
    pub how: How,
}

/// Source of a metric's values, which are pooled over all runs of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// One value a run.
    Run,
    /// One value a flow.
    Flow,
    /// One value a response.
    Response,
    /// One value a node that RPL routes for.
    Node,
    /// One value a recorded sample.
    Sample,
    /// One value a timer, if events are recorded.
    Timer,
    /// One value a run, if events are recorded.
    RunOfTimers,
    /// One value a flow; in a wireless network one a run.
    FlowOrRun,
    /// One value a flow; in a wireless network one a node.
    FlowOrNode,
    /// One value a recorded sample; in a wireless network one a run.
    SampleOrRun,
    /// One value a subscriber; in a wireless network one a run.
    SubscriberOrRun,
    /// One value a flow or subscriber; in a wireless network one a node.
    FlowSubscriberOrNode,
}

impl How {
    /// The source in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Flow => "flow",
            Self::Response => "response",
            Self::Node => "node",
            Self::Sample => "recorded sample",
            Self::Timer => "timer of recorded events",
            Self::RunOfTimers => "run with recorded events",
            Self::FlowOrRun => "flow, or run of a wireless network",
            Self::FlowOrNode => "flow, or node of a wireless network",
            Self::SampleOrRun => "recorded sample, or run of a wireless network",
            Self::SubscriberOrRun => "subscriber, or run of a wireless network",
            Self::FlowSubscriberOrNode => "flow, subscriber, or node of a wireless network",
        }
    }
}

impl Metric {
    /// Its entry in the dictionary of results.
    pub fn entry(&self) -> Value {
        json!({
            "name": self.name,
            "unit": self.unit,
            "of": self.how.name(),
            "meaning": self.about,
        })
    }

    /// The metric with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }
}

/// The recording that runs need for metrics with these names.
pub fn recording(wanted: &BTreeSet<String>) -> Recording {
    let is_of_events = |metric: &Metric| matches!(metric.how, How::Timer | How::RunOfTimers);
    let mut metrics = wanted.iter().filter_map(|name| Metric::named(name));
    Recording {
        events: if metrics.any(is_of_events) {
            EVENTS_RECORDED_MAX
        } else {
            0
        },
        ..Recording::default()
    }
}

/// CoAP's header over UDP, in bytes (RFC 7252 3).
const COAP_HEADER: u64 = 4;

/// Adds the samples of one run.
pub fn collect(record: &RunRecord, samples: &mut Samples) {
    let mut add = |metric: Metric, value: f64| samples.entry(metric.name).or_default().push(value);
    let mut goodputs = Vec::with_capacity(record.flows.len());
    for flow in &record.flows {
        if let Some(completion) = flow.completion() {
            let seconds = completion.as_micros() as f64 / 1e6;
            add(FCT_S, seconds);
            if seconds > 0.0 {
                goodputs.push(flow.body_bytes as f64 * 8.0 / seconds);
            }
        }
        if let Some(setup) = flow.setup {
            add(SETUP_S, setup.as_micros() as f64 / 1e6);
        }
        if let Some(segments) = flow.segments {
            add(SEGMENTS, segments as f64);
        }
        if let Some(recovery) = flow.recovery {
            add(RECOVERIES, recovery.entered as f64);
            add(RECOVERY_S, seconds(recovery.time));
            add(RTO_PEAK_S, seconds(recovery.rto_peak));
            if let Some(first) = recovery.first_timeout {
                add(RTO_FIRST_S, seconds(first));
            }
        }
        if flow.stall > Duration::ZERO {
            add(STALL_S, flow.stall.as_micros() as f64 / 1e6);
        }
        if flow.packets > 0 {
            add(PACKETS, flow.packets as f64);
            add(HEADER_BYTES, flow.header_bytes as f64);
            if flow.segments.is_none() {
                add(COAP_HEADER_BYTES, (flow.packets * COAP_HEADER) as f64);
            }
        }
        if let Some(closing) = flow.closing {
            add(CLOSE_PACKETS, closing.packets as f64);
            add(CLOSE_S, closing.time.as_micros() as f64 / 1e6);
        }
        add(EXCHANGES, f64::from(flow.exchanges));
        if flow.exchanges > 0 {
            let copies = flow.transmissions as f64 / f64::from(flow.exchanges);
            add(TRANSMISSIONS_PER_EXCHANGE, copies);
            let each = |count: u64| count as f64 / f64::from(flow.exchanges);
            add(RETRANSMISSIONS_PER_EXCHANGE, each(flow.retransmissions));
            add(SPURIOUS_PER_EXCHANGE, each(flow.spurious));
        }
        add(RETRANSMISSIONS, flow.retransmissions as f64);
        add(SPURIOUS, flow.spurious as f64);
        add(RTO_COUNT, flow.timeouts as f64);
        if flow.segments.is_none() {
            add(FAILED, f64::from(flow.failed));
        }
        if let Some(mean) = flow.round_trips.mean() {
            add(RTT_MEAN_S, mean.as_micros() as f64 / 1e6);
        }
        if let Some(median) = flow.rto_median {
            add(RTO_MEDIAN_S, median.as_micros() as f64 / 1e6);
        }
        let traces: [(Metric, &[Sample]); 3] = [
            (RTT_S, &flow.rtt),
            (RTO_INIT_S, &flow.rto_init),
            (RTO_S, &flow.rto),
        ];
        for (name, trace) in traces {
            for sample in trace {
                add(name, sample.value.as_micros() as f64 / 1e6);
            }
        }
    }
    for goodput in &goodputs {
        add(GOODPUT_BPS, *goodput);
    }
    if !record.flows.is_empty() {
        let done = record
            .flows
            .iter()
            .filter(|f| f.completion().is_some())
            .count();
        add(SUCCESS_RATIO, done as f64 / record.flows.len() as f64);
    }
    of_requests(record, &mut add);
    of_server(record, &mut add);
    of_timers(record, &mut add);
    if record.flows.len() > 1 && record.flows.iter().all(|flow| flow.finished.is_some()) {
        let completions = record.flows.iter().filter_map(FlowRecord::completion);
        let times: Vec<f64> = completions.map(seconds).collect();
        if let Some(all) = Statistics::of(&times).filter(|all| all.p50 > 0.0) {
            add(FCT_SPREAD, all.max / all.p50);
        }
        let place = |key: fn(&FlowRecord) -> Option<Instant>| {
            let flows = record.flows.iter().enumerate();
            flows.max_by_key(|(_, flow)| key(flow)).map(|(n, _)| n)
        };
        let last = place(|flow| Some(flow.started)) == place(|flow| flow.finished);
        add(LAST_IS_LAST, f64::from(u8::from(last)));
    }
    if let (true, Some(index)) = (record.flows.len() > 1, jain(&goodputs)) {
        add(JAIN, index);
    }
    collect_shares(record, &mut add);
    if let Some(told) = &record.notifications {
        notifications::collect(told, &mut add);
    }
    if let Some(mesh) = &record.mesh {
        mesh::collect(mesh, &mut add);
    }
    for device in &record.devices {
        add(ENERGY_J, device.energy_uj as f64 / 1e6);
        add(RADIO_SEND_S, seconds(device.send));
        add(RADIO_RECEIVE_S, seconds(device.receive));
        add(RADIO_LISTEN_S, seconds(device.listen));
        add(RADIO_IDLE_S, seconds(device.idle));
        add(RADIO_SLEEP_S, seconds(device.sleep));
    }
    let (down, up) = (record.link.down, record.link.up);
    let offered = down.offered + up.offered;
    if offered > 0 {
        let dropped = |c: Counters| c.dropped_full + c.dropped_early + c.policed;
        add(DROPPED, (dropped(down) + dropped(up)) as f64);
        let gone_of = |c: Counters| c.lost + c.corrupted + dropped(c);
        let gone = gone_of(down) + gone_of(up);
        add(LOSS, gone as f64 / offered as f64);
        let corrupted = down.corrupted + up.corrupted;
        if corrupted > 0 {
            add(CORRUPTED, corrupted as f64);
        }
        if down.bytes_sent > 0 {
            let share = record.link.useless_down as f64 / down.bytes_sent as f64;
            add(USELESS_SHARE, share);
        }
        add(
            QUEUE_BYTES,
            down.queue_bytes_peak.max(up.queue_bytes_peak) as f64,
        );
    }
}

/// Metrics of a run's requests.
fn of_requests(record: &RunRecord, add: &mut impl FnMut(Metric, f64)) {
    let sum = |of: fn(&FlowRecord) -> u32| -> f64 {
        record.flows.iter().map(|flow| f64::from(of(flow))).sum()
    };
    let (answered, unanswered) = (sum(|flow| flow.answered), sum(|flow| flow.unanswered));
    if answered + unanswered > 0.0 {
        add(ANSWERED_RATIO, answered / (answered + unanswered));
        let began = record.flows.iter().map(|flow| flow.started).min();
        let took = seconds(record.ended.since(began.unwrap_or_default()));
        if took > 0.0 {
            add(THROUGHPUT_RPS, answered / took);
        }
    }
    // A single request takes the flow completion time.
    if answered + unanswered > record.flows.len() as f64 {
        let mut times: Vec<f64> = record.response_times.iter().copied().map(seconds).collect();
        for time in &times {
            add(RESPONSE_TIME_S, *time);
        }
        if let Some(mean) = record.responses.mean() {
            add(RESPONSE_S, seconds(mean));
        }
        times.sort_by(f64::total_cmp);
        if !times.is_empty() {
            add(RESPONSE_P95_S, percentile(&times, 0.95));
        } else if let Some(p95) = record.responses.quantile(950) {
            add(RESPONSE_P95_S, seconds(p95));
        }
    }
    for flow in &record.flows {
        let took = seconds(flow.ended.since(flow.started));
        if took > 0.0 {
            add(CLIENT_RPS, f64::from(flow.answered) / took);
        }
    }
    let exchanges = sum(|flow| flow.exchanges);
    let over_udp = record.flows.iter().all(|flow| flow.segments.is_none());
    if over_udp && exchanges > 0.0 {
        let at_once = sum(|flow| flow.answered_at_once);
        add(FIRST_ATTEMPT_RATIO, at_once / exchanges);
    }
}

/// Metrics of a run's server.
fn of_server(record: &RunRecord, add: &mut impl FnMut(Metric, f64)) {
    let Some(server) = record.server else {
        return;
    };
    add(SERVER_HANDLED, server.handled as f64);
    if server.handled > 0 {
        let repeated = server.repeated as f64 / server.handled as f64;
        add(SERVER_REPEATED_RATIO, repeated);
    }
    add(SERVER_DROPPED, server.dropped as f64);
    add(SERVER_QUEUE, f64::from(server.queue_peak));
    let whole = seconds(record.ended.since(Instant::ZERO));
    if whole > 0.0 {
        add(SERVER_BUSY_RATIO, seconds(server.busy) / whole);
    }
}

/// Metrics of a run's timers, if its events were recorded.
fn of_timers(record: &RunRecord, add: &mut impl FnMut(Metric, f64)) {
    let log = timer_log::of(record);
    if log.is_empty() {
        return;
    }
    for entry in &log {
        add(TIMER_S, seconds(entry.timeout));
    }
    let early = log.iter().filter(|entry| entry.fate == Fate::Early);
    add(TIMER_EARLY_RATIO, early.count() as f64 / log.len() as f64);
    let first = &log[..log.len().min(LOGGED_MAX)];
    add(TIMERS_SUIT_AFTER, timer_log::suitable_after(first) as f64);
    if let Some(bend) = timer_log::bend(first) {
        add(SUCCESS_BEND, bend);
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// Bytes received by flows, and the shares of two kinds of clients.
fn collect_shares(record: &RunRecord, add: &mut impl FnMut(Metric, f64)) {
    let rate = |flow: &FlowRecord| {
        let ended = if flow.ended == Instant::ZERO {
            record.ended
        } else {
            flow.ended
        };
        let time = ended.since(flow.started);
        (!time.is_zero()).then(|| flow.received_bytes as f64 * 8.0 / seconds(time))
    };
    let rates = |flows: &[FlowRecord]| flows.iter().filter_map(rate).collect::<Vec<_>>();
    let (first, second) = (rates(&record.flows), rates(&record.others));
    for value in first.iter().filter(|value| **value > 0.0) {
        add(RECEIVED_BPS, *value);
    }
    if record.others.is_empty() {
        return;
    }
    for value in &second {
        add(SECOND_RECEIVED_BPS, *value);
    }
    for flow in &record.others {
        add(SECOND_RETRANSMISSIONS, flow.retransmissions as f64);
        if let Some(completion) = flow.completion() {
            add(SECOND_FCT_S, seconds(completion));
        }
    }
    if record.flows.is_empty() {
        return; // the measured clients are notified
    }
    let bytes = |flows: &[FlowRecord]| flows.iter().map(|f| f.received_bytes).sum::<u64>() as f64;
    let (own, others) = (bytes(&record.flows), bytes(&record.others));
    if own + others > 0.0 {
        add(FIRST_SHARE, own / (own + others));
    }
    if let Some(index) = jain(&[first, second].concat()) {
        add(JAIN_RECEIVED, index);
    }
}

/// Statistics of every metric that has samples.
pub fn summarise(samples: &Samples) -> Metrics {
    samples
        .iter()
        .filter_map(|(name, values)| Some((*name, Statistics::of(values)?)))
        .collect()
}

/// The number of exchanges of a flow that took `copies` copies.
pub fn exchanges_with(flow: &FlowRecord, copies: usize) -> u32 {
    flow.transmissions_per_exchange
        .get(copies)
        .copied()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use carob_sim::spec::{LinkRecord, ServerRecord};

    use super::*;

    fn flow(seconds: Option<u64>) -> FlowRecord {
        FlowRecord {
            started: Instant::from_micros(1_000_000),
            finished: seconds.map(|s| Instant::from_micros((s + 1) * 1_000_000)),
            body_bytes: 1_000,
            exchanges: 4,
            transmissions: 6,
            retransmissions: 2,
            ..FlowRecord::default()
        }
    }

    #[test]
    fn flows_are_pooled_and_unfinished_ones_lower_success_only() {
        let counters = Counters {
            offered: 5,
            lost: 1,
            dropped_full: 1,
            ..Counters::default()
        };
        let record = RunRecord {
            flows: vec![flow(Some(10)), flow(Some(20)), flow(None)],
            link: LinkRecord {
                down: counters,
                up: Counters {
                    offered: 15,
                    ..Counters::default()
                },
                ..LinkRecord::default()
            },
            ..RunRecord::default()
        };
        let mut samples = Samples::new();
        collect(&record, &mut samples);
        assert_eq!(samples["fct_s"], [10.0, 20.0]);
        assert_eq!(samples["goodput_bps"], [800.0, 400.0]);
        assert_eq!(samples["success_ratio"], [2.0 / 3.0]);
        assert_eq!(samples["transmissions_per_exchange"], [1.5, 1.5, 1.5]);
        assert_eq!(samples["loss"], [0.1]);
        assert!(!samples.contains_key("setup_s") && !samples.contains_key("segments"));
        assert!(
            samples
                .keys()
                .all(|name| METRICS.iter().any(|m| m.name == *name))
        );
    }

    #[test]
    fn requests_and_server_cost_are_counted_over_the_run() {
        let flow = |answered, unanswered, ended| FlowRecord {
            started: Instant::from_micros(1_000_000),
            ended: Instant::from_micros(ended),
            answered,
            unanswered,
            answered_at_once: 4,
            exchanges: answered + unanswered,
            ..FlowRecord::default()
        };
        let record = RunRecord {
            flows: vec![flow(9, 1, 11_000_000), flow(6, 4, 21_000_000)],
            ended: Instant::from_micros(21_000_000),
            server: Some(ServerRecord {
                handled: 40,
                repeated: 10,
                dropped: 7,
                queue_peak: 5,
                busy: Duration::from_micros(10_500_000),
            }),
            ..RunRecord::default()
        };
        let mut samples = Samples::new();
        collect(&record, &mut samples);
        for (name, values) in [
            ("throughput_rps", &[0.75][..]),
            ("client_rps", &[0.9, 0.3]),
            ("answered_ratio", &[0.75]),
            ("first_attempt_ratio", &[0.4]),
            ("server_handled", &[40.0]),
            ("server_repeated_ratio", &[0.25]),
            ("server_dropped", &[7.0]),
            ("server_queue", &[5.0]),
            ("server_busy_ratio", &[0.5]),
        ] {
            assert_eq!(samples[name], values, "{name}");
            assert!(METRICS.iter().any(|m| m.name == name));
        }
        let mut cheap = Samples::new();
        collect(&RunRecord::default(), &mut cheap);
        assert!(cheap.is_empty(), "{cheap:?}");
    }

    #[test]
    fn response_times_are_exact_or_left_out_of_long_runs() {
        let times: Vec<Duration> = (1..=101).map(Duration::from_millis).collect();
        let mut record = RunRecord {
            flows: vec![FlowRecord {
                answered: 101,
                ..FlowRecord::default()
            }],
            response_times: times.clone(),
            ..RunRecord::default()
        };
        for time in &times {
            record.responses.add(*time);
        }
        let mut samples = Samples::new();
        collect(&record, &mut samples);
        let of = Statistics::of(&samples["response_time_s"]).expect("values");
        assert_eq!((of.n, of.p50, of.p95, of.p99), (101, 0.051, 0.096, 0.1));
        assert_eq!(samples["response_p95_s"], [0.096]);
        record.response_times.clear();
        let mut samples = Samples::new();
        collect(&record, &mut samples);
        assert!(!samples.contains_key("response_time_s"));
        let p95 = samples["response_p95_s"][0];
        assert!((0.096..0.102).contains(&p95), "{p95}");
    }

    #[test]
    fn connections_count_setup_segments_and_early_drops() {
        let counters = Counters {
            offered: 10,
            lost: 1,
            dropped_early: 2,
            ..Counters::default()
        };
        let mut over_tcp = flow(Some(10));
        over_tcp.setup = Some(Duration::from_millis(650));
        over_tcp.segments = Some(402);
        let record = RunRecord {
            flows: vec![over_tcp],
            link: LinkRecord {
                down: counters,
                ..LinkRecord::default()
            },
            ..RunRecord::default()
        };
        let mut samples = Samples::new();
        collect(&record, &mut samples);
        assert_eq!(
            (&samples["setup_s"], &samples["segments"]),
            (&vec![0.65], &vec![402.0])
        );
        assert_eq!(
            (&samples["fct_s"], &samples["loss"]),
            (&vec![10.0], &vec![0.3])
        );
        let known = |name: &&str| METRICS.iter().any(|m| m.name == *name);
        assert!(samples.keys().all(known));
    }
}
