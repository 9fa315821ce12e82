//! A UDP proxy that loses, duplicates and reorders datagrams, and remembers what it saw.

use std::{
    collections::BTreeMap,
    io,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// How often a held or stopped state is looked at; also the longest time a datagram is held back.
const TICK: Duration = Duration::from_millis(25);
/// Clients beyond this many are not served; a test has one or two.
const CLIENTS_MAX: usize = 16;
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// What happens to the datagrams of one direction, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) loss: u16,
    pub(crate) duplication: u16,
    /// Held back until the next datagram has gone, or a tick has passed.
    pub(crate) reordering: u16,
}

/// What the proxy saw in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) datagrams: u32,
    pub(crate) lost: u32,
    pub(crate) duplicated: u32,
    pub(crate) reordered: u32,
    pub(crate) confirmable: u32,
    pub(crate) non_confirmable: u32,
    pub(crate) empty_acknowledgements: u32,
    pub(crate) resets: u32,
    /// Requests by GET with Observe 1 (RFC 7641 3.6); repeated ones count once.
    pub(crate) cancellations: u32,
    last_cancellation: Option<u16>,
    /// The length of the longest datagram, in bytes.
    pub(crate) longest: usize,
    /// The requests, by message ID, each distinct text once.
    pub(crate) requests: BTreeMap<u16, Vec<Vec<u8>>>,
    /// The acknowledgements with a response in them, by message ID, each distinct text once.
    replies: BTreeMap<u16, Vec<Vec<u8>>>,
}

impl Seen {
    /// The message IDs that were answered in two different ways.
    ///
    /// A server that carries out a repeated request again may answer it differently.
    pub(crate) fn contradictions(&self) -> Vec<u16> {
        self.replies
            .iter()
            .filter(|(_, texts)| texts.len() > 1)
            .map(|(id, _)| *id)
            .collect()
    }

    /// The acknowledgements with a response in them.
    pub(crate) fn replies(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.replies.values().flatten()
    }

    fn note(&mut self, datagram: &[u8]) {
        const CONFIRMABLE: u8 = 0;
        const NON_CONFIRMABLE: u8 = 1;
        const ACKNOWLEDGEMENT: u8 = 2;
        self.datagrams += 1;
        self.longest = self.longest.max(datagram.len());
        if datagram.len() < 4 {
            return;
        }
        match (datagram[0] >> 4) & 3 {
            CONFIRMABLE => {
                self.confirmable += 1;
                self.note_cancellation(datagram);
                self.note_request(datagram);
            }
            NON_CONFIRMABLE => {
                self.non_confirmable += 1;
                self.note_request(datagram);
            }
            ACKNOWLEDGEMENT => self.note_acknowledgement(datagram),
            _ => self.resets += 1,
        }
    }

    fn note_request(&mut self, datagram: &[u8]) {
        if (1..32).contains(&datagram[1]) {
            note_text(&mut self.requests, datagram);
        }
    }

    fn note_cancellation(&mut self, datagram: &[u8]) {
        const GET: u8 = 1;
        let id = u16::from_be_bytes([datagram[2], datagram[3]]);
        let cancels = datagram[1] == GET && observe_option(datagram) == Some(1);
        if cancels && self.last_cancellation != Some(id) {
            self.cancellations += 1;
            self.last_cancellation = Some(id);
        }
    }

    fn note_acknowledgement(&mut self, datagram: &[u8]) {
        if datagram[1] == 0 {
            self.empty_acknowledgements += 1;
            return;
        }
        note_text(&mut self.replies, datagram);
    }
}

/// Keeps a message of at least four bytes, unless it is known.
fn note_text(known: &mut BTreeMap<u16, Vec<Vec<u8>>>, datagram: &[u8]) {
    let id = u16::from_be_bytes([datagram[2], datagram[3]]);
    let texts = known.entry(id).or_default();
    if !texts.iter().any(|known| known == datagram) {
        texts.push(datagram.to_vec());
    }
}

/// The value of the Observe option, number 6; no option before it has a long form in these tests.
fn observe_option(datagram: &[u8]) -> Option<u32> {
    const OBSERVE: u8 = 6;
    let mut rest = datagram.get(4 + usize::from(datagram[0] & 15)..)?;
    let mut number = 0;
    while let [head, tail @ ..] = rest {
        let (delta, length) = (head >> 4, head & 15);
        if delta > 12 || length > 12 {
            return None;
        }
        let value = tail.get(..usize::from(length))?;
        number += delta;
        if number >= OBSERVE {
            let uint = |sum, byte: &u8| sum << 8 | u32::from(*byte);
            return (number == OBSERVE).then(|| value.iter().fold(0, uint));
        }
        rest = tail.get(usize::from(length)..)?;
    }
    None
}

