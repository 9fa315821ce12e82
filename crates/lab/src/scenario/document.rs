//! A scenario file as flat settings: dotted paths, values as written, places.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Place, Problem, ScenarioError};
use super::value::{Value, Values};

/// The largest scenario file in bytes.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;

/// A setting as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Raw {
    pub(super) place: Place,
    pub(super) written: Written,
}

/// A value before its kind is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Written {
    One(String),
    List(Vec<String>),
}

/// Reads a TOML text into (path, setting), sorted by path.
pub(super) fn parse(name: &str, text: &str) -> Result<BTreeMap<String, Raw>, ScenarioError> {
    let locate = |offset: usize| place(name, text, offset);
    let syntax = |span: Option<Range<usize>>, message: &str| ScenarioError {
        place: locate(span.map_or(0, |s| s.start)),
        problem: Problem::Syntax(message.to_owned()),
    };
    if text.len() > FILE_BYTES_MAX {
        return Err(syntax(None, "a scenario file is at most 1 MiB"));
    }
    let document = DeTable::parse(text).map_err(|e| syntax(e.span(), e.message()))?;
    let mut settings = BTreeMap::new();
    flatten("", document.get_ref(), &locate, &mut settings)?;
    Ok(settings)
}

/// Writes values as a TOML text, which [`parse`] reads.
pub(crate) fn written(values: &Values) -> String {
    let mut tables: BTreeMap<&str, String> = BTreeMap::new();
    for (path, value) in values {
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        let value = match value {
            Value::Whole(n) => n.to_string(),
            Value::Texts(texts) => toml::Value::from(texts.clone()).to_string(),
            other => toml::Value::String(other.to_string()).to_string(),
        };
        // A String takes every write.
        let _ = writeln!(tables.entry(table).or_default(), "{key} = {value}");
    }
    let one = |(name, lines): (&str, String)| match name {
        "" => lines,
        name => format!("\n[{name}]\n{lines}"),
    };
    tables.into_iter().map(one).collect()
}

fn flatten(
    prefix: &str,
    table: &DeTable<'_>,
    locate: &dyn Fn(usize) -> Place,
    settings: &mut BTreeMap<String, Raw>,
) -> Result<(), ScenarioError> {
    for (key, value) in table {
        let path = if prefix.is_empty() {
            key.get_ref().to_string()
        } else {
            format!("{prefix}.{}", key.get_ref())
        };
        let place = locate(key.span().start);
        let bad = |value: &Spanned<DeValue<'_>>, expected: &str| ScenarioError {
            place: locate(value.span().start),
            problem: Problem::BadValue {
                key: path.clone(),
                value: value.get_ref().type_str().to_owned(),
                expected: expected.to_owned(),
            },
        };
        let written = match value.get_ref() {
            DeValue::Table(inner) => {
                flatten(&path, inner, locate, settings)?;
                continue;
            }
            DeValue::Array(items) => Written::List(
                items
                    .iter()
                    .map(|item| {
                        scalar(item.get_ref()).ok_or_else(|| bad(item, "a text or a number"))
                    })
                    .collect::<Result<_, _>>()?,
            ),
            other => Written::One(
                scalar(other).ok_or_else(|| bad(value, "a text, a number or a list of them"))?,
            ),
        };
        settings.insert(path, Raw { place, written });
    }
    Ok(())
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(x) => x.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => return None,
    })
}

fn place(name: &str, text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    Place::File {
        name: name.to_owned(),
        line,
        column,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_become_dotted_paths_with_places() {
        let text = "a = 1\n[b.c]\nd = [\"x\", 2]\n";
        let settings = parse("f.toml", text).expect("TOML");
        let d = &settings["b.c.d"];
        assert_eq!(d.written, Written::List(vec!["x".into(), "2".into()]));
        assert_eq!(d.place.to_string(), "f.toml:3:1");
        assert_eq!(settings["a"].written, Written::One("1".into()));
    }

    #[test]
    fn broken_toml_names_its_place() {
        let error = parse("f.toml", "a = 1\nb = \n").expect_err("no value");
        assert!(error.to_string().starts_with("f.toml:2:"), "{error}");
    }

    #[test]
    fn nested_lists_are_refused() {
        let error = parse("f.toml", "a = [[1]]").expect_err("a list of lists");
        assert!(error.to_string().contains("f.toml:1:6"), "{error}");
    }
}
