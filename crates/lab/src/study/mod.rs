//! Studies: their publication, and the findings of their text.

mod folder;

use serde::Deserialize;

use crate::csv::Table;

pub use folder::{FolderError, StudyFolder, StudyVerdicts};

/// A study, as in its `study.toml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
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

    /// A study without a publication.
    pub fn unpublished(short_name: &str) -> Self {
        Self {
            short_name: short_name.to_owned(),
            authors: Vec::new(),
            year: 0,
            title: String::new(),
            venue: String::new(),
            title_verified: false,
        }
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

/// A finding of a study, as in its `claims.csv`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Claim {
    pub study: String,
    pub id: String,
    pub section: String,
    /// A scenario or a pattern of them (`papers/README.md`).
    pub scenario: String,
    pub metric: String,
    /// The finding in a sentence.
    pub claim: String,
    /// value, ordering, ratio, range or behaviour.
    pub kind: String,
    pub numbers: String,
    pub how_to_check: String,
    /// headline, main or detail.
    pub weight: String,
    /// Doubt, or conflict with a table or other text.
    pub caveat: String,
}

impl Claim {
    /// The claims of a `claims.csv`, in its order; columns that it lacks are empty.
    pub fn all(study: &str, table: &Table) -> Vec<Self> {
        let text =
            |row: usize, column: &str| table.cell(row, column).unwrap_or_default().to_owned();
        let one = |row: usize| Self {
            study: study.to_owned(),
            id: text(row, "id"),
            section: text(row, "section"),
            scenario: text(row, "scenario"),
            metric: text(row, "metric"),
            claim: text(row, "claim"),
            kind: text(row, "kind"),
            numbers: text(row, "numbers"),
            how_to_check: text(row, "how_to_check"),
            weight: text(row, "weight"),
            caveat: text(row, "caveat"),
        };
        (0..table.len()).map(one).collect()
    }
}
