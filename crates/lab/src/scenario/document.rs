//! A scenario file as flat settings: dotted paths, values as written, places. Keys that it must have, all of them at once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Place, Problem, ScenarioError};
use super::value::{Kind, Value, Values};
use super::{Axis, Scenario, Setting, keys, missing};

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

keys! {
    /// Names of a scenario and its cells, and text about it.
    pub(super) KEYS;

    "about", Text, -,
        "Question of the scenario, in a sentence; `{key}` in it is the value of that key; by default the file's name.";
    "study", Text, -,
        "Short name of the study that it reproduces; by default `own`.";
    "family", Text, -,
        "Name of the scenario within its study; by default the file's name.";
    "cell", Text, -,
        "Name of a cell, with sweep keys in braces; by default `family` and all sweep keys.";
    "compare_with", Text, -,
        "Cell of a study whose published values are compared with, as `<study>/<cell>` with sweep keys in braces; without it, the cell itself. A change of the link or the workload on the command line rules the comparison out.";
    "variant", Text, -,
        "A name of a variant. Sweep it, and let `where` tables set the keys of each variant, where variants differ in several keys.";
}

/// Keys of every scenario.
const REQUIRED: [&str; 2] = ["run.algorithms", "workload.kind"];

/// Study of a scenario that names none.
const NO_STUDY: &str = "own";

/// The most keys that are looked for in one cell.
const MISSING_MAX: usize = 64;

/// Adds missing names of the file and of the sweep's keys.
pub(super) fn name_by_file(
    name: &str,
    settings: &mut BTreeMap<String, Setting>,
    axes: &[Axis],
    whole: &Place,
) {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let file = file.strip_suffix(".toml").unwrap_or(file);
    let family = settings.get("family").and_then(|s| s.value.word());
    let family = family.unwrap_or(file).to_owned();
    let cell = axes
        .iter()
        .fold(family, |cell, axis| format!("{cell}-{{{}}}", axis.short));
    for (path, text) in [
        ("about", file),
        ("study", NO_STUDY),
        ("family", file),
        ("cell", &cell),
    ] {
        settings.entry(path.to_owned()).or_insert_with(|| Setting {
            value: Value::Text(text.to_owned()),
            place: whole.clone(),
        });
    }
}

/// The missing keys among those that every scenario needs.
pub(super) fn absent(whole: &Place, settings: &BTreeMap<String, Setting>) -> Vec<ScenarioError> {
    let keys = REQUIRED.iter().filter(|key| !settings.contains_key(**key));
    keys.map(|key| missing(whole, key)).collect()
}

/// Puts something in their place, but for the kind of the workload, on which others depend.
pub(super) fn stand_in(settings: &mut BTreeMap<String, Setting>) {
    let algorithms = || Setting {
        value: Value::Texts(vec!["default".to_owned()]),
        place: Place::Scenario(String::new()),
    };
    settings
        .entry("run.algorithms".to_owned())
        .or_insert_with(algorithms);
}

/// Keys without default that the first cell needs for its algorithms and does not have.
pub(super) fn missing_in(scenario: &Scenario, whole: &Place) -> Vec<ScenarioError> {
    let mut all = Vec::new();
    if !scenario.settings.contains_key("workload.kind") {
        return all;
    }
    for algorithm in &scenario.algorithms {
        let Some(mut cell) = scenario.cells.first().cloned() else {
            continue;
        };
        for _ in 0..MISSING_MAX {
            let Err(ScenarioError {
                problem: Problem::MissingKey { key },
                ..
            }) = cell.spec(algorithm, 0)
            else {
                break;
            };
            let Some(value) = keys::exact(&key).and_then(|found| sample(found.kind)) else {
                break;
            };
            all.push(missing(whole, &key));
            let place = whole.clone();
            cell.settings.insert(key, Setting { value, place });
        }
    }
    all
}

/// Some value of a kind.
fn sample(kind: Kind) -> Option<Value> {
    let text = match kind {
        Kind::Text | Kind::Texts | Kind::Tcp(_) => "default".to_owned(),
        Kind::Word(words) => (*words.first()?).to_owned(),
        Kind::Whole(low, high) => low.max(1).min(high).to_string(),
        Kind::Number => "1".to_owned(),
        Kind::Time | Kind::TimeOrNone | Kind::Span | Kind::Distribution => "1 s".to_owned(),
        Kind::Rate => "1 Mbit/s".to_owned(),
        Kind::Bytes(low, high) => format!("{} B", low.max(64).min(high)),
        Kind::Buffer => "inf".to_owned(),
        Kind::Percent => "1 %".to_owned(),
        Kind::Length => "1 m".to_owned(),
        Kind::Decibels => "3 dB".to_owned(),
        Kind::Power => "1 mW".to_owned(),
    };
    Value::read(kind, &text)
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
