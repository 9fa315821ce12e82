//! An exchange of a trial: its transmissions, as the engine keeps them.

use crate::controller::Timer;
use crate::evidence::{Answered, Kind, Matched, Transmission};
use crate::parameters::TransmissionParameters;
use crate::time::Instant;

/// Maximum transmissions of a message.
const COPIES: usize = 31;
const _: () = assert!(TransmissionParameters::MAX_RETRANSMIT_LIMIT == 30);

/// A slot for a confirmable message: outstanding once it has transmissions.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) kind: Kind,
    pub(super) timer: Timer,
    copies: [Transmission; COPIES],
    sent: u8,
}

impl Exchange {
    /// An empty slot.
    pub(super) fn vacant() -> Self {
        Self {
            kind: Kind::Request,
            timer: Timer::default(),
            copies: [Transmission::default(); COPIES],
            sent: 0,
        }
    }

    /// Returns whether a message is outstanding here.
    pub(super) fn runs(&self) -> bool {
        self.sent > 0
    }

    /// Clears the slot.
    pub(super) fn clear(&mut self) {
        self.sent = 0;
    }

    pub(super) fn copies(&self) -> &[Transmission] {
        &self.copies[..usize::from(self.sent)]
    }

    pub(super) fn push(&mut self, transmission: Transmission) {
        self.copies[usize::from(self.sent)] = transmission;
        self.sent += 1;
    }

    /// Retransmissions so far.
    pub(super) fn retransmissions(&self) -> u8 {
        self.sent.saturating_sub(1)
    }

    /// The expiry of the running timer.
    pub(super) fn expires(&self) -> Instant {
        self.copies()
            .last()
            .map_or(Instant::ZERO, |copy| copy.at + self.timer.timeout)
    }

    /// An answer at `now` to the transmission that `draw` picks, if the wire names it.
    pub(super) fn answered<'a>(
        &'a self,
        now: Instant,
        parameters: &'a TransmissionParameters,
        draw: u32,
    ) -> Answered<'a> {
        let Timer { timeout, state } = self.timer;
        let answered = Answered::new(now, parameters, state, self.copies(), timeout);
        let latest = self.retransmissions();
        // Below 256: `latest` is a u8.
        let copy = u8::try_from(draw % (u32::from(latest) + 1)).unwrap_or_default();
        match draw >> 30 {
            0 => answered.with_matched(Matched::Exact(copy)),
            1 if copy < latest => answered.with_matched(Matched::Ambiguous {
                earliest: copy,
                latest,
            }),
            _ => answered,
        }
    }
}
