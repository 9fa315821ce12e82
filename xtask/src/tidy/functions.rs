//! Functions of the engine and the runtime fit a screen; structs with many fields are reported.

use super::{
    Finding,
    items::{self, code_without_tests},
    ratchet::Ratchet,
    rust_source::located_tokens,
    tree::Tree,
};

/// Lines of a function, from `fn` to the closing brace.
const LINES_MAX: usize = 70;

/// Folders where the limit applies.
const FOLDERS: &[&str] = &["crates/proto/src/", "crates/carob/src/"];

/// Functions above [`LINES_MAX`] that each place may still have.
const ALLOWANCES: &[(&str, usize)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, ALLOWANCES)
}

fn check_against(tree: &Tree, allowances: &[(&str, usize)]) -> Vec<Finding> {
    let mut violations = Vec::new();
    for (path, text) in sources(tree) {
        let code = code_without_tests(text);
        for function in items::functions(&located_tokens(&code)) {
            if function.lines > LINES_MAX {
                let (name, lines) = (function.name, function.lines);
                let message = format!("`{name}` has {lines} lines, more than {LINES_MAX}");
                violations.push(Finding::at_line(path, function.line, message));
            }
        }
    }
    let ratchet = Ratchet {
        table: "xtask/src/tidy/functions.rs",
        allowances,
    };
    ratchet.judge(&violations)
}

/// The `count` structs with the most fields.
pub(super) fn most_fields(tree: &Tree, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources(tree) {
        let code = code_without_tests(text);
        let structs = items::structs(&located_tokens(&code));
        found.extend(
            structs
                .into_iter()
                .map(|item| (item.fields, item.name, path)),
        );
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    let named = found.into_iter().take(count);
    named
        .map(|(fields, name, path)| format!("{name} ({fields}, {path})"))
        .collect()
}

fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts_of("rs")
        .filter(|(path, _)| FOLDERS.iter().any(|folder| path.starts_with(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn f() {{{}}}\n", "\n".repeat(lines - 1))
    }

    #[test]
    fn one_line_beyond_the_limit_is_too_many() {
        let (limit, beyond) = (function(LINES_MAX), function(LINES_MAX + 1));
        let tree = Tree::of(&[
            ("crates/carob/src/a.rs", &limit),
            ("crates/proto/src/b.rs", &beyond),
            ("crates/lab/src/c.rs", &beyond),
        ]);
        let found = check_against(&tree, &[]);
        assert_eq!(
            found[0].to_string(),
            "crates/proto: 1 violations, 0 allowed"
        );
        assert_eq!(found[1].line, Some(1));
        assert_eq!(found.len(), 2);
        assert!(check_against(&tree, &[("crates/proto", 1)]).is_empty());
        assert!(!check_against(&tree, &[("crates/proto", 2)]).is_empty());
    }

    #[test]
    fn structs_are_reported_by_their_fields() {
        let text = "struct A { a: u8 }\nstruct B { a: u8, b: u8 }";
        let tree = Tree::of(&[("crates/proto/src/a.rs", text)]);
        assert_eq!(most_fields(&tree, 1), ["B (2, crates/proto/src/a.rs)"]);
    }
}
