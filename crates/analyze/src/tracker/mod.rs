//! Exchanges of all peers, message by message, in bounded memory.

pub(crate) mod controllers;
pub(crate) mod conversation;
mod exchange;
pub(crate) mod samples;
#[cfg(test)]
mod tests;
pub(crate) mod transfers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use carob_cc::evidence::Kind;
use carob_codec::Type;

use crate::limits::{CONVERSATIONS_MAX, EXCHANGE_LIFETIME_US, EXCHANGES_MAX, TRANSMISSIONS_MAX};
use crate::message::Message;
use crate::sketch::Sketch;
use controllers::{Bank, Panel};
use conversation::{Conversation, Flow, Near};
use exchange::{Exchange, ReplyKind, assign};
use samples::{Arrivals, Reservoir, Sample};
use transfers::{Block, Notifications, Transfer, TransferTable};

/// Conversation, side of the sender, Message ID.
type Key = (u32, u8, u16);

/// Time for which an exchange without a reply counts as outstanding, in microseconds.
const OUTSTANDING_US: u64 = 10_000_000;
/// A reply may still come after the end of the capture for this many 99th percentiles of the
/// round trip.
const REPLY_GRACE: u64 = 3;

/// Step of the time backwards at which another part of a file begins, in microseconds.
const STEP_BACK_US: u64 = 60_000_000;
/// Serial numbers of concluded exchanges that may stay in the order, beside as many as there are open ones.
const STALE_MIN: usize = 1_024;

/// The state of an analysis.
#[derive(Debug)]
pub(crate) struct Tracker {
    pub(crate) conversations: Vec<Conversation>,
    index: BTreeMap<([SocketAddr; 2], u64), u32>,
    open: BTreeMap<Key, Exchange>,
    /// Serial numbers of exchanges in the order of their beginning; concluded ones are removed
    /// once they outnumber the open ones.
    order: VecDeque<(u64, Key)>,
    /// Serial number of the latest exchange.
    serial: u64,
    /// Message ID of the latest request with a token.
    tokens: BTreeMap<(u32, u8, u64), u16>,
    /// Exchanges without a reply by the time of their last transmission.
    waiting: BTreeSet<(u64, Key)>,
    bodies: TransferTable,
    /// Controllers beside senders at the capture, and beside those that may be.
    panels: [Panel; 2],
    pub(crate) reservoir: Reservoir,
    /// Replies that arrive at clients and at servers.
    pub(crate) arrivals: [Arrivals; 2],
    pub(crate) totals: Totals,
    /// Number of the file.
    file: u32,
    now: u64,
}

/// Counts of the whole capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) messages: u64,
    /// Time of the first message of the file, and the sum of the files' times.
    pub(crate) first_us: Option<u64>,
    pub(crate) span_us: u64,
    /// Messages with a time before an earlier message's.
    pub(crate) disordered: u64,
    /// ACK and RST without their CON or NON.
    pub(crate) stray_replies: u64,
    /// Messages of peers beyond the limit.
    pub(crate) beyond_limit: u64,
    pub(crate) packet_bytes_max: u32,
}

impl Tracker {
    pub(crate) fn new() -> Self {
        Self {
            conversations: Vec::new(),
            index: BTreeMap::new(),
            open: BTreeMap::new(),
            order: VecDeque::new(),
            serial: 0,
            tokens: BTreeMap::new(),
            waiting: BTreeSet::new(),
            bodies: TransferTable::default(),
            panels: [Panel::new(), Panel::new()],
            reservoir: Reservoir::new(),
            arrivals: [Arrivals::default(), Arrivals::default()],
            totals: Totals::default(),
            file: 0,
            now: 0,
        }
    }

    /// Number of the place of a capture: of an interface of a file, if packets have a direction.
    fn point(&self, interface: Option<u32>) -> u64 {
        let interface = interface.map_or(0, |interface| u64::from(interface) + 1);
        u64::from(self.file) << 33 | interface
    }

