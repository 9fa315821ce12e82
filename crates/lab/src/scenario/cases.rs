//! Settings of some cells only (`where.<name>`), and the part of a sweep that runs by default
//! (`grid.<name>`).
//!
//! Settings of the command line whose values the scenario does not have.

use std::collections::{BTreeMap, BTreeSet};

use super::document::Raw;
use super::error::{Place, ScenarioError};
use super::settings::{OF_NO_OUTCOME, Settings, default_of};
use super::value::Value;
use super::{Axis, Setting, Settled, impossible, keys, mesh, settle};

/// A swept key that must have one of these values.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    short: String,
    values: Vec<Value>,
    place: Place,
}

impl Condition {
    pub(super) fn new(short: &str, values: Vec<Value>, place: Place) -> Self {
        Self {
            short: short.to_owned(),
            values,
            place,
        }
    }

    fn holds(&self, values: &[(String, Value)]) -> bool {
        let mut values = values.iter().filter(|(short, _)| *short == self.short);
        values.all(|(_, value)| self.values.contains(value))
    }

    /// Checks that the sweep has the keys and values named; `table` is the table around them.
    fn check(&self, table: &str, axes: &[Axis]) -> Result<(), ScenarioError> {
        let short = &self.short;
        let stray = |what: String| {
            let why = format!("{table}.{short}: {what} is not swept");
            Err(impossible(&self.place, why))
        };
        let Some(axis) = axes.iter().find(|axis| axis.short == *short) else {
            return stray(short.clone());
        };
        // A swept key set on the command line shrinks its axis; values outside it are no error.
        let shrunk = matches!(axis.place, Place::CommandLine(_));
        match self.values.iter().find(|v| !axis.values.contains(v)) {
            Some(value) if !shrunk => stray(value.to_string()),
            _ => Ok(()),
        }
    }
}

/// Settings of the cells in which all conditions hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    pub(super) conditions: Vec<Condition>,
    pub(super) settings: Vec<(String, Setting)>,
}

/// Settings that apply to some cells only, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Cases {
    pub(super) wheres: BTreeMap<String, Case>,
    /// A cell runs by default if all conditions of one of these hold, or if there are none.
    pub(super) grid: BTreeMap<String, Vec<Condition>>,
}

impl Cases {
    /// Checks that it fits the sweep.
    pub(super) fn check(&self, axes: &[Axis]) -> Result<(), ScenarioError> {
        for (name, case) in &self.wheres {
            for condition in &case.conditions {
                condition.check(&format!("where.{name}.if"), axes)?;
            }
            for (path, setting) in &case.settings {
                if axes.iter().any(|axis| axis.path == *path) {
                    let why = format!("where.{name} sets {path}, which is swept");
                    return Err(impossible(&setting.place, why));
                }
                if case.conditions.is_empty() {
                    let why = format!("where.{name} needs where.{name}.if.<sweep key>");
                    return Err(impossible(&setting.place, why));
                }
            }
        }
        for (name, conditions) in &self.grid {
            for condition in conditions {
                condition.check(&format!("grid.{name}"), axes)?;
            }
        }
        Ok(())
    }

    /// Sets what holds for the cell with these swept values. The command line goes over it.
    pub(super) fn apply(
        &self,
        values: &[(String, Value)],
        settings: &mut Settings,
    ) -> Result<(), ScenarioError> {
        let mut set = BTreeSet::new();
        for (name, case) in &self.wheres {
            if !case.conditions.iter().all(|c| c.holds(values)) {
                continue;
            }
            for (path, setting) in &case.settings {
                if !set.insert(path) {
                    let why = format!("where.{name} sets {path}, which another has set already");
                    return Err(impossible(&setting.place, why));
                }
                let typed = |s: &Setting| matches!(s.place, Place::CommandLine(_));
                if !settings.get(path).is_some_and(typed) {
                    settings.insert(path.clone(), setting.clone());
                }
            }
        }
        Ok(())
    }

