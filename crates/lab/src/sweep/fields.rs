//! Fields of rows and list entries: `{name}` in a text is replaced by a value.

use std::collections::BTreeMap;

use super::{SweepError, wrong_at};

/// Values by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(pub(super) BTreeMap<String, String>);

impl Fields {
    /// A text with the values of all fields that it names and that are known here.
    pub(super) fn insert(&self, text: &str) -> String {
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
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut all = other.0.clone();
        all.extend(self.0.clone());
        Self(all)
    }
}
