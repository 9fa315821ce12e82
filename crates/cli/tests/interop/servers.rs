//! The servers: ours and the peers', each with the resources the cases need.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use crate::{
    clients::{python, script},
    matrix::Peer,
    process::{Running, Scratch, answers_ping, free_port},
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
        let port = free_port();
        let folder = scratch.folder("served");
        let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
        command.args([
            "serve",
            "--bind",
            &format!("127.0.0.1:{port}"),
            "--writable",
            "--dir",
        ]);
        let mut running = Running::start(command.arg(&folder), scratch, "server");
        running.wait_until(READY_LIMIT, |running| {
            running.stdout().contains("listening on coap://")
        });
        let paths = Paths {
            hello: "hello",
            store: STORE,
            slow: "slow",
            echo: Some("echo"),
            counter: None,
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
        let (mut command, paths) = match peer {
            Peer::Libcoap => {
                let mut command = Command::new("coap-server-notls");
                // `-d`: a PUT or POST to a new path creates a resource.
                command.args(["-A", "127.0.0.1", "-p", &port.to_string(), "-d", "10"]);
                let paths = Paths {
                    hello: "",
                    store: STORE,
                    slow: "async?2",
                    echo: None,
                    counter: None,
                };
                (command, paths)
            }
            Peer::Aiocoap => {
                let mut command = Command::new(python());
                command
                    .arg(script("aiocoap/server.py"))
                    .arg(port.to_string());
                let paths = Paths {
                    hello: "hello",
                    store: STORE,
                    slow: "slow",
                    echo: Some("echo"),
                    counter: Some("counter"),
                };
                (command, paths)
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

    pub(crate) fn has_folder(&self) -> bool {
        self.folder.is_some()
    }
}

const STORE: &str = "store";
