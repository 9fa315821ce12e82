//! One page with the claims of all studies: for a browser, which filters them, and for the documentation.

use std::fmt::Write as _;

use carob_lab::claims::{Judged, Verdict};
use carob_lab::report::{Report, Section};
use carob_lab::study::Claim;
use carob_lab::text::TextTable;
use carob_studies::claims::{self, ClaimStatus, ClaimStatuses, Part, StoredVerdicts};
use carob_studies::papers;

/// The stored verdicts on a study's claims.
pub(super) struct StudyVerdicts {
    study: &'static str,
    kept: Vec<StoredVerdicts>,
    standings: ClaimStatuses,
}

impl StudyVerdicts {
    /// The verdicts of parts of one study.
    pub(super) fn of(parts: &[&'static Part]) -> Option<Self> {
        let study = parts.first()?.study;
        Some(Self {
            study,
            kept: parts
                .iter()
                .copied()
                .filter_map(StoredVerdicts::of)
                .collect(),
            standings: ClaimStatuses::of(study),
        })
    }

    fn citation(&self) -> String {
        papers::study(self.study).map_or_else(|| self.study.to_owned(), |study| study.citation())
    }

    fn judged(&self) -> impl Iterator<Item = (&StoredVerdicts, &Judged)> {
        let of = |kept| move |judged| (kept, judged);
        self.kept
            .iter()
            .flat_map(move |kept| kept.claims.iter().map(of(kept)))
    }

    fn count(&self, status: ClaimStatus) -> usize {
        let is_it =
            |(_, judged): &(&StoredVerdicts, &Judged)| self.standings.standing(judged) == status;
        self.judged().filter(is_it).count()
    }

    /// Claims that hold or hold partly with 10 % as tolerance of published numbers, of those that state one.
    fn near(&self) -> [usize; 2] {
        let judged = self
            .judged()
            .filter_map(|(_, judged)| self.standings.within_tenth(judged));
        let verdicts: Vec<Verdict> = judged.collect();
        let hold = verdicts
            .iter()
            .filter(|one| matches!(one, Verdict::Holds | Verdict::HoldsPartly));
        [hold.count(), verdicts.len()]
    }

    /// The claims that fail and have a cause, with their study's claims, and the cause.
    fn causes(&self) -> impl Iterator<Item = (Claim, &str)> {
        let judged = self.kept.iter().flat_map(|kept| &kept.claims);
        let causes = self.standings.causes(judged);
        causes.filter_map(|(judged, cause)| Some((claims::claim(judged)?, cause)))
    }

    /// The page of its claims in the documentation.
    fn page(&self) -> String {
        format!("{}/claims.md", self.study)
    }
}

/// Numbers of claims by study and verdict.
fn tally(studies: &[StudyVerdicts], name: &dyn Fn(&StudyVerdicts) -> String) -> TextTable {
    let mut names = ["study", ">claims"].map(str::to_owned).to_vec();
    names.extend(ClaimStatus::ALL.map(|status| format!(">{}", status.name())));
    names.push(">hold or partly within 10 %".to_owned());
    let mut table = TextTable::new(names);
    for study in studies {
        let mut row = vec![name(study), study.judged().count().to_string()];
        row.extend(ClaimStatus::ALL.map(|status| study.count(status).to_string()));
        let [hold, stated] = study.near();
        row.push(format!("{hold} of {stated}"));
        table.add(row);
    }
    let sum =
        |of: &dyn Fn(&StudyVerdicts) -> usize| studies.iter().map(of).sum::<usize>().to_string();
    let mut row = vec!["all".to_owned(), sum(&|study| study.judged().count())];
    row.extend(ClaimStatus::ALL.map(|status| sum(&|study| study.count(status))));
    let near = |n: usize| sum(&|study| study.near()[n]);
    row.push(format!("{} of {}", near(0), near(1)));
    table.add(row);
    table
}

/// The page for a browser.
pub(super) fn page(studies: &[StudyVerdicts], command: String) -> Report {
    let mut claims = TextTable::new([
        "claim",
        "study",
        "importance",
        "verdict",
        "by the text",
        "within 10 %",
        "text",
        "measured",
        "expected",
        ">seeds",
    ]);
    for study in studies {
        for (kept, judged) in study.judged() {
            let Some(claim) = claims::claim(judged) else {
                continue;
            };
            claims.add(vec![
                judged.id.clone(),
                study.study.to_owned(),
                claim.weight,
                study.standings.standing(judged).name().to_owned(),
                judged.text.verdict.name().to_owned(),
                study
                    .standings
                    .within_tenth(judged)
                    .map_or_else(String::new, |verdict| verdict.name().to_owned()),
                claim.claim,
                judged.text.measured(),
                judged.text.expected(),
                kept.seeds.to_string(),
            ]);
        }
    }
    let count = claims.rows().len();
    let names: Vec<String> = studies.iter().map(StudyVerdicts::citation).collect();
    Report {
        title: "Claims of all studies".to_owned(),
        lead: format!("{count} claims, each judged by rules that were written before the runs."),
        facts: vec![("Studies".to_owned(), names.join("; "))],
        command,
        sections: vec![
            Section {
                heading: "By study".to_owned(),
                tables: vec![tally(studies, &|study| study.citation())],
                ..Section::default()
            },
            Section {
                heading: "Claims".to_owned(),
                text: vec![
                    "By the text is the result of the rule, and within 10 % that of the same checks with 10 % of each \
                     published number as tolerance (claims that state none have none). The verdict differs where the study's own \
                     data contradict the text, and where interpretations that the study leaves open decide."
                        .to_owned(),
                ],
                tables: vec![claims],
                ..Section::default()
            },
            Section {
                heading: "Causes of claims that fail".to_owned(),
                tables: vec![causes(studies)],
                ..Section::default()
            },
        ],
    }
}

/// The causes of the claims that fail.
fn causes(studies: &[StudyVerdicts]) -> TextTable {
    let mut table = TextTable::new(["claim", "importance", "claimed", "cause"]);
    for (claim, cause) in studies.iter().flat_map(StudyVerdicts::causes) {
        table.add(vec![claim.id, claim.weight, claim.claim, cause.to_owned()]);
    }
    table
}

/// The document papers/claims.md.
pub(super) fn document(studies: &[StudyVerdicts]) -> String {
    let link = |study: &StudyVerdicts| format!("[{}]({})", study.citation(), study.page());
    let mut text = format!(
        "\
# Claims of all studies

For researchers. Prerequisite: the [overview](../docs/evidence/index.md). Generated by `carob lab claims --markdown`; `cargo xtask generate` rewrites it.

Each claim of a study is judged by a rule that was written before the runs. The pages of the studies have every claim with its
checks. `carob lab claims --report claims.html` writes one page with all of them, which filters by study, importance, verdict and text.

{}
Headline claims that do not hold, with what was measured:

| claim | verdict | claimed | measured |
|---|---|---|---|
",
        tally(studies, &link).markdown()
    );
    for study in studies {
        for (_, judged) in study.judged() {
            let standing = study.standings.standing(judged);
            let Some(claim) = claims::claim(judged).filter(|claim| claim.weight == "headline")
            else {
                continue;
            };
            if standing == ClaimStatus::Holds {
                continue;
            }
            let plain = |text: &str| text.replace('|', "\\|").replace('<', "\\<");
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| [{}]({}) | {} | {} | {} |",
                judged.id,
                study.page(),
                standing.name(),
                plain(&claim.claim),
                plain(&judged.text.measured()),
            );
        }
    }
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\nClaims that fail, with their causes:\n\n{}",
        causes(studies).markdown()
    );
    text += "\nNext: [calibration of open settings](calibration.md).\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob_studies::claims::PARTS;

    fn all() -> Vec<StudyVerdicts> {
        let parts: Vec<&'static Part> = PARTS.iter().collect();
        let studies = parts.chunk_by(|a, b| a.study == b.study);
        studies.filter_map(StudyVerdicts::of).collect()
    }

    #[test]
    fn the_page_has_every_claim_once_and_the_tally_adds_up() {
        let studies = all();
        let report = page(&studies, String::new());
        let claims = &report.sections[1].tables[0];
        let mut ids: Vec<&str> = claims.rows().iter().map(|row| row[0].as_str()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert!(count > 250 && ids.len() == count, "{count}");
        let last = report.sections[0].tables[0].rows().last().expect("a sum");
        assert_eq!(last[1], count.to_string());
        let parts: usize = last[2..2 + ClaimStatus::ALL.len()]
            .iter()
            .map(|n| n.parse::<usize>().expect("a number"))
            .sum();
        assert_eq!(parts, count);
    }

    #[test]
    fn the_page_has_the_cause_of_each_failing_claim_of_weight() {
        let report = page(&all(), String::new());
        let claims = report.sections[1].tables[0].rows();
        let failing = claims
            .iter()
            .filter(|row| row[3] == "fails" && row[2] != "detail");
        let causes = report.sections[2].tables[0].rows();
        let mut count = 0;
        for claim in failing {
            let row = causes.iter().find(|row| row[0] == claim[0]);
            assert!(row.is_some_and(|row| !row[3].is_empty()), "{}", claim[0]);
            count += 1;
        }
        assert!(count > 0 && count <= causes.len(), "{count}");
    }
}
