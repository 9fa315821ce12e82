//! Two peers, the exchanges that each of them began, and the place of the capture between them.

use std::net::SocketAddr;

use super::controllers::Bank;
use crate::input::Direction;
use crate::message::Message;
use crate::sketch::Sketch;

/// Weight of a new round trip in the recent one: RFC 6298's gain of SRTT.
const GAIN: f64 = 0.125;
/// Initial TTLs and hop limits of common systems.
const INITIAL_TTLS: [u8; 3] = [64, 128, 255];
/// Missing Message IDs in a row that count as lost messages; a longer gap is another numbering.
const ID_GAP_MAX: u16 = 16;

/// Peers at which a conversation was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Near {
    /// One of both, by its side.
    Side(usize),
    /// Both have one address.
    Both,
    /// Unknown.
    Unknown,
}

/// The exchanges that one side began, as they were captured. Round trips, losses and spurious
/// retransmissions are right if the capture was made at that side.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    pub(crate) counts: FlowCounts,
    /// Times between transmission and reply where one transmission alone can have been answered.
    pub(crate) exact: Sketch,
    /// The same, with the transmissions to which replies were assigned.
    pub(crate) round_trips: Sketch,
    /// Times of responses to NON requests, the server's time included.
    pub(crate) unconfirmed: Sketch,
    /// Times from an empty ACK to the response.
    pub(crate) server_times: Sketch,
    /// Times from a reply to the next exchange.
    pub(crate) turnarounds: Sketch,
    /// Times from a reply to a retransmission that was captured after it.
    pub(crate) after_reply: Sketch,
    /// Logarithm of the recent round trip, and the shortest.
    typical: Option<f64>,
    pub(crate) floor: Option<u64>,
    last_reply: Option<u64>,
    /// Exchanges without a reply so far.
    pub(super) outstanding: u32,
    last_lost: Option<bool>,
    /// Transmissions by the fate of the one before and their own: [before][own], 1 for lost.
    pub(crate) transitions: [[u64; 2]; 2],
    last_id: Option<u16>,
    pub(super) bank: Option<Box<Bank>>,
}

/// Counts of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowCounts {
    pub(crate) exchanges: u64,
    pub(crate) confirmable: u64,
    pub(crate) requests: u64,
    pub(crate) notifications: u64,
    pub(crate) answered: u64,
    pub(crate) resets: u64,
    pub(crate) unanswered: u64,
    /// Exchanges at the end of the capture whose reply may still have come.
    pub(crate) open: u64,
    pub(crate) separate: u64,
    pub(crate) retransmissions: u64,
    pub(crate) unconfirmed_duplicates: u64,
    /// Spurious retransmissions, and the ones that another assignment of replies would call needed.
    pub(crate) spurious: u64,
    pub(crate) spurious_uncertain: u64,
    /// Retransmissions of answered exchanges of which neither is known.
    pub(crate) undecided: u64,
    /// Transmissions of CON of which the fate is known, and those without a reply.
    pub(crate) judged: u64,
    pub(crate) lost: u64,
    /// Retransmissions before which a reply was captured, and those before which none was.
    pub(crate) after_reply: u64,
    pub(crate) before_reply: u64,
    /// Replies.
    pub(crate) replies: u64,
    /// Message IDs that follow each other, those left out, and other steps.
    pub(crate) ids_consecutive: u64,
    pub(crate) ids_missing: u64,
    pub(crate) ids_elsewhere: u64,
    pub(crate) bytes: u64,
    /// Exchanges concluded early, at the limit of open ones.
    pub(crate) early: u64,
}

impl Flow {
    /// Adds an unambiguous round trip.
    pub(super) fn add_exact(&mut self, time: u64) {
        self.exact.add(time);
        self.round_trips.add(time);
        self.learn(time);
        self.floor = Some(self.floor.map_or(time, |floor| floor.min(time)));
    }

    /// Adds the round trip of a transmission to which the reply was assigned.
    pub(super) fn add_assigned(&mut self, time: u64) {
        self.round_trips.add(time);
    }

    /// Learns the round trip of an exchange with an answer to every transmission, where none is
    /// unambiguous. Otherwise it would count slow ones alone: those are repeated.
    pub(super) fn learn_repeated(&mut self, time: u64) {
        if self.exact.count() == 0 {
            self.learn(time);
        }
    }

    fn learn(&mut self, time: u64) {
        let new = (time.max(1) as f64).ln();
        self.typical = Some(match self.typical {
            None => new,
            Some(old) => old + GAIN * (new - old),
        });
    }

