//! What an endpoint is told once: its controller, its parameters, its limits.

use alloc::vec::Vec;

use carob_cc::TransmissionParameters;
use carob_cc::aggregate::Constants;
use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;

use crate::codec::edit::SMALL_OPTION_BYTES;
use crate::codec::{BlockSize, OptionNumber};
use crate::congestion::Choice;
use crate::endpoint::limits::Limits;
use crate::endpoint::reliable::Reliable;
use crate::prefix::{AmplificationLimit, Prefix};

/// An endpoint's settings.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says of one thing whether it is done"
)]
pub struct Config {
    /// The controller every peer gets unless it is given its own.
    pub controller: Choice,
    /// Transmission parameters of every peer unless it is given its own. Here, of a peer and of a
    /// request, an ACK_RANDOM_FACTOR below 1 counts as 1 (RFC 7252 4.8.1).
    pub parameters: TransmissionParameters,
    /// The largest block to send or ask for (RFC 7959 2.2). Default 1024 bytes.
    pub block_size: BlockSize,
    /// Name our block size in the first request already (RFC 7959 2.4, early negotiation).
    pub negotiate_early: bool,
    /// Length of request tokens in bytes, 0 to [`TOKEN_BYTES_MAX`](super::TOKEN_BYTES_MAX). Default 8.
    ///
    /// Tokens are random. 0 keeps the token away as long as one request is outstanding with a
    /// peer; further ones then carry 2 bytes. Where tokens
    /// [count copies](carob_cc::controller::Counting::Token), they have 2 to 8 bytes, the last
    /// of which is the number of the copy.
    ///
    /// Tokens longer than 8 bytes (RFC 8974) go to peers that take them. Over a connection, its CSM
    /// says how long they may be; until it has come, and beyond that, they have 8 bytes. Over datagrams
    /// the first confirmable request that is idempotent is the trial: if it is rejected with a Reset, or
    /// two copies of it stay unanswered, it goes once more with a token of 8 bytes, and so do all requests
    /// to that peer for 1800 s. Other requests have 8 bytes until the peer has answered a trial; requests
    /// to groups always.
    pub token_length: u16,
    /// How long a request may stay unanswered before an empty ACK is sent. Default 100 ms.
    ///
    /// Later than this the peer's timer may run out; earlier, answers that could have been
    /// piggybacked become separate (RFC 7252 5.2.2).
    pub empty_ack_delay: Duration,
    /// The number of the option that tells the copies of a request apart (draft-ietf-core-fasor-02
    /// 4.4, where it is yet to be assigned). Default [`RETRANSMISSION_COUNT`].
    ///
    /// As a client we send it where the peer's controller
    /// [asks for it](carob_cc::controller::Counting); as a server we echo it to whoever sends it.
    /// Both sides must agree on the number. It must be one that
    /// [can count](can_count_retransmissions); with any other, 0 say, neither is done.
    ///
    /// Applications see it in the requests they are sent, and not in responses to requests of
    /// theirs that were counted.
    pub retransmission_count_option: OptionNumber,
    /// Set if peers are connections (RFC 8323), and what is to be done with these. Default none:
    /// messages are datagrams.
    pub reliable: Option<Reliable>,
    /// Set if datagrams go through sessions that secure them (RFC 7252 9.1). Then
    /// [`Output::Connect`](super::Output::Connect) asks for a session before anything is sent to a
    /// peer, and messages are a little smaller. Default off.
    pub secured: bool,
    /// Critical options the application itself understands, in requests and in responses, besides
    /// the engine's.
    pub understood: &'static [OptionNumber],
    /// Messages may be passed on: the application is a [proxy](crate::proxy). Then requests with
    /// Proxy-Uri or Proxy-Scheme are the application's, and so are requests and responses with
    /// critical options that it may forward without understanding them
    /// ([`not_to_be_overlooked`](super::Endpoint::not_to_be_overlooked)). Default: not so; proxies
    /// are refused (5.05), and such options (4.02).
    pub forwards: bool,
    /// Whether requests to groups are made (RFC 7252 8.1). Default no: then
    /// [`gather`](super::Endpoint::gather) refuses to.
    ///
    /// It costs every peer a sixty-fourth of the Message IDs, which are kept for groups.
    pub groups: bool,
    /// Who else is in a group that we are asked in, so that we know how long to wait before we answer.
    /// Default: up to DEFAULT_LEISURE of [`parameters`](Self::parameters).
    pub leisure: Leisure,
    /// Bottlenecks: all peers whose addresses begin with one of these share one budget, in front of
    /// their controllers ([`carob_cc::aggregate`]); of several, the longest counts. Default none. Beyond
    /// [`AGGREGATES_MAX`](super::AGGREGATES_MAX) they are ignored. Over connections congestion is the
    /// transport's, and there are no budgets.
    pub aggregates: Vec<Prefix>,
    /// What those budgets are told.
    pub aggregate: Constants,
    /// What becomes of a new state while an earlier one still waits to be sent to an observer.
    /// Default: it takes its place.
    pub notification_queue: NotificationQueue,
    /// NON notifications in a row that an observer is sent before one asks, as CON, whether it is
    /// still there. Default 32; whatever it is, one a day does so (RFC 7641 4.5). A forged
    /// registration brings its victim no more than these (RFC 7641 7).
    pub unconfirmed_max: u16,
    /// For which addresses the amplification limit holds: a source that has not shown that it is
    /// where it says it is gets at most three times the bytes of its datagram. Default: for global
    /// ones.
    ///
    /// A response beyond that becomes a challenge, 4.01 with an Echo option, if its request changes
    /// nothing; else it is cut. Such a source does not observe before it has answered a challenge.
    pub amplification_limit: AmplificationLimit,
    /// How long an Echo value that we gave is good, at most; it is good for half of that at least.
    /// Default 60 s.
    pub echo_lifetime: Duration,
    /// How long a peer that answers 4.29 Too Many Requests can make requests wait, whatever Max-Age it
    /// gives. Default 5 min.
    ///
    /// Until Max-Age has passed, requests of the same method to the same resource wait (RFC 8516 4),
    /// their deadlines running. Zero sends them at once.
    pub pause_max: Duration,
    /// Send a copy even so long after the first that its receiver may have forgotten that one, and
    /// would take the copy for a new message: later than EXCHANGE_LIFETIME - MAX_LATENCY, 147 s by
    /// default, to which some controllers' timers reach under heavy loss. Default no: then the
    /// exchange has timed out. Yes for studies of such controllers.
    pub late_copies: bool,
    /// Which protocol events to report as [`Event::Trace`](super::Event::Trace). Default none.
    pub trace: Tracing,
    /// What nothing may exceed.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controller: Choice::default(),
            parameters: TransmissionParameters::DEFAULT,
            block_size: BlockSize::MAX,
            negotiate_early: false,
            token_length: 8,
            empty_ack_delay: Duration::from_millis(100),
            retransmission_count_option: RETRANSMISSION_COUNT,
            reliable: None,
            secured: false,
            understood: &[],
            forwards: false,
            groups: false,
            leisure: Leisure::default(),
            aggregates: Vec::new(),
            aggregate: Constants::DEFAULT,
            notification_queue: NotificationQueue::default(),
            unconfirmed_max: 32,
            amplification_limit: AmplificationLimit::default(),
            echo_lifetime: Duration::from_secs(60),
            pause_max: Duration::from_secs(300),
            late_copies: false,
            trace: Tracing::Off,
            limits: Limits::default(),
        }
    }
}

