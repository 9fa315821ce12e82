//! Configuration of an endpoint, over datagrams and over a reliable transport.

use alloc::vec::Vec;

use carob_cc::TransmissionParameters;
use carob_cc::bottleneck_group::Constants;
use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;

use crate::block::QBlockConfig;
use crate::codec::{BASE_MESSAGE_SIZE, BlockSize, Framing, OptionNumber, SMALL_OPTION_BYTES};
use crate::congestion::CongestionControl;
use crate::limits::Limits;
use crate::prefix::{AmplificationLimit, Prefix};

pub use crate::codec::numbers::RETRANSMISSION_COUNT;

/// Configuration of an endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct Config {
    /// The default controller of a peer.
    pub controller: CongestionControl,
    /// The default transmission parameters of a peer. An ACK_RANDOM_FACTOR below 1 counts as 1,
    /// here and for a peer or a request (RFC 7252 4.8.1).
    pub parameters: TransmissionParameters,
    /// The largest block size, sent and requested (RFC 7959 2.2). Default 1024 bytes.
    pub block_size: BlockSize,
    /// Early negotiation of the block size, in the first request (RFC 7959 2.4).
    pub negotiate_early: bool,
    /// Q-Block1 and Q-Block2 (RFC 9177). Default: accepted, not used in requests.
    pub q_block: QBlockConfig,
    /// Length of request tokens in bytes, 0 to
    /// [`TOKEN_BYTES_MAX`](crate::endpoint::TOKEN_BYTES_MAX). Default 8.
    ///
    /// Tokens are random. 0 keeps the token away as long as one request is outstanding with a
    /// peer; further ones then carry 2 bytes. Where tokens
    /// [count copies](carob_cc::controller::CopyTagging::Token), they have 2 to 8 bytes, the last
    /// of which is the number of the copy.
    ///
    /// Tokens longer than 8 bytes (RFC 8974) go to peers that take them. Over a connection, its CSM
    /// says how long they may be; before it has come, and beyond that, they have 8 bytes. Over datagrams
    /// the first confirmable request that is idempotent is the trial: if it is rejected with a Reset, or
    /// two copies of it stay unanswered, it goes once more with a token of 8 bytes, and so do all requests
    /// to that peer for 1800 s. Other requests have 8 bytes until the peer has answered a trial; requests
    /// to groups always.
    pub token_length: u16,
    /// Delay of the empty ACK while the application has not responded. Default 100 ms.
    ///
    /// A longer delay risks a retransmission by the peer. A shorter one turns responses that could
    /// have been piggybacked into separate ones (RFC 7252 5.2.2).
    pub empty_ack_delay: Duration,
    /// Number of the retransmission count option (draft-ietf-core-fasor-02 4.4, where it is yet to
    /// be assigned). Default [`RETRANSMISSION_COUNT`].
    ///
    /// A client sends it where the peer's controller [requires
    /// it](carob_cc::controller::CopyTagging); a server echoes it. Both sides must agree on the
    /// number. Numbers that [cannot count](can_count_retransmissions), such as 0, disable both.
    ///
    /// Applications see it in received requests, but not in responses to their own counted
    /// requests.
    pub retransmission_count_option: OptionNumber,
    /// Configuration of connections, if peers are connections (RFC 8323). Default none: messages
    /// are datagrams.
    pub reliable: Option<StreamConfig>,
    /// Secured datagrams (RFC 7252 9.1). [`Output::Connect`](crate::endpoint::Output::Connect) then
    /// requests a session before the first message to a peer, and messages are a little smaller.
    /// Default off.
    pub secured: bool,
    /// Critical options that the application understands, in requests and in responses, besides
    /// the engine's.
    pub understood: &'static [OptionNumber],
    /// Proxying: the application is a [proxy](crate::proxy). It then receives requests with
    /// Proxy-Uri or Proxy-Scheme, and messages with unrecognized critical options that are safe to
    /// forward ([`unsupported_critical_option`](crate::endpoint::Endpoint::unsupported_critical_option)). Default
    /// off: proxy requests are rejected (5.05), and such options (4.02).
    pub forwards: bool,
    /// Multicast requests (RFC 7252 8.1). Default off:
    /// [`multicast`](crate::endpoint::Endpoint::multicast) fails.
    ///
    /// They reserve a sixty-fourth of the Message IDs of every peer.
    pub groups: bool,
    /// The Leisure period before the response to a multicast request. Default: up to
    /// DEFAULT_LEISURE of [`parameters`](Self::parameters).
    pub leisure: Leisure,
    /// Prefixes of bottleneck groups: all peers within one share a budget, in front of their
    /// controllers ([`carob_cc::bottleneck_group`]). The longest matching prefix counts. Default
    /// none. Those beyond the first 64 are ignored.
    /// Connections have no budgets, because the transport controls congestion.
    pub aggregates: Vec<Prefix>,
    /// Constants of the bottleneck groups' controller.
    pub aggregate: Constants,
    /// Handling of a new state while an earlier notification waits to be sent. Default: the new
    /// state supersedes it.
    pub notification_queue: NotificationQueue,
    /// Consecutive NON notifications to an observer before one is sent as CON to confirm its
    /// interest. Default 32. Regardless of it, one a day is sent as CON (RFC 7641 4.5). It bounds
    /// the notifications that a forged registration directs at a victim (RFC 7641 7).
    pub unconfirmed_max: u16,
    /// Addresses to which the anti-amplification limit applies: an unvalidated source receives at
    /// most three times the bytes of its datagram. Default: global addresses.
    ///
    /// A response beyond the limit becomes a challenge, 4.01 with an Echo option, if its request is
    /// safe; otherwise it is truncated. An unvalidated source cannot observe before it has answered
    /// a challenge.
    pub amplification_limit: AmplificationLimit,
    /// The longest lifetime of an Echo value of this endpoint; the shortest is half of it. Default
    /// 60 s.
    pub echo_lifetime: Duration,
    /// The longest pause after 4.29 Too Many Requests, regardless of Max-Age. Default 5 min.
    ///
    /// Until Max-Age has passed, requests with the same method to the same resource wait (RFC 8516
    /// 4), and their deadlines run. Zero sends them at once.
    pub pause_max: Duration,
    /// Late retransmissions: more than EXCHANGE_LIFETIME - MAX_LATENCY (147 s by default) after the
    /// original. The receiver may then have forgotten the original and execute the request again.
    /// Timers of some controllers reach this under heavy loss. Default off: the exchange times out.
    /// Meant for studies of such controllers.
    pub late_copies: bool,
    /// Protocol events reported as [`Event::Trace`](crate::endpoint::Event::Trace). Default none.
    pub trace: Tracing,
    /// Resource limits of the tables.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controller: CongestionControl::default(),
            parameters: TransmissionParameters::DEFAULT,
            block_size: BlockSize::MAX,
            negotiate_early: false,
            q_block: QBlockConfig::default(),
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

