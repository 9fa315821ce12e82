//! A flood from a million source addresses, all on loopback: what a server's memory does, how those fare
//! who ask meanwhile, and whether everything works afterwards.
//!
//! Any user may bind any address of 127.0.0.0/8, so every source is a socket of its own: bound, used for
//! one datagram of each kind, and closed. Nothing leaves the machine.

use std::{
    fmt::Write as _,
    fs,
    net::{SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    carob,
    metrics::Metrics,
    process::{self, Server},
    workspace::Workspace,
};

/// Sources of a flood.
const SOURCES: u32 = 1_000_000;
/// The first of them, 127.16.0.0.
const FIRST: u32 = 0x7f10_0000;
/// Limit of the server's memory at any time, in MiB: its own 20, and the sum of its limits for this
/// flood. The sum is in docs/overload.md.
const LINE: u64 = 320;
/// Requests a second of each client that asks meanwhile.
const HONEST: &str = "200/s";

/// Those that ask meanwhile: what they are called, and their options.
const CLIENTS: [(&str, &[&str]); 2] = [
    ("client during the flood, default timers", &[]),
    (
        "client during the flood, `--profile lan`",
        &["--profile", "lan"],
    ),
];

/// Configuration of the server and result expected of a flood.
struct Setting {
    name: &'static str,
    options: &'static [&'static str],
    /// True if the memory limit applies, and others must be served during and after the flood.
    held: bool,
}

const SETTINGS: [Setting; 4] = [
    Setting {
        name: "default limits (no amplification limit on loopback)",
        options: &[],
        held: true,
    },
    Setting {
        name: "amplification limit on loopback",
        options: &["--amplification-limit", "127.0.0.0/8=on"],
        held: true,
    },
    Setting {
        name: "amplification limit and 50 requests/s per source",
        options: &[
            "--amplification-limit",
            "127.0.0.0/8=on",
            "--limit",
            "request_rate=50",
        ],
        held: true,
    },
    Setting {
        name: "without quotas",
        options: &[
            "--limit",
            "unvalidated_share=100",
            "--limit",
            "source_share=100",
        ],
        held: false,
    },
];

/// Datagrams of each source and their port: that of `coap`, or of `coaps`.
fn datagrams() -> Vec<(&'static str, bool, Vec<u8>)> {
    // Each with a Message ID of its own, or it would be taken for a copy of another.
    let mut id = 0;
    let mut message = |first: u8, code: u8, rest: &[u8]| {
        id += 1;
        let mut bytes = vec![first | 2, code, 0x12, id, 0xaa, 0xbb];
        bytes.extend_from_slice(rest);
        bytes
    };
    let block = [&b"\xb4echo\xd1\x03\x0e\xff"[..], &[7; 1_024]].concat();
    vec![
        ("CON GET", false, message(0x40, 1, b"\xb5hello")),
        (
            "CON GET with a response after 1.5 s",
            false,
            message(0x40, 1, b"\xb4slow"),
        ),
        (
            "NON POST",
            false,
            message(0x50, 2, b"\xb4echo\xff0123456789"),
        ),
        (
            "CON POST",
            false,
            message(0x40, 2, b"\xb4echo\xff0123456789"),
        ),
        ("registration", false, message(0x40, 1, b"\x60\x54time")),
        ("first block of a body", false, message(0x40, 3, &block)),
        ("garbage", false, vec![0xff, 0x13, 0x37, 0xab, 0xcd]),
        ("DTLS ClientHello", true, hello()),
    ]
}

/// The first message of a handshake with TLS_PSK_WITH_AES_128_CCM_8.
fn hello() -> Vec<u8> {
    let mut body = vec![0xfe, 0xfd];
    body.extend_from_slice(&[9; 32]);
    body.extend_from_slice(&[0, 0, 0, 2, 0xc0, 0xa8, 1, 0, 0, 4, 0, 23, 0, 0]);
    let length = &(body.len() as u32).to_be_bytes()[1..];
    let message = [&[1][..], length, &[0; 5], length, &body].concat();
    let mut record = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0];
    record.extend_from_slice(&(message.len() as u16).to_be_bytes());
    record.extend_from_slice(&message);
    record
}

