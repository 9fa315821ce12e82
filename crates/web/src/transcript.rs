//! One run, packet by packet: columns for the page to draw.
//!
//! Times are microseconds of virtual time. A column has a value for each packet, timer or sample.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use carob_cc::time::{Duration, Instant};
use carob_lab::run::{Captured, Content, RunRecord};
use carob_sim::link::{Buffer, Direction, DirectionSpec, ExtraDelay, LossSpec, TraceEnd, TraceRow};
use carob_sim::spec::{LinkNetworkSpec, NetworkSpec, Recording, RunSpec, Transport, Workload};
use carob_sim::tcp::Ranges;
use carob_sim::trace::{Event, SimEvent};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::CallError;
use crate::mesh_transcript;
use crate::source::Source;

/// The most packets that are recorded, each when sent and when it arrives.
const CAPTURED_MAX: u32 = 60_000;
/// The most events that are recorded.
const EVENTS_MAX: u32 = 400_000;
/// The most rows of a trace in a transcript; a longer one has the means over this number of steps.
const TRACE_STEPS: usize = 1_024;
/// Bytes of an IPv4 header, which each further fragment has.
const IP_HEADER: u32 = 20;
/// Type of a confirmable message (RFC 7252 3).
const CONFIRMABLE: u8 = 0;
/// Type of a TCP segment, which is none of RFC 7252.
const SEGMENT: u8 = 4;
/// The control bit SYN (RFC 9293 3.1).
const SYN: u8 = 2;

/// The end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Under way when the recording ended.
    Pending = 0,
    Arrived = 1,
    Lost = 2,
    Dropped = 3,
}

/// A packet on the link.
#[derive(Clone, Debug)]
struct Packet {
    is_up: bool,
    from: u32,
    to: u32,
    /// Exchange, or sequence number of a segment.
    item: u32,
    attempt: u8,
    is_retransmission: bool,
    /// Acknowledgment number of a segment.
    ack: u32,
    bytes: u32,
    sent: u64,
    /// Time at which its last bit left the bottleneck.
    departed: u64,
    arrived: u64,
    fate: Fate,
    /// Type, code and Message ID of its CoAP header; [`SEGMENT`], control bits and bytes of data of a segment.
    header: (u8, u8, u16),
    is_spurious: bool,
}

/// A sample of a client: round-trip time, RTO or timer.
#[derive(Clone, Debug, Default, Serialize)]
struct Samples {
    at: Vec<u64>,
    host: Vec<u32>,
    value: Vec<u64>,
    /// Item, or transmissions.
    of: Vec<u32>,
}

impl Samples {
    fn add(&mut self, at: u64, host: u32, value: u64, of: u32) {
        self.at.push(at);
        self.host.push(host);
        self.value.push(value);
        self.of.push(of);
    }
}

/// Runs one seed of one algorithm and returns its packets and samples.
pub(crate) fn watch(source: &Source, algorithm: &str, seed: u64) -> Result<Value, CallError> {
    let read = source.read()?;
    let plan = source.plan(&read, Some(seed), None)?;
    let job = plan
        .jobs()
        .iter()
        .find(|job| job.algorithm.name == algorithm)
        .ok_or_else(|| {
            CallError::new(
                format_args!("{algorithm} does not run in this scenario"),
                "choose another controller to watch",
            )
        })?;
    let mut spec = plan.spec(job);
    spec.record = Recording {
        events: EVENTS_MAX,
        packets: match spec.network {
            NetworkSpec::Link(_) => CAPTURED_MAX,
            NetworkSpec::Mesh(_) => 0,
        },
        moments: mesh_transcript::MOMENTS_MAX,
        ..Recording::default()
    };
    let record = carob_sim::run(&spec)?;
    let mut value = match &spec.network {
        NetworkSpec::Mesh(network) => mesh_transcript::transcript(&spec, network, &record)?,
        NetworkSpec::Link(network) => transcript(&spec, network, &record),
    };
    value["cell"] = job.cell.name.clone().into();
    Ok(value)
}

