//! CoAP option numbers, codes and content formats: the one table of assigned numbers.
//!
//! Every row names its source. A row is added here and nowhere else; constants, names, formats and
//! length limits follow from it. Numbers that only an Internet-Draft assigns are left out.

use core::fmt;

/// Encoding of an option value (RFC 7252 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptionFormat {
    /// A zero-length value: the option's presence is its meaning.
    Empty,
    /// Bytes without structure.
    Opaque,
    /// An unsigned integer in network byte order, leading zero bytes omitted by senders.
    Uint,
    /// UTF-8 text.
    String,
}

/// The registered properties of a CoAP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionDefinition {
    /// The option number on the wire.
    pub number: OptionNumber,
    /// The registered name, such as `Uri-Path`.
    pub name: &'static str,
    /// The encoding of the value.
    pub format: OptionFormat,
    /// The shortest permitted value, in bytes.
    pub min_length: u16,
    /// The longest permitted value, in bytes.
    pub max_length: u16,
    /// The option may occur more than once in a message (RFC 7252 5.4.5).
    pub repeatable: bool,
    /// The document that defines the option.
    pub source: &'static str,
}

impl OptionDefinition {
    /// Returns whether a value of `length` bytes is within the option's limits.
    ///
    /// A recipient treats an option outside them like an unrecognized one (RFC 7252 5.4.3).
    pub(crate) const fn accepts_length(&self, length: usize) -> bool {
        length >= self.min_length as usize && length <= self.max_length as usize
    }
}

/// A CoAP option number. Its low bits define the treatment of an unrecognized option.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptionNumber(pub u16);

impl OptionNumber {
    /// Returns whether a message with this option must be rejected when the option is not
    /// understood (RFC 7252 5.4.1).
    pub const fn is_critical(self) -> bool {
        self.0 & 1 == 1
    }

    /// Returns whether a proxy that does not understand the option must not forward it (RFC 7252
    /// 5.4.2).
    pub const fn is_unsafe_to_forward(self) -> bool {
        self.0 & 2 == 2
    }

    /// Returns whether the option is left out of the cache key (RFC 7252 5.4.6).
    pub const fn is_no_cache_key(self) -> bool {
        self.0 & 0x1e == 0x1c
    }

    /// Returns whether the option is a component of the request URI (RFC 7252 5.10.1, 5.10.2).
    pub const fn is_of_uri(self) -> bool {
        matches!(
            self,
            Self::URI_HOST
                | Self::URI_PORT
                | Self::URI_PATH
                | Self::URI_QUERY
                | Self::PROXY_URI
                | Self::PROXY_SCHEME
        )
    }

    /// Returns whether the option is defined for requests (RFC 7252 5.4).
    pub(crate) const fn is_for_requests(self) -> bool {
        !matches!(
            self,
            Self::LOCATION_PATH | Self::LOCATION_QUERY | Self::MAX_AGE
        )
    }

    /// Returns whether the option is defined for responses (RFC 7252 5.4).
    pub(crate) const fn is_for_responses(self) -> bool {
        !matches!(
            self,
            Self::IF_MATCH
                | Self::URI_HOST
                | Self::IF_NONE_MATCH
                | Self::URI_PORT
                | Self::URI_PATH
                | Self::URI_QUERY
                | Self::ACCEPT
                | Self::PROXY_URI
                | Self::PROXY_SCHEME
        )
    }

    /// Returns the registered name, or `None` for a number not in this table.
    pub const fn name(self) -> Option<&'static str> {
        match self.definition() {
            Some(definition) => Some(definition.name),
            None => None,
        }
    }
}

impl fmt::Display for OptionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "option {}", self.0),
        }
    }
}

impl fmt::Debug for OptionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}({})", self.0),
            None => write!(f, "OptionNumber({})", self.0),
        }
    }
}

