//! SCHC fragments of a device under a duty cycle, as over LoRaWAN (RFC 8724 8, RFC 9011).

use carob_cc::time::{Duration, Instant};

use super::device_radio::RadioSpec;
use crate::engine::UP;
use crate::random::{Probability, Stream};

/// Fragments of a device's packets. Frames take turns on its one radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Rounds of a packet at most (MAX_ACK_REQUESTS).
    pub rounds: u32,
    /// Share of time that the device may send, in parts per million; above 0. After a frame it is silent in proportion.
    pub duty_ppm: u32,
}

/// The radio of a device that sends fragments.
#[derive(Clone, Debug)]
pub(super) struct Fragmenter {
    stream: Stream,
    /// End of the last frame of either direction.
    free: Instant,
    /// End of the silence after the last frame of the device.
    silent: Instant,
    /// Time on air of its frames.
    pub(super) sent: Duration,
}

impl Fragmenter {
    pub(super) fn new(seed: u64, device: u32) -> Self {
        Self {
            stream: Stream::indexed(seed, "link/fragments", device),
            free: Instant::ZERO,
            silent: Instant::ZERO,
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
        let whole = bytes / spec.bytes;
        let rest = bytes % spec.bytes;
        let mut frames: Vec<u32> = vec![spec.bytes; whole as usize];
        frames.extend((rest > 0).then_some(rest));
        let mut from = earliest;
        for _ in 0..spec.rounds.max(1) {
            let mut missing = Vec::new();
            for frame in frames {
                let ends = self.send(spec, radio, direction, from, frame);
                if self.stream.happens(spec.loss) {
                    missing.push(frame);
                }
                from = ends;
            }
            if missing.is_empty() {
                return Some(from);
            }
            from += spec.acknowledged?;
            frames = missing;
        }
        None
    }

    /// Puts a frame on the air. Returns its end.
    fn send(
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
            begins = begins.max(self.silent);
        }
        self.free = begins + takes;
        if direction == UP {
            let silence = u128::from(takes.as_micros()) * u128::from(1_000_000 - spec.duty_ppm);
            let silence = silence / u128::from(spec.duty_ppm.max(1));
            self.silent = self.free + Duration::from_micros(silence as u64);
            self.sent += takes;
        }
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::DOWN;

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
        rounds: 4,
        duty_ppm: 1_000_000,
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
}
