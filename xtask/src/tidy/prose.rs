//! The prose of a file: comments, string literals and documents as words with their lines.

use super::rust_source::{Kind, pieces};

/// A word in lower case, or the end of a passage where the text is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Counted from 1.
    pub(super) line: usize,
}

/// The words of a source file's comments, or of its string literals. Adjacent line comments are one passage.
pub(super) fn of_source(text: &str, kind: Kind) -> Vec<Word> {
    let mut words = Vec::new();
    let mut line = 1;
    for (found, piece) in pieces(text) {
        if found == kind {
            // The `n` of an escaped line feed is not a part of the next word.
            add(&piece.replace("\\n", "  "), line, &mut words);
            if kind == Kind::Text {
                end_passage(line, &mut words);
            }
        } else if !piece.trim().is_empty() || piece.matches('\n').count() > 1 {
            end_passage(line, &mut words);
        }
        line += piece.matches('\n').count();
    }
    words
}

/// The words of a Markdown document. Paragraphs and table cells are passages; code blocks are left out.
pub(super) fn of_document(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code || line.trim().is_empty() {
            end_passage(index + 1, &mut words);
            continue;
        }
        for (cell, passage) in line.split('|').enumerate() {
            if cell > 0 {
                end_passage(index + 1, &mut words);
            }
            add(passage, index + 1, &mut words);
        }
    }
    words
}

fn end_passage(line: usize, words: &mut Vec<Word>) {
    let text = String::new();
    words.push(Word { text, line });
}

fn add(passage: &str, first_line: usize, words: &mut Vec<Word>) {
    for (index, line) in passage.lines().enumerate() {
        let found = line.split(|c: char| !c.is_alphanumeric());
        words.extend(found.filter(|word| !word.is_empty()).map(|word| Word {
            text: word.to_lowercase(),
            line: first_line + index,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(words: &[Word]) -> String {
        let texts: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
        texts.join(" ")
    }

    #[test]
    fn a_comment_goes_on_over_its_lines_and_ends_with_them() {
        let text = "/// The peer's\n/// state\nfn f() {} // a\n// b\n\n// c\n";
        let words = of_source(text, Kind::Comment);
        assert_eq!(spoken(&words), "the peer s state  a b  c");
        assert_eq!(words.last().map(|word| word.line), Some(6));
    }

    #[test]
    fn strings_are_passages_of_their_own() {
        let text = "f(\"a\\nb\", \"c \\\n d\"); // e";
        assert_eq!(spoken(&of_source(text, Kind::Text)).trim(), "a b   c d");
    }

    #[test]
    fn code_blocks_of_a_document_are_no_prose() {
        let text = "One\ntwo.\n\n```console\n$ x\n```\n| three | four |\n";
        let words = of_document(text);
        assert!(spoken(&words).starts_with("one two  "));
        assert!(spoken(&words).ends_with("three  four "));
        assert!(!spoken(&words).contains(" x"));
    }
}
