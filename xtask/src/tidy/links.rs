//! Links of Markdown files, and paths of documents in comments, strings and inline code, lead to files and
//! headings of the repository.

use std::collections::BTreeMap;

use super::{Finding, Tree, generated::site_paths, has_extension, join, parent, resolved};

/// Folders whose tests use invented paths.
const INVENTED: &[&str] = &["xtask/src/tidy/"];
/// Extensions of source files, whose paths Markdown may abbreviate at the front.
const SOURCES: &[&str] = &["rs", "toml", "py"];
/// A document that a command writes and git ignores.
const IGNORED: &str = "fuzz/results.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let is_markdown = has_extension(path, "md");
        let links = if is_markdown { links(text) } else { Vec::new() };
        let broken_links = links
            .iter()
            .filter_map(|(line, target)| Some((*line, broken(tree, path, target)?)));
        findings.extend(broken_links.map(|(line, message)| Finding::at_line(path, line, message)));
        if INVENTED.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        for (line, word) in paths(text, is_markdown) {
            let file = word.split('#').next().unwrap_or(&word);
            let is_source = SOURCES.iter().any(|source| has_extension(file, source));
            let message = if has_extension(file, "md") {
                missing_document(tree, path, &word)
            } else if is_markdown && is_source {
                missing_source(tree, file)
            } else {
                None
            };
            findings.extend(message.map(|message| Finding::at_line(path, line, message)));
        }
    }
    findings
}

/// The error of a link in the file `path`.
fn broken(tree: &Tree, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let found = if file.is_empty() {
        Some(path.to_owned())
    } else {
        resolved(path, &file.replace("%20", " ")).filter(|_| !file.starts_with('/'))
    };
    if found.as_deref().is_some_and(is_ignored) {
        return None;
    }
    let Some(found) = found.filter(|found| tree.has_file(found) || tree.has_directory(found))
    else {
        return Some(format!(
            "`{target}` is no relative path of a file or folder"
        ));
    };
    missing_heading(tree, &found, anchor)
}

/// Returns true for documents that are written when they are needed.
fn is_ignored(path: &str) -> bool {
    path == IGNORED || site_paths().iter().any(|one| one == path)
}

/// The error of an anchor in a Markdown file. Anchors of source files (`#L10`) depend on the viewer.
fn missing_heading(tree: &Tree, document: &str, anchor: &str) -> Option<String> {
    let text = tree.text(document);
    let text = text.filter(|_| has_extension(document, "md") && !anchor.is_empty())?;
    let is_known = anchors(text).any(|heading| heading == anchor);
    (!is_known).then(|| format!("`{document}` has no heading `#{anchor}`"))
}

fn missing_source(tree: &Tree, file: &str) -> Option<String> {
    let end = format!("/{file}");
    let is_known = tree.has_file(file) || tree.texts().any(|(path, _)| path.ends_with(&end));
    (!is_known).then(|| format!("`{file}` is not a file of the repository"))
}

/// The error of a document named in the file `path`, relative to a folder above it or to `docs`.
fn missing_document(tree: &Tree, path: &str, document: &str) -> Option<String> {
    let (file, anchor) = document.split_once('#').unwrap_or((document, ""));
    if is_ignored(file) {
        return None;
    }
    let own = Some(parent(path));
    let above = std::iter::successors(own, |folder| (!folder.is_empty()).then(|| parent(folder)));
    let mut candidates = above.chain(["docs"]).map(|folder| join(folder, file));
    match candidates.find(|candidate| tree.has_file(candidate)) {
        Some(found) => missing_heading(tree, &found, anchor),
        None => Some(format!("`{file}` is not a file of the repository")),
    }
}

/// Paths with a folder, and their anchors, with line numbers; in Markdown those in inline code only.
fn paths(text: &str, is_markdown: bool) -> Vec<(usize, String)> {
    let in_line = |(number, line): (usize, &str)| -> Vec<(usize, String)> {
        words(line).map(|word| (number, word)).collect()
    };
    if !is_markdown {
        return (1..).zip(text.lines()).flat_map(in_line).collect();
    }
    let code = prose(text).flat_map(|(number, line)| {
        let code = line.split('`').skip(1).step_by(2);
        code.map(move |code| (number, code))
    });
    code.flat_map(in_line).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '#');
    text.split(move |c| !is_part(c)).filter_map(|word| {
        let word = word.trim_end_matches(['.', '#']);
        let file = word.split('#').next().unwrap_or(word);
        // A leading slash is the rest of a URL or of a composed path.
        let is_path = file.contains('/') && !file.starts_with(['/', '.', '-']);
        is_path.then(|| word.to_owned())
    })
}

