//! Text of a peer, escaped for a terminal or a log.

use core::fmt::{self, Write as _};

/// Bytes that should be text, such as a diagnostic payload (RFC 7252 5.5.2), without loss and
/// without a character that a terminal obeys.
///
/// Control characters and those that change the direction of text are written as `\n`, `\0` or
/// `\u{1b}`, bytes that are not UTF-8 as `\xf6`, and a backslash as `\\`.
///
/// ```
/// use carob_proto::Escaped;
///
/// let text = |bytes: &'static [u8]| Escaped(bytes).to_string();
/// assert_eq!(text(b"no such sensor\0"), r"no such sensor\0");
/// assert_eq!(text(b"bad \x1b[31mvalue"), r"bad \u{1b}[31mvalue");
/// assert_eq!(text(b"Gr\xf6\xdfe, C:\\"), r"Gr\xf6\xdfe, C:\\");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for char in chunk.valid().chars() {
                match char {
                    '\0' => f.write_str("\\0")?,
                    '\\' => f.write_str("\\\\")?,
                    char if is_unprintable(char) => write!(f, "{}", char.escape_default())?,
                    char => f.write_char(char)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Returns whether a character could change what else a terminal shows: control characters, and those
/// that change the direction of text (Unicode `Bidi_Control`).
pub fn is_unprintable(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn escaped_texts_differ_where_their_bytes_do() {
        let texts: [&[u8]; 8] = [
            b"a\xff",
            b"a\\xff",
            b"a\0",
            b"a\\0",
            b"a\n",
            b"a\\n",
            "a\u{202e}".as_bytes(),
            "\u{fc}".as_bytes(),
        ];
        let mut shown: alloc::vec::Vec<_> = texts.map(|text| Escaped(text).to_string()).into();
        assert_eq!(shown[7], "\u{fc}");
        assert!(shown.iter().all(|text| !text.contains(is_unprintable)));
        shown.sort();
        shown.dedup();
        assert_eq!(shown.len(), texts.len());
    }
}
