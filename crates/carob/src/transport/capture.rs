//! Packet capture: a callback for datagrams and messages.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carob_cc::time::Instant;
use carob_proto::codec::{FrameReader, Framing, Scheme};
use carob_proto::tables::keyed_hash::KeyedState;
use hashbrown::HashMap;

/// Receives datagrams.
pub(crate) type OnDatagram = Arc<Mutex<dyn FnMut(&Datagram<'_>) + Send>>;

/// Received or sent message, for [`Config::on_datagram`](crate::Config::on_datagram).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Datagram<'a> {
    /// Time since the endpoint was opened, on the clock of
    /// [`Trace::at`](carob_proto::trace::Trace::at).
    pub at: Duration,
    /// Direction: `true` if received, `false` if sent.
    pub incoming: bool,
    /// Local address, as far as known.
    pub local: SocketAddr,
    /// Remote address.
    pub peer: SocketAddr,
    /// CoAP message as on the wire, well-formed or not; decrypted over DTLS and TLS. Over a
    /// connection its header is replaced by the header of a NON with Message ID 0 (RFC 8323 section 3.2).
    pub bytes: &'a [u8],
    /// URI scheme of the transport.
    pub scheme: Scheme,
}

/// The observer of one endpoint's datagrams, if there is one.
pub(crate) struct Capture {
    on_datagram: Option<OnDatagram>,
    /// The local address of datagrams whose own is not known.
    local: SocketAddr,
    scheme: Scheme,
    /// Reassembles messages of streams, as the engine does.
    frames: HashMap<SocketAddr, FrameReader, KeyedState>,
}

/// Longer messages are not captured; the engine refuses most of them. Bytes.
const LONGEST: u32 = 16 << 20;

impl Capture {
    pub(crate) fn new(
        on_datagram: Option<OnDatagram>,
        local: SocketAddr,
        scheme: Scheme,
        seed: u64,
    ) -> Self {
        Self {
            on_datagram,
            local,
            scheme,
            // Keyed: remote hosts choose the addresses, and could make them collide.
            frames: HashMap::with_hasher(KeyedState::with_seed(seed)),
        }
    }

    /// Reports a datagram received at the local address `to`, if that is known.
    pub(crate) fn inbound(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        to: Option<IpAddr>,
        bytes: &[u8],
    ) {
        self.report(now, true, peer, to, bytes);
    }

    /// Reports a datagram sent from the local address `from`; without one, from the system's choice.
    pub(crate) fn outbound(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        from: Option<IpAddr>,
        bytes: &[u8],
    ) {
        self.report(now, false, peer, from, bytes);
    }

    /// Reports the messages that a received piece of a stream, or a WebSocket message, completes.
    pub(crate) fn inbound_stream(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        framing: Framing,
        bytes: &[u8],
    ) {
        if self.on_datagram.is_none() {
            return;
        }
        // Out of the table, because reporting borrows all of the capture.
        let new = || FrameReader::new(framing, LONGEST);
        let mut reader = self.frames.remove(&peer).unwrap_or_else(new);
        reader.push(bytes);
        while let Ok(Some(message)) = reader.next() {
            self.report(now, true, peer, None, message);
        }
        self.frames.insert(peer, reader);
    }

    /// Reports a message sent over a connection.
    pub(crate) fn outbound_frame(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        framing: Framing,
        bytes: &[u8],
    ) {
        if self.on_datagram.is_none() {
            return;
        }
        // One whole message of this endpoint: its length is already bounded.
        let mut reader = FrameReader::new(framing, u32::MAX);
        reader.push(bytes);
        if let Ok(Some(message)) = reader.next() {
            self.report(now, false, peer, None, message);
        }
    }

    /// Forgets the partial message of a connection that has ended.
    pub(crate) fn forget(&mut self, peer: SocketAddr) {
        self.frames.remove(&peer);
    }

    fn report(
        &mut self,
        now: Instant,
        incoming: bool,
        peer: SocketAddr,
        own: Option<IpAddr>,
        bytes: &[u8],
    ) {
        if let Some(on_datagram) = &mut self.on_datagram {
            let address = own.unwrap_or(self.local.ip());
            let mut on_datagram = on_datagram.lock().unwrap_or_else(PoisonError::into_inner);
            on_datagram(&Datagram {
                at: Duration::from_micros(now.as_micros()),
                incoming,
                local: (address, self.local.port()).into(),
                peer,
                bytes,
                scheme: self.scheme,
            });
        }
    }
}
