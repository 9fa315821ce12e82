//! Handshakes, and nothing in the sessions that they make: how long each takes, how many there are a
//! second.
//!
//! Each has another source port, the next in turn. A port may recur soon: a session has no Message IDs in
//! common with the one before. An established session is closed at once with close_notify. Its socket stays
//! open until the server's close_notify, so that the server receives no ICMP error.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use carob::dtls::HandshakeError;
use carob_cc::time::Instant;

use super::control::Control;
use super::counters::{Ending, ErrorKind, Traffic};
use super::pace::Pacer;
use super::plan::Plan;
use super::port::no_session;
use super::ports::{Clock, Now, Ports, nanos};
use super::session::{Happened, Room, Session};
use super::slots::share;
use super::socket::{Batch, Outbox, Poller};
use super::window::{Outcome, Window};

/// Time for which the response to close_notify is awaited.
const GOODBYE: Duration = Duration::from_secs(1);
/// Sockets of a thread that wait for that at most; at it, the oldest is closed.
const GOODBYES: usize = 256;
/// Pause after the network reported the server unreachable.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest delay of the reaction to Ctrl-C.
const TURN: Duration = Duration::from_millis(100);

/// A handshake under way, or a session that is being closed.
struct Attempt {
    socket: UdpSocket,
    outbox: Outbox,
    session: Session,
    /// When it was meant to begin, in nanoseconds.
    since: u64,
    measured: bool,
    closing: bool,
}

/// Makes one session, so that an error common to all is reported once. Returns its suite.
pub(super) fn try_one(plan: &Plan, control: &Control) -> io::Result<Option<&'static str>> {
    let mut ports = Ports::new(plan)?;
    ports.open(&plan.target, &control.source_ports)?;
    ports.connect(Clock::start(), control, &mut Batch::new())?;
    let suite = ports.suite();
    ports.end();
    Ok(suite)
}

/// The handshakes of a thread.
pub(super) struct Handshakes {
    plan: Arc<Plan>,
    control: Arc<Control>,
    thread: usize,
    /// Handshakes that may be under way at a time, and those that are.
    places: usize,
    under_way: usize,
    attempts: BTreeMap<usize, Attempt>,
    next_key: usize,
    /// Those that are being closed, and until when at most; nanoseconds.
    closing: VecDeque<(usize, u64)>,
    poller: Poller,
    ready: Vec<usize>,
    batch: Batch,
    room: Room,
    pacer: Pacer,
    window: Window,
    outcome: Outcome,
    traffic: Traffic,
    /// No handshake's timer runs out before this; nanoseconds.
    due: u64,
    paused_until: u64,
}

impl Handshakes {
    pub(super) fn new(
        plan: Arc<Plan>,
        control: Arc<Control>,
        thread: usize,
        suite: Option<&'static str>,
    ) -> io::Result<Self> {
        Ok(Self {
            places: share(plan.outstanding as u64, thread, plan.threads) as usize,
            under_way: 0,
            attempts: BTreeMap::new(),
            next_key: 0,
            closing: VecDeque::new(),
            poller: Poller::new()?,
            ready: Vec::new(),
            batch: Batch::new(),
            room: Room::new(true),
            pacer: Pacer::new(&plan, thread),
            window: Window::new(&plan, 0).with_probe(control.probe(thread)),
            outcome: Outcome {
                suite,
                ..Outcome::default()
            },
            traffic: Traffic::default(),
            due: u64::MAX,
            paused_until: 0,
            plan,
            control,
            thread,
        })
    }

    /// Runs to the end. All threads share `clock`.
    pub(super) fn run(mut self, clock: Clock) -> io::Result<Outcome> {
        let outcome = self.load(clock);
        if outcome.is_err() {
            // The other threads would measure something else than was requested.
            self.control.stop();
        }
        outcome?;
        Ok(Outcome {
            warm_up_traffic: self.window.warm_up_traffic(),
            traffic: self.traffic,
            rates: self.window.rates(),
            intentions: self.pacer.intentions(),
            unfinished: self.under_way as u64,
            ..self.outcome
        })
    }