/// Targets of inline links, images and reference definitions, with their line numbers.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let target = |text: &str| text.trim_matches(['<', '>']).to_owned();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for rest in line.split("](").skip(1) {
            if let Some((inline, _)) = rest.split_once([')', ' ']) {
                found.push((number, target(inline)));
            }
        }
        let definition = line.strip_prefix('[').filter(|rest| !rest.starts_with('^'));
        let definition = definition.and_then(|rest| rest.split_once("]: "));
        let word = definition.and_then(|(_, target)| target.split_whitespace().next());
        found.extend(word.map(|word| (number, target(word))));
    }
    found
}

/// The lines outside fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let line = line.trim_start();
        let is_fence = line.starts_with("```") || line.starts_with("~~~");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    let kept = parts.map(|(index, part)| if index % 2 == 0 { part } else { "``" });
    kept.collect()
}

/// Anchors of a file's headings, as GitHub and mdBook derive them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    prose(text).filter_map(move |(_, line)| {
        let title = line.strip_prefix('#')?.trim_start_matches('#');
        let title = title.strip_prefix(' ')?.trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = seen.entry(slug.clone()).or_default();
        *count += 1;
        Some(match *count {
            1 => slug,
            count => format!("{slug}-{}", count - 1),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (path, text),
            ("docs/b.md", "# One two\n## One two\n```\n# code\n```"),
            ("src/lib.rs", ""),
            ("src/results/c.md", ""),
        ]);
        let findings = check(&tree).into_iter();
        findings.map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn links_to_files_folders_headings_and_the_web_are_valid() {
        let text = "[b](b.md) [c](../src) ![d](../src/lib.rs#L1) [e](https://example.org/x)\n\
                    [f](b.md#one-two) [g](b.md#one-two-1)\n[h]: b.md \"title\"\n`[x](none)`\n\
                    ```\n[y](none)\n```";
        assert_eq!(messages("docs/a.md", text), [""; 0]);
    }

    #[test]
    fn broken_links_are_found_with_their_line() {
        for text in [
            "[b](c.md)",
            "[b]: c.md",
            "[b](../../c.md)",
            "[c](/docs/b.md)",
        ] {
            let found = messages("docs/a.md", &format!("\n{text}"));
            assert!(found[0].starts_with("docs/a.md:2: `"), "{text}: {found:?}");
        }
        let heading = "docs/a.md:1: `docs/b.md` has no heading `#code`";
        assert_eq!(messages("docs/a.md", "[b](b.md#code)"), [heading]);
    }

    #[test]
    fn comments_name_documents_and_headings_that_exist() {
        let text = "//! `docs/b.md#one-two`, and docs/b.md. results/c.md, fuzz/results.md\n\
                    // https://example.org/x/y.md {folder}/z.md self.md a.md\n";
        assert_eq!(messages("src/x/lib.rs", text), [""; 0]);
        let missing = "src/x.rs:2: `docs/d.md` is not a file of the repository";
        assert_eq!(messages("src/x.rs", "\n//! `docs/d.md` 3.1"), [missing]);
        let heading = "src/x.rs:1: `docs/b.md` has no heading `#three`";
        assert_eq!(messages("src/x.rs", "// docs/b.md#three"), [heading]);
    }

    #[test]
    fn inline_code_names_files_that_exist() {
        let text = "see docs/d.md\n```\ndocs/d.md\n```\n`src/lib.rs:10` `a/b.bin` `{a,b}/c.rs`";
        assert_eq!(messages("docs/a.md", text), [""; 0]);
        for path in ["docs/d.md", "src/gone.rs"] {
            let found = messages("docs/a.md", &format!("see `{path}`"));
            assert_eq!(
                found,
                [format!(
                    "docs/a.md:1: `{path}` is not a file of the repository"
                )]
            );
        }
    }
}
