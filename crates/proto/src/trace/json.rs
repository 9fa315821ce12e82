//! A protocol event as one line of JSON: the form of every event log, from real sockets and from
//! the simulator.
//!
//! Keys: `at_us` (microseconds since the endpoint's clock began), `peer`, `event`; then the fields
//! of the event. Numbers are integers, times are in microseconds, and unknown values are omitted.

use core::fmt::{self, Display, Formatter};

use carob_cc::evidence::Kind;
use carob_cc::time::Duration;

use super::{Trace, TraceEvent};
use crate::codec::{Code, MessageId, Type};

/// Writes an event as a JSON object, without a line break.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json<'a>(pub(super) &'a Trace);

/// The members of an object after its first.
struct Object<'a, 'f>(&'a mut Formatter<'f>);

impl Object<'_, '_> {
    fn number(&mut self, key: &str, value: impl Into<u64>) -> fmt::Result {
        write!(self.0, ",\"{key}\":{}", value.into())
    }

    /// Writes a word of this crate or an address, which needs no escaping.
    fn word(&mut self, key: &str, value: impl Display) -> fmt::Result {
        write!(self.0, ",\"{key}\":\"{value}\"")
    }

    fn id(&mut self, id: MessageId) -> fmt::Result {
        self.number("id", id.0)
    }

    fn time(&mut self, key: &str, time: Option<Duration>) -> fmt::Result {
        time.map_or(Ok(()), |time| self.number(key, time.as_micros()))
    }

    fn message(&mut self, id: MessageId, kind: Type, code: Code, bytes: u32) -> fmt::Result {
        self.id(id)?;
        self.word("type", name_of(kind))?;
        self.word("code", code)?;
        self.number("bytes", bytes)
    }
}

fn name_of(kind: Type) -> &'static str {
    match kind {
        Type::Confirmable => "CON",
        Type::NonConfirmable => "NON",
        Type::Acknowledgement => "ACK",
        Type::Reset => "RST",
    }
}

fn purpose_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Request => "request",
        Kind::Response => "response",
        Kind::Notification => "notification",
        _ => "other",
    }
}

impl Display for Json<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Trace { at, peer, event } = self.0;
        let at = at.as_micros();
        let name = event.name();
        write!(
            f,
            "{{\"at_us\":{at},\"peer\":\"{peer}\",\"event\":\"{name}\""
        )?;
        Object(f).members(*event)?;
        f.write_str("}")
    }
}

impl Object<'_, '_> {
    /// The members with details of an event.
    fn members(&mut self, event: TraceEvent) -> fmt::Result {
        match event {
            TraceEvent::Sent {
                id,
                kind,
                purpose,
                retransmissions,
                timeout,
                bytes,
            } => {
                self.id(id)?;
                self.word("type", name_of(kind))?;
                self.word("purpose", purpose_of(purpose))?;
                self.number("retransmissions", retransmissions)?;
                self.time("timeout_us", timeout)?;
                self.number("bytes", bytes)?;
            }
            TraceEvent::Answered {
                id,
                retransmissions,
                since_original,
                rto,
            } => {
                self.id(id)?;
                self.number("retransmissions", retransmissions)?;
                self.time("since_original_us", Some(since_original))?;
                self.time("rto_us", rto)?;
            }
            TraceEvent::Abandoned {
                id,
                retransmissions,
            } => {
                if let Some(id) = id {
                    self.id(id)?;
                }
                self.number("retransmissions", retransmissions)?;
            }
            TraceEvent::Received {
                id,
                kind,
                code,
                bytes,
            }
            | TraceEvent::Replied {
                id,
                kind,
                code,
                bytes,
            } => self.message(id, kind, code, bytes)?,
            TraceEvent::AnsweredAgain { id }
            | TraceEvent::Superseded { id }
            | TraceEvent::Duplicate { id } => {
                self.id(id)?;
            }
            TraceEvent::BlocksMissing { missing } | TraceEvent::BlocksReported { missing } => {
                self.number("missing", missing)?;
            }
            TraceEvent::MessageIdsExhausted { wait } => self.time("wait_us", Some(wait))?,
            TraceEvent::Oversized
            | TraceEvent::NotificationDropped
            | TraceEvent::Challenged
            | TraceEvent::Observed
            | TraceEvent::Unobserved
            | TraceEvent::Stale
            | TraceEvent::Malformed
            | TraceEvent::Connected
            | TraceEvent::Disconnected => {}
        }
        Ok(())
    }
}

impl TraceEvent {
    /// Returns the event's name in event logs.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Sent { .. } => "sent",
            Self::Answered { .. } => "answered",
            Self::AnsweredAgain { .. } => "answered_again",
            Self::Superseded { .. } => "superseded",
            Self::NotificationDropped => "notification_dropped",
            Self::Abandoned { .. } => "abandoned",
            Self::Duplicate { .. } => "duplicate",
            Self::Received { .. } => "received",
            Self::Replied { .. } => "replied",
            Self::Observed => "observed",
            Self::Unobserved => "unobserved",
            Self::Stale => "stale",
            Self::Challenged => "challenged",
            Self::BlocksMissing { .. } => "blocks_missing",
            Self::BlocksReported { .. } => "blocks_reported",
            Self::Malformed => "malformed",
            Self::MessageIdsExhausted { .. } => "message_ids_exhausted",
            Self::Oversized => "oversized",
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use carob_cc::time::Instant;

    fn line(event: TraceEvent) -> alloc::string::String {
        let trace = Trace {
            at: Instant::from_micros(1_500),
            peer: "[fd00::1]:5683".parse().unwrap(),
            event,
        };
        trace.json().to_string()
    }

    #[test]
    fn transmission_is_one_json_object_with_its_timeout() {
        let sent = TraceEvent::Sent {
            id: MessageId(7),
            kind: Type::Confirmable,
            purpose: Kind::Request,
            retransmissions: 1,
            timeout: Some(Duration::from_millis(2_500)),
            bytes: 14,
        };
        assert_eq!(
            line(sent),
            r#"{"at_us":1500,"peer":"[fd00::1]:5683","event":"sent","id":7,"type":"CON","purpose":"request","retransmissions":1,"timeout_us":2500000,"bytes":14}"#
        );
    }

    #[test]
    fn unknown_values_are_omitted() {
        let abandoned = TraceEvent::Abandoned {
            id: None,
            retransmissions: 0,
        };
        assert_eq!(
            line(abandoned),
            r#"{"at_us":1500,"peer":"[fd00::1]:5683","event":"abandoned","retransmissions":0}"#
        );
        assert_eq!(
            line(TraceEvent::Stale),
            r#"{"at_us":1500,"peer":"[fd00::1]:5683","event":"stale"}"#
        );
    }

    #[test]
    fn a_message_received_has_type_and_code() {
        let received = TraceEvent::Received {
            id: MessageId(9),
            kind: Type::Acknowledgement,
            code: Code::CONTENT,
            bytes: 40,
        };
        let text = line(received);
        assert!(
            text.contains(r#""id":9,"type":"ACK","code":"2.05","bytes":40}"#),
            "{text}"
        );
    }
}
