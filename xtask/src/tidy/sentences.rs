//! Sentences and headings of documents: at most 25 words in 95 % of sentences, headings that name a subject.

use super::{
    Finding,
    ratchet::Ratchet,
    tree::{Tree, has_extension},
};

/// Words of a sentence at most, as far as the share below allows no more.
const WORDS_MAX: usize = 25;

/// One sentence in this number may be longer.
const LONGER: usize = 20;

/// Folders of documents that are quotations, data or recorded results.
const LEFT_OUT: &[&str] = &[
    "papers/",
    "vectors/",
    "fuzz/",
    "scenarios/",
    "crates/lab/results/",
    "crates/studies/results/",
    "crates/emu/results/",
    "crates/cli/tests/",
];

/// Documents with more long sentences than the share permits, and how many they may have.
const LONG_SENTENCES: &[(&str, usize)] = &[
    ("docs/cocoaplus-reproduction.md", 3),
    ("docs/cocoaplus.md", 19),
    ("docs/controllers.md", 13),
    ("docs/notifications.md", 20),
    ("docs/retrycount.md", 4),
    ("docs/rpl.md", 23),
    ("docs/wireless.md", 4),
];

/// First words of headings that do not name a subject.
const NO_SUBJECT: &[&str] = &[
    "Who", "What", "Whether", "It", "Of", "How", "Where", "When", "That",
];

/// Documents whose headings are questions.
const QUESTIONS: &[&str] = &["docs/faq.md", "docs/which-controller.md"];

/// Headings that break the rule, by document.
const HEADINGS: &[(&str, usize)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut headings = Vec::new();
    let (mut all, mut longer) = (0, 0);
    for (path, text) in documents(tree) {
        let sentences = sentences(text);
        let long: Vec<_> = sentences.iter().filter(|s| s.words > WORDS_MAX).collect();
        all += sentences.len();
        longer += long.len();
        findings.extend(too_many(path, sentences.len(), &long));
        headings.extend(without_subject(path, text));
    }
    println!(
        "sentences of documents with at most {WORDS_MAX} words: {:.1} % of {all}",
        100.0 * (all - longer) as f64 / all.max(1) as f64
    );
    let ratchet = Ratchet {
        table: "xtask/src/tidy/sentences.rs",
        allowances: HEADINGS,
    };
    findings.extend(ratchet.judge(&headings));
    findings
}

fn documents(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts()
        .filter(|(path, _)| has_extension(path, "md"))
        .filter(|(path, _)| !LEFT_OUT.iter().any(|left| path.starts_with(left)))
}

/// Findings of a document with more long sentences than permitted, or with an allowance that can shrink.
fn too_many(path: &str, all: usize, long: &[&Sentence]) -> Vec<Finding> {
    let row = LONG_SENTENCES.iter().find(|(known, _)| *known == path);
    let share = (all / LONGER).max(1);
    let allowed = row.map_or(share, |(_, allowed)| *allowed);
    if let Some((_, allowed)) = row
        && long.len() <= share
    {
        let message = format!("`{path}` needs no allowance of {allowed} long sentences any more");
        return vec![Finding::in_file("xtask/src/tidy/sentences.rs", message)];
    }
    if long.len() <= allowed {
        return Vec::new();
    }
    let message = format!(
        "{} of {all} sentences are too long, {allowed} may be",
        long.len()
    );
    let each = long.iter().map(|sentence| {
        let message = format!("{} words: {} ...", sentence.words, sentence.start);
        Finding::at_line(path, sentence.line, message)
    });
    std::iter::once(Finding::in_file(path, message))
        .chain(each)
        .collect()
}

fn without_subject(path: &str, text: &str) -> Vec<Finding> {
    let questions = QUESTIONS.contains(&path);
    super::links::prose(text)
        .filter_map(|(line, text)| Some((line, heading(text)?)))
        .filter(|(_, title)| {
            let first = title.split(' ').next().unwrap_or_default();
            !questions && (title.ends_with('?') || NO_SUBJECT.contains(&first))
        })
        .map(|(line, title)| {
            Finding::at_line(
                path,
                line,
                format!("`{title}`: name the subject of the section"),
            )
        })
        .collect()
}

fn heading(line: &str) -> Option<&str> {
    let title = line.strip_prefix('#')?.trim_start_matches('#');
    title.strip_prefix(' ')
}

#[derive(Debug, PartialEq)]
struct Sentence {
    line: usize,
    words: usize,
    start: String,
}

