//! Scenario files: what to run, with what, how often.
//!
//! A scenario is one TOML file per family ([`keys`] lists its keys). Its `[sweep]` spans
//! cells; each cell with an algorithm and a seed is one [`RunSpec`]. Unknown keys, wrong units and
//! impossible combinations are errors with a place. Command-line overrides take the same path as
//! the file, so they are checked alike.

pub mod builtin;
pub mod error;
#[macro_use]
pub mod keys;
pub mod value;

mod algorithm;
mod cases;
mod cell;
mod describe;
mod device;
mod document;
mod faults;
mod fields;
mod impairments;
mod link;
mod mesh;
mod mix;
mod network;
mod notifications;
mod path_changes;
mod queue;
mod server;
mod settings;
mod tcp;
mod trace;
mod workload;

pub(crate) use document::written;
pub(crate) use mesh::links as mesh_links;

use std::collections::{BTreeMap, BTreeSet};

use carob_cc::registry::canonical;
use carob_sim::hash::fnv1a;
use carob_sim::registry::Registry;
use carob_sim::spec::RunSpec;

pub use algorithm::{Algorithm, every_name, is_known};
pub use cases::Change;
pub use cell::Cell;
pub use describe::{Described, Origin, Parameter};
pub use error::{Place, Problem, ScenarioError, ScenarioErrors};
pub use mesh::lossy;
pub use tcp::TcpSetting;

use algorithm::{Only, algorithms_of};
use cases::{Cases, Condition};
use document::{Raw, Written};
use fields::Field;
use keys::NotFound;
use settings::{Settings, defaults};
use value::{Kind, Value, Values};

/// The most cells a scenario may span.
pub const CELLS_MAX: usize = 10_000;

/// A scenario, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    settings: Settings,
    algorithms: Vec<Algorithm>,
    cells: Vec<Cell>,
    hash: u64,
    about: String,
    changes: Vec<Change>,
    /// The name that it was read under, and its text.
    source: (String, String),
}

/// A setting with its kind settled.
#[derive(Clone, Debug, PartialEq)]
struct Setting {
    value: Value,
    place: Place,
}

/// An axis of the sweep.
#[derive(Clone, Debug)]
struct Axis {
    /// As in the file: the key's last segment.
    short: String,
    /// The key it sets.
    path: String,
    values: Vec<Value>,
    place: Place,
}

impl Scenario {
    /// Reads a scenario from TOML, with overrides such as `rto_max=32 s` in order.
    ///
    /// `name` is what errors call the file.
    pub fn read(name: &str, text: &str, overrides: &[String]) -> Result<Self, ScenarioErrors> {
        Self::with_algorithms(name, text, overrides, None)
    }

    /// As [`read`](Self::read), with other algorithms than the scenario's own.
    pub fn with_algorithms(
        name: &str,
        text: &str,
        overrides: &[String],
        algorithms: Option<&[String]>,
    ) -> Result<Self, ScenarioErrors> {
        Self::registered(Registry::BUILT_IN, name, text, overrides, algorithms)
    }

    /// As [`with_algorithms`](Self::with_algorithms), with the controllers of a registry.
    pub fn registered(
        registry: Registry,
        name: &str,
        text: &str,
        overrides: &[String],
        algorithms: Option<&[String]>,
    ) -> Result<Self, ScenarioErrors> {
        Self::with_cells(registry, name, text, overrides, algorithms, None)
    }

    /// As [`registered`](Self::registered), with the cells of a pattern alone, if there are any: what an algorithm
    /// cannot do in other cells is no error.
    pub fn with_cells(
        registry: Registry,
        name: &str,
        text: &str,
        overrides: &[String],
        algorithms: Option<&[String]>,
        pattern: Option<&str>,
    ) -> Result<Self, ScenarioErrors> {
        let mut raw = document::parse(name, text)?;
        let own = cases::own(&raw, !overrides.is_empty());
        let wrong = overrides
            .iter()
            .filter_map(|typed| override_one(&mut raw, typed).err());
        if let Some(errors) = ScenarioErrors::of(wrong.collect()) {
            return Err(errors);
        }
        prefer_typed_loss(&mut raw);
        if let Some(algorithms) = algorithms {
            raw.insert(
                "run.algorithms".to_owned(),
                Raw {
                    place: Place::Algorithms(algorithms.join(",")),
                    written: Written::List(algorithms.to_vec()),
                },
            );
        }
        mesh::links::load(&mut raw)?;
        let source = (name.to_owned(), text.to_owned());
        Self::completed(registry, source, settle(raw)?, &own, pattern)
    }

