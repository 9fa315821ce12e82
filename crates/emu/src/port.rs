//! The links of an emulator, each with its TUN devices, the radios of its clients' devices and the
//! receive queue of its server.

use std::collections::BTreeMap;
use std::thread;

use carob_cc::time::Instant;
use carob_sim::link::{
    DeviceRecord, Devices, Direction, FairQueue, Link, LinkSpec, Verdict, Waiting,
};
use carob_sim::server_queue::ServerQueue;
use carob_sim::spec::{LinkRecord, ServerRecord};

use crate::LinkConfig;
use crate::engine::{Side, now_ns};
use crate::packet::{DevicePorts, exchange};
use crate::tun::Tun;

/// Links that one thread closes at the end.
const CLOSED_TOGETHER: usize = 32;

/// An event of a link at its time.
#[derive(Debug)]
pub(crate) enum Due {
    /// The arrival of a packet at this side.
    Packet(Side, Box<[u8]>),
    /// A receive window of this device.
    Window(u32),
    /// A free line for the queues of packets that this side sends.
    Line(Side),
    /// The completion of the server's work on a datagram.
    Served,
}

/// A packet that waits for a receive window or in a queue of its flow, with its device.
#[derive(Debug)]
struct Held {
    device: u32,
    packet: Box<[u8]>,
}

/// A direction of a link, and the queues in front of it.
#[derive(Debug)]
struct Line {
    direction: Direction,
    queues: Option<FairQueue>,
    /// Whether an event that serves the queues is to come.
    is_served: bool,
}

impl Line {
    fn new(direction: Direction, queues: Option<FairQueue>) -> Self {
        Self {
            direction,
            queues,
            is_served: false,
        }
    }

    /// Both directions of a link, by the side that sends: server, client.
    fn both(config: &LinkConfig) -> [Self; 2] {
        let LinkSpec { down, up } = &config.spec;
        let behind = LinkSpec {
            down: down.behind_queues(),
            up: up.behind_queues(),
        };
        let link = Link::new(&behind, config.seed, &config.label);
        [
            Self::new(link.down, FairQueue::of(down)),
            Self::new(link.up, FairQueue::of(up)),
        ]
    }
}

/// A link, the radios of the devices at its clients' side, and its TUN devices.
#[derive(Debug)]
pub(crate) struct Port {
    config: LinkConfig,
    /// Directions by the side that sends.
    lines: [Line; 2],
    radios: Option<Devices>,
    server_queue: Option<ServerQueue<Box<[u8]>>>,
    pub(crate) clients: DevicePorts,
    /// Packets that wait for receive windows and lines, by number.
    held: BTreeMap<u32, Held>,
    /// Number of the next of them.
    next_held: u32,
    /// Events to come that the engine has not taken yet.
    pub(crate) coming: Vec<(Instant, Due)>,
    /// Beginning of the link's own time.
    began_ns: u64,
    /// Packets of earlier generations are not delivered.
    pub(crate) generation: u32,
    pub(crate) server: Tun,
    pub(crate) client: Tun,
}

impl Port {
    pub(crate) fn new(config: &LinkConfig, server: Tun, client: Tun) -> Self {
        Self {
            config: config.clone(),
            lines: Line::both(config),
            radios: Devices::on_link(&config.device, &config.spec, config.seed),
            server_queue: ServerQueue::new(&config.server, config.seed),
            clients: DevicePorts::default(),
            held: BTreeMap::new(),
            next_held: 0,
            coming: Vec::new(),
            began_ns: now_ns(),
            generation: 0,
            server,
            client,
        }
    }

    /// Restarts the link with other streams.
    pub(crate) fn restart(&mut self, seed: u64, label: String) {
        (self.config.seed, self.config.label) = (seed, label);
        self.lines = Line::both(&self.config);
        self.radios = Devices::on_link(&self.config.device, &self.config.spec, seed);
        self.server_queue = ServerQueue::new(&self.config.server, seed);
        self.clients = DevicePorts::default();
        self.held.clear();
        self.coming.clear();
        self.began_ns = now_ns();
        self.generation = self.generation.wrapping_add(1);
    }

