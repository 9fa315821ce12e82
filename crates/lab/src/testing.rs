//! Built-in scenarios and their runs, for tests.

use carob_cc::time::{Duration, Instant};
use carob_sim::spec::RunError;
use carob_sim::spec::{FlowRecord, LinkNetworkSpec, NetworkSpec, RunRecord, RunSpec};

use crate::run::{Outcome, Plan, Selection};
use crate::scenario::{Scenario, ScenarioErrors, builtin};

/// A built-in scenario with these settings.
pub(crate) fn scenario(name: &str, set: &[&str]) -> Scenario {
    read(name, set).expect("a valid one")
}

/// The same, or its errors.
pub(crate) fn read(name: &str, set: &[&str]) -> Result<Scenario, ScenarioErrors> {
    let (file, _) = builtin::find(name).expect("a built-in scenario");
    Scenario::read(file.name, file.text, &owned(set))
}

/// The specification of a built-in scenario's cell with these settings, its first algorithm and seed 1;
/// or the error as text.
pub(crate) fn spec(name: &str, cell: &str, set: &[&str]) -> Result<RunSpec, String> {
    let scenario = read(name, set).map_err(|error| error.to_string())?;
    let cell = scenario.cell(cell).expect("a cell");
    Ok(scenario.spec(cell, &scenario.algorithms()[0], 1))
}

/// Settings as a command line has them.
pub(crate) fn owned(set: &[&str]) -> Vec<String> {
    set.iter().map(|&typed| typed.to_owned()).collect()
}

/// Seeds of all cells, or of one.
pub(crate) fn seeds(seeds: u64, cell: Option<&str>) -> Selection {
    Selection {
        seeds: Some(seeds),
        cell: cell.map(str::to_owned),
        ..Selection::default()
    }
}

/// Simulated runs of a built-in scenario, or of one of its cells.
pub(crate) fn simulated(name: &str, set: &[&str], count: u64) -> Outcome<'static> {
    let (_, cell) = builtin::find(name).expect("a built-in scenario");
    outcome(scenario(name, set), &seeds(count, cell), carob_sim::run)
}

/// The link of a run.
pub(crate) fn link(spec: RunSpec) -> LinkNetworkSpec {
    match spec.network {
        NetworkSpec::Link(network) => network,
        NetworkSpec::Mesh(_) => panic!("a mesh"),
    }
}

/// Runs of a scenario by `run`.
pub(crate) fn outcome(
    scenario: Scenario,
    selection: &Selection,
    run: impl Fn(&RunSpec) -> Result<RunRecord, RunError> + Sync,
) -> Outcome<'static> {
    // A test is short, and an outcome borrows both.
    let scenario: &'static Scenario = Box::leak(Box::new(scenario));
    let plan = Plan::new(scenario, selection).expect("a plan");
    let plan: &'static Plan<'static> = Box::leak(Box::new(plan));
    plan.execute(run, |_, _| {}).expect("possible")
}

/// A run of one flow with this completion time in seconds; none if incomplete.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands in for `carob_sim::run`"
)]
pub(crate) fn flow(seconds: Option<u64>) -> Result<RunRecord, RunError> {
    let finished = seconds.map(|s| Instant::ZERO + Duration::from_secs(s));
    Ok(RunRecord {
        flows: vec![FlowRecord {
            finished,
            ..FlowRecord::default()
        }],
        ..RunRecord::default()
    })
}
