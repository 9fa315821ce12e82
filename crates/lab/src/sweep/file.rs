//! The text of a sweep: keys, lists, rows and columns with their repetitions.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use toml::Spanned;

use super::{Column, Sweep, SweepError, SweepRow, Table, wrong_at};

/// The most rows of a table.
const ROWS_MAX: usize = 100_000;
/// The most digits after the point.
const DECIMALS_MAX: usize = 17;

const KEYS: &str = "the keys are title, about, scenario, seeds, set, [[row]] with label, set, with and each, [parameters], \
    [[column]] with name, quantities, decimals, set, each and sum; [[table]] with all of these; and [list]";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    about: String,
    #[serde(default)]
    list: BTreeMap<String, Vec<Entry>>,
    #[serde(default)]
    table: Vec<Spanned<RawTable>>,
    scenario: Option<OneOrMore<String>>,
    seeds: Option<Spanned<u64>>,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    row: Vec<Spanned<RawRow>>,
    #[serde(default)]
    parameters: BTreeMap<String, Spanned<Range>>,
    #[serde(default)]
    column: Vec<RawColumn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    title: String,
    #[serde(default)]
    about: String,
    scenario: OneOrMore<String>,
    seeds: Spanned<u64>,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    row: Vec<Spanned<RawRow>>,
    #[serde(default)]
    parameters: BTreeMap<String, Spanned<Range>>,
    #[serde(default)]
    column: Vec<RawColumn>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    label: String,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    with: BTreeMap<String, String>,
    each: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawColumn {
    name: String,
    quantities: Vec<Spanned<String>>,
    decimals: Option<OneOrMore<usize>>,
    #[serde(default)]
    set: Vec<String>,
    each: Option<Spanned<String>>,
    sum: Option<Spanned<String>>,
}

/// An entry of a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    /// The value of the field that has the name of the list.
    Value(String),
    Fields(BTreeMap<String, String>),
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T: Clone> OneOrMore<T> {
    fn all(&self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one.clone()],
            Self::More(more) => more.clone(),
        }
    }
}

/// Values of a parameter: a list, or equal steps from one to another.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Range {
    List(Vec<Text>),
    Steps { from: Text, to: Text, steps: u32 },
}

/// A value as text; a number may be unquoted.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Text {
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
    fn values(&self) -> Result<Vec<String>, String> {
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
pub fn number(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let numeric = |c: char| !(c.is_ascii_digit() || c == '.' || c == '-');
    let (number, unit) = text.split_at(text.find(numeric).unwrap_or(text.len()));
    let number = number.parse();
    Ok((
        number.map_err(|_| format!("\"{text}\" begins with no number"))?,
        unit,
    ))
}

/// Fields of rows and list entries: `{name}` in a text is replaced by a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// A text with the values of all fields that it names and that are known here.
    fn insert(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.0 {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        text
    }

    /// The same of a text whose fields must all be known.
    pub(super) fn insert_all(&self, text: &str, line: usize) -> Result<String, SweepError> {
        let text = self.insert(text);
        let Some((_, rest)) = text.split_once('{') else {
            return Ok(text);
        };
        let name = rest.split('}').next().unwrap_or(rest);
        let remedy = "add it to the list of `each` or `sum`, or to `with` of every row";
        let what = format!("no field is called \"{name}\"");
        Err(wrong_at(Some(line), what, remedy))
    }

    /// These fields, and fields of another with other names.
    fn and(&self, other: &Self) -> Self {
        let mut all = other.0.clone();
        all.extend(self.0.clone());
        Self(all)
    }
}

/// The text, for lines of errors, and the lists.
struct Context<'a> {
    text: &'a str,
    lists: BTreeMap<String, Vec<Fields>>,
}

