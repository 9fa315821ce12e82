//! `carob lab index`: the index page of a folder of reports.

use std::fs;
use std::path::Path;

use carob_lab::report::{IndexEntry, index_page};

use super::output::say;
use crate::failure::{Failure, Kind, Outcome};

/// Name of the page.
const PAGE: &str = "index.html";

pub(super) fn run(folder: &Path) -> Result<Outcome, Failure> {
    let unreadable = |error| Failure::file("read", folder, &error);
    let mut entries: Vec<IndexEntry> = Vec::new();
    for file in fs::read_dir(folder).map_err(unreadable)? {
        let path = file.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == PAGE || path.extension().is_none_or(|end| end != "html") {
            continue;
        }
        // A page that is no text is no report.
        let text = fs::read_to_string(&path).unwrap_or_default();
        entries.extend(IndexEntry::read(&name, &text));
    }
    if entries.is_empty() {
        let none = format!("no reports in {}", folder.display());
        return Err(Failure::new(Kind::Usage, none).hint("`carob lab run` writes one"));
    }
    entries.sort_by(|a, b| a.file.cmp(&b.file));
    let path = folder.join(PAGE);
    let written = fs::write(&path, index_page(&entries));
    written.map_err(|error| Failure::file("write", &path, &error))?;
    let count = match entries.len() {
        1 => "one report".to_owned(),
        n => format!("{n} reports"),
    };
    say(format_args!("{}: {count}", path.display()));
    Ok(Outcome::Done)
}
