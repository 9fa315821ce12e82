//! The tests of properties with inputs that ordinary runs do not try: those have one seed
//! (`.cargo/config.toml`), so that what they say depends on the commit alone.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Stdio};

use anyhow::{Context, Result, bail};

use crate::{process, workspace::Workspace};

/// Default number of seeds, and the first of them.
const SEEDS: u64 = 200;
const FIRST: u64 = 1;
/// Where properties begin in a source file. Not as one word: this file holds none.
const BEGIN: &str = concat!("proptest", "! {");

struct Options {
    seeds: u64,
    first: u64,
}

impl Options {
    fn read(words: &[String]) -> Result<Self> {
        let mut options = Self {
            seeds: SEEDS,
            first: FIRST,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let place = match word.as_str() {
                "--seeds" => &mut options.seeds,
                "--first" => &mut options.first,
                _ => {
                    bail!("`long properties` has no option {word}; it has --seeds N and --first N")
                }
            };
            let value = words.next().and_then(|value| value.parse::<u32>().ok());
            let value = value.filter(|value| *value > 0);
            let value = value
                .with_context(|| format!("{word} needs a whole number from 1 to {}", u32::MAX))?;
            *place = value.into();
        }
        Ok(options)
    }
}

/// A package, and its library or a module of its integration tests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    package: String,
    /// `None` is the library.
    tests: Option<String>,
}

/// Runs the properties with each seed and writes which of them fail.
pub(crate) fn run(workspace: &Workspace, results: &Path, words: &[String]) -> Result<bool> {
    let options = Options::read(words)?;
    let mut text = format!(
        "# Tests of properties, {} seeds from {} on\n\n\
        Written by `cargo xtask long properties --seeds {0} --first {1}`. A failure is seen again with\n\
        `PROPTEST_RNG_SEED=SEED cargo test` and the property's name.\n\n\
        | package | where | properties | failures |\n|---|---|---|---|\n",
        options.seeds, options.first
    );
    let mut passed = true;
    for (program, properties) in programs(&workspace.root)? {
        println!("{} ...", program.place());
        let mut failures = Vec::new();
        for seed in options.first..options.first + options.seeds {
            for name in failing(workspace, &program, &properties, seed)? {
                failures.push(format!("`{name}` with seed {seed}"));
            }
        }
        passed &= failures.is_empty();
        let failures = match failures.as_slice() {
            [] => "none".to_owned(),
            some => some.join(", "),
        };
        let mut row = String::new();
        writeln!(
            row,
            "| {} | {} | {} | {failures} |",
            program.package,
            program.place(),
            properties.len()
        )?;
        print!("{row}");
        text.push_str(&row);
        fs::write(results, &text).with_context(|| format!("cannot write {}", results.display()))?;
    }
    Ok(passed)
}

impl Program {
    fn place(&self) -> String {
        match &self.tests {
            None => "`src`".to_owned(),
            Some(name) => format!("`tests/it/{name}.rs`"),
        }
    }

    /// The test file of a path, if it can hold tests.
    fn of(path: &str) -> Option<Self> {
        let (package, rest) = path.strip_prefix("crates/")?.split_once('/')?;
        let tests = match rest.split_once('/')? {
            ("src", _) => None,
            ("tests", file) => {
                let module = file.strip_prefix("it/")?.strip_suffix(".rs")?;
                if module.contains('/') {
                    return None;
                }
                Some(module.to_owned())
            }
            _ => return None,
        };
        let package = match package {
            "carob" => "carob".to_owned(),
            other => format!("carob-{other}"),
        };
        Some(Self { package, tests })
    }
}

/// The programs that hold properties, and the properties' names.
fn programs(root: &Path) -> Result<BTreeMap<Program, Vec<String>>> {
    let mut programs = BTreeMap::<_, Vec<String>>::new();
    for path in Workspace::files(root)? {
        if path.strip_suffix(".rs").is_none() {
            continue;
        }
        let names = properties(&fs::read_to_string(root.join(&path))?);
        if names.is_empty() {
            continue;
        }
        let program = Program::of(&path).with_context(|| {
            format!(
                "{path} holds properties and is neither a module of a library nor a file of tests"
            )
        })?;
        programs.entry(program).or_default().extend(names);
    }
    Ok(programs)
}

