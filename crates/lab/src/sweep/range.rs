//! Values of a parameter: a list, or equal steps from one to another.

use std::fmt;

use serde::Deserialize;

use super::file::ROWS_MAX;

#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Range {
    List(Vec<Text>),
    Steps { from: Text, to: Text, steps: u32 },
}

/// A value as text; a number may be unquoted.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Text {
    Quoted(String),
    Whole(i64),
    Number(f64),
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quoted(text) => f.write_str(text),
            Self::Whole(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl Range {
    pub(super) fn values(&self) -> Result<Vec<String>, String> {
        match self {
            Self::List(values) if values.is_empty() => Err("no value".to_owned()),
            Self::List(values) => Ok(values.iter().map(Text::to_string).collect()),
            Self::Steps { from, to, steps } => {
                let [from, to] = [from, to].map(Text::to_string);
                let ((first, unit), (last, other)) = (number(&from)?, number(&to)?);
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
