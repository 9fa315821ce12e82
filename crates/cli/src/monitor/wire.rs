//! Messages on stderr, a line each.

use std::net::SocketAddr;
use std::time::Duration;

use carob::{Datagram, Scheme};
use carob_proto::codec::{Type, parse_header};
use carob_proto::trace::{Trace, TraceEvent};

use crate::printer;

pub(super) struct Wire {
    bytes_too: bool,
    /// A message sent; the next event has its number of retransmissions.
    pending: Option<Pending>,
}

struct Pending {
    at: Duration,
    peer: SocketAddr,
    bytes: Vec<u8>,
    scheme: Scheme,
}

impl Wire {
    pub(super) fn new(bytes_too: bool) -> Self {
        Self {
            bytes_too,
            pending: None,
        }
    }

    pub(super) fn see(&mut self, datagram: &Datagram<'_>) {
        self.settle("");
        let Datagram {
            at,
            incoming,
            peer,
            bytes,
            scheme,
            ..
        } = *datagram;
        let is_exchange = |kind| matches!(kind, Type::Confirmable | Type::NonConfirmable);
        if !incoming && parse_header(bytes).is_ok_and(|header| is_exchange(header.kind)) {
            self.pending = Some(Pending {
                at,
                peer,
                bytes: bytes.to_vec(),
                scheme,
            });
        } else {
            printer::message(at, incoming, peer, bytes, scheme, "", self.bytes_too);
        }
    }

    pub(super) fn hear(&mut self, trace: &Trace) {
        let remark = match trace.event {
            TraceEvent::Sent {
                retransmissions,
                timeout,
                ..
            } => {
                let nth =
                    (retransmissions > 0).then(|| format!("retransmission {retransmissions}"));
                let timer =
                    timeout.map(|timeout| format!("timer {}", printer::time(timeout.into())));
                let both: Vec<_> = nth.into_iter().chain(timer).collect();
                both.join(", ")
            }
            TraceEvent::Oversized => {
                self.settle("");
                let at = Duration::from_micros(trace.at.as_micros());
                return printer::oversized(at, trace.peer);
            }
            TraceEvent::MessageIdsExhausted { wait } => {
                self.settle("");
                let wait = printer::time(wait.into());
                let text = format!(
                    "{}: the next message waits {wait} for a Message ID",
                    trace.peer
                );
                return printer::remark(&text);
            }
            _ => String::new(),
        };
        self.settle(&remark);
    }

    /// Shows the message that was waiting for its event.
    fn settle(&mut self, remark: &str) {
        if let Some(Pending {
            at,
            peer,
            bytes,
            scheme,
        }) = self.pending.take()
        {
            printer::message(at, false, peer, &bytes, scheme, remark, self.bytes_too);
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.settle("");
    }
}
