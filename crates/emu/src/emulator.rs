//! The emulator: links between two namespaces, from their creation to the verdict on the run.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use carob_sim::link::{DeviceRecord, DeviceSpec, LinkSpec, PACKETS_MAX};
use carob_sim::spec::{LinkNetworkSpec, LinkRecord, RunSpec, ServerRecord, ServerSpec};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::bpf::InitialTimeout;
use crate::capture::{Capture, Captured};
use crate::engine::{Command, Ended, Engine, PACKET_BYTES_MAX, Side};
use crate::kernel::{self, Sysctl};
use crate::namespace::Namespace;
use crate::namespace::Netlink;
use crate::port::{Port, Ports};
use crate::realtime::{self, RealTime};
use crate::report::Setting;
use crate::report::{LATENESS_P99_MAX, Lateness};
use crate::tun::{Ends, Tun};
use crate::{Error, Refusal};

/// The label of the streams of a simulated run's link.
pub(crate) const OF_RUN: &str = "link";

/// Maximum number of links of one emulator: as many as have been measured at once
/// (`docs/emulation.md#emulator-limits`).
pub const LINKS_MAX: usize = 2_000;

/// Descriptors reserved for other purposes than devices.
const DESCRIPTORS_SPARE: u64 = 256;

/// Configuration of an emulator.
#[derive(Clone, Debug)]
pub struct Config {
    /// The links, at most [`LINKS_MAX`].
    pub links: Vec<LinkConfig>,
    /// The largest packet of all devices in bytes, IP header included; 68 to 9216.
    pub mtu_bytes: u32,
    /// Initial congestion window in segments.
    pub initial_window: u32,
    /// The initial timeout of SYN and SYN-ACK; `None` leaves the kernel's 1 s.
    pub initial_timeout: Option<Duration>,
    /// The kernel's settings in both namespaces.
    pub sysctls: Vec<Sysctl>,
    /// Limit of the 99th percentile of packet lateness; a run above it is refused.
    pub lateness_p99_max: Duration,
    /// A pcapng file for the packets at both ends of all links.
    pub capture: Option<PathBuf>,
}

impl Config {
    /// The thesis's hosts: MTU 296, initial window 4, initial timeout 2 s.
    pub fn thesis(links: Vec<LinkConfig>) -> Self {
        Self {
            links,
            mtu_bytes: 296,
            initial_window: kernel::INITIAL_WINDOW,
            initial_timeout: Some(kernel::INITIAL_TIMEOUT),
            sysctls: kernel::THESIS.to_vec(),
            lateness_p99_max: LATENESS_P99_MAX,
            capture: None,
        }
    }

    /// The kernel's own TCP: SACK, RACK, initial window 10, initial timeout 1 s.
    pub fn system(links: Vec<LinkConfig>) -> Self {
        Self {
            initial_window: 10, // RFC 6928
            initial_timeout: None,
            sysctls: kernel::SYSTEM.to_vec(),
            ..Self::thesis(links)
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.links.len() > LINKS_MAX {
            return Err(Error::Limit {
                what: "links",
                asked: self.links.len() as u64,
                limit: LINKS_MAX as u64,
                remedy: "emulate them one part after the other",
            });
        }
        let wrong = |what: String, why: &'static str| {
            let why = why.into();
            Err(Error::Configuration { what, why })
        };
        if self.mtu_bytes < 68 || self.mtu_bytes as usize > PACKET_BYTES_MAX {
            let what = format!("an MTU of {} bytes", self.mtu_bytes);
            return wrong(what, "IPv4 needs 68, and no more than 9216 are taken");
        }
        for link in &self.links {
            for (direction, name) in [(&link.spec.down, "down"), (&link.spec.up, "up")] {
                let what = || format!("link {} {name}", link.label);
                if let Err(why) = direction.impairments.check() {
                    return wrong(what(), why);
                }
                for change in &direction.changes {
                    change.check().or_else(|why| wrong(what(), why))?;
                }
                if direction.rate_bps == 0 {
                    return wrong(what(), "a link has a rate");
                }
                if direction.buffer.packets > PACKETS_MAX {
                    return wrong(what(), "a buffer holds at most 2^20 packets");
                }
                if let Err(why) = direction.loss.check() {
                    return wrong(what(), why);
                }
            }
            if let Err(why) = link.device.check() {
                return wrong(format!("link {} devices", link.label), why);
            }
            if let Err(why) = link.server.check() {
                let what = format!("link {} server", link.label);
                let why = why.to_string().into();
                return Err(Error::Configuration { what, why });
            }
        }
        Ok(())
    }
}

