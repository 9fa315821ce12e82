//! Published values of Betzler et al. 2015 for wireless networks: settling times (Table 2) and PDR
//! (Table 3).

use carob_lab::metrics::{PDR, SETTLING_S};

/// A mean of a study's table, with its 95 % interval.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedMean {
    /// Short name of the study.
    pub study: &'static str,
    /// The table, by its published number.
    pub table: u32,
    /// The scenario that has the cell.
    pub scenario: &'static str,
    /// Name of the cell within the study, such as `event-6x6-lossy`.
    pub cell: String,
    /// The topology.
    pub topology: String,
    /// Link model: perfect or lossy.
    pub link: String,
    /// The algorithm's registry id.
    pub algorithm: String,
    /// The metric, `settling_s` or `pdr`.
    pub metric: &'static str,
    /// The mean, in the metric's unit.
    pub mean: f64,
    /// Half of its interval.
    pub ci95: f64,
}

/// A published table: its file, number and scenario, the cell's name around topology and link, the
/// metric, its columns, and the unit of the metric in them.
struct Form {
    file: &'static str,
    table: u32,
    scenario: &'static str,
    around: (&'static str, &'static str),
    metric: &'static str,
    columns: (&'static str, &'static str),
    unit: f64,
}

const FORMS: [Form; 2] = [
    Form {
        file: "table2_settling_time.csv",
        table: 2,
        scenario: "cocoaplus/event",
        around: ("event", ""),
        metric: SETTLING_S.name,
        columns: ("mean_s", "ci95_s"),
        unit: 1.0,
    },
    Form {
        file: "table3_pdr.csv",
        table: 3,
        scenario: "cocoaplus/mixed",
        around: ("mixed", "-1n"),
        metric: PDR.name,
        columns: ("mean_pct", "ci95_pct"),
        unit: 100.0,
    },
];

/// Every mean of Tables 2 and 3, in printed order.
pub fn cocoaplus_means() -> Vec<PublishedMean> {
    let of = |form: &Form| -> Vec<PublishedMean> {
        let table = super::table("cocoaplus", form.file).expect("a file of the list");
        let row = |row: usize| {
            let text = |column| table.cell(row, column).unwrap_or_default().to_owned();
            let number = |column| table.number(row, column).unwrap_or(f64::NAN) / form.unit;
            let (topology, link) = (text("topology"), text("link"));
            PublishedMean {
                study: "cocoaplus",
                table: form.table,
                scenario: form.scenario,
                cell: format!("{}-{topology}-{link}{}", form.around.0, form.around.1),
                algorithm: text("algorithm"),
                metric: form.metric,
                mean: number(form.columns.0),
                ci95: number(form.columns.1),
                topology,
                link,
            }
        };
        (0..table.len()).map(row).collect()
    };
    FORMS.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob_lab::scenario::{Scenario, builtin};

    #[test]
    fn every_mean_has_a_cell_and_algorithm_of_its_scenario() {
        let all = cocoaplus_means();
        assert_eq!(all.len(), 2 * 8 * 3);
        for printed in &all {
            let (file, _) = builtin::find(printed.scenario).expect("a scenario");
            let scenario = Scenario::read(file.name, file.text, &[]).expect("a valid one");
            assert!(scenario.cell(&printed.cell).is_some(), "{}", printed.cell);
            let runs = |name: &str| scenario.algorithms().iter().any(|a| a.name == name);
            assert!(runs(&printed.algorithm), "{}", printed.algorithm);
            assert!(printed.mean > 0.0 && printed.ci95 > 0.0, "{printed:?}");
        }
    }

    #[test]
    fn per_cents_become_ratios_and_seconds_stay() {
        let all = cocoaplus_means();
        let of = |cell: &str, algorithm: &str| {
            let found = all
                .iter()
                .find(|p| p.cell == cell && p.algorithm == algorithm);
            found.map(|p| (p.mean, p.ci95))
        };
        assert_eq!(of("event-6x6-lossy", "cocoa-plus"), Some((21.0, 6.0)));
        let (mean, half) = of("mixed-dumbbell-ideal-1n", "cocoa-plus").expect("published");
        assert!((mean - 0.402).abs() < 1e-9 && (half - 0.005).abs() < 1e-9);
    }
}
