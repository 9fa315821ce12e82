//! Resolution of a URI to addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use carob_proto::codec::{Host, Scheme, Uri};
use tokio::net::lookup_host;

use super::Target;
use crate::error::Error;
use crate::transport::socket::{Socket, canonical};

/// Addresses of one host tried at most.
const ADDRESSES: usize = 8;

/// Parses the target of a request.
pub(super) fn read(target: Target) -> Result<Uri, Error> {
    let uri = match target {
        Target::Uri(uri) => uri,
        Target::Text(text) => match Uri::parse(&text) {
            Ok(uri) => uri,
            Err(source) => return Err(Error::Uri { uri: text, source }),
        },
    };
    Ok(uri)
}

/// The server name of a connection; `None` over UDP and for an address.
pub(super) fn name(uri: &Uri) -> Option<Arc<str>> {
    match uri.host() {
        // For the certificate of the server, and the Host of a WebSocket; plain CoAP has
        // neither.
        host @ Host::Name(_) if uri.scheme() != Scheme::Coap => Some(host.to_string().into()),
        _ => None,
    }
}

/// Resolves the addresses of a URI's host that a socket bound to `local` can reach, in the
/// resolver's order.
pub(super) async fn addresses(uri: &Uri, local: SocketAddr) -> Result<Vec<SocketAddr>, Error> {
    let port = uri.port();
    let found: Vec<SocketAddr> = match uri.host() {
        Host::Ipv4(address) => vec![(IpAddr::V4(*address), port).into()],
        Host::Ipv6 {
            address,
            zone: None,
        } => {
            let bound = matches!(local, SocketAddr::V6(local) if local.scope_id() != 0);
            if address.is_unicast_link_local() && !bound {
                let problem = "a link-local address needs the zone of its interface";
                let source = io::Error::new(io::ErrorKind::InvalidInput, problem);
                let host = uri.host().to_string();
                return Err(Error::Resolve { host, source });
            }
            vec![(IpAddr::V6(*address), port).into()]
        }
        host => {
            // The resolver knows zones by name and by number.
            let name = match host {
                Host::Ipv6 {
                    address,
                    zone: Some(zone),
                } => format!("{address}%{zone}"),
                host => host.to_string(),
            };
            let found = lookup_host((name.as_str(), port)).await;
            let found = found.and_then(|all| {
                let all: Vec<_> = all.take(ADDRESSES).collect();
                let none = || io::Error::other("the name has no address");
                if all.is_empty() { Err(none()) } else { Ok(all) }
            });
            found.map_err(|source| Error::Resolve {
                host: host.to_string(),
                source,
            })?
        }
    };
    let mut usable = Vec::with_capacity(found.len());
    // The socket reports IPv4 senders as such, so an IPv4-mapped address (RFC 4291 2.5.5.2) would
    // match no reply.
    for address in found.into_iter().map(canonical) {
        if Socket::reaches(local, address) && !usable.contains(&address) {
            usable.push(address);
        }
    }
    if usable.is_empty() {
        return Err(Error::Family {
            host: uri.host().to_string(),
            local,
        });
    }
    Ok(usable)
}
