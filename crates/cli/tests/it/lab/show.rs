//! `carob lab list` and `show`.

use serde_json::{Value, json};

use crate::commands::harness::{Members as _, Parts as _};
use crate::lab::NONE;
use crate::process::Scratch;

#[test]
fn slow_list_groups_scenarios_by_study_and_names_the_studies() {
    let folder = Scratch::new();
    let text = folder.stdout_of("lab list");
    text.has(&[
        "Laura Pesola: \"An Experimental Evaluation",
        "  thesis/long\n",
        "  carob/default\n",
    ]);
    let studies = ["Betzler", "Pesola", "Lee, ", "Vallati"];
    assert!(studies.iter().all(|author| text.contains(author)), "{text}");
    let all: Value = serde_json::from_str(&folder.stdout_of("lab list --json")).expect("JSON");
    let mut all = all.as_array().expect("an array").iter();
    let long = all.find(|one| one["name"] == "thesis/long");
    let long = long.expect("thesis/long");
    long.includes(json!({"year": 2020, "study": "thesis"}));
    assert_eq!(long["cells"].as_array().map(Vec::len), Some(32));
    assert_eq!(long["algorithms"][0], "default");
}

#[test]
fn show_lists_every_key_with_unit_and_origin() {
    let folder = Scratch::new();
    let text = folder.stdout_of(&format!("lab show {NONE} --set 'block=64 B'"));
    let line = |key: &str| {
        let found = text.lines().find(|line| line.trim_start().starts_with(key));
        found
            .unwrap_or_else(|| panic!("{key} in {text}"))
            .to_owned()
    };
    assert!(line("link.down.rate").contains("30 kbit/s"));
    assert!(line("link.down.rate").contains("scenario, line "));
    assert!(line("link.error_burst_time").ends_with("default"));
    assert!(line("workload.clients").contains("sweep, line "));
    assert!(
        line("workload.block").contains("64 B") && line("workload.block").ends_with("command line")
    );
    assert!(
        text.contains("rto_max 60 s (scenario, line ") && text.contains("rto_max 32 s (profile)")
    );
    assert!(text.contains("cc.k_weak 1") && text.contains(&format!("carob lab run {NONE}")));
}

#[test]
fn show_marks_changed_constants_for_programs_too() {
    let folder = Scratch::new();
    let show = "lab show thesis/long --json --set cc.k_weak=4";
    let shown: Value = serde_json::from_str(&folder.stdout_of(show)).expect("JSON");
    assert_eq!(shown["cells"].as_array().map(Vec::len), Some(32));
    shown["algorithms"][1].includes(json!({
        "constants": {"k_weak": {"value": "4", "changed": true}, "k_strong": {"changed": false}},
        "transmission": {"rto_max": {"value": "32 s"}},
    }));
}
