//! A response as people read it.

use std::net::SocketAddr;
use std::time::Duration;

use carob::{Code, ContentFormat, OptionNumber, Response};
use serde_json::Value;

use super::body::is_text;
use super::note;
use super::report::option_value;

/// `2.05 Content`.
fn code_text(code: Code) -> String {
    code.name()
        .map_or_else(|| code.to_string(), |name| format!("{code} {name}"))
}

/// The code alone, for responses without a body.
pub(crate) fn code(head: &Response) {
    note(&code_text(head.code));
}

/// Code and options.
pub(crate) fn head(head: &Response, peer: SocketAddr, after: Duration) {
    let millis = after.as_secs_f64() * 1e3;
    note(&format!(
        "{} from {peer} after {millis:.1} ms",
        code_text(head.code)
    ));
    for option in &head.options {
        let value = match option_value(option.number, option.value) {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let meaning = if option.number == OptionNumber::CONTENT_FORMAT {
            head.format().and_then(ContentFormat::media_type)
        } else {
            None
        };
        let meaning = meaning.map(|name| format!(" ({name})")).unwrap_or_default();
        note(&format!("  {}: {value}{meaning}", option.number));
    }
}

/// What a transfer took.
pub(crate) fn end(bytes: u64, copies: u32, retransmissions: u32) {
    let plural = if copies == 1 { "" } else { "s" };
    let again = match retransmissions {
        0 => "none repeated".to_owned(),
        count => format!("{count} of them repetitions"),
    };
    note(&format!(
        "{bytes} bytes; {copies} message{plural} sent, {again}"
    ));
}

/// A response that says no.
pub(crate) fn refusal(uri: &str, head: &Response, text: &[u8]) {
    let why = if is_text(head, text) {
        String::from_utf8_lossy(text)
    } else {
        "".into()
    };
    let why = why.trim();
    let separator = if why.is_empty() { "" } else { ": " };
    note(&format!(
        "carob: {uri} answered {}{separator}{why}",
        code_text(head.code)
    ));
}
