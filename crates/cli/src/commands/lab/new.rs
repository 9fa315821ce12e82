//! `carob lab new`: a scenario file to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use carob_lab::scenario::builtin;

use super::output::say;
use super::source;
use crate::args::lab::NewArgs;
use crate::failure::{Failure, Kind, Outcome};

/// The scenario that a new file has unless another one is named.
const TEMPLATE: &str = include_str!("new.toml");

/// Keys that tie a scenario to its study. Without them a copy has its file's name, and no published values.
const OF_STUDY: [&str; 4] = ["study", "family", "cell", "compare_with"];

/// Writes a scenario to a file that does not exist yet.
pub(super) fn run(args: &NewArgs) -> Result<Outcome, Failure> {
    let path = path(&args.name);
    let text = match &args.from {
        None => TEMPLATE.to_owned(),
        Some(name) => {
            let (scenario, _) = builtin::find(name).ok_or_else(|| source::unknown(name))?;
            copy(scenario.name, scenario.text)
        }
    };
    write(&path, &text)?;
    let shown = path.display();
    say(format_args!(
        "{shown} is written\n\nNext:\n  carob lab run {shown}   a table and a report\n  \
         carob lab show {shown}  every setting and its source"
    ));
    Ok(Outcome::Done)
}

/// The file of a name, which may lack the extension.
fn path(name: &Path) -> PathBuf {
    if name
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        return name.to_path_buf();
    }
    let mut name = name.as_os_str().to_owned();
    name.push(".toml");
    PathBuf::from(name)
}

/// A built-in scenario without the keys that tie it to its study.
fn copy(name: &str, text: &str) -> String {
    let tied = |line: &&str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        OF_STUDY.contains(&key)
    };
    let mut lines = vec![format!("# A copy of {name}.")];
    let mut top = true;
    for line in text.lines() {
        // Tables may have keys of these names, too.
        top &= !line.starts_with('[');
        if !(top && tied(&line)) {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n") + "\n"
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let problem = format_args!("{} exists already", path.display());
            Failure::new(Kind::File, problem).hint("name another file, or remove this one first")
        } else {
            Failure::file("write", path, &error)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob_lab::scenario::Scenario;

    #[test]
    fn the_template_is_a_scenario_with_names_of_its_file() {
        let scenario = Scenario::read("meters.toml", TEMPLATE, &[]).expect("it is complete");
        assert_eq!(scenario.name(), "own/meters");
        let cells: Vec<_> = scenario.cells().iter().map(|cell| &cell.name).collect();
        assert_eq!(cells, ["meters-none", "meters-medium"]);
    }

    #[test]
    fn copied_scenarios_belong_to_no_study() {
        for one in builtin::ALL {
            let text = copy(one.name, one.text);
            let scenario = Scenario::read("mine.toml", &text, &[]);
            let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", one.name));
            assert_eq!(scenario.name(), "own/mine", "{}", one.name);
        }
    }

    #[test]
    fn a_name_may_lack_the_extension() {
        assert_eq!(path(Path::new("a.b")), Path::new("a.b.toml"));
        assert_eq!(path(Path::new("x/a.toml")), Path::new("x/a.toml"));
    }
}
