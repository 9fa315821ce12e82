//! Captures of CoAP programs in two network namespaces over an emulated link, compared with the known fate of each
//! packet.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use carob_analyze::synthetic::{CaptureFile, FileLayout, Flag};
use carob_analyze::{Options, analyze};
use carob_emu::{Config, Emulator, LinkConfig, Side};
use carob_sim::link::{
    DirectionSpec, Link, LinkSpec, LinkTrace, LossSpec, Replay, TraceEnd, TraceRow, TraceStart,
    Verdict,
};
use carob_sim::random::Probability;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::relay::Truth;
use super::shaped::check;
use crate::installed::Peer;
use crate::interop::clients::{Implementation, program};
use crate::interop::transport::Transport;
use crate::process::{LIMIT, Scratch, until};

pub(super) const PORT: u16 = 5_683;
const BLOCK: &str = "64";
const BODY_BYTES: usize = 100 * 64;
/// Bytes of the IPv4 and UDP headers.
const HEADER_BYTES: usize = 28;

/// Interfaces in the emulator's capture: the server's end, then the client's.
const INTERFACES: [Side; 2] = [Side::Server, Side::Client];

/// A lossy link. Every twelve seconds its delay exceeds the initial timeouts of RFC 7252.
fn link(seed: u64) -> LinkConfig {
    let row = |at: u64, delay: u64| TraceRow {
        at: carob_cc::time::Duration::from_millis(at),
        rate_bps: None,
        delay: Some(carob_cc::time::Duration::from_millis(delay)),
        loss: None,
    };
    let rows = vec![
        row(0, 30),
        row(2_000, 2_700),
        row(2_150, 30),
        row(5_000, 30),
    ];
    let trace = Arc::new(LinkTrace::of_rows(rows).expect("a trace"));
    let direction = |replay: Option<Replay>| DirectionSpec {
        delay: carob_cc::time::Duration::from_millis(30),
        loss: LossSpec::Constant(Probability::ppm(30_000)),
        replay,
        ..DirectionSpec::new(1_000_000, 64_000)
    };
    let replay = Replay {
        trace,
        end: TraceEnd::Loop,
        start: TraceStart::First,
    };
    let spec = LinkSpec {
        down: direction(Some(replay)),
        up: direction(None),
    };
    LinkConfig::new(spec, seed, "link")
}

/// A packet captured at one end.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Index of the link.
    pub(super) link: usize,
    at_us: u64,
    end: Side,
    is_sent: bool,
    packet: Vec<u8>,
}

impl Seen {
    fn is_datagram(&self) -> bool {
        self.packet.len() >= HEADER_BYTES + 4 && self.packet[9] == 17
    }

    fn is_of_client(&self) -> bool {
        (self.end == Side::Client) == self.is_sent
    }

    /// Identifies an exchange: the client's port and the Message ID.
    fn exchange(&self) -> (u16, u16) {
        let short = |at: usize| u16::from_be_bytes([self.packet[at], self.packet[at + 1]]);
        let port = if self.is_of_client() { 20 } else { 22 };
        (short(port), short(HEADER_BYTES + 2))
    }
}

pub(super) fn packets(file: &[u8]) -> Vec<Seen> {
    let mut reader = PcapNgReader::new(file).expect("a pcapng file");
    let mut seen = Vec::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(block) = block.expect("a whole block") else {
            continue;
        };
        let is_sent = block.options.iter().any(|option| {
            use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption::Flags;
            matches!(option, Flags(2))
        });
        seen.push(Seen {
            link: block.interface_id as usize / INTERFACES.len(),
            at_us: block.timestamp.as_micros() as u64,
            end: INTERFACES[block.interface_id as usize % INTERFACES.len()],
            is_sent,
            packet: block.data.to_vec(),
        });
    }
    seen
}

/// A datagram and its arrival time at the other end; none if lost.
#[derive(Clone, Debug)]
struct Fate {
    seen: Seen,
    arrived_us: Option<u64>,
}

/// Fates of the datagrams from one end. The link model is deterministic, so it repeats the same losses.
fn fates(all: &[Seen], from: Side, link: &LinkConfig) -> Vec<Fate> {
    let sent = all.iter().filter(|one| one.end == from && one.is_sent);
    let mut arrived = all.iter().filter(|one| one.end != from && !one.is_sent);
    let mut model = Link::new(&link.spec, link.seed, &link.label);
    let direction = match from {
        Side::Client => &mut model.up,
        Side::Server => &mut model.down,
    };
    let began = all.iter().map(|one| one.at_us).min().unwrap_or_default();
    let mut fates = Vec::new();
    for packet in sent {
        let at = carob_cc::time::Instant::from_micros(packet.at_us - began);
        let bytes = packet.packet.len() as u32;
        let is_delivered = matches!(direction.offer(at, bytes), Verdict::Deliver { .. });
        let arrived = is_delivered.then(|| arrived.next()).flatten();
        if let Some(other) = arrived {
            assert_eq!(other.packet, packet.packet, "packets keep their order");
        }
        if packet.is_datagram() {
            fates.push(Fate {
                seen: packet.clone(),
                arrived_us: arrived.map(|other| other.at_us),
            });
        }
    }
    assert!(
        arrived.next().is_none(),
        "the model lost a packet that arrived"
    );
    fates
}

