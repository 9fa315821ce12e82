//! Studies in a folder outside the repository.

use std::fs;

use crate::program::{Parts as _, Scratch};

/// The study of `tests/mine`. Ten blocks take a round trip of 200 ms each plus transmission, 2.05 s; the other expected
/// value is wrong on purpose.
fn study() -> Scratch {
    let folder = Scratch::new();
    folder.copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mine"));
    folder
}

#[test]
fn study_folder_is_run_and_judged() {
    let folder = study();
    let lines = folder.lines("judge mine --json");
    let verdicts: Vec<&str> = lines
        .iter()
        .map(|line| line["verdict"].as_str().expect("a verdict"))
        .collect();
    assert_eq!(
        verdicts,
        ["holds", "fails", "holds", "fails", "holds"],
        "{lines:#?}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line["study"] == "mine" && line["seeds"] == 12)
    );
    let measured = lines[0]["measured"].as_f64().expect("it was run");
    assert!((2.0..2.1).contains(&measured), "{measured}");
    let text = folder.stdout_of("judge mine --seeds 3");
    assert!(text.starts_with("mine: Two links; 3 seeds"), "{text}");
    fs::remove_file(folder.path("mine/study.toml")).expect("a file");
    let unnamed = folder.stdout_of("judge mine --seeds 3");
    assert!(unnamed.starts_with("mine; 3 seeds"), "{unnamed}");
    text.has(&[
        "fast-1  default    fct_s   p50",
        "mine-003  a tenth of the packets is lost",
    ]);
}

#[test]
fn inconsistent_study_is_refused_with_place_and_remedy() {
    let folder = study();
    let text_of = |file: &str| fs::read_to_string(folder.path("mine").join(file)).expect("a file");
    let head = "cell,algorithm,metric,statistic,value\n";
    for (file, text, place, remedy) in [
        (
            "expected.csv",
            format!("{head}fast-2,default,fct_s,p50,1\n"),
            "no scenario has the cell \"fast-2\"",
            "the cells are fast-1, slow-3",
        ),
        (
            "expected.csv",
            format!("{head}fast-1,default,speed,p50,1\n"),
            "mine/expected.csv: record 2: \"speed\" is no metric",
            "--csv",
        ),
        (
            "expected.csv",
            format!("{head}fast-1,default,fct_s,p51,1\n"),
            "record 2: \"p51\" is no statistic",
            "p10",
        ),
        (
            "expected.csv",
            format!("{head}fast-1,default,fct_s,p95,1\n"),
            "mine/tolerances.toml: no tolerance for p95 in fast-1",
            "[default]",
        ),
        (
            "rules/all.toml",
            text_of("rules/all.toml").replace("above = 2", "over = 2"),
            "mine/rules/all.toml: rule of the file: TOML parse error at line 6",
            "below or above",
        ),
        (
            "study.toml",
            text_of("study.toml").replace("title", "titel"),
            "mine/study.toml: TOML parse error at line 4",
            "write short_name",
        ),
    ] {
        let before = text_of(file);
        fs::write(folder.path("mine").join(file), text).expect("a file");
        folder.usage_error("judge mine").has(&[place, remedy]);
        fs::write(folder.path("mine").join(file), before).expect("a file");
    }
    let error = folder.usage_error("judge nothing");
    assert!(error.contains("nothing/scenarios") && error.contains("scenarios/NAME.toml"));
}

#[test]
fn open_settings_of_a_study_in_a_folder_are_calibrated() {
    let folder = study();
    let text = folder.stdout_of("calibrate mine");
    text.has(&[
        "300 ms  300 ms ",
        "0 %     0 %  excluded",
        "100 %     0 %  robust",
    ]);
    let json: serde_json::Value =
        serde_json::from_str(&folder.stdout_of("calibrate mine --json")).expect("a JSON object");
    let chosen = json["interpretation"].as_u64().expect("an index");
    let point = &json["points"][usize::try_from(chosen).expect("small")];
    assert_eq!(point["values"], serde_json::json!([2]));
    let page = folder.stdout_of("calibrate mine --markdown");
    page.has(&["| delay | 20 ms; 100 ms; 300 ms | 300 ms | 300 ms |"]);
    let facts = fs::read_to_string(folder.path("mine/baseline.toml")).expect("a file");
    let facts = facts.replace("fast-1", "fast-7");
    fs::write(folder.path("mine/baseline.toml"), facts).expect("a file");
    let error = folder.usage_error("calibrate mine");
    error.has(&["mine: baseline.toml: no scenario has the cell \"fast-7\""]);
    let error = folder.usage_error("calibrate nobody");
    error.has(&["no study to calibrate: nobody", "retrycount"]);
}
