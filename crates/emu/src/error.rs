//! Errors, each with the place and the remedy.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

/// An error that prevents or ends an emulation, or invalidates its results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call to the system failed.
    #[error("cannot {action}: {source}; {remedy}")]
    System {
        /// The action, with the device or file.
        action: String,
        /// The system's error.
        source: io::Error,
        /// The remedy.
        remedy: &'static str,
    },
    /// A requested number exceeds a limit of the emulator.
    #[error("{asked} {what} are more than {limit}; {remedy}")]
    Limit {
        /// The limited items.
        what: &'static str,
        /// The requested number.
        asked: u64,
        /// The limit.
        limit: u64,
        /// The remedy.
        remedy: &'static str,
    },
    /// An invalid configuration.
    #[error("{what}: {why}")]
    Configuration {
        /// The place.
        what: String,
        /// The error.
        why: Cow<'static, str>,
    },
    /// The run completed, but its results do not follow the link model.
    #[error("the run is refused: {0}")]
    Refused(#[from] Refusal),
}

impl Error {
    #[cfg(target_os = "linux")]
    pub(crate) fn system(
        action: impl Into<String>,
        source: impl Into<io::Error>,
        remedy: &'static str,
    ) -> Self {
        Self::System {
            action: action.into(),
            source: source.into(),
            remedy,
        }
    }
}

/// The reason for refusing a run's results.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Packets were delivered too late.
    Late {
        /// The 99th percentile of lateness.
        p99: Duration,
        /// Its limit.
        limit: Duration,
        /// True if the engine's thread had real-time priority.
        real_time: bool,
    },
    /// A device dropped packets, which only the link model may do.
    DeviceDrops {
        /// The device, with its side.
        device: String,
        /// Number of packets.
        packets: u64,
    },
    /// The kernel rejected packets at a device.
    Undelivered {
        /// Number of packets.
        packets: u64,
        /// The last error.
        error: String,
    },
    /// More packets were in flight than the emulator holds.
    Overflow {
        /// The limit.
        limit: usize,
    },
    /// The engine's thread ended by itself.
    Ended {
        /// The reason.
        why: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late {
                p99,
                limit,
                real_time,
            } => {
                write!(
                    f,
                    "1 packet in 100 was delivered more than {:.3} ms late, and {:.3} ms are \
                     allowed; use fewer links at a time, leave the machine alone",
                    p99.as_secs_f64() * 1e3,
                    limit.as_secs_f64() * 1e3,
                )?;
                if *real_time {
                    Ok(())
                } else {
                    f.write_str(", or give it CAP_SYS_NICE for real-time priority")
                }
            }
            Self::DeviceDrops { device, packets } => write!(
                f,
                "{device} dropped {packets} packets before the link model saw them; raise its \
                 queue (DEVICE_QUEUE_PACKETS) or use fewer flows a link"
            ),
            Self::Undelivered { packets, error } => write!(
                f,
                "the kernel refused {packets} packets at the far end ({error}); was a device \
                 taken down?"
            ),
            Self::Overflow { limit } => write!(
                f,
                "more than {limit} packets were under way at once; use fewer links or smaller \
                 buffers"
            ),
            Self::Ended { why } => write!(f, "the emulator's thread ended: {why}"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_run_names_the_figure_and_the_remedy() {
        let refusal = |real_time| {
            Error::from(Refusal::Late {
                p99: Duration::from_micros(3_500),
                limit: Duration::from_millis(2),
                real_time,
            })
            .to_string()
        };
        assert!(refusal(true).contains("3.500 ms late, and 2.000 ms"));
        assert!(!refusal(true).contains("CAP_SYS_NICE"));
        assert!(refusal(false).contains("CAP_SYS_NICE"));
    }
}
