//! Costs of configurations: what counts, how much, and how sure it is.

use carob_cc::random::Random as _;
use carob_cc::time::Duration;
use carob_sim::histogram::Histogram;
use carob_sim::random::Stream;
use carob_sim::spec::RunRecord;
use serde::{Deserialize, Serialize};

/// A quantity that counts. Less is better in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Component {
    /// Mean time of a transfer, of a response or until a notification arrives, in seconds.
    Time,
    /// The mean of the slowest 5 % of them, in seconds.
    Tail,
    /// Share of transfers, requests or notifications that failed.
    Undelivered,
    /// Spurious retransmissions per exchange.
    Spurious,
    /// Bytes on the link in both directions, in a mesh frames on the air.
    Bytes,
    /// Time that a neighbour with default CoAP takes for 20 small requests beside it, in seconds.
    Harm,
}

impl Component {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Time,
        Self::Tail,
        Self::Undelivered,
        Self::Spurious,
        Self::Bytes,
        Self::Harm,
    ];

    /// Its name in options and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Tail => "tail",
            Self::Undelivered => "undelivered",
            Self::Spurious => "spurious",
            Self::Bytes => "bytes",
            Self::Harm => "harm",
        }
    }

    /// Smoothing terms of a ratio, which keep 0/0 at 1: a percentage point of
    /// failures, a spurious retransmission in twenty exchanges, a millisecond.
    const fn floor(self) -> f64 {
        match self {
            Self::Undelivered => 0.01,
            Self::Spurious => 0.05,
            Self::Time | Self::Tail | Self::Harm => 0.001,
            Self::Bytes => 1.0,
        }
    }
}

/// Weights of the components, which add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Weights([f64; 6]);

impl Weights {
    /// Weights in any unit.
    pub(super) fn new(weights: &[(Component, u32)]) -> Self {
        let mut all = [0.0; 6];
        for (component, weight) in weights {
            all[*component as usize] = f64::from(*weight);
        }
        Self(all).normalized()
    }

    /// The weight of a component.
    pub fn of(&self, component: Component) -> f64 {
        self.0[component as usize]
    }

    /// The same with one weight changed before all are scaled to 1; nothing if none is left.
    #[must_use]
    pub fn with(&self, changes: &[(Component, f64)]) -> Option<Self> {
        let mut all = self.0;
        for (component, weight) in changes {
            all[*component as usize] = *weight;
        }
        let sum: f64 = all.iter().sum();
        (sum > 0.0 && all.iter().all(|w| *w >= 0.0 && w.is_finite()))
            .then(|| Self(all).normalized())
    }

    /// The components that were measured.
    pub(super) fn without(&self, component: Component) -> Self {
        let mut all = self.0;
        all[component as usize] = 0.0;
        Self(all).normalized()
    }

    fn normalized(self) -> Self {
        let sum: f64 = self.0.iter().sum();
        if sum <= 0.0 {
            return self;
        }
        Self(self.0.map(|weight| weight / sum))
    }
}

/// A request without a response counts as the time after which default CoAP gives it up:
/// MAX_TRANSMIT_WAIT (RFC 7252 4.8.2).
pub(super) const UNANSWERED: f64 = 93.0;
/// Values kept of the times of one run for costs, and for percentiles.
const TIMES_MAX: usize = 200;
pub(super) const EXACT_MAX: usize = 2_000;

/// Summary of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunSummary {
    /// Times with their weights.
    times: Vec<(f64, f64)>,
    /// Times of single responses in microseconds, by length: all up to [`EXACT_MAX`], of more as many
    /// order statistics, evenly spaced. Empty where `times` are exact.
    exact: Vec<u64>,
    /// Sum of the times of all that completed.
    sum: f64,
    completed: f64,
    /// Times that failed transfers took until they failed.
    failed_times: Vec<f64>,
    failed: f64,
    /// Requests that failed.
    unanswered: f64,
    exchanges: f64,
    spurious: f64,
    bytes: f64,
    /// Bytes on the link in each direction; 0 in a mesh.
    bytes_down: f64,
    bytes_up: f64,
    /// Most packets offered to one direction, also in the run beside a neighbour.
    pub(super) packets: u64,
    /// Time of the neighbour, in the run beside one.
    pub(super) harm: Option<f64>,
}

fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// Packets offered to the direction that had more.
pub(super) fn packets(record: &RunRecord) -> u64 {
    record.link.down.offered.max(record.link.up.offered)
}

impl RunSummary {
    /// Summarizes a run. `is_transfer` counts whole flows, otherwise each request counts.
    pub(super) fn of(record: &RunRecord, is_transfer: bool) -> Self {
        let mut summary = Self::default();
        for flow in &record.flows {
            summary.exchanges += f64::from(flow.exchanges);
            summary.spurious += flow.spurious as f64;
        }
        if let Some(told) = &record.notifications {
            for subscriber in &told.subscribers {
                let received = subscriber.received as f64;
                summary.completed += received;
                summary.failed += subscriber.generated as f64 - received;
                summary.sum += seconds(subscriber.delay);
                summary.exchanges += subscriber.sent as f64;
                summary.spurious += subscriber.retransmissions as f64;
                if received > 0.0 {
                    let mean = seconds(subscriber.delay) / received;
                    summary.times.push((mean, received));
                }
            }
        } else if is_transfer {
            for flow in &record.flows {
                if let Some(time) = flow.completion() {
                    summary.completed += 1.0;
                    summary.sum += seconds(time);
                    summary.times.push((seconds(time), 1.0));
                } else {
                    summary.failed += 1.0;
                    let end = flow.ended.max(flow.started);
                    summary.failed_times.push(seconds(end.since(flow.started)));
                }
            }
        } else {
            let responses = &record.responses;
            summary.completed = responses.count as f64;
            summary.sum = seconds(responses.sum);
            let all: f64 = record
                .flows
                .iter()
                .map(|flow| f64::from(flow.answered) + f64::from(flow.unanswered))
                .sum();
            summary.failed = (all - summary.completed).max(0.0);
            summary.unanswered = summary.failed;
            let bins = responses.bins.iter().enumerate();
            let times = bins.filter(|(_, count)| **count > 0).map(|(bin, count)| {
                let end = Histogram::end(bin).min(responses.max);
                (seconds(end), f64::from(*count))
            });
            summary.times.extend(times);
            let mut exact: Vec<u64> = record
                .response_times
                .iter()
                .map(|t| t.as_micros())
                .collect();
            exact.sort_unstable();
            summary.exact = evenly_spaced(exact, EXACT_MAX);
        }
        summary.thin();
        summary.packets = packets(record);
        summary.bytes_down = record.link.down.bytes_sent as f64;
        summary.bytes_up = record.link.up.bytes_sent as f64;
        summary.bytes = match &record.mesh {
            Some(mesh) => mesh
                .nodes
                .iter()
                .map(|node| node.mac.transmissions as f64)
                .sum(),
            None => summary.bytes_down + summary.bytes_up,
        };
        summary
    }

    /// Keeps evenly spaced order statistics of many times.
    fn thin(&mut self) {
        self.times.sort_by(|a, b| a.0.total_cmp(&b.0));
        if self.times.len() <= TIMES_MAX {
            return;
        }
        let weight: f64 = self.times.iter().map(|(_, weight)| weight).sum();
        let kept = evenly_spaced(std::mem::take(&mut self.times), TIMES_MAX).into_iter();
        self.times = kept
            .map(|(time, _)| (time, weight / TIMES_MAX as f64))
            .collect();
    }
}

/// At most `most` of sorted values, evenly spaced.
fn evenly_spaced<T: Copy>(sorted: Vec<T>, most: usize) -> Vec<T> {
    let n = sorted.len();
    if n <= most {
        return sorted;
    }
    (0..most)
        .map(|k| sorted[(2 * k + 1) * n / (2 * most)])
        .collect()
}

