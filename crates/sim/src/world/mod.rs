//! One run: clients and a server at the two ends of a constrained link.
//!
//! Events are packets arriving and hosts waking. A packet's fate is known when it is offered to
//! the link, so each costs one event. Hosts wake no earlier than they must: a wake-up that comes
//! before anything is due only asks again, which keeps cancelled timers out of the queue.
//!
//! Files: [`mod@self`] a run and what clients do, `datagrams` packets of UDP, `connections` TCP,
//! `server` what requests cost the server.

mod bins;
mod connections;
mod datagrams;
pub(crate) mod server;

use std::fmt;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::endpoint::{Event, Output, RequestError, Sending};
use carob_proto::trace::What as Protocol;

use crate::capture::Captured;
use crate::fragments::MTU_MIN;
use crate::groups::Kind;
use crate::host::{Application, Host, Next, Tag, number_of, restarts_of};
use crate::link::Link;
use crate::mesh;
use crate::notifications::{self, Unfit};
use crate::queue::EventQueue;
use crate::random::Stream;
use crate::spec::{
    AfterFailure, Bin, CLIENTS_MAX, LinkRecord, Reconnect, Recording, RunRecord, RunSpec, Sample,
    Transport, Until, Workload,
};
use crate::store::Store;
use crate::tcp::segment::{IP_HEADER, TCP_HEADER};
use crate::tcp::settings::Impossible;
use crate::trace::{Trace, What};

use connections::Connections;
use datagrams::Packet;
use server::{SERVER_QUEUE_MAX, Serial};

/// Why a run could not be made. All of these are faults of its specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// No clients, or more than [`CLIENTS_MAX`].
    Clients(u32),
    /// An MTU, in bytes, smaller than that of any link.
    Mtu(u32),
    /// Segments of this MSS that the link's MTU has no room for, both in bytes.
    Segment {
        /// The MSS.
        mss: u32,
        /// The MTU.
        mtu: u32,
    },
    /// Settings of TCP that contradict each other.
    Tcp(Impossible),
    /// A client could not send its request.
    Request(RequestError),
    /// A server that takes its time, over connections.
    ServiceOverConnections,
    /// A receive queue of no datagrams, or of more than [`SERVER_QUEUE_MAX`].
    ServerQueue(u32),
    /// Notifications that cannot be told.
    Notifications(Unfit),
    /// A wireless network that cannot be.
    Mesh(mesh::Unfit),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(n) => write!(f, "{n} clients; a run has 1 to {CLIENTS_MAX}"),
            Self::Mtu(mtu) => {
                write!(f, "an MTU of {mtu} bytes; a link's is at least {MTU_MIN}")
            }
            Self::Segment { mss, mtu } => {
                let headers = IP_HEADER + TCP_HEADER;
                let packet = u64::from(*mss) + u64::from(headers);
                write!(
                    f,
                    "segments of {packet} bytes on a link with an MTU of {mtu}"
                )
            }
            Self::Tcp(why) => write!(f, "{why}"),
            Self::Notifications(why) => write!(f, "{why}"),
            Self::Mesh(why) => write!(f, "{why}"),
            Self::Request(error) => write!(f, "a client cannot send its request: {error}"),
            Self::ServiceOverConnections => {
                f.write_str("a service time is of datagrams; over connections requests cost none")
            }
            Self::ServerQueue(n) => write!(
                f,
                "a receive queue of {n} datagrams; a server's has 1 to {SERVER_QUEUE_MAX}"
            ),
        }
    }
}

impl std::error::Error for RunError {}

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// A datagram reaches a host.
    Arrival { to: u32, packet: u32 },
    /// A segment reaches the end of a connection.
    Segment { place: u32 },
    /// The time of a connection's end has come.
    Socket { slot: u32, server: bool },
    /// A server has done its work on a datagram.
    Served,
    /// A host's time has come.
    Wake { host: u32 },
    /// A client begins, or begins anew.
    Start { client: u32 },
}

/// Directions, where there is something for each: also the lanes of the queue that their packets
/// wait in.
const DOWN: usize = 0;
const UP: usize = 1;

