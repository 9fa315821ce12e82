//! A link model fitted to round trips: rates, round-trip time, jitter, losses, buffer.
//!
//! The model is that of `carob lab compare`: a packet takes its transmission time at the rate of its
//! direction, half of the round-trip time, and a delay drawn from 0 to the jitter.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::loss::{Loss, LossBasis, Losses};
use crate::tracker::samples::{Arrivals, Sample};

/// Round trips below which nothing is fitted.
const SAMPLES_MIN: usize = 8;
/// Standard errors above which a slope is taken for real.
const SLOPE_ERRORS: f64 = 4.0;
/// Share of the sizes' variance that must be of one direction alone.
const INDEPENDENT_MIN: f64 = 0.05;
/// Rounds in which outliers are removed, and their distance in standard deviations.
const TRIM_ROUNDS: usize = 4;
const TRIM_DEVIATIONS: f64 = 5.0;
/// Factor from the median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_DEVIATION: f64 = 1.4826;
/// Interquartile range of the sum of two uniform draws from 0 to 1.
const IQR_OF_TWO: f64 = 0.585_786;
/// Jitter below this share of the round trip is left out.
const JITTER_MIN: f64 = 0.005;
/// Share of a round trip for the largest packet where no rate is known.
const UNKNOWN_RATE_SHARE: f64 = 0.05;
/// Runs of arrivals from which a rate is taken.
const RUNS_MIN: u64 = 3;
/// Smallest MTU of a link file: IPv6's (RFC 8200 section 5).
const MTU_MIN: u32 = 1_280;

/// Trust in a fitted value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Certainty {
    /// Measured.
    Measured,
    /// Measured under an assumption.
    Assumed,
    /// Not known; the value stands for "no limit was seen".
    Unknown,
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Assumed => "assumed",
            Self::Unknown => "not known",
        })
    }
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fitted {
    /// The value in the unit of its field.
    pub value: f64,
    /// Trust in it.
    pub certainty: Certainty,
    /// How it was found.
    pub how: String,
}

impl Fitted {
    fn new(value: f64, certainty: Certainty, how: impl Into<String>) -> Self {
        Self {
            value,
            certainty,
            how: how.into(),
        }
    }
}

/// A link as `carob lab compare` takes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FittedLink {
    /// Round trips on which it rests.
    pub round_trips: usize,
    /// Rate towards the devices in bit/s.
    pub down_bps: Fitted,
    /// Rate from the devices in bit/s.
    pub up_bps: Fitted,
    /// Round-trip time without transmission times, in microseconds.
    pub rtt_us: Fitted,
    /// Additional delay in each direction, drawn from 0 to this, in microseconds.
    pub jitter_us: Fitted,
    /// Share of packets lost in each direction, 0 to 1.
    pub loss: Fitted,
    /// Mean length of a run of losses, in packets.
    pub loss_burst: Option<Fitted>,
    /// Buffer before each direction in bytes, at least; `None` if no queue was seen.
    pub buffer_bytes: Option<Fitted>,
    /// Largest packet with headers, in bytes.
    pub mtu: Fitted,
}

/// One round trip by the directions of the link.
#[derive(Clone, Copy, Debug)]
struct Trip {
    took: f64,
    /// Bytes from and towards the devices.
    bytes: [f64; 2],
    is_alone: bool,
}

/// Transmission times: microseconds for each byte from and towards the devices.
struct Rates {
    per_byte: [f64; 2],
    how: [String; 2],
    certainty: [Certainty; 2],
}

/// Sides on which the devices of the link are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Devices {
    /// Devices are the clients.
    #[default]
    Clients,
    /// Devices are the servers.
    Servers,
}

/// Inputs of a fit.
pub(crate) struct Evidence<'a> {
    /// Round trips, each with true if its sender is a client.
    pub(crate) samples: Vec<(&'a Sample, bool)>,
    pub(crate) arrivals: &'a [Arrivals; 2],
    pub(crate) losses: &'a Losses,
    pub(crate) packet_bytes_max: u32,
    pub(crate) devices: Devices,
}

