//! Reference pages that follow from files of the repository without running a program: metrics,
//! requirements of the RFCs, event log.

mod event_log;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::Tree;

/// A committed page and its text by the repository's files.
pub(super) struct Page {
    pub(super) path: &'static str,
    pub(super) text: fn(&Tree) -> Result<String>,
}

pub(super) const PAGES: &[Page] = &[
    Page {
        path: "docs/reference/event-log.md",
        text: event_log::page,
    },
    Page {
        path: "docs/reference/event-log.schema.json",
        text: event_log::schema,
    },
    Page {
        path: "docs/reference/metrics.md",
        text: metrics,
    },
    Page {
        path: "docs/reference/requirements.md",
        text: requirements,
    },
];

const METRICS: &str = "crates/carob/src/metrics/names.md";
const LEDGER: &str = "vectors/requirements.toml";

/// The text of a file that a page is made from.
fn source<'a>(tree: &'a Tree, path: &str) -> Result<&'a str> {
    tree.text(path)
        .with_context(|| format!("{path} is missing"))
}

fn metrics(tree: &Tree) -> Result<String> {
    Ok(format!(
        "# Metrics\n\n\
         For operators with Prometheus. Prerequisite: [metrics and alerts](../operate/metrics.md).\n\
         Generated from the names in the library; `cargo xtask generate` rewrites it.\n\n\
         `scheme` is the scheme of the endpoint (`coap`, `coaps`, `coap+tcp`, ...). Histograms are in seconds. Names that end in\n\
         `_total` are counters, all others gauges or histograms.\n\n\
         {}\n\
         Next: [scenario keys](../scenario-keys.md).\n",
        source(tree, METRICS)?
    ))
}

/// One entry of the ledger, as far as the page shows it.
struct Requirement<'a> {
    rfc: &'a str,
    section: &'a str,
    level: &'a str,
    about: &'a str,
    status: &'a str,
    reason: &'a str,
}

fn requirements(tree: &Tree) -> Result<String> {
    let ledger: toml::Table = source(tree, LEDGER)?.parse()?;
    let entries = ledger.get("requirement").and_then(toml::Value::as_array);
    let mut all = Vec::new();
    for entry in entries.into_iter().flatten() {
        let text = |key: &str| entry.get(key).and_then(toml::Value::as_str).unwrap_or("");
        let id = text("id");
        all.push(Requirement {
            rfc: id.split_once('-').context("an id names its RFC")?.0,
            section: text("section"),
            level: text("level"),
            about: text("about"),
            status: text("status"),
            reason: text("reason"),
        });
    }
    let mut page = String::from(
        "# Requirements of the RFCs\n\n\
         For reviewers of conformance. Prerequisite: RFC 2119. Generated from `vectors/requirements.toml`;\n\
         `cargo xtask generate` rewrites it.\n\n\
         The ledger has an entry for each key word MUST, SHOULD and their negations. An entry is met if the tests that it names\n\
         show it. `cargo xtask tidy requirements` checks that these tests exist.\n\n\
         | RFC | met | departed | not applicable |\n|---|---:|---:|---:|\n",
    );
    let mut counts: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for entry in &all {
        let statuses = ["met", "departed", "not-applicable"];
        let place = statuses.iter().position(|status| *status == entry.status);
        let place = place.with_context(|| format!("status `{}` has no column", entry.status))?;
        counts.entry(entry.rfc).or_default()[place] += 1;
    }
    for (rfc, [met, departed, foreign]) in &counts {
        writeln!(page, "| {} | {met} | {departed} | {foreign} |", title(rfc))?;
    }
    page.push_str(
        "\n## Departures\n\n| RFC | section | level | requirement | reason |\n|---|---|---|---|---|\n",
    );
    for entry in all.iter().filter(|entry| entry.status == "departed") {
        let row = [
            &title(entry.rfc),
            entry.section,
            entry.level,
            entry.about,
            entry.reason,
        ];
        let row = row.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        writeln!(page, "| {} |", row.join(" | "))?;
    }
    page.push_str("\nNext: [interoperability](../interoperability.md).\n");
    Ok(page)
}

fn title(rfc: &str) -> String {
    rfc.replace("rfc", "RFC ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_departure_is_listed_with_its_reason() {
        let ledger = "[[requirement]]\nid = \"rfc1-2-01\"\nsection = \"2\"\nlevel = \"MUST\"\n\
                      about = \"a | b\"\nstatus = \"departed\"\nreason = \"because\"\n\
                      [[requirement]]\nid = \"rfc1-2-02\"\nstatus = \"met\"\n";
        let page = requirements(&Tree::of(&[(LEDGER, ledger)])).unwrap();
        assert!(page.contains("| RFC 1 | 1 | 1 | 0 |"), "{page}");
        assert!(page.contains("| RFC 1 | 2 | MUST | a \\| b | because |"));
    }

    #[test]
    fn a_status_without_a_column_is_an_error() {
        let ledger = "[[requirement]]\nid = \"rfc1-2-01\"\nstatus = \"open\"\n";
        assert!(requirements(&Tree::of(&[(LEDGER, ledger)])).is_err());
    }
}
