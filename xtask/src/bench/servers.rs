//! Servers of the benchmarks, each on core 0, and their generators on core 1.

use std::{
    ffi::OsString,
    fs,
    net::UdpSocket,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    carob, peers,
    process::{self, Server},
    workspace::Workspace,
};

/// A confirmable GET of `/hello` (14 bytes); the paths of small resources have five letters.
const GET_HELLO: &[u8] = b"\x44\x01\x00\x01prob\xb5hello";
/// An empty confirmable message: any answer shows that a server runs.
const PING: &[u8] = b"\x40\x00\x00\x01";
const PAYLOAD_BYTES: usize = 32;
/// A MiB in which each byte is the low byte of its offset; the generator checks it.
const BODY: usize = 1 << 20;
/// Ports of servers, below the ports of the generator.
const SERVER_PORTS: std::ops::Range<u16> = 5700..9999;
const FIRST_SOURCE_PORT: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// 32 bytes.
    Small,
    /// A resource with observers that changes on request.
    Observed,
    /// 1 MiB.
    Body,
}

/// Path of a resource.
pub(super) fn path(server: &str, resource: Resource) -> &'static str {
    match (server, resource) {
        ("handler", Resource::Small) | ("carob", Resource::Observed) => "count",
        (_, Resource::Small) => "hello",
        ("libcoap", Resource::Observed) => "example_data",
        (_, Resource::Observed) => "told",
        ("californium", Resource::Body) => "pattern",
        (_, Resource::Body) => "large",
    }
}

/// A running server, and the source port at which its generator continues: a Message ID must not recur on a port.
pub(super) struct Running {
    pub(super) name: &'static str,
    server: Server,
    port: u16,
    path: &'static str,
    next_source_port: u64,
}

/// Programs of the benchmarks.
pub(super) struct Tools {
    carob: PathBuf,
    generator: PathBuf,
    bare: PathBuf,
    body: PathBuf,
    californium: Option<PathBuf>,
}

fn on_core(core: u8, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("taskset");
    command
        .args(["-c", &core.to_string()])
        .arg(program.as_ref());
    command
}

pub(super) fn number(slice: &Value, key: &str) -> f64 {
    slice[key].as_f64().unwrap_or(f64::NAN)
}

impl Tools {
    pub(super) fn build(workspace: &Workspace) -> Result<Self> {
        ensure!(
            process::find("taskset").is_some() && std::thread::available_parallelism()?.get() > 1,
            "two cores and `taskset` are needed (Debian: `apt-get install util-linux`)"
        );
        carob::build(workspace)?;
        let target = workspace.target()?;
        let tools = target.join("bench-tools");
        let source = workspace.root.join("tools/coapload");
        let compile = |name: &str| process::compile_c(&source.join(name), &tools, &[]);
        let (generator, bare) = (compile("coapload.c")?, compile("udplimit.c")?);
        let body = tools.join("body");
        fs::write(&body, (0..BODY).map(|at| at as u8).collect::<Vec<u8>>())?;
        Ok(Self {
            carob: target.join("release/carob"),
            generator,
            bare,
            body,
            californium: peers::californium(workspace),
        })
    }

    /// The command of a server; `None` if it is not installed.
    fn command(&self, name: &str, resource: Resource, port: u16) -> Option<Command> {
        let number = port.to_string();
        let mut command;
        match name {
            "bare" => {
                command = on_core(0, &self.bare);
                command.args(["rs", &number]);
            }
            "libcoap" => {
                process::find("coap-server-notls")?;
                command = on_core(0, "coap-server-notls");
                // `-N`: notifications are NON, except each fifth. `-d`: a PUT may create a resource.
                let observed: &[&str] = if resource == Resource::Observed {
                    &["-N"]
                } else {
                    &["-d", "2"]
                };
                command
                    .args(["-A", "127.0.0.1", "-p", &number])
                    .args(observed);
            }
            "californium" => {
                let built = self.californium.as_ref()?;
                let mut path = OsString::from(built.join("classes"));
                path.push(":");
                path.push(built.join("lib/*"));
                command = on_core(0, "java");
                command.arg("-cp").arg(path);
                command.args(["interop.Server", &number, "--bench", "yes"]);
            }
            _ => {
                command = on_core(0, &self.carob);
                command.args(["serve", "--bind", &format!("127.0.0.1:{port}")]);
            }
        }
        Some(command)
    }

