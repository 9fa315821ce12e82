//! Host and Origin of HTTP requests, checked because of web pages: a page can resolve its own name to
//! this host (DNS rebinding) or open a WebSocket here, but it does not choose the browser's values
//! of these fields.

use std::net::IpAddr;

/// The name or address in the value of Host, without its port.
pub(crate) fn without_port(host: &str) -> &str {
    let host = host.trim_ascii();
    match host.rfind(':') {
        Some(port) if host.rfind(']').is_none_or(|end| end < port) => &host[..port],
        _ => host,
    }
}

/// Returns whether a host without its port is this one: an address, localhost, or one of these names.
pub(crate) fn is_own(host: &str, names: &[String]) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_address = bare.unwrap_or(host).parse::<IpAddr>().is_ok();
    is_address || host.eq_ignore_ascii_case("localhost") || is_named(host, names)
}

/// Returns whether a host is one of these names.
pub(crate) fn is_named(host: &str, names: &[String]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(host))
}
