//! Servers that tell crowds of observers: rounds of NON notifications over a constrained link.
//!
//! The scene is that of Betzler et al. 2016, section 3.1: one server on the constrained side of
//! the link, and on the other side subscribers, each of which observes some of its resources. In
//! every round all resources change, and the server tells everybody. Server and subscribers are
//! endpoints of the stack; what is told how fast is the business of the server's controller.
//!
//! Files: [`mod@self`] what a run is told and what it tells, `scene` the run, `counts` what is
//! counted of it.

mod counts;
mod scene;

use std::fmt;

use carob_cc::aggregate::Constants;
use carob_cc::time::Duration;
pub use carob_proto::endpoint::NotificationQueue;

use crate::spec::{Recording, RunSpec, Sample, Span, Transport};

pub(crate) use scene::run;

/// The most resources that a subscriber may observe.
pub const RESOURCES_MAX: u32 = 8;
/// The longest that notifications are told for, and that registrations take.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3_600);
/// The lag of [`Sends::products`].
pub const LAG: Duration = Duration::from_secs(3);

/// What the server tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifications {
    /// Resources that each client observes, 1 to [`RESOURCES_MAX`].
    pub resources: u32,
    /// Time for registrations, which are CON GETs. Nothing of it is counted.
    pub warm_up: Duration,
    /// Time from one round to the next.
    pub interval: Duration,
    /// When a client's first round is, after the warm-up: drawn uniformly on the stream
    /// (`"server/round"`, client). If it is the same for all, they observe the same resources;
    /// else each has its own.
    pub offset: Span,
    /// Rounds are made, and notifications counted, for this long after the warm-up.
    pub duration: Duration,
    /// Size of a notification in bytes, from CoAP's header to the end of its payload. The number
    /// in its Observe option takes as many bytes as that of the last one; the first ones are
    /// shorter by the bytes that theirs take less.
    pub message_bytes: u32,
    /// Length of the token in bytes, 1 to 8.
    pub token_bytes: u8,
    /// Max-Age of what is told, in whole seconds; none to leave the option out, which means 60 s. A
    /// client that has heard nothing for longer registers again (RFC 7641 3.3.1).
    pub max_age: Option<Duration>,
    /// What becomes of a state while an earlier one waits.
    pub queue: NotificationQueue,
    /// Notifications that may wait for one client, where they queue.
    pub queue_of_client: u32,
    /// Notifications that may wait for all clients, where they queue.
    pub queue_of_all: u32,
    /// NON notifications in a row before one asks for an acknowledgement, whatever the controller.
    pub unconfirmed_max: u16,
    /// The budget that the server has for all clients together, in front of their controllers; none for
    /// none.
    pub aggregate: Option<Constants>,
    /// Spans of time to count in, from the end of the warm-up on.
    pub bin: Duration,
}

/// Why there can be no such run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// So many resources.
    Resources(u32),
    /// No time between rounds, or no bins.
    NoTime,
    /// Warm-up or duration beyond [`DURATION_MAX`], or more bins than [`Recording::BINS_MAX`].
    TooLong,
    /// Warm-up and duration are longer than the run's time limit.
    TimeLimit,
    /// The message is too small; it needs at least so many bytes.
    Message(u32),
    /// Packets beyond the link's MTU.
    Mtu(u32),
    /// Without tokens observations cannot be told apart.
    Token,
    /// Over connections there is nothing to compare.
    Connections,
    /// Other clients on the link, or a server that takes its time.
    Company,
}

impl fmt::Display for Unfit {
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
                "who is notified has the link and the server alone: no other clients, no time of service",
            ),
            Self::Connections => {
                f.write_str("notifications are datagrams here, not segments of TCP")
            }
        }
    }
}

/// What a notification says: the round, the resource, and whether it answers a registration.
const PAYLOAD_LEAST: u32 = 6;

impl Notifications {
    /// Bytes of a notification's payload; nothing if the message is too small for it.
    pub fn payload_bytes(&self) -> Option<u32> {
        self.message_bytes
            .checked_sub(self.around())
            .filter(|bytes| *bytes >= PAYLOAD_LEAST)
    }

    /// Bytes of a notification around its payload.
    fn around(&self) -> u32 {
        const HEADER: u32 = 4;
        const MARKER: u32 = 1;
        let told = u64::from(self.resources) * (self.rounds() + 1);
        let observe = 1 + length_of(told);
        let max_age = self.max_age.map_or(0, |age| 1 + length_of(age.as_secs()));
        HEADER + u32::from(self.token_bytes) + observe + max_age + MARKER
    }

