//! Memory of a server whose tables are full, held to the limit of the systemd unit (`MemoryMax` of
//! packaging/carob.service).
//!
//! A few clients fill the tables that clients of UDP fill, the shares that keep few from doing so turned
//! off. The unit starts two endpoints, of UDP and of DTLS, whose tables have the same code and the same
//! limits, so that what one holds is counted twice; DTLS sessions are made besides.

use std::{
    fmt::Write as _,
    fs,
    net::{SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    carob,
    metrics::Metrics,
    process::{self, Server},
    workspace::Workspace,
};

/// Timeout of a response before a message is sent again, and the number of attempts.
const PATIENCE: Duration = Duration::from_millis(500);
const COPIES: u32 = 20;
/// Messages of one client on their way at a time.
const WINDOW: usize = 16;
/// Bytes of a block, and what says so (RFC 7959 2.2).
const BLOCK: usize = 1_024;
const SZX: u32 = 6;
/// Time for which requests without acknowledged responses are sent; these are given up after 93 s.
const UNACKNOWLEDGED: Duration = Duration::from_secs(85);
/// Clients that do so: as many as there may be handlers.
const HANDLERS: u32 = 1_024;
/// Largest age of metrics, with time to spare.
const TOLD: Duration = Duration::from_secs(3);
const SESSIONS: &str = "10000";

/// Something that others fill.
struct Table {
    name: &'static str,
    fill: fn(&Filler) -> Result<()>,
    /// Metric of the table's use, and its limit.
    metric: &'static str,
    limit: u64,
    /// True for a table of DTLS alone, which counts once.
    of_dtls: bool,
}

const TABLES: [Table; 7] = [
    Table {
        name: "deduplication of POSTs, 200 bytes each way",
        fill: |filler| filler.ask(16, 4_300, |n, id| post(n, id, &[b'x'; 200])),
        metric: "carob_remembered_messages",
        limit: 65_536,
        of_dtls: false,
    },
    Table {
        name: "deduplication of GETs as well",
        fill: |filler| filler.ask(16, 1_100, get),
        metric: "carob_remembered_messages",
        limit: 65_536 + 16_384,
        of_dtls: false,
    },
    Table {
        name: "observations with distinct requests",
        fill: |filler| filler.ask(130, 254, observe),
        metric: "carob_observers",
        limit: 32_768,
        of_dtls: false,
    },
    Table {
        name: "partly read response bodies of 1 MiB",
        fill: |filler| (0..4).try_for_each(|_| filler.upload(16, true)),
        metric: "carob_body_bytes",
        limit: 64 << 20,
        of_dtls: false,
    },
    Table {
        name: "incomplete request bodies of 1 MiB",
        fill: |filler| filler.upload(64, false),
        metric: "carob_upload_bytes",
        limit: 64 << 20,
        of_dtls: false,
    },
    Table {
        name: "unacknowledged responses",
        fill: Filler::leave_unacknowledged,
        metric: "carob_exchanges_in_progress",
        limit: 65_536,
        of_dtls: false,
    },
    Table {
        name: "DTLS sessions with a key, each used once",
        fill: Filler::open_sessions,
        metric: "carob_handshakes_total",
        limit: 10_000,
        of_dtls: true,
    },
];

/// Fills a server's tables and writes what each costs.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    carob::build(workspace)?;
    let unit = fs::read_to_string(workspace.root.join("packaging/carob.service"))?;
    let allowed = max_of(&unit).context("packaging/carob.service has no MemoryMax=...M")?;
    let folder = std::env::temp_dir().join(format!("carob-memory-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let filler = Filler::new(workspace.root.join("target/release/carob"), &folder)?;
    let mut server = Server::start("carob serve", &mut filler.serve())?;
    server.wait_for_answer(filler.server.port(), &[0x40, 0, 0, 1])?;
    let highest = || process::memory(server.id(), "VmHWM");
    let before = highest()?;
    let mut text = format!(
        "# Memory with full tables\n\n\
        `carob serve` with the options of the systemd unit, without quotas per source and without limits on handshakes.\n\
        Memory is the maximum so far (VmHWM) in MiB, {:.1} before. Written by `cargo xtask long memory`.\n\n\
        | table | entries or bytes | of the limit | memory |\n|---|---|---|---|\n",
        mib(before)
    );
    let (mut of_both, mut of_dtls, mut last) = (0, 0, before);
    for table in &TABLES {
        (table.fill)(&filler).with_context(|| table.name)?;
        thread::sleep(TOLD);
        let held = Metrics::read(filler.metrics)?.sum(
            table.metric,
            if table.of_dtls {
                &["outcome=\"done\""]
            } else {
                &["scheme=\"coap\""]
            },
        ) as u64;
        let now = highest()?;
        *(if table.of_dtls {
            &mut of_dtls
        } else {
            &mut of_both
        }) += now - last;
        last = now;
        let percent = 100 * held / table.limit;
        let row = format!(
            "| {} | {held} | {percent} % | {:.1} |",
            table.name,
            mib(now)
        );
        println!("{row}");
        writeln!(text, "{row}")?;
    }
    drop(server);
    fs::remove_dir_all(&folder)?;
    let total = before + 2 * of_both + of_dtls;
    writeln!(
        text,
        "\nSum: the tables of the UDP endpoint twice, because the DTLS endpoint has the same, {:.1}; the sessions, {:.1}; and \
        the memory before: {:.1} of the {allowed} MiB of the unit.",
        2.0 * mib(of_both),
        mib(of_dtls),
        mib(total),
    )?;
    fs::write(results, text)?;
    Ok(total <= allowed << 10)
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1_024.0
}

/// The unit's MemoryMax, in MiB.
fn max_of(unit: &str) -> Option<u64> {
    let value = unit
        .lines()
        .find_map(|line| line.strip_prefix("MemoryMax="))?;
    value.strip_suffix('M')?.parse().ok()
}

/// A program that fills the tables of a server, and the server's command.
struct Filler {
    program: PathBuf,
    keys: PathBuf,
    server: SocketAddr,
    secure: SocketAddr,
    metrics: u16,
}

impl Filler {
    fn new(program: PathBuf, folder: &Path) -> Result<Self> {
        let free = || UdpSocket::bind("127.0.0.1:0")?.local_addr();
        let keys = folder.join("keys");
        fs::write(&keys, "me:secret\n")?;
        Ok(Self {
            program,
            keys,
            server: free()?,
            secure: free()?,
            metrics: TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
        })
    }

    fn serve(&self) -> Command {
        let mut serve = Command::new(&self.program);
        serve
            .args(["serve", "--bind", &self.server.to_string()])
            .args(["--dtls", &self.secure.to_string(), "--psk-file"])
            .arg(&self.keys)
            .args(["--metrics", &format!("127.0.0.1:{}", self.metrics)]);
        for limit in [
            "source_share=100",
            "unvalidated_share=100",
            "handshake_rate=0",
            "handshake_work=100",
        ] {
            serve.args(["--limit", limit]);
        }
        serve
    }

    /// As many clients, each at an address of its own.
    fn clients(&self, number: u32) -> Result<Vec<UdpSocket>> {
        let client = |n: u32| {
            let address = (0x7f40_0000 + n).to_be_bytes();
            let socket = UdpSocket::bind(SocketAddr::from((address, 0)))?;
            socket.connect(self.server)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        (1..=number).map(client).collect()
    }

    /// Each of so many clients makes so many requests; `make` has the number of one among all, and its
    /// Message ID.
    fn ask(&self, clients: u32, each: u32, make: fn(u32, u16) -> Vec<u8>) -> Result<()> {
        for (client, socket) in self.clients(clients)?.iter().enumerate() {
            let first = client as u32 * each;
            let messages: Vec<_> = (0..each).map(|n| make(first + n, n as u16)).collect();
            for some in messages.chunks(WINDOW) {
                let some: Vec<_> = some.iter().map(|message| (socket, message)).collect();
                exchange(&some)?;
            }
        }
        Ok(())
    }

    /// So many clients send a body of 1 MiB each, or all of it but the end.
    fn upload(&self, clients: u32, ends: bool) -> Result<()> {
        let clients = self.clients(clients)?;
        let blocks = (1 << 20) / BLOCK as u32;
        for number in 0..blocks - u32::from(!ends) {
            let message = block(number, number + 1 < blocks);
            let all: Vec<_> = clients.iter().map(|socket| (socket, &message)).collect();
            exchange(&all)?;
        }
        Ok(())
    }

    /// Requests a resource that takes 1.5 s, and does not acknowledge the responses.
    fn leave_unacknowledged(&self) -> Result<()> {
        let clients = self.clients(HANDLERS)?;
        let began = Instant::now();
        let mut id = 0;
        while began.elapsed() < UNACKNOWLEDGED {
            let round = Instant::now();
            let message = request(1, id, u32::from(id), b"\xb4slow");
            for socket in &clients {
                socket.send(&message)?;
            }
            id += 1;
            thread::sleep(Duration::from_millis(1_600).saturating_sub(round.elapsed()));
        }
        Ok(())
    }

    fn open_sessions(&self) -> Result<()> {
        let mut bench = Command::new(&self.program);
        bench
            .args(["bench", &format!("coaps://{}/hello", self.secure)])
            .args(["--ports", SESSIONS, "--requests", SESSIONS])
            .args(["--psk-identity", "me"])
            .env("CAROB_PSK", "secret");
        process::output(&mut bench).map(drop)
    }
}

/// Sends messages, each from its socket, until all are acknowledged.
fn exchange(messages: &[(&UdpSocket, &Vec<u8>)]) -> Result<()> {
    let mut left: Vec<_> = messages.to_vec();
    let mut buffer = [0; 2_048];
    for _ in 0..COPIES {
        for (socket, message) in &left {
            // What the system has no room for is sent again.
            let _ = socket.send(message);
        }
        let mut silent = false;
        while let Some((socket, _)) = left.first()
            && !silent
        {
            let socket: &UdpSocket = socket;
            match socket.recv(&mut buffer) {
                // An acknowledgement, with a response or without.
                Ok(length) if length >= 4 && buffer[0] & 0x30 == 0x20 => {
                    left.retain(|(other, message)| {
                        !std::ptr::eq(*other, socket) || message[2..4] != buffer[2..4]
                    });
                }
                Ok(_) => {}
                Err(_) => silent = true,
            }
        }
        if left.is_empty() {
            return Ok(());
        }
    }
    bail!(
        "{} messages were not acknowledged, each sent {COPIES} times",
        left.len()
    )
}

/// A CON request with a token of four bytes.
fn request(code: u8, id: u16, token: u32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x44, code];
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&token.to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

fn post(n: u32, id: u16, body: &[u8]) -> Vec<u8> {
    request(2, id, n, &[b"\xb4echo\xff", body].concat())
}

fn get(n: u32, id: u16) -> Vec<u8> {
    // After those of the POSTs, or it would be a copy of one.
    request(1, id + 30_000, n, b"\xb5hello")
}

/// A registration (Observe 0, Uri-Path, Uri-Query).
fn observe(n: u32, id: u16) -> Vec<u8> {
    let query = format!("n={n:06}");
    request(
        1,
        id + 40_000,
        n,
        &[b"\x60\x55count\x48", query.as_bytes()].concat(),
    )
}

/// A block of a PUT's body (RFC 7959 2.2).
fn block(number: u32, more: bool) -> Vec<u8> {
    let value = (number << 4 | u32::from(more) << 3 | SZX).to_be_bytes();
    // Block1 is 27: 16 after Uri-Path, in three bytes whatever its value.
    let options = [&b"\xb4echo\xd3\x03"[..], &value[1..], &[0xff]].concat();
    let id = 50_000 + number as u16;
    request(3, id, 1, &[&options[..], &[7; BLOCK]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_s_limit_is_read_in_mebibytes() {
        assert_eq!(max_of("[Service]\nMemoryMax=512M\nTasksMax=1\n"), Some(512));
        assert_eq!(max_of("MemoryMax=1G\n"), None);
        let workspace = Workspace::find().unwrap();
        let unit = fs::read_to_string(workspace.root.join("packaging/carob.service")).unwrap();
        assert!(max_of(&unit).is_some());
    }

    #[test]
    fn exchange_repeats_lost_messages_until_all_are_acked() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let answers = thread::spawn(move || {
            let mut buffer = [0; 64];
            let mut heard = 0;
            while heard < 3 {
                let (_, from) = server.recv_from(&mut buffer).unwrap();
                heard += 1;
                // The first copy of the first is lost.
                if heard > 1 {
                    server
                        .send_to(&[0x60, 0, buffer[2], buffer[3]], from)
                        .unwrap();
                }
            }
        });
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let (one, two) = (get(0, 1), get(1, 2));
        exchange(&[(&socket, &one), (&socket, &two)]).unwrap();
        answers.join().unwrap();
    }
}