macro_rules! options {
    ($($constant:ident = $number:literal, $name:literal, $format:ident, $min:literal..=$max:literal,
       $repeatable:literal, $source:literal;)*) => {
        impl OptionNumber {
            $(
                #[doc = concat!($name, " (", $source, ").")]
                pub const $constant: Self = Self($number);
            )*

            /// Returns the option's entry in the table of assigned numbers, if there is one.
            #[inline]
            pub const fn definition(self) -> Option<&'static OptionDefinition> {
                match self.0 {
                    $($number => Some(const { &options!(@row $number, $name, $format, $min, $max,
                        $repeatable, $source) }),)*
                    _ => None,
                }
            }
        }

        impl OptionDefinition {
            /// Every option of the table, by ascending number.
            pub const ALL: &'static [Self] = &[$(options!(@row $number, $name, $format, $min, $max,
                $repeatable, $source)),*];
        }
    };
    (@row $number:literal, $name:literal, $format:ident, $min:literal, $max:literal,
        $repeatable:literal, $source:literal) => {
        OptionDefinition {
            number: OptionNumber($number),
            name: $name,
            format: OptionFormat::$format,
            min_length: $min,
            max_length: $max,
            repeatable: $repeatable,
            source: $source,
        }
    };
}

options! {
    IF_MATCH = 1, "If-Match", Opaque, 0..=8, true, "RFC 7252 5.10.8.1";
    URI_HOST = 3, "Uri-Host", String, 1..=255, false, "RFC 7252 5.10.1";
    ETAG = 4, "ETag", Opaque, 1..=8, true, "RFC 7252 5.10.6";
    IF_NONE_MATCH = 5, "If-None-Match", Empty, 0..=0, false, "RFC 7252 5.10.8.2";
    OBSERVE = 6, "Observe", Uint, 0..=3, false, "RFC 7641 2";
    URI_PORT = 7, "Uri-Port", Uint, 0..=2, false, "RFC 7252 5.10.1";
    LOCATION_PATH = 8, "Location-Path", String, 0..=255, true, "RFC 7252 5.10.7";
    OSCORE = 9, "OSCORE", Opaque, 0..=255, false, "RFC 8613 2";
    URI_PATH = 11, "Uri-Path", String, 0..=255, true, "RFC 7252 5.10.1";
    CONTENT_FORMAT = 12, "Content-Format", Uint, 0..=2, false, "RFC 7252 5.10.3";
    MAX_AGE = 14, "Max-Age", Uint, 0..=4, false, "RFC 7252 5.10.5";
    URI_QUERY = 15, "Uri-Query", String, 0..=255, true, "RFC 7252 5.10.1";
    HOP_LIMIT = 16, "Hop-Limit", Uint, 1..=1, false, "RFC 8768 3";
    ACCEPT = 17, "Accept", Uint, 0..=2, false, "RFC 7252 5.10.4";
    Q_BLOCK1 = 19, "Q-Block1", Uint, 0..=3, false, "RFC 9177 4.1";
    LOCATION_QUERY = 20, "Location-Query", String, 0..=255, true, "RFC 7252 5.10.7";
    EDHOC = 21, "EDHOC", Empty, 0..=0, false, "RFC 9668 3.1";
    BLOCK2 = 23, "Block2", Uint, 0..=3, false, "RFC 7959 2.1";
    BLOCK1 = 27, "Block1", Uint, 0..=3, false, "RFC 7959 2.1";
    SIZE2 = 28, "Size2", Uint, 0..=4, false, "RFC 7959 4";
    Q_BLOCK2 = 31, "Q-Block2", Uint, 0..=3, true, "RFC 9177 4.1";
    PROXY_URI = 35, "Proxy-Uri", String, 1..=1034, false, "RFC 7252 5.10.2";
    PROXY_SCHEME = 39, "Proxy-Scheme", String, 1..=255, false, "RFC 7252 5.10.2";
    SIZE1 = 60, "Size1", Uint, 0..=4, false, "RFC 7252 5.10.9";
    ECHO = 252, "Echo", Opaque, 1..=40, false, "RFC 9175 2.2.1";
    NO_RESPONSE = 258, "No-Response", Uint, 0..=1, false, "RFC 7967 2";
    REQUEST_TAG = 292, "Request-Tag", Opaque, 0..=8, true, "RFC 9175 3.2.1";
}

