//! Two sockets and a path that can drop, delay, duplicate or mark every packet.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod transfer;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_sim::queue::EventQueue;
use carob_sim::random::Stream;
use carob_sim::tcp::segment::{Ecn, Flags};
use carob_sim::tcp::{Event, Output, Segment, Socket, TcpSettings};

/// One-way delay in milliseconds.
pub(crate) const DELAY: u64 = 50;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Deliver,
    Drop,
    /// Arrives after an extra delay.
    Late(Duration),
    /// Arrives twice, the second time after an extra delay.
    Twice(Duration),
    /// Arrives with an ECN mark, if capable.
    Mark,
}

/// A packet as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    /// From `a` to `b`.
    pub(crate) forth: bool,
    pub(crate) segment: Segment,
    pub(crate) fate: Fate,
}

enum SenderEvent {
    Arrive(bool, Segment),
    Wake(bool),
}

pub(crate) struct End {
    pub(crate) socket: Socket,
    wake: Option<Instant>,
    /// Received data, in order.
    pub(crate) received: Vec<u8>,
    pub(crate) events: Vec<(Instant, Event)>,
    /// Data still to be written.
    outgoing: Bytes,
    close_when_written: bool,
    /// Reads data as it arrives.
    pub(crate) reads: bool,
    /// Closes after the peer has closed.
    pub(crate) answers_close: bool,
}

type Filter = Box<dyn FnMut(&Segment, bool, u64) -> Fate>;

pub(crate) struct Path {
    pub(crate) a: End,
    pub(crate) b: End,
    pub(crate) now: Instant,
    pub(crate) sent: Vec<Sent>,
    pub(crate) delay: Duration,
    queue: EventQueue<SenderEvent>,
    filter: Filter,
    packets: [u64; 2],
}

impl Path {
    /// `a` is the client, `b` the server.
    pub(crate) fn new(a: &TcpSettings, b: &TcpSettings, seed: u64) -> Self {
        let end = |settings: &TcpSettings, label: &str| End {
            socket: Socket::new(settings, Stream::new(seed, label)).expect("possible settings"),
            wake: None,
            received: Vec::new(),
            events: Vec::new(),
            outgoing: Bytes::new(),
            close_when_written: false,
            reads: true,
            answers_close: true,
        };
        let mut path = Self {
            a: end(a, "a"),
            b: end(b, "b"),
            now: Instant::ZERO,
            sent: Vec::new(),
            delay: ms(DELAY),
            queue: EventQueue::new(),
            filter: Box::new(|_, _, _| Fate::Deliver),
            packets: [0; 2],
        };
        path.b.socket.listen().expect("a new socket");
        path
    }

    /// Two connected ends with the same settings and no packets in flight.
    pub(crate) fn connected(settings: &TcpSettings) -> Self {
        let mut path = Self::new(settings, settings, 1);
        path.connect();
        path.run_for(ms(3 * DELAY + 1));
        assert!(path.told(true, Event::Connected) && path.told(false, Event::Connected));
        path.sent.clear();
        path.packets = [0; 2];
        path
    }

    /// Sets a function that decides on the fate of packets, by segment, direction and number in that direction.
    pub(crate) fn filter(&mut self, filter: impl FnMut(&Segment, bool, u64) -> Fate + 'static) {
        self.filter = Box::new(filter);
    }

