//! Named transmission profiles: parameters, controller and block size for one kind of link.
//!
//! RFC 7252's defaults suit any link, and so none well. A [`TransmissionProfile`] has the
//! [`TransmissionParameters`], a controller of the [`registry`] and a block size for one kind of
//! link, each value with its reason and its source, if any. `docs/profiles.md` compares the
//! profiles with the defaults on simulated links of each kind.
//!
//! Both ends may have different profiles, although RFC 7252 4.8.1 recommends the same parameters.
//! Every profile respects the deduplication time of a peer with the RFC's parameters.
//! MAX_TRANSMIT_SPAN is at most 147 s, so that the last transmission is recognised with any latency
//! up to MAX_LATENCY, and no Message ID is reused within 247 s. A controller whose timers stay
//! backed off between exchanges can retransmit later, up to 245.5 s after the first transmission:
//! that one is recognised, too, with a latency up to 1.5 s.
//!
//! ```
//! use carob_cc::TransmissionProfile;
//!
//! let profile: TransmissionProfile = "nb-iot".parse()?;
//! let parameters = profile.parameters();
//! let controller = profile.controller().build();
//! assert_eq!(parameters.ack_timeout.as_secs(), 9);
//! # drop(controller);
//! # Ok::<(), carob_cc::profile::UnknownProfile>(())
//! ```

use core::fmt;
use core::str::FromStr;

use crate::parameters::TransmissionParameters;
use crate::ratio::Ratio;
use crate::registry::{self, Entry};
use crate::time::Duration;

/// A profile for one kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransmissionProfile {
    /// `nb-iot`: Narrowband IoT, 3GPP's slowest: tens of kbit/s, round trips of a second to ten.
    NbIot,
    /// `lte-m`: LTE-M (eMTC): hundreds of kbit/s, round trips of a tenth of a second to three.
    LteM,
    /// `thread`: Thread and other meshes of IEEE 802.15.4.
    Thread,
    /// `lan`: Ethernet and Wi-Fi: round trips of milliseconds.
    Lan,
}

/// Reason for one value of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// The parameter under its RFC name, `controller` or `block size`.
    pub of: &'static str,
    /// The reason.
    pub why: &'static str,
    /// The source of the underlying fact; none for a choice of this project.
    pub source: Option<&'static str>,
}

struct Values {
    name: &'static str,
    about: &'static str,
    ack_timeout: Duration,
    max_retransmit: u8,
    controller: &'static str,
    block_bytes: u16,
    reasons: &'static [Reason],
}

const fn sourced(of: &'static str, why: &'static str, source: &'static str) -> Reason {
    Reason {
        of,
        why,
        source: Some(source),
    }
}

const fn chosen(of: &'static str, why: &'static str) -> Reason {
    Reason {
        of,
        why,
        source: None,
    }
}

/// The cap on backed-off timers of every profile.
///
/// With it there is time for more retransmissions within a peer's deduplication time.
const RTO_MAX: Duration = Duration::from_secs(32);

const NB_IOT: Values = Values {
    name: "nb-iot",
    about: "NB-IoT: tens of kbit/s, round trips of a second to ten",
    ack_timeout: Duration::from_secs(9),
    max_retransmit: 5,
    controller: "fasor",
    block_bytes: 1_024,
    reasons: &[
        sourced(
            "ACK_TIMEOUT",
            "the DTLS profile for the IoT starts at 9 s in slow networks; paging reaches a sleeping device within \
             10.24 s; 10 s were too short in some networks of Nordic's customers",
            "RFC 7925 11; 3GPP TS 36.331, defaultPagingCycle-r13; nrfconnect/sdk-nrf pull request 2498",
        ),
        chosen(
            "MAX_RETRANSMIT",
            "adaptive timers are short, so that 4 retransmissions end within a fade of 10 s; more than 5 would \
             exceed the deduplication lifetime of a peer",
        ),
        chosen(
            "controller",
            "of the controllers tried on the thesis's link it recovers fastest from losses, with almost no spurious \
             retransmissions at round-trip times of ten seconds",
        ),
        chosen(
            "block size",
            "the largest: by the cost of `carob lab compare` it halves that of a download by one device, and changes \
             nothing for ten; on a link with an MTU below 1063 B, set a block that fits a packet",
        ),
    ],
};

