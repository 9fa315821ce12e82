//! Requests that are not carried out, as errors that handlers return.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use carob_proto::codec::{Code, OptionNumber};
use carob_proto::message::Response;

use super::IntoResponse;

/// Why a request is not carried out: an error code and a text for people who look for the cause
/// (RFC 7252 5.5.2).
///
/// Any error of the standard library's kind turns into one with `?`: 5.00 with the error's text.
/// What must not be told to clients is to be turned into something else first.
///
/// ```
/// use carob::server::{Refusal, Request};
///
/// async fn set_level(request: Request) -> Result<carob::Code, Refusal> {
///     let text = std::str::from_utf8(request.payload())?;
///     let level: u8 = text.parse().map_err(|_| Refusal::bad_request("no number"))?;
///     if level > 100 {
///         return Err(Refusal::unprocessable_entity("the level is a percentage"));
///     }
///     Ok(carob::Code::CHANGED)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a refusal is to be returned"]
pub struct Refusal {
    code: Code,
    text: Cow<'static, str>,
    max_age: Option<u32>,
    size: Option<u32>,
}

impl Refusal {
    /// A refusal with a code of class 4 or 5 and a text, which may be empty. Any other code would
    /// not refuse, so 5.00 takes its place.
    pub fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        let refuses = matches!(code.class(), 4 | 5);
        debug_assert!(refuses, "{code} is no refusal");
        Self {
            code: if refuses {
                code
            } else {
                Code::INTERNAL_SERVER_ERROR
            },
            text: text.into(),
            max_age: None,
            size: None,
        }
    }

    /// The same with the time after which it is worth trying again: for 5.03 (RFC 7252 5.9.3.4)
    /// and 4.29 (RFC 8516 3). Fractions of a second are rounded up. For other codes it is how long
    /// caches may answer with the refusal (RFC 7252 5.9.2).
    pub fn with_max_age(mut self, age: Duration) -> Self {
        let seconds = age
            .as_secs()
            .saturating_add(u64::from(age.subsec_nanos() > 0));
        self.max_age = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
        self
    }

    /// The same with the largest body that would be taken, in bytes: for 4.13
    /// (RFC 7252 5.9.2.9).
    pub fn with_size_limit(mut self, bytes: usize) -> Self {
        self.size = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
        self
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

macro_rules! refusals {
    ($($name:ident = $code:ident, $about:literal;)*) => {
        impl Refusal {
            $(
                #[doc = $about]
                pub fn $name(text: impl Into<Cow<'static, str>>) -> Self {
                    Self::new(Code::$code, text)
                }
            )*
        }

        /// The constructors with their codes, to be held against the table of codes.
        #[cfg(test)]
        const ALL: &[(fn() -> Refusal, Code)] =
            &[$((|| Refusal::$name(""), Code::$code)),*];
    };
}

refusals! {
    bad_request = BAD_REQUEST, "4.00: the request makes no sense (RFC 7252 5.9.2.1).";
    unauthorized = UNAUTHORIZED, "4.01: the client must first show who it is (RFC 7252 5.9.2.2).";
    bad_option = BAD_OPTION, "4.02: an option is not understood, or malformed (RFC 7252 5.9.2.3).";
    forbidden = FORBIDDEN, "4.03: the client may not do this (RFC 7252 5.9.2.4).";
    not_found = NOT_FOUND, "4.04: there is no such resource (RFC 7252 5.9.2.5).";
    method_not_allowed = METHOD_NOT_ALLOWED,
        "4.05: the resource has not this method (RFC 7252 5.9.2.6).";
    not_acceptable = NOT_ACCEPTABLE,
        "4.06: it cannot be had in the format that Accept asks for (RFC 7252 5.9.2.7).";
    request_entity_incomplete = REQUEST_ENTITY_INCOMPLETE,
        "4.08: blocks of the body are missing (RFC 7959 2.9.2).";
    conflict = CONFLICT, "4.09: the state of the resource does not allow it (RFC 8132 3.4).";
    precondition_failed = PRECONDITION_FAILED,
        "4.12: If-Match or If-None-Match does not hold (RFC 7252 5.9.2.8).";
    request_entity_too_large = REQUEST_ENTITY_TOO_LARGE,
        "4.13: the body is too large; see [`with_size_limit`](Self::with_size_limit) (RFC 7252 \
         5.9.2.9).";
    unsupported_content_format = UNSUPPORTED_CONTENT_FORMAT,
        "4.15: bodies of this format are not taken (RFC 7252 5.9.2.10).";
    unprocessable_entity = UNPROCESSABLE_ENTITY,
        "4.22: the body is understood and cannot be applied (RFC 8132 3.4).";
    too_many_requests = TOO_MANY_REQUESTS,
        "4.29: the client asks too often; see [`with_max_age`](Self::with_max_age) (RFC 8516 3).";
    internal_server_error = INTERNAL_SERVER_ERROR, "5.00: the server failed (RFC 7252 5.9.3.1).";
    not_implemented = NOT_IMPLEMENTED, "5.01: the server cannot do this (RFC 7252 5.9.3.2).";
    bad_gateway = BAD_GATEWAY,
        "5.02: the server behind this one answered nonsense (RFC 7252 5.9.3.3).";
    service_unavailable = SERVICE_UNAVAILABLE,
        "5.03: not now; see [`with_max_age`](Self::with_max_age) (RFC 7252 5.9.3.4).";
    gateway_timeout = GATEWAY_TIMEOUT,
        "5.04: the server behind this one did not answer (RFC 7252 5.9.3.5).";
    proxying_not_supported = PROXYING_NOT_SUPPORTED,
        "5.05: this server does not ask others (RFC 7252 5.9.3.6).";
    hop_limit_reached = HOP_LIMIT_REACHED, "5.08: too many proxies on the way (RFC 8768 4).";
}

/// 5.00 with the error's text.
impl<E: Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::internal_server_error(error.to_string())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.code)?;
        if self.text.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.text)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::diagnostic(self.code, &self.text);
        let numbers = [
            (OptionNumber::MAX_AGE, self.max_age),
            (OptionNumber::SIZE1, self.size),
        ];
        for (number, value) in numbers {
            if let Some(value) = value {
                response
                    .options
                    .set_uint(number, value)
                    .expect("two short options fit");
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_has_its_constructor() {
        let made: Vec<_> = ALL.iter().map(|(make, _)| make().code()).collect();
        let meant: Vec<_> = ALL.iter().map(|(_, code)| *code).collect();
        let known: Vec<_> = Code::ALL
            .iter()
            .map(|(code, _)| *code)
            .filter(|code| matches!(code.class(), 4 | 5))
            .collect();
        assert_eq!((&made, &meant), (&known, &known));
    }

    #[test]
    fn an_error_becomes_5_00_with_its_text() {
        let parsed = || -> Result<u8, Refusal> { Ok("x".parse::<u8>()?) };
        let response = parsed().unwrap_err().into_response();
        assert_eq!(response.code, Code::INTERNAL_SERVER_ERROR);
        assert_eq!(response.bytes(), "invalid digit found in string");
        assert_eq!(
            response.format(),
            None,
            "a diagnostic payload has no format"
        );
    }

    #[test]
    fn a_refusal_says_when_to_try_again_and_how_much_is_taken() {
        let busy = Refusal::too_many_requests("slowly").with_max_age(Duration::from_millis(1_001));
        assert_eq!(
            busy.clone().into_response().max_age(),
            Duration::from_secs(2)
        );
        assert_eq!(busy.to_string(), "4.29 Too Many Requests: slowly");
        let large = Refusal::request_entity_too_large("").with_size_limit(1_000);
        assert_eq!(large.to_string(), "4.13 Request Entity Too Large");
        let response = large.into_response();
        assert_eq!(response.options.uint(OptionNumber::SIZE1), Some(1_000));
        assert!(response.bytes().is_empty());
    }
}