struct World<'a> {
    spec: &'a RunSpec,
    kinds: Vec<Kind<'a>>,
    /// Of all groups; as hosts they come before the servers.
    clients: u32,
    now: Instant,
    queue: EventQueue<Happening>,
    hosts: Vec<Host>,
    link: Link,
    /// Bytes that used the link for copies nobody needed, by direction.
    useless: [u64; 2],
    bins: Vec<Bin>,
    packets: Store<Packet>,
    connections: Connections,
    /// The server's receive queue, if requests cost it time.
    serial: Option<Serial>,
    captured: Vec<Captured>,
    trace: Trace,
    log: Vec<(u32, carob_proto::trace::Trace)>,
    running: u32,
    error: Option<RunError>,
}

/// Makes a run.
pub fn run(spec: &RunSpec) -> Result<RunRecord, RunError> {
    let clients = spec.all_clients();
    if spec.clients == 0 || clients > CLIENTS_MAX {
        return Err(RunError::Clients(clients));
    }
    if spec.mtu_bytes < MTU_MIN {
        return Err(RunError::Mtu(spec.mtu_bytes));
    }
    for kind in spec.kinds() {
        if let Transport::Connections(tcp) = kind.transport {
            tcp.check().map_err(RunError::Tcp)?;
            if tcp.mss > spec.mtu_bytes - IP_HEADER - TCP_HEADER {
                let (mss, mtu) = (tcp.mss, spec.mtu_bytes);
                return Err(RunError::Segment { mss, mtu });
            }
        }
    }
    server::check(spec)?;
    if let Workload::Notifications(told) = &spec.workload {
        return notifications::run(spec, told);
    }
    if let Workload::Mesh(mesh) = &spec.workload {
        return mesh::run(spec, mesh);
    }
    let mut world = World::new(spec);
    let mut handled = 0;
    let end = Instant::ZERO + spec.time_limit;
    while world.is_running()
        && let Some((now, happening)) = world.queue.pop_until(end)
    {
        world.now = now;
        world.handle(happening);
        handled += 1;
        if let Some(error) = world.error {
            return Err(error);
        }
    }
    if world.running > 0 || spec.until == Until::TimeLimit {
        world.now = end;
    }
    Ok(world.record(handled))
}

impl<'a> World<'a> {
    fn new(spec: &'a RunSpec) -> Self {
        let (kinds, clients) = (spec.kinds(), spec.all_clients());
        let mut hosts = Vec::with_capacity(clients as usize + kinds.len());
        for kind in &kinds {
            let numbers = kind.first..kind.first + kind.clients;
            hosts.extend(numbers.map(|number| Host::client(spec, kind, number)));
        }
        let servers = kinds.iter().zip(clients..);
        hosts.extend(servers.map(|(kind, number)| Host::server(spec, kind, number)));
        let mut queue = EventQueue::default();
        for client in 0..clients {
            let mut stream = Stream::indexed(spec.seed, "client/start", client);
            let at = Instant::ZERO + stream.uniform(spec.start.low, spec.start.high);
            queue.push(at, Happening::Start { client });
        }
        Self {
            spec,
            kinds,
            clients,
            now: Instant::ZERO,
            queue,
            hosts,
            link: Link::new(&spec.link, spec.seed, "link"),
            useless: [0; 2],
            bins: Vec::new(),
            packets: Store::new(),
            connections: Connections::default(),
            serial: Serial::new(&spec.server, spec.seed),
            captured: Vec::new(),
            trace: match spec.record.events {
                0 => Trace::hashing(),
                limit => Trace::recording(limit).about(spec.record.events_of),
            },
            log: Vec::new(),
            running: clients,
            error: None,
        }
    }

