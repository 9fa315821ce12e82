//! SCHC fragments of a device under a duty cycle, as over LoRaWAN (RFC 8724 8, RFC 9011).

use std::collections::VecDeque;

use carob_cc::time::{Duration, Instant};

use super::device_radio::RadioSpec;
use super::direction::UP;
use crate::random::{Probability, Stream};

/// Fragments of a device's packets. Frames take turns on its one radio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentSpec {
    /// Bytes of a packet that a frame carries at most; above 0.
    pub bytes: u32,
    /// Bytes of the headers of a frame.
    pub header_bytes: u32,
    /// Share of frames lost, each by itself.
    pub loss: Probability,
    /// Time from the last frame of a round to the acknowledgement that requests those lost (ACK-on-Error); without
    /// it a lost frame loses the packet (No-ACK).
    pub acknowledged: Option<Duration>,
    /// Windows and timers of acknowledgements; without them, one acknowledges a packet and none is lost. Needs
    /// `acknowledged`.
    pub session: Option<SessionSpec>,
    /// Rounds of a packet, or of a window, at most (MAX_ACK_REQUESTS).
    pub rounds: u32,
    /// Share of time that the device may send, in parts per million; above 0. After a frame it is silent in proportion.
    pub duty_ppm: u32,
    /// Time from the end of a frame of the device to its first receive window, if it receives in them only (class A of
    /// LoRaWAN). The second is [`RX2_AFTER`] later.
    pub receive_delay: Option<Duration>,
}

/// Time from the first receive window of a device to its second (LoRaWAN 1.0.4, 3.3).
pub const RX2_AFTER: Duration = Duration::from_secs(1);

/// Acknowledged fragments of packets that need several frames (RFC 8724 8.4.3, RFC 9011 5.6.2). Shorter packets are not
/// fragments and have no acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionSpec {
    /// Bytes of a window, after which the device waits for an acknowledgement; at least a frame.
    pub window_bytes: u32,
    /// Share of acknowledgements lost.
    pub ack_loss: Probability,
    /// Time from a frame that requests an acknowledgement until the device requests it again (Retransmission Timer).
    pub timer: Duration,
}

/// The radio of a device that sends fragments.
#[derive(Clone, Debug)]
pub(super) struct Fragmenter {
    stream: Stream,
    /// End of the last frame of either direction.
    free: Instant,
    /// End of the silence after the last frame of the device.
    silent: Instant,
    /// End of the exchange of the last packet from the device: one is under way at a time.
    ended: Instant,
    /// True if the device knows that its last window was received.
    is_acknowledged: bool,
    /// Time until which the device sends nothing, for its receive windows.
    pub(super) listens: Instant,
    /// First receive windows behind frames of the device that the gateway received.
    pub(super) windows: VecDeque<Instant>,
    /// Time on air of its frames.
    pub(super) sent: Duration,
}

impl Fragmenter {
    pub(super) fn new(seed: u64, device: u32) -> Self {
        Self {
            stream: Stream::indexed(seed, "link/fragments", device),
            free: Instant::ZERO,
            silent: Instant::ZERO,
            ended: Instant::ZERO,
            is_acknowledged: false,
            listens: Instant::ZERO,
            windows: VecDeque::new(),
            sent: Duration::ZERO,
        }
    }

    /// The arrival of the last frame of a packet that may begin at `earliest`; none if a frame of it is missing.
    pub(super) fn arrival(
        &mut self,
        spec: &FragmentSpec,
        radio: &RadioSpec,
        direction: usize,
        earliest: Instant,
        bytes: u32,
    ) -> Option<Instant> {
        if let (Some(session), UP) = (&spec.session, direction) {
            return self.session(spec, session, radio, earliest, bytes);
        }
        let mut frames = frames(bytes, spec.bytes);
        let mut from = earliest;
        for _ in 0..spec.rounds.max(1) {
            let mut missing = Vec::new();
            for frame in frames {
                let ends = self.send(spec, radio, direction, from, frame);
                if self.is_lost(spec, direction) {
                    missing.push(frame);
                }
                from = ends;
            }
            if missing.is_empty() {
                return Some(from);
            }
            from += spec.acknowledged?;
            // An acknowledgement has a bitmap, so only lost fragments are sent again (RFC 8724 8.4.3).
            frames = missing;
        }
        None
    }