    /// Returns true if the peers have a conversation.
    pub(crate) fn known(&self, from: SocketAddr, to: SocketAddr, interface: Option<u32>) -> bool {
        let point = self.point(interface);
        self.index.contains_key(&(sorted(from, to), point))
    }

    /// A datagram of known peers is no CoAP.
    pub(crate) fn foreign(&mut self, from: SocketAddr, to: SocketAddr, interface: Option<u32>) {
        let point = self.point(interface);
        if let Some(place) = self.index.get(&(sorted(from, to), point)) {
            self.conversations[*place as usize].foreign += 1;
        }
    }

    /// Handles a message.
    pub(crate) fn see(&mut self, message: &Message) {
        if message.at.saturating_add(STEP_BACK_US) < self.now {
            self.conclude_part();
        }
        let totals = &mut self.totals;
        totals.messages += 1;
        totals.disordered += u64::from(message.at < self.now);
        totals.first_us = Some(totals.first_us.map_or(message.at, |at| at.min(message.at)));
        totals.packet_bytes_max = totals.packet_bytes_max.max(message.packet_bytes);
        self.now = self.now.max(message.at);
        self.expire();
        let Some(place) = self.conversation(message) else {
            self.totals.beyond_limit += 1;
            return;
        };
        let conversation = &mut self.conversations[place as usize];
        if conversation.is_foreign() {
            return;
        }
        let side = usize::from(message.from != conversation.peers[0]);
        conversation.see(side, message);
        conversation.flows[side].counts.bytes += u64::from(message.packet_bytes);
        match message.kind {
            Type::Acknowledgement | Type::Reset => {
                self.reply((place, 1 - side as u8, message.id), message);
            }
            Type::Confirmable | Type::NonConfirmable => self.begin_or_repeat(place, side, message),
        }
    }

    fn conversation(&mut self, message: &Message) -> Option<u32> {
        let peers = sorted(message.from, message.to);
        let point = self.point(message.direction.map(|_| message.interface));
        if let Some(place) = self.index.get(&(peers, point)) {
            return Some(*place);
        }
        if self.conversations.len() >= CONVERSATIONS_MAX {
            return None;
        }
        let place = self.conversations.len() as u32;
        self.conversations
            .push(Conversation::new(peers, self.file, message.at));
        self.index.insert((peers, point), place);
        Some(place)
    }

    fn begin_or_repeat(&mut self, place: u32, side: usize, message: &Message) {
        let key = (place, side as u8, message.id);
        let known = self.open.get(&key);
        if known.is_some_and(|exchange| exchange.fingerprint == message.fingerprint) {
            self.repeat(key, message);
            return;
        }
        if known.is_some() {
            self.conclude(key, false);
        }
        self.conversations[place as usize].flows[side].see_id(message.id);
        let is_notification = message.is_response()
            && self.respond(place, side, message)
            && message.observe.is_some();
        // Nothing replies to a NON response.
        if message.kind == Type::Confirmable || message.is_request() {
            self.begin(key, message, is_notification);
        }
    }

