//! Hosts: protocol endpoints of the stack itself, with an application each.
//!
//! A host obeys the endpoint's law: after every input it is drained until it waits, and what it
//! sends is offered to the link. Nothing here knows about retransmission or congestion control.

use std::net::{Ipv6Addr, SocketAddr};

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{BASE_TOKEN_LENGTH, BlockSize, Code};
use carob_proto::endpoint::{Config, Endpoint, Reliable, Tracing};
use carob_proto::message::Payload;
use carob_proto::{Request, Response};

use crate::alarm::Alarm;
use crate::groups::Kind;
use crate::random::Stream;
use crate::spec::{CLIENTS_MAX, FlowRecord, Requests, RunSpec, Transport};

/// The item of a packet that belongs to no exchange of the client: an ACK or RST of its own.
pub const NO_ITEM: u32 = u32::MAX;

/// What a packet is about, for the trace: the simulator knows which copy causes which answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) item: u32,
    pub(crate) attempt: u8,
}

impl Tag {
    pub(crate) const NONE: Self = Self {
        item: NO_ITEM,
        attempt: 0,
    };
}

/// An exchange of a client that is not over.
#[derive(Clone, Debug, Default)]
struct Open {
    message_id: u16,
    item: u32,
    copies: Vec<Copy>,
    /// An answer is on its way that will arrive.
    is_answered: bool,
    /// The copy whose answer arrived first.
    answered_copy: Option<u8>,
}

/// A copy of a request.
#[derive(Clone, Copy, Debug)]
struct Copy {
    sent: Instant,
    /// Bytes that used the link; 0 if it was dropped before.
    carried: u32,
}

/// An exchange of a client that is over.
pub(crate) struct Closed {
    pub(crate) item: u32,
    /// Copies sent for nothing.
    pub(crate) spurious: u8,
    /// What they took of the link, in bytes.
    pub(crate) useless: u64,
}

/// A client and its flow.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) flow: FlowRecord,
    pub(crate) done: bool,
    /// The controller's RTO when it was last heard of.
    pub(crate) last_rto: Option<Duration>,
    /// When something new of the response last came.
    pub(crate) progress: Instant,
    /// How often it started anew.
    pub(crate) restarts: u32,
    /// It asks as soon as it is connected, since it has started anew.
    pub(crate) is_starting: bool,
    /// A batch is over, and the next begins after this time.
    pub(crate) restart: Option<Duration>,
    request: Request,
    requests_left: u32,
    /// Requests that are under way.
    pub(crate) asked: u32,
    /// Of those left, how many belong to this batch.
    batch_left: u32,
    batches: Stream,
    open: Vec<Open>,
    /// Lists of copies to be used again.
    spare: Vec<Vec<Copy>>,
    items: u32,
    /// First timers of its exchanges.
    timers: Vec<Duration>,
}

/// What a client does next.
pub(crate) enum Next {
    /// It makes this request.
    Ask(Request),
    /// It starts anew, and then goes on.
    Restart,
    /// Nothing before another of its requests is over.
    Wait,
    /// It is done.
    End,
}

impl Client {
    /// Something new of the response has come.
    pub(crate) fn progresses(&mut self, now: Instant) {
        self.flow.stall = self.flow.stall.max(now.since(self.progress));
        self.progress = now;
    }

    /// The tag of a message the client sends, by its type and Message ID.
    pub(crate) fn tag(&mut self, now: Instant, message: &[u8]) -> Tag {
        let &[first, _, high, low, ..] = message else {
            return Tag::NONE;
        };
        if first >> 4 & 3 > 1 {
            return Tag::NONE; // an ACK or RST carries the server's ID
        }
        let message_id = u16::from_be_bytes([high, low]);
        let copy = Copy {
            sent: now,
            carried: 0,
        };
        let is_it = |open: &&mut Open| open.message_id == message_id;
        if let Some(open) = self.open.iter_mut().find(is_it) {
            let attempt = open.copies.len().min(usize::from(u8::MAX)) as u8;
            open.copies.push(copy);
            return Tag {
                item: open.item,
                attempt,
            };
        }
        let item = self.items;
        self.items += 1;
        let mut copies = self.spare.pop().unwrap_or_default();
        copies.clear();
        copies.push(copy);
        self.open.push(Open {
            message_id,
            item,
            copies,
            ..Open::default()
        });
        Tag { item, attempt: 0 }
    }

