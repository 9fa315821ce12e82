//! Configuration of Q-Block1 and Q-Block2 (RFC 9177).

use carob_cc::time::Duration;

/// Use of Q-Block1 and Q-Block2 (RFC 9177) in requests of this endpoint, over datagrams.
///
/// RFC 9177 11 recommends against them without a secured transport, and only a peer that supports them
/// understands them: a confirmable request with them is rejected with 4.02 elsewhere, and a NON one
/// may be ignored. The default is therefore [`Off`](Self::Off).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QBlockMode {
    /// Block1 and Block2 (RFC 7959).
    #[default]
    Off,
    /// Q-Block with peers that support it. The first body to a peer is confirmable and discovers the
    /// support (RFC 9177 4.1), which is remembered. Without it: Block1 and Block2.
    Auto,
    /// Q-Block, its support presumed; a request to a peer without it fails.
    On,
}

/// Configuration of Q-Block1 and Q-Block2. The parameters are from RFC 9177 7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QBlockConfig {
    /// True to accept requests with these options. Otherwise they are rejected as unknown critical
    /// options. Default yes, over datagrams; over connections they never are.
    pub accept: bool,
    /// The use in requests of this endpoint. Default [`Off`](QBlockMode::Off).
    pub requests: QBlockMode,
    /// MAX_PAYLOADS, at least 1: blocks of a set. Both endpoints must have the same value. Blocks of
    /// the window's size and one set more may be unreported. Default 10.
    pub max_payloads: u8,
    /// NON_RECEIVE_TIMEOUT: the wait for missing blocks before they are requested; it doubles with each
    /// request that nothing answers. Default 4 s.
    pub receive_timeout: Duration,
    /// NON_MAX_RETRANSMIT: requests for missing blocks without a reaction before the body is
    /// discarded, and repetitions of a body's blocks into silence before the request fails.
    /// Default 4.
    pub max_retransmit: u8,
    /// NON_PARTIAL_TIMEOUT: the lifetime of an incomplete body after its last block. Default 247 s.
    pub partial_timeout: Duration,
}

impl Default for QBlockConfig {
    fn default() -> Self {
        Self {
            accept: true,
            requests: QBlockMode::default(),
            max_payloads: 10,
            receive_timeout: Duration::from_secs(4),
            max_retransmit: 4,
            partial_timeout: Duration::from_secs(247),
        }
    }
}

impl QBlockConfig {
    /// Blocks of a set.
    pub(crate) fn set(&self) -> u32 {
        u32::from(self.max_payloads.max(1))
    }
}
