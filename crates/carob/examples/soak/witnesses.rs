//! Clients that check correctness under full load: counted POSTs, block-wise bodies, separate responses, and observers
//! that must converge to the final state.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use carob_cc::time::{Duration, Instant};
use carob_proto::codec::Code;
use carob_proto::endpoint::{Config, Event, Failure, RequestConfig, RequestId};
use carob_proto::message::{Request, Response};

use crate::port::Port;
use crate::{Plan, Tally};

/// Ports for POSTs, and for bodies and separate responses.
const POSTERS: usize = 4;
const OTHERS: usize = 4;
/// Registrations per turn.
const REGISTERING: usize = 16;
/// Length of a block-wise body in bytes.
const BODY: usize = 5_000;
/// Interval of bodies, and of requests with a separate response after 1.5 s.
const BODY_EVERY: Duration = Duration::from_millis(100);
const SLOW_EVERY: Duration = Duration::from_millis(250);

/// Purpose of a request.
enum Purpose {
    /// POST that adds one; the response carries the sum.
    Count,
    /// Request whose response repeats this body.
    Body(Vec<u8>),
    Slow,
    /// Final GET of the sum.
    Sum,
}

/// A periodic event.
struct Every {
    each: Duration,
    next: Instant,
}

impl Every {
    fn new(each: Duration, now: Instant) -> Self {
        let next = now + each;
        Self { each, next }
    }

    /// Whether the event is due; missed ones are caught up.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next <= now;
        if due {
            self.next += self.each;
        }
        due
    }
}

/// An observer and the newest sum it received.
struct Observer {
    port: Port,
    id: Option<RequestId>,
    knows: Option<i64>,
    ended: bool,
}

/// All witnesses, on one thread.
pub(crate) struct Witnesses {
    plan: Plan,
    posters: Vec<Port>,
    others: Vec<Port>,
    observers: Vec<Observer>,
    waiting: BTreeMap<(usize, RequestId), Purpose>,
    posts: Every,
    bodies: Every,
    slow: Every,
    /// Sums in responses; each must be unique.
    sums: BTreeSet<i64>,
    /// All sums up to this one occurred; only larger ones are in `sums`.
    told: i64,
    tally: Tally,
}

impl Witnesses {
    pub(crate) fn new(plan: Plan, now: Instant) -> io::Result<Self> {
        let mut place = 0;
        let mut open = || {
            place += 1;
            let mut config = Config::default();
            config.parameters.nstart = 64;
            config.limits.dedup_idempotent = 256; // a thousand of them are to fit into memory
            Port::open(plan.server, config, plan.loss, plan.seed, place)
        };
        Ok(Self {
            posters: (0..POSTERS).map(|_| open()).collect::<io::Result<_>>()?,
            others: (0..OTHERS).map(|_| open()).collect::<io::Result<_>>()?,
            observers: (0..plan.observers)
                .map(|_| {
                    Ok(Observer {
                        port: open()?,
                        id: None,
                        knows: None,
                        ended: false,
                    })
                })
                .collect::<io::Result<_>>()?,
            waiting: BTreeMap::new(),
            posts: Every::new(
                Duration::from_micros(1_000_000 / u64::from(plan.posts)),
                now,
            ),
            bodies: Every::new(BODY_EVERY, now),
            slow: Every::new(SLOW_EVERY, now),
            sums: BTreeSet::new(),
            told: 0,
            tally: Tally::default(),
            plan,
        })
    }

    /// Number of observers with a notification, and of those with this sum.
    pub(crate) fn converged(&self, sum: i64) -> (usize, usize) {
        let told = self.observers.iter().filter(|one| one.knows.is_some());
        let right = self.observers.iter().filter(|one| one.knows == Some(sum));
        (told.count(), right.count())
    }

    /// Pending requests without observations.
    pub(crate) fn under_way(&self) -> usize {
        self.waiting.len()
    }

    /// Runs all ports once; with `asking`, also starts requests.
    pub(crate) fn turn(&mut self, now: Instant, asking: bool) -> io::Result<()> {
        self.register(now);
        if asking {
            self.ask(now);
        }
        for index in 0..POSTERS + OTHERS {
            self.port(index).turn(now)?;
            while let Some(event) = self.port(index).event() {
                self.process_events(index, event);
            }
        }
        for observer in &mut self.observers {
            observer.port.turn(now)?;
            observer.process_events(&mut self.tally);
        }
        Ok(())
    }

    fn port(&mut self, index: usize) -> &mut Port {
        match index.checked_sub(POSTERS) {
            None => &mut self.posters[index],
            Some(index) => &mut self.others[index],
        }
    }

    fn register(&mut self, now: Instant) {
        let new = (self.observers.iter_mut()).filter(|observer| observer.id.is_none());
        for observer in new.take(REGISTERING) {
            let mut sending = RequestConfig::default();
            sending.observe = true;
            let request = Request::get().with_path("/count").expect("a short path");
            observer.id = observer.port.request(now, request, sending).ok();
        }
    }

