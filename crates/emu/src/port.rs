//! The links of an emulator, each with its TUN devices and the radios of its clients' devices.

use std::collections::BTreeMap;
use std::thread;

use carob_cc::time::Instant;
use carob_sim::link::{DeviceRecord, Devices, Link, Verdict};
use carob_sim::spec::LinkRecord;

use crate::LinkConfig;
use crate::device_ports::DevicePorts;
use crate::engine::{Side, now_ns};
use crate::tun::Tun;

/// Links that one thread closes at the end.
const CLOSED_TOGETHER: usize = 32;

/// A link, the radios of the devices at its clients' side, and its TUN devices.
#[derive(Debug)]
pub(crate) struct Port {
    config: LinkConfig,
    link: Link,
    radios: Option<Devices>,
    pub(crate) clients: DevicePorts,
    /// Packets that wait for receive windows of their devices, by number.
    pub(crate) held: BTreeMap<u32, Box<[u8]>>,
    /// Number of the next of them.
    next_held: u32,
    /// Receive windows to come, with their devices.
    pub(crate) windows: Vec<(Instant, u32)>,
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
            link: Link::new(&config.spec, config.seed, &config.label),
            radios: Devices::on_link(&config.device, &config.spec, config.seed),
            clients: DevicePorts::default(),
            held: BTreeMap::new(),
            next_held: 0,
            windows: Vec::new(),
            began_ns: now_ns(),
            generation: 0,
            server,
            client,
        }
    }

    /// Restarts the link with other streams.
    pub(crate) fn restart(&mut self, seed: u64, label: String) {
        (self.config.seed, self.config.label) = (seed, label);
        self.link = Link::new(&self.config.spec, seed, &self.config.label);
        self.radios = Devices::on_link(&self.config.device, &self.config.spec, seed);
        self.clients = DevicePorts::default();
        self.held.clear();
        self.began_ns = now_ns();
        self.generation = self.generation.wrapping_add(1);
    }

    /// The link's own time.
    pub(crate) fn time(&self, now_ns: u64) -> Instant {
        Instant::from_micros(now_ns.saturating_sub(self.began_ns) / 1_000)
    }

    /// The fate of a packet on the link and at the radio of its device; none if it waits for a receive window.
    pub(crate) fn offer(&mut self, from: Side, now_ns: u64, packet: &[u8]) -> Option<Verdict> {
        let (now, bytes) = (self.time(now_ns), packet.len() as u32);
        let is_down = from == Side::Server;
        let direction = if is_down {
            &mut self.link.down
        } else {
            &mut self.link.up
        };
        let verdict = direction.offer(now, bytes);
        let Some(radios) = &mut self.radios else {
            return Some(verdict);
        };
        let device = self.clients.device(from, packet);
        let verdict = match verdict {
            Verdict::Deliver { at, .. } if is_down && radios.have_windows() => {
                radios.hold(device, self.next_held, at, bytes);
                self.held.insert(self.next_held, packet.into());
                self.next_held = self.next_held.wrapping_add(1);
                None
            }
            other => Some(radios.cross(device, is_down, now, other, bytes)),
        };
        let opens = radios.next_window(device, now);
        self.windows.extend(opens.map(|opens| (opens, device)));
        verdict
    }

    /// Opens a receive window of a device. Returns the packet that it completes, and its arrival.
    pub(crate) fn open(&mut self, device: u32, now: Instant) -> Option<(Instant, Box<[u8]>)> {
        let radios = self.radios.as_mut()?;
        let sent = radios.open(device, now);
        let opens = radios.next_window(device, now);
        self.windows.extend(opens.map(|opens| (opens, device)));
        let (number, arrives) = sent?;
        let packet = self.held.remove(&number)?;
        Some((arrives?, packet))
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

    pub(crate) fn record(&self) -> LinkRecord {
        LinkRecord {
            down: self.link.down.counters(),
            up: self.link.up.counters(),
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
