//! The peers, and whether they are installed; `cargo xtask peers` and the tests share this file.
//!
//! What is built or downloaded for a peer lies in a folder of its own below [`directory`], with a
//! stamp: the text of everything it was made from. As long as the stamp is the same, it is current.

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

/// What libcoap's package brings and the tests start.
const LIBCOAP_PROGRAMS: [&str; 4] = [
    "coap-client-notls",
    "coap-server-notls",
    // Over TLS; what is built on GnuTLS sends no more than 16 KiB at once.
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

    /// Where our programs for it are, in the repository.
    pub(crate) fn sources(self, root: &Path) -> PathBuf {
        let folder = match self {
            Self::Libcoap => "",
            Self::Aiocoap => "aiocoap",
            Self::Californium => "californium",
            Self::GoCoap => "gocoap",
        };
        root.join("crates/cli/tests/it/interop").join(folder)
    }

    /// Where what is built or downloaded for it goes.
    pub(crate) fn built(self, root: &Path) -> PathBuf {
        directory(root).join(self.name().to_lowercase())
    }

    /// Whether it can be run, and is what its sources would give today.
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

    /// The text of everything that what is built depends on.
    ///
    /// # Errors
    /// When a source cannot be read.
    pub(crate) fn stamp(self, root: &Path) -> io::Result<String> {
        let sources = self.sources(root);
        let mut files = Vec::new();
        match self {
            Self::Libcoap => {}
            // The scripts run from where they are; only the library is installed.
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

/// `CAROB_PEERS_DIR`, or `target/peers` below the repository.
pub(crate) fn directory(root: &Path) -> PathBuf {
    env::var_os("CAROB_PEERS_DIR").map_or_else(|| root.join("target/peers"), PathBuf::from)
}

/// Every file below a folder, but for those an editor hides.
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
