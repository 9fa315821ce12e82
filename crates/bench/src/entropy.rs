//! Chance for tokens, Message IDs and dithering, and for arrival times that repeat.

use std::io;

use carob_cc::random::Random;
use chacha20::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// A ChaCha8 stream.
#[derive(Debug)]
pub(super) struct Entropy(ChaCha8Rng);

impl Entropy {
    /// An unpredictable stream.
    pub(super) fn from_system() -> io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| io::Error::other(format!("no randomness: {error}")))?;
        Ok(Self(ChaCha8Rng::from_seed(seed)))
    }

    /// A stream that is the same whenever the seed is.
    pub(super) fn seeded(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Uniform in (0, 1].
    pub(super) fn fraction(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

impl Random for Entropy {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
}
