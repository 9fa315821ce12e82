//! Marks beside names of controllers of which something has no source and is this project's choice.
//!
//! Tables for people have them, each with its footnote; names in JSON and comma-separated values
//! have no marks.

use carob_cc::registry;

use crate::text::TextTable;

/// The text of the footnote.
pub const FOOTNOTE: &str =
    "* constants or rules are this project's choice: carob cc show NAME tells which and why";

/// Returns true if constants or rules of the named controller are this project's choice.
pub fn is_choice(name: &str) -> bool {
    #[cfg(test)]
    if let Some(pretended) = tests::PRETENDED.get() {
        return name == pretended;
    }
    registry::find(name).is_ok_and(|entry| entry.project_choice.is_some())
}

/// The name with its mark, if it has one. Changed settings may follow the name.
pub fn marked(label: &str) -> String {
    let ends = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    let (name, rest) = label.split_at(label.find(ends).unwrap_or(label.len()));
    if is_choice(name) {
        format!("{name} *{rest}")
    } else {
        label.to_owned()
    }
}

/// Marks the names in a column, and adds the footnote if there is a mark.
pub fn mark(table: &mut TextTable, column: &str) {
    let mut any = false;
    table.change(column, |cell| {
        let label = marked(cell);
        any |= label != cell;
        label
    });
    if any {
        table.add_note(FOOTNOTE);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The only name taken for a choice, while [`pretending`].
        pub(super) static PRETENDED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Does something while one controller counts as a choice, and no other.
    pub(crate) fn pretending<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
        PRETENDED.set(Some(name));
        let done = work();
        PRETENDED.set(None);
        done
    }

    #[test]
    fn the_mark_stands_right_after_the_name() {
        pretending("cocoa-03", || {
            assert_eq!(marked("cocoa-03"), "cocoa-03 *");
            assert_eq!(marked("cocoa-03 (cc.k_weak=4)"), "cocoa-03 * (cc.k_weak=4)");
            assert_eq!(marked("cocoa-031"), "cocoa-031");
            assert_eq!(marked("default"), "default");
        });
    }

    #[test]
    fn what_is_marked_is_what_the_registry_says() {
        for entry in registry::entries() {
            assert_eq!(is_choice(entry.name), entry.project_choice.is_some());
        }
        assert!(!is_choice("nobody"));
    }

    #[test]
    fn a_table_has_the_footnote_if_it_has_a_mark() {
        let table = || {
            let mut table = TextTable::new(["algorithm", "about"]);
            table.add(vec!["default".to_owned(), "default".to_owned()]);
            mark(&mut table, "algorithm");
            table.to_string()
        };
        assert!(!table().contains('*'));
        let marked = pretending("default", table);
        assert!(marked.contains("\ndefault *  default\n"), "{marked}");
        assert!(marked.ends_with(&format!("\n{FOOTNOTE}\n")), "{marked}");
    }
}
