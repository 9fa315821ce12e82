//! Signals on the medium: those that overlap at a node destroy each other.
//!
//! The model is Cooja's unit disk graph medium. A node locks on a frame if it is silent and senses
//! no other signal as the frame begins. Any signal that begins before the end destroys the frame,
//! unless the radio has [`Capture`]. Each node has a count of signals and at most one locked frame, so a
//! transmission costs O(neighbours of the sender).

use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};
use carob_sim_core::random::Stream;

use super::capture::Capture;
use super::links::Curve;
use super::links::{Ground, Links};
use super::noise::Noise;
use crate::Node;
use crate::record::MacCounters;
use crate::spec::{CcaRange, Delivery, RadioSpec};

/// In place of a node: all nodes as a destination, and none as a sender.
pub(super) const BROADCAST: Node = Node::MAX;
const NOBODY: Node = Node::MAX;

/// A receiver detects a frame (SFD) after four bytes of preamble and one of delimiter.
const SFD_AFTER: Duration = Duration::from_micros(5 * 32);

/// A node's current transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    /// The destination.
    pub(super) to: Node,
    /// Its end.
    pub(super) until: Instant,
    /// Sequence number.
    pub(super) number: u8,
    /// True for an acknowledgement, false for a data frame.
    pub(super) acknowledges: bool,
}

/// The state of a node's receiver.
#[derive(Clone, Copy, Debug)]
struct Receiver {
    /// The start of the current period with at least one sensed signal.
    occupied_since: Instant,
    /// The end of the last sensed signal.
    sensed_until: Instant,
    /// The SFD time of the last locked frame.
    sfd_from: Instant,
    /// The apparent end of that frame. A frame destroyed halfway appears to last its announced
    /// length.
    sfd_until: Instant,
    /// Signals present.
    signals: u16,
    /// Signals present that CCA senses.
    sensed: u16,
    /// The sender of the frame being received.
    lock: Node,
    /// Cooja's flag, cleared by the end of any signal.
    interfered: bool,
    /// True while the node itself transmits.
    sends: bool,
}

/// The delivery ratio of frames without collision.
#[derive(Clone, Debug)]
enum Ratio {
    Perfect,
    /// By link.
    Linked,
    /// By transmission.
    Drawn(Curve),
}

/// The shared medium.
#[derive(Clone, Debug)]
pub(super) struct Medium {
    links: Links,
    receivers: Vec<Receiver>,
    /// The last signal of each node.
    signals: Vec<Signal>,
    ratio: Ratio,
    ratios: Stream,
    losses: Stream,
    noise: Option<Noise>,
    capture: Option<Box<Capture>>,
    clear_on_first_end: bool,
    /// Weights in the count of sensed signals: those from receivers' links, and interfering ones.
    senses: [u16; 2],
    cca_delay: Duration,
    cca_window: Duration,
    sfd_sense: bool,
}

impl Medium {
    /// Creates the medium. Random streams: `"mesh/radio/ratio"` for ratios drawn by transmission,
    /// `"mesh/radio/loss"` for losses, and the streams of interference and capture.
    pub(super) fn new(ground: &Ground<'_>, radio: &RadioSpec, seed: u64) -> Self {
        let links = Links::new(ground, radio);
        let nodes = links.nodes();
        let receiver = Receiver {
            occupied_since: Instant::ZERO,
            sensed_until: Instant::ZERO,
            sfd_from: Instant::ZERO,
            sfd_until: Instant::ZERO,
            signals: 0,
            sensed: 0,
            lock: NOBODY,
            interfered: false,
            sends: false,
        };
        let silence = Signal {
            to: NOBODY,
            until: Instant::ZERO,
            number: 0,
            acknowledges: false,
        };
        Self {
            receivers: vec![receiver; nodes],
            capture: Capture::new(ground, &links, radio, seed),
            signals: vec![silence; nodes],
            links,
            ratio: match &radio.delivery {
                Delivery::Perfect => Ratio::Perfect,
                Delivery::Drawn(points) => Ratio::Drawn(Curve::new(points)),
                Delivery::Fixed(_) | Delivery::ByDistance(_) | Delivery::Table => Ratio::Linked,
            },
            ratios: Stream::new(seed, "mesh/radio/ratio"),
            losses: Stream::new(seed, "mesh/radio/loss"),
            noise: radio
                .interference
                .filter(|spec| Stream::new(seed, "mesh/radio/noise-run").happens(spec.runs))
                .map(|spec| Noise::new(&spec, nodes, ground.regions, seed)),
            clear_on_first_end: radio.clear_on_first_end,
            senses: match radio.cca_range {
                CcaRange::Interference => [1, 1],
                CcaRange::Transmission => [1, 0],
                CcaRange::Nothing => [0, 0],
            },
            cca_delay: radio.cca_delay,
            cca_window: radio.cca_window,
            sfd_sense: radio.sfd_sense,
        }
    }

    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// Returns whether a node is transmitting.
    pub(super) fn sends(&self, node: Node) -> bool {
        self.receivers[usize::from(node)].sends
    }

