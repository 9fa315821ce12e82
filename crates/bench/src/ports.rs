//! All source ports of a thread: opened, waited for, read, written, woken.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant as Wall};

use carob_cc::time::Instant;
use carob_proto::endpoint::{Config, Event, RequestConfig, RequestError, RequestId};
use carob_proto::message::Request;

use super::plan::{Plan, Target};
use super::port::{Port, PortOutput};
use super::session::Room;
use super::slots::SourcePorts;
use super::socket::{Batch, Poller};
use super::worker::Control;

/// Handshakes under way at a time before the load begins: more would wait for each other at the server,
/// which may have a limit for one source.
const CONNECTING: usize = 64;
/// Longest delay of the reaction to Ctrl-C.
const TURN: Duration = Duration::from_millis(100);
/// Delay until a socket with a full buffer is tried again.
const FULL: Duration = Duration::from_millis(1);

/// A moment, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// Nanoseconds since the start.
    pub(super) nanos: u64,
    /// The engine's time.
    pub(super) at: Instant,
}

/// The time since the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Wall);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Wall::now())
    }

    pub(super) fn now(self) -> Now {
        let nanos = self.0.elapsed().as_nanos() as u64;
        Now {
            nanos,
            at: Instant::from_micros(nanos / 1_000),
        }
    }

    /// Time of a number of nanoseconds since the start.
    pub(super) fn wall(self, nanos: u64) -> Wall {
        self.0 + Duration::from_nanos(nanos)
    }
}

/// The source ports of one thread.
pub(super) struct Ports {
    by_key: BTreeMap<usize, Port>,
    config: Config,
    /// Timeout of a handshake.
    patience: Duration,
    poller: Poller,
    next_key: usize,
    /// Earliest timeout of all engines, in nanoseconds.
    due: u64,
    /// Ports that may have something to send.
    dirty: Vec<usize>,
    spare: Vec<usize>,
    /// Ports whose socket had no room.
    full: Vec<usize>,
    ready: Vec<usize>,
    pub(super) output: PortOutput,
}

impl Ports {
    pub(super) fn new(plan: &Plan) -> io::Result<Self> {
        Ok(Self {
            by_key: BTreeMap::new(),
            config: plan.config(),
            patience: plan.timeout,
            poller: Poller::new()?,
            next_key: 0,
            due: u64::MAX,
            dirty: Vec::new(),
            spare: Vec::new(),
            full: Vec::new(),
            ready: Vec::new(),
            output: PortOutput {
                room: Room::new(plan.is_secured()),
                ..PortOutput::default()
            },
        })
    }

    /// Opens a fresh source port; its key, which no other port ever has.
    ///
    /// Over coaps, the first request makes a session, unless [`connect`](Self::connect) has made
    /// it before.
    pub(super) fn open(&mut self, target: &Arc<Target>, fresh: &SourcePorts) -> io::Result<usize> {
        let key = self.next_key;
        let socket = fresh.open(target.address)?;
        self.poller.add(&socket, key)?;
        let target = Arc::clone(target);
        let port = Port::new(key, target, socket, &self.config, self.patience)?;
        self.by_key.insert(key, port);
        self.next_key += 1;
        Ok(key)
    }

    /// Makes the sessions of all ports that have none. It ends with the first that cannot be made,
    /// whose error, one of the library's, is in the one returned; or when everything is to stop.
    pub(super) fn connect(
        &mut self,
        clock: Clock,
        control: &Control,
        batch: &mut Batch,
    ) -> io::Result<()> {
        let wants = |(key, port): (&usize, &Port)| port.wants_session().then_some(*key);
        let mut waiting: Vec<usize> = self.by_key.iter().filter_map(wants).collect();
        let mut connecting: Vec<usize> = Vec::new();
        let mut now = clock.now();
        while !control.is_stopped() {
            while connecting.len() < CONNECTING
                && let Some(key) = waiting.pop()
            {
                if let Some(port) = self.by_key.get_mut(&key) {
                    port.dial(now.at, &mut self.output);
                    connecting.push(key);
                    self.touched(key);
                }
            }
            self.flush(now, batch);
            if let Some(error) = self.output.no_session.take() {
                self.end();
                return Err(io::Error::other(error));
            }
            let by_key = &self.by_key;
            connecting.retain(|key| by_key.get(key).is_some_and(Port::is_connecting));
            if connecting.is_empty() && waiting.is_empty() {
                break;
            }
            let ready = self.wait(clock, now.nanos + TURN.as_nanos() as u64)?;
            now = clock.now();
            for &key in &ready {
                now = self.receive(clock, key, batch);
            }
            self.give_back(ready);
            self.expire(now, batch);
        }
        Ok(())
    }

    /// Closes a port, and its session.
    pub(super) fn close(&mut self, key: usize) {
        self.poller.remove(key);
        if let Some(mut port) = self.by_key.remove(&key) {
            port.close(&mut self.output);
        }
    }

