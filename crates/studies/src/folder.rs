//! A study outside the repository: a folder with scenarios, expected values and rules.
//!
//! ```text
//! study.toml           optional: short_name, and fields of a publication
//! scenarios/*.toml     the scenarios of values and rules
//! expected.csv         cell,algorithm,metric,statistic,value
//! tolerances.toml      how far a measured value may be off, such as `p50 = "5 %"` in [default]
//! rules/*.toml         claims with their rules, as in `papers/<study>/rules/`
//! ```
//!
//! Expected values come with tolerances; either they or rules may be left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use carob_lab::csv::Table;
use carob_lab::files;
use carob_lab::metrics::Metric;
use carob_lab::published::{Expected, Study};
use carob_lab::quantity::{Making, Reference, ScenarioFile, Source, measure};
use carob_lab::run::RunSetupError;
use carob_lab::scenario::{Scenario, is_known};
use carob_lab::statistics::{Statistic, Statistics};
use carob_sim::registry::Registry;

use crate::StudyError;
use crate::claims::rule::{self, Rule};
use crate::claims::{self, Judged, judge};
use crate::comparison::{Comparison, Measured, Tolerances, compare};

/// The largest file of a study, in bytes.
const FILE_BYTES_MAX: usize = 16 << 20;

/// The columns of `expected.csv`.
const COLUMNS: [&str; 5] = ["cell", "algorithm", "metric", "statistic", "value"];

/// The way to correct a file that cannot be read.
const LAYOUT: &str = "a study has study.toml, scenarios/*.toml, and expected.csv with tolerances.toml or rules/*.toml";

/// A study read from its folder.
#[derive(Clone, Debug)]
pub struct StudyFolder {
    study: Study,
    files: Vec<ScenarioFile>,
    expected: Vec<Expected>,
    tolerances: Tolerances,
    rules: Vec<Rule>,
    causes: BTreeMap<String, String>,
    seeds: u64,
}

/// The verdicts on a study.
#[derive(Clone, Debug)]
pub struct StudyVerdicts {
    /// Seeds per cell and algorithm.
    pub seeds: u64,
    /// Expected values and measured ones.
    pub comparisons: Vec<Comparison>,
    /// Claims, in the order of the rules.
    pub claims: Vec<Judged>,
}

impl StudyFolder {
    /// Reads a folder and checks that its files fit together. Rules may use the registry's
    /// controllers.
    pub fn open(folder: &Path, registry: Registry) -> Result<Self, StudyError> {
        let path = folder.join("study.toml");
        let study = if path.exists() {
            Study::read(&text(&path)?).map_err(|what| {
                let keys = "write short_name, and if published authors, year, title and venue";
                StudyError::new(&path, what.trim_end(), keys)
            })?
        } else {
            let name = folder.file_name().unwrap_or(folder.as_os_str());
            Study {
                short_name: name.to_string_lossy().into_owned(),
                ..Study::default()
            }
        };
        let (files, scenarios) = scenarios(folder, registry)?;
        let (rules, causes) = rules(folder)?;
        let expected = expected(folder, &study)?;
        let tolerances = tolerances(folder, &expected)?;
        if expected.is_empty() && rules.is_empty() {
            let remedy = "add expected.csv with tolerances.toml, or rules/NAME.toml";
            return Err(StudyError::new(folder, "nothing to judge", remedy));
        }
        let seeds = scenarios.iter().map(Scenario::seeds).max().unwrap_or(1);
        let read = Self {
            study,
            files,
            expected,
            tolerances,
            rules,
            causes,
            seeds,
        };
        for of in read.needed() {
            if !scenarios.iter().any(|one| one.cell(&of.cell).is_some()) {
                let what = format!("no scenario has the cell \"{}\"", of.cell);
                let cells = scenarios.iter().flat_map(Scenario::cells);
                let cells: Vec<&str> = cells.take(12).map(|cell| &*cell.name).collect();
                let remedy = format!("the cells are {}", cells.join(", "));
                return Err(StudyError::new(folder, what, remedy));
            }
            if !is_known(&of.algorithm, registry) {
                let what = format!("no algorithm is called \"{}\"", of.algorithm);
                let remedy = "`carob cc list` names all";
                return Err(StudyError::new(folder, what, remedy));
            }
        }
        Ok(read)
    }

