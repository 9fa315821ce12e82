//! Storage of metrics, and their text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carob_proto::counters::Times;
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Series that are kept, of all metrics; further ones are not. Endpoints have some hundred;
/// an application's own labels could be unlimited.
const SERIES: usize = 10_000;

/// The metrics of a process.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Families>);

#[derive(Debug, Default)]
struct Families {
    by_name: BTreeMap<String, Family>,
    series: usize,
}

/// A metric.
#[derive(Debug, Default)]
struct Family {
    help: SharedString,
    /// By printed labels.
    series: BTreeMap<String, Instrument>,
}

#[derive(Clone, Debug)]
enum Instrument {
    Counter(Arc<AtomicU64>),
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Buckets>),
}

/// The engine's buckets: one for each bound, and one above them.
const BUCKETS: usize = Times::BOUNDS.len() + 1;

/// A histogram with the engine's buckets: 256 us to 67 s, if its unit is seconds.
#[derive(Debug, Default)]
struct Buckets {
    counts: [AtomicU64; BUCKETS],
    /// The bits of a float.
    sum: AtomicU64,
}

/// The upper bound of a bucket, in seconds.
fn bound(bucket: usize) -> f64 {
    Times::BOUNDS
        .get(bucket)
        .map_or(f64::INFINITY, |micros| *micros as f64 / 1e6)
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        let place = (0..BUCKETS).find(|&bucket| value <= bound(bucket));
        // NaN is above all bounds.
        let place = place.unwrap_or(BUCKETS - 1);
        self.counts[place].fetch_add(count as u64, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value * count as f64).to_bits());
        // It is tried until it succeeds.
        let _ = (self.sum).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Families> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Version information.
    pub(super) fn about(&self) {
        let mut families = self.lock();
        let family = families.by_name.entry("carob_build_info".to_owned());
        let family = family.or_default();
        family.help = "The version of Carob".into();
        let labels = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
        let one = Instrument::Gauge(Arc::new(AtomicU64::new(1_f64.to_bits())));
        family.series.insert(labels, one);
        families.series += 1;
    }

    fn describe(&self, name: &KeyName, help: SharedString) {
        let mut families = self.lock();
        let family = families.by_name.entry(printable(name.as_str()));
        family.or_default().help = help;
    }

    /// The metric of this key; none at the limit.
    fn keep(&self, key: &Key, new: impl FnOnce() -> Instrument) -> Option<Instrument> {
        let mut families = self.lock();
        let Families { by_name, series } = &mut *families;
        let family = by_name.entry(printable(key.name())).or_default();
        let labels = labels_of(key);
        if let Some(kept) = family.series.get(&labels) {
            return Some(kept.clone());
        }
        let kept = new();
        // Of two sorts of metrics with one name, the first counts.
        let sort = std::mem::discriminant(&kept);
        let mut others = family.series.values().map(std::mem::discriminant);
        if *series >= SERIES || others.next().is_some_and(|other| other != sort) {
            return None;
        }
        *series += 1;
        family.series.insert(labels, kept.clone());
        Some(kept)
    }

    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for (name, family) in &self.lock().by_name {
            let Some(first) = family.series.values().next() else {
                continue;
            };
            let sort = match first {
                Instrument::Counter(_) => "counter",
                Instrument::Gauge(_) => "gauge",
                Instrument::Histogram(_) => "histogram",
            };
            if !family.help.is_empty() {
                let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
                let _ = writeln!(text, "# HELP {name} {help}");
            }
            // A string takes whatever is written.
            let _ = writeln!(text, "# TYPE {name} {sort}");
            for (labels, kept) in &family.series {
                write_series(&mut text, name, labels, kept);
            }
        }
        text
    }
}

fn write_series(text: &mut String, name: &str, labels: &str, kept: &Instrument) {
    // A string takes whatever is written.
    match kept {
        Instrument::Counter(count) => {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}{labels} {count}");
        }
        Instrument::Gauge(bits) => {
            let value = f64::from_bits(bits.load(Ordering::Relaxed));
            let _ = writeln!(text, "{name}{labels} {}", Number(value));
        }
        Instrument::Histogram(buckets) => {
            let inner = labels.trim_start_matches('{').trim_end_matches('}');
            let comma = if inner.is_empty() { "" } else { "," };
            let mut count = 0;
            for (bucket, of_it) in buckets.counts.iter().enumerate() {
                count += of_it.load(Ordering::Relaxed);
                let le = Number(bound(bucket));
                let _ = writeln!(text, "{name}_bucket{{{inner}{comma}le=\"{le}\"}} {count}");
            }
            let sum = f64::from_bits(buckets.sum.load(Ordering::Relaxed));
            let _ = writeln!(text, "{name}_sum{labels} {}", Number(sum));
            let _ = writeln!(text, "{name}_count{labels} {count}");
        }
    }
}

