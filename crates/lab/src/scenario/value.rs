//! Values of scenario keys: kinds, units and their text.

use std::collections::BTreeMap;
use std::fmt;

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use carob_sim::distribution::{Quantiles, TimeDistribution};
use carob_sim::link::PACKETS_MAX;
use carob_sim::spec::Span;
use serde_json::json;

use super::tcp;

/// The buffer called `inf`: the thesis's largest, which no run of it fills.
pub const INFINITE_BUFFER_BYTES: u64 = 1_410_000;

/// Values that a key accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A whole number in a range.
    Whole(u64, u64),
    /// A decimal or a fraction.
    Number,
    /// A length of time.
    Time,
    /// A length of time, or `none`.
    TimeOrNone,
    /// A length of time, or two for a range to draw from.
    Span,
    /// A distribution of times.
    Distribution,
    /// Bits per second.
    Rate,
    /// A number of bytes in a range.
    Bytes(u64, u64),
    /// A buffer in bytes or packets, or `inf`.
    Buffer,
    /// A power.
    Power,
    /// A share of a hundred.
    Percent,
    /// A distance.
    Length,
    /// A ratio of powers from 0 dB.
    Decibels,
    /// A list of texts.
    Texts,
    /// As the TCP setting of this name.
    Tcp(&'static str),
}

impl fmt::Display for Kind {
    /// Writes the accepted values, for messages and documentation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Word(words) => f.write_str(&words.join(" or ")),
            Self::Whole(low, u64::MAX) => write!(f, "a whole number from {low}"),
            Self::Whole(low, high) => write!(f, "a whole number from {low} to {high}"),
            Self::Number => f.write_str("a number such as 1.4 or 7/5"),
            Self::Time => f.write_str("a time with its unit (us, ms, s, min, h), as in \"400 ms\""),
            Self::TimeOrNone => {
                f.write_str("a time with its unit (us, ms, s, min, h), as in \"60 s\", or \"none\"")
            }
            Self::Span => f.write_str(
                "a time with its unit (us, ms, s, min, h), as in \"15 ms\", or a range of times, as in \"10-20 ms\"",
            ),
            Self::Distribution => f.write_str(
                "a time with its unit (us, ms, s, min, h), as in \"15 ms\", a range of times, as in \"10-20 ms\", \"exponential MEAN\", \"lognormal MEDIAN-P95\" or \"quantiles 50 % 2 s, 95 % 4 s, 100 % 16 s\"",
            ),
            Self::Rate => f.write_str(
                "a rate with its unit (bit/s, kbit/s, Mbit/s, Gbit/s), as in \"30 kbit/s\"",
            ),
            Self::Bytes(low, high) => {
                write!(f, "a size from {low} to {high} bytes with its unit (B, kB), as in \"256 B\"")
            }
            Self::Buffer => f.write_str(
                "a size with its unit (B, kB, packets), as in \"2500 B\" or \"50 packets\", or \"inf\"",
            ),
            Self::Power => f.write_str("a power with its unit (uW, mW, W), as in \"90 mW\""),
            Self::Percent => f.write_str("a share from 0 % to 100 % with its unit, as in \"2 %\""),
            Self::Length => f.write_str("a length with its unit (mm, m), as in \"10 m\""),
            Self::Decibels => f.write_str("a ratio of powers with its unit, as in \"3 dB\""),
            Self::Texts => f.write_str("a list of texts"),
            Self::Tcp(name) => f.write_str(tcp::takes(name)),
        }
    }
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text or a word.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A decimal or a fraction.
    Number(Ratio),
    /// A length of time; `None` for `none`.
    Time(Option<Duration>),
    /// A range of times, or one twice.
    Span(Span),
    /// A distribution of times.
    Distribution(TimeDistribution),
    /// Bits per second.
    Rate(u64),
    /// Bytes.
    Bytes(u64),
    /// Bytes of a buffer.
    Buffer(u64),
    /// Packets of a buffer.
    Packets(u32),
    /// Microwatts.
    Power(u64),
    /// Parts per million.
    Percent(u32),
    /// Millimetres.
    Length(u32),
    /// Hundredths of a decibel.
    Decibels(u32),
    /// Texts.
    Texts(Vec<String>),
}

/// Values by the paths of their keys.
pub(crate) type Values = BTreeMap<String, Value>;

