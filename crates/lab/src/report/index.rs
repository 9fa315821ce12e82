//! The index page of a folder of reports.

use maud::{Markup, html};

use super::page::shell;

/// Facts that a line of the index has, in the order of its columns.
const FACTS: [&str; 4] = ["Algorithms", "Runs", "Seeds", "Version"];

/// A report in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Name of its file.
    pub file: String,
    /// Its title.
    pub title: String,
    /// The answer, in a sentence or two.
    pub lead: String,
    /// Its facts, as (name, value).
    pub facts: Vec<(String, String)>,
}

impl IndexEntry {
    /// The entry of a page; `None` for a page that is no report.
    pub fn read(file: &str, page: &str) -> Option<Self> {
        let (head, _) = page.split_once("</head>")?;
        let metas = head.split("<meta name=\"").skip(1).filter_map(|meta| {
            let (name, rest) = meta.split_once("\" content=\"")?;
            let (content, _) = rest.split_once('"')?;
            Some((plain(name), plain(content)))
        });
        let metas: Vec<(String, String)> = metas.collect();
        let of = |wanted: &str| metas.iter().find(|(name, _)| name == wanted);
        of("generator").filter(|(_, by)| by.starts_with("carob "))?;
        let title = head.split_once("<title>")?.1.split_once("</title>")?.0;
        let facts = metas.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("carob.")?;
            Some((name.to_owned(), value.clone()))
        });
        Some(Self {
            file: file.to_owned(),
            title: plain(title),
            lead: of("description").map_or_else(String::new, |(_, lead)| lead.clone()),
            facts: facts.collect(),
        })
    }

    fn fact(&self, wanted: &str) -> &str {
        let found = self.facts.iter().find(|(name, _)| name == wanted);
        found.map_or("", |(_, value)| value)
    }
}

/// Text without the escapes of attributes.
fn plain(text: &str) -> String {
    let quotes = text.replace("&quot;", "\"").replace("&lt;", "<");
    quotes.replace("&gt;", ">").replace("&amp;", "&")
}

/// The page: a line for each report, which the script sorts and filters.
pub fn index_page(entries: &[IndexEntry]) -> String {
    let lead = match entries.len() {
        1 => "One report.".to_owned(),
        count => format!("{count} reports."),
    };
    let line = |entry: &IndexEntry| -> Markup {
        html! {
            tr {
                td.long { a href=(entry.file) { (entry.title) } }
                td.long data-h="question" { (entry.lead) }
                @for fact in FACTS { td data-h=(fact.to_lowercase()) { (entry.fact(fact)) } }
            }
        }
    };
    let body = html! {
            header { h1 { "Reports" } p.lead { (lead) } }
            main {
                div.scroll {
                    table.cards {
                        thead {
                            tr {
                                th { "report" }
                                th { "question" }
                                @for fact in FACTS { th { (fact.to_lowercase()) } }
                            }
                        }
                        tbody { @for entry in entries { (line(entry)) } }
                    }
                }
            }
    };
    shell("Reports", &lead, &[], &body)
}

#[cfg(test)]
mod tests {
    use super::super::Report;
    use super::*;

    #[test]
    fn a_report_is_read_back_and_other_pages_are_none() {
        let report = Report {
            title: "a < b".to_owned(),
            lead: "Which \"one\"?".to_owned(),
            facts: vec![("Runs".to_owned(), "3 in one cell".to_owned())],
            ..Report::default()
        };
        let entry = IndexEntry::read("a.html", &report.html()).expect("a report");
        assert_eq!(entry.title, report.title);
        assert_eq!(entry.lead, report.lead);
        assert_eq!(entry.facts, report.facts);
        let page = index_page(&[entry]);
        assert!(page.contains("<a href=\"a.html\">a &lt; b</a>"), "{page}");
        assert!(page.contains("One report.") && page.contains("3 in one cell"));
        let other = "<head><title>a</title></head>";
        assert_eq!(IndexEntry::read("b.html", other), None);
    }
}
