//! The servers: ours and the peers', each with the resources the cases need.

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
    /// POST adds one, GET gives the number and can be observed, where the server has such a thing.
    pub(crate) count: Option<&'static str>,
    /// A counter that grows by itself, with NON notifications, where the server has one.
    pub(crate) ticks: Option<&'static str>,
    /// 4 KiB of letters that POST shifts, to be observed, where the server has such a thing.
    pub(crate) bulk: Option<&'static str>,
    /// Changes by itself and is good for a few seconds; it can be observed.
    pub(crate) short_lived: &'static str,
    /// Arguments that make it send no CSM, where it otherwise sends one.
    pub(crate) no_csm: Option<&'static [&'static str]>,
    /// An argument that makes the server notify by NON, where it otherwise does it by CON.
    pub(crate) notifies_by_non: Option<&'static str>,
}

const CAROB: Paths = Paths {
    hello: "hello",
    store: STORE,
    slow: "slow",
    echo: Some("echo"),
    counter: None,
    large: None,
    negotiate: None,
    patch: None,
    filter: ("href=/s*", &["/sensors", "/slow"]),
    count: Some("count"),
    ticks: None,
    bulk: None,
    short_lived: "time",
    no_csm: None,
    notifies_by_non: None,
};

/// Of libcoap's example server.
const LIBCOAP: Paths = Paths {
    hello: "",
    store: STORE,
    slow: "async?2",
    echo: None,
    counter: None,
    large: None,
    negotiate: None,
    patch: None,
    filter: ("rt=ticks", &["/time"]),
    count: None,
    ticks: None,
    bulk: None,
    short_lived: "time",
    no_csm: None,
    notifies_by_non: Some("-N"),
};

/// Of our servers on the other peers' libraries.
const OURS: Paths = Paths {
    hello: "hello",
    store: STORE,
    slow: "slow",
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
    no_csm: None,
    notifies_by_non: None,
};

const GO_COAP: Paths = Paths {
    no_csm: Some(&["--no-csm"]),
    ..OURS
};

/// A server that is ready; it is killed when the value goes.
pub(crate) struct Server {
    pub(crate) whose: Client,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    pub(crate) paths: Paths,
    /// The folder behind `paths.store`, where the server has one.
    folder: Option<PathBuf>,
    more: Vec<String>,
    running: RefCell<Option<Running>>,
}

impl Server {
    /// Starts a server, with more arguments than it needs.
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
            // Some take the port before for what is not asked of them.
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

    /// Ends it as a crash would.
    pub(crate) fn crash(&self) {
        self.running.take();
    }

    /// Starts it where it was before.
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
                    // TLS is at the next port.
                    let port = (port - u16::from(secure)).to_string();
                    // `-d`: a PUT or POST to a new path creates a resource.
                    command.args(["-A", "127.0.0.1", "-p", &port, "-d", "10"]);
                    if let Some(files) = files {
                        // `-n`: of clients it wants no certificate.
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

    /// Where requests to it go.
    pub(crate) fn to(&self) -> To {
        To {
            transport: self.transport,
            port: self.port,
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
