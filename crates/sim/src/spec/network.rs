//! The network of a run: a constrained link or a mesh.

use crate::link::{DeviceSpec, LinkSpec};
use crate::mesh::spec::MeshSpec;

/// The network of a run.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a run has one, mostly the larger"
)]
pub enum NetworkSpec {
    /// A link between clients and servers.
    Link(LinkNetworkSpec),
    /// A wireless network.
    Mesh(MeshSpec),
}

/// A constrained link shared by all clients.
#[derive(Clone, Debug)]
pub struct LinkNetworkSpec {
    /// Its directions.
    pub link: LinkSpec,
    /// Size of the IP and UDP headers of each datagram in bytes.
    pub header_bytes: u32,
    /// The largest packet in bytes, headers included; at least 68. A larger datagram is fragmented
    /// as in IPv4; TCP's segments must fit.
    pub mtu_bytes: u32,
    /// Radios of the devices. Default: none.
    pub device: DeviceSpec,
}

impl LinkNetworkSpec {
    /// A link of IPv4 packets up to an MTU, without radios.
    pub fn new(link: LinkSpec, mtu_bytes: u32) -> Self {
        Self {
            link,
            header_bytes: 28,
            mtu_bytes,
            device: DeviceSpec::default(),
        }
    }
}
