//! CoAP URIs and the options they map to (RFC 7252 6, RFC 8323 8).

mod error;
mod host;
pub(crate) mod percent;
mod scheme;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::str::FromStr;

pub use error::{UriError, UriErrorKind};
pub use host::Host;
pub use scheme::Scheme;

use super::numbers::OptionNumber;
use super::options::{Options, OptionsError};
use error::error;
use percent::{decode_text, encode, is_path_byte, is_query_byte};

/// The longest URI that is parsed, in bytes.
pub(crate) const MAX_URI_LENGTH: usize = 16_384;

/// The longest host name, path segment or query argument after decoding, in bytes: the limit of
/// Uri-Host, Uri-Path and Uri-Query (RFC 7252 5.10).
pub(crate) const MAX_COMPONENT_LENGTH: usize = 255;

/// A parsed absolute CoAP URI.
///
/// ```
/// use carob_codec::{OptionNumber, Uri};
///
/// let uri = Uri::parse("coap://[2001:db8::2:1]/sensors/temp?unit=C")?;
/// assert_eq!(uri.port(), 5683);
/// assert!(uri.options().values(OptionNumber::URI_PATH).eq([&b"sensors"[..], b"temp"]));
/// assert_eq!(uri.to_string(), "coap://[2001:db8::2:1]/sensors/temp?unit=C");
/// # Ok::<(), carob_codec::UriError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri {
    scheme: Scheme,
    host: Host,
    port: u16,
    // Uri-Host when the host is a name, Uri-Path, Uri-Query; every value is UTF-8.
    options: Options,
}

