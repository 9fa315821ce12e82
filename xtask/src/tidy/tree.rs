//! The repository's files as paths and texts, from disk or made up by a test.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Paths from the root, with `/` between their parts, and the text of those that are UTF-8. A symbolic link
/// has no text of its own: its file is in the tree too.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, Option<String>>,
    /// The file of each symbolic link.
    links: BTreeMap<String, String>,
}

impl Tree {
    /// Reads what git tracks or would track.
    pub(super) fn load(root: &Path) -> Result<Self> {
        let (mut files, mut links) = (BTreeMap::new(), BTreeMap::new());
        for name in Workspace::files(root)? {
            let path = root.join(&name);
            if let Ok(target) = fs::read_link(&path) {
                let target = join(parent(&name), &target.to_string_lossy());
                links.insert(name.clone(), normalised(&target).unwrap_or_default());
                files.insert(name, None);
                continue;
            }
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(name, String::from_utf8(bytes).ok());
        }
        Ok(Self { files, links })
    }

    /// Symbolic links to a file.
    pub(super) fn links_to(&self, path: &str) -> impl Iterator<Item = &str> {
        let links = self.links.iter();
        links.filter_map(move |(link, target)| (target == path).then_some(link.as_str()))
    }

    #[cfg(test)]
    pub(super) fn with_link(mut self, link: &str, target: &str) -> Self {
        self.links.insert(link.to_owned(), target.to_owned());
        self
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Self {
            files: files.collect(),
            links: BTreeMap::new(),
        }
    }

    /// The text of one file; `None` also when it is not UTF-8.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    pub(super) fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns true if a file lies below `path`.
    pub(super) fn has_directory(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        path.is_empty()
            || self
                .files
                .range(prefix.clone()..)
                .next()
                .is_some_and(|(f, _)| f.starts_with(&prefix))
    }

    /// Every text file, in path order.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The text files whose names end in `.extension`.
    pub(super) fn texts_of(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts()
            .filter(move |(path, _)| has_extension(path, extension))
    }
}

/// `path` with `.` and `..` resolved; `None` when it climbs above the root.
pub(super) fn normalised(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
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

/// Returns true if the file's name ends in `.extension`, written in exactly this case.
pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.')
        .is_some_and(|(_, found)| found == extension)
}

/// Everything before the last `/`, or nothing.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Two paths with a `/` between them where both are there.
pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_climbs_above_the_root_has_no_normal_form() {
        assert_eq!(normalised("a/./b/../c"), Some("a/c".to_owned()));
        assert_eq!(normalised("a/../../c"), None);
    }

    #[test]
    fn a_directory_exists_when_a_file_lies_below_it() {
        let tree = Tree::of(&[("docs/adr/0001-x.md", "")]);
        assert!(tree.has_directory("docs/adr"));
        assert!(!tree.has_directory("docs/ad"));
    }
}
