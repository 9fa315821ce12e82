//! Every Rust file of a package is reached from one of its roots.

use std::collections::BTreeSet;

use super::{
    Finding, rust_source,
    tree::{Tree, has_extension, join, normalised, parent},
};

/// Folders whose modules a macro declares, and the file that names them to it.
pub(crate) const MACRO_DECLARED: &[(&str, &str)] = &[(
    "crates/cc/src/algorithms",
    "crates/cc/src/algorithms/mod.rs",
)];

/// Folders of a package in which every file, or every `folder/main.rs`, is a root of its own.
const ROOT_FOLDERS: &[&str] = &["src/bin", "tests", "benches", "examples", "fuzz_targets"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for (path, text) in tree.texts_of("toml") {
        if path == "Cargo.toml" || path.ends_with("/Cargo.toml") {
            for root in roots(tree, parent(path), text) {
                reach(tree, &root, true, &mut reached);
            }
        }
    }
    let dead = tree
        .texts_of("rs")
        .filter(|(path, _)| !reached.contains(*path));
    dead.map(|(path, _)| {
        Finding::in_file(path, "no `mod` line leads here; declare it or delete it")
    })
    .collect()
}

/// The files Cargo compiles by itself, and those the manifest names.
fn roots(tree: &Tree, package: &str, manifest: &str) -> Vec<String> {
    let in_package = |name: &str| join(package, name);
    let mut found: Vec<String> = ["src/lib.rs", "src/main.rs", "build.rs"]
        .map(in_package)
        .to_vec();
    for folder in ROOT_FOLDERS {
        let prefix = in_package(folder) + "/";
        found.extend(tree.texts_of("rs").filter_map(|(path, _)| {
            let inside = path.strip_prefix(&prefix)?;
            let is_root = !inside.contains('/')
                || (inside.ends_with("/main.rs") && inside.matches('/').count() == 1);
            is_root.then(|| path.to_owned())
        }));
    }
    for line in manifest.lines() {
        if let Some(value) = line.trim().strip_prefix("path")
            && let Some(file) = value.split('"').nth(1)
            && has_extension(file, "rs")
        {
            found.push(in_package(file));
        }
    }
    found
}

/// Marks a file and everything its `mod` lines lead to.
fn reach(tree: &Tree, path: &str, is_root: bool, reached: &mut BTreeSet<String>) {
    let Some(text) = tree.text(path) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    let directory = parent(path);
    let stem = path
        .rsplit('/')
        .next()
        .unwrap_or(path)
        .trim_end_matches(".rs");
    // `a.rs` keeps its modules in `a/`; a root and a `mod.rs` keep them beside themselves.
    let home = if is_root || stem == "mod" {
        directory.to_owned()
    } else {
        join(directory, stem)
    };

    for declaration in rust_source::declarations(text) {
        let inside = declaration.inside.join("/");
        let candidates = match &declaration.path {
            // Relative to the file, or within an inline module to that module's folder.
            Some(file) if inside.is_empty() => vec![join(directory, file)],
            Some(file) => vec![join(&join(&home, &inside), file)],
            None => {
                let folder = if inside.is_empty() {
                    home.clone()
                } else {
                    join(&home, &inside)
                };
                let name = &declaration.name;
                vec![
                    join(&folder, &format!("{name}.rs")),
                    join(&folder, &format!("{name}/mod.rs")),
                ]
            }
        };
        for candidate in candidates
            .iter()
            .filter_map(|candidate| normalised(candidate))
        {
            reach(tree, &candidate, false, reached);
        }
    }
    for (folder, _) in MACRO_DECLARED.iter().filter(|(_, namer)| *namer == path) {
        let words: BTreeSet<String> = rust_source::tokens(&rust_source::code(text, false))
            .into_iter()
            .collect();
        for word in words {
            for file in [format!("{word}.rs"), format!("{word}/mod.rs")] {
                reach(tree, &join(folder, &file), false, reached);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .into_iter()
            .map(|finding| finding.path)
            .collect()
    }

    #[test]
    fn a_file_that_no_mod_line_names_is_dead() {
        let files = [
            ("crates/x/Cargo.toml", "[package]"),
            ("crates/x/src/lib.rs", "mod used; // mod old;"),
            ("crates/x/src/used.rs", "mod inner;"),
            ("crates/x/src/used/inner.rs", ""),
            ("crates/x/src/old.rs", ""),
        ];
        assert_eq!(dead(&files), ["crates/x/src/old.rs"]);
    }

    #[test]
    fn roots_named_by_cargo_or_the_manifest_are_alive() {
        let files = [
            (
                "crates/x/Cargo.toml",
                "[[bin]]\nname = \"y\"\npath = \"src/y.rs\"",
            ),
            ("crates/x/src/y.rs", ""),
            ("crates/x/tests/a.rs", "#[path = \"a/help.rs\"] mod help;"),
            ("crates/x/tests/a/help.rs", ""),
            ("crates/x/tests/a/old.rs", ""),
            ("crates/x/benches/b.rs", ""),
        ];
        assert_eq!(dead(&files), ["crates/x/tests/a/old.rs"]);
    }

    #[test]
    fn a_controller_is_alive_when_the_registry_names_it() {
        let files = [
            ("crates/cc/Cargo.toml", "[package]"),
            ("crates/cc/src/lib.rs", "mod algorithms;"),
            (
                "crates/cc/src/algorithms/mod.rs",
                "table! { rfc7252: Rfc7252 } // old",
            ),
            ("crates/cc/src/algorithms/rfc7252.rs", ""),
            ("crates/cc/src/algorithms/old.rs", ""),
        ];
        assert_eq!(dead(&files), ["crates/cc/src/algorithms/old.rs"]);
    }
}
