//! One cell of a scenario, and its runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use carob_cc::TransmissionParameters;
use carob_sim::hash::fnv1a;
use carob_sim::link::LinkTrace;
use carob_sim::registry::Registry;
use carob_sim::spec::{
    ClientGroup, ControllerSpec, NetworkSpec, Recording, RunSpec, Transport, Until,
};

use super::algorithm::{Algorithm, Protocol};
use super::cases::{Cases, Change};
use super::error::{Place, ScenarioError};
use super::fields::Fields as _;
use super::settings::Settings;
use super::value::Value;
use super::{
    Axis, Setting, device, faults, impossible, keys, link, mesh, missing, mix, notifications,
    queue, server, tcp, workload,
};

keys! {
    /// Keys of runs.
    pub(super) RUN_KEYS;

    "run.algorithms", Texts, -,
        "Controllers to compare.";
    "run.seeds", Whole(1, 1_000_000), "20",
        "Runs per cell and algorithm.";
    "run.first_seed", Whole(0, u64::MAX >> 1), "1",
        "Seed of the first run.";
    "run.time_limit", Time, "12 h",
        "Simulated time after which a run is cut off.";
    "run.until", Word(&["answered", "closed", "time-limit"]), "answered",
        "When a run is over: when every client has its last response, when all connections are closed, too, or at `run.time_limit` regardless of clients.";
    "run.network", Word(&["link", "mesh"]), "link",
        "The network that clients and servers share: a link, or a wireless network of many hops, on whose nodes the clients are spread.";
}

keys! {
    /// Keys of transmission parameters: under `transmission` for every algorithm, under
    /// `algorithm.<name>` for one. Without them the profile's suggestion and RFC 7252 4.8 hold.
    pub TRANSMISSION_KEYS;

    TransmissionParameters {
        ack_timeout: "ack_timeout", Time, -,
            "ACK_TIMEOUT.";
        ack_random_factor: "ack_random_factor", Number, -,
            "ACK_RANDOM_FACTOR, at least 1.";
        max_retransmit: "max_retransmit", Whole(0, TransmissionParameters::MAX_RETRANSMIT_LIMIT as u64), -,
            "MAX_RETRANSMIT.";
        nstart: "nstart", Whole(1, u16::MAX as u64), -,
            "NSTART.";
        probing_rate: "probing_rate", Whole(1, u32::MAX as u64), -,
            "PROBING_RATE in bytes per second.";
        rto_max: "rto_max", TimeOrNone, -,
            "Cap on backed-off timers, or `none`; of TCP's, too, unless `tcp.rto_max` says more.";
        safeguards: "safeguards", Word(&["on", "off"]), -,
            "Rules of this stack for every controller, on by default: first timers drawn over a range, timers of 200 ms and more that never shrink, retransmission for MAX_TRANSMIT_SPAN. `off` runs a controller as published.";
    }
}

/// One combination of swept values.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name within the study, such as `long-1c-none-2500`.
    pub name: String,
    /// The swept values, as (key, value), in the order of the name.
    pub values: Vec<(String, Value)>,
    /// A hash of every setting that decides its outcomes.
    pub hash: u64,
    /// The study's cell whose printed values are comparable, as `<study>/<cell>`.
    pub compare_with: String,
    /// The same where the command line changes the link or the workload, so that those values are
    /// not comparable and `compare_with` is empty; with the keys that it changes.
    pub not_compared: Option<(String, Vec<String>)>,
    /// Changes by the command line besides swept keys, as (short key, value).
    pub changed: Vec<(String, Value)>,
    /// True if it runs where no cell was named.
    pub is_default: bool,
    /// The algorithm of other clients that share the link, if there are any.
    pub second: Option<Algorithm>,
    /// Algorithms whose constants are of this cell alone, by name (`where.<name>.cc.<constant>`).
    pub(super) own: BTreeMap<String, Protocol>,
    /// Traces of the link by direction.
    pub(super) traces: BTreeMap<&'static str, Arc<LinkTrace>>,
    pub(super) settings: Settings,
    /// The controllers that its keys may name.
    pub(super) registry: Registry,
}

