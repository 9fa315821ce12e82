//! Client and server configuration of a case.

use carob::TransmissionParameters;

/// The servers' block size, as the plugtests suggest, so that large resources take several blocks.
pub(crate) const SERVER_BLOCK: u16 = 64;

/// Configuration of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Largest block size of the client.
    pub(crate) block: u16,
    /// Early negotiation: the first GET has Block2 (RFC 7959 2.4).
    pub(crate) early: bool,
    /// The client uses empty tokens.
    pub(crate) empty_token: bool,
    /// Short timeouts, for cases that wait for them.
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

    /// ACK_TIMEOUT in milliseconds and MAX_RETRANSMIT.
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