    /// The frame that a node is receiving.
    pub(super) fn receiving(&self, node: Node) -> Option<&Signal> {
        let lock = self.receivers[usize::from(node)].lock;
        self.signals.get(usize::from(lock))
    }

    /// Performs a CCA. The channel is busy if signals were sensed without a break for the delay of
    /// assessments, or one ended within their window, the node has locked on a frame, or there is
    /// interference.
    pub(super) fn is_busy(&mut self, now: Instant, node: Node) -> bool {
        let receiver = &self.receivers[usize::from(node)];
        let sensed = receiver.sensed > 0 && now.since(receiver.occupied_since) >= self.cca_delay;
        let ended = receiver.sensed == 0
            && !self.cca_window.is_zero()
            && now < receiver.sensed_until + self.cca_window;
        let sensed = sensed || ended;
        let locked = self.sfd_sense && receiver.sfd_from <= now && now < receiver.sfd_until;
        // The noise is queried in any case, so that its draws stay paired.
        let noise = self.noise.as_mut();
        noise.is_some_and(|noise| noise.is_sensed(now, node)) || sensed || locked
    }

    /// Begins a signal. The sender must not be transmitting.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        from: Node,
        signal: Signal,
        counters: &mut [MacCounters],
    ) {
        let sender = usize::from(from);
        self.signals[sender] = signal;
        self.receivers[sender].sends = true;
        self.receivers[sender].destroy(now, from, &self.signals, counters);
        let drawn = match &self.ratio {
            Ratio::Drawn(curve) => Some(curve.draw(&mut self.ratios)),
            Ratio::Perfect | Ratio::Linked => None,
        };
        if self.capture.is_some() {
            self.begin_with_capture(now, from, signal, drawn, counters);
            return;
        }
        let perfect = matches!(self.ratio, Ratio::Perfect);
        for link in self.links.receivers(from) {
            let place = usize::from(link.to);
            let receiver = &mut self.receivers[place];
            let meant = signal.is_data_for(link.to);
            let others = if self.clear_on_first_end {
                receiver.interfered || receiver.lock != NOBODY
            } else {
                receiver.signals > 0
            };
            receiver.add(now, self.senses[0], signal.until);
            // Half duplex: a node that transmits receives nothing.
            if receiver.sends || others {
                receiver.destroy(now, link.to, &self.signals, counters);
                counters[place].collisions += u64::from(meant);
                continue;
            }
            let ratio = drawn.unwrap_or_else(|| link.delivery.threshold());
            let noise = self.noise.as_mut();
            // Without a draw where every frame arrives: perfect links cost no random numbers.
            if (!perfect && u64::from(self.losses.next_u32()) >= ratio)
                || noise.is_some_and(|noise| noise.destroys(now, link.to))
            {
                receiver.interfered = true;
                counters[place].losses += u64::from(meant);
                continue;
            }
            receiver.lock = from;
            receiver.sfd_from = now + SFD_AFTER;
            receiver.sfd_until = signal.until;
        }
        for link in self.links.disturbed(from) {
            let receiver = &mut self.receivers[usize::from(link.to)];
            receiver.add(now, self.senses[1], signal.until);
            receiver.destroy(now, link.to, &self.signals, counters);
            receiver.interfered = true;
        }
    }

    /// Begins a signal where frames may survive others. `drawn` is the delivery ratio of this
    /// transmission, where each has one.
    #[cold]
    #[inline(never)]
    fn begin_with_capture(
        &mut self,
        now: Instant,
        from: Node,
        signal: Signal,
        drawn: Option<u64>,
        counters: &mut [MacCounters],
    ) {
        let Some(capture) = &mut self.capture else {
            return;
        };
        capture.unlock(from);
        let perfect = matches!(self.ratio, Ratio::Perfect);
        let mut place = self.links.first(from);
        for link in self.links.receivers(from) {
            let node = usize::from(link.to);
            let receiver = &mut self.receivers[node];
            let meant = u64::from(signal.is_data_for(link.to));
            receiver.add(now, self.senses[0], signal.until);
            let can_lock = capture.begin(now, link.to, place);
            place += 1;
            if receiver.sends || receiver.lock != NOBODY || !can_lock {
                counters[node].collisions += meant;
                continue;
            }
            let ratio = drawn.unwrap_or_else(|| link.delivery.threshold());
            let noise = self.noise.as_mut();
            if (!perfect && u64::from(self.losses.next_u32()) >= ratio)
                || noise.is_some_and(|noise| noise.destroys(now, link.to))
            {
                counters[node].losses += meant;
                continue;
            }
            capture.lock(now, link.to, place - 1);
            receiver.lock = from;
            receiver.sfd_from = now + SFD_AFTER;
            receiver.sfd_until = signal.until;
        }
        for link in self.links.disturbed(from) {
            self.receivers[usize::from(link.to)].add(now, self.senses[1], signal.until);
            capture.begin(now, link.to, place);
            place += 1;
        }
    }

    /// Returns whether no signal is present, and no receiver assumes one.
    #[cfg(test)]
    pub(super) fn is_silent(&self) -> bool {
        let silent = |receiver: &Receiver| {
            let quiet = (receiver.signals, receiver.sensed, receiver.lock) == (0, 0, NOBODY);
            quiet && !receiver.sends && !receiver.interfered
        };
        self.receivers.iter().all(silent)
    }

    /// Ends a node's signal. Returns it, and appends the nodes that received it intact.
    pub(super) fn end(
        &mut self,
        from: Node,
        counters: &mut [MacCounters],
        received: &mut Vec<Node>,
    ) -> Signal {
        if self.capture.is_some() {
            return self.end_with_capture(from, counters, received);
        }
        self.receivers[usize::from(from)].sends = false;
        for link in self.links.receivers(from) {
            let receiver = &mut self.receivers[usize::from(link.to)];
            receiver.remove(self.senses[0]);
            if receiver.lock == from {
                receiver.lock = NOBODY;
                received.push(link.to);
            }
        }
        for link in self.links.disturbed(from) {
            self.receivers[usize::from(link.to)].remove(self.senses[1]);
        }
        self.signals[usize::from(from)]
    }

    /// Ends a signal where frames may survive others.
    #[cold]
    #[inline(never)]
    fn end_with_capture(
        &mut self,
        from: Node,
        counters: &mut [MacCounters],
        received: &mut Vec<Node>,
    ) -> Signal {
        let signal = self.signals[usize::from(from)];
        self.receivers[usize::from(from)].sends = false;
        let Some(capture) = &mut self.capture else {
            return signal;
        };
        let mut place = self.links.first(from);
        for link in self.links.receivers(from) {
            let receiver = &mut self.receivers[usize::from(link.to)];
            receiver.remove(self.senses[0]);
            let is_locked = receiver.lock == from;
            let is_intact = capture.end(signal.until, link.to, place, is_locked);
            place += 1;
            if is_locked {
                receiver.lock = NOBODY;
                if is_intact {
                    received.push(link.to);
                } else {
                    let meant = signal.is_data_for(link.to);
                    counters[usize::from(link.to)].collisions += u64::from(meant);
                }
            }
        }
        for link in self.links.disturbed(from) {
            self.receivers[usize::from(link.to)].remove(self.senses[1]);
            capture.end(signal.until, link.to, place, false);
            place += 1;
        }
        signal
    }
}

