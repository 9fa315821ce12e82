//! The target of the load: resource, address and security.

use std::net::ToSocketAddrs as _;
use std::sync::Arc;

use carob::Error;
use carob::dtls::ClientSessions;
use carob_bench::{Secure, Target};
use carob_proto::codec::{Host, Scheme, Uri};

use super::wrong;
use crate::args::{PskArgs, TlsArgs};
use crate::commands::tls;
use crate::failure::Failure;

/// Reads a URI and finds the first address of its host.
pub(super) fn resolve(text: &str, psk: &PskArgs, tls: &TlsArgs) -> Result<Target, Failure> {
    let uri = Uri::parse(text).map_err(|source| Error::Uri {
        uri: text.to_owned(),
        source,
    })?;
    let secured = match uri.scheme() {
        Scheme::Coap => false,
        Scheme::Coaps => true,
        other => {
            return Err(wrong(
                format_args!("no load over {other}://: expected coap:// or coaps://"),
                "name the URI of the server with one of these schemes",
            ));
        }
    };
    let host = match uri.host() {
        // Brackets are the URI's; the resolver knows zones by name and by number.
        Host::Ipv6 { address, zone } => match zone {
            Some(zone) => format!("{address}%{zone}"),
            None => address.to_string(),
        },
        host => host.to_string(),
    };
    let name = matches!(uri.host(), Host::Name(_)).then(|| host.as_str().into());
    let found = (host.as_str(), uri.port()).to_socket_addrs();
    let found = found.and_then(|mut all| {
        all.next()
            .ok_or_else(|| std::io::Error::other("the name has no address"))
    });
    let address = found.map_err(|source| Error::Resolve { host, source })?;
    let ip = address.ip();
    if ip.is_multicast() || ip.is_unspecified() {
        return Err(wrong(
            format_args!("{ip} is not a unicast address"),
            "ask one server",
        ));
    }
    let secure = if secured {
        let credential = tls::credential(psk, tls)?;
        let sessions = ClientSessions::new(&credential).map_err(|source| Error::Handshake {
            peer: address,
            source,
        })?;
        let sessions = Arc::new(sessions);
        Some(Secure { sessions, name })
    } else {
        None
    };
    Ok(Target {
        uri,
        address,
        secure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    const NOBODY: (PskArgs, TlsArgs) = (
        PskArgs {
            psk_identity: None,
            psk_file: None,
        },
        TlsArgs {
            ca: None,
            cert: None,
            key: None,
        },
    );

    #[test]
    fn target_must_have_a_supported_scheme_and_address() {
        let (psk, tls) = NOBODY;
        let resolve = |uri: &str| resolve(uri, &psk, &tls);
        let of = |uri: &str| resolve(uri).expect_err(uri).kind;
        assert_eq!(of("coap+tcp://127.0.0.1/"), Kind::Usage);
        assert_eq!(of("127.0.0.1"), Kind::Usage);
        assert_eq!(of("coap://[ff02::fd]/"), Kind::Usage);
        let v6 = resolve("coap://[::1]:99/x").expect("an address");
        assert_eq!(v6.address, "[::1]:99".parse().expect("an address"));
        assert!(v6.secure.is_none());
    }

    #[test]
    fn named_key_must_exist() {
        let (_, tls) = NOBODY;
        let psk = PskArgs {
            psk_identity: Some("nobody".to_owned()),
            psk_file: Some("/dev/null".into()),
        };
        let failure = resolve("coaps://127.0.0.1/", &psk, &tls);
        assert_eq!(failure.expect_err("no key").kind, Kind::File);
    }
}