/// One link with the streams of its losses and delays, as in the simulator.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The link's parameters.
    pub spec: LinkSpec,
    /// The radio of each client's device.
    pub device: DeviceSpec,
    /// The server's time for each datagram and its receive queue. If the application takes the time,
    /// the server that answers has to ([`ServerWorker`](carob_sim::server_queue::ServerWorker)).
    pub server: ServerSpec,
    /// The seed its streams derive from.
    pub seed: u64,
    /// The label they derive from; the capture shows it, too.
    pub label: String,
}

impl LinkConfig {
    /// A link with neither a radio at its clients nor a queue at its server.
    pub fn new(spec: LinkSpec, seed: u64, label: &str) -> Self {
        Self {
            spec,
            device: DeviceSpec::default(),
            server: ServerSpec::default(),
            seed,
            label: label.to_owned(),
        }
    }

    /// The link that is the network of a simulated run, losses and delays included.
    pub fn of_run(run: &RunSpec, network: &LinkNetworkSpec) -> Self {
        Self {
            device: network.device.clone(),
            server: run.server,
            ..Self::new(network.link.clone(), run.seed, OF_RUN)
        }
    }
}

/// Running links. Dropping it ends them, regardless of open sockets.
#[derive(Debug)]
pub struct Emulator {
    server: Namespace,
    client: Namespace,
    links: usize,
    lateness_p99_max: Duration,
    settings: Vec<Setting>,
    engine: Option<EngineHandle>,
    capture: Option<Capture>,
    _initial_timeout: Option<InitialTimeout>,
}

#[derive(Debug)]
struct EngineHandle {
    commands: Sender<Command>,
    wake: Arc<EventFd>,
    thread: JoinHandle<Ended>,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Lateness of packets.
    pub lateness: Lateness,
    /// Counters of each link since it began or was last restarted.
    pub links: Vec<LinkRecord>,
    /// Non-IPv4 packets sent by the kernel, which no link carries; 0 with IPv6 off.
    pub foreign: u64,
    /// The results of the capture, if there was one.
    pub captured: Option<Captured>,
}