impl Uri {
    /// Parses an absolute URI and splits it into options (RFC 7252 6.4).
    ///
    /// Dot segments are resolved first, as reference resolution does (RFC 3986 5.2.4).
    ///
    /// # Errors
    ///
    /// [`UriError`], with the position of the problem.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        if text.len() > MAX_URI_LENGTH {
            return Err(error(UriErrorKind::TooLong, MAX_URI_LENGTH));
        }
        let (name, after_scheme) = text
            .split_once(':')
            .ok_or_else(|| error(UriErrorKind::SchemeMissing, 0))?;
        let scheme = Scheme::named(name).ok_or_else(|| error(UriErrorKind::UnknownScheme, 0))?;
        let rest = after_scheme
            .strip_prefix("//")
            .ok_or_else(|| error(UriErrorKind::AuthorityMissing, name.len() + 1))?;
        let offset_of = |tail: &str| text.len() - tail.len();

        if let Some(at) = rest.find('#') {
            return Err(error(UriErrorKind::Fragment, offset_of(rest) + at));
        }
        let (before_query, query) = match rest.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (rest, None),
        };
        let authority_length = before_query.find('/').unwrap_or(before_query.len());
        let (authority, path) = before_query.split_at(authority_length);
        let authority_offset = offset_of(rest);
        let (host, port) = parse_authority(authority, authority_offset)?;

        let mut options = Options::new();
        if let Host::Name(name) = &host {
            push(&mut options, OptionNumber::URI_HOST, name, authority_offset)?;
        }
        let path_offset = authority_offset + authority_length;
        for (segment, offset) in resolved_segments(path, path_offset) {
            let decoded = decode_text(segment, offset, is_path_byte)?;
            if is_dot_segment(decoded.as_bytes()) {
                return Err(error(UriErrorKind::DotSegment, offset));
            }
            push(&mut options, OptionNumber::URI_PATH, &decoded, offset)?;
        }
        if let Some(query) = query {
            let mut offset = offset_of(query);
            for argument in query.split('&') {
                let decoded = decode_text(argument, offset, is_query_byte)?;
                push(&mut options, OptionNumber::URI_QUERY, &decoded, offset)?;
                offset += argument.len() + 1;
            }
        }
        Ok(Self {
            scheme,
            host,
            port: port.unwrap_or(scheme.default_port()),
            options,
        })
    }

    /// Composes the URI of a request from its options and destination (RFC 7252 6.5).
    ///
    /// Options other than Uri-Host, Uri-Port, Uri-Path and Uri-Query are ignored. `to_string`
    /// writes the URI out.
    ///
    /// # Errors
    ///
    /// [`UriError`] if an option cannot be part of a URI.
    pub fn from_options(
        scheme: Scheme,
        request: &Options,
        destination: SocketAddr,
    ) -> Result<Self, UriError> {
        let host = match request.first(OptionNumber::URI_HOST) {
            Some(value) => {
                let text = utf8(value)?;
                if text.starts_with('[') || text.parse::<Ipv4Addr>().is_ok() {
                    Host::parse(text, 0)?
                } else if text.is_empty() {
                    return Err(error(UriErrorKind::HostMissing, 0));
                } else {
                    Host::Name(text.to_ascii_lowercase())
                }
            }
            None => match destination.ip() {
                IpAddr::V4(address) => Host::Ipv4(address),
                IpAddr::V6(address) => Host::Ipv6 {
                    address,
                    zone: None,
                },
            },
        };
        let port = match request.first(OptionNumber::URI_PORT) {
            None => destination.port(),
            Some(_) => request
                .uint(OptionNumber::URI_PORT)
                .and_then(|port| u16::try_from(port).ok())
                .ok_or_else(|| error(UriErrorKind::InvalidPort, 0))?,
        };
        if port == 0 {
            return Err(error(UriErrorKind::InvalidPort, 0));
        }
        let mut options = Options::new();
        if let Host::Name(name) = &host {
            push(&mut options, OptionNumber::URI_HOST, name, 0)?;
        }
        for value in request.values(OptionNumber::URI_PATH) {
            if is_dot_segment(value) {
                return Err(error(UriErrorKind::DotSegment, 0));
            }
            push(&mut options, OptionNumber::URI_PATH, utf8(value)?, 0)?;
        }
        // One empty segment has the same text as none; storing it would give one URI two values.
        if options.values(OptionNumber::URI_PATH).eq([b""]) {
            options.remove(OptionNumber::URI_PATH);
        }
        for value in request.values(OptionNumber::URI_QUERY) {
            push(&mut options, OptionNumber::URI_QUERY, utf8(value)?, 0)?;
        }
        Ok(Self {
            scheme,
            host,
            port,
            options,
        })
    }

    /// Returns the URI with more path segments and more query arguments. The first segment replaces
    /// an empty last one.
    ///
    /// # Errors
    ///
    /// [`UriError`] if a value cannot be part of a URI.
    pub fn below<'v>(
        &self,
        path: impl Iterator<Item = &'v [u8]>,
        query: impl Iterator<Item = &'v [u8]>,
    ) -> Result<Self, UriError> {
        let mut path = path.peekable();
        let mut options = self.options.clone();
        if path.peek().is_some() && self.path().last() == Some("") {
            options.remove(OptionNumber::URI_PATH);
            let kept = self.path().count() - 1;
            for segment in self.path().take(kept) {
                push(&mut options, OptionNumber::URI_PATH, segment, 0)?;
            }
        }
        for segment in path {
            if is_dot_segment(segment) {
                return Err(error(UriErrorKind::DotSegment, 0));
            }
            push(&mut options, OptionNumber::URI_PATH, utf8(segment)?, 0)?;
        }
        // One empty segment has the same text as none.
        if options.values(OptionNumber::URI_PATH).eq([b""]) {
            options.remove(OptionNumber::URI_PATH);
        }
        for argument in query {
            push(&mut options, OptionNumber::URI_QUERY, utf8(argument)?, 0)?;
        }
        Ok(Self {
            options,
            ..self.clone()
        })
    }

    /// Returns the scheme.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the host.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the port: the one written, or the scheme's default.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the options of a request sent to the URI's own host and port.
    ///
    /// They are Uri-Host when the host is a name, Uri-Path and Uri-Query.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the options of a request sent to `destination`, such as a proxy (RFC 7252 6.4).
    ///
    /// Uri-Host is included unless the host is the destination's address, Uri-Port if the port is
    /// not the destination's. Fails when both do not fit into [`Options`] with the rest.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if Uri-Host and Uri-Port do not fit with the other options.
    pub fn options_for(&self, destination: SocketAddr) -> Result<Options, OptionsError> {
        let mut options = self.options.clone();
        if self
            .host
            .address()
            .is_some_and(|address| address != destination.ip())
        {
            let mut literal = String::new();
            // A zone has a meaning on this host only, so it is not sent.
            let written = match &self.host {
                Host::Ipv6 { address, .. } => write!(literal, "[{address}]"),
                host => write!(literal, "{host}"),
            };
            debug_assert!(written.is_ok(), "writing to a string does not fail");
            options.set(OptionNumber::URI_HOST, literal.as_bytes())?;
        }
        if self.port != destination.port() {
            options.set_uint(OptionNumber::URI_PORT, u32::from(self.port))?;
        }
        Ok(options)
    }

    /// Returns the decoded path segments.
    pub fn path(&self) -> impl Iterator<Item = &str> {
        self.texts(OptionNumber::URI_PATH)
    }

    /// Returns the decoded query arguments.
    pub fn query(&self) -> impl Iterator<Item = &str> {
        self.texts(OptionNumber::URI_QUERY)
    }

    fn texts(&self, number: OptionNumber) -> impl Iterator<Item = &str> {
        self.options
            .values(number)
            .filter_map(|value| core::str::from_utf8(value).ok())
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        Self::parse(text)
    }
}