/// Ground truth of all exchanges. The server answers each transmission that arrives.
fn truth(all: &[Seen], link: &LinkConfig) -> Truth {
    let mut truth = Truth::default();
    let mut exchanges: BTreeMap<(u16, u16), [Vec<Fate>; 2]> = BTreeMap::new();
    for (way, side) in [(0, Side::Client), (1, Side::Server)] {
        for fate in fates(all, side, link) {
            truth.packets[way] += 1;
            truth.lost[way] += u64::from(fate.arrived_us.is_none());
            exchanges.entry(fate.seen.exchange()).or_default()[way].push(fate);
        }
    }
    for [copies, replies] in exchanges.into_values() {
        truth.exchanges += 1;
        truth.retransmissions += copies.len() as u64 - 1;
        let delivered = copies
            .iter()
            .enumerate()
            .filter(|(_, copy)| copy.arrived_us.is_some());
        let answers = replies.iter().zip(delivered);
        let mut answers: Vec<(u64, usize)> = answers
            .filter_map(|(reply, (copy, _))| Some((reply.arrived_us?, copy)))
            .collect();
        answers.sort_unstable();
        if let Some((arrived, copy)) = answers.first() {
            let took = arrived - copies[*copy].seen.at_us;
            truth.round_trips.push(Duration::from_micros(took));
        }
        let first = answers.iter().map(|answer| answer.1).min();
        truth.spurious += first.map_or(0, |first| (copies.len() - 1 - first) as u64);
    }
    truth.round_trips.sort();
    truth
}

/// The capture file of one end.
pub(super) fn capture(all: &[Seen], end: Side) -> Vec<u8> {
    let mut file = CaptureFile::new(FileLayout::Pcapng);
    for packet in all.iter().filter(|one| one.end == end) {
        let flag = if packet.is_sent {
            Flag::Outbound
        } else {
            Flag::Inbound
        };
        file.packet(packet.at_us, flag, &packet.packet);
    }
    file.into_bytes()
}

/// A child process, killed on drop.
pub(super) struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program in the namespace of one end.
pub(super) fn start(emulator: &Emulator, side: Side, command: &mut Command) -> Program {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = emulator.namespace(side).enter(|| command.spawn());
    Program(child.expect("a namespace").expect("a program"))
}

