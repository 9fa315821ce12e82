//! How a request is to be sent.

use carob_cc::TransmissionParameters;
use carob_cc::time::Duration;

#[cfg(doc)]
use crate::endpoint::{Endpoint, Event};
#[cfg(doc)]
use crate::message::Request;

/// Who cuts bodies into blocks and puts them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockMode {
    /// The engine.
    #[default]
    Automatic,
    /// The application: block options are passed through as they are, so that it can ask for
    /// any block of a body.
    Manual,
}

/// How a body passes between engine and application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyMode {
    /// All at once.
    #[default]
    Whole,
    /// Piece by piece: [`supply`](Endpoint::supply) out, [`Event::Part`] in.
    Streamed,
}

/// How a request is to be sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sending {
    /// As CON (the default) or NON.
    pub confirmable: bool,
    /// Who handles blocks.
    pub blocks: BlockMode,
    /// How the request's body is given.
    pub request_body: BodyMode,
    /// How the response's body is delivered.
    pub response_body: BodyMode,
    /// Give up after this long, all blocks included; none to rely on the timers alone.
    pub deadline: Option<Duration>,
    /// Transmission parameters of this request alone.
    pub parameters: Option<TransmissionParameters>,
    /// Bytes expected in answer, for controllers that care; 0 if unknown.
    pub answer_bytes: u32,
    /// Observe the resource (RFC 7641): the request lives on, its events are
    /// [`Event::Notification`] and [`Event::Stale`], until the server ends the observation or it
    /// is [cancelled](Endpoint::cancel) or [given back](Endpoint::stop_observing). GET, and FETCH
    /// with its body at hand, only; the response's body is delivered whole.
    pub observe: bool,
    /// Of a request with a No-Response option ([`Request::with_no_response`]): how long to wait for a
    /// response of the classes that are wanted still, from when it was acknowledged, or as NON sent,
    /// until it ends as [`Event::Unanswered`]. None: not at all if no response is wanted, else
    /// ACK_TIMEOUT.
    pub unanswered_after: Option<Duration>,
    /// Answer a challenge, 4.01 with an Echo option, by repeating the message with the value it gave
    /// (RFC 9175 2.3). Default yes; no for a proxy that leaves it to its client to say that the
    /// request is fresh.
    pub answer_challenges: bool,
}

impl Default for Sending {
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
            unanswered_after: None,
            answer_challenges: true,
        }
    }
}
