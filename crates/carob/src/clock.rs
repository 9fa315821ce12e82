//! The wall clock and the chance that the engine below does without.

use carob_cc::random::Random;
use carob_cc::time::Instant;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Maps the system's monotonic clock to the engine's microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: tokio::time::Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        let micros = self.origin.elapsed().as_micros();
        Instant::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// When `at` is on the system's clock, never before it.
    pub(crate) fn at(&self, at: Instant) -> tokio::time::Instant {
        let since = core::time::Duration::from_micros(at.as_micros());
        self.origin.checked_add(since).unwrap_or_else(|| {
            const YEAR: core::time::Duration = core::time::Duration::from_secs(365 * 24 * 3_600);
            self.origin + YEAR
        })
    }
}

/// Chance for tokens, Message IDs and dithering: a ChaCha8 stream keyed by the system.
///
/// Tokens are what keeps others from forging responses (RFC 7252 5.3.1, 11.4), so the stream must
/// not be predictable.
#[derive(Debug)]
pub(crate) struct Entropy(ChaCha8Rng);

impl Entropy {
    pub(crate) fn from_system() -> std::io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| std::io::Error::other(format!("no randomness: {error}")))?;
        Ok(Self(ChaCha8Rng::from_seed(seed)))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl Random for Entropy {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
}