/// Ends the emulation. A late delivery is late in the capture and in the ground truth alike.
pub(crate) fn finish(emulator: Emulator) {
    match emulator.finish() {
        Ok(_) | Err(carob_emu::Error::Refused(carob_emu::Refusal::Late { .. })) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Waits until CoAP's port is bound in the server's namespace. A probe packet would appear in the capture.
pub(super) fn wait_for_server(emulator: &Emulator) {
    let is_bound = || {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let sockets = text("/proc/thread-self/net/udp") + &text("/proc/thread-self/net/udp6");
        sockets.contains(&format!(":{PORT:04X} "))
    };
    until(LIMIT, "server", || {
        let bound = emulator.namespace(Side::Server).enter(is_bound);
        bound.expect("a namespace").then_some(())
    });
}

/// The command of a server with a resource of [`BODY_BYTES`].
fn server_command(server: Implementation, scratch: &Scratch, address: IpAddr) -> Command {
    let (address, port) = (address.to_string(), PORT.to_string());
    match server {
        Implementation::Carob => {
            let folder = scratch.text("served");
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(format!("{folder}/body.bin"), vec![b'x'; BODY_BYTES]).expect("a file");
            let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
            let bind = format!("{address}:{port}");
            command.args(["serve", "--bind", &bind, "--dir", &folder]);
            // Echo (RFC 9175) would add an exchange per block.
            command.args(["--amplification-limit", "10.0.0.0/8=off"]);
            command
        }
        Implementation::Of(Peer::Libcoap) => {
            let mut command = program(Peer::Libcoap, "server");
            command.args(["-A", &address, "-p", &port, "-d", "10"]);
            command
        }
        Implementation::Of(peer) => {
            let mut command = program(peer, "server");
            command.args([&port, "--bind", &address]);
            command
        }
    }
}

/// Commands with which a client moves a body of [`BODY_BYTES`] block-wise.
fn client_commands(
    client: Implementation,
    server: Implementation,
    scratch: &Scratch,
    address: IpAddr,
) -> Vec<Command> {
    let (path, query) = match server {
        Implementation::Carob => ("body.bin", String::new()),
        Implementation::Of(Peer::Libcoap) => ("store", String::new()),
        Implementation::Of(_) => ("large", format!("?{BODY_BYTES}")),
    };
    let uri = format!("coap://{address}/{path}{query}");
    let seconds = LIMIT.as_secs().to_string();
    let mut commands = Vec::new();
    if server == Implementation::Of(Peer::Libcoap) {
        // libcoap's server has no such resource until a PUT creates it.
        let body = scratch.with("body", vec![b'x'; BODY_BYTES]);
        let mut put = Command::new(env!("CARGO_BIN_EXE_carob"));
        put.args(["put", &uri, "--file", &body, "--block-size", BLOCK]);
        commands.push(put);
    }
    let mut command = client.client(Transport::Udp);
    match client {
        Implementation::Carob => {
            command.args(["get", &uri, "--block-size", BLOCK, "--deadline", "180s"])
        }
        Implementation::Of(Peer::Libcoap) => command.args(["-b", BLOCK, "-B", &seconds, &uri]),
        Implementation::Of(_) => {
            command.args(["get", &uri, "--block-size", BLOCK, "--timeout", &seconds])
        }
    };
    commands.push(command);
    commands
}

/// Moves a body over the link drawn from `seed` and compares the analysis of the client's capture with the ground
/// truth. Returns the error in spurious retransmissions and the number of retransmissions.
fn move_body(client: Implementation, server: Implementation, seed: u64) -> (u64, u64) {
    let about = format!("{client:?} from {server:?}");
    let scratch = Scratch::new();
    let link = link(seed);
    let path = scratch.path("both.pcapng");
    let config = Config {
        mtu_bytes: 1_280,
        capture: Some(path.clone()),
        ..Config::thesis(vec![link.clone()])
    };
    let emulator = Emulator::start(&config).expect("a link");
    let address = IpAddr::from(emulator.link(0).address(Side::Server));
    let mut command = server_command(server, &scratch, address);
    let serving = start(&emulator, Side::Server, &mut command);
    wait_for_server(&emulator);
    for mut command in client_commands(client, server, &scratch, address) {
        let mut running = start(&emulator, Side::Client, &mut command);
        let status = running.0.wait().expect("its end");
        assert!(status.success(), "{about}: {command:?}: {status}");
    }
    // Delayed packets are still in flight.
    thread::sleep(Duration::from_secs(3));
    drop(serving);
    finish(emulator);
    let all = packets(&fs::read(path).expect("the capture"));
    let truth = truth(&all, &link);
    assert!(
        truth.exchanges >= 100 && truth.retransmissions > 0,
        "{about}: {truth:?}"
    );
    let at_client = capture(&all, Side::Client);
    let found = analyze(&at_client[..], &Options::default().port(PORT)).expect("a capture");
    let wrong = check(&found, &truth, &about);
    (wrong, truth.retransmissions)
}

fn move_bodies(peers: &[(Implementation, Implementation)]) {
    let report = carob_emu::check();
    if !report.can_run() {
        eprintln!("skipped: namespaces and TUN devices need privileges (root)");
        return;
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_installed = |one: Implementation| match one {
        Implementation::Carob => true,
        Implementation::Of(peer) => peer.is_current(&root),
    };
    let moved = &|(place, (client, server)): (usize, &(Implementation, Implementation))| {
        if is_installed(*client) && is_installed(*server) {
            return move_body(*client, *server, 1 + place as u64);
        }
        eprintln!("skipped: {client:?}, {server:?}: `cargo xtask peers` installs peers");
        (0, 0)
    };
    let all: Vec<(u64, u64)> = thread::scope(|scope| {
        let threads: Vec<_> = (peers.iter().enumerate())
            .map(|one| scope.spawn(move || moved(one)))
            .collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|one| one.expect("a comparison")).collect()
    });
    // Single pairs have too few retransmissions, so they are pooled. The bound is 95 % plus two standard deviations:
    // about one run in 40 fails by chance.
    let (wrong, of) = all
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let expected = of as f64 * 0.05;
    let most = expected + 2.0 * (expected * 0.95).sqrt();
    assert!(wrong as f64 <= most, "{wrong} of {of} are wrong, of {most}");
}

#[test]
fn nightly_captures_of_all_clients_match_the_shaped_truth() {
    let clients = [
        Implementation::Carob,
        Implementation::Of(Peer::Libcoap),
        Implementation::Of(Peer::Aiocoap),
        Implementation::Of(Peer::Californium),
    ];
    move_bodies(&clients.map(|client| (client, Implementation::Carob)));
}

#[test]
fn slow_captures_of_all_servers_match_the_shaped_truth() {
    let servers = [
        Implementation::Of(Peer::Libcoap),
        Implementation::Of(Peer::Aiocoap),
        Implementation::Of(Peer::Californium),
    ];
    move_bodies(&servers.map(|server| (Implementation::Carob, server)));
}
