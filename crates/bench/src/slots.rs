//! Where requests may start: the places outstanding, spread evenly over source ports. A port is used
//! as long after its last use as possible.
//!
//! A Message ID must not recur between two endpoints within EXCHANGE_LIFETIME (RFC 7252 4.4), and
//! a port that was given up a moment ago is the same endpoint again, with a random Message ID to
//! begin with. So ports are taken in turn, from a random one on, not as the system picks them.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use carob_cc::random::Random as _;

use super::entropy::Entropy;
use super::plan::Plan;
use super::ports::Now;
use super::socket::connect;

/// A source port's turn: when the port is replaced, its places go with it.
#[derive(Debug)]
struct PortSlots {
    /// The port's key.
    key: usize,
    /// Nothing starts before this; nanoseconds.
    paused_until: u64,
}

/// The places of one thread.
#[derive(Debug)]
pub(super) struct Slots {
    all: Vec<PortSlots>,
    /// A lane for each free place, the one free for longest first.
    free: VecDeque<usize>,
    /// Free places of lanes that pause.
    resting: Vec<usize>,
    outstanding: usize,
}

/// The `index`-th of `parts` almost equal shares of a whole.
pub(super) fn share(whole: u64, index: usize, parts: usize) -> u64 {
    let (index, parts) = (index as u64, parts as u64);
    whole / parts + u64::from(index < whole % parts)
}

impl Slots {
    /// The lanes of one of the plan's threads, each with a port that `open` opens.
    pub(super) fn new(
        plan: &Plan,
        thread: usize,
        mut open: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<Self> {
        let of_all = |lane: usize| lane * plan.threads + thread;
        let count = share(plan.ports as u64, thread, plan.threads) as usize;
        let slots: io::Result<Vec<PortSlots>> = (0..count)
            .map(|_| {
                let (key, paused_until) = (open()?, 0);
                Ok(PortSlots { key, paused_until })
            })
            .collect();
        let places = |lane| share(plan.outstanding as u64, of_all(lane), plan.ports) as usize;
        // Port by port, then again, so that the first requests are spread evenly, too.
        let rounds = (0..count).map(places).max().unwrap_or_default();
        let free = (0..rounds)
            .flat_map(|round| (0..count).filter(move |&lane| round < places(lane)))
            .collect();
        Ok(Self {
            all: slots?,
            free,
            resting: Vec::new(),
            outstanding: 0,
        })
    }

    /// The ports' keys, lane by lane.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        self.all.iter().map(|lane| lane.key)
    }

    pub(super) fn key(&self, lane: usize) -> usize {
        self.all[lane].key
    }

    /// Gives a lane another port.
    pub(super) fn move_to(&mut self, lane: usize, key: usize) {
        self.all[lane].key = key;
    }

    /// Places that are taken.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a place; its lane.
    pub(super) fn take(&mut self, now: Now) -> Option<usize> {
        if !self.resting.is_empty() {
            let Self {
                all, free, resting, ..
            } = self;
            resting.retain(|&lane| {
                let rested = all[lane].paused_until <= now.nanos;
                if rested {
                    free.push_back(lane);
                }
                !rested
            });
        }
        while let Some(lane) = self.free.pop_front() {
            if self.all[lane].paused_until <= now.nanos {
                self.outstanding += 1;
                return Some(lane);
            }
            self.resting.push(lane);
        }
        None
    }

    /// Gives a place back.
    pub(super) fn give_back(&mut self, lane: usize) {
        self.outstanding -= 1;
        self.free.push_back(lane);
    }

    /// Lets nothing start on a lane for a while.
    pub(super) fn pause(&mut self, lane: usize, now: Now, pause: Duration) {
        self.all[lane].paused_until = now.nanos + pause.as_nanos() as u64;
    }

    /// When the first pause ends, if nothing else may start before; nanoseconds.
    pub(super) fn next_resumption(&self) -> u64 {
        let until = |&lane: &usize| self.all[lane].paused_until;
        self.resting.iter().map(until).min().unwrap_or(u64::MAX)
    }
}

/// The ports that systems use for clients (Linux's default range).
const RANGE: Range<u16> = 32_768..61_000;

/// The turn of the source ports, for all threads.
#[derive(Debug)]
pub(super) struct SourcePorts {
    state: Mutex<State>,
    lifetime: Duration,
}

#[derive(Debug)]
struct State {
    next: u16,
    /// Ports tried since the turn began.
    tried: usize,
    /// When the turn began.
    since: Instant,
    recurred: bool,
}