    /// A scenario of one cell by the values of its keys; `name` is what errors call it.
    pub(crate) fn of_values(
        registry: Registry,
        name: &str,
        values: Values,
    ) -> Result<Self, ScenarioErrors> {
        let place = Place::Program(name.to_owned());
        let setting = |(path, value)| {
            let place = place.clone();
            (path, Setting { value, place })
        };
        let settled = Settled {
            settings: values.into_iter().map(setting).collect(),
            ..Settled::default()
        };
        let source = (name.to_owned(), String::new());
        Self::completed(registry, source, settled, &Settled::default(), None)
    }

    /// A scenario of settings of their kinds, with defaults for the others; checked.
    fn completed(
        registry: Registry,
        source: (String, String),
        settled: Settled,
        own: &Settled,
        pattern: Option<&str>,
    ) -> Result<Self, ScenarioErrors> {
        let whole = Place::Scenario(source.0.clone());
        let Settled {
            mut settings,
            axes,
            only,
            cases,
        } = settled;
        for (path, value) in defaults() {
            settings
                .entry((*path).to_owned())
                .or_insert_with(|| Setting {
                    value: value.clone(),
                    place: whole.clone(),
                });
        }
        document::name_by_file(&source.0, &mut settings, &axes, &whole);
        let mut absent = document::absent(&whole, &settings);
        if !absent.is_empty() {
            // With placeholders, all missing keys are reported in one pass.
            document::stand_in(&mut settings);
        }
        let settings = Settings::new(settings);
        let changes = cases::of(own, &settings, &axes);
        let mut scenario = match Self::of(settings, axes, &only, &cases, changes, registry) {
            Ok(scenario) => Self { source, ..scenario },
            Err(error) if absent.is_empty() => return Err(error.into()),
            // The placeholder of a missing key may not fit the rest.
            Err(_) => return Err(ScenarioErrors::of(absent).expect("some are absent")),
        };
        absent.extend(document::missing_in(&scenario, &whole));
        if let Some(errors) = ScenarioErrors::of(absent) {
            return Err(errors);
        }
        let chosen = pattern.map_or_else(Vec::new, |pattern| scenario.cells_like(pattern));
        if !chosen.is_empty() {
            scenario.cells = chosen.into_iter().cloned().collect();
        }
        scenario.check(&whole)?;
        Ok(scenario)
    }

    /// A scenario of settings that are of their kinds, not yet checked cell by cell.
    fn of(
        settings: Settings,
        axes: Vec<Axis>,
        only: &Only,
        cases: &Cases,
        changes: Vec<Change>,
        registry: Registry,
    ) -> Result<Self, ScenarioError> {
        let algorithms = algorithms_of(&settings, &axes, only, registry)?;
        cases.check(&axes)?;
        let mut cells = cells_of(&settings, axes, cases, registry)?;
        let mut traces = trace::TraceFiles::default();
        for cell in &mut cells {
            traces.load(cell)?;
            cell.own = algorithm::own_of(&algorithms, cell, &settings, registry)?;
            cell.change(&changes);
        }
        Ok(Self {
            hash: hash_of(&settings, &cells),
            about: about(&settings, &cells)?,
            source: Default::default(),
            settings,
            algorithms,
            cells,
            changes,
        })
    }

