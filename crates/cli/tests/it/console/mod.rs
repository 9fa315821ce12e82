//! Runs the console blocks of the documentation. Each page has a temporary folder and a network namespace, so that
//! default ports are free. The tests of `carob-studies` run the pages with its commands.
//!
//! `CAROB_UPDATE_PAGES=1 cargo test -p carob-cli -p carob-studies --test it pages::` writes the output of today into the
//! pages instead. A block after `<!-- numbers vary -->` is compared without its numbers, addresses and
//! tokens; after `<!-- lines vary -->`, a third of the lines may be others, too. The text below `Save this as` is a file of the page's folder.

#![cfg(target_os = "linux")]

mod page;
mod place;

use std::fs;
use std::path::{Path, PathBuf};

use page::{Page, lines_match};

/// Folders of pages whose console blocks are run.
pub(crate) const FOLDERS: [&str; 7] = [
    "start",
    "tutorials",
    "cookbook",
    "operate",
    "concepts",
    "reference",
    "evidence",
];

pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Runs the pages of a folder, those with commands of `carob-studies` or the others; compares or updates their outputs.
pub(crate) fn run(folder: &str, of_studies: bool) {
    if !place::is_possible() {
        return;
    }
    let mut wrong = Vec::new();
    for (path, page) in pages(folder) {
        if page.is_of_studies() != of_studies {
            continue;
        }
        let outputs = place::run(&page);
        if std::env::var_os("CAROB_UPDATE_PAGES").is_some() {
            fs::write(&path, page.with_outputs(&outputs)).expect("pages are writable");
            continue;
        }
        for (example, output) in page.examples().zip(&outputs) {
            if !lines_match(&example.output, output, example.varies) {
                wrong.push(format!(
                    "{}: `{}` prints\n{}\nnot\n{}",
                    path.display(),
                    example.command,
                    output.join("\n"),
                    example.output.join("\n")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Pages of a folder with console blocks.
pub(crate) fn pages(folder: &str) -> Vec<(PathBuf, Page)> {
    let files = fs::read_dir(docs().join(folder)).expect("the folder is there");
    let mut paths: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("pages are text");
            (path, Page::read(&text))
        })
        .filter(|(_, page)| page.examples().next().is_some())
        .collect()
}
