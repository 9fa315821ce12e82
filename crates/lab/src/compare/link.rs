//! The link of a comparison: rates, round-trip time, losses, buffer.

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use serde::{Deserialize, Serialize};

use super::CompareError;
use super::traces::{LinkTraces, NamedTrace};
use crate::scenario::value::{Kind, Value};

/// A link, in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Its name: that of a built-in link, `custom`, or a file.
    pub name: String,
    /// Rate towards the devices, in bit/s.
    pub down_bps: u64,
    /// Rate from the devices, in bit/s.
    pub up_bps: u64,
    /// Round-trip time of an empty link without transmission times, in microseconds.
    pub rtt_us: u64,
    /// Additional delay in each direction, drawn from 0 to this, in microseconds.
    pub jitter_us: u64,
    /// Share of packets lost in each direction, in parts per million.
    pub loss_ppm: u32,
    /// Mean length of a run of losses, in thousandths of a packet; 1000 for independent losses.
    pub loss_burst_milli: u32,
    /// Buffer before each direction, in bytes.
    pub buffer_bytes: u64,
    /// Largest packet with headers, in bytes.
    pub mtu: u32,
    /// True for a wireless network of many hops, which has none of the numbers above.
    pub is_mesh: bool,
    /// Traces in the place of rates, delays and losses.
    #[serde(skip_serializing_if = "LinkTraces::is_empty")]
    pub traces: LinkTraces,
}

/// A built-in link with the source of its numbers.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInLink {
    /// Its name on the command line.
    pub name: &'static str,
    /// Source of its numbers.
    pub source: &'static str,
    text: &'static str,
}

/// The built-in links.
pub const BUILT_IN: [BuiltInLink; 6] = [
    BuiltInLink {
        name: "nb-iot",
        source: "rates and delays of Pesola 2020, 4.1, her error low and her buffer of 14,100 B",
        text: r#"down = "30 kbit/s"
up = "60 kbit/s"
rtt = "630 ms"
loss = "2 %"
buffer = "14100 B""#,
    },
    BuiltInLink {
        name: "lte-m",
        source: "rates of 3GPP TS 36.306 (category M1, half duplex); delay, loss and buffer are non-standard",
        text: r#"down = "300 kbit/s"
up = "375 kbit/s"
rtt = "100 ms"
jitter = "50 ms"
loss = "1 %"
buffer = "64 kB""#,
    },
    BuiltInLink {
        name: "gprs",
        source: "Betzler et al. 2016, Table 1; the buffer is non-standard",
        text: r#"down = "80 kbit/s"
up = "20 kbit/s"
rtt = "1270 ms"
loss = "0.1 %"
buffer = "64 kB""#,
    },
    BuiltInLink {
        name: "umts",
        source: "Betzler et al. 2016, Table 1; the buffer is non-standard",
        text: r#"down = "348 kbit/s"
up = "128 kbit/s"
rtt = "202 ms"
buffer = "64 kB""#,
    },
    BuiltInLink {
        name: "thread",
        source: "IEEE 802.15.4 over the links measured in the testbed PINT (Vallati et al. 2018)",
        text: "mesh = true",
    },
    BuiltInLink {
        name: "lan",
        source: "this project's choice: Wi-Fi or Ethernet with a few losses",
        text: r#"down = "100 Mbit/s"
up = "100 Mbit/s"
rtt = "400 us"
jitter = "300 us"
loss = "0.1 %"
buffer = "128 kB"
mtu = "1500 B""#,
    },
];

/// A link as written in a file, or in options.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
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
    /// True for the mesh of IEEE 802.15.4, without the numbers above.
    pub mesh: bool,
    /// Traces in the place of rates, delays and losses.
    pub trace: WrittenTraces,
}

/// Traces as written in a file, or in options: paths and what follows their end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WrittenTraces {
    /// Direction towards the devices: path of its file, or its text.
    pub down: Option<String>,
    /// Direction from the devices, in the same way.
    pub up: Option<String>,
    /// `loop` or `cut`.
    pub end: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    link: WrittenLink,
}

/// Round-trip time where none is stated.
const RTT_DEFAULT: Duration = Duration::from_millis(100);
/// Buffer where none is stated, in bytes.
const BUFFER_DEFAULT: u64 = 64_000;
/// Largest packet where none is stated: IPv6's minimum (RFC 8200 5).
const MTU_DEFAULT: u64 = 1_280;

impl WrittenLink {
    /// The built-in link of that name.
    pub fn built_in(name: &str) -> Option<Self> {
        let found = BUILT_IN.iter().find(|link| link.name == name)?;
        Some(toml::from_str(found.text).expect("a test reads every built-in link"))
    }

