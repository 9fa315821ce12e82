use super::*;
use crate::claims::rule;
use crate::papers::Claim;

/// A server with an unknown service time and queue; the truth is 60 ms.
const SCENARIO: &str = r#"
about = "clients of a server of unknown speed"
study = "mine"
family = "server"
cell = "server-{clients}"
[sweep]
clients = [1, 20]
[run]
algorithms = ["default", "cocoa-03"]
seeds = 2
first_seed = 1
[workload]
kind = "exchanges"
requests = 4
request = "50 B"
response = "50 B"
path = "hello"
[server]
service = "20 ms"
receive_queue = 50
[link]
header = "28 B"
buffer = "inf"
[link.down]
rate = "100 kbit/s"
delay = "50 ms"
[link.up]
rate = "100 kbit/s"
delay = "50 ms"
"#;

const OPEN_FILE: &str = r#"
[search]
points = 8
rounds = 1
round_points = 3
seeds = 2
judged = 4
judged_seeds = 2
[[setting]]
name = "service"
key = "server.service"
values = ["20 ms", "40 ms", "60 ms", "80 ms"]
reason = "not stated"
[[setting]]
name = "queue"
key = "receive_queue"
values = ["10", "50"]
reason = "not stated"
"#;

const BASELINE_FILE: &str = r#"
[[fact]]
id = "four requests take 0.69 s"
source = "Table 1"
[[fact.check]]
quantity = "p50(fct_s, default, server-1)"
about = 0.69
within = "3 %"
"#;

const RULES: &str = r#"
[[claim]]
id = "mine-1"
about = "twenty clients wait longer than one"
[[claim.text]]
quantity = "p50(fct_s, default, server-20)"
above = "p50(fct_s, default, server-1)"
[[claim]]
id = "mine-2"
about = "they wait less than one"
[[claim.text]]
quantity = "p50(fct_s, default, server-20)"
below = "p50(fct_s, default, server-1)"
"#;

fn calibration(open: &str, baseline: &str) -> Result<Calibration, StudyError> {
    let files = vec![ScenarioFile {
        name: "scenarios/server.toml".to_owned(),
        text: SCENARIO.to_owned(),
    }];
    let findings = rule::read(RULES).expect("rules that read");
    Calibration::read("mine", open, baseline, findings, files)
}

#[test]
fn interval_that_touches_a_fact_is_enough_only_where_intervals_exclude() {
    // Times of single runs over a lossy link spread around the mean, which is outside the fact.
    let lossy = SCENARIO.replace("[link.down]", "[link.down]\nloss = \"30 %\"");
    let source = |text: &str| {
        let files = vec![ScenarioFile {
            name: "scenarios/server.toml".to_owned(),
            text: text.to_owned(),
        }];
        let findings = rule::read(RULES).expect("rules that read");
        move |baseline: &str| {
            let read = Calibration::read("mine", OPEN_FILE, baseline, findings, files);
            let mut results = Vec::new();
            let read = read.expect("it reads");
            let point = (0, read.unchanged());
            read.fit(&[point], &mut results, &|| {}).expect("it runs");
            results.remove(0)
        }
    };
    let measured = source(&lossy)(BASELINE_FILE).facts[0].checks[0].measured;
    let measured = measured.expect("a measurement");
    assert!(measured.high > measured.value, "{measured:?}");
    // A fact that only the upper part of the interval meets.
    let about = measured.high.midpoint(measured.value) * 1.5;
    let low = measured.high.midpoint(measured.value) / about;
    let fact = BASELINE_FILE
        .replace("about = 0.69", &format!("about = {about}"))
        .replace("3 %", &format!("{} %", (1.0 - low) * 100.0));
    let excluded = |baseline: &str| source(&lossy)(baseline).facts[0].checks[0].excluded;
    assert!(!excluded(&fact));
    assert!(excluded(&format!("excluded_by = \"value\"\n{fact}")));
}

