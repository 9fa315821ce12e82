//! The proxy's own names: it must recognize URIs of itself (RFC 7252 5.10.2).

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::OnceLock;

use carob_proto::codec::{Host, Scheme, Uri};

/// A proxy's names and addresses.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Host names of the proxy, in lower case.
    pub(super) hosts: Vec<String>,
    /// The bound addresses, set after the start.
    pub(super) places: OnceLock<Vec<(Scheme, SocketAddr)>>,
}

impl Names {
    /// Returns whether a URI leads to the proxy itself.
    pub(super) fn is_own(&self, uri: &Uri) -> bool {
        let places = self.places.get().into_iter().flatten();
        let mut places = places
            .filter(|(scheme, place)| *scheme == uri.scheme() && place.port() == uri.port())
            .map(|(_, place)| place.ip());
        match uri.host() {
            Host::Name(name) if self.hosts.iter().any(|own| own == name) => places.next().is_some(),
            // RFC 6761 6.3: always a loopback address.
            Host::Name(name) if name == "localhost" => {
                places.any(|place| place.is_loopback() || place.is_unspecified())
            }
            Host::Name(_) => false,
            host => host
                .address()
                .is_some_and(|address| places.any(|place| is_reached_by(address, place))),
        }
    }
}

/// Returns whether packets to `address` arrive at a socket bound to `place`.
fn is_reached_by(address: IpAddr, place: IpAddr) -> bool {
    let (address, place) = (address.to_canonical(), place.to_canonical());
    // Systems deliver what is sent to the unspecified address to this host.
    if address == place || address.is_unspecified() {
        return true;
    }
    // A socket at :: takes IPv4, too.
    place.is_unspecified()
        && (place.is_ipv6() || address.is_ipv4())
        // Only a local address can be bound. Port 0: a free one.
        && UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str], places: &[(Scheme, &str)]) -> Names {
        let names = Names {
            hosts: hosts.iter().map(ToString::to_string).collect(),
            places: OnceLock::new(),
        };
        let places = places
            .iter()
            .map(|(scheme, place)| (*scheme, place.parse().unwrap()));
        names.places.set(places.collect()).unwrap();
        names
    }

    #[test]
    fn every_name_and_address_with_its_port_is_the_proxy() {
        let names = names(
            &["proxy.example.org"],
            &[
                (Scheme::Coap, "[::]:5683"),
                (Scheme::CoapTcp, "127.0.0.1:7000"),
            ],
        );
        let own = |uri: &str| names.is_own(&Uri::parse(uri).expect(uri));
        for uri in [
            "coap://proxy.example.org/",
            "coap://PROXY.example.org:5683/a",
            "coap://localhost/",
            "coap://127.0.0.1/",
            "coap://[::1]/",
            "coap+tcp://127.0.0.1:7000/",
            "coap+tcp://localhost:7000/",
        ] {
            assert!(own(uri), "{uri}");
        }
        for uri in [
            "coap://proxy.example.org:5684/",
            "coap+tcp://proxy.example.org/",
            "coap://example.org/",
            "coap://192.0.2.1/",
            "coap://[2001:db8::1]/",
            "coap+tcp://127.0.0.2:7000/",
            "coap://127.0.0.1:7000/",
        ] {
            assert!(!own(uri), "{uri}");
        }
    }
}
