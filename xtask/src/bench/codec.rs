//! Codec times: our `codec` benchmark and libcoap's codec, in turns.
//!
//! Both programs print one measurement a line, `PROGRAM OPERATION NUMBER ns`, where the operation
//! begins with `decode` or `encode`. Each figure is relative to Carob's of the same kind and round.

use std::{fmt::Write as _, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};

use super::statistics::{median, median_ratio};
use crate::{process, workspace::Workspace};

/// Rounds of both programs in turn; each program takes its own median within a round.
const ROUNDS: usize = 5;
/// The static library: encoding a header is not among what the shared one exports.
const LIBRARY: &str = "-l:libcoap-3-notls.a";

/// The two kinds of operation, and Carob's as the baseline of each.
pub(super) const KINDS: &[(&str, &str)] = &[
    ("decode", "carob decode (parse, token, every option)"),
    ("encode", "carob encode"),
];

/// One measured operation and its figure of every round, in nanoseconds.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) figures: Vec<f64>,
}

pub(super) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    if let Some(extra) = arguments.first() {
        bail!("`bench codec` takes no arguments, but `{extra}` was given");
    }
    print!("\n{}", table(&measure(workspace)?));
    Ok(())
}

/// Measures decoding and encoding, Carob's and libcoap's, in turns.
pub(super) fn measure(workspace: &Workspace) -> Result<Vec<Row>> {
    let libcoap = compile_libcoap(workspace)?;
    if libcoap.is_none() {
        println!("skipped: libcoap's codec (install: cargo xtask peers)");
    }
    let mut rows: Vec<Row> = Vec::new();
    for round in 1..=ROUNDS {
        println!("round {round} of {ROUNDS}");
        let mut ours = process::cargo();
        ours.args([
            "bench",
            "--quiet",
            "--package",
            "carob-proto",
            "--bench",
            "codec",
        ]);
        note(
            &mut rows,
            &process::output(ours.current_dir(&workspace.root))?,
        );
        if let Some(program) = &libcoap {
            note(&mut rows, &process::output(&mut Command::new(program))?);
        }
    }
    for (_, ours) in KINDS {
        ensure!(
            rows.iter().any(|row| row.name == *ours),
            "crates/proto/benches/codec.rs no longer measures `{ours}`; see KINDS in this tool"
        );
    }
    Ok(rows)
}

/// Builds libcoap's side; `None` when its development files are not installed.
fn compile_libcoap(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let source = workspace.root.join("tools/codecbench/libcoap_codec.c");
    ensure!(source.is_file(), "{} is missing", source.display());
    let mut probe = Command::new("cc");
    probe.args(["-E", "-include", "coap3/coap.h", "-x", "c", "/dev/null"]);
    let installed = probe
        .output()
        .context("a C compiler is needed (Debian: `apt-get install gcc`)")?;
    if !installed.status.success() {
        return Ok(None);
    }
    let tools = workspace.target()?.join("bench-tools");
    process::compile_c(&source, &tools, &[LIBRARY]).map(Some)
}

/// Adds the measurements of one round of one program.
fn note(rows: &mut Vec<Row>, text: &str) {
    for (name, figure) in figures(text) {
        match rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.figures.push(figure),
            None => rows.push(Row {
                name,
                figures: vec![figure],
            }),
        }
    }
}

/// The measurements among the lines of a program's output.
fn figures(text: &str) -> Vec<(String, f64)> {
    text.lines().filter_map(figure).collect()
}

fn figure(line: &str) -> Option<(String, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|word| *word == "ns")?;
    let (number, name) = words[..unit].split_last()?;
    let name = name.join(" ");
    let name = name.trim_end_matches(':');
    (!name.is_empty()).then_some((name.to_owned(), number.parse().ok()?))
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (kind, ours) in KINDS {
        let _ = writeln!(text, "{:<width$}        ns   x carob", "");
        let base = rows.iter().find(|row| row.name == *ours);
        let of_kind = |row: &&Row| row.name.split(' ').nth(1) == Some(kind);
        for row in rows.iter().filter(of_kind) {
            let ns = median(&row.figures).unwrap_or(f64::NAN);
            let ratio = base.and_then(|base| median_ratio(&row.figures, &base.figures));
            let ratio = ratio.unwrap_or(f64::NAN);
            let _ = writeln!(text, "{:<width$}  {ns:>8.1}  {ratio:>8.2}", row.name);
        }
        text.push('\n');
    }
    for (_, ours) in KINDS {
        let _ = writeln!(text, "1.00 is `{ours}`");
    }
    let _ = writeln!(
        text,
        "(medians of {ROUNDS} rounds; a ratio is the median of the rounds' ratios)"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_a_name_a_number_and_the_unit() {
        let text = "running\nx decode GET, 5 options:   37.5 ns\nx encode 40 ns  (x2)\nns\n";
        let found = figures(text);
        assert_eq!(found[0], ("x decode GET, 5 options".to_owned(), 37.5));
        assert_eq!(found[1], ("x encode".to_owned(), 40.0));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn each_operation_is_set_against_ours_of_its_kind() {
        let mut rows = Vec::new();
        for _ in 0..2 {
            let (decode, encode) = (KINDS[0].1, KINDS[1].1);
            note(
                &mut rows,
                &format!("{decode} 20.0 ns\n{encode} 10.0 ns\nother encode 30.0 ns"),
            );
        }
        assert_eq!(rows.len(), 3);
        let text = table(&rows);
        let other = text.lines().find(|line| line.starts_with("other encode"));
        assert!(
            other.is_some_and(|line| line.ends_with("30.0      3.00")),
            "{text}"
        );
    }
}
