//! The link of a comparison: rates, round-trip time, losses, buffer.

use std::collections::BTreeMap;

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use carob_sim::distribution::TimeDistribution;
use serde::{Serialize, Serializer};

use super::CompareError;
use super::built_in::BUILT_IN;
use super::mesh_links::MeshLinks;
use super::traces::LinkTraces;
use super::written_link::{OWN, WrittenLink};
use crate::scenario::keys::exact;
use crate::scenario::value::{Kind, Value, Values, table};

/// A link, in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Name of a built-in link, `custom`, or a file.
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
    /// The topology of a wireless network.
    #[serde(skip)]
    pub mesh: Option<MeshLinks>,
    /// Other keys of the table `link` of scenarios, such as `idle_setup` or `up.loss`.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        serialize_with = "as_texts"
    )]
    pub more: BTreeMap<String, Value>,
    /// True for a built-in link without a measured source.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_unvalidated: bool,
    /// Traces in the place of rates, delays and losses.
    #[serde(skip_serializing_if = "LinkTraces::is_empty")]
    pub traces: LinkTraces,
}

/// Round-trip time where none is stated.
const RTT_DEFAULT: Duration = Duration::from_millis(100);
/// Buffer where none is stated, in bytes.
const BUFFER_DEFAULT: u64 = 64_000;
/// Largest packet where none is stated: IPv6's minimum (RFC 8200 5).
const MTU_DEFAULT: u64 = 1_280;

