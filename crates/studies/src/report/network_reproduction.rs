//! The report of a reproduction of means over wireless networks.

use crate::reproduce::networks::{self, NetworkComparison, NetworkRuns};
use carob_lab::report::{Report, Section};
use carob_lab::study::Study;

/// The report of our runs of the networks that a study printed.
pub fn network_reproduction(
    study: &Study,
    measured: &NetworkRuns,
    comparisons: &[NetworkComparison],
    stale: &[String],
    command: &str,
) -> Report {
    let authors = study.authors.join(", ");
    let last = measured.first_seed + measured.seeds.saturating_sub(1);
    let mut facts = vec![
        (
            "Study".to_owned(),
            format!(
                "{authors}: “{}”, {}, {}",
                study.title, study.venue, study.year
            ),
        ),
        (
            "Seeds".to_owned(),
            format!("{} to {last}", measured.first_seed),
        ),
    ];
    for (name, hash) in &measured.scenario_hashes {
        facts.push(("Scenario".to_owned(), format!("{name}, hash {hash}")));
    }
    facts.push(("Version".to_owned(), measured.version.clone()));
    if !stale.is_empty() {
        let why = format!("stale, --fresh computes anew: {}", stale.join("; "));
        facts.push(("Warning".to_owned(), why));
    }
    let section = |(table, about): (u32, &str)| Section {
        heading: format!("Table {table}: {about}"),
        text: vec![networks::summary(comparisons, table)],
        tables: vec![
            networks::verdicts(comparisons, table),
            networks::means(comparisons, table),
        ],
        ..Section::default()
    };
    Report {
        title: format!("{}: published and measured", study.citation()),
        lead: "Published and measured means, and whether the order of the algorithms is the same. A measured order is \
               known where the 95 % interval of the differences of runs with the same seed excludes 0."
            .to_owned(),
        facts,
        command: command.to_owned(),
        sections: networks::printed_tables(comparisons)
            .into_iter()
            .map(section)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers;

    #[test]
    fn report_has_section_per_table_and_warns_of_stale_results() {
        let study = papers::study("cocoaplus").expect("a study");
        let measured = NetworkRuns::stored();
        let comparisons = networks::compare(&papers::cocoaplus_means(), &measured);
        let stale = ["it has changed".to_owned()];
        let report = network_reproduction(&study, &measured, &comparisons, &stale, "carob lab");
        assert_eq!(report.sections.len(), 2);
        for section in &report.sections {
            assert_eq!(section.tables[0].rows().len(), 8);
            assert_eq!(section.tables[1].rows().len(), 24);
        }
        let html = report.html();
        assert!(html.contains("it has changed") && html.contains("settling times"));
    }
}
