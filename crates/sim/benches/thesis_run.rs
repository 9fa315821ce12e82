//! Time per run of the thesis's long transfer, over UDP and (with a buffer of 14,100 B) over TCP:
//! `cargo bench -p carob-sim --bench thesis_run`.
//!
//! One thread, a fixed set of seeds; prints the mean per run for each number of clients and error
//! profile. The budget is 1 ms for one client (`docs/performance.md`).

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

use std::time::Instant as Clock;

use carob_cc::TransmissionParameters;
use carob_cc::time::Duration;
use carob_sim::link::{DirectionSpec, ExtraDelay, LinkSpec, LossProfile, profile};
use carob_sim::spec::{
    ClientGroup, ControllerSpec, LinkNetworkSpec, NetworkSpec, Requests, RunSpec, Span, Transport,
    Workload,
};
use carob_sim::tcp::TcpSettings;
use carob_sim::tcp::settings::Algorithm;

fn spec(clients: u32, error: &str, algorithm: &str, transport: Transport, seed: u64) -> RunSpec {
    let buffer = match transport {
        Transport::Datagrams => 2_500,
        Transport::Connections(_) => 14_100,
    };
    let loss = profile(error)
        .expect("a profile")
        .per_packet(LossProfile::BURST_MILLIPACKETS);
    let direction = |rate, delay| DirectionSpec {
        delay: Duration::from_millis(delay),
        extra: ExtraDelay::Constant(Duration::from_millis(15)),
        loss,
        ..DirectionSpec::new(rate, buffer)
    };
    let controller = ControllerSpec::new(algorithm, []).expect("a controller");
    let mut transmission = controller
        .entry()
        .suggested
        .apply(TransmissionParameters::DEFAULT);
    transmission.max_retransmit = 20;
    transmission.rto_max = transmission.rto_max.or(Some(Duration::from_secs(60)));
    let link = LinkSpec {
        down: direction(30_000, 400),
        up: direction(60_000, 200),
    };
    let workload = Workload::Requests(Requests {
        count: 1,
        response_bytes: 102_400,
        block_bytes: 256,
        path: "hello".to_owned(),
        ..Requests::default()
    });
    let network = NetworkSpec::Link(LinkNetworkSpec::new(link, 296));
    let measured = ClientGroup {
        start: Span {
            low: Duration::ZERO,
            high: Duration::from_secs(1),
        },
        transport,
        transmission,
        controller,
        ..ClientGroup::new(clients, workload)
    };
    let time_limit = Duration::from_secs(12 * 3_600);
    RunSpec::new(seed, network, measured, time_limit)
}

/// The transfers of the tables: `default` and `cocoa-001` over UDP, New Reno and BBR over TCP.
fn specs(clients: u32, error: &str, seed: u64) -> Vec<(&'static str, RunSpec)> {
    let mut all: Vec<_> = ["default", "cocoa-001"]
        .map(|name| (name, spec(clients, error, name, Transport::Datagrams, seed)))
        .into();
    for (name, congestion) in [
        ("tcp-newreno", Algorithm::NewReno),
        ("tcp-bbr1", Algorithm::Bbr1),
    ] {
        let tcp = Transport::Connections(TcpSettings {
            congestion,
            ..TcpSettings::THESIS
        });
        all.push((name, spec(clients, error, "default", tcp, seed)));
    }
    all
}

fn main() {
    let runs = 200;
    for clients in [1, 4] {
        for error in ["none", "low", "medium", "high"] {
            for (k, (algorithm, _)) in specs(clients, error, 0).iter().enumerate() {
                let began = Clock::now();
                let mut events = 0;
                for seed in 0..runs {
                    let spec = &specs(clients, error, seed)[k].1;
                    let record = carob_sim::run(spec).expect("a run");
                    events += record.events_handled;
                }
                let micros = began.elapsed().as_secs_f64() * 1e6 / runs as f64;
                let per_event = micros * 1e3 * runs as f64 / events as f64;
                println!(
                    "{clients} client(s), {error:6} error, {algorithm:11}: {micros:7.0} us a run, \
                     {:5} events, {per_event:4.0} ns an event",
                    events / runs
                );
            }
        }
    }
}