/// The mean length of a run of losses: in thousandths of a packet, and in time if it is written so.
fn burst(name: &str, text: Option<&str>) -> Result<(u32, Option<Value>), CompareError> {
    let Some(text) = text else {
        return Ok((1_000, None));
    };
    if let Some(Value::Number(packets)) = Value::read(Kind::Number, text) {
        return Ok((u32::try_from(packets.of(1_000)).unwrap_or(u32::MAX), None));
    }
    let time = Value::read(Kind::Time, text).ok_or_else(|| {
        CompareError::of(
            format_args!("{name}: loss_burst is \"{text}\""),
            "loss_burst takes a number of packets, or a time such as \"300 ms\"",
        )
    })?;
    Ok((1_000, Some(time)))
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

    /// Reads the text of a link; `name` is for messages.
    ///
    /// # Errors
    ///
    /// A value that is not of its kind, and a missing rate.
    pub fn read(name: &str, written: &WrittenLink) -> Result<Self, CompareError> {
        let value = |key: &str, kind: Kind| match written.get(key) {
            None => Ok(None),
            Some(text) => Value::read(kind, text).map(Some).ok_or_else(|| {
                CompareError::of(
                    format_args!("{name}: {key} is \"{text}\""),
                    &format!("{key} takes {kind}"),
                )
            }),
        };
        let traces = LinkTraces::read(name, written)?;
        let mean_of = |key: &str| match key {
            "down" => traces.down.as_ref()?.trace.mean_rate_bps(),
            _ => traces.up.as_ref()?.trace.mean_rate_bps(),
        };
        let is_mesh = written.get("mesh").is_some();
        let rate = |key: &str| match value(key, Kind::Rate)? {
            Some(Value::Rate(bps)) if bps > 0 => Ok(bps),
            Some(_) => Err(CompareError::of(
                format_args!("{name}: {key} is 0, so nothing would ever arrive"),
                "set a rate such as \"60 kbit/s\"",
            )),
            None if is_mesh => Ok(0),
            None if mean_of(key).is_some() => Ok(mean_of(key).unwrap_or_default()),
            None => Err(CompareError::of(
                format_args!("{name}: {key} is missing"),
                "a link needs both rates, down and up; options override those of a named link, --link",
            )),
        };
        let time = |key: &str, default: Duration| {
            Ok(match value(key, Kind::Time)? {
                Some(Value::Time(Some(time))) => time.as_micros(),
                _ => default.as_micros(),
            })
        };
        let bytes = |key: &str, kind, default| {
            Ok(match value(key, kind)? {
                Some(Value::Bytes(bytes)) => bytes,
                _ => default,
            })
        };
        let mut more = BTreeMap::new();
        let (loss_burst_milli, burst_time) = burst(name, written.get("loss_burst"))?;
        more.extend(burst_time.map(|time| ("loss_burst_time".to_owned(), time)));
        for (key, _) in written.iter().filter(|(key, _)| !OWN.contains(key)) {
            let kind = exact(&format!("link.{key}")).map_or(Kind::Text, |found| found.kind);
            more.extend(value(key, kind)?.map(|value| (key.to_owned(), value)));
        }
        let rtt_us = match ["down.delay", "up.delay"].map(|key| more.get(key)) {
            [Some(Value::Time(Some(down))), Some(Value::Time(Some(up)))] => {
                (*down + *up).as_micros()
            }
            [None, None] => time("rtt", RTT_DEFAULT)?,
            _ => {
                return Err(CompareError::of(
                    format_args!("{name}: down.delay and up.delay go together"),
                    "set both, or rtt alone",
                ));
            }
        };
        let built_in = BUILT_IN.iter().find(|link| link.name == name);
        Ok(Self {
            name: name.to_owned(),
            more,
            is_unvalidated: built_in.is_some_and(|link| !link.is_validated),
            mesh: MeshLinks::read(name, written.get("mesh"))?,
            down_bps: rate("down")?,
            up_bps: rate("up")?,
            rtt_us,
            jitter_us: time("jitter", Duration::ZERO)?,
            loss_ppm: match value("loss", Kind::Percent)? {
                Some(Value::Percent(ppm)) => ppm,
                _ => 0,
            },
            loss_burst_milli,
            buffer_bytes: bytes("buffer", Kind::Bytes(68, 1 << 40), BUFFER_DEFAULT)?,
            mtu: bytes("mtu", Kind::Bytes(68, 65_535), MTU_DEFAULT)? as u32,
            is_mesh,
            traces,
        })
    }

    /// Loss of each direction in parts per million, down and up.
    pub(super) fn losses(&self) -> [u32; 2] {
        ["down.loss", "up.loss"].map(|key| match self.more.get(key) {
            Some(Value::Percent(ppm)) => *ppm,
            _ => self.loss_ppm,
        })
    }

    /// Mean of the losses of both directions in parts per million.
    pub(super) fn mean_loss_ppm(&self) -> u32 {
        let [down, up] = self.losses();
        u32::midpoint(down, up)
    }

    /// The other keys, with times or shares that `scaled` changes.
    fn with_more(&self, scaled: impl Fn(&str, &Value) -> Option<Value>) -> BTreeMap<String, Value> {
        let one = |(key, value): (&String, &Value)| {
            (
                key.clone(),
                scaled(key, value).unwrap_or_else(|| value.clone()),
            )
        };
        self.more.iter().map(one).collect()
    }

    /// The same with a round-trip time times a ratio.
    pub(super) fn with_round_trip_times(&self, numerator: u32, denominator: u32) -> Self {
        let rtt_us = self.rtt_us * u64::from(numerator) / u64::from(denominator);
        let factor = Ratio::new(numerator, denominator);
        Self {
            rtt_us,
            more: self.with_more(|key, value| match (key, value) {
                ("down.delay" | "up.delay", Value::Time(Some(delay))) => {
                    Some(Value::Time(Some(delay.scale(factor))))
                }
                ("idle_setup", Value::Distribution(takes)) => {
                    Some(Value::Distribution(takes.scaled(factor)))
                }
                _ => None,
            }),
            traces: self.traces.scaled(factor, Ratio::new(1, 1)),
            ..self.clone()
        }
    }

    /// The same with losses times a ratio, at most 30 % where they are not a trace's.
    pub(super) fn with_loss_times(&self, numerator: u32, denominator: u32) -> Self {
        let factor = Ratio::new(numerator, denominator);
        let times = |ppm: u32| {
            let ppm = u64::from(ppm) * u64::from(numerator) / u64::from(denominator);
            ppm.min(300_000) as u32
        };
        Self {
            loss_ppm: times(self.loss_ppm),
            more: self.with_more(|key, value| match (key, value) {
                ("down.loss" | "up.loss", Value::Percent(ppm)) => Some(Value::Percent(times(*ppm))),
                _ => None,
            }),
            traces: self.traces.scaled(Ratio::new(1, 1), factor),
            ..self.clone()
        }
    }

    /// Adds its keys to the values of a scenario, traces apart.
    pub(super) fn set_in(&self, values: &mut Values) {
        if let Some(mesh) = &self.mesh {
            return mesh.set_in(values);
        }
        // A buffer below one packet would drop every full packet. The way up has the microsecond of an odd
        // round trip.
        let (buffer, down) = (self.buffer_bytes.max(u64::from(self.mtu)), self.rtt_us / 2);
        let time = |us| Value::from(Duration::from_micros(us));
        let jitter = TimeDistribution::Uniform {
            low: Duration::ZERO,
            high: Duration::from_micros(self.jitter_us),
        };
        let own = [
            ("mtu", Value::Bytes(self.mtu.into())),
            ("down.rate", Value::Rate(self.down_bps)),
            ("up.rate", Value::Rate(self.up_bps)),
            ("down.delay", time(down)),
            ("up.delay", time(self.rtt_us - down)),
            ("extra_delay", Value::Distribution(jitter)),
            ("down.buffer", Value::Buffer(buffer)),
            ("up.buffer", Value::Buffer(buffer)),
            ("loss", Value::Percent(self.loss_ppm)),
            (
                "loss_burst",
                Value::Number(Ratio::new(self.loss_burst_milli, 1_000)),
            ),
            ("error_directions", "both".into()),
        ];
        values.extend(table("link", own));
        let more = self.more.iter();
        values.extend(more.map(|(key, value)| (format!("link.{key}"), value.clone())));
    }

    /// Its settings for a scenario with a link, as `--set` has them.
    ///
    /// # Errors
    ///
    /// A mesh instead of a link.
    pub fn settings(&self) -> Result<Vec<String>, CompareError> {
        if self.is_mesh {
            return Err(CompareError::of(
                format_args!("{} is a mesh, and not a link", self.name),
                "choose a link with rates, or a scenario of a mesh (`carob lab list`)",
            ));
        }
        let fixed = [("delay_of", "direction".into()), ("error", "none".into())];
        let mut values: Values = table("link", fixed).collect();
        self.set_in(&mut values);
        self.traces.set_in(&mut values);
        let settings = values.iter().map(|(path, value)| format!("{path}={value}"));
        Ok(settings.collect())
    }
}

