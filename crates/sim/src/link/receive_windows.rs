//! Downlink of devices that receive in windows behind their own frames only (class A of LoRaWAN, RFC 9011 5.6.3).

use std::collections::VecDeque;

use carob_cc::time::{Duration, Instant};

use super::device_radio::RadioSpec;
use super::direction::{DOWN, UP};
use super::schc::{FragmentSpec, Fragmenter, RX2_AFTER, frames};

/// A packet that waits at the gateway.
#[derive(Clone, Debug)]
struct Held {
    packet: u32,
    /// Time from which a window can take it.
    from: Instant,
    /// Frames to come.
    frames: VecDeque<u32>,
    /// True if a frame is missing that is not sent again.
    is_lost: bool,
    /// Transmissions of its first frame.
    attempts: u32,
}

/// Packets for a device, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Downlink {
    held: VecDeque<Held>,
}

/// The fate of a packet whose last frame was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) packet: u32,
    /// Its arrival; none if a frame is missing.
    pub(super) arrives: Option<Instant>,
    /// Time on air of frames that the device received.
    pub(super) received: Duration,
}

impl Downlink {
    /// Holds a packet of `bytes` that reaches the gateway at `from`.
    pub(super) fn hold(&mut self, spec: &FragmentSpec, packet: u32, from: Instant, bytes: u32) {
        self.held.push_back(Held {
            packet,
            from,
            frames: frames(bytes, spec.bytes).into(),
            is_lost: false,
            attempts: 0,
        });
    }

    /// The next window from `now` on that the first packet can use, if one is known.
    pub(super) fn next(&self, fragmenter: &mut Fragmenter, now: Instant) -> Option<Instant> {
        let from = self.held.front()?.from.max(now);
        while let Some(first) = fragmenter.windows.front().copied() {
            if first >= from {
                return Some(first);
            }
            // Too late for the first window, in time for the second.
            if first + RX2_AFTER >= from {
                return Some(first + RX2_AFTER);
            }
            fragmenter.windows.pop_front();
        }
        None
    }

