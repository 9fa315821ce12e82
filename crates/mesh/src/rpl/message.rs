//! RPL control messages.

use super::lollipop::Lollipop;
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
}
