//! Aligned tables for terminals.

use std::fmt;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Align {
    Left,
    Right,
}

/// A table of text, printed with aligned columns, a rule under the header, two spaces between.
#[derive(Clone, Debug)]
pub struct TextTable {
    header: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl TextTable {
    /// An empty table.
    pub fn new(header: Vec<(String, Align)>) -> Self {
        Self {
            header,
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, surplus ones are dropped.
    pub fn add(&mut self, mut cells: Vec<String>) {
        cells.resize(self.header.len(), String::new());
        self.rows.push(cells);
    }

    /// Adds a line that stands below the table.
    pub fn add_note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    /// Changes the cells of a column; there may be several of that name.
    pub fn change(&mut self, column: &str, mut cell: impl FnMut(&str) -> String) {
        for (index, (name, _)) in self.header.iter().enumerate() {
            if name == column {
                for row in &mut self.rows {
                    row[index] = cell(&row[index]);
                }
            }
        }
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
        let width = |text: &str| text.chars().count();
        let widths: Vec<usize> = self
            .header
            .iter()
            .enumerate()
            .map(|(i, (name, _))| {
                self.rows
                    .iter()
                    .map(|row| width(&row[i]))
                    .fold(width(name), usize::max)
            })
            .collect();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| -> fmt::Result {
            let mut text = String::new();
            for (i, cell) in cells.enumerate() {
                let pad = " ".repeat(widths[i] - width(cell));
                let gap = if i == 0 { "" } else { "  " };
                match self.header[i].1 {
                    Align::Left => text.extend([gap, cell, &pad]),
                    Align::Right => text.extend([gap, &pad, cell]),
                }
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(&mut self.header.iter().map(|(name, _)| name.as_str()))?;
        let rules: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
        line(&mut rules.iter().map(String::as_str))?;
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str))?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_keeps_alignment_and_escapes_bars() {
        let header = vec![("a|b".into(), Align::Left), ("n".into(), Align::Right)];
        let mut table = TextTable::new(header);
        table.add(vec!["x".into(), "1".into()]);
        assert_eq!(
            table.markdown(),
            "| a\\|b | n |\n| --- | ---: |\n| x | 1 |\n"
        );
        table.add_note("* a note");
        assert!(table.markdown().ends_with("| x | 1 |\n\n\\* a note\n"));
    }

    #[test]
    fn notes_stand_below_and_do_not_widen_columns() {
        let mut table = TextTable::new(vec![("a".into(), Align::Right)]);
        table.add(vec!["1".into()]);
        table.change("a", |cell| format!("{cell}2"));
        table.add_note("a longer text");
        assert_eq!(table.to_string(), " a\n──\n12\na longer text\n");
    }

    #[test]
    fn columns_line_up() {
        let mut table = TextTable::new(vec![
            ("name".into(), Align::Left),
            ("fct".into(), Align::Right),
        ]);
        table.add(vec!["default".into(), "285.7".into()]);
        table.add(vec!["é".into(), "1".into()]);
        table.add(vec!["short".into()]);
        assert_eq!(
            table.to_string(),
            "name       fct\n───────  ─────\ndefault  285.7\né            1\nshort\n"
        );
    }
}
