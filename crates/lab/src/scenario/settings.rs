//! Settings by path: the scenario's, which all its cells share, overridden by the cell's.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use super::keys;
use super::{Setting, value::Value};

/// Settings in the order of their paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    shared: Arc<BTreeMap<String, Shared>>,
    own: BTreeMap<String, Setting>,
}

/// A setting of the scenario.
#[derive(Clone, Debug)]
struct Shared {
    setting: Setting,
    /// Its line of the text that is hashed; empty if it decides no outcome.
    line: String,
}

impl Settings {
    /// The settings of a scenario.
    pub(super) fn new(settings: BTreeMap<String, Setting>) -> Self {
        let shared = settings.into_iter().map(|(path, setting)| {
            let line = line(&path, &setting);
            (path, Shared { setting, line })
        });
        Self {
            shared: Arc::new(shared.collect()),
            own: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<&Setting> {
        let own = self.own.get(path);
        own.or_else(|| Some(&self.shared.get(path)?.setting))
    }

    /// The text or word of a key.
    pub(super) fn word(&self, path: &str) -> Option<&str> {
        self.get(path)?.value.word()
    }

    pub(super) fn contains_key(&self, path: &str) -> bool {
        self.get(path).is_some()
    }

    pub(super) fn insert(&mut self, path: String, setting: Setting) {
        self.own.insert(path, setting);
    }

    /// All settings.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.below("")
    }

    /// Settings whose path begins with a prefix.
    pub(super) fn below(&self, prefix: &str) -> impl Iterator<Item = (&str, &Setting)> {
        self.merged(prefix)
            .map(|(path, setting, _)| (path, setting))
    }

    /// The text that is hashed: a line for each setting that decides outcomes.
    pub(super) fn decisive_text(&self) -> String {
        let mut text = String::new();
        for (path, setting, known) in self.merged("") {
            match known {
                Some(known) => text.push_str(known),
                None => text.push_str(&line(path, setting)),
            }
        }
        text
    }

    /// Settings whose path begins with a prefix, each with its line if that is known.
    fn merged(&self, prefix: &str) -> impl Iterator<Item = (&str, &Setting, Option<&str>)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let mut shared = self.shared.range::<str, _>(from).peekable();
        let mut own = self.own.range::<str, _>(from).peekable();
        let prefix = prefix.to_owned();
        std::iter::from_fn(move || {
            let order = match (shared.peek(), own.peek()) {
                (Some((one, _)), Some((other, _))) => one.cmp(other),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            if order == Ordering::Less {
                let (path, Shared { setting, line }) = shared.next()?;
                return Some((path.as_str(), setting, Some(line.as_str())));
            }
            if order == Ordering::Equal {
                shared.next();
            }
            let (path, setting) = own.next()?;
            Some((path.as_str(), setting, None))
        })
        .take_while(move |(path, ..)| path.starts_with(&prefix))
    }
}

/// Keys that decide no outcome.
pub(super) const OF_NO_OUTCOME: [&str; 5] = [
    "about",
    "compare_with",
    "run.algorithms",
    "run.seeds",
    "run.first_seed",
];

/// The line of a setting in the text that is hashed. It is empty if the setting decides no outcome or
/// has its default, so that a new key leaves the hashes of scenarios without it as they were. Nor do
/// published rules have one: results of the studies were kept before there were safeguards.
fn line(path: &str, setting: &Setting) -> String {
    let mut line = String::new();
    let is_published =
        path == "transmission.safeguards" && setting.value == Value::Text("off".to_owned());
    if !OF_NO_OUTCOME.contains(&path) && !is_published && default_of(path) != Some(&setting.value) {
        // Writing to a String cannot fail.
        let _ = writeln!(line, "{path}={}", setting.value);
    }
    line
}

/// Values of keys where none is set, by path.
pub(super) fn defaults() -> &'static BTreeMap<&'static str, Value> {
    static DEFAULTS: LazyLock<BTreeMap<&str, Value>> = LazyLock::new(|| {
        let read = |key: &keys::Key| Some((key.path, Value::read(key.kind, key.default?)?));
        keys::all().filter_map(read).collect()
    });
    &DEFAULTS
}

/// The value of a key where none is set, if it has one.
pub(super) fn default_of(path: &str) -> Option<&'static Value> {
    defaults().get(path)
}

#[cfg(test)]
mod tests {
    use super::super::error::Place;
    use super::*;

    fn whole(n: u64) -> Setting {
        Setting {
            value: Value::Whole(n),
            place: Place::Scenario(String::new()),
        }
    }

    #[test]
    fn own_settings_take_their_place_among_the_shared() {
        let shared = [("b.x", 1), ("c", 2), ("a", 3)];
        let mut settings =
            Settings::new(shared.map(|(path, n)| (path.to_owned(), whole(n))).into());
        let before = settings.clone();
        settings.insert("b.y".to_owned(), whole(4));
        settings.insert("c".to_owned(), whole(5));
        settings.insert("d".to_owned(), whole(6));
        let paths: Vec<&str> = settings.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["a", "b.x", "b.y", "c", "d"]);
        let below: Vec<&str> = settings.below("b.").map(|(path, _)| path).collect();
        assert_eq!(below, ["b.x", "b.y"]);
        assert_eq!(settings.get("c"), Some(&whole(5)));
        assert_eq!(before.get("c"), Some(&whole(2)));
        assert!(!before.contains_key("d"));
        assert_eq!(settings.decisive_text(), "a=3\nb.x=1\nb.y=4\nc=5\nd=6\n");
    }

    #[test]
    fn a_default_is_no_line_of_the_hashed_text() {
        let default = default_of("run.time_limit").expect("it has one");
        let setting = |value| Setting {
            value,
            place: Place::Scenario(String::new()),
        };
        assert_eq!(line("run.time_limit", &setting(default.clone())), "");
        assert_eq!(line("run.seeds", &whole(3)), "");
    }
}
