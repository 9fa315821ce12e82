//! Keys of scenarios: their declaration, their list, hints and the reference.
//!
//! Each file of this module declares its keys with `keys!`, in front of the code that reads them. Parser,
//! `--set`, hints, the reference page and the Python package read the one list of all groups.

use std::fmt::Write as _;

use super::cases::is_of_network_or_workload;
use super::value::Kind;
use super::{
    cell, device, document, faults, impairments, link, mesh, mix, notifications, path_changes,
    queue, server, tcp, trace, workload,
};

pub use super::cell::TRANSMISSION_KEYS;

/// Declares a group of keys: path, values, default or `-`, the key that it needs if any, meaning.
///
/// Keys in the braces of a specification set the field in front of their path, and those with `_` do not:
/// other code reads their values. `Word` has the words with what they set the field to.
///
/// ```text
/// keys! {
///     /// Keys of the server.
///     pub(super) KEYS;
///
///     ServerSpec {
///         queue: "server.receive_queue", Whole(1, 65_536), "50",
///             "Datagrams that may wait for the server.";
///         copies: "server.copies", Word { "cost" => Copies::Cost, "free" => Copies::Free }, "cost",
///             "Service time of retransmissions.";
///     }
/// }
/// ```
///
/// `cell.fields()` then returns a `ServerSpec` with both fields set, and its defaults elsewhere.
macro_rules! keys {
    (@key $path:literal, $kind:ident $(($($of:tt)*))? $({$($word:literal => $meaning:expr),+})?, $default:tt, $(needs $needs:literal,)? $about:literal) => {
        $crate::scenario::keys::Key {
            path: $path,
            kind: keys!(@kind $kind $(($($of)*))? $({$($word),+})?),
            default: keys!(@optional $default),
            needs: keys!(@optional $($needs)?),
            about: $about,
        }
    };
    (@kind Word {$($word:literal),+}) => { $crate::scenario::value::Kind::Word(&[$($word),+]) };
    (@kind $kind:ident $(($($of:tt)*))?) => { $crate::scenario::value::Kind::$kind $(($($of)*))? };
    (@optional $(-)?) => { None };
    (@optional $text:literal) => { Some($text) };
    (@set _ $($ignored:tt)*) => {};
    (@set $field:ident, $spec:ident, $get:ident, $path:literal) => {
        if let Some(value) = $get($path) {
            $spec.$field = $crate::scenario::fields::Field::of(value).ok_or($path)?;
        }
    };
    (@set $field:ident, $spec:ident, $get:ident, $path:literal, $($word:literal => $meaning:expr),+) => {
        if let Some(value) = $get($path) {
            $spec.$field = match value.word() {
                $(Some($word) => $meaning,)+
                _ => return Err($path),
            };
        }
    };
    (
        $(#[$doc:meta])* $visible:vis $table:ident;
        $($path:literal, $kind:ident $(($($of:tt)*))?, $default:tt, $(needs $needs:literal,)? $about:literal;)*
        $($spec:ident {$(
            $field:tt: $own:literal, $own_kind:ident $(($($own_of:tt)*))? $({$($word:literal => $meaning:expr),+})?, $own_default:tt, $(needs $own_needs:literal,)? $own_about:literal;
        )+})*
    ) => {
        $(#[$doc])*
        $visible const $table: &[$crate::scenario::keys::Key] = &[
            $(keys!(@key $path, $kind $(($($of)*))?, $default, $(needs $needs,)? $about),)*
            $($(keys!(@key $own, $own_kind $(($($own_of)*))? $({$($word => $meaning),+})?, $own_default, $(needs $own_needs,)? $own_about),)+)*
        ];
        $(impl $crate::scenario::fields::Fields for $spec {
            fn set<'a>(
                &mut self,
                get: impl Fn(&str) -> Option<&'a $crate::scenario::value::Value>,
            ) -> Result<(), &'static str> {
                let spec = self;
                $(keys!(@set $field, spec, get, $own $($(, $word => $meaning)+)?);)+
                Ok(())
            }
        })*
    };
}

