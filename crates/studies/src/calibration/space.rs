//! The space of open settings: reading, Latin hypercube, refinement.

use std::collections::BTreeMap;

use carob_lab::quantity::ScenarioFile;
use carob_lab::sweep::number;
use carob_lab::text::distinct;
use carob_sim::random::Stream;
use serde::Deserialize;
use toml::Spanned;

use super::OPEN;
use crate::StudyError;

/// The seed of all streams of a search.
const SEED: u64 = 1;
/// The most values of a setting, and points of a search.
const VALUES_MAX: usize = 1_000;
const POINTS_MAX: usize = 100_000;
/// Draws of a new point before it is given up as already tried.
const DRAWS_MAX: usize = 50;

/// Numbers of points and seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Points of the Latin hypercube.
    pub points: usize,
    /// Rounds of refinement.
    #[serde(default)]
    pub rounds: usize,
    /// Points of a round.
    #[serde(default)]
    pub round_points: usize,
    /// True if every other value of each setting is tried at the interpretation.
    #[serde(default)]
    pub neighbours: bool,
    /// Seeds per cell and algorithm for the facts.
    pub seeds: usize,
    /// The most points whose findings are judged, besides the unchanged scenarios.
    pub judged: usize,
    /// Seeds per cell and algorithm for the findings.
    pub judged_seeds: usize,
}

/// An open setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in tables.
    pub name: String,
    /// The reason why it is open, and why these values are plausible.
    pub reason: String,
    /// Names of the scenarios it is of; all if empty.
    pub scenarios: Vec<String>,
    /// Its values.
    pub values: Vec<SettingValue>,
    /// True if neighbours in the list are neighbours in meaning.
    pub ordered: bool,
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingValue {
    /// The value in words.
    pub label: String,
    /// Arguments of `--set`.
    pub set: Vec<String>,
}

/// Settings that every point starts from: the scenarios' settings before an interpretation was taken
/// over into them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// Names of the scenarios it is of; all if empty.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// Arguments of `--set`.
    pub set: Vec<String>,
}

/// A value of each setting by its index; `None` keeps the base.
pub type Point = Vec<Option<usize>>;

impl Setting {
    /// Returns whether the setting applies to a scenario.
    pub fn is_of(&self, file: &ScenarioFile) -> bool {
        are_of(&self.scenarios, file)
    }
}

impl Base {
    /// Returns whether it applies to a scenario.
    pub fn is_of(&self, file: &ScenarioFile) -> bool {
        are_of(&self.scenarios, file)
    }
}

/// Returns whether names, or their absence, include a scenario.
fn are_of(scenarios: &[String], file: &ScenarioFile) -> bool {
    let name = file.name.strip_suffix(".toml").unwrap_or(&file.name);
    let names = |wanted: &String| {
        name.strip_suffix(wanted.as_str())
            .is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    scenarios.is_empty() || scenarios.iter().any(names)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    search: Search,
    #[serde(default)]
    base: Vec<Base>,
    setting: Vec<Spanned<Written>>,
    #[serde(default)]
    candidate: Vec<WrittenCandidate>,
}

/// A point that is tried besides the sample: values by the names of settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCandidate {
    name: String,
    values: BTreeMap<String, String>,
}

