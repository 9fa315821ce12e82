//! The engine: one thread between all devices, in the link model's time.
//!
//! Packets from the kernel are read from their device at once and offered to the link. Delivered
//! packets wait in one heap until their time and are written to the device at the other end. The
//! bottleneck's queue is the model's own, and the devices' queues stay empty.
//!
//! Times are nanoseconds of the system's monotonic clock; a link's own time is microseconds since
//! it began, rounded down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use carob_cc::time::Instant;
use carob_sim::link::DeviceRecord;
use carob_sim::spec::{LinkRecord, ServerRecord};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{
    ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags,
};
use nix::time::{ClockId, clock_gettime};

use crate::Refusal;
use crate::capture::Tap;
use crate::port::{Due, Ports};
use crate::realtime::RealTime;
use crate::report::Lateness;

/// Maximum packets in flight on all links together; with more the run is refused.
///
/// Half a million full segments of 296 bytes take some 200 MB.
pub const IN_FLIGHT_MAX: usize = 1 << 19;

/// The largest packet from a device, in bytes.
pub(crate) const PACKET_BYTES_MAX: usize = 9_216;

/// Packets read from one device, or delivered, before other devices are served.
const BATCH: usize = 64;
/// Maximum epoll events per call.
const EVENTS: usize = 256;

/// epoll data of the timer and of commands; anything below is a device.
const TIMER: u64 = u64::MAX;
const COMMANDS: u64 = u64::MAX - 1;

/// One side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The fixed host.
    Server,
    /// The constrained device.
    Client,
}

impl Side {
    /// The other end.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Server => Self::Client,
            Self::Client => Self::Server,
        }
    }
}

/// Commands to the engine.
#[derive(Debug)]
pub(crate) enum Command {
    /// Discard all packets of a link and restart it.
    Restart {
        link: usize,
        seed: u64,
        label: String,
        done: SyncSender<()>,
    },
    Record {
        link: usize,
        reply: SyncSender<LinkRecord>,
    },
    /// Make a port of the client's side the next device.
    AddDevice {
        link: usize,
        port: u16,
        done: SyncSender<()>,
    },
    Devices {
        link: usize,
        reply: SyncSender<Vec<DeviceRecord>>,
    },
    Server {
        link: usize,
        reply: SyncSender<Option<ServerRecord>>,
    },
    Lateness(SyncSender<Lateness>),
    Stop,
}

/// The engine's final state; the devices live as long as this does.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) ports: Ports,
    pub(crate) lateness: Lateness,
    pub(crate) scheduled: bool,
    /// Packets rejected by the kernel, and the last error.
    pub(crate) undelivered: Option<(u64, io::Error)>,
    /// Non-IPv4 packets, which are ignored.
    pub(crate) foreign: u64,
    pub(crate) failed: Option<Refusal>,
}

/// A packet in flight.
#[derive(Debug)]
struct InFlight {
    due_ns: u64,
    /// Packets due at the same time arrive in the order they were sent.
    number: u64,
    link: u32,
    generation: u32,
    due: Due,
}

impl InFlight {
    fn key(&self) -> (u64, u64) {
        (self.due_ns, self.number)
    }
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for InFlight {}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has a monotonic clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// The engine before and while it runs.
#[derive(Debug)]
pub(crate) struct Engine {
    ports: Ports,
    commands: Receiver<Command>,
    wake: Arc<EventFd>,
    tap: Option<Tap>,
    epoll: Epoll,
    timer: TimerFd,
    armed_ns: Option<u64>,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    numbered: u64,
    buffer: Vec<u8>,
    lateness: Lateness,
    undelivered: Option<(u64, io::Error)>,
    foreign: u64,
}

impl Engine {
    pub(crate) fn new(
        ports: Ports,
        commands: Receiver<Command>,
        wake: Arc<EventFd>,
        tap: Option<Tap>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(
            TimerClock::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )?;
        let readable = |data| EpollEvent::new(EpollFlags::EPOLLIN, data);
        epoll.add(&timer, readable(TIMER))?;
        epoll.add(&*wake, readable(COMMANDS))?;
        for (port, index) in ports.0.iter().zip(0_u64..) {
            epoll.add(&port.server, readable(2 * index))?;
            epoll.add(&port.client, readable(2 * index + 1))?;
        }
        Ok(Self {
            ports,
            commands,
            wake,
            tap,
            epoll,
            timer,
            armed_ns: None,
            in_flight: BinaryHeap::new(),
            numbered: 0,
            buffer: vec![0; PACKET_BYTES_MAX],
            lateness: Lateness::default(),
            undelivered: None,
            foreign: 0,
        })
    }

