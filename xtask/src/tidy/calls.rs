//! Layers inside a crate: a file calls its own layer and the layers named below it.
//!
//! Imports alone do not show it: several files may hold `impl` blocks of one type, and a method calls
//! another with `self.f()` without a `use`. Both kinds of edges are checked here.

mod layerings;
mod modules;

use super::{Finding, items::Function, tree::Tree};
use layerings::LAYERINGS;
use modules::{Modules, Source};

/// The layers of one folder of modules.
struct Layering<'a> {
    /// The crate's source folder, such as `crates/proto/src`.
    root: &'a str,
    layers: &'a [Layer<'a>],
}

/// Files of one layer, and the layers it may use.
struct Layer<'a> {
    name: &'a str,
    /// Prefixes of paths below the root, such as `client/` or `peer.rs`. The longest match decides.
    paths: &'a [&'a str],
    /// Names of the lower layers that it may use; those below them are not implied.
    below: &'a [&'a str],
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, LAYERINGS)
}

fn check_against(tree: &Tree, layerings: &[Layering<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for layering in layerings {
        layering.check(tree, &mut findings);
    }
    findings
}

/// A use of one file's item by another file.
struct Edge<'a> {
    line: usize,
    callee: String,
    target: &'a Source,
}

impl<'a> Layering<'a> {
    fn check(&self, tree: &Tree, findings: &mut Vec<Finding>) {
        let modules = Modules::of(tree, self.root);
        for source in modules.sources() {
            let Some(layer) = self.layer_of(source) else {
                let message = "belongs to no layer; add it in xtask/src/tidy/calls/layerings.rs";
                findings.push(Finding::in_file(&source.path, message));
                continue;
            };
            let mut edges = imports(&modules, source);
            edges.extend(calls(&modules, source));
            let mut found: Vec<_> = edges
                .iter()
                .filter_map(|edge| self.violation(layer, source, edge))
                .collect();
            found.sort();
            found.dedup();
            findings.append(&mut found);
        }
    }

    /// The finding, where an edge goes against the arrows.
    fn violation(&self, from: &Layer<'_>, source: &Source, edge: &Edge<'_>) -> Option<Finding> {
        let to = self.layer_of(edge.target)?;
        if to.name == from.name || from.below.contains(&to.name) {
            return None;
        }
        let message = format!(
            "layer `{}` may not use layer `{}`: `{}` is defined in {}",
            from.name, to.name, edge.callee, edge.target.path
        );
        Some(Finding::at_line(&source.path, edge.line, message))
    }

    fn layer_of(&self, source: &Source) -> Option<&'a Layer<'a>> {
        let path = source.path.strip_prefix(self.root)?.trim_start_matches('/');
        let matches = |layer: &Layer<'_>| {
            let prefixes = layer
                .paths
                .iter()
                .filter(|prefix| path.starts_with(**prefix));
            prefixes.map(|prefix| prefix.len() + 1).max()
        };
        let layers = self.layers.iter().filter(|layer| matches(layer).is_some());
        layers.max_by_key(|layer| matches(layer))
    }
}

/// Items of other files that a file names by a path.
fn imports<'a>(modules: &'a Modules, source: &Source) -> Vec<Edge<'a>> {
    let mut edges = Vec::new();
    for import in &source.paths {
        let target = modules.resolve(&import.path);
        if let Some(target) = target.filter(|target| target.path != source.path) {
            edges.push(Edge {
                line: import.line,
                callee: import.path.join("::"),
                target,
            });
        }
    }
    edges
}

/// Methods of other files that a file's methods call on `self` or `Self`.
fn calls<'a>(modules: &'a Modules, source: &Source) -> Vec<Edge<'a>> {
    let mut edges = Vec::new();
    for caller in &source.functions {
        let Some(owner) = &caller.owner else { continue };
        let name = owner.rsplit("::").next().unwrap_or(owner);
        for (line, callee) in called(source, caller) {
            if let Some(target) = modules.definition(source, owner, &callee) {
                edges.push(Edge {
                    line,
                    callee: format!("{name}::{callee}"),
                    target,
                });
            }
        }
    }
    edges
}

/// The names after `self.` and `Self::` that are called or passed on, with their lines.
fn called(source: &Source, caller: &Function) -> Vec<(usize, String)> {
    let tokens = &source.tokens[caller.body.clone()];
    let text = |at: usize| tokens.get(at).map_or("", |(text, _)| text.as_str());
    let mut found = Vec::new();
    for (at, (word, line)) in tokens.iter().enumerate() {
        let name = match word.as_str() {
            "self" if text(at + 1) == "." => {
                let turbofish = text(at + 3) == ":" && text(at + 4) == ":";
                Some(text(at + 2)).filter(|_| text(at + 3) == "(" || turbofish)
            }
            "Self" if text(at + 1) == ":" && text(at + 2) == ":" => Some(text(at + 3)),
            _ => None,
        };
        found.extend(name.map(|name| (*line, name.to_owned())));
    }
    found
}

#[cfg(test)]
mod tests;
