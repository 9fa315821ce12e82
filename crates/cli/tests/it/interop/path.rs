//! A UDP relay between clients and a server that records every datagram and loses, duplicates and reorders some.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::wire::{Frame, Message, Seen, Side, Wire};

/// Sleep between polls of idle sockets.
const PAUSE: Duration = Duration::from_millis(1);
/// Longest delay of a reordered datagram.
const HELD_MAX: Duration = Duration::from_millis(25);
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Fault rates of one direction in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) loss: u16,
    pub(crate) duplication: u16,
    /// Delayed until the next datagram has passed.
    pub(crate) reordering: u16,
}

/// Selects datagrams to drop.
type Loses = Box<dyn FnMut(Side, &Message) -> bool + Send>;

/// SplitMix64: small and platform-independent.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

/// State of one direction: faults, random stream, and the delayed datagram.
struct Lane {
    faults: Faults,
    random: Draws,
    held: Option<(Vec<u8>, Instant)>,
}

impl Lane {
    fn happens(&mut self, thousandths: u16) -> bool {
        self.random.below(1000) < u64::from(thousandths)
    }
}

struct State {
    since: Instant,
    wire: Wire,
    loses: Vec<Loses>,
    /// Datagrams that are no CoAP messages; DTLS records are not counted.
    malformed: usize,
    lanes: [Lane; 2],
    stopped: bool,
}

/// Recorded datagrams and scheduled faults; clones share them.
#[derive(Clone)]
pub(crate) struct Record(Arc<Mutex<State>>);

