//! The state that every layer is given with a call: time, configuration, randomness, timers, counters
//! and the outbox.
//!
//! It has no protocol rules. A layer takes it as its first argument, so that no layer needs a
//! reference to another one for these.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Range;

use carob_cc::TransmissionParameters;
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};

use crate::codec::{MessageView, OptionNumber, Type};
use crate::config::{
    Config, MESSAGE_BYTES, SPARE_BUFFERS, SPARE_BYTES, Tracing, can_count_retransmissions,
};
use crate::counters::Counters;
use crate::event::{Event, IncomingId};
use crate::tables::quota::QuotaPolicy;
use crate::timers::Timers;
use crate::trace::{Trace, TraceEvent};

/// The capacity that the outbox's buffer keeps once it is empty, in bytes.
const OUTBOX_BYTES_KEPT: usize = 256 << 10;

/// Bytes of messages waiting to be polled above which received requests are held back and no
/// further messages of connections are processed. An application that responds at once therefore
/// has one response in memory beyond it, regardless of the number of requests.
pub(crate) const QUEUED_BYTES: usize = 64 << 10;

/// The owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Exchange(u32),
    Peer(u32),
    Operation(u32),
    Assembly(u32),
    Observation(u32),
    QDownload(u32),
    QUpload(u32),
    Connection(u32),
    /// A request held back after 4.29.
    Paused(u32),
    Multicast(u32),
    DelayedResponse(u32),
    BottleneckGroup(u8),
}

/// An output that waits to be polled; small, because every datagram and event passes through it.
#[derive(Debug)]
pub(crate) enum Queued {
    Transmit {
        to: SocketAddr,
        range: Range<usize>,
    },
    Request(IncomingId),
    Trace(Trace),
    Connect(SocketAddr),
    Close(SocketAddr),
    /// An event of a client, which is rarer and larger.
    Event(Box<Event>),
}

/// Outputs that wait to be polled, in order, and the bytes of the messages among them.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Queued>,
    /// The bytes of the messages in `queue`; emptied whenever there are none.
    bytes: Vec<u8>,
    /// Messages in `queue`.
    messages: usize,
    /// Bytes of messages that were not polled.
    unpolled: usize,
}

impl Outbox {
    #[inline]
    pub(crate) fn push(&mut self, queued: Queued) {
        self.queue.push_back(queued);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of messages that wait to be polled.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.unpolled
    }

    /// Returns whether the outbox is above [`QUEUED_BYTES`], so that received requests are held
    /// back.
    #[inline]
    pub(crate) fn is_congested(&self) -> bool {
        self.unpolled > QUEUED_BYTES
    }

    /// Queues the message that `write` appends to the buffer; its length.
    #[inline]
    pub(crate) fn transmit(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let range = start..self.bytes.len();
        let length = range.len();
        debug_assert!(self.bytes.len() >= start, "a message is appended");
        debug_assert!(length > 0, "a message has bytes");
        self.messages += 1;
        self.unpolled += length;
        self.queue.push_back(Queued::Transmit { to, range });
        self.check_invariants();
        length
    }

    /// Frees the buffer if no message of it waits.
    #[inline]
    pub(crate) fn recycle(&mut self) {
        if self.messages == 0 {
            debug_assert!(self.unpolled == 0, "every byte is of a message");
            self.bytes.clear();
            // Capacity for a burst is given back, so that an idle endpoint is small.
            self.bytes.shrink_to(OUTBOX_BYTES_KEPT);
        }
    }

    /// Removes the first output; while congested, the first that is not a request.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let is_request = |queued: &Queued| matches!(queued, Queued::Request(_));
        let next = if self.is_congested() && self.queue.front().is_some_and(is_request) {
            // Requests cause more output. Acknowledgements and events must not wait behind them.
            let other = self.queue.iter().position(|queued| !is_request(queued));
            self.queue.remove(other.unwrap_or(0))
        } else {
            self.queue.pop_front()
        };
        if let Some(Queued::Transmit { range, .. }) = &next {
            debug_assert!(self.messages > 0, "a message was counted");
            debug_assert!(self.unpolled >= range.len(), "its bytes were counted");
            self.messages -= 1;
            self.unpolled -= range.len();
        }
        self.check_invariants();
        next
    }

    /// Checks the counts of messages and bytes.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.messages <= self.queue.len());
        debug_assert!(self.unpolled <= self.bytes.len());
        debug_assert!(self.messages > 0 || self.unpolled == 0);
    }

    /// The bytes of a message that was just popped.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        debug_assert!(
            range.end <= self.bytes.len(),
            "the buffer was emptied early"
        );
        &self.bytes[range]
    }
}

