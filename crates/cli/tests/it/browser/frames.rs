//! Opens pages in frames of one page in headless Chromium, with its background connections disabled.
//! A probe script in each page posts its findings to the parent page.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Opens files of a folder, each in a frame of the given width in pixels, and returns the posted findings. `data` is
/// Chromium's profile folder, `budget_ms` the virtual time budget of the pages, and `is_dark` the preferred colour
/// scheme.
///
/// # Errors
///
/// The step that failed, as a sentence.
pub(super) fn open(
    folder: &Path,
    frames: &[(&str, u32)],
    data: &Path,
    budget_ms: u32,
    is_dark: bool,
) -> Result<Vec<Value>, String> {
    let frames: Vec<String> = frames
        .iter()
        .map(|(file, width)| {
            format!("<iframe src=\"{file}\" width=\"{width}\" height=\"900\"></iframe>")
        })
        .collect();
    let frames = frames.concat();
    // The listener precedes the frames: a small page may post before the last frame is parsed.
    let page = format!(
        "<!DOCTYPE html><body><pre id=\"found\"></pre><script>\
         addEventListener('message', (event) => {{\
         const found = document.getElementById('found');\
         found.textContent += JSON.stringify(event.data) + '\\n'; }});</script>{frames}"
    );
    let around = folder.join("frames.probe.html");
    fs::write(&around, page).map_err(|error| format!("{}: {error}", around.display()))?;
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-quic", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking"])
        .args(["--disable-component-update", "--window-size=1600,1000"])
        .arg(format!("--user-data-dir={}", data.display()))
        .arg(format!("--virtual-time-budget={budget_ms}"))
        .arg(format!(
            "--blink-settings=preferredColorScheme={}",
            u8::from(!is_dark)
        ))
        .args(["--dump-dom", &format!("file://{}", around.display())])
        .output()
        .map_err(|error| format!("chromium does not start: {error}"));
    let _ = fs::remove_file(&around);
    let page = String::from_utf8(output?.stdout).map_err(|_| "chromium printed no text")?;
    let found = page.split_once("<pre id=\"found\">");
    let found = found.and_then(|(_, rest)| rest.split_once("</pre>"));
    let plain = found
        .ok_or("chromium printed another page")?
        .0
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    plain
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|_| format!("a probe posted {line}")))
        .collect()
}
