//! Documents that a program writes say what the program would write today.
//!
//! A document is written again only when something it is made from has changed since it was last found
//! fresh in this build directory ([`stamps`]).

mod stamps;

use std::{fs, time::Instant};

use anyhow::{Context, Result, ensure};

use stamps::Stamps;

use super::{Finding, reference, tree::Tree};
use crate::{process, steps::watch, workspace::Workspace};

/// A committed file and the arguments of `carob` that print it.
struct Document {
    path: &'static str,
    arguments: &'static [&'static str],
}

const DOCUMENTS: &[Document] = &[
    Document {
        path: "docs/calibration-cocoaplus.md",
        arguments: &["lab", "calibrate", "cocoaplus", "--markdown"],
    },
    Document {
        path: "docs/calibration-cocoaplus.svg",
        arguments: &["lab", "calibrate", "cocoaplus", "--svg"],
    },
    Document {
        path: "docs/calibration-nonobserve.md",
        arguments: &["lab", "calibrate", "nonobserve", "--markdown"],
    },
    Document {
        path: "docs/calibration-nonobserve.svg",
        arguments: &["lab", "calibrate", "nonobserve", "--svg"],
    },
    Document {
        path: "docs/calibration-retrycount.md",
        arguments: &["lab", "calibrate", "retrycount", "--markdown"],
    },
    Document {
        path: "docs/calibration-retrycount.svg",
        arguments: &["lab", "calibrate", "retrycount", "--svg"],
    },
    Document {
        path: "docs/calibration-rpl.md",
        arguments: &["lab", "calibrate", "rpl", "--markdown"],
    },
    Document {
        path: "docs/calibration-rpl.svg",
        arguments: &["lab", "calibrate", "rpl", "--svg"],
    },
    Document {
        path: "docs/calibration-thesis.md",
        arguments: &["lab", "calibrate", "thesis", "--markdown"],
    },
    Document {
        path: "docs/calibration-thesis.svg",
        arguments: &["lab", "calibrate", "thesis", "--svg"],
    },
    Document {
        path: "docs/evidence/claims.md",
        arguments: &["lab", "claims", "--markdown"],
    },
    Document {
        path: "docs/claims.md",
        arguments: &["lab", "claims", "thesis", "--markdown"],
    },
    Document {
        path: "docs/cocoaplus-claims.md",
        arguments: &["lab", "claims", "cocoaplus", "--markdown"],
    },
    Document {
        path: "docs/cocoaplus-load.svg",
        arguments: &[
            "lab",
            "run",
            "cocoaplus/constant-6x6-lossy",
            "--seeds",
            "3",
            "--svg",
            "load",
            "--no-report",
        ],
    },
    Document {
        path: "docs/cocoaplus-reproduction.md",
        arguments: &["lab", "reproduce", "cocoaplus", "--markdown"],
    },
    Document {
        path: "docs/collapse.svg",
        arguments: &[
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
    },
    Document {
        path: "docs/controllers.md",
        arguments: &["cc", "list", "--markdown"],
    },
    Document {
        path: "docs/profiles.md",
        arguments: &["profiles", "--markdown"],
    },
    Document {
        path: "docs/completion-times.svg",
        arguments: &[
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
    },
    Document {
        path: "docs/fairness.svg",
        arguments: &[
            "lab",
            "run",
            "carob/fairness",
            "--seeds",
            "5",
            "--svg",
            "mix",
            "--no-report",
        ],
    },
    Document {
        path: "docs/limits.md",
        arguments: &["serve", "--limits", "--markdown"],
    },
    Document {
        path: "docs/nonobserve-claims.md",
        arguments: &["lab", "claims", "nonobserve", "--markdown"],
    },
    Document {
        path: "docs/notifications-gprs.svg",
        arguments: &[
            "lab",
            "run",
            "nonobserve/gprs",
            "--svg",
            "pdr",
            "--no-report",
        ],
    },
    Document {
        path: "docs/notifications-rto.svg",
        arguments: &[
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
    },
    Document {
        path: "docs/notifications-umts.svg",
        arguments: &[
            "lab",
            "run",
            "nonobserve/umts",
            "--svg",
            "pdr",
            "--no-report",
        ],
    },
    Document {
        path: "docs/reproduction.md",
        arguments: &["lab", "reproduce", "thesis", "--markdown"],
    },
    Document {
        path: "docs/retrycount-claims.md",
        arguments: &["lab", "claims", "retrycount", "--markdown"],
    },
    Document {
        path: "docs/retrycount/clients.svg",
        arguments: &[
            "lab",
            "run",
            "retrycount/clients",
            "--svg",
            "clients",
            "--no-report",
        ],
    },
    Document {
        path: "docs/retrycount/service.svg",
        arguments: &[
            "lab",
            "run",
            "retrycount/service",
            "--svg",
            "clients",
            "--no-report",
        ],
    },
    Document {
        path: "docs/retrycount/timers.svg",
        arguments: &[
            "lab",
            "run",
            "retrycount/rto-scatter-100",
            "--svg",
            "timers",
            "--no-report",
        ],
    },
    Document {
        path: "docs/retrycount/timers-fast-link.svg",
        arguments: &[
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
    },
    Document {
        path: "docs/reference/cli.md",
        arguments: &["man", "--markdown"],
    },
    Document {
        path: "docs/reference/figures.md",
        arguments: &["lab", "figures", "--markdown"],
    },
    Document {
        path: "docs/reference/lab-metrics.md",
        arguments: &["lab", "metrics", "--markdown"],
    },
    Document {
        path: "docs/rpl-circle.svg",
        arguments: &[
            "lab",
            "run",
            "rpl/wilab-rpl-1s",
            "--seeds",
            "1",
            "--svg",
            "circle",
            "--no-report",
        ],
    },
    Document {
        path: "docs/rpl-claims.md",
        arguments: &["lab", "claims", "rpl", "--markdown"],
    },
    Document {
        path: "docs/rpl-isolated.svg",
        arguments: &[
            "lab",
            "run",
            "rpl/pint-rpl-1s",
            "--seeds",
            "1",
            "--svg",
            "circle",
            "--no-report",
        ],
    },
    Document {
        path: "docs/rpl-load.svg",
        arguments: &[
            "lab",
            "run",
            "rpl/wilab-rpl",
            "--seeds",
            "3",
            "--svg",
            "load",
            "--no-report",
        ],
    },
    Document {
        path: "docs/rpl-pint-depth.svg",
        arguments: &[
            "lab",
            "run",
            "rpl/pint-idle",
            "--svg",
            "depth",
            "--no-report",
        ],
    },
    Document {
        path: "docs/rpl-wilab-depth.svg",
        arguments: &[
            "lab",
            "run",
            "rpl/wilab-idle",
            "--svg",
            "depth",
            "--no-report",
        ],
    },
    Document {
        path: "docs/scenario-keys.md",
        arguments: &["lab", "keys", "--markdown"],
    },
    Document {
        path: "docs/thesis-figures.md",
        arguments: &["lab", "reproduce", "thesis", "--figures"],
    },
    Document {
        path: "docs/timers.svg",
        arguments: &["cc", "trace", "--demo", "--svg"],
    },
];

/// Figures of docs/thesis-figures.md: each as `docs/thesis/NAME.svg`. The page shows every figure
/// there is, so that one missing here is found as a link to nothing.
macro_rules! figures {
    ($($name:literal)*) => {
        const FIGURES: &[Document] = &[$(Document {
            path: concat!("docs/thesis/", $name, ".svg"),
            arguments: &["lab", "reproduce", "thesis", "--svg", $name],
        },)*];
    };
}

figures! {
    "fct-1c-none" "fct-1c-low" "fct-1c-medium" "fct-1c-high" "fct-4c-none" "fct-4c-low"
    "early-losses" "overshoot" "overshoot-detail" "bbr-small-buffer" "bbr-small-buffer-detail"
    "turns-28200" "turns-28200-detail" "turns-inf" "idle-medium" "stalled"
}

pub(super) fn check(workspace: &Workspace, tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut stamps = Stamps::load(workspace, tree)?;
    let (mut unchanged, mut built) = (0, false);
    for page in reference::PAGES {
        let fresh = (page.text)(tree)?;
        findings.extend(compare(page.path, tree.text(page.path), &fresh));
    }
    for document in DOCUMENTS.iter().chain(FIGURES) {
        let committed = tree.text(document.path);
        if stamps.is_fresh(document, committed) {
            unchanged += 1;
            continue;
        }
        if !built {
            build(workspace)?;
            built = true;
        }
        let fresh = contents(workspace, document)?;
        let finding = compare(document.path, committed, &fresh);
        if finding.is_none() {
            stamps.add(document, &fresh);
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
    let documents: Vec<_> = (DOCUMENTS.iter().chain(FIGURES))
        .filter(|document| chosen(document.path))
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
        write(workspace, document.path, &contents(workspace, document)?)?;
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

/// Builds `carob`, so that no document seems to take as long as that.
fn build(workspace: &Workspace) -> Result<()> {
    let mut command = process::cargo();
    command.args(["build", "--package", "carob-cli"]);
    let built = watch::succeeds(command.current_dir(&workspace.root))?;
    ensure!(built, "`carob` does not build");
    Ok(())
}

/// Returns what `carob` prints for a document; a line tells how long that took.
fn contents(workspace: &Workspace, document: &Document) -> Result<String> {
    let start = Instant::now();
    let mut command = process::cargo();
    command
        .args(["run", "--quiet", "--package", "carob-cli", "--"])
        .args(document.arguments);
    let text = process::output(command.current_dir(&workspace.root))?;
    println!("{} ({:.1} s)", document.path, start.elapsed().as_secs_f64());
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
