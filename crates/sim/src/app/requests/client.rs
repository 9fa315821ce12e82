//! A client's exchanges and its remaining requests, and the endpoints of clients and servers.

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::Request;
use carob_proto::codec::{BASE_TOKEN_LENGTH, BlockSize, Code};
use carob_proto::endpoint::{Config, Endpoint, RequestId, StreamConfig, Tracing};

use crate::engine::{Flow, Tag};
use crate::random::Stream;
use crate::spec::groups::Group;
use crate::spec::{CLIENTS_MAX, FlowRecord, Periodic, Requests, RunSpec, Transport};
use crate::trace::NO_ITEM;

/// An outstanding exchange of a client.
#[derive(Clone, Debug, Default)]
struct Open {
    message_id: u16,
    item: u32,
    copies: Vec<Copy>,
    /// True if a response is in flight that will arrive.
    is_answered: bool,
    /// The transmission whose response arrived first.
    answered_copy: Option<u8>,
}

/// A transmission of a request.
#[derive(Clone, Copy, Debug)]
struct Copy {
    sent: Instant,
    /// Bytes that used the link; 0 if it was dropped before.
    carried: u32,
}

/// A completed exchange of a client.
pub(crate) struct Closed {
    pub(crate) item: u32,
    /// Spurious retransmissions.
    pub(crate) spurious: u8,
    /// Bytes that they used of the link.
    pub(crate) useless: u64,
}

/// A client and its flow.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) flow: Flow,
    /// The controller's last reported RTO.
    pub(crate) last_rto: Option<Duration>,
    /// Restarts so far.
    restarts: u32,
    /// True once its flow has begun.
    pub(crate) has_begun: bool,
    /// True if it sends its next request once it is connected after a restart.
    pub(crate) is_starting: bool,
    /// The pause until the next batch, after a batch is complete.
    pub(crate) pause: Option<Duration>,
    request: Request,
    requests_left: u32,
    /// Outstanding requests.
    pub(crate) outstanding: u32,
    /// Their identifiers and times.
    made: Vec<(RequestId, Instant)>,
    /// Remaining requests of this batch.
    batch_left: u32,
    batches: Stream,
    /// Periodic requests that are due and not sent yet.
    due: u32,
    /// The nominal time of its last periodic requests.
    nominal: Instant,
    periods: Stream,
    open: Vec<Open>,
    /// Lists of transmissions for reuse.
    spare: Vec<Vec<Copy>>,
    items: u32,
    /// Initial timeouts of its exchanges.
    timers: Vec<Duration>,
}

/// A client's next action.
pub(crate) enum Next {
    /// Sends this request.
    Send(Request),
    /// Restarts, and then continues.
    Restart,
    /// Waits until another of its requests is complete.
    Wait,
    /// Ends its flow.
    End,
}

impl Client {
    /// Client number `number` of a run.
    pub(crate) fn new(seed: u64, requests: &Requests, number: u32) -> Self {
        let mut client = Self {
            flow: Flow::default(),
            last_rto: None,
            restarts: 0,
            has_begun: false,
            is_starting: false,
            pause: None,
            request: request(requests),
            requests_left: requests.count,
            outstanding: 0,
            made: Vec::new(),
            batch_left: 0,
            batches: Stream::indexed(seed, "client/batch", number),
            due: 0,
            nominal: Instant::ZERO,
            periods: Stream::indexed(seed, "client/period", number),
            open: Vec::new(),
            spare: Vec::new(),
            items: 0,
            timers: Vec::new(),
        };
        client.begin_batch(requests);
        client
    }

    /// Drops all state except the remaining workload. Returns the number of restarts.
    pub(crate) fn restart(&mut self) -> u32 {
        self.restarts += 1;
        self.outstanding = 0;
        self.made.clear();
        self.last_rto = None;
        self.open.clear();
        self.restarts
    }

    /// Records the time of a request.
    pub(crate) fn made(&mut self, id: RequestId, now: Instant) {
        self.made.push((id, now));
    }

    /// Takes the time of a request that is complete.
    pub(crate) fn take_made(&mut self, id: RequestId) -> Option<Instant> {
        let at = self.made.iter().position(|(made, _)| *made == id)?;
        Some(self.made.swap_remove(at).1)
    }

