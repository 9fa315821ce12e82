//! Parsing of links (RFC 6690 2).
//!
//! Blanks and line breaks around `,` and `;` are skipped: the examples of RFC 6690 have them, and
//! so has the `Link` header it derives from (RFC 5988 5). Other deviations from the grammar are
//! errors, except that quotes may enclose any text.

use core::fmt;

use super::link::{Attribute, Link, Value};

/// The expected element at a position of link-format text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expected {
    /// UTF-8.
    Utf8,
    /// The `<` that begins a link.
    Target,
    /// A character permitted in a URI, or the `>` that ends it.
    TargetEnd,
    /// `;` before an attribute, `,` before the next link, or the end.
    Separator,
    /// The name of an attribute.
    Name,
    /// The value of an attribute: a token or a quoted string.
    Value,
    /// The quote that ends a quoted string.
    Quote,
}

/// A syntax error in link-format text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LinkError {
    /// The expected element.
    pub expected: Expected,
    /// The offset of the unexpected text, in bytes.
    pub offset: usize,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.expected {
            Expected::Utf8 => "UTF-8",
            Expected::Target => "a link that begins with \"<\"",
            Expected::TargetEnd => "\">\" or a character of a URI",
            Expected::Separator => "\";\", \",\" or the end",
            Expected::Name => "the name of an attribute",
            Expected::Value => "a value, in quotes if it has blanks, commas or semicolons",
            Expected::Quote => "a closing quote",
        };
        write!(f, "expected {what} at byte {}", self.offset)
    }
}

impl core::error::Error for LinkError {}

/// The links of a text, in order. An error is the last item.
#[derive(Clone, Debug)]
pub struct Links<'a> {
    cursor: Cursor<'a>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing parsed yet: the text may be empty.
    Begin,
    /// After a comma: a link must follow.
    Comma,
    End,
}

impl<'a> Links<'a> {
    /// Parses text.
    pub fn new(text: &'a str) -> Self {
        Self {
            cursor: Cursor { text, at: 0 },
            state: State::Begin,
        }
    }

    /// Parses the body of a message, which must be UTF-8 (RFC 6690 2).
    ///
    /// # Errors
    ///
    /// [`LinkError`] with the position of the first byte that is not UTF-8.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, LinkError> {
        match core::str::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(text)),
            Err(error) => Err(LinkError {
                expected: Expected::Utf8,
                offset: error.valid_up_to(),
            }),
        }
    }

    fn read(&mut self) -> Result<Option<Link<'a>>, LinkError> {
        let cursor = &mut self.cursor;
        cursor.skip_blanks();
        if cursor.peek().is_none() && self.state == State::Begin {
            self.state = State::End;
            return Ok(None);
        }
        let begin = cursor.at;
        cursor.take(b'<', Expected::Target)?;
        let target = cursor.take_while(is_target_byte);
        cursor.take(b'>', Expected::TargetEnd)?;
        let attributes = cursor.at;
        let mut end = cursor.at;
        loop {
            cursor.skip_blanks();
            match cursor.peek() {
                Some(b';') => {
                    cursor.attribute()?;
                    end = cursor.at;
                }
                Some(b',') => {
                    cursor.at += 1;
                    self.state = State::Comma;
                    break;
                }
                None => {
                    self.state = State::End;
                    break;
                }
                Some(_) => return Err(cursor.missing(Expected::Separator)),
            }
        }
        Ok(Some(Link {
            source: cursor.slice(begin, end),
            target,
            attributes: cursor.slice(attributes, end),
        }))
    }
}

impl<'a> Iterator for Links<'a> {
    type Item = Result<Link<'a>, LinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::End {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.state = State::End;
        }
        read.transpose()
    }
}

impl core::iter::FusedIterator for Links<'_> {}

/// A position in a text, always between characters. It advances over ASCII one by one, and over
/// other text up to the next ASCII character.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn slice(&self, begin: usize, end: usize) -> &'a str {
        self.text.get(begin..end).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn missing(&self, expected: Expected) -> LinkError {
        LinkError {
            expected,
            offset: self.at,
        }
    }

    fn take(&mut self, byte: u8, expected: Expected) -> Result<(), LinkError> {
        if self.peek() != Some(byte) {
            return Err(self.missing(expected));
        }
        self.at += 1;
        Ok(())
    }

    fn take_while(&mut self, allowed: impl Fn(u8) -> bool) -> &'a str {
        let begin = self.at;
        while self.peek().is_some_and(&allowed) {
            self.at += 1;
        }
        self.slice(begin, self.at)
    }

    pub(super) fn skip_blanks(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    }

    /// Parses `;name`, `;name=token` or `;name="quoted"`.
    pub(super) fn attribute(&mut self) -> Result<Attribute<'a>, LinkError> {
        self.take(b';', Expected::Separator)?;
        self.skip_blanks();
        let begin = self.at;
        self.take_while(is_name_byte);
        if self.at == begin {
            return Err(self.missing(Expected::Name));
        }
        if self.peek() == Some(b'*') {
            self.at += 1;
        }
        let name = self.slice(begin, self.at);
        if self.peek() != Some(b'=') {
            return Ok(Attribute { name, value: None });
        }
        self.at += 1;
        let text = if self.peek() == Some(b'"') {
            self.at += 1;
            self.quoted()?
        } else {
            let token = self.take_while(is_token_byte);
            if token.is_empty() {
                return Err(self.missing(Expected::Value));
            }
            token
        };
        Ok(Attribute {
            name,
            value: Some(Value(text)),
        })
    }

    /// The rest of a quoted string, with its escapes.
    fn quoted(&mut self) -> Result<&'a str, LinkError> {
        let begin = self.at;
        loop {
            match self.peek() {
                Some(b'"') => break,
                // The next byte may begin a longer character, whose other bytes are neither quote
                // nor backslash.
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => {
                    self.at = self.text.len();
                    return Err(self.missing(Expected::Quote));
                }
            }
        }
        let text = self.slice(begin, self.at);
        self.at += 1;
        Ok(text)
    }
}

/// The bytes accepted in a target: a URI's and a few more, but none that suggests a missing
/// `>`.
pub(super) fn is_target_byte(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f && !matches!(byte, b'<' | b'>' | b'"')
}

/// `attr-char` of RFC 5987 3.2.1, the characters of names.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte)
}

/// `ptokenchar` of RFC 6690 2, the characters of unquoted values.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

/// Returns whether a text can be an attribute name: `parmname`, or `ext-name-star` with its final
/// `*` (RFC 6690 2).
pub fn is_attribute_name(name: &str) -> bool {
    let stem = name.strip_suffix('*').unwrap_or(name);
    !stem.is_empty() && stem.bytes().all(is_name_byte)
}
