//! The air as the layer above sees it.

mod by_hand;
mod chance;
mod limits;
mod reference;

use super::*;
use crate::mesh::spec::{Csma, Delivery};
use crate::mesh::topology::{Place, TableLink};
use crate::queue::EventQueue;
use crate::random::Probability;

const EDGE: i32 = 10_000;

/// An air with its events. Payloads count the frames.
struct Bench {
    air: Air<u32>,
    events: EventQueue<Event>,
    /// What the layer above was told, and when.
    told: Vec<(Instant, Upcall<u32>)>,
    up: Vec<Upcall<u32>>,
    /// When frames began, and whose.
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
            air: Air::new(ground, radio, mac, seed),
            events: EventQueue::new(),
            told: Vec::new(),
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
    ) -> Result<(), Refused> {
        let (now, events) = (Instant::from_micros(at), &mut self.events);
        let mut schedule = |at, event| events.push(at, event);
        self.air.send(now, node, to, bytes, payload, &mut schedule)
    }

    /// Goes on to the next event, if it is before `until`.
    fn step(&mut self, until: u64) -> bool {
        let Some((now, event)) = self.events.pop_until(Instant::from_micros(until)) else {
            return false;
        };
        if event.what == What::Begin {
            self.begun.push((now.as_micros(), event.node));
        }
        let events = &mut self.events;
        let mut schedule = |at, event| events.push(at, event);
        self.air.handle(now, event, &mut schedule, &mut self.up);
        self.told.extend(self.up.drain(..).map(|up| (now, up)));
        true
    }

    fn run(&mut self, until: u64) {
        while self.step(until) {}
    }

    /// Runs until nothing happens any more, and checks that nothing is left over.
    fn finish(&mut self) {
        self.run(u64::MAX);
        assert_eq!(self.air.queues.in_use(), (0, 0));
        assert!(self.air.stations.iter().all(|station| {
            station.queued == 0
                && station.phase == Phase::Idle
                && station.active == NONE
                && station.waiting == NONE
                && station.answer.is_none()
        }));
        assert!(self.air.medium.is_silent());
    }

    /// When which frame arrived where.
    fn received(&self) -> Vec<(u64, Node, u32)> {
        let received = self.told.iter().filter_map(|(at, up)| match up {
            Upcall::Received {
                at: node, payload, ..
            } => Some((at.as_micros(), *node, *payload)),
            Upcall::Sent { .. } => None,
        });
        received.collect()
    }

    /// When which frame was done with, its transmissions and outcome.
    fn sent(&self) -> Vec<(u64, u32, u8, Outcome)> {
        let sent = self.told.iter().filter_map(|(at, up)| match up {
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
