//! Clients: Carob's and the peers' commands, Carob's library, and the plugtest programs.

use std::{ffi::OsString, fs, path::Path, process::Command, time::Duration};

use carob::OptionNumber;

use crate::interop::library::{self, block_on};
use crate::interop::requests::{Answer, Ask, Connection, bytes, hex, uint};
use crate::interop::transport::{To, Transport};
use crate::interop::watching::Watch;
use crate::interop::wire::Side;
use crate::plugtest::programs;
use crate::{
    installed::Peer,
    process::{Running, Scratch},
};

/// How long a client may run beyond its response timeout.
const GRACE: Duration = Duration::from_secs(10);

/// An implementation, as client or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Implementation {
    Carob,
    Of(Peer),
}

impl Implementation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Carob => "Carob",
            Self::Of(peer) => peer.name(),
        }
    }

    /// The client's command without arguments.
    pub(crate) fn client(self, transport: Transport) -> Command {
        match self {
            Self::Carob => Command::new(crate::PROGRAM),
            Self::Of(Peer::Libcoap) => Command::new(transport.libcoap("client")),
            Self::Of(peer) => program(peer, "client"),
        }
    }
}

/// A client of a case.
pub(crate) enum Client {
    /// Each request is one process.
    Command(Implementation),
    /// Carob's library.
    Library(carob::Client),
    /// A client in a plugtest program.
    Program(programs::Client),
}

impl Client {
    /// Sends a request; without a response, returns the reason.
    pub(crate) fn try_ask(&self, scratch: &Scratch, to: To, ask: &Ask) -> Result<Answer, String> {
        match self {
            Self::Command(of) => by_command(*of, scratch, to, ask),
            Self::Library(client) => {
                let answered = block_on(async { library::request(client, to, ask).await });
                let response = answered.map_err(|error| error.to_string())?;
                Ok(Answer::of(&response))
            }
            Self::Program(client) => client.ask(to, ask),
        }
    }

    /// Sends a request and expects a response.
    pub(crate) fn ask(&self, scratch: &Scratch, to: To, ask: &Ask) -> Answer {
        self.try_ask(scratch, to, ask)
            .unwrap_or_else(|said| panic!("{ask:?} was not answered: {said}"))
    }

    /// Sends a ping; panics without a reply.
    pub(crate) fn ping(&self, scratch: &Scratch, to: To) {
        match self {
            Self::Command(of) => {
                let over = to.transport;
                let mut command = of.client(over);
                command.args(["ping", &to.uri("")]);
                over.add_credentials(&mut command, *of, Side::Client, Connection::Usual, scratch);
                Running::complete(&mut command);
            }
            Self::Library(client) => {
                block_on(async { client.ping(to.uri("")).await }).expect("an answer");
            }
            Self::Program(client) => client.ping(to),
        }
    }

    /// Registers an observation.
    pub(crate) fn observe(&self, to: To, ask: &Ask) -> Watch {
        match self {
            Self::Command(_) => panic!("commands are started in the background: `Watching`"),
            Self::Library(client) => {
                let registered =
                    block_on(async { library::request(client, to, ask).observe().await });
                Watch::Library(registered.expect("the registration is answered"))
            }
            Self::Program(client) => Watch::Program(client.observe(to, ask)),
        }
    }
}

