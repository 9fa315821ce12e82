//! Configurations: a controller with block size and timers.

use std::fmt;

use carob_cc::registry;
use carob_cc::time::Duration;
use carob_sim::registry::Registry;
use serde::{Deserialize, Serialize};

use super::traffic::{Traffic, TrafficKind};
use crate::scenario::value::{Values, table};

/// Block sizes that are tried; the first is the stack's own.
pub(super) const BLOCKS: [u16; 5] = [1_024, 512, 256, 128, 64];

/// Controllers that are not compared, with the reason: they deliver less than default CoAP in the stress suite
/// (`crates/lab/results/stress.md`), repeat one study or program, or need more than a peer with RFC 7252.
pub const LEFT_OUT: [(&str, &str); 17] = [
    (
        "observe-static",
        "default CoAP with a fixed rate of notifications",
    ),
    ("cocoa-v0", "a draft before CoCoA+"),
    (
        "cocoa-plus",
        "stress suite: loses more in an outage of 30 s",
    ),
    ("cocoa-001", "cocoa-03 with a study's MAX_RETRANSMIT"),
    ("cocoa-002", "cocoa-03 with a study's gains"),
    ("cocoa-004-text", "CoCoA+ as a study describes it"),
    ("cocoa-004-as-run", "the slips of a study's program"),
    ("cocoa-californium", "the rounding of a program"),
    ("cocoa-contiki", "the slips of a program"),
    (
        "cocoa-fast",
        "stress suite: loses more with a slow server and in outages",
    ),
    (
        "cocoa-plus-plus",
        "stress suite: loses more when the capacity falls",
    ),
    (
        "fasor",
        "stress suite: loses more when 200 devices start at once",
    ),
    (
        "fasor-option",
        "needs a peer with the retransmission-count option",
    ),
    (
        "fasor-token",
        "stress suite: loses more when 200 devices start at once",
    ),
    (
        "rtt-count",
        "needs a peer with the retransmission-count option",
    ),
    ("linux-rto", "a program's variant of linux-rto-kernel"),
    ("peak-hopper-cal", "the rounding of a program"),
];

/// Controllers that are preferred to others of about the same cost, in this order: an RFC, an Internet-Draft of a
/// working group, and a kernel's. Others were published by their authors alone.
pub(super) const REVIEWED: [&str; 3] = ["rfc6298", "cocoa-03", "linux-rto-kernel"];

/// The controllers that are compared, by registry id; `default` first.
pub fn controllers() -> Vec<&'static str> {
    controllers_of(Registry::BUILT_IN)
}

/// The controllers of a registry that are compared; `default` first.
pub(super) fn controllers_of(registry: Registry) -> Vec<&'static str> {
    registry
        .names()
        .filter(|name| LEFT_OUT.iter().all(|(out, _)| out != name))
        .collect()
}

/// Timers of a configuration. All but RFC 7252's are of at most 32 s, so that a peer with its parameters recognises
/// the last retransmission as a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timers {
    /// ACK_TIMEOUT 2 s, MAX_RETRANSMIT 4 (RFC 7252 4.8).
    Rfc7252,
    /// ACK_TIMEOUT 9 s, as in the DTLS profile for slow networks (RFC 7925 11), MAX_RETRANSMIT 5.
    NineSeconds,
    /// ACK_TIMEOUT 4 s, MAX_RETRANSMIT 6: a sleeping LTE-M device is reached within 2.56 s (3GPP TS 36.331).
    FourSeconds,
    /// ACK_TIMEOUT 1 s, the least without knowledge of the path (RFC 8085 3.1.1), MAX_RETRANSMIT 8.
    OneSecond,
}

impl Timers {
    /// All that are tried besides RFC 7252's.
    pub(super) const OTHERS: [Self; 3] = [Self::NineSeconds, Self::FourSeconds, Self::OneSecond];

    /// ACK_TIMEOUT in seconds, and MAX_RETRANSMIT.
    fn values(self) -> (u32, u8) {
        match self {
            Self::Rfc7252 => (2, 4),
            Self::NineSeconds => (9, 5),
            Self::FourSeconds => (4, 6),
            Self::OneSecond => (1, 8),
        }
    }

