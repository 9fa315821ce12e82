//! Discrete-event engine: one event queue, the hosts' endpoints, and their packets.
//!
//! A `Network` carries datagrams, applications use the endpoints; neither knows the
//! other. Events belong to the network, wake-ups of endpoints, applications' timers,
//! TCP sockets, a busy server and faults. An endpoint woken before its deadline is polled and
//! waits on, which keeps cancelled timers out of the queue.
//!
//! After every input an endpoint is polled until it waits, by `Engine::drain` alone. Nothing here
//! knows about retransmission or congestion control.
//!
//! Reading order: `network` and `application` (the traits), `host` (endpoints, tags), `datagrams` (sending,
//! receiving, service times), `connections` (TCP), `faults`.

pub(crate) mod application;
pub(crate) mod connections;
mod datagrams;
mod faults;
mod host;
pub(crate) mod network;

use carob_cc::time::{Duration, Instant};
use carob_proto::endpoint::{Event as EndpointEvent, Output};
use carob_proto::trace::Trace as ProtocolTrace;
use carob_sim_core::rc_slab::RcSlab;

use crate::address::number_of;
use crate::capture::Captured;
use crate::queue::EventQueue;
use crate::server_queue::ServerQueue;
use crate::spec::groups::Group;
use crate::spec::{Bin, Recording, RunError, RunRecord, RunSpec, Transport, Until};
use crate::trace::Trace;

pub(crate) use host::{Datagram, Flow, Host, Role, Tag};

use application::{Application, Applications, Timer};
use connections::Connections;
use faults::HostFault;
use network::Network;

/// A simulator event; `E` are the network's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<E> {
    /// An event of the network.
    Network(E),
    /// The timer of a host's endpoint.
    Wake { host: u32 },
    /// A timer of an application.
    Application { number: u16, timer: Timer },
    /// A segment reaches the end of a connection.
    Segment { place: u32 },
    /// The timer of a connection's end.
    Socket { slot: u32, server: bool },
    /// A server has completed its work on a datagram.
    Served,
    /// A sleepy host fetches a datagram that waits for it.
    Polled { datagram: u32 },
    /// A fault of a host.
    Fault { fault: HostFault, host: u32 },
}

/// The state of a run, without its applications.
pub(crate) struct Engine<'a, N: Network> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) groups: Vec<Group<'a>>,
    pub(crate) now: Instant,
    pub(crate) queue: EventQueue<Event<N::Event>>,
    pub(crate) network: N,
    pub(crate) hosts: Vec<Host>,
    pub(crate) datagrams: RcSlab<Datagram>,
    connections: Connections,
    /// The tag of the current datagram; its consequences are attributed to it.
    pub(crate) cause: Tag,
    /// Bytes of spurious retransmissions on the link, by direction.
    pub(crate) useless: [u64; 2],
    /// Flows that have not ended.
    pub(crate) running: u32,
    pub(crate) trace: Trace,
    pub(crate) error: Option<RunError>,
    bins: Vec<Bin>,
    /// The server's receive queue, if it has a service time.
    server_queue: Option<ServerQueue<datagrams::Waiting>>,
    captured: Vec<Captured>,
    log: Vec<(u32, ProtocolTrace)>,
}

