//! Many observers of one resource: how soon each is notified, and what is lost.
//!
//! Every observer has a source port of its own. With a trigger, a POST makes the server notify,
//! and a round lasts until all were; without one, the server's own notifications are timed.

mod notified;
mod rounds;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use carob::{OptionNumber, Response};
use carob_proto::endpoint::{Event, RequestId};
use carob_proto::message::Request;

use notified::LastNotification;
use rounds::Round;

use super::control::Control;
use super::counters::{Counters, Ending, ErrorKind};
use super::plan::Plan;
use super::ports::{Clock, Now, Ports};
use super::socket::Batch;
use super::window::{Outcome, Window};

pub(super) use notified::Notified;

/// Registrations under way at a time: a burst of thousands would overflow the server's socket, and
/// measure its timers.
const REGISTERING: usize = 64;
/// Time for which observers wait for the end of their observations.
const GOODBYE: Duration = Duration::from_secs(1);
/// Longest delay of the reaction to Ctrl-C.
const TURN: Duration = Duration::from_millis(100);

/// An observer, its place being its port's key.
#[derive(Debug)]
struct Observer {
    id: RequestId,
    state: State,
    last_notification: LastNotification,
    /// The last round in which it was notified.
    round: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Registration sent at this time, in nanoseconds.
    Asked(u64),
    Observing,
    /// Registration failed, or observation ended.
    Gone,
}

/// The observers of one resource.
pub(super) struct Observers {
    plan: Arc<Plan>,
    control: Arc<Control>,
    clock: Clock,
    ports: Ports,
    batch: Batch,
    all: Vec<Observer>,
    observing: usize,
    registering: usize,
    trigger: Option<Request>,
    /// The key of the port that triggers.
    trigger_key: usize,
    round: Round,
    window: Window,
    outcome: Outcome,
    registrations: Counters,
    notified: Notified,
}

impl Observers {
    pub(super) fn new(plan: Arc<Plan>, control: Arc<Control>, clock: Clock) -> io::Result<Self> {
        Ok(Self {
            ports: Ports::new(&plan)?,
            batch: Batch::new(),
            all: Vec::new(),
            observing: 0,
            registering: 0,
            trigger: plan.trigger_request(),
            trigger_key: usize::MAX,
            round: Round::default(),
            window: Window::new(&plan, u64::MAX),
            outcome: Outcome::default(),
            registrations: Counters::default(),
            notified: Notified::default(),
            plan,
            control,
            clock,
        })
    }

    /// Registers all observers, measures, and cancels the observations.
    pub(super) fn run(mut self) -> io::Result<Outcome> {
        self.open()?;
        let start = self.clock.now();
        let mut now = self.register(start)?;
        self.window = Window::new(&self.plan, now.nanos).with_probe(self.control.probe(0));
        self.notified.observers = self.observing as u64;
        self.notified.refused = self.registrations.errors();
        let rounds = self.trigger.is_some() && self.observing > 0;
        now = if rounds {
            self.rounds(now)?
        } else {
            self.listen(now)?
        };
        self.window.close(now);
        self.goodbye(now)?;
        self.outcome.dead = !self.control.is_alive() && !self.control.is_stopped();
        if !rounds {
            self.outcome.measured = self.registrations;
        }
        let suite = self.ports.suite();
        self.ports.end();
        Ok(Outcome {
            suite,
            no_session: self.ports.output.no_session.map(|error| error.to_string()),
            warm_up_traffic: self.window.warm_up_traffic(),
            traffic: self.ports.output.traffic,
            rates: self.window.rates(),
            notified: Some(self.notified),
            ..self.outcome
        })
    }

    /// Opens all ports, those of the observers and the one that triggers, and makes their sessions.
    fn open(&mut self) -> io::Result<()> {
        let plan = Arc::clone(&self.plan);
        let fresh = &self.control.source_ports;
        for observer in 0..plan.ports {
            let key = self.ports.open(&plan.target, fresh)?;
            debug_assert_eq!(key, observer, "keys count up");
        }
        if let Some(trigger) = &plan.trigger {
            self.trigger_key = self.ports.open(trigger, fresh)?;
        }
        self.ports
            .connect(self.clock, &self.control, &mut self.batch)
    }

    fn register(&mut self, mut now: Now) -> io::Result<Now> {
        let limit = self.plan.timeout.as_nanos() as u64;
        let start = now.nanos;
        while !self.control.is_stopped() {
            let silent = now.nanos - start >= limit && !self.control.is_alive();
            while self.all.len() < self.plan.ports && self.registering < REGISTERING && !silent {
                self.ask(now)?;
            }
            // Registrations were sent in order, so the longest wait comes first.
            for observer in &mut self.all {
                if let State::Asked(since) = observer.state
                    && now.nanos.saturating_sub(since) >= limit
                {
                    observer.state = State::Gone;
                    self.registering -= 1;
                    self.registrations.count(Ending::Failed(ErrorKind::Timeout));
                }
            }
            let done = self.all.len() == self.plan.ports || silent;
            if done && self.registering == 0 {
                break;
            }
            now = self.turn(now, now.nanos + TURN.as_nanos() as u64)?;
        }
        Ok(now)
    }

