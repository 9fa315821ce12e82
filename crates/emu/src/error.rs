//! What can go wrong, each with the place and the remedy.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why an emulation could not begin, go on, or be believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call to the system failed.
    #[error("cannot {action}: {source}; {remedy}")]
    System {
        /// What was to be done, with the device or file.
        action: String,
        /// What the system said.
        source: io::Error,
        /// What may help.
        remedy: &'static str,
    },
    /// More was asked for than the emulator takes.
    #[error("{asked} {what} are more than {limit}; {remedy}")]
    Limit {
        /// What there are too many of.
        what: &'static str,
        /// How many were asked for.
        asked: u64,
        /// How many there may be.
        limit: u64,
        /// What may help.
        remedy: &'static str,
    },
    /// The configuration describes nothing that exists.
    #[error("{what}: {why}")]
    Configuration {
        /// The place.
        what: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It ran, but its numbers are not those of the link model.
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

/// Why a run is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Packets were delivered too late.
    Late {
        /// What one packet in a hundred exceeded.
        p99: Duration,
        /// What it may be.
        limit: Duration,
        /// Whether the engine's thread had real-time priority.
        real_time: bool,
    },
    /// A device dropped packets, which only the link model may do.
    DeviceDrops {
        /// The device, with its side.
        device: String,
        /// How many packets.
        packets: u64,
    },
    /// The kernel took no packet at a device's far end.
    Undelivered {
        /// How many packets.
        packets: u64,
        /// What the system said of the last.
        error: String,
    },
    /// More packets were under way than the emulator holds.
    Overflow {
        /// How many it holds.
        limit: usize,
    },
    /// The engine's thread ended by itself.
    Ended {
        /// What it said.
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