impl Record {
    fn new(faults: Faults, seed: u64) -> Self {
        let lane = |random| Lane {
            faults,
            random: Draws(random),
            held: None,
        };
        Self(Arc::new(Mutex::new(State {
            since: Instant::now(),
            wire: Wire::default(),
            loses: Vec::new(),
            malformed: 0,
            lanes: [lane(seed), lane(!seed)],
            stopped: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All recorded messages; panics if a datagram was none.
    pub(crate) fn wire(&self) -> Wire {
        let state = self.lock();
        assert_eq!(state.malformed, 0, "every datagram is a message");
        state.wire.clone()
    }

    /// The messages among the recorded datagrams.
    pub(crate) fn messages(&self) -> Wire {
        self.lock().wire.clone()
    }

    /// Drops the next `count` datagrams that are selected.
    pub(crate) fn lose(
        &self,
        mut count: usize,
        mut which: impl FnMut(Side, &Message) -> bool + Send + 'static,
    ) {
        self.lock().loses.push(Box::new(move |side, message| {
            let loses = count > 0 && which(side, message);
            count -= usize::from(loses);
            loses
        }));
    }

    /// Records a datagram; returns those to forward now, in order.
    fn pass(&self, from: Side, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut state = self.lock();
        let State {
            since,
            wire,
            loses,
            malformed,
            lanes,
            ..
        } = &mut *state;
        let lane = &mut lanes[from as usize];
        // Always three draws, so that the rate of one fault does not shift the pattern of the others.
        let Faults {
            loss,
            duplication,
            reordering,
        } = lane.faults;
        let [mut lost, duplicated, reordered] =
            [loss, duplication, reordering].map(|rate| lane.happens(rate));
        if let Some(message) = Message::read(datagram) {
            lost |= loses.iter_mut().any(|loses| loses(from, &message));
            wire.0.push(Frame {
                at: since.elapsed(),
                from,
                lost,
                duplicated: duplicated && !lost,
                message,
            });
        } else {
            *malformed += 1;
        }
        if lost {
            return Vec::new();
        }
        if reordered && lane.held.is_none() {
            lane.held = Some((datagram.to_vec(), Instant::now()));
            return Vec::new();
        }
        let mut out = vec![datagram.to_vec(); 1 + usize::from(duplicated)];
        out.extend(lane.held.take().map(|(held, _)| held));
        out
    }

    /// A delayed datagram whose time is over.
    fn overdue(&self, from: Side) -> Option<Vec<u8>> {
        let held = &mut self.lock().lanes[from as usize].held;
        let overdue = held.take_if(|(_, since)| since.elapsed() >= HELD_MAX);
        overdue.map(|(held, _)| held)
    }
}

/// A running relay, stopped on drop.
pub(crate) struct Path {
    port: u16,
    record: Record,
    thread: Option<JoinHandle<()>>,
}

impl Path {
    /// Starts a relay to `127.0.0.1:server` with these faults in both directions.
    pub(crate) fn start(server: u16, faults: Faults, seed: u64) -> Self {
        let clients = socket();
        let port = clients.local_addr().expect("it is bound").port();
        let record = Record::new(faults, seed);
        let shared = record.clone();
        let thread = thread::spawn(move || run(&clients, server, &shared));
        Self {
            port,
            record,
            thread: Some(thread),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// CoAP messages to the server.
    pub(crate) fn to_server(&self) -> Seen {
        self.record.lock().wire.seen(Side::Client)
    }

    /// CoAP messages to the clients.
    pub(crate) fn to_client(&self) -> Seen {
        self.record.lock().wire.seen(Side::Server)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.record.lock().stopped = true;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.set_nonblocking(true).expect("a system's socket");
    socket
}

/// Relays datagrams. Each client gets its own socket towards the server, as behind a NAT. Socket errors count as
/// loss: the server may have exited.
fn run(clients: &UdpSocket, server: u16, record: &Record) {
    let mut all: Vec<(SocketAddr, UdpSocket)> = Vec::new();
    let mut last = [0; 2];
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    while !record.lock().stopped {
        while let Ok((length, from)) = clients.recv_from(&mut buffer) {
            let known = all.iter().position(|(client, _)| *client == from);
            let index = known.unwrap_or_else(|| {
                let upstream = socket();
                upstream.connect(("127.0.0.1", server)).expect("loopback");
                all.push((from, upstream));
                all.len() - 1
            });
            last[Side::Client as usize] = index;
            for datagram in record.pass(Side::Client, &buffer[..length]) {
                let _ = all[index].1.send(&datagram);
            }
        }
        for (index, (client, upstream)) in all.iter().enumerate() {
            while let Ok(length) = upstream.recv(&mut buffer) {
                last[Side::Server as usize] = index;
                for datagram in record.pass(Side::Server, &buffer[..length]) {
                    let _ = clients.send_to(&datagram, client);
                }
            }
        }
        if let Some(held) = record.overdue(Side::Client) {
            let _ = all[last[Side::Client as usize]].1.send(&held);
        }
        if let Some(held) = record.overdue(Side::Server) {
            let _ = clients.send_to(&held, all[last[Side::Server as usize]].0);
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a thousand numbered datagrams; returns those that pass.
    fn passed(faults: Faults, seed: u64) -> Vec<u32> {
        let record = Record::new(faults, seed);
        let numbers = (0..1000_u32).flat_map(|n| record.pass(Side::Client, &n.to_be_bytes()));
        let number =
            |datagram: Vec<u8>| u32::from_be_bytes(datagram.try_into().expect("four bytes"));
        numbers.map(number).collect()
    }

    #[test]
    fn faults_occur_at_their_rates_and_repeat_with_the_seed() {
        assert!(passed(Faults::default(), 1).into_iter().eq(0..1000));
        let faults = Faults {
            loss: 50,
            duplication: 50,
            reordering: 20,
        };
        let out = passed(faults, 7);
        assert_eq!(out, passed(faults, 7));
        assert_ne!(out, passed(faults, 8));
        let mut distinct = out.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!((930..970).contains(&distinct.len()), "{}", distinct.len());
        let twice = out.len() - distinct.len();
        assert!((30..70).contains(&twice), "{twice}");
        assert!(out.windows(2).any(|pair| pair[0] > pair[1]), "reordered");
    }

    #[test]
    fn selected_messages_are_lost_as_often_as_requested() {
        let (request, empty) = ([0x40, 1, 0, 7], [0x60, 0, 0, 7]);
        let record = Record::new(Faults::default(), 1);
        record.lose(2, |side, message| {
            side == Side::Client && message.code.is_request()
        });
        assert_eq!(record.pass(Side::Client, &empty).len(), 1);
        assert_eq!(record.pass(Side::Server, &request).len(), 1);
        let passed = [0; 3].map(|_| record.pass(Side::Client, &request).len());
        assert_eq!(passed, [0, 0, 1]);
        let lost: Vec<_> = record.wire().0.iter().map(|frame| frame.lost).collect();
        assert_eq!(lost, [false, false, true, true, false]);
    }

    #[test]
    fn datagrams_of_two_clients_return_to_them() {
        let wait = Some(Duration::from_secs(5));
        let bound = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.set_read_timeout(wait).expect("a time");
            socket
        };
        let (server, clients) = (bound(), [bound(), bound()]);
        let port = server.local_addr().expect("bound").port();
        let path = Path::start(port, Faults::default(), 1);
        for (number, client) in clients.iter().enumerate() {
            let request = [0x40, 1, 0, number as u8];
            client
                .send_to(&request, ("127.0.0.1", path.port()))
                .expect("sent");
        }
        let mut buffer = [0; 16];
        for _ in &clients {
            let (length, from) = server.recv_from(&mut buffer).expect("both arrive");
            server.send_to(&buffer[..length], from).expect("sent");
        }
        for (number, client) in clients.iter().enumerate() {
            let length = client.recv(&mut buffer).expect("the answer arrives");
            assert_eq!(buffer[..length], [0x40, 1, 0, number as u8]);
        }
        assert_eq!((path.to_server().0.len(), path.to_client().0.len()), (2, 2));
    }
}
