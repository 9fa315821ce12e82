//! Values of a parameter: a list, or equal steps from one to another.

use serde::Deserialize;

use super::file::ROWS_MAX;

#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Range {
    List(Vec<String>),
    Steps {
        from: String,
        to: String,
        steps: u32,
    },
}

impl Range {
    pub(super) fn values(&self) -> Result<Vec<String>, String> {
        match self {
            Self::List(values) if values.is_empty() => Err("no value".to_owned()),
            Self::List(values) => Ok(values.clone()),
            Self::Steps { from, to, steps } => {
                let ((first, unit), (last, other)) = (number(from)?, number(to)?);
                if unit != other {
                    return Err(format!("\"{from}\" and \"{to}\" have different units"));
                }
                if *steps < 2 || *steps as usize > ROWS_MAX {
                    return Err(format!("{steps} steps"));
                }
                let step = (last - first) / f64::from(steps - 1);
                let value = |k: u32| {
                    // Without digits that only rounding made.
                    let value = (first + step * f64::from(k)) * 1e6;
                    format!("{}{unit}", value.round() / 1e6)
                };
                Ok((0..*steps).map(value).collect())
            }
        }
    }
}

/// A number and what follows it.
pub(crate) fn number(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let numeric = |c: char| !(c.is_ascii_digit() || c == '.' || c == '-');
    let (number, unit) = text.split_at(text.find(numeric).unwrap_or(text.len()));
    let number = number.parse();
    Ok((
        number.map_err(|_| format!("\"{text}\" begins with no number"))?,
        unit,
    ))
}
