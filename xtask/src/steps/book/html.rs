//! Pages of the built site, and where their links lead.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::tidy;

/// Pages that mdBook adds to those of the summary.
const ADDED: &[&str] = &["404.html", "toc.html", "print.html"];

/// The files of a site and the text of its pages.
pub(super) struct Site {
    pub(super) root: PathBuf,
    files: BTreeSet<String>,
    texts: BTreeMap<String, String>,
    /// Number of links within the site.
    pub(super) links: usize,
}

impl Site {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut site = Self {
            root: root.to_path_buf(),
            files: BTreeSet::new(),
            texts: BTreeMap::new(),
            links: 0,
        };
        site.add(root)?;
        site.links = (site.texts.values())
            .map(|text| targets(text).filter(|link| is_local(link)).count())
            .sum();
        Ok(site)
    }

    fn add(&mut self, folder: &Path) -> Result<()> {
        let entries =
            fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                self.add(&path)?;
                continue;
            }
            let name = path
                .strip_prefix(&self.root)?
                .to_string_lossy()
                .into_owned();
            if tidy::has_extension(&name, "html") && !ADDED.contains(&name.as_str()) {
                self.texts.insert(name.clone(), fs::read_to_string(&path)?);
            }
            self.files.insert(name);
        }
        Ok(())
    }

    /// Paths and texts of the pages.
    pub(super) fn pages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// A line for each link that leads to nothing, or that loads something from elsewhere.
    pub(super) fn broken_links(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (page, text) in self.pages() {
            for link in targets(text) {
                if let Some(reason) = self.problem(page, &link) {
                    broken.push(format!("{page}: {link}: {reason}"));
                }
            }
            for source in attributes(text, "src").chain(attributes(text, "srcset")) {
                if source.contains("://") {
                    broken.push(format!("{page}: {source}: loaded from outside"));
                }
            }
        }
        broken.sort();
        broken.dedup();
        broken
    }

    fn problem(&self, page: &str, link: &str) -> Option<String> {
        if !is_local(link) {
            return None;
        }
        let (file, anchor) = match link.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor)),
            None => (link, None),
        };
        let path = if file.is_empty() {
            page.to_owned()
        } else {
            let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
            resolve(folder, file)?
        };
        if !self.files.contains(&path) {
            return Some("no such file".to_owned());
        }
        let anchor = anchor.filter(|anchor| !anchor.is_empty())?;
        let text = self.texts.get(&path)?;
        let found = attributes(text, "id").any(|id| id == anchor);
        (!found).then(|| format!("{path} has no such anchor"))
    }
}

fn is_local(link: &str) -> bool {
    !link.contains("://") && !link.starts_with("mailto:") && !link.starts_with("data:")
}

/// The path from the site's root; `None` above it.
fn resolve(folder: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Targets of links and of embedded files.
fn targets(text: &str) -> impl Iterator<Item = String> {
    let sources = attributes(text, "src").chain(attributes(text, "srcset"));
    attributes(text, "href").chain(sources)
}

fn attributes<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let start = format!(" {name}=\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(start.as_str())?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some(value.replace("&amp;", "&"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(pages: &[(&str, &str)]) -> Site {
        let texts: BTreeMap<_, _> = pages
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        Site {
            root: PathBuf::new(),
            files: texts.keys().cloned().collect(),
            texts,
            links: 0,
        }
    }

    #[test]
    fn links_to_pages_and_anchors_are_followed() {
        let pages = [
            (
                "a/b.html",
                "<a href=\"../c.html#x\"> <a href=\"#y\"> <h1 id=\"y\">",
            ),
            ("c.html", "<h1 id=\"x\"> <a href=\"https://example.org\">"),
        ];
        assert!(site(&pages).broken_links().is_empty());
    }

    #[test]
    fn links_to_nothing_and_sources_from_outside_are_found() {
        let pages = [(
            "a.html",
            "<a href=\"b.html\"> <a href=\"#x\"> <img src=\"https://example.org/x.png\">",
        )];
        assert_eq!(site(&pages).broken_links().len(), 3);
    }
}