    fn open(&mut self, item: u32) -> Option<&mut Open> {
        self.open.iter_mut().find(|open| open.item == item)
    }

    /// A copy uses the link.
    pub(crate) fn carries(&mut self, tag: Tag, bytes: u32) {
        let copy = self.open(tag.item);
        if let Some(copy) = copy.and_then(|open| open.copies.get_mut(usize::from(tag.attempt))) {
            copy.carried = bytes;
        }
    }

    /// An answer uses the link towards it, and `arrives` there or is lost. Whether nobody needs
    /// it: another one arrives before.
    pub(crate) fn is_useless(&mut self, tag: Tag, arrives: bool) -> bool {
        let Some(open) = self.open(tag.item) else {
            return tag.item != NO_ITEM;
        };
        let another = open.is_answered;
        open.is_answered |= arrives;
        another
    }

    /// The item of the exchange with this Message ID.
    pub(crate) fn item(&self, message_id: u16) -> u32 {
        self.open
            .iter()
            .find(|open| open.message_id == message_id)
            .map_or(NO_ITEM, |o| o.item)
    }

    /// An answer caused by copy `tag.attempt` has arrived.
    pub(crate) fn answer_arrived(&mut self, now: Instant, tag: Tag, bytes: usize) {
        let Some(open) = self.open(tag.item) else {
            return;
        };
        if open.answered_copy.is_some() {
            return;
        }
        open.answered_copy = Some(tag.attempt);
        let copy = open.copies.get(usize::from(tag.attempt)).copied();
        self.flow.received_bytes += bytes as u64;
        if let Some(copy) = copy {
            let took = now.since(copy.sent);
            self.flow.round_trips.count += 1;
            self.flow.round_trips.sum += took;
        }
    }

    /// An exchange begins with this timer.
    pub(crate) fn timer(&mut self, timeout: Duration) {
        self.timers.push(timeout);
    }

    /// An exchange is over.
    ///
    /// On a link that never reorders, the first answer to arrive is the answer to the first copy
    /// that was not lost, either way. Every copy sent after that one was spurious.
    pub(crate) fn close(&mut self, message_id: u16) -> Option<Closed> {
        let at = self
            .open
            .iter()
            .position(|open| open.message_id == message_id)?;
        let Open {
            item,
            copies,
            answered_copy,
            ..
        } = self.open.swap_remove(at);
        let first = answered_copy.map_or(copies.len(), |copy| usize::from(copy) + 1);
        let spurious = copies.get(first..).unwrap_or_default();
        let closed = Closed {
            item,
            spurious: spurious.len().min(usize::from(u8::MAX)) as u8,
            useless: spurious.iter().map(|copy| u64::from(copy.carried)).sum(),
        };
        self.spare.push(copies);
        Some(closed)
    }

    /// Its record, when the run is over.
    fn into_flow(mut self) -> FlowRecord {
        let middle = self.timers.len() / 2;
        if let Some(last) = self.timers.len().checked_sub(1) {
            let (below, upper, _) = self.timers.select_nth_unstable(middle);
            let upper = *upper;
            let lower = if last % 2 == 1 {
                below.iter().max().copied().unwrap_or(upper)
            } else {
                upper
            };
            let median = u64::midpoint(lower.as_micros(), upper.as_micros());
            self.flow.rto_median = Some(Duration::from_micros(median));
        }
        self.flow
    }

