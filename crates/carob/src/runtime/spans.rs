//! Observers of protocol events: the application's, and a `tracing` span for each exchange, from its first transmission to
//! its end.

use std::net::SocketAddr;
use std::sync::PoisonError;

use carob_cc::time::Duration;
use carob_proto::codec::{MessageId, Type};
use carob_proto::tables::keyed_hash::KeyedState;
use carob_proto::trace::{Trace, TraceEvent};
use hashbrown::HashMap;
use tracing::{Level, Span, debug, debug_span};

use crate::config::OnTrace;

const TARGET: &str = "carob::exchange";

/// The spans of exchanges in progress, as many as the engine has such exchanges.
#[derive(Debug)]
pub(super) struct Spans(HashMap<(SocketAddr, MessageId), Span, KeyedState>);

impl Spans {
    /// Returns the spans, if a subscriber enables them.
    pub(super) fn if_enabled(seed: u64) -> Option<Self> {
        tracing::enabled!(target: TARGET, Level::DEBUG)
            .then(|| Self(HashMap::with_hasher(KeyedState::with_seed(seed))))
    }

    pub(super) fn on_trace(&mut self, trace: &Trace) {
        let Trace { peer, event, .. } = trace;
        match *event {
            TraceEvent::Sent {
                id,
                kind,
                purpose,
                retransmissions,
                timeout,
                bytes,
            } => {
                let new = || debug_span!(target: TARGET, "exchange", %peer, id = id.0, ?purpose);
                // A NON exchange is one transmission without an end event.
                let span = match kind {
                    Type::Confirmable => self.0.entry((*peer, id)).or_insert_with(new).clone(),
                    _ => new(),
                };
                let timeout_ms = timeout.map(millis);
                span.in_scope(
                    || debug!(target: TARGET, retransmissions, timeout_ms, bytes, "sent"),
                );
            }
            TraceEvent::Answered {
                id,
                retransmissions,
                since_original,
                rto,
            } => {
                let (after_ms, rto_ms) = (millis(since_original), rto.map(millis));
                self.end(*peer, id).in_scope(
                    || debug!(target: TARGET, retransmissions, after_ms, rto_ms, "answered"),
                );
            }
            TraceEvent::Abandoned {
                id: Some(id),
                retransmissions,
            } => self
                .end(*peer, id)
                .in_scope(|| debug!(target: TARGET, retransmissions, "given up")),
            TraceEvent::Superseded { id } => self
                .end(*peer, id)
                .in_scope(|| debug!(target: TARGET, "superseded")),
            _ => {}
        }
    }

    fn end(&mut self, peer: SocketAddr, id: MessageId) -> Span {
        let known = self.0.remove(&(peer, id));
        known.unwrap_or_else(|| debug_span!(target: TARGET, "exchange", %peer, id = id.0))
    }
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

/// The observers of one engine's protocol events, if there are any.
pub(super) struct Taps {
    pub(super) on_trace: Option<OnTrace>,
    pub(super) spans: Option<Spans>,
}

impl Taps {
    /// Reports a protocol event.
    pub(super) fn on_trace(&mut self, trace: &Trace) {
        if let Some(spans) = &mut self.spans {
            spans.on_trace(trace);
        }
        if let Some(on_trace) = &mut self.on_trace {
            let mut on_trace = on_trace.lock().unwrap_or_else(PoisonError::into_inner);
            on_trace(trace);
        }
    }
}
