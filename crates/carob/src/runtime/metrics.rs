//! Publication of an endpoint's counters to the recorder of the `metrics` facade.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use carob_cc::evidence::{Kind, Reason};
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::Code;
use carob_proto::counters::{Answer, Answers, Counters, Refusal, Times};
use carob_proto::endpoint::Endpoint;
use metrics::{Key, Label, Level, Metadata};

use crate::metrics::{self as names, INTERVAL, Metric};
use crate::transport::TransportCounts;

static METADATA: Metadata<'static> = Metadata::new("carob", Level::INFO, Some("carob"));

/// The texts of codes, which labels are made of.
static CODES: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..=u8::MAX).map(|code| Code(code).to_string()).collect());

/// Sizes of a task besides its engine's, for metrics.
#[cfg_attr(
    not(feature = "metrics"),
    allow(dead_code, reason = "nothing is published")
)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) handlers: usize,
    pub(super) handlers_limit: usize,
    pub(super) commands: usize,
    pub(super) notes: usize,
    pub(super) transport: TransportCounts,
}

/// The published metrics of an endpoint.
pub(super) struct MetricsPublisher {
    published: PublishedSeries,
    controller: &'static str,
    /// The time of the next publication; `None` without changes.
    due: Option<Instant>,
}

impl MetricsPublisher {
    pub(super) fn new(scheme: &'static str, controller: &'static str) -> Self {
        names::describe();
        Self {
            published: PublishedSeries {
                scheme,
                series: BTreeMap::new(),
                times: BTreeMap::new(),
            },
            controller,
            // Every series is published from the beginning, as 0.
            due: Some(Instant::ZERO),
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Records an input or the passing of time; returns whether to publish now.
    pub(super) fn pass(&mut self, now: Instant) -> bool {
        match self.due {
            Some(due) if due <= now => {
                self.due = None;
                true
            }
            Some(_) => false,
            None => {
                self.due = Some(now + Duration::from(INTERVAL));
                false
            }
        }
    }

    /// Publishes the increments of counters and the values of gauges.
    pub(super) fn publish(&mut self, endpoint: &Endpoint, load: &Load) {
        let published = &mut self.published;
        published.gauge_of(&names::ENDPOINTS, ("controller", self.controller), 1);
        engine(published, endpoint);
        published.gauge(&names::HANDLERS, load.handlers);
        published.gauge_of(&names::LIMITS, ("limit", "handlers"), load.handlers_limit);
        published.gauge_of(&names::QUEUES, ("queue", "commands"), load.commands);
        published.gauge_of(&names::QUEUES, ("queue", "notes"), load.notes);
        transport(published, &load.transport);
    }
}

impl Drop for MetricsPublisher {
    /// Removes the endpoint's gauges from the totals.
    fn drop(&mut self) {
        for series in self.published.series.values() {
            if let Sort::Gauge = series.sort {
                metrics::with_recorder(|recorder| {
                    let gauge = recorder.register_gauge(&series.key, &METADATA);
                    // Several endpoints share a gauge: each takes back its own part when it ends.
                    gauge.decrement(series.last as f64);
                });
            }
        }
    }
}

/// Measures the running time of a handler.
pub(crate) struct Stopwatch {
    scheme: &'static str,
    began: std::time::Instant,
}

impl Stopwatch {
    pub(crate) fn start(scheme: &'static str) -> Self {
        let began = std::time::Instant::now();
        Self { scheme, began }
    }

    pub(crate) fn stop(&self) {
        let histogram = metrics::histogram!(names::HANDLER_TIME.name, "scheme" => self.scheme);
        histogram.record(self.began.elapsed());
    }
}

fn engine(published: &mut PublishedSeries, endpoint: &Endpoint) {
    let counters = endpoint.counters();
    let (received, sent) = (counters.received, counters.sent);
    published.counter(&names::RECEIVED_MESSAGES, received.messages);
    published.counter(&names::RECEIVED_BYTES, received.bytes);
    published.counter(&names::SENT_MESSAGES, sent.messages);
    published.counter(&names::SENT_BYTES, sent.bytes);
    for (method, answers) in counters.requests.iter() {
        let method = method.and_then(Code::name).unwrap_or("other");
        published.answers(&names::REQUESTS, Some(("method", method)), answers);
    }
    published.answers(&names::RESPONSES, None, &counters.responses);
    exchanges(published, counters);
    published.times(&names::ROUND_TRIP, &counters.round_trips);
    published.times(&names::TIMER, &counters.timeouts);
    published.counter(&names::DUPLICATES, counters.duplicates);
    for why in Refusal::ALL {
        let total = counters.refusals.of(why);
        published.counter_of(&names::REFUSALS, &[("reason", why.name())], total);
    }
    let usage = endpoint.usage();
    published.counter(&names::NOTIFICATIONS_DROPPED, usage.notifications_dropped);
    for (metric, held) in [
        (&names::EXCHANGES_IN_PROGRESS, usage.exchanges),
        (&names::OBSERVATIONS, usage.observations),
        (&names::WAITING, usage.notifications_waiting),
    ] {
        published.gauge(metric, held);
    }
    tables(published, endpoint);
}

/// Transmissions and exchanges, by the kind of message.
fn exchanges(published: &mut PublishedSeries, counters: &Counters) {
    for (kind, name) in [
        (Kind::Request, "request"),
        (Kind::Response, "response"),
        (Kind::Notification, "notification"),
    ] {
        let counts = counters.of(kind);
        let label = ("kind", name);
        for (metric, total) in [
            (&names::TRANSMISSIONS, counts.transmissions),
            (&names::RETRANSMISSIONS, counts.retransmissions),
            (&names::TIMEOUTS, counts.expired),
            (&names::SPURIOUS, counts.answered_again),
            (&names::LATE, counts.answered_late),
        ] {
            published.counter_of(metric, &[label], total);
        }
        for (outcome, total) in [
            ("answered", counts.answered),
            ("timed-out", counts.given_up(Reason::TimedOut)),
            ("reset", counts.given_up(Reason::Reset)),
            ("cancelled", counts.given_up(Reason::Cancelled)),
            ("unreachable", counts.given_up(Reason::Unreachable)),
        ] {
            published.counter_of(&names::EXCHANGES, &[label, ("outcome", outcome)], total);
        }
    }
}

/// Entries of tables and their limits.
fn tables(published: &mut PublishedSeries, endpoint: &Endpoint) {
    let usage = endpoint.usage();
    let limits = endpoint.config().limits;
    let remembered = limits.dedup_idempotent;
    let remembered = remembered.saturating_add(limits.dedup_non_idempotent);
    for (metric, held, name, limit) in [
        (
            &names::IN_PROGRESS,
            usage.incoming,
            "incoming",
            limits.incoming,
        ),
        (
            &names::OWN_IN_PROGRESS,
            usage.requests,
            "requests",
            limits.requests,
        ),
        (&names::PEERS, usage.peers, "peers", limits.peers),
        (
            &names::REMEMBERED,
            usage.remembered,
            "remembered",
            remembered,
        ),
        (
            &names::OBSERVERS,
            usage.observers,
            "observers",
            limits.observers,
        ),
        (
            &names::VALIDATED,
            usage.validated,
            "validated",
            limits.validated,
        ),
        (&names::UPLOADS, usage.uploads.0, "uploads", limits.uploads),
        (
            &names::UPLOAD_BYTES,
            usage.uploads.1,
            "all_upload_bytes",
            limits.all_upload_bytes,
        ),
        (&names::BODIES, usage.bodies.0, "bodies", limits.bodies),
        (
            &names::BODY_BYTES,
            usage.bodies.1,
            "body_bytes",
            limits.body_bytes,
        ),
        (
            &names::CONNECTIONS,
            usage.connections,
            "connections",
            limits.connections,
        ),
        (
            &names::PARTIAL_BYTES,
            usage.partial_bytes,
            "partial_bytes",
            limits.partial_bytes,
        ),
    ] {
        published.gauge(metric, held);
        published.gauge_of(&names::LIMITS, ("limit", name), limit);
    }
}

fn transport(published: &mut PublishedSeries, counts: &TransportCounts) {
    match *counts {
        TransportCounts::Datagrams { dropped } => published.counter(&names::DROPPED, dropped),
        #[cfg(feature = "dtls")]
        TransportCounts::Secured {
            dropped,
            sessions,
            handshakes,
            done,
            failed,
            closed,
            cookies,
            refused,
            limits,
        } => {
            published.counter_of(&names::SESSIONS_CLOSED, &[("reason", "evicted")], closed.0);
            published.counter_of(&names::SESSIONS_CLOSED, &[("reason", "idle")], closed.1);
            published.counter(&names::DROPPED, dropped);
            published.gauge(&names::SESSIONS, sessions);
            published.gauge(&names::HANDSHAKES, handshakes);
            published.counter_of(&names::HANDSHAKES_MADE, &[("outcome", "done")], done);
            published.counter_of(&names::HANDSHAKES_MADE, &[("outcome", "failed")], failed);
            published.counter_of(&names::HANDSHAKES_MADE, &[("outcome", "refused")], refused);
            published.counter(&names::COOKIES, cookies);
            published.gauge_of(&names::LIMITS, ("limit", "sessions"), limits.0);
            published.gauge_of(&names::LIMITS, ("limit", "handshakes"), limits.1);
        }
        TransportCounts::Streams {
            accepted,
            refused,
            made,
            failed,
            handshakes,
        } => {
            if let Some((done, failed, refused)) = handshakes {
                published.counter_of(&names::HANDSHAKES_MADE, &[("outcome", "done")], done);
                published.counter_of(&names::HANDSHAKES_MADE, &[("outcome", "failed")], failed);
                published.counter_of(&names::HANDSHAKES_MADE, &[("outcome", "refused")], refused);
            }
            for (outcome, total) in [
                ("accepted", accepted),
                ("refused", refused),
                ("made", made),
                ("failed", failed),
            ] {
                published.counter_of(&names::CONNECTIONS_MADE, &[("outcome", outcome)], total);
            }
        }
    }
}

/// A label's name and value.
type Pair = (&'static str, &'static str);

/// A metric and the label values of one series.
type Id = (&'static str, [&'static str; 2]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Counter,
    Gauge,
}

struct Series {
    key: Key,
    sort: Sort,
    /// The last published value.
    last: u64,
}

/// The published series. Keys are made once, so that publishing allocates nothing.
struct PublishedSeries {
    scheme: &'static str,
    series: BTreeMap<Id, Series>,
    times: BTreeMap<&'static str, (Key, Times)>,
}

impl PublishedSeries {
    fn key(scheme: &'static str, metric: &'static Metric, labels: &[Pair]) -> Key {
        let labels = std::iter::once(("scheme", scheme)).chain(labels.iter().copied());
        let labels: Vec<Label> = labels
            .map(|(name, value)| Label::from_static_parts(name, value))
            .collect();
        Key::from_parts(metric.name, labels)
    }

