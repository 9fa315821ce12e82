//! The real-time emulator beside the simulator, and links of trace files beside the values in the files.
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

use crate::process::Scratch;
use crate::skipped;

const PORT: u16 = 5_683;
/// Bytes of the headers of IPv4 and UDP.
const HEADER_BYTES: usize = 28;
/// Longest silence of a link before its last packet counts as received.
const SILENCE: Duration = Duration::from_millis(800);
/// Each trace is replayed twice.
const CYCLES: u64 = 2;

/// Rows of rates: end in milliseconds and kbit/s.
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
/// Bytes of a packet of the link with rates.
const RATE_BYTES: usize = 128;

/// Rows of delays and losses: end in milliseconds, milliseconds, per cent.
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
/// Interval between packets of the link with delays.
const INTERVAL: Duration = Duration::from_millis(2);
/// Time after a change of the delay in which packets wait for those sent before it.
const SETTLING_MS: u64 = 170;

/// Microseconds of the system's clock, which also stamps received datagrams.
fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a clock after 1970").as_micros() as i64
}

/// A link whose direction to the client replays a file.
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

/// Begins a link anew, and returns the beginning of its time within a millisecond.
fn begin(end: EmulatedLink<'_>, label: &str) -> i64 {
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

/// Receives until the link is silent. Returns the kernel's time of each datagram, and its number.
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

/// Sends datagrams to the client's end, each with its number, at intervals from the beginning of the
/// link's time. Returns the beginning, the times of sending, and times and numbers of arrival.
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
    let began = begin(end, label);
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

/// The value at a share of the sorted values.
fn quantile(values: &[i64], share: f64) -> i64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(share * (sorted.len() - 1) as f64).round() as usize]
}

/// Bits received in each row, of all cycles: within 5 % or two packets of those of the file.
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
        // The last bit of a packet may arrive with the end of the trace.
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

/// One-way delays in each row: the median within 2 ms of the file, 90 % within 10 ms, none below it;
/// losses within nine points.
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
            // A few milliseconds on either side may belong to the row beside it.
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

/// Times of Mahimahi's lines in milliseconds: regular, a pause, and pairs.
fn opportunities() -> Vec<u64> {
    let regular = (0..30).map(|place| 50 + 10 * place);
    let pairs = (0..20).map(|place| 700 + 20 * (place / 2));
    regular.chain(pairs).chain([1_000]).collect()
}

/// Full packets arrive at the times of the lines: the median within 2 ms, 90 % within 10 ms, none before.
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
    // The beginning is known within a millisecond.
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
    match emulator.finish() {
        Ok(_) | Err(carob_emu::Error::Refused(carob_emu::Refusal::Late { .. })) => {}
        Err(error) => panic!("{error}"),
    }
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
    // A server that works for two seconds at most on a datagram, by the same draws.
    let cell = "stress/path-off-server-0-2s";
    let (Some(simulated), Some(emulated)) = (rows("run", cell), rows("emulate", cell)) else {
        return;
    };
    let mean = |row: &Value, metric: &str| row["metrics"][metric]["mean"].as_f64();
    for metric in ["exchanges", "answered_ratio", "server_handled"] {
        let model = mean(&simulated, metric);
        assert!(model.is_some(), "{metric}: {simulated}");
        assert_eq!(mean(&emulated, metric), model, "{metric}");
    }
    let [model, real] = [&simulated, &emulated].map(|row| mean(row, "fct_s").expect("a time"));
    assert!((real / model - 1.0).abs() < 0.2, "{real} s, {model} s");
    // An endpoint does not know which of its transmissions were lost.
    for metric in ["spurious", "spurious_per_exchange", "useless_share"] {
        assert!(mean(&simulated, metric).is_some(), "{simulated}");
        assert_eq!(mean(&emulated, metric), None, "{metric}");
    }
}
