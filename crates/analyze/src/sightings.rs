//! Packets that were captured more than once: on several interfaces, at a mirror port, or before and behind
//! a router. Each counts once.
//!
//! A retransmission is another packet with the same contents. It is distinguished by the identification of
//! IPv4, by the sequence number of the link layer, or by its way: one packet passes each place once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::input::Direction;
use crate::input::packet::Datagram;
use crate::limits::{BETWEEN_MAX, SIGHTINGS_MAX};
use crate::message::{Hash, Message};

/// Time within which a packet is at another place, in microseconds: with an identification, and without
/// one.
const OTHER_PLACE_US: [u64; 2] = [1_000_000, 250_000];
/// Time within which a packet is at the same place again: with an identification or a sequence number, and
/// without one. No sender repeats a message so soon.
const SAME_PLACE_US: [u64; 2] = [100_000, 1_000];
/// Time for which packets are held, and within which they are put in order.
pub(crate) const HOLD_US: u64 = OTHER_PLACE_US[0];

/// Peers, contents and identification of a packet, and the direction in which it was seen first.
type Key = ([SocketAddr; 2], u64, Option<Direction>);
/// Time, and index among sightings of that time.
type Place = (u64, u64);

/// A message of a packet that is held, or a datagram that is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// The peer at which it was captured.
    pub(crate) end: Option<u32>,
    pub(crate) is_port: bool,
    pub(crate) is_exported: bool,
    pub(crate) message: Option<Message>,
}

/// A packet, and the places at which it was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) held: Vec<Held>,
    /// Captured packets beyond the first.
    pub(crate) repeated: u64,
    key: Key,
    interface: u32,
    ip_id: u16,
    /// Paths with the sequence numbers of their link layers.
    paths: Vec<(u64, Option<u8>)>,
}

/// Packets that may be seen again.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    held: BTreeMap<Place, Seen>,
    /// Messages of the packets held: one packet may have many DTLS records.
    messages: usize,
    /// The latest packet of each key.
    latest: BTreeMap<Key, Place>,
    /// Peers between which the capture is, since packets between them came in and went out, or came in from
    /// both.
    between: BTreeSet<[SocketAddr; 2]>,
    /// Confirmable and non-confirmable messages that were seen again: peers and Message ID.
    again: BTreeSet<([SocketAddr; 2], u16)>,
    /// Senders of the packets of one direction at an interface.
    ways: BTreeMap<([SocketAddr; 2], u32, Direction), [bool; 2]>,
    number: u64,
    now: u64,
}

impl Sightings {
    /// Returns the place of a packet whose messages are to be held; `None` if it was seen before.
    pub(crate) fn see(&mut self, at: u64, datagram: &Datagram<'_>) -> Option<Place> {
        let sighting = datagram.sighting;
        let path = (sighting.path, sighting.frame_id);
        let mut contents = Hash::new();
        contents.add(datagram.payload);
        contents.add(&sighting.ip_id.to_be_bytes());
        let key = |direction| ([datagram.from, datagram.to], contents.0, direction);
        let way = datagram.direction;
        let before: &[Option<Direction>] = match way {
            Some(Direction::Outbound) => &[way, Some(Direction::Inbound), None],
            Some(Direction::Inbound) => &[way, None, Some(Direction::Outbound)],
            None => &[None, Some(Direction::Inbound), Some(Direction::Outbound)],
        };
        for direction in before {
            let Some(place) = self.latest.get(&key(*direction)) else {
                continue;
            };
            let Some(seen) = self.held.get_mut(place) else {
                continue;
            };
            // A packet that left one peer and came in elsewhere is at the other peer: both ends were captured.
            let is_other_end = *direction == Some(Direction::Outbound)
                && way == Some(Direction::Inbound)
                && seen.interface != sighting.interface;
            let again = seen.is_again(at.abs_diff(place.0), path);
            if is_other_end || again == Again::No {
                break;
            }
            let peers = sorted(datagram.from, datagram.to);
            match reply_id(datagram.payload) {
                // A queue may release the replies to two transmissions at once.
                Some((true, id)) if again == Again::Soon && !self.again.contains(&(peers, id)) => {
                    break;
                }
                Some((false, id)) => {
                    if self.again.len() >= SIGHTINGS_MAX {
                        self.again.clear();
                    }
                    self.again.insert((peers, id));
                }
                _ => {}
            }
            seen.repeated += 1;
            if way == Some(Direction::Outbound) && *direction != way {
                self.set_between(sorted(datagram.from, datagram.to));
            }
            return None;
        }
        self.see_way(datagram);
        self.number += 1;
        let place = (at, self.number);
        let seen = Seen {
            held: Vec::new(),
            repeated: 0,
            key: key(way),
            interface: sighting.interface,
            ip_id: sighting.ip_id,
            paths: vec![path],
        };
        self.latest.insert(seen.key, place);
        self.held.insert(place, seen);
        self.now = self.now.max(at);
        Some(place)
    }

