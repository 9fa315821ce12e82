//! Removal of the defences of `xtask/defences.toml`, one at a time, in a copy of the repository: the test of the attack must
//! then fail.

use std::{fmt::Write as _, fs, path::Path, process::Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{process, workspace::Workspace};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defence {
    attack: String,
    without: String,
    file: String,
    /// Texts to replace, each with its replacement.
    changes: Vec<[String; 2]>,
    /// Package, module of its integration tests and test.
    test: [String; 3],
}

fn defences() -> Result<Vec<Defence>> {
    let mut table: toml::Table = include_str!("../defences.toml").parse()?;
    let list = table.remove("defence").context("no defences")?;
    list.try_into().context("xtask/defences.toml")
}

pub(crate) fn run(workspace: &Workspace, results: &Path, options: &[String]) -> Result<bool> {
    ensure!(options.is_empty(), "`long defences` takes no options");
    let place = workspace.target()?.join("defences");
    let (tree, build) = (place.join("tree"), place.join("build"));
    copy(&workspace.root, &tree)?;
    let mut text = String::from(
        "# Attack tests without the defence\n\n\
         For reviewers of the defences in [overload.md](../../../docs/overload.md). `cargo xtask long defences` removes each of these defences from a\n\
         copy of the code and runs the test of its attack, which must then fail. A setting disables each of the other defences, and\n\
         their tests use it.\n\n\
         | attack | change that removes the defence | test with the defence | without |\n|---|---|---|---|\n",
    );
    let defences = defences()?;
    // All with the defence first: a change compiles its crate and the tests again.
    let with: Vec<_> = defences
        .iter()
        .map(|defence| passes(&tree, &build, defence))
        .collect();
    let mut success = true;
    for (defence, with) in defences.iter().zip(with) {
        println!("{}: {}", defence.attack, defence.without);
        let file = tree.join(&defence.file);
        let whole = fs::read_to_string(&file)?;
        let with = with?;
        fs::write(&file, changed(defence, &whole)?)?;
        let without = passes(&tree, &build, defence);
        fs::write(&file, whole)?;
        let without = without?;
        success &= with && !without;
        let word = |passes| if passes { "passes" } else { "fails" };
        let mark = if with && !without { "" } else { " (**wrong**)" };
        let [package, module, name] = &defence.test;
        writeln!(
            text,
            "| {} | {} | `{package}`, `{module}`: `{name}` {} | {}{mark} |",
            defence.attack,
            defence.without,
            word(with),
            word(without)
        )?;
    }
    print!("\n{text}");
    fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(success)
}

/// The file without the defence.
fn changed(defence: &Defence, whole: &str) -> Result<String> {
    let mut text = whole.to_owned();
    for [from, to] in &defence.changes {
        let count = text.matches(from).count();
        ensure!(count == 1, "{} has {count} times {from}", defence.file);
        text = text.replacen(from, to, 1);
    }
    Ok(text)
}

/// Copies the files that git knows. Equal files of an earlier copy keep their times, so that little is compiled again.
fn copy(root: &Path, tree: &Path) -> Result<()> {
    let mut copied = 0;
    for name in Workspace::files(root)? {
        let (from, to) = (root.join(&name), tree.join(&name));
        let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
        copied += 1;
    }
    println!("{copied} files copied to {}", tree.display());
    Ok(())
}

/// Builds and runs a test. Returns true if it passes.
fn passes(tree: &Path, build: &Path, defence: &Defence) -> Result<bool> {
    let [package, module, name] = &defence.test;
    let cargo = |more: &[&str]| {
        let mut command = process::cargo();
        command.args(["test", "--quiet", "--package", package]);
        command.args(["--all-features", "--test", "it"]);
        command.args(["--config", "profile.dev.package.carob-proto.opt-level=0"]);
        command.args(more).current_dir(tree);
        command.env("CARGO_TARGET_DIR", build);
        command
    };
    process::must(&mut cargo(&["--no-run"])).with_context(|| defence.file.clone())?;
    let test = format!("{module}::{name}");
    let mut run = cargo(&["--", "--exact", &test]);
    let output = run.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        text.contains("running 1 test"),
        "{package} has no test `{test}`"
    );
    Ok(output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defence_and_its_test_exist() {
        let root = Workspace::find().expect("the workspace").root;
        for defence in defences().expect("a valid list") {
            let whole = fs::read_to_string(root.join(&defence.file)).expect(&defence.file);
            assert_ne!(whole, changed(&defence, &whole).expect(&defence.attack));
            let [package, module, name] = &defence.test;
            let package = package.trim_start_matches("carob-");
            let module = module.replace("::", "/");
            let file = root.join(format!("crates/{package}/tests/it/{module}.rs"));
            let text = fs::read_to_string(file).expect(&module);
            assert!(text.contains(&format!("fn {name}(")), "{name}");
        }
    }
}
