//! The shared medium and MAC of a mesh: IEEE 802.15.4 at 250 kbit/s.
//!
//! [`Radio`] accepts frames and reports their outcome. It is sans-I/O: it schedules an [`Event`]
//! through a callback, and all its state changes in [`Radio::send`] and [`Radio::handle`].
//!
//! Interpretations of the sources that are not settings:
//!
//! - CCA senses energy, so back-to-back signals without a gap count as one.
//! - A receiver detects a frame 160 us after its beginning.
//! - An acknowledgement carries no address, so a matching sequence number is enough.
//! - Contiki's timers expire on the node's own clock ticks (1/128 s, phase drawn by node), so a
//!   pause of n ticks may be up to one tick shorter.
//! - The MAC takes no processing time, so no frame ever lies unread.
//! - Contiki's check after 400 us is left out, because it only shortens an unsuccessful wait.
//!
//! Processing delay in a node is modelled by the layers above.
//!
//! Reading order: [`links`] (connectivity), `noise` (random loss), `medium` (signals
//! and collisions), `capture` (frames that survive collisions), `csma` (channel access), `queues` (waiting frames), `exchange` (a frame from
//! its first attempt to its acknowledgement).

mod capture;
mod csma;
mod exchange;
pub mod links;
mod medium;
mod noise;
mod queues;
#[cfg(test)]
mod tests;

pub use links::{Ground, Link, Links};

use carob_cc::time::{Duration, Instant};
use carob_sim_core::random::Stream;

use crate::Node;
use crate::record::MacCounters;
use crate::spec::{MacSpec, RadioSpec};

use csma::{Access, Clock};
use exchange::{AckReception, DuplicateFilter, Phase};
use medium::{BROADCAST, Medium};
use noise::DeafNode;
use queues::{NONE, Queues};

/// Maximum frame size in bytes, FCS included (aMaxPHYPacketSize).
pub const FRAME_BYTES_MAX: u16 = 127;
/// Size of an acknowledgement in bytes, FCS included.
pub const ACKNOWLEDGEMENT_BYTES: u16 = 5;
/// Bytes of preamble, delimiter and length.
const HEADER_BYTES: u64 = 6;
const BYTE_TIME: u64 = 32;

/// Air time of a frame of `bytes`, FCS included.
pub const fn air_time(bytes: u16) -> Duration {
    Duration::from_micros((HEADER_BYTES + bytes as u64) * BYTE_TIME)
}

/// A scheduled event of a node, to be passed to [`Radio::handle`] at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    node: Node,
    what: RadioEvent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RadioEvent {
    /// The pause of a queue ends.
    Resume { queue: u32 },
    /// A frame begins.
    Begin,
    /// The node's transmission ends.
    End,
    /// An acknowledgement begins.
    Acknowledge,
    /// The acknowledgement timeout of the transmission with this number.
    Judge { transmission: u16 },
}

/// The reason for rejecting a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// All buffers of the node, or all places for this neighbour, are taken.
    Full,
    /// The node has the maximum number of neighbour queues, and none for this neighbour.
    Neighbours,
    /// The frame is longer than [`FRAME_BYTES_MAX`].
    TooLong,
}

/// The outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged, or transmitted where acknowledgements are off.
    Acknowledged,
    /// Given up after the maximum number of transmissions.
    NotAcknowledged,
    /// Given up because the channel was never clear.
    ChannelBusy,
    /// Broadcast: its reception is unknown.
    Broadcast,
}

/// An indication to the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upcall<P> {
    /// A frame arrived.
    Received {
        /// The receiver.
        at: Node,
        /// The sender.
        from: Node,
        /// The destination; none for a broadcast.
        to: Option<Node>,
        /// Size in bytes, FCS included.
        bytes: u16,
        /// The payload that the sender passed down.
        payload: P,
    },
    /// A frame is complete and its buffer is free.
    Sent {
        /// The sender.
        node: Node,
        /// The destination; none for a broadcast.
        to: Option<Node>,
        /// The payload that was passed down.
        payload: P,
        /// Transmissions as the MAC counts them: Contiki 3.x counts busy channels as well.
        transmissions: u8,
        /// The outcome.
        outcome: Outcome,
    },
}

/// The MAC state of a node.
#[derive(Clone, Debug)]
struct Station {
    phase: Phase,
    /// The reception since the node began to wait for an acknowledgement.
    ack_reception: AckReception,
    /// The queue whose frame the radio handles.
    active: u32,
    /// The first queue that waits for the radio.
    waiting: u32,
    /// Frames that may still follow without a break.
    burst: u16,
    /// Frames in all queues.
    queued: u16,
    /// The maximum of them.
    buffers: u16,
    /// The number of the latest transmission; it identifies stale acknowledgement timeouts.
    transmission: u16,
    /// The next frame's sequence number; its low byte is transmitted.
    number: u16,
    /// The acknowledgement to transmit after the turnaround: destination and sequence number.
    pending_ack: Option<(Node, u8)>,
    clock: Clock,
    backoff: Stream,
}