    fn load(&mut self, clock: Clock) -> io::Result<()> {
        let mut now = clock.now();
        loop {
            self.note_datagrams();
            self.window.pass(now, &mut self.traffic);
            let (finished, errors) = self.window.progress();
            self.control.publish(self.thread, finished, errors);
            if self.control.is_stopped() {
                break;
            }
            now = self.start(clock, now)?;
            if self.under_way == 0 && !self.pacer.has_more(now, &self.window) {
                break;
            }
            let mut ready = core::mem::take(&mut self.ready);
            ready.clear();
            let until = clock.wall(self.wake_time(now));
            self.poller.wait(Some(until), &mut ready)?;
            for &key in &ready {
                self.receive(clock, key);
            }
            self.ready = ready;
            now = clock.now();
            self.expire(clock, now);
        }
        self.note_datagrams();
        self.pacer.finish(now, &self.window);
        self.window.close(now);
        // Those that are live are not left behind: the server would keep them.
        let keys: Vec<usize> = self.attempts.keys().copied().collect();
        for key in keys {
            self.goodbye(now, key);
        }
        Ok(())
    }

    fn note_datagrams(&mut self) {
        self.traffic.messages += core::mem::take(&mut self.room.datagrams);
        self.traffic.retransmissions += core::mem::take(&mut self.room.copies);
    }

    fn wake_time(&self, now: Now) -> u64 {
        let turn = now.nanos + TURN.as_nanos() as u64;
        let mut until = turn.min(self.window.next_edge()).min(self.due);
        if self.under_way < self.places {
            until = until.min(self.pacer.next().max(self.paused_until));
        }
        let closing = self.closing.front().map_or(u64::MAX, |(_, until)| *until);
        until.min(closing)
    }

    /// Starts all handshakes that are due.
    fn start(&mut self, clock: Clock, mut now: Now) -> io::Result<Now> {
        while self.under_way < self.places
            && now.nanos >= self.paused_until
            && let Some(since) = self.pacer.due(now, &self.window)
        {
            self.pacer.begin(now, &self.window);
            self.begin(now, since)?;
            now = clock.now();
        }
        Ok(now)
    }

    fn begin(&mut self, now: Now, since: u64) -> io::Result<()> {
        let measured = self.window.measures(since);
        let target = &self.plan.target;
        let session = match Session::begin(target, now.at, self.plan.timeout) {
            Ok(session) => session,
            Err(why) => {
                self.failed(measured, why);
                return Ok(());
            }
        };
        let socket = self.control.source_ports.open(target.address)?;
        let key = self.next_key;
        self.next_key += 1;
        self.poller.add(&socket, key)?;
        let attempt = Attempt {
            socket,
            outbox: Outbox::default(),
            session,
            since,
            measured,
            closing: false,
        };
        self.attempts.insert(key, attempt);
        self.under_way += 1;
        self.go_on(now, key, |attempt, now, room| {
            attempt.session.drain(now, room, &mut attempt.outbox)
        });
        Ok(())
    }

