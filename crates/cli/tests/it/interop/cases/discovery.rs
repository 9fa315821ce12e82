//! Resource discovery (RFC 6690).

use crate::interop::bench::Bench;

/// RFC 6690 4.1: filters by one attribute, whose value may end in an asterisk.
pub(crate) fn filter(bench: &Bench) {
    let (filter, expected) = bench.server.paths.filter;
    let all = bench.discover(None);
    let found = bench.discover(Some(filter));
    assert_eq!(targets(&found), expected, "{found}");
    assert!(
        targets(&all).len() > expected.len(),
        "nothing was left out: {all}"
    );
}

/// Link targets in alphabetical order.
fn targets(links: &str) -> Vec<&str> {
    let mut targets: Vec<_> = links
        .split('<')
        .skip(1)
        .filter_map(|rest| rest.split('>').next())
        .collect();
    targets.sort_unstable();
    targets
}
