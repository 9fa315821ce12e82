//! A frame from its first attempt to its acknowledgement.
//!
//! A node's radio works for one queue at a time. Contiki's processor does nothing else while it sends
//! and waits for an acknowledgement, so queues whose time comes meanwhile follow when it is done.
//! Acknowledgements are the radio's own business: they follow a frame that arrived whole,
//! whatever becomes of it above. A frame that is to be sent between such a frame and the end of its
//! acknowledgement is sent after that.

use carob_cc::time::Instant;

use crate::mesh::Node;
use crate::mesh::spec::MacSpec;

use super::csma::{Attempt, Next, Pause};
use super::medium::{BROADCAST, Signal};
use super::queues::{Frame, NONE, State};
use super::{ACKNOWLEDGEMENT_BYTES, Air, Event, Outcome, Upcall, What, air_time};

/// What a node's radio does for its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// It has found the channel clear and turns around.
    Turns,
    /// It sends.
    Sends,
    /// It waits for an acknowledgement.
    Listens,
    /// It has to acknowledge a frame first.
    Answers,
}

/// What came while a node waited for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nothing,
    /// An acknowledgement with the sequence number of its frame.
    Acknowledgement,
    /// Something else, which Contiki reads instead and throws away.
    Other,
}

/// Frames that were received last, to know duplicates by.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Senders and sequence numbers, a ring for each node.
    entries: Vec<u32>,
    /// Where each node's next goes.
    next: Vec<u8>,
    remembered: usize,
}

impl Seen {
    pub(super) fn new(nodes: usize, mac: &MacSpec) -> Self {
        // Without acknowledgements nothing is sent twice, and Contiki has no filter.
        let remembered = usize::from(mac.duplicates_remembered) * usize::from(mac.acknowledged);
        Self {
            entries: vec![u32::MAX; nodes * remembered],
            next: vec![0; nodes],
            remembered,
        }
    }

    /// Whether a node saw this frame lately; it will have from now on.
    fn is_duplicate(&mut self, node: Node, from: Node, number: u8) -> bool {
        if self.remembered == 0 {
            return false;
        }
        let node = usize::from(node);
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

impl<P: Copy> Air<P> {
    /// A queue pauses. One that need not is tried at once, if `at_once`.
    pub(super) fn pause<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        queue: u32,
        pause: Pause,
        at_once: bool,
        schedule: &mut S,
    ) {
        self.queues.get_mut(queue).state = State::Pauses;
        let at = match pause {
            Pause::Ticks(ticks) => self.stations[usize::from(node)].clock.after(now, ticks),
            Pause::For(time) => now + time,
        };
        if at_once && at == now {
            // The first attempt for a frame never ends it, so there is nothing to say.
            let mut nothing = Vec::new();
            self.resume(now, node, queue, schedule, &mut nothing);
            debug_assert!(nothing.is_empty(), "a frame ended as it was handed down");
        } else {
            let what = What::Resume { queue };
            schedule(at, Event { node, what });
        }
    }

    /// A queue's time has come.
    pub(super) fn resume<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        queue: u32,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        self.queues.get_mut(queue).state = State::Waits;
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

    /// The radio is done with an attempt, if there was one, and takes up the next.
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
                next.state = State::Sends;
                station.waiting = next.next_waiting;
                station.active = queue;
                station.burst = if self.access.is_contiki() {
                    next.frames
                } else {
                    1
                };
            }
            if station.answer.is_some() || self.medium.sends(node) {
                station.phase = Phase::Answers;
                return;
            }
            if self.medium.is_busy(now, node) {
                self.counters[usize::from(node)].busy += 1;
                attempt = Some(Attempt::Busy);
                continue;
            }
            station.phase = Phase::Turns;
            let what = What::Begin;
            schedule(now + self.turnaround, Event { node, what });
            return;
        }
    }

    /// An attempt for the active queue's first frame has ended. The queue stays active if it goes
    /// on without a break.
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
        let mut tries = self.queues.get(queue).tries;
        let outcome = match self.access.next(attempt, &mut tries, &mut station.backoff) {
            Next::Again(pause) => {
                self.queues.get_mut(queue).tries = tries;
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
            transmissions: tries.transmissions,
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
            let pause = self.access.between(frame.bytes, &mut station.backoff);
            self.pause(now, node, queue, pause, false, schedule);
        }
    }

    /// The radio has turned around: a frame begins.
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
        station.phase = Phase::Sends;
        // An acknowledgement that was to follow is not sent.
        station.answer = None;
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

    /// The radio has turned around: an acknowledgement begins, if it still can.
    pub(super) fn acknowledge<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        schedule: &mut S,
    ) {
        let answer = self.stations[usize::from(node)].answer.take();
        let Some((to, number)) = answer else {
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
        let what = What::End;
        schedule(signal.until, Event { node, what });
    }

    /// What a node has on the air ends.
    pub(super) fn end<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        let mut received = std::mem::take(&mut self.received);
        received.clear();
        let signal = self.medium.end(node, &mut received);
        if signal.acknowledges {
            for at in &received {
                self.hear(now, *at, &signal, schedule, up);
            }
            if self.stations[usize::from(node)].phase == Phase::Answers {
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

    /// A node got an acknowledgement. It has no address: the sequence number decides.
    fn hear<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        signal: &Signal,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        let station = &mut self.stations[usize::from(node)];
        if station.phase != Phase::Listens || station.heard != Heard::Nothing {
            return;
        }
        let contiki = self.access.is_contiki();
        if self.queues.first(station.active).number == signal.number {
            station.heard = Heard::Acknowledgement;
            if !contiki {
                self.go_on(now, node, Some(Attempt::Sent), schedule, up);
            }
        } else if contiki {
            station.heard = Heard::Other;
        }
    }

    /// A node got a frame.
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
        let station = &mut self.stations[usize::from(node)];
        if signal.to == node && self.spec.acknowledged {
            station.answer = Some((from, signal.number));
            let what = What::Acknowledge;
            schedule(now + self.ack_turnaround, Event { node, what });
        }
        let listens = station.phase == Phase::Listens && station.heard == Heard::Nothing;
        if listens && self.access.is_contiki() {
            station.heard = Heard::Other;
            self.counters[usize::from(node)].discarded += 1;
            return;
        }
        if self.seen.is_duplicate(node, from, signal.number) {
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

    /// A node's frame has left the air.
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
        station.phase = Phase::Listens;
        station.heard = Heard::Nothing;
        station.transmission = station.transmission.wrapping_add(1);
        let transmission = station.transmission;
        let what = What::Judge { transmission };
        schedule(now + self.spec.ack_wait, Event { node, what });
    }

    /// The time for an acknowledgement is over, unless it came and that was enough.
    pub(super) fn judge<S: FnMut(Instant, Event)>(
        &mut self,
        now: Instant,
        node: Node,
        transmission: u16,
        schedule: &mut S,
        up: &mut Vec<Upcall<P>>,
    ) {
        let station = &self.stations[usize::from(node)];
        if station.phase != Phase::Listens || station.transmission != transmission {
            return;
        }
        let attempt = match station.heard {
            Heard::Acknowledgement => Attempt::Sent,
            Heard::Other => Attempt::Busy,
            Heard::Nothing => {
                // One that has begun in time is waited for.
                if let Some(signal) = self.medium.hears(node)
                    && signal.acknowledges
                    && signal.until > now
                {
                    let what = What::Judge { transmission };
                    schedule(signal.until, Event { node, what });
                    return;
                }
                Attempt::NotAcknowledged
            }
        };
        self.go_on(now, node, Some(attempt), schedule, up);
    }
}
