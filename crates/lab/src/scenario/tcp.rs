//! TCP in scenarios: the keys under `tcp`, and the settings an algorithm has in a cell.

use std::collections::BTreeMap;

use carob_cc::time::Duration;
use carob_sim::tcp::TcpSettings;
use carob_sim::tcp::segment::{IP_HEADER, TCP_HEADER};
use carob_sim::tcp::settings::{self, Key, Named};

use super::error::{Place, ScenarioError};
use super::settings::Settings;
use super::value::{Kind, Value};
use super::{Setting, impossible};

keys! {
    /// Keys of TCP besides its settings.
    pub(super) KEYS;

    "tcp.profile", Word(&["thesis", "kernel", "rfc", "modern"]), "modern",
        "Whose TCP the algorithms over TCP (`tcp-newreno`, `tcp-cubic`, `tcp-bbr1`, `tcp-bbr3`) are, where no setting says more.";
}

/// Settings without a key: the algorithm's name selects them.
const OF_THE_NAME: &str = "congestion";

/// A cap that no timer reaches: 136 years. TCP's table of settings knows no absent one.
const NO_CAP: Duration = Duration::from_secs(u32::MAX as u64);

/// Every setting that is a key under `tcp`.
pub(super) fn keys() -> impl Iterator<Item = &'static Key> {
    settings::KEYS.iter().filter(|key| key.name != OF_THE_NAME)
}

/// Values that the key `tcp.<name>` accepts.
pub(super) fn kind(name: &str) -> Option<Kind> {
    keys()
        .find(|key| key.name == name)
        .map(|key| Kind::Tcp(key.name))
}

/// The same for people.
pub(super) fn takes(name: &str) -> &'static str {
    keys()
        .find(|key| key.name == name)
        .map_or("", |key| key.kind)
}

/// A value of `tcp.<name>` in canonical text, if it is one.
pub(super) fn canonical(name: &str, text: &str) -> Option<String> {
    let mut any = TcpSettings::RFC;
    any.set(name, text).ok()?;
    value_of(&any, name)
}

/// The value of a setting in canonical text.
fn value_of(settings: &TcpSettings, name: &str) -> Option<String> {
    let mut found = None;
    settings.describe(&mut |key, value| {
        if key.name == name {
            found = Some(value.to_string());
        }
    });
    found
}

/// Meaning of a setting, for the reference: with its unit, and its value in each profile.
pub(super) fn about(key: &Key) -> String {
    let values = settings::PROFILES.map(|profile| {
        let value = value_of(&profile.settings, key.name).unwrap_or_default();
        format!("{} `{value}`", profile.name)
    });
    let unit = match key.unit {
        "" => String::new(),
        unit => format!(" In {unit}."),
    };
    format!("{}{unit} {}.", key.about, values.join(", "))
}

/// A setting of TCP as one algorithm has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSetting {
    /// Its name under `tcp`.
    pub name: &'static str,
    /// Its value with unit.
    pub value: String,
    /// True if the profile has another value.
    pub changed: bool,
}

/// Settings of an algorithm, in rising precedence: the file, then the command line. In each:
/// `rto_max` of the transmission parameters, TCP's own keys, then both of the algorithm alone.
fn layers<'a>(
    settings: &'a Settings,
    algorithm: &str,
) -> impl Iterator<Item = (&'static str, &'a Setting)> {
    let mut all = Vec::new();
    for typed in [false, true] {
        for table in [String::new(), format!("algorithm.{algorithm}.")] {
            let at_level = |s: &&Setting| matches!(s.place, Place::CommandLine(_)) == typed;
            let shared = if table.is_empty() {
                "transmission."
            } else {
                &table
            };
            let cap = settings.get(&format!("{shared}rto_max"));
            all.extend(cap.filter(at_level).map(|s| ("rto_max", s)));
            // Few keys are set; looking each one up would take longer than a short run.
            let prefix = format!("{table}tcp.");
            for (path, setting) in settings.below(&prefix) {
                let key = keys().find(|key| key.name == &path[prefix.len()..]);
                let setting = Some(setting).filter(at_level);
                all.extend(key.zip(setting).map(|(key, setting)| (key.name, setting)));
            }
        }
    }
    all.into_iter()
}

/// The settings of an algorithm over TCP in a cell of these settings.
///
/// By default, segments are as large as the profile has them and the link's MTU
/// allows.
pub(super) fn settings_of(
    settings: &Settings,
    algorithm: &Named,
    mtu: u64,
) -> Result<TcpSettings, ScenarioError> {
    let whole = Place::Scenario(String::new());
    let profile = settings.word("tcp.profile").and_then(settings::profile);
    let Some(profile) = profile else {
        return Err(impossible(&whole, "there is no such TCP profile"));
    };
    let mut tcp = profile.settings;
    tcp.congestion = algorithm.congestion;
    let room = mtu.saturating_sub(u64::from(IP_HEADER + TCP_HEADER));
    tcp.mss = u32::try_from(room).unwrap_or(u32::MAX).min(tcp.mss);
    let mut places: BTreeMap<&str, &Place> = BTreeMap::new();
    for (name, setting) in layers(settings, algorithm.name) {
        match &setting.value {
            Value::Time(cap) => tcp.rto_max = cap.unwrap_or(NO_CAP),
            value => {
                let set = tcp.set(name, &value.to_string());
                set.map_err(|why| impossible(&setting.place, format!("tcp.{name}: {why}")))?;
            }
        }
        places.insert(name, &setting.place);
    }
    let place = |name: &str| places.get(name).copied().unwrap_or(&whole);
    tcp.check()
        .map_err(|why| impossible(place(why.name), why.to_string()))?;
    if u64::from(tcp.mss) > room {
        let why = format!(
            "tcp.mss {} B makes packets of {} B, but link.mtu is {mtu} B",
            tcp.mss,
            u64::from(tcp.mss) + u64::from(IP_HEADER + TCP_HEADER)
        );
        return Err(impossible(place("mss"), why));
    }
    Ok(tcp)
}

/// Every setting that means something to an algorithm, with its value.
pub(super) fn describe(tcp: &TcpSettings, algorithm: &Named, profile: &str) -> Vec<TcpSetting> {
    let of_profile = settings::profile(profile).map(|p| p.settings);
    let mut all = Vec::new();
    tcp.describe(&mut |key, value| {
        let of_others =
            |prefix: &str, own: &str| key.name.starts_with(prefix) && algorithm.name != own;
        // Pacing is common to both versions of BBR; the other constants belong to the first.
        let paces = algorithm.name == "tcp-bbr3" && key.name.starts_with("bbr_pacing_");
        let means_nothing = key.name == OF_THE_NAME
            || (of_others("bbr_", "tcp-bbr1") && !paces)
            || of_others("cubic_", "tcp-cubic");
        if !means_nothing {
            let value = value.to_string();
            let before = of_profile.and_then(|p| value_of(&p, key.name));
            let changed = before.as_ref() != Some(&value);
            let name = key.name;
            all.push(TcpSetting {
                name,
                value,
                changed,
            });
        }
    });
    all
}
