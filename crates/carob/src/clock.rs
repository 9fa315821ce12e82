//! Clock and random numbers for the engine.

use std::time::Duration;

use carob_cc::random::Random;
use carob_cc::time::Instant;
use chacha20::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Clock of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeSource {
    /// System clock that includes suspension: CLOCK_BOOTTIME on Linux. Elsewhere as
    /// [`Tokio`](Self::Tokio).
    ///
    /// Message IDs, retransmissions and Max-Age rely on times that pass for both ends of an
    /// exchange (RFC 7252 section 4.8.2). With a clock that stops during suspension, a device could
    /// send a retransmission after its receiver has forgotten the first transmission, and a POST
    /// would be executed again. Timers use the same clock; those that expired meanwhile are
    /// processed on waking, and do not wake the system.
    #[default]
    System,
    /// Clock of the runtime, `tokio::time`, for tests that pause and advance it. It is the system's
    /// monotonic clock, which stops during suspension on Linux.
    Tokio,
}

/// Maps a clock to the engine's microseconds, which begin when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    source: TimeSource,
    /// The origin on each clock.
    boot: Duration,
    tokio: tokio::time::Instant,
}

impl Clock {
    pub(crate) fn start(source: TimeSource) -> Self {
        Self {
            source: if cfg!(target_os = "linux") {
                source
            } else {
                TimeSource::Tokio
            },
            boot: boot_time(),
            tokio: tokio::time::Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        let since = match self.source {
            TimeSource::System => since(self.boot, boot_time()),
            TimeSource::Tokio => self.tokio.elapsed(),
        };
        Instant::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// Converts `at` to CLOCK_BOOTTIME, rounded up; `None` for other clocks.
    #[cfg(target_os = "linux")]
    pub(crate) fn boot_time_of(&self, at: Instant) -> Option<Duration> {
        let since = Duration::from_micros(at.as_micros());
        (self.source == TimeSource::System).then(|| self.boot.saturating_add(since))
    }

    /// Converts `at` to the runtime's clock, rounded up if no clock stops.
    pub(crate) fn wake_at(&self, at: Instant) -> tokio::time::Instant {
        match self.source {
            TimeSource::System => {
                let left = at.as_micros().saturating_sub(self.now().as_micros());
                added(tokio::time::Instant::now(), Duration::from_micros(left))
            }
            TimeSource::Tokio => added(self.tokio, Duration::from_micros(at.as_micros())),
        }
    }

    /// Converts `at` to the DTLS library's time, of which only differences matter.
    #[cfg(feature = "dtls")]
    pub(crate) fn as_std(&self, at: Instant) -> std::time::Instant {
        added(self.tokio, Duration::from_micros(at.as_micros())).into_std()
    }
}

/// Time from `origin` to `reading` of a clock.
///
/// The kernel's clocks do not go back; one that does stands still here until it is where it was
/// at the origin, since the engine's time begins there.
fn since(origin: Duration, reading: Duration) -> Duration {
    reading.saturating_sub(origin)
}

/// Returns `at` plus a duration, at most a year.
fn added(at: tokio::time::Instant, later: Duration) -> tokio::time::Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    at.checked_add(later).unwrap_or_else(|| at + YEAR)
}

/// Time of CLOCK_BOOTTIME: since the system was started, suspensions included. It is read without a
/// system call, as CLOCK_MONOTONIC is (vdso(7)).
#[cfg(target_os = "linux")]
fn boot_time() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    // It fails for clocks that the kernel does not have; this one it has since 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

#[cfg(not(target_os = "linux"))]
fn boot_time() -> Duration {
    Duration::ZERO
}

/// Returns the processor time of this thread; on systems without it, the time since the first call.
pub(crate) fn processor_time() -> Duration {
    #[cfg(target_os = "linux")]
    {
        use nix::time::{ClockId, clock_gettime};
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
        time.map_or(Duration::ZERO, Duration::from)
    }
    #[cfg(not(target_os = "linux"))]
    {
        use std::sync::OnceLock;
        static FIRST: OnceLock<tokio::time::Instant> = OnceLock::new();
        FIRST.get_or_init(tokio::time::Instant::now).elapsed()
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(secs: u64) -> Instant {
        Instant::from_micros(secs * 1_000_000)
    }

    #[test]
    fn time_that_passes_in_suspension_counts() {
        let origin = Duration::new(86_400, 999_999_999);
        assert_eq!(since(origin, origin), Duration::ZERO);
        let night = 8 * 3_600 * SECOND;
        assert_eq!(since(origin, origin + night), night);
        let micro = Duration::from_micros(1);
        assert_eq!(since(origin, origin + micro), micro, "across a second");
        assert_eq!(since(origin, Duration::ZERO), Duration::ZERO);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn each_clock_source_reads_its_clock() {
        let system = Clock::start(TimeSource::System);
        let tokio = Clock::start(TimeSource::Tokio);
        tokio::time::advance(3_600 * SECOND).await;
        assert!(system.now() < after(60));
        assert_eq!(tokio.now(), after(3_600));
        let boot = system.boot_time_of(after(5)).unwrap();
        assert_eq!(boot, system.boot + 5 * SECOND);
        assert_eq!(tokio.boot_time_of(after(5)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn engine_times_convert_to_the_clock() {
        let clock = Clock::start(TimeSource::Tokio);
        let began = tokio::time::Instant::now();
        tokio::time::advance(2 * SECOND).await;
        let at = after(5);
        assert_eq!(clock.wake_at(at), began + 5 * SECOND);
        #[cfg(feature = "dtls")]
        assert_eq!(clock.as_std(at) - clock.as_std(clock.now()), 3 * SECOND);
        let never = clock.wake_at(Instant::from_micros(u64::MAX));
        assert!(never > began + 1_000 * SECOND);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn system_clock_counts_suspensions() {
        use nix::time::{ClockId, clock_gettime};
        let read = || Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap());
        let before = read();
        let clock = Clock::start(TimeSource::System);
        assert!((before..=read()).contains(&clock.boot));
        let (first, second) = (clock.now(), clock.now());
        assert!(first <= second && second < after(60));
        let left = clock.wake_at(second + SECOND.into()) - tokio::time::Instant::now();
        assert!(left <= SECOND && left > SECOND / 2, "{left:?}");
    }
}
