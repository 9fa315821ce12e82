//! The air between the nodes of a network, and access to it: IEEE 802.15.4 at 250 kbit/s.
//!
//! [`Air`] takes frames and says what became of them. It is sans-IO: it asks to be called back
//! with an [`Event`] at a time, and everything that happens, happens in [`Air::handle`].
//!
//! Readings of the sources that are no settings: what CCA senses is energy, so signals that follow
//! each other without a gap are as good as one; a receiver knows of a frame 160 us after its
//! beginning; an acknowledgement has no address, so the right sequence number is enough; Contiki's
//! timers run out as the node's own clock ticks (1/128 s, phases drawn by node), so a pause of n
//! ticks lasts up to one less; and the MAC takes no time for itself, so no frame ever lies unread,
//! and Contiki's look after 400 us, which only shortens the wait where nothing came, is left out.
//! What a packet's way through a node takes is the business of the layers above.
//!
//! Reading order: [`links`] (who hears whom), `curve` and `noise` (what is lost by chance), `medium`
//! (what is on the air), `csma` (when a frame may be sent), `queues` (what waits), `exchange` (a frame
//! from its first attempt to its acknowledgement).

mod csma;
mod curve;
mod exchange;
pub mod links;
mod medium;
mod noise;
mod queues;
#[cfg(test)]
mod tests;

pub use links::{Ground, Link, Links};

use carob_cc::time::{Duration, Instant};

use crate::mesh::Node;
use crate::mesh::record::MacCounters;
use crate::mesh::spec::{MacSpec, RadioSpec};
use crate::random::Stream;

use csma::{Access, Clock};
use exchange::{Heard, Phase, Seen};
use medium::{BROADCAST, Medium};
use queues::{NONE, Queues};

/// The most bytes of a frame, FCS included (aMaxPHYPacketSize).
pub const FRAME_BYTES_MAX: u16 = 127;
/// Bytes of an acknowledgement, FCS included.
pub const ACKNOWLEDGEMENT_BYTES: u16 = 5;
/// Preamble, delimiter and length.
const HEADER_BYTES: u64 = 6;
const BYTE_TIME: u64 = 32;

/// How long a frame of so many bytes, FCS included, is on the air.
pub const fn air_time(bytes: u16) -> Duration {
    Duration::from_micros((HEADER_BYTES + bytes as u64) * BYTE_TIME)
}

/// Something that will happen to a node, to be handed to [`Air::handle`] at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    node: Node,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A queue has paused.
    Resume { queue: u32 },
    /// A frame begins.
    Begin,
    /// What the node has on the air ends.
    End,
    /// An acknowledgement begins.
    Acknowledge,
    /// An acknowledgement should have come for the transmission of this number.
    Judge { transmission: u16 },
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// All buffers of the node, or all that may wait for this neighbour, are taken.
    Full,
    /// As many neighbours as may have queues have one, and this one has none.
    Neighbours,
    /// It is longer than [`FRAME_BYTES_MAX`].
    TooLong,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged; or sent, where no acknowledgements are asked for.
    Acknowledged,
    /// It was given up after as many transmissions as there may be.
    NotAcknowledged,
    /// It was given up since the channel was never clear.
    ChannelBusy,
    /// It was sent to everybody; nobody says whether it arrived.
    Broadcast,
}

/// What the layer above is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upcall<P> {
    /// A frame arrived.
    Received {
        /// Where.
        at: Node,
        /// Who sent it.
        from: Node,
        /// Whom it was for; none for everybody.
        to: Option<Node>,
        /// Its size, FCS included.
        bytes: u16,
        /// What the sender handed down.
        payload: P,
    },
    /// A frame is done with: its buffer is free.
    Sent {
        /// Who sent it.
        node: Node,
        /// To whom; none for everybody.
        to: Option<Node>,
        /// What was handed down.
        payload: P,
        /// How often it was sent, as the MAC counts: Contiki 3.x counts channels that stay busy, too.
        transmissions: u8,
        /// What became of it.
        outcome: Outcome,
    },
}

/// A node's MAC.
#[derive(Clone, Debug)]
struct Station {
    phase: Phase,
    /// What it heard since it waits for an acknowledgement.
    heard: Heard,
    /// The queue that the radio works for.
    active: u32,
    /// The first of those that wait for it.
    waiting: u32,
    /// Frames that may still be sent without a break.
    burst: u16,
    /// Frames in all queues.
    queued: u16,
    /// Counts transmissions, so that what is past is not judged.
    transmission: u16,
    /// The next frame's sequence number; its low byte is sent.
    number: u16,
    /// Whom to acknowledge which frame, once the radio has turned around.
    answer: Option<(Node, u8)>,
    clock: Clock,
    backoff: Stream,
}

/// The air and the MAC of each node. `P` is whatever the layer above hands down with a frame.
#[derive(Clone, Debug)]
pub struct Air<P> {
    medium: Medium,
    access: Access,
    spec: MacSpec,
    turnaround: Duration,
    ack_turnaround: Duration,
    stations: Vec<Station>,
    queues: Queues<P>,
    seen: Seen,
    counters: Vec<MacCounters>,
    /// Nodes that a signal arrived at, reused.
    received: Vec<Node>,
}

