//! The functions, `impl` blocks and structs of a source file, from its tokens.

use core::ops::Range;

use super::rust_source::{Token, code, located_tokens};

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Path of the type whose `impl` block is around it, without parameters; `None` elsewhere.
    pub(super) owner: Option<String>,
    /// Line of `fn`, counted from 1.
    pub(super) line: usize,
    /// Lines from `fn` to the closing brace, both counted.
    pub(super) lines: usize,
    /// Tokens of the body.
    pub(super) body: Range<usize>,
}

/// A struct with named fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Struct {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) fields: usize,
}

/// Code of a file, without the modules that are compiled for tests only. Lines keep their numbers.
pub(super) fn code_without_tests(text: &str) -> String {
    const TESTS: &[&str] = &["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut code = code(text, false);
    let tokens = located_tokens(&code);
    let mut left_out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let begins = TESTS
            .iter()
            .enumerate()
            .all(|(n, word)| tokens.get(at + n).is_some_and(|token| token.text == *word));
        let open = at + TESTS.len() + 1;
        if begins && is(&tokens, open, "{") {
            let close = closing(&tokens, open);
            left_out.push(offset(&code, &tokens[at])..offset(&code, &tokens[close]) + 1);
            at = close;
        }
        at += 1;
    }
    for range in left_out {
        let blank: String = code[range.clone()]
            .chars()
            .map(|c| {
                if c == '\n' {
                    "\n"
                } else {
                    &"    "[..c.len_utf8()]
                }
            })
            .collect();
        code.replace_range(range, &blank);
    }
    code
}

/// Where a token's text lies in the code it was cut from.
fn offset(code: &str, token: &Token<'_>) -> usize {
    token.text.as_ptr().addr() - code.as_ptr().addr()
}

/// Every function with a body, nested ones included.
pub(super) fn functions(tokens: &[Token<'_>]) -> Vec<Function> {
    let blocks = impl_blocks(tokens);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at].text != "fn" || !tokens.get(at + 1).is_some_and(|t| is_name(t.text)) {
            continue;
        }
        let Some(open) = body_after(tokens, at + 2) else {
            continue;
        };
        let close = closing(tokens, open);
        let around = blocks.iter().rfind(|(_, body)| body.contains(&at));
        found.push(Function {
            name: tokens[at + 1].text.to_owned(),
            owner: around.map(|(owner, _)| owner.clone()),
            line: tokens[at].line,
            lines: tokens[close].line - tokens[at].line + 1,
            body: open..close,
        });
    }
    found
}

/// Every struct with named fields.
pub(super) fn structs(tokens: &[Token<'_>]) -> Vec<Struct> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at].text != "struct" || !tokens.get(at + 1).is_some_and(|t| is_name(t.text)) {
            continue;
        }
        if let Some(open) = body_after(tokens, at + 2) {
            found.push(Struct {
                name: tokens[at + 1].text.to_owned(),
                line: tokens[at].line,
                fields: fields(tokens, open..closing(tokens, open)),
            });
        }
    }
    found
}

/// Colons after names at the struct's own depth; those of paths are two in a row.
fn fields(tokens: &[Token<'_>], body: Range<usize>) -> usize {
    let (mut depth, mut angles, mut count) = (0_usize, 0_usize, 0);
    for at in body.start + 1..body.end {
        match tokens[at].text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            "<" => angles += 1,
            ">" if tokens[at - 1].text != "-" => angles = angles.saturating_sub(1),
            ":" if depth == 0 && angles == 0 => {
                let path = tokens[at - 1].text == ":" || is(tokens, at + 1, ":");
                count += usize::from(!path);
            }
            _ => {}
        }
    }
    count
}

/// The path of each `impl` block's type, without parameters, and the block's tokens.
fn impl_blocks(tokens: &[Token<'_>]) -> Vec<(String, Range<usize>)> {
    const BEFORE_AN_ITEM: &[&str] = &["}", ";", "{", "]", "unsafe"];
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let before = at.checked_sub(1).map(|before| tokens[before].text);
        let is_item = before.is_none_or(|before| BEFORE_AN_ITEM.contains(&before));
        if tokens[at].text != "impl" || !is_item {
            continue;
        }
        let (mut angles, mut owner, mut in_bounds) = (0_usize, None, false);
        for next in at + 1..tokens.len() {
            match tokens[next].text {
                "{" => {
                    found.extend(owner.map(|owner| (owner, next..closing(tokens, next))));
                    break;
                }
                "<" => angles += 1,
                ">" if tokens[next - 1].text != "-" => angles = angles.saturating_sub(1),
                "where" => in_bounds = true,
                "for" if angles == 0 && !is(tokens, next + 1, "<") => owner = None,
                name if angles == 0 && !in_bounds && is_name(name) => {
                    let path = owner.take().filter(|_| tokens[next - 1].text == ":");
                    owner = Some(path.map_or(name.to_owned(), |path| path + "::" + name));
                }
                _ => {}
            }
        }
    }
    found
}

/// The `{` that opens a body after a name; `None` for a declaration without one.
fn body_after(tokens: &[Token<'_>], from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "{" if depth == 0 => return Some(at),
            ";" if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The `}` of the `{` at `open`, or the last token of a file that is cut off.
fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len() - 1
}

/// A token that is exactly this text.
pub(super) fn is(tokens: &[Token<'_>], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.text == text)
}

/// An identifier, or a word of the language.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions_of(text: &str) -> Vec<(String, Option<String>, usize)> {
        let code = code_without_tests(text);
        functions(&located_tokens(&code))
            .into_iter()
            .map(|function| (function.name, function.owner, function.lines))
            .collect()
    }

    #[test]
    fn a_function_knows_its_type_and_length() {
        let text = "impl<'a, F: Fn(u8) -> u8> fmt::Display for a::B<'a, F>\nwhere F: Copy\n{\n\
                    fn f(x: [u8; 2]) -> impl Iterator<Item = u8> {\n{ }\n}\n}\nfn g() {}";
        let expected = [
            ("f".to_owned(), Some("a::B".to_owned()), 3),
            ("g".to_owned(), None, 1),
        ];
        assert_eq!(functions_of(text), expected);
    }

    #[test]
    fn functions_without_a_body_and_pointers_to_functions_are_none() {
        assert!(functions_of("trait T { fn f(&self); }\ntype F = fn(u8) -> u8;").is_empty());
    }

    #[test]
    fn tests_are_left_out_and_lines_stay() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\nfn é() { let a = 1; }\n}\nfn g() {}";
        let code = code_without_tests(text);
        let functions = functions(&located_tokens(&code));
        let found: Vec<_> = functions
            .iter()
            .map(|f| (f.name.as_str(), f.line))
            .collect();
        assert_eq!(found, [("f", 1), ("g", 6)]);
    }

    #[test]
    fn fields_are_counted_and_colons_of_paths_and_bounds_are_not() {
        let text = "pub(crate) struct A<T: Copy> {\n a: u8,\n b: Box<dyn Fn(x: u8)>,\n\
                    pub(super) c: std::vec::Vec<[T; 2]>,\n}\nstruct B(u8);\nstruct C;";
        let found = structs(&located_tokens(text));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].fields), ("A", 3));
    }
}
