//! What an endpoint over a reliable transport is told.

use carob_cc::time::Duration;

use crate::codec::Framing;
use crate::codec::signal::BASE_MESSAGE_SIZE;

/// Settings of an endpoint whose peers are connections (RFC 8323).
///
/// Retransmission, deduplication and congestion control are the transport's; of
/// [`Config`](super::super::Config), what is about those means nothing here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reliable {
    /// How messages are told apart.
    pub framing: Framing,
    /// The largest message we take, in bytes, as our CSM says. At least 1152 (RFC 8323 5.3.1).
    /// A larger one ends its connection. Default 64 KiB and 1152 bytes.
    pub max_message_size: u32,
    /// The largest message we send, in bytes, however much the peer takes. Default 1 MiB.
    pub largest_message: u32,
    /// Say in our CSM that we know block-wise transfer, and with it BERT (RFC 8323 5.3.2, 6).
    pub block_wise: bool,
    /// How long the peer's CSM may take. Default 10 s.
    ///
    /// Until it is there nothing larger than the base message size is sent; all else need not wait
    /// (RFC 8323 3.3).
    pub csm_wait: Duration,
    /// A connection whose peer sends anything but an empty message first, or no CSM in time, is
    /// aborted, as RFC 8323 3.3 has it. Otherwise such a peer counts as one that takes the base
    /// size and said nothing more. Default true.
    pub csm_required: bool,
    /// Requests without a response on one connection, at most; further ones wait. Default 64.
    pub window: u16,
    /// How long a response may take. Default 247 s, EXCHANGE_LIFETIME of RFC 7252.
    pub response_timeout: Duration,
    /// A peer that owes a response and has been silent for this long is asked whether it is there;
    /// if it is silent for as long again, the connection counts as dead. Default 60 s.
    pub probe_after: Option<Duration>,
    /// A connection on which nothing is under way is closed after this long; none to keep it.
    /// Default 5 min.
    pub idle: Option<Duration>,
    /// How long the peer may take to close a connection for which we have said Release; then we
    /// close it, unless requests are still under way (RFC 8323 5.5). Default 5 s.
    pub release_wait: Duration,
    /// What was sent and not answered when a connection ends is sent once more on the next, if
    /// doing it twice does no harm (RFC 7252 5.1). Default true.
    pub resend: bool,
}

impl Default for Reliable {
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

impl Reliable {
    /// With what the protocol demands.
    pub(in crate::endpoint) fn admissible(mut self) -> Self {
        self.max_message_size = self.max_message_size.max(BASE_MESSAGE_SIZE);
        self.largest_message = self.largest_message.max(BASE_MESSAGE_SIZE);
        self.window = self.window.max(1);
        self
    }

    /// Whether blocks may come several at once.
    pub(in crate::endpoint) const fn takes_bert(&self) -> bool {
        self.block_wise && self.max_message_size > BASE_MESSAGE_SIZE
    }
}
