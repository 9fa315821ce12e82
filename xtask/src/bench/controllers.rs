//! Cost of each controller: state, flash on a Cortex-M4, time for a step;
//! `docs/controller-costs.md`.
//!
//! State is the size of its type, here and on the Cortex-M4. Flash is that of a program that is
//! nothing but calls to it (`tools/flash`), less that of the same program without a controller.
//! Time is what `crates/cc/benches/step.rs` measures.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{process, steps::bare_metal, workspace::Workspace};

const DOCUMENT: &str = "docs/controller-costs.md";
const LINKER: &str = "ld.lld-16";

/// A controller of the registry, as `cc list --json` has it.
#[derive(Deserialize)]
struct Controller {
    name: String,
    path: String,
    project_choice: bool,
    state_bytes: u64,
}

/// Sizes of one program for the bare machine.
#[derive(Clone, Copy)]
struct Program {
    /// Code and constants.
    flash: u64,
    /// The controller's state, all that it keeps in memory.
    state: u64,
}

pub(super) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    if let Some(extra) = arguments.first() {
        bail!("`bench controllers` takes no arguments, but `{extra}` was given");
    }
    let listed = process::output(
        process::cargo()
            .args([
                "run",
                "--quiet",
                "--release",
                "--package",
                "carob-cli",
                "--",
            ])
            .args(["cc", "list", "--json"])
            .current_dir(&workspace.root),
    )?;
    let controllers: Vec<Controller> =
        serde_json::from_str(&listed).context("`carob cc list --json`")?;
    println!("time a step");
    let measured = process::output(
        process::cargo()
            .args([
                "bench",
                "--quiet",
                "--package",
                "carob-cc",
                "--bench",
                "step",
            ])
            .current_dir(&workspace.root),
    )?;
    let times = times(&measured);
    let nothing = flash(workspace, "crate::Nothing", "nothing")?;
    let mut rows = Vec::new();
    for controller in &controllers {
        println!("{} for {}", controller.name, bare_metal::TARGET);
        let path = format!("carob_cc::algorithms::{}", controller.path);
        let program = flash(workspace, &path, &controller.name)?;
        let time = times.get(controller.name.as_str()).with_context(|| {
            format!(
                "crates/cc/benches/step.rs does not measure `{}`",
                controller.name
            )
        })?;
        let alone = Program {
            flash: program.flash.saturating_sub(nothing.flash),
            ..program
        };
        rows.push((controller, alone, *time));
    }
    let file = workspace.root.join(DOCUMENT);
    fs::write(&file, document(&rows)).with_context(|| format!("cannot write {DOCUMENT}"))?;
    println!("{DOCUMENT}");
    Ok(())
}

/// The lines `NAME NUMBER ns`.
fn times(text: &str) -> BTreeMap<&str, f64> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (name, number) = (words.next()?, words.next()?.parse().ok()?);
            (words.next()? == "ns").then_some((name, number))
        })
        .collect()
}

/// Builds the program with one controller and reads its sizes.
fn flash(workspace: &Workspace, path: &str, name: &str) -> Result<Program> {
    let directory = workspace.target()?.join("flash");
    fs::create_dir_all(&directory)?;
    let subject = directory.join("subject.rs");
    fs::write(
        &subject,
        format!("use {path} as Subject;\nconst NAME: &str = {name:?};\n"),
    )?;
    let mut command = process::cargo();
    command
        .env("RUSTC", bare_metal::DISTRIBUTION_RUSTC)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &directory)
        .env("FLASH_SUBJECT", &subject)
        .env(
            "RUSTFLAGS",
            format!("-C linker={LINKER} -C linker-flavor=ld.lld"),
        )
        .args(["build", "--quiet", "--release"])
        .args(["-Z", "build-std=core"])
        .args(["-Z", "build-std-features=compiler-builtins-mem"])
        .args(["--target", bare_metal::TARGET])
        .current_dir(workspace.root.join("tools/flash"));
    process::must(&mut command)
        .with_context(|| format!("the Cortex-M4 build needs {}, lld-16", bare_metal::INSTALL))?;
    let program = directory.join(bare_metal::TARGET).join("release/flash");
    sizes(&program)
}

/// The sections of a linked program.
fn sizes(program: &Path) -> Result<Program> {
    // GNU's and LLVM's `size` print alike.
    let text = process::output(Command::new("size").arg("-A").arg(program))?;
    let section = |name: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next()? == name).then_some(())?;
            words.next()?.parse::<u64>().ok()
        })
    };
    let code = section(".text").context("the program has no code")?;
    ensure!(code > 0, "the program is empty");
    Ok(Program {
        flash: code + section(".rodata").unwrap_or(0) + section(".data").unwrap_or(0),
        state: section(".bss").unwrap_or(0),
    })
}

fn document(rows: &[(&Controller, Program, f64)]) -> String {
    let mut text = String::from(
        "# Memory, code size and time of controllers\n\n\
         Written by `cargo xtask bench controllers`.\n\n\
         State is kept per destination: on a Cortex-M4, and on a 64-bit host. Flash is what one \
         controller alone adds to a\nprogram for a Cortex-M4 (`tools/flash`; `opt-level = \"s\"`, \
         one code unit). It includes its constants and the\n64-bit division that some need. Time is \
         the median of nine rounds, a step being one call of the engine\n\
         (`crates/cc/benches/step.rs`). The machine is that of \
         [performance.md](performance.md);\nat some hours it is half as fast as at others, so compare rows of \
         this table alone.\n\n\
         | controller | state, Cortex-M4 | state, 64 bit | flash, Cortex-M4 | time a step |\n\
         |---|---|---|---|---|\n",
    );
    for (controller, program, time) in rows {
        let mark = if controller.project_choice {
            " \\*"
        } else {
            ""
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `{}`{mark} | {} B | {} B | {} B | {time:.1} ns |",
            controller.name, program.state, controller.state_bytes, program.flash
        );
    }
    text.push_str("\n\\* Some of it is this project's choice: `carob cc show NAME`.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_name_a_number_and_the_unit() {
        let found = times("running\ncocoa-03 24.5 ns\nx y ns\ndefault 3 us\n");
        assert_eq!(found.len(), 1);
        assert!((found["cocoa-03"] - 24.5).abs() < 1e-9);
    }

    #[test]
    fn a_project_choice_is_marked() {
        let controller = |name: &str, project_choice| Controller {
            name: name.into(),
            path: String::new(),
            project_choice,
            state_bytes: 8,
        };
        let program = Program {
            flash: 100,
            state: 4,
        };
        let (plain, chosen) = (controller("default", false), controller("cocoa-e", true));
        let text = document(&[(&plain, program, 1.0), (&chosen, program, 2.0)]);
        assert!(
            text.contains("| `default` | 4 B | 8 B | 100 B | 1.0 ns |"),
            "{text}"
        );
        assert!(text.contains("| `cocoa-e` \\* |"), "{text}");
    }
}