/// The medium and the MAC of each node. `P` is the payload that the layer above passes down.
#[derive(Clone, Debug)]
pub struct Radio<P> {
    medium: Medium,
    access: Access,
    spec: MacSpec,
    turnaround: Duration,
    ack_turnaround: Duration,
    stations: Vec<Station>,
    queues: Queues<P>,
    duplicate_filter: DuplicateFilter,
    counters: Vec<MacCounters>,
    /// The nodes that received a signal; reused.
    received: Vec<Node>,
    /// The node that is deaf for a time after each frame addressed to it, if there is one.
    deaf: Option<DeafNode>,
}

impl<P: Copy> Radio<P> {
    /// Creates an idle medium. Random streams: `"mesh/mac/backoff"` and `"mesh/mac/clock"` by node,
    /// and the streams of the medium, `"mesh/radio/..."`.
    pub fn new(ground: &Ground<'_>, radio: &RadioSpec, mac: &MacSpec, seed: u64) -> Self {
        let medium = Medium::new(ground, radio, seed);
        let nodes = medium.links().nodes();
        let station = |node: usize| Station {
            phase: Phase::Idle,
            ack_reception: AckReception::Nothing,
            active: NONE,
            waiting: NONE,
            burst: 0,
            queued: 0,
            buffers: mac.buffers,
            transmission: 0,
            number: 1,
            pending_ack: None,
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
            duplicate_filter: DuplicateFilter::new(nodes, mac),
            counters: vec![MacCounters::default(); nodes],
            received: Vec::new(),
            deaf: None,
            spec: mac.clone(),
        }
    }

    /// Makes a node receive no frame addressed to it for this time after each one that it received.
    /// It does not acknowledge missed frames.
    pub fn set_deaf(&mut self, node: Node, time: Duration) {
        self.deaf = DeafNode::new(node, time);
    }

    /// Sets the number of a node's frame buffers.
    pub fn set_buffers(&mut self, node: Node, buffers: u16) {
        self.stations[usize::from(node)].buffers = buffers;
    }

    /// Queues a frame of `bytes`, FCS included, for a neighbour, or as a broadcast. The outcome
    /// comes from [`handle`](Self::handle), unless the frame is rejected here.
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
    ) -> Result<(), SendError> {
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

    /// Returns the queue that a frame may join, and whether it is new.
    fn accept(&mut self, node: Node, to: Node, bytes: u16) -> Result<(u32, bool), SendError> {
        if bytes > FRAME_BYTES_MAX {
            return Err(SendError::TooLong);
        }
        let station = &self.stations[usize::from(node)];
        let full = station.queued >= station.buffers;
        let contiki = self.access.is_contiki();
        let to = if contiki { to } else { BROADCAST };
        let (queue, others) = self.queues.find(node, to);
        match queue {
            None if contiki && others >= self.spec.neighbours_max => Err(SendError::Neighbours),
            _ if full => Err(SendError::Full),
            None => Ok((self.queues.open(node, to), true)),
            Some(queue) => {
                let frames = self.queues.get(queue).frames;
                if contiki && frames >= self.spec.frames_per_neighbour {
                    return Err(SendError::Full);
                }
                Ok((queue, false))
            }
        }
    }

    /// Handles an event that was scheduled for `now`. Appends indications for the layer above to
    /// `up`.
    pub fn handle(
        &mut self,
        now: Instant,
        event: Event,
        schedule: &mut impl FnMut(Instant, Event),
        up: &mut Vec<Upcall<P>>,
    ) {
        let node = event.node;
        match event.what {
            RadioEvent::Resume { queue } => self.resume(now, node, queue, schedule, up),
            RadioEvent::Begin => self.begin(now, node, schedule, up),
            RadioEvent::End => self.end(now, node, schedule, up),
            RadioEvent::Acknowledge => self.acknowledge(now, node, schedule),
            RadioEvent::Judge { transmission } => self.judge(now, node, transmission, schedule, up),
        }
    }

    /// The MAC counters of a node since their last reset.
    pub fn counters(&self, node: Node) -> &MacCounters {
        &self.counters[usize::from(node)]
    }

    /// Resets the counters. The maximum queue length starts at the current length.
    pub fn reset_counters(&mut self) {
        for (counters, station) in self.counters.iter_mut().zip(&self.stations) {
            *counters = MacCounters {
                queued_max: station.queued,
                ..MacCounters::default()
            };
        }
    }

    /// The links between nodes.
    pub fn links(&self) -> &Links {
        self.medium.links()
    }

    /// Frames queued at a node, including one in transmission.
    pub fn queued(&self, node: Node) -> u16 {
        self.stations[usize::from(node)].queued
    }
}