impl Emulator {
    /// Creates namespaces and devices, configures the kernel and starts the engine.
    pub fn start(config: &Config) -> Result<Self, Error> {
        config.check()?;
        let descriptors = realtime::raise_descriptors();
        let needed = 2 * config.links.len() as u64 + DESCRIPTORS_SPARE;
        if descriptors < needed {
            return Err(Error::Limit {
                what: "open files for devices",
                asked: needed,
                limit: descriptors,
                remedy: "raise the limit (ulimit -n), or use fewer links",
            });
        }
        let server = Namespace::create("server")?;
        let client = Namespace::create("client")?;
        let mut settings = server.enter(|| kernel::apply(&config.sysctls, "server"))?;
        settings.extend(client.enter(|| kernel::apply(&config.sysctls, "client"))?);
        if config.sysctls == kernel::THESIS {
            settings.extend(kernel::unavailable_settings());
        }
        let initial_timeout = config.initial_timeout.and_then(|timeout| {
            let made = InitialTimeout::set(timeout, &[&server, &client]);
            let wanted = format!("{} s", timeout.as_secs_f64());
            settings.push(Setting {
                name: "initial timeout".into(),
                got: match &made {
                    Ok(_) => wanted.clone(),
                    Err(error) => format!("1 s: {error}"),
                },
                wanted,
                note: "of SYN and its answer; by a program in the kernel".into(),
            });
            made.ok()
        });

        let devices =
            |namespace: &Namespace, side| namespace.enter(|| make_devices(config, side))?;
        let servers = devices(&server, Side::Server)?;
        let clients = devices(&client, Side::Client)?;
        let ports = config
            .links
            .iter()
            .zip(servers.into_iter().zip(clients))
            .map(|(link, (server, client))| Port::new(link, server, client))
            .collect();

        let (capture, tap) = match &config.capture {
            None => (None, None),
            Some(path) => {
                let labels = config.links.iter().map(|link| link.label.as_str());
                let (capture, tap) = Capture::start(path, labels)?;
                (Some(capture), Some(tap))
            }
        };
        let failed = |error: io::Error| Error::system("start the engine", error, "free memory");
        let (commands, orders) = mpsc::channel();
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_flags(flags).map_err(|error| failed(error.into()))?;
        let wake = Arc::new(wake);
        let engine =
            Engine::new(Ports::new(ports), orders, Arc::clone(&wake), tap).map_err(failed)?;
        let (ready, began) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("emulator".into())
            .spawn(move || {
                let real_time = RealTime::enter();
                // Without a receiver, nothing needs the run either.
                let _ = ready.send(real_time.settings.clone());
                engine.run(&real_time)
            })
            .map_err(failed)?;
        settings.extend(began.recv().unwrap_or_default());
        Ok(Self {
            server,
            client,
            links: config.links.len(),
            lateness_p99_max: config.lateness_p99_max,
            settings,
            engine: Some(EngineHandle {
                commands,
                wake,
                thread,
            }),
            capture,
            _initial_timeout: initial_timeout,
        })
    }

    /// The number of links.
    pub fn links(&self) -> usize {
        self.links
    }

    /// One of the links.
    ///
    /// # Panics
    ///
    /// If there is no such link.
    pub fn link(&self, index: usize) -> EmulatedLink<'_> {
        assert!(index < self.links, "link {index} of {}", self.links);
        EmulatedLink {
            emulator: self,
            index,
        }
    }

    /// Every kernel setting: requested and actual value.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The namespace of all links' ends on one side.
    pub fn namespace(&self, side: Side) -> &Namespace {
        match side {
            Side::Server => &self.server,
            Side::Client => &self.client,
        }
    }

    /// Lateness of packets so far.
    pub fn lateness(&self) -> Result<Lateness, Error> {
        let (reply, answer) = sync_channel(1);
        self.tell(Command::Lateness(reply))?;
        answer.recv().map_err(|_| ended())
    }

    /// Returns whether the engine is running; it ends by itself only if the run is refused.
    pub fn is_running(&self) -> bool {
        self.engine
            .as_ref()
            .is_some_and(|engine| !engine.thread.is_finished())
    }

    /// Ends the run and judges it: an error if its packets were late, or lost or dropped by
    /// anything but the link model.
    pub fn finish(mut self) -> Result<Outcome, Error> {
        let ended = self.stop().ok_or_else(ended)?;
        let capture = self.capture.take();
        let captured = capture.map(Capture::finish).transpose()?;
        if let Some(refusal) = ended.failed {
            return Err(refusal.into());
        }
        if let Some((packets, error)) = ended.undelivered {
            let error = error.to_string();
            return Err(Refusal::Undelivered { packets, error }.into());
        }
        for namespace in [&self.server, &self.client] {
            if let Some(refusal) = device_drops(namespace)? {
                return Err(refusal.into());
            }
        }
        let p99 = ended.lateness.quantile(0.99);
        if p99 > self.lateness_p99_max {
            return Err(Error::Refused(Refusal::Late {
                p99,
                limit: self.lateness_p99_max,
                real_time: ended.scheduled,
            }));
        }
        Ok(Outcome {
            lateness: ended.lateness,
            links: ended.ports.records(),
            foreign: ended.foreign,
            captured,
        })
    }

    fn tell(&self, command: Command) -> Result<(), Error> {
        let engine = self.engine.as_ref().ok_or_else(ended)?;
        engine.commands.send(command).map_err(|_| ended())?;
        engine
            .wake
            .write(1)
            .map(drop)
            .map_err(|error| Error::system("wake the engine", error, "begin again"))
    }

    fn stop(&mut self) -> Option<Ended> {
        // If it has ended by itself, the command fails, and joining returns the reason.
        let _ = self.tell(Command::Stop);
        let engine = self.engine.take()?;
        engine.thread.join().ok()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop();
    }
}

