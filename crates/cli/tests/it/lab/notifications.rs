//! Notification scenarios.

use crate::commands::harness::Parts as _;
use crate::process::Scratch;

#[test]
fn notification_scenarios_have_metrics_and_figures() {
    let folder = Scratch::new();
    let cell = "nonobserve/umts-1s-25S3n";
    let few = "--seeds 10 --set 'duration=1 min'";
    let run = |more: &str| folder.stdout_of(&format!("lab run {cell} {few} --no-report {more}"));
    let table = run("").replace("\n  ", " ");
    table.has(&[
        "PDR",
        "ratio",
        "buffer",
        "CON",
        "delay s",
        "points more of the notifications than observe-static (95 % interval",
    ]);
    assert!(!table.contains("median s"), "{table}");
    let rows = folder.lines(&format!("lab run {cell} --json {few}"));
    let of = |row: usize, metric: &str| rows[row]["metrics"][metric]["mean"].as_f64();
    let [default, observe] = [of(0, "pdr"), of(1, "pdr")].map(|pdr| pdr.expect("a share"));
    // `default` sends 75 packets into a buffer of 50; `observe` sends one notification of nine.
    assert!(
        (0.65..0.67).contains(&default) && observe < 0.15,
        "{default} {observe}"
    );
    assert_eq!(of(0, "notifications"), Some(60.0 * 75.0));
    let pdr = run("--svg bars");
    assert!(pdr.starts_with("<svg") && pdr.contains(">pdr<"), "{pdr}");
}

#[test]
fn a_report_of_notifications_has_their_figures() {
    let folder = Scratch::new();
    let set = "--set 'duration=30 s' --set subscribers=5";
    folder.stdout_of(&format!(
        "lab run nonobserve/umts --seeds 1 --report r.html {set}"
    ));
    let html = folder.read_text("r.html");
    assert!(html.contains("pdr by cell and algorithm") && html.contains("pdr against"));
    assert!(!html.contains("Completion times") && !html.contains("NaN"));
}
