//! Multicast groups (RFC 7252 section 8): membership and the interface for outgoing messages.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use socket2::{InterfaceIndexOrAddress, SockRef};

/// Multicast group to join ([`ServerBuilder::join`](crate::server::ServerBuilder::join)), with an
/// optional interface.
///
/// As text: `224.0.1.187` or `ff05::fd`, which are "All CoAP Nodes" (RFC 7252 section 12.8), or
/// with an interface, `ff02::fd%eth0`.
///
/// ```
/// use carob::Group;
///
/// let group: Group = "ff02::fd%eth0".parse()?;
/// assert!(group.address().is_multicast());
/// assert!("192.0.2.1".parse::<Group>().is_err());
/// # Ok::<(), carob::GroupError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    address: IpAddr,
    interface: Option<String>,
}

/// Error of a [`Group`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The text is not an IP address.
    #[error("\"{0}\" is not an IP address")]
    Address(String),
    /// The address is not a multicast address.
    #[error("{0} is the address of one host, not of a group")]
    OneHost(IpAddr),
}

impl Group {
    /// Creates a group on an interface, given by name or index; `None` lets the system choose.
    ///
    /// # Errors
    ///
    /// [`GroupError::OneHost`] if the address is not a multicast address.
    pub fn new(address: IpAddr, interface: Option<String>) -> Result<Self, GroupError> {
        if address.to_canonical().is_multicast() {
            let address = address.to_canonical();
            Ok(Self { address, interface })
        } else {
            Err(GroupError::OneHost(address))
        }
    }

    /// Returns the group's address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Joins the group.
    pub(crate) fn join(&self, socket: &SockRef<'_>) -> io::Result<()> {
        let index = self.interface.as_deref().map_or(Ok(0), index)?;
        match &self.address {
            IpAddr::V4(group) => {
                let interface = if index == 0 {
                    // The system takes the interface from its routes.
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
        // As in a zone of an IPv6 address (RFC 4007 11), here for IPv4, too.
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

/// Options of multicast messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToGroups {
    /// The interface for outgoing messages.
    pub(crate) interface: Option<String>,
    /// Hop limit.
    pub(crate) hops: Option<u8>,
}

impl ToGroups {
    pub(crate) fn prepare(&self, socket: &SockRef<'_>, v6: bool) -> io::Result<()> {
        // A broadcast address counts as a group.
        socket.set_broadcast(true)?;
        if let Some(hops) = self.hops {
            // On an IPv6 socket, too: mapped addresses are sent to with the options of IPv4.
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

/// An IPv4 address of an interface, by which the system identifies it.
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
    fn multicast_group_with_interface_is_parsed() {
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
            ("coap", "\"coap\" is not an IP address"),
        ] {
            assert_eq!(text.parse::<Group>().unwrap_err().to_string(), problem);
        }
    }

    #[test]
    fn missing_interface_is_named() {
        let error = index("nowhere0").unwrap_err();
        assert_eq!(error.to_string(), "there is no interface \"nowhere0\"");
        #[cfg(target_os = "linux")]
        assert_eq!(index("lo").unwrap(), 1);
    }
}