const LTE_M: Values = Values {
    name: "lte-m",
    about: "LTE-M: hundreds of kbit/s, round trips of a tenth of a second to three",
    ack_timeout: Duration::from_secs(4),
    max_retransmit: 6,
    controller: "cocoa-03",
    block_bytes: 1_024,
    reasons: &[
        sourced(
            "ACK_TIMEOUT",
            "a device that sleeps between pages is reached within 2.56 s, and has to connect then; with eDRX it takes \
             5.12 s and more, and needs more",
            "3GPP TS 36.331, PCCH-Config, defaultPagingCycle",
        ),
        chosen(
            "MAX_RETRANSMIT",
            "adaptive timers are short, so that 4 retransmissions end within a fade of 10 s; more than 6 would \
             exceed the deduplication lifetime of a peer",
        ),
        chosen(
            "controller",
            "its backoff triples short timers, so that it gives up less often in fades than controllers that are otherwise faster",
        ),
        chosen(
            "block size",
            "the default; packets of 1280 B and more are not fragmented",
        ),
    ],
};

const THREAD: Values = Values {
    name: "thread",
    about: "Thread and other meshes of IEEE 802.15.4: 250 kbit/s shared by all, several hops",
    ack_timeout: Duration::from_secs(2),
    max_retransmit: 4,
    controller: "cocoa-03",
    block_bytes: 64,
    reasons: &[
        sourced(
            "ACK_TIMEOUT",
            "the default, which OpenThread keeps; sleepy children must poll more often",
            "RFC 7252 4.8; OpenThread, otCoapTxParameters",
        ),
        sourced(
            "MAX_RETRANSMIT",
            "the default: more retransmissions did not deliver more messages through a loaded mesh",
            "RFC 7252 4.8",
        ),
        chosen(
            "controller",
            "in a loaded mesh of 22 nodes it delivers most of the controllers that pass the stress suite: 88.6 % at a message in 2 s \
             of each node (default CoAP: 83.6 %)",
        ),
        sourced(
            "block size",
            "a block with its headers fits one frame of 127 B, so that no fragment is lost alone",
            "IEEE 802.15.4 (127 B); RFC 7252 4.6 (one frame)",
        ),
    ],
};

const LAN: Values = Values {
    name: "lan",
    about: "Ethernet and Wi-Fi: round trips of milliseconds",
    ack_timeout: Duration::from_secs(1),
    max_retransmit: 8,
    controller: "linux-rto-kernel",
    block_bytes: 1_024,
    reasons: &[
        sourced(
            "ACK_TIMEOUT",
            "the minimum without knowledge of the path",
            "RFC 7252 4.8.1; RFC 8085 3.1.1",
        ),
        chosen(
            "MAX_RETRANSMIT",
            "from a timer of 200 ms on, the 8th retransmission leaves after 51 s, which bridges the outage of an \
             access point; more than 8 would exceed the deduplication lifetime of a peer",
        ),
        chosen(
            "controller",
            "its timers are 200 ms at least, more than the 100 ms after which servers send an empty ACK, so that an \
             occasional slow response causes no retransmission; without slow responses cocoa-03 recovers sooner",
        ),
        chosen("block size", "the default and the maximum"),
    ],
};

/// The values common to all profiles.
const OF_ALL: [Reason; 5] = [
    sourced(
        "ACK_RANDOM_FACTOR",
        "the default: it desynchronizes clients that start together",
        "RFC 7252 4.8",
    ),
    chosen(
        "cap on timers",
        "32 s, as in CoCoA, for all controllers: more retransmissions leave while a peer with RFC 7252's parameters still deduplicates",
    ),
    sourced(
        "NSTART",
        "the default; a larger value needs knowledge of the link's capacity",
        "RFC 7252 4.7",
    ),
    sourced(
        "PROBING_RATE, DEFAULT_LEISURE",
        "the defaults: no source has other values for these links",
        "RFC 7252 4.8",
    ),
    sourced(
        "MAX_LATENCY",
        "the default: a value of the Internet, independent of the last link",
        "RFC 7252 4.8.2",
    ),
];

impl TransmissionProfile {
    /// Every profile, from the slowest link to the fastest.
    pub const ALL: [Self; 4] = [Self::NbIot, Self::LteM, Self::Thread, Self::Lan];