    /// The same of a packet from the device with windows of fragments, each acknowledged.
    fn session(
        &mut self,
        spec: &FragmentSpec,
        session: &SessionSpec,
        radio: &RadioSpec,
        earliest: Instant,
        bytes: u32,
    ) -> Option<Instant> {
        // One session at a time: RFC 9011 5.6.2 has no DTag (T = 0), so a receiver could not distinguish the
        // fragments of two packets.
        let mut from = earliest.max(self.ended);
        if bytes <= spec.bytes {
            let ends = self.send(spec, radio, UP, from, bytes);
            self.ended = ends;
            return (!self.is_lost(spec, UP)).then_some(ends);
        }
        let mut arrives = None;
        for window in frames(bytes, session.window_bytes) {
            // The last window may be whole without the device's knowing; others may not.
            if arrives.is_some() && !self.is_acknowledged {
                return None;
            }
            arrives = self.window(spec, session, radio, from, &frames(window, spec.bytes));
            arrives?;
            from = self.ended;
        }
        arrives
    }

    /// Sends a window of frames. Returns the arrival of the last one that was missing.
    fn window(
        &mut self,
        spec: &FragmentSpec,
        session: &SessionSpec,
        radio: &RadioSpec,
        from: Instant,
        frames: &[u32],
    ) -> Option<Instant> {
        let last = frames.len() - 1;
        let mut missing: Vec<usize> = (0..frames.len()).collect();
        let (mut from, mut arrives) = (from, None);
        let mut is_resent = true;
        for _ in 0..spec.rounds.max(1) {
            let sent = if is_resent {
                missing.clone()
            } else {
                Vec::new()
            };
            let mut is_heard = false;
            for &number in &sent {
                from = self.send(spec, radio, UP, from, frames[number]);
                is_heard = !self.is_lost(spec, UP);
                if is_heard {
                    missing.retain(|other| *other != number);
                }
            }
            if missing.is_empty() && arrives.is_none() {
                arrives = Some(from);
            }
            // The last fragment of a window requests the acknowledgement, or a SCHC ACK REQ does.
            if sent.last() != Some(&last) {
                from = self.send(spec, radio, UP, from, 0);
                is_heard = !self.is_lost(spec, UP);
            }
            if is_heard {
                // The acknowledgement takes the receive windows of this frame.
                self.windows.pop_back();
            }
            is_resent = is_heard && !self.stream.happens(session.ack_loss);
            from += if is_resent {
                spec.acknowledged.unwrap_or_default()
            } else {
                session.timer
            };
            if is_resent && missing.is_empty() {
                break;
            }
        }
        self.ended = from;
        self.is_acknowledged = is_resent && missing.is_empty();
        arrives
    }

    /// Returns whether the last frame is lost. One that the gateway does not receive opens no windows.
    pub(super) fn is_lost(&mut self, spec: &FragmentSpec, direction: usize) -> bool {
        let is_lost = self.stream.happens(spec.loss);
        if is_lost && direction == UP {
            self.windows.pop_back();
        }
        is_lost
    }

    /// Puts a frame on the air. Returns its end.
    pub(super) fn send(
        &mut self,
        spec: &FragmentSpec,
        radio: &RadioSpec,
        direction: usize,
        from: Instant,
        bytes: u32,
    ) -> Instant {
        let takes = radio.takes(direction, bytes + spec.header_bytes);
        let mut begins = from.max(self.free);
        if direction == UP {
            begins = begins.max(self.silent).max(self.listens);
        }
        self.free = begins + takes;
        if direction == UP {
            if let Some(delay) = spec.receive_delay {
                let opens = self.free + delay;
                self.windows.push_back(opens);
                self.listens = opens + RX2_AFTER;
            }
            // A share d of time on air: the silence after a frame of `takes` is takes x (1 - d) / d.
            let silence = u128::from(takes.as_micros()) * u128::from(1_000_000 - spec.duty_ppm);
            let silence = silence / u128::from(spec.duty_ppm.max(1));
            self.silent = self.free + Duration::from_micros(silence as u64);
            self.sent += takes;
        }
        self.free
    }
}

