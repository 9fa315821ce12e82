//! `carob cc new`: a crate with a new controller.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::args::cc::NewArgs;
use crate::commands::lab::output::{quoted, say};
use crate::failure::{Failure, Kind, Outcome};
use crate::program::registry;

/// The files of the crate, by path.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("Cargo.toml.txt")),
    ("README.md", include_str!("README.md.txt")),
    (".gitignore", "/target\n"),
    ("src/lib.rs", include_str!("lib.rs.txt")),
    ("src/main.rs", include_str!("main.rs.txt")),
    ("tests/contract.rs", include_str!("contract.rs.txt")),
];

/// The longest name.
const NAME_MAX: usize = 40;

/// Names of crates that Cargo refuses, or that a module of Rust cannot have.
const RESERVED: [&str; 20] = [
    "async", "await", "box", "break", "const", "continue", "crate", "dyn", "enum", "extern", "fn",
    "for", "if", "impl", "let", "loop", "match", "mod", "move", "test",
];

pub(super) fn run(args: &NewArgs) -> Result<Outcome, Failure> {
    let name = &*args.name;
    check(name)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(name));
    let is_empty = match fs::read_dir(&folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(Failure::file("read", &folder, &error)),
    };
    if !is_empty {
        let what = format_args!("{}: the folder has files", folder.display());
        return Err(Failure::new(Kind::Usage, what).hint("name a new folder with --path"));
    }
    let checkout = match &args.carob {
        Some(folder) => Some(checked(folder)?),
        None => env::current_dir().ok().and_then(|folder| above(&folder)),
    };
    for (path, text) in FILES {
        let path = folder.join(path);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(&folder))?;
            fs::write(&path, filled(text, name, checkout.as_deref()))
        };
        write().map_err(|error| Failure::file("write", &path, &error))?;
    }
    tell(name, &folder, checkout.as_deref());
    Ok(Outcome::Done)
}

fn tell(name: &str, folder: &Path, checkout: Option<&Path>) {
    say(format_args!(
        "{}: a crate with the controller {name}",
        folder.display()
    ));
    match checkout {
        Some(checkout) => say(format_args!(
            "It depends on the checkout {}.",
            checkout.display()
        )),
        None => say(format_args!(
            "It depends on carob-cc and carob-cli {} of the registry; --carob DIR depends on a checkout.",
            env!("CARGO_PKG_VERSION")
        )),
    }
    say("\nNext:");
    say(format_args!(
        "  cd {}",
        quoted(&folder.display().to_string())
    ));
    say("  cargo test --no-default-features    the contract of controllers, in seconds");
    say(format_args!(
        "  cargo run --release -- lab run carob/default -a default,cocoa-03,{name}"
    ));
}

/// Checks that a crate and a controller can have the name.
fn check(name: &str) -> Result<(), Failure> {
    let wrong = |why: &str| {
        Err(Failure::new(Kind::Usage, format_args!("\"{name}\": {why}"))
            .hint("a letter, then lower-case letters, digits and hyphens, such as my-cc"))
    };
    let of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_written = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(of_name)
        && !name.ends_with('-')
        && !name.contains("--");
    if !is_written || name.len() > NAME_MAX {
        return wrong("no name of a controller");
    }
    if registry().find(name).is_ok() {
        return wrong("a controller has this name");
    }
    let begins = ["carob", "tcp-"]
        .iter()
        .any(|begin| name.starts_with(begin));
    if begins || name == "all" || RESERVED.contains(&name) {
        return wrong("reserved");
    }
    Ok(())
}

/// A checkout of carob, as an absolute path.
fn checked(folder: &Path) -> Result<PathBuf, Failure> {
    let folder = fs::canonicalize(folder).map_err(|e| Failure::file("read", folder, &e))?;
    if is_checkout(&folder) {
        return Ok(folder);
    }
    let what = format_args!("{}: no checkout of carob", folder.display());
    Err(Failure::new(Kind::Usage, what).hint("it has crates/cc and crates/cli"))
}

/// The checkout that contains a folder.
fn above(folder: &Path) -> Option<PathBuf> {
    let found = folder.ancestors().find(|folder| is_checkout(folder));
    found.map(Path::to_owned)
}

fn is_checkout(folder: &Path) -> bool {
    ["cc", "cli"].iter().all(|name| {
        let manifest = folder.join("crates").join(name).join("Cargo.toml");
        let named = format!("name = \"carob-{name}\"");
        fs::read_to_string(manifest).is_ok_and(|text| text.contains(&named))
    })
}

/// A file of the crate, with its names and dependencies.
fn filled(text: &str, name: &str, checkout: Option<&Path>) -> String {
    let dependency = |of: &str| match checkout {
        // A literal string of TOML: backslashes of Windows are kept.
        Some(checkout) => {
            let path = checkout.join("crates").join(of);
            format!("path = '{}'", path.display())
        }
        None => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
    };
    let camel_case = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    };
    let of_type: String = name.split('-').map(camel_case).collect();
    text.replace("CAROB_CC", &dependency("cc"))
        .replace("CAROB_CLI", &dependency("cli"))
        .replace("MODULE", &name.replace('-', "_"))
        .replace("NAME", name)
        .replace("TYPE", &of_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_be_valid_for_crates_and_controllers() {
        for name in ["my-cc", "a", "quick2"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "My-cc",
            "2cc",
            "my_cc",
            "cc-",
            "a--b",
            "default",
            "cocoa",
            "match",
            "tcp-mine",
            "carob-mine",
            "all",
        ] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn no_placeholder_is_left_in_a_file() {
        for (path, text) in FILES {
            for checkout in [None, Some(Path::new("/carob"))] {
                let filled = filled(text, "my-cc", checkout);
                for word in ["NAME", "TYPE", "MODULE", "CAROB_"] {
                    assert!(!filled.contains(word), "{path}: {word}");
                }
            }
        }
        let library = filled(FILES[3].1, "my-cc", None);
        assert!(library.contains("pub struct MyCc {"), "{library}");
    }
}