/// Values of the keys of a table.
pub(crate) fn table<const N: usize>(
    name: &str,
    values: [(&str, Value); N],
) -> impl Iterator<Item = (String, Value)> {
    let values = values.into_iter();
    values.map(move |(key, value)| (format!("{name}.{key}"), value))
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for Value {
    fn from(n: u32) -> Self {
        Self::Whole(n.into())
    }
}

impl From<Duration> for Value {
    fn from(time: Duration) -> Self {
        Self::Time(Some(time))
    }
}

impl Value {
    /// Reads one value from its text.
    pub fn read(kind: Kind, text: &str) -> Option<Self> {
        let text = text.trim();
        Some(match kind {
            Kind::Text => Self::Text(text.to_owned()),
            Kind::Word(words) => Self::Text((*words.iter().find(|w| **w == text)?).to_owned()),
            Kind::Whole(low, high) => {
                let n: u64 = text.parse().ok()?;
                Self::Whole((low..=high).contains(&n).then_some(n)?)
            }
            Kind::Number => Self::Number(text.parse().ok()?),
            Kind::TimeOrNone if text == "none" => Self::Time(None),
            Kind::Time | Kind::TimeOrNone => Self::Time(Some(text.parse().ok()?)),
            Kind::Span => Self::Span(read_span(text)?),
            Kind::Distribution => Self::Distribution(read_distribution(text)?),
            Kind::Rate => Self::Rate(scaled(
                text,
                &[
                    ("bit/s", 1),
                    ("kbit/s", 1_000),
                    ("Mbit/s", 1_000_000),
                    ("Gbit/s", 1_000_000_000),
                ],
            )?),
            Kind::Bytes(low, high) => {
                let n = scaled(text, &[("B", 1), ("kB", 1_000)])?;
                Self::Bytes((low..=high).contains(&n).then_some(n)?)
            }
            Kind::Buffer if text == "inf" => Self::Buffer(INFINITE_BUFFER_BYTES),
            Kind::Buffer if text.ends_with("packets") => {
                let packets = u32::try_from(scaled(text, &[("packets", 1)])?).ok()?;
                Self::Packets(Some(packets).filter(|n| (1..=PACKETS_MAX).contains(n))?)
            }
            Kind::Buffer => Self::Buffer(scaled(text, &[("B", 1), ("kB", 1_000)])?),
            Kind::Power => {
                Self::Power(scaled(text, &[("uW", 1), ("mW", 1_000), ("W", 1_000_000)])?)
            }
            Kind::Percent => {
                let ppm = scaled(text, &[("%", 10_000)])?;
                Self::Percent(u32::try_from(ppm).ok().filter(|p| *p <= 1_000_000)?)
            }
            Kind::Length => {
                let millimetres = scaled(text, &[("mm", 1), ("m", 1_000)])?;
                Self::Length(u32::try_from(millimetres).ok()?)
            }
            Kind::Decibels => Self::Decibels(u32::try_from(scaled(text, &[("dB", 100)])?).ok()?),
            Kind::Tcp(name) => Self::Text(tcp::canonical(name, text)?),
            Kind::Texts => Self::Texts(
                text.split(',')
                    .map(|t| t.trim().to_owned())
                    .filter(|t| !t.is_empty())
                    .collect(),
            ),
        })
    }

    /// A text or a word.
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// As in names of cells: without spaces and, where it is clear, without units.
    pub fn bare(&self) -> String {
        match self {
            Self::Buffer(INFINITE_BUFFER_BYTES) => "inf".to_owned(),
            Self::Buffer(n) | Self::Bytes(n) | Self::Whole(n) => n.to_string(),
            Self::Rate(_) => self.to_string().replace(' ', "").replace("/s", ""),
            // A slash divides study and cell.
            Self::Text(text) => text.replace(' ', "").replace('/', "-"),
            other => other.to_string().replace(' ', ""),
        }
    }

    /// For sentences: sizes from 10 kB in kB where that is exact to 0.1 kB; other values unchanged.
    pub fn rounded(&self) -> String {
        match self {
            Self::Bytes(n) if *n >= 10_000 && n % 1_000 == 0 => format!("{} kB", n / 1_000),
            Self::Bytes(n) if *n >= 10_000 && n % 100 == 0 => {
                format!("{}.{} kB", n / 1_000, n / 100 % 10)
            }
            other => other.to_string(),
        }
    }

    /// As in the machine interface: numbers as numbers, in bytes, seconds, bits per second, metres
    /// and per cent; everything else as text.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Buffer(INFINITE_BUFFER_BYTES) => json!("inf"),
            Self::Buffer(n) | Self::Bytes(n) | Self::Whole(n) | Self::Rate(n) => json!(n),
            Self::Power(microwatts) => json!(*microwatts as f64 / 1e6),
            Self::Time(Some(t)) => json!(t.as_micros() as f64 / 1e6),
            Self::Percent(ppm) => json!(f64::from(*ppm) / 1e4),
            Self::Length(millimetres) => json!(f64::from(*millimetres) / 1e3),
            Self::Decibels(hundredths) => json!(f64::from(*hundredths) / 100.0),
            Self::Texts(texts) => json!(texts),
            other => json!(other.to_string()),
        }
    }
}