/// Returns whether an option of this number can count retransmissions: it is elective, safe to
/// forward, no part of the cache key (draft-ietf-core-fasor-02 4.4), and not assigned to anything
/// else.
pub const fn can_count_retransmissions(number: OptionNumber) -> bool {
    !number.is_critical()
        && !number.is_unsafe_to_forward()
        && number.is_no_cache_key()
        && number.definition().is_none()
}

/// The Leisure period: responses to a multicast request are spread randomly over it (RFC 7252 8.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leisure {
    /// DEFAULT_LEISURE of the endpoint's parameters, 5 s by default.
    #[default]
    Default,
    /// The estimate of RFC 7252 8.2: size of a response x `members` / `rate`.
    Estimated {
        /// Members of the group.
        members: u32,
        /// Data rate of the network in bytes per second, at least 1.
        rate: u32,
    },
}

/// Handling of a new state while an earlier notification waits to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotificationQueue {
    /// The new state supersedes the earlier one. Observers receive the newest state in the end, not
    /// every intermediate state (RFC 7641 1.3, 4.5.2).
    #[default]
    Supersede,
    /// The new state is queued in a separate message, so that every state is sent. At
    /// [`Limits::notifications_of_peer`] and [`Limits::notifications`] it is dropped: without a
    /// later change, the observer does not receive the newest state. For logs, and for studies of
    /// such servers (Betzler et al. 2016).
    Queue,
}

/// Protocol events that an endpoint reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracing {
    /// None.
    #[default]
    Off,
    /// Events of its own exchanges: transmissions, replies, failures, duplicates.
    Exchanges,
    /// These, and every message received or sent in reply.
    Everything,
}

/// The effective parameters: ACK_RANDOM_FACTOR is at least 1 (RFC 7252 4.8.1), so that initial
/// timeouts are not below ACK_TIMEOUT.
pub(crate) fn admissible(mut parameters: TransmissionParameters) -> TransmissionParameters {
    const WHOLE: u64 = 1 << 32;
    if parameters.ack_random_factor.of(WHOLE) < WHOLE {
        parameters.ack_random_factor = Ratio::ONE;
    }
    parameters
}

/// The largest message the endpoint sends, in bytes: an IPv6 packet of 1280 bytes, the MTU to
/// assume, less IP and UDP headers (RFC 7252 4.6).
///
/// Blocks are smaller where the options leave too little space for the configured size.
pub const MESSAGE_BYTES: usize = 1_232;

/// Bytes that a session adds to a message at most: the DTLS record header (13), an explicit nonce
/// (8) and a tag (16). Messages are smaller by as much.
pub(crate) const SECURED_BYTES: usize = 37;