/// One direction: its faults, its own random stream and its record.
#[derive(Debug)]
struct Lane {
    faults: Faults,
    state: u64,
    held: Option<Vec<u8>>,
    seen: Seen,
}

impl Lane {
    fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            state: seed,
            held: None,
            seen: Seen::default(),
        }
    }

    /// What leaves the proxy now that `datagram` has come in, in this order.
    fn pass(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.seen.note(datagram);
        // Three draws whatever happens: one fault's rate does not shift the others' pattern.
        let (lost, duplicated, reordered) = [
            self.faults.loss,
            self.faults.duplication,
            self.faults.reordering,
        ]
        .map(|rate| self.happens(rate))
        .into();
        if lost {
            self.seen.lost += 1;
            return Vec::new();
        }
        if reordered && self.held.is_none() {
            self.seen.reordered += 1;
            self.held = Some(datagram.to_vec());
            return Vec::new();
        }
        let mut out = vec![datagram.to_vec()];
        if duplicated {
            self.seen.duplicated += 1;
            out.push(datagram.to_vec());
        }
        out.extend(self.held.take());
        out
    }

    fn happens(&mut self, thousandths: u16) -> bool {
        // SplitMix64: small, and the same on every machine.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 1000 < u64::from(thousandths)
    }
}

struct Shared {
    stop: AtomicBool,
    to_server: Mutex<Lane>,
    to_client: Mutex<Lane>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn lock(lane: &Mutex<Lane>) -> MutexGuard<'_, Lane> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running proxy; it stops when the value goes.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy on a port of its own in front of `127.0.0.1:server`.
    pub(crate) fn start(server: u16, to_server: Faults, to_client: Faults, seed: u64) -> Self {
        let listener = socket().expect("loopback has a free port");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            to_server: Mutex::new(Lane::new(to_server, seed)),
            to_client: Mutex::new(Lane::new(to_client, !seed)),
        });
        let for_thread = Arc::clone(&shared);
        let thread = thread::spawn(move || from_clients(&listener, server, &for_thread));
        Self {
            port,
            shared,
            thread: Some(thread),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn seen_to_server(&self) -> Seen {
        lock(&self.shared.to_server).seen.clone()
    }

    pub(crate) fn seen_to_client(&self) -> Seen {
        lock(&self.shared.to_client).seen.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(TICK))?;
    Ok(socket)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Each client gets a socket towards the server, as a NAT would do it.
fn from_clients(listener: &UdpSocket, server: u16, shared: &Arc<Shared>) {
    let mut clients: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut threads = Vec::new();
    let mut last = None;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    while !shared.stopped() {
        let (out, client) = match listener.recv_from(&mut buffer) {
            Ok((length, client)) => (lock(&shared.to_server).pass(&buffer[..length]), client),
            Err(error) if is_timeout(&error) => {
                let Some(client) = last else { continue };
                (
                    lock(&shared.to_server).held.take().into_iter().collect(),
                    client,
                )
            }
            // An earlier datagram met a closed port; the next may not.
            Err(_) => continue,
        };
        last = Some(client);
        if !clients.contains_key(&client) {
            if clients.len() == CLIENTS_MAX {
                continue;
            }
            let Ok(upstream) = socket() else { continue };
            if upstream.connect(("127.0.0.1", server)).is_err() {
                continue;
            }
            let upstream = Arc::new(upstream);
            clients.insert(client, Arc::clone(&upstream));
            let Ok(back) = listener.try_clone() else {
                continue;
            };
            let shared = Arc::clone(shared);
            threads.push(thread::spawn(move || {
                from_server(&upstream, &back, client, &shared);
            }));
        }
        for datagram in out {
            // A server that is gone looks like loss, and the log shows it.
            let _ = clients[&client].send(&datagram);
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn from_server(upstream: &UdpSocket, back: &UdpSocket, client: SocketAddr, shared: &Shared) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    while !shared.stopped() {
        let out = match upstream.recv(&mut buffer) {
            Ok(length) => lock(&shared.to_client).pass(&buffer[..length]),
            Err(error) if is_timeout(&error) => {
                lock(&shared.to_client).held.take().into_iter().collect()
            }
            Err(_) => continue,
        };
        for datagram in out {
            let _ = back.send_to(&datagram, client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(faults: Faults, seed: u64) -> (Seen, Vec<u32>) {
        let mut lane = Lane::new(faults, seed);
        let mut out = Vec::new();
        for number in 0..1000_u32 {
            let datagrams = lane.pass(&number.to_be_bytes());
            out.extend(
                datagrams
                    .iter()
                    .map(|d| u32::from_be_bytes([d[0], d[1], d[2], d[3]])),
            );
        }
        (lane.seen, out)
    }

    #[test]
    fn without_faults_everything_passes_once_and_in_order() {
        let (seen, out) = passed(Faults::default(), 1);
        assert_eq!(out, (0..1000).collect::<Vec<_>>());
        assert_eq!((seen.lost, seen.duplicated, seen.reordered), (0, 0, 0));
    }

    #[test]
    fn loss_and_duplication_happen_about_as_often_as_asked() {
        let (seen, out) = passed(
            Faults {
                loss: 50,
                duplication: 50,
                reordering: 0,
            },
            1,
        );
        assert!((30..70).contains(&seen.lost), "{}", seen.lost);
        assert!((30..70).contains(&seen.duplicated), "{}", seen.duplicated);
        assert_eq!(out.len() as u32, 1000 - seen.lost + seen.duplicated);
    }

    #[test]
    fn a_reordered_datagram_comes_after_its_successor() {
        let (seen, out) = passed(
            Faults {
                reordering: 100,
                ..Faults::default()
            },
            1,
        );
        assert!(seen.reordered > 0);
        assert!(out.windows(2).any(|pair| pair[0] > pair[1]));
        let mut sorted = out.clone();
        sorted.sort_unstable();
        assert!(sorted.len() >= 999 && sorted.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_another_seed_others() {
        let faults = Faults {
            loss: 50,
            duplication: 50,
            reordering: 20,
        };
        assert_eq!(passed(faults, 7).1, passed(faults, 7).1);
        assert_ne!(passed(faults, 7).1, passed(faults, 8).1);
    }

    #[test]
    fn replies_to_one_message_conflict_only_if_different() {
        let mut seen = Seen::default();
        seen.note(&[0x60, 0x41, 0, 1]);
        seen.note(&[0x60, 0x41, 0, 1]);
        seen.note(&[0x60, 0x44, 0, 2]);
        assert!(seen.contradictions().is_empty());
        seen.note(&[0x60, 0x44, 0, 1]);
        assert_eq!(seen.contradictions(), [1]);
    }

    #[test]
    fn a_get_with_observe_1_is_a_cancellation() {
        let mut seen = Seen::default();
        // If-Match empty, then Observe 0: a registration.
        seen.note(&[0x41, 1, 0, 1, 9, 0x10, 0x50]);
        assert_eq!(seen.cancellations, 0);
        let cancels = [0x41, 1, 0, 2, 9, 0x10, 0x51, 1];
        seen.note(&cancels);
        seen.note(&cancels);
        seen.note(&[0x70, 0, 0, 3]);
        assert_eq!((seen.cancellations, seen.resets), (1, 1));
    }

    #[test]
    fn datagrams_find_their_way_there_and_back_for_two_clients() {
        let server = socket().expect("loopback has a free port");
        let port = server.local_addr().expect("it is bound").port();
        let proxy = Proxy::start(port, Faults::default(), Faults::default(), 1);
        let clients: Vec<_> = (0..2).map(|_| socket().expect("a free port")).collect();
        for (number, client) in clients.iter().enumerate() {
            client
                .set_read_timeout(Some(Duration::from_secs(5)))
                .expect("a non-zero timeout");
            client
                .send_to(&[number as u8; 5], ("127.0.0.1", proxy.port()))
                .expect("loopback");
        }
        server
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a non-zero timeout");
        let mut buffer = [0; 16];
        for _ in &clients {
            let (length, from) = server.recv_from(&mut buffer).expect("both arrive");
            server.send_to(&buffer[..length], from).expect("loopback");
        }
        for (number, client) in clients.iter().enumerate() {
            let length = client.recv(&mut buffer).expect("the answer arrives");
            assert_eq!(buffer[..length], [number as u8; 5]);
        }
        assert_eq!(proxy.seen_to_server().datagrams, 2);
        assert_eq!(proxy.seen_to_client().datagrams, 2);
    }
}