#[test]
fn baseline_facts_find_the_settings_that_made_them() {
    let calibration = calibration(OPEN_FILE, BASELINE_FILE).expect("it reads");
    let runs = std::sync::atomic::AtomicUsize::new(0);
    let count = || {
        runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let result = calibration
        .run("carob-studies calibrate mine", count)
        .expect("it runs");
    assert!(runs.into_inner() <= calibration.runs());
    let best = &result.points[result.interpretation];
    assert_eq!(calibration.label(0, best.values[0]), "60 ms");
    // Nothing that is measured for one client needs another queue.
    assert_eq!(best.values[1], None);
    // The queue does not matter for one client: both of its values are plausible.
    let plausible = result.plausible();
    assert!(!plausible.is_empty());
    for index in &plausible {
        assert_eq!(result.points[*index].values[0], Some(2));
    }
    let sensitivity = result.sensitivity(&calibration);
    assert!(
        sensitivity[0] > 0.8 && sensitivity[1] < 0.3,
        "{sensitivity:?}"
    );
    let class = |finding| {
        result
            .finding(&calibration, finding, false)
            .map(|share| share.shares.class)
    };
    assert_eq!(class(0), Some(Class::Robust));
    assert_eq!(class(1), Some(Class::Excluded));
    // The same bytes twice, on any number of threads, and as read from a file.
    let threads = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("a pool");
    let again = threads.install(|| calibration.run("carob-studies calibrate mine", || {}));
    let json = result.to_json();
    assert_eq!(again.expect("it runs").to_json(), json);
    assert_eq!(CalibrationResult::from_json(&json), Ok(result.clone()));
    assert!(!result.is_stale(&calibration));
    let drifted = |result| calibration.drifted(result, 3).expect("it runs");
    assert!(drifted(&result).is_empty());
    let mut other = result.clone();
    other.points[0].facts[0].checks[0].deviation += 1.0;
    assert_eq!(drifted(&other), [0]);
    let texts = [Claim {
        id: "mine-1".to_owned(),
        claim: "A crowd waits.".to_owned(),
        weight: "headline".to_owned(),
        ..Claim::default()
    }];
    let page = markdown(&calibration, &result, &texts, "Me 2026");
    for line in [
        "# Me 2026: what would have to be true",
        "| service | 20 ms; 40 ms; 60 ms; 80 ms | 60 ms | 60 ms |",
        "| queue | 10; 50 | as in the scenario | all |",
        "| mine-1 | headline | holds | holds | 100 % | 0 % | robust |  | A crowd waits. |",
        "The scenario files as they are are not among them.",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[test]
fn neighbours_differ_from_the_interpretation_in_one_value() {
    let open = OPEN_FILE.replace(
        "points = 8\nrounds = 1",
        "points = 2\nneighbours = true\nrounds = 0",
    );
    let candidate = "[[candidate]]\nname = \"true\"\nvalues = { service = \"60 ms\" }\n";
    let calibration = calibration(&format!("{open}{candidate}"), BASELINE_FILE).expect("it reads");
    let result = calibration.run("", || {}).expect("it runs");
    assert!(result.points.len() <= calibration.runs());
    let best = &result.points[result.interpretation].values;
    assert_eq!(best, &[Some(2), None]);
    let near = result.points.iter().filter(|point| point.round == 3);
    let near: Vec<&Point> = near.map(|point| &point.values).collect();
    assert!(
        near.iter().all(|point| differing(point, best) == 1),
        "{near:?}"
    );
    // Another queue is plausible, the scenario's own is no other, and further service times are excluded.
    let plausible = result.plausible();
    let plausible: Vec<&Point> = plausible
        .iter()
        .map(|i| &result.points[*i].values)
        .collect();
    assert!(
        plausible.contains(&&vec![Some(2), Some(0)]),
        "{plausible:?}"
    );
    assert!(!near.contains(&&vec![Some(2), Some(1)]));
}

#[test]
fn calibration_starts_from_the_base_settings() {
    // The scenario now has 60 ms; the search still starts at 20 ms.
    let base = "[[base]]\nset = [\"server.service=20 ms\"]\n";
    let open = format!("{OPEN_FILE}{base}");
    let with = |scenario: &str| {
        let files = vec![ScenarioFile {
            name: "scenarios/server.toml".to_owned(),
            text: scenario.to_owned(),
        }];
        let findings = rule::read(RULES).expect("rules that read");
        Calibration::read("mine", &open, BASELINE_FILE, findings, files).expect("it reads")
    };
    let before = calibration(OPEN_FILE, BASELINE_FILE).expect("it reads");
    let after = with(&SCENARIO.replace("service = \"20 ms\"", "service = \"60 ms\""));
    let result = after.run("", || {}).expect("it runs");
    let without = before.run("", || {}).expect("it runs");
    assert_eq!(result.points, without.points);
    let best = &result.points[result.interpretation];
    assert_eq!(after.label(0, best.values[0]), "60 ms");
    assert_eq!(after.label(1, best.values[1]), "as first chosen");
    assert!(after.has_taken_over(&best.values));
    assert!(!with(SCENARIO).has_taken_over(&best.values));
    let page = markdown(&after, &result, &[], "Me 2026");
    for line in [
        "The settings chosen first are not among them. The scenario files have the settings of the interpretation.",
        "| finding | weight | chosen first | interpretation |",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[test]
fn facts_that_no_point_meets_are_named() {
    let impossible = BASELINE_FILE.replace("about = 0.69", "about = 69");
    let calibration = calibration(OPEN_FILE, &impossible).expect("it reads");
    let result = calibration.run("", || {}).expect("it runs");
    assert!(result.plausible().is_empty());
    let page = markdown(&calibration, &result, &[], "Me 2026");
    assert!(
        page.contains(
            "**Every point is excluded.** The interpretation violates: four requests take 0.69 s."
        ),
        "{page}"
    );
    // The findings are judged at the nearest points.
    assert_eq!(result.counted().len(), 4);
    // No setting brings the scenario nearer.
    assert_eq!(result.interpretation, 0);
}

#[test]
fn wrong_files_are_explained() {
    for (open, baseline, expected) in [
        (
            OPEN_FILE.replace("server.service", "server.serivce"),
            BASELINE_FILE.to_owned(),
            "open.toml: setting \"service\", scenarios/server.toml: ",
        ),
        (
            OPEN_FILE.replace("\"40 ms\"", "\"40\""),
            BASELINE_FILE.to_owned(),
            "open.toml: setting \"service\"",
        ),
        (
            OPEN_FILE.replace(
                "name = \"queue\"",
                "name = \"queue\"\nscenarios = [\"other\"]",
            ),
            BASELINE_FILE.to_owned(),
            "open.toml: setting \"queue\" is of no scenario",
        ),
        (
            // A constant that default CoAP does not have: its points would have no runs.
            OPEN_FILE.replace(
                "key = \"receive_queue\"\nvalues = [\"10\", \"50\"]",
                "key = \"cc.estimate_max\"\nvalues = [\"0 s\", \"32 s\"]",
            ),
            BASELINE_FILE.to_owned(),
            "default has no constant \"estimate_max\"",
        ),
        (
            format!("{OPEN_FILE}[[base]]\nset = [\"server.service=20\"]"),
            BASELINE_FILE.to_owned(),
            "open.toml: base, scenarios/server.toml: ",
        ),
        (
            format!("{OPEN_FILE}[[base]]\nscenarios = [\"other\"]\nset = []"),
            BASELINE_FILE.to_owned(),
            "open.toml: base of other is of no scenario",
        ),
        (
            OPEN_FILE.to_owned(),
            BASELINE_FILE.replace("server-1)", "server-2)"),
            "baseline.toml: no scenario has the cell \"server-2\"",
        ),
        (
            OPEN_FILE.to_owned(),
            BASELINE_FILE.replace("default,", "nobody,"),
            "baseline.toml: no algorithm is called \"nobody\"",
        ),
        (
            OPEN_FILE.to_owned(),
            BASELINE_FILE.replace("within = \"3 %\"", ""),
            "has no tolerance",
        ),
        (
            OPEN_FILE.to_owned(),
            BASELINE_FILE.replace("p50(fct_s, default, server-1)", "1 + 1"),
            "no run is needed for it",
        ),
        (
            OPEN_FILE.to_owned(),
            format!("{BASELINE_FILE}{BASELINE_FILE}"),
            "the id is there twice",
        ),
    ] {
        let error = calibration(&open, &baseline).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.remedy.is_empty());
    }
}

#[test]
fn deviations_are_in_tolerances() {
    let band = Condition::Band {
        low: 9.0,
        high: 11.0,
    };
    let none = |_: &Expression| None;
    for (value, condition, expected) in [
        (10.0, &band, 0.0),
        (11.0, &band, 1.0),
        (8.0, &band, 2.0),
        (1e9, &band, DEVIATION_MAX),
        (4.0, &Condition::Below(Bound::Number(5.0)), 0.0),
        (5.5, &Condition::Below(Bound::Number(5.0)), 2.0),
        (4.0, &Condition::Above(Bound::Number(5.0)), 3.0),
    ] {
        let found = deviation(value, condition, none);
        assert!(
            (found - expected).abs() < 1e-9,
            "{value} {condition}: {found}"
        );
    }
    assert!((digits(123_456.789) - 123_460.0).abs() < 1e-6);
}
