//! Bodies on a terminal: formatted by their content format, control characters escaped.

use std::borrow::Cow;

use carob::link_format::{Link, Links};
use carob::{ContentFormat, Response};

use super::{cbor, layout, line, note};

/// Larger bodies are not laid out.
const LAID_OUT: usize = 1 << 20;

/// Prints a body on a terminal.
pub(crate) fn body(head: &Response, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    if let Some(text) = shown(head, bytes) {
        return line(text.strip_suffix('\n').unwrap_or(&text));
    }
    let format = head
        .format()
        .map_or_else(|| "binary data".to_owned(), |format| format.to_string());
    note(&format!(
        "{} bytes of {format} not shown: write them with -o FILE, or see them with --raw",
        bytes.len()
    ));
}

/// A body as a terminal shows it, if it can.
pub(super) fn shown<'a>(head: &Response, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    let kind = Kind::of(head.format());
    if kind == Kind::Cbor
        && bytes.len() <= LAID_OUT
        && let Ok(items) = cbor::diagnostic(bytes)
    {
        let items: Vec<_> = items.iter().map(|item| layout::lay_out(item)).collect();
        return Some(items.join("\n").into());
    }
    if !is_text(head, bytes) {
        return None;
    }
    let text = core::str::from_utf8(bytes).ok()?;
    let is_json = |text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    Some(match kind {
        Kind::Json if text.len() <= LAID_OUT && is_json(text) => layout::lay_out(text).into(),
        Kind::Links => links(text).map_or(text.into(), Into::into),
        _ => text.into(),
    })
}

/// The body in one line, for line-based readers; opaque bytes as h'...'.
pub(super) fn in_a_line<'a>(head: &Response, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    if is_text(head, bytes) {
        return bytes.into();
    }
    if Kind::of(head.format()) == Kind::Cbor
        && let Ok(items) = cbor::diagnostic(bytes)
    {
        return items.join(", ").into_bytes().into();
    }
    cbor::byte_string(bytes).into_bytes().into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Cbor,
    Links,
    Other,
}

impl Kind {
    fn of(format: Option<ContentFormat>) -> Self {
        let Some(definition) = format.and_then(ContentFormat::definition) else {
            return Self::Other;
        };
        let media_type = definition.media_type.split(';').next().unwrap_or_default();
        let is = |suffix: &str| {
            media_type
                .strip_prefix("application/")
                .is_some_and(|name| name == suffix || name.ends_with(&format!("+{suffix}")))
        };
        match media_type {
            // Compressed content is neither.
            _ if !definition.coding.is_empty() => Self::Other,
            "application/link-format" => Self::Links,
            "application/cwt"
            | "application/cose"
            | "application/cose-key"
            | "application/cose-key-set"
            | "application/multipart-core" => Self::Cbor,
            _ if is("json") => Self::Json,
            _ if is("cbor") || is("cbor-seq") => Self::Cbor,
            _ => Self::Other,
        }
    }
}

/// Links, a line each; nothing if they are not well-formed.
fn links(text: &str) -> Option<String> {
    let links: Result<Vec<_>, _> = Links::new(text).collect();
    let lines: Vec<_> = links.ok()?.iter().map(Link::source).collect();
    Some(lines.join(",\n"))
}

/// Returns true if a body can be shown on a terminal unchanged.
pub(super) fn is_text(head: &Response, bytes: &[u8]) -> bool {
    let control = |c: char| carob_proto::is_unprintable(c) && !matches!(c, '\n' | '\r' | '\t');
    let media_type = head.format().and_then(ContentFormat::media_type);
    let binary =
        media_type.is_some_and(|name| name.starts_with("image/") && !name.ends_with("xml"));
    !binary && core::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(control))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob::Code;

    fn plain(format: Option<ContentFormat>, bytes: &[u8]) -> Option<String> {
        let mut head = Response::new(Code::CONTENT);
        if let Some(format) = format {
            head = head.with_format(format);
        }
        let text = shown(&head, bytes)?;
        Some(anstream::adapter::strip_str(&text).to_string())
    }

    #[test]
    fn json_and_cbor_are_laid_out_by_their_format() {
        let json = br#"{"a":1}"#;
        for format in [
            ContentFormat::JSON,
            ContentFormat::SENML_JSON,
            ContentFormat::TD_JSON,
        ] {
            assert_eq!(plain(Some(format), json).as_deref(), Some(r#"{"a": 1}"#));
        }
        let cbor = b"\xa1\x61a\x01";
        for format in [
            ContentFormat::CBOR,
            ContentFormat::SENML_CBOR,
            ContentFormat::CBOR_SEQ,
        ] {
            assert_eq!(plain(Some(format), cbor).as_deref(), Some(r#"{"a": 1}"#));
        }
        assert_eq!(
            plain(None, json).as_deref(),
            Some(r#"{"a":1}"#),
            "it may be anything"
        );
    }

    #[test]
    fn body_that_does_not_match_its_format_is_shown_raw() {
        assert_eq!(
            plain(Some(ContentFormat::JSON), b"{\"a\":").as_deref(),
            Some("{\"a\":")
        );
        assert_eq!(plain(Some(ContentFormat::CBOR), b"\xa1\x61"), None);
        assert_eq!(
            plain(Some(ContentFormat::CBOR_DEFLATE), b"\xa1\x61a\x01"),
            None
        );
        assert_eq!(plain(Some(ContentFormat::TEXT_PLAIN), b"\x1b[2J"), None);
    }

    #[test]
    fn links_have_a_line_each() {
        let text = plain(
            Some(ContentFormat::LINK_FORMAT),
            b"</a>;title=\"x,y\",</b>;obs",
        );
        assert_eq!(text.as_deref(), Some("</a>;title=\"x,y\",\n</b>;obs"));
    }

    #[test]
    fn in_a_line_formats_bodies_on_one_line() {
        let mut head = Response::new(Code::CONTENT);
        assert_eq!(*in_a_line(&head, b"text"), *b"text");
        assert_eq!(*in_a_line(&head, &[0xff, 0]), *b"h'ff00'");
        head = head.with_format(ContentFormat::CBOR);
        assert_eq!(*in_a_line(&head, b"\xa1\x61a\x01"), *br#"{"a": 1}"#);
    }
}
