//! Which controllers a script is replayed under, and with what.

use std::fmt;

use carob_cc::TransmissionParameters;
use carob_cc::constants::SetError;
use carob_cc::ratio::Ratio;
use carob_cc::registry::{canonical, nearest};
use carob_cc::time::Duration;
use carob_sim::registry::{Entry, Registry, UnknownName};
use carob_sim::spec::{ControllerError, ControllerSpec};

use super::{Dither, Run, Script};
use crate::pattern::fits;
use crate::scenario::keys::distance;

/// Controllers that differ most, in the order they are shown, as far as there are such.
const DIFFERENT: &[&str] = &[
    "default",
    "default-fb2",
    "cocoa-plus",
    "cocoa-03",
    "fasor",
    "rtt-count",
    "linux-rto",
    "peak-hopper",
];

/// Transmission parameters that can be set.
const PARAMETERS: &[&str] = &[
    "ack_timeout",
    "ack_random_factor",
    "max_retransmit",
    "rto_max",
];

/// A controller with its constants, and the transmission parameters it runs with.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The controller.
    pub controller: ControllerSpec,
    /// RFC 7252's defaults, overridden by the profile's suggestions and then by explicit settings.
    pub parameters: TransmissionParameters,
}

/// Why there are no subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectError {
    /// No controller has this name or fits this pattern.
    Name {
        /// As it was typed.
        typed: String,
        /// Those whose names are near.
        near: Vec<&'static str>,
    },
    /// A setting that cannot be.
    Set {
        /// As it was typed.
        typed: String,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for SubjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { typed, .. } if typed.contains('*') => {
                write!(f, "--algorithm {typed}: unknown controller \"{typed}\"")
            }
            Self::Name { typed, near } => {
                let unknown = UnknownName {
                    name: typed.clone(),
                    near: near.clone(),
                };
                write!(f, "--algorithm {typed}: {unknown}")
            }
            Self::Set { typed, why } => write!(f, "--set {typed}: {why}"),
        }
    }
}

impl std::error::Error for SubjectError {}

impl Subject {
    /// Controllers by name, with settings such as `cc.k_weak=4` and `rto_max=60 s`.
    ///
    /// A name may have `*` for any text, and `all` is every controller; without names it is those
    /// that differ most. Constants are taken by those controllers that have them.
    pub fn all(names: &[String], set: &[String]) -> Result<Vec<Self>, SubjectError> {
        Self::registered(Registry::BUILT_IN, names, set)
    }

    /// As [`all`](Self::all), with the controllers of a registry.
    pub fn registered(
        registry: Registry,
        names: &[String],
        set: &[String],
    ) -> Result<Vec<Self>, SubjectError> {
        let (mut constants, mut parameters) = (Vec::new(), Vec::new());
        for typed in set {
            let wrong = |why: String| SubjectError::Set {
                typed: typed.clone(),
                why,
            };
            let (key, value) = typed
                .split_once('=')
                .map(|(key, value)| (key.trim(), value.trim()))
                .ok_or_else(|| wrong("expected KEY=VALUE, such as cc.k_weak=4".to_owned()))?;
            match key.strip_prefix("cc.") {
                Some(constant) => constants.push((typed, constant, value)),
                None => parameters.push((typed, key, value)),
            }
        }
        let chosen = choose(names, registry)?;
        let mut taken = vec![false; constants.len()];
        let mut subjects = Vec::new();
        for entry in &chosen {
            let mut own = Vec::new();
            for ((typed, constant, value), taken) in constants.iter().zip(&mut taken) {
                match ControllerSpec::registered(registry, entry.name, [(*constant, *value)]) {
                    Ok(_) => {
                        own.push((*constant, *value));
                        *taken = true;
                    }
                    Err(ControllerError::BadConstant {
                        why: SetError::UnknownName,
                        ..
                    }) => {}
                    Err(why) => {
                        return Err(SubjectError::Set {
                            typed: (*typed).clone(),
                            why: why.to_string(),
                        });
                    }
                }
            }
            let controller = ControllerSpec::registered(registry, entry.name, own)
                .expect("name and constants were tried above");
            let mut own = entry.suggested.apply(TransmissionParameters::DEFAULT);
            // The controller's timers, without the stack's bounds.
            own.safeguards = false;
            for (typed, key, value) in &parameters {
                apply(&mut own, key, value).map_err(|why| SubjectError::Set {
                    typed: (*typed).clone(),
                    why,
                })?;
            }
            subjects.push(Self {
                controller,
                parameters: own,
            });
        }
        match constants.iter().zip(&taken).find(|(_, taken)| !**taken) {
            None => Ok(subjects),
            Some(((typed, constant, _), _)) => Err(SubjectError::Set {
                typed: (*typed).clone(),
                why: unknown_constant(constant, &chosen),
            }),
        }
    }