    /// Makes periodic requests due, and returns the time of the next ones; none after the last.
    pub(crate) fn period_begins(&mut self, now: Instant, periodic: &Periodic) -> Option<Instant> {
        if self.nominal == Instant::ZERO {
            self.nominal = now;
        }
        let is_burst = self.periods.happens(periodic.burst_probability);
        self.due += if is_burst { periodic.burst.max(1) } else { 1 };
        // Jitter is added to the nominal time, so that it does not accumulate.
        self.nominal += periodic.period;
        let jitter = self.periods.uniform(Duration::ZERO, periodic.jitter);
        // Due requests are among the remaining ones until they are sent.
        (self.due < self.requests_left).then_some(self.nominal + jitter)
    }

    /// Returns whether its flow has begun and has not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.has_begun && !self.flow.done
    }

    /// Makes its outstanding requests remaining ones, which it sends again.
    pub(crate) fn requeue_outstanding(&mut self) {
        self.requests_left += self.outstanding;
        self.batch_left += self.outstanding;
        self.due += self.outstanding;
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
        // A retransmission has the Message ID of the original (RFC 7252 4.5).
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

    /// Counts the link usage of a transmission.
    pub(crate) fn carries(&mut self, tag: Tag, bytes: u32) {
        let copy = self.open(tag.item);
        if let Some(copy) = copy.and_then(|open| open.copies.get_mut(usize::from(tag.attempt))) {
            copy.carried = bytes;
        }
    }

    /// Counts a response on the link towards the client, which `arrives` or is lost. Returns
    /// whether it is redundant, because another one arrives before.
    pub(crate) fn is_useless(&mut self, tag: Tag, arrives: bool) -> bool {
        let Some(open) = self.open(tag.item) else {
            // Its exchange is complete; messages outside exchanges are not redundant.
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

    /// Records the arrival of a response caused by transmission `tag.attempt`.
    pub(crate) fn answer_arrived(&mut self, now: Instant, tag: Tag, bytes: usize) {
        let Some(open) = self.open(tag.item) else {
            return;
        };
        if open.answered_copy.is_some() {
            return;
        }
        open.answered_copy = Some(tag.attempt);
        let copy = open.copies.get(usize::from(tag.attempt)).copied();
        self.flow.record.received_bytes += bytes as u64;
        // From the transmission that was answered, which a client cannot know after a
        // retransmission (Karn's algorithm, RFC 6298 3); the tag has it.
        if let Some(copy) = copy {
            let took = now.since(copy.sent);
            self.flow.record.round_trips.count += 1;
            self.flow.record.round_trips.sum += took;
        }
    }

    /// Records the initial timeout of an exchange.
    pub(crate) fn timer(&mut self, timeout: Duration) {
        self.timers.push(timeout);
    }

    /// Completes an exchange.
    ///
    /// On a link without reordering, the first response to arrive belongs to the first transmission
    /// that was not lost in either direction. Every later transmission was spurious.
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
        // Without a response, each retransmission was needed.
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

    /// Its record at the end of the run.
    pub(crate) fn into_flow(mut self) -> FlowRecord {
        let middle = self.timers.len() / 2;
        if let Some(last) = self.timers.len().checked_sub(1) {
            let (below, upper, _) = self.timers.select_nth_unstable(middle);
            let upper = *upper;
            // Of an even number, the median is the mean of the middle two.
            let lower = if last % 2 == 1 {
                below.iter().max().copied().unwrap_or(upper)
            } else {
                upper
            };
            let median = u64::midpoint(lower.as_micros(), upper.as_micros());
            self.flow.record.rto_median = Some(Duration::from_micros(median));
        }
        self.flow.record
    }

    /// The next action at the beginning, or after a response.
    pub(crate) fn next(&mut self, requests: &Requests) -> Next {
        let waits = self.outstanding > 0;
        if self.requests_left == 0 {
            return if waits { Next::Wait } else { Next::End };
        }
        if self.batch_left == 0 {
            if waits {
                return Next::Wait;
            }
            let pause = requests.batches.map(|b| b.pause).unwrap_or_default();
            self.pause = Some(self.batches.uniform(pause.low, pause.high));
            self.begin_batch(requests);
            return Next::Restart;
        }
        if requests.periodic.is_some() {
            if self.due == 0 {
                return Next::Wait;
            }
            self.due -= 1;
        }
        self.requests_left -= 1;
        self.batch_left -= 1;
        self.outstanding += 1;
        Next::Send(self.request.clone())
    }

    fn begin_batch(&mut self, requests: &Requests) {
        self.batch_left = match requests.batches {
            Some(batches) => {
                // Draws are times: a microsecond is a request.
                let [least, most] =
                    [batches.least.max(1), batches.most].map(|n| Duration::from_micros(n.into()));
                self.batches.uniform(least, most.max(least)).as_micros() as u32
            }
            None => self.requests_left,
        };
    }
}

/// The largest message over a connection, in bytes; larger bodies go in blocks (RFC 8323 6).
const MESSAGE_MAX: u32 = 32 << 20;

/// Stream settings without timeouts or limits that could end a run: both ends wait as long as the
/// run lasts, and a body fits into one message.
fn reliable(spec: &RunSpec, requests: &Requests) -> StreamConfig {
    let mut reliable = StreamConfig::default();
    let body = requests.response_bytes.max(requests.request_bytes);
    // The base value of Max-Message-Size, 1152 bytes (RFC 8323 5.3.1), is room for header and options.
    let message = body.saturating_add(1_152).min(MESSAGE_MAX);
    reliable.max_message_size = reliable.max_message_size.max(message);
    reliable.largest_message = reliable.largest_message.max(message);
    reliable.csm_wait = spec.time_limit;
    reliable.response_timeout = spec.time_limit;
    reliable.probe_after = None;
    reliable.idle = None;
    reliable
}

fn config(spec: &RunSpec, group: &Group<'_>) -> Config {
    let requests = group.spec.workload.requests();
    let mut config = Config::default();
    // Studies let timers grow without limit.
    config.late_copies = true;
    config.controller = group.spec.controller.choice();
    config.parameters = group.spec.transmission;
    config.block_size =
        BlockSize::from_bytes_at_most(usize::from(requests.block_bytes)).unwrap_or(BlockSize::MAX);
    config.token_length = requests.token_bytes.into();
    // The studies' stacks have no longer tokens, and a CSM that announces them is longer.
    config.limits.token_bytes = BASE_TOKEN_LENGTH;
    if let Transport::Connections(_) = group.spec.transport {
        config.reliable = Some(reliable(spec, requests));
    }
    config.trace = match spec.record.log {
        0 => Tracing::Exchanges,
        _ => Tracing::Everything,
    };
    config
}

/// The endpoint of a group's server after `restarts`.
pub(crate) fn server_endpoint(spec: &RunSpec, group: &Group<'_>, restarts: u32) -> Endpoint {
    let mut config = config(spec, group);
    if spec.record.log == 0 {
        config.trace = Tracing::Off;
    }
    let stream = match (group.number, restarts) {
        (0, 0) => Stream::new(spec.seed, "server/endpoint"),
        (other, 0) => Stream::indexed(spec.seed, "server/endpoint", other),
        (group, restarts) => {
            let index = restarts.wrapping_mul(CLIENTS_MAX).wrapping_add(group);
            Stream::indexed(spec.seed, "fault/server_restart", index)
        }
    };
    Endpoint::new(config, stream)
}

/// The endpoint of client `number` after `restarts`.
pub(crate) fn client_endpoint(
    spec: &RunSpec,
    group: &Group<'_>,
    number: u32,
    restarts: u32,
) -> Endpoint {
    // Distinct for each client and restart, because `number` is below CLIENTS_MAX.
    let index = restarts.wrapping_mul(CLIENTS_MAX).wrapping_add(number);
    let stream = Stream::indexed(spec.seed, "client/endpoint", index);
    Endpoint::new(config(spec, group), stream)
}

/// A body of this many bytes.
pub(crate) fn body(bytes: u32) -> Bytes {
    (0..bytes).map(|i| i as u8).collect()
}

/// The request that every client of a group sends repeatedly.
fn request(requests: &Requests) -> Request {
    let request = match requests.request_bytes {
        0 => Request::get(),
        bytes => Request::new(Code::POST).with_payload(body(bytes)),
    };
    // A segment that is too long to be a Uri-Path is left out.
    request.clone().with_path(&requests.path).unwrap_or(request)
}