/// Fits a link; `None` with too few round trips.
pub(crate) fn fit(evidence: &Evidence<'_>) -> Option<FittedLink> {
    let all: Vec<Trip> = evidence
        .samples
        .iter()
        .map(|sample| trip(sample, evidence.devices))
        .collect();
    let alone: Vec<Trip> = all.iter().copied().filter(|trip| trip.is_alone).collect();
    let is_loaded = alone.len() < SAMPLES_MIN;
    let quiet = if is_loaded { &all } else { &alone };
    if quiet.len() < SAMPLES_MIN {
        return None;
    }
    let rates = rates(quiet, &all, evidence);
    let rests = sorted(quiet.iter().map(|trip| rest(trip, rates.per_byte)));
    let (base, jitter) = base_and_jitter(&rests);
    let load = if is_loaded {
        format!("{} round trips under load; no quiet ones", quiet.len())
    } else {
        format!("{} round trips without other traffic", quiet.len())
    };
    let certainty = if is_loaded {
        Certainty::Assumed
    } else {
        Certainty::Measured
    };
    let rtt = Fitted::new(
        base,
        certainty,
        format!("low end of {load}, less transmission times and jitter"),
    );
    let jitter_us = Fitted::new(
        jitter,
        certainty,
        "from the quartiles of the same; a server's varying times are in it",
    );
    let [up, down] = [0, 1].map(|way| {
        Fitted::new(
            8e6 / rates.per_byte[way],
            rates.certainty[way],
            rates.how[way].clone(),
        )
    });
    Some(FittedLink {
        round_trips: quiet.len(),
        buffer_bytes: buffer(&all, &rates, base, jitter),
        down_bps: down,
        up_bps: up,
        rtt_us: rtt,
        jitter_us,
        loss: loss(evidence.losses),
        loss_burst: evidence.losses.burst.map(|burst| {
            let how = if burst > 1.0 {
                "from lost transmissions that follow a lost one"
            } else {
                "losses follow each other as chance has it"
            };
            Fitted::new(burst, Certainty::Measured, how)
        }),
        mtu: Fitted::new(
            f64::from(evidence.packet_bytes_max.max(MTU_MIN)),
            Certainty::Assumed,
            format!(
                "the largest packet had {} B; links of IPv6 carry {MTU_MIN} B",
                evidence.packet_bytes_max
            ),
        ),
    })
}

fn trip(sample: &(&Sample, bool), devices: Devices) -> Trip {
    let (sample, is_client) = *sample;
    let (sent, received) = (
        f64::from(sample.sent_bytes),
        f64::from(sample.received_bytes),
    );
    let from_devices = is_client == (devices == Devices::Clients);
    Trip {
        took: sample.round_trip as f64,
        bytes: if from_devices {
            [sent, received]
        } else {
            [received, sent]
        },
        is_alone: sample.is_alone,
    }
}

fn rest(trip: &Trip, per_byte: [f64; 2]) -> f64 {
    trip.took - per_byte[0] * trip.bytes[0] - per_byte[1] * trip.bytes[1]
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The value at a share of sorted ones; 0 of none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let place = (share * last as f64).round() as usize;
    sorted.get(place).copied().unwrap_or_default()
}

fn rates(quiet: &[Trip], all: &[Trip], evidence: &Evidence<'_>) -> Rates {
    let trips = trimmed(quiet);
    if let Some(per_byte) = two_slopes(&trips) {
        let how = || "from round trips of different sizes in this direction".to_owned();
        return Rates {
            per_byte,
            how: [how(), how()],
            certainty: [Certainty::Measured; 2],
        };
    }
    let total = line(
        trips
            .iter()
            .map(|trip| (trip.bytes[0] + trip.bytes[1], trip.took)),
    );
    if let Some(found) = total.filter(|found| found.slope > SLOPE_ERRORS * found.error) {
        // The direction whose sizes vary is the one that was measured.
        let spread = |way: usize| {
            let sizes = sorted(trips.iter().map(|trip| trip.bytes[way]));
            quantile(&sizes, 1.0) - quantile(&sizes, 0.0)
        };
        let measured = usize::from(spread(1) >= spread(0));
        let how = [0, 1].map(|way| {
            let how = if way == measured {
                "from round trips of different sizes, if both directions have one rate"
            } else {
                "the rate of the other direction is assumed: sizes varied in that one alone"
            };
            how.to_owned()
        });
        return Rates {
            per_byte: [found.slope; 2],
            how,
            certainty: [Certainty::Assumed; 2],
        };
    }
    if let Some(rates) = rate_of_arrivals(all, evidence) {
        return rates;
    }
    // A rate at which transmission times hardly matter.
    let largest = trips.iter().map(|trip| trip.bytes[0].max(trip.bytes[1]));
    let largest = largest.fold(1.0, f64::max);
    let median = quantile(&sorted(trips.iter().map(|trip| trip.took)), 0.5);
    let per_byte = (median * UNKNOWN_RATE_SHARE / largest).max(1e-4);
    let how = || {
        "no transmission time was seen; set so that the largest packet takes 5 % of the round trip"
            .to_owned()
    };
    Rates {
        per_byte: [per_byte; 2],
        how: [how(), how()],
        certainty: [Certainty::Unknown; 2],
    }
}