impl Cell {
    pub(super) fn new(
        template: &str,
        axes: &[Axis],
        combination: &[&Value],
        settings: &Settings,
        cases: &Cases,
        registry: Registry,
    ) -> Result<Self, ScenarioError> {
        let fill = |template: &str| {
            let filled = axes.iter().zip(combination);
            filled.fold(template.to_owned(), |text, (axis, value)| {
                text.replace(&format!("{{{}}}", axis.short), &value.bare())
            })
        };
        let name = fill(template);
        let compare_with = settings.word("compare_with").map_or_else(
            || format!("{}/{name}", settings.word("study").unwrap_or_default()),
            fill,
        );
        let (mut settings, mut values) = (settings.clone(), Vec::new());
        for (axis, value) in axes.iter().zip(combination) {
            let setting = Setting {
                value: (*value).clone(),
                place: axis.place.clone(),
            };
            settings.insert(axis.path.clone(), setting);
            values.push((axis.short.clone(), (*value).clone()));
        }
        cases.apply(&values, &mut settings)?;
        Ok(Self {
            name,
            is_default: cases.is_default(&values),
            second: mix::second(&settings, registry)?,
            own: BTreeMap::new(),
            traces: BTreeMap::new(),
            not_compared: None,
            changed: Vec::new(),
            values,
            hash: fnv1a(settings.decisive_text().as_bytes()),
            compare_with,
            settings,
            registry,
        })
    }

    /// Records the changes of the command line.
    pub(super) fn change(&mut self, changes: &[Change]) {
        let is_swept = |change: &&Change| self.values.iter().any(|(key, _)| *key == change.key);
        let fixed = changes.iter().filter(|change| !is_swept(change));
        self.changed = fixed
            .map(|change| (change.key.clone(), change.value.clone()))
            .collect();
        let rule_out = changes.iter().filter(|c| c.is_of_network_or_workload());
        let keys: Vec<String> = rule_out.map(|change| change.path.clone()).collect();
        if !keys.is_empty() {
            self.not_compared = Some((std::mem::take(&mut self.compare_with), keys));
        }
    }

    /// Its name with the changes of the command line, such as `default-none, loss 5 %`.
    pub fn title(&self) -> String {
        const SHOWN_MAX: usize = 40;
        let changes = self.changed.iter();
        let texts: Vec<String> = changes
            .map(|(key, value)| format!("{key} {value}"))
            .collect();
        let text = texts.join(", ");
        match texts.len() {
            0 => self.name.clone(),
            n if text.chars().count() > SHOWN_MAX => match n {
                1 => format!("{}, {} changed", self.name, self.changed[0].0),
                _ => format!("{}, {n} keys changed", self.name),
            },
            _ => format!("{}, {text}", self.name),
        }
    }

    /// The value of a swept key.
    pub fn value(&self, short: &str) -> Option<&Value> {
        self.values
            .iter()
            .find(|(key, _)| key == short)
            .map(|(_, value)| value)
    }

    /// Its swept values for the machine interface, and those that the command line changes.
    pub fn to_json(&self) -> serde_json::Map<String, serde_json::Value> {
        self.values
            .iter()
            .chain(&self.changed)
            .map(|(key, value)| (key.clone(), value.to_json()))
            .collect()
    }

    /// The value of any key in this cell, in canonical text.
    pub fn setting(&self, path: &str) -> Option<String> {
        self.settings.get(path).map(|s| s.value.to_string())
    }

    pub(super) fn spec(&self, algorithm: &Algorithm, seed: u64) -> Result<RunSpec, ScenarioError> {
        let measured = self.group(algorithm)?;
        let spec = RunSpec {
            seed,
            network: if mesh::is_one(&self.settings) {
                NetworkSpec::Mesh(mesh::of(self)?)
            } else {
                NetworkSpec::Link(link::of(self)?)
            },
            server: server::of(self, measured.transport)?,
            measured,
            others: mix::others(self)?,
            faults: faults::of(self)?,
            until: match self.text("run.until")? {
                "closed" => Until::Closed,
                "time-limit" => Until::TimeLimit,
                _ => Until::Answered,
            },
            time_limit: self.get("run.time_limit")?,
            record: Recording::default(),
        };
        notifications::check(self, &spec)?;
        mesh::check(self, &spec)?;
        faults::check(self, &spec)?;
        queue::check(self, &spec)?;
        device::check(self, &spec)?;
        Ok(spec)
    }

