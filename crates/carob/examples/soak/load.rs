//! Confirmable requests at the highest rate, with each response checked against its request.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use carob_cc::TransmissionParameters;
use carob_cc::time::Instant;
use carob_proto::codec::Code;
use carob_proto::endpoint::{Config, Event, Failure, RequestConfig, RequestId};
use carob_proto::message::{Request, Response};

use crate::port::{Exchanged, Port, Traffic};
use crate::{Plan, Tally};

/// Source ports in parallel.
const PORTS: usize = 8;
/// Active requests per port. A request is inactive once a later one (by [`FRESH`]) was answered: a datagram was lost and
/// it waits for a retransmission. Without this rule, timeouts would limit the load. While the server pauses, it is sent
/// no more than these.
const ACTIVE: usize = 128;
const FRESH: carob_cc::time::Duration = carob_cc::time::Duration::from_millis(50);
/// Requests per port before it is replaced, so that Message IDs do not recur within EXCHANGE_LIFETIME.
const PORT_REQUESTS: u32 = 60_000;
/// Period of PUTs among the requests; their response repeats the payload.
const PUT_EVERY: u64 = 8;
/// Sleep when there is nothing to do.
const IDLE: Duration = Duration::from_micros(50);

/// The representation of `/hello` in `carob serve`.
const HELLO: &[u8] = b"hello, this is 32 bytes of text\n";

/// A pending request.
struct Waiting {
    since: Instant,
    /// Number in the payload of a PUT; none for a GET.
    number: Option<u64>,
    active: bool,
}

/// A source port and its pending requests.
struct Lane {
    port: Port,
    waiting: BTreeMap<RequestId, Waiting>,
    /// Active requests by age.
    begun: VecDeque<(Instant, RequestId)>,
    active: usize,
    asked: u32,
    /// Start time of the newest answered request.
    newest: Instant,
}

/// Load of one thread.
pub(crate) struct Load {
    plan: Plan,
    lanes: Vec<Lane>,
    /// Replaced ports with pending requests.
    ending: Vec<Lane>,
    /// Time of last use of closed ports, to detect early reuse by the system.
    used: BTreeMap<u16, Instant>,
    places: u64,
    numbers: u64,
    gone: (Traffic, Exchanged),
    last_answer: Option<Instant>,
    tally: Tally,
}

impl Load {
    pub(crate) fn new(plan: Plan, now: Instant) -> io::Result<Self> {
        let mut load = Self {
            plan,
            lanes: Vec::new(),
            ending: Vec::new(),
            used: BTreeMap::new(),
            places: 1 << 32,
            numbers: 0,
            gone: Default::default(),
            last_answer: None,
            tally: Tally::default(),
        };
        for _ in 0..PORTS {
            let lane = load.open(now)?;
            load.lanes.push(lane);
        }
        Ok(load)
    }

    fn open(&mut self, now: Instant) -> io::Result<Lane> {
        let lifetime = TransmissionParameters::DEFAULT.exchange_lifetime();
        self.used.retain(|_, since| now.since(*since) < lifetime);
        let mut config = Config::default();
        config.parameters.nstart = u16::MAX;
        config.limits.dedup_idempotent = 1;
        // Ports that the system assigns again too early are held until it assigns another.
        let mut early = Vec::new();
        loop {
            let Plan {
                server, loss, seed, ..
            } = self.plan;
            self.places += 1;
            let port = Port::open(server, config.clone(), loss, seed, self.places)?;
            if self.used.contains_key(&port.number()?) {
                early.push(port);
                continue;
            }
            return Ok(Lane {
                port,
                waiting: BTreeMap::new(),
                begun: VecDeque::new(),
                active: 0,
                asked: 0,
                newest: now,
            });
        }
    }

