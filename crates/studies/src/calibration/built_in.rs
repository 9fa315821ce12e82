//! Calibration of the studies: their open settings, baseline facts and kept results.

use super::{Calibration, CalibrationResult, needs_runs};
use crate::StudyError;
use crate::claims::rule::Rule;
use crate::claims::{self, Part};

/// A study that can be calibrated.
#[derive(Clone, Copy, Debug)]
pub struct Calibrated {
    /// Its short name.
    pub study: &'static str,
    /// The parts whose scenarios and findings are taken.
    pub parts: &'static [&'static str],
    open: &'static str,
    baseline: &'static str,
    kept: &'static str,
}

macro_rules! calibrated {
    ($($study:literal: $($part:literal)+;)*) => {
        /// Every study with open settings, in the order of their calibration.
        pub const CALIBRATED: &[Calibrated] = &[$(Calibrated {
            study: $study,
            parts: &[$($part),+],
            open: include_str!(concat!("../../papers/", $study, "/open.toml")),
            baseline: include_str!(concat!("../../papers/", $study, "/baseline.toml")),
            kept: include_str!(concat!("../../results/calibration/", $study, ".json")),
        },)*];
    };
}

calibrated! {
    "cocoaplus": "event" "mixed";
    "nonobserve": "gprs-umts" "iotlab60";
    "retrycount": "clients";
    "rpl": "pint" "static";
    "thesis": "long";
}

impl Calibrated {
    /// The study of this short name.
    pub fn of(study: &str) -> Option<&'static Self> {
        CALIBRATED.iter().find(|one| one.study == study)
    }

    fn of_parts(&self) -> impl Iterator<Item = &'static Part> {
        Part::of(self.study).filter(|part| self.parts.contains(&part.name))
    }

    /// The findings that it judges, in the order of its results.
    pub fn findings(&self) -> Vec<Rule> {
        let rules = self.of_parts().flat_map(claims::rules);
        rules.filter(needs_runs).collect()
    }

    /// Its settings, facts and findings.
    pub fn calibration(&self) -> Result<Calibration, StudyError> {
        let findings = self.findings();
        let mut files: Vec<_> = self.of_parts().flat_map(claims::files).collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files.dedup();
        Calibration::read(self.study, self.open, self.baseline, findings, files)
    }

    /// The result kept with the program; `None` if it is of another format.
    pub fn kept(&self) -> Option<CalibrationResult> {
        CalibrationResult::from_json(self.kept).ok()
    }

    /// The file that its result is kept in.
    pub fn kept_file(&self) -> String {
        format!("{}.json", self.study)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points whose facts are measured again.
    const SAMPLE: usize = 3;

    #[test]
    fn nightly_stored_calibrations_are_up_to_date() {
        for study in CALIBRATED {
            let calibration = study.calibration().expect("its files read");
            let kept = study.kept().expect("a result");
            let run = format!(
                "Run: cargo run --release -- {}",
                kept.command.trim_start_matches("carob ")
            );
            assert!(
                !kept.is_stale(&calibration),
                "{}: other inputs\n{run}",
                study.study
            );
            let drifted = calibration.drifted(&kept, SAMPLE).expect("it runs");
            assert!(drifted.is_empty(), "{}: {drifted:?}\n{run}", study.study);
        }
    }
}