    fn ask(&mut self, now: Instant) {
        while self.posts.is_due(now) {
            let place = self.tally.posts as usize % POSTERS;
            let request = Request::new(Code::POST).with_path("/count");
            if self.begin(now, place, request.expect("a short path"), Purpose::Count) {
                self.tally.posts += 1;
            }
        }
        while self.bodies.is_due(now) {
            // One body per port at a time: bodies to one resource are sequential (RFC 7959 2.4).
            let place = (0..OTHERS).find(|of| self.others[*of].usage().requests == 0);
            let Some(place) = place else { continue };
            self.tally.bodies += 1;
            let start = self.tally.bodies as usize;
            let body: Vec<u8> = (start..start + BODY).map(|byte| byte as u8).collect();
            let request = Request::new(Code::PUT)
                .with_payload(body.clone())
                .with_path("/echo");
            let request = request.expect("a short path");
            self.begin(now, POSTERS + place, request, Purpose::Body(body));
        }
        while self.slow.is_due(now) {
            let request = Request::get().with_path("/slow").expect("a short path");
            let place = POSTERS - 1;
            self.begin(now, place, request, Purpose::Slow);
        }
    }

    fn begin(&mut self, now: Instant, index: usize, request: Request, purpose: Purpose) -> bool {
        match self
            .port(index)
            .request(now, request, RequestConfig::default())
        {
            Ok(id) => {
                self.waiting.insert((index, id), purpose);
                true
            }
            Err(error) => {
                self.tally.wrong(format!("not begun: {error}"));
                false
            }
        }
    }

    /// Requests the final sum after everything else has ended.
    pub(crate) fn request_sum(&mut self, now: Instant) {
        let request = Request::get().with_path("/count").expect("a short path");
        self.begin(now, 0, request, Purpose::Sum);
    }

    fn process_events(&mut self, index: usize, event: Event) {
        let (id, result) = match event {
            Event::Response { id, response } => (id, Ok(response)),
            Event::Failed { id, failure } => (id, Err(failure)),
            _ => return,
        };
        let Some(purpose) = self.waiting.remove(&(index, id)) else {
            return;
        };
        match result {
            Ok(response) => self.answered(&purpose, &response),
            Err(failure) => {
                if matches!(purpose, Purpose::Count) {
                    self.tally.posts_failed += 1;
                }
                self.tally.failed(failure);
            }
        }
    }

    fn answered(&mut self, purpose: &Purpose, response: &Response) {
        self.tally.answered += 1;
        let sum = || number(response);
        let right = match purpose {
            Purpose::Count => {
                if let (Code::CHANGED, Some(sum)) = (response.code, sum()) {
                    let new = sum > self.told && self.sums.insert(sum);
                    self.tally.told_twice += u64::from(!new);
                    while self.sums.remove(&(self.told + 1)) {
                        self.told += 1;
                    }
                    true
                } else {
                    self.tally.posts_failed += 1;
                    false
                }
            }
            Purpose::Body(bytes) => response.code == Code::CHANGED && response.bytes() == bytes,
            Purpose::Slow => {
                self.tally.separate += 1;
                response.code == Code::CONTENT && response.bytes()[..] == *b"at last\n"
            }
            Purpose::Sum => {
                self.tally.sum = sum();
                self.tally.sum.is_some()
            }
        };
        if !right {
            self.tally.wrong(format!(
                "{} with {} bytes",
                response.code,
                response.bytes().len()
            ));
        }
    }

    /// Messages that wait for a reply, on all ports.
    pub(crate) fn exchanges(&self) -> usize {
        let observers = self.observers.iter().map(|observer| &observer.port);
        let ports = self.posters.iter().chain(&self.others).chain(observers);
        ports.map(|port| port.usage().exchanges).sum()
    }

    /// Cancels all observations.
    pub(crate) fn goodbye(&mut self, now: Instant) {
        for observer in &mut self.observers {
            if let Some(id) = observer.id {
                observer.port.stop_observing(now, id);
            }
        }
    }

    /// All counts so far.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        let observers = self.observers.iter().map(|observer| &observer.port);
        for port in self.posters.iter().chain(&self.others).chain(observers) {
            tally.traffic.add(port.traffic());
            tally.exchanged.add(port.exchanged());
        }
        tally.observers = self.plan.observers as u64;
        tally.ended = self.observers.iter().filter(|one| one.ended).count() as u64;
        tally.told_all_to = self.told;
        tally
    }
}

impl Observer {
    fn process_events(&mut self, tally: &mut Tally) {
        while let Some(event) = self.port.event() {
            match event {
                Event::Notification { response, .. } => {
                    tally.notifications += 1;
                    let Some(sum) = number(&response).filter(|_| response.code == Code::CONTENT)
                    else {
                        tally.wrong(format!("a notification {}", response.code));
                        continue;
                    };
                    tally.backwards += u64::from(self.knows.is_some_and(|before| sum < before));
                    self.knows = Some(sum);
                }
                Event::Stale { failure, .. } => {
                    tally.stale += 1;
                    if let Some(failure) = failure {
                        tally.failed(failure);
                    }
                }
                Event::Response { .. } => self.ended = true,
                Event::Failed { failure, .. } => {
                    self.ended = true;
                    if failure != Failure::ShutDown {
                        tally.failed(failure);
                    }
                }
                _ => {}
            }
        }
    }
}

fn number(response: &Response) -> Option<i64> {
    core::str::from_utf8(response.bytes()).ok()?.parse().ok()
}