    fn begin(&mut self, key: Key, message: &Message, is_notification: bool) {
        let (place, side, id) = key;
        if self.open.len() >= EXCHANGES_MAX {
            self.conclude_oldest();
        }
        let since = self.now.saturating_sub(OUTSTANDING_US);
        let is_alone = self.waiting.range((since, (0, 0, 0))..).next().is_none();
        let conversation = &mut self.conversations[place as usize];
        let near = conversation.near();
        let flow = &mut conversation.flows[usize::from(side)];
        let running = flow.outstanding;
        flow.began(message.at);
        let counts = &mut flow.counts;
        counts.exchanges += 1;
        let is_confirmable = message.kind == Type::Confirmable;
        counts.confirmable += u64::from(is_confirmable);
        counts.requests += u64::from(message.is_request());
        counts.notifications += u64::from(is_notification);
        let mut exchange = Exchange {
            kind: message.kind,
            is_request: message.is_request(),
            is_notification,
            fingerprint: message.fingerprint,
            token: message.token,
            resource: message.resource,
            copies: vec![message.at],
            replies: Vec::new(),
            further: [0; 2],
            reply_kind: None,
            typical: None,
            response_at: None,
            packet_bytes: message.packet_bytes,
            payload_bytes: message.payload_bytes,
            reply_packet_bytes: 0,
            block1: message.block1,
            is_alone,
            replay: None,
            last_us: message.at,
            waits_since: message.at,
            serial: self.serial + 1,
        };
        if is_confirmable && may_be_sender(near, usize::from(side)) {
            let running = u16::try_from(running).unwrap_or(u16::MAX);
            let bank = flow.bank.get_or_insert_with(|| Box::new(Bank::new()));
            let panel = &self.panels[panel_of(near)];
            let kind = purpose(&exchange);
            exchange.replay = Some(panel.begin(bank, message.at, running, kind, message.bytes));
        }
        if message.is_request() {
            self.tokens.insert((place, side, message.token), id);
            if message.observe == Some(0) {
                self.bodies.register(place, side, message.token);
            }
        }
        self.waiting.insert((message.at, key));
        self.serial += 1;
        self.order.push_back((self.serial, key));
        self.open.insert(key, exchange);
        self.remove_stale();
    }

    /// Removes the serial numbers of concluded exchanges where they outnumber the open ones.
    fn remove_stale(&mut self) {
        if self.order.len() <= 2 * self.open.len() + STALE_MIN {
            return;
        }
        let open = &self.open;
        self.order.retain(|(serial, key)| {
            let exchange = open.get(key);
            exchange.is_some_and(|exchange| exchange.serial == *serial)
        });
    }

    fn repeat(&mut self, key: Key, message: &Message) {
        let (place, side, _) = key;
        let Some(exchange) = self.open.get_mut(&key) else {
            return;
        };
        let conversation = &mut self.conversations[place as usize];
        let near = conversation.near();
        let heard = conversation.last_heard[1 - usize::from(side)];
        let flow = &mut conversation.flows[usize::from(side)];
        if exchange.kind == Type::NonConfirmable {
            flow.counts.unconfirmed_duplicates += 1;
            exchange.add_copy(message.at);
            return;
        }
        flow.counts.retransmissions += 1;
        let before = exchange.copies.last().copied().unwrap_or(message.at);
        if let Some(reply) = exchange.replies.last().filter(|reply| **reply >= before) {
            flow.counts.after_reply += 1;
            flow.after_reply.add(message.at.saturating_sub(*reply));
        } else {
            flow.counts.before_reply += 1;
        }
        let kind = purpose(exchange);
        if exchange.replies.is_empty() {
            self.waiting.remove(&(exchange.waits_since, key));
            self.waiting.insert((message.at, key));
            exchange.waits_since = message.at;
            // Controllers receive only the stored transmissions.
            if exchange.further[0] == 0
                && exchange.copies.len() < TRANSMISSIONS_MAX
                && let (Some(bank), Some(replay)) = (&mut flow.bank, &mut exchange.replay)
            {
                let panel = &self.panels[panel_of(near)];
                panel.again(bank, replay, message.at, kind, heard <= before);
            }
        }
        exchange.add_copy(message.at);
    }

    /// Handles an ACK or RST.
    fn reply(&mut self, key: Key, message: &Message) {
        let (place, side, _) = key;
        let Some(exchange) = self.open.get_mut(&key) else {
            self.totals.stray_replies += 1;
            return;
        };
        let kind = match message.kind {
            Type::Reset => ReplyKind::Reset,
            _ if message.code.is_empty() => ReplyKind::Empty,
            _ => ReplyKind::Piggybacked,
        };
        let is_first = exchange.replies.is_empty();
        let is_response = kind == ReplyKind::Piggybacked && exchange.response_at.is_none();
        self.answer(key, message, kind);
        if is_first && is_response && message.observe.is_some() {
            let token = message.token;
            self.bodies.notify(place, side, token, message.at, true);
        }
    }