    /// What comes next, when it begins or a request was answered.
    pub(crate) fn next(&mut self, requests: &Requests) -> Next {
        let waits = self.asked > 0;
        if self.requests_left == 0 {
            return if waits { Next::Wait } else { Next::End };
        }
        if self.batch_left == 0 {
            if waits {
                return Next::Wait;
            }
            let pause = requests.batches.map(|b| b.pause).unwrap_or_default();
            self.restart = Some(self.batches.uniform(pause.low, pause.high));
            self.begin_batch(requests);
            return Next::Restart;
        }
        self.requests_left -= 1;
        self.batch_left -= 1;
        self.asked += 1;
        Next::Ask(self.request.clone())
    }

    fn begin_batch(&mut self, requests: &Requests) {
        self.batch_left = match requests.batches {
            Some(batches) => {
                // Draws are of times: a microsecond stands for a request.
                let [least, most] =
                    [batches.least.max(1), batches.most].map(|n| Duration::from_micros(n.into()));
                self.batches.uniform(least, most.max(least)).as_micros() as u32
            }
            None => self.requests_left,
        };
    }
}

/// What a host's application does.
#[derive(Debug)]
pub(crate) enum Application {
    /// Asks and times the answers.
    Client(Box<Client>),
    /// Answers every request with the same body.
    Server {
        /// The response, made once.
        response: Response,
    },
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) group: u32,
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    pub(crate) application: Application,
    pub(crate) alarm: Alarm,
}

/// The number of the host at `address`.
pub(crate) fn number_of(address: SocketAddr) -> u32 {
    let SocketAddr::V6(address) = address else {
        return u32::MAX;
    };
    let [.., a, b] = address.ip().segments();
    u32::from(a) << 16 | u32::from(b)
}

/// How often the client at `address` has started anew.
pub(crate) fn restarts_of(address: SocketAddr) -> u32 {
    address.port().wrapping_sub(PORT).into()
}

/// The address of host `number`; one that has started anew speaks from another port.
pub(crate) fn address(number: u32, restarts: u32) -> SocketAddr {
    let [a, b] = [(number >> 16) as u16, number as u16];
    let port = PORT.wrapping_add(restarts as u16);
    SocketAddr::from((Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, a, b), port))
}

/// CoAP's port (RFC 7252 12.8, RFC 8323 11.4).
pub(crate) const PORT: u16 = 5_683;

/// The largest message over a connection, in bytes; larger bodies go in blocks (RFC 8323 6).
const MESSAGE_MAX: u32 = 32 << 20;

/// Connections on which nothing is left to chance but the network: both ends wait for each other
/// as long as the run lasts, and what a body needs fits into one message.
fn reliable(spec: &RunSpec, requests: &Requests) -> Reliable {
    let mut reliable = Reliable::default();
    let body = requests.response_bytes.max(requests.request_bytes);
    let message = body.saturating_add(1_152).min(MESSAGE_MAX);
    reliable.max_message_size = reliable.max_message_size.max(message);
    reliable.largest_message = reliable.largest_message.max(message);
    reliable.csm_wait = spec.time_limit;
    reliable.response_timeout = spec.time_limit;
    reliable.probe_after = None;
    reliable.idle = None;
    reliable
}

fn config(spec: &RunSpec, kind: &Kind<'_>) -> Config {
    let requests = kind.workload.requests();
    let mut config = Config::default();
    // Studies let timers run as long as they will.
    config.late_copies = true;
    config.controller = kind.controller.choice();
    config.parameters = *kind.transmission;
    config.block_size =
        BlockSize::from_bytes_at_most(usize::from(requests.block_bytes)).unwrap_or(BlockSize::MAX);
    config.token_length = requests.token_bytes.into();
    // The studies' stacks knew no longer tokens, and a CSM that tells of them is longer.
    config.limits.token_bytes = BASE_TOKEN_LENGTH;
    if let Transport::Connections(_) = kind.transport {
        config.reliable = Some(reliable(spec, requests));
    }
    config.trace = match spec.record.log {
        0 => Tracing::Exchanges,
        _ => Tracing::Everything,
    };
    config
}

