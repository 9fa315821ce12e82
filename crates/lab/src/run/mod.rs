//! Runs: every cell with every algorithm and seed, in parallel, in an order that never changes.

mod outcome;
mod plan;
mod rows;
mod timed;

pub use carob_sim::capture::{Captured, Content};
pub use carob_sim::spec::{Recording, RunRecord};

pub use outcome::Outcome;
pub use plan::{Job, Plan, PlanError, RUNS_MAX, RunSetupError, Selection};
pub use rows::{EachRow, HashedRow, Row};
pub use rows::{Records, RecordsError};
pub use timed::Timed;

/// Does `work` on a pool of `threads` threads, or of one per core; `None` if there can be no such
/// pool.
pub fn on_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> Option<T> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .build()
        .ok()?;
    Some(pool.install(work))
}

#[cfg(test)]
mod tests {
    use carob_cc::time::{Duration, Instant};
    use carob_sim::random::Stream;
    use carob_sim::spec::RunError;
    use carob_sim::spec::{FlowRecord, RunSpec};

    use super::*;
    use crate::scenario::Scenario;

    pub(super) fn long() -> Scenario {
        crate::testing::scenario("thesis/long", &[])
    }

    /// All runs of the scenario with this number of seeds.
    pub(super) fn plan(scenario: &Scenario, seeds: u64) -> Plan<'_> {
        Plan::new(scenario, &crate::testing::seeds(seeds, None)).expect("a plan")
    }

    /// A replacement of the simulator: flows of random length that depend on the spec only.
    #[allow(
        clippy::unnecessary_wraps,
        reason = "it stands in for `carob_sim::run`"
    )]
    pub(super) fn pretend(spec: &RunSpec) -> Result<RunRecord, RunError> {
        let mut stream = Stream::new(spec.seed, spec.measured.controller.entry().name);
        let mut flow = || FlowRecord {
            finished: Some(
                Instant::ZERO + stream.uniform(Duration::from_secs(200), Duration::from_secs(400)),
            ),
            exchanges: 400,
            transmissions: 400,
            body_bytes: 102_400,
            ..FlowRecord::default()
        };
        let flows = (0..spec.measured.clients).map(|_| flow()).collect();
        Ok(RunRecord {
            flows,
            trace_hash: spec.seed ^ 0xabc,
            ..RunRecord::default()
        })
    }
}