    /// Adds a reply to an exchange.
    fn answer(&mut self, key: Key, message: &Message, kind: ReplyKind) {
        let (place, side, _) = key;
        let Some(exchange) = self.open.get_mut(&key) else {
            return;
        };
        let conversation = &mut self.conversations[place as usize];
        let near = conversation.near();
        let is_client = conversation.client == Some(usize::from(side));
        let flow = &mut conversation.flows[usize::from(side)];
        flow.counts.replies += 1;
        exchange.add_reply(message.at);
        if exchange.replies.len() > 1 {
            if exchange.replies.len() == exchange.copies.len() {
                flow.learn_repeated(exchange.replies[0].saturating_sub(exchange.copies[0]));
            }
            if let Some(bank) = &mut flow.bank {
                let (sent, answers) = (exchange.transmissions(), exchange.replies.len());
                let began = exchange.copies.first().copied().unwrap_or(message.at);
                Panel::late(bank, message.at, sent, answers, began);
            }
            return;
        }
        exchange.reply_kind = Some(kind);
        exchange.typical = flow.typical();
        exchange.reply_packet_bytes = message.packet_bytes;
        self.waiting.remove(&(exchange.waits_since, key));
        flow.counts.answered += 1;
        flow.counts.resets += u64::from(kind == ReplyKind::Reset);
        flow.replied(message.at);
        if let (Some(bank), Some(replay)) = (&mut flow.bank, &mut exchange.replay) {
            let panel = &self.panels[panel_of(near)];
            panel.answer(bank, replay, message.at, kind, message.bytes);
        }
        let may_be_sender = may_be_sender(near, usize::from(side));
        if let Some(time) = exchange.exact_round_trip() {
            if exchange.kind == Type::NonConfirmable {
                flow.unconfirmed.add(time);
            } else {
                flow.add_exact(time);
                if may_be_sender {
                    let replay = exchange.replay.as_ref();
                    self.reservoir.add(Sample {
                        at: message.at,
                        round_trip: time,
                        sent_bytes: exchange.packet_bytes,
                        received_bytes: message.packet_bytes,
                        is_alone: exchange.is_alone,
                        conversation: place,
                        side,
                        first: replay.map(|replay| replay.first.clone()),
                    });
                }
            }
        }
        if may_be_sender {
            let since = self.now.saturating_sub(OUTSTANDING_US);
            let is_busy = self.waiting.range((since, (0, 0, 0))..).next().is_some();
            self.arrivals[usize::from(!is_client)].add(message.at, message.packet_bytes, is_busy);
        }
        if matches!(kind, ReplyKind::Piggybacked) {
            self.complete(key, message);
        }
    }

    /// Handles a separate response; returns true for a notification.
    fn respond(&mut self, place: u32, side: usize, message: &Message) -> bool {
        let requester = 1 - side as u8;
        let is_confirmable = message.kind == Type::Confirmable;
        let is_notification = message.observe.is_some()
            && (self.bodies).notify(place, requester, message.token, message.at, is_confirmable);
        let Some(id) = self.tokens.get(&(place, requester, message.token)) else {
            return is_notification;
        };
        let key = (place, requester, *id);
        let Some(exchange) = self.open.get_mut(&key) else {
            return is_notification;
        };
        if exchange.response_at.is_some() {
            return is_notification;
        }
        let flow = &mut self.conversations[place as usize].flows[usize::from(requester)];
        flow.counts.separate += 1;
        match (exchange.reply_kind, exchange.replies.first()) {
            (Some(ReplyKind::Empty), Some(acknowledged)) => {
                let time = message.at.saturating_sub(*acknowledged);
                flow.server_times.add(time);
                flow.responded(message.at);
                self.complete(key, message);
            }
            (None, _) => {
                self.answer(key, message, ReplyKind::Separate);
                self.complete(key, message);
            }
            _ => {}
        }
        is_notification
    }