/// Groups of keys with fixed paths, in the order of the reference.
const GROUPS: &[&[Key]] = &[
    document::KEYS,
    cell::RUN_KEYS,
    workload::KEYS,
    server::KEYS,
    faults::KEYS,
    mix::KEYS,
    notifications::KEYS,
    link::KEYS,
    queue::KEYS,
    device::KEYS,
    impairments::KEYS,
    path_changes::KEYS,
    trace::KEYS,
    tcp::KEYS,
    mesh::topology::KEYS,
    mesh::links::KEYS,
    mesh::radio::KEYS,
    mesh::mac::KEYS,
    mesh::lowpan::KEYS,
    mesh::rpl::KEYS,
    mesh::NODE_KEYS,
    mesh::traffic::KEYS,
];

/// Every key with a fixed path.
pub fn all() -> impl Iterator<Item = &'static Key> {
    GROUPS.iter().copied().flatten()
}

/// A key of scenario files and `--set`.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path, such as `link.down.rate`.
    pub path: &'static str,
    /// Values it accepts.
    pub kind: Kind,
    /// Its value where none is set; `None` if it must be set or is optional (see `about`).
    pub default: Option<&'static str>,
    /// The key without which it has no effect.
    pub needs: Option<&'static str>,
    /// Meaning, one sentence.
    pub about: &'static str,
}

/// The reference of all keys as a Markdown table, for the guide.
pub fn reference() -> String {
    let mut text = String::from("| key | takes | default | meaning |\n|---|---|---|---|\n");
    let fixed = all().map(|k| (k.path.to_owned(), k));
    let transmission = TRANSMISSION_KEYS
        .iter()
        .map(|k| (format!("transmission.{}", k.path), k));
    for (path, key) in fixed.chain(transmission) {
        let default = key.default.map_or(String::new(), |d| format!("`{d}`"));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `{path}` | {} | {default} | {} |",
            key.kind, key.about
        );
    }
    for setting in tcp::keys() {
        let (name, takes, about) = (setting.name, setting.kind, tcp::about(setting));
        let _ = writeln!(text, "| `tcp.{name}` | {takes} | by profile | {about} |");
    }
    text + OPEN_TABLES
}

/// Rows of the reference for tables whose keys depend on the scenario.
const OPEN_TABLES: &str = "\
| `sweep.<key>` | a list of values | | Values to try, in every combination. |
| `grid.<name>.<sweep key>` | a list of values | | Cells that run by default: those that fit one of these tables. Without them, all. |
| `where.<name>.if.<sweep key>` | a list of values | | Cells in which the other keys of `where.<name>` hold. |
| `where.<name>.<key>` | as the key | | A setting of `link`, `workload`, `mix`, `server`, `faults`, `transmission`, `cc`, `tcp` or of wireless networks, `run.until` or `run.time_limit` in those cells. |
| `algorithm.<name>.<transmission key>` | as under `transmission` | | For one algorithm only. |
| `algorithm.<name>.only.<sweep key>` | a list of values | | Cells it runs in by default. |
| `algorithm.<name>.cc.<constant>` | as the constant | | A constant of one controller. |
| `algorithm.<name>.tcp.<setting>` | as under `tcp` | | A setting of one algorithm over TCP. |
| `cc.<constant>` | as the constant | | A constant of every controller that has it. |
";

/// A resolved key: its values, and its full path.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its full path.
    pub path: String,
    /// Values it accepts.
    pub kind: Kind,
}

/// Why a key was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// No such key; the nearest valid one, if any is near.
    Unknown(Option<String>),
    /// Several keys end like this.
    Ambiguous(Vec<String>),
}