fn as_texts<S: Serializer>(
    more: &BTreeMap<String, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(more.iter().map(|(key, value)| (key, value.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_link_reads() {
        for known in BUILT_IN {
            let link = Link::built_in(known.name).expect("it reads");
            assert!(link.is_mesh || link.about().contains("down"), "{link:?}");
            assert!(link.name.len() < 20 && !known.source.is_empty());
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
                .contains("unknown key dawn")
        );
        assert!(
            text("[link]\ndown = \"0 bit/s\"\nup = \"1 bit/s\"")
                .what
                .contains("is 0")
        );
    }

    #[test]
    fn changes_override_the_values_of_a_named_link() {
        let changes = WrittenLink::default()
            .with("loss", Some("5 %".to_owned()))
            .with("rtt", Some("1 s".to_owned()));
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
        assert!(mesh.what.contains("loss, rtt"), "{mesh}");
        let none = WrittenLink::default();
        assert!(none.is_empty() && of("thread").changed("thread", &none).is_ok());
    }

    #[test]
    fn settings_of_a_link_are_those_of_a_scenario() {
        let link = Link::built_in("lte-m").expect("built in");
        let settings = link.settings().expect("a link");
        assert!(settings.contains(&"link.down.rate=300 kbit/s".to_owned()));
        assert!(settings.contains(&"link.loss=1 %".to_owned()));
        let (default, _) = crate::scenario::builtin::find("carob/default").expect("built in");
        let read = crate::scenario::Scenario::read(default.name, default.text, &settings);
        let scenario = read.expect("it reads");
        // The scenario's sweep of errors is replaced by the link's.
        assert_eq!(scenario.cells().len(), 1);
        let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
        assert_eq!(crate::testing::link(spec).link.down.rate_bps, 300_000);
        let mesh = Link::built_in("thread").expect("built in");
        assert!(mesh.settings().expect_err("a mesh").what.contains("mesh"));
    }

    #[test]
    fn a_change_that_a_trace_hides_is_refused() {
        let lan = WrittenLink::built_in("lan").expect("built in");
        let traced = lan.with("trace.down", Some("d.csv".to_owned()));
        let change = |key: &str| {
            let changes = WrittenLink::default().with(key, Some("1 kB".to_owned()));
            traced.clone().changed("my.toml", &changes)
        };
        assert!(change("up").is_ok() && change("buffer").is_ok());
        for key in ["down", "loss"] {
            let error = change(key).expect_err("hidden");
            assert!(error.what.contains(key) && error.what.contains("trace.down"));
        }
    }

    #[test]
    fn a_file_says_all_that_a_scenario_can_say_of_a_link() {
        let text = "[link]\ndown.rate = \"30 kbit/s\"\nup.rate = \"10 kbit/s\"\nidle_setup = \"1-3 s\"\n\
                    up.loss = \"5 %\"\nchanges = \"outage from 5 s for 1 s\"\n\
                    down.delay = \"300 ms\"\nup.delay = \"100 ms\"\n\
                    down.device_rate = \"9 kbit/s\"\nup.device_rate = \"3 kbit/s\"\n";
        let link = Link::from_file("l.toml", text).expect("a link");
        assert_eq!((link.rtt_us, link.losses()), (400_000, [0, 50_000]));
        assert!(
            link.about().contains("idle setup 2.00 s on average"),
            "{}",
            link.about()
        );
        let question = super::super::Question::new(
            link.with_round_trip_times(2, 1).with_loss_times(2, 1),
            super::super::Traffic::named("command").expect("known"),
        );
        let second = Duration::from_secs(1);
        let network = crate::testing::link(question.spec(&Values::new()).expect("possible"));
        let setup = network.device.setup.expect("a set-up");
        assert_eq!(
            (setup.takes.least(), setup.takes.mean()),
            (second.times(2), second.times(4))
        );
        assert_eq!(network.device.radio.expect("a radio").up_bps, 3_000);
        assert_eq!(network.link.down.delay.as_millis(), 600);
        assert_eq!(network.link.up.delay.as_millis(), 200);
        assert!((network.link.up.loss.mean_ratio() - 0.1).abs() < 1e-6);
        assert_eq!(network.link.up.changes.len(), 1);

        let changed = |key: &str| {
            let value = if key == "loss" { "2 %" } else { "7 kbit/s" };
            let changes = WrittenLink::default().with(key, Some(value.to_owned()));
            let file = WrittenLink::from_file("l.toml", text_of_radio()).expect("a link");
            Link::read("l", &file.changed("l", &changes).expect("possible")).expect("a link")
        };
        assert_eq!(changed("loss").losses(), [20_000; 2]);
        assert!(
            changed("up")
                .more
                .keys()
                .all(|key| !key.ends_with("device_rate"))
        );
        for (key, value) in [
            ("idle_setup", "soon"),
            ("error", "low"),
            ("dawn.rate", "1 bit/s"),
        ] {
            let text = format!("[link]\ndown = \"1 bit/s\"\nup = \"1 bit/s\"\n{key} = \"{value}\"");
            let error = Link::from_file("l.toml", &text).expect_err(key);
            assert!(error.what.contains(key), "{error}");
        }
    }

    fn text_of_radio() -> &'static str {
        "[link]\ndown.rate = \"30 kbit/s\"\nup.rate = \"10 kbit/s\"\nup.loss = \"5 %\"\n\
         down.device_rate = \"9 kbit/s\"\nup.device_rate = \"3 kbit/s\"\n"
    }

    #[test]
    fn links_without_a_measured_source_say_so() {
        for known in BUILT_IN {
            let link = Link::built_in(known.name).expect("it reads");
            let says = link.about().contains("not validated");
            assert_eq!(says, !known.is_validated, "{}", known.name);
            assert!(known.text.starts_with("# "), "{} has no source", known.name);
        }
        assert!(!Link::built_in("3g").expect("built in").is_unvalidated);
        assert!(Link::built_in("gprs").expect("built in").is_unvalidated);
    }
}