    /// Runs until a stop command or a failure.
    pub(crate) fn run(mut self, real_time: &RealTime) -> Ended {
        let failed = match self.serve() {
            Ok(()) => None,
            Err(Failure::Refused(refusal)) => Some(refusal),
            Err(Failure::System(error)) => Some(Refusal::Ended {
                why: error.to_string(),
            }),
        };
        Ended {
            ports: self.ports,
            lateness: self.lateness,
            scheduled: real_time.scheduled,
            undelivered: self.undelivered,
            foreign: self.foreign,
            failed,
        }
    }

    fn serve(&mut self) -> Result<(), Failure> {
        let mut events = [EpollEvent::empty(); EVENTS];
        loop {
            self.deliver()?;
            self.arm()?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(nix::Error::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in &events[..count] {
                match event.data() {
                    TIMER => {
                        // Nothing to read means it was set again meanwhile.
                        let _ = self.timer.wait();
                        self.armed_ns = None;
                    }
                    COMMANDS => {
                        if self.obey()? {
                            return Ok(());
                        }
                    }
                    device => {
                        let side = if device % 2 == 0 {
                            Side::Server
                        } else {
                            Side::Client
                        };
                        self.take((device / 2) as usize, side)?;
                    }
                }
            }
        }
    }

    /// Reads packets from the kernel at one end and offers them to the link. Returns whether there
    /// may be more.
    fn take(&mut self, index: usize, from: Side) -> Result<bool, Failure> {
        for _ in 0..BATCH {
            let port = &mut self.ports.0[index];
            let Some(length) = port.tun(from).read(&mut self.buffer)? else {
                return Ok(false);
            };
            let now = now_ns();
            let packet = &self.buffer[..length];
            if packet.first().is_none_or(|byte| byte >> 4 != 4) {
                self.foreign += 1;
                continue;
            }
            if let Some(tap) = &mut self.tap {
                tap.sent(index, from, now, packet);
            }
            port.send(from, now, packet);
            if port.waiting() >= IN_FLIGHT_MAX {
                let limit = IN_FLIGHT_MAX;
                return Err(Failure::Refused(Refusal::Overflow { limit }));
            }
            self.take_coming(index)?;
        }
        Ok(true)
    }

    /// Moves events to come of a link into the heap.
    fn take_coming(&mut self, index: usize) -> Result<(), Failure> {
        let mut coming = std::mem::take(&mut self.ports.0[index].coming);
        for (at, due) in coming.drain(..) {
            self.await_time(index, at, due)?;
        }
        self.ports.0[index].coming = coming; // keeps its memory
        Ok(())
    }

    /// Puts an event at a time of a link into the heap.
    fn await_time(&mut self, index: usize, at: Instant, due: Due) -> Result<(), Failure> {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            let limit = IN_FLIGHT_MAX;
            return Err(Failure::Refused(Refusal::Overflow { limit }));
        }
        let port = &self.ports.0[index];
        self.numbered += 1;
        self.in_flight.push(Reverse(InFlight {
            due_ns: port.due_ns(at),
            number: self.numbered,
            link: index as u32,
            generation: port.generation,
            due,
        }));
        Ok(())
    }

