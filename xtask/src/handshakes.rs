//! One host that begins DTLS handshakes as fast as it can, each with a certificate of the server's to
//! sign: what it takes of the server's processor, and how a client fares meanwhile that has a session.
//!
//! It shows that it is where it says, so that it is given cookies, gathers as many as it wants, and then
//! sends nothing but second hellos, which cost it nothing and the server two operations on P-256.

use std::{
    fmt::Write as _,
    fs,
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    carob,
    process::{self, Server},
    workspace::Workspace,
};

/// Hellos with cookies that are gathered before, and then sent in turns.
const HELLOS: u32 = 6_000;
/// Hellos per second.
const RATE: u64 = 20_000;
/// Sent at a time.
const AT_ONCE: usize = 4;
const PATIENCE: Duration = Duration::from_secs(2);
/// Command of the client that has sessions.
const CLIENT: [&str; 8] = [
    "--ports",
    "4",
    "--rate",
    "200/s",
    "--duration",
    "10s",
    "--warm-up",
    "0s",
];

struct Setting {
    name: &'static str,
    limits: &'static [&'static str],
    /// Every request must be answered within a second.
    held: bool,
}

const SETTINGS: [Setting; 3] = [
    Setting {
        name: "without limits",
        limits: &["handshake_rate=0", "handshake_work=100"],
        held: false,
    },
    Setting {
        name: "half of the processor (as many sources would meet it)",
        limits: &["handshake_rate=0"],
        held: true,
    },
    Setting {
        name: "as it comes",
        limits: &[],
        held: true,
    },
];

/// Runs the attack against each setting and writes what it shows.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    carob::build(workspace)?;
    let program = workspace.root.join("target/release/carob");
    let folder = std::env::temp_dir().join(format!("carob-handshakes-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).context("no certificate")?;
    fs::write(folder.join("cert.pem"), made.cert.pem())?;
    fs::write(folder.join("key.pem"), made.signing_key.serialize_pem())?;
    fs::write(folder.join("keys"), "me:secret\n")?;
    let mut text = format!(
        "# Handshake flood\n\n\
        127.0.0.2 has gathered {HELLOS} cookies and sends hellos with them, up to {RATE} a second, to `carob serve` with an\n\
        ECDSA certificate. A client at 127.0.0.1 has four sessions with a key and asks 200 times a second (`carob bench {}`).\n\
        Written by `cargo xtask long handshakes`; docs/overload.md discusses the results.\n\n\
        | | hellos a second | of the server's processor | requests answered | p50, p99, longest ms | repeated |\n\
        |---|---|---|---|---|---|\n",
        CLIENT.join(" ")
    );
    let mut passed = true;
    for setting in &SETTINGS {
        let outcome = attack(&program, &folder, setting)?;
        let row = outcome.row(setting);
        println!("{row}");
        writeln!(text, "{row}")?;
        let all = outcome.client["answered"] == outcome.client["requests"];
        passed &= !setting.held || all && outcome.longest() < 1_000.0;
    }
    fs::remove_dir_all(&folder)?;
    fs::write(results, text)?;
    Ok(passed)
}

struct Outcome {
    sent: u64,
    took: Duration,
    /// Seconds.
    processor: f64,
    client: Value,
}

impl Outcome {
    fn longest(&self) -> f64 {
        self.client["latency_us"]["max"]
            .as_f64()
            .unwrap_or(f64::MAX)
            / 1_000.0
    }

    fn row(&self, setting: &Setting) -> String {
        let millis =
            |name: &str| self.client["latency_us"][name].as_f64().unwrap_or(f64::NAN) / 1_000.0;
        let limits = setting.limits.iter().map(|limit| format!(" `{limit}`"));
        format!(
            "| {}{} | {:.0} | {:.0} % | {} of {} | {:.2}, {:.2}, {:.0} | {} |",
            setting.name,
            limits.collect::<String>(),
            self.sent as f64 / self.took.as_secs_f64(),
            100.0 * self.processor / self.took.as_secs_f64(),
            self.client["answered"],
            self.client["requests"],
            millis("p50"),
            millis("p99"),
            self.longest(),
            self.client["messages"]["retransmissions"],
        )
    }
}

fn attack(program: &Path, folder: &Path, setting: &Setting) -> Result<Outcome> {
    let free = || UdpSocket::bind("127.0.0.1:0")?.local_addr();
    let (plain, secure) = (free()?, free()?);
    let mut serve = Command::new(program);
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
        .current_dir(folder);
    for limit in setting.limits {
        serve.args(["--limit", limit]);
    }
    let mut server = Server::start("carob serve", &mut serve)?;
    server.wait_for_answer(plain.port(), &[0x40, 0, 0, 1])?;
    let attacker = Attacker::new(secure)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            // Its sessions are made before the first hello is sent.
            let mut bench = Command::new(program);
            bench
                .args(["bench", &format!("coaps://{secure}/hello"), "--json"])
                .args(CLIENT)
                .args(["--psk-identity", "me"])
                .env("CAROB_PSK", "secret");
            let text = process::output(&mut bench);
            over.store(true, Ordering::Relaxed);
            text
        });
        thread::sleep(Duration::from_millis(500));
        let (before, began) = (process::cpu_seconds(server.id())?, Instant::now());
        let sent = attacker.send(&over);
        let took = began.elapsed();
        let processor = process::cpu_seconds(server.id())? - before;
        let text = client
            .join()
            .map_err(|_| anyhow::anyhow!("the bench panicked"))??;
        let client: Value = serde_json::from_str(&text).context("carob bench printed no JSON")?;
        ensure!(sent > 0, "nothing was sent");
        Ok(Outcome {
            sent,
            took,
            processor,
            client,
        })
    })
}

