//! Status of a claim: the verdict of our runs, the study's own data, and the share of plausible
//! interpretations in which it holds; the cause, if it fails.

use std::collections::BTreeMap;

use super::part::Part;
use super::rule::{self, Rule};
use super::{Judged, Verdict, rules_within};
use crate::calibration::{Calibrated, Class, VerdictShares};
use crate::comparison::Comparison;
use crate::papers::{self, Refutation, Unpublished};
use crate::reproduce::{self, MeasuredRuns};

/// The status of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimStatus {
    /// Every check holds.
    Holds,
    /// At least half of them do.
    HoldsPartly,
    /// Fewer do, in at least 95 % of the plausible interpretations, or in the only one there is.
    Fails,
    /// Fewer do, and the others do not differ from chance.
    Undecided,
    /// Fewer do under the settings chosen, but the claim holds under others that the study does not exclude,
    /// or it depends on something that the study does not publish.
    CannotBeDecided,
    /// The study's own tables or data contradict its text.
    Refuted,
}

impl ClaimStatus {
    /// Every status.
    pub const ALL: [Self; 6] = [
        Self::Holds,
        Self::HoldsPartly,
        Self::Fails,
        Self::Undecided,
        Self::CannotBeDecided,
        Self::Refuted,
    ];

    /// Its name in tables and in the machine interface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsPartly => "holds-partly",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
            Self::CannotBeDecided => "cannot be decided",
            Self::Refuted => "contradicts its own data",
        }
    }
}

/// The standings of a study's claims.
#[derive(Clone, Debug)]
pub struct ClaimStatuses {
    refutations: Vec<Refutation>,
    unpublished: Vec<Unpublished>,
    shares: BTreeMap<String, VerdictShares>,
    causes: BTreeMap<String, String>,
    within_tenth: BTreeMap<String, Rule>,
    tables: Vec<Comparison>,
}

/// Tolerance of the second verdict, as a share of the published value.
const TENTH: f64 = 0.1;

impl ClaimStatuses {
    /// Reads a study's refutations and causes, and the stored result of its calibration.
    ///
    /// # Panics
    ///
    /// Never: a test reads every built-in rule.
    pub fn of(study: &str) -> Self {
        let shares = Calibrated::of(study).and_then(|calibrated| {
            let kept = calibrated.kept()?;
            let findings = calibrated.findings().into_iter().enumerate();
            let share = |(n, rule): (usize, Rule)| Some((rule.id, kept.shares(n, false)?));
            Some(findings.filter_map(share).collect())
        });
        Self {
            refutations: papers::refutations(study),
            unpublished: papers::unpublished(study),
            shares: shares.unwrap_or_default(),
            causes: Part::of(study).flat_map(causes).collect(),
            within_tenth: Part::of(study)
                .flat_map(|part| rules_within(part, TENTH))
                .map(|rule| (rule.id.clone(), rule))
                .collect(),
            tables: reproduce::compare(&MeasuredRuns::stored().rows),
        }
    }

    /// The verdict by the text with 10 % of each published number as its tolerance; none if the claim states no
    /// number.
    pub fn within_tenth(&self, judged: &Judged) -> Option<Verdict> {
        let rule = self.within_tenth.get(&judged.id)?;
        judged.text.within(&rule.text, &self.tables, TENTH)
    }

    /// The status of a claim.
    pub fn standing(&self, judged: &Judged) -> ClaimStatus {
        if judged.table.is_some() || self.refutation(&judged.id).is_some() {
            return ClaimStatus::Refuted;
        }
        let share = self.share(&judged.id);
        let is_open = share.is_some_and(|share| share.class == Class::Conditional)
            || self.missing(&judged.id).is_some();
        match judged.text.verdict {
            Verdict::Holds => ClaimStatus::Holds,
            Verdict::HoldsPartly => ClaimStatus::HoldsPartly,
            Verdict::Fails | Verdict::Undecided if is_open => ClaimStatus::CannotBeDecided,
            Verdict::Fails => ClaimStatus::Fails,
            Verdict::Undecided => ClaimStatus::Undecided,
        }
    }

    /// The share of plausible interpretations in which a claim holds; `None` without a calibration.
    pub fn share(&self, id: &str) -> Option<&VerdictShares> {
        self.shares.get(id)
    }

    /// The data that refutes a claim.
    pub fn refutation(&self, id: &str) -> Option<&Refutation> {
        self.refutations.iter().find(|one| one.id == id)
    }

    /// The unpublished facts on which a claim depends.
    pub fn missing(&self, id: &str) -> Option<&Unpublished> {
        self.unpublished.iter().find(|one| one.id == id)
    }

    /// The failing claims whose rules name a cause, with the cause.
    pub fn causes<'a>(
        &'a self,
        claims: impl IntoIterator<Item = &'a Judged> + 'a,
    ) -> impl Iterator<Item = (&'a Judged, &'a str)> + 'a {
        let failing = claims
            .into_iter()
            .filter(|judged| self.standing(judged) == ClaimStatus::Fails);
        failing.filter_map(|judged| Some((judged, self.causes.get(&judged.id)?.as_str())))
    }

    /// Returns whether any claim has a share.
    pub fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }
}

