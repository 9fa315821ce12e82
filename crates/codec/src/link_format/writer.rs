//! Writing of links (RFC 6690 2).

use alloc::string::String;
use core::fmt::{Display, Write as _};

use super::Link;
use super::parser::{is_attribute_name, is_target_byte};
use crate::uri::percent::{encode, is_path_byte};

/// Writes links in order, without blanks.
///
/// The output is always valid: targets are percent-encoded and quoted strings escaped where needed.
#[derive(Debug, Default)]
pub struct LinkWriter {
    text: String,
}

/// The link being written; it accepts attributes until the next one begins.
#[derive(Debug)]
pub struct LinkEntry<'w> {
    text: &'w mut String,
}

impl LinkWriter {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a link to a URI reference.
    pub fn link(&mut self, target: &str) -> LinkEntry<'_> {
        self.begin();
        push_encoded(&mut self.text, target.as_bytes(), is_target_byte_ascii);
        self.end()
    }

    /// Begins a link to a path of this server, given by its segments as in Uri-Path options,
    /// unencoded. An empty last segment is a trailing slash.
    pub fn path<S: AsRef<[u8]>>(&mut self, segments: impl IntoIterator<Item = S>) -> LinkEntry<'_> {
        self.begin();
        let mut segments = segments.into_iter().peekable();
        if segments.peek().is_none() {
            self.text.push('/');
        } else if segments.peek().is_some_and(|s| s.as_ref().is_empty()) {
            // Two leading slashes would turn the rest into a host (RFC 3986 4.2).
            self.text.push_str("/.");
        }
        for segment in segments {
            self.text.push('/');
            push_encoded(&mut self.text, segment.as_ref(), is_path_byte);
        }
        self.end()
    }

    /// Adds a parsed link as it was written.
    pub fn copy(&mut self, link: &Link<'_>) {
        self.separate();
        self.text.push_str(link.source());
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }

    fn separate(&mut self) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
    }

    fn begin(&mut self) {
        self.separate();
        self.text.push('<');
    }

    fn end(&mut self) -> LinkEntry<'_> {
        self.text.push('>');
        LinkEntry {
            text: &mut self.text,
        }
    }
}

impl LinkEntry<'_> {
    /// Adds an attribute with a value: in quotes, unless it is a number, as `sz` must be and `ct`
    /// is (RFC 6690 3.3, RFC 7252 7.2.1). A `title` is always in quotes (RFC 6690 2).
    ///
    /// Attributes with an invalid name ([`is_attribute_name`]) are omitted, here and below.
    pub fn attribute(self, name: &str, value: &str) -> Self {
        let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        if digits && !name.eq_ignore_ascii_case("title") {
            return self.push(name, Some(&value));
        }
        let mut quoted = String::with_capacity(value.len() + 2);
        quoted.push('"');
        for char in value.chars() {
            if matches!(char, '"' | '\\') {
                quoted.push('\\');
            }
            quoted.push(char);
        }
        quoted.push('"');
        self.push(name, Some(&quoted))
    }

    /// Adds an attribute whose value is a number, such as `sz`.
    pub fn number(self, name: &str, value: u64) -> Self {
        self.push(name, Some(&value))
    }

    /// Adds an attribute without a value, such as `obs` (RFC 7641 6).
    pub fn flag(self, name: &str) -> Self {
        self.push(name, None)
    }

    fn push(self, name: &str, value: Option<&dyn Display>) -> Self {
        if is_attribute_name(name) {
            let written = match value {
                Some(value) => write!(self.text, ";{name}={value}"),
                None => write!(self.text, ";{name}"),
            };
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
        self
    }
}

/// URI references are ASCII; other characters are percent-encoded as an IRI's are (RFC 3987 3.1).
fn is_target_byte_ascii(byte: u8) -> bool {
    byte.is_ascii() && is_target_byte(byte)
}

fn push_encoded(text: &mut String, bytes: &[u8], allowed: impl Fn(u8) -> bool) {
    let written = encode(text, bytes, allowed);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_separated_and_paths_encoded() {
        let mut writer = LinkWriter::new();
        writer.path([""; 0]);
        writer.path(["a b", "c/d,e>"]).attribute("ct", "40");
        writer.path(["folder", ""]);
        writer.path(["", "x"]);
        assert_eq!(
            writer.finish(),
            "</>,</a%20b/c%2Fd,e%3E>;ct=40,</folder/>,</.//x>"
        );
    }

    #[test]
    fn values_are_quoted_if_required_by_the_grammar() {
        let mut writer = LinkWriter::new();
        writer
            .link("http://example.net/é\"")
            .attribute("title", "7")
            .attribute("rt", "a\"b\\")
            .attribute("ct", "0 40")
            .number("sz", 5)
            .flag("obs");
        assert_eq!(
            writer.finish(),
            "<http://example.net/%C3%A9%22>;title=\"7\";rt=\"a\\\"b\\\\\";ct=\"0 40\";sz=5;obs"
        );
    }

    #[test]
    fn invalid_attribute_names_are_omitted() {
        let mut writer = LinkWriter::new();
        writer
            .link("/")
            .flag("")
            .flag("a b")
            .flag("*")
            .attribute("x*", "y");
        assert_eq!(writer.finish(), "</>;x*=\"y\"");
    }
}
