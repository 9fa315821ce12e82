//! Connections: a TCP socket at each end, and the endpoints that speak over them.
//!
//! An endpoint's messages are written to its socket before that is drained, so messages made at
//! one moment leave in one flight. What a socket does not take waits, and its endpoint is told
//! that the connection is congested until it is taken.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::endpoint::Disconnect;

use crate::capture::{Captured, Content};
use crate::host::{Tag, number_of};
use crate::link::Verdict;
use crate::random::Stream;
use crate::spec::{CLIENTS_MAX, FlowRecord, Recording, Recovery, Sample, Transport};
use crate::tcp::segment::{Ecn, Flags};
use crate::tcp::{Event, Output, Segment, Socket};
use crate::trace::{SegmentTag, What};

use super::{Happening, RunError, World};

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// All connections of a run; none over datagrams.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// One per client, of which each has its number; made when the first client connects.
    of_clients: Vec<Option<Connection>>,
    /// Segments on their way.
    travelling: Vec<Travelling>,
    free: Vec<u32>,
    /// Ends that were given something and are not drained yet, as (client, end).
    fed: Vec<(u32, usize)>,
}

impl Connections {
    pub(super) fn is_used(&self) -> bool {
        !self.of_clients.is_empty()
    }

    fn end(&mut self, client: u32, end: usize) -> Option<&mut End> {
        let connection = self.of_clients.get_mut(client as usize)?.as_mut()?;
        Some(&mut connection.ends[end])
    }
}

/// The connection of a client.
#[derive(Debug)]
struct Connection {
    /// How many the client made before.
    number: u32,
    ends: [End; 2],
    /// What the server has sent in copies that were not lost.
    carried: Ranges,
    /// Segments it sent again although they had been.
    spurious: u64,
}

#[derive(Debug)]
struct End {
    socket: Socket,
    wake: Option<Instant>,
    /// What the socket has not taken yet, in order.
    rest: VecDeque<Bytes>,
    /// Close once that is taken.
    closing: bool,
    connected: bool,
    /// The sequence number of our SYN, once it was sent.
    first: Option<u32>,
    /// The end of what was sent, counted from that.
    sent: u32,
}

#[derive(Debug, Default)]
struct Travelling {
    client: u32,
    /// Of which of the client's connections.
    number: u32,
    to: usize,
    tag: Option<SegmentTag>,
    segment: Segment,
}

/// Ranges of bytes, in order and apart.
#[derive(Debug, Default)]
struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    fn has(&self, from: u32, to: u32) -> bool {
        let at = self.0.partition_point(|range| range.1 < to);
        self.0.get(at).is_some_and(|range| range.0 <= from)
    }

    fn add(&mut self, from: u32, to: u32) {
        // Those that touch it become one with it.
        let first = self.0.partition_point(|range| range.1 < from);
        let end = self.0.partition_point(|range| range.0 <= to);
        let merged = self.0[first..end].iter();
        let (from, to) = merged.fold((from, to), |all, range| {
            (all.0.min(range.0), all.1.max(range.1))
        });
        self.0.splice(first..end, [(from, to)]);
    }
}

