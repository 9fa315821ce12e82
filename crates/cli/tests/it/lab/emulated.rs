//! The real-time emulator compared with the simulator, and links that replay trace files.
#![cfg(target_os = "linux")]

use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use carob_cc::time::Duration as ModelTime;
use carob_emu::{Config, EmulatedLink, Emulator, LinkConfig, Side};
use carob_lab::link_trace::read_file;
use carob_sim::link::{DirectionSpec, LinkSpec, Replay, TraceEnd, TraceStart};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use serde_json::Value;

use crate::analyze::namespaces::finish;
use crate::process::Scratch;
use crate::skipped;

const PORT: u16 = 5_683;
/// Bytes of the IPv4 and UDP headers.
const HEADER_BYTES: usize = 28;
/// A link silent for this long has delivered its last packet.
const SILENCE: Duration = Duration::from_millis(800);
/// Repetitions of each trace.
const CYCLES: u64 = 2;

/// Rows of the rate trace: end in milliseconds, rate in kbit/s.
const RATES: [(u64, u64); 5] = [
    (500, 400),
    (1_000, 100),
    (1_300, 0),
    (1_500, 800),
    (1_700, 200),
];
const RATES_CSV: &str = "\
time_ms,rate_kbit_s
0,400
500,100
1000,0
1300,800
1500,200
";
/// Packet size in bytes on the link with the rate trace.
const RATE_BYTES: usize = 128;

/// Rows of the delay trace: end in milliseconds, delay in milliseconds, loss in per cent.
const DELAYS: [(u64, u64, u64); 4] = [
    (500, 30, 0),
    (1_000, 150, 0),
    (1_500, 60, 30),
    (2_000, 30, 0),
];
const DELAYS_CSV: &str = "\
time_ms,delay_ms,loss_percent
0,30,0
500,150,0
1000,60,30
1500,30,0
";
/// Packet interval on the link with the delay trace.
const INTERVAL: Duration = Duration::from_millis(2);
/// Time after a decrease of the delay in which packets queue behind earlier, slower ones (order is kept).
const SETTLING_MS: u64 = 170;

/// Realtime clock in microseconds; the kernel's receive timestamps use the same clock.
fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a clock after 1970").as_micros() as i64
}

/// A link that replays a trace file towards the client.
fn link(scratch: &Scratch, label: &str, text: &str) -> LinkConfig {
    let file = scratch.with(label, text);
    let (trace, _) = read_file(file.as_ref()).expect("a trace");
    let direction = DirectionSpec {
        delay: ModelTime::ZERO,
        ..DirectionSpec::new(10_000_000, 1 << 22)
    };
    let replay = Replay {
        trace: Arc::new(trace),
        end: TraceEnd::Loop,
        start: TraceStart::First,
    };
    let spec = LinkSpec {
        down: DirectionSpec {
            replay: Some(replay),
            ..direction.clone()
        },
        up: direction,
    };
    LinkConfig::new(spec, 1, label)
}

/// Restarts the link's trace; returns its start time, known within a millisecond.
fn restart_trace(end: EmulatedLink<'_>, label: &str) -> i64 {
    for _ in 0..100 {
        let before = now_us();
        end.restart(1, label).expect("a running engine");
        let after = now_us();
        if after - before < 1_000 {
            return i64::midpoint(before, after);
        }
    }
    panic!("the engine takes more than a millisecond for each command");
}

/// Receives until the link is silent. Returns the kernel's timestamp and the number of each datagram.
fn receive(socket: &UdpSocket) -> Vec<(i64, u32)> {
    let mut received = Vec::new();
    let mut buffer = [0_u8; 2_048];
    loop {
        let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::empty();
        let Ok(message) = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)
        else {
            return received;
        };
        let mut controls = message.cmsgs().expect("control messages");
        let at = controls.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(at) => {
                Some(at.tv_sec() * 1_000_000 + at.tv_nsec() / 1_000)
            }
            _ => None,
        });
        let number = u32::from_be_bytes(buffer[..4].try_into().expect("a number"));
        received.push((at.expect("the time of its arrival"), number));
    }
}

