//! Clients of Carob and the peers; each request is one process.

use std::{ffi::OsString, fmt::Write as _, fs, path::Path, process::Command, time::Duration};

use crate::interop::transport::{Certificates, To, Transport};
use crate::{
    installed::Peer,
    process::{Running, Scratch},
};

/// Limit for a request over loopback on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);
/// How long a client may run beyond its response timeout.
const GRACE: Duration = Duration::from_secs(10);
/// Option number of No-Response (RFC 7967 2).
const NO_RESPONSE: u16 = 258;

/// One request.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    method: &'static str,
    path: &'a str,
    payload: Option<&'a [u8]>,
    non: bool,
    accept: Option<u16>,
    if_match: Option<&'a [u8]>,
    if_none_match: bool,
    etag: Option<&'a [u8]>,
    block_size: Option<u16>,
    option: Option<(u16, &'a [u8])>,
    connection: Connection,
    limit: Duration,
}

/// Variants of connection setup.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connection {
    /// Default: trusts the CA of the test's certificates.
    Usual,
    /// Sends no CSM, if the client can omit it.
    WithoutCsm,
    /// Trusts another CA than the server's.
    TrustingStrangers,
}

impl<'a> Ask<'a> {
    /// `method` in lower case, such as `ipatch`; `path` without its leading slash.
    pub(crate) fn new(method: &'static str, path: &'a str) -> Self {
        Self {
            method,
            path,
            payload: None,
            non: false,
            accept: None,
            if_match: None,
            if_none_match: false,
            etag: None,
            block_size: None,
            option: None,
            connection: Connection::Usual,
            limit: LIMIT,
        }
    }

    pub(crate) fn payload(self, payload: &'a [u8]) -> Self {
        let payload = Some(payload);
        Self { payload, ..self }
    }

    pub(crate) fn non(self) -> Self {
        Self { non: true, ..self }
    }

    pub(crate) fn accept(self, format: u16) -> Self {
        let accept = Some(format);
        Self { accept, ..self }
    }

    pub(crate) fn if_match(self, etag: &'a [u8]) -> Self {
        let if_match = Some(etag);
        Self { if_match, ..self }
    }

    pub(crate) fn if_none_match(self) -> Self {
        Self {
            if_none_match: true,
            ..self
        }
    }

    /// The entity tag of a cached representation.
    pub(crate) fn etag(self, etag: &'a [u8]) -> Self {
        let etag = Some(etag);
        Self { etag, ..self }
    }

    /// Sets the requested block size.
    pub(crate) fn block_size(self, bytes: u16) -> Self {
        let block_size = Some(bytes);
        Self { block_size, ..self }
    }

    /// Adds an option by number.
    pub(crate) fn option(self, number: u16, value: &'a [u8]) -> Self {
        let option = Some((number, value));
        Self { option, ..self }
    }

    pub(crate) fn connection(self, connection: Connection) -> Self {
        Self { connection, ..self }
    }

    /// Sets the response timeout.
    pub(crate) fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }
}

impl core::fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Without the payload, which may be a mebibyte.
        write!(f, "{} {}", self.method, self.path)
    }
}

/// A response as reported by the client.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Such as `2.05`, or `2` if the client reports only that the request succeeded.
    pub(crate) code: String,
    pub(crate) payload: Vec<u8>,
    /// None if the client does not report it.
    pub(crate) etag: Option<Vec<u8>>,
    /// The client's output, for failure messages.
    pub(crate) said: String,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        self.code.starts_with('2')
    }

    /// Whether the code is this 2.xx, as far as the client reports it.
    pub(crate) fn succeeded_with(&self, code: &str) -> bool {
        self.code == code || self.code == "2"
    }
}

/// An implementation, as client or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Client {
    Carob,
    Of(Peer),
}

