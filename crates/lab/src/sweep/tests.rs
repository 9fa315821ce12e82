//! Tests of sweeps.

use std::path::Path;

use super::*;
use crate::scenario::builtin;

const SMALL: &str = "title = \"T\"\nabout = \"A;\"\nscenario = \"carob/default\"\nseeds = 2\n\
    [[row]]\nlabel = \"as is\"\n\
    [parameters]\nloss = { from = \"0 %\", to = \"10 %\", steps = 3 }\nblock = [\"64 B\", \"128 B\"]\n\
    [[column]]\nname = \"c\"\nquantities = [\"1 + 1\", \"p50(fct_s, default, default-none)\"]\ndecimals = 1\n";

#[test]
fn parameters_make_a_row_for_each_combination() {
    let sweep = Sweep::read(SMALL).expect("it reads");
    let table = &sweep.tables[0];
    let sets: Vec<String> = table.rows.iter().map(|row| row.set.join(",")).collect();
    assert_eq!(
        sets,
        [
            "",
            "block=64 B,loss=0 %",
            "block=64 B,loss=5 %",
            "block=64 B,loss=10 %",
            "block=128 B,loss=0 %",
            "block=128 B,loss=5 %",
            "block=128 B,loss=10 %",
        ]
    );
    assert_eq!(table.runs(&table.rows[0]), 2);
    let line = table.line(&table.rows[1], &vec![vec![Some(2.0), None]]);
    assert_eq!(
        line,
        "| block=64 B, loss=0 % | `block=64 B`, `loss=0 %` | 2.0 / none |\n"
    );
}

/// The second parameter of [`SMALL`].
const PARAMETER: &str = "block = [\"64 B\", \"128 B\"]";

#[test]
fn numeric_parameters_need_no_quotes() {
    let quoted = Sweep::read(&SMALL.replace(PARAMETER, "clients = [\"1\", \"30\"]"));
    let bare = Sweep::read(&SMALL.replace(PARAMETER, "clients = [1, 30]"));
    let sets = |sweep: Sweep| -> Vec<String> {
        let rows = &sweep.tables[0].rows;
        rows.iter().map(|row| row.set.join(",")).collect()
    };
    let sets = [quoted, bare].map(|sweep| sets(sweep.expect("it reads")));
    assert!(sets[0].iter().any(|set| set.contains("clients=30")));
    assert_eq!(sets[0], sets[1]);
}

#[test]
fn errors_name_the_line_and_the_remedy() {
    for (from, to, line, what, remedy) in [
        ("seeds = 2", "seeds = 0", Some(4), "no seeds", "seeds = 5"),
        ("1 + 1", "1 +", Some(12), "byte 3", "p50("),
        (
            "label",
            "lable",
            Some(5),
            "unknown field",
            "[[row]] with label",
        ),
        (
            "to = \"10 %\"",
            "to = \"10 s\"",
            Some(8),
            "different units",
            "from =",
        ),
        ("steps = 3", "steps = 1", Some(8), "1 steps", "steps = 5"),
    ] {
        let error = Sweep::read(&SMALL.replace(from, to)).expect_err(to);
        assert!(error.what.contains(what), "{error:?}");
        assert!(error.remedy.contains(remedy), "{error:?}");
        // A table's error is reported where it begins or at its key.
        let near = |line: usize| error.line.is_some_and(|found| found.abs_diff(line) <= 1);
        assert!(line.is_some_and(near), "{error:?}");
    }
}

#[test]
fn text_that_ends_with_a_full_stop_is_followed_by_a_sentence() {
    let head = |about: &str| {
        let sweep = Sweep::read(&SMALL.replace("A;", about)).expect("it reads");
        sweep.head() + &sweep.tables[0].head()
    };
    assert!(head("Runs;").contains("Runs; each row adds"));
    assert!(head("Runs.").contains("Runs. Each row adds"));
}

const SEVERAL: &str = r#"
title = "T"
about = "Of all."
[list]
cell = ["none", "low"]
pair = [{ name = "one", a = "default", b = "cocoa-plus" }]
[[row]]
each = "cell"
label = "`{cell}`"
with = { algorithm = "default" }
[[table]]
title = "First"
about = "A;"
scenario = ["carob/default", "carob/fairness"]
seeds = 2
set = ["block=64 B"]
[[table.column]]
name = "time"
quantities = ["p50(fct_s, {algorithm}, default-{cell})", "2"]
decimals = [0, 1]
[[table.column]]
name = "{name}"
each = "pair"
set = ["loss=1 %"]
quantities = ["mean(fct_s, {a}, default-{cell}) / mean(fct_s, {b}, default-{cell})"]
[[table]]
title = "Second"
about = "B;"
scenario = "carob/default"
seeds = 1
[[table.row]]
label = "own"
set = ["block=64 B"]
[[table.column]]
name = "sum"
sum = "cell"
quantities = ["exceeds(mean(fct_s, default, default-{cell}), 1)"]
"#;

