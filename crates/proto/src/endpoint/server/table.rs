//! Requests received that wait for their responses.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;

use super::Part;
use crate::blockwise::Wanted;
use crate::codec::{BlockValue, Code, MessageId, NoResponse, TokenKey};
use crate::dedup::Remembered;
use crate::endpoint::IncomingId;
use crate::endpoint::count::Count;
use crate::observe::Observe;
use crate::shares::{Shares, Sharing};

/// A request that waits for its response.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says something else of it, and any may be with any"
)]
pub(super) struct Slot {
    pub(super) serial: u32,
    pub(super) live: bool,
    pub(super) from: SocketAddr,
    pub(super) id: MessageId,
    pub(super) token: TokenKey,
    pub(super) acknowledgement: Acknowledgement,
    pub(super) remembered: Option<Remembered>,
    /// The message, kept so that the application can look at it; the buffer is reused. Of a long token,
    /// the bytes are there alone.
    pub(super) bytes: Vec<u8>,
    /// The whole body, where it came in several blocks.
    pub(super) body: Option<Bytes>,
    /// The Block1 option to echo.
    pub(super) block1: Option<BlockValue>,
    pub(super) part: Option<Part>,
    pub(super) wanted: Wanted,
    /// The Content-Format asked for.
    pub(super) accept: Option<u32>,
    /// Which copy of the request it is, if it says so, to be echoed.
    pub(super) count: Option<Count>,
    /// The responses that it does not want.
    pub(super) unwanted: NoResponse,
    /// Bytes of the datagram that it came in.
    pub(super) received: u32,
    /// It carries an Echo value that its sender was given lately.
    pub(super) fresh: bool,
    /// Its sender is to show where it is first.
    pub(super) challenged: bool,
    /// What it asks for with the Observe option.
    pub(super) observe: Option<Observe>,
    /// The application has put its sender on the list of observers.
    pub(super) observing: bool,
    /// It was sent to a group.
    pub(super) to_group: bool,
}

impl Slot {
    /// The method; that of the last block of a body in several.
    pub(super) fn method(&self) -> Code {
        self.bytes.get(1).map_or(Code::EMPTY, |&code| Code(code))
    }
}

/// Whether a request's acknowledgement has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acknowledgement {
    /// None is due: the request is NON.
    None,
    /// There are none: the request came over a connection, the one with this serial number.
    Connected(u32),
    /// It is due, and the response may go with it.
    Due,
    /// It was sent empty; the response comes separately.
    Sent,
}

/// Requests that wait for their responses; places and buffers are reused.
#[derive(Debug)]
pub(in crate::endpoint) struct IncomingTable {
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<u32>,
    /// Bytes of their messages.
    bytes: usize,
    /// While there are fewer than this, nobody is refused a place.
    calm: usize,
    /// What one source may have of them, if that is not all.
    most_of_source: Option<usize>,
    sharing: Sharing,
    /// How many of them each source has: counted only while one could have more than its share, so that
    /// it costs nothing as long as few wait.
    shares: Shares,
    counting: bool,
    /// Requests whose empty ACK is due at a time; some may be answered by then.
    pub(super) unacknowledged: VecDeque<(Instant, IncomingId)>,
}

impl IncomingTable {
    pub(in crate::endpoint) fn new(seed: u64, limit: usize, sharing: Sharing) -> Self {
        let most = sharing.most(limit);
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            calm: most.min(sharing.most_of_unvalidated(limit)),
            most_of_source: (most < limit).then_some(most),
            sharing,
            shares: Shares::new(seed),
            counting: false,
            unacknowledged: VecDeque::new(),
        }
    }

    /// Bytes of the messages.
    pub(in crate::endpoint) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are so few requests that nobody has too many.
    pub(super) fn is_calm(&self) -> bool {
        self.len() < self.calm
    }

    /// Whether a source has as many requests here as one may.
    pub(super) fn has_its_share(&mut self, from: SocketAddr) -> bool {
        let Some(most) = self.most_of_source.filter(|most| self.len() >= *most) else {
            return false;
        };
        if !self.counting {
            self.counting = true;
            for slot in self.slots.iter().filter(|slot| slot.live) {
                self.shares.add(self.sharing.source(slot.from), 1);
            }
        }
        self.shares.of(self.sharing.source(from)) >= most
    }

    /// Notes that a request has been given a place.
    pub(super) fn added(&mut self, from: SocketAddr, bytes: usize) {
        self.bytes += bytes;
        if self.counting {
            self.shares.add(self.sharing.source(from), 1);
        }
    }

    pub(in crate::endpoint) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(in crate::endpoint) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn find(&self, id: IncomingId) -> Option<&Slot> {
        self.slots
            .get(id.index as usize)
            .filter(|slot| slot.live && slot.serial == id.serial)
    }

    /// Notes whether a request's sender is on the list of observers; whether it was.
    pub(in crate::endpoint) fn set_observing(&mut self, id: IncomingId, observing: bool) -> bool {
        let slot = &mut self.slots[id.index as usize];
        core::mem::replace(&mut slot.observing, observing)
    }

    /// Has a request answered with a challenge.
    pub(in crate::endpoint) fn set_challenged(&mut self, id: IncomingId) {
        self.slots[id.index as usize].challenged = true;
    }

    /// Takes a request out; whose body goes with it, and how many bytes of it came in blocks.
    pub(super) fn remove(&mut self, id: IncomingId) -> (SocketAddr, usize) {
        let slot = &mut self.slots[id.index as usize];
        slot.live = false;
        let body = slot.body.take();
        self.bytes -= slot.received as usize;
        self.free.push(id.index);
        let from = slot.from;
        if self.counting {
            self.shares.subtract(self.sharing.source(from), 1);
            // Counted anew when it matters again, which is not soon.
            if self.len() < self.most_of_source.unwrap_or_default() / 2 {
                self.counting = false;
                self.shares.clear();
            }
        }
        (from, body.map_or(0, |body| body.len()))
    }

    /// Forgets the requests of a peer: nothing can be answered to it any more. How many bytes of their
    /// bodies came in blocks.
    pub(in crate::endpoint) fn remove_of_peer(&mut self, peer: SocketAddr) -> usize {
        let mut bytes = 0;
        for index in 0..self.slots.len() as u32 {
            let slot = &self.slots[index as usize];
            if slot.live && slot.from == peer {
                let serial = slot.serial;
                bytes += self.remove(IncomingId { index, serial }).1;
            }
        }
        bytes
    }

    /// Drops what is at the front of the line but has been answered.
    pub(super) fn skip_answered(&mut self) {
        while let Some(&(_, id)) = self.unacknowledged.front() {
            let due = |slot: &Slot| slot.acknowledgement == Acknowledgement::Due;
            if self.find(id).is_some_and(due) {
                return;
            }
            self.unacknowledged.pop_front();
        }
    }

    pub(in crate::endpoint) fn next_acknowledgement(&mut self) -> Option<Instant> {
        self.skip_answered();
        self.unacknowledged.front().map(|&(at, _)| at)
    }
}