impl Context<'_> {
    fn line<T>(&self, spanned: &Spanned<T>) -> usize {
        line_of(self.text, spanned.span().start)
    }

    /// The entries of a list; one without fields if none is named.
    fn entries(&self, list: Option<&str>, line: usize) -> Result<Vec<Fields>, SweepError> {
        let Some(name) = list else {
            return Ok(vec![Fields::default()]);
        };
        let found = self.lists.get(name).filter(|entries| !entries.is_empty());
        found.cloned().ok_or_else(|| {
            let what = format!("no list is called \"{name}\"");
            wrong_at(Some(line), what, "write its entries below [list]")
        })
    }
}

fn line_of(text: &str, start: usize) -> usize {
    text[..start.min(text.len())].matches('\n').count() + 1
}

/// Reads a sweep file.
pub(super) fn read(text: &str) -> Result<Sweep, SweepError> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        wrong_at(line, error.message(), KEYS)
    })?;
    let lists = file.list.iter().map(|(name, entries)| {
        let fields = |entry: &Entry| match entry {
            Entry::Value(value) => Fields(BTreeMap::from([(name.clone(), value.clone())])),
            Entry::Fields(fields) => Fields(fields.clone()),
        };
        (name.clone(), entries.iter().map(fields).collect())
    });
    let context = Context {
        text,
        lists: lists.collect(),
    };
    let title = file.title.clone();
    let (about, tables) = if file.table.is_empty() {
        let about = file.about.clone();
        (about, vec![only_table(file, &context)?])
    } else {
        let of_file = Shared {
            rows: rows(&file.row, &file.parameters, &context)?,
            columns: columns(&file.column, &context)?,
        };
        let tables: Result<Vec<Table>, SweepError> = file
            .table
            .into_iter()
            .map(|raw| table(raw.into_inner(), &of_file, &context))
            .collect();
        (format!("{}\n", file.about), tables?)
    };
    Ok(Sweep {
        title,
        about,
        tables,
    })
}

/// Rows and columns of the file, for tables without their own.
#[derive(Default)]
struct Shared {
    rows: Vec<SweepRow>,
    columns: Vec<Column>,
}

/// The table of a file without `[[table]]`.
fn only_table(file: File, context: &Context<'_>) -> Result<Table, SweepError> {
    let missing = |key: &str| wrong_at(None, format!("missing field `{key}`"), KEYS);
    let begins_sentence = ends_sentence(&file.about);
    let raw = RawTable {
        title: file.title,
        about: String::new(),
        scenario: file.scenario.ok_or_else(|| missing("scenario"))?,
        seeds: file.seeds.ok_or_else(|| missing("seeds"))?,
        set: file.set,
        row: file.row,
        parameters: file.parameters,
        column: file.column,
    };
    let table = table(raw, &Shared::default(), context)?;
    Ok(Table {
        title: None,
        begins_sentence,
        ..table
    })
}

fn ends_sentence(text: &str) -> bool {
    text.trim_end().ends_with('.')
}

fn table(raw: RawTable, of_file: &Shared, context: &Context<'_>) -> Result<Table, SweepError> {
    let seeds = *raw.seeds.get_ref();
    if seeds == 0 {
        let line = Some(context.line(&raw.seeds));
        return Err(wrong_at(line, "no seeds", "write seeds = 5 or more"));
    }
    let mut rows = rows(&raw.row, &raw.parameters, context)?;
    if rows.is_empty() {
        rows.clone_from(&of_file.rows);
    }
    if rows.is_empty() {
        return Err(wrong_at(None, "no row", "add [[row]] or [parameters]"));
    }
    let mut columns = columns(&raw.column, context)?;
    if columns.is_empty() {
        columns.clone_from(&of_file.columns);
    }
    if columns.is_empty() {
        return Err(wrong_at(None, "no column", "add [[column]]"));
    }
    let table = Table {
        title: Some(raw.title),
        begins_sentence: ends_sentence(&raw.about),
        about: raw.about,
        scenarios: raw.scenario.all(),
        seeds,
        set: raw.set,
        rows,
        columns,
    };
    table.check_quantities()?;
    Ok(table)
}