    /// Sends the first packet in the window at `now`, if there is one: with acknowledgements all of its frames, else
    /// one.
    pub(super) fn open(
        &mut self,
        spec: &FragmentSpec,
        radio: &RadioSpec,
        fragmenter: &mut Fragmenter,
        now: Instant,
    ) -> Option<Sent> {
        if self.next(fragmenter, now) != Some(now) {
            return None;
        }
        fragmenter.windows.pop_front();
        let held = self.held.front_mut()?;
        let mut received = Duration::ZERO;
        let mut frame = |fragmenter: &mut Fragmenter, at, bytes| {
            let ends = fragmenter.send(spec, radio, DOWN, at, bytes);
            received += radio.takes(DOWN, bytes + spec.header_bytes);
            let is_lost = fragmenter.is_lost(spec, DOWN);
            if !is_lost {
                // A device that received a frame may send before its second window.
                fragmenter.listens = ends;
            }
            (ends, is_lost)
        };
        let first = held.frames.front().copied().unwrap_or_default();
        let (mut at, is_lost) = frame(fragmenter, now, first);
        let is_acknowledged = spec.acknowledged.is_some() && held.frames.len() > 1;
        if is_lost && is_acknowledged && held.attempts + 1 < spec.rounds {
            // The gateway misses it and repeats it.
            held.attempts += 1;
            held.from = now + spec.session.map_or(Duration::ZERO, |session| session.timer);
            return None;
        }
        held.is_lost |= is_lost;
        held.frames.pop_front();
        while is_acknowledged && !held.is_lost {
            let Some(next) = held.frames.pop_front() else {
                break;
            };
            // The device acknowledges each frame; its receive windows bring the next one (ACK-Always).
            held.is_lost = true;
            for _ in 0..spec.rounds.max(1) {
                // A frame without fragments: the SCHC ACK, which opens windows like any frame of a class A
                // device.
                let asked = fragmenter.send(spec, radio, UP, at, 0);
                let opens = asked + spec.receive_delay.unwrap_or_default();
                at = opens + RX2_AFTER;
                if fragmenter.is_lost(spec, UP) {
                    continue;
                }
                // This fragment takes the window that the acknowledgement opened.
                fragmenter.windows.pop_back();
                let (ends, is_lost) = frame(fragmenter, opens, next);
                if !is_lost {
                    (at, held.is_lost) = (ends, false);
                    break;
                }
            }
        }
        if !held.frames.is_empty() && !is_acknowledged {
            return None;
        }
        let arrives = (!held.is_lost).then_some(at);
        if arrives.is_some() && is_acknowledged {
            // The last acknowledgement opens windows, too.
            fragmenter.send(spec, radio, UP, at, 0);
        }
        let packet = self.held.pop_front()?.packet;
        Some(Sent {
            packet,
            arrives,
            received,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::{DeviceSpec, Devices};
    use super::*;
    use crate::random::{Probability, Stream};

    const CLASS_A: FragmentSpec = FragmentSpec {
        bytes: 40,
        header_bytes: 10,
        loss: Probability::NEVER,
        acknowledged: None,
        session: None,
        rounds: 100,
        duty_ppm: 1_000_000,
        receive_delay: Some(Duration::from_secs(1)),
    };

    /// A byte takes a millisecond.
    fn devices(fragments: FragmentSpec) -> Devices {
        let spec = DeviceSpec {
            radio: Some(RadioSpec {
                down_bps: 8_000,
                up_bps: 8_000,
                down_repetitions: 1,
                up_repetitions: 1,
                is_half_duplex: true,
                turnaround: Duration::ZERO,
            }),
            fragments: Some(fragments),
            ..DeviceSpec::default()
        };
        assert_eq!(spec.check(), Ok(()));
        Devices::new(&spec, [1, 1], 1)
    }

    fn ms(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Sends 40 B from the device.
    fn uplink(all: &mut Devices, at: u64) -> Option<Instant> {
        all.arrival(0, UP, ms(at), ms(at), 40)
    }

    /// Opens windows until the next packet is sent.
    fn sent(all: &mut Devices, now: Instant) -> (u32, Option<Instant>) {
        let mut now = now;
        loop {
            now = all.next_window(0, now).expect("a window");
            if let Some(sent) = all.open(0, now) {
                return sent;
            }
        }
    }

    #[test]
    fn a_packet_takes_the_first_or_second_window_behind_an_uplink() {
        for (at, arrives) in [(0, 1_100), (1_050, 1_100), (1_051, 2_100), (2_050, 2_100)] {
            let mut all = devices(CLASS_A);
            assert_eq!(uplink(&mut all, 0), Some(ms(50)));
            all.hold(0, 7, ms(at), 40);
            assert_eq!(sent(&mut all, ms(at)), (7, Some(ms(arrives))), "{at}");
        }
    }

    #[test]
    fn each_uplink_brings_one_packet() {
        let mut all = devices(CLASS_A);
        uplink(&mut all, 0);
        all.hold(0, 1, ms(100), 40);
        all.hold(0, 2, ms(100), 40);
        assert_eq!(sent(&mut all, ms(100)), (1, Some(ms(1_100))));
        assert_eq!(all.next_window(0, ms(1_100)), None);
        uplink(&mut all, 10_000);
        assert_eq!(sent(&mut all, ms(10_050)), (2, Some(ms(11_100))));
        // The device is silent until its windows are over.
        assert_eq!(uplink(&mut all, 20_000), Some(ms(20_050)));
        assert_eq!(uplink(&mut all, 20_100), Some(ms(22_100)));
    }

    #[test]
    fn a_packet_waits_for_the_next_uplink() {
        // An uplink a minute, packets at any time: they wait from 1 s before the uplink's end to the next, 30 s in the mean.
        let mut all = devices(CLASS_A);
        let mut stream = Stream::new(1, "test");
        let mut waits = 0.0;
        for minute in (0..20_000).step_by(2) {
            let at = ms(minute * 60_000) + stream.uniform(Duration::ZERO, Duration::from_secs(60));
            uplink(&mut all, minute * 60_000);
            all.hold(0, 1, at, 40);
            let mut now = at;
            if all.next_window(0, now).is_none() {
                now = ms((minute + 1) * 60_000);
                uplink(&mut all, (minute + 1) * 60_000);
            }
            let (_, arrives) = sent(&mut all, now);
            waits += arrives.expect("whole").since(at).as_micros() as f64 / 1e6;
        }
        // Windows begin 1.05 and 2.05 s after each minute; the frame takes 0.05 s. By parts of the minute:
        let expected = (1.05_f64.powi(2) / 2.0 + 0.5 + 57.95 * (57.95 / 2.0 + 1.05)) / 60.0 + 0.05;
        assert!((waits / 10e3 - expected).abs() < 0.6, "{waits} {expected}");
    }

    #[test]
    fn fragments_to_a_device_are_acknowledged_one_by_one() {
        let spec = FragmentSpec {
            acknowledged: Some(Duration::from_secs(2)),
            ..CLASS_A
        };
        let mut all = devices(spec);
        uplink(&mut all, 0);
        all.hold(0, 1, ms(0), 100);
        // Frames of 50, 50 and 30 ms; before the second and third an ACK of 10 ms and 1 s.
        let expected = 1_050 + 50 + (10 + 1_000 + 50) + (10 + 1_000 + 30);
        assert_eq!(sent(&mut all, ms(0)), (1, Some(ms(expected))));
        // Without acknowledgements each takes an uplink, and a lost one loses the packet.
        let mut all = devices(CLASS_A);
        for k in 0..3 {
            uplink(&mut all, k * 10_000);
            if k == 0 {
                all.hold(0, 1, ms(0), 100);
            }
            let now = ms(k * 10_000 + 1_050);
            let expected = (k == 2).then_some((1, Some(ms(21_080))));
            assert_eq!(all.open(0, now), expected);
        }
    }

    #[test]
    fn a_lost_fragment_or_acknowledgement_costs_both_windows() {
        let spec = FragmentSpec {
            loss: Probability::ppm(200_000),
            acknowledged: Some(Duration::from_secs(2)),
            ..CLASS_A
        };
        let mut all = devices(spec);
        let mut time = 0.0;
        for k in 0..20_000_u64 {
            // Uplinks until the first frame arrives.
            let mut from = k * 1_000_000;
            all.hold(0, 1, ms(from), 80);
            let arrives = loop {
                uplink(&mut all, from);
                let now = all.next_window(0, ms(from));
                if let Some(now) = now
                    && let Some((_, arrives)) = all.open(0, now)
                {
                    break arrives.expect("100 rounds").since(now);
                }
                from += 10_000;
            };
            time += arrives.as_micros() as f64 / 1e6;
        }
        // The second frame takes 1 / (1 - p)^2 tries, of which all but the last cost an ACK and 2 s.
        let failures = 1.0 / 0.64 - 1.0;
        let expected = 0.05 + 1.01 + 0.05 + failures * 2.01;
        assert!((time / 20e3 - expected).abs() < 0.04, "{time} {expected}");
    }
}
