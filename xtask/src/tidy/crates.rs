//! Dependencies between the workspace's crates: each crate has a floor and may use lower floors only.
//!
//! `{cc, codec} <- {proto, analyze, sim-core} <- mesh <- {carob, sim} <- {bench, emu, lab} <- {cli, web} <- studies <- python`

use serde_json::Value;

use super::Finding;

const FLOORS: &[(&str, u8)] = &[
    ("carob-cc", 0),
    ("carob-codec", 0),
    ("carob-proto", 1),
    ("carob-analyze", 1),
    ("carob-sim-core", 1),
    ("carob-mesh", 2),
    ("carob", 3),
    ("carob-sim", 3),
    ("carob-bench", 4),
    ("carob-emu", 4),
    ("carob-lab", 4),
    ("carob-cli", 5),
    ("carob-web", 5),
    ("carob-studies", 6),
    ("carob-python", 7),
    ("xtask", 8),
];

/// Crates that run under a simulated clock, and dependencies that read a clock, open sockets or draw
/// randomness.
const DETERMINISTIC: &[&str] = &[
    "carob-cc",
    "carob-codec",
    "carob-proto",
    "carob-sim-core",
    "carob-mesh",
    "carob-sim",
];
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

/// Checks the packages of `cargo metadata --no-deps`.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.flat_map(check_package).collect()
}

fn check_package(package: &Value) -> Vec<Finding> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, manifest) = (text(&package["name"]), text(&package["manifest_path"]));
    let Some(floor) = floor_of(&name) else {
        let message = format!("`{name}` has no floor; give it one in xtask/src/tidy/crates.rs");
        return vec![Finding::in_file(&manifest, message)];
    };
    let mut findings = Vec::new();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let (of, kind) = (text(&dependency["name"]), text(&dependency["kind"]));
        // A crate's own tests may turn on its features.
        let is_itself = of == name && kind == "dev";
        let message = if floor_of(&of).is_some_and(|below| below >= floor) && !is_itself {
            "is not on a lower floor"
        } else if !kind.is_empty() {
            continue;
        } else if DETERMINISTIC.contains(&&*name) && DRIVERS_ONLY.contains(&&*of) {
            "reaches clocks, sockets or randomness, which a simulated crate may not"
        } else if name == "carob-cc" && dependency["optional"] != true {
            "is required, and the controllers have no required dependency"
        } else {
            continue;
        };
        findings.push(Finding::in_file(&manifest, format!("`{of}` {message}")));
    }
    findings
}

fn floor_of(name: &str) -> Option<u8> {
    let known = FLOORS.iter().find(|(known, _)| *known == name);
    known.map(|(_, floor)| *floor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn count(name: &str, dependency: &str, kind: Option<&str>, optional: bool) -> usize {
        let dependency = json!({ "name": dependency, "kind": kind, "optional": optional });
        let package = json!({ "name": name, "dependencies": [dependency] });
        check(&json!({ "packages": [package] })).len()
    }

    #[test]
    fn dependencies_point_to_lower_floors() {
        assert_eq!(count("carob-sim", "carob-proto", None, false), 0);
        assert_eq!(count("carob-sim", "carob", None, false), 1);
        assert_eq!(count("carob-proto", "carob-sim", Some("dev"), false), 1);
        assert_eq!(count("carob-sim", "carob-sim", Some("dev"), false), 0);
        assert_eq!(count("carob-new", "carob", None, false), 1);
    }

    #[test]
    fn controllers_have_no_required_dependency() {
        assert_eq!(count("carob-cc", "libm", None, false), 1);
        assert_eq!(count("carob-cc", "libm", None, true), 0);
    }

    #[test]
    fn simulated_crates_use_no_runtime() {
        assert_eq!(count("carob-sim", "tokio", None, false), 1);
        assert_eq!(count("carob-sim", "tokio", Some("dev"), false), 0);
        assert_eq!(count("carob", "tokio", None, false), 0);
    }
}