    /// Rounds that a client is told of.
    pub fn rounds(&self) -> u64 {
        let interval = self.interval.as_micros().max(1);
        self.duration.as_micros().div_ceil(interval)
    }

    /// Whether there can be such a run.
    pub fn check(&self, spec: &RunSpec) -> Result<(), Unfit> {
        if self.resources == 0 || self.resources > RESOURCES_MAX {
            return Err(Unfit::Resources(self.resources));
        }
        if self.interval.is_zero() || self.bin.is_zero() || self.duration.is_zero() {
            return Err(Unfit::NoTime);
        }
        let bins = self.duration.as_micros().div_ceil(self.bin.as_micros());
        let longest = self.warm_up.max(self.duration).max(self.offset.high);
        if longest > DURATION_MAX || bins > Recording::BINS_MAX as u64 {
            return Err(Unfit::TooLong);
        }
        if self.warm_up + self.duration > spec.time_limit {
            return Err(Unfit::TimeLimit);
        }
        if self.token_bytes == 0 || self.token_bytes > 8 {
            return Err(Unfit::Token);
        }
        if self.payload_bytes().is_none() {
            return Err(Unfit::Message(self.around() + PAYLOAD_LEAST));
        }
        let packet = self.message_bytes.saturating_add(spec.header_bytes);
        if packet > spec.mtu_bytes {
            return Err(Unfit::Mtu(packet));
        }
        if spec.transport != Transport::Datagrams {
            return Err(Unfit::Connections);
        }
        if !spec.others.is_empty() || spec.server.is_used() {
            return Err(Unfit::Company);
        }
        Ok(())
    }
}

/// Bytes of an option's value that holds a number.
fn length_of(number: u64) -> u32 {
    (u64::BITS - number.leading_zeros()).div_ceil(8)
}

/// What became of the notifications of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotificationRecord {
    /// One per client, in order.
    pub subscribers: Vec<Subscriber>,
    /// The length of a bin.
    pub bin_width: Duration,
    /// Over time, one bin after the other from the end of the warm-up.
    pub bins: Vec<NotificationBin>,
    /// When the server sent.
    pub sends: Sends,
}

/// What became of the notifications for one client.
///
/// `generated` is the sum of `unlisted`, `dropped`, `superseded`, `unsent` and `sent`; of `sent`,
/// `received` arrived. Copies count by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscriber {
    /// Notifications that were due: one for each round of each resource it set out to observe.
    pub generated: u64,
    /// Of those, for resources of which it was not on the server's list at the time: its
    /// registration had failed, or the server had taken it off after a CON that nobody acknowledged
    /// (RFC 7641 4.5).
    pub unlisted: u64,
    /// Dropped because too many waited.
    pub dropped: u64,
    /// Never sent because a newer one took their place, or the observation ended.
    pub superseded: u64,
    /// Still waiting when the run ended.
    pub unsent: u64,
    /// Sent, at least once.
    pub sent: u64,
    /// Received, each counted once.
    pub received: u64,
    /// Of those sent, the ones that were CON.
    pub confirmable: u64,
    /// Copies of those after the first.
    pub retransmissions: u64,
    /// CONs that were given up.
    pub abandoned: u64,
    /// Copies that met a full buffer at the link.
    pub link_dropped: u64,
    /// Copies lost on the way at random.
    pub link_lost: u64,
    /// Sum of the times from the round to reception.
    pub delay: Duration,
    /// The longest of them.
    pub delay_max: Duration,
    /// The server's RTO towards it whenever it changed, before dithering, if samples were asked
    /// for.
    pub rto: Vec<Sample>,
}

/// What happened in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationBin {
    /// Notifications of rounds in it.
    pub generated: u64,
    /// Of those, received, whenever that was.
    pub received: u64,
    /// Notifications dropped by the server in it.
    pub dropped: u64,
    /// Copies that met a full buffer at the link in it.
    pub link_dropped: u64,
    /// Copies lost at random in it.
    pub link_lost: u64,
    /// The server's RTOs at its end: of how many clients it has one, ACK_TIMEOUT while nothing was
    /// measured.
    pub rtos: u32,
    /// Their sum.
    pub rto_sum: Duration,
    /// The shortest.
    pub rto_min: Duration,
    /// The longest.
    pub rto_max: Duration,
}

/// How the server's sending repeats itself: of the packets with notifications in each 100 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sends {
    /// How many spans of 100 ms there were.
    pub spans: u64,
    /// Packets.
    pub packets: u64,
    /// The sum of their squares.
    pub squares: u64,
    /// The sum of products of each with the one [`LAG`] later.
    pub products: u64,
    /// The most packets in one span.
    pub peak: u64,
}
