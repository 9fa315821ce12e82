//! Statistics of a metric: mean, spread, confidence and percentiles.

use serde::{Deserialize, Serialize};

/// Statistics of a sample, under their names in the machine interface.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample (divisor n - 1); 0 for a single value.
    pub sd: f64,
    /// Half width of the 95 % confidence interval of the mean, by Student's t; 0 for one value.
    pub ci95: f64,
    /// Smallest value.
    pub min: f64,
    /// 10th percentile. Percentiles interpolate linearly between order statistics (type 7).
    pub p10: f64,
    /// 25th percentile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub n: usize,
}

/// A statistic by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Statistic {
    Mean,
    Sd,
    Ci95,
    Min,
    P10,
    P25,
    P50,
    P75,
    P90,
    P95,
    P99,
    Max,
}

impl Statistic {
    /// All of them, in the order of the machine interface.
    pub const ALL: [Self; 12] = [
        Self::Mean,
        Self::Sd,
        Self::Ci95,
        Self::Min,
        Self::P10,
        Self::P25,
        Self::P50,
        Self::P75,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::Max,
    ];

    /// Its name in JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sd => "sd",
            Self::Ci95 => "ci95",
            Self::Min => "min",
            Self::P10 => "p10",
            Self::P25 => "p25",
            Self::P50 => "p50",
            Self::P75 => "p75",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }

    /// Meaning, for the data dictionary.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Mean => "arithmetic mean",
            Self::Sd => "standard deviation of the sample (divisor n - 1); 0 for a single value",
            Self::Ci95 => {
                "half width of the 95 % confidence interval of the mean (Student's t); 0 for a single value"
            }
            Self::Min => "smallest value",
            Self::P10 => "10th percentile (linear interpolation, type 7)",
            Self::P25 => "25th percentile",
            Self::P50 => "median",
            Self::P75 => "75th percentile",
            Self::P90 => "90th percentile",
            Self::P95 => "95th percentile",
            Self::P99 => "99th percentile",
            Self::Max => "largest value",
        }
    }

    /// The statistic of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

impl Statistics {
    /// Statistics of `values` in any order; `None` for an empty sample or one with a NaN.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        if sorted.is_empty() || sorted.iter().any(|v| v.is_nan()) {
            return None;
        }
        // Sorting first makes every sum independent of the order of the runs.
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        // Summing what exceeds the least keeps equal values equal to their mean.
        let mean = sorted[0] + sorted.iter().map(|v| v - sorted[0]).sum::<f64>() / n as f64;
        let (sd, ci95) = if n > 1 {
            let squares: f64 = sorted.iter().map(|v| (v - mean) * (v - mean)).sum();
            let sd = (squares / (n - 1) as f64).sqrt();
            (sd, t975(n - 1) * sd / (n as f64).sqrt())
        } else {
            (0.0, 0.0)
        };
        Some(Self {
            mean,
            sd,
            ci95,
            min: sorted[0],
            p10: percentile(&sorted, 0.10),
            p25: percentile(&sorted, 0.25),
            p50: percentile(&sorted, 0.50),
            p75: percentile(&sorted, 0.75),
            p90: percentile(&sorted, 0.90),
            p95: percentile(&sorted, 0.95),
            p99: percentile(&sorted, 0.99),
            max: sorted[n - 1],
            n,
        })
    }

    /// One of them by name.
    pub const fn get(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::Sd => self.sd,
            Statistic::Ci95 => self.ci95,
            Statistic::Min => self.min,
            Statistic::P10 => self.p10,
            Statistic::P25 => self.p25,
            Statistic::P50 => self.p50,
            Statistic::P75 => self.p75,
            Statistic::P90 => self.p90,
            Statistic::P95 => self.p95,
            Statistic::P99 => self.p99,
            Statistic::Max => self.max,
        }
    }
}

