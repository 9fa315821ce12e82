//! Figures of documentation, studies and results as librsvg draws them: the marks that Chromium draws.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{frames, is_missing};
use crate::lab::folder::Folder;

const PROBE: &str = include_str!("rasters.js");

/// Every SVG file below a folder.
fn figures(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(figures(&path));
        } else if path.extension().is_some_and(|extension| extension == "svg") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn has_no_rsvg() -> bool {
    let missing = Command::new("rsvg-convert")
        .arg("--version")
        .output()
        .is_err();
    if missing {
        let required = std::env::var_os("CAROB_REQUIRE_PEERS").is_some();
        assert!(
            !required,
            "rsvg-convert missing, but CAROB_REQUIRE_PEERS is set"
        );
        crate::skipped("rsvg-convert (apt-get install librsvg2-bin)");
    }
    missing
}

#[test]
fn nightly_librsvg_draws_every_mark_that_chromium_draws() {
    if is_missing() || has_no_rsvg() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders =
        ["docs", "papers", "crates/lab/results"].map(|folder| figures(&root.join(folder)));
    let all = folders.concat();
    assert!(all.len() > 30, "{all:?}");
    let folder = Folder::new("rasters");
    let mut pages = Vec::new();
    for (number, path) in all.iter().enumerate() {
        let drawn = Command::new("rsvg-convert")
            .args(["--zoom=2", "--background-color=white"])
            .arg(path)
            .output()
            .unwrap();
        assert!(drawn.status.success(), "{path:?}: {drawn:?}");
        let raster = drawn.stdout.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        let svg = fs::read_to_string(path).unwrap();
        let quoted = |text: &str| serde_json::to_string(text).unwrap().replace("</", "<\\/");
        let name = path.file_name().unwrap().to_str().unwrap();
        let page = format!(
            "<!DOCTYPE html><meta charset=\"utf-8\"><body style=\"margin: 0\">{svg}<script>\
             window.figureName = {}; window.figure = {}; window.raster = \"{raster}\";{PROBE}</script>",
            quoted(name),
            quoted(&svg)
        );
        let file = format!("figure-{number}.html");
        fs::write(folder.0.join(&file), page).unwrap();
        pages.push(file);
    }
    let opened: Vec<(&str, u32)> = pages.iter().map(|page| (page.as_str(), 1440)).collect();
    let data = folder.0.join("profile");
    let found = frames::open(&folder.0, &opened, &data, 60_000, false).expect("pages open");
    assert_eq!(found.len(), pages.len(), "{found:?}");
    for figure in found {
        assert!(figure["drawn"].as_u64() > Some(0), "{figure}");
        assert_eq!(figure["drawn"], figure["same"], "{figure}");
    }
}
