//! TCP connections: a socket at each end, and the endpoints above them.
//!
//! An endpoint's messages are written to its socket before that is drained, so messages of one
//! moment leave in one flight. Data that a socket does not accept is queued, and its endpoint
//! treats the connection as congested until it is accepted.
//!
//! A client has one current connection. Earlier ones continue until both ends have closed them, as
//! sockets of a terminated process do; the server distinguishes them by the client's port.
//!
//! This module handles events of connections; `ends` has the two ends, `segments` the packets on
//! the link, `counts` the costs of a flow.

mod counts;
mod ends;
mod segments;

use std::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Duration;
use carob_proto::endpoint::Disconnect;

use super::application::{Application, Applications};
use super::network::Network;
use crate::random::Stream;
use crate::spec::{CLIENTS_MAX, Transport};
use crate::tcp::{Event, Output, Socket};

use super::host::{Flow, Role};
use super::{Engine, Event as EngineEvent, RunError};
use crate::address::{address, earlier_ports_of, number_of};

use ends::{Connection, End};
use segments::SegmentInFlight;

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// All connections of a run; none over datagrams.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// By slot; slots are reused.
    all: Vec<Connection>,
    free: Vec<u32>,
    /// Created when the first client connects.
    by_client: Vec<ClientConnections>,
    /// Segments in flight.
    in_flight: Vec<SegmentInFlight>,
    in_flight_free: Vec<u32>,
    /// Ends with new input that are not drained yet, as (slot, end).
    fed: Vec<(u32, usize)>,
    /// Connections that some end has not closed yet.
    open: u32,
}

/// The connections of a client.
#[derive(Debug, Default)]
struct ClientConnections {
    /// Connections made so far.
    made: u32,
    /// The slot of its endpoint's connection.
    current: Option<u32>,
    /// The slot of an abandoned connection, whether both ends must have closed it, and the pause
    /// from then to the client's restart.
    awaited: Option<(u32, bool, Duration)>,
    /// The slots of all connections that some end has not closed yet.
    open: Vec<u32>,
}

impl Connections {
    /// Returns whether some end has not closed yet.
    pub(super) fn are_open(&self) -> bool {
        self.open > 0
    }

    fn current(&self, client: u32) -> Option<u32> {
        self.by_client.get(client as usize)?.current
    }

    fn end(&mut self, slot: u32, end: usize) -> &mut End {
        &mut self.all[slot as usize].ends[end]
    }

    /// Stores a connection in a free slot and returns the slot.
    fn keep(&mut self, connection: Connection) -> u32 {
        self.open += 1;
        if let Some(slot) = self.free.pop() {
            self.all[slot as usize] = connection;
            slot
        } else {
            self.all.push(connection);
            self.all.len() as u32 - 1
        }
    }
}

