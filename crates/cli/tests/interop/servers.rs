//! The servers: ours and the peers', each with the resources the cases need.

use std::{fs, path::PathBuf, time::Duration};

use crate::{
    clients::program,
    installed::Peer,
    process::{Running, Scratch, answers_ping, free_port, serve},
};

const READY_LIMIT: Duration = Duration::from_secs(20);

/// Paths of a server under which the cases find what they need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths {
    /// GET gives some text.
    pub(crate) hello: &'static str,
    /// GET, PUT and DELETE; nothing is there at first.
    pub(crate) store: &'static str,
    /// GET gives its response separately from the acknowledgement.
    pub(crate) slow: &'static str,
    /// POST answers with the request's payload, where the server has such a thing.
    pub(crate) echo: Option<&'static str>,
    /// POST counts and answers with the count, GET gives it, where the server has such a thing.
    pub(crate) counter: Option<&'static str>,
    /// GET gives the pattern of so many bytes as the query says, where the server has such a thing.
    pub(crate) large: Option<&'static str>,
    /// GET gives JSON or text as Accept says, where the server has such a thing.
    pub(crate) negotiate: Option<&'static str>,
    /// PATCH appends, iPATCH replaces, where the server has such a thing.
    pub(crate) patch: Option<&'static str>,
    /// A filter for discovery, and the targets of what matches it.
    pub(crate) filter: (&'static str, &'static [&'static str]),
}

/// A server that is ready; it is killed when the value goes.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) paths: Paths,
    /// The folder behind `paths.store`, where the server has one.
    folder: Option<PathBuf>,
    _running: Running,
}

impl Server {
    /// Starts `carob serve` with a writable folder.
    pub(crate) fn carob(scratch: &Scratch) -> Self {
        let folder = scratch.folder("served");
        let (running, uri) = serve(scratch, &folder);
        let port = uri.rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.expect("the ready line names the port");
        let paths = Paths {
            hello: "hello",
            store: STORE,
            slow: "slow",
            echo: Some("echo"),
            counter: None,
            large: None,
            negotiate: None,
            patch: None,
            filter: ("href=/s*", &["/sensors", "/slow"]),
        };
        Self {
            port,
            paths,
            folder: Some(folder),
            _running: running,
        }
    }

    /// Starts a peer's server.
    pub(crate) fn of(peer: Peer, scratch: &Scratch) -> Self {
        let port = free_port();
        let mut command = program(peer, "server");
        let paths = if peer == Peer::Libcoap {
            // `-d`: a PUT or POST to a new path creates a resource.
            command.args(["-A", "127.0.0.1", "-p", &port.to_string(), "-d", "10"]);
            Paths {
                hello: "",
                store: STORE,
                slow: "async?2",
                echo: None,
                counter: None,
                large: None,
                negotiate: None,
                patch: None,
                filter: ("rt=ticks", &["/time"]),
            }
        } else {
            command.arg(port.to_string());
            Paths {
                hello: "hello",
                store: STORE,
                slow: "slow",
                echo: Some("echo"),
                counter: Some("counter"),
                large: Some("large"),
                negotiate: Some("negotiate"),
                patch: Some("patch"),
                filter: ("rt=carob.text", &["/hello", "/negotiate", "/slow"]),
            }
        };
        let mut running = Running::start(&mut command, scratch, "server");
        running.wait_until(READY_LIMIT, |_| answers_ping(port));
        Self {
            port,
            paths,
            folder: None,
            _running: running,
        }
    }

    /// What the server's folder holds under `paths.store`; `None` without a folder or a file.
    pub(crate) fn stored(&self) -> Option<Vec<u8>> {
        fs::read(self.folder.as_ref()?.join(STORE)).ok()
    }

    /// Puts a file into the server's folder, if it has one; says whether it has.
    pub(crate) fn place(&self, name: &str, contents: &[u8]) -> bool {
        let Some(folder) = &self.folder else {
            return false;
        };
        fs::write(folder.join(name), contents).expect("the scratch folder is writable");
        true
    }

    pub(crate) fn has_folder(&self) -> bool {
        self.folder.is_some()
    }
}

const STORE: &str = "store";