    /// Runs a script under it.
    pub fn run(&self, script: &Script, dither: Dither) -> Run {
        Run::of(script, &self.controller, &self.parameters, dither)
    }
}

/// The controllers of names and patterns, each once, in the order they are named.
fn choose(names: &[String], registry: Registry) -> Result<Vec<Entry>, SubjectError> {
    let mut chosen: Vec<Entry> = Vec::new();
    let mut add = |entry: Entry| {
        if chosen.iter().all(|known| known.name != entry.name) {
            chosen.push(entry);
        }
    };
    if names.is_empty() {
        for name in DIFFERENT {
            registry.find(name).map(&mut add).ok();
        }
        return Ok(chosen);
    }
    for typed in names {
        let pattern = if typed == "all" { "*" } else { typed };
        let mut found = registry
            .entries()
            .filter(|entry| fits(entry.name, canonical(pattern)))
            .peekable();
        if found.peek().is_none() {
            return Err(SubjectError::Name {
                typed: typed.clone(),
                near: near(typed, registry),
            });
        }
        found.for_each(&mut add);
    }
    Ok(chosen)
}

/// The names of controllers that are near to a wrong one, the nearest first.
fn near(wrong: &str, registry: Registry) -> Vec<&'static str> {
    nearest(wrong, registry.names()).collect()
}