    /// Reads a file with a table `link`.
    ///
    /// # Errors
    ///
    /// Unknown keys.
    pub fn from_file(name: &str, text: &str) -> Result<Self, CompareError> {
        let file: LinkFile = toml::from_str(text).map_err(|error| CompareError {
            what: format!("{name}: {}", error.to_string().trim_end()),
            remedy: "a link file has a table [link] with down, up, rtt, jitter, loss, loss_burst, \
                     buffer, mtu and trace"
                .to_owned(),
        })?;
        Ok(file.link)
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
        self.keys().is_empty() && !self.mesh
    }

    /// The same with each value of `changes` in the place of its own.
    ///
    /// # Errors
    ///
    /// Changes of a mesh, which has none of the values, and of values that a trace sets.
    pub fn changed(mut self, name: &str, changes: &Self) -> Result<Self, CompareError> {
        let keys = changes.keys();
        if self.mesh && !keys.is_empty() {
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
        Ok(self)
    }
}

/// Returns true if the trace of a direction may take the place of this key.
fn is_of(direction: &str, key: &str) -> bool {
    key == direction || matches!(key, "rtt" | "jitter" | "loss" | "loss_burst")
}

impl Link {
    /// The built-in link of that name.
    pub fn built_in(name: &str) -> Option<Self> {
        let written = WrittenLink::built_in(name)?;
        Some(Self::read(name, &written).expect("a test reads every built-in link"))
    }

    /// Reads a file with a table `link`.
    ///
    /// # Errors
    ///
    /// Unknown keys, and values that are not of their kind.
    pub fn from_file(name: &str, text: &str) -> Result<Self, CompareError> {
        Self::read(name, &WrittenLink::from_file(name, text)?)
    }

    /// Reads what is written; `name` is for messages.
    ///
    /// # Errors
    ///
    /// A value that is not of its kind, and a missing rate.
    pub fn read(name: &str, written: &WrittenLink) -> Result<Self, CompareError> {
        let value = |key: &str, text: &Option<String>, kind: Kind| match text {
            None => Ok(None),
            Some(text) => Value::read(kind, text).map(Some).ok_or_else(|| {
                CompareError::of(
                    format_args!("{name}: {key} is \"{text}\""),
                    &format!("{key} takes {kind}"),
                )
            }),
        };
        let traces = LinkTraces::read(name, &written.trace)?;
        let mean_of = |key: &str| match key {
            "down" => traces.down.as_ref()?.trace.mean_rate_bps(),
            _ => traces.up.as_ref()?.trace.mean_rate_bps(),
        };
        let rate = |key: &str, text: &Option<String>| match value(key, text, Kind::Rate)? {
            Some(Value::Rate(bps)) if bps > 0 => Ok(bps),
            Some(_) => Err(CompareError::of(
                format_args!("{name}: {key} is 0, so nothing would ever arrive"),
                "set a rate such as \"60 kbit/s\"",
            )),
            None if written.mesh => Ok(0),
            None if mean_of(key).is_some() => Ok(mean_of(key).unwrap_or_default()),
            None => Err(CompareError::of(
                format_args!("{name}: {key} is missing"),
                "a link needs both rates, down and up; options override those of a named link, --link",
            )),
        };
        let time = |key: &str, text: &Option<String>, default: Duration| {
            Ok(match value(key, text, Kind::Time)? {
                Some(Value::Time(Some(time))) => time.as_micros(),
                _ => default.as_micros(),
            })
        };
        let bytes = |key: &str, text: &Option<String>, kind, default| {
            Ok(match value(key, text, kind)? {
                Some(Value::Bytes(bytes)) => bytes,
                _ => default,
            })
        };
        Ok(Self {
            name: name.to_owned(),
            down_bps: rate("down", &written.down)?,
            up_bps: rate("up", &written.up)?,
            rtt_us: time("rtt", &written.rtt, RTT_DEFAULT)?,
            jitter_us: time("jitter", &written.jitter, Duration::ZERO)?,
            loss_ppm: match value("loss", &written.loss, Kind::Percent)? {
                Some(Value::Percent(ppm)) => ppm,
                _ => 0,
            },
            loss_burst_milli: match value("loss_burst", &written.loss_burst, Kind::Number)? {
                Some(Value::Number(ratio)) => u32::try_from(ratio.of(1_000)).unwrap_or(u32::MAX),
                _ => 1_000,
            },
            buffer_bytes: bytes(
                "buffer",
                &written.buffer,
                Kind::Bytes(68, 1 << 40),
                BUFFER_DEFAULT,
            )?,
            mtu: bytes("mtu", &written.mtu, Kind::Bytes(68, 65_535), MTU_DEFAULT)? as u32,
            is_mesh: written.mesh,
            traces,
        })
    }

