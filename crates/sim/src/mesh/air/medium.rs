//! What is on the air: signals that meet at a node destroy each other.
//!
//! The model is Cooja's unit disk graph medium. A node locks on a frame if, as it begins, the
//! node is silent and nothing else is on the air there; whatever begins before it ends destroys it
//! (no capture). Each node has a count of signals and at most one frame that it has locked on, so a
//! transmission costs as much as its sender has neighbours.

use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};

use super::curve::Curve;
use super::links::{Ground, Links};
use super::noise::Noise;
use crate::mesh::Node;
use crate::mesh::record::MacCounters;
use crate::mesh::spec::{CcaRange, Delivery, RadioSpec};
use crate::random::Stream;

/// In place of a node: everybody, as a destination; nobody, as one that is heard.
pub(super) const BROADCAST: Node = Node::MAX;
const NOBODY: Node = Node::MAX;

/// A receiver knows of a frame (SFD) after four bytes of preamble and one of delimiter.
const SFD_AFTER: Duration = Duration::from_micros(5 * 32);

/// What a node has on the air.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    /// Whom it is for.
    pub(super) to: Node,
    /// When it ends.
    pub(super) until: Instant,
    /// Sequence number.
    pub(super) number: u8,
    /// Whether it is an acknowledgement, else a frame of data.
    pub(super) acknowledges: bool,
}

/// What a node's receiver notices.
#[derive(Clone, Copy, Debug)]
struct Ear {
    /// Since when there was always something to sense.
    occupied_since: Instant,
    /// When the frame last locked on was known to be one.
    sfd_from: Instant,
    /// Until when it seems to last. One destroyed halfway seems to last as long as it said.
    sfd_until: Instant,
    /// Signals on the air.
    signals: u16,
    /// Those of them that CCA senses.
    sensed: u16,
    /// Whose frame is received.
    lock: Node,
    /// Cooja's flag, which the end of any signal clears.
    interfered: bool,
    /// Whether the node itself sends.
    sends: bool,
}

/// How frames fare that meet nothing else.
#[derive(Clone, Debug)]
enum Ratio {
    Perfect,
    /// By link.
    Linked,
    /// By transmission.
    Drawn(Curve),
}

/// The air.
#[derive(Clone, Debug)]
pub(super) struct Medium {
    links: Links,
    ears: Vec<Ear>,
    /// What each node sent last.
    signals: Vec<Signal>,
    ratio: Ratio,
    ratios: Stream,
    losses: Stream,
    noise: Option<Noise>,
    clear_on_first_end: bool,
    /// What CCA senses: receivers' signals, and those of others.
    senses: [u16; 2],
    cca_delay: Duration,
    sfd_sense: bool,
}

impl Medium {
    /// Streams `"mesh/radio/ratio"` for what each transmission draws, `"mesh/radio/loss"` for what
    /// becomes of its frames, and those of the noise.
    pub(super) fn new(ground: &Ground<'_>, radio: &RadioSpec, seed: u64) -> Self {
        let links = Links::new(ground, radio);
        let nodes = links.nodes();
        let ear = Ear {
            occupied_since: Instant::ZERO,
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
            ears: vec![ear; nodes],
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
                .map(|spec| Noise::new(&spec, nodes, ground.regions, seed)),
            clear_on_first_end: radio.clear_on_first_end,
            senses: match radio.cca_range {
                CcaRange::Interference => [1, 1],
                CcaRange::Transmission => [1, 0],
                CcaRange::Nothing => [0, 0],
            },
            cca_delay: radio.cca_delay,
            sfd_sense: radio.sfd_sense,
        }
    }

    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// Whether a node has something on the air.
    pub(super) fn sends(&self, node: Node) -> bool {
        self.ears[usize::from(node)].sends
    }

    /// What the frame that a node receives right now is.
    pub(super) fn hears(&self, node: Node) -> Option<&Signal> {
        let lock = self.ears[usize::from(node)].lock;
        self.signals.get(usize::from(lock))
    }

    /// Whether a node finds the channel busy: it has sensed signals without a break for as long
    /// as its assessment takes, or has locked on a frame, or there is noise.
    pub(super) fn is_busy(&mut self, now: Instant, node: Node) -> bool {
        let ear = &self.ears[usize::from(node)];
        let sensed = ear.sensed > 0 && now.since(ear.occupied_since) >= self.cca_delay;
        let locked = self.sfd_sense && ear.sfd_from <= now && now < ear.sfd_until;
        // The noise is asked whatever the rest says: what it draws stays paired.
        let noise = self.noise.as_mut();
        noise.is_some_and(|noise| noise.is_sensed(now, node)) || sensed || locked
    }

