//! The protocol engine: a CoAP endpoint, client and server at once, without sockets or clocks.
//!
//! The law: after every call that is given the time (`handle_*`, [`Endpoint::request`],
//! [`Endpoint::respond`], ...), drain [`Endpoint::poll`] until it returns [`Output::Wait`]; then
//! wait for input or for that time. A call at a later time may be made without waiting; time must
//! not run backwards.
//!
//! ```
//! use carob_cc::random::Fixed;
//! use carob_cc::time::Instant;
//! use carob_proto::endpoint::{Config, Endpoint, Event, Output, Sending};
//! use carob_proto::{Request, Response, codec::Code};
//!
//! let mut client = Endpoint::new(Config::default(), Fixed(1));
//! let mut server = Endpoint::new(Config::default(), Fixed(2));
//! let (here, there) = ("[::1]:40000".parse().unwrap(), "[::1]:5683".parse().unwrap());
//!
//! client.request(Instant::ZERO, there, Request::get(), Sending::default()).unwrap();
//! let Output::Transmit { bytes, .. } = client.poll() else { panic!() };
//! server.handle_datagram(Instant::ZERO, here, bytes);
//! let Output::Event(Event::Request(id)) = server.poll() else { panic!() };
//! server.respond(Instant::ZERO, id, &Response::new(Code::CONTENT));
//! let Output::Transmit { bytes, .. } = server.poll() else { panic!() };
//! client.handle_datagram(Instant::ZERO, there, bytes);
//! assert!(matches!(client.poll(), Output::Event(Event::Response { .. })));
//! ```
//!
//! Files: [`mod@self`] the public face and the way of a datagram, `exchange` sending and
//! retransmission, and in `exchange::answer` matching, `aggregate` budgets over several peers,
//! `client` requests, their bodies and our observations, `group` requests to groups and
//! `group::leisure` the answers to those, `reliable` connections in the place of the message layer, `capacity` what one message carries, `session`
//! what secures datagrams, `tokens` tokens of ours, `usage` what is held and known, `server` requests received, `observe` who observes our resources,
//! `notification_queue` what of it waits, `count` and `exchange::count` which copy of a request was
//! answered.

mod aggregate;
mod capacity;
mod client;
mod config;
mod count;
mod event;
mod exchange;
mod group;
mod limits;
mod notification_queue;
mod observe;
mod options;
mod reliable;
mod server;
mod session;
mod tokens;
mod usage;
mod validated;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Range;

use carob_cc::TransmissionParameters;
use carob_cc::controller::Window;
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use slab::Slab;

use crate::blockwise::assembly::{Assemblies, AssemblyLimits};
use crate::blockwise::bodies::Bodies;
use crate::codec::frame::write_frame;
use crate::codec::{
    Code, DecodeErrorKind, MessageId, MessageView, OptionNumber, Type, parse_header,
};
use crate::congestion::Choice;
use crate::counters::{Counters, Refusal};
use crate::dedup::{Dedup, Known};
use crate::echo::{Challenges, Given};
use crate::message_id::GroupIds;
use crate::observe::observers::Observers;
use crate::peer::{PeerIndex, Peers};
use crate::rates::{Pace, Rates};
use crate::shares::{Shares, Sharing};
use crate::timers::Timers;
use crate::trace::{Trace, What};

pub use crate::blockwise::assembly::Delivery;
pub use crate::observe::{Observe, Subject};
pub use aggregate::AGGREGATES_MAX;
pub(crate) use aggregate::NONE as NO_AGGREGATE;
pub use client::{BlockMode, BodyMode, Sending};
pub use config::{
    Config, Leisure, MESSAGE_BYTES, NotificationQueue, RETRANSMISSION_COUNT, Tracing,
    can_count_retransmissions,
};
pub use event::{Event, Failure, IncomingId, Output, RequestError, RequestId};
pub use group::Gathering;
pub use limits::{Limit, Limits};
pub use reliable::{Disconnect, Reliable};
pub use server::{AMPLIFICATION_FACTOR, Incoming, Part};
pub use session::{Flight, SessionEnd};
pub use tokens::TOKEN_BYTES_MAX;
pub use usage::{Snapshot, Usage};

