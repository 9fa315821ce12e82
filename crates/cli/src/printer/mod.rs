//! What people and programs read: bodies and JSON on stdout, everything else on stderr.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use carob::{Code, ContentFormat, OptionNumber, Response};
use carob_proto::codec::OptionFormat;
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::cc::Controller;
use crate::commands::request::is_text;
use crate::failure::Failure;

/// Prints a line on stdout. A reader that has gone away is not told.
fn line(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Prints a line on stderr.
fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints a value as one line of JSON, or several on a terminal.
pub(crate) fn json(value: &impl Serialize) {
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    line(&text.expect("the values printed have text keys and finite numbers"));
}

/// Says what went wrong, and what may help.
pub(crate) fn failure(failure: &Failure) {
    note(&format!("carob: {}", failure.message));
    if let Some(hint) = &failure.hint {
        note(&format!("  hint: {hint}"));
    }
}

/// The same for programs.
pub(crate) fn failure_json(failure: &Failure) {
    json(&json!({ "error": failure.message, "hint": failure.hint }));
}

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
    json(report);
}

/// An option's value as its format has it; bytes in hexadecimal.
fn option_value(number: OptionNumber, value: &[u8]) -> Value {
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

/// A body on a terminal.
pub(crate) fn body(head: &Response, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    if !is_text(head, bytes) {
        let format = head
            .format()
            .map_or_else(|| "binary".to_owned(), |format| format.to_string());
        note(&format!(
            "{} bytes of {format} not shown on a terminal; write them with -o FILE",
            bytes.len()
        ));
        return;
    }
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(bytes);
    if !bytes.ends_with(b"\n") {
        let _ = stdout.write_all(b"\n");
    }
}

/// The answer to a ping.
pub(crate) fn pong(uri: &str, round_trip: Duration, as_json: bool) {
    let millis = round_trip.as_secs_f64() * 1e3;
    if as_json {
        json(&json!({ "uri": uri, "rtt_ms": millis }));
    } else {
        line(&format!("{uri} is there: {millis:.1} ms"));
    }
}

/// Links in the link format, a line each: line breaks are no part of it, and programs that read it
/// pass over them.
pub(crate) fn links<'a>(links: impl Iterator<Item = &'a str>) {
    let all = links.collect::<Vec<_>>().join(",\n");
    if io::stdout().is_terminal() {
        let control = |c: char| c.is_control() && c != '\n';
        line(&all.replace(control, " "));
    } else {
        line(&all);
    }
}

/// A table.
pub(crate) fn table(table: &carob_lab::text::TextTable) {
    let _ = write!(io::stdout().lock(), "{table}");
}

/// The server's ready line.
pub(crate) fn listening(uri: &str, as_json: bool) {
    let mut stdout = io::stdout().lock();
    let _ = if as_json {
        writeln!(stdout, "{}", json!({ "listening": uri }))
    } else {
        writeln!(stdout, "listening on {uri}")
    };
    let _ = stdout.flush();
}

/// A remark of the server's.
pub(crate) fn remark(text: &str) {
    note(&format!("carob: {text}"));
}

/// All controllers, a line each.
pub(crate) fn controllers(all: &[Controller]) {
    let width = all
        .iter()
        .map(|controller| controller.name.len())
        .max()
        .unwrap_or_default();
    for Controller { name, about, .. } in all {
        line(&format!("{name:width$}  {about}"));
    }
}

/// One controller.
pub(crate) fn controller(controller: &Controller) {
    let Controller {
        name,
        about,
        source,
        project_choice,
        suggested,
        constants,
    } = controller;
    line(&format!("{name}: {about}"));
    line(&format!("source: {source}"));
    if *project_choice {
        line("some constants have no source and are this project's choice");
    }
    if let Some(count) = suggested.max_retransmit {
        line(&format!("suggests MAX_RETRANSMIT = {count}"));
    }
    if let Some(cap) = &suggested.rto_max {
        line(&format!("suggests timers of at most {cap}"));
    }
    if constants.is_empty() {
        line("it has no constants besides the transmission parameters");
        return;
    }
    line("constants:");
    let names = constants
        .iter()
        .map(|constant| constant.name.len())
        .max()
        .unwrap_or_default();
    let values = constants
        .iter()
        .map(|constant| constant.value.len())
        .max()
        .unwrap_or_default();
    for constant in constants {
        let (name, value, about) = (constant.name, &constant.value, constant.about);
        line(&format!("  {name:names$}  {value:values$}  {about}"));
        line(&format!(
            "  {:names$}  {:values$}  ({})",
            "", "", constant.kind
        ));
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
