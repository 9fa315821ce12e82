//! Documents that a program writes say what the program would write today.
//!
//! A document is written again only when something it is made from has changed since it was last found
//! fresh in this build directory ([`stamps`]).

mod stamps;

use std::{fs, process::Command, time::Instant};

use anyhow::{Context, Result, ensure};

use stamps::Stamps;

use super::{Finding, reference, tree::Tree};
use crate::{process, steps, workspace::Workspace};

/// A committed file and the arguments of `carob` that print it.
#[derive(Clone, Copy)]
struct Document {
    path: &'static str,
    arguments: &'static [&'static str],
    is_narrow: bool,
}

impl Document {
    const fn new(path: &'static str, arguments: &'static [&'static str]) -> Self {
        Self {
            path,
            arguments,
            is_narrow: false,
        }
    }

    /// The file's path; that of a narrow figure ends with `-narrow`.
    fn path(&self) -> String {
        match self.path.strip_suffix(".svg") {
            Some(stem) if self.is_narrow => format!("{stem}-narrow.svg"),
            _ => self.path.to_owned(),
        }
    }

    fn arguments(&self) -> impl Iterator<Item = &'static str> {
        let narrow = self.is_narrow.then_some("--narrow");
        self.arguments.iter().copied().chain(narrow)
    }
}

/// All documents: each figure also for a phone.
fn documents() -> impl Iterator<Item = Document> {
    let both = |document: Document| {
        let is_figure = super::has_extension(document.path, "svg");
        let narrow = Document {
            is_narrow: true,
            ..document
        };
        std::iter::once(document).chain(is_figure.then_some(narrow))
    };
    DOCUMENTS.iter().chain(FIGURES).copied().flat_map(both)
}

