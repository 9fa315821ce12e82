//! Sender of a packet: the device, by its port, and the exchange.

use carob_sim::NO_ITEM;

use crate::engine::Side;

/// Ports of devices, by number.
#[derive(Debug, Default)]
pub(crate) struct DevicePorts {
    ports: Vec<u16>,
    /// Identification of the last datagram towards each side, and its device, for its other IP fragments.
    last: [Option<(u16, u32)>; 2],
}

impl DevicePorts {
    /// Adds a port, unless it has a number already. Returns the number.
    pub(crate) fn add(&mut self, port: u16) -> u32 {
        let known = self.ports.iter().position(|known| *known == port);
        known.unwrap_or_else(|| {
            self.ports.push(port);
            self.ports.len() - 1
        }) as u32
    }

    /// The device that sends or receives an IPv4 packet; 0 if the packet has no port, as of ICMP.
    pub(crate) fn device(&mut self, from: Side, packet: &[u8]) -> u32 {
        let half = |at: usize| {
            let bytes = packet.get(at..at + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let header = packet
            .first()
            .map_or(0, |first| usize::from(first & 15) * 4);
        let (Some(identification), Some(offset), Some(protocol)) =
            (half(4), half(6), packet.get(9).copied())
        else {
            return 0;
        };
        let last = &mut self.last[usize::from(from == Side::Server)];
        if offset & 0x1fff != 0 {
            return last
                .filter(|(of, _)| *of == identification)
                .map_or(0, |(_, device)| device);
        }
        let is_known = protocol == IPPROTO_UDP || protocol == IPPROTO_TCP;
        let at = header + if from == Side::Server { 2 } else { 0 };
        let Some(port) = half(at).filter(|_| is_known) else {
            return 0;
        };
        let number = self.ports.iter().position(|known| *known == port);
        let device = number.map_or_else(|| self.add(port), |number| number as u32);
        self.last[usize::from(from == Side::Server)] = Some((identification, device));
        device
    }
}

/// The exchange of a CoAP message in an IPv4 packet: its Message ID, or [`NO_ITEM`] of an ACK or a Reset. None
/// of other packets and of later fragments.
///
/// A client that makes more than 65,536 exchanges in a run uses a Message ID again.
pub(crate) fn exchange(packet: &[u8]) -> Option<u32> {
    let header = usize::from(packet.first()? & 15) * 4;
    let offset = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff;
    if *packet.get(9)? != IPPROTO_UDP || offset != 0 {
        return None;
    }
    let message = packet.get(header + 8..)?;
    let [first, _, high, low] = *message.first_chunk()?;
    let is_reply = first >> 4 & 3 >= 2;
    Some(if is_reply {
        NO_ITEM
    } else {
        u16::from_be_bytes([high, low]).into()
    })
}

const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet between two ports: identification, offset in units of 8 B, protocol.
    fn packet(id: u16, offset: u16, protocol: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        bytes[0] = 0x45;
        bytes[4..6].copy_from_slice(&id.to_be_bytes());
        bytes[6..8].copy_from_slice(&offset.to_be_bytes());
        bytes[9] = protocol;
        bytes.extend(ports.map(u16::to_be_bytes).concat());
        bytes
    }

    #[test]
    fn every_port_of_the_clients_is_a_device() {
        let mut ports = DevicePorts::default();
        assert_eq!([ports.add(40_001), ports.add(40_000)], [0, 1]);
        let up = packet(1, 0, IPPROTO_UDP, [40_000, 5683]);
        assert_eq!(ports.device(Side::Client, &up), 1);
        let down = packet(1, 0, IPPROTO_TCP, [5683, 40_001]);
        assert_eq!(ports.device(Side::Server, &down), 0);
        let new = packet(2, 0, IPPROTO_UDP, [40_002, 5683]);
        assert_eq!(ports.device(Side::Client, &new), 2);
        assert_eq!(ports.device(Side::Client, &packet(3, 0, 1, [40_003, 1])), 0);
        assert_eq!(ports.device(Side::Client, &[0x45]), 0);
    }

    #[test]
    fn a_message_belongs_to_the_exchange_of_its_message_id() {
        let message = |first: u8| {
            let mut bytes = packet(1, 0, IPPROTO_UDP, [40_000, 5683]);
            bytes.extend([0, 12, 0, 0, first, 1, 0x12, 0x34]);
            bytes
        };
        let [con, non, ack, reset] = [0x40, 0x50, 0x60, 0x70].map(message);
        assert_eq!([exchange(&con), exchange(&non)], [Some(0x1234); 2]);
        assert_eq!([exchange(&ack), exchange(&reset)], [Some(NO_ITEM); 2]);
        let mut later = con.clone();
        later[7] = 16;
        assert_eq!(exchange(&later), None);
        assert_eq!(exchange(&con[..30]), None);
        let tcp = packet(1, 0, IPPROTO_TCP, [40_000, 5683]);
        assert_eq!(exchange(&tcp), None);
    }

    #[test]
    fn fragments_of_a_datagram_are_of_its_device() {
        let mut ports = DevicePorts::default();
        ports.add(40_000);
        let first = packet(7, 0x2000, IPPROTO_UDP, [40_001, 5683]);
        assert_eq!(ports.device(Side::Client, &first), 1);
        // Its payload looks like ports of another device.
        let second = packet(7, 0x2010, IPPROTO_UDP, [40_000, 40_000]);
        assert_eq!(ports.device(Side::Client, &second), 1);
        let stray = packet(8, 0x0010, IPPROTO_UDP, [40_001, 40_001]);
        assert_eq!(ports.device(Side::Client, &stray), 0);
    }
}
