//! The algorithms of a scenario: controllers with its constants, and the cells they run in.

use std::collections::BTreeMap;

use carob_cc::constants::SetError;
use carob_cc::registry::{canonical, nearest};
use carob_sim::registry::Registry;
use carob_sim::spec::{ControllerError, ControllerSpec};
use carob_sim::tcp::settings::{self, Named};

use super::cell::Cell;
use super::error::{Place, ScenarioError};
use super::settings::Settings;
use super::value::Value;
use super::{Axis, Setting, impossible, missing};
use crate::pattern::{fits, is_pattern};
use crate::text::distinct;

/// An algorithm of a scenario.
#[derive(Clone, Debug)]
pub struct Algorithm {
    /// Its registry id, or its name among TCP's.
    pub name: String,
    pub(super) protocol: Protocol,
    /// Cells it runs in by default: for each sweep key named here, only these values.
    only: Vec<(String, Vec<Value>)>,
}

/// The protocol that an algorithm belongs to.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each algorithm")]
pub(super) enum Protocol {
    /// A controller of the message layer, with the scenario's constants.
    Udp(ControllerSpec),
    /// An algorithm of TCP; its settings depend on the cell.
    Tcp(&'static Named),
}

impl Algorithm {
    /// Its controller, with the scenario's constants; none over TCP.
    pub fn controller(&self) -> Option<ControllerSpec> {
        match self.protocol {
            Protocol::Udp(controller) => Some(controller),
            Protocol::Tcp(_) => None,
        }
    }

    /// Description, one sentence.
    pub fn about(&self) -> &'static str {
        match &self.protocol {
            Protocol::Udp(controller) => controller.entry().about,
            Protocol::Tcp(named) => named.about,
        }
    }

    /// Returns true if the scenario runs it in this cell by default.
    pub fn applies_to(&self, cell: &Cell) -> bool {
        let fits = |(short, allowed): &(String, Vec<Value>)| {
            cell.value(short)
                .is_none_or(|value| allowed.contains(value))
        };
        cell.is_default && self.may_run_in(cell) && self.only.iter().all(fits)
    }

    /// Returns true if it can run in this cell. An algorithm that is named after its first one
    /// (`mix.first`) runs in no other.
    pub fn may_run_in(&self, cell: &Cell) -> bool {
        cell.text("mix.first")
            .map_or(true, |first| canonical(first) == self.name)
    }
}

/// Lists under `algorithm.<name>.only`, as (algorithm, sweep key, values, place).
pub(super) type Only = Vec<(String, String, Vec<Value>, Place)>;

pub(super) fn algorithms_of(
    settings: &Settings,
    axes: &[Axis],
    only: &Only,
    registry: Registry,
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
        // A swept key set on the command line shrinks its axis; values outside it are no error.
        let shrunk = matches!(axis.place, Place::CommandLine(_));
        if let Some(stray) = values.iter().find(|v| !shrunk && !axis.values.contains(v)) {
            return Err(impossible(
                place,
                format!("algorithm.{name}.only.{short}: {stray} is not swept"),
            ));
        }
    }
    let names = &chosen(names, registry);
    let one = |name: &String| {
        let only = only
            .iter()
            .filter(|(of, ..)| of == name)
            .map(|(_, short, values, _)| (short.clone(), values.clone()))
            .collect();
        Ok(Algorithm {
            name: name.clone(),
            protocol: protocol_of(name, settings, place, names.len() == 1, registry)?,
            only,
        })
    };
    let algorithms = names.iter().map(one).collect::<Result<_, _>>()?;
    all_constants_are_used(names, settings, registry)?;
    Ok(algorithms)
}

/// Fails for a constant that is set for all algorithms of the run and that none of them has.
fn all_constants_are_used(
    names: &[String],
    settings: &Settings,
    registry: Registry,
) -> Result<(), ScenarioError> {
    let second = settings.word("mix.second");
    let names: Vec<&str> = names.iter().map(String::as_str).chain(second).collect();
    for (path, setting) in settings.below("cc.") {
        let constant = path.trim_start_matches("cc.");
        let value = setting.value.to_string();
        let has = |name: &&str| has_constant(name, (constant, &value), registry);
        if !names.iter().any(has) {
            let why = format!("none of {} has a constant \"{constant}\"", names.join(", "));
            return Err(impossible(&setting.place, why));
        }
    }
    Ok(())
}

/// Returns true if the named controller has this constant, whether or not it takes the value.
fn has_constant(name: &str, (constant, value): (&str, &str), registry: Registry) -> bool {
    !matches!(
        ControllerSpec::registered(registry, name, [(constant, value)]),
        Err(ControllerError::BadConstant {
            why: SetError::UnknownName,
            ..
        } | ControllerError::UnknownController { .. })
    )
}

/// The algorithm of other clients, which runs in any cell.
pub(super) fn second(
    name: &str,
    settings: &Settings,
    place: &Place,
    registry: Registry,
) -> Result<Algorithm, ScenarioError> {
    let name = canonical(name);
    Ok(Algorithm {
        name: name.to_owned(),
        protocol: protocol_of(name, settings, place, false, registry)?,
        only: Vec::new(),
    })
}

