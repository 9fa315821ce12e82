//! Sleep of an idle device: paging cycles (DRX, eDRX) and power saving mode (3GPP TS 23.682 4.5.4, 4.5.13).
//!
//! Set-up of a device's connection after idle time: random access and RRC connection of a cellular
//! device, which its first packet in either direction waits for.

use carob_cc::time::{Duration, Instant};

use crate::distribution::TimeDistribution;
use crate::random::Stream;

/// Times at which an idle device can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepSpec {
    /// Time from one paging occasion to the next; 0 if the device always listens.
    pub cycle: Duration,
    /// Time that the device listens at each.
    pub window: Duration,
    /// Power saving mode, if the device has it.
    pub saving: Option<PowerSaving>,
}

/// Power saving mode: nothing reaches the device, until it sends or wakes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerSaving {
    /// Time after the release of a connection, and after each wake-up, before it begins (T3324).
    pub active: Duration,
    /// Time from one periodic wake-up to the next (T3412); above `active`.
    pub interval: Duration,
}

impl SleepSpec {
    /// Checks that the times are possible.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.saving {
            Some(saving) if saving.interval <= saving.active => {
                Err("the interval of wake-ups is longer than the active time")
            }
            _ if self.window > self.cycle => Err("a paging window is at most a cycle"),
            _ => Ok(()),
        }
    }

    /// The next time from `now` on at which a packet reaches a device that is idle since `idle`. Its paging
    /// occasions are `phase` after each cycle.
    pub(super) fn reaches(&self, now: Instant, idle: Instant, phase: Duration) -> Instant {
        let mut at = now;
        if let Some(saving) = self.saving {
            let (since, interval) = (now.since(idle).as_micros(), saving.interval.as_micros());
            // Each period of T3412 begins awake, for T3324; in the rest nothing reaches the device.
            let within = since % interval.max(1);
            if within >= saving.active.as_micros() {
                at = now + Duration::from_micros(interval - within);
            }
        }
        let cycle = self.cycle.as_micros();
        if cycle == 0 {
            return at;
        }
        // `cycle` is added so that the difference is not below 0.
        let since = at.since(Instant::ZERO).as_micros() + cycle - phase.as_micros() % cycle;
        at + Duration::from_micros((cycle - since % cycle) % cycle)
    }

    /// Parts of an idle time, awake and in power saving mode. Before its first connection a device was idle long.
    pub(super) fn split(&self, gap: Duration, is_first: bool) -> (Duration, Duration) {
        let Some(saving) = self.saving else {
            return (gap, Duration::ZERO);
        };
        if is_first {
            return (Duration::ZERO, gap);
        }
        let interval = saving.interval.as_micros().max(1);
        let (whole, rest) = (gap.as_micros() / interval, gap.as_micros() % interval);
        let awake = saving.active.as_micros();
        let awake = Duration::from_micros(whole * awake + rest.min(awake));
        (awake, gap.saturating_sub(awake))
    }

    /// Time in paging windows, of a time awake.
    pub(super) fn paged(&self, awake: Duration) -> Duration {
        let cycle = self.cycle.as_micros();
        if cycle == 0 {
            return Duration::ZERO;
        }
        let share = u128::from(awake.as_micros()) * u128::from(self.window.as_micros());
        Duration::from_micros((share / u128::from(cycle)) as u64)
    }
}

/// Set-up of a device's connection after idle time. A packet waits for it besides its time on the link;
/// packets of other devices do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleSetup {
    /// Time that a set-up takes, drawn on the stream (`"link/idle-setup"`, host).
    pub takes: TimeDistribution,
    /// Time without a packet of the device in either direction after which the connection is gone.
    pub after: Duration,
}

/// The connection of a device.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    stream: Stream,
    /// Beginning of the last set-up.
    begins: Instant,
    /// End of the last set-up.
    ready: Instant,
    /// The last time at which a packet used the connection; none before the first.
    used: Option<Instant>,
}

impl Connection {
    /// The connection of a device before its first packet.
    pub(super) fn new(seed: u64, device: u32) -> Self {
        Self {
            stream: Stream::indexed(seed, "link/idle-setup", device),
            begins: Instant::ZERO,
            ready: Instant::ZERO,
            used: None,
        }
    }

    /// End of the connection, if no other packet uses it.
    pub(super) fn ends(&self, spec: &IdleSetup) -> Option<Instant> {
        self.used.map(|used| used + spec.after)
    }

    /// Returns whether a packet at `now` finds a connection, or one that is being set up.
    pub(super) fn is_open(&self, spec: &IdleSetup, now: Instant) -> bool {
        // `begins` may be in the future: a set-up that waits for the next paging occasion.
        now >= self.begins && self.ends(spec).is_some_and(|ends| now < ends)
    }

    /// Begins a set-up.
    pub(super) fn begin(&mut self, spec: &IdleSetup, begins: Instant) {
        self.begins = begins;
        self.ready = begins + spec.takes.draw(&mut self.stream);
    }

    /// The time that a packet sent at `now` waits for the connection.
    pub(super) fn waits(&mut self, now: Instant) -> Duration {
        let waits = self.ready.since(now);
        self.used = self.used.max(Some(now + waits));
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::{DeviceSpec, Devices};
    use super::super::energy::{DeviceRecord, PowerSpec};
    use super::*;
    use crate::distribution::TimeDistribution;
    use crate::link::{DOWN, UP};

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + s(seconds)
    }