/// The `q`-quantile of sorted values by linear interpolation between order statistics.
///
/// Type 7 of Hyndman and Fan, the default of numpy and R: position `(n - 1) q`.
///
/// # Panics
///
/// If there are no values.
pub fn percentile(sorted: &[f64], q: f64) -> f64 {
    let position = (sorted.len() - 1) as f64 * q.clamp(0.0, 1.0);
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// The 97.5 % quantile of Student's t for a number of degrees of freedom (at least 1).
///
/// Inverts the finite sums for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and
/// 26.7.4) by bisection up to 400, and expands about the normal quantile beyond (26.7.5), where
/// the first neglected term is below 1e-9.
fn t975(degrees: usize) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    if degrees > 400 {
        let (v, z2) = (degrees as f64, Z * Z);
        let g1 = Z * (z2 + 1.0) / 4.0;
        let g2 = Z * ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0;
        let g3 = Z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0;
        return Z + g1 / v + g2 / (v * v) + g3 / (v * v * v);
    }
    let (mut low, mut high) = (1.0, 13.0);
    // 60 halvings leave nothing of the interval that a double can hold.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if between(middle, degrees) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The t that bounds the `coverage` in the middle of Student's t for a number of degrees of freedom (at
/// least 1), such as 0.95; at most 1,000.
pub(crate) fn t_two_sided(coverage: f64, degrees: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1_000.0);
    // 80 halvings leave nothing of the interval that a double can hold.
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if between(middle, degrees) < coverage {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// P(-t < T < t) for Student's t with whole degrees of freedom.
fn between(t: f64, degrees: usize) -> f64 {
    let v = degrees as f64;
    let (sin, cos2) = (t / (v + t * t).sqrt(), v / (v + t * t));
    // Even: sin (1 + 1/2 cos^2 + 1x3/(2x4) cos^4 + ...); odd: the same with cos (1 + 2/3 cos^2 +
    // 2x4/(3x5) cos^4 + ...) after the angle itself. Both series end at cos^(degrees - 2).
    let even = degrees.is_multiple_of(2);
    let first = if even { 1.0 } else { cos2.sqrt() };
    let (mut term, mut sum) = (first, 0.0);
    let mut k = if even { 2 } else { 3 };
    while k <= degrees {
        sum += term;
        term *= cos2 * (k - 1) as f64 / k as f64;
        k += 2;
    }
    if even {
        sin * sum
    } else {
        std::f64::consts::FRAC_2_PI * ((t / v.sqrt()).atan() + sin * sum)
    }
}

/// Jain's fairness index: 1 if all values are equal, 1/n if one has everything.
pub fn jain(values: &[f64]) -> Option<f64> {
    let (sum, squares) = values
        .iter()
        .fold((0.0, 0.0), |(sum, squares), v| (sum + v, squares + v * v));
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative difference below 1e-12, far under any difference of method.
    fn same(ours: f64, reference: f64) {
        close(ours, reference, 1e-12);
    }

    fn close(ours: f64, reference: f64, tolerance: f64) {
        let difference = (ours - reference).abs();
        assert!(
            difference <= tolerance * reference.abs(),
            "{ours} is not {reference}"
        );
    }

    // Reference values: numpy 1.24.2 and scipy 1.10.1,
    //   x = numpy.array([...]); x.mean(); x.std(ddof=1);
    //   scipy.stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / numpy.sqrt(len(x));
    //   numpy.percentile(x, [0, 10, 25, 50, 75, 90, 95, 100])
    #[test]
    fn statistics_match_numpy_and_scipy() {
        let s = Statistics::of(&[285.692, 36.213, 58.234, 95.137, 32.866, 51.684, 64.228])
            .expect("values");
        same(s.mean, 89.15057142857142);
        same(s.sd, 89.08368991358097);
        // scipy's t quantiles are good to ten digits here: tan(0.475 pi) is 12.7062047361747.
        close(s.ci95, 82.38867178182177, 1e-8);
        same(s.min, 32.866);
        same(s.p10, 34.8742);
        same(s.p25, 43.948499999999996);
        same(s.p50, 58.234);
        same(s.p75, 79.6825);
        same(s.p90, 171.35900000000007);
        same(s.p95, 228.52549999999988);
        same(s.max, 285.692);
        assert_eq!(s.n, 7);
    }

    #[test]
    fn two_values_have_a_wide_interval() {
        let s = Statistics::of(&[1.0, 2.0]).expect("values");
        same(s.sd, std::f64::consts::FRAC_1_SQRT_2);
        close(s.ci95, 6.353102368216047, 1e-8);
        same(s.p10, 1.1);
        same(s.p95, 1.95);
        same(s.p99, 1.99);
    }

    // scipy 1.10.1: scipy.stats.t.ppf(0.975, df)
    #[test]
    fn t_quantiles_match_scipy() {
        let reference = [
            (1, 12.706204736432),
            (2, 4.302652729911),
            (3, 3.182446305284),
            (4, 2.776445105198),
            (5, 2.570581836615),
            (7, 2.364624251010),
            (10, 2.228138851965),
            (19, 2.093024054408),
            (30, 2.042272456301),
            (79, 1.990450209989),
            (100, 1.983971518450),
            (399, 1.965927295921),
            (400, 1.965912343229),
            (401, 1.965897465336),
            (1_000, 1.962339080826),
            (10_000, 1.960201239891),
            (1_000_000, 1.959966356814),
        ];
        for (degrees, value) in reference {
            let ours = t975(degrees);
            assert!(
                (ours - value).abs() < 1e-9,
                "{degrees}: {ours} is not {value}"
            );
        }
    }

    #[test]
    fn one_degree_of_freedom_is_a_tangent() {
        same(t975(1), (0.475 * std::f64::consts::PI).tan());
    }

    #[test]
    fn one_value_has_no_spread() {
        let s = Statistics::of(&[5.0]).expect("a value");
        assert_eq!(
            (s.mean, s.sd, s.ci95, s.min, s.p50, s.max, s.n),
            (5.0, 0.0, 0.0, 5.0, 5.0, 5.0, 1)
        );
    }

    #[test]
    fn no_values_and_no_numbers_have_no_statistics() {
        assert_eq!(Statistics::of(&[]), None);
        assert_eq!(Statistics::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn order_of_values_does_not_matter() {
        let values: Vec<f64> = (0..100).map(|k| 0.1 * f64::from(k * 37 % 100)).collect();
        let mut reversed = values.clone();
        reversed.reverse();
        assert_eq!(Statistics::of(&values), Statistics::of(&reversed));
    }

    #[test]
    fn json_has_the_names_of_the_machine_interface() {
        let s = Statistics::of(&[1.0, 2.0]).expect("values");
        let json = serde_json::to_value(s).expect("plain numbers");
        let names: Vec<&str> = json
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect();
        let mut expected: Vec<&str> = Statistic::ALL.iter().map(|s| s.name()).collect();
        expected.push("n");
        expected.sort_unstable();
        let mut names = names;
        names.sort_unstable();
        assert_eq!(names, expected);
        for statistic in Statistic::ALL {
            assert_eq!(json[statistic.name()], s.get(statistic));
        }
    }

    #[test]
    fn jain_runs_from_one_in_n_to_one() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[3.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0]), None);
    }
}
