//! TCP settings: name, unit, value in each profile, and the source of each value.
//!
//! The table is in one place (`table.rs`); scenario files, `--set tcp.<name>=<value>`, help and
//! documents read [`KEYS`]. Profiles:
//!
//! - [`TcpSettings::THESIS`]: the thesis's settings (its 4.2; `docs/algorithms.md#coap-over-tcp`),
//!   and for the rest Linux of its time.
//! - [`TcpSettings::KERNEL`]: Linux 6.18 with those settings (`docs/emulation.md`).
//! - [`TcpSettings::RFC`]: the letter of RFC 5681, 6298 and 6582, without extensions.
//! - [`TcpSettings::MODERN`]: a contemporary stack: SACK, timestamps, initial window 10, CUBIC.

mod table;

use core::fmt;

use carob_cc::constants::Value;
use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use carob_cc::variants;

pub use table::{KEYS, TcpSettings};

variants! {
    /// The congestion control algorithm.
    pub enum Algorithm {
        /// RFC 5681 with RFC 6582.
        NewReno = "newreno",
        /// RFC 9438.
        Cubic = "cubic",
        /// BBR version 1, as in Linux.
        Bbr1 = "bbr1",
        /// BBR version 3 (draft-ietf-ccwg-bbr).
        Bbr3 = "bbr3",
    }
}

variants! {
    /// Window reduction during fast recovery.
    pub enum Reduction {
        /// RFC 6582 3.2: to half at once, inflated by duplicate ACKs; with SACK, RFC 6675's pipe.
        Classic = "classic",
        /// Proportional rate reduction (RFC 6937): along with deliveries, over the recovery.
        Prr = "prr",
        /// RFC 5681 without RFC 6582: the first ACK of new data ends recovery.
        Reno = "reno",
    }
}

variants! {
    /// The bound of proportional rate reduction while the pipe is below ssthresh (RFC 6937 3).
    pub enum PrrBound {
        /// Conservative: as much as was delivered.
        Conservative = "crb",
        /// Slow start: one segment more with every ACK.
        SlowStart = "ssrb",
        /// Linux since 4.0: slow start only with an ACK of new data that shows no further loss.
        Linux = "linux",
    }
}

variants! {
    /// The retransmission timeout estimator.
    pub enum Estimator {
        /// RFC 6298 2.
        Rfc6298 = "rfc6298",
        /// Linux: deviation reacts slowly to falling samples, and its maximum holds for a window.
        Linux = "linux",
    }
}

variants! {
    /// The end of a backed-off timeout.
    pub enum BackoffEnd {
        /// With the next round-trip sample from a segment sent once (Karn; RFC 6298 5).
        Sample = "sample",
        /// With the next ACK of new data.
        NewAck = "new-ack",
        /// With the first timeout after an ACK of new data, which is doubled again (4.4BSD).
        Bsd = "bsd",
    }
}

variants! {
    /// Retransmissions after a timeout.
    pub enum AfterTimeout {
        /// All outstanding segments, in slow start, except segments that an ACK covers first.
        GoBackN = "go-back-n",
        /// The first segment; the rest counts as in flight, and its losses are detected again.
        HeadOnly = "head-only",
    }
}

variants! {
    /// The ACKs of new data that restart the retransmission timer during fast recovery (RFC 6582
    /// 4).
    pub enum PartialAckTimer {
        /// The first only: "impatient".
        First = "impatient",
        /// All of them: "slow but steady". Linux does this.
        Every = "slow-but-steady",
    }
}

variants! {
    /// The quantity of which ssthresh becomes half at a loss.
    pub enum HalfOf {
        /// Outstanding data (RFC 5681 3.1).
        Flight = "flight",
        /// The congestion window (Linux).
        Window = "window",
    }
}

variants! {
    /// Window reduction after an idle time longer than the timeout.
    pub enum IdleRestart {
        /// Nothing.
        None = "none",
        /// The window falls to the initial window (RFC 5681 4.1).
        Rfc5681 = "rfc5681",
        /// The window halves with each timeout that passed, down to the initial (RFC 2861, Linux).
        Decay = "decay",
    }
}

variants! {
    /// Acknowledgment of in-order data.
    pub enum DelayedAck {
        /// At once.
        None = "none",
        /// After a number of full segments, or after a fixed time (RFC 5681 4.2).
        Constant = "constant",
        /// Linux: at once for the first segments, then with an adaptive delay.
        Linux = "linux",
    }
}

variants! {
    /// The segment, of those an ACK delivers, that gives the delivery-rate sample.
    pub enum RateSampleOf {
        /// The one sent last (Linux since 5.18).
        LatestSent = "latest-sent",
        /// The one with the most deliveries before its transmission (earlier Linux).
        MostDelivered = "most-delivered",
    }
}