impl Client {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Carob => "Carob",
            Self::Of(peer) => peer.name(),
        }
    }

    /// Runs the client to completion and expects a response.
    pub(crate) fn ask(self, scratch: &Scratch, to: To, ask: &Ask<'_>) -> Answer {
        self.try_ask(scratch, to, ask)
            .unwrap_or_else(|said| panic!("{ask:?} was not answered: {said}"))
    }

    /// Runs the client to completion; without a response, returns its output.
    pub(crate) fn try_ask(
        self,
        scratch: &Scratch,
        to: To,
        ask: &Ask<'_>,
    ) -> Result<Answer, String> {
        let payload = ask.payload.map(|bytes| scratch.with("request", bytes));
        let output = scratch.path("response");
        let _ = fs::remove_file(&output);
        let uri = to.uri(ask.path);
        let mut command = self.command(ask, &uri, to.transport);
        self.trust(&mut command, scratch, to.transport, ask.connection);
        let (file, output_to) = match self {
            Self::Carob => ("--file", "--output"),
            Self::Of(Peer::Libcoap) => ("-f", "-o"),
            Self::Of(_) => ("--payload", "--output"),
        };
        if let Some(payload) = payload {
            command.arg(file).arg(payload);
        }
        command.arg(output_to).arg(&output);
        if self == Self::Of(Peer::Libcoap) {
            // libcoap's client accepts no options after the URI.
            command.arg(&uri);
        }
        let mut running = Running::start(&mut command, scratch, "client");
        let status = running.finish(ask.limit + GRACE);
        let (stdout, stderr) = (running.stdout(), running.stderr());
        let unanswered = || format!("{status}\n{}", running.output());
        let code = match self {
            // 0, 1 and 5 report a response, the others none.
            Self::Carob if matches!(status.code(), Some(0 | 1 | 5)) => {
                return parse_carob_answer(&stdout, &output, running.output())
                    .ok_or_else(unanswered);
            }
            // libcoap's client always exits with 0 and reports codes of errors only.
            Self::Of(Peer::Libcoap) if status.success() => {
                code_line(&stderr).unwrap_or_else(|| "2".to_owned())
            }
            Self::Of(_) if status.success() => code_line(&stdout).ok_or_else(unanswered)?,
            _ => return Err(unanswered()),
        };
        Ok(Answer {
            code,
            payload: fs::read(&output).unwrap_or_default(),
            etag: etag_line(&stdout),
            said: running.output(),
        })
    }

    /// The client's command line. libcoap's client has its own option names; the programs on the peers' libraries use
    /// those of `carob` (see README.md).
    fn command(self, ask: &Ask<'_>, uri: &str, transport: Transport) -> Command {
        let is_libcoap = self == Self::Of(Peer::Libcoap);
        let seconds = ask.limit.as_secs().to_string();
        let mut command = match self {
            Self::Carob => Command::new(env!("CARGO_BIN_EXE_carob")),
            Self::Of(Peer::Libcoap) => libcoap_client(transport),
            Self::Of(peer) => program(peer, "client"),
        };
        match self {
            Self::Carob => command.args([ask.method, uri, "--json"]),
            Self::Of(Peer::Libcoap) => command.args(["-m", ask.method, "-B", &seconds]),
            Self::Of(_) => command.args([ask.method, uri, "--timeout", &seconds]),
        };
        let option = |name: &str, value: Option<String>, number: u16, bytes: &[u8]| {
            if is_libcoap {
                let prefix = if bytes.is_empty() { "" } else { "0x" };
                let value = format!("{number},{prefix}{}", hex(bytes));
                return vec!["-O".to_owned(), value];
            }
            std::iter::once(name.to_owned()).chain(value).collect()
        };
        if let Some(etag) = ask.if_match {
            // The empty value matches any representation (RFC 7252 5.10.8.1).
            let is_any = self == Self::Carob && etag.is_empty();
            let tag = if is_any { "any".to_owned() } else { hex(etag) };
            command.args(option("--if-match", Some(tag), 1, etag));
        }
        if ask.if_none_match {
            command.args(option("--if-none-match", None, 5, &[]));
        }
        if let Some(etag) = ask.etag {
            command.args(option("--etag", Some(hex(etag)), 4, etag));
        }
        match ask.option {
            // With its named option, `carob` does not wait for a response.
            Some((NO_RESPONSE, [2])) if self == Self::Carob => {
                command.arg("--no-response=2xx");
            }
            Some((number, value)) => {
                let prefix = if self == Self::Carob { "0x" } else { "" };
                let named = format!("{number}={prefix}{}", hex(value));
                command.args(option("--option", Some(named), number, value));
            }
            None => {}
        }
        if ask.non {
            command.arg(if is_libcoap { "-N" } else { "--non" });
        }
        if let Some(format) = ask.accept {
            let name = if is_libcoap { "-A" } else { "--accept" };
            command.args([name, &format.to_string()]);
        }
        let block = match ask.block_size {
            // Over connections, libcoap is to use messages as large as the server accepts.
            _ if is_libcoap && transport != Transport::Udp => None,
            None if is_libcoap => Some(1024),
            block => block,
        };
        if let Some(bytes) = block {
            let name = if is_libcoap { "-b" } else { "--block-size" };
            command.args([name, &bytes.to_string()]);
        }
        // Californium's client never sends a CSM.
        if ask.connection == Connection::WithoutCsm && self == Self::Of(Peer::GoCoap) {
            command.arg("--no-csm");
        }
        command
    }

    /// Adds the trusted CA for TLS.
    pub(crate) fn trust(
        self,
        command: &mut Command,
        scratch: &Scratch,
        transport: Transport,
        connection: Connection,
    ) {
        if !transport.is_secure() {
            return;
        }
        let files = Certificates::write(scratch);
        let trusted = if connection == Connection::TrustingStrangers {
            files.stranger
        } else {
            files.authority
        };
        let option = match self {
            Self::Of(Peer::Libcoap) => "-C",
            _ => "--ca",
        };
        command.arg(option).arg(trusted);
    }
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
    let mut command = program(peer, "client");
    command.args(["many", &to.uri(first), "--then", then]);
    command.args(["--count", &count.to_string()]);
    Client::Of(peer).trust(&mut command, scratch, to.transport, Connection::Usual);
    let mut running = Running::start(&mut command, scratch, "client");
    let status = running.finish(LIMIT);
    assert!(status.success(), "{status}\n{}", running.output());
    running.stdout().lines().map(str::to_owned).collect()
}