impl Signal {
    /// Returns whether this is a data frame for this node.
    fn is_data_for(&self, node: Node) -> bool {
        !self.acknowledges && (self.to == node || self.to == BROADCAST)
    }
}

impl Receiver {
    fn add(&mut self, now: Instant, sensed: u16, until: Instant) {
        if sensed > 0 {
            self.sensed_until = self.sensed_until.max(until);
        }
        if self.sensed == 0 {
            self.occupied_since = now;
        }
        self.signals += 1;
        self.sensed += sensed;
    }

    fn remove(&mut self, sensed: u16) {
        self.signals -= 1;
        self.sensed -= sensed;
        self.interfered = false;
    }

    /// Destroys the frame that the node is receiving, if any.
    fn destroy(
        &mut self,
        now: Instant,
        node: Node,
        signals: &[Signal],
        counters: &mut [MacCounters],
    ) {
        let Some(signal) = signals.get(usize::from(self.lock)) else {
            return;
        };
        counters[usize::from(node)].collisions += u64::from(signal.is_data_for(node));
        self.lock = NOBODY;
        self.interfered = true;
        // Destroyed before its delimiter, the frame is never detected.
        if now < self.sfd_from {
            self.sfd_until = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE: i32 = 10_000;

    /// A medium for nodes in a row, with its counters.
    struct Row {
        medium: Medium,
        counters: Vec<MacCounters>,
    }

    impl Row {
        fn new(nodes: i32, radio: &RadioSpec) -> Self {
            let positions: Vec<_> = (0..nodes).map(|k| (k * EDGE, 0, 0)).collect();
            let ground = Ground {
                positions: &positions,
                regions: &[],
                table: None,
            };
            Self {
                medium: Medium::new(&ground, radio, 1),
                counters: vec![MacCounters::default(); positions.len()],
            }
        }

        /// Transmits from `from` to `to` between `at` and `until`, in microseconds.
        fn begin(&mut self, at: u64, from: Node, to: Node, until: u64) {
            let signal = Signal {
                to,
                until: Instant::from_micros(until),
                number: 0,
                acknowledges: false,
            };
            let now = Instant::from_micros(at);
            self.medium.begin(now, from, signal, &mut self.counters);
        }

        fn end(&mut self, from: Node) -> Vec<Node> {
            let mut received = Vec::new();
            self.medium.end(from, &mut self.counters, &mut received);
            received
        }

        fn is_busy(&mut self, at: u64, node: Node) -> bool {
            self.medium.is_busy(Instant::from_micros(at), node)
        }
    }

    fn radio() -> RadioSpec {
        RadioSpec {
            clear_on_first_end: false,
            ..RadioSpec::default()
        }
    }

    #[test]
    fn hidden_senders_destroy_each_other_in_the_middle() {
        let mut row = Row::new(3, &radio());
        row.begin(0, 0, 1, 1_000);
        row.begin(999, 2, 1, 1_999);
        assert!(row.end(0).is_empty());
        assert!(row.end(2).is_empty());
        assert_eq!(row.counters[1].collisions, 2);
        row.begin(2_000, 0, 1, 3_000);
        assert_eq!(row.end(0), [1]);
        row.begin(3_000, 2, 1, 4_000);
        assert_eq!(row.end(2), [1]);
        assert_eq!(row.counters[1].collisions, 2);
    }

    #[test]
    fn transmitting_node_receives_nothing() {
        let mut row = Row::new(2, &radio());
        row.begin(0, 0, 1, 1_000);
        row.begin(500, 1, 0, 1_500);
        assert!(row.end(0).is_empty());
        assert!(row.end(1).is_empty());
        assert_eq!(
            (row.counters[0].collisions, row.counters[1].collisions),
            (1, 1)
        );
    }

    #[test]
    fn a_frame_that_began_while_another_node_sent_stays_lost() {
        let mut row = Row::new(3, &radio());
        row.begin(0, 1, 2, 500);
        row.begin(400, 0, 1, 1_400);
        row.end(1);
        // Node 1 is silent again, but the rest of a frame it missed still occupies its receiver.
        row.begin(600, 2, 1, 1_200);
        assert!(row.end(2).is_empty());
        assert!(row.end(0).is_empty());
    }

    #[test]
    fn the_first_end_clears_a_receiver_if_cooja_is_followed() {
        for (quirk, expected) in [(false, vec![]), (true, vec![1])] {
            let radio = RadioSpec {
                clear_on_first_end: quirk,
                range_mm: 15_000,
                ..RadioSpec::default()
            };
            let positions = [(0, 0, 0), (EDGE, 0, 0), (2 * EDGE, 0, 0), (EDGE, EDGE, 0)];
            let ground = Ground {
                positions: &positions,
                regions: &[],
                table: None,
            };
            let mut row = Row::new(4, &radio);
            row.medium = Medium::new(&ground, &radio, 1);
            row.begin(0, 0, 1, 1_000);
            row.begin(500, 2, 1, 2_000);
            assert!(row.end(0).is_empty());
            // Node 2 is still on the air.
            row.begin(1_100, 3, 1, 2_500);
            assert!(row.end(2).is_empty());
            let received = row.end(3);
            assert_eq!(received.contains(&1), !expected.is_empty(), "{quirk}");
        }
    }

    #[test]
    fn signal_is_sensed_from_its_minimum_duration_to_its_end() {
        let mut row = Row::new(3, &radio());
        row.begin(1_000, 0, 1, 2_000);
        assert!(!row.is_busy(1_111, 1));
        assert!(row.is_busy(1_112, 1));
        assert!(!row.is_busy(1_500, 2), "at 20 m exactly nothing is sensed");
        row.end(0);
        assert!(!row.is_busy(2_000, 1));
    }

    #[test]
    fn assessment_window_senses_signals_that_ended_in_it() {
        let radio = RadioSpec {
            cca_window: Duration::from_micros(128),
            ..radio()
        };
        let mut row = Row::new(3, &radio);
        row.begin(1_000, 0, 1, 2_000);
        row.end(0);
        assert!(row.is_busy(2_127, 1));
        assert!(!row.is_busy(2_128, 1));
        assert!(!row.is_busy(2_000, 2), "at 20 m exactly nothing is sensed");
    }

    #[test]
    fn without_cca_a_frame_is_noticed_after_its_delimiter() {
        let blind = RadioSpec {
            cca_range: CcaRange::Nothing,
            ..radio()
        };
        let mut row = Row::new(3, &blind);
        row.begin(0, 0, 1, 1_000);
        assert!(!row.is_busy(159, 1));
        assert!(row.is_busy(160, 1));
        // Destroyed, but it appears to last on.
        row.begin(500, 2, 1, 800);
        row.end(2);
        assert!(row.is_busy(999, 1));
        row.end(0);
        assert!(!row.is_busy(1_000, 1));
        // Destroyed before its delimiter, so never detected.
        row.begin(2_000, 0, 1, 3_000);
        row.begin(2_100, 2, 1, 3_000);
        assert!(!row.is_busy(2_500, 1));
        let deaf = RadioSpec {
            sfd_sense: false,
            ..blind
        };
        let mut row = Row::new(3, &deaf);
        row.begin(0, 0, 1, 1_000);
        assert!(!row.is_busy(500, 1));
    }

    #[test]
    fn interference_range_determines_sensing() {
        for (range, expected) in [
            (CcaRange::Interference, true),
            (CcaRange::Transmission, false),
            (CcaRange::Nothing, false),
        ] {
            let radio = RadioSpec {
                cca_range: range,
                interference_mm: 20_001,
                ..radio()
            };
            let mut row = Row::new(3, &radio);
            row.begin(0, 0, 1, 1_000);
            assert_eq!(row.is_busy(500, 2), expected);
            row.end(0);
            assert!(!row.is_busy(1_000, 2));
        }
    }

    #[test]
    fn a_frame_the_link_lost_still_fills_the_air() {
        let radio = RadioSpec {
            delivery: Delivery::Fixed(carob_sim_core::random::Probability::NEVER),
            ..radio()
        };
        let mut row = Row::new(2, &radio);
        row.begin(0, 0, 1, 1_000);
        assert!(row.is_busy(500, 1));
        assert!(row.end(0).is_empty());
        assert_eq!((row.counters[1].losses, row.counters[1].collisions), (1, 0));
    }

    #[test]
    fn random_draw_applies_to_all_receivers_of_a_transmission() {
        // Half of the transmissions reach all nodes, half none.
        let half = carob_sim_core::random::Probability::of(1, 2);
        let always = carob_sim_core::random::Probability::ALWAYS;
        let never = carob_sim_core::random::Probability::NEVER;
        let radio = RadioSpec {
            delivery: Delivery::Drawn(vec![(never, half), (always, half)]),
            ..radio()
        };
        let mut row = Row::new(3, &radio);
        let mut reached = 0;
        for k in 0..10_000 {
            row.begin(k * 1_000, 1, BROADCAST, k * 1_000 + 500);
            let received = row.end(1);
            assert!(received.is_empty() || received.len() == 2);
            reached += u32::from(received.len() == 2);
        }
        // sd 50.
        assert!((4_800..5_200).contains(&reached), "{reached}");
    }
}