variants! {
    /// Version of BBR 1 (`docs/algorithms.md#tcp-bbr1`).
    pub enum BbrEra {
        /// As published in 2016: none of the later additions.
        Era2016 = "2016",
        /// Linux 5: margin below the estimate, ACK aggregation, larger windows at the edges.
        Linux5 = "linux-5",
    }
}

/// A setting as shown to users.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name in `--set tcp.<name>=<value>`.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Unit, or empty.
    pub unit: &'static str,
    /// Accepted values.
    pub kind: &'static str,
    /// Source of the profiles' values.
    pub source: &'static str,
}

/// A profile's name and values.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name in scenarios.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Its values.
    pub settings: TcpSettings,
}

/// All profiles.
pub const PROFILES: [Profile; 4] = [
    Profile {
        name: "thesis",
        about: "the thesis's settings, Linux of its time for the rest",
        settings: TcpSettings::THESIS,
    },
    Profile {
        name: "kernel",
        about: "what Linux 6.18 did with the thesis's settings",
        settings: TcpSettings::KERNEL,
    },
    Profile {
        name: "rfc",
        about: "the letter of RFC 5681, 6298 and 6582",
        settings: TcpSettings::RFC,
    },
    Profile {
        name: "modern",
        about: "SACK, timestamps, initial window 10 and CUBIC",
        settings: TcpSettings::MODERN,
    },
];

/// The profile of that name.
pub fn profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// An algorithm under its name beside the controllers of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name in scenarios, tables and the command line.
    pub name: &'static str,
    /// The algorithm.
    pub congestion: Algorithm,
    /// Description in a sentence.
    pub about: &'static str,
}

/// All algorithms over TCP.
pub const ALGORITHMS: [Named; 4] = [
    Named {
        name: "tcp-newreno",
        congestion: Algorithm::NewReno,
        about: "CoAP over TCP (RFC 8323) with New Reno (RFC 5681, 6582)",
    },
    Named {
        name: "tcp-cubic",
        congestion: Algorithm::Cubic,
        about: "CoAP over TCP (RFC 8323) with CUBIC (RFC 9438)",
    },
    Named {
        name: "tcp-bbr1",
        congestion: Algorithm::Bbr1,
        about: "CoAP over TCP (RFC 8323) with BBR version 1, as in Linux",
    },
    Named {
        name: "tcp-bbr3",
        congestion: Algorithm::Bbr3,
        about: "CoAP over TCP (RFC 8323) with BBR version 3 (draft-ietf-ccwg-bbr)",
    },
];

/// The algorithm over TCP of that name.
pub fn algorithm(name: &str) -> Option<&'static Named> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}

/// Settings that contradict each other or a limit of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The setting.
    pub name: &'static str,
    /// The contradiction.
    pub why: &'static str,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp.{}: {}", self.name, self.why)
    }
}

impl core::error::Error for SettingsError {}

/// The maximum buffer of a socket in one direction in bytes, and so the largest window.
pub const BUFFER_MAX: u32 = 1 << 26;
/// The largest MSS: an IPv4 packet of 65,535 bytes less headers and options.
pub const MSS_MAX: u32 = 65_455;
/// The smallest MSS: an MTU of 68 bytes (RFC 791), less the longest options.
pub const MSS_MIN: u32 = 8;

impl TcpSettings {
    /// Checks that a connection can work with these values.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wrong = |name, why| Err(SettingsError { name, why });
        if !(MSS_MIN..=MSS_MAX).contains(&self.mss) {
            return wrong("mss", "not between 8 and 65455 bytes");
        }
        if self.initial_window == 0 {
            return wrong("initial_window", "nothing would ever be sent");
        }
        if !(self.mss..=BUFFER_MAX).contains(&self.receive_window) {
            return wrong("receive_window", "below the MSS or above 64 MiB");
        }
        if !(self.mss..=BUFFER_MAX).contains(&self.send_buffer) {
            return wrong("send_buffer", "below the MSS or above 64 MiB");
        }
        if self.rto_initial.is_zero() || self.rto_initial > self.rto_max {
            return wrong("rto_initial", "zero, or above rto_max");
        }
        if self.dup_ack_threshold == 0 {
            return wrong("dup_ack_threshold", "every duplicate would be a loss");
        }
        if self.ack_every == 0 {
            return wrong("ack_every", "must be at least 1 segment");
        }
        if self.bbr_bw_rounds == 0 || self.bbr_min_window == 0 {
            return wrong("bbr_bw_rounds", "BBR needs a round and a segment");
        }
        Ok(())
    }
}