    /// Reads the datagrams of an attempt.
    fn receive(&mut self, clock: Clock, key: usize) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        if attempt.closing {
            // The server's close_notify, or a network error for this end's.
            return self.forget(key);
        }
        let count = match self.batch.receive(&attempt.socket) {
            Ok(count) => count,
            Err(error) => return self.unreachable(clock.now(), key, &error),
        };
        for index in 0..count {
            let now = clock.now();
            let Some(attempt) = self.attempts.get_mut(&key).filter(|of| !of.closing) else {
                return;
            };
            let Some(bytes) = self.batch.datagram(index) else {
                self.traffic.oversized += 1;
                continue;
            };
            let (room, outbox) = (&mut self.room, &mut attempt.outbox);
            let happened = attempt.session.receive(now.at, bytes, room, outbox);
            // No requests are sent, so application data is dropped.
            let messages = self.room.take();
            self.room.give_back(messages);
            // The work on what came is the handshake's, too.
            self.settle(clock.now(), key, happened);
        }
    }

    fn go_on(
        &mut self,
        now: Now,
        key: usize,
        step: impl FnOnce(&mut Attempt, Instant, &mut Room) -> Option<Happened>,
    ) {
        if let Some(attempt) = self.attempts.get_mut(&key) {
            let happened = step(attempt, now.at, &mut self.room);
            self.settle(now, key, happened);
        }
    }

    /// Sends the datagrams of an attempt, and counts it if it is over.
    fn settle(&mut self, now: Now, key: usize, happened: Option<Happened>) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        let (since, measured) = (attempt.since, attempt.measured);
        // What there is no room for is lost, and leaves again when its timer runs out.
        let sent = self.batch.send(&attempt.socket, &mut attempt.outbox);
        self.due = self.due.min(nanos(attempt.session.due()));
        match (happened, sent) {
            (Some(Happened::Connected), _) => {
                let after = now.nanos.saturating_sub(since);
                self.under_way -= 1;
                self.traffic.handshakes += 1;
                self.control.note_life();
                self.count(measured, Ending::Connected { after });
                self.goodbye(now, key);
            }
            (Some(Happened::Failed(why)), _) => {
                self.under_way -= 1;
                self.failed(measured, why);
                self.forget(key);
            }
            (_, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
                self.unreachable(now, key, &error);
            }
            // A session that has ended was connected before, and is being closed.
            (Some(Happened::Ended(_)) | None, _) => {}
        }
    }

    fn failed(&mut self, measured: bool, why: HandshakeError) {
        let kind = match &why {
            HandshakeError::NoAnswer { .. } | HandshakeError::Silent => ErrorKind::Timeout,
            _ => ErrorKind::Handshake,
        };
        self.traffic.handshakes_failed += 1;
        let error = no_session(self.plan.target.address, why);
        self.outcome.no_session = Some(error.report().to_string());
        self.count(measured, Ending::Failed(kind));
    }

    fn unreachable(&mut self, now: Now, key: usize, error: &io::Error) {
        let said = &mut self.traffic.unreachable;
        said.get_or_insert_with(|| error.to_string());
        if let Some(attempt) = self.attempts.get(&key).filter(|of| !of.closing) {
            let measured = attempt.measured;
            self.under_way -= 1;
            self.traffic.handshakes_failed += 1;
            self.paused_until = now.nanos + PAUSE.as_nanos() as u64;
            self.outcome.no_session = Some(error.to_string());
            self.count(measured, Ending::Failed(ErrorKind::Unreachable));
        }
        self.forget(key);
    }

    fn count(&mut self, measured: bool, ending: Ending) {
        self.window.note_end(ending);
        if measured {
            self.outcome.measured.count(ending);
        } else {
            self.outcome.warm_up.count(ending);
        }
    }

    /// Closes a session, or drops a handshake.
    fn goodbye(&mut self, now: Now, key: usize) {
        let Some(attempt) = self.attempts.get_mut(&key).filter(|of| !of.closing) else {
            return;
        };
        attempt.session.close(&mut self.room, &mut attempt.outbox);
        attempt.outbox.send_or_drop(&attempt.socket);
        attempt.closing = true;
        let until = now.nanos + GOODBYE.as_nanos() as u64;
        self.closing.push_back((key, until));
        if self.closing.len() > GOODBYES
            && let Some((oldest, _)) = self.closing.pop_front()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, key: usize) {
        if self.attempts.remove(&key).is_some() {
            self.poller.remove(key);
        }
    }

    /// Handles timers that are due.
    fn expire(&mut self, clock: Clock, now: Now) {
        while let Some(&(key, until)) = self.closing.front()
            && (until <= now.nanos || !self.attempts.contains_key(&key))
        {
            self.closing.pop_front();
            self.forget(key);
        }
        if now.nanos < self.due {
            return;
        }
        self.due = u64::MAX;
        let due = |(key, of): (&usize, &Attempt)| {
            let is_due = of.session.due().is_some_and(|due| due <= now.at);
            is_due.then_some(*key)
        };
        let keys: Vec<usize> = self.attempts.iter().filter_map(due).collect();
        for key in keys {
            self.go_on(clock.now(), key, |attempt, now, room| {
                attempt.session.expire(now, room, &mut attempt.outbox)
            });
        }
        let due = self.attempts.values().map(|of| nanos(of.session.due()));
        self.due = due.min().unwrap_or(u64::MAX);
    }
}
