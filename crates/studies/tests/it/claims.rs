//! `carob-studies claims` and `sweep`.

use std::fs;

use serde_json::Value;

use crate::program::{Parts as _, Scratch};

#[test]
fn slow_claims_have_stored_verdicts_by_interpretation() {
    let folder = Scratch::new();
    let claims = "claims retrycount --part clients --json";
    let kept = folder.lines(claims);
    let ids: Vec<&str> = kept
        .iter()
        .filter_map(|claim| claim["id"].as_str())
        .collect();
    assert_eq!(ids.len(), 11);
    assert!(kept.iter().all(|claim| claim["stale"] == false));
    // With the link before its calibration, nothing is congested.
    let link = "--set 'down.rate=100 kbit/s' --set 'up.rate=100 kbit/s'";
    let fast = folder.lines(&format!("{claims} --seeds 2 {link}"));
    let verdict = |claims: &[Value]| {
        let claim = claims.iter().find(|claim| claim["id"] == "retrycount-01");
        claim.expect("it is judged")["verdict"].clone()
    };
    assert_eq!(
        (verdict(&kept), verdict(&fast)),
        ("holds".into(), "fails".into())
    );
}

const CLAIMS: &str = "\
title = \"Clients\"
about = \"Verdicts;\"
study = \"retrycount\"
part = \"clients\"
seeds = 1
claims = [\"retrycount-02\"]

[[number]]
claim = \"retrycount-01\"
check = 0
name = \"2.5\"

[[row]]
label = \"as is\"

[[row]]
label = \"copies cost nothing\"
set = [\"copies=free\"]
";

#[test]
fn sweep_has_the_verdicts_of_claims() {
    let folder = Scratch::new();
    fs::write(folder.path("clients.toml"), CLAIMS).expect("a file");
    let claims = "claims retrycount --part clients --seeds 1 --set copies=free --json";
    let judged = folder.lines(claims);
    let count = |verdict: &str| judged.iter().filter(|j| j["verdict"] == verdict).count();
    let find = |id: &str| judged.iter().find(|j| j["id"] == id).expect("the claim");
    let value = find("retrycount-01")["checks"][0]["measured"]["value"].as_f64();
    let verdict = find("retrycount-02")["verdict"]
        .as_str()
        .expect("a verdict");
    let row = format!(
        "| copies cost nothing | `copies=free` | {} | {} | {} | {} | {:.2} | {} |",
        count("holds"),
        count("holds-partly"),
        count("fails"),
        count("undecided"),
        value.expect("a number"),
        verdict.trim_start_matches("holds-")
    );
    let sweep = "sweep clients.toml";
    let table = folder.stdout_of(sweep);
    assert_eq!(table.lines().last(), Some(&*row), "{table}");
    let json = folder.lines(&format!("{sweep} --json"));
    assert_eq!(json[1]["set"][0], "copies=free");
    let text = folder.stdout_of(&format!("{sweep} --csv"));
    let csv = carob_lab::csv::Table::read(&text).expect("a table");
    let first = (0..csv.len()).find(|&row| {
        csv.cell(row, "settings") == Some("copies=free")
            && csv.cell(row, "claim") == Some("retrycount-01")
    });
    assert_eq!(csv.number(first.expect("a row"), "value"), value);
    fs::write(
        folder.path("clients.toml"),
        CLAIMS.replace("copies=free", "copies=cheap"),
    )
    .expect("a file");
    let error = folder.usage_error(sweep);
    error.has(&["clients.toml: ", "copies"]);
}
