//! `carob completions` and `carob man`: the command line in the forms that shells and `man` read.

use std::io::{self, Write as _};
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use super::reference;
use crate::args::{self, SetupCommand};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::printer;

/// Prints completions, manual pages or the reference of a program's command line.
pub fn run(setup: &SetupCommand, command: Command) -> Result<Outcome, Failure> {
    match setup {
        SetupCommand::Completions { shell } => completions(&command, *shell),
        SetupCommand::Man { markdown: true, .. } => {
            let page = reference::page(command);
            // Errors are kept for the command's end, here and below.
            let _ = output::bytes().write_all(page.as_bytes());
        }
        SetupCommand::Man { dir, .. } => pages(command, dir.as_deref())?,
    }
    Ok(Outcome::Done)
}

/// Prints a shell's completions.
fn completions(command: &Command, shell: Shell) {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    // In zsh a list of names would exclude files.
    let mut named = args::with_names(command.clone(), shell != Shell::Zsh);
    clap_complete::generate(shell, &mut named, name, &mut script);
    if shell == Shell::Fish {
        fish_names(command, &[], &mut script);
    }
    let _ = output::bytes().write_all(&script);
}

/// Adds names of positional arguments for fish, whose generated script has names of options only.
fn fish_names(command: &Command, above: &[&str], script: &mut Vec<u8>) {
    let path = [above, &[command.get_name()]].concat();
    for argument in command.get_positionals() {
        let Some(names) = args::completed_names(&path, argument.get_id().as_str()) else {
            continue;
        };
        let seen = path[1..].iter();
        let seen: Vec<String> = seen
            .map(|verb| format!("__fish_seen_subcommand_from {verb}"))
            .collect();
        let (condition, names) = (seen.join("; and "), names.join(" "));
        let _ = writeln!(
            script,
            "complete -c {} -n \"{condition}\" -a \"{names}\"",
            path[0]
        );
    }
    for one in command.get_subcommands() {
        fish_names(one, &path, script);
    }
}

/// Prints the page of the program, or writes the pages of all commands to a folder.
fn pages(command: Command, folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        let rendered = Man::new(command).render(&mut page);
        rendered.map_err(|error| Failure::file("write", Path::new("the page"), &error))?;
        let _ = output::bytes().write_all(&page);
        return Ok(());
    };
    let name = format!("{}.1", command.get_name());
    let failed = |error: io::Error| Failure::file("write to", folder, &error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    printer::remark(&format!("see `man -l {}`", folder.join(name).display()));
    Ok(())
}
