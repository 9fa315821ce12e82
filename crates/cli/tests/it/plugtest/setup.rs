//! What a case wants of its client and server.

use carob::TransmissionParameters;

/// The block size of servers, as the plugtests suggest it: what is large then has several.
pub(crate) const SERVER_BLOCK: u16 = 64;

/// Settings of a case's client and server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// The client's largest block.
    pub(crate) block: u16,
    /// The client names its block size in its first GET (RFC 7959 2.4).
    pub(crate) early: bool,
    /// The client's tokens are empty.
    pub(crate) empty_token: bool,
    /// Timers so short that a case can wait for them.
    pub(crate) impatient: bool,
}

impl Setup {
    pub(crate) const PLAIN: Self = Self {
        block: SERVER_BLOCK,
        early: false,
        empty_token: false,
        impatient: false,
    };

    pub(crate) const IMPATIENT: Self = Self {
        impatient: true,
        ..Self::PLAIN
    };

    /// The timers where the test has them: ACK_TIMEOUT in milliseconds and MAX_RETRANSMIT.
    pub(crate) fn timers(self) -> (u32, u8) {
        if self.impatient { (150, 3) } else { (2_000, 4) }
    }

    pub(crate) fn parameters(self) -> TransmissionParameters {
        let (ack, retransmissions) = self.timers();
        let mut parameters = TransmissionParameters::DEFAULT;
        parameters.ack_timeout = carob_cc::time::Duration::from_millis(ack.into());
        parameters.max_retransmit = retransmissions;
        parameters
    }
}
