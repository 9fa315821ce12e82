//! A response as people read it.

use carob::{Code, OptionNumber, Response};
use carob_proto::Escaped;

use super::body::is_text;
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

/// The code alone, for responses without a body; and the location of a created resource.
pub(crate) fn code(head: &Response) {
    let mut text = paint(GOOD, code_text(head.code));
    let location = |number| head.options.values(number);
    for (n, segment) in location(OptionNumber::LOCATION_PATH).enumerate() {
        text.push_str(if n == 0 { " at /" } else { "/" });
        text.push_str(&Escaped(segment).to_string());
    }
    for (n, argument) in location(OptionNumber::LOCATION_QUERY).enumerate() {
        text.push(if n == 0 { '?' } else { '&' });
        text.push_str(&Escaped(argument).to_string());
    }
    note(&text);
}

/// An error response.
pub(crate) fn refusal(uri: &str, head: &Response, text: &[u8]) {
    let why = match head.format() {
        Some(format) if !is_text(head, text) => format!("{} bytes of {format}", text.len()),
        _ => Escaped(text.trim_ascii()).to_string(),
    };
    let separator = if why.is_empty() { "" } else { ": " };
    let code = paint(BAD, code_text(head.code));
    note(&format!("carob: {uri} answered {code}{separator}{why}"));
}