/// The rate at which replies arrived while more were awaited, if round trips grew meanwhile.
fn rate_of_arrivals(all: &[Trip], evidence: &Evidence<'_>) -> Option<Rates> {
    let arrivals = evidence
        .arrivals
        .iter()
        .max_by_key(|one| one.rates.count())?;
    if arrivals.rates.count() < RUNS_MIN {
        return None;
    }
    let rate = arrivals.rates.quantile(0.75).max(1) as f64;
    let per_byte = 8e6 / rate;
    let took = sorted(all.iter().map(|trip| trip.took));
    let sizes = sorted(all.iter().map(|trip| trip.bytes[1]));
    let packet = per_byte * quantile(&sizes, 0.5);
    let is_queueing = quantile(&took, 0.5) > quantile(&took, 0.01) + 3.0 * packet;
    let (certainty, how) = if is_queueing {
        let how = "from replies that arrived one after the other through a queue";
        (Certainty::Assumed, how)
    } else {
        let how = "at least: replies arrived at this rate without a queue";
        (Certainty::Unknown, how)
    };
    Some(Rates {
        per_byte: [per_byte; 2],
        how: [
            "the rate of the other direction is assumed".to_owned(),
            how.to_owned(),
        ],
        certainty: [Certainty::Unknown, certainty],
    })
}

/// A straight line through points.
struct Line {
    slope: f64,
    error: f64,
}