    /// The response to a request: its blocks.
    fn complete(&mut self, key: Key, message: &Message) {
        let (place, side, _) = key;
        let Some(exchange) = self.open.get_mut(&key) else {
            return;
        };
        if exchange.response_at.replace(message.at).is_some() || !exchange.is_request {
            return;
        }
        let began = exchange.copies.first().copied().unwrap_or(message.at);
        let retransmissions = exchange.copies.len() as u32 - 1;
        let block = |value, is_upload, bytes| Block {
            value,
            is_upload,
            bytes,
            requested_at: began,
            answered_at: message.at,
            retransmissions,
        };
        if let Some(value) = message.block2.filter(|_| message.code.is_success()) {
            let block = block(value, false, message.payload_bytes);
            self.bodies.add_block(place, side, exchange.resource, block);
        }
        // The request has the block's number; the response shows that it arrived.
        if let Some(value) = exchange.block1.filter(|_| message.block1.is_some()) {
            let block = block(value, true, exchange.payload_bytes);
            self.bodies.add_block(place, side, exchange.resource, block);
        }
    }

    /// Concludes exchanges of which no message can come any more.
    fn expire(&mut self) {
        while let Some((serial, key)) = self.order.front().copied() {
            // The Message ID may have begun another exchange since.
            let exchange = self.open.get(&key);
            let Some(exchange) = exchange.filter(|exchange| exchange.serial == serial) else {
                self.order.pop_front();
                continue;
            };
            let began = exchange.copies.first().copied().unwrap_or_default();
            if self.now.saturating_sub(began) < EXCHANGE_LIFETIME_US {
                return;
            }
            self.order.pop_front();
            if self.now.saturating_sub(exchange.last_us) < EXCHANGE_LIFETIME_US {
                self.order.push_back((serial, key));
                return;
            }
            self.conclude(key, false);
        }
    }

    fn conclude_oldest(&mut self) {
        while let Some((serial, key)) = self.order.pop_front() {
            let exchange = self.open.get(&key);
            if exchange.is_some_and(|exchange| exchange.serial == serial) {
                let flow = &mut self.conversations[key.0 as usize].flows[usize::from(key.1)];
                flow.counts.early += 1;
                self.conclude(key, false);
                return;
            }
        }
    }

    /// Ends an exchange: its retransmissions, losses and controllers are judged.
    fn conclude(&mut self, key: Key, is_end: bool) {
        let (place, side, id) = key;
        let Some(mut exchange) = self.open.remove(&key) else {
            return;
        };
        self.waiting.remove(&(exchange.waits_since, key));
        let token = (place, side, exchange.token);
        if exchange.is_request && self.tokens.get(&token) == Some(&id) {
            self.tokens.remove(&token);
        }
        let conversation = &mut self.conversations[place as usize];
        let near = conversation.near();
        let flow = &mut conversation.flows[usize::from(side)];
        if exchange.replies.is_empty() {
            flow.outstanding = flow.outstanding.saturating_sub(1);
            let grace = flow.round_trips.quantile(0.99).max(1_000_000) * REPLY_GRACE;
            if is_end && self.now.saturating_sub(exchange.last_us) < grace {
                flow.counts.open += 1;
                return;
            }
            flow.counts.unanswered += 1;
            if let (Some(bank), Some(replay)) = (&mut flow.bank, &mut exchange.replay) {
                self.panels[panel_of(near)].give_up(bank, replay, self.now);
            }
        }
        if exchange.kind == Type::Confirmable {
            let panel = &mut self.panels[panel_of(near)];
            let assigned = judge(flow, panel, &exchange);
            if let Some(round_trip) = assigned.filter(|_| may_be_sender(near, usize::from(side))) {
                self.reservoir.add(Sample {
                    at: exchange.replies.first().copied().unwrap_or_default(),
                    round_trip,
                    sent_bytes: exchange.packet_bytes,
                    received_bytes: exchange.reply_packet_bytes,
                    is_alone: exchange.is_alone,
                    conversation: place,
                    side,
                    first: exchange.replay.map(|replay| replay.first),
                });
            }
        }
    }

    /// Begins the next file, which has another clock.
    pub(crate) fn next_file(&mut self) {
        self.file += 1;
        self.now = 0;
        self.totals.first_us = None;
    }

