//! What an endpoint is told once: its controller, its parameters, its limits.

use carob_cc::TransmissionParameters;
use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;

use crate::codec::{BlockSize, OptionNumber};
use crate::congestion::Choice;

/// An endpoint's settings.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// Length of request tokens in bytes, 0 to 8. Default 8.
    ///
    /// Tokens are random. 0 keeps the token away as long as one request is outstanding with a
    /// peer; further ones then carry 2 bytes.
    pub token_length: u8,
    /// How long a request may stay unanswered before an empty ACK is sent. Default 100 ms.
    ///
    /// Later than this the peer's timer may run out; earlier, answers that could have been
    /// piggybacked become separate (RFC 7252 5.2.2).
    pub empty_ack_delay: Duration,
    /// Critical options the application itself understands, in requests and in responses, besides
    /// the engine's.
    pub understood: &'static [OptionNumber],
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
            understood: &[],
            trace: Tracing::Off,
            limits: Limits::default(),
        }
    }
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

/// Limits of an endpoint's tables, each with what happens at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Peers we originate messages to. At it, the one sent to longest ago makes room; if all are
    /// in use or were sent to within EXCHANGE_LIFETIME, new requests fail with `PeersFull`.
    pub peers: usize,
    /// Requests of our own under way or waiting, all peers together. At it: `RequestsFull`.
    pub requests: usize,
    /// Messages waiting for one peer. At it: `QueueFull`.
    pub queue: usize,
    /// Requests received and not yet answered. At it, CON requests are answered 5.03 and NON
    /// requests dropped.
    pub incoming: usize,
    /// Repeatable messages remembered for duplicates. At it, the oldest is forgotten.
    pub recent: usize,
    /// Unrepeatable messages remembered for duplicates. At it, new ones are answered 5.03.
    pub lasting: usize,
    /// Request bodies being received block by block. At it, new ones are answered 5.03.
    pub uploads: usize,
    /// Bytes of one request body. Beyond it: 4.13 with the limit in Size1.
    pub upload_bytes: usize,
    /// Bytes of all request bodies being received. Beyond it: 5.03.
    pub all_upload_bytes: usize,
    /// Response bodies kept while peers read them. At it, the one used longest ago is forgotten.
    pub bodies: usize,
    /// Bytes of all those bodies. At it, likewise.
    pub body_bytes: usize,
    /// Bytes of a response body put together for the application. Beyond it the request fails
    /// with `TooLarge`; read larger bodies as a stream.
    pub download_bytes: usize,
    /// Blocks of one body in flight at most, whatever the controller allows.
    pub blocks_in_flight: usize,
    /// Observations of our resources, all peers together. At it, who asks for another gets the
    /// resource's state and no notifications (RFC 7641 4.1).
    pub observers: usize,
    /// Observations of our resources by one peer. At it, likewise.
    pub observers_of_peer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 65_536,
            requests: 65_536,
            queue: 1_024,
            incoming: 16_384,
            recent: 16_384,
            lasting: 65_536,
            uploads: 1_024,
            upload_bytes: 16 << 20,
            all_upload_bytes: 64 << 20,
            bodies: 1_024,
            body_bytes: 64 << 20,
            download_bytes: 64 << 20,
            blocks_in_flight: 64,
            observers: 32_768,
            observers_of_peer: 256,
        }
    }
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

/// Room for what the engine adds to a message: a token, the payload marker, and at most two block
/// options and a size option.
pub(crate) const ENGINE_BYTES: usize = 24;

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