/// A host with cookies.
struct Attacker {
    socket: UdpSocket,
    hellos: Vec<Vec<u8>>,
}

impl Attacker {
    fn new(server: SocketAddr) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.2:0")?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut hellos = Vec::new();
        let mut answer = [0; 2_048];
        for n in 0..HELLOS {
            socket.send(&hello(n, &[], 0))?;
            let length = socket.recv(&mut answer).context("no cookie came")?;
            ensure!(
                length == 60 && answer[13] == 3,
                "an answer that is no cookie"
            );
            hellos.push(hello(n, &answer[28..60], 1));
        }
        Ok(Self { socket, hellos })
    }

    /// Sends until it is over; how many left.
    fn send(&self, over: &AtomicBool) -> u64 {
        let began = Instant::now();
        let mut sent = 0;
        for some in self.hellos.chunks(AT_ONCE).cycle() {
            if over.load(Ordering::Relaxed) {
                break;
            }
            for hello in some {
                // What the system has no room for is lost, as it would be elsewhere.
                sent += u64::from(self.socket.send(hello).is_ok());
            }
            let due = Duration::from_nanos(sent * 1_000_000_000 / RATE);
            thread::sleep(due.saturating_sub(began.elapsed()));
        }
        sent
    }
}

/// A ClientHello with TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, P-256 and a random number of its own.
fn hello(n: u32, cookie: &[u8], number: u8) -> Vec<u8> {
    let mut body = vec![0xfe, 0xfd];
    body.extend_from_slice(&n.to_be_bytes());
    body.extend_from_slice(&[0x5a; 28]);
    body.extend_from_slice(&[0, cookie.len() as u8]);
    body.extend_from_slice(cookie);
    // The suite, no compression, and extensions: the curve, its points, ECDSA with SHA-256 (RFC 8422 5.1),
    // extended master secrets (RFC 7627).
    body.extend_from_slice(&[0, 2, 0xc0, 0x2b, 1, 0, 0, 26]);
    body.extend_from_slice(&[0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0]);
    body.extend_from_slice(&[0, 13, 0, 4, 0, 2, 4, 3, 0, 23, 0, 0]);
    let length = &(body.len() as u32).to_be_bytes()[1..];
    let message = [&[1][..], length, &[0, number, 0, 0, 0], length, &body].concat();
    let mut record = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, number];
    record.extend_from_slice(&(message.len() as u16).to_be_bytes());
    record.extend_from_slice(&message);
    record
}
