//! Other implementations of CoAP, and whether they are installed. Shared by `cargo xtask peers` and the tests.
//!
//! Builds and downloads of a peer are in a folder below [`directory`], with a stamp: the text of all its sources.
//! The folder is current while the stamp is equal.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Another implementation of CoAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    Libcoap,
    Aiocoap,
    Californium,
    GoCoap,
}

/// Programs of libcoap's package that the tests start.
const LIBCOAP_PROGRAMS: [&str; 4] = [
    "coap-client-notls",
    "coap-server-notls",
    // For TLS: those built on GnuTLS send at most 16 KiB at once.
    "coap-client-openssl",
    "coap-server-openssl",
];

impl Peer {
    pub(crate) const ALL: [Self; 4] = [
        Self::Libcoap,
        Self::Aiocoap,
        Self::Californium,
        Self::GoCoap,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Libcoap => "libcoap",
            Self::Aiocoap => "aiocoap",
            Self::Californium => "Californium",
            Self::GoCoap => "go-coap",
        }
    }

    /// The folder in the repository with the programs on the peer's library.
    pub(crate) fn sources(self, root: &Path) -> PathBuf {
        let folder = match self {
            Self::Libcoap => "",
            Self::Aiocoap => "aiocoap",
            Self::Californium => "californium",
            Self::GoCoap => "gocoap",
        };
        root.join("crates/cli/tests/it/interop").join(folder)
    }

    /// The folder for builds and downloads of the peer.
    pub(crate) fn built(self, root: &Path) -> PathBuf {
        directory(root).join(self.name().to_lowercase())
    }

    /// Whether the peer is installed and up to date with its sources.
    pub(crate) fn is_current(self, root: &Path) -> bool {
        match self {
            Self::Libcoap => LIBCOAP_PROGRAMS.into_iter().all(is_on_path),
            _ => match (self.stamp(root), fs::read_to_string(self.stamp_file(root))) {
                (Ok(wanted), Ok(found)) => wanted == found,
                _ => false,
            },
        }
    }

    pub(crate) fn stamp_file(self, root: &Path) -> PathBuf {
        self.built(root).join("stamp")
    }

    /// The text of all sources that the installation depends on.
    ///
    /// # Errors
    /// When a source cannot be read.
    pub(crate) fn stamp(self, root: &Path) -> io::Result<String> {
        let sources = self.sources(root);
        let mut files = Vec::new();
        match self {
            Self::Libcoap => {}
            // The scripts run in place; only the library is installed.
            Self::Aiocoap => files.push(sources.join("requirements.txt")),
            Self::Californium | Self::GoCoap => collect(&sources, &mut files)?,
        }
        files.sort();
        let mut text = String::new();
        for file in files {
            let name = file.strip_prefix(&sources).unwrap_or(&file);
            text.extend(["== ", &name.to_string_lossy(), "\n"]);
            text += &fs::read_to_string(&file)?;
        }
        Ok(text)
    }
}

/// `CAROB_PEERS_DIR`, by default `target/peers` in the repository.
pub(crate) fn directory(root: &Path) -> PathBuf {
    env::var_os("CAROB_PEERS_DIR").map_or_else(|| root.join("target/peers"), PathBuf::from)
}

/// Collects every file below a folder except hidden ones.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

pub(crate) fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
