//! What a test of the lab runs commands in.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of a test's own, gone with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("carob-lab-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    /// What the command does when it is called in this folder.
    pub(crate) fn carob(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_carob"))
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .expect("the command starts")
    }

    /// Stdout of a command that succeeds.
    pub(crate) fn says(&self, arguments: &[&str]) -> String {
        let output = self.carob(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        assert_eq!(
            error, "",
            "{arguments:?}: nothing on stderr without a terminal"
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// Stdout of a command that succeeds, a JSON value a line.
    pub(crate) fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let read = |line: &str| serde_json::from_str(line).expect("nothing but JSON");
        self.says(arguments).lines().map(read).collect()
    }

    /// Stderr of a command that is used wrongly.
    pub(crate) fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.carob(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert_eq!(output.stdout, b"", "{arguments:?}: nothing on stdout");
        error
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .expect("the folder")
            .map(|f| {
                f.expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

pub(crate) const NONE: &str = "thesis/long-1c-none-2500";
pub(crate) const HIGH: &str = "thesis/long-1c-high-2500";
pub(crate) const STREAM: &str = "thesis/long-1c-none-28200";
