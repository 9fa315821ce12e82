//! Enough of Rust's lexing to tell code from comments and strings, and to read `mod` lines.

/// A kind of text in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    Comment,
    Text,
    Character,
}

/// The file cut into code, comments, string literals and character literals, in order and without gaps.
pub(super) fn pieces(text: &str) -> Vec<(Kind, &str)> {
    let bytes = text.as_bytes();
    let mut found: Vec<(Kind, &str)> = Vec::new();
    let (mut at, mut code_from) = (0, 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let before = at.checked_sub(1).map(|last| &bytes[last]);
        let (kind, length) = if rest.starts_with(b"//") {
            (Kind::Comment, line_length(rest))
        } else if rest.starts_with(b"/*") {
            (Kind::Comment, block_comment_length(rest))
        } else if let Some(hashes) = raw_string_hashes(rest, before) {
            (Kind::Text, raw_string_length(rest, hashes))
        } else if rest[0] == b'"' {
            (Kind::Text, string_length(rest))
        } else if let Some(length) = character_length(rest) {
            (Kind::Character, length)
        } else {
            at += 1;
            continue;
        };
        if code_from < at {
            found.push((Kind::Code, &text[code_from..at]));
        }
        found.push((kind, &text[at..at + length]));
        at += length;
        code_from = at;
    }
    if code_from < text.len() {
        found.push((Kind::Code, &text[code_from..]));
    }
    found
}

