//! Server with a service time: a receive queue and a single worker.
//!
//! A datagram reaches the endpoint when its service is complete, so responses are piggybacked
//! however long a request waited. The queue is the socket's: a datagram leaves it when its service
//! begins.

use std::collections::VecDeque;

use carob_cc::time::{Duration, Instant};

use super::host::{NO_ITEM, Tag};
use super::{Engine, Event, RunError};
use crate::app::Applications;
use crate::client_groups::GroupSpec;
use crate::distribution::TimeDistribution;
use crate::net::Network;
use crate::random::Stream;
use crate::spec::{RunSpec, Transport};
use crate::trace::SimEvent;

/// The maximum receive queue of a server, in datagrams.
pub const SERVER_QUEUE_MAX: u32 = 65_536;

/// Service time of the server, a single machine for all clients of a run. Datagrams only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// Service time of each datagram, drawn on the stream `"server/service"`. Others wait
    /// meanwhile. Zero disables the queue, unless there are pauses: the server responds at once.
    pub service: TimeDistribution,
    /// Receive queue in datagrams, the one in service excluded; 1 to [`SERVER_QUEUE_MAX`]. Further
    /// ones are dropped. With separate responses, requests that wait for the application; further
    /// ones are answered with 5.03.
    pub queue: u32,
    /// Service time of retransmissions of requests it has served.
    pub copies: Copies,
    /// The part of the server that takes the service time.
    pub works: Works,
    /// Times in which no work is done, as of garbage collection; none by default.
    pub pauses: Option<PauseSchedule>,
}

/// The part of the server that takes the service time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Works {
    /// The endpoint: a datagram reaches it when its service is complete, so that responses are
    /// piggybacked.
    #[default]
    Endpoint,
    /// The application: the endpoint acknowledges a request when its response takes longer than
    /// `empty_ack_delay`, and the response is separate (RFC 7252 5.2.2).
    Application,
}

/// Pauses of a server. Work that meets one continues after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseSchedule {
    /// Beginning of the first.
    pub first: Duration,
    /// Time between the beginnings of two pauses, longer than a pause; zero for a single
    /// one.
    pub interval: Duration,
    /// Length of each.
    pub lasts: Duration,
}

impl PauseSchedule {
    /// The pause that began last at `now`, and the beginning of the next one.
    fn around(&self, now: Instant) -> (Option<Instant>, Option<Instant>) {
        let first = Instant::ZERO + self.first;
        if now < first {
            return (None, Some(first));
        }
        let number = now.since(first).as_micros();
        match number.checked_div(self.interval.as_micros()) {
            None => (Some(first), None),
            Some(number) => {
                let begin = first + self.interval.times(number);
                (Some(begin), Some(begin + self.interval))
            }
        }
    }

    /// Completion of work that begins at `from` and takes this long without pauses.
    fn completion(&self, from: Instant, takes: Duration) -> Instant {
        let (mut at, mut left) = (from, takes);
        loop {
            let (last, next) = self.around(at);
            at = last.map_or(at, |begin| at.max(begin + self.lasts));
            let Some(next) = next.filter(|next| next.since(at) < left) else {
                return at + left;
            };
            left = left.saturating_sub(next.since(at));
            at = next;
        }
    }
}

impl ServerSpec {
    /// The default receive queue, in datagrams.
    pub const QUEUE: u32 = 50;

    /// Returns whether requests ever wait.
    pub fn is_used(&self) -> bool {
        !self.service.is_zero() || self.pauses.is_some()
    }

    /// Completion of work that begins at `from` and takes this long without pauses.
    pub(crate) fn completion(&self, from: Instant, takes: Duration) -> Instant {
        let without = from + takes;
        self.pauses
            .map_or(without, |pauses| pauses.completion(from, takes))
    }
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            service: TimeDistribution::default(),
            queue: Self::QUEUE,
            copies: Copies::default(),
            works: Works::default(),
            pauses: None,
        }
    }
}

/// Service time of retransmissions of a served request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// The same as of the request.
    #[default]
    Cost,
    /// Zero: the server recognises them at once. They occupy the queue.
    Free,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServerRecord {
    /// Datagrams served.
    pub handled: u64,
    /// Requests that were retransmissions of requests served before.
    pub repeated: u64,
    /// Datagrams dropped at a full receive queue.
    pub dropped: u64,
    /// The longest receive queue, in datagrams.
    pub queue_peak: u32,
    /// Total service time.
    pub busy: Duration,
}

