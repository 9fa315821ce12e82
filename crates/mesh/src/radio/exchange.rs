//! The MAC exchange: a frame from its first attempt to its acknowledgement.
//!
//! A node's radio serves one queue at a time. Contiki's processor blocks while it transmits and
//! waits for an acknowledgement, so queues that become due meanwhile follow afterwards. The radio
//! hardware sends acknowledgements by itself for every intact frame, regardless of the layers
//! above. A frame that is due between such a frame and the end of its acknowledgement is
//! transmitted after that.

use carob_cc::time::Instant;

use crate::Node;
use crate::spec::MacSpec;

use super::csma::{Attempt, Next, Pause};
use super::medium::{BROADCAST, Signal};
use super::queues::{Frame, NONE, State};
use super::{ACKNOWLEDGEMENT_BYTES, Event, Outcome, Radio, RadioEvent, Upcall, air_time};

/// The state of a node's radio with respect to its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// Channel found clear; turning around to transmit.
    Turnaround,
    /// Transmitting.
    Transmitting,
    /// Waiting for an acknowledgement.
    AwaitingAck,
    /// About to acknowledge a frame first.
    Acknowledging,
}

/// The reception while a node waits for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckReception {
    Nothing,
    /// An acknowledgement with the sequence number of its frame.
    Acknowledgement,
    /// Another frame, which Contiki reads instead and discards.
    Other,
}

/// Duplicate filter: the most recent frames of each node.
#[derive(Clone, Debug)]
pub(super) struct DuplicateFilter {
    /// Senders and sequence numbers, a ring for each node.
    entries: Vec<u32>,
    /// The next position in each node's ring.
    next: Vec<u8>,
    remembered: usize,
}

impl DuplicateFilter {
    pub(super) fn new(nodes: usize, mac: &MacSpec) -> Self {
        // Without acknowledgements there are no retransmissions, and Contiki has no filter.
        let remembered = usize::from(mac.duplicates_remembered) * usize::from(mac.acknowledged);
        Self {
            entries: vec![u32::MAX; nodes * remembered],
            next: vec![0; nodes],
            remembered,
        }
    }

    /// Returns whether a node received this frame recently, and records it.
    fn is_duplicate(&mut self, node: Node, from: Node, number: u8) -> bool {
        if self.remembered == 0 {
            return false;
        }
        let node = usize::from(node);
        // Nodes have 16 bits, so no entry equals u32::MAX, with which the ring is filled.
        let entry = u32::from(from) << 8 | u32::from(number);
        let entries = &mut self.entries[node * self.remembered..][..self.remembered];
        if entries.contains(&entry) {
            return true;
        }
        let next = &mut self.next[node];
        entries[usize::from(*next)] = entry;
        *next = if usize::from(*next) + 1 == self.remembered {
            0
        } else {
            *next + 1
        };
        false
    }
}

