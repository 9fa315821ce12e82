//! Proxying (RFC 7252 5.7, RFC 8768): the target URI, the options forwarded or consumed, and error
//! responses.
//!
//! Pure functions of options. Sockets, caches and controllers belong to a driver. The engine passes
//! such messages once [`Config::forwards`](crate::endpoint::Config::forwards) is set.
//!
//! Options fall into four kinds. Those of the request target (Uri-*, Proxy-*) become the URI. Those
//! of one hop (Observe, Block1, Block2, Size1, Size2, ETag, Hop-Limit, No-Response, Request-Tag,
//! and the retransmission count) are consumed; each side has its own. Other known options, and
//! those safe to forward, are forwarded unchanged. An unknown unsafe option causes an error.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::net::SocketAddr;
use core::time::Duration;

use crate::codec::uri::UriErrorKind;
use crate::codec::{Code, Host, OptionNumber, Options, OptionsError, Scheme, Uri};
use crate::message::Response;

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
                let text = "this scheme is not spoken here".into();
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
pub fn ask_for(target: &Uri, port: u16) -> Result<Options, OptionsError> {
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
        Some(1) => Err(Refused::HopLimit),
        Some(given) => Ok(given - 1),
    }
}

/// Returns the diagnostic payload of a forwarded 5.08: this proxy's name before those of earlier
/// ones, if it fits (RFC 8768 4).
pub fn hops_passed(name: &str, diagnostic: &[u8]) -> Vec<u8> {
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
fn is_of_hop(number: OptionNumber) -> bool {
    matches!(
        number,
        OptionNumber::OBSERVE
            | OptionNumber::BLOCK1
            | OptionNumber::BLOCK2
            | OptionNumber::SIZE1
            | OptionNumber::SIZE2
            | OptionNumber::HOP_LIMIT
            | OptionNumber::NO_RESPONSE
            | OptionNumber::REQUEST_TAG
    )
}

/// Returns the options of a request to forward, without those of the URI.
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
            || is_of_hop(number)
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
        is_of_hop(number) || number == counting || !number.is_for_responses()
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
            Some(_) if number == OptionNumber::MAX_AGE => {}
            _ if number.is_unsafe_to_forward() => return Err(Refused::Option(number)),
            _ => {}
        }
        options.push(number, option.value)?;
    }
    Ok(options)
}

/// A path prefix of a reverse proxy, and its origin server (RFC 7252 5.7.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The segments of the path prefix.
    pub prefix: Vec<String>,
    /// The URI that replaces the prefix.
    pub origin: Uri,
}

impl Route {
    /// The segments of the origin's own path, without the empty one at the end of `coap://h/a/`.
    fn base(&self) -> impl Iterator<Item = &str> + Clone {
        let segments: Vec<&str> = self.origin.path().collect();
        let length = match segments.last() {
            Some(&"") => segments.len() - 1,
            _ => segments.len(),
        };
        segments.into_iter().take(length)
    }

    /// Returns the URI at the origin for a request.
    ///
    /// # Errors
    ///
    /// [`Refused::Malformed`] if path or query cannot be part of a URI.
    pub fn target(&self, request: &Options) -> Result<Uri, Refused> {
        let rest = request
            .values(OptionNumber::URI_PATH)
            .skip(self.prefix.len());
        let query = request.values(OptionNumber::URI_QUERY);
        let joined = self.origin.below(rest, query);
        joined.map_err(|_| Refused::Malformed(OptionNumber::URI_PATH))
    }

    /// Translates Location-* options to this side; a location elsewhere is removed (RFC 7252
    /// 5.10.7).
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if the options become too large.
    pub fn locate(&self, response: &mut Options) -> Result<(), OptionsError> {
        if !response.contains(OptionNumber::LOCATION_PATH) {
            return Ok(());
        }
        let path: Vec<Vec<u8>> = response
            .values(OptionNumber::LOCATION_PATH)
            .map(<[u8]>::to_vec)
            .collect();
        response.remove(OptionNumber::LOCATION_PATH);
        let base: Vec<&str> = self.base().collect();
        let within = base.len() <= path.len()
            && base
                .iter()
                .zip(&path)
                .all(|(own, there)| own.as_bytes() == there.as_slice());
        if !within {
            response.remove(OptionNumber::LOCATION_QUERY);
            return Ok(());
        }
        let prefix = self.prefix.iter().map(String::as_bytes);
        let rest = path.iter().skip(base.len()).map(Vec::as_slice);
        for segment in prefix.chain(rest) {
            response.push(OptionNumber::LOCATION_PATH, segment)?;
        }
        Ok(())
    }

