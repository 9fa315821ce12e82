//! Links as written in a file, or in options.

use std::collections::BTreeMap;
use std::path::Path;

use super::CompareError;
use super::built_in::BUILT_IN;
use crate::scenario::keys::exact;

/// A link as written in a file, or in options: texts by their keys.
#[derive(Clone, Debug, Default)]
pub struct WrittenLink(BTreeMap<String, String>);

/// Keys of links that the table `link` of scenarios does not have, or that replace its keys.
pub(super) const OWN: [&str; 12] = [
    "down",
    "up",
    "rtt",
    "jitter",
    "loss",
    "loss_burst",
    "buffer",
    "mtu",
    "mesh",
    "trace.down",
    "trace.up",
    "trace.end",
];
/// Keys of single directions that a change of both replaces.
const REPLACED: [(&str, &[&str]); 6] = [
    ("rtt", &["down.delay", "up.delay"]),
    (
        "jitter",
        &["extra_delay", "down.extra_delay", "up.extra_delay"],
    ),
    ("loss", &["down.loss", "up.loss"]),
    ("buffer", &["down.buffer", "up.buffer"]),
    ("down", &RADIO),
    ("up", &RADIO),
];
/// Keys of the radios of devices, whose rates the command line replaces.
const RADIO: [&str; 6] = [
    "duplex",
    "duplex_turnaround",
    "down.device_rate",
    "down.repetitions",
    "up.device_rate",
    "up.repetitions",
];
/// Keys of scenarios that are others in a link file.
const NOT_OF_FILES: [&str; 10] = [
    "error",
    "loss_burst_time",
    "header",
    "error_directions",
    "delay_of",
    "down.trace",
    "up.trace",
    "trace_end",
    "trace_start",
    "extra_delay",
];

impl WrittenLink {
    /// The built-in link of that name.
    pub fn built_in(name: &str) -> Option<Self> {
        let found = BUILT_IN.iter().find(|link| link.name == name)?;
        Some(Self::from_file(name, found.text).expect("a test reads every built-in link"))
    }

    /// Reads a file with a table `link`.
    ///
    /// # Errors
    ///
    /// Unknown keys.
    pub fn from_file(name: &str, text: &str) -> Result<Self, CompareError> {
        let wrong = |what: &str| {
            CompareError::of(
                format_args!("{name}: {what}"),
                "a link file has a table [link] with down, up (down.rate and up.rate beside other keys of a \
                 direction), rtt, jitter, loss, loss_burst, buffer, mtu, trace or mesh, and other keys of the \
                 table `link` of scenarios (`carob lab keys`)",
            )
        };
        let file: toml::Table =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end()))?;
        let [(table, toml::Value::Table(link))] = &file.iter().collect::<Vec<_>>()[..] else {
            return Err(wrong("it has not just the table [link]"));
        };
        if *table != "link" {
            return Err(wrong(&format!("unknown table [{table}]")));
        }
        let mut written = Self::default();
        for (key, value) in link {
            written.read(key, value).map_err(|what| wrong(&what))?;
        }
        Ok(written)
    }

    /// Reads a key, or the keys of a table.
    fn read(&mut self, key: &str, value: &toml::Value) -> Result<(), String> {
        let text = match value {
            toml::Value::Table(table) => {
                let mut all = table.iter();
                return all.try_for_each(|(own, value)| self.read(&format!("{key}.{own}"), value));
            }
            toml::Value::String(text) if is_key(key) => text.clone(),
            toml::Value::Boolean(is_on) if key == "mesh" => match is_on {
                true => "pint".to_owned(),
                false => return Ok(()),
            },
            other if is_key(key) => {
                return Err(format!("{key} is {other}, expected a text in quotes"));
            }
            _ => return Err(format!("unknown key {key}")),
        };
        let key = match key {
            "down.rate" => "down",
            "up.rate" => "up",
            key => key,
        };
        self.0.insert(key.to_owned(), text);
        Ok(())
    }

    /// The text of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The same with the text of a key; without one, unchanged.
    ///
    /// # Panics
    ///
    /// An unknown key.
    #[must_use]
    pub fn with(mut self, key: &str, text: Option<String>) -> Self {
        assert!(is_key(key), "unknown key {key}");
        self.0.extend(text.map(|text| (key.to_owned(), text)));
        self
    }

    /// The same with the traces of a name in a folder, `<name>-down.csv` and `<name>-up.csv`, or `<name>.csv` for both.
    pub(crate) fn traced(self, name: &str, folder: &Path) -> Self {
        let file = |way: &str| {
            let names = [format!("{name}-{way}.csv"), format!("{name}.csv")];
            let mut paths = names.into_iter().map(|name| folder.join(name));
            let found = paths.find(|path| path.is_file());
            found.map(|path| path.display().to_string())
        };
        self.with("trace.down", file("down"))
            .with("trace.up", file("up"))
    }

    /// Returns true if a direction has a trace.
    pub fn is_traced(&self) -> bool {
        self.get("trace.down").or(self.get("trace.up")).is_some()
    }

    /// Keys and their texts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, text)| (key.as_str(), text.as_str()))
    }

    /// Removes the keys for which `is_kept` is false.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|key, _| is_kept(key));
    }

    /// Returns true if no key is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The link with the values of `changes`.
    ///
    /// # Errors
    ///
    /// Changes of a mesh, which has none of the values, and of values that a trace sets.
    pub fn changed(mut self, name: &str, changes: &Self) -> Result<Self, CompareError> {
        let keys: Vec<&str> = changes.0.keys().map(String::as_str).collect();
        if self.get("mesh").is_some() && !keys.is_empty() {
            return Err(CompareError::of(
                format_args!("{name} is a mesh, which has no {}", keys.join(", ")),
                "leave these options out, or choose a link with rates",
            ));
        }
        for key in ["down", "up"] {
            let trace = format!("trace.{key}");
            let is_of_trace = self.get(&trace).is_some() && changes.get(&trace).is_none();
            if let Some(number) = keys.iter().find(|one| is_of_trace && is_of(key, one)) {
                return Err(CompareError::of(
                    format_args!("{name} has {trace}, which takes the place of {number}"),
                    "leave the option out, or take the trace out of the file",
                ));
            }
        }
        let replaced = REPLACED.iter().filter(|(key, _)| keys.contains(key));
        let replaced: Vec<&str> = replaced.flat_map(|(_, own)| own.iter().copied()).collect();
        self.retain(|key| !replaced.contains(&key));
        self.0.extend(changes.0.clone());
        Ok(self)
    }
}

/// Returns true for keys of a link file.
fn is_key(key: &str) -> bool {
    let of_scenarios = exact(&format!("link.{key}")).is_some() && !NOT_OF_FILES.contains(&key);
    OWN.contains(&key) || of_scenarios
}

/// Returns true if the trace of a direction may take the place of this key.
fn is_of(direction: &str, key: &str) -> bool {
    key == direction || matches!(key, "rtt" | "jitter" | "loss" | "loss_burst")
}
