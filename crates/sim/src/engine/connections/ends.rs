//! The two ends of a connection.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;

use crate::address::address;
use crate::spec::Closing;
use crate::tcp::segment::Flags;
use crate::tcp::{Event, Ranges, Segment, Socket, State};
use crate::trace::SegmentTag;

/// The connection of a client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: u32,
    pub(super) server: u32,
    /// Earlier connections of the client.
    pub(super) number: u32,
    pub(super) ends: [End; 2],
    /// True once its costs are in its client's record.
    pub(super) counted: bool,
    /// True once its slot is free.
    pub(super) is_gone: bool,
    /// Time of the first FIN, and the packets from then on.
    closing: Option<(Instant, u64)>,
    /// True once both ends have closed it.
    closed: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) socket: Socket,
    pub(super) wake: Option<Instant>,
    /// Data that the socket has not accepted yet, in order.
    pub(super) rest: VecDeque<Bytes>,
    /// Close once that is accepted.
    pub(super) closing: bool,
    pub(super) connected: bool,
    /// Ranges sent in transmissions that were not lost.
    pub(super) carried: Ranges,
    /// Spurious retransmissions of segments.
    pub(super) spurious: u64,
    /// The sequence number of our SYN, once it was sent.
    first: Option<u32>,
    /// The end of the sent data, counted from that.
    sent: u32,
}

impl End {
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            socket,
            wake: None,
            rest: VecDeque::new(),
            closing: false,
            connected: false,
            carried: Ranges::default(),
            spurious: 0,
            first: None,
            sent: 0,
        }
    }

    /// Returns true if it has closed from this end's view.
    pub(super) fn is_done(&self) -> bool {
        let state = self.socket.state();
        matches!(state, State::Closed | State::Listen | State::TimeWait)
    }

    /// Writes pending data, as far as the socket accepts it.
    pub(super) fn write(&mut self, now: Instant) {
        while let Some(mut bytes) = self.rest.pop_front() {
            let taken = self.socket.write(now, bytes.clone());
            if taken < bytes.len() {
                self.rest.push_front(bytes.split_off(taken));
                return;
            }
        }
    }

    /// Handles an event of an end without an endpoint: it only closes.
    pub(super) fn ends_alone(&mut self, now: Instant, event: Event) {
        match event {
            Event::Connected => self.connected = true,
            Event::Readable => while self.socket.read().is_some() {},
            Event::Writable => {
                self.write(now);
                if self.rest.is_empty() && self.closing {
                    self.socket.close(now);
                }
            }
            Event::PeerClosed => self.socket.close(now),
            Event::Closed | Event::Reset | Event::TimedOut => {}
        }
    }
}

impl Connection {
    pub(super) fn new((client, server): (u32, u32), number: u32, ends: [End; 2]) -> Self {
        Self {
            client,
            server,
            number,
            ends,
            counted: false,
            is_gone: false,
            closing: None,
            closed: false,
        }
    }

    /// The client's address: each connection has a separate port.
    pub(super) fn client_address(&self) -> SocketAddr {
        address(self.client, self.number as u16)
    }

    /// Returns whether no further event is possible.
    pub(super) fn is_over(&self) -> bool {
        let over = |end: &End| matches!(end.socket.state(), State::Closed | State::Listen);
        self.ends.iter().all(over)
    }

    /// Returns whether both ends have closed it; true only once.
    pub(super) fn has_closed(&mut self) -> bool {
        let news = !self.closed && self.ends.iter().all(End::is_done);
        self.closed |= news;
        news
    }

    /// The costs of closing, unless it was without a FIN.
    pub(super) fn closing_until(&self, now: Instant) -> Option<Closing> {
        let (since, packets) = self.closing?;
        let time = now.since(since);
        Some(Closing { packets, time })
    }

    /// Counts a packet of the connection's closing, if that has begun.
    pub(super) fn note_closing(&mut self, now: Instant, segment: &Segment) {
        if segment.flags.has(Flags::FIN) || self.closing.is_some() {
            self.closing.get_or_insert((now, 0)).1 += 1;
        }
    }

    /// A segment's tag as its sender sees it, and whether its data, or its SYN, is a
    /// retransmission.
    pub(super) fn tag(&mut self, which: usize, peer: u32, segment: &Segment) -> (SegmentTag, bool) {
        let others = self.ends[1 - which].first;
        let end = &mut self.ends[which];
        let syn = segment.flags.has(Flags::SYN);
        // The SYN has the first sequence number of its end; a second one is a retransmission.
        let again_syn = syn && end.first.is_some();
        let first = *end.first.get_or_insert(segment.seq);
        let seq = segment.seq.wrapping_sub(first);
        let data = segment.payload.len() as u32;
        let until = seq.wrapping_add(data);
        let again = again_syn || (data > 0 && seq < end.sent);
        end.sent = end.sent.max(until);
        let ack = match others {
            Some(others) if segment.flags.has(Flags::ACK) => segment.ack.wrapping_sub(others),
            _ => 0,
        };
        let tag = SegmentTag {
            peer,
            seq,
            data: data as u16,
            flags: segment.flags.0,
            ack,
        };
        (tag, again)
    }
}
