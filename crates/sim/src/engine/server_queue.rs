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

    /// Checks that its values are possible.
    pub fn check(&self) -> Result<(), RunError> {
        if !self.is_used() {
            return Ok(());
        }
        let is_whole = |pauses: &PauseSchedule| {
            let interval = pauses.interval;
            !pauses.lasts.is_zero() && (interval.is_zero() || interval > pauses.lasts)
        };
        if !self.pauses.as_ref().is_none_or(is_whole) {
            return Err(RunError::ServerPauses);
        }
        if self.queue == 0 || self.queue > SERVER_QUEUE_MAX {
            return Err(RunError::ServerQueue(self.queue));
        }
        Ok(())
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

/// The application's work on requests, one after the other, in the order of their arrival.
#[derive(Debug)]
pub struct ServerWorker<T> {
    spec: ServerSpec,
    stream: Stream,
    busy_until: Instant,
    pending: VecDeque<T>,
}

impl<T> ServerWorker<T> {
    /// The worker of a group's server; none if the application takes no time.
    pub fn new(spec: &ServerSpec, seed: u64, group: u32) -> Option<Self> {
        let works = spec.is_used() && spec.works == Works::Application;
        works.then(|| Self {
            spec: *spec,
            stream: Stream::indexed(seed, "server/service", group),
            busy_until: Instant::ZERO,
            pending: VecDeque::new(),
        })
    }

    /// Accepts a request. Returns the time of its response; none if too many wait.
    pub fn accept(&mut self, now: Instant, request: T) -> Option<Instant> {
        // One is in service.
        if self.pending.len() > self.spec.queue as usize {
            return None;
        }
        let takes = self.spec.service.draw(&mut self.stream);
        self.busy_until = (self.spec).completion(self.busy_until.max(now), takes);
        self.pending.push_back(request);
        Some(self.busy_until)
    }

    /// The request whose service is complete.
    pub fn complete(&mut self) -> Option<T> {
        self.pending.pop_front()
    }

    /// Drops all requests, as a restart does.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.busy_until = Instant::ZERO;
    }
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
    spec.server.check()
}

/// A datagram at the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    to: u32,
    packet: u32,
}

/// A datagram in the receive queue, with the exchange that it belongs to.
#[derive(Debug)]
struct Queued<T> {
    client: u32,
    item: u32,
    datagram: T,
}

/// A receive queue of datagrams and its single worker.
#[derive(Debug)]
pub struct ServerQueue<T> {
    spec: ServerSpec,
    stream: Stream,
    queue: VecDeque<Queued<T>>,
    /// The datagram in service, and its completion time.
    working: Option<(T, Instant)>,
    /// By client, a bit for each of its exchanges that was served.
    served_items: Vec<Vec<u64>>,
    record: ServerRecord,
}

impl<T> ServerQueue<T> {
    /// The queue of a run; none without a service time, and if the application takes it.
    pub fn new(spec: &ServerSpec, seed: u64) -> Option<Self> {
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
    pub fn record(&self, now: Instant) -> ServerRecord {
        let mut record = self.record;
        if let Some((_, until)) = self.working {
            record.busy = record.busy.saturating_sub(until.since(now));
        }
        record
    }

    /// Adds a datagram of an exchange of a client; of none, for [`NO_ITEM`]. Returns it if the queue is
    /// full. If [nothing is in service](Self::is_idle), the next step is [`begin`](Self::begin).
    pub fn push(&mut self, client: u32, item: u32, datagram: T) -> Result<(), T> {
        if !self.is_idle() && self.queue.len() >= self.spec.queue as usize {
            self.record.dropped += 1;
            return Err(datagram);
        }
        self.queue.push_back(Queued {
            client,
            item,
            datagram,
        });
        if !self.is_idle() {
            self.record.queue_peak = self.record.queue_peak.max(self.queue.len() as u32);
        }
        Ok(())
    }

    /// Returns whether no datagram is in service.
    pub fn is_idle(&self) -> bool {
        self.working.is_none()
    }

    /// Begins the service of the next datagram. Returns its completion time; none if none waits.
    pub fn begin(&mut self, now: Instant) -> Option<Instant> {
        let next = self.queue.pop_front()?;
        let takes = self.service_time(next.client, next.item);
        let until = self.spec.completion(now, takes);
        self.working = Some((next.datagram, until));
        Some(until)
    }

    /// Completes the service that ends at `now`, if one does.
    pub fn complete(&mut self, now: Instant) -> Option<T> {
        let ended = self.working.take_if(|(_, until)| *until == now)?;
        Some(ended.0)
    }

    /// Removes datagrams. Returns whether the one in service was removed.
    fn remove(&mut self, now: Instant, mut is_removed: impl FnMut(&T) -> bool) -> bool {
        self.queue.retain(|queued| !is_removed(&queued.datagram));
        let ended = self.working.take_if(|(datagram, _)| is_removed(datagram));
        if let Some((_, until)) = ended {
            let left = until.since(now);
            self.record.busy = self.record.busy.saturating_sub(left);
        }
        ended.is_some()
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

    /// The service time of a datagram of this exchange.
    fn service_time(&mut self, client: u32, item: u32) -> Duration {
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
        let datagram = &self.datagrams[packet];
        let (from, Tag { item, attempt }) = (datagram.from, datagram.tag);
        let pushed = server_queue.push(from, item, Waiting { to, packet });
        if pushed.is_err() {
            self.trace
                .add(self.now, to, SimEvent::ServerFull { item, attempt });
            self.datagrams.release(packet);
        } else if server_queue.is_idle() {
            self.work();
        }
    }

    /// Begins the service of the next datagram.
    fn work(&mut self) {
        let now = self.now;
        let server_queue = self.server_queue.as_mut();
        if let Some(until) = server_queue.and_then(|server_queue| server_queue.begin(now)) {
            self.queue.push(until, Event::Served);
        }
    }

    /// Drops the queued and current requests of a server that restarts.
    pub(crate) fn forget_queue(&mut self, server: u32) {
        let Some(server_queue) = &mut self.server_queue else {
            return;
        };
        let datagrams = &mut self.datagrams;
        let was_working = server_queue.remove(self.now, |waiting| {
            if waiting.to == server {
                datagrams.release(waiting.packet);
            }
            waiting.to == server
        });
        if was_working {
            self.work();
        }
    }

    /// Completes the service of a datagram: passes it to the endpoint, and begins the next.
    pub(super) fn served(&mut self, applications: &mut Applications<N>) {
        let now = self.now;
        // Work that a restart ended completes no more.
        let ended = (self.server_queue.as_mut()).and_then(|queue| queue.complete(now));
        let Some(Waiting { to, packet }) = ended else {
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
