//! Proxying (RFC 7252 5.7, RFC 8768): the target URI, the options forwarded or consumed, and error
//! responses.
//!
//! Pure functions of options. Sockets, caches and controllers belong to a driver. The engine passes
//! such messages once [`Config::forwards`](crate::endpoint::Config::forwards) is set.
//!
//! Options fall into four kinds. Options of the request target (Uri-*, Proxy-*) become the URI. Those
//! of one hop (Observe, Block1, Block2, Size1, Size2, ETag, Hop-Limit, No-Response, Request-Tag,
//! and the retransmission count) are consumed; each side has its own. Other known options, and
//! those safe to forward, are forwarded unchanged. An unknown unsafe option causes an error.

mod route;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::net::SocketAddr;
use core::time::Duration;

use crate::codec::UriErrorKind;
use crate::codec::{Code, Host, OptionNumber, Options, OptionsError, Scheme, Uri};
use crate::message::Response;

pub use route::Route;

/// The initial Hop-Limit of requests that arrive without one (RFC 8768 3).
pub const HOP_LIMIT: u8 = 16;
/// The longest diagnostic payload of a 5.08 to which the proxy's name is added, in bytes; longer
/// ones are forwarded unchanged (RFC 8768 4).
pub(crate) const HOPS_BYTES: usize = 512;

/// Reasons a request or a response is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An unrecognized option that is unsafe to forward (RFC 7252 5.7.1).
    Option(OptionNumber),
    /// An option with an invalid value.
    Malformed(OptionNumber),
    /// An unsupported scheme (RFC 7252 5.10.2).
    Scheme,
    /// The Hop-Limit is exhausted (RFC 8768 3).
    HopLimit,
    /// The options do not fit a message.
    TooLong,
}

impl Refused {
    /// Returns the error response; `name` is the proxy's, which helps to locate a loop (RFC 8768
    /// 4).
    pub fn response(self, name: &str) -> Response {
        let (code, text) = match self {
            Self::Option(number) => {
                let text = alloc::format!("option {} must not be forwarded", number.0);
                (Code::BAD_OPTION, text)
            }
            Self::Malformed(number) => (Code::BAD_REQUEST, alloc::format!("{number} is malformed")),
            Self::Scheme => {
                let text = "the URI scheme is not supported".into();
                (Code::PROXYING_NOT_SUPPORTED, text)
            }
            Self::HopLimit => (Code::HOP_LIMIT_REACHED, name.into()),
            Self::TooLong => (Code::BAD_REQUEST, "the options are too long".into()),
        };
        Response::diagnostic(code, &text)
    }
}

impl From<OptionsError> for Refused {
    fn from(_: OptionsError) -> Self {
        Self::TooLong
    }
}

/// Returns the URI that a request asks a proxy for; `None` if it is not for a proxy.
///
/// Proxy-Uri takes precedence over all other options (RFC 7252 5.10.2). With Proxy-Scheme, a
/// missing Uri-Host means `local`, the request's destination address and port. With a Uri-Host, a
/// missing Uri-Port means the scheme's default port. RFC 7252 6.5 would make it the proxy's port,
/// which no client intends (docs/adr/0022).
///
/// # Errors
///
/// [`Refused`]: the scheme is not supported, or Proxy-Uri or Proxy-Scheme is malformed.
pub fn requested(request: &Options, local: SocketAddr) -> Result<Option<Uri>, Refused> {
    if let Some(value) = request.first(OptionNumber::PROXY_URI) {
        let malformed = Refused::Malformed(OptionNumber::PROXY_URI);
        let text = core::str::from_utf8(value).map_err(|_| malformed)?;
        return match Uri::parse(text) {
            Ok(uri) => Ok(Some(uri)),
            Err(error) if error.kind == UriErrorKind::UnknownScheme => Err(Refused::Scheme),
            Err(_) => Err(malformed),
        };
    }
    let Some(value) = request.first(OptionNumber::PROXY_SCHEME) else {
        return Ok(None);
    };
    let scheme = core::str::from_utf8(value).ok().and_then(Scheme::named);
    let scheme = scheme.ok_or(Refused::Scheme)?;
    let mut destination = local;
    if request.contains(OptionNumber::URI_HOST) {
        destination.set_port(scheme.default_port());
    }
    let uri = Uri::from_options(scheme, request, destination);
    let uri = uri.map_err(|_| Refused::Malformed(OptionNumber::PROXY_SCHEME))?;
    Ok(Some(uri))
}

/// Returns the options that request a URI from a proxy at `port`, by Proxy-Scheme and Uri-*. The
/// proxy then has no URI to parse, and the request is shorter (RFC 7252 5.10.2). The port is
/// included whenever it is ambiguous.
///
/// # Errors
///
/// [`OptionsError`] if the options become too large.
pub fn options_for_proxy(target: &Uri, port: u16) -> Result<Options, OptionsError> {
    let mut options = target.options().clone();
    let mut literal = String::new();
    // A zone has a meaning on this host only, so it is not sent.
    let written = match target.host() {
        Host::Name(_) => Ok(()),
        Host::Ipv4(address) => write!(literal, "{address}"),
        Host::Ipv6 { address, .. } => write!(literal, "[{address}]"),
    };
    debug_assert!(written.is_ok(), "writing to a string does not fail");
    if !literal.is_empty() {
        options.set(OptionNumber::URI_HOST, literal.as_bytes())?;
    }
    // Without Uri-Port some proxies take the default port of the scheme, and others their
    // own (RFC 7252 6.5).
    if target.port() != target.scheme().default_port() || target.port() != port {
        options.set_uint(OptionNumber::URI_PORT, target.port().into())?;
    }
    options.set(
        OptionNumber::PROXY_SCHEME,
        target.scheme().name().as_bytes(),
    )?;
    Ok(options)
}