impl fmt::Display for Value {
    /// Canonical text, which [`Value::read`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Whole(n) => write!(f, "{n}"),
            Self::Number(ratio) => write!(f, "{ratio}"),
            Self::Time(None) => f.write_str("none"),
            Self::Time(Some(t)) => write!(f, "{t}"),
            Self::Span(Span { low, high })
            | Self::Distribution(TimeDistribution::Uniform { low, high })
                if low == high =>
            {
                write!(f, "{low}")
            }
            Self::Span(Span { low, high })
            | Self::Distribution(TimeDistribution::Uniform { low, high }) => {
                write!(f, "{low}-{high}")
            }
            Self::Distribution(TimeDistribution::Exponential(mean)) => {
                write!(f, "exponential {mean}")
            }
            Self::Distribution(TimeDistribution::LogNormal { median, p95 }) => {
                write!(f, "lognormal {median}-{p95}")
            }
            Self::Distribution(TimeDistribution::Quantiles(of)) => {
                let one = |&(ppm, time): &(u32, _)| format!("{} {time}", Self::Percent(ppm));
                let points: Vec<String> = of.points().iter().map(one).collect();
                write!(f, "quantiles {}", points.join(", "))
            }
            Self::Rate(bps) => {
                let units = [
                    (1_000_000_000, "Gbit/s"),
                    (1_000_000, "Mbit/s"),
                    (1_000, "kbit/s"),
                ];
                let whole = |(factor, _): &&(u64, &str)| *bps > 0 && bps % factor == 0;
                let (factor, unit) = units.iter().find(whole).unwrap_or(&(1, "bit/s"));
                write!(f, "{} {unit}", bps / factor)
            }
            Self::Buffer(INFINITE_BUFFER_BYTES) => f.write_str("inf"),
            Self::Bytes(n) | Self::Buffer(n) => write!(f, "{n} B"),
            Self::Packets(n) => write!(f, "{n} packets"),
            Self::Power(microwatts) if microwatts % 1_000 == 0 => {
                write!(f, "{} mW", microwatts / 1_000)
            }
            Self::Power(microwatts) => write!(f, "{microwatts} uW"),
            Self::Percent(ppm) => write!(f, "{} %", Ratio::new(*ppm, 10_000)),
            Self::Length(mm) if mm % 1_000 == 0 => write!(f, "{} m", mm / 1_000),
            Self::Length(mm) => write!(f, "{mm} mm"),
            Self::Decibels(hundredths) => write!(f, "{} dB", Ratio::new(*hundredths, 100)),
            Self::Texts(texts) => f.write_str(&texts.join(", ")),
        }
    }
}

/// `"10-20 ms"`, `"10 ms-20 ms"` or `"15 ms"`; the first may leave its unit to the second.
fn read_span(text: &str) -> Option<Span> {
    let Some((low, high)) = text.split_once('-') else {
        let both = text.parse().ok()?;
        return Some(Span {
            low: both,
            high: both,
        });
    };
    let high_time: Duration = high.parse().ok()?;
    let unit = high.trim_start_matches(|c: char| c.is_ascii_digit() || " .".contains(c));
    let low_time = low
        .parse()
        .or_else(|_| format!("{} {unit}", low.trim()).parse())
        .ok()?;
    (low_time <= high_time).then_some(Span {
        low: low_time,
        high: high_time,
    })
}

/// A range as in [`read_span`], `"exponential 2 s"` (mean), `"lognormal 2-6 s"` (median and 95th
/// percentile) or `"quantiles 50 % 2 s, 100 % 9 s"`.
pub(super) fn read_distribution(text: &str) -> Option<TimeDistribution> {
    if let Some(mean) = text.strip_prefix("exponential ") {
        return Some(TimeDistribution::Exponential(mean.trim().parse().ok()?));
    }
    if let Some(points) = text.strip_prefix("quantiles ") {
        let one = |point: &str| {
            let (share, time) = point.split_once('%')?;
            match Value::read(Kind::Percent, &format!("{share}%"))? {
                Value::Percent(ppm) => Some((ppm, time.trim().parse().ok()?)),
                _ => None,
            }
        };
        let points: Vec<(u32, Duration)> = points.split(',').map(one).collect::<Option<_>>()?;
        return Quantiles::new(&points).map(TimeDistribution::Quantiles);
    }
    let range = text.strip_prefix("lognormal ");
    let Span { low, high } = read_span(range.unwrap_or(text).trim())?;
    Some(match range {
        Some(_) if low.is_zero() => return None,
        Some(_) => TimeDistribution::LogNormal {
            median: low,
            p95: high,
        },
        None => TimeDistribution::Uniform { low, high },
    })
}

