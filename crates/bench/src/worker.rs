//! A thread that makes requests in a closed or an open loop, and the state that it shares with the thread that watches it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use carob_proto::endpoint::{Event, RequestId};

use super::answers::{Body, BodyChecker};
use super::counters::{Ending, ErrorKind};
use super::pace::Pacer;
use super::plan::{PORT_MESSAGES_MAX, Plan};
use super::ports::{Clock, Now, Ports};
use super::slots::{Slots, SourcePorts};
use super::socket::Batch;
use super::window::{Outcome, Probe, Window};

/// Pause of a port that the network reported unreachable. Without it, a closed loop would do
/// nothing but receive such errors.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest delay of the reaction to Ctrl-C.
const TURN: Duration = Duration::from_millis(100);

/// A request under way.
#[derive(Debug)]
struct Waiting {
    /// When it was meant to leave, in nanoseconds.
    since: u64,
    measured: bool,
    /// Messages that its port had sent before.
    messages: u32,
    body: Body,
}

/// A source port in use, or giving its last requests time to end.
#[derive(Debug, Default)]
struct Source {
    lane: usize,
    waiting: BTreeMap<RequestId, Waiting>,
}

/// Makes requests until there are no more to make. Returns the results.
pub(super) struct Worker {
    plan: Arc<Plan>,
    control: Arc<Control>,
    thread: usize,
    ports: Ports,
    sources: BTreeMap<usize, Source>,
    slots: Slots,
    pacer: Pacer,
    bodies: BodyChecker,
    window: Window,
    outcome: Outcome,
    first_start: Option<u64>,
    /// The most messages that a body has needed, or 1.
    needed: u32,
}

impl Worker {
    /// Opens the thread's share of the ports, and makes their sessions if they are to have any.
    pub(super) fn open(plan: Arc<Plan>, control: Arc<Control>, thread: usize) -> io::Result<Self> {
        let mut ports = Ports::new(&plan)?;
        let slots = Slots::new(&plan, thread, || {
            ports.open(&plan.target, &control.source_ports)
        })?;
        ports.connect(Clock::start(), &control, &mut Batch::new())?;
        let sources = slots
            .keys()
            .enumerate()
            .map(|(lane, key)| {
                let waiting = BTreeMap::new();
                (key, Source { lane, waiting })
            })
            .collect();
        Ok(Self {
            pacer: Pacer::new(&plan, thread),
            window: Window::new(&plan, 0).with_probe(control.probe(thread)),
            outcome: Outcome::default(),
            bodies: BodyChecker::default(),
            first_start: None,
            needed: 1,
            plan,
            control,
            thread,
            ports,
            sources,
            slots,
        })
    }

    /// Runs to the end. All threads share `clock`.
    pub(super) fn run(mut self, clock: Clock) -> io::Result<Outcome> {
        let mut batch = Batch::new();
        let mut now = clock.now();
        loop {
            self.window.pass(now, &mut self.ports.output.traffic);
            self.publish();
            if self.control.is_stopped() {
                break;
            }
            if self.is_dead(now) {
                self.outcome.dead = true;
                break;
            }
            self.start(now)?;
            self.flush(now, &mut batch)?;
            if self.slots.outstanding() == 0 && !self.pacer.has_more(now, &self.window) {
                break;
            }
            let ready = self.ports.wait(clock, self.wake_time(now))?;
            now = clock.now();
            for &key in &ready {
                now = self.ports.receive(clock, key, &mut batch);
                self.drain_events(now)?;
                self.flush(now, &mut batch)?;
            }
            self.ports.give_back(ready);
            self.ports.expire(now, &mut batch);
            self.drain_events(now)?;
        }
        self.pacer.finish(now, &self.window);
        self.window.close(now);
        let suite = self.ports.suite();
        self.ports.end();
        Ok(Outcome {
            suite,
            no_session: self
                .ports
                .output
                .no_session
                .map(|error| error.report().to_string()),
            warm_up_traffic: self.window.warm_up_traffic(),
            traffic: self.ports.output.traffic,
            rates: self.window.rates(),
            intentions: self.pacer.intentions(),
            unfinished: self.slots.outstanding() as u64,
            changed: self.bodies.changed(),
            ..self.outcome
        })
    }