/// Sends numbered datagrams at intervals from the start of the trace. Returns the start, send times, and arrival times
/// with numbers.
fn exchange(
    end: EmulatedLink<'_>,
    label: &str,
    bytes: usize,
    count: usize,
    interval: Duration,
) -> (i64, Vec<i64>, Vec<(i64, u32)>) {
    let server = end.udp(Side::Server, PORT).expect("a socket");
    let client = end.udp(Side::Client, PORT).expect("a socket");
    setsockopt(&client, sockopt::ReceiveTimestampns, &true).expect("times of arrival");
    client
        .set_read_timeout(Some(SILENCE))
        .expect("a time limit");
    let to = (end.address(Side::Client), PORT);
    let began = restart_trace(end, label);
    thread::scope(|scope| {
        let received = scope.spawn(|| receive(&client));
        let mut sent = Vec::with_capacity(count);
        for number in 0..count {
            let due = began + number as i64 * interval.as_micros() as i64;
            let wait = due.saturating_sub(now_us());
            if let Ok(wait @ 1..) = u64::try_from(wait) {
                thread::sleep(Duration::from_micros(wait));
            }
            let mut payload = vec![0; bytes - HEADER_BYTES];
            payload[..4].copy_from_slice(&(number as u32).to_be_bytes());
            sent.push(now_us());
            server.send_to(&payload, to).expect("room");
        }
        (began, sent, received.join().expect("a receiver"))
    })
}

/// The quantile of unsorted values.
fn quantile(values: &[i64], share: f64) -> i64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(share * (sorted.len() - 1) as f64).round() as usize]
}

/// Checks the bits received per row over all cycles: within 5 % or two packets of the file.
fn check_rates(end: EmulatedLink<'_>) {
    let packet_bits = RATE_BYTES as u64 * 8;
    let bits_of = |row: usize| {
        let start = row.checked_sub(1).map_or(0, |before| RATES[before].0);
        (RATES[row].0 - start) * RATES[row].1 * CYCLES
    };
    let total: u64 = (0..RATES.len()).map(bits_of).sum();
    let count = (total / packet_bits) as usize;
    let (began, _, received) = exchange(end, "rates", RATE_BYTES, count, Duration::ZERO);
    assert_eq!(received.len(), count, "nothing is lost");
    let length = RATES[RATES.len() - 1].0 as i64 * 1_000;
    let mut bits = [0_u64; RATES.len()];
    for (at, _) in &received {
        // The last bit of a packet may arrive at the end of the trace, which is the start of the next cycle.
        let into = ((at - began - 1).max(0) % length) as u64 / 1_000;
        let row = RATES.iter().position(|row| into < row.0);
        bits[row.expect("a time within the trace")] += packet_bits;
    }
    for (row, found) in bits.into_iter().enumerate() {
        let expected = bits_of(row);
        eprintln!(
            "{} kbit/s: {found} bits, {expected} in the file",
            RATES[row].1
        );
        let bound = (expected / 20).max(2 * packet_bits);
        assert!(
            found.abs_diff(expected) <= bound,
            "row {row}: {found} of {expected} bits"
        );
    }
}

/// Checks one-way delays per row: median within 2 ms of the file, 90 % within 10 ms, none shorter; losses within nine
/// percentage points.
fn check_delays(end: EmulatedLink<'_>) {
    let length = DELAYS[DELAYS.len() - 1].0;
    let count = Duration::from_millis(length * CYCLES).as_micros() / INTERVAL.as_micros();
    let (began, sent, received) = exchange(end, "delays", 64, count as usize, INTERVAL);
    let mut arrived = vec![None; sent.len()];
    for (at, number) in received {
        arrived[number as usize] = Some(at);
    }
    let mut start = 0;
    for (stop, delay, loss) in DELAYS {
        let (mut delays, mut offered, mut lost) = (Vec::new(), 0_u32, 0_u32);
        for (at, arrived) in sent.iter().zip(&arrived) {
            let into = ((at - began).max(0) as u64 / 1_000) % length;
            // Within a few milliseconds of a boundary, the row is ambiguous.
            if into < start + 5 || into + 5 >= stop {
                continue;
            }
            offered += 1;
            lost += u32::from(arrived.is_none());
            if into >= start + SETTLING_MS {
                delays.extend(arrived.map(|arrived| arrived - at));
            }
        }
        let share = f64::from(lost) / f64::from(offered) * 100.0;
        let [least, median, high] = [0.0, 0.5, 0.9].map(|share| quantile(&delays, share));
        eprintln!(
            "{delay} ms, {loss} %: {} delays, least {least} us, median {median} us, p90 {high} us, {share:.1} % of {offered} lost",
            delays.len()
        );
        let expected = delay as i64 * 1_000;
        assert!(least >= expected - 100, "{delay} ms: {least} us");
        assert!(median < expected + 2_000, "{delay} ms: {median} us");
        assert!(high < expected + 10_000, "{delay} ms: {high} us");
        assert!((share - loss as f64).abs() < 9.0, "{loss} %: {share} %");
        assert!(
            loss > 0 || lost == 0,
            "{lost} of {offered} lost without a loss"
        );
        start = stop;
    }
}