/// A number as Prometheus reads it.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            number => write!(f, "{number}"),
        }
    }
}

/// A name with nothing in it that Prometheus does not take.
fn printable(name: &str) -> String {
    let taken = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let name: String = name
        .chars()
        .map(|c| if taken(c) { c } else { '_' })
        .collect();
    match name.chars().next() {
        Some(first) if !first.is_ascii_digit() => name,
        _ => format!("_{name}"),
    }
}

/// The printed labels of a key, in braces, the same in whatever order they come.
fn labels_of(key: &Key) -> String {
    let mut labels: Vec<(&str, &str)> = key
        .labels()
        .map(|label| (label.key(), label.value()))
        .collect();
    if labels.is_empty() {
        return String::new();
    }
    // Labels in another order are the same series.
    labels.sort_unstable();
    let mut text = String::from("{");
    for (place, (name, value)) in labels.into_iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let _ = write!(text, "{comma}{}=\"{value}\"", printable(name));
    }
    text.push('}');
    text
}

impl Recorder for Registry {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&name, help);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&name, help);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&name, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match self.keep(key, || Instrument::Counter(Arc::default())) {
            Some(Instrument::Counter(count)) => Counter::from_arc(count),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match self.keep(key, || Instrument::Gauge(Arc::default())) {
            Some(Instrument::Gauge(value)) => Gauge::from_arc(value),
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match self.keep(key, || Instrument::Histogram(Arc::default())) {
            Some(Instrument::Histogram(buckets)) => Histogram::from_arc(buckets),
            _ => Histogram::noop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics::{Label, Level};

    use super::*;

    const METADATA: Metadata<'static> = Metadata::new("test", Level::INFO, None);

    fn key(name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
        let labels = labels.iter().map(|&(name, value)| Label::new(name, value));
        Key::from_parts(name, labels.collect::<Vec<_>>())
    }

    #[test]
    fn recorded_metrics_are_printed_in_the_text_format() {
        let registry = Registry::default();
        registry.describe_counter("a_total".into(), None, "Two\nlines".into());
        let one = key("a_total", &[("x", "1"), ("b", "quote \" and \\")]);
        registry.register_counter(&one, &METADATA).increment(2);
        // The same labels in another order are the same series.
        let same = key("a_total", &[("b", "quote \" and \\"), ("x", "1")]);
        registry.register_counter(&same, &METADATA).increment(3);
        let gauge = registry.register_gauge(&key("my.gauge", &[]), &METADATA);
        gauge.increment(2.5);
        gauge.decrement(1.0);
        // One name, two sorts: the first stays.
        registry
            .register_gauge(&key("a_total", &[]), &METADATA)
            .set(7.0);
        let text = registry.render();
        let expected = "# HELP a_total Two\\nlines\n\
             # TYPE a_total counter\n\
             a_total{b=\"quote \\\" and \\\\\",x=\"1\"} 5\n\
             # TYPE my_gauge gauge\n\
             my_gauge 1.5\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_histogram_counts_each_value_in_all_buckets_above_it() {
        let registry = Registry::default();
        let histogram = registry.register_histogram(&key("h", &[("a", "b")]), &METADATA);
        for value in [0.0001, 0.000_256, 0.001, 100.0] {
            histogram.record(value);
        }
        histogram.record_many(2.0, 3);
        let text = registry.render();
        for line in [
            "h_bucket{a=\"b\",le=\"0.000256\"} 2",
            "h_bucket{a=\"b\",le=\"0.001024\"} 3",
            "h_bucket{a=\"b\",le=\"1.048576\"} 3",
            "h_bucket{a=\"b\",le=\"2.097152\"} 6",
            "h_bucket{a=\"b\",le=\"67.108864\"} 6",
            "h_bucket{a=\"b\",le=\"+Inf\"} 7",
            "h_sum{a=\"b\"} 106.001356",
            "h_count{a=\"b\"} 7",
        ] {
            assert!(
                text.lines().any(|it| it == line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn number_of_series_is_limited() {
        let registry = Registry::default();
        for n in 0..SERIES + 5 {
            let label = Label::new("n", n.to_string());
            let key = Key::from_parts("many", vec![label]);
            registry.register_counter(&key, &METADATA).increment(1);
        }
        let lines = registry.render().lines().count();
        assert_eq!(lines, SERIES + 1);
    }
}
