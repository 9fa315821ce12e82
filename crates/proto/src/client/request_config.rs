//! Configuration of a request.

use carob_cc::TransmissionParameters;
use carob_cc::time::Duration;

use crate::block::QBlockMode;

/// The party that splits and reassembles block-wise bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockMode {
    /// The engine.
    #[default]
    Automatic,
    /// The application: block options are passed through unchanged, so that it can request any
    /// block of a body.
    Manual,
}

/// Transfer of a body between engine and application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyMode {
    /// As a whole.
    #[default]
    Whole,
    /// In chunks: [`supply`](crate::endpoint::Endpoint::supply) out,
    /// [`Event::ResponseChunk`](crate::endpoint::Event::ResponseChunk) in.
    Streamed,
}

/// Configuration of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestConfig {
    /// As CON (the default) or NON.
    pub confirmable: bool,
    /// The handling of block-wise transfer.
    pub blocks: BlockMode,
    /// The transfer of the request body.
    pub request_body: BodyMode,
    /// The delivery of the response body.
    pub response_body: BodyMode,
    /// Deadline, including all blocks; `None` to rely on the timeouts alone.
    pub deadline: Option<Duration>,
    /// Transmission parameters of this request alone.
    pub parameters: Option<TransmissionParameters>,
    /// Expected bytes of the response, for controllers that use them; 0 if unknown.
    pub answer_bytes: u32,
    /// Observe the resource (RFC 7641). The request stays in progress with events
    /// [`Event::Notification`](crate::endpoint::Event::Notification) and
    /// [`Event::Stale`](crate::endpoint::Event::Stale). It ends when the server ends the
    /// observation, or when it is [cancelled](crate::endpoint::Endpoint::cancel) or
    /// [deregistered](crate::endpoint::Endpoint::stop_observing). GET, and FETCH with its whole
    /// body, only; the response body is delivered whole.
    pub observe: bool,
    /// For a No-Response option
    /// ([`Request::with_no_response`](crate::message::Request::with_no_response)): the wait for
    /// responses of the wanted classes. It starts when the request is acknowledged, or sent as NON,
    /// and ends with [`Event::ResponseSuppressed`](crate::endpoint::Event::ResponseSuppressed).
    /// `None`: no wait if no response is wanted, else ACK_TIMEOUT.
    pub suppressed_after: Option<Duration>,
    /// Answer a challenge, 4.01 with an Echo option, by repeating the message with its value (RFC
    /// 9175 2.3). Default yes. A proxy sets no if its clients are to prove the freshness of their
    /// requests.
    pub answer_challenges: bool,
    /// Use of Q-Block1 and Q-Block2 (RFC 9177); `None`: the setting of the endpoint's
    /// [`Config::q_block`](crate::endpoint::Config::q_block).
    pub q_block: Option<QBlockMode>,
}

impl Default for RequestConfig {
    fn default() -> Self {
        Self {
            confirmable: true,
            blocks: BlockMode::default(),
            request_body: BodyMode::default(),
            response_body: BodyMode::default(),
            deadline: None,
            parameters: None,
            answer_bytes: 0,
            observe: false,
            suppressed_after: None,
            answer_challenges: true,
            q_block: None,
        }
    }
}
