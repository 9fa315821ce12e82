//! Fuzzing entry points: one function for each parser of files. The fuzz targets (`fuzz/`) and the
//! tests here call the same functions.
//!
//! There only for tests and with `--cfg fuzzing`, which `cargo fuzz` sets.

#[cfg(test)]
#[path = "../../../vectors/corpus/replay.rs"]
mod replay;

use crate::replay::Script;
use crate::scenario::Scenario;

/// A scenario is read or refused with a place; a line at the end that begins with `--set ` is an override.
pub fn scenario(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    let (text, set) = match text.rsplit_once("\n--set ") {
        Some((text, set)) => (text, vec![set.trim_end().to_owned()]),
        None => (text, Vec::new()),
    };
    match Scenario::read("fuzz", text, &set) {
        Ok(scenario) => {
            assert!(!scenario.cells().is_empty(), "a scenario has a cell");
            let _ = scenario.hash();
            for cell in scenario.cells().iter().take(4) {
                let algorithms = scenario.algorithms().iter();
                for algorithm in algorithms.filter(|one| one.may_run_in(cell)).take(2) {
                    let _ = scenario.spec(cell, algorithm, 1);
                }
                assert!(scenario.cell(&cell.name).is_some());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A script for `carob cc trace` is read or refused.
pub fn trace(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    match Script::read("fuzz", text) {
        Ok(script) => {
            let _ = script.numbers();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::replay::replay;
    use super::*;

    #[test]
    fn any_scenario_is_read_or_refused() {
        replay("scenario", 300, scenario);
    }

    #[test]
    fn any_trace_is_read_or_refused() {
        replay("trace", 500, trace);
    }
}
