//! Parquet files hold what JSON and comma-separated values hold, with their dictionary.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use carob_lab::csv::Table;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use super::folder::Folder;

const RUN: [&str; 6] = ["lab", "run", "carob/default", "--seeds", "3", "--each"];

const SWEEP: &str = "\
title = \"Rates\"
about = \"Completion times;\"
scenario = \"carob/default\"
seeds = 2

[[row]]
label = \"as is\"

[[row]]
label = \"nothing arrives in time\"
set = [\"time_limit=1 s\"]

[[column]]
name = \"medians, s\"
quantities = [
  \"p50(fct_s, default, default-none)\",
  \"p50(fct_s, cocoa-plus, default-none)\",
]
";

/// Names of the columns, and rows as texts; numbers as Rust prints them.
fn read(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let reader = SerializedFileReader::new(File::open(path).expect("a file")).expect("Parquet");
    let fields = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .columns()
        .to_vec();
    let names = fields.iter().map(|field| field.name().to_owned()).collect();
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::ULong(count) => count.to_string(),
        Field::Double(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let row = |row: parquet::record::Row| row.get_column_iter().map(|(_, f)| text(f)).collect();
    let rows = reader.get_row_iter(None).expect("rows");
    (names, rows.map(|r| row(r.expect("a row"))).collect())
}

/// An entry of the metadata.
fn entry(path: &Path, key: &str) -> Option<String> {
    let reader = SerializedFileReader::new(File::open(path).expect("a file")).expect("Parquet");
    let entries = reader.metadata().file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == key)?.value.clone()
}

#[test]
fn parquet_and_csv_hold_the_same_rows() {
    let folder = Folder::new("parquet-csv");
    fs::write(folder.0.join("rates.toml"), SWEEP).expect("a file");
    let summary = &RUN[..5];
    let sweep = ["lab", "sweep", "rates.toml"];
    for command in [&RUN[..], summary, &sweep[..]] {
        let told = folder.says(&[command, &["--parquet", "all.parquet"]].concat());
        let (names, rows) = read(&folder.0.join("all.parquet"));
        assert_eq!(told, format!("all.parquet: {} rows\n", rows.len()));
        let text = folder.says(&[command, &["--csv"]].concat());
        let table = Table::read(&text).expect("a table");
        assert_eq!(names, table.header());
        assert_eq!(rows, table.rows());
        let dictionary = entry(&folder.0.join("all.parquet"), "carob.columns");
        let dictionary: Value =
            serde_json::from_str(&dictionary.expect("a dictionary")).expect("JSON");
        for (name, column) in names.iter().zip(dictionary.as_array().expect("an array")) {
            assert_eq!(column["name"], **name);
            assert!(
                column["meaning"]
                    .as_str()
                    .is_some_and(|text| text.len() > 3)
            );
        }
    }
    // A quantity without a sample is no value.
    let (names, rows) = read(&folder.0.join("all.parquet"));
    let value = names
        .iter()
        .position(|name| name == "value")
        .expect("a column");
    assert_eq!((rows.len(), &*rows[2][value]), (4, ""));
}

#[test]
fn parts_of_parquet_merge_to_the_whole() {
    let folder = Folder::new("parquet-parts");
    let with = |file: &str, more: &[&str]| {
        folder.says(&[&RUN[..], &["--parquet", file], more].concat());
    };
    for part in ["1/3", "2/3", "3/3"] {
        with(&part[..1], &["--shard", part]);
    }
    with("whole", &[]);
    let merged = folder.carob(&["lab", "merge", "2", "3", "1"]);
    assert!(merged.status.success(), "{merged:?}");
    let path = folder.0.join("merged");
    fs::write(&path, merged.stdout).expect("a file");
    assert_eq!(read(&path), read(&folder.0.join("whole")));
    assert_eq!(
        entry(&path, "carob.hash"),
        entry(&folder.0.join("whole"), "carob.hash")
    );
    assert_eq!(entry(&path, "carob.shard"), None);
    let error = folder.refuses(&["lab", "merge", "1", "3"]);
    assert!(error.contains("part 2/3 is missing"), "{error}");
    let error = folder.refuses(&["lab", "merge", "1", "whole"]);
    assert!(error.contains("whole: no part of a batch"), "{error}");
    let json = folder.says(&[&RUN[..], &["--json", "--shard", "2/3"]].concat());
    fs::write(folder.0.join("2"), json).expect("a file");
    let error = folder.refuses(&["lab", "merge", "1", "2", "3"]);
    assert!(error.contains("different batches"), "{error}");
    let half = fs::read(folder.0.join("3")).expect("a file");
    fs::write(folder.0.join("3"), &half[..half.len() / 2]).expect("a file");
    let broken = folder.carob(&["lab", "merge", "1", "3"]);
    let error = String::from_utf8_lossy(&broken.stderr);
    assert!(
        !broken.status.success() && error.contains("run it again"),
        "{error}"
    );
}

#[test]
fn pyarrow_reads_what_json_has_to_the_last_bit() {
    let python = std::env::var("CAROB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut import = Command::new(&python);
    let found = import.args(["-c", "import pyarrow.parquet"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        crate::skipped("pyarrow (pip install pyarrow; CAROB_PYTHON names the interpreter)");
        return;
    }
    let folder = Folder::new("parquet-pyarrow");
    folder.says(&[&RUN[..], &["--parquet", "all.parquet"]].concat());
    let json = folder.says(&[&RUN[..], &["--json"]].concat());
    fs::write(folder.0.join("all.jsonl"), &json).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lab/read_parquet.py");
    let mut compare = Command::new(python);
    compare.arg(script).args(["all.parquet", "all.jsonl"]);
    let output = compare.current_dir(&folder.0).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let rows: usize = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("a number");
    assert!(rows > json.lines().count(), "{rows}");
}