use aggregate::Aggregates;
use client::{ObservationIndex, Operation, Pauses, Turns};
use config::{REJECTIONS_A_SECOND, admissible};
pub(crate) use exchange::Queue;
use exchange::{Ended, Exchange, ExchangeIndex};
use group::Groups;
use group::leisure::Leisurely;
use notification_queue::Notifications;
use reliable::Connections;
use server::{IncomingTable, Unkept};
pub(crate) use session::Session;
use tokens::TokenSupport;
use validated::Validated;

/// Who a timer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Exchange(u32),
    Peer(u32),
    Operation(u32),
    Assembly(u32),
    Observation(u32),
    Connection(u32),
    /// A request that its peer has had too many of.
    Paused(u32),
    Group(u32),
    Leisurely(u32),
    Aggregate(u8),
}

/// Small, because every datagram and event passes through the queue.
#[derive(Debug)]
enum Queued {
    Transmit {
        to: SocketAddr,
        range: Range<usize>,
    },
    Request(IncomingId),
    Trace(Trace),
    Connect(SocketAddr),
    Close(SocketAddr),
    /// What a client hears, which is rarer and larger.
    Event(Box<Event>),
}

/// Messages that wait to be polled.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    messages: usize,
    bytes: usize,
}

impl Waiting {
    fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// What the application set for one peer.
#[derive(Debug, Default)]
struct PeerSettings {
    controller: Option<Choice>,
    parameters: Option<TransmissionParameters>,
}

/// Bytes of messages that may wait to be polled before requests received are handed out, and further
/// messages of connections are taken. So an application that answers at once has one response beside
/// them in memory, however many requests have come.
const QUEUED_BYTES: usize = 64 << 10;
/// The capacity that the buffer of these bytes keeps once it is empty.
const QUEUED_BYTES_KEPT: usize = 256 << 10;

type DeliveryRule = Box<dyn Fn(&MessageView<'_>) -> Delivery + Send>;

/// Times derived from the endpoint's parameters, which are asked for with every message.
#[derive(Clone, Copy, Debug)]
struct Lifetimes {
    exchange: Duration,
    non: Duration,
}

impl Lifetimes {
    fn of(parameters: &TransmissionParameters) -> Self {
        Self {
            exchange: parameters.exchange_lifetime(),
            non: parameters.non_lifetime(),
        }
    }
}

/// A CoAP endpoint. See the [module documentation](self) for the law its driver keeps.
pub struct Endpoint {
    config: Config,
    /// The option that counts copies, if its number is one that can.
    count_option: Option<OptionNumber>,
    lifetimes: Lifetimes,
    random: Box<dyn Random + Send>,
    peers: Peers,
    settings: BTreeMap<SocketAddr, PeerSettings>,
    exchanges: Slab<Exchange>,
    index: ExchangeIndex,
    ended: VecDeque<Ended>,
    operations: Slab<Operation>,
    observations: ObservationIndex,
    /// What digests of long tokens are keyed with.
    token_keys: (u64, u64),
    token_support: TokenSupport,
    observers: Observers,
    /// When observers are told what has changed: the latest time we know.
    notified_at: Instant,
    notifications: Notifications,
    turns: Turns,
    pauses: Pauses,
    /// Echo values that came with responses, for the next request to who gave them.
    given: BTreeMap<SocketAddr, Given>,
    /// Bodies sent before this time in blocks are told apart by a Request-Tag.
    tag_until: Instant,
    /// The last Request-Tag.
    last_tag: u32,
    groups: Groups,
    group_ids: GroupIds,
    leisurely: Slab<Leisurely>,
    /// How often sources ask, if there is a limit to that.
    rates: Option<Rates>,
    sharing: Sharing,
    /// Responses in messages of their own.
    responses: usize,
    /// What sources have of the table of observers.
    observer_shares: Shares,
    aggregates: Aggregates,
    incoming: IncomingTable,
    dedup: Dedup,
    challenges: Challenges,
    validated: Validated,
    unkept: Option<Unkept>,
    assemblies: Assemblies,
    bodies: Bodies,
    connections: Connections,
    delivery: Option<DeliveryRule>,
    timers: Timers<Owner>,
    serial: u32,
    counters: Counters,
    /// Messages rejected since the second began that is named here.
    rejections: (Instant, u32),
    out: VecDeque<Queued>,
    /// Messages in `out`, and the bytes of those that were not polled.
    queued: Waiting,
    /// The bytes of the messages in `out`; emptied whenever there are none.
    out_bytes: Vec<u8>,
    spare: Vec<Vec<u8>>,
    /// Where messages are written before their length is known.
    scratch: Vec<u8>,
}

impl Endpoint {
    /// An endpoint whose tokens, Message IDs and dithering come from `random`.
    pub fn new(mut config: Config, mut random: impl Random + Send + 'static) -> Self {
        config.parameters = admissible(config.parameters);
        config.reliable = config.reliable.map(Reliable::admissible);
        let mut seed = || u64::from(random.next_u32()) << 32 | u64::from(random.next_u32());
        let limits = config.limits;
        let assembly = AssemblyLimits {
            bodies: limits.uploads,
            body_bytes: limits.upload_bytes,
            all_bytes: limits.all_upload_bytes,
            sharing: limits.sharing(),
        };
        let (peers, index) = (seed(), seed());
        let sharing = limits.sharing();
        let count_option = config.retransmission_count_option;
        let mut timers = Timers::default();
        let aggregates = Aggregates::new(&config.aggregates, config.aggregate, &mut timers);
        Self {
            peers: Peers::new(peers, limits.peers, sharing),
            settings: BTreeMap::new(),
            exchanges: Slab::new(),
            index: ExchangeIndex::new(index),
            ended: VecDeque::new(),
            operations: Slab::new(),
            // Seeds of their own would shift every later draw.
            observations: ObservationIndex::new(index.rotate_left(32)),
            token_keys: (index.rotate_left(40), peers.rotate_left(40)),
            token_support: TokenSupport::default(),
            observers: Observers::new(
                peers.rotate_left(32),
                (limits.observers, limits.observers_of_peer),
                limits.observer_bytes,
                config.unconfirmed_max,
            ),
            notified_at: Instant::ZERO,
            notifications: Notifications::default(),
            turns: Turns::new(index.rotate_left(16)),
            pauses: Pauses::new(peers.rotate_left(16), limits.pauses),
            groups: Groups::default(),
            group_ids: GroupIds::starting_at(peers as u16),
            leisurely: Slab::new(),
            rates: Rates::new(
                index.rotate_left(8),
                limits.request_rate,
                limits.request_burst,
                limits.sources,
            ),
            sharing,
            responses: 0,
            observer_shares: Shares::new(index.rotate_left(24)),
            incoming: IncomingTable::new(peers.rotate_left(24), limits.incoming, sharing),
            challenges: Challenges::default(),
            validated: Validated::new(peers.rotate_left(48), limits.validated),
            unkept: None,
            given: BTreeMap::new(),
            tag_until: Instant::ZERO,
            last_tag: 0,
            dedup: Dedup::new(seed(), limits.recent, limits.lasting, sharing.prefix),
            assemblies: Assemblies::new(seed(), assembly),
            bodies: Bodies::new(seed(), (limits.bodies, limits.body_bytes), sharing),
            connections: Connections::new(index.rotate_left(48), limits.connections, sharing),
            delivery: None,
            timers,
            aggregates,
            serial: 0,
            counters: Counters::default(),
            rejections: (Instant::ZERO, 0),
            out: VecDeque::new(),
            queued: Waiting::default(),
            out_bytes: Vec::new(),
            spare: Vec::new(),
            scratch: alloc::vec![0; MESSAGE_BYTES],
            random: Box::new(random),
            lifetimes: Lifetimes::of(&config.parameters),
            count_option: can_count_retransmissions(count_option).then_some(count_option),
            config,
        }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Decides, by the first block's options, how a request body is delivered; without a rule,
    /// whole.
    pub fn deliver_by(&mut self, rule: impl Fn(&MessageView<'_>) -> Delivery + Send + 'static) {
        self.delivery = Some(Box::new(rule));
    }

    /// Gives one peer its own controller and transmission parameters, where named; a peer that is
    /// already known keeps its controller's state until it is forgotten.
    pub fn set_peer(
        &mut self,
        peer: SocketAddr,
        controller: Option<Choice>,
        parameters: Option<TransmissionParameters>,
    ) {
        let parameters = parameters.map(admissible);
        if let Some(index) = self.peers.find(peer) {
            self.peers[index].parameters = parameters.map(Box::new);
        }
        self.settings.insert(
            peer,
            PeerSettings {
                controller,
                parameters,
            },
        );
    }

    /// Takes a datagram. An endpoint over a reliable transport ignores it.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        if self.is_reliable() {
            return;
        }
        self.notified_at = now;
        self.counters.received.add(bytes.len());
        let peer = self.peers.find(from);
        if let Some(peer) = peer {
            self.peers[peer].last_heard = now;
        }
        let message = match MessageView::parse(bytes) {
            Ok(message) => message,
            Err(error) => return self.handle_malformed(now, from, bytes, error.kind),
        };
        let (kind, code, id) = (message.kind(), message.code(), message.message_id());
        if self.config.trace == Tracing::Everything {
            let bytes = bytes.len() as u32;
            self.trace(
                now,
                from,
                What::Received {
                    id,
                    kind,
                    code,
                    bytes,
                },
            );
        }
        match kind {
            Type::Acknowledgement => return self.handle_acknowledgement(now, peer, &message),
            Type::Reset if code.is_empty() => return self.handle_reset(now, from, id),
            // A Reset with content is rejected, which is to ignore it (RFC 7252 4.2).
            Type::Reset => return,
            Type::Confirmable | Type::NonConfirmable => {}
        }
        let pace = if code.is_request() {
            self.pace(now, from)
        } else {
            Pace::Within
        };
        match self.dedup.look_up(now, from, id) {
            Known::New => {}
            // Whatever the answer was, it is not repeated as often as that.
            _ if pace != Pace::Within => {
                return self.trace(now, from, What::Duplicate { id });
            }
            Known::InProgress { acknowledged } => {
                self.counters.duplicates += 1;
                self.trace(now, from, What::Duplicate { id });
                if acknowledged {
                    self.send_empty(now, from, Type::Acknowledgement, id);
                }
                return;
            }
            Known::Answered(answer) => {
                self.counters.duplicates += 1;
                let start = self.out_bytes.len();
                self.out_bytes.extend_from_slice(answer);
                if code.is_request() {
                    self.answer_this_copy(start, &message);
                }
                // A forged one may be shorter than what it seems to be a copy of.
                let long = self.out_bytes.len() - start > AMPLIFICATION_FACTOR * bytes.len();
                if long && self.is_limited(now, from) {
                    self.counters.refused(Refusal::Amplification);
                    self.out_bytes.truncate(start);
                }
                let range = start..self.out_bytes.len();
                self.trace(now, from, What::Duplicate { id });
                if !range.is_empty() {
                    self.counters.sent.add(range.len());
                    self.queue_message(from, range);
                }
                return;
            }
        }
        if pace != Pace::Within {
            self.slow_down(now, from, &message, pace);
        } else if code.is_request() {
            self.handle_request(now, from, &message, false);
        } else if code.is_response() {
            self.handle_response(now, from, &message);
        } else if kind == Type::Confirmable && code.is_empty() {
            // A ping (RFC 7252 4.3).
            self.send_empty(now, from, Type::Reset, id);
        } else if kind == Type::Confirmable {
            // A reserved code that cannot be processed (RFC 7252 4.2).
            self.reject(now, from, id);
        }
    }

    /// Rejects a message that means nothing here with a Reset, or, beyond
    /// [`REJECTIONS_A_SECOND`], silently; RFC 7252 4.2 and 4.3 leave the choice. Without a limit a
    /// peer that answers each Reset with another such message would keep both busy without end.
    fn reject(&mut self, now: Instant, to: SocketAddr, id: MessageId) {
        let (since, count) = &mut self.rejections;
        if now.since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        if *count < REJECTIONS_A_SECOND {
            *count += 1;
            self.counters.refused(Refusal::Reset);
            self.send_empty(now, to, Type::Reset, id);
        } else {
            self.counters.refused(Refusal::ResetWithheld);
        }
    }

    /// A datagram that is no message: a CON is rejected, all else ignored (RFC 7252 4.2, 4.3).
    fn handle_malformed(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: &[u8],
        why: DecodeErrorKind,
    ) {
        self.counters.refused(Refusal::Malformed);
        self.trace(now, from, What::Malformed);
        // RFC 7252 3: an unknown version is ignored silently.
        if why == DecodeErrorKind::UnsupportedVersion {
            return;
        }
        if let Ok(header) = parse_header(bytes)
            && header.kind == Type::Confirmable
        {
            self.reject(now, from, header.message_id);
        }
    }

    /// The network reports that `peer` cannot be reached (ICMP): its exchanges end. A driver
    /// holds what ICMP quotes against [`is_under_way`](Self::is_under_way) first.
    pub fn handle_unreachable(&mut self, now: Instant, peer: SocketAddr) {
        if self.is_reliable() {
            return self.disconnected(now, peer, Disconnect::NotMade);
        }
        if let Some(peer) = self.peers.find(peer) {
            self.abandon_all(now, peer);
        }
    }

    /// Lets time pass: does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.notified_at = now;
        while let Some(owner) = self.timers.expire(now) {
            match owner {
                Owner::Exchange(index) => self.handle_exchange_timer(now, index),
                Owner::Peer(index) => self.pump(now, index),
                Owner::Operation(index) => {
                    self.fail_operation(now, index, Failure::DeadlinePassed);
                }
                Owner::Observation(index) => self.handle_observation_timer(now, index),
                Owner::Paused(index) => self.handle_pause_timer(now, index),
                Owner::Connection(index) => self.handle_connection_timer(now, index),
                Owner::Group(index) => self.close_group(now, index),
                Owner::Leisurely(index) => self.answer_group_now(now, index),
                Owner::Aggregate(number) => self.pump_aggregate(now, number),
                Owner::Assembly(index) => {
                    if let Some(timer) = self.assemblies.remove(index) {
                        self.timers.remove(timer);
                    }
                }
            }
        }
        self.acknowledge_overdue(now);
        self.check_interest(now);
        self.bodies.expire(now, self.lifetimes.exchange);
    }

    /// The next thing to do, or how long there is nothing.
    pub fn poll(&mut self) -> Output<'_> {
        if self.queued.messages == 0 {
            self.out_bytes.clear();
            self.out_bytes.shrink_to(QUEUED_BYTES_KEPT);
        }
        while self.out.is_empty() && (self.take_more_messages() || self.notify_some()) {}
        match self.next_queued() {
            Some(Queued::Transmit { to, range }) => {
                self.queued.messages -= 1;
                self.queued.bytes -= range.len();
                Output::Transmit {
                    to,
                    bytes: &self.out_bytes[range],
                }
            }
            Some(Queued::Request(id)) => Output::Event(Event::Request(id)),
            Some(Queued::Trace(trace)) => Output::Event(Event::Trace(trace)),
            Some(Queued::Connect(to)) => Output::Connect { to },
            Some(Queued::Close(to)) => Output::Close { to },
            Some(Queued::Event(event)) => Output::Event(*event),
            None => {
                let never = Instant::FAR_FUTURE;
                let bodies = self.bodies.next_expiry(self.lifetimes.exchange);
                let due = (self.timers.next().unwrap_or(never))
                    .min(self.incoming.next_acknowledgement().unwrap_or(never))
                    .min(bodies.unwrap_or(never))
                    .min(self.next_interest_check().unwrap_or(never));
                Output::Wait((due < never).then_some(due))
            }
        }
    }