    const fn values(self) -> &'static Values {
        match self {
            Self::NbIot => &NB_IOT,
            Self::LteM => &LTE_M,
            Self::Thread => &THREAD,
            Self::Lan => &LAN,
        }
    }

    /// Returns the name in configurations and on the command line.
    pub const fn name(self) -> &'static str {
        self.values().name
    }

    /// Returns the description in a sentence.
    pub const fn about(self) -> &'static str {
        self.values().about
    }

    /// Returns the transmission parameters. They override those that the controller suggests.
    pub const fn parameters(self) -> TransmissionParameters {
        let values = self.values();
        TransmissionParameters {
            ack_timeout: values.ack_timeout,
            ack_random_factor: Ratio::new(3, 2),
            max_retransmit: values.max_retransmit,
            rto_max: Some(RTO_MAX),
            ..TransmissionParameters::DEFAULT
        }
    }

    /// Returns the controller.
    pub fn controller(self) -> Entry {
        registry::find(self.values().controller).expect("a test looks all of them up")
    }

    /// Returns the largest block to send or request, in bytes (RFC 7959).
    pub const fn block_bytes(self) -> u16 {
        self.values().block_bytes
    }

    /// Returns the reasons for the values: the profile's own first, then those that all profiles
    /// share.
    pub fn reasons(self) -> impl Iterator<Item = &'static Reason> {
        self.values().reasons.iter().chain(&OF_ALL)
    }
}

impl fmt::Display for TransmissionProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TransmissionProfile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
            .ok_or(UnknownProfile)
    }
}

/// Error of a profile name: no profile has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownProfile;

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown transmission profile; there are")?;
        for (i, profile) in TransmissionProfile::ALL.iter().enumerate() {
            write!(f, "{}{profile}", if i == 0 { " " } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownProfile {}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    const RFC: TransmissionParameters = TransmissionParameters::DEFAULT;

    #[test]
    fn every_profile_has_name_controller_and_block_size() {
        for profile in TransmissionProfile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
            assert_eq!(profile.controller().name, profile.values().controller);
            let bytes = profile.block_bytes();
            assert!(bytes.is_power_of_two() && (16..=1_024).contains(&bytes));
        }
        let wrong: Result<TransmissionProfile, _> = "5g".parse();
        let text = wrong.unwrap_err().to_string();
        assert!(text.ends_with("there are nb-iot, lte-m, thread, lan"));
    }

    #[test]
    fn every_value_has_a_reason() {
        for profile in TransmissionProfile::ALL {
            for of in ["ACK_TIMEOUT", "MAX_RETRANSMIT", "controller", "block size"] {
                let reasons = profile.reasons().filter(|reason| reason.of == of);
                assert_eq!(reasons.count(), 1, "{profile}: {of}");
            }
        }
    }

    /// RFC 7252 4.4, 4.5: the last transmission must arrive within the peer's EXCHANGE_LIFETIME,
    /// and a Message ID be reused only after it.
    #[test]
    fn profiles_fit_deduplication_lifetime_of_rfc_peers() {
        for profile in TransmissionProfile::ALL {
            let own = profile.parameters();
            let last = own.max_transmit_span() + RFC.max_latency;
            assert!(last <= RFC.exchange_lifetime(), "{profile}: {last}");
            let again = own.exchange_lifetime();
            assert!(again >= RFC.exchange_lifetime(), "{profile}: {again}");
            assert!(own.non_lifetime() >= RFC.non_lifetime(), "{profile}");
            // The engine sends no retransmission later than this, with any timers.
            let latest = own.exchange_lifetime().saturating_sub(own.max_latency);
            assert!(latest < RFC.exchange_lifetime(), "{profile}: {latest}");
        }
    }

    #[test]
    fn no_timer_is_shorter_than_a_second_before_anything_is_known() {
        for profile in TransmissionProfile::ALL {
            let own = profile.parameters();
            assert!(own.ack_timeout >= Duration::from_secs(1), "RFC 8085 3.1.1");
            assert!(own.ack_random_factor.of(2) >= 2);
            assert!(own.max_retransmit <= TransmissionParameters::MAX_RETRANSMIT_LIMIT);
        }
    }
}
