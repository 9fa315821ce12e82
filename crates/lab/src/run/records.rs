//! Packed records of consecutive runs, to be made in one process and evaluated in another.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use carob_sim::spec::RunError;
use carob_sim::spec::{RunRecord, RunSpec};
use rayon::prelude::*;

use super::outcome::{Outcome, StoredRecord};
use super::plan::{LastSpec, Plan, RunSetupError};
use crate::record_codec::{EncodedRecord, version};

/// Records of consecutive runs of a plan, packed.
///
/// Only a program of the same version reads the bytes.
#[derive(Clone, Debug, Default)]
pub struct Records(Vec<EncodedRecord>);

/// Bytes that are no records of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordsError {
    /// Another version of the program.
    Version,
    /// A byte that was lost or changed.
    Damaged,
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => {
                "records of another version of carob; install the same version everywhere"
            }
            Self::Damaged => "damaged records; run the batch again",
        })
    }
}

impl std::error::Error for RecordsError {}

impl Records {
    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the records of the runs that follow.
    pub fn append(&mut self, mut following: Self) {
        self.0.append(&mut following.0);
    }

    /// Returns the records as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = version().to_le_bytes().to_vec();
        for record in &self.0 {
            let record = record.bytes();
            bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
            bytes.extend_from_slice(record);
        }
        bytes
    }

    /// Reads records from bytes.
    ///
    /// # Errors
    ///
    /// [`RecordsError`] if another version wrote them, or if they are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordsError> {
        let (first, mut rest) = bytes.split_first_chunk().ok_or(RecordsError::Damaged)?;
        if u64::from_le_bytes(*first) != version() {
            return Err(RecordsError::Version);
        }
        let mut records = Vec::new();
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk().ok_or(RecordsError::Damaged)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (record, after) = after
                .split_at_checked(length)
                .ok_or(RecordsError::Damaged)?;
            records.push(EncodedRecord::from_bytes(record).ok_or(RecordsError::Damaged)?);
            rest = after;
        }
        Ok(Self(records))
    }
}

impl Plan<'_> {
    /// Makes consecutive runs with `run`, on all threads of the current rayon pool, and packs their
    /// records. Returns `None` where `cancelled` became true before the last one.
    ///
    /// `progress` is called with the number of runs that are done, from any thread.
    ///
    /// # Errors
    ///
    /// [`RunSetupError`] of the first run that cannot be made.
    ///
    /// # Panics
    ///
    /// If the plan has fewer runs.
    pub fn records(
        &self,
        runs: Range<usize>,
        run: impl Fn(&RunSpec) -> Result<RunRecord, RunError> + Sync,
        cancelled: &AtomicBool,
        progress: impl Fn(usize) + Sync,
    ) -> Result<Option<Records>, RunSetupError> {
        let done = AtomicUsize::new(0);
        let specs = LastSpec::new();
        let one = |job| {
            if cancelled.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let record = run(&specs.of(self, job)).map_err(|why| RunSetupError::Run {
                cell: job.cell.name.clone(),
                why,
            })?;
            let packed = EncodedRecord::of(&record);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(Some(packed))
        };
        let jobs = self.jobs()[runs].par_iter().with_max_len(1);
        let packed: Result<Vec<Option<EncodedRecord>>, RunSetupError> = jobs.map(one).collect();
        let packed: Option<Vec<EncodedRecord>> = packed?.into_iter().collect();
        Ok(packed.map(Records))
    }

    /// Returns the outcome of records made elsewhere; one for each of [`jobs`](Self::jobs).
    ///
    /// # Panics
    ///
    /// If there are more or fewer.
    pub fn outcome_of(&self, records: Records) -> Outcome<'_> {
        assert_eq!(records.len(), self.jobs().len(), "a record for each run");
        let records = records.0.into_iter();
        Outcome::new(self, records.map(StoredRecord::EncodedRecord).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Selection;
    use crate::run::tests::{long, plan, pretend};

    #[test]
    fn records_in_parts_and_through_bytes_give_the_same_rows() {
        let scenario = long();
        let plan = plan(&scenario, 2);
        let never = AtomicBool::new(false);
        let part = |runs| {
            let records = plan.records(runs, pretend, &never, |_| {});
            let records = records.expect("possible").expect("not cancelled");
            Records::from_bytes(&records.to_bytes()).expect("own bytes")
        };
        let mut all = part(0..5);
        all.append(part(5..plan.jobs().len()));
        let whole = plan.execute(pretend, |_, _| {}).expect("possible");
        assert_eq!(plan.outcome_of(all).each(), whole.each());
    }

    #[test]
    fn cancelled_runs_have_no_records() {
        let scenario = long();
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        let cancelled = AtomicBool::new(false);
        let stop = |done| cancelled.store(done >= 10, Ordering::Relaxed);
        let records = plan.records(0..plan.jobs().len(), pretend, &cancelled, stop);
        assert!(records.expect("possible").is_none());
    }

    #[test]
    fn damaged_or_foreign_records_are_refused() {
        let scenario = long();
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        let never = AtomicBool::new(false);
        let records = plan.records(0..1, pretend, &never, |_| {});
        let mut bytes = records
            .expect("possible")
            .expect("not cancelled")
            .to_bytes();
        let cut = &bytes[..bytes.len() - 1];
        assert_eq!(Records::from_bytes(cut).err(), Some(RecordsError::Damaged));
        assert_eq!(Records::from_bytes(&[]).err(), Some(RecordsError::Damaged));
        bytes[0] ^= 1;
        let error = Records::from_bytes(&bytes).err();
        assert_eq!(error, Some(RecordsError::Version));
    }
}