/// What `open.toml` holds.
pub(super) struct Space {
    pub(super) search: Search,
    pub(super) base: Vec<Base>,
    pub(super) settings: Vec<Setting>,
    /// Points that are tried besides the sample.
    pub(super) candidates: Vec<Point>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    reason: String,
    #[serde(default)]
    scenarios: Vec<String>,
    key: Option<String>,
    values: Option<Vec<String>>,
    from: Option<String>,
    to: Option<String>,
    steps: Option<u32>,
    #[serde(default)]
    scale: Scale,
    #[serde(default)]
    value: Vec<WrittenValue>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scale {
    #[default]
    Linear,
    Log,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenValue {
    label: String,
    set: Vec<String>,
}

/// Points that differ from one in the value of a single setting, without those already tried.
pub(super) fn neighbours(settings: &[Setting], of: &Point, tried: &[&Point]) -> Vec<Point> {
    let single = settings.iter().enumerate().flat_map(|(setting, open)| {
        (0..open.values.len()).map(move |value| {
            let mut point = of.clone();
            point[setting] = Some(value);
            point
        })
    });
    single.filter(|point| !tried.contains(&point)).collect()
}

/// Reads `open.toml`.
pub(super) fn read(text: &str) -> Result<Space, StudyError> {
    let form = "write [search] with points, seeds, judged and judged_seeds, and [[setting]] with name, reason and \
                key with values, or from, to and steps; or [[setting.value]] with label and set";
    let file: File = toml::from_str(text)
        .map_err(|error| StudyError::new(OPEN, error.to_string().trim_end(), form))?;
    let search = file.search;
    let all = search
        .rounds
        .saturating_mul(search.round_points)
        .saturating_add(search.points);
    if search.seeds == 0 || search.judged_seeds == 0 || all > POINTS_MAX {
        let what = format!(
            "[search] needs seeds and judged_seeds of 1 or more, and {POINTS_MAX} points at most"
        );
        return Err(StudyError::new(OPEN, what, form));
    }
    let mut settings: Vec<Setting> = Vec::new();
    for written in file.setting {
        let line = text[..written.span().start.min(text.len())]
            .matches('\n')
            .count()
            + 1;
        let written = written.into_inner();
        let wrong = |what: String| {
            let what = format!("line {line}: setting \"{}\": {what}", written.name);
            StudyError::new(OPEN, what, form)
        };
        let (values, ordered) = written.values().map_err(&wrong)?;
        if settings.iter().any(|other| other.name == written.name) {
            return Err(wrong("the name is there twice".to_owned()));
        }
        settings.push(Setting {
            name: written.name,
            reason: written.reason,
            scenarios: written.scenarios,
            values,
            ordered,
        });
    }
    let candidates: Result<Vec<Point>, StudyError> = file
        .candidate
        .iter()
        .map(|one| one.point(&settings))
        .collect();
    Ok(Space {
        search,
        base: file.base,
        candidates: candidates?,
        settings,
    })
}

impl WrittenCandidate {
    fn point(&self, settings: &[Setting]) -> Result<Point, StudyError> {
        let wrong = |what: String, remedy: String| {
            let what = format!("candidate \"{}\": {what}", self.name);
            StudyError::new(OPEN, what, remedy)
        };
        let mut point = vec![None; settings.len()];
        for (name, label) in &self.values {
            let index = settings.iter().position(|setting| setting.name == *name);
            let index = index.ok_or_else(|| {
                let names: Vec<&str> = settings.iter().map(|setting| &*setting.name).collect();
                let remedy = format!("the settings are {}", names.join(", "));
                wrong(format!("no setting is called \"{name}\""), remedy)
            })?;
            let values = &settings[index].values;
            let value = values.iter().position(|value| value.label == *label);
            point[index] = Some(value.ok_or_else(|| {
                let labels: Vec<&str> = values.iter().map(|value| &*value.label).collect();
                let remedy = format!("its values are {}", labels.join("; "));
                wrong(format!("{name} has no value \"{label}\""), remedy)
            })?);
        }
        Ok(point)
    }
}

impl Written {
    /// The values, and whether they are ordered.
    fn values(&self) -> Result<(Vec<SettingValue>, bool), String> {
        let range = (&self.from, &self.to, self.steps);
        let one = |key: &str, value: &str| SettingValue {
            label: value.to_owned(),
            set: vec![format!("{key}={value}")],
        };
        let (values, ordered) = match (&self.key, &self.values, range, &self.value[..]) {
            (Some(key), Some(values), (None, None, None), []) => {
                // A list of numbers with one unit has an order.
                let numbers: Vec<_> = values.iter().map(|value| number(value)).collect();
                let ordered = numbers.iter().all(Result::is_ok);
                (
                    values.iter().map(|value| one(key, value)).collect(),
                    ordered,
                )
            }
            (Some(key), None, (Some(from), Some(to), Some(steps)), []) => {
                let values = steps_between(from, to, steps, self.scale)?;
                (values.iter().map(|value| one(key, value)).collect(), true)
            }
            (None, None, (None, None, None), [_, ..]) => {
                let values = self.value.iter().map(|value| SettingValue {
                    label: value.label.clone(),
                    set: value.set.clone(),
                });
                (values.collect::<Vec<_>>(), false)
            }
            _ => {
                return Err(
                    "it needs key with values, key with from, to and steps, or [[setting.value]]"
                        .to_owned(),
                );
            }
        };
        if values.is_empty() || values.len() > VALUES_MAX {
            return Err(format!("1 to {VALUES_MAX} values"));
        }
        Ok((values, ordered))
    }
}

fn steps_between(from: &str, to: &str, steps: u32, scale: Scale) -> Result<Vec<String>, String> {
    let ((first, unit), (last, other)) = (number(from)?, number(to)?);
    if unit != other {
        return Err(format!("\"{from}\" and \"{to}\" have different units"));
    }
    if steps < 2 || steps as usize > VALUES_MAX {
        return Err(format!("{steps} steps; write 2 to {VALUES_MAX}"));
    }
    if matches!(scale, Scale::Log) && (first <= 0.0 || last <= 0.0) {
        return Err("a logarithmic scale needs ends above 0".to_owned());
    }
    let value = |k: u32| {
        let share = f64::from(k) / f64::from(steps - 1);
        let value = match scale {
            Scale::Linear => first + (last - first) * share,
            Scale::Log => first * (last / first).powf(share),
        };
        // Three significant digits, so that rounding differs on no machine.
        let value: f64 = format!("{value:.2e}").parse().unwrap_or(value);
        format!("{value}{unit}")
    };
    Ok((0..steps).map(value).collect())
}

/// Arguments of `--set` for a scenario at a point: the base, and over it the point's values.
pub(super) fn set_of(
    base: &[Base],
    settings: &[Setting],
    point: &Point,
    file: &ScenarioFile,
) -> Vec<String> {
    let base = base.iter().filter(|base| base.is_of(file));
    let chosen = settings.iter().zip(point);
    let of_file = chosen.filter(|(setting, _)| setting.is_of(file));
    let values =
        of_file.filter_map(|(setting, index)| index.map(|index| &setting.values[index].set));
    let all = base.map(|base| &base.set).chain(values).flatten();
    all.cloned().collect()
}

/// A number below `limit`.
fn below(stream: &mut Stream, limit: usize) -> usize {
    ((u128::from(stream.next_u64()) * limit as u128) >> 64) as usize
}

/// A Latin hypercube: of each setting every value is as frequent as any other, to one. Points that
/// repeat others are left out.
pub(super) fn latin_hypercube(settings: &[Setting], number: usize) -> Vec<Point> {
    let mut points: Vec<Point> = vec![Vec::new(); number];
    for setting in settings {
        let mut stream = Stream::new(SEED, &format!("calibration of {}", setting.name));
        let strata = (0..number).map(|k| k * setting.values.len() / number);
        let mut column: Vec<usize> = strata.collect();
        for last in (1..number).rev() {
            column.swap(last, below(&mut stream, last + 1));
        }
        for (point, value) in points.iter_mut().zip(column) {
            point.push(Some(value));
        }
    }
    distinct(points)
}

/// Points near the best quarter of those tried, none of them tried before. Each setting stays with
/// probability 1/2; an ordered one moves by at most a quarter of its values, and half of that in each
/// further round.
pub(super) fn refine(
    settings: &[Setting],
    tried: &[(f64, Point)],
    round: usize,
    number: usize,
) -> Vec<Point> {
    let mut best: Vec<&(f64, Point)> = tried.iter().collect();
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    best.truncate(tried.len().div_ceil(4));
    let mut stream = Stream::new(SEED, &format!("refinement {round}"));
    let mut points: Vec<Point> = Vec::new();
    for (_, parent) in best.iter().cycle().take(number) {
        for _ in 0..DRAWS_MAX {
            let point = near(settings, parent, round, &mut stream);
            if !points.contains(&point) && !tried.iter().any(|(_, other)| *other == point) {
                points.push(point);
                break;
            }
        }
    }
    points
}

fn near(settings: &[Setting], parent: &Point, round: usize, stream: &mut Stream) -> Point {
    let mut one = |(setting, value): (&Setting, &Option<usize>)| {
        if below(stream, 2) == 0 {
            return *value;
        }
        let count = setting.values.len();
        Some(match value {
            Some(value) if setting.ordered => {
                let reach = ((count / 4) >> round).max(1);
                let moved = (value + below(stream, 2 * reach + 1)).saturating_sub(reach);
                moved.min(count - 1)
            }
            _ => below(stream, count),
        })
    };
    settings.iter().zip(parent).map(&mut one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_FILE: &str = r#"
        [search]
        points = 12
        seeds = 1
        judged = 3
        judged_seeds = 2
        [[setting]]
        name = "service"
        key = "server.service"
        from = "20 ms"
        to = "200 ms"
        steps = 4
        scale = "log"
        reason = "not stated"
        [[setting]]
        name = "queue"
        scenarios = ["clients"]
        key = "receive_queue"
        values = ["25", "50", "100"]
        reason = "not stated"
        [[setting]]
        name = "copies"
        reason = "two readings"
        [[setting.value]]
        label = "cost"
        set = ["copies=cost"]
        [[setting.value]]
        label = "free"
        set = ["copies=free", "receive_queue=70"]
    "#;

    fn settings() -> Vec<Setting> {
        read(OPEN_FILE).expect("it reads").settings
    }

    #[test]
    fn values_are_listed_or_lie_between_two_ends() {
        let settings = settings();
        let labels: Vec<&str> = settings[0]
            .values
            .iter()
            .map(|value| &*value.label)
            .collect();
        assert_eq!(labels, ["20 ms", "43.1 ms", "92.8 ms", "200 ms"]);
        assert_eq!(settings[1].values[2].set, ["receive_queue=100"]);
        let ordered: Vec<bool> = settings.iter().map(|setting| setting.ordered).collect();
        assert_eq!(ordered, [true, true, false]);
    }

    #[test]
    fn a_setting_is_of_the_scenarios_it_names() {
        let settings = settings();
        let file = |name: &str| ScenarioFile {
            name: name.to_owned(),
            text: String::new(),
        };
        let point = vec![Some(1), Some(0), Some(1)];
        for (name, set) in [
            (
                "retrycount/clients",
                "server.service=43.1 ms,receive_queue=25,copies=free,receive_queue=70",
            ),
            (
                "my/scenarios/clients.toml",
                "server.service=43.1 ms,receive_queue=25,copies=free,receive_queue=70",
            ),
            (
                "retrycount/more-clients",
                "server.service=43.1 ms,copies=free,receive_queue=70",
            ),
        ] {
            assert_eq!(
                set_of(&[], &settings, &point, &file(name)).join(","),
                set,
                "{name}"
            );
        }
        assert!(set_of(&[], &settings, &vec![None; 3], &file("clients")).is_empty());
    }

    #[test]
    fn a_base_is_under_the_values_of_a_point() {
        let base =
            "[[base]]\nscenarios = [\"clients\"]\nset = [\"receive_queue=9\", \"nagle=off\"]";
        let space = read(&format!("{OPEN_FILE}\n{base}")).expect("it reads");
        let set = |point: &Point, name: &str| {
            let file = ScenarioFile {
                name: name.to_owned(),
                text: String::new(),
            };
            set_of(&space.base, &space.settings, point, &file).join(",")
        };
        let point = vec![None, Some(2), None];
        assert_eq!(
            set(&point, "retrycount/clients"),
            "receive_queue=9,nagle=off,receive_queue=100"
        );
        assert_eq!(set(&point, "retrycount/others"), "");
        assert_eq!(
            set(&vec![None; 3], "clients.toml"),
            "receive_queue=9,nagle=off"
        );
    }

    #[test]
    fn a_latin_hypercube_has_each_value_equally_often() {
        let settings = settings();
        let points = latin_hypercube(&settings, 12);
        assert_eq!(points, latin_hypercube(&settings, 12));
        assert!(points.len() > 8, "{}", points.len());
        let points: Vec<Point> = latin_hypercube(&settings[..1], 12);
        // One setting: each value once, others repeat one of them.
        assert_eq!(points.len(), 4);
    }

    #[test]
    fn refinement_tries_new_points_near_the_best() {
        let settings = settings();
        let tried: Vec<(f64, Point)> = latin_hypercube(&settings, 12)
            .into_iter()
            .enumerate()
            .map(|(k, point)| (k as f64, point))
            .collect();
        let points = refine(&settings, &tried, 0, 5);
        assert!(!points.is_empty());
        for point in &points {
            assert!(tried.iter().all(|(_, other)| other != point));
            let near = |parent: &Point| {
                let apart = parent[0].unwrap_or(9).abs_diff(point[0].unwrap_or(0));
                apart <= 1
            };
            assert!(
                tried[..3].iter().any(|(_, parent)| near(parent)),
                "{point:?}"
            );
        }
        // A space that was tried whole has no new point.
        let whole: Vec<(f64, Point)> = (0..4).map(|k| (0.0, vec![Some(k)])).collect();
        assert!(refine(&settings[..1], &whole, 0, 5).is_empty());
    }

    #[test]
    fn candidates_have_values_by_name() {
        let with = |values: &str| {
            let text =
                format!("{OPEN_FILE}\n[[candidate]]\nname = \"mine\"\nvalues = {{ {values} }}");
            read(&text).map(|space| space.candidates)
        };
        let found = with("service = \"200 ms\", copies = \"free\"");
        assert_eq!(found, Ok(vec![vec![Some(3), None, Some(1)]]));
        for (values, what, remedy) in [
            (
                "speed = \"1\"",
                "candidate \"mine\": no setting is called \"speed\"",
                "service, queue, copies",
            ),
            (
                "queue = \"70\"",
                "queue has no value \"70\"",
                "its values are 25; 50; 100",
            ),
        ] {
            let error = with(values).expect_err("it is wrong");
            assert!(
                error.to_string().contains(what) && error.remedy.contains(remedy),
                "{error}"
            );
        }
    }

    #[test]
    fn an_error_names_line_and_setting() {
        let wrong = |from: &str, to: &str| {
            let error = read(&OPEN_FILE.replace(from, to))
                .err()
                .expect("it is wrong");
            error.to_string()
        };
        for (from, to, expected) in [
            (
                "steps = 4",
                "",
                "open.toml: line 7: setting \"service\": it needs key with values",
            ),
            ("\"200 ms\"", "\"2 s\"", "have different units"),
            (
                "\"20 ms\"",
                "\"0 ms\"",
                "a logarithmic scale needs ends above 0",
            ),
            (
                "name = \"queue\"",
                "name = \"service\"",
                "line 15: setting \"service\": the name is there twice",
            ),
            ("seeds = 1", "seeds = 0", "[search] needs seeds"),
            (
                "values = [\"25\", \"50\", \"100\"]",
                "values = []",
                "1 to 1000 values",
            ),
        ] {
            assert!(wrong(from, to).contains(expected), "{}", wrong(from, to));
        }
    }
}
