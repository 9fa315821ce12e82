//! Scenarios that come with the program; it needs no checkout to run them.

/// A scenario file built in.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name, `<study>/<family>`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal,)*) => {
        &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        },)*]
    };
}

/// Every built-in scenario, by name.
pub const ALL: &[BuiltIn] = built_in! {
    "carob/crowd-mesh",
    "carob/default",
    "carob/fairness",
    "carob/faults",
    "carob/grenoble",
    "carob/kernel-path",
    "carob/notifications-tcp",
    "carob/q-block-upload",
    "carob/reports",
    "carob/thread",
    "cocoaplus/aging-threshold",
    "cocoaplus/backoff-factors",
    "cocoaplus/constant",
    "cocoaplus/event",
    "cocoaplus/mixed",
    "nonobserve/gprs",
    "nonobserve/iotlab60",
    "nonobserve/umts",
    "nonobserve/umts-hour",
    "retrycount/clients",
    "retrycount/rto-scatter",
    "retrycount/service",
    "rpl/pint-by-data",
    "rpl/pint-idle",
    "rpl/pint-rpl",
    "rpl/pint-static",
    "rpl/pint-variants",
    "rpl/related-bursty",
    "rpl/related-variants",
    "rpl/wilab-idle",
    "rpl/wilab-rpl",
    "stress/capacity",
    "stress/crowd",
    "stress/mesh",
    "stress/neighbour",
    "stress/observe",
    "stress/path",
    "stress/single",
    "thesis/exchange-tcp",
    "thesis/exchange-udp",
    "thesis/long",
    "thesis/nstart-sweep",
    "thesis/related-cocoa-fast",
    "thesis/related-cocoa-s",
    "thesis/related-cocoa-strong",
    "thesis/related-load",
    "thesis/related-rto-algorithms",
    "thesis/short",
};

/// The scenario that runs when none is named.
pub const DEFAULT: &str = "carob/default";

/// The built-in scenario nearest to a wrong name, if one is near: at most a third of it changed, or
/// of what follows its study.
pub fn nearest(wrong: &str) -> Option<&'static str> {
    let family = |name: &'static str| name.split_once('/').map_or(name, |(_, family)| family);
    let (study, wrong_family) = wrong.split_once('/').unwrap_or(("", wrong));
    let limit = |text: &str| text.chars().count().div_ceil(3);
    let distance = super::keys::distance;
    if has_study(study) {
        return of_study(study)
            .map(|name| (distance(wrong_family, family(name)), name))
            .min()
            .filter(|(d, _)| *d <= limit(wrong_family))
            .map(|(_, name)| name);
    }
    ALL.iter()
        .map(|b| {
            // The study may be left out.
            let short = if wrong.contains('/') {
                b.name
            } else {
                family(b.name)
            };
            (distance(wrong, short), b.name)
        })
        .min()
        .filter(|(d, _)| *d <= limit(wrong))
        .map(|(_, name)| name)
}

/// Returns whether there are built-in scenarios of this study.
pub fn has_study(study: &str) -> bool {
    of_study(study).next().is_some()
}

/// The built-in scenarios of a study, by name.
pub fn of_study(study: &str) -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|b| b.name).filter(move |name| {
        name.split_once('/')
            .is_some_and(|(known, _)| known == study)
    })
}

/// The settings of a file that decide runs: its text without comments, blank lines, descriptions (`about`) and
/// `safeguards = "off"`. That key selects the published rules; the stored results of the studies are older than it.
pub fn settings(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let mut quoted = false;
        let comment = line.char_indices().find(|(_, c)| {
            quoted ^= *c == '"';
            *c == '#' && !quoted
        });
        line[..comment.map_or(line.len(), |(at, _)| at)].trim_end()
    });
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("about = "))
        .filter(|line| *line != "safeguards = \"off\"")
        .collect();
    lines.join("\n")
}

/// The built-in scenario `name`, or the one that has a cell of that name, such as
/// `thesis/long-1c-none-2500` for `thesis/long`. Also gives the cell's name.
pub fn find(name: &str) -> Option<(&'static BuiltIn, Option<&str>)> {
    ALL.iter()
        .find(|b| b.name == name)
        .map(|b| (b, None))
        .or_else(|| {
            let (study, cell) = name.split_once('/')?;
            let fits = |b: &&BuiltIn| {
                b.name
                    .strip_prefix(study)
                    .and_then(|rest| rest.strip_prefix('/'))
                    .is_some_and(|family| {
                        cell.strip_prefix(family)
                            .is_some_and(|rest| rest.starts_with('-'))
                    })
            };
            // Of two families that both fit, the longer name is the nearer one.
            ALL.iter()
                .filter(fits)
                .max_by_key(|b| b.name.len())
                .map(|b| (b, Some(cell)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_descriptions_are_no_settings() {
        let text =
            "# a\nabout = \"b\"\n[link]\nname = \"a # b\" # c\n\nsafeguards = \"off\"\nloss = 1\n";
        assert_eq!(settings(text), "[link]\nname = \"a # b\"\nloss = 1");
    }
}
