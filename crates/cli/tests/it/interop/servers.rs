//! Servers of Carob and the peers, with the resources that the cases need.

use std::{cell::RefCell, fs, net::TcpStream, path::PathBuf, process::Command, time::Duration};

use crate::interop::clients::{Implementation, program};
use crate::interop::library::block_on;
use crate::interop::requests::Connection;
use crate::interop::transport::{To, Transport};
use crate::interop::wire::Side;
use crate::plugtest::{observed::Ticking, programs::Task, setup::Setup};
use crate::{
    installed::Peer,
    process::{Running, Scratch, answers_ping, free_port, free_ports, until},
};

const READY_LIMIT: Duration = Duration::from_secs(20);

/// Resource paths of a server. `None`: the server has no such resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths {
    /// GET returns text.
    pub(crate) hello: &'static str,
    /// GET, PUT and DELETE; absent at first.
    pub(crate) store: &'static str,
    /// GET has a separate response.
    pub(crate) slow: &'static str,
    /// POST returns the request's payload.
    pub(crate) echo: Option<&'static str>,
    /// POST counts and returns the count; GET returns it.
    pub(crate) counter: Option<&'static str>,
    /// GET returns a pattern whose length in bytes is in the query.
    pub(crate) large: Option<&'static str>,
    /// GET returns JSON or text, depending on Accept.
    pub(crate) negotiate: Option<&'static str>,
    /// PATCH appends, iPATCH replaces.
    pub(crate) patch: Option<&'static str>,
    /// A discovery filter and the matching targets.
    pub(crate) filter: (&'static str, &'static [&'static str]),
    /// POST adds one; GET returns the number and is observable.
    pub(crate) count: Option<&'static str>,
    /// A counter that increments by itself, with NON notifications.
    pub(crate) ticks: Option<&'static str>,
    /// 4 KiB of letters that POST rotates; observable.
    pub(crate) bulk: Option<&'static str>,
    /// Changes by itself, with a Max-Age of a few seconds; observable.
    pub(crate) short_lived: &'static str,
    /// Arguments that suppress the server's CSM.
    pub(crate) no_csm: Option<&'static [&'static str]>,
    /// An argument that switches notifications from CON to NON.
    pub(crate) notifies_by_non: Option<&'static str>,
}

/// A server with the resources that all have.
const BARE: Paths = Paths {
    hello: "hello",
    store: STORE,
    slow: "slow",
    echo: None,
    counter: None,
    large: None,
    negotiate: None,
    patch: None,
    filter: ("", &[]),
    count: None,
    ticks: None,
    bulk: None,
    short_lived: "time",
    no_csm: None,
    notifies_by_non: None,
};

const CAROB: Paths = Paths {
    echo: Some("echo"),
    filter: ("href=/s*", &["/sensors", "/slow"]),
    count: Some("count"),
    ..BARE
};

/// libcoap's example server.
const LIBCOAP: Paths = Paths {
    hello: "",
    slow: "async?2",
    filter: ("rt=ticks", &["/time"]),
    notifies_by_non: Some("-N"),
    ..BARE
};

/// The servers on the other peers' libraries.
const OURS: Paths = Paths {
    echo: Some("echo"),
    counter: Some("counter"),
    large: Some("large"),
    negotiate: Some("negotiate"),
    patch: Some("patch"),
    filter: ("rt=carob.text", &["/hello", "/negotiate", "/slow"]),
    count: Some("count"),
    ticks: Some("ticks"),
    bulk: Some("bulk"),
    short_lived: "ticks",
    ..BARE
};

const GO_COAP: Paths = Paths {
    no_csm: Some(&["--no-csm"]),
    ..OURS
};

/// A running server, stopped on drop.
pub(crate) struct Server {
    pub(crate) whose: Implementation,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    pub(crate) paths: Paths,
    /// The folder behind `paths.store`, if there is one.
    folder: Option<PathBuf>,
    /// Additional arguments of its command.
    more: Vec<String>,
    running: RefCell<Option<Process>>,
}

enum Process {
    Command(#[allow(dead_code, reason = "killed on drop")] Running),
    Library(
        carob::Server,
        #[allow(dead_code, reason = "held so that it goes on")] Ticking,
    ),
    Program(Task),
}

impl Server {
    /// Starts a server with additional arguments and waits until it is ready.
    pub(crate) fn start(
        whose: Implementation,
        transport: Transport,
        scratch: &Scratch,
        more: &[&str],
    ) -> Self {
        let (paths, folder) = match whose {
            Implementation::Carob => (CAROB, Some(scratch.folder("served"))),
            Implementation::Of(Peer::Libcoap) => (LIBCOAP, None),
            Implementation::Of(Peer::GoCoap) => (GO_COAP, None),
            Implementation::Of(_) => (OURS, None),
        };
        let server = Self {
            whose,
            // Some servers also bind the preceding port.
            port: free_ports(2) + 1,
            transport,
            paths,
            folder,
            more: more.iter().map(ToString::to_string).collect(),
            running: RefCell::new(None),
        };
        server.resume(scratch);
        server
    }

