//! Configurations: a controller with block size and timers.

use std::fmt::{self, Write as _};

use carob_cc::registry;
use carob_cc::time::Duration;
use carob_cc::{TransmissionParameters, TransmissionProfile};
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

/// Timers of a configuration: RFC 7252, or a transmission profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timers {
    /// ACK_TIMEOUT 2 s, MAX_RETRANSMIT 4 (RFC 7252 4.8).
    Rfc7252,
    /// ACK_TIMEOUT 9 s, MAX_RETRANSMIT 5, timers of at most 32 s.
    NbIot,
    /// ACK_TIMEOUT 4 s, MAX_RETRANSMIT 6, timers of at most 32 s.
    LteM,
    /// ACK_TIMEOUT 1 s, MAX_RETRANSMIT 8, timers of at most 32 s.
    Lan,
    /// RFC 7252 with timers of at most 32 s; not tried, but judged as part of its profile.
    Thread,
}

impl Timers {
    /// All that are tried besides RFC 7252's.
    pub(super) const PROFILES: [Self; 3] = [Self::NbIot, Self::LteM, Self::Lan];

    /// Their values under RFC 7252's names; `None` for RFC 7252's own.
    pub fn words(self) -> Option<String> {
        let parameters = self.profile()?.parameters();
        let mut words = format!(
            "ACK_TIMEOUT {}, MAX_RETRANSMIT {}",
            parameters.ack_timeout, parameters.max_retransmit
        );
        if let Some(cap) = parameters.rto_max {
            // A String takes every write.
            let _ = write!(words, ", timers of at most {cap}");
        }
        Some(words)
    }

    fn ack_timeout(self) -> Duration {
        let own = self.profile().map(TransmissionProfile::parameters);
        own.unwrap_or(TransmissionParameters::DEFAULT).ack_timeout
    }

    /// Returns true if ACK_TIMEOUT is longer than RFC 7252's.
    pub(super) fn lengthens(self) -> bool {
        self.ack_timeout() > Self::Rfc7252.ack_timeout()
    }

    /// The profile that has them.
    pub fn profile(self) -> Option<TransmissionProfile> {
        match self {
            Self::Rfc7252 => None,
            Self::NbIot => Some(TransmissionProfile::NbIot),
            Self::LteM => Some(TransmissionProfile::LteM),
            Self::Lan => Some(TransmissionProfile::Lan),
            Self::Thread => Some(TransmissionProfile::Thread),
        }
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

    /// An unchanged transmission profile, with its largest block that fits.
    pub(super) fn of_profile(profile: TransmissionProfile, largest_block: u16) -> Self {
        Self {
            controller: profile.controller().name,
            block: profile.block_bytes().min(largest_block),
            timers: [Timers::NbIot, Timers::LteM, Timers::Lan, Timers::Thread]
                .into_iter()
                .find(|timers| timers.profile() == Some(profile))
                .unwrap_or(Timers::Rfc7252),
            transfer: Transfer::Block,
        }
    }

    /// Rule of RFC 7252 that excludes it from a comparison, if one does.
    pub fn exclusion(&self) -> Option<&'static str> {
        if self.transfer != Transfer::Block {
            return None;
        }
        let measures_nothing = ["default", "default-fb1", "default-fb2"].contains(&self.controller);
        let is_short = self.timers.ack_timeout() < Timers::Rfc7252.ack_timeout();
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
        if let Some(profile) = self.timers.profile() {
            let parameters = profile.parameters();
            let retransmissions = u32::from(parameters.max_retransmit);
            let timers = [
                ("ack_timeout", parameters.ack_timeout.into()),
                ("max_retransmit", retransmissions.into()),
            ];
            values.extend(table("transmission", timers));
            let cap = parameters.rto_max.map(|cap| [("rto_max", cap.into())]);
            values.extend(cap.into_iter().flat_map(|cap| table("transmission", cap)));
        }
    }

    /// Its settings in words, without the controller; `-` for RFC 7252.
    pub fn settings(&self, is_blockwise: bool) -> String {
        let mut parts = Vec::new();
        if is_blockwise {
            parts.push(format!("{} B", self.block));
        }
        if let Some(profile) = self.timers.profile() {
            parts.push(format!("ACK {}", profile.parameters().ack_timeout));
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
        if let Some(profile) = self.timers.profile() {
            words.push(format!("--profile {profile}"));
        }
        words.push(format!("--cc {}", self.controller));
        if self.transfer == Transfer::QBlock {
            words.push("--q-block on --non".to_owned());
        }
        if self.sets_block(is_blockwise) {
            words.push(format!("--block-size {}", self.block));
        }
        words.join(" ")
    }

    /// Returns whether the block size differs from the stack's, and from the largest of a profile that fits.
    fn sets_block(&self, is_blockwise: bool) -> bool {
        is_blockwise && (self.block != BLOCKS[0] || self.timers.profile().is_some())
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
        if let Some(profile) = self.timers.profile() {
            lines.push(format!("    .profile_named(\"{profile}\")?"));
        }
        lines.push(if registry::find(self.controller).is_ok() {
            format!("    .controller_named(\"{}\")?", self.controller)
        } else {
            format!(
                "    .controller(registry.find(\"{}\")?.choice())",
                self.controller
            )
        });
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
        let parameters = match self.timers.profile() {
            None => "TransmissionParameters::DEFAULT".to_owned(),
            Some(profile) => format!("TransmissionProfile::{profile:?}.parameters()"),
        };
        format!("{algorithm} with carob_cc::{parameters}")
    }
}

/// In short: the profile's other parameters go with its ACK_TIMEOUT.
impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transfer == Transfer::Tcp {
            return f.write_str("CoAP over TCP");
        }
        f.write_str(self.controller)?;
        if let Some(profile) = self.timers.profile() {
            write!(f, " with ACK_TIMEOUT {}", profile.parameters().ack_timeout)?;
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
        // Losses of observers concern servers that notify; a comparison tries these falls on its own link.
        let lines = losses.lines().skip(1);
        let deciding = lines.filter(|line| !line.starts_with("stress/observe-"));
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
            timers: Timers::NbIot,
            ..plain
        };
        assert_eq!(other.changes(&plain), 1);
        assert_eq!(other.options(false), "--profile nb-iot --cc fasor");
        let command = |name| other.command(&Traffic::named(name).expect("it is known"));
        assert_eq!(
            command("command"),
            "carob get --profile nb-iot --cc fasor URI"
        );
        let post = "carob post --profile nb-iot --cc fasor URI PAYLOAD";
        assert_eq!(command("telemetry"), post);
        assert_eq!(
            command("observe"),
            "carob serve --profile nb-iot --cc fasor"
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
        assert!(other.rust(true)[3].contains("from_szx(6)"));
        assert!(other.firmware().contains("NbIot.parameters()"));
    }
}
