//! From records of runs to the metrics of tables, under their settled names.

use std::collections::{BTreeMap, BTreeSet};

use carob_cc::time::{Duration, Instant};
use carob_sim::link::Counters;
use carob_sim::spec::{FlowRecord, Recording, RunRecord, Sample};
use carob_sim::trace::EVENTS_RECORDED_MAX;

use crate::statistics::{Statistics, jain};
use crate::timer_log::{self, Fate, LOGGED_MAX};

mod notifications;

/// Samples of each metric, by name.
///
/// Metrics of flows (such as `fct_s`) have a sample per flow, metrics of runs (such as `loss`) one
/// per run; all runs of a cell are pooled, as the thesis pools its four clients.
pub type Samples = BTreeMap<&'static str, Vec<f64>>;

/// What a metric is, for tables and documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, unit last.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
}

/// The metrics of runs over a constrained link.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "fct_s",
        about: "Flow completion time: first request to last complete response; connection set-up apart.",
    },
    Metric {
        name: "setup_s",
        about: "Connection set-up, for transports that have one.",
    },
    Metric {
        name: "goodput_bps",
        about: "Body bits over flow completion time.",
    },
    Metric {
        name: "throughput_rps",
        about: "Requests answered in a run, per second from the first client's begin to the last one's end.",
    },
    Metric {
        name: "client_rps",
        about: "Requests answered, per second of a client's own time.",
    },
    Metric {
        name: "answered_ratio",
        about: "Share of a run's requests that were answered.",
    },
    Metric {
        name: "first_attempt_ratio",
        about: "Share of a run's exchanges that were answered before anything was sent again, over UDP.",
    },
    Metric {
        name: "success_ratio",
        about: "Share of a run's flows that completed.",
    },
    Metric {
        name: "transmissions_per_exchange",
        about: "Copies per exchange, mean of a flow; over TCP, data segments sent per segment of new data.",
    },
    Metric {
        name: "segments",
        about: "Data segments the server sent over TCP, retransmissions included, per flow.",
    },
    Metric {
        name: "retransmissions",
        about: "Copies after the first of their exchange, per flow; over TCP, data segments the server sent again.",
    },
    Metric {
        name: "spurious",
        about: "Copies sent although an earlier copy and its answer were not lost, per flow; over TCP, data segments sent again although all their bytes had been sent in copies that were not lost.",
    },
    Metric {
        name: "retransmissions_per_exchange",
        about: "The same over the flow's exchanges; over TCP, over its segments of new data.",
    },
    Metric {
        name: "spurious_per_exchange",
        about: "Spurious copies over the flow's exchanges; over TCP, over its segments of new data.",
    },
    Metric {
        name: "failed",
        about: "Exchanges given up, per flow over UDP.",
    },
    Metric {
        name: "rtt_mean_s",
        about: "Mean round-trip time of a flow's exchanges, from the copy answered first to its answer: what the network took, over UDP.",
    },
    Metric {
        name: "rto_median_s",
        about: "Median of the first timers of a flow's exchanges, dithering included, over UDP.",
    },
    Metric {
        name: "rto_count",
        about: "Timers that ran out, per flow; over TCP, the server's retransmission timers.",
    },
    Metric {
        name: "loss",
        about: "Share of a run's packets lost or dropped, both directions.",
    },
    Metric {
        name: "queue_bytes",
        about: "The fullest a bottleneck buffer was in a run.",
    },
    Metric {
        name: "useless_share",
        about: "Share of the bytes towards the clients that was spent on copies nobody needed, per run: answers after the first to arrive, and TCP's spurious copies.",
    },
    Metric {
        name: "dropped",
        about: "Packets dropped by the bottlenecks of a run, both directions.",
    },
    Metric {
        name: "exchanges",
        about: "Message exchanges of a flow.",
    },
    Metric {
        name: "recoveries",
        about: "Fast recoveries that the server entered, per flow over TCP.",
    },
    Metric {
        name: "recovery_s",
        about: "Time that the server spent in fast recovery, per flow over TCP.",
    },
    Metric {
        name: "rto_first_s",
        about: "When the server's first timer ran out, from the request on, per flow over TCP.",
    },
    Metric {
        name: "rto_peak_s",
        about: "The longest timer that the server set, per flow over TCP.",
    },
    Metric {
        name: "stall_s",
        about: "The longest time without new bytes of the response, per flow.",
    },
    Metric {
        name: "packets",
        about: "Packets of a flow in both directions until its last response, connection set-up and acknowledgments included.",
    },
    Metric {
        name: "header_bytes",
        about: "Bytes of IP and UDP or TCP headers in those packets.",
    },
    Metric {
        name: "coap_header_bytes",
        about: "Bytes of fixed CoAP headers in those packets (RFC 7252 3), over UDP.",
    },
    Metric {
        name: "close_packets",
        about: "Packets from a connection's first FIN on, where runs go on until connections are closed.",
    },
    Metric {
        name: "close_s",
        about: "Time from a connection's first FIN until both ends had closed it.",
    },
    Metric {
        name: "server_handled",
        about: "Datagrams that the server worked on in a run, where that takes it time.",
    },
    Metric {
        name: "server_repeated_ratio",
        about: "Share of those that were copies of requests it had worked on before.",
    },
    Metric {
        name: "server_dropped",
        about: "Datagrams that found its receive queue full, per run.",
    },
    Metric {
        name: "server_queue",
        about: "The most datagrams that waited for it in a run.",
    },
    Metric {
        name: "server_busy_ratio",
        about: "Share of the run that it worked.",
    },
    Metric {
        name: "fct_spread",
        about: "The longest flow completion time of a run over the median, where several clients are all done.",
    },
    Metric {
        name: "last_is_last",
        about: "1 if the flow of a run that began last ended last, else 0.",
    },
    Metric {
        name: "jain",
        about: "Jain's fairness index of a run's goodputs.",
    },
    Metric {
        name: "received_bps",
        about: "Bits of new messages per second that a flow received, headers of CoAP included, from its first request to its end or that of the run.",
    },
    Metric {
        name: "second_received_bps",
        about: "The same of the other clients on the link (`mix.second`).",
    },
    Metric {
        name: "second_fct_s",
        about: "Flow completion time of the other clients on the link.",
    },
    Metric {
        name: "second_retransmissions",
        about: "Retransmissions per flow of the other clients on the link.",
    },
    Metric {
        name: "first_share",
        about: "Of the bytes of new messages that all clients of a run received, the share of the first kind, where there are two.",
    },
    Metric {
        name: "jain_received",
        about: "Jain's fairness index of what all clients of a run received per second, where there are two kinds.",
    },
    Metric {
        name: "pdr",
        about: "Notifications received over notifications generated, per run; what still waits or is under way as the run ends was generated and not received.",
    },
    Metric {
        name: "pdr_early",
        about: "The same of the rounds of the first two minutes.",
    },
    Metric {
        name: "pdr_late",
        about: "The same of the rounds after the first two minutes and before the last.",
    },
    Metric {
        name: "notifications",
        about: "Notifications generated in a run: one per round, subscriber and resource.",
    },
    Metric {
        name: "server_drop_ratio",
        about: "Share of the notifications of a run that the server dropped because too many waited.",
    },
    Metric {
        name: "superseded_ratio",
        about: "Share of the notifications of a run whose place a newer one took before they were sent.",
    },
    Metric {
        name: "unsent_ratio",
        about: "Share of the notifications of a run that waited at the server when it ended.",
    },
    Metric {
        name: "unlisted_ratio",
        about: "Share of the notifications of a run for subscribers that the server had taken off its list, because nobody acknowledged a CON (RFC 7641 4.5).",
    },
    Metric {
        name: "link_drop_ratio",
        about: "Copies of notifications that met a full buffer at the link, over the notifications of the run.",
    },
    Metric {
        name: "link_loss_ratio",
        about: "Copies of notifications that were lost at random, over the notifications of the run.",
    },
    Metric {
        name: "con_ratio",
        about: "Share of the notifications sent in a run that were CON.",
    },
    Metric {
        name: "delay_s",
        about: "Mean time from the round to reception, per subscriber.",
    },
    Metric {
        name: "send_correlation",
        about: "Correlation of the number of notifications sent in 100 ms with that 3 s later, per run.",
    },
    Metric {
        name: "rto_early_s",
        about: "The server's retransmission timeout 10 s after the first round (at the end of the first bin), mean of its subscribers; ACK_TIMEOUT where nothing was measured.",
    },
    Metric {
        name: "rto_settled_s",
        about: "The same between 90 and 120 s after the first round.",
    },
    Metric {
        name: "rto_settling_s",
        about: "When that mean was last more than half as long again as `rto_settled_s` in the first 120 s, to a bin; 0 if it never was.",
    },
    Metric {
        name: "rto_swing",
        about: "The longest over the shortest of those means from 60 to 120 s.",
    },
    Metric {
        name: "rtt_s",
        about: "Round-trip times, when samples are recorded.",
    },
    Metric {
        name: "rto_init_s",
        about: "First timers of exchanges, when samples are recorded.",
    },
    Metric {
        name: "rto_s",
        about: "Retransmission timeouts, when samples are recorded.",
    },
    Metric {
        name: "timer_s",
        about: "Timers of all copies, dithering included, when events are recorded.",
    },
    Metric {
        name: "timer_early_ratio",
        about: "Share of a run's timers that ran out although an answer was to come, when events are recorded.",
    },
    Metric {
        name: "timers_suit_after",
        about: "After how many of a run's first 1,500 timers they suit: of any 100 in a row after that, at most 10 run out although an answer is to come. When events are recorded.",
    },
    Metric {
        name: "success_bend",
        about: "How unevenly exchanges are answered after a run's first 400 timers, up to the 1,500th: the largest distance of their cumulative number from a straight line, over that number. When events are recorded.",
    },
];

