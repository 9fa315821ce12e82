//! UDP sockets, whose datagrams may be protected by DTLS.
//!
//! [`DatagramTransport`] is the receive and send loop of both; a [`Protect`] layer converts between
//! datagrams and CoAP messages. [`Plain`] is the one of `coap`.

use std::io;
use std::net::{IpAddr, SocketAddr};

use carob_cc::time::Instant;

use super::LinkFailure;
use super::capture::Capture;
use super::socket::{BATCH, DATAGRAM_BYTES, Destination, Outbox, Socket, Unreachable};
use super::sources::Sources;
use super::{Engine, Outbound, Transport, TransportCounts};

/// Datagrams put in the outbox before they are sent and more is received: the acknowledgements of
/// a large fan-out would otherwise overflow the socket's receive buffer.
pub(super) const DATAGRAMS_A_TURN: usize = BATCH;

/// Converts between the datagrams of a socket and the CoAP messages of an engine.
pub(crate) trait Protect: Outbound + Send {
    /// Datagrams to send.
    fn outbox(&mut self) -> &mut Outbox;
    /// Hands a datagram to the engine.
    fn receive(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        from: SocketAddr,
        destination: Destination,
        bytes: &[u8],
    );
    /// Hands the beginning of a datagram to the engine that was longer than [`DATAGRAM_BYTES`].
    /// Records of DTLS cannot be read without their end.
    fn receive_cut(
        &mut self,
        _engine: &mut impl Engine,
        _now: Instant,
        _from: SocketAddr,
        _destination: Destination,
        _beginning: &[u8],
    ) {
    }
    /// Ends a batch of received datagrams.
    fn batch_received(&mut self) {}
    /// Executes the engine's requests for sessions, before datagrams are sent.
    fn before_send(&mut self, _engine: &mut impl Engine) {}
    /// Handles a report that a peer cannot be reached.
    fn unreachable(&mut self, engine: &mut impl Engine, report: Unreachable);
    /// The time of the next timer.
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// Executes the timers that are due.
    fn on_timer(&mut self, _engine: &mut impl Engine, _now: Instant) {}
    /// Queues the last messages of open sessions.
    fn close_all(&mut self) {}
    /// Counters for metrics, with the datagrams that the socket dropped.
    fn counts(&self, dropped: u64) -> TransportCounts;
}

/// A UDP socket and the protection of its datagrams.
pub(crate) struct DatagramTransport<P> {
    socket: Socket,
    protect: P,
    unreachable: Vec<Unreachable>,
}

impl<P: Protect> DatagramTransport<P> {
    pub(crate) fn new(socket: Socket, protect: P) -> Self {
        Self {
            socket,
            protect,
            unreachable: Vec::new(),
        }
    }
}

impl<P: Protect> Transport for DatagramTransport<P> {
    fn outbound(&mut self) -> &mut impl Outbound {
        &mut self.protect
    }

    async fn ready(&mut self) -> io::Result<()> {
        if self.socket.ready().await? {
            self.socket.errors(&mut self.unreachable);
        }
        Ok(())
    }

    fn receive(&mut self, engine: &mut impl Engine) -> bool {
        let now = engine.now();
        let Self {
            socket,
            protect,
            unreachable,
        } = self;
        let received = socket.receive(|from, destination, datagram| {
            if datagram.is_cut {
                tracing::debug!(%from, "datagram longer than {DATAGRAM_BYTES} bytes");
                protect.receive_cut(engine, now, from, destination, datagram.bytes);
            } else {
                protect.receive(engine, now, from, destination, datagram.bytes);
            }
        });
        protect.batch_received();
        received.unwrap_or_else(|error| {
            tracing::debug!(%error, "nothing received");
            socket.errors(unreachable);
            true
        })
    }

    /// Sends the outbox. While the system's buffer is full, nothing is received.
    async fn flush(&mut self, engine: &mut impl Engine) -> io::Result<()> {
        let Self {
            socket,
            protect,
            unreachable,
        } = self;
        loop {
            protect.before_send(engine);
            while let Err(error) = socket.send(protect.outbox(), unreachable) {
                debug_assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                // Not received meanwhile: each request would add a response to the full buffer.
                socket.writable().await?;
            }
            let Some(report) = unreachable.pop() else {
                return Ok(());
            };
            protect.unreachable(engine, report);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.protect.deadline()
    }

    fn on_timer(&mut self, engine: &mut impl Engine, now: Instant) {
        self.protect.on_timer(engine, now);
    }

    fn close(&mut self) {
        self.protect.close_all();
    }

    fn counts(&self) -> TransportCounts {
        self.protect.counts(self.socket.dropped())
    }
}

/// No protection: datagrams are CoAP messages (RFC 7252 4).
pub(crate) struct Plain {
    outbox: Outbox,
    sources: Sources,
    /// The groups that the endpoint has joined.
    groups: Vec<IpAddr>,
}

impl Plain {
    pub(crate) fn new(groups: Vec<IpAddr>, seed: u64) -> Self {
        Self {
            outbox: Outbox::default(),
            sources: Sources::new(seed),
            groups,
        }
    }
}

impl Outbound for Plain {
    fn is_full(&self) -> bool {
        self.outbox.len() >= DATAGRAMS_A_TURN
    }

    fn transmit(&mut self, capture: &mut Capture, now: Instant, to: SocketAddr, bytes: &[u8]) {
        let source = self.sources.of(to);
        capture.outbound(now, to, source, bytes);
        self.outbox.push(to, source, bytes);
    }

    fn answered_later(&mut self) {
        self.sources.remember();
    }
}

impl Protect for Plain {
    fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    fn receive(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        from: SocketAddr,
        destination: Destination,
        bytes: &[u8],
    ) {
        match destination {
            Destination::Us(address) => {
                engine.capture().inbound(now, from, address, bytes);
                engine.endpoint().handle_datagram(now, from, bytes);
                self.sources.on_datagram(from, address);
            }
            Destination::Group(address) if self.groups.contains(&address) => {
                engine.capture().inbound(now, from, Some(address), bytes);
                engine.endpoint().handle_group_datagram(now, from, bytes);
                // A response to a group's request has the address that the system chooses: a group
                // is no source (RFC 7252 8.2).
                self.sources.on_datagram(from, None);
            }
            // The system also delivers datagrams to groups joined by other sockets.
            Destination::Group(address) => {
                tracing::debug!(%from, %address, "datagram to a group that was not joined ignored");
                return;
            }
        }
        engine.drain(self, now);
    }

    fn receive_cut(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        from: SocketAddr,
        destination: Destination,
        beginning: &[u8],
    ) {
        if let Destination::Us(address) = destination {
            engine.endpoint().handle_oversized(now, from, beginning);
            self.sources.on_datagram(from, address);
            engine.drain(self, now);
        }
    }

    fn batch_received(&mut self) {
        self.sources.clear_source();
    }

    fn unreachable(&mut self, engine: &mut impl Engine, report: Unreachable) {
        let Unreachable {
            peer,
            error,
            quoted,
        } = report;
        // Only a host that saw a message of this endpoint can quote it (RFC 7252 4.2).
        if quoted.is_some_and(|quoted| !engine.endpoint().is_under_way(peer, quoted.as_slice())) {
            return;
        }
        let now = engine.now();
        engine.peer_failed(self, now, peer, LinkFailure::Unreachable(error));
    }

    fn counts(&self, dropped: u64) -> TransportCounts {
        TransportCounts::Datagrams { dropped }
    }
}
