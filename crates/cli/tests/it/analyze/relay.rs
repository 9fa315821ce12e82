//! A UDP relay with delay, jitter and loss that records the fate of each packet.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use carob_analyze::synthetic::{CaptureFile, FileLayout, Flag, udp_packet};

use crate::interop::path::Draws;

/// Poll interval for the stop flag.
const TICK: Duration = Duration::from_millis(50);

/// Path parameters; arrays are indexed by direction: to the server, to the client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// One-way delay, and the largest jitter added to it.
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    /// Losses in parts per million.
    pub(super) losses: [u32; 2],
    /// Share of delayed packets in parts per million, and their extra delay.
    pub(super) slow: (u32, Duration),
}

/// A packet and its fate.
#[derive(Clone, Debug)]
struct Passed {
    way: usize,
    arrived: Duration,
    /// Departure time; none if lost.
    left: Option<Duration>,
    payload: Vec<u8>,
}

/// Ground truth over all exchanges.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) exchanges: u64,
    pub(super) retransmissions: u64,
    pub(super) spurious: u64,
    pub(super) round_trips: Vec<Duration>,
    /// Packets by direction.
    pub(super) packets: [u64; 2],
    pub(super) lost: [u64; 2],
}

/// A running relay, stopped on drop.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    passed: Arc<Mutex<Vec<Passed>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}

impl Shape {
    /// Departure time of a packet; none if it is lost. The order of packets is kept (FIFO): `last` are the departures of
    /// the last packets.
    fn departure(
        &self,
        way: usize,
        at: Duration,
        last: &mut [Duration; 2],
        draws: &mut Draws,
    ) -> Option<Duration> {
        let jitter = Duration::from_micros(draws.below(micros(self.jitter) + 1));
        let is_lost = draws.below(1_000_000) < u64::from(self.losses[way]);
        let is_slow = draws.below(1_000_000) < u64::from(self.slow.0);
        if is_lost {
            return None;
        }
        let slow = if is_slow { self.slow.1 } else { Duration::ZERO };
        last[way] = last[way].max(at + self.delay + jitter + slow);
        Some(last[way])
    }
}

fn receive(
    socket: UdpSocket,
    way: usize,
    to: Sender<(usize, Instant, SocketAddr, Vec<u8>)>,
    stop: Arc<AtomicBool>,
) -> JoinHandle<()> {
    socket.set_read_timeout(Some(TICK)).expect("a timeout");
    thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while !stop.load(Ordering::Relaxed) {
            if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let packet = (way, Instant::now(), from, buffer[..length].to_vec());
                if to.send(packet).is_err() {
                    return;
                }
            }
        }
    })
}