impl World<'_> {
    /// A client connects, for the first time or anew.
    pub(super) fn connect(&mut self, client: u32) {
        let Transport::Connections(settings) = &self.spec.transport else {
            return;
        };
        let all = &mut self.connections.of_clients;
        if all.is_empty() {
            all.resize_with(self.spec.clients as usize, || None);
        }
        let Some(place) = all.get_mut(client as usize) else {
            return; // the server, which makes no connections
        };
        let number = place.as_ref().map_or(0, |before| before.number + 1);
        let made = |label: &str| {
            let index = number.wrapping_mul(CLIENTS_MAX).wrapping_add(client);
            Socket::new(settings, Stream::indexed(self.spec.seed, label, index)).map(|socket| End {
                socket,
                wake: None,
                rest: VecDeque::new(),
                closing: false,
                connected: false,
                first: None,
                sent: 0,
            })
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
        *place = Some(Connection {
            number,
            ends,
            carried: Ranges::default(),
            spurious: 0,
        });
        self.connections.fed.push((client, CLIENT));
        if number > 0 {
            let (server, address) = (self.server(), self.hosts[client as usize].address);
            let endpoint = &mut self.hosts[server as usize].endpoint;
            // The peer's new connection says that the old one is gone.
            endpoint.disconnected(self.now, address, Disconnect::Broken);
            self.drain(server, Tag::NONE);
        }
    }

    /// The connection's client and the end at host `number` that leads to `peer`.
    fn end_of(&self, number: u32, peer: SocketAddr) -> (u32, usize) {
        if number == self.server() {
            (number_of(peer), SERVER)
        } else {
            (number, CLIENT)
        }
    }

    /// A host says something to a peer.
    pub(super) fn say(&mut self, number: u32, peer: SocketAddr, bytes: Bytes) {
        let (client, which) = self.end_of(number, peer);
        let now = self.now;
        let Some(end) = self.connections.end(client, which) else {
            return;
        };
        end.rest.push_back(bytes);
        let was_congested = end.rest.len() > 1;
        end.write(now);
        let congested = !end.rest.is_empty();
        self.connections.fed.push((client, which));
        if congested && !was_congested {
            let endpoint = &mut self.hosts[number as usize].endpoint;
            endpoint.set_congested(now, peer, true);
        }
    }

    /// A host closes its connection with a peer.
    pub(super) fn close(&mut self, number: u32, peer: SocketAddr) {
        let (client, which) = self.end_of(number, peer);
        self.close_end(client, which);
    }

    fn close_end(&mut self, client: u32, which: usize) {
        let now = self.now;
        if let Some(end) = self.connections.end(client, which) {
            end.closing = true;
            if end.rest.is_empty() {
                end.socket.close(now);
            }
            self.connections.fed.push((client, which));
        }
    }

    /// Drains every socket that was given something, until all wait.
    pub(super) fn settle(&mut self) {
        while let Some((client, which)) = self.connections.fed.pop() {
            self.drain_socket(client, which);
        }
    }

    /// The time of an end has come.
    pub(super) fn socket_wakes(&mut self, client: u32, server: bool) {
        let (now, which) = (self.now, usize::from(server));
        let Some(end) = self.connections.end(client, which) else {
            return;
        };
        if end.wake != Some(now) {
            return; // an earlier wake-up took its place
        }
        end.wake = None;
        end.socket.handle_timeout(now);
        self.drain_socket(client, which);
        self.settle();
    }

    /// A segment reaches an end.
    pub(super) fn segment_arrives(&mut self, slot: u32) {
        let Travelling {
            client,
            number,
            to,
            tag,
            segment,
        } = std::mem::take(&mut self.connections.travelling[slot as usize]);
        self.connections.free.push(slot);
        let (here, there) = self.hosts_of(client, to);
        if let Some(segment) = tag {
            self.trace
                .add(self.now, here, What::SegmentArrived { segment });
        }
        self.capture_segment(here, there, here, &segment, number);
        let now = self.now;
        let connection = self.connections.of_clients[client as usize].as_mut();
        let Some(connection) = connection.filter(|c| c.number == number) else {
            return; // of a connection that is gone
        };
        connection.ends[to].socket.handle_segment(now, &segment);
        self.drain_socket(client, to);
        self.settle();
    }

    /// The hosts at an end and at the other.
    fn hosts_of(&self, client: u32, which: usize) -> (u32, u32) {
        if which == CLIENT {
            (client, self.server())
        } else {
            (self.server(), client)
        }
    }

    fn drain_socket(&mut self, client: u32, which: usize) {
        let now = self.now;
        while let Some(end) = self.connections.end(client, which) {
            match end.socket.poll() {
                Output::Transmit(segment) => self.offer_segment(client, which, segment),
                Output::Event(event) => self.hear(client, which, event),
                Output::Wait(deadline) => {
                    if let Some(at) = deadline
                        && end.wake.is_none_or(|wake| at < wake || wake < now)
                    {
                        let at = at.max(now);
                        end.wake = Some(at);
                        let server = which == SERVER;
                        self.queue.push(at, Happening::Socket { client, server });
                    }
                    return;
                }
            }
        }
    }

    /// Takes an event of a socket to the endpoint above it.
    fn hear(&mut self, client: u32, which: usize, event: Event) {
        let now = self.now;
        let (here, there) = self.hosts_of(client, which);
        let peer = self.hosts[there as usize].address;
        let Some(end) = self.connections.end(client, which) else {
            return;
        };
        let endpoint = &mut self.hosts[here as usize].endpoint;
        let mut read = false;
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
                    read = true;
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
                endpoint.disconnected(now, peer, why);
                if which == CLIENT && !end.connected {
                    self.end_flow(client, false);
                }
            }
            Event::Closed => {}
        }
        if read && let Some(client) = self.hosts[here as usize].as_client() {
            client.progresses(now);
        }
        self.drain(here, Tag::NONE);
    }

    /// A client's flow begins with its first connection; on later ones it goes on.
    fn client_connected(&mut self, client: u32) {
        let connection = self.connections.of_clients[client as usize].as_ref();
        let setup = connection.map(|c| (c.number, c.ends[CLIENT].socket.counters().setup));
        if let (Some((0, setup)), Some(state)) = (setup, self.hosts[client as usize].as_client()) {
            state.flow.setup = setup;
            self.begin(client);
        }
    }

    /// A client's flow has ended: what it cost is counted now, and its connection closes.
    pub(super) fn flow_ended(&mut self, client: u32) {
        self.count_connection(client);
        self.close_end(client, CLIENT);
    }

    /// Counts what the server's end did, once, into the client's flow.
    ///
    /// Of a client that had to connect anew, its last connection counts.
    pub(super) fn count_connection(&mut self, client: u32) {
        let now = self.now;
        let Some(Some(connection)) = self.connections.of_clients.get(client as usize) else {
            return;
        };
        let Some(state) = self.hosts[client as usize].as_client() else {
            return;
        };
        let flow = &mut state.flow;
        if flow.segments.is_some() {
            return; // when the flow ended
        }
        let server = &connection.ends[SERVER].socket;
        let counters = server.counters();
        flow.segments = Some(counters.data_segments);
        flow.transmissions = counters.data_segments;
        flow.retransmissions = counters.retransmissions;
        let new = counters.data_segments - counters.retransmissions;
        flow.exchanges = u32::try_from(new).unwrap_or(u32::MAX);
        flow.timeouts = counters.timeouts;
        flow.spurious = connection.spurious;
        flow.recovery = Some(Recovery {
            entered: counters.recoveries,
            time: counters.in_recovery,
            first_timeout: counters.first_timeout.map(|at| at.since(flow.started)),
            rto_peak: counters.rto_peak,
        });
        sample_timer(flow, server, now);
    }

    fn offer_segment(&mut self, client: u32, which: usize, mut segment: Segment) {
        let (here, there) = self.hosts_of(client, which);
        let now = self.now;
        let Some(Some(connection)) = self.connections.of_clients.get_mut(client as usize) else {
            return;
        };
        let number = connection.number;
        let (tag, again) = connection.tag(which, there, &segment);
        let spurious = which == SERVER && again && tag.data > 0;
        let end_of_data = tag.seq.wrapping_add(u32::from(tag.data));
        if spurious && connection.carried.has(tag.seq, end_of_data) {
            connection.spurious += 1;
        }
        self.trace.add(
            now,
            here,
            What::Segment {
                segment: tag,
                again,
            },
        );
        self.capture_segment(here, here, there, &segment, number);
        let direction = if which == SERVER {
            &mut self.link.down
        } else {
            &mut self.link.up
        };
        let capable = segment.ecn != Ecn::NotCapable;
        let (at, marked) = match direction.offer_packet(now, segment.wire_bytes(), capable) {
            Verdict::Deliver { at, marked, .. } => (at, marked),
            Verdict::DropFull => {
                let segment = tag;
                return self.trace.add(now, here, What::SegmentDropFull { segment });
            }
            Verdict::Lost { .. } => {
                let segment = tag;
                return self.trace.add(now, here, What::SegmentLost { segment });
            }
        };
        if marked {
            segment.ecn = Ecn::Experienced;
        }
        let all = &mut self.connections;
        if let (SERVER, 1.., Some(Some(connection))) =
            (which, tag.data, all.of_clients.get_mut(client as usize))
        {
            connection.carried.add(tag.seq, end_of_data);
        }
        let travelling = Travelling {
            client,
            number,
            to: 1 - which,
            tag: Some(SegmentTag { peer: here, ..tag }),
            segment,
        };
        let slot = if let Some(slot) = all.free.pop() {
            all.travelling[slot as usize] = travelling;
            slot
        } else {
            all.travelling.push(travelling);
            all.travelling.len() as u32 - 1
        };
        self.queue.push(at, Happening::Segment { slot });
    }

    /// Keeps a segment that passes by host `at`, if packets are recorded.
    fn capture_segment(&mut self, at: u32, from: u32, to: u32, segment: &Segment, number: u32) {
        if self.is_capturing() {
            self.captured.push(Captured {
                at: self.now,
                host: at,
                from,
                to,
                content: Content::Segment {
                    segment: segment.clone(),
                    connection: number,
                },
            });
        }
    }

    /// Whether another packet is to be kept.
    pub(super) fn is_capturing(&self) -> bool {
        let most = self.spec.record.packets.min(Recording::PACKETS_MAX);
        self.captured.len() < most as usize
    }
}