    /// A signal begins. Nothing else of its sender may be on the air.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        from: Node,
        signal: Signal,
        counters: &mut [MacCounters],
    ) {
        let sender = usize::from(from);
        self.signals[sender] = signal;
        self.ears[sender].sends = true;
        self.ears[sender].destroy(now, from, &self.signals, counters);
        let drawn = match &self.ratio {
            Ratio::Drawn(curve) => Some(curve.draw(&mut self.ratios)),
            Ratio::Perfect | Ratio::Linked => None,
        };
        let perfect = matches!(self.ratio, Ratio::Perfect);
        for link in self.links.receivers(from) {
            let place = usize::from(link.to);
            let ear = &mut self.ears[place];
            let meant = signal.is_data_for(link.to);
            let others = if self.clear_on_first_end {
                ear.interfered || ear.lock != NOBODY
            } else {
                ear.signals > 0
            };
            ear.add(now, self.senses[0]);
            if ear.sends || others {
                ear.destroy(now, link.to, &self.signals, counters);
                counters[place].collisions += u64::from(meant);
                continue;
            }
            let ratio = drawn.unwrap_or_else(|| link.delivery.threshold());
            let noise = self.noise.as_mut();
            if (!perfect && u64::from(self.losses.next_u32()) >= ratio)
                || noise.is_some_and(|noise| noise.destroys(now, link.to))
            {
                ear.interfered = true;
                counters[place].losses += u64::from(meant);
                continue;
            }
            ear.lock = from;
            ear.sfd_from = now + SFD_AFTER;
            ear.sfd_until = signal.until;
        }
        for link in self.links.disturbed(from) {
            let ear = &mut self.ears[usize::from(link.to)];
            ear.add(now, self.senses[1]);
            ear.destroy(now, link.to, &self.signals, counters);
            ear.interfered = true;
        }
    }

    /// Whether nothing is on the air, and nobody believes so.
    #[cfg(test)]
    pub(super) fn is_silent(&self) -> bool {
        let silent = |ear: &Ear| {
            let quiet = (ear.signals, ear.sensed, ear.lock) == (0, 0, NOBODY);
            quiet && !ear.sends && !ear.interfered
        };
        self.ears.iter().all(silent)
    }

    /// A node's signal ends. Says what it was, and adds the nodes that received it whole.
    pub(super) fn end(&mut self, from: Node, received: &mut Vec<Node>) -> Signal {
        self.ears[usize::from(from)].sends = false;
        for link in self.links.receivers(from) {
            let ear = &mut self.ears[usize::from(link.to)];
            ear.remove(self.senses[0]);
            if ear.lock == from {
                ear.lock = NOBODY;
                received.push(link.to);
            }
        }
        for link in self.links.disturbed(from) {
            self.ears[usize::from(link.to)].remove(self.senses[1]);
        }
        self.signals[usize::from(from)]
    }
}

impl Signal {
    /// Whether it is a frame, acknowledgements apart, that this node is to get.
    fn is_data_for(&self, node: Node) -> bool {
        !self.acknowledges && (self.to == node || self.to == BROADCAST)
    }
}

impl Ear {
    fn add(&mut self, now: Instant, sensed: u16) {
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

    /// Destroys the frame that the node receives, if it does.
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
        if now < self.sfd_from {
            self.sfd_until = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE: i32 = 10_000;

    /// A medium for nodes in a row, and what it counted.
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

        /// `from` sends to `to` from `at` to `until`, in microseconds.
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
            self.medium.end(from, &mut received);
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
    fn who_sends_hears_nothing_and_loses_what_it_heard() {
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
        // Node 1 is silent again, but what it missed the beginning of still fills its air.
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
    fn a_signal_is_sensed_once_it_has_lasted_and_until_it_ends() {
        let mut row = Row::new(3, &radio());
        row.begin(1_000, 0, 1, 2_000);
        assert!(!row.is_busy(1_111, 1));
        assert!(row.is_busy(1_112, 1));
        assert!(!row.is_busy(1_500, 2), "at 20 m exactly nothing is sensed");
        row.end(0);
        assert!(!row.is_busy(2_000, 1));
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
        // Destroyed, it seems to last on.
        row.begin(500, 2, 1, 800);
        row.end(2);
        assert!(row.is_busy(999, 1));
        row.end(0);
        assert!(!row.is_busy(1_000, 1));
        // Destroyed before its delimiter, it was never known.
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
    fn those_out_of_transmission_range_are_sensed_or_not() {
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
            delivery: Delivery::Fixed(crate::random::Probability::NEVER),
            ..radio()
        };
        let mut row = Row::new(2, &radio);
        row.begin(0, 0, 1, 1_000);
        assert!(row.is_busy(500, 1));
        assert!(row.end(0).is_empty());
        assert_eq!((row.counters[1].losses, row.counters[1].collisions), (1, 0));
    }

    #[test]
    fn what_a_transmission_draws_holds_for_all_its_receivers() {
        // Half of the transmissions reach everybody, half nobody.
        let half = crate::random::Probability::of(1, 2);
        let always = crate::random::Probability::ALWAYS;
        let never = crate::random::Probability::NEVER;
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
