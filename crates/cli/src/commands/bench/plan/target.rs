//! The resource that is asked, and where it is.

use std::net::{SocketAddr, ToSocketAddrs as _};

use carob::Error;
use carob_proto::codec::{Host, Scheme, Uri};

use super::wrong;
use crate::failure::Failure;

/// A resource of a server.
#[derive(Clone, Debug)]
pub(in super::super) struct Target {
    pub(in super::super) uri: Uri,
    pub(in super::super) address: SocketAddr,
}

impl Target {
    /// Reads a URI and finds the first address of its host.
    pub(super) fn resolve(text: &str) -> Result<Self, Failure> {
        let uri = Uri::parse(text).map_err(|source| Error::Uri {
            uri: text.to_owned(),
            source,
        })?;
        if uri.scheme() != Scheme::Coap {
            let scheme = uri.scheme().to_string();
            return Err(Error::Scheme { scheme }.into());
        }
        let host = match uri.host() {
            // Brackets are the URI's; the resolver knows zones by name and by number.
            Host::Ipv6 { address, zone } => match zone {
                Some(zone) => format!("{address}%{zone}"),
                None => address.to_string(),
            },
            host => host.to_string(),
        };
        let found = (host.as_str(), uri.port()).to_socket_addrs();
        let found = found.and_then(|mut all| {
            all.next()
                .ok_or_else(|| std::io::Error::other("the name has no address"))
        });
        let address = found.map_err(|source| Error::Resolve { host, source })?;
        let ip = address.ip();
        if ip.is_multicast() || ip.is_unspecified() {
            return Err(wrong(
                format_args!("{ip} is no single server's address"),
                "ask one server",
            ));
        }
        Ok(Self { uri, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    #[test]
    fn the_scheme_and_the_address_must_be_ones_that_can_be_asked() {
        let of = |uri: &str| Target::resolve(uri).expect_err(uri).kind;
        assert_eq!(of("coaps://127.0.0.1/"), Kind::Usage);
        assert_eq!(of("127.0.0.1"), Kind::Usage);
        assert_eq!(of("coap://[ff02::fd]/"), Kind::Usage);
        let v6 = Target::resolve("coap://[::1]:99/x").expect("an address");
        assert_eq!(v6.address, "[::1]:99".parse().expect("an address"));
    }
}
