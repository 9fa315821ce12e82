//! Allowances for rules that the tree does not keep everywhere yet. They can only shrink.

use std::collections::BTreeMap;

use super::{Finding, tree::parent};

/// A rule and the number of violations allowed in each place.
pub(super) struct Ratchet<'a> {
    /// The file whose table holds the allowances.
    pub(super) table: &'a str,
    /// Violations allowed, by place. A place without a row is allowed none.
    pub(super) allowances: &'a [(&'a str, usize)],
}

impl Ratchet<'_> {
    /// Compares the violations of each place with its allowance.
    ///
    /// A place above its allowance gets a summary and its violations. A place below it, or a row for
    /// a place without violations, gets an order to lower the allowance.
    pub(super) fn judge(&self, violations: &[Finding]) -> Vec<Finding> {
        let mut by_place: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
        for violation in violations {
            let place = place_of(&violation.path);
            by_place.entry(place).or_default().push(violation);
        }
        let mut findings = Vec::new();
        for (place, found) in &by_place {
            let allowed = self.allowance(place);
            if found.len() > allowed {
                let message = format!("{} violations, {allowed} allowed", found.len());
                findings.push(Finding::in_file(place, message));
                findings.extend(found.iter().map(|violation| (*violation).clone()));
            }
        }
        for (place, allowed) in self.allowances {
            let count = by_place.get(place).map_or(0, Vec::len);
            if count < *allowed {
                findings.push(self.lower(place, *allowed, count));
            }
        }
        findings
    }

    /// The violations allowed in a place.
    pub(super) fn allowance(&self, place: &str) -> usize {
        let row = self.allowances.iter().find(|(known, _)| *known == place);
        row.map_or(0, |(_, allowed)| *allowed)
    }

    /// The order to lower an allowance to the violations that are left.
    pub(super) fn lower(&self, place: &str, allowed: usize, count: usize) -> Finding {
        let order = match count {
            0 => "remove the row".to_owned(),
            _ => format!("lower it to {count}"),
        };
        let message = format!("`{place}` is allowed {allowed} and has {count}: {order}");
        Finding::in_file(self.table, message)
    }
}

/// The part of the repository a path belongs to: `crates/cc`, `docs`, or `.` for files at the root.
pub(super) fn place_of(path: &str) -> &str {
    let mut place = parent(path);
    while place.matches('/').count() > usize::from(place.starts_with("crates/")) {
        place = parent(place);
    }
    if place.is_empty() { "." } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATCHET: Ratchet<'static> = Ratchet {
        table: "table.rs",
        allowances: &[("crates/a", 2)],
    };

    fn violations(count: usize) -> Vec<Finding> {
        (1..=count)
            .map(|line| Finding::at_line("crates/a/src/x.rs", line, "wrong"))
            .collect()
    }

    #[test]
    fn a_place_at_its_allowance_passes() {
        assert!(RATCHET.judge(&violations(2)).is_empty());
    }

    #[test]
    fn a_place_above_its_allowance_fails_with_all_its_violations() {
        let found = RATCHET.judge(&violations(3));
        assert_eq!(found.len(), 4);
        assert_eq!(found[0].to_string(), "crates/a: 3 violations, 2 allowed");
    }

    #[test]
    fn a_place_below_its_allowance_must_lower_it() {
        let found = RATCHET.judge(&violations(1));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.ends_with("lower it to 1"), "{found:?}");
        let found = RATCHET.judge(&[]);
        assert!(found[0].message.ends_with("remove the row"), "{found:?}");
    }

    #[test]
    fn a_place_without_a_row_is_allowed_none() {
        let found = RATCHET.judge(&[Finding::at_line("docs/x/y.md", 1, "wrong")]);
        assert_eq!(found[0].path, "docs");
        assert_eq!(place_of("README.md"), ".");
        assert_eq!(place_of("xtask/src/tidy/mod.rs"), "xtask");
    }
}
