//! Kernel settings for TCP, as close to the thesis as the kernel allows, and a report of the rest.
//!
//! `docs/emulation.md#kernel-settings` has the reasons. All settings belong to the run's two
//! namespaces: other connections of the machine keep theirs.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_getres};

use crate::report::Setting;

/// A file below `/proc/sys/net`, its value, and the purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// The file, from `/proc/sys/net` on.
    pub file: &'static str,
    /// The value.
    pub value: &'static str,
    /// The purpose, and the effect of a failure.
    pub note: &'static str,
}

const fn sysctl(file: &'static str, value: &'static str, note: &'static str) -> Sysctl {
    Sysctl { file, value, note }
}

// Settings that reserve the link for the flows, and keep each flow apart from the others.
const NO_IPV6: Sysctl = sysctl("ipv6/conf/all/disable_ipv6", "1", "no solicitations");
const NO_IPV6_BY_DEFAULT: Sysctl =
    sysctl("ipv6/conf/default/disable_ipv6", "1", "no solicitations");
const NO_METRICS: Sysctl = sysctl(
    "ipv4/tcp_no_metrics_save",
    "1",
    "flows know nothing of each other",
);
const NO_END: Sysctl = sysctl("ipv4/tcp_retries2", "100", "no flow gives up");
const LARGE_WRITES: Sysctl = sysctl(
    "ipv4/tcp_wmem",
    "4096 2097152 8388608",
    "the body fits in one write",
);

/// The thesis's settings of its hosts (4.2 and 4.3), and those that reserve the link for the flows.
pub const THESIS: &[Sysctl] = &[
    NO_IPV6,
    NO_IPV6_BY_DEFAULT,
    sysctl("ipv4/tcp_sack", "0", "thesis: no SACK"),
    sysctl("ipv4/tcp_dsack", "0", "thesis: no SACK"),
    sysctl("ipv4/tcp_timestamps", "0", "thesis: no timestamps"),
    sysctl("ipv4/tcp_recovery", "0", "thesis: no RACK"),
    sysctl("ipv4/tcp_early_retrans", "0", "thesis: no TLP"),
    sysctl("ipv4/tcp_frto", "0", "thesis: no F-RTO"),
    NO_METRICS,
    sysctl("ipv4/tcp_fastopen", "0", "thesis: no Fast Open"),
    sysctl("ipv4/tcp_ecn", "0", "the link marks nothing"),
    sysctl("ipv4/tcp_syn_retries", "40", "thesis: 40"),
    sysctl("ipv4/tcp_synack_retries", "41", "thesis: 41"),
    sysctl(
        "ipv4/tcp_syn_linear_timeouts",
        "0",
        "back off from the first; newer than 6.4",
    ),
    NO_END,
    sysctl(
        "ipv4/tcp_syncookies",
        "0",
        "four clients at once are no attack",
    ),
    sysctl("ipv4/tcp_autocorking", "0", "each write is sent at once"),
    sysctl(
        "ipv4/tcp_rto_max_ms",
        "120000",
        "thesis: 120 s, the constant before 6.15",
    ),
    // The whole body in one write, and a window that never limits.
    LARGE_WRITES,
    sysctl(
        "ipv4/tcp_rmem",
        "4096 1048576 8388608",
        "the window never limits",
    ),
];

/// The kernel's own settings (SACK, RACK, tail loss probes, timestamps), except those that reserve the
/// link for the flows and keep each flow apart from the others.
pub const SYSTEM: &[Sysctl] = &[
    NO_IPV6,
    NO_IPV6_BY_DEFAULT,
    NO_METRICS,
    NO_END,
    LARGE_WRITES,
];

/// The initial timeout of SYN and SYN-ACK in the thesis (4.3); RFC 6298 2.1 has 1 s.
pub const INITIAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Initial congestion window in the thesis, in segments (4.3).
pub const INITIAL_WINDOW: u32 = 4;

/// Writes each setting in the namespace of the calling thread, and reads it back.
pub(crate) fn apply(sysctls: &[Sysctl], side: &str) -> Vec<Setting> {
    let apply_one = |sysctl: &Sysctl| {
        let path = Path::new("/proc/sys/net").join(sysctl.file);
        let written = fs::write(&path, sysctl.value);
        let got = match (fs::read_to_string(&path), written) {
            (Ok(text), Ok(())) => text.split_whitespace().collect::<Vec<_>>().join(" "),
            (Ok(text), Err(error)) => {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("{text} still: {error}")
            }
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => "no such setting".into(),
            (Err(error), _) => error.to_string(),
        };
        Setting {
            name: format!("{side}: net/{}", sysctl.file),
            wanted: sysctl.value.into(),
            got,
            note: sysctl.note.into(),
        }
    };
    sysctls.iter().map(apply_one).collect()
}

/// Settings of the thesis that a current kernel does not offer.
pub(crate) fn unavailable_settings() -> Vec<Setting> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut settings = vec![
        Setting {
            name: "delayed ACK".into(),
            wanted: "constant 200 ms".into(),
            got: "none for some 16 segments, then adaptive from 40 ms on".into(),
            note: "constants of the kernel; with constant ones the infinite buffer takes 0.2 s \
                   more (docs/emulation.md)"
                .into(),
        },
        Setting {
            name: "BBR".into(),
            wanted: "version 1 as first released".into(),
            got: format!("version 1 as amended up to Linux {release}"),
            note: "ACK aggregation and a pacing margin came later".into(),
        },
        Setting {
            name: "timers".into(),
            wanted: "exact".into(),
            got: format!(
                "ticks of {} ms, long ones up to 1/8 late",
                tick().as_millis()
            ),
            note: "the kernel's timer wheel".into(),
        },
    ];
    if version(release).is_none_or(|version| version >= (6, 17)) {
        settings.push(Setting {
            name: "RACK".into(),
            wanted: "off".into(),
            got: "on, as far as it acts without SACK".into(),
            note: "since Linux 6.17 tcp_recovery = 0 is taken and has no effect".into(),
        });
    }
    settings
}

/// The duration of a kernel tick, the resolution of its timers: 1 / CONFIG_HZ.
pub(crate) fn tick() -> Duration {
    clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_or(Duration::from_millis(4), Duration::from)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The congestion modules available to sockets.
pub fn congestion_modules() -> Vec<String> {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Disables router solicitations on devices created later in the calling thread's namespace.
#[cfg(test)]
pub(crate) fn quiet_ipv6() {
    apply(&THESIS[..2], "test");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;

    #[test]
    fn releases_are_read() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("5.4"), Some((5, 4)));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn settings_apply_inside_the_namespace_only() {
        let Some(()) = crate::testing::rights() else {
            return;
        };
        let sack = || fs::read_to_string("/proc/sys/net/ipv4/tcp_sack").unwrap();
        let before = sack();
        let namespace = Namespace::create("test").unwrap();
        let settings = namespace.enter(|| apply(THESIS, "test")).unwrap();
        for setting in settings {
            let known = setting.got == "no such setting";
            assert!(setting.holds() || known, "{setting}");
        }
        assert_eq!(sack(), before);
    }

    #[test]
    fn a_setting_that_does_not_exist_is_reported() {
        let absent = sysctl("ipv4/no_such_thing", "1", "a test");
        let settings = apply(&[absent], "test");
        assert!(!settings[0].holds());
        assert_eq!(settings[0].got, "no such setting");
    }
}