/// The sentences of paragraphs and list items; tables, headings and code have none.
fn sentences(text: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    let mut paragraph: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (number, line) in super::links::prose(text) {
        let item = list_item(line.trim());
        let ends = number != last + 1 || is_no_prose(line.trim()) || item.is_some();
        if ends {
            end(&mut paragraph, &mut found);
        }
        last = number;
        let indented = paragraph.is_empty() && item.is_none() && line.starts_with("    ");
        if !is_no_prose(line.trim()) && !indented {
            let text = item.unwrap_or(line.trim());
            paragraph.push((number, text.to_owned()));
        }
    }
    end(&mut paragraph, &mut found);
    found
}

fn is_no_prose(line: &str) -> bool {
    line.is_empty()
        || line.starts_with(['|', '#'])
        || line.starts_with("<!--")
        || line.starts_with("![")
}

/// The text of a list item.
fn list_item(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(['-', '*']);
    let rest = rest.or_else(|| {
        let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
        (digits.len() < line.len()).then(|| digits.strip_prefix('.'))?
    })?;
    rest.strip_prefix(' ')
}

fn end(paragraph: &mut Vec<(usize, String)>, found: &mut Vec<Sentence>) {
    let words = paragraph.iter().flat_map(|(line, text)| {
        plain(text)
            .split_whitespace()
            .map(|word| (*line, word.to_owned()))
            .collect::<Vec<_>>()
    });
    let words: Vec<(usize, String)> = words.collect();
    let mut sentence: Vec<&(usize, String)> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        sentence.push(word);
        let next = words.get(index + 1);
        if next.is_none_or(|(_, next)| is_end(&word.1) && is_start(next)) {
            found.extend(counted(&sentence));
            sentence.clear();
        }
    }
    paragraph.clear();
}

fn counted(words: &[&(usize, String)]) -> Option<Sentence> {
    let count = words
        .iter()
        .filter(|(_, word)| word.chars().any(char::is_alphanumeric));
    let start: Vec<_> = words
        .iter()
        .take(6)
        .map(|(_, word)| word.as_str())
        .collect();
    Some(Sentence {
        line: words.first()?.0,
        words: count.count(),
        start: start.join(" "),
    })
}

fn is_end(word: &str) -> bool {
    let word = word.trim_end_matches(['"', '”', ')', '*', '_']);
    let abbreviation = ["e.g.", "i.e.", "vs.", "al.", "etc.", "cf."].contains(&word);
    word.ends_with(['.', '!', '?', ':']) && !abbreviation
}

fn is_start(word: &str) -> bool {
    let word = word.trim_start_matches(['"', '“', '(', '*', '_', '[', '`']);
    word.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit())
}

/// A line with the labels of links, and a word for each span of code.
fn plain(line: &str) -> String {
    let mut text: String = line
        .split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 0 { part } else { "Code" })
        .collect();
    while let Some((before, after)) = text.split_once("](") {
        let Some((_, after)) = after.split_once(')') else {
            break;
        };
        text = format!("{before} {after}")
            .replace(" .", ".")
            .replace(" ,", ",");
    }
    text.replace('[', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<usize> {
        sentences(text)
            .iter()
            .map(|sentence| sentence.words)
            .collect()
    }

    #[test]
    fn sentences_go_on_over_lines_and_end_with_their_paragraph() {
        assert_eq!(words("One two\nthree. Four\n\nFive six"), [3, 1, 2]);
        assert_eq!(words("- One two\n- Three\n2. Four five"), [2, 1, 2]);
        assert_eq!(
            words("See [the page](a.md#b). Use `carob get` now, e.g. here."),
            [3, 5]
        );
    }

    #[test]
    fn tables_headings_and_code_have_no_sentences() {
        assert!(words("# One\n| two |\n```\nthree\n```\n\n    four\n").is_empty());
    }

    #[test]
    fn one_sentence_in_twenty_may_be_long() {
        let long = Sentence {
            line: 1,
            words: 26,
            start: String::new(),
        };
        assert!(too_many("a.md", 40, &[&long, &long]).is_empty());
        assert_eq!(too_many("a.md", 40, &[&long, &long, &long]).len(), 4);
    }

    #[test]
    fn headings_name_their_subject() {
        let text = "# Limits\n## What it costs\n## Which one?\n```\n# What\n```\n";
        assert_eq!(without_subject("a.md", text).len(), 2);
        assert!(without_subject("docs/faq.md", text).is_empty());
    }
}