/// Number of the option that counts retransmissions unless
/// [another is set](Config::retransmission_count_option): one of those for experiments (RFC 7252
/// 12.2).
///
/// The first that [can count](can_count_retransmissions) is 65020, but that is in use: in
/// Californium's proxy for S3 it tells when a device will listen.
pub const RETRANSMISSION_COUNT: OptionNumber = OptionNumber(65_052);

/// Whether an option of this number can count retransmissions: it is elective, safe to forward, no
/// part of the cache key (draft-ietf-core-fasor-02 4.4), and not assigned to anything else.
pub const fn can_count_retransmissions(number: OptionNumber) -> bool {
    !number.is_critical()
        && !number.is_unsafe_to_forward()
        && number.is_no_cache_key()
        && number.definition().is_none()
}

/// Within what time a request to a group is answered, each member at a moment of its own
/// (RFC 7252 8.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leisure {
    /// DEFAULT_LEISURE of the endpoint's parameters, 5 s by default.
    #[default]
    Default,
    /// What the members need to answer one after the other: size of a response x `members` / `rate`.
    Estimated {
        /// Members of the group.
        members: u32,
        /// Bytes a second that the network has for their responses, at least 1.
        rate: u32,
    },
}

/// What becomes of a new state while an earlier one still waits to be sent to an observer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotificationQueue {
    /// It takes its place: observers learn the newest state in the end, not every state on the way
    /// (RFC 7641 1.3, 4.5.2).
    #[default]
    Supersede,
    /// It waits behind it, in a message of its own, so that every state is told. At
    /// [`Limits::notifications_of_peer`] and [`Limits::notifications`] it is dropped instead: if
    /// nothing changes after that, the observer does not learn the newest state. For logs, and
    /// for studies of servers that do so (Betzler et al. 2016).
    Queue,
}

