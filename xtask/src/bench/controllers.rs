//! Cost of each controller in `crates/cc/results/costs.md`: size of its state here and on a Cortex-M4, flash of a program that
//! calls it (`tools/flash`) less the flash of the program without it, and time of a step (`crates/cc/benches/step.rs`).

use std::{fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{process, steps::bare_metal, workspace::Workspace};

const DOCUMENT: &str = "crates/cc/results/costs.md";
const LINKER: &str = "ld.lld-16";

/// A controller of `cc list --json`.
#[derive(Deserialize)]
struct Controller {
    name: String,
    path: String,
    project_choice: bool,
    state_bytes: u64,
}

/// Sizes of a program for the Cortex-M4, in bytes: code and constants, and static memory.
struct Sizes {
    flash: u64,
    state: u64,
}

pub(super) fn run(workspace: &Workspace) -> Result<()> {
    let cargo = |words: &[&str]| {
        let mut command = process::cargo();
        process::output(command.args(words).current_dir(&workspace.root))
    };
    let list = [
        "run",
        "--quiet",
        "--release",
        "--package",
        "carob-cli",
        "--",
        "cc",
        "list",
        "--json",
    ];
    let controllers: Vec<Controller> = serde_json::from_str(&cargo(&list)?)?;
    let step = [
        "bench",
        "--quiet",
        "--package",
        "carob-cc",
        "--bench",
        "step",
    ];
    let times = super::times(&cargo(&step)?);
    let nothing = sizes(workspace, "crate::Nothing", "nothing")?;
    let mut text = HEAD.to_owned();
    for controller in &controllers {
        let name = &controller.name;
        println!("{name} for {}", bare_metal::TARGET);
        let path = format!("carob_cc::algorithms::{}", controller.path);
        let sizes = sizes(workspace, &path, name)?;
        let time = times.iter().find(|(known, _)| known == name);
        let (_, time) = time.with_context(|| format!("crates/cc/benches/step.rs lacks {name}"))?;
        let mark = if controller.project_choice {
            " \\*"
        } else {
            ""
        };
        let flash = sizes.flash.saturating_sub(nothing.flash);
        writeln!(
            text,
            "| `{name}`{mark} | {} B | {} B | {flash} B | {time:.1} ns |",
            sizes.state, controller.state_bytes
        )?;
    }
    text += "\n\\* Some of it is this project's choice: `carob cc show NAME`.\n";
    fs::write(workspace.root.join(DOCUMENT), text)
        .with_context(|| format!("cannot write {DOCUMENT}"))
}

/// Builds the program with one controller and reads its sizes.
fn sizes(workspace: &Workspace, path: &str, name: &str) -> Result<Sizes> {
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
        .args(["build", "--quiet", "--release", "-Z", "build-std=core"])
        .args(["-Z", "build-std-features=compiler-builtins-mem"])
        .args(["--target", bare_metal::TARGET])
        .current_dir(workspace.root.join("tools/flash"));
    process::must(&mut command)
        .with_context(|| format!("the Cortex-M4 build needs {}, lld-16", bare_metal::INSTALL))?;
    read_sizes(&directory.join(bare_metal::TARGET).join("release/flash"))
}

fn read_sizes(program: &Path) -> Result<Sizes> {
    let text = process::output(Command::new("size").arg("-A").arg(program))?;
    let section = |name: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        let mut line = lines.find(|words| words.clone().next() == Some(name))?;
        line.nth(1)?.parse::<u64>().ok()
    };
    let code = section(".text").unwrap_or(0);
    ensure!(code > 0, "the program has no code");
    Ok(Sizes {
        flash: code + section(".rodata").unwrap_or(0) + section(".data").unwrap_or(0),
        state: section(".bss").unwrap_or(0),
    })
}

const HEAD: &str = "\
# Memory, code size and time of controllers

Written by `cargo xtask bench controllers`.

State is kept per destination: on a Cortex-M4, and on a 64-bit host. Flash is what one controller alone adds to a
program for a Cortex-M4 (`tools/flash`; `opt-level = \"s\"`, one code unit). It includes its constants and the
64-bit division that some need. Time is the median of nine rounds, a step being one call of the engine
(`crates/cc/benches/step.rs`). The machine is that of [performance.md](performance.md);
at some hours it is half as fast as at others, so compare rows of this table alone.

| controller | state, Cortex-M4 | state, 64 bit | flash, Cortex-M4 | time a step |
|---|---|---|---|---|
";
