//! Timer of a task, on the clock from which its engine's time is read.
//!
//! On Linux that is a timerfd of CLOCK_BOOTTIME, so that a timer that has run out while the system
//! was suspended wakes the driver as soon as the system is awake. The runtime's own timers count
//! time awake only, and would be late by as long as it slept. Where there is no such timer the
//! runtime's is used: it is late by at most the remaining time. Every wake-up reads the
//! clock, so input in the meantime is handled at the right time, and no retransmission leaves too late.

use std::pin::Pin;

use carob_cc::time::Instant;
use tokio::time::Sleep;

use crate::clock::Clock;

/// A reusable timer.
pub(super) struct Alarm {
    clock: Clock,
    /// The time at which it expires. It is moved forward only: a spurious wake-up costs less than
    /// setting the timer for every datagram.
    set: Option<Instant>,
    timer: Timer,
}

enum Timer {
    #[cfg(target_os = "linux")]
    Boot(linux::BootTimer),
    Runtime(Pin<Box<Sleep>>),
}

impl Alarm {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            set: None,
            timer: Timer::new(clock),
        }
    }

    /// Sets the expiry to `at`, unless it is earlier.
    pub(super) fn set(&mut self, at: Instant) {
        // A timer that rings early costs one look at the clock; to move it costs a system call
        // each time.
        if self.set.is_some_and(|set| set <= at) {
            return;
        }
        debug_assert!(
            self.set.is_none_or(|set| at < set),
            "it is moved forward only"
        );
        self.set = Some(at);
        #[cfg(target_os = "linux")]
        if let Timer::Boot(timer) = &mut self.timer {
            match timer.set(&self.clock, at) {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "the timer cannot be set; the runtime's is used");
                    self.timer = Timer::runtime(self.clock);
                }
            }
        }
        if let Timer::Runtime(sleep) = &mut self.timer {
            sleep.as_mut().reset(self.clock.wake_at(at));
        }
    }

    /// Waits until the timer expires, forever if it was not set. Cancel-safe.
    pub(super) async fn expired(&mut self) {
        if self.set.is_none() {
            return std::future::pending().await;
        }
        match &mut self.timer {
            #[cfg(target_os = "linux")]
            Timer::Boot(timer) => timer.expired().await,
            Timer::Runtime(sleep) => sleep.as_mut().await,
        }
        self.set = None;
    }
}

impl Timer {
    fn new(clock: Clock) -> Self {
        #[cfg(target_os = "linux")]
        if clock.boot_time_of(Instant::ZERO).is_some() {
            match linux::BootTimer::new() {
                Ok(timer) => return Self::Boot(timer),
                Err(error) => {
                    tracing::warn!(%error, "no timer counts suspensions; the runtime's is used");
                }
            }
        }
        Self::runtime(clock)
    }

    fn runtime(clock: Clock) -> Self {
        Self::Runtime(Box::pin(tokio::time::sleep_until(
            clock.wake_at(Instant::ZERO),
        )))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::future::poll_fn;
    use std::io;
    use std::os::fd::{AsFd as _, AsRawFd, RawFd};
    use std::time::Duration;

    use carob_cc::time::Instant;
    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::clock::Clock;

    /// A timerfd of CLOCK_BOOTTIME.
    pub(super) struct BootTimer(AsyncFd<Descriptor>);

    /// A timer file descriptor for the runtime.
    struct Descriptor(TimerFd);

    impl AsRawFd for Descriptor {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_fd().as_raw_fd()
        }
    }

    impl BootTimer {
        #[allow(
            deprecated,
            reason = "what the successor asks for, a descriptor that stays the same, a timer is"
        )]
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
            AsyncFd::with_interest(Descriptor(timer), Interest::READABLE).map(Self)
        }

        pub(super) fn set(&mut self, clock: &Clock, at: Instant) -> io::Result<()> {
            // Zero would disarm the timer. A century is the maximum: the kernel rejects times
            // beyond its own 64 bits of nanoseconds.
            const CENTURY: Duration = Duration::from_secs(100 * 366 * 24 * 3_600);
            let at = clock.boot_time_of(at).unwrap_or_default();
            let at = at.clamp(Duration::from_nanos(1), CENTURY);
            self.0.get_ref().0.set(
                Expiration::OneShot(TimeSpec::from_duration(at)),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )?;
            Ok(())
        }

        pub(super) async fn expired(&mut self) {
            // Waiting fails only when the runtime ends, and then no task waits.
            while let Ok(mut ready) = poll_fn(|cx| self.0.poll_read_ready(cx)).await {
                // Setting the timer makes it unreadable: earlier readiness is void.
                let mut ticks = [0; 8];
                let read = ready.try_io(|timer| {
                    nix::unistd::read(&timer.get_ref().0, &mut ticks).map_err(io::Error::from)
                });
                if read.is_ok() {
                    ready.clear_ready();
                    return;
                }
            }
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::TimeSource;

    const MS: Duration = Duration::from_millis(1);

    /// Lateness of the alarm, in engine time.
    async fn lateness(alarm: &mut Alarm, at: Instant) -> Duration {
        let limit = tokio::time::timeout(5_000 * MS, alarm.expired());
        limit.await.expect("it goes off");
        let now = alarm.clock.now();
        assert!(now >= at, "not before its time");
        now.since(at).into()
    }

    #[tokio::test]
    async fn alarm_expires_at_the_earliest_time_set() {
        for source in [TimeSource::System, TimeSource::Tokio] {
            let clock = Clock::start(source);
            let mut alarm = Alarm::new(clock);
            let later = |ms: u64| clock.now() + (ms as u32 * MS).into();
            let (far, near) = (later(60_000), later(40));
            alarm.set(far);
            alarm.set(near);
            alarm.set(far);
            lateness(&mut alarm, near).await;
            // It went off, and is not set any more.
            let silent = tokio::time::timeout(30 * MS, alarm.expired()).await;
            assert!(silent.is_err());
            // A time in the past, as after a suspension, fires at once.
            let past = Instant::from_micros(1);
            alarm.set(past);
            assert!(lateness(&mut alarm, past).await < 5_000 * MS);
            let again = later(20);
            alarm.set(again);
            lateness(&mut alarm, again).await;
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn alarm_counts_suspensions_and_survives_moves() {
        let clock = Clock::start(TimeSource::System);
        let mut alarm = Alarm::new(clock);
        assert!(matches!(alarm.timer, Timer::Boot(_)));
        // It expires unobserved and is set again: the earlier expiry must not count.
        alarm.set(clock.now());
        tokio::time::sleep(20 * MS).await;
        alarm.set = None;
        let next = clock.now() + (100 * MS).into();
        alarm.set(next);
        lateness(&mut alarm, next).await;
        alarm.set(Instant::from_micros(u64::MAX));
        let silent = tokio::time::timeout(30 * MS, alarm.expired()).await;
        assert!(silent.is_err());
    }
}