    /// One line: the numbers of the link.
    pub fn about(&self) -> String {
        if self.is_mesh {
            return "a mesh of 22 nodes of IEEE 802.15.4, up to 4 hops".to_owned();
        }
        let burst = if self.loss_burst_milli == 1_000 {
            String::new()
        } else {
            let packets = f64::from(self.loss_burst_milli) / 1_000.0;
            format!(" in runs of {packets} packets")
        };
        let jitter = if self.jitter_us == 0 {
            String::new()
        } else {
            format!(" (up to {} more each way)", time_text(self.jitter_us))
        };
        format!(
            "{} down, {} up, round trip {}{jitter}, {} % lost each way{burst}, buffers {} B, MTU {} B{}",
            rate_text(self.down_bps),
            rate_text(self.up_bps),
            time_text(self.rtt_us),
            f64::from(self.loss_ppm) / 10_000.0,
            self.buffer_bytes,
            self.mtu,
            self.traces.about(),
        )
    }

    /// The same with a round-trip time times a ratio.
    pub(super) fn with_round_trip_times(&self, numerator: u32, denominator: u32) -> Self {
        let rtt_us = self.rtt_us * u64::from(numerator) / u64::from(denominator);
        let factor = Ratio::new(numerator, denominator);
        Self {
            rtt_us,
            traces: self.traces.scaled(factor, Ratio::new(1, 1)),
            ..self.clone()
        }
    }

    /// The same with losses times a ratio, at most 30 % where they are not a trace's.
    pub(super) fn with_loss_times(&self, numerator: u32, denominator: u32) -> Self {
        let ppm = u64::from(self.loss_ppm) * u64::from(numerator) / u64::from(denominator);
        let factor = Ratio::new(numerator, denominator);
        Self {
            loss_ppm: ppm.min(300_000) as u32,
            traces: self.traces.scaled(Ratio::new(1, 1), factor),
            ..self.clone()
        }
    }

    /// Its settings for a scenario with a link, as `--set` has them.
    ///
    /// # Errors
    ///
    /// A mesh, which is a network of its own.
    pub fn settings(&self) -> Result<Vec<String>, CompareError> {
        if self.is_mesh {
            return Err(CompareError::of(
                format_args!("{} is a mesh, and not a link", self.name),
                "choose a link with rates, or a scenario of a mesh (`carob lab list`)",
            ));
        }
        let (buffer, down) = (self.buffer_bytes.max(u64::from(self.mtu)), self.rtt_us / 2);
        let mut settings = vec![
            format!("link.mtu={} B", self.mtu),
            format!("link.down.rate={} bit/s", self.down_bps),
            format!("link.up.rate={} bit/s", self.up_bps),
            "link.delay_of=direction".to_owned(),
            format!("link.down.delay={down} us"),
            format!("link.up.delay={} us", self.rtt_us - down),
            format!("link.extra_delay=0-{} us", self.jitter_us),
            format!("link.down.buffer={buffer} B"),
            format!("link.up.buffer={buffer} B"),
            "link.error=none".to_owned(),
            format!("link.loss={} %", decimal(self.loss_ppm, 10_000)),
            format!("link.loss_burst={}", decimal(self.loss_burst_milli, 1_000)),
            "link.error_directions=both".to_owned(),
        ];
        settings.extend(self.traces.settings());
        Ok(settings)
    }

