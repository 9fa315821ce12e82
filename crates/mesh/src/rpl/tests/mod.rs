//! One node and its inputs.

mod choice;
mod downward_routes;
mod joining;
mod packets;

use carob_cc::time::{Duration, Instant};

use super::*;
use crate::spec::{LoopRule, Objective as ObjectiveKind, RplSpec};

const ME: Node = 7;

/// A node with its clock and all its outputs.
struct Bench {
    rpl: Rpl,
    now: Instant,
    outputs: Vec<(Instant, Output)>,
}

impl Bench {
    fn new(spec: &RplSpec) -> Self {
        Self::with(spec, false)
    }

    fn root(spec: &RplSpec) -> Self {
        Self::with(spec, true)
    }

    fn with(spec: &RplSpec, is_root: bool) -> Self {
        let rpl = Rpl::new(ME, is_root, spec, Stream::new(1, "rpl"));
        let (now, outputs) = (Instant::ZERO, Vec::new());
        let mut bench = Self { rpl, now, outputs };
        bench.rpl.start(bench.now);
        bench.drain();
        bench
    }

    /// Drains the node. Returns the time of its next timeout.
    fn drain(&mut self) -> Option<Instant> {
        loop {
            match self.rpl.poll() {
                Output::Wait(at) => return at,
                output => self.outputs.push((self.now, output)),
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.drain().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.rpl.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// Passes the next periodic check.
    fn second(&mut self) {
        self.run_for(Duration::from_millis(1_001));
    }

    fn receive(&mut self, from: Node, message: Message) {
        self.rpl.handle_message(self.now, from, &message);
        self.drain();
    }

    fn dio(&mut self, from: Node, rank: u16) {
        self.dio_with(from, rank, Lollipop::START);
    }

    fn dio_with(&mut self, from: Node, rank: u16, dtsn: Lollipop) {
        let version = Lollipop::START;
        let dio = Message::Dio {
            rank,
            version,
            dtsn,
        };
        self.receive(from, dio);
    }

    fn dao(&mut self, from: Node, target: Node, no_path: bool) {
        let dao = Message::Dao {
            target,
            parent: None,
            no_path,
            sequence: Lollipop::START,
        };
        self.receive(from, dao);
    }

    fn feedback(&mut self, neighbour: Node, times: u32, transmissions: u8, acknowledged: bool) {
        for _ in 0..times {
            let now = self.now;
            self.rpl
                .handle_feedback(now, neighbour, transmissions, acknowledged);
        }
        self.drain();
    }

    fn take(&mut self) -> Vec<(Instant, Output)> {
        self.drain();
        std::mem::take(&mut self.outputs)
    }

    fn events(&mut self) -> Vec<RplEvent> {
        let outputs = self.take().into_iter();
        let events = outputs.filter_map(|(_, output)| match output {
            Output::Event(event) => Some(event),
            _ => None,
        });
        events.collect()
    }

    fn sent(&mut self) -> Vec<(Instant, Destination, Message)> {
        let outputs = self.take().into_iter();
        let sent = outputs.filter_map(|(at, output)| match output {
            Output::Send { to, message } => Some((at, to, message)),
            _ => None,
        });
        sent.collect()
    }

    fn packet(&mut self, destination: Node, option: &mut RplOption, from: Option<Node>) -> Hop {
        let hop = self.rpl.route(self.now, destination, option, from);
        self.drain();
        hop
    }
}

fn dios(sent: &[(Instant, Destination, Message)]) -> Vec<(Instant, u16)> {
    let dios = sent.iter().filter_map(|(at, to, message)| match message {
        Message::Dio { rank, .. } if *to == Destination::Multicast => Some((*at, *rank)),
        _ => None,
    });
    dios.collect()
}

/// DAOs by destination, target, and No-Path flag.
fn daos(sent: &[(Instant, Destination, Message)]) -> Vec<(Destination, Node, bool)> {
    let daos = sent.iter().filter_map(|(_, to, message)| match *message {
        Message::Dao {
            target, no_path, ..
        } => Some((*to, target, no_path)),
        _ => None,
    });
    daos.collect()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
