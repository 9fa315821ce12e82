//! Models of links held against measurements: the same quantities from simulated runs.
//!
//! The table `links/measured/measured.csv` names each measured link, its model, its trace, and
//! how it was measured.

use std::collections::BTreeMap;
use std::path::Path;

use carob_cc::time::{Duration, Instant};
use carob_sim::link::{Direction, DirectionSpec, TraceEnd, TraceStart, Verdict};
use carob_sim::spec::{NetworkSpec, RunSpec};

use crate::compare::{CompareError, Link, Question, Traffic, WrittenLink};
use crate::csv::Table;
use crate::scenario::value::table;

/// Measured quantities.
const MEASURED: &str = include_str!("../links/measured/measured.csv");

/// Round trips, packets or half-seconds that a value is computed from.
const SAMPLES: u32 = 20_000;
/// Half-seconds of a saturated direction.
const BIN: Duration = Duration::from_millis(500);
/// A packet of 20 B with IP and UDP headers.
const SMALL_BYTES: u32 = 48;
/// A packet that fills a link.
const LARGE_BYTES: u32 = 1_500;

/// Models that are not built-in links: name in the table, link file.
const MODELS: [(&str, &str); 9] = [
    (
        "measured/nb-iot-telenor-ecl1",
        include_str!("../links/measured/nb-iot-telenor-ecl1.toml"),
    ),
    (
        "measured/nb-iot-telenor-ecl2",
        include_str!("../links/measured/nb-iot-telenor-ecl2.toml"),
    ),
    (
        "measured/evdo-verizon-driving",
        include_str!("../links/measured/evdo-verizon-driving.toml"),
    ),
    (
        "measured/hsdpa-oslo-train",
        include_str!("../links/measured/hsdpa-oslo-train.toml"),
    ),
    (
        "measured/hsdpa-oslo-tram",
        include_str!("../links/measured/hsdpa-oslo-tram.toml"),
    ),
    (
        "measured/tsch-munich-n4",
        include_str!("../links/measured/tsch-munich-n4.toml"),
    ),
    (
        "measured/tsch-munich-load-n7",
        include_str!("../links/measured/tsch-munich-load-n7.toml"),
    ),
    (
        "measured/lorawan-lyon-dr5-d1",
        include_str!("../links/measured/lorawan-lyon-dr5-d1.toml"),
    ),
    (
        "measured/lorawan-lyon-dr5-d3",
        include_str!("../links/measured/lorawan-lyon-dr5-d3.toml"),
    ),
];

/// A quantity of a link: as it was measured, and as its model and its trace have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// The measured link.
    pub link: String,
    /// Its model: a built-in link or a file in `links/`.
    pub model: String,
    /// Name of the quantity, such as `rtt_p95`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The measured value.
    pub measured: f64,
    /// Value of the model.
    pub modelled: f64,
    /// Value of the trace, where there is one.
    pub traced: Option<f64>,
}