fn unknown_constant(constant: &str, chosen: &[Entry]) -> String {
    let mut nearest: Option<(usize, &'static str)> = None;
    for entry in chosen {
        entry.settings().describe(&mut |known| {
            let found = (distance(constant, known.name), known.name);
            nearest = Some(nearest.map_or(found, |before| before.min(found)));
        });
    }
    let near = nearest
        .filter(|(distance, _)| *distance <= constant.chars().count().div_ceil(3))
        .map(|(_, name)| format!("; did you mean cc.{name}?"))
        .unwrap_or_default();
    match chosen {
        [one] => format!("{} has no constant \"{constant}\"{near}", one.name),
        _ => format!("none of the controllers has a constant \"{constant}\"{near}"),
    }
}

/// Sets a transmission parameter.
fn apply(parameters: &mut TransmissionParameters, key: &str, value: &str) -> Result<(), String> {
    const A_TIME: &str = "expected a time longer than 0, such as 400 ms";
    let time = || -> Option<Duration> { value.parse().ok().filter(|t: &Duration| !t.is_zero()) };
    match key.strip_prefix("transmission.").unwrap_or(key) {
        "ack_timeout" => parameters.ack_timeout = time().ok_or(A_TIME)?,
        "ack_random_factor" => {
            let factor: Option<Ratio> = value.parse().ok();
            let factor = factor.filter(|factor| factor.of(1_000_000) >= 1_000_000);
            parameters.ack_random_factor = factor.ok_or("expected a number of at least 1")?;
        }
        "max_retransmit" => {
            let most = TransmissionParameters::MAX_RETRANSMIT_LIMIT;
            let count = value.parse().ok().filter(|count| *count <= most);
            parameters.max_retransmit =
                count.ok_or_else(|| format!("expected a whole number from 0 to {most}"))?;
        }
        "rto_max" if value == "none" => parameters.rto_max = None,
        "rto_max" => {
            let cap = time().ok_or_else(|| format!("{A_TIME}, or none"))?;
            parameters.rto_max = Some(cap);
        }
        other => {
            let near = PARAMETERS
                .iter()
                .map(|known| (distance(other, known), *known))
                .min()
                .filter(|(distance, _)| *distance <= other.chars().count().div_ceil(3));
            let near = near.map_or_else(String::new, |(_, name)| format!("; did you mean {name}?"));
            let known = PARAMETERS.join(", ");
            return Err(format!(
                "unknown key \"{other}\", expected cc.CONSTANT, {known}{near}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    fn names(typed: &[&str]) -> Vec<&'static str> {
        let subjects = Subject::all(&strings(typed), &[]).expect("controllers");
        let name = |subject: &Subject| subject.controller.entry().name;
        subjects.iter().map(name).collect()
    }

    fn refused(names: &[&str], set: &[&str]) -> String {
        let refused = Subject::all(&strings(names), &strings(set));
        refused.expect_err("refused").to_string()
    }

    #[test]
    fn name_patterns_select_each_controller_once() {
        assert_eq!(
            names(&["cocoa-03", "default", "cocoa-03"]),
            ["cocoa-03", "default"]
        );
        let cocoa = names(&["default", "cocoa-*"]);
        assert!(
            cocoa[0] == "default" && cocoa.contains(&"cocoa-plus"),
            "{cocoa:?}"
        );
        assert!(cocoa[1..].iter().all(|name| name.starts_with("cocoa-")));
        assert_eq!(names(&["all"]).len(), Registry::BUILT_IN.names().count());
        assert_eq!(names(&["*fault"]), ["default"]);
        assert!(names(&[]).starts_with(&["default"]) && names(&[]).contains(&"cocoa-03"));
    }

    #[test]
    fn unknown_name_suggests_similar_ones() {
        let error = Subject::all(&strings(&["cocoa-3"]), &[]).expect_err("no such controller");
        let SubjectError::Name { near, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(near.first(), Some(&"cocoa-03"));
        assert!(near.len() <= 3);
        assert_eq!(
            error.to_string(),
            "--algorithm cocoa-3: unknown controller \"cocoa-3\"; did you mean \"cocoa-03\"? \
             Others near: \"cocoa-s\", \"cocoa-e\""
        );
        assert_eq!(
            super::near("xyzzy-quux-frobnicate", Registry::BUILT_IN),
            [""; 0]
        );
        assert!(refused(&["zz*"], &[]).contains("unknown controller \"zz*\""));
    }

    #[test]
    fn explicit_settings_override_suggestions() {
        let set = [
            "cc.k_weak=4",
            "rto_max=none",
            "max_retransmit = 2",
            "ack_timeout=1 s",
        ];
        let subjects = Subject::all(&strings(&["default", "cocoa-001"]), &strings(&set));
        let subjects = subjects.expect("controllers");
        let parameters = subjects[1].parameters;
        assert_eq!((parameters.rto_max, parameters.max_retransmit), (None, 2));
        assert_eq!(parameters.ack_timeout, Duration::from_secs(1));
        let cocoa = Subject::all(&strings(&["cocoa-001"]), &[]).expect("a controller");
        assert_eq!(cocoa[0].parameters.max_retransmit, 20);
        // Only one of them has the constant.
        assert!(
            subjects[1]
                .controller
                .settings()
                .to_string()
                .contains("k_weak = 4")
        );
    }

    #[test]
    fn invalid_settings_error_names_the_expectation() {
        for (set, said) in [
            ("k_weak", "expected KEY=VALUE"),
            (
                "cc.k_weak=many",
                "cc.k_weak = \"many\": expected a whole number",
            ),
            (
                "cc.k_weka=4",
                "no constant \"k_weka\"; did you mean cc.k_weak?",
            ),
            ("ack_timeout=0 s", "expected a time longer than 0"),
            ("ack_random_factor=0.5", "expected a number of at least 1"),
            ("max_retransmit=31", "expected a whole number from 0 to 30"),
            ("rto_max=long", "or none"),
            ("rto_mx=60 s", "did you mean rto_max?"),
        ] {
            let error = refused(&["cocoa-03"], &[set]);
            assert!(error.starts_with(&format!("--set {set}: ")), "{error}");
            assert!(error.contains(said), "{error}");
        }
    }
}
