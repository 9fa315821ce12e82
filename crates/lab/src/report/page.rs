//! The HTML page around tables and figures.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{FIGURE_STYLE, PAGE_SCRIPT, PAGE_STYLE, Picture};
use crate::text::{Align, TextTable};

/// Sections from which on a page has a list of contents.
const CONTENTS_FROM: usize = 3;
/// Cells of more bytes are sentences, and wrap.
const LONG: usize = 60;
/// Columns from which on each row is a card on a phone.
const CARDS_FROM: usize = 4;

/// A report: one page.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its title.
    pub title: String,
    /// The answer, in a sentence or two.
    pub lead: String,
    /// Facts in short, as (name, value): scenario, hash, seeds, version.
    pub facts: Vec<(String, String)>,
    /// The command that repeats it.
    pub command: String,
    /// Its parts, in order.
    pub sections: Vec<Section>,
}

/// A part of a report.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// Text before its figures, one paragraph each.
    pub text: Vec<String>,
    /// Its figures.
    pub figures: Vec<FigureBlock>,
    /// Its tables, after the figures.
    pub tables: Vec<TextTable>,
    /// Text to unfold, last.
    pub details: Vec<Details>,
}

/// Text to unfold and copy, such as a table as comma-separated values.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Caption of the folded part.
    pub summary: String,
    /// The text; a click selects all of it.
    pub text: String,
}

/// A figure with its caption.
#[derive(Clone, Debug, Default)]
pub struct FigureBlock {
    /// The figure.
    pub picture: Picture,
    /// Title, a few words.
    pub title: String,
    /// Explanation of the figure.
    pub caption: String,
}

impl FigureBlock {
    /// A figure with its text.
    pub fn new(picture: Picture, title: String, caption: &str) -> Self {
        Self {
            picture,
            title,
            caption: caption.to_owned(),
        }
    }
}

impl Report {
    /// The page as HTML.
    pub fn html(&self) -> String {
        let body = html! {
            header {
                h1 { (self.title) }
                p.lead { (self.lead) }
                @if !self.facts.is_empty() {
                    dl {
                        @for (name, value) in &self.facts { dt { (name) } dd { (value) } }
                    }
                }
            }
            @if self.sections.len() >= CONTENTS_FROM {
                nav.contents {
                    @for (k, section) in self.sections.iter().enumerate() {
                        a href={ "#" (anchor(k)) } { (section.heading) }
                    }
                }
            }
            main {
                @for (k, section) in self.sections.iter().enumerate() {
                    (section_of(section, &anchor(k)))
                }
            }
            @if !self.command.is_empty() {
                h2 { "Command" }
                pre.command { code { (self.command) } }
            }
        };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="generator" content={ "carob " (env!("CARGO_PKG_VERSION")) };
                    meta name="description" content=(self.lead);
                    title { (self.title) }
                    style { (PreEscaped(FIGURE_STYLE)) (PreEscaped(PAGE_STYLE)) }
                }
                body {
                    (body)
                    footer { "Made by " code { "carob lab" } ". Same command, same numbers." }
                    script { (PreEscaped(PAGE_SCRIPT)) }
                }
            }
        };
        page.into_string()
    }
}

/// A paragraph, with text in backticks as code.
fn text_of(paragraph: &str) -> Markup {
    html! {
        p {
            @for (k, part) in paragraph.split('`').enumerate() {
                @if k % 2 == 1 { code { (part) } } @else { (part) }
            }
        }
    }
}

/// The anchor of the section with this index.
fn anchor(section: usize) -> String {
    format!("section-{}", section + 1)
}

fn section_of(section: &Section, id: &str) -> Markup {
    html! {
        section id=(id) {
            h2 { (section.heading) }
            @for paragraph in &section.text { (text_of(paragraph)) }
            @for figure in &section.figures {
                figure {
                    (PreEscaped(&figure.picture.0))
                    figcaption { b { (figure.title) } " " (figure.caption) }
                }
            }
            @for table in &section.tables { (html_table(table)) }
            @for details in &section.details {
                details {
                    summary { (details.summary) }
                    pre.all { (details.text) }
                }
            }
        }
    }
}

/// For each row the name of the row above that it continues; empty for a row with a name.
fn shared_names(table: &TextTable) -> Vec<&str> {
    let mut last = "";
    let names = table.rows().iter().map(|row| {
        let own = row.first().map_or("", String::as_str);
        if own.is_empty() {
            return last;
        }
        last = own;
        ""
    });
    names.collect()
}

fn html_table(table: &TextTable) -> Markup {
    let class = |align| if align == Align::Right { "right" } else { "" };
    let header: Vec<(&str, Align)> = table.header().collect();
    html! {
        div.scroll {
            table class=[(header.len() >= CARDS_FROM).then_some("cards")] {
                thead { tr { @for (name, align) in &header { th class=(class(*align)) { (name) } } } }
                tbody {
                    @for (row, shared) in table.rows().iter().zip(shared_names(table)) {
                        tr {
                            @for (column, (cell, (name, align))) in row.iter().zip(&header).enumerate() {
                                @if column == 0 && !shared.is_empty() {
                                    td.same { (shared) }
                                } @else {
                                    (html_cell(cell, class(*align), (column > 0).then_some(*name)))
                                }
                            }
                        }
                    }
                }
            }
        }
        @for note in table.notes() { p.note { (note) } }
    }
}

/// A cell; `heading` is the name of its column, which a card shows above it.
fn html_cell(cell: &str, align: &str, heading: Option<&str>) -> Markup {
    let verdict = match cell {
        "✓" | "holds" => " holds",
        "✗" | "fails" => " fails",
        "undecided" => " undecided",
        _ => "",
    };
    let long = if cell.len() > LONG { " long" } else { "" };
    html! { td class={ (align) (verdict) (long) } data-h=[heading] { (cell) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_one_file_without_links_out() {
        let mut table = TextTable::new([">a"]);
        table.add(vec!["✗".to_owned()]);
        table.add(vec!["a sentence ".repeat(9)]);
        table.add_note("* a note");
        let wide = TextTable::new(["a", "b", "c", "d"]);
        let mut lines = TextTable::new(["name", ">b"]);
        for name in ["one", "", "two"] {
            lines.add(vec![name.to_owned(), "1".to_owned()]);
        }
        let section = Section {
            heading: "1 < 2".to_owned(),
            tables: vec![table, lines, wide],
            ..Section::default()
        };
        let report = Report {
            title: "T & U".to_owned(),
            sections: vec![section],
            ..Report::default()
        };
        let html = report.html();
        assert!(html.contains("<title>T &amp; U</title>") && html.contains("1 &lt; 2"));
        assert!(html.contains("<td class=\"right fails\">"));
        assert!(html.contains("<td class=\"right long\">a sentence"));
        assert!(html.contains("<p class=\"note\">* a note</p>"));
        let again = "<tr><td class=\"same\">one</td><td class=\"right\" data-h=\"b\">1</td></tr>";
        assert!(html.contains(again), "{html}");
        assert_eq!(
            html.matches("class=\"cards\"").count(),
            1,
            "the wide table alone"
        );
        for outside in ["<script ", "http://", "https://", "@import", "<link"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert_eq!(html.matches("<script>").count(), 1);
        assert!(!html.contains("nav class"), "one section needs no contents");
        let sections = vec![Section::default(); CONTENTS_FROM];
        let html = Report { sections, ..report }.html();
        assert!(
            html.contains("href=\"#section-3\"") && html.contains("<section id=\"section-3\">")
        );
    }
}