impl fmt::Display for Uri {
    /// Writes the URI with the port left out when it is the default (RFC 7252 6.5).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        let mut segments = self.options.values(OptionNumber::URI_PATH).peekable();
        if segments.peek().is_none() {
            f.write_char('/')?;
        }
        for segment in segments {
            f.write_char('/')?;
            encode(f, segment, is_path_byte)?;
        }
        for (index, argument) in self.options.values(OptionNumber::URI_QUERY).enumerate() {
            f.write_char(if index == 0 { '?' } else { '&' })?;
            encode(f, argument, |byte| is_query_byte(byte) && byte != b'&')?;
        }
        Ok(())
    }
}

fn parse_authority(text: &str, offset: usize) -> Result<(Host, Option<u16>), UriError> {
    if let Some(at) = text.find('@') {
        return Err(error(UriErrorKind::UserInformation, offset + at));
    }
    let host_length = match text.find(']') {
        Some(at) if text.starts_with('[') => at + 1,
        _ => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(host_length);
    let after_host = offset + host_length;
    if rest.matches(':').count() > 1 && !text.starts_with('[') {
        return Err(error(UriErrorKind::BracketsMissing, offset));
    }
    let host = Host::parse(host, offset)?;
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        None => return Err(error(UriErrorKind::InvalidCharacter, after_host)),
        Some("") => None,
        Some(digits) => {
            let port = digits.parse().ok().filter(|&port| port != 0);
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let port = port.filter(|_| plain);
            Some(port.ok_or_else(|| error(UriErrorKind::InvalidPort, after_host + 1))?)
        }
    };
    Ok((host, port))
}

/// The segments of a path with their offsets, dot segments resolved; none for `/` and for the empty
/// path.
fn resolved_segments(path: &str, offset: usize) -> Vec<(&str, usize)> {
    let Some(path) = path.strip_prefix('/') else {
        return Vec::new();
    };
    let mut segments = Vec::new();
    let mut at = offset + 1;
    let mut raw = path.split('/').peekable();
    while let Some(segment) = raw.next() {
        let is_last = raw.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    segments.pop();
                }
                // A final dot segment names a directory: the path keeps its trailing slash.
                if is_last {
                    segments.push(("", at));
                }
            }
            _ => segments.push((segment, at)),
        }
        at += segment.len() + 1;
    }
    if let [("", _)] = segments.as_slice() {
        segments.clear();
    }
    segments
}

fn is_dot_segment(segment: &[u8]) -> bool {
    matches!(segment, b"." | b"..")
}

fn push(
    options: &mut Options,
    number: OptionNumber,
    value: &str,
    offset: usize,
) -> Result<(), UriError> {
    if value.len() > MAX_COMPONENT_LENGTH {
        return Err(error(UriErrorKind::ComponentTooLong, offset));
    }
    options
        .push(number, value.as_bytes())
        .map_err(|_| error(UriErrorKind::TooManyOptions, offset))
}