const DOCUMENTS: &[Document] = &[
    Document::new(
        "docs/calibration-cocoaplus.md",
        &["lab", "calibrate", "cocoaplus", "--markdown"],
    ),
    Document::new(
        "docs/calibration-cocoaplus.svg",
        &["lab", "calibrate", "cocoaplus", "--svg"],
    ),
    Document::new(
        "docs/calibration-nonobserve.md",
        &["lab", "calibrate", "nonobserve", "--markdown"],
    ),
    Document::new(
        "docs/calibration-nonobserve.svg",
        &["lab", "calibrate", "nonobserve", "--svg"],
    ),
    Document::new(
        "docs/calibration-retrycount.md",
        &["lab", "calibrate", "retrycount", "--markdown"],
    ),
    Document::new(
        "docs/calibration-retrycount.svg",
        &["lab", "calibrate", "retrycount", "--svg"],
    ),
    Document::new(
        "docs/calibration-rpl.md",
        &["lab", "calibrate", "rpl", "--markdown"],
    ),
    Document::new(
        "docs/calibration-rpl.svg",
        &["lab", "calibrate", "rpl", "--svg"],
    ),
    Document::new(
        "docs/calibration-thesis.md",
        &["lab", "calibrate", "thesis", "--markdown"],
    ),
    Document::new(
        "docs/calibration-thesis.svg",
        &["lab", "calibrate", "thesis", "--svg"],
    ),
    Document::new("docs/evidence/claims.md", &["lab", "claims", "--markdown"]),
    Document::new("docs/claims.md", &["lab", "claims", "thesis", "--markdown"]),
    Document::new(
        "docs/cocoaplus-claims.md",
        &["lab", "claims", "cocoaplus", "--markdown"],
    ),
    Document::new(
        "docs/cocoaplus-load.svg",
        &[
            "lab",
            "run",
            "cocoaplus/constant-6x6-lossy",
            "--seeds",
            "3",
            "--svg",
            "load",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/cocoaplus-reproduction.md",
        &["lab", "reproduce", "cocoaplus", "--markdown"],
    ),
    Document::new(
        "docs/collapse.svg",
        &[
            "lab",
            "run",
            "thesis/short-random-400c-none-inf",
            "--algorithm",
            "default,cocoa-001,default-fb2,cocoa-fb2,fasor,tcp-newreno",
            "--seeds",
            "3",
            "--svg",
            "link",
            "--no-report",
        ],
    ),
    Document::new("docs/controllers.md", &["cc", "list", "--markdown"]),
    Document::new("docs/profiles.md", &["profiles", "--markdown"]),
    Document::new(
        "docs/completion-times.svg",
        &[
            "lab",
            "run",
            "thesis/long-1c-high-2500",
            "--algorithm",
            "carob,cocoa-strong,cocoa-4state,fasor-token,cocoa-03,cocoa-plus,default,tcp-newreno,tcp-bbr1",
            "--seeds",
            "60",
            "--set",
            "first_seed=200001",
            "--svg",
            "ratios",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/fairness.svg",
        &[
            "lab",
            "run",
            "carob/fairness",
            "--seeds",
            "5",
            "--svg",
            "mix",
            "--no-report",
        ],
    ),
    Document::new("docs/limits.md", &["serve", "--limits", "--markdown"]),
    Document::new(
        "docs/nonobserve-claims.md",
        &["lab", "claims", "nonobserve", "--markdown"],
    ),
    Document::new(
        "docs/notifications-gprs.svg",
        &[
            "lab",
            "run",
            "nonobserve/gprs",
            "--svg",
            "pdr",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/notifications-rto.svg",
        &[
            "lab",
            "run",
            "nonobserve/umts-1s-25S3n",
            "--algorithm",
            "cocoa-002",
            "--seed",
            "1",
            "--svg",
            "rto",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/notifications-umts.svg",
        &[
            "lab",
            "run",
            "nonobserve/umts",
            "--svg",
            "pdr",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/reproduction.md",
        &["lab", "reproduce", "thesis", "--markdown"],
    ),
    Document::new(
        "docs/retrycount-claims.md",
        &["lab", "claims", "retrycount", "--markdown"],
    ),
    Document::new(
        "docs/retrycount/clients.svg",
        &[
            "lab",
            "run",
            "retrycount/clients",
            "--svg",
            "clients",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/retrycount/service.svg",
        &[
            "lab",
            "run",
            "retrycount/service",
            "--svg",
            "clients",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/retrycount/timers.svg",
        &[
            "lab",
            "run",
            "retrycount/rto-scatter-100",
            "--svg",
            "timers",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/retrycount/timers-fast-link.svg",
        &[
            "lab",
            "run",
            "retrycount/rto-scatter-100",
            "--set",
            "down.rate=100 kbit/s",
            "--set",
            "up.rate=100 kbit/s",
            "--svg",
            "timers",
            "--no-report",
        ],
    ),
    Document::new("docs/reference/cli.md", &["man", "--markdown"]),
    Document::new(
        "docs/reference/figures.md",
        &["lab", "figures", "--markdown"],
    ),
    Document::new(
        "docs/reference/lab-metrics.md",
        &["lab", "metrics", "--markdown"],
    ),
    Document::new(
        "docs/rpl-circle.svg",
        &[
            "lab",
            "run",
            "rpl/wilab-rpl-1s",
            "--seeds",
            "1",
            "--svg",
            "circle",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/rpl-claims.md",
        &["lab", "claims", "rpl", "--markdown"],
    ),
    Document::new(
        "docs/rpl-isolated.svg",
        &[
            "lab",
            "run",
            "rpl/pint-rpl-1s",
            "--seeds",
            "1",
            "--svg",
            "circle",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/rpl-load.svg",
        &[
            "lab",
            "run",
            "rpl/wilab-rpl",
            "--seeds",
            "3",
            "--svg",
            "load",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/rpl-pint-depth.svg",
        &[
            "lab",
            "run",
            "rpl/pint-idle",
            "--svg",
            "depth",
            "--no-report",
        ],
    ),
    Document::new(
        "docs/rpl-wilab-depth.svg",
        &[
            "lab",
            "run",
            "rpl/wilab-idle",
            "--svg",
            "depth",
            "--no-report",
        ],
    ),
    Document::new("docs/scenario-keys.md", &["lab", "keys", "--markdown"]),
    Document::new(
        "docs/thesis-figures.md",
        &["lab", "reproduce", "thesis", "--figures"],
    ),
    Document::new("docs/timers.svg", &["cc", "trace", "--demo", "--svg"]),
];

/// Figures of docs/thesis-figures.md: each as `docs/thesis/NAME.svg`. The page shows every figure
/// there is, so that one missing here is found as a link to nothing.
macro_rules! figures {
    ($($name:literal)*) => {
        const FIGURES: &[Document] = &[$(Document::new(
            concat!("docs/thesis/", $name, ".svg"),
            &["lab", "reproduce", "thesis", "--svg", $name],
        ),)*];
    };
}

figures! {
    "fct-1c-none" "fct-1c-low" "fct-1c-medium" "fct-1c-high" "fct-4c-none" "fct-4c-low"
    "early-losses" "overshoot" "overshoot-detail" "bbr-small-buffer" "bbr-small-buffer-detail"
    "turns-28200" "turns-28200-detail" "turns-inf" "idle-medium" "stalled"
}

pub(super) fn check(
    workspace: &Workspace,
    tree: &Tree,
    with_figures: bool,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut stamps = Stamps::load(workspace, tree)?;
    let (mut unchanged, mut built) = (0, false);
    for page in reference::PAGES {
        let fresh = (page.text)(tree)?;
        findings.extend(compare(page.path, tree.text(page.path), &fresh));
    }
    for document in documents() {
        let path = document.path();
        if !with_figures && super::has_extension(&path, "svg") {
            continue;
        }
        let committed = tree.text(&path);
        if stamps.is_fresh(&document, committed) {
            unchanged += 1;
            continue;
        }
        if !built {
            build(workspace)?;
            built = true;
        }
        let fresh = contents(workspace, &document)?;
        let finding = compare(&path, committed, &fresh);
        if finding.is_none() {
            stamps.add(&document, &fresh);
        }
        findings.extend(finding);
    }
    stamps.save()?;
    println!("generated documents with unchanged inputs, not written again: {unchanged}");
    Ok(findings)
}

/// Rewrites the generated documents whose paths contain one of `parts`, or all of them.
///
/// # Errors
/// When no path contains one of the parts, or a document cannot be made.
pub(crate) fn generate(workspace: &Workspace, parts: &[String]) -> Result<()> {
    let chosen = |path: &str| parts.is_empty() || parts.iter().any(|part| path.contains(part));
    let pages: Vec<_> = (reference::PAGES.iter())
        .filter(|page| chosen(page.path))
        .collect();
    let documents: Vec<_> = documents()
        .filter(|document| chosen(&document.path()))
        .collect();
    ensure!(
        !pages.is_empty() || !documents.is_empty(),
        "no generated document has {} in its path",
        parts.join(" or ")
    );
    let tree = Tree::load(&workspace.root)?;
    for page in pages {
        write(workspace, page.path, &(page.text)(&tree)?)?;
        println!("{}", page.path);
    }
    if !documents.is_empty() {
        build(workspace)?;
    }
    for document in documents {
        write(
            workspace,
            &document.path(),
            &contents(workspace, &document)?,
        )?;
    }
    Ok(())
}

fn write(workspace: &Workspace, path: &str, text: &str) -> Result<()> {
    let path = workspace.root.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Builds `carob` as the tests have it, so that no document seems to take as long as that.
fn build(workspace: &Workspace) -> Result<()> {
    ensure!(
        steps::build_tests(workspace)?.is_some(),
        "`carob` does not build"
    );
    Ok(())
}

/// Returns what `carob` prints for a document; a line tells how long that took.
fn contents(workspace: &Workspace, document: &Document) -> Result<String> {
    let start = Instant::now();
    let mut command = Command::new(workspace.target()?.join("debug/carob"));
    command.args(document.arguments());
    let text = process::output(command.current_dir(&workspace.root))?;
    println!(
        "{} ({:.1} s)",
        document.path(),
        start.elapsed().as_secs_f64()
    );
    Ok(text)
}

fn compare(path: &str, committed: Option<&str>, fresh: &str) -> Option<Finding> {
    let Some(committed) = committed else {
        return Some(Finding::in_file(
            path,
            "missing; run `cargo xtask generate`",
        ));
    };
    if committed == fresh {
        return None;
    }
    // Where only the end differs, the first line beyond the shorter text is the place.
    let same = committed
        .lines()
        .zip(fresh.lines())
        .take_while(|(old, new)| old == new)
        .count();
    Some(Finding::at_line(
        path,
        same + 1,
        "stale; run `cargo xtask generate`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_is_drawn_for_a_phone_too() {
        let figures =
            documents().filter(|document| super::super::has_extension(&document.path(), "svg"));
        let (narrow, wide): (Vec<_>, Vec<_>) = figures.partition(|figure| figure.is_narrow);
        assert_eq!(narrow.len(), wide.len());
        assert_eq!(
            narrow[0].path(),
            wide[0].path().replace(".svg", "-narrow.svg")
        );
        assert_eq!(narrow[0].arguments().last(), Some("--narrow"));
    }

    #[test]
    fn an_equal_document_is_fresh() {
        assert_eq!(compare("a.md", Some("x\ny\n"), "x\ny\n"), None);
    }

    #[test]
    fn a_stale_document_is_found_at_its_first_difference() {
        let found = compare("a.md", Some("x\ny\n"), "x\nz\n").expect("they differ");
        assert_eq!(found.line, Some(2));
        let found = compare("a.md", Some("x\n"), "x\nz\n").expect("one is longer");
        assert_eq!(found.line, Some(2));
    }

    #[test]
    fn a_missing_document_is_found() {
        assert!(compare("a.md", None, "x").is_some());
    }
}