fn columns(listed: &[RawColumn], context: &Context<'_>) -> Result<Vec<Column>, SweepError> {
    let mut columns = Vec::new();
    for raw in listed {
        columns.extend(columns_of(raw, context)?);
    }
    Ok(columns)
}

/// The columns of one entry of the file.
fn columns_of(raw: &RawColumn, context: &Context<'_>) -> Result<Vec<Column>, SweepError> {
    let list = |name: &Option<Spanned<String>>| {
        let line = name.as_ref().map_or(0, |name| context.line(name));
        context.entries(name.as_ref().map(|name| &**name.get_ref()), line)
    };
    let (each, sum) = (list(&raw.each)?, list(&raw.sum)?);
    let decimals = raw
        .decimals
        .as_ref()
        .map_or_else(|| vec![0], OneOrMore::all);
    let last = decimals.last().copied().unwrap_or(0);
    let column = |of_column: &Fields| {
        let quantity = |text: &Spanned<String>| {
            let line = context.line(text);
            if raw.sum.is_none() {
                return (of_column.insert(text.get_ref()), line);
            }
            let term = |of_term: &Fields| {
                let term = of_term.and(of_column).insert(text.get_ref());
                format!("({term})")
            };
            let terms: Vec<String> = sum.iter().map(term).collect();
            (terms.join(" + "), line)
        };
        Column {
            name: of_column.insert(&raw.name),
            set: raw.set.iter().map(|set| of_column.insert(set)).collect(),
            quantities: raw.quantities.iter().map(quantity).collect(),
            decimals: (0..raw.quantities.len())
                .map(|k| decimals.get(k).copied().unwrap_or(last).min(DECIMALS_MAX))
                .collect(),
        }
    };
    Ok(each.iter().map(column).collect())
}

/// The rows that are listed, then the combinations of parameters; the last one varies fastest.
fn rows(
    listed: &[Spanned<RawRow>],
    parameters: &BTreeMap<String, Spanned<Range>>,
    context: &Context<'_>,
) -> Result<Vec<SweepRow>, SweepError> {
    let mut rows = Vec::new();
    for row in listed {
        let (raw, line) = (row.get_ref(), context.line(row));
        for entry in context.entries(raw.each.as_deref(), line)? {
            let fields = Fields(raw.with.clone()).and(&entry);
            rows.push(SweepRow {
                label: fields.insert(&raw.label),
                set: raw.set.iter().map(|set| fields.insert(set)).collect(),
                fields,
                line,
            });
        }
    }
    let combined = combinations(parameters, context)?;
    rows.extend(combined.into_iter().map(|(set, line)| SweepRow {
        label: set.join(", "),
        set,
        fields: Fields::default(),
        line,
    }));
    Ok(rows)
}

/// All combinations of the values of parameters, each with a line.
fn combinations(
    parameters: &BTreeMap<String, Spanned<Range>>,
    context: &Context<'_>,
) -> Result<Vec<(Vec<String>, usize)>, SweepError> {
    let mut combined = Vec::new();
    for (key, range) in parameters {
        let line = context.line(range);
        let values = range.get_ref().values().map_err(|what| {
            let remedy = "write [\"1 s\", \"2 s\"] or { from = \"1 s\", to = \"9 s\", steps = 5 }";
            wrong_at(Some(line), format!("{key}: {what}"), remedy)
        })?;
        if combined.is_empty() {
            combined.push((Vec::new(), line));
        }
        if combined.len().saturating_mul(values.len()) > ROWS_MAX {
            let what = format!("more than {ROWS_MAX} rows");
            return Err(wrong_at(Some(line), what, "take fewer values"));
        }
        let longer = |(set, line): &(Vec<String>, usize)| {
            let with = |value: &String| {
                let mut set = set.clone();
                set.push(format!("{key}={value}"));
                (set, *line)
            };
            values.iter().map(with).collect::<Vec<_>>()
        };
        combined = combined.iter().flat_map(longer).collect();
    }
    Ok(combined)
}