impl<'a, N: Network> Engine<'a, N> {
    /// An engine without hosts.
    pub(crate) fn new(spec: &'a RunSpec, network: N) -> Self {
        Self {
            spec,
            groups: Group::all(spec),
            now: Instant::ZERO,
            queue: EventQueue::default(),
            network,
            hosts: Vec::new(),
            datagrams: RcSlab::new(),
            connections: Connections::default(),
            cause: Tag::NONE,
            useless: [0; 2],
            running: 0,
            trace: match spec.record.events {
                0 => Trace::hashing(),
                limit => Trace::recording(limit).about(spec.record.events_of),
            },
            error: None,
            bins: Vec::new(),
            server_queue: ServerQueue::new(&spec.server, spec.seed),
            captured: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Starts all applications.
    pub(crate) fn start(&mut self, applications: &mut Applications<N>) {
        for application in applications {
            application.start(self);
        }
        self.schedule_faults();
    }

    /// Handles events until the run ends. Returns their number.
    ///
    /// Applications with a duration end the run, and events at that very time are
    /// excluded. Without any, it ends when the flows have, or at the time limit.
    pub(crate) fn execute(&mut self, applications: &mut Applications<N>) -> Result<u64, RunError> {
        let end = applications.iter().filter_map(|a| a.end()).max();
        let limit = Instant::ZERO + self.spec.time_limit;
        let last = end.map_or(limit, |end| end - Duration::from_micros(1));
        let handled = self.execute_until(applications, last, end.is_some())?;
        if let Some(end) = end {
            self.now = end;
        } else if self.running > 0 || self.spec.until == Until::TimeLimit {
            self.now = limit;
        }
        Ok(handled)
    }

    /// Handles events until a time, that included, or until flows have ended unless it goes on
    /// without them. Returns their number.
    pub(crate) fn execute_until(
        &mut self,
        applications: &mut Applications<N>,
        last: Instant,
        goes_on: bool,
    ) -> Result<u64, RunError> {
        let mut handled = 0;
        while (goes_on || self.is_running())
            && let Some((now, event)) = self.queue.pop_until(last)
        {
            self.now = now;
            self.handle(applications, event);
            handled += 1;
            if let Some(error) = self.error {
                return Err(error);
            }
        }
        Ok(handled)
    }

    fn is_running(&self) -> bool {
        match self.spec.until {
            Until::Answered => self.running > 0,
            Until::Closed => self.running > 0 || self.connections.are_open(),
            Until::TimeLimit => true,
        }
    }

    /// The group of a host.
    pub(crate) fn group(&self, host: u32) -> &Group<'a> {
        &self.groups[usize::from(self.hosts[host as usize].application)]
    }

    fn handle(&mut self, applications: &mut Applications<N>, event: Event<N::Event>) {
        match event {
            Event::Network(event) => {
                if let Some(datagram) = N::handle(self, event) {
                    self.arrive(applications, datagram);
                }
                if self.network.has_offered() {
                    self.settle_offered(applications);
                }
            }
            Event::Wake { host } => {
                let state = &mut self.hosts[host as usize];
                if !state.alarm.rings(self.now) {
                    return; // an earlier wake-up took its place
                }
                // Most timers were cancelled or moved since: poll before disturbing the endpoint.
                if matches!(state.endpoint.poll(), Output::Wait(Some(at)) if at <= self.now) {
                    state.endpoint.handle_timeout(self.now);
                }
                let application = &mut *applications[usize::from(state.application)];
                self.drain(application, host);
                self.settle(application);
            }
            Event::Application { number, timer } => {
                let application = &mut *applications[usize::from(number)];
                application.on_timer(self, timer);
                self.settle(application);
            }
            Event::Served => self.served(applications),
            // The poll itself costs no packet; only the delay until it is modelled.
            Event::Polled { datagram } => {
                let host = self.datagrams[datagram].to;
                let number = self.hosts[host as usize].application;
                self.receive(&mut *applications[usize::from(number)], datagram);
            }
            Event::Segment { place } => self.segment_arrives(applications, place),
            Event::Socket { slot, server } => self.socket_wakes(applications, slot, server),
            Event::Fault { fault, host } => self.on_fault(applications, fault, host),
        }
    }

    /// Schedules a timer of an application.
    pub(crate) fn set_timer(&mut self, number: u16, at: Instant, timer: Timer) {
        self.queue.push(at, Event::Application { number, timer });
    }

    /// Polls a host's endpoint until it waits.
    pub(crate) fn drain(&mut self, application: &mut dyn Application<N>, number: u32) {
        let is_tcp = matches!(self.group(number).spec.transport, Transport::Connections(_));
        loop {
            let host = &mut self.hosts[number as usize];
            match host.endpoint.poll() {
                Output::Transmit { to, bytes } if is_tcp => {
                    let bytes = bytes::Bytes::copy_from_slice(bytes);
                    self.send(number, to, bytes);
                }
                Output::Transmit { to, bytes } => {
                    let tag = application.tag(self.now, number, number_of(to), bytes, self.cause);
                    let index = self.datagrams.take();
                    self.datagrams[index].fill(number, host.earlier_ports, to, tag, bytes);
                    self.transmit(application, index);
                }
                Output::Connect { .. } => self.connect(application, number),
                Output::Close { to } => self.close(number, to),
                Output::Event(event) => {
                    if let EndpointEvent::Trace(trace) = &event {
                        self.record_trace(number, trace);
                    }
                    application.on_event(self, number, event);
                }
                Output::Wait(at) => {
                    if application.on_idle(self, number) {
                        continue;
                    }
                    let at = at.map(|at| self.network.expiry(at));
                    if let Some(at) = at
                        && self.hosts[number as usize].alarm.set(at)
                    {
                        self.queue.push(at, Event::Wake { host: number });
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    fn record_trace(&mut self, number: u32, trace: &ProtocolTrace) {
        if (self.log.len() as u32) < self.spec.record.log.min(Recording::LOG_MAX) {
            self.log.push((number, *trace));
        }
    }

    /// The record of a run that has ended.
    pub(crate) fn record(
        mut self,
        applications: Applications<N>,
        events_handled: u64,
    ) -> RunRecord {
        let mut record = RunRecord::default();
        for application in applications {
            application.into_record(&mut self, &mut record);
        }
        let now = self.now;
        self.network.into_record(now, &mut record);
        [record.link.useless_down, record.link.useless_up] = self.useless;
        record.server = self.server_queue.map(|queue| queue.record(now));
        record.ended = now;
        record.events_handled = events_handled;
        record.trace_hash = self.trace.hash();
        record.events_unrecorded = self.trace.unrecorded();
        record.events = self.trace.into_events();
        record.log = self.log;
        record.packets = self.captured;
        record.bins = self.bins;
        record
    }
}