/// The values of a configuration over all its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Mean time in seconds; a failure counts as its penalty.
    pub time_s: f64,
    /// Mean of the slowest 5 % of times in seconds.
    pub tail_s: f64,
    /// Median in seconds of the times of responses or transfers of all runs, a failure as its penalty;
    /// of notifications, of the means of subscribers.
    pub p50_s: f64,
    /// 95th percentile of these times in seconds.
    pub p95_s: f64,
    /// 99th percentile of these times in seconds.
    pub p99_s: f64,
    /// Share that failed.
    pub undelivered: f64,
    /// Spurious retransmissions per exchange.
    pub spurious: f64,
    /// Bytes on the link of a run, or frames of a mesh.
    pub bytes: f64,
    /// Bytes of them towards the devices; 0 in a mesh.
    pub bytes_down: f64,
    /// Bytes of them from the devices; 0 in a mesh.
    pub bytes_up: f64,
    /// Time of a neighbour in seconds; 0 where none was measured.
    pub harm_s: f64,
}

impl Measured {
    /// The value of one component.
    pub(super) fn get(&self, component: Component) -> f64 {
        match component {
            Component::Time => self.time_s,
            Component::Tail => self.tail_s,
            Component::Undelivered => self.undelivered,
            Component::Spurious => self.spurious,
            Component::Bytes => self.bytes,
            Component::Harm => self.harm_s,
        }
    }

    /// Ratio of one component to another configuration's, with the smoothing term.
    pub(super) fn ratio(&self, reference: &Self, component: Component) -> f64 {
        let floor = component.floor();
        (self.get(component) + floor) / (reference.get(component) + floor)
    }

    /// The cost beside another configuration: the weighted geometric mean of the ratios, so that 0.5 is
    /// half of its cost. `libm` gives the same logarithms on all platforms.
    pub(super) fn cost(&self, reference: &Self, weights: &Weights) -> f64 {
        let sum: f64 = Component::ALL
            .iter()
            .map(|component| weights.of(*component) * libm::log(self.ratio(reference, *component)))
            .sum();
        libm::exp(sum)
    }
}

/// The runs of a configuration, with their times in order.
pub(super) struct Pool<'a> {
    runs: &'a [RunSummary],
    /// (time, weight, run), by time.
    times: Vec<(f64, f64, usize)>,
}

impl<'a> Pool<'a> {
    pub(super) fn of(runs: &'a [RunSummary]) -> Self {
        // A failed transfer is repeated: its time plus the mean time until a success.
        let again = until_success(&total(runs, &vec![1; runs.len()]));
        let mut times = Vec::new();
        for (place, run) in runs.iter().enumerate() {
            times.extend(
                run.times
                    .iter()
                    .map(|(time, weight)| (*time, *weight, place)),
            );
            let failed = run.failed_times.iter();
            times.extend(failed.map(|time| (time + again, 1.0, place)));
            if run.unanswered > 0.0 {
                times.push((UNANSWERED, run.unanswered, place));
            }
        }
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { runs, times }
    }

    /// The values with each run weighted by its count.
    pub(super) fn measured(&self, counts: &[u32]) -> Measured {
        let total = total(self.runs, counts);
        let runs: f64 = counts.iter().copied().map(f64::from).sum();
        Measured {
            time_s: until_success(&total),
            tail_s: self.slowest(counts, 0.05),
            undelivered: per(total.failed, total.completed + total.failed),
            spurious: per(total.spurious, total.exchanges),
            bytes: per(total.bytes, runs),
            bytes_down: per(total.bytes_down, runs),
            bytes_up: per(total.bytes_up, runs),
            harm_s: per(total.harm, total.beside),
            ..Measured::default()
        }
    }

    /// The values of all runs, percentiles included.
    pub(super) fn all(&self) -> Measured {
        let counts = vec![1; self.runs.len()];
        let times = self.exact();
        Measured {
            p50_s: quantile(&times, 0.5),
            p95_s: quantile(&times, 0.95),
            p99_s: quantile(&times, 0.99),
            ..self.measured(&counts)
        }
    }