    /// The series of these labels, and whether it is new.
    fn series(
        &mut self,
        metric: &'static Metric,
        labels: &[Pair],
        sort: Sort,
    ) -> (&mut Series, bool) {
        let scheme = self.scheme;
        let value = |place: usize| labels.get(place).map_or("", |(_, value)| value);
        let mut new = false;
        let entry = self.series.entry((metric.name, [value(0), value(1)]));
        let series = entry.or_insert_with(|| {
            new = true;
            let key = Self::key(scheme, metric, labels);
            Series { key, sort, last: 0 }
        });
        (series, new)
    }

    fn counter(&mut self, metric: &'static Metric, total: u64) {
        self.counter_of(metric, &[], total);
    }

    fn counter_of(&mut self, metric: &'static Metric, labels: &[Pair], total: u64) {
        let (series, new) = self.series(metric, labels, Sort::Counter);
        let grown = total.saturating_sub(series.last);
        // A new series is published as 0, so that a rate over it is defined.
        if grown > 0 || new {
            series.last = total;
            metrics::with_recorder(|recorder| {
                let counter = recorder.register_counter(&series.key, &METADATA);
                counter.increment(grown);
            });
        }
    }

    fn answers(&mut self, metric: &'static Metric, method: Option<Pair>, answers: &Answers) {
        for (answer, total) in answers.iter() {
            let code = match answer {
                Answer::Code(code) => CODES[usize::from(code.0)].as_str(),
                Answer::Other => "other",
                Answer::None => "none",
            };
            match method {
                Some(method) => self.counter_of(metric, &[method, ("code", code)], total),
                None => self.counter_of(metric, &[("code", code)], total),
            }
        }
    }