/// The key with exactly this path.
pub fn exact(path: &str) -> Option<Found> {
    let found = |kind| {
        Some(Found {
            path: path.to_owned(),
            kind,
        })
    };
    if let Some(key) = all().find(|k| k.path == path) {
        return found(key.kind);
    }
    let segments: Vec<&str> = path.split('.').collect();
    let transmission = |name: &str| TRANSMISSION_KEYS.iter().find(|k| k.path == name);
    match segments[..] {
        ["cc", _] | ["algorithm", _, "cc", _] => found(Kind::Text),
        ["tcp", name] | ["algorithm", _, "tcp", name] => found(tcp::kind(name)?),
        ["algorithm", _, "only", short] => resolve(short).ok().and_then(|k| found(k.kind)),
        ["transmission", name] | ["algorithm", _, name] => found(transmission(name)?.kind),
        ["sweep", short] | ["grid", _, short] | ["where", _, "if", short] => {
            resolve(short).ok().and_then(|k| found(k.kind))
        }
        ["where", _, ref key @ ..] if !key.is_empty() => {
            let target = resolve(&key.join(".")).ok()?;
            is_of_cells(&target.path).then(|| found(target.kind))?
        }
        _ => None,
    }
}

/// Returns true if a key may differ from cell to cell without being swept.
fn is_of_cells(path: &str) -> bool {
    let table = path.split('.').next().unwrap_or_default();
    is_of_network_or_workload(path) || matches!(table, "transmission" | "cc" | "tcp")
}

/// The key of this path, or the one that ends like this; of several the one nearest the root.
///
/// So `buffer` is `link.buffer`, not `link.down.buffer`, and `rate` is ambiguous.
pub fn resolve(path: &str) -> Result<Found, NotFound> {
    let direct = !path.starts_with("sweep.") && path.contains('.');
    if (direct || all().any(|k| k.path == path))
        && let Some(found) = exact(path)
    {
        return Ok(found);
    }
    let ends = |full: &str| {
        full.strip_suffix(path)
            .is_some_and(|before| before.ends_with('.'))
    };
    let mut candidates: Vec<(usize, Found)> = fixed_paths()
        .filter(|(full, _)| ends(full))
        .map(|(path, kind)| (path.matches('.').count(), Found { path, kind }))
        .collect();
    candidates.sort_by_key(|(depth, _)| *depth);
    let Some(least) = candidates.first().map(|c| c.0) else {
        return Err(NotFound::Unknown(nearest(path)));
    };
    candidates.retain(|c| c.0 == least);
    if candidates.len() > 1 {
        return Err(NotFound::Ambiguous(
            candidates.into_iter().map(|c| c.1.path).collect(),
        ));
    }
    Ok(candidates.remove(0).1)
}

/// Paths that do not depend on the scenario, with their values.
pub(super) fn fixed_paths() -> impl Iterator<Item = (String, Kind)> {
    all().map(|k| (k.path.to_owned(), k.kind)).chain(
        TRANSMISSION_KEYS
            .iter()
            .map(|k| (format!("transmission.{}", k.path), k.kind)),
    )
}