    /// Takes the first of what is queued; while many bytes wait, the first that is no request.
    fn next_queued(&mut self) -> Option<Queued> {
        let is_request = |queued: &Queued| matches!(queued, Queued::Request(_));
        if self.queued.bytes > QUEUED_BYTES && self.out.front().is_some_and(is_request) {
            let other = self.out.iter().position(|queued| !is_request(queued));
            return self.out.remove(other.unwrap_or(0));
        }
        self.out.pop_front()
    }

    /// Bytes of messages that wait to be polled.
    pub fn queued_bytes(&self) -> usize {
        self.queued.bytes
    }

    fn parameters(&self, peer: PeerIndex) -> TransmissionParameters {
        self.peers[peer]
            .parameters
            .as_deref()
            .copied()
            .unwrap_or(self.config.parameters)
    }

    fn window(&self, now: Instant, peer: PeerIndex) -> Window {
        let window = self.peers[peer]
            .congestion
            .as_ref()
            .window(now, &self.parameters(peer));
        Window {
            exchanges: window.exchanges.max(1),
            bytes: window.bytes,
        }
    }

    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    fn event(&mut self, event: Event) {
        let (event, gathered) = self.groups.take_over(event);
        self.out.push_back(Queued::Event(Box::new(event)));
        if let Some(id) = gathered {
            self.out
                .push_back(Queued::Event(Box::new(Event::Gathered(id))));
        }
    }