/// Returns the Hop-Limit of the forwarded request: one less, or `initial` if it had none (RFC 8768
/// 3).
///
/// # Errors
///
/// [`Refused::HopLimit`] if it is exhausted, [`Refused::Malformed`] if it is invalid.
pub fn hop_limit(request: &Options, initial: u8) -> Result<u8, Refused> {
    if !request.contains(OptionNumber::HOP_LIMIT) {
        return Ok(initial);
    }
    let given = request.uint(OptionNumber::HOP_LIMIT);
    match given.and_then(|given| u8::try_from(given).ok()) {
        None | Some(0) => Err(Refused::Malformed(OptionNumber::HOP_LIMIT)),
        // The forwarded request would have 0, which is not valid (RFC 8768 3).
        Some(1) => Err(Refused::HopLimit),
        Some(given) => Ok(given - 1),
    }
}

/// Returns the diagnostic payload of a forwarded 5.08: this proxy's name before the names of earlier
/// ones, if it fits (RFC 8768 4).
pub fn hop_limit_diagnostic(name: &str, diagnostic: &[u8]) -> Vec<u8> {
    if name.len() + 1 + diagnostic.len() > HOPS_BYTES {
        return diagnostic.into();
    }
    let mut text = Vec::with_capacity(name.len() + 1 + diagnostic.len());
    text.extend_from_slice(name.as_bytes());
    if !diagnostic.is_empty() {
        text.push(b' ');
        text.extend_from_slice(diagnostic);
    }
    text
}

/// Returns the remaining freshness (RFC 7252 5.7.1, RFC 7641 5): Max-Age less the age, in whole
/// seconds, never above Max-Age.
pub fn aged(max_age: Duration, age: Duration) -> Duration {
    // Partial seconds of age count: after 0.1 s, less than Max-Age remains.
    let seconds = age.as_secs() + u64::from(age.subsec_nanos() > 0);
    max_age.saturating_sub(Duration::from_secs(seconds))
}

/// Returns whether an option is for one hop; such options are consumed, and each side has its own.
fn is_hop_by_hop(number: OptionNumber) -> bool {
    matches!(
        number,
        OptionNumber::OBSERVE
            | OptionNumber::BLOCK1
            | OptionNumber::BLOCK2
            | OptionNumber::Q_BLOCK1
            | OptionNumber::Q_BLOCK2
            | OptionNumber::SIZE1
            | OptionNumber::SIZE2
            | OptionNumber::HOP_LIMIT
            | OptionNumber::NO_RESPONSE
            | OptionNumber::REQUEST_TAG
    )
}

/// Returns the options of a request to forward, without the URI's.
///
/// Entity tags are consumed, because they concern the proxy's cache as well as the client's.
/// `counting` is the retransmission count option, which is for one hop.
///
/// # Errors
///
/// [`Refused`]: an option is unsafe to forward, or the options are too large.
pub fn request_options(request: &Options, counting: OptionNumber) -> Result<Options, Refused> {
    forwarded(request, |number| {
        number.is_of_uri()
            || is_hop_by_hop(number)
            || number == OptionNumber::ETAG
            || number == counting
            // Known, but without a meaning in requests.
            || !number.is_for_requests()
    })
}

/// Returns the options of a response to forward.
///
/// # Errors
///
/// [`Refused`]: an option is unsafe to forward, or the options are too large.
pub fn response_options(response: &Options, counting: OptionNumber) -> Result<Options, Refused> {
    forwarded(response, |number| {
        is_hop_by_hop(number) || number == counting || !number.is_for_responses()
    })
}

/// The options to forward: all but those for which `ends` holds. Fails on an option that is unsafe
/// to forward.
fn forwarded(from: &Options, ends: impl Fn(OptionNumber) -> bool) -> Result<Options, Refused> {
    let mut options = Options::new();
    let mut last = None;
    for option in from {
        let number = option.number;
        let repeated = last.replace(number) == Some(number);
        if ends(number) {
            continue;
        }
        match number.definition() {
            // Repeated or too long: not recognized, and so left out if elective. The engine has
            // rejected critical ones (RFC 7252 5.4.3, 5.4.5).
            Some(known)
                if !number.is_critical()
                    && ((repeated && !known.repeatable)
                        || !known.accepts_length(option.value.len())) =>
            {
                continue;
            }
            // Unsafe to forward by its number, and understood by every proxy (RFC 7252 5.7.1).
            Some(_) if number == OptionNumber::MAX_AGE => {}
            _ if number.is_unsafe_to_forward() => return Err(Refused::Option(number)),
            _ => {}
        }
        options.push(number, option.value)?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests;
