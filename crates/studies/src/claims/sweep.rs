//! Sweeps over the claims of a part: rows of settings, and the verdicts on the claims under each.
//!
//! ```toml
//! title = "Crowds"
//! about = "Verdicts on the claims about crowds;"
//! study = "thesis"
//! part = "short"
//! seeds = 5
//! claims = ["thesis-055"]           # claims whose verdict has a column
//!
//! [[number]]                        # checks whose measured value has a column
//! claim = "thesis-055"
//! check = 0
//! name = "1.05"
//!
//! [[row]]
//! label = "payloads of 60 bytes"
//! set = ["size_of=payload"]
//! ```

use std::fmt::Write as _;

use carob_lab::quantity::Making;
use carob_lab::run::RunSetupError;
use carob_lab::scenario::Scenario;
use carob_lab::sweep::SweepError;
use serde::Deserialize;

use super::{Judged, Part, StoredVerdicts, Verdict, files, needed, rules};

/// Verdicts in the order of their columns.
const VERDICTS: [Verdict; 4] = [
    Verdict::Holds,
    Verdict::HoldsPartly,
    Verdict::Fails,
    Verdict::Undecided,
];

/// A sweep over the claims of a part.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimSweep {
    /// Title of the table.
    pub title: String,
    /// The text above it, up to the command that rows add their settings to.
    pub about: String,
    /// The study's short name.
    pub study: String,
    /// The part's name.
    pub part: String,
    /// Seeds per cell and algorithm.
    pub seeds: u64,
    /// Claims whose verdict has a column.
    #[serde(default)]
    pub claims: Vec<String>,
    /// Checks whose measured value has a column.
    #[serde(default)]
    pub number: Vec<Number>,
    /// The rows.
    #[serde(default)]
    pub row: Vec<Row>,
}

/// A check whose measured value has a column.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// Id of the claim.
    pub claim: String,
    /// Place of the check in the claim's rule, from 0.
    pub check: usize,
    /// Name of the column, such as the published value.
    pub name: String,
}

/// A row: settings under which the claims are judged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The row in words.
    pub label: String,
    /// Arguments of `--set`.
    #[serde(default)]
    pub set: Vec<String>,
}

fn wrong(what: String, remedy: &str) -> SweepError {
    SweepError {
        line: None,
        what,
        remedy: remedy.to_owned(),
    }
}

impl ClaimSweep {
    /// Reads a file, and checks its part, claims and settings.
    pub fn read(text: &str) -> Result<Self, SweepError> {
        let sweep: Self = toml::from_str(text).map_err(|error| SweepError {
            line: error.span().map(|span| {
                let before = &text[..span.start.min(text.len())];
                before.matches('\n').count() + 1
            }),
            what: error.message().to_owned(),
            remedy: "the keys are title, about, study, part, seeds, claims, [[number]] with claim, check and \
                     name, and [[row]] with label and set"
                .to_owned(),
        })?;
        sweep.check()?;
        Ok(sweep)
    }

    fn check(&self) -> Result<(), SweepError> {
        if self.seeds == 0 {
            return Err(wrong("no seeds".to_owned(), "write seeds = 5 or more"));
        }
        if self.row.is_empty() {
            return Err(wrong("no row".to_owned(), "add [[row]] with label and set"));
        }
        let Some(part) = self.of() else {
            let what = format!("no part \"{}\" of study \"{}\"", self.part, self.study);
            return Err(wrong(
                what,
                "`carob-studies claims` names studies and parts",
            ));
        };
        let rules = rules(part);
        let numbers = self.number.iter().map(|number| &number.claim);
        for id in self.claims.iter().chain(numbers) {
            if rules.iter().all(|rule| rule.id != *id) {
                let what = format!("no claim \"{id}\" in part \"{}\"", self.part);
                let remedy = "`carob-studies claims STUDY --part PART --json` has the ids";
                return Err(wrong(what, remedy));
            }
        }
        for row in &self.row {
            for file in files(part) {
                let read = Scenario::read(&file.name, &file.text, &row.set);
                read.map_err(|errors| {
                    let what = format!("\"{}\": {errors}", row.label);
                    let remedy =
                        "`carob lab keys` lists every key; units are written, as in '400 ms'";
                    wrong(what, remedy)
                })?;
            }
        }
        Ok(())
    }

