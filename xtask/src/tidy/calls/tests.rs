//! Made-up crates of two layers.

use super::*;

const LAYERING: Layering<'_> = Layering {
    root: "crates/a/src",
    layers: &[
        Layer {
            name: "upper",
            paths: &["", "client/"],
            below: &["lower"],
        },
        Layer {
            name: "lower",
            paths: &["peer.rs", "client/table.rs", "table/"],
            below: &[],
        },
    ],
};

/// The findings of a crate made of these files.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (format!("crates/a/src/{path}"), *text))
        .collect();
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    let findings = check_against(&Tree::of(&files), &[LAYERING]);
    findings.iter().map(ToString::to_string).collect()
}

const ENDPOINT: &str = "mod peer;\nmod client;\npub struct Endpoint;\nimpl Endpoint {\n\
                        fn route(&mut self) { self.send(); }\n}";

#[test]
fn self_call_into_higher_layer_is_found_without_import() {
    let peer = "use super::Endpoint;\nimpl Endpoint {\nfn send(&mut self) {\nself.route();\n}\n}";
    let found = found(&[("lib.rs", ENDPOINT), ("peer.rs", peer)]);
    assert_eq!(
        found,
        [
            "crates/a/src/peer.rs:1: layer `lower` may not use layer `upper`: `Endpoint` is \
             defined in crates/a/src/lib.rs",
            "crates/a/src/peer.rs:4: layer `lower` may not use layer `upper`: `Endpoint::route` is \
             defined in crates/a/src/lib.rs",
        ]
    );
}

#[test]
fn a_call_downwards_or_within_a_layer_is_fine() {
    let peer =
        "pub struct Peer;\nimpl Peer {\nfn a(&self) { self.b(); Self::b; }\nfn b(&self) {}\n}";
    let client = "use crate::peer::Peer;\nfn f(p: Peer) { crate::peer::g(); }";
    let files = [
        ("lib.rs", ENDPOINT),
        ("peer.rs", peer),
        ("client/mod.rs", client),
    ];
    assert!(found(&files).is_empty());
}

#[test]
fn calls_by_generic_type_in_macros_and_as_values_are_found() {
    for call in [
        "Self::route(self)",
        "self.route::<u8>()",
        "assert!(self.route())",
        "f(Self::route)",
    ] {
        let peer = format!("impl super::Endpoint {{\nfn g(&self) {{ {call}; }}\n}}");
        let found = found(&[("lib.rs", ENDPOINT), ("peer.rs", &peer)]);
        let named = found
            .iter()
            .filter(|line| line.contains("`Endpoint::route`"));
        assert_eq!(named.count(), 1, "{call}: {found:?}");
    }
}

#[test]
fn a_method_of_another_type_with_the_same_name_is_no_call() {
    let state = "struct State;\nimpl State {\nfn new(&self) {}\n}";
    let peer = "struct State;\nimpl State {\nfn f(&self) { self.new(); }\n}";
    assert!(found(&[("client/mod.rs", state), ("peer.rs", peer)]).is_empty());
}

#[test]
fn upward_import_is_found_in_tree_by_path_and_by_alias() {
    for text in [
        "use super::{client::{Client, x}, y};",
        "fn f() { crate::client::f(); }",
        "use crate::client as c;",
        "use super::client::*;",
    ] {
        let found = found(&[("client/mod.rs", "struct Client;"), ("peer.rs", text)]);
        assert_eq!(
            found.len(),
            1 + usize::from(text.contains("x}")),
            "{found:?}"
        );
        assert!(found[0].contains("defined in crates/a/src/client/mod.rs"));
    }
}

#[test]
fn a_re_export_leads_to_the_file_that_defines_the_item() {
    let files = [
        (
            "lib.rs",
            "mod table;\npub use table::Entry;\npub use crate::table::rows::*;",
        ),
        ("table/mod.rs", "mod rows;\npub struct Entry;"),
        ("table/rows.rs", "pub struct Row;"),
        ("peer.rs", "use crate::{Entry, Row};"),
    ];
    assert!(found(&files).is_empty());
}

#[test]
fn other_crates_with_the_same_names_and_tests_are_left_out() {
    let peer = "use other::{client::Client, lib};\nuse std::fmt;\n\
                #[cfg(test)]\nmod tests {\nuse crate::client::Client;\n}";
    let files = [
        ("client/mod.rs", "pub struct Client;"),
        ("peer.rs", peer),
        ("table/tests.rs", "use crate::client::Client;"),
    ];
    assert!(found(&files).is_empty(), "{:?}", found(&files));
}

#[test]
fn a_file_of_no_layer_is_found() {
    let layering = Layering {
        root: "crates/a/src",
        layers: &[Layer {
            name: "lower",
            paths: &["peer.rs"],
            below: &[],
        }],
    };
    let tree = Tree::of(&[("crates/a/src/new.rs", "")]);
    let found = check_against(&tree, &[layering]);
    assert!(found[0].message.starts_with("belongs to no layer"));
}

#[test]
fn upward_calls_of_the_runtime_are_found_by_its_own_table() {
    let task = "pub struct Task;\nimpl Task {\nfn run(&self) { self.send(); }\n}";
    let send = "impl crate::runtime::task::Task {\nfn send(&self) { self.run(); }\n}";
    let files = [
        ("crates/carob/src/lib.rs", "mod client;\nmod runtime;"),
        ("crates/carob/src/client/mod.rs", "pub fn f() {}"),
        ("crates/carob/src/runtime/task.rs", task),
        ("crates/carob/src/transport/udp.rs", send),
        (
            "crates/carob/src/server/mod.rs",
            "fn g() { crate::client::f(); }",
        ),
        (
            "crates/carob/src/server/a.rs",
            "fn g() { crate::client::f(); }",
        ),
        ("crates/carob/src/runtime/b.rs", "use crate::client::f;"),
    ];
    let found: Vec<_> = check(&Tree::of(&files))
        .iter()
        .map(|found| {
            let (place, _) = found.message.split_once(':').unwrap_or_default();
            format!("{}: {place}", found.path)
        })
        .collect();
    assert_eq!(
        found,
        [
            "crates/carob/src/runtime/b.rs: layer `runtime` may not use layer `client`",
            "crates/carob/src/server/a.rs: layer `server` may not use layer `client`",
            "crates/carob/src/transport/udp.rs: layer `transport` may not use layer `runtime`",
            "crates/carob/src/transport/udp.rs: layer `transport` may not use layer `runtime`",
        ]
    );
}