    /// The cap on backed-off timers, in seconds.
    const CAP: u32 = 32;

    /// Returns whether they differ from RFC 7252's.
    fn is_set(self) -> bool {
        self != Self::Rfc7252
    }

    /// Their values under RFC 7252's names; `None` for RFC 7252's own.
    pub fn words(self) -> Option<String> {
        let (timeout, most) = self.values();
        let cap = Self::CAP;
        (self.is_set()).then(|| {
            format!("ACK_TIMEOUT {timeout} s, MAX_RETRANSMIT {most}, timers of at most {cap} s")
        })
    }

    /// Returns true if ACK_TIMEOUT is longer than RFC 7252's.
    pub(super) fn lengthens(self) -> bool {
        self.values().0 > Self::Rfc7252.values().0
    }
}

/// Transfer of requests and bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transfer {
    /// CoAP over UDP, bodies by Block1 and Block2 (RFC 7959).
    #[default]
    Block,
    /// CoAP over UDP, bodies by Q-Block1 and Q-Block2 (RFC 9177) in NON messages.
    QBlock,
    /// CoAP over TCP (RFC 8323), whose controller is the kernel's.
    Tcp,
}

impl Transfer {
    /// The support that the peer needs, if it needs any.
    pub fn needs(self) -> Option<&'static str> {
        match self {
            Self::Block => None,
            Self::QBlock => Some("Q-Block"),
            Self::Tcp => Some("CoAP over TCP"),
        }
    }
}

/// The simulated kernel's congestion control over TCP.
pub(super) const TCP: &str = "tcp-cubic";

/// A controller with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// Registry id of the controller.
    pub controller: &'static str,
    /// Block size in bytes, for bodies in blocks.
    pub block: u16,
    /// ACK_TIMEOUT, MAX_RETRANSMIT and the cap on timers.
    pub timers: Timers,
    /// Transfer of requests and bodies.
    pub transfer: Transfer,
}

impl Configuration {
    /// Default CoAP: the parameters of RFC 7252, and the largest block that fits.
    pub(super) fn default_coap(block: u16) -> Self {
        Self {
            controller: "default",
            block,
            timers: Timers::Rfc7252,
            transfer: Transfer::Block,
        }
    }

    /// The same with `carob`. With nothing set it is compared to the end, and recommended although others cost a
    /// little less.
    pub(super) fn with_carob(self) -> Self {
        Self {
            controller: "carob",
            ..self
        }
    }

