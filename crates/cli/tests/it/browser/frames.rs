//! Pages in frames of one page, opened by headless Chromium without the connections that it makes by itself.
//! The probe of each page posts what it found to the page around it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Opens files of a folder, each in a frame of a width in pixels. `data` is the folder of Chromium's profile,
/// `budget_ms` the virtual time that pages have, and `is_dark` the colours that the reader prefers. Returns what
/// the probes posted.
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
    // The listener comes first: a small page may post before the last frame is read.
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
    // The folder is left as it was; what the page says was read.
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