/// Times derived from the endpoint's parameters, which every message needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) exchange: Duration,
    pub(crate) non: Duration,
}

impl Lifetimes {
    fn of(parameters: &TransmissionParameters) -> Self {
        let lifetimes = Self {
            exchange: parameters.exchange_lifetime(),
            non: parameters.non_lifetime(),
        };
        debug_assert!(lifetimes.non <= lifetimes.exchange, "RFC 7252 4.8.2");
        lifetimes
    }
}

/// Time, configuration, randomness, timers, counters and the outbox.
pub(crate) struct Context {
    /// The time of the current call.
    pub(crate) now: Instant,
    /// The time of the last input from the network or the clock; notifications are dated by it.
    pub(crate) input_at: Instant,
    pub(crate) config: Config,
    /// The option that counts retransmissions, if its number is one that can.
    pub(crate) count_option: Option<OptionNumber>,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) quota_policy: QuotaPolicy,
    /// The keys of digests of long tokens.
    pub(crate) token_keys: (u64, u64),
    pub(crate) random: Box<dyn Random + Send>,
    pub(crate) timers: Timers<Owner>,
    pub(crate) counters: Counters,
    pub(crate) out: Outbox,
    spare: Vec<Vec<u8>>,
    /// The buffer in which messages are written before their length is known.
    pub(crate) scratch: Vec<u8>,
    serial: u32,
}

impl Context {
    /// A context with an admissible configuration.
    pub(crate) fn new(
        config: Config,
        token_keys: (u64, u64),
        random: Box<dyn Random + Send>,
    ) -> Self {
        let count_option = config.retransmission_count_option;
        Self {
            now: Instant::ZERO,
            input_at: Instant::ZERO,
            count_option: can_count_retransmissions(count_option).then_some(count_option),
            lifetimes: Lifetimes::of(&config.parameters),
            quota_policy: QuotaPolicy::from(&config.limits),
            config,
            token_keys,
            random,
            timers: Timers::default(),
            counters: Counters::default(),
            out: Outbox::default(),
            spare: Vec::new(),
            scratch: alloc::vec![0; MESSAGE_BYTES],
            serial: 0,
        }
    }

    /// A serial number unused by recent requests, connections and events.
    #[inline]
    pub(crate) fn next_serial(&mut self) -> u32 {
        // An index with a serial names a wrong slot only after 2^32 others within the life of
        // one handle.
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Queues an event for the application.
    pub(crate) fn event(&mut self, event: Event) {
        self.out.push(Queued::Event(Box::new(event)));
    }

    /// Reports a protocol event, if any are wanted.
    #[inline]
    pub(crate) fn trace(&mut self, peer: SocketAddr, event: TraceEvent) {
        if self.config.trace != Tracing::Off {
            let at = self.now;
            self.out.push(Queued::Trace(Trace { at, peer, event }));
        }
    }

    /// A buffer for a message, reused where possible.
    #[inline]
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        let buffer = self.spare.pop().unwrap_or_default();
        debug_assert!(buffer.is_empty(), "a spare buffer was cleared");
        buffer
    }

    /// Keeps a buffer for reuse.
    #[inline]
    pub(crate) fn spare_buffer(&mut self, mut bytes: Vec<u8>) {
        // Together at most SPARE_BUFFERS * SPARE_BYTES, 1 MiB.
        if self.spare.len() < SPARE_BUFFERS && bytes.capacity() <= SPARE_BYTES {
            bytes.clear();
            self.spare.push(bytes);
            debug_assert!(self.spare.len() <= SPARE_BUFFERS);
        }
    }

    /// Returns whether peers are connections (RFC 8323), not datagrams.
    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        self.config.reliable.is_some()
    }

    /// Returns whether peers have proven their addresses: by a handshake of TCP or DTLS (RFC 6347
    /// 4.2.1).
    #[inline]
    pub(crate) fn transport_validates_addresses(&self) -> bool {
        self.is_stream() || self.config.secured
    }

    /// Returns whether every message with this type is answered: a CON, and over a connection each
    /// request (RFC 8323 3.3).
    #[inline]
    pub(crate) fn is_confirmable(&self, message: &MessageView<'_>) -> bool {
        message.kind() == Type::Confirmable || self.is_stream()
    }
}
