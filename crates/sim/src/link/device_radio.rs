//! Radio of a device with its own rates: half duplex, turnaround, repetitions.
//!
//! A device of NB-IoT sends at a fraction of the rate of its cell, and its one radio sends or receives (3GPP
//! TS 36.211 10; type B half-duplex operation). The shared link is the cell.

use std::collections::VecDeque;

use carob_cc::time::{Duration, Instant};

use super::direction::{DOWN, UP};

/// Rates and duplex mode of a device's radio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadioSpec {
    /// Bits per second that the device receives; above 0.
    pub down_bps: u64,
    /// Bits per second that the device sends; above 0.
    pub up_bps: u64,
    /// Transmissions of each packet towards the device, by its coverage class; at least 1.
    pub down_repetitions: u32,
    /// Transmissions of each packet from the device; at least 1.
    pub up_repetitions: u32,
    /// Whether the radio sends and receives in turn; else at the same time.
    pub is_half_duplex: bool,
    /// Time from a packet of one direction to one of the other, with half duplex.
    pub turnaround: Duration,
}

impl RadioSpec {
    /// Time on air of a packet.
    pub(super) fn takes(&self, direction: usize, bytes: u32) -> Duration {
        let (rate, repetitions) = match direction {
            DOWN => (self.down_bps, self.down_repetitions),
            _ => (self.up_bps, self.up_repetitions),
        };
        // In bits times 10^6, for a quotient in microseconds; 2^87 at most.
        let work = u128::from(bytes) * 8_000_000 * u128::from(repetitions);
        Duration::from_micros(u64::try_from(work.div_ceil(u128::from(rate))).unwrap_or(u64::MAX))
    }
}

/// Use of a radio by one packet.
#[derive(Clone, Copy, Debug)]
struct Turn {
    direction: usize,
    begins: Instant,
    ends: Instant,
}

/// The radio of a device: its turns from now on, in order. A packet of the downlink takes its turn when it
/// arrives over the shared link; packets of the uplink that fit go before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Radio {
    turns: VecDeque<Turn>,
    /// The end of the last turn by direction.
    last: [Instant; 2],
}

impl Radio {
    /// The arrival of a packet: `now`, when the connection is ready, when the shared link would have it arrive.
    pub(super) fn arrival(
        &mut self,
        spec: &RadioSpec,
        direction: usize,
        [now, ready, arrives]: [Instant; 3],
        bytes: u32,
    ) -> Instant {
        let takes = spec.takes(direction, bytes);
        let earliest = if direction == UP { ready } else { arrives };
        let begins = self.take_turn(spec, direction, now, earliest, takes);
        // Upwards the radio precedes the shared link, so waiting and time on air delay its arrival there.
        if direction == UP {
            arrives + begins.since(ready) + takes
        } else {
            begins + takes
        }
    }