impl<P: Copy> Radio<P> {
    /// Pauses a queue. A pause of zero leads to an attempt at once, if `at_once`.
    pub(super) fn pause<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        queue: u32,
        pause: Pause,
        at_once: bool,
        schedule: &mut S,
    ) {
        self.queues.get_mut(queue).state = State::Pausing;
        let at = match pause {
            Pause::Ticks(ticks) => self.stations[usize::from(node)].clock.after(now, ticks),
            Pause::For(time) => now + time,
        };
        if at_once && at == now {
            // The first attempt for a frame never completes it, so there is no indication.
            let mut nothing = Vec::new();
            self.resume(now, node, queue, schedule, &mut nothing);
            debug_assert!(nothing.is_empty(), "a frame ended as it was handed down");
        } else {
            let what = RadioEvent::Resume { queue };
            schedule(at, Event { node, what });
        }
    }

    /// A queue is due.
    pub(super) fn resume<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        queue: u32,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        self.queues.get_mut(queue).state = State::Due;
        self.queues.get_mut(queue).next_waiting = NONE;
        let station = &mut self.stations[usize::from(node)];
        if station.waiting == NONE {
            station.waiting = queue;
        } else {
            let mut last = station.waiting;
            while self.queues.get(last).next_waiting != NONE {
                last = self.queues.get(last).next_waiting;
            }
            self.queues.get_mut(last).next_waiting = queue;
        }
        if station.phase == Phase::Idle {
            self.go_on(now, node, None, schedule, up);
        }
    }

    /// Completes the radio's attempt, if any, and starts the next.
    fn go_on<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        mut attempt: Option<Attempt>,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        loop {
            if let Some(attempt) = attempt.take() {
                self.settle(now, node, attempt, schedule, up);
            }
            let station = &mut self.stations[usize::from(node)];
            if station.active == NONE {
                let queue = station.waiting;
                if queue == NONE {
                    station.phase = Phase::Idle;
                    return;
                }
                let next = self.queues.get_mut(queue);
                next.state = State::Sending;
                station.waiting = next.next_waiting;
                station.active = queue;
                station.burst = if self.access.is_contiki() {
                    next.frames
                } else {
                    1
                };
            }
            if station.pending_ack.is_some() || self.medium.sends(node) {
                station.phase = Phase::Acknowledging;
                return;
            }
            if self.medium.is_busy(now, node) {
                self.counters[usize::from(node)].busy += 1;
                attempt = Some(Attempt::Busy);
                continue;
            }
            station.phase = Phase::Turnaround;
            let what = RadioEvent::Begin;
            schedule(now + self.turnaround, Event { node, what });
            return;
        }
    }

    /// Handles the end of an attempt for the active queue's first frame. The queue stays active if
    /// it continues without a break.
    fn settle<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        attempt: Attempt,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        let station = &mut self.stations[usize::from(node)];
        let queue = station.active;
        let mut attempts = self.queues.get(queue).attempts;
        let outcome = match self
            .access
            .next(attempt, &mut attempts, &mut station.backoff)
        {
            Next::Again(pause) => {
                self.queues.get_mut(queue).attempts = attempts;
                station.active = NONE;
                self.pause(now, node, queue, pause, false, schedule);
                return;
            }
            Next::Done(outcome) => outcome,
        };
        let frame = self.queues.pop(queue);
        station.queued -= 1;
        let counters = &mut self.counters[usize::from(node)];
        match outcome {
            Outcome::NotAcknowledged => counters.no_ack_drops += 1,
            Outcome::ChannelBusy => counters.channel_drops += 1,
            Outcome::Acknowledged | Outcome::Broadcast => {}
        }
        let to = (frame.to != BROADCAST).then_some(frame.to);
        up.push(Upcall::Sent {
            node,
            to,
            payload: frame.payload,
            transmissions: attempts.transmissions,
            outcome: match outcome {
                Outcome::Acknowledged if to.is_none() => Outcome::Broadcast,
                outcome => outcome,
            },
        });
        station.burst -= 1;
        if self.queues.get(queue).frames == 0 {
            station.active = NONE;
            self.queues.close(node, queue);
        } else if attempt != Attempt::Sent || station.burst == 0 {
            station.active = NONE;
            let succeeded = attempt == Attempt::Sent;
            let stream = &mut station.backoff;
            let pause = self.access.between(frame.bytes, succeeded, stream);
            self.pause(now, node, queue, pause, false, schedule);
        }
    }

    /// The turnaround is over: a frame begins.
    pub(super) fn begin<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        if self.medium.sends(node) {
            // Its acknowledgement of a frame that arrived meanwhile.
            self.go_on(now, node, Some(Attempt::Busy), schedule, up);
            return;
        }
        let station = &mut self.stations[usize::from(node)];
        station.phase = Phase::Transmitting;
        // A pending acknowledgement is dropped.
        station.pending_ack = None;
        let Frame {
            to, bytes, number, ..
        } = *self.queues.first(station.active);
        let signal = Signal {
            to,
            until: now + air_time(bytes),
            number,
            acknowledges: false,
        };
        self.counters[usize::from(node)].transmissions += 1;
        self.put_on_air(now, node, signal, schedule);
    }

    /// The turnaround is over: an acknowledgement begins, if it still can.
    pub(super) fn acknowledge<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        schedule: &mut S,
    ) {
        let pending_ack = self.stations[usize::from(node)].pending_ack.take();
        let Some((to, number)) = pending_ack else {
            return;
        };
        let signal = Signal {
            to,
            until: now + air_time(ACKNOWLEDGEMENT_BYTES),
            number,
            acknowledges: true,
        };
        if !self.medium.sends(node) {
            self.counters[usize::from(node)].acknowledgements += 1;
            self.put_on_air(now, node, signal, schedule);
        }
    }

    fn put_on_air<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        signal: Signal,
        schedule: &mut S,
    ) {
        self.medium.begin(now, node, signal, &mut self.counters);
        let what = RadioEvent::End;
        schedule(signal.until, Event { node, what });
    }

    /// A node's transmission ends.
    pub(super) fn end<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        let mut received = std::mem::take(&mut self.received);
        received.clear();
        let signal = self.medium.end(node, &mut self.counters, &mut received);
        if signal.acknowledges {
            for at in &received {
                self.hear(now, *at, &signal, schedule, up);
            }
            if self.stations[usize::from(node)].phase == Phase::Acknowledging {
                self.go_on(now, node, None, schedule, up);
            }
        } else {
            for at in &received {
                self.receive(now, *at, node, &signal, schedule, up);
            }
            self.finish(now, node, &signal, schedule, up);
        }
        self.received = received;
    }

    /// A node received an acknowledgement. It has no address: the sequence number decides.
    fn hear<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        signal: &Signal,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        let station = &mut self.stations[usize::from(node)];
        if station.phase != Phase::AwaitingAck || station.ack_reception != AckReception::Nothing {
            return;
        }
        let contiki = self.access.is_contiki();
        if self.queues.first(station.active).number == signal.number {
            station.ack_reception = AckReception::Acknowledgement;
            if !contiki {
                self.go_on(now, node, Some(Attempt::Sent), schedule, up);
            }
        } else if contiki {
            station.ack_reception = AckReception::Other;
        }
    }

    /// A node received a data frame.
    fn receive<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        from: Node,
        signal: &Signal,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        if signal.to != node && signal.to != BROADCAST {
            return;
        }
        if let Some(deaf) = &mut self.deaf
            && deaf.misses(now, node, signal.to)
        {
            self.counters[usize::from(node)].discarded += 1;
            return;
        }
        let station = &mut self.stations[usize::from(node)];
        // Before the duplicate filter: a frame comes again if its acknowledgement was lost.
        if signal.to == node && self.spec.acknowledged {
            station.pending_ack = Some((from, signal.number));
            let what = RadioEvent::Acknowledge;
            schedule(now + self.ack_turnaround, Event { node, what });
        }
        let listens =
            station.phase == Phase::AwaitingAck && station.ack_reception == AckReception::Nothing;
        if listens && self.access.is_contiki() {
            station.ack_reception = AckReception::Other;
            self.counters[usize::from(node)].discarded += 1;
            return;
        }
        if self
            .duplicate_filter
            .is_duplicate(node, from, signal.number)
        {
            self.counters[usize::from(node)].duplicates += 1;
            return;
        }
        let frame = self.queues.first(self.stations[usize::from(from)].active);
        up.push(Upcall::Received {
            at: node,
            from,
            to: (frame.to != BROADCAST).then_some(frame.to),
            bytes: frame.bytes,
            payload: frame.payload,
        });
    }

    /// A node's data frame has been transmitted.
    fn finish<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        signal: &Signal,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        if signal.to == BROADCAST || !self.spec.acknowledged {
            self.go_on(now, node, Some(Attempt::Sent), schedule, up);
            return;
        }
        let station = &mut self.stations[usize::from(node)];
        station.phase = Phase::AwaitingAck;
        station.ack_reception = AckReception::Nothing;
        // A timeout of an earlier transmission has another number and is ignored.
        station.transmission = station.transmission.wrapping_add(1);
        let transmission = station.transmission;
        let what = RadioEvent::Judge { transmission };
        schedule(now + self.spec.ack_wait, Event { node, what });
    }

    /// The acknowledgement timeout. It has no effect if the acknowledgement arrived and completed
    /// the frame.
    pub(super) fn judge<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        transmission: u16,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        let station = &self.stations[usize::from(node)];
        if station.phase != Phase::AwaitingAck || station.transmission != transmission {
            return;
        }
        let attempt = match station.ack_reception {
            AckReception::Acknowledgement => Attempt::Sent,
            AckReception::Other => Attempt::Busy,
            AckReception::Nothing => {
                // An acknowledgement in progress is received to its end.
                if let Some(signal) = self.medium.receiving(node)
                    && signal.acknowledges
                    && signal.until > now
                {
                    let what = RadioEvent::Judge { transmission };
                    schedule(signal.until, Event { node, what });
                    return;
                }
                Attempt::NotAcknowledged
            }
        };
        self.go_on(now, node, Some(attempt), schedule, up);
    }
}
