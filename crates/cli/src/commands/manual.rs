//! `carob completions` and `carob man`: the command line in the forms that shells and `man` read.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use clap_complete::Shell;
use clap_mangen::Man;

use super::reference;
use crate::args;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::printer;

/// Prints a shell's completions.
pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    // In zsh a list of names would exclude files.
    let mut command = args::with_names(args::command(), shell != Shell::Zsh);
    clap_complete::generate(shell, &mut command, "carob", &mut script);
    if shell == Shell::Fish {
        script.extend(fish_names().into_bytes());
    }
    // Errors are kept for the command's end, here and below.
    let _ = output::bytes().write_all(&script);
    Outcome::Done
}

/// Names of positional arguments for fish, whose generated script has names of options only.
fn fish_names() -> String {
    let mut text = String::new();
    for (verbs, argument) in [
        (&["lab", "run"][..], "name"),
        (&["lab", "show"], "name"),
        (&["lab", "emulate"], "name"),
        (&["lab", "reproduce"], "study"),
        (&["lab", "claims"], "study"),
        (&["cc", "show"], "name"),
    ] {
        let path: Vec<&str> = ["carob"].into_iter().chain(verbs.iter().copied()).collect();
        let names = args::completed_names(&path, argument).unwrap_or_default();
        let seen: Vec<String> = (verbs.iter())
            .map(|verb| format!("__fish_seen_subcommand_from {verb}"))
            .collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "complete -c carob -n \"{}\" -a \"{}\"",
            seen.join("; and "),
            names.join(" ")
        );
    }
    text
}

/// Prints the reference of commands and options.
pub(crate) fn reference() -> Outcome {
    let _ = output::bytes().write_all(reference::page().as_bytes());
    Outcome::Done
}

/// Prints the page of `carob`, or writes the pages of all commands to a folder.
pub(crate) fn pages(folder: Option<&Path>) -> Result<Outcome, Failure> {
    let command = args::command();
    let Some(folder) = folder else {
        let mut page = Vec::new();
        let rendered = Man::new(command).render(&mut page);
        rendered.map_err(|error| Failure::file("write", Path::new("the page"), &error))?;
        let _ = output::bytes().write_all(&page);
        return Ok(Outcome::Done);
    };
    let failed = |error: io::Error| Failure::file("write to", folder, &error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    printer::remark(&format!(
        "see `man -l {}`",
        folder.join("carob.1").display()
    ));
    Ok(Outcome::Done)
}