    /// Takes the first turn that is free. Returns its beginning.
    fn take_turn(
        &mut self,
        spec: &RadioSpec,
        direction: usize,
        now: Instant,
        earliest: Instant,
        takes: Duration,
    ) -> Instant {
        let mut begins = earliest.max(self.last[direction]);
        if takes.is_zero() {
            return begins;
        }
        if spec.is_half_duplex {
            // Nothing begins before `now`, so these turns delay no packet.
            let is_over = |turn: &Turn| turn.ends + spec.turnaround <= now;
            while self.turns.front().is_some_and(is_over) {
                self.turns.pop_front();
            }
            let mut place = 0;
            for turn in &self.turns {
                let gap = if turn.direction == direction {
                    Duration::ZERO
                } else {
                    spec.turnaround
                };
                if begins + takes + gap <= turn.begins {
                    break;
                }
                begins = begins.max(turn.ends + gap);
                place += 1;
            }
            let ends = begins + takes;
            self.turns.insert(
                place,
                Turn {
                    direction,
                    begins,
                    ends,
                },
            );
        }
        self.last[direction] = begins + takes;
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::device::{DeviceSpec, Devices};
    use super::*;

    const HALF: RadioSpec = RadioSpec {
        down_bps: 8_000,
        up_bps: 4_000,
        down_repetitions: 1,
        up_repetitions: 1,
        is_half_duplex: true,
        turnaround: Duration::from_millis(50),
    };

    fn ms(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Arrivals in milliseconds over a shared link of 100 ms: direction, time, bytes.
    fn arrivals(radio: RadioSpec, packets: &[(usize, u64, u32)]) -> Vec<u64> {
        let spec = DeviceSpec {
            radio: Some(radio),
            ..DeviceSpec::default()
        };
        let mut all = Devices::new(&spec, [1, 1], 1);
        let one = |&(direction, now, bytes): &(usize, u64, u32)| {
            let arrives = all
                .arrival(0, direction, ms(now), ms(now + 100), bytes)
                .expect("whole");
            arrives.as_micros() / 1_000
        };
        packets.iter().map(one).collect()
    }

    #[test]
    fn packets_are_serialized_by_time_on_air() {
        // 100 B are 200 ms up and 100 ms down.
        let packets = [
            (UP, 0, 100),
            (UP, 0, 100),
            (DOWN, 1_000, 100),
            (DOWN, 1_000, 50),
        ];
        assert_eq!(arrivals(HALF, &packets), [300, 500, 1_200, 1_250]);
        let repeated = RadioSpec {
            up_repetitions: 4,
            down_repetitions: 2,
            ..HALF
        };
        assert_eq!(arrivals(repeated, &packets), [900, 1_700, 1_850, 1_950]);
    }

    #[test]
    fn directions_take_turns_with_a_turnaround_between_them() {
        // Down arrives at 100, up is on air from 0 to 200: down begins at 250.
        let packets = [(UP, 0, 100), (DOWN, 0, 100), (UP, 0, 100)];
        assert_eq!(arrivals(HALF, &packets), [300, 350, 700]);
        let full = RadioSpec {
            is_half_duplex: false,
            ..HALF
        };
        assert_eq!(arrivals(full, &packets), [300, 200, 500]);
    }

    #[test]
    fn uplink_packet_precedes_a_queued_downlink_packet() {
        // Down is on air from 100 to 200; 20 B up (40 ms) fit before it and 100 B do not.
        assert_eq!(arrivals(HALF, &[(DOWN, 0, 100), (UP, 0, 20)]), [200, 140]);
        assert_eq!(arrivals(HALF, &[(DOWN, 0, 100), (UP, 0, 100)]), [200, 550]);
    }

    #[test]
    fn packets_lost_after_the_radio_took_their_turn_and_others_did_not() {
        let spec = DeviceSpec {
            radio: Some(HALF),
            ..DeviceSpec::default()
        };
        let lost = Verdict::Lost { departed: ms(0) };
        let ready = Verdict::Deliver {
            at: ms(0),
            departed: ms(0),
            marked: false,
            duplicated: false,
        };
        let arrival = |verdict, is_down| {
            let mut all = Devices::new(&spec, [1, 1], 1);
            assert_eq!(all.cross(0, is_down, ms(0), verdict, 100), verdict);
            match all.cross(0, false, ms(0), ready, 100) {
                Verdict::Deliver { at, .. } => at.as_micros() / 1_000,
                other => panic!("{other:?}"),
            }
        };
        // 100 B take 200 ms up; one lost behind the radio took as long, one on its way down or dropped nothing.
        assert_eq!(arrival(lost, false), 400);
        assert_eq!(arrival(lost, true), 200);
        assert_eq!(arrival(Verdict::DropFull, false), 200);
    }

    #[test]
    fn saturated_directions_share_the_radio_in_proportion() {
        // One packet each way is 200 + 100 ms on air and two turnarounds: 800 bit each way in 400 ms.
        let spec = DeviceSpec {
            radio: Some(HALF),
            ..DeviceSpec::default()
        };
        let mut all = Devices::new(&spec, [1, 1], 1);
        let mut last = Instant::ZERO;
        for k in 0..1_000 {
            let now = ms(k);
            last = last.max(all.arrival(0, UP, now, now, 100).expect("whole"));
            last = last.max(all.arrival(0, DOWN, now, now, 100).expect("whole"));
        }
        // In the order of offers: 1,000 pairs, the last turnaround apart.
        assert_eq!(last.as_micros() / 1_000, 1_000 * 400 - 50);
    }
}
