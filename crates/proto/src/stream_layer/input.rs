//! Input of connections: bytes, messages and the limits on both (RFC 8323 3).

use core::net::SocketAddr;

use crate::carrier::{Carrier, Delivered};
use crate::codec::{Code, FrameReader, Framing, MessageView};
use crate::config::Tracing;
use crate::context::Context;
use crate::counters::Refusal;
use crate::event::Disconnect;
use crate::stream_layer::connection::Phase;
use crate::stream_layer::{MESSAGES_AT_ONCE, UNREAD_MAX};
use crate::trace::TraceEvent;

/// The next message of a stream.
pub(crate) enum NextMessage<'r> {
    Message(&'r [u8]),
    /// None is taken now; whether there may be `more`.
    Later {
        more: bool,
    },
    /// The stream is invalid: its connection was aborted.
    Aborted,
}

impl Carrier {
    /// Processes bytes of a connection. Returns the connection and its reader, if messages are to
    /// be processed now.
    pub(crate) fn on_bytes(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        bytes: &[u8],
    ) -> Option<(u32, FrameReader)> {
        let index = self.connections.find(from)?;
        if let Some(peer) = self.peers.find(from) {
            self.peers[peer].last_heard = cx.now;
        }
        let framing = cx.reliable().framing;
        let limit = cx.reliable().max_message_size;
        let connection = &mut self.connections[index];
        if connection.phase != Phase::Open {
            return None;
        }
        connection.activity.heard = cx.now;
        // Any byte proves that the peer is alive; a Pong may be behind a long message.
        connection.activity.probed = None;
        // Other connections are processed first.
        let waits = connection.input.more;
        // The reader is taken out meanwhile, and lost if the messages end the connection.
        let empty = FrameReader::new(framing, limit);
        let mut reader = core::mem::replace(&mut connection.input.reader, empty);
        // Counted again by `put_back`, as far as bytes are left.
        self.connections.subtract_partial(from, reader.held());
        reader.push(bytes);
        if cx.is_byte_stream() && (waits || cx.out.is_congested()) {
            self.put_back(cx, index, reader, true);
            return None;
        }
        Some((index, reader))
    }

    /// A connection whose stream holds more messages than were processed at once, and its reader.
    #[inline]
    pub(crate) fn next_waiting_stream(&mut self) -> Option<(u32, FrameReader)> {
        while let Some((index, serial)) = self.connections.more.pop_front() {
            let found = self.connections.at_mut(index);
            let Some(connection) = found.filter(|connection| connection.serial == serial) else {
                continue;
            };
            debug_assert!(connection.input.more && connection.phase == Phase::Open);
            connection.input.more = false;
            let empty = FrameReader::new(Framing::Stream, 0);
            let reader = core::mem::replace(&mut connection.input.reader, empty);
            let from = connection.address;
            self.connections.subtract_partial(from, reader.held());
            return Some((index, reader));
        }
        None
    }

    /// The address and serial number of a connection.
    pub(crate) fn connection_identity(&self, index: u32) -> (SocketAddr, u32) {
        let connection = &self.connections[index];
        (connection.address, connection.serial)
    }