    /// Remembers peers between which the capture is: packets of both are inbound, or outbound, at one interface.
    fn see_way(&mut self, datagram: &Datagram<'_>) {
        let Some(way) = datagram.direction else {
            return;
        };
        let peers = sorted(datagram.from, datagram.to);
        let key = (peers, datagram.sighting.interface, way);
        if self.ways.len() >= WAYS_MAX && !self.ways.contains_key(&key) {
            return;
        }
        let senders = self.ways.entry(key).or_default();
        senders[usize::from(datagram.from != peers[0])] = true;
        if *senders == [true; 2] && peers[0].ip() != peers[1].ip() {
            self.set_between(peers);
        }
    }

    fn set_between(&mut self, peers: [SocketAddr; 2]) {
        if self.between.len() < BETWEEN_MAX {
            self.between.insert(peers);
        }
    }

    /// Holds a message of a packet.
    pub(crate) fn hold(&mut self, place: Place, held: Held) {
        if let Some(seen) = self.held.get_mut(&place) {
            seen.held.push(held);
            self.messages += 1;
        }
    }

    /// Returns true if a time is so far before others that another part of the file begins.
    pub(crate) fn is_back(&self, at: u64) -> bool {
        at.saturating_add(HOLD_US) < self.now
    }

    /// Returns the next packet that cannot be seen again, in the order of times; with `all`, the next one.
    pub(crate) fn next(&mut self, all: bool) -> Option<Seen> {
        let (place, _) = self.held.first_key_value()?;
        let is_over = self.now.saturating_sub(place.0) > HOLD_US;
        let is_full = self.held.len().max(self.messages) >= SIGHTINGS_MAX;
        if !all && !is_over && !is_full {
            return None;
        }
        let (place, mut seen) = self.held.pop_first()?;
        self.messages -= seen.held.len();
        if self.latest.get(&seen.key) == Some(&place) {
            self.latest.remove(&seen.key);
        }
        // The following packets may have earlier times.
        if self.held.is_empty() {
            self.again.clear();
            if all {
                self.now = 0;
            }
        }
        for held in &mut seen.held {
            let is_between = self.between.contains(&sorted(held.from, held.to));
            held.end = held.end.filter(|_| !is_between);
        }
        Some(seen)
    }

    /// Packets held, keys, and peers between which the capture is.
    #[cfg(test)]
    fn sizes(&self) -> [usize; 3] {
        [self.held.len(), self.latest.len(), self.between.len()]
    }
}

/// Relation of a packet to an earlier one with the same contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// Another packet.
    No,
    /// The same packet.
    Yes,
    /// The same packet, if nothing but the time decides.
    Soon,
}

/// Returns whether a message is an acknowledgement or a reset, and its Message ID; none if it is not CoAP
/// (RFC 7252 3).
fn reply_id(payload: &[u8]) -> Option<(bool, u16)> {
    let &[first, _, high, low, ..] = payload else {
        return None;
    };
    let is_reply = (first >> 4) & 0b10 != 0;
    (first >> 6 == 1).then_some((is_reply, u16::from_be_bytes([high, low])))
}

impl Seen {
    /// Returns whether a packet with the same contents, `after` microseconds later, is the same one.
    fn is_again(&mut self, after: u64, (path, frame_id): (u64, Option<u8>)) -> Again {
        let yes = |is_again: bool| if is_again { Again::Yes } else { Again::No };
        let is_identified = self.ip_id != 0;
        let same = self.paths.iter().find(|known| known.0 == path);
        let Some((_, known_id)) = same else {
            let is_again = after <= OTHER_PLACE_US[usize::from(!is_identified)];
            if is_again && self.paths.len() < PATHS_MAX {
                self.paths.push((path, frame_id));
            }
            return yes(is_again);
        };
        match (known_id, frame_id) {
            (Some(known), Some(id)) => yes(*known == id && after <= SAME_PLACE_US[0]),
            _ if is_identified => yes(after <= SAME_PLACE_US[0]),
            _ if after <= SAME_PLACE_US[1] => Again::Soon,
            _ => Again::No,
        }
    }
}

/// Places of a packet that are remembered.
const PATHS_MAX: usize = 16;
/// Directions of peers at interfaces that are remembered: two interfaces with both directions each.
const WAYS_MAX: usize = 4 * BETWEEN_MAX;

