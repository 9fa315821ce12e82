//! Layout of a table in a given number of columns of a terminal, and line breaks of running text.

use super::{Align, Emphasis, TextTable};

/// Characters between two columns.
const GAP: usize = 2;
/// Columns of text that are at least this wide may be broken into lines before others are left out.
const PROSE: usize = 30;
/// The narrowest that such a column becomes before others are left out.
const PROSE_MIN: usize = 24;

/// Selected columns with their widths.
struct Columns {
    shown: Vec<usize>,
    widths: Vec<usize>,
}

impl Columns {
    fn total(&self) -> usize {
        let gaps = GAP * self.shown.len().saturating_sub(1);
        self.shown.iter().map(|n| self.widths[*n]).sum::<usize>() + gaps
    }

    fn fit(&self, columns: usize) -> bool {
        self.total() <= columns
    }

    fn widest_first(&self) -> Vec<usize> {
        let mut order = self.shown.clone();
        order.sort_by_key(|column| std::cmp::Reverse(self.widths[*column]));
        order
    }

    /// Takes the excess from one column, which keeps at least this width.
    fn shrink(&mut self, column: usize, least: usize, columns: usize) {
        let excess = self.total().saturating_sub(columns);
        let width = self.widths[column];
        self.widths[column] = width.saturating_sub(excess).max(least.min(width));
    }
}

impl TextTable {
    /// The table for a terminal of `columns` columns, with escape sequences for emphasis.
    ///
    /// Long text is broken into lines; then columns that are the same in every row are left out,
    /// then optional ones. Notes below name them, and notes are wrapped.
    pub fn for_terminal(&self, columns: usize) -> String {
        self.lay_out(Some(columns), true)
    }

    /// The table in full width, with escape sequences for emphasis.
    pub fn styled(&self) -> String {
        self.lay_out(None, true)
    }

    /// Columns of the table in full width, without its notes.
    pub fn width(&self) -> usize {
        self.all().total()
    }

    /// The table in full width, or in a number of columns.
    pub(super) fn lay_out(&self, columns: Option<usize>, styled: bool) -> String {
        let (chosen, remarks) = match columns {
            Some(columns) => self.choose(columns),
            None => (self.all(), Vec::new()),
        };
        let mut text = String::new();
        let names: Vec<&str> = self.header.iter().map(|(name, _)| name.as_str()).collect();
        self.row_lines(&chosen, &names, &|_| None, &mut text);
        let rules: Vec<String> = chosen.widths.iter().map(|w| "─".repeat(*w)).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        self.row_lines(&chosen, &rules, &|_| None, &mut text);
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            let emphasis = |column| {
                let found = self.emphasis.get(&(number, column)).copied();
                found.filter(|_| styled)
            };
            self.row_lines(&chosen, &cells, &emphasis, &mut text);
        }
        for note in self.notes.iter().chain(&remarks) {
            let note = columns.map_or_else(|| note.clone(), |columns| wrapped(note, columns));
            text.extend([&note, "\n"]);
        }
        text
    }

    /// All columns in full width.
    fn all(&self) -> Columns {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.fold(self.header[column].0.chars().count(), usize::max)
        };
        Columns {
            shown: (0..self.header.len()).collect(),
            widths: (0..self.header.len()).map(width).collect(),
        }
    }

    /// Chooses and narrows columns until they fit; remarks name those left out.
    fn choose(&self, columns: usize) -> (Columns, Vec<String>) {
        let mut chosen = self.all();
        let mut remarks = Vec::new();
        if chosen.fit(columns) {
            return (chosen, remarks);
        }
        self.shrink_prose(&mut chosen, columns);
        let mut same = Vec::new();
        for column in self.constant() {
            if chosen.fit(columns) {
                break;
            }
            chosen.shown.retain(|shown| *shown != column);
            let value = self.rows[0][column].trim();
            if !value.is_empty() && value != "–" {
                same.push(format!("{} {value}", self.header[column].0));
            }
        }
        let mut left_out = Vec::new();
        for name in &self.optional {
            if chosen.fit(columns) {
                break;
            }
            let is_it = |column: &usize| self.header[*column].0 == *name;
            if chosen.shown.iter().any(is_it) {
                chosen.shown.retain(|column| !is_it(column));
                left_out.push(name.as_str());
            }
        }
        if !left_out.is_empty() {
            // The columns left out may have made room for text.
            chosen.widths = self.all().widths;
            self.shrink_prose(&mut chosen, columns);
        }
        self.shrink_all(&mut chosen, columns);
        if !same.is_empty() {
            remarks.push(format!("The same in every row: {}.", same.join(", ")));
        }
        if !left_out.is_empty() {
            remarks.push(format!(
                "Left out for want of width: {}.",
                left_out.join(", ")
            ));
        }
        (chosen, remarks)
    }

    /// Breaks long text into lines.
    fn shrink_prose(&self, chosen: &mut Columns, columns: usize) {
        for column in chosen.widest_first() {
            let is_prose = self.header[column].1 == Align::Left && chosen.widths[column] >= PROSE;
            if is_prose && !chosen.fit(columns) {
                chosen.shrink(column, PROSE_MIN, columns);
            }
        }
    }

    /// Breaks text after marks, headers between words, and in the end anything.
    fn shrink_all(&self, chosen: &mut Columns, columns: usize) {
        for only_words in [true, false] {
            for column in chosen.widest_first() {
                if chosen.fit(columns) {
                    return;
                }
                let cells = self.rows.iter().map(|row| row[column].as_str());
                let name = self.header[column].0.as_str();
                let least = match (only_words, self.header[column].1) {
                    (true, Align::Left) => cells.chain([name]).map(narrowest).max(),
                    // Numbers are not broken.
                    (true, Align::Right) => {
                        let cells = cells.map(|cell| cell.chars().count());
                        cells.chain([narrowest(name)]).max()
                    }
                    (false, _) => Some(4),
                };
                chosen.shrink(column, least.unwrap_or_default(), columns);
            }
        }
    }

    /// Columns with the same cell in every one of several rows, but not the first.
    fn constant(&self) -> Vec<usize> {
        let [first, others @ ..] = &self.rows[..] else {
            return Vec::new();
        };
        if others.is_empty() {
            return Vec::new();
        }
        let same = |column: &usize| others.iter().all(|row| row[*column] == first[*column]);
        (1..self.header.len()).filter(same).collect()
    }

    /// Adds the lines of one row.
    fn row_lines(
        &self,
        chosen: &Columns,
        cells: &[&str],
        emphasis: &dyn Fn(usize) -> Option<Emphasis>,
        text: &mut String,
    ) {
        let broken: Vec<Vec<String>> = (chosen.shown.iter())
            .map(|column| cell_lines(cells[*column], chosen.widths[*column]))
            .collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or_default();
        for line in 0..height {
            let mut row = String::new();
            for (place, column) in chosen.shown.iter().enumerate() {
                let cell = broken[place].get(line).map_or("", String::as_str);
                let pad = " ".repeat(chosen.widths[*column].saturating_sub(cell.chars().count()));
                let shown = match emphasis(*column) {
                    Some(emphasis) if !cell.is_empty() => emphasis.paint(cell),
                    _ => cell.to_owned(),
                };
                let gap = if place == 0 { "" } else { "  " };
                match self.header[*column].1 {
                    Align::Left => row.extend([gap, &shown, &pad]),
                    Align::Right => row.extend([gap, &pad, &shown]),
                }
            }
            text.extend([row.trim_end(), "\n"]);
        }
    }
}

