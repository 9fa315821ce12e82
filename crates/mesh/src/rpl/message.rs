//! RPL control messages and their lollipop sequence counters, which distinguish a restart from a wrap (RFC 6550, 7.2).

use crate::Node;
use crate::spec::RplMode;

/// INFINITE_RANK: the rank of a node without a route to the root (RFC 6550, 17).
pub const INFINITE_RANK: u16 = 0xffff;

/// An RPL message. The configuration in DIOs is the same for all nodes and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// DODAG Information Solicitation.
    Dis {
        /// True for a multicast, which resets the neighbours' Trickle timers; a neighbour answers a
        /// unicast with a DIO.
        multicast: bool,
    },
    /// DODAG Information Object.
    Dio {
        /// The sender's rank.
        rank: u16,
        /// Version of the DODAG.
        version: Lollipop,
        /// Destination Advertisement Trigger Sequence Number.
        dtsn: Lollipop,
    },
    /// Destination Advertisement Object.
    Dao {
        /// The reachable node.
        target: Node,
        /// Its parent, in non-storing mode.
        parent: Option<Node>,
        /// True for a No-Path DAO (lifetime 0): the target is no longer reachable.
        no_path: bool,
        /// The sender's sequence number.
        sequence: Lollipop,
    },
}

/// Type, code and checksum of ICMPv6 (RFC 4443, 2.1).
const ICMP: u16 = 4;
/// Flags and reserved (RFC 6550, 6.2).
const DIS: u16 = 2;
/// Instance, version, rank, flags, DTSN, reserved and DODAGID (6.3).
const DIO: u16 = 24;
/// DODAG Configuration option (6.7.6).
const CONFIGURATION: u16 = 16;
/// Prefix Information option (6.7.10).
const PREFIX: u16 = 32;
/// Instance, flags, reserved, sequence, and the DODAGID, which Contiki includes in its default
/// build for two DODAGs (6.4).
const DAO: u16 = 4 + 16;
/// RPL Target option with a whole address (6.7.7).
const TARGET: u16 = 4 + 16;
/// Transit Information option (6.7.8) without a parent's address.
const TRANSIT: u16 = 6;
/// A parent's address in it.
const PARENT: u16 = 16;

impl Message {
    /// Size of the ICMPv6 message in bytes, its header included, as Contiki 2.7 to 3.x sends it
    /// (`dis_output`, `dio_output`, `dao_output_target` in `rpl-icmp6.c`): each DIO with the
    /// configuration and the root's prefix and without a metric container, each DAO with one target.
    pub fn icmp_bytes(&self, mode: RplMode) -> u16 {
        ICMP + match (self, mode) {
            (Self::Dis { .. }, _) => DIS,
            (Self::Dio { .. }, _) => DIO + CONFIGURATION + PREFIX,
            (Self::Dao { .. }, RplMode::Storing) => DAO + TARGET + TRANSIT,
            (Self::Dao { .. }, RplMode::NonStoring) => DAO + TARGET + TRANSIT + PARENT,
        }
    }
}

/// The RPL option of a packet (RFC 6553).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RplOption {
    /// The packet travels away from the root.
    pub down: bool,
    /// A first rank error occurred.
    pub rank_error: bool,
    /// The packet found no route down and comes back.
    pub forwarding_error: bool,
    /// Rank of the last sender.
    pub sender_rank: u16,
}

/// A counter: 128 to 255 after a start, then 0 to 127 cyclically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lollipop(pub u8);

/// Counters further apart than this cannot be compared.
const WINDOW: i32 = 16;

/// The last value of the circular part.
const CIRCULAR_MAX: u8 = 127;

impl Lollipop {
    /// The initial value.
    pub const START: Self = Self(240);

    /// The next value.
    #[must_use]
    pub fn next(self) -> Self {
        if self.0 > CIRCULAR_MAX {
            Self(self.0.wrapping_add(1))
        } else {
            Self((self.0 + 1) & CIRCULAR_MAX)
        }
    }

    /// Returns whether this is later than `other`, by Contiki's interpretation of the RFC.
    pub fn is_after(self, other: Self) -> bool {
        let (a, b) = (i32::from(self.0), i32::from(other.0));
        if self.0 > CIRCULAR_MAX && other.0 <= CIRCULAR_MAX {
            return 256 + b - a > WINDOW;
        }
        (a > b && a - b < WINDOW) || (a < b && b - a > i32::from(CIRCULAR_MAX) + 1 - WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_rfc_with_contikis_options() {
        let dio = Message::Dio {
            rank: 256,
            version: Lollipop::START,
            dtsn: Lollipop::START,
        };
        let dao = Message::Dao {
            target: 1,
            parent: None,
            no_path: false,
            sequence: Lollipop::START,
        };
        let dis = Message::Dis { multicast: true };
        let sizes = [dis, dio, dao].map(|message| message.icmp_bytes(RplMode::Storing));
        assert_eq!(sizes, [6, 76, 50]);
        assert_eq!(dao.icmp_bytes(RplMode::NonStoring), 66);
    }

    #[test]
    fn the_straight_part_leads_into_the_circle() {
        let mut counter = Lollipop::START;
        for _ in 0..16 {
            let next = counter.next();
            assert!(
                next.is_after(counter) && !counter.is_after(next),
                "{next:?}"
            );
            counter = next;
        }
        assert_eq!(counter, Lollipop(0));
        assert_eq!(Lollipop(127).next(), Lollipop(0));
        assert!(Lollipop(0).is_after(Lollipop(127)));
        assert!(!Lollipop(127).is_after(Lollipop(0)));
    }

    #[test]
    fn counter_is_not_after_itself() {
        assert!((0..=255).all(|value| !Lollipop(value).is_after(Lollipop(value))));
    }
}
