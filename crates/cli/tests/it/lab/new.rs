//! `carob lab new`.

use crate::commands::harness::Parts as _;
use crate::process::Scratch;

#[test]
fn a_new_scenario_runs_at_once() {
    let folder = Scratch::new();
    let said = folder.stdout_of("lab new meters");
    assert!(said.starts_with("meters.toml is written\n"), "{said}");
    let said = folder.stdout_of("lab run meters.toml --seeds 2 --no-report");
    said.has(&["own/meters-none", "own/meters-medium"]);
    let again = folder.carob("lab new meters.toml");
    let error = again.refused(1);
    error.has(&["meters.toml exists already"]);
}

#[test]
fn copied_scenario_has_no_published_values() {
    let folder = Scratch::new();
    folder.stdout_of("lab new mine --from thesis/long");
    let text = folder.read_text("mine.toml");
    assert!(text.starts_with("# A copy of thesis/long.\n"), "{text}");
    let said = folder.stdout_of("lab run mine.toml --seeds 1 --no-report --algorithm default");
    assert!(
        said.contains("own/mine-") && !said.contains("published s"),
        "{said}"
    );
    folder.usage_error("lab new x --from thesis/longer");
    assert!(!folder.path("x.toml").exists());
}