    /// Starts a server with the plugtest resources.
    pub(crate) fn plugtest(whose: Implementation, setup: Setup) -> Self {
        // Another test may take the port before the server binds it.
        until(READY_LIMIT, "free port", || {
            let server = Self {
                whose,
                port: free_port(),
                transport: Transport::Udp,
                paths: BARE,
                folder: None,
                more: Vec::new(),
                running: RefCell::new(None),
            };
            server.serve_plugtest(setup).then_some(server)
        })
    }

    /// Returns false if the port is in use.
    fn serve_plugtest(&self, setup: Setup) -> bool {
        let process = match self.whose {
            Implementation::Carob => {
                let started = setup.serve(self.port);
                started.map(|(server, ticking)| Process::Library(server, ticking))
            }
            Implementation::Of(peer) => {
                let mut task = Task::start(peer, &setup.serve_command(self.port));
                task.until("ready").then_some(Process::Program(task))
            }
        };
        self.running.replace(process);
        self.running.borrow().is_some()
    }

    /// Replaces a plugtest server by a new one without state.
    pub(crate) fn reboot(&self, setup: Setup) {
        if let Some(Process::Program(mut task)) = self.running.take() {
            task.add("close");
            task.until("closed");
        }
        until(READY_LIMIT, "free port", || {
            self.serve_plugtest(setup).then_some(())
        });
    }

    /// Number of observers; known for Carob's library only.
    pub(crate) fn observers(&self) -> Option<usize> {
        let running = self.running.borrow();
        let Some(Process::Library(server, _)) = &*running else {
            return None;
        };
        let usage = block_on(async { server.client().usage().await });
        Some(usage.expect("the server runs").observers)
    }

    /// Kills the server.
    pub(crate) fn crash(&self) {
        self.running.take();
    }

    /// Restarts its command on the same port.
    pub(crate) fn resume(&self, scratch: &Scratch) {
        let port = self.port;
        let mut command = self.command();
        let (of, side) = (self.whose, Side::Server);
        (self.transport).add_credentials(&mut command, of, side, Connection::Usual, scratch);
        let mut running = Running::spawn(command.args(&self.more));
        running.wait_until(READY_LIMIT, |running| match (self.whose, self.transport) {
            (Implementation::Carob, _) => running.stdout().contains("listening on coap://"),
            (_, Transport::Udp) => answers_ping(port),
            (Implementation::Of(Peer::Libcoap), Transport::Dtls { .. }) => answers_ping(port - 1),
            // The programs print nothing; the case repeats its first request.
            (_, Transport::Dtls { .. }) => true,
            _ => TcpStream::connect(("127.0.0.1", port)).is_ok(),
        });
        self.running.replace(Some(Process::Command(running)));
    }

    fn command(&self) -> Command {
        let port = self.port;
        let Implementation::Of(peer) = self.whose else {
            let mut command = Command::new(crate::PROGRAM);
            command.args(["serve", "--writable", "--dir"]);
            command.args(&self.folder);
            let address = format!("127.0.0.1:{port}");
            let connections = match self.transport {
                Transport::Udp => None,
                Transport::Dtls { .. } => Some("--dtls"),
                Transport::Tcp => Some("--tcp"),
                Transport::Tls => Some("--tls"),
                Transport::WebSocket => Some("--ws"),
                Transport::SecureWebSocket => Some("--wss"),
            };
            let bound = match self.transport {
                Transport::Dtls { .. } => format!("127.0.0.1:{}", port - 1),
                _ => address.clone(),
            };
            command.args(["--bind", &bound]);
            if let Some(option) = connections {
                command.args([option, &address]);
            }
            return command;
        };
        if peer == Peer::Libcoap {
            let mut command = Command::new(self.transport.libcoap("server"));
            // libcoap serves TLS and DTLS on the port after `-p`.
            let port = port - u16::from(self.transport.is_secure());
            command.args(["-A", "127.0.0.1", "-p", &port.to_string()]);
            // A PUT or POST to a new path creates a resource.
            command.args(["-d", "10"]);
            return command;
        }
        let mut command = program(peer, "server");
        command.arg(port.to_string());
        if self.transport != Transport::Udp {
            command.args(["--scheme", self.transport.scheme()]);
        }
        command
    }

    pub(crate) fn to(&self) -> To {
        To {
            transport: self.transport,
            port: self.port,
        }
    }

    /// The stored file below `paths.store`; `None` without a folder or a file.
    pub(crate) fn stored(&self) -> Option<Vec<u8>> {
        fs::read(self.folder.as_ref()?.join(STORE)).ok()
    }

    /// Writes a file into the server's folder; returns whether there is one.
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

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(Process::Program(task)) = self.running.get_mut() {
            task.add("close");
        }
    }
}

const STORE: &str = "store";