    /// The link's own time.
    fn time(&self, now_ns: u64) -> Instant {
        Instant::from_micros(now_ns.saturating_sub(self.began_ns) / 1_000)
    }

    /// Packets that wait for receive windows and lines.
    pub(crate) fn waiting(&self) -> usize {
        self.held.len()
    }

    /// Sends a packet into the link.
    pub(crate) fn send(&mut self, from: Side, now_ns: u64, packet: &[u8]) {
        let now = self.time(now_ns);
        let line = &self.lines[from as usize];
        if line.queues.is_none() && self.radios.is_none() {
            self.offer(from, now, 0, packet.into());
            return;
        }
        let device = self.clients.device(from, packet);
        if line.queues.is_some() {
            self.enqueue(from, now, device, packet);
        } else {
            self.offer(from, now, device, packet.into());
        }
    }

    /// Puts a packet into the queue of its device's flow.
    fn enqueue(&mut self, from: Side, now: Instant, device: u32, packet: &[u8]) {
        let number = self.hold(device, packet.into());
        let line = &mut self.lines[from as usize];
        let queues = line.queues.as_mut();
        let dropped = queues.map(|queues| queues.enqueue(now, device, number, packet.len() as u32));
        if !std::mem::replace(&mut line.is_served, true) {
            self.coming.push((now, Due::Line(from)));
        }
        self.forget(dropped.unwrap_or_default());
    }

    /// Sends the next packet from the queues of flows, when the line is free.
    fn serve(&mut self, from: Side, now: Instant) {
        let line = &mut self.lines[from as usize];
        let Some(queues) = &mut line.queues else {
            return;
        };
        let mut dropped = Vec::new();
        let next = queues.dequeue(now, &mut dropped);
        line.is_served = next.is_some();
        self.forget(dropped);
        let next = next.and_then(|next| self.held.remove(&next.datagram));
        if let Some(Held { device, packet }) = next {
            let free = self.offer(from, now, device, packet);
            self.coming.push((free, Due::Line(from)));
        }
    }

    /// Drops packets of the queues of flows.
    fn forget(&mut self, dropped: Vec<Waiting>) {
        for waiting in dropped {
            self.held.remove(&waiting.datagram);
        }
    }

    /// Keeps a packet. Returns its number.
    fn hold(&mut self, device: u32, packet: Box<[u8]>) -> u32 {
        let number = self.next_held;
        self.held.insert(number, Held { device, packet });
        self.next_held = number.wrapping_add(1);
        number
    }

    /// Offers a packet to its direction and to the radio of its device. Returns when the line is free.
    fn offer(&mut self, from: Side, now: Instant, device: u32, packet: Box<[u8]>) -> Instant {
        let (bytes, is_down) = (packet.len() as u32, from == Side::Server);
        let mut verdict = self.lines[from as usize].direction.offer(now, bytes);
        let free = match verdict {
            Verdict::Deliver { departed, .. } | Verdict::Lost { departed } => departed.max(now),
            Verdict::DropFull => now,
        };
        if let Some(radios) = &mut self.radios {
            match verdict {
                Verdict::Deliver { at, .. } if is_down && radios.have_windows() => {
                    let number = self.hold(device, packet);
                    if let Some(radios) = &mut self.radios {
                        radios.hold(device, number, at, bytes);
                    }
                    self.await_window(device, now);
                    return free;
                }
                other => verdict = radios.cross(device, is_down, now, other, bytes),
            }
            self.await_window(device, now);
        }
        if let Verdict::Deliver { at, duplicated, .. } = verdict {
            let to = from.other();
            if duplicated {
                self.coming.push((at, Due::Packet(to, packet.clone())));
            }
            self.coming.push((at, Due::Packet(to, packet)));
        }
        free
    }

    /// Makes an event of the next receive window of a device, if packets wait for it.
    fn await_window(&mut self, device: u32, now: Instant) {
        let radios = self.radios.as_mut();
        let opens = radios.and_then(|radios| radios.next_window(device, now));
        self.coming
            .extend(opens.map(|opens| (opens, Due::Window(device))));
    }