fn utf8(bytes: &[u8]) -> Result<&str, UriError> {
    core::str::from_utf8(bytes)
        .map_err(|invalid| error(UriErrorKind::NotUtf8, invalid.valid_up_to()))
}

#[cfg(test)]
mod tests {
    use core::net::Ipv6Addr;

    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    fn parsed(text: &str) -> Uri {
        Uri::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn fails(text: &str) -> (UriErrorKind, u16) {
        let error = Uri::parse(text).expect_err(text);
        (error.kind, error.offset)
    }

    fn path(text: &str) -> Vec<String> {
        parsed(text).path().map(String::from).collect()
    }

    #[test]
    fn schemes_are_recognized_in_any_case_with_their_ports() {
        for (text, scheme, port) in [
            ("coap://h", Scheme::Coap, 5683),
            ("COAPS://h", Scheme::Coaps, 5684),
            ("coap+tcp://h", Scheme::CoapTcp, 5683),
            ("coaps+tcp://h", Scheme::CoapsTcp, 5684),
            ("coap+ws://h", Scheme::CoapWs, 80),
            ("coaps+ws://h", Scheme::CoapsWs, 443),
        ] {
            let uri = parsed(text);
            assert_eq!((uri.scheme(), uri.port()), (scheme, port));
        }
    }

    #[test]
    fn equivalent_uris_of_rfc_7252_6_3_are_equal() {
        let first = parsed("coap://example.com:5683/~sensors/temp.xml");
        assert_eq!(parsed("coap://EXAMPLE.com/%7Esensors/temp.xml"), first);
        assert_eq!(parsed("coap://EXAMPLE.com:/%7esensors/temp.xml"), first);
        assert_eq!(first.to_string(), "coap://example.com/~sensors/temp.xml");
    }

    #[test]
    fn root_path_has_no_segments_and_more_slashes_empty_ones() {
        assert!(path("coap://h").is_empty());
        assert!(path("coap://h/").is_empty());
        assert_eq!(path("coap://h//"), ["", ""]);
        assert_eq!(path("coap://h/a/"), ["a", ""]);
    }

    #[test]
    fn dot_segments_are_resolved_before_decoding() {
        assert_eq!(path("coap://h/a/./b/../c"), ["a", "c"]);
        assert_eq!(path("coap://h/a/b/.."), ["a", ""]);
        assert!(path("coap://h/../..").is_empty());
        assert_eq!(fails("coap://h/a/%2e%2E"), (UriErrorKind::DotSegment, 11));
    }

    #[test]
    fn query_arguments_are_split_at_ampersands_only() {
        let uri = parsed("coap://h?a=1&b=%26&?/");
        assert!(uri.query().eq(["a=1", "b=&", "?/"]));
        assert_eq!(uri.to_string(), "coap://h/?a=1&b=%26&?/");
        assert!(parsed("coap://h/?").query().eq([""]));
    }

    #[test]
    fn ipv6_zone_is_read_in_both_spellings_and_written_escaped() {
        let uri = parsed("coap://[fe80::1%25eth0]:61616/x");
        assert_eq!(parsed("coap://[fe80::1%eth0]:61616/x"), uri);
        let Host::Ipv6 { address, zone } = uri.host() else {
            panic!("host is IPv6")
        };
        assert_eq!(*address, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
        assert_eq!(zone.as_deref(), Some("eth0"));
        assert_eq!(uri.to_string(), "coap://[fe80::1%25eth0]:61616/x");
        assert_eq!(
            fails("coap://[fe80::1%25]/"),
            (UriErrorKind::InvalidZone, 18)
        );
        assert_eq!(
            fails("coap://[fe80::1%ad0]/"),
            (UriErrorKind::InvalidZone, 16)
        );
    }

    #[test]
    fn errors_have_the_position() {
        assert_eq!(fails("host/path"), (UriErrorKind::SchemeMissing, 0));
        assert_eq!(fails("http://h/"), (UriErrorKind::UnknownScheme, 0));
        assert_eq!(fails("coap:h"), (UriErrorKind::AuthorityMissing, 5));
        assert_eq!(fails("coap:///x"), (UriErrorKind::HostMissing, 7));
        assert_eq!(fails("coap://:1/x"), (UriErrorKind::HostMissing, 7));
        assert_eq!(fails("coap://me@h/"), (UriErrorKind::UserInformation, 9));
        assert_eq!(fails("coap://h:0/"), (UriErrorKind::InvalidPort, 9));
        assert_eq!(fails("coap://h:65536/"), (UriErrorKind::InvalidPort, 9));
        assert_eq!(fails("coap://h:+1/"), (UriErrorKind::InvalidPort, 9));
        assert_eq!(fails("coap://::1/"), (UriErrorKind::BracketsMissing, 7));
        assert_eq!(fails("coap://[::1/"), (UriErrorKind::InvalidIpLiteral, 7));
        assert_eq!(fails("coap://[v1.x]/"), (UriErrorKind::InvalidIpLiteral, 8));
        assert_eq!(
            fails("coap://[::1]x/"),
            (UriErrorKind::InvalidCharacter, 12)
        );
        assert_eq!(fails("coap://h/a b"), (UriErrorKind::InvalidCharacter, 10));
        assert_eq!(fails("coap://h/a%2"), (UriErrorKind::InvalidEscape, 10));
        assert_eq!(fails("coap://h/%ff"), (UriErrorKind::NotUtf8, 9));
        assert_eq!(fails("coap://h/#f"), (UriErrorKind::Fragment, 9));
        assert_eq!(
            Uri::parse("coap://h:0").expect_err("port 0").to_string(),
            "port is not a number from 1 to 65535 at byte 9"
        );
    }

    #[test]
    fn component_length_is_limited_after_decoding() {
        let longest = format!("coap://h/{}", "%41".repeat(MAX_COMPONENT_LENGTH));
        assert_eq!(path(&longest)[0].len(), MAX_COMPONENT_LENGTH);
        assert_eq!(
            fails(&format!("{longest}A")),
            (UriErrorKind::ComponentTooLong, 9)
        );
        let name = "h".repeat(MAX_COMPONENT_LENGTH + 1);
        assert_eq!(
            fails(&format!("coap://{name}/")),
            (UriErrorKind::ComponentTooLong, 7)
        );
    }

    #[test]
    fn options_for_a_proxy_name_the_host_and_port() {
        let uri = parsed("coap://[2001:db8::2%251]:61616/x");
        let proxy = SocketAddr::from(([192, 0, 2, 1], 5683));
        let options = uri.options_for(proxy).expect("fits");
        assert_eq!(
            options.first(OptionNumber::URI_HOST),
            Some(&b"[2001:db8::2]"[..])
        );
        assert_eq!(options.uint(OptionNumber::URI_PORT), Some(61616));
        let itself = SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2), 61616));
        assert_eq!(uri.options_for(itself).as_ref(), Ok(uri.options()));
    }

    #[test]
    fn uri_is_composed_from_options_and_destination() {
        let destination = SocketAddr::from((Ipv6Addr::LOCALHOST, 5683));
        let mut request = Options::new();
        let compose = |options: &Options| {
            Uri::from_options(Scheme::Coap, options, destination).map(|uri| uri.to_string())
        };
        assert_eq!(compose(&request).as_deref(), Ok("coap://[::1]/"));
        request.push(OptionNumber::URI_PATH, b"a/b").expect("fits");
        request
            .push(OptionNumber::URI_PATH, "ä".as_bytes())
            .expect("fits");
        request
            .push(OptionNumber::URI_QUERY, b"x&y=?")
            .expect("fits");
        assert_eq!(
            compose(&request).as_deref(),
            Ok("coap://[::1]/a%2Fb/%C3%A4?x%26y=?")
        );
        request
            .set(OptionNumber::URI_HOST, b"192.0.2.7")
            .expect("fits");
        request.set_uint(OptionNumber::URI_PORT, 1).expect("fits");
        assert_eq!(
            compose(&request).as_deref(),
            Ok("coap://192.0.2.7:1/a%2Fb/%C3%A4?x%26y=?")
        );
        request.push(OptionNumber::URI_PATH, b"..").expect("fits");
        assert_eq!(
            compose(&request).map_err(|error| error.kind),
            Err(UriErrorKind::DotSegment)
        );
    }
}