    /// Its full name, `<study>/<family>`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.text("study"), self.text("family"))
    }

    /// The text of its file, without the settings of the command line.
    pub fn source_text(&self) -> &str {
        &self.source.1
    }

    /// The command that runs another cell.
    pub fn command_of_cells(&self) -> String {
        let (name, _) = &self.source;
        let end = std::path::Path::new(name).extension();
        if !end.is_some_and(|end| end.eq_ignore_ascii_case("toml")) {
            return format!("carob lab run {}/NAME", self.study());
        }
        let swept = self.cells.iter().flat_map(|cell| &cell.values);
        let keys: BTreeSet<&str> = swept.map(|(key, _)| key.as_str()).collect();
        let set = keys.iter().map(|key| format!(" --set {key}=VALUE"));
        format!("carob lab run {name}{}", set.collect::<String>())
    }

    /// The scenario's question, one sentence.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The settings of the command line that differ from the scenario's own.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// A name with the settings of the command line that differ from the scenario's own.
    pub fn title(&self, name: &str) -> String {
        const LISTED_MAX: usize = 3;
        let texts: Vec<String> = self.changes.iter().map(Change::text).collect();
        match texts.len() {
            0 => name.to_owned(),
            n if n > LISTED_MAX => format!("{name} with {n} keys changed"),
            _ => format!("{name} with {}", texts.join(", ")),
        }
    }

    /// Short name of its study.
    pub fn study(&self) -> &str {
        self.text("study")
    }

    /// Every cell, the last sweep key varying fastest.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cell of that name, such as `long-1c-none-2500`.
    pub fn cell(&self, name: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.name == name)
    }

    /// The cells whose names fit a pattern such as `long-1c-*-2500`; where there is none, those whose
    /// names go on after it, such as all loads of `constant-6x6-lossy`.
    pub fn cells_like(&self, pattern: &str) -> Vec<&Cell> {
        let fitting = |pattern: &str| -> Vec<&Cell> {
            let fits = |cell: &&Cell| crate::pattern::fits(&cell.name, pattern);
            self.cells.iter().filter(fits).collect()
        };
        match fitting(pattern) {
            none if none.is_empty() => match fitting(&format!("{pattern}-*")) {
                none if none.is_empty() => self.renamed(pattern),
                cells => cells,
            },
            cells => cells,
        }
    }

    /// The cells that would fit a pattern but for settings of the command line, whose values are in their names.
    fn renamed(&self, pattern: &str) -> Vec<&Cell> {
        let (name, text) = &self.source;
        let own = (!self.changes.is_empty()).then(|| Self::read(name, text, &[]));
        let Some(Ok(own)) = own else {
            return Vec::new();
        };
        let is_changed = |key: &str| {
            let path = keys::resolve(key).map(|found| found.path);
            path.is_ok_and(|path| self.changes.iter().any(|change| change.path == path))
        };
        let named: Vec<&Cell> = own.cells_like(pattern);
        let agrees = |cell: &&Cell| {
            named.iter().any(|named| {
                let mut values = named.values.iter();
                values.all(|(key, value)| {
                    let of_cell = cell.values.iter().find(|(known, _)| known == key);
                    is_changed(key) || of_cell.is_some_and(|(_, own)| own == value)
                })
            })
        };
        self.cells.iter().filter(agrees).collect()
    }

    /// Its algorithms, in order.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// Runs per cell and algorithm.
    pub fn seeds(&self) -> u64 {
        self.whole("run.seeds")
    }

    /// The seed of the first run; the others follow.
    pub fn first_seed(&self) -> u64 {
        self.whole("run.first_seed")
    }

    /// A hash of everything that decides outcomes: all settings and cells, but not the text about
    /// it, the algorithms chosen, or the seeds.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The run of one cell, algorithm and seed.
    ///
    /// Transmission parameters are, in rising precedence: RFC 7252's, the profile's suggestion,
    /// the scenario's, the command line's; within the last two, keys of one algorithm
    /// override the keys for all.
    pub fn spec(&self, cell: &Cell, algorithm: &Algorithm, seed: u64) -> RunSpec {
        cell.spec(algorithm, seed)
            .expect("every cell was checked with every algorithm when the scenario was read")
    }

    fn check(&self, whole: &Place) -> Result<(), ScenarioError> {
        let placed = |e: ScenarioError| match e.place {
            Place::Scenario(_) => ScenarioError {
                place: whole.clone(),
                ..e
            },
            _ => e,
        };
        for cell in &self.cells {
            mesh::check_applicable(cell).map_err(placed)?;
            cell.check_needs().map_err(placed)?;
            for algorithm in &self.algorithms {
                cell.spec(algorithm, 0).map_err(placed)?;
            }
        }
        Ok(())
    }

    fn text(&self, path: &str) -> &str {
        self.settings.word(path).unwrap_or_default()
    }

    fn whole(&self, path: &str) -> u64 {
        let setting = self.settings.get(path);
        setting
            .and_then(|s| Field::of(&s.value))
            .unwrap_or_default()
    }
}

fn missing(place: &Place, key: &str) -> ScenarioError {
    ScenarioError {
        place: place.clone(),
        problem: Problem::MissingKey {
            key: key.to_owned(),
        },
    }
}

fn impossible(place: &Place, why: impl Into<String>) -> ScenarioError {
    ScenarioError {
        place: place.clone(),
        problem: Problem::RunSetupError(why.into()),
    }
}