    /// Returns the path on this side of a target in the origin's list of links (RFC 6690). `None`
    /// outside the route; an absolute URI is unchanged.
    pub fn link(&self, target: &str) -> Option<String> {
        let Some(path) = target.strip_prefix('/') else {
            return target.contains("://").then(|| target.into());
        };
        let mut base = String::new();
        for segment in self.base() {
            base.push_str(segment);
            base.push('/');
        }
        let mut link = String::new();
        for segment in &self.prefix {
            link.push('/');
            link.push_str(segment);
        }
        let rest = match path.strip_prefix(base.as_str()) {
            Some(rest) => rest,
            None if base.strip_suffix('/') == Some(path) => "",
            None => return None,
        };
        if !rest.is_empty() || link.is_empty() {
            link.push('/');
            link.push_str(rest);
        }
        Some(link)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    const COUNT: OptionNumber = OptionNumber(65_052);

    fn options(all: &[(OptionNumber, &[u8])]) -> Options {
        let mut options = Options::new();
        for (number, value) in all {
            options.push(*number, value).unwrap();
        }
        options
    }

    fn local() -> SocketAddr {
        "192.0.2.1:7000".parse().unwrap()
    }

    fn uri_of(all: &[(OptionNumber, &[u8])]) -> Result<Option<String>, Refused> {
        let uri = requested(&options(all), local())?;
        Ok(uri.map(|uri| uri.to_string()))
    }

    #[test]
    fn a_proxy_uri_is_split_and_what_it_cannot_be_is_refused() {
        let proxy_uri = OptionNumber::PROXY_URI;
        assert_eq!(uri_of(&[]), Ok(None));
        assert_eq!(
            uri_of(&[(proxy_uri, b"coap://EXAMPLE.org:61616/a%2fb?c=d")]),
            Ok(Some("coap://example.org:61616/a%2Fb?c=d".into()))
        );
        // Proxy-Uri takes precedence over all Uri-* (RFC 7252 5.10.2).
        assert_eq!(
            uri_of(&[
                (OptionNumber::URI_HOST, b"other"),
                (OptionNumber::URI_PATH, b"x"),
                (proxy_uri, b"coap+tcp://h/")
            ]),
            Ok(Some("coap+tcp://h/".into()))
        );
        assert_eq!(
            uri_of(&[(proxy_uri, b"http://example.org/")]),
            Err(Refused::Scheme)
        );
        for wrong in [&b"coap:"[..], b"/a", b"coap://", b"\xff", b"coap://h/#f"] {
            let refused = uri_of(&[(proxy_uri, wrong)]).unwrap_err();
            assert_eq!(refused, Refused::Malformed(proxy_uri), "{wrong:?}");
            assert_eq!(refused.response("x").code, Code::BAD_REQUEST);
        }
    }

    #[test]
    fn a_proxy_scheme_takes_the_place_of_the_scheme() {
        let (scheme, host) = (OptionNumber::PROXY_SCHEME, OptionNumber::URI_HOST);
        let port: &[u8] = &[0x1b, 0x58];
        assert_eq!(
            uri_of(&[(host, b"h"), (scheme, b"coap+ws")]),
            Ok(Some("coap+ws://h/".into())),
            "its own port, not the proxy's"
        );
        assert_eq!(
            uri_of(&[
                (host, b"h"),
                (OptionNumber::URI_PORT, port),
                (scheme, b"COAP")
            ]),
            Ok(Some("coap://h:7000/".into()))
        );
        assert_eq!(
            uri_of(&[(OptionNumber::URI_PATH, b"a"), (scheme, b"coap")]),
            Ok(Some("coap://192.0.2.1:7000/a".into())),
            "without a host it is ourselves"
        );
        for unknown in [&b"https"[..], b"coap+sms", b"\xff"] {
            assert_eq!(uri_of(&[(scheme, unknown)]), Err(Refused::Scheme));
        }
        assert_eq!(
            uri_of(&[(host, b"[::"), (scheme, b"coap")]),
            Err(Refused::Malformed(scheme))
        );
    }

    #[test]
    fn what_a_client_asks_a_proxy_for_is_what_the_proxy_is_asked_for() {
        for text in [
            "coap://example.org/a/b?c",
            "coap://example.org:7000/",
            "coap+tcp://[2001:db8::1]:5683/x",
            "coap://192.0.2.9/",
            "coaps+ws://example.org/%2F",
        ] {
            let target = Uri::parse(text).unwrap();
            for port in [5683, 7000, 80] {
                let asked = ask_for(&target, port).unwrap();
                let heard = requested(&asked, ([127, 0, 0, 1], port).into());
                assert_eq!(heard, Ok(Some(target.clone())), "{text} by {port}");
            }
        }
        let target = Uri::parse("coap://h/").unwrap();
        let port = |proxy| ask_for(&target, proxy).unwrap();
        assert!(!port(5683).contains(OptionNumber::URI_PORT));
        assert!(
            port(7000).contains(OptionNumber::URI_PORT),
            "or a proxy that goes by RFC 7252 6.5 would take its own"
        );
    }

    #[test]
    fn hop_limit_is_one_less_or_put_there_and_0_is_nonsense() {
        let limited = |value: &[u8]| hop_limit(&options(&[(OptionNumber::HOP_LIMIT, value)]), 16);
        assert_eq!(hop_limit(&Options::new(), 16), Ok(16));
        assert_eq!(limited(&[255]), Ok(254));
        assert_eq!(limited(&[2]), Ok(1));
        assert_eq!(limited(&[1]), Err(Refused::HopLimit));
        for wrong in [&[][..], &[0], &[1, 0]] {
            let refused = limited(wrong).unwrap_err();
            assert_eq!(refused.response("p").code, Code::BAD_REQUEST, "{wrong:?}");
        }
        let reached = Refused::HopLimit.response("p1");
        assert_eq!(
            (reached.code, &reached.bytes()[..]),
            (Code::HOP_LIMIT_REACHED, &b"p1"[..])
        );
        assert_eq!(hops_passed("p0", b"p1 p2"), b"p0 p1 p2");
        assert_eq!(hops_passed("p0", b""), b"p0");
        let long = [b'x'; HOPS_BYTES];
        assert_eq!(hops_passed("p0", &long), long);
    }

    #[test]
    fn a_request_keeps_what_is_safe_and_loses_what_is_of_one_hop() {
        let (safe, safe_critical) = (OptionNumber(65_000), OptionNumber(65_001));
        let kept = [
            (OptionNumber::IF_MATCH, &b"t"[..]),
            (OptionNumber::OSCORE, b"x"),
            (OptionNumber::CONTENT_FORMAT, &[50]),
            (OptionNumber::ACCEPT, &[60]),
            (OptionNumber::ECHO, b"e"),
            (safe, b"1"),
            (safe_critical, b"2"),
        ];
        let mut request = options(&kept);
        for number in [
            OptionNumber::URI_HOST,
            OptionNumber::URI_PATH,
            OptionNumber::URI_QUERY,
            OptionNumber::PROXY_SCHEME,
            OptionNumber::OBSERVE,
            OptionNumber::BLOCK2,
            OptionNumber::ETAG,
            OptionNumber::HOP_LIMIT,
            OptionNumber::NO_RESPONSE,
            OptionNumber::REQUEST_TAG,
            OptionNumber::MAX_AGE,
            OptionNumber::LOCATION_PATH,
            COUNT,
        ] {
            request.push(number, b"x").unwrap();
        }
        // One repeated, and one too long.
        request.push(OptionNumber::CONTENT_FORMAT, &[1]).unwrap();
        let forwarded = request_options(&request, COUNT).unwrap();
        assert_eq!(forwarded, options(&kept));
        for unsafe_one in [
            OptionNumber(65_002),
            OptionNumber(65_003),
            OptionNumber::Q_BLOCK1,
        ] {
            let refused = request_options(&options(&[(unsafe_one, b"x")]), COUNT);
            assert_eq!(refused, Err(Refused::Option(unsafe_one)));
            let refused = refused.unwrap_err().response("x");
            assert_eq!(refused.code, Code::BAD_OPTION);
        }
    }

    #[test]
    fn a_response_keeps_what_it_says_about_its_representation() {
        let kept = [
            (OptionNumber::ETAG, &b"t"[..]),
            (OptionNumber::LOCATION_PATH, b"a"),
            (OptionNumber::CONTENT_FORMAT, &[50]),
            (OptionNumber::MAX_AGE, &[7]),
            (OptionNumber(65_000), b"1"),
            (OptionNumber(65_001), b"2"),
        ];
        let mut response = options(&kept);
        for number in [OptionNumber::OBSERVE, OptionNumber::SIZE2, COUNT] {
            response.push(number, &[1]).unwrap();
        }
        assert_eq!(response_options(&response, COUNT), Ok(options(&kept)));
        let unsafe_one = OptionNumber(65_002);
        assert_eq!(
            response_options(&options(&[(unsafe_one, b"x")]), COUNT),
            Err(Refused::Option(unsafe_one))
        );
    }

    #[test]
    fn age_takes_from_max_age_and_never_adds() {
        let (secs, millis) = (Duration::from_secs, Duration::from_millis);
        assert_eq!(aged(secs(60), secs(0)), secs(60));
        assert_eq!(aged(secs(60), millis(1)), secs(59));
        assert_eq!(aged(secs(60), secs(10)), secs(50));
        assert_eq!(aged(secs(60), secs(61)), secs(0));
    }

    fn route(prefix: &[&str], origin: &str) -> Route {
        Route {
            prefix: prefix.iter().map(ToString::to_string).collect(),
            origin: Uri::parse(origin).unwrap(),
        }
    }

    #[test]
    fn a_route_leads_to_its_origin_and_back() {
        let path = |segments: &[&str]| {
            let mut options = Options::new();
            for segment in segments {
                options
                    .push(OptionNumber::URI_PATH, segment.as_bytes())
                    .unwrap();
            }
            options.push(OptionNumber::URI_QUERY, b"q=1").unwrap();
            options
        };
        let to = |route: &Route, segments: &[&str]| {
            let target = route.target(&path(segments));
            target.map(|uri| uri.to_string())
        };
        let plain = route(&["a"], "coap://h:61616");
        assert_eq!(
            to(&plain, &["a", "b", "c"]),
            Ok("coap://h:61616/b/c?q=1".into())
        );
        assert_eq!(to(&plain, &["a"]), Ok("coap://h:61616/?q=1".into()));
        let deep = route(&["a", "b"], "coap://h/x/?k");
        assert_eq!(to(&deep, &["a", "b", "c"]), Ok("coap://h/x/c?k&q=1".into()));
        assert!(to(&plain, &["a", ".."]).is_err(), "no way up");

        let located = |route: &Route, segments: &[&str]| -> Vec<Vec<u8>> {
            let mut options = Options::new();
            for segment in segments {
                let number = OptionNumber::LOCATION_PATH;
                options.push(number, segment.as_bytes()).unwrap();
            }
            route.locate(&mut options).unwrap();
            let values = options.values(OptionNumber::LOCATION_PATH);
            values.map(<[u8]>::to_vec).collect()
        };
        assert_eq!(located(&plain, &["n"]), [b"a".to_vec(), b"n".to_vec()]);
        let there = [b"a".to_vec(), b"b".to_vec(), b"n".to_vec()];
        assert_eq!(located(&deep, &["x", "n"]), there);
        assert!(
            located(&deep, &["y"]).is_empty(),
            "it is not to be had here"
        );
    }

    #[test]
    fn links_lead_to_this_side() {
        let (plain, root) = (route(&["a"], "coap://h"), route(&[], "coap://h"));
        assert_eq!(plain.link("/s/t").as_deref(), Some("/a/s/t"));
        assert_eq!(plain.link("/").as_deref(), Some("/a"));
        assert_eq!(root.link("/s").as_deref(), Some("/s"));
        assert_eq!(root.link("/").as_deref(), Some("/"));
        let deep = route(&["a"], "coap://h/x");
        assert_eq!(deep.link("/x/y").as_deref(), Some("/a/y"));
        assert_eq!(deep.link("/x").as_deref(), Some("/a"));
        assert_eq!(deep.link("/xy"), None);
        assert_eq!(deep.link("coap://else/y").as_deref(), Some("coap://else/y"));
        assert_eq!(deep.link("relative"), None);
    }
}
