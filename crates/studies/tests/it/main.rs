//! The integration tests of `carob-studies`, one module a subject.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cocoaplus;
mod emulated;
mod nonobserve;
mod rpl;
mod thesis_long;
mod wireless;

#[test]
fn readme_counts_match_the_claims_page() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let claims = read("papers/claims.md");
    let all = claims.lines().find(|line| line.starts_with("| all |"));
    let counts: Vec<&str> = all
        .expect("a row of all studies")
        .split('|')
        .map(str::trim)
        .collect();
    let sentence = format!(
        "Of {} findings of five studies {} hold and {} hold in part",
        counts[2], counts[3], counts[4]
    );
    assert!(read("README.md").contains(&sentence), "{sentence}");
}
