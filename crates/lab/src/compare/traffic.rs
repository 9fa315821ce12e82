//! The traffic of a comparison: what devices do, and what counts for it.

use std::fmt::Write as _;

use carob_cc::time::Duration;
use carob_sim::spec::Span;
use serde::Serialize;

use super::CompareError;
use super::configuration::{Configuration, Transfer};
use super::judge::{Component, Weights};
use crate::scenario::keys::exact;
use crate::scenario::value::{Value, Values};

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrafficKind {
    /// A large download in blocks.
    Firmware,
    /// Small requests whose answers somebody waits for.
    Command,
    /// A small confirmable POST at regular intervals.
    Telemetry,
    /// Notifications of a device to observers.
    Observe,
    /// A workload from a file.
    Own,
}

/// What devices do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// Its kind.
    pub kind: TrafficKind,
    /// Devices with this traffic at the same time, on one link.
    pub clients: u32,
    /// Number of links with `clients` devices each, compared as one: the cells of a fleet.
    pub cells: u32,
    /// Requests at once instead of one, of telemetry and commands.
    pub burst: u32,
    /// Interval at which sleepy devices poll, in microseconds; 0 for devices that always receive.
    pub sleepy_us: u64,
    /// Size of the download in bytes.
    pub size: u32,
    /// Keys of the table `workload` of a file.
    #[serde(skip_serializing_if = "String::is_empty")]
    own: String,
    /// Their values.
    #[serde(skip)]
    workload: Values,
}

/// Size of a firmware download, as in Pesola 2020.
pub const SIZE_DEFAULT: u32 = 102_400;
/// Maximum size of a firmware download, in bytes.
pub const SIZE_MAX: u32 = 1 << 24;
/// Maximum number of requests that a device sends at once.
pub const BURST_MAX: u32 = 1_000;
/// Requests of each client, times those at once; fewer, but at least two, in crowds that would make more than
/// [`REQUESTS_ALL`] together.
const REQUESTS: u32 = 20;
const REQUESTS_LEAST: u32 = 2;
const REQUESTS_ALL: u32 = 5_000;
/// Payload of a small message.
const SMALL: u64 = 64;

/// The names on the command line.
pub const TRAFFIC: [(&str, TrafficKind, &str); 4] = [
    (
        "firmware",
        TrafficKind::Firmware,
        "a download of 100 kB in blocks",
    ),
    (
        "command",
        TrafficKind::Command,
        "a request every 20 to 30 s whose answer somebody waits for",
    ),
    (
        "telemetry",
        TrafficKind::Telemetry,
        "a confirmable POST of 64 B a minute",
    ),
    (
        "observe",
        TrafficKind::Observe,
        "notifications of 64 B to observers every 10 s",
    ),
];

impl Traffic {
    /// Traffic of that name, of one device.
    pub fn named(name: &str) -> Option<Self> {
        let (_, kind, _) = TRAFFIC.iter().find(|(known, ..)| *known == name)?;
        Some(Self {
            kind: *kind,
            clients: 1,
            cells: 1,
            burst: 1,
            sleepy_us: 0,
            size: SIZE_DEFAULT,
            own: String::new(),
            workload: Values::new(),
        })
    }

