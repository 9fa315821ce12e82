//! Links as written in a file, or in options.

use std::collections::BTreeMap;

use super::CompareError;
use super::built_in::BUILT_IN;
use crate::scenario::keys::exact;

/// A link as written in a file, or in options.
#[derive(Clone, Debug, Default)]
pub struct WrittenLink {
    /// Rate towards the devices.
    pub down: Option<String>,
    /// Rate from the devices.
    pub up: Option<String>,
    /// Round-trip time without transmission times.
    pub rtt: Option<String>,
    /// Additional delay in each direction, drawn from 0 to this.
    pub jitter: Option<String>,
    /// Share of packets lost in each direction.
    pub loss: Option<String>,
    /// Mean length of a run of losses in packets.
    pub loss_burst: Option<String>,
    /// Buffer before each direction.
    pub buffer: Option<String>,
    /// Largest packet with headers.
    pub mtu: Option<String>,
    /// Links of a mesh of IEEE 802.15.4, without the numbers above: `pint`, `office`, `marina`, or a CSV.
    pub mesh: Option<String>,
    /// Traces in the place of rates, delays and losses.
    pub trace: WrittenTraces,
    /// Other keys of the table `link` of scenarios, without the table's name.
    pub more: BTreeMap<String, String>,
}

/// Traces as written in a file, or in options: paths and what follows their end.
#[derive(Clone, Debug, Default)]
pub struct WrittenTraces {
    /// Direction towards the devices: path of its file, or its text.
    pub down: Option<String>,
    /// Direction from the devices, in the same way.
    pub up: Option<String>,
    /// `loop` or `cut`.
    pub end: Option<String>,
}

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
const NOT_OF_FILES: [&str; 9] = [
    "error",
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
            written.set(key, value).map_err(|what| wrong(&what))?;
        }
        Ok(written)
    }

    /// Sets a key, or the keys of a table.
    fn set(&mut self, key: &str, value: &toml::Value) -> Result<(), String> {
        let text = match value {
            toml::Value::Table(table) => {
                let mut all = table.iter();
                return all.try_for_each(|(own, value)| self.set(&format!("{key}.{own}"), value));
            }
            toml::Value::String(text) => text.clone(),
            toml::Value::Boolean(is_on) if key == "mesh" => match is_on {
                true => "pint".to_owned(),
                false => return Ok(()),
            },
            other if is_key(key) => {
                return Err(format!("{key} is {other}, expected a text in quotes"));
            }
            _ => return Err(format!("unknown key {key}")),
        };
        let known = match key {
            "down" | "down.rate" => &mut self.down,
            "up" | "up.rate" => &mut self.up,
            "rtt" => &mut self.rtt,
            "jitter" => &mut self.jitter,
            "loss" => &mut self.loss,
            "loss_burst" => &mut self.loss_burst,
            "buffer" => &mut self.buffer,
            "mtu" => &mut self.mtu,
            "mesh" => &mut self.mesh,
            "trace.down" => &mut self.trace.down,
            "trace.up" => &mut self.trace.up,
            "trace.end" => &mut self.trace.end,
            _ => {
                if !is_key(key) {
                    return Err(format!("unknown key {key}"));
                }
                self.more.insert(key.to_owned(), text);
                return Ok(());
            }
        };
        *known = Some(text);
        Ok(())
    }

    /// The keys that are written.
    fn keys(&self) -> Vec<&'static str> {
        let all = [
            ("down", &self.down),
            ("up", &self.up),
            ("rtt", &self.rtt),
            ("jitter", &self.jitter),
            ("loss", &self.loss),
            ("loss_burst", &self.loss_burst),
            ("buffer", &self.buffer),
            ("mtu", &self.mtu),
            ("trace.down", &self.trace.down),
            ("trace.up", &self.trace.up),
            ("trace.end", &self.trace.end),
        ];
        let written = all.into_iter().filter(|(_, value)| value.is_some());
        written.map(|(key, _)| key).collect()
    }

    /// Returns true if no key is set.
    pub fn is_empty(&self) -> bool {
        self.keys().is_empty() && self.mesh.is_none()
    }

    /// The link with the values of `changes`.
    ///
    /// # Errors
    ///
    /// Changes of a mesh, which has none of the values, and of values that a trace sets.
    pub fn changed(mut self, name: &str, changes: &Self) -> Result<Self, CompareError> {
        let keys = changes.keys();
        if self.mesh.is_some() && !keys.is_empty() {
            return Err(CompareError::of(
                format_args!("{name} is a mesh, which has no {}", keys.join(", ")),
                "leave these options out, or choose a link with rates",
            ));
        }
        for (key, of_trace, changed) in [
            ("down", &self.trace.down, &changes.trace.down),
            ("up", &self.trace.up, &changes.trace.up),
        ] {
            let is_of_trace = of_trace.is_some() && changed.is_none();
            if let Some(number) = keys.iter().find(|one| is_of_trace && is_of(key, one)) {
                return Err(CompareError::of(
                    format_args!("{name} has trace.{key}, which takes the place of {number}"),
                    "leave the option out, or take the trace out of the file",
                ));
            }
        }
        for (own, change) in [
            (&mut self.down, &changes.down),
            (&mut self.up, &changes.up),
            (&mut self.rtt, &changes.rtt),
            (&mut self.jitter, &changes.jitter),
            (&mut self.loss, &changes.loss),
            (&mut self.loss_burst, &changes.loss_burst),
            (&mut self.buffer, &changes.buffer),
            (&mut self.mtu, &changes.mtu),
            (&mut self.trace.down, &changes.trace.down),
            (&mut self.trace.up, &changes.trace.up),
            (&mut self.trace.end, &changes.trace.end),
        ] {
            if change.is_some() {
                own.clone_from(change);
            }
        }
        let replaced = REPLACED.iter().filter(|(key, _)| keys.contains(key));
        let replaced: Vec<&str> = replaced.flat_map(|(_, own)| own.iter().copied()).collect();
        self.more.retain(|key, _| !replaced.contains(&key.as_str()));
        Ok(self)
    }
}

/// Returns true for keys of a link file.
fn is_key(key: &str) -> bool {
    let own = [
        "down",
        "up",
        "rtt",
        "jitter",
        "mesh",
        "trace.down",
        "trace.up",
        "trace.end",
    ];
    let of_scenarios = exact(&format!("link.{key}")).is_some() && !NOT_OF_FILES.contains(&key);
    own.contains(&key) || of_scenarios
}

/// Returns true if the trace of a direction may take the place of this key.
fn is_of(direction: &str, key: &str) -> bool {
    key == direction || matches!(key, "rtt" | "jitter" | "loss" | "loss_burst")
}