/// Names of the properties in a source file: what has `#[test]` within the macro's braces.
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
    program: &Program,
    properties: &[String],
    seed: u64,
) -> Result<Vec<String>> {
    let mut command = process::cargo();
    command.args(["test", "--quiet", "--package", &program.package]);
    match &program.tests {
        None => command.arg("--lib"),
        Some(_) => command.args(["--test", "it"]),
    };
    command
        .arg("--")
        .args(["--format=pretty"])
        .args(properties)
        .env("PROPTEST_RNG_SEED", seed.to_string())
        // The seed identifies a failure: later runs need not try it again.
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
        .current_dir(&workspace.root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let told = command.output().with_context(|| process::line(&command))?;
    let out = String::from_utf8_lossy(&told.stdout);
    let (ran, failed) = read(&out);
    if ran < properties.len() {
        bail!(
            "{}: {ran} of {} properties ran\n{out}",
            process::line(&command),
            properties.len()
        );
    }
    if told.status.success() != failed.is_empty() {
        bail!(
            "{} ended with {}\n{out}",
            process::line(&command),
            told.status
        );
    }
    Ok(failed)
}

/// Reads the number of tests from a test program's output, and the names of those that failed.
fn read(told: &str) -> (usize, Vec<String>) {
    let mut ran = 0;
    let mut failed = Vec::new();
    for line in told.lines() {
        let Some((name, how)) = line
            .strip_prefix("test ")
            .and_then(|l| l.rsplit_once(" ... "))
        else {
            continue;
        };
        ran += 1;
        if how != "ok" {
            failed.push(name.to_owned());
        }
    }
    (ran, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_found_by_their_attribute_within_the_macro() {
        let source = [
            "#[test]",
            "fn ordinary() {}",
            BEGIN,
            "    /// Text.",
            "    #[test]",
            "    fn first(a in 0..4_u8) {",
            "    }",
            "",
            "    #[test]",
            "    fn second(",
            "        a in 0..4_u8,",
            "    ) {",
            "    }",
            "}",
            "",
            "#[test]",
            "fn another() {}",
        ];
        assert_eq!(properties(&source.join("\n")), ["first", "second"]);
        assert!(properties("#[test]\nfn ordinary() {}").is_empty());
    }

    #[test]
    fn a_file_belongs_to_its_library_or_is_a_program() {
        let of = |path| Program::of(path).map(|program| (program.package, program.tests));
        let library = Some(("carob-proto".to_owned(), None));
        assert_eq!(of("crates/proto/src/codec/edit.rs"), library);
        let tests = Some(("carob".to_owned(), Some("tls".to_owned())));
        assert_eq!(of("crates/carob/tests/it/tls.rs"), tests);
        assert_eq!(of("crates/proto/tests/it/net/mod.rs"), None);
        assert_eq!(of("xtask/src/main.rs"), None);
    }

    #[test]
    fn the_repository_s_own_are_found() {
        let workspace = Workspace::find().unwrap();
        let programs = programs(&workspace.root).unwrap();
        let tests = Some("codec_properties".to_owned());
        let package = "carob-proto".to_owned();
        assert!(programs[&Program { package, tests }].len() > 3);
    }

    #[test]
    fn what_failed_is_read_of_what_a_program_prints() {
        let told = "\nrunning 2 tests\ntest a ... ok\ntest m::b ... FAILED\n\nfailures:\n    m::b\n\ntest result: FAILED. 1 passed";
        assert_eq!(read(told), (2, vec!["m::b".to_owned()]));
    }

    #[test]
    fn options_are_counts_above_0() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let options = Options::read(&words("--seeds 3 --first 9")).unwrap();
        assert_eq!((options.seeds, options.first), (3, 9));
        for bad in ["--seeds", "--seeds 0", "--first x", "--count 3"] {
            assert!(Options::read(&words(bad)).is_err(), "{bad}");
        }
    }
}