    fn trace(&mut self, at: Instant, peer: SocketAddr, what: What) {
        if self.config.trace != Tracing::Off {
            self.out.push_back(Queued::Trace(Trace { at, peer, what }));
        }
    }

    /// Sends a message that is no exchange of ours: an acknowledgement, a piggybacked response, a
    /// reset.
    fn transmit(&mut self, now: Instant, to: SocketAddr, bytes: &[u8]) {
        if self.config.trace == Tracing::Everything
            && let Ok(header) = parse_header(bytes)
        {
            let what = What::Replied {
                id: header.message_id,
                kind: header.kind,
                code: header.code,
                bytes: bytes.len() as u32,
            };
            self.trace(now, to, what);
        }
        self.push_message(to, bytes);
    }

    /// Puts a message among those to be sent, as the transport has it.
    fn push_message(&mut self, to: SocketAddr, bytes: &[u8]) {
        let start = self.out_bytes.len();
        match &self.config.reliable {
            None => self.out_bytes.extend_from_slice(bytes),
            Some(reliable) => write_frame(reliable.framing, bytes, &mut self.out_bytes),
        }
        let range = start..self.out_bytes.len();
        self.counters.sent.add(bytes.len());
        if self.is_reliable() {
            self.count_unread(to, range.len());
        }
        self.queue_message(to, range);
    }

    /// Queues the message that is in this range of `out_bytes`.
    fn queue_message(&mut self, to: SocketAddr, range: Range<usize>) {
        self.queued.add(range.len());
        self.out.push_back(Queued::Transmit { to, range });
    }

    /// Sends an empty ACK or RST.
    fn send_empty(&mut self, now: Instant, to: SocketAddr, kind: Type, id: MessageId) {
        self.transmit(now, to, &empty(kind, id));
    }
}

/// An empty message (RFC 7252 4.1).
fn empty(kind: Type, id: MessageId) -> [u8; 4] {
    let [high, low] = id.0.to_be_bytes();
    [0x40 | (kind as u8) << 4, Code::EMPTY.0, high, low]
}
