//! Server with a service time: a receive queue and a single worker.
//!
//! A datagram reaches the endpoint when its service is complete, so responses are piggybacked
//! however long a request waited. The queue is the socket's: a datagram leaves it when its service
//! begins.

use std::collections::VecDeque;

use carob_cc::time::{Duration, Instant};

use crate::random::Stream;
use crate::spec::server::{Copies, ServerRecord, ServerSpec, Works};
use crate::trace::NO_ITEM;

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
        // A service counts in full when it begins; its part after `now` is not over.
        if let Some((_, until)) = self.working {
            record.busy = record.busy.saturating_sub(until.since(now));
        }
        record
    }

    /// Adds a datagram of an exchange of a client; of none, for [`NO_ITEM`]. Returns it if the queue is
    /// full. If [nothing is in service](Self::is_idle), the next step is [`begin`](Self::begin).
    pub fn push(&mut self, client: u32, item: u32, datagram: T) -> Result<(), T> {
        // An idle worker takes the datagram at once, so it needs no place in the queue.
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
        // The event of a service that was removed finds none, or one that ends at another time.
        let ended = self.working.take_if(|(_, until)| *until == now)?;
        Some(ended.0)
    }

    /// Removes datagrams. Returns whether the one in service was removed.
    pub(crate) fn remove(&mut self, now: Instant, mut is_removed: impl FnMut(&T) -> bool) -> bool {
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
        // A client numbers its exchanges from 0 on, so bits are compact.
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
