//! Who listens to an endpoint without taking part: event logs and captures.

use std::net::{IpAddr, SocketAddr};
use std::sync::PoisonError;

use carob_cc::time::Instant;
use carob_proto::trace::Trace;

use super::spans::Spans;
use crate::settings::{Datagram, OnDatagram, OnTrace};

/// The listeners of an endpoint, if it has any.
pub(super) struct Ears {
    pub(super) trace: Option<OnTrace>,
    pub(super) datagram: Option<OnDatagram>,
    pub(super) spans: Option<Spans>,
    /// Our address, where none is said of a datagram.
    pub(super) local: SocketAddr,
}

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
            });
        }
    }
}