    fn gauge(&mut self, metric: &'static Metric, now: usize) {
        let (series, new) = self.series(metric, &[], Sort::Gauge);
        series.set(now as u64, new);
    }

    fn gauge_of(&mut self, metric: &'static Metric, label: Pair, now: usize) {
        let (series, new) = self.series(metric, &[label], Sort::Gauge);
        series.set(now as u64, new);
    }

    /// Publishes times as samples: for each bucket its count, with the bucket's mean. A recorder
    /// with the same bucket bounds counts them exactly; the sum is exact in any case.
    fn times(&mut self, metric: &'static Metric, times: &Times) {
        let scheme = self.scheme;
        let mut new = false;
        let (key, last) = self.times.entry(metric.name).or_insert_with(|| {
            new = true;
            (Self::key(scheme, metric, &[]), Times::default())
        });
        if *last == *times && !new {
            return;
        }
        metrics::with_recorder(|recorder| {
            let histogram = recorder.register_histogram(key, &METADATA);
            for (now, last) in times.buckets().iter().zip(last.buckets()) {
                let count = now.count - last.count;
                if count > 0 {
                    // The engine counts in buckets; the mean of each is the best that a recorder
                    // can be told.
                    let mean = (now.sum - last.sum) as f64 / count as f64;
                    histogram.record_many(mean / 1e6, count as usize);
                }
            }
        });
        *last = *times;
    }
}

impl Series {
    /// Publishes the change of a gauge: endpoints that share a series add to it.
    fn set(&mut self, now: u64, new: bool) {
        if now == self.last && !new {
            return;
        }
        metrics::with_recorder(|recorder| {
            let gauge = recorder.register_gauge(&self.key, &METADATA);
            gauge.increment(now as f64 - self.last as f64);
        });
        self.last = now;
    }
}
