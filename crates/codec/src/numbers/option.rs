//! Option numbers and their registered properties (RFC 7252 5.10, RFC 8323 5.2).

use core::fmt;

use super::code::Code;

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
    pub const fn accepts_length(&self, length: usize) -> bool {
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
    pub const fn is_for_requests(self) -> bool {
        !matches!(
            self,
            Self::LOCATION_PATH | Self::LOCATION_QUERY | Self::MAX_AGE
        )
    }

    /// Returns whether the option is defined for responses (RFC 7252 5.4).
    pub const fn is_for_responses(self) -> bool {
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

/// Default number of the retransmission count option (draft-ietf-core-fasor-02 4.4), from the experimental range
/// (RFC 7252 12.2).
///
/// 65020, the first number with its properties, is in use: in Californium's S3 proxy it announces a device's next
/// listening period.
pub const RETRANSMISSION_COUNT: OptionNumber = OptionNumber(65_052);

#[cfg(test)]
mod tests {
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
    fn signalling_options_depend_on_the_code() {
        let name = |code, number| {
            SignallingOptionDefinition::find(code, OptionNumber(number)).map(|row| row.option.name)
        };
        assert_eq!(name(Code::CSM, 2), Some("Max-Message-Size"));
        assert_eq!(name(Code::ABORT, 2), Some("Bad-CSM-Option"));
        assert_eq!(name(Code::RELEASE, 4), Some("Hold-Off"));
        assert_eq!(name(Code::PONG, 4), None);
    }
}
