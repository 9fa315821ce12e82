//! The network between hosts: loss, duplication, delay, damage, ICMP.

use std::net::SocketAddr;

use carob_cc::time::Duration;
use carob_proto::endpoint::MESSAGE_BYTES;

use super::host::{group_of, index_of};
use super::ledger::Breach;
use super::spec::{Damage, Defect};
use super::{Fleet, FleetEvent};
use carob_sim::hash::mix;
use carob_sim::random::Stream;

/// A datagram in flight.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// True if it was sent to a group.
    pub(super) grouped: bool,
    pub(super) bytes: Vec<u8>,
}

/// Minimum bytes of a datagram that ICMP quotes, and as many as the message layer needs.
const QUOTED: usize = 12;

impl Fleet<'_> {
    /// Sends a datagram of a host.
    pub(super) fn send(&mut self, host: u32, to: SocketAddr, bytes: Vec<u8>) {
        self.ledger.record.datagrams += 1;
        self.note(bytes.len() as u64);
        if bytes.len() > MESSAGE_BYTES {
            let details = format!("{} bytes to {to}", bytes.len());
            self.ledger.breach(self.now, host, Breach::TooLong, details);
        }
        let from = self.hosts[host as usize].address;
        if let Some(group) = group_of(to.ip()) {
            for member in self.members(group) {
                let to = self.hosts[member as usize].address;
                let flight = Flight {
                    from,
                    to,
                    grouped: true,
                    bytes: bytes.clone(),
                };
                self.offer(host, member, flight);
            }
        } else if let Some(receiver) = index_of(to.ip())
            && (receiver as usize) < self.hosts.len()
        {
            let flight = Flight {
                from,
                to,
                grouped: false,
                bytes,
            };
            self.offer(host, receiver, flight);
        }
    }

    /// Draws the fate of a datagram.
    fn offer(&mut self, sender: u32, receiver: u32, mut flight: Flight) {
        if self.hosts[sender as usize].cut || self.hosts[receiver as usize].cut {
            self.ledger.record.lost += 1;
            return;
        }
        let faults = self.spec.faults;
        let copies = 1 + u32::from(self.network.happens(faults.duplication));
        for copy in 0..copies {
            if copy > 0 {
                self.ledger.record.duplicated += 1;
                let request = flight
                    .bytes
                    .get(1)
                    .is_some_and(|code| (1..32).contains(code));
                if self.spec.defect == Some(Defect::DuplicatesAreNew) && request {
                    flight.bytes[2] ^= 0x55;
                }
            }
            let (lost, damaged, late, very_late) = (
                self.network.happens(faults.loss),
                self.network.happens(faults.corruption),
                self.network.happens(faults.late),
                self.network.happens(faults.very_late),
            );
            let (a, b) = (
                self.network.next_u64() % 2_000_000,
                self.network.next_u64() % 60_000_000,
            );
            let extra = if very_late {
                b
            } else if late {
                a
            } else {
                a / 100
            };
            if lost || (damaged && self.spec.damage == Damage::Noticed) {
                self.ledger.record.lost += 1;
                continue;
            }
            let mut flight = flight.clone();
            if damaged {
                self.ledger.record.damaged += 1;
                damage(&mut self.network, &mut flight.bytes);
            }
            // 2 to 150 ms between two hosts, the same in both directions.
            let pair = u64::from(sender.min(receiver)) << 32 | u64::from(sender.max(receiver));
            let way = 2_000 + mix(pair) % 148_000;
            let at = self.now + Duration::from_micros(way + extra);
            self.queue.push(at, FleetEvent::Arrival(Box::new(flight)));
        }
    }

    /// Delivers a datagram to a host.
    pub(super) fn arrive(&mut self, flight: Flight) {
        use super::host::{Pause, SOCKET_DATAGRAMS};
        let Some(receiver) = index_of(flight.to.ip()) else {
            return;
        };
        let host = &mut self.hosts[receiver as usize];
        let stalled = match host.pause {
            _ if host.cut => return self.ledger.record.lost += 1,
            Some(Pause::Suspended(_)) => return self.ledger.record.lost += 1,
            Some(Pause::Stalled) => true,
            None => false,
        };
        if flight.to.port() != host.address.port() {
            // The port is closed. Half of the networks report it.
            self.ledger.record.lost += 1;
            if self.network.next_u64().is_multiple_of(2)
                && let Some(sender) = index_of(flight.from.ip())
            {
                let mut quoted = flight.bytes;
                quoted.truncate(QUOTED);
                let at = self.now + Duration::from_millis(20);
                let peer = flight.to;
                let to = flight.from;
                let event = FleetEvent::Unreachable(sender, Box::new((to, peer, quoted)));
                self.queue.push(at, event);
            }
            return;
        }
        if stalled {
            if host.waiting.len() < SOCKET_DATAGRAMS {
                host.waiting.push_back(flight);
            } else {
                self.ledger.record.lost += 1;
            }
            return;
        }
        self.deliver(receiver, &flight);
        self.drain(receiver);
    }

    /// Passes a datagram to a host's endpoint.
    pub(super) fn deliver(&mut self, receiver: u32, flight: &Flight) {
        let host = &mut self.hosts[receiver as usize];
        let own = host.own(self.now);
        if flight.grouped {
            host.end
                .handle_group_datagram(own, flight.from, &flight.bytes);
        } else {
            host.end.handle_datagram(own, flight.from, &flight.bytes);
        }
    }

    /// Reports an unreachable destination to a host.
    pub(super) fn unreachable(
        &mut self,
        host: u32,
        to: SocketAddr,
        peer: SocketAddr,
        quoted: &[u8],
    ) {
        let sender = &mut self.hosts[host as usize];
        if sender.address != to || sender.pause.is_some() {
            return;
        }
        let own = sender.own(self.now);
        if sender.end.is_under_way(peer, quoted) {
            sender.end.handle_unreachable(own, peer);
            self.drain(host);
        }
    }
}

/// Flips bits, truncates, or overwrites some bytes.
fn damage(stream: &mut Stream, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let draw = stream.next_u64();
    let place = (draw >> 8) as usize % bytes.len();
    match draw & 3 {
        0 | 1 => {
            // Near the header, where changes matter most, every other time.
            let place = if draw & 4 == 0 { place } else { place.min(11) };
            let place = place.min(bytes.len() - 1);
            for n in 0..=(draw >> 40 & 3) {
                bytes[place] ^= 1 << ((draw >> (44 + 4 * n)) & 7);
            }
        }
        2 => bytes.truncate(place),
        _ => {
            let word = stream.next_u64().to_le_bytes();
            for (byte, new) in bytes[place..].iter_mut().zip(word) {
                *byte = new;
            }
        }
    }
}
