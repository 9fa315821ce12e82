//! The time of day, as people and programs read it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment in UTC, written as RFC 3339 has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Utc(Duration);

impl Utc {
    pub(crate) fn now() -> Self {
        SystemTime::now().into()
    }

    /// `2026-11-21T21:04:51.123Z`.
    pub(crate) fn with_millis(self) -> String {
        let (date, time) = self.parts();
        format!("{date}T{time}.{:03}Z", self.0.subsec_millis())
    }

    /// `21:04:51.123Z`.
    pub(crate) fn time_of_day(self) -> String {
        format!("{}.{:03}Z", self.parts().1, self.0.subsec_millis())
    }

    fn parts(self) -> (String, String) {
        let seconds = self.0.as_secs();
        let (year, month, day) = civil(seconds / 86_400);
        let (hour, minute) = (seconds / 3_600 % 24, seconds / 60 % 60);
        (
            format!("{year:04}-{month:02}-{day:02}"),
            format!("{hour:02}:{minute:02}:{:02}", seconds % 60),
        )
    }
}

impl From<SystemTime> for Utc {
    /// A clock set before 1970 counts as 1970.
    fn from(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl fmt::Display for Utc {
    /// `2026-11-21T21:04:51Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (date, time) = self.parts();
        write!(f, "{date}T{time}Z")
    }
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar.
///
/// Years are counted from March, so that a leap day is a year's last, and in eras of 400 years,
/// which all have 146097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on have 153 days in every five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Utc {
        Utc(Duration::from_secs(seconds))
    }

    #[test]
    fn moments_are_written_as_rfc_3339_has_them() {
        // Seconds as `date -u -d ... +%s` gives them.
        assert_eq!(at(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399).to_string(), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_868_799).to_string(), "2000-02-29T23:59:59Z");
        assert_eq!(at(951_868_800).to_string(), "2000-03-01T00:00:00Z");
        assert_eq!(at(1_767_225_599).to_string(), "2025-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400).to_string(), "2100-03-01T00:00:00Z");
        let late = Utc(Duration::from_millis(1_764_000_000_007));
        assert_eq!(late.with_millis(), "2025-11-24T16:00:00.007Z");
        assert_eq!(late.time_of_day(), "16:00:00.007Z");
    }
}
