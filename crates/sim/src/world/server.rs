//! A server that takes its time: datagrams wait in a receive queue, and one at a time is worked on.
//!
//! A datagram reaches the endpoint when the work on it is done, so answers are piggybacked however
//! long a request waited. The queue is the socket's: what the server works on has left it.

use std::collections::VecDeque;

use carob_cc::time::{Duration, Instant};

use super::{Happening, RunError, World};
use crate::groups::Kind;
use crate::host::{NO_ITEM, Tag};
use crate::random::Stream;
use crate::spec::{RunSpec, Span, Transport};
use crate::trace::What;

/// The most datagrams a server's receive queue may have room for.
pub const SERVER_QUEUE_MAX: u32 = 65_536;

/// What requests cost the server, which is one machine for all clients of a run. Of datagrams only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// How long it works on each datagram, drawn uniformly on the stream `"server/service"`. While
    /// it does, others wait. Nothing: it answers at once, and nothing ever waits.
    pub service: Span,
    /// Datagrams that its receive queue has room for, the one it works on apart; 1 to
    /// [`SERVER_QUEUE_MAX`]. One that finds it full is dropped.
    pub queue: u32,
    /// What copies of requests cost that it has worked on.
    pub copies: Copies,
}

impl ServerSpec {
    /// A receive queue, in datagrams, where nothing else is said.
    pub const QUEUE: u32 = 50;

    /// Whether anything ever waits.
    pub fn is_used(&self) -> bool {
        !self.service.high.is_zero()
    }
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            service: Span::default(),
            queue: Self::QUEUE,
            copies: Copies::default(),
        }
    }
}

/// What copies of requests cost a server that has worked on the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// As much as the request did.
    #[default]
    Cost,
    /// Nothing: it knows them at once. They take room in the queue.
    Free,
}

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerRecord {
    /// Datagrams that it has worked on.
    pub handled: u64,
    /// Of those, copies of requests that it had worked on before.
    pub repeated: u64,
    /// Datagrams that found the receive queue full.
    pub dropped: u64,
    /// The most datagrams that waited at a time.
    pub queue_peak: u32,
    /// Time spent working.
    pub busy: Duration,
}

/// Faults of a specification that are about its server.
pub(super) fn check(spec: &RunSpec) -> Result<(), RunError> {
    if !spec.server.is_used() {
        return Ok(());
    }
    let over_tcp = |kind: &Kind<'_>| *kind.transport != Transport::Datagrams;
    if spec.kinds().iter().any(over_tcp) {
        return Err(RunError::ServiceOverConnections);
    }
    let queue = spec.server.queue;
    if queue == 0 || queue > SERVER_QUEUE_MAX {
        return Err(RunError::ServerQueue(queue));
    }
    Ok(())
}

/// A datagram at the server.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    to: u32,
    packet: u32,
}

/// A receive queue and the one worker behind it.
#[derive(Debug)]
pub(super) struct Serial {
    spec: ServerSpec,
    stream: Stream,
    queue: VecDeque<Waiting>,
    /// What is worked on, and when that is done.
    working: Option<(Waiting, Instant)>,
    /// By client, a bit for each of its exchanges that was worked on.
    known: Vec<Vec<u64>>,
    record: ServerRecord,
}

impl Serial {
    /// That of a run; nothing where requests cost nothing.
    pub(super) fn new(spec: &ServerSpec, seed: u64) -> Option<Self> {
        spec.is_used().then(|| Self {
            spec: *spec,
            stream: Stream::new(seed, "server/service"),
            queue: VecDeque::new(),
            working: None,
            known: Vec::new(),
            record: ServerRecord::default(),
        })
    }

    /// What it did until `now`.
    pub(super) fn record(mut self, now: Instant) -> ServerRecord {
        if let Some((_, until)) = self.working {
            self.record.busy = self.record.busy.saturating_sub(until.since(now));
        }
        self.record
    }

    /// Notes that the server works on an exchange; whether it did so before.
    fn is_known(&mut self, client: u32, item: u32) -> bool {
        if item == NO_ITEM {
            return false;
        }
        let (client, word) = (client as usize, item as usize / 64);
        if self.known.len() <= client {
            self.known.resize(client + 1, Vec::new());
        }
        let words = &mut self.known[client];
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        let bit = 1 << (item % 64);
        let known = words[word] & bit != 0;
        words[word] |= bit;
        known
    }

    /// Work on a datagram of this exchange begins; how long it takes.
    fn begin(&mut self, client: u32, item: u32) -> Duration {
        let repeated = self.is_known(client, item);
        self.record.handled += 1;
        self.record.repeated += u64::from(repeated);
        if repeated && self.spec.copies == Copies::Free {
            return Duration::ZERO;
        }
        let Span { low, high } = self.spec.service;
        let takes = self.stream.uniform(low, high);
        self.record.busy += takes;
        takes
    }
}

impl World<'_> {
    /// A datagram finds its place in the receive queue, if there is one.
    pub(super) fn enqueue(&mut self, to: u32, packet: u32) {
        let Some(serial) = &mut self.serial else {
            return;
        };
        let is_idle = serial.working.is_none();
        if !is_idle && serial.queue.len() >= serial.spec.queue as usize {
            serial.record.dropped += 1;
            let Tag { item, attempt } = self.packets[packet].tag.unwrap_or(Tag::NONE);
            self.trace
                .add(self.now, to, What::ServerFull { item, attempt });
            self.packets.release(packet);
            return;
        }
        serial.queue.push_back(Waiting { to, packet });
        if is_idle {
            self.work();
        } else {
            let waiting = serial.queue.len() as u32;
            serial.record.queue_peak = serial.record.queue_peak.max(waiting);
        }
    }

    /// The server takes the next datagram out of its queue.
    fn work(&mut self) {
        let Some(serial) = &mut self.serial else {
            return;
        };
        let Some(waiting) = serial.queue.pop_front() else {
            return;
        };
        let packet = &self.packets[waiting.packet];
        let item = packet.tag.map_or(NO_ITEM, |tag| tag.item);
        let until = self.now + serial.begin(packet.from, item);
        serial.working = Some((waiting, until));
        self.queue.push(until, Happening::Served);
    }

    /// The work on a datagram is done: the endpoint hears of it, and the next one's turn comes.
    pub(super) fn served(&mut self) {
        let working = self
            .serial
            .as_mut()
            .and_then(|serial| serial.working.take());
        let Some((Waiting { to, packet }, _)) = working else {
            return;
        };
        let Tag { item, attempt } = self.packets[packet].tag.unwrap_or(Tag::NONE);
        self.trace.add(self.now, to, What::Served { item, attempt });
        self.receive(to, packet);
        self.work();
    }
}