impl SourcePorts {
    /// Begins anywhere. `lifetime` is EXCHANGE_LIFETIME.
    pub(super) fn new(lifetime: Duration) -> io::Result<Self> {
        let draw = Entropy::from_system()?.next_u32() as usize % RANGE.len();
        Ok(Self::starting_at(RANGE.start + draw as u16, lifetime))
    }

    fn starting_at(next: u16, lifetime: Duration) -> Self {
        let state = State {
            next,
            tried: 0,
            since: Instant::now(),
            recurred: false,
        };
        Self {
            state: Mutex::new(state),
            lifetime,
        }
    }

    /// Opens a socket at the next free port.
    pub(super) fn open(&self, server: SocketAddr) -> io::Result<UdpSocket> {
        for _ in RANGE {
            match connect(server, self.next()) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                other => return other,
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn next(&self) -> u16 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.tried == RANGE.len() {
            state.recurred |= state.since.elapsed() < self.lifetime;
            state.tried = 0;
            state.since = Instant::now();
        }
        state.tried += 1;
        let port = state.next;
        state.next = match port + 1 {
            end if end == RANGE.end => RANGE.start,
            next => next,
        };
        port
    }

    /// Returns true if a port was used again within EXCHANGE_LIFETIME, because there are no more.
    pub(super) fn recurred(&self) -> bool {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recurred
    }
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Instant;

    use super::*;
    use crate::plan::tests::plan;

    fn slots([outstanding, ports, threads]: [usize; 3], thread: usize) -> Slots {
        let mut keys = 10..;
        let open = || Ok(keys.next().expect("endless"));
        let plan = Plan {
            outstanding,
            ports,
            threads,
            ..plan()
        };
        Slots::new(&plan, thread, open).expect("opened")
    }

    fn at(nanos: u64) -> Now {
        let at = Instant::from_micros(nanos / 1_000);
        Now { nanos, at }
    }

    #[test]
    fn shares_differ_by_one_at_most_and_add_up() {
        let shares: Vec<u64> = (0..3).map(|index| share(11, index, 3)).collect();
        assert_eq!(shares, [4, 4, 3]);
    }

    #[test]
    fn slots_are_spread_over_ports_and_threads() {
        let take = |mut slots: Slots| core::iter::from_fn(|| slots.take(at(0))).collect::<Vec<_>>();
        assert_eq!(take(slots([7, 3, 1], 0)), [0, 1, 2, 0, 1, 2, 0]);
        let of = |thread| take(slots([7, 3, 2], thread));
        assert_eq!(of(0), [0, 1, 0, 1, 0], "ports 0 and 2");
        assert_eq!(of(1), [0, 0], "port 1");
    }

    #[test]
    fn paused_lane_is_skipped_until_its_time() {
        let mut slots = slots([2, 2, 1], 0);
        slots.pause(0, at(0), Duration::from_nanos(50));
        assert_eq!(slots.take(at(10)), Some(1));
        assert_eq!(slots.take(at(10)), None);
        assert_eq!(slots.next_resumption(), 50);
        assert_eq!(slots.take(at(50)), Some(0));
        assert_eq!(slots.next_resumption(), u64::MAX);
    }

    #[test]
    fn ports_repeat_once_per_cycle_and_early_cycle_is_reported() {
        let ports = SourcePorts::starting_at(RANGE.end - 1, Duration::from_secs(247));
        let mut turn: Vec<u16> = RANGE.map(|_| ports.next()).collect();
        assert_eq!(turn[..2], [RANGE.end - 1, RANGE.start]);
        turn.sort_unstable();
        assert!(turn.into_iter().eq(RANGE));
        assert!(!ports.recurred());
        ports.next();
        assert!(ports.recurred());
    }

    #[test]
    fn a_second_turn_after_the_lifetime_is_fine() {
        let ports = SourcePorts::starting_at(40_000, Duration::ZERO);
        for _ in 0..=RANGE.len() {
            ports.next();
        }
        assert!(!ports.recurred());
    }

    #[test]
    fn port_in_use_is_skipped() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let server = server.local_addr().expect("bound");
        let ports = SourcePorts::new(Duration::ZERO).expect("randomness");
        let first = ports.open(server).expect("a free port");
        let first = first.local_addr().expect("bound").port();
        let again = SourcePorts::starting_at(first, Duration::ZERO);
        let one = again.open(server).expect("a free port");
        let two = SourcePorts::starting_at(one.local_addr().expect("bound").port(), Duration::ZERO)
            .open(server)
            .expect("a free port");
        assert_ne!(
            one.local_addr().expect("bound").port(),
            two.local_addr().expect("bound").port()
        );
    }
}
