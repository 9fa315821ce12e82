//! Notification workload: rounds of NON notifications to many observers over a constrained link.
//!
//! The topology follows Betzler et al. 2016, section 3.1: one server on the constrained side of
//! the link, or one for each subscriber, and subscribers on the other side, each of which observes some of its resources. In
//! every round all resources change, and the server notifies all observers. Server and subscribers
//! are endpoints of the stack; the server's controller decides about sending rates.

use std::fmt;

use carob_cc::bottleneck_group::Constants;
use carob_cc::time::Duration;
pub use carob_proto::endpoint::NotificationQueue;

use super::record::{Recording, Sample};
use crate::random::Span;

/// The maximum number of resources that a subscriber observes.
pub const RESOURCES_MAX: u32 = 8;
/// The longest duration and the longest warm-up.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3_600);
/// The lag of [`Sends::products`].
pub const LAG: Duration = Duration::from_secs(3);

/// The workload: rounds of notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notifications {
    /// Whether each client observes a device of its own, with its own radio or node, instead of one device
    /// that all observe. Not with [`aggregate`](Self::aggregate), which one server has.
    pub has_device_each: bool,
    /// Resources that each client observes, 1 to [`RESOURCES_MAX`].
    pub resources: u32,
    /// Warm-up: the time for registrations, which are CON GETs. It is not counted.
    pub warm_up: Duration,
    /// Time from one round to the next.
    pub interval: Duration,
    /// Time of a client's first round after the warm-up, drawn uniformly (stream `"server/round"`,
    /// client). If the span is a single time, all clients observe the same resources; else each has
    /// its own.
    pub offset: Span,
    /// Duration of rounds and of counting, after the warm-up.
    pub duration: Duration,
    /// Size of a notification in bytes, from CoAP's header to the end of its payload. The Observe
    /// option has the length of the last notification's; earlier notifications with a shorter one
    /// are smaller by the difference.
    pub message_bytes: u32,
    /// Length of the token in bytes, 1 to 8.
    pub token_bytes: u8,
    /// Max-Age of notifications, in whole seconds; none to leave the option out, which means 60 s.
    /// A client without a notification for longer registers again (RFC 7641 3.3.1).
    pub max_age: Option<Duration>,
    /// Handling of a new state while an earlier notification is queued.
    pub queue: NotificationQueue,
    /// Queue limit of notifications for one client, where they queue.
    pub queue_of_client: u32,
    /// Queue limit of notifications for all clients, where they queue.
    pub queue_of_all: u32,
    /// Maximum consecutive NON notifications before a CON, with any controller.
    pub unconfirmed_max: u16,
    /// The server's bottleneck group: a common budget for all clients, in addition to their
    /// controllers. Default: none.
    pub aggregate: Option<Constants>,
    /// Bin width of time series, from the end of the warm-up on.
    pub bin: Duration,
}

/// An invalid notification workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number of resources out of range.
    Resources(u32),
    /// A zero interval or bin width.
    NoTime,
    /// Warm-up or duration beyond [`DURATION_MAX`], or more bins than [`Recording::BINS_MAX`].
    TooLong,
    /// Warm-up and duration are longer than the run's time limit.
    TimeLimit,
    /// The message is too small; the minimum in bytes.
    Message(u32),
    /// Packets larger than the link's MTU, in bytes.
    Mtu(u32),
    /// A token length that cannot distinguish observations, or exceeds 8 bytes.
    Token,
    /// TCP as transport, which this workload does not simulate.
    Connections,
    /// Another group with notifications, or a server with a service time.
    Company,
    /// A common budget of servers that are a device for each client.
    Budget,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resources(n) => {
                write!(f, "{n} resources; a client observes 1 to {RESOURCES_MAX}")
            }
            Self::NoTime => f.write_str("rounds and bins take some time"),
            Self::TooLong => write!(
                f,
                "warm-up and duration are at most {DURATION_MAX} each, and {} bins",
                Recording::BINS_MAX
            ),
            Self::TimeLimit => {
                f.write_str("warm-up and duration are longer than the time limit of a run")
            }
            Self::Message(least) => write!(f, "notifications need at least {least} bytes"),
            Self::Mtu(bytes) => {
                write!(
                    f,
                    "notifications are packets of {bytes} bytes, beyond the link's MTU"
                )
            }
            Self::Token => f.write_str("a token has 1 to 8 bytes here"),
            Self::Company => f.write_str(
                "a server of notifications has no service time, and notifies one group of clients",
            ),
            Self::Budget => f.write_str(
                "a common budget is for the clients of one server, and here each client observes a device of its own",
            ),
            Self::Connections => {
                f.write_str("notifications are datagrams here, not segments of TCP")
            }
        }
    }
}

