//! Error responses that handlers return.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use carob_proto::codec::{Code, OptionNumber};
use carob_proto::message::Response;

use super::IntoResponse;

/// Error response: a code of class 4 or 5 and a diagnostic payload (RFC 7252 section 5.5.2).
///
/// Every [`std::error::Error`] converts into 5.00 with its text as the diagnostic payload, so `?`
/// works in handlers. Convert errors whose text clients must not see.
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
    /// Creates a refusal with a code of class 4 or 5 and a diagnostic text, which may be empty. Any
    /// other code becomes 5.00, and panics in debug builds.
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

    /// Sets Max-Age, rounded up to seconds. With 5.03 (RFC 7252 section 5.9.3.4) and 4.29 (RFC 8516
    /// section 3) it is the time after which the client may try again, with other codes the time
    /// for which caches may store the response (RFC 7252 section 5.9.2).
    pub fn with_max_age(mut self, age: Duration) -> Self {
        // Max-Age is in seconds (RFC 7252 5.10.5). Rounded up: 0 would invite a retry at once.
        let seconds = age
            .as_secs()
            .saturating_add(u64::from(age.subsec_nanos() > 0));
        self.max_age = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
        self
    }

    /// Sets Size1, the largest body accepted in bytes, for 4.13 (RFC 7252 section 5.9.2.9).
    pub fn with_size_limit(mut self, bytes: usize) -> Self {
        // Size1 has four bytes (RFC 7252 5.10.9).
        self.size = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
        self
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the diagnostic text.
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
    bad_request = BAD_REQUEST, "4.00 Bad Request: the request is invalid (RFC 7252 section 5.9.2.1).";
    unauthorized = UNAUTHORIZED, "4.01 Unauthorized: the client is not authorized (RFC 7252 section 5.9.2.2).";
    bad_option = BAD_OPTION, "4.02 Bad Option: an option is unknown or malformed (RFC 7252 section 5.9.2.3).";
    forbidden = FORBIDDEN, "4.03 Forbidden: the client has no permission (RFC 7252 section 5.9.2.4).";
    not_found = NOT_FOUND, "4.04 Not Found: the resource does not exist (RFC 7252 section 5.9.2.5).";
    method_not_allowed = METHOD_NOT_ALLOWED,
        "4.05 Method Not Allowed: the resource does not support the method (RFC 7252 section 5.9.2.6).";
    not_acceptable = NOT_ACCEPTABLE,
        "4.06 Not Acceptable: the format of Accept is not available (RFC 7252 section 5.9.2.7).";
    request_entity_incomplete = REQUEST_ENTITY_INCOMPLETE,
        "4.08 Request Entity Incomplete: blocks of the body are missing (RFC 7959 section 2.9.2).";
    conflict = CONFLICT, "4.09 Conflict: the request conflicts with the resource's state (RFC 8132 section 3.4).";
    precondition_failed = PRECONDITION_FAILED,
        "4.12 Precondition Failed: If-Match or If-None-Match is false (RFC 7252 section 5.9.2.8).";
    request_entity_too_large = REQUEST_ENTITY_TOO_LARGE,
        "4.13 Request Entity Too Large (RFC 7252 section 5.9.2.9); see \
         [`with_size_limit`](Self::with_size_limit).";
    unsupported_content_format = UNSUPPORTED_CONTENT_FORMAT,
        "4.15 Unsupported Content-Format: the body's format is not accepted (RFC 7252 section 5.9.2.10).";
    unprocessable_entity = UNPROCESSABLE_ENTITY,
        "4.22 Unprocessable Entity: the body is well-formed, but cannot be applied (RFC 8132 section 3.4).";
    too_many_requests = TOO_MANY_REQUESTS,
        "4.29 Too Many Requests: the client exceeds a rate limit (RFC 8516 section 3); see \
         [`with_max_age`](Self::with_max_age).";
    internal_server_error = INTERNAL_SERVER_ERROR, "5.00 Internal Server Error (RFC 7252 section 5.9.3.1).";
    not_implemented = NOT_IMPLEMENTED, "5.01 Not Implemented: the server lacks the functionality (RFC 7252 section 5.9.3.2).";
    bad_gateway = BAD_GATEWAY,
        "5.02 Bad Gateway: the upstream server sent an invalid response (RFC 7252 section 5.9.3.3).";
    service_unavailable = SERVICE_UNAVAILABLE,
        "5.03 Service Unavailable: temporary (RFC 7252 section 5.9.3.4); see \
         [`with_max_age`](Self::with_max_age).";
    gateway_timeout = GATEWAY_TIMEOUT,
        "5.04 Gateway Timeout: the upstream server did not respond (RFC 7252 section 5.9.3.5).";
    proxying_not_supported = PROXYING_NOT_SUPPORTED,
        "5.05 Proxying Not Supported: the server is not a proxy for the URI (RFC 7252 section 5.9.3.6).";
    hop_limit_reached = HOP_LIMIT_REACHED, "5.08 Hop Limit Reached: the request passed too many proxies (RFC 8768 section 4).";
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
    fn refusal_has_max_age_and_size1() {
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
