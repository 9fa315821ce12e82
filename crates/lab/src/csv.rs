//! Comma-separated values with quotes (RFC 4180), for the tables of the studies.

/// A table with a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A row whose number of cells differs from the header's, or an open quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvError {
    /// The record, counted from 1 with the header.
    pub record: usize,
}

impl Table {
    /// Reads a table; every row must have as many cells as the header.
    pub fn read(text: &str) -> Result<Self, CsvError> {
        let mut records = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (record, after) = take_record(rest).ok_or(CsvError {
                record: records.len() + 1,
            })?;
            rest = after;
            // A blank line is no record.
            if record != [""] {
                records.push(record);
            }
        }
        let mut records = records.into_iter();
        let header = records.next().ok_or(CsvError { record: 1 })?;
        let rows: Vec<Vec<String>> = records.collect();
        match rows.iter().position(|row| row.len() != header.len()) {
            Some(short) => Err(CsvError { record: short + 2 }),
            None => Ok(Self { header, rows }),
        }
    }

    /// Names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Number of rows, without the header.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The cells of each row.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// A cell by row number and column name.
    pub fn cell(&self, row: usize, column: &str) -> Option<&str> {
        let column = self.header.iter().position(|name| name == column)?;
        Some(&self.rows.get(row)?[column])
    }

    /// A cell as a number.
    pub fn number(&self, row: usize, column: &str) -> Option<f64> {
        self.cell(row, column)?.parse().ok()
    }
}

/// Records as text; cells are quoted where they must be.
pub fn text(records: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = String::new();
    for record in records {
        for (k, cell) in record.iter().enumerate() {
            if k > 0 {
                text.push(',');
            }
            if cell.contains([',', '"', '\n', '\r']) {
                text.extend(["\"", &cell.replace('"', "\"\""), "\""]);
            } else {
                text.push_str(cell);
            }
        }
        text.push('\n');
    }
    text
}

/// The cells of the first record, and the text after it.
fn take_record(mut text: &str) -> Option<(Vec<String>, &str)> {
    let mut cells = Vec::new();
    loop {
        let mut cell = String::new();
        if let Some(mut quoted) = text.strip_prefix('"') {
            loop {
                let (part, after) = quoted.split_once('"')?;
                cell.push_str(part);
                // A doubled quote is one quote.
                let Some(more) = after.strip_prefix('"') else {
                    text = after;
                    break;
                };
                cell.push('"');
                quoted = more;
            }
        } else {
            let end = text.find([',', '\n']).unwrap_or(text.len());
            cell.push_str(text[..end].trim_end_matches('\r'));
            text = &text[end..];
        }
        cells.push(cell);
        text = text.strip_prefix('\r').unwrap_or(text);
        match text.strip_prefix(',') {
            Some(after) => text = after,
            None if text.is_empty() => return Some((cells, text)),
            None => return Some((cells, text.strip_prefix('\n')?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_commas_and_line_ends_read_as_meant() {
        let table = Table::read("a,b\r\n1,\"x, \"\"y\"\"\nz\"\n\n3,\n").expect("a table");
        assert_eq!(table.header(), ["a", "b"]);
        assert_eq!(table.len(), 2);
        assert_eq!(table.cell(0, "b"), Some("x, \"y\"\nz"));
        assert_eq!(table.cell(1, "b"), Some(""));
        assert_eq!(table.number(1, "a"), Some(3.0));
        assert_eq!(table.cell(0, "c"), None);
    }

    #[test]
    fn ragged_rows_and_open_quotes_are_refused() {
        assert_eq!(Table::read("a,b\n1,2\n1\n"), Err(CsvError { record: 3 }));
        assert_eq!(Table::read("a\n\"x\n"), Err(CsvError { record: 2 }));
        assert_eq!(Table::read("a\n\"x\"y\n"), Err(CsvError { record: 2 }));
        assert_eq!(Table::read(""), Err(CsvError { record: 1 }));
    }
}
