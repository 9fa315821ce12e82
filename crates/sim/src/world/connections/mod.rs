//! Connections: a TCP socket at each end, and the endpoints that speak over them.
//!
//! An endpoint's messages are written to its socket before that is drained, so messages made at
//! one moment leave in one flight. What a socket does not take waits, and its endpoint is told
//! that the connection is congested until it is taken.
//!
//! A client has one connection at a time. Those it has left go on until both ends have closed
//! them, as sockets do whose program is gone; the server knows them apart by the client's port.
//!
//! Files: [`mod@self`] what happens to connections, `ends` the two ends, `segments` what crosses
//! the link, `counts` what a flow cost.

mod counts;
mod ends;
mod segments;

use std::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Duration;
use carob_proto::endpoint::Disconnect;

use crate::host::{Tag, number_of, restarts_of};
use crate::random::Stream;
use crate::spec::{CLIENTS_MAX, Transport};
use crate::tcp::{Event, Output, Socket};

use super::{Happening, RunError, World};

use ends::{Connection, End};
use segments::Travelling;

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// All connections of a run; none over datagrams.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// By slot; slots are used again.
    all: Vec<Connection>,
    free: Vec<u32>,
    /// Made when the first client connects.
    of_clients: Vec<OfClient>,
    /// Segments on their way.
    travelling: Vec<Travelling>,
    travelling_free: Vec<u32>,
    /// Ends that were given something and are not drained yet, as (slot, end).
    fed: Vec<(u32, usize)>,
    /// Connections that some end has not closed yet.
    open: u32,
}

/// The connections of a client.
#[derive(Debug, Default)]
struct OfClient {
    /// How many it has made.
    made: u32,
    /// The slot of the one that its endpoint speaks over.
    current: Option<u32>,
    /// It has left the one in this slot, and starts anew so long after it closed.
    awaited: Option<(u32, Duration)>,
    /// The slots of all that some end has not closed yet.
    open: Vec<u32>,
}

impl Connections {
    /// Whether some end has not closed yet.
    pub(super) fn are_open(&self) -> bool {
        self.open > 0
    }

    fn current(&self, client: u32) -> Option<u32> {
        self.of_clients.get(client as usize)?.current
    }

    fn end(&mut self, slot: u32, end: usize) -> &mut End {
        &mut self.all[slot as usize].ends[end]
    }

