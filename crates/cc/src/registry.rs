//! Registry of controllers by name.
//!
//! | family | some names |
//! |---|---|
//! | [default CoAP](crate::algorithms::default) | `default`, `observe-static`, `default-fb2` |
//! | [CoCoA](crate::algorithms::cocoa) | `cocoa-plus`, `cocoa-03` (alias `cocoa`), `cocoa-s`, `cocoa-fast` |
//! | [FASOR](crate::algorithms::fasor) | `fasor`, `fasor-option` |
//! | timers of TCP | [`rfc6298`](crate::algorithms::rfc6298), [`linux-rto`](crate::algorithms::linux_rto), [`peak-hopper`](crate::algorithms::peak_hopper) |
//!
//! [`entries`] has all of them; `carob cc list` prints them.
//!
//! ```
//! use carob_cc::registry;
//!
//! for entry in registry::entries() {
//!     println!("{}: {} ({})", entry.name, entry.about, entry.source);
//! }
//! for name in ["default", "observe-static", "default-fb2", "cocoa-plus", "cocoa-03", "cocoa-s",
//!     "cocoa-fast", "fasor", "fasor-option", "rfc6298", "linux-rto", "peak-hopper"] {
//!     assert_eq!(registry::find(name)?.name, name);
//! }
//! assert_eq!(registry::find("cocoa")?.name, "cocoa-03");
//! assert!(registry::find("cacao").is_err());
//! # Ok::<(), registry::UnknownController<'_>>(())
//! ```
//!
//! Command line, scenario files, documentation and the contract suite read [`entries`], so a new
//! controller needs no mention elsewhere.

use core::fmt;

pub use crate::algorithms::{AnyController, Settings, SmallController, entries};
use crate::constants::Constants;
use crate::parameters::TransmissionParameters;
use crate::time::Duration;

/// Transmission parameters suggested by a profile; scenario and command line override them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suggested {
    /// MAX_RETRANSMIT, where the source sets its own.
    pub max_retransmit: Option<u8>,
    /// Cap on backed-off timers, where the source has one.
    pub rto_max: Option<Duration>,
}

impl Suggested {
    /// No suggestions: the RFC's defaults.
    pub const NONE: Self = Self {
        max_retransmit: None,
        rto_max: None,
    };

    /// Returns `parameters` with the suggestions applied.
    #[must_use]
    pub fn apply(&self, mut parameters: TransmissionParameters) -> TransmissionParameters {
        if let Some(max_retransmit) = self.max_retransmit {
            parameters.max_retransmit = max_retransmit;
        }
        if self.rto_max.is_some() {
            parameters.rto_max = self.rto_max;
        }
        parameters
    }
}

/// One named profile of a family: an algorithm with the constants of one source.
#[derive(Clone, Copy, Debug)]
pub struct Profile<C: 'static> {
    /// The registry id.
    pub name: &'static str,
    /// Description in a sentence.
    pub about: &'static str,
    /// Source of its rules.
    pub source: &'static str,
    /// Choices of this project without a source, and their reasons.
    pub project_choice: Option<&'static str>,
    /// Its constants.
    pub constants: C,
    /// The transmission parameters it suggests.
    pub suggested: Suggested,
}

/// Family of controllers: one mechanism with any number of profiles.
///
/// ```
/// use carob_cc::algorithms::cocoa::Cocoa;
/// use carob_cc::registry::Family;
///
/// for profile in Cocoa::PROFILES {
///     println!("{}: {} ({})", profile.name, profile.about, profile.source);
/// }
/// let controller = Cocoa::new(&Cocoa::PROFILES[0].constants);
/// # drop(controller);
/// ```
pub trait Family: Sized {
    /// The differences between its profiles.
    type Constants: Constants;
    /// The profiles.
    const PROFILES: &'static [Profile<Self::Constants>];
    /// True if a timer can be shorter than the previous one of its exchange.
    const SHRINKS: bool = false;
    /// Creates a controller for one peer. All peers share the constants.
    fn new(constants: &'static Self::Constants) -> Self;
}

/// A controller of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The registry id.
    pub name: &'static str,
    /// Description in a sentence.
    pub about: &'static str,
    /// Source of its rules.
    pub source: &'static str,
    /// Choices of this project without a source, and their reasons.
    pub project_choice: Option<&'static str>,
    /// True if a timer can be shorter than the previous one of its exchange.
    pub shrinks: bool,
    /// The transmission parameters it suggests.
    pub suggested: Suggested,
    /// Its type below [`algorithms`](crate::algorithms), such as `cocoa::Cocoa`.
    pub path: &'static str,
    /// State for one peer in bytes, on this machine.
    pub state_bytes: usize,
    pub(crate) settings: fn(usize) -> Settings,
    pub(crate) build: fn(usize) -> AnyController,
    pub(crate) index: usize,
}