    /// Rule of RFC 7252 that excludes it from a comparison, if one does.
    pub fn exclusion(&self) -> Option<&'static str> {
        if self.transfer != Transfer::Block {
            return None;
        }
        let measures_nothing = ["default", "default-fb1", "default-fb2"].contains(&self.controller);
        let is_short = self.timers.values().0 < Timers::Rfc7252.values().0;
        (measures_nothing && is_short).then_some(
            "ACK_TIMEOUT below 2 s needs timers that follow the round trip (RFC 7252 4.8.1)",
        )
    }

    /// Settings in which it differs from another, the controller apart.
    pub(super) fn changes(&self, from: &Self) -> usize {
        usize::from(self.block != from.block) + usize::from(self.timers != from.timers)
    }

    /// Adds its transmission parameters to the values of a scenario.
    pub(super) fn set_in(&self, values: &mut Values) {
        values.extend(table("transmission", [("nstart", 1.into())]));
        if self.timers.is_set() {
            let (timeout, most) = self.timers.values();
            let seconds = |s: u32| Duration::from_secs(u64::from(s)).into();
            let timers = [
                ("ack_timeout", seconds(timeout)),
                ("max_retransmit", u32::from(most).into()),
                ("rto_max", seconds(Timers::CAP)),
            ];
            values.extend(table("transmission", timers));
        }
    }

    /// Its settings in words, without the controller; `-` for RFC 7252.
    pub fn settings(&self, is_blockwise: bool) -> String {
        let mut parts = Vec::new();
        if is_blockwise {
            parts.push(format!("{} B", self.block));
        }
        if self.timers.is_set() {
            parts.push(format!("ACK {} s", self.timers.values().0));
        }
        match self.transfer {
            Transfer::Block => {}
            Transfer::QBlock => parts.push("Q-Block".to_owned()),
            Transfer::Tcp => parts = vec!["over TCP".to_owned()],
        }
        if parts.is_empty() {
            return "-".to_owned();
        }
        parts.join(", ")
    }

    /// Options of `carob get` and its like.
    pub fn options(&self, is_blockwise: bool) -> String {
        let mut words = Vec::new();
        if self.transfer == Transfer::Tcp {
            return String::new();
        }
        words.push(format!("--cc {}", self.controller));
        if self.timers.is_set() {
            let (timeout, most) = self.timers.values();
            let cap = Timers::CAP;
            words.push(format!(
                "--ack-timeout {timeout}s --max-retransmit {most} --rto-max {cap}s"
            ));
        }
        if self.transfer == Transfer::QBlock {
            words.push("--q-block on --non".to_owned());
        }
        if self.sets_block(is_blockwise) {
            words.push(format!("--block-size {}", self.block));
        }
        words.join(" ")
    }

    /// Returns whether the block size differs from the stack's.
    fn sets_block(&self, is_blockwise: bool) -> bool {
        is_blockwise && self.block != BLOCKS[0]
    }

    /// The command for this traffic, at the end that sends.
    pub fn command(&self, traffic: &Traffic) -> String {
        if self.transfer == Transfer::Tcp {
            let command = match traffic.kind {
                TrafficKind::Telemetry => "carob post coap+tcp://HOST/PATH PAYLOAD",
                TrafficKind::Observe => "carob serve --tcp [::]:5683",
                _ => "carob get coap+tcp://HOST/PATH",
            };
            return command.to_owned();
        }
        let options = self.options(traffic.is_blockwise());
        match traffic.kind {
            TrafficKind::Telemetry => format!("carob post {options} URI PAYLOAD"),
            TrafficKind::Observe => format!("carob serve {options}"),
            TrafficKind::Firmware | TrafficKind::Command | TrafficKind::Own => {
                format!("carob get {options} URI")
            }
        }
    }

    /// Rust for the library, in lines.
    pub fn rust(&self, is_blockwise: bool) -> Vec<String> {
        let mut lines = vec!["let config = carob::Config::default()".to_owned()];
        lines.push(if registry::find(self.controller).is_ok() {
            format!("    .controller_named(\"{}\")?", self.controller)
        } else {
            format!(
                "    .controller(registry.find(\"{}\")?.choice())",
                self.controller
            )
        });
        if self.timers.is_set() {
            let (timeout, most) = self.timers.values();
            let cap = Timers::CAP;
            lines.extend([
                "    .adjust_parameters(|p| {".to_owned(),
                format!(
                    "        p.ack_timeout = std::time::Duration::from_secs({timeout}).into();"
                ),
                format!("        p.max_retransmit = {most};"),
                format!("        p.rto_max = Some(std::time::Duration::from_secs({cap}).into());"),
                "    })".to_owned(),
            ]);
        }
        if self.sets_block(is_blockwise) {
            // SZX of 2^(SZX + 4) bytes (RFC 7959 2.2).
            let szx = self.block.ilog2() - 4;
            lines.push(format!(
                "    .block_size(carob::BlockSize::from_szx({szx}).expect(\"0 to 6\"))"
            ));
        }
        if let Some(last) = lines.last_mut() {
            last.push(';');
        }
        lines
    }

    /// Rust for firmware, with `carob-cc` alone.
    pub fn firmware(&self) -> String {
        let algorithm = registry::find(self.controller).map_or_else(
            |_| self.controller.to_owned(),
            |entry| format!("carob_cc::algorithms::{}", entry.path),
        );
        let words = self.timers.words();
        let but = words.map_or_else(String::new, |words| format!(", but {words}"));
        format!("{algorithm} with carob_cc::TransmissionParameters::DEFAULT{but}")
    }
}