    /// The group of a host.
    fn kind(&self, host: u32) -> &Kind<'a> {
        &self.kinds[self.hosts[host as usize].group as usize]
    }

    /// Servers come after all clients, one of each group.
    fn is_server(&self, host: u32) -> bool {
        host >= self.clients
    }

    fn server_of(&self, client: u32) -> u32 {
        self.clients + self.hosts[client as usize].group
    }

    fn is_running(&self) -> bool {
        match self.spec.until {
            Until::Answered => self.running > 0,
            Until::Closed => self.running > 0 || self.connections.are_open(),
            Until::TimeLimit => true,
        }
    }

    fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Start { client } => {
                self.start(client);
                self.drain(client, Tag::NONE);
                self.settle();
            }
            Happening::Wake { host } => {
                let state = &mut self.hosts[host as usize];
                if !state.alarm.rings(self.now) {
                    return; // an earlier wake-up took its place
                }
                // Most timers were cancelled or moved since: ask before disturbing the host.
                if matches!(state.endpoint.poll(), Output::Wait(Some(at)) if at <= self.now) {
                    state.endpoint.handle_timeout(self.now);
                }
                self.drain(host, Tag::NONE);
                self.settle();
            }
            Happening::Arrival { to, packet } => self.arrive(to, packet),
            Happening::Served => self.served(),
            Happening::Segment { place } => self.segment_arrives(place),
            Happening::Socket { slot, server } => self.socket_wakes(slot, server),
        }
    }

    /// A client starts, for the first time or anew.
    fn start(&mut self, client: u32) {
        let transport = self.kind(client).transport;
        let Some(state) = self.hosts[client as usize].as_client() else {
            return;
        };
        let is_first = state.restarts == 0;
        match transport {
            Transport::Datagrams if is_first => self.begin(client),
            Transport::Datagrams => self.ask(client),
            // What it asks first waits for the connection.
            Transport::Connections(_) => {
                state.is_starting = !is_first;
                self.connect(client);
            }
        }
    }

    /// A client's batch of requests is over: it forgets everything, and starts anew after a while.
    fn restart(&mut self, client: u32) {
        let Some(pause) = self.hosts[client as usize]
            .as_client()
            .and_then(|state| state.restart.take())
        else {
            return;
        };
        let left = self.leave(client);
        let kind = &self.kinds[self.hosts[client as usize].group as usize];
        self.hosts[client as usize].restart(self.spec, kind, client);
        let batches = kind.workload.requests().batches;
        let waits = batches.is_some_and(|b| b.reconnect == Reconnect::Closed);
        if let Some(slot) = left.filter(|_| waits) {
            self.await_close(client, slot, pause);
        } else if pause.is_zero() {
            self.start(client);
        } else {
            self.start_after(client, pause);
        }
    }

    fn start_after(&mut self, client: u32, pause: Duration) {
        let start = Happening::Start { client };
        self.queue.push(self.now + pause, start);
    }

    /// A client begins its flow.
    fn begin(&mut self, client: u32) {
        self.trace.add(self.now, client, What::Began);
        if let Some(state) = self.hosts[client as usize].as_client() {
            state.flow.started = self.now;
            state.progress = self.now;
        }
        self.ask(client);
    }

    /// Hands a client's next requests to its endpoint, or ends its batch or its flow.
    fn ask(&mut self, number: u32) {
        let server = self.hosts[self.server_of(number) as usize].address;
        let requests = self.kind(number).workload.requests();
        loop {
            let host = &mut self.hosts[number as usize];
            let Some(client) = host.as_client() else {
                return;
            };
            if client.asked >= requests.parallel.max(1) {
                return;
            }
            match client.next(requests) {
                Next::Ask(request) => {
                    let asked =
                        host.endpoint
                            .request(self.now, server, request, Sending::default());
                    if let Err(error) = asked {
                        self.error = Some(RunError::Request(error));
                        return;
                    }
                }
                Next::End => return self.end_flow(number, true),
                // Before a restart comes what its endpoint still has to say.
                Next::Restart | Next::Wait => return,
            }
        }
    }

    fn end_flow(&mut self, number: u32, complete: bool) {
        let Some(client) = self.hosts[number as usize].as_client() else {
            return;
        };
        if !std::mem::replace(&mut client.done, true) {
            let complete = complete && client.flow.unanswered == 0;
            client.flow.finished = complete.then_some(self.now);
            client.flow.ended = self.now;
            self.running -= 1;
            self.trace.add(self.now, number, What::Ended { complete });
            self.flow_ended(number);
        }
    }

    /// Does everything a host has to do, until it waits. What it sends was caused by `cause`.
    fn drain(&mut self, number: u32, cause: Tag) {
        let is_tcp = matches!(self.kind(number).transport, Transport::Connections(_));
        loop {
            let host = &mut self.hosts[number as usize];
            let is_restarting = host.is_restarting();
            match host.endpoint.poll() {
                Output::Transmit { to, bytes } if is_tcp => {
                    let bytes = Bytes::copy_from_slice(bytes);
                    self.say(number, to, bytes);
                }
                Output::Transmit { to, bytes } => {
                    let (tag, restarts) = match &mut host.application {
                        Application::Client(client) => {
                            (client.tag(self.now, bytes), client.restarts)
                        }
                        Application::Server { .. } => (cause, restarts_of(to)),
                    };
                    let to = number_of(to);
                    let index = self.packets.take();
                    let packet = &mut self.packets[index];
                    packet.bytes.clear();
                    packet.bytes.extend_from_slice(bytes);
                    packet.from = number;
                    packet.restarts = restarts;
                    packet.tag = Some(tag);
                    self.offer(number, to, index, tag);
                }
                Output::Connect { .. } => self.connect(number),
                Output::Close { to } => self.close(number, to),
                Output::Event(event) => self.react(number, event),
                Output::Wait(_) if is_restarting => self.restart(number),
                Output::Wait(at) => {
                    if let Some(at) = at
                        && host.alarm.set(at)
                    {
                        self.queue.push(at, Happening::Wake { host: number });
                    }
                    return;
                }
                _ => {}
            }
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
                self.bin_answered();
                if let Some(client) = self.hosts[number as usize].as_client() {
                    client.flow.body_bytes += response.bytes().len() as u64;
                }
                if response.code.is_success() {
                    self.answered(number);
                } else {
                    self.failed(number);
                }
            }
            Event::Failed { .. } => self.failed(number),
            Event::Trace(trace) => {
                if (self.log.len() as u32) < self.spec.record.log.min(Recording::LOG_MAX) {
                    self.log.push((number, trace));
                }
                if let Transport::Datagrams = self.kind(number).transport {
                    self.note(number, trace.what);
                }
            }
            _ => {}
        }
    }

    /// A client's request was answered.
    fn answered(&mut self, number: u32) {
        if let Some(client) = self.hosts[number as usize].as_client() {
            client.flow.answered += 1;
            client.asked = client.asked.saturating_sub(1);
        }
        self.ask(number);
    }

    /// A client's request failed.
    fn failed(&mut self, number: u32) {
        if let Some(client) = self.hosts[number as usize].as_client() {
            client.flow.unanswered += 1;
            client.asked = client.asked.saturating_sub(1);
        }
        match self.kind(number).workload.requests().after_failure {
            AfterFailure::Stop => self.end_flow(number, false),
            AfterFailure::Next => self.ask(number),
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
                    client.timer(timeout);
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
                client.progresses(now);
                let Some(closed) = client.close(id.0) else {
                    return;
                };
                let item = closed.item;
                client.flow.spurious += u64::from(closed.spurious);
                self.useless[UP] += closed.useless;
                client.flow.count_exchange(attempts);
                client.flow.answered_at_once += u32::from(attempts == 1);
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
                if let Some(closed) = client.close(id.0) {
                    self.useless[UP] += closed.useless;
                    let item = closed.item;
                    self.trace.add(now, number, What::Abandoned { item });
                }
            }
            _ => {}
        }
    }

    fn record(mut self, events_handled: u64) -> RunRecord {
        for client in 0..self.clients {
            self.count_connection(client);
        }
        let server = self.serial.take().map(|serial| serial.record(self.now));
        let mut flows: Vec<_> = self.hosts.drain(..).filter_map(Host::into_flow).collect();
        let others = flows.split_off(self.spec.clients as usize);
        let (trace_hash, events_unrecorded) = (self.trace.hash(), self.trace.unrecorded());
        RunRecord {
            flows,
            others,
            link: LinkRecord {
                down: self.link.down.counters(),
                up: self.link.up.counters(),
                useless_down: self.useless[DOWN],
                useless_up: self.useless[UP],
            },
            server,
            notifications: None,
            mesh: None,
            ended: self.now,
            events_handled,
            trace_hash,
            events: self.trace.into_events(),
            events_unrecorded,
            log: self.log,
            packets: self.captured,
            bins: self.bins,
        }
    }
}
