//! Results of a load as the machine interface has them.

#![allow(missing_docs, reason = "names are those of the JSON object")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use carob_proto::prefix::AmplificationLimit;
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Value, json};

use super::counters::{Counters, ErrorKind, Traffic};
use super::plan::{Mode, Pace, Plan, Target};
use super::window::{Outcome, Rates};

/// A share of a core from which on the generator may be what limits the rate.
pub const BUSY: f64 = 0.9;

/// Everything, settings included.
#[derive(Debug, Serialize)]
pub struct Report {
    pub settings: Value,
    /// Ended by Ctrl-C.
    pub interrupted: bool,
    /// The time measured.
    pub seconds: f64,
    /// The unit that is counted: a request or a body.
    pub unit: &'static str,
    pub requests: u64,
    pub answered: u64,
    pub errors: BTreeMap<String, u64>,
    pub codes: BTreeMap<String, u64>,
    /// Answers within the time measured, per second.
    pub rate_per_s: f64,
    pub latency_us: Option<Percentiles>,
    pub bytes: u64,
    pub megabytes_per_s: f64,
    pub open_loop: Option<OpenLoop>,
    /// Over coaps: what secured the load.
    pub dtls: Option<Dtls>,
    pub messages: Messages,
    pub generator: Generator,
    pub server: Option<Server>,
    pub warm_up: WarmUp,
    /// Requests under way when everything was stopped.
    pub unfinished: u64,
    /// Bodies that differed from the one before, with another ETag.
    pub bodies_changed: u64,
    /// There were too few source ports for as many messages.
    pub source_ports_recurred: bool,
    /// A body needed more messages than a source port has Message IDs, and waited for them.
    pub message_ids_ran_out: bool,
    /// The first error from the network about the server.
    pub unreachable: Option<String>,
}