    /// Traffic of a file with a table `workload`, as in scenario files.
    ///
    /// # Errors
    ///
    /// A file that is not TOML, or that has more than that table.
    pub fn from_file(name: &str, text: &str) -> Result<Self, CompareError> {
        let remedy = "a traffic file has a table [workload] with the keys of scenario files \
                      (`carob lab keys`), clients apart";
        let wrong = |what: &str| CompareError::of(format_args!("{name}: {what}"), remedy);
        let file: toml::Table =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end()))?;
        let [(table, toml::Value::Table(workload))] = &file.iter().collect::<Vec<_>>()[..] else {
            return Err(wrong("it has not just the table [workload]"));
        };
        if *table != "workload" {
            return Err(wrong(&format!("unknown table [{table}]")));
        }
        let (mut own, mut values) = (String::new(), Values::new());
        for (key, value) in workload {
            if key == "clients" || key == "subscribers" {
                return Err(CompareError::of(
                    format_args!("{name}: {key} is not part of the traffic"),
                    "the number of devices is --clients",
                ));
            }
            // A String takes every write.
            let _ = writeln!(own, "{key} = {value}");
            let path = format!("workload.{key}");
            let found = exact(&path).ok_or_else(|| wrong(&format!("unknown key {key}")))?;
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let read = Value::read(found.kind, &text).ok_or_else(|| {
                CompareError::of(
                    format_args!("{name}: {key} is {value}"),
                    &format!("{key} takes {}", found.kind),
                )
            })?;
            values.insert(path, read);
        }
        match workload.get("kind").and_then(toml::Value::as_str) {
            Some("blockwise-get" | "exchanges" | "notifications") => {}
            Some(other) => return Err(wrong(&format!("kind \"{other}\" is not for comparisons"))),
            None => return Err(wrong("kind is missing")),
        }
        Ok(Self {
            kind: TrafficKind::Own,
            own,
            workload: values,
            ..Self::named("command").expect("it is known")
        })
    }

    /// Its name on the command line; `own` for traffic of a file.
    pub fn name(&self) -> &'static str {
        let known = TRAFFIC.iter().find(|(_, kind, _)| *kind == self.kind);
        known.map_or("own", |(name, ..)| name)
    }

    /// Description in words.
    pub fn about(&self) -> String {
        let who = match (self.clients, self.cells) {
            (1, 1) => "1 device".to_owned(),
            (n, 1) => format!("{n} devices"),
            (n, cells) => format!("{cells} cells of {n} devices that share a link"),
        };
        let what = match self.kind {
            TrafficKind::Firmware => format!("a download of {} B in blocks", self.size),
            TrafficKind::Own => "traffic of the file".to_owned(),
            kind => {
                let known = TRAFFIC.iter().find(|(_, known, _)| *known == kind);
                known.map_or("", |(_, _, about)| about).to_owned()
            }
        };
        let burst = match self.burst {
            1 => String::new(),
            n => format!(", {n} at once"),
        };
        let sleepy = match self.sleepy_us {
            0 => String::new(),
            us => format!(", devices poll every {}", super::link_words::time_text(us)),
        };
        format!("{who}, each with {what}{burst}{sleepy}")
    }

    /// Whether bodies cross in blocks.
    pub fn is_blockwise(&self) -> bool {
        self.kind == TrafficKind::Firmware || self.is_own("blockwise-get")
    }

    /// Whether a device notifies observers.
    pub fn is_observe(&self) -> bool {
        self.kind == TrafficKind::Observe || self.is_own("notifications")
    }

    fn is_own(&self, kind: &str) -> bool {
        self.workload.get("workload.kind") == Some(&kind.into())
    }

    /// Requests of each client.
    fn requests(&self) -> u32 {
        let together = self.clients.saturating_mul(self.burst).max(1);
        (REQUESTS_ALL / together).clamp(REQUESTS_LEAST, REQUESTS) * self.burst
    }

    /// Exchanges of a run, about.
    pub(super) fn exchanges(&self, block: u16) -> u64 {
        let each = if self.is_blockwise() {
            u64::from(self.size / u32::from(block)) + 1
        } else if self.is_observe() {
            // A notification every 10 s for 600 s.
            60
        } else {
            u64::from(self.requests())
        };
        each * u64::from(self.clients)
    }

    /// What counts for it, and how much.
    pub fn weights(&self) -> Weights {
        use Component::{Bytes, Harm, Spurious, Tail, Time, Undelivered};
        Weights::new(&match self.kind {
            TrafficKind::Firmware => [
                (Time, 45),
                (Tail, 20),
                (Undelivered, 10),
                (Spurious, 5),
                (Bytes, 10),
                (Harm, 10),
            ],
            TrafficKind::Command | TrafficKind::Own => [
                (Time, 35),
                (Tail, 30),
                (Undelivered, 15),
                (Spurious, 5),
                (Bytes, 5),
                (Harm, 10),
            ],
            TrafficKind::Telemetry | TrafficKind::Observe => [
                (Time, 15),
                (Tail, 20),
                (Undelivered, 30),
                (Spurious, 10),
                (Bytes, 15),
                (Harm, 10),
            ],
        })
    }

    /// Adds its keys to the values of a scenario, with the block size and transfer of a configuration. `is_mesh` is
    /// the network.
    pub(super) fn set_in(&self, values: &mut Values, configuration: &Configuration, is_mesh: bool) {
        let mut set = |key: &str, value: Value| values.insert(format!("workload.{key}"), value);
        let clients = if self.is_observe() {
            "subscribers"
        } else {
            "clients"
        };
        set(clients, self.clients.into());
        if self.kind != TrafficKind::Own {
            set("token_bytes", 2.into());
        }
        if self.sleepy_us > 0 {
            set("poll", Duration::from_micros(self.sleepy_us).into());
        }
        if is_mesh {
            set("warm_up", Duration::from_secs(300).into());
        }
        match self.kind {
            TrafficKind::Own => values.extend(self.workload.clone()),
            TrafficKind::Firmware => {
                set("kind", "blockwise-get".into());
                set("response", Value::Bytes(self.size.into()));
                set("block", Value::Bytes(configuration.block.into()));
                set("start_spread", up_to(1));
                if configuration.transfer == Transfer::QBlock {
                    set("q_block", "non".into());
                }
            }
            TrafficKind::Command | TrafficKind::Telemetry => {
                let is_command = self.kind == TrafficKind::Command;
                let (request, response) = if is_command { (0, 32) } else { (SMALL, 0) };
                let (period, jitter) = if is_command { (20, 10) } else { (60, 5) };
                set("kind", "exchanges".into());
                set("requests", self.requests().into());
                set("request", Value::Bytes(request));
                set("response", Value::Bytes(response));
                set("block", Value::Bytes(64));
                set("after_failure", "next".into());
                set("request_period", Duration::from_secs(period).into());
                set("request_jitter", Duration::from_secs(jitter).into());
                set("start_spread", up_to(period));
                if self.burst > 1 {
                    set("request_burst", self.burst.into());
                    set("burst_probability", Value::Percent(1_000_000));
                }
            }
            TrafficKind::Observe => {
                set("kind", "notifications".into());
                set("device", "each".into());
                set("interval", Duration::from_secs(10).into());
                set("duration", Duration::from_secs(600).into());
                set("message", Value::Bytes(SMALL));
                set("max_age", Duration::from_secs(3_600).into());
                set("start_spread", up_to(60));
                set("offset", up_to(10));
            }
        }
    }
}