    /// Times with their weights, by length: single responses where they are kept.
    fn exact(&self) -> Vec<(f64, f64)> {
        let mut all: Vec<(f64, f64)> = Vec::new();
        for (place, run) in self.runs.iter().enumerate() {
            if run.exact.is_empty() {
                let own = self.times.iter().filter(|(.., of)| *of == place);
                all.extend(own.map(|(time, weight, _)| (*time, *weight)));
                continue;
            }
            let weight = run.completed / run.exact.len() as f64;
            all.extend(run.exact.iter().map(|us| (*us as f64 / 1e6, weight)));
            if run.unanswered > 0.0 {
                all.push((UNANSWERED, run.unanswered));
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }

    /// The mean of the slowest share of times.
    fn slowest(&self, counts: &[u32], share: f64) -> f64 {
        let weight = |entry: &(f64, f64, usize)| entry.1 * f64::from(counts[entry.2]);
        // By weight, not by count: one entry may represent many responses, and the last one counts in
        // proportion.
        let wanted = share * self.times.iter().map(weight).sum::<f64>();
        let (mut seen, mut sum) = (0.0, 0.0);
        for entry in self.times.iter().rev() {
            let taken = weight(entry).min(wanted - seen);
            seen += taken;
            sum += taken * entry.0;
            if seen >= wanted {
                break;
            }
        }
        if seen > 0.0 { sum / seen } else { 0.0 }
    }
}

/// The least of weighted times, by length, up to which this share of their weight is.
fn quantile(times: &[(f64, f64)], share: f64) -> f64 {
    let all: f64 = times.iter().map(|(_, weight)| weight).sum();
    let mut seen = 0.0;
    for (time, weight) in times {
        seen += weight;
        // A sum of weights such as 0.1 may be a hair less.
        if seen >= all * share * (1.0 - 1e-12) {
            return *time;
        }
    }
    0.0
}

/// Sums over runs, each weighted by its count.
#[derive(Default)]
struct Total {
    sum: f64,
    completed: f64,
    failed: f64,
    /// Time of failed transfers, and their number; of unanswered requests neither.
    failed_sum: f64,
    failed_transfers: f64,
    unanswered: f64,
    exchanges: f64,
    spurious: f64,
    bytes: f64,
    bytes_down: f64,
    bytes_up: f64,
    harm: f64,
    beside: f64,
}

fn total(runs: &[RunSummary], counts: &[u32]) -> Total {
    let mut total = Total::default();
    for (run, count) in runs.iter().zip(counts) {
        let count = f64::from(*count);
        total.sum += count * run.sum;
        total.completed += count * run.completed;
        total.failed += count * run.failed;
        total.failed_sum += count * run.failed_times.iter().sum::<f64>();
        total.failed_transfers += count * run.failed_times.len() as f64;
        total.unanswered += count * run.unanswered;
        total.exchanges += count * run.exchanges;
        total.spurious += count * run.spurious;
        total.bytes += count * run.bytes;
        total.bytes_down += count * run.bytes_down;
        total.bytes_up += count * run.bytes_up;
        if let Some(time) = run.harm {
            total.harm += count * time;
            total.beside += count;
        }
    }
    total
}

fn per(value: f64, of: f64) -> f64 {
    if of > 0.0 { value / of } else { 0.0 }
}

/// The mean time until success. A transfer that failed is made again until it succeeds; an unanswered
/// request has the time of giving up.
fn until_success(total: &Total) -> f64 {
    // Failures cost time, so that a controller gains nothing by giving up early. Without a success, half a
    // success is assumed (continuity correction).
    let completed = total.completed.max(0.5);
    if total.failed_transfers > 0.0 {
        return (total.sum + total.failed_sum) / completed;
    }
    per(
        total.sum + total.unanswered * UNANSWERED,
        total.completed + total.unanswered,
    )
}

/// Resamples of a bootstrap.
pub(super) const RESAMPLES: usize = 400;

/// How often each of `runs` runs is counted in each resample. The first counts each once.
pub(super) fn resamples(runs: usize) -> Vec<Vec<u32>> {
    // The same resamples for every configuration: ratios of paired seeds vary less than unpaired ones.
    let mut stream = Stream::new(runs as u64, "compare/bootstrap");
    let mut all = vec![vec![1; runs]];
    for _ in 0..RESAMPLES {
        let mut counts = vec![0; runs];
        for _ in 0..runs {
            let place = (u64::from(stream.next_u32()) * runs as u64) >> 32;
            counts[place as usize] += 1;
        }
        all.push(counts);
    }
    all
}

/// A cost with its interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// The cost of all runs.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Cost {
    /// From the costs of all runs and of resamples.
    pub(super) fn of(costs: &[f64]) -> Self {
        // All runs give the first cost, resamples the others.
        let mut sorted = costs[1..].to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share| crate::statistics::percentile(&sorted, share);
        Self {
            value: costs[0],
            low: at(0.025),
            high: at(0.975),
        }
    }

    /// An interval of the same width around another value.
    pub(super) fn moved_to(self, value: f64) -> Self {
        let by = value - self.value;
        Self {
            value,
            low: self.low + by,
            high: self.high + by,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(value: f64, wanted: f64) -> bool {
        (value - wanted).abs() < 1e-9
    }

    fn run(times: &[f64]) -> RunSummary {
        RunSummary {
            times: times.iter().map(|time| (*time, 1.0)).collect(),
            sum: times.iter().sum(),
            completed: times.len() as f64,
            exchanges: 10.0,
            bytes: 100.0,
            ..RunSummary::default()
        }
    }

    #[test]
    fn half_of_everything_costs_half() {
        let runs = [run(&[2.0]), run(&[4.0])];
        let all = Pool::of(&runs).measured(&[1, 1]);
        assert_eq!((all.time_s, all.tail_s), (3.0, 4.0));
        let half = Measured {
            time_s: 1.5,
            tail_s: 2.0,
            ..all
        };
        let weights = Weights::new(&[(Component::Time, 1), (Component::Tail, 1)]);
        assert!((half.cost(&all, &weights) - 0.5).abs() < 1e-3);
        assert!(is(all.cost(&all, &weights), 1.0));
    }

    #[test]
    fn a_failed_transfer_is_made_until_it_succeeds() {
        let failing = RunSummary {
            failed: 1.0,
            failed_times: vec![6.0],
            ..run(&[4.0])
        };
        let runs = [failing];
        let all = Pool::of(&runs).measured(&[1]);
        // One of two attempts succeeds: 6 s for the one that fails, then 4 s.
        assert_eq!((all.time_s, all.undelivered), (10.0, 0.5));
        assert!(is(all.tail_s, 16.0));
    }

    #[test]
    fn percentiles_are_of_single_responses_and_not_of_bins() {
        use carob_sim::spec::FlowRecord;
        let mut record = RunRecord {
            flows: vec![FlowRecord {
                answered: 5_000,
                ..FlowRecord::default()
            }],
            ..RunRecord::default()
        };
        for millis in (1..=5_000).rev() {
            record.responses.add(Duration::from_millis(millis));
            record.response_times.push(Duration::from_millis(millis));
        }
        let runs = [RunSummary::of(&record, false)];
        let all = Pool::of(&runs).all();
        assert_eq!(runs[0].exact.len(), EXACT_MAX);
        // Of the 5,000 every fifth has two that are kept.
        for (measured, exact) in [(all.p50_s, 2.5), (all.p95_s, 4.75), (all.p99_s, 4.95)] {
            assert!((measured - exact).abs() < 0.003, "{measured} {exact}");
        }
        record.response_times.truncate(200);
        let few = [RunSummary::of(&record, false)];
        assert!(is(Pool::of(&few).all().p50_s, 4.9));
    }

    #[test]
    fn an_unanswered_request_counts_as_given_up_by_default_coap() {
        let failing = RunSummary {
            failed: 1.0,
            unanswered: 1.0,
            ..run(&[1.0])
        };
        let runs = [failing];
        assert!(is(Pool::of(&runs).measured(&[1]).time_s, 47.0));
    }

    #[test]
    fn resamples_count_as_many_runs_and_are_the_same_each_time() {
        let all = resamples(7);
        assert_eq!(all.len(), RESAMPLES + 1);
        assert!(all.iter().all(|counts| counts.iter().sum::<u32>() == 7));
        assert_eq!(all, resamples(7));
    }

    #[test]
    fn weights_are_scaled() {
        let weights = Weights::new(&[(Component::Time, 3), (Component::Harm, 1)]);
        assert!(is(weights.of(Component::Time), 0.75));
        assert!(is(
            weights.without(Component::Harm).of(Component::Time),
            1.0
        ));
        let changed = weights.with(&[(Component::Harm, 0.75)]).expect("some left");
        assert!(is(changed.of(Component::Harm), 0.5));
        let none = [(Component::Time, 0.0), (Component::Harm, 0.0)];
        assert_eq!(weights.with(&none), None);
    }
}
