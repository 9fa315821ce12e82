//! Reports of kernel settings, of the machine's capabilities and of the lateness of packets.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// A setting: requested and actual value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name: a file below `/proc/sys`, or a description.
    pub name: String,
    /// The requested value.
    pub wanted: String,
    /// The actual value.
    pub got: String,
    /// The reason for a difference, or its effect; may be empty.
    pub note: String,
}

impl Setting {
    /// Returns whether the actual value is the requested one.
    pub fn holds(&self) -> bool {
        self.wanted == self.got
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.holds() {
            return write!(f, "{} = {}", self.name, self.got);
        }
        write!(f, "{} = {}, wanted {}", self.name, self.got, self.wanted)?;
        if self.note.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.note)
        }
    }
}

/// The machine's suitability for link emulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The checked items.
    pub items: Vec<Item>,
}

/// One feature that the emulator uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Description.
    pub what: &'static str,
    /// True if emulation is impossible without it.
    pub required: bool,
    /// The reason for its absence and a remedy; `None` if it is present.
    pub missing: Option<String>,
}

impl Report {
    /// Returns whether all required items are present.
    pub fn can_run(&self) -> bool {
        self.items
            .iter()
            .all(|item| !item.required || item.missing.is_none())
    }

    /// The missing items.
    pub fn missing(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.missing.is_some())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}", item.what)?;
            match (&item.missing, item.required) {
                (None, _) => f.write_str(": yes")?,
                (Some(why), true) => write!(f, ": NO: {why}")?,
                (Some(why), false) => write!(f, ": no, it can do without: {why}")?,
            }
        }
        Ok(())
    }
}

/// Limit of the 99th percentile of lateness; a run above it is refused.
///
/// It is 1/40 of the transmission time of a full segment on the thesis's downlink (79 ms).
pub const LATENESS_P99_MAX: Duration = Duration::from_millis(2);

/// The longest distinguished lateness: 60 s.
const LONGEST_NS: u64 = 60_000_000_000;

/// Delays from the link model's delivery times to the actual deliveries to the kernel.
#[derive(Clone, Debug)]
pub struct Lateness {
    nanoseconds: Histogram<u64>,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            nanoseconds: Histogram::new_with_bounds(1, LONGEST_NS, 2)
                .expect("bounds and digits are constants that fit"),
        }
    }
}

impl Lateness {
    /// Records one packet.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn note(&mut self, nanoseconds: u64) {
        self.nanoseconds.saturating_record(nanoseconds.max(1));
    }

    /// Packets delivered.
    pub fn packets(&self) -> u64 {
        self.nanoseconds.len()
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.mean() as u64)
    }

    /// The quantile of a fraction of packets, such as 0.99, to two digits.
    pub fn quantile(&self, fraction: f64) -> Duration {
        Duration::from_nanos(self.nanoseconds.value_at_quantile(fraction))
    }

    /// The latest packet.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.max())
    }

    /// The fraction of packets later than `limit`, from 0 to 1.
    pub fn beyond(&self, limit: Duration) -> f64 {
        let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let within = self.nanoseconds.quantile_below(nanoseconds);
        (1.0 - within).max(0.0)
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{} packets late by {:.3} ms in the mean, p50 {:.3}, p99 {:.3}, p99.9 {:.3}, at most \
             {:.3} ms; {:.4} % by more than 2 ms",
            self.packets(),
            ms(self.mean()),
            ms(self.quantile(0.5)),
            ms(self.quantile(0.99)),
            ms(self.quantile(0.999)),
            ms(self.max()),
            self.beyond(LATENESS_P99_MAX) * 100.0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_required_checks_are_fatal() {
        let item = |required, missing: Option<&str>| Item {
            what: "it",
            required,
            missing: missing.map(str::to_owned),
        };
        let report = |items: &[Item]| Report {
            items: items.to_vec(),
        };
        assert!(report(&[item(true, None), item(false, Some("old"))]).can_run());
        assert!(!report(&[item(true, Some("forbidden")), item(false, None)]).can_run());
    }

    #[test]
    fn changed_setting_has_a_reason() {
        let setting = Setting {
            name: "delayed ACK".into(),
            wanted: "200 ms".into(),
            got: "40 to 200 ms".into(),
            note: "fixed in the kernel".into(),
        };
        assert_eq!(
            setting.to_string(),
            "delayed ACK = 40 to 200 ms, wanted 200 ms (fixed in the kernel)"
        );
    }

    #[test]
    fn percentiles_match_recorded_values() {
        let mut lateness = Lateness::default();
        (1..=1_000).for_each(|k| lateness.note(k * 10_000));
        assert_eq!(lateness.packets(), 1_000);
        let near = |time: Duration, ms: f64| {
            let found = time.as_secs_f64() * 1e3;
            assert!((found / ms - 1.0).abs() < 0.02, "{found} is not {ms}");
        };
        near(lateness.mean(), 5.005);
        near(lateness.quantile(0.5), 5.0);
        near(lateness.quantile(0.99), 9.9);
        near(lateness.max(), 10.0);
        assert!((lateness.beyond(LATENESS_P99_MAX) - 0.8).abs() < 0.01);
    }

    #[test]
    fn no_packets_are_not_late() {
        let lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.99), Duration::ZERO);
        assert!(lateness.beyond(Duration::ZERO) < 1e-9);
    }
}
