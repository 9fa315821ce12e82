//! Size of the engine's interface: the public items of `carob-proto`.
//!
//! Counted are structs, enums, traits, functions, methods, constants and type aliases that are `pub`
//! without a restriction; rustc's `unreachable_pub`, an error in CI, ensures that each is reachable
//! from outside. Fields, variants, modules, re-exports and the rows of a macro's table (option
//! numbers, codes, limits) are not counted. Neither are test modules, and modules that `lib.rs` marks
//! `#[doc(hidden)]` or compiles for fuzzing only.

use super::{
    Finding,
    items::{code_without_tests, is},
    rust_source::{Token, code, located_tokens},
    tree::Tree,
};

const SOURCES: &str = "crates/proto/src/";

/// Public items. The number can only shrink, except by the types of a new protocol feature.
const ITEMS: usize = 329;

/// Words that may stand between `pub` and the kind of the item.
const QUALIFIERS: &[&str] = &["async", "unsafe", "extern"];
const KINDS: &[&str] = &[
    "const", "enum", "fn", "static", "struct", "trait", "type", "union",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, ITEMS)
}

fn check_against(tree: &Tree, allowed: usize) -> Vec<Finding> {
    let hidden = hidden_modules(tree);
    let is_hidden = |path: &str| {
        let path = path.trim_start_matches(SOURCES);
        let module = path.split(['/', '.']).next();
        module.is_some_and(|module| hidden.iter().any(|name| name == module))
    };
    let files = tree.texts_of("rs");
    let files = files.filter(|(path, _)| path.starts_with(SOURCES) && !is_hidden(path));
    let count = files.map(|(_, text)| public_items(text)).sum::<usize>();
    let message = match count {
        _ if count > allowed => format!(
            "{count} public items, {allowed} allowed: make helpers `pub(crate)`, and leave out \
             accessors that repeat another"
        ),
        _ if count < allowed => format!("{count} public items, {allowed} allowed: lower it"),
        _ => return Vec::new(),
    };
    vec![Finding::in_file("xtask/src/tidy/interface.rs", message)]
}

/// Modules at the crate's root that are no part of its documented interface.
fn hidden_modules(tree: &Tree) -> Vec<String> {
    const NOT_PUBLIC: &[&str] = &["hidden", "fuzzing"];
    let path = format!("{SOURCES}lib.rs");
    let root = tree.texts_of("rs").find(|(known, _)| *known == path);
    let code = code(root.map_or("", |(_, text)| text), false);
    let tokens = located_tokens(&code);
    let mut hidden = Vec::new();
    let mut attributes_hide = false;
    for at in 0..tokens.len() {
        match tokens[at].text {
            word if NOT_PUBLIC.contains(&word) && !is(&tokens, at + 1, ";") => {
                attributes_hide = true;
            }
            ";" => attributes_hide = false,
            "mod" if attributes_hide => {
                hidden.extend(tokens.get(at + 1).map(|name| name.text.to_owned()));
            }
            _ => {}
        }
    }
    hidden
}

fn public_items(text: &str) -> usize {
    let code = code_without_tests(text);
    let tokens = located_tokens(&code);
    let is_item = |at: &usize| {
        let mut next = tokens[*at + 1..].iter().map(|token: &Token<'_>| token.text);
        let kind = next.find(|word| !QUALIFIERS.contains(word));
        tokens[*at].text == "pub" && kind.is_some_and(|kind| KINDS.contains(&kind))
    };
    (0..tokens.len()).filter(is_item).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: (&str, &str) = (
        "crates/proto/src/lib.rs",
        "pub mod a;\n#[doc(hidden)]\npub mod b;\n#[cfg(any(test, fuzzing))]\npub mod fuzzing;\n",
    );

    fn count(text: &str) -> usize {
        public_items(text)
    }

    #[test]
    fn items_count_without_fields_modules_and_restricted_ones() {
        let text = "pub struct A { pub a: u8 }\nimpl A {\n pub const fn f() {}\n pub const C: u8 = 1;\n\
                    pub unsafe fn g() {}\n pub(crate) fn h() {}\n fn i() {}\n}\npub mod m;\npub use m::B;\n\
                    // pub fn j() {}\n#[cfg(test)]\nmod tests {\n pub fn k() {}\n}";
        assert_eq!(count(text), 4);
    }

    #[test]
    fn hidden_modules_do_not_count() {
        let item = "pub fn f() {}";
        let tree = Tree::of(&[
            LIB,
            ("crates/proto/src/a.rs", item),
            ("crates/proto/src/b/c.rs", item),
            ("crates/proto/src/fuzzing/d.rs", item),
            ("crates/cc/src/e.rs", item),
        ]);
        assert_eq!(hidden_modules(&tree), ["b", "fuzzing"]);
        assert!(check_against(&tree, 1).is_empty());
    }

    #[test]
    fn a_larger_interface_fails_and_a_smaller_one_lowers_the_number() {
        let tree = Tree::of(&[
            LIB,
            ("crates/proto/src/a.rs", "pub fn f() {}\npub fn g() {}"),
        ]);
        let message = |allowed| check_against(&tree, allowed)[0].message.clone();
        assert!(message(1).starts_with("2 public items, 1 allowed: make"));
        assert!(message(3).ends_with("lower it"));
    }
}
