//! A soak as a document.

use std::fmt::Write as _;

use anyhow::Result;

use super::sample::Sample;
use super::verdict::{Check, Losses, count, mib};
use super::{OBSERVERS, POSTS, Soak};

/// Rows of the table over time, at most.
const ROWS: usize = 16;

/// Gauges whose highest values are reported.
const GAUGES: [&str; 7] = [
    "carob_remembered_messages",
    "carob_peers",
    "carob_observers",
    "carob_exchanges_in_progress",
    "carob_requests_in_progress",
    "carob_bodies",
    "carob_validated_sources",
];

pub(super) fn write(soak: &Soak, checks: &[Check]) -> Result<String> {
    let mut text = String::new();
    let Soak {
        minutes,
        seed,
        samples,
        last,
        after,
        ..
    } = soak;
    let of = |name| count(last, name);
    writeln!(
        text,
        "# Soak test of {minutes} minutes\n\n\
        `carob serve` over loopback, all limits at their defaults, and in another process\n\
        ([crates/carob/examples/soak](../crates/carob/examples/soak)) confirmable GETs of `/hello` and PUTs to `/echo` as\n\
        closed loops, {POSTS} POSTs to `/count` a second, bodies of 5,000 bytes in blocks both ways, separate\n\
        responses from `/slow`, and {OBSERVERS} observers of `/count`, each with a port of its own. That process loses 1 % of\n\
        all datagrams in each direction between its engines and its sockets, without another process in between.\n\
        Every PUT and body is compared with its response, every POST with the sum in its response.\n\
        Written by `cargo xtask long soak --minutes {minutes} --seed {seed}`.\n\n\
        ## Verdict\n\n| | | |\n|---|---|---|"
    )?;
    for Check { name, seen, holds } in checks {
        let verdict = if *holds { "holds" } else { "**fails**" };
        writeln!(text, "| {name} | {verdict} | {seen} |")?;
    }
    writeln!(text, "\n{}", machine())?;
    let losses = Losses::of(soak);
    writeln!(
        text,
        "\nAn exchange fails if each of its five transmissions, or the reply to it, is lost. The probability of one is\n\
        1 - (1 - {:.5})(1 - {:.5}), that of all five {:.2e}. A check fails if a count as high has a probability below 0.001.",
        losses.there,
        losses.back,
        losses.of_exchange()
    )?;
    let kinds = |name, labels: &[&str]| after.sum(name, labels);
    let notifications = "kind=\"notification\"";
    let rates = rates(samples, *minutes);
    let cpu = samples.iter().rfind(|sample| under_load(sample, *minutes));
    writeln!(
        text,
        "\n## Load\n\n| | |\n|---|---|\n\
        | responses/s, over {} samples | lowest {:.0}, median {:.0}, highest {:.0} |\n\
        | requests answered | {} |\n\
        | datagrams sent to the server, received from it | {}, {} |\n\
        | retransmissions of the clients, of the server | {}, {:.0} |\n\
        | bodies of 5,000 bytes in each direction | {} |\n\
        | separate responses | {} |\n\
        | notifications received | {} |\n\
        | notifications sent, of them acknowledged ones (CON) | {:.0}, {:.0} |\n\
        | observers that registered again because their state was stale | {} |\n\
        | the server's share of a core | {:.0} % |\n\
        | the server's memory (RssAnon) at the end of the load, afterwards | {:.1}, {:.1} MiB |",
        rates.len(),
        rates.first().unwrap_or(&f64::NAN),
        rates.get(rates.len() / 2).unwrap_or(&f64::NAN),
        rates.last().unwrap_or(&f64::NAN),
        of("answered"),
        of("sent"),
        of("received"),
        of("retransmissions"),
        kinds("carob_retransmissions_total", &[]),
        of("bodies"),
        of("separate"),
        of("notifications"),
        kinds("carob_transmissions_total", &[notifications])
            - kinds("carob_retransmissions_total", &[notifications]),
        kinds(
            "carob_exchanges_total",
            &[notifications, "outcome=\"answered\""]
        ),
        of("stale"),
        cpu.map_or(f64::NAN, |last| 100.0 * last.cpu / last.seconds),
        cpu.map_or(f64::NAN, |last| mib(last.rss)),
        mib(after.rss),
    )?;
    writeln!(
        text,
        "\n## Tables\n\n| gauge | maximum | at the end |\n|---|---|---|"
    )?;
    for name in GAUGES {
        let values = samples.iter().map(|sample| sample.sum(name, &[]));
        let highest = values.fold(0.0, f64::max);
        writeln!(text, "| `{name}` | {highest} | {} |", after.sum(name, &[]))?;
    }
    writeln!(
        text,
        "\n## Over time\n\n\
        | s | responses/s | memory, MiB | CPU, s | remembered messages |\n|---|---|---|---|---|"
    )?;
    let step = samples.len().div_ceil(ROWS).max(1);
    let mut before: Option<&Sample> = None;
    for sample in samples.iter().step_by(step) {
        let rate = before.map_or(sample.answered as f64 / sample.seconds, |before| {
            rate(before, sample)
        });
        writeln!(
            text,
            "| {:.0} | {rate:.0} | {:.1} | {:.1} | {:.0} |",
            sample.seconds,
            mib(sample.rss),
            sample.cpu,
            sample.sum("carob_remembered_messages", &[])
        )?;
        before = Some(sample);
    }
    Ok(text)
}

/// The machine's other load.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let average = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let average = average.split(' ').nth(2).unwrap_or("unknown");
    format!(
        "The machine has {cores} cores. Its load average over the last 15 minutes was {average} at the end; server and load\n\
        alone make up to 2. Rates and gaps depend on the other load."
    )
}

fn under_load(sample: &Sample, minutes: u64) -> bool {
    sample.seconds <= (minutes * 60) as f64 + 1.0
}

fn rate(from: &Sample, to: &Sample) -> f64 {
    (to.answered - from.answered) as f64 / (to.seconds - from.seconds).max(1e-3)
}

/// Answers a second between two samples of the load, the lowest first.
fn rates(samples: &[Sample], minutes: u64) -> Vec<f64> {
    let mut rates: Vec<f64> = samples
        .windows(2)
        .filter(|pair| under_load(&pair[1], minutes))
        .map(|pair| rate(&pair[0], &pair[1]))
        .collect();
    rates.sort_by(f64::total_cmp);
    rates
}
