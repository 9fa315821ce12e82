//! One run: clients and a server at the two ends of a constrained link.
//!
//! Events are packets arriving and hosts waking. A packet's fate is known when it is offered to
//! the link, so each costs one event. Hosts wake no earlier than they must: a wake-up that comes
//! before anything is due only asks again, which keeps cancelled timers out of the queue.

use std::fmt;

use carob_cc::time::Instant;
use carob_proto::endpoint::{Event, Output, RequestError, Sending};
use carob_proto::trace::What as Protocol;

use crate::fragments::{MTU_MIN, fragments};
use crate::host::{Application, Host, Tag, number_of};
use crate::link::{Link, Verdict};
use crate::queue::EventQueue;
use crate::random::Stream;
use crate::spec::{CLIENTS_MAX, LinkRecord, Recording, RunRecord, RunSpec, Sample};
use crate::trace::{Trace, What};

/// Why a run could not be made. All of these are faults of its specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// No clients, or more than [`CLIENTS_MAX`].
    Clients(u32),
    /// An MTU, in bytes, smaller than that of any link.
    Mtu(u32),
    /// A client could not send its request.
    Request(RequestError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(n) => write!(f, "{n} clients; a run has 1 to {CLIENTS_MAX}"),
            Self::Mtu(mtu) => {
                write!(f, "an MTU of {mtu} bytes; a link's is at least {MTU_MIN}")
            }
            Self::Request(error) => write!(f, "a client cannot send its request: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// A packet reaches a host.
    Arrival { to: u32, packet: u32 },
    /// A host's time has come.
    Wake { host: u32 },
    /// A client begins.
    Start { client: u32 },
}

#[derive(Debug, Default)]
struct Packet {
    from: u32,
    tag: Option<Tag>,
    bytes: Vec<u8>,
}

struct World<'a> {
    spec: &'a RunSpec,
    now: Instant,
    queue: EventQueue<Happening>,
    hosts: Vec<Host>,
    link: Link,
    packets: Vec<Packet>,
    free: Vec<u32>,
    trace: Trace,
    log: Vec<(u32, carob_proto::trace::Trace)>,
    running: u32,
    error: Option<RunError>,
}

/// Makes a run.
pub fn run(spec: &RunSpec) -> Result<RunRecord, RunError> {
    if spec.clients == 0 || spec.clients > CLIENTS_MAX {
        return Err(RunError::Clients(spec.clients));
    }
    if spec.mtu_bytes < MTU_MIN {
        return Err(RunError::Mtu(spec.mtu_bytes));
    }
    let mut world = World::new(spec);
    let mut handled = 0;
    let end = Instant::ZERO + spec.time_limit;
    while world.running > 0
        && let Some((now, happening)) = world.queue.pop_until(end)
    {
        world.now = now;
        world.handle(happening);
        handled += 1;
        if let Some(error) = world.error {
            return Err(error);
        }
    }
    if world.running > 0 {
        world.now = end;
    }
    Ok(world.record(handled))
}

impl<'a> World<'a> {
    fn new(spec: &'a RunSpec) -> Self {
        let mut hosts: Vec<_> = (0..spec.clients).map(|n| Host::client(spec, n)).collect();
        hosts.push(Host::server(spec, spec.clients));
        let mut queue = EventQueue::default();
        for client in 0..spec.clients {
            let mut stream = Stream::indexed(spec.seed, "client/start", client);
            let at = Instant::ZERO + stream.uniform(spec.start.low, spec.start.high);
            queue.push(at, Happening::Start { client });
        }
        Self {
            spec,
            now: Instant::ZERO,
            queue,
            hosts,
            link: Link::new(&spec.link, spec.seed, "link"),
            packets: Vec::new(),
            free: Vec::new(),
            trace: match spec.record.events {
                0 => Trace::hashing(),
                limit => Trace::recording(limit),
            },
            log: Vec::new(),
            running: spec.clients,
            error: None,
        }
    }

    fn server(&self) -> u32 {
        self.spec.clients
    }

    fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Start { client } => {
                self.trace.add(self.now, client, What::Began);
                if let Some(state) = self.hosts[client as usize].as_client() {
                    state.flow.started = self.now;
                }
                self.ask(client);
                self.drain(client, Tag::NONE);
            }
            Happening::Wake { host } => {
                let state = &mut self.hosts[host as usize];
                if state.wake != Some(self.now) {
                    return; // an earlier wake-up took its place
                }
                state.wake = None;
                // Most timers were cancelled or moved since: ask before disturbing the host.
                if matches!(state.endpoint.poll(), Output::Wait(Some(at)) if at <= self.now) {
                    state.endpoint.handle_timeout(self.now);
                }
                self.drain(host, Tag::NONE);
            }
            Happening::Arrival { to, packet } => {
                let Packet { from, tag, bytes } =
                    std::mem::take(&mut self.packets[packet as usize]);
                let tag = tag.unwrap_or(Tag::NONE);
                let Tag { item, attempt } = tag;
                self.trace
                    .add(self.now, to, What::Arrived { item, attempt });
                let from = self.hosts[from as usize].address;
                let host = &mut self.hosts[to as usize];
                if let Some(client) = host.as_client() {
                    client.answer_arrived(tag);
                }
                host.endpoint.handle_datagram(self.now, from, &bytes);
                self.packets[packet as usize].bytes = bytes;
                self.free.push(packet);
                self.drain(to, tag);
            }
        }
    }

    /// Hands a client's next request to its endpoint, or ends its flow.
    fn ask(&mut self, number: u32) {
        let server = self.hosts[self.server() as usize].address;
        let host = &mut self.hosts[number as usize];
        match host.next_request(self.spec) {
            Some(request) => {
                let asked = host
                    .endpoint
                    .request(self.now, server, request, Sending::default());
                if let Err(error) = asked {
                    self.error = Some(RunError::Request(error));
                }
            }
            None => self.end_flow(number, true),
        }
    }

    fn end_flow(&mut self, number: u32, complete: bool) {
        let Some(client) = self.hosts[number as usize].as_client() else {
            return;
        };
        if !std::mem::replace(&mut client.done, true) {
            client.flow.finished = complete.then_some(self.now);
            self.running -= 1;
            self.trace.add(self.now, number, What::Ended { complete });
        }
    }

    /// Does everything a host has to do, until it waits. What it sends was caused by `cause`.
    fn drain(&mut self, number: u32, cause: Tag) {
        loop {
            let host = &mut self.hosts[number as usize];
            match host.endpoint.poll() {
                Output::Transmit { to, bytes } => {
                    let to = number_of(to);
                    let tag = match &mut host.application {
                        Application::Client(client) => client.tag(bytes),
                        Application::Server { .. } => cause,
                    };
                    let index = self.free.pop().unwrap_or_else(|| {
                        self.packets.push(Packet::default());
                        self.packets.len() as u32 - 1
                    });
                    let packet = &mut self.packets[index as usize];
                    packet.from = number;
                    packet.tag = Some(tag);
                    packet.bytes.clear();
                    packet.bytes.extend_from_slice(bytes);
                    self.offer(number, to, index, tag);
                }
                Output::Event(event) => self.react(number, event),
                Output::Wait(at) => {
                    if let Some(at) = at
                        && host.wake.is_none_or(|wake| wake > at)
                    {
                        host.wake = Some(at);
                        self.queue.push(at, Happening::Wake { host: number });
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    /// Offers a packet to the link.
    fn offer(&mut self, from: u32, to: u32, index: u32, tag: Tag) {
        let bytes = self.packets[index as usize].bytes.len() as u32 + self.spec.header_bytes;
        let Tag { item, attempt } = tag;
        self.trace.add(
            self.now,
            from,
            What::Sent {
                item,
                attempt,
                bytes,
            },
        );
        let down = from == self.server();
        let direction = if down {
            &mut self.link.down
        } else {
            &mut self.link.up
        };
        let (mut arrives, mut missing) = (self.now, None);
        for fragment in fragments(bytes, self.spec.mtu_bytes) {
            match direction.offer(self.now, fragment) {
                Verdict::Deliver { at, .. } => arrives = arrives.max(at),
                Verdict::DropFull => missing = Some(What::DropFull { item, attempt }),
                Verdict::Lost { .. } => missing = Some(What::Lost { item, attempt }),
            }
        }
        if let Some(what) = missing {
            self.trace.add(self.now, from, what);
            self.free.push(index);
        } else {
            let arrival = Happening::Arrival { to, packet: index };
            self.queue.push(arrives, arrival);
        }
    }

    /// Takes an event of a host's endpoint.
    fn react(&mut self, number: u32, event: Event) {
        match event {
            Event::Request(id) => {
                let Host {
                    endpoint,
                    application,
                    ..
                } = &mut self.hosts[number as usize];
                if let Application::Server { response } = application {
                    endpoint.respond(self.now, id, response);
                }
            }
            Event::Response { response, .. } => {
                if let Some(client) = self.hosts[number as usize].as_client() {
                    client.flow.body_bytes += response.bytes().len() as u64;
                }
                if response.code.is_success() {
                    self.ask(number);
                } else {
                    self.end_flow(number, false);
                }
            }
            Event::Failed { .. } => self.end_flow(number, false),
            Event::Trace(trace) => {
                if (self.log.len() as u32) < self.spec.record.log.min(Recording::LOG_MAX) {
                    self.log.push((number, trace));
                }
                self.note(number, trace.what);
            }
            _ => {}
        }
    }

    /// Counts a protocol event of a client.
    fn note(&mut self, number: u32, what: Protocol) {
        let (now, samples) = (self.now, self.spec.record.samples as usize);
        let Some(client) = self.hosts[number as usize].as_client() else {
            return;
        };
        let keep = |list: &mut Vec<Sample>, value, attempts| {
            if list.len() < samples {
                list.push(Sample {
                    at: now,
                    value,
                    attempts,
                });
            }
        };
        match what {
            Protocol::Sent {
                id,
                retransmissions,
                timeout: Some(timeout),
                ..
            } => {
                let item = client.item(id.0);
                client.flow.transmissions += 1;
                if retransmissions == 0 {
                    client.flow.exchanges += 1;
                    keep(&mut client.flow.rto_init, timeout, 1);
                } else {
                    client.flow.retransmissions += 1;
                    client.flow.timeouts += 1;
                    let attempt = retransmissions - 1;
                    self.trace
                        .add(now, number, What::TimedOut { item, attempt });
                }
                let armed = What::Armed {
                    item,
                    attempt: retransmissions,
                    timeout,
                };
                self.trace.add(now, number, armed);
            }
            Protocol::Answered {
                id,
                retransmissions,
                since_original,
                rto,
            } => {
                let attempts = retransmissions.saturating_add(1);
                let Some((item, spurious)) = client.close(id.0) else {
                    return;
                };
                client.flow.spurious += u64::from(spurious);
                client.flow.count_exchange(attempts);
                keep(&mut client.flow.rtt, since_original, attempts);
                let changed = rto.filter(|rto| client.last_rto.replace(*rto) != Some(*rto));
                if let Some(rto) = changed {
                    keep(&mut client.flow.rto, rto, attempts);
                }
                self.trace
                    .add(now, number, What::Answered { item, attempts });
                self.trace.add(
                    now,
                    number,
                    What::Rtt {
                        rtt: since_original,
                        attempts,
                    },
                );
                if let Some(rto) = changed {
                    self.trace.add(now, number, What::Rto { rto });
                }
            }
            Protocol::Abandoned {
                id: Some(id),
                retransmissions,
            } => {
                client.flow.failed += 1;
                client.flow.timeouts += 1;
                client
                    .flow
                    .count_exchange(retransmissions.saturating_add(1));
                if let Some((item, _)) = client.close(id.0) {
                    self.trace.add(now, number, What::Abandoned { item });
                }
            }
            _ => {}
        }
    }

    fn record(mut self, events_handled: u64) -> RunRecord {
        let clients = self.spec.clients as usize;
        let flows = self
            .hosts
            .drain(..clients)
            .filter_map(Host::into_flow)
            .collect();
        let (trace_hash, events_unrecorded) = (self.trace.hash(), self.trace.unrecorded());
        RunRecord {
            flows,
            link: LinkRecord {
                down: self.link.down.counters(),
                up: self.link.up.counters(),
            },
            ended: self.now,
            events_handled,
            trace_hash,
            events: self.trace.into_events(),
            events_unrecorded,
            log: self.log,
        }
    }
}