impl<N: Network> Engine<'_, N> {
    /// Connects a client, for the first time or again.
    pub(crate) fn connect(&mut self, application: &mut dyn Application<N>, client: u32) {
        let Role::Client { server } = self.hosts[client as usize].role else {
            return; // a server makes no connections
        };
        let Transport::Connections(settings) = &self.group(client).spec.transport else {
            return;
        };
        let all = &mut self.connections.by_client;
        if all.is_empty() {
            all.resize_with(self.hosts.len(), ClientConnections::default);
        }
        let entry = &mut all[client as usize];
        let number = entry.made;
        entry.made += 1;
        self.detach(application, client);
        let made = |label: &str| {
            // A stream of random numbers for each connection: `client` is below CLIENTS_MAX.
            let index = number.wrapping_mul(CLIENTS_MAX).wrapping_add(client);
            Socket::new(settings, Stream::indexed(self.spec.seed, label, index)).map(End::new)
        };
        let ends = made("tcp/client").and_then(|client| Ok([client, made("tcp/server")?]));
        let mut ends = match ends {
            Ok(ends) => ends,
            Err(why) => {
                self.error = Some(RunError::Tcp(why));
                return;
            }
        };
        let [active, passive] = &mut ends;
        // Both are new, so neither can be in use.
        let _ = passive.socket.listen();
        let _ = active.socket.connect(self.now);
        passive.socket.record(self.spec.record.samples);
        let connection = Connection::new((client, server), number, ends);
        let slot = self.connections.keep(connection);
        let entry = &mut self.connections.by_client[client as usize];
        entry.open.push(slot);
        entry.current = Some(slot);
        self.connections.fed.push((slot, CLIENT));
    }

    /// The connection and the end at host `number` that leads to `peer`, unless that is closed.
    fn end_of(&self, number: u32, peer: SocketAddr) -> Option<(u32, usize)> {
        if !self.hosts[number as usize].is_server() {
            return Some((self.connections.current(number)?, CLIENT));
        }
        let entry = &self.connections.by_client[number_of(peer) as usize];
        let number = u32::from(earlier_ports_of(peer));
        let at = |slot: &&u32| self.connections.all[**slot as usize].number == number;
        Some((*entry.open.iter().find(at)?, SERVER))
    }

    /// Writes a host's message to a peer.
    pub(super) fn send(&mut self, number: u32, peer: SocketAddr, bytes: Bytes) {
        let now = self.now;
        let Some((slot, which)) = self.end_of(number, peer) else {
            return;
        };
        let end = self.connections.end(slot, which);
        // Behind data that the socket has not accepted yet, because a stream keeps the order of messages.
        end.rest.push_back(bytes);
        let was_congested = end.rest.len() > 1;
        end.write(now);
        let congested = !end.rest.is_empty();
        self.connections.fed.push((slot, which));
        if congested && !was_congested {
            let endpoint = &mut self.hosts[number as usize].endpoint;
            endpoint.set_congested(now, peer, true);
        }
    }

    /// Closes a host's connection with a peer.
    pub(super) fn close(&mut self, number: u32, peer: SocketAddr) {
        if let Some((slot, which)) = self.end_of(number, peer) {
            self.close_end(slot, which);
        }
    }

    fn close_end(&mut self, slot: u32, which: usize) {
        let now = self.now;
        let end = self.connections.end(slot, which);
        end.closing = true;
        if end.rest.is_empty() {
            end.socket.close(now);
        }
        self.connections.fed.push((slot, which));
    }

    /// Detaches a client from its connection, which closes on its own. Returns its slot.
    pub(crate) fn leave(
        &mut self,
        application: &mut dyn Application<N>,
        client: u32,
    ) -> Option<u32> {
        let slot = self.detach(application, client)?;
        self.close_end(slot, CLIENT);
        Some(slot)
    }

    /// Schedules a client's restart for this pause after its abandoned connection closes: from its
    /// view, or at both ends.
    pub(crate) fn await_close(&mut self, client: u32, slot: u32, both: bool, pause: Duration) {
        self.connections.by_client[client as usize].awaited = Some((slot, both, pause));
    }

    /// Restarts a client that waited for this connection to close.
    fn resume(&mut self, application: &mut dyn Application<N>, slot: u32) {
        let connection = &self.connections.all[slot as usize];
        let client = connection.client;
        let entry = &mut self.connections.by_client[client as usize];
        if let Some((awaited, both, pause)) = entry.awaited
            && awaited == slot
            && connection.ends[CLIENT].is_done()
            && (!both || connection.ends[SERVER].is_done())
        {
            entry.awaited = None;
            application.on_left_connection_closed(self, client, pause);
        }
    }

    /// Detaches a client's endpoint from its connection. Returns its slot.
    fn detach(&mut self, application: &mut dyn Application<N>, client: u32) -> Option<u32> {
        let slot = self.connections.current(client)?;
        if let Some(flow) = application.flow(client) {
            self.count_connection(flow, client);
        }
        self.connections.by_client[client as usize].current = None;
        Some(slot)
    }

    /// Drains every socket with new input, until all wait.
    pub(super) fn settle(&mut self, application: &mut dyn Application<N>) {
        while let Some((slot, which)) = self.connections.fed.pop() {
            self.drain_socket(application, slot, which);
        }
    }

    /// Handles the timer of an end.
    pub(super) fn socket_wakes(
        &mut self,
        applications: &mut Applications<N>,
        slot: u32,
        server: bool,
    ) {
        let (now, which) = (self.now, usize::from(server));
        let end = self.connections.end(slot, which);
        if end.wake != Some(now) {
            return; // an earlier wake-up took its place, or another connection the slot
        }
        end.wake = None;
        end.socket.handle_timeout(now);
        let (here, _) = self.hosts_of(slot, which);
        let number = self.hosts[here as usize].application;
        let application = &mut *applications[usize::from(number)];
        self.drain_socket(application, slot, which);
        self.settle(application);
    }

    /// The hosts at an end and at the other.
    fn hosts_of(&self, slot: u32, which: usize) -> (u32, u32) {
        let Connection { client, server, .. } = self.connections.all[slot as usize];
        if which == CLIENT {
            (client, server)
        } else {
            (server, client)
        }
    }

    fn drain_socket(&mut self, application: &mut dyn Application<N>, slot: u32, which: usize) {
        let now = self.now;
        loop {
            let end = self.connections.end(slot, which);
            match end.socket.poll() {
                Output::Transmit(segment) => self.offer_segment(application, slot, which, segment),
                Output::Event(event) => self.on_socket_event(application, slot, which, event),
                Output::Wait(deadline) => {
                    // An earlier wake-up that is pending polls the socket anyway, which then sets the
                    // later one.
                    if let Some(at) = deadline
                        && end.wake.is_none_or(|wake| at < wake || wake < now)
                    {
                        // A deadline that has passed is due now.
                        let at = at.max(now);
                        end.wake = Some(at);
                        let server = which == SERVER;
                        self.queue.push(at, EngineEvent::Socket { slot, server });
                    }
                    self.forget_if_closed(application, slot);
                    return;
                }
            }
        }
    }

    /// Records that both ends have closed a connection; frees its slot if its client has left it.
    fn forget_if_closed(&mut self, application: &mut dyn Application<N>, slot: u32) {
        self.resume(application, slot);
        let now = self.now;
        let connection = &mut self.connections.all[slot as usize];
        let client = connection.client;
        if connection.has_closed() {
            let closing = connection.closing_until(now);
            self.connections.open -= 1;
            if let Some(flow) = application.flow(client) {
                flow.record.closing = closing;
            }
        }
        let connection = &mut self.connections.all[slot as usize];
        if connection.is_gone || !connection.is_over() {
            return;
        }
        let entry = &mut self.connections.by_client[client as usize];
        if entry.current == Some(slot) {
            return; // counted when its flow ends
        }
        connection.is_gone = true;
        entry.open.retain(|open| *open != slot);
        self.connections.free.push(slot);
    }

    /// Passes an event of a socket to the endpoint above it.
    fn on_socket_event(
        &mut self,
        application: &mut dyn Application<N>,
        slot: u32,
        which: usize,
        event: Event,
    ) {
        let now = self.now;
        let (here, there) = self.hosts_of(slot, which);
        // A client that has moved on leaves its old sockets without an endpoint; they only close.
        let connection = &mut self.connections.all[slot as usize];
        let (client, is_left) = (
            connection.client,
            self.connections.by_client[connection.client as usize].current != Some(slot),
        );
        let peer = match which {
            CLIENT => address(there, 0),
            _ => connection.client_address(),
        };
        let end = &mut connection.ends[which];
        if is_left && which == CLIENT {
            end.ends_alone(now, event);
            return;
        }
        let endpoint = &mut self.hosts[here as usize].endpoint;
        let mut read = 0;
        match event {
            Event::Connected => {
                end.connected = true;
                if !endpoint.connected(now, peer) {
                    end.socket.abort(now);
                    return;
                }
                if which == CLIENT {
                    self.client_connected(application, client);
                }
            }
            Event::Readable => {
                while let Some(bytes) = end.socket.read() {
                    endpoint.handle_stream(now, peer, &bytes);
                    read += bytes.len();
                }
            }
            Event::Writable => {
                end.write(now);
                if !end.rest.is_empty() {
                    return;
                }
                endpoint.set_congested(now, peer, false);
                if end.closing {
                    end.socket.close(now);
                }
            }
            Event::PeerClosed => {
                end.socket.close(now);
                endpoint.disconnected(now, peer, Disconnect::Closed);
            }
            Event::Reset | Event::TimedOut => {
                let why = if end.connected {
                    Disconnect::Broken
                } else {
                    Disconnect::NotMade
                };
                let failed = !end.connected;
                endpoint.disconnected(now, peer, why);
                if which == CLIENT {
                    self.detach(application, client);
                    if failed {
                        application.on_connection_failed(self, client);
                    }
                }
            }
            Event::Closed => {}
        }
        if read > 0
            && let Some(flow) = application.flow(here)
        {
            flow.record.received_bytes += read as u64;
            flow.progresses(now);
        }
        self.drain(application, here);
    }

    /// Reports a connection to its client's application.
    fn client_connected(&mut self, application: &mut dyn Application<N>, client: u32) {
        let Some(slot) = self.connections.current(client) else {
            return;
        };
        let connection = &self.connections.all[slot as usize];
        let setup = connection.ends[CLIENT].socket.counters().setup;
        let is_first = connection.number == 0;
        if is_first && let Some(flow) = application.flow(client) {
            flow.record.setup = setup;
        }
        application.on_connected(self, client, is_first);
    }

    /// Ends a client's flow: counts its costs and closes its connection.
    pub(crate) fn flow_ended(&mut self, flow: &mut Flow, client: u32) {
        self.count_connection(flow, client);
        if let Some(slot) = self.connections.current(client) {
            self.close_end(slot, CLIENT);
        }
    }
}
