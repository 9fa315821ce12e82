//! What tests of scenarios share.

use carob_sim::spec::RunSpec;

use super::{Scenario, builtin};

/// The specification of a built-in scenario's cell with these settings, its first algorithm and seed 1;
/// or the error as text.
pub(super) fn spec(name: &str, cell: &str, set: &[&str]) -> Result<RunSpec, String> {
    let (file, _) = builtin::find(name).expect("a scenario");
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    let scenario = Scenario::read(file.name, file.text, &set).map_err(|error| error.to_string())?;
    let cell = scenario.cell(cell).expect("a cell");
    Ok(scenario.spec(cell, &scenario.algorithms()[0], 1))
}