    /// The next message in `reader`, which was taken out of its connection, after `taken` others.
    pub(crate) fn next_message<'r>(
        &mut self,
        cx: &mut Context,
        index: u32,
        reader: &'r mut FrameReader,
        taken: usize,
    ) -> NextMessage<'r> {
        // The output so far is polled, and other connections come in between.
        if taken >= MESSAGES_AT_ONCE {
            return NextMessage::Later { more: true };
        }
        let connection = &self.connections[index];
        if cx.is_byte_stream() {
            if cx.out.is_congested() {
                return NextMessage::Later { more: true };
            }
            if connection.must_wait(reader) {
                return NextMessage::Later { more: false };
            }
        }
        let from = connection.address;
        match reader.next() {
            Ok(Some(message)) => NextMessage::Message(message),
            Ok(None) => NextMessage::Later { more: false },
            Err(error) => {
                cx.trace(from, TraceEvent::Malformed);
                let text = alloc::format!("{error}");
                self.abort(cx, from, Disconnect::BadMessage, None, &text);
                NextMessage::Aborted
            }
        }
    }

    /// Returns the reader to its connection, and records whether it may hold `more` messages.
    /// Aborts the connection if its bytes exceed the limit.
    pub(crate) fn put_back(
        &mut self,
        cx: &mut Context,
        index: u32,
        reader: FrameReader,
        more: bool,
    ) {
        let held = reader.held();
        let connection = &mut self.connections[index];
        debug_assert!(connection.phase == Phase::Open, "{:?}", connection.phase);
        debug_assert!(
            connection.input.reader.held() == 0,
            "the reader was not taken out"
        );
        let (from, serial) = (connection.address, connection.serial);
        connection.input.reader = reader;
        if more && !core::mem::replace(&mut connection.input.more, true) {
            self.connections.more.push_back((index, serial));
        }
        self.connections.add_partial(from, held);
        let limit = cx.config.limits.partial_bytes;
        // With `more` there are whole messages among them, which are processed next.
        if !more && held > 0 && self.connections.exceeds_unread_limit(from, limit) {
            let text = "the memory for messages is full";
            return self.abort(cx, from, Disconnect::NoRoom, None, text);
        }
        self.set_connection_timer(cx, index);
    }

    /// Processes one message of a connection; returns the part for the layers above.
    pub(crate) fn on_frame<'m>(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        bytes: &'m [u8],
    ) -> Option<Delivered<'m>> {
        debug_assert!(cx.is_stream(), "datagrams have no frames");
        let message = self.check_frame(cx, from, bytes)?;
        let code = message.code();
        if code.is_signalling() {
            self.handle_signal(cx, from, &message);
            self.close_if_released(cx, from);
            return None;
        }
        // RFC 8323 3.3: the CSM must come first; signals check that for themselves.
        if !self.require_csm(cx, from) {
            return None;
        }
        if let Some(index) = self.connections.find(from) {
            self.connections.touch(index, cx.now);
        }
        let delivered = if code.is_request() {
            let admission = self.admission.admit(cx, from);
            Some(Delivered::Request(message, admission))
        } else if code.is_response() {
            self.handle_response(cx, from, message)
        } else {
            None
        };
        if delivered.is_none() {
            self.close_if_released(cx, from);
        }
        delivered
    }

    /// Parses a message of a connection; aborts the connection on an error.
    fn check_frame<'m>(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        bytes: &'m [u8],
    ) -> Option<MessageView<'m>> {
        // An empty message is ignored whatever is in it (RFC 8323 3.4); where it ends is known.
        if bytes.get(1) == Some(&Code::EMPTY.0) {
            return None;
        }
        cx.counters.received.add(bytes.len());
        let message = match MessageView::parse_long(bytes) {
            Ok(message) => message,
            Err(error) => {
                cx.counters.refused(Refusal::Malformed);
                cx.trace(from, TraceEvent::Malformed);
                let text = alloc::format!("{error}");
                self.abort(cx, from, Disconnect::BadMessage, None, &text);
                return None;
            }
        };
        let code = message.code();
        if cx.config.trace == Tracing::Everything {
            let what = TraceEvent::Received {
                id: message.message_id(),
                kind: message.kind(),
                code,
                bytes: bytes.len() as u32,
            };
            cx.trace(from, what);
        }
        if message.has_long_token() && !self.takes_token(cx, from, &message) {
            cx.counters.refused(Refusal::Malformed);
            let text = "the token exceeds the length announced";
            self.abort(cx, from, Disconnect::BadMessage, None, text);
            return None;
        }
        if (code.is_request() || code == Code::PING) && self.note_unread_request(from) {
            let text = "the responses are not read";
            self.abort(cx, from, Disconnect::NoRoom, None, text);
            return None;
        }
        Some(message)
    }

    /// Counts a request of a peer. Returns whether it sends many and reads no responses.
    pub(crate) fn note_unread_request(&mut self, peer: SocketAddr) -> bool {
        let connection = self.connections.get_mut(peer);
        connection.is_some_and(|connection| {
            let backlog = &mut connection.backlog;
            backlog.requests += u32::from(backlog.congested);
            backlog.requests > UNREAD_MAX
        })
    }

    /// Counts bytes written for a peer.
    pub(crate) fn count_unread(&mut self, peer: SocketAddr, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(peer)
            && connection.backlog.congested
        {
            let backlog = &mut connection.backlog;
            backlog.bytes = backlog.bytes.saturating_add(bytes);
        }
    }
}