/// The code of a file with comments blanked out and strings emptied; lines keep their numbers.
///
/// String literals stay where `keep_strings` is set, as paths in attributes need it.
pub(super) fn code(text: &str, keep_strings: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (kind, piece) in pieces(text) {
        if kind == Kind::Code || (kind == Kind::Text && keep_strings) {
            out.push_str(piece);
        } else {
            out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
    }
    out
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(rest.len())
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The number of `#` of a raw string that begins here, if one does.
fn raw_string_hashes(rest: &[u8], before: Option<&u8>) -> Option<usize> {
    let inside_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if rest[0] != b'r' || (inside_word && before != Some(&b'b')) {
        return None;
    }
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    (rest.get(1 + hashes) == Some(&b'"')).then_some(hashes)
}

fn raw_string_length(rest: &[u8], hashes: usize) -> usize {
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    let found = rest[body..]
        .windows(end.len())
        .position(|window| window == end);
    found.map_or(rest.len(), |position| body + position + end.len())
}

/// The length of a character literal; `None` for a lifetime or anything else.
fn character_length(rest: &[u8]) -> Option<usize> {
    if rest[0] != b'\'' {
        return None;
    }
    if rest.get(1) == Some(&b'\\') {
        let close = rest.iter().skip(3).position(|byte| *byte == b'\'')?;
        return Some(3 + close + 1);
    }
    // One character of one to four bytes, then the closing quote.
    (2..=5)
        .find(|at| rest.get(*at) == Some(&b'\''))
        .filter(|at| {
            core::str::from_utf8(&rest[1..*at]).is_ok_and(|inside| inside.chars().count() == 1)
        })
        .map(|at| at + 1)
}

/// A `mod name;` in a file: its name, the inline modules around it, and its `#[path]`, if any.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Declaration {
    pub(super) name: String,
    pub(super) inside: Vec<String>,
    pub(super) path: Option<String>,
}

/// Every `mod name;` of a file, and every `include!("file")` as a declaration with a path.
pub(super) fn declarations(text: &str) -> Vec<Declaration> {
    let tokens = tokens(&code(text, true));
    let mut found = Vec::new();
    let mut inside: Vec<(String, usize)> = Vec::new();
    let mut depth = 0_usize;
    let mut path = None;
    for (at, token) in tokens.iter().enumerate() {
        let next = |n: usize| tokens.get(at + n).map(String::as_str);
        match token.as_str() {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                inside.retain(|(_, opened)| *opened < depth + 1);
            }
            "path" if next(1) == Some("=") => path = next(2).and_then(unquoted),
            "include" if next(1) == Some("!") => {
                if let Some(file) = next(3).and_then(unquoted) {
                    found.push(Declaration {
                        name: String::new(),
                        inside: vec![],
                        path: Some(file),
                    });
                }
            }
            "mod" => {
                let Some(name) = next(1) else { continue };
                let names = || inside.iter().map(|(name, _)| name.clone()).collect();
                match next(2) {
                    Some(";") => found.push(Declaration {
                        name: name.to_owned(),
                        inside: names(),
                        path: path.take(),
                    }),
                    Some("{") => inside.push((name.to_owned(), depth + 1)),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    found
}

fn unquoted(token: &str) -> Option<String> {
    token
        .strip_prefix('"')?
        .strip_suffix('"')
        .map(str::to_owned)
}

/// Words, strings and single punctuation marks, in order.
pub(super) fn tokens(code: &str) -> Vec<String> {
    let located = located_tokens(code).into_iter();
    located.map(|token| token.text.to_owned()).collect()
}

/// A token and its line, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
}

/// The [`tokens`] with their lines.
pub(super) fn located_tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut characters = code.char_indices().peekable();
    while let Some((start, character)) = characters.next() {
        if character.is_whitespace() {
            line += usize::from(character == '\n');
            continue;
        }
        let mut end = start + character.len_utf8();
        if character == '"' {
            end = start + string_length(&code.as_bytes()[start..]);
            while characters.next_if(|(at, _)| *at < end).is_some() {}
        } else if character.is_alphanumeric() || character == '_' {
            while let Some((at, more)) =
                characters.next_if(|(_, c)| c.is_alphanumeric() || *c == '_')
            {
                end = at + more.len_utf8();
            }
        }
        let text = &code[start..end];
        found.push(Token { text, line });
        line += text.matches('\n').count();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{
        Kind::{Character, Code, Comment, Text},
        *,
    };

    #[test]
    fn comments_strings_and_characters_are_no_code() {
        let text = "a /* b /* c */ d */ e // f\n\"g \\\" h\" r#\"i \" j\"# '\"' k '\\'' l";
        let code = code(text, false);
        let words: Vec<_> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "e", "k", "l"]);
        assert_eq!(code.lines().count(), 2);
    }

    #[test]
    fn a_lifetime_is_not_a_character() {
        assert_eq!(
            code("fn f<'a>(x: &'a str, y: &'a str) {}", false),
            "fn f<'a>(x: &'a str, y: &'a str) {}"
        );
    }

    #[test]
    fn a_token_knows_its_line() {
        let code = "a\n\n\"b\nc\" d";
        let lines: Vec<_> = located_tokens(code).iter().map(|t| t.line).collect();
        assert_eq!(lines, [1, 3, 4]);
    }

    #[test]
    fn the_pieces_make_up_the_file() {
        let text = "fn é() { /* a */ \"b\" 'c' } // d";
        let whole: String = pieces(text).iter().map(|(_, piece)| *piece).collect();
        assert_eq!(whole, text);
        let kinds: Vec<_> = pieces(text).iter().map(|(kind, _)| *kind).collect();
        let expected = [Code, Comment, Code, Text, Code, Character, Code, Comment];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_declaration_knows_the_inline_modules_around_it() {
        let text = "mod a;\n// mod no;\nmod b { mod c; fn f() { } mod d { } }\npub(crate) mod e;";
        let found: Vec<_> = declarations(text)
            .into_iter()
            .map(|d| (d.inside.join("/"), d.name))
            .collect();
        let expected = [("", "a"), ("b", "c"), ("", "e")];
        assert_eq!(found, expected.map(|(i, n)| (i.to_owned(), n.to_owned())));
    }

    #[test]
    fn a_path_attribute_belongs_to_the_module_after_it() {
        let found = declarations("#[path = \"other/x.rs\"]\nmod a;\nmod b;");
        assert_eq!(found[0].path.as_deref(), Some("other/x.rs"));
        assert_eq!(found[1].path, None);
    }
}