    /// Keeps a connection in a slot that is free; gives that.
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

impl World<'_> {
    /// A client connects, for the first time or anew.
    pub(super) fn connect(&mut self, client: u32) {
        if self.is_server(client) {
            return; // it makes no connections
        }
        let Transport::Connections(settings) = self.kind(client).transport else {
            return;
        };
        let all = &mut self.connections.of_clients;
        if all.is_empty() {
            all.resize_with(self.clients as usize, OfClient::default);
        }
        let of_client = &mut all[client as usize];
        let number = of_client.made;
        of_client.made += 1;
        self.detach(client);
        let made = |label: &str| {
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
        let connection = Connection::new(client, number, ends);
        let slot = self.connections.keep(connection);
        let of_client = &mut self.connections.of_clients[client as usize];
        of_client.open.push(slot);
        of_client.current = Some(slot);
        self.connections.fed.push((slot, CLIENT));
    }

    /// The connection and the end at host `number` that leads to `peer`, unless that is gone.
    fn end_of(&self, number: u32, peer: SocketAddr) -> Option<(u32, usize)> {
        if !self.is_server(number) {
            return Some((self.connections.current(number)?, CLIENT));
        }
        let of_client = &self.connections.of_clients[number_of(peer) as usize];
        let number = restarts_of(peer);
        let at = |slot: &&u32| self.connections.all[**slot as usize].number == number;
        Some((*of_client.open.iter().find(at)?, SERVER))
    }

    /// A host says something to a peer.
    pub(super) fn say(&mut self, number: u32, peer: SocketAddr, bytes: Bytes) {
        let now = self.now;
        let Some((slot, which)) = self.end_of(number, peer) else {
            return;
        };
        let end = self.connections.end(slot, which);
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

    /// A host closes its connection with a peer.
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

    /// A client leaves its connection, which closes on its own; gives the slot of that.
    pub(super) fn leave(&mut self, client: u32) -> Option<u32> {
        let slot = self.detach(client)?;
        self.close_end(slot, CLIENT);
        Some(slot)
    }

    /// A client that has left a connection starts anew so long after that is closed.
    pub(super) fn await_close(&mut self, client: u32, slot: u32, pause: Duration) {
        self.connections.of_clients[client as usize].awaited = Some((slot, pause));
    }

    /// Starts a client anew that has waited for this connection to close, as far as it can see.
    fn goes_on(&mut self, slot: u32) {
        let connection = &self.connections.all[slot as usize];
        let client = connection.client;
        let of_client = &mut self.connections.of_clients[client as usize];
        if let Some((awaited, pause)) = of_client.awaited
            && awaited == slot
            && connection.ends[CLIENT].is_done()
        {
            of_client.awaited = None;
            self.start_after(client, pause);
        }
    }

    /// A client's endpoint has nothing more to do with its connection; gives the slot of that.
    fn detach(&mut self, client: u32) -> Option<u32> {
        let slot = self.connections.current(client)?;
        self.count_connection(client);
        self.connections.of_clients[client as usize].current = None;
        Some(slot)
    }

    /// Drains every socket that was given something, until all wait.
    pub(super) fn settle(&mut self) {
        while let Some((slot, which)) = self.connections.fed.pop() {
            self.drain_socket(slot, which);
        }
    }

    /// The time of an end has come.
    pub(super) fn socket_wakes(&mut self, slot: u32, server: bool) {
        let (now, which) = (self.now, usize::from(server));
        let end = self.connections.end(slot, which);
        if end.wake != Some(now) {
            return; // an earlier wake-up took its place, or another connection the slot
        }
        end.wake = None;
        end.socket.handle_timeout(now);
        self.drain_socket(slot, which);
        self.settle();
    }

    /// The hosts at an end and at the other.
    fn hosts_of(&self, slot: u32, which: usize) -> (u32, u32) {
        let client = self.connections.all[slot as usize].client;
        let server = self.server_of(client);
        if which == CLIENT {
            (client, server)
        } else {
            (server, client)
        }
    }

    fn drain_socket(&mut self, slot: u32, which: usize) {
        let now = self.now;
        loop {
            let end = self.connections.end(slot, which);
            match end.socket.poll() {
                Output::Transmit(segment) => self.offer_segment(slot, which, segment),
                Output::Event(event) => self.hear(slot, which, event),
                Output::Wait(deadline) => {
                    if let Some(at) = deadline
                        && end.wake.is_none_or(|wake| at < wake || wake < now)
                    {
                        let at = at.max(now);
                        end.wake = Some(at);
                        let server = which == SERVER;
                        self.queue.push(at, Happening::Socket { slot, server });
                    }
                    self.forget_if_closed(slot);
                    return;
                }
            }
        }
    }

    /// Notes that both ends have closed a connection; gives its slot back if its client has left.
    fn forget_if_closed(&mut self, slot: u32) {
        self.goes_on(slot);
        let now = self.now;
        let connection = &mut self.connections.all[slot as usize];
        let client = connection.client;
        if connection.has_closed() {
            let closing = connection.closing_until(now);
            self.connections.open -= 1;
            if let Some(state) = self.hosts[client as usize].as_client() {
                state.flow.closing = closing;
            }
        }
        let connection = &mut self.connections.all[slot as usize];
        if connection.is_gone || !connection.is_over() {
            return;
        }
        let of_client = &mut self.connections.of_clients[client as usize];
        if of_client.current == Some(slot) {
            return; // counted when its flow ends
        }
        connection.is_gone = true;
        of_client.open.retain(|open| *open != slot);
        self.connections.free.push(slot);
    }

    /// Takes an event of a socket to the endpoint above it.
    fn hear(&mut self, slot: u32, which: usize, event: Event) {
        let now = self.now;
        let (here, there) = self.hosts_of(slot, which);
        let connection = &mut self.connections.all[slot as usize];
        let (client, is_left) = (
            connection.client,
            self.connections.of_clients[connection.client as usize].current != Some(slot),
        );
        let peer = match which {
            CLIENT => self.hosts[there as usize].address,
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
                    self.client_connected(client);
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
                    self.detach(client);
                    if failed {
                        self.end_flow(client, false);
                    }
                }
            }
            Event::Closed => {}
        }
        if read > 0
            && let Some(client) = self.hosts[here as usize].as_client()
        {
            client.flow.received_bytes += read as u64;
            client.progresses(now);
        }
        self.drain(here, Tag::NONE);
    }

    /// A client's flow begins with its first connection, and goes on with later ones.
    fn client_connected(&mut self, client: u32) {
        let Some(slot) = self.connections.current(client) else {
            return;
        };
        let connection = &self.connections.all[slot as usize];
        let setup = connection.ends[CLIENT].socket.counters().setup;
        let is_first = connection.number == 0;
        let Some(state) = self.hosts[client as usize].as_client() else {
            return;
        };
        if is_first {
            state.flow.setup = setup;
            self.begin(client);
        } else if std::mem::take(&mut state.is_starting) {
            self.ask(client);
        }
    }

    /// A client's flow has ended: what it cost is counted now, and its connection closes.
    pub(super) fn flow_ended(&mut self, client: u32) {
        self.count_connection(client);
        if let Some(slot) = self.connections.current(client) {
            self.close_end(slot, CLIENT);
        }
    }
}