    /// The clients that run an algorithm.
    pub(super) fn group(&self, algorithm: &Algorithm) -> Result<ClientGroup, ScenarioError> {
        let mtu = self.get("link.mtu")?;
        let header = self.get("link.header")?;
        let own = self.own.get(&algorithm.name).copied();
        let (transport, controller) = match own.unwrap_or(algorithm.protocol) {
            Protocol::Udp(controller) => (Transport::Datagrams, controller),
            Protocol::Tcp(named) => {
                let settings = tcp::settings_of(&self.settings, named, mtu)?;
                (Transport::Connections(settings), ControllerSpec::default())
            }
        };
        let is_over_link = transport == Transport::Datagrams && !mesh::is_one(&self.settings);
        let in_blocks = is_over_link.then_some((mtu, header));
        Ok(ClientGroup {
            clients: self.get(workload::clients(self)?)?,
            start: self.get("workload.start_spread")?,
            transport,
            workload: workload::of(self, in_blocks)?,
            transmission: self.transmission(&algorithm.name, &controller)?,
            controller,
        })
    }

    fn transmission(
        &self,
        algorithm: &str,
        controller: &ControllerSpec,
    ) -> Result<TransmissionParameters, ScenarioError> {
        let suggested = controller.entry().suggested;
        let mut parameters = suggested.apply(TransmissionParameters::DEFAULT);
        for from_command_line in [false, true] {
            for table in [
                "transmission.".to_owned(),
                format!("algorithm.{algorithm}."),
            ] {
                for (path, setting) in self.settings.below(&table) {
                    let typed = matches!(setting.place, Place::CommandLine(_));
                    if typed == from_command_line {
                        let name = &path[table.len()..];
                        let set = parameters.set(|key| (key == name).then_some(&setting.value));
                        set.map_err(|_| self.wrong_kind(path))?;
                    }
                }
            }
        }
        let path = "transmission.ack_random_factor";
        if parameters.ack_random_factor.of(1_000_000) < 1_000_000 {
            let why = "ack_random_factor is below 1 (RFC 7252 4.8)";
            return Err(impossible(self.place(path), why));
        }
        let path = "transmission.ack_timeout";
        if parameters.ack_timeout.is_zero() {
            return Err(impossible(
                self.place(path),
                "ack_timeout is 0 (RFC 7252 4.8)",
            ));
        }
        Ok(parameters)
    }

    /// Refuses keys that are set without the key that they [need](keys::Key::needs).
    pub(super) fn check_needs(&self) -> Result<(), ScenarioError> {
        for key in keys::all() {
            if let Some(needs) = key.needs
                && !self.has(needs)
                && !matches!(self.place(key.path), Place::Scenario(_))
            {
                let why = format!("{} needs {needs}, which is not set", key.path);
                return Err(impossible(self.place(key.path), why));
            }
        }
        Ok(())
    }

    pub(super) fn value_of(&self, path: &str) -> Result<&Value, ScenarioError> {
        self.settings
            .get(path)
            .map(|s| &s.value)
            .ok_or_else(|| missing(&Place::Scenario(self.name.clone()), path))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.settings.contains_key(path)
    }

    pub(super) fn place(&self, path: &str) -> &Place {
        static NOWHERE: Place = Place::Scenario(String::new());
        self.settings.get(path).map_or(&NOWHERE, |s| &s.place)
    }

    /// The kind of a key and the type of its field disagree: unreachable with a scenario that was read.
    pub(super) fn wrong_kind(&self, path: &str) -> ScenarioError {
        impossible(
            self.place(path),
            format!("{path} has a value of another kind"),
        )
    }

    pub(super) fn text(&self, path: &str) -> Result<&str, ScenarioError> {
        let word = self.value_of(path)?.word();
        word.ok_or_else(|| self.wrong_kind(path))
    }

    /// The value of a key without default, if it is set.
    pub(super) fn if_set<T>(
        &self,
        path: &str,
        get: impl Fn(&Self, &str) -> Result<T, ScenarioError>,
    ) -> Result<Option<T>, ScenarioError> {
        self.has(path).then(|| get(self, path)).transpose()
    }
}
