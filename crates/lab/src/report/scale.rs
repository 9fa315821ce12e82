//! From values to pixels: linear and logarithmic scales with round ticks.

use super::svg::short;

/// Mapping of values to an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Equal distances for equal differences.
    #[default]
    Linear,
    /// Equal distances for equal ratios; values must be positive.
    Logarithmic,
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) text: String,
}

/// A mapping of a range of values to a range of pixels.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    mapping: Mapping,
    values: (f64, f64),
    pixels: (f64, f64),
    /// Where grid lines and labels are.
    pub(super) ticks: Vec<Tick>,
}

impl Scale {
    /// A scale over at least `low..high` that begins and ends on a tick, with about `wanted` ticks.
    pub(super) fn new(
        mapping: Mapping,
        (low, high): (f64, f64),
        wanted: usize,
        pixels: (f64, f64),
    ) -> Self {
        let ticks = match mapping {
            Mapping::Linear => linear(low, high, wanted),
            Mapping::Logarithmic => logarithmic(low, high, wanted),
        };
        Self {
            mapping,
            values: (ticks[0], ticks[ticks.len() - 1]),
            pixels,
            ticks: labelled(mapping, &ticks),
        }
    }

    /// A linear scale over exactly these values, with ticks of the figure's own.
    pub(super) fn given(values: (f64, f64), ticks: Vec<Tick>, pixels: (f64, f64)) -> Self {
        Self {
            mapping: Mapping::Linear,
            values,
            pixels,
            ticks,
        }
    }

    /// The pixel of a value; values outside the range are drawn at its ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (low, high) = self.values;
        let value = value.clamp(low.min(high), high.max(low));
        let part = match self.mapping {
            Mapping::Linear => (value - low) / (high - low),
            Mapping::Logarithmic => (value / low).ln() / (high / low).ln(),
        };
        self.pixels.0 + part * (self.pixels.1 - self.pixels.0)
    }

    /// The scale for a page's script: mapping, ends of the values, ends of the pixels.
    pub(super) fn data(&self) -> String {
        let mapping = match self.mapping {
            Mapping::Linear => "linear",
            Mapping::Logarithmic => "log",
        };
        let (from, to) = (short(self.pixels.0), short(self.pixels.1));
        format!("{mapping} {} {} {from} {to}", self.values.0, self.values.1)
    }
}

/// Round ticks around a range at equal differences.
fn linear(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let high = if high > low { high } else { low + 1.0 };
    let step = round_step((high - low) / wanted.max(1) as f64);
    let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
    (0..=(last - first) as u32)
        .map(|k| (first + f64::from(k)) * step)
        .collect()
}

/// Round ticks around a range at about equal ratios.
fn logarithmic(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let low = low.max(1e-6);
    let high = high.max(low * 1.01);
    let decades = (high / low).log10();
    let steps: &[f64] = if decades * 3.0 <= wanted as f64 * 1.5 {
        &[1.0, 2.0, 5.0]
    } else if decades * 2.0 <= wanted as f64 * 1.5 {
        &[1.0, 3.0]
    } else {
        &[1.0]
    };
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let all: Vec<f64> = (from..=to)
        .flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d)))
        .collect();
    let first = all.iter().rposition(|t| *t <= low * (1.0 + 1e-9));
    let last = all.iter().position(|t| *t >= high * (1.0 - 1e-9));
    let first = first.unwrap_or(0);
    all[first..=last.unwrap_or(all.len() - 1).max(first)].to_vec()
}

/// Ticks with as many decimals as they need, and narrow spaces between thousands.
fn labelled(mapping: Mapping, ticks: &[f64]) -> Vec<Tick> {
    let differences = ticks.windows(2).map(|w| w[1] - w[0]);
    let step = differences.fold(f64::INFINITY, f64::min);
    let label = |tick: f64| {
        let smallest = match mapping {
            Mapping::Linear => step,
            Mapping::Logarithmic => tick,
        };
        let decimals = (0..6).find(|d| {
            let scaled = smallest * 10_f64.powi(*d);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0) && scaled.round() >= 1.0
        });
        number(tick, decimals.unwrap_or(6) as usize)
    };
    let tick = |at: &f64| Tick {
        at: *at,
        text: label(*at),
    };
    ticks.iter().map(tick).collect()
}

/// A number with fixed decimals, and narrow no-break spaces between thousands from 10,000 on.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let digits = whole.trim_start_matches('-');
    let mut grouped = String::from(if whole.len() > digits.len() {
        "\u{2212}"
    } else {
        ""
    });
    for (i, digit) in digits.chars().enumerate() {
        if digits.len() > 4 && i > 0 && (digits.len() - i) % 3 == 0 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    if !rest.is_empty() {
        grouped.push('.');
        grouped.push_str(rest);
    }
    grouped
}

/// Four significant digits; zero has one.
pub(super) fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs().max(1e-9).log10().floor() as i32;
    format!("{value:.*}", usize::try_from(3 - size).unwrap_or(0).min(6))
}

/// The round step (1, 2 or 5 times a power of ten) at or above `raw`.
fn round_step(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.log10().floor());
    let mantissa = raw / power;
    let round = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|m| mantissa <= m * (1.0 + 1e-9))
        .unwrap_or(10.0);
    round * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose_the_range() {
        use Mapping::{Linear, Logarithmic};
        for (mapping, range, wanted, labels) in [
            (Linear, (0.0, 286.0), 5, "0 100 200 300"),
            (Linear, (0.2, 0.9), 4, "0.2 0.4 0.6 0.8 1.0"),
            (Linear, (0.0, 4e4), 2, "0 20\u{202f}000 40\u{202f}000"),
            (Linear, (5.0, 5.0), 1, "5 6"),
            (Logarithmic, (0.7, 32.0), 6, "0.5 1 2 5 10 20 50"),
            (Logarithmic, (1.0, 10.0), 6, "1 2 5 10"),
            (Logarithmic, (5.0, 5.0), 5, "5 10"),
        ] {
            let ticks = Scale::new(mapping, range, wanted, (0.0, 100.0)).ticks;
            let texts: Vec<String> = ticks.into_iter().map(|tick| tick.text).collect();
            assert_eq!(texts.join(" "), labels);
        }
    }

    #[test]
    fn values_map_to_pixels_and_stay_on_the_scale() {
        let up = Scale::new(Mapping::Linear, (0.0, 10.0), 5, (200.0, 0.0));
        for (value, pixel) in [(0.0, 200.0), (5.0, 100.0), (10.0, 0.0), (99.0, 0.0)] {
            assert!((up.at(value) - pixel).abs() < 1e-9, "{value}");
        }
        let log = Scale::new(Mapping::Logarithmic, (1.0, 100.0), 3, (0.0, 100.0));
        assert!((log.at(10.0) - 50.0).abs() < 1e-9);
    }
}
