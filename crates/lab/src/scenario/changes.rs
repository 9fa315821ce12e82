//! Settings of the command line whose values the scenario does not have.

use std::collections::BTreeMap;

use super::document::Raw;
use super::error::Place;
use super::keys;
use super::mesh;
use super::settings::{Settings, default_of};
use super::value::Value;
use super::{Axis, Settled, settle};

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
        let table = self.path.split('.').next().unwrap_or_default();
        !self.selects
            && (matches!(table, "link" | "workload" | "mix" | "server" | "faults")
                || mesh::is_key(&self.path)
                || matches!(&*self.path, "run.until" | "run.time_limit"))
    }

    /// `down.rate 60 kbit/s`.
    pub fn text(&self) -> String {
        format!("{} {}", self.key, shown(&self.value.to_string()))
    }
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
        .filter(|(path, setting)| typed(&setting.place) && !is_about(path))
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

/// Keys that decide no outcome.
fn is_about(path: &str) -> bool {
    matches!(
        path,
        "about" | "compare_with" | "run.algorithms" | "run.seeds" | "run.first_seed"
    )
}

/// The shortest end of a path that resolves to it.
fn short(path: &str) -> String {
    let starts = path.match_indices('.').map(|(dot, _)| dot + 1);
    let mut ends: Vec<&str> = starts.map(|start| &path[start..]).collect();
    ends.reverse();
    let means = |end: &&&str| keys::resolve(end).is_ok_and(|found| found.path == path);
    ends.iter().find(means).map_or(path, |end| *end).to_owned()
}