    /// Returns true if the cell with these swept values runs by default.
    pub(super) fn is_default(&self, values: &[(String, Value)]) -> bool {
        let holds = |all: &Vec<Condition>| all.iter().all(|c| c.holds(values));
        self.grid.is_empty() || self.grid.values().any(holds)
    }
}

/// A setting of the command line that differs from the scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The key's full path.
    pub path: String,
    /// The shortest key that means it.
    pub key: String,
    /// Its value on the command line.
    pub value: Value,
    /// The scenario's own value or values in canonical text; none where it has none.
    pub before: Option<String>,
    /// The scenario sweeps the key, and the value is in the sweep: the change selects cells.
    pub selects: bool,
}

impl Change {
    /// Returns whether results no longer compare with those published for the scenario: a setting of the
    /// network, the workload or the length of a run.
    pub fn is_of_network_or_workload(&self) -> bool {
        !self.selects && is_of_network_or_workload(&self.path)
    }

    /// `down.rate 60 kbit/s`.
    pub fn text(&self) -> String {
        format!("{} {}", self.key, shown(&self.value.to_string()))
    }
}

/// Returns true for keys of the network, the workload or the length of a run.
pub(super) fn is_of_network_or_workload(path: &str) -> bool {
    let table = path.split('.').next().unwrap_or_default();
    matches!(table, "link" | "workload" | "mix" | "server" | "faults")
        || mesh::is_key(path)
        || matches!(path, "run.until" | "run.time_limit")
}

/// A value for a sentence: of a text of several lines the file that it is from, or their number.
pub(super) fn shown(text: &str) -> String {
    let Some((first, _)) = text.split_once('\n') else {
        return text.to_owned();
    };
    match first.strip_prefix(mesh::OF_FILE) {
        Some(file) => file.to_owned(),
        None => format!("{} lines", text.lines().count()),
    }
}

/// The scenario's own values, before the command line changes them; empty where it is faulty,
/// since its faults are reported with the changes in place.
pub(super) fn own(raw: &BTreeMap<String, Raw>, has_changes: bool) -> Settled {
    if has_changes {
        settle(raw.clone()).unwrap_or_default()
    } else {
        Settled::default()
    }
}

/// The changes, by path.
pub(super) fn of(own: &Settled, settings: &Settings, axes: &[Axis]) -> Vec<Change> {
    let typed = |place: &Place| matches!(place, Place::CommandLine(_));
    let fixed = settings
        .iter()
        .filter(|(path, setting)| typed(&setting.place) && !OF_NO_OUTCOME.contains(path))
        .filter_map(|(path, setting)| {
            let before = own.settings.get(path).map(|s| s.value.clone());
            let before = before.or_else(|| default_of(path).cloned());
            (before.as_ref() != Some(&setting.value)).then(|| Change {
                path: path.to_owned(),
                key: short(path),
                value: setting.value.clone(),
                before: before.map(|value| value.to_string()),
                selects: false,
            })
        });
    let swept = axes
        .iter()
        .filter(|axis| typed(&axis.place))
        .filter_map(|axis| {
            let value = axis.values.first()?.clone();
            let before = own.axes.iter().find(|before| before.path == axis.path)?;
            let texts: Vec<String> = before.values.iter().map(Value::to_string).collect();
            Some(Change {
                path: axis.path.clone(),
                key: axis.short.clone(),
                selects: before.values.contains(&value),
                value,
                before: Some(texts.join(", ")),
            })
        });
    fixed.chain(swept).collect()
}

/// The shortest end of a path that resolves to it.
fn short(path: &str) -> String {
    let starts = path.match_indices('.').map(|(dot, _)| dot + 1);
    let mut ends: Vec<&str> = starts.map(|start| &path[start..]).collect();
    ends.reverse();
    let means = |end: &&&str| keys::resolve(end).is_ok_and(|found| found.path == path);
    ends.iter().find(means).map_or(path, |end| *end).to_owned()
}