/// A range of times from 0 to a number of seconds.
fn up_to(seconds: u64) -> Value {
    Value::Span(Span {
        low: Duration::ZERO,
        high: Duration::from_secs(seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowds_make_fewer_requests_each() {
        let requests = |clients, burst| {
            let mut traffic = Traffic::named("telemetry").expect("known");
            (traffic.clients, traffic.burst) = (clients, burst);
            traffic.requests()
        };
        assert_eq!(
            [requests(1, 1), requests(250, 1), requests(1, 2)],
            [20, 20, 40]
        );
        assert_eq!(
            [requests(600, 1), requests(500, 5), requests(1_000, 1_000)],
            [8, 10, 2_000]
        );
    }

    #[test]
    fn a_file_of_ones_own_is_checked() {
        let own = Traffic::from_file("t.toml", "[workload]\nkind = \"exchanges\"\nrequests = 3\n");
        assert!(own.expect("fine").own.contains("requests = 3"));
        let wrong = |text| Traffic::from_file("t.toml", text).expect_err("wrong");
        assert!(
            wrong("[link]\nmtu = 3")
                .what
                .contains("unknown table [link]")
        );
        assert!(
            wrong("[workload]\nrequests = 3")
                .what
                .contains("kind is missing")
        );
        let clients = wrong("[workload]\nkind = \"exchanges\"\nclients = 3");
        assert!(clients.remedy.contains("--clients"));
        assert!(wrong("[workload]\nkind = \"mesh\"").what.contains("mesh"));
    }
}