    fn ask(&mut self, now: Now) -> io::Result<()> {
        let key = self.all.len();
        let (request, sending) = (self.plan.request.clone(), self.plan.sending());
        let id = self.ports.request(now, key, request, sending);
        let id = id.map_err(io::Error::other)?;
        self.all.push(Observer {
            id,
            state: State::Asked(now.nanos),
            last_notification: LastNotification::default(),
            round: 0,
        });
        self.registering += 1;
        Ok(())
    }

    fn listen(&mut self, mut now: Now) -> io::Result<Now> {
        while !self.control.is_stopped() && self.observing > 0 {
            self.window.pass(now, &mut self.ports.output.traffic);
            if self.window.is_over(now) {
                break;
            }
            let until = (now.nanos + TURN.as_nanos() as u64).min(self.window.next_edge());
            now = self.turn(now, until)?;
        }
        Ok(now)
    }

    /// Gives all observations back.
    fn goodbye(&mut self, mut now: Now) -> io::Result<()> {
        let limit = now.nanos + GOODBYE.as_nanos() as u64;
        let mut next = 0;
        while now.nanos < limit && self.observing > 0 {
            // In portions, as they came.
            for _ in 0..REGISTERING {
                let Some(observer) = self.all.get(next) else {
                    break;
                };
                if observer.state == State::Observing {
                    self.ports.stop_observing(now, next, observer.id);
                }
                next += 1;
            }
            now = self.turn(now, limit)?;
        }
        Ok(())
    }

    /// Waits once, and takes what comes.
    fn turn(&mut self, mut now: Now, until: u64) -> io::Result<Now> {
        self.ports.flush(now, &mut self.batch);
        let ready = self.ports.wait(self.clock, until)?;
        for &key in &ready {
            now = self.ports.receive(self.clock, key, &mut self.batch);
            self.drain_events(now);
            self.ports.flush(now, &mut self.batch);
        }
        if ready.is_empty() {
            now = self.clock.now();
        }
        self.ports.give_back(ready);
        self.ports.expire(now, &mut self.batch);
        self.drain_events(now);
        self.ports.flush(now, &mut self.batch);
        let (progress, errors) = self.window.progress();
        self.control.publish(0, progress, errors);
        Ok(now)
    }

    fn drain_events(&mut self, now: Now) {
        while let Some((key, event)) = self.ports.event() {
            if key == self.trigger_key {
                self.hear_trigger(event);
            } else {
                self.hear_observer(now, key, event);
            }
        }
    }

    fn hear_observer(&mut self, now: Now, key: usize, event: Event) {
        let Some(state) = self.all.get(key).map(|observer| observer.state) else {
            return;
        };
        match (state, event) {
            (State::Asked(since), Event::Notification { response, .. }) => {
                self.registered(
                    key,
                    Ending::Answered {
                        code: response.code,
                        after: now.nanos.saturating_sub(since),
                        bytes: response.bytes().len() as u64,
                    },
                );
                self.all[key].state = State::Observing;
                self.observing += 1;
                self.all[key]
                    .last_notification
                    .on_notification(now.nanos, sequence(&response));
            }
            (State::Asked(_), Event::Response { response, .. }) => {
                self.registered(
                    key,
                    if response.code.is_success() {
                        Ending::Failed(ErrorKind::NotObserved)
                    } else {
                        Ending::Refused(response.code)
                    },
                );
            }
            (State::Asked(_), Event::Failed { failure, .. }) => {
                self.registered(key, Ending::of(failure));
            }
            (State::Observing, Event::Notification { response, .. }) => {
                self.notified(now, key, &response);
            }
            (State::Observing, Event::Response { .. } | Event::Failed { .. }) => {
                self.all[key].state = State::Gone;
                self.observing -= 1;
                self.notified.ended += u64::from(self.window.is_running());
                let number = self.all[key].round;
                self.round.lose(number);
            }
            (_, Event::Stale { .. }) => {
                self.notified.stale += u64::from(self.window.is_running());
            }
            _ => {}
        }
    }

    /// A registration has been answered, or has failed.
    fn registered(&mut self, key: usize, ending: Ending) {
        self.all[key].state = State::Gone;
        self.registering -= 1;
        self.registrations.count(ending);
        if !matches!(
            ending,
            Ending::Failed(ErrorKind::Timeout | ErrorKind::Unreachable)
        ) {
            self.control.note_life();
        }
    }

    fn notified(&mut self, now: Now, key: usize, response: &Response) {
        let observer = &mut self.all[key];
        let interval = observer
            .last_notification
            .on_notification(now.nanos, sequence(response));
        let first = self.round.complete(&mut observer.round, now);
        if !self.window.is_running() {
            return;
        }
        let code = response.code;
        let bytes = response.bytes().len() as u64;
        let after = if self.trigger.is_none() {
            interval.nanos
        } else if first {
            now.nanos.saturating_sub(self.round.since)
        } else {
            self.notified.extra += 1;
            return;
        };
        self.notified.count(after, interval);
        self.window
            .note_end(Ending::Answered { code, after, bytes });
        self.window.note_bytes(bytes);
    }
}

fn sequence(response: &Response) -> Option<u32> {
    response.options.uint(OptionNumber::OBSERVE)
}
