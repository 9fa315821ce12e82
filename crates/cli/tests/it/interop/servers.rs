//! Servers of Carob and the peers, with the resources that the cases need.

use std::{cell::RefCell, fs, net::TcpStream, path::PathBuf, process::Command, time::Duration};

use crate::interop::{
    clients::{Client, program},
    transport::{Certificates, To, Transport},
};
use crate::{
    installed::Peer,
    process::{Running, Scratch, answers_ping, free_ports},
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

/// A running server, killed on drop.
pub(crate) struct Server {
    pub(crate) whose: Client,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    pub(crate) paths: Paths,
    /// The folder behind `paths.store`, if there is one.
    folder: Option<PathBuf>,
    more: Vec<String>,
    running: RefCell<Option<Running>>,
}

impl Server {
    /// Starts a server with additional arguments and waits until it is ready.
    pub(crate) fn start(
        whose: Client,
        transport: Transport,
        scratch: &Scratch,
        more: &[&str],
    ) -> Self {
        let (paths, folder) = match whose {
            Client::Carob => (CAROB, Some(scratch.folder("served"))),
            Client::Of(Peer::Libcoap) => (LIBCOAP, None),
            Client::Of(Peer::GoCoap) => (GO_COAP, None),
            Client::Of(_) => (OURS, None),
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

    /// Kills the server.
    pub(crate) fn crash(&self) {
        self.running.take();
    }

    /// Restarts it on the same port.
    pub(crate) fn resume(&self, scratch: &Scratch) {
        let port = self.port;
        let mut command = match (self.whose, &self.folder) {
            (Client::Carob, folder) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
                let address = format!("127.0.0.1:{port}");
                command.args(["serve", "--bind", &address, "--writable", "--dir"]);
                command.args(folder);
                let connections = match self.transport {
                    Transport::Udp => None,
                    Transport::Tcp => Some("--tcp"),
                    Transport::Tls => Some("--tls"),
                    Transport::WebSocket => Some("--ws"),
                    Transport::SecureWebSocket => Some("--wss"),
                };
                if let Some(option) = connections {
                    command.args([option, &address]);
                }
                if self.transport.is_secure() {
                    let files = Certificates::write(scratch);
                    command.arg("--cert").arg(files.certificate);
                    command.arg("--key").arg(files.key);
                }
                command
            }
            (Client::Of(peer), _) => {
                let secure = self.transport.is_secure();
                let mut command = match (peer, secure) {
                    (Peer::Libcoap, true) => Command::new("coap-server-openssl"),
                    _ => program(peer, "server"),
                };
                let files = secure.then(|| Certificates::write(scratch));
                if peer == Peer::Libcoap {
                    // libcoap serves TLS on the port after `-p`.
                    let port = (port - u16::from(secure)).to_string();
                    // `-d`: a PUT or POST to a new path creates a resource.
                    command.args(["-A", "127.0.0.1", "-p", &port, "-d", "10"]);
                    if let Some(files) = files {
                        // `-n`: no client certificate required.
                        command.arg("-n").arg("-c").arg(files.certificate);
                        command.arg("-j").arg(files.key);
                    }
                } else {
                    command.arg(port.to_string());
                    if self.transport != Transport::Udp {
                        command.args(["--scheme", self.transport.scheme()]);
                    }
                    if let Some(files) = files {
                        command.arg("--cert").arg(files.certificate);
                        command.arg("--key").arg(files.key);
                    }
                }
                command
            }
        };
        let mut running = Running::start(command.args(&self.more), scratch, "server");
        running.wait_until(READY_LIMIT, |running| match self.whose {
            Client::Carob => running.stdout().contains("listening on coap://"),
            Client::Of(_) if self.transport == Transport::Udp => answers_ping(port),
            Client::Of(_) => TcpStream::connect(("127.0.0.1", port)).is_ok(),
        });
        self.running.replace(Some(running));
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

const STORE: &str = "store";