    /// Runs all ports once; with `asking`, also starts requests.
    pub(crate) fn turn(&mut self, now: Instant, asking: bool) -> io::Result<()> {
        let mut arrived = false;
        for index in 0..self.lanes.len() {
            if asking && self.lanes[index].asked >= PORT_REQUESTS {
                let fresh = self.open(now)?;
                let old = std::mem::replace(&mut self.lanes[index], fresh);
                self.ending.push(old);
            }
            let lane = &mut self.lanes[index];
            lane.age();
            if asking {
                lane.fill(now, &mut self.numbers);
            }
            arrived |= lane.port.turn(now)?;
            let answered = lane.process_events(&mut self.tally);
            self.note(now, answered);
        }
        for index in (0..self.ending.len()).rev() {
            let lane = &mut self.ending[index];
            lane.port.turn(now)?;
            let answered = lane.process_events(&mut self.tally);
            let over = lane.waiting.is_empty() && lane.port.usage().exchanges == 0;
            self.note(now, answered);
            if over {
                let lane = self.ending.swap_remove(index);
                self.gone.0.add(lane.port.traffic());
                self.gone.1.add(lane.port.exchanged());
                self.used.insert(lane.port.number()?, now);
            }
        }
        if !arrived {
            std::thread::sleep(IDLE);
        }
        Ok(())
    }

    fn note(&mut self, now: Instant, answered: bool) {
        if !answered {
            return;
        }
        if let Some(last) = self.last_answer {
            let gap = now.since(last).as_micros();
            self.tally.longest_gap_us = self.tally.longest_gap_us.max(gap);
        }
        self.last_answer = Some(now);
    }

    /// Stops measuring gaps: without further requests, a gap is no stall.
    pub(crate) fn stop_timing(&mut self) {
        self.last_answer = None;
    }

    /// Number of pending requests.
    pub(crate) fn under_way(&self) -> usize {
        let lanes = self.lanes.iter().chain(&self.ending);
        lanes.map(|lane| lane.waiting.len()).sum()
    }

    /// All counts so far.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        let (mut traffic, mut exchanged) = self.gone;
        for lane in self.lanes.iter().chain(&self.ending) {
            traffic.add(lane.port.traffic());
            exchanged.add(lane.port.exchanged());
        }
        tally.traffic = traffic;
        tally.exchanged = exchanged;
        tally
    }
}

impl Lane {
    /// Marks requests that wait for a retransmission as inactive.
    fn age(&mut self) {
        while let Some(&(since, id)) = self.begun.front() {
            if since + FRESH > self.newest {
                break;
            }
            self.begun.pop_front();
            if let Some(waiting) = self.waiting.get_mut(&id)
                && core::mem::take(&mut waiting.active)
            {
                self.active -= 1;
            }
        }
    }

    fn fill(&mut self, now: Instant, numbers: &mut u64) {
        while self.active < ACTIVE && self.asked < PORT_REQUESTS {
            *numbers += 1;
            let number = numbers.is_multiple_of(PUT_EVERY).then_some(*numbers);
            let request = match number {
                None => Request::get().with_path("/hello"),
                Some(number) => Request::new(Code::PUT)
                    .with_payload(number.to_be_bytes().to_vec())
                    .with_path("/echo"),
            };
            let request = request.expect("a short path");
            // Without a free slot in the engine, retry after the next response.
            let Ok(id) = self.port.request(now, request, RequestConfig::default()) else {
                break;
            };
            let active = true;
            let since = now;
            let waiting = Waiting {
                since,
                number,
                active,
            };
            self.waiting.insert(id, waiting);
            self.begun.push_back((now, id));
            self.active += 1;
            self.asked += 1;
        }
    }

    /// Processes the engine's events; returns whether there was a response.
    fn process_events(&mut self, tally: &mut Tally) -> bool {
        let mut answered = false;
        while let Some(event) = self.port.event() {
            let (id, result) = match event {
                Event::Response { id, response } => (id, Ok(response)),
                Event::Failed { id, failure } => (id, Err(failure)),
                _ => continue,
            };
            let Some(waiting) = self.waiting.remove(&id) else {
                continue;
            };
            self.active -= usize::from(waiting.active);
            if result.is_ok() && waiting.active {
                self.newest = self.newest.max(waiting.since);
            }
            answered |= result.is_ok();
            waiting.judge(result, tally);
        }
        answered
    }
}

impl Waiting {
    fn judge(&self, result: Result<Response, Failure>, tally: &mut Tally) {
        match result {
            Ok(response) => {
                let right = match self.number {
                    None => response.code == Code::CONTENT && response.bytes()[..] == *HELLO,
                    Some(number) => {
                        response.code == Code::CHANGED
                            && response.bytes()[..] == number.to_be_bytes()
                    }
                };
                tally.answered += 1;
                if !right {
                    tally.wrong(format!("{} {:?}", response.code, response.bytes()));
                }
            }
            Err(failure) => tally.failed(failure),
        }
    }
}