/// The sentence about a scenario, with the values of the keys that it names in braces.
fn about(settings: &Settings, cells: &[Cell]) -> Result<String, ScenarioError> {
    let Some(Setting {
        value: Value::Text(text),
        place,
    }) = settings.get("about")
    else {
        return Ok(String::new());
    };
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((key, rest)) = part.split_once('}') else {
            return Err(impossible(place, "about has an open brace"));
        };
        let found = keys::resolve(key).map_err(|why| not_found(place, key, why))?;
        let mut texts: Vec<String> = Vec::new();
        for cell in cells {
            let value = cell.settings.get(&found.path).map(|s| s.value.rounded());
            texts.extend(value.filter(|text| !texts.contains(text)));
        }
        filled += &texts.join(", ");
        filled += rest;
    }
    Ok(filled)
}

/// Drops the scenario's class of errors where the command line states the loss: both set the loss.
/// A swept class stays, since it names cells.
fn prefer_typed_loss(raw: &mut BTreeMap<String, Raw>) {
    let typed = |raw: &Raw| matches!(raw.place, Place::CommandLine(_));
    let is_typed = |path: &str| raw.get(path).is_some_and(typed);
    let losses = ["link.loss", "link.down.loss", "link.up.loss"];
    if losses.into_iter().any(is_typed) && !is_typed("link.error") {
        raw.remove("link.error");
    }
}

/// Puts `key=value` of the command line in place of the file's value, sweep included.
fn override_one(raw: &mut BTreeMap<String, Raw>, typed: &str) -> Result<(), ScenarioError> {
    let place = Place::CommandLine(typed.to_owned());
    let Some((key, value)) = typed.split_once('=') else {
        let problem = Problem::Syntax("write key=value".to_owned());
        return Err(ScenarioError { place, problem });
    };
    let (key, value) = (key.trim(), value.trim().trim_matches('"'));
    let found = keys::resolve(key).map_err(|why| not_found(&place, key, why))?;
    let one = || Written::One(value.to_owned());
    // An axis over the same key shrinks to the one value, and still names the cells.
    let axis = raw.keys().find(|path| {
        path.strip_prefix("sweep.")
            .and_then(|short| keys::resolve(short).ok())
            .is_some_and(|k| k.path == found.path)
    });
    let (path, written) = match axis.cloned() {
        Some(axis) => (axis, Written::List(vec![value.to_owned()])),
        None => (found.path, one()),
    };
    raw.insert(path, Raw { place, written });
    Ok(())
}

fn not_found(place: &Place, key: &str, why: NotFound) -> ScenarioError {
    let key = key.to_owned();
    let problem = match why {
        NotFound::Unknown(nearest) => Problem::UnknownKey { key, nearest },
        NotFound::Ambiguous(candidates) => Problem::AmbiguousKey { key, candidates },
    };
    ScenarioError {
        place: place.clone(),
        problem,
    }
}

/// A scenario's settings, with every value of its kind.
#[derive(Default)]
struct Settled {
    settings: BTreeMap<String, Setting>,
    axes: Vec<Axis>,
    only: Only,
    cases: Cases,
}

/// Gives every setting its kind; separates the keys of the sweep.
fn settle(raw: BTreeMap<String, Raw>) -> Result<Settled, ScenarioErrors> {
    let mut settled = Settled::default();
    let wrong = raw
        .into_iter()
        .filter_map(|(path, raw)| settled.add(path, raw).err());
    match ScenarioErrors::of(wrong.collect()) {
        Some(errors) => Err(errors),
        None => Ok(settled),
    }
}

/// A key with an alias of a controller in it (`algorithm.<name>`) as one with its registry id.
fn with_registry_id(path: String) -> String {
    let of_algorithm = path.strip_prefix("algorithm.");
    match of_algorithm.and_then(|rest| rest.split_once('.')) {
        Some((name, rest)) => format!("algorithm.{}.{rest}", canonical(name)),
        None => path,
    }
}

