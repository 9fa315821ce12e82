//! A response as people and as programs read it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use carob::{Code, OptionNumber, Response};
use carob_proto::Escaped;
use carob_proto::codec::OptionFormat;
use serde::Serialize;
use serde_json::{Value, json};

use super::body::is_text;
use super::style::{BAD, GOOD, STRONG, paint};
use super::{Timing, line, note};

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

/// A response as the machine interface has it.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    code: String,
    name: Option<&'static str>,
    options: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    /// `utf8` or `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    /// Where the payload was written instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    bytes: u64,
    peer: String,
}

/// Result of a request as the machine interface has it.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) uri: &'a str,
    #[serde(flatten)]
    pub(crate) answer: Answer,
    /// From the request to the head of the response.
    pub(crate) rtt_ms: f64,
    pub(crate) attempts: u32,
    pub(crate) retransmissions: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timing: Option<Timing>,
}

/// Result of a request without a response, as its No-Response option requested.
#[derive(Debug, Serialize)]
pub(crate) struct Silence<'a> {
    pub(crate) uri: &'a str,
    /// Always true; a response has a code.
    pub(crate) unanswered: bool,
    pub(crate) peer: String,
    /// From the request to its end.
    pub(crate) after_ms: f64,
    pub(crate) attempts: u32,
    pub(crate) retransmissions: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timing: Option<Timing>,
}

impl Answer {
    pub(crate) fn new(head: &Response, peer: SocketAddr) -> Self {
        let options = head.options.iter().map(|option| {
            let number = option.number;
            json!({
                "number": number.0,
                "name": number.name(),
                "value": option_value(number, option.value),
            })
        });
        Self {
            code: head.code.to_string(),
            name: head.code.name(),
            options: options.collect(),
            payload: None,
            encoding: None,
            file: None,
            bytes: 0,
            peer: peer.to_string(),
        }
    }

    /// The same with its body.
    pub(crate) fn with_payload(mut self, bytes: &[u8]) -> Self {
        self.bytes = bytes.len() as u64;
        let (text, encoding) = match core::str::from_utf8(bytes) {
            Ok(text) => (text.to_owned(), "utf8"),
            Err(_) => (base64(bytes), "base64"),
        };
        (self.payload, self.encoding) = (Some(text), Some(encoding));
        self
    }

    /// The same with where its body is.
    pub(crate) fn with_file(mut self, file: &Path, bytes: u64) -> Self {
        self.bytes = bytes;
        self.file = Some(file.display().to_string());
        self
    }
}

/// An option's value as its format has it; bytes in hexadecimal, and text that is not UTF-8 as an
/// object with them.
pub(super) fn option_value(number: OptionNumber, value: &[u8]) -> Value {
    let hex = || {
        value.iter().fold(String::new(), |mut text, byte| {
            let written = write!(text, "{byte:02x}");
            debug_assert!(written.is_ok(), "writing to a string does not fail");
            text
        })
    };
    match number.definition().map(|definition| definition.format) {
        Some(OptionFormat::Empty) => Value::Null,
        Some(OptionFormat::Uint) if value.len() <= 8 => value
            .iter()
            .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
            .into(),
        Some(OptionFormat::String) => match core::str::from_utf8(value) {
            Ok(text) => text.into(),
            Err(_) => json!({ "hex": hex() }),
        },
        _ => hex().into(),
    }
}

/// An option's value on a line, with nothing in it that a terminal obeys.
pub(super) fn option_text(number: OptionNumber, value: &[u8]) -> String {
    let format = number.definition().map(|definition| definition.format);
    let is_text = format == Some(OptionFormat::String);
    match option_value(number, value) {
        Value::String(text) if is_text => Escaped(text.as_bytes()).to_string(),
        Value::Object(_) => Escaped(value).to_string(),
        Value::String(hex) => hex,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// RFC 4648 base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let padded = [
            chunk[0],
            *chunk.get(1).unwrap_or(&0),
            *chunk.get(2).unwrap_or(&0),
        ];
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for place in 0..4 {
            if place > chunk.len() {
                text.push('=');
            } else {
                let index = (bits >> (18 - 6 * place)) & 0x3f;
                text.push(ALPHABET[index as usize].into());
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_vectors_of_rfc_4648() {
        let of = |text: &str| base64(text.as_bytes());
        let all = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(of);
        assert_eq!(
            all,
            [
                "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"
            ]
        );
    }
}
