//! Tests of quantities.

use super::*;

fn source() -> Source {
    let mut source = Source::default();
    let runs = vec![vec![1.0, 10.0], vec![2.0, 3.0], vec![4.0, 5.0]];
    source.add("a-b", "x", "fct_s", runs);
    source
}

fn value(text: &str) -> Option<f64> {
    let expression = Expression::parse(text).unwrap_or_else(|error| panic!("{error}"));
    expression.value(&source(), &[0, 1, 2])
}

#[test]
fn quantities_are_computed_as_they_read() {
    for (text, expected) in [
        ("1 + 2 * 3 - 8 / 4", 5.0),
        ("-(1 - 3) / 2", 1.0),
        ("p50(fct_s, a-b, x)", 3.5),
        ("min(fct_s, a-b, x) + max(fct_s, a-b, x)", 11.0),
        ("max(1, 2, min(3, 4))", 3.0),
        ("mean(fct_s,a-b,x) * 6", 25.0),
        ("share_above(fct_s, a-b, x, 3 + 0)", 0.5),
        ("count_above(fct_s, a-b, x, 4)", 20.0 / 3.0),
        ("share_ahead(fct_s, a-b, x, 0.5) * 3", 1.0),
        ("abs(1 - p25(fct_s, a-b, x))", 1.25),
    ] {
        let got = value(text).expect("it was run");
        assert!((got - expected).abs() < 1e-9, "{text}: {got}");
    }
    assert_eq!(value("p50(fct_s, a-b, y)"), None, "not run");
}

#[test]
fn statistics_of_pairs_and_tails_are_those_of_the_tables() {
    let mut source = Source::default();
    let runs = |of: fn(f64) -> f64| (1..=200).map(|k| vec![of(f64::from(k))]).collect();
    source.add("a", "x", "fct_s", runs(|k| k));
    source.add("b", "x", "fct_s", runs(|k| k + k % 3.0));
    source.add("c", "x", "fct_s", runs(|k| k - 200.0 * (k % 2.0) + 100.0));
    let all: Vec<usize> = (0..200).collect();
    let value = |text: &str| Expression::parse(text).expect(text).value(&source, &all);
    assert_eq!(value("nearest_p99(fct_s, a, x)"), Some(198.0));
    assert_eq!(value("gap_sign(fct_s, b, a, x)"), Some(1.0));
    assert_eq!(value("gap_sign(fct_s, a, b, x)"), Some(-1.0));
    assert_eq!(value("gap_sign(fct_s, c, a, x)"), Some(0.0));
    assert_eq!(value("gap_sign(fct_s, d, a, x)"), Some(0.0), "no pairs");
    // Student's t for 199 degrees of freedom: 1.972.
    let half = value("ci95(fct_s, a, x)").expect("it was run");
    let sd = (201.0 * 200.0 / 12.0_f64).sqrt();
    assert!(
        (half - 1.972 * sd / 200.0_f64.sqrt()).abs() < 1e-2,
        "{half}"
    );
    let quantity = Expression::parse("gap_sign(fct_s, b, a, x)").expect("it reads");
    assert_eq!(
        (quantity.references().len(), quantity.metrics()),
        (2, vec!["fct_s"])
    );
}

#[test]
fn a_draw_decides_which_runs_count() {
    let expression = Expression::parse("max(fct_s, a-b, x)").expect("it reads");
    assert_eq!(expression.value(&source(), &[1, 1, 1]), Some(3.0));
}

#[test]
fn parse_error_has_the_position() {
    for (text, at, what) in [
        ("p50(speed, a, b)", 9, "\"speed\" is no metric"),
        ("1 +", 3, "expected a number or a quantity"),
        ("p50(fct_s, a)", 12, "expected \",\""),
        ("2 2", 2, "expected an operator"),
        (
            "p50(fct_s, a, own/b)",
            17,
            "a cell is named without its study",
        ),
        ("half(1)", 5, "\"half\" is no function"),
    ] {
        let error = Expression::parse(text).expect_err(text);
        assert_eq!((error.at, error.what.as_str()), (at, what), "{text}");
    }
}
