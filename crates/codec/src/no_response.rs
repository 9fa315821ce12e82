//! The No-Response option: the responses a client does not want (RFC 7967).

use core::fmt;
use core::ops::BitOr;

use super::numbers::{Code, OptionNumber};
use super::options::Options;

/// Classes of responses that a client does not want, as the No-Response option names them
/// (RFC 7967 2.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NoResponse(u8);

impl NoResponse {
    /// Every response is wanted; the default for a request without the option.
    pub const NONE: Self = Self(0);
    /// No 2.xx.
    pub const SUCCESS: Self = Self(2);
    /// No 4.xx.
    pub const CLIENT_ERROR: Self = Self(8);
    /// No 5.xx.
    pub const SERVER_ERROR: Self = Self(16);
    /// No response at all.
    pub const ALL: Self = Self(2 | 8 | 16);

    /// Decodes an option value; bits without a meaning in RFC 7967 are cleared.
    pub const fn from_value(value: u32) -> Self {
        Self(value as u8 & Self::ALL.0)
    }

    /// Returns the value of the option.
    pub const fn value(self) -> u32 {
        self.0 as u32
    }

    /// Returns the value in a message's options; [`NONE`](Self::NONE) without the option.
    pub fn of(options: &Options) -> Self {
        let value = options.uint(OptionNumber::NO_RESPONSE);
        value.map_or(Self::NONE, Self::from_value)
    }

    /// Returns whether a response with this code is not wanted.
    pub const fn suppresses(self, code: Code) -> bool {
        code.is_response() && self.0 >> (code.class() - 1) & 1 == 1
    }

    /// Returns whether every response is wanted.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns whether no response is wanted.
    pub const fn is_all(self) -> bool {
        self.0 == Self::ALL.0
    }
}

impl BitOr for NoResponse {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for NoResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for (class, name) in [
            (Self::SUCCESS, "2.xx"),
            (Self::CLIENT_ERROR, "4.xx"),
            (Self::SERVER_ERROR, "5.xx"),
        ] {
            if self.0 & class.0 != 0 {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn each_bit_selects_a_response_class() {
        let codes = [Code::CONTENT, Code::NOT_FOUND, Code::INTERNAL_SERVER_ERROR];
        let suppressed = |value| codes.map(|code| NoResponse::from_value(value).suppresses(code));
        assert_eq!(suppressed(0), [false; 3]);
        assert_eq!(suppressed(2), [true, false, false]);
        assert_eq!(suppressed(8), [false, true, false]);
        assert_eq!(suppressed(16), [false, false, true]);
        assert_eq!(suppressed(26), [true; 3]);
        assert_eq!(suppressed(0xe5), [false; 3], "bits without a meaning");
        assert!(!NoResponse::ALL.suppresses(Code::EMPTY));
        assert!(!NoResponse::ALL.suppresses(Code::GET));
        assert!(!NoResponse::ALL.suppresses(Code::PING));
    }

    #[test]
    fn classes_add_up() {
        let errors = NoResponse::CLIENT_ERROR | NoResponse::SERVER_ERROR;
        assert_eq!((errors.value(), errors.is_all()), (24, false));
        assert!((errors | NoResponse::SUCCESS).is_all());
        assert_eq!(format!("{errors:?}"), "{4.xx, 5.xx}");
    }
}
