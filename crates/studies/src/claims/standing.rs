//! Standing of a claim: the verdict of our runs, the study's own data, and the share of plausible
//! interpretations in which it holds.

use std::collections::BTreeMap;

use carob_lab::calibration::{Class, VerdictShares};
use carob_lab::claims::{Judged, Verdict};

use crate::calibration::Calibrated;
use crate::papers::{self, Refutation};

/// The standing of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Every check holds.
    Holds,
    /// At least half of them do.
    HoldsPartly,
    /// Fewer do, in at least 95 % of the plausible interpretations, or in the only one there is.
    Fails,
    /// Fewer do, and the others do not differ from chance.
    Undecided,
    /// Fewer do under the settings chosen, but the claim holds under others that the study does not exclude.
    CannotBeDecided,
    /// The study's own tables or data contradict its text.
    Refuted,
}

impl Standing {
    /// Every standing.
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
            Self::Refuted => "refuted by its data",
        }
    }
}

/// The standings of a study's claims.
#[derive(Clone, Debug)]
pub struct Standings {
    refutations: Vec<Refutation>,
    shares: BTreeMap<String, VerdictShares>,
}

impl Standings {
    /// Reads a study's refutations and the stored result of its calibration.
    pub fn of(study: &str) -> Self {
        let shares = Calibrated::of(study).and_then(|calibrated| {
            let kept = calibrated.kept()?;
            let findings = calibrated.findings().into_iter().enumerate();
            let share = |(n, rule): (usize, carob_lab::claims::rule::Rule)| {
                Some((rule.id, kept.shares(n, false)?))
            };
            Some(findings.filter_map(share).collect())
        });
        Self {
            refutations: papers::refutations(study),
            shares: shares.unwrap_or_default(),
        }
    }

    /// The standing of a claim.
    pub fn standing(&self, judged: &Judged) -> Standing {
        if judged.table.is_some() || self.refutation(&judged.id).is_some() {
            return Standing::Refuted;
        }
        let share = self.share(&judged.id);
        let is_open = share.is_some_and(|share| share.class == Class::Conditional);
        match judged.text.verdict {
            Verdict::Holds => Standing::Holds,
            Verdict::HoldsPartly => Standing::HoldsPartly,
            Verdict::Fails | Verdict::Undecided if is_open => Standing::CannotBeDecided,
            Verdict::Fails => Standing::Fails,
            Verdict::Undecided => Standing::Undecided,
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

    /// Returns whether any claim has a share.
    pub fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use carob_lab::claims::Judgement;

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
    fn a_standing_is_the_verdict_unless_data_or_open_settings_forbid_it() {
        let share = |holds, class| VerdictShares {
            holds,
            partly: 0.0,
            class,
        };
        let shares = [
            ("some-1", share(0.4, Class::Conditional)),
            ("some-2", share(0.0, Class::Excluded)),
        ];
        let standings = Standings {
            refutations: vec![Refutation {
                id: "some-3".to_owned(),
                source: "raw data".to_owned(),
                reason: "it is otherwise".to_owned(),
            }],
            shares: shares.map(|(id, share)| (id.to_owned(), share)).into(),
        };
        for (id, verdict, by_table, expected) in [
            ("some-1", Verdict::Holds, false, Standing::Holds),
            ("some-1", Verdict::HoldsPartly, false, Standing::HoldsPartly),
            ("some-1", Verdict::Fails, false, Standing::CannotBeDecided),
            (
                "some-1",
                Verdict::Undecided,
                false,
                Standing::CannotBeDecided,
            ),
            ("some-2", Verdict::Fails, false, Standing::Fails),
            ("some-2", Verdict::Undecided, false, Standing::Undecided),
            ("some-2", Verdict::Holds, true, Standing::Refuted),
            ("some-3", Verdict::Holds, false, Standing::Refuted),
            ("some-4", Verdict::Fails, false, Standing::Fails),
        ] {
            let found = standings.standing(&judged(id, verdict, by_table));
            assert_eq!(found, expected, "{id} {verdict:?}");
        }
    }

    #[test]
    fn every_refutation_is_of_a_claim_and_every_calibrated_study_has_shares() {
        let mut refuted = 0;
        for study in papers::studies() {
            let claims = papers::claims(&study.short_name);
            for refutation in papers::refutations(&study.short_name) {
                assert!(claims.iter().any(|claim| claim.id == refutation.id));
                assert!(!refutation.source.is_empty() && !refutation.reason.is_empty());
                refuted += 1;
            }
        }
        assert_eq!(refuted, 3);
        for calibrated in CALIBRATED {
            let standings = Standings::of(calibrated.study);
            assert!(standings.has_shares(), "{}", calibrated.study);
        }
    }
}
