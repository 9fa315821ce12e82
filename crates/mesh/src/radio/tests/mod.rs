//! The radio as seen by the layer above.

mod by_hand;
mod capture;
mod chance;
mod limits;
mod reference;

use carob_sim_core::queue::EventQueue;
use carob_sim_core::random::Probability;

use super::*;
use crate::spec::{Csma, Delivery};
use crate::topology::{Place, TableLink};

const EDGE: i32 = 10_000;

/// A radio with its event queue. Payloads number the frames.
struct Bench {
    radio: Radio<u32>,
    events: EventQueue<Event>,
    /// Indications to the layer above, with their times.
    upcalls: Vec<(Instant, Upcall<u32>)>,
    up: Vec<Upcall<u32>>,
    /// Start times and senders of frames.
    begun: Vec<(u64, Node)>,
}

impl Bench {
    fn new(positions: &[Place], radio: &RadioSpec, mac: &MacSpec, seed: u64) -> Self {
        let ground = Ground {
            positions,
            regions: &[],
            table: None,
        };
        Self::on(&ground, radio, mac, seed)
    }

    fn on(ground: &Ground<'_>, radio: &RadioSpec, mac: &MacSpec, seed: u64) -> Self {
        Self {
            radio: Radio::new(ground, radio, mac, seed),
            events: EventQueue::new(),
            upcalls: Vec::new(),
            up: Vec::new(),
            begun: Vec::new(),
        }
    }

    fn send(
        &mut self,
        at: u64,
        node: Node,
        to: Option<Node>,
        bytes: u16,
        payload: u32,
    ) -> Result<(), SendError> {
        let (now, events) = (Instant::from_micros(at), &mut self.events);
        let mut schedule = |at, event| events.push(at, event);
        self.radio
            .send(now, node, to, bytes, payload, &mut schedule)
    }

    /// Processes the next event before `until`.
    fn step(&mut self, until: u64) -> bool {
        let Some((now, event)) = self.events.pop_until(Instant::from_micros(until)) else {
            return false;
        };
        if event.what == RadioEvent::Begin {
            self.begun.push((now.as_micros(), event.node));
        }
        let events = &mut self.events;
        let mut schedule = |at, event| events.push(at, event);
        self.radio.handle(now, event, &mut schedule, &mut self.up);
        self.upcalls.extend(self.up.drain(..).map(|up| (now, up)));
        true
    }

    fn run(&mut self, until: u64) {
        while self.step(until) {}
    }

    /// Runs until no event is pending, and checks that all buffers are free.
    fn finish(&mut self) {
        self.run(u64::MAX);
        assert_eq!(self.radio.queues.in_use(), (0, 0));
        assert!(self.radio.stations.iter().all(|station| {
            station.queued == 0
                && station.phase == Phase::Idle
                && station.active == NONE
                && station.waiting == NONE
                && station.pending_ack.is_none()
        }));
        assert!(self.radio.medium.is_silent());
    }

    /// Received frames: time, receiver, frame.
    fn received(&self) -> Vec<(u64, Node, u32)> {
        let received = self.upcalls.iter().filter_map(|(at, up)| match up {
            Upcall::Received {
                at: node, payload, ..
            } => Some((at.as_micros(), *node, *payload)),
            Upcall::Sent { .. } => None,
        });
        received.collect()
    }

    /// Completed frames: time, frame, transmissions, outcome.
    fn sent(&self) -> Vec<(u64, u32, u8, Outcome)> {
        let sent = self.upcalls.iter().filter_map(|(at, up)| match up {
            Upcall::Sent {
                payload,
                transmissions,
                outcome,
                ..
            } => Some((at.as_micros(), *payload, *transmissions, *outcome)),
            Upcall::Received { .. } => None,
        });
        sent.collect()
    }
}

/// Nodes in a row, 10 m apart.
fn row(nodes: i32) -> Vec<Place> {
    (0..nodes).map(|k| (k * EDGE, 0, 0)).collect()
}

fn grid(side: i32) -> Vec<Place> {
    (0..side * side)
        .map(|k| (k % side * EDGE, k / side * EDGE, 0))
        .collect()
}

/// The standard's MAC and turnaround times.
fn standard() -> (RadioSpec, MacSpec) {
    let radio = RadioSpec {
        turnaround: Duration::from_micros(192),
        ack_turnaround: Duration::from_micros(192),
        ..RadioSpec::default()
    };
    let mac = MacSpec {
        csma: Csma::Ieee802154,
        ack_wait: Duration::from_micros(864),
        ..MacSpec::default()
    };
    (radio, mac)
}

fn contiki(csma: Csma) -> MacSpec {
    MacSpec {
        csma,
        ..MacSpec::default()
    }
}