fn transcript(spec: &RunSpec, network: &LinkNetworkSpec, record: &RunRecord) -> Value {
    let packets = packets(spec, network, record);
    let link = &network.link;
    let hosts = spec.all_clients();
    let column = |of: &dyn Fn(&Packet) -> Value| packets.iter().map(of).collect::<Vec<Value>>();
    let recorded_until = match (record.packets.len() as u32, record.packets.last()) {
        (CAPTURED_MAX.., Some(last)) => last.at.as_micros(),
        _ => record.ended.as_micros(),
    };
    let mut value = json!({
        "clients": hosts,
        "ended": record.ended.as_micros(),
        "recorded_until": recorded_until,
        "hash": format!("{:016x}", record.trace_hash),
        "down": direction(&link.down, spec.seed),
        "up": direction(&link.up, spec.seed),
        "packets": {
            "up": column(&|p| u8::from(p.is_up).into()),
            "client": column(&|p| (if p.from < hosts { p.from } else { p.to }).into()),
            "item": column(&|p| p.item.into()),
            "attempt": column(&|p| p.attempt.into()),
            "bytes": column(&|p| p.bytes.into()),
            "sent": column(&|p| p.sent.into()),
            "departed": column(&|p| p.departed.into()),
            "arrived": column(&|p| p.arrived.into()),
            "fate": column(&|p| (p.fate as u8).into()),
            "type": column(&|p| p.header.0.into()),
            "code": column(&|p| p.header.1.into()),
            "id": column(&|p| p.header.2.into()),
            "again": column(&|p| u8::from(p.is_retransmission).into()),
            "spurious": column(&|p| u8::from(p.is_spurious).into()),
        },
    });
    value["tcp"] = (spec.measured.transport != Transport::Datagrams).into();
    if value["tcp"] == true {
        value["packets"]["ack"] = column(&|p| p.ack.into()).into();
    }
    for (name, samples) in samples(record) {
        value[name] = json!(samples);
    }
    value["moments"] = json!(moments(&packets, &record.events));
    value
}

