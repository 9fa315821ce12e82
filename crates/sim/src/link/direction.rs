//! One direction of a link: a queue in front of a serial line, then delay and loss.

use std::collections::VecDeque;

use carob_cc::time::{Duration, Instant};

use super::discipline::{Fate, Queue};
use super::impairments::Impaired;
use super::loss::Loss;
use super::path_change::Course;
use super::trace::{Free, Player};
use super::{DirectionSpec, ExtraDelay, PACKETS_MAX};
use crate::random::Stream;

/// Directions of a link, as indices of pairs.
pub(crate) const DOWN: usize = 0;
/// Towards the servers.
pub(crate) const UP: usize = 1;

/// The fate of a packet offered to a [`Direction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered at the other end.
    Deliver {
        /// Arrival of its last bit.
        at: Instant,
        /// Departure of its last bit from the bottleneck.
        departed: Instant,
        /// True if the queue marked it (ECN, RFC 3168) instead of dropping it.
        marked: bool,
        /// True if a copy arrives right after it.
        duplicated: bool,
    },
    /// Dropped by the policer or the queue: the buffer was full, or its discipline decided so. The
    /// packet never used the link.
    DropFull,
    /// Lost after the bottleneck, or discarded for its checksum.
    Lost {
        /// Departure of its last bit from the bottleneck.
        departed: Instant,
    },
}

/// Changes of the path and impairments under way.
#[derive(Clone, Debug)]
struct Disturbances {
    course: Option<Course>,
    impaired: Option<Impaired>,
}

impl Disturbances {
    /// The disturbances of a direction; none if there are none.
    fn new(spec: &DirectionSpec, seed: u64, label: &str) -> Option<Box<Self>> {
        let course = Course::new(&spec.changes, seed, label);
        let impaired = Impaired::new(&spec.impairments, seed, label);
        (course.is_some() || impaired.is_some()).then(|| Box::new(Self { course, impaired }))
    }

    /// Changes of the path, if they change its rate.
    fn rates(&mut self) -> Option<&mut Course> {
        self.course.as_mut().filter(|course| course.changes_rate())
    }
}

/// Counters of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// Packets offered.
    pub offered: u64,
    /// Packets dropped by a full buffer.
    pub dropped_full: u64,
    /// Packets dropped by the queue's discipline before the buffer was full.
    pub dropped_early: u64,
    /// Packets marked by the discipline.
    pub marked: u64,
    /// Packets lost after the bottleneck.
    pub lost: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Bytes that used the link: delivered or lost after the bottleneck.
    pub bytes_sent: u64,
    /// The peak of the buffer, in bytes.
    pub queue_bytes_peak: u64,
    /// Packets dropped by the policer.
    pub policed: u64,
    /// Packets that arrived damaged and were discarded.
    pub corrupted: u64,
    /// Packets delivered late, so that later ones may overtake them.
    pub reordered: u64,
    /// Copies of packets delivered.
    pub duplicated: u64,
}

/// One direction of a link.
///
/// Queueing is computed, not simulated: a FIFO served at a constant rate, or at a trace's,
/// determines a packet's departure when the packet is accepted. Cost is O(1) amortised per packet
/// without a trace.
#[derive(Clone, Debug)]
pub struct Direction {
    spec: DirectionSpec,
    /// Departure and size of every accepted packet that may still be in the buffer.
    waiting: VecDeque<(Instant, u32)>,
    waiting_bytes: u64,
    /// The line is busy until `free.at + free.rest / rate` microseconds. The rest keeps long
    /// sequences of packets exact: no rounding error accumulates while the line stays busy.
    free: Free,
    latest_arrival: Instant,
    queue: Queue,
    loss: Loss,
    extra: Stream,
    player: Option<Player>,
    /// Behind one pointer, so that a packet of an undisturbed direction pays for one check.
    disturbances: Option<Box<Disturbances>>,
    counters: Counters,
}

