//! Configuration of an endpoint over a reliable transport.

use carob_cc::time::Duration;

use crate::codec::BASE_MESSAGE_SIZE;
use crate::codec::Framing;

/// Configuration of an endpoint whose peers are connections (RFC 8323).
///
/// The transport is responsible for retransmission, deduplication and congestion control. Fields of
/// [`Config`](crate::config::Config) that concern these have no effect.
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