    /// Handles events that are due, and delivers packets that arrive.
    fn deliver(&mut self) -> Result<(), Failure> {
        let mut now = now_ns();
        for _ in 0..BATCH {
            if self
                .in_flight
                .peek()
                .is_none_or(|Reverse(first)| first.due_ns > now)
            {
                break;
            }
            let Some(Reverse(first)) = self.in_flight.pop() else {
                break;
            };
            let index = first.link as usize;
            let port = &mut self.ports.0[index];
            if first.generation != port.generation {
                continue;
            }
            let arrived = port.handle(first.due, first.due_ns);
            self.take_coming(index)?;
            let Some((to, packet)) = arrived else {
                continue;
            };
            let port = &self.ports.0[index];
            let written = port.tun(to).write(&packet);
            now = now_ns();
            if let Err(error) = written {
                let before = self.undelivered.take().map_or(0, |(count, _)| count);
                self.undelivered = Some((before + 1, error));
                continue;
            }
            self.lateness.note(now.saturating_sub(first.due_ns));
            if let Some(tap) = &mut self.tap {
                tap.received(index, to, now, &packet);
            }
        }
        Ok(())
    }

    /// Sets the timer to the next delivery.
    fn arm(&mut self) -> Result<(), Failure> {
        let Some(Reverse(first)) = self.in_flight.peek() else {
            // An earlier timer leads to one useless wake-up.
            return Ok(());
        };
        if self.armed_ns == Some(first.due_ns) {
            return Ok(());
        }
        // A time of 0 would disable it.
        let at = TimeSpec::from_duration(Duration::from_nanos(first.due_ns.max(1)));
        self.timer.set(
            Expiration::OneShot(at),
            TimerSetTimeFlags::TFD_TIMER_ABSTIME,
        )?;
        self.armed_ns = Some(first.due_ns);
        Ok(())
    }

    /// Executes pending commands. Returns whether one was to stop.
    fn obey(&mut self) -> Result<bool, Failure> {
        self.wake.read()?;
        while let Ok(command) = self.commands.try_recv() {
            // The sender may have gone meanwhile; then the reply is dropped.
            match command {
                Command::Stop => return Ok(true),
                Command::Record { link, reply } => {
                    let _ = reply.send(self.ports.0[link].record());
                }
                Command::AddDevice { link, port, done } => {
                    self.ports.0[link].clients.add(port);
                    let _ = done.send(());
                }
                Command::Devices { link, reply } => {
                    let _ = reply.send(self.ports.0[link].devices(now_ns()));
                }
                Command::Server { link, reply } => {
                    let _ = reply.send(self.ports.0[link].server_record(now_ns()));
                }
                Command::Lateness(reply) => {
                    let _ = reply.send(self.lateness.clone());
                }
                Command::Restart {
                    link,
                    seed,
                    label,
                    done,
                } => {
                    // Packets that sockets sent before they were closed belong to the use that
                    // ends. Bounded, because an open socket may send on and on.
                    for side in [Side::Server, Side::Client] {
                        for _ in 0..1_000 {
                            if !self.take(link, side)? {
                                break;
                            }
                        }
                    }
                    self.ports.0[link].restart(seed, label);
                    let _ = done.send(());
                }
            }
        }
        Ok(false)
    }
}

/// The reason why the engine stops by itself.
enum Failure {
    System(io::Error),
    Refused(Refusal),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<nix::Error> for Failure {
    fn from(error: nix::Error) -> Self {
        Self::System(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_ordered_by_time_then_insertion() {
        let packet = |due_ns, number| {
            Reverse(InFlight {
                due_ns,
                number,
                link: 0,
                generation: 0,
                due: Due::Window(0),
            })
        };
        let mut heap = BinaryHeap::from([packet(5, 3), packet(4, 4), packet(5, 1), packet(5, 2)]);
        let order: Vec<_> = std::iter::from_fn(|| heap.pop())
            .map(|Reverse(first)| first.number)
            .collect();
        assert_eq!(order, [4, 1, 2, 3]);
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let before = now_ns();
        assert!(now_ns() >= before && before > 0);
    }
}