impl Emphasis {
    /// The text between the escape sequences of ECMA-48 (SGR).
    fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Best => 1,
            Self::Good => 32,
            Self::Partial => 33,
            Self::Bad => 31,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Breaks each line that is longer than `columns` characters between words. Further lines are
/// indented by two more than the first. A command between backticks stays whole.
pub fn wrapped(text: &str, columns: usize) -> String {
    let lines = text.split('\n').map(|line| one_line(line, columns));
    let lines: Vec<String> = lines.collect();
    lines.join("\n")
}

fn one_line(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let spaces = line.chars().take_while(|c| *c == ' ').count();
    let indent = " ".repeat(spaces);
    let mut lines: Vec<String> = Vec::new();
    for token in tokens(line.trim_start(), columns.saturating_sub(spaces + 2)) {
        match lines.last_mut() {
            None => lines.push(format!("{indent}{token}")),
            Some(last) if width(last) + 1 + width(&token) <= columns => {
                last.extend([" ", &token]);
            }
            Some(_) => lines.push(format!("{indent}  {token}")),
        }
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n")
}

/// Words, and commands between backticks that fit a line.
fn tokens(text: &str, columns: usize) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut in_command = false;
    for word in text.split(' ') {
        match tokens.last_mut() {
            Some(last) if in_command && width(last) + 1 + width(word) <= columns => {
                last.extend([" ", word]);
            }
            _ => tokens.push(word.to_owned()),
        }
        in_command ^= word.matches('`').count() % 2 == 1;
    }
    tokens
}

/// Columns of a text on a terminal: its characters without escape sequences of styles (SGR).
fn width(text: &str) -> usize {
    let mut columns = 0;
    let mut in_sequence = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => in_sequence = true,
            'm' if in_sequence => in_sequence = false,
            _ if in_sequence => {}
            _ => columns += 1,
        }
    }
    columns
}