    fn devices(sleep: SleepSpec) -> Devices {
        let spec = DeviceSpec {
            setup: Some(IdleSetup {
                takes: TimeDistribution::constant(s(2)),
                after: s(10),
            }),
            sleep: Some(sleep),
            power: Some(PowerSpec {
                send: 500_000,
                receive: 100_000,
                listen: 100_000,
                idle: 3_000,
                sleep: 15,
            }),
            ..DeviceSpec::default()
        };
        Devices::new(&spec, [8_000, 8_000], 1)
    }

    const PAGED: SleepSpec = SleepSpec {
        cycle: s(20),
        window: s(1),
        saving: None,
    };

    #[test]
    fn a_packet_to_an_idle_device_waits_for_page_and_connection() {
        // Waits are uniform over the cycle: one device an hour, 3,000 times.
        let mut all = devices(PAGED);
        let wait = |k: u64| {
            let now = at(100 + k * 3_607);
            all.arrival(0, DOWN, now, now, 0).expect("whole").since(now)
        };
        let waits: Vec<f64> = (0..3_000)
            .map(wait)
            .map(|wait| wait.as_micros() as f64 / 1e6)
            .collect();
        assert!(waits.iter().all(|wait| (2.0..22.0).contains(wait)));
        let mean = waits.iter().sum::<f64>() / 3_000.0;
        assert!((mean - 12.0).abs() < 0.4, "{mean}");
    }

    #[test]
    fn a_packet_of_the_device_does_not_wait_for_a_page() {
        let mut all = devices(PAGED);
        let paged = all.arrival(0, DOWN, at(100), at(100), 0).expect("whole");
        // The device sends meanwhile and sets up a connection at once, which is open then.
        assert_eq!(
            all.arrival(0, UP, at(100), at(100), 0).expect("whole"),
            at(102)
        );
        assert_eq!(
            all.arrival(0, DOWN, at(105), at(105), 0).expect("whole"),
            paged.max(at(105))
        );
    }

    #[test]
    fn a_sleeping_device_is_reached_when_it_wakes_up() {
        let saving = Some(PowerSaving {
            active: s(5),
            interval: s(100),
        });
        let sleep = SleepSpec {
            cycle: s(0),
            window: s(0),
            saving,
        };
        assert_eq!(sleep.check(), Ok(()));
        let reaches = |now: u64| sleep.reaches(at(now), at(10), s(0));
        // Idle from 10: awake to 15, then from 110 to 115, and so on.
        assert_eq!(
            [12, 15, 60, 112, 115].map(reaches),
            [12, 110, 110, 112, 210].map(at)
        );
        assert_eq!(sleep.split(s(103), false), (s(8), s(95)));
        assert_eq!(sleep.split(s(103), true), (s(0), s(103)));
    }

    #[test]
    fn energy_is_time_by_state_times_power() {
        let saving = Some(PowerSaving {
            active: s(40),
            interval: s(3_600),
        });
        let mut all = devices(SleepSpec { saving, ..PAGED });
        // 1,000 B at 8 kbit/s: set-up from 100 to 102, sent for 1 s, received for 1 s, connected until 113.
        assert_eq!(
            all.arrival(0, UP, at(100), at(101), 1_000).expect("whole"),
            at(103)
        );
        assert_eq!(
            all.arrival(0, DOWN, at(103), at(104), 1_000)
                .expect("whole"),
            at(104)
        );
        let record = all.records(at(213))[0];
        let expected = DeviceRecord {
            send: s(1),
            receive: s(1),
            listen: s(11) + s(2), // connected for 13 s, and 2 windows in 40 s
            idle: s(38),
            sleep: s(100) + s(60),
            energy_uj: 500_000 + 100_000 + 1_300_000 + 114_000 + 2_400,
        };
        assert_eq!(record, expected);
    }

    fn set_up_at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Arrivals in seconds over a link of a second.
    fn arrivals(packets: &[(u32, usize, u64)]) -> Vec<u64> {
        let s = Duration::from_secs;
        let spec = IdleSetup {
            takes: TimeDistribution::constant(s(5)),
            after: s(10),
        };
        let device = DeviceSpec {
            setup: Some(spec),
            ..DeviceSpec::default()
        };
        let mut all = Devices::new(&device, [1, 1], 1);
        let one = |&(device, direction, now): &(u32, usize, u64)| {
            let arrives = all
                .arrival(device, direction, set_up_at(now), set_up_at(now + 1), 0)
                .expect("whole");
            arrives.as_micros() / 1_000_000
        };
        packets.iter().map(one).collect()
    }

    #[test]
    fn first_packet_after_idle_delays_the_queue() {
        // Set-up from 0 to 5; a packet at 3 waits, too, and one at 6 does not.
        let packets = [(0, 0, 0), (0, 0, 3), (0, 0, 6), (0, 0, 15), (0, 0, 25)];
        assert_eq!(arrivals(&packets), [6, 6, 7, 16, 31]);
    }

    #[test]
    fn packets_of_both_directions_keep_a_connection_open() {
        let packets = [(0, 0, 0), (0, 1, 12), (0, 0, 20), (0, 1, 30)];
        assert_eq!(arrivals(&packets), [6, 13, 21, 36]);
    }

    #[test]
    fn devices_have_separate_connections() {
        let packets = [(3, 0, 0), (1, 0, 4), (3, 0, 6)];
        assert_eq!(arrivals(&packets), [6, 10, 7]);
    }
}
