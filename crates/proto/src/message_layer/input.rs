//! Received datagrams: validated, deduplicated, and delivered or matched (RFC 7252 4.2-4.5).

use core::net::SocketAddr;

use carob_cc::time::Duration;

use crate::admission::AMPLIFICATION_FACTOR;
use crate::carrier::{Carrier, Delivered};
use crate::codec::HEADER_LENGTH;
use crate::codec::{
    BASE_TOKEN_LENGTH, DecodeErrorKind, MessageId, MessageView, TokenView, Type, parse_header,
};
use crate::config::{REJECTIONS_A_SECOND, Tracing};
use crate::context::Context;
use crate::counters::Refusal;
use crate::dedup::Lookup;
use crate::message_layer::ReplyFault;
use crate::tables::rate_limit::Admission;
use crate::trace::TraceEvent;

impl Carrier {
    /// Processes a datagram; returns the message for the layers above.
    #[inline]
    pub(crate) fn on_datagram<'m>(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        bytes: &'m [u8],
    ) -> Option<Delivered<'m>> {
        cx.counters.received.add(bytes.len());
        let peer = self.peers.find(from);
        if let Some(peer) = peer {
            self.peers[peer].last_heard = cx.now;
        }
        let message = match MessageView::parse(bytes) {
            Ok(message) => message,
            Err(error) => {
                self.handle_malformed(cx, from, bytes, error.kind);
                return None;
            }
        };
        let (kind, code, id) = (message.kind(), message.code(), message.message_id());
        trace_received(cx, from, &message);
        match kind {
            Type::Acknowledgement => {
                let answered = self.handle_acknowledgement(cx, peer, &message)?;
                return Some(Delivered::Response(answered, message));
            }
            Type::Reset => {
                // A Reset with content is rejected, which is to ignore it (RFC 7252 4.2).
                if code.is_empty() {
                    self.handle_reset(cx, from, id);
                }
                return None;
            }
            Type::Confirmable | Type::NonConfirmable => {}
        }
        // Before the duplicates: an attacker who repeats one request must not have it answered
        // at any rate.
        let admission = if code.is_request() {
            self.admission.admit(cx, from)
        } else {
            Admission::Allow
        };
        if self.answer_duplicate(cx, from, &message, admission) {
            return None;
        }
        if code.is_request() {
            return Some(Delivered::Request(message, admission));
        } else if code.is_response() {
            return self.handle_response(cx, from, message);
        } else if kind == Type::Confirmable && code.is_empty() {
            // A ping (RFC 7252 4.3).
            self.send_empty(cx, from, Type::Reset, id);
        } else if kind == Type::Confirmable {
            // A reserved code that cannot be processed (RFC 7252 4.2).
            self.reject(cx, from, id);
        }
        None
    }

    /// Processes a datagram sent to a group; returns its request if that is new.
    pub(crate) fn on_group_datagram<'m>(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        bytes: &'m [u8],
    ) -> Option<MessageView<'m>> {
        cx.counters.received.add(bytes.len());
        let Ok(message) = MessageView::parse(bytes) else {
            cx.counters.refused(Refusal::Malformed);
            cx.trace(from, TraceEvent::Malformed);
            return None;
        };
        let id = message.message_id();
        trace_received(cx, from, &message);
        // No RST: a CON to a group would draw one from every member (RFC 7252 8.1).
        if message.kind() != Type::NonConfirmable || !message.code().is_request() {
            return None;
        }
        match self.dedup.look_up(cx.now, from, id) {
            Lookup::New => {
                let admission = self.admission.admit(cx, from);
                // No 4.29 either, for the same reason.
                (admission == Admission::Allow).then_some(message)
            }
            Lookup::InProgress { .. } | Lookup::Answered(_) => {
                cx.counters.duplicates += 1;
                cx.trace(from, TraceEvent::Duplicate { id });
                None
            }
        }
    }

    /// Answers a duplicate like its original; returns whether the message is one. Duplicates above
    /// the rate limit are not re-answered.
    #[inline]
    fn answer_duplicate(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        message: &MessageView<'_>,
        admission: Admission,
    ) -> bool {
        let id = message.message_id();
        match self.dedup.look_up(cx.now, from, id) {
            Lookup::New => return false,
            // Arms in this order: a new message above the limit is answered 4.29 by the caller, a
            // duplicate not at all.
            _ if admission != Admission::Allow => {
                cx.trace(from, TraceEvent::Duplicate { id });
            }
            Lookup::InProgress { acknowledged } => {
                cx.counters.duplicates += 1;
                cx.trace(from, TraceEvent::Duplicate { id });
                if acknowledged {
                    self.send_empty(cx, from, Type::Acknowledgement, id);
                }
            }
            Lookup::Answered(answer) => {
                cx.counters.duplicates += 1;
                let mut bytes = cx.buffer();
                bytes.extend_from_slice(answer);
                if message.code().is_request() {
                    // The reply names the transmission that it answers, not the one that was
                    // stored.
                    cx.set_reply_count(&mut bytes, message);
                }
                // A forged duplicate may be shorter than its original.
                let long = bytes.len() > AMPLIFICATION_FACTOR * message.as_bytes().len();
                if long && self.admission.is_limited(cx, from) {
                    cx.counters.refused(Refusal::Amplification);
                    bytes.clear();
                }
                cx.trace(from, TraceEvent::Duplicate { id });
                if !bytes.is_empty() {
                    cx.counters.sent.add(bytes.len());
                    cx.out.transmit(from, |out| out.extend_from_slice(&bytes));
                }
                cx.spare_buffer(bytes);
            }
        }
        true
    }

    /// Rejects an unexpected message with a Reset, or, beyond [`REJECTIONS_A_SECOND`], silently;
    /// RFC 7252 4.2 and 4.3 permit both. Without a limit, a peer that answers each Reset with
    /// another such message would cause an endless loop.
    pub(crate) fn reject(&mut self, cx: &mut Context, to: SocketAddr, id: MessageId) {
        let (since, count) = &mut self.rejections;
        if cx.now.since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (cx.now, 0);
        }
        if *count < REJECTIONS_A_SECOND {
            *count += 1;
            cx.counters.refused(Refusal::Reset);
            self.send_empty(cx, to, Type::Reset, id);
        } else {
            cx.counters.refused(Refusal::ResetWithheld);
        }
    }

    /// Processes a datagram of which only the beginning was received; returns its request. A rejected
    /// reply is noted at its exchange.
    pub(crate) fn on_oversized<'m>(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        beginning: &'m [u8],
    ) -> Option<MessageView<'m>> {
        cx.counters.received.add(beginning.len());
        cx.counters.refused(Refusal::Oversized);
        cx.trace(from, TraceEvent::Oversized);
        if let Some(peer) = self.peers.find(from) {
            self.peers[peer].last_heard = cx.now;
        }
        self.note_fault(cx, from, beginning, ReplyFault::Oversized);
        // The end is cut off, most often within the payload.
        let message = MessageView::parse(beginning).ok()?;
        // A response to a response, or to an RST, could make two endpoints answer each other
        // without end.
        let is_request = message.code().is_request()
            && matches!(message.kind(), Type::Confirmable | Type::NonConfirmable);
        let admitted = is_request && self.admission.admit(cx, from) == Admission::Allow;
        admitted.then_some(message)
    }

    /// Notes at its exchange, if there is one, that a reply is rejected.
    fn note_fault(&mut self, cx: &Context, from: SocketAddr, bytes: &[u8], fault: ReplyFault) {
        let (Some(peer), Ok(header)) = (self.peers.find(from), parse_header(bytes)) else {
            return;
        };
        let index = match header.kind {
            Type::Reset => None,
            Type::Acknowledgement => (self.index).find_id(&self.exchanges, peer, header.message_id),
            Type::Confirmable | Type::NonConfirmable => {
                let end = HEADER_LENGTH + usize::from(header.token_length);
                let token = bytes.get(HEADER_LENGTH..end);
                // 13 and 14 mark extended lengths (RFC 8974 2.1); bytes after them are not the
                // token.
                let plain = usize::from(header.token_length) <= BASE_TOKEN_LENGTH;
                let token = token.filter(|_| plain && header.code.is_response());
                token.and_then(|token| {
                    let key = cx.token_key(TokenView(token));
                    self.index.find_token(&self.exchanges, peer, &key)
                })
            }
        };
        if let Some(index) = index {
            self.exchanges[index as usize].fault = Some(fault);
        }
    }

    /// Handles a malformed datagram: a CON is rejected, all else ignored (RFC 7252 4.2, 4.3).
    fn handle_malformed(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        bytes: &[u8],
        why: DecodeErrorKind,
    ) {
        cx.counters.refused(Refusal::Malformed);
        cx.trace(from, TraceEvent::Malformed);
        self.note_fault(cx, from, bytes, ReplyFault::Malformed(why));
        // RFC 7252 3: an unknown version is ignored silently.
        if why == DecodeErrorKind::UnsupportedVersion {
            return;
        }
        if let Ok(header) = parse_header(bytes)
            && header.kind == Type::Confirmable
        {
            self.reject(cx, from, header.message_id);
        }
    }
}

/// Reports a message received, if all messages are to be reported.
#[inline]
fn trace_received(cx: &mut Context, from: SocketAddr, message: &MessageView<'_>) {
    if cx.config.trace == Tracing::Everything {
        let what = TraceEvent::Received {
            id: message.message_id(),
            kind: message.kind(),
            code: message.code(),
            bytes: message.as_bytes().len() as u32,
        };
        cx.trace(from, what);
    }
}
