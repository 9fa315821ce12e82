//! The algorithms of a scenario: controllers with its constants, and the cells they run in.

use std::collections::BTreeMap;

use carob_cc::constants::SetError;
use carob_sim::spec::{ControllerError, ControllerSpec};

use super::cell::Cell;
use super::error::{Place, ScenarioError};
use super::value::Value;
use super::{Axis, Setting, impossible, keys, missing};
use crate::pattern::{fits, is_pattern};

/// An algorithm of a scenario.
#[derive(Clone, Debug)]
pub struct Algorithm {
    /// Its registry id.
    pub name: String,
    controller: ControllerSpec,
    /// Cells it runs in by default: for each sweep key named here, only these values.
    only: Vec<(String, Vec<Value>)>,
}

impl Algorithm {
    /// Its controller, with the scenario's constants.
    pub fn controller(&self) -> ControllerSpec {
        self.controller
    }

    /// Whether the scenario runs it in this cell by default.
    pub fn applies_to(&self, cell: &Cell) -> bool {
        self.only.iter().all(|(short, allowed)| {
            cell.value(short)
                .is_none_or(|value| allowed.contains(value))
        })
    }
}

/// Lists under `algorithm.<name>.only`, as (algorithm, sweep key, values, place).
pub(super) type Only = Vec<(String, String, Vec<Value>, Place)>;

pub(super) fn algorithms_of(
    settings: &BTreeMap<String, Setting>,
    axes: &[Axis],
    only: &Only,
) -> Result<Vec<Algorithm>, ScenarioError> {
    let Some(Setting {
        value: Value::Texts(names),
        place,
    }) = settings.get("run.algorithms")
    else {
        return Err(missing(&Place::Scenario(String::new()), "run.algorithms"));
    };
    if names.is_empty() {
        return Err(impossible(place, "run.algorithms lists no algorithm"));
    }
    for (name, short, values, place) in only {
        let Some(axis) = axes.iter().find(|axis| axis.short == *short) else {
            return Err(impossible(
                place,
                format!("algorithm.{name}.only.{short}: {short} is not swept"),
            ));
        };
        // A swept key set on the command line shrinks its axis; what is left out of it is no error.
        let shrunk = matches!(axis.place, Place::CommandLine(_));
        if let Some(stray) = values.iter().find(|v| !shrunk && !axis.values.contains(v)) {
            return Err(impossible(
                place,
                format!("algorithm.{name}.only.{short}: {stray} is not swept"),
            ));
        }
    }
    let names = &chosen(names);
    let constants_of = |prefix: &str| -> Vec<(String, String, Place)> {
        settings
            .iter()
            .filter_map(|(path, s)| {
                let constant = path.strip_prefix(prefix)?;
                Some((constant.to_owned(), s.value.to_string(), s.place.clone()))
            })
            .collect()
    };
    names
        .iter()
        .map(|name| {
            let mut constants = constants_of(&format!("algorithm.{name}.cc."));
            // For all algorithms: those that have the constant take it.
            let shared = constants_of("cc.");
            for (constant, value, place) in &shared {
                let one = [(constant.as_str(), value.as_str())];
                match ControllerSpec::new(name, one) {
                    Err(ControllerError::BadConstant {
                        why: SetError::UnknownName,
                        ..
                    }) if names.len() > 1 => {}
                    _ => constants.push((constant.clone(), value.clone(), place.clone())),
                }
            }
            let place = constants.last().map_or(place, |(_, _, place)| place);
            let set = constants.iter().map(|(c, v, _)| (c.as_str(), v.as_str()));
            let controller = ControllerSpec::new(name, set).map_err(|why| {
                let hint = match &why {
                    ControllerError::UnknownController { name } => nearest_controller(name),
                    ControllerError::BadConstant { .. } => None,
                };
                let hint = hint.map_or(String::new(), |h| format!("; did you mean \"{h}\"?"));
                impossible(place, format!("{why}{hint}"))
            })?;
            let only = only
                .iter()
                .filter(|(of, ..)| of == name)
                .map(|(_, short, values, _)| (short.clone(), values.clone()))
                .collect();
            Ok(Algorithm {
                name: name.clone(),
                controller,
                only,
            })
        })
        .collect()
}

/// Names, with every pattern replaced by the controllers it fits, each once; `all` is every one.
fn chosen(names: &[String]) -> Vec<String> {
    let mut chosen: Vec<String> = Vec::new();
    for name in names {
        let pattern = if name == "all" { "*" } else { name };
        let mut fitting: Vec<String> = carob_cc::registry::entries()
            .filter(|entry| is_pattern(pattern) && fits(entry.name, pattern))
            .map(|entry| entry.name.to_owned())
            .collect();
        if fitting.is_empty() {
            fitting.push(name.clone()); // a name, or a pattern to be complained about
        }
        for name in fitting {
            if !chosen.contains(&name) {
                chosen.push(name);
            }
        }
    }
    chosen
}

fn nearest_controller(name: &str) -> Option<&'static str> {
    carob_cc::registry::entries()
        .map(|entry| (keys::distance(name, entry.name), entry.name))
        .min()
        .filter(|(d, _)| *d <= name.chars().count().div_ceil(3))
        .map(|(_, name)| name)
}