    /// Drops packets for which the function returns true.
    pub(crate) fn drop_if(&mut self, mut lost: impl FnMut(&Segment, bool, u64) -> bool + 'static) {
        self.filter(move |segment, forth, number| {
            if lost(segment, forth, number) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
    }

    /// Drops data segments of `a` by their number, counted from 0 in the order of transmission.
    pub(crate) fn drop_data(&mut self, numbers: &'static [u64]) {
        let mut count = 0;
        self.drop_if(move |segment, forth, _| {
            let is_data = forth && !segment.payload.is_empty();
            count += u64::from(is_data);
            is_data && numbers.contains(&(count - 1))
        });
    }

    pub(crate) fn connect(&mut self) {
        self.a.socket.connect(self.now).expect("a new socket");
        self.drain(true);
    }

    /// Sends `bytes` from `a` or `b`, as buffers permit, and optionally closes.
    pub(crate) fn send(&mut self, from_a: bool, bytes: impl Into<Bytes>, close: bool) {
        let end = self.end(from_a);
        end.outgoing = bytes.into();
        end.close_when_written = close;
        self.push_out(from_a);
        self.drain(from_a);
    }

    pub(crate) fn close(&mut self, a: bool) {
        let now = self.now;
        self.end(a).socket.close(now);
        self.drain(a);
    }

    /// Reads all available data at one end.
    pub(crate) fn read(&mut self, a: bool) {
        let end = self.end(a);
        while let Some(bytes) = end.socket.read() {
            end.received.extend_from_slice(&bytes);
        }
        self.drain(a);
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    pub(crate) fn run_until(&mut self, end: Instant) {
        while let Some((now, event)) = self.queue.pop_until(end) {
            self.now = now;
            match event {
                SenderEvent::Arrive(at_a, segment) => {
                    self.end(at_a).socket.handle_segment(now, &segment);
                    self.drain(at_a);
                }
                SenderEvent::Wake(a) => {
                    let it = self.end(a);
                    if it.wake == Some(now) {
                        it.wake = None;
                        it.socket.handle_timeout(now);
                        self.drain(a);
                        // A timer that is due again at once would stop the clock.
                        let it = self.end(a);
                        assert!(it.wake != Some(now), "waits for the past");
                    }
                }
            }
        }
        self.now = self.now.max(end);
    }

    /// Delivers a forged segment to one end.
    pub(crate) fn inject(&mut self, at_a: bool, segment: &Segment) {
        let now = self.now;
        self.end(at_a).socket.handle_segment(now, segment);
        self.drain(at_a);
    }

    pub(crate) fn told(&self, a: bool, event: Event) -> bool {
        let end = if a { &self.a } else { &self.b };
        end.events.iter().any(|&(_, told)| told == event)
    }

    /// Transmissions of data by `a`: time in milliseconds and offset of the first byte.
    pub(crate) fn data_of_a(&self) -> Vec<(u64, u32)> {
        let first = self
            .sent
            .iter()
            .find(|sent| sent.forth && !sent.segment.payload.is_empty());
        let base = first.map_or(0, |sent| sent.segment.seq);
        let data = self
            .sent
            .iter()
            .filter(|sent| sent.forth && !sent.segment.payload.is_empty());
        data.map(|sent| {
            (
                sent.at.as_micros() / 1_000,
                sent.segment.seq.wrapping_sub(base),
            )
        })
        .collect()
    }

    /// Times in milliseconds of bare ACKs from `b`.
    pub(crate) fn acks_of_b(&self) -> Vec<u64> {
        let acks = self.sent.iter().filter(|sent| {
            !sent.forth && sent.segment.payload.is_empty() && !sent.segment.flags.has(Flags::SYN)
        });
        acks.map(|sent| sent.at.as_micros() / 1_000).collect()
    }

    /// Retransmissions, timeouts and recoveries of `a`.
    pub(crate) fn repairs_of_a(&self) -> (u64, u64, u64) {
        let counters = self.a.socket.counters();
        (
            counters.retransmissions,
            counters.timeouts,
            counters.recoveries,
        )
    }

    /// Number of packets with a flag.
    pub(crate) fn flagged(&self, flag: Flags) -> usize {
        let has = |sent: &&Sent| sent.segment.flags.has(flag);
        self.sent.iter().filter(has).count()
    }

    fn end(&mut self, a: bool) -> &mut End {
        if a { &mut self.a } else { &mut self.b }
    }

    fn push_out(&mut self, a: bool) {
        let now = self.now;
        let end = self.end(a);
        let taken = end.socket.write(now, end.outgoing.clone());
        end.outgoing = end.outgoing.slice(taken..);
        let connected = end
            .events
            .iter()
            .any(|&(_, event)| event == Event::Connected);
        if end.outgoing.is_empty() && end.close_when_written && connected {
            end.close_when_written = false;
            end.socket.close(now);
        }
    }

    pub(crate) fn drain(&mut self, a: bool) {
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 100_000, "poll never waits");
            let now = self.now;
            match self.end(a).socket.poll() {
                Output::Transmit(segment) => self.offer(a, segment),
                Output::Event(event) => {
                    let end = self.end(a);
                    end.events.push((now, event));
                    match event {
                        Event::Readable if end.reads => {
                            while let Some(bytes) = end.socket.read() {
                                end.received.extend_from_slice(&bytes);
                            }
                        }
                        Event::Writable | Event::Connected => self.push_out(a),
                        Event::PeerClosed
                            if end.answers_close
                                && end.outgoing.is_empty()
                                && !end.close_when_written =>
                        {
                            end.socket.close(now);
                        }
                        _ => {}
                    }
                }
                Output::Wait(deadline) => {
                    let end = self.end(a);
                    if let Some(deadline) = deadline
                        && end.wake != Some(deadline)
                    {
                        end.wake = Some(deadline.max(now));
                        self.queue.push(deadline.max(now), SenderEvent::Wake(a));
                    } else if deadline.is_none() {
                        end.wake = None;
                    }
                    return;
                }
            }
        }
    }

    fn offer(&mut self, forth: bool, mut segment: Segment) {
        let number = self.packets[usize::from(forth)];
        self.packets[usize::from(forth)] += 1;
        let fate = (self.filter)(&segment, forth, number);
        self.sent.push(Sent {
            at: self.now,
            forth,
            segment: segment.clone(),
            fate,
        });
        if fate == Fate::Mark && segment.ecn != Ecn::NotCapable {
            segment.ecn = Ecn::Experienced;
        }
        let arrival = self.now + self.delay;
        let arrive = |segment| SenderEvent::Arrive(!forth, segment);
        match fate {
            Fate::Drop => {}
            Fate::Deliver | Fate::Mark => {
                self.queue.push(arrival, arrive(segment));
            }
            Fate::Late(by) => self.queue.push(arrival + by, arrive(segment)),
            Fate::Twice(by) => {
                self.queue.push(arrival, arrive(segment.clone()));
                self.queue.push(arrival + by, arrive(segment));
            }
        }
    }
}

/// Bytes that depend on their position.
pub(crate) fn pattern(length: usize, salt: u8) -> Vec<u8> {
    (0..length)
        .map(|at| (at ^ ((at >> 8) * 31)) as u8 ^ salt)
        .collect()
}

// ---- for tests of single rules: segments of 256 bytes, a round trip of 100 ms ----

pub(crate) const MSS: u32 = 256;
/// Time in milliseconds at which [`Path::connected`] returns.
pub(crate) const BEGIN: u64 = 151;

pub(crate) fn with(base: TcpSettings, changes: &[(&str, &str)]) -> TcpSettings {
    let mut settings = base;
    for (name, value) in changes {
        settings.set(name, value).expect("a setting");
    }
    settings
}

/// The RFC profile with this MSS and without delayed ACKs.
pub(crate) fn rfc(changes: &[(&str, &str)]) -> TcpSettings {
    let base = with(
        TcpSettings::RFC,
        &[
            ("mss", "256"),
            ("delayed_ack", "none"),
            ("nagle", "false"),
            ("receive_window", "65535"),
        ],
    );
    with(base, changes)
}

/// The profile of Pesola 2020 without delayed ACKs. Windows need no scaling, so that no ACK looks like a window update.
pub(crate) fn linux(changes: &[(&str, &str)]) -> TcpSettings {
    with(
        with(
            TcpSettings::THESIS,
            &[("delayed_ack", "none"), ("receive_window", "65535")],
        ),
        changes,
    )
}

pub(crate) fn segments(count: usize) -> Vec<u8> {
    pattern(count * MSS as usize, 3)
}

/// Times in ms at which `a` sent segment `number`.
pub(crate) fn copies(path: &Path, number: u32) -> Vec<u64> {
    let of_number = |&(time, offset): &(u64, u32)| (offset == number * MSS).then_some(time);
    path.data_of_a().iter().filter_map(of_number).collect()
}
