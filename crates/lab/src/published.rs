//! Studies of the built-in scenarios, and their published values for tables and reports of runs.

use serde::Deserialize;

use crate::statistics::Statistic;

/// A study, as in its `study.toml`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Its short name in scenarios, tables and the command line.
    pub short_name: String,
    /// Authors in printed order.
    #[serde(default)]
    pub authors: Vec<String>,
    /// Year of publication; 0 if it has none.
    #[serde(default)]
    pub year: u16,
    /// Title.
    #[serde(default)]
    pub title: String,
    /// Journal, conference or university.
    #[serde(default)]
    pub venue: String,
    /// True if the title was found in a published record.
    #[serde(default)]
    pub title_verified: bool,
}

impl Study {
    /// Reads a `study.toml`; an error names the problem and its line.
    pub fn read(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// `Betzler et al. 2015`, as text refers to it; the short name of what names no author.
    pub fn citation(&self) -> String {
        let family = |name: &str| name.rsplit(' ').next().unwrap_or(name).to_owned();
        let authors = match &self.authors[..] {
            [] => self.short_name.clone(),
            [one] => family(one),
            [one, two] => format!("{} and {}", family(one), family(two)),
            [first, ..] => format!("{} et al.", family(first)),
        };
        match self.year {
            0 => authors,
            year => format!("{authors} {year}"),
        }
    }
}

/// The `study.toml` of each study with built-in scenarios.
const STUDIES: [&str; 5] = [
    include_str!("../papers/cocoaplus/study.toml"),
    include_str!("../papers/thesis/study.toml"),
    include_str!("../papers/nonobserve/study.toml"),
    include_str!("../papers/retrycount/study.toml"),
    include_str!("../papers/rpl/study.toml"),
];

/// The studies with built-in scenarios.
pub fn studies() -> impl Iterator<Item = Study> {
    let read = |text: &&str| Study::read(text).expect("a test reads every built-in study");
    STUDIES.iter().map(read)
}

/// The study of that short name, if it has built-in scenarios.
pub fn study(short_name: &str) -> Option<Study> {
    studies().find(|study| study.short_name == short_name)
}

/// A row of a study's table: the result of one algorithm in one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// Short name of the study.
    pub study: String,
    /// The table, by its published number.
    pub table: u32,
    /// Name of the cell within the study, such as `long-1c-none-2500`.
    pub cell: String,
    /// The cell's sweep keys, as (key, value).
    pub row: Vec<(String, String)>,
    /// The algorithm's registry id.
    pub algorithm: String,
    /// The metric, such as `fct_s`.
    pub metric: String,
    /// Printed values by statistic.
    pub values: Vec<(Statistic, f64)>,
}

impl Expected {
    /// A printed value.
    pub fn value(&self, statistic: Statistic) -> Option<f64> {
        self.values
            .iter()
            .find(|(s, _)| *s == statistic)
            .map(|(_, value)| *value)
    }
}

/// The studies' published rows, for look-up by a measured one.
#[derive(Clone, Debug, Default)]
pub struct Print {
    rows: Vec<Expected>,
}

impl Print {
    /// Published rows.
    pub fn new(rows: Vec<Expected>) -> Self {
        Self { rows }
    }

    /// The published row of `<study>/<cell>` and an algorithm.
    pub fn find(&self, cell: &str, algorithm: &str) -> Option<&Expected> {
        let (study, cell) = cell.split_once('/')?;
        self.rows
            .iter()
            .find(|row| row.study == study && row.cell == cell && row.algorithm == algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::builtin;

    #[test]
    fn studies_of_built_in_scenarios_have_citations() {
        let citations: Vec<String> = studies().map(|study| study.citation()).collect();
        assert_eq!(
            citations,
            [
                "Betzler et al. 2015",
                "Pesola 2020",
                "Betzler et al. 2016",
                "Lee et al. 2016",
                "Vallati et al. 2020"
            ]
        );
        for scenario in builtin::ALL {
            let (name, _) = scenario.name.split_once('/').expect("STUDY/FAMILY");
            let is_ours = ["carob", "stress"].contains(&name);
            assert_eq!(study(name).is_none(), is_ours, "{name}");
        }
    }
}
