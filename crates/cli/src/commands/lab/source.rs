//! Look-up of a scenario by its name, and the error when there is none.

use std::io::ErrorKind;
use std::path::Path;

use carob_lab::files;
use carob_lab::pattern::is_pattern;
use carob_lab::run::PlanError;
use carob_lab::scenario::{Cell, Place, Problem, Scenario, ScenarioErrors, builtin};

use crate::failure::{Failure, Kind};
use crate::program::registry;

/// The largest scenario file, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// A scenario as requested.
pub(super) struct Source {
    /// The name as typed, or the default's.
    pub(super) name: String,
    pub(super) scenario: Scenario,
    /// The cell that was named, or a pattern of them.
    pub(super) cell: Option<String>,
}

impl Source {
    /// Finds and reads a scenario, with settings and algorithms of the command line.
    pub(super) fn open(name: &str, set: &[String], algorithms: &[String]) -> Result<Self, Failure> {
        let read = |file: &str, text: &str, cell: Option<&str>| {
            let algorithms = Some(algorithms).filter(|a| !a.is_empty());
            Scenario::with_cells(registry(), file, text, set, algorithms, cell)
                .map_err(|e| wrong(&e))
        };
        let path = Path::new(name);
        if path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("toml"))
        {
            let text = read_file(path)?;
            return Ok(Self {
                name: name.to_owned(),
                scenario: read(name, &text, None)?,
                cell: None,
            });
        }
        let Some((built_in, cell)) = builtin::find(name) else {
            return Err(unknown(name));
        };
        let scenario = read(built_in.name, built_in.text, cell)?;
        if let Some(cell) = cell.filter(|cell| scenario.cells_like(cell).is_empty()) {
            let problem = PlanError::unknown_cell(&scenario, cell);
            return Err(
                Failure::new(Kind::Usage, format_args!("{}: {problem}", built_in.name)).hint(
                    format_args!("`carob lab show {}` names its cells", built_in.name),
                ),
            );
        }
        Ok(Self {
            name: name.to_owned(),
            cell: cell.map(str::to_owned),
            scenario,
        })
    }

    /// Refuses a pattern, where one cell is meant.
    pub(super) fn without_pattern(self) -> Result<Self, Failure> {
        match &self.cell {
            Some(cell) if is_pattern(cell) => {
                let name = &self.name;
                let problem = format_args!("{name}: a pattern, where one cell is meant");
                Err(Failure::new(Kind::Usage, problem).hint("`carob lab run` takes patterns"))
            }
            _ => Ok(self),
        }
    }

    /// The cell that was named.
    pub(super) fn cell(&self) -> Option<&Cell> {
        self.scenario.cell(self.cell.as_deref()?)
    }
}

/// Reads a file of the lab, of at most 1 MiB.
pub fn read_file(path: &Path) -> Result<String, Failure> {
    files::read_text(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            let shown = path.display();
            let what = format_args!("{shown}: a file of the lab is at most 1 MiB");
            Failure::new(Kind::Usage, what)
        }
        _ => Failure::file("read", path, &error),
    })
}

pub(super) fn unknown(name: &str) -> Failure {
    let study = name.split('/').next().unwrap_or_default();
    if builtin::has_study(study) && (name == study || builtin::nearest(name).is_none()) {
        let problem = if name == study {
            format!("\"{name}\" is a study, not a scenario")
        } else {
            format!("unknown scenario \"{name}\"")
        };
        let scenarios: Vec<&str> = builtin::of_study(study).collect();
        let scenarios = scenarios.join(", ");
        return Failure::new(Kind::Usage, problem)
            .hint(format_args!("the scenarios of {study} are {scenarios}"));
    }
    let failure = Failure::new(Kind::Usage, format_args!("unknown scenario \"{name}\""));
    match builtin::nearest(name) {
        Some(near) => failure.hint(format_args!(
            "did you mean \"{near}\"? `carob lab list` names all"
        )),
        None => failure.hint("`carob lab list` names all; a file of your own ends in .toml"),
    }
}

fn wrong(errors: &ScenarioErrors) -> Failure {
    let failure = Failure::new(Kind::Usage, errors);
    let error = errors.first();
    if matches!(error.place, Place::Algorithms(_)) {
        return failure.hint(
            "`carob cc list` explains all; tcp-newreno, tcp-cubic, tcp-bbr1 and tcp-bbr3 are over TCP",
        );
    }
    match error.problem {
        Problem::BadValue { .. } => failure
            .hint("`carob lab keys` lists every key; units are written, as in '400 ms'"),
        _ => failure.hint(
            "`carob lab keys` lists every key, `carob lab show NAME` those of a scenario with its values",
        ),
    }
}
