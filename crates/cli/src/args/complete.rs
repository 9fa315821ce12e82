//! Names that shells complete: controllers, scenarios, studies, links.

use carob_lab::compare::{BUILT_IN, TRAFFIC};
use carob_lab::scenario::builtin;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};

use crate::program::registry;

/// The command line with the known names as possible values, for scripts of completions only:
/// arguments take more than these names. With `files`, names also where a file may be given.
pub(crate) fn with_names(command: Command, files: bool) -> Command {
    rename(command, &[], files)
}

fn rename(command: Command, path: &[&str], files: bool) -> Command {
    let name = command.get_name().to_owned();
    let mut path = path.to_vec();
    path.push(&name);
    let command = command.mut_args(|arg| match known(&path, arg.get_id().as_str(), files) {
        Some(names) => with_values(arg, names),
        None => arg,
    });
    command.mut_subcommands(|one| rename(one, &path, files))
}

fn with_values(arg: Arg, names: Vec<String>) -> Arg {
    // Defaults and missing values are no names.
    arg.value_parser(PossibleValuesParser::new(names))
        .hide_possible_values(true)
}

/// The known values of an argument, also of one that takes files.
pub(crate) fn names(path: &[&str], argument: &str) -> Option<Vec<String>> {
    known(path, argument, true)
}

/// The known values of an argument; with `files`, also of one that takes files.
pub(super) fn known(path: &[&str], argument: &str, files: bool) -> Option<Vec<String>> {
    let owned = |names: &mut dyn Iterator<Item = &'static str>| -> Option<Vec<String>> {
        Some(names.map(str::to_owned).collect())
    };
    let controllers = || registry().names();
    match (path, argument) {
        (_, "cc" | "origin_cc") | ([.., "cc", "show"], "name") => owned(&mut controllers()),
        ([.., "cc", "trace"], "algorithm") => owned(&mut controllers().chain(["all"])),
        (_, "algorithm") => {
            let tcp = ["tcp-newreno", "tcp-cubic", "tcp-bbr1", "tcp-bbr3"];
            owned(&mut controllers().chain(tcp).chain(["all"]))
        }
        ([.., "show" | "run" | "emulate"], "name") if files => Some(scenarios()),
        ([.., "new"], "from") => Some(scenarios()),
        // The study of `calibrate` may be a folder.
        ([.., verb], "study") if files || *verb != "calibrate" => Some(studies()),
        ([.., "compare" | "run"], "link") if files => {
            owned(&mut BUILT_IN.iter().map(|link| link.name))
        }
        ([.., "compare"], "traffic") if files => owned(&mut TRAFFIC.iter().map(|(name, ..)| *name)),
        _ => None,
    }
}

fn scenarios() -> Vec<String> {
    builtin::ALL.iter().map(|one| one.name.to_owned()).collect()
}

fn studies() -> Vec<String> {
    carob_lab::published::studies()
        .map(|study| study.short_name)
        .collect()
}
