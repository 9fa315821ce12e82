//! Decision records are numbered without gaps and titled by their number's file.

use std::collections::BTreeMap;

use super::{Finding, tree::Tree};

const FOLDER: &str = "docs/adr/";
/// Files of the folder that are no records.
const OTHERS: &[&str] = &["README.md", "template.md"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut records: BTreeMap<u32, &str> = BTreeMap::new();
    for (path, text) in tree.texts_of("md") {
        let Some(name) = path.strip_prefix(FOLDER) else {
            continue;
        };
        if OTHERS.contains(&name) {
            continue;
        }
        let Some(number) = number(name) else {
            findings.push(Finding::in_file(
                path,
                "a record is called `0001-what-was-decided.md`",
            ));
            continue;
        };
        if let Some(first) = records.insert(number, path) {
            findings.push(Finding::in_file(
                path,
                format!("has the same number as {first}"),
            ));
        }
        if !text.starts_with("# ") {
            findings.push(Finding::in_file(path, "begins with no `# title`"));
        }
    }
    for (expected, (number, path)) in (1..).zip(&records) {
        if *number != expected {
            findings.push(Finding::in_file(
                path,
                format!("number {expected:04} is missing before it"),
            ));
            break;
        }
    }
    findings
}

fn number(name: &str) -> Option<u32> {
    let (digits, rest) = name.split_once('-')?;
    (digits.len() == 4 && rest.len() > ".md".len()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Vec<String> {
        let paths: Vec<String> = names.iter().map(|name| format!("{FOLDER}{name}")).collect();
        let files: Vec<_> = paths
            .iter()
            .map(|path| (path.as_str(), "# Title\n"))
            .collect();
        check(&Tree::of(&files))
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn contiguous_numbers_are_fine() {
        assert!(found(&["0001-a.md", "0002-b.md", "README.md"]).is_empty());
    }

    #[test]
    fn a_gap_is_found_once() {
        assert_eq!(
            found(&["0001-a.md", "0003-b.md", "0004-c.md"]),
            ["number 0002 is missing before it"]
        );
    }

    #[test]
    fn a_number_used_twice_is_found() {
        assert_eq!(
            found(&["0001-a.md", "0001-b.md"]),
            ["has the same number as docs/adr/0001-a.md"]
        );
    }

    #[test]
    fn a_record_without_number_or_title_is_found() {
        assert_eq!(found(&["idea.md"]).len(), 1);
        let tree = Tree::of(&[("docs/adr/0001-a.md", "text")]);
        assert_eq!(check(&tree).len(), 1);
    }
}