/// Sends a ping; panics without a reply.
pub(crate) fn ping(client: Client, scratch: &Scratch, to: To) {
    let mut command = match client {
        Client::Carob => Command::new(env!("CARGO_BIN_EXE_carob")),
        Client::Of(peer) => program(peer, "client"),
    };
    command.args(["ping", &to.uri("")]);
    client.trust(&mut command, scratch, to.transport, Connection::Usual);
    let mut running = Running::start(&mut command, scratch, "ping");
    let status = running.finish(LIMIT);
    assert!(status.success(), "{status}\n{}", running.output());
}

/// Links printed by `carob discover`.
pub(crate) fn discover(scratch: &Scratch, port: u16, filter: Option<&str>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
    command.args(["discover", &format!("127.0.0.1:{port}"), "--raw"]);
    if let Some(filter) = filter {
        command.args(["--filter", filter]);
    }
    let mut running = Running::start(&mut command, scratch, "client");
    let status = running.finish(LIMIT);
    assert!(status.success(), "{status}\n{}", running.output());
    running.stdout()
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

/// Parses the JSON output of `carob`.
fn parse_carob_answer(stdout: &str, output: &Path, said: String) -> Option<Answer> {
    let told: serde_json::Value = serde_json::from_str(stdout).ok()?;
    let options = told["options"].as_array()?;
    let etag = options.iter().find(|option| option["name"] == "ETag");
    Some(Answer {
        code: told["code"].as_str()?.to_owned(),
        payload: fs::read(output).unwrap_or_default(),
        etag: etag.and_then(|option| bytes(option["value"].as_str()?)),
        said,
    })
}

/// The entity tag on a line that starts with `etag`.
fn etag_line(text: &str) -> Option<Vec<u8>> {
    bytes(text.lines().find_map(|line| line.strip_prefix("etag "))?)
}

/// Decodes hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes every write
        text
    })
}

/// libcoap's example client for this transport.
pub(crate) fn libcoap_client(transport: Transport) -> Command {
    if transport.is_secure() {
        Command::new("coap-client-openssl")
    } else {
        program(Peer::Libcoap, "client")
    }
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