/// The text of a cell in lines of at most `columns` characters: broken between words, then after
/// marks within a word, and elsewhere only where a part is still too long.
pub(super) fn cell_lines(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    if text.chars().count() <= columns {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let room = columns.saturating_sub(line.chars().count());
        let length = word.chars().count();
        if !line.is_empty() && length < room {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for part in parts(word, columns) {
            if line.chars().count() + part.chars().count() > columns {
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(&part);
        }
    }
    lines.push(line);
    lines
}

/// A word in parts that end with a mark, none longer than `columns`.
fn parts(word: &str, columns: usize) -> Vec<String> {
    if word.chars().count() <= columns {
        return vec![word.to_owned()];
    }
    let mut parts = vec![String::new()];
    for c in word.chars() {
        let last = parts.last_mut().expect("there is one");
        if last.chars().count() == columns {
            parts.push(c.to_string());
        } else {
            last.push(c);
        }
        if "-/,.=_;".contains(c) {
            parts.push(String::new());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The fewest columns that break no word but after a mark.
pub(super) fn narrowest(text: &str) -> usize {
    let pieces = text.split([' ', '-', '/', ',', '.', '=', '_', ';']);
    let longest = pieces.map(|piece| piece.chars().count()).max();
    longest.unwrap_or_default() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        let lines = text.lines().map(|line| line.chars().count());
        lines.max().unwrap_or_default()
    }

    fn table(columns: &[&str], rows: &[&[&str]]) -> TextTable {
        let mut table = TextTable::new(columns);
        for row in rows {
            table.add(row.iter().map(|&cell| cell.to_owned()).collect());
        }
        table
    }

    #[test]
    fn a_table_that_fits_is_the_same_as_in_full() {
        let table = table(&["a", ">b"], &[&["x", "1"]]);
        assert_eq!(table.for_terminal(80), table.to_string());
    }

    #[test]
    fn constant_columns_go_first_then_optional_ones() {
        let columns = ["name", ">runs", ">p10", ">median"];
        let rows: [&[&str]; 2] = [&["one", "40", "1.0", "2.0"], &["two", "40", "1.5", "2.5"]];
        let mut table = table(&columns, &rows);
        table.optional(&["p10"]);
        let text = table.for_terminal(17);
        assert!(text.starts_with("name  p10  median\n"), "{text}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words(&text).ends_with("The same in every row: runs 40."),
            "{text}"
        );
        let text = table.for_terminal(12);
        assert!(text.starts_with("name  median\n"), "{text}");
        assert!(
            words(&text).ends_with("Left out for want of width: p10."),
            "{text}"
        );
        assert!(widest(&text) <= 12, "{text}");
    }

    #[test]
    fn long_text_is_broken_before_columns_are_left_out() {
        let long = "word ".repeat(20);
        let columns = ["name", "about", ">n"];
        let mut table = table(&columns, &[&["one", &long, "1"], &["two", "short", "2"]]);
        table.optional(&["n"]);
        let text = table.for_terminal(60);
        assert!(widest(&text) <= 60 && !text.contains("Left out"), "{text}");
        assert_eq!(text.matches("word").count(), 20);
    }

    #[test]
    fn any_table_fits_any_terminal_of_20_columns() {
        let long = "a-name-of-many-parts/with-a-slash";
        let columns = ["first", ">retransmissions", "verdict"];
        let rows: [&[&str]; 2] = [&[long, "1234567.8", "holds"], &["b", "2", "fails"]];
        for columns_of_terminal in 20..100 {
            let text = table(&columns, &rows).for_terminal(columns_of_terminal);
            assert!(widest(&text) <= columns_of_terminal, "{text}");
        }
    }

    #[test]
    fn emphasis_has_no_width() {
        let mut table = table(&[">a", "b"], &[&["1", "holds"]]);
        table.emphasise(1, Emphasis::Good);
        assert!(!table.to_string().contains('\u{1b}'));
        assert!(!table.markdown().contains('\u{1b}'));
        let text = table.for_terminal(80);
        assert!(text.contains("1  \u{1b}[32mholds\u{1b}[0m\n"), "{text:?}");
    }

    #[test]
    fn running_text_fits_and_keeps_its_words_and_commands() {
        let text = "word ".repeat(40) + "`carob lab run carob/default -a all` compares all.";
        let lines = wrapped(&text, 80);
        let widest = lines.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{lines}");
        assert!(lines.contains("`carob lab run carob/default -a all`"));
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        assert_eq!(words(&lines), words(&text));
    }

    #[test]
    fn escape_sequences_take_no_columns() {
        assert_eq!(width("\u{1b}[1mab\u{1b}[0m c"), 4);
        let styled = "\u{1b}[31mone\u{1b}[0m two";
        assert_eq!(wrapped(styled, 7), styled);
    }

    #[test]
    fn continuation_lines_keep_the_indent() {
        assert_eq!(
            wrapped("  one two three\nshort", 10),
            "  one two\n    three\nshort"
        );
    }

    #[test]
    fn a_cell_is_broken_at_spaces_then_after_marks_then_anywhere() {
        assert_eq!(cell_lines("a bc def", 4), ["a bc", "def"]);
        assert_eq!(cell_lines("default-high", 9), ["default-", "high"]);
        assert_eq!(cell_lines("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(cell_lines("", 3), [""]);
    }
}