    /// Closes all sessions.
    pub(super) fn end(&mut self) {
        for port in self.by_key.values_mut() {
            port.close(&mut self.output);
        }
    }

    /// The cipher suite of the sessions, if there are any.
    pub(super) fn suite(&self) -> Option<&'static str> {
        self.by_key.values().find_map(Port::suite)
    }

    /// Messages sent from a port, repetitions apart.
    pub(super) fn messages(&self, key: usize) -> u32 {
        self.by_key.get(&key).map_or(0, Port::messages)
    }

    /// Starts a request; it leaves with the next [`flush`](Self::flush).
    pub(super) fn request(
        &mut self,
        now: Now,
        key: usize,
        request: Request,
        sending: RequestConfig,
    ) -> Result<RequestId, RequestError> {
        // The key of a closed port is not in use.
        let port = (self.by_key.get_mut(&key)).ok_or(RequestError::PeersFull)?;
        let id = port.request(now.at, request, sending, &mut self.output)?;
        self.touched(key);
        Ok(id)
    }

    /// Lets a body that is read as a stream go on.
    pub(super) fn read_on(&mut self, now: Now, key: usize, id: RequestId) {
        if let Some(port) = self.by_key.get_mut(&key) {
            port.read_on(now.at, id, &mut self.output);
            self.touched(key);
        }
    }

    /// A request had no answer in time: its session is given up if it is silent.
    pub(super) fn doubt(&mut self, now: Now, key: usize) {
        if let Some(port) = self.by_key.get_mut(&key) {
            port.doubt(now.at, &mut self.output);
            self.touched(key);
        }
    }

    /// Waits until there is something to read, an engine's time has come, or `until` has; in
    /// nanoseconds since the start. Returns the ports to [`receive`](Self::receive) from; give the
    /// list back to be used again.
    pub(super) fn wait(&mut self, clock: Clock, until: u64) -> io::Result<Vec<usize>> {
        let mut until = until.min(self.due);
        if !self.full.is_empty() {
            until = until.min(clock.now().nanos + FULL.as_nanos() as u64);
        }
        let mut ready = core::mem::take(&mut self.ready);
        ready.clear();
        let wall = (until < u64::MAX).then(|| clock.wall(until));
        self.poller.wait(wall, &mut ready)?;
        Ok(ready)
    }

    pub(super) fn give_back(&mut self, ready: Vec<usize>) {
        self.ready = ready;
    }

    /// Reads at most one batch of datagrams of a port; returns the time of reading.
    pub(super) fn receive(&mut self, clock: Clock, key: usize, batch: &mut Batch) -> Now {
        let mut now = None;
        if let Some(port) = self.by_key.get_mut(&key)
            && !self.full.contains(&key)
        {
            let read = || now.insert(clock.now()).at;
            port.receive(batch, read, &mut self.output);
            self.touched(key);
        }
        now.unwrap_or_else(|| clock.now())
    }

    /// Sends the queued datagrams of all ports. A port without room in the system's buffer is not read
    /// either.
    pub(super) fn flush(&mut self, now: Now, batch: &mut Batch) {
        core::mem::swap(&mut self.dirty, &mut self.spare);
        // Most inputs touch one port, several times in a row.
        self.spare.dedup();
        for index in 0..self.spare.len() {
            self.flush_port(now, self.spare[index], batch);
        }
        self.spare.clear();
    }

    fn flush_port(&mut self, now: Now, key: usize, batch: &mut Batch) {
        let Some(port) = self.by_key.get_mut(&key) else {
            return;
        };
        if port.flush(batch, now.at, &mut self.output) {
            if !self.full.contains(&key) {
                self.full.push(key);
            }
        } else if !self.full.is_empty() {
            self.full.retain(|other| *other != key);
        }
        self.due = self.due.min(nanos(port.due()));
    }

    /// Returns true if [`flush`](Self::flush) has anything to do.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Handles timers that are due, and retries sends that had no room.
    pub(super) fn expire(&mut self, now: Now, batch: &mut Batch) {
        for key in self.full.clone() {
            self.flush_port(now, key, batch);
        }
        if now.nanos < self.due {
            return;
        }
        self.due = u64::MAX;
        for (key, port) in &mut self.by_key {
            port.expire(now.at, &mut self.output);
            self.due = self.due.min(nanos(port.due()));
            self.dirty.push(*key);
        }
        self.flush(now, batch);
    }

    /// The next event.
    pub(super) fn event(&mut self) -> Option<(usize, Event)> {
        self.output.events.pop_front()
    }

    /// A port's engine was given something to do.
    fn touched(&mut self, key: usize) {
        self.dirty.push(key);
        if let Some(port) = self.by_key.get(&key) {
            self.due = self.due.min(nanos(port.due()));
        }
    }
}

/// The engine's time, rounded up, so that timers of that nanosecond are due.
pub(super) fn nanos(at: Option<Instant>) -> u64 {
    at.map_or(u64::MAX, |at| at.as_micros().saturating_mul(1_000))
}
