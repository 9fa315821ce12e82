//! `carob lab show --topology`.

use carob_lab::report::topology;

use super::output::raw;
use super::source::Source;
use crate::failure::{Failure, Kind, Outcome};

pub(super) fn run(
    name: &str,
    set: &[String],
    algorithms: &[String],
    seed: Option<u64>,
) -> Result<Outcome, Failure> {
    let source = Source::open(name, set, algorithms)?.without_pattern()?;
    let scenario = &source.scenario;
    let cell = source.cell().or_else(|| scenario.cells().first());
    let (Some(cell), Some(algorithm)) = (cell, scenario.algorithms().first()) else {
        return Err(Failure::new(Kind::Usage, "the scenario has nothing to run"));
    };
    let seed = seed.unwrap_or_else(|| scenario.first_seed());
    let drawn = topology(scenario, cell, algorithm, seed);
    let Some(picture) = drawn.map_err(|e| Failure::new(Kind::Usage, e))? else {
        let message = format!("{} has no wireless network to draw", source.name);
        let hint = "`carob lab list` names all scenarios; those of cocoaplus have networks";
        return Err(Failure::new(Kind::Usage, message).hint(hint));
    };
    raw(picture.standalone().trim_end());
    Ok(Outcome::Done)
}