/// Times at which a packet is sent, leaves the bottleneck or arrives, or a timer ends; each once, in order.
fn moments(packets: &[Packet], events: &[Event]) -> Vec<u64> {
    let of_packets = packets.iter().flat_map(|packet| {
        let arrived = (packet.fate == Fate::Arrived).then_some(packet.arrived);
        [Some(packet.sent), Some(packet.departed), arrived]
    });
    let timeouts = events.iter().map(|event| {
        matches!(event.what, SimEvent::TimedOut { .. }).then_some(event.at.as_micros())
    });
    let mut all: Vec<u64> = of_packets.chain(timeouts).flatten().collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn direction(spec: &DirectionSpec, seed: u64) -> Value {
    let extra = match spec.extra {
        ExtraDelay::Constant(extra) => (extra, extra),
        ExtraDelay::Uniform { low, high } => (low, high),
        ExtraDelay::Drawn(from) => (from.least(), from.mean()),
    };
    json!({
        "rate_bps": spec.rate_bps,
        "buffer_bytes": spec.buffer.bytes,
        "delay": spec.delay.as_micros(),
        "extra": [extra.0.as_micros(), extra.1.as_micros()],
        "trace": spec.replay.as_ref().map(|replay| {
            let means = replay.trace.steps(TRACE_STEPS);
            let values = match replay.trace.values() {
                [] => &means[..],
                rows if rows.len() > TRACE_STEPS => &means[..],
                rows => rows,
            };
            let column = |of: &dyn Fn(&TraceRow) -> Value| values.iter().map(of).collect::<Vec<Value>>();
            json!({
                "offset": replay.offset(seed).as_micros(),
                "length": replay.trace.length().as_micros(),
                "loops": replay.end == TraceEnd::Loop,
                "at": column(&|row| row.at.as_micros().into()),
                "rate_bps": column(&|row| row.rate_bps.into()),
                "delay": column(&|row| row.delay.map(Duration::as_micros).into()),
            })
        }),
    })
}

/// Round-trip times, RTOs, timers, timeouts, answered exchanges and those given up.
fn samples(record: &RunRecord) -> [(&'static str, Samples); 6] {
    let mut all = ["rtt", "rto", "timers", "timeouts", "answered", "abandoned"]
        .map(|name| (name, Samples::default()));
    for event in &record.events {
        let (place, value, of) = match event.what {
            SimEvent::Rtt { rtt, attempts } => (0, rtt, attempts.into()),
            SimEvent::Rto { rto } => (1, rto, 0),
            SimEvent::Armed { item, timeout, .. } => (2, timeout, item),
            SimEvent::TimedOut { item, .. } => (3, Duration::ZERO, item),
            SimEvent::Answered { item, .. } => (4, Duration::ZERO, item),
            SimEvent::Abandoned { item } => (5, Duration::ZERO, item),
            _ => continue,
        };
        let samples = &mut all[place].1;
        samples.add(event.at.as_micros(), event.host, value.as_micros(), of);
    }
    all
}

/// Packets in order of sending. Events and captures of the same packets are in the same order, so that each
/// event finds its ends and its header there.
fn packets(spec: &RunSpec, network: &LinkNetworkSpec, record: &RunRecord) -> Vec<Packet> {
    let is_server_constrained = matches!(spec.measured.workload, Workload::Notifications(_));
    let clients = spec.all_clients();
    let mut captures = record.packets.iter();
    let mut packets: Vec<Packet> = Vec::new();
    let mut under_way: BTreeMap<(u32, u32), VecDeque<usize>> = BTreeMap::new();
    let link = &network.link;
    let mut lines = [&link.down, &link.up].map(|direction| Line::of(direction, spec.seed));
    let mut segments = Segments::default();
    for event in &record.events {
        let at = event.at.as_micros();
        match event.what {
            SimEvent::Sent { .. } | SimEvent::Segment { .. } => {
                let Some(captured) = captures.next() else {
                    break;
                };
                under_way
                    .entry((captured.from, captured.to))
                    .or_default()
                    .push_back(packets.len());
                let mut packet = segments.sent(event, captured);
                packet.is_up = (captured.from < clients) != is_server_constrained;
                let line = &mut lines[usize::from(packet.is_up)];
                packet.departed = line.departure(at, packet.bytes, network.mtu_bytes);
                packets.push(packet);
            }
            SimEvent::Lost { .. }
            | SimEvent::DropFull { .. }
            | SimEvent::SegmentLost { .. }
            | SimEvent::SegmentDropFull { .. } => {
                let Some(packet) = packets.last_mut() else {
                    continue;
                };
                let (from, to) = (packet.from, packet.to);
                under_way.entry((from, to)).or_default().pop_back();
                packet.fate = Fate::Lost;
                if matches!(
                    event.what,
                    SimEvent::DropFull { .. } | SimEvent::SegmentDropFull { .. }
                ) {
                    packet.fate = Fate::Dropped;
                    packet.departed = at;
                    lines[usize::from(packet.is_up)].drop_last();
                }
            }
            SimEvent::Arrived { .. } | SimEvent::SegmentArrived { .. } => {
                let Some(captured) = captures.next() else {
                    break;
                };
                let waiting = under_way.entry((captured.from, captured.to)).or_default();
                if let Some(place) = waiting.pop_front() {
                    (packets[place].arrived, packets[place].fate) = (at, Fate::Arrived);
                }
            }
            _ => {}
        }
    }
    mark_spurious(&mut packets);
    mark_spurious_segments(&mut packets);
    packets
}

/// Transmissions of the segments of connections so far, by sender, receiver and sequence number.
#[derive(Debug, Default)]
struct Segments(BTreeMap<(u32, u32, u32), u8>);

impl Segments {
    /// A packet as it leaves its sender, without its direction.
    fn sent(&mut self, event: &Event, captured: &Captured) -> Packet {
        let at = event.at.as_micros();
        let mut packet = Packet {
            is_up: false,
            from: captured.from,
            to: captured.to,
            item: 0,
            attempt: 0,
            is_retransmission: false,
            ack: 0,
            bytes: 0,
            sent: at,
            departed: at,
            arrived: 0,
            fate: Fate::Pending,
            header: header(&captured.content),
            is_spurious: false,
        };
        match event.what {
            SimEvent::Sent {
                item,
                attempt,
                bytes,
            } => {
                (packet.item, packet.attempt, packet.bytes) = (item, attempt, bytes);
                packet.is_retransmission = packet.header.0 == CONFIRMABLE && attempt > 0;
            }
            SimEvent::Segment { segment, again } => {
                (packet.item, packet.ack) = (segment.seq, segment.ack);
                packet.is_retransmission = again;
                let key = (packet.from, packet.to, packet.item);
                let earlier = self.0.entry(key).or_default();
                *earlier = if again { earlier.saturating_add(1) } else { 0 };
                packet.attempt = *earlier;
            }
            _ => {}
        }
        if let Content::Segment(segment) = &captured.content {
            packet.bytes = segment.wire_bytes();
        }
        packet
    }
}

/// Type, code and Message ID of a CoAP message (RFC 7252 3); [`SEGMENT`], control bits and bytes of data of a segment.
fn header(content: &Content) -> (u8, u8, u16) {
    match content {
        Content::Datagram(bytes) if bytes.len() >= 4 => (
            bytes[0] >> 4 & 3,
            bytes[1],
            u16::from_be_bytes([bytes[2], bytes[3]]),
        ),
        Content::Segment(segment) => (SEGMENT, segment.flags.0, segment.payload.len() as u16),
        Content::Datagram(_) => (0, 0, 0),
    }
}

/// Marks retransmissions of items of which an earlier transmission and the reply to it were not lost.
fn mark_spurious(packets: &mut [Packet]) {
    // By the sender and the receiver of a message, its item and its transmission.
    let mut replied: BTreeMap<(u32, u32, u32), u8> = BTreeMap::new();
    let mut arrived: BTreeSet<(u32, u32, u32, u8)> = BTreeSet::new();
    let datagrams = packets.iter().filter(|p| p.header.0 != SEGMENT);
    for packet in datagrams.filter(|p| p.fate == Fate::Arrived) {
        arrived.insert((packet.from, packet.to, packet.item, packet.attempt));
    }
    for (from, to, item, attempt) in &arrived {
        if arrived.contains(&(*to, *from, *item, *attempt)) {
            let first = replied.entry((*from, *to, *item)).or_insert(*attempt);
            *first = (*first).min(*attempt);
        }
    }
    for packet in packets
        .iter_mut()
        .filter(|p| p.is_retransmission && p.header.0 != SEGMENT)
    {
        let first = replied.get(&(packet.from, packet.to, packet.item));
        packet.is_spurious = first.is_some_and(|first| *first < packet.attempt);
    }
}

/// Marks retransmissions of data of which all has passed the link before.
fn mark_spurious_segments(packets: &mut [Packet]) {
    let mut carried: BTreeMap<(u32, u32), Ranges> = BTreeMap::new();
    for packet in packets.iter_mut().filter(|p| p.header.0 == SEGMENT) {
        let (from, to) = (packet.from, packet.to);
        if packet.header.1 & SYN != 0 && !packet.is_retransmission {
            // A new connection restarts the count.
            carried.remove(&(from, to));
        }
        let data = u32::from(packet.header.2);
        let ranges = carried.entry((from, to)).or_default();
        let end = packet.item.wrapping_add(data);
        packet.is_spurious = packet.is_retransmission && data > 0 && ranges.has(packet.item, end);
        if data > 0 && !matches!(packet.fate, Fate::Lost | Fate::Dropped) {
            ranges.add(packet.item, end);
        }
    }
}

/// The line of a direction: times at which packets leave its bottleneck, as the link computes them.
#[derive(Debug)]
struct Line {
    direction: Direction,
    /// The last packet, until it is known whether the buffer had room for it.
    last: Option<(Instant, u32)>,
}

impl Line {
    /// The line without losses, with room for every packet.
    fn of(spec: &DirectionSpec, seed: u64) -> Self {
        let spec = DirectionSpec {
            buffer: Buffer::bytes(u64::MAX),
            loss: LossSpec::None,
            ..spec.clone()
        };
        Self {
            direction: Direction::new(&spec, seed, "line"),
            last: None,
        }
    }

    fn departure(&mut self, now: u64, bytes: u32, mtu: u32) -> u64 {
        if let Some((at, bytes)) = self.last.take() {
            self.direction.offer(at, bytes);
        }
        let more = bytes
            .saturating_sub(IP_HEADER)
            .div_ceil(mtu.saturating_sub(IP_HEADER).max(1));
        let bytes = bytes + more.saturating_sub(1) * IP_HEADER;
        let now = Instant::from_micros(now);
        self.last = Some((now, bytes));
        (now + self.direction.backlog(now, bytes)).as_micros()
    }

    /// Takes back the last packet, which was dropped before the bottleneck.
    fn drop_last(&mut self) {
        self.last = None;
    }
}
