//! How far ours may be from print: data beside the study's tables.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::scenario::value::{Kind, Value};
use crate::statistics::Statistic;

/// Tolerances by statistic, as fractions of the printed value, for some cells their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tolerances {
    default: BTreeMap<Statistic, f64>,
    cells: BTreeMap<String, BTreeMap<Statistic, f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default: BTreeMap<String, String>,
    #[serde(default)]
    cells: BTreeMap<String, BTreeMap<String, String>>,
}

impl Tolerances {
    /// Those of `papers/thesis/tolerances.toml`.
    pub fn thesis() -> Self {
        let text = include_str!("../../../../papers/thesis/tolerances.toml");
        Self::read(text).expect("a test reads the file")
    }

    /// Reads a file such as `papers/thesis/tolerances.toml`; on failure says what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        let table = |texts: &BTreeMap<String, String>| {
            texts
                .iter()
                .map(|(name, text)| {
                    let statistic =
                        Statistic::named(name).ok_or(format!("no statistic \"{name}\""))?;
                    match Value::read(Kind::Percent, text) {
                        Some(Value::Percent(ppm)) => Ok((statistic, f64::from(ppm) / 1e6)),
                        _ => Err(format!("{name} = \"{text}\": expected {}", Kind::Percent)),
                    }
                })
                .collect::<Result<BTreeMap<_, _>, String>>()
        };
        Ok(Self {
            default: table(&file.default)?,
            cells: file
                .cells
                .iter()
                .map(|(cell, texts)| Ok((cell.clone(), table(texts)?)))
                .collect::<Result<_, String>>()?,
        })
    }

    /// The one for a statistic in a cell; 0 if neither the cell nor the default has one.
    pub fn of(&self, cell: &str, statistic: Statistic) -> f64 {
        self.cells
            .get(cell)
            .and_then(|own| own.get(&statistic))
            .or_else(|| self.default.get(&statistic))
            .copied()
            .unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers;

    #[test]
    fn every_printed_value_has_a_bound_and_every_cell_with_bounds_is_printed() {
        let tolerances = Tolerances::thesis();
        let printed = papers::thesis_fct();
        for row in &printed {
            for (statistic, _) in &row.values {
                assert!(tolerances.of(&row.cell, *statistic) > 0.0, "{statistic:?}");
            }
        }
        for cell in tolerances.cells.keys() {
            assert!(printed.iter().any(|row| row.cell == *cell), "{cell}");
        }
    }

    #[test]
    fn a_wrong_statistic_or_unit_is_refused() {
        for (text, wrong) in [
            ("[default]\np51 = \"1 %\"", "p51"),
            ("[default]\np50 = \"0.1\"", "0.1"),
        ] {
            let error = Tolerances::read(text).expect_err("wrong");
            assert!(error.contains(wrong), "{error}");
        }
    }
}