/// Metrics that are made of a run's events.
const OF_EVENTS: [&str; 4] = [
    "timer_s",
    "timer_early_ratio",
    "timers_suit_after",
    "success_bend",
];

/// What runs must keep for these metrics.
pub fn recording(wanted: &BTreeSet<String>) -> Recording {
    let of_events = wanted.iter().any(|name| OF_EVENTS.contains(&name.as_str()));
    Recording {
        events: if of_events { EVENTS_RECORDED_MAX } else { 0 },
        ..Recording::default()
    }
}

/// CoAP's header over UDP, in bytes (RFC 7252 3).
const COAP_HEADER: u64 = 4;

/// Adds the samples of one run.
pub fn collect(record: &RunRecord, samples: &mut Samples) {
    let mut add = |name: &'static str, value: f64| samples.entry(name).or_default().push(value);
    let mut goodputs = Vec::with_capacity(record.flows.len());
    for flow in &record.flows {
        if let Some(completion) = flow.completion() {
            let seconds = completion.as_micros() as f64 / 1e6;
            add("fct_s", seconds);
            if seconds > 0.0 {
                goodputs.push(flow.body_bytes as f64 * 8.0 / seconds);
            }
        }
        if let Some(setup) = flow.setup {
            add("setup_s", setup.as_micros() as f64 / 1e6);
        }
        if let Some(segments) = flow.segments {
            add("segments", segments as f64);
        }
        if let Some(recovery) = flow.recovery {
            add("recoveries", recovery.entered as f64);
            add("recovery_s", seconds(recovery.time));
            add("rto_peak_s", seconds(recovery.rto_peak));
            if let Some(first) = recovery.first_timeout {
                add("rto_first_s", seconds(first));
            }
        }
        if flow.stall > Duration::ZERO {
            add("stall_s", flow.stall.as_micros() as f64 / 1e6);
        }
        if flow.packets > 0 {
            add("packets", flow.packets as f64);
            add("header_bytes", flow.header_bytes as f64);
            if flow.segments.is_none() {
                add("coap_header_bytes", (flow.packets * COAP_HEADER) as f64);
            }
        }
        if let Some(closing) = flow.closing {
            add("close_packets", closing.packets as f64);
            add("close_s", closing.time.as_micros() as f64 / 1e6);
        }
        add("exchanges", f64::from(flow.exchanges));
        if flow.exchanges > 0 {
            let copies = flow.transmissions as f64 / f64::from(flow.exchanges);
            add("transmissions_per_exchange", copies);
            let each = |count: u64| count as f64 / f64::from(flow.exchanges);
            add("retransmissions_per_exchange", each(flow.retransmissions));
            add("spurious_per_exchange", each(flow.spurious));
        }
        add("retransmissions", flow.retransmissions as f64);
        add("spurious", flow.spurious as f64);
        add("rto_count", flow.timeouts as f64);
        if flow.segments.is_none() {
            add("failed", f64::from(flow.failed));
        }
        if let Some(mean) = flow.round_trips.mean() {
            add("rtt_mean_s", mean.as_micros() as f64 / 1e6);
        }
        if let Some(median) = flow.rto_median {
            add("rto_median_s", median.as_micros() as f64 / 1e6);
        }
        let traces: [(&'static str, &[Sample]); 3] = [
            ("rtt_s", &flow.rtt),
            ("rto_init_s", &flow.rto_init),
            ("rto_s", &flow.rto),
        ];
        for (name, trace) in traces {
            for sample in trace {
                add(name, sample.value.as_micros() as f64 / 1e6);
            }
        }
    }
    for goodput in &goodputs {
        add("goodput_bps", *goodput);
    }
    if !record.flows.is_empty() {
        let done = record
            .flows
            .iter()
            .filter(|f| f.completion().is_some())
            .count();
        add("success_ratio", done as f64 / record.flows.len() as f64);
    }
    of_requests(record, &mut add);
    of_server(record, &mut add);
    of_timers(record, &mut add);
    if record.flows.len() > 1 && record.flows.iter().all(|flow| flow.finished.is_some()) {
        let completions = record.flows.iter().filter_map(FlowRecord::completion);
        let times: Vec<f64> = completions.map(seconds).collect();
        if let Some(all) = Statistics::of(&times).filter(|all| all.p50 > 0.0) {
            add("fct_spread", all.max / all.p50);
        }
        let place = |key: fn(&FlowRecord) -> Option<Instant>| {
            let flows = record.flows.iter().enumerate();
            flows.max_by_key(|(_, flow)| key(flow)).map(|(n, _)| n)
        };
        let last = place(|flow| Some(flow.started)) == place(|flow| flow.finished);
        add("last_is_last", f64::from(u8::from(last)));
    }
    if let (true, Some(index)) = (record.flows.len() > 1, jain(&goodputs)) {
        add("jain", index);
    }
    collect_shares(record, &mut add);
    if let Some(told) = &record.notifications {
        notifications::collect(told, &mut add);
    }
    let (down, up) = (record.link.down, record.link.up);
    let offered = down.offered + up.offered;
    if offered > 0 {
        let dropped = |c: Counters| c.dropped_full + c.dropped_early;
        add("dropped", (dropped(down) + dropped(up)) as f64);
        let gone_of = |c: Counters| c.lost + c.dropped_full + c.dropped_early;
        let gone = gone_of(down) + gone_of(up);
        add("loss", gone as f64 / offered as f64);
        if down.bytes_sent > 0 {
            let share = record.link.useless_down as f64 / down.bytes_sent as f64;
            add("useless_share", share);
        }
        add(
            "queue_bytes",
            down.queue_bytes_peak.max(up.queue_bytes_peak) as f64,
        );
    }
}

/// What became of a run's requests.
fn of_requests(record: &RunRecord, add: &mut impl FnMut(&'static str, f64)) {
    let sum = |of: fn(&FlowRecord) -> u32| -> f64 {
        record.flows.iter().map(|flow| f64::from(of(flow))).sum()
    };
    let (answered, unanswered) = (sum(|flow| flow.answered), sum(|flow| flow.unanswered));
    if answered + unanswered > 0.0 {
        add("answered_ratio", answered / (answered + unanswered));
        let began = record.flows.iter().map(|flow| flow.started).min();
        let took = seconds(record.ended.since(began.unwrap_or_default()));
        if took > 0.0 {
            add("throughput_rps", answered / took);
        }
    }
    for flow in &record.flows {
        let took = seconds(flow.ended.since(flow.started));
        if took > 0.0 {
            add("client_rps", f64::from(flow.answered) / took);
        }
    }
    let exchanges = sum(|flow| flow.exchanges);
    let over_udp = record.flows.iter().all(|flow| flow.segments.is_none());
    if over_udp && exchanges > 0.0 {
        let at_once = sum(|flow| flow.answered_at_once);
        add("first_attempt_ratio", at_once / exchanges);
    }
}

/// What a run's server did.
fn of_server(record: &RunRecord, add: &mut impl FnMut(&'static str, f64)) {
    let Some(server) = record.server else {
        return;
    };
    add("server_handled", server.handled as f64);
    if server.handled > 0 {
        let repeated = server.repeated as f64 / server.handled as f64;
        add("server_repeated_ratio", repeated);
    }
    add("server_dropped", server.dropped as f64);
    add("server_queue", f64::from(server.queue_peak));
    let whole = seconds(record.ended.since(Instant::ZERO));
    if whole > 0.0 {
        add("server_busy_ratio", seconds(server.busy) / whole);
    }
}

/// What became of a run's timers, if its events were recorded.
fn of_timers(record: &RunRecord, add: &mut impl FnMut(&'static str, f64)) {
    let log = timer_log::of(record);
    if log.is_empty() {
        return;
    }
    for entry in &log {
        add("timer_s", seconds(entry.timeout));
    }
    let early = log.iter().filter(|entry| entry.fate == Fate::Early);
    add("timer_early_ratio", early.count() as f64 / log.len() as f64);
    let first = &log[..log.len().min(LOGGED_MAX)];
    add("timers_suit_after", timer_log::suitable_after(first) as f64);
    if let Some(bend) = timer_log::bend(first) {
        add("success_bend", bend);
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// What flows received, and how clients of two kinds shared it.
fn collect_shares(record: &RunRecord, add: &mut impl FnMut(&'static str, f64)) {
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
        add("received_bps", *value);
    }
    if record.others.is_empty() {
        return;
    }
    for value in &second {
        add("second_received_bps", *value);
    }
    for flow in &record.others {
        add("second_retransmissions", flow.retransmissions as f64);
        if let Some(completion) = flow.completion() {
            add("second_fct_s", seconds(completion));
        }
    }
    let bytes = |flows: &[FlowRecord]| flows.iter().map(|f| f.received_bytes).sum::<u64>() as f64;
    let (own, others) = (bytes(&record.flows), bytes(&record.others));
    if own + others > 0.0 {
        add("first_share", own / (own + others));
    }
    if let Some(index) = jain(&[first, second].concat()) {
        add("jain_received", index);
    }
}

/// Statistics of every metric that has samples.
pub fn summarise(samples: &Samples) -> BTreeMap<&'static str, Statistics> {
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
    fn requests_and_what_they_cost_the_server_are_counted_over_the_run() {
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
    fn connections_have_a_set_up_and_segments_and_early_drops_are_losses() {
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
