//! All fuzz targets for a while, one after the other; afterwards the corpora of `vectors/corpus` are those
//! of their inputs that reach something that no smaller one does.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{options, process, workspace::Workspace};

/// Default duration of each target, in seconds.
const SECONDS: u64 = 600;
/// Bytes of one target's corpus that are kept: ordinary tests replay it, and it is in the repository.
const CORPUS_BYTES: usize = 40 << 10;
/// Bytes of an input; those of files that people write are longer.
const INPUT_BYTES: usize = 512;
const FILE_BYTES: usize = 4_096;
const FILES: [&str; 4] = ["capture", "decrypt", "scenario", "trace"];
/// An input that takes longer is a fault, in seconds.
const SLOW: u64 = 20;

/// Result of a target's run.
struct Outcome {
    executed: u64,
    /// Places of the code that inputs lead to, as libFuzzer counts them.
    reached: u64,
    inputs: usize,
    bytes: usize,
    faults: Vec<String>,
}

/// Runs the targets and writes what they show. A run of one target rewrites only its corpus.
pub(crate) fn run(workspace: &Workspace, results: &Path, words: &[String]) -> Result<bool> {
    let (words, only) = match words {
        [words @ .., option, target] if option == "--target" => (words, Some(target)),
        [option, target, words @ ..] if option == "--target" => (words, Some(target)),
        _ => (words, None),
    };
    let [seconds] = options::numbers(words, [("--seconds", SECONDS)])?;
    let targets = targets(workspace)?;
    if let Some(name) = only.filter(|name| !targets.contains(name)) {
        bail!(
            "no target is called `{name}`; there are {}",
            targets.join(", ")
        );
    }
    let mut text = format!(
        "# Fuzz targets, {seconds} s each\n\n\
        Written by `cargo xtask long fuzz --seconds {seconds}`. What each feeds and checks is in [README.md](README.md).\n\n\
        | target | inputs tried | places reached | corpus | faults |\n|---|---|---|---|---|\n"
    );
    let mut passed = true;
    for name in &targets {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        println!("{name} ...");
        let outcome = fuzz(workspace, name, seconds)?;
        passed &= outcome.faults.is_empty();
        let line = outcome.row(name);
        print!("{line}");
        text.push_str(&line);
        if only.is_none() {
            fs::write(results, &text)?;
        }
    }
    Ok(passed)
}

impl Outcome {
    fn row(&self, name: &str) -> String {
        let Self {
            executed,
            reached,
            inputs,
            bytes,
            faults,
        } = self;
        let corpus = match inputs {
            0 => "of its own".to_owned(),
            _ => format!("{inputs} inputs, {bytes} bytes"),
        };
        let faults = if faults.is_empty() {
            "none".to_owned()
        } else {
            faults.join(", ")
        };
        format!("| `{name}` | {executed} | {reached} | {corpus} | {faults} |\n")
    }
}

fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(workspace.root.join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_stem().context("a file has a name")?;
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn fuzz(workspace: &Workspace, name: &str, seconds: u64) -> Result<Outcome> {
    let packed = workspace.root.join(format!("vectors/corpus/{name}.bin"));
    let work = workspace.root.join("fuzz/corpus").join(name);
    let artifacts = workspace.root.join("fuzz/artifacts").join(name);
    fs::create_dir_all(&work)?;
    if packed.is_file() {
        for (number, input) in unpack(&fs::read(&packed)?).into_iter().enumerate() {
            fs::write(work.join(format!("kept-{number}")), input)?;
        }
    }
    let before = files(&artifacts)?;
    let length = if FILES.contains(&name) {
        FILE_BYTES
    } else {
        INPUT_BYTES
    };
    let told = libfuzzer(
        workspace,
        name,
        &[&work],
        &[
            format!("-max_total_time={seconds}"),
            format!("-max_len={length}"),
            format!("-timeout={SLOW}"),
            "-print_final_stats=1".to_owned(),
        ],
    )?;
    let new = files(&artifacts)?.into_iter();
    let new = new.filter(|path| !before.contains(path));
    let name_of = |path: PathBuf| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let faults = new
        .filter_map(name_of)
        .map(|file| format!("fuzz/artifacts/{name}/{file}"));
    let faults = faults.collect();
    let mut outcome = Outcome {
        executed: last_number(&told, "stat::number_of_executed_units:").unwrap_or(0),
        reached: last_number(&told, " cov: ").unwrap_or(0),
        inputs: 0,
        bytes: 0,
        faults,
    };
    if packed.is_file() {
        let least = work.with_extension("least");
        let _ = fs::remove_dir_all(&least); // it may not be there
        fs::create_dir_all(&least)?;
        libfuzzer(workspace, name, &[&least, &work], &["-merge=1".to_owned()])?;
        let mut inputs = Vec::new();
        for path in files(&least)? {
            inputs.push(fs::read(path)?);
        }
        let bytes = pack(inputs);
        outcome.inputs = unpack(&bytes).len();
        outcome.bytes = bytes.len();
        if outcome.inputs > 0 {
            fs::write(&packed, bytes)?;
        }
    }
    Ok(outcome)
}

/// Runs a target. Returns its result.
fn libfuzzer(
    workspace: &Workspace,
    name: &str,
    folders: &[&Path],
    options: &[String],
) -> Result<String> {
    // Not the compiler that this tool was started with: fuzzing needs another.
    let mut command = Command::new("cargo");
    command
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .args(["+nightly", "fuzz", "run", name])
        .args(folders)
        .arg("--")
        .args(options)
        .current_dir(&workspace.root)
        .stdin(Stdio::null());
    let output = command.output().with_context(|| {
        format!(
            "cannot start {}; it needs a nightly toolchain and `cargo install cargo-fuzz`",
            process::line(&command)
        )
    })?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if !told.contains("INFO: Running with entropic power schedule") && !told.contains("MERGE-OUTER")
    {
        bail!("{} did not run:\n{told}", process::line(&command));
    }
    Ok(told)
}

/// The number after the last `word`.
fn last_number(told: &str, word: &str) -> Option<u64> {
    let (_, rest) = told.rsplit_once(word)?;
    let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit());
    digits.into_iter().next()?.parse().ok()
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries: std::io::Result<Vec<_>> = fs::read_dir(folder)?.collect();
    let mut paths: Vec<PathBuf> = entries?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// Inputs as one file: each is a little-endian `u16` length and that many bytes. The shortest, as many as
/// there is room for.
fn pack(mut inputs: Vec<Vec<u8>>) -> Vec<u8> {
    inputs.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    let mut bytes = Vec::new();
    for input in inputs {
        let Ok(length) = u16::try_from(input.len()) else {
            continue;
        };
        if bytes.len() + 2 + input.len() > CORPUS_BYTES {
            break;
        }
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&input);
    }
    bytes
}

fn unpack(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut inputs) = (bytes, Vec::new());
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (input, after) = after.split_at(length);
        inputs.push(input.to_vec());
        rest = after;
    }
    inputs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpora_are_packed_shortest_first_within_size_limit() {
        let inputs = vec![vec![1; 300], vec![], vec![2; 5]];
        let packed = pack(inputs);
        assert_eq!(unpack(&packed), [vec![], vec![2; 5], vec![1; 300]]);
        let many = pack(vec![vec![7; 1_000]; 100]);
        assert!(many.len() <= CORPUS_BYTES && unpack(&many).len() == CORPUS_BYTES / 1_002);
    }

    #[test]
    fn what_libfuzzer_tells_is_read() {
        let told = "#2 INITED cov: 12 ft: 13\n#9 NEW    cov: 345 ft: 400\n\
            stat::number_of_executed_units: 6789\n";
        assert_eq!(last_number(told, " cov: "), Some(345));
        let executed = last_number(told, "stat::number_of_executed_units:");
        assert_eq!(executed, Some(6_789));
        assert_eq!(last_number(told, "none"), None);
    }

    #[test]
    fn every_target_has_manifest_entry_list_line_and_corpus() {
        let workspace = Workspace::find().expect("it is run in one");
        let read = |path: &str| fs::read_to_string(workspace.root.join(path)).expect(path);
        let (manifest, list) = (read("fuzz/Cargo.toml"), read("fuzz/README.md"));
        for name in targets(&workspace).expect("there are some") {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
            assert!(list.contains(&format!("| `{name}` |")), "{name}");
            let corpus = workspace.root.join(format!("vectors/corpus/{name}.bin"));
            let of_its_own = ["controllers", "stream"].contains(&name.as_str());
            assert!(corpus.is_file() != of_its_own, "{name}");
        }
    }
}
