//! Length of Rust files, and Rust files that no `mod` line declares.

use super::{Finding, Tree, has_extension, parent};

/// Lines of a Rust file at most.
const LINES_MAX: usize = 900;

/// Folders whose modules a macro declares, and the file with their names.
pub(crate) const MACRO_DECLARED: &[(&str, &str)] = &[(
    "crates/cc/src/algorithms",
    "crates/cc/src/algorithms/mod.rs",
)];

/// Folders of a package in which Cargo compiles every file, or every `FOLDER/main.rs`.
const ROOT_FOLDERS: &[&str] = &["src/bin", "tests", "benches", "examples", "fuzz_targets"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_of("rs") {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            let message = format!("{lines} lines; split it by mechanism below {LINES_MAX}");
            findings.push(Finding::in_file(path, message));
        }
        if !is_root(path) && !is_declared(tree, path) {
            let message = "no `mod` line leads here; declare it or delete it";
            findings.push(Finding::in_file(path, message));
        }
    }
    findings
}

fn is_root(path: &str) -> bool {
    let (folder, name) = (parent(path), path.rsplit('/').next().unwrap_or(path));
    let in_folder = |folder: &str| ROOT_FOLDERS.iter().any(|root| folder.ends_with(root));
    name == "build.rs"
        || (folder.ends_with("src") && matches!(name, "lib.rs" | "main.rs"))
        || in_folder(folder)
        || (name == "main.rs" && in_folder(parent(folder)))
}

/// Returns true if a file that may declare the module does so. Its path in quotes counts wherever it is
/// (`#[path]`, `include!`, a manifest).
fn is_declared(tree: &Tree, path: &str) -> bool {
    let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let (folder, name) = (parent(stem), stem.rsplit('/').next().unwrap_or(stem));
    let declaration = format!("mod {name};");
    let quoted = format!("{}\"", &path[parent(stem).len()..].trim_start_matches('/'));
    let is_listed = |(path, text): (&str, &str)| {
        let code = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or(line));
        let above = parent(path) == folder || path.trim_end_matches(".rs") == folder;
        // An inline module of a parent may hold the line, so folders above count as well.
        let encloses = folder.starts_with(path.trim_end_matches(".rs"));
        let by_macro = MACRO_DECLARED
            .iter()
            .any(|(of, namer)| *of == folder && *namer == path);
        let has = |word: &str| code.clone().any(|line| line.contains(word));
        ((above || encloses) && has(&declaration))
            || (by_macro && has(&format!("{name}:")))
            || text.contains(&quoted)
    };
    tree.texts()
        .filter(|(other, _)| has_extension(other, "rs") || other.ends_with("Cargo.toml"))
        .filter(|(other, _)| *other != path)
        .any(is_listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let findings = check(&Tree::of(files));
        findings.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn one_line_beyond_the_limit_is_found() {
        let (limit, beyond) = ("\n".repeat(LINES_MAX), "\n".repeat(LINES_MAX + 1));
        let files = [("a/src/lib.rs", &*limit), ("a/src/main.rs", &beyond)];
        assert_eq!(found(&files), ["a/src/main.rs"]);
    }

    #[test]
    fn files_without_declaration_are_found() {
        let files = [
            ("crates/x/Cargo.toml", "path = \"src/y.rs\""),
            ("crates/x/src/y.rs", ""),
            ("crates/x/src/lib.rs", "mod used; // mod old;"),
            ("crates/x/src/used/mod.rs", "mod inner;"),
            ("crates/x/src/used/inner.rs", ""),
            ("crates/x/src/used/old.rs", ""),
            ("crates/x/src/old.rs", ""),
            (
                "crates/x/tests/it/main.rs",
                "#[path = \"../help.rs\"] mod a;",
            ),
            ("crates/x/benches/b.rs", ""),
            ("crates/cc/src/lib.rs", "mod algorithms;"),
            (
                "crates/cc/src/algorithms/mod.rs",
                "table! { rfc7252: Rfc7252 }",
            ),
            ("crates/cc/src/algorithms/rfc7252.rs", ""),
            ("crates/cc/src/algorithms/older.rs", ""),
        ];
        let dead = ["crates/cc/src/algorithms/older.rs", "crates/x/src/old.rs"];
        assert_eq!(
            found(&files),
            [&dead[..], &["crates/x/src/used/old.rs"]].concat()
        );
    }
}