/// Bytes reserved for additions of the engine: a token, the payload marker, at most two block
/// options and a size option, and the full-size retransmission count option. Retransmissions
/// therefore fit where the original did (draft-ietf-core-fasor-02 4.4).
pub(crate) const ENGINE_BYTES: usize = 24 + SMALL_OPTION_BYTES;

/// Timer lateness attributed to the clock's inaccuracy; RFC 7252 4.2 makes no strong requirements.
/// Beyond it, retransmissions outside MAX_TRANSMIT_SPAN are not sent.
pub(crate) const LATENESS: Duration = Duration::from_secs(1);

/// Resets per second in reply to unexpected messages, for all peers together. At the limit, further
/// messages are ignored.
pub(crate) const REJECTIONS_A_SECOND: u32 = 256;

/// Ended exchanges with retransmissions kept to report a second reply to the controller. At the
/// limit the oldest is forgotten.
pub(crate) const ENDED_REMEMBERED: usize = 64;

/// Restarts of a body transfer whose representation changed, before the request fails.
pub(crate) const RESTARTS: u8 = 2;

/// Buffers kept for reuse between exchanges.
pub(crate) const SPARE_BUFFERS: usize = 256;

/// The largest buffer that is kept; larger ones were for one large message over a connection.
pub(crate) const SPARE_BYTES: usize = 4 << 10;

/// Configuration of an endpoint whose peers are connections (RFC 8323).
///
/// The transport is responsible for retransmission, deduplication and congestion control. Fields of
/// [`Config`](Config) that concern these have no effect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamConfig {
    /// The delimiting of messages.
    pub framing: Framing,
    /// Max-Message-Size of this endpoint's CSM, in bytes. At least 1152 (RFC 8323 5.3.1). A larger
    /// message ends its connection. Default 64 KiB and 1152 bytes.
    pub max_message_size: u32,
    /// The largest message sent, in bytes, regardless of the peer's limit. Default 1 MiB.
    pub largest_message: u32,
    /// Announce block-wise transfer, and with it BERT, in the CSM (RFC 8323 5.3.2, 6).
    pub block_wise: bool,
    /// Timeout of the peer's CSM. Default 10 s.
    ///
    /// Before it, no message exceeds the base message size; nothing else waits (RFC 8323 3.3).
    pub csm_wait: Duration,
    /// Require a CSM: a connection without one in time, or whose peer first sends anything else but
    /// an empty message, is aborted (RFC 8323 3.3). Otherwise the base size is assumed. Default
    /// true.
    pub csm_required: bool,
    /// Requests without a response on one connection, at most; further ones wait. Default 64.
    pub window: u16,
    /// Timeout of a response. Default 247 s, EXCHANGE_LIFETIME of RFC 7252.
    pub response_timeout: Duration,
    /// Silence of a peer that owes a response before it is sent a Ping; after the same time again,
    /// the connection counts as dead. Default 60 s.
    pub probe_after: Option<Duration>,
    /// Idle timeout of a connection; `None` to keep it. Default 5 min.
    pub idle: Option<Duration>,
    /// Timeout after Release for the peer to close the connection. This endpoint then closes it,
    /// unless requests are still in progress (RFC 8323 5.5). Default 5 s.
    pub release_wait: Duration,
    /// Repeat unanswered idempotent requests of an ended connection on the next one (RFC 7252 5.1).
    /// Default true.
    pub resend: bool,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            framing: Framing::Stream,
            max_message_size: (64 << 10) + BASE_MESSAGE_SIZE,
            largest_message: 1 << 20,
            block_wise: true,
            csm_wait: Duration::from_secs(10),
            csm_required: true,
            window: 64,
            response_timeout: Duration::from_secs(247),
            probe_after: Some(Duration::from_secs(60)),
            idle: Some(Duration::from_secs(300)),
            release_wait: Duration::from_secs(5),
            resend: true,
        }
    }
}

impl StreamConfig {
    /// The configuration with the protocol's minimum values.
    pub(crate) fn admissible(mut self) -> Self {
        self.max_message_size = self.max_message_size.max(BASE_MESSAGE_SIZE);
        self.largest_message = self.largest_message.max(BASE_MESSAGE_SIZE);
        self.window = self.window.max(1);
        self
    }

    /// Returns whether several blocks may be sent in one message (BERT).
    pub(crate) const fn takes_bert(&self) -> bool {
        self.block_wise && self.max_message_size > BASE_MESSAGE_SIZE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_option_number_is_elective_and_safe() {
        assert!(can_count_retransmissions(RETRANSMISSION_COUNT));
        let for_experiments = 65_000..=u16::MAX;
        assert!(for_experiments.contains(&RETRANSMISSION_COUNT.0));
        // None, Size2, critical, unsafe, part of the cache key.
        for number in [0, 28, 65_053, 65_054, 65_056] {
            assert!(!can_count_retransmissions(OptionNumber(number)), "{number}");
        }
    }
}