/// A type of settings: as [`Value`], with integers that controllers do not use.
pub(crate) trait Setting: Sized + Copy + fmt::Display {
    const KIND: &'static str;
    fn read(text: &str) -> Option<Self>;
}

impl Setting for u32 {
    const KIND: &'static str = "a whole number";
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

macro_rules! settings_of_values {
    ($($type:ty)*) => {
        $(impl Setting for $type {
            const KIND: &'static str = <Self as Value>::KIND;
            fn read(text: &str) -> Option<Self> {
                <Self as Value>::read(text)
            }
        })*
    };
}

settings_of_values! {
    bool Duration Ratio Algorithm Reduction PrrBound Estimator BackoffEnd AfterTimeout
    PartialAckTimer HalfOf IdleRestart DelayedAck BbrEra RateSampleOf
}

/// Declares the settings: one row each with type, unit, source, text and the four profiles.
macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        $field:ident: $type:ty [$unit:literal] ($source:literal)
            = $thesis:expr, $kernel:expr, $rfc:expr, $modern:expr;
    )*) => {
        /// All settings of a connection. Both ends may differ.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct TcpSettings {
            $($(#[doc = $about])+ pub $field: $type,)*
        }

        impl TcpSettings {
            /// The thesis's settings, and for the rest Linux of its time.
            pub const THESIS: Self = Self { $($field: $thesis,)* };
            /// Linux 6.18 with the thesis's settings.
            pub const KERNEL: Self = Self { $($field: $kernel,)* };
            /// The letter of the RFCs.
            pub const RFC: Self = Self { $($field: $rfc,)* };
            /// A contemporary stack.
            pub const MODERN: Self = Self { $($field: $modern,)* };

            /// Sets a setting by name from text.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), SetError> {
                match name {
                    $(stringify!($field) => {
                        self.$field = <$type as Setting>::read(value).ok_or(
                            SetError::BadValue { expected: <$type as Setting>::KIND },
                        )?;
                    })*
                    _ => return Err(SetError::UnknownName),
                }
                Ok(())
            }

            /// Visits every setting with its value, in the order of [`KEYS`].
            pub fn describe(&self, visit: &mut dyn FnMut(&'static Key, &dyn fmt::Display)) {
                let values: [&dyn fmt::Display; KEYS.len()] = [$(&self.$field,)*];
                for (key, value) in KEYS.iter().zip(values) {
                    visit(key, value);
                }
            }
        }

        /// All settings.
        pub const KEYS: &[Key] = &[$(Key {
            name: stringify!($field),
            about: concat!($($about,)+).trim_ascii(),
            unit: $unit,
            kind: <$type as Setting>::KIND,
            source: $source,
        },)*];
    };
}
pub(crate) use settings;

#[cfg(test)]
mod tests {
    use carob_cc::constants::SetError;

    use super::*;

    fn text_of(settings: &TcpSettings) -> Vec<String> {
        let mut all = Vec::new();
        settings.describe(&mut |key, value| all.push(format!("{} = {value}", key.name)));
        all
    }

    #[test]
    fn described_settings_are_valid() {
        for profile in &PROFILES {
            assert_eq!(profile.settings.check(), Ok(()), "{}", profile.name);
            let mut copy = TcpSettings::RFC;
            profile.settings.describe(&mut |key, value| {
                assert_eq!(
                    copy.set(key.name, &value.to_string()),
                    Ok(()),
                    "{}",
                    key.name
                );
            });
            // In text, because 1.25 and 5/4 are one ratio.
            assert_eq!(text_of(&copy), text_of(&profile.settings));
        }
    }

    #[test]
    fn unknown_names_and_bad_values_are_named() {
        let mut settings = TcpSettings::THESIS;
        assert_eq!(settings.set("rto", "1 s"), Err(SetError::UnknownName));
        let Err(SetError::BadValue { expected }) = settings.set("rto_initial", "2") else {
            panic!("a time needs a unit")
        };
        assert!(expected.contains("ms"));
        assert!(matches!(
            settings.set("congestion", "vegas"),
            Err(SetError::BadValue { expected }) if expected.contains("newreno")
        ));
        assert_eq!(settings, TcpSettings::THESIS);
    }

    #[test]
    fn every_setting_has_a_source() {
        for key in KEYS {
            assert!(
                !key.source.is_empty() && !key.about.is_empty(),
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn impossible_settings_are_named() {
        let mut settings = TcpSettings::THESIS;
        settings.ack_every = 0;
        assert_eq!(settings.check().map_err(|e| e.name), Err("ack_every"));
    }
}