fn ended() -> Error {
    Error::Refused(Refusal::Ended {
        why: "it is not there any more".into(),
    })
}

/// One link of an [`Emulator`].
#[derive(Clone, Copy, Debug)]
pub struct EmulatedLink<'a> {
    emulator: &'a Emulator,
    index: usize,
}

impl EmulatedLink<'_> {
    /// Its index among the emulator's links.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The address of one end.
    pub fn address(&self, side: Side) -> Ipv4Addr {
        address(self.index, side)
    }

    /// Its counters since it began or was last restarted.
    pub fn record(&self) -> Result<LinkRecord, Error> {
        let (reply, answer) = sync_channel(1);
        let link = self.index;
        self.emulator.tell(Command::Record { link, reply })?;
        answer.recv().map_err(|_| ended())
    }

    /// Makes a UDP or TCP port at the client's side the next device. Other ports become devices with their first
    /// packet.
    pub fn add_device(&self, port: u16) -> Result<(), Error> {
        let (done, answer) = sync_channel(1);
        let link = self.index;
        self.emulator
            .tell(Command::AddDevice { link, port, done })?;
        answer.recv().map_err(|_| ended())
    }

    /// Records of its devices so far; none if their energy is not measured.
    pub fn devices(&self) -> Result<Vec<DeviceRecord>, Error> {
        let (reply, answer) = sync_channel(1);
        let link = self.index;
        self.emulator.tell(Command::Devices { link, reply })?;
        answer.recv().map_err(|_| ended())
    }

    /// The record of its server so far; none without a receive queue.
    pub fn server(&self) -> Result<Option<ServerRecord>, Error> {
        let (reply, answer) = sync_channel(1);
        let link = self.index;
        self.emulator.tell(Command::Server { link, reply })?;
        answer.recv().map_err(|_| ended())
    }

    /// Discards all queued packets and restarts the link with other streams, for another use. First
    /// [`reset`](crate::flow::reset) all connections, or their retransmissions consume capacity of
    /// the next use.
    pub fn restart(&self, seed: u64, label: &str) -> Result<(), Error> {
        let (done, answer) = sync_channel(1);
        self.emulator.tell(Command::Restart {
            link: self.index,
            seed,
            label: label.to_owned(),
            done,
        })?;
        answer.recv().map_err(|_| ended())
    }

    /// The namespace of one end.
    pub fn namespace(&self, side: Side) -> &Namespace {
        self.emulator.namespace(side)
    }
}

/// 10.1.0.1 is the server's end of link 0, 10.2.0.1 the client's.
fn address(index: usize, side: Side) -> Ipv4Addr {
    let side = match side {
        Side::Server => 1,
        Side::Client => 2,
    };
    let [high, low] = (index as u16 + 1).to_be_bytes();
    Ipv4Addr::new(10, side, high, low)
}