fn causes(part: &Part) -> BTreeMap<String, String> {
    rule::causes(part.rules).expect("a test reads every built-in rule")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Judgement, StoredVerdicts, claim};
    use super::*;
    use crate::calibration::CALIBRATED;

    fn judged(id: &str, verdict: Verdict, by_table: bool) -> Judged {
        let judgement = Judgement {
            verdict,
            checks: Vec::new(),
        };
        Judged {
            id: id.to_owned(),
            text: judgement.clone(),
            table: by_table.then_some(judgement),
        }
    }

    #[test]
    fn data_and_open_settings_override_a_verdict() {
        let share = |holds, class| VerdictShares {
            holds,
            partly: 0.0,
            class,
        };
        let shares = [
            ("some-1", share(0.4, Class::Conditional)),
            ("some-2", share(0.0, Class::Excluded)),
        ];
        let standings = ClaimStatuses {
            refutations: vec![Refutation {
                id: "some-3".to_owned(),
                source: "raw data".to_owned(),
                reason: "it is otherwise".to_owned(),
            }],
            unpublished: vec![Unpublished {
                id: "some-5".to_owned(),
                missing: "the places of nodes".to_owned(),
                reason: "they decide".to_owned(),
            }],
            shares: shares.map(|(id, share)| (id.to_owned(), share)).into(),
            causes: BTreeMap::new(),
            within_tenth: BTreeMap::new(),
            tables: Vec::new(),
        };
        for (id, verdict, by_table, expected) in [
            ("some-1", Verdict::Holds, false, ClaimStatus::Holds),
            (
                "some-1",
                Verdict::HoldsPartly,
                false,
                ClaimStatus::HoldsPartly,
            ),
            (
                "some-1",
                Verdict::Fails,
                false,
                ClaimStatus::CannotBeDecided,
            ),
            (
                "some-1",
                Verdict::Undecided,
                false,
                ClaimStatus::CannotBeDecided,
            ),
            ("some-2", Verdict::Fails, false, ClaimStatus::Fails),
            ("some-2", Verdict::Undecided, false, ClaimStatus::Undecided),
            ("some-2", Verdict::Holds, true, ClaimStatus::Refuted),
            ("some-3", Verdict::Holds, false, ClaimStatus::Refuted),
            ("some-4", Verdict::Fails, false, ClaimStatus::Fails),
            ("some-5", Verdict::Holds, false, ClaimStatus::Holds),
            (
                "some-5",
                Verdict::Fails,
                false,
                ClaimStatus::CannotBeDecided,
            ),
        ] {
            let found = standings.standing(&judged(id, verdict, by_table));
            assert_eq!(found, expected, "{id} {verdict:?}");
        }
    }

    /// Sentences of a cause at most.
    const SENTENCES_MAX: usize = 4;
    /// Words of each at most.
    const WORDS_MAX: usize = 25;

    #[test]
    fn failing_claims_have_a_cause() {
        let mut explained = 0;
        for study in papers::studies() {
            let statuses = ClaimStatuses::of(&study.short_name);
            let stored = Part::of(&study.short_name).filter_map(StoredVerdicts::of);
            let mut unjudged: BTreeSet<&String> = statuses.causes.keys().collect();
            for judged in stored.flat_map(|stored| stored.claims) {
                let id = &judged.id;
                let weight = claim(&judged).map(|claim| claim.weight);
                let weighs = weight.is_some_and(|weight| weight != "detail");
                match statuses.standing(&judged) {
                    ClaimStatus::Fails if weighs => {
                        assert!(
                            statuses.causes.contains_key(id),
                            "{id} fails without a cause"
                        );
                        explained += 1;
                    }
                    ClaimStatus::Fails => {}
                    other => assert_eq!(statuses.causes.get(id), None, "{id}: {}", other.name()),
                }
                unjudged.remove(id);
            }
            assert!(unjudged.is_empty(), "{unjudged:?}");
        }
        assert!(explained > 0);
    }

    #[test]
    fn causes_are_a_few_short_sentences() {
        for study in papers::studies() {
            for (id, cause) in ClaimStatuses::of(&study.short_name).causes {
                let sentences: Vec<&str> = cause.split_inclusive(". ").collect();
                let count = sentences.len();
                assert!((1..=SENTENCES_MAX).contains(&count), "{id}: {count}");
                assert!(cause.ends_with('.'), "{id}: {cause}");
                for sentence in sentences {
                    let words = sentence.split_whitespace().count();
                    assert!(words <= WORDS_MAX, "{id}: {words} words: {sentence}");
                }
            }
        }
    }

    #[test]
    fn refutations_are_of_claims_and_calibrated_studies_have_shares() {
        let (mut refuted, mut open) = (0, 0);
        for study in papers::studies() {
            let claims = papers::claims(&study.short_name);
            for refutation in papers::refutations(&study.short_name) {
                assert!(claims.iter().any(|claim| claim.id == refutation.id));
                assert!(!refutation.source.is_empty() && !refutation.reason.is_empty());
                refuted += 1;
            }
            for unpublished in papers::unpublished(&study.short_name) {
                assert!(claims.iter().any(|claim| claim.id == unpublished.id));
                assert!(!unpublished.missing.is_empty() && !unpublished.reason.is_empty());
                open += 1;
            }
        }
        assert_eq!((refuted, open), (6, 8));
        for calibrated in CALIBRATED {
            let standings = ClaimStatuses::of(calibrated.study);
            assert!(standings.has_shares(), "{}", calibrated.study);
        }
    }
}