    /// The part.
    fn of(&self) -> Option<&'static Part> {
        Part::of(&self.study).find(|part| part.name == self.part)
    }

    /// Number of runs of a row.
    pub fn runs(&self) -> usize {
        let rules = self.of().map(rules).unwrap_or_default();
        let seeds = usize::try_from(self.seeds).unwrap_or(usize::MAX);
        needed(&rules).len().saturating_mul(seeds)
    }

    /// Makes the runs of a row and judges the claims.
    pub fn verdicts(
        &self,
        row: &Row,
        making: Making<'_>,
        progress: impl Fn() + Sync,
    ) -> Result<StoredVerdicts, RunSetupError> {
        let part = self.of().expect("it was checked");
        let making = Making {
            seeds: self.seeds,
            set: &row.set,
            ..making
        };
        StoredVerdicts::compute(part, making, |_, _| progress())
    }

    /// A claim's id without its study.
    fn short<'a>(&self, id: &'a str) -> &'a str {
        id.trim_start_matches(&*self.study).trim_start_matches('-')
    }

    /// The document above the rows.
    pub fn head(&self) -> String {
        let mut text = format!(
            "# {}\n\n{} each row adds its settings to\n`carob-studies claims {} --part {} --seeds {}`.\n\n\
             | variant | settings |",
            self.title, self.about, self.study, self.part, self.seeds
        );
        // A String takes every write.
        for verdict in VERDICTS {
            let _ = write!(text, " {} |", verdict.name());
        }
        for number in &self.number {
            let _ = write!(text, " {}: {} |", self.short(&number.claim), number.name);
        }
        for id in &self.claims {
            let _ = write!(text, " {} |", self.short(id));
        }
        text.push_str("\n| --- | --- |");
        text.push_str(&" ---: |".repeat(VERDICTS.len() + self.number.len()));
        text.push_str(&" --- |".repeat(self.claims.len()));
        text.push('\n');
        text
    }

    /// Label and settings of a row of the table.
    fn begin(row: &Row) -> String {
        let set: Vec<String> = row.set.iter().map(|set| format!("`{set}`")).collect();
        format!("| {} | {} |", row.label, set.join(", "))
    }

    /// A row of the table, with its line end.
    pub fn line(&self, row: &Row, verdicts: &[Judged]) -> String {
        let find = |id: &str| verdicts.iter().find(|judged| judged.id == id);
        let mut text = Self::begin(row);
        // A String takes every write.
        for verdict in VERDICTS {
            let count = verdicts
                .iter()
                .filter(|judged| judged.text.verdict == verdict);
            let _ = write!(text, " {} |", count.count());
        }
        for number in &self.number {
            let check = find(&number.claim).and_then(|judged| judged.text.checks.get(number.check));
            let measured = check.and_then(|check| check.measured.as_ref());
            let value = measured.map(|interval| format!("{:.2}", interval.value));
            let _ = write!(text, " {} |", value.as_deref().unwrap_or("not run"));
        }
        for id in &self.claims {
            let verdict = find(id).map_or("", |judged| judged.text.verdict.name());
            let _ = write!(text, " {} |", verdict.trim_start_matches("holds-"));
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const SMALL: &str = "title = \"T\"\nabout = \"A;\"\nstudy = \"thesis\"\npart = \"short\"\nseeds = 2\n\
        claims = [\"thesis-055\"]\n[[number]]\nclaim = \"thesis-056\"\ncheck = 0\nname = \"1.11\"\n\
        [[row]]\nlabel = \"as is\"\n";

    #[test]
    fn kept_results_have_the_columns_and_rows_of_their_sweep() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/results");
        for name in [
            "crowd-sensitivity",
            "literature-sensitivity",
            "notification-sensitivity",
            "server-sensitivity",
        ] {
            let read = |end: &str| {
                let file = root.join(format!("{name}.{end}"));
                std::fs::read_to_string(file).expect("a file of the results")
            };
            let sweep = ClaimSweep::read(&read("toml")).expect(name);
            let kept = read("md");
            let rows = kept.strip_prefix(&sweep.head()).expect("the same columns");
            let rows: Vec<&str> = rows.lines().collect();
            assert_eq!(rows.len(), sweep.row.len(), "{name}");
            for (kept, row) in rows.iter().zip(&sweep.row) {
                assert!(kept.starts_with(&ClaimSweep::begin(row)), "{kept}");
                assert_eq!(
                    kept.matches('|').count(),
                    sweep.line(row, &[]).matches('|').count()
                );
            }
        }
    }

    #[test]
    fn errors_name_the_cause_and_the_remedy() {
        ClaimSweep::read(SMALL).expect("it reads");
        for (from, to, what, remedy) in [
            ("seeds = 2", "seeds = 0", "no seeds", "seeds = 5"),
            (
                "\"short\"",
                "\"shorts\"",
                "no part \"shorts\"",
                "carob-studies claims",
            ),
            ("thesis-056", "thesis-000", "no claim \"thesis-000\"", "ids"),
            ("label", "lable", "unknown field", "[[row]]"),
            (
                "as is\"",
                "as is\"\nset = [\"no_key=1\"]",
                "no_key",
                "carob lab keys",
            ),
        ] {
            let error = ClaimSweep::read(&SMALL.replace(from, to)).expect_err(to);
            assert!(error.what.contains(what), "{error:?}");
            assert!(error.remedy.contains(remedy), "{error:?}");
        }
    }
}