/// A distribution, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentiles {
    pub n: u64,
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Percentiles {
    /// Percentiles of nanoseconds; `None` without values.
    pub(crate) fn of(nanos: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| micros(nanos.value_at_quantile(quantile) as f64);
        (!nanos.is_empty()).then(|| Self {
            n: nanos.len(),
            min: micros(nanos.min() as f64),
            mean: micros(nanos.mean()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: micros(nanos.max() as f64),
        })
    }
}

#[derive(Debug, Serialize)]
pub struct OpenLoop {
    pub intended: u64,
    pub not_sent: u64,
    pub late: u64,
    pub longest_delay_us: f64,
}

#[derive(Debug, Serialize)]
pub struct Dtls {
    pub version: &'static str,
    /// `key`, a pre-shared one, or `certificates`.
    pub credential: &'static str,
    /// By its name in IANA's registry; none if there never was a session.
    pub suite: Option<&'static str>,
    /// Sessions of replaced source ports established within the measured time.
    pub handshakes: u64,
    pub failed: u64,
    /// Why one was last not made.
    pub failure: Option<String>,
}

/// CoAP messages.
#[derive(Debug, Serialize)]
pub struct Messages {
    pub sent: u64,
    pub retransmissions: u64,
    pub answered_again: u64,
    /// Requests that the server had us repeat with an Echo value.
    pub challenged: u64,
    pub duplicates: u64,
    pub late: u64,
    pub wrong: ErrorCounts,
}

#[derive(Debug, Serialize)]
pub struct ErrorCounts {
    pub total: u64,
    pub message_id: u64,
    pub token: u64,
    pub kind: u64,
    pub malformed: u64,
    pub oversized: u64,
}

#[derive(Debug, Serialize)]
pub struct Generator {
    /// CPU time for each request that ended.
    pub cpu_us_each: Option<f64>,
    /// The busiest thread's share of a core.
    pub cpu_share: f64,
    pub bottleneck: bool,
}

#[derive(Debug, Serialize)]
pub struct Server {
    pub pid: u32,
    pub cpu_us_each: Option<f64>,
    pub cpu_share: f64,
}

#[derive(Debug, Serialize)]
pub struct WarmUp {
    pub requests: u64,
    pub errors: u64,
}

impl Report {
    pub(crate) fn new(plan: &Plan, outcome: Outcome, recurred: bool, pid: Option<u32>) -> Self {
        let Outcome {
            measured,
            warm_up,
            traffic,
            rates,
            intentions,
            unfinished,
            changed,
            ids_ran_out,
            suite,
            no_session,
            ..
        } = outcome;
        let per_second = |count: u64| {
            let seconds = if rates.seconds > 0.0 {
                rates.seconds
            } else {
                f64::INFINITY
            };
            rounded(count as f64 / seconds)
        };
        Self {
            settings: settings(plan),
            interrupted: false,
            seconds: rounded(rates.seconds),
            unit: match plan.mode {
                Mode::Get | Mode::Post => "request",
                Mode::Block | Mode::Upload => "body",
            },
            requests: measured.requests(),
            answered: measured.answered,
            errors: errors(&measured),
            codes: measured
                .codes()
                .map(|(code, count)| (code.to_string(), count))
                .collect(),
            rate_per_s: per_second(rates.answered),
            latency_us: Percentiles::of(&measured.latency),
            bytes: rates.bytes,
            megabytes_per_s: rounded(per_second(rates.bytes) / 1e6),
            open_loop: intentions.map(|of| OpenLoop {
                intended: of.intended,
                not_sent: of.not_sent,
                late: of.late,
                longest_delay_us: micros(of.longest_delay as f64),
            }),
            dtls: (plan.target.secure.as_ref()).map(|secure| Dtls {
                version: "1.2",
                credential: if secure.sessions.by_certificate() {
                    "certificates"
                } else {
                    "key"
                },
                suite,
                handshakes: traffic.handshakes,
                failed: traffic.handshakes_failed,
                failure: no_session,
            }),
            messages: Messages::of(&traffic),
            generator: Generator {
                cpu_us_each: rates.cpu.and_then(|cpu| each(cpu, rates.finished)),
                cpu_share: rounded(rates.share),
                bottleneck: rates.share > BUSY,
            },
            server: pid.map(|pid| server(pid, &rates)),
            warm_up: WarmUp {
                requests: warm_up.requests(),
                errors: warm_up.errors(),
            },
            unfinished,
            bodies_changed: changed,
            source_ports_recurred: recurred,
            message_ids_ran_out: ids_ran_out,
            unreachable: traffic.unreachable,
        }
    }

    /// Requests that did not succeed.
    pub fn errors(&self) -> u64 {
        self.requests - self.answered
    }
}

impl Messages {
    fn of(traffic: &Traffic) -> Self {
        Self {
            sent: traffic.messages,
            retransmissions: traffic.retransmissions,
            answered_again: traffic.answered_again,
            challenged: traffic.challenged,
            duplicates: traffic.duplicates,
            late: traffic.late,
            wrong: ErrorCounts {
                total: traffic.wrong(),
                message_id: traffic.wrong_message_id,
                token: traffic.wrong_token,
                kind: traffic.wrong_kind,
                malformed: traffic.malformed,
                oversized: traffic.oversized,
            },
        }
    }
}

/// Errors by kind, those that occurred; `total` always.
fn errors(counters: &Counters) -> BTreeMap<String, u64> {
    let failures = ErrorKind::ALL
        .into_iter()
        .map(|kind| (kind.name().to_owned(), counters.failures_of(kind)))
        .filter(|(_, count)| *count > 0);
    let codes = counters
        .refusals()
        .map(|(code, count)| (code.to_string(), count));
    failures
        .chain(codes)
        .chain([("total".to_owned(), counters.errors())])
        .collect()
}

fn server(pid: u32, rates: &Rates) -> Server {
    let (cpu, finished) = rates.server.unwrap_or_default();
    Server {
        pid,
        cpu_us_each: each(cpu, finished),
        cpu_share: rounded(cpu.as_secs_f64() / rates.seconds.max(1e-9)),
    }
}

/// Microseconds for each of `count`.
fn each(cpu: std::time::Duration, count: u64) -> Option<f64> {
    (count > 0 && !cpu.is_zero()).then(|| rounded(cpu.as_secs_f64() * 1e6 / count as f64))
}

fn micros(nanos: f64) -> f64 {
    rounded(nanos / 1e3)
}

/// To three decimals, which is more than any of the figures is worth.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Presumed state of the amplification limit of a Carob server with defaults:
/// the client's address is taken to be in the same range as the server's. A DTLS handshake
/// validates it.
pub fn limit_by_default(target: &Target) -> &'static str {
    let limit = AmplificationLimit::default();
    if target.secure.is_none() && limit.holds_for(target.address.ip()) {
        "on"
    } else {
        "off"
    }
}