impl Relay {
    /// Starts a relay to this server. `seed` draws losses and delays.
    pub(super) fn start(server: SocketAddr, shape: Shape, seed: u64) -> Self {
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (near, far) = (bind(), bind());
        let address = near.local_addr().expect("its address");
        let stop = Arc::new(AtomicBool::new(false));
        let passed = Arc::new(Mutex::new(Vec::new()));
        let (to, packets) = channel();
        let clone = |socket: &UdpSocket| socket.try_clone().expect("a second handle");
        let mut threads = vec![
            receive(clone(&near), 0, to.clone(), Arc::clone(&stop)),
            receive(clone(&far), 1, to, Arc::clone(&stop)),
        ];
        let (log, stopped) = (Arc::clone(&passed), Arc::clone(&stop));
        threads.push(thread::spawn(move || {
            let (began, mut draws) = (Instant::now(), Draws(seed));
            let mut last = [Duration::ZERO; 2];
            let mut client = None;
            // Packets in flight, by departure time and index in the log.
            let mut waiting: BTreeMap<(Duration, usize), (SocketAddr, Vec<u8>)> = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                let next = waiting.keys().next().map(|key| began + key.0);
                let wait = next.map_or(TICK, |at| at.saturating_duration_since(Instant::now()));
                if let Ok((way, at, from, payload)) = packets.recv_timeout(wait.min(TICK)) {
                    let arrived = at - began;
                    if way == 0 {
                        client = Some(from);
                    }
                    let left = shape.departure(way, arrived, &mut last, &mut draws);
                    let mut log = log.lock().expect("the log");
                    if let (Some(left), Some(client)) = (left, client) {
                        let to = if way == 0 { server } else { client };
                        waiting.insert((left, log.len()), (to, payload.clone()));
                    }
                    log.push(Passed {
                        way,
                        arrived,
                        left,
                        payload,
                    });
                }
                while let Some(entry) = waiting.first_entry() {
                    if began + entry.key().0 > Instant::now() {
                        break;
                    }
                    let ((_, place), (to, payload)) = entry.remove_entry();
                    let socket = if to == server { &far } else { &near };
                    // Recorded before the send, so that no reply is logged earlier.
                    log.lock().expect("the log")[place].left = Some(began.elapsed());
                    // The peer may have exited.
                    let _ = socket.send_to(&payload, to);
                }
            }
        }));
        Self {
            address,
            passed,
            stop,
            threads,
        }
    }

    fn log(&self) -> Vec<Passed> {
        self.passed.lock().expect("the log").clone()
    }

    /// The capture at the client's or at the server's end.
    pub(super) fn capture(&self, at_client: bool) -> Vec<u8> {
        self.capture_in_order(at_client, |_| {})
    }

    /// Like [`Relay::capture`], with packets reordered by a function; timestamps stay sorted.
    pub(super) fn capture_in_order(
        &self,
        at_client: bool,
        order: impl FnOnce(&mut Vec<(Flag, Vec<u8>)>),
    ) -> Vec<u8> {
        let client = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 40_000));
        let server = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 2), 5_683));
        let mut seen: Vec<(u64, Flag, Vec<u8>)> = Vec::new();
        for (number, passed) in (1_u16..).zip(self.log()) {
            let (from, to) = if passed.way == 0 {
                (client, server)
            } else {
                (server, client)
            };
            let is_sent = at_client == (passed.way == 0);
            let (at, flag) = if is_sent {
                (Some(passed.arrived), Flag::Outbound)
            } else {
                (passed.left, Flag::Inbound)
            };
            if let Some(at) = at {
                let mut packet = udp_packet(from, to, 64, &passed.payload);
                // A distinct IP identification: otherwise a message and its retransmission released at the same time look
                // like one packet captured twice.
                packet[4..6].copy_from_slice(&number.to_be_bytes());
                seen.push((micros(at), flag, packet));
            }
        }
        seen.sort_by_key(|packet| packet.0);
        let times: Vec<u64> = seen.iter().map(|packet| packet.0).collect();
        let packets = seen.into_iter().map(|(_, flag, packet)| (flag, packet));
        let mut packets: Vec<(Flag, Vec<u8>)> = packets.collect();
        order(&mut packets);
        let mut file = CaptureFile::new(FileLayout::Pcapng);
        for (at, (flag, packet)) in times.into_iter().zip(packets) {
            file.packet(at, flag, &packet);
        }
        file.into_bytes()
    }

    /// Ground truth of all exchanges that the client started. The server answers each transmission.
    pub(super) fn truth(&self) -> Truth {
        let mut truth = Truth::default();
        let mut exchanges: BTreeMap<u16, [Vec<Passed>; 2]> = BTreeMap::new();
        for passed in self.log() {
            truth.packets[passed.way] += 1;
            truth.lost[passed.way] += u64::from(passed.left.is_none());
            let id = u16::from_be_bytes([passed.payload[2], passed.payload[3]]);
            exchanges.entry(id).or_default()[passed.way].push(passed);
        }
        for [copies, replies] in exchanges.into_values() {
            truth.exchanges += 1;
            truth.retransmissions += copies.len() as u64 - 1;
            // Indices of transmissions in the order of their arrival at the server.
            let mut delivered: Vec<usize> = (0..copies.len())
                .filter(|i| copies[*i].left.is_some())
                .collect();
            delivered.sort_by_key(|i| copies[*i].left);
            let mut answers: Vec<(Duration, usize)> = Vec::new();
            for (reply, copy) in replies.iter().zip(delivered) {
                answers.extend(reply.left.map(|left| (left, copy)));
            }
            if let Some((left, copy)) = answers.iter().min() {
                let arrived = copies[*copy].arrived;
                truth.round_trips.push(left.saturating_sub(arrived));
            }
            let first = answers.iter().map(|answer| answer.1).min();
            truth.spurious += first.map_or(0, |first| (copies.len() - 1 - first) as u64);
        }
        truth.round_trips.sort();
        truth
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Truth {
    /// Quantile of the round-trip time.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let rank = (share * self.round_trips.len() as f64).ceil() as usize;
        self.round_trips[rank.clamp(1, self.round_trips.len()) - 1]
    }
}