    /// Opens a receive window of a device.
    fn open(&mut self, device: u32, now: Instant) {
        let Some(radios) = &mut self.radios else {
            return;
        };
        let sent = radios.open(device, now);
        self.await_window(device, now);
        if let Some((number, arrives)) = sent
            && let Some(Held { packet, .. }) = self.held.remove(&number)
            && let Some(at) = arrives
        {
            self.coming.push((at, Due::Packet(Side::Client, packet)));
        }
    }

    /// Handles an event at its time. Returns a packet that arrives at its host now.
    pub(crate) fn handle(&mut self, due: Due, due_ns: u64) -> Option<(Side, Box<[u8]>)> {
        let now = self.time(due_ns);
        match due {
            Due::Packet(Side::Server, packet) if self.server_queue.is_some() => {
                return self.reach_server(packet, now);
            }
            Due::Packet(to, packet) => return Some((to, packet)),
            Due::Window(device) => self.open(device, now),
            Due::Line(from) => self.serve(from, now),
            Due::Served => {
                let queue = self.server_queue.as_mut()?;
                let packet = queue.complete(now)?;
                self.work(now);
                return Some((Side::Server, packet));
            }
        }
        None
    }

    /// Puts a datagram into the server's receive queue. Returns a packet that does not wait there.
    fn reach_server(&mut self, packet: Box<[u8]>, now: Instant) -> Option<(Side, Box<[u8]>)> {
        let Some(item) = exchange(&packet) else {
            return Some((Side::Server, packet));
        };
        let device = self.clients.device(Side::Client, &packet);
        let queue = self.server_queue.as_mut()?;
        if queue.push(device, item, packet).is_ok() && queue.is_idle() {
            self.work(now);
        }
        None
    }

    /// Begins the server's work on the next datagram.
    fn work(&mut self, now: Instant) {
        let queue = self.server_queue.as_mut();
        let until = queue.and_then(|queue| queue.begin(now));
        self.coming.extend(until.map(|until| (until, Due::Served)));
    }

    /// The system's time of a time of the link.
    pub(crate) fn due_ns(&self, at: Instant) -> u64 {
        let since = at.as_micros().saturating_mul(1_000);
        self.began_ns.saturating_add(since)
    }

    pub(crate) fn tun(&self, side: Side) -> &Tun {
        match side {
            Side::Server => &self.server,
            Side::Client => &self.client,
        }
    }

    /// Records of its devices; none if their energy is not measured.
    pub(crate) fn devices(&self, now_ns: u64) -> Vec<DeviceRecord> {
        let records = |radios: &Devices| radios.records(self.time(now_ns));
        self.radios.as_ref().map(records).unwrap_or_default()
    }

    /// The record of its server; none without a receive queue.
    pub(crate) fn server_record(&self, now_ns: u64) -> Option<ServerRecord> {
        let queue = self.server_queue.as_ref()?;
        Some(queue.record(self.time(now_ns)))
    }

    pub(crate) fn record(&self) -> LinkRecord {
        let [down, up] = self.lines.each_ref().map(|line| {
            let counters = line.direction.counters();
            let queues = line.queues.as_ref();
            queues.map_or(counters, |queues| queues.counters_with(counters))
        });
        LinkRecord {
            down,
            up,
            ..LinkRecord::default()
        }
    }
}

/// All links.
#[derive(Debug)]
pub(crate) struct Ports(pub(crate) Vec<Port>);

impl Ports {
    pub(crate) fn new(ports: Vec<Port>) -> Self {
        Self(ports)
    }

    pub(crate) fn records(&self) -> Vec<LinkRecord> {
        self.0.iter().map(Port::record).collect()
    }
}

impl Drop for Ports {
    /// Closes the devices on several threads: for each the kernel waits some 15 ms for a grace
    /// period, and the waits of several threads overlap.
    fn drop(&mut self) {
        let ports = &mut self.0;
        thread::scope(|scope| {
            while !ports.is_empty() {
                let some = ports.split_off(ports.len().saturating_sub(CLOSED_TOGETHER));
                scope.spawn(move || drop(some));
            }
        });
    }
}
