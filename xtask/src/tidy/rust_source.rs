//! Enough of Rust's lexing to tell code from comments and strings, and to read `mod` lines.

/// The code of a file with comments blanked out and strings emptied; lines keep their numbers.
///
/// A string's text stays where `keep_strings` is set, as paths in attributes need it.
pub(super) fn code(text: &str, keep_strings: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = if rest.starts_with(b"//") {
            blank(&mut out, &rest[..line_length(rest)])
        } else if rest.starts_with(b"/*") {
            blank(&mut out, &rest[..block_comment_length(rest)])
        } else if let Some(hashes) = raw_string_hashes(rest, out.last()) {
            string(
                &mut out,
                &rest[..raw_string_length(rest, hashes)],
                keep_strings,
            )
        } else if rest[0] == b'"' {
            string(&mut out, &rest[..string_length(rest)], keep_strings)
        } else if let Some(length) = character_length(rest) {
            blank(&mut out, &rest[..length])
        } else {
            out.push(rest[0]);
            1
        };
        at += length;
    }
    // Only whole characters were blanked or copied, so this loses nothing.
    String::from_utf8_lossy(&out).into_owned()
}

fn blank(out: &mut Vec<u8>, part: &[u8]) -> usize {
    out.extend(
        part.iter()
            .map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }),
    );
    part.len()
}

fn string(out: &mut Vec<u8>, part: &[u8], keep: bool) -> usize {
    if keep {
        out.extend_from_slice(part);
        part.len()
    } else {
        blank(out, part)
    }
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
    let mut found = Vec::new();
    let mut characters = code.char_indices().peekable();
    while let Some((start, character)) = characters.next() {
        if character.is_whitespace() {
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
        found.push(code[start..end].to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

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