    /// Starts a server with its resource; `None` if it is not installed.
    pub(super) fn start(
        &self,
        name: &'static str,
        resource: Resource,
        controller: Option<&str>,
    ) -> Result<Option<Running>> {
        let mut ports = SERVER_PORTS;
        let port = ports.find(|port| UdpSocket::bind(("127.0.0.1", *port)).is_ok());
        let port = port.context("no free port between 5700 and 9999")?;
        let Some(mut command) = self.command(name, resource, port) else {
            println!("skipped: {name} (install: cargo xtask peers)");
            return Ok(None);
        };
        if let (Some(controller), "carob" | "handler") = (controller, name) {
            command.args(["--cc", controller]);
        }
        let mut server = Server::start(name, &mut command)?;
        match (name, resource) {
            ("bare", _) => {}
            _ => drop(server.wait_for_answer(port, PING)?),
        }
        match (name, resource) {
            // libcoap has no such resources.
            ("libcoap", Resource::Small) => {
                let put = [
                    b"\x44\x03\x00\x02make\xb5hello\xff",
                    &[b'h'; PAYLOAD_BYTES][..],
                ]
                .concat();
                server.wait_for_answer(port, &put)?;
            }
            ("libcoap", Resource::Body) => {
                let mut put = Command::new(&self.carob);
                put.args(["put", &format!("coap://127.0.0.1:{port}/large"), "--file"]);
                process::output(put.arg(&self.body))?;
            }
            _ => {}
        }
        if resource == Resource::Small && name != "handler" {
            let answer = server.wait_for_answer(port, GET_HELLO)?;
            let payload = answer.len().checked_sub(PAYLOAD_BYTES + 1);
            let is_content = answer.get(1) == Some(&0x45);
            ensure!(
                is_content && payload.is_some_and(|at| answer[at] == 0xff),
                "{name}: GET /hello is not answered by 2.05 with {PAYLOAD_BYTES} bytes"
            );
        }
        Ok(Some(Running {
            name,
            server,
            port,
            path: path(name, resource),
            next_source_port: FIRST_SOURCE_PORT,
        }))
    }

    /// Runs coapload once against a server.
    pub(super) fn load(&self, server: &mut Running, mode: &[&str]) -> Result<Value> {
        let mut command = on_core(1, &self.generator);
        command
            .args(["-u", server.path, "-p", &server.port.to_string()])
            .args(["-P", &server.server.id().to_string()])
            .args(["-b", &server.next_source_port.to_string()])
            .args(mode);
        let slice = json(&mut command)?;
        server.next_source_port = slice["nextport"].as_u64().unwrap_or(FIRST_SOURCE_PORT);
        for key in ["bad", "badcode"] {
            let count = slice[key].as_u64().unwrap_or(0);
            ensure!(
                count == 0,
                "{}: {count} wrong answers (`{key}`)",
                server.name
            );
        }
        Ok(slice)
    }

    /// Runs coapload once against a fresh server; `None` if it is not installed.
    pub(super) fn load_fresh(
        &self,
        name: &'static str,
        resource: Resource,
        mode: &[&str],
    ) -> Result<Option<Value>> {
        let server = self.start(name, resource, None)?;
        server
            .map(|mut server| self.load(&mut server, mode))
            .transpose()
    }

    /// Runs `carob bench` once against a fresh server.
    pub(super) fn carob_bench(&self, name: &'static str, seconds: f64) -> Result<Value> {
        let server = self.start(name, Resource::Small, None)?;
        let server = server.context("the server is not installed")?;
        let mut command = on_core(1, &self.carob);
        command
            .arg("bench")
            .arg(format!("coap://127.0.0.1:{}/hello", server.port))
            .args(["--outstanding", "64", "--ports", "16"])
            .args(["--duration", &format!("{seconds}s")])
            .args(["--warm-up", "500ms", "--json"])
            .args(["--server-pid", &server.server.id().to_string()]);
        let report = json(&mut command)?;
        for counts in ["/errors/total", "/messages/wrong/total"] {
            let count = report.pointer(counts).and_then(Value::as_u64);
            ensure!(count == Some(0), "{name}: {report}");
        }
        Ok(report)
    }
}

fn json(command: &mut Command) -> Result<Value> {
    let text = process::output(command)?;
    serde_json::from_str(text.trim()).with_context(|| format!("no JSON: {text:?}"))
}