/// In short: MAX_RETRANSMIT and the cap on timers go with ACK_TIMEOUT.
impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transfer == Transfer::Tcp {
            return f.write_str("CoAP over TCP");
        }
        f.write_str(self.controller)?;
        if self.timers.is_set() {
            write!(f, " with ACK_TIMEOUT {} s", self.timers.values().0)?;
        }
        if self.transfer == Transfer::QBlock {
            f.write_str(" by Q-Block")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_in_the_registry_and_default_is_first() {
        for (name, _) in LEFT_OUT {
            assert!(registry::find(name).is_ok(), "{name}");
        }
        let compared = controllers();
        assert_eq!(compared[0], "default");
        assert_eq!(compared.len() + LEFT_OUT.len(), registry::entries().count());
        assert!(compared.contains(&"carob"));
    }

    #[test]
    fn controllers_that_deliver_less_under_stress_are_left_out() {
        let losses = include_str!("../../results/stress-losses.csv");
        // A comparison tries observers and meshes on its own link.
        let lines = losses.lines().skip(1);
        let own = ["stress/observe-", "stress/mesh-"];
        let deciding = lines.filter(|line| !own.iter().any(|own| line.starts_with(own)));
        let controllers = deciding.map(|line| line.split(',').nth(1));
        let names: Vec<&str> = controllers.map(|name| name.expect("a name")).collect();
        assert!(!names.is_empty());
        let compared = super::controllers();
        for name in &names {
            assert!(
                !compared.contains(name),
                "{name} loses more than default CoAP"
            );
        }
        let by_stress = LEFT_OUT.iter().filter(|(_, why)| why.starts_with("stress"));
        for (name, _) in by_stress {
            assert!(names.contains(name), "{name} does not lose more");
        }
    }

    #[test]
    fn settings_to_paste_name_what_differs() {
        let plain = Configuration::default_coap(1_024);
        assert_eq!(
            plain.options(true),
            "--cc default",
            "1024 B is the stack's block size"
        );
        let small = Configuration::default_coap(512);
        assert_eq!(small.options(true), "--cc default --block-size 512");
        assert_eq!(plain.settings(false), "-");
        let other = Configuration {
            controller: "fasor",
            timers: Timers::NineSeconds,
            ..plain
        };
        assert_eq!(other.changes(&plain), 1);
        assert_eq!(
            other.options(false),
            "--cc fasor --ack-timeout 9s --max-retransmit 5 --rto-max 32s"
        );
        let command = |name| other.command(&Traffic::named(name).expect("it is known"));
        assert_eq!(
            command("command"),
            "carob get --cc fasor --ack-timeout 9s --max-retransmit 5 --rto-max 32s URI"
        );
        let post =
            "carob post --cc fasor --ack-timeout 9s --max-retransmit 5 --rto-max 32s URI PAYLOAD";
        assert_eq!(command("telemetry"), post);
        assert_eq!(
            command("observe"),
            "carob serve --cc fasor --ack-timeout 9s --max-retransmit 5 --rto-max 32s"
        );
        let by_tcp = Configuration {
            transfer: Transfer::Tcp,
            ..plain
        };
        let get = by_tcp.command(&Traffic::named("firmware").expect("it is known"));
        assert_eq!(get, "carob get coap+tcp://HOST/PATH");
        let q_block = Configuration {
            transfer: Transfer::QBlock,
            ..plain
        };
        assert_eq!(q_block.options(true), "--cc default --q-block on --non");
        assert_eq!(q_block.settings(true), "1024 B, Q-Block");
        assert!(other.rust(true)[3].contains("ack_timeout = std::time::Duration::from_secs(9)"));
        assert!(
            other
                .firmware()
                .ends_with(", but ACK_TIMEOUT 9 s, MAX_RETRANSMIT 5, timers of at most 32 s")
        );
    }
}