impl End {
    /// Writes what waits, as far as the socket takes it.
    fn write(&mut self, now: Instant) {
        while let Some(mut bytes) = self.rest.pop_front() {
            let taken = self.socket.write(now, bytes.clone());
            if taken < bytes.len() {
                self.rest.push_front(bytes.split_off(taken));
                return;
            }
        }
    }
}

impl Connection {
    /// A segment's tag as its sender sees it, and whether its data, or its SYN, were sent before.
    fn tag(&mut self, which: usize, peer: u32, segment: &Segment) -> (SegmentTag, bool) {
        let others = self.ends[1 - which].first;
        let end = &mut self.ends[which];
        let syn = segment.flags.has(Flags::SYN);
        let again_syn = syn && end.first.is_some();
        let first = *end.first.get_or_insert(segment.seq);
        let seq = segment.seq.wrapping_sub(first);
        let data = segment.payload.len() as u32;
        let until = seq.wrapping_add(data);
        let again = again_syn || (data > 0 && seq < end.sent);
        end.sent = end.sent.max(until);
        let ack = match others {
            Some(others) if segment.flags.has(Flags::ACK) => segment.ack.wrapping_sub(others),
            _ => 0,
        };
        let tag = SegmentTag {
            peer,
            seq,
            data: data as u16,
            flags: segment.flags.0,
            ack,
        };
        (tag, again)
    }
}

/// Adds the retransmission timeouts of a socket's history, whenever they changed.
fn sample_timer(flow: &mut FlowRecord, socket: &Socket, now: Instant) {
    let mut last: Option<Duration> = None;
    for point in socket.points().iter().filter(|point| point.at <= now) {
        if last != Some(point.rto) {
            last = Some(point.rto);
            flow.rto.push(Sample {
                at: point.at,
                value: point.rto,
                attempts: 1,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one_and_holes_stay() {
        let mut ranges = Ranges::default();
        for (from, to) in [(1, 8), (8, 20), (30, 40), (50, 60)] {
            ranges.add(from, to);
        }
        assert_eq!(ranges.0, [(1, 20), (30, 40), (50, 60)]);
        assert!(ranges.has(1, 20) && ranges.has(5, 7) && ranges.has(31, 40));
        assert!(!ranges.has(15, 25) && !ranges.has(20, 30) && !ranges.has(60, 61));
        ranges.add(20, 45);
        assert_eq!(ranges.0, [(1, 45), (50, 60)]);
        ranges.add(45, 50);
        assert_eq!(ranges.0, [(1, 60)]);
        ranges.add(5, 6);
        assert_eq!(ranges.0, [(1, 60)]);
    }
}