/// The registered properties of an option of signalling messages (RFC 8323 5.2).
///
/// Signalling messages (7.xx) have their own option numbers, one table for each code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignallingOptionDefinition {
    /// The signalling code whose messages may carry the option.
    pub code: Code,
    /// Number, name, format and limits, as for ordinary options.
    pub option: OptionDefinition,
}

macro_rules! signalling_options {
    ($($code:ident, $number:literal, $name:literal, $format:ident, $min:literal..=$max:literal,
       $repeatable:literal, $source:literal;)*) => {
        impl SignallingOptionDefinition {
            /// Every signalling option of the table, by code and ascending number.
            pub const ALL: &'static [Self] = &[$(Self {
                code: Code::$code,
                option: options!(@row $number, $name, $format, $min, $max, $repeatable, $source),
            }),*];
        }
    };
}

signalling_options! {
    CSM, 2, "Max-Message-Size", Uint, 0..=4, false, "RFC 8323 5.3.1";
    CSM, 4, "Block-Wise-Transfer", Empty, 0..=0, false, "RFC 8323 5.3.2";
    CSM, 6, "Extended-Token-Length", Uint, 0..=3, false, "RFC 8974 2.2.1";
    PING, 2, "Custody", Empty, 0..=0, false, "RFC 8323 5.4.1";
    PONG, 2, "Custody", Empty, 0..=0, false, "RFC 8323 5.4.1";
    RELEASE, 2, "Alternative-Address", String, 1..=255, true, "RFC 8323 5.5";
    RELEASE, 4, "Hold-Off", Uint, 0..=3, false, "RFC 8323 5.5";
    ABORT, 2, "Bad-CSM-Option", Uint, 0..=2, false, "RFC 8323 5.6";
}

impl SignallingOptionDefinition {
    /// Looks up the definition of `number` in messages with the signalling code `code`.
    pub fn find(code: Code, number: OptionNumber) -> Option<&'static Self> {
        Self::ALL
            .iter()
            .find(|row| row.code == code && row.option.number == number)
    }
}

/// The code byte of a CoAP message: three bits of class and five of detail (RFC 7252 3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u8);

impl Code {
    /// Returns the class, the digit before the dot.
    pub const fn class(self) -> u8 {
        self.0 >> 5
    }

    /// Returns the detail, the two digits after the dot.
    pub const fn detail(self) -> u8 {
        self.0 & 0x1f
    }

    /// Returns whether this is the Empty code 0.00.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the code lies in the method range 0.01 to 0.31, assigned or not.
    pub const fn is_request(self) -> bool {
        self.class() == 0 && !self.is_empty()
    }

    /// Returns whether the code lies in the response range 2.00 to 5.31, assigned or not.
    pub const fn is_response(self) -> bool {
        matches!(self.class(), 2..=5)
    }

    /// Returns whether this is a response of class 2.
    pub const fn is_success(self) -> bool {
        self.class() == 2
    }

    /// Returns whether messages with this code may have a payload (RFC 7252 5.5). GET, DELETE,
    /// 2.03, 2.31 (RFC 7959 2.9.1) and Empty may not.
    pub(crate) const fn has_payload(self) -> bool {
        !matches!(
            self,
            Self::EMPTY | Self::GET | Self::DELETE | Self::VALID | Self::CONTINUE
        )
    }

    /// Returns whether this is a signalling code, valid on reliable transports only (RFC 8323 5.1).
    pub const fn is_signalling(self) -> bool {
        self.class() == 7
    }

    /// Returns whether the method is safe: GET and FETCH (RFC 7252 5.1, RFC 8132 2).
    pub const fn is_safe(self) -> bool {
        matches!(self, Self::GET | Self::FETCH)
    }

