//! `cargo xtask release-check`: everything that a release needs, and a stop before anything is published.
//!
//! Its results are in `target/release-check/`: packages of the crates, the program with its dependencies
//! recorded (`cargo auditable`), a static program, a Debian package, a container image, a bill of
//! materials, Python wheels, and their SHA-256 sums.

mod artifacts;
mod documents;
mod image;
mod sbom;
mod tar;
mod wheels;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use sha2::{Digest as _, Sha256};

use crate::steps::Outcome;
use crate::workspace::Workspace;

/// Folder of the results, and values that the checks share.
struct Release<'a> {
    workspace: &'a Workspace,
    version: String,
    folder: PathBuf,
}

/// A name, what is checked, and how.
type Check = (
    &'static str,
    &'static str,
    fn(&Release<'_>) -> Result<Outcome>,
);

const CHECKS: &[Check] = &[
    ("tree", "no uncommitted changes", artifacts::clean_tree),
    (
        "documents",
        "citation, security policy, issue forms",
        |release| {
            let problems = documents::problems(release.workspace)?;
            for problem in &problems {
                println!("{problem}");
            }
            Ok(Outcome::of(problems.is_empty()))
        },
    ),
    ("deny", "licences, sources and advisories", artifacts::deny),
    (
        "packages",
        "each crate builds from its package",
        artifacts::packages,
    ),
    (
        "sbom",
        "bill of materials (CycloneDX)",
        artifacts::bill_of_materials,
    ),
    (
        "program",
        "the dist profile, with its dependencies recorded",
        artifacts::program,
    ),
    (
        "static",
        "a program without a dynamic loader",
        artifacts::static_program,
    ),
    (
        "image",
        "an OCI image layout of the static program",
        artifacts::image,
    ),
    ("deb", "a Debian package", artifacts::debian),
    (
        "wheels",
        "the Python package for older glibc and for musl",
        wheels::check,
    ),
    ("sums", "SHA-256 of the results", artifacts::sums),
];

/// Makes the checks named, or all, and prints what a person does next. Returns true if nothing failed.
pub(crate) fn check(workspace: &Workspace, names: &[String]) -> Result<bool> {
    let known = |name: &&String| CHECKS.iter().any(|(known, ..)| known == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = CHECKS.iter().map(|(name, ..)| *name).collect();
        anyhow::bail!(
            "no check is called `{unknown}`; there are {}",
            all.join(", ")
        );
    }
    let release = Release {
        workspace,
        version: documents::version(workspace)?,
        folder: workspace.target()?.join("release-check"),
    };
    std::fs::create_dir_all(&release.folder)?;
    let mut lines = Vec::new();
    let mut passed = true;
    for (name, about, run) in CHECKS {
        if !names.is_empty() && !names.iter().any(|one| one == name) {
            continue;
        }
        println!("\n== {name}: {about} ==");
        let begin = Instant::now();
        let outcome = run(&release).unwrap_or_else(|error| {
            println!("error: {error:#}");
            Outcome::Failed
        });
        let (word, note) = match &outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::PassedExcept(note) => ("passed", note.as_str()),
            Outcome::Failed => ("FAILED", ""),
            Outcome::Skipped(note) => ("skipped", note.as_str()),
        };
        passed &= outcome != Outcome::Failed;
        let took = begin.elapsed().as_secs_f64();
        lines.push(format!("{name:<10} {word:<8} {took:>6.1} s  {note}"));
    }
    println!();
    for line in lines {
        println!("{}", line.trim_end());
    }
    print!("\n{}", by_hand(&release)?);
    Ok(passed)
}

/// SHA-256 of bytes in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// The rest of a release, which this command does not do.
fn by_hand(release: &Release<'_>) -> Result<String> {
    let version = &release.version;
    let mut steps = Vec::new();
    if !documents::has_heading(release.workspace)? {
        steps.push(format!(
            "in CHANGELOG.md, put a heading `## [{version}] - DATE` below `## [Unreleased]`"
        ));
    }
    if !artifacts::has_repository(release.workspace)? {
        steps
            .push("in Cargo.toml, set `workspace.package.repository` to the public URL".to_owned());
    }
    if !artifacts::has_address(release.workspace)? {
        steps.push(
            "in Cargo.toml, give `workspace.package.authors` an address: that of the Debian package's maintainer"
                .to_owned(),
        );
    }
    steps.push(format!("git tag --sign v{version}"));
    let order = artifacts::PUBLISHED.join(", ");
    steps.push(format!("cargo publish, one crate after the other: {order}"));
    steps.push(format!("upload the files of {}", release.folder.display()));
    let numbered = steps
        .iter()
        .enumerate()
        .map(|(n, step)| format!("  {}. {step}\n", n + 1));
    Ok(format!(
        "Nothing was published. By hand:\n{}",
        numbered.collect::<String>()
    ))
}