    /// The publication.
    pub fn study(&self) -> &Study {
        &self.study
    }

    /// The scenario files.
    pub fn files(&self) -> &[ScenarioFile] {
        &self.files
    }

    /// The rules, file by file.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The reason why a claim fails, if its rule names one.
    pub fn cause(&self, id: &str) -> Option<&str> {
        self.causes.get(id).map(String::as_str)
    }

    /// Cells and algorithms that values and rules speak of, each once, in order.
    fn needed(&self) -> Vec<Reference> {
        let mut all = claims::needed(&self.rules);
        all.extend(self.expected.iter().map(|row| Reference {
            cell: row.cell.clone(),
            algorithm: row.algorithm.clone(),
        }));
        all.sort();
        all.dedup();
        all
    }

    /// Makes the runs and judges them; the scenarios' largest number of seeds is the default.
    ///
    /// `progress` is called with (done, of all) after each run, from any thread.
    pub fn judge(
        &self,
        mut making: Making<'_>,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<StudyVerdicts, RunSetupError> {
        if making.seeds == 0 {
            making.seeds = self.seeds;
        }
        let needed = self.needed();
        let all = needed.len() * usize::try_from(making.seeds).unwrap_or(usize::MAX);
        let done = AtomicUsize::new(0);
        let mut wanted = claims::metrics(&self.rules);
        wanted.extend(self.expected.iter().map(|row| row.metric.clone()));
        let mut source = Source::default();
        for of in &needed {
            let report = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
            measure(&self.files, of, making, &mut source, &wanted, report)?;
        }
        let measured: Vec<Measured> = (self.expected.iter())
            .filter_map(|row| measured(&source, row))
            .collect();
        let comparisons = compare(&self.expected, &measured, &self.tolerances);
        Ok(StudyVerdicts {
            seeds: making.seeds,
            claims: judge(&self.rules, &source, &comparisons),
            comparisons,
        })
    }
}

fn measured(source: &Source, row: &Expected) -> Option<Measured> {
    let of = Reference {
        cell: row.cell.clone(),
        algorithm: row.algorithm.clone(),
    };
    let samples: Vec<f64> = source.runs(&of, &row.metric)?.concat();
    Some(Measured {
        cell: of.cell,
        algorithm: of.algorithm,
        metric: row.metric.clone(),
        set: Vec::new(),
        statistics: Statistics::of(&samples)?,
    })
}

fn text(path: &Path) -> Result<String, StudyError> {
    files::read_text(path, FILE_BYTES_MAX).map_err(|error| StudyError::new(path, error, LAYOUT))
}

/// The TOML files of a folder, by name; none if there is no such folder.
fn toml_files(folder: &Path) -> Result<Vec<PathBuf>, StudyError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let failed = |error: std::io::Error| StudyError::new(folder, error, LAYOUT);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn scenarios(
    folder: &Path,
    registry: Registry,
) -> Result<(Vec<ScenarioFile>, Vec<Scenario>), StudyError> {
    let (mut files, mut read) = (Vec::new(), Vec::new());
    let folder = folder.join("scenarios");
    for path in toml_files(&folder)? {
        let text = text(&path)?;
        let name = path.display().to_string();
        let scenario = Scenario::registered(registry, &name, &text, &[], None)
            .map_err(|errors| StudyError::new(&path, errors, "`carob lab keys` lists every key"))?;
        read.push(scenario);
        files.push(ScenarioFile { name, text });
    }
    if files.is_empty() {
        let remedy = "add scenarios/NAME.toml; `carob lab show carob/default` explains one";
        return Err(StudyError::new(&folder, "no scenario", remedy));
    }
    Ok((files, read))
}

