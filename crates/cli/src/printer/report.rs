//! A response as programs read it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use carob::{OptionNumber, Response};
use carob_proto::codec::OptionFormat;
use serde::Serialize;
use serde_json::{Value, json};

/// A response as the machine interface has it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
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
    pub(crate) file: Option<String>,
    pub(crate) bytes: u64,
    peer: String,
    rtt_ms: f64,
    attempts: u32,
    retransmissions: u32,
}

impl Report {
    pub(crate) fn new(head: &Response, peer: SocketAddr, after: Duration) -> Self {
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
            rtt_ms: after.as_secs_f64() * 1e3,
            attempts: 0,
            retransmissions: 0,
        }
    }

    pub(crate) fn payload(&mut self, bytes: &[u8]) {
        self.bytes = bytes.len() as u64;
        let (text, encoding) = match core::str::from_utf8(bytes) {
            Ok(text) => (text.to_owned(), "utf8"),
            Err(_) => (base64(bytes), "base64"),
        };
        (self.payload, self.encoding) = (Some(text), Some(encoding));
    }

    /// Copies of messages sent, the repeated ones among them.
    pub(crate) fn copies(&mut self, all: u32, retransmissions: u32) {
        (self.attempts, self.retransmissions) = (all, retransmissions);
    }
}

pub(crate) fn report(report: &Report) {
    super::json(report);
}

/// An option's value as its format has it; bytes in hexadecimal.
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
            Err(_) => hex().into(),
        },
        _ => hex().into(),
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