    /// Returns true if the server has sent nothing within its timeout.
    fn is_dead(&self, now: Now) -> bool {
        let first = self.first_start.unwrap_or(u64::MAX);
        !self.control.is_alive()
            && now.nanos.saturating_sub(first) >= self.plan.timeout.as_nanos() as u64
            && self.outcome.measured.requests() + self.outcome.warm_up.requests() > 0
    }

    fn wake_time(&self, now: Now) -> u64 {
        let turn = now.nanos + TURN.as_nanos() as u64;
        let mut until = turn.min(self.window.next_edge());
        if self.slots.has_room() {
            until = until.min(self.pacer.next());
        }
        until.min(self.slots.next_resumption())
    }

    /// Starts requests that are due.
    fn start(&mut self, now: Now) -> io::Result<()> {
        while !self.is_dead(now)
            && let Some(since) = self.pacer.due(now, &self.window)
            && let Some(lane) = self.slots.take(now)
        {
            self.pacer.begin(now, &self.window);
            self.request(now, lane, since)?;
        }
        Ok(())
    }

    fn request(&mut self, now: Now, lane: usize, since: u64) -> io::Result<()> {
        let mut key = self.slots.key(lane);
        let sent = self.ports.messages(key);
        if sent > 0 && sent.saturating_add(self.needed) > self.plan.port_messages {
            let fresh = &self.control.source_ports;
            let next = self.ports.open(&self.plan.target, fresh)?;
            self.slots.move_to(lane, next);
            self.sources.insert(
                next,
                Source {
                    lane,
                    ..Source::default()
                },
            );
            self.close_if_done(key);
            key = next;
        }
        let messages = self.ports.messages(key);
        let request = self.plan.request.clone();
        let measured = self.window.measures(since);
        self.first_start.get_or_insert(now.nanos);
        let Ok(id) = self.ports.request(now, key, request, self.plan.sending()) else {
            self.slots.give_back(lane);
            self.count(measured, Ending::Failed(ErrorKind::NotTaken));
            return Ok(());
        };
        if let Some(source) = self.sources.get_mut(&key) {
            let waiting = Waiting {
                since,
                measured,
                messages,
                body: Body::default(),
            };
            source.waiting.insert(id, waiting);
        }
        Ok(())
    }

    /// Closes a port that its lane has left, once nothing waits there any more.
    fn close_if_done(&mut self, key: usize) {
        let Some(source) = self.sources.get(&key) else {
            return;
        };
        if source.waiting.is_empty() && self.slots.key(source.lane) != key {
            self.sources.remove(&key);
            self.ports.close(key);
        }
    }

    /// Handles the ports' events, and starts requests in the slots that become free.
    fn drain_events(&mut self, now: Now) -> io::Result<()> {
        while let Some((key, event)) = self.ports.event() {
            self.take(now, key, event);
        }
        self.start(now)
    }

    fn take(&mut self, now: Now, key: usize, event: Event) {
        let Some(source) = self.sources.get_mut(&key) else {
            return;
        };
        let (id, ending) = match event {
            Event::Response { id, response } => {
                let Some(waiting) = source.waiting.get(&id) else {
                    return;
                };
                let bytes = match self.plan.request.payload.len() {
                    0 => response.bytes().len(),
                    sent => sent,
                };
                let after = now.nanos.saturating_sub(waiting.since);
                let ending = if response.code.is_success() {
                    let (code, bytes) = (response.code, bytes as u64);
                    self.window.note_bytes(bytes);
                    Ending::Answered { code, after, bytes }
                } else {
                    Ending::Refused(response.code)
                };
                (id, ending)
            }
            Event::ResponseHead { id, response, size } => {
                if let Some(waiting) = source.waiting.get_mut(&id) {
                    waiting.body.begin(&response, size);
                }
                return;
            }
            Event::ResponseChunk { id, bytes, last } => {
                let Some(waiting) = source.waiting.get_mut(&id) else {
                    return;
                };
                waiting.body.add(bytes.len() as u64);
                self.window.note_bytes(bytes.len() as u64);
                if !last {
                    self.ports.read_on(now, key, id);
                    return;
                }
                let after = now.nanos.saturating_sub(waiting.since);
                (id, self.bodies.judge(&waiting.body, after))
            }
            Event::Failed { id, failure } => (id, Ending::of(failure)),
            _ => return,
        };
        self.end(now, key, id, ending);
    }

