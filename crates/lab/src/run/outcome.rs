//! The records of a plan's runs.

use std::borrow::Cow;

use carob_cc::time::Duration;
use carob_sim::spec::{Recording, RunRecord};

use super::plan::{Job, Plan};
use crate::record_codec::EncodedRecord;
use crate::statistics::Statistics;

/// Stored record; packed unless it has recordings, since flows take ten times as many
/// bytes unpacked, and a sweep over crowds has millions.
#[derive(Clone, Debug)]
pub(super) enum StoredRecord {
    EncodedRecord(EncodedRecord),
    Whole(Box<RunRecord>),
}

impl StoredRecord {
    pub(super) fn of(record: RunRecord, recording: Recording) -> Self {
        if recording == Recording::default() {
            Self::EncodedRecord(EncodedRecord::of(&record))
        } else {
            Self::Whole(Box::new(record))
        }
    }

    pub(super) fn record(&self) -> Cow<'_, RunRecord> {
        match self {
            Self::EncodedRecord(packed) => Cow::Owned(packed.record()),
            Self::Whole(record) => Cow::Borrowed(record),
        }
    }
}

/// The records of a plan's runs.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    plan: &'a Plan<'a>,
    kept: Vec<StoredRecord>,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, kept: Vec<StoredRecord>) -> Self {
        Self { plan, kept }
    }

    /// The plan it came from.
    pub fn plan(&self) -> &'a Plan<'a> {
        self.plan
    }

    fn kept(&self) -> impl Iterator<Item = (&'a Job<'a>, &StoredRecord)> {
        self.plan.jobs().iter().zip(&self.kept)
    }

    /// Each run with its record, in order; records are unpacked one after the other.
    pub fn runs(&self) -> impl Iterator<Item = (&'a Job<'a>, Cow<'_, RunRecord>)> {
        self.kept().map(|(job, kept)| (job, kept.record()))
    }

    /// Records of one cell and algorithm, by name.
    pub fn of(
        &self,
        cell: &str,
        algorithm: &str,
    ) -> impl Iterator<Item = (&'a Job<'a>, Cow<'_, RunRecord>)> {
        self.kept()
            .filter(move |(job, _)| job.cell.name == cell && job.algorithm.name == algorithm)
            .map(|(job, kept)| (job, kept.record()))
    }

    /// The runs of each cell and algorithm, which follow each other, with their records.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'a [Job<'a>], &[StoredRecord])> {
        let same = |a: &Job<'_>, b: &Job<'_>| {
            std::ptr::eq(a.cell, b.cell) && std::ptr::eq(a.algorithm, b.algorithm)
        };
        let mut rest = &self.kept[..];
        self.plan.jobs().chunk_by(same).map(move |jobs| {
            let (theirs, after) = rest.split_at(jobs.len());
            rest = after;
            (jobs, theirs)
        })
    }

    /// The run of a cell and algorithm whose first flow took closest to the median of those that
    /// completed; the earliest of equals, and the first run if none completed.
    pub fn typical(&self, cell: &str, algorithm: &str) -> Option<Job<'a>> {
        let first_flow = |record: &RunRecord| record.flows.first()?.completion();
        let runs: Vec<(&Job<'a>, Option<u64>)> = self
            .of(cell, algorithm)
            .map(|(job, record)| (job, first_flow(&record).map(Duration::as_micros)))
            .collect();
        let completed = runs.iter().filter_map(|(_, time)| Some((*time)? as f64));
        let median = Statistics::of(&completed.collect::<Vec<f64>>()).map(|s| s.p50 as u64);
        let away = |time: Option<u64>| {
            time.zip(median)
                .map_or(u64::MAX, |(time, median)| time.abs_diff(median))
        };
        runs.iter()
            .min_by_key(|(_, time)| away(*time))
            .map(|(job, _)| **job)
    }
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Instant;
    use carob_sim::spec::FlowRecord;

    use super::*;
    use crate::run::tests::{long, pretend};
    use crate::run::{Plan, Selection};

    #[test]
    fn the_typical_run_is_nearest_the_median() {
        let scenario = long();
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        let seconds = |n| Instant::ZERO + Duration::from_secs(n);
        let outcome = plan
            .execute(
                |spec| {
                    let finished = (spec.seed != 9).then(|| seconds(spec.seed * spec.seed));
                    let flow = FlowRecord {
                        finished,
                        ..FlowRecord::default()
                    };
                    Ok(RunRecord {
                        flows: vec![flow],
                        ..RunRecord::default()
                    })
                },
                |_, _| {},
            )
            .expect("possible");
        // Squares of 1 to 20 without 9: the median of the 19 is 11 squared.
        let typical = outcome.typical("long-1c-none-2500", "default");
        assert_eq!(typical.map(|job| job.seed), Some(11));
        assert!(outcome.typical("long-1c-none-2500", "nobody").is_none());
    }

    #[test]
    fn records_round_trip_with_and_without_recordings() {
        let scenario = long();
        let select = |events| Selection {
            cell: Some("long-4c-none-2500".to_owned()),
            seeds: Some(2),
            record: Recording {
                events,
                ..Recording::default()
            },
            ..Selection::default()
        };
        for events in [0, 100] {
            let plan = Plan::new(&scenario, &select(events)).expect("a plan");
            let outcome = plan.execute(carob_sim::run, |_, _| {}).expect("possible");
            for (job, record) in outcome.runs() {
                let again = carob_sim::run(&plan.spec(job)).expect("possible");
                assert_eq!(*record, again);
                assert_eq!(again.events.len(), events as usize);
            }
            let packed = |kept: &StoredRecord| matches!(kept, StoredRecord::EncodedRecord(_));
            assert_eq!(outcome.kept.iter().all(packed), events == 0);
        }
    }

    #[test]
    fn each_pair_has_separate_runs() {
        let scenario = long();
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        let outcome = plan.execute(pretend, |_, _| {}).expect("possible");
        let mut all = 0;
        for (jobs, kept) in outcome.pairs() {
            assert_eq!((jobs.len(), kept.len()), (20, 20));
            for (job, kept) in jobs.iter().zip(kept) {
                assert_eq!(pretend(&plan.spec(job)).as_ref(), Ok(&*kept.record()));
            }
            all += jobs.len();
        }
        assert_eq!(all, plan.jobs().len());
    }
}