/// Delivery times of a Mahimahi trace in milliseconds: regular, a pause, and pairs.
fn opportunities() -> Vec<u64> {
    let regular = (0..30).map(|place| 50 + 10 * place);
    let pairs = (0..20).map(|place| 700 + 20 * (place / 2));
    regular.chain(pairs).chain([1_000]).collect()
}

/// Checks arrivals of full packets against the trace: median within 2 ms, 90 % within 10 ms, none early.
fn check_opportunities(end: EmulatedLink<'_>) {
    let lines = opportunities();
    let length = lines[lines.len() - 1];
    let times = (0..CYCLES).flat_map(|cycle| lines.iter().map(move |time| cycle * length + time));
    let times: Vec<i64> = times.map(|time| time as i64 * 1_000).collect();
    let (began, _, received) = exchange(end, "opportunities", 1_500, times.len(), Duration::ZERO);
    assert_eq!(received.len(), times.len(), "nothing is lost");
    let late = received
        .iter()
        .zip(&times)
        .map(|(packet, time)| packet.0 - began - time);
    let late: Vec<i64> = late.collect();
    let [least, median, high] = [0.0, 0.5, 0.9].map(|share| quantile(&late, share));
    eprintln!(
        "{} opportunities: least {least} us late, median {median} us, p90 {high} us",
        late.len()
    );
    // The start is known within a millisecond only.
    assert!(least >= -1_000, "{least} us");
    assert!(median < 2_000 && high < 10_000, "{median} us, {high} us");
}

#[test]
fn slow_emulated_traces_have_the_rates_and_delays_of_files() {
    if !carob_emu::check().can_run() {
        skipped("emulated links need the right to make namespaces and TUN devices (root)");
        return;
    }
    let scratch = Scratch::new();
    let mahimahi: Vec<String> = opportunities().iter().map(u64::to_string).collect();
    let links = vec![
        link(&scratch, "rates", RATES_CSV),
        link(&scratch, "delays", DELAYS_CSV),
        link(&scratch, "opportunities", &(mahimahi.join("\n") + "\n")),
    ];
    let config = Config {
        mtu_bytes: 1_500,
        ..Config::system(links)
    };
    let emulator = Emulator::start(&config).expect("three links");
    thread::scope(|scope| {
        scope.spawn(|| check_rates(emulator.link(0)));
        scope.spawn(|| check_delays(emulator.link(1)));
        scope.spawn(|| check_opportunities(emulator.link(2)));
    });
    finish(emulator);
}

#[test]
fn slow_an_emulated_scenario_has_the_figures_of_the_simulated_one() {
    if !carob_emu::check().can_run() {
        skipped("emulated links need the right to make namespaces and TUN devices (root)");
        return;
    }
    let folder = Scratch::new();
    let rows = |verb: &str, cell: &str| -> Option<Value> {
        let run = format!("lab {verb} {cell} --seeds 2 -a default --set 'response=5 kB' --json");
        let ran = folder.carob(&run);
        if ran.stderr.contains("the run is refused") {
            skipped(&format!(
                "an emulated run on a busy machine: {}",
                ran.stderr
            ));
            return None;
        }
        assert_eq!(ran.code, Some(0), "{ran:?}");
        Some(ran.json().remove(0))
    };
    // A server with up to two seconds of processing per datagram, drawn from the same seeds.
    let cell = "stress/path-off-server-0-2s";
    let (Some(simulated), Some(emulated)) = (rows("run", cell), rows("emulate", cell)) else {
        return;
    };
    let mean = |row: &Value, metric: &str| row["metrics"][metric]["mean"].as_f64();
    for metric in ["exchanges", "answered_ratio"] {
        let model = mean(&simulated, metric);
        assert!(model.is_some(), "{metric}: {simulated}");
        assert_eq!(mean(&emulated, metric), model, "{metric}");
    }
    // A response within the host's delay of the client's timer is repeated in one of the two only.
    for metric in ["server_handled", "fct_s"] {
        let [model, real] = [&simulated, &emulated].map(|row| mean(row, metric).expect("a mean"));
        let off = (real / model - 1.0).abs();
        assert!(off < 0.25, "{metric}: {real}, {model} simulated");
    }
    // Real endpoints cannot tell which transmissions were lost, so the emulator has no such metrics.
    for metric in ["spurious", "spurious_per_exchange", "useless_share"] {
        assert!(mean(&simulated, metric).is_some(), "{simulated}");
        assert_eq!(mean(&emulated, metric), None, "{metric}");
    }
}
