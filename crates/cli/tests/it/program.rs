//! Runs of the package's program in a folder of its own. The tests of `carob-studies` use this file, too.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A folder for one test's files, removed when the test passes.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("carob-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of a file as an argument.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a file with mode 0600, because the command warns about readable keys; returns its path as an argument.
    pub(crate) fn with(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), contents).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(self.path(name), private).unwrap();
        self.text(name)
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Copies a folder with all it has.
    pub(crate) fn copy(&self, folder: &str) {
        let mut copy = Command::new("cp");
        let copied = copy.arg("-r").arg(folder).arg(&self.0).status();
        assert!(copied.unwrap().success(), "{folder}");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The file as text.
    #[track_caller]
    pub(crate) fn read_text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).expect("text")
    }

    /// The file parsed as one JSON value per line.
    #[track_caller]
    pub(crate) fn json_lines(&self, name: &str) -> Vec<serde_json::Value> {
        json_lines(&self.read_text(name))
    }

    /// Sorted names of the files.
    pub(crate) fn files(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Output and exit code of a command.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) stderr: String,
}

impl core::fmt::Debug for Ran {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (stdout, stderr) = (self.text(), &self.stderr);
        write!(f, "exit code {:?}\nstdout: ", self.code)?;
        write!(f, "{}\nstderr: {}", tail(&stdout), tail(stderr))
    }
}

fn tail(text: &str) -> String {
    const CHARACTERS_MAX: usize = 2000;
    let skip = text.chars().count().saturating_sub(CHARACTERS_MAX);
    text.chars().skip(skip).collect()
}

impl Ran {
    #[track_caller]
    pub(crate) fn stdout(&self) -> &str {
        core::str::from_utf8(&self.bytes).expect("text on stdout")
    }

    /// Stdout with replacement characters for bytes that are no text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Stdout of a command that succeeded with an empty stderr.
    #[track_caller]
    pub(crate) fn quiet(&self) -> &str {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""), "{self:?}");
        self.stdout()
    }

    /// Stdout parsed as one JSON value per line.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        json_lines(self.stdout())
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Stderr of a command that failed with this code and an empty stdout.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout()), (Some(code), ""), "{self:?}");
        &self.stderr
    }
}

#[track_caller]
fn json_lines(text: &str) -> Vec<serde_json::Value> {
    let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(read).collect()
}

/// Arguments: a list of words, or one line with quotes around words with spaces.
pub(crate) trait Words {
    fn words(&self) -> Vec<String>;
}

impl Words for str {
    fn words(&self) -> Vec<String> {
        let quoted = self.split('\'').enumerate();
        let words = quoted.flat_map(|(place, text)| match place % 2 {
            0 => text.split_whitespace().collect(),
            _ => vec![text],
        });
        words.map(Into::into).collect()
    }
}

impl Words for String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

impl<T: AsRef<str>> Words for [T] {
    fn words(&self) -> Vec<String> {
        self.iter().map(|word| word.as_ref().to_owned()).collect()
    }
}

impl<T: AsRef<str>, const N: usize> Words for [T; N] {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl<T: AsRef<str>> Words for Vec<T> {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            bytes: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The program with these arguments.
pub(crate) fn command(words: &(impl Words + ?Sized)) -> Command {
    let mut command = Command::new(crate::PROGRAM);
    command.args(words.words()).env_remove("NO_COLOR");
    command
}

/// Substring assertions.
pub(crate) trait Parts {
    /// Asserts that the text contains all of these parts.
    fn has(&self, parts: &[&str]);
}

impl Parts for str {
    #[track_caller]
    fn has(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.contains(part), "no {part:?} in {self}");
        }
    }
}

/// Comparison of JSON objects by some of their members.
pub(crate) trait Members {
    /// Asserts that an object has these members with these values, also within its objects.
    fn includes(&self, expected: serde_json::Value);
}

impl Members for serde_json::Value {
    #[track_caller]
    fn includes(&self, expected: Self) {
        let Self::Object(members) = &expected else {
            return assert_eq!(*self, expected);
        };
        for (name, value) in members {
            let found = &self[name];
            if value.is_object() {
                found.includes(value.clone());
            } else {
                assert_eq!(found, value, "{name} in {self}");
            }
        }
    }
}

/// Commands in the folder, without a time limit.
impl Scratch {
    /// Runs the program.
    #[track_caller]
    pub(crate) fn carob(&self, words: &(impl Words + ?Sized)) -> Ran {
        let ran = command(words).current_dir(self.path("")).output();
        ran.expect("the command starts").into()
    }

    /// Stdout of a command that succeeds with an empty stderr.
    #[track_caller]
    pub(crate) fn stdout_of(&self, words: &(impl Words + ?Sized)) -> String {
        self.carob(words).quiet().to_owned()
    }

    /// The same, parsed as one JSON value per line.
    #[track_caller]
    pub(crate) fn lines(&self, words: &(impl Words + ?Sized)) -> Vec<serde_json::Value> {
        let ran = self.carob(words);
        ran.quiet();
        ran.json()
    }

    /// Stderr of a command that exits with the usage error code (2).
    #[track_caller]
    pub(crate) fn usage_error(&self, words: &(impl Words + ?Sized)) -> String {
        self.carob(words).refused(2).to_owned()
    }
}

/// Marks the end of a command's output on a terminal.
#[cfg(unix)]
const MARK: &[u8] = b"\0end\0";

/// Runs a command on a pseudo-terminal with this number of columns; returns its exit code and output.
#[cfg(unix)]
pub(crate) fn on_terminal(
    words: &(impl Words + ?Sized),
    variables: &[(&str, &str)],
    columns: usize,
) -> (Option<i32>, String) {
    let size = nix::pty::Winsize {
        ws_row: 24,
        ws_col: columns as u16,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = nix::pty::openpty(Some(&size), None).unwrap();
    let side = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut child = command(words)
        .env("TERM", "xterm-256color")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(side())
        .stderr(side())
        .spawn()
        .unwrap();
    // Closing the last writer may discard unread output, so the reader stops at a mark instead.
    let (mut slave, mut master) = (fs::File::from(pty.slave), fs::File::from(pty.master));
    let reader = thread::spawn(move || {
        let (mut shown, mut chunk) = (Vec::new(), [0; 4_096]);
        while !shown.ends_with(MARK) {
            match master.read(&mut chunk) {
                Ok(count @ 1..) => shown.extend_from_slice(&chunk[..count]),
                _ => break,
            }
        }
        shown
    });
    let code = child.wait().unwrap().code();
    slave.write_all(MARK).unwrap();
    let mut shown = reader.join().unwrap();
    shown.truncate(shown.len() - MARK.len());
    let text = String::from_utf8(shown).unwrap();
    (code, text.replace("\r\n", "\n"))
}

/// Strips escape sequences (CSI).
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        let end = sequence.find(|c: char| c.is_ascii_alphabetic());
        rest = end.map_or("", |end| &sequence[end + 1..]);
    }
    plain + rest
}
