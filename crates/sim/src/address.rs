//! Addresses of hosts.

use std::net::{Ipv6Addr, SocketAddr};

/// The number of the host at `address`.
pub(crate) fn number_of(address: SocketAddr) -> u32 {
    let SocketAddr::V6(address) = address else {
        return u32::MAX;
    };
    let [.., a, b] = address.ip().segments();
    u32::from(a) << 16 | u32::from(b)
}

/// Earlier ports of the client at `address`.
pub(crate) fn earlier_ports_of(address: SocketAddr) -> u16 {
    address.port().wrapping_sub(PORT)
}

/// The address of host `number` after `ports` earlier ports.
pub(crate) fn address(number: u32, earlier_ports: u16) -> SocketAddr {
    let [a, b] = [(number >> 16) as u16, number as u16];
    let port = PORT.wrapping_add(earlier_ports);
    SocketAddr::from((Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, a, b), port))
}

/// CoAP's port (RFC 7252 12.8, RFC 8323 11.4).
pub(crate) const PORT: u16 = 5_683;
