//! Files that scenarios and command lines name: regular, and of bounded length.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Opens a regular file without waiting, also where the path is a pipe that nobody writes to.
///
/// # Errors
///
/// The file cannot be opened, or is a device, a pipe or a folder.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits());
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let kind = io::ErrorKind::InvalidInput;
    Err(io::Error::new(kind, "not a regular file"))
}

/// Reads a text of at most `most` bytes.
///
/// # Errors
///
/// As [`open_regular`]; the file is longer ([`io::ErrorKind::FileTooLarge`]) or is not UTF-8.
pub fn read_text(path: &Path, most: usize) -> io::Result<String> {
    let file = open_regular(path)?;
    let mut text = String::new();
    file.take(most as u64 + 1).read_to_string(&mut text)?;
    if text.len() > most {
        let what = format!("longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_limit() {
        let path = std::env::temp_dir().join(format!("carob-text-{}", std::process::id()));
        std::fs::write(&path, "four").expect("it is written");
        assert_eq!(read_text(&path, 4).expect("it fits"), "four");
        let error = read_text(&path, 3).expect_err("it is longer");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        std::fs::remove_file(&path).expect("it is removed");
    }

    #[cfg(unix)]
    #[test]
    fn devices_pipes_and_folders_are_refused_without_waiting() {
        let pipe = std::env::temp_dir().join(format!("carob-pipe-{}", std::process::id()));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        for path in [&pipe, Path::new("/dev/zero"), Path::new("/")] {
            let error = read_text(path, 16).expect_err("it is no regular file");
            assert_eq!(error.to_string(), "not a regular file");
        }
        std::fs::remove_file(&pipe).expect("it is removed");
    }
}
