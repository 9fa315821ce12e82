//! Paired differences between the values of a key, by seed.

use std::collections::{BTreeMap, BTreeSet};

use carob_lab::paired::Paired;
use carob_lab::run::EachRow;
use carob_lab::statistics::Statistics;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Values of a metric by group, arm and seed.
pub(crate) struct Groups {
    seeds: BTreeSet<u64>,
    all: Vec<(Keys, Vec<(String, Arm)>)>,
}

/// Keys of a run and their values.
pub(crate) type Keys = BTreeMap<String, String>;

type Arm = BTreeMap<u64, f64>;

/// Takes the value of a key out of a run's; the error names the keys that there are.
pub(crate) fn take_key(keys: &mut Keys, name: &str, purpose: &str) -> PyResult<String> {
    keys.remove(name).ok_or_else(|| {
        let known: Vec<&str> = keys.keys().map(String::as_str).collect();
        let known = known.join(", ");
        PyKeyError::new_err(format!(
            "no column \"{name}\" to {purpose}; there are {known}"
        ))
    })
}

/// The place of an element, which is added where it is missing.
pub(crate) fn place_of<T>(
    all: &mut Vec<T>,
    is: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
) -> usize {
    all.iter().position(is).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    })
}

impl Groups {
    /// Groups runs by everything but the key `by`, whose values are the arms.
    pub(crate) fn of(
        rows: impl Iterator<Item = EachRow>,
        metric: &str,
        by: &str,
    ) -> PyResult<Self> {
        let mut groups = Self {
            seeds: BTreeSet::new(),
            all: Vec::new(),
        };
        for row in rows {
            let mut keys = keys_of(&row);
            let arm = take_key(&mut keys, by, "compare by")?;
            groups.seeds.insert(row.seed);
            let arms = groups.arms(keys);
            let place = place_of(arms, |(name, _)| *name == arm, || (arm.clone(), Arm::new()));
            if let Some(statistics) = row.metrics.get(metric) {
                arms[place].1.insert(row.seed, statistics.mean);
            }
        }
        Ok(groups)
    }

    fn arms(&mut self, keys: Keys) -> &mut Vec<(String, Arm)> {
        let new = || (keys.clone(), Vec::new());
        let place = place_of(&mut self.all, |(known, _)| *known == keys, new);
        &mut self.all[place].1
    }

    pub(crate) fn compared<'py>(
        &self,
        py: Python<'py>,
        by: &str,
        against: &str,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let pairs: Vec<_> = (self.all.iter())
            .filter_map(|(keys, arms)| {
                let (_, base) = arms.iter().find(|(name, _)| name == against)?;
                let others = arms.iter().filter(|(name, _)| name != against);
                Some(others.map(move |(name, arm)| (keys, name, arm, base)))
            })
            .flatten()
            .collect();
        if pairs.is_empty() {
            let arms = self
                .all
                .iter()
                .flat_map(|(_, arms)| arms.iter().map(|(name, _)| name));
            let arms: BTreeSet<&String> = arms.collect();
            let arms: Vec<&str> = arms.into_iter().map(String::as_str).collect();
            let what = format!(
                "nothing to compare with {by} \"{against}\"; there are {}",
                arms.join(", ")
            );
            return Err(PyValueError::new_err(what));
        }
        let count = pairs.len();
        pairs
            .into_iter()
            .map(|(keys, name, arm, base)| self.pair(py, (keys, name, against), (arm, base), count))
            .collect()
    }

    fn pair<'py>(
        &self,
        py: Python<'py>,
        (keys, name, against): (&Keys, &str, &str),
        (arm, base): (&Arm, &Arm),
        comparisons: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let of = |arm: &Arm| -> Vec<Option<f64>> {
            self.seeds
                .iter()
                .map(|seed| arm.get(seed).copied())
                .collect()
        };
        let (values, bases) = (of(arm), of(base));
        let both = || bases.iter().zip(&values).filter_map(|(a, b)| a.zip(*b));
        let median = |values: Vec<f64>| Statistics::of(&values).map(|all| all.p50);
        let seeds = both().count();
        let lower = both().filter(|(base, value)| value < base).count();
        let paired = Paired::of(&bases, &values, comparisons);
        let row = PyDict::new(py);
        row.set_item("group", keys.clone())?;
        row.set_item("value", name)?;
        row.set_item("against", against)?;
        row.set_item("seeds", seeds)?;
        row.set_item("median", median(arm.values().copied().collect()))?;
        row.set_item("median_against", median(base.values().copied().collect()))?;
        row.set_item("difference", mean_difference(both()))?;
        row.set_item("low", paired.map(|paired| paired.mean - paired.half))?;
        row.set_item("high", paired.map(|paired| paired.mean + paired.half))?;
        let share = (seeds > 0).then(|| lower as f64 / seeds as f64);
        row.set_item("lower", share)?;
        Ok(row)
    }
}

/// The keys of a run, with its algorithm among them.
pub(crate) fn keys_of(row: &EachRow) -> Keys {
    let plain = |value: &serde_json::Value| {
        let text = value.as_str().map(str::to_owned);
        text.unwrap_or_else(|| value.to_string())
    };
    let cell = row.cell.iter();
    let mut keys: Keys = cell
        .map(|(key, value)| (key.clone(), plain(value)))
        .collect();
    keys.insert("algorithm".to_owned(), row.algorithm.clone());
    keys
}

/// The mean of the paired differences.
fn mean_difference(both: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let differences: Vec<f64> = both.map(|(base, value)| value - base).collect();
    Statistics::of(&differences).map(|all| all.mean)
}
