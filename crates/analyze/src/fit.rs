//! A link model fitted to round trips: rates, round-trip time, jitter, losses, buffer.
//!
//! The model is as in `carob lab compare`: a packet takes its transmission time at the rate of its
//! direction, half of the round-trip time, and a delay drawn from 0 to the jitter.

use std::collections::BTreeMap;
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
/// Bytes of a class of sizes, and round trips of a class from which its spread is known.
const CELL_BYTES: u64 = 8;
const CELL_MIN: usize = 3;
/// Difference of sizes below which they show no rate, in bytes.
const SPREAD_MIN: f64 = 64.0;
/// Ratio of the variances of median and mean of normal values.
const MEDIAN_VARIANCE: f64 = 1.57;
/// Smallest standard deviation that is believed, in microseconds.
const RESOLUTION_US: f64 = 20.0;
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
    /// Unknown; the value is used where no limit was seen.
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
    let cells = Cells::of(quiet);
    if let Some(per_byte) = cells.two_slopes() {
        let how = || "from round trips of different sizes in this direction".to_owned();
        return Rates {
            per_byte,
            how: [how(), how()],
            certainty: [Certainty::Measured; 2],
        };
    }
    if let Some(slope) = cells.slope() {
        // The direction whose sizes vary is the one that was measured.
        let measured = usize::from(cells.spread(1) >= cells.spread(0));
        let how = [0, 1].map(|way| {
            let how = if way == measured {
                "from round trips of different sizes, if both directions have one rate"
            } else {
                "the rate of the other direction is assumed: sizes varied in that one alone"
            };
            how.to_owned()
        });
        return Rates {
            per_byte: [slope; 2],
            how,
            certainty: [Certainty::Assumed; 2],
        };
    }
    if let Some(rates) = rate_of_arrivals(all, evidence) {
        return rates;
    }
    // A rate at which transmission times hardly matter.
    let largest = quiet.iter().map(|trip| trip.bytes[0].max(trip.bytes[1]));
    let largest = largest.fold(1.0, f64::max);
    let median = quantile(&sorted(quiet.iter().map(|trip| trip.took)), 0.5);
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

/// Round trips of one size: the median time, which outliers do not move.
#[derive(Clone, Copy, Debug)]
struct Cell {
    bytes: [f64; 2],
    took: f64,
    count: f64,
}

/// Round trips by size, and the variance of a median of one.
struct Cells {
    cells: Vec<Cell>,
    variance: f64,
}

impl Cells {
    fn of(trips: &[Trip]) -> Self {
        let mut grouped: BTreeMap<[u64; 2], Vec<&Trip>> = BTreeMap::new();
        for trip in trips {
            let key = trip.bytes.map(|bytes| bytes as u64 / CELL_BYTES);
            grouped.entry(key).or_default().push(trip);
        }
        let mut distances = Vec::new();
        let cells: Vec<Cell> = (grouped.into_values())
            .map(|trips| {
                let count = trips.len() as f64;
                let middle = quantile(&sorted(trips.iter().map(|trip| trip.took)), 0.5);
                if trips.len() >= CELL_MIN {
                    distances.extend(trips.iter().map(|trip| (trip.took - middle).abs()));
                }
                let mean =
                    |way: usize| trips.iter().map(|trip| trip.bytes[way]).sum::<f64>() / count;
                Cell {
                    bytes: [mean(0), mean(1)],
                    took: middle,
                    count,
                }
            })
            .collect();
        let deviation = MAD_TO_DEVIATION * quantile(&sorted(distances.into_iter()), 0.5);
        Self {
            cells,
            variance: MEDIAN_VARIANCE * deviation.max(RESOLUTION_US).powi(2),
        }
    }

    /// Largest difference of sizes in a direction, of cells with several round trips.
    fn spread(&self, way: usize) -> f64 {
        let several = self
            .cells
            .iter()
            .filter(|cell| cell.count >= CELL_MIN as f64);
        let sizes = sorted(several.map(|cell| cell.bytes[way]));
        quantile(&sizes, 1.0) - quantile(&sizes, 0.0)
    }

    /// Weighted mean of a value.
    fn mean(&self, value: impl Fn(&Cell) -> f64) -> f64 {
        let count: f64 = self.cells.iter().map(|cell| cell.count).sum();
        let sum: f64 = self.cells.iter().map(|cell| cell.count * value(cell)).sum();
        sum / count.max(1.0)
    }

    /// Weighted sum of the products of two values' distances from their means.
    fn product(&self, a: impl Fn(&Cell) -> f64, b: impl Fn(&Cell) -> f64) -> f64 {
        let (of_a, of_b) = (self.mean(&a), self.mean(&b));
        let each = self.cells.iter();
        each.map(|cell| cell.count * (a(cell) - of_a) * (b(cell) - of_b))
            .sum()
    }

    /// Variance of a round trip around the fitted times, from the cells or from within them.
    fn variance(&self, slopes: [f64; 2]) -> f64 {
        let rest = |cell: &Cell| cell.took - slopes[0] * cell.bytes[0] - slopes[1] * cell.bytes[1];
        let free = self.cells.len().saturating_sub(3);
        if free == 0 {
            return self.variance;
        }
        (self.product(rest, rest) / free as f64).max(self.variance)
    }

    /// Slope over the bytes of both directions, if it is certain.
    fn slope(&self) -> Option<f64> {
        if self.spread(0).max(self.spread(1)) < SPREAD_MIN {
            return None;
        }
        let total = |cell: &Cell| cell.bytes[0] + cell.bytes[1];
        let spread = self.product(total, total);
        let slope = self.product(total, |cell| cell.took) / spread;
        let error = (self.variance([slope; 2]) / spread).sqrt();
        (slope > SLOPE_ERRORS * error).then_some(slope)
    }

    /// Slopes of both directions by least squares, if both are certain.
    fn two_slopes(&self) -> Option<[f64; 2]> {
        if self.spread(0).min(self.spread(1)) < SPREAD_MIN {
            return None;
        }
        let (up, down) = (|cell: &Cell| cell.bytes[0], |cell: &Cell| cell.bytes[1]);
        let took = |cell: &Cell| cell.took;
        let (up_up, down_down, up_down) = (
            self.product(up, up),
            self.product(down, down),
            self.product(up, down),
        );
        let determinant = up_up * down_down - up_down * up_down;
        if determinant < INDEPENDENT_MIN * up_up * down_down {
            return None;
        }
        let (up_took, down_took) = (self.product(up, took), self.product(down, took));
        let slopes = [
            (up_took * down_down - down_took * up_down) / determinant,
            (down_took * up_up - up_took * up_down) / determinant,
        ];
        let variance = self.variance(slopes);
        let errors = [down_down, up_up].map(|spread| (variance * spread / determinant).sqrt());
        let mut each = slopes.iter().zip(errors);
        let is_certain = each.all(|(slope, error)| *slope > SLOPE_ERRORS * error);
        is_certain.then_some(slopes)
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
