//! Numeric options of long runs: `--seeds 5`.

use anyhow::{Context, Result, bail};

/// Values of options by their names and defaults; all are at least 1.
pub(crate) fn numbers<const N: usize>(
    words: &[String],
    known: [(&str, u64); N],
) -> Result<[u64; N]> {
    let mut values = known.map(|(_, default)| default);
    for pair in words.chunks(2) {
        let Some(place) = known.iter().position(|(name, _)| *name == pair[0]) else {
            let names = known.map(|(name, _)| format!("{name} N"));
            bail!("unknown option {}; there are {}", pair[0], names.join(", "));
        };
        let value = pair.get(1).and_then(|value| value.parse().ok());
        let value = value.filter(|value| *value > 0);
        values[place] = value.with_context(|| format!("{} needs a number above 0", pair[0]))?;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_numbers_above_0() {
        let read = |line: &str| {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            numbers(&words, [("--seeds", 200), ("--first", 1)])
        };
        assert_eq!(read("--first 9").expect("valid"), [200, 9]);
        for bad in ["--seeds", "--seeds 0", "--first x", "--count 3"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