/// Checks the server's part of a specification.
pub(super) fn check(spec: &RunSpec) -> Result<(), RunError> {
    if !spec.server.is_used() {
        return Ok(());
    }
    let over_tcp = |group: &GroupSpec<'_>| *group.transport != Transport::Datagrams;
    if spec.groups().iter().any(over_tcp) {
        return Err(RunError::ServiceOverConnections);
    }
    if let Some(pauses) = spec.server.pauses
        && (pauses.lasts.is_zero() || !pauses.interval.is_zero() && pauses.interval <= pauses.lasts)
    {
        return Err(RunError::ServerPauses);
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

/// A receive queue and its single worker.
#[derive(Debug)]
pub(super) struct ServerQueue {
    spec: ServerSpec,
    stream: Stream,
    queue: VecDeque<Waiting>,
    /// The datagram in service, and its completion time.
    working: Option<(Waiting, Instant)>,
    /// By client, a bit for each of its exchanges that was served.
    served_items: Vec<Vec<u64>>,
    record: ServerRecord,
}

impl ServerQueue {
    /// The queue of a run; none without a service time.
    pub(super) fn new(spec: &ServerSpec, seed: u64) -> Option<Self> {
        let waits = spec.is_used() && spec.works == Works::Endpoint;
        waits.then(|| Self {
            spec: *spec,
            stream: Stream::new(seed, "server/service"),
            queue: VecDeque::new(),
            working: None,
            served_items: Vec::new(),
            record: ServerRecord::default(),
        })
    }

    /// The counters until `now`.
    pub(super) fn record(mut self, now: Instant) -> ServerRecord {
        if let Some((_, until)) = self.working {
            self.record.busy = self.record.busy.saturating_sub(until.since(now));
        }
        self.record
    }

    /// Records the service of an exchange. Returns whether it was served before.
    fn was_served(&mut self, client: u32, item: u32) -> bool {
        if item == NO_ITEM {
            return false;
        }
        let (client, word) = (client as usize, item as usize / 64);
        if self.served_items.len() <= client {
            self.served_items.resize(client + 1, Vec::new());
        }
        let words = &mut self.served_items[client];
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        let bit = 1 << (item % 64);
        let known = words[word] & bit != 0;
        words[word] |= bit;
        known
    }

    /// Begins the service of a datagram of this exchange. Returns its service time.
    fn begin(&mut self, client: u32, item: u32) -> Duration {
        let repeated = self.was_served(client, item);
        self.record.handled += 1;
        self.record.repeated += u64::from(repeated);
        if repeated && self.spec.copies == Copies::Free {
            return Duration::ZERO;
        }
        let takes = self.spec.service.draw(&mut self.stream);
        self.record.busy += takes;
        takes
    }
}

impl<N: Network> Engine<'_, N> {
    /// Adds a datagram to the receive queue, unless it is full.
    pub(super) fn enqueue(&mut self, to: u32, packet: u32) {
        let Some(server_queue) = &mut self.server_queue else {
            return;
        };
        let is_idle = server_queue.working.is_none();
        if !is_idle && server_queue.queue.len() >= server_queue.spec.queue as usize {
            server_queue.record.dropped += 1;
            let Tag { item, attempt } = self.datagrams[packet].tag;
            self.trace
                .add(self.now, to, SimEvent::ServerFull { item, attempt });
            self.datagrams.release(packet);
            return;
        }
        server_queue.queue.push_back(Waiting { to, packet });
        if is_idle {
            self.work();
        } else {
            let waiting = server_queue.queue.len() as u32;
            server_queue.record.queue_peak = server_queue.record.queue_peak.max(waiting);
        }
    }

    /// Begins the service of the next datagram.
    fn work(&mut self) {
        let Some(server_queue) = &mut self.server_queue else {
            return;
        };
        let Some(waiting) = server_queue.queue.pop_front() else {
            return;
        };
        let datagram = &self.datagrams[waiting.packet];
        let takes = server_queue.begin(datagram.from, datagram.tag.item);
        let until = server_queue.spec.completion(self.now, takes);
        server_queue.working = Some((waiting, until));
        self.queue.push(until, Event::Served);
    }

    /// Drops the queued and current requests of a server that restarts.
    pub(crate) fn forget_queue(&mut self, server: u32) {
        let Some(server_queue) = &mut self.server_queue else {
            return;
        };
        let datagrams = &mut self.datagrams;
        server_queue.queue.retain(|waiting| {
            if waiting.to == server {
                datagrams.release(waiting.packet);
            }
            waiting.to != server
        });
        let now = self.now;
        let is_of = |(working, _): &mut (Waiting, Instant)| working.to == server;
        if let Some((waiting, until)) = server_queue.working.take_if(is_of) {
            self.datagrams.release(waiting.packet);
            let left = until.since(now);
            server_queue.record.busy = server_queue.record.busy.saturating_sub(left);
            self.work();
        }
    }

    /// Completes the service of a datagram: passes it to the endpoint, and begins the next.
    pub(super) fn served(&mut self, applications: &mut Applications<N>) {
        let now = self.now;
        // Work that a restart ended completes no more.
        let working = (self.server_queue.as_mut())
            .and_then(|server_queue| server_queue.working.take_if(|(_, until)| *until == now));
        let Some((Waiting { to, packet }, _)) = working else {
            return;
        };
        let Tag { item, attempt } = self.datagrams[packet].tag;
        self.trace
            .add(self.now, to, SimEvent::Served { item, attempt });
        let number = self.hosts[to as usize].application;
        self.receive(&mut *applications[usize::from(number)], packet);
        self.work();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions(pauses: PauseSchedule, work: &[(u64, u64)]) -> Vec<u64> {
        let spec = ServerSpec {
            pauses: Some(pauses),
            ..ServerSpec::default()
        };
        let s = Duration::from_secs;
        let one = |&(from, takes): &(u64, u64)| {
            let from = Instant::ZERO + s(from);
            spec.completion(from, s(takes)).as_micros() / 1_000_000
        };
        work.iter().map(one).collect()
    }

    #[test]
    fn work_waits_in_pauses_and_goes_on_after_them() {
        let s = Duration::from_secs;
        let mut pauses = PauseSchedule {
            first: s(10),
            interval: Duration::ZERO,
            lasts: s(5),
        };
        let work = [
            (0, 3),
            (0, 10),
            (8, 3),
            (10, 0),
            (14, 1),
            (15, 1),
            (100, 100),
        ];
        assert_eq!(completions(pauses, &work), [3, 10, 16, 15, 16, 16, 200]);
        pauses.interval = s(20);
        // 25 s of work from 0: 10 s, then 15 s from 15 to 30, and no pause is needed at its end.
        let work = [(0, 25), (0, 26), (29, 30), (30, 1)];
        assert_eq!(completions(pauses, &work), [30, 36, 69, 36]);
    }
}