    /// Its settings in a scenario file.
    pub(super) fn toml(&self) -> String {
        if self.is_mesh {
            return MESH.to_owned();
        }
        let down = self.rtt_us / 2;
        let traces = &self.traces;
        format!(
            r#"[link]
mtu = "{} B"
header = "28 B"
buffer = "{} B"
extra_delay = "0-{} us"
loss = "{} %"
loss_burst = "{}"
error_directions = "both"
{}
[link.down]
rate = "{} bit/s"
delay = "{down} us"
{}
[link.up]
rate = "{} bit/s"
delay = "{} us"
{}"#,
            self.mtu,
            self.buffer_bytes.max(u64::from(self.mtu)),
            self.jitter_us,
            decimal(self.loss_ppm, 10_000),
            decimal(self.loss_burst_milli, 1_000),
            traces.toml(),
            self.down_bps,
            NamedTrace::toml(traces.down.as_ref()),
            self.up_bps,
            self.rtt_us - down,
            NamedTrace::toml(traces.up.as_ref()),
        )
    }
}

/// The wireless network of `thread`: measured links, static routes as Thread's, which settle once.
const MESH: &str = r#"[mesh]
topology = "pint-measured"

[mac]
csma = "ieee802154"
transmissions_max = 16

[lowpan]
version = "contiki3x"
rpl_option = "off"

[rpl]
routing = "static"
settled_after = "5 min"
version = "contiki3x"
max_link_metric = 4
dio_doublings = 20
no_route_buffer = 8
"#;

/// `n / one` without rounding, for a power of ten.
fn decimal(n: u32, one: u32) -> String {
    let digits = one.ilog10() as usize;
    format!("{}.{:0digits$}", n / one, n % one)
}

/// A rate in its largest unit.
pub(super) fn rate_text(bps: u64) -> String {
    match bps {
        1_000_000.. => format!("{} Mbit/s", bps as f64 / 1e6),
        1_000.. => format!("{} kbit/s", bps as f64 / 1e3),
        _ => format!("{bps} bit/s"),
    }
}

/// A time in its largest unit.
pub(super) fn time_text(us: u64) -> String {
    match us {
        1_000_000.. => format!("{} s", us as f64 / 1e6),
        1_000.. => format!("{} ms", us as f64 / 1e3),
        _ => format!("{us} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_link_reads() {
        for known in BUILT_IN {
            let link = Link::built_in(known.name).expect("it reads");
            assert!(link.is_mesh || link.about().contains("down"), "{link:?}");
        }
        assert_eq!(Link::built_in("modem"), None);
    }

    #[test]
    fn a_file_says_what_is_wrong() {
        let text = |text| Link::from_file("my.toml", text).expect_err("wrong");
        assert!(
            text("[link]\ndown = \"1 kbit/s\"")
                .what
                .contains("up is missing")
        );
        let unit = text("[link]\ndown = \"5\"\nup = \"1 kbit/s\"");
        assert!(unit.what.contains("down is \"5\"") && unit.remedy.contains("kbit/s"));
        assert!(
            text("[link]\ndawn = \"5\"")
                .what
                .contains("unknown field `dawn`")
        );
        assert!(
            text("[link]\ndown = \"0 bit/s\"\nup = \"1 bit/s\"")
                .what
                .contains("is 0")
        );
    }

    #[test]
    fn changes_override_the_values_of_a_named_link() {
        let changes = WrittenLink {
            loss: Some("5 %".to_owned()),
            rtt: Some("1 s".to_owned()),
            ..WrittenLink::default()
        };
        let of = |name| WrittenLink::built_in(name).expect("built in");
        let changed = of("nb-iot").changed("nb-iot", &changes).expect("possible");
        let link = Link::read("nb-iot", &changed).expect("it reads");
        let plain = Link::built_in("nb-iot").expect("built in");
        assert_eq!((link.loss_ppm, link.rtt_us), (50_000, 1_000_000));
        assert_eq!(
            (link.down_bps, link.buffer_bytes),
            (30_000, plain.buffer_bytes)
        );
        let mesh = of("thread")
            .changed("thread", &changes)
            .expect_err("a mesh");
        assert!(mesh.what.contains("rtt, loss"), "{mesh}");
        let none = WrittenLink::default();
        assert!(none.is_empty() && of("thread").changed("thread", &none).is_ok());
    }

    #[test]
    fn settings_of_a_link_are_those_of_a_scenario() {
        let link = Link::built_in("nb-iot").expect("built in");
        let settings = link.settings().expect("a link");
        assert!(settings.contains(&"link.down.rate=30000 bit/s".to_owned()));
        assert!(settings.contains(&"link.loss=2.0000 %".to_owned()));
        let (default, _) = crate::scenario::builtin::find("carob/default").expect("built in");
        let read = crate::scenario::Scenario::read(default.name, default.text, &settings);
        let scenario = read.expect("it reads");
        // The scenario sweeps errors of its own; these are the link's.
        assert_eq!(scenario.cells().len(), 1);
        let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
        assert_eq!(spec.link.down.rate_bps, 30_000);
        let mesh = Link::built_in("thread").expect("built in");
        assert!(mesh.settings().expect_err("a mesh").what.contains("mesh"));
    }

    #[test]
    fn a_change_that_a_trace_hides_is_refused() {
        let mut traced = WrittenLink::built_in("lan").expect("built in");
        traced.trace.down = Some("d.csv".to_owned());
        let change = |key: &str| {
            let mut changes = WrittenLink::default();
            let value = match key {
                "down" => &mut changes.down,
                "up" => &mut changes.up,
                "loss" => &mut changes.loss,
                _ => &mut changes.buffer,
            };
            *value = Some("1 kB".to_owned());
            traced.clone().changed("my.toml", &changes)
        };
        assert!(change("up").is_ok() && change("buffer").is_ok());
        for key in ["down", "loss"] {
            let error = change(key).expect_err("hidden");
            assert!(error.what.contains(key) && error.what.contains("trace.down"));
        }
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal(20_000, 10_000), "2.0000");
        assert_eq!(decimal(1_005, 10_000), "0.1005");
        assert_eq!(decimal(1_400, 1_000), "1.400");
    }
}
