//! Simulated requests over a path with delay and loss: captures of both ends and the ground truth.

use std::net::SocketAddr;

use carob_analyze::synthetic::{CaptureFile, FileLayout, Flag, message, udp_packet};
use carob_codec::{Code, OptionNumber, Type};

/// Path and client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Round-trip time without transmission times and jitter, in microseconds.
    pub(crate) rtt: u64,
    /// Largest additional delay per direction.
    pub(crate) jitter: u64,
    /// Rates from and to the client, in bit/s; 0 for no transmission times.
    pub(crate) rates: [u64; 2],
    /// Loss from and to the client, in parts per million.
    pub(crate) losses: [u64; 2],
    /// Processing time of the server.
    pub(crate) server_time: u64,
    /// ACK_TIMEOUT in microseconds.
    pub(crate) timeout: u64,
    /// Share of slow round trips in parts per million, and their additional delay.
    pub(crate) slow: (u64, u64),
}

impl Path {
    pub(crate) const DEFAULT: Self = Self {
        rtt: 400_000,
        jitter: 60_000,
        rates: [0, 0],
        losses: [50_000, 50_000],
        server_time: 300,
        timeout: 2_000_000,
        slow: (0, 0),
    };
}

/// A captured packet.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) at: u64,
    pub(crate) is_request: bool,
    pub(crate) payload: Vec<u8>,
}

/// Captures and ground truth.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) at_client: Vec<Captured>,
    pub(crate) at_server: Vec<Captured>,
    pub(crate) transmissions: u64,
    pub(crate) retransmissions: u64,
    pub(crate) spurious: u64,
    /// Round-trip times of the first answered transmission of each exchange.
    pub(crate) round_trips: Vec<u64>,
    pub(crate) unanswered: u64,
    /// Packets sent and lost by direction.
    pub(crate) sent: [u64; 2],
    pub(crate) lost: [u64; 2],
}

pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        self.next() % (most + 1)
    }
}

pub(crate) fn client() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 40_000))
}

pub(crate) fn server() -> SocketAddr {
    SocketAddr::from(([10, 9, 0, 2], 5_683))
}

impl Traffic {
    /// Requests in sequence; each response has a size drawn from `sizes`.
    pub(crate) fn requests(path: &Path, count: u16, sizes: &[[usize; 2]], seed: u64) -> Self {
        let mut traffic = Self::default();
        let mut draws = Draws(seed);
        let mut at = 1_000_000;
        for id in 0..count {
            let size = sizes[draws.up_to(sizes.len() as u64 - 1) as usize];
            at = traffic.exchange(path, id, size, at, &mut draws);
        }
        traffic.at_client.sort_by_key(|captured| captured.at);
        traffic.at_server.sort_by_key(|captured| captured.at);
        traffic
    }

    /// Arrival time of a packet; none if it is lost.
    fn send(
        &mut self,
        path: &Path,
        way: usize,
        at: u64,
        bytes: usize,
        draws: &mut Draws,
    ) -> Option<u64> {
        self.sent[way] += 1;
        let jitter = draws.up_to(path.jitter);
        if draws.up_to(999_999) < path.losses[way] {
            self.lost[way] += 1;
            return None;
        }
        let on_wire = match path.rates[way] {
            0 => 0,
            rate => (bytes as u64 + 28) * 8_000_000 / rate,
        };
        Some(at + path.rtt / 2 + on_wire + jitter)
    }

    fn exchange(
        &mut self,
        path: &Path,
        id: u16,
        size: [usize; 2],
        at: u64,
        draws: &mut Draws,
    ) -> u64 {
        let token = id.to_be_bytes();
        let options = [(OptionNumber::URI_PATH, &b"a"[..])];
        let body = vec![b'x'; size[0]];
        let request = message(Type::Confirmable, Code::POST, id, &token, &options, &body);
        let body = vec![b'y'; size[1]];
        let response = message(Type::Acknowledgement, Code::CONTENT, id, &token, &[], &body);
        let mut timeout = path.timeout + draws.up_to(path.timeout / 2);
        let slow = if draws.up_to(999_999) < path.slow.0 {
            path.slow.1
        } else {
            0
        };
        // Replies in flight: arrival time, and the time of their transmission.
        let mut replies: Vec<(u64, u64)> = Vec::new();
        let mut leaves = at;
        for copy in 0..5 {
            let first = replies.iter().map(|reply| reply.0).min();
            if let Some(arrived) = first.filter(|arrived| *arrived <= leaves) {
                self.finish(&replies);
                return arrived + 2_000;
            }
            self.transmissions += 1;
            if copy > 0 {
                self.retransmissions += 1;
                self.spurious += u64::from(!replies.is_empty());
            }
            self.at_client.push(Captured {
                at: leaves,
                is_request: true,
                payload: request.clone(),
            });
            if let Some(arrives) = self.send(path, 0, leaves, request.len(), draws) {
                self.at_server.push(Captured {
                    at: arrives,
                    is_request: true,
                    payload: request.clone(),
                });
                let replied = arrives + path.server_time;
                self.at_server.push(Captured {
                    at: replied,
                    is_request: false,
                    payload: response.clone(),
                });
                if let Some(back) = self.send(path, 1, replied, response.len(), draws) {
                    let back = back + slow;
                    self.at_client.push(Captured {
                        at: back,
                        is_request: false,
                        payload: response.clone(),
                    });
                    replies.push((back, leaves));
                }
            }
            leaves += timeout;
            timeout *= 2;
        }
        self.finish(&replies);
        replies
            .iter()
            .map(|reply| reply.0)
            .min()
            .unwrap_or(leaves)
            .max(at)
            + 2_000
    }

    fn finish(&mut self, replies: &[(u64, u64)]) {
        match replies.iter().min() {
            Some((back, left)) => self.round_trips.push(back - left),
            None => self.unanswered += 1,
        }
    }

    /// The client's capture.
    pub(crate) fn client_file(&self, layout: FileLayout, has_flags: bool) -> Vec<u8> {
        file(&self.at_client, layout, has_flags, true)
    }

    /// The server's capture.
    pub(crate) fn server_file(&self, layout: FileLayout, has_flags: bool) -> Vec<u8> {
        file(&self.at_server, layout, has_flags, false)
    }

    /// Quantile of the round-trip times.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let mut sorted = self.round_trips.clone();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1]
    }

    /// Share of transmissions without a reply.
    pub(crate) fn lost_round_trips(&self) -> f64 {
        let replies = self.sent[1] - self.lost[1];
        1.0 - replies as f64 / self.sent[0] as f64
    }
}

fn file(captured: &[Captured], layout: FileLayout, has_flags: bool, at_client: bool) -> Vec<u8> {
    let mut file = CaptureFile::new(layout);
    for one in captured {
        let (from, to) = if one.is_request {
            (client(), server())
        } else {
            (server(), client())
        };
        let flag = match (has_flags, one.is_request == at_client) {
            (false, _) => Flag::None,
            (true, true) => Flag::Outbound,
            (true, false) => Flag::Inbound,
        };
        file.packet(one.at, flag, &udp_packet(from, to, 64, &one.payload));
    }
    file.into_bytes()
}
