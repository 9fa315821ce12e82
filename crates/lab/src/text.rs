//! Aligned tables, running text, lists and numbers for terminals.

mod fit;

use std::collections::BTreeMap;
use std::fmt;

pub use fit::wrapped;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Align {
    Left,
    Right,
}

/// Emphasis of a cell on a terminal. Markdown and piped text have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emphasis {
    /// The best value of its column: bold.
    Best,
    /// A result that agrees: green.
    Good,
    /// A result between both: yellow.
    Partial,
    /// A result that disagrees: red.
    Bad,
}

/// A table of text, printed with aligned columns, a rule under the header, two spaces between.
#[derive(Clone, Debug)]
pub struct TextTable {
    header: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
    /// Names of columns that may be left out, the first of them first.
    optional: Vec<String>,
    /// By row and column.
    emphasis: BTreeMap<(usize, usize), Emphasis>,
}

impl TextTable {
    /// An empty table with these columns. Those whose names begin with `>` are aligned to the right.
    pub fn new(columns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let column = |name: &str| match name.strip_prefix('>') {
            Some(name) => (name.to_owned(), Align::Right),
            None => (name.to_owned(), Align::Left),
        };
        let columns = columns.into_iter();
        Self {
            header: columns.map(|name| column(name.as_ref())).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
            optional: Vec::new(),
            emphasis: BTreeMap::new(),
        }
    }

    /// Names columns that a narrow terminal leaves out, the least important first.
    pub fn optional(&mut self, names: &[&str]) {
        self.optional = names.iter().map(|&name| name.to_owned()).collect();
    }

    /// Emphasises a cell of the last row. Without a row or such a column it does nothing.
    pub fn emphasise(&mut self, column: usize, emphasis: Emphasis) {
        if let Some(row) = self.rows.len().checked_sub(1) {
            self.emphasise_in(row, column, emphasis);
        }
    }

    /// Emphasises a cell of a row.
    pub fn emphasise_in(&mut self, row: usize, column: usize, emphasis: Emphasis) {
        self.emphasis.insert((row, column), emphasis);
    }

    /// Emphasises the verdicts of all rows, by the first word of a cell: green where something holds,
    /// yellow where it holds partly, red where it fails.
    pub fn emphasise_verdicts(&mut self) {
        for (number, row) in self.rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let emphasis = match cell.split(' ').next() {
                    Some("holds" | "✓") => Emphasis::Good,
                    Some("holds-partly") => Emphasis::Partial,
                    Some("fails" | "✗") => Emphasis::Bad,
                    _ => continue,
                };
                self.emphasis.insert((number, column), emphasis);
            }
        }
    }

    /// Adds a row; missing cells are empty, surplus ones are dropped.
    pub fn add(&mut self, mut cells: Vec<String>) {
        cells.resize(self.header.len(), String::new());
        self.rows.push(cells);
    }

    /// Adds a line below the table.
    pub fn add_note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    /// Returns true if there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Names of the columns.
    pub fn header(&self) -> impl Iterator<Item = (&str, Align)> {
        self.header
            .iter()
            .map(|(name, align)| (name.as_str(), *align))
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let safe = |text: &str| text.replace('|', "\\|");
        let mut text = line(&mut self.header.iter().map(|(name, _)| safe(name)));
        text += &line(&mut self.header.iter().map(|(_, align)| {
            match align {
                Align::Left => "---",
                Align::Right => "---:",
            }
            .to_owned()
        }));
        for row in &self.rows {
            text += &line(&mut row.iter().map(|cell| safe(cell)));
        }
        for note in &self.notes {
            // A star would begin a list.
            text += "\n";
            text += &note.replacen('*', "\\*", 1);
            text += "\n";
        }
        text
    }

    /// The lines below the table.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The cells of each row.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }
}

impl fmt::Display for TextTable {
    /// Notes follow the rows, a line each. Widths count characters; every text here is Latin, digits and marks of width one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lay_out(None, false))
    }
}

/// Each value once, in the order of the first.
pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Four significant digits or more: 285.70, 1028.1.
pub fn seconds(value: f64) -> String {
    if value < 1_000.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.1}")
    }
}

/// The dash of a cell without a value.
pub fn dash() -> String {
    "–".to_owned()
}

/// A share done as a percentage, rounded down: not 100.0 %, if one of thousands is missing.
pub(crate) fn percent_done(share: f64) -> String {
    // A hair more, for shares such as 0.993 that are a little less in binary.
    format!("{:.1} %", (share * 1_000.0 + 1e-9).floor() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_done_have_one_rounding_that_never_rounds_up_to_all() {
        assert_eq!(percent_done(0.99999), "99.9 %");
        assert_eq!(percent_done(0.993), "99.3 %");
        assert_eq!(percent_done(1.0), "100.0 %");
    }

    #[test]
    fn markdown_keeps_alignment_and_escapes_bars() {
        let mut table = TextTable::new(["a|b", ">n"]);
        table.add(vec!["x".into(), "1".into()]);
        assert_eq!(
            table.markdown(),
            "| a\\|b | n |\n| --- | ---: |\n| x | 1 |\n"
        );
        table.add_note("* a note");
        assert!(table.markdown().ends_with("| x | 1 |\n\n\\* a note\n"));
    }

    #[test]
    fn notes_are_below_the_table_and_do_not_widen_columns() {
        let mut table = TextTable::new([">a"]);
        table.add(vec!["1".into()]);
        table.add_note("a longer text");
        assert_eq!(table.to_string(), "a\n─\n1\na longer text\n");
    }

    #[test]
    fn verdicts_are_emphasised_by_their_first_word() {
        let mut table = TextTable::new(["verdict"]);
        for cell in ["holds 2/2", "holds-partly 1/2", "fails", "undecided"] {
            table.add(vec![cell.to_owned()]);
        }
        table.emphasise_verdicts();
        let text = table.for_terminal(80);
        for painted in ["[32mholds 2/2", "[33mholds-partly 1/2", "[31mfails"] {
            assert!(
                text.contains(&format!("\u{1b}{painted}\u{1b}[0m\n")),
                "{text:?}"
            );
        }
        assert!(text.ends_with("\nundecided\n"), "{text:?}");
    }

    #[test]
    fn columns_line_up() {
        let mut table = TextTable::new(["name", ">fct"]);
        table.add(vec!["default".into(), "285.7".into()]);
        table.add(vec!["é".into(), "1".into()]);
        table.add(vec!["short".into()]);
        assert_eq!(
            table.to_string(),
            "name       fct\n───────  ─────\ndefault  285.7\né            1\nshort\n"
        );
    }
}
