//! Who listens to an endpoint without taking part: event logs and captures.

use std::net::{IpAddr, SocketAddr};
use std::sync::PoisonError;

use carob_cc::time::Instant;
use carob_proto::codec::{FrameReader, Framing, Scheme};
use carob_proto::keyed_hash::KeyedState;
use carob_proto::trace::Trace;
use hashbrown::HashMap;

use super::spans::Spans;
use crate::settings::{Datagram, OnDatagram, OnTrace};

/// The listeners of an endpoint, if it has any.
pub(super) struct Ears {
    pub(super) trace: Option<OnTrace>,
    pub(super) datagram: Option<OnDatagram>,
    pub(super) spans: Option<Spans>,
    /// Our address, where none is said of a datagram.
    pub(super) local: SocketAddr,
    pub(super) scheme: Scheme,
    /// Puts messages together that come in pieces, as the engine does, for who wants to see them.
    pub(super) pieces: HashMap<SocketAddr, FrameReader, KeyedState>,
}

/// Longer messages are not shown; the engine refuses most of them.
const LONGEST: u32 = 16 << 20;

impl Ears {
    pub(super) fn trace(&mut self, trace: &Trace) {
        if let Some(spans) = &mut self.spans {
            spans.hear(trace);
        }
        if let Some(hear) = &mut self.trace {
            let mut hear = hear.lock().unwrap_or_else(PoisonError::into_inner);
            hear(trace);
        }
    }

    /// A datagram comes in, to this address of ours if it is known.
    pub(super) fn comes(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        to: Option<IpAddr>,
        bytes: &[u8],
    ) {
        self.see(now, true, peer, to, bytes);
    }

    /// A piece of a stream comes in, or a WebSocket's message.
    pub(super) fn comes_in_pieces(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        framing: Framing,
        bytes: &[u8],
    ) {
        if self.datagram.is_none() {
            return;
        }
        let new = || FrameReader::new(framing, LONGEST);
        let mut reader = self.pieces.remove(&peer).unwrap_or_else(new);
        reader.push(bytes);
        while let Ok(Some(message)) = reader.next() {
            self.see(now, true, peer, None, message);
        }
        self.pieces.insert(peer, reader);
    }

    /// A message goes out over a connection.
    pub(super) fn goes_framed(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        framing: Framing,
        bytes: &[u8],
    ) {
        if self.datagram.is_none() {
            return;
        }
        let mut reader = FrameReader::new(framing, u32::MAX);
        reader.push(bytes);
        if let Ok(Some(message)) = reader.next() {
            self.see(now, false, peer, None, message);
        }
    }

    /// A connection has ended.
    pub(super) fn forget(&mut self, peer: SocketAddr) {
        self.pieces.remove(&peer);
    }

    /// A datagram goes out, from this address of ours if it is not the system's choice.
    pub(super) fn goes(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        from: Option<IpAddr>,
        bytes: &[u8],
    ) {
        self.see(now, false, peer, from, bytes);
    }

    fn see(
        &mut self,
        now: Instant,
        incoming: bool,
        peer: SocketAddr,
        own: Option<IpAddr>,
        bytes: &[u8],
    ) {
        if let Some(see) = &mut self.datagram {
            let address = own.unwrap_or(self.local.ip());
            let mut see = see.lock().unwrap_or_else(PoisonError::into_inner);
            see(&Datagram {
                at: std::time::Duration::from_micros(now.as_micros()),
                incoming,
                local: (address, self.local.port()).into(),
                peer,
                bytes,
                scheme: self.scheme,
            });
        }
    }
}