/// The valid key nearest to a wrong one, if it is near: at most a third of it changed.
pub fn nearest(wrong: &str) -> Option<String> {
    let segments: Vec<&str> = wrong.split('.').collect();
    // Inside the open tables, compare with the table's keys.
    let candidates: Vec<String> = match segments[..] {
        ["algorithm", name, _] => TRANSMISSION_KEYS
            .iter()
            .map(|k| format!("algorithm.{name}.{}", k.path))
            .chain(["cc", "tcp", "only"].map(|t| format!("algorithm.{name}.{t}")))
            .collect(),
        ["tcp", _] => tcp::keys().map(|k| format!("tcp.{}", k.name)).collect(),
        ["algorithm", name, "tcp", _] => tcp::keys()
            .map(|k| format!("algorithm.{name}.tcp.{}", k.name))
            .collect(),
        ["sweep", _] => fixed_paths()
            .map(|(path, _)| format!("sweep.{}", path.rsplit('.').next().unwrap_or(&path)))
            .collect(),
        _ => fixed_paths().map(|(path, _)| path).collect(),
    };
    // A table that was given a value: the first of its keys.
    let table = format!("{wrong}.");
    if let Some(first) = candidates.iter().find(|one| one.starts_with(&table)) {
        return Some(first.clone());
    }
    // Some of the last segments may be meant, such as `down.rate`.
    let ends = |candidate: &String| {
        let parts: Vec<&str> = candidate.split('.').collect();
        let end = parts
            .get(parts.len().checked_sub(segments.len())?..)?
            .join(".");
        let full = |known: &&String| {
            let before = known.strip_suffix(&*end);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        (candidates.iter().filter(full).count() == 1).then_some(end)
    };
    let ends: Vec<String> = match segments.len() {
        2.. if !wrong.starts_with("sweep.") => candidates.iter().filter_map(ends).collect(),
        _ => Vec::new(),
    };
    let single = segments.len() == 1;
    let distance_to = |candidate: &str| {
        let whole = distance(wrong, candidate);
        // A single word may be meant as the last segment of a path.
        let last = candidate.rsplit('.').next().filter(|_| single);
        last.map_or(whole, |last| whole.min(distance(wrong, last)))
    };
    candidates
        .iter()
        .cloned()
        .chain(ends)
        .map(|candidate| (distance_to(&candidate), candidate))
        .min()
        .filter(|(d, _)| *d <= wrong.chars().count().div_ceil(3))
        .map(|(_, candidate)| candidate)
}

/// Edit distance: insertions, deletions and substitutions of one character (Levenshtein).
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::value::Value;

    fn path(short: &str) -> Result<String, NotFound> {
        resolve(short).map(|k| k.path)
    }

    #[test]
    fn a_unique_last_segment_is_enough() {
        assert_eq!(path("rto_max"), Ok("transmission.rto_max".into()));
        assert_eq!(
            path("error_burst_packets"),
            Ok("link.error_burst_packets".into())
        );
        assert_eq!(path("down.rate"), Ok("link.down.rate".into()));
        assert_eq!(path("cc.alpha"), Ok("cc.alpha".into()));
        assert_eq!(path("tcp.mss"), Ok("tcp.mss".into()));
        assert_eq!(path("tcp.profile"), Ok("tcp.profile".into()));
        // The algorithm's name identifies it.
        assert_eq!(path("tcp.congestion"), Err(NotFound::Unknown(None)));
        assert_eq!(
            path("algorithm.default.rto_max"),
            Ok("algorithm.default.rto_max".into())
        );
    }

    #[test]
    fn the_key_nearest_the_root_wins_and_equals_are_ambiguous() {
        assert_eq!(path("buffer"), Ok("link.buffer".into()));
        let rates = vec!["link.down.rate".to_owned(), "link.up.rate".to_owned()];
        assert_eq!(path("rate"), Err(NotFound::Ambiguous(rates)));
    }

    #[test]
    fn a_wrong_key_finds_its_nearest() {
        for (wrong, right) in [
            ("link.down.rat", "link.down.rate"),
            ("link.buffr", "link.buffer"),
            ("rto_mx", "transmission.rto_max"),
            ("donw.rate", "down.rate"),
            (
                "transmission.max_retransmits",
                "transmission.max_retransmit",
            ),
            ("algorithm.default.rtomax", "algorithm.default.rto_max"),
            ("sweep.buffr", "sweep.buffer"),
            ("tcp.rto_mx", "tcp.rto_max"),
            (
                "algorithm.tcp-bbr1.tcp.bbr_ear",
                "algorithm.tcp-bbr1.tcp.bbr_era",
            ),
        ] {
            assert_eq!(nearest(wrong).as_deref(), Some(right), "{wrong}");
        }
        assert_eq!(nearest("zzzzzz"), None);
    }

    #[test]
    fn every_default_is_of_its_kind_and_every_needed_key_exists() {
        for key in all() {
            if let Some(default) = key.default {
                assert!(Value::read(key.kind, default).is_some(), "{}", key.path);
            }
            let needed = key.needs.is_none_or(|needs| exact(needs).is_some());
            assert!(needed, "{}", key.path);
        }
    }

    #[test]
    fn the_reference_has_every_key() {
        let reference = reference();
        let rows = reference.lines().count();
        assert_eq!(
            rows,
            2 + all().count()
                + TRANSMISSION_KEYS.len()
                + tcp::keys().count()
                + OPEN_TABLES.lines().count()
        );
        assert!(
            reference.lines().all(|line| line.matches('|').count() == 5),
            "{reference}"
        );
    }

    #[test]
    fn edit_distance_counts_changes() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
