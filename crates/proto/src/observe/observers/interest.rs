//! Confirmation of the observers' interest (RFC 7641 4.5).

use carob_cc::time::{Duration, Instant};

use super::{ObserverIndex, Observers};

/// The interval in which a client must confirm its interest: by acknowledging a notification sent
/// as CON, or by a new registration (RFC 7641 4.5).
pub(crate) const CONFIRM_INTEREST: Duration = Duration::from_secs(24 * 3_600);

impl Observers {
    /// Returns whether the next notification of an observer must be confirmable (RFC 7641 4.5, 7).
    pub(crate) fn must_confirm(&self, index: ObserverIndex, now: Instant) -> bool {
        let observer = &self.slots[index as usize];
        observer.unconfirmed >= self.unconfirmed_max
            || now.since(observer.confirmed) >= CONFIRM_INTEREST
    }

    /// Records that an observer's interest is being verified, by a message sent or by the next
    /// notification.
    pub(crate) fn ask(&mut self, index: ObserverIndex, now: Instant) {
        let observer = &mut self.slots[index as usize];
        observer.confirmed = now;
        observer.unconfirmed = self.unconfirmed_max;
        self.by_interest.touch(index);
    }

    /// Records that an observer has confirmed its interest.
    pub(crate) fn confirm(&mut self, index: ObserverIndex, now: Instant) {
        let observer = &mut self.slots[index as usize];
        observer.confirmed = now;
        observer.unconfirmed = 0;
        self.by_interest.touch(index);
    }

    /// The observer whose last confirmation is oldest, and its time.
    pub(crate) fn least_interested(&self) -> Option<(ObserverIndex, Instant)> {
        let index = self.by_interest.oldest()?;
        debug_assert!(self.slots.contains(index as usize), "no observer {index}");
        Some((index, self.slots[index as usize].confirmed))
    }
}
