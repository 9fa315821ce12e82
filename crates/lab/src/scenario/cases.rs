//! Settings of some cells only (`where.<name>`), and the part of a sweep that runs by default
//! (`grid.<name>`).

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Place, ScenarioError};
use super::settings::Settings;
use super::value::Value;
use super::{Axis, Setting, impossible};

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
