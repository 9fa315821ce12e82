//! JSON, and CBOR's diagnostic notation, laid out in lines and painted.
//!
//! What fits a line stays on it; the rest is broken after each member. The text itself is not
//! touched: numbers, the order of members and repeated ones stay as they came.

use anstyle::Style;

use super::style::{KEY, NUMBER, STRING, WORD, paint};

/// Columns of a line.
const WIDTH: usize = 80;
const INDENT: usize = 2;
/// Deeper members are not indented further.
const DEPTH: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A bracket, with what belongs to it: `[`, `{_`, `24(`.
    Open(&'a str),
    Close(&'a str),
    Comma,
    Colon,
    String(&'a str),
    /// Numbers, words, byte strings.
    Atom(&'a str),
}

impl Token<'_> {
    /// Columns on a line with others.
    fn width(self) -> usize {
        match self {
            Self::Comma | Self::Colon => 2,
            Self::Open(text) if text.ends_with('_') => text.len() + 1,
            Self::Open(text) | Self::Close(text) => text.len(),
            Self::String(text) | Self::Atom(text) => text.chars().count(),
        }
    }
}

/// Lays out one well-formed value.
pub(super) fn lay_out(text: &str) -> String {
    let tokens = tokens(text);
    let widths = group_widths(&tokens);
    let mut page = Page::default();
    // For each open group, true if its members are on separate lines.
    let mut broken = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        match *token {
            Token::Open(bracket) => {
                // A comma may follow.
                let fits = page.column + widths[place] < WIDTH;
                let members = tokens.get(place + 1);
                let empty = matches!(members, Some(Token::Close(_)));
                broken.push(!fits && !empty);
                page.add(None, bracket);
                if !fits && !empty {
                    page.new_line(broken.len());
                } else if bracket.ends_with('_') {
                    page.add(None, " ");
                }
            }
            Token::Close(bracket) => {
                if broken.pop() == Some(true) {
                    page.new_line(broken.len());
                }
                page.add(None, bracket);
            }
            Token::Comma => {
                page.add(None, ",");
                if broken.last() == Some(&true) {
                    page.new_line(broken.len());
                } else {
                    page.add(None, " ");
                }
            }
            Token::Colon => page.add(None, ": "),
            Token::String(text) | Token::Atom(text) => {
                let style = if tokens.get(place + 1) == Some(&Token::Colon) {
                    KEY
                } else if matches!(token, Token::String(_)) || text.starts_with("h'") {
                    STRING
                } else if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
                    NUMBER
                } else {
                    WORD
                };
                page.add(Some(style), text);
            }
        }
    }
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    column: usize,
}

impl Page {
    fn add(&mut self, style: Option<Style>, text: &str) {
        match style {
            Some(style) => self.text.push_str(&paint(style, text)),
            None => self.text.push_str(text),
        }
        self.column += text.chars().count();
    }

    fn new_line(&mut self, depth: usize) {
        self.column = depth.min(DEPTH) * INDENT;
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n(' ', self.column));
    }
}

fn tokens<'a>(text: &'a str) -> Vec<Token<'a>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (length, token): (usize, fn(&'a str) -> Token<'a>) = match first {
            '[' | '{' | '(' => {
                let length = if rest[1..].starts_with('_') { 2 } else { 1 };
                (length, Token::Open)
            }
            ']' | '}' | ')' => (1, Token::Close),
            ',' => (1, |_| Token::Comma),
            ':' => (1, |_| Token::Colon),
            '"' => (string_length(rest), Token::String),
            _ => {
                let ends = |c: char| c.is_whitespace() || "[]{}(),:\"".contains(c);
                match rest.find(ends).unwrap_or(rest.len()) {
                    // A tag, or simple(16).
                    length if rest[length..].starts_with('(') => (length + 1, Token::Open),
                    length => (length, Token::Atom),
                }
            }
        };
        let (text, after) = rest.split_at(length);
        tokens.push(token(text));
        rest = after.trim_start();
    }
    tokens
}

/// Bytes of the string at the beginning, with its quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Widths in columns of each bracket's group on one line.
fn group_widths(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut widths = vec![0; tokens.len()];
    let (mut column, mut open) = (0, Vec::new());
    for (place, token) in tokens.iter().enumerate() {
        if let Token::Open(_) = token {
            open.push((place, column));
        }
        column += token.width();
        if let Token::Close(_) = token
            && let Some((place, start)) = open.pop()
        {
            widths[place] = column - start;
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(&lay_out(text)).to_string()
    }

    #[test]
    fn short_values_stay_on_one_line() {
        assert_eq!(
            plain(r#"{"b":[1,2.50,1e3],"a":"x, y:\"]"}"#),
            r#"{"b": [1, 2.50, 1e3], "a": "x, y:\"]"}"#
        );
        assert_eq!(plain("[ ]"), "[]");
        assert_eq!(
            plain("[_ 1, 24(h'00'), simple(3)]"),
            "[_ 1, 24(h'00'), simple(3)]"
        );
    }

    #[test]
    fn long_values_are_broken_after_each_member() {
        let long = format!(r#"[{{"name":"{}","values":[1,2,3]}},{{}}]"#, "n".repeat(60));
        let expected = format!(
            "[\n  {{\n    \"name\": \"{}\",\n    \"values\": [1, 2, 3]\n  }},\n  {{}}\n]",
            "n".repeat(60)
        );
        assert_eq!(plain(&long), expected);
    }

    #[test]
    fn a_line_is_filled_to_the_last_column_but_one() {
        // Brackets and quotes are four; a comma might follow.
        let fits = format!("[\"{}\"]", "x".repeat(WIDTH - 5));
        assert_eq!(plain(&fits).lines().count(), 1);
        let long = format!("[\"{}\"]", "x".repeat(WIDTH - 4));
        assert_eq!(plain(&long).lines().count(), 3);
    }

    #[test]
    fn great_depth_costs_no_more_than_its_length() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(plain(&deep).len() < 20_000 * (2 * DEPTH + 2));
    }

    #[test]
    fn members_names_are_painted_unlike_strings() {
        let text = lay_out(r#"{"a":"a"}"#);
        assert!(text.contains(&paint(KEY, "\"a\"")) && text.contains(&paint(STRING, "\"a\"")));
    }
}