/// Computes every quantity of the links whose name passes. Missing files of `traces` are skipped.
///
/// # Errors
///
/// A link that cannot be simulated.
pub fn quantities(
    traces: Option<&Path>,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Quantity>, CompareError> {
    let lines = MEASURED.lines().filter(|line| !line.starts_with('#'));
    let table = Table::read(&lines.collect::<Vec<_>>().join("\n")).expect("the table is whole");
    let mut cache: BTreeMap<(String, String), BTreeMap<String, f64>> = BTreeMap::new();
    let mut all = Vec::new();
    for row in 0..table.len() {
        let cell = |column: &str| table.cell(row, column).unwrap_or_default();
        if !is_wanted(cell("link")) {
            continue;
        }
        let name = cell("quantity");
        let mut value = |link: Option<Link>| {
            let Some(link) = link else {
                return Ok(None);
            };
            let id = (link.name.clone(), cell("kind").to_owned());
            if !cache.contains_key(&id) {
                let values = measure(&link, cell("kind"))?;
                cache.insert(id.clone(), values);
            }
            Ok::<_, CompareError>(cache[&id].get(name).copied())
        };
        let modelled = value(Some(model(cell("model"))?))?;
        let traced = value(traced(cell("trace"), traces)?)?;
        all.push(Quantity {
            link: cell("link").to_owned(),
            model: cell("model").to_owned(),
            name: name.to_owned(),
            unit: cell("unit").to_owned(),
            measured: table.number(row, "measured").unwrap_or(f64::NAN),
            modelled: modelled.unwrap_or(f64::NAN),
            traced,
        });
    }
    Ok(all)
}

fn model(name: &str) -> Result<Link, CompareError> {
    let own = MODELS.iter().find(|(known, _)| *known == name);
    match own {
        Some((name, text)) => Link::from_file(name, text),
        None => Ok(Link::built_in(name).expect("a test reads every model")),
    }
}

/// The link of the traces of that name in a folder, if there are any.
fn traced(name: &str, folder: Option<&Path>) -> Result<Option<Link>, CompareError> {
    let Some(folder) = folder.filter(|_| !name.is_empty()) else {
        return Ok(None);
    };
    let written = WrittenLink::default()
        .with("down", Some("10 Mbit/s".to_owned()))
        .with("up", Some("10 Mbit/s".to_owned()))
        .with("rtt", Some("0 s".to_owned()))
        .traced(name, folder);
    let read = || Link::read(&format!("trace {name}"), &written);
    written.is_traced().then(read).transpose()
}

/// The quantities of a link, measured in a way such as `round-trip 60 s`, `steady 10 s` (round trips without the link's
/// changes), `up 5500 ms` or `saturated down`.
fn measure(link: &Link, kind: &str) -> Result<BTreeMap<String, f64>, CompareError> {
    let (way, interval) = kind.split_once(' ').unwrap_or((kind, ""));
    match way {
        "round-trip" => round_trips(link, interval),
        "steady" => {
            let mut steady = link.clone();
            steady.more.retain(|key, _| !key.ends_with("changes"));
            round_trips(&steady, interval)
        }
        "saturated" => Ok(saturated(&spec(link, interval)?, interval)),
        way => {
            let interval = interval.parse().expect("a time");
            Ok(one_way(&spec(link, way)?, interval))
        }
    }
}

/// A run with one exchange of 20 B each way at an interval, never retransmitted.
fn run(link: &Link, interval: &str) -> Result<RunSpec, CompareError> {
    let workload = format!(
        "[workload]\nkind = \"exchanges\"\nrequests = {SAMPLES}\nrequest = \"20 B\"\nresponse = \"20 B\"\n\
         size_of = \"message\"\npath = \"r\"\ntoken_bytes = 2\nrequest_period = \"{interval}\"\n\
         after_failure = \"next\"\n"
    );
    let traffic = Traffic::from_file("exchanges", &workload)?;
    let question = Question::new(link.clone(), traffic);
    let interval: Duration = interval.parse().expect("a time");
    let transmission = [
        ("max_retransmit", 0.into()),
        ("nstart", 64.into()),
        // Longer than any round trip, and no 64 intervals, so that lost exchanges keep none waiting.
        ("ack_timeout", interval.times(10).into()),
    ];
    let mut spec = question.spec(&table("transmission", transmission).collect())?;
    spec.time_limit = Duration::from_secs(3_600_000);
    Ok(spec)
}

/// Quantiles of round trips, and losses of each direction and of round trips.
fn round_trips(link: &Link, interval: &str) -> Result<BTreeMap<String, f64>, CompareError> {
    let record = carob_sim::run(&run(link, interval)?).map_err(|error| CompareError {
        what: error.to_string(),
        remedy: "change the link file".to_owned(),
    })?;
    let mut times = record.response_times;
    let (down, up) = (record.link.down, record.link.up);
    let percent = |lost: u64, of: u64| lost as f64 * 100.0 / of.max(1) as f64;
    let mut values = quantiles("rtt", &mut times);
    let unanswered = u64::from(SAMPLES).saturating_sub(times.len() as u64);
    values.extend([
        ("loss_down".to_owned(), percent(down.lost, down.offered)),
        ("loss_up".to_owned(), percent(up.lost, up.offered)),
        ("loss_round".to_owned(), percent(unanswered, SAMPLES.into())),
    ]);
    Ok(values)
}

/// The specification of a direction of a link; traces begin at their first row.
fn spec(link: &Link, way: &str) -> Result<DirectionSpec, CompareError> {
    let NetworkSpec::Link(network) = run(link, "1 s")?.network else {
        return Err(CompareError {
            what: "a mesh has no directions".to_owned(),
            remedy: "validate a link".to_owned(),
        });
    };
    let mut direction = match way {
        "down" => network.link.down,
        _ => network.link.up,
    };
    if let Some(replay) = &mut direction.replay {
        (replay.end, replay.start) = (TraceEnd::Loop, TraceStart::First);
    }
    Ok(direction)
}

/// Quantiles of delays, losses with the mean run of losses, and outages: runs of 1 s and more.
fn one_way(spec: &DirectionSpec, interval: Duration) -> BTreeMap<String, f64> {
    let mut direction = Direction::new(spec, 1, "validation");
    let (mut now, mut delays) = (Instant::ZERO, Vec::new());
    let (mut runs, mut run) = (Vec::new(), 0_u32);
    let packets = if interval < Duration::from_secs(1) {
        SAMPLES * 50
    } else {
        SAMPLES * 5
    };
    for _ in 0..packets {
        match direction.offer(now, SMALL_BYTES) {
            Verdict::Deliver { at, .. } => {
                delays.push(at.since(now));
                runs.extend((run > 0).then_some(run));
                run = 0;
            }
            _ => run += 1,
        }
        now += interval;
    }
    let lost: u32 = runs.iter().sum();
    let seconds = |packets: f64| packets * interval.as_micros() as f64 / 1e6;
    let outages: Vec<f64> = runs.iter().map(|run| seconds(f64::from(*run))).collect();
    let outages: Vec<f64> = outages.into_iter().filter(|time| *time >= 1.0).collect();
    let (mean, out) = (mean(&outages), outages.iter().sum::<f64>());
    let mut values = quantiles("delay", &mut delays);
    values.extend([
        (
            "loss".to_owned(),
            f64::from(lost) * 100.0 / f64::from(packets),
        ),
        (
            "loss_run".to_owned(),
            f64::from(lost) / runs.len().max(1) as f64,
        ),
        ("outage_mean".to_owned(), mean),
        (
            "outage_share".to_owned(),
            out * 100.0 / seconds(packets.into()),
        ),
    ]);
    values
}

/// Throughput of packets that never cease, the share of half-seconds without one, and the mean length of their runs.
fn saturated(spec: &DirectionSpec, way: &str) -> BTreeMap<String, f64> {
    let mut direction = Direction::new(spec, 1, "validation");
    let (mut bins, mut now) = (vec![0_u64; SAMPLES as usize], Instant::ZERO);
    while let Verdict::Deliver { departed, .. } | Verdict::Lost { departed } =
        direction.offer(now, LARGE_BYTES)
    {
        now = departed;
        // A packet that ends with a half-second is of it.
        let ended = departed.since(Instant::ZERO).as_micros().saturating_sub(1);
        let place = ended / BIN.as_micros();
        match bins.get_mut(place as usize) {
            Some(bin) => *bin += u64::from(LARGE_BYTES),
            None => break,
        }
    }
    let (mut runs, mut run) = (Vec::new(), 0.0);
    for bytes in &bins {
        if *bytes == 0 {
            run += BIN.as_micros() as f64 / 1e6;
        } else {
            runs.extend((run > 0.0).then_some(run));
            run = 0.0;
        }
    }
    let seconds = f64::from(SAMPLES) * BIN.as_micros() as f64 / 1e6;
    let bytes: u64 = bins.iter().sum();
    let empty = bins.iter().filter(|bytes| **bytes == 0).count();
    BTreeMap::from([
        (
            format!("throughput_{way}"),
            bytes as f64 * 8.0 / 1e3 / seconds,
        ),
        (
            format!("no_delivery_{way}"),
            empty as f64 * 100.0 / f64::from(SAMPLES),
        ),
        (format!("no_delivery_run_{way}"), mean(&runs)),
    ])
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// Median, 95th and 99th percentile of times, in seconds.
fn quantiles(name: &str, times: &mut [Duration]) -> BTreeMap<String, f64> {
    times.sort_unstable();
    let at = |percent: usize| {
        let place = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times
            .get(place)
            .map_or(f64::NAN, |time| time.as_micros() as f64 / 1e6)
    };
    let of = |percent| (format!("{name}_p{percent}"), at(percent));
    BTreeMap::from([50, 95, 99].map(of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_model_reads() {
        for (name, text) in MODELS {
            assert!(Link::from_file(name, text).is_ok(), "{name}");
        }
        let lines = MEASURED.lines().filter(|line| !line.starts_with('#'));
        for line in lines.skip(1) {
            let name = line.split(',').nth(1).expect("a model");
            let known = MODELS.iter().any(|(known, _)| *known == name);
            assert!(known || Link::built_in(name).is_some(), "{name}");
        }
    }

    #[test]
    fn bursts_in_grenoble_take_about_as_long_as_measured() {
        let (file, _) = crate::scenario::builtin::find("carob/grenoble").expect("built in");
        let scenario = Scenario::read(file.name, file.text, &[]).expect("valid");
        let (mut times, mut retransmissions) = (Vec::new(), 0);
        for seed in 1..=40 {
            let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], seed);
            let record = carob_sim::run(&spec).expect("a run");
            retransmissions += record
                .flows
                .iter()
                .map(|flow| flow.retransmissions)
                .sum::<u64>();
            times.extend(record.response_times);
        }
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100].as_micros() as f64 / 1e6;
        for (percent, measured, limit) in [
            (50, 0.096, 0.1),
            (75, 2.61, 0.25),
            (90, 7.28, 0.15),
            (95, 8.32, 0.3),
        ] {
            let apart = (at(percent) / measured - 1.0).abs();
            assert!(
                apart <= limit,
                "p{percent}: {} s, {measured} s",
                at(percent)
            );
        }
        let transmissions = 1.0 + retransmissions as f64 / (40.0 * 100.0);
        assert!((transmissions / 1.506 - 1.0).abs() < 0.1, "{transmissions}");
    }

    #[test]
    fn models_stay_near_the_measurements() {
        let is_few =
            |link: &str| ["nb-iot-telia-ecl0", "3g-speed-tests", "tsch-munich-n8"].contains(&link);
        let all = quantities(None, is_few).expect("possible");
        let is_time = |one: &&Quantity| one.unit == "s";
        assert_eq!(all.iter().filter(is_time).count(), 9);
        for one in all.iter().filter(is_time) {
            let limit = if one.name.ends_with("p99") { 0.3 } else { 0.1 };
            let apart = (one.modelled / one.measured - 1.0).abs();
            assert!(apart <= limit, "{one:?}");
        }
    }
}