/// A decimal times the factor of its unit, if that is a whole number.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = (&text[..end], text[end..].trim());
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && decimals.is_empty()) || decimals.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(decimals.len() as u32);
    let decimals: u64 = if decimals.is_empty() {
        0
    } else {
        decimals.parse().ok()?
    };
    let part = decimals.checked_mul(factor)?;
    if part % scale != 0 {
        return None;
    }
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(factor)?
        .checked_add(part / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, text: &str) -> Option<Value> {
        Value::read(kind, text)
    }

    #[test]
    fn units_scale_exactly() {
        assert_eq!(read(Kind::Rate, "30 kbit/s"), Some(Value::Rate(30_000)));
        assert_eq!(read(Kind::Rate, "0.25Mbit/s"), Some(Value::Rate(250_000)));
        assert_eq!(read(Kind::Percent, "2 %"), Some(Value::Percent(20_000)));
        assert_eq!(read(Kind::Percent, "20.5%"), Some(Value::Percent(205_000)));
        assert_eq!(read(Kind::Buffer, "2500 B"), Some(Value::Buffer(2_500)));
        assert_eq!(read(Kind::Buffer, "inf"), Some(Value::Buffer(1_410_000)));
        assert_eq!(read(Kind::TimeOrNone, "none"), Some(Value::Time(None)));
        assert_eq!(read(Kind::Length, "10.05 m"), Some(Value::Length(10_050)));
    }

    #[test]
    fn wrong_or_missing_units_are_refused() {
        for text in [
            "30",
            "30 kbps",
            "30 KBIT/S",
            "kbit/s",
            "-1 bit/s",
            "0.0001 bit/s",
            "1. bit/s",
        ] {
            assert_eq!(read(Kind::Rate, text), None, "{text}");
        }
        for text in ["2", "101 %", "2 percent"] {
            assert_eq!(read(Kind::Percent, text), None, "{text}");
        }
        for text in ["0 packets", "1.5 packets", "50 packet", "9999999 packets"] {
            assert_eq!(read(Kind::Buffer, text), None, "{text}");
        }
        assert_eq!(read(Kind::Bytes(16, 1024), "2048 B"), None);
        assert_eq!(read(Kind::Whole(1, 4), "5"), None);
    }

    #[test]
    fn a_span_is_one_time_or_two() {
        let ms = Duration::from_millis;
        let span = |low, high| Some(Value::Span(Span { low, high }));
        assert_eq!(read(Kind::Span, "15 ms"), span(ms(15), ms(15)));
        assert_eq!(read(Kind::Span, "10-20 ms"), span(ms(10), ms(20)));
        assert_eq!(read(Kind::Span, "10 ms - 1 s"), span(ms(10), ms(1_000)));
        assert_eq!(read(Kind::Span, "0-1 s"), span(ms(0), ms(1_000)));
        assert_eq!(read(Kind::Span, "20-10 ms"), None);
        assert_eq!(read(Kind::Span, "10-20"), None);
    }

    #[test]
    fn canonical_text_reads_back() {
        for (kind, text) in [
            (Kind::Rate, "30 kbit/s"),
            (Kind::Rate, "1234 bit/s"),
            (Kind::Rate, "0 bit/s"),
            (Kind::Span, "10-20 ms"),
            (Kind::Span, "0-1 s"),
            (Kind::Power, "90 mW"),
            (Kind::Power, "15 uW"),
            (Kind::Decibels, "3 dB"),
            (Kind::Decibels, "2.75 dB"),
            (Kind::Distribution, "10-20 ms"),
            (Kind::Distribution, "exponential 2 s"),
            (Kind::Distribution, "lognormal 2 s-6 s"),
            (Kind::Distribution, "quantiles 50 % 2 s, 99.5 % 9 s"),
            (Kind::Percent, "20.5 %"),
            (Kind::Buffer, "inf"),
            (Kind::Buffer, "50 packets"),
            (Kind::Bytes(0, 9_999), "1 kB"),
            (Kind::Number, "1.4"),
            (Kind::TimeOrNone, "1 min"),
            (Kind::Length, "10 m"),
            (Kind::Length, "10050 mm"),
        ] {
            let value = read(kind, text).expect(text);
            assert_eq!(
                read(kind, &value.to_string()),
                Some(value.clone()),
                "{value}"
            );
        }
    }
}