/// Size of the payload's content in bytes: round, resource, and a flag for responses to
/// registrations.
pub(super) const PAYLOAD_MIN: u32 = 6;

impl Notifications {
    /// Payload size of a notification in bytes; none if the message is too small for it.
    pub fn payload_bytes(&self) -> Option<u32> {
        self.message_bytes
            .checked_sub(self.around())
            .filter(|bytes| *bytes >= PAYLOAD_MIN)
    }

    /// Size of a notification in bytes without its payload.
    pub(super) fn around(&self) -> u32 {
        const HEADER: u32 = 4;
        const MARKER: u32 = 1;
        let rounds = u64::from(self.resources) * (self.rounds() + 1);
        let observe = 1 + length_of(rounds);
        let max_age = self.max_age.map_or(0, |age| 1 + length_of(age.as_secs()));
        HEADER + u32::from(self.token_bytes) + observe + max_age + MARKER
    }

    /// Rounds of a client.
    pub fn rounds(&self) -> u64 {
        let interval = self.interval.as_micros().max(1);
        self.duration.as_micros().div_ceil(interval)
    }
}

/// Length in bytes of an option value that holds a number.
fn length_of(number: u64) -> u32 {
    (u64::BITS - number.leading_zeros()).div_ceil(8)
}

/// The results of a run's notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NotificationRecord {
    /// One per client, in order.
    pub subscribers: Vec<Subscriber>,
    /// Bin width.
    pub bin_width: Duration,
    /// Bins of the time series, from the end of the warm-up.
    pub bins: Vec<NotificationBin>,
    /// The server's sending pattern.
    pub sends: Sends,
}

/// The notifications for one client.
///
/// `generated` is the sum of `unlisted`, `dropped`, `superseded`, `unsent` and `sent`; of `sent`,
/// `received` arrived. Retransmissions are counted separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Subscriber {
    /// Notifications due: one for each round of each resource it tried to observe.
    pub generated: u64,
    /// Notifications due while the server did not list it as observer: its registration had failed,
    /// or the server had removed it after an unacknowledged CON (RFC 7641 4.5).
    pub unlisted: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Never sent, because a newer one replaced it or the observation ended.
    pub superseded: u64,
    /// Queued at the end of the run.
    pub unsent: u64,
    /// Sent at least once.
    pub sent: u64,
    /// Received, duplicates excluded.
    pub received: u64,
    /// Notifications sent as CON.
    pub confirmable: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// CONs that were given up.
    pub abandoned: u64,
    /// Transmissions dropped at the link's full buffer.
    pub link_dropped: u64,
    /// Transmissions lost at random.
    pub link_lost: u64,
    /// Sum of the times from the round to reception.
    pub delay: Duration,
    /// The longest of them.
    pub delay_max: Duration,
    /// The server's RTO towards it at each change, before dithering, if samples are recorded.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub rto: Vec<Sample>,
}

/// A bin of the time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NotificationBin {
    /// Notifications of rounds in the bin.
    pub generated: u64,
    /// Notifications received at any time.
    pub received: u64,
    /// Notifications dropped by the server.
    pub dropped: u64,
    /// Transmissions dropped at the link's full buffer.
    pub link_dropped: u64,
    /// Transmissions lost at random.
    pub link_lost: u64,
    /// Clients with an RTO at the end of the bin; ACK_TIMEOUT counts before the first measurement.
    pub rtos: u32,
    /// The sum of these RTOs.
    pub rto_sum: Duration,
    /// The shortest.
    pub rto_min: Duration,
    /// The longest.
    pub rto_max: Duration,
}

/// Moments of the sending process: packets with notifications in each 100 ms, and their
/// autocorrelation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sends {
    /// Number of spans of 100 ms.
    pub spans: u64,
    /// Packets.
    pub packets: u64,
    /// The sum of squares.
    pub squares: u64,
    /// The sum of products of each span with the one [`LAG`] later.
    pub products: u64,
    /// The most packets in one span.
    pub peak: u64,
}
