//! Observers of protocol events: the application's, and spans of `tracing`.

use std::sync::PoisonError;

use carob_proto::trace::Trace;

use super::spans::Spans;
use crate::config::OnTrace;

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
