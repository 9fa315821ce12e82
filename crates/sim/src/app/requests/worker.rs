//! Work of the server's application on requests, one after the other, with separate responses.

use std::collections::VecDeque;

use carob_cc::time::Instant;
use carob_proto::endpoint::IncomingId;

use crate::engine::Tag;
use crate::random::Stream;
use crate::spec::{ServerSpec, Works};

/// A request that waits for its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) request: IncomingId,
    /// The tag of its datagram, to which the response belongs.
    pub(super) tag: Tag,
}

/// A queue of requests and a single worker.
#[derive(Debug)]
pub(super) struct Worker {
    spec: ServerSpec,
    stream: Stream,
    busy_until: Instant,
    pending: VecDeque<Pending>,
}

impl Worker {
    /// The worker of a group's server; none if the application takes no time.
    pub(super) fn new(spec: &ServerSpec, seed: u64, group: u32) -> Option<Self> {
        let works = spec.is_used() && spec.works == Works::Application;
        works.then(|| Self {
            spec: *spec,
            stream: Stream::indexed(seed, "server/service", group),
            busy_until: Instant::ZERO,
            pending: VecDeque::new(),
        })
    }

    /// Accepts a request. Returns the time of its response; none if too many wait.
    pub(super) fn accept(&mut self, now: Instant, pending: Pending) -> Option<Instant> {
        // One is in service.
        if self.pending.len() > self.spec.queue as usize {
            return None;
        }
        let takes = self.spec.service.draw(&mut self.stream);
        self.busy_until = (self.spec).completion(self.busy_until.max(now), takes);
        self.pending.push_back(pending);
        Some(self.busy_until)
    }

    /// The request whose service is complete.
    pub(super) fn complete(&mut self) -> Option<Pending> {
        self.pending.pop_front()
    }

    /// Drops all requests, as a restart does.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.busy_until = Instant::ZERO;
    }
}