impl<P: Copy> Air<P> {
    /// A silent air. Streams are `"mesh/mac/backoff"` and `"mesh/mac/clock"` by node, and those
    /// of the medium: `"mesh/radio/..."`.
    pub fn new(ground: &Ground<'_>, radio: &RadioSpec, mac: &MacSpec, seed: u64) -> Self {
        let medium = Medium::new(ground, radio, seed);
        let nodes = medium.links().nodes();
        let station = |node: usize| Station {
            phase: Phase::Idle,
            heard: Heard::Nothing,
            active: NONE,
            waiting: NONE,
            burst: 0,
            queued: 0,
            transmission: 0,
            number: 1,
            answer: None,
            clock: Clock::new(&mut Stream::indexed(seed, "mesh/mac/clock", node as u32)),
            backoff: Stream::indexed(seed, "mesh/mac/backoff", node as u32),
        };
        Self {
            medium,
            access: Access::new(mac),
            turnaround: radio.turnaround,
            ack_turnaround: radio.ack_turnaround,
            stations: (0..nodes).map(station).collect(),
            queues: Queues::new(nodes),
            seen: Seen::new(nodes, mac),
            counters: vec![MacCounters::default(); nodes],
            received: Vec::new(),
            spec: mac.clone(),
        }
    }

    /// Hands a frame of `bytes` down, FCS included, for a neighbour, or for everybody. What
    /// follows comes from [`handle`](Self::handle); nothing does if it was refused.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn send(
        &mut self,
        now: Instant,
        node: Node,
        to: Option<Node>,
        bytes: u16,
        payload: P,
        schedule: &mut impl FnMut(Instant, Event),
    ) -> Result<(), Refused> {
        let to = to.unwrap_or(BROADCAST);
        self.counters[usize::from(node)].offered += 1;
        let accepted = self.accept(node, to, bytes);
        let (queue, is_new) = match accepted {
            Ok(accepted) => accepted,
            Err(refused) => {
                self.counters[usize::from(node)].queue_drops += 1;
                return Err(refused);
            }
        };
        let station = &mut self.stations[usize::from(node)];
        let number = station.number as u8;
        // Contiki's counter leaves 0 out.
        station.number = station.number.checked_add(1).unwrap_or(1);
        station.queued += 1;
        let counters = &mut self.counters[usize::from(node)];
        counters.queued_max = counters.queued_max.max(station.queued);
        self.queues.push(queue, to, bytes, number, payload);
        if is_new {
            let pause = self.access.first(&mut station.backoff);
            self.pause(now, node, queue, pause, true, schedule);
        }
        Ok(())
    }

    /// The queue that a frame may join, and whether it is new.
    fn accept(&mut self, node: Node, to: Node, bytes: u16) -> Result<(u32, bool), Refused> {
        if bytes > FRAME_BYTES_MAX {
            return Err(Refused::TooLong);
        }
        let full = self.stations[usize::from(node)].queued >= self.spec.buffers;
        let contiki = self.access.is_contiki();
        let to = if contiki { to } else { BROADCAST };
        let (queue, others) = self.queues.find(node, to);
        match queue {
            None if contiki && others >= self.spec.neighbours_max => Err(Refused::Neighbours),
            _ if full => Err(Refused::Full),
            None => Ok((self.queues.open(node, to), true)),
            Some(queue) => {
                let frames = self.queues.get(queue).frames;
                if contiki && frames >= self.spec.frames_per_neighbour {
                    return Err(Refused::Full);
                }
                Ok((queue, false))
            }
        }
    }

    /// What happens at `now`, which was asked for. Adds to `up` what the layer above is to know.
    pub fn handle(
        &mut self,
        now: Instant,
        event: Event,
        schedule: &mut impl FnMut(Instant, Event),
        up: &mut Vec<Upcall<P>>,
    ) {
        let node = event.node;
        match event.what {
            What::Resume { queue } => self.resume(now, node, queue, schedule, up),
            What::Begin => self.begin(now, node, schedule, up),
            What::End => self.end(now, node, schedule, up),
            What::Acknowledge => self.acknowledge(now, node, schedule),
            What::Judge { transmission } => self.judge(now, node, transmission, schedule, up),
        }
    }

    /// What a node's MAC did since the counters were last reset.
    pub fn counters(&self, node: Node) -> &MacCounters {
        &self.counters[usize::from(node)]
    }

    /// Begins to count anew. The most frames that waited are those that do now.
    pub fn reset_counters(&mut self) {
        for (counters, station) in self.counters.iter_mut().zip(&self.stations) {
            *counters = MacCounters {
                queued_max: station.queued,
                ..MacCounters::default()
            };
        }
    }

    /// Who hears whom.
    pub fn links(&self) -> &Links {
        self.medium.links()
    }

    /// Frames that wait at a node, those being sent included.
    pub fn queued(&self, node: Node) -> u16 {
        self.stations[usize::from(node)].queued
    }
}