    fn end(&mut self, now: Now, key: usize, id: RequestId, ending: Ending) {
        let Some(source) = self.sources.get_mut(&key) else {
            return;
        };
        let Some(waiting) = source.waiting.remove(&id) else {
            return;
        };
        let lane = source.lane;
        self.slots.give_back(lane);
        if self.plan.mode.moves_bodies() {
            let sent = self.ports.messages(key);
            self.needed = self.needed.max(sent.saturating_sub(waiting.messages));
            // The engine then holds back what would use a Message ID again too early.
            self.outcome.ids_ran_out |= sent >= PORT_MESSAGES_MAX;
        }
        match ending {
            Ending::Answered { .. } | Ending::Refused(_) | Ending::Failed(ErrorKind::Reset) => {
                self.control.note_life();
            }
            Ending::Failed(ErrorKind::Unreachable) => self.slots.pause(lane, now, PAUSE),
            Ending::Failed(ErrorKind::Timeout) => self.ports.doubt(now, key),
            Ending::Failed(_) => {}
        }
        self.count(waiting.measured, ending);
        self.close_if_done(key);
    }

    fn count(&mut self, measured: bool, ending: Ending) {
        self.window.note_end(ending);
        if measured {
            self.outcome.measured.count(ending);
        } else {
            self.outcome.warm_up.count(ending);
        }
    }

    fn flush(&mut self, now: Now, batch: &mut Batch) -> io::Result<()> {
        // ICMP errors during sending may end requests, whose room is filled again; but an
        // unreachable port pauses, so that this ends.
        while self.ports.is_dirty() {
            self.ports.flush(now, batch);
            self.drain_events(now)?;
        }
        Ok(())
    }

    fn publish(&self) {
        let (finished, errors) = self.window.progress();
        self.control.publish(self.thread, finished, errors);
    }
}

/// Shared by all threads of a load.
#[derive(Debug)]
pub(super) struct Control {
    stop: AtomicBool,
    alive: AtomicBool,
    progress: Vec<Progress>,
    pub(super) source_ports: SourcePorts,
    /// The server's process, if it is to be looked at.
    server_pid: Option<u32>,
}

/// Progress of a thread, the warm-up included. Written by that thread alone.
#[derive(Debug, Default)]
pub(super) struct Progress {
    finished: AtomicU64,
    errors: AtomicU64,
}

impl Control {
    pub(super) fn new(threads: usize, source_ports: SourcePorts, server_pid: Option<u32>) -> Self {
        Self {
            stop: AtomicBool::new(false),
            alive: AtomicBool::new(false),
            progress: (0..threads).map(|_| Progress::default()).collect(),
            source_ports,
            server_pid,
        }
    }

    /// The probe of the server's process, for the first thread only.
    pub(super) fn probe(self: &Arc<Self>, thread: usize) -> Option<Probe> {
        let pid = self.server_pid.filter(|_| thread == 0)?;
        let control = Arc::clone(self);
        Some(Probe { pid, control })
    }

    /// Signals the threads to stop.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The server has answered something.
    pub(super) fn note_life(&self) {
        if !self.is_alive() {
            self.alive.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if the server has ever answered.
    pub(super) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// Publishes the progress of a thread.
    pub(super) fn publish(&self, thread: usize, finished: u64, errors: u64) {
        if let Some(progress) = self.progress.get(thread) {
            progress.finished.store(finished, Ordering::Relaxed);
            progress.errors.store(errors, Ordering::Relaxed);
        }
    }

    /// Requests that have ended, and errors among them, of all threads.
    pub(super) fn progress(&self) -> (u64, u64) {
        self.progress.iter().fold((0, 0), |(finished, errors), of| {
            (
                finished + of.finished.load(Ordering::Relaxed),
                errors + of.errors.load(Ordering::Relaxed),
            )
        })
    }
}