    /// Begins a part of the file with earlier times: captures that were joined, or a clock that was set. The
    /// exchanges before it are not compared with its times.
    fn conclude_part(&mut self) {
        self.conclude_all();
        self.totals.disordered += 1;
        self.totals.first_us = None;
        self.now = 0;
    }

    /// Concludes everything at the end of a file, or of a part of it.
    pub(crate) fn conclude_all(&mut self) {
        let first = self.totals.first_us.unwrap_or(self.now);
        self.totals.span_us += self.now.saturating_sub(first);
        for (serial, key) in std::mem::take(&mut self.order) {
            let exchange = self.open.get(&key);
            if exchange.is_some_and(|exchange| exchange.serial == serial) {
                self.conclude(key, true);
            }
        }
        self.bodies.finish();
    }

    /// Returns the controllers beside senders: those at the capture, and with `all` those that may
    /// be.
    pub(crate) fn controllers(&self, all: bool) -> Vec<controllers::ControllerResult> {
        let mut panel = Panel::new();
        panel.merge(&self.panels[0]);
        if all {
            panel.merge(&self.panels[1]);
        }
        panel.results()
    }

    pub(crate) fn transfers(&self) -> (&[Transfer], &Sketch, [u64; 2]) {
        let bodies = &self.bodies;
        let counts = [bodies.complete, bodies.incomplete];
        (&bodies.listed, &bodies.goodput, counts)
    }

    pub(crate) fn notifications(&self) -> &Notifications {
        &self.bodies.notifications
    }
}

/// Judges the transmissions of a CON at its end; returns the round trip that was assigned to one of
/// several, if that is certain.
fn judge(flow: &mut Flow, panel: &mut Panel, exchange: &Exchange) -> Option<u64> {
    let mut certain = None;
    let count = exchange.copies.len();
    let is_implicit = exchange.reply_kind == Some(ReplyKind::Separate);
    let mut first_trip = None;
    let mut first_lost = exchange.replies.is_empty();
    if exchange.replies.is_empty() {
        for _ in 0..count {
            flow.add_fate(true);
        }
    } else if is_implicit {
        // The acknowledgement was lost, or never due; the reply names no transmission.
        flow.counts.undecided += count as u64 - 1;
    } else if let Some(assigned) = assign(
        &exchange.copies,
        &exchange.replies,
        exchange.typical.or_else(|| flow.typical()),
        flow.floor,
    ) {
        for copy in 0..count {
            flow.add_fate(!assigned.answered.contains(&copy));
        }
        let first = assigned.answered.first().copied().unwrap_or_default();
        let spurious = (count - 1 - first) as u64;
        flow.counts.spurious += spurious;
        if !assigned.is_certain {
            flow.counts.spurious_uncertain += (count - 1) as u64;
        }
        let trip = exchange.replies[0].saturating_sub(exchange.copies[first]);
        if count > 1 {
            flow.add_assigned(trip);
            certain = assigned.is_certain.then_some(trip);
        }
        first_lost = first > 0;
        first_trip = (first == 0).then_some(trip);
    } else {
        flow.counts.undecided += count as u64 - 1;
    }
    if let Some(replay) = &exchange.replay {
        panel.count(replay, first_trip, first_lost);
    }
    certain
}

fn purpose(exchange: &Exchange) -> Kind {
    match (exchange.is_request, exchange.is_notification) {
        (true, _) => Kind::Request,
        (false, true) => Kind::Notification,
        (false, false) => Kind::Response,
    }
}

fn may_be_sender(near: Near, side: usize) -> bool {
    match near {
        Near::Side(at) => at == side,
        Near::Both | Near::Unknown => true,
    }
}

/// The panel of exchanges whose sender was captured, or may have been.
fn panel_of(near: Near) -> usize {
    usize::from(near == Near::Unknown)
}

fn sorted(from: SocketAddr, to: SocketAddr) -> [SocketAddr; 2] {
    if from <= to { [from, to] } else { [to, from] }
}
