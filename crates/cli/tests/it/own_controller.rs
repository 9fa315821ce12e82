//! Controller crates created by `carob cc new`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::commands::harness::{Parts as _, Ran, Words as _};
use crate::process::Scratch;

/// Creates a crate in a temporary folder, patched to the workspace's dependencies.
fn new_crate() -> Scratch {
    let folder = Scratch::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checkout = root.display().to_string();
    folder.stdout_of(&format!("cc new my-cc --carob {checkout}"));
    fs::copy(root.join("Cargo.lock"), folder.path("my-cc/Cargo.lock")).expect("a lock file");
    folder
}

/// Runs Cargo in the crate, offline, reusing the workspace's compiled dependencies.
fn cargo(folder: &Scratch, arguments: &[&str]) -> Output {
    let target = Path::new(env!("CARGO_BIN_EXE_carob")).ancestors().nth(2);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    // Variables of the test's package would trigger build scripts that read them.
    let of_cargo =
        |(name, _): &(String, String)| name.starts_with("CARGO_") && name != "CARGO_HOME";
    for (name, _) in std::env::vars().filter(of_cargo) {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .env("CARGO_TARGET_DIR", target.expect("the target folder"))
        .env("CARGO_NET_OFFLINE", "true")
        .env("RUST_BACKTRACE", "0")
        .current_dir(folder.path("my-cc"))
        .output()
        .expect("cargo starts")
}

fn violation(folder: &Scratch) -> Vec<String> {
    let output = cargo(folder, &["test", "--no-default-features"]);
    assert!(!output.status.success(), "the controller is broken");
    let text = String::from_utf8(output.stdout).expect("text");
    let begin = "my-cc violates the contract";
    let lines = text.lines().skip_while(|line| !line.starts_with(begin));
    let message = lines.take_while(|line| !line.is_empty() && !line.starts_with("note:"));
    message.map(str::to_owned).collect()
}

fn change(folder: &Scratch, from: &str, to: &str) {
    let path = folder.path("my-cc/src/lib.rs");
    let text = fs::read_to_string(&path).expect("the library");
    assert!(text.contains(from), "{from}");
    fs::write(path, text.replace(from, to)).expect("a file");
}

#[test]
fn nightly_contract_test_of_new_crate_explains_a_violation() {
    let folder = new_crate();
    let output = cargo(&folder, &["test", "--no-default-features"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");

    change(
        &folder,
        "expired.timeout.times(2)",
        "expired.timeout.half()",
    );
    let message = violation(&folder);
    assert!((5..=10).contains(&message.len()), "{message:#?}");
    assert!(message[1].starts_with("  event     next_timeout at "));
    assert!(message[1].contains("request with 0 retransmissions -> "));
    assert!(message[2].starts_with("  returned  a timer shrank from "));
    assert!(message[3].starts_with("  rule      a timer is no shorter than the one before it"));
    let last = message.last().expect("a line");
    assert!(last.starts_with("  repeat    .seeds("), "{last}");

    // The reported calls replay the violation.
    let calls = last.split_whitespace().nth(1).expect("the calls");
    let path = folder.path("my-cc/tests/contract.rs");
    let test = fs::read_to_string(&path).expect("the test");
    fs::write(path, test.replace("::new()", &format!("::new(){calls}"))).expect("a file");
    assert_eq!(violation(&folder), message);

    change(
        &folder,
        "expired.timeout.half()",
        "expired.timeout.times(2)",
    );
    change(
        &folder,
        "self.rto().unwrap_or(start.parameters.ack_timeout)",
        "start.parameters.ack_timeout + start.now.since(Instant::ZERO).scale(Ratio::new(1, 9))",
    );
    let message = violation(&folder).join("\n");
    message.has(&["differ in: first timer", "equal events and draws"]);
}

/// Adds the program `my-studies`: `carob-studies` with the crate's controller.
fn add_studies(folder: &Scratch) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../studies");
    let dependency = format!(
        "[dependencies]\ncarob-studies = {{ path = '{}' }}\n",
        root.display()
    );
    let manifest = folder.path("my-cc/Cargo.toml");
    let text = fs::read_to_string(&manifest).expect("the manifest");
    fs::write(manifest, text.replace("[dependencies]\n", &dependency)).expect("a file");
    let program = folder.read_text("my-cc/src/main.rs");
    let program = program.replace("carob_cli::main(", "carob_studies::main(");
    fs::write(
        folder.folder("my-cc/src/bin").join("my-studies.rs"),
        program,
    )
    .expect("a file");
}

#[test]
fn nightly_controller_of_own_crate_runs_in_the_lab() {
    let folder = new_crate();
    add_studies(&folder);
    let output = cargo(&folder, &["build", "--features", "carob-cli/full"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let says = |folder: &Scratch, program: &str, words: &str| {
        let own = Path::new(crate::PROGRAM).with_file_name(program);
        let mut command = Command::new(own);
        let output = command
            .args(words.words())
            .current_dir(folder.path(""))
            .output();
        let ran = Ran::from(output.expect("the program starts"));
        assert_eq!(ran.code, Some(0), "{words}: {ran:?}");
        ran
    };
    let median = |set: &str| {
        let run = "lab run carob/default-high -a default,my-cc --json --seeds 4";
        let rows = says(&folder, "my-cc", &format!("{run} --set {set}")).json();
        assert_eq!(rows.len(), 2, "{rows:#?}");
        let of = |row: &Value| {
            (
                row["algorithm"].clone(),
                row["metrics"]["fct_s"]["p50"].as_f64(),
            )
        };
        assert_eq!(of(&rows[1]).0, "my-cc");
        (
            of(&rows[0]).1.expect("a time"),
            of(&rows[1]).1.expect("a time"),
        )
    };
    let ((of_default, own), (again, tuned)) = (median("seeds=4"), median("cc.factor=6"));
    assert!((of_default - again).abs() < f64::EPSILON);
    assert!(tuned > own, "longer timers: {tuned} s, {own} s");

    let shown = says(&folder, "my-cc", "cc show my-cc");
    shown.stdout().has(&["source: src/lib.rs of my-cc"]);
    let costs = says(
        &folder,
        "my-cc",
        "lab compare --link lte-m --traffic command --all",
    );
    let mut lines = costs.stdout().lines();
    assert!(lines.any(|line| line.starts_with("my-cc ")), "{costs:?}");

    let sweep = "title = \"Own\"\nabout = \"Times;\"\nscenario = \"carob/default\"\nseeds = 2\n\
        [parameters]\n\"down.rate\" = { from = \"30 kbit/s\", to = \"60 kbit/s\", steps = 2 }\n\
        [[column]]\nname = \"median, s\"\nquantities = [\"p50(fct_s, my-cc, default-none)\"]\ndecimals = 0\n";
    folder.with("own.toml", sweep);
    let table = says(&folder, "my-cc", "lab sweep own.toml");
    table.stdout().has(&["| 285 |"]);

    folder.copy(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../studies/tests/mine"
    ));
    let rules = "[[claim]]\nid = \"own-001\"\nabout = \"Own timers recover from losses\"\n\
        [[claim.text]]\nquantity = \"p50(fct_s, my-cc, slow-3) / p50(fct_s, my-cc, fast-1)\"\nabove = 1\n";
    folder.with("mine/rules/all.toml", rules);
    let verdicts = says(&folder, "my-studies", "judge mine --seeds 2");
    let claim = verdicts
        .stdout()
        .lines()
        .find(|line| line.starts_with("own-001"));
    assert!(
        claim.is_some_and(|line| line.contains("holds")),
        "{verdicts:?}"
    );
}

#[test]
fn new_crate_is_refused_for_a_taken_name_or_folder() {
    let folder = Scratch::new();
    for name in ["default", "fasor", "Mine"] {
        let error = folder.usage_error(&format!("cc new {name}"));
        error.has(&["such as my-cc"]);
    }
    fs::create_dir(folder.path("mine")).expect("a folder");
    folder.with("mine/file", "");
    let error = folder.usage_error("cc new mine");
    error.has(&["the folder has files"]);
    let error = folder.usage_error("cc new other --carob mine");
    error.has(&["no checkout of carob"]);
    assert_eq!(folder.files(), ["mine"]);
}