/// Runs the client's command to completion; without a response, returns its output.
fn by_command(of: Implementation, scratch: &Scratch, to: To, ask: &Ask) -> Result<Answer, String> {
    let output = scratch.path("response");
    let _ = fs::remove_file(&output);
    let uri = to.uri(&ask.path);
    let mut command = command(of, ask, &uri, to.transport);
    (to.transport).add_credentials(&mut command, of, Side::Client, ask.connection, scratch);
    let (file, output_to) = match of {
        Implementation::Carob => ("--file", "--output"),
        Implementation::Of(Peer::Libcoap) => ("-f", "-o"),
        Implementation::Of(_) => ("--payload", "--output"),
    };
    if !ask.payload.is_empty() {
        command.arg(file).arg(scratch.with("request", &ask.payload));
    }
    command.arg(output_to).arg(&output);
    if of == Implementation::Of(Peer::Libcoap) {
        // libcoap's client accepts no options after the URI.
        command.arg(&uri);
    }
    let ran = Running::spawn(&mut command).finish_within(ask.limit + GRACE);
    let said = format!("{ran:?}");
    let (stdout, is_success) = (ran.text(), ran.code == Some(0));
    let (code, etag) = match of {
        // 0, 1 and 5 report a response, the others none.
        Implementation::Carob if matches!(ran.code, Some(0 | 1 | 5)) => {
            parse_carob_answer(&stdout).ok_or(&said)?
        }
        // libcoap's client always exits with 0 and reports codes of errors only.
        Implementation::Of(Peer::Libcoap) if is_success => {
            let code = code_line(&ran.stderr).unwrap_or_else(|| "2".to_owned());
            (code, None)
        }
        Implementation::Of(_) if is_success => {
            let code = code_line(&stdout).ok_or(&said)?;
            let etag = stdout.lines().find_map(|line| line.strip_prefix("etag "));
            (code, etag.and_then(bytes))
        }
        _ => return Err(said),
    };
    Ok(Answer {
        code,
        etag,
        payload: fs::read(&output).unwrap_or_default(),
        said,
        ..Answer::default()
    })
}

/// The client's command line. libcoap's client has its own option names; the programs on the peers' libraries use
/// those of `carob` (see README.md).
fn command(of: Implementation, ask: &Ask, uri: &str, transport: Transport) -> Command {
    let is_libcoap = of == Implementation::Of(Peer::Libcoap);
    let seconds = ask.limit.as_secs().to_string();
    let method = ask.method.name().unwrap_or_default().to_lowercase();
    let mut command = of.client(transport);
    match of {
        Implementation::Carob => command.args([&method, uri, "--json"]),
        Implementation::Of(Peer::Libcoap) => command.args(["-m", &method, "-B", &seconds]),
        Implementation::Of(_) => {
            let proxy = ask.proxy.map(|port| format!("coap://127.0.0.1:{port}/"));
            let to = proxy.as_deref().unwrap_or(uri);
            command.args([&method, to, "--timeout", &seconds])
        }
    };
    if of == Implementation::Carob && matches!(transport, Transport::Dtls { .. }) {
        // Controllers apply to DTLS as they do to UDP.
        command.args(["--cc", "cocoa-plus"]);
    }
    if let Some(port) = ask.proxy {
        let proxy = format!("coap://127.0.0.1:{port}");
        match of {
            Implementation::Carob => command.args(["--proxy", &proxy]),
            Implementation::Of(Peer::Libcoap) => command.args(["-P", &proxy]),
            Implementation::Of(_) => {
                let number = OptionNumber::PROXY_URI.0;
                command.args(["--option", &format!("{number}={}", hex(uri.as_bytes()))])
            }
        };
    }
    for (number, value) in &ask.options {
        let digits = hex(value);
        let prefix = if value.is_empty() { "" } else { "0x" };
        match (*number, of) {
            (OptionNumber(n), Implementation::Of(Peer::Libcoap)) => {
                command.args(["-O", &format!("{n},{prefix}{digits}")])
            }
            (OptionNumber::IF_NONE_MATCH, _) => command.arg("--if-none-match"),
            (OptionNumber::IF_MATCH, Implementation::Carob) if value.is_empty() => {
                command.args(["--if-match", "any"])
            }
            (OptionNumber::IF_MATCH, _) => command.args(["--if-match", &digits]),
            (OptionNumber::ETAG, _) => command.args(["--etag", &digits]),
            (OptionNumber::ACCEPT, _) => command.args(["--accept", &uint(value).to_string()]),
            // With its named option, `carob` does not wait for a response.
            (OptionNumber::NO_RESPONSE, Implementation::Carob) if value == &[2] => {
                command.arg("--no-response=2xx")
            }
            (OptionNumber(n), Implementation::Carob) => {
                command.args(["--option", &format!("{n}={prefix}{digits}")])
            }
            (OptionNumber(n), _) => command.args(["--option", &format!("{n}={digits}")]),
        };
    }
    if ask.non {
        command.arg(if is_libcoap { "-N" } else { "--non" });
    }
    let block = match ask.block_size {
        // Over connections, libcoap is to use messages as large as the server accepts.
        _ if is_libcoap && !matches!(transport, Transport::Udp | Transport::Dtls { .. }) => None,
        None if is_libcoap => Some(1024),
        block => block,
    };
    if let Some(bytes) = block {
        let name = if is_libcoap { "-b" } else { "--block-size" };
        command.args([name, &bytes.to_string()]);
    }
    // Californium's client never sends a CSM.
    if ask.connection == Connection::WithoutCsm && of == Implementation::Of(Peer::GoCoap) {
        command.arg("--no-csm");
    }
    command
}