impl Settled {
    fn add(&mut self, path: String, raw: Raw) -> Result<(), ScenarioError> {
        let Self {
            settings,
            axes,
            only,
            cases,
        } = self;
        let Raw { place, written } = raw;
        let path = with_registry_id(path);
        let Some(found) = keys::exact(&path) else {
            return Err(not_found(
                &place,
                &path,
                NotFound::Unknown(keys::nearest(&path)),
            ));
        };
        let read = |text: &str| {
            Value::read(found.kind, text).ok_or_else(|| ScenarioError {
                place: place.clone(),
                problem: Problem::BadValue {
                    key: path.clone(),
                    value: text.to_owned(),
                    expected: found.kind.to_string(),
                },
            })
        };
        let several = |written: Written| {
            let texts = match written {
                Written::One(text) => vec![text],
                Written::List(texts) => texts,
            };
            let values = texts.iter().map(|text| read(text));
            values.collect::<Result<Vec<_>, _>>()
        };
        let segments: Vec<&str> = path.split('.').collect();
        match (&segments[..], written) {
            (["sweep", short], written) => {
                let target = keys::resolve(short).map_err(|why| not_found(&place, short, why))?;
                let values = several(written)?;
                if values.is_empty() {
                    return Err(impossible(&place, format!("{path} lists no values")));
                }
                let short = (*short).to_owned();
                axes.push(Axis {
                    short,
                    path: target.path,
                    values,
                    place,
                });
            }
            (["where", name, "if", short], written) => {
                let condition = Condition::new(short, several(written)?, place);
                let case = cases.wheres.entry((*name).to_owned()).or_default();
                case.conditions.push(condition);
            }
            (["grid", name, short], written) => {
                let condition = Condition::new(short, several(written)?, place);
                let grid = cases.grid.entry((*name).to_owned()).or_default();
                grid.push(condition);
            }
            (["where", name, key @ ..], Written::One(text)) => {
                let key = key.join(".");
                let target = keys::resolve(&key).map_err(|why| not_found(&place, &key, why))?;
                let value = read(&text)?;
                let case = cases.wheres.entry((*name).to_owned()).or_default();
                case.settings.push((target.path, Setting { value, place }));
            }
            (["algorithm", name, "only", short], written) => {
                let values = several(written)?;
                only.push(((*name).to_owned(), (*short).to_owned(), values, place));
            }
            (_, Written::List(texts)) if found.kind == Kind::Texts => {
                settings.insert(
                    path,
                    Setting {
                        value: Value::Texts(texts),
                        place,
                    },
                );
            }
            (_, Written::List(texts)) => {
                return Err(read(&texts.join(", ")).err().unwrap_or_else(|| {
                    impossible(
                        &place,
                        format!("{path} takes one value; sweep it to try several"),
                    )
                }));
            }
            (_, Written::One(text)) => {
                let value = read(&text)?;
                settings.insert(path, Setting { value, place });
            }
        }
        Ok(())
    }
}

/// The product of all axes, in the order in which the name of a cell mentions them.
fn cells_of(
    settings: &Settings,
    mut axes: Vec<Axis>,
    cases: &Cases,
    registry: Registry,
) -> Result<Vec<Cell>, ScenarioError> {
    let Some(Setting {
        value: Value::Text(template),
        place,
    }) = settings.get("cell")
    else {
        return Err(missing(&Place::Scenario(String::new()), "cell"));
    };
    for part in template.split('{').skip(1) {
        let Some((short, _)) = part.split_once('}') else {
            return Err(impossible(place, "cell has an open brace"));
        };
        if axes.iter().all(|axis| axis.short != short) {
            return Err(impossible(
                place,
                format!("cell names {{{short}}}, which is not swept"),
            ));
        }
    }
    if let Some(axis) = axes
        .iter()
        .find(|a| !template.contains(&format!("{{{}}}", a.short)))
    {
        let why = format!(
            "cell must name {{{}}}, or cells would share a name",
            axis.short
        );
        return Err(impossible(&axis.place, why));
    }
    axes.sort_by_key(|axis| template.find(&format!("{{{}}}", axis.short)));
    let mut combinations: Vec<Vec<&Value>> = vec![Vec::new()];
    for axis in &axes {
        if combinations.len() * axis.values.len() > CELLS_MAX {
            return Err(impossible(
                &axis.place,
                format!("more than {CELLS_MAX} cells"),
            ));
        }
        combinations = combinations
            .iter()
            .flat_map(|before| {
                axis.values.iter().map(|value| {
                    let mut combination = before.clone();
                    combination.push(value);
                    combination
                })
            })
            .collect();
    }
    let mut cells: Vec<Cell> = Vec::with_capacity(combinations.len());
    let mut names = BTreeSet::new();
    for combination in combinations {
        let cell = Cell::new(template, &axes, &combination, settings, cases, registry)?;
        if !names.insert(cell.name.clone()) {
            return Err(impossible(
                place,
                format!("two cells would be called {}", cell.name),
            ));
        }
        cells.push(cell);
    }
    Ok(cells)
}

fn hash_of(settings: &Settings, cells: &[Cell]) -> u64 {
    use std::fmt::Write as _;
    let mut text = settings.decisive_text();
    for cell in cells {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}:{:016x}", cell.name, cell.hash);
    }
    fnv1a(text.as_bytes())
}

#[cfg(test)]
mod tests;
