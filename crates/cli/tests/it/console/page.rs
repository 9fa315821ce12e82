//! Console blocks of a page, and comparison of outputs.

/// A command and its printed output.
#[derive(Debug)]
pub(super) struct Example {
    pub(super) command: String,
    pub(super) output: Vec<String>,
    pub(super) varies: Varies,
}

/// Parts of an output that vary from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Varies {
    /// Only durations of runs.
    Nothing,
    /// Numbers, addresses and tokens.
    Numbers,
    /// Numbers, and up to a third of the lines.
    Lines,
}

impl Varies {
    /// Parses the marker line above a block.
    fn read(line: &str) -> Self {
        match line {
            "<!-- numbers vary -->" => Self::Numbers,
            "<!-- lines vary -->" => Self::Lines,
            _ => Self::Nothing,
        }
    }
}

/// A part of a page, in order.
enum Part {
    Line(String),
    Example(Example),
}

/// A Markdown page.
pub(crate) struct Page {
    parts: Vec<Part>,
    /// Name and text of the files that readers are asked to save.
    pub(super) files: Vec<(String, String)>,
}

impl Page {
    /// Parses a page. Blocks of `cargo` commands are kept unchanged.
    pub(super) fn read(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut varies = Varies::Nothing;
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            parts.push(Part::Line(line.to_owned()));
            if line == "```console" && !lines.peek().is_some_and(|line| line.starts_with("$ cargo"))
            {
                while let Some(line) = lines.next_if(|line| *line != "```") {
                    match (line.strip_prefix("$ "), parts.last_mut()) {
                        (Some(command), _) => parts.push(Part::Example(Example {
                            command: command.to_owned(),
                            output: Vec::new(),
                            varies,
                        })),
                        (None, Some(Part::Example(example))) => {
                            example.output.push(line.to_owned());
                        }
                        (None, _) => panic!("a block begins with a command, not `{line}`"),
                    }
                }
            }
            varies = Varies::read(line);
        }
        Self {
            parts,
            files: files(text),
        }
    }

    pub(super) fn examples(&self) -> impl Iterator<Item = &Example> {
        self.parts.iter().filter_map(|part| match part {
            Part::Example(example) => Some(example),
            Part::Line(_) => None,
        })
    }

    /// Returns true if a command is of `carob-studies`.
    pub(crate) fn is_of_studies(&self) -> bool {
        self.examples()
            .any(|example| example.command.starts_with("carob-studies "))
    }

    /// Returns the page with its outputs replaced.
    pub(super) fn with_outputs(&self, outputs: &[Vec<String>]) -> String {
        let mut outputs = outputs.iter();
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Line(line) => text.push_str(line),
                Part::Example(example) => {
                    let output = outputs.next().expect("an output for each command");
                    let lines = std::iter::once(format!("$ {}", example.command));
                    let lines: Vec<_> = lines.chain(output.iter().cloned()).collect();
                    text.push_str(&lines.join("\n"));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Code blocks after a paragraph with "Save this as `NAME`".
fn files(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for rest in text.split("ave this as `").skip(1) {
        let name = rest.split_once('`').map(|(name, _)| name);
        let block = rest
            .split_once("\n```")
            .and_then(|(_, rest)| rest.split_once('\n'));
        let block = block.and_then(|(_, rest)| rest.split_once("\n```"));
        if let (Some(name), Some((block, _))) = (name, block) {
            found.push((name.to_owned(), format!("{block}\n")));
        }
    }
    found
}

/// Returns whether an output matches the printed one.
pub(super) fn lines_match(printed: &[String], output: &[String], varies: Varies) -> bool {
    let seen = |line: &String| {
        let line = without_duration(line);
        if varies == Varies::Nothing {
            line.trim_end().to_owned()
        } else {
            without_numbers(line)
        }
    };
    if varies != Varies::Lines {
        return printed.iter().map(seen).eq(output.iter().map(seen));
    }
    let output: Vec<String> = output.iter().map(seen).collect();
    let found = printed
        .iter()
        .map(seen)
        .filter(|line| output.contains(line));
    3 * found.count() >= 2 * printed.len()
}

/// Strips the duration (" in 1.2 s") from lines that count runs.
fn without_duration(line: &str) -> &str {
    match line.rsplit_once(" in ") {
        Some((counted, time)) if counted.ends_with("run") || counted.ends_with("runs") => {
            if time.ends_with(" s") { counted } else { line }
        }
        _ => line,
    }
}

/// Replaces numbers with their units, loopback addresses and tokens by `#`.
fn without_numbers(line: &str) -> String {
    let units = ["us", "ms", "s", "B", "kB", "MiB"];
    let line = line.replace("[::1]", "127.0.0.1");
    let words = line.split(|c: char| c.is_whitespace() || "─(),\"".contains(c));
    let mut seen: Vec<String> = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        if seen.last().is_some_and(|last| last == "#") && (units.contains(&word) || is_number(word))
        {
            continue;
        }
        seen.push(if is_number(word) {
            "#".to_owned()
        } else {
            word.to_owned()
        });
    }
    seen.join(" ")
}

/// Whether a word is a number, a time of day or a hexadecimal token. Of a JSON member, the value counts.
fn is_number(word: &str) -> bool {
    let value = word
        .trim_end_matches("\\n")
        .trim_start_matches([':', '[', '{', '-'])
        .trim_end_matches(['}', ']', ':', ';', '%']);
    !value.is_empty()
        && value.contains(|c: char| c.is_ascii_digit())
        && value
            .chars()
            .all(|c| c.is_ascii_hexdigit() || ".:-/TZ".contains(c))
}

#[cfg(test)]
mod tests {
    use super::Varies::{Lines, Nothing, Numbers};
    use super::*;

    fn same(printed: &str, output: &str, varies: Varies) -> bool {
        lines_match(&[printed.to_owned()], &[output.to_owned()], varies)
    }

    #[test]
    fn output_is_compared_without_durations() {
        assert!(same("40 runs in 0.1 s", "40 runs in 12.5 s", Nothing));
        assert!(!same("40 runs in 0.1 s", "41 runs in 0.1 s", Nothing));
        assert!(!same("median 4.1 s", "median 4.2 s", Nothing));
        assert!(!lines_match(&["a".into()], &[], Nothing));
    }

    #[test]
    fn numbers_addresses_and_tokens_may_vary() {
        let printed = " 0.0085 → 127.0.0.1:5683 CON GET token 6d56dc5a (timer 2.66 s)";
        let output = "10.0001 → [::1]:5683 CON GET token 0012aa34 (timer 950 ms)";
        assert!(same(printed, output, Numbers));
        assert!(!same(printed, &output.replace("CON", "NON"), Numbers));
        assert!(same(
            "{\"rtt_ms\":0.1,\"id\":7}",
            "{\"rtt_ms\":10.25,\"id\":81}",
            Numbers
        ));
        assert!(!same("{\"rtt_ms\":0.1}", "{\"rtt\":0.1}", Numbers));
        assert!(same(
            "2026-11-24T18:51:21Z",
            "2027-01-01T00:00:00Z",
            Numbers
        ));
    }

    #[test]
    fn a_third_of_the_lines_may_vary_if_marked() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(lines_match(&lines("a b c"), &lines("a b d e"), Lines));
        assert!(!lines_match(&lines("a b c"), &lines("a d e"), Lines));
    }

    #[test]
    fn only_outputs_are_replaced() {
        let text = "# A\n\n```console\n$ a\nold\n$ b\n```\n\nEnd.\n";
        let page = Page::read(text);
        let outputs = [vec!["new".to_owned()], vec![]];
        assert_eq!(page.with_outputs(&outputs), text.replace("old", "new"));
        let outputs = [vec!["old".to_owned()], vec![]];
        assert_eq!(page.with_outputs(&outputs), text);
    }

    #[test]
    fn a_file_to_save_is_the_next_block() {
        let page = Page::read("Save this as `x.toml`:\n\n```toml\na = 1\nb = 2\n```\n");
        assert_eq!(
            page.files,
            [("x.toml".to_owned(), "a = 1\nb = 2\n".to_owned())]
        );
    }
}