/// Requests `first` and then, pipelined on the same connection, `count` times `then`. Returns the responses in order
/// of arrival, as `first 2.05` or `then 2.05`.
pub(crate) fn many(
    peer: Peer,
    scratch: &Scratch,
    to: To,
    first: &str,
    then: &str,
    count: usize,
) -> Vec<String> {
    let of = Implementation::Of(peer);
    let mut command = of.client(to.transport);
    command.args(["many", &to.uri(first), "--then", then]);
    command.args(["--count", &count.to_string()]);
    (to.transport).add_credentials(&mut command, of, Side::Client, Connection::Usual, scratch);
    let ran = Running::complete(&mut command);
    ran.text().lines().map(str::to_owned).collect()
}

/// Links printed by `carob discover`.
pub(crate) fn discover(to: To, filter: Option<&str>) -> String {
    let mut command = Command::new(crate::PROGRAM);
    command.args(["discover", &to.uri(""), "--raw"]);
    if let Some(filter) = filter {
        command.args(["--filter", filter]);
    }
    Running::complete(&mut command).text()
}

/// The first line that starts with a response code.
pub(crate) fn code_line(text: &str) -> Option<String> {
    let code = text.lines().find_map(|line| match line.as_bytes() {
        [b'2' | b'4' | b'5', b'.', tens, ones, ..] if (*tens, *ones) <= (b'3', b'9') => {
            line.get(..4)
        }
        _ => None,
    });
    code.map(str::to_owned)
}

/// Code and entity tag in the JSON output of `carob`.
fn parse_carob_answer(stdout: &str) -> Option<(String, Option<Vec<u8>>)> {
    let told: serde_json::Value = serde_json::from_str(stdout).ok()?;
    let options = told["options"].as_array()?;
    let etag = options.iter().find(|option| option["name"] == "ETag");
    let etag = etag.and_then(|option| bytes(option["value"].as_str()?));
    Some((told["code"].as_str()?.to_owned(), etag))
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .ancestors()
        .nth(2)
        .expect("this package is two folders down")
}

/// A peer's `client`, `server` or `plugtest` program: libcoap's own, or the one on the peer's library.
pub(crate) fn program(peer: Peer, name: &str) -> Command {
    let built = peer.built(root());
    match peer {
        Peer::Libcoap => Command::new(format!("coap-{name}-notls")),
        Peer::Aiocoap => {
            let mut command = Command::new(built.join("venv/bin/python"));
            command.arg(peer.sources(root()).join(format!("{name}.py")));
            command
        }
        Peer::Californium => {
            let class = match name {
                "client" => "interop.Client",
                "plugtest" => "plugtest.Peer",
                _ => "interop.Server",
            };
            let mut path = OsString::from(built.join("classes"));
            path.push(":");
            path.push(built.join("lib/*"));
            let mut command = Command::new("java");
            // For a fast start: one compiler tier and the serial collector.
            command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
            command.arg(path).arg(class);
            command
        }
        Peer::GoCoap => Command::new(built.join(name)),
    }
}
