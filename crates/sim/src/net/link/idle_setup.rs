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
struct Connection {
    stream: Stream,
    /// End of the last set-up.
    ready: Instant,
    /// The last time at which a packet used the connection; none before the first.
    used: Option<Instant>,
    /// The last arrival by direction: a device's packets keep their order.
    latest: [Instant; 2],
}

/// The connections of all devices.
#[derive(Debug)]
pub(super) struct Connections {
    spec: IdleSetup,
    seed: u64,
    devices: Vec<Connection>,
}

impl Connections {
    pub(super) fn new(spec: IdleSetup, seed: u64) -> Self {
        Self {
            spec,
            seed,
            devices: Vec::new(),
        }
    }

    /// The arrival of a packet of a device that is sent at `now` and would arrive at `arrives` over an
    /// open connection.
    pub(super) fn arrival(
        &mut self,
        device: u32,
        direction: usize,
        now: Instant,
        arrives: Instant,
    ) -> Instant {
        for number in self.devices.len() as u32..=device {
            self.devices.push(Connection {
                stream: Stream::indexed(self.seed, "link/idle-setup", number),
                ready: Instant::ZERO,
                used: None,
                latest: [Instant::ZERO; 2],
            });
        }
        let connection = &mut self.devices[device as usize];
        let is_open = |used: Instant| now < used + self.spec.after;
        if !connection.used.is_some_and(is_open) {
            connection.ready = now + self.spec.takes.draw(&mut connection.stream);
        }
        let waits = connection.ready.since(now);
        let arrives = (arrives + waits).max(connection.latest[direction]);
        connection.latest[direction] = arrives;
        connection.used = connection.used.max(Some(now + waits));
        arrives
    }
}

#[cfg(test)]
mod tests {
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
        let mut all = Connections::new(spec, 1);
        let one = |&(device, direction, now): &(u32, usize, u64)| {
            let arrives = all.arrival(device, direction, at(now), at(now + 1));
            arrives.as_micros() / 1_000_000
        };
        packets.iter().map(one).collect()
    }

    #[test]
    fn the_first_packet_after_idle_waits_and_those_behind_it_too() {
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
    fn devices_have_connections_of_their_own() {
        let packets = [(3, 0, 0), (1, 0, 4), (3, 0, 6)];
        assert_eq!(arrivals(&packets), [6, 10, 7]);
    }
}
