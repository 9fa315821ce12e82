//! The sockets of a load: one UDP socket for each source port, connected to the server.
//!
//! Connected, because the system then looks the route up once, filters other senders,
//! and reports ICMP errors about the server. On Linux a batch of datagrams is
//! one system call, and waiting has the resolution of the system's timers; elsewhere datagrams
//! pass one by one and sockets are tried in turn.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "portable.rs"]
mod system;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

pub(super) use system::Poller;
use system::Scratch;

/// Datagrams taken or given in one system call.
const BATCH: usize = 64;

/// The largest datagram that is read, in bytes; a longer one is counted and dropped.
const DATAGRAM_BYTES: usize = 4_096;

/// Opens a socket at a source port; 0 leaves the choice to the system.
pub(super) fn connect(server: SocketAddr, port: u16) -> io::Result<UdpSocket> {
    let any: SocketAddr = if server.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, port).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, port).into()
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    system::prepare(&socket);
    Ok(socket)
}

/// Returns true if the system has no room for a datagram now, and may have some soon.
fn is_full(error: &io::Error) -> bool {
    // Some systems report a full device queue as ENOBUFS, which has no `ErrorKind`.
    #[cfg(unix)]
    if error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32) {
        return true;
    }
    error.kind() == io::ErrorKind::WouldBlock
}

/// Room for a batch of datagrams, for all sockets of a thread in turn.
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Length of each datagram; none if it was too long.
    lengths: [Option<usize>; BATCH],
    scratch: Scratch,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * DATAGRAM_BYTES],
            lengths: [None; BATCH],
            scratch: Scratch::new(),
        }
    }

    /// Receives a batch; returns the number of datagrams.
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let mut chunks = self.bytes.chunks_exact_mut(DATAGRAM_BYTES);
        let buffers = core::array::from_fn(|_| chunks.next().unwrap_or_default());
        self.scratch.receive(socket, buffers, &mut self.lengths)
    }

    /// A datagram of the batch; none if it was too long to be read.
    pub(super) fn datagram(&self, index: usize) -> Option<&[u8]> {
        let start = index * DATAGRAM_BYTES;
        self.lengths[index].map(|length| &self.bytes[start..start + length])
    }

    /// Sends the datagrams of `outbox`; `WouldBlock` if the system has no room for the rest.
    pub(super) fn send(&mut self, socket: &UdpSocket, outbox: &mut Outbox) -> io::Result<()> {
        while !outbox.is_empty() {
            match self.scratch.send(socket, outbox) {
                Ok(count) => outbox.advance(count),
                Err(error) if is_full(&error) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Datagrams on their way out; bytes and places are reused.
///
/// It holds the output of one batch of input, which the number of requests outstanding bounds.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Where each datagram ends.
    ends: Vec<usize>,
    /// Datagrams that have left.
    sent: usize,
}

impl Outbox {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.ends.len()
    }

    /// The datagrams that have not left.
    fn rest(&self) -> impl Iterator<Item = &[u8]> {
        (self.sent..self.ends.len()).map(|index| {
            let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[index]]
        })
    }

    /// The leading datagrams of equal size: their bytes, the size, and their
    /// number.
    #[cfg(target_os = "linux")]
    fn run(&self, most: usize, most_bytes: usize) -> (&[u8], u16, usize) {
        let mut rest = self.rest();
        let size = rest.next().map_or(0, <[u8]>::len);
        let most = most.min(most_bytes / size.max(1)).max(1);
        let count = 1 + rest
            .take(most - 1)
            .take_while(|next| next.len() == size)
            .count();
        let start = self
            .sent
            .checked_sub(1)
            .map_or(0, |before| self.ends[before]);
        (&self.bytes[start..start + count * size], size as u16, count)
    }

    /// Best-effort flush of close messages. A server that receives none times the session
    /// out.
    pub(super) fn send_or_drop(&mut self, socket: &UdpSocket) {
        for datagram in self.rest() {
            let _ = socket.send(datagram);
        }
        self.clear();
    }

    fn advance(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.ends.len());
        if self.is_empty() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn pair() -> (UdpSocket, UdpSocket) {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let client = connect(server.local_addr().expect("bound"), 0).expect("a socket");
        (server, client)
    }

    #[test]
    fn queued_datagrams_arrive_in_order() {
        let (server, client) = pair();
        let (mut batch, mut outbox) = (Batch::new(), Outbox::default());
        for n in 0..=BATCH as u8 {
            outbox.push(&vec![n; usize::from(n) + 1]);
        }
        batch.send(&client, &mut outbox).expect("there is room");
        assert!(outbox.is_empty());
        let mut bytes = [0; 200];
        for n in 0..=BATCH as u8 {
            let length = server.recv(&mut bytes).expect("sent");
            assert_eq!(bytes[..length], vec![n; usize::from(n) + 1]);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn batch_ends_at_a_size_change_and_at_its_limits() {
        let mut outbox = Outbox::default();
        for bytes in [&b"ab"[..], b"cd", b"ef", b"ghi", b"jk"] {
            outbox.push(bytes);
        }
        assert_eq!(outbox.run(9, 99), (&b"abcdef"[..], 2, 3));
        assert_eq!(outbox.run(2, 99), (&b"abcd"[..], 2, 2));
        assert_eq!(outbox.run(9, 3), (&b"ab"[..], 2, 1));
        outbox.advance(3);
        assert_eq!(outbox.run(9, 99), (&b"ghi"[..], 3, 1));
    }

    #[test]
    fn datagrams_of_one_size_arrive_one_by_one() {
        let (server, client) = pair();
        let (mut batch, mut outbox) = (Batch::new(), Outbox::default());
        for n in 0..100_u8 {
            outbox.push(&[n; 5]);
        }
        batch.send(&client, &mut outbox).expect("there is room");
        let mut bytes = [0; 200];
        for n in 0..100_u8 {
            let length = server.recv(&mut bytes).expect("sent");
            assert_eq!(bytes[..length], [n; 5]);
        }
    }

    #[test]
    fn datagram_wakes_poller_and_oversized_one_is_counted() {
        let (server, client) = pair();
        let mut poller = Poller::new().expect("a poller");
        poller.add(&client, 7).expect("watched");
        let to = client.local_addr().expect("bound");
        let to: SocketAddr = (Ipv4Addr::LOCALHOST, to.port()).into();
        server.send_to(b"one", to).expect("sent");
        server.send_to(&[0; DATAGRAM_BYTES + 1], to).expect("sent");
        let mut ready = Vec::new();
        let limit = Instant::now() + Duration::from_secs(5);
        poller.wait(Some(limit), &mut ready).expect("waited");
        assert_eq!(ready, [7]);
        let mut batch = Batch::new();
        assert_eq!(batch.receive(&client).expect("read"), 2);
        assert_eq!(batch.datagram(0), Some(&b"one"[..]));
        assert_eq!(batch.datagram(1), None, "too long to be read whole");
        assert!(matches!(batch.receive(&client), Ok(0)));
    }

    #[test]
    fn waiting_ends_at_the_time_named_and_not_before() {
        let mut poller = Poller::new().expect("a poller");
        let mut ready = Vec::new();
        let until = Instant::now() + Duration::from_millis(3);
        // It may wake up too early, but then wakes up repeatedly.
        while Instant::now() < until {
            poller.wait(Some(until), &mut ready).expect("waited");
        }
        assert!(ready.is_empty());
        assert!(Instant::now() >= until);
    }
}
