//! A response as people read it.

use carob::{Code, OptionNumber, Response};

use super::body::is_text;
use super::report::harmless;
use super::style::{BAD, GOOD, STRONG, paint};
use super::{line, note};

/// `2.05 Content`.
pub(super) fn code_text(code: Code) -> String {
    code.name()
        .map_or_else(|| code.to_string(), |name| format!("{code} {name}"))
}

/// Prints the URI before its response, where there are several.
pub(crate) fn uri(uri: &str) {
    line(&paint(STRONG, format_args!("{uri}:")));
}

/// The code alone, for responses without a body; and the place of what was created.
pub(crate) fn code(head: &Response) {
    let mut text = paint(GOOD, code_text(head.code));
    let location = |number| head.options.values(number);
    for (n, segment) in location(OptionNumber::LOCATION_PATH).enumerate() {
        let segment = String::from_utf8_lossy(segment);
        text.push_str(if n == 0 { " at /" } else { "/" });
        text.push_str(&harmless(&segment));
    }
    for (n, argument) in location(OptionNumber::LOCATION_QUERY).enumerate() {
        let argument = String::from_utf8_lossy(argument);
        text.push(if n == 0 { '?' } else { '&' });
        text.push_str(&harmless(&argument));
    }
    note(&text);
}

/// An error response.
pub(crate) fn refusal(uri: &str, head: &Response, text: &[u8]) {
    let why = if is_text(head, text) {
        String::from_utf8_lossy(text)
    } else {
        "".into()
    };
    let why = why.trim();
    let separator = if why.is_empty() { "" } else { ": " };
    let code = paint(BAD, code_text(head.code));
    note(&format!("carob: {uri} answered {code}{separator}{why}"));
}