impl Entry {
    /// Builds a controller for one peer with the profile's own constants.
    pub fn build(&self) -> AnyController {
        (self.build)(self.index)
    }

    /// Returns the constants, to be changed and built from with [`Settings::build`].
    pub fn settings(&self) -> Settings {
        (self.settings)(self.index)
    }

    /// Returns the family of the profile: the name of its module, such as `observe_static`.
    pub fn family(&self) -> &'static str {
        self.settings().family()
    }
}

/// Other names of controllers, as (alias, registry id).
pub const ALIASES: &[(&str, &str)] = &[("cocoa", "cocoa-03")];

/// Returns the registry id of an alias; other names are returned unchanged.
pub fn canonical(name: &str) -> &str {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    alias.map_or(name, |(_, id)| id)
}

/// Returns the controller with that name or alias.
///
/// # Errors
///
/// [`UnknownController`], whose text has the nearest names.
pub fn find(name: &str) -> Result<Entry, UnknownController<'_>> {
    entries()
        .find(|entry| entry.name == canonical(name))
        .ok_or(UnknownController { name })
}

/// The maximum number of suggestions for an unknown name.
pub const NEAR_MAX: usize = 3;

/// Returns the names nearest to an unknown one, the nearest first, at most [`NEAR_MAX`]: those that
/// contain it, or those with at most half of it changed.
///
/// `names` may include names outside the registry, such as TCP's algorithms.
pub fn nearest<'a>(
    wrong: &str,
    names: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = &'a str> {
    let mut best: [Option<(usize, &str)>; NEAR_MAX] = [None; NEAR_MAX];
    let limit = wrong.len().min(LENGTH_MAX).div_ceil(2);
    for name in names {
        let is_part = wrong.len() >= 3 && name.contains(wrong);
        let distance = if is_part { 0 } else { distance(wrong, name) };
        if distance > limit || best.iter().flatten().any(|(_, known)| *known == name) {
            continue;
        }
        let place = best
            .iter()
            .position(|known| known.is_none_or(|(known, _)| distance < known));
        if let Some(place) = place {
            best[place..].rotate_right(1);
            best[place] = Some((distance, name));
        }
    }
    // Names twice as far away as the nearest are no useful suggestions.
    let far = best[0].map_or(0, |(nearest, _)| nearest * 2);
    let near = best.into_iter().flatten();
    near.filter(move |(distance, _)| *distance <= far)
        .map(|(_, name)| name)
}

/// Maximum compared length of a name in bytes.
const LENGTH_MAX: usize = 64;

/// Edit distance without regard to ASCII case, of the first [`LENGTH_MAX`] bytes: insertions, deletions and
/// substitutions (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    // Levenshtein with a single row of fixed length: the crate has no heap.
    let [a, b] = [a, b].map(|text| &text.as_bytes()[..text.len().min(LENGTH_MAX)]);
    let mut row = [0; LENGTH_MAX + 1];
    for (k, cell) in row.iter_mut().enumerate() {
        *cell = k;
    }
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(!x.eq_ignore_ascii_case(y));
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// No controller has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownController<'a> {
    /// The unknown name.
    pub name: &'a str,
}

impl fmt::Display for UnknownController<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let near = nearest(self.name, entries().map(|entry| entry.name));
        write_unknown(f, self.name, near)
    }
}

impl core::error::Error for UnknownController<'_> {}

