//! Property tests with further seeds: ordinary runs have one (`.cargo/config.toml`).

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Stdio};

use anyhow::{Context, Result, ensure};

use crate::{long, process, steps::suite::Tally, workspace::Workspace};

/// Beginning of properties in a source file, in two parts: this file holds none.
const BEGIN: &str = concat!("proptest", "! {");

/// Runs the properties with each seed and writes the failing ones.
pub(crate) fn run(workspace: &Workspace, results: &Path, words: &[String]) -> Result<bool> {
    let [seeds, first] = long::numbers(words, [("--seeds", 200), ("--first", 1)])?;
    let mut text = format!(
        "# Tests of properties, {seeds} seeds from {first} on\n\n\
        Written by `cargo xtask long properties --seeds {seeds} --first {first}`. A failure is seen again with\n\
        `PROPTEST_RNG_SEED=SEED cargo test` and the property's name.\n\n\
        | package | where | properties | failures |\n|---|---|---|---|\n"
    );
    let mut success = true;
    for ((package, place), properties) in programs(&workspace.root)? {
        println!("{package} {place} ...");
        let mut failures = Vec::new();
        for seed in first..first + seeds {
            for name in failing(workspace, &package, place == "`src`", &properties, seed)? {
                failures.push(format!("`{name}` with seed {seed}"));
            }
        }
        success &= failures.is_empty();
        if failures.is_empty() {
            failures.push("none".to_owned());
        }
        let (count, failures) = (properties.len(), failures.join(", "));
        writeln!(text, "| {package} | {place} | {count} | {failures} |")?;
        fs::write(results, &text).with_context(|| format!("cannot write {}", results.display()))?;
    }
    print!("{text}");
    Ok(success)
}

/// Package and place (the library's source, or a module of the integration tests) of a path.
fn place(path: &str) -> Option<(String, String)> {
    let (package, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    let is_test = rest.starts_with("tests/it/") && rest.matches('/').count() == 2;
    let place = if is_test { rest } else { "src" };
    let package = match package {
        "carob" => "carob".to_owned(),
        other => format!("carob-{other}"),
    };
    (is_test || rest.starts_with("src/")).then(|| (package, format!("`{place}`")))
}

/// Names of properties by package and place.
fn programs(root: &Path) -> Result<BTreeMap<(String, String), Vec<String>>> {
    let mut programs = BTreeMap::<_, Vec<String>>::new();
    for path in Workspace::files(root)? {
        if Path::new(&path).extension().is_none_or(|of| of != "rs") {
            continue;
        }
        let names = properties(&fs::read_to_string(root.join(&path))?);
        if !names.is_empty() {
            let place = place(&path);
            let place = place.with_context(|| format!("{path}: neither library nor test"))?;
            programs.entry(place).or_default().extend(names);
        }
    }
    Ok(programs)
}

/// Names of the properties in a source file: functions with `#[test]` within the braces of the macro.
fn properties(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let Some(indent) = line.strip_suffix(BEGIN) else {
            continue;
        };
        let end = format!("{indent}}}");
        let within: Vec<&str> = lines.by_ref().take_while(|line| **line != end).collect();
        let mut tests = within.iter().map(|line| line.trim());
        while tests.any(|line| line == "#[test]") {
            let name = tests.find_map(|line| line.strip_prefix("fn ")?.split('(').next());
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

/// Runs the properties of one program with a seed; the names of those that fail.
fn failing(
    workspace: &Workspace,
    package: &str,
    is_library: bool,
    properties: &[String],
    seed: u64,
) -> Result<Vec<String>> {
    let mut command = process::cargo();
    command.args(["test", "--quiet", "--package", package]);
    command.args(if is_library {
        &["--lib"][..]
    } else {
        &["--test", "it"]
    });
    command
        .args(["--", "--format=pretty"])
        .args(properties)
        .env("PROPTEST_RNG_SEED", seed.to_string())
        // The seed identifies a failure: later runs need not try it again.
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
        .current_dir(&workspace.root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command.output().with_context(|| process::line(&command))?;
    let mut tally = Tally::default();
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().for_each(|line| drop(tally.take(line)));
    let count = tally.passed() + tally.failed.len();
    let is_complete = count >= properties.len();
    ensure!(
        is_complete && output.status.success() == tally.failed.is_empty(),
        "{}: {count} of {} properties, {}\n{text}",
        process::line(&command),
        properties.len(),
        output.status
    );
    Ok(tally.failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_found_within_the_macro() {
        let source = format!(
            "#[test]\nfn ordinary() {{}}\n{BEGIN}\n    /// Text.\n    #[test]\n    fn first(a in 0..4_u8) {{\n    }}\n\n    \
             #[test]\n    fn second(\n        a in 0..4_u8,\n    ) {{\n    }}\n}}\n\n#[test]\nfn another() {{}}"
        );
        assert_eq!(properties(&source), ["first", "second"]);
        assert!(properties("#[test]\nfn ordinary() {}").is_empty());
    }

    #[test]
    fn files_belong_to_libraries_or_tests() {
        let of = |path| place(path).map(|(package, place)| format!("{package} {place}"));
        assert_eq!(
            of("crates/proto/src/a/b.rs").as_deref(),
            Some("carob-proto `src`")
        );
        let tests = Some("carob `tests/it/tls.rs`");
        assert_eq!(of("crates/carob/tests/it/tls.rs").as_deref(), tests);
        assert_eq!(of("crates/proto/tests/it/net/mod.rs"), None);
        assert_eq!(of("xtask/src/main.rs"), None);
    }

    #[test]
    fn the_repository_has_properties() {
        let workspace = Workspace::find().expect("the workspace");
        let programs = programs(&workspace.root).expect("programs");
        let place = "`tests/it/codec_properties.rs`".to_owned();
        assert!(programs[&("carob-proto".to_owned(), place)].len() > 3);
    }
}