    /// Returns whether the method is idempotent.
    ///
    /// GET, PUT, DELETE (RFC 7252 5.1), FETCH and iPATCH (RFC 8132 2 and 3) are; POST, PATCH and
    /// unassigned methods are not. A server may forget idempotent requests earlier (RFC 7252 4.5).
    pub const fn is_idempotent(self) -> bool {
        matches!(
            self,
            Self::GET | Self::PUT | Self::DELETE | Self::FETCH | Self::IPATCH
        )
    }
}

impl fmt::Display for Code {
    /// Writes the dotted form, such as `2.05`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.class(), self.detail())
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{self} {name}"),
            None => write!(f, "{self}"),
        }
    }
}

macro_rules! codes {
    ($($constant:ident = $class:literal . $detail:literal, $name:literal, $source:literal;)*) => {
        impl Code {
            $(
                #[doc = concat!($name, " (", $source, ").")]
                pub const $constant: Self = Self($class << 5 | $detail);
            )*

            /// Every assigned code of the table, ascending, with its source.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$constant, $source)),*];

            /// Returns the registered name, or `None` for an unassigned code.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$constant => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    EMPTY = 0 . 0, "Empty", "RFC 7252 4.1";
    GET = 0 . 1, "GET", "RFC 7252 5.8.1";
    POST = 0 . 2, "POST", "RFC 7252 5.8.2";
    PUT = 0 . 3, "PUT", "RFC 7252 5.8.3";
    DELETE = 0 . 4, "DELETE", "RFC 7252 5.8.4";
    FETCH = 0 . 5, "FETCH", "RFC 8132 2";
    PATCH = 0 . 6, "PATCH", "RFC 8132 3";
    IPATCH = 0 . 7, "iPATCH", "RFC 8132 3";
    CREATED = 2 . 1, "Created", "RFC 7252 5.9.1.1";
    DELETED = 2 . 2, "Deleted", "RFC 7252 5.9.1.2";
    VALID = 2 . 3, "Valid", "RFC 7252 5.9.1.3";
    CHANGED = 2 . 4, "Changed", "RFC 7252 5.9.1.4";
    CONTENT = 2 . 5, "Content", "RFC 7252 5.9.1.5";
    CONTINUE = 2 . 31, "Continue", "RFC 7959 2.9.1";
    BAD_REQUEST = 4 . 0, "Bad Request", "RFC 7252 5.9.2.1";
    UNAUTHORIZED = 4 . 1, "Unauthorized", "RFC 7252 5.9.2.2";
    BAD_OPTION = 4 . 2, "Bad Option", "RFC 7252 5.9.2.3";
    FORBIDDEN = 4 . 3, "Forbidden", "RFC 7252 5.9.2.4";
    NOT_FOUND = 4 . 4, "Not Found", "RFC 7252 5.9.2.5";
    METHOD_NOT_ALLOWED = 4 . 5, "Method Not Allowed", "RFC 7252 5.9.2.6";
    NOT_ACCEPTABLE = 4 . 6, "Not Acceptable", "RFC 7252 5.9.2.7";
    REQUEST_ENTITY_INCOMPLETE = 4 . 8, "Request Entity Incomplete", "RFC 7959 2.9.2";
    CONFLICT = 4 . 9, "Conflict", "RFC 8132 3.4";
    PRECONDITION_FAILED = 4 . 12, "Precondition Failed", "RFC 7252 5.9.2.8";
    REQUEST_ENTITY_TOO_LARGE = 4 . 13, "Request Entity Too Large", "RFC 7252 5.9.2.9";
    UNSUPPORTED_CONTENT_FORMAT = 4 . 15, "Unsupported Content-Format", "RFC 7252 5.9.2.10";
    UNPROCESSABLE_ENTITY = 4 . 22, "Unprocessable Entity", "RFC 8132 3.4";
    TOO_MANY_REQUESTS = 4 . 29, "Too Many Requests", "RFC 8516 3";
    INTERNAL_SERVER_ERROR = 5 . 0, "Internal Server Error", "RFC 7252 5.9.3.1";
    NOT_IMPLEMENTED = 5 . 1, "Not Implemented", "RFC 7252 5.9.3.2";
    BAD_GATEWAY = 5 . 2, "Bad Gateway", "RFC 7252 5.9.3.3";
    SERVICE_UNAVAILABLE = 5 . 3, "Service Unavailable", "RFC 7252 5.9.3.4";
    GATEWAY_TIMEOUT = 5 . 4, "Gateway Timeout", "RFC 7252 5.9.3.5";
    PROXYING_NOT_SUPPORTED = 5 . 5, "Proxying Not Supported", "RFC 7252 5.9.3.6";
    HOP_LIMIT_REACHED = 5 . 8, "Hop Limit Reached", "RFC 8768 4";
    CSM = 7 . 1, "CSM", "RFC 8323 5.3";
    PING = 7 . 2, "Ping", "RFC 8323 5.4";
    PONG = 7 . 3, "Pong", "RFC 8323 5.4";
    RELEASE = 7 . 4, "Release", "RFC 8323 5.5";
    ABORT = 7 . 5, "Abort", "RFC 8323 5.6";
}

/// A CoAP content format: the number that stands for a media type and content coding
/// (RFC 7252 12.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentFormat(pub u16);

/// The registered properties of a content format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentFormatDefinition {
    /// The number in Content-Format and Accept options.
    pub format: ContentFormat,
    /// The media type with its parameters.
    pub media_type: &'static str,
    /// The content coding; empty for identity.
    pub coding: &'static str,
    /// The document that defines the media type or registers the number.
    pub source: &'static str,
}

impl ContentFormat {
    /// Returns the format's entry in the table of assigned numbers, if there is one.
    pub fn definition(self) -> Option<&'static ContentFormatDefinition> {
        let rows = ContentFormatDefinition::ALL;
        let at = rows.binary_search_by_key(&self, |row| row.format).ok()?;
        rows.get(at)
    }

    /// Returns the media type with its parameters, or `None` for a number not in this table.
    pub fn media_type(self) -> Option<&'static str> {
        Some(self.definition()?.media_type)
    }

    /// Looks up a media type without content coding, such as `application/cbor`.
    ///
    /// Case is ignored, and so are blanks around the semicolons of parameters. A bare `text/plain`
    /// finds [`ContentFormat::TEXT_PLAIN`]: its default character set is a subset of UTF-8.
    pub fn by_media_type(media_type: &str) -> Option<Self> {
        if media_type.trim().eq_ignore_ascii_case("text/plain") {
            return Some(Self::TEXT_PLAIN);
        }
        let same = |row: &&ContentFormatDefinition| {
            let wanted = media_type.split(';').map(str::trim);
            let known = row.media_type.split(';').map(str::trim);
            row.coding.is_empty()
                && wanted.clone().count() == known.clone().count()
                && wanted.zip(known).all(|(a, b)| a.eq_ignore_ascii_case(b))
        };
        Some(ContentFormatDefinition::ALL.iter().find(same)?.format)
    }
}

