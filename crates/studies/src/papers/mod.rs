//! The five studies as data: authors, tables and claims.
//!
//! Everything is compiled in, so the program needs no checkout. Columns are described in
//! `papers/README.md`.

mod fct;
mod networks;

pub use carob_lab::published::{studies, study};
pub use fct::{expected, published, thesis_fct};
pub use networks::{PublishedMean, cocoaplus_means};

use carob_lab::csv::Table;

macro_rules! files {
    ($($study:literal: $($file:literal)*;)*) => {
        /// Every CSV file as (study, file, text).
        const FILES: &[(&str, &str, &str)] = &[$($((
            $study,
            $file,
            include_str!(concat!("../../papers/", $study, "/", $file)),
        ),)*)*];
    };
}

files! {
    "cocoaplus": "claims.csv" "contradictions.csv" "figures3_4_backoff_examples.csv" "refuted.csv"
        "simulation_parameters.csv" "table1_motes.csv" "table2_settling_time.csv" "table3_pdr.csv"
        "unpublished.csv";
    "thesis": "claims.csv" "contradictions.csv" "parameters.csv" "table04_link.csv"
        "table05_error_profiles.csv" "table06_fct.csv" "table07_fct.csv" "table08_fct.csv"
        "table09_fct.csv" "table10_fct.csv" "table11_fct.csv" "tables01_03_coap_headers.csv" "halves.csv"
        "unpublished.csv";
    "nonobserve": "claims.csv" "contradictions.csv" "gprs_umts_configurations.csv"
        "iotlab_configurations.csv" "links.csv" "parameters.csv" "refuted.csv" "unpublished.csv";
    "retrycount": "claims.csv" "contradictions.csv" "parameters.csv";
    "rpl": "claims.csv" "contradictions.csv" "measured_facts.csv" "measured_load.csv"
        "pint_links.csv" "refuted.csv" "run_parameters.csv"
        "table1_offered_load.csv" "table1_parameters.csv" "testbeds.csv" "unpublished.csv"
        "wilab_links.csv";
}

/// A CSV file of a study, such as (`thesis`, `table04_link.csv`).
pub fn table(study: &str, file: &str) -> Option<Table> {
    let (.., text) = FILES.iter().find(|(s, f, _)| *s == study && *f == file)?;
    Some(Table::read(text).expect("a test reads every built-in table"))
}

/// Names of a study's CSV files.
pub fn tables(study: &str) -> impl Iterator<Item = &'static str> {
    FILES
        .iter()
        .filter(move |(s, ..)| *s == study)
        .map(|(_, file, _)| *file)
}

/// A finding of a study, as in its `claims.csv`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// The claims of a study, in the order of its text; columns that `claims.csv` lacks are empty.
pub fn claims(study: &str) -> Vec<Claim> {
    let Some(table) = table(study, "claims.csv") else {
        return Vec::new();
    };
    let one = |row: usize| {
        let text = |column: &str| table.cell(row, column).unwrap_or_default().to_owned();
        Claim {
            study: study.to_owned(),
            id: text("id"),
            section: text("section"),
            scenario: text("scenario"),
            metric: text("metric"),
            claim: text("claim"),
            kind: text("kind"),
            numbers: text("numbers"),
            how_to_check: text("how_to_check"),
            weight: text("weight"),
            caveat: text("caveat"),
        }
    };
    (0..table.len()).map(one).collect()
}

/// A claim that the study's own data refutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refutation {
    /// The claim's id.
    pub id: String,
    /// The data, as files of the study or its published raw data.
    pub source: String,
    /// The values that refute it.
    pub reason: String,
}

/// The claims of a study that its own data refutes (`refuted.csv`).
pub fn refutations(study: &str) -> Vec<Refutation> {
    let rows = rows(study, "refuted.csv", ["id", "source", "reason"]);
    let one = |[id, source, reason]: [String; 3]| Refutation { id, source, reason };
    rows.into_iter().map(one).collect()
}

/// A claim that depends on something the study does not publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpublished {
    /// The claim's id.
    pub id: String,
    /// The facts that are missing.
    pub missing: String,
    /// The reason why the claim cannot be decided without them.
    pub reason: String,
}

/// The claims of a study that cannot be decided without facts that it does not publish
/// (`unpublished.csv`).
pub fn unpublished(study: &str) -> Vec<Unpublished> {
    let rows = rows(study, "unpublished.csv", ["id", "missing", "reason"]);
    let one = |[id, missing, reason]: [String; 3]| Unpublished {
        id,
        missing,
        reason,
    };
    rows.into_iter().map(one).collect()
}

/// Three columns of a study's file; no rows if it has no such file.
fn rows(study: &str, file: &str, columns: [&str; 3]) -> Vec<[String; 3]> {
    let Some(table) = table(study, file) else {
        return Vec::new();
    };
    let cell = |row: usize, column: &str| table.cell(row, column).unwrap_or_default().to_owned();
    (0..table.len())
        .map(|row| columns.map(|column| cell(row, column)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_studies_is_built_in_and_reads() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("papers");
        let mut on_disk = BTreeSet::new();
        for study in std::fs::read_dir(root).expect("papers/") {
            let study = study.expect("an entry");
            for file in std::fs::read_dir(study.path()).into_iter().flatten() {
                let file = file
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("a plain name");
                if Path::new(&file).extension().is_some_and(|e| e == "csv") {
                    on_disk.insert((study.file_name().into_string().expect("a plain name"), file));
                }
            }
        }
        let built_in: BTreeSet<_> = FILES
            .iter()
            .map(|(s, f, _)| ((*s).to_owned(), (*f).to_owned()))
            .collect();
        assert_eq!(on_disk, built_in);
        for (study, file, _) in FILES {
            assert!(
                table(study, file).is_some_and(|t| !t.is_empty()),
                "{study}/{file}"
            );
        }
    }

    #[test]
    fn claims_have_known_kinds_and_weights_and_unique_ids() {
        let mut ids = BTreeSet::new();
        for study in studies() {
            for claim in claims(&study.short_name) {
                assert!(claim.id.starts_with(&study.short_name), "{}", claim.id);
                let kinds = ["value", "ordering", "ratio", "range", "behaviour"];
                assert!(
                    kinds.contains(&claim.kind.as_str()),
                    "{}: {}",
                    claim.id,
                    claim.kind
                );
                let weights = ["headline", "main", "detail"];
                assert!(
                    weights.contains(&claim.weight.as_str()),
                    "{}: {}",
                    claim.id,
                    claim.weight
                );
                assert!(ids.insert(claim.id));
            }
        }
        assert_eq!(ids.len(), 285);
        assert!(claims("nobody").is_empty());
    }
}