impl Direction {
    /// Creates an idle direction, with streams `<label>/loss`, `<label>/loss-state`,
    /// `<label>/extra`.
    ///
    /// # Panics
    ///
    /// If the rate is 0, the buffer holds more than [`PACKETS_MAX`] packets, its discipline has
    /// thresholds out of order or no averaging period, or the loss process, a change or an impairment
    /// cannot exist ([`LossSpec::check`](super::LossSpec::check),
    /// [`PathChange::check`](super::PathChange::check),
    /// [`Impairments::check`](super::Impairments::check)).
    pub fn new(spec: &DirectionSpec, seed: u64, label: &str) -> Self {
        assert!(spec.rate_bps > 0, "a link has a rate");
        assert!(
            spec.buffer.packets <= PACKETS_MAX,
            "a buffer holds at most PACKETS_MAX packets"
        );
        Self {
            spec: spec.clone(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free: Free::default(),
            latest_arrival: Instant::ZERO,
            queue: Queue::new(&spec.buffer.discipline),
            loss: Loss::new(&spec.loss, seed, label),
            extra: Stream::new(seed, &format!("{label}/extra")),
            player: spec
                .replay
                .as_ref()
                .map(|replay| Player::new(replay, spec.rate_bps, seed)),
            disturbances: Disturbances::new(spec, seed, label),
            counters: Counters::default(),
        }
    }

    /// Offers a packet of `bytes`, headers included, and returns its fate.
    ///
    /// Times of offers must not decrease. Times are rounded down to the microsecond.
    pub fn offer(&mut self, now: Instant, bytes: u32) -> Verdict {
        self.offer_packet(now, bytes, false)
    }

    /// The same for a packet that may be marked instead of dropped, if `ecn_capable`.
    pub fn offer_packet(&mut self, now: Instant, bytes: u32, ecn_capable: bool) -> Verdict {
        self.counters.offered += 1;
        if self.disturbances.is_some() && !self.admits(now, bytes) {
            self.counters.policed += 1;
            return Verdict::DropFull;
        }
        self.release(now);
        let queued = self.waiting_bytes + u64::from(bytes);
        if queued > self.spec.buffer.bytes
            || self.waiting.len() >= self.spec.buffer.packets as usize
        {
            self.counters.dropped_full += 1;
            return Verdict::DropFull;
        }
        // After the limit of the buffer: CoDel acts on packets that the buffer has accepted (RFC 8289 5).
        let fate = self.judge(now, ecn_capable);
        if fate == Fate::Drop {
            self.counters.dropped_early += 1;
            // It occupies the buffer until it reaches the head.
            self.waiting.push_back((now.max(self.free.at), bytes));
            self.waiting_bytes = queued;
            self.counters.queue_bytes_peak = self.counters.queue_bytes_peak.max(queued);
            return Verdict::DropFull;
        }
        let marked = fate == Fate::Mark;
        self.counters.marked += u64::from(marked);
        let departed = self.serialise(now, bytes);
        self.waiting.push_back((departed, bytes));
        self.waiting_bytes = queued;
        self.counters.queue_bytes_peak = self.counters.queue_bytes_peak.max(queued);
        self.counters.bytes_sent += u64::from(bytes);

        if self.disturbances.is_some() {
            return self.cross_disturbed(departed, bytes, marked);
        }
        let (delay, extra, is_lost) = self.cross(departed);
        if is_lost {
            self.counters.lost += 1;
            return Verdict::Lost { departed };
        }
        self.counters.delivered += 1;
        // In order: random delay alone does not reorder packets of one path; `Reordering` does.
        let at = (departed + delay + extra).max(self.latest_arrival);
        self.latest_arrival = at;
        Verdict::Deliver {
            at,
            departed,
            marked,
            duplicated: false,
        }
    }

    /// Propagation delay, extra delay and loss of a packet on an undisturbed path.
    #[expect(
        clippy::inline_always,
        reason = "a call for each packet costs half a percent of a run"
    )]
    #[inline(always)]
    fn cross(&mut self, departed: Instant) -> (Duration, Duration, bool) {
        // Drawn for lost packets too, so that delays stay paired when losses differ.
        let extra = match self.spec.extra {
            ExtraDelay::Constant(extra) => extra,
            ExtraDelay::Uniform { low, high } => self.extra.uniform(low, high),
            ExtraDelay::Drawn(from) => from.draw(&mut self.extra),
        };
        let row = self.player.as_ref().and_then(|player| player.row(departed));
        let (delay, loss) = row.map_or((None, None), |row| (row.delay, row.loss));
        let is_lost = match loss {
            Some(ratio) => self.loss.takes_of(ratio),
            None => self.loss.takes(departed),
        };
        (delay.unwrap_or(self.spec.delay), extra, is_lost)
    }

    /// Returns whether a policer, if there is one, passes a packet.
    #[cold]
    fn admits(&mut self, now: Instant, bytes: u32) -> bool {
        let impaired = self.disturbances.as_mut().and_then(|d| d.impaired.as_mut());
        impaired.is_none_or(|impaired| impaired.admits(now, bytes))
    }

    /// The fate of a packet after the bottleneck, with changes of the path and impairments.
    #[cold]
    fn cross_disturbed(&mut self, departed: Instant, bytes: u32, marked: bool) -> Verdict {
        let (mut delay, extra, mut is_lost) = self.cross(departed);
        let (mut is_corrupted, mut duplicated, mut late) = (false, false, None);
        if let Some(Disturbances { course, impaired }) = self.disturbances.as_deref_mut() {
            if let Some(course) = course {
                is_lost = course.takes(departed, is_lost);
                delay = course.delay(departed, delay);
            }
            if let Some(impaired) = impaired {
                is_corrupted = impaired.corrupts();
                duplicated = impaired.duplicates();
                late = impaired.lateness();
                is_lost |= impaired.has_bit_error(bytes);
            }
        }
        if is_lost {
            self.counters.lost += 1;
            return Verdict::Lost { departed };
        }
        let at = (departed + delay + extra).max(self.latest_arrival);
        self.latest_arrival = at;
        // It arrives, so later packets cannot overtake it, and then fails its checksum.
        if is_corrupted {
            self.counters.corrupted += 1;
            return Verdict::Lost { departed };
        }
        self.counters.delivered += 1;
        self.counters.duplicated += u64::from(duplicated);
        self.counters.reordered += u64::from(late.is_some());
        Verdict::Deliver {
            // Added after `latest_arrival` was set, so that packets behind this one overtake it.
            at: at + late.unwrap_or_default(),
            departed,
            marked,
            duplicated,
        }
    }

    /// Bytes in the buffer at `now`, the packet in service included.
    pub fn queue_bytes(&mut self, now: Instant) -> u64 {
        self.release(now);
        self.waiting_bytes
    }

    /// Packets in the buffer at `now`, the packet in service included.
    pub fn queue_packets(&mut self, now: Instant) -> usize {
        self.release(now);
        self.waiting.len()
    }

    /// The time until a packet of `bytes` offered at `now` leaves the bottleneck.
    pub fn backlog(&self, now: Instant, bytes: u32) -> Duration {
        // On a copy: the windows of a change only move forwards, and this packet may never be offered.
        let mut changed = self.disturbances.clone();
        let free = match changed.as_mut().and_then(|changed| changed.rates()) {
            Some(course) => course.departure(self.spec.rate_bps, self.free, now, bytes),
            None => self.departure(now, bytes),
        };
        free.at.since(now)
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Resets the counters.
    pub fn forget_counters(&mut self) {
        self.counters = Counters {
            // Packets of the warm-up still occupy the buffer.
            queue_bytes_peak: self.waiting_bytes,
            ..Counters::default()
        };
    }

    /// The specification.
    pub fn spec(&self) -> &DirectionSpec {
        &self.spec
    }

    /// The discipline's decision about a packet that the buffer has room for.
    fn judge(&mut self, now: Instant, ecn_capable: bool) -> Fate {
        match &mut self.queue {
            Queue::DropTail => Fate::Pass,
            Queue::CoDel(codel) => {
                let head = now.max(self.free.at);
                codel.at_head(head, head.since(now), self.waiting_bytes, ecn_capable)
            }
        }
    }

    /// Removes packets that have left; one that departs exactly at `now` has.
    fn release(&mut self, now: Instant) {
        while let Some(&(departed, bytes)) = self.waiting.front() {
            if departed > now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(bytes);
        }
    }

    fn departure(&self, now: Instant, bytes: u32) -> Free {
        if let Some(player) = self.player.as_ref().filter(|player| player.has_rate()) {
            return player.departure(self.free, now, bytes);
        }
        // `free.at` is rounded down: at `now == free.at` a fraction of a microsecond of service
        // may remain and is carried on.
        let (start, rest) = if now > self.free.at {
            (now, 0)
        } else {
            (self.free.at, self.free.rest)
        };
        let rate = u128::from(self.spec.rate_bps);
        let work = u128::from(bytes) * 8_000_000 + u128::from(rest);
        let micros = u64::try_from(work / rate).unwrap_or(u64::MAX);
        Free {
            at: start + Duration::from_micros(micros),
            rest: (work % rate) as u64,
            opportunity: 0,
        }
    }

    fn serialise(&mut self, now: Instant, bytes: u32) -> Instant {
        let rates = self.disturbances.as_mut().and_then(|d| d.rates());
        self.free = match rates {
            Some(course) => course.departure(self.spec.rate_bps, self.free, now, bytes),
            None => self.departure(now, bytes),
        };
        self.free.at
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Buffer, CoDelSpec, Discipline, Link, LinkSpec, LossSpec, profile};
    use super::*;
    use crate::random::Probability;

    fn us(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    /// The thesis's downlink: 30 kbit/s, 400 ms, 15 ms extra.
    fn downlink(buffer: u64) -> DirectionSpec {
        DirectionSpec {
            delay: Duration::from_millis(400),
            extra: ExtraDelay::Constant(Duration::from_millis(15)),
            ..DirectionSpec::new(30_000, buffer)
        }
    }

    #[test]
    fn thesis_response_is_serialised_in_31_65_s() {
        // 401 packets of 296 B at 30 kbit/s: 949568 bits / 30000 = 31.652266... s.
        let mut line = Direction::new(&downlink(1_410_000), 1, "d");
        let mut last = Instant::ZERO;
        for _ in 0..401 {
            match line.offer(Instant::ZERO, 296) {
                Verdict::Deliver { departed, .. } => last = departed,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(last, us(31_652_266));
    }

    #[test]
    fn one_packet_takes_serialisation_and_delays() {
        let mut line = Direction::new(&downlink(2_500), 1, "d");
        let verdict = line.offer(us(1_000), 296);
        // 78,933.3 us on the line, then 415 ms.
        assert_eq!(
            verdict,
            Verdict::Deliver {
                at: us(494_933),
                departed: us(79_933),
                marked: false,
                duplicated: false,
            }
        );
    }

    #[test]
    fn packets_offered_back_to_back_lose_no_fraction() {
        // Each packet needs 78,933 1/3 us; every third ends on a whole microsecond.
        let mut line = Direction::new(&downlink(2_500), 1, "d");
        let mut now = Instant::ZERO;
        for _ in 0..300 {
            let Verdict::Deliver { departed, .. } = line.offer(now, 296) else {
                panic!()
            };
            now = departed;
        }
        assert_eq!(now, us(23_680_000));
    }

    #[test]
    fn an_idle_line_starts_afresh() {
        let mut line = Direction::new(&downlink(2_500), 1, "d");
        line.offer(Instant::ZERO, 296);
        let Verdict::Deliver { departed, .. } = line.offer(us(78_934), 296) else {
            panic!()
        };
        assert_eq!(departed, us(78_934 + 78_933));
    }

    #[test]
    fn buffer_passes_at_its_limit_and_drops_one_byte_beyond() {
        let mut line = Direction::new(&downlink(2_500), 1, "d");
        for _ in 0..8 {
            assert!(matches!(
                line.offer(Instant::ZERO, 296),
                Verdict::Deliver { .. }
            ));
        }
        assert_eq!(line.queue_bytes(Instant::ZERO), 2_368);
        assert_eq!(line.offer(Instant::ZERO, 133), Verdict::DropFull);
        assert!(matches!(
            line.offer(Instant::ZERO, 132),
            Verdict::Deliver { .. }
        ));
        assert_eq!(line.queue_bytes(Instant::ZERO), 2_500);
        assert_eq!(line.counters().queue_bytes_peak, 2_500);
    }

    #[test]
    fn packet_in_service_occupies_the_buffer() {
        let mut line = Direction::new(&downlink(296), 1, "d");
        assert!(matches!(
            line.offer(Instant::ZERO, 296),
            Verdict::Deliver { .. }
        ));
        assert_eq!(line.offer(us(78_932), 296), Verdict::DropFull);
        assert!(matches!(
            line.offer(us(78_933), 296),
            Verdict::Deliver { .. }
        ));
    }

    #[test]
    fn packet_limit_counts_packets() {
        let spec = DirectionSpec {
            buffer: Buffer::packets(2),
            ..downlink(0)
        };
        let mut line = Direction::new(&spec, 1, "d");
        assert!(matches!(
            line.offer(Instant::ZERO, 1_500),
            Verdict::Deliver { .. }
        ));
        assert!(matches!(
            line.offer(Instant::ZERO, 1),
            Verdict::Deliver { .. }
        ));
        assert_eq!(line.offer(Instant::ZERO, 1), Verdict::DropFull);
        assert_eq!(line.queue_packets(Instant::ZERO), 2);
    }

    #[test]
    fn stop_and_wait_transfer_takes_the_derived_time() {
        // 400 x (0.6 s + 0.03 s + 294 B at 30 kbit/s + 42 B at 60 kbit/s) = 285.6 s.
        let spec = LinkSpec {
            down: downlink(2_500),
            up: DirectionSpec {
                delay: Duration::from_millis(200),
                extra: ExtraDelay::Constant(Duration::from_millis(15)),
                ..DirectionSpec::new(60_000, 2_500)
            },
        };
        let mut link = Link::new(&spec, 1, "link");
        let mut now = Instant::ZERO;
        for _ in 0..400 {
            let Verdict::Deliver { at, .. } = link.up.offer(now, 42) else {
                panic!()
            };
            let Verdict::Deliver { at, .. } = link.down.offer(at, 294) else {
                panic!()
            };
            now = at;
        }
        assert_eq!(now, us(285_600_000));
    }

    #[test]
    fn random_delay_never_reorders() {
        let spec = DirectionSpec {
            extra: ExtraDelay::Uniform {
                low: Duration::from_millis(10),
                high: Duration::from_millis(200),
            },
            loss: LossSpec::Constant(Probability::ppm(100_000)),
            ..DirectionSpec::new(1_000_000, 10_000)
        };
        for seed in 0..50 {
            let mut line = Direction::new(&spec, seed, "d");
            let mut gaps = Stream::new(seed, "gaps");
            let (mut now, mut latest, mut late) = (Instant::ZERO, Instant::ZERO, 0);
            for _ in 0..2_000 {
                now += gaps.uniform(Duration::ZERO, Duration::from_millis(8));
                if let Verdict::Deliver { at, departed, .. } = line.offer(now, 500) {
                    assert!(at >= latest, "seed {seed}");
                    assert!(at >= departed + Duration::from_millis(10));
                    late += u32::from(at == latest);
                    latest = at;
                }
            }
            assert!(late > 100, "overtaking was never at stake: {late}");
        }
    }

    #[test]
    fn losses_depend_on_the_packet_not_on_timing() {
        let loss = profile("high").expect("a profile").per_packet(1_400);
        let run = |gap: u64| -> Vec<bool> {
            let spec = DirectionSpec {
                loss,
                ..downlink(1_410_000)
            };
            let mut line = Direction::new(&spec, 9, "d");
            (0..1_000)
                .map(|k| matches!(line.offer(us(k * gap), 296), Verdict::Lost { .. }))
                .collect()
        };
        assert_eq!(run(0), run(1_000_000));
    }

    #[test]
    fn directions_lose_independently() {
        let direction = DirectionSpec {
            loss: profile("medium").expect("a profile").per_packet(1_400),
            ..downlink(1_410_000)
        };
        let mut link = Link::new(
            &LinkSpec {
                down: direction.clone(),
                up: direction,
            },
            1,
            "link",
        );
        let (mut both, mut down, mut up) = (0, 0, 0);
        for _ in 0..20_000 {
            let d = matches!(link.down.offer(Instant::ZERO, 1), Verdict::Lost { .. });
            let u = matches!(link.up.offer(Instant::ZERO, 1), Verdict::Lost { .. });
            down += i32::from(d);
            up += i32::from(u);
            both += i32::from(d && u);
        }
        // 10 % each, 1 % both if independent: 200 with sd about 14.
        assert!((1_800..2_200).contains(&down) && (1_800..2_200).contains(&up));
        assert!((130..270).contains(&both), "{both}");
    }

    #[test]
    fn counters_add_up() {
        let spec = DirectionSpec {
            loss: LossSpec::Constant(Probability::ppm(300_000)),
            ..downlink(2_500)
        };
        let mut line = Direction::new(&spec, 1, "d");
        (0..1_000).for_each(|k| {
            line.offer(us(k * 40_000), 296);
        });
        let c = line.counters();
        assert_eq!(c.offered, c.dropped_full + c.lost + c.delivered);
        assert_eq!(c.bytes_sent, 296 * (c.lost + c.delivered));
        assert!(c.dropped_full > 0 && c.lost > 0);
    }

    /// Offers a packet every 20 ms, a load of four, for a minute. Returns the queueing delays of
    /// those delivered.
    fn overload(discipline: Discipline, ecn: bool) -> (Counters, Vec<Duration>) {
        let mut spec = DirectionSpec::new(30_000, 1_410_000);
        spec.buffer = spec.buffer.with(discipline);
        let mut line = Direction::new(&spec, 1, "d");
        let mut waits = Vec::new();
        for k in 0..3_000 {
            let now = us(k * 20_000);
            if let Verdict::Deliver { departed, .. } = line.offer_packet(now, 296, ecn) {
                waits.push(departed.since(now));
            }
        }
        (line.counters(), waits)
    }

    #[test]
    fn codel_shortens_standing_queue_at_full_utilisation() {
        let codel = Discipline::CoDel(CoDelSpec {
            target: Duration::from_millis(80),
            interval: Duration::from_millis(700),
            mtu_bytes: 296,
            ecn: true,
        });
        let (full, long) = overload(Discipline::DropTail, false);
        assert_eq!((full.dropped_early, full.marked), (0, 0));
        let (counters, waits) = overload(codel, false);
        assert!(counters.dropped_early > 100, "{counters:?}");
        assert!(waits.last() < long.last());
        // The line is always busy: 60 s at 30 kbit/s, and the remaining queue.
        assert!(counters.bytes_sent > 225_000, "{counters:?}");
        let (counters, waits) = overload(codel, true);
        assert!(counters.marked > 10 && waits.len() as u64 == counters.delivered);
    }

    #[test]
    fn packet_dropped_by_codel_occupies_the_buffer_until_the_head() {
        let mut spec = DirectionSpec::new(30_000, 1_410_000);
        spec.buffer = spec.buffer.with(Discipline::CoDel(CoDelSpec {
            target: Duration::from_micros(1),
            interval: Duration::from_micros(1),
            mtu_bytes: 1,
            ecn: false,
        }));
        let mut line = Direction::new(&spec, 1, "d");
        let verdicts: Vec<bool> = (0..4)
            .map(|_| line.offer(Instant::ZERO, 296) == Verdict::DropFull)
            .collect();
        // The first does not wait, the second begins the interval, the third is dropped on
        // entering, the fourth passes; the line serves it from where the third would be.
        assert_eq!(verdicts, [false, false, true, false]);
        assert_eq!(line.queue_packets(us(157_865)), 3);
        assert_eq!(line.queue_packets(us(157_866)), 1);
        assert_eq!(line.queue_packets(us(236_800)), 0);
    }
}
