//! Attacks on a real `carob serve` over loopback: a request flood, full tables, and a handshake flood. Any user may bind any
//! address of 127.0.0.0/8, so each source is a socket with its own address. docs/overload.md discusses the results.

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

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{
    carob::{self, Metrics},
    process::{self, Server},
    workspace::Workspace,
};

/// A server with `coap`, `coaps` (a key and a certificate) and metrics.
struct Target {
    program: PathBuf,
    /// Keys and certificate; it is removed at the end.
    folder: PathBuf,
    plain: SocketAddr,
    secure: SocketAddr,
    metrics: u16,
    server: Server,
}

impl Target {
    fn start(workspace: &Workspace, options: &str) -> Result<Self> {
        let free = || UdpSocket::bind("127.0.0.1:0")?.local_addr();
        let (plain, secure) = (free()?, free()?);
        let metrics = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let program = workspace.target()?.join("release/carob");
        let folder = std::env::temp_dir().join(format!("carob-attack-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        fs::write(folder.join("cert.pem"), made.cert.pem())?;
        fs::write(folder.join("key.pem"), made.signing_key.serialize_pem())?;
        fs::write(folder.join("keys"), "me:secret\n")?;
        let mut serve = Command::new(&program);
        serve
            .args([
                "serve",
                "--bind",
                &plain.to_string(),
                "--dtls",
                &secure.to_string(),
            ])
            .args([
                "--psk-file",
                "keys",
                "--cert",
                "cert.pem",
                "--key",
                "key.pem",
            ])
            .args(["--metrics", &format!("127.0.0.1:{metrics}")])
            .args(options.split_whitespace())
            .current_dir(&folder);
        let mut server = Server::start("carob serve", &mut serve)?;
        server.wait_for_answer(plain.port(), &[0x40, 0, 0, 1])?;
        Ok(Self {
            program,
            folder,
            plain,
            secure,
            metrics,
            server,
        })
    }

    /// A value of /proc/PID/status, such as VmRSS, in MiB.
    fn memory(&self, name: &str) -> Result<f64> {
        Ok(process::memory(self.server.id(), name)? as f64 / 1_024.0)
    }

    /// A client with the server's key.
    fn client(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            .env("CAROB_PSK", "secret")
            .current_dir(&self.folder);
        command
    }

    /// A run of `carob bench` of 10 s at 200 requests/s; a request over DTLS has the key.
    fn bench(&self, uri: &str, options: &[&str]) -> Result<Value> {
        let mut bench = self.client(&["bench", uri, "--rate", "200/s", "--duration", "10s"]);
        bench.args(["--warm-up", "0s", "--ports", "4", "--json"]);
        let text = process::output(bench.args(options))?;
        serde_json::from_str(&text).context("carob bench printed no JSON")
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Its files are temporary.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A latency of `carob bench` in milliseconds.
fn millis(report: &Value, name: &str) -> f64 {
    report["latency_us"][name].as_f64().unwrap_or(f64::NAN) / 1_000.0
}

/// A ClientHello (RFC 6347 4.2): cipher suites and extensions are `rest`.
fn client_hello(n: u32, cookie: &[u8], number: u8, rest: &[u8]) -> Vec<u8> {
    let mut body = vec![0xfe, 0xfd];
    body.extend_from_slice(&n.to_be_bytes());
    body.extend_from_slice(&[0x5a; 28]);
    body.extend_from_slice(&[0, cookie.len() as u8]);
    body.extend_from_slice(cookie);
    body.extend_from_slice(rest);
    let length = &(body.len() as u32).to_be_bytes()[1..];
    let message = [&[1][..], length, &[0, number, 0, 0, 0], length, &body].concat();
    let mut record = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, number];
    record.extend_from_slice(&(message.len() as u16).to_be_bytes());
    record.extend_from_slice(&message);
    record
}

/// A CON request with a token of four bytes.
fn request(code: u8, id: u16, token: u32, rest: &[u8]) -> Vec<u8> {
    let (id, token) = (id.to_be_bytes(), token.to_be_bytes());
    [&[0x44, code][..], &id, &token, rest].concat()
}

/// Sources of the flood, from 127.16.0.0 on.
const SOURCES: u32 = 1_000_000;
const FIRST_SOURCE: u32 = 0x7f10_0000;
/// Limit of the server's memory in MiB: its own 20, and the sum of its limits for this traffic (docs/overload.md).
const FLOOD_MIB: f64 = 320.0;
/// Names, options of the server, and true if memory and later requests are judged.
const FLOODS: [(&str, &str, bool); 4] = [
    (
        "default limits (no amplification limit on loopback)",
        "",
        true,
    ),
    (
        "amplification limit on loopback",
        "--amplification-limit 127.0.0.0/8=on",
        true,
    ),
    (
        "amplification limit and 50 requests/s per source",
        "--amplification-limit 127.0.0.0/8=on --limit request_rate=50",
        true,
    ),
    (
        "without quotas",
        "--limit unvalidated_share=100 --limit source_share=100",
        false,
    ),
];
const CLIENTS: [(&str, &[&str]); 2] = [
    ("client during the flood, default timers", &[]),
    (
        "client during the flood, `--cc linux-rto-kernel`",
        &["--cc", "linux-rto-kernel"],
    ),
];

/// Datagrams of each source, the last to the port of `coaps`.
fn datagrams() -> [(&'static str, Vec<u8>); 8] {
    let block = [&b"\xb4echo\xd1\x03\x0e\xff"[..], &[7; 1_024]].concat();
    let hello = [0, 2, 0xc0, 0xa8, 1, 0, 0, 4, 0, 23, 0, 0]; // TLS_PSK_WITH_AES_128_CCM_8
    // Distinct Message IDs, or they would be duplicates.
    let message = |id: u16, code, rest: &[u8]| request(code, id, 0xaabb, rest);
    let mut non = message(3, 2, b"\xb4echo\xff0123456789");
    non[0] |= 0x10;
    [
        ("CON GET", message(1, 1, b"\xb5hello")),
        (
            "CON GET with a response after 1.5 s",
            message(2, 1, b"\xb4slow"),
        ),
        ("NON POST", non),
        ("CON POST", message(4, 2, b"\xb4echo\xff0123456789")),
        ("registration", message(5, 1, b"\x60\x54time")),
        ("first block of a body", message(6, 3, &block)),
        ("garbage", vec![0xff, 0x13, 0x37, 0xab, 0xcd]),
        ("DTLS ClientHello", client_hello(9, &[], 0, &hello)),
    ]
}

/// A flood from a million sources against several settings.
pub(crate) fn flood(workspace: &Workspace, results: &Path, options: &[String]) -> Result<bool> {
    ensure!(options.is_empty(), "`long flood` takes no options");
    carob::build(workspace)?;
    let mut text = format!(
        "# Request flood from {SOURCES} sources\n\n\
        Each source, an address of 127.0.0.0/8, sends one datagram of each kind to `carob serve`, and closes its\n\
        socket. Two clients at 127.0.0.1 send GETs of `/hello` at 200/s each (`carob bench`) before, during and after; the\n\
        worst of their runs of 10 s is shown. Memory is VmRSS in MiB. Written by `cargo xtask long flood`; docs/overload.md discusses the results.\n\n\
        Kinds: {}.\n",
        datagrams().map(|(name, _)| name).join(", ")
    );
    let mut success = true;
    for (name, options, is_judged) in FLOODS {
        println!("{name} ...");
        let target = Target::start(workspace, options)?;
        write!(
            text,
            "\n## {name}\n\n`carob serve {options}`\n\n| | |\n|---|---|\n"
        )?;
        success &= flood_one(&target, &mut text)? || !is_judged;
        fs::write(results, &text)?;
    }
    print!("{text}");
    Ok(success)
}

/// Writes the rows of one flood. Returns true if memory stays below its limit and later requests succeed.
fn flood_one(target: &Target, text: &mut String) -> Result<bool> {
    let before = target.memory("VmRSS")?;
    let over = AtomicBool::new(false);
    let (sent, seconds, clients) = thread::scope(|scope| {
        let clients = CLIENTS.map(|(_, options)| {
            let over = &over;
            scope.spawn(move || worst_bench(target, options, over))
        });
        thread::sleep(Duration::from_secs(2));
        let began = Instant::now();
        let sent = send_flood(target);
        let seconds = began.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        (sent, seconds, clients.map(thread::ScopedJoinHandle::join))
    });
    let sent = sent?;
    let dropped =
        Metrics::read(target.metrics)?.sum("carob_datagrams_dropped_total", &["scheme=\"coap\""]);
    let plain = sent as f64 * 7.0 / 8.0;
    writeln!(
        text,
        "| datagrams sent | {sent} in {seconds:.1} s, {:.0} a second |",
        sent as f64 / seconds
    )?;
    writeln!(
        text,
        "| datagrams to `coap` dropped by the full socket | {dropped:.0} of {plain:.0}, {:.1} % |",
        100.0 * dropped / plain
    )?;
    let later = later_requests(target)?;
    let (highest, after) = (target.memory("VmHWM")?, target.memory("VmRSS")?);
    writeln!(text, "| memory before | {before:.1} |")?;
    writeln!(
        text,
        "| memory maximum | {highest:.1} (limit of the test: {FLOOD_MIB}) |"
    )?;
    writeln!(text, "| memory afterwards | {after:.1} |")?;
    for ((name, _), report) in CLIENTS.iter().zip(clients) {
        let report = report.map_err(|_| anyhow::anyhow!("a client panicked"))??;
        let [requests, answered] = ["requests", "answered"].map(|key| report[key].as_f64());
        let share = 100.0 * answered.unwrap_or(0.0) / requests.unwrap_or(f64::NAN);
        writeln!(
            text,
            "| {name} | {share:.3} % of {} requests answered, p50 {:.2} ms, p99 {:.2} ms, longest {:.0} ms, {} messages sent, {} \
             of them retransmissions |",
            report["requests"],
            millis(&report, "p50"),
            millis(&report, "p99"),
            millis(&report, "max"),
            report["messages"]["sent"],
            report["messages"]["retransmissions"],
        )?;
    }
    for (name, seconds) in &later {
        let seconds = seconds.map_or("**failed**".to_owned(), |seconds| format!("{seconds:.2} s"));
        writeln!(text, "| then: {name} | {seconds} |")?;
    }
    Ok(highest <= FLOOD_MIB && later.iter().all(|(_, seconds)| seconds.is_some()))
}

/// Sends the flood; the number of datagrams that left.
fn send_flood(target: &Target) -> Result<u64> {
    let datagrams = datagrams();
    let mut sent = 0;
    for source in FIRST_SOURCE..FIRST_SOURCE + SOURCES {
        let socket = UdpSocket::bind(SocketAddr::from((source.to_be_bytes(), 0)))?;
        for (place, (_, bytes)) in datagrams.iter().enumerate() {
            let to = if place < 7 {
                target.plain
            } else {
                target.secure
            };
            // A full buffer of the system loses it, as a network would.
            sent += u64::from(socket.send_to(bytes, to).is_ok());
        }
    }
    Ok(sent)
}

/// Runs of a client until the flood is over; the one with the highest p99.
fn worst_bench(target: &Target, options: &[&str], over: &AtomicBool) -> Result<Value> {
    let mut worst = Value::Null;
    while !over.load(Ordering::Relaxed) {
        let report = target.bench(&format!("coap://{}/hello", target.plain), options)?;
        if worst.is_null() || millis(&report, "p99") > millis(&worst, "p99") {
            worst = report;
        }
    }
    Ok(worst)
}

/// Requests after the flood and the seconds of each; `None` for those that fail.
fn later_requests(target: &Target) -> Result<Vec<(&'static str, Option<f64>)>> {
    fs::write(target.folder.join("body"), [b'x'; 5_000])?;
    let plain = |path: &str| format!("coap://{}/{path}", target.plain);
    let secure = format!("coaps://{}/hello", target.secure);
    let mut results = Vec::new();
    for (name, verb, uri, options) in [
        ("GET", "get", plain("hello"), &[][..]),
        ("GET with a response after 1.5 s", "get", plain("slow"), &[]),
        ("POST", "post", plain("count"), &["1"]),
        (
            "observation of two states",
            "observe",
            plain("time"),
            &["--count", "2"],
        ),
        (
            "PUT of 5,000 bytes",
            "put",
            plain("echo"),
            &["--file", "body"],
        ),
        ("GET over DTLS", "get", secure, &["--psk-identity", "me"]),
    ] {
        let began = Instant::now();
        let done = process::output(target.client(&[verb, &uri]).args(options)).is_ok();
        results.push((name, done.then(|| began.elapsed().as_secs_f64())));
    }
    Ok(results)
}

/// Timeout of a response before a message is sent again, and the number of attempts.
const PATIENCE: Duration = Duration::from_millis(500);
const ATTEMPTS: u32 = 20;
/// Outstanding messages of one client.
const WINDOW: usize = 16;
const BLOCK: usize = 1_024;
/// Duration of requests without acknowledged responses, which are given up after 93 s, and their clients: the limit of
/// handlers.
const UNACKNOWLEDGED: Duration = Duration::from_secs(85);
const HANDLERS: u32 = 1_024;
const SESSIONS: &str = "10000";

/// A table: its name, the work that fills it, the metric of its use, and its limit.
type Table = (&'static str, fn(&Target) -> Result<()>, &'static str, u64);

const TABLES: [Table; 7] = [
    (
        "deduplication of POSTs, 200 bytes each way",
        |target| {
            let body = [b"\xb4echo\xff", &[b'x'; 200][..]].concat();
            ask(target, 16, 4_300, |n, id| request(2, id, n, &body))
        },
        "carob_remembered_messages",
        65_536,
    ),
    (
        "deduplication of GETs as well",
        |target| {
            ask(target, 16, 1_100, |n, id| {
                request(1, id + 30_000, n, b"\xb5hello")
            })
        },
        "carob_remembered_messages",
        65_536 + 16_384,
    ),
    (
        "observations with distinct requests",
        |target| {
            // Observe 0, Uri-Path, Uri-Query.
            let registration = |n: u32| format!("\x60\x55count\x48n={n:06}");
            ask(target, 130, 254, |n, id| {
                request(1, id + 40_000, n, registration(n).as_bytes())
            })
        },
        "carob_observers",
        32_768,
    ),
    (
        "partly read response bodies of 1 MiB",
        |target| (0..4).try_for_each(|_| upload(target, 16, true)),
        "carob_body_bytes",
        64 << 20,
    ),
    (
        "incomplete request bodies of 1 MiB",
        |target| upload(target, 64, false),
        "carob_upload_bytes",
        64 << 20,
    ),
    (
        "unacknowledged responses",
        leave_unacknowledged,
        "carob_exchanges_in_progress",
        65_536,
    ),
    (
        "DTLS sessions with a key, each used once",
        |target| {
            let uri = format!("coaps://{}/hello", target.secure);
            let mut bench = target.client(&["bench", &uri, "--psk-identity", "me"]);
            bench.args(["--ports", SESSIONS, "--requests", SESSIONS]);
            process::output(&mut bench).map(drop)
        },
        "carob_handshakes_total",
        10_000,
    ),
];

/// Memory of a server with full tables, beside `MemoryMax` of packaging/carob.service. The unit starts an endpoint of UDP and
/// one of DTLS with equal tables, so that tables of the first count twice; sessions count once.
pub(crate) fn memory(workspace: &Workspace, results: &Path, options: &[String]) -> Result<bool> {
    ensure!(options.is_empty(), "`long memory` takes no options");
    carob::build(workspace)?;
    let allowed = memory_max(workspace)?;
    let quotas = "--limit source_share=100 --limit unvalidated_share=100 --limit handshake_rate=0 --limit handshake_work=100";
    let target = Target::start(workspace, quotas)?;
    let before = target.memory("VmHWM")?;
    let mut text = format!(
        "# Memory with full tables\n\n\
        `carob serve` with the options of the systemd unit, without quotas per source and without limits on handshakes.\n\
        Memory is the maximum so far (VmHWM) in MiB, {before:.1} before. Written by `cargo xtask long memory`.\n\n\
        | table | entries or bytes | of the limit | memory |\n|---|---|---|---|\n"
    );
    let (mut last, mut doubled, mut sessions) = (before, 0.0, 0.0);
    for (name, fill, metric, limit) in TABLES {
        fill(&target).context(name)?;
        // Metrics are at most this old.
        thread::sleep(Duration::from_secs(3));
        let is_session = metric == "carob_handshakes_total";
        let label = if is_session {
            "outcome=\"done\""
        } else {
            "scheme=\"coap\""
        };
        let held = Metrics::read(target.metrics)?.sum(metric, &[label]) as u64;
        let now = target.memory("VmHWM")?;
        *(if is_session {
            &mut sessions
        } else {
            &mut doubled
        }) += now - last;
        last = now;
        let row = format!("| {name} | {held} | {} % | {now:.1} |", 100 * held / limit);
        println!("{row}");
        writeln!(text, "{row}")?;
    }
    let total = before + 2.0 * doubled + sessions;
    writeln!(
        text,
        "\nSum: the tables of the UDP endpoint twice, because the DTLS endpoint has the same, {:.1}; the sessions, {sessions:.1}; and \
        the memory before: {total:.1} of the {allowed} MiB of the unit.",
        2.0 * doubled,
    )?;
    fs::write(results, text)?;
    Ok(total <= allowed)
}

/// The unit's MemoryMax in MiB.
fn memory_max(workspace: &Workspace) -> Result<f64> {
    let unit = fs::read_to_string(workspace.root.join("packaging/carob.service"))?;
    let mut lines = unit.lines();
    let value = lines.find_map(|line| line.strip_prefix("MemoryMax=")?.strip_suffix('M'));
    Ok(value.context("no MemoryMax=...M")?.parse()?)
}

/// Clients, each with its own address.
fn clients(target: &Target, count: u32) -> Result<Vec<UdpSocket>> {
    let client = |n: u32| {
        let socket = UdpSocket::bind(SocketAddr::from(((0x7f40_0000 + n).to_be_bytes(), 0)))?;
        socket.connect(target.plain)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    };
    (1..=count).map(client).collect()
}

/// Makes `each` requests by each client; `make` has the number of a request among all and its Message ID.
fn ask(target: &Target, count: u32, each: u32, make: impl Fn(u32, u16) -> Vec<u8>) -> Result<()> {
    for (client, socket) in clients(target, count)?.iter().enumerate() {
        let first = client as u32 * each;
        let messages: Vec<_> = (0..each).map(|n| make(first + n, n as u16)).collect();
        for some in messages.chunks(WINDOW) {
            let some: Vec<_> = some.iter().map(|message| (socket, message)).collect();
            exchange(&some)?;
        }
    }
    Ok(())
}

/// Sends a body of 1 MiB from each client, or all blocks except the last (RFC 7959 2.2).
fn upload(target: &Target, count: u32, ends: bool) -> Result<()> {
    let clients = clients(target, count)?;
    let blocks = (1 << 20) / BLOCK as u32;
    for number in 0..blocks - u32::from(!ends) {
        let more = u32::from(number + 1 < blocks);
        let value = (number << 4 | more << 3 | 6).to_be_bytes();
        // Block1 (27) is 16 after Uri-Path, always in three bytes.
        let options = [&b"\xb4echo\xd3\x03"[..], &value[1..], &[0xff], &[7; BLOCK]].concat();
        let message = request(3, 50_000 + number as u16, 1, &options);
        let all: Vec<_> = clients.iter().map(|socket| (socket, &message)).collect();
        exchange(&all)?;
    }
    Ok(())
}

/// Requests a resource that takes 1.5 s, and does not acknowledge the responses.
fn leave_unacknowledged(target: &Target) -> Result<()> {
    let clients = clients(target, HANDLERS)?;
    let began = Instant::now();
    for id in 0.. {
        let round = Instant::now();
        if round - began > UNACKNOWLEDGED {
            break;
        }
        for socket in &clients {
            socket.send(&request(1, id, u32::from(id), b"\xb4slow"))?;
        }
        thread::sleep(Duration::from_millis(1_600).saturating_sub(round.elapsed()));
    }
    Ok(())
}

/// Sends messages, each from its socket, until all are acknowledged.
fn exchange(messages: &[(&UdpSocket, &Vec<u8>)]) -> Result<()> {
    let mut left = messages.to_vec();
    let mut buffer = [0; 2_048];
    for _ in 0..ATTEMPTS {
        for (socket, message) in &left {
            // A message that the system drops is sent again.
            let _ = socket.send(message);
        }
        while let Some((socket, _)) = left.first() {
            let socket: &UdpSocket = socket;
            let Ok(length) = socket.recv(&mut buffer) else {
                break;
            };
            // An acknowledgement, with a response or without.
            if length >= 4 && buffer[0] & 0x30 == 0x20 {
                left.retain(|(other, message)| {
                    !std::ptr::eq(*other, socket) || message[2..4] != buffer[2..4]
                });
            }
        }
        if left.is_empty() {
            return Ok(());
        }
    }
    bail!("{} messages were not acknowledged", left.len())
}

/// ClientHellos with cookies that are collected before and then sent in turns, and their rate a second.
const HELLOS: u32 = 6_000;
const RATE: u64 = 20_000;
/// Names, limits, and true if each request must be answered within a second.
const HANDSHAKE_LIMITS: [(&str, &[&str], bool); 3] = [
    (
        "without limits",
        &["handshake_rate=0", "handshake_work=100"],
        false,
    ),
    (
        "half of the processor (as many sources would meet it)",
        &["handshake_rate=0"],
        true,
    ),
    ("as it comes", &[], true),
];

/// A host with a validated address that sends ClientHellos with cookies only: each costs the server a signature. A client has
/// sessions meanwhile.
pub(crate) fn handshakes(
    workspace: &Workspace,
    results: &Path,
    options: &[String],
) -> Result<bool> {
    ensure!(options.is_empty(), "`long handshakes` takes no options");
    carob::build(workspace)?;
    let mut text = format!(
        "# Handshake flood\n\n\
        127.0.0.2 has gathered {HELLOS} cookies and sends hellos with them, up to {RATE} a second, to `carob serve` with an\n\
        ECDSA certificate. A client at 127.0.0.1 has four sessions with a key and asks 200 times a second (`carob bench --ports 4 --rate 200/s --duration 10s --warm-up 0s`).\n\
        Written by `cargo xtask long handshakes`; docs/overload.md discusses the results.\n\n\
        | | hellos a second | of the server's processor | requests answered | p50, p99, longest ms | repeated |\n\
        |---|---|---|---|---|---|\n"
    );
    let mut success = true;
    for (name, limits, is_judged) in HANDSHAKE_LIMITS {
        let join = |form: fn(&&str) -> String| limits.iter().map(form).collect::<Vec<_>>().concat();
        let shown = join(|limit| format!(" `{limit}`"));
        let options = join(|limit| format!("--limit {limit} "));
        let target = Target::start(workspace, &options)?;
        let (socket, hellos) = collect_cookies(target.secure)?;
        let over = AtomicBool::new(false);
        let uri = format!("coaps://{}/hello", target.secure);
        let (report, rate, load) = thread::scope(|scope| -> Result<_> {
            let client = scope.spawn(|| target.bench(&uri, &["--psk-identity", "me"]));
            // Its sessions exist before the first hello.
            thread::sleep(Duration::from_secs(1));
            let sender = scope.spawn(|| send_hellos(&socket, &hellos, &over));
            let (began, cpu) = (Instant::now(), process::cpu_seconds(target.server.id())?);
            let report = client
                .join()
                .map_err(|_| anyhow::anyhow!("the client panicked"))?;
            let seconds = began.elapsed().as_secs_f64();
            let cpu = process::cpu_seconds(target.server.id())? - cpu;
            over.store(true, Ordering::Relaxed);
            let sent = sender.join().unwrap_or(0);
            Ok((report?, sent as f64 / seconds, cpu / seconds))
        })?;
        let [p50, p99, longest] = ["p50", "p99", "max"].map(|name| millis(&report, name));
        let (answered, requests) = (&report["answered"], &report["requests"]);
        let row = format!(
            "| {name}{shown} | {rate:.0} | {:.0} % | {answered} of {requests} | {p50:.2}, {p99:.2}, {longest:.0} | {} |",
            100.0 * load,
            report["messages"]["retransmissions"],
        );
        println!("{row}");
        writeln!(text, "{row}")?;
        success &= !is_judged || (answered == requests && longest < 1_000.0);
    }
    fs::write(results, text)?;
    Ok(success)
}

/// A socket of 127.0.0.2, and ClientHellos with the cookies that it has received.
fn collect_cookies(server: SocketAddr) -> Result<(UdpSocket, Vec<Vec<u8>>)> {
    // TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, no compression, and extensions: P-256, its points, ECDSA with SHA-256 (RFC 8422
    // 5.1), extended master secrets (RFC 7627).
    const REST: &[u8] = &[
        0, 2, 0xc0, 0x2b, 1, 0, 0, 26, 0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 4, 0,
        2, 4, 3, 0, 23, 0, 0,
    ];
    let socket = UdpSocket::bind("127.0.0.2:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let (mut hellos, mut answer) = (Vec::new(), [0; 2_048]);
    for n in 0..HELLOS {
        socket.send(&client_hello(n, &[], 0, REST))?;
        let length = socket.recv(&mut answer).context("no cookie came")?;
        ensure!(length == 60 && answer[13] == 3, "the answer is no cookie");
        hellos.push(client_hello(n, &answer[28..60], 1, REST));
    }
    Ok((socket, hellos))
}

/// Sends until it is over; the number that left.
fn send_hellos(socket: &UdpSocket, hellos: &[Vec<u8>], over: &AtomicBool) -> u64 {
    let (began, mut sent) = (Instant::now(), 0);
    for some in hellos.chunks(4).cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        for hello in some {
            sent += u64::from(socket.send(hello).is_ok());
        }
        let due = Duration::from_nanos(sent * 1_000_000_000 / RATE);
        thread::sleep(due.saturating_sub(began.elapsed()));
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_limits_its_memory() {
        assert!(memory_max(&Workspace::find().expect("the workspace")).expect("a limit") > 0.0);
    }

    #[test]
    fn exchange_repeats_lost_messages_until_all_are_acked() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = server.local_addr().expect("its address");
        let answers = thread::spawn(move || {
            let mut buffer = [0; 64];
            for n in 0..3 {
                let (_, from) = server.recv_from(&mut buffer).expect("a message");
                // The first copy of the first is lost.
                if n > 0 {
                    let answer = [0x60, 0, buffer[2], buffer[3]];
                    server.send_to(&answer, from).expect("sent");
                }
            }
        });
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(address).expect("connected");
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("set");
        let (one, two) = (request(1, 1, 0, &[]), request(1, 2, 1, &[]));
        exchange(&[(&socket, &one), (&socket, &two)]).expect("all acknowledged");
        answers.join().expect("no panic");
    }
}