impl Host {
    /// Client number `number` of a run.
    pub(crate) fn client(spec: &RunSpec, kind: &Kind<'_>, number: u32) -> Self {
        let requests = kind.workload.requests();
        let mut client = Client {
            flow: FlowRecord::default(),
            done: false,
            last_rto: None,
            progress: Instant::ZERO,
            restarts: 0,
            is_starting: false,
            restart: None,
            request: request(requests),
            requests_left: requests.count,
            asked: 0,
            batch_left: 0,
            batches: Stream::indexed(spec.seed, "client/batch", number),
            open: Vec::new(),
            spare: Vec::new(),
            items: 0,
            timers: Vec::new(),
        };
        client.begin_batch(requests);
        Self {
            group: kind.number,
            endpoint: client_endpoint(spec, kind, number, 0),
            address: address(number, 0),
            application: Application::Client(Box::new(client)),
            alarm: Alarm::default(),
        }
    }

    /// A client starts anew: it has forgotten everything but what is left to do.
    pub(crate) fn restart(&mut self, spec: &RunSpec, kind: &Kind<'_>, number: u32) {
        let Some(client) = self.as_client() else {
            return;
        };
        client.restarts += 1;
        client.asked = 0;
        client.last_rto = None;
        client.open.clear();
        let restarts = client.restarts;
        self.address = address(number, restarts);
        self.endpoint = client_endpoint(spec, kind, number, restarts);
        self.alarm = Alarm::default();
    }

    /// The server of a group, which is host `number`.
    pub(crate) fn server(spec: &RunSpec, kind: &Kind<'_>, number: u32) -> Self {
        let requests = kind.workload.requests();
        let mut response = Response::new(match requests.request_bytes {
            0 => Code::CONTENT,
            _ => Code::CHANGED,
        });
        response.payload = Payload::Fixed(body(requests.response_bytes));
        let mut config = config(spec, kind);
        if spec.record.log == 0 {
            config.trace = Tracing::Off;
        }
        let stream = match kind.number {
            0 => Stream::new(spec.seed, "server/endpoint"),
            other => Stream::indexed(spec.seed, "server/endpoint", other),
        };
        Self {
            group: kind.number,
            endpoint: Endpoint::new(config, stream),
            address: address(number, 0),
            application: Application::Server { response },
            alarm: Alarm::default(),
        }
    }

    /// Whether its batch is over, so that it starts anew.
    pub(crate) fn is_restarting(&self) -> bool {
        match &self.application {
            Application::Client(client) => client.restart.is_some(),
            Application::Server { .. } => false,
        }
    }

    /// The client's state, if it is one.
    pub(crate) fn as_client(&mut self) -> Option<&mut Client> {
        match &mut self.application {
            Application::Client(client) => Some(client),
            Application::Server { .. } => None,
        }
    }

    /// The record of this client's flow, if it is a client.
    pub(crate) fn into_flow(self) -> Option<FlowRecord> {
        match self.application {
            Application::Client(client) => Some(client.into_flow()),
            Application::Server { .. } => None,
        }
    }
}

fn client_endpoint(spec: &RunSpec, kind: &Kind<'_>, number: u32, restarts: u32) -> Endpoint {
    let index = restarts.wrapping_mul(CLIENTS_MAX).wrapping_add(number);
    let stream = Stream::indexed(spec.seed, "client/endpoint", index);
    Endpoint::new(config(spec, kind), stream)
}

/// A body of so many bytes.
fn body(bytes: u32) -> Bytes {
    (0..bytes).map(|i| i as u8).collect()
}

/// The request that every client of a group makes again and again.
fn request(requests: &Requests) -> Request {
    let request = match requests.request_bytes {
        0 => Request::get(),
        bytes => Request::new(Code::POST).with_payload(body(bytes)),
    };
    // A segment that is too long to be a Uri-Path is left out.
    request.clone().with_path(&requests.path).unwrap_or(request)
}
