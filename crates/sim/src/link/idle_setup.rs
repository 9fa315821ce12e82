//! Set-up of a device's connection after idle time: random access and RRC connection of a cellular
//! device, which its first packet in either direction waits for.

use carob_cc::time::{Duration, Instant};

use crate::distribution::TimeDistribution;
use crate::random::Stream;

/// Set-up of a device's connection after idle time. A packet waits for it besides its time on the link;
/// packets of other devices do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    use super::*;

    fn at(seconds: u64) -> Instant {
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
                .arrival(device, direction, at(now), at(now + 1), 0)
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
