//! Codes of messages: methods, response codes and signalling codes (RFC 7252 3, 12.1).

use core::fmt;

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
    pub const fn has_payload(self) -> bool {
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

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

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
    fn code_classes_are_distinguished() {
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
}
