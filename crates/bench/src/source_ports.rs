//! Which source ports to use: each as long after its last use as possible.
//!
//! A Message ID must not recur between two endpoints within EXCHANGE_LIFETIME (RFC 7252 4.4), and
//! a port that was given up a moment ago is the same endpoint again, with a random Message ID to
//! begin with. So ports are taken in turn, from a random one on, not as the system picks them.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use carob_cc::random::Random as _;

use super::entropy::Entropy;
use super::socket::connect;

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
    use super::*;

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