/// Result of one flood.
struct Outcome {
    sent: u64,
    took: Duration,
    before: u64,
    highest: u64,
    after: u64,
    /// One for each of [`CLIENTS`].
    honest: Vec<Value>,
    /// Datagrams that the system dropped because the server's socket for `coap` was full.
    dropped: f64,
    served: Vec<(&'static str, Option<Duration>)>,
}

/// Runs all floods and writes what they show.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    carob::build(workspace)?;
    let program = workspace.root.join("target/release/carob");
    let mut text = format!(
        "# Request flood from {SOURCES} sources\n\n\
        Each source, an address of 127.0.0.0/8, sends one datagram of each kind to `carob serve`, and closes its\n\
        socket. Two clients at 127.0.0.1 send GETs of `/hello` at {HONEST} each (`carob bench`) before, during and after; the\n\
        worst of their runs of 10 s is shown. Memory is VmRSS in MiB. Written by `cargo xtask long flood`; docs/overload.md discusses the results.\n\n\
        Kinds: {}.\n",
        datagrams()
            .iter()
            .map(|(name, ..)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    );
    let mut passed = true;
    for setting in &SETTINGS {
        println!("{} ...", setting.name);
        let outcome = flood(&program, setting)?;
        let part = report(setting, &outcome)?;
        print!("{part}");
        text.push_str(&part);
        let served = outcome.served.iter().all(|(_, took)| took.is_some());
        let good = outcome.highest <= LINE * 1_024 && served;
        passed &= good || !setting.held;
        fs::write(results, &text)?;
    }
    Ok(passed)
}

fn flood(program: &Path, setting: &Setting) -> Result<Outcome> {
    let port = {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.local_addr()?.port()
    };
    let secure = port ^ 1;
    let metrics = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let folder = std::env::temp_dir().join(format!("carob-flood-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let keys = folder.join("keys");
    fs::write(&keys, "me:secret\n")?;
    let mut serve = Command::new(program);
    serve
        .args(["serve", "--bind", &format!("127.0.0.1:{port}")])
        .args(["--dtls", &format!("127.0.0.1:{secure}"), "--psk-file"])
        .arg(&keys)
        .args(["--metrics", &format!("127.0.0.1:{metrics}")])
        .args(setting.options);
    let mut server = Server::start("carob serve", &mut serve)?;
    server.wait_for_answer(port, &[0x40, 0, 0, 1])?;
    let before = process::memory(server.id(), "VmRSS")?;
    let over = AtomicBool::new(false);
    let (sent, took, honest, highest) = thread::scope(|scope| {
        let honest = CLIENTS.map(|(_, options)| {
            let over = &over;
            scope.spawn(move || bench(program, port, options, over))
        });
        let highest = scope.spawn(|| {
            let mut highest = 0;
            while !over.load(Ordering::Relaxed) {
                highest = highest.max(process::memory(server.id(), "VmRSS").unwrap_or(0));
                thread::sleep(Duration::from_millis(50));
            }
            highest
        });
        thread::sleep(Duration::from_secs(2));
        let began = Instant::now();
        let sent = send([port, secure]);
        let took = began.elapsed();
        over.store(true, Ordering::Relaxed);
        let sampled = highest.join().unwrap_or(0);
        let honest: Vec<_> = honest
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        (sent, took, honest, sampled)
    });
    let honest = honest
        .into_iter()
        .map(|one| one.map_err(|_| anyhow::anyhow!("the bench panicked"))?)
        .collect::<Result<_>>()?;
    let dropped =
        Metrics::read(metrics)?.sum("carob_datagrams_dropped_total", &["scheme=\"coap\""]);
    let served = serve_all(program, port, secure, &folder);
    let highest = highest.max(process::memory(server.id(), "VmHWM")?);
    let after = process::memory(server.id(), "VmRSS")?;
    drop(server);
    fs::remove_dir_all(&folder)?;
    Ok(Outcome {
        sent: sent?,
        took,
        before,
        highest,
        after,
        honest,
        dropped,
        served,
    })
}

/// Sends the flood; how many datagrams left.
fn send(ports: [u16; 2]) -> Result<u64> {
    let datagrams = datagrams();
    let to = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let mut sent = 0;
    for source in FIRST..FIRST + SOURCES {
        let socket = UdpSocket::bind(SocketAddr::from((source.to_be_bytes(), 0)))
            .context("an address of 127.0.0.0/8 cannot be bound")?;
        for (_, secure, bytes) in &datagrams {
            // What the system has no room for is lost, as it would be elsewhere.
            sent += u64::from(socket.send_to(bytes, to[usize::from(*secure)]).is_ok());
        }
    }
    Ok(sent)
}

/// Load of a client during the flood; the last run that was wholly within it.
fn bench(program: &Path, port: u16, options: &[&str], over: &AtomicBool) -> Result<Value> {
    let mut all: Vec<Value> = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let mut command = Command::new(program);
        command
            .args(["bench", &format!("coap://127.0.0.1:{port}/hello")])
            .args(["--rate", HONEST, "--duration", "10s", "--warm-up", "0s"])
            .args(["--ports", "4", "--json"])
            .args(options);
        let text = process::output(&mut command)?;
        all.push(serde_json::from_str(&text).context("carob bench printed no JSON")?);
    }
    // The worst of them.
    let key = |value: &Value| value["latency_us"]["p99"].as_f64().unwrap_or(f64::MAX);
    all.into_iter()
        .max_by(|a, b| key(a).total_cmp(&key(b)))
        .context("nothing was measured")
}

/// Requests after the flood and the time of each; `None` for those that fail.
fn serve_all(
    program: &Path,
    port: u16,
    secure: u16,
    folder: &Path,
) -> Vec<(&'static str, Option<Duration>)> {
    let body: PathBuf = folder.join("body");
    let written = fs::write(&body, vec![b'x'; 5_000]);
    let body = body.to_string_lossy().into_owned();
    let uri = |path: &str| format!("coap://127.0.0.1:{port}/{path}");
    let asks: [(&str, Vec<String>); 6] = [
        ("GET", vec!["get".into(), uri("hello")]),
        (
            "GET with a response after 1.5 s",
            vec!["get".into(), uri("slow")],
        ),
        ("POST", vec!["post".into(), uri("count"), "1".into()]),
        (
            "observation of two states",
            vec!["observe".into(), uri("time"), "--count".into(), "2".into()],
        ),
        (
            "PUT of 5,000 bytes",
            vec!["put".into(), uri("echo"), "--file".into(), body],
        ),
        (
            "GET over DTLS",
            vec![
                "get".into(),
                format!("coaps://127.0.0.1:{secure}/hello"),
                "--psk-identity".into(),
                "me".into(),
            ],
        ),
    ];
    asks.into_iter()
        .map(|(name, arguments)| {
            let began = Instant::now();
            let mut command = Command::new(program);
            command.args(&arguments).env("CAROB_PSK", "secret");
            let done = written.is_ok() && process::output(&mut command).is_ok();
            (name, done.then(|| began.elapsed()))
        })
        .collect()
}

fn report(setting: &Setting, outcome: &Outcome) -> Result<String> {
    let mut text = String::new();
    let mib = |kib: u64| kib as f64 / 1_024.0;
    let Outcome {
        sent,
        took,
        before,
        highest,
        after,
        honest,
        dropped,
        served,
    } = outcome;
    ensure!(*sent > 0, "nothing was sent");
    writeln!(text, "\n## {}\n", setting.name)?;
    writeln!(text, "`carob serve {}`\n", setting.options.join(" "))?;
    writeln!(text, "| | |\n|---|---|")?;
    writeln!(
        text,
        "| datagrams sent | {sent} in {:.1} s, {:.0} a second |",
        took.as_secs_f64(),
        *sent as f64 / took.as_secs_f64()
    )?;
    let read_here = datagrams().iter().filter(|(_, secure, _)| !secure).count();
    let to_coap = *sent as f64 * read_here as f64 / datagrams().len() as f64;
    writeln!(
        text,
        "| datagrams to `coap` dropped by the full socket | {dropped:.0} of {to_coap:.0}, {:.1} % |",
        100.0 * dropped / to_coap
    )?;
    writeln!(text, "| memory before | {:.1} |", mib(*before))?;
    writeln!(
        text,
        "| memory maximum | {:.1} (limit of the test: {LINE}) |",
        mib(*highest)
    )?;
    writeln!(text, "| memory afterwards | {:.1} |", mib(*after))?;
    for ((name, _), honest) in CLIENTS.iter().zip(honest) {
        writeln!(text, "| {name} | {} |", fared(honest))?;
    }
    for (name, took) in served {
        match took {
            Some(took) => writeln!(text, "| then: {name} | {:.2} s |", took.as_secs_f64())?,
            None => writeln!(text, "| then: {name} | **failed** |")?,
        }
    }
    Ok(text)
}

fn fared(honest: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let (asked, answered) = (number(&honest["requests"]), number(&honest["answered"]));
    let millis = |name: &str| number(&honest["latency_us"][name]) / 1_000.0;
    format!(
        "{:.3} % of {asked} requests answered, p50 {:.2} ms, p99 {:.2} ms, longest {:.0} ms, {} messages sent, {} \
            of them retransmissions",
        100.0 * answered / asked,
        millis("p50"),
        millis("p99"),
        millis("max"),
        honest["messages"]["sent"],
        honest["messages"]["retransmissions"],
    )
}