/// The rules of a folder, and the causes they name.
fn rules(folder: &Path) -> Result<(Vec<Rule>, BTreeMap<String, String>), StudyError> {
    let (mut all, mut ids, mut causes) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    for path in toml_files(&folder.join("rules"))? {
        let text = text(&path)?;
        let wrong = |error| {
            let remedy = "a claim has id, about and [[claim.text]] with quantity and about, between, below or above";
            StudyError::new(&path, error, remedy)
        };
        let rules = rule::read(&text).map_err(wrong)?;
        causes.extend(rule::causes(&text).map_err(wrong)?);
        for rule in rules {
            if !ids.insert(rule.id.clone()) {
                let what = format!("two claims have the id \"{}\"", rule.id);
                return Err(StudyError::new(&path, what, "rename one"));
            }
            all.push(rule);
        }
    }
    Ok((all, causes))
}

fn expected(folder: &Path, study: &Study) -> Result<Vec<Expected>, StudyError> {
    let path = folder.join("expected.csv");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let form = format!("the columns are {}", COLUMNS.join(","));
    let table = Table::read(&text(&path)?).map_err(|error| {
        StudyError::new(
            &path,
            format_args!("record {} is not whole", error.record),
            &form,
        )
    })?;
    if table.header() != COLUMNS {
        let what = format!("the first line is {}", table.header().join(","));
        return Err(StudyError::new(&path, what, form));
    }
    let mut rows: Vec<Expected> = Vec::new();
    for number in 0..table.len() {
        let [cell, algorithm, metric, statistic, value] =
            COLUMNS.map(|column| table.cell(number, column).unwrap_or_default());
        let wrong = |what: String, remedy: &str| {
            let what = format!("record {}: {what}", number + 2);
            StudyError::new(&path, what, remedy)
        };
        if Metric::named(metric).is_none() {
            let remedy = "`carob lab run NAME --csv` prints the metrics of a scenario";
            return Err(wrong(format!("\"{metric}\" is no metric"), remedy));
        }
        let statistic = Statistic::named(statistic).ok_or_else(|| {
            let remedy = format!(
                "the statistics are {}",
                Statistic::ALL.map(Statistic::name).join(", ")
            );
            wrong(format!("\"{statistic}\" is no statistic"), &remedy)
        })?;
        let finite = value.parse().ok().filter(|value: &f64| value.is_finite());
        let value =
            finite.ok_or_else(|| wrong(format!("\"{value}\" is no number"), "write it as 12.5"))?;
        let same = |row: &&mut Expected| {
            row.cell == cell && row.algorithm == algorithm && row.metric == metric
        };
        match rows.iter_mut().find(same) {
            Some(row) => row.values.push((statistic, value)),
            None => rows.push(Expected {
                study: study.short_name.clone(),
                cell: cell.to_owned(),
                algorithm: algorithm.to_owned(),
                metric: metric.to_owned(),
                values: vec![(statistic, value)],
                ..Expected::default()
            }),
        }
    }
    Ok(rows)
}

fn tolerances(folder: &Path, expected: &[Expected]) -> Result<Tolerances, StudyError> {
    if expected.is_empty() {
        return Ok(Tolerances::default());
    }
    let path = folder.join("tolerances.toml");
    let remedy = "write [default] with a line such as p50 = \"5 %\" for each statistic";
    let tolerances = Tolerances::read(&text(&path)?)
        .map_err(|what| StudyError::new(&path, what.trim_end(), remedy))?;
    if let Some(cell) = tolerances.unused(expected).first() {
        let what = format!("no expected value is of a cell like \"{cell}\"");
        return Err(StudyError::new(&path, what, "correct or delete its rule"));
    }
    for row in expected {
        for (statistic, _) in &row.values {
            if tolerances.of(&row.cell, &row.algorithm, *statistic).share <= 0.0 {
                let what = format!("no tolerance for {} in {}", statistic.name(), row.cell);
                return Err(StudyError::new(&path, what, remedy));
            }
        }
    }
    Ok(tolerances)
}