/// The algorithms of a cell whose constants differ from the scenario's.
pub(super) fn own_of(
    algorithms: &[Algorithm],
    cell: &Cell,
    settings: &Settings,
    registry: Registry,
) -> Result<BTreeMap<String, Protocol>, ScenarioError> {
    let constants = |settings: &Settings| -> Vec<(String, Value)> {
        let of_all = settings.below("cc.");
        of_all
            .map(|(path, s)| (path.to_owned(), s.value.clone()))
            .collect()
    };
    let own = constants(&cell.settings);
    if own == constants(settings) {
        return Ok(BTreeMap::new());
    }
    let place = own
        .first()
        .map_or(&Place::Scenario(String::new()), |(path, _)| {
            cell.place(path)
        })
        .clone();
    // What only some cells set is for the algorithms that have it, also where one runs alone.
    let is_of_some = |(path, value): &(String, Value)| {
        let constant = path.trim_start_matches("cc.");
        let value = value.to_string();
        let one = [(constant, value.as_str())];
        every_name(registry).any(|name| ControllerSpec::registered(registry, name, one).is_ok())
    };
    let alone = algorithms.len() == 1 && !own.iter().all(is_of_some);
    let one = |algorithm: &Algorithm| {
        let protocol = protocol_of(&algorithm.name, &cell.settings, &place, alone, registry)?;
        Ok((algorithm.name.clone(), protocol))
    };
    algorithms.iter().map(one).collect()
}

/// The protocol of the algorithm `name`, with the scenario's constants. Where it is the `alone`
/// one, constants for all must be among its own.
fn protocol_of(
    name: &str,
    settings: &Settings,
    place: &Place,
    alone: bool,
    registry: Registry,
) -> Result<Protocol, ScenarioError> {
    let constants_of = |prefix: &str| -> Vec<(String, String, Place)> {
        settings
            .below(prefix)
            .filter_map(|(path, s)| {
                let constant = path.strip_prefix(prefix)?;
                Some((constant.to_owned(), s.value.to_string(), s.place.clone()))
            })
            .collect()
    };
    if let Some(named) = settings::algorithm(name) {
        let own = constants_of(&format!("algorithm.{name}.cc."));
        let shared = if alone {
            constants_of("cc.")
        } else {
            Vec::new()
        };
        if let Some((constant, _, place)) = own.iter().chain(&shared).next() {
            let why = format!("{name} has no constant \"{constant}\"; its settings are under tcp");
            return Err(impossible(place, why));
        }
        return Ok(Protocol::Tcp(named));
    }
    if let Some((setting, _, place)) = constants_of(&format!("algorithm.{name}.tcp.")).first() {
        let why = format!("{name} is not over TCP, so it has no tcp.{setting}");
        return Err(impossible(place, why));
    }
    let mut constants = constants_of(&format!("algorithm.{name}.cc."));
    // For all algorithms: those that have the constant take it.
    let shared = constants_of("cc.");
    for (constant, value, place) in &shared {
        if alone || has_constant(name, (constant, value), registry) {
            constants.push((constant.clone(), value.clone(), place.clone()));
        }
    }
    let place = constants.last().map_or(place, |(_, _, place)| place);
    let set = constants.iter().map(|(c, v, _)| (c.as_str(), v.as_str()));
    let controller = ControllerSpec::registered(registry, name, set).map_err(|why| {
        let hint = match &why {
            ControllerError::UnknownController { name } => near(name, registry),
            ControllerError::BadConstant { .. } => String::new(),
        };
        impossible(place, format!("{why}{hint}"))
    })?;
    Ok(Protocol::Udp(controller))
}

/// Every algorithm: controllers of datagrams, then of TCP.
pub fn every_name(registry: Registry) -> impl Iterator<Item = &'static str> {
    registry
        .names()
        .chain(settings::ALGORITHMS.iter().map(|named| named.name))
}

/// Returns true if there is an algorithm of that name.
pub fn is_known(name: &str, registry: Registry) -> bool {
    let name = canonical(name);
    every_name(registry).any(|known| known == name)
}

/// Names, with every pattern replaced by the algorithms it fits, each once; `all` is every one
/// over UDP.
fn chosen(names: &[String], registry: Registry) -> Vec<String> {
    let fitting = names.iter().flat_map(|name| {
        let is_all = |known: &str| name == "all" && settings::algorithm(known).is_none();
        let mut fitting: Vec<String> = every_name(registry)
            .filter(|known| is_all(known) || is_pattern(name) && fits(known, name))
            .map(str::to_owned)
            .collect();
        if fitting.is_empty() {
            // A name or an alias, or a pattern to be complained about.
            fitting.push(canonical(name).to_owned());
        }
        fitting
    });
    distinct(fitting)
}

/// The algorithms whose names are near to a wrong one, as the end of a message.
pub(super) fn near(wrong: &str, registry: Registry) -> String {
    let near: Vec<String> = nearest(wrong, every_name(registry))
        .enumerate()
        .map(|(k, near)| match k {
            0 => format!("; did you mean \"{near}\"?"),
            1 => format!(" Others near: \"{near}\""),
            _ => format!(", \"{near}\""),
        })
        .collect();
    near.concat()
}
