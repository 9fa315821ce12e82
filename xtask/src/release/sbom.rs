//! A bill of materials (CycloneDX 1.5, JSON) of the program: every crate it is built from, with licence
//! and checksum.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::process;
use crate::workspace::Workspace;

/// The crate with the program.
const ROOT: &str = "carob-cli";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The document of this workspace.
pub(super) fn document(workspace: &Workspace) -> Result<Value> {
    let mut command = process::cargo();
    command.args(["metadata", "--format-version", "1", "--locked"]);
    // What is packaged has all features.
    command.args(["--features", "carob-cli/full"]);
    command.args(["--filter-platform", TARGET]);
    let metadata = process::output(command.current_dir(&workspace.root))?;
    let lock = std::fs::read_to_string(workspace.root.join("Cargo.lock"))?;
    from_metadata(&serde_json::from_str(&metadata)?, &checksums(&lock)?)
}

/// SHA-256 of each package from a registry, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, name: &str| {
        package
            .get(name)
            .and_then(toml::Value::as_str)
            .map(str::to_owned)
    };
    let entry = |package| {
        let key = (text(package, "name")?, text(package, "version")?);
        Some((key, text(package, "checksum")?))
    };
    Ok(packages
        .context("Cargo.lock has no packages")?
        .iter()
        .filter_map(entry)
        .collect())
}

fn from_metadata(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> = (list(&metadata["packages"]).into_iter())
        .map(|package| (string(&package["id"]), package))
        .collect();
    let nodes: BTreeMap<String, Value> = (list(&metadata["resolve"]["nodes"]).into_iter())
        .map(|node| (string(&node["id"]), node))
        .collect();
    let root = packages.iter().find(|(_, package)| package["name"] == ROOT);
    let (root, program) = root.context("the workspace has no carob-cli")?;
    // Dependencies for tests and build scripts are no part of the program.
    let needs = |id: &str| -> Vec<String> {
        let deps = nodes
            .get(id)
            .map(|node| list(&node["deps"]))
            .unwrap_or_default();
        let is_normal = |dep: &Value| {
            list(&dep["dep_kinds"])
                .iter()
                .any(|of| of["kind"].is_null())
        };
        let normal = deps.iter().filter(|dep| is_normal(dep));
        normal.map(|dep| string(&dep["pkg"])).collect()
    };
    let mut reached = BTreeSet::new();
    let mut open = vec![root.clone()];
    while let Some(id) = open.pop() {
        if reached.insert(id.clone()) {
            open.extend(needs(&id));
        }
    }
    let purl = |id: &str| {
        let package = &packages[id];
        format!(
            "pkg:cargo/{}@{}",
            string(&package["name"]),
            string(&package["version"])
        )
    };
    let components = reached.iter().filter(|id| *id != root);
    let components = components.map(|id| component(&packages[id], &purl(id), checksums));
    let dependencies = reached.iter().map(|id| {
        let needs: BTreeSet<String> = needs(id).iter().map(|id| purl(id)).collect();
        json!({ "ref": purl(id), "dependsOn": needs })
    });
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": purl(root),
            "name": "carob",
            "version": program["version"],
            "licenses": [{ "expression": program["license"] }],
        }},
        "components": components.collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    }))
}

fn component(package: &Value, purl: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (string(&package["name"]), string(&package["version"]));
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "purl": purl,
        "name": name,
        "version": version,
    });
    if let Some(licence) = package["license"].as_str() {
        // Old manifests have a slash for OR, which is not an SPDX expression.
        let expression = licence.replace('/', " OR ").replace("  ", " ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    if let Some(checksum) = checksums.get(&(name, version)) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_crate_with_its_checksum() {
        let workspace = Workspace::find().unwrap();
        let document = document(&workspace).unwrap();
        let components = document["components"].as_array().unwrap();
        let named = |name: &str| components.iter().find(|one| one["name"] == name);
        let ring = named("ring").expect("TLS needs it");
        assert_eq!(ring["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert!(
            ring["licenses"][0]["expression"]
                .as_str()
                .unwrap()
                .contains("ISC")
        );
        assert!(
            named("carob-proto").unwrap().get("hashes").is_none(),
            "a crate of the workspace"
        );
        assert!(named("proptest").is_none(), "only tests use it");
        let references: BTreeSet<&str> = (components.iter())
            .map(|one| one["bom-ref"].as_str().unwrap())
            .chain(document["metadata"]["component"]["bom-ref"].as_str())
            .collect();
        assert_eq!(references.len(), components.len() + 1, "each once");
        for dependency in document["dependencies"].as_array().unwrap() {
            for needed in dependency["dependsOn"].as_array().unwrap() {
                assert!(references.contains(needed.as_str().unwrap()), "{needed}");
            }
        }
    }
}
