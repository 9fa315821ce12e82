//! Groups of hosts: which we are in, and by which interface we write to them (RFC 7252 8).

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use socket2::{InterfaceIndexOrAddress, SockRef};

/// A multicast group that a server is in: `224.0.1.187` or `ff05::fd`, "All CoAP Nodes" (RFC 7252
/// 12.8), with the interface after a `%` where it is not the system's choice: `ff02::fd%eth0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    address: IpAddr,
    interface: Option<String>,
}

/// Why a text names no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// It is no address.
    #[error("\"{0}\" is no IP address")]
    Address(String),
    /// It is the address of one host.
    #[error("{0} is the address of one host, not of a group")]
    OneHost(IpAddr),
}

impl Group {
    /// A group, and the interface by which its messages come; without one, the system chooses.
    pub fn new(address: IpAddr, interface: Option<String>) -> Result<Self, GroupError> {
        if address.to_canonical().is_multicast() {
            let address = address.to_canonical();
            Ok(Self { address, interface })
        } else {
            Err(GroupError::OneHost(address))
        }
    }

    /// The group's address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Becomes a member.
    pub(crate) fn join(&self, socket: &SockRef<'_>) -> io::Result<()> {
        let index = self.interface.as_deref().map_or(Ok(0), index)?;
        match &self.address {
            IpAddr::V4(group) => {
                let interface = if index == 0 {
                    InterfaceIndexOrAddress::Address(Ipv4Addr::UNSPECIFIED)
                } else {
                    InterfaceIndexOrAddress::Index(index)
                };
                socket.join_multicast_v4_n(group, &interface)
            }
            IpAddr::V6(group) => socket.join_multicast_v6(group, index),
        }
    }
}

impl FromStr for Group {
    type Err = GroupError;

    fn from_str(text: &str) -> Result<Self, GroupError> {
        let (address, interface) = match text.split_once('%') {
            Some((address, interface)) => (address, Some(interface.to_owned())),
            None => (text, None),
        };
        let parsed = address.parse();
        let address = parsed.map_err(|_| GroupError::Address(address.to_owned()))?;
        Self::new(address, interface)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{}%{interface}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// How messages to groups leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToGroups {
    /// By which interface.
    pub(crate) interface: Option<String>,
    /// How many routers they may pass, plus one.
    pub(crate) hops: Option<u8>,
}

impl ToGroups {
    pub(crate) fn prepare(&self, socket: &SockRef<'_>, v6: bool) -> io::Result<()> {
        // The broadcast address of a network is a group, too.
        socket.set_broadcast(true)?;
        if let Some(hops) = self.hops {
            socket.set_multicast_ttl_v4(hops.into())?;
            if v6 {
                socket.set_multicast_hops_v6(hops.into())?;
            }
        }
        if let Some(interface) = &self.interface {
            let index = index(interface)?;
            let v4 = ipv4_of(interface);
            if let Some(address) = v4 {
                socket.set_multicast_if_v4(&address)?;
            }
            if v6 {
                socket.set_multicast_if_v6(index)?;
            } else if v4.is_none() {
                let text = format!("{interface} has no IPv4 address");
                return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
            }
        }
        Ok(())
    }
}

/// The number of an interface, given by name or number.
fn index(interface: &str) -> io::Result<u32> {
    if let Ok(index) = interface.parse() {
        return Ok(index);
    }
    #[cfg(target_os = "linux")]
    if let Ok(index) = nix::net::if_::if_nametoindex(interface) {
        return Ok(index);
    }
    let text = format!("there is no interface \"{interface}\"");
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

/// An IPv4 address of an interface, by which the system knows it.
#[cfg(target_os = "linux")]
fn ipv4_of(interface: &str) -> Option<Ipv4Addr> {
    let name = match interface.parse() {
        Ok(index) => nix::net::if_::if_indextoname(index)
            .ok()?
            .into_string()
            .ok()?,
        Err(_) => interface.to_owned(),
    };
    let all = nix::ifaddrs::getifaddrs().ok()?;
    let mut own = all.filter(|one| one.interface_name == name);
    own.find_map(|one| Some(one.address?.as_sockaddr_in()?.ip()))
}

#[cfg(not(target_os = "linux"))]
fn ipv4_of(_: &str) -> Option<Ipv4Addr> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_with_its_interface_and_nothing_else_is_one() {
        for text in ["224.0.1.187", "ff05::fd", "ff02::fd%eth0"] {
            let group: Group = text.parse().unwrap();
            assert_eq!(group.to_string(), text);
        }
        assert_eq!(
            "::ffff:224.0.1.187".parse::<Group>().unwrap().address(),
            "224.0.1.187".parse::<IpAddr>().unwrap()
        );
        for (text, problem) in [
            (
                "10.0.0.1",
                "10.0.0.1 is the address of one host, not of a group",
            ),
            ("coap", "\"coap\" is no IP address"),
        ] {
            assert_eq!(text.parse::<Group>().unwrap_err().to_string(), problem);
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = index("nowhere0").unwrap_err();
        assert_eq!(error.to_string(), "there is no interface \"nowhere0\"");
        #[cfg(target_os = "linux")]
        assert_eq!(index("lo").unwrap(), 1);
    }
}