fn line(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Line> {
    let count = points.clone().count() as f64;
    if count < 3.0 {
        return None;
    }
    let mean = |value: fn((f64, f64)) -> f64| points.clone().map(value).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let (mut xx, mut xy) = (0.0, 0.0);
    for point in points.clone() {
        xx += (point.0 - x).powi(2);
        xy += (point.0 - x) * (point.1 - y);
    }
    if xx < 1.0 {
        return None;
    }
    let slope = xy / xx;
    let squares: f64 = points.map(|p| (p.1 - y - slope * (p.0 - x)).powi(2)).sum();
    Some(Line {
        slope,
        error: (squares / (count - 2.0) / xx).sqrt(),
    })
}

/// Slopes of both directions by least squares, if both are certain.
fn two_slopes(trips: &[Trip]) -> Option<[f64; 2]> {
    let count = trips.len() as f64;
    if trips.len() < SAMPLES_MIN {
        return None;
    }
    let mean = |value: fn(&Trip) -> f64| trips.iter().map(value).sum::<f64>() / count;
    let means = [mean(|trip| trip.bytes[0]), mean(|trip| trip.bytes[1])];
    let took = mean(|trip| trip.took);
    // Distances from the means: up, down, time.
    let centred = trips.iter().map(|trip| {
        let [up, down] = [0, 1].map(|way| trip.bytes[way] - means[way]);
        [up, down, trip.took - took]
    });
    let sum = |a: usize, b: usize| {
        centred
            .clone()
            .map(|point| point[a] * point[b])
            .sum::<f64>()
    };
    let (up_up, down_down, up_down) = (sum(0, 0), sum(1, 1), sum(0, 1));
    let determinant = up_up * down_down - up_down * up_down;
    if up_up < 1.0 || down_down < 1.0 || determinant < INDEPENDENT_MIN * up_up * down_down {
        return None;
    }
    let (up_took, down_took) = (sum(0, 2), sum(1, 2));
    let slopes = [
        (up_took * down_down - down_took * up_down) / determinant,
        (down_took * up_up - up_took * up_down) / determinant,
    ];
    let rest = |[up, down, took]: [f64; 3]| took - slopes[0] * up - slopes[1] * down;
    let squares: f64 = centred.clone().map(|point| rest(point).powi(2)).sum();
    let variance = squares / (count - 3.0);
    let errors = [down_down, up_up].map(|spread| (variance * spread / determinant).sqrt());
    let mut each = slopes.iter().zip(errors);
    let is_certain = each.all(|(slope, error)| *slope > 0.0 && *slope > SLOPE_ERRORS * error);
    is_certain.then_some(slopes)
}

/// Round trips without those far from the line through all.
fn trimmed(trips: &[Trip]) -> Vec<Trip> {
    let mut kept = trips.to_vec();
    for _ in 0..TRIM_ROUNDS {
        let total = |trip: &Trip| trip.bytes[0] + trip.bytes[1];
        let slope = line(kept.iter().map(|trip| (total(trip), trip.took)));
        let slope = slope.map_or(0.0, |line| line.slope.max(0.0));
        let rests = sorted(kept.iter().map(|trip| trip.took - slope * total(trip)));
        let middle = quantile(&rests, 0.5);
        let spread = sorted(rests.iter().map(|rest| (rest - middle).abs()));
        let limit = (TRIM_DEVIATIONS * MAD_TO_DEVIATION * quantile(&spread, 0.5)).max(1.0);
        let before = kept.len();
        kept.retain(|trip| (trip.took - slope * total(trip) - middle).abs() <= limit);
        if kept.len() == before {
            break;
        }
    }
    if kept.len() < SAMPLES_MIN {
        trips.to_vec()
    } else {
        kept
    }
}

/// Round-trip time and jitter of sorted times: two draws from 0 to the jitter are added to it.
fn base_and_jitter(rests: &[f64]) -> (f64, f64) {
    let middle = quantile(rests, 0.5);
    let low = quantile(rests, 0.01);
    let jitter = (quantile(rests, 0.75) - quantile(rests, 0.25)) / IQR_OF_TWO;
    let base = (middle - jitter).clamp(low - 0.2 * jitter, low).max(0.0);
    let jitter = (middle - base).max(0.0);
    if jitter < JITTER_MIN * middle {
        (middle.max(0.0), 0.0)
    } else {
        (base, jitter)
    }
}

/// The longest queue, in bytes.
fn buffer(all: &[Trip], rates: &Rates, base: f64, jitter: f64) -> Option<Fitted> {
    let per_byte = rates.per_byte[1];
    if rates.certainty[1] == Certainty::Unknown {
        return None;
    }
    let loaded = all.iter().filter(|trip| !trip.is_alone);
    let waits = sorted(loaded.map(|trip| rest(trip, rates.per_byte) - base - jitter));
    if waits.len() < SAMPLES_MIN {
        return None;
    }
    let sizes = sorted(all.iter().map(|trip| trip.bytes[1]));
    let packet = quantile(&sizes, 0.5);
    let bytes = quantile(&waits, 0.995) / per_byte;
    (bytes > 3.0 * packet).then(|| {
        let how = "at least: the longest queue that was seen";
        Fitted::new(bytes, Certainty::Assumed, how)
    })
}

fn loss(losses: &Losses) -> Fitted {
    let [up, down] = [losses.to_server, losses.to_client];
    let shares: Vec<Loss> = up.into_iter().chain(down).collect();
    if shares.is_empty() {
        let how = "no CON message shows a loss";
        return Fitted::new(0.0, Certainty::Unknown, how);
    }
    let mean = shares.iter().map(|loss| loss.share).sum::<f64>() / shares.len() as f64;
    let packets = shares
        .iter()
        .map(|loss| loss.packets)
        .max()
        .unwrap_or_default();
    let is_counted = shares.iter().all(|loss| loss.basis == LossBasis::BothEnds);
    let (certainty, how) = if is_counted {
        (
            Certainty::Measured,
            "mean of both directions, counted at both ends",
        )
    } else if shares.len() == 1 {
        (
            Certainty::Assumed,
            "one direction; the other is assumed to lose alike",
        )
    } else {
        (
            Certainty::Assumed,
            "from lost round trips; both directions are assumed to lose alike",
        )
    };
    Fitted::new(mean, certainty, format!("{how} ({packets} packets)"))
}

impl FittedLink {
    /// Returns the link as a file for `carob lab compare --link`, with a comment for each value.
    pub fn to_toml(&self, source: &str) -> String {
        let mut text = format!(
            "# Fitted to {} round trips of {}.\n[link]\n",
            self.round_trips,
            source.replace(['\n', '\r'], " ")
        );
        let mut add = |key: &str, value: String, fitted: &Fitted| {
            // A String takes every write.
            let _ = writeln!(text, "# {}: {}", fitted.certainty, fitted.how);
            let _ = writeln!(text, "{key} = \"{value}\"");
        };
        let rate = |fitted: &Fitted| format!("{:.0} bit/s", fitted.value.max(1.0));
        let time = |fitted: &Fitted| format!("{:.0} us", fitted.value);
        add("down", rate(&self.down_bps), &self.down_bps);
        add("up", rate(&self.up_bps), &self.up_bps);
        add("rtt", time(&self.rtt_us), &self.rtt_us);
        add("jitter", time(&self.jitter_us), &self.jitter_us);
        add(
            "loss",
            format!("{:.2} %", self.loss.value * 100.0),
            &self.loss,
        );
        if let Some(burst) = &self.loss_burst {
            add("loss_burst", format!("{:.2}", burst.value), burst);
        }
        match &self.buffer_bytes {
            Some(buffer) => add("buffer", format!("{:.0} B", buffer.value), buffer),
            None => {
                let _ = writeln!(text, "# buffer: not known, no queue was seen");
            }
        }
        let mtu = &self.mtu;
        let _ = writeln!(text, "# {}: {}", mtu.certainty, mtu.how);
        let _ = writeln!(text, "mtu = \"{:.0} B\"", mtu.value);
        text
    }
}