impl fmt::Display for ContentFormat {
    /// Writes the media type, with ` @coding` when there is one, or the bare number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.definition() {
            Some(row) if row.coding.is_empty() => f.pad(row.media_type),
            Some(row) => write!(f, "{} @{}", row.media_type, row.coding),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for ContentFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.media_type() {
            Some(media_type) => write!(f, "ContentFormat({} {media_type})", self.0),
            None => write!(f, "ContentFormat({})", self.0),
        }
    }
}

macro_rules! content_formats {
    ($($constant:ident = $number:literal, $media_type:literal, $coding:literal, $source:literal;)*)
    => {
        impl ContentFormat {
            $(
                #[doc = concat!("`", $media_type, "` ", $coding, " (", $source, ").")]
                pub const $constant: Self = Self($number);
            )*
        }

        impl ContentFormatDefinition {
            /// Every content format of the table, by ascending number.
            pub const ALL: &'static [Self] = &[$(Self {
                format: ContentFormat::$constant,
                media_type: $media_type,
                coding: $coding,
                source: $source,
            }),*];
        }
    };
}

content_formats! {
    TEXT_PLAIN = 0, "text/plain; charset=utf-8", "", "RFC 7252 12.3";
    COSE_ENCRYPT0 = 16, "application/cose; cose-type=\"cose-encrypt0\"", "", "RFC 9052";
    COSE_MAC0 = 17, "application/cose; cose-type=\"cose-mac0\"", "", "RFC 9052";
    COSE_SIGN1 = 18, "application/cose; cose-type=\"cose-sign1\"", "", "RFC 9052";
    ACE_CBOR = 19, "application/ace+cbor", "", "RFC 9200";
    IMAGE_GIF = 21, "image/gif", "", "IANA";
    IMAGE_JPEG = 22, "image/jpeg", "", "IANA";
    IMAGE_PNG = 23, "image/png", "", "IANA";
    LINK_FORMAT = 40, "application/link-format", "", "RFC 6690";
    XML = 41, "application/xml", "", "RFC 7252 12.3";
    OCTET_STREAM = 42, "application/octet-stream", "", "RFC 7252 12.3";
    EXI = 47, "application/exi", "", "RFC 7252 12.3";
    JSON = 50, "application/json", "", "RFC 7252 12.3";
    JSON_PATCH = 51, "application/json-patch+json", "", "RFC 8132 6";
    MERGE_PATCH = 52, "application/merge-patch+json", "", "RFC 8132 6";
    CBOR = 60, "application/cbor", "", "RFC 8949 9.4";
    CWT = 61, "application/cwt", "", "RFC 8392";
    MULTIPART_CORE = 62, "application/multipart-core", "", "RFC 8710";
    CBOR_SEQ = 63, "application/cbor-seq", "", "RFC 8742";
    EDHOC_CBOR_SEQ = 64, "application/edhoc+cbor-seq", "", "RFC 9528";
    CID_EDHOC_CBOR_SEQ = 65, "application/cid-edhoc+cbor-seq", "", "RFC 9528";
    COSE_ENCRYPT = 96, "application/cose; cose-type=\"cose-encrypt\"", "", "RFC 9052";
    COSE_MAC = 97, "application/cose; cose-type=\"cose-mac\"", "", "RFC 9052";
    COSE_SIGN = 98, "application/cose; cose-type=\"cose-sign\"", "", "RFC 9052";
    COSE_KEY = 101, "application/cose-key", "", "RFC 9052";
    COSE_KEY_SET = 102, "application/cose-key-set", "", "RFC 9052";
    SENML_JSON = 110, "application/senml+json", "", "RFC 8428";
    SENSML_JSON = 111, "application/sensml+json", "", "RFC 8428";
    SENML_CBOR = 112, "application/senml+cbor", "", "RFC 8428";
    SENSML_CBOR = 113, "application/sensml+cbor", "", "RFC 8428";
    SENML_EXI = 114, "application/senml-exi", "", "RFC 8428";
    SENSML_EXI = 115, "application/sensml-exi", "", "RFC 8428";
    YANG_DATA_CBOR_SID = 140, "application/yang-data+cbor; id=sid", "", "RFC 9254";
    COAP_GROUP_JSON = 256, "application/coap-group+json", "", "RFC 7390";
    PROBLEM_DETAILS = 257, "application/concise-problem-details+cbor", "", "RFC 9290";
    SWID_CBOR = 258, "application/swid+cbor", "", "RFC 9393";
    DOTS_CBOR = 271, "application/dots+cbor", "", "RFC 9132";
    MISSING_BLOCKS = 272, "application/missing-blocks+cbor-seq", "", "RFC 9177 5";
    PKCS7_SERVER_GENERATED_KEY = 280, "application/pkcs7-mime; smime-type=server-generated-key", "",
        "RFC 9148";
    PKCS7_CERTS_ONLY = 281, "application/pkcs7-mime; smime-type=certs-only", "", "RFC 9148";
    PKCS8 = 284, "application/pkcs8", "", "RFC 9148";
    CSRATTRS = 285, "application/csrattrs", "", "RFC 9148";
    PKCS10 = 286, "application/pkcs10", "", "RFC 9148";
    PKIX_CERT = 287, "application/pkix-cert", "", "RFC 9148";
    AIF_CBOR = 290, "application/aif+cbor", "", "RFC 9237";
    AIF_JSON = 291, "application/aif+json", "", "RFC 9237";
    SENML_XML = 310, "application/senml+xml", "", "RFC 8428";
    SENSML_XML = 311, "application/sensml+xml", "", "RFC 8428";
    SENML_ETCH_JSON = 320, "application/senml-etch+json", "", "RFC 8790";
    SENML_ETCH_CBOR = 322, "application/senml-etch+cbor", "", "RFC 8790";
    YANG_DATA_CBOR = 340, "application/yang-data+cbor", "", "RFC 9254";
    YANG_DATA_CBOR_NAME = 341, "application/yang-data+cbor; id=name", "", "RFC 9254";
    TD_JSON = 432, "application/td+json", "", "W3C Web of Things Thing Description";
    OCF_CBOR = 10000, "application/vnd.ocf+cbor", "", "Open Connectivity Foundation";
    OSCORE = 10001, "application/oscore", "", "RFC 8613";
    JAVASCRIPT = 10002, "application/javascript", "", "RFC 4329";
    JSON_DEFLATE = 11050, "application/json", "deflate", "RFC 8259";
    CBOR_DEFLATE = 11060, "application/cbor", "deflate", "RFC 8949";
    LWM2M_TLV = 11542, "application/vnd.oma.lwm2m+tlv", "", "OMA LwM2M 1.0";
    LWM2M_JSON = 11543, "application/vnd.oma.lwm2m+json", "", "OMA LwM2M 1.0";
    LWM2M_CBOR = 11544, "application/vnd.oma.lwm2m+cbor", "", "OMA LwM2M 1.2";
    TEXT_CSS = 20000, "text/css", "", "RFC 2318";
    IMAGE_SVG = 30000, "image/svg+xml", "", "W3C SVG";
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn option_table_is_sorted_and_agrees_with_the_lookup() {
        assert!(OptionDefinition::ALL.is_sorted_by(|a, b| a.number < b.number));
        for row in OptionDefinition::ALL {
            assert_eq!(row.number.definition(), Some(row));
            assert!(row.min_length <= row.max_length, "{}", row.name);
        }
        let known = (0..=u16::MAX)
            .filter(|&n| OptionNumber(n).definition().is_some())
            .count();
        assert_eq!(known, OptionDefinition::ALL.len());
    }

    #[test]
    fn option_properties_follow_the_number_bits_of_rfc_7252_table_4() {
        let properties = |number: OptionNumber| {
            (
                number.is_critical(),
                number.is_unsafe_to_forward(),
                number.is_no_cache_key(),
            )
        };
        assert_eq!(properties(OptionNumber::IF_MATCH), (true, false, false));
        assert_eq!(properties(OptionNumber::URI_HOST), (true, true, false));
        assert_eq!(properties(OptionNumber::ETAG), (false, false, false));
        assert_eq!(properties(OptionNumber::MAX_AGE), (false, true, false));
        assert_eq!(properties(OptionNumber::SIZE1), (false, false, true));
        assert_eq!(properties(OptionNumber::ECHO), (false, false, true));
        assert_eq!(properties(OptionNumber::REQUEST_TAG), (false, false, false));
    }

    #[test]
    fn length_limits_hold_at_both_ends() {
        let echo = OptionNumber::ECHO
            .definition()
            .expect("Echo is in the table");
        assert!(!echo.accepts_length(0) && echo.accepts_length(1));
        assert!(echo.accepts_length(40) && !echo.accepts_length(41));
    }

    #[test]
    fn code_table_is_sorted_and_every_row_has_a_name() {
        assert!(Code::ALL.is_sorted_by(|a, b| a.0 < b.0));
        assert!(Code::ALL.iter().all(|(code, _)| code.name().is_some()));
    }

    #[test]
    fn codes_are_written_with_a_dot() {
        assert_eq!(Code::CONTENT.to_string(), "2.05");
        assert_eq!(Code::CONTINUE.to_string(), "2.31");
        assert_eq!(Code(0xff).to_string(), "7.31");
        assert_eq!(format!("{:?}", Code::NOT_FOUND), "4.04 Not Found");
    }

    #[test]
    fn code_classes_are_told_apart() {
        assert!(Code::EMPTY.is_empty() && !Code::EMPTY.is_request());
        assert!(Code(0x1f).is_request() && !Code(0x20).is_request());
        assert!(!Code(0x3f).is_response() && Code(0x40).is_response());
        assert!(Code(0xbf).is_response() && !Code(0xc0).is_response());
        assert!(Code::CREATED.is_success() && !Code::BAD_REQUEST.is_success());
        assert!(Code::CSM.is_signalling());
    }

    #[test]
    fn method_properties_follow_rfc_7252_and_rfc_8132() {
        let idempotent: Vec<_> = (0..=31)
            .map(Code)
            .filter(|code| code.is_idempotent())
            .collect();
        assert_eq!(
            idempotent,
            [
                Code::GET,
                Code::PUT,
                Code::DELETE,
                Code::FETCH,
                Code::IPATCH
            ]
        );
        let safe: Vec<_> = (0..=31).map(Code).filter(|code| code.is_safe()).collect();
        assert_eq!(safe, [Code::GET, Code::FETCH]);
    }

    #[test]
    fn signalling_options_mean_different_things_under_different_codes() {
        let name = |code, number| {
            SignallingOptionDefinition::find(code, OptionNumber(number)).map(|row| row.option.name)
        };
        assert_eq!(name(Code::CSM, 2), Some("Max-Message-Size"));
        assert_eq!(name(Code::ABORT, 2), Some("Bad-CSM-Option"));
        assert_eq!(name(Code::RELEASE, 4), Some("Hold-Off"));
        assert_eq!(name(Code::PONG, 4), None);
    }

    #[test]
    fn content_formats_are_sorted_and_found_both_ways() {
        assert!(ContentFormatDefinition::ALL.is_sorted_by(|a, b| a.format < b.format));
        for row in ContentFormatDefinition::ALL {
            assert_eq!(row.format.definition(), Some(row));
            if row.coding.is_empty() {
                assert_eq!(
                    ContentFormat::by_media_type(row.media_type),
                    Some(row.format)
                );
            }
        }
        assert_eq!(ContentFormat(1).definition(), None);
    }

    #[test]
    fn media_types_are_matched_without_regard_to_case_and_blanks() {
        let find = ContentFormat::by_media_type;
        assert_eq!(find("Application/CBOR"), Some(ContentFormat::CBOR));
        assert_eq!(
            find("text/plain;charset=UTF-8"),
            Some(ContentFormat::TEXT_PLAIN)
        );
        assert_eq!(find("text/plain"), Some(ContentFormat::TEXT_PLAIN));
        assert_eq!(find("text/plain; charset=latin1"), None);
        assert_eq!(find("application/cbor; x=y"), None);
        assert_eq!(
            ContentFormat::JSON_DEFLATE.to_string(),
            "application/json @deflate"
        );
        assert_eq!(ContentFormat(7).to_string(), "7");
    }
}