fn settings(plan: &Plan) -> Value {
    let pace = match plan.pace {
        Pace::Closed => json!("closed"),
        Pace::Open {
            rate,
            arrivals,
            seed,
        } => json!({ "rate_per_s": rate, "arrivals": arrivals, "seed": seed }),
    };
    json!({
        "uri": plan.target.uri.to_string(),
        "address": plan.target.address.to_string(),
        "transport": if plan.target.secure.is_some() { "dtls" } else { "udp" },
        "mode": plan.mode,
        "method": plan.request.code.name(),
        "payload_bytes": plan.request.payload.len(),
        "confirmable": plan.confirmable,
        "outstanding": plan.outstanding,
        "ports": plan.ports,
        "threads": plan.threads,
        "pace": pace,
        "warm_up_s": plan.warm_up.as_secs_f64(),
        "duration_s": plan.duration.map(|duration| duration.as_secs_f64()),
        "requests": plan.requests,
        "timeout_s": plan.timeout.as_secs_f64(),
        "controller": plan.controller,
        "nstart": plan.nstart,
        "block_size": plan.block_size.map(carob::BlockSize::bytes),
        "port_messages": plan.port_messages,
        "amplification_limit": limit_by_default(&plan.target),
    })
}

/// The percentile distribution in the text form of HdrHistogram's own tools, in microseconds.
pub(crate) fn distribution(nanos: &Histogram<u64>) -> String {
    const STEPS_TO_HALF: u32 = 5;
    let micros = |nanos: u64| nanos as f64 / 1e3;
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut count = 0;
    for step in nanos.iter_quantiles(STEPS_TO_HALF) {
        let value = micros(step.value_iterated_to());
        let quantile = step.quantile_iterated_to();
        count += step.count_since_last_iteration();
        let written = if quantile < 1.0 {
            let inverse = 1.0 / (1.0 - quantile);
            writeln!(
                text,
                "{value:12.3} {quantile:2.12} {count:10} {inverse:14.2}"
            )
        } else {
            writeln!(text, "{value:12.3} {quantile:2.12} {count:10}")
        };
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
    let (mean, deviation) = (nanos.mean() / 1e3, nanos.stdev() / 1e3);
    let (max, total) = (micros(nanos.max()), nanos.len());
    text + &format!(
        "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]\n\
         #[Max     = {max:12.3}, Total count    = {total:12}]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_ends_with_the_largest_value_and_all_counts() {
        let mut nanos = crate::counters::histogram();
        for micros in 1..=1_000 {
            nanos.saturating_record(micros * 1_000);
        }
        let text = distribution(&nanos);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                line.split_whitespace()
                    .map(|word| word.parse().unwrap())
                    .collect()
            })
            .collect();
        assert!(
            rows.iter().all(|row| row.len() == 4 || row[1] > 0.999_999),
            "{text}"
        );
        assert!(rows.is_sorted_by(|a, b| a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2]));
        let middle = rows.iter().find(|row| row[1] >= 0.5).unwrap();
        assert!((495.0..=505.0).contains(&middle[0]), "{middle:?}");
        let last = rows.last().unwrap();
        assert!(
            (last[0] - 1_000.0).abs() < 1.0 && (last[2] - 1_000.0).abs() < 0.5,
            "{last:?}"
        );
    }
}
