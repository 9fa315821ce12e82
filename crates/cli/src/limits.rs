//! Resource limits of servers: every limit, its default, and the behaviour at it.

use std::fmt::Write as _;

use serde_json::json;

use crate::output;

const PAGE: &str = "\
# Limits

Resource limits, and the behaviour at each limit. `carob serve` and `carob proxy` set each with
`--limit NAME=VALUE`, programs with `Config::limit` or `Config::engine`. Numbers count entries unless the name
says bytes or the text another unit; `carob serve --limits` prints the same list. Their interaction under load is
in [overload.md](overload.md). `carob serve --limits --markdown` writes this page.

| limit | default | meaning, and behaviour at the limit |
|---|---|---|
";

/// A listed limit.
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    pub(crate) default: usize,
    about: String,
}

/// Limits of the files served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLimits {
    /// Bytes of uploads under way on disk.
    pub(crate) upload_disk_bytes: usize,
    /// Files held open for block-wise transfers.
    pub(crate) snapshots: usize,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            upload_disk_bytes: 4 << 30,
            snapshots: 128,
        }
    }
}

/// Name, behaviour at the limit, and value.
type OfFiles = (
    &'static str,
    &'static str,
    fn(&mut FileLimits) -> &mut usize,
);

const OF_FILES: &[OfFiles] = &[
    (
        "upload_disk_bytes",
        "Bytes on disk of uploads in progress (`carob serve --writable`); one source may hold half. At it: 5.03.",
        |limits| &mut limits.upload_disk_bytes,
    ),
    (
        "snapshots",
        "Files larger than 64 KiB held open for block-wise transfers (`carob serve --dir`), so that a transfer \
         reads one state of a file that is replaced meanwhile; one source may hold half. At it, the least \
         recently used is closed.",
        |limits| &mut limits.snapshots,
    ),
];

/// All limits: the library's, and the file server's.
pub(crate) fn all() -> Vec<Listed> {
    let of_library = carob::limits::named().into_iter();
    let of_library = of_library.map(|limit| Listed {
        name: limit.name,
        default: limit.default,
        about: limit.about,
    });
    let of_files = OF_FILES.iter().map(|(name, about, value)| Listed {
        name,
        default: *value(&mut FileLimits::default()),
        about: (*about).to_owned(),
    });
    of_library.chain(of_files).collect()
}

/// Splits limits into the file server's and the library's.
pub(crate) fn of_files(limits: Vec<(String, usize)>) -> (FileLimits, Vec<(String, usize)>) {
    let mut of_files = FileLimits::default();
    let (files, others): (Vec<_>, Vec<_>) = (limits.into_iter())
        .partition(|(name, _)| OF_FILES.iter().any(|(known, ..)| known == name));
    for (name, value) in files {
        let known = OF_FILES.iter().find(|(known, ..)| *known == name);
        if let Some((.., of)) = known {
            *of(&mut of_files) = value;
        }
    }
    (of_files, others)
}

/// The list of all limits: for people, as JSON, or as a page.
pub(crate) fn list(as_json: bool, as_page: bool) -> String {
    let all = all();
    // Writing to a String cannot fail, here and below.
    let mut text = String::new();
    if as_json {
        for Listed {
            name,
            default,
            about,
        } in &all
        {
            let about = plain(about);
            let object = json!({ "name": name, "default": default, "about": about });
            _ = writeln!(text, "{object}");
        }
    } else if as_page {
        text.push_str(PAGE);
        for Listed {
            name,
            default,
            about,
        } in &all
        {
            let (default, about) = (number(*default), plain(about));
            _ = writeln!(text, "| `{name}` | {default} | {about} |");
        }
    } else {
        for Listed {
            name,
            default,
            about,
        } in &all
        {
            _ = writeln!(text, "{name}={default}");
            let width = output::columns().map_or(92, |columns| columns.min(96) - 4);
            let about = plain(about).replace('`', "");
            for line in output::filled(about.split_whitespace(), width) {
                _ = writeln!(text, "    {line}");
            }
        }
    }
    text
}

/// A text without the targets of its links.
fn plain(about: &str) -> String {
    let mut plain = String::new();
    let mut rest = about;
    while let Some((before, link)) = rest.split_once("](") {
        let (_, after) = link.split_once(')').unwrap_or((link, ""));
        plain.push_str(before);
        rest = after;
    }
    plain.push_str(rest);
    plain.replace("[`", "`")
}

fn number(number: usize) -> String {
    match number {
        0 => "0".to_owned(),
        bytes if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        other => output::thousands(other as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_texts_have_plain_links_and_grouped_numbers() {
        assert_eq!(plain("With [`Q`](a::Q), x [y]."), "With `Q`, x [y].");
        let numbers = [0, 5, 1_000, 65_536, 64 << 20, 1_234_567].map(number);
        assert_eq!(
            numbers,
            ["0", "5", "1,000", "65,536", "64 MiB", "1,234,567"]
        );
    }
}
