//! Line breaks of running text.

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
