//! One cell of a scenario, and its runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use carob_cc::TransmissionParameters;
use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use carob_sim::distribution::TimeDistribution;
use carob_sim::hash::fnv1a;
use carob_sim::link::{
    self, Buffer, DirectionSpec, ExtraDelay, LinkSpec, LinkTrace, LossProfile, LossSpec,
};
use carob_sim::random::Probability;
use carob_sim::registry::Registry;
use carob_sim::spec::{
    ClientGroup, ControllerSpec, LinkNetworkSpec, NetworkSpec, Recording, RunSpec, Span, Transport,
    Until,
};

use super::algorithm::{Algorithm, Protocol};
use super::cases::Cases;
use super::cases::Change;
use super::error::{Place, ScenarioError};
use super::settings::Settings;
use super::value::Value;
use super::{
    Axis, Setting, device, faults, impairments, impossible, keys, mesh, missing, mix,
    notifications, path_changes, queue, server, tcp, trace, workload,
};

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
        let text_of = |path: &str| match settings.get(path).map(|s| &s.value) {
            Some(Value::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let compare_with = text_of("compare_with").map_or_else(
            || format!("{}/{name}", text_of("study").unwrap_or_default()),
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
                NetworkSpec::Link(self.link()?)
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
            time_limit: self.time("run.time_limit")?,
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
        let mtu = self.bytes("link.mtu")?;
        let header = self.bytes("link.header")?;
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
            clients: self.whole(workload::clients(self)?)? as u32,
            start: self.span("workload.start_spread")?,
            transport,
            workload: workload::of(self, in_blocks)?,
            transmission: self.transmission(&algorithm.name, &controller)?,
            controller,
        })
    }

    fn link(&self) -> Result<LinkNetworkSpec, ScenarioError> {
        let mtu = self.bytes("link.mtu")?;
        Ok(LinkNetworkSpec {
            link: LinkSpec {
                down: self.direction("down", mtu)?,
                up: self.direction("up", mtu)?,
            },
            header_bytes: self.bytes("link.header")? as u32,
            mtu_bytes: mtu as u32,
            device: device::of(self)?,
        })
    }

    fn direction(&self, name: &str, mtu: u64) -> Result<DirectionSpec, ScenarioError> {
        let rate_path = format!("link.{name}.rate");
        let of_trace = self
            .traces
            .get(name)
            .and_then(|trace| trace.mean_rate_bps());
        let rate_bps = match (of_trace, self.settings.get(&rate_path)) {
            (Some(mean), None) => mean,
            _ => self.own_rate(&rate_path)?,
        };
        let own = format!("link.{name}.buffer");
        let path = if self.settings.contains_key(&own) {
            own.as_str()
        } else {
            "link.buffer"
        };
        let buffer = match *self.value_of(path)? {
            Value::Packets(packets) => Buffer::packets(packets),
            _ => Buffer::bytes(self.bytes(path)?),
        };
        if buffer.bytes < mtu {
            let bytes = buffer.bytes;
            let why = format!("{path} is {bytes} B, too small for a packet of link.mtu ({mtu} B)");
            return Err(impossible(self.place(path), why));
        }
        let own = format!("link.{name}.extra_delay");
        let path = if self.has(&own) {
            &own
        } else {
            "link.extra_delay"
        };
        let extra = self.distribution(path)?;
        let directions = self.text("link.error_directions")?;
        let lossy = directions == "both" || directions == name;
        Ok(DirectionSpec {
            rate_bps,
            buffer: buffer.with(self.discipline(mtu, rate_bps)?),
            delay: self.delay(name)?,
            extra: match extra {
                TimeDistribution::Uniform { low, high } if low == high => ExtraDelay::Constant(low),
                TimeDistribution::Uniform { low, high } => ExtraDelay::Uniform { low, high },
                drawn => ExtraDelay::Drawn(drawn),
            },
            loss: self.loss_of(name, lossy)?,
            replay: trace::replay(self, name)?,
            changes: path_changes::of(self, name)?,
            impairments: impairments::of(self, lossy, mtu)?,
        })
    }

    pub(super) fn own_rate(&self, path: &str) -> Result<u64, ScenarioError> {
        let bps = self.rate(path)?;
        if bps == 0 {
            let why = format!("{path} is 0, so nothing would ever arrive");
            return Err(impossible(self.place(path), why));
        }
        Ok(bps)
    }

    fn delay(&self, name: &str) -> Result<Duration, ScenarioError> {
        let delay = self.time(&format!("link.{name}.delay"))?;
        Ok(match self.text("link.delay_of")? {
            "round-trip" => delay.half(),
            _ => delay,
        })
    }

    /// The loss of a direction, or of both if it is lossy.
    fn loss_of(&self, name: &str, is_lossy: bool) -> Result<LossSpec, ScenarioError> {
        let own = format!("link.{name}.loss");
        if !self.has(&own) {
            return if is_lossy {
                self.loss()
            } else {
                Ok(LossSpec::None)
            };
        }
        let error = self.text("link.error")?;
        match self.ppm(&own)? {
            _ if error != "none" => {
                let why = format!(
                    "{own} and link.error = \"{error}\" both say what is lost; set error = \"none\""
                );
                Err(impossible(self.place(&own), why))
            }
            0 => Ok(LossSpec::None),
            ppm => self.gilbert(ppm),
        }
    }

    fn loss(&self) -> Result<LossSpec, ScenarioError> {
        let path = "link.error";
        match self.ppm("link.loss")? {
            0 => {}
            ppm if self.text(path)? == "none" => return self.gilbert(ppm),
            _ => {
                let error = self.text(path)?;
                let why = format!(
                    "link.loss and link.error = \"{error}\" both say what is lost; set error = \"none\""
                );
                return Err(impossible(self.place("link.loss"), why));
            }
        }
        let mut profile: LossProfile =
            *link::profile(self.text(path)?).ok_or_else(|| self.wrong_kind(path))?;
        if profile.error_fraction_ppm > 0
            && let Ok(Value::Percent(ppm)) = self.value_of("link.error_fraction")
        {
            profile.error_fraction_ppm = *ppm;
        }
        let (loss, path) = if self.text("link.error_clock")? == "time" {
            let path = "link.error_burst_time";
            let shared = self.text("link.error_states")? == "shared";
            (profile.per_time(self.time(path)?, shared), path)
        } else {
            let path = "link.error_burst_packets";
            let milli = u32::try_from(self.number(path)?.of(1_000)).unwrap_or(u32::MAX);
            (profile.per_packet(milli), path)
        };
        loss.check().map_err(|why| {
            let fraction = self.settings.get("link.error_fraction");
            let value = self.setting(path).unwrap_or_default();
            let share = fraction.map_or(String::new(), |f| format!(", error_fraction {}", f.value));
            let place = fraction.map_or_else(|| self.place(path), |f| &f.place);
            impossible(place, format!("{path} {value}{share}: {why}"))
        })?;
        Ok(loss)
    }

    /// Losses of a share of packets, in runs of a mean length (E. N. Gilbert, 1960, with a bad state
    /// that loses all and a good one that loses nothing).
    fn gilbert(&self, ppm: u32) -> Result<LossSpec, ScenarioError> {
        let mut path = "link.loss_burst";
        let burst_millipackets = u32::try_from(self.number(path)?.of(1_000)).unwrap_or(u32::MAX);
        let by_time = "link.loss_burst_time";
        let (ordinary, error) = (Probability::NEVER, Probability::ppm(1_000_000));
        let loss = match self.if_set(by_time, Self::time)? {
            Some(_) if burst_millipackets != 1_000 => {
                let why = format!(
                    "{path} and {by_time} both give the length of a run of losses; set one"
                );
                return Err(impossible(self.place(by_time), why));
            }
            Some(burst) => {
                path = by_time;
                LossSpec::PerTime {
                    burst,
                    shared: self.text("link.error_states")? == "shared",
                    error_fraction_ppm: ppm,
                    ordinary,
                    error,
                }
            }
            None if burst_millipackets == 1_000 => {
                return Ok(LossSpec::Constant(Probability::ppm(ppm)));
            }
            None => LossSpec::PerPacket {
                burst_millipackets,
                error_fraction_ppm: ppm,
                ordinary,
                error,
            },
        };
        loss.check().map_err(|why| {
            let value = self.setting(path).unwrap_or_default();
            impossible(self.place(path), format!("{path} {value}: {why}"))
        })?;
        Ok(loss)
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
                        apply(&mut parameters, &path[table.len()..], &setting.value);
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
        for key in keys::KEYS {
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

    /// The kind table and a getter disagree: unreachable with a scenario that was read.
    fn wrong_kind(&self, path: &str) -> ScenarioError {
        impossible(
            self.place(path),
            format!("{path} has a value of another kind"),
        )
    }

    pub(super) fn text(&self, path: &str) -> Result<&str, ScenarioError> {
        match self.value_of(path)? {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong_kind(path)),
        }
    }

    pub(super) fn is_on(&self, path: &str) -> Result<bool, ScenarioError> {
        self.text(path).map(|word| word == "on")
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

/// Declares getters of values: name, type, and the kind that a key of it has.
macro_rules! getters {
    ($($name:ident: $of:ty, $value:pat => $got:expr;)+) => {
        impl Cell {
            $(
                pub(crate) fn $name(&self, path: &str) -> Result<$of, ScenarioError> {
                    match self.value_of(path)? {
                        $value => Ok($got),
                        _ => Err(self.wrong_kind(path)),
                    }
                }
            )+
        }
    };
}

getters! {
    whole: u64, Value::Whole(n) => *n;
    bytes: u64, Value::Bytes(n) | Value::Buffer(n) => *n;
    number: Ratio, Value::Number(n) => *n;
    time: Duration, Value::Time(Some(time)) => *time;
    time_or_none: Option<Duration>, Value::Time(time) => *time;
    span: Span, Value::Span(span) => *span;
    distribution: TimeDistribution, Value::Distribution(times) => *times;
    rate: u64, Value::Rate(bps) => *bps;
    ppm: u32, Value::Percent(ppm) => *ppm;
    share: Probability, Value::Percent(ppm) => Probability::ppm(*ppm);
    microwatts: u64, Value::Power(microwatts) => *microwatts;
    millimetres: u32, Value::Length(millimetres) => *millimetres;
    centibels: u32, Value::Decibels(hundredths) => *hundredths;
}

/// Sets one transmission parameter; other keys of the table are not its business.
fn apply(parameters: &mut TransmissionParameters, name: &str, value: &Value) {
    match (name, value) {
        ("ack_timeout", Value::Time(Some(t))) => parameters.ack_timeout = *t,
        ("ack_random_factor", Value::Number(r)) => parameters.ack_random_factor = *r,
        ("max_retransmit", Value::Whole(n)) => parameters.max_retransmit = *n as u8,
        ("nstart", Value::Whole(n)) => parameters.nstart = *n as u16,
        ("probing_rate", Value::Whole(n)) => parameters.probing_rate = *n as u32,
        ("rto_max", Value::Time(t)) => parameters.rto_max = *t,
        ("safeguards", Value::Text(word)) => parameters.safeguards = word == "on",
        _ => {}
    }
}