    /// The recent round trip in microseconds.
    pub(super) fn typical(&self) -> Option<f64> {
        self.typical.map(f64::exp)
    }

    /// The first reply of an exchange arrived.
    pub(super) fn replied(&mut self, at: u64) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.last_reply = (self.outstanding == 0).then_some(at);
    }

    /// A separate response arrived: the next exchange follows it.
    pub(super) fn responded(&mut self, at: u64) {
        self.last_reply = self.last_reply.map(|_| at);
    }

    /// A new exchange begins.
    pub(super) fn began(&mut self, at: u64) {
        if let Some(reply) = self.last_reply.take() {
            self.turnarounds.add(at.saturating_sub(reply));
        }
        self.outstanding += 1;
    }

    /// The fate of a transmission, in the order of sending.
    pub(super) fn add_fate(&mut self, is_lost: bool) {
        self.counts.judged += 1;
        self.counts.lost += u64::from(is_lost);
        if let Some(before) = self.last_lost.replace(is_lost) {
            self.transitions[usize::from(before)][usize::from(is_lost)] += 1;
        }
    }

    pub(super) fn see_id(&mut self, id: u16) {
        let Some(before) = self.last_id.replace(id) else {
            return;
        };
        match id.wrapping_sub(before) {
            1 => self.counts.ids_consecutive += 1,
            0 => {}
            gap if gap <= ID_GAP_MAX => self.counts.ids_missing += u64::from(gap - 1),
            _ => self.counts.ids_elsewhere += 1,
        }
    }
}

/// Two peers and their messages at one interface.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) peers: [SocketAddr; 2],
    /// Number of the file.
    pub(crate) file: u32,
    /// The side that made requests first.
    pub(crate) client: Option<usize>,
    pub(crate) flows: [Flow; 2],
    /// Messages captured at each side, by the direction of the packet.
    captured_at: [u64; 2],
    ttls: [Option<u8>; 2],
    pub(crate) messages: [u64; 2],
    pub(super) last_us: u64,
    pub(super) last_heard: [u64; 2],
    /// Pauses of at least a second without a message.
    pub(crate) idle: Sketch,
    /// Datagrams of these peers that are no CoAP.
    pub(super) foreign: u64,
}

/// Shortest pause that counts, in microseconds.
const IDLE_MIN_US: u64 = 1_000_000;

impl Conversation {
    pub(super) fn new(peers: [SocketAddr; 2], file: u32, now: u64) -> Self {
        Self {
            peers,
            file,
            client: None,
            flows: [Flow::default(), Flow::default()],
            captured_at: [0; 2],
            ttls: [None; 2],
            messages: [0; 2],
            last_us: now,
            last_heard: [0; 2],
            idle: Sketch::default(),
            foreign: 0,
        }
    }

    pub(super) fn see(&mut self, side: usize, message: &Message) {
        self.messages[side] += 1;
        self.last_heard[side] = message.at;
        let pause = message.at.saturating_sub(self.last_us);
        if pause >= IDLE_MIN_US {
            self.idle.add(pause);
        }
        self.last_us = self.last_us.max(message.at);
        if self.client.is_none() && message.is_request() {
            self.client = Some(side);
        }
        match message.direction {
            Some(Direction::Outbound) => self.captured_at[side] += 1,
            Some(Direction::Inbound) => self.captured_at[1 - side] += 1,
            None => {}
        }
        if message.ttl > 0 {
            self.ttls[side] = Some(message.ttl);
        }
    }

    /// Returns the side of the capture, by the directions of packets.
    pub(crate) fn near(&self) -> Near {
        if self.peers[0].ip() == self.peers[1].ip() {
            return Near::Both;
        }
        match self.captured_at {
            [0, 0] => {}
            [a, b] => return Near::Side(usize::from(b > a)),
        }
        let is_initial = |ttl: Option<u8>| ttl.is_some_and(|ttl| INITIAL_TTLS.contains(&ttl));
        match self.ttls {
            [Some(_), Some(_)] => match self.ttls.map(is_initial) {
                [true, false] => Near::Side(0),
                [false, true] => Near::Side(1),
                _ => Near::Unknown,
            },
            _ => Near::Unknown,
        }
    }

    /// Returns true if it is known from the directions of packets, rather than their TTLs.
    pub(crate) fn has_directions(&self) -> bool {
        self.captured_at != [0, 0]
    }

    /// Returns true if more datagrams are no CoAP than are.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign > self.messages[0] + self.messages[1]
    }
}