/// Sizes of the frames that carry this many bytes.
pub(super) fn frames(bytes: u32, size: u32) -> Vec<u32> {
    let mut frames = vec![size; (bytes / size) as usize];
    let rest = bytes % size;
    frames.extend((rest > 0).then_some(rest));
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::DOWN;

    const RADIO: RadioSpec = RadioSpec {
        down_bps: 8_000,
        up_bps: 8_000,
        down_repetitions: 1,
        up_repetitions: 1,
        is_half_duplex: true,
        turnaround: Duration::ZERO,
    };

    const NO_ACK: FragmentSpec = FragmentSpec {
        bytes: 40,
        header_bytes: 10,
        loss: Probability::NEVER,
        acknowledged: None,
        session: None,
        rounds: 4,
        duty_ppm: 1_000_000,
        receive_delay: None,
    };

    fn ms(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_packet_takes_all_its_frames_with_their_headers() {
        let mut device = Fragmenter::new(1, 0);
        // 100 B are frames of 50, 50 and 30 B; 1 B is a millisecond.
        let up = device.arrival(&NO_ACK, &RADIO, UP, ms(5), 100);
        assert_eq!(up, Some(ms(135)));
        let down = device.arrival(&NO_ACK, &RADIO, DOWN, ms(100), 40);
        assert_eq!(down, Some(ms(185)));
    }

    #[test]
    fn a_lost_frame_loses_the_packet_without_acknowledgements() {
        let spec = FragmentSpec {
            loss: Probability::ppm(100_000),
            ..NO_ACK
        };
        let mut device = Fragmenter::new(1, 0);
        let arrived = (0..20_000)
            .filter(|k| {
                device
                    .arrival(&spec, &RADIO, UP, ms(k * 1_000), 200)
                    .is_some()
            })
            .count();
        // Five frames: 0.9^5 of packets arrive; standard deviation 70.
        let expected = 20_000.0 * 0.9_f64.powi(5);
        assert!((arrived as f64 - expected).abs() < 300.0, "{arrived}");
    }

    #[test]
    fn lost_frames_cost_a_round_with_acknowledgements() {
        let spec = FragmentSpec {
            loss: Probability::ppm(200_000),
            acknowledged: Some(Duration::from_secs(2)),
            rounds: 20,
            ..NO_ACK
        };
        let mut device = Fragmenter::new(1, 0);
        let (mut time, mut frames) = (0.0, 0.0);
        for k in 0..20_000_u64 {
            let (from, before) = (ms(k * 100_000), device.sent);
            let arrives = device
                .arrival(&spec, &RADIO, UP, from, 80)
                .expect("20 rounds");
            time += arrives.since(from).as_micros() as f64 / 1e6;
            frames += device.sent.saturating_sub(before).as_micros() as f64 / 50e3;
        }
        // Two frames, each sent 1 / (1 - p) times; rounds are the larger of two geometric numbers: 2 / (1 - p) - 1 / (1 - p^2).
        let rounds = 2.0 / 0.8 - 1.0 / 0.96;
        let expected = 2.5 * 0.05 + (rounds - 1.0) * 2.0;
        assert!((frames / 20_000.0 - 2.5).abs() < 0.02, "{frames}");
        assert!(
            (time / 20_000.0 - expected).abs() < 0.02,
            "{time} {expected}"
        );
    }

    #[test]
    fn a_duty_cycle_is_the_share_of_time_on_air() {
        let spec = FragmentSpec {
            duty_ppm: 10_000,
            ..NO_ACK
        };
        let mut device = Fragmenter::new(1, 0);
        let mut last = Instant::ZERO;
        for _ in 0..1_000 {
            last = device
                .arrival(&spec, &RADIO, UP, Instant::ZERO, 40)
                .expect("no loss");
        }
        // A frame of 50 ms, then 4.95 s of silence.
        assert_eq!(last, ms(999 * 5_000 + 50));
        // Frames to the device do not wait for the end of its silence.
        let down = device.arrival(&spec, &RADIO, DOWN, last, 40);
        assert_eq!(down, Some(last + Duration::from_millis(50)));
    }

    const SESSION: FragmentSpec = FragmentSpec {
        loss: Probability::ppm(200_000),
        acknowledged: Some(Duration::from_secs(2)),
        session: Some(SessionSpec {
            window_bytes: 160,
            ack_loss: Probability::ppm(100_000),
            timer: Duration::from_secs(5),
        }),
        rounds: 100,
        ..NO_ACK
    };

    /// Means of 20,000 packets: seconds until the device knows the end, and frames on air.
    fn session(spec: &FragmentSpec, bytes: u32) -> (f64, f64) {
        let mut device = Fragmenter::new(1, 0);
        let (mut time, mut begins) = (0.0, 0);
        for _ in 0..20_000 {
            let from = ms(begins);
            device.arrival(spec, &RADIO, UP, from, bytes);
            time += device.ended.since(from).as_micros() as f64 / 1e6;
            begins = device.ended.as_micros() / 1_000 + 1;
        }
        (time / 20e3, device.sent.as_micros() as f64 / 1e6 / 20e3)
    }

    /// Mean time of a window of `n` frames of 50 ms, time on air apart; rounds of data, requests in vain, and seconds.
    ///
    /// A frame is received in a geometric number of rounds, so the window takes D = max of n of them, each with an
    /// acknowledgement. A request fails if its frame (p) or the acknowledgement (q) is lost: (1 - s) / s times a round,
    /// s = (1 - p)(1 - q).
    fn expected(n: i32, p: f64, q: f64) -> (f64, f64, f64) {
        let rounds: f64 = (0..200).map(|k| 1.0 - (1.0 - p.powi(k)).powi(n)).sum();
        let success = (1.0 - p) * (1.0 - q);
        let failures = rounds * (1.0 - success) / success;
        (rounds, failures, rounds * 2.0 + failures * 5.0)
    }

    #[test]
    fn a_lost_acknowledgement_costs_a_timer_and_a_round() {
        // No frame is lost: requests in vain are q / (1 - q), and each costs the timer and a frame of headers.
        let spec = FragmentSpec {
            loss: Probability::NEVER,
            ..SESSION
        };
        let (time, air) = session(&spec, 160);
        let failures = 0.1 / 0.9;
        assert!((air - (0.2 + failures * 0.01)).abs() < 1e-3, "{air}");
        assert!(
            (time - (0.2 + 2.0 + failures * 5.01)).abs() < 0.04,
            "{time}"
        );
        // One in ten packets without the lost acknowledgement of the last: it arrives all the same.
        let mut device = Fragmenter::new(1, 0);
        let spec = FragmentSpec { rounds: 1, ..spec };
        assert_eq!(device.arrival(&spec, &RADIO, UP, ms(0), 160), Some(ms(200)));
    }

    #[test]
    fn a_window_takes_the_rounds_of_its_slowest_frame() {
        let (time, air) = session(&SESSION, 160);
        let (rounds, failures, waits) = expected(4, 0.2, 0.1);
        // Requests of their own: those in vain, and after data whose last frame was not the window's last.
        let requests = air - 4.0 / 0.8 * 0.05;
        let most = (failures + rounds - 1.0) * 0.01;
        assert!(
            requests > failures * 0.01 - 1e-3 && requests < most + 1e-3,
            "{requests}"
        );
        assert!((time - air - waits).abs() / waits < 0.01, "{time} {waits}");
    }

    #[test]
    fn every_window_waits_for_its_acknowledgement() {
        // 400 B in windows of 160 B are four, four and two frames.
        let (time, air) = session(&SESSION, 400);
        let waits: f64 = [4, 4, 2].map(|n| expected(n, 0.2, 0.1).2).iter().sum();
        assert!((time - air - waits).abs() / waits < 0.01, "{time} {waits}");
        // Without loss: three acknowledgements, and the arrival before the last of them.
        let spec = FragmentSpec {
            loss: Probability::NEVER,
            session: Some(SessionSpec {
                ack_loss: Probability::NEVER,
                ..SESSION.session.expect("set")
            }),
            ..SESSION
        };
        let mut device = Fragmenter::new(1, 0);
        let arrives = device.arrival(&spec, &RADIO, UP, ms(0), 400);
        assert_eq!((arrives, device.ended), (Some(ms(4_500)), ms(6_500)));
        // A packet of one frame is no fragment.
        assert_eq!(
            device.arrival(&spec, &RADIO, UP, ms(0), 40),
            Some(ms(6_550))
        );
        assert_eq!(device.ended, ms(6_550));
    }

    #[test]
    fn a_device_gives_up_after_the_requests_permitted() {
        let spec = FragmentSpec {
            rounds: 3,
            ..SESSION
        };
        let mut device = Fragmenter::new(1, 0);
        let lost = (0..20_000)
            .filter(|_| {
                device
                    .arrival(&spec, &RADIO, UP, device.ended, 80)
                    .is_none()
            })
            .count();
        // By the states of a window of two frames (first, last) before each of three requests; an acknowledgement moves
        // on only if the request and it arrive. The simulated share is held against the enumeration.
        let expected = 20_000.0 * lost_share(3, 0.2, 0.1);
        assert!((lost as f64 - expected).abs() < 200.0, "{lost} {expected}");
    }

    /// Share of packets of two frames that are not whole after this many requests, by enumeration.
    fn lost_share(requests: u32, p: f64, q: f64) -> f64 {
        // Missing frames as bits, and whether an acknowledgement brought the next round.
        fn left(requests: u32, missing: usize, resends: bool, p: f64, q: f64) -> f64 {
            if missing == 0 {
                return 0.0;
            }
            if requests == 0 {
                return 1.0;
            }
            let mut share = 0.0;
            for lost in 0..4_usize {
                let sent = if resends { missing } else { 0 };
                if lost & !sent != 0 {
                    continue;
                }
                let count = |bits: usize| bits.count_ones() as i32;
                let chance = p.powi(count(lost)) * (1.0 - p).powi(count(sent & !lost));
                let next = missing & !(sent & !lost);
                let request = if sent & 2 == 0 {
                    1.0 - p
                } else {
                    f64::from(u8::from(lost & 2 == 0))
                };
                let answered = request * (1.0 - q);
                share += chance
                    * (answered * left(requests - 1, next, true, p, q)
                        + (1.0 - answered) * left(requests - 1, next, false, p, q));
            }
            share
        }
        left(requests, 3, true, p, q)
    }
}
