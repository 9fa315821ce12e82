//! Interpretations of what a study leaves open, and the results of its claims under each: a table.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};

use crate::{carob, workspace::Workspace};

/// A reading in words, and what `--set` makes of it.
pub(crate) type Reading = (&'static str, &'static [&'static str]);

/// A claim with a printed number: its id, the check, and the text's number.
pub(crate) type Number = (&'static str, usize, &'static str);

/// One row per reading: how many claims come out how, and the numbers that the text prints.
pub(crate) struct Sweep {
    pub(crate) title: &'static str,
    /// The text above the table, up to the point where each row adds its settings.
    pub(crate) about: &'static str,
    pub(crate) study: &'static str,
    pub(crate) part: &'static str,
    /// Seeds per cell and algorithm.
    pub(crate) seeds: &'static str,
    /// The first row is the scenario's own.
    pub(crate) readings: &'static [Reading],
    /// Claims whose verdict has a column of its own.
    pub(crate) claims: &'static [&'static str],
    pub(crate) numbers: &'static [Number],
}

const VERDICTS: [&str; 4] = ["holds", "holds-partly", "fails", "undecided"];

impl Sweep {
    /// Makes the table.
    pub(crate) fn run(&self, workspace: &Workspace, results: &Path) -> Result<bool> {
        carob::build(workspace)?;
        let mut text = self.head();
        for (reading, settings) in self.readings {
            println!("{reading}");
            text.push_str(&self.row(workspace, reading, settings)?);
        }
        fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
        Ok(true)
    }

    /// The text above the rows.
    fn head(&self) -> String {
        let mut text = format!(
            "# {}\n\n{} each row adds its settings to\n`carob lab claims {} --part {} --seeds {}`.\n\n\
             | reading | settings |",
            self.title, self.about, self.study, self.part, self.seeds
        );
        // Writing to a String cannot fail.
        for verdict in VERDICTS {
            let _ = write!(text, " {verdict} |");
        }
        for (id, _, printed) in self.numbers {
            let _ = write!(text, " {}: {printed} |", self.number(id));
        }
        for id in self.claims {
            let _ = write!(text, " {} |", self.number(id));
        }
        text.push_str("\n| --- | --- |");
        text.push_str(&" ---: |".repeat(VERDICTS.len() + self.numbers.len()));
        text.push_str(&" --- |".repeat(self.claims.len()));
        text.push('\n');
        text
    }

    /// A claim's id without its study.
    fn number(&self, id: &'static str) -> &'static str {
        id.trim_start_matches(self.study).trim_start_matches('-')
    }

    fn row(&self, workspace: &Workspace, reading: &str, settings: &[&str]) -> Result<String> {
        let arguments = [
            "claims", self.study, "--part", self.part, "--seeds", self.seeds,
        ];
        let claims = carob::lab(workspace, &arguments, settings)?;
        let find = |id: &str| {
            let claim = claims.iter().find(|claim| claim["id"] == id);
            claim.with_context(|| format!("no claim {id}"))
        };
        let written: Vec<String> = settings.iter().map(|set| format!("`{set}`")).collect();
        let mut text = format!("| {reading} | {} |", written.join(", "));
        for verdict in VERDICTS {
            let count = claims.iter().filter(|claim| claim["verdict"] == verdict);
            let _ = write!(text, " {} |", count.count());
        }
        for (id, check, _) in self.numbers {
            let value = find(id)?["checks"][check]["measured"]["value"].as_f64();
            let value = value.map_or_else(|| "not run".to_owned(), |value| format!("{value:.2}"));
            let _ = write!(text, " {value} |");
        }
        for id in self.claims {
            let verdict = find(id)?["verdict"].as_str().unwrap_or_default();
            let _ = write!(text, " {} |", verdict.trim_start_matches("holds-"));
        }
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{crowds, notifications, slow_server};

    #[test]
    fn results_have_the_columns_and_rows_that_a_sweep_has_today() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lab/results");
        for (sweep, file) in [
            (&crowds::CROWDS, "crowd-sensitivity.md"),
            (&notifications::NOTIFICATIONS, "notification-sensitivity.md"),
            (&slow_server::SLOW_SERVER, "server-sensitivity.md"),
        ] {
            let kept = fs::read_to_string(root.join(file)).expect("the results");
            let rows = kept.strip_prefix(&sweep.head()).expect("the same columns");
            let rows: Vec<&str> = rows.lines().collect();
            assert_eq!(rows.len(), sweep.readings.len(), "{file}");
            for (row, (reading, settings)) in rows.iter().zip(sweep.readings) {
                assert!(row.starts_with(&format!("| {reading} |")), "{row}");
                assert!(settings.iter().all(|set| row.contains(set)), "{row}");
            }
        }
    }
}