/// Writes the message for an unknown name and the names near it.
///
/// # Errors
///
/// Errors of the formatter.
pub fn write_unknown<'a>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    near: impl Iterator<Item = &'a str>,
) -> fmt::Result {
    write!(f, "unknown controller \"{name}\"")?;
    for (k, near) in near.enumerate() {
        match k {
            0 => write!(f, "; did you mean \"{near}\"?")?,
            1 => write!(f, " Others near: \"{near}\"")?,
            _ => write!(f, ", \"{near}\"")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Controller;
    use crate::evidence::{Answered, Sent, Start, Transmission};
    use crate::random::Fixed;
    use crate::ratio::Ratio;
    use crate::time::Instant;
    extern crate std;
    use std::collections::BTreeSet;
    use std::string::ToString;

    #[test]
    fn names_are_unique_and_found() {
        let names: BTreeSet<_> = entries().map(|e| e.name).collect();
        assert_eq!(names.len(), entries().count());
        for entry in entries() {
            assert_eq!(find(entry.name).map(|e| e.name), Ok(entry.name));
        }
    }

    /// The first timers of a second exchange, by the lowest and the highest draw.
    fn first_timers(entry: Entry, round_trip: u64, safeguards: bool) -> [Duration; 2] {
        [Fixed::low(), Fixed::high()].map(|mut random| {
            let mut parameters = TransmissionParameters::DEFAULT;
            parameters.safeguards = safeguards;
            let mut controller = entry.build();
            let (sent, answered) = (
                Instant::ZERO,
                Instant::ZERO + Duration::from_millis(round_trip),
            );
            let timer = controller.first_timeout(&Start::new(sent, &parameters), &mut random);
            let state = controller.on_sent(&Sent::new(sent, &parameters, 60), &mut random);
            let all = [Transmission { at: sent, state }];
            controller.on_answered(&Answered::new(
                answered,
                &parameters,
                timer.state,
                &all,
                timer.timeout,
            ));
            let start = Start::new(answered, &parameters);
            let timer = controller.first_timeout(&start, &mut random).timeout;
            parameters.limit_timer(timer, None)
        })
    }

    #[test]
    fn every_controller_draws_first_timers_with_safeguards() {
        for entry in entries() {
            for round_trip in [500, 1_900, 9_000] {
                let [low, high] = first_timers(entry, round_trip, true);
                let name = entry.name;
                assert!(
                    high >= low.scale(Ratio::new(5, 4)),
                    "{name}: {low} to {high}"
                );
            }
            let [low, high] = first_timers(entry, 1, true);
            assert!(
                low >= TransmissionParameters::RTO_MIN,
                "{}: {low}, {high}",
                entry.name
            );
        }
        let published = find("rfc6298").map(|entry| first_timers(entry, 500, false));
        assert!(
            published.is_ok_and(|[low, high]| low == high),
            "as published"
        );
    }

    #[test]
    fn state_fits_a_class_1_device() {
        for entry in entries() {
            let most = match entry.name {
                // With the state of a window.
                "carob" => 256,
                name if name.contains("cocoa") => 64,
                _ => 96,
            };
            let bytes = entry.state_bytes;
            assert!(bytes <= most, "{}: {bytes} bytes", entry.name);
        }
    }

    #[test]
    fn profiles_of_a_family_are_adjacent() {
        let families: std::vec::Vec<_> = entries().map(|e| e.family()).collect();
        let together = families.chunk_by(|a, b| a == b).count();
        let different: BTreeSet<_> = families.iter().collect();
        assert_eq!(together, different.len());
        assert_eq!(find("cocoa-03").map(|e| e.family()), Ok("cocoa"));
    }

    #[test]
    fn every_source_ends_with_the_section_of_its_controller() {
        for entry in entries() {
            let section = std::format!("docs/algorithms.md#{}", entry.name);
            assert!(entry.source.ends_with(&section), "{}", entry.source);
        }
    }

    #[test]
    fn alias_names_exactly_one_controller() {
        assert_eq!(find("cocoa").map(|e| e.name), Ok("cocoa-03"));
        for (alias, id) in ALIASES {
            assert!(entries().all(|entry| entry.name != *alias), "{alias}");
            assert_eq!(find(alias).map(|e| e.name), Ok(*id));
        }
    }

    #[test]
    fn an_unknown_name_names_the_three_nearest() {
        let text = |name| find(name).map(|e| e.name).unwrap_err().to_string();
        assert_eq!(
            text("cocoa-3"),
            "unknown controller \"cocoa-3\"; did you mean \"cocoa-03\"? Others near: \"cocoa-s\", \"cocoa-e\""
        );
        assert!(text("Defualt").contains("did you mean \"default\"?"));
        assert_eq!(text("xyzzy-quux"), "unknown controller \"xyzzy-quux\"");
        let with_tcp = entries().map(|e| e.name).chain(["tcp-bbr1", "tcp-cubic"]);
        let near: std::vec::Vec<_> = nearest("bbr", with_tcp).collect();
        assert_eq!(near, ["tcp-bbr1"]);
        let long = "x".repeat(300);
        assert_eq!(nearest(&long, entries().map(|e| e.name)).count(), 0);
    }
}
