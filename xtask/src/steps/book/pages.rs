//! The pages in headless Chromium at two widths, light and dark: nothing wider than the page, pictures
//! shown, text that stands out from its background.

#[path = "../../../../crates/cli/tests/it/browser/frames.rs"]
mod chromium;

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::html::Site;

const PROBE: &str = include_str!("probe.js");
const WIDTHS: [u32; 2] = [375, 1440];
const THEMES: [&str; 2] = ["light", "navy"];
/// Frames opened at once.
const FRAMES: usize = 24;
/// Least contrast of text (WCAG 2.2, 1.4.3).
const CONTRAST: f64 = 4.5;

/// Opens each page at each width in each theme and returns a line for each defect.
pub(super) fn check(site: &Site, folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (page, text) in site.pages() {
        for theme in THEMES {
            let name = format!("{page}.{theme}.probe.html");
            let script = format!(
                "<script>window.probed = {{page: '{page}', theme: '{theme}'}};{PROBE}</script></body>"
            );
            let probed = text.replacen("</body>", &script, 1);
            fs::write(site.root.join(&name), probed)?;
            names.push(name);
        }
    }
    let frames: Vec<(&String, u32)> = names
        .iter()
        .flat_map(|name| WIDTHS.map(|width| (name, width)))
        .collect();
    let mut wrong = Vec::new();
    let mut opened = 0;
    for some in frames.chunks(FRAMES) {
        let mut found = open(site, folder, some)?;
        if found.len() < some.len() {
            // A busy machine may end the time of a frame before its page is there.
            println!("opening {} again", list(some));
            found = open(site, folder, some)?;
        }
        opened += found.len();
        wrong.extend(found.iter().flat_map(defects));
    }
    for name in &names {
        fs::remove_file(site.root.join(name))?;
    }
    println!("{opened} of {} views opened in Chromium", frames.len());
    ensure!(opened == frames.len(), "some pages did not report");
    Ok(wrong)
}

/// The names of frames' pages.
fn list(frames: &[(&String, u32)]) -> String {
    let names: Vec<String> = frames
        .iter()
        .map(|(name, width)| format!("{name} ({width} px)"))
        .collect();
    names.join(", ")
}

/// Opens frames in one page; the probe of each reports to it.
fn open(site: &Site, folder: &Path, frames: &[(&String, u32)]) -> Result<Vec<Value>> {
    let frames: Vec<(&str, u32)> = frames
        .iter()
        .map(|(name, width)| (name.as_str(), *width))
        .collect();
    let data = folder.join("profile");
    chromium::open(&site.root, &frames, &data, 30_000, false).map_err(anyhow::Error::msg)
}

/// The defects of one view.
fn defects(view: &Value) -> Vec<String> {
    let place = format!(
        "{} at {} px, {}",
        view["page"].as_str().unwrap_or_default(),
        view["width"],
        view["theme"].as_str().unwrap_or_default()
    );
    let mut found = Vec::new();
    if view["overflow"].as_i64().is_none_or(|beyond| beyond > 0) {
        found.push(format!("{place}: {} px too wide", view["overflow"]));
    }
    for image in view["missing"].as_array().into_iter().flatten() {
        found.push(format!("{place}: {image} is not shown"));
    }
    for image in view["shrunk"].as_array().into_iter().flatten() {
        found.push(format!("{place}: {image} is drawn for wide pages"));
    }
    for table in view["scrolls"].as_array().into_iter().flatten() {
        found.push(format!("{place}: the table {table} scrolls"));
    }
    if view["contrast"]
        .as_f64()
        .is_none_or(|contrast| contrast < CONTRAST)
    {
        found.push(format!("{place}: contrast of text {}", view["contrast"]));
    }
    for error in view["errors"].as_array().into_iter().flatten() {
        found.push(format!("{place}: {error}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_defect_of_a_view_is_named() {
        let good = json!({"page": "a", "width": 375, "theme": "light", "overflow": 0, "missing": [],
            "contrast": 7.0, "errors": []});
        assert!(defects(&good).is_empty());
        let bad = json!({"page": "a", "overflow": 3, "missing": ["x.svg"], "contrast": 2.0,
            "errors": ["e"]});
        assert_eq!(defects(&bad).len(), 4);
        assert_eq!(defects(&json!({"page": "a"})).len(), 2);
    }
}
