//! Dependencies between the workspace's crates point downwards only.
//!
//! `cc <- proto <- {carob, sim, analyze} <- {emu, lab} <- {studies, web} <- cli <- python`: a crate may use the floors below its own,
//! never its own floor, so `sim` cannot come to know `carob`.

use super::{Finding, tree::Tree};

/// Each crate of the workspace and its floor.
const FLOORS: &[(&str, u8)] = &[
    ("carob-cc", 0),
    ("carob-proto", 1),
    ("carob", 2),
    ("carob-analyze", 2),
    ("carob-sim", 2),
    ("carob-emu", 3),
    ("carob-lab", 3),
    ("carob-studies", 4),
    ("carob-web", 4),
    ("carob-cli", 5),
    ("carob-python", 6),
    // On no floor: tools that nothing else may use.
    ("carob-fuzz", 7),
    ("flash", 7),
    ("unwind", 7),
    ("xtask", 7),
];

/// Crates that run under a simulated clock, and what would bring a real clock or socket in.
const DETERMINISTIC: &[&str] = &["carob-cc", "carob-proto", "carob-sim"];
const DRIVERS_ONLY: &[&str] = &[
    "tokio",
    "socket2",
    "quinn-udp",
    "mio",
    "async-std",
    "rayon",
    "getrandom",
    "rand",
];

const TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_of("toml") {
        if path.ends_with("/Cargo.toml") {
            check_manifest(path, text, &mut findings);
        }
    }
    findings
}

fn check_manifest(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => {
            findings.push(Finding::in_file(
                path,
                format!("not TOML: {}", error.message()),
            ));
            return;
        }
    };
    let Some(name) = manifest
        .get("package")
        .and_then(|p| p.get("name"))
        .and_then(|n| n.as_str())
    else {
        return;
    };
    let Some(floor) = floor_of(name) else {
        let message = format!("`{name}` has no floor; give it one in xtask/src/tidy/layering.rs");
        findings.push(Finding::in_file(path, message));
        return;
    };
    for (table, dependency, value) in dependencies(&manifest) {
        // A crate's own tests may turn on its features.
        let is_itself = dependency == name && table == "dev-dependencies";
        if let Some(below) = floor_of(dependency)
            && below >= floor
            && !is_itself
        {
            let message = format!(
                "`{name}` (floor {floor}) may not use `{dependency}` (floor {below}) in [{table}]"
            );
            findings.push(Finding::in_file(path, message));
        }
        if table != "dependencies" {
            continue;
        }
        if DETERMINISTIC.contains(&name) && DRIVERS_ONLY.contains(&dependency) {
            let message =
                format!("`{name}` runs under a simulated clock, so it may not use `{dependency}`");
            findings.push(Finding::in_file(path, message));
        }
        let optional = value.get("optional").and_then(toml::Value::as_bool) == Some(true);
        if name == "carob-cc" && !optional {
            let message = format!("`{name}` has no required dependency, so not `{dependency}`");
            findings.push(Finding::in_file(path, message));
        }
    }
}

fn floor_of(name: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, floor)| *floor)
}

/// Every dependency with its table, those under `[target.'...']` included.
fn dependencies(manifest: &toml::Table) -> Vec<(&'static str, &str, &toml::Value)> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets
        .into_iter()
        .flat_map(|table| table.values().filter_map(|t| t.as_table()));
    let mut all = Vec::new();
    for holder in std::iter::once(manifest).chain(of_targets) {
        for table in TABLES {
            let Some(entries) = holder.get(*table).and_then(toml::Value::as_table) else {
                continue;
            };
            all.extend(entries.iter().map(|(key, value)| {
                let renamed = value.get("package").and_then(toml::Value::as_str);
                (*table, renamed.unwrap_or(key.as_str()), value)
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(name: &str, rest: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"{name}\"\n{rest}");
        let tree = Tree::of(&[("crates/x/Cargo.toml", &manifest)]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn a_lower_floor_may_be_used() {
        assert!(messages("carob-sim", "[dependencies]\ncarob-proto.workspace = true").is_empty());
    }

    #[test]
    fn the_simulator_may_not_use_the_runtime() {
        let found = messages("carob-sim", "[dependencies]\ncarob.workspace = true");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("may not use `carob`"), "{found:?}");
    }

    #[test]
    fn a_higher_floor_may_not_be_used_even_in_tests() {
        let found = messages(
            "carob-proto",
            "[dev-dependencies]\ncarob-sim.workspace = true",
        );
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn tests_of_a_crate_may_turn_on_its_features() {
        let itself = |table| format!("[{table}]\ncarob-sim = {{ path = \".\" }}");
        assert!(messages("carob-sim", &itself("dev-dependencies")).is_empty());
        assert_eq!(messages("carob-sim", &itself("dependencies")).len(), 1);
    }

    #[test]
    fn a_renamed_or_target_dependency_does_not_slip_through() {
        let found = messages(
            "carob-cc",
            "[target.'cfg(unix)'.dependencies]\np = { package = \"carob-proto\", optional = true }",
        );
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn the_controllers_have_no_required_dependency() {
        assert_eq!(
            messages("carob-cc", "[dependencies]\nlibm = \"0.2\"").len(),
            1
        );
        let optional = "[dependencies]\nlibm = { version = \"0.2\", optional = true }";
        assert!(messages("carob-cc", optional).is_empty());
    }

    #[test]
    fn a_deterministic_crate_may_not_use_a_runtime() {
        assert_eq!(
            messages("carob-sim", "[dependencies]\ntokio = \"1\"").len(),
            1
        );
        assert!(messages("carob", "[dependencies]\ntokio = \"1\"").is_empty());
    }

    #[test]
    fn a_crate_without_a_floor_is_found() {
        assert!(messages("carob-new", "")[0].contains("has no floor"));
    }
}