#[test]
fn lists_repeat_rows_and_columns_and_are_summed_over() {
    let sweep = Sweep::read(SEVERAL).expect("it reads");
    let labels: Vec<&str> = sweep.rows().map(|(_, _, row)| &*row.label).collect();
    assert_eq!(labels, ["`none`", "`low`", "own"]);
    let (table, row) = (&sweep.tables[0], &sweep.tables[0].rows[1]);
    let cells = table.cells(row);
    let texts: Vec<&str> = cells
        .iter()
        .flat_map(|cell| &cell.quantities)
        .map(Expression::text)
        .collect();
    assert_eq!(
        texts,
        [
            "p50(fct_s, default, default-low)",
            "2",
            "mean(fct_s, default, default-low) / mean(fct_s, cocoa-plus, default-low)",
        ]
    );
    assert_eq!(
        (cells[1].column, cells[1].set.join(",")),
        ("one", "block=64 B,loss=1 %".to_owned())
    );
    // Default CoAP runs with the settings of each column.
    assert_eq!(table.runs(row), 2 * 3);
    let line = table.line(row, &vec![vec![Some(1.5), Some(2.0)], vec![None]]);
    assert_eq!(line, "| `low` | 2 / 2.0 | none |\n");
    let (table, row) = (&sweep.tables[1], &sweep.tables[1].rows[0]);
    let sum = "(exceeds(mean(fct_s, default, default-none), 1)) + (exceeds(mean(fct_s, default, default-low), 1))";
    assert_eq!(table.cells(row)[0].quantities[0].text(), sum);
    assert!(table.head().starts_with("\n## Second\n\nB; each row adds"));
    assert!(sweep.tables[0].head().contains(
        "--seeds 2 --set 'block=64 B'`, where NAME is `carob/default` and `carob/fairness`."
    ));
}

#[test]
fn fields_and_lists_that_do_not_exist_are_named_with_their_line() {
    for (from, to, line, what) in [
        (
            "{algorithm}",
            "{algorism}",
            19,
            "no field is called \"algorism\"",
        ),
        (
            "each = \"pair\"",
            "each = \"pairs\"",
            23,
            "no list is called \"pairs\"",
        ),
        (
            "sum = \"cell\"",
            "sum = \"cells\"",
            36,
            "no list is called \"cells\"",
        ),
    ] {
        let error = Sweep::read(&SEVERAL.replace(from, to)).expect_err(to);
        assert_eq!((error.line, &*error.what), (Some(line), what), "{error:?}");
    }
}

#[test]
fn kept_results_have_the_columns_and_rows_of_their_sweep() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let mut sweeps = 0;
    for file in std::fs::read_dir(&root).expect("the results") {
        let file = file.expect("a file").path();
        if file.extension() != Some("toml".as_ref()) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a text");
        if text.contains("\nstudy = ") {
            continue; // a sweep over claims
        }
        let sweep = Sweep::read(&text).expect("it reads");
        let name = file.display();
        let kept = std::fs::read_to_string(file.with_extension("md")).expect("its results");
        let mut rest = kept.strip_prefix(&sweep.head()).expect("the same text");
        for (number, place, row) in sweep.rows() {
            let table = &sweep.tables[number];
            if place == 0 {
                let head = table.head();
                rest = rest
                    .strip_prefix(&head)
                    .unwrap_or_else(|| panic!("{name}: {head} is not in {rest}"));
            }
            let begins = table.line(row, &Vec::new());
            let (line, after) = rest.split_once('\n').expect("a row");
            assert!(line.starts_with(begins.trim_end()), "{name}: {line}");
            assert_eq!(
                line.matches(" |").count(),
                table
                    .head()
                    .lines()
                    .last()
                    .expect("a head")
                    .matches(" |")
                    .count()
            );
            rest = after;
        }
        assert_eq!(rest, "", "{name}");
        sweeps += 1;
    }
    assert!(sweeps >= 7, "{sweeps}");
}

#[test]
fn sweeps_of_the_documentation_can_be_read() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sweeps.md");
    let page = std::fs::read_to_string(file).expect("the page");
    let blocks = page.split("```toml\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let of_quantities: Vec<&str> = blocks
        .filter(|block| !block.contains("\nstudy = "))
        .collect();
    assert_eq!(of_quantities.len(), 2);
    for block in of_quantities {
        let sweep = Sweep::read(block).unwrap_or_else(|error| panic!("{error}"));
        for table in &sweep.tables {
            let built_in = |name: &String| {
                let (file, _) = builtin::find(name).expect("a built-in scenario");
                ScenarioFile {
                    name: file.name.to_owned(),
                    text: file.text.to_owned(),
                }
            };
            let files: Vec<ScenarioFile> = table.scenarios.iter().map(built_in).collect();
            table
                .check(&files, Registry::BUILT_IN)
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
