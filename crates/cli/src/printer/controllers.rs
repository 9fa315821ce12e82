//! The congestion controllers.

use carob_cc::registry::{self, ALIASES};
use carob_lab::registry::Entry;
use carob_lab::text::{TextTable, listed};
use serde::Serialize;

use super::{prose, table};

/// A controller as the machine interface has it.
#[derive(Debug, Serialize)]
pub(crate) struct Controller {
    pub(crate) name: &'static str,
    /// Its other names.
    pub(crate) aliases: Vec<&'static str>,
    /// The family it is a profile of.
    pub(crate) family: String,
    pub(crate) about: &'static str,
    pub(crate) source: &'static str,
    /// Its type below `carob_cc::algorithms`.
    pub(crate) path: &'static str,
    /// Bytes of state for one peer, on this machine.
    pub(crate) state_bytes: usize,
    /// Something of it has no source and is this project's choice.
    pub(crate) project_choice: bool,
    /// This project's choice, with its reason.
    pub(crate) choice: Option<&'static str>,
    pub(crate) suggested: Suggested,
    pub(crate) constants: Vec<Constant>,
}

/// Transmission parameters that a controller suggests.
#[derive(Debug, Serialize)]
pub(crate) struct Suggested {
    pub(crate) max_retransmit: Option<u8>,
    pub(crate) rto_max: Option<String>,
}

/// One constant of a controller.
#[derive(Debug, Serialize)]
pub(crate) struct Constant {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) kind: &'static str,
    pub(crate) about: &'static str,
}

impl From<Entry> for Controller {
    fn from(entry: Entry) -> Self {
        let mut constants = Vec::new();
        entry.settings().describe(&mut |constant| {
            constants.push(Constant {
                name: constant.name,
                value: constant.value.to_string(),
                kind: constant.kind,
                about: constant.about,
            });
        });
        let registry::Suggested {
            max_retransmit,
            rto_max,
        } = entry.suggested;
        let rto_max = rto_max.map(|time| time.to_string());
        Self {
            name: entry.name,
            aliases: ALIASES
                .iter()
                .filter(|(_, id)| *id == entry.name)
                .map(|(alias, _)| *alias)
                .collect(),
            family: family(&entry),
            about: entry.about,
            source: entry.source,
            path: entry.path,
            state_bytes: entry.state_bytes,
            project_choice: entry.project_choice.is_some(),
            choice: entry.project_choice,
            suggested: Suggested {
                max_retransmit,
                rto_max,
            },
            constants,
        }
    }
}

/// The family's name as people write names.
pub(crate) fn family(entry: &Entry) -> String {
    entry.family.replace('_', "-")
}

/// The footnote of controllers whose constants or rules have no source.
pub(crate) const FOOTNOTE: &str =
    "* constants or rules are this project's choice: carob cc show NAME tells which and why";

/// All controllers, a line each, family by family.
pub(crate) fn controllers(all: &[Controller]) {
    table(&list(all, &|controller| controller.project_choice));
}

fn list(all: &[Controller], is_choice: &dyn Fn(&Controller) -> bool) -> TextTable {
    let mut table = TextTable::new(["family", "controller", "what it is"]);
    let mut before = "";
    for controller in all {
        let family = &*controller.family;
        let shown = if family == before { "" } else { family };
        before = family;
        let mark = if is_choice(controller) { " *" } else { "" };
        let mut names = vec![format!("{}{mark}", controller.name)];
        names.extend(controller.aliases.iter().map(|&alias| alias.to_owned()));
        table.add(vec![
            shown.to_owned(),
            names.join(", "),
            controller.about.to_owned(),
        ]);
    }
    if all.iter().any(is_choice) {
        table.add_note(FOOTNOTE);
    }
    table
}

/// One controller, and the others of its family.
pub(crate) fn controller(controller: &Controller, relatives: &[&str]) {
    let Controller {
        name,
        aliases,
        family,
        about,
        source,
        path: _,
        state_bytes: _,
        project_choice: _,
        choice,
        suggested,
        constants,
    } = controller;
    prose(&format!("{name}: {about}"));
    if relatives.is_empty() {
        prose(&format!("family: {family}"));
    } else {
        prose(&format!("family: {family}, with {}", listed(relatives)));
    }
    if !aliases.is_empty() {
        prose(&format!("also called: {}", aliases.join(", ")));
    }
    prose(&format!("source: {source}"));
    if let Some(choice) = choice {
        prose(&format!("this project's choice: {choice}"));
    }
    if let Some(count) = suggested.max_retransmit {
        prose(&format!("suggests MAX_RETRANSMIT = {count}"));
    }
    if let Some(cap) = &suggested.rto_max {
        prose(&format!("suggests timers of at most {cap}"));
    }
    let timers = format!("its timers: carob cc trace --demo -a {name}");
    if constants.is_empty() {
        prose("no constants besides the transmission parameters");
        prose(&timers);
        return;
    }
    prose("constants:");
    let names = constants
        .iter()
        .map(|constant| constant.name.len())
        .max()
        .unwrap_or_default();
    let values = constants
        .iter()
        .map(|constant| constant.value.len())
        .max()
        .unwrap_or_default();
    for constant in constants {
        let (name, value, about) = (constant.name, &constant.value, constant.about);
        prose(&format!("  {name:names$}  {value:values$}  {about}"));
        prose(&format!(
            "  {:names$}  {:values$}  ({})",
            "", "", constant.kind
        ));
    }
    prose(&timers);
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob_lab::registry::Registry;

    fn printed(is_choice: &dyn Fn(&Controller) -> bool) -> String {
        let all: Vec<Controller> = Registry::BUILT_IN.entries().map(Controller::from).collect();
        list(&all, is_choice).to_string()
    }

    #[test]
    fn families_are_named_once_and_choices_are_marked() {
        let text = printed(&|controller| controller.name == "cocoa-03");
        let lines: Vec<Vec<&str>> = (text.lines().skip(2))
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0][..3], ["default", "default", "default"]);
        let first = |word: &str| lines.iter().filter(|line| line[0] == word).count();
        assert_eq!((first("cocoa"), first("cocoa-03")), (1, 1));
        assert!(text.contains(" cocoa-03 *, cocoa  "), "{text}");
        assert!(text.ends_with(&format!("\n{FOOTNOTE}\n")), "{text}");
        assert!(!printed(&|_| false).contains('*'));
    }
}
