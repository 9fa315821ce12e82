//! A copy of `docs` in which links to files of the repository lead to copies of their text.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};

use crate::{tidy, workspace::Workspace};

/// Widest page that shows figures drawn for phones, as reports do.
const PHONE_PX: u32 = 688;
/// Folder of the site with copies of the repository's files.
const FILES: &str = "repository";

/// Copies `docs` of the repository at `root` to the folder `to`.
pub(super) fn stage(root: &Path, to: &Path) -> Result<()> {
    let tracked = Workspace::files(root)?;
    let mut linked = BTreeSet::new();
    for path in tracked.iter().filter(|path| path.starts_with("docs/")) {
        let inside = path.trim_start_matches("docs/");
        let from = root.join(path);
        if tidy::has_extension(path, "md") {
            let text = fs::read_to_string(&from)?;
            let is_there = |path: &str| tracked.iter().any(|name| name == path);
            let text = pictures(path, &text, &is_there);
            write(&to.join(inside), &rewritten(path, &text, &mut linked))?;
        } else {
            let bytes = fs::read(&from)?;
            let path = to.join(inside);
            create_folder(&path)?;
            fs::write(path, bytes)?;
        }
    }
    for path in linked {
        let below = format!("{path}/");
        let text = if root.join(&path).is_dir() {
            let names = tracked.iter().filter(|name| name.starts_with(&below));
            names.map(String::as_str).collect::<Vec<_>>().join("\n")
        } else {
            fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?
        };
        write(&to.join(copy_of(&path)), &text)?;
    }
    Ok(())
}

/// Place of the copy of a file, whose extension lets browsers show it. mdBook would take `.md` for a page.
fn copy_of(path: &str) -> String {
    format!("{FILES}/{}.txt", path.trim_end_matches(".md"))
}

/// A page with its links out of `docs` changed; adds the files they lead to.
fn rewritten(page: &str, text: &str, linked: &mut BTreeSet<String>) -> String {
    let up = "../".repeat(page.matches('/').count() - 1);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (number, target) in tidy::links_of(text) {
        let Some(outside) = outside(page, &target) else {
            continue;
        };
        let line = &mut lines[number - 1];
        let replacement = format!("{up}{}", copy_of(&outside));
        *line = line.replace(&format!("]({target})"), &format!("]({replacement})"));
        linked.insert(outside);
    }
    lines.join("\n") + "\n"
}

/// A page whose figures on lines of their own are, on a phone, those that are drawn for one.
fn pictures(page: &str, text: &str, is_there: &dyn Fn(&str) -> bool) -> String {
    let lines = text.lines().map(|line| {
        let parts = line
            .strip_prefix("![")
            .and_then(|rest| rest.split_once("]("));
        let parts = parts.and_then(|(words, rest)| Some((words, rest.strip_suffix(".svg)")?)));
        let Some((words, stem)) = parts else {
            return line.to_owned();
        };
        let narrow = format!("{stem}-narrow.svg");
        if !tidy::resolved(page, &narrow).is_some_and(|path| is_there(&path)) {
            return line.to_owned();
        }
        let words = words
            .replace('&', "&amp;")
            .replace('"', "&quot;")
            .replace('<', "&lt;");
        format!(
            "<picture><source media=\"(max-width: {PHONE_PX}px)\" srcset=\"{narrow}\">\
             <img src=\"{stem}.svg\" alt=\"{words}\"></picture>"
        )
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// The file of the repository that a link leads to, if it is outside of `docs`.
fn outside(page: &str, target: &str) -> Option<String> {
    let file = target.split('#').next()?;
    if file.is_empty() || target.contains("://") {
        return None;
    }
    let path = tidy::resolved(page, file)?;
    (!path.starts_with("docs/")).then_some(path)
}

fn write(path: &Path, text: &str) -> Result<()> {
    create_folder(path)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn create_folder(path: &Path) -> Result<()> {
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_narrow_layout_where_there_is_one() {
        let text = "![a \"b\"](c/d.svg)\n![e](f.svg)\nsee ![e](f.svg)\n";
        let shown = pictures("docs/a.md", text, &|path| path == "docs/c/d-narrow.svg");
        let (first, rest) = shown.split_once('\n').expect("lines");
        assert!(first.contains("srcset=\"c/d-narrow.svg\"") && first.contains("src=\"c/d.svg\""));
        assert!(first.contains("alt=\"a &quot;b&quot;\""), "{first}");
        assert_eq!(rest, "![e](f.svg)\nsee ![e](f.svg)\n");
    }

    #[test]
    fn links_out_of_the_documentation_lead_to_copies() {
        let text = "[a](../crates/x.md#y) [b](b.md) [c](https://example.org)\n";
        let mut linked = BTreeSet::new();
        assert_eq!(
            rewritten("docs/a.md", text, &mut linked),
            "[a](repository/crates/x.txt) [b](b.md) [c](https://example.org)\n"
        );
        assert_eq!(linked.into_iter().collect::<Vec<_>>(), ["crates/x.md"]);
        let deep = rewritten("docs/adr/a.md", "[a](../../x.rs)", &mut BTreeSet::new());
        assert_eq!(deep, "[a](../repository/x.rs.txt)\n");
    }
}