/// Creates all devices of one side, in the namespace of the calling thread.
fn make_devices(config: &Config, side: Side) -> Result<Vec<Tun>, Error> {
    let other = match side {
        Side::Server => Side::Client,
        Side::Client => Side::Server,
    };
    let mut netlink = Netlink::open()
        .map_err(|error| Error::system("configure devices", error, "run it as root"))?;
    let make = |index| {
        let ends = Ends {
            own: address(index, side),
            peer: address(index, other),
            mtu_bytes: config.mtu_bytes,
            initial_window: config.initial_window,
        };
        Tun::create(&mut netlink, &format!("carob{index}"), &ends)
    };
    (0..config.links.len()).map(make).collect()
}

/// The first device of a namespace that dropped packets.
fn device_drops(namespace: &Namespace) -> Result<Option<Refusal>, Error> {
    let text = namespace
        .enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?
        .map_err(|error| Error::system("read the devices' counts", error, "mount /proc"))?;
    Ok(text
        .lines()
        .filter_map(drops)
        .find(|(_, packets)| *packets > 0)
        .map(|(device, packets)| Refusal::DeviceDrops {
            device: format!("{} of the {}", device, namespace.name()),
            packets,
        }))
}

/// A device and its drops in both directions, from a line of `/proc/net/dev`.
fn drops(line: &str) -> Option<(&str, u64)> {
    let (device, counts) = line.split_once(':')?;
    let counts: Vec<&str> = counts.split_whitespace().collect();
    let count = |at: usize| counts.get(at)?.parse::<u64>().ok();
    Some((device.trim(), count(3)? + count(11)?))
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;
    use carob_sim::link::{DirectionSpec, SleepSpec};
    use carob_sim::spec::PauseSchedule;

    use super::*;

    fn link(rate: u64) -> LinkConfig {
        let spec = LinkSpec {
            down: DirectionSpec::new(rate, 2_500),
            up: DirectionSpec::new(60_000, 2_500),
        };
        LinkConfig::new(spec, 1, "link")
    }

    #[test]
    fn addresses_differ_up_to_the_last_link() {
        assert_eq!(address(0, Side::Server), Ipv4Addr::new(10, 1, 0, 1));
        assert_eq!(address(0, Side::Client), Ipv4Addr::new(10, 2, 0, 1));
        assert_eq!(address(255, Side::Client), Ipv4Addr::new(10, 2, 1, 0));
        let last = address(LINKS_MAX - 1, Side::Server);
        assert_eq!(last, Ipv4Addr::new(10, 1, 7, 208));
    }

    #[test]
    fn impossible_configurations_are_refused_first() {
        let refused = |config: &Config| config.check().unwrap_err().to_string();
        let many = Config::thesis(vec![link(1); LINKS_MAX + 1]);
        assert!(refused(&many).contains("2001 links are more than 2000"));
        assert!(refused(&Config::thesis(vec![link(0)])).contains("link link down: a link has"));
        let mut asleep = link(1);
        asleep.device.sleep = Some(SleepSpec {
            cycle: Duration::from_secs(1),
            window: Duration::from_secs(2),
            saving: None,
        });
        assert!(refused(&Config::thesis(vec![asleep])).contains("sleep needs a connection set-up"));
        let mut pausing = link(1);
        pausing.server.pauses = Some(PauseSchedule {
            first: Duration::ZERO,
            interval: Duration::from_secs(1),
            lasts: Duration::from_secs(1),
        });
        let why = refused(&Config::thesis(vec![pausing]));
        assert!(why.contains("link link server: "), "{why}");
        let mut tiny = Config::thesis(vec![link(1)]);
        tiny.mtu_bytes = 60;
        assert!(refused(&tiny).contains("68"));
    }

    #[test]
    fn dropped_packets_are_found_both_ways() {
        let line = "carob7: 100 2 0 3 0 0 0 0 200 4 0 5 0 0 0 0";
        assert_eq!(drops(line), Some(("carob7", 8)));
        assert_eq!(drops(" face |bytes    packets errs drop fifo"), None);
    }
}
