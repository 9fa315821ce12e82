//! A source port: a socket and an engine, with datagram loss in between.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use carob_cc::evidence::Reason;
use carob_cc::random::Random;
use carob_cc::time::Instant;
use carob_proto::counters::Exchanges;
use carob_proto::endpoint::{
    Config, Endpoint, Event, Output, RequestConfig, RequestError, RequestId, Usage,
};
use carob_proto::message::Request;
use chacha20::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// Datagrams read from one socket per turn.
const TURN: usize = 64;
/// Size of the receive buffer in bytes.
const DATAGRAM_BYTES: usize = 2_048;

/// A ChaCha8 random stream.
pub(crate) struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of this seed and index.
    pub(crate) fn new(seed: u64, place: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(place);
        Self(rng)
    }
}

impl Random for Stream {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
}

/// Datagram counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) sent_lost: u64,
    pub(crate) received: u64,
    pub(crate) received_lost: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_lost += other.sent_lost;
        self.received += other.received;
        self.received_lost += other.received_lost;
    }
}

/// Outcomes of an engine's Confirmable messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchanged {
    pub(crate) begun: u64,
    pub(crate) retransmissions: u64,
    pub(crate) timed_out: u64,
}

impl Exchanged {
    pub(crate) fn add(&mut self, other: Self) {
        self.begun += other.begun;
        self.retransmissions += other.retransmissions;
        self.timed_out += other.timed_out;
    }
}

pub(crate) struct Port {
    socket: UdpSocket,
    server: SocketAddr,
    endpoint: Endpoint,
    chance: Stream,
    /// Random draws below this value are losses.
    loss: u64,
    traffic: Traffic,
    due: Option<Instant>,
    /// Datagrams that the full socket buffer refused; bounded by the number of pending requests.
    waiting: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
}

impl Port {
    /// Opens a port; `loss` is the probability per datagram and direction.
    pub(crate) fn open(
        server: SocketAddr,
        config: Config,
        loss: f64,
        seed: u64,
        place: u64,
    ) -> io::Result<Self> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            server,
            endpoint: Endpoint::new(config, Stream::new(seed, 2 * place)),
            chance: Stream::new(seed, 2 * place + 1),
            loss: (loss * (1_u64 << 32) as f64) as u64,
            traffic: Traffic::default(),
            due: None,
            waiting: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    /// The assigned port number.
    pub(crate) fn number(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    pub(crate) fn request(
        &mut self,
        now: Instant,
        request: Request,
        sending: RequestConfig,
    ) -> Result<RequestId, RequestError> {
        let id = self.endpoint.request(now, self.server, request, sending);
        self.drain();
        id
    }

    pub(crate) fn stop_observing(&mut self, now: Instant, id: RequestId) {
        self.endpoint.stop_observing(now, id);
        self.drain();
    }

    /// Receives datagrams and handles timeouts; returns whether there were any datagrams.
    pub(crate) fn turn(&mut self, now: Instant) -> io::Result<bool> {
        self.resend()?;
        let mut bytes = [0; DATAGRAM_BYTES];
        let mut arrived = false;
        for _ in 0..TURN {
            match self.socket.recv(&mut bytes) {
                Ok(length) => {
                    arrived = true;
                    self.traffic.received += 1;
                    if self.loses() {
                        self.traffic.received_lost += 1;
                        continue;
                    }
                    self.endpoint
                        .handle_datagram(now, self.server, &bytes[..length]);
                    self.drain();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.due.is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
            self.drain();
        }
        Ok(arrived)
    }

    pub(crate) fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(crate) fn usage(&self) -> Usage {
        self.endpoint.usage()
    }

    /// Sum over all peers.
    pub(crate) fn exchanged(&self) -> Exchanged {
        let mut sum = Exchanged::default();
        for of in &self.endpoint.counters().exchanges {
            let of: &Exchanges = of;
            sum.begun += of.transmissions - of.retransmissions;
            sum.retransmissions += of.retransmissions;
            sum.timed_out += of.given_up(Reason::TimedOut);
        }
        sum
    }

    fn loses(&mut self) -> bool {
        u64::from(self.chance.next_u32()) < self.loss
    }

    fn drain(&mut self) {
        loop {
            match self.endpoint.poll() {
                Output::Transmit { bytes, .. } => {
                    self.traffic.sent += 1;
                    if u64::from(self.chance.next_u32()) < self.loss {
                        self.traffic.sent_lost += 1;
                    } else if !self.waiting.is_empty() || self.socket.send(bytes).is_err() {
                        // Errors other than a full buffer show when it is sent again.
                        self.waiting.push_back(bytes.to_vec());
                    }
                }
                Output::Event(event) => self.events.push_back(event),
                Output::Wait(due) => {
                    self.due = due;
                    return;
                }
                _ => {}
            }
        }
    }

    fn resend(&mut self) -> io::Result<()> {
        while let Some(bytes) = self.waiting.front() {
            match self.socket.send(bytes) {
                Ok(_) => {
                    self.waiting.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
