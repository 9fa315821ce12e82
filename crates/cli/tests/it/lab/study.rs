//! Studies in a folder outside the repository.

use std::fs;

use crate::commands::harness::Parts as _;
use crate::process::Scratch;

const STUDY: &str = "\
short_name = \"mine\"
authors = [\"A. Author\"]
year = 2026
title = \"Two links\"
venue = \"A workshop\"
";

const RULES: &str = "\
[[claim]]
id = \"mine-001\"
about = \"CoCoA is slower on the slow link\"
[[claim.text]]
quantity = \"p50(fct_s, cocoa-03, slow-3) / p50(fct_s, cocoa-03, fast-1)\"
above = 2

[[claim]]
id = \"mine-002\"
about = \"a transfer over the fast link takes less than a second\"
[[claim.text]]
quantity = \"max(fct_s, default, fast-1)\"
below = 1

[[claim]]
id = \"mine-003\"
about = \"a tenth of the packets is lost\"
[[claim.text]]
quantity = \"mean(retransmissions, default, slow-3)\"
between = [0.1, 50]
";

/// Two scenarios: a fast link without loss and a slow one with loss.
fn scenario(family: &str, clients: u8, rate: &str, error: &str) -> String {
    format!(
        "about = \"A download over the {family} link.\"
study = \"mine\"
family = \"{family}\"
cell = \"{family}-{{clients}}\"

[sweep]
clients = [{clients}]

[run]
algorithms = [\"default\", \"cocoa-03\"]
seeds = 12

[workload]
kind = \"blockwise-get\"
response = \"2560 B\"
block = \"256 B\"
start_spread = \"0-1 s\"

[link]
mtu = \"296 B\"
header = \"28 B\"
buffer = \"2500 B\"
loss = \"{error}\"

[link.down]
rate = \"{rate}\"
delay = \"100 ms\"

[link.up]
rate = \"{rate}\"
delay = \"100 ms\"
"
    )
}

/// A study with expected values; `median` is their tolerance.
pub(crate) fn study() -> Scratch {
    let folder = Scratch::new();
    fs::create_dir_all(folder.path("mine/scenarios")).expect("a folder");
    fs::create_dir_all(folder.path("mine/rules")).expect("a folder");
    for (file, text) in [
        ("study.toml", STUDY.to_owned()),
        (
            "scenarios/fast.toml",
            scenario("fast", 1, "1000 kbit/s", "0 %"),
        ),
        (
            "scenarios/slow.toml",
            scenario("slow", 3, "30 kbit/s", "10 %"),
        ),
        ("rules/all.toml", RULES.to_owned()),
        ("expected.csv", EXPECTED.to_owned()),
        (
            "tolerances.toml",
            "[default]\np50 = \"5 %\"\nmax = \"5 %\"\n".to_owned(),
        ),
    ] {
        fs::write(folder.path("mine").join(file), text).expect("a file");
    }
    folder
}

/// Ten blocks take a round trip of 200 ms each plus transmission: 2.05 s. The other value is wrong on purpose.
const EXPECTED: &str = "\
cell,algorithm,metric,statistic,value
fast-1,default,fct_s,p50,2.05
fast-1,default,fct_s,max,9.5
";

#[test]
fn study_folder_is_run_and_judged() {
    let folder = study();
    let lines = folder.lines("lab judge mine --json");
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
    let text = folder.stdout_of("lab judge mine --seeds 3");
    assert!(text.starts_with("mine: Two links; 3 seeds"), "{text}");
    fs::remove_file(folder.path("mine/study.toml")).expect("a file");
    let unnamed = folder.stdout_of("lab judge mine --seeds 3");
    assert!(unnamed.starts_with("mine; 3 seeds"), "{unnamed}");
    text.has(&[
        "fast-1  default    fct_s   p50",
        "mine-003  a tenth of the packets is lost",
    ]);
}

#[test]
fn inconsistent_study_is_refused_with_place_and_remedy() {
    let folder = study();
    let wrong = |file: &str, text: &str| {
        let path = folder.path("mine").join(file);
        let before = fs::read_to_string(&path).expect("a file");
        fs::write(&path, text).expect("a file");
        let error = folder.usage_error("lab judge mine");
        fs::write(&path, before).expect("a file");
        error
    };
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
            RULES.replace("above = 2", "over = 2"),
            "mine/rules/all.toml: rule of the file: TOML parse error at line 6",
            "below or above",
        ),
        (
            "study.toml",
            STUDY.replace("title", "titel"),
            "mine/study.toml: TOML parse error at line 4",
            "write short_name",
        ),
    ] {
        let error = wrong(file, &text);
        error.has(&[place, remedy]);
    }
    let error = folder.usage_error("lab judge nothing");
    assert!(error.contains("nothing/scenarios") && error.contains("scenarios/NAME.toml"));
}

const OPEN_SETTINGS: &str = "\
[search]
points = 6
seeds = 2
judged = 3
judged_seeds = 2
[[setting]]
name = \"delay\"
reason = \"not stated\"
[[setting.value]]
label = \"20 ms\"
set = [\"link.down.delay=20 ms\", \"link.up.delay=20 ms\"]
[[setting.value]]
label = \"100 ms\"
set = [\"link.down.delay=100 ms\", \"link.up.delay=100 ms\"]
[[setting.value]]
label = \"300 ms\"
set = [\"link.down.delay=300 ms\", \"link.up.delay=300 ms\"]
";

const BASELINE: &str = "\
[[fact]]
id = \"ten blocks take 6 s\"
source = \"Table 1\"
[[fact.check]]
quantity = \"p50(fct_s, default, fast-1)\"
about = 6
within = \"5 %\"
";

#[test]
fn open_settings_of_a_study_in_a_folder_are_calibrated() {
    let folder = study();
    fs::write(folder.path("mine/open.toml"), OPEN_SETTINGS).expect("a file");
    fs::write(folder.path("mine/baseline.toml"), BASELINE).expect("a file");
    let text = folder.stdout_of("lab calibrate mine");
    text.has(&[
        "300 ms  300 ms ",
        "0 %     0 %  excluded",
        "100 %     0 %  robust",
    ]);
    let json: serde_json::Value =
        serde_json::from_str(&folder.stdout_of("lab calibrate mine --json"))
            .expect("a JSON object");
    let chosen = json["interpretation"].as_u64().expect("an index");
    let point = &json["points"][usize::try_from(chosen).expect("small")];
    assert_eq!(point["values"], serde_json::json!([2]));
    let page = folder.stdout_of("lab calibrate mine --markdown");
    page.has(&["| delay | 20 ms; 100 ms; 300 ms | 300 ms | 300 ms |"]);
    fs::write(
        folder.path("mine/baseline.toml"),
        BASELINE.replace("fast-1", "fast-7"),
    )
    .expect("a file");
    let error = folder.usage_error("lab calibrate mine");
    error.has(&["mine: baseline.toml: no scenario has the cell \"fast-7\""]);
    let error = folder.usage_error("lab calibrate nobody");
    error.has(&["no study to calibrate: nobody", "retrycount"]);
}
