//! Wireless mesh networks.

use crate::process::Scratch;

#[test]
fn only_mesh_scenarios_have_a_topology_figure() {
    let folder = Scratch::new();
    let cell = "cocoaplus/mixed-6x6-ideal-1n";
    let svg = folder.stdout_of(&format!("lab show {cell} --topology"));
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    // 36 nodes; root and sink are drawn differently.
    assert!(svg.matches("mesh-node").count() >= 34);
    assert!(svg.contains(">parent<") && svg.contains(" by ETX "));
    let again = folder.stdout_of(&format!("lab show {cell} --topology --seed 1"));
    assert_eq!(svg, again, "seed 1 is the first");
    let other = folder.stdout_of(&format!("lab show {cell} --topology --seed 2"));
    assert_ne!(svg, other);
}

#[test]
fn load_setting_is_the_total_of_all_nodes() {
    let folder = Scratch::new();
    let lines = folder.lines("lab run cocoaplus/constant --set topology=chain --set link=ideal --set 'load=2 kbit/s' --set traffic.gaps=fixed --algorithm cocoa-plus --seed 1 --json --no-report");
    let [line] = &lines[..] else {
        panic!("one cell, one algorithm: {lines:?}");
    };
    assert_eq!(line["scenario"], "cocoaplus/constant-chain-ideal-2kbit");
    let throughput = &line["metrics"]["throughput_bps"]["mean"];
    let pdr = line["metrics"]["pdr"]["mean"].as_f64().expect("a share");
    let throughput = throughput.as_f64().expect("a rate");
    assert!(pdr > 0.9, "{pdr}");
    assert!(
        (throughput / (2_000.0 * pdr) - 1.0).abs() < 0.02,
        "{throughput}"
    );
}
