//! Traffic towards the clients over time, in bins.

use carob_cc::time::Instant;

use super::Engine;
use super::network::Network;
use crate::spec::{Bin, Recording};

impl<N: Network> Engine<'_, N> {
    /// The bin of a time, if bins are recorded; times after the last bin count in it.
    fn bin(&mut self, at: Instant) -> Option<&mut Bin> {
        let width = self.spec.record.bin;
        if width.is_zero() {
            return None;
        }
        let index = at.since(Instant::ZERO).as_micros() / width.as_micros();
        let index = (index as usize).min(Recording::BINS_MAX - 1);
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bin::default());
        }
        self.bins.get_mut(index)
    }

    /// Counts bytes that leave the bottleneck towards the clients.
    pub(crate) fn bin_carried(&mut self, departed: Instant, bytes: u32, useless: bool) {
        let waited = departed.since(self.now);
        // In the bin of its departure: the rate of the link bounds departures, but not offers.
        if let Some(bin) = self.bin(departed) {
            bin.carried += u64::from(bytes);
            bin.useless += u64::from(if useless { bytes } else { 0 });
            bin.wait = bin.wait.max(waited);
        }
    }

    /// Counts a response at a client.
    pub(crate) fn bin_answered(&mut self) {
        if let Some(bin) = self.bin(self.now) {
            bin.answered += 1;
        }
    }
}
