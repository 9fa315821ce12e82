//! Description of a scenario: every key with its value and where that came from.

use carob_cc::TransmissionParameters;
use carob_sim::spec::Transport;

use super::algorithm::Protocol;
use super::error::Place;
use super::keys;
use super::mesh;
use super::tcp::{self, TcpSetting};
use super::value::Value;
use super::{Algorithm, Cell, Scenario, Setting};
use crate::text::distinct;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default of the key, or of RFC 7252 for a transmission parameter.
    Default,
    /// The default of the controller's profile.
    Profile,
    /// The scenario file, at this line.
    File(usize),
    /// The scenario's sweep, at this line of the file.
    Sweep(usize),
    /// The command line.
    CommandLine,
}

impl Origin {
    fn of(place: &Place) -> Self {
        match place {
            Place::File { line, .. } => Self::File(*line),
            Place::CommandLine(_) | Place::Algorithms(_) => Self::CommandLine,
            Place::Program(_) | Place::Scenario(_) => Self::Default,
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Profile => f.write_str("profile"),
            Self::File(line) => write!(f, "scenario, line {line}"),
            Self::Sweep(line) => write!(f, "sweep, line {line}"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The key's full path.
    pub path: String,
    /// Its value with unit; several if it is swept.
    pub values: Vec<Value>,
    /// Where the value came from.
    pub origin: Origin,
    /// Meaning of the key.
    pub about: &'static str,
}

impl Described {
    /// The value with its unit as text, or all values of a sweep.
    pub fn text(&self) -> String {
        let texts: Vec<String> = self.values.iter().map(Value::to_string).collect();
        texts.join(", ")
    }
}

/// A transmission parameter as one algorithm has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name as a key.
    pub name: &'static str,
    /// Its value with unit.
    pub value: String,
    /// Where the value came from.
    pub origin: Origin,
}

impl Scenario {
    /// Every key that has a value, in the order of the reference: of one cell, or of the whole
    /// scenario with all swept values.
    ///
    /// Settings of single algorithms are not among them; see
    /// [`transmission`](Self::transmission) and [`Algorithm::controller`].
    pub fn describe(&self, cell: Option<&Cell>) -> Vec<Described> {
        let settings = cell.map_or(&self.settings, |cell| &cell.settings);
        let applicable = mesh::Applicability::of(settings);
        let concerned = keys::all().filter(|key| applicable.covers(key.path));
        let fixed = concerned.filter_map(|key| {
            let varying = self.varying(key.path);
            // Only cells know a swept key's value.
            let setting = match (varying.is_empty(), self.cells.first()) {
                (false, Some(first)) if cell.is_none() => first.settings.get(key.path)?,
                _ => settings.get(key.path)?,
            };
            let values = match (cell, varying.is_empty()) {
                (None, false) => varying,
                _ => vec![setting.value.clone()],
            };
            let origin = match Origin::of(&setting.place) {
                Origin::File(line) if self.is_swept(key.path) => Origin::Sweep(line),
                origin => origin,
            };
            Some(Described {
                path: key.path.to_owned(),
                values,
                origin,
                about: key.about,
            })
        });
        let shared = settings.iter().filter_map(|(path, setting)| {
            let about = match path.split_once('.')? {
                ("transmission", name) => {
                    let named = |k: &&keys::Key| k.path == name;
                    keys::TRANSMISSION_KEYS.iter().find(named)?.about
                }
                ("cc", _) => "A constant of every controller that has it.",
                ("tcp", name) => tcp::keys().find(|k| k.name == name)?.about,
                _ => return None,
            };
            Some(Described {
                path: path.to_owned(),
                values: vec![setting.value.clone()],
                origin: Origin::of(&setting.place),
                about,
            })
        });
        fixed.chain(shared).collect()
    }

    /// The distinct values of a key that differs between cells, in order; none if it does not.
    fn varying(&self, path: &str) -> Vec<Value> {
        let settings = self.cells.iter().filter_map(|cell| cell.settings.get(path));
        let mut values = distinct(settings.map(|setting| setting.value.clone()));
        if values.len() < 2 && !self.is_swept(path) {
            values.clear();
        }
        values
    }

    fn is_swept(&self, path: &str) -> bool {
        // Every cell has the same axes.
        let axes = self.cells.first().map(|cell| &cell.values);
        let mut shorts = axes.into_iter().flatten().map(|(short, _)| short);
        shorts.any(|short| keys::resolve(short).is_ok_and(|found| found.path == path))
    }

    /// The settings of TCP of an algorithm in a cell; none over UDP.
    pub fn tcp(&self, cell: &Cell, algorithm: &Algorithm) -> Vec<TcpSetting> {
        let spec = self.spec(cell, algorithm, 0);
        let profile = cell.setting("tcp.profile").unwrap_or_default();
        match (spec.measured.transport, algorithm.protocol) {
            (Transport::Connections(settings), Protocol::Tcp(named)) => {
                tcp::describe(&settings, named, &profile)
            }
            _ => Vec::new(),
        }
    }

    /// The transmission parameters of an algorithm in a cell; none over TCP.
    pub fn transmission(&self, cell: &Cell, algorithm: &Algorithm) -> Vec<Parameter> {
        let Some(controller) = algorithm.controller() else {
            return Vec::new();
        };
        let parameters = self.spec(cell, algorithm, 0).measured.transmission;
        let suggested = controller.entry().suggested;
        keys::TRANSMISSION_KEYS
            .iter()
            .filter_map(|key| {
                let own = format!("algorithm.{}.{}", algorithm.name, key.path);
                let shared = format!("transmission.{}", key.path);
                // As in `Cell::transmission`: the command line overrides the file, then settings
                // of one algorithm override those for all.
                let typed = |s: &&&Setting| matches!(s.place, Place::CommandLine(_));
                let shared = cell.settings.get(&shared);
                let set: Vec<&Setting> =
                    cell.settings.get(&own).into_iter().chain(shared).collect();
                let setting = set.iter().find(typed).or_else(|| set.first());
                let profile = match key.path {
                    "max_retransmit" => suggested.max_retransmit.is_some(),
                    "rto_max" => suggested.rto_max.is_some(),
                    _ => false,
                };
                let origin = match setting {
                    Some(setting) => Origin::of(&setting.place),
                    None if profile => Origin::Profile,
                    None => Origin::Default,
                };
                Some(Parameter {
                    name: key.path,
                    value: value_of(&parameters, key.path)?,
                    origin,
                })
            })
            .collect()
    }
}

fn value_of(parameters: &TransmissionParameters, name: &str) -> Option<String> {
    Some(match name {
        "ack_timeout" => parameters.ack_timeout.to_string(),
        "ack_random_factor" => parameters.ack_random_factor.to_string(),
        "max_retransmit" => parameters.max_retransmit.to_string(),
        "nstart" => parameters.nstart.to_string(),
        "probing_rate" => format!("{} B/s", parameters.probing_rate),
        "safeguards" => if parameters.safeguards { "on" } else { "off" }.to_owned(),
        "rto_max" => parameters
            .rto_max
            .map_or_else(|| "none".to_owned(), |cap| cap.to_string()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(overrides: &[&str]) -> Scenario {
        crate::testing::scenario("thesis/long", overrides)
    }

    fn of<'a>(all: &'a [Described], path: &str) -> &'a Described {
        all.iter().find(|d| d.path == path).expect("a key")
    }

    #[test]
    fn a_family_shows_swept_values_and_a_cell_its_own() {
        let scenario = long(&[]);
        let family = scenario.describe(None);
        let error = of(&family, "link.error");
        assert_eq!(error.text(), "none, low, medium, high");
        assert!(matches!(error.origin, Origin::Sweep(_)));
        let cell = scenario.cell("long-1c-high-2500").expect("a cell");
        let cell = scenario.describe(Some(cell));
        assert_eq!(of(&cell, "link.error").text(), "high");
        assert_eq!(of(&cell, "workload.clients").text(), "1");
    }

    #[test]
    fn origins_tell_defaults_file_and_command_line_apart() {
        let scenario = long(&["block=64 B"]);
        let all = scenario.describe(None);
        let origin = |path| of(&all, path).origin.clone();
        assert_eq!(origin("workload.block"), Origin::CommandLine);
        assert!(matches!(origin("link.mtu"), Origin::File(line) if line > 1));
        assert_eq!(origin("link.error_burst_time"), Origin::Default);
        assert!(matches!(
            origin("transmission.max_retransmit"),
            Origin::File(_)
        ));
    }

    #[test]
    fn every_transmission_parameter_has_a_value_and_an_origin() {
        let scenario = long(&["rto_max=32 s"]);
        let cell = &scenario.cells()[0];
        for algorithm in &scenario.algorithms()[..2] {
            let all = scenario.transmission(cell, algorithm);
            assert_eq!(all.len(), keys::TRANSMISSION_KEYS.len());
            let rto_max = all.iter().find(|p| p.name == "rto_max").expect("a key");
            assert_eq!(
                (rto_max.value.as_str(), &rto_max.origin),
                ("32 s", &Origin::CommandLine)
            );
        }
        let plain = long(&[]);
        let cocoa = &plain.algorithms()[1];
        let all = plain.transmission(&plain.cells()[0], cocoa);
        let of = |name| {
            all.iter()
                .find(|p| p.name == name)
                .map(|p| p.origin.clone())
        };
        assert_eq!(of("rto_max"), Some(Origin::Profile));
        assert_eq!(of("ack_timeout"), Some(Origin::Default));
        assert!(matches!(of("max_retransmit"), Some(Origin::File(_))));
    }
}
