//! Failed handshakes of clients: a line on stderr, and one in the event log.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use carob::FailedHandshake;
use carob_proto::Escaped;
use serde::Serialize;

use crate::printer;

/// Failed handshakes reported on stderr in a second at most; a flood of them is no reason to write more.
const LINES_A_SECOND: u32 = 10;

/// Lines on stderr, limited in rate.
pub(super) struct Report(Mutex<(Instant, u32)>);

impl Report {
    pub(super) fn new() -> Self {
        Self(Mutex::new((Instant::now(), 0)))
    }

    pub(super) fn see(&self, failed: &FailedHandshake<'_>) {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.0.elapsed() >= Duration::from_secs(1) {
            *reported = (Instant::now(), 0);
        }
        reported.1 += 1;
        if reported.1 > LINES_A_SECOND {
            return;
        }
        let identity = failed.identity.map(Escaped);
        let identity = identity.map(|identity| format!(" of identity \"{identity}\""));
        printer::remark(&format!(
            "handshake with {}{} failed: {}",
            failed.peer,
            identity.unwrap_or_default(),
            reason(failed)
        ));
    }
}

fn reason(failed: &FailedHandshake<'_>) -> String {
    #[cfg(feature = "dtls")]
    {
        use carob::dtls::HandshakeError;

        // The identity is named beside it.
        match failed.reason.downcast_ref::<HandshakeError>() {
            Some(HandshakeError::WrongKey { .. }) => return "wrong key".to_owned(),
            Some(HandshakeError::UnknownIdentity { .. }) => return "unknown identity".to_owned(),
            _ => {}
        }
    }
    failed.reason.to_string()
}

/// A line of the event log.
#[derive(Serialize)]
struct Line<'a> {
    at_us: u64,
    peer: SocketAddr,
    event: &'static str,
    scheme: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    reason: &'a str,
}

/// The line of the event log, without its end.
pub(super) fn json(failed: &FailedHandshake<'_>) -> String {
    let line = Line {
        at_us: u64::try_from(failed.at.as_micros()).unwrap_or(u64::MAX),
        peer: failed.peer,
        event: "handshake_failed",
        scheme: failed.scheme.name(),
        identity: failed.identity.map(|bytes| Escaped(bytes).to_string()),
        reason: &reason(failed),
    };
    // Text and numbers have a form in JSON.
    serde_json::to_string(&line).unwrap_or_default()
}