fn sorted(from: SocketAddr, to: SocketAddr) -> [SocketAddr; 2] {
    if from <= to { [from, to] } else { [to, from] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::packet::Sighting;

    fn seen(
        sightings: &mut Sightings,
        at: u64,
        payload: &[u8],
        (ip_id, path): (u16, u64),
        direction: Option<Direction>,
    ) -> bool {
        let from = SocketAddr::from(([10, 0, 0, 1], 40_000));
        let to = SocketAddr::from(([10, 0, 0, 2], 5_683));
        let datagram = Datagram {
            direction,
            sighting: Sighting {
                ip_id,
                interface: path as u32,
                path,
                frame_id: None,
            },
            ..Datagram::of(from, to, payload)
        };
        sightings.see(at, &datagram).is_none()
    }

    #[test]
    fn simultaneous_replies_are_not_merged() {
        let (request, reply) = ([0x40, 1, 0, 9], [0x60, 69, 0, 9]);
        let mut sightings = Sightings::default();
        assert!(!seen(&mut sightings, 0, &request, (0, 1), None));
        assert!(!seen(&mut sightings, 50_000, &reply, (0, 1), None));
        assert!(!seen(&mut sightings, 50_020, &reply, (0, 1), None));
        // The request was seen twice, and so is its reply.
        let mut sightings = Sightings::default();
        assert!(!seen(&mut sightings, 0, &request, (0, 1), None));
        assert!(seen(&mut sightings, 30, &request, (0, 1), None));
        assert!(!seen(&mut sightings, 50_000, &reply, (0, 1), None));
        assert!(seen(&mut sightings, 50_020, &reply, (0, 1), None));
    }

    #[test]
    fn packets_seen_at_several_places_are_no_retransmissions() {
        // Time of the second packet, identifications, path of the second one: the first has path 1.
        for (at, ids, path, expected) in [
            (30, [7, 7], 2, true),
            (30, [0, 0], 2, true),
            (30, [7, 8], 2, false),
            (30, [7, 7], 1, true),
            (30, [0, 0], 1, true),
            (90_000, [7, 7], 1, true),
            (90_000, [0, 0], 1, false),
            (900_000, [7, 7], 2, true),
            (900_000, [0, 0], 2, false),
            (2_000_000, [7, 7], 2, false),
        ] {
            let mut sightings = Sightings::default();
            assert!(!seen(&mut sightings, 0, b"a", (ids[0], 1), None));
            let again = seen(&mut sightings, at, b"a", (ids[1], path), None);
            assert_eq!(again, expected, "{at} {ids:?} {path}");
            assert!(!seen(&mut sightings, at, b"b", (ids[1], path), None));
        }
    }

    #[test]
    fn a_retransmission_at_two_places_is_one_retransmission() {
        let mut sightings = Sightings::default();
        let mut all = Vec::new();
        for at in [0, 150_000] {
            for path in [1, 2, 3] {
                all.push(seen(&mut sightings, at + path * 40, b"a", (0, path), None));
            }
        }
        assert_eq!(all, [false, true, true, false, true, true]);
    }

    #[test]
    fn packet_seen_inbound_after_outbound_is_at_the_other_end() {
        let (inbound, outbound) = (Some(Direction::Inbound), Some(Direction::Outbound));
        let mut sightings = Sightings::default();
        assert!(!seen(&mut sightings, 0, b"a", (7, 1), outbound));
        assert!(!seen(&mut sightings, 40_000, b"a", (7, 2), inbound));
        assert_eq!(sightings.sizes()[2], 0);
        // Forwarded: it came in before it left.
        assert!(!seen(&mut sightings, 50_000, b"b", (8, 2), inbound));
        assert!(seen(&mut sightings, 50_040, b"b", (8, 1), outbound));
        assert_eq!(sightings.sizes()[2], 1);
    }

    #[test]
    fn packets_are_returned_in_the_order_of_their_times() {
        let mut sightings = Sightings::default();
        for at in [5_000, 3_000, 4_000, 1_900_000] {
            assert!(!seen(&mut sightings, at, &at.to_be_bytes(), (0, 1), None));
        }
        let mut count = 0;
        while sightings.next(false).is_some() {
            count += 1;
        }
        assert_eq!(count, 3, "the last one may still be seen again");
        assert_eq!(sightings.sizes()[..2], [1, 1]);
        assert!(sightings.is_back(5_000) && !sightings.is_back(1_000_000));
        assert!(sightings.next(true).is_some() && sightings.next(true).is_none());
    }

    #[test]
    fn packets_of_one_time_do_not_grow_the_table() {
        let mut sightings = Sightings::default();
        for number in 0..10_000_u64 {
            seen(&mut sightings, 7, &number.to_be_bytes(), (0, 1), None);
            while sightings.next(false).is_some() {}
        }
        let [held, latest, _] = sightings.sizes();
        assert!(held <= SIGHTINGS_MAX && latest <= held, "{held} {latest}");
        // A packet with many records counts as many.
        let mut sightings = Sightings::default();
        let from = SocketAddr::from(([10, 0, 0, 1], 5_684));
        let held = Held {
            from,
            to: from,
            end: None,
            is_port: true,
            is_exported: true,
            message: None,
        };
        let mut returned = 0;
        for number in 0..100_u8 {
            let datagram = Datagram::of(from, from, std::slice::from_ref(&number));
            let place = sightings.see(7, &datagram).expect("another packet");
            (0..1_000).for_each(|_| sightings.hold(place, held));
            returned += std::iter::from_fn(|| sightings.next(false)).count();
        }
        assert!(returned >= 95, "{returned}");
    }
}
