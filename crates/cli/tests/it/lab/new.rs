//! `carob lab new`.

use std::fs;

use super::folder::Folder;

#[test]
fn a_new_scenario_runs_at_once() {
    let folder = Folder::new("new");
    let said = folder.says(&["lab", "new", "meters"]);
    assert!(said.starts_with("meters.toml is written\n"), "{said}");
    let run = ["lab", "run", "meters.toml", "--seeds", "2", "--no-report"];
    let said = folder.says(&run);
    assert!(
        said.contains("own/meters-none") && said.contains("own/meters-medium"),
        "{said}"
    );
    let again = folder.carob(&["lab", "new", "meters.toml"]);
    let error = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(1), "{error}");
    assert!(error.contains("meters.toml exists already"), "{error}");
}

#[test]
fn a_copy_of_a_scenario_is_compared_with_nothing_published() {
    let folder = Folder::new("new-copy");
    folder.says(&["lab", "new", "mine", "--from", "thesis/long"]);
    let text = fs::read_to_string(folder.0.join("mine.toml")).expect("the copy");
    assert!(text.starts_with("# A copy of thesis/long.\n"), "{text}");
    let run = [
        "lab",
        "run",
        "mine.toml",
        "--seeds",
        "1",
        "--no-report",
        "--algorithm",
        "default",
    ];
    let said = folder.says(&run);
    assert!(
        said.contains("own/mine-") && !said.contains("published s"),
        "{said}"
    );
    let unknown = folder.carob(&["lab", "new", "x", "--from", "thesis/longer"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(!folder.0.join("x.toml").exists());
}