/// Which protocol events an endpoint reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracing {
    /// None.
    #[default]
    Off,
    /// What becomes of exchanges of its own: copies sent, answers, failures, duplicates.
    Exchanges,
    /// These, and every message that arrives or is sent in answer.
    Everything,
}

/// Parameters as the endpoint uses them: ACK_RANDOM_FACTOR is at least 1 (RFC 7252 4.8.1), or
/// first timers would be shorter than ACK_TIMEOUT.
pub(crate) fn admissible(mut parameters: TransmissionParameters) -> TransmissionParameters {
    const WHOLE: u64 = 1 << 32;
    if parameters.ack_random_factor.of(WHOLE) < WHOLE {
        parameters.ack_random_factor = Ratio::ONE;
    }
    parameters
}

/// The largest message the endpoint sends, in bytes: what an IPv6 packet of 1280 bytes, the MTU to
/// be assumed, has room for beside its IP and UDP headers (RFC 7252 4.6).
///
/// Where the options leave no room for a block of the size set, blocks are smaller.
pub const MESSAGE_BYTES: usize = 1_232;

/// Bytes that a session adds to a message at most: DTLS' record header (13), an explicit nonce (8)
/// and a tag (16). Messages are as much smaller.
pub(crate) const SECURED_BYTES: usize = 37;

/// Room for what the engine adds to a message: a token, the payload marker, at most two block
/// options and a size option, and the option that counts copies at its full size, so that
/// retransmissions fit where the original did (draft-ietf-core-fasor-02 4.4).
pub(crate) const ENGINE_BYTES: usize = 24 + SMALL_OPTION_BYTES;

/// Lateness of timers that passes for inaccuracy of the clock, on which RFC 7252 4.2 makes no
/// strong requirements. Beyond it, copies that would leave MAX_TRANSMIT_SPAN are not sent.
pub(crate) const LATENESS: Duration = Duration::from_secs(1);

/// Messages that mean nothing here and are rejected with a Reset in one second, all peers together.
/// At the limit, further ones are ignored.
pub(crate) const REJECTIONS_A_SECOND: u32 = 256;

/// Exchanges that ended after retransmissions and are remembered, so that a second answer can be
/// told to the controller. At the limit the oldest is forgotten.
pub(crate) const ENDED_REMEMBERED: usize = 64;

/// Times a body is read anew because its representation changed, before the request fails.
pub(crate) const RESTARTS: u8 = 2;

/// Buffers kept for reuse between exchanges.
pub(crate) const SPARE_BUFFERS: usize = 256;

/// The largest buffer that is kept; larger ones were for one large message over a connection.
pub(crate) const SPARE_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_has_a_number_that_harms_nobody() {
        assert!(can_count_retransmissions(RETRANSMISSION_COUNT));
        let for_experiments = 65_000..=u16::MAX;
        assert!(for_experiments.contains(&RETRANSMISSION_COUNT.0));
        // None, Size2, critical, unsafe, part of the cache key.
        for number in [0, 28, 65_053, 65_054, 65_056] {
            assert!(!can_count_retransmissions(OptionNumber(number)), "{number}");
        }
    }
}
